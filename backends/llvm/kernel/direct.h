/* SPDX-License-Identifier: BSD-3-Clause
 * Small products of one float format on unpacked operands.  This file is included once for each
 * format.  REAL is the element, VEC a vector register of elements, MASK a selection of lanes.
 *
 * C is divided into register tiles of at most ROWS x VECTORS vectors.  An element of C is one chain
 * of fused multiply-adds in the order of k, from +0 or from the sum so far in C.  This gives the
 * bits of the scheme `native`. */

/* A register tile.  Rows of B and of C are contiguous.  Rows of A may have any addresses, and `at`
 * holds the offsets of a row's elements along k. */
struct NAME(tile) {
    const REAL *a[ROWS], *b;
    const int64_t *at;
    /* if not 0, rows of A are interleaved in memory: neighbouring rows are contiguous, and the
     * elements of a row are this far apart */
    int64_t beside;
    REAL *c[ROWS];
    int64_t b_row, k; /* b_row: distance in elements between rows of B */
    MASK last;      /* the lanes of a row's last vector that exist */
    int add;        /* 1 to add the sum to C, -1 to subtract it from C, 0 to store it */
    int follows;    /* 1 if the chain continues from the sum in C */
    int64_t columns; /* number of columns of the tile that exist */
    int far; /* 1 if rows of C lie on different pages */
    const struct scaling *scaling; /* alpha and beta; NULL if only `add` applies */
};

typedef REAL NAME(lanes) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef double NAME(wide) __attribute__((vector_size(LANES * sizeof(double))));

/* Stores alpha x + beta C to C for the tile's sums x, with the same bits as limber_store_float, the
 * general code. */
static __attribute__((noinline)) void NAME(scale)(const struct NAME(tile) *t, int rows, int vectors,
                                                  const REAL *x)
{
    const double alpha = t->scaling->alpha, beta = t->scaling->beta;

    for (int i = 0; i < rows * vectors; i++, x += LANES) {
        const int64_t at = i % vectors * LANES, count = t->columns - at;
        REAL *c = t->c[i / vectors] + at;
        NAME(lanes) old = { 0 }, y;
        NAME(wide) sum;

        if (beta != 0)
            old = (NAME(lanes))(count < LANES ? MASKED_LOAD(c, t->last) : LOAD(c));
        sum = alpha * __builtin_convertvector((NAME(lanes))LOAD(x), NAME(wide));
        if (beta != 0)
            sum = __builtin_elementwise_fma(beta - (NAME(wide)){ 0 },
                                            __builtin_convertvector(old, NAME(wide)), sum);
        y = __builtin_convertvector(sum, NAME(lanes));
        /* if a term may have overflowed FP64, compute by limber_blend, which scales the terms */
        for (int64_t j = 0; j < LANES && beta != 0 && __builtin_reduce_or(sum - sum != 0); j++)
            y[j] = (REAL)limber_blend(alpha, (double)x[j], beta, (double)old[j]);
        if (count < LANES)
            MASKED_STORE(c, t->last, (VEC)y);
        else
            STORE(c, (VEC)y);
    }
}

/* Returns the new value of C: the sum, or C's old value plus or minus the sum. */
FLAT VEC NAME(sum)(const struct NAME(tile) *t, VEC sum, VEC old)
{
    return t->add == 0 ? sum : t->add > 0 ? ADD(sum, old) : SUB(old, sum);
}

/* Loads a row of B.  of: which lanes of the last vector exist. */
FLAT void NAME(load_row)(const struct NAME(tile) *t, const REAL *b, int vectors, enum last of,
                         VEC right[VECTORS])
{
    UNROLL for (int v = 0; v < vectors; v++)
        right[v] = of == ALL || v < vectors - 1 ? LOAD(b + v * LANES) :
                   of == HALF                   ? LOW_MASKED_LOAD(b + v * LANES, t->last) :
                                                  MASKED_LOAD(b + v * LANES, t->last);
}

/* Adds the products of one element of A (`left`, in all lanes) and a row of B to the sums of a row
 * of C. */
FLAT void NAME(products)(VEC left, const VEC right[VECTORS], int vectors, enum last of,
                         VEC sum[VECTORS])
{
    UNROLL for (int v = 0; v < vectors; v++)
        sum[v] = of == HALF && v == vectors - 1 ? LOW_FMA(left, right[v], sum[v]) :
                                                  FMA(left, right[v], sum[v]);
}

/* Computes and stores a register tile, over all of k. */
FLAT void NAME(tile)(const struct NAME(tile) *t, int rows, int vectors, enum last of)
{
    const int64_t b_row = t->b_row, k = t->k, *at = t->at;
    const REAL *a[ROWS], *b = t->b;
    VEC sum[ROWS][VECTORS];
    int64_t p = 0;

    UNROLL for (int r = 0; r < rows; r++)
        a[r] = t->a[r];
    /* prefetch C while the sums are computed; if sums are short, prefetch C of later tiles
     * instead */
    if (k > SHORT || t->add || t->scaling)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vectors; v++)
                __builtin_prefetch(t->c[r] + v * LANES, 1);
    if (t->far && k <= SHORT)
        UNROLL for (int r = 0; r < rows; r++)
            __builtin_prefetch(t->c[r] + AHEAD * LANES, 1);
    if (t->follows)
        UNROLL for (int r = 0; r < rows; r++)
            NAME(load_row)(t, t->c[r], vectors, of, sum[r]);
    else
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[r][v] = ZERO();
#ifdef PART
    /* if rows of A are interleaved, the elements of neighbouring rows are loaded together */
    if (t->beside) {
        const int64_t step = t->beside;
        const REAL *column = a[0] + at[0];

        FOUR for (; p < k; p++, column += step, b += b_row) {
            PART left[ROWS];
            VEC right[VECTORS];

            UNROLL for (int i = 0; i < rows / PART_LANES; i++) {
                left[i] = *(const PART *)(const void *)(column + i * PART_LANES);
                __asm__("" : "+w"(left[i]));
            }
            NAME(load_row)(t, b, vectors, of, right);
            UNROLL for (int r = 0; r < rows; r++) {
                const REAL x = r < rows / PART_LANES * PART_LANES ?
                                   left[r / PART_LANES][r % PART_LANES] :
                                   column[r];

                NAME(products)(BROADCAST(&x), right, vectors, of, sum[r]);
            }
        }
    }
    /* elements of A that are contiguous along k are loaded together */
    for (const int64_t whole = at == limber_direct_along ? k - k % TOGETHER : 0; p < whole;
         p += TOGETHER)
        UNROLL for (int part = 0; part < TOGETHER; part += PART_LANES) {
            PART left[ROWS];

            UNROLL for (int r = 0; r < rows; r++) {
                left[r] = *(const PART *)(const void *)(a[r] + p + part);
                __asm__("" : "+w"(left[r])); /* keeps the compiler from loading single elements */
            }
            /* keeps the compiler from loading all parts first, which spills registers */
            __asm__ volatile("" : : : "memory");
            UNROLL for (int q = 0; q < PART_LANES; q++, b += b_row) {
                VEC right[VECTORS];

                NAME(load_row)(t, b, vectors, of, right);
                UNROLL for (int r = 0; r < rows; r++) {
                    const REAL x = left[r][q];

                    NAME(products)(BROADCAST(&x), right, vectors, of, sum[r]);
                }
            }
        }
#endif
    for (; p < k; p++, b += b_row) {
        const int64_t here = at[p];
        VEC right[VECTORS];

        NAME(load_row)(t, b, vectors, of, right);
        UNROLL for (int r = 0; r < rows; r++)
            NAME(products)(BROADCAST(a[r] + here), right, vectors, of, sum[r]);
    }
    if (t->scaling) {
        REAL x[ROWS * VECTORS * LANES];

        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vectors; v++)
                STORE(x + (r * vectors + v) * LANES, sum[r][v]);
        NAME(scale)(t, rows, vectors, x);
        return;
    }
#ifdef PART
    /* test outside of the loop, since the compiler would repeat this test before each store */
    if (!t->add && of == ALL) {
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vectors; v++)
                STORE(t->c[r] + v * LANES, sum[r][v]);
        return;
    }
#endif
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vectors; v++) {
            REAL *c = t->c[r] + v * LANES;

            if (of != ALL && v == vectors - 1)
                MASKED_STORE(c, t->last,
                             NAME(sum)(t, sum[r][v], t->add ? MASKED_LOAD(c, t->last) : ZERO()));
            else
                STORE(c, NAME(sum)(t, sum[r][v], t->add ? LOAD(c) : ZERO()));
        }
}

/* Defines a function for each number of rows and of vectors of a tile, so that both are
 * constants. */
typedef void NAME(run)(const struct NAME(tile) *t);
#define TILE(rows, vectors) \
    static void NAME(tile_##rows##_##vectors)(const struct NAME(tile) *t) \
    { \
        NAME(tile)(t, rows, vectors, ALL); \
    } \
    static void NAME(masked_##rows##_##vectors)(const struct NAME(tile) *t) \
    { \
        NAME(tile)(t, rows, vectors, SOME); \
    } \
    static void NAME(half_##rows##_##vectors)(const struct NAME(tile) *t) \
    { \
        NAME(tile)(t, rows, vectors, HALVES ? HALF : SOME); \
    }
TILES(TILE)
#undef TILE
#define TILE(rows, vectors) \
    [rows - 1][vectors - 1] = { [ALL] = NAME(tile_##rows##_##vectors), \
                                [SOME] = NAME(masked_##rows##_##vectors), \
                                [HALF] = NAME(half_##rows##_##vectors) },
static NAME(run) *const NAME(tiles)[ROWS][VECTORS][3] = { TILES(TILE) };
#undef TILE

/* Copies `vectors` vectors of each row of B to contiguous rows.  masked: only the lanes `last` of a
 * row's last vector exist. */
FLAT void NAME(pack_of)(const struct direct_strip *s, int vectors, int masked, MASK last)
{
    REAL *to = s->room;

    for (int64_t p = 0; p < s->k; p++, to += vectors * LANES) {
        const REAL *b = (const REAL *)s->b + (s->b_at ? s->b_at[p] : p * s->b_row);

        UNROLL for (int v = 0; v < vectors; v++)
            STORE(to + v * LANES, masked && v == vectors - 1 ? MASKED_LOAD(b + v * LANES, last) :
                                                               LOAD(b + v * LANES));
    }
}

/* Copies rows of B to contiguous rows, by the function for their number of vectors. */
static void NAME(pack_rows)(const struct direct_strip *s, int64_t vectors, MASK last)
{
    if (s->columns == VECTORS * LANES) {
        NAME(pack_of)(s, VECTORS, 0, last);
        return;
    }
    UNROLL for (int v = 1; v <= VECTORS; v++)
        if (v == vectors)
            NAME(pack_of)(s, v, 1, last);
}

#ifdef PART
/* Transposes PART_LANES columns of B, with k contiguous elements each, to rows of `lanes` elements,
 * one square block after another. */
static void NAME(turn)(const REAL *b, int64_t column, int64_t k, int64_t lanes, REAL *to)
{
    for (int64_t p = 0; p < k; p += PART_LANES) {
        PART x[PART_LANES];

        UNROLL for (int i = 0; i < PART_LANES; i++)
            x[i] = *(const PART *)(const void *)(b + i * column + p);
        TRANSPOSE(x);
        UNROLL for (int i = 0; i < PART_LANES; i++)
            *(PART *)(void *)(to + (p + i) * lanes) = x[i];
    }
}
#endif

/* Packs `width` columns of B, whose rows are not contiguous, to rows of `lanes` elements; all other
 * lanes are zero. */
static void NAME(pack)(const struct fixed *f, const REAL *b, int64_t width, int64_t lanes, REAL *to)
{
    int64_t j = 0;

#ifdef PART
    if (f->b.row == 1) {
        const int64_t whole = f->k - f->k % PART_LANES;

        for (; j + PART_LANES <= width; j += PART_LANES) {
            NAME(turn)(b + j * f->b.col, f->b.col, whole, lanes, to + j);
            for (int64_t p = whole; p < f->k; p++)
                for (int64_t i = j; i < j + PART_LANES; i++)
                    to[p * lanes + i] = b[p + i * f->b.col];
        }
    }
#endif
    for (; j < width; j++)
        for (int64_t p = 0; p < f->k; p++)
            to[p * lanes + j] = b[p * f->b.row + j * f->b.col];
    for (int64_t j = width; j < lanes; j++)
        for (int64_t p = 0; p < f->k; p++)
            to[p * lanes + j] = 0;
}

/* Prefetches rows [i, i + rows) of A while the previous tile is computed, since hardware
 * prefetchers cannot follow so many streams. */
static void NAME(fetch)(const struct direct_strip *s, int64_t i, int64_t rows)
{
    const REAL *a = (const REAL *)s->a + i * s->a_row;

    for (int64_t r = 0; r < rows; r++, a += s->a_row)
        for (int64_t p = 0; p < s->k; p += 64 / (int64_t)sizeof(REAL))
            __builtin_prefetch(a + p);
}

/* Computes all rows of a strip of columns of C. */
static void NAME(strip)(const struct direct_strip *s)
{
    /* C - A B is frequent, and is computed without scaling */
    const bool takes = s->scaling && s->scaling->alpha == -1 && s->scaling->beta == 1;
    int64_t vectors = (s->columns + LANES - 1) / LANES, rest = s->columns % LANES;
    enum last of = rest == 0 ? ALL : HALVES && rest <= LANES / 2 ? HALF : SOME;
    struct NAME(tile) t = { .at = s->at,
                            .beside = s->beside,
                            .b = s->b,
                            .b_row = s->b_row,
                            .k = s->k,
                            .last = LANES_OF(rest ? rest : LANES),
                            .add = takes ? -1 : s->add,
                            .follows = s->follows,
                            .columns = s->columns,
                            .far = s->c_row * (int64_t)sizeof(REAL) >= FAR,
                            .scaling = takes ? NULL : s->scaling };

    if (s->room) {
        NAME(pack_rows)(s, vectors, t.last);
        t.b = s->room;
        t.b_row = vectors * LANES;
    }
    for (int64_t i = 0, left = (s->m + ROWS - 1) / ROWS; left > 0; left--) {
        int64_t rows = (s->m - i + left - 1) / left;

        for (int64_t r = 0; r < rows; r++) {
            t.a[r] = s->line ? s->line[i + r] : (const REAL *)s->a + (i + r) * s->a_row;
            t.c[r] = s->c_line ? (REAL *)s->c_line[i + r] + s->column :
                                 (REAL *)s->c + (i + r) * s->c_row;
        }
        i += rows;
        if (s->fetches)
            NAME(fetch)(s, i, rows < s->m - i ? rows : s->m - i);
        NAME(tiles)[rows - 1][vectors - 1][of](&t);
    }
}

/* Prepares the strip of columns [j, j + width) of C.  Packs these columns of B to `room` if rows of
 * B are not contiguous, or if they are many and far apart in memory.  Returns true if it packed
 * them. */
static bool NAME(prepare)(const struct operands *o, const int64_t *at, int64_t j, int64_t width,
                          REAL *room, struct direct_strip *s)
{
    const struct fixed *f = &o->f;
    const int64_t vectors = (width + LANES - 1) / LANES, groups = (f->m + ROWS - 1) / ROWS;
    const REAL *b = (const REAL *)o->b + j * f->b.col;

    *s = (struct direct_strip){ .m = f->m,
                                .k = f->k,
                                .columns = width,
                                .a = o->a,
                                .a_row = f->a.row,
                                .at = at,
                                .beside = f->a.row == 1 && f->a.col != 1 ? f->a.col : 0,
                                .b = b,
                                .b_row = f->b.row,
                                .c = (REAL *)o->c + j,
                                .c_row = f->c.row,
                                .add = f->add != 0,
                                .scaling = o->scaling };
    if (f->b.col != 1) {
        NAME(pack)(f, b, width, vectors * LANES, room);
    } else if (groups > PACK && f->b.row * (int64_t)sizeof(REAL) >= FAR) {
        s->room = room;
        NAME(pack_rows)(s, vectors, LANES_OF(width - (vectors - 1) * LANES));
        s->room = NULL;
    } else {
        return false;
    }
    s->b = room;
    s->b_row = vectors * LANES;
    return true;
}

/* Computes neighbouring strips of columns, TALL rows of each in turn, so that the translations of
 * these rows' pages stay in the CPU's TLB. */
static void NAME(strips)(const struct direct_strip *strip, int count)
{
    const int64_t m = strip[0].m;

    for (int64_t i = 0; i < m; i += TALL)
        for (int q = 0; q < count; q++) {
            struct direct_strip s = strip[q];

            s.m = m - i < TALL ? m - i : TALL;
            s.a = (const REAL *)s.a + i * s.a_row;
            s.c = (REAL *)s.c + i * s.c_row;
            NAME(strip)(&s);
        }
}

/* Computes a product, one strip of columns after another. */
static void NAME(product)(const struct operands *o)
{
    REAL room[LIMBER_SMALL_K * VECTORS * LANES] __attribute__((aligned(64)));
    int64_t n = o->f.n, vectors = (n + LANES - 1) / LANES, apart[LIMBER_SMALL_K];
    const int64_t *at = limber_direct_along;
    struct direct_strip strip[TOGETHER_MOST];
    int64_t used = 0; /* number of elements of `room` that hold packed columns */
    int count = 0;

    if (o->f.a.col != 1) {
        for (int64_t p = 0; p < o->f.k; p++)
            apart[p] = p * o->f.a.col;
        at = apart;
    }

    for (int64_t j = 0, groups = (vectors + VECTORS - 1) / VECTORS; groups > 0; groups--) {
        int64_t wide = (vectors + groups - 1) / groups;
        int64_t width = wide * LANES < n - j ? wide * LANES : n - j;

        if (NAME(prepare)(o, at, j, width, room + used, &strip[count++]))
            used += o->f.k * wide * LANES;
        if (groups == 1 || count == TOGETHER_MOST ||
            used + o->f.k * VECTORS * LANES > (int64_t)(sizeof room / sizeof *room)) {
            NAME(strips)(strip, count);
            used = count = 0;
        }
        vectors -= wide;
        j += width;
    }
}

#undef NAME
#undef REAL
#undef VEC
#undef MASK
#undef LANES
#undef ZERO
#undef LOAD
#undef STORE
#undef MASKED_LOAD
#undef MASKED_STORE
#undef BROADCAST
#undef FMA
#undef LOW_MASKED_LOAD
#undef LOW_FMA
#undef LOW
#undef ADD
#undef SUB
#undef LANES_OF
#undef PART
#undef TRANSPOSE
#undef PART_LANES
