/* SPDX-License-Identifier: BSD-3-Clause
 * Elementary functions in binary64, written once for the interpreter, for vector code and for
 * devices. They consist of additions, multiplications, divisions, square roots and fused
 * multiply-adds without branches, so that every machine gives the same bits.  They use no libc.
 *
 * A function gives its value as hi + lo, where lo is not 0 if the value is inexact.  This value is
 * rounded to odd (fn_finish); then it can be rounded once more to a format with fewer bits, in any
 * direction, as if the exact value were rounded.  Where a function is near a simple number (e^x
 * near 1, sin x near x), hi is that number and lo the difference, however small.
 *
 * Source: the reductions are those of fdlibm (log, sin) and Cephes (atan, asin); rounding to odd is
 * Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Computers 57
 * (2008).  Coefficients: tools/functions/coefficients.py. */
#ifndef LIMBER_NUM_FUNCTIONS_H
#define LIMBER_NUM_FUNCTIONS_H

#include "ir/function.h"
#include "ir/num/function_tables.h"
#include "ir/num/prim_num.h"

/* All functions except sin, cos and tan, which first test the size of x, and isnan and isinf. */
#define FN_PLAIN(F) \
    F(CAST, cast) \
    F(ASIN, asin) \
    F(ACOS, acos) \
    F(ATAN, atan) \
    F(SINH, sinh) \
    F(COSH, cosh) \
    F(TANH, tanh) \
    F(ASINH, asinh) \
    F(ACOSH, acosh) \
    F(ATANH, atanh) \
    F(EXP, exp) \
    F(EXPM1, expm1) \
    F(LOG, log) \
    F(LOG2, log2) \
    F(LOG10, log10) \
    F(LOG1P, log1p) \
    F(SQRT, sqrt) \
    F(RSQRT, rsqrt) \
    F(RECIPROCAL, reciprocal) \
    F(SQUARE, square) \
    F(ABS, abs) \
    F(NEG, neg) \
    F(FLOOR, floor) \
    F(CEIL, ceil) \
    F(ROUND, round) \
    F(TRUNC, trunc) \
    F(RELU, relu) \
    F(LEAKY_RELU, leaky_relu) \
    F(GELU, gelu) \
    F(GELU_TANH, gelu_tanh) \
    F(SILU, silu) \
    F(SIGMOID, sigmoid) \
    F(LOGSIGMOID, logsigmoid) \
    F(SOFTSIGN, softsign) \
    F(SOFTPLUS, softplus) \
    F(TANH_SHRINK, tanh_shrink) \
    F(HARDSWISH, hardswish) \
    F(CLAMP, clamp)

/* An unevaluated sum hi + lo. */
struct fn_pair {
    double hi, lo;
};

/* Returns the bit pattern of x. */
PRIM uint64_t fn_bits(double x)
{
    uint64_t b;

    __builtin_memcpy(&b, &x, sizeof b);
    return b;
}

/* Returns the double with bit pattern b. */
PRIM double fn_double(uint64_t b)
{
    double x;

    __builtin_memcpy(&x, &b, sizeof x);
    return x;
}

#define FN_FMA(a, b, c) __builtin_fma(a, b, c)
#define FN_ABS(x) __builtin_fabs(x)
#define FN_INF __builtin_inf()
#define FN_NAN __builtin_nan("")
#define FN_STEP(c) y_ = FN_FMA(y_, z_, c);
/* Sets y to the value at z of the polynomial with coefficients TABLE, by Horner's rule. */
#define FN_POLY(y, z, TABLE) \
    do { \
        const double z_ = z; \
        double y_ = 0; \
        TABLE(FN_STEP) \
        y = y_; \
    } while (0)
#define FN_MAGIC 0x1.8p52 /* x + FN_MAGIC is rounded to an integer, which is in its low bits */

/* Returns hi + lo as a pair. */
PRIM struct fn_pair fn_pair(double hi, double lo)
{
    struct fn_pair p = { hi, lo };

    return p;
}

/* Returns a + b exactly, if |a| >= |b| or a = 0. */
PRIM struct fn_pair fn_fast_sum(double a, double b)
{
    double s = a + b;

    return fn_pair(s, b - (s - a));
}

/* Returns a + b exactly. */
PRIM struct fn_pair fn_sum(double a, double b)
{
    double s = a + b, c = s - a;

    return fn_pair(s, (a - (s - c)) + (b - c));
}

/* Returns a if `first` is true, else b. */
PRIM struct fn_pair fn_select(int first, struct fn_pair a, struct fn_pair b)
{
    return fn_pair(first ? a.hi : b.hi, first ? a.lo : b.lo);
}

/* Returns the pair times the sign of x. */
PRIM struct fn_pair fn_signed(struct fn_pair p, double x)
{
    uint64_t sign = fn_bits(x) & 1ull << 63;

    return fn_pair(fn_double(fn_bits(p.hi) ^ sign), fn_double(fn_bits(p.lo) ^ sign));
}

/* Sets the values at x = -infinity (to `low`) and +infinity (to `high`), since p was computed
 * from a clamped x. */
PRIM struct fn_pair fn_limits(struct fn_pair p, double x, double low, double high)
{
    int ends = FN_ABS(x) == FN_INF;

    return fn_pair(ends ? x < 0 ? low : high : p.hi, ends ? 0 : p.lo);
}

/* Corrects p for functions that are 0 or infinite only at 0 and at infinities.  If the value
 * will be rounded again, a value elsewhere that underflowed to 0 or overflowed is replaced by
 * the nearest nonzero finite double, whose last bit is odd like that of an inexact value. */
PRIM struct fn_pair fn_open(struct fn_pair p, double x, const struct fn_args *a)
{
    int zero = p.hi == 0 && p.lo == 0, outside = a->odd && (zero || FN_ABS(p.hi) == FN_INF);
    double last = fn_signed(fn_pair(zero ? 0x1p-1074 : 0x1.fffffffffffffp+1023, 0), p.hi).hi;

    outside = outside && x != 0 && FN_ABS(x) < FN_INF;
    return fn_pair(outside ? last : p.hi, outside ? 0 : p.lo);
}

/* Returns a tiny number if x is not 0.  Added to a term that may underflow, it keeps the term from
 * becoming 0. */
PRIM double fn_trace(double x)
{
    return x != 0 ? 0x1p-1000 : 0;
}

PRIM double fn_cut(double x, double low, double high) /* clamps x; NaN stays NaN */
{
    double y = x < low ? low : x;

    return y > high ? high : y;
}

/* Returns hi + lo, rounded to odd if `odd`, else to nearest. */
PRIM double fn_finish(struct fn_pair p, int odd)
{
    double lo = FN_ABS(p.hi) < FN_INF && p.lo == p.lo ? p.lo : 0;
    double s = p.hi + lo, rest = lo - (s - p.hi);
    uint64_t b = fn_bits(s), away = (rest > 0) == (s > 0);
    int change = odd && rest != 0 && FN_ABS(s) < FN_INF && !(b & 1);

    s = change ? fn_double(away ? b + 1 : b - 1) : s;
    return p.hi == 0 && lo == 0 ? p.hi : s; /* keeps the sign of a zero */
}

/* Replaces every NaN by the canonical one, since machines differ in the NaN of an invalid
 * operation. */
PRIM double fn_one_nan(double x)
{
    return x != x ? FN_NAN : x;
}

/* Returns the double that a function returns for its value p at x.  A NaN is the canonical one. */
PRIM double fn_value(struct fn_pair p, double x, int odd)
{
    double y = fn_finish(p, odd);

    return x != x ? FN_NAN : fn_one_nan(y);
}

/* ---- exponentials ---------------------------------------------------------------------------- */

/* e^x = (m + l) s t, where s and t are powers of two; p = e^r - 1 for x = k log 2 + r. */
struct fn_power {
    double m, l, s, t, k, r, p;
};

#define FN_WIDE 760 /* bound for results in binary64, where e^-760 is 0 */

/* Computes e^x and its parts, for x clamped to [-bound, bound]. */
PRIM struct fn_power fn_power(double x, double bound)
{
    struct fn_power e;
    struct fn_pair sum;
    double at, q;
    uint64_t k, half;

    x = fn_cut(x, -bound, bound);
    at = FN_FMA(x, FN_LOG2E_0, FN_MAGIC);
    e.k = at - FN_MAGIC;
    e.r = FN_FMA(-e.k, FN_LN2_1, FN_FMA(-e.k, FN_LN2_0, x));
    FN_POLY(q, e.r, FN_EXP);
    e.p = FN_FMA(e.r * e.r, q, e.r);
    sum = fn_fast_sum(1, e.p);
    e.m = sum.hi;
    e.l = sum.lo;
    k = fn_bits(at) - fn_bits(FN_MAGIC) + 4096;
    half = k >> 1;
    e.s = x <= -FN_WIDE ? 0 : fn_double((half - 2048 + 1023) << 52);
    e.t = fn_double((k - half - 2048 + 1023) << 52);
    return e;
}

/* Returns e^x as a pair. */
PRIM struct fn_pair fn_power_pair(struct fn_power e)
{
    return fn_pair(e.m * e.s * e.t, e.l * e.s * e.t);
}

/* Returns e^x. */
PRIM struct fn_pair fn_exp(double x, const struct fn_args *a)
{
    return fn_open(fn_limits(fn_power_pair(fn_power(x, a->bound)), x, 0, FN_INF), x, a);
}

/* Returns e^x - 1.  Near 0 it is a polynomial, elsewhere computed from e^x. */
PRIM struct fn_pair fn_expm1(double x, const struct fn_args *a)
{
    struct fn_power e = fn_power(x, a->bound);
    struct fn_pair y = fn_power_pair(e), d = fn_sum(y.hi, -1);
    double q;

    FN_POLY(q, e.r, FN_EXP);
    d = fn_select(e.k == 0, fn_pair(x, x * x * q), fn_pair(d.hi, d.lo + y.lo));
    return fn_open(fn_limits(d, x, -1, FN_INF), x, a);
}

/* Computes s and c of sinh x = x + s and cosh x = 1 + c, for |x| <= 1. */
PRIM void fn_hyperbolic(double x, double *s, double *c)
{
    double z = x * x + fn_trace(x), p, q;

    FN_POLY(p, z, FN_SINH);
    FN_POLY(q, z, FN_COSH);
    *s = x * z * p;
    *c = z * q;
}

/* sinh |x| = (e^v - e^-v) / 2 for v = |x|; below 1 by a polynomial. */
PRIM struct fn_pair fn_sinh(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), s, c;
    struct fn_power e = fn_power(v, a->bound);
    double half = e.m * (0.5 * e.s) * e.t;
    struct fn_pair y = fn_pair(half, e.l * (0.5 * e.s) * e.t - 0.25 / half);

    fn_hyperbolic(v, &s, &c);
    y = fn_select(v < 1, fn_pair(v, s), y);
    return fn_open(fn_limits(fn_signed(y, x), x, -FN_INF, FN_INF), x, a);
}

/* cosh x = (e^v + e^-v) / 2 for v = |x|; below 1 by a polynomial. */
PRIM struct fn_pair fn_cosh(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), s, c;
    struct fn_power e = fn_power(v, a->bound);
    double half = e.m * (0.5 * e.s) * e.t;
    struct fn_pair y = fn_pair(half, e.l * (0.5 * e.s) * e.t + 0.25 / half);

    fn_hyperbolic(v, &s, &c);
    return fn_open(fn_limits(fn_select(v < 1, fn_pair(1, c), y), x, FN_INF, FN_INF), x, a);
}

/* tanh |x| = 1 - 2 / (e^2v + 1) for v = |x|; below 1 by sinh v / cosh v. */
PRIM struct fn_pair fn_tanh(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), s, c;
    struct fn_pair e = fn_power_pair(fn_power(2 * v, a->bound));
    struct fn_pair y = fn_pair(1, -2 / (e.hi + 1));

    fn_hyperbolic(v, &s, &c);
    y = fn_select(v < 1, fn_pair(v, (s - v * c) / (1 + c)), y);
    return fn_limits(fn_signed(y, x), x, -1, 1);
}

/* x - tanh x; near 0 by a polynomial, since the difference cancels there. */
PRIM struct fn_pair fn_tanh_shrink(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), s, c, q, z = v * v, cube = v * z, third = cube / 3;
    struct fn_pair e = fn_power_pair(fn_power(2 * v, a->bound)), y = fn_fast_sum(v, -1);

    fn_hyperbolic(v, &s, &c);
    FN_POLY(q, z, FN_SHRINK);
    y = fn_pair(y.hi, y.lo + 2 / (e.hi + 1));
    q = FN_FMA(-third, 3, cube) / 3 + cube * z * q / (1 + c);
    y = fn_select(v < 1, fn_pair(third, q), y);
    return fn_open(fn_limits(fn_signed(y, x), x, -FN_INF, FN_INF), x, a);
}

/* ---- logarithms and inverse hyperbolic functions --------------------------------------------- */

/* Splits u > 0 into 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). */
PRIM void fn_split(double u, double *k, double *f)
{
    int tiny = u < 0x1p-1022;
    uint64_t b = fn_bits(tiny ? u * 0x1p54 : u);
    uint64_t t = b - 0x3fe6a09e667f3bcdull + (1024ull << 52);

    *k = fn_double(0x4330000000000000ull | t >> 52) - (0x1p52 + 1024) - (tiny ? 54 : 0);
    *f = fn_double(b - (((t >> 52) - 1024) << 52)) - 1;
}

/* Returns log(1 + f) - f. */
PRIM double fn_log_rest(double f)
{
    double half = 0.5 * f * f, s = f / (2 + f), z = s * s, p;

    FN_POLY(p, z, FN_LOG);
    return -(half - s * (half + z * p));
}

/* Returns k log 2 + log(1 + f) + c, for small c. */
PRIM struct fn_pair fn_log_sum(double k, double f, double c)
{
    struct fn_pair a = fn_fast_sum(k * FN_LN2_0, f);

    return fn_fast_sum(a.hi, a.lo + (k * FN_LN2_1 + (fn_log_rest(f) + c)));
}

/* Sets the values of a logarithm for x <= 0 and x = infinity: -infinity at 0, NaN below 0, infinity
 * at infinity. */
PRIM struct fn_pair fn_domain(struct fn_pair y, double x)
{
    double hi = x < 0 ? FN_NAN : x == 0 ? -FN_INF : y.hi;

    return fn_pair(x == FN_INF ? x : hi, x > 0 && x < FN_INF ? y.lo : 0);
}

/* log x = k log 2 + log(1 + f). */
PRIM struct fn_pair fn_log(double x, const struct fn_args *a)
{
    double k, f;

    (void)a;
    fn_split(x, &k, &f);
    return fn_domain(fn_log_sum(k, f, 0), x);
}

/* Returns log(1 + w + c), for |c| much smaller than |w|. */
PRIM struct fn_pair fn_log1p_of(double w, double c)
{
    struct fn_pair u = fn_sum(1, w);
    double k, f;

    fn_split(u.hi, &k, &f);
    return fn_log_sum(k, k == 0 ? w : f, ((k == 0 ? 0 : u.lo) + c) / u.hi);
}

/* Returns log(1 + x); NaN below -1. */
PRIM struct fn_pair fn_log1p(double x, const struct fn_args *a)
{
    struct fn_pair y = fn_log1p_of(x, 0);

    (void)a;
    y.hi = x < -1 ? FN_NAN : x == -1 ? -FN_INF : y.hi;
    y = fn_limits(y, x, FN_NAN, FN_INF);
    return fn_pair(x == 0 ? x : y.hi, x > -1 ? y.lo : 0);
}

/* Returns y times the constant high + low. */
PRIM struct fn_pair fn_times(struct fn_pair y, double high, double low)
{
    double p = y.hi * high;

    return fn_pair(p, FN_FMA(y.hi, high, -p) + (y.hi * low + y.lo * high));
}

/* log2 x = k + log(1 + f) / log 2. */
PRIM struct fn_pair fn_log2(double x, const struct fn_args *a)
{
    double k, f;
    struct fn_pair y, s;

    (void)a;
    fn_split(x, &k, &f);
    y = fn_times(fn_fast_sum(f, fn_log_rest(f)), FN_LOG2E_0, FN_LOG2E_1);
    s = fn_fast_sum(k, y.hi);
    return fn_domain(fn_pair(s.hi, s.lo + y.lo), x);
}

/* log10 x = k log10 2 + log(1 + f) / log 10.  Powers of ten up to 1e22 get their exact value. */
PRIM struct fn_pair fn_log10(double x, const struct fn_args *a)
{
    static const double tens[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    double k, f, near;
    struct fn_pair y, s;

    (void)a;
    fn_split(x, &k, &f);
    y = fn_times(fn_fast_sum(f, fn_log_rest(f)), FN_LOG10E_0, FN_LOG10E_1);
    s = fn_fast_sum(k * FN_LOG10_2_0, y.hi);
    s = fn_fast_sum(s.hi, s.lo + (y.lo + k * FN_LOG10_2_1));
    near = fn_cut(s.hi + FN_MAGIC - FN_MAGIC, 0, 22);
    s = fn_select(x == tens[(int)(near == near ? near : 0)], fn_pair(near, 0), s);
    return fn_domain(s, x);
}

/* asinh v = log(v + sqrt(v^2 + 1)) for v = |x|; near 0 by a polynomial. */
PRIM struct fn_pair fn_asinh(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), z = v * v, p, s, sl, k, f;
    int huge = v > 0x1p60;
    struct fn_pair t = fn_sum(z, 1), u;

    (void)a;
    FN_POLY(p, z, FN_ASINH);
    s = __builtin_sqrt(t.hi);
    sl = (FN_FMA(-s, s, t.hi) + (t.lo + FN_FMA(v, v, -z))) / (2 * s);
    u = fn_fast_sum(s, v);
    u = fn_select(huge, fn_pair(v, 0), fn_pair(u.hi, u.lo + sl));
    fn_split(u.hi, &k, &f);
    u = fn_log_sum(huge ? k + 1 : k, f, u.lo / u.hi);
    u = fn_select(v < 0.5, fn_pair(v, v * z * p), u);
    return fn_limits(fn_signed(u, x), x, -FN_INF, FN_INF);
}

/* acosh x = log(1 + t + sqrt(t^2 + 2 t)) for t = x - 1. */
PRIM struct fn_pair fn_acosh(double x, const struct fn_args *a)
{
    double t = x - 1, v = __builtin_sqrt(FN_FMA(t, t, 2 * t)), k, f;
    struct fn_pair w = fn_fast_sum(v, t), y = fn_log1p_of(w.hi, w.lo);

    (void)a;
    fn_split(x, &k, &f);
    y = fn_select(x > 0x1p60, fn_log_sum(k + 1, f, 0), y);
    y = fn_limits(y, x, FN_NAN, FN_INF);
    return fn_pair(x < 1 ? FN_NAN : y.hi, y.lo);
}

/* atanh v = log(1 + 2 v / (1 - v)) / 2 for v = |x|; near 0 by a polynomial. */
PRIM struct fn_pair fn_atanh(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), z = v * v, p, q;
    struct fn_pair d = fn_fast_sum(1, -v), y;

    (void)a;
    FN_POLY(p, z, FN_LOG);
    q = 2 * v / d.hi;
    y = fn_log1p_of(q, (FN_FMA(-q, d.hi, 2 * v) - q * d.lo) / d.hi);
    y = fn_select(v < 0.17, fn_pair(v, v * z * (0.5 * p)), fn_pair(0.5 * y.hi, 0.5 * y.lo));
    y.hi = v > 1 ? FN_NAN : v == 1 ? FN_INF : y.hi;
    return fn_signed(y, x);
}

/* ---- circular functions and their inverses --------------------------------------------------- */

/* An angle x = n pi/2 + r + l, n modulo 4. */
struct fn_angle {
    double r, l;
    uint64_t n;
};

#define FN_FAR 0x1p20 /* from this |x| on, fn_far reduces x */

/* Reduces |x| < FN_FAR: subtracts the nearest multiple of pi/2, which is held in three parts. */
PRIM struct fn_angle fn_reduce_near(double x)
{
    struct fn_angle y;
    double at = FN_FMA(x, FN_TWO_OVER_PI_0, FN_MAGIC), k = at - FN_MAGIC, low;
    struct fn_pair r = fn_sum(FN_FMA(-k, FN_HALF_PI_0, x), -k * FN_HALF_PI_1);

    low = FN_FMA(-k, FN_HALF_PI_2, r.lo);
    r = fn_fast_sum(r.hi, low);
    y.r = r.hi;
    y.l = r.lo;
    y.n = fn_bits(at) & 3;
    return y;
}

/* Returns 64 bits of 2/pi from bit `from` after the binary point on.  Bits before the point are
 * 0. */
PRIM uint64_t fn_two_over_pi(int from)
{
    static const uint64_t words[] = { 0, FN_TWO_OVER_PI_WORDS };
    int i = (from + 64) / 64, shift = (from + 64) % 64;

    return shift ? words[i] << shift | words[i + 1] >> (64 - shift) : words[i];
}

/* Reduces |x| >= FN_FAR (Payne and Hanek): multiplies the significand of x by 192 bits of 2/pi.
 * Higher bits of 2/pi would only add multiples of 4 to the number of quarter turns. */
PRIM struct fn_angle fn_far(double x)
{
    struct fn_angle y;
    uint64_t b = fn_bits(x), m = (b & 0xfffffffffffffull) | 1ull << 52, top, low;
    int from = (int)(b >> 52 & 2047) - 1075 - 2, negative, zeros;
    limber_u128 p0 = (limber_u128)m * fn_two_over_pi(from + 128);
    limber_u128 p1 = (limber_u128)m * fn_two_over_pi(from + 64) + (p0 >> 64), f;
    double hi, lo;

    top = m * fn_two_over_pi(from) + (uint64_t)(p1 >> 64);
    y.n = top >> 62;
    f = ((limber_u128)top << 64 | (uint64_t)p1) << 2 | (uint64_t)p0 >> 62;
    negative = (int)(f >> 127); /* makes the fraction lie in [-1/2, 1/2) */
    y.n += (uint64_t)negative;
    f = negative ? -f : f;
    top = (uint64_t)(f >> 64);
    zeros = top ? __builtin_clzll(top) : 64 + __builtin_clzll((uint64_t)f | 1);
    f <<= zeros;
    top = (uint64_t)(f >> 75);
    low = (uint64_t)(f >> 22) & 0x1fffffffffffffull;
    hi = (double)top * fn_double((uint64_t)(1023 - 53 - zeros) << 52);
    lo = (double)low * fn_double((uint64_t)(1023 - 106 - zeros) << 52);
    hi = (b >> 63) != (uint64_t)negative ? -hi : hi;
    lo = (b >> 63) != (uint64_t)negative ? -lo : lo;
    y.n = b >> 63 ? 4 - y.n : y.n;
    y.n &= 3;
    y.r = hi * FN_QUARTER_TURN_0;
    y.l = FN_FMA(hi, FN_QUARTER_TURN_0, -y.r) + (hi * FN_QUARTER_TURN_1 + lo * FN_QUARTER_TURN_0);
    return y;
}

/* Computes s and c of sin(r + l) = r + s and cos(r + l) = 1 + c, for a reduced angle y. */
PRIM void fn_circular(struct fn_angle y, double *s, double *c)
{
    double z = y.r * y.r + fn_trace(y.r), p, q;

    FN_POLY(p, z, FN_SIN);
    FN_POLY(q, z, FN_COS);
    *s = FN_FMA(y.r * z, p, FN_FMA(-0.5 * z, y.l, y.l));
    *c = FN_FMA(z, q, -y.r * y.l);
}

/* Returns the sine of a reduced angle plus `quarter` times pi/2; quarter 1 gives the cosine. */
PRIM struct fn_pair fn_sine(struct fn_angle y, uint64_t quarter)
{
    double s, c;
    uint64_t n = y.n + quarter, sign = (n & 2) << 62;
    struct fn_pair p;

    fn_circular(y, &s, &c);
    p = fn_select(n & 1, fn_pair(1, c), fn_pair(y.r, s));
    return fn_pair(fn_double(fn_bits(p.hi) ^ sign), fn_double(fn_bits(p.lo) ^ sign));
}

/* Returns the tangent of a reduced angle. */
PRIM struct fn_pair fn_tangent(struct fn_angle y)
{
    double s, c, q, inverse;
    struct fn_pair u, v;

    fn_circular(y, &s, &c);
    u = fn_fast_sum(y.r, s);
    v = fn_fast_sum(1, c);
    inverse = 1 / u.hi;
    q = v.hi * inverse;
    u = fn_pair(-q, -(FN_FMA(-q, u.hi, v.hi) + (v.lo - q * u.lo)) * inverse);
    return fn_select(y.n & 1, u, fn_pair(y.r, (s - y.r * c) / (1 + c)));
}

/* Returns y, or x if x is 0, which keeps the sign of a zero. */
PRIM struct fn_pair fn_keep_zero(struct fn_pair y, double x)
{
    return fn_select(x == 0, fn_pair(x, 0), y);
}

/* Defines fn_NAME for |x| < FN_FAR, and fn_NAME_far for larger |x|, NaN at infinities. */
#define FN_ANGLE(name, ...) \
    PRIM struct fn_pair fn_##name##_far(double x) \
    { \
        struct fn_angle y = fn_far(x); \
        return fn_select(FN_ABS(x) == FN_INF, fn_pair(FN_NAN, 0), __VA_ARGS__); \
    } \
    PRIM struct fn_pair fn_##name(double x, const struct fn_args *a) \
    { \
        struct fn_angle y = fn_reduce_near(x); \
        (void)a; \
        return __VA_ARGS__; \
    }
FN_ANGLE(sin, fn_keep_zero(fn_sine(y, 0), x))
FN_ANGLE(cos, fn_sine(y, 1))
FN_ANGLE(tan, fn_keep_zero(fn_tangent(y), x))

/* atan |x|: by a polynomial in |x|, in (|x| - 1) / (|x| + 1) plus pi/4, or in -1/|x| plus pi/2. */
PRIM struct fn_pair fn_atan(double x, const struct fn_args *a)
{
    double v = FN_ABS(x), num, den, u, z, p, base, low;
    /* above sqrt(2) - 1; above sqrt(2) + 1 */
    int middle = v > 0x1.a827999fcef32p-2, far = v > 0x1.3504f333f9de6p+1;
    struct fn_pair y;

    (void)a;
    num = far ? -1 : middle ? v - 1 : v;
    den = far ? v : middle ? v + 1 : 1;
    base = far ? FN_QUARTER_TURN_0 : middle ? FN_EIGHTH_TURN_0 : 0;
    low = far ? FN_QUARTER_TURN_1 : middle ? FN_EIGHTH_TURN_1 : 0;
    u = num / den;
    z = u * u;
    FN_POLY(p, z, FN_ATAN);
    y = fn_fast_sum(base, u);
    return fn_signed(fn_pair(y.hi, y.lo + (low + u * z * p)), x);
}

/* Computes s and rest of asin s = s + rest, where s = |x| up to 1/2, and s = sqrt((1 - |x|) / 2)
 * above. */
PRIM void fn_arc(double x, double *s, double *rest)
{
    double v = FN_ABS(x), z = v > 0.5 ? 0.5 * (1 - v) : v * v, root = __builtin_sqrt(z), p, low;

    FN_POLY(p, z, FN_ASIN);
    low = root > 0 ? FN_FMA(-root, root, z) / (2 * root) : 0;
    *s = v > 0.5 ? root : v;
    *rest = FN_FMA(*s * z, p, v > 0.5 ? low : 0);
}

/* asin |x|: directly up to 1/2, above as pi/2 - 2 asin sqrt((1 - |x|) / 2). */
PRIM struct fn_pair fn_asin(double x, const struct fn_args *a)
{
    double s, rest;
    struct fn_pair y;

    (void)a;
    fn_arc(x, &s, &rest);
    y = fn_fast_sum(FN_QUARTER_TURN_0, -2 * s);
    y = fn_pair(y.hi, y.lo + (FN_QUARTER_TURN_1 - 2 * rest));
    return fn_signed(fn_select(FN_ABS(x) > 0.5, y, fn_pair(s, rest)), x);
}

/* acos x = pi/2 - asin x for |x| <= 1/2; above, 2 asin sqrt((1 - |x|) / 2) for x > 0, or pi minus
 * that for x < 0. */
PRIM struct fn_pair fn_acos(double x, const struct fn_args *a)
{
    double s, rest, minus;
    struct fn_pair y, w;

    (void)a;
    fn_arc(x, &s, &rest);
    minus = x < 0 ? -1 : 1;
    y = fn_fast_sum(FN_QUARTER_TURN_0, -minus * s);
    y = fn_pair(y.hi, y.lo + (FN_QUARTER_TURN_1 - minus * rest));
    w = fn_fast_sum(2 * FN_QUARTER_TURN_0, -2 * s);
    w = fn_pair(w.hi, w.lo + (2 * FN_QUARTER_TURN_1 - 2 * rest));
    w = fn_select(x < 0, w, fn_pair(2 * s, 2 * rest));
    return fn_select(FN_ABS(x) > 0.5, w, y);
}

/* ---- powers and roots ------------------------------------------------------------------------ */

/* If one operation in binary64 gives the correctly rounded result, hi is that result, and lo is 0
 * if the result is binary64: a computed lo would be wrong where it is subnormal. */

/* sqrt x, with its rounding error if results are rounded again. */
PRIM struct fn_pair fn_sqrt(double x, const struct fn_args *a)
{
    double s = __builtin_sqrt(x);

    /* 0 / 0: fn_finish ignores a NaN in lo */
    return fn_pair(s, a->odd ? FN_FMA(-s, s, x) / (2 * s) : 0);
}

/* 1 / sqrt x, corrected by one step of Newton's method. */
PRIM struct fn_pair fn_rsqrt(double x, const struct fn_args *a)
{
    double y = 1 / __builtin_sqrt(x), z = y * y;

    (void)a;
    return fn_pair(y, 0.5 * y * (FN_FMA(-x, z, 1) - x * FN_FMA(y, y, -z)));
}

/* Returns 1 / x, with its rounding error if results are rounded again. */
PRIM struct fn_pair fn_reciprocal(double x, const struct fn_args *a)
{
    double y = 1 / x;

    return fn_open(fn_pair(y, a->odd ? y * FN_FMA(-y, x, 1) : 0), x, a);
}

/* Returns x^2, with its rounding error if results are rounded again. */
PRIM struct fn_pair fn_square(double x, const struct fn_args *a)
{
    double y = x * x;

    return fn_open(fn_pair(y, a->odd ? FN_FMA(x, x, -y) : 0), x, a);
}

/* ---- copies and clamps ----------------------------------------------------------------------- */

/* Defines fn_NAME for a function whose value is a double, so that lo is 0. */
#define FN_EXACT(name, value) \
    PRIM struct fn_pair fn_##name(double x, const struct fn_args *a) \
    { \
        (void)a; \
        return fn_pair(value, 0); \
    }
FN_EXACT(abs, FN_ABS(x))
FN_EXACT(neg, -x)
FN_EXACT(floor, __builtin_floor(x))
FN_EXACT(ceil, __builtin_ceil(x))
FN_EXACT(round, __builtin_rint(x))
FN_EXACT(trunc, __builtin_trunc(x))
FN_EXACT(relu, x < 0 ? 0 : x)
FN_EXACT(clamp, fn_cut(x, a->p, a->q))
FN_EXACT(cast, x)

/* Returns 1 if x is NaN, else 0. */
PRIM double fn_isnan(double x)
{
    return x != x ? 1 : 0;
}

/* Returns the sign of x, 1 or -1, if x is infinite, else 0. */
PRIM double fn_isinf(double x)
{
    return x == FN_INF ? 1 : x == -FN_INF ? -1 : 0;
}

/* Returns x if x >= 0, else p x. */
PRIM struct fn_pair fn_leaky_relu(double x, const struct fn_args *a)
{
    double y = a->p * x;
    struct fn_pair p = fn_pair(y, a->odd ? FN_FMA(a->p, x, -y) : 0);

    p = fn_open(p, a->p != 0 && FN_ABS(a->p) < FN_INF ? x : 0, a);
    return fn_select(x < 0, p, fn_pair(x, 0));
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Returns x / (1 + e^-(v + l)), for l much smaller than v. */
PRIM struct fn_pair fn_gate(double x, double v, double l, const struct fn_args *a)
{
    /* low: x, clamped from below at -bound as the argument of e^x is */
    double w = FN_ABS(v), s, c, t, q, low = fn_cut(x, -a->bound, FN_INF);
    struct fn_power e = fn_power(-w, a->bound);
    struct fn_pair y;

    l = w < 0x1p20 ? l : 0;
    e.m = e.m + (e.l - e.m * (v < 0 ? -l : l));
    q = e.m / (1 + e.m * e.s * e.t);
    y = fn_select(v < 0, fn_pair(low * q * e.s * e.t, 0), fn_pair(x, -x * (q * e.s * e.t)));
    w = 0.5 * w;
    fn_hyperbolic(w, &s, &c);
    t = 0.5 * (w + (s - w * c) / (1 + c)); /* tanh(|v| / 2) / 2 */
    t = t + 0.25 * (v < 0 ? -l : l) + fn_trace(v);
    return fn_select(FN_ABS(v) < 1, fn_pair(0.5 * x, x * (v < 0 ? -t : t)), y);
}

/* Returns 1 / (1 + e^-x). */
PRIM struct fn_pair fn_sigmoid(double x, const struct fn_args *a)
{
    return fn_open(fn_limits(fn_gate(1, x, 0, a), x, 0, 1), x, a);
}

/* Returns x sigmoid(x). */
PRIM struct fn_pair fn_silu(double x, const struct fn_args *a)
{
    return fn_open(fn_limits(fn_gate(x, x, 0, a), x, -0.0, FN_INF), x, a);
}

/* GELU with a hyperbolic tangent: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
PRIM struct fn_pair fn_gelu_tanh(double x, const struct fn_args *a)
{
    double u = fn_cut(x, -0x1p300, 0x1p300), z = u * u, w = FN_GELU_CUBE_0 * z, v;
    struct fn_pair h = fn_sum(FN_GELU_LINE_0, w);

    h.lo += FN_FMA(FN_GELU_CUBE_0, z, -w) +
            (FN_GELU_CUBE_0 * FN_FMA(u, u, -z) + FN_GELU_CUBE_1 * z + FN_GELU_LINE_1);
    v = u * h.hi;
    h = fn_gate(x, v, FN_FMA(u, h.hi, -v) + u * h.lo, a);
    return fn_open(fn_limits(h, x, -0.0, FN_INF), x, a);
}

/* GELU: x times the normal distribution function, x (1 - Q(x)) with the upper tail Q. */
PRIM struct fn_pair fn_gelu(double x, const struct fn_args *a)
{
    double v = fn_cut(FN_ABS(x), 0, 64), z = v * v, p, t = (v - 4) / (v + 4), q; /* e^-2048 is 0 */
    struct fn_power e = fn_power(-0.5 * z, a->bound);
    struct fn_pair y;

    FN_POLY(p, z, FN_NORMAL);
    FN_POLY(q, t, FN_TAIL);
    q = q / (v + 1) * (e.m + (e.l - e.m * (0.5 * FN_FMA(v, v, -z))));
    y = fn_select(x < 0, fn_pair(-v * q * e.s * e.t, 0), fn_pair(x, -x * (q * e.s * e.t)));
    y = fn_select(v < 1, fn_pair(0.5 * x, x * (x * p)), y);
    return fn_open(fn_limits(y, x, -0.0, FN_INF), x, a);
}

/* log(1 + e^x). */
PRIM struct fn_pair fn_softplus(double x, const struct fn_args *a)
{
    struct fn_pair e = fn_power_pair(fn_power(-FN_ABS(x), a->bound));
    struct fn_pair y = fn_log1p_of(e.hi, e.lo), s = fn_sum(x > 0 ? x : 0, y.hi);

    y = fn_pair(s.hi, s.lo + y.lo);
    return fn_open(fn_limits(y, x, 0, FN_INF), x, a);
}

/* Returns log(sigmoid(x)), which is -log(1 + e^-x). */
PRIM struct fn_pair fn_logsigmoid(double x, const struct fn_args *a)
{
    struct fn_pair y = fn_softplus(-x, a);

    return fn_pair(-y.hi, -y.lo);
}

/* Returns x / (1 + |x|). */
PRIM struct fn_pair fn_softsign(double x, const struct fn_args *a)
{
    double v = FN_ABS(x);
    struct fn_pair y = fn_select(v < 1, fn_pair(v, -v * v / (1 + v)), fn_pair(1, -1 / (1 + v)));

    (void)a;
    return fn_signed(y, x);
}

/* x min(max(x + 3, 0), 6) / 6. */
PRIM struct fn_pair fn_hardswish(double x, const struct fn_args *a)
{
    double y = x + 3, n = x * y, q = n / 6;
    struct fn_pair p = fn_pair(q, (FN_FMA(-q, 6, n) + FN_FMA(x, y, -n)) / 6);

    p = fn_open(fn_select(x < -1, p, fn_pair(0.5 * x, x * x / 6)), x, a);
    p = fn_select(x <= -3, fn_pair(-0.0, 0), p);
    return fn_select(x >= 3, fn_pair(x, 0), p);
}

#endif
