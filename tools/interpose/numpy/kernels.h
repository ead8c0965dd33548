/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of NumPy's loops, compiled once for each instruction set (arithmetic.h).
 *
 * A product is computed by register tiles.  A block of A has its rows behind each other, STRIDE
 * lanes apart.  A strip of B has the tile's columns of each k beside each other.  Sums are in a
 * block of lanes, rows `stride` lanes apart. */
#ifndef LIMBER_NUMPY_KERNELS_H
#define LIMBER_NUMPY_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DEPTH = 128, /* lanes along k of a block of A and of B */
    /* lanes from row to row of a block of A; the distance is not a multiple of 4096 bytes */
    STRIDE = DEPTH + 8,
    STRIP = 32, /* largest number of columns of a tile */
    WORDS_OF_BITS = 32 /* largest number of 64-bit words of a row of bits */
};

/* Types of elements, as far as arithmetic tells them apart. */
enum element { I8, U8, I16, I32, I64, HALF, ELEMENTS };

/* Types of a vector's lanes, and the arithmetic of their products. */
enum lanes {
    FLOATS, /* binary32: rounded after each addition, in the order of k */
    PAIRS, /* two int16 of successive k: both products are added to an int32, modulo 2^32 */
    WORDS, /* int32, modulo 2^32 */
    SHORT_LONGS, /* int64 whose values fit int32; products and sums modulo 2^64 */
    LONGS, /* int64, modulo 2^64 */
    LANES
};

/* Number of elements along k in one lane. */
#define ELEMENTS_OF(lanes) ((lanes) == PAIRS ? 2 : 1)
#define BYTES_OF(lanes) ((lanes) >= SHORT_LONGS ? 8 : 4)

/* A register tile. */
struct multiplier {
    int rows, columns; /* sizes of a register tile */
    /* Adds the product of `rows` rows of A and a strip of B, k lanes deep, to c. */
    void (*run)(int rows, const void *a, const void *b, int64_t k, void *c, int64_t stride);
};

/* A matrix as lines (rows of A, columns of B); distances are in bytes. */
struct place {
    const char *data;
    int64_t line, k; /* from one line to the next, and from one element to the next along k */
};

/* The functions for one set of instructions. */
struct kernels {
    const char *name;
    struct multiplier multiply[LANES];
    /* Packs `rows` rows of A, k elements each, into lanes; adds rows of zeros up to `filled`
     * rows. */
    void (*pack_a)(enum lanes to, enum element from, const struct place *a, int rows, int filled,
                   int64_t k, void *out);
    /* Packs a strip of `columns` columns of B, k elements each, into lanes.  Columns from `live`
     * on become zeros. */
    void (*pack_b)(enum lanes to, enum element from, const struct place *b, int live, int columns,
                   int64_t k, void *out);
    /* Returns the OR of all elements, each XORed with its sign.  It has as many significant
     * bits, without the sign, as the element that needs most. */
    uint64_t (*scan)(enum element from, const char *data, int64_t n);
    /* Stores n sums at `to`, `step` bytes apart.  HALF: returns the exceptions of the conversion
     * (FE_OVERFLOW, FE_UNDERFLOW), and sets *nan if a result is NaN. */
    int (*store)(enum lanes from, enum element to_type, const void *sums, int64_t n, char *to,
                 int64_t step, bool *nan);
    /* Return the dot product of n elements that are contiguous in both arrays. */
    uint64_t (*dot)(enum element from, const void *a, const void *b, int64_t n);
    float (*dot_of_halves)(const uint16_t *a, const uint16_t *b, int64_t n);
    /* Adds x times row[j] to sum[j], for n integers of one type. */
    void (*add_multiple)(enum element from, const void *row, const void *x, int64_t n, void *sum);
    /* True if a[i] and b[i] are both nonzero for some i < n. */
    bool (*have_common_true)(const uint8_t *a, const uint8_t *b, int64_t n);
    /* Sets bit j of bits[j / 64] if the byte row[j] is nonzero, for j < n; other bits become 0. */
    void (*to_bits)(const uint8_t *row, int64_t n, uint64_t *bits);
    /* Sets row[j] to bit j, for j < n. */
    void (*from_bits)(const uint64_t *bits, int64_t n, uint8_t *row);
    /* Adds rows of bits: ORs to `sum` each of the k rows of `bits` whose byte of `take` is
     * nonzero, until all bits of `full` are set.  A row has 1, 8 or WORDS_OF_BITS words. */
    void (*join)(const uint8_t *take, const uint64_t *bits, int64_t k, int words,
                 const uint64_t *full, uint64_t *sum);
};

extern const struct kernels limber_numpy_plain, limber_numpy_avx2, limber_numpy_avx512;

#endif
