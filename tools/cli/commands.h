/* SPDX-License-Identifier: BSD-3-Clause
 * The commands of `limber`, their options, and the words that they take. */
#ifndef LIMBER_COMMANDS_H
#define LIMBER_COMMANDS_H

#include "tools/cli/cli.h"

struct poptOption;

struct command {
    const char *name, *about, *page;
    const char *takes; /* behind the name, as an option's argument is described: "FILE", the name of
                          a kind of words, or words with | between; NULL: nothing */
    int (*run)(int argc, const char **argv);
    bool parts; /* each of the words it takes has options of its own */
};
/* The i-th command; NULL past the end. */
const struct command *command_at(int i);
const struct command *command_named(const char *name); /* NULL: none */

/* Calls visit with the table of a command's options, as --help prints it.  part: NULL, or one of
 * the words that have options of their own. */
void command_options(const struct command *c, const char *part,
                     void (*visit)(void *user, const struct poptOption *table), void *user);

/* Kinds of words: "command", "format" and so on; an option that takes one says FORMAT. */
struct word_kind {
    const char *name, *page; /* NULL: each word has its own, by page_of */
    const char *more; /* a command line that says more, with %s for the word; NULL: none */
    const char *(*at)(int i); /* the i-th word; what ends in = goes on; NULL past the end */
    void (*tell)(const char *word); /* prints lines about one of the words */
    const char *(*page_of)(const char *word);
};
const struct word_kind *word_kind_at(int i);
const struct word_kind *word_kind_named(const char *name); /* one of them */
/* The kind that an option's argument describes ("FORMAT"); NULL: none. */
const struct word_kind *word_kind_taken(const char *description, size_t length);
/* The word of the kind that `text` is: itself or, of formats, the name that is printed.  NULL: it
 * is none. */
const char *word_find(const struct word_kind *kind, const char *text);
/* Of a kind's words, the i-th that goes on where `text` ends: ozaki1-i8 for ozaki1; NULL: none. */
const char *word_under(const struct word_kind *kind, const char *text, int i);
/* "; near: A, B" for words of the kind (NULL: of all) that look like text, or "".  Of a kind the
 * text may go on behind a space: "UNIT group=4". */
const char *words_near(const struct word_kind *kind, const char *text);

/* A fact of a format that binary64 does not hold ("largest"), as text; NULL: it does, or there is
 * none. */
const char *fact_beyond_f64(const limber_format_facts *x, const char *name, char text[60]);

/* topics.c: words that name nothing and have a page, routines of a BLAS, functions of elements. */
const char *topic_word(int i);
const char *topic_about(const char *word); /* NULL: it is no topic */
const char *topic_page(const char *word);
void topic_tell(const char *word);
const char *routine_word(int i);
void routine_tell(const char *word);
const char *function_word(int i);
void function_tell(const char *word);

#endif
