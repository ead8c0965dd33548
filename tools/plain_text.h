/* SPDX-License-Identifier: BSD-3-Clause
 * Makes text of others (files, their names, other programs' reports) harmless for a person who
 * reads it on a terminal.  Terminals obey control characters, which could move the cursor, rename
 * the window or hide a line. */
#ifndef LIMBER_PLAIN_TEXT_H
#define LIMBER_PLAIN_TEXT_H

#include <stddef.h>

/* State between two pieces of a text, zero at first: an incomplete UTF-8 character. */
struct plain_text {
    unsigned char lead;
    int missing; /* number of bytes that the character still lacks */
};
enum { PLAIN_TEXT_MOST = 6 }; /* largest number of bytes that replace one byte */

/* Copies n bytes; control characters except tab and newline become \u001b and the like, as in JSON.
 * `to` has room for n PLAIN_TEXT_MOST bytes.  Returns how many are written. */
size_t plain_text_copy(struct plain_text *state, char *to, const char *from, size_t n);

/* Returns a copy of a complete text, with control characters replaced, which the caller frees.
 * NULL if memory is exhausted. */
char *plain_text_of(const char *s);

/* Filters everything that is printed on standard output from now on. */
void plain_text_output(void);

#endif
