/* SPDX-License-Identifier: BSD-3-Clause
 * The library in front of a program's BLAS: Limber computes the products for which the user
 * requires a contract.  All other calls are forwarded to the BLAS that the program would use
 * without this library, which messages call "the BLAS behind". */
#ifndef LIMBER_INTERPOSE_H
#define LIMBER_INTERPOSE_H

#include "tools/interpose/shared/interpose.h"

#include <stddef.h>
#include <stdint.h>

enum routine {
    BLAS_GEMM,
    BLAS_GEMMT,
    BLAS_GEMM_BATCH,
    BLAS_SYMM,
    BLAS_HEMM,
    BLAS_SYRK,
    BLAS_HERK,
    BLAS_SYR2K,
    BLAS_HER2K,
    BLAS_TRMM,
    BLAS_TRSM,
    /* levels 1 and 2 of BLAS, from here to BLAS_SPR2 */
    BLAS_DOT,
    BLAS_NRM2,
    BLAS_ASUM,
    BLAS_AXPY,
    BLAS_SCAL,
    BLAS_ROT,
    BLAS_GEMV,
    BLAS_GBMV,
    BLAS_SYMV,
    BLAS_SBMV,
    BLAS_SPMV,
    BLAS_TRMV,
    BLAS_TBMV,
    BLAS_TPMV,
    BLAS_TRSV,
    BLAS_TBSV,
    BLAS_TPSV,
    BLAS_GER,
    BLAS_SYR,
    BLAS_SPR,
    BLAS_SYR2,
    BLAS_SPR2,
    LAPACK_GETRF,
    LAPACK_GETRS,
    LAPACK_GESV,
    LAPACK_GETRI,
    LAPACK_POTRF,
    LAPACK_POTRS,
    LAPACK_POSV,
    LAPACK_TRTRI,
    LAPACK_TRTRS,
    LAPACK_GEQRF,
    LAPACK_ORGQR,
    LAPACK_ORMQR
};
enum { BLAS_ROWS = 101, BLAS_COLUMNS = 102 };

/* Prefix and suffix of Fortran names in the BLAS to which calls are forwarded. */
struct spelling {
    const char *prefix, *suffix;
};

/* A matrix or vector argument.  The request's order tells whether columns or rows are
 * contiguous. */
struct argument {
    const void *data;
    /* the letter N, T or C: the matrix is used as is, transposed, or conjugate-transposed */
    char op;
    int64_t lead; /* leading dimension of a matrix, or increment of a vector, in elements */
};

/* A batch: `count` products of one shape.  Their matrices are in arrays of addresses (each_a,
 * each_b, each_c) or, if these are NULL, at constant distances in elements (step_a, step_b,
 * step_c). */
struct batch {
    int64_t count, step_a, step_b, step_c;
    const void *const *each_a, *const *each_b;
    void *const *each_c;
};

/* Arguments of LAPACK's routines beside matrices.  vector: pivots, or factors tau of reflectors. */
struct lapack_memory {
    void *vector, *work, *info;
    /* length of `work`, in elements: what the program passes; what the routine needs */
    int64_t room, least_room;
};

/* State of a call between limber_blas_serve, which chooses who computes it, and limber_blas_end. */
struct served {
    bool handed_on;
    /* the thread's number of calls for which a library had been chosen when this call began */
    unsigned decided;
    double began; /* time when the call began, in seconds */
    const char *contract; /* text of the contract; "" if there is none */
    char why[160]; /* why the call is forwarded */
};

/* A call, with the program's arguments.  Letters are capitals, and 0 if the routine has no such
 * argument. */
struct request {
    const char *name; /* name of the function that the program called */
    enum routine routine;
    char type; /* type of C's elements: s, d, c or z */
    char factors; /* b or h: elements of A and B are BF16 or FP16; 0: they have the type of C */
    bool bf16_result; /* elements of C, alpha and beta are BF16, too */
    bool cblas;
    int order; /* CblasRowMajor or CblasColMajor; BLAS_COLUMNS for Fortran */
    bool wide; /* true if the caller's integers have 64 bits */
    struct spelling spelling;
    const void *caller; /* an address in the calling code */
    char side, uplo, diag; /* BLAS's letters: L or R, U or L, N or U */
    /* k: number of products in a sum; for a symmetric or triangular band matrix, its number of
     * off-diagonals */
    int64_t m, n, k;
    /* number of diagonals below and above the main one, for a general band matrix */
    int64_t below, above;
    bool extends; /* dsdot and sdsdot: the vectors are floats, and their sum is of doubles */
    bool hermitian; /* levels 1 and 2: the routine conjugates, like dotc, gerc, hemv and her */
    const void *alpha, *beta;
    struct argument a, b, c;
    struct batch batch;
    struct lapack_memory lapack;
    struct served served;
};

/* ---- serve.c: decides who computes ----------------------------------------------------------- */

/* Computes the call if it can, and returns true.  If it returns false, the caller forwards the call
 * to the other BLAS, and then calls limber_blas_end.  Calls with wrong arguments are forwarded, so
 * that the program's own xerbla reports them. */
bool limber_blas_serve(struct request *r);
void limber_blas_end(struct request *r);
/* Addresses of code whose calls only test this library; such calls are forwarded.  The range is
 * empty, unless libblastrampoline loaded the library. */
extern _Atomic uintptr_t limber_blas_tests_from, limber_blas_tests_to;
/* Reports a call that Limber did not compute, and for which no other BLAS was found. */
void limber_blas_serve_without_blas(struct request *r);
/* is_inside: true in a call for which Limber or the other BLAS has been chosen already, or if
 * another copy of this library chooses.  enter and leave: begin and end such a call in this
 * thread. */
bool limber_blas_is_inside(void);
void limber_blas_enter(void);
void limber_blas_leave(void);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* Returns the position of the first wrong argument in the routine's Fortran interface (for batches,
 * in that of gemm). 0 if all are valid, -1 if the order of CBLAS is wrong. */
int limber_blas_first_bad_argument(const struct request *r);
/* Reports a wrong argument to the program's xerbla or cblas_xerbla. */
void limber_blas_report_wrong_argument(const struct request *r, int position);

/* ---- batch.c --------------------------------------------------------------------------------- */

/* The arguments of a batch, as arrays with one entry for each group.  `size` is NULL for a batch
 * with constant strides, which has one group. */
struct groups {
    const void *ta, *tb, *m, *n, *k, *alpha, *a, *lda, *b, *ldb, *beta, *c, *ldc, *size;
    int64_t count; /* number of groups */
};
typedef void limber_blas_part(const struct request *r, const struct groups *part, void *behind);

/* Computes each group.  A group that Limber does not compute is forwarded by hand_on to the
 * function `behind`, as a batch of one group. */
void limber_blas_batch(struct request *r, const struct groups *groups, limber_blas_part *hand_on);

/* ---- real.c ---------------------------------------------------------------------------------- */

/* Looks up a function of the BLAS to which calls from `caller` are forwarded.  NULL if it is not
 * found; then prints a message once, unless `quiet`. */
void *limber_blas_real(const char *name, const void *caller, bool quiet);
/* Looks up another routine, by its Fortran name, in the library to which r would be forwarded. */
void *limber_blas_look_up_routine(const struct request *r, const char *routine);
/* True if names without a suffix take 64-bit integers.  LIMBER_ILP64 tells this; without it, a test
 * call of the function `isamax` of the BLAS to which calls are forwarded. */
bool limber_blas_is_wide(const char *isamax, const void *caller);
/* True if calls of this function are forwarded to liblimber_lapack32.so or
 * liblimber_lapack64.so, whose sums have the same order on all machines. */
bool limber_blas_is_fixed(const char *name, const void *caller);
/* Prints a message once if `name` is a call by Limber's LAPACK, and that is another LAPACK than the
 * one of the stated order. */
void limber_blas_check_lapack(const char *name, const char *contract);
/* True if another copy of this library precedes this one, which then only forwards calls. */
bool limber_blas_is_second(void);

static inline bool limber_blas_is_vector(const struct request *r)
{
    return r->routine >= BLAS_DOT && r->routine <= BLAS_SPR2;
}

static inline bool limber_blas_is_lapack(const struct request *r)
{
    return r->routine >= LAPACK_GETRF;
}

/* Converts a letter to upper case, whatever the locale is. */
static inline char limber_blas_letter(const char *p)
{
    return *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
}

/* Reads an integer argument of Fortran, or element i of an array of integers. */
static inline int64_t limber_blas_integer(const void *p, int64_t i, bool wide)
{
    return wide ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

#endif
