/* SPDX-License-Identifier: BSD-3-Clause
 * Converts floats that are small integers times a unit to 8-bit integers, and 32-bit sums to
 * floats.  This file is compiled once for each instruction set.  Loops have no branches, so that
 * the compiler vectorises them. */
#include "backends/llvm/kernel/kernel.h"


enum { BLOCK = 64 };

/* Defines a function that converts x / unit to 8-bit integers, clamped to [low, high].  It returns
 * nonzero if some element is not represented exactly; NaN and infinities never are. */
#define STORE_AS_BYTES(type) \
    static int store_as_bytes_##type(const type *x, double unit, int low, int high, \
                                     uint8_t *restrict to, int64_t n) \
    { \
        const type scale = (type)(1 / unit), back = (type)unit; \
        const type least = (type)low, most = (type)high; \
        int other = 0; \
        for (int64_t i = 0; i < n; i++) { \
            type y = x[i] * scale; \
            int32_t q; \
            y = y > least ? y : least; \
            y = y < most ? y : most; \
            q = (int32_t)y; \
            other |= (type)q * back != x[i]; \
            to[i] = (uint8_t)q; \
        } \
        return other; \
    }
STORE_AS_BYTES(double)
STORE_AS_BYTES(float)

/* Converts floats of `size` bytes to 8-bit integers.  Returns nonzero if some element is not
 * represented exactly. */
static int store_as_bytes(int size, const void *x, double unit, int low, int high, uint8_t *to,
                          int64_t n)
{
    return size == 8 ? store_as_bytes_double(x, unit, low, high, to, n) :
                       store_as_bytes_float(x, unit, low, high, to, n);
}

/* Implements int8_ops.from_floats.  The last elements are copied, so that they are converted as
 * a full block. */
int FOR_ISA(limber_int8_from_floats)(int size, const void *x, double unit, int low, int high,
                                 uint8_t *restrict to, int64_t n)
{
    const int64_t whole = n / BLOCK * BLOCK;
    double rest[BLOCK] = { 0 };
    uint8_t bytes[BLOCK];
    int other = store_as_bytes(size, x, unit, low, high, to, whole);

    if (n == whole)
        return !other;
    __builtin_memcpy(rest, (const char *)x + whole * size, (size_t)((n - whole) * size));
    other |= store_as_bytes(size, rest, unit, low, high, bytes, BLOCK);
    __builtin_memcpy(to + whole, bytes, (size_t)(n - whole));
    return !other;
}

enum { LANES = 16 };
typedef int32_t sums __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES)));

/* Converts `count` sums to floats of `size` bytes, times `unit`.  The count is a constant except at
 * a line's end. */
static inline __attribute__((always_inline)) void
widen_some(int size, const void *from, double unit, void *to, size_t count)
{
    sums s = { 0 };

    __builtin_memcpy(&s, from, 4 * count);
    if (size == 8) {
        const doubles wide = __builtin_convertvector(s, doubles) * unit;

        __builtin_memcpy(to, &wide, 8 * count);
    } else {
        const floats wide = __builtin_convertvector(s, floats) * (float)unit;

        __builtin_memcpy(to, &wide, 4 * count);
    }
}

/* Converts rows or columns of 32-bit sums to floats of `size` bytes, times w->unit. */
static inline __attribute__((always_inline)) void widen_lines(const struct widened *w, int size)
{
    for (int64_t l = 0; l < w->lines; l++) {
        const char *from = (const char *)w->from + l * w->from_step * 4;
        char *to = (char *)w->to + l * w->to_step * size;
        int64_t i = 0;

        for (; i + LANES <= w->length; i += LANES)
            widen_some(size, from + 4 * i, w->unit, to + size * i, LANES);
        if (i < w->length)
            widen_some(size, from + 4 * i, w->unit, to + size * i, (size_t)(w->length - i));
    }
}

/* Implements int8_ops.to_floats. */
void FOR_ISA(limber_int8_to_floats)(const struct widened *w)
{
    if (w->size == 8)
        widen_lines(w, 8);
    else
        widen_lines(w, 4);
}
