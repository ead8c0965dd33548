/* SPDX-License-Identifier: BSD-3-Clause
 * Words and numbers of texts, independent of the locale.  Only files of ir/ and research/ that read
 * or print text include this. */
#ifndef LIMBER_LEX_H
#define LIMBER_LEX_H

#include "ir/ir.h"

/* A piece of a text, not zero-terminated. */
struct word {
    const char *s;
    size_t n;
};

/* Returns the word at *at, which ends before white space, and moves *at to its end.  At the end
 * of the line or text the word is empty. */
struct word limber_lex_word(const char **at);
/* True if the word equals the text. */
bool limber_lex_is(struct word w, const char *text);
/* Splits w at the first c: returns the part before it, and leaves the part after it in w.  If w has
 * no c, returns all of w and leaves it empty. */
struct word limber_lex_cut(struct word *w, char c);
/* Reads an integer that is the complete word.  Returns false if the word is not an integer, or
 * does not fit. */
bool limber_lex_int(struct word w, int64_t *v);
/* Reads "0", "2^-11", "0x1.8p+3", or a decimal such as "4.6e10".  Returns false if the word is none
 * of these. */
bool limber_lex_number(struct word w, double *v);

/* Prints a number exactly: 0 as "0", powers of two as 2^e, others as hexadecimal floats. */
void limber_print_number(struct text *out, double v);

#endif
