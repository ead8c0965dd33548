/* SPDX-License-Identifier: BSD-3-Clause
 * Folders of text tests. */
#ifndef LIMBER_TEST_FILES_H
#define LIMBER_TEST_FILES_H

#include <stddef.h>

/* The whole file, zero-terminated, to be freed; NULL when it cannot be read. */
char *test_file_read(const char *path);
int test_file_write(const char *path, const char *text);    /* 0: written */

/* Calls each(user, path) for every *.lir of the folder, in the order of their names; returns how
 * many there were. */
size_t test_files_each(const char *folder, void (*each)(void *user, const char *path), void *user);

#endif
