/* SPDX-License-Identifier: BSD-3-Clause
 * The operations of measure_wide.h with AVX-512: twelve instructions per 64 bytes.
 *
 * x & ~(x - 1) is the lowest set bit of x, where x is the significand with its implicit bit.  `low`
 * is the smallest difference of the element's exponent and the number of leading zeros above that
 * bit. */
#ifndef LIMBER_JIT_WIDE_AVX512_H
#define LIMBER_JIT_WIDE_AVX512_H

struct wide {
    __m512i most, least, any, low;
};

/* Sets the extremes to those of no elements. */
FLAT void wide_start(struct wide *w, enum kind k)
{
    w->most = w->any = _mm512_setzero_si512();
    w->least = _mm512_set1_epi64(-1);
    w->low = k == KIND_f64 ? _mm512_set1_epi64(INT64_MAX) : _mm512_set1_epi32(INT32_MAX);
}

/* Merges eight doubles into the extremes (of exponents and bits). above: number of zeros above the
 * lowest set bit. */
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

/* Merges sixteen floats into the extremes (of exponents and bits). */
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

/* Merges 64 bytes of elements into the extremes (of exponents and bits). */
FLAT void take_wide(struct wide *w, enum kind k, const char *at)
{
    if (k == KIND_f64)
        take_wide_doubles(w, _mm512_loadu_si512(at));
    else
        take_wide_floats(w, _mm512_loadu_si512(at));
}

/* Merges the raw extremes (of exponents and bits) of o into w. */
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

/* True if an element is infinite, NaN or subnormal. */
FLAT bool is_rare(const struct wide *w, enum kind k)
{
    if (k == KIND_f64)
        return (_mm512_cmpge_epu64_mask(w->most,
                                        _mm512_set1_epi64((int64_t)(UINT64_C(0x7ff) << 53))) |
                _mm512_cmplt_epu64_mask(w->least, _mm512_set1_epi64(1LL << 53))) != 0;
    return (_mm512_cmpge_epu32_mask(w->most, _mm512_set1_epi32((int)0xff000000)) |
            _mm512_cmplt_epu32_mask(w->least, _mm512_set1_epi32(1 << 24))) != 0;
}

/* Decodes eight accumulators (for binary32 those from 8 * half on) and merges them into *s. */
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
    add_lanes(s, &o);
}

#endif
