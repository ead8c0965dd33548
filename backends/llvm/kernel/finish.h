/* SPDX-License-Identifier: BSD-3-Clause
 * Totals become elements of C: combined, scaled, rounded once, stored. */
#ifndef LIMBER_KERNEL_FINISH_H
#define LIMBER_KERNEL_FINISH_H

/* ---- combine and epilogue ---------------------------------------------------------------------------------- */

FLAT int scale_of(const struct packed *o, int64_t line)
{
    return o->scale ? o->scale[o->line0 + line] : 0;
}

FLAT struct limber_scalars scalars(const struct kernel_call *c)
{
    return (struct limber_scalars){ CFG.has_alpha ? c->alpha : 0, CFG.has_beta ? c->beta : 0,
                                    CFG.scalars };
}

FLAT char *place(const struct kernel_call *c, int64_t i, int64_t j)
{
    return limber_place_at(&c->c, c->i0 + i, c->j0 + j, CFG.c.size);
}

/* The sum of products as NaN and infinities make it. */
SLOW double special(const struct kernel_call *c, int64_t i, int64_t j)
{
    double x = 0;

    for (int64_t p = 0; p < c->k; p++) {
        double v[2];

        for (int s = 0; s < 2; s++) {
            const struct packed *o = &c->op[s];
            const char *at = limber_view_at(&o->view, o->line0 + (s ? j : i), p,
                                            CFG.side[s].f.size);
            struct limber_num part[2];

            v[s] = 0;
            if (at) {
                limber_parts(part, CFG.side[s].f, at);
                v[s] = limber_num_class(&part[0]);
            }
        }
        x += v[0] * v[1];
    }
    return x;
}

FLAT int is_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    return (c->op[0].special && c->op[0].special[c->op[0].line0 + i]) ||
           (c->op[1].special && c->op[1].special[c->op[1].line0 + j]);
}

SLOW void store_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    struct limber_scalars sc = scalars(c);

    limber_store_class(place(c, i, j), CFG.c, special(c, i, j), &sc);
}

SLOW int store_general(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                       int exp)
{
    struct limber_scalars sc = scalars(c);

    return limber_store_exact(place(c, i, j), CFG.c, w, n, exp, &sc);
}

/* One exact value of n words, 2^exp; answers 1 when it does not fit the result. */
FLAT int store_words(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                     int exp)
{
    int flags;

    if (CFG.c.kind == LIMBER_KIND_INT && CFG.wrap) {
        struct limber_scalars sc = scalars(c);

        limber_store_wrapped(place(c, i, j), CFG.c, w[0], &sc);
        return 0;
    }
    if (CFG.plain) {
        struct limber_big sum = { w, n, exp };

        flags = limber_big_store(place(c, i, j), CFG.c, &sum);
    } else {
        flags = store_general(c, i, j, w, n, exp);
    }
    return CFG.c.kind == LIMBER_KIND_INT && (flags & 2);
}

FLAT int64_t total_at(const char *scratch, int acc, int64_t at)
{
    return ((const int64_t *)(const void *)(scratch + acc * total_bytes()))[at];
}

FLAT void columns_of_shift(const char *total, int64_t at, int64_t column[][KERNEL_STRIP])
{
    for (int acc = 0; acc < CFG.accumulators; acc++)
        for (int j = 0; j < KERNEL_STRIP; j++)
            limber_columns_add(&column[0][j], KERNEL_STRIP, total_at(total, acc, at + j),
                               CFG.weight[acc]);
}

FLAT void columns_of_crt(const char *total, int64_t at, int64_t column[][KERNEL_STRIP])
{
    uint32_t c[LIMBER_MODULI][KERNEL_STRIP];
    double share[KERNEL_STRIP] = { 0 };
    int64_t q[KERNEL_STRIP];

    for (int l = 0; l < CFG.accumulators; l++) {
        const unsigned char *r = (const unsigned char *)total + l * total_bytes() + at;

        for (int j = 0; j < KERNEL_STRIP; j++) {
            c[l][j] = limber_mod24((uint32_t)r[j] * CFG.crt.inverse[l],
                                   (uint32_t)CFG.crt.modulus[l], CFG.inverse[l]);
            share[j] += c[l][j] * CFG.share[l];
        }
    }
    for (int j = 0; j < KERNEL_STRIP; j++)
        q[j] = (int64_t)__builtin_rint(share[j]);
    for (int d = 0; d < CFG.crt.digits; d++) {
        uint64_t sum[KERNEL_STRIP] = { 0 };     /* stays in registers over the moduli */

        for (int l = 0; l < CFG.accumulators; l++)
            for (int j = 0; j < KERNEL_STRIP; j++)
                sum[j] += (uint64_t)c[l][j] * CFG.crt.cofactor[l][d];
        for (int j = 0; j < KERNEL_STRIP; j++)
            column[d][j] = (int64_t)sum[j] - q[j] * (int64_t)CFG.crt.product[d];
    }
}

/* Stores `cols` values of CFG.c.size bytes each, the low bytes of v; one run where C is dense. */
FLAT void store_row(const struct kernel_call *c, int64_t i, int64_t j, int64_t cols,
                    const int64_t *v)
{
    if (c->c.col == 1 && c->j0 + j + cols <= c->c.inner) {
        char *to = place(c, i, j);

        for (int64_t x = 0; x < cols; x++)
            __builtin_memcpy(to + x * CFG.c.size, &v[x], (unsigned)CFG.c.size);
        return;
    }
    for (int64_t x = 0; x < cols; x++)
        __builtin_memcpy(place(c, i, j + x), &v[x], (unsigned)CFG.c.size);
}

/* Totals of 62 bits to binary64 or binary32: one conversion rounds, the power of two is exact. */
FLAT int store_small(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                     int64_t cols, const int64_t *v)
{
    int low = CFG.c.size == 8 ? -1022 : -126, high = CFG.c.size == 8 ? 1023 - 63 : 127 - 63;
    int sa = scale_of(&c->op[0], b->i0 + i), fits = 1;
    int64_t bits[KERNEL_STRIP];
    double x[KERNEL_STRIP];

    for (int64_t j = 0; j < cols; j++) {
        int e = -(sa + scale_of(&c->op[1], b->j0 + j0 + j));

        fits &= (e >= low) & (e <= high);
    }
    if (!fits)
        return 0;
    for (int64_t j = 0; j < cols; j++) {
        double r = CFG.c.size == 8 ? (double)v[j] : (double)(float)v[j];

        x[j] = r * power_of_two(-(sa + scale_of(&c->op[1], b->j0 + j0 + j)));
    }
    for (int64_t j = 0; j < cols; j++) {
        float narrow = (float)x[j];

        bits[j] = 0;
        __builtin_memcpy(&bits[j], CFG.c.size == 8 ? (const void *)&x[j] : (const void *)&narrow,
                         (unsigned)CFG.c.size);
    }
    store_row(c, b->i0 + i, b->j0 + j0, cols, bits);
    return 1;
}

/* Totals of 62 bits to integers, unscaled; answers how many did not fit. */
FLAT int64_t store_integers(const struct kernel_call *c, const struct block *b, int64_t i,
                            int64_t j0, int64_t cols, const int64_t *v)
{
    int unused = 64 - 8 * CFG.c.size;
    int64_t lost = 0;

    if (!CFG.wrap)
        for (int64_t j = 0; j < cols; j++)
            lost += (int64_t)((uint64_t)v[j] << unused) >> unused != v[j];
    store_row(c, b->i0 + i, b->j0 + j0, cols, v);
    return lost;
}

/* Columns as binary64, for all lanes at once: digits are added from the top as a double-double,
 * whose error is below 2^-100 of it; where that cannot turn the rounding, v holds the bits and
 * sure is 1.  The power of two is added to the exponent, which must stay normal. */
FLAT void round_strip(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                      int64_t column[][KERNEL_STRIP], int64_t *v, int64_t *sure)
{
    int64_t carry[KERNEL_STRIP] = { 0 }, scale[KERNEL_STRIP];
    double high[KERNEL_STRIP] = { 0 }, low[KERNEL_STRIP] = { 0 };
    int last = 2 * CFG.words - 1;

    for (int d = 0; d <= last; d++)
        for (int j = 0; j < KERNEL_STRIP; j++) {
            int64_t sum = carry[j] + column[d][j];

            column[d][j] = d < last ? sum & 0xffffffff : sum;
            carry[j] = sum >> 32;
        }
    for (int d = last; d >= 0; d--)
        for (int j = 0; j < KERNEL_STRIP; j++) {
            double x = (double)column[d][j] * power_of_two(32 * d), sum = high[j] + x;
            double part = sum - high[j];

            low[j] += (high[j] - (sum - part)) + (x - part);
            high[j] = sum;
        }
    for (int j = 0; j < KERNEL_STRIP; j++)
        scale[j] = -(int64_t)(scale_of(&c->op[0], b->i0 + i) +
                              scale_of(&c->op[1], min64(b->j0 + j0 + j, c->n - 1)));
    for (int j = 0; j < KERNEL_STRIP; j++) {
        double r = high[j] + low[j], rest = (high[j] - r) + low[j], doubt = r * 0x1p-95;
        int64_t field;

        __builtin_memcpy(&v[j], &r, 8);
        field = (v[j] >> 52 & 0x7ff) + scale[j];
        sure[j] = (r + (rest + doubt) == r) & (r + (rest - doubt) == r) &
                  (((field > 0) & (field < 0x7ff)) | (r == 0));
        v[j] += r == 0 ? 0 : (int64_t)((uint64_t)scale[j] << 52);
    }
}

FLAT int to_binary64(void)
{
    return CFG.plain && CFG.c.kind == LIMBER_KIND_FLOAT && CFG.c.size == 8 &&
           CFG.c.frac_bits == 52 && CFG.words <= 12;
}

/* A strip whose totals need more than 62 bits, or another format. */
FLAT int64_t wide_strip(const struct kernel_call *c, const struct block *b, const char *total,
                        int64_t i, int64_t j0, int64_t cols)
{
    int64_t column[32][KERNEL_STRIP], at = i * CFG.nb + j0, lost = 0;
    int64_t v[KERNEL_STRIP], sure[KERNEL_STRIP] = { 0 };

    for (int d = 0; d < 2 * CFG.words; d++)
        for (int j = 0; j < KERNEL_STRIP; j++)
            column[d][j] = 0;
    if (VIA == VIA_crt)
        columns_of_crt(total, at, column);
    else
        columns_of_shift(total, at, column);
    if (to_binary64()) {
        round_strip(c, b, i, j0, column, v, sure);
        store_row(c, b->i0 + i, b->j0 + j0, cols, v);
    }
    for (int64_t j = 0; j < cols; j++) {
        uint64_t w[16];
        int exp = -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j0 + j));

        if (sure[j])
            continue;
        limber_columns_words(&column[0][j], KERNEL_STRIP, 2 * CFG.words, w, CFG.words);
        lost += store_words(c, b->i0 + i, b->j0 + j0 + j, w, CFG.words, exp);
    }
    return lost;
}

/* A strip of totals of 62 bits to binary64, binary32 or integers. */
FLAT int64_t small_strip(const struct kernel_call *c, const struct block *b, const char *tile,
                         int64_t i, int64_t j0, int64_t cols)
{
    int64_t v[KERNEL_STRIP] = { 0 }, at = i * CFG.nb + j0, lost = 0;

    if (is_single(c))
        load_single(c, b, (const int32_t *)(const void *)tile + at, i, j0, cols, v);
    else
        for (int acc = 0; acc < CFG.accumulators; acc++)
            for (int64_t j = 0; j < KERNEL_STRIP; j++)
                v[j] += (int64_t)((uint64_t)total_at(totals(tile), acc, at + j) <<
                                  CFG.weight[acc]);
    if (to_integer())
        return store_integers(c, b, i, j0, cols, v);
    if (store_small(c, b, i, j0, cols, v))
        return 0;
    for (int64_t j = 0; j < cols; j++) {    /* a scale beyond one power of two */
        uint64_t w[2] = { (uint64_t)v[j], (uint64_t)(v[j] >> 63) };
        int exp = -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j0 + j));

        lost += store_words(c, b->i0 + i, b->j0 + j0 + j, w, 2, exp);
    }
    return lost;
}

/* A strip of one row; answers how many integers did not fit. */
FLAT int64_t exact_strip(const struct kernel_call *c, const struct block *b, const char *tile,
                         int64_t i, int64_t j0, int64_t cols)
{
    if ((to_binary() || to_integer()) && cols == KERNEL_STRIP)      /* of constant length */
        return small_strip(c, b, tile, i, j0, KERNEL_STRIP);
    if (to_binary() || to_integer())
        return small_strip(c, b, tile, i, j0, cols);
    return wide_strip(c, b, totals(tile), i, j0, cols);
}

FLAT double float_total(const char *total, int acc, int64_t at)
{
    const char *t = total + acc * total_bytes();

    return CFG.unit == UNIT_f64 ? ((const double *)(const void *)t)[at] :
           (double)((const float *)(const void *)t)[at];
}

FLAT void float_row(const struct kernel_call *c, const struct block *b, const char *total,
                    int64_t i)
{
    for (int64_t j = 0; j < b->cols; j++) {
        int64_t at = i * CFG.nb + j;
        int last = CFG.accumulators - 1, scaled = c->op[0].scale || c->op[1].scale;
        double x = float_total(total, last, at);

        if (CFG.weight[last])
            x *= power_of_two(CFG.weight[last]);
        for (int acc = last - 1; acc >= 0; acc--)
            x += float_total(total, acc, at) * power_of_two(CFG.weight[acc]);
        if (scaled)
            x = scale_by(x, -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j)));
        limber_store_float(place(c, b->i0 + i, b->j0 + j), CFG.c, x, CFG.has_alpha, c->alpha_f64,
                           CFG.has_beta, c->beta_f64);
    }
}

/* Special elements would be overwritten after they were combined with what C held: they are
 * stored apart, by asking before each row. */
FLAT int64_t finish(const struct kernel_call *c, const struct block *b, const char *scratch)
{
    int checks = HOW != HOW_whole && (c->op[0].special || c->op[1].special);
    int64_t lost = 0;

    for (int64_t i = 0; i < b->rows; i++) {
        if (is_float() && !checks) {
            float_row(c, b, scratch, i);
            continue;
        }
        for (int64_t j0 = 0; j0 < b->cols; j0 += KERNEL_STRIP) {
            int64_t cols = min64(KERNEL_STRIP, b->cols - j0);
            int64_t j = 0;

            while (j < cols) {      /* runs of ordinary elements */
                int64_t from = j;
                struct block part = *b;

                while (j < cols && !(checks && is_special(c, b->i0 + i, b->j0 + j0 + j)))
                    j++;
                if (j > from && is_float()) {
                    part.j0 += j0 + from;
                    part.cols = j - from;
                    float_row(c, &part, scratch + (j0 + from) * acc_bytes(), i);
                } else if (j > from) {
                    lost += exact_strip(c, b, scratch, i, j0 + from, j - from);
                }
                if (j < cols)
                    store_special(c, b->i0 + i, b->j0 + j0 + j++);
            }
        }
    }
    return lost;
}

/* ---- the long accumulator ------------------------------------------------------------------------------------ */

FLAT int64_t exact_block(const struct kernel_call *c, const struct block *b)
{
    uint64_t w[LIMBER_BIG];
    int64_t lost = 0;

    for (int64_t i = b->i0; i < b->i0 + b->rows; i++)
        for (int64_t j = b->j0; j < b->j0 + b->cols; j++) {
            struct limber_big sum = { w, CFG.big_words, CFG.big_base };

            if (is_special(c, i, j)) {
                store_special(c, i, j);
                continue;
            }
            limber_big_zero(&sum);
            for (int64_t p = 0; p < c->k; p++) {
                const char *pa = limber_view_at(&c->op[0].view, c->op[0].line0 + i, p,
                                                CFG.side[0].f.size);
                const char *pb = limber_view_at(&c->op[1].view, c->op[1].line0 + j, p,
                                                CFG.side[1].f.size);
                struct limber_num x[2], y[2];

                if (!pa || !pb)
                    continue;
                for (int s = limber_parts(x, CFG.side[0].f, pa); s-- > 0;)
                    for (int t = limber_parts(y, CFG.side[1].f, pb); t-- > 0;)
                        if (x[s].kind == NUM_finite && y[t].kind == NUM_finite)
                            limber_big_add_product(&sum, &x[s], &y[t]);
            }
            lost += store_words(c, i, j, w, CFG.big_words, CFG.big_base);
        }
    return lost;
}

#endif
