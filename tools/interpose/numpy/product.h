/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices with the meaning of NumPy's loops. */
#ifndef LIMBER_NUMPY_PRODUCT_H
#define LIMBER_NUMPY_PRODUCT_H

#include "kernels.h"

/* The product C = A B.  Distances are in bytes, and may be negative. */
struct loop_product {
    enum element type;
    int64_t m, n, k;
    struct place a, b; /* m rows of A, n columns of B */
    char *c;
    int64_t cm, cn; /* from row to row, and from column to column, of C */
    /* out, for HALF: exceptions of the conversions (FE_OVERFLOW, FE_UNDERFLOW), and whether an
     * element of C is NaN */
    int raised;
    bool nan;
};

/* Each function computes C.  False if memory is short, or there is no code for the layout; C may
 * then be partly written. */
bool limber_numpy_matrix(const struct kernels *with, struct loop_product *x);
bool limber_numpy_vector(const struct kernels *with, struct loop_product *x);
/* Compute products of truth values (bool): an element of C is true if the elements of A and B
 * are both true at some k.  False if NumPy's loop is faster or memory is short. */
bool limber_numpy_truth(const struct kernels *with, const struct loop_product *x);
bool limber_numpy_truth_vector(const struct kernels *with, const struct loop_product *x);

#endif
