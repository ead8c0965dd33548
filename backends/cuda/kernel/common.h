/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the kernels of a plan; what is constant in it stands in front of this file. */
#ifndef LIMBER_CUDA_COMMON_H
#define LIMBER_CUDA_COMMON_H

template <int size> struct raw_of;
template <> struct raw_of<1> { typedef uint8_t type; };
template <> struct raw_of<2> { typedef uint16_t type; };
template <> struct raw_of<4> { typedef uint32_t type; };
template <> struct raw_of<8> { typedef uint64_t type; };
template <> struct raw_of<16> { typedef bytes16 type; };

/* An element of `size` bytes as it lies in memory; dd and binary128 need only be aligned to 8. */
template <int size> DEVICE typename raw_of<size>::type load_raw(const void *p)
{
    if constexpr (size == 16) {
        bytes8 low = load<bytes8>(p), high = load<bytes8>((const char *)p + 8);

        return { { low.w[0], low.w[1], high.w[0], high.w[1] } };
    } else {
        return load<typename raw_of<size>::type>(p);
    }
}

template <int size> DEVICE void store_raw(void *p, const void *from)
{
    if constexpr (size == 16) {
        bytes8 half[2];

        memcpy(half, from, 16);
        store(p, half[0]);
        store((char *)p + 8, half[1]);
    } else {
        typename raw_of<size>::type v;

        memcpy(&v, from, size);
        store(p, v);
    }
}

/* 2^e for normal results. */
DEVICE double power_of_two(int e)
{
    return bits_double((uint64_t)(1023 + e) << 52);
}

/* A float of at most binary64. */
DEVICE double double_of(limber_format f, const void *p)
{
    limber_num x;
    double v;
    float narrow;

    if (f.kind == LIMBER_KIND_FLOAT && f.size == 8 && (f.carried || f.frac_bits == 52)) {
        memcpy(&v, p, 8);
        return v;
    }
    if (f.kind == LIMBER_KIND_FLOAT && f.size == 4 && (f.carried || f.frac_bits == 23)) {
        memcpy(&narrow, p, 4);
        return (double)narrow;
    }
    limber_num_decode(&x, f, p);
    limber_num_encode(&v, { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 }, &x, 0, LIMBER_RN);
    return v;
}

/* The power of two of a scaled line; all lines of an operand may have the same. */
template <int S> DEVICE int scale_of(const int32_t *emax, int64_t line)
{
    int e = emax ? load<int32_t>(emax + (SIDES[S].scaled == SCALED_all ? 0 : line)) : INT32_MIN;

    return e == INT32_MIN ? 0 : SIDES[S].top - 1 - e;
}

/* 16-byte piece c of row r of a tile whose rows have STEP bytes: neighbours in a column of pieces
 * lie in different banks. */
DEVICE uint32_t piece_at(int r, int c)
{
    return (uint32_t)(r * STEP + ((c ^ (STEP == 128 ? r & 7 : r >> 1 & 3)) << 4));
}

#endif
