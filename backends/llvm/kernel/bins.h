/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of products in bins, LANES sums at a time, for elements whose rounding double-double sums
 * leave uncertain.  A bin is a double that starts far from zero.  So all values of a bin are
 * multiples of one power of two, and the part of each addend that a bin loses is known exactly.
 * That part is added to the next bin; what the last bin loses is summed in a plain double.
 *
 *   proof   docs/accuracy.md, "Bins"
 *   source  Demmel and Nguyen, IEEE Trans. Comput. 64 (2015), section 4 (cutting by a constant) */
#ifndef LIMBER_KERNEL_BINS_H
#define LIMBER_KERNEL_BINS_H

#include "backends/llvm/kernel/lanes.h"

/* The sum of each lane's bins: high + low + rest, three doubles whose bits do not overlap. */
struct exact_sums {
    vd high, low, rest;
};

/* Bins to which products are added.  A bin is a sum with so large a start value that what an
 * addition loses is exact.  `products` sums the products, `lost` what that bin loses, and
 * `errors` the products' rounding errors.  What `lost` and `errors` lose is added to `low` or, in
 * deep sums, to the bins lost_again and errors_again; `low` then sums what these two lose.  first,
 * second, third: start values of the three levels of bins. */
struct bins {
    vd first, second, third;
    vd products, lost, errors, lost_again, errors_again, low;
};

/* Returns a mask of the lanes that bins can sum.  `most` bounds the sum of the products' magnitudes
 * in each lane.  In these lanes the rounding errors of products are representable, and the bins'
 * start values are finite. */
FLAT vl fits_bins(vd most)
{
    return (vl)(most == 0) | ((vl)(most > 0x1p-900) & (vl)(most < 0x1p1000));
}

/* Returns empty bins for sums of k products whose magnitudes sum to at most `most`.
 * fits_bins(most) must hold. */
FLAT struct bins begin_bins(vd most, int64_t k)
{
    struct bins s = { .first = far_of(most) };

    /* the first bin loses at most half of its last bit per product, and rounding errors are
     * smaller */
    s.second = far_of(s.first * ((double)(k + 1) * 0x1p-53));
    s.third = far_of(s.second * ((double)(k + 1) * 0x1p-53));
    s.products = s.first;
    s.lost = s.errors = s.second;
    s.lost_again = s.errors_again = s.third;
    return s;
}

/* Adds x to a bin.  Returns the part of x that the bin loses.  one: a vector of ones, since some
 * CPUs execute a multiply-add by 1 in another unit than an addition. */
FLAT vd add_to_bin(vd *bin, vd x, vd one)
{
    const vd sum = *bin + x, taken = sum - *bin;

    *bin = sum;
    return fma_of(x, one, -taken);
}

/* The number 1, read at run time, since the compiler would turn multiply-adds by a constant 1 into
 * additions. */
static const volatile double one_at_run_time = 1;

/* Adds n products A * B to *s, where A and B are expressions in the loop's index p.  deep: uses the
 * third level of bins.  The sums are plain variables, since GCC does not keep structures in
 * registers. */
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

/* Returns the sum of each lane's bins, as three doubles that do not overlap. */
FLAT struct exact_sums finish_bins(const struct bins *s)
{
    /* `middle` and `again` are exact; `again` is 0 unless the sums are deep */
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

/* Returns error bounds of sums of k products.  last: start value of the last level of bins,
 * `second` or `third`. */
FLAT vd bins_error(vd last, int64_t k)
{
    return last * ((double)(k + 2) * (double)(k + 2) * 0x1p-105);
}

/* True if binning k products lost no bits: all products are multiples of 2^unit, and the last
 * level's error bound, last (k + 2) 2^-104, is at most 2^unit.  last: start value of the last
 * level. */
FLAT bool bins_are_exact(double last, int64_t k, int unit)
{
    return unit >= -1074 &&
           last * ((double)(k + 2) * 0x1p-52) <= ldexp(1, (unit < 900 ? unit : 900) + 52);
}

/* Lowers each lane of *lowest to the value of the lowest set bit of v's number in that lane.  Zeros
 * and infinities leave *lowest unchanged.  *lowest must start as INFINITY. */
FLAT void take_lowest_bits(vl *lowest, vd v)
{
    const vl infinite = (vl)all_of(INFINITY), bits = (vl)v & INT64_MAX;
    const vl power = (bits & (((int64_t)1 << 52) - 1)) == 0;
    vl bit = (vl)((vd)bits - (vd)(bits & (bits - 1)));

    bit = ((power & bits) | (~power & bit)) | ((bits == 0) & infinite);
    *lowest = -larger(-*lowest, -bit);
}

#endif
