/* SPDX-License-Identifier: BSD-3-Clause
 * Writes files that the user names, so that a failure leaves the old content. */
#ifndef LIMBER_OUTPUT_H
#define LIMBER_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* A regular file gets its new content at the end, all at once: the content is written beside it and
 * renamed.  So does a new file.  A link to a regular file is followed.  An old file keeps its
 * permissions and owner; a new file has those of the umask.  Anything else (a device, a pipe,
 * /dev/stdout) is written directly. */
struct output {
    FILE *f;
    char *path, *temporary; /* NULL, NULL: in place */
};
/* False with errno.  Close every open output.  With `ok` the file gets its name, else it is
 * removed. */
bool output_open(struct output *o, const char *path);
bool output_close(struct output *o, bool ok);

/* Adds text to a file's end, or makes the file, in one write: texts of several processes stay
 * whole.  False with errno. */
bool output_append(const char *path, const char *text, size_t length);

#endif
