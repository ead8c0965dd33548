/* SPDX-License-Identifier: BSD-3-Clause
 * Products of packed limbs, and the totals that they leave in a block. */
#ifndef LIMBER_KERNEL_MULTIPLY_H
#define LIMBER_KERNEL_MULTIPLY_H

/* ---- products -------------------------------------------------------------------------------------------- */

struct block {
    int64_t i0, j0, rows, cols;     /* of C's part */
    int64_t panel_a, panels_a, panel_b, panels_b;
};

FLAT int is_float(void)
{
    return VIA == VIA_sum;
}

/* Bytes of an accumulator of the register tile. */
FLAT int acc_bytes(void)
{
    return CFG.unit == UNIT_f64 ? 8 : 4;
}

FLAT void clear_tile(char *c, int64_t ldc)
{
    for (int i = 0; i < CFG.mr; i++)
        for (int j = 0; j < CFG.nr * acc_bytes(); j++)
            c[i * ldc + j] = 0;
}

/* Products of limbs la, lb over k in [p0, p0 + kc) into the block's tile array. */
FLAT void multiply(const struct kernel_call *c, const struct block *b, int la, int lb, int64_t p0,
                   int first, char *tile)
{
    const struct packed *oa = &c->op[0], *ob = &c->op[1];
    int64_t ldc = (int64_t)CFG.nb * acc_bytes(), kb = p0 / CFG.kc;
    int64_t groups = (min64(CFG.kc, c->k - p0) + CFG.group - 1) / CFG.group;
    int64_t at = p0 / CFG.group * CFG.group * CFG.bytes;
    int skips = HOW != HOW_whole && !CFG.offsets;

    for (int64_t j = 0; j < b->panels_b; j++) {
        const char *pb = ob->data + lb * ob->limb_bytes + (b->panel_b + j) * ob->panel_bytes +
                         at * CFG.nr;
        int zero_b = skips && !ob->nonzero[(lb * ob->panels + b->panel_b + j) * ob->blocks + kb];

        for (int64_t i = 0; i < b->panels_a; i++) {
            const char *pa = oa->data + la * oa->limb_bytes +
                             (b->panel_a + i) * oa->panel_bytes + at * CFG.mr;
            char *to = tile + i * CFG.mr * ldc + j * CFG.nr * acc_bytes();

            if (zero_b || (skips && !oa->nonzero[(la * oa->panels + b->panel_a + i) *
                                                 oa->blocks + kb])) {
                if (first)
                    clear_tile(to, ldc);
                continue;
            }
            limber_micro(pa, pb, groups, to, ldc, first);
        }
    }
}

/* What packed offsets added to a chain: -ob sum a' - oa sum b' + oa ob length. */
FLAT void remove_offsets(const struct kernel_call *c, const struct block *b, int la, int lb,
                         int64_t chunk, int64_t length, int32_t *tile)
{
    uint32_t oa = (uint32_t)CFG.side[0].offset[la], ob = (uint32_t)CFG.side[1].offset[lb];
    const struct packed *a = &c->op[0], *o = &c->op[1];
    const int32_t *sa = a->sums + (la * a->chunks + chunk) * a->sum_lines + b->i0;
    const int32_t *sb = o->sums + (lb * o->chunks + chunk) * o->sum_lines + b->j0;

    if (!oa && !ob)
        return;
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++)
            tile[i * CFG.nb + j] = (int32_t)((uint32_t)tile[i * CFG.nb + j] -
                                             ob * (uint32_t)sa[i] - oa * (uint32_t)sb[j] +
                                             oa * ob * (uint32_t)length);
}

/* A strip of a single chain: what remove_offsets leaves, times its weight. */
FLAT void load_single(const struct kernel_call *c, const struct block *b, const int32_t *tile,
                      int64_t i, int64_t j0, int64_t cols, int64_t *v)
{
    int la = CFG.row[0].a, lb = CFG.row[0].b;
    uint32_t oa = (uint32_t)CFG.side[0].offset[la], ob = (uint32_t)CFG.side[1].offset[lb];
    const struct packed *a = &c->op[0], *o = &c->op[1];
    uint32_t row = oa * ob * (uint32_t)c->k;

    if (ob)
        row -= ob * (uint32_t)a->sums[la * a->sum_lines + b->i0 + i];
    for (int64_t j = 0; j < cols; j++) {
        uint32_t t = (uint32_t)tile[j] + row;

        if (oa)
            t -= oa * (uint32_t)o->sums[lb * o->sum_lines + b->j0 + j0 + j];
        v[j] = (int64_t)((uint64_t)(int64_t)(int32_t)t << CFG.weight[0]);
    }
}

/* Adds an exact chain to its total. */
FLAT void fold_total(const struct block *b, const int32_t *restrict tile,
                     int64_t *restrict total, int fresh)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;

            total[at] = (fresh ? 0 : total[at]) + tile[at];
        }
}

FLAT void fold_floats(const struct block *b, const char *tile, int64_t *total, int fresh)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;
            int64_t v = CFG.unit == UNIT_f64 ? (int64_t)((const double *)(const void *)tile)[at] :
                        (int64_t)((const float *)(const void *)tile)[at];

            total[at] = (fresh ? 0 : total[at]) + v;
        }
}

/* t mod p in [0, p) of a 32-bit chain. */
FLAT uint32_t residue_of(int32_t t, int l)
{
    uint32_t p = (uint32_t)CFG.crt.modulus[l], u = (uint32_t)t ^ 0x80000000u;
    const uint32_t *c = CFG.piece[0][l];

    /* bias 2^31 = 2^15 2^16; c[1] = 2^16 mod p */
    u = (u >> 16) * c[1] + (u & 0xffff) + (p - (c[1] << 15) % p);
    u = (u >> 16) * c[1] + (u & 0xffff);
    return limber_mod24(u, p, CFG.inverse[l]);
}

FLAT void fold_residue(const struct block *b, const int32_t *restrict tile,
                       unsigned char *restrict total, int l, int fresh)
{
    uint32_t p = (uint32_t)CFG.crt.modulus[l];

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;
            uint32_t r = residue_of(tile[at], l) + (fresh ? 0 : total[at]);

            total[at] = (unsigned char)(r >= p ? r - p : r);
        }
}

/* Bytes of one accumulator's totals of a block. */
FLAT int64_t total_bytes(void)
{
    return (int64_t)CFG.mb * CFG.nb * (is_float() ? acc_bytes() : VIA == VIA_crt ? 1 : 8);
}

/* Scratch: the tile array (exact schemes), then the accumulators. */
FLAT const char *totals(const char *scratch)
{
    return scratch + (is_float() ? 0 : (int64_t)CFG.mb * CFG.nb * acc_bytes());
}

/* Totals of 62 bits that go to binary64 or binary32, or unscaled to an integer. */
FLAT int to_binary(void)
{
    return CFG.small && CFG.plain && CFG.c.kind == LIMBER_KIND_FLOAT &&
           ((CFG.c.size == 8 && CFG.c.frac_bits == 52) ||
            (CFG.c.size == 4 && CFG.c.frac_bits == 23));
}

FLAT int to_integer(void)
{
    return CFG.small && CFG.plain && CFG.c.kind == LIMBER_KIND_INT &&
           CFG.side[0].axis == AXIS_none;
}

/* A single chain of a single product is its own total: it stays in the tile array. */
FLAT int is_single(const struct kernel_call *c)
{
    return CFG.rows == 1 && (to_binary() || to_integer()) && CFG.unit == UNIT_i8 &&
           c->k <= CFG.chunk;
}

FLAT void fold(const struct block *b, const char *tile, char *total, int acc, int fresh)
{
    if (VIA == VIA_crt)
        fold_residue(b, (const int32_t *)(const void *)tile, (unsigned char *)total, acc, fresh);
    else if (CFG.unit == UNIT_i8)
        fold_total(b, (const int32_t *)(const void *)tile, (int64_t *)(void *)total, fresh);
    else
        fold_floats(b, tile, (int64_t *)(void *)total, fresh);
}

FLAT void exact_row(const struct kernel_call *c, const struct block *b, int r, char *scratch,
                    int fresh)
{
    const struct kernel_row *row = &CFG.row[r];
    char *total = (char *)totals(scratch) + row->acc * total_bytes();

    for (int64_t p0 = 0; p0 < c->k; p0 += CFG.kc) {
        int64_t chunk = p0 / CFG.chunk, from = chunk * CFG.chunk;
        int64_t end = min64(from + CFG.chunk, c->k);

        multiply(c, b, row->a, row->b, p0, p0 == from, scratch);
        if (p0 + CFG.kc < end)
            continue;
        if (VIA == VIA_shift && is_single(c))
            return;             /* the store takes the offsets away */
        if (CFG.offsets)
            remove_offsets(c, b, row->a, row->b, chunk, end - from, (int32_t *)(void *)scratch);
        if (fresh)      /* constants, so that no load depends on it */
            fold(b, scratch, total, row->acc, 1);
        else
            fold(b, scratch, total, row->acc, 0);
        fresh = 0;
    }
}

FLAT void products(const struct kernel_call *c, const struct block *b, char *scratch)
{
    for (int r = 0; r < CFG.rows; r++) {
        int fresh = r == 0 || CFG.row[r - 1].acc != CFG.row[r].acc;

        if (!is_float()) {
            exact_row(c, b, r, scratch, fresh);
            continue;
        }
        for (int64_t p0 = 0; p0 < c->k; p0 += CFG.kc)
            multiply(c, b, CFG.row[r].a, CFG.row[r].b, p0, fresh && p0 == 0,
                     (char *)totals(scratch) + CFG.row[r].acc * total_bytes());
    }
}

#endif
