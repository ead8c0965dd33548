/* SPDX-License-Identifier: BSD-3-Clause
 * Rounds doubles to nearest in formats of 8 or 16 bits, eight at a time. */
#ifndef LIMBER_KERNEL_NARROW_H
#define LIMBER_KERNEL_NARROW_H

/* True if narrow_codes can round to C's format. */
FLAT int stores_narrow(const struct kernel_call *c)
{
    return limber_num_is_small(CFG(c).c);
}

/* Returns, in each lane, `yes` if the mask is set, else `no`. */
FLAT v8l choose(v8l mask, v8l yes, v8l no)
{
    return (yes & mask) | (no & ~mask);
}

/* Returns the bit patterns of eight numbers, rounded to nearest even in C's format. */
FLAT v8l narrow_codes(const struct kernel_call *c, v8d x)
{
    const limber_format f = CFG(c).c;
    const int finite = f.flags & LIMBER_FORMAT_FINITE, no_inf = f.flags & LIMBER_FORMAT_NO_INF;
    const int shift = 52 - f.frac_bits;
    const int64_t fraction = (1LL << f.frac_bits) - 1;
    const int64_t top = ((1LL << f.exp_bits) - 1) << f.frac_bits, all = top | fraction;
    const int64_t nan = finite ? 0 : no_inf ? all : top | (fraction / 2 + 1);
    const int64_t largest = finite ? all : (no_inf ? all : top) - 1;
    const int64_t past = finite || f.flags & LIMBER_FORMAT_SATURATE ? largest : no_inf ? nan : top;
    const int64_t infinity = finite || no_inf ? past : top;
    /* least: bits of the smallest normal number; bias: subtracted from a double's bits before they
     * are shifted to C's format */
    const int64_t least = (int64_t)(1024 - f.bias) << 52, bias = least - (1LL << 52);
    const double quantum = power_of_two(1 - f.bias - f.frac_bits);
    v8l bits = (v8l)x & INT64_MAX, e, code, few, over;
    v8d v, unit, r;

    over = choose(bits == 2047LL << 52, all_l(infinity), all_l(past));
    /* limit to 2^600, so that `unit` is finite; all larger numbers overflow anyway */
    bits = choose(bits > 1623LL << 52, all_l(1623LL << 52), bits);
    e = bits & (2047LL << 52);
    e = choose(e < least, all_l(least), e);
    unit = (v8d)(e + ((int64_t)shift << 52)) * 1.5;
    v = (v8d)bits;
    r = (v + unit) - unit;
    few = (v8l)(r * (1 / quantum) + 0x1p52) & ((1LL << 52) - 1);
    /* the bit pattern without its sign */
    code = choose((v8l)r >= least, (v8l)((v8u)((v8l)r - bias) >> shift), few);
    code = choose(code > largest, over, code);
    code |= ((v8l)x < 0) & (1LL << (f.frac_bits + f.exp_bits));
    return choose((v8l)(x != x), all_l(nan), code);
}

/* Stores eight bit patterns of two bytes or of one byte. */
FLAT void put_codes(const struct kernel_call *c, char *to, v8l code)
{
    if (CFG(c).c.size == 2) {
        v8h two = TO(v8h, code);

        STORE(to, two);
    } else {
        v8c one = TO(v8c, code);

        STORE(to, one);
    }
}

/* Converts integers to doubles, rounded to odd: if nonzero bits are lost, the last bit is set. */
FLAT v8d odd_double(v8l v)
{
    v8l size = choose(v < 0, -v, v), cut = (v >> 11 | ((v8l)((v & 2047) != 0) & 1)) << 11;

    return TO(v8d, choose(size >> 53 != 0, cut, v));
}

#endif
