/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of libm that LAPACK calls.  The C library has several variants of most of them for
 * different CPUs, whose last bits differ.  These compute with additions, multiplications, divisions
 * and square roots of pairs of doubles, so with about 100 bits, and round at the end: their bits
 * are the same on every machine.  All are reentrant. */
#include "double_double.h"

#include <complex.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

static const struct pair ln2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };
static const struct pair ln10 = { 0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53 };
static const struct pair pi = { 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53 };
/* pi / 2 in three parts, of which the first has 33 bits. */
static const double half_pi[] = { 0x1.921fb544p+0, 0x1.0b4611a626331p-34, 0x1.1701b839a2520p-88 };

static struct pair pair_of(double x)
{
    return (struct pair){ x, 0 };
}

static double value_of(struct pair x)
{
    return x.high + x.low;
}

/* ---- logarithm and exponential --------------------------------------------------------------- */

/* Returns the logarithm of a positive, finite x = m 2^e: log m = 2 (s + s^3/3 + s^5/5 + ...)
 * with s = (m - 1)/(m + 1). */
static struct pair logarithm(double x)
{
    int e;
    double m = frexp(x, &e);
    struct pair s, square, sum = { 0, 0 };

    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    s = divide(pair_of(m - 1), sum_of(m, 1));
    square = multiply(s, s);
    for (int n = 45; n >= 1; n -= 2)
        sum = add(multiply(sum, square), divide(pair_of(1), pair_of(n)));
    sum = multiply(sum, s);
    return add(multiply(pair_of(e), ln2), (struct pair){ 2 * sum.high, 2 * sum.low });
}

/* Returns e^x, from the Taylor series about a multiple of ln 2. */
static double exponential(struct pair x)
{
    const double n = rint(x.high / ln2.high);
    struct pair rest, sum = { 1, 0 };

    if (isnan(x.high) || x.high > 710 || x.high < -746)
        return isnan(x.high) ? x.high : x.high > 0 ? INFINITY : 0;
    rest = add(x, multiply(pair_of(-n), ln2));
    for (int i = 26; i >= 1; i--)
        sum = add(pair_of(1), divide(multiply(sum, rest), pair_of(i)));
    return ldexp(value_of(sum), (int)n);
}

HIDDEN double limber_lapack_log(double x)
{
    if (isnan(x) || x < 0)
        return NAN;
    return x == 0 ? -INFINITY : isinf(x) ? x : value_of(logarithm(x));
}

HIDDEN double limber_lapack_log10(double x)
{
    if (!(x > 0) || isinf(x))
        return limber_lapack_log(x);
    return value_of(divide(logarithm(x), ln10));
}

/* Returns x^y as exp(y log |x|) in double-double arithmetic, with the special cases of C's pow. */
HIDDEN double limber_lapack_pow(double x, double y)
{
    const int whole = y == rint(y), odd = whole && fmod(y, 2) != 0;
    double size;

    if (y == 0 || x == 1)
        return 1;
    if (isnan(x) || isnan(y) || (x < 0 && !whole))
        return NAN;
    if (x == 0 || isinf(x) || isinf(y)) {
        const int grows = isinf(y) ? (fabs(x) > 1) == (y > 0) : (x == 0) == (y < 0);

        size = isinf(y) && fabs(x) == 1 ? 1 : grows ? INFINITY : 0;
    } else {
        size = exponential(multiply(pair_of(y), logarithm(fabs(x))));
    }
    return odd && signbit(x) ? -size : size;
}

/* ---- sine and cosine ------------------------------------------------------------------------- */

/* Returns x - n pi/2, and sets *n to n modulo 4. |x| must be below 2^20, since more digits of
 * larger numbers would be lost. */
static struct pair reduce_angle(double x, int64_t *n)
{
    const double quarters = rint(x / half_pi[0]);
    struct pair rest = sum_of(x, -quarters * half_pi[0]);

    rest = add(rest, product_of(-quarters, half_pi[1]));
    rest = add(rest, product_of(-quarters, half_pi[2]));
    *n = (int64_t)fmod(quarters, 4);
    return rest;
}

/* Returns the Taylor series of sine (first = 1) or cosine (first = 0), divided by x^first. */
static struct pair sum_series(struct pair x, int first)
{
    const struct pair square = multiply(x, x), minus = { -square.high, -square.low };
    struct pair sum = { 1, 0 };

    for (int i = first + 28; i > first; i -= 2)
        sum = add(pair_of(1), divide(multiply(sum, minus), pair_of((double)i * (i - 1))));
    return sum;
}

/* Computes sine and cosine of x in double-double, by series after reduction by multiples n of
 * pi/2.  Both are NaN if x is not finite. */
HIDDEN void limber_lapack_sincos(double x, double *sine, double *cosine)
{
    int64_t n;
    struct pair rest;
    double s, c;

    if (!isfinite(x)) {
        *sine = *cosine = NAN;
        return;
    }
    rest = reduce_angle(fabs(x) < 0x1p20 ? x : fmod(x, 2 * pi.high), &n);
    s = value_of(multiply(sum_series(rest, 1), rest));
    c = value_of(sum_series(rest, 0));
    n = n & 3;
    *sine = n == 0 ? s : n == 1 ? c : n == 2 ? -s : -c;
    *cosine = n == 0 ? c : n == 1 ? -s : n == 2 ? -c : s;
}

HIDDEN double limber_lapack_sin(double x)
{
    double s, c;

    limber_lapack_sincos(x, &s, &c);
    return s;
}

HIDDEN double limber_lapack_cos(double x)
{
    double s, c;

    limber_lapack_sincos(x, &s, &c);
    return c;
}

/* ---- arc tangent ----------------------------------------------------------------------------- */

/* Returns the arc tangent of t, 0 <= t <= 1.  Each step halves the angle: tan(a/2) = t / (1 +
 * sqrt(1 + t^2)). */
static struct pair arc_tangent(struct pair t)
{
    enum { HALVINGS = 3 };
    struct pair square, sum = { 0, 0 };

    for (int i = 0; i < HALVINGS; i++)
        t = divide(t, add(pair_of(1), root_of(add(pair_of(1), multiply(t, t)))));
    square = multiply(t, t);
    for (int n = 35; n >= 1; n -= 2) {
        const struct pair term = divide(pair_of(n % 4 == 1 ? 1 : -1), pair_of(n));

        sum = add(multiply(sum, square), term);
    }
    sum = multiply(sum, t);
    return (struct pair){ ldexp(sum.high, HALVINGS), ldexp(sum.low, HALVINGS) };
}

/* Returns the angle of (x, y), in double-double arithmetic, with the special cases of C's atan2. */
HIDDEN double limber_lapack_atan2(double y, double x)
{
    const double a = fabs(y), b = fabs(x);
    struct pair angle = { 0, 0 };

    if (isnan(x) || isnan(y))
        return NAN;
    if (isinf(a) || isinf(b))
        angle = (struct pair){ isinf(a) ? isinf(b) ? pi.high / 4 : pi.high / 2 : 0,
                               isinf(a) ? isinf(b) ? pi.low / 4 : pi.low / 2 : 0 };
    else if (a > b)
        angle = add((struct pair){ pi.high / 2, pi.low / 2 },
                    multiply(pair_of(-1), arc_tangent(divide(pair_of(b), pair_of(a)))));
    else if (a > 0)
        angle = arc_tangent(divide(pair_of(a), pair_of(b)));
    if (signbit(x))
        angle = add(pi, (struct pair){ -angle.high, -angle.low });
    return copysign(value_of(angle), y);
}

/* ---- complex numbers ------------------------------------------------------------------------- */

/* Returns |z| without overflow of intermediates.  An infinite part gives infinity, even beside a
 * NaN. */
HIDDEN double limber_lapack_cabs(double complex z)
{
    const double a = fabs(creal(z)), b = fabs(cimag(z)), most = a > b ? a : b,
                 least = a > b ? b : a;
    double ratio;

    if (isinf(a) || isinf(b))
        return INFINITY;
    if (isnan(a) || isnan(b))
        return NAN;
    if (most == 0 || least == 0)
        return most;
    ratio = least / most;
    return most * sqrt(1 + ratio * ratio);
}

static double complex complex_of(double re, double im)
{
    const union {
        double part[2];
        double complex z;
    } both = { { re, im } };

    return both.z;
}

/* Returns the principal square root, whose real part is not negative; for infinities and NaN what
 * C11, G.6.4.2, says.  Scaling by a power of two keeps intermediates from overflowing and from
 * losing bits of subnormal numbers. */
HIDDEN double complex limber_lapack_csqrt(double complex z)
{
    const double a = creal(z), b = cimag(z), size = fmax(fabs(a), fabs(b));
    /* z is scaled by 2^(2 shift), its root by 2^shift */
    const int shift = size > 1 ? -1 : size < 0x1p-900 ? 100 : 0;
    double x, big;

    if (isinf(b))
        return complex_of(INFINITY, b);
    if (isinf(a))
        return a > 0 ? complex_of(a, isnan(b) ? b : copysign(0, b)) :
                       complex_of(isnan(b) ? b : 0, copysign(INFINITY, b));
    if (isnan(a) || isnan(b))
        return complex_of(NAN, NAN);
    if (size == 0)
        return complex_of(0, b);
    x = ldexp(fabs(a), 2 * shift);
    big = sqrt((x + limber_lapack_cabs(complex_of(x, ldexp(b, 2 * shift)))) / 2);
    big = ldexp(big, -shift);
    return a >= 0 ? complex_of(big, b / (2 * big)) :
                    complex_of(fabs(b) / (2 * big), copysign(big, b));
}

HIDDEN double complex limber_lapack_cexp(double complex z)
{
    const double size = exponential(pair_of(creal(z)));
    double s, c;

    limber_lapack_sincos(cimag(z), &s, &c);
    return complex_of(size * c, size * s);
}

/* ---- binary32 -------------------------------------------------------------------------------- */

#define OF_ONE(name) \
    HIDDEN float limber_lapack_##name##f(float x) \
    { \
        return (float)limber_lapack_##name(x); \
    }
#define OF_TWO(name) \
    HIDDEN float limber_lapack_##name##f(float x, float y) \
    { \
        return (float)limber_lapack_##name(x, y); \
    }
#define OF_COMPLEX(name) \
    HIDDEN float complex limber_lapack_##name##f(float complex z) \
    { \
        return (float complex)limber_lapack_##name(z); \
    }
OF_ONE(log)
OF_ONE(log10)
OF_ONE(sin)
OF_ONE(cos)
OF_TWO(pow)
OF_TWO(atan2)
OF_COMPLEX(csqrt)
OF_COMPLEX(cexp)

HIDDEN float limber_lapack_cabsf(float complex z)
{
    return (float)limber_lapack_cabs(z);
}

HIDDEN void limber_lapack_sincosf(float x, float *sine, float *cosine)
{
    double s, c;

    limber_lapack_sincos(x, &s, &c);
    *sine = (float)s;
    *cosine = (float)c;
}
