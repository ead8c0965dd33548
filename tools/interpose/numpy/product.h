/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices with the meaning of NumPy's loops. */
#ifndef LIMBER_NUMPY_PRODUCT_H
#define LIMBER_NUMPY_PRODUCT_H

#include "kernels.h"

/* C = A B.  Distances are in bytes, and may be of any sign. */
struct product {
    enum element type;
    int64_t m, n, k;
    struct place a, b; /* m rows of A, n columns of B */
    char *c;
    int64_t cm, cn; /* from row to row and from column to column of C */
    /* of HALF, set by the functions below: exceptions of the conversions (FE_OVERFLOW,
     * FE_UNDERFLOW), and whether an element of C is NaN */
    int raised;
    bool nan;
};

/* Each computes C.  False if there is not enough memory, or no way for the layout; C may then be
 * partly written. */
bool limber_numpy_matrix(const struct kernels *with, struct product *x);
bool limber_numpy_vector(const struct kernels *with, struct product *x);
/* The types are bool: an element of C is true if A and B are both true at some k. */
bool limber_numpy_truth(const struct kernels *with, const struct product *x);
bool limber_numpy_truth_vector(const struct kernels *with, const struct product *x);

#endif
