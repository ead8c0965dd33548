/* SPDX-License-Identifier: BSD-3-Clause
 * Multiplies packed limbs, and adds the chains to the totals of a block of C. */
#ifndef LIMBER_KERNEL_MULTIPLY_H
#define LIMBER_KERNEL_MULTIPLY_H

/* ---- products of a block --------------------------------------------------------------------- */

/* A block of C, and the panels of A and of B that it reads. */
struct block {
    int64_t i0, j0, rows, cols;     /* relative to the current part of C */
    /* numbers of the first panels of A and of B, and numbers of panels that the block reads */
    int64_t panel_a, panels_a, panel_b, panels_b;
    /* used if B is packed as planes: memory for a gathered panel of B, and sums or norms of its
     * columns */
    char *room;
    int32_t *sums;
    double *norms;
};

static const int32_t no_bias[KERNEL_NR]; /* biases of zero, for register tiles that start at 0 */

/* True if an operand has tiles whose elements are multiplied by other parts of a partitioned
 * product, and are read as zeros here. */
FLAT int skips_tiles(const struct kernel_call *c)
{
    const struct tile_subset *a = c->op[0].view.tile_subset, *b = c->op[1].view.tile_subset;

    return (a && a->tile) || (b && b->tile);
}

/* True if accumulators are floats, whose sum is the result. */
FLAT int is_float(void)
{
    return RECONSTRUCT == RECONSTRUCT_sum;
}

/* Returns the bytes of an accumulator of the register tile. */
FLAT int acc_bytes(void)
{
    return FIXED(unit) == UNIT_f64 ? 8 : 4;
}

/* Stores zeros to a register tile in memory.  ldc: bytes from row to row. */
FLAT void clear_tile(char *c, int64_t ldc)
{
    ROLL for (int i = 0; i < FIXED(mr); i++)
        __builtin_memset(c + i * ldc, 0, (unsigned)(FIXED(nr) * acc_bytes()));
}

/* Destination of a block's register tiles. */
struct tiles {
    char *at;               /* address of the block's first element */
    int64_t row;            /* bytes from one row of the block to the next */
    /* number of rows and columns that exist; only this part of the last tiles is stored */
    int64_t rows, cols;
    int stores;             /* 1 if `at` points to C, 0 if it points to scratch memory */
};

/* Stores part of a row of a tile at the edge of C.  The first chain is stored, not added to zero,
 * since it may be -0. */
#define EDGE_ROW(vector, type)                                                                   \
    do {                                                                                         \
        const int64_t each = (int64_t)(sizeof(vector) / sizeof(type));                           \
        int64_t s = 0;                                                                           \
                                                                                                 \
        ROLL for (; s + each <= n; s += each) {                                                  \
            vector v = LOAD(vector, from + s * (int64_t)sizeof(type));                           \
                                                                                                 \
            if (!first)                                                                          \
                v = LOAD(vector, to + s * (int64_t)sizeof(type)) + v;                            \
            STORE(to + s * (int64_t)sizeof(type), v);                                            \
        }                                                                                        \
        ROLL for (; s < n; s++) {                                                                \
            type x = ((const type *)(const void *)from)[s];                                      \
                                                                                                 \
            ((type *)(void *)to)[s] = first ? x : ((type *)(void *)to)[s] + x;                   \
        }                                                                                        \
    } while (0)

/* Stores n accumulators of a row if `first` is set, else adds them to the accumulators in
 * memory. */
FLAT void edge_row(char *to, const char *from, int64_t n, int first)
{
    if (FIXED(unit) == UNIT_f64)
        EDGE_ROW(v8d, double);
    else if (FIXED(unit) == UNIT_i8)
        EDGE_ROW(v16u, uint32_t);
    else
        EDGE_ROW(v16f, float);
}

#undef EDGE_ROW

/* Computes a register tile at the edge of C in a buffer, and stores only the rows and columns that
 * exist in C. */
SLOW void edge(const char *a, const char *b, int64_t groups, const struct tiles *t, int64_t i,
               int64_t j, int first, const int32_t *bias)
{
    char tile[16 * KERNEL_NR * 8] __attribute__((aligned(64)));
    int64_t ldc = FIXED(nr) * acc_bytes();

    limber_micro(a, b, groups, tile, ldc, 1, bias, b, 0);
    for (int64_t r = i; r < min64(i + FIXED(mr), t->rows); r++)
        edge_row(t->at + r * t->row + j * acc_bytes(), tile + (r - i) * ldc,
                 min64(FIXED(nr), t->cols - j), first);
}

/* The memory that a register tile prefetches, one cache line per group along k.  The first tiles of
 * a column of tiles prefetch the next panel of B; the others prefetch the panels of A that the
 * block needs next. */
struct ahead {
    const char *from;
    int64_t step; /* bytes from one cache line to the next; 0 if there is nothing to prefetch */
};

/* Returns the memory that tile (i, j) of a block prefetches.  bytes_b, bytes_a: bytes of a panel.
 * panel_a: bytes from one panel of A to the next.  panels_a: number of panels of A in the block.
 * here: an address for tiles that prefetch nothing. */
FLAT struct ahead ahead_of(const char *next_b, int64_t bytes_b, const char *next_a,
                           int64_t panel_a, int64_t bytes_a, int64_t panels_a, int64_t groups,
                           int64_t i, int64_t j, const char *here)
{
    int64_t lines = FIXED(matrix) ? groups / 16 * KERNEL_FETCHES * 64 : groups * 64;
    int64_t for_b = (bytes_b + lines - 1) / lines;
    int64_t each = (bytes_a + lines - 1) / lines, turn = j * (panels_a - for_b) + i - for_b;

    if (i < for_b)
        return (struct ahead){ next_b + i * lines, 64 };
    if (turn < panels_a * each)
        return (struct ahead){ next_a + turn / each * panel_a + turn % each * lines, 64 };
    return (struct ahead){ here, 0 };
}

/* Returns the number of groups along k in [p0, end), rounded up to full steps of the
 * micro-kernel. */
FLAT int64_t groups_of(int64_t p0, int64_t end)
{
    int64_t step = FIXED(matrix) ? 16 * FIXED(group) : FIXED(group);

    return (end - p0 + step - 1) / step * (step / FIXED(group));
}

/* True if a limb of a panel is zero in all of block number kb of k. */
FLAT int is_zero(const struct kernel_call *c, int side, int64_t panel, int limb, int64_t kb)
{
    const struct packed *o = &c->op[side];

    return !o->planes && !o->nonzero[(panel * CFG(c).side[side].limbs + limb) * o->blocks + kb];
}

/* If B is packed as planes, computes the sums of packed values of the block's columns, for limb
 * lb. */
FLAT void begin_limb(const struct kernel_call *c, const struct block *b, int lb)
{
    const struct packed *o = &c->op[1];

    if (o->planes && CFG(c).side[1].sums)
        o->planes->sums(c, b->j0, b->panels_b * FIXED(nr), lb, b->sums);
}

/* Returns the address of panel j of the block's panels of B: limb lb, elements [p0, end) along k.
 * If B is packed as planes, gathers the panel first. */
FLAT const char *panel_of_b(const struct kernel_call *c, const struct block *b, int64_t j, int lb,
                            int64_t p0, int64_t end)
{
    const struct packed *o = &c->op[1];

    if (o->planes) {
        o->planes->gather(c, b->j0 + j * FIXED(nr), lb, p0, end - p0, b->room);
        return b->room;
    }
    return o->data + (b->panel_b + j) * o->panel_bytes + lb * o->limb_bytes +
           p0 * FIXED(bytes) * FIXED(nr);
}

/* Returns the sums of packed values of the block's columns of B, for limb lb and one chain of k. */
FLAT const int32_t *sums_of_b(const struct kernel_call *c, const struct block *b, int lb,
                              int64_t chunk)
{
    const struct packed *o = &c->op[1];

    return o->planes ? b->sums : o->sums + (lb * o->chunks + chunk) * o->sum_lines + b->j0;
}

/* Multiplies limbs la and lb over the cache block of k that begins at p0.  Prefetches limb next_la
 * from next_p0 on, which is multiplied next.  A panel of B stays in L1 while all panels of A are
 * multiplied by it. */
FLAT void multiply(const struct kernel_call *c, const struct block *b, int la, int lb, int64_t p0,
                   int next_la, int64_t next_p0, int first, const struct tiles *t)
{
    const struct packed *oa = &c->op[0], *ob = &c->op[1];
    int64_t kb = p0 / CFG(c).kc, end = min64(p0 + CFG(c).kc, c->k), groups = groups_of(p0, end);
    int64_t each = groups * FIXED(group) * FIXED(bytes); /* number of bytes of a line of a panel */
    const char *a = oa->data + b->panel_a * oa->panel_bytes + la * oa->limb_bytes +
                    p0 * FIXED(bytes) * FIXED(mr);
    const char *next_a = oa->data + b->panel_a * oa->panel_bytes + next_la * oa->limb_bytes +
                         next_p0 * FIXED(bytes) * FIXED(mr);
    int skips = LIMB_KIND != LIMB_KIND_whole ? !CFG(c).offsets : skips_tiles(c);

    if (FIXED(matrix))
        limber_micro_open();
    for (int64_t j = 0; j < b->panels_b; j++) {
        const char *pb = panel_of_b(c, b, j, lb, p0, end);
        const int32_t *bias = t->stores && FIXED(unit) == UNIT_i8 && CFG(c).offsets && p0 == 0 ?
                              sums_of_b(c, b, 0, 0) + j * FIXED(nr) : no_bias;
        const char *next_b = j + 1 < b->panels_b ? pb + ob->panel_bytes : pb + each * FIXED(nr);
        int64_t bytes_b = ob->planes ? 0 : each * FIXED(nr);
        int zero_b = skips && is_zero(c, 1, b->panel_b + j, lb, kb);

        for (int64_t i = 0; i < b->panels_a; i++) {
            const char *pa = a + i * oa->panel_bytes;
            char *to = t->at + i * FIXED(mr) * t->row + j * FIXED(nr) * acc_bytes();
            struct ahead ahead = ahead_of(next_b, bytes_b, next_a, oa->panel_bytes,
                                          each * FIXED(mr), b->panels_a, groups, i, j, pb);

            if (t->stores && ((i + 1) * FIXED(mr) > t->rows || (j + 1) * FIXED(nr) > t->cols))
                edge(pa, pb, groups, t, i * FIXED(mr), j * FIXED(nr), first, bias);
            else if (!t->stores &&
                     (zero_b || (skips && is_zero(c, 0, b->panel_a + i, la, kb))))
                first ? clear_tile(to, t->row) : (void)0;
            else
                limber_micro(pa, pb, groups, to, t->row, first, bias, ahead.from, ahead.step);
        }
    }
    if (FIXED(matrix))
        limber_micro_close();
}

/* ---- totals of limbs' products --------------------------------------------------------------- */

/* Returns the bytes of one accumulator's total of an element. */
FLAT int total_bytes(void)
{
    return is_float() ? acc_bytes() : RECONSTRUCT == RECONSTRUCT_crt ? 1 + !!FIXED(wide) : 8;
}

/* Returns the number of totals of an element: one if all weighted totals fit 62 bits. */
FLAT int totals_of_block(const struct kernel_call *c)
{
    return CFG(c).small ? 1 : CFG(c).accumulators;
}

/* Returns the address of the block's totals in scratch memory.  In exact schemes they follow the
 * register tiles. */
FLAT const char *totals(const struct kernel_call *c, const char *scratch)
{
    return scratch + (is_float() ? 0 : kernel_tile_bytes(&CFG(c), c->mb, acc_bytes()));
}

/* Returns the bytes from one row of totals to the next.  Each residue has an array of its own;
 * other totals are interleaved row by row. */
FLAT int64_t total_row(const struct kernel_call *c)
{
    return (RECONSTRUCT == RECONSTRUCT_crt ? 1 : (int64_t)totals_of_block(c)) * CFG(c).nb *
           total_bytes();
}

/* Returns the bytes from an element's total of one accumulator to its total of the next
 * accumulator. */
FLAT int64_t total_step(const struct kernel_call *c)
{
    return (RECONSTRUCT == RECONSTRUCT_crt ? c->mb : 1) * CFG(c).nb * total_bytes();
}

/* Returns the offset in bytes of the total of accumulator `acc` of element (i, j). */
FLAT int64_t total_at(const struct kernel_call *c, int64_t i, int acc, int64_t j)
{
    return i * total_row(c) + acc * total_step(c) + j * total_bytes();
}

/* Correction of a chain for the offsets oa and ob of packed values a' and b': -ob sum a' - oa sum
 * b' + oa ob length.  sa, sb: sums of packed values, by line.  both: oa ob length. */
struct correction {
    int32_t oa, ob;
    const int32_t *sa, *sb;
    int32_t both;
};

/* Returns the correction for limbs la and lb in a chain of `length` products, number `chunk` along
 * k. */
FLAT struct correction correction_of(const struct kernel_call *c, const struct block *b, int la,
                                     int lb, int64_t chunk, int64_t length)
{
    const struct packed *a = &c->op[0];
    struct correction x = { CFG(c).side[0].offset[la], CFG(c).side[1].offset[lb], no_bias, no_bias,
                            0 };

    if (x.ob)
        x.sa = a->sums + (la * a->chunks + chunk) * a->sum_lines + b->i0;
    if (x.oa)
        x.sb = sums_of_b(c, b, lb, chunk);
    x.both = (int32_t)((uint32_t)(x.oa * x.ob) * (uint32_t)length);
    return x;
}

/* The sums of chains of products for a block's columns [j0, j1), in register tiles in memory, which
 * are added to the totals. */
struct chains {
    const char *at;
    int64_t row;            /* bytes from one row to the next */
    int64_t j0, j1;
};

/* Loads sixteen chains of row i, from column j on, and corrects them for offsets. */
FLAT v16i load_chains(const struct kernel_call *c, const struct correction *x, const char *at,
                      int64_t i, int64_t j)
{
    v16u t = LOAD(v16u, at);

    if (!CFG(c).offsets)
        return (v16i)t;
    if (x->ob)
        t -= (uint32_t)x->ob * (uint32_t)x->sa[i];
    if (x->oa)
        t -= (uint32_t)x->oa * LOAD(v16u, x->sb + j);
    return (v16i)(t + (uint32_t)x->both);
}

/* Adds the chains of a block, 32-bit integers corrected for offsets, to the 64-bit totals of
 * accumulator row->acc.  With config.small, one total has all accumulators, each shifted by its
 * weight.  fresh: there are no totals yet, so the chains are stored as totals. */
FLAT void add_chains_to_total(const struct kernel_call *c, const struct block *b,
                              const struct correction *x, const struct chains *t, char *total,
                              const struct kernel_row *row, int fresh)
{
    int shift = CFG(c).small ? CFG(c).weight[row->acc] : 0, acc = CFG(c).small ? 0 : row->acc;

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = t->j0; j < t->j1; j += KERNEL_LANES) {
            v16i v = load_chains(c, x, t->at + i * t->row + (j - t->j0) * 4, i, j);
            v8l low = TO(v8l, LOW(v)) << shift, high = TO(v8l, HIGH(v)) << shift;
            char *to = total + total_at(c, i, acc, j);

            if (!fresh) {
                low += LOAD(v8l, to);
                high += LOAD(v8l, to + 64);
            }
            STORE(to, low);
            STORE(to + 64, high);
        }
}

/* Adds the chains of a block, floats that hold integers, to the totals of accumulator row->acc.
 * fresh: there are no totals yet, so the chains are stored as totals. */
FLAT void add_floats_to_total(const struct kernel_call *c, const struct block *b, const char *tile,
                              char *total, const struct kernel_row *row, int fresh)
{
    int shift = CFG(c).small ? CFG(c).weight[row->acc] : 0, acc = CFG(c).small ? 0 : row->acc;

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j += 8) {
            const char *from = tile + (i * CFG(c).nb + j) * acc_bytes();
            char *to = total + total_at(c, i, acc, j);
            v8l v = FIXED(unit) == UNIT_f64 ? TO(v8l, LOAD(v8d, from)) : TO(v8l, LOAD(v8f, from));

            v <<= shift;
            if (!fresh)
                v += LOAD(v8l, to);
            STORE(to, v);
        }
}

/* Returns t * inverse mod p_l, in [-p/2, p/2], for 32-bit chains t.  The two halves of t are
 * multiplied by inverse and by 2^16 inverse, both symmetric; these products stay below 2^23 and are
 * exact in FP32.  The error of the quotient is below 2^-9, so |r| < p/2 + 1/2. */
FLAT v16i residue_of(const struct kernel_call *c, v16i t, int l)
{
    float m = (float)CFG(c).crt.modulus[l];
    v16i low = t << 16 >> 16, high = (t - low) >> 16;
    v16f u = FMA(TO(v16f, high), all_f(CFG(c).fold[l][1]), TO(v16f, low) * CFG(c).fold[l][0]);

    return TO(v16i, FMA(ROUND_PRODUCT(u, all_f(CFG(c).inverse[l])), all_f(-m), u));
}

/* Returns t mod p as r with |r| < 0.57 p.  t is rounded to FP32, and the error of the quotient,
 * which is below 2^20, is below 0.07. */
FLAT v16i wide_residue_of(v16i t, v16i p, v16f inverse)
{
    v16f q = FMA(TO(v16f, t), inverse, all_f(0x1.8p23f));

    return t - ((v16i)q - (v16i)all_f(0x1.8p23f)) * p;
}

/* Reduces chains of 12-bit residues modulo p_l, together with the residue of earlier chains, and
 * stores them.  512 products of at most 2047 by 2047, plus that residue, stay below 2^31. */
FLAT void fold_wide_residue(const struct kernel_call *c, const struct block *b,
                            const struct chains *t, char *total, int l, int fresh)
{
    v16i p = all_i(CFG(c).crt.modulus[l]);
    v16f inverse = all_f(CFG(c).inverse[l]);

    for (int64_t i = 0; i < b->rows; i++) {
        const char *from = t->at + i * t->row;
        char *to = total + total_at(c, i, l, t->j0);

        for (int64_t j = t->j0; j < t->j1; j += KERNEL_LANES) {
            v16i r = LOAD(v16i, from);
            v16h v;

            if (!fresh)
                r += TO(v16i, LOAD(v16h, to));
            v = TO(v16h, wide_residue_of(r, p, inverse));
            STORE(to, v);
            from += 4 * KERNEL_LANES;
            to += 2 * KERNEL_LANES;
        }
    }
}

/* Reduces the chains of a block, sums of products of 8-bit residues, modulo p_l.  Stores them as
 * residue l of each element if `fresh`, else adds them to the residue of earlier chains. */
FLAT void add_chains_to_residue(const struct kernel_call *c, const struct block *b,
                                const struct chains *t, char *total, int l, int fresh)
{
    int32_t p = CFG(c).crt.modulus[l];

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = t->j0; j < t->j1; j += KERNEL_LANES) {
            char *to = total + total_at(c, i, l, j);
            v16i r = residue_of(c, LOAD(v16i, t->at + i * t->row + (j - t->j0) * 4), l);
            v16c v;

            if (!fresh) {
                r += TO(v16i, LOAD(v16c, to));
                r -= (r > p / 2) & p;
                r += (r < -(p / 2)) & p;
            }
            v = TO(v16c, r);    /* 128 and -128 are equal modulo 256 */
            STORE(to, v);
        }
}

/* True if the weighted totals of an element fit 62 bits, and their sum is rounded to FP64 or FP32
 * without alpha and beta. */
FLAT int to_binary(const struct kernel_call *c)
{
    return CFG(c).small && CFG(c).plain &&
           (limber_num_is_f64(CFG(c).c) || limber_num_is_f32(CFG(c).c));
}

/* True if the weighted totals of an element fit 62 bits, and their sum is rounded to a float of at
 * most two bytes without alpha and beta. */
FLAT int to_narrow(const struct kernel_call *c)
{
    return CFG(c).small && CFG(c).plain && stores_narrow(c);
}

/* True if the weighted totals of an element fit 62 bits, and their sum is stored as an integer
 * without alpha and beta. */
FLAT int to_integer(const struct kernel_call *c)
{
    return CFG(c).small && CFG(c).plain && CFG(c).c.kind == LIMBER_KIND_INT;
}

/* True if the total is one chain of one product.  It stays in the register tiles' memory. */
FLAT int is_single(const struct kernel_call *c)
{
    return CFG(c).rows == 1 && (to_binary(c) || to_narrow(c) || to_integer(c)) &&
           FIXED(unit) == UNIT_i8 && c->k <= CFG(c).chunk && !c->adds && !c->more;
}

/* Adds a chain to the total of its accumulator, by the code for the plan's reconstruction.  fresh:
 * there is no total yet, so the chain becomes the total. */
FLAT void add_chain_as(const struct kernel_call *c, const struct block *b, const struct chains *t,
                       char *total, const struct kernel_row *row, int64_t chunk, int64_t length,
                       int fresh)
{
    struct correction x;

    if (RECONSTRUCT == RECONSTRUCT_crt && FIXED(wide)) {
        fold_wide_residue(c, b, t, total, row->acc, fresh);
    } else if (RECONSTRUCT == RECONSTRUCT_crt) {
        add_chains_to_residue(c, b, t, total, row->acc, fresh);
    } else if (FIXED(unit) == UNIT_i8) {
        x = correction_of(c, b, row->a, row->b, chunk, length);
        add_chains_to_total(c, b, &x, t, total, row, fresh);
    } else {
        add_floats_to_total(c, b, t->at, total, row, fresh);
    }
}

/* Adds a chain to the total of its accumulator by add_chain_as, with `fresh` as a constant, so that
 * the code has no branches that test it. */
FLAT void add_chain(const struct kernel_call *c, const struct block *b, const struct chains *t,
                    char *total, const struct kernel_row *row, int64_t chunk, int64_t length,
                    int fresh)
{
    if (fresh)
        add_chain_as(c, b, t, total, row, chunk, length, 1);
    else
        add_chain_as(c, b, t, total, row, chunk, length, 0);
}

/* Adds the products of row r of the product table, over all of k, to the total of its accumulator.
 * fresh: there is no total yet. */
FLAT void exact_row(const struct kernel_call *c, const struct block *b, int r, char *scratch,
                    int fresh)
{
    const struct kernel_row *row = &CFG(c).row[r];
    struct tiles t = { scratch, (int64_t)CFG(c).nb * acc_bytes(), 0, 0, 0 };
    char *total = (char *)totals(c, scratch);
    struct chains all = { scratch, t.row, 0, b->cols };

    begin_limb(c, b, row->b);
    for (int64_t p0 = 0; p0 < c->k; p0 += CFG(c).kc) {
        int64_t chunk = p0 / CFG(c).chunk, from = chunk * CFG(c).chunk;
        int64_t end = min64(from + CFG(c).chunk, c->k);
        int last;

        last = p0 + CFG(c).kc >= c->k;
        multiply(c, b, row->a, row->b, p0, last && r + 1 < CFG(c).rows ? row[1].a : row->a,
                 last ? 0 : p0 + CFG(c).kc, p0 == from, &t);
        if (p0 + CFG(c).kc < end)
            continue;
        if (RECONSTRUCT == RECONSTRUCT_shift && is_single(c))
            return;             /* the code that stores results corrects for the offsets */
        add_chain(c, b, &all, total, row, chunk, end - from, fresh);
        fresh = 0;
    }
}

/* Multiplies chains over k in [from, end) for column j of register tiles, by row r of the product
 * table.  A cache block of B's panel stays in L1 while A is read from L2. */
FLAT void multiply_column(const struct kernel_call *c, const struct block *b, int r, int64_t j,
                          int64_t from, int64_t end, char *tile)
{
    const struct kernel_row *row = &CFG(c).row[r], *next = r + 1 < CFG(c).rows ? row + 1 : row;
    const struct packed *oa = &c->op[0], *ob = &c->op[1];
    int64_t line_a = FIXED(mr) * FIXED(bytes), line_b = FIXED(nr) * FIXED(bytes);
    const char *a = oa->data + b->panel_a * oa->panel_bytes;
    const char *panel = ob->data + (b->panel_b + j) * ob->panel_bytes + row->b * ob->limb_bytes;
    const char *next_a = a + next->a * oa->limb_bytes + from * line_a;
    const char *next_b = j + 1 < b->panels_b ? panel + ob->panel_bytes :
                         ob->data + b->panel_b * ob->panel_bytes + next->b * ob->limb_bytes;
    int64_t parts = (end - from + CFG(c).kc - 1) / CFG(c).kc, part = 0;

    for (int64_t p0 = from; p0 < end; p0 += CFG(c).kc, part++) {
        int64_t stop = min64(p0 + CFG(c).kc, end), groups = groups_of(p0, stop);
        int64_t length = groups * FIXED(group);
        const char *pb = panel_of_b(c, b, j, row->b, p0, stop);
        int64_t kb = p0 / CFG(c).kc;
        int zero_b = !CFG(c).offsets && is_zero(c, 1, b->panel_b + j, row->b, kb);
        const char *then_b = part + 1 < parts ? panel + (p0 + length) * line_b :
                                                next_b + from * line_b;

        for (int64_t i = 0; i < b->panels_a; i++) {
            struct ahead ahead = ahead_of(then_b, ob->planes ? 0 : length * line_b,
                                          next_a, oa->panel_bytes,
                                          (end - from) * line_a, b->panels_a, groups,
                                          i, j * parts + part, pb);
            char *to = tile + i * FIXED(mr) * FIXED(nr) * 4;
            int zero =
                zero_b || (!CFG(c).offsets && is_zero(c, 0, b->panel_a + i, row->a, kb));

            if (!zero)
                limber_micro(a + i * oa->panel_bytes + row->a * oa->limb_bytes + p0 * line_a,
                             pb, groups, to, FIXED(nr) * 4, p0 == from, 0,
                             ahead.from, ahead.step);
            else if (p0 == from)
                clear_tile(to, FIXED(nr) * 4);
        }
    }
}

/* Adds the products of row r of the product table to the total of its accumulator, for matrix
 * units: one column of register tiles after another, each as soon as it is computed.  A column of
 * tiles is small, and leaves L2 to the limbs of a large block. */
FLAT void exact_columns(const struct kernel_call *c, const struct block *b, int r, char *scratch,
                        int fresh)
{
    const struct kernel_row *row = &CFG(c).row[r];
    char *total = (char *)totals(c, scratch);

    begin_limb(c, b, row->b);
    limber_micro_open();
    for (int64_t from = 0; from < c->k; from += CFG(c).chunk, fresh = 0) {
        int64_t end = min64(from + CFG(c).chunk, c->k), chunk = from / CFG(c).chunk;

        for (int64_t j = 0; j < b->panels_b; j++) {
            struct chains t = { scratch, FIXED(nr) * 4, j * FIXED(nr),
                                min64(b->cols, (j + 1) * FIXED(nr)) };

            multiply_column(c, b, r, j, from, end, scratch);
            add_chain(c, b, &t, total, row, chunk, end - from, fresh);
        }
    }
    limber_micro_close();
}

/* Multiplies, and stores register tiles directly to C. */
FLAT void products_in_place(const struct kernel_call *c, const struct block *b)
{
    struct tiles t = { place(c, b->i0, b->j0), c->c.row * CFG(c).c.size, b->rows, b->cols, 1 };

    if (FIXED(unit) == UNIT_i8)
        begin_limb(c, b, 0);
    for (int64_t p0 = 0; p0 < c->k; p0 += CFG(c).kc)
        multiply(c, b, CFG(c).row[0].a, CFG(c).row[0].b, p0, CFG(c).row[0].a,
                 p0 + CFG(c).kc < c->k ? p0 + CFG(c).kc : 0, p0 == 0 && !c->adds, &t);
}

/* Adds the limb products of a block, row by row of the product table, to the totals in scratch
 * memory, or to C if register tiles have its format (`direct`, `stores`).
 *
 * The first row of an accumulator sets its total, unless an earlier part of k has set it (`adds`);
 * with `small`, all rows share one total.  With `bare`, some accumulator has no row, so totals
 * start at 0.  If k has several parts and rows share a float accumulator, a call computes only row
 * c->row. */
FLAT void add_limb_products(const struct kernel_call *c, const struct block *b, char *scratch)
{
    if (CFG(c).direct && c->stores) {
        products_in_place(c, b);
        return;
    }
    if (CFG(c).bare && !c->adds && !c->row)
        __builtin_memset((char *)totals(c, scratch), 0,
                         (size_t)(totals_of_block(c) * c->mb * CFG(c).nb * total_bytes()));
    for (int r = 0; r < CFG(c).rows; r++) {
        int begins = CFG(c).small ? r == 0 : r == 0 || CFG(c).row[r - 1].acc != CFG(c).row[r].acc;
        int fresh = begins && !c->adds;
        struct tiles t = { scratch + total_at(c, 0, CFG(c).row[r].acc, 0), total_row(c), 0, 0, 0 };

        if (is_float() && CFG(c).rows > CFG(c).accumulators && (c->adds || c->more) && r != c->row)
            continue;   /* each row is computed over all of k before the next row begins */
        if (!is_float()) {
            if (FIXED(matrix) && CFG(c).rows > 1)
                exact_columns(c, b, r, scratch, fresh);
            else
                exact_row(c, b, r, scratch, fresh);
            continue;
        }
        for (int64_t p0 = 0; p0 < c->k; p0 += CFG(c).kc)
            multiply(c, b, CFG(c).row[r].a, CFG(c).row[r].b, p0, CFG(c).row[r].a,
                     p0 + CFG(c).kc < c->k ? p0 + CFG(c).kc : 0, fresh && p0 == 0, &t);
    }
}

#endif
