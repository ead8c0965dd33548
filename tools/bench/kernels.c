/* SPDX-License-Identifier: BSD-3-Clause
 * Peers that no library offers: products in the compiler's binary128, and in double-double by fused
 * multiply-adds, the usual way to obtain 106 bits. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- products in binary128 ------------------------------------------------------------------- */

enum { QUAD_BLOCK = 32 };

/* Multiplies the block of A that begins at row i0 and column k0 by the matching rows of B, and adds
 * to C, in binary128. */
static void multiply_quad_block(const struct contender *c, int i0, int k0)
{
    const quad *a = c->now->a, *b = c->now->b;
    quad *y = c->now->y;
    int n = (int)c->work->n;

    for (int i = i0; i < n && i < i0 + QUAD_BLOCK; i++)
        for (int k = k0; k < n && k < k0 + QUAD_BLOCK; k++) {
            quad x = a[(size_t)i * (size_t)n + (size_t)k];

            for (int j = 0; j < n; j++)
                y[(size_t)i * (size_t)n + (size_t)j] += x * b[(size_t)k * (size_t)n + (size_t)j];
        }
}

bool quad_prepare(struct contender *c)
{
    (void)c;
    return sizeof(quad) == 16;
}

bool quad_gemm(struct contender *c)
{
    int n = (int)c->work->n;

    memset(c->now->y, 0, (size_t)n * (size_t)n * sizeof(quad));
    for (int i = 0; i < n; i += QUAD_BLOCK)
        for (int k = 0; k < n; k += QUAD_BLOCK)
            multiply_quad_block(c, i, k);
    return true;
}

/* ---- products of pairs of doubles ------------------------------------------------------------ */

#if defined(__x86_64__)

/* (h,l) += (ah,al)(bh,bl) in double-double arithmetic, by Knuth's TwoSum.  The product's low part
 * is added where TwoSum computes the error of the sum, which saves two of twelve operations; its
 * rounding error is near 2^-106.  The first sum must not be contracted to an FMA, because h + ah bh
 * would have bits that TwoSum loses.  Low sums are added to the high ones at the end. */
#define STEP(FMA, FMS, h, l, ah, al, bh, bl) \
    do { \
        __typeof__(h) s_ = (h) + (ah) * (bh); \
        __typeof__(h) t_ = s_ - (h); \
        __typeof__(h) e_ = FMS(ah, bh, t_); \
\
        e_ = FMA(ah, bl, e_); \
        e_ = FMA(al, bh, e_); \
        (l) += e_ + ((h) - (s_ - t_)); \
        (h) = s_; \
    } while (0)

/* The arguments of a register tile. */
struct tile {
    const double *a, *b; /* packed panels of A and B */
    double *out; /* each row of the tile: vectors of high parts, then vectors of low parts */
    long k;
};

/* WIDE_ROW adds the product of an element of A, row i, and two vectors of B to the sums of that
 * row. WIDE_SAVE stores the sums of row i. */
#define WIDE_ROW(i) \
    do { \
        __m512d ah_ = _mm512_set1_pd(a[2 * (i)]); \
        __m512d al_ = _mm512_set1_pd(a[2 * (i) + 1]); \
\
        STEP(_mm512_fmadd_pd, _mm512_fmsub_pd, h##i##0, l##i##0, ah_, al_, b0, c0); \
        STEP(_mm512_fmadd_pd, _mm512_fmsub_pd, h##i##1, l##i##1, ah_, al_, b1, c1); \
    } while (0)
#define WIDE_SAVE(i) \
    do { \
        _mm512_storeu_pd(t->out + 32 * (i), h##i##0); \
        _mm512_storeu_pd(t->out + 32 * (i) + 8, h##i##1); \
        _mm512_storeu_pd(t->out + 32 * (i) + 16, l##i##0); \
        _mm512_storeu_pd(t->out + 32 * (i) + 24, l##i##1); \
    } while (0)

/* Micro-kernel for AVX-512 with a register tile of 3 rows by 2 vectors of 8 double-doubles: sums
 * take twelve registers, B takes four. */
static __attribute__((target("avx512f"))) void tile_wide(const struct tile *t)
{
    __m512d h00 = _mm512_setzero_pd(), h01 = h00, h10 = h00, h11 = h00, h20 = h00, h21 = h00;
    __m512d l00 = h00, l01 = h00, l10 = h00, l11 = h00, l20 = h00, l21 = h00;
    const double *a = t->a, *b = t->b;

    for (long k = 0; k < t->k; k++, a += 6, b += 32) {
        __m512d b0 = _mm512_loadu_pd(b), b1 = _mm512_loadu_pd(b + 8);
        __m512d c0 = _mm512_loadu_pd(b + 16), c1 = _mm512_loadu_pd(b + 24);

        WIDE_ROW(0);
        WIDE_ROW(1);
        WIDE_ROW(2);
    }
    WIDE_SAVE(0);
    WIDE_SAVE(1);
    WIDE_SAVE(2);
}

/* Multiply and store a row of one vector of four doubles; WIDE_ROW and WIDE_SAVE have several. */
#define NARROW_ROW(i) \
    do { \
        __m256d ah_ = _mm256_set1_pd(a[2 * (i)]); \
        __m256d al_ = _mm256_set1_pd(a[2 * (i) + 1]); \
\
        STEP(_mm256_fmadd_pd, _mm256_fmsub_pd, h##i, l##i, ah_, al_, b0, c0); \
    } while (0)
#define NARROW_SAVE(i) \
    do { \
        _mm256_storeu_pd(t->out + 8 * (i), h##i); \
        _mm256_storeu_pd(t->out + 8 * (i) + 4, l##i); \
    } while (0)

/* Micro-kernel for AVX2 with a register tile of 3 rows by one vector of 4 double-doubles, the
 * largest tile for sixteen registers. */
static __attribute__((target("avx2,fma"))) void tile_narrow(const struct tile *t)
{
    __m256d h0 = _mm256_setzero_pd(), h1 = h0, h2 = h0, l0 = h0, l1 = h0, l2 = h0;
    const double *a = t->a, *b = t->b;

    for (long k = 0; k < t->k; k++, a += 6, b += 8) {
        __m256d b0 = _mm256_loadu_pd(b), c0 = _mm256_loadu_pd(b + 4);

        NARROW_ROW(0);
        NARROW_ROW(1);
        NARROW_ROW(2);
    }
    NARROW_SAVE(0);
    NARROW_SAVE(1);
    NARROW_SAVE(2);
}

/* Rows of a register tile. */
enum { ROWS = 3 };

static int tile_columns(void)
{
    return cpu_has("avx512") ? 16 : 4;
}

const char *dd_kernel(void)
{
    return cpu_has("avx512") ? "AVX-512, 3 rows x 2 vectors" :
           cpu_has("fma")    ? "AVX2, 3 rows x 1 vector" :
                               NULL;
}

/* Packs ROWS rows of A from row i0 on: for each k, the high and low part of each row's element.
 * Rows past the end are zeros. */
static void pack_rows(const double *a, size_t n, int i0, double *out)
{
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < ROWS; i++, out += 2) {
            bool inside = (size_t)(i0 + i) < n;
            size_t at = 2 * ((size_t)(i0 + i) * n + k);

            out[0] = inside ? a[at] : 0;
            out[1] = inside ? a[at + 1] : 0;
        }
}

/* Packs `width` columns of B from column j0 on: for each k, the high parts of all columns, then the
 * low parts.  Columns past the end are zeros. */
static void pack_columns(const double *b, size_t n, int j0, int width, double *out)
{
    for (size_t k = 0; k < n; k++, out += 2 * width)
        for (int j = 0; j < width; j++) {
            bool inside = (size_t)(j0 + j) < n;
            size_t at = 2 * (k * n + (size_t)(j0 + j));

            out[j] = inside ? b[at] : 0;
            out[width + j] = inside ? b[at + 1] : 0;
        }
}

/* Stores a register tile of double-doubles in y.  FastTwoSum makes high and low part of each sum
 * disjoint. */
static void store_tile(double *y, int n, int i0, int j0, int width, const double *tile)
{
    for (int i = 0; i < ROWS && i0 + i < n; i++)
        for (int j = 0; j < width && j0 + j < n; j++) {
            double h = tile[2 * width * i + j], l = tile[2 * width * i + width + j], s = h + l;
            size_t at = 2 * ((size_t)(i0 + i) * (size_t)n + (size_t)(j0 + j));

            y[at] = s;
            y[at + 1] = l - (s - h);
        }
}

/* Multiplies matrices of double-doubles: packs A once and B by panels of columns, and runs the
 * micro-kernel for the CPU's vectors. */
bool dd_gemm(struct contender *c)
{
    int width = tile_columns(), size = (int)c->work->n, panels = (size + ROWS - 1) / ROWS;
    size_t n = (size_t)size;
    double *a = malloc((size_t)panels * n * 2 * ROWS * sizeof *a);
    double *b = malloc(n * 2 * (size_t)width * sizeof *b), out[ROWS * 32];
    bool ok = a && b;

    for (int i = 0; ok && i < panels; i++)
        pack_rows(c->now->a, n, ROWS * i, a + (size_t)i * n * 2 * ROWS);
    for (int j = 0; ok && j < size; j += width) {
        pack_columns(c->now->b, n, j, width, b);
        for (int i = 0; i < panels; i++) {
            struct tile t = { a + (size_t)i * n * 2 * ROWS, b, out, size };

            if (width == 16)
                tile_wide(&t);
            else
                tile_narrow(&t);
            store_tile(c->now->y, size, ROWS * i, j, width, out);
        }
    }
    free(a);
    free(b);
    return ok || contender_set_state(c, STATE_failed, "out of memory");
}

#else

const char *dd_kernel(void)
{
    return NULL;
}

bool dd_gemm(struct contender *c)
{
    (void)c;
    return false;
}

#endif

bool dd_prepare(struct contender *c)
{
    (void)c;
    return dd_kernel() != NULL;
}
