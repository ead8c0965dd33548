/* SPDX-License-Identifier: BSD-3-Clause
 * Arithmetic on pairs of doubles, each the unevaluated sum high + low.  Source: Dekker, Numerische
 * Mathematik 18 (1971), 224; Knuth, The Art of Computer Programming 2, 4.2.2, theorem B. */
#ifndef LIMBER_LAPACK_DOUBLE_DOUBLE_H
#define LIMBER_LAPACK_DOUBLE_DOUBLE_H

#include <math.h>

/* The number high + low. */
struct pair {
    double high, low;
};

/* Returns a + b, exactly, as a pair. */
static inline struct pair sum_of(double a, double b)
{
    const double s = a + b, of_b = s - a;

    return (struct pair){ s, (a - (s - of_b)) + (b - of_b) };
}

/* Returns a b, exactly, as a pair. */
static inline struct pair product_of(double a, double b)
{
    const double p = a * b;

    return (struct pair){ p, fma(a, b, -p) };
}

/* Returns a + b in double-double arithmetic. */
static inline struct pair add(struct pair a, struct pair b)
{
    const struct pair s = sum_of(a.high, b.high);

    return sum_of(s.high, s.low + (a.low + b.low));
}

/* Returns a b in double-double arithmetic. */
static inline struct pair multiply(struct pair a, struct pair b)
{
    const struct pair p = product_of(a.high, b.high);

    return sum_of(p.high, p.low + (a.high * b.low + a.low * b.high));
}

/* Returns a / b: the quotient of the high parts, corrected by the remainder. */
static inline struct pair divide(struct pair a, struct pair b)
{
    const double q = a.high / b.high;
    const struct pair back = multiply((struct pair){ q, 0 }, b),
                      rest = add(a, (struct pair){ -back.high, -back.low });

    return sum_of(q, rest.high / b.high);
}

/* Returns the square root of a, corrected by the remainder of one Newton step. */
static inline struct pair root_of(struct pair a)
{
    const double r = sqrt(a.high);
    const struct pair square = product_of(r, r),
                      rest = add(a, (struct pair){ -square.high, -square.low });

    return a.high > 0 ? sum_of(r, rest.high / (2 * r)) : (struct pair){ r, 0 };
}

#endif
