/* SPDX-License-Identifier: BSD-3-Clause
 * Interleaves bytes of several rows, and gathers elements at a constant distance. */
#ifndef LIMBER_KERNEL_JOIN_H
#define LIMBER_KERNEL_JOIN_H

#include <stdint.h>
#include <string.h>

typedef int8_t joined_bytes __attribute__((vector_size(16)));
typedef int16_t joined_pairs __attribute__((vector_size(16)));
typedef int16_t widened_bytes __attribute__((vector_size(32)));
typedef uint8_t joined_unsigned __attribute__((vector_size(16)));
typedef uint16_t widened_unsigned __attribute__((vector_size(32)));

/* Interleaves sixteen bytes of each of four rows, into 64 bytes. */
static inline __attribute__((always_inline)) void join_four(const char *const row[4], char *to)
{
    joined_bytes r[4], low[2], high[2];

    for (int i = 0; i < 4; i++)
        memcpy(&r[i], row[i], sizeof r[i]);
    for (int i = 0; i < 2; i++) {
        low[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                         5, 21, 6, 22, 7, 23);
        high[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                          28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 2; i++) {
        joined_pairs a = (joined_pairs)(i ? high[0] : low[0]);
        joined_pairs b = (joined_pairs)(i ? high[1] : low[1]);
        joined_pairs first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        joined_pairs second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);

        memcpy(to + 32 * i, &first, sizeof first);
        memcpy(to + 32 * i + 16, &second, sizeof second);
    }
}

/* Extends sixteen bytes to 16 bits each: signed if `sign`, else unsigned. */
static inline __attribute__((always_inline)) void widen_bytes(const char *from, int sign, char *to)
{
    joined_bytes bytes;
    widened_bytes wide;

    memcpy(&bytes, from, sizeof bytes);
    wide = sign ? __builtin_convertvector(bytes, widened_bytes) :
                  (widened_bytes)__builtin_convertvector((joined_unsigned)bytes, widened_unsigned);
    memcpy(to, &wide, sizeof wide);
}

/* Interleaves sixteen bytes of each of two rows, into 32 bytes. */
static inline __attribute__((always_inline)) void join_two(const char *const row[2], char *to)
{
    joined_bytes r[2], turned[2];

    for (int i = 0; i < 2; i++)
        memcpy(&r[i], row[i], sizeof r[i]);
    turned[0] = __builtin_shufflevector(r[0], r[1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                        7, 23);
    turned[1] = __builtin_shufflevector(r[0], r[1], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                        14, 30, 15, 31);
    memcpy(to, turned, sizeof turned);
}

/* Interleaves sixteen bytes of each of two rows, each extended to 16 bits. */
static inline __attribute__((always_inline)) void join_two_widened(const char *const row[2],
                                                                   int sign, char *to)
{
    char both[32];

    join_two(row, both);
    widen_bytes(both, sign, to);
    widen_bytes(both + 16, sign, to + 32);
}

/* Copies `count` elements of `size` bytes, `step` elements apart, to contiguous memory. */
static inline __attribute__((always_inline)) void
join_steps(char *to, const char *from, int64_t step, int64_t count, int size)
{
    for (int64_t l = 0; l < count; l++)
        memcpy(to + l * size, from + l * step * size, (size_t)size);
}

#endif
