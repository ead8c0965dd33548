/* SPDX-License-Identifier: BSD-3-Clause
 * The names: GEMMs of Fortran and of CBLAS, with 32-bit and 64-bit integers, under every spelling that
 * libraries are built with. */
#include "blas.h"

#include <stddef.h>

#define PUBLIC __attribute__((visibility("default")))

/* ---- Fortran --------------------------------------------------------------------------------- */

/* Lengths of the two letters come last, after all that is passed by reference. */
#define FORTRAN_ARGUMENTS(integer)                                                              \
    const char *ta, const char *tb, const integer *m, const integer *n, const integer *k,       \
    const void *alpha, const void *a, const integer *lda, const void *b, const integer *ldb,    \
    const void *beta, void *c, const integer *ldc, size_t la, size_t lb
#define FORTRAN_PASS ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb

#define FORTRAN(letter, name, integer, value)                                                   \
    PUBLIC void name(FORTRAN_ARGUMENTS(integer));                                               \
    PUBLIC void name(FORTRAN_ARGUMENTS(integer))                                                \
    {                                                                                           \
        const struct request r = { #name, letter, false, value(m), value(n), value(k), alpha,   \
                                   beta, { a, *ta, value(lda) }, { b, *tb, value(ldb) },        \
                                   { c, 'N', value(ldc) } };                                    \
        void (*real)(FORTRAN_ARGUMENTS(integer));                                               \
                                                                                                \
        if (limber_blas_serve(&r))                                                              \
            return;                                                                             \
        *(void **)&real = limber_blas_real(#name);                                              \
        if (real)                                                                               \
            real(FORTRAN_PASS);                                                                 \
    }

#define LONG(p) (*(p))
/* An integer of names without a suffix, whose width is that of the BLAS behind. */
static int64_t plain(const int32_t *p)
{
    return limber_blas_is_wide() ? *(const int64_t *)(const void *)p : *p;
}

#define FORTRAN_ALL(letter, base)                                                               \
    FORTRAN(letter, base##_, int32_t, plain)                                                    \
    FORTRAN(letter, base##_64_, int64_t, LONG)                                                  \
    FORTRAN(letter, base##64_, int64_t, LONG)

FORTRAN_ALL('s', sgemm)
FORTRAN_ALL('d', dgemm)
FORTRAN_ALL('c', cgemm)
FORTRAN_ALL('z', zgemm)
FORTRAN_ALL('c', cgemm3m)
FORTRAN_ALL('z', zgemm3m)

/* ---- CBLAS ----------------------------------------------------------------------------------- */

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102 };

static char letter_of(int op)
{
    return op == 111 ? 'N' : op == 112 ? 'T' : op == 113 ? 'C' : 0;
}

/* Scalars of real types are values, of complex ones addresses. */
#define CBLAS_ARGUMENTS(integer, scalar)                                                        \
    int order, int ta, int tb, integer m, integer n, integer k, scalar alpha, const void *a,    \
    integer lda, const void *b, integer ldb, scalar beta, void *c, integer ldc
#define CBLAS_PASS order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc

#define CBLAS(letter, name, integer, scalar, at)                                                \
    PUBLIC void name(CBLAS_ARGUMENTS(integer, scalar));                                         \
    PUBLIC void name(CBLAS_ARGUMENTS(integer, scalar))                                          \
    {                                                                                           \
        const struct request r = { #name, letter, order == ROW_MAJOR, m, n, k, at alpha,        \
                                   at beta, { a, letter_of(ta), lda },                          \
                                   { b, letter_of(tb), ldb }, { c, 'N', ldc } };                \
        void (*real)(CBLAS_ARGUMENTS(integer, scalar));                                         \
                                                                                                \
        if ((order == ROW_MAJOR || order == COLUMN_MAJOR) && limber_blas_serve(&r))             \
            return;                                                                             \
        *(void **)&real = limber_blas_real(#name);                                              \
        if (real)                                                                               \
            real(CBLAS_PASS);                                                                   \
    }

#define VALUE &
#define ADDRESS
#define CBLAS_ALL(letter, base, scalar, at)                                                     \
    CBLAS(letter, base, int32_t, scalar, at)                                                    \
    CBLAS(letter, base##_64, int64_t, scalar, at)                                               \
    CBLAS(letter, base##64_, int64_t, scalar, at)

CBLAS_ALL('s', cblas_sgemm, float, VALUE)
CBLAS_ALL('d', cblas_dgemm, double, VALUE)
CBLAS_ALL('c', cblas_cgemm, const void *, ADDRESS)
CBLAS_ALL('z', cblas_zgemm, const void *, ADDRESS)
CBLAS_ALL('c', cblas_cgemm3m, const void *, ADDRESS)
CBLAS_ALL('z', cblas_zgemm3m, const void *, ADDRESS)
