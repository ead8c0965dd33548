/* SPDX-License-Identifier: BSD-3-Clause
 * Files that the user named, written so that a failure leaves what was there. */
#ifndef LIMBER_OUTPUT_H
#define LIMBER_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* A regular file, or a name that is free, gets its new content at the end, all at once: it is
 * written beside it and renamed.  A link to a regular file is followed, and the file keeps its
 * permissions and its owner, which a new one has from the umask.  Anything else (a device, a pipe,
 * /dev/stdout and its like) is written to as it is. */
struct output {
    FILE *f;
    char *path, *temporary;     /* NULL, NULL: in place */
};
/* False with errno.  An output that is open is to be closed: with `ok` it gets its name, else it
 * goes. */
bool output_open(struct output *o, const char *path);
bool output_close(struct output *o, bool ok);

#endif
