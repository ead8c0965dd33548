/* SPDX-License-Identifier: BSD-3-Clause
 * Limb arithmetic, written once: read by the C compiler for the interpreter and as bitcode by the
 * LLVM backend; hence C without libc.
 *
 *   wide     an integer of 192 bits in two's complement: a scaled operand, |X| < 2^165
 *   columns  signed sums of 32-bit digits: what CRT and weighted accumulators add up to
 *   big      a fixed-point number of any length in two's complement: exact sums            */
#ifndef LIMBER_PRIM_H
#define LIMBER_PRIM_H

#include "ir/num/prim_num.h"

#ifndef PRIM_BODY
#define PRIM_BODY static __attribute__((unused))
#endif

#ifndef LIMBER_BIG_WORDS        /* kernels define less: they have less memory and fewer formats */
#define LIMBER_BIG_WORDS 1640
#endif

enum { LIMBER_WIDE = 3, LIMBER_BIG = LIMBER_BIG_WORDS };

/* LIMBER_F64 as a function, since device code cannot read the constant. */
PRIM limber_format limber_binary64(void)
{
    limber_format f = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };

    return f;
}

/* ---- elements as scaled integers ------------------------------------------------------------- */

/* trunc(x 2^shift) as a wide; |x| 2^shift < 2^191.  NaN and infinities count as zero. */
PRIM void limber_fix_num(uint64_t w[LIMBER_WIDE], const struct limber_num *x, int shift)
{
    int s = x->exp + shift;
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
    if (x->sign) {
        m[0] = ~m[0] + 1;
        m[1] = ~m[1] + (m[0] == 0);
        m[2] = ~m[2] + (m[0] == 0 && m[1] == 0);
    }
    w[0] = m[0];
    w[1] = m[1];
    w[2] = m[2];
}

/* limber_fix_num of the element at p; the two doubles of a dd are truncated apart. */
PRIM void limber_fix(uint64_t w[LIMBER_WIDE], limber_format f, const void *p, int shift)
{
    struct limber_num x;

    if (f.kind == LIMBER_KIND_DD) {
        uint64_t high[LIMBER_WIDE];
        unsigned carry;

        limber_num_decode(&x, limber_binary64(), p);
        limber_fix_num(high, &x, shift);
        limber_num_decode(&x, limber_binary64(), (const char *)p + 8);
        limber_fix_num(w, &x, shift);
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
    limber_fix_num(w, &x, shift);
}

/* trunc(x 2^shift), below 2^63 in magnitude.  NaN and infinities count as zero. */
PRIM int64_t limber_fix64_num(const struct limber_num *x, int shift)
{
    int s = x->exp + shift;
    uint64_t m;

    if (x->kind != NUM_finite || s <= -128 || s >= 64)
        return 0;
    if (s >= 0)
        m = x->lo << s;
    else if (s > -64)
        m = x->lo >> -s | x->hi << (64 + s);
    else
        m = x->hi >> (-s - 64);
    return x->sign ? -(int64_t)m : (int64_t)m;
}

/* Bits [from, from + count) of a wide, count <= 32, sign-extended above its top. */
PRIM uint32_t limber_wide_bits(const uint64_t w[LIMBER_WIDE], int from, int count)
{
    uint64_t sign = (uint64_t)((int64_t)w[LIMBER_WIDE - 1] >> 63);
    int q = from >> 6, r = from & 63;
    uint64_t low = q < LIMBER_WIDE ? w[q] : sign, high = q + 1 < LIMBER_WIDE ? w[q + 1] : sign;
    uint64_t v = r ? low >> r | high << (64 - r) : low;

    return (uint32_t)(v & (((uint64_t)1 << count) - 1));
}

/* Slice `slice` of `slices`, each of `step` bits; 0 is the top one, signed if the operand is. */
PRIM int32_t limber_slice(const uint64_t w[LIMBER_WIDE], int slice, int slices, int step,
                          int is_signed)
{
    int32_t v = (int32_t)limber_wide_bits(w, step * (slices - 1 - slice), step);

    if (slice == 0 && is_signed && (v >> (step - 1) & 1))
        v -= (int32_t)1 << step;
    return v;
}

/* A slice as a signed digit in [-2^(step-1), 2^(step-1)]: a digit whose first bit is set is reduced
 * by 2^step, and the one above it increased by 1.  The integer and its sign must fit the slices.
 * Source: Booth, Q. J. Mech. Appl. Math. 4 (1951), with step bits at once. */
PRIM int32_t limber_signed_slice(const uint64_t w[LIMBER_WIDE], int slice, int slices, int step)
{
    int from = step * (slices - 1 - slice);
    int32_t v = (int32_t)limber_wide_bits(w, from, step);

    return v - (v >> (step - 1) << step) + (from ? (int32_t)limber_wide_bits(w, from - 1, 1) : 0);
}

/* ---- residues -------------------------------------------------------------------------------- */

/* The residue of t in [-half, p - half) for t + half < 2^24 and 2 <= p <= 256.  inverse = 2^32/p is
 * rounded up, so it is too large by less than 1 and the product by less than 2^24.  A quotient's
 * largest fraction is 1/p below the next integer, 2^32/p in the product, which is at least 2^24. */
PRIM int32_t limber_mod24(uint32_t t, uint32_t half, uint32_t p, uint32_t inverse)
{
    uint32_t q = (uint32_t)((uint64_t)(t + half) * inverse >> 32);

    return (int32_t)(t - q * p);
}

/* t mod p in [0, p) for any t, 2 < p <= 256, quotient = 2^32/p rounded to nearest: the product's
 * high word is off by one at most. */
PRIM uint32_t limber_mod32(int32_t t, uint32_t p, int32_t quotient)
{
    uint32_t r = (uint32_t)t - (uint32_t)(int32_t)((int64_t)t * quotient >> 32) * p;
    uint32_t up = r + p, down = r - p;

    r = up < r ? up : r;
    return down < r ? down : r;
}

/* The `inverse` argument of limber_divide_by for d > 0; 0 for d = 0, by which nobody divides. */
PRIM uint32_t limber_inverse(int32_t d)
{
    return d > 0 ? 0xffffffffu / (uint32_t)d : 0;
}

/* n / d for n >= 0 and d > 0.  The inverse is too small by less than 1, so the product by less than
 * n / 2^32, and the quotient by at most 1, which the remainder shows.  A GPU needs some twenty
 * instructions to divide by a variable. */
PRIM int32_t limber_divide_by(int32_t n, int32_t d, uint32_t inverse)
{
    int32_t q = (int32_t)((uint64_t)(uint32_t)n * inverse >> 32);

    return q + (n - q * d >= d);
}

/* The symmetric residue in [-p/2, p/2) of r in [0, p). */
PRIM int32_t limber_symmetric(uint32_t r, uint32_t p)
{
    return r >= (p + 1) / 2 ? (int32_t)r - (int32_t)p : (int32_t)r;
}

/* ---- columns: a sum of words, whose carries wait --------------------------------------------- */

/* Adds t 2^weight; |sum of columns| stays below 2^63 for up to 2^15 additions. */
PRIM void limber_columns_add(int64_t *column, int64_t stride, int64_t t, int weight)
{
    for (int i = 0; i < 4; i++) {
        int at = weight + 16 * i;
        int64_t piece = i < 3 ? (t >> 16 * i & 0xffff) : t >> 48;

        column[(at >> 5) * stride] += piece * ((int64_t)1 << (at & 31));
    }
}

/* Converts columns to 64-bit words in two's complement, which must be wide enough. */
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

struct limber_big {
    uint64_t *w;
    int n; /* words; the highest bit is the sign */
    int base; /* exponent of bit 0 */
};

PRIM_BODY void limber_big_zero(struct limber_big *b)
{
    for (int i = 0; i < b->n; i++)
        b->w[i] = 0;
}

/* Adds (-1)^sign m 2^exp, m of n words.  The caller ensures exp >= base and room for the sum. */
PRIM_BODY void limber_big_add(struct limber_big *b, int sign, const uint64_t *m, int n, int exp)
{
    int at = (exp - b->base) >> 6, r = (exp - b->base) & 63, i;
    uint64_t below = 0, carry = sign ? 1 : 0, flip = sign ? ~(uint64_t)0 : 0;

    /* minus m is ~m + 1, with ones above */
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

        carry = flip ? s != ~(uint64_t)0 : s == 0;
        /* with ones added: a carry leaves unless the word was 0 and none came in */
        b->w[at + i] = s;
    }
}

/* The top 128 bits of the magnitude, its exponent and the sign; *sticky is 1 if lower bits are set.
 * The words become the magnitude. */
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
    for (int i = b->n - 1; i >= 0; i--) { /* finds the first two words from the first nonzero one */
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
    if (z) { /* normalises, so that leading zeros cost no rounding bit */
        x->hi = x->hi << z | x->lo >> (64 - z);
        x->lo = x->lo << z | next >> (64 - z);
        x->exp -= z;
        *sticky = next << z != 0 || rest != 0;
    }
    if (x->kind == NUM_zero)
        x->exp = 0;
}

PRIM void limber_mul64(uint64_t a, uint64_t b, uint64_t *hi, uint64_t *lo)
{
    unsigned __int128 p = (unsigned __int128)a * b;

    *hi = (uint64_t)(p >> 64);
    *lo = (uint64_t)p;
}

/* m (n words) times (hi, lo) into out (n + 2 words). */
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

/* Adds the exact product of two finite numbers. */
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

/* Decodes an element into one number, or a dd into its two; returns their count. */
PRIM int limber_parts(struct limber_num part[2], limber_format f, const void *p)
{
    if (f.kind == LIMBER_KIND_DD) {
        limber_num_decode(&part[0], limber_binary64(), p);
        limber_num_decode(&part[1], limber_binary64(), (const char *)p + 8);
        return 2;
    }
    limber_num_decode(&part[0], f, p);
    return 1;
}

PRIM int limber_num_store(void *p, limber_format f, const struct limber_num *x, int sticky)
{
    if (f.kind == LIMBER_KIND_DD)
        return limber_num_encode_dd(p, x, sticky, LIMBER_ROUND_NEAREST);
    return limber_num_encode(p, f, x, sticky, LIMBER_ROUND_NEAREST);
}

/* Rounds a big once to f and stores it.  A dd stores high, then the rounded remainder.  The big's
 * words are destroyed.  Returns the flags of limber_num_encode. */
PRIM_BODY int limber_big_store(void *p, limber_format f, struct limber_big *b)
{
    struct limber_num x, high, low = { 0 };
    uint64_t m;
    int sticky, sign, flags;

    limber_big_num(b, &x, &sticky);
    if (f.kind != LIMBER_KIND_DD)
        return limber_num_encode(p, f, &x, sticky, LIMBER_ROUND_NEAREST);
    sign = x.sign;
    flags = limber_num_encode(p, limber_binary64(), &x, sticky, LIMBER_ROUND_NEAREST);
    limber_num_decode(&high, limber_binary64(), p);
    low.sign = x.sign;
    if (x.kind == NUM_finite && high.kind == NUM_finite) {
        /* high is a multiple of the sum's unit: its lowest set bit is not below bit 0 */
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

/* A double that stands for x's class: 0, 1 (finite), infinity or NaN, with x's sign. */
PRIM double limber_num_class(const struct limber_num *x)
{
    double v = x->kind == NUM_zero   ? 0 :
               x->kind == NUM_finite ? 1 :
               x->kind == NUM_inf    ? __builtin_inf() :
                                       __builtin_nan("");

    return x->sign ? -v : v;
}

/* A number of the class that v stands for; finite values become 0. */
PRIM void limber_num_of_class(struct limber_num *x, double v)
{
    x->hi = x->lo = 0;
    x->exp = 0;
    x->sign = __builtin_signbit(v) != 0;
    x->kind = v != v ? NUM_nan : v - v != 0 ? NUM_inf : NUM_zero;
}

/* alpha and beta of the epilogue, in format f; NULL: 1 and 0. */
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

/* dst = alpha x + beta dst where x, alpha, beta or dst makes the result infinite or NaN. */
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

/* dst = round(alpha s 2^exp + beta dst), one rounding; s of n words in two's complement, n <
 * LIMBER_BIG - 2, is destroyed.  Returns the flags of limber_num_encode. */
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
    if (low == INT32_MAX) { /* all terms are zeros, whose signs decide */
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

/* An integer in memory, sign-extended to 64 bits. */
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

/* The integer part of n words times 2^exp, modulo 2^64. */
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

/* dst = alpha s + beta dst modulo 2^(bits of f); scalars are i64. */
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

/* alpha x + beta c.  If a term overflows binary64 but the sum may not, the sum is computed scaled
 * by 2^-1024; the other term is never so small then that it would lose bits that matter. */
PRIM double limber_blend(double alpha, double x, double beta, double c)
{
    double r = __builtin_fma(beta, c, alpha * x), half = 0x1p-512;

    if (r - r == 0 || alpha * 0 + x * 0 + beta * 0 + c * 0 != 0)
        return r;
    r = __builtin_fma(beta * half, c * half, alpha * half * (x * half));
    return r * 0x1p512 * 0x1p512;
}

/* dst = alpha x + beta dst in binary64, rounded to f; x is a sum in floats. */
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
            limber_num_decode(&num, f, dst);
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
