/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a symmetric matrix and a vector in order 1 (limber.h, LIMBER_CONTRACT_REPRODUCIBLE),
 * in the real type T.  symmetric.c includes this file once for each type. */

/* four numbers of type T, and the indices that select from two of such vectors */
typedef T NAME(four) __attribute__((vector_size(4 * sizeof(T))));
typedef INTEGER NAME(mask) __attribute__((vector_size(4 * sizeof(T))));

/* Adds four products to four chains: the lanes of `a` times the number x. */
INLINE static void NAME(add_products)(NAME(four) sum[1], const NAME(four) a[1], T x)
{
    const NAME(four) terms = *a;
    NAME(four) chains = *sum;

#pragma GCC unroll 4
    for (int l = 0; l < 4; l++)
        chains[l] = FMA(terms[l], x, chains[l]);
    *sum = chains;
}

/* Multiplies the first columns of a block by vectors from both sides, as many as make whole groups
 * of `groups` times four.  Arguments are those of multiply_block.  Returns the number of these
 * columns.  Squares of 4 x 4 numbers are loaded once and transposed in registers. */
INLINE static int64_t NAME(multiply_columns)(int groups, const T *a, int64_t lead, int64_t h,
                                             int64_t w, const T *x, const T *z, T *right, T *left)
{
    const int step = 4 * groups;
    int64_t q = 0;

    for (; q + step <= w; q += step) {
        NAME(four) sum[4];
        int64_t i = 0;

#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            memcpy(&sum[g], left + q + 4 * g, sizeof *sum);
        for (; i + 4 <= h; i += 4) {
            NAME(four) y, c[4], t[4];

            memcpy(&y, right + i, sizeof y);
#pragma GCC unroll 4
            for (int g = 0; g < groups; g++) {
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    const int64_t col = q + 4 * g + r;

                    memcpy(&c[r], a + i + col * lead, sizeof *c);
                    NAME(add_products)(&y, &c[r], x[col]);
                }
                t[0] = PICK(NAME(mask), c[0], c[1], 0, 4, 2, 6);
                t[1] = PICK(NAME(mask), c[0], c[1], 1, 5, 3, 7);
                t[2] = PICK(NAME(mask), c[2], c[3], 0, 4, 2, 6);
                t[3] = PICK(NAME(mask), c[2], c[3], 1, 5, 3, 7);
                c[0] = PICK(NAME(mask), t[0], t[2], 0, 1, 4, 5);
                c[1] = PICK(NAME(mask), t[1], t[3], 0, 1, 4, 5);
                c[2] = PICK(NAME(mask), t[0], t[2], 2, 3, 6, 7);
                c[3] = PICK(NAME(mask), t[1], t[3], 2, 3, 6, 7);
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++)
                    NAME(add_products)(&sum[g], &c[r], z[i + r]);
            }
            memcpy(right + i, &y, sizeof y);
        }
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            memcpy(left + q + 4 * g, &sum[g], sizeof *sum);
        for (; i < h; i++)
            for (int64_t col = q; col < q + step; col++) {
                right[i] = FMA(a[i + col * lead], x[col], right[i]);
                left[col] = FMA(a[i + col * lead], z[i], left[col]);
            }
    }
    return q;
}

/* Multiplies a block of h x w numbers, whose columns are contiguous, by vectors from both sides:
 * adds its products by x[w] to right[h], and those of its transpose by z[h] to left[w].  Each
 * element of `right` and `left` is a chain of multiply-adds in ascending order. */
WITH_FMA static void NAME(multiply_block)(const T *a, int64_t lead, int64_t h, int64_t w,
                                          const T *x, const T *z, T *right, T *left)
{
    int64_t q = NAME(multiply_columns)(4, a, lead, h, w, x, z, right, left);

    q += NAME(multiply_columns)(1, a + q * lead, lead, h, w - q, x + q, z, right, left + q);
    for (; q < w; q++)
        for (int64_t i = 0; i < h; i++) {
            right[i] = FMA(a[i + q * lead], x[q], right[i]);
            left[q] = FMA(a[i + q * lead], z[i], left[q]);
        }
}

/* Multiplies a diagonal tile of n x n numbers by x: adds the products to y[n]. */
WITH_FMA static void NAME(multiply_tile)(const T *a, int64_t lead, bool below, int64_t n,
                                         const T *x, T *y)
{
    enum { WIDTH = 16 };

    for (int64_t p = 0; p < n; p += WIDTH) {
        const int64_t w = n - p < WIDTH ? n - p : WIDTH, rest = p + w;

        if (!below)
            NAME(multiply_block)(a + p * lead, lead, p, w, x + p, x, y, y + p);
        for (int64_t q = p; q < rest; q++)
            for (int64_t i = p; i < rest; i++)
                y[i] = FMA((i >= q) == below ? a[i + q * lead] : a[q + i * lead], x[q], y[i]);
        if (below)
            NAME(multiply_block)(a + rest + p * lead, lead, n - rest, w, x + p, x + rest, y + rest,
                                 y + p);
    }
}

/* Adds a chain's sum to each of n elements; the first chain replaces them. */
static void NAME(add_chains)(int64_t n, const T *chain, bool first, T *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = first ? chain[i] : y[i] + chain[i];
}

/* Computes y = A x for a symmetric matrix, of which the lower triangle (`below`) or the upper one
 * is stored.  Columns are contiguous.  Each stored number is read once. */
static void NAME(symmetric)(int64_t n, const T *a, int64_t lead, bool below, const T *x, T *y)
{
    for (int64_t p = 0; p < n; p += CHAIN) {
        const int64_t w = n - p < CHAIN ? n - p : CHAIN;
        T of_p[CHAIN] = { 0 };

        NAME(multiply_tile)(a + p + p * lead, lead, below, w, x + p, of_p);
        NAME(add_chains)(w, of_p, p == 0, y + p);
        for (int64_t i = p + CHAIN; i < n; i += CHAIN) {
            const int64_t h = n - i < CHAIN ? n - i : CHAIN;
            T of_i[CHAIN] = { 0 };

            memset(of_p, 0, sizeof of_p);
            if (below)
                NAME(multiply_block)(a + i + p * lead, lead, h, w, x + p, x + i, of_i, of_p);
            else
                NAME(multiply_block)(a + p + i * lead, lead, w, h, x + i, x + p, of_p, of_i);
            NAME(add_chains)(h, of_i, p == 0, y + i);
            NAME(add_chains)(w, of_p, false, y + p);
        }
    }
}
