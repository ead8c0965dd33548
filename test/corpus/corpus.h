/* SPDX-License-Identifier: BSD-3-Clause
 * The corpus of problems: lines of problems.txt after parsing, and the outcome for each machine. */
#ifndef LIMBER_TEST_CORPUS_H
#define LIMBER_TEST_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- words.c: a line of problems.txt, "verb key=value ..." ----------------------------------- */

enum { WORDS = 32 };
/* A line, split into its verb, keys and values. */
struct words {
    char text[512]; /* verb, key and value point into this text */
    const char *verb, *key[WORDS], *value[WORDS];
    bool used[WORDS]; /* true if the word was asked for */
    int count;
};
bool words_read(struct words *w, const char *line);
/* Returns the value of a key, or `otherwise` if the line lacks the key. */
const char *word(struct words *w, const char *key, const char *otherwise);
long number(struct words *w, const char *key, long otherwise);
/* Parses "2" or "2,1" into `count` numbers.  If there are fewer, the last one is repeated. */
void numbers(struct words *w, const char *key, double otherwise, double *v, int count);
/* returns a key of the line that no call has asked for, or NULL */
const char *words_unused(const struct words *w);

/* ---- adapter.c: the interface to the library ------------------------------------------------- */

/* Names of the machines, with NULL at the end. */
extern const char *const corpus_machines[];
enum { MACHINES = 8 }; /* at least the number of machines */

/* True if this build can generate code for the machine. */
bool corpus_plays(const char *machine);
/* Assumes from now on that this computer has only the CPU features of a machine.  Returns false if
 * the machine is unknown. */
bool corpus_pretend(const char *machine);

enum kind {
    KIND_stated, /* the plans before all passes */
    KIND_told, /* what the library tells about the call: reasons, the report, errors */
    KIND_plan, /* the plans after all passes */
    KIND_config, /* the constants with which templates are specialised, as bytes */
    KIND_code, /* generated text: LLVM IR or CUDA source */
    KIND_bits, /* the bits of the result, or the name of the status if it is not OK */
    KIND_count
};
extern const char *const corpus_kinds[KIND_count];

/* The record of a problem on one machine. */
struct outcome {
    char *text[KIND_count]; /* NULL or empty if the machine has no text of this kind */
    size_t size[KIND_count];
    /* false if this computer cannot execute the machine's code; the bits then do not count */
    bool here;
};

/* Computes a line's problem for a machine.  Returns false, with a reason in `why`, if the line is
 * invalid. */
bool corpus_run(struct words *w, const char *machine, int threads, struct outcome *o,
                char why[256]);
void corpus_clear(struct outcome *o);
/* Writes the headers that all CUDA sources include. */
void corpus_headers(FILE *out);
/* Must be called first: removes environment variables that influence results. */
void corpus_begin(void);
void corpus_end(void); /* frees what is kept between calls */

/* ---- plain.c: normalised texts --------------------------------------------------------------- */

/* Normalise LLVM IR (replaces names by numbers; removes comments, metadata and constant bytes) and
 * C (removes comments and white space). */
void plain_llvm(const char *text, FILE *out);
void plain_c(const char *text, FILE *out);

#endif
