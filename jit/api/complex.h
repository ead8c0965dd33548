/* SPDX-License-Identifier: BSD-3-Clause
 * Products of complex matrices by real products.  Elements are pairs (re, im); strides count
 * pairs. */
#ifndef LIMBER_JIT_COMPLEX_H
#define LIMBER_JIT_COMPLEX_H

#include "jit/api/api.h"

/* A complex matrix.  conj: its conjugate is multiplied. */
struct pairs {
    limber_matrix m;
    bool conj;
};

/* A call whose arguments were checked.  A call in which only the columns of C were contiguous has
 * been transposed, so that the rows of C are contiguous. */
struct complex_product {
    limber_context *ctx;
    limber_contract contract;
    const limber_queue *queue;
    int64_t m, n, k;
    struct pairs a, b;
    limber_output c;
    const char *alpha, *beta; /* complex numbers; NULL stands for alpha = 1, beta = 0 */
    struct report *report;
    const struct given_plan *given; /* the caller's plan of the real product, or NULL */
    /* a batch, whose products are computed together, in device memory; count 0 if there is none */
    limber_batch batch;
};

/* Returns the number of products of the call. */
static inline int64_t limber_complex_products(const struct complex_product *x)
{
    return x->batch.count ? x->batch.count : 1;
}

/* The terms of C = alpha A B + beta C: for each element of C the pair (re, im) of A B and, with
 * beta, the pair of C. */
struct terms {
    /* owned; freed by limber_terms_drop */
    char *data;
    limber_format f; /* format of the terms: C's, or i64 for integers */
    int64_t width; /* numbers per element: 2 or 4 */
    /* address of alpha and beta on the device, in the memory of the terms; NULL if the terms are in
     * host memory */
    char *factors;
};
/* Allocates the terms.  Returns false, with an error, if memory runs out. */
bool limber_terms_new(struct terms *t, const struct complex_product *x, struct diag *d);
/* Computes C = alpha A B + beta C from the terms, and frees them. */
bool limber_terms_finish(struct terms *t, const struct complex_product *x, struct diag *d);
void limber_terms_drop(struct terms *t, const struct complex_product *x);

/* Runs fn for every task, on several threads if there are enough elements. */
void limber_complex_share(limber_context *ctx, int64_t tasks, int64_t elements,
                          void (*fn)(void *arg, int64_t task, int worker), void *arg);
/* Allocates memory for rows x cols elements.  Returns NULL on failure, with an error text about
 * `what`. */
void *limber_complex_memory(const limber_context *ctx, int64_t rows, int64_t cols, limber_format f,
                            const char *what, struct diag *d);

/* Negates the number at the address `at`. limber_negate_integer returns false if the negative does
 * not fit. */
void limber_negate_float(char *at, limber_format f);
bool limber_negate_integer(char *at, int size);

/* complex3.c: computes a complex product by three real ones. */
bool limber_complex_three(const struct complex_product *x, struct diag *d);

#endif
