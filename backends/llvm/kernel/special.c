/* SPDX-License-Identifier: BSD-3-Clause
 * Results that NaN and infinities determine.  Only the classes of elements matter: the result is
 * NaN if either line has a NaN, if infinity is multiplied by zero, or if there are infinite
 * products of both signs.  Otherwise it is the infinity with the sign of the infinite products.
 * Bit sets test 64 elements at once. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

#include <string.h>

enum { LINES = KERNEL_LANES };      /* number of lines that a task classifies */

/* Returns the number of 64-bit words of a line's bit set. */
static int64_t words_of(int64_t k)
{
    return (k + 63) / 64;
}

/* Returns the bytes of memory that the classes of an operand's elements need. */
int64_t limber_classes_bytes(int64_t lines, int64_t k)
{
    return 3 * 8 * lines * words_of(k) + lines;
}

/* Divides `memory`, limber_classes_bytes bytes, into the arrays of *s. */
void limber_classes_set(struct classes *s, int64_t lines, int64_t k, char *memory)
{
    int64_t plane = lines * words_of(k);

    s->words = words_of(k);
    s->positive = (uint64_t *)(void *)memory;
    s->negative = s->positive + plane;
    s->infinite = s->negative + plane;
    s->nan = (uint8_t *)(s->infinite + plane);
}

/* Flags of an element: positive, negative, infinite, NaN. */
struct bits { uint64_t positive, negative, infinite, nan; };

/* Returns the flags of a binary32 or binary64 number, given its bit pattern. */
static struct bits classify_binary(uint64_t v, int size)
{
    uint64_t top = size == 8 ? (uint64_t)0x7ff << 52 : (uint64_t)0xff << 23;
    uint64_t sign = v >> (8 * size - 1), m = v & (((uint64_t)1 << (8 * size - 1)) - 1);

    return (struct bits){ m != 0 && !sign && m <= top, m != 0 && sign && m <= top, m == top,
                          m > top };
}

/* Returns the flags of an element of any format. */
static struct bits classify_any(limber_format f, const char *at)
{
    struct limber_num x[2];

    limber_parts(x, f, at);
    if (x[0].kind == NUM_zero || x[0].kind == NUM_nan)
        return (struct bits){ .nan = x[0].kind == NUM_nan };
    return (struct bits){ !x[0].sign, x[0].sign, x[0].kind == NUM_inf, 0 };
}

/* Sets the flags of element `at`, 0 to 63, in *all. */
static void add_bits(struct bits *all, struct bits x, int at)
{
    all->positive |= x.positive << at;
    all->negative |= x.negative << at;
    all->infinite |= x.infinite << at;
    all->nan |= x.nan;
}

/* Sets the flags of `count` elements that are `step` bytes apart.  size: a constant, so that the
 * loop is specialised. */
static inline __attribute__((always_inline)) void
classify_binary_elements(struct bits *all, const char *at, int64_t step, int count, int size)
{
    for (int p = 0; p < count; p++, at += step) {
        uint64_t v = 0;

        memcpy(&v, at, (size_t)size);
        add_bits(all, classify_binary(v, size), p);
    }
}

/* Returns the flags of elements [p0, p0 + count) of a line; count is at most 64. */
static struct bits classify_elements(const struct view *v, limber_format f, int64_t line,
                                     int64_t p0, int count)
{
    bool plain = !v->patch && !v->tile_subset && limber_format_is_binary(f);
    struct bits all = { 0, 0, 0, 0 };

    if (plain && f.size == 8)
        classify_binary_elements(&all, limber_view_at(v, line, p0, 8), v->p * 8, count, 8);
    else if (plain)
        classify_binary_elements(&all, limber_view_at(v, line, p0, 4), v->p * 4, count, 4);
    for (int p = 0; p < count && !plain; p++) {
        const char *at = limber_view_at(v, line, p0 + p, f.size);

        if (at)
            add_bits(&all, classify_any(f, at), p);
    }
    return all;
}

/* Task: records for sixteen lines which elements are positive, negative, infinite or NaN. */
void limber_classes_fill(const struct classes *s, const struct view *v, limber_format f,
                         int64_t lines, int64_t k, int64_t task)
{
    for (int64_t i = task * LINES; i < lines && i < (task + 1) * LINES; i++) {
        uint64_t nan = 0;

        for (int64_t w = 0; w < s->words; w++) {
            struct bits all = classify_elements(v, f, i, 64 * w,
                                                (int)(k - 64 * w < 64 ? k - 64 * w : 64));

            nan |= all.nan;
            s->positive[i * s->words + w] = all.positive;
            s->negative[i * s->words + w] = all.negative;
            s->infinite[i * s->words + w] = all.infinite;
        }
        s->nan[i] = nan != 0;
    }
}

/* Returns the dot product of lines i and j if NaN or infinities determine it; 0 if they do not. */
double limber_classes_sum(const struct classes *a, int64_t i, const struct classes *b, int64_t j)
{
    const uint64_t *ap = a->positive + i * a->words, *an = a->negative + i * a->words;
    const uint64_t *ai = a->infinite + i * a->words, *bi = b->infinite + j * b->words;
    const uint64_t *bp = b->positive + j * b->words, *bn = b->negative + j * b->words;
    uint64_t nan = a->nan[i] | b->nan[j], up = 0, down = 0;

    for (int64_t w = 0; w < a->words && !nan; w++) {
        uint64_t infinite = ai[w] | bi[w];

        if (!infinite)
            continue;
        nan |= infinite & ~((ap[w] | an[w]) & (bp[w] | bn[w]));     /* infinity times zero */
        up |= infinite & ((ap[w] & bp[w]) | (an[w] & bn[w]));
        down |= infinite & ((ap[w] & bn[w]) | (an[w] & bp[w]));
    }
    if (nan || (up && down))
        return __builtin_nan("");
    return up ? __builtin_inf() : down ? -__builtin_inf() : 0;
}
