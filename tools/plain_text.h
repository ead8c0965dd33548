/* SPDX-License-Identifier: BSD-3-Clause
 * Text of others (files, their names, other programs' reports) in what a person reads.  A terminal
 * obeys control characters: they could move the cursor, rename the window or hide a line. */
#ifndef LIMBER_PLAIN_TEXT_H
#define LIMBER_PLAIN_TEXT_H

#include <stddef.h>

/* Zeros at the beginning of a text: what is known of a character of UTF-8 that goes on. */
struct plain_text {
    unsigned char lead;
    int missing; /* bytes */
};
enum { PLAIN_TEXT_MOST = 6 };   /* bytes that one can become */

/* Copies n bytes; control characters but tabs and the ends of lines become \u001b and the like, as
 * in JSON.  `to` has room for PLAIN_TEXT_MOST times n bytes.  Returns how many it got. */
size_t plain_text_copy(struct plain_text *state, char *to, const char *from, size_t n);

/* All of a text, for free(); NULL: no memory. */
char *plain_text_of(const char *s);

/* From now on standard output shows text so, whoever prints. */
void plain_text_output(void);

#endif
