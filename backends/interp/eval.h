/* SPDX-License-Identifier: BSD-3-Clause
 * The interpreter's state, and its evaluators of operations. */
#ifndef LIMBER_EVAL_H
#define LIMBER_EVAL_H

#include "backends/backend.h"

#include <stdlib.h>

/* The value of a node.  Its operation determines which fields are used. */
struct val {
    const struct view *view;    /* operands and limbs: where the operand's elements lie */
    /* number of rows of A or columns of B */
    int64_t lines;
    /* limbs: [limb][line][p], where a line is a row of A or column of B; each is exact as a
     * double */
    double *limb;
    struct loaded *loaded;      /* quantized operands: [line][p] */
    int *scale; /* limbs: [line]: exponents; the limbs are those of x 2^scale */
    int64_t *sum;               /* exact sums: [accumulator][row][column] */
    double *total;              /* floating-point sums: [accumulator][row][column] */
    uint64_t *word;             /* exact values: [row][column][words], in two's complement */
    /* words per element; bit 0 of an element is 2^(base - scale_a[row] - scale_b[column]) */
    int words, base;
    const int *scale_a, *scale_b;
};

/* The evaluation of one plan for one call. */
struct eval {
    const struct plan *p;
    struct call *c;
    struct val *val; /* [node of the plan]: the node's value */
    struct diag *d;
    struct view operand[2];     /* views of A and B in memory order along k */
    struct index_map map[2];    /* convolutions: the index maps of operand[] */
    struct view view[2];        /* views of A and B in the plan's order along k */
    struct index_map ordered[2]; /* convolutions: the index maps of view[] */
    int64_t k; /* number of elements along k in the plan's order, with the zeros that it adds */
    struct output_view out;     /* where C is stored */
};

/* Allocates a x b x c zeroed elements; a factor of 0 counts as 1.  Returns NULL, with an error, if
 * that fails. */
static inline void *alloc_array(struct eval *e, int64_t a, int64_t b, int64_t c, size_t size)
{
    __int128 n = (__int128)(a ? a : 1) * (b ? b : 1) * (c ? c : 1) * (__int128)size;
    void *p = n < (__int128)PTRDIFF_MAX ? calloc((size_t)n, 1) : NULL;

    if (!p)
        limber_fail(e->d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory");
    return p;
}

/* Returns the address of element p of a line in a limb of v. */
static inline double *limb_at(const struct eval *e, struct val *v, int limb, int64_t line,
                              int64_t p)
{
    return &v->limb[(limb * v->lines + line) * e->k + p];
}

/* Evaluates `products` (products.c).  Returns false with an error if that fails. */
bool limber_interp_products(struct eval *e, const struct node *n, struct val *v);

/* Evaluates a plan for one call.  Returns false on an error. */
bool limber_interp_eval(const struct plan *p, struct call *c, struct diag *d);

#endif
