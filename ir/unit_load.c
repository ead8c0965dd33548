/* SPDX-License-Identifier: BSD-3-Clause
 * Operands as a simulated unit sees them: rounded on load, blocks of them scaled. */
#include "ir/unit_num.h"

#include <math.h>

static int exponent(double x)
{
    int e;

    frexp(x, &e);
    return e - 1;
}

/* x / y to odd, exact for powers of two: the one rounding that counts is the next. */
static double odd_quotient(double x, double y)
{
    double q = x / y, rest = isfinite(q) ? fma(-q, y, x) : 0;
    uint64_t bits;

    if (rest == 0)
        return q;
    if ((rest < 0) != (x < 0))
        q = nextafter(q, 0);
    __builtin_memcpy(&bits, &q, 8);
    bits |= 1;
    __builtin_memcpy(&q, &bits, 8);
    return q;
}

/* The scale of a block whose largest magnitude is `most`, finite and not zero. */
static double scale_of(const limber_unit *u, const limber_step *s, double most)
{
    static const limber_step ue4m3 = {
        { LIMBER_KIND_FLOAT, 4, 3, LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_SATURATE, 7, 1, 0 },
        LIMBER_RN, 0
    };
    limber_format f = s->format;
    double top = limber_format_largest(f), unit;
    int e = exponent(most), loss;

    if (u->scale == LIMBER_UE4M3)
        return limber_step_value(&ue4m3, odd_quotient(most, top), 0, 0, &loss);
    if (u->scale_rule == LIMBER_SCALE_EVEN) {
        unit = ldexp(1, e - f.frac_bits);
        e = exponent(rint(most / unit) * unit);
    }
    e -= limber_format_emax(f);
    if (u->scale_rule == LIMBER_SCALE_CEIL)
        e += ldexp(most, -e) > top;
    return ldexp(1, e < -127 ? -127 : e > 127 ? 127 : e);
}

/* alone: the exponent is the scale's, of a whole term. */
static void load_one(const limber_step *s, double x, double scale, bool alone,
                     struct loaded *out)
{
    bool scaled = scale > 0;    /* a scale that is zero leaves zeros, and what is not finite */
    double one = scaled ? scale : 1, v;
    int loss;

    v = scaled || !isfinite(x) ? limber_step_value(s, odd_quotient(x, one), 0, 0, &loss) :
        copysign(0, x);
    out->exponent = exponent(one) + (alone ? 0 : limber_unit_exponent(s->format, v));
    out->value = (float)(v * one);
}

void limber_unit_load(const limber_unit *u, int side, const double *line, int64_t k,
                      struct loaded *out)
{
    const limber_step *s = side ? &u->b : &u->a;
    int64_t block = u->scale ? u->scale_block : k > 0 ? k : 1;

    for (int64_t from = 0; from < k; from += block) {
        int64_t to = k - from < block ? k : from + block;
        double most = 0, scale = 1;

        for (int64_t p = from; u->scale && p < to; p++)
            if (isfinite(line[p]) && fabs(line[p]) > most)
                most = fabs(line[p]);
        if (u->scale)
            scale = most > 0 ? scale_of(u, s, most) : 1;
        for (int64_t p = from; p < to; p++)
            load_one(s, line[p], scale, u->sub > 1, &out[p]);
    }
}
