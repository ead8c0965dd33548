/* SPDX-License-Identifier: BSD-3-Clause
 * Functions with the Fortran names of levels 1 and 2.  Complex functions return values in the
 * manner of gfortran. */
#include "entries.h"

#include <complex.h>

#define LETTER(p) limber_blas_letter(p)
#define INTEGER(p) limber_blas_integer(p, 0, wide)
#define A(letter) { a, letter, INTEGER(lda) }
#define X { x, 'N', INTEGER(incx) }
#define Y { y, 'N', INTEGER(incy) }
#define COLUMNS .order = BLAS_COLUMNS

/* ---- level 1 --------------------------------------------------------------------------------- */

#define DOT(name, prefix, suffix, value, letter_of_type, conjugates) \
    VALUE_ENTRY(value, name, prefix, suffix, \
                (const void *n, const void *x, const void *incx, const void *y, const void *incy), \
                (n, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = letter_of_type, \
                .hermitian = conjugates, .m = 1, .n = 1, .k = INTEGER(n), .a = X, .b = Y)
FORTRAN_SPELLINGS(DOT, sdot, float, 's', false)
FORTRAN_SPELLINGS(DOT, ddot, double, 'd', false)
FORTRAN_SPELLINGS(DOT, cdotu, float _Complex, 'c', false)
FORTRAN_SPELLINGS(DOT, zdotu, double _Complex, 'z', false)
FORTRAN_SPELLINGS(DOT, cdotc, float _Complex, 'c', true)
FORTRAN_SPELLINGS(DOT, zdotc, double _Complex, 'z', true)

#define DSDOT(name, prefix, suffix, ...) \
    VALUE_ENTRY(double, name, prefix, suffix, \
                (const void *n, const void *x, const void *incx, const void *y, const void *incy), \
                (n, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = 'd', .extends = true, \
                .m = 1, .n = 1, .k = INTEGER(n), .a = X, .b = Y)
FORTRAN_SPELLINGS(DSDOT, dsdot, )

#define SDSDOT(name, prefix, suffix, ...) \
    VALUE_ENTRY(float, name, prefix, suffix, \
                (const void *n, const void *sb, const void *x, const void *incx, const void *y, \
                 const void *incy), \
                (n, sb, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = 's', \
                .extends = true, .m = 1, .n = 1, .k = INTEGER(n), .beta = sb, .a = X, .b = Y)
FORTRAN_SPELLINGS(SDSDOT, sdsdot, )

#define NORM(name, prefix, suffix, value, letter_of_type, which) \
    VALUE_ENTRY(value, name, prefix, suffix, (const void *n, const void *x, const void *incx), \
                (n, x, incx), COLUMNS, .routine = which, .type = letter_of_type, .m = 1, .n = 1, \
                .k = INTEGER(n), .a = X)
FORTRAN_SPELLINGS(NORM, snrm2, float, 's', BLAS_NRM2)
FORTRAN_SPELLINGS(NORM, dnrm2, double, 'd', BLAS_NRM2)
FORTRAN_SPELLINGS(NORM, scnrm2, float, 'c', BLAS_NRM2)
FORTRAN_SPELLINGS(NORM, dznrm2, double, 'z', BLAS_NRM2)
FORTRAN_SPELLINGS(NORM, sasum, float, 's', BLAS_ASUM)
FORTRAN_SPELLINGS(NORM, dasum, double, 'd', BLAS_ASUM)
FORTRAN_SPELLINGS(NORM, scasum, float, 'c', BLAS_ASUM)
FORTRAN_SPELLINGS(NORM, dzasum, double, 'z', BLAS_ASUM)

#define AXPY(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *n, const void *alpha, const void *x, const void *incx, void *y, \
           const void *incy), \
          (n, alpha, x, incx, y, incy), COLUMNS, .routine = BLAS_AXPY, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = alpha, .a = X, .c = Y)
FORTRAN_SPELLINGS(AXPY, saxpy, 's')
FORTRAN_SPELLINGS(AXPY, daxpy, 'd')
FORTRAN_SPELLINGS(AXPY, caxpy, 'c')
FORTRAN_SPELLINGS(AXPY, zaxpy, 'z')

/* complex scal only: a product of real numbers has equal bits in every BLAS */
#define SCAL(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, (const void *n, const void *alpha, void *x, const void *incx), \
          (n, alpha, x, incx), COLUMNS, .routine = BLAS_SCAL, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = alpha, .c = X)
FORTRAN_SPELLINGS(SCAL, cscal, 'c')
FORTRAN_SPELLINGS(SCAL, zscal, 'z')

#define ROT(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *n, void *x, const void *incx, void *y, const void *incy, const void *c, \
           const void *s), \
          (n, x, incx, y, incy, c, s), COLUMNS, .routine = BLAS_ROT, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = c, .beta = s, .b = X, .c = Y)
FORTRAN_SPELLINGS(ROT, srot, 's')
FORTRAN_SPELLINGS(ROT, drot, 'd')
FORTRAN_SPELLINGS(ROT, csrot, 'c')
FORTRAN_SPELLINGS(ROT, zdrot, 'z')

/* ---- level 2 --------------------------------------------------------------------------------- */

#define TYPES(X, family, ...) \
    FORTRAN_SPELLINGS(X, s##family, 's', __VA_ARGS__) \
    FORTRAN_SPELLINGS(X, d##family, 'd', __VA_ARGS__)
#define COMPLEX_TYPES(X, family, ...) \
    FORTRAN_SPELLINGS(X, c##family, 'c', __VA_ARGS__) \
    FORTRAN_SPELLINGS(X, z##family, 'z', __VA_ARGS__)
#define ALL_TYPES(X, family, ...) \
    TYPES(X, family, __VA_ARGS__) \
    COMPLEX_TYPES(X, family, __VA_ARGS__)

#define GEMV(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *trans, const void *m, const void *n, const void *alpha, const void *a, \
           const void *lda, const void *x, const void *incx, const void *beta, void *y, \
           const void *incy, size_t lt), \
          (trans, m, n, alpha, a, lda, x, incx, beta, y, incy, lt), COLUMNS, .routine = which, \
          .type = letter_of_type, .m = INTEGER(m), .n = INTEGER(n), .alpha = alpha, .beta = beta, \
          .a = A(LETTER(trans)), .b = X, .c = Y)
ALL_TYPES(GEMV, gemv, BLAS_GEMV)

#define GBMV(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *trans, const void *m, const void *n, const void *kl, const void *ku, \
           const void *alpha, const void *a, const void *lda, const void *x, const void *incx, \
           const void *beta, void *y, const void *incy, size_t lt), \
          (trans, m, n, kl, ku, alpha, a, lda, x, incx, beta, y, incy, lt), COLUMNS, \
          .routine = which, .type = letter_of_type, .m = INTEGER(m), .n = INTEGER(n), \
          .below = INTEGER(kl), .above = INTEGER(ku), .alpha = alpha, .beta = beta, \
          .a = A(LETTER(trans)), .b = X, .c = Y)
ALL_TYPES(GBMV, gbmv, BLAS_GBMV)

#define SYMV(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *a, const void *lda, \
           const void *x, const void *incx, const void *beta, void *y, const void *incy, \
           size_t lu), \
          (uplo, n, alpha, a, lda, x, incx, beta, y, incy, lu), COLUMNS, .routine = BLAS_SYMV, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .alpha = alpha, .beta = beta, .a = A('N'), .b = X, .c = Y)
TYPES(SYMV, symv, false)
COMPLEX_TYPES(SYMV, hemv, true)

#define SBMV(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *k, const void *alpha, const void *a, \
           const void *lda, const void *x, const void *incx, const void *beta, void *y, \
           const void *incy, size_t lu), \
          (uplo, n, k, alpha, a, lda, x, incx, beta, y, incy, lu), COLUMNS, .routine = BLAS_SBMV, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(k), .alpha = alpha, .beta = beta, .a = A('N'), .b = X, \
          .c = Y)
TYPES(SBMV, sbmv, false)
COMPLEX_TYPES(SBMV, hbmv, true)

#define SPMV(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *a, const void *x, \
           const void *incx, const void *beta, void *y, const void *incy, size_t lu), \
          (uplo, n, alpha, a, x, incx, beta, y, incy, lu), COLUMNS, .routine = BLAS_SPMV, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .alpha = alpha, .beta = beta, .a = { a, 'N', 1 }, .b = X, .c = Y)
TYPES(SPMV, spmv, false)
COMPLEX_TYPES(SPMV, hpmv, true)

#define TRMV(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *trans, const char *diag, const void *n, const void *a, \
           const void *lda, void *x, const void *incx, size_t lu, size_t lt, size_t ld), \
          (uplo, trans, diag, n, a, lda, x, incx, lu, lt, ld), COLUMNS, .routine = which, \
          .type = letter_of_type, .uplo = LETTER(uplo), .diag = LETTER(diag), .m = INTEGER(n), \
          .n = INTEGER(n), .a = A(LETTER(trans)), .c = X)
ALL_TYPES(TRMV, trmv, BLAS_TRMV)
ALL_TYPES(TRMV, trsv, BLAS_TRSV)

#define TBMV(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *trans, const char *diag, const void *n, const void *k, \
           const void *a, const void *lda, void *x, const void *incx, size_t lu, size_t lt, \
           size_t ld), \
          (uplo, trans, diag, n, k, a, lda, x, incx, lu, lt, ld), COLUMNS, .routine = which, \
          .type = letter_of_type, .uplo = LETTER(uplo), .diag = LETTER(diag), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(k), .a = A(LETTER(trans)), .c = X)
ALL_TYPES(TBMV, tbmv, BLAS_TBMV)
ALL_TYPES(TBMV, tbsv, BLAS_TBSV)

#define TPMV(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *trans, const char *diag, const void *n, const void *a, \
           void *x, const void *incx, size_t lu, size_t lt, size_t ld), \
          (uplo, trans, diag, n, a, x, incx, lu, lt, ld), COLUMNS, .routine = which, \
          .type = letter_of_type, .uplo = LETTER(uplo), .diag = LETTER(diag), .m = INTEGER(n), \
          .n = INTEGER(n), .a = { a, LETTER(trans), 1 }, .c = X)
ALL_TYPES(TPMV, tpmv, BLAS_TPMV)
ALL_TYPES(TPMV, tpsv, BLAS_TPSV)

/* The updated matrix is the request's c; the vectors are its a and b. */
#define RESULT { a, 'N', INTEGER(lda) }
#define GER(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const void *m, const void *n, const void *alpha, const void *x, const void *incx, \
           const void *y, const void *incy, void *a, const void *lda), \
          (m, n, alpha, x, incx, y, incy, a, lda), COLUMNS, .routine = BLAS_GER, \
          .type = letter_of_type, .hermitian = conjugates, .m = INTEGER(m), .n = INTEGER(n), \
          .k = 1, .alpha = alpha, .a = X, .b = Y, .c = RESULT)
TYPES(GER, ger, false)
COMPLEX_TYPES(GER, geru, false)
COMPLEX_TYPES(GER, gerc, true)

#define SYR(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *x, const void *incx, \
           void *a, const void *lda, size_t lu), \
          (uplo, n, alpha, x, incx, a, lda, lu), COLUMNS, .routine = BLAS_SYR, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = 1, .alpha = alpha, .a = X, .c = RESULT)
TYPES(SYR, syr, false)
COMPLEX_TYPES(SYR, her, true)

#define SPR(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *x, const void *incx, \
           void *a, size_t lu), \
          (uplo, n, alpha, x, incx, a, lu), COLUMNS, .routine = BLAS_SPR, .type = letter_of_type, \
          .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), .n = INTEGER(n), .k = 1, \
          .alpha = alpha, .a = X, .c = { a, 'N', 1 })
TYPES(SPR, spr, false)
COMPLEX_TYPES(SPR, hpr, true)

#define SYR2(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *x, const void *incx, \
           const void *y, const void *incy, void *a, const void *lda, size_t lu), \
          (uplo, n, alpha, x, incx, y, incy, a, lda, lu), COLUMNS, .routine = BLAS_SYR2, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = 1, .alpha = alpha, .a = X, .b = Y, .c = RESULT)
TYPES(SYR2, syr2, false)
COMPLEX_TYPES(SYR2, her2, true)

#define SPR2(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *alpha, const void *x, const void *incx, \
           const void *y, const void *incy, void *a, size_t lu), \
          (uplo, n, alpha, x, incx, y, incy, a, lu), COLUMNS, .routine = BLAS_SPR2, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = 1, .alpha = alpha, .a = X, .b = Y, .c = { a, 'N', 1 })
TYPES(SPR2, spr2, false)
COMPLEX_TYPES(SPR2, hpr2, true)
