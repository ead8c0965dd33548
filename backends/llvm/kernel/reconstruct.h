/* SPDX-License-Identifier: BSD-3-Clause
 * Converts the totals of a block to elements of C: combines the totals of each element, removes
 * scales, and rounds once. */
#ifndef LIMBER_KERNEL_RECONSTRUCT_H
#define LIMBER_KERNEL_RECONSTRUCT_H

/* Marks a loop over the two halves of sixteen elements.  Registers of 512 bits hold the vectors of
 * both halves, and a loop would pass them through memory.  With shorter registers they are in
 * memory anyway, and the loop halves the code, of which each prebuilt kernel has a copy. */
#ifdef __AVX512F__
#define HALVES UNROLL
#else
#define HALVES ROLL
#endif

/* ---- totals of 62 bits ----------------------------------------------------------------------- */

/* Stores totals of 62 bits as FP64 or FP32: one conversion rounds, and scaling by a power of two is
 * exact.  Returns 0 if scaling might not be exact. */
FLAT int store_small(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                     int64_t cols, const v8l v[2])
{
    int64_t low = CFG(c).c.size == 8 ? -1022 : -126;
    int64_t high = CFG(c).c.size == 8 ? 1023 - 63 : 127 - 63;
    v8l e[2];
    v8d x[2];

    scales_at(c, b, i, j0, e);
    if (ANY((e[0] < low) | (e[0] > high) | (e[1] < low) | (e[1] > high)))
        return 0;
    UNROLL for (int h = 0; h < 2; h++) {
        x[h] = CFG(c).c.size == 8 ? TO(v8d, v[h]) : TO(v8d, TO(v8f, v[h]));
        x[h] *= powers_of_two(e[h]);
    }
    if (CFG(c).c.size == 8) {
        store_row(c, b->i0 + i, b->j0 + j0, cols, (const char *)x);
    } else {
        v16f narrow = JOIN(TO(v8f, x[0]), TO(v8f, x[1]));

        store_row(c, b->i0 + i, b->j0 + j0, cols, (const char *)&narrow);
    }
    return 1;
}

/* Stores totals of 62 bits as floats of 8 or 16 bits, rounded once.  Returns 0 if a scale is too
 * large or too small. */
FLAT int store_small_narrow(const struct kernel_call *c, const struct block *b, int64_t i,
                            int64_t j0, int64_t cols, const v8l v[2])
{
    char out[KERNEL_LANES * 2] __attribute__((aligned(64)));
    v8l e[2];

    scales_at(c, b, i, j0, e);
    if (ANY((e[0] < -900) | (e[0] > 900) | (e[1] < -900) | (e[1] > 900)))
        return 0;
    UNROLL for (int h = 0; h < 2; h++)
        put_codes(c, out + 8 * h * CFG(c).c.size,
                  narrow_codes(c, odd_double(v[h]) * powers_of_two(e[h])));
    store_row(c, b->i0 + i, b->j0 + j0, cols, out);
    return 1;
}

/* Removes the scales of integers by shifting.  Returns 0 if a shift is out of range, or if an
 * element has a fraction, as sums of floats may have. */
FLAT int unscale(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                 v8l v[2])
{
    v8l e[2], x[2];

    if (CFG(c).side[0].axis == AXIS_none)
        return 1;
    scales_at(c, b, i, j0, e);
    if (ANY((e[0] > 0) | (e[0] < -62) | (e[1] > 0) | (e[1] < -62)))
        return 0;
    UNROLL for (int h = 0; h < 2; h++)
        x[h] = v[h] >> -e[h];
    if (ANY((x[0] << -e[0] != v[0]) | (x[1] << -e[1] != v[1])))
        return 0;
    v[0] = x[0];
    v[1] = x[1];
    return 1;
}

/* Stores integers of 62 bits in C's integer format.  Returns the number of integers that do not fit
 * it. */
FLAT int64_t store_integers(const struct kernel_call *c, const struct block *b, int64_t i,
                            int64_t j0, int64_t cols, const v8l v[2])
{
    int unused = 64 - 8 * CFG(c).c.size;
    char out[KERNEL_LANES * 8] __attribute__((aligned(64)));
    int64_t lost = 0;

    if (!CFG(c).wrap)
        ROLL for (int64_t j = 0; j < cols; j++) {
            int64_t x = v[j / 8][j % 8];

            lost += (int64_t)((uint64_t)x << unused) >> unused != x;
        }
    UNROLL for (int h = 0; h < 2; h++) {
        v8i four = TO(v8i, v[h]);
        v8h two = TO(v8h, v[h]);
        v8c one = TO(v8c, v[h]);

        switch (CFG(c).c.size) {
        case 8: STORE(out + 64 * h, v[h]); break;
        case 4: STORE(out + 32 * h, four); break;
        case 2: STORE(out + 16 * h, two); break;
        default: STORE(out + 8 * h, one); break;
        }
    }
    store_row(c, b->i0 + i, b->j0 + j0, cols, out);
    return lost;
}

/* Loads the 62-bit totals of 16 elements from (i, j0) on.  If the total is a single chain, it is
 * loaded from the register tiles' memory. */
FLAT void small_totals(const struct kernel_call *c, const struct block *b, const char *scratch,
                       int64_t i, int64_t j0, v8l v[2])
{
    if (is_single(c)) {
        struct correction x = correction_of(c, b, CFG(c).row[0].a, CFG(c).row[0].b, 0, c->k);
        v16i t = load_chains(c, &x, scratch + (i * CFG(c).nb + j0) * 4, i, j0);

        v[0] = TO(v8l, LOW(t)) << CFG(c).weight[0];
        v[1] = TO(v8l, HIGH(t)) << CFG(c).weight[0];
    } else {
        const char *from = totals(c, scratch) + total_at(c, i, 0, j0);

        v[0] = LOAD(v8l, from);
        v[1] = LOAD(v8l, from + 64);
    }
}

/* Stores the element in column j0 + j from its 62-bit total, by the general code.  Returns 1 if it
 * does not fit an integer format, else 0. */
FLAT int64_t store_small_element(const struct kernel_call *c, const struct block *b, int64_t i,
                                 int64_t j0, int64_t j, const int64_t *v)
{
    uint64_t w[2] = { (uint64_t)v[j], (uint64_t)(v[j] >> 63) };

    return c->cold->words(c, b->i0 + i, b->j0 + j0 + j, w, 2,
                          -(scale_of(&c->op[0], b->i0 + i) +
                            scale_of(&c->op[1], b->j0 + j0 + j)));
}

/* Stores up to KERNEL_LANES elements of row i whose totals fit 62 bits (configuration `small`): as
 * vectors if C's format, the scales, alpha and beta allow it, else one by one.  Returns the number
 * of results that do not fit C's integer format. */
FLAT int64_t small_strip(const struct kernel_call *c, const struct block *b, const char *scratch,
                         int64_t i, int64_t j0, int64_t cols)
{
    int64_t lost = 0, x[KERNEL_LANES];
    v8l v[2];

    small_totals(c, b, scratch, i, j0, v);
    if (to_integer(c) && unscale(c, b, i, j0, v))
        return store_integers(c, b, i, j0, cols, v);
    if (to_binary(c) && store_small(c, b, i, j0, cols, v))
        return 0;
    if (to_narrow(c) && store_small_narrow(c, b, i, j0, cols, v))
        return 0;
    STORE(x, v[0]);
    STORE(x + 8, v[1]);
    ROLL for (int64_t j = 0; j < cols; j++)
        lost += store_small_element(c, b, i, j0, j, x);
    return lost;
}

/* ---- totals of several words, added by columns ----------------------------------------------- */

/* Integers are summed as several columns, digits of a fixed number of bits that doubles hold.
 * Returns that number of bits. */
FLAT int column_bits(void)
{
    return FIXED(wide) ? KERNEL_WIDE_COLUMN : KERNEL_COLUMN;
}

/* Computes the columns (digits of column_bits() bits) of eight integers from their 12-bit
 * residues. */
FLAT void columns_of_eight(const struct kernel_call *c, const char *total, int64_t i, int64_t j,
                           v8d column[KERNEL_COLUMNS])
{
    v8d share = all_d(0);

    UNROLL for (int d = 0; d < FIXED(columns); d++)
        column[d] = all_d(0);
    ROLL for (int l = 0; l < CFG(c).accumulators; l++) {
        const char *from = total + total_at(c, i, l, j);
        v8d r = TO(v8d, TO(v8i, LOAD(v8h, from)));

        share = FMA(r, all_d(CFG(c).share[l]), share);
        UNROLL for (int d = 0; d < FIXED(columns); d++)
            column[d] = FMA(r, all_d(CFG(c).cofactor[l][d]), column[d]);
    }
    /* now the multiple of P to subtract */
    share = ROUND(share);
    UNROLL for (int d = 0; d < FIXED(columns); d++)
        column[d] = FMA(share, all_d(-CFG(c).product[d]), column[d]);
}

/* Computes the columns (digits) of sixteen integers from their residues.  Column d has weight
 * 2^(column_bits d) and is below 2^53: it sums at most 49 residues of 8 bits times 39 bits of
 * P/p_l, or 29 residues of 11.2 bits times 36 bits.  Computing sixteen integers together saves
 * loads of constants. */
FLAT void columns_of(const struct kernel_call *c, const char *total, int64_t i, int64_t j,
                     v8d low[KERNEL_COLUMNS], v8d high[KERNEL_COLUMNS])
{
    v8d share_low = all_d(0), share_high = all_d(0);

    if (FIXED(wide)) {  /* sixteen registers are enough for the columns of eight integers */
        columns_of_eight(c, total, i, j, low);
        columns_of_eight(c, total, i, j + 8, high);
        return;
    }
    UNROLL for (int d = 0; d < FIXED(columns); d++)
        low[d] = high[d] = all_d(0);
    ROLL for (int l = 0; l < CFG(c).accumulators; l++) {
        v16i r = TO(v16i, LOAD(v16c, total + total_at(c, i, l, j)));
        v8d first = TO(v8d, LOW(r)), second = TO(v8d, HIGH(r)), share = all_d(CFG(c).share[l]);

        share_low = FMA(first, share, share_low);
        share_high = FMA(second, share, share_high);
        UNROLL for (int d = 0; d < FIXED(columns); d++) {
            v8d cofactor = all_d(CFG(c).cofactor[l][d]);

            low[d] = FMA(first, cofactor, low[d]);
            high[d] = FMA(second, cofactor, high[d]);
        }
    }
    share_low = ROUND(share_low);
    share_high = ROUND(share_high);
    UNROLL for (int d = 0; d < FIXED(columns); d++) {
        low[d] = FMA(share_low, all_d(-CFG(c).product[d]), low[d]);
        high[d] = FMA(share_high, all_d(-CFG(c).product[d]), high[d]);
    }
}

/* Adds x to the double-double number *high + *low.  The rounding error of *high + x is added to
 * *low. */
FLAT void add_term(v8d x, v8d *high, v8d *low)
{
    v8d sum = *high + x, part = sum - *high;

    *low += (*high - (sum - part)) + (x - part);
    *high = sum;
}

/* Sets *high + *low to the double-double sum of the columns (an integer's digits), added from the
 * highest column down.  The sum is exact up to 106 bits; otherwise its relative error is below
 * 2^-100. */
FLAT void sum_columns(const v8d column[KERNEL_COLUMNS], v8d *high, v8d *low)
{
    *high = *low = all_d(0);
    UNROLL for (int d = FIXED(columns) - 1; d >= 0; d--)
        add_term(column[d] * power_of_two(column_bits() * d), high, low);
}

/* Sets *high + *low to the double-double sums of the weighted totals of eight elements, added from
 * the largest weight down.  Each total, an int64_t, is split into two doubles without rounding. */
FLAT void sum_weighted(const struct kernel_call *c, const char *total, int64_t i, int64_t j,
                       v8d *high, v8d *low)
{
    *high = *low = all_d(0);
    ROLL for (int acc = 0; acc < CFG(c).accumulators; acc++) {
        v8l t = LOAD(v8l, total + total_at(c, i, acc, j));
        double weight = power_of_two(CFG(c).weight[acc]);

        add_term(TO(v8d, t >> 31) * (weight * 0x1p31), high, low);
        add_term(TO(v8d, t & 0x7fffffff) * weight, high, low);
    }
}

/* Adds x to *high + *low like add_term, and clears in *exact the lanes in which this rounds. */
FLAT void add_term_checked(v8d x, v8d *high, v8d *low, v8l *exact)
{
    v8d sum = *high + x, part = sum - *high, rest = (*high - (sum - part)) + (x - part);
    v8d next = *low + rest, share = next - *low;

    *exact &= (v8l)((*low - (next - share)) + (rest - share) == 0);
    *high = sum;
    *low = next;
}

/* Returns the mask of lanes in which sum_columns(column) is the exact sum. */
SLOW v8l columns_are_exact(const v8d column[KERNEL_COLUMNS])
{
    v8d high = all_d(0), low = all_d(0);
    v8l exact = all_l(-1);

    UNROLL for (int d = FIXED(columns) - 1; d >= 0; d--)
        add_term_checked(column[d] * power_of_two(column_bits() * d), &high, &low, &exact);
    return exact;
}

/* Returns the mask of lanes in which sum_weighted is the exact sum. */
SLOW v8l weighted_are_exact(const struct kernel_call *c, const char *total, int64_t i, int64_t j)
{
    v8d high = all_d(0), low = all_d(0);
    v8l exact = all_l(-1);

    ROLL for (int acc = 0; acc < CFG(c).accumulators; acc++) {
        v8l t = LOAD(v8l, total + total_at(c, i, acc, j));
        double weight = power_of_two(CFG(c).weight[acc]);

        add_term_checked(TO(v8d, t >> 31) * (weight * 0x1p31), &high, &low, &exact);
        add_term_checked(TO(v8d, t & 0x7fffffff) * weight, &high, &low, &exact);
    }
    return exact;
}

/* Returns the magnitude of each lane. */
FLAT v8d size_of_lanes(v8d x) { return (v8d)((v8l)x & INT64_MAX); }

/* Returns the error bound of a sum.  size: sum of its terms' magnitudes.  share: error relative to
 * size. */
FLAT v8d uncertain_of(const struct kernel_call *c, v8d size, double share)
{
    return CFG(c).uncertain_count ? size * share + power_of_two(CFG(c).uncertain) : size * share;
}

/* Rounds high + low, times 2^scale, to FP64 or FP32.  Returns the mask of lanes whose rounding is
 * certain and whose results are in the range of normal numbers.  exact: lanes in which high + low
 * is the exact sum, so that ties of FP32 are certain, too.  terms: sums of the terms'
 * magnitudes. */
FLAT v8l round_float(const struct kernel_call *c, v8d high, v8d low, v8l exact, v8d terms,
                     v8l scale, v8d *out)
{
    v8d r = high + low, rest = (high - r) + low, uncertain = uncertain_of(c, terms, 0x1p-95);
    v8l field = ((v8l)r >> 52 & 0x7ff) + scale, normal = (field > 0) & (field < 0x7ff), sure;
    v8l zero = (v8l)(r == 0); /* scaling could make 0 look like a number that is out of range */

    sure = (v8l)(r + (rest + uncertain) == r) & (v8l)(r + (rest - uncertain) == r);
    scale = (scale << 52) & ~zero;
    if (CFG(c).c.size == 4) {
        v8d size = size_of_lanes(r), about = uncertain_of(c, terms, 0x1p-50);
        v8l known = (v8l)(about < size) | zero;
        v8f up, down;

        /* scaled like r; if r is in range, `about`, at least 2^-50 of r, is a normal number, too */
        about = (v8d)((v8l)about + scale);
        r = (v8d)((v8l)r + scale);
        up = TO(v8f, r + about);
        down = TO(v8f, r - about);
        normal = (field > 1023 - 126) & (field < 1023 + 127);
        sure = ((v8l)(TO(v8d, up) == TO(v8d, down)) & known) | (exact & (v8l)(rest == 0));
    } else {
        r = (v8d)((v8l)r + scale);
    }
    *out = r;
    return sure & (normal | zero);
}

/* Rounds high + low, times 2^scale, to FP64, and sets *side to the side of that number on which the
 * exact value lies.  Other arguments, and the result, as of round_float. */
SLOW v8l round_sided(const struct kernel_call *c, v8d high, v8d low, v8l exact, v8l scale,
                     v8d *out, v8l *side)
{
    v8d r = high + low, part = r - high, rest = (high - (r - part)) + (low - part);
    v8d terms = size_of_lanes(r), uncertain = uncertain_of(c, terms, 0x1p-95);
    v8l none = exact & (v8l)(rest == 0) & (CFG(c).uncertain_count ? 0 : -1);
    v8l sure = round_float(c, r, rest, exact, terms, scale, out);

    *side = (((v8l)(rest > 0) & 1) | (v8l)(rest < 0)) & ~none;
    return sure & (none | (v8l)(size_of_lanes(rest) > uncertain));
}

/* Rounds high + low, times 2^scale, to bit patterns of floats of 8 or 16 bits.  Returns the mask of
 * lanes whose rounding is certain. */
FLAT v8l round_narrow(const struct kernel_call *c, v8d high, v8d low, v8l scale, v8l *code)
{
    v8d r = high + low, rest = (high - r) + low, size = size_of_lanes(r);
    v8d about = uncertain_of(c, size, 0x1p-50);
    v8l field = ((v8l)r >> 52 & 0x7ff) + scale, zero = (v8l)(r == 0);
    v8l normal = (field > 53) & (field < 0x7ff), sure, up, exact;

    scale = (scale << 52) & ~zero;
    sure = (v8l)(about < size) & normal;
    /* the sum of two columns (digits of the integer) is exactly high + low */
    exact = (v8l)(rest == 0) & (normal | zero) &
            (FIXED(columns) <= 2 && RECONSTRUCT == RECONSTRUCT_crt && !CFG(c).uncertain_count ?
                 all_l(-1) :
                 zero & (CFG(c).uncertain_count ? 0 : -1));
    about = (v8d)((v8l)about + scale);
    r = (v8d)((v8l)r + scale);
    up = narrow_codes(c, r + about);
    *code = choose(exact, narrow_codes(c, r), up);
    return exact | (sure & (up == narrow_codes(c, r - about)));
}

/* Returns x shifted left by s, or right by -s; 0 if |s| > 63. */
FLAT v8u shifted(v8u x, v8l s)
{
    v8u left = x << (v8u)(s & 63), right = x >> (v8u)(-s & 63);

    return (left & (v8u)((s >= 0) & (s < 64))) | (right & (v8u)((s < 0) & (s > -64)));
}

/* The top 128 bits of a magnitude, left-justified in two words (high, low); the exponent of its
 * highest bit (exp); and a sticky flag that is set if lower bits are nonzero (rest). */
struct top {
    v8u high, low;
    v8l exp;
    v8l rest;
};

/* Sets *t to the top 128 bits of the magnitudes of eight integers.  column: digits whose weighted
 * sum is the integer.  sum: the integer rounded to a double, which gives sign and exponent. */
FLAT void find_top_bits(v8d column[KERNEL_COLUMNS], v8d sum, struct top *t)
{
    v8l sign = (v8l)sum & all_l(INT64_MIN), carry = all_l(0);
    v8l e = ((v8l)sum >> 52 & 0x7ff) - 1023, beyond;

    t->high = t->low = (v8u)all_l(0);
    t->rest = all_l(0);
    t->exp = e;
    UNROLL for (int d = 0; d < FIXED(columns); d++) {
        v8l x = TO(v8l, (v8d)((v8l)column[d] ^ sign)) + carry, s = column_bits() * d + 127 - e;
        v8u digit;

        carry = x >> column_bits();
        digit = (v8u)(d < FIXED(columns) - 1 ? x & all_l((1LL << column_bits()) - 1) : x);
        t->low |= shifted(digit, s);
        t->high |= shifted(digit, s - 64);
        t->rest |= (v8l)(digit != 0) & (v8l)(shifted(shifted(digit, s), -s) != digit) & (s < 0);
    }
    /* the double may have been rounded up to a power of two; then the top bit is 0 */
    beyond = (v8l)t->high >= 0;
    t->exp += beyond;
    t->high = (v8u)(((v8l)t->high << (beyond & 1)) |
                    (v8l)((t->low >> 63) & (v8u)(beyond & 1)));
    t->low = t->low << (v8u)(beyond & 1);
}

/* Rounds to binary128 (112 fraction bits), to nearest even.  Returns the mask of lanes whose
 * results are normal numbers. */
FLAT v8l round_quad(const struct top *t, v8l sign, v8l scale, v8u *high, v8u *low)
{
    v8l field = t->exp + scale + 16383, up;
    v8u cut = t->low & 0x7fff, half = (v8u)all_l(0x4000);
    v8u hi = t->high >> 15, lo = t->low >> 15 | t->high << 49;

    up = (v8l)(cut > half) | ((v8l)(cut == half) & (t->rest | (v8l)((lo & 1) != 0)));
    lo -= (v8u)up;
    hi -= (v8u)(up & (v8l)(lo == 0));
    /* adding carries the leading bit of hi, 2^48, into the exponent field */
    *high = (hi + ((v8u)(field - 1) << 48)) | (v8u)sign;
    *low = lo;
    return (field > 0) & (field < 0x7ffe);
}

/* Rounds to a double-double number: the nearest double, and then the remainder, rounded once.
 * Returns the mask of lanes whose rounding is certain. */
FLAT v8l round_dd(const struct top *t, v8l sign, v8l scale, v8d *high, v8d *low)
{
    v8u m = t->high >> 11, cut = t->high & 0x7ff, half = (v8u)all_l(0x400);
    v8l up, left, e = t->exp + scale, sure;
    v8d x, y;

    up = (v8l)(cut > half) | ((v8l)(cut == half) & ((v8l)(t->low != 0) | t->rest |
                                                    (v8l)((m & 1) != 0)));
    left = (v8l)cut - (up & 0x800);         /* in units of 2^-63, without the low word */
    /* the last bit is set if any lower bit is set, so that x is rounded correctly */
    y = TO(v8d, left) * 0x1p32 + TO(v8d, (v8l)(t->low >> 32));
    x = TO(v8d, (v8l)(t->low & 0xffffffff) | (t->rest & 1));
    /* the unit in the last place of the low double must be a normal number */
    sure = (e >= 127 - 1022) & (e < 1000) &
           ((t->rest == 0) | (left > 4) | (left < -4));
    *high = (v8d)((v8l)(TO(v8d, (v8l)m - up) * powers_of_two((e & sure) - 52)) | sign);
    *low = (v8d)((v8l)(FMA(y, all_d(0x1p32), x) * powers_of_two((e & sure) - 127)) ^ sign);
    return sure;
}

/* True if |scalar| is in [2^-300, 2^300], so that its products with sums in range neither overflow
 * nor become subnormal. */
FLAT int is_ordinary(double scalar)
{
    double size = __builtin_fabs(scalar);

    return size >= 0x1p-300 && size <= 0x1p300;
}

/* True if alpha x + beta c0, where c0 is C's old value, can be computed in double-double numbers,
 * with errors far below 2^-95 of the terms. */
FLAT int adds_pairs(const struct kernel_call *c)
{
    return !CFG(c).plain && stores_binary(c) &&
           (!CFG(c).has_alpha || is_ordinary(c->alpha_f64)) &&
           (!CFG(c).has_beta || is_ordinary(c->beta_f64));
}

/* Multiplies a double-double number by a double, in place. */
FLAT void multiply_pair(double by, v8d *high, v8d *low)
{
    v8d product = *high * by;

    *low = FMA(all_d(by), *high, -product) + *low * by;
    *high = product;
}

/* Adds beta times C's old values to eight double-double numbers, which are scaled by 2^-scale.
 * *terms: set to the sum of the terms' magnitudes.  *exact: lanes whose double-double number is the
 * exact sum.
 *
 * Returns the mask of lanes that need the general code: old values that are not normal numbers or
 * whose scaled exponent is out of range, and sums of zeros, whose signs matter. */
FLAT v8l join_c0(const struct kernel_call *c, const char *old, v8l scale, v8d *high, v8d *low,
                 v8l *exact, v8d *terms)
{
    v8d x = CFG(c).c.size == 8 ? LOAD(v8d, old) : TO(v8d, LOAD(v8f, old)), rest = all_d(0);
    v8l field = (v8l)x >> 52 & 0x7ff, zero = (v8l)(x == 0), bad;

    bad = (field == 0) | (field == 0x7ff) | (field - scale < 500) | (field - scale > 1600) |
          (scale < -900) | (scale > 900);
    bad = choose(zero, (v8l)(*high == 0), bad);
    x = (v8d)(((v8l)x - (scale << 52)) & ~(zero | bad));
    multiply_pair(c->beta_f64, &x, &rest);
    *terms = size_of_lanes(*high) + size_of_lanes(x);
    *exact &= (v8l)(*low == 0) & (v8l)(rest == 0);
    add_term(x, high, low);
    *low += rest;
    return bad;
}

/* Rounds eight elements to `out`.  Returns a bit mask of the elements whose rounding is uncertain.
 * whole: lanes in which high + low is known to be the exact sum of products.  old: C's old
 * values. */
FLAT int round_eight(const struct kernel_call *c, v8d high, v8d low, v8l whole,
                     v8d column[KERNEL_COLUMNS], v8l scale, const char *old, char *out)
{
    int64_t known[8];
    int left = 0;
    v8d terms = size_of_lanes(high + low);
    v8l sure, bad = all_l(0), exact = whole & all_l(CFG(c).has_alpha ? 0 : -1);

    if (!CFG(c).plain) {
        if (CFG(c).has_alpha)
            multiply_pair(c->alpha_f64, &high, &low);
        terms = size_of_lanes(high);
        bad = CFG(c).has_beta ? join_c0(c, old, scale, &high, &low, &exact, &terms) :
                                (v8l)(terms == 0);
    }
    if (CFG(c).c.kind == LIMBER_KIND_FLOAT && CFG(c).c.size == 8) {
        sure = round_float(c, high, low, exact, terms, scale, &high);
        STORE(out, high);
    } else if (CFG(c).c.kind == LIMBER_KIND_FLOAT && CFG(c).c.size == 4) {
        v8f narrow;

        sure = round_float(c, high, low, exact, terms, scale, &high);
        narrow = TO(v8f, high);
        STORE(out, narrow);
    } else if (stores_narrow(c)) {
        v8l code;

        sure = round_narrow(c, high, low, scale, &code);
        put_codes(c, out, code);
    } else {
        v8d sum = high + low;
        v8l sign = (v8l)sum & all_l(INT64_MIN), zero = (v8l)(sum == 0);
        v8l first, second, even, odd;
        struct top t;

        if (stores_sided(c)) {
            zero = all_l(0);
            sure = round_sided(c, high, low, exact, scale, &high, &second);
            first = (v8l)high;
        } else if (find_top_bits(column, sum, &t), CFG(c).c.kind == LIMBER_KIND_DD) {
            sure = round_dd(&t, sign, scale, &high, &low);
            first = (v8l)high;
            second = (v8l)low;
        } else {
            v8u x, y;

            sure = round_quad(&t, sign, scale, &x, &y);
            first = (v8l)y;
            second = (v8l)x;
        }
        first &= ~zero;
        second &= ~zero;
        sure |= zero;
        even = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
        odd = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
        STORE(out, even);
        STORE(out + 64, odd);
    }
    sure &= ~bad;
    if (!ANY(~sure))
        return 0;
    STORE(known, sure);
    ROLL for (int x = 0; x < 8; x++)
        left |= (known[x] == 0) << x;
    return left;
}

/* Loads the first `cols` of sixteen elements of C from (i, j) on. */
FLAT void load_row(const struct kernel_call *c, int64_t i, int64_t j, int64_t cols, char *to)
{
    int size = CFG(c).c.size;

    if (cols == KERNEL_LANES && is_dense(c, j, cols)) {
        __builtin_memcpy(to, place(c, i, j), (unsigned)(KERNEL_LANES * size));
        return;
    }
    ROLL for (int64_t x = 0; x < cols; x++)
        __builtin_memcpy(to + x * size, place(c, i, j + x), (unsigned)size);
}

/* Stores sixteen sums as elements of C.  Returns the bit mask of elements whose rounding is
 * uncertain; these keep their old values if beta needs them. */
FLAT int store_sums(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                    int64_t cols, const v8d high[2], const v8d low[2],
                    const v8l whole[2], v8d column[2][KERNEL_COLUMNS], const v8l scale[2])
{
    char out[KERNEL_LANES * 16] __attribute__((aligned(64)));
    char old[KERNEL_LANES * 8] __attribute__((aligned(64))) = { 0 };
    int keeps = !CFG(c).plain && CFG(c).has_beta, size = CFG(c).c.size, left = 0;

    if (keeps)
        load_row(c, b->i0 + i, b->j0 + j0, cols, old);
    HALVES for (int h = 0; h < 2; h++)
        left |= round_eight(c, high[h], low[h], whole[h], column[h], scale[h],
                            old + 8 * h * (keeps ? size : 0), out + 8 * h * size)
                << 8 * h;
    if (left && keeps)
        ROLL for (int x = 0; x < KERNEL_LANES; x++)
            if (left >> x & 1)
                __builtin_memcpy(out + x * size, old + x * size, (unsigned)size);
    store_row(c, b->i0 + i, b->j0 + j0, cols, out);
    return left;
}

/* Rounds and stores up to sixteen elements.  Returns the bit mask of those whose rounding is
 * uncertain. */
FLAT int round_strip(const struct kernel_call *c, const struct block *b, const char *total,
                     int64_t i, int64_t j0, int64_t cols)
{
    v8d column[2][KERNEL_COLUMNS], high[2], low[2];
    v8l scale[2], whole[2] = { all_l(0), all_l(0) };

    scales_at(c, b, i, j0, scale);
    if (RECONSTRUCT == RECONSTRUCT_crt) {
        columns_of(c, total, i, j0, column[0], column[1]);
        HALVES for (int h = 0; h < 2; h++) {
            sum_columns(column[h], &high[h], &low[h]);
            if (stores_sided(c))
                whole[h] = columns_are_exact(column[h]);
        }
    } else {
        HALVES for (int h = 0; h < 2; h++) {
            sum_weighted(c, total, i, j0 + 8 * h, &high[h], &low[h]);
            if (stores_sided(c))
                whole[h] = weighted_are_exact(c, total, i, j0 + 8 * h);
        }
    }
    return store_sums(c, b, i, j0, cols, high, low, whole, column, scale);
}

/* True if vector code can round several results at a time: with alpha and beta, if double-double
 * sums can add beta's term; without them, results in binary64 (sided or not), binary32 and floats
 * of 8 and 16 bits, and double-double and binary128 results from residues without an error
 * bound. */
FLAT int rounds_at_once(const struct kernel_call *c)
{
    int pair = CFG(c).c.kind == LIMBER_KIND_DD || limber_num_is_f128(CFG(c).c);

    return adds_pairs(c) || stores_sided(c) ||
           (CFG(c).plain &&
           ((pair && RECONSTRUCT == RECONSTRUCT_crt && !CFG(c).uncertain_count) ||
            stores_binary(c) || stores_narrow(c)));
}

/* Reconstructs and stores one element by the general code.  Returns 1 if it does not fit C's
 * integer format, else 0. */
FLAT int64_t reconstruct_element(const struct kernel_call *c, const struct block *b,
                                 const char *scratch, int64_t i, int64_t j)
{
    return c->cold->total(c, b->i0 + i, b->j0 + j, totals(c, scratch) + total_at(c, i, 0, j),
                          total_step(c));
}

/* Converts eight integers to 64 bits, without their scales, through a double-double number.  This
 * is exact, since scaled integers of 53 bits and more are multiples of the scales.  Returns 0 if an
 * integer may not fit, or has a fraction. */
FLAT int whole_eight(v8d column[KERNEL_COLUMNS], v8l scale, v8l *v)
{
    v8d high, low, sum, factor = powers_of_two(scale);
    v8l x, rest;

    sum_columns(column, &high, &low);
    sum = high + low;
    low = (low - (sum - high)) * factor;
    sum *= factor;
    x = TO(v8l, sum);
    rest = TO(v8l, low);
    *v = x + rest;
    return !ANY((sum >= 0x1p62) | (sum <= -0x1p62) | (TO(v8d, x) != sum) | (TO(v8d, rest) != low));
}

/* Reconstructs sixteen elements as 64-bit integers.  Returns 0 if one may not fit, or has a
 * fraction. */
FLAT int integers_of(const struct kernel_call *c, const struct block *b, const char *total,
                     int64_t i, int64_t j0, v8l v[2])
{
    v8d first[KERNEL_COLUMNS], second[KERNEL_COLUMNS];
    v8l scale[2];

    scales_at(c, b, i, j0, scale);
    if (ANY((scale[0] < -900) | (scale[0] > 900) | (scale[1] < -900) | (scale[1] > 900)))
        return 0;
    columns_of(c, total, i, j0, first, second);
    return whole_eight(first, scale[0], &v[0]) & whole_eight(second, scale[1], &v[1]);
}

/* Stores up to sixteen elements of row i: as vectors if their format allows it, and those whose
 * rounding is uncertain one by one.  Returns the number of elements that do not fit an integer
 * format. */
FLAT int64_t wide_strip(const struct kernel_call *c, const struct block *b, const char *scratch,
                        int64_t i, int64_t j0, int64_t cols)
{
    int left = (1 << KERNEL_LANES) - 1;
    int64_t lost = 0;
    v8l v[2];

    if (RECONSTRUCT == RECONSTRUCT_crt && CFG(c).whole &&
        integers_of(c, b, totals(c, scratch), i, j0, v))
        return store_integers(c, b, i, j0, cols, v);
    if (rounds_at_once(c))
        left = round_strip(c, b, totals(c, scratch), i, j0, cols);
    if (left)
        ROLL for (int64_t j = 0; j < cols; j++)
            if (left >> j & 1)
                lost += reconstruct_element(c, b, scratch, i, j0 + j);
    return lost;
}

/* Stores totals of 62 bits, after applying alpha and beta.  Returns the number of integers that do
 * not fit C's format. */
FLAT int64_t store_scaled_integers(const struct kernel_call *c, const struct block *b,
                                   const char *scratch, int64_t i, int64_t j0, int64_t cols)
{
    v8d high[2], low[2], none[2][KERNEL_COLUMNS];
    int64_t lost = 0, x[KERNEL_LANES];
    v8l v[2], scale[2], whole[2] = { all_l(-1), all_l(-1) };
    int left;

    small_totals(c, b, scratch, i, j0, v);
    scales_at(c, b, i, j0, scale);
    UNROLL for (int h = 0; h < 2; h++) {
        high[h] = TO(v8d, v[h] >> 31) * 0x1p31;
        low[h] = all_d(0);
        add_term(TO(v8d, v[h] & 0x7fffffff), &high[h], &low[h]);
    }
    UNROLL for (int d = 0; d < KERNEL_COLUMNS; d++)
        none[0][d] = none[1][d] = all_d(0);
    left = store_sums(c, b, i, j0, cols, high, low, whole, none, scale);
    if (!left)
        return 0;
    STORE(x, v[0]);
    STORE(x + 8, v[1]);
    ROLL for (int64_t j = 0; j < cols; j++)
        if (left >> j & 1)
            lost += store_small_element(c, b, i, j0, j, x);
    return lost;
}

/* Stores up to sixteen elements of row i.  Returns the number of integers that do not fit C's
 * format. */
FLAT int64_t exact_strip(const struct kernel_call *c, const struct block *b, const char *scratch,
                         int64_t i, int64_t j0, int64_t cols)
{
    return CFG(c).small && (adds_pairs(c) || stores_sided(c)) ?
               store_scaled_integers(c, b, scratch, i, j0, cols) :
           CFG(c).small ? small_strip(c, b, scratch, i, j0, cols) :
           wide_strip(c, b, scratch, i, j0, cols);
}

/* ---- totals that are floats ------------------------------------------------------------------ */

/* Loads the totals of one accumulator, for eight elements from (i, j) on. */
FLAT v8d float_totals(const struct kernel_call *c, const char *scratch, int acc, int64_t i,
                      int64_t j)
{
    const char *at = scratch + total_at(c, i, acc, j);

    return FIXED(unit) == UNIT_f64 ? LOAD(v8d, at) : TO(v8d, LOAD(v8f, at));
}

/* Stores eight contiguous elements, with the same bits as limber_store_float, the general code.
 * Returns 0 if a term may have overflowed FP64. */
FLAT int store_eight(const struct kernel_call *c, char *to, v8d x)
{
    if (CFG(c).has_alpha)
        x *= c->alpha_f64;
    if (CFG(c).has_beta)
        x = FMA(all_d(c->beta_f64), CFG(c).c.size == 8 ? LOAD(v8d, to) : TO(v8d, LOAD(v8f, to)), x);
    if (CFG(c).has_alpha && CFG(c).has_beta && ANY(x - x != 0))
        return 0;
    if (CFG(c).c.size == 8) {
        STORE(to, x);
    } else {
        v8f narrow = TO(v8f, x);

        STORE(to, narrow);
    }
    return 1;
}

/* Stores eight contiguous elements of 8 or 16 bits, after multiplying by alpha.  Returns 0 if there
 * is a beta. */
FLAT int store_eight_narrow(const struct kernel_call *c, char *to, v8d x)
{
    if (CFG(c).has_beta)
        return 0;
    put_codes(c, to, narrow_codes(c, CFG(c).has_alpha ? x * c->alpha_f64 : x));
    return 1;
}

/* Returns the weighted sums of all accumulators, from the last to the first, for eight elements. */
FLAT v8d float_sum(const struct kernel_call *c, const char *scratch, int64_t i, int64_t j)
{
    int last = CFG(c).accumulators - 1;
    v8d x = float_totals(c, scratch, last, i, j);

    if (CFG(c).weight[last])
        x *= power_of_two(CFG(c).weight[last]);
    ROLL for (int acc = last - 1; acc >= 0; acc--)
        x += float_totals(c, scratch, acc, i, j) * power_of_two(CFG(c).weight[acc]);
    return x;
}

/* Rounds and stores eight contiguous FP32 elements from sums x with errors below `off`.  Returns
 * the bit mask of elements whose rounding is uncertain, which stay unchanged.  All terms must be
 * zero or normal FP64 numbers. */
FLAT int store_near(const struct kernel_call *c, char *to, v8d x, v8d off)
{
    v8f old = LOAD(v8f, to), up, down;
    v8d size, term = all_d(0);
    v8l field, sure;
    v8i keep;
    int left = 0;

    if (CFG(c).has_alpha) {
        x *= c->alpha_f64;
        off *= __builtin_fabs(c->alpha_f64);
        term = (v8d)((v8l)x & INT64_MAX);
    }
    if (CFG(c).has_beta)
        x = FMA(all_d(c->beta_f64), TO(v8d, old), x);
    size = (v8d)((v8l)x & INT64_MAX);
    field = (v8l)x >> 52 & 0x7ff;
    sure = (v8l)(off == 0) & (v8l)(size == 0) & (CFG(c).plain ? -1 : 0);
    off += (size + term) * 0x1p-50;
    up = TO(v8f, x + off);
    down = TO(v8f, x - off);
    sure |= (v8l)(TO(v8d, up) == TO(v8d, down)) & (field > 1023 - 126) & (field < 1023 + 127);
    keep = TO(v8i, ~sure);
    up = (v8f)(((v8i)TO(v8f, x) & ~keep) | ((v8i)old & keep));
    STORE(to, up);
    if (ANY(keep))
        ROLL for (int l = 0; l < 8; l++)
            left |= (keep[l] & 1) << l;
    return left;
}

/* Rounds and stores eight contiguous elements of 8 or 16 bits from sums x with errors below `off`,
 * without alpha and beta.  Returns 0, and stores nothing, if the rounding of an element is
 * uncertain. */
FLAT int store_near_narrow(const struct kernel_call *c, char *to, v8d x, v8d off)
{
    v8d size = (v8d)((v8l)x & INT64_MAX);
    v8l field = (v8l)x >> 52 & 0x7ff, up, down, sure;

    off += size * 0x1p-50;
    up = narrow_codes(c, x + off);
    down = narrow_codes(c, x - off);
    sure = (up == down) & (field > 53) & (field < 0x7ff);
    if (ANY(~sure))
        return 0;
    put_codes(c, to, up);
    return 1;
}

/* Returns the Euclidean norms of a block's columns of B. */
FLAT const double *norms_of_b(const struct kernel_call *c, const struct block *b)
{
    return c->op[1].planes ? b->norms : c->op[1].norm + b->j0;
}

/* Returns upper bounds of the errors of the sums of row i and eight columns from j on. */
FLAT v8d sum_error(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j)
{
    double line = c->op[0].norm[b->i0 + i] * power_of_two(CFG(c).uncertain);

    return LOAD(v8d, norms_of_b(c, b) + j) * line;
}

/* Iterator over a packed column of B: elements at[tap[t]] for all taps t of one channel, then those
 * of the next channel, which are `step` elements further.  A panel has one tap. */
struct column {
    const double *at;
    const int64_t *tap;
    int64_t taps, t, step;
};

/* Returns an iterator at the first element of column j of B. */
FLAT struct column column_of(const struct packed *o, int64_t j)
{
    static const int64_t none[1] = { 0 };
    const struct planes *x = o->planes;
    const struct patch *w = o->view.patch;
    int64_t line = o->line0 + j, row;

    if (!x)
        return (struct column){ (const double *)(o->data + j / FIXED(nr) * o->panel_bytes) +
                                    j % FIXED(nr), none, 1, 0, FIXED(nr) };
    row = line / w->ow;
    row = row / w->oh * x->high + row % w->oh - x->first;
    return (struct column){ (const double *)o->data + row * x->columns + line % w->ow, x->tap,
                            x->taps, 0, x->length };
}

/* Returns the current element, and advances to the next one. */
FLAT double next_element(struct column *x)
{
    double v = x->at[x->tap[x->t]];

    if (++x->t == x->taps) {
        x->t = 0;
        x->at += x->step;
    }
    return v;
}

/* Computes element (i, j) again from packed elements, whose products are exact doubles, by the
 * algorithm Dot2 of Ogita, Rump and Oishi (2005).  If the rounding is still uncertain, sums the
 * unpacked operands exactly. */
SLOW void sum_again(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j)
{
    const struct packed *oa = &c->op[0];
    int64_t at_a = b->i0 + i, at_b = b->j0 + j, p = 0;
    const double *x = (const double *)(oa->data + at_a / FIXED(mr) * oa->panel_bytes) +
                      at_a % FIXED(mr);
    struct column y = column_of(&c->op[1], at_b);
    v8d high = all_d(0), low = all_d(0), one[2];
    double k = (double)c->k, sum = 0, rest = 0;
    int64_t start = c->cold->nanoseconds();
    int known;

    __atomic_fetch_add(c->recomputed, 1, __ATOMIC_RELAXED);
    if (c->adds) { /* panels hold only the last part of k, so the unpacked operands are summed */
        c->cold->exact(c, at_a, at_b);
        return;
    }
    for (; p + 8 <= c->k; p += 8, x += 8 * FIXED(mr)) {
        UNROLL for (int l = 0; l < 8; l++) {
            one[0][l] = x[l * FIXED(mr)];
            one[1][l] = next_element(&y);
        }
        add_term(one[0] * one[1], &high, &low);
    }
    one[0] = all_d(0);
    ROLL for (int l = 0; p < c->k; p++, l++, x += FIXED(mr))
        one[0][l] = *x * next_element(&y);
    add_term(one[0], &high, &low);
    ROLL for (int l = 0; l < 8; l++) {
        double next = sum + high[l], part = next - sum;

        rest += (sum - (next - part)) + (high[l] - part) + low[l];
        sum = next;
    }
    known = c->cold->near(c, at_a, at_b, sum, rest,
                          oa->norm[at_a] * norms_of_b(c, b)[j] * ((k + 8) * (k + 8) * 0x1p-104));
    __atomic_fetch_add(c->recomputed_ns, c->cold->nanoseconds() - start, __ATOMIC_RELAXED);
    if (!known)
        c->cold->exact(c, at_a, at_b);  /* `exact` itself adds its time to recomputed_ns */
}

/* Stores those of up to sixteen FP64 sums whose error bounds make the rounding certain, and
 * computes all other elements again. */
SLOW void store_certain_strip(const struct kernel_call *c, const struct block *b,
                              const char *scratch, int64_t i, int64_t j0, int64_t cols)
{
    int dense = is_dense(c, b->j0 + j0, cols);

    ROLL for (int64_t j = 0; j < cols; j += 8) {
        v8d x = float_sum(c, scratch, i, j0 + j), off = sum_error(c, b, i, j0 + j);
        int left = 255;
        double v[8], e[8];

        if (stores_binary(c) && dense && j + 8 <= cols)
            left = store_near(c, place(c, b->i0 + i, b->j0 + j0 + j), x, off);
        else if (stores_narrow(c) && CFG(c).plain && dense && j + 8 <= cols)
            left = store_near_narrow(c, place(c, b->i0 + i, b->j0 + j0 + j), x, off) ? 0 : 255;
        if (!left)
            continue;
        STORE(v, x);
        STORE(e, off);
        ROLL for (int64_t l = 0; l < min64(8, cols - j); l++)
            if ((left >> l & 1) &&
                !c->cold->near(c, b->i0 + i, b->j0 + j0 + j + l, v[l], 0, e[l]))
                sum_again(c, b, i, j0 + j + l);
    }
}

/* True if the simulated unit rounds results before they are rounded to C's format. */
FLAT int rounds_twice(const struct kernel_call *c)
{
    return (LIMB_KIND == LIMB_KIND_unit || LIMB_KIND == LIMB_KIND_half) &&
           CFG(c).model.epilogue.format.kind;
}

/* True if vector code can round results to nearest FP32, as the unit does, and then to C's
 * format. */
FLAT int stores_twice(const struct kernel_call *c)
{
    const limber_step s = CFG(c).model.epilogue;

    return LIMB_KIND == LIMB_KIND_unit && limber_num_is_f32(s.format) && !s.format.flags &&
           s.rounding == LIMBER_ROUND_NEAREST && !CFG(c).has_beta &&
           (stores_binary(c) || stores_narrow(c));
}

/* Stores eight contiguous elements, rounded to FP32 first, with the same bits as the general code,
 * store_sum of cold.c. */
FLAT void store_eight_twice(const struct kernel_call *c, char *to, v8d x)
{
    const v8f once = TO(v8f, (CFG(c).has_alpha ? x * c->alpha_f64 : x) + 0.0);

    x = TO(v8d, once);
    if (stores_narrow(c))
        put_codes(c, to, narrow_codes(c, x));
    else if (CFG(c).c.size == 8)
        STORE(to, x);
    else
        STORE(to, once);
}

/* Stores eight contiguous sums of floats as elements of C.  Returns 0, and stores nothing, if only
 * the general code can. */
FLAT int store_eight_sums(const struct kernel_call *c, char *to, v8d x)
{
    if (rounds_twice(c)) {
        if (stores_twice(c))
            store_eight_twice(c, to, x);
        return stores_twice(c);
    }
    return (stores_binary(c) && store_eight(c, to, x)) ||
           (stores_narrow(c) && store_eight_narrow(c, to, x));
}

/* Multiplies eight sums by 2^e, with the same result as ldexp.  Returns 0, and changes nothing, if
 * a power is out of the range of normal numbers. */
FLAT int remove_scales(v8l e, v8d *x)
{
    if (ANY((e < -900) | (e > 900)))
        return 0;
    *x *= powers_of_two(e);
    return 1;
}

/* Stores up to sixteen sums of floats that need no error bound. */
FLAT void float_strip(const struct kernel_call *c, const struct block *b, const char *scratch,
                      int64_t i, int64_t j0, int64_t cols)
{
    int dense = is_dense(c, b->j0 + j0, cols);
    int scaled = c->op[0].scale || c->op[1].scale;
    v8l e[2] = { all_l(0), all_l(0) };

    if (scaled)
        scales_at(c, b, i, j0, e);
    ROLL for (int64_t j = 0; j < cols; j += 8) {
        v8d sum = float_sum(c, scratch, i, j0 + j), x = sum;
        double v[8];

        if (dense && j + 8 <= cols && (!scaled || remove_scales(e[j / 8], &x)) &&
            store_eight_sums(c, place(c, b->i0 + i, b->j0 + j0 + j), x))
            continue;
        STORE(v, sum);
        ROLL for (int64_t l = 0; l < min64(8, cols - j); l++)
            c->cold->sum(c, b->i0 + i, b->j0 + j0 + j + l, v[l]);
    }
}

/* Stores up to sixteen elements of row i, none of which depends on NaN or infinities.  Returns the
 * number of elements that do not fit an integer format. */
FLAT int64_t ordinary_strip(const struct kernel_call *c, const struct block *b,
                            const char *scratch, int64_t i, int64_t j0, int64_t cols)
{
    if (!is_float())
        return exact_strip(c, b, scratch, i, j0, cols);
    if (LIMB_KIND == LIMB_KIND_whole && CFG(c).norms)
        store_certain_strip(c, b, scratch, i, j0, cols);
    else
        float_strip(c, b, scratch, i, j0, cols);
    return 0;
}

/* Stores a strip of one row in which some elements depend on NaN or infinities (special).  First
 * stores all elements as ordinary ones.  Then restores the old values of the special elements,
 * since beta may need them, and stores these elements as NaN and infinities determine.  Returns the
 * number of elements that do not fit an integer format. */
SLOW int64_t special_strip(const struct kernel_call *c, const struct block *b,
                           const char *scratch, int64_t i, int64_t j0, int64_t cols)
{
    enum { MOST = 32 }; /* bytes of an element */
    char old[KERNEL_LANES * MOST];
    int64_t lost = 0, some = 0;

    ROLL for (int64_t j = 0; j < cols; j++)
        some += is_special(c, b->i0 + i, b->j0 + j0 + j);
    ROLL for (int64_t j = 0; j < cols && some == cols; j++)
        lost += c->cold->special(c, b->i0 + i, b->j0 + j0 + j);
    if (some == cols)
        return lost;
    ROLL for (int64_t j = 0; j < cols; j++)
        __builtin_memcpy(old + j * MOST, place(c, b->i0 + i, b->j0 + j0 + j),
                         (unsigned)CFG(c).c.size);
    lost = ordinary_strip(c, b, scratch, i, j0, cols);
    ROLL for (int64_t j = 0; j < cols; j++) {
        if (!is_special(c, b->i0 + i, b->j0 + j0 + j))
            continue;
        __builtin_memcpy(place(c, b->i0 + i, b->j0 + j0 + j), old + j * MOST,
                         (unsigned)CFG(c).c.size);
        lost += c->cold->special(c, b->i0 + i, b->j0 + j0 + j);
    }
    return lost;
}

/* True if NaN or infinities may determine an element of the strip. */
FLAT int any_special(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                     int64_t cols)
{
    if (!c->op[0].special && !c->op[1].special)
        return 0;
    ROLL for (int64_t j = 0; j < cols; j++)
        if (is_special(c, b->i0 + i, b->j0 + j0 + j))
            return 1;
    return 0;
}

/* Stores all elements of a block.  Returns the number of elements that do not fit an integer
 * format. */
FLAT int64_t reconstruct(const struct kernel_call *c, const struct block *b, const char *scratch)
{
    int64_t lost = 0;

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j0 = 0; j0 < b->cols; j0 += KERNEL_LANES) {
            int64_t cols = min64(KERNEL_LANES, b->cols - j0);

            if ((LIMB_KIND != LIMB_KIND_whole || CFG(c).norms) && !IS_UNIT &&
                any_special(c, b, i, j0, cols))
                lost += special_strip(c, b, scratch, i, j0, cols);
            else
                lost += ordinary_strip(c, b, scratch, i, j0, cols);
        }
    return lost;
}

#endif
