/* SPDX-License-Identifier: BSD-3-Clause
 * The commands of `limber`, their options, and the words that they take. */
#ifndef LIMBER_COMMANDS_H
#define LIMBER_COMMANDS_H

#include "tools/cli/cli.h"

struct poptOption;

/* A command of `limber`. */
struct command {
    const char *name, *about, *page;
    /* Argument after the command's name, in the form of an option's description: "FILE", a kind
     * of words, or words with | between.  NULL if there is none. */
    const char *takes;
    int (*run)(int argc, const char **argv);
    bool parts; /* each word of `takes` has options of its own */
};
/* The i-th command; NULL past the end. */
const struct command *command_at(int i);
const struct command *command_named(const char *name); /* NULL if there is none */

/* Calls visit for each option table that --help prints. part: NULL, or the word of `takes` whose
 * options are meant. */
void command_options(const struct command *c, const char *part,
                     void (*visit)(void *user, const struct poptOption *table), void *user);

/* A kind of words, such as "command" or "format".  An option whose argument is such a word is
 * described as FORMAT. */
struct word_kind {
    /* page: page of the documentation about these words; if NULL, page_of(word) returns it */
    const char *name, *page;
    /* format string of a command line that prints more about the word %s, or NULL */
    const char *more;
    /* returns the i-th word, NULL past the end; a word that ends in = is a prefix of words */
    const char *(*at)(int i);
    void (*tell)(const char *word); /* prints lines about a word */
    const char *(*page_of)(const char *word);
};
const struct word_kind *word_kind_at(int i);
/* The kind of this name, which must exist. */
const struct word_kind *word_kind_named(const char *name);
/* The kind that an option's description, such as "FORMAT", names; NULL if it names none. */
const struct word_kind *word_kind_taken(const char *description, size_t length);
/* Looks up a word of the kind.  A format's other names are found, too: returns the name that Limber
 * prints.  NULL if the word is unknown. */
const char *word_find(const struct word_kind *kind, const char *text);
/* The i-th word of the kind that begins with text, such as ozaki1-i8 for ozaki1.  NULL past the
 * end. */
const char *word_with_prefix(const struct word_kind *kind, const char *text, int i);
/* Returns "; near: A, B" for words of the kind (NULL: of all kinds) that resemble the text; "" if
 * there are none.  The text may have further words, as in "UNIT group=4". */
const char *words_near(const struct word_kind *kind, const char *text);

/* Returns the text of a fact of a format, such as "largest", whose value binary64 cannot hold.
 * NULL if it can, or if there is no such fact. */
const char *fact_beyond_f64(const limber_format_facts *x, const char *name, char text[60]);

/* topics.c: topics, BLAS routines and elementwise functions.  A topic only refers to a page. */
const char *topic_word(int i);
const char *topic_about(const char *word); /* NULL if it is no topic */
const char *topic_page(const char *word);
void topic_tell(const char *word);
/* cmd_reproduce.c: names of figures and tables of papers. */
const char *reproduced_word(int i);
void reproduced_tell(const char *word);
const char *routine_word(int i);
void routine_tell(const char *word);
const char *function_word(int i);
void function_tell(const char *word);

#endif
