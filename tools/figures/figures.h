/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the figures of `limber figures`. */
#ifndef LIMBER_FIGURES_H
#define LIMBER_FIGURES_H

#include "tools/cli/cli.h"

struct figures {
    limber_context *ctx, *whole;    /* whole: one plan a product */
    const char *dir;
    struct cJSON *json;             /* NULL: tables to stdout */
    int threads;
    bool quick;                     /* sizes for tests */
    bool undrawn;                   /* there is no gnuplot */
};

enum { MOST_PICTURES = 2 };

/* The first row has the heads; later rows are as long. */
struct table {
    int columns, count; /* cells */
    char **cell;
    bool failed; /* no memory */
};
/* Adds cells: w a word, n a number (NaN: an empty cell). */
void table_add(struct table *t, const char *kinds, ...);

/* gnuplot's commands for one picture NAME.svg of the data, which is $data. */
struct picture {
    const char *name, *script;
    int height;
};

/* What a figure shows. */
struct figure {
    const char *name, *about;
    const char *heads, *brief; /* of the data, and of what is printed instead (NULL: the data) */
    bool (*fill)(struct figures *f, struct table *data, struct table *brief);
    struct picture picture[MOST_PICTURES];
};
extern const struct figure figure_types, figure_sums, figure_range, figure_fallbacks, figure_sweep,
    figure_overhead, figure_reductions;

/* Computes a figure, writes NAME.csv and the pictures beside it, and prints it.  False after a
 * message. */
bool figure_make(struct figures *f, const struct figure *figure);

/* What is being done, to a terminal. */
void figure_note(const struct figures *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- products -------------------------------------------------------------------------------- */

/* Dense and row-major, all in one format. */
struct factors {
    int64_t m, n, k;
    limber_format format;
    void *a, *b, *c;
};
bool factors_alloc(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format);
void factors_free(struct factors *x);
limber_status factors_multiply(limber_context *ctx, const limber_contract *contract,
                               const struct factors *x, limber_report *report);
/* Against MPFR, in up to 16 rows and columns. */
struct verdict factors_check(const struct factors *x);
/* The least time of one call: processor time where one thread works, since others may use the
 * machine.  NAN: the contract is refused; *failed: another failure, after a message. */
double factors_time(const struct figures *f, limber_context *ctx, const limber_contract *contract,
                    const struct factors *x, limber_report *report, bool *failed);
double random_unit(uint64_t *state); /* in [0,1) */

#endif
