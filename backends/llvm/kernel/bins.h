/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of products in bins, LANES sums at a time, for what pairs of doubles leave undecided.  A bin
 * is a double that starts far from zero, so that all of its sums are multiples of one power of two
 * and lose a known part of each addend exactly.  That part goes to the next bin, and what the last
 * bin loses is summed in a plain double.
 *
 *   proof   docs/accuracy.md, "Bins"
 *   source  Demmel and Nguyen, IEEE Trans. Comput. 64 (2015), section 4 (cutting by a constant) */
#ifndef LIMBER_KERNEL_BINS_H
#define LIMBER_KERNEL_BINS_H

#include "backends/llvm/kernel/lanes.h"

/* Finished sums: high + low + rest, without overlap. */
struct exact_sums {
    vd high, low, rest;
};

/* Sums while products are added: the bin of products, two bins of what it loses and of the
 * products' rounding errors, and what these two lose.  Deep sums have two bins for that, too, and
 * `low` is what the last two lose.  first, second, third: where the bins of each level start. */
struct bins {
    vd first, second, third;
    vd products, lost, errors, lost_again, errors_again, low;
};

/* The lanes in which products whose magnitudes sum to at most `most` may be added in bins: rounding
 * errors of such products are representable, and the bins' starts finite. */
FLAT vl fits_bins(vd most)
{
    return (vl)(most == 0) | ((vl)(most > 0x1p-900) & (vl)(most < 0x1p1000));
}

/* Begins sums of k products whose magnitudes sum to at most `most`, which fits. */
FLAT struct bins begin_bins(vd most, int64_t k)
{
    struct bins s = { .first = far_of(most) };

    /* a product loses up to half of the bin's last bit, and rounding errors are smaller */
    s.second = far_of(s.first * ((double)(k + 1) * 0x1p-53));
    s.third = far_of(s.second * ((double)(k + 1) * 0x1p-53));
    s.products = s.first;
    s.lost = s.errors = s.second;
    s.lost_again = s.errors_again = s.third;
    return s;
}

/* Adds x to a bin; returns what the bin loses of it.  one: 1.  A multiply-add by 1 is an addition,
 * which some CPUs execute in another unit. */
FLAT vd add_to_bin(vd *bin, vd x, vd one)
{
    const vd sum = *bin + x, taken = sum - *bin;

    *bin = sum;
    return fma_of(x, one, -taken);
}

/* 1, read at run time.  With a constant the compiler would turn the multiply-adds by 1 into
 * additions. */
static const volatile double one_at_run_time = 1;

/* Adds n products A * B to *s.  A and B are expressions in the loop's index p.  The sums are
 * plain variables, since GCC keeps no structures in registers. */
#define ADD_TO_BINS(s, n, deep, A, B) \
    do { \
        const vd one_ = all_of(one_at_run_time); \
        vd products_ = (s)->products, lost_ = (s)->lost, errors_ = (s)->errors, low_ = (s)->low; \
        vd lost_again_ = (s)->lost_again, errors_again_ = (s)->errors_again; \
        for (int64_t p = 0; p < (n); p++) { \
            const vd a_ = (A), b_ = (B), product_ = a_ * b_; \
            const vd error_ = fma_of(a_, b_, -product_); \
            vd rest_ = add_to_bin(&products_, product_, one_); \
            vd least_ = add_to_bin(&errors_, error_, one_); \
            rest_ = add_to_bin(&lost_, rest_, one_); \
            if (deep) { \
                rest_ = add_to_bin(&lost_again_, rest_, one_); \
                least_ = add_to_bin(&errors_again_, least_, one_); \
            } \
            low_ += rest_ + least_; \
        } \
        (s)->products = products_, (s)->lost = lost_, (s)->errors = errors_, (s)->low = low_; \
        (s)->lost_again = lost_again_, (s)->errors_again = errors_again_; \
    } while (0)

/* Joins the bins of each lane's sum to three doubles without overlap. */
FLAT struct exact_sums finish_bins(const struct bins *s)
{
    /* exact, and the last two are 0 but in deep sums */
    const vd middle = (s->lost - s->second) + (s->errors - s->second);
    const vd again = (s->lost_again - s->third) + (s->errors_again - s->third);
    struct exact_sums r;
    vd one, two, three;
    const vd sum = two_sum(s->products - s->first, middle, &one);

    one = two_sum(one, again, &two);
    two = two_sum(two, s->low, &three);
    one = two_sum(one, two, &two);
    r.high = two_sum(sum, one, &one);
    r.low = two_sum(one, two, &two);
    r.rest = two + three;
    return r;
}

/* Error bounds of sums of k products. last: where the last bins start, `second` or `third`. */
FLAT vd bins_error(vd last, int64_t k)
{
    return last * ((double)(k + 2) * (double)(k + 2) * 0x1p-105);
}

/* True if a sum of k products lost nothing: all products are multiples of 2^unit, and what the last
 * bins lost stays below 2^52 of that. */
FLAT bool bins_are_exact(double last, int64_t k, int unit)
{
    return unit >= -1074 &&
           last * ((double)(k + 2) * 0x1p-52) <= ldexp(1, (unit < 900 ? unit : 900) + 52);
}

/* Lowers each lane of *lowest to the lowest bit of v's number there, as a power of two.  Zeros and
 * infinities have none.  *lowest begins as INFINITY. */
FLAT void take_lowest_bits(vl *lowest, vd v)
{
    const vl infinite = (vl)all_of(INFINITY), bits = (vl)v & INT64_MAX;
    const vl power = (bits & (((int64_t)1 << 52) - 1)) == 0;
    vl bit = (vl)((vd)bits - (vd)(bits & (bits - 1)));

    bit = ((power & bits) | (~power & bit)) | ((bits == 0) & infinite);
    *lowest = -larger(-*lowest, -bit);
}

#endif
