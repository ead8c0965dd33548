/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of rows of a matrix times a vector, in the type T, added in order 1 (limber.h,
 * LIMBER_CONTRACT_REPRODUCIBLE).  vectors.c includes this file once for each type.
 *
 * A chain is CHAIN fused multiply-adds, each of which waits for the previous one.  So the lanes of
 * a vector hold chains of different rows or, if there is only one row, different chains of that
 * row.  If elements are contiguous along k, square blocks of elements are transposed in
 * registers. */

enum {
    NAME(LANES) = VECTOR_BYTES / sizeof(T),
    NAME(PIECE) = 16 / sizeof(T), /* number of elements in 128 bits */
    /* number of columns that are loaded at once: those in half a vector */
    NAME(STEP) = VECTOR_BYTES > 16 ? NAME(LANES) / 2 : NAME(LANES),
    NAME(STRIPS) = 128 / VECTOR_BYTES, /* number of vectors of rows that are summed at once */
    NAME(ROWS) = NAME(LANES) * NAME(STRIPS),
    NAME(LINE) = 64 / sizeof(T), /* number of elements in a cache line */
    NAME(BLOCK) = 4096 / sizeof(T), /* number of rows whose sums fit in L1 */
    NAME(PAIRS) = 4 /* number of columns of pairs that are added at once */
};
typedef T NAME(v) __attribute__((vector_size(VECTOR_BYTES)));
typedef T NAME(loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

/* Loads a vector from any address. */
FLAT NAME(v) NAME(load)(const T *p)
{
    return (NAME(v))*(const NAME(loose) *)p;
}

/* Stores a vector at any address. */
FLAT void NAME(store)(T *p, NAME(v) x)
{
    *(NAME(loose) *)p = (NAME(loose))x;
}

/* Returns a b + c, rounded once. */
FLAT NAME(v) NAME(fma)(NAME(v) a, NAME(v) b, NAME(v) c)
{
#if VECTOR_BYTES == 64
    return (NAME(v))SUFFIX(_mm512_fmadd_)((WIDE)a, (WIDE)b, (WIDE)c);
#elif VECTOR_BYTES == 32
    return (NAME(v))SUFFIX(_mm256_fmadd_)((WIDE)a, (WIDE)b, (WIDE)c);
#else
    for (int i = 0; i < NAME(LANES); i++)
        c[i] = FMA(a[i], b[i], c[i]);
    return c;
#endif
}

/* Returns a vector with x in all lanes. */
FLAT NAME(v) NAME(all)(T x)
{
    NAME(v) y;

    for (int i = 0; i < NAME(LANES); i++)
        y[i] = x;
    return y;
}

#if VECTOR_BYTES == 64
/* Loads n <= STEP columns, from p on, of LANES rows.  Each lane is a row.  A row's columns are
 * loaded together: rows whose distance is a power of two displace one another from the cache. */
FLAT void NAME(columns)(const T *const *row, int64_t p, int n, NAME(v) column[NAME(STEP)])
{
    const unsigned char loaded = (unsigned char)((1u << n) - 1);
    NAME(v) x[NAME(STEP)], part[NAME(STEP)];

    UNROLL for (int i = 0; i < NAME(STEP); i++) {
        const T *const *at = row + i % NAME(PIECE) + i / NAME(PIECE) * NAME(STEP);
        const T *low = at[0] + p, *high = at[NAME(PIECE)] + p;

        if (n == NAME(STEP))
            x[i] = (NAME(v))_mm512_insertf64x4(
                _mm512_castpd256_pd512(_mm256_loadu_pd((const double *)low)),
                _mm256_loadu_pd((const double *)high), 1);
        else
            x[i] = (NAME(v))_mm512_insertf64x4(
                (__m512d)SUFFIX(_mm512_maskz_loadu_)(loaded, low),
                _mm512_castpd512_pd256((__m512d)SUFFIX(_mm512_maskz_loadu_)(loaded, high)), 1);
    }
    /* the quarters of a part have these rows and columns (rows / 128 bits, columns / 128 bits):
     * (0, 0), (0, 1), (1, 0), (1, 1), of the first half of the rows or of the second */
    TRANSPOSE(x, part);
    TRANSPOSE(x + NAME(PIECE), part + NAME(PIECE));
    UNROLL for (int i = 0; i < NAME(PIECE); i++) {
        const __m512d first = (__m512d)part[i], second = (__m512d)part[i + NAME(PIECE)];

        column[i] = (NAME(v))_mm512_shuffle_f64x2(first, second, 0x88);
        column[i + NAME(PIECE)] = (NAME(v))_mm512_shuffle_f64x2(first, second, 0xdd);
    }
}
#else
/* Loads n <= STEP columns, from p on, of LANES rows.  Each lane is a row. */
FLAT void NAME(columns)(const T *const *row, int64_t p, int n, NAME(v) column[NAME(STEP)])
{
    NAME(v) x[NAME(STEP)];

    UNROLL for (int i = 0; i < n && n < NAME(STEP); i++)
        for (int r = 0; r < NAME(LANES); r++)
            column[i][r] = row[r][p + i];
    if (n < NAME(STEP))
        return;
    UNROLL for (int i = 0; i < NAME(STEP); i++) {
        const double *low = (const double *)(row[i] + p);
#if VECTOR_BYTES == 32
        const double *high = (const double *)(row[i + NAME(STEP)] + p);

        x[i] = (NAME(v))_mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)),
                                             _mm_loadu_pd(high), 1);
#else
        x[i] = NAME(load)((const T *)low);
#endif
    }
    TRANSPOSE(x, column);
}
#endif

/* Returns the sum of one chain of n <= CHAIN products.  col: distance in elements between
 * neighbours of a row. */
static T NAME(chain)(int64_t n, const T *a, int64_t col, const T *x)
{
    T s = 0;

    for (int64_t p = 0; p < n; p++)
        s = FMA(a[p * col], x[p], s);
    return s;
}

/* Returns sum + chain.  The first chain becomes the sum unchanged. */
FLAT T NAME(add)(bool first, T sum, T chain)
{
    return first ? chain : sum + chain;
}

/* Adds the products of n <= STEP columns, from p on, of LANES rows to s. */
FLAT NAME(v) NAME(add_columns)(const T *const *row, int64_t p, int n, const T *x, NAME(v) s)
{
    NAME(v) c[NAME(STEP)];

    NAME(columns)(row, p, n, c);
    UNROLL for (int i = 0; i < n; i++)
        s = NAME(fma)(c[i], NAME(all)(x[p + i]), s);
    return s;
}

/* Adds the products of columns [p, n) of LANES rows to s. */
static __attribute__((noinline)) NAME(v)
NAME(add_last_columns)(const T *const *row, int64_t p, int64_t n, const T *x, NAME(v) s)
{
    for (; p + NAME(STEP) <= n; p += NAME(STEP))
        s = NAME(add_columns)(row, p, NAME(STEP), x, s);
    return p < n ? NAME(add_columns)(row, p, (int)(n - p), x, s) : s;
}

/* Sums one chain of n products for each of strips * LANES rows, all with the same elements of x.
 * The columns in a cache line are added together. */
static void NAME(rows)(const T *const *row, int strips, int64_t n, const T *x, NAME(v) *s)
{
    int64_t p = 0;

    for (int u = 0; u < strips; u++)
        s[u] = (NAME(v)){ 0 };
    for (; p + NAME(LINE) <= n; p += NAME(LINE))
        for (int u = 0; u < strips; u++) {
            const T *const *of_u = row + u * NAME(LANES);

            UNROLL for (int i = 0; i < NAME(LANES); i++)
                __builtin_prefetch(of_u[i] + p + AHEAD * NAME(LINE));
            UNROLL for (int q = 0; q < NAME(LINE); q += NAME(STEP))
                s[u] = NAME(add_columns)(of_u, p + q, NAME(STEP), x, s[u]);
        }
    for (int u = 0; u < strips && p < n; u++)
        s[u] = NAME(add_last_columns)(row + u * NAME(LANES), p, n, x, s[u]);
}

/* Adds the sums of one chain of `live` rows to their sums.  first: the chains become the sums. */
FLAT void NAME(add_chains)(int live, bool first, const NAME(v) *s, T *sum)
{
    int r = 0;

    for (; r + NAME(LANES) <= live; r += NAME(LANES))
        NAME(store)(sum + r, first ? s[r / NAME(LANES)] :
                                     NAME(load)(sum + r) + s[r / NAME(LANES)]);
    for (; r < live; r++)
        sum[r] = NAME(add)(first, sum[r], s[r / NAME(LANES)][r % NAME(LANES)]);
}

/* Adds n products to the sum of each row, in chains of CHAIN, if rows are contiguous along k.
 * first: the sums have no values yet, so the first chain becomes the sum. */
static void NAME(by_rows)(const struct vector_sums *v, const T *x, int64_t n, const T *a,
                          bool first, T *sum)
{
    const T *row[NAME(ROWS)];
    NAME(v) s[NAME(STRIPS)];

    for (int64_t i = 0; i < v->m; i += NAME(ROWS)) {
        const int live = v->m - i < NAME(ROWS) ? (int)(v->m - i) : NAME(ROWS);

        for (int64_t p = 0; p < n; p += CHAIN) {
            const int64_t end = n - p < CHAIN ? n - p : CHAIN;

            /* for rows that do not exist, the last one is repeated */
            for (int r = 0; r < NAME(ROWS); r++)
                row[r] = a + (i + (r < live ? r : live - 1)) * v->row + p;
            NAME(rows)(row, live > NAME(LANES) ? NAME(STRIPS) : 1, end, x + p, s);
            NAME(add_chains)(live, first && p == 0, s, sum + i);
        }
    }
}

/* Adds one chain of n <= CHAIN products to the sum of each row, if columns are contiguous.  The
 * chains of a block of rows stay in L1 while the columns are added. */
static void NAME(by_columns)(const struct vector_sums *v, const T *x, int64_t n, const T *a,
                             bool first, T *sum)
{
    enum { AT_ONCE = 8 };
    T s[NAME(BLOCK)];

    for (int64_t i0 = 0; i0 < v->m; i0 += NAME(BLOCK)) {
        const int64_t m = v->m - i0 < NAME(BLOCK) ? v->m - i0 : NAME(BLOCK);
        int64_t p = 0;

        memset(s, 0, (size_t)m * sizeof *s);
        for (; p + AT_ONCE <= n; p += AT_ONCE) {
            const T *column = a + i0 + p * v->col;
            int64_t i = 0;

            for (; i + 2 * NAME(LANES) <= m; i += 2 * NAME(LANES)) {
                NAME(v) low = NAME(load)(s + i), high = NAME(load)(s + i + NAME(LANES));

                UNROLL for (int c = 0; c < AT_ONCE; c++) {
                    const T *at = column + c * v->col + i;

                    low = NAME(fma)(NAME(load)(at), NAME(all)(x[p + c]), low);
                    high = NAME(fma)(NAME(load)(at + NAME(LANES)), NAME(all)(x[p + c]), high);
                }
                NAME(store)(s + i, low);
                NAME(store)(s + i + NAME(LANES), high);
            }
            for (; i < m; i++)
                UNROLL for (int c = 0; c < AT_ONCE; c++)
                    s[i] = FMA(column[c * v->col + i], x[p + c], s[i]);
        }
        for (; p < n; p++)
            for (int64_t i = 0; i < m; i++)
                s[i] = FMA(a[i0 + i + p * v->col], x[p], s[i]);
        for (int64_t i = 0; i < m; i++)
            sum[i0 + i] = NAME(add)(first, sum[i0 + i], s[i]);
    }
}

/* Returns a vector with x in even lanes and y in odd lanes. */
FLAT NAME(v) NAME(alternating)(T x, T y)
{
    NAME(v) v;

    for (int i = 0; i < NAME(LANES); i++)
        v[i] = i % 2 ? y : x;
    return v;
}

/* Adds the products of `count` <= PAIRS columns of pairs to the chains of m / 2 rows.  x: the four
 * numbers of each column's factor. */
FLAT void NAME(add_pairs)(const T *column, int64_t col, int count, const T *x, int64_t m, T *s)
{
    NAME(v) factor[2 * NAME(PAIRS)];
    int64_t i = 0;

    UNROLL for (int c = 0; c < 2 * count; c++)
        factor[c] = NAME(alternating)(x[2 * c], x[2 * c + 1]);
    for (; i + NAME(LANES) <= m; i += NAME(LANES)) {
        NAME(v) to = NAME(load)(s + i);

        UNROLL for (int c = 0; c < count; c++) {
            const NAME(v) at = NAME(load)(column + c * col + i);

            to = NAME(fma)(EVEN(at), factor[2 * c], to);
            to = NAME(fma)(ODD(at), factor[2 * c + 1], to);
        }
        NAME(store)(s + i, to);
    }
    for (; i < m; i++)
        UNROLL for (int c = 0; c < count; c++) {
            const T *f = x + 4 * c + i % 2, *pair = column + c * col + i - i % 2;

            s[i] = FMA(pair[1], f[2], FMA(pair[0], f[0], s[i]));
        }
}

/* Adds one chain of n <= CHAIN products, n even, to the sums of each row of a complex matrix with
 * contiguous columns (struct vector_sums, `pairs`). */
static void NAME(by_columns_of_pairs)(const struct vector_sums *v, const T *x, int64_t n,
                                      const T *a, bool first, T *sum)
{
    T s[NAME(BLOCK)];

    for (int64_t i0 = 0; i0 < 2 * v->m; i0 += NAME(BLOCK)) {
        const int64_t m = 2 * v->m - i0 < NAME(BLOCK) ? 2 * v->m - i0 : NAME(BLOCK);
        const T *column = a + i0;
        int64_t p = 0;

        memset(s, 0, (size_t)m * sizeof *s);
        for (; p + 2 * NAME(PAIRS) <= n; p += 2 * NAME(PAIRS))
            NAME(add_pairs)(column + p / 2 * v->col, v->col, NAME(PAIRS), x + 2 * p, m, s);
        for (; p < n; p += 2)
            NAME(add_pairs)(column + p / 2 * v->col, v->col, 1, x + 2 * p, m, s);
        for (int64_t i = 0; i < m; i++)
            sum[i0 + i] = NAME(add)(first, sum[i0 + i], s[i]);
    }
}

/* Adds one chain of n <= CHAIN products to the sum of each row, if neither rows nor columns are
 * contiguous, by first copying blocks of rows to contiguous memory. */
static void NAME(by_copies)(const struct vector_sums *v, const T *x, int64_t n, const T *a,
                            bool first, T *sum)
{
    T copy[NAME(ROWS) * CHAIN];
    struct vector_sums block = *v;

    block.row = CHAIN;
    block.col = 1;
    for (int64_t i = 0; i < v->m; i += NAME(ROWS)) {
        block.m = v->m - i < NAME(ROWS) ? v->m - i : NAME(ROWS);
        for (int64_t r = 0; r < block.m; r++)
            for (int64_t p = 0; p < n; p++)
                copy[r * CHAIN + p] = a[(i + r) * v->row + p * v->col];
        NAME(by_rows)(&block, x, n, copy, first, sum + i);
    }
}

/* ---- sums of one row ------------------------------------------------------------------------- */

/* Adds the products of n <= STEP columns, from p on, of two matrices of LANES rows to s. */
FLAT NAME(v) NAME(add_products)(const T *const *of_a, const T *const *of_x, int64_t p, int n,
                                NAME(v) s)
{
    NAME(v) u[NAME(STEP)], w[NAME(STEP)];

    NAME(columns)(of_a, p, n, u);
    NAME(columns)(of_x, p, n, w);
    UNROLL for (int i = 0; i < n; i++)
        s = NAME(fma)(u[i], w[i], s);
    return s;
}

/* Adds products [p, n) of LANES chains to s, one in each lane: of a row of of_a and a vector of
 * of_x. */
static __attribute__((noinline)) NAME(v)
NAME(add_beside)(const T *const *of_a, const T *const *of_x, int64_t p, int64_t n, NAME(v) s)
{
    for (; p + NAME(LINE) <= n; p += NAME(LINE)) {
        for (int i = 0; i < NAME(LANES); i++) {
            __builtin_prefetch(of_a[i] + p + AHEAD * NAME(LINE));
            __builtin_prefetch(of_x[i] + p + AHEAD * NAME(LINE));
        }
        UNROLL for (int q = 0; q < NAME(LINE); q += NAME(STEP))
            s = NAME(add_products)(of_a, of_x, p + q, NAME(STEP), s);
    }
    for (; p + NAME(STEP) <= n; p += NAME(STEP))
        s = NAME(add_products)(of_a, of_x, p, NAME(STEP), s);
    return p < n ? NAME(add_products)(of_a, of_x, p, (int)(n - p), s) : s;
}

/* Sums the first `lanes` chains of one row, at most LANES, one in each lane.  All have CHAIN
 * products except the last one, which has n. */
static void NAME(chains)(const T *a, const T *x, int lanes, int64_t n, T *to)
{
    static const T zeros[CHAIN];
    const T *of_a[NAME(LANES)], *of_x[NAME(LANES)];
    NAME(v) s = { 0 }, last;

    for (int i = 0; i < NAME(LANES); i++) {
        of_a[i] = i < lanes ? a + i * CHAIN : zeros;
        of_x[i] = i < lanes ? x + i * CHAIN : zeros;
    }
    last = NAME(add_beside)(of_a, of_x, 0, n, s);
    /* the last chain has ended: adding a product of zeros could turn its -0 into +0 */
    of_a[lanes - 1] = of_x[lanes - 1] = zeros;
    s = NAME(add_beside)(of_a, of_x, n, CHAIN, last);
    NAME(store)(to, s);
    to[lanes - 1] = last[lanes - 1];
}

/* Sums LANES chains of one row, each of CHAIN products, with one chain in each lane.  to: the sums
 * of the chains. */
FLAT void NAME(sum_whole_chains)(const T *a, const T *x, T *to)
{
    const T *of_a[NAME(LANES)], *of_x[NAME(LANES)];

    for (int i = 0; i < NAME(LANES); i++) {
        of_a[i] = a + i * CHAIN;
        of_x[i] = x + i * CHAIN;
    }
    NAME(store)(to, NAME(add_beside)(of_a, of_x, 0, CHAIN, (NAME(v)){ 0 }));
}

/* Computes all sums, if each row has a vector of its own.  Lanes hold chains of different rows. */
static void NAME(by_own_vectors)(const struct vector_sums *v)
{
    const T *a = v->a, *x = v->x, *of_a[NAME(LANES)], *of_x[NAME(LANES)];
    T *sum = v->sum;

    for (int64_t i = 0; i < v->m; i += NAME(LANES)) {
        const int live = v->m - i < NAME(LANES) ? (int)(v->m - i) : NAME(LANES);

        for (int64_t p = 0; p < v->k; p += CHAIN) {
            NAME(v) s;

            /* for rows that do not exist, the last one is repeated */
            for (int r = 0; r < NAME(LANES); r++) {
                of_a[r] = a + (i + (r < live ? r : live - 1)) * v->row + p;
                of_x[r] = x + (i + (r < live ? r : live - 1)) * v->next + p;
            }
            s = NAME(add_beside)(of_a, of_x, 0, v->k - p < CHAIN ? v->k - p : CHAIN,
                                 (NAME(v)){ 0 });
            NAME(add_chains)(live, !v->more && p == 0, &s, sum + i);
        }
    }
}

/* Returns `sum` plus the dot product of a row and a vector, both contiguous.  first: `sum` has no
 * value yet. */
static T NAME(dot)(int64_t n, const T *a, const T *x, bool first, T sum)
{
    T chain[NAME(LANES)];

    for (; n > 0; n -= NAME(LANES) * CHAIN, a += NAME(LANES) * CHAIN, x += NAME(LANES) * CHAIN) {
        int lanes = NAME(LANES);

        if (n >= NAME(LANES) * CHAIN)
            NAME(sum_whole_chains)(a, x, chain);
        else if (n <= CHAIN) {
            lanes = 1;
            chain[0] = NAME(chain)(n, a, 1, x);
        } else {
            lanes = (int)((n + CHAIN - 1) / CHAIN);
            NAME(chains)(a, x, lanes, n - (lanes - 1) * CHAIN, chain);
        }
        for (int i = 0; i < lanes; i++, first = false)
            sum = NAME(add)(first, sum, chain[i]);
    }
    return sum;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* Returns n <= CHAIN elements of the vector, in place or in a contiguous copy. */
static const T *NAME(dense)(const T *x, int64_t step, int64_t n, T copy[CHAIN])
{
    if (step == 1)
        return x;
    for (int64_t p = 0; p < n; p++)
        copy[p] = x[p * step];
    return copy;
}

/* Computes all sums, by the code for the matrix's layout.  If neither rows nor columns of the
 * matrix are contiguous, rows are copied. */
void SUMS(const struct vector_sums *v)
{
    const T *a = v->a, *x = v->x;
    T *sum = v->sum, copy[CHAIN];

    if (v->pairs) {
        for (int64_t p = 0; p < v->k; p += CHAIN)
            NAME(by_columns_of_pairs)(v, x + 2 * p, v->k - p < CHAIN ? v->k - p : CHAIN,
                                      a + p / 2 * v->col, !v->more && p == 0, sum);
        return;
    }
    if (v->next && v->k > 0) {
        NAME(by_own_vectors)(v);
        return;
    }
    if (v->m == 1 && v->col == 1 && v->step == 1 && v->k > 0) {
        *sum = NAME(dot)(v->k, a, x, !v->more, *sum);
        return;
    }
    if (v->k == 0 && !v->more)
        memset(sum, 0, (size_t)v->m * sizeof *sum);
    if (v->m > 1 && v->row != 1 && v->col == 1 && v->step == 1) {
        NAME(by_rows)(v, x, v->k, a, !v->more, sum);
        return;
    }
    for (int64_t p = 0; p < v->k; p += CHAIN) {
        const int64_t n = v->k - p < CHAIN ? v->k - p : CHAIN;
        const T *part = NAME(dense)(x + p * v->step, v->step, n, copy);
        const T *at = a + p * v->col;
        const bool first = !v->more && p == 0;

        if (v->m == 1)
            *sum = NAME(add)(first, *sum, NAME(chain)(n, at, v->col, part));
        else if (v->row == 1)
            NAME(by_columns)(v, part, n, at, first, sum);
        else if (v->col == 1)
            NAME(by_rows)(v, part, n, at, first, sum);
        else
            NAME(by_copies)(v, part, n, at, first, sum);
    }
}
