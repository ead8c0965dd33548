/* SPDX-License-Identifier: BSD-3-Clause
 * Small products of one float format on operands as they lie, included once for each format: REAL
 * names it, VEC a vector register of it, MASK what selects lanes.
 *
 * C is cut into register tiles of at most ROWS x VECTORS vectors.  An element of C is one chain of
 * fused multiply-adds from +0 in the order of k, which are the bits of the scheme `native`. */

/* Rows of B are dense; so are those of C. */
struct NAME(tile) {
    const REAL *a, *b;
    REAL *c;
    int64_t a_row, a_col, b_row, c_row, k;
    MASK last;      /* lanes of the last vector */
    int add;
};

FLAT void NAME(tile)(const struct NAME(tile) *t, int rows, int vectors, int masked)
{
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    const REAL *a = t->a, *b = t->b;
    VEC sum[ROWS][VECTORS];

    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vectors; v++)
            sum[r][v] = ZERO();
    for (int64_t p = 0; p < t->k; p++, a += a_col, b += b_row) {
        VEC right[VECTORS];

        UNROLL for (int v = 0; v < vectors; v++)
            right[v] = masked && v == vectors - 1 ? MASKED_LOAD(b + v * LANES, t->last) :
                                                    LOAD(b + v * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            VEC left = BROADCAST(a + r * a_row);

            UNROLL for (int v = 0; v < vectors; v++)
                sum[r][v] = FMA(left, right[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vectors; v++) {
            REAL *c = t->c + r * t->c_row + v * LANES;

            if (masked && v == vectors - 1)
                MASKED_STORE(c, t->last,
                             t->add ? ADD(sum[r][v], MASKED_LOAD(c, t->last)) : sum[r][v]);
            else
                STORE(c, t->add ? ADD(sum[r][v], LOAD(c)) : sum[r][v]);
        }
}

/* One function for each size of a tile. */
typedef void NAME(run)(const struct NAME(tile) *t);
#define TILE(rows, vectors) \
    static void NAME(tile_##rows##_##vectors)(const struct NAME(tile) *t) \
    { \
        NAME(tile)(t, rows, vectors, 0); \
    } \
    static void NAME(masked_##rows##_##vectors)(const struct NAME(tile) *t) \
    { \
        NAME(tile)(t, rows, vectors, 1); \
    }
TILES(TILE)
#undef TILE
#define TILE(rows, vectors) \
    [rows - 1][vectors - 1] = { NAME(tile_##rows##_##vectors), NAME(masked_##rows##_##vectors) },
static NAME(run) *const NAME(tiles)[ROWS][VECTORS][2] = { TILES(TILE) };
#undef TILE

/* `width` columns of B, at most VECTORS vectors, as dense rows; lanes beyond are zero. */
static void NAME(pack)(const struct call *c, const REAL *b, int64_t width, int64_t lanes, REAL *to)
{
    for (int64_t p = 0; p < c->k; p++, to += lanes)
        for (int64_t j = 0; j < lanes; j++)
            to[j] = j < width ? b[p * c->b.p + j * c->b.line] : 0;
}

/* The columns [j, j + width) of C. */
static void NAME(columns)(const struct call *c, int64_t j, int64_t width, int add, REAL *room)
{
    int64_t vectors = (width + LANES - 1) / LANES, groups = (c->m + ROWS - 1) / ROWS;
    int64_t rest = width % LANES;
    struct NAME(tile) t = { .b = (const REAL *)c->b.data + j * c->b.line,
                            .a_row = c->a.line,
                            .a_col = c->a.p,
                            .b_row = c->b.p,
                            .c_row = c->c.row,
                            .k = c->k,
                            .last = LANES_OF(rest ? rest : LANES),
                            .add = add };

    if (c->b.line != 1 || groups > PACK) {
        NAME(pack)(c, t.b, width, vectors * LANES, room);
        t.b = room;
        t.b_row = vectors * LANES;
    }
    for (int64_t i = 0, left = groups; left > 0; left--) {
        int64_t rows = (c->m - i + left - 1) / left;

        t.a = (const REAL *)c->a.data + i * c->a.line;
        t.c = (REAL *)c->c.data + i * c->c.row + j;
        NAME(tiles)[rows - 1][vectors - 1][rest != 0](&t);
        i += rows;
    }
}

static void NAME(product)(const struct call *c, int add)
{
    REAL room[LIMBER_SMALL_K * VECTORS * LANES] __attribute__((aligned(64)));
    int64_t vectors = (c->n + LANES - 1) / LANES, groups = (vectors + VECTORS - 1) / VECTORS;

    for (int64_t j = 0; groups > 0; groups--) {
        int64_t wide = (vectors + groups - 1) / groups;
        int64_t width = wide * LANES < c->n - j ? wide * LANES : c->n - j;

        NAME(columns)(c, j, width, add, room);
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
#undef ADD
#undef LANES_OF
