/* SPDX-License-Identifier: BSD-3-Clause
 * Functions with CBLAS names.  All integers are declared with 64 bits: a register or stack slot
 * holds integers of 32 bits, too, and INTEGER() then ignores the upper half. */
#include "cblas_entries.h"

#define A(letter) { a, letter, INTEGER(lda) }
#define B(letter) { b, letter, INTEGER(ldb) }
#define RESULT { c, 'N', INTEGER(ldc) }

#define GEMM(name, prefix, suffix, letter_of_type, which, scalar, at, ...) \
    ENTRY(name, prefix, suffix, \
          (int order, int ta, int tb, int64_t m, int64_t n, int64_t k, scalar alpha, \
           const void *a, int64_t lda, const void *b, int64_t ldb, scalar beta, void *c, \
           int64_t ldc), \
          (order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), \
          __VA_ARGS__.routine = which, .cblas = true, .order = order, .type = letter_of_type, \
          .m = INTEGER(m), .n = INTEGER(n), .k = INTEGER(k), .alpha = at alpha, .beta = at beta, \
          .a = A(letter_of_op(ta)), .b = B(letter_of_op(tb)), .c = RESULT)

#define GEMMT(name, prefix, suffix, letter_of_type, which, scalar, at) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int ta, int tb, int64_t n, int64_t k, scalar alpha, const void *a, \
           int64_t lda, const void *b, int64_t ldb, scalar beta, void *c, int64_t ldc), \
          (order, uplo, ta, tb, n, k, alpha, a, lda, b, ldb, beta, c, ldc), .routine = which, \
          .cblas = true, .order = order, .type = letter_of_type, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(k), .alpha = at alpha, .beta = at beta, \
          .a = A(letter_of_op(ta)), .b = B(letter_of_op(tb)), .c = RESULT)

#define SYMM(name, prefix, suffix, letter_of_type, which, scalar, at) \
    ENTRY(name, prefix, suffix, \
          (int order, int side, int uplo, int64_t m, int64_t n, scalar alpha, const void *a, \
           int64_t lda, const void *b, int64_t ldb, scalar beta, void *c, int64_t ldc), \
          (order, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc), .routine = which, \
          .cblas = true, .order = order, .type = letter_of_type, .side = letter_of_side(side), \
          .uplo = letter_of_uplo(uplo), .m = INTEGER(m), .n = INTEGER(n), .alpha = at alpha, \
          .beta = at beta, .a = A('N'), .b = B('N'), .c = RESULT)

/* herk and her2k have scalars of other types: herk alpha and beta, her2k beta. */
#define SYRK(name, prefix, suffix, letter_of_type, which, scalar, at) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int trans, int64_t n, int64_t k, scalar alpha, const void *a, \
           int64_t lda, scalar beta, void *c, int64_t ldc), \
          (order, uplo, trans, n, k, alpha, a, lda, beta, c, ldc), .routine = which, \
          .cblas = true, .order = order, .type = letter_of_type, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(k), .alpha = at alpha, .beta = at beta, \
          .a = A(letter_of_op(trans)), .c = RESULT)

#define SYR2K(name, prefix, suffix, letter_of_type, which, scalar, at, scalar_beta, at_beta) \
    ENTRY(name, prefix, suffix, \
          (int order, int uplo, int trans, int64_t n, int64_t k, scalar alpha, const void *a, \
           int64_t lda, const void *b, int64_t ldb, scalar_beta beta, void *c, int64_t ldc), \
          (order, uplo, trans, n, k, alpha, a, lda, b, ldb, beta, c, ldc), .routine = which, \
          .cblas = true, .order = order, .type = letter_of_type, .uplo = letter_of_uplo(uplo), \
          .m = INTEGER(n), .n = INTEGER(n), .k = INTEGER(k), .alpha = at alpha, \
          .beta = at_beta beta, .a = A(letter_of_op(trans)), .b = B(letter_of_op(trans)), \
          .c = RESULT)

#define TRMM(name, prefix, suffix, letter_of_type, which, scalar, at) \
    ENTRY(name, prefix, suffix, \
          (int order, int side, int uplo, int trans, int diag, int64_t m, int64_t n, scalar alpha, \
           const void *a, int64_t lda, void *b, int64_t ldb), \
          (order, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb), .routine = which, \
          .cblas = true, .order = order, .type = letter_of_type, .side = letter_of_side(side), \
          .uplo = letter_of_uplo(uplo), .diag = letter_of_diag(diag), .m = INTEGER(m), \
          .n = INTEGER(n), .alpha = at alpha, .a = A(letter_of_op(trans)), .b = B('N'))

#define COMPLEX_TYPES(X, family, which) \
    CBLAS_SPELLINGS(X, c##family, 'c', which, const void *, ADDRESS) \
    CBLAS_SPELLINGS(X, z##family, 'z', which, const void *, ADDRESS)
#define TYPES(X, family, which) \
    CBLAS_SPELLINGS(X, s##family, 's', which, float, VALUE) \
    CBLAS_SPELLINGS(X, d##family, 'd', which, double, VALUE) \
    COMPLEX_TYPES(X, family, which)

TYPES(GEMM, gemm, BLAS_GEMM)
COMPLEX_TYPES(GEMM, gemm3m, BLAS_GEMM)
TYPES(GEMMT, gemmt, BLAS_GEMMT)
TYPES(GEMMT, gemmtr, BLAS_GEMMT)
TYPES(SYMM, symm, BLAS_SYMM)
COMPLEX_TYPES(SYMM, hemm, BLAS_HEMM)
TYPES(SYRK, syrk, BLAS_SYRK)
CBLAS_SPELLINGS(SYRK, cherk, 'c', BLAS_HERK, float, VALUE)
CBLAS_SPELLINGS(SYRK, zherk, 'z', BLAS_HERK, double, VALUE)
CBLAS_SPELLINGS(SYR2K, ssyr2k, 's', BLAS_SYR2K, float, VALUE, float, VALUE)
CBLAS_SPELLINGS(SYR2K, dsyr2k, 'd', BLAS_SYR2K, double, VALUE, double, VALUE)
CBLAS_SPELLINGS(SYR2K, csyr2k, 'c', BLAS_SYR2K, const void *, ADDRESS, const void *, ADDRESS)
CBLAS_SPELLINGS(SYR2K, zsyr2k, 'z', BLAS_SYR2K, const void *, ADDRESS, const void *, ADDRESS)
CBLAS_SPELLINGS(SYR2K, cher2k, 'c', BLAS_HER2K, const void *, ADDRESS, float, VALUE)
CBLAS_SPELLINGS(SYR2K, zher2k, 'z', BLAS_HER2K, const void *, ADDRESS, double, VALUE)
TYPES(TRMM, trmm, BLAS_TRMM)
TYPES(TRMM, trsm, BLAS_TRSM)

/* ---- BF16 and FP16 --------------------------------------------------------------------------- */

/* OpenBLAS's functions with BF16 or FP16 operands.  bgemm has BF16 scalars and results, the others
 * binary32. */
#define GEMM_HALF(name, prefix, suffix, letter, is_bf16, scalar) \
    GEMM(name, prefix, suffix, 's', BLAS_GEMM, scalar, &, .factors = letter, \
         .bf16_result = is_bf16, )
CBLAS_SPELLINGS(GEMM_HALF, sbgemm, 'b', false, float)
CBLAS_SPELLINGS(GEMM_HALF, shgemm, 'h', false, float)
CBLAS_SPELLINGS(GEMM_HALF, bgemm, 'b', true, uint16_t)

/* ---- batches --------------------------------------------------------------------------------- */

#define BATCH \
    int order, const void *ta, const void *tb, const void *m, const void *n, const void *k, \
        const void *alpha, const void *a, const void *lda, const void *b, const void *ldb, \
        const void *beta, const void *c, const void *ldc, int64_t count, const void *size
#define STRIDED(scalar) \
    int order, int ta, int tb, int64_t m, int64_t n, int64_t k, scalar alpha, const void *a, \
        int64_t lda, int64_t step_a, const void *b, int64_t ldb, int64_t step_b, scalar beta, \
        void *c, int64_t ldc, int64_t step_c, int64_t count

/* Forwards a group to the BLAS's batch function. */
static void hand_on_groups(const struct request *r, const struct groups *g, void *behind)
{
    void (*real)(BATCH);

    *(void **)&real = behind;
    real(r->order, g->ta, g->tb, g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb, g->beta,
         g->c, g->ldc, g->count, g->size);
}

#define ONE(p) (*(const int64_t *)(p))
#define HAND_ON_STRIDED(function, scalar, value) \
    static void function(const struct request *r, const struct groups *g, void *behind) \
    { \
        void (*real)(STRIDED(scalar)); \
\
        *(void **)&real = behind; \
        real(r->order, *(const int *)g->ta, *(const int *)g->tb, ONE(g->m), ONE(g->n), ONE(g->k), \
             value g->alpha, r->a.data, ONE(g->lda), r->batch.step_a, r->b.data, ONE(g->ldb), \
             r->batch.step_b, value g->beta, (void *)(uintptr_t)r->c.data, ONE(g->ldc), \
             r->batch.step_c, r->batch.count); \
    }
HAND_ON_STRIDED(hand_on_strided_s, float, *(const float *))
HAND_ON_STRIDED(hand_on_strided_d, double, *(const double *))
HAND_ON_STRIDED(hand_on_strided_c, const void *, )

#define GEMM_BATCH(name, prefix, suffix, letter_of_type, letter_of_factors) \
    BATCH_ENTRY( \
        name, prefix, suffix, (BATCH), hand_on_groups, \
        (.type = letter_of_type, .cblas = true, .order = order, .factors = letter_of_factors), ta, \
        tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, size, INTEGER(count))
#define GEMM_BATCH_STRIDED(name, prefix, suffix, letter_of_type, scalar, at, hand_on) \
    BATCH_ENTRY(name, prefix, suffix, (STRIDED(scalar)), hand_on, \
                (.type = letter_of_type, .cblas = true, .order = order, \
                 .batch.count = INTEGER(count), .batch.step_a = INTEGER(step_a), \
                 .batch.step_b = INTEGER(step_b), .batch.step_c = INTEGER(step_c)), \
                &ta, &tb, &m, &n, &k, at alpha, a, &lda, b, &ldb, at beta, c, &ldc, NULL, 1)

CBLAS_SPELLINGS(GEMM_BATCH, sgemm_batch, 's', 0)
CBLAS_SPELLINGS(GEMM_BATCH, dgemm_batch, 'd', 0)
CBLAS_SPELLINGS(GEMM_BATCH, cgemm_batch, 'c', 0)
CBLAS_SPELLINGS(GEMM_BATCH, zgemm_batch, 'z', 0)
CBLAS_SPELLINGS(GEMM_BATCH, sbgemm_batch, 's', 'b')
CBLAS_SPELLINGS(GEMM_BATCH_STRIDED, sgemm_batch_strided, 's', float, VALUE, hand_on_strided_s)
CBLAS_SPELLINGS(GEMM_BATCH_STRIDED, dgemm_batch_strided, 'd', double, VALUE, hand_on_strided_d)
CBLAS_SPELLINGS(GEMM_BATCH_STRIDED, cgemm_batch_strided, 'c', const void *, ADDRESS,
                hand_on_strided_c)
CBLAS_SPELLINGS(GEMM_BATCH_STRIDED, zgemm_batch_strided, 'z', const void *, ADDRESS,
                hand_on_strided_c)
