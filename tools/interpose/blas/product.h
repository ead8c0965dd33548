/* SPDX-License-Identifier: BSD-3-Clause
 * What the routines are made of.  A routine changes the program's matrices altogether or not at
 * all. */
#ifndef LIMBER_BLAS_PRODUCT_H
#define LIMBER_BLAS_PRODUCT_H

#include "blas.h"

/* A matrix, or a part of one, walked any way; `conj`: its elements are the conjugates. */
struct view {
    void *data;
    int64_t row, col;       /* strides in elements */
    bool conj;
};

union scalar {
    float f[2];
    double d[2];
};

struct job {
    const struct request *r;
    const limber_contract *contract;
    bool is_complex, is_single;
    size_t size;            /* of an element */
    union scalar alpha, beta;
    limber_report report;   /* of the last product, with the seconds of all */
    char why[160];          /* the reason of a failure */
    limber_status status;   /* of Limber, where it is Limber's */
    struct preload_check check;     /* of elements that were looked at */
    double checking;                /* seconds that this took */
};

/* What a routine computes; false, and nothing has changed, with the reason in job->why. */
bool limber_blas_gemm(struct job *j);
bool limber_blas_symm(struct job *j);       /* and hemm */
bool limber_blas_triangle(struct job *j);   /* gemmt, syrk, herk, syr2k, her2k */
bool limber_blas_trmm(struct job *j);
bool limber_blas_trsm(struct job *j);

/* ---- product.c ----------------------------------------------------------------------------------
 */

void limber_blas_start(struct job *j, const struct request *r, const limber_contract *contract);

/* c = alpha a b + beta c; a is m x k.  alpha = 0 reads neither a nor b. */
bool limber_blas_multiply(struct job *j, int64_t m, int64_t n, int64_t k, const union scalar *alpha,
                          struct view a, struct view b, const union scalar *beta, struct view c);
bool limber_blas_fail(struct job *j, const char *why); /* false */
/* Limber's context; NULL where there is none, told once on stderr. */
limber_context *limber_blas_context(void);
limber_matrix limber_blas_matrix(const struct job *j, struct view v);

/* ---- check.c ------------------------------------------------------------------------------------
 */

/* A product of this job whose elements are looked at, some of them, when it is done. */
struct sample;
struct product {
    int64_t m, n, k;
    const union scalar *alpha, *beta;
    struct view a, b, c;
};
/* Before the product: keeps what beta multiplies.  NULL: nothing is to be looked at, or no memory.
 */
struct sample *limber_blas_look(struct job *j, const struct product *x);
/* After it; done: it succeeded.  Adds to the job's check. */
void limber_blas_compare(struct job *j, const struct product *x, struct sample *s, bool done);

/* ---- rate.c -------------------------------------------------------------------------------------
 */

/* Seconds that the BLAS behind would need for so many multiply-adds of a request's type, by one
 * product that it was given for this; 0 where it has no gemm. */
double limber_blas_original(const struct request *r, double work);
double limber_blas_now(void); /* seconds */

union scalar limber_blas_scalar(const struct job *j, double re, double im);
bool limber_blas_is(const struct job *j, const union scalar *s, double re);
bool limber_blas_is_real(const struct job *j, const union scalar *s);

/* ---- matrix.c -----------------------------------------------------------------------------------
 */

struct view limber_blas_view(const struct request *r, const struct argument *x); /* of op(x) */
struct view limber_blas_transposed(struct view v);
struct view limber_blas_at(const struct job *j, struct view v, int64_t row, int64_t col);

/* rows x cols elements by columns, or NULL with the reason told. */
struct view limber_blas_fresh(struct job *j, int64_t rows, int64_t cols);

enum part { WHOLE, UPPER, LOWER };
/* Elements as they lie in memory: conj is not looked at. */
void limber_blas_copy(const struct job *j, enum part part, int64_t m, int64_t n, struct view to,
                      struct view from);
/* A copy of what is about to be changed by more than one product, where the BLAS behind would read
 * it: with beta = 0 none is made.  False: no memory. */
bool limber_blas_keep(struct job *j, enum part part, int64_t m, int64_t n, struct view v,
                      struct view *kept);
void limber_blas_restore(const struct job *j, enum part part, int64_t m, int64_t n, struct view v,
                         struct view kept);
bool limber_blas_is_finite(const struct job *j, enum part part, int64_t m, int64_t n,
                           struct view v);
/* The imaginary parts become their negatives, or 0 where they are those of the diagonal. */
void limber_blas_conjugate(const struct job *j, int64_t m, int64_t n, struct view v);
void limber_blas_make_real(const struct job *j, int64_t n, struct view v);

#endif
