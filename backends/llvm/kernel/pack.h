/* SPDX-License-Identifier: BSD-3-Clause
 * Packing, the first half of a kernel: reads elements, splits them into limbs, and writes the limbs
 * to panels or planes.  Sixteen lines are packed at once, one in each lane, and one block of k at a
 * time. */
#ifndef LIMBER_KERNEL_PACK_H
#define LIMBER_KERNEL_PACK_H

enum {
    PIECES = 3 /* largest number of doubles whose sum is an element; loops over them are unrolled */
};

/* A strip of lines (rows of A or columns of B), one in each lane: lines [first, first + 16) of a
 * part of an operand, of which `live` exist, and elements [p0, p0 + len) along k.  If panels
 * have fewer than sixteen lines, several panels share the lanes. */
struct strip {
    const struct kernel_call *c;
    const struct packed *o;
    /* s: the operand's packing; as: read for all fields that are equal in both operands, if one
     * function packs both */
    const struct side *s;
    const struct side *as;
    int side;
    int64_t panel, first, live, p0, len; /* panel: number of the first line's panel */
    /* exponents of the scales, for the first and for the last eight lanes */
    v8l scale_low, scale_high;
};

/* 1 if the operand's slices are signed digits, made of elements rounded to nearest.  Kernels of
 * other limbs leave the code for these out. */
#define BALANCED(w) (LIMB_KIND == LIMB_KIND_slices && (w)->as->balanced)

/* ---- reading lines of an operand ------------------------------------------------------------- */

/* Prefetches elements of the strip's lines from p0 on, of `size` bytes each, which will be packed
 * later. */
FLAT void fetch_rows(const struct strip *w, int64_t p0, int size)
{
    const char *from = (const char *)w->o->view.data +
                       (w->o->line0 + w->first + p0 * w->o->view.p) * size;

    ROLL for (int p = 0; p < KERNEL_BLOCK; p++, from += w->o->view.p * size)
        ROLL for (int at = 0; at < KERNEL_LANES * size; at += 64)
            __builtin_prefetch(from + at);
}

/* Returns the strip's elements as rows of 16, *stride bytes apart.  They are read in place if
 * neighbouring lines are contiguous in memory, else gathered in `room`. */
FLAT const char *rows_of(const struct strip *w, char *room, int64_t *stride)
{
    const struct view *v = &w->o->view;
    int size = w->as->f.size;

    *stride = KERNEL_LANES * size;
    if (!v->patch && !v->tile_subset && v->line == 1 && w->live == KERNEL_LANES) {
        *stride = v->p * size;
        fetch_rows(w, w->p0 + KERNEL_BYTES, size);
        return (const char *)v->data + (w->o->line0 + w->first + w->p0 * v->p) * size;
    }
    w->c->cold->rows(w->c, w->side, (int64_t[]){ w->first, w->live, w->p0, w->len }, room);
    return room;
}

/* Returns x, with 0 instead of NaN and infinities. */
FLAT v8d finite(v8d x)
{
    return (v8d)((v8l)x & (v8l)(x - x == 0));
}

/* Moves x away from zero by so much that truncation then rounds to nearest, ties away from zero:
 * by the largest number below 1/2. */
FLAT v8d half_away(v8d x)
{
    return x + (v8d)(((v8l)x & all_l(INT64_MIN)) | (v8l)all_d(0x1.fffffffffffffp-2));
}

/* Splits binary128 numbers, times 2^scale, into three doubles: 49, 32 and 32 bits of the
 * significand.  Each is truncated to an integer or, if `nearest`, rounded to nearest, which for
 * their sum is the same. */
FLAT void quad_pieces(v8u low, v8u high, v8l scale, int nearest, v8d x[PIECES])
{
    v8l field = (v8l)(high >> 48 & 0x7fff);
    v8u top = (high & 0xffffffffffff) | ((v8u)(field != 0) & (v8u)all_l(1LL << 48));
    /* subnormal numbers have the exponent of field 1 */
    v8l e = field - (v8l)(field == 0) - 16383 + scale, keep, sign;

    keep = (e >= -nearest) & (field != 0x7fff);
    sign = (v8l)(high & (v8u)all_l(INT64_MIN));
    e = e & keep;
    x[0] = TO(v8d, (v8l)top) * powers_of_two(e - 48);
    x[1] = TO(v8d, (v8l)(low >> 32)) * powers_of_two(e - 80);
    x[2] = TO(v8d, (v8l)(low & 0xffffffff)) * powers_of_two(e - 112);
    UNROLL for (int i = 0; i < 3; i++)
        x[i] = (v8d)(((v8l)TRUNC(nearest ? half_away(x[i]) : x[i]) & keep) | sign);
}

/* True for formats of 8 or 16 bits whose numbers, subnormal ones included, are all normal numbers
 * in FP32. */
FLAT int fits_single(limber_format f)
{
    return limber_num_is_small(f) && f.exp_bits <= 7 && f.bias >= 0 && f.bias + f.frac_bits < 120;
}

/* Returns the FP32 numbers with these bit patterns in format f. */
FLAT v16f small_singles(limber_format f, v16i code)
{
    const int shift = 23 - f.frac_bits, sign = f.exp_bits + f.frac_bits;
    const int all = (1 << sign) - 1, top = all >> f.frac_bits << f.frac_bits;
    const float quantum = (float)power_of_two(1 - f.bias - f.frac_bits);
    /* in a format without infinities, the highest exponent means NaN, though the fraction may be
     * 0 */
    const int nan = f.flags & LIMBER_FORMAT_NO_INF ? 1 << 22 : 0;
    v16i size = code & all, normal = (size << shift) + ((127 - f.bias) << 23), past;
    v16i few = (v16i)(TO(v16f, size) * quantum), low = (v16i)(size < 1 << f.frac_bits);
    v16i v = (normal & ~low) | (few & low);

    /* `past`: mask of the bit patterns of NaN and infinities */
    if (f.flags & LIMBER_FORMAT_FINITE)
        past = size & 0;
    else if (f.flags & LIMBER_FORMAT_NO_INF)
        past = (v16i)(size == all);
    else
        past = (v16i)(size >= top);
    v = (v & ~past) | (((size << shift) | 255 << 23 | nan) & past);
    return (v16f)(v | (v16i)((v16u)code >> sign << 31));
}

/* Loads eight elements, each as a sum of one to three doubles (x[0] + x[1] + x[2]).  Only binary128
 * elements are scaled. */
FLAT void load_eight(const struct strip *w, const char *from, v8l scale, v8d x[PIECES])
{
    limber_format f = w->as->f;

    if (f.kind == LIMBER_KIND_DD || limber_num_is_f128(f)) {
        v8l a = LOAD(v8l, from), b = LOAD(v8l, from + 64);
        v8l even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        v8l odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);

        x[0] = (v8d)even;
        x[1] = (v8d)odd;
        if (f.kind == LIMBER_KIND_FLOAT)
            quad_pieces((v8u)even, (v8u)odd, scale, BALANCED(w), x);
    } else if (f.kind == LIMBER_KIND_INT && f.size == 8) {
        v8l v = LOAD(v8l, from), minus = v >> 63, size = (v ^ minus) - minus;

        /* both doubles have the sign of the element, so that each may be rounded */
        minus &= all_l(INT64_MIN);
        x[0] = (v8d)((v8l)(TO(v8d, (v8l)((v8u)size >> 32)) * 0x1p32) | minus);
        x[1] = (v8d)((v8l)TO(v8d, size & 0xffffffff) | minus);
    } else if (f.kind == LIMBER_KIND_INT && f.size == 4) {
        x[0] = TO(v8d, LOAD(v8i, from));
    } else if (f.kind == LIMBER_KIND_INT && f.size == 2) {
        x[0] = TO(v8d, LOAD(v8h, from));
    } else if (f.kind == LIMBER_KIND_INT && f.size == 1) {
        x[0] = TO(v8d, LOAD(v8c, from));
    } else if (f.kind == LIMBER_KIND_UINT && f.size == 1) {
        x[0] = TO(v8d, LOAD(v8b, from));
    } else if (limber_num_is_f64(f)) {
        x[0] = LOAD(v8d, from);
    } else if (limber_num_is_f32(f)) {
        x[0] = TO(v8d, LOAD(v8f, from));
    } else if (limber_num_is_bf16(f)) {
        x[0] = TO(v8d, (v8f)(TO(v8i, LOAD(v8h, from)) << 16));
    } else {
        double v[8];

        w->c->cold->load(f, from, v, 8);
        x[0] = LOAD(v8d, v);
    }
}

/* Loads eight elements, scaled by 2^scale and truncated or rounded to integers, each as a sum of
 * doubles. */
FLAT void load_eight_scaled(const struct strip *w, const char *from, v8l scale, v8d x[PIECES])
{
    v8l half = scale >> 1;
    v8d first = powers_of_two(half), second = powers_of_two(scale - half);

    load_eight(w, from, scale, x);
    if (w->as->axis == AXIS_none || w->as->pieces == 3)
        return;
    UNROLL for (int q = 0; q < PIECES; q++) {
        if (q >= w->as->pieces)
            break;
        if (w->o->special)      /* there may be NaN or infinities */
            x[q] = finite(x[q]);
        x[q] = x[q] * first * second;
        if (BALANCED(w))
            x[q] = half_away(x[q]);
        if (!w->as->fits_31_bits) /* otherwise a later conversion to integers truncates */
            x[q] = TRUNC(x[q]);
    }
}

/* ---- writing rows of packed limbs ------------------------------------------------------------ */

/* Returns the number of lines in a panel. */
FLAT int lines_of(int side)
{
    return side ? FIXED(nr) : FIXED(mr);
}

/* Returns the number of lanes that a strip of lines fills: those of one panel, or of several small
 * panels. */
FLAT int lanes_of(int side)
{
    int lines = lines_of(side);

    return lines < KERNEL_LANES ? KERNEL_LANES / lines * lines : KERNEL_LANES;
}

/* Returns the address of the strip's pixels in a limb's plane.  p: a channel, or the first channel
 * of a group. */
FLAT char *pixels_at(const struct strip *w, int limb, int64_t p)
{
    return w->o->data + limb * w->o->limb_bytes +
           (p * w->o->planes->length + w->first * w->o->planes->group) * FIXED(bytes);
}

/* Stores row `row` (one group along k) of a limb: 16 lanes of `bytes` bytes each. */
FLAT void store_row_of(const struct strip *w, int side, int limb, int64_t row, const char *v,
                       int bytes)
{
    int64_t lines = lines_of(side);
    char *to = w->o->data + w->panel * w->o->panel_bytes + limb * w->o->limb_bytes;

    if (lines >= KERNEL_LANES) {
        to += (row * lines + w->first - w->panel * lines) * bytes;
        __builtin_memcpy(to, v, (unsigned)(KERNEL_LANES * bytes));
        return;
    }
    ROLL for (int q = 0; q < KERNEL_LANES / lines && w->panel + q < w->o->panels; q++)
        __builtin_memcpy(to + q * w->o->panel_bytes + row * lines * bytes, v + q * lines * bytes,
                         (unsigned)(lines * bytes));
}

/* Stores a vector of packed values, for one group along k, in the panels (or the plane) of a strip
 * of lines. */
FLAT void put_row(const struct strip *w, int limb, int64_t row, const char *v, int bytes)
{
    if (w->o->planes)   /* the branches make lengths constant */
        __builtin_memcpy(pixels_at(w, limb, row), v, (unsigned)(KERNEL_LANES * bytes));
    else if (w->side)
        store_row_of(w, 1, limb, row, v, bytes);
    else
        store_row_of(w, 0, limb, row, v, bytes);
}

/* Sets the nonzero flags of the strip's panels for this block of k, if `any` is set.  Panels whose
 * flag is not set are not multiplied. */
FLAT void set_nonzero_flags(const struct strip *w, int limb, int any)
{
    int64_t lines = lines_of(w->side), last = lines < KERNEL_LANES ? KERNEL_LANES / lines : 1;

    if (any && !w->o->planes)
        ROLL for (int64_t q = 0; q < last && w->panel + q < w->o->panels; q++)
            w->o->nonzero[((w->panel + q) * w->as->limbs + limb) * w->o->blocks +
                          w->p0 / CFG(w->c).kc] = 1;
}

/* Adds `sum` to the sums of packed values [limb][chain][line], which correct for offsets. */
FLAT void add_sums(const struct strip *w, int limb, v16i sum)
{
    int32_t *to = w->o->sums + (limb * w->o->chunks + w->p0 / CFG(w->c).chunk) * w->o->sum_lines +
                  w->first;

    ROLL for (int i = 0; i < (w->o->planes ? KERNEL_LANES : lanes_of(w->side)); i++)
        to[i] += sum[i];
}

/* Returns the address of word `row` of the first lane in AMX tiles of 16 lines by 16 words. */
FLAT char *tile_at(const struct strip *w, int limb, int64_t row)
{
    return w->o->data + w->panel * w->o->panel_bytes + limb * w->o->limb_bytes +
           (row / 16 * FIXED(mr) + w->first - w->panel * FIXED(mr)) * 64 + row % 16 * 4;
}

/* Stores word `row` of each lane into AMX tiles. */
FLAT void put_tile(const struct strip *w, int limb, int64_t row, v16i v)
{
    char *to = tile_at(w, limb, row);
    int32_t word[KERNEL_LANES];

    STORE(word, v);
    ROLL for (int i = 0; i < KERNEL_LANES; i++)
        __builtin_memcpy(to + i * 64, &word[i], 4);
}

/* Stores the lanes of two panels of six lines from registers.  Copying through memory would need
 * partial loads of a longer store, which stall. */
FLAT void put_sixes(const struct strip *w, int limb, int64_t row, v16i v)
{
    char *to = w->o->data + w->panel * w->o->panel_bytes + limb * w->o->limb_bytes + row * 24;
    v4i four = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    v2i two = __builtin_shufflevector(v, v, 4, 5);

    STORE(to, four);
    STORE(to + 16, two);
    if (w->panel + 1 == w->o->panels)
        return;
    four = __builtin_shufflevector(v, v, 6, 7, 8, 9);
    two = __builtin_shufflevector(v, v, 10, 11);
    STORE(to + w->o->panel_bytes, four);
    STORE(to + w->o->panel_bytes + 16, two);
}

/* Stores row `row` of a limb, in lanes of 32 bits. */
FLAT void put_lanes(const struct strip *w, int limb, int64_t row, v16i v)
{
    char *to = w->o->data + w->panel * w->o->panel_bytes + limb * w->o->limb_bytes + row * 48;

    if (FIXED(matrix) && !w->side) {
        put_tile(w, limb, row, v);
        return;
    }
    if (FIXED(mr) == 6 && !w->side && !w->o->planes) {
        put_sixes(w, limb, row, v);
    } else if (FIXED(mr) == 12 && !w->side) {     /* stored from registers, as in put_sixes */
        v8i low = LOW(v);
        v4i rest = __builtin_shufflevector(v, v, 8, 9, 10, 11);

        STORE(to, low);
        STORE(to + 32, rest);
    } else {
        put_row(w, limb, row, (const char *)&v, 4);
    }
}

/* Interleaves words `row` (even) and row + 1 of each lane and stores them, for groups of eight
 * elements. */
FLAT void put_two_words(const struct strip *w, int limb, int64_t row, v16i a, v16i b)
{
    const v16i v[2] = {
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
        __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
    };

    put_row(w, limb, row / 2, (const char *)v, 8);
}

/* Stores word `row` of each lane.  With groups of eight, stores two words if the row is even, and
 * nothing if it is odd. */
FLAT void put_word(const struct strip *w, int limb, int64_t row, const v16i *word)
{
    if (FIXED(group) < 8)
        put_lanes(w, limb, row, word[0]);
    else if (row % 2 == 0)
        put_two_words(w, limb, row, word[0], word[1]);
}

/* Returns words of four bytes, the low bytes of four rows. */
FLAT v16i word_of(const v16i v[4])
{
    return (v[0] & 255) | (v[1] & 255) << 8 | (v[2] & 255) << 16 | v[3] << 24;
}

/* Stores four words of each of 16 lines of A into an AMX tile.  a, b, c, d: vectors with one word
 * of each line, which are transposed in registers, so that a line's words are contiguous. */
FLAT void store_words_transposed(const struct strip *w, int limb, int64_t row, v16i a, v16i b,
                                 v16i c, v16i d)
{
    char *to = tile_at(w, limb, row);
    v16i line[4];
    v16i ab0 = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13,
                                       29);
    v16i ab1 = __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30,
                                       15, 31);
    v16i cd0 = __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13,
                                       29);
    v16i cd1 = __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30,
                                       15, 31);

    /* quarter q (128 bits) of line[r] has the words of line 4 q + r */
    line[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13,
                                      28, 29);
    line[1] = __builtin_shufflevector(ab0, cd0, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14,
                                      15, 30, 31);
    line[2] = __builtin_shufflevector(ab1, cd1, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13,
                                      28, 29);
    line[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14,
                                      15, 30, 31);
    UNROLL for (int r = 0; r < 4; r++) {
        v4i q0 = __builtin_shufflevector(line[r], line[r], 0, 1, 2, 3);
        v4i q1 = __builtin_shufflevector(line[r], line[r], 4, 5, 6, 7);
        v4i q2 = __builtin_shufflevector(line[r], line[r], 8, 9, 10, 11);
        v4i q3 = __builtin_shufflevector(line[r], line[r], 12, 13, 14, 15);

        STORE(to + r * 64, q0);
        STORE(to + (4 + r) * 64, q1);
        STORE(to + (8 + r) * 64, q2);
        STORE(to + (12 + r) * 64, q3);
    }
}

/* Stores sixteen rows of a limb of A for a matrix unit. */
FLAT void put_rows(const struct strip *w, int limb, const v16i v[KERNEL_BLOCK])
{
    store_words_transposed(w, limb, w->p0 / 4, word_of(v), word_of(v + 4), word_of(v + 8),
                           word_of(v + 12));
}

/* Stores row p of a limb of an image into its plane. */
FLAT void store_plane_row(const struct strip *w, int limb, int p, v16i v)
{
    char *to = pixels_at(w, limb, w->p0 + p);

    if (FIXED(bytes) == 1) {
        v16c narrow = TO(v16c, v);

        STORE(to, narrow);
    } else if (FIXED(bytes) == 4) {
        STORE(to, v);
    } else {
        v16h narrow = TO(v16h, v);

        STORE(to, narrow);
    }
}

/* Stores `count` rows of integers, a multiple of four, as packed elements. */
FLAT void store_rows_of_integers(const struct strip *w, int limb, int p, const v16i *v, int count)
{
    if (w->o->planes && w->o->planes->group == 1) {
        ROLL for (int i = 0; i < count && p + i < w->len; i++)
            store_plane_row(w, limb, p + i, v[i]);
        return;
    }
    if (FIXED(group) == 8 && !w->o->planes) {   /* `count` is eight in this case */
        if (p < w->len)
            put_two_words(w, limb, (w->p0 + p) / 4, word_of(v), word_of(v + 4));
        return;
    }
    UNROLL for (int i = 0; i < count; i += FIXED(group) < 4 ? FIXED(group) : 4) {
        v16i word = v[i];

        if (FIXED(group) >= 4)
            word = word_of(v + i);
        else if (FIXED(group) == 2)
            word = (v[i] & 65535) | v[i + 1] << 16;
        if (p + i < w->len && w->o->planes)
            STORE(pixels_at(w, limb, w->p0 + p + i), word);
        else if (p + i < w->len)
            put_lanes(w, limb, (w->p0 + p + i) / FIXED(group), word);
    }
}

/* Stores eight rows of integers as packed elements. */
FLAT void put_eight(const struct strip *w, int limb, int p, const v16i v[8])
{
    store_rows_of_integers(w, limb, p, v, 8);
}

/* Stores one limb of a block of k as integers, with its offset added.  Elements past len are packed
 * as 0. */
FLAT void store_integer_limb(const struct strip *w, int limb, v16i v[KERNEL_BLOCK])
{
    v16i any = all_i(0), sum = all_i(0);

    ROLL for (int p = 0; p < KERNEL_BLOCK; p++) {
        if (!CFG(w->c).offsets) {
            any |= v[p];
            continue;
        }
        v[p] += w->s->offset[limb];
        if (p >= w->len)
            v[p] = all_i(0);
        sum += v[p];
    }
    if (w->s->sums)
        add_sums(w, limb, sum);
    if (!CFG(w->c).offsets)
        set_nonzero_flags(w, limb, ANY(any));
    if (FIXED(matrix) && !w->side) {
        put_rows(w, limb, v);
        return;
    }
    ROLL for (int p = 0; p < w->len; p += 8)
        put_eight(w, limb, p, v + p);
}

/* Stores one limb of row p as floats of the unit's format. */
FLAT void store_float_row(const struct strip *w, int limb, int p, v8d low, v8d high)
{
    if (FIXED(bytes) == 8) {
        v8d v[2] = { low, high };

        put_row(w, limb, w->p0 + p, (const char *)v, 8);
    } else {
        v16f v = JOIN(TO(v8f, low), TO(v8f, high));

        put_row(w, limb, w->p0 + p, (const char *)&v, 4);
    }
    /* mark_blocks (parts.c) sets the flags of limbs that are unchanged elements */
    if (LIMB_KIND != LIMB_KIND_whole)
        set_nonzero_flags(w, limb, ANY((low != 0) | (high != 0)));
}

/* Stores a block of integers in the unit's operand format. */
FLAT void put_values(const struct strip *w, int limb, v16i v[KERNEL_BLOCK])
{
    if (FIXED(unit) == UNIT_i8) {
        store_integer_limb(w, limb, v);
        return;
    }
    ROLL for (int p = 0; p < w->len; p++)
        store_float_row(w, limb, p, TO(v8d, LOW(v[p])), TO(v8d, HIGH(v[p])));
}

/* ---- cutting elements into limbs ------------------------------------------------------------- */

/* Rounds to the nearest value of an IEEE format with fewer bits, ties to even, by adding half a
 * unit in the last place to the bit pattern.  Below the normal numbers, adds a constant whose unit
 * in the last place is the format's smallest positive number. */
FLAT v8d round_limb(limber_format f, v8d x)
{
    int cut = 52 - f.frac_bits;
    double least = power_of_two(1 - f.bias), shift = 1.5 * power_of_two(53 - f.bias - f.frac_bits);
    v8l bits = (v8l)x, size = bits & INT64_MAX, sign = bits ^ size, kept, small, huge;
    v8d y = (v8d)size;

    kept = (size + (((int64_t)1 << (cut - 1)) - 1) + (size >> cut & 1)) & -((int64_t)1 << cut);
    small = (v8l)(y < least);
    huge = (v8l)((v8d)kept >= power_of_two(f.bias + 1));
    kept = (kept & ~small) | ((v8l)((y + shift) - shift) & small);
    kept = (kept & ~huge) | ((int64_t)0x7ff << 52 & huge);
    return (v8d)(kept | sign);
}

/* Loads eight elements, scaled by 2^scale, as doubles.  This is exact, since the elements have
 * FP32's range. */
FLAT v8d scaled_eight(const struct strip *w, const char *from, v8l scale)
{
    v8l half = scale >> 1;
    v8d x[PIECES];

    load_eight(w, from, scale, x);
    return finite(x[0]) * powers_of_two(half) * powers_of_two(scale - half);
}

/* Packs a block of k as Hi/Lo limbs.  Each limb is the remainder of the element after the earlier
 * limbs, scaled up and rounded. */
FLAT void pack_hilo(const struct strip *w, const char *from, int64_t stride)
{
    double up = power_of_two(w->as->shift);

    ROLL for (int p = 0; p < w->len; p++) {
        v8d low = scaled_eight(w, from + p * stride, w->scale_low);
        v8d high = scaled_eight(w, from + p * stride + 8 * w->as->f.size, w->scale_high);

        ROLL for (int l = 0; l < w->as->limbs; l++) {
            v8d first = round_limb(w->as->limb, low), second = round_limb(w->as->limb, high);

            low = (low - first) * up;
            high = (high - second) * up;
            if (w->s->used[l])
                store_float_row(w, l, p, first, second);
        }
    }
}

/* Adds sums of squares to those in memory, which become Euclidean norms when all of k is packed. */
FLAT void add_squares(const struct strip *w, const v8d sum[2])
{
    double *to = w->o->norm + w->first;

    ROLL for (int i = 0; i < (w->o->planes ? KERNEL_LANES : lanes_of(w->side)); i++)
        to[i] += sum[i / 8][i % 8];
}

/* Copies rows of 16 elements, `stride` bytes apart, unchanged. */
FLAT void copy_rows(const struct strip *w, int side, const char *from, int64_t stride)
{
    int64_t lines = lines_of(side), row = lines * FIXED(bytes), len = w->len;
    /* distance of prefetches; they are needed since rows may lie on different pages */
    int64_t ahead = KERNEL_BLOCK * stride;
    char *panel = w->o->data + w->panel * w->o->panel_bytes + w->p0 * row, *to;

    if (w->o->planes) {
        ROLL for (int64_t p = 0; p < len; p++, from += stride)
            __builtin_memcpy(pixels_at(w, 0, w->p0 + p), from, KERNEL_LANES * FIXED(bytes));
        return;
    }
    if (lines >= KERNEL_LANES) {
        to = panel + (w->first - w->panel * lines) * FIXED(bytes);
        ROLL for (int64_t p = 0; p < len; p++, from += stride, to += row) {
            ROLL for (int64_t i = 0; i < KERNEL_LANES * FIXED(bytes); i += 64)
                __builtin_prefetch(from + ahead + i);
            __builtin_memcpy(to, from, KERNEL_LANES * FIXED(bytes));
        }
        return;
    }
    ROLL for (int64_t q = 0; q < KERNEL_LANES / lines && w->panel + q < w->o->panels; q++) {
        const char *at = from + q * row;

        to = panel + q * w->o->panel_bytes;
        ROLL for (int64_t p = 0; p < len; p++, at += stride, to += row) {
            __builtin_prefetch(at + ahead);
            __builtin_memcpy(to, at, (unsigned)row);
        }
    }
}

/* Packs a block of k of unsplit elements, copied or converted.  Sums their squares if norms are
 * needed. */
FLAT void pack_whole(const struct strip *w, const char *from, int64_t stride)
{
    v8d squares[2] = { all_d(0), all_d(0) };
    int single = limber_num_is_f32(w->as->f);

    if (w->as->copied && w->side) {     /* the branches make lengths constant */
        copy_rows(w, 1, from, stride);
        return;
    }
    if (w->as->copied) {
        copy_rows(w, 0, from, stride);
        return;
    }
    ROLL for (int p = 0; p < w->len; p++) {
        v8d low[PIECES], high[PIECES];

        if (single) {
            v16f x = LOAD(v16f, from + p * stride);

            low[0] = TO(v8d, LOW(x));
            high[0] = TO(v8d, HIGH(x));
        } else if (fits_single(w->as->f)) {
            const char *at = from + p * stride;
            v16f x = w->as->f.size == 2 ? small_singles(w->as->f, TO(v16i, LOAD(v16h, at))) :
                                          small_singles(w->as->f, TO(v16i, LOAD(v16b, at)));

            low[0] = TO(v8d, LOW(x));
            high[0] = TO(v8d, HIGH(x));
        } else {
            load_eight(w, from + p * stride, w->scale_low, low);
            load_eight(w, from + p * stride + 8 * w->as->f.size, w->scale_high, high);
        }
#ifndef KERNEL_PREBUILT
        if (w->as->rounds) {
            double v[KERNEL_LANES];

            STORE(v, low[0]);
            STORE(v + 8, high[0]);
            w->c->cold->round(w->c, w->side, v);
            low[0] = LOAD(v8d, v);
            high[0] = LOAD(v8d, v + 8);
        }
#endif
        store_float_row(w, 0, p, low[0], high[0]);
        squares[0] = FMA(low[0], low[0], squares[0]);
        squares[1] = FMA(high[0], high[0], squares[1]);
    }
    if (CFG(w->c).norms)
        add_squares(w, squares);
}

/* Digits of a block's integers to base 2^base, [digit][element along k][line].  For residues they
 * are in [-2^(base-1), 2^(base-1)]; for slices they are those of two's complement or, if balanced,
 * in [-2^(base-1), 2^(base-1)) below the top one.  Each digit is split off the top by rounding,
 * with an exact remainder.  The digits of an element's doubles are added, and carries are
 * propagated. */
typedef v16f digits[KERNEL_ACCUMULATORS][KERNEL_BLOCK];

/* Splits the digit of weight `unit` off eight integers x, each the sum of several doubles, and
 * leaves the remainders in x.  Returns the digits. */
FLAT v8d cut_eight(const struct strip *w, v8d x[PIECES], double unit, double inverse)
{
    v8d d = all_d(0);

    UNROLL for (int q = 0; q < PIECES; q++) {
        v8d t;

        if (q >= w->as->pieces)
            break;
        t = ROUND(x[q] * inverse);
        x[q] = FMA(t, all_d(-unit), x[q]);
        d += t;
    }
    return d;
}

/* Computes the digits of sixteen lines' element p from the doubles whose sums are the integers. */
FLAT void split_row_into_digits(const struct strip *w, v8d low[PIECES], v8d high[PIECES],
                                digits out, int p)
{
    int base = w->as->base, count = w->as->digits;
    float up = (float)power_of_two(base), down = (float)power_of_two(-base);
    v16f carry = all_f(0), half = all_f(BALANCED(w) ? 0.5f : 0);

    ROLL for (int i = count - 1; i >= 0; i--) {
        double unit = power_of_two(base * i), inverse = power_of_two(-base * i);

        out[i][p] = JOIN(TO(v8f, cut_eight(w, low, unit, inverse)),
                         TO(v8f, cut_eight(w, high, unit, inverse)));
    }
    if (LIMB_KIND == LIMB_KIND_residues && w->as->pieces == 1)
        return;
    ROLL for (int i = 0; i < count; i++) {
        v16f v = out[i][p] + carry;

        if (i < count - 1) {
            carry = LIMB_KIND == LIMB_KIND_residues ? ROUND(v * down) : FLOOR(v * down + half);
            v = FMA(carry, all_f(-up), v);
        }
        out[i][p] = v;
    }
}

/* Returns 2^e in each lane, for -127 < e < 128. */
FLAT v16f float_powers(v16i e)
{
    return (v16f)((e + 127) << 23);
}

/* 2^scale of sixteen lines, as the product of two FP32 numbers. */
struct singles {
    v16f first, second;
};

/* Returns the scales of a strip's sixteen lines. */
FLAT struct singles singles_of(const struct strip *w)
{
    v16i scale = w->as->axis == AXIS_none ? all_i(0) :
                                            JOIN(TO(v8i, w->scale_low), TO(v8i, w->scale_high));
    v16i half = scale >> 1;

    return (struct singles){ float_powers(half), float_powers(scale - half) };
}

/* Returns x plus the operand's offset, with zeros in the lanes from `count` on. */
FLAT v16i add_offset(const struct strip *w, v16i x, int64_t count)
{
    v16i lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

    return (x + w->s->offset[0]) & (v16i)(lane < (int32_t)count);
}

/* Loads sixteen FP32 elements, times 2^scale.  A product that underflows is below 1/2. */
FLAT v16f scale_sixteen(const struct strip *w, const char *from, const struct singles *s)
{
    v16f v = LOAD(v16f, from);

    if (w->o->special)  /* there may be NaN or infinities */
        v = (v16f)((v16i)v & (v16i)(v - v == 0));
    return v * s->first * s->second;
}

/* Loads sixteen FP32 elements as trunc(x * 2^scale), which is below 2^31. */
FLAT v16i fix_sixteen(const struct strip *w, const char *from, const struct singles *s)
{
    return TO(v16i, scale_sixteen(w, from, s));
}

/* Converts a block of FP32 elements, times 2^scale, to integers of at most 30 bits. */
FLAT void fix_singles(const struct strip *w, const char *from, int64_t stride,
                      v16i x[KERNEL_BLOCK])
{
    struct singles s = singles_of(w);

    ROLL for (int p = 0; p < w->len; p++) {
        v16f v = scale_sixteen(w, from + p * stride, &s);

        if (BALANCED(w)) /* adds almost a half, as half_away does */
            v += (v16f)(((v16i)v & all_i(INT32_MIN)) | (v16i)all_f(0x1.fffffep-2f));
        x[p] = TO(v16i, v);
    }
}

/* Converts a block of other formats, times 2^scale, to integers of at most 30 bits. */
FLAT void fix_doubles(const struct strip *w, const char *from, int64_t stride,
                      v16i x[KERNEL_BLOCK])
{
    ROLL for (int p = 0; p < w->len; p++) {
        v8d low[PIECES], high[PIECES];

        load_eight_scaled(w, from + p * stride, w->scale_low, low);
        load_eight_scaled(w, from + p * stride + 8 * w->as->f.size, w->scale_high, high);
        x[p] = JOIN(TO(v8i, low[0]), TO(v8i, high[0]));
    }
}

/* Packs a block of FP32 elements whose scaled integers fit 8 bits, in registers. */
FLAT void pack_single_bytes(const struct strip *w, const char *from, int64_t stride)
{
    v16i offset = all_i(w->s->offset[0]), any = all_i(0), sum = all_i(0), word[4];
    struct singles s = singles_of(w);

    UNROLL for (int p = 0; p < KERNEL_BLOCK; p += 4) {
        v16i t[4];

        UNROLL for (int q = 0; q < 4; q++) {
            t[q] = all_i(0);
            if (p + q < w->len) {
                t[q] = fix_sixteen(w, from + (p + q) * stride, &s);
                any |= t[q];
                t[q] += offset;
            }
            sum += t[q];
        }
        word[p / 4] = word_of(t);
    }
    if (w->s->sums)
        add_sums(w, 0, sum);
    if (!CFG(w->c).offsets)
        set_nonzero_flags(w, 0, ANY(any));
    if (FIXED(matrix) && !w->side) {
        store_words_transposed(w, 0, w->p0 / 4, word[0], word[1], word[2], word[3]);
        return;
    }
    UNROLL for (int p = 0; p < KERNEL_BLOCK; p += 4) {
        if (p < w->len && w->o->planes)
            STORE(pixels_at(w, 0, w->p0 + p), word[p / 4]);
        else if (p < w->len)
            put_word(w, 0, (w->p0 + p) / 4, word + p / 4);
    }
}

/* Packs FP32 elements of A whose scaled integers fit 8 bits into AMX tiles.  Rows of A must be
 * contiguous. */
FLAT void tiles_of_singles(const struct strip *w)
{
    const struct view *v = &w->o->view;
    const float *from = (const float *)v->data + (w->o->line0 + w->first) * v->line + w->p0;
    char *to = tile_at(w, 0, w->p0 / 4);
    struct singles s = singles_of(w);
    v16i any = all_i(0), sum = all_i(0);

    ROLL for (int64_t i = 0; i < w->live; i++, from += v->line, to += KERNEL_BYTES) {
        struct singles one = { all_f(s.first[i]), all_f(s.second[i]) };
        v16i all = all_i(0);

        ROLL for (int64_t p = 0; p < KERNEL_BYTES; p += KERNEL_LANES) {
            float room[KERNEL_LANES] = { 0 };
            v16i x;
            v16c bytes;

            if (p + KERNEL_LANES > w->len)
                __builtin_memcpy(room, from + p, (size_t)(p < w->len ? w->len - p : 0) * 4);
            x = fix_sixteen(w, (const char *)(p + KERNEL_LANES > w->len ? room : from + p), &one);
            any |= x;
            if (w->s->offset[0])
                x = p + KERNEL_LANES > w->len ? add_offset(w, x, w->len - p) : x + w->s->offset[0];
            all += x;
            bytes = TO(v16c, x);
            STORE(to + p, bytes);
        }
        if (w->s->sums)
            sum[i] = __builtin_reduce_add(all);
    }
    if (w->s->sums)
        add_sums(w, 0, sum);
    if (!CFG(w->c).offsets)
        set_nonzero_flags(w, 0, ANY(any));
}

/* Packs up to 64 elements along k of each line by tiles_of_singles, if the operand is such a matrix
 * of FP32.  Returns 0 if it is not. */
FLAT int pack_tiles_of_singles(struct strip *w, int64_t k)
{
    const struct view *v = &w->o->view;

    if (FIXED(matrix) == 0 || w->side || !limber_num_is_f32(w->as->f) || !w->as->fits_31_bits ||
        w->as->limbs != 1 || v->patch || v->tile_subset || v->p != 1)
        return 0;
    w->len = min64(KERNEL_BYTES, k - w->p0);
    tiles_of_singles(w);
    return 1;
}

/* Packs integers of at most 31 bits as slices, by shifts and masks. */
FLAT void pack_31_bits(const struct strip *w, const char *from, int64_t stride)
{
    v16i x[KERNEL_BLOCK], v[KERNEL_BLOCK];
    int step = w->as->step, half = BALANCED(w) ? 1 << (step - 1) : 0, halves = 0;

    if (FIXED(unit) == UNIT_i8 && FIXED(group) >= 4 && limber_num_is_f32(w->as->f) &&
        w->as->limbs == 1 && (!w->o->planes || w->o->planes->group == 4)) {
        pack_single_bytes(w, from, stride);
        return;
    }
    if (limber_num_is_f32(w->as->f))
        fix_singles(w, from, stride, x);
    else
        fix_doubles(w, from, stride, x);
    ROLL for (int64_t p = w->len; p < KERNEL_BLOCK; p++)
        x[p] = all_i(0);
    /* adds `half`, half of a digit's base, at each digit but the top one.  It is subtracted from
     * the digits again below, which makes them signed. */
    ROLL for (int l = 1; l < w->as->limbs; l++)
        halves = (halves << step) + half;
    ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
        x[p] += halves;
    ROLL for (int l = 0; l < w->as->limbs; l++) {
        int shift = step * (w->as->limbs - 1 - l);

        if (!w->s->used[l])
            continue;
        ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
            v[p] = x[p] >> (shift < 31 ? shift : 31);
        if (l > 0 || !w->as->is_signed)
            ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
                v[p] = (v[p] & ((1 << step) - 1)) - (l > 0 ? half : 0);
        put_values(w, l, v);
    }
}

/* Computes the digits of a block's integers. */
FLAT void cut_block(const struct strip *w, const char *from, int64_t stride, digits out)
{
    ROLL for (int p = 0; p < w->len; p++) {
        v8d low[PIECES], high[PIECES];

        load_eight_scaled(w, from + p * stride, w->scale_low, low);
        load_eight_scaled(w, from + p * stride + 8 * w->as->f.size, w->scale_high, high);
        split_row_into_digits(w, low, high, out, p);
    }
    ROLL for (int64_t p = w->len; p < KERNEL_BLOCK; p++)
        ROLL for (int i = 0; i < w->as->digits; i++)
            out[i][p] = all_f(0);
}

/* Packs a block of k as slices.  Limb 0 is the top digit. */
FLAT void pack_slices(const struct strip *w, const char *from, int64_t stride)
{
    digits d;
    v16i v[KERNEL_BLOCK];

    if (w->as->fits_31_bits) {
        pack_31_bits(w, from, stride);
        return;
    }
    cut_block(w, from, stride, d);
    ROLL for (int l = 0; l < w->as->limbs; l++) {
        if (!w->s->used[l])
            continue;
        ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
            v[p] = TO(v16i, d[w->as->limbs - 1 - l][p]);
        put_values(w, l, v);
    }
}

/* Computes residue l of eight rows, in [-p/2, p/2] or, for an unsigned operand, in [0, p).  The
 * digits times the powers of 2^12 stay below 2^22 and are exact in FP32.  The error of the quotient
 * is below 2^-9, so |r| < p/2 + 1/2.  A residue of 256 is packed as the byte 0. */
FLAT void residues_of(const struct strip *w, digits d, int l, int p, v16i v[8])
{
    float m = (float)CFG(w->c).crt.modulus[l], inverse = CFG(w->c).inverse[l];
    /* half the modulus, which is added to make residues unsigned */
    int lift = w->s->is_signed ? 0 : CFG(w->c).crt.modulus[l] / 2;
    v16f t[8];

    UNROLL for (int i = 0; i < 8; i++)
        t[i] = all_f((float)-lift);
    ROLL for (int i = 0; i < w->as->digits; i++) {
        v16f power = all_f(CFG(w->c).power[l][i]);

        UNROLL for (int q = 0; q < 8; q++)
            t[q] = FMA(d[i][p + q], power, t[q]);
    }
    UNROLL for (int q = 0; q < 8; q++) {
        t[q] = FMA(ROUND_PRODUCT(t[q], all_f(inverse)), all_f(-m), t[q]);
        v[q] = TO(v16i, t[q]) + lift;
    }
}

/* Packs 12-bit residues.  The digits times the powers stay within 2^24.  The quotient has an error
 * of 1/p in addition to its rounding, and |r| <= p/2 + 1.  Four rows at a time fit sixteen
 * registers. */
FLAT void pack_wide_residues(const struct strip *w, digits d, int l)
{
    v16f m = all_f((float)-CFG(w->c).crt.modulus[l]), inverse = all_f(CFG(w->c).inverse[l]);

    ROLL for (int p = 0; p < w->len; p += 4) {
        v16f t[4];
        v16i v[4];

        UNROLL for (int q = 0; q < 4; q++)
            t[q] = d[0][p + q];
        ROLL for (int i = 1; i < w->as->digits; i++) {
            v16f power = all_f(CFG(w->c).power[l][i]);

            UNROLL for (int q = 0; q < 4; q++)
                t[q] = FMA(d[i][p + q], power, t[q]);
        }
        UNROLL for (int q = 0; q < 4; q++)
            v[q] = TO(v16i, FMA(ROUND_PRODUCT(t[q], inverse), m, t[q]));
        store_rows_of_integers(w, l, p, v, 4);
    }
}

/* Packs a block of k as residues, computed from the digits of scaled integers. */
FLAT void pack_residues(const struct strip *w, const char *from, int64_t stride)
{
    v16i any = all_i(0);
    digits d;
    int some;

    cut_block(w, from, stride, d);
    ROLL for (int i = 0; i < w->as->digits; i++)
        ROLL for (int p = 0; p < w->len; p++)
            any |= (v16i)(d[i][p] != 0);
    some = ANY(any);
    ROLL for (int l = 0; l < w->as->limbs; l++) {
        set_nonzero_flags(w, l, some);
        if (FIXED(wide)) {
            pack_wide_residues(w, d, l);
            continue;
        }
        if (FIXED(matrix) && !w->side) {
            v16i v[KERNEL_BLOCK];

            residues_of(w, d, l, 0, v);
            residues_of(w, d, l, 8, v + 8);
            put_rows(w, l, v);
            continue;
        }
        ROLL for (int p = 0; p < w->len; p += 8) {
            v16i v[8];

            residues_of(w, d, l, p, v);
            put_eight(w, l, p, v);
        }
    }
}

/* ---- bytes that are packed unchanged --------------------------------------------------------- */

/* Returns the sum of the four bytes of each word.  Packed bytes of A are unsigned if the
 * instruction multiplies u8 by s8. */
FLAT v16i byte_sums(const struct strip *w, v16i word)
{
    if (w->side == 0 && !CFG(w->c).same_sign)
        return (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (v16i)((v16u)word >> 24);
    return (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
}

/* The sums of the packed bytes of each line of a strip, and the OR of their words, which is
 * nonzero if a byte is. */
struct shown {
    v16i sum, any;
};

/* Returns the bytes of elements [p0 + p, p0 + p + 4) as they are packed, 0 past len, and adds them
 * to *x. */
FLAT v16i packed_bytes(const struct strip *w, int64_t p, v16i word, struct shown *x)
{
    x->any |= word;
    if (w->s->offset[0]) {
        word ^= (int32_t)0x80808080;
        if (w->len - p < 4)
            word &= (1 << 8 * (w->len - p)) - 1;
    }
    if (w->s->sums)
        x->sum += byte_sums(w, word);
    return word;
}

/* Adds the sums in *x to the operand's sums of packed values, if the other operand has offsets, and
 * records whether the strip has a nonzero byte, if no operand has an offset. */
FLAT void note_bytes(const struct strip *w, const struct shown *x)
{
    if (w->s->sums)
        add_sums(w, 0, x->sum);
    if (!CFG(w->c).offsets)
        set_nonzero_flags(w, 0, ANY(x->any));
}

/* Packs 8-bit integers of an image, `stride` bytes apart along k, into planes.  Adds the operand's
 * offset and, if needed, sums the packed values. */
FLAT void pack_pixel_bytes(const struct strip *w, const char *from, int64_t stride)
{
    struct shown x = { all_i(0), all_i(0) };
    v16i sum = all_i(0);

    ROLL for (int64_t p = 0; p < w->len && w->o->planes->group == 4; p += 4) {
        v16i word = all_i(0);

        UNROLL for (int q = 0; q < 4; q++)
            if (p + q < w->len)
                word |= TO(v16i, LOAD(v16b, from + (p + q) * stride)) << 8 * q;
        word = packed_bytes(w, p, word, &x);
        STORE(pixels_at(w, 0, w->p0 + p), word);
    }
    if (w->o->planes->group == 4) {
        note_bytes(w, &x);
        return;
    }
    ROLL for (int64_t p = 0; p < w->len; p++, from += stride) {
        v16c v = LOAD(v16c, from) + (signed char)w->s->offset[0];

        STORE(pixels_at(w, 0, w->p0 + p), v);
        if (w->s->sums)
            sum += TO(v16i, v);
    }
    if (w->s->sums)
        add_sums(w, 0, sum);
}

/* Packs sixteen rows of words, which have four bytes per line, as pairs of 16-bit elements: each
 * word becomes two words. */
FLAT void store_16_bit_pairs(const struct strip *w, const v16i row[16])
{
    v16i any = all_i(0), sign = all_i(w->as->f.kind == LIMBER_KIND_UINT ? 255 : -1);

    ROLL for (int i = 0; 4 * i < w->len; i++) {
        v16i x = row[i];

        any |= x;
        put_lanes(w, 0, (w->p0 + 4 * i) / 2,
                  (x << 24 >> 24 & sign & 65535) | (x << 16 >> 24 & sign) << 16);
        if (4 * i + 2 < w->len)
            put_lanes(w, 0, (w->p0 + 4 * i) / 2 + 1,
                      (x << 8 >> 24 & sign & 65535) | (x >> 24 & sign) << 16);
    }
    set_nonzero_flags(w, 0, ANY(any));
}

/* Packs sixteen words of each lane.  Bytes of the words past len may have any value. */
FLAT void store_word_rows(const struct strip *w, v16i row[16])
{
    struct shown x = { all_i(0), all_i(0) };

    if (FIXED(group) == 2) {
        store_16_bit_pairs(w, row);
        return;
    }
    ROLL for (int i = 0; 4 * i < w->len; i++)
        row[i] = packed_bytes(w, 4 * i, row[i], &x);
    note_bytes(w, &x);
    /* an AMX tile has 64 elements along k; elements past len are cleared */
    if (FIXED(matrix) && !w->side) {
        ROLL for (int64_t i = (w->len + 3) / 4; i < 16; i++)
            row[i] = all_i(0);
        ROLL for (int i = 0; i < 16; i += 4)
            store_words_transposed(w, 0, w->p0 / 4 + i, row[i], row[i + 1], row[i + 2], row[i + 3]);
        return;
    }
    if (FIXED(group) == 8 && (w->len + 3) / 4 % 2)
        row[(w->len + 3) / 4] = all_i(0);
    ROLL for (int i = 0; 4 * i < w->len; i++)
        put_word(w, 0, w->p0 / 4 + i, row + i);
}

/* Interleaves four rows of sixteen bytes, `step` bytes apart, into words.  Rows from `count` on are
 * zero. */
FLAT v16i word_of_rows(const char *from, int64_t step, int64_t count)
{
    v16i word = TO(v16i, LOAD(v16b, from));

    UNROLL for (int q = 1; q < 4; q++)
        if (q < count)
            word |= TO(v16i, LOAD(v16b, from + q * step)) << 8 * q;
    return word;
}

/* Packs bytes of an operand in which the elements of neighbouring lines at the same k are adjacent
 * in memory. */
FLAT void pack_bytes_along_lines(const struct strip *w)
{
    const struct view *v = &w->o->view;
    const char *from = (const char *)v->data + w->o->line0 + w->first + w->p0 * v->p;
    char room[KERNEL_BYTES * KERNEL_LANES];
    int64_t step = v->p;
    v16i row[16];

    if (w->live < KERNEL_LANES) {
        __builtin_memset(room, 0, sizeof room);
        ROLL for (int64_t p = 0; p < w->len; p++)
            __builtin_memcpy(room + p * KERNEL_LANES, from + p * step, (size_t)w->live);
        from = room;
        step = KERNEL_LANES;
    }
    if (w->len == KERNEL_BYTES) {
        ROLL for (int i = 0; i < 16; i++)
            row[i] = word_of_rows(from + 4 * i * step, step, 4);
    } else {
        ROLL for (int64_t p = 0; p < w->len; p += 4)
            row[p / 4] = word_of_rows(from + p * step, step, w->len - p);
    }
    store_word_rows(w, row);
}

/* Packs bytes that are contiguous along k, so that four of them already form a word. */
FLAT void pack_bytes_along_k(const struct strip *w)
{
    v16i row[16];

    w->c->cold->words_of_bytes(w->c, w->side, (int64_t[]){ w->first, w->live, w->p0, w->len },
                               (char *)row);
    store_word_rows(w, row);
}

/* Packs a strip of A's bytes into AMX tiles.  Rows of A must be contiguous.  Flips signs if there
 * is an offset. */
FLAT void bytes_of_tiles(const struct strip *w)
{
    const struct view *v = &w->o->view;
    const char *from = (const char *)v->data + (w->o->line0 + w->first) * v->line + w->p0;
    char *to = tile_at(w, 0, w->p0 / 4);
    v16i flip = all_i(w->s->offset[0] ? (int32_t)0x80808080 : 0);
    struct shown x = { all_i(0), all_i(0) };
    char room[KERNEL_BYTES] = { 0 };

    /* only `len` bytes are flipped, so that the padding stays zero */
    __builtin_memcpy(room, &flip, (size_t)w->len);
    flip = LOAD(v16i, room);
    ROLL for (int64_t i = 0; i < KERNEL_LANES; i++, from += v->line, to += KERNEL_BYTES) {
        v16i line = all_i(0);

        if (i < w->live && w->len == KERNEL_BYTES) {
            line = LOAD(v16i, from);
        } else if (i < w->live) {
            __builtin_memcpy(room, from, (size_t)w->len);
            line = LOAD(v16i, room);
        }
        x.any |= line;
        line ^= flip;
        if (w->s->sums)
            x.sum[i] = __builtin_reduce_add(byte_sums(w, line));
        STORE(to, line);
    }
    note_bytes(w, &x);
}

/* True if 8-bit integers are multiplied as 16-bit elements. */
FLAT int are_pairs(const struct strip *w)
{
    return FIXED(unit) == UNIT_i8 && FIXED(group) == 2 && FIXED(bytes) == 2 && w->as->limbs == 1 &&
           w->as->axis == AXIS_none && w->as->f.size == 1 && w->as->f.kind != LIMBER_KIND_FLOAT &&
           !w->o->planes &&
           !w->s->offset[0] && !w->s->sums && !CFG(w->c).offsets;
}

/* Packs up to 64 bytes along k of each line, if the strides allow it.  Returns 0 if they do not. */
FLAT int pack_bytes(struct strip *w, int64_t k)
{
    const struct view *v = &w->o->view;

    if (v->patch)
        return 0;
    w->len = min64(KERNEL_BYTES, k - w->p0);
    if (v->line == 1 && !v->tile_subset)
        pack_bytes_along_lines(w);
    else if (v->p == 1 && FIXED(matrix) != 0 && !w->side && !v->tile_subset)
        bytes_of_tiles(w);
    else if (v->p == 1)
        pack_bytes_along_k(w);
    else
        return 0;
    return 1;
}

/* ---- the function that a task calls ---------------------------------------------------------- */

/* Returns the exponents of the scales of eight lines of a strip, from line `from` on; 0 for lines
 * that do not exist. */
FLAT v8l scales_of(const struct strip *w, int64_t from)
{
    int32_t e[8] = { 0 };
    const int32_t *scale = w->o->scale + w->o->line0 + w->first + from;

    if (!w->o->scale)
        return all_l(0);
    if (w->o->planes)   /* all pixels of planes share one scale */
        return all_l(*w->o->scale);
    if (w->live - from >= 8)
        return TO(v8l, LOAD(v8i, scale));
    ROLL for (int64_t i = 0; i < w->live - from; i++)
        e[i] = scale[i];
    return TO(v8l, LOAD(v8i, e));
}

/* Packs lines that are contiguous along k by transposing them directly into their panels.  Sets
 * w->len to the number of elements that it packed.  Returns 0, and packs nothing, if the
 * operand's layout does not allow it. */
FLAT int pack_along_k(struct strip *w, int64_t k)
{
    const struct view *v = &w->o->view;
    int64_t lines = lines_of(w->side), row = lines * FIXED(bytes);
    int64_t each = min64(lines, KERNEL_LANES), from = w->first - w->panel * lines;
    char *to = w->o->data + w->panel * w->o->panel_bytes + w->p0 * row + from * FIXED(bytes);

    if (v->patch || w->o->planes || v->p != 1 || w->len < KERNEL_BLOCK || w->live <= 0)
        return 0;
    w->len = min64(KERNEL_BYTES - w->p0 % KERNEL_BYTES, k - w->p0) / KERNEL_BLOCK * KERNEL_BLOCK;
    ROLL for (int64_t at = 0; at < min64(lanes_of(w->side), w->live); at += each) {
        w->c->cold->pack(w->c, w->side,
                         (int64_t[]){ w->first + at, w->live - at, w->p0, w->len }, (int)each, to,
                         row);
        to += w->o->panel_bytes;
    }
    return 1;
}

#if defined(KERNEL_LIMB_KIND_unit) || defined(KERNEL_LIMB_KIND_half)
FLAT void pack_unit(const struct strip *w, const char *from, int64_t stride);
#else
/* Placeholder, which is never called: these kernels simulate no unit. */
FLAT void pack_unit(const struct strip *w, const char *from, int64_t stride)
{
    (void)w, (void)from, (void)stride;
}
#endif

/* Packs one block of k of one strip of lines, by the code for the kind of limbs. */
FLAT void pack_piece(struct strip *w, int64_t k)
{
    char room[KERNEL_BLOCK * KERNEL_LANES * 16] __attribute__((aligned(64)));
    const char *from;
    int64_t stride;

    /* lines that do not exist may have any value, so they are not packed */
    if (FIXED(unit) == UNIT_i8 && w->live <= 0) {
        w->len = min64(KERNEL_BYTES, k - w->p0);
        return;
    }
    if (LIMB_KIND == LIMB_KIND_slices && (w->as->copied || are_pairs(w)) && pack_bytes(w, k))
        return;
    if (LIMB_KIND == LIMB_KIND_slices && !w->as->copied && pack_tiles_of_singles(w, k))
        return;
    w->len = min64(KERNEL_BLOCK, k - w->p0);
    if (LIMB_KIND == LIMB_KIND_whole && w->as->copied && pack_along_k(w, k))
        return;
    from = rows_of(w, room, &stride);
    switch (LIMB_KIND) {
    case LIMB_KIND_whole: pack_whole(w, from, stride); break;
    case LIMB_KIND_hilo: pack_hilo(w, from, stride); break;
    case LIMB_KIND_slices:
        if (w->as->copied && w->o->planes)
            pack_pixel_bytes(w, from, stride);
        else
            pack_slices(w, from, stride);
        break;
    case LIMB_KIND_unit:
    case LIMB_KIND_half: pack_unit(w, from, stride); break;
    default: pack_residues(w, from, stride); break;
    }
}

/* Clears the padding at the end of k in AMX tiles of A, for lines [from, to). */
FLAT void clear_tiles(const struct kernel_call *c, int64_t from, int64_t to)
{
    const struct packed *o = &c->op[0];

    for (int64_t panel = from / FIXED(mr); panel * FIXED(mr) < to; panel++)
        for (int l = 0; l < CFG(c).side[0].limbs; l++)
            for (int64_t row = (c->k + 3) / 4; row % 16; row++)
                ROLL for (int i = 0; i < FIXED(mr); i++)
                    __builtin_memset(o->data + panel * o->panel_bytes + l * o->limb_bytes +
                                     (row / 16 * FIXED(mr) + i) * 64 + row % 16 * 4, 0, 4);
}

/* The elements that one packing task packs: [p0, end) along k of each line in [from, to). */
struct cut {
    int64_t from, to, p0, end;
};

/* Packs all strips of lines of a task, or its pixels and channels of planes.  If neighbouring lines
 * are contiguous in memory, a block of k is packed for all of the task's lines before the next
 * block. */
FLAT void pack_lines(const struct kernel_call *c, int side, const struct side *as,
                     const struct cut *x)
{
    const struct packed *o = &c->op[side];
    int64_t step = o->planes ? KERNEL_LANES : lanes_of(side), lines = x->to - x->from;
    int64_t k = o->planes ? o->planes->channels : c->k;
    int64_t span = o->view.line == 1 && !o->view.patch ? lines : step;

    for (int64_t first = x->from; first < x->to; first += span)
        for (int64_t p0 = x->p0; p0 < x->end; p0 += KERNEL_BYTES)
            for (int64_t at = first; at < min64(first + span, x->to); at += step) {
                struct strip w = { .c = c, .o = o, .s = &CFG(c).side[side], .as = as, .side = side,
                                   .panel = at / lines_of(side), .first = at,
                                   .live = o->planes ? KERNEL_LANES :
                                                       min64(o->lines - at, KERNEL_LANES) };

                w.scale_low = scales_of(&w, 0);
                w.scale_high = scales_of(&w, 8);
                for (w.p0 = p0; w.p0 < min64(x->end, p0 + KERNEL_BYTES); w.p0 += w.len)
                    pack_piece(&w, k);
            }
    if (FIXED(matrix) && !side && x->end == c->k)
        clear_tiles(c, x->from, x->to);
    if (LIMB_KIND == LIMB_KIND_whole && CFG(c).norms && !o->planes && !c->more)
        ROLL for (int64_t i = x->from; i < x->to; i++)
            o->norm[i] = __builtin_sqrt(o->norm[i]);
    if (c->stores && FIXED(unit) == UNIT_i8 && side == 1 && CFG(c).offsets)
        /* sums become start values of accumulators, which cancel what the offsets of A add */
        ROLL for (int64_t i = x->from; i < x->to; i++)
            o->sums[i] *= -CFG(c).side[0].offset[0];
}

#endif
