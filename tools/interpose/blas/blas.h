/* SPDX-License-Identifier: BSD-3-Clause
 * The library in front of a program's BLAS: Limber computes the products for which the user states
 * a contract.  All other calls are forwarded to "the BLAS behind", which the program would use
 * without it. */
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
    /* vectors: levels 1 and 2 */
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

/* Prefix and suffix of Fortran names in the BLAS behind. */
struct spelling {
    const char *prefix, *suffix;
};

/* A matrix argument.  The request's order says whether columns or rows are contiguous. */
struct argument {
    const void *data;
    char op;                /* N, T or C */
    int64_t lead;           /* leading dimension; of a vector its increment; elements */
};

/* A call with the program's arguments.  Letters are capitals; 0: the routine has no such
 * argument. */
struct request {
    const char *name;       /* the function's name */
    enum routine routine;
    char type;              /* s, d, c or z */
    char factors;           /* b or h: elements of A and B are BF16 or FP16; 0: as in C */
    bool narrow;            /* elements of C, alpha and beta are BF16, too */
    bool cblas;
    int order;              /* CBLAS constant; Fortran: BLAS_COLUMNS */
    bool wide;              /* integers have 64 bits */
    struct spelling spelling;
    const void *caller;     /* an address in the calling code */
    char side, uplo, diag;  /* L or R, U or L, N or U */
    /* k: length of the sums; in a symmetric or triangular band matrix, the number of
     * off-diagonals */
    int64_t m, n, k;
    int64_t below, above;   /* diagonals below and above the main one of a general band matrix */
    bool hermitian;         /* levels 1 and 2: conjugates, as in dotc, gerc, hemv and her */
    const void *alpha, *beta;
    struct argument a, b, c;
    /* a batch: `count` products of one shape, whose matrices are in arrays of addresses (each_a,
     * ...) or at constant strides (step_a, ...), in elements */
    int64_t count, step_a, step_b, step_c;
    const void *const *each_a, *const *each_b;
    void *const *each_c;
    /* LAPACK; vector: pivots, or factors tau of the reflectors */
    void *vector, *work, *info;
    /* elements: length of work that the program passed, length that the routine needs */
    int64_t room, least_room;
    /* state between limber_blas_serve and limber_blas_end */
    bool handed_on;
    unsigned decided; /* calls of this thread that were decided before */
    double began; /* seconds */
    const char *contract; /* text of the contract; "": none is stated */
    char why[160]; /* reason for forwarding */
};

/* ---- serve.c: decides who computes ----------------------------------------------------------- */

/* True: the result is computed.  False: the caller forwards the call to the BLAS behind, and then
 * calls limber_blas_end.  Wrong arguments are forwarded, too, so that the program's own xerbla
 * reports them. */
bool limber_blas_serve(struct request *r);
void limber_blas_end(struct request *r);
/* Reports a call that was not served and that no BLAS behind can compute. */
void limber_blas_lacking(struct request *r);
/* Whether this thread is inside a call whose path is already decided, or another copy of the
 * library decides.  Enter and leave bracket such a call. */
bool limber_blas_is_inside(void);
void limber_blas_enter(void);
void limber_blas_leave(void);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* Position of the first wrong argument in the routine's Fortran interface (for batches, in gemm's).
 * 0: all are right. -1: the order of CBLAS is wrong. */
int limber_blas_wrong(const struct request *r);
/* Reports a wrong argument to the program's xerbla or cblas_xerbla. */
void limber_blas_complain(const struct request *r, int position);

/* ---- batch.c --------------------------------------------------------------------------------- */

/* A batch's arguments, by group. `size` NULL: a strided batch, which is a single group. */
struct groups {
    const void *ta, *tb, *m, *n, *k, *alpha, *a, *lda, *b, *ldb, *beta, *c, *ldc, *size;
    int64_t count; /* number of groups */
};
typedef void limber_blas_part(const struct request *r, const struct groups *part, void *behind);

/* Serves each group.  A group that is not served is forwarded by hand_on, as a batch of one group,
 * to the function `behind`. */
void limber_blas_batch(struct request *r, const struct groups *groups, limber_blas_part *hand_on);

/* ---- real.c ---------------------------------------------------------------------------------- */

/* Looks up a function in the BLAS behind, for a call from `caller`. NULL: not found; unless quiet,
 * a message is printed once. */
void *limber_blas_real(const char *name, const void *caller, bool quiet);
/* Looks up another routine, by its Fortran name, in the library that r would be forwarded to. */
void *limber_blas_sibling(const struct request *r, const char *routine);
/* Whether names without a suffix take 64-bit integers: LIMBER_ILP64, else a test call of the isamax
 * of that name in the BLAS behind. */
bool limber_blas_is_wide(const char *isamax, const void *caller);
/* Whether the function of that name in the BLAS behind is one of liblimber_lapack32.so or
 * liblimber_lapack64.so, which have one order of sums for all machines. */
bool limber_blas_is_fixed(const char *name, const void *caller);
/* Whether another copy of this library precedes this one, which then only forwards calls. */
bool limber_blas_is_second(void);

static inline bool limber_blas_is_vector(const struct request *r)
{
    return r->routine >= BLAS_DOT && r->routine <= BLAS_SPR2;
}

static inline bool limber_blas_is_lapack(const struct request *r)
{
    return r->routine >= LAPACK_GETRF;
}

/* Converts a letter to upper case, independent of the locale. */
static inline char limber_blas_letter(const char *p)
{
    return *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
}

/* Reads an integer argument of Fortran, or element i of an array of them. */
static inline int64_t limber_blas_integer(const void *p, int64_t i, bool wide)
{
    return wide ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

#endif
