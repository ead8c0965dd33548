/* SPDX-License-Identifier: BSD-3-Clause
 * Words and numbers of the text forms; only the files of ir/ that read or print text include
 * this.  Independent of the locale. */
#ifndef LIMBER_LEX_H
#define LIMBER_LEX_H

#include "ir/ir.h"

/* A piece of a text that is not zero-terminated. */
struct word {
    const char *s;
    size_t n;
};

/* The next word of *at, up to a space or the end of the line, which is not crossed. */
struct word limber_lex_word(const char **at);
bool limber_lex_is(struct word w, const char *text);
/* Cuts w at the first c: returns the part before it; w keeps the part after it.  Without c all
 * of w is returned and w is empty. */
struct word limber_lex_cut(struct word *w, char c);
/* Reads an integer that is the whole word; false: no number, or one that does not fit. */
bool limber_lex_int(struct word w, int64_t *v);
/* Reads "0", "2^-11", "0x1.8p+3" or a decimal such as "4.6e10". */
bool limber_lex_number(struct word w, double *v);

/* Prints powers of two as 2^e, other numbers as hexadecimal floats, zero as 0. */
void limber_print_number(struct text *out, double v);

#endif
