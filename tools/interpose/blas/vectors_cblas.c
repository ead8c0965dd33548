/* SPDX-License-Identifier: BSD-3-Clause
 * Functions with the CBLAS names of levels 1 and 2. */
#include "cblas_entries.h"

#define A(letter) { a, letter, INTEGER(lda) }
#define X { x, 'N', INTEGER(incx) }
#define Y { y, 'N', INTEGER(incy) }
#define ORDERED .cblas = true, .order = order
#define COLUMNS .cblas = true, .order = BLAS_COLUMNS

/* ---- level 1 --------------------------------------------------------------------------------- */

#define DOT(name, prefix, suffix, value, letter_of_type) \
    VALUE_ENTRY(value, name, prefix, suffix, \
                (int64_t n, const void *x, int64_t incx, const void *y, int64_t incy), \
                (n, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = letter_of_type, \
                .m = 1, .n = 1, .k = INTEGER(n), .a = X, .b = Y)
CBLAS_SPELLINGS(DOT, sdot, float, 's')
CBLAS_SPELLINGS(DOT, ddot, double, 'd')

#define DSDOT(name, prefix, suffix, ...) \
    VALUE_ENTRY(double, name, prefix, suffix, \
                (int64_t n, const void *x, int64_t incx, const void *y, int64_t incy), \
                (n, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = 'd', .extends = true, \
                .m = 1, .n = 1, .k = INTEGER(n), .a = X, .b = Y)
CBLAS_SPELLINGS(DSDOT, dsdot, )

#define SDSDOT(name, prefix, suffix, ...) \
    VALUE_ENTRY(float, name, prefix, suffix, \
                (int64_t n, float sb, const void *x, int64_t incx, const void *y, int64_t incy), \
                (n, sb, x, incx, y, incy), COLUMNS, .routine = BLAS_DOT, .type = 's', \
                .extends = true, .m = 1, .n = 1, .k = INTEGER(n), .beta = &sb, .a = X, .b = Y)
CBLAS_SPELLINGS(SDSDOT, sdsdot, )

#define DOT_TO(name, prefix, suffix, letter_of_type, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int64_t n, const void *x, int64_t incx, const void *y, int64_t incy, void *to), \
          (n, x, incx, y, incy, to), COLUMNS, .routine = BLAS_DOT, .type = letter_of_type, \
          .hermitian = conjugates, .m = 1, .n = 1, .k = INTEGER(n), .a = X, .b = Y, \
          .c = { to, 'N', 1 })
CBLAS_SPELLINGS(DOT_TO, cdotu_sub, 'c', false)
CBLAS_SPELLINGS(DOT_TO, zdotu_sub, 'z', false)
CBLAS_SPELLINGS(DOT_TO, cdotc_sub, 'c', true)
CBLAS_SPELLINGS(DOT_TO, zdotc_sub, 'z', true)

#define NORM(name, prefix, suffix, value, letter_of_type, which) \
    VALUE_ENTRY(value, name, prefix, suffix, (int64_t n, const void *x, int64_t incx), \
                (n, x, incx), COLUMNS, .routine = which, .type = letter_of_type, .m = 1, .n = 1, \
                .k = INTEGER(n), .a = X)
CBLAS_SPELLINGS(NORM, snrm2, float, 's', BLAS_NRM2)
CBLAS_SPELLINGS(NORM, dnrm2, double, 'd', BLAS_NRM2)
CBLAS_SPELLINGS(NORM, scnrm2, float, 'c', BLAS_NRM2)
CBLAS_SPELLINGS(NORM, dznrm2, double, 'z', BLAS_NRM2)
CBLAS_SPELLINGS(NORM, sasum, float, 's', BLAS_ASUM)
CBLAS_SPELLINGS(NORM, dasum, double, 'd', BLAS_ASUM)
CBLAS_SPELLINGS(NORM, scasum, float, 'c', BLAS_ASUM)
CBLAS_SPELLINGS(NORM, dzasum, double, 'z', BLAS_ASUM)

#define AXPY(name, prefix, suffix, letter_of_type, scalar, at) \
    ENTRY(name, prefix, suffix, \
          (int64_t n, scalar alpha, const void *x, int64_t incx, void *y, int64_t incy), \
          (n, alpha, x, incx, y, incy), COLUMNS, .routine = BLAS_AXPY, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = at alpha, .a = X, .c = Y)
CBLAS_SPELLINGS(AXPY, saxpy, 's', float, VALUE)
CBLAS_SPELLINGS(AXPY, daxpy, 'd', double, VALUE)
CBLAS_SPELLINGS(AXPY, caxpy, 'c', const void *, ADDRESS)
CBLAS_SPELLINGS(AXPY, zaxpy, 'z', const void *, ADDRESS)

/* Only complex scal is replaced: a product of real numbers has equal bits in every BLAS. */
#define SCAL(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, (int64_t n, const void *alpha, void *x, int64_t incx), \
          (n, alpha, x, incx), COLUMNS, .routine = BLAS_SCAL, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = alpha, .c = X)
CBLAS_SPELLINGS(SCAL, cscal, 'c')
CBLAS_SPELLINGS(SCAL, zscal, 'z')

#define ROT(name, prefix, suffix, letter_of_type, scalar) \
    ENTRY(name, prefix, suffix, \
          (int64_t n, void *x, int64_t incx, void *y, int64_t incy, scalar c, scalar s), \
          (n, x, incx, y, incy, c, s), COLUMNS, .routine = BLAS_ROT, .type = letter_of_type, \
          .m = INTEGER(n), .n = 1, .k = 1, .alpha = &c, .beta = &s, .b = X, .c = Y)
CBLAS_SPELLINGS(ROT, srot, 's', float)
CBLAS_SPELLINGS(ROT, drot, 'd', double)
CBLAS_SPELLINGS(ROT, csrot, 'c', float)
CBLAS_SPELLINGS(ROT, zdrot, 'z', double)

/* ---- level 2 --------------------------------------------------------------------------------- */

#define TYPES(X, family, ...) \
    CBLAS_SPELLINGS(X, s##family, 's', float, VALUE, __VA_ARGS__) \
    CBLAS_SPELLINGS(X, d##family, 'd', double, VALUE, __VA_ARGS__)
#define COMPLEX_TYPES(X, family, ...) \
    CBLAS_SPELLINGS(X, c##family, 'c', const void *, ADDRESS, __VA_ARGS__) \
    CBLAS_SPELLINGS(X, z##family, 'z', const void *, ADDRESS, __VA_ARGS__)
/* her and hpr have real scalars. */
#define HERMITIAN_TYPES(X, family, ...) \
    CBLAS_SPELLINGS(X, c##family, 'c', float, VALUE, __VA_ARGS__) \
    CBLAS_SPELLINGS(X, z##family, 'z', double, VALUE, __VA_ARGS__)
#define ALL_TYPES(X, family, ...) \
    TYPES(X, family, __VA_ARGS__) \
    COMPLEX_TYPES(X, family, __VA_ARGS__)

#define GEMV(name, prefix, suffix, letter_of_type, scalar, at, which) \
    ENTRY(name, prefix, suffix, \
          (int order, int trans, int64_t m, int64_t n, scalar alpha, const void *a, int64_t lda, \
           const void *x, int64_t incx, scalar beta, void *y, int64_t incy), \
          (order, trans, m, n, alpha, a, lda, x, incx, beta, y, incy), ORDERED, .routine = which, \
          .type = letter_of_type, .m = INTEGER(m), .n = INTEGER(n), .alpha = at alpha, \
          .beta = at beta, .a = A(letter_of_op(trans)), .b = X, .c = Y)
ALL_TYPES(GEMV, gemv, BLAS_GEMV)

#define GBMV(name, prefix, suffix, letter_of_type, scalar, at, which) \
    ENTRY(name, prefix, suffix, \
          (int order, int trans, int64_t m, int64_t n, int64_t kl, int64_t ku, scalar alpha, \
           const void *a, int64_t lda, const void *x, int64_t incx, scalar beta, void *y, \
           int64_t incy), \
          (order, trans, m, n, kl, ku, alpha, a, lda, x, incx, beta, y, incy), ORDERED, \
          .routine = which, .type = letter_of_type, .m = INTEGER(m), .n = INTEGER(n), \
          .below = INTEGER(kl), .above = INTEGER(ku), .alpha = at alpha, .beta = at beta, \
          .a = A(letter_of_op(trans)), .b = X, .c = Y)
ALL_TYPES(GBMV, gbmv, BLAS_GBMV)

#define SYMV(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *a, int64_t lda, \
           const void *x, int64_t incx, scalar beta, void *y, int64_t incy), \
          (order, uplo, n, alpha, a, lda, x, incx, beta, y, incy), ORDERED, .routine = BLAS_SYMV, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .alpha = at alpha, .beta = at beta, .a = A('N'), \
          .b = X, .c = Y)
TYPES(SYMV, symv, false)
COMPLEX_TYPES(SYMV, hemv, true)

#define SBMV(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, int64_t k, scalar alpha, const void *a, int64_t lda, \
           const void *x, int64_t incx, scalar beta, void *y, int64_t incy), \
          (order, uplo, n, k, alpha, a, lda, x, incx, beta, y, incy), ORDERED, \
          .routine = BLAS_SBMV, .type = letter_of_type, .hermitian = conjugates, \
          .uplo = letter_of_uplo(uplo), .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(k), \
          .alpha = at alpha, .beta = at beta, .a = A('N'), .b = X, .c = Y)
TYPES(SBMV, sbmv, false)
COMPLEX_TYPES(SBMV, hbmv, true)

#define SPMV(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *a, const void *x, \
           int64_t incx, scalar beta, void *y, int64_t incy), \
          (order, uplo, n, alpha, a, x, incx, beta, y, incy), ORDERED, .routine = BLAS_SPMV, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .alpha = at alpha, .beta = at beta, \
          .a = { a, 'N', 1 }, .b = X, .c = Y)
TYPES(SPMV, spmv, false)
COMPLEX_TYPES(SPMV, hpmv, true)

#define TRMV(name, prefix, suffix, letter_of_type, scalar, at, which) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int trans, int diag, int64_t n, const void *a, int64_t lda, \
           void *x, int64_t incx), \
          (order, uplo, trans, diag, n, a, lda, x, incx), ORDERED, .routine = which, \
          .type = letter_of_type, .uplo = letter_of_uplo(uplo), .diag = letter_of_diag(diag), \
          .m = INTEGER(n), .n = INTEGER(n), .a = A(letter_of_op(trans)), .c = X)
ALL_TYPES(TRMV, trmv, BLAS_TRMV)
ALL_TYPES(TRMV, trsv, BLAS_TRSV)

#define TBMV(name, prefix, suffix, letter_of_type, scalar, at, which) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int trans, int diag, int64_t n, int64_t k, const void *a, \
           int64_t lda, void *x, int64_t incx), \
          (order, uplo, trans, diag, n, k, a, lda, x, incx), ORDERED, .routine = which, \
          .type = letter_of_type, .uplo = letter_of_uplo(uplo), .diag = letter_of_diag(diag), \
          .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(k), .a = A(letter_of_op(trans)), .c = X)
ALL_TYPES(TBMV, tbmv, BLAS_TBMV)
ALL_TYPES(TBMV, tbsv, BLAS_TBSV)

#define TPMV(name, prefix, suffix, letter_of_type, scalar, at, which) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int trans, int diag, int64_t n, const void *a, void *x, \
           int64_t incx), \
          (order, uplo, trans, diag, n, a, x, incx), ORDERED, .routine = which, \
          .type = letter_of_type, .uplo = letter_of_uplo(uplo), .diag = letter_of_diag(diag), \
          .m = INTEGER(n), .n = INTEGER(n), .a = { a, letter_of_op(trans), 1 }, .c = X)
ALL_TYPES(TPMV, tpmv, BLAS_TPMV)
ALL_TYPES(TPMV, tpsv, BLAS_TPSV)

/* The updated matrix is the request's c; the vectors are its a and b. */
#define RESULT { a, 'N', INTEGER(lda) }
#define GER(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int64_t m, int64_t n, scalar alpha, const void *x, int64_t incx, \
           const void *y, int64_t incy, void *a, int64_t lda), \
          (order, m, n, alpha, x, incx, y, incy, a, lda), ORDERED, .routine = BLAS_GER, \
          .type = letter_of_type, .hermitian = conjugates, .m = INTEGER(m), .n = INTEGER(n), \
          .k = 1, .alpha = at alpha, .a = X, .b = Y, .c = RESULT)
TYPES(GER, ger, false)
COMPLEX_TYPES(GER, geru, false)
COMPLEX_TYPES(GER, gerc, true)

#define SYR(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *x, int64_t incx, void *a, \
           int64_t lda), \
          (order, uplo, n, alpha, x, incx, a, lda), ORDERED, .routine = BLAS_SYR, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = 1, .alpha = at alpha, .a = X, .c = RESULT)
TYPES(SYR, syr, false)
HERMITIAN_TYPES(SYR, her, true)

#define SPR(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *x, int64_t incx, void *a), \
          (order, uplo, n, alpha, x, incx, a), ORDERED, .routine = BLAS_SPR, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = 1, .alpha = at alpha, .a = X, .c = { a, 'N', 1 })
TYPES(SPR, spr, false)
HERMITIAN_TYPES(SPR, hpr, true)

#define SYR2(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *x, int64_t incx, \
           const void *y, int64_t incy, void *a, int64_t lda), \
          (order, uplo, n, alpha, x, incx, y, incy, a, lda), ORDERED, .routine = BLAS_SYR2, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = 1, .alpha = at alpha, .a = X, .b = Y, \
          .c = RESULT)
TYPES(SYR2, syr2, false)
COMPLEX_TYPES(SYR2, her2, true)

#define SPR2(name, prefix, suffix, letter_of_type, scalar, at, conjugates) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int64_t n, scalar alpha, const void *x, int64_t incx, \
           const void *y, int64_t incy, void *a), \
          (order, uplo, n, alpha, x, incx, y, incy, a), ORDERED, .routine = BLAS_SPR2, \
          .type = letter_of_type, .hermitian = conjugates, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = 1, .alpha = at alpha, .a = X, .b = Y, \
          .c = { a, 'N', 1 })
TYPES(SPR2, spr2, false)
COMPLEX_TYPES(SPR2, hpr2, true)
