/* SPDX-License-Identifier: BSD-3-Clause
 * Products of complex matrices as real ones.  Elements are pairs (re, im); strides count pairs. */
#ifndef LIMBER_JIT_COMPLEX_H
#define LIMBER_JIT_COMPLEX_H

#include "jit/api/api.h"

struct pairs {
    limber_matrix m;
    bool conj;
};

/* A call whose arguments are checked, transposed so that the rows of C lie together if its columns
 * did. */
struct complex_product {
    limber_context *ctx;
    limber_contract contract;
    const limber_queue *queue;
    int64_t m, n, k;
    struct pairs a, b;
    limber_output c;
    const char *alpha, *beta;   /* pairs; NULL: 1, 0 */
    struct report *report;
    limber_batch batch;         /* in a device's memory, all at once; count 0: there is none */
};

static inline int64_t limber_complex_products(const struct complex_product *x)
{
    return x->batch.count ? x->batch.count : 1;
}

/* What alpha and beta multiply: for every element of C the pair of A B and, with beta, of C. */
struct terms {
    char *data;
    limber_format f;            /* C's, or i64 */
    int64_t width;              /* parts an element: 2 or 4 */
    char *factors;              /* alpha and beta, where both lie on the device; else NULL */
};
bool limber_terms_new(struct terms *t, const struct complex_product *x, struct diag *d);
/* C = alpha A B + beta C from the terms; they are freed. */
bool limber_terms_finish(struct terms *t, const struct complex_product *x, struct diag *d);
void limber_terms_drop(struct terms *t, const struct complex_product *x);

/* Runs fn for every task, side by side where there is enough to do. */
void limber_complex_share(limber_context *ctx, int64_t tasks, int64_t elements,
                          void (*fn)(void *arg, int64_t task, int worker), void *arg);
/* count elements; NULL with a text about `what`. */
void *limber_complex_memory(const limber_context *ctx, int64_t rows, int64_t cols, limber_format f,
                            const char *what, struct diag *d);

/* The number at `at` becomes its negative; of integers false where it has none. */
void limber_negate_float(char *at, limber_format f);
bool limber_negate_integer(char *at, int size);

/* complex3.c: with three real products. */
bool limber_complex_three(const struct complex_product *x, struct diag *d);

#endif
