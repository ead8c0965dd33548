/* SPDX-License-Identifier: BSD-3-Clause
 * Files and folders that tests create. */
#ifndef LIMBER_TEST_FILES_H
#define LIMBER_TEST_FILES_H

#include <stddef.h>

enum { NOBODY = 65534 }; /* user id of a user other than the tester */

/* scratch() creates a folder under TMPDIR and returns its path.  discard() removes the folder with
 * its contents and frees the path. */
char *scratch(void);
void discard(char *folder);

/* Setup and teardown (make_dir, remove_dir) of a test that has its own folder `dir`.  in_dir()
 * returns the path of a name in `dir`; the last four results are valid. */
extern char *dir;
const char *in_dir(const char *name);
/* path of the only file in `dir`; fails the test if there is another number of files */
const char *only_file(void);
int make_dir(void **state);
int remove_dir(void **state);
#define unit_test_in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

/* Reads a file into a zero-terminated buffer, which the caller frees.  NULL if that fails. */
char *test_file_read(const char *path);
int test_file_write(const char *path, const char *text); /* 0 if the file was written */

/* slurp() reads at most `room` bytes of a file and returns how many it has read.  spill() writes a
 * file with mode 0600. */
size_t slurp(const char *path, unsigned char *data, size_t room);
void spill(const char *path, const unsigned char *data, size_t n);

/* Calls each(user, path) for every file in the folder whose name matches a shell pattern, in the
 * order of their names.  Returns the number of files. */
size_t test_files_each(const char *folder, const char *names,
                       void (*each)(void *user, const char *path), void *user);

#endif
