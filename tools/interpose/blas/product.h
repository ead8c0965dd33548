/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of which the computation of a routine is made.  A routine either completes, or leaves
 * the program's data unchanged. */
#ifndef LIMBER_BLAS_PRODUCT_H
#define LIMBER_BLAS_PRODUCT_H

#include "blas.h"

/* CLONES: compiles a loop for several vector extensions, of which the CPU's is chosen at load time.
 * -ffp-contract=off keeps roundings equal.  WITH_FMA: with and without FMA instructions. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && defined __gnu_linux__
#define HAS_CLONES
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define WITH_FMA __attribute__((target_clones("fma", "default")))
#else
#define CLONES
#define WITH_FMA
#endif

/* A strided view of a matrix or submatrix.  conj: elements are conjugated when they are read. */
struct view {
    void *data;
    int64_t row, col; /* strides in elements */
    bool conj;
};

/* alpha or beta, real or complex. */
union scalar {
    float f[2];
    double d[2];
};

/* A request while Limber computes it. */
struct active_request {
    const struct request *r;
    const limber_contract *contract;
    bool is_complex, is_single;
    size_t size; /* bytes of an element of C */
    union scalar alpha, beta;
    uint16_t bf16_scalars[2]; /* alpha and beta in BF16, for requests with `bf16_result` set */
    /* report of the last product; its seconds are sums over the request's products */
    limber_report report;
    limber_status status; /* status of the Limber call that failed */
    struct interpose_check check; /* result of LIMBER_CHECK */
    double checking; /* seconds that checks took */
    struct interpose_counts counts; /* statistics of a simulated unit */
    limber_part part[LIMBER_PARTS]; /* storage for the parts of `report` */
    char why[160]; /* why the request failed */
    limber_contract counted; /* `contract`, with a request for statistics */
    limber_statistics statistics;
};

/* Each of these functions computes the routines of one group.  If it returns false, nothing was
 * changed, and j->why has the reason. */
bool limber_blas_gemm(struct active_request *j);
bool limber_blas_symm(struct active_request *j); /* symm and hemm */
bool limber_blas_triangle(struct active_request *j); /* gemmt, syrk, herk, syr2k and her2k */
bool limber_blas_trmm(struct active_request *j);
bool limber_blas_trsm(struct active_request *j);
bool limber_blas_vectors(struct active_request *j); /* levels 1 and 2 */
bool limber_lapack(struct active_request *j); /* in lapack/parts.c */

/* ---- product.c ------------------------------------------------------------------------------- */

void limber_blas_start(struct active_request *j, const struct request *r,
                       const limber_contract *contract);

/* Computes c = alpha a b + beta c, where a is m x k and b is k x n.  If alpha is 0, reads neither a
 * nor b. */
bool limber_blas_multiply(struct active_request *j, int64_t m, int64_t n, int64_t k,
                          const union scalar *alpha, struct view a, struct view b,
                          const union scalar *beta, struct view c);
/* True under `correct`, where each element of a product is rounded once. */
static inline bool limber_blas_rounds_once(const struct active_request *j)
{
    return j->contract->promise == LIMBER_CONTRACT_CORRECT;
}
bool limber_blas_fail(struct active_request *j, const char *why); /* sets j->why; returns false */
/* The context that all calls share.  NULL if it could not be created; a message is printed once. */
limber_context *limber_blas_context(void);
/* Returns the seconds that this thread has spent on opening the Limber library since its last call
 * of this function. */
double limber_blas_opening(void);
limber_matrix limber_blas_matrix(const struct active_request *j, struct view v);

/* ---- order.c: vectors of real numbers, under `reproducible` ---------------------------------- */

/* The longest vectors that these functions take. */
enum { LIMBER_BLAS_SHORT = 2048 };
/* Sum of at most LIMBER_BLAS_SHORT products. */
double limber_blas_short_dot(bool is_single, int64_t n, const void *x, int64_t step_x,
                             const void *y, int64_t step_y);
/* Adds alpha y_j x to each column j of C.  x and the columns of C are contiguous. */
void limber_blas_rank_one(const struct active_request *j, int64_t m, int64_t n, const void *x,
                          const void *y, int64_t step_y, void *c, int64_t lead);

/* ---- symmetric.c: symmetric matrix times vector, under `reproducible` ------------------------ */

/* True if this CPU has fused multiply-add instructions, and symmetric.c was compiled for them. */
bool limber_blas_has_fma(void);
/* Computes y = A x for a symmetric n x n matrix, of which the lower triangle (`below`) or the upper
 * one is stored.  The columns of A, x and y are contiguous. */
void limber_blas_symmetric(bool is_single, int64_t n, const void *a, int64_t lead, bool below,
                           const void *x, void *y);

/* ---- vectors.c ------------------------------------------------------------------------------- */

/* Dot product of n real numbers: doubles if `wide`, else numbers of the call's real type.  For a
 * complex request, a and b are read as real vectors. */
bool limber_blas_real_dot(struct active_request *j, int64_t n, void *a, void *b, bool wide,
                          double *sum);

/* ---- norm.c ---------------------------------------------------------------------------------- */

/* Under `correct`: computes the root of the sum of squares of n doubles, rounded once to the
 * request's real type. */
bool limber_blas_round_norm(struct active_request *j, int64_t n, const double *x, double *norm);
/* Computes rot of the columns x and y. */
bool limber_blas_rotate(struct active_request *j, struct view x, struct view y);

/* ---- payload.c ------------------------------------------------------------------------------- */

struct blas_product;
/* Called after a real product.  A NaN in the result gets the payload of the first NaN in its row of
 * a, or else in its column of b; without one the flag FE_INVALID is raised.  An infinity of finite
 * operands raises FE_OVERFLOW. */
void limber_blas_carry_payloads(const struct active_request *j, const struct blas_product *x);

/* ---- check.c --------------------------------------------------------------------------------- */

/* Elements of a product that are compared once it is complete. */
struct sample;
/* A product alpha a b + beta c that is computed for a request. */
struct blas_product {
    int64_t m, n, k;
    const union scalar *alpha, *beta;
    struct view a, b, c;
};
/* Describes a product to Limber, with the request's contract. */
limber_problem limber_blas_problem(const struct active_request *j, const struct blas_product *x);
/* Called before the product: chooses elements, and saves their old values for beta.  NULL if
 * nothing is to be compared, or if memory is exhausted. */
struct sample *limber_blas_sample(struct active_request *j, const struct blas_product *x);
/* Called after the product: compares elements, and updates the request's check.  done: the product
 * succeeded. */
void limber_blas_compare(struct active_request *j, const struct blas_product *x, struct sample *s,
                         bool done);

/* ---- rate.c ---------------------------------------------------------------------------------- */

/* Estimated seconds that the other BLAS takes for `work` multiply-adds of the request's type.  The
 * estimate is from test products, each of which runs once per shape. 0 if that BLAS has no gemm. */
double limber_blas_estimate_seconds(const struct request *r, double work);
double limber_blas_now(void); /* time in seconds */

union scalar limber_blas_scalar(const struct active_request *j, double re, double im);
bool limber_blas_is(const struct active_request *j, const union scalar *s, double re);
bool limber_blas_is_real(const struct active_request *j, const union scalar *s);

/* ---- capture.c ------------------------------------------------------------------------------- */

/* Captures the operands of a valid call's products, for LIMBER_CAPTURE. */
void limber_blas_capture(const struct request *r, const struct interpose_setting *s);

/* ---- matrix.c -------------------------------------------------------------------------------- */

struct view limber_blas_view(const struct request *r, const struct argument *x); /* view of op(x) */
struct view limber_blas_transposed(struct view v);
struct view limber_blas_at(const struct active_request *j, struct view v, int64_t row, int64_t col);

/* Allocates a column-major matrix.  If memory is exhausted, `data` is NULL and the request has the
 * reason. */
struct view limber_blas_fresh(struct active_request *j, int64_t rows, int64_t cols);

enum part { WHOLE, UPPER, LOWER };
/* Copies a part of a matrix, without conjugating. */
void limber_blas_copy(const struct active_request *j, enum part part, int64_t m, int64_t n,
                      struct view to, struct view from);
/* Saves C, which several products will update, for limber_blas_restore.  Does nothing if beta is 0.
 * Returns false if memory is exhausted. */
bool limber_blas_keep(struct active_request *j, enum part part, int64_t m, int64_t n, struct view v,
                      struct view *kept);
void limber_blas_restore(const struct active_request *j, enum part part, int64_t m, int64_t n,
                         struct view v, struct view kept);
bool limber_blas_is_finite(const struct active_request *j, enum part part, int64_t m, int64_t n,
                           struct view v);
/* conjugate: negates imaginary parts.  make_real: clears imaginary parts on the diagonal. */
void limber_blas_conjugate(const struct active_request *j, int64_t m, int64_t n, struct view v);
void limber_blas_make_real(const struct active_request *j, int64_t n, struct view v);

#endif
