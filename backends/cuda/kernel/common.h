/* SPDX-License-Identifier: BSD-3-Clause
 * Code that several kernels of a plan use.  The plan's constants come before this file in the
 * source.  Template parameter S is 0 for operand A, 1 for B. */
#ifndef LIMBER_CUDA_COMMON_H
#define LIMBER_CUDA_COMMON_H

#include "raw.h"

constexpr bool IS_INTEGER_RESULT = RESULT.kind == LIMBER_KIND_INT ||
                                   RESULT.kind == LIMBER_KIND_SHORT;

/* True for floats of at most 64 bits whose largest exponent means infinity or NaN, as in IEEE
 * 754. */
DEVICE constexpr bool is_ieee(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && !f.flags && !f.carried && f.size <= 8;
}

/* True for FP64 and FP32. */
DEVICE constexpr bool is_binary(limber_format f)
{
    return is_ieee(f) &&
           ((f.size == 8 && f.exp_bits == 11 && f.frac_bits == 52 && f.bias == 1023) ||
            (f.size == 4 && f.exp_bits == 8 && f.frac_bits == 23 && f.bias == 127));
}

/* True if this kernel must do nothing, since the guard (a check of the data) has chosen another
 * plan than number `mine`. */
DEVICE bool is_left(const int32_t *choice, int32_t mine)
{
    return choice && load<int32_t>(choice) != mine;
}

/* ---- elements of operands -------------------------------------------------------------------- */

template <int S> struct raw_element { typedef typename raw_of<SIDES[S].f.size>::type type; };

/* Negates an element by changing its bit pattern; integers are in two's complement. */
template <int S> DEVICE void negate(typename raw_element<S>::type &e)
{
    constexpr limber_format f = SIDES[S].f;

    if constexpr (f.size == 16) {
        e.w[3] ^= 0x80000000;
        e.w[1] ^= f.kind == LIMBER_KIND_DD ? 0x80000000 : 0;
    } else if constexpr (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT) {
        e = (typename raw_element<S>::type)(0 - e);
    } else {
        constexpr int bit = f.carried ? 8 * f.size - 1 : f.exp_bits + f.frac_bits;

        e = (typename raw_element<S>::type)(e ^ (typename raw_element<S>::type)1 << bit);
    }
}

/* Loads an integer of 1, 2 or 4 bytes. */
DEVICE int64_t load_small_integer(const void *p, int bytes, bool is_unsigned)
{
    if (bytes == 1)
        return is_unsigned ? load<uint8_t>(p) : load<int8_t>(p);
    if (bytes == 2)
        return is_unsigned ? load<uint16_t>(p) : load<int16_t>(p);
    return is_unsigned ? (int64_t)load<uint32_t>(p) : (int64_t)load<int32_t>(p);
}

/* Loads element (line, p) of a complex matrix that is read as a real matrix.  Widens integers, and
 * applies the sign that the index map gives. */
template <int S>
DEVICE typename raw_element<S>::type load_pair(const struct pair_map &w, const char *at,
                                               int64_t line, int64_t p)
{
    typename raw_element<S>::type e;

    if constexpr (SIDES[S].f.kind == LIMBER_KIND_INT)
        e = (typename raw_element<S>::type)(
            w.stored ? load_small_integer(at, w.stored, w.is_unsigned) :
                       (int64_t)load_raw<SIDES[S].f.size>(at));
    else
        e = load_raw<SIDES[S].f.size>(at);
    if (limber_pair_minus(&w, line, p))
        negate<S>(e);
    return e;
}

/* Loads element (line, p) of an operand.  Returns false if it is a zero without memory: padding, or
 * in a tile that the product does not use. */
template <int S>
DEVICE bool load_element(typename raw_element<S>::type &e, const struct view &v, int64_t line,
                         int64_t p)
{
    const char *at = limber_view_at(&v, line, p, SIDES[S].f.size);

    if (!at)
        return false;
    e = v.pairs ? load_pair<S>(*v.pairs, at, line, p) :
        load_raw<SIDES[S].f.size>(at);
    return true;
}

/* True if neighbours along k are closer together in memory than neighbouring lines. */
DEVICE bool lies_along(const struct view &v)
{
    return v.pairs ? v.p == 2 : !v.patch && v.p <= v.line;
}

/* ---- powers of two and doubles --------------------------------------------------------------- */

/* Returns 2^e, if that is a normal double. */
DEVICE double power_of_two(int e)
{
    return bits_double((uint64_t)(1023 + e) << 52);
}

/* Returns the double nearest to an element.  Floats of at most 64 bits are converted exactly. */
DEVICE double double_of(limber_format f, const void *p)
{
    limber_num x;
    int sticky = 0;
    double v;
    float narrow;

    if (limber_num_is_f64(limber_num_carrier(f))) {
        memcpy(&v, p, 8);
        return v;
    }
    if (limber_num_is_f32(limber_num_carrier(f))) {
        memcpy(&narrow, p, 4);
        return (double)narrow;
    }
    if (f.kind == LIMBER_KIND_DD)
        sticky = limber_num_decode_dd(&x, p);
    else
        limber_num_decode(&x, f, p);
    limber_num_encode(&v, limber_binary64(), &x, sticky,
                      LIMBER_ROUND_NEAREST);
    return v;
}

/* Returns the exponent of the power of two that scales a line (row of A or column of B); 0 for a
 * line of zeros.  emax: largest exponent of each line, or one for all lines. */
template <int S> DEVICE int scale_of(const int32_t *emax, int64_t line)
{
    int e = emax ? load<int32_t>(emax + (SIDES[S].scaled == SCALED_all ? 0 : line)) : INT32_MIN;

    return e == INT32_MIN ? 0 : SIDES[S].top - 1 - e;
}

#endif
