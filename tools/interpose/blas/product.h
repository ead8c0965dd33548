/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of a routine's computation.  A routine changes all of the program's result or none
 * of it. */
#ifndef LIMBER_BLAS_PRODUCT_H
#define LIMBER_BLAS_PRODUCT_H

#include "blas.h"

/* A matrix or a part of one, by strides.  conj: read its elements as their conjugates. */
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
    uint16_t narrow[2];     /* the same of a request with narrow results */
    limber_report report;   /* of the last product, with the seconds of all */
    limber_status status;   /* Limber's, where Limber failed */
    struct interpose_check check;     /* of the elements compared */
    double checking;                /* seconds spent on this */
    struct interpose_counts counts; /* of a simulated unit, for a report */
    limber_part part[LIMBER_PARTS]; /* of the report */
    char why[160];          /* the reason of a failure */
    limber_contract counted;        /* the contract with statistics */
    limber_statistics statistics;
};

/* Compute a routine.  False: nothing has changed, and job->why has the reason. */
bool limber_blas_gemm(struct job *j);
bool limber_blas_symm(struct job *j);       /* and hemm */
bool limber_blas_triangle(struct job *j);   /* gemmt, syrk, herk, syr2k, her2k */
bool limber_blas_trmm(struct job *j);
bool limber_blas_trsm(struct job *j);
bool limber_blas_vectors(struct job *j);    /* levels 1 and 2 */
bool limber_lapack(struct job *j); /* lapack/ */

/* ---- product.c ------------------------------------------------------------------------------- */

void limber_blas_start(struct job *j, const struct request *r, const limber_contract *contract);

/* c = alpha a b + beta c; a is m x k.  alpha = 0 reads neither a nor b. */
bool limber_blas_multiply(struct job *j, int64_t m, int64_t n, int64_t k, const union scalar *alpha,
                          struct view a, struct view b, const union scalar *beta, struct view c);
bool limber_blas_fail(struct job *j, const char *why); /* false */
/* Limber's context.  NULL: there is none; a message is printed once. */
limber_context *limber_blas_context(void);
/* Seconds in which this thread opened the library since it last asked. */
double limber_blas_opening(void);
limber_matrix limber_blas_matrix(const struct job *j, struct view v);

/* ---- order.c: real vectors, under reproducible ------------------------------------------------ */

enum { LIMBER_BLAS_SHORT = 2048 };
/* The sum of at most LIMBER_BLAS_SHORT products. */
double limber_blas_short_dot(bool is_single, int64_t n, const void *x, int64_t step_x,
                             const void *y, int64_t step_y);
/* Column i of C, which is dense, gets alpha y_i times x, which is dense, too. */
void limber_blas_rank_one(const struct job *j, int64_t m, int64_t n, const void *x, const void *y,
                          int64_t step_y, void *c, int64_t lead);

/* ---- payload.c ------------------------------------------------------------------------------- */

struct product;
/* After a real product: an element that is NaN gets the payload of the first NaN of its row of a,
 * or else of its column of b. */
void limber_blas_carry_payloads(const struct job *j, const struct product *x);

/* ---- check.c --------------------------------------------------------------------------------- */

/* A product of this job, some of whose elements are compared when it is done. */
struct sample;
struct product {
    int64_t m, n, k;
    const union scalar *alpha, *beta;
    struct view a, b, c;
};
/* The product as Limber is asked for it. */
limber_problem limber_blas_problem(const struct job *j, const struct product *x);
/* Before the product: keeps what beta multiplies.  NULL: there is nothing to compare, or no
 * memory. */
struct sample *limber_blas_sample(struct job *j, const struct product *x);
/* After the product: compares, and adds to the job's check.  done: the product succeeded. */
void limber_blas_compare(struct job *j, const struct product *x, struct sample *s, bool done);

/* ---- rate.c ---------------------------------------------------------------------------------- */

/* Estimated seconds of the BLAS behind for so many multiply-adds of the request's type, from
 * products that it computes for this.  0: it has no gemm. */
double limber_blas_original(const struct request *r, double work);
double limber_blas_now(void); /* seconds */

union scalar limber_blas_scalar(const struct job *j, double re, double im);
bool limber_blas_is(const struct job *j, const union scalar *s, double re);
bool limber_blas_is_real(const struct job *j, const union scalar *s);

/* ---- capture.c ------------------------------------------------------------------------------- */

/* Keeps the operands of a valid call's products. */
void limber_blas_capture(const struct request *r, const struct interpose_setting *s);

/* ---- matrix.c -------------------------------------------------------------------------------- */

struct view limber_blas_view(const struct request *r, const struct argument *x); /* of op(x) */
struct view limber_blas_transposed(struct view v);
struct view limber_blas_at(const struct job *j, struct view v, int64_t row, int64_t col);

/* A new matrix of rows x cols elements, by columns.  NULL: no memory; the job has the reason. */
struct view limber_blas_fresh(struct job *j, int64_t rows, int64_t cols);

enum part { WHOLE, UPPER, LOWER };
/* Copies elements as they lie in memory; ignores conj. */
void limber_blas_copy(const struct job *j, enum part part, int64_t m, int64_t n, struct view to,
                      struct view from);
/* Keeps a copy of a result that more than one product will change, for limber_blas_restore.  With
 * beta = 0 there is nothing to keep.  False: no memory. */
bool limber_blas_keep(struct job *j, enum part part, int64_t m, int64_t n, struct view v,
                      struct view *kept);
void limber_blas_restore(const struct job *j, enum part part, int64_t m, int64_t n, struct view v,
                         struct view kept);
bool limber_blas_is_finite(const struct job *j, enum part part, int64_t m, int64_t n,
                           struct view v);
/* Negates the imaginary parts; make_real sets those of a diagonal to 0. */
void limber_blas_conjugate(const struct job *j, int64_t m, int64_t n, struct view v);
void limber_blas_make_real(const struct job *j, int64_t n, struct view v);

#endif
