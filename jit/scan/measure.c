/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the exponents and significant bits of elements.  The lowest set bit of a double is found
 * by clearing that bit in its bit pattern: the difference of both doubles is the bit's value, so
 * the exponent of the difference is the bit's position. */
#include "jit/scan/measure.h"

#include <stdbool.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define MEASURE(name) FOR_ISA(limber_measure_##name)
#if defined(__x86_64__) && !defined(__AVX2__)
/* Not inlined without AVX2: inlined, this code has ten times the size, and its speed hardly
 * matters, since the interpreter, which then computes, is a hundred times slower. */
#define FLAT static __attribute__((noinline))
#else
#define FLAT static inline __attribute__((always_inline))
#endif

typedef int64_t v8l __attribute__((vector_size(64)));
typedef uint64_t v8u __attribute__((vector_size(64)));
typedef double v8d __attribute__((vector_size(64)));
typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int16_t v8h __attribute__((vector_size(16)));
typedef int8_t v8c __attribute__((vector_size(8)));
typedef uint8_t v8b __attribute__((vector_size(8)));
typedef uint32_t v8w __attribute__((vector_size(32)));
typedef uint16_t v8s __attribute__((vector_size(16)));

/* Eight accumulators of extremes (of exponents and bits) as vectors: the fields of struct eight. */
struct lanes {
    v8l emin, emax, lsb, sig, special, negative, odd;
};
_Static_assert(sizeof(struct lanes) == sizeof(struct eight), "the same lanes");

/* rows of one group of lines that are measured before the next group's */
enum { ROWS = 16 };

#define ALL(x) ((v8l){ 0 } + (x))
#define PICK(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))
#define LESS(a, b) PICK((a) < (b), a, b)
#define MORE(a, b) PICK((a) > (b), a, b)
#if defined(__AVX512F__)
#define LEAST(a, b) ((v8u)_mm512_min_epu64((__m512i)(a), (__m512i)(b)))
#define MOST(a, b) ((v8u)_mm512_max_epu64((__m512i)(a), (__m512i)(b)))
#else
#define LEAST(a, b) PICK((v8u)((a) < (b)), a, b)
#define MOST(a, b) PICK((v8u)((a) > (b)), a, b)
#endif
#define LOAD(type, at) \
    ({ \
        type loaded_; \
        memcpy(&loaded_, at, sizeof loaded_); \
        loaded_; \
    })
#define TO(type, v) __builtin_convertvector(v, type)
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
/* a shuffle of the lanes of a and b, by their indices */
#define LANES(a, b, ...) __builtin_shuffle(a, b, (v8l){ __VA_ARGS__ })
#else
#define LANES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif

/* Sets the lanes' state to that of no elements. */
FLAT void clear_lanes(struct lanes *s)
{
    s->emin = s->lsb = ALL(NONE_LOW);
    s->emax = ALL(NONE_HIGH);
    s->sig = s->special = s->negative = s->odd = ALL(0);
}

/* Merges the eight accumulators *o into the eight accumulators *s. */
FLAT void merge_lanes(struct lanes *s, const struct lanes *o)
{
    s->emin = LESS(s->emin, o->emin);
    s->emax = MORE(s->emax, o->emax);
    s->lsb = LESS(s->lsb, o->lsb);
    s->sig = MORE(s->sig, o->sig);
    s->special |= o->special;
    s->negative |= o->negative;
    s->odd |= o->odd;
}

/* Updates the eight accumulators *s with one element each, where `used` is set. e: the elements'
 * exponents; l: positions of their lowest set bits; negative: their signs. */
FLAT void merge_elements(struct lanes *s, v8l used, v8l e, v8l l, v8l negative)
{
    v8l sig = (e - l + 1) & used;

    s->emin = LESS(s->emin, PICK(used, e, ALL(NONE_LOW)));
    s->emax = MORE(s->emax, PICK(used, e, ALL(NONE_HIGH)));
    s->lsb = LESS(s->lsb, PICK(used, l, ALL(NONE_LOW)));
    s->sig = MORE(s->sig, sig);
    s->negative |= used & negative;
}

/* Returns the biased exponent of a double's lowest set bit. size: bit pattern without sign. */
FLAT v8l lowest_of(v8l size)
{
    v8l less = size & (size - 1);
    v8l rest = (v8l)((v8d)size - (v8d)less), whole = (size & 0xfffffffffffff) == 0;

    return PICK(whole, size, rest) >> 52;
}

/* Extremes of doubles in eight accumulators, as bit patterns. all, most: largest magnitude with
 * and without NaN and infinities. least, low: smallest magnitude and smallest lowest set bit,
 * both minus 1, so that those of zero wrap to the maximum. sig: longest significand minus 1.
 * sign: bitwise or of the signs. */
struct raw {
    v8u all, most, least, low;
    v8l sig, sign;
};

/* Updates the eight accumulators *r with one double each, as bit patterns, without decoding
 * exponents. */
FLAT void merge_doubles(struct raw *r, v8d x)
{
    v8u size = (v8u)x & INT64_MAX, less, low;

    r->all = MOST(r->all, size);
    size &= (v8u)(size < 0x7ff0000000000000);
    less = size - 1;
    r->most = MOST(r->most, size);
    r->least = LEAST(r->least, less);
    low = (v8u)((v8d)size - (v8d)(size & less)); /* the value of the lowest set bit */
    /* the lowest set bit of a power of two is the number itself */
    low = PICK((v8u)((size & 0xfffffffffffff) == 0), size, low);
    r->low = LEAST(r->low, low - 1);
    r->sig = (v8l)MOST((v8u)r->sig, (size >> 52) - (low >> 52));
    r->sign |= (v8l)x & (v8l)(size != 0);
}

/* Decodes the extremes (of exponents and bits) in *r and merges them into the eight accumulators
 * *s. */
FLAT void merge_raw_extremes(struct lanes *s, const struct raw *r)
{
    struct lanes o;
    v8l some = r->most != 0;

    o.emax = PICK(some, (v8l)(r->most >> 52), ALL(NONE_HIGH));
    o.emin = PICK(some, (v8l)((r->least + 1) >> 52), ALL(NONE_LOW));
    o.lsb = PICK(some, (v8l)((r->low + 1) >> 52), ALL(NONE_LOW));
    o.sig = (r->sig + 1) & some;
    o.special = r->all >= 0x7ff0000000000000;
    o.negative = r->sign < 0;
    /* the lowest bit of a normal number may be subnormal */
    o.odd = ((o.emin == 0) | (o.lsb == 0)) & some;
    merge_lanes(s, &o);
}

/* Updates the eight accumulators *s with one double-double each, given as high and low part. */
FLAT void merge_dd(struct lanes *s, v8l high, v8l low)
{
    v8l size = high & INT64_MAX, rest = low & INT64_MAX, e = size >> 52, f = rest >> 52;
    v8l special = e == 0x7ff, l = lowest_of(size), below = lowest_of(rest);

    s->special |= special;
    s->odd |= (((e == 0) | (l == 0)) & (size != 0)) | (((f == 0) | (below == 0)) & (rest != 0)) |
              (f == 0x7ff);
    below = PICK(rest != 0, below, ALL(NONE_LOW));
    merge_elements(s, ~special & (e != 0), e, LESS(l, below), high < 0);
}

/* Returns the position of the lowest set bit of integers that are not 0. */
FLAT v8l lowest_bit_position(v8l x)
{
    return ((v8l)TO(v8d, x & -x) >> 52 & 0x7ff) - 1023;
}

/* Returns the position of the highest set bit of integers below 2^52 that are not 0. */
FLAT v8l highest_bit_position(v8l x)
{
    return ((v8l)TO(v8d, x) >> 52) - 1023;
}

/* Updates the eight accumulators *s (extremes of exponents, lowest set bits and signs) with one
 * 64-bit integer each. */
FLAT void merge_longs(struct lanes *s, v8l x)
{
    v8l sign = x < 0, size = (x ^ sign) - sign, low = size & 0xffffffff;
    v8l high = (v8l)((v8u)size >> 32), e, l;

    e = PICK(high != 0, highest_bit_position(high) + 32, highest_bit_position(low));
    l = PICK(low != 0, lowest_bit_position(low), lowest_bit_position(high) + 32);
    merge_elements(s, size != 0, e, l, sign);
}

/* Updates the eight accumulators *s with one binary128 number each, given as low and high word. */
FLAT void merge_quads(struct lanes *s, v8l low, v8l high)
{
    v8l e = high >> 48 & 0x7fff, special = e == 0x7fff, top = high & 0xffffffffffff;
    v8l some = ((high & INT64_MAX) | low) != 0, place;

    s->special |= special;
    s->odd |= (e == 0) & some;
    place = PICK(low != 0, lowest_bit_position(low),
                 PICK(top != 0, 64 + lowest_bit_position(top), ALL(112)));
    merge_elements(s, ~special & (e != 0), e, e - 112 + place, high < 0);
}

/* Loads eight elements of this kind as doubles. */
FLAT v8d doubles_at(enum kind k, const char *at)
{
    switch (k) {
    case KIND_f64: return LOAD(v8d, at);
    case KIND_f32: return TO(v8d, LOAD(v8f, at));
    case KIND_i32: return TO(v8d, LOAD(v8i, at));
    case KIND_i16: return TO(v8d, TO(v8i, LOAD(v8h, at)));
    case KIND_i8: return TO(v8d, TO(v8i, LOAD(v8c, at)));
    default: return TO(v8d, TO(v8i, LOAD(v8b, at)));
    }
}

/* Updates the eight accumulators *s with eight elements of a kind whose values may not fit
 * binary64. */
FLAT void take_long(struct lanes *s, enum kind k, const char *at)
{
    v8l a = LOAD(v8l, at), b, even, odd;

    if (k == KIND_i64) {
        merge_longs(s, a);
        return;
    }
    b = LOAD(v8l, at + 64);
    even = LANES(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    odd = LANES(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    if (k == KIND_dd)
        merge_dd(s, even, odd);
    else
        merge_quads(s, even, odd);
}

/* Merges n rows of eight adjacent elements into s, whose eight lanes hold the measures (extremes of
 * exponents and bits) of eight columns.  The rows begin `step` bytes apart.  Formats that binary64
 * contains are measured as doubles, and merged into s at the end. */
FLAT void take_column(struct lanes *s, enum kind k, const char *at, int64_t n, int64_t step)
{
    const v8u zero = { 0 };
    struct raw r = { zero, zero, ~zero, ~zero, (v8l)zero, (v8l)zero };
    bool fits_f64 = k != KIND_i64 && k != KIND_dd && k != KIND_f128;

    for (int64_t i = 0; i < n; i++) {
        __builtin_prefetch(at + (i + ROWS) * step);
        if (fits_f64)
            merge_doubles(&r, doubles_at(k, at + i * step));
        else
            take_long(s, k, at + i * step);
    }
    if (fits_f64)
        merge_raw_extremes(s, &r);
}

/* Merges the eight lanes, and stores the result in every lane. */
FLAT void join_all_lanes(struct eight *s)
{
    struct lanes all, o;

    memcpy(&all, s, sizeof all);
#define TURN(...) \
    o = (struct lanes){ LANES(all.emin, all.emin, __VA_ARGS__), \
                        LANES(all.emax, all.emax, __VA_ARGS__), \
                        LANES(all.lsb, all.lsb, __VA_ARGS__), \
                        LANES(all.sig, all.sig, __VA_ARGS__), \
                        LANES(all.special, all.special, __VA_ARGS__), \
                        LANES(all.negative, all.negative, __VA_ARGS__), \
                        LANES(all.odd, all.odd, __VA_ARGS__) }; \
    merge_lanes(&all, &o);
    TURN(4, 5, 6, 7, 0, 1, 2, 3)
    TURN(2, 3, 0, 1, 6, 7, 4, 5)
    TURN(1, 0, 3, 2, 5, 4, 7, 6)
#undef TURN
    memcpy(s, &all, sizeof all);
}

/* Merges the state of one set of lanes into another. */
FLAT void add_lanes(struct eight *s, const struct lanes *o)
{
    struct lanes all;

    memcpy(&all, s, sizeof all);
    merge_lanes(&all, o);
    memcpy(s, &all, sizeof all);
}

/* True if some lane has seen a subnormal element. */
static bool any_odd(const struct lanes *s)
{
    int64_t any = 0;

    for (int i = 0; i < 8; i++)
        any |= s->odd[i];
    return any != 0;
}

/* Measures at most MEASURE_RUN contiguous elements.  If some are subnormal (odd), only records
 * that, since they are measured one by one later. */
FLAT void along_run(struct eight *line, struct eight *tile, enum kind k, const char *at, int64_t n)
{
    char last[8 * 16] = { 0 };
    struct lanes run, odd;

    clear_lanes(&run);
    take_column(&run, k, at, n / 8, 8 * size_of(k));
    if (n % 8) {
        memcpy(last, at + n / 8 * 8 * size_of(k), (size_t)(n % 8 * size_of(k)));
        take_column(&run, k, last, 1, 0);
    }
    if (any_odd(&run)) {
        clear_lanes(&odd);
        odd.odd = run.odd;
        add_lanes(line, &odd);
        return;
    }
    add_lanes(line, &run);
    add_lanes(tile, &run);
}

/* Merges the measures (extremes of exponents and bits) of a group of eight lines into those of the
 * operand (s) and of the tile.  If an element is subnormal, merges nothing and sets *odd. */
FLAT void merge_unless_subnormal(struct accumulator *s, struct eight *tile, uint8_t *odd,
                                 const struct lanes *o)
{
    *odd = any_odd(o);
    if (*odd)
        return;
    add_lanes(&s->known, o);
    add_lanes(tile, o);
}

#if defined(__AVX2__)
#include "jit/scan/measure_wide.h"
#endif

/* Measures the elements of a line into the line's accumulator and those of its tiles. ahead:
 * distance of prefetches in bytes. */
FLAT void measure_line(struct accumulator *line, struct accumulator *tile, enum kind k,
                       const char *at, int64_t len, int64_t ahead)
{
#if defined(__AVX2__)
    if (is_wide(k)) {
        along_wide(line, tile, k, at, len, ahead);
        return;
    }
#endif
    (void)ahead;
    for (; len > 0; len -= MEASURE_RUN, at += MEASURE_RUN * size_of(k), tile++)
        along_run(&line->known, &tile->known, k, at, len < MEASURE_RUN ? len : MEASURE_RUN);
}

/* Measures groups of eight interleaved lines.  Reads a few rows of all groups at a time, so that
 * memory is read in long contiguous pieces. */
FLAT void measure_groups(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                         const char *at, int groups, int64_t n, int64_t step)
{
    struct lanes one[MEASURE_GROUPS];
    int done = 0;

#if defined(__AVX2__)
    if (is_wide(k))
        done = across_wide(s, tile, odd, k, at, groups, n, step);
#endif
    for (int g = done; g < groups; g++)
        clear_lanes(&one[g]);
    for (int64_t i = 0; i < n; i += ROWS)
        for (int g = done; g < groups; g++) {
            struct lanes some = one[g];

            take_column(&some, k, at + i * step + g * 8 * size_of(k), n - i < ROWS ? n - i : ROWS,
                        step);
            one[g] = some;
        }
    for (int g = done; g < groups; g++)
        merge_unless_subnormal(&s[g], &tile[g * 8 / MEASURE_RUN], &odd[g], &one[g]);
}

/* clang-format off */
#define EACH(F) \
    switch (k) { \
    case KIND_f64: F(KIND_f64); break; \
    case KIND_f32: F(KIND_f32); break; \
    case KIND_i32: F(KIND_i32); break; \
    case KIND_i16: F(KIND_i16); break; \
    case KIND_i8: F(KIND_i8); break; \
    case KIND_u8: F(KIND_u8); break; \
    case KIND_i64: F(KIND_i64); break; \
    case KIND_dd: F(KIND_dd); break; \
    default: F(KIND_f128); break; \
    }
/* clang-format on */

/* Initialises the measures (extremes of exponents and bits) of n lines or tiles: no element has
 * been seen. */
void MEASURE(start)(struct accumulator *s, enum kind k, int64_t n)
{
    struct lanes one;

    clear_lanes(&one);
    for (int64_t i = 0; i < n; i++) {
        memcpy(&s[i].known, &one, sizeof one);
#if defined(__AVX2__)
        if (is_wide(k)) {
            struct wide w;

            wide_start(&w, k);
            memcpy(s[i].raw, &w, sizeof w);
        }
#endif
    }
    (void)k;
}

/* Decodes n accumulators.  groups: 0 if each belongs to one line or tile, whose eight lanes are
 * then merged. */
void MEASURE(end)(struct accumulator *s, enum kind k, int64_t n, int groups)
{
#if defined(__AVX2__)
    for (int64_t i = 0; i < n && is_wide(k); i++)
        end_wide(&s[i], !groups ? &s[i] : i + 1 < n ? &s[i + 1] : NULL, k);
#endif
    for (int64_t i = 0; i < n && !groups; i++)
        join_all_lanes(&s[i].known);
    (void)k;
}

/* Measures len contiguous elements of a line, into the line's accumulator and those of its tiles.
 */
void MEASURE(along)(struct accumulator *line, struct accumulator *tile, enum kind k, const char *at,
                    int64_t len, int64_t ahead)
{
#define F(kind) measure_line(line, tile, kind, at, len, ahead)
    EACH(F)
#undef F
}

/* Measures n rows of interleaved lines, one lane for each line.  odd[g] is set if group g has a
 * subnormal. */
void MEASURE(across)(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                     const char *at, int groups, int64_t n, int64_t step)
{
    struct lanes nothing;

    memset(odd, 0, (size_t)groups);
    clear_lanes(&nothing);
    for (int g = 0; g < groups; g += MEASURE_RUN / 8)
        memcpy(&tile[g * 8 / MEASURE_RUN], &nothing, sizeof nothing);
#define F(kind) measure_groups(s, tile, odd, kind, at, groups, n, step)
    EACH(F)
#undef F
    for (int g = 0; g < groups; g += MEASURE_RUN / 8)
        join_all_lanes(&tile[g * 8 / MEASURE_RUN]);
}

/* Converts eight floats of 8 or 16 bits to binary32.  Subnormals become normal, or are subnormal in
 * binary32, too. */
FLAT v8f widen_eight(const struct small_float *f, v8w code)
{
    v8w m = code & f->magnitude, nan = (v8w)(m >= f->special) & 0x7f800000;
    v8f x = (v8f)(m << f->shift) * f->scale;

    return (v8f)((v8w)x | nan | ((v8w)((code & f->sign) != 0) & 0x80000000));
}

/* Converts n contiguous floats of 8 or 16 bits to binary32. */
void MEASURE(widen)(const struct small_float *f, const char *at, int64_t n, float *to)
{
    int64_t i = 0;
    v8f x;

    for (; i + 8 <= n; i += 8) {
        x = f->size == 2 ? widen_eight(f, TO(v8w, LOAD(v8s, at + 2 * i))) :
                           widen_eight(f, TO(v8w, LOAD(v8b, at + i)));
        memcpy(to + i, &x, sizeof x);
    }
    if (i < n) {
        char rest[16] = { 0 };

        memcpy(rest, at + i * f->size, (size_t)((n - i) * f->size));
        x = f->size == 2 ? widen_eight(f, TO(v8w, LOAD(v8s, rest))) :
                           widen_eight(f, TO(v8w, LOAD(v8b, rest)));
        memcpy(to + i, &x, (size_t)(n - i) * sizeof *to);
    }
}
