/* SPDX-License-Identifier: BSD-3-Clause
 * Files and folders of tests. */
#ifndef LIMBER_TEST_FILES_H
#define LIMBER_TEST_FILES_H

#include <stddef.h>

enum { NOBODY = 65534 };        /* a user other than the tester */

/* A new folder under TMPDIR; discard() removes it with its contents and frees its name. */
char *scratch(void);
void discard(char *folder);

/* Fixtures: each test has its own folder `dir`.  in_dir() returns the path of a name in it; its
 * last four results are valid. */
extern char *dir;
const char *in_dir(const char *name);
const char *only_file(void);            /* path of the only file in `dir` */
int make_dir(void **state);
int remove_dir(void **state);
#define unit_test_in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

/* Reads a file to a zero-terminated buffer, which the caller frees; NULL on failure. */
char *test_file_read(const char *path);
int test_file_write(const char *path, const char *text);    /* 0: written */

/* slurp() reads at most `room` bytes of a file and returns their number; spill() writes a file that
 * only its owner may read. */
size_t slurp(const char *path, unsigned char *data, size_t room);
void spill(const char *path, const unsigned char *data, size_t n);

/* Calls each(user, path) for every file of the folder that matches the shell pattern, in the order
 * of names; returns their number. */
size_t test_files_each(const char *folder, const char *names,
                       void (*each)(void *user, const char *path), void *user);

#endif
