/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the figures of `limber figures` share. */
#ifndef LIMBER_FIGURES_H
#define LIMBER_FIGURES_H

#include "tools/cli/cli.h"

struct figures {
    limber_context *ctx, *whole;    /* whole: a context that never partitions a product */
    const char *dir;
    struct cJSON *json;             /* owned; NULL: tables go to stdout */
    int threads;
    bool quick;                     /* small sizes, for tests */
    bool undrawn;                   /* gnuplot is not installed */
};

enum { MOST_PICTURES = 2 };

/* A table of strings, row by row.  The first row has the column heads. */
struct table {
    int columns, count; /* number of columns; number of cells */
    char **cell;
    bool failed; /* out of memory */
};
/* Adds a cell for each letter of kinds: w a string, n a number (NaN: an empty cell). */
void table_add(struct table *t, const char *kinds, ...);

/* gnuplot commands that draw NAME.svg from the data block $data. */
struct picture {
    const char *name, *script;
    int height;
};

/* A figure's data and pictures. */
struct figure {
    const char *name, *about;
    /* heads: columns of the data; brief: columns of the summary that is printed instead (NULL: the
     * data) */
    const char *heads, *brief;
    bool (*fill)(struct figures *f, struct table *data, struct table *brief);
    struct picture picture[MOST_PICTURES];
};
extern const struct figure figure_types, figure_sums, figure_range, figure_fallbacks, figure_sweep,
    figure_overhead, figure_reductions;

/* Computes a figure, writes NAME.csv and the pictures beside it, and prints it.  False after a
 * message. */
bool figure_make(struct figures *f, const struct figure *figure);

/* Prints progress if stderr is a terminal. */
void figure_note(const struct figures *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- products -------------------------------------------------------------------------------- */

/* Dense row-major matrices of one format: A, B and their product C. */
struct factors {
    int64_t m, n, k;
    limber_format format;
    void *a, *b, *c;
};
bool factors_alloc(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format);
void factors_free(struct factors *x);
limber_status factors_multiply(limber_context *ctx, const limber_contract *contract,
                               const struct factors *x, limber_report *report);
/* Compares up to 16 rows and columns with MPFR. */
struct verdict factors_check(const struct factors *x);
/* Minimum time of one call: CPU time for one thread, since other programs may use the machine.
 * NAN: the contract is refused; *failed: another failure, after a message. */
double factors_time(const struct figures *f, limber_context *ctx, const limber_contract *contract,
                    const struct factors *x, limber_report *report, bool *failed);
double random_unit(uint64_t *state); /* in [0,1) */

#endif
