/* SPDX-License-Identifier: BSD-3-Clause
 * Operands as a simulated unit sees them: rounded on load, blocks of them scaled. */
#include "ir/unit_num.h"

#include <math.h>

/* The largest value of a format. */
static double largest(limber_format f)
{
    double ulps = f.flags & LIMBER_FORMAT_NO_INF ? 2 : 1;

    return ldexp(2 - ulps * ldexp(1, -f.frac_bits), limber_format_emax(f));
}

static int exponent(double x)
{
    int e;

    frexp(x, &e);
    return e - 1;
}

/* The scale of a block whose largest magnitude is `most`, finite and not zero. */
static double scale_of(const limber_unit *u, const limber_step *s, double most)
{
    limber_format f = s->format;
    int e = exponent(most), loss;

    if (u->scale == LIMBER_UE4M3) {
        limber_step scale = { { LIMBER_KIND_FLOAT, 4, 3, LIMBER_FORMAT_NO_INF |
                                LIMBER_FORMAT_SATURATE, 7, 1, 0 }, LIMBER_RN, 0 };
        double quotient = most / largest(f), rest = fma(-quotient, largest(f), most);
        struct limber_num x, y;

        /* the quotient is nudged off a tie that it is not on: to odd */
        if (rest != 0) {
            uint64_t bits;

            if (rest < 0)
                quotient = nextafter(quotient, 0);
            __builtin_memcpy(&bits, &quotient, 8);
            bits |= 1;
            __builtin_memcpy(&quotient, &bits, 8);
        }
        limber_num_from_f64(&x, quotient);
        limber_step_round(&y, &scale, &x, 0, 0, 0, &loss);
        return limber_num_value(&y);
    }
    if (u->scale_rule == LIMBER_SCALE_EVEN) {
        double unit = ldexp(1, e - f.frac_bits);

        e = exponent(rint(most / unit) * unit);
    } else if (u->scale_rule == LIMBER_SCALE_CEIL) {
        double top = largest(f);

        e -= limber_format_emax(f);
        e += ldexp(most, -e) > top;
        e = e < -127 ? -127 : e > 127 ? 127 : e;
        return ldexp(1, e);
    }
    e -= limber_format_emax(f);
    return ldexp(1, e < -127 ? -127 : e > 127 ? 127 : e);
}

static void load_one(const limber_step *s, double x, double scale, int term, struct loaded *out)
{
    double v = 0;
    int loss, e = 0;

    if (scale > 0) {
        double y = x / scale;       /* exact for powers of two */
        double rest = isfinite(y) ? fma(-y, scale, x) : 0;

        if (rest != 0) {            /* to odd: the one rounding that counts is the next */
            uint64_t bits;

            if ((rest < 0) != (x < 0))
                y = nextafter(y, 0);
            __builtin_memcpy(&bits, &y, 8);
            bits |= 1;
            __builtin_memcpy(&y, &bits, 8);
        }
        v = limber_step_value(s, y, 0, 0, &loss);
        e = limber_unit_exponent((limber_format){ .bias = 10000 }, scale);
    } else if (x != x || isinf(x)) {
        v = limber_step_value(s, x, 0, 0, &loss);
        scale = 1;
    } else {
        v = copysign(0, x);
        scale = 1;
    }
    out->exponent = e + (term ? 0 : limber_unit_exponent(s->format, v));
    out->value = (float)(v * scale);
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
