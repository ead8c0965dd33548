/* SPDX-License-Identifier: BSD-3-Clause
 * Bit patterns of elements, as they are stored in memory. */
#ifndef LIMBER_CUDA_RAW_H
#define LIMBER_CUDA_RAW_H

/* The type that holds an element of `size` bytes. */
template <int size> struct raw_of;
template <> struct raw_of<1> { typedef uint8_t type; };
template <> struct raw_of<2> { typedef uint16_t type; };
template <> struct raw_of<4> { typedef uint32_t type; };
template <> struct raw_of<8> { typedef uint64_t type; };
template <> struct raw_of<16> { typedef bytes16 type; };

/* Loads an element of `size` bytes.  Elements of 16 bytes need to be aligned only to 8. */
template <int size> DEVICE typename raw_of<size>::type load_raw(const void *p)
{
    if constexpr (size == 16) {
        bytes8 low = load<bytes8>(p), high = load<bytes8>((const char *)p + 8);

        return { { low.w[0], low.w[1], high.w[0], high.w[1] } };
    } else {
        return load<typename raw_of<size>::type>(p);
    }
}

/* Stores an element of `size` bytes.  p is aligned to the size, or to 8 for 16 bytes. */
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

#endif
