/* SPDX-License-Identifier: BSD-3-Clause
 * Functions with LAPACK's Fortran names.  Work arrays are not used.  Queries of their sizes are
 * forwarded to the other LAPACK. */
#include "../entries.h"

#define LETTER(p) limber_blas_letter(p)
#define INTEGER(p) limber_blas_integer(p, 0, wide)
#define MATRIX(x, ld) { x, 'N', INTEGER(ld) }
#define LEAST(x, y) ((x) < (y) ? (x) : (y))

#define GETRF(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *m, const void *n, void *a, const void *lda, void *pivots, void *info), \
          (m, n, a, lda, pivots, info), .routine = LAPACK_GETRF, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .m = INTEGER(m), .n = INTEGER(n), \
          .k = LEAST(INTEGER(m), INTEGER(n)), .a = MATRIX(a, lda), .lapack.vector = pivots, \
          .lapack.info = info)

#define GETRS(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const char *op, const void *n, const void *wide_b, const void *a, const void *lda, \
           void *pivots, void *b, const void *ldb, void *info, size_t lo), \
          (op, n, wide_b, a, lda, pivots, b, ldb, info, lo), .routine = LAPACK_GETRS, \
          .type = letter_of_type, .order = BLAS_COLUMNS, .m = INTEGER(n), .n = INTEGER(wide_b), \
          .k = INTEGER(n), .a = { a, LETTER(op), INTEGER(lda) }, .b = MATRIX(b, ldb), \
          .lapack.vector = pivots, .lapack.info = info)

#define GESV(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *n, const void *wide_b, void *a, const void *lda, void *pivots, void *b, \
           const void *ldb, void *info), \
          (n, wide_b, a, lda, pivots, b, ldb, info), .routine = LAPACK_GESV, \
          .type = letter_of_type, .order = BLAS_COLUMNS, .m = INTEGER(n), .n = INTEGER(wide_b), \
          .k = INTEGER(n), .a = MATRIX(a, lda), .b = MATRIX(b, ldb), .lapack.vector = pivots, \
          .lapack.info = info)

#define GETRI(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *n, void *a, const void *lda, void *pivots, void *work, const void *room, \
           void *info), \
          (n, a, lda, pivots, work, room, info), .routine = LAPACK_GETRI, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(n), \
          .a = MATRIX(a, lda), .lapack.vector = pivots, .lapack.work = work, \
          .lapack.room = INTEGER(room), .lapack.least_room = INTEGER(n), .lapack.info = info)

#define POTRF(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, void *a, const void *lda, void *info, size_t lu), \
          (uplo, n, a, lda, info, lu), .routine = LAPACK_POTRF, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .uplo = LETTER(uplo), .m = INTEGER(n), .n = INTEGER(n), \
          .k = INTEGER(n), .a = MATRIX(a, lda), .lapack.info = info)

#define POTRS(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const void *n, const void *wide_b, void *a, const void *lda, void *b, \
           const void *ldb, void *info, size_t lu), \
          (uplo, n, wide_b, a, lda, b, ldb, info, lu), .routine = which, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .uplo = LETTER(uplo), .m = INTEGER(n), .n = INTEGER(wide_b), \
          .k = INTEGER(n), .a = MATRIX(a, lda), .b = MATRIX(b, ldb), .lapack.info = info)

#define TRTRI(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *diag, const void *n, void *a, const void *lda, \
           void *info, size_t lu, size_t ld), \
          (uplo, diag, n, a, lda, info, lu, ld), .routine = LAPACK_TRTRI, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .uplo = LETTER(uplo), .diag = LETTER(diag), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(n), .a = MATRIX(a, lda), .lapack.info = info)

#define TRTRS(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *op, const char *diag, const void *n, const void *wide_b, \
           const void *a, const void *lda, void *b, const void *ldb, void *info, size_t lu, \
           size_t lo, size_t ld), \
          (uplo, op, diag, n, wide_b, a, lda, b, ldb, info, lu, lo, ld), .routine = LAPACK_TRTRS, \
          .type = letter_of_type, .order = BLAS_COLUMNS, .uplo = LETTER(uplo), \
          .diag = LETTER(diag), .m = INTEGER(n), .n = INTEGER(wide_b), .k = INTEGER(n), \
          .a = { a, LETTER(op), INTEGER(lda) }, .b = MATRIX(b, ldb), .lapack.info = info)

#define GEQRF(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *m, const void *n, void *a, const void *lda, void *tau, void *work, \
           const void *room, void *info), \
          (m, n, a, lda, tau, work, room, info), .routine = LAPACK_GEQRF, .type = letter_of_type, \
          .order = BLAS_COLUMNS, .m = INTEGER(m), .n = INTEGER(n), \
          .k = LEAST(INTEGER(m), INTEGER(n)), .a = MATRIX(a, lda), .lapack.vector = tau, \
          .lapack.work = work, .lapack.room = INTEGER(room), .lapack.least_room = INTEGER(n), \
          .lapack.info = info)

#define ORGQR(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const void *m, const void *n, const void *k, void *a, const void *lda, void *tau, \
           void *work, const void *room, void *info), \
          (m, n, k, a, lda, tau, work, room, info), .routine = LAPACK_ORGQR, \
          .type = letter_of_type, .order = BLAS_COLUMNS, .m = INTEGER(m), .n = INTEGER(n), \
          .k = INTEGER(k), .a = MATRIX(a, lda), .lapack.vector = tau, .lapack.work = work, \
          .lapack.room = INTEGER(room), .lapack.least_room = INTEGER(n), .lapack.info = info)

#define ORMQR(name, prefix, suffix, letter_of_type) \
    ENTRY(name, prefix, suffix, \
          (const char *side, const char *op, const void *m, const void *n, const void *k, \
           const void *a, const void *lda, void *tau, void *c, const void *ldc, void *work, \
           const void *room, void *info, size_t ls, size_t lo), \
          (side, op, m, n, k, a, lda, tau, c, ldc, work, room, info, ls, lo), \
          .routine = LAPACK_ORMQR, .type = letter_of_type, .order = BLAS_COLUMNS, \
          .side = LETTER(side), .m = INTEGER(m), .n = INTEGER(n), .k = INTEGER(k), \
          .a = { a, LETTER(op), INTEGER(lda) }, .c = MATRIX(c, ldc), .lapack.vector = tau, \
          .lapack.work = work, .lapack.room = INTEGER(room), \
          .lapack.least_room = LETTER(side) == 'L' ? INTEGER(n) : INTEGER(m), .lapack.info = info)

#define REAL(X, family) \
    FORTRAN_SPELLINGS(X, s##family, 's') \
    FORTRAN_SPELLINGS(X, d##family, 'd')
#define COMPLEX(X, family) \
    FORTRAN_SPELLINGS(X, c##family, 'c') \
    FORTRAN_SPELLINGS(X, z##family, 'z')
#define TYPES(X, family) \
    REAL(X, family) \
    COMPLEX(X, family)
#define SOLVE(X, family, which) \
    FORTRAN_SPELLINGS(X, s##family, 's', which) \
    FORTRAN_SPELLINGS(X, d##family, 'd', which) \
    FORTRAN_SPELLINGS(X, c##family, 'c', which) \
    FORTRAN_SPELLINGS(X, z##family, 'z', which)

TYPES(GETRF, getrf)
TYPES(GETRS, getrs)
TYPES(GESV, gesv)
TYPES(GETRI, getri)
TYPES(POTRF, potrf)
SOLVE(POTRS, potrs, LAPACK_POTRS)
SOLVE(POTRS, posv, LAPACK_POSV)
TYPES(TRTRI, trtri)
TYPES(TRTRS, trtrs)
TYPES(GEQRF, geqrf)
REAL(ORGQR, orgqr)
COMPLEX(ORGQR, ungqr)
REAL(ORMQR, ormqr)
COMPLEX(ORMQR, unmqr)
