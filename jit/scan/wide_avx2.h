/* SPDX-License-Identifier: BSD-3-Clause
 * The operations of measure_wide.h with AVX2: fifteen instructions per 32 bytes.
 *
 * The lowest set bit of y is y & -y, where y is the significand with its implicit bit.  That bit is
 * converted to a float, whose exponent is the bit's index.  `low` is the smallest sum of this
 * exponent and the element's exponent; for binary64 minus LOW, so that the sum fits. */
#ifndef LIMBER_JIT_WIDE_AVX2_H
#define LIMBER_JIT_WIDE_AVX2_H

#include <immintrin.h>

/* Extremes of elements: the largest, the smallest nonzero one, the bitwise or of the nonzero ones,
 * and the smallest exponent of a lowest set bit.  The sign of binary32 elements is shifted out.
 * Elements of binary64 are not shifted, since AVX2 compares only signed integers. */
struct wide {
    __m256i most[2], least[2], any[2], low[2];
};

#define LOW ((INT64_C(1023) + 52) << 52)
#define LESS_LONG(a, b) _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b))
#define MORE_LONG(a, b) _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b))

/* Sets the extremes to those of no elements. */
FLAT void wide_start(struct wide *w, enum kind k)
{
    for (int h = 0; h < 2; h++) {
        w->most[h] = w->any[h] = _mm256_setzero_si256();
        w->least[h] = w->low[h] =
            k == KIND_f64 ? _mm256_set1_epi64x(INT64_MAX) : _mm256_set1_epi32(-1);
    }
}

/* Merges 32 bytes of binary64 elements into half h of the extremes (of exponents and bits). */
FLAT void take_wide_doubles(struct wide *w, int h, __m256i x)
{
    const __m256i largest = _mm256_set1_epi64x(INT64_MAX), top = _mm256_set1_epi64x(1LL << 52);
    const __m256i power = _mm256_set1_epi64x(0x4330000000000000); /* 2^52, whose ulp is 1 */
    __m256i size = _mm256_and_si256(x, largest);
    __m256i zero = _mm256_cmpeq_epi64(size, _mm256_setzero_si256()), y, low;

    w->most[h] = MORE_LONG(w->most[h], size);
    w->any[h] = _mm256_or_si256(w->any[h], _mm256_andnot_si256(zero, x));
    y = _mm256_or_si256(x, top);
    y = _mm256_and_si256(y, _mm256_sub_epi64(_mm256_setzero_si256(), y));
    low = _mm256_castpd_si256(
        _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(y, power)), _mm256_castsi256_pd(power)));
    low = _mm256_add_epi64(_mm256_sub_epi64(low, _mm256_set1_epi64x(LOW)),
                           _mm256_and_si256(size, _mm256_set1_epi64x(0x7ff0000000000000)));
    low = _mm256_blendv_epi8(low, largest, zero);
    size = _mm256_blendv_epi8(size, largest, zero);
    w->least[h] = LESS_LONG(w->least[h], size);
    w->low[h] = LESS_LONG(w->low[h], low);
}

/* Merges 32 bytes of binary32 elements into half h of the extremes (of exponents and bits). */
FLAT void take_wide_floats(struct wide *w, int h, __m256i x)
{
    __m256i twice = _mm256_add_epi32(x, x), y, low;
    __m256i zero = _mm256_cmpeq_epi32(twice, _mm256_setzero_si256());

    w->most[h] = _mm256_max_epu32(w->most[h], twice);
    w->least[h] = _mm256_min_epu32(w->least[h], _mm256_or_si256(twice, zero));
    w->any[h] = _mm256_or_si256(w->any[h], _mm256_andnot_si256(zero, x));
    y = _mm256_or_si256(x, _mm256_set1_epi32(1 << 23));
    y = _mm256_and_si256(y, _mm256_sub_epi32(_mm256_setzero_si256(), y));
    low = _mm256_add_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(y)),
                           _mm256_and_si256(x, _mm256_set1_epi32(0x7f800000)));
    w->low[h] = _mm256_min_epu32(w->low[h], _mm256_or_si256(low, zero));
}

/* Merges 64 bytes of elements into the extremes (of exponents and bits). */
FLAT void take_wide(struct wide *w, enum kind k, const char *at)
{
    for (int h = 0; h < 2; h++) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32 * h));

        if (k == KIND_f64)
            take_wide_doubles(w, h, x);
        else
            take_wide_floats(w, h, x);
    }
}

/* Merges the raw extremes (of exponents and bits) of o into w. */
FLAT void merge_wide(struct wide *w, enum kind k, const struct wide *o)
{
    for (int h = 0; h < 2; h++) {
        w->any[h] = _mm256_or_si256(w->any[h], o->any[h]);
        if (k == KIND_f64) {
            w->most[h] = MORE_LONG(w->most[h], o->most[h]);
            w->least[h] = LESS_LONG(w->least[h], o->least[h]);
            w->low[h] = LESS_LONG(w->low[h], o->low[h]);
        } else {
            w->most[h] = _mm256_max_epu32(w->most[h], o->most[h]);
            w->least[h] = _mm256_min_epu32(w->least[h], o->least[h]);
            w->low[h] = _mm256_min_epu32(w->low[h], o->low[h]);
        }
    }
}

/* True if an element is infinite, NaN or subnormal. */
FLAT bool is_rare(const struct wide *w, enum kind k)
{
    __m256i most = w->most[0], least = w->least[0], high, little;

    if (k == KIND_f64) {
        most = MORE_LONG(most, w->most[1]);
        least = LESS_LONG(least, w->least[1]);
        high = _mm256_cmpgt_epi64(most, _mm256_set1_epi64x(0x7fefffffffffffff));
        little = _mm256_cmpgt_epi64(_mm256_set1_epi64x(1LL << 52), least);
    } else {
        const __m256i special = _mm256_set1_epi32((int)0xff000000);
        const __m256i subnormal = _mm256_set1_epi32((1 << 24) - 1);

        most = _mm256_max_epu32(most, w->most[1]);
        least = _mm256_min_epu32(least, w->least[1]);
        high = _mm256_cmpeq_epi32(_mm256_max_epu32(most, special), most);
        little = _mm256_cmpeq_epi32(_mm256_min_epu32(least, subnormal), least);
    }
    return !_mm256_testz_si256(_mm256_or_si256(high, little), _mm256_or_si256(high, little));
}

/* Merges decoded extremes (of exponents and bits) into accumulator i of *s. */
FLAT void resolve_lane(struct eight *s, int i, int64_t emax, int64_t emin, int64_t lsb, int64_t sig,
                       bool negative)
{
    s->emax[i] = emax > s->emax[i] ? emax : s->emax[i];
    s->emin[i] = emin < s->emin[i] ? emin : s->emin[i];
    s->lsb[i] = lsb < s->lsb[i] ? lsb : s->lsb[i];
    s->sig[i] = sig > s->sig[i] ? sig : s->sig[i];
    s->negative[i] |= -(int64_t)negative;
}

/* Decodes eight accumulators of binary64 and merges them into *s. */
FLAT void resolve_doubles(struct eight *s, const struct wide *w)
{
    int64_t most[8], least[8], any[8], low[8];

    memcpy(most, w->most, sizeof most);
    memcpy(least, w->least, sizeof least);
    memcpy(any, w->any, sizeof any);
    memcpy(low, w->low, sizeof low);
    for (int i = 0; i < 8; i++)
        if (most[i])
            resolve_lane(s, i, most[i] >> 52, least[i] >> 52, low[i] >> 52,
                         53 - __builtin_ctzll((uint64_t)any[i] | 1ULL << 52), any[i] < 0);
}

/* Decodes the eight binary32 accumulators of one half, and merges them into *s. */
FLAT void resolve_floats(struct eight *s, const struct wide *w, int half)
{
    const int rebias = 1023 - 127;
    uint32_t most[8], least[8], any[8], low[8];

    memcpy(most, &w->most[half], sizeof most);
    memcpy(least, &w->least[half], sizeof least);
    memcpy(any, &w->any[half], sizeof any);
    memcpy(low, &w->low[half], sizeof low);
    for (int i = 0; i < 8; i++)
        if (most[i])
            resolve_lane(s, i, (int64_t)(most[i] >> 24) + rebias,
                         (int64_t)(least[i] >> 24) + rebias,
                         (int64_t)(low[i] >> 23) - (127 + 23) + rebias,
                         24 - __builtin_ctz(any[i] | 1u << 23), any[i] >> 31);
}

/* Decodes eight accumulators (for binary32 those of one half) and merges them into *s. */
FLAT void resolve_wide(struct eight *s, enum kind k, const struct wide *w, int half)
{
    if (k == KIND_f64)
        resolve_doubles(s, w);
    else
        resolve_floats(s, w, half);
}

#endif
