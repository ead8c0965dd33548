/* SPDX-License-Identifier: BSD-3-Clause
 * The corpus of problems: parsed lines, and the outcome on each machine. */
#ifndef LIMBER_TEST_CORPUS_H
#define LIMBER_TEST_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- words.c: a line of problems.txt, "verb key=value ..." ----------------------------------- */

enum { WORDS = 32 };
struct words {
    char text[512]; /* words point into it */
    const char *verb, *key[WORDS], *value[WORDS];
    bool used[WORDS]; /* the word was looked up */
    int count;
};
bool words_read(struct words *w, const char *line);
/* The value of a key, or `otherwise`. */
const char *word(struct words *w, const char *key, const char *otherwise);
long number(struct words *w, const char *key, long otherwise);
/* Parses "2" or "2,1" into count numbers; a single number is repeated. */
void numbers(struct words *w, const char *key, double otherwise, double *v, int count);
const char *words_unused(const struct words *w); /* NULL: none */

/* ---- adapter.c: the interface to the library ------------------------------------------------- */

/* Names of the simulated machines; NULL at the end. */
extern const char *const corpus_machines[];
enum { MACHINES = 8 }; /* upper bound of their number */

/* Whether this build can generate code for the machine. */
bool corpus_plays(const char *machine);
/* Limits the CPU features of this computer to those of a machine.  False: unknown machine. */
bool corpus_pretend(const char *machine);

enum kind {
    KIND_stated, /* plans as the caller states them */
    KIND_told, /* what the library reports about the call: reasons, report, messages */
    KIND_plan, /* plans after all passes */
    KIND_config, /* the constants that templates are specialised with, as bytes */
    KIND_code, /* generated text: LLVM's IR or CUDA source */
    KIND_bits, /* the status if it is not OK, else the result */
    KIND_count
};
extern const char *const corpus_kinds[KIND_count];

struct outcome {
    char *text[KIND_count]; /* NULL: not available for this machine */
    size_t size[KIND_count];
    bool here; /* false: this computer cannot execute the machine's code; no bits */
};

/* Runs a line's problem for a machine.  False, with a reason, if the line is invalid. */
bool corpus_run(struct words *w, const char *machine, int threads, struct outcome *o,
                char why[256]);
void corpus_clear(struct outcome *o);
/* Writes the headers that all CUDA sources include. */
void corpus_headers(FILE *out);
/* Must be called first: removes the environment's influence. */
void corpus_begin(void);
void corpus_end(void); /* frees what is kept between calls */

/* ---- plain.c: texts independent of names and versions ---------------------------------------- */

/* Normalises LLVM IR (numbers names; removes comments, metadata and constant bytes) and C (removes
 * comments and blanks). */
void plain_llvm(const char *text, FILE *out);
void plain_c(const char *text, FILE *out);

#endif
