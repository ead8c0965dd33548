/* SPDX-License-Identifier: BSD-3-Clause
 * Arithmetic of limbs and of exact sums.  Written once for the library's C compiler and, as
 * bitcode, for the LLVM backend; so it does not use libc.
 *
 *   wide     an integer of 192 bits in two's complement: a scaled element, |X| < 2^165
 *   columns  sums of 32-bit digits in signed 64-bit words: of CRT and of weighted accumulators
 *   big      a fixed-point number of any length in two's complement: exact sums */
#ifndef LIMBER_PRIM_H
#define LIMBER_PRIM_H

#include "ir/num/prim_num.h"

#ifndef PRIM_BODY
#define PRIM_BODY static __attribute__((unused))
#endif

/* device kernels define fewer words, since they have less memory and fewer formats */
#ifndef LIMBER_BIG_WORDS
#define LIMBER_BIG_WORDS 1640
#endif

/* words of a wide integer; largest number of words of a big number */
enum { LIMBER_WIDE = 3, LIMBER_BIG = LIMBER_BIG_WORDS };

/* LIMBER_F64, as a function, since device code cannot read the constant. */
PRIM limber_format limber_binary64(void)
{
    limber_format f = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };

    return f;
}

/* ---- elements as scaled integers ------------------------------------------------------------- */

/* Sets w to x 2^shift as a wide integer; |x| 2^shift < 2^190.  It is truncated or, if `nearest`,
 * rounded to nearest, ties away from zero.  NaN and infinities become 0. */
PRIM void limber_fix_num(uint64_t w[LIMBER_WIDE], const struct limber_num *x, int shift,
                         int nearest)
{
    int round = nearest && x->exp + shift < 0, s = x->exp + shift + round;
    uint64_t m[LIMBER_WIDE] = { x->lo, x->hi, 0 };

    w[0] = w[1] = w[2] = 0;
    if (x->kind != NUM_finite || s <= -128 || s >= 192)
        return;
    for (; s <= -64; s += 64) {
        m[0] = m[1];
        m[1] = m[2];
        m[2] = 0;
    }
    for (; s >= 64; s -= 64) {
        m[2] = m[1];
        m[1] = m[0];
        m[0] = 0;
    }
    if (s < 0) {
        m[0] = m[0] >> -s | m[1] << (64 + s);
        m[1] = m[1] >> -s | m[2] << (64 + s);
        m[2] >>= -s;
    } else if (s > 0) {
        m[2] = m[2] << s | m[1] >> (64 - s);
        m[1] = m[1] << s | m[0] >> (64 - s);
        m[0] <<= s;
    }
    if (round) { /* m has one bit below 1, and m + 1 fits 129 bits */
        m[0]++;
        m[1] += m[0] == 0;
        m[2] = m[0] == 0 && m[1] == 0;
        m[0] = m[0] >> 1 | m[1] << 63;
        m[1] = m[1] >> 1 | m[2] << 63;
        m[2] = 0;
    }
    if (x->sign) {
        m[0] = ~m[0] + 1;
        m[1] = ~m[1] + (m[0] == 0);
        m[2] = ~m[2] + (m[0] == 0 && m[1] == 0);
    }
    w[0] = m[0];
    w[1] = m[1];
    w[2] = m[2];
}

/* Sets w to x 2^shift, rounded as in limber_fix_num, for the element x at p.  The two doubles of a
 * dd are rounded one by one. */
PRIM void limber_fix(uint64_t w[LIMBER_WIDE], limber_format f, const void *p, int shift,
                     int nearest)
{
    struct limber_num x;

    if (f.kind == LIMBER_KIND_DD) {
        uint64_t high[LIMBER_WIDE];
        unsigned carry;

        limber_num_decode(&x, limber_binary64(), p);
        limber_fix_num(high, &x, shift, nearest);
        limber_num_decode(&x, limber_binary64(), (const char *)p + 8);
        limber_fix_num(w, &x, shift, nearest);
        w[0] += high[0];
        carry = w[0] < high[0];
        w[1] += carry;
        carry = w[1] < carry;
        w[1] += high[1];
        carry += w[1] < high[1];
        w[2] += high[2] + carry;
        return;
    }
    limber_num_decode(&x, f, p);
    limber_fix_num(w, &x, shift, nearest);
}

/* Returns x 2^shift as an integer, truncated or, if `nearest`, rounded to nearest, ties away from
 * zero; its magnitude must be below 2^63.  NaN and infinities become 0. */
PRIM int64_t limber_fix64_num(const struct limber_num *x, int shift, int nearest)
{
    int round = nearest && x->exp + shift < 0, s = x->exp + shift + round;
    uint64_t m;

    if (x->kind != NUM_finite || s <= -128 || s >= 64)
        return 0;
    if (s >= 0)
        m = x->lo << s;
    else if (s > -64)
        m = x->lo >> -s | x->hi << (64 + s);
    else
        m = x->hi >> (-s - 64);
    m = round ? (m >> 1) + (m & 1) : m;
    return x->sign ? -(int64_t)m : (int64_t)m;
}

/* Returns bits [from, from + count) of a wide integer, count <= 32.  Bits above its top are copies
 * of the sign. */
PRIM uint32_t limber_wide_bits(const uint64_t w[LIMBER_WIDE], int from, int count)
{
    uint64_t sign = (uint64_t)((int64_t)w[LIMBER_WIDE - 1] >> 63);
    int q = from >> 6, r = from & 63;
    uint64_t low = q < LIMBER_WIDE ? w[q] : sign, high = q + 1 < LIMBER_WIDE ? w[q + 1] : sign;
    uint64_t v = r ? low >> r | high << (64 - r) : low;

    return (uint32_t)(v & (((uint64_t)1 << count) - 1));
}

/* Returns slice number `slice` of `slices`, each of `step` bits.  Slice 0 has the top bits, and is
 * signed if the operand is. */
PRIM int32_t limber_slice(const uint64_t w[LIMBER_WIDE], int slice, int slices, int step,
                          int is_signed)
{
    int32_t v = (int32_t)limber_wide_bits(w, step * (slices - 1 - slice), step);

    if (slice == 0 && is_signed && (v >> (step - 1) & 1))
        v -= (int32_t)1 << step;
    return v;
}

/* Adds 2^(step-1) to each of the `slices` digits but the top one.  Then the bits of a lower digit,
 * minus 2^(step-1), are its balanced digit. */
PRIM void limber_balance(uint64_t w[LIMBER_WIDE], int slices, int step)
{
    for (int at = step - 1; at < (slices - 1) * step; at += step) {
        uint64_t bit = (uint64_t)1 << (at & 63);

        for (int q = at >> 6; q < LIMBER_WIDE && bit; q++) {
            w[q] += bit;
            bit = w[q] < bit;
        }
    }
}

/* Returns a slice of a number that limber_balance has prepared, as a signed digit: in
 * [-2^(step-1), 2^(step-1)) or, for slice 0, in [-2^(step-1), 2^(step-1)] if the number is at most
 * 2^(slices step - 1). */
PRIM int32_t limber_balanced_slice(const uint64_t w[LIMBER_WIDE], int slice, int slices, int step)
{
    int from = step * (slices - 1 - slice);

    if (slice > 0)
        return (int32_t)limber_wide_bits(w, from, step) - ((int32_t)1 << (step - 1));
    return (int32_t)(limber_wide_bits(w, from, step + 1) << (31 - step)) >> (31 - step);
}

/* ---- residues -------------------------------------------------------------------------------- */

/* Returns the residue of t modulo p in [-half, p - half), for t + half < 2^24 and 2 <= p <= 256.
 * inverse: 2^32/p rounded up, too large by less than 1, so the product is too large by less than
 * 2^24.  The fraction of a quotient is at most 1 - 1/p, and 2^32/p >= 2^24, so the quotient's
 * integer part is right. */
PRIM int32_t limber_mod24(uint32_t t, uint32_t half, uint32_t p, uint32_t inverse)
{
    uint32_t q = (uint32_t)((uint64_t)(t + half) * inverse >> 32);

    return (int32_t)(t - q * p);
}

/* Returns t mod p in [0, p) for any t and 2 < p <= 256. quotient: 2^32/p rounded to nearest, with
 * which the computed quotient of t is off by at most 1. */
PRIM uint32_t limber_mod32(int32_t t, uint32_t p, int32_t quotient)
{
    uint32_t r = (uint32_t)t - (uint32_t)(int32_t)((int64_t)t * quotient >> 32) * p;
    uint32_t up = r + p, down = r - p;

    r = up < r ? up : r;
    return down < r ? down : r;
}

/* Returns (2^32 - 1) / d, rounded down, with which limber_divide_by divides by d > 0. 0 for d = 0,
 * by which no caller divides. */
PRIM uint32_t limber_inverse(int32_t d)
{
    return d > 0 ? 0xffffffffu / (uint32_t)d : 0;
}

/* Returns n / d for n >= 0 and d > 0, rounded down.  The inverse is too small by less than 1, so
 * the quotient is too small by at most 1, which the remainder shows.  This is faster than a
 * division by a variable, which takes some twenty instructions on a GPU. */
PRIM int32_t limber_divide_by(int32_t n, int32_t d, uint32_t inverse)
{
    int32_t q = (int32_t)((uint64_t)(uint32_t)n * inverse >> 32);

    return q + (n - q * d >= d);
}

/* Returns the residue in [-p/2, p/2) of r in [0, p). */
PRIM int32_t limber_symmetric(uint32_t r, uint32_t p)
{
    return r >= (p + 1) / 2 ? (int32_t)r - (int32_t)p : (int32_t)r;
}

/* ---- columns: sums of 32-bit digits, without carries between columns ------------------------- */

/* Adds t 2^weight to the columns of a sum, 64-bit integers that hold 32-bit digits and their
 * carries.  stride: distance of columns in memory.  Columns stay below 2^63 for up to 2^15
 * additions. */
PRIM void limber_columns_add(int64_t *column, int64_t stride, int64_t t, int weight)
{
    for (int i = 0; i < 4; i++) {
        int at = weight + 16 * i;
        int64_t piece = i < 3 ? (t >> 16 * i & 0xffff) : t >> 48;

        column[(at >> 5) * stride] += piece * ((int64_t)1 << (at & 31));
    }
}

/* Propagates carries, and converts a sum's columns (32-bit digits) to `words` 64-bit words in two's
 * complement.  `words` must be enough for the sum. */
PRIM void limber_columns_words(const int64_t *column, int64_t stride, int columns, uint64_t *w,
                               int words)
{
    int64_t carry = 0;

    for (int i = 0; i < words; i++) {
        uint64_t v = 0;

        for (int h = 0; h < 2; h++) {
            int64_t s = carry + (2 * i + h < columns ? column[(2 * i + h) * stride] : 0);

            v |= (uint64_t)(uint32_t)s << 32 * h;
            carry = s >> 32;
        }
        w[i] = v;
    }
}

/* ---- big integers of fixed length ------------------------------------------------------------ */

/* A fixed-point number in two's complement. */
struct limber_big {
    uint64_t *w;
    int n; /* number of words; the highest bit is the sign */
    int base; /* the number's value is the integer times 2^base */
};

/* Sets the number to 0. */
PRIM_BODY void limber_big_zero(struct limber_big *b)
{
    for (int i = 0; i < b->n; i++)
        b->w[i] = 0;
}

/* Adds (-1)^sign m 2^exp to *b, where m has n words.  The caller ensures that exp >= b->base,
 * and that the sum fits. */
PRIM_BODY void limber_big_add(struct limber_big *b, int sign, const uint64_t *m, int n, int exp)
{
    int at = (exp - b->base) >> 6, r = (exp - b->base) & 63, i;
    uint64_t below = 0, carry = sign ? 1 : 0, flip = sign ? ~(uint64_t)0 : 0;

    /* -m is ~m + 1, with ones in all words above it */
    for (i = 0; i <= n && at + i < b->n; i++) {
        uint64_t v = i < n ? m[i] : 0, x = r ? v << r | below : v, s;

        below = r ? v >> (64 - r) : 0;
        x ^= flip;
        s = b->w[at + i] + x;
        x = s < x;
        s += carry;
        carry = x + (s < carry);
        b->w[at + i] = s;
    }
    for (; at + i < b->n && carry != (flip & 1); i++) {
        uint64_t s = b->w[at + i] + flip + carry;

        /* when -m is added, a carry leaves the word unless the word was 0 and no carry came in */
        carry = flip ? s != ~(uint64_t)0 : s == 0;
        b->w[at + i] = s;
    }
}

/* Sets *x to the sign, the top 128 bits of the magnitude and their exponent.  *sticky becomes 1 if
 * lower bits are set.  Replaces the words of b by the magnitude. */
PRIM_BODY void limber_big_num(struct limber_big *b, struct limber_num *x, int *sticky)
{
    uint64_t carry = 1, next = 0, rest = 0;
    int full = 0, z;

    x->sign = b->n > 0 && b->w[b->n - 1] >> 63;
    for (int i = 0; x->sign && i < b->n; i++) {
        b->w[i] = ~b->w[i] + carry;
        carry = carry && b->w[i] == 0;
    }
    x->hi = x->lo = 0;
    x->exp = 0;
    for (int i = b->n - 1; i >= 0; i--) { /* finds the first nonzero word and the word after it */
        uint64_t w = b->w[i];

        if (x->hi == 0) {
            x->hi = x->lo;
            x->lo = w;
            x->exp = b->base + 64 * i;
        } else if (!full) {
            next = w;
            full = 1;
        } else {
            rest |= w;
        }
    }
    x->kind = x->hi | x->lo ? NUM_finite : NUM_zero;
    *sticky = (next | rest) != 0;
    z = *sticky ? __builtin_clzll(x->hi) : 0;
    /* shifts the words to the left, so that leading zeros do not take bits that rounding needs */
    if (z) {
        x->hi = x->hi << z | x->lo >> (64 - z);
        x->lo = x->lo << z | next >> (64 - z);
        x->exp -= z;
        *sticky = next << z != 0 || rest != 0;
    }
    if (x->kind == NUM_zero)
        x->exp = 0;
}

/* Computes the 128-bit product of two words. */
PRIM void limber_mul64(uint64_t a, uint64_t b, uint64_t *hi, uint64_t *lo)
{
    unsigned __int128 p = (unsigned __int128)a * b;

    *hi = (uint64_t)(p >> 64);
    *lo = (uint64_t)p;
}

/* Sets `out`, of n + 2 words, to m, of n words, times (hi, lo). */
PRIM_BODY void limber_mul_words(uint64_t *out, const uint64_t *m, int n, uint64_t hi, uint64_t lo)
{
    for (int i = 0; i < n + 2; i++)
        out[i] = 0;
    for (int j = 0; j < 2; j++) {
        uint64_t f = j ? hi : lo, carry = 0;

        for (int i = 0; i < n; i++) {
            uint64_t h, l, s;

            limber_mul64(m[i], f, &h, &l);
            s = out[i + j] + l;
            h += s < l;
            l = s + carry;
            h += l < s;
            out[i + j] = l;
            carry = h;
        }
        out[n + j] += carry;
    }
}

/* Adds the exact product of two finite numbers to b. */
PRIM_BODY void limber_big_add_product(struct limber_big *b, const struct limber_num *x,
                                      const struct limber_num *y)
{
    uint64_t m[2] = { x->lo, x->hi }, product[4];

    if (x->hi == 0 && y->hi == 0) {
        limber_mul64(x->lo, y->lo, &product[1], &product[0]);
        limber_big_add(b, x->sign ^ y->sign, product, 2, x->exp + y->exp);
        return;
    }
    limber_mul_words(product, m, 2, y->hi, y->lo);
    limber_big_add(b, x->sign ^ y->sign, product, 4, x->exp + y->exp);
}

/* ---- rounding a result to its format --------------------------------------------------------- */

/* Decodes an element as one number or, if it is a dd, as two.  Returns their number. */
PRIM int limber_parts(struct limber_num part[2], limber_format f, const void *p)
{
    if (f.kind == LIMBER_KIND_DD) {
        limber_num_decode(&part[0], limber_binary64(), p);
        limber_num_decode(&part[1], limber_binary64(), (const char *)p + 8);
        return 2;
    }
    limber_num_decode(&part[0], limber_num_base(f), p);
    return 1;
}

/* Rounds x to nearest in f and stores it.  sticky: as in limber_num_encode.  Returns flags of enum
 * limber_num_loss. */
PRIM int limber_num_store(void *p, limber_format f, const struct limber_num *x, int sticky)
{
    if (f.kind == LIMBER_KIND_DD)
        return limber_num_encode_dd(p, x, sticky, LIMBER_ROUND_NEAREST);
    if (f.kind == LIMBER_KIND_SIDED)
        return limber_num_encode_sided(p, f, x, sticky);
    return limber_num_encode(p, f, x, sticky, LIMBER_ROUND_NEAREST);
}

/* Rounds a big number once to f and stores it.  Of a dd, high is rounded first, then the remainder.
 * The words of b are overwritten.  Returns flags of enum limber_num_loss. */
PRIM_BODY int limber_big_store(void *p, limber_format f, struct limber_big *b)
{
    struct limber_num x, high, low = { 0 };
    uint64_t m;
    int sticky, sign, flags;

    limber_big_num(b, &x, &sticky);
    if (f.kind != LIMBER_KIND_DD)
        return limber_num_store(p, f, &x, sticky);
    sign = x.sign;
    flags = limber_num_encode(p, limber_binary64(), &x, sticky, LIMBER_ROUND_NEAREST);
    limber_num_decode(&high, limber_binary64(), p);
    low.sign = x.sign;
    if (x.kind == NUM_finite && high.kind == NUM_finite) {
        /* the lowest set bit of high is not below bit 0 of the sum */
        int zeros = __builtin_ctzll(high.lo);

        m = high.lo >> zeros;
        limber_big_add(b, 1, &m, 1, high.exp + zeros);
        limber_big_num(b, &low, &sticky);
        low.sign ^= (uint8_t)sign;
    } else if (x.kind == NUM_finite && high.kind == NUM_zero) {
        low.kind = NUM_zero;
    }
    limber_num_encode((char *)p + 8, limber_binary64(), &low, sticky, LIMBER_ROUND_NEAREST);
    return flags;
}

/* Returns a double that stands for x's class: 0, 1 (finite), infinity or NaN, with x's sign. */
PRIM double limber_num_class(const struct limber_num *x)
{
    double v = x->kind == NUM_zero   ? 0 :
               x->kind == NUM_finite ? 1 :
               x->kind == NUM_inf    ? __builtin_inf() :
                                       __builtin_nan("");

    return x->sign ? -v : v;
}

/* Sets *x to a number of the class that v stands for; if v is finite, to 0 with v's sign. */
PRIM void limber_num_of_class(struct limber_num *x, double v)
{
    x->hi = x->lo = 0;
    x->exp = 0;
    x->sign = __builtin_signbit(v) != 0;
    x->kind = v != v ? NUM_nan : v - v != 0 ? NUM_inf : NUM_zero;
}

/* alpha and beta of the epilogue, in format f.  A NULL pointer stands for alpha = 1 and beta =
 * 0. */
struct limber_scalars {
    const void *alpha, *beta;
    limber_format f;
};

PRIM int limber_min_int(int a, int b)
{
    return a < b ? a : b;
}
PRIM int limber_max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Stores alpha x + beta dst to dst, if x, alpha, beta or dst makes it infinite or NaN.  x: a double
 * that stands for the class of a sum (limber_num_class). */
PRIM_BODY int limber_store_class(void *dst, limber_format f, double x,
                                 const struct limber_scalars *s)
{
    struct limber_num part[2], r;

    if (s->alpha) {
        limber_parts(part, s->f, s->alpha);
        x *= limber_num_class(&part[0]);
    }
    if (s->beta) {
        double b;

        limber_parts(part, s->f, s->beta);
        b = limber_num_class(&part[0]);
        limber_parts(part, f, dst);
        x += b * limber_num_class(&part[0]);
    }
    limber_num_of_class(&r, x);
    return limber_num_store(dst, f, &r, 0);
}

/* Stores round(alpha s 2^exp + beta dst) to dst, with one rounding.  s: n words in two's
 * complement, n < LIMBER_BIG - 2, which are overwritten.  Returns flags of enum
 * limber_num_loss. */
PRIM_BODY int limber_store_exact(void *dst, limber_format f, uint64_t *s, int n, int exp,
                                 const struct limber_scalars *sc)
{
    uint64_t scratch[LIMBER_BIG], product[LIMBER_BIG];
    struct limber_big sum = { s, n, exp };
    struct limber_num x, b[2], c[2], a[2] = { { 0, 1, 0, 0, NUM_finite } };
    int sticky, na = 0, nb = 0, nc = 0, low, high, words;
    double special;

    if (!sc->alpha && !sc->beta)
        return limber_big_store(dst, f, &sum);
    limber_big_num(&sum, &x, &sticky); /* s is now the magnitude */
    special = limber_num_class(&x);
    if (sc->alpha) {
        na = limber_parts(a, sc->f, sc->alpha);
        special *= limber_num_class(&a[0]);
    } else {
        na = 1;
    }
    if (sc->beta) {
        nb = limber_parts(b, sc->f, sc->beta);
        nc = limber_parts(c, f, dst);
        special += limber_num_class(&b[0]) * limber_num_class(&c[0]);
    }
    if (special - special != 0) {
        limber_num_of_class(&x, special);
        return limber_num_store(dst, f, &x, 0);
    }
    while (n > 0 && s[n - 1] == 0)
        n--;
    low = INT32_MAX;
    high = INT32_MIN;
    for (int i = 0; i < na; i++)
        if (a[i].kind == NUM_finite && n > 0) {
            low = limber_min_int(low, exp + a[i].exp);
            high = limber_max_int(high, exp + a[i].exp + 64 * (n + 2));
        }
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nc; j++)
            if (b[i].kind == NUM_finite && c[j].kind == NUM_finite) {
                low = limber_min_int(low, b[i].exp + c[j].exp);
                high = limber_max_int(high, b[i].exp + c[j].exp + 64 * 4);
            }
    if (low == INT32_MAX) { /* all terms are zeros, and their signs decide the sign of the result */
        limber_num_of_class(&x, special);
        return limber_num_store(dst, f, &x, 0);
    }
    words = (high - low) / 64 + 2;
    sum.w = scratch;
    sum.n = words < LIMBER_BIG ? words : LIMBER_BIG;
    sum.base = low;
    limber_big_zero(&sum);
    for (int i = 0; i < na; i++)
        if (a[i].kind == NUM_finite && n > 0) {
            limber_mul_words(product, s, n, a[i].hi, a[i].lo);
            limber_big_add(&sum, x.sign ^ a[i].sign, product, n + 2, exp + a[i].exp);
        }
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nc; j++)
            if (b[i].kind == NUM_finite && c[j].kind == NUM_finite) {
                uint64_t m[2] = { c[j].lo, c[j].hi };

                limber_mul_words(product, m, 2, b[i].hi, b[i].lo);
                limber_big_add(&sum, b[i].sign ^ c[j].sign, product, 4, b[i].exp + c[j].exp);
            }
    return limber_big_store(dst, f, &sum);
}

/* Loads an integer element, sign-extended to 64 bits. */
PRIM int64_t limber_load_int(limber_format f, const void *p)
{
    uint64_t v = 0;

    __builtin_memcpy(&v, p, f.size);
    if (f.kind == LIMBER_KIND_SHORT)
        return limber_num_short(f, v);
    return f.size == 8 || f.kind == LIMBER_KIND_UINT ?
               (int64_t)v :
               (int64_t)(v << (64 - 8 * f.size)) >> (64 - 8 * f.size);
}

/* Returns the integer part of n words times 2^exp, modulo 2^64. */
PRIM uint64_t limber_big_units(const uint64_t *w, int n, int exp)
{
    uint64_t sign = (uint64_t)((int64_t)w[n - 1] >> 63), low, high;
    int at = -exp >> 6, r = -exp & 63;

    if (exp >= 0)
        return exp < 64 ? w[0] << exp : 0;
    low = at < n ? w[at] : sign;
    high = at + 1 < n ? w[at + 1] : sign;
    return r ? low >> r | high << (64 - r) : low;
}

/* Stores alpha s + beta dst to dst, modulo 2^(bits of f), and returns 0: wrapping is no loss.  The
 * scalars are i64. */
PRIM int limber_store_wrapped(void *dst, limber_format f, uint64_t s,
                              const struct limber_scalars *sc)
{
    uint64_t t;

    if (sc->alpha) {
        __builtin_memcpy(&t, sc->alpha, 8);
        s *= t;
    }
    if (sc->beta) {
        __builtin_memcpy(&t, sc->beta, 8);
        s += t * (uint64_t)limber_load_int(f, dst);
    }
    if (f.kind == LIMBER_KIND_SHORT)
        s &= UINT64_MAX >> (63 - f.frac_bits);
    __builtin_memcpy(dst, &s, f.size);
    return 0;
}

/* Returns alpha x + beta c.  If a term overflows binary64, the sum may not, so it is computed
 * scaled by 2^-1024.  Then the other term is never so small that scaling loses bits that matter. */
PRIM double limber_blend(double alpha, double x, double beta, double c)
{
    double r = __builtin_fma(beta, c, alpha * x), half = 0x1p-512;

    if (r - r == 0 || alpha * 0 + x * 0 + beta * 0 + c * 0 != 0)
        return r;
    r = __builtin_fma(beta * half, c * half, alpha * half * (x * half));
    return r * 0x1p512 * 0x1p512;
}

/* Computes alpha x + beta dst in binary64, rounds it to f, and stores it to dst.  x: a sum of
 * floats.  Returns flags of enum limber_num_loss; 0 for binary64 and binary32. */
PRIM int limber_store_float(void *dst, limber_format f, double x, int has_alpha, double alpha,
                            int has_beta, double beta)
{
    struct limber_num num;
    double c0 = 0;
    float narrow;

    if (has_alpha && !has_beta)
        x *= alpha;
    if (has_beta) {
        int sticky = 0;

        if (f.kind == LIMBER_KIND_DD)
            sticky = limber_num_decode_dd(&num, dst);
        else
            limber_num_decode(&num, limber_num_base(f), dst);
        limber_num_encode(&c0, limber_binary64(), &num, sticky, LIMBER_ROUND_NEAREST);
        x = limber_blend(has_alpha ? alpha : 1, x, beta, c0);
    }
    if (limber_num_is_f64(f)) {
        __builtin_memcpy(dst, &x, 8);
        return 0;
    }
    if (limber_num_is_f32(f)) {
        narrow = (float)x;
        __builtin_memcpy(dst, &narrow, 4);
        return 0;
    }
    limber_num_from_f64(&num, x);
    return limber_num_store(dst, f, &num, 0);
}

#endif
