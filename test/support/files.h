/* SPDX-License-Identifier: BSD-3-Clause
 * Files and folders of tests. */
#ifndef LIMBER_TEST_FILES_H
#define LIMBER_TEST_FILES_H

#include <stddef.h>

enum { NOBODY = 65534 };        /* a user who is not the tester */

/* A folder of the test's own under TMPDIR; discard() removes it with all that is in it, and its
 * name. */
char *scratch(void);
void discard(char *folder);

/* The same as a fixture: each test has `dir` for itself.  in_dir() answers the path of a name in
 * it; the last four answers hold. */
extern char *dir;
const char *in_dir(const char *name);
const char *only_file(void);            /* the path of the one file in `dir` */
int make_dir(void **state);
int remove_dir(void **state);
#define unit_test_in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

/* The whole file, zero-terminated, to be freed; NULL when it cannot be read. */
char *test_file_read(const char *path);
int test_file_write(const char *path, const char *text);    /* 0: written */

/* slurp() reads a file, at most `room` bytes, and answers how many there are; spill() writes one
 * that its owner alone may read. */
size_t slurp(const char *path, unsigned char *data, size_t room);
void spill(const char *path, const unsigned char *data, size_t n);

/* Calls each(user, path) for every file of the folder whose name fits the shell's pattern, in the
 * order of names; returns how many there were. */
size_t test_files_each(const char *folder, const char *names,
                       void (*each)(void *user, const char *path), void *user);

#endif
