/* SPDX-License-Identifier: BSD-3-Clause
 * The meaning of a plan: one evaluator per operation, element by element. */
#ifndef LIMBER_EVAL_H
#define LIMBER_EVAL_H

#include "backends/backend.h"

#include <stdlib.h>

/* The value of a node; which fields are used depends on its operation. */
struct val {
    const struct view *view;    /* operands */
    int64_t lines;
    double *limb;               /* limb sets: [limb][line][p]; every limb value is a double */
    struct loaded *loaded;      /* quantized operands: [line][p] */
    int *scale;                 /* limb sets: [line]; limbs are of x 2^scale */
    int64_t *sum;               /* exact totals: [accumulator][i][j] */
    double *total;              /* float totals: [accumulator][i][j] */
    uint64_t *word;             /* exact values: [i][j][words], two's complement */
    int words, base;            /* bit 0 counts 2^(base - scales of the line and the column) */
    const int *scale_a, *scale_b;
};

struct eval {
    const struct plan *p;
    struct call *c;
    struct val *val;
    struct diag *d;
    struct view operand[2];        /* A and B */
    struct index_map map[2];    /* convolutions: the index maps of operand[] */
    struct view view[2];        /* A and B in the plan's order along k */
    struct index_map ordered[2]; /* convolutions: the index maps of view[] */
    int64_t k;                  /* elements along k, with the padding of that order */
    struct output_view out;     /* C */
};

/* Allocates a x b x c zeroed elements, at least one; NULL with an error if that is too much. */
static inline void *alloc_array(struct eval *e, int64_t a, int64_t b, int64_t c, size_t size)
{
    __int128 n = (__int128)(a ? a : 1) * (b ? b : 1) * (c ? c : 1) * (__int128)size;
    void *p = n < (__int128)PTRDIFF_MAX ? calloc((size_t)n, 1) : NULL;

    if (!p)
        limber_fail(e->d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory");
    return p;
}

static inline double *limb_at(const struct eval *e, struct val *v, int limb, int64_t line,
                              int64_t p)
{
    return &v->limb[(limb * v->lines + line) * e->k + p];
}

/* products.c: the operation `products`. */
bool limber_interp_products(struct eval *e, const struct node *n, struct val *v);

bool limber_interp_eval(const struct plan *p, struct call *c, struct diag *d);

#endif
