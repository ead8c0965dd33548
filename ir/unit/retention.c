/* SPDX-License-Identifier: BSD-3-Clause
 * Predicts how much of the variance of a sum an accumulator with few bits keeps (variance retention
 * ratio, VRR).
 *
 * Model: n terms of variance 1 with p fraction bits are added one by one to an accumulator with a
 * fraction bits.  A sum of i terms has a magnitude of about sqrt(i).  From 2^a on it swamps a term
 * completely, from 2^(a-p+j) on the last j bits of a term.  Q is the upper tail of the normal
 * distribution, 2 Q(x) = erfc(x / sqrt 2).
 *
 *   alpha_j = 2^(a-3p)/3 sum_{i<j} 2^i (2^i - 1) (2^(i+1) - 1),  alpha = alpha_{p+1}
 *   q_i  = 2Q(2^a/sqrt i) (1 - 2Q(2^a/sqrt(i-1)))                      1 < i < n, i > alpha
 *   q'_j = 2^(a-p+j) 2Q(2^(a-p+j-1)/sqrt n) (1 - 2Q(2^(a-p+j)/sqrt n))  1 < j <= p, n > alpha_j
 *   q"   = 1 - 2Q(2^(a-p+1)/sqrt n)
 *   VRR  = (sum (i - alpha) q_i + sum (n - alpha_j) q'_j + n q") / (n (sum q_i + sum q'_j + q"))
 *
 * Source: Sakr, Wang, Chen, Choi, Agrawal, Shanbhag, Gopalakrishnan, ICLR 2019, theorem 1. */
#include "ir/ir.h"
#include "limber/research.h"

#include <math.h>

enum { MOST_BITS = 30, MOST_TERMS = 1 << 24 };

/* Returns 2Q(2^e / sqrt n), the probability that a sum of n terms exceeds 2^e in magnitude. */
static double two_tails(int e, double n)
{
    return erfc(ldexp(M_SQRT1_2, e) / sqrt(n));
}

/* Adds (i - alpha) q_i to *weighted and q_i to *sum, for alpha < i < n.  q_i is the probability
 * that a sum of a fraction bits is first so large at term i that later terms are lost (Sakr et al.,
 * ICLR 2019, theorem 1).  In binary64, q_i is 0 while 2^a > 38 sqrt(i), so smaller i are
 * skipped. */
static void sum_full_swamping(int a, double alpha, int64_t n, double *weighted, double *sum)
{
    int64_t first = (int64_t)fmax(2, fmax(floor(alpha) + 1, floor(ldexp(1, 2 * a) / 1600)));
    double before = first < n ? two_tails(a, (double)(first - 1)) : 0;

    for (int64_t i = first; i < n; i++) {
        double here = two_tails(a, (double)i), q = here * (1 - before);

        *weighted += ((double)i - alpha) * q;
        *sum += q;
        before = here;
    }
}

/* Computes the variance retention ratio of a sum of n terms with p fraction bits in an accumulator
 * with a fraction bits; NaN if an argument is out of range. */
double limber_retention(int a, int p, int64_t n)
{
    double alpha = 0, weighted = 0, sum = 0, last;

    if (a < 1 || a > MOST_BITS || p < 1 || p > MOST_BITS || n < 1 || n > MOST_TERMS)
        return NAN;
    for (int j = 2; j <= p + 1; j++) {
        double x = ldexp(1, j - 1), q;

        /* alpha becomes the source's alpha_j */
        alpha += ldexp(x * (x - 1) * (2 * x - 1) / 3, a - 3 * p);
        if (j > p || (double)n <= alpha)
            continue;
        q = ldexp(two_tails(a - p + j - 1, (double)n) * (1 - two_tails(a - p + j, (double)n)),
                  a - p + j);
        weighted += ((double)n - alpha) * q;
        sum += q;
    }
    sum_full_swamping(a, alpha, n, &weighted, &sum);
    last = 1 - two_tails(a - p + 1, (double)n);
    weighted += (double)n * last;
    sum += last;
    return sum > 0 ? weighted / (sum * (double)n) : 0;
}

/* Variance retention ratio of a sum in `groups` chunks of `length` products: VRR(a, p, length)
 * VRR(a, min(a, p + log2 length), groups). */
double limber_retention_chunked(int a, int p, int64_t length, int64_t groups,
                                limber_chunking chunking)
{
    int more = 0;

    if (chunking != LIMBER_CHUNKING_BY_LENGTH && chunking != LIMBER_CHUNKING_BY_NUMBER)
        return NAN;
    while ((chunking == LIMBER_CHUNKING_BY_NUMBER ? groups : length) >> more > 1)
        more++;
    return limber_retention(a, p, length) *
           limber_retention(a, p + more < a ? p + more : a, groups);
}

/* ---- the retention of all sums of a unit --------------------------------------------------- */

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Returns log2 of n, rounded down. */
static int log2_of(int64_t n)
{
    int e = 0;

    while (n >> e > 1)
        e++;
    return e;
}

/* Returns the variance retention ratio if n terms with *bits fraction bits are added and rounded as
 * s says.  Sets *bits to the fraction bits of their sum. */
static double step_retention(const limber_step *s, int *bits, int64_t n)
{
    int a = s->format.frac_bits, p = min_int(*bits, a);

    *bits = min_int(a, p + log2_of(n));
    return n > 1 ? limber_retention(a, p, n) : 1;
}

/* Returns the number of fraction bits of a product. */
static int product_bits(const limber_unit *u)
{
    if (u->mul.format.kind)
        return u->mul.format.frac_bits;
    return u->a.format.frac_bits + u->b.format.frac_bits + 1;
}

/* Estimates the variance retention ratio of the unit's sums of k products; NaN if there is no
 * estimate for such a unit. */
double limber_unit_retention(const limber_unit *u, int64_t k)
{
    int64_t part, group;
    int bits;
    double r;

    if (!u || k < 1)
        return NAN;
    if (u->acc.format.kind == LIMBER_KIND_INT)
        return 1;
    if (u->acc.format.kind != LIMBER_KIND_FLOAT || u->block > 1 || u->split < 1)
        return NAN;
    bits = product_bits(u);
    part = (k + u->split - 1) / u->split;
    group = u->group && u->group < part ? u->group : part;
    if (u->lanes)
        r = step_retention(&u->acc, &bits, (group + u->lanes - 1) / u->lanes) *
            step_retention(&u->acc, &bits, min_int(u->lanes, (int)group));
    else
        r = step_retention(&u->acc, &bits, group);
    if (u->group)
        r *= step_retention(&u->outer, &bits, (part + group - 1) / group);
    if (u->split > 1)
        r *= step_retention(&u->total, &bits, u->split);
    return r;
}
