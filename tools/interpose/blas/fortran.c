/* SPDX-License-Identifier: BSD-3-Clause
 * Functions with Fortran names.  Arguments are passed by reference, so one function serves integers
 * of either width.  The lengths of character arguments come last.  They are only forwarded, since
 * callers in C may omit them. */
#include "entries.h"

#define LETTER(p) limber_blas_letter(p)
#define INTEGER(p) limber_blas_integer(p, 0, wide)
#define A(letter) { a, letter, INTEGER(lda) }
#define B(letter) { b, letter, INTEGER(ldb) }
#define RESULT { c, 'N', INTEGER(ldc) }

#define GEMM(name, prefix, suffix, letter_of_type, ...) \
    ENTRY(name, prefix, suffix, \
          (const char *ta, const char *tb, const void *m, const void *n, const void *k, \
           const void *alpha, const void *a, const void *lda, const void *b, const void *ldb, \
           const void *beta, void *c, const void *ldc, size_t la, size_t lb), \
          (ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb), .routine = __VA_ARGS__, \
          .order = BLAS_COLUMNS, .type = letter_of_type, .m = INTEGER(m), .n = INTEGER(n), \
          .k = INTEGER(k), .alpha = alpha, .beta = beta, .a = A(LETTER(ta)), .b = B(LETTER(tb)), \
          .c = RESULT)

#define GEMMT(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *ta, const char *tb, const void *n, const void *k, \
           const void *alpha, const void *a, const void *lda, const void *b, const void *ldb, \
           const void *beta, void *c, const void *ldc, size_t lu, size_t la, size_t lb), \
          (uplo, ta, tb, n, k, alpha, a, lda, b, ldb, beta, c, ldc, lu, la, lb), .routine = which, \
          .order = BLAS_COLUMNS, .type = letter_of_type, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(k), .alpha = alpha, .beta = beta, .a = A(LETTER(ta)), \
          .b = B(LETTER(tb)), .c = RESULT)

#define SYMM(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *side, const char *uplo, const void *m, const void *n, const void *alpha, \
           const void *a, const void *lda, const void *b, const void *ldb, const void *beta, \
           void *c, const void *ldc, size_t ls, size_t lu), \
          (side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc, ls, lu), .routine = which, \
          .order = BLAS_COLUMNS, .type = letter_of_type, .side = LETTER(side), \
          .uplo = LETTER(uplo), .m = INTEGER(m), .n = INTEGER(n), .alpha = alpha, .beta = beta, \
          .a = A('N'), .b = B('N'), .c = RESULT)

#define SYRK(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *trans, const void *n, const void *k, const void *alpha, \
           const void *a, const void *lda, const void *beta, void *c, const void *ldc, size_t lu, \
           size_t lt), \
          (uplo, trans, n, k, alpha, a, lda, beta, c, ldc, lu, lt), .routine = which, \
          .order = BLAS_COLUMNS, .type = letter_of_type, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(k), .alpha = alpha, .beta = beta, .a = A(LETTER(trans)), \
          .c = RESULT)

#define SYR2K(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *uplo, const char *trans, const void *n, const void *k, const void *alpha, \
           const void *a, const void *lda, const void *b, const void *ldb, const void *beta, \
           void *c, const void *ldc, size_t lu, size_t lt), \
          (uplo, trans, n, k, alpha, a, lda, b, ldb, beta, c, ldc, lu, lt), .routine = which, \
          .order = BLAS_COLUMNS, .type = letter_of_type, .uplo = LETTER(uplo), .m = INTEGER(n), \
          .n = INTEGER(n), .k = INTEGER(k), .alpha = alpha, .beta = beta, .a = A(LETTER(trans)), \
          .b = B(LETTER(trans)), .c = RESULT)

#define TRMM(name, prefix, suffix, letter_of_type, which) \
    ENTRY(name, prefix, suffix, \
          (const char *side, const char *uplo, const char *trans, const char *diag, const void *m, \
           const void *n, const void *alpha, const void *a, const void *lda, void *b, \
           const void *ldb, size_t ls, size_t lu, size_t lt, size_t ld), \
          (side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, ls, lu, lt, ld), \
          .routine = which, .order = BLAS_COLUMNS, .type = letter_of_type, .side = LETTER(side), \
          .uplo = LETTER(uplo), .diag = LETTER(diag), .m = INTEGER(m), .n = INTEGER(n), \
          .alpha = alpha, .a = A(LETTER(trans)), .b = B('N'))

#define COMPLEX_TYPES(X, family, which) \
    FORTRAN_SPELLINGS(X, c##family, 'c', which) \
    FORTRAN_SPELLINGS(X, z##family, 'z', which)
#define TYPES(X, family, which) \
    FORTRAN_SPELLINGS(X, s##family, 's', which) \
    FORTRAN_SPELLINGS(X, d##family, 'd', which) \
    COMPLEX_TYPES(X, family, which)

TYPES(GEMM, gemm, BLAS_GEMM)
COMPLEX_TYPES(GEMM, gemm3m, BLAS_GEMM)
TYPES(GEMMT, gemmt, BLAS_GEMMT)
TYPES(GEMMT, gemmtr, BLAS_GEMMT)
TYPES(SYMM, symm, BLAS_SYMM)
COMPLEX_TYPES(SYMM, hemm, BLAS_HEMM)
TYPES(SYRK, syrk, BLAS_SYRK)
COMPLEX_TYPES(SYRK, herk, BLAS_HERK)
TYPES(SYR2K, syr2k, BLAS_SYR2K)
COMPLEX_TYPES(SYR2K, her2k, BLAS_HER2K)
TYPES(TRMM, trmm, BLAS_TRMM)
TYPES(TRMM, trsm, BLAS_TRSM)

/* ---- BF16 and FP16 --------------------------------------------------------------------------- */

/* OpenBLAS's functions with BF16 or FP16 operands.  bgemm has BF16 scalars and results, the others
 * binary32. */
#define GEMM_HALF(name, prefix, suffix, letter, is_bf16) \
    GEMM(name, prefix, suffix, 's', BLAS_GEMM, .factors = letter, .bf16_result = is_bf16)
FORTRAN_SPELLINGS(GEMM_HALF, sbgemm, 'b', false)
FORTRAN_SPELLINGS(GEMM_HALF, shgemm, 'h', false)
FORTRAN_SPELLINGS(GEMM_HALF, bgemm, 'b', true)

/* ---- batches --------------------------------------------------------------------------------- */

#define BATCH \
    const char *ta, const char *tb, const void *m, const void *n, const void *k, \
        const void *alpha, const void *a, const void *lda, const void *b, const void *ldb, \
        const void *beta, const void *c, const void *ldc, const void *count, const void *size
#define STRIDED \
    const char *ta, const char *tb, const void *m, const void *n, const void *k, \
        const void *alpha, const void *a, const void *lda, const void *step_a, const void *b, \
        const void *ldb, const void *step_b, const void *beta, void *c, const void *ldc, \
        const void *step_c, const void *count

/* Forwards a batch.  A 32-bit integer is the first half of a 64-bit one, since machines are
 * little-endian. */
static void hand_on_groups(const struct request *r, const struct groups *g, void *behind)
{
    void (*real)(BATCH, size_t, size_t);

    (void)r;
    *(void **)&real = behind;
    real(g->ta, g->tb, g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c,
         g->ldc, &g->count, g->size, 1, 1);
}

/* Calls the original function of a strided batch. */
static void hand_on_strided(const struct request *r, const struct groups *g, void *behind)
{
    void (*real)(STRIDED, size_t, size_t);

    *(void **)&real = behind;
    real(g->ta, g->tb, g->m, g->n, g->k, g->alpha, r->a.data, g->lda, &r->batch.step_a, r->b.data,
         g->ldb, &r->batch.step_b, g->beta, (void *)(uintptr_t)r->c.data, g->ldc, &r->batch.step_c,
         &r->batch.count, 1, 1);
}

#define GEMM_BATCH(name, prefix, suffix, letter_of_type) \
    BATCH_ENTRY(name, prefix, suffix, (BATCH), hand_on_groups, \
                (.type = letter_of_type, .order = BLAS_COLUMNS), ta, tb, m, n, k, alpha, a, lda, \
                b, ldb, beta, c, ldc, size, INTEGER(count))
#define GEMM_BATCH_STRIDED(name, prefix, suffix, letter_of_type) \
    BATCH_ENTRY(name, prefix, suffix, (STRIDED), hand_on_strided, \
                (.type = letter_of_type, .order = BLAS_COLUMNS, .batch.count = INTEGER(count), \
                 .batch.step_a = INTEGER(step_a), .batch.step_b = INTEGER(step_b), \
                 .batch.step_c = INTEGER(step_c)), \
                ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, NULL, 1)
#define BATCH_TYPES(X, family) \
    FORTRAN_SPELLINGS(X, s##family, 's') \
    FORTRAN_SPELLINGS(X, d##family, 'd') \
    FORTRAN_SPELLINGS(X, c##family, 'c') \
    FORTRAN_SPELLINGS(X, z##family, 'z')

BATCH_TYPES(GEMM_BATCH, gemm_batch)
BATCH_TYPES(GEMM_BATCH_STRIDED, gemm_batch_strided)
