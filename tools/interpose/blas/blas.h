/* SPDX-License-Identifier: BSD-3-Clause
 * The library before a program's BLAS: Limber computes the products for which the user states a
 * contract. */
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

/* How the library behind spells the names of its Fortran functions. */
struct spelling {
    const char *prefix, *suffix;
};

/* A matrix of the program; the request's order says whether columns or rows lie together. */
struct argument {
    const void *data;
    char op;                /* N, T or C */
    int64_t lead;
};

/* A call as the program made it.  Letters are capitals; 0: the program passed no letter. */
struct request {
    const char *name;       /* of the function */
    enum routine routine;
    char type;              /* s, d, c or z */
    char factors;           /* b or h: elements of A and B are BF16 or FP16; 0: as of C */
    bool narrow;            /* so are those of C, and scalars: BF16 */
    bool cblas;
    int order;              /* as CBLAS counts; Fortran: BLAS_COLUMNS */
    bool wide;              /* integers of 64 bits */
    struct spelling spelling;
    const void *caller;     /* an address in the code that called */
    char side, uplo, diag;  /* L or R, U or L, N or U */
    int64_t m, n, k;        /* k: the length of the sums; of a symmetric or triangular band its
                               diagonals beside the main one */
    int64_t below, above;   /* of a band: diagonals below and above the main one */
    bool hermitian;         /* levels 1 and 2: conjugates, as in dotc, gerc, hemv and her */
    const void *alpha, *beta;
    struct argument a, b, c;
    /* products of a batch, `count` of one shape: their addresses, or else steps from one to the
     * next */
    int64_t count, step_a, step_b, step_c;
    const void *const *each_a, *const *each_b;
    void *const *each_c;
    /* of LAPACK: the vector is that of pivots or of the reflectors' factors */
    void *vector, *work, *info;
    int64_t room, least_room; /* elements of work */
    /* between limber_blas_serve and limber_blas_end: */
    bool handed_on;
    unsigned decided; /* calls of this thread before */
    double began;
    const char *contract; /* in words; "": none is stated */
    char why[160]; /* it was handed on */
};

/* ---- serve.c: the decision ------------------------------------------------------------------- */

/* True: the result is computed.  False: the caller asks the BLAS behind, also for wrong arguments,
 * so that the program's own xerbla reports them; limber_blas_end follows when it has returned. */
bool limber_blas_serve(struct request *r);
void limber_blas_end(struct request *r);
/* A call that was not served and that no BLAS behind has. */
void limber_blas_lacking(struct request *r);
/* Whether this thread is inside a call that was decided, or another copy of the library decides.
 * Enter and leave mark such a call. */
bool limber_blas_is_inside(void);
void limber_blas_enter(void);
void limber_blas_leave(void);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* The position of the first wrong argument in the routine's Fortran interface (batches: gemm's).
 * 0: none is wrong.  -1: CBLAS' order is. */
int limber_blas_wrong(const struct request *r);
/* Reports an argument to the program's xerbla or cblas_xerbla. */
void limber_blas_complain(const struct request *r, int position);

/* ---- batch.c --------------------------------------------------------------------------------- */

/* The arguments of a batch by groups.  `size` NULL: the one group of a strided batch. */
struct groups {
    const void *ta, *tb, *m, *n, *k, *alpha, *a, *lda, *b, *ldb, *beta, *c, *ldc, *size;
    int64_t count; /* of groups */
};
typedef void limber_blas_part(const struct request *r, const struct groups *part, void *behind);

/* Serves group after group.  A group that is not served goes to `behind` through hand_on, as a
 * batch of one group. */
void limber_blas_batch(struct request *r, const struct groups *groups, limber_blas_part *hand_on);

/* ---- real.c ---------------------------------------------------------------------------------- */

/* The function of that name in the BLAS behind, for a call from `caller`.  NULL: there is none;
 * unless quiet, a message is printed once. */
void *limber_blas_real(const char *name, const void *caller, bool quiet);
/* The same for another routine, by its Fortran name, of the library that r was meant for. */
void *limber_blas_sibling(const struct request *r, const char *routine);
/* Whether names without a suffix take 64-bit integers: by LIMBER_ILP64, else by asking the isamax
 * of that name behind. */
bool limber_blas_is_wide(const char *isamax, const void *caller);
/* Whether the function belongs to liblimber_lapack32.so or liblimber_lapack64.so. */
bool limber_blas_is_fixed(const void *function);
/* Whether another copy of this library comes first; this one then only hands calls on. */
bool limber_blas_is_second(void);

static inline bool limber_blas_is_vector(const struct request *r)
{
    return r->routine >= BLAS_DOT && r->routine <= BLAS_SPR2;
}

static inline bool limber_blas_is_lapack(const struct request *r)
{
    return r->routine >= LAPACK_GETRF;
}

/* A capital; ASCII whatever the locale. */
static inline char limber_blas_letter(const char *p)
{
    return *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
}

/* An argument of a Fortran call, or element i of an array of them. */
static inline int64_t limber_blas_integer(const void *p, int64_t i, bool wide)
{
    return wide ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

#endif
