/* SPDX-License-Identifier: BSD-3-Clause
 * Writes files that the user names, in such a way that a failure keeps the old content. */
#ifndef LIMBER_OUTPUT_H
#define LIMBER_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* An output file.  A regular or new file is replaced atomically: the content is written to a
 * temporary file beside it, which is renamed at the end.  A link to a regular file is followed.  An
 * old file keeps its permissions and owner; a new one gets those of the umask.  Anything else (a
 * device, a pipe, /dev/stdout) is written directly. */
struct output {
    FILE *f;
    char *path, *temporary; /* owned; both are NULL if the file is written in place */
};
/* output_open and output_close return false and set errno on failure.  Every opened output must
 * be closed. output_close renames the temporary file if `ok`, else deletes it. */
bool output_open(struct output *o, const char *path);
bool output_close(struct output *o, bool ok);

/* Appends text to a file, or creates the file, in one write, so that texts of several processes do
 * not mix.  Returns false, with errno set, on failure. */
bool output_append(const char *path, const char *text, size_t length);

#endif
