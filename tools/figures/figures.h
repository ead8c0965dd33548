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

/* One figure: computes, and ends with figure_write.  False after a message. */
bool figure_types(struct figures *f);
bool figure_sums(struct figures *f);
bool figure_range(struct figures *f);
bool figure_fallbacks(struct figures *f);
bool figure_sweep(struct figures *f);
bool figure_overhead(struct figures *f);

/* What is being done, to a terminal. */
void figure_note(const struct figures *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- sheets ---------------------------------------------------------------------------------- */

/* A table as lines of comma-separated cells, the first one its heads. */
struct sheet {
    FILE *f;
    char *text;
    size_t size;
    bool within; /* a line has begun */
};

bool sheet_open(struct sheet *s, const char *heads);
void sheet_word(struct sheet *s, const char *word);
void sheet_number(struct sheet *s, double x); /* NaN: an empty cell */
void sheet_end_line(struct sheet *s);
void sheet_clear(struct sheet *s);

/* gnuplot's commands for one picture NAME.svg of the sheet, which is $data. */
struct picture {
    const char *name, *script;
    int height;
};

/* Writes data to NAME.csv and the pictures beside it, and tells the brief sheet (NULL: data). */
bool figure_write(struct figures *f, const char *name, struct sheet *data, struct sheet *brief,
                  const struct picture *picture, int pictures);

/* ---- products -------------------------------------------------------------------------------- */

/* Dense and row-major, all in one format. */
struct factors {
    int64_t m, n, k;
    limber_format format;
    void *a, *b, *c;
};
bool factors_take(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format);
void factors_clear(struct factors *x);
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
