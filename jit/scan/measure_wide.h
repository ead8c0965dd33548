/* SPDX-License-Identifier: BSD-3-Clause
 * binary64 and binary32 by AVX-512: twelve operations on 64 bytes.  What is special or subnormal
 * shows in the extremes, and is left to take_column.
 *
 * A lowest set bit is that of x & ~(x - 1), where x has the implicit bit.  The longest significand
 * is that of all significands or'ed. */
#ifndef LIMBER_JIT_MEASURE_WIDE_H
#define LIMBER_JIT_MEASURE_WIDE_H

/* Of elements without their signs, doubled, the largest and the least but zero; all but zeros
 * or'ed; the least exponent less the bits above the lowest one. */
struct wide {
    __m512i most, least, any, low;
};
_Static_assert(sizeof(struct wide) == sizeof(((struct growing *)0)->raw), "the same raw");

FLAT bool is_wide(enum kind k)
{
    return k == KIND_f64 || k == KIND_f32;
}

FLAT void wide_start(struct wide *w, enum kind k)
{
    w->most = w->any = _mm512_setzero_si512();
    w->least = _mm512_set1_epi64(-1);
    w->low = k == KIND_f64 ? _mm512_set1_epi64(INT64_MAX) : _mm512_set1_epi32(INT32_MAX);
}

FLAT void take_wide_doubles(struct wide *w, __m512i x)
{
    __m512i twice = _mm512_add_epi64(x, x), above;
    __mmask8 some = _mm512_test_epi64_mask(twice, twice);

    w->most = _mm512_max_epu64(w->most, twice);
    w->least = _mm512_mask_min_epu64(w->least, some, w->least, twice);
    w->any = _mm512_mask_or_epi64(w->any, some, w->any, x);
    x = _mm512_or_si512(x, _mm512_set1_epi64(1LL << 52));
    above = _mm512_lzcnt_epi64(_mm512_andnot_si512(_mm512_add_epi64(x, _mm512_set1_epi64(-1)), x));
    w->low = _mm512_mask_min_epi64(w->low, some, w->low,
                                   _mm512_sub_epi64(_mm512_srli_epi64(twice, 53), above));
}

FLAT void take_wide_floats(struct wide *w, __m512i x)
{
    __m512i twice = _mm512_add_epi32(x, x), above;
    __mmask16 some = _mm512_test_epi32_mask(twice, twice);

    w->most = _mm512_max_epu32(w->most, twice);
    w->least = _mm512_mask_min_epu32(w->least, some, w->least, twice);
    w->any = _mm512_mask_or_epi32(w->any, some, w->any, x);
    x = _mm512_or_si512(x, _mm512_set1_epi32(1 << 23));
    above = _mm512_lzcnt_epi32(_mm512_andnot_si512(_mm512_add_epi32(x, _mm512_set1_epi32(-1)), x));
    w->low = _mm512_mask_min_epi32(w->low, some, w->low,
                                   _mm512_sub_epi32(_mm512_srli_epi32(twice, 24), above));
}

FLAT void take_wide(struct wide *w, enum kind k, __m512i x)
{
    if (k == KIND_f64)
        take_wide_doubles(w, x);
    else
        take_wide_floats(w, x);
}

FLAT void merge_wide(struct wide *w, enum kind k, const struct wide *o)
{
    w->any = _mm512_or_si512(w->any, o->any);
    if (k == KIND_f64) {
        w->most = _mm512_max_epu64(w->most, o->most);
        w->least = _mm512_min_epu64(w->least, o->least);
        w->low = _mm512_min_epi64(w->low, o->low);
    } else {
        w->most = _mm512_max_epu32(w->most, o->most);
        w->least = _mm512_min_epu32(w->least, o->least);
        w->low = _mm512_min_epi32(w->low, o->low);
    }
}

FLAT void merge_raw(struct growing *s, enum kind k, const struct wide *o)
{
    struct wide w;

    memcpy(&w, s->raw, sizeof w);
    merge_wide(&w, k, o);
    memcpy(s->raw, &w, sizeof w);
}

/* Something is infinite, NaN or subnormal. */
FLAT bool is_rare(const struct wide *w, enum kind k)
{
    if (k == KIND_f64)
        return (_mm512_cmpge_epu64_mask(w->most,
                                        _mm512_set1_epi64((int64_t)(UINT64_C(0x7ff) << 53))) |
                _mm512_cmplt_epu64_mask(w->least, _mm512_set1_epi64(1LL << 53))) != 0;
    return (_mm512_cmpge_epu32_mask(w->most, _mm512_set1_epi32((int)0xff000000)) |
            _mm512_cmplt_epu32_mask(w->least, _mm512_set1_epi32(1 << 24))) != 0;
}

/* Adds eight lanes; of binary32 those from 8 * half on, as binary64 has them. */
FLAT void resolve_wide(struct eight *s, enum kind k, const struct wide *w, int half)
{
    v8l most = (v8l)w->most, least = (v8l)w->least, low = (v8l)w->low, some, any, sign;
    int bits = k == KIND_f64 ? 52 : 23, rebias = k == KIND_f64 ? 0 : 1023 - 127;
    int64_t top = (int64_t)1 << bits;
    struct lanes o;

#define HALF(x) _mm512_extracti64x4_epi64(x, 1)
#define WIDEN(x) _mm512_cvtepi32_epi64(half ? HALF(x) : _mm512_castsi512_si256(x))
    any = (v8l)(k == KIND_f64 ? w->any : WIDEN(w->any));
    if (k == KIND_f32) {
        most = (v8l)WIDEN(w->most) & 0xffffffff;
        least = (v8l)WIDEN(w->least) & 0xffffffff;
        low = (v8l)WIDEN(w->low);
    }
#undef WIDEN
#undef HALF
    some = most != 0;
    sign = any < 0;
    any = (any & (top - 1)) | top;
    o.emax = PICK(some, (v8l)((v8u)most >> (bits + 1)) + rebias, ALL(NONE_HIGH));
    o.emin = PICK(some, (v8l)((v8u)least >> (bits + 1)) + rebias, ALL(NONE_LOW));
    o.lsb = PICK(some, low + (k == KIND_f64 ? 11 : 8) + rebias, ALL(NONE_LOW));
    o.sig = ((v8l)_mm512_lzcnt_epi64((__m512i)(any & -any)) - (63 - bits) + 1) & some;
    o.special = o.odd = ALL(0);
    o.negative = sign;
    add(s, &o);
}

FLAT void along_wide(struct growing *line, struct growing *tile, enum kind k, const char *at,
                     int64_t len, int64_t ahead)
{
    enum { RUN = MEASURE_RUN };
    struct wide all;

    memcpy(&all, line->raw, sizeof all);
    for (; len > 0; len -= RUN, at += RUN * size_of(k), tile++) {
        int64_t n = len < RUN ? len : RUN, bytes = n * size_of(k);
        struct wide run;

        wide_start(&run, k);
        if (n == RUN)           /* of constant length */
            for (int i = 0; i < RUN * size_of(k); i += 64) {
                __builtin_prefetch(at + ahead + i);
                take_wide(&run, k, _mm512_loadu_si512(at + i));
            }
        else
            for (int64_t i = 0; i < bytes; i += 64) {
                int beyond = bytes - i < 64 ? (int)(64 - (bytes - i)) : 0;

                take_wide(&run, k, _mm512_maskz_loadu_epi8(~(__mmask64)0 >> beyond, at + i));
            }
        if (is_rare(&run, k)) {
            along_run(&line->known, &tile->known, k, at, n);
            continue;
        }
        merge_wide(&all, k, &run);
        merge_raw(tile, k, &run);
    }
    memcpy(line->raw, &all, sizeof all);
}

FLAT void across_group(struct growing *s, struct eight *tile, uint8_t *odd, enum kind k,
                       const char *at, int64_t n, int64_t step)
{
    struct lanes one;

    start(&one);
    take_column(&one, k, at, n, step);
    add_group(s, tile, odd, &one);
}

/* Few rows of all groups, since rows a power of two apart share places in caches.  Returns the
 * groups that are done: pairs, of binary32. */
FLAT int across_wide(struct growing *s, struct eight *tile, uint8_t *odd, enum kind k,
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
                    take_wide(&one, k, _mm512_loadu_si512(from));
                }
            else
                for (int64_t r = i; r < n; r++, from += step)
                    take_wide(&one, k, _mm512_loadu_si512(from));
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

/* What a line's or a tile's raw holds; of binary32 the second half is of `other`. */
FLAT void end_wide(struct growing *s, struct growing *other, enum kind k)
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
