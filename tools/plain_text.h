/* SPDX-License-Identifier: BSD-3-Clause
 * Neutralises text of others (files, their names, other programs' reports) that a person reads.  A
 * terminal obeys control characters: they could move the cursor, rename the window or hide a
 * line. */
#ifndef LIMBER_PLAIN_TEXT_H
#define LIMBER_PLAIN_TEXT_H

#include <stddef.h>

/* State between pieces of a text, zero at its start: the incomplete UTF-8 character. */
struct plain_text {
    unsigned char lead;
    int missing; /* bytes that the character still needs */
};
enum { PLAIN_TEXT_MOST = 6 };   /* most bytes that replace one byte */

/* Copies n bytes; control characters except tab and newline become \u001b and the like, as in JSON.
 * `to` has room for PLAIN_TEXT_MOST n bytes.  Returns the bytes written. */
size_t plain_text_copy(struct plain_text *state, char *to, const char *from, size_t n);

/* Returns a whole text for free(); NULL: out of memory. */
char *plain_text_of(const char *s);

/* Filters everything that is printed on standard output from now on. */
void plain_text_output(void);

#endif
