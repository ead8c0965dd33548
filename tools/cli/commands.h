/* SPDX-License-Identifier: BSD-3-Clause
 * The commands of `limber`, their options, and the words that they take. */
#ifndef LIMBER_COMMANDS_H
#define LIMBER_COMMANDS_H

#include "tools/cli/cli.h"

struct poptOption;

struct command {
    const char *name, *about, *page;
    /* argument after the name, described as an option's: "FILE", a kind of words, or words with |
     * between; NULL: no argument */
    const char *takes;
    int (*run)(int argc, const char **argv);
    bool parts; /* each of the words has options of its own */
};
/* The i-th command; NULL past the end. */
const struct command *command_at(int i);
const struct command *command_named(const char *name); /* NULL: none */

/* Calls visit with each option table that --help prints. part: NULL, or the word whose own options
 * are meant. */
void command_options(const struct command *c, const char *part,
                     void (*visit)(void *user, const struct poptOption *table), void *user);

/* A kind of words, such as "command" or "format".  An option that takes one is described as
 * FORMAT. */
struct word_kind {
    const char *name, *page; /* page: documentation page; NULL: page_of(word) */
    const char *more; /* format string of a command line that prints more about %s; NULL: none */
    const char *(*at)(int i); /* the i-th word, a prefix if it ends in =; NULL past the end */
    void (*tell)(const char *word); /* prints lines about a word */
    const char *(*page_of)(const char *word);
};
const struct word_kind *word_kind_at(int i);
/* the kind with this name, which must exist */
const struct word_kind *word_kind_named(const char *name);
/* The kind that an option's description ("FORMAT") names; NULL: none. */
const struct word_kind *word_kind_taken(const char *description, size_t length);
/* Looks a word up: itself, or a format's other name, for which the printed name is returned.  NULL:
 * unknown. */
const char *word_find(const struct word_kind *kind, const char *text);
/* The i-th word of the kind with text as a prefix: ozaki1-i8 for ozaki1.  NULL: none. */
const char *word_under(const struct word_kind *kind, const char *text, int i);
/* "; near: A, B" for words of the kind (NULL: of all kinds) that resemble text, or "". text may
 * have more words after the kind's: "UNIT group=4". */
const char *words_near(const struct word_kind *kind, const char *text);

/* Text of a fact of a format ("largest") that is outside binary64's range; NULL: it is inside, or
 * there is no such fact. */
const char *fact_beyond_f64(const limber_format_facts *x, const char *name, char text[60]);

/* topics.c: topics, BLAS routines and elementwise functions.  A topic only refers to a page. */
const char *topic_word(int i);
const char *topic_about(const char *word); /* NULL: not a topic */
const char *topic_page(const char *word);
void topic_tell(const char *word);
const char *routine_word(int i);
void routine_tell(const char *word);
const char *function_word(int i);
void function_tell(const char *word);

#endif
