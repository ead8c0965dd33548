/* SPDX-License-Identifier: BSD-3-Clause
 * Complex products by three real products: sums of real and imaginary parts, and complex results
 * from the three products.  For host memory jit/api/complex3.c does the same. */
#ifndef LIMBER_CUDA_PLANES_H
#define LIMBER_CUDA_PLANES_H

/* Arithmetic for FP64, FP32 and integers, which wrap modulo 2^64. */
DEVICE double add_numbers(double a, double b) { return add64(a, b); }
DEVICE float add_numbers(float a, float b) { return add32(a, b); }
DEVICE int64_t add_numbers(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
DEVICE int64_t negate_number(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
template <class T> DEVICE T negate_number(T a) { return -a; }

/* The type in which numbers of `size` bytes are computed. */
template <int size, bool is_integer> struct number { typedef int64_t type; };
template <> struct number<4, false> { typedef float type; };
template <> struct number<8, false> { typedef double type; };

/* Loads a real or imaginary part, converted to type T. */
template <class T> DEVICE T load_part(const char *at)
{
    constexpr limber_format f = SIDES[0].f;

    if constexpr (f.kind != LIMBER_KIND_INT && f.kind != LIMBER_KIND_UINT)
        return load<T>(at);
    else if constexpr (f.size < 8)
        return load_small_integer(at, f.size, f.kind == LIMBER_KIND_UINT);
    else
        return load<int64_t>(at);
}

/* Stores a sum as element x at `to`.  Sums of integers have twice the integers' size; those of
 * 64-bit integers wrap. */
template <class T> DEVICE void store_sum(char *to, int64_t x, T sum)
{
    if constexpr (SIDES[0].f.kind != LIMBER_KIND_INT && SIDES[0].f.kind != LIMBER_KIND_UINT)
        store((T *)to + x, sum);
    else if constexpr (SIDES[0].f.size == 1)
        store((int16_t *)to + x, (int16_t)sum);
    else if constexpr (SIDES[0].f.size == 2)
        store((int32_t *)to + x, (int32_t)sum);
    else
        store((int64_t *)to + x, (int64_t)sum);
}

/* Returns |x|, which is right for -2^63, too. */
DEVICE uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* Updates `most` by the magnitudes of two integers.  For floats it does nothing. */
template <class T> DEVICE void update_most(uint64_t &, T, T) {}
DEVICE void update_most(uint64_t &most, int64_t re, int64_t im)
{
    most = magnitude(re) > most ? magnitude(re) : most;
    most = magnitude(im) > most ? magnitude(im) : most;
}

constexpr bool IS_INTEGER = SIDES[0].f.kind == LIMBER_KIND_INT ||
                            SIDES[0].f.kind == LIMBER_KIND_UINT;

/* Stores Re + Im or Re - Im of each complex number, and the largest magnitude of integer parts, as
 * struct sums_call (backends/backend.h) describes. */
KERNEL(limber_sums, struct sums_args, PACK_THREADS, 1)
{
    typedef typename number<SIDES[0].f.size, IS_INTEGER>::type T;
    int64_t one = args.outer * args.inner;
    uint64_t most = 0;

    ROLL for (int64_t x = (int64_t)block() * PACK_THREADS + thread(); x < args.count * one;
              x += (int64_t)blocks() * PACK_THREADS) {
        int64_t which = x / one, e = x - which * one;
        const char *at = (const char *)limber_spread_at(args.from, &args.each, which) +
                         (e / args.inner * args.outer_step +
                          e % args.inner * args.inner_step) * SIDES[0].f.size;
        T re = load_part<T>(at), im = load_part<T>(at + SIDES[0].f.size);

        store_sum(args.to, x, add_numbers(re, args.minus ? negate_number(im) : im));
        update_most(most, re, im);
    }
    if (args.most && most)
        atomic_max(args.most, most);
}

/* Combines three real products P1, P2, P3 into complex results: Re = P1 - s t P2 and Im = P3 - P1 -
 * s t P2 (jit/operators/complex3.c).  s and t are the signs of the imaginary parts of A and B;
 * args.plus means that s t = -1.  Integers have 64 bits. */
KERNEL(limber_pairs, struct pairs_args, PACK_THREADS, 1)
{
    typedef typename number<SIDES[0].f.size, IS_INTEGER>::type T;

    ROLL for (int64_t x = (int64_t)block() * PACK_THREADS + thread(); x < args.count;
              x += (int64_t)blocks() * PACK_THREADS) {
        T p1 = load<T>((const T *)args.product[0] + x),
          p2 = load<T>((const T *)args.product[1] + x);
        T p3 = load<T>((const T *)args.product[2] + x), second = args.plus ? p2 : negate_number(p2);

        store((T *)args.to + x * args.width, add_numbers(p1, second));
        store((T *)args.to + x * args.width + 1,
              add_numbers(add_numbers(p3, negate_number(p1)), second));
    }
}

#endif
