/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the figures of `limber reproduce` share. */
#ifndef LIMBER_FIGURES_H
#define LIMBER_FIGURES_H

#include "tools/cli/cli.h"

/* The options of `limber figures`, and where figures are written. */
struct figures {
    limber_context *ctx, *whole; /* whole: a context that never divides a product into parts */
    limber_context *gpu;         /* NULL without a GPU */
    const char *dir;
    const char *data; /* folder of the programs' data; NULL: as LIMBER_DATA says */
    struct cJSON *json;             /* owned; NULL: tables are printed on stdout */
    int threads;
    bool quick;                     /* sizes are small, for tests */
    bool undrawn;                   /* gnuplot is not installed, and pictures are left out */
};

enum { MOST_PICTURES = 2 };

/* A table of strings, row by row.  The first row has the heads of the columns. */
struct table {
    int columns, count; /* number of columns; number of cells */
    char **cell;
    bool failed; /* memory is exhausted */
};
/* Adds a cell for each letter of `kinds`: w takes a string, n a number, whose cell is empty if it
 * is NaN. */
void table_add(struct table *t, const char *kinds, ...);

/* gnuplot commands that draw the file NAME.svg from the data block $data. */
struct picture {
    const char *name, *script;
    int height;
};

/* A figure's data and pictures. */
struct figure {
    const char *name, *about;
    /* heads: heads of the data's columns.  brief: heads of a summary's columns, which is printed
     * instead of the data; NULL to print the data. */
    const char *heads, *brief;
    bool (*fill)(struct figures *f, struct table *data, struct table *brief);
    struct picture picture[MOST_PICTURES];
};
extern const struct figure figure_types, figure_sums, figure_range, figure_slices, figure_fallbacks,
    figure_sweep, figure_overhead, figure_reductions, figure_ape_sweep, figure_ape_types,
    figure_ape_gemm, figure_ape_integers, figure_lpgemm_error, figure_lpgemm_times, figure_ladder,
    figure_ladder_gpu, figure_slices_speed;

/* Computes a figure, writes NAME.csv and its pictures, and prints it.  On failure prints a message
 * and returns false. */
bool figure_make(struct figures *f, const struct figure *figure);

/* Prints progress, if stderr is a terminal. */
void figure_note(const struct figures *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- products -------------------------------------------------------------------------------- */

/* Contiguous row-major matrices: A and B of one format, and their product C. */
struct factors {
    int64_t m, n, k;
    limber_format format, result; /* format: of A and B; result: of C */
    void *a, *b, *c;
};
bool factors_alloc(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format,
                   const char *result);
/* Stores y, rounded to the format, as element `at` of A or B, which are of binary64 or binary32. */
void factors_set(const struct factors *x, void *matrix, int64_t at, double y);
void factors_free(struct factors *x);
limber_status factors_multiply(limber_context *ctx, const limber_contract *contract,
                               const struct factors *x, limber_report *report);
/* Compares at most 16 rows and columns of C with the exact result, computed by MPFR. */
struct verdict factors_check(const struct factors *x);
/* Returns the smallest time of several calls of run(user), by figure_clock.  The first call does
 * not count, since it may compile.  NAN as soon as a call returns false. */
double figure_time(const struct figures *f, bool (*run)(void *user), void *user);
/* Returns the smallest time of a product.  NAN if the contract is refused; on another failure
 * prints a message and sets *failed. */
double factors_time(const struct figures *f, limber_context *ctx, const limber_contract *contract,
                    const struct factors *x, limber_report *report, bool *failed);
/* Returns seconds: with one thread the CPU time of this process, since other programs may use the
 * machine, else the time of day. */
double figure_clock(const struct figures *f);
double random_unit(uint64_t *state); /* uniform in [0,1) */

#endif
