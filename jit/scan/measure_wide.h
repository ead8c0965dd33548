/* SPDX-License-Identifier: BSD-3-Clause
 * Measures binary64 and binary32 elements, 64 bytes at a time, with the operations of wide_avx512.h
 * or wide_avx2.h.  Elements that are NaN, infinite or subnormal are recognised by the extremes, and
 * are measured again by take_column.  The longest significand is that of the bitwise or of all
 * significands. */
#ifndef LIMBER_JIT_MEASURE_WIDE_H
#define LIMBER_JIT_MEASURE_WIDE_H

/* True if this file measures elements of this kind. */
FLAT bool is_wide(enum kind k)
{
    return k == KIND_f64 || k == KIND_f32;
}

/* struct wide holds these extremes of elements, whose sign is shifted out: the largest, the
 * smallest nonzero one, the bitwise or of the nonzero ones, and the smallest exponent of a lowest
 * set bit. */
#if defined(__AVX512F__)
#include "jit/scan/wide_avx512.h"
#else
#include "jit/scan/wide_avx2.h"
#endif
_Static_assert(sizeof(struct wide) == sizeof(((struct accumulator *)0)->raw), "the same raw");

/* Merges the extremes *o into the raw ones of an accumulator. */
FLAT void merge_raw(struct accumulator *s, enum kind k, const struct wide *o)
{
    struct wide w;

    memcpy(&w, s->raw, sizeof w);
    merge_wide(&w, k, o);
    memcpy(s->raw, &w, sizeof w);
}

/* Merges any number of bytes of elements into *w.  The last vector is padded with zeros, which do
 * not change the extremes (of exponents and bits). */
FLAT void take_some(struct wide *w, enum kind k, const char *at, int64_t bytes)
{
    for (; bytes >= 64; bytes -= 64, at += 64)
        take_wide(w, k, at);
    if (bytes > 0) {
        char last[64] = { 0 };

        memcpy(last, at, (size_t)bytes);
        take_wide(w, k, last);
    }
}

/* Measures contiguous elements of a line, one tile after another. */
FLAT void along_wide(struct accumulator *line, struct accumulator *tile, enum kind k,
                     const char *at, int64_t len, int64_t ahead)
{
    enum { RUN = MEASURE_RUN };
    struct wide all;

    memcpy(&all, line->raw, sizeof all);
    for (; len > 0; len -= RUN, at += RUN * size_of(k), tile++) {
        int64_t n = len < RUN ? len : RUN, bytes = n * size_of(k);
        struct wide run;

        wide_start(&run, k);
        if (n == RUN) /* a constant length lets the compiler unroll */
            for (int i = 0; i < RUN * size_of(k); i += 64) {
                __builtin_prefetch(at + ahead + i);
                take_wide(&run, k, at + i);
            }
        else
            take_some(&run, k, at, bytes);
        if (is_rare(&run, k)) {
            along_run(&line->known, &tile->known, k, at, n);
            continue;
        }
        merge_wide(&all, k, &run);
        merge_raw(tile, k, &run);
    }
    memcpy(line->raw, &all, sizeof all);
}

/* Measures a group of eight lines again, by slower code, because it has an element that is NaN,
 * infinite or subnormal. */
FLAT void across_group(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                       const char *at, int64_t n, int64_t step)
{
    struct lanes one;

    clear_lanes(&one);
    take_column(&one, k, at, n, step);
    merge_unless_subnormal(s, tile, odd, &one);
}

/* Measures groups of eight interleaved lines.  Reads a few rows of all groups at a time, because
 * rows a power of two apart conflict in caches.  Returns the number of groups that were measured,
 * which is even for binary32. */
FLAT int across_wide(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                     const char *at, int groups, int64_t n, int64_t step)
{
    enum { FEW = 4, AHEAD = 16, TILE = MEASURE_RUN / 8 };
    int each = k == KIND_f64 ? 1 : 2;
    struct wide w[MEASURE_GROUPS], of_tile;

    for (int g = 0; g + each <= groups; g += each)
        wide_start(&w[g], k);
    for (int64_t i = 0; i < n; i += FEW)
        for (int g = 0; g + each <= groups; g += each) {
            const char *from = at + i * step + g * 8 * size_of(k);
            struct wide one = w[g];

            if (n - i >= FEW)
                for (int r = 0; r < FEW; r++, from += step) {
                    __builtin_prefetch(from + AHEAD * step);
                    take_wide(&one, k, from);
                }
            else
                for (int64_t r = i; r < n; r++, from += step)
                    take_wide(&one, k, from);
            w[g] = one;
        }
    for (int t = 0; t < groups; t += TILE) {
        int g;

        wide_start(&of_tile, k);
        for (g = t; g + each <= groups && g < t + TILE; g += each) {
            if (!is_rare(&w[g], k)) {
                merge_raw(&s[g], k, &w[g]);
                merge_wide(&of_tile, k, &w[g]);
                continue;
            }
            for (int i = g; i < g + each; i++)
                across_group(&s[i], &tile[t / TILE], &odd[i], k, at + i * 8 * size_of(k), n, step);
        }
        resolve_wide(&tile[t / TILE], k, &of_tile, 0);
        if (k == KIND_f32)
            resolve_wide(&tile[t / TILE], k, &of_tile, 1);
    }
    return groups / each * each;
}

/* Decodes the raw accumulators of *s.  For binary32 their second half belongs to the lines of
 * `other`. */
FLAT void end_wide(struct accumulator *s, struct accumulator *other, enum kind k)
{
    struct wide w;

    memcpy(&w, s->raw, sizeof w);
    resolve_wide(&s->known, k, &w, 0);
    if (k == KIND_f32 && other)
        resolve_wide(&other->known, k, &w, 1);
    wide_start(&w, k);
    memcpy(s->raw, &w, sizeof w);
}

#endif
