/* SPDX-License-Identifier: BSD-3-Clause
 * The corpus of problems: what is read of a line, and what one machine makes of it. */
#ifndef LIMBER_TEST_CORPUS_H
#define LIMBER_TEST_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- words.c: a line of problems.txt, "verb key=value ..." ----------------------------------- */

enum { WORDS = 32 };
struct words {
    char text[512]; /* the words lie here, cut apart */
    const char *verb, *key[WORDS], *value[WORDS];
    bool used[WORDS]; /* somebody asked for it */
    int count;
};
bool words_read(struct words *w, const char *line);
/* The value of a key, or `otherwise`. */
const char *word(struct words *w, const char *key, const char *otherwise);
long number(struct words *w, const char *key, long otherwise);
/* "2" or "2,1" into count numbers; one number stands for all. */
void numbers(struct words *w, const char *key, double otherwise, double *v, int count);
const char *words_unused(const struct words *w); /* NULL: none */

/* ---- adapter.c: all that knows the library --------------------------------------------------- */

/* The machines that are played, by name; NULL at the end. */
extern const char *const corpus_machines[];
enum { MACHINES = 8 }; /* at least as many as there are */

/* False: this build has no compiler for the machine, or finds none. */
bool corpus_plays(const char *machine);
/* From now on this computer has at most the CPU features of that machine.  False: no such one. */
bool corpus_pretend(const char *machine);

enum kind {
    KIND_stated, /* plans as the caller states them */
    KIND_told, /* what the library says about the call: reasons, report, messages */
    KIND_plan, /* plans after all passes */
    KIND_config, /* the constants that templates are specialised with, as bytes */
    KIND_code, /* generated text: LLVM's IR or CUDA source */
    KIND_bits, /* the name of a status that is not OK, else the result */
    KIND_count
};
extern const char *const corpus_kinds[KIND_count];

struct outcome {
    char *text[KIND_count]; /* NULL: this machine has none */
    size_t size[KIND_count];
    bool here; /* false: this computer cannot execute the machine's code; no bits */
};

/* Does the line's problem on a machine.  False with a reason where the line means nothing. */
bool corpus_run(struct words *w, const char *machine, int threads, struct outcome *o,
                char why[256]);
void corpus_clear(struct outcome *o);
/* The files that all CUDA sources include. */
void corpus_headers(FILE *out);
/* Called once, before all: nothing of the environment counts. */
void corpus_begin(void);
void corpus_end(void); /* gives back what was kept from call to call */

/* ---- plain.c: texts without what names and versions decide ----------------------------------- */

/* LLVM's IR with its names numbered, without comments, metadata and constant bytes; C without
 * comments and blanks. */
void plain_llvm(const char *text, FILE *out);
void plain_c(const char *text, FILE *out);

#endif
