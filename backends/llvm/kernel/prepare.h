/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's first half: elements are read, cut into limbs and packed in panels.  Sixteen lines
 * are worked on at once, lane by lane; along k a block at a time. */
#ifndef LIMBER_KERNEL_PREPARE_H
#define LIMBER_KERNEL_PREPARE_H

enum { BYTES = 64 };    /* along k that a task takes of one strip before the next */

/* Lanes are lines first .. first+15 of an operand's part, of which `live` exist; rows are
 * elements p0 .. p0+len-1 along k.  A panel of fewer lines shares the lanes with its neighbours. */
struct strip {
    const struct kernel_call *c;
    const struct packed *o;
    const struct side *s;
    int side;
    int64_t panel, first, live, p0, len;
    v8l scale[2];
};

/* ---- reading --------------------------------------------------------------------------------------- */

FLAT void copy_element(char *to, const char *from, int size)
{
    if (size == 1)
        *to = *from;
    else if (size == 2)
        __builtin_memcpy(to, from, 2);
    else if (size == 4)
        __builtin_memcpy(to, from, 4);
    else if (size == 8)
        __builtin_memcpy(to, from, 8);
    else
        __builtin_memcpy(to, from, 16);
}

FLAT const char *line_at(const struct strip *w, int64_t lane, int64_t p, int size)
{
    const struct view *v = &w->o->view;

    lane = min64(lane, w->live - 1);
    return (const char *)v->data + ((w->o->line0 + w->first + lane) * v->line + p) * size;
}

FLAT void turn8(const struct strip *w, char *room)
{
    ROLL for (int l = 0; l < KERNEL_LANES; l += 8)
        ROLL for (int p = 0; p < KERNEL_BLOCK; p += 8) {
            v8l v[8];

            UNROLL for (int i = 0; i < 8; i++)
                v[i] = LOAD(v8l, line_at(w, l + i, w->p0 + p, 8));
            transpose8(v);
            UNROLL for (int i = 0; i < 8; i++)
                STORE(room + ((p + i) * KERNEL_LANES + l) * 8, v[i]);
        }
}

FLAT void turn4(const struct strip *w, char *room)
{
    v16i v[16];

    UNROLL for (int i = 0; i < 16; i++)
        v[i] = LOAD(v16i, line_at(w, i, w->p0, 4));
    transpose16(v);
    UNROLL for (int i = 0; i < 16; i++)
        STORE(room + i * 64, v[i]);
}

/* Rows of 16 elements, `stride` bytes apart: in place where lines are neighbours in memory. */
FLAT const char *rows_of(const struct strip *w, char *room, int64_t *stride)
{
    const struct view *v = &w->o->view;
    int size = w->s->f.size;

    *stride = KERNEL_LANES * size;
    if (!v->patch && v->line == 1 && w->live == KERNEL_LANES) {
        *stride = v->p * size;
        return (const char *)v->data + (w->o->line0 + w->first + w->p0 * v->p) * size;
    }
    if (v->patch || v->p != 1 || w->len < KERNEL_BLOCK || w->live <= 0 || (size != 4 && size != 8))
        w->c->cold->gather(w->c, w->side, (int64_t[]){ w->first, w->live, w->p0, w->len }, room);
    else if (size == 8)
        turn8(w, room);
    else
        turn4(w, room);
    return room;
}

FLAT v8d finite(v8d x)
{
    return (v8d)((v8l)x & (v8l)(x - x == 0));
}

/* binary128: the significand's 49, 32 and 32 bits, times 2^scale; what is below 1 is zero. */
FLAT void quad_pieces(v8u low, v8u high, v8l scale, v8d x[3])
{
    v8l field = (v8l)(high >> 48 & 0x7fff);
    v8u top = (high & 0xffffffffffff) | ((v8u)(field != 0) & (v8u)all_l(1LL << 48));
    v8l e = field - 16383 + scale, keep = (e >= 0) & (field != 0x7fff), sign;

    sign = (v8l)(high & (v8u)all_l(INT64_MIN));
    e = e & keep;
    x[0] = TO(v8d, (v8l)top) * powers_of_two(e - 48);
    x[1] = TO(v8d, (v8l)(low >> 32)) * powers_of_two(e - 80);
    x[2] = TO(v8d, (v8l)(low & 0xffffffff)) * powers_of_two(e - 112);
    UNROLL for (int i = 0; i < 3; i++)
        x[i] = (v8d)(((v8l)TRUNC(x[i]) & keep) | sign);
}

/* Eight elements as sums of pieces, unscaled but for binary128. */
FLAT void load_eight(const struct strip *w, const char *from, v8l scale, v8d x[3])
{
    limber_format f = w->s->f;

    if (f.kind == LIMBER_KIND_DD || (f.kind == LIMBER_KIND_FLOAT && f.size == 16)) {
        v8l a = LOAD(v8l, from), b = LOAD(v8l, from + 64);
        v8l even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        v8l odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);

        x[0] = (v8d)even;
        x[1] = (v8d)odd;
        if (f.kind == LIMBER_KIND_FLOAT)
            quad_pieces((v8u)even, (v8u)odd, scale, x);
    } else if (f.kind == LIMBER_KIND_INT && f.size == 8) {
        v8l v = LOAD(v8l, from);

        x[0] = TO(v8d, v >> 32) * 0x1p32;
        x[1] = TO(v8d, v & 0xffffffff);
    } else if (f.kind == LIMBER_KIND_INT && f.size == 4) {
        x[0] = TO(v8d, LOAD(v8i, from));
    } else if (f.kind == LIMBER_KIND_INT && f.size == 2) {
        x[0] = TO(v8d, LOAD(v8h, from));
    } else if (f.kind == LIMBER_KIND_INT && f.size == 1) {
        x[0] = TO(v8d, LOAD(v8c, from));
    } else if (f.kind == LIMBER_KIND_UINT && f.size == 1) {
        x[0] = TO(v8d, LOAD(v8b, from));
    } else if (f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size == 8) {
        x[0] = LOAD(v8d, from);
    } else if (f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size == 4 && f.frac_bits == 23) {
        x[0] = TO(v8d, LOAD(v8f, from));
    } else if (f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size == 2 && f.exp_bits == 8) {
        x[0] = TO(v8d, (v8f)(TO(v8i, LOAD(v8h, from)) << 16));
    } else {
        double v[8];

        w->c->cold->load(f, from, v, 8);
        x[0] = LOAD(v8d, v);
    }
}

/* Row p as integers: trunc(x 2^scale), a sum of pieces. */
FLAT void fix_row(const struct strip *w, const char *from, v8d x[2][3])
{
    UNROLL for (int h = 0; h < 2; h++) {
        v8l half = w->scale[h] >> 1;

        load_eight(w, from + h * 8 * w->s->f.size, w->scale[h], x[h]);
        if (w->s->axis == AXIS_none || w->s->pieces == 3)
            continue;
        UNROLL for (int q = 0; q < w->s->pieces; q++)
            x[h][q] = TRUNC(finite(x[h][q]) * powers_of_two(half) *
                            powers_of_two(w->scale[h] - half));
    }
}

/* ---- packing ------------------------------------------------------------------------------------------ */

/* Lanes of a strip that are its own: a panel's or several panels'. */
FLAT int lanes_of(const struct side *s)
{
    return s->lines < KERNEL_LANES ? KERNEL_LANES / s->lines * s->lines : KERNEL_LANES;
}

/* Stores row `row` (a group of k) of a limb: 16 lanes of `bytes` each. */
FLAT void put_row(const struct strip *w, int limb, int64_t row, const char *v, int bytes)
{
    int64_t lines = w->s->lines;
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

FLAT void mark(const struct strip *w, int limb, int any)
{
    int64_t last = w->s->lines < KERNEL_LANES ? KERNEL_LANES / w->s->lines : 1;

    if (any)
        ROLL for (int64_t q = 0; q < last && w->panel + q < w->o->panels; q++)
            w->o->nonzero[((w->panel + q) * w->s->limbs + limb) * w->o->blocks +
                          w->p0 / CFG.kc] = 1;
}

FLAT void add_sums(const struct strip *w, int limb, v16i sum)
{
    int32_t *to = w->o->sums + (limb * w->o->chunks + w->p0 / CFG.chunk) * w->o->sum_lines +
                  w->first;

    ROLL for (int i = 0; i < lanes_of(w->s); i++)
        to[i] += sum[i];
}

/* One limb of a block as integers; beyond len the packed value is 0. */
FLAT void put_ints(const struct strip *w, int limb, v16i v[KERNEL_BLOCK])
{
    v16i any = all_i(0), sum = all_i(0);

    ROLL for (int p = 0; p < KERNEL_BLOCK; p++) {
        any |= v[p];
        v[p] += w->s->offset[limb];
        if (w->len < KERNEL_BLOCK && p >= w->len)
            v[p] = all_i(0);
        sum += v[p];
    }
    if (w->s->sums)
        add_sums(w, limb, sum);
    if (!CFG.offsets)
        mark(w, limb, ANY(any));
    ROLL for (int p = 0; p < w->len; p += CFG.group) {
        v16i word = v[p];

        if (CFG.group == 4)
            word = (v[p] & 255) | (v[p + 1] & 255) << 8 | (v[p + 2] & 255) << 16 | v[p + 3] << 24;
        else if (CFG.group == 2)
            word = (v[p] & 65535) | v[p + 1] << 16;
        put_row(w, limb, (w->p0 + p) / CFG.group, (const char *)&word, 4);
    }
}

/* One limb of row p as floats of the unit's width. */
FLAT void put_floats(const struct strip *w, int limb, int p, v8d low, v8d high)
{
    if (CFG.bytes == 8) {
        v8d v[2] = { low, high };

        put_row(w, limb, w->p0 + p, (const char *)v, 8);
    } else {
        v16f v = JOIN(TO(v8f, low), TO(v8f, high));

        put_row(w, limb, w->p0 + p, (const char *)&v, 4);
    }
    mark(w, limb, ANY((low != 0) | (high != 0)));
}

FLAT void put_values(const struct strip *w, int limb, v16i v[KERNEL_BLOCK])
{
    if (CFG.unit == UNIT_i8) {
        put_ints(w, limb, v);
        return;
    }
    ROLL for (int p = 0; p < w->len; p++)
        put_floats(w, limb, p, TO(v8d, LOW(v[p])), TO(v8d, HIGH(v[p])));
}

/* ---- limbs -------------------------------------------------------------------------------------------- */

FLAT void prepare_hilo(const struct strip *w, const char *from, int64_t stride)
{
    ROLL for (int p = 0; p < w->len; p++) {
        double rest[KERNEL_LANES], limb[KERNEL_LANES];

        ROLL for (int h = 0; h < 2; h++) {
            v8d x[3];

            load_eight(w, from + p * stride + h * 8 * w->s->f.size, w->scale[h], x);
            x[0] = finite(x[0]);
            STORE(rest + 8 * h, x[0]);
        }
        ROLL for (int i = 0; i < KERNEL_LANES; i++)
            rest[i] = scale_by(rest[i], (int)w->scale[i / 8][i % 8]);
        ROLL for (int l = 0; l < w->s->limbs; l++) {
            w->c->cold->round(w->s, rest, limb, KERNEL_LANES);
            if (w->s->used[l])
                put_floats(w, l, p, LOAD(v8d, limb), LOAD(v8d, limb + 8));
        }
    }
}

FLAT void prepare_whole(const struct strip *w, const char *from, int64_t stride)
{
    ROLL for (int p = 0; p < w->len; p++) {
        v8d x[2][3];

        if (w->s->copied) {
            put_row(w, 0, w->p0 + p, from + p * stride, CFG.bytes);
            continue;
        }
        load_eight(w, from + p * stride, w->scale[0], x[0]);
        load_eight(w, from + p * stride + 8 * w->s->f.size, w->scale[1], x[1]);
        put_floats(w, 0, p, x[0][0], x[1][0]);
    }
}

/* Digits of base 2^base of the integers of a block, digit by digit: symmetric for residues, two's
 * complement for slices.  Each is cut off the top by a rounding, which leaves an exact rest; what
 * the digits of several pieces sum up to is carried on. */
typedef v16f digits[KERNEL_ACCUMULATORS][KERNEL_BLOCK];

FLAT void cut_row(const struct strip *w, v8d x[2][3], digits out, int p)
{
    int base = w->s->base, count = w->s->digits;
    float up = (float)power_of_two(base), down = (float)power_of_two(-base);
    v16f carry = all_f(0);

    ROLL for (int i = count - 1; i >= 0; i--) {
        double unit = power_of_two(base * i), inverse = power_of_two(-base * i);
        v8d d[2] = { all_d(0), all_d(0) };

        UNROLL for (int q = 0; q < w->s->pieces; q++)
            UNROLL for (int h = 0; h < 2; h++) {
                v8d t = ROUND(x[h][q] * inverse);

                x[h][q] = FMA(t, all_d(-unit), x[h][q]);
                d[h] += t;
            }
        out[i][p] = JOIN(TO(v8f, d[0]), TO(v8f, d[1]));
    }
    if (HOW == HOW_residues && w->s->pieces == 1)
        return;
    ROLL for (int i = 0; i < count; i++) {
        v16f v = out[i][p] + carry;

        if (i < count - 1) {
            carry = HOW == HOW_residues ? ROUND(v * down) : FLOOR(v * down);
            v = FMA(carry, all_f(-up), v);
        }
        out[i][p] = v;
    }
}

FLAT void prepare_narrow(const struct strip *w, const char *from, int64_t stride)
{
    v16i x[KERNEL_BLOCK], v[KERNEL_BLOCK];
    int step = w->s->step;

    ROLL for (int p = 0; p < KERNEL_BLOCK; p++) {
        v8d row[2][3];

        if (p >= w->len) {
            x[p] = all_i(0);
            continue;
        }
        fix_row(w, from + p * stride, row);
        x[p] = JOIN(TO(v8i, row[0][0]), TO(v8i, row[1][0]));
    }
    ROLL for (int l = 0; l < w->s->limbs; l++) {
        int shift = step * (w->s->limbs - 1 - l);

        if (!w->s->used[l])
            continue;
        ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
            v[p] = x[p] >> (shift < 31 ? shift : 31);
        if (l > 0 || !w->s->is_signed)
            ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
                v[p] &= (1 << step) - 1;
        put_values(w, l, v);
    }
}

FLAT void cut_block(const struct strip *w, const char *from, int64_t stride, digits out)
{
    ROLL for (int p = 0; p < w->len; p++) {
        v8d x[2][3];

        fix_row(w, from + p * stride, x);
        cut_row(w, x, out, p);
    }
    ROLL for (int64_t p = w->len; p < KERNEL_BLOCK; p++)
        ROLL for (int i = 0; i < w->s->digits; i++)
            out[i][p] = all_f(0);
}

FLAT void prepare_slices(const struct strip *w, const char *from, int64_t stride)
{
    digits d;
    v16i v[KERNEL_BLOCK];

    if (w->s->narrow) {
        prepare_narrow(w, from, stride);
        return;
    }
    cut_block(w, from, stride, d);
    ROLL for (int l = 0; l < w->s->limbs; l++) {
        if (!w->s->used[l])
            continue;
        ROLL for (int p = 0; p < KERNEL_BLOCK; p++)
            v[p] = TO(v16i, d[w->s->limbs - 1 - l][p]);
        put_values(w, l, v);
    }
}

/* Eight rows of residue l: the digits times the powers of 2^12 stay below 2^22 and are exact in
 * binary32; a quotient off by less than 2^-9 leaves a residue of at most p/2 + 1/2. */
FLAT void residues_of(const struct strip *w, digits d, int l, int p, v16i v[8])
{
    float m = (float)CFG.crt.modulus[l], inverse = CFG.inverse[l];
    v16f t[8];

    UNROLL for (int i = 0; i < 8; i++)
        t[i] = all_f(0);
    ROLL for (int i = 0; i < w->s->digits; i++) {
        v16f power = all_f(CFG.power[l][i]);

        UNROLL for (int q = 0; q < 8; q++)
            t[q] = FMA(d[i][p + q], power, t[q]);
    }
    UNROLL for (int q = 0; q < 8; q++) {
        t[q] = FMA(ROUND(t[q] * inverse), all_f(-m), t[q]);
        if (!w->s->is_signed)
            t[q] += (v16f)((v16i)(t[q] < 0) & (v16i)all_f(m));
        v[q] = TO(v16i, t[q]);
    }
}

FLAT void prepare_residues(const struct strip *w, const char *from, int64_t stride)
{
    digits d;

    cut_block(w, from, stride, d);
    ROLL for (int l = 0; l < w->s->limbs; l++) {
        v16i v[KERNEL_BLOCK];

        ROLL for (int p = 0; p < KERNEL_BLOCK; p += 8)
            residues_of(w, d, l, p, v + p);
        put_ints(w, l, v);
    }
}

/* ---- bytes that are packed as they are ---------------------------------------------------------------- */

FLAT v16i byte_sums(v16i word)
{
    return (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
}

FLAT void put_bytes(const struct strip *w, int64_t p, v16i word, v16i *sum)
{
    if (w->s->offset[0])
        word ^= (int32_t)0x80808080;
    if (w->s->sums)
        *sum += byte_sums(word);
    put_row(w, 0, p / 4, (const char *)&word, 4);
}

/* Four neighbours along k are a word already. */
FLAT void bytes_along_k(const struct strip *w)
{
    v16i v[16], row[16], sum = all_i(0);

    UNROLL for (int i = 0; i < 16; i++)
        v[i] = LOAD(v16i, line_at(w, i, w->p0, 1));
    transpose16(v);
    UNROLL for (int i = 0; i < 16; i++)
        row[i] = v[i];
    ROLL for (int i = 0; i < 16; i++)
        put_bytes(w, w->p0 + 4 * i, row[i], &sum);
    if (w->s->sums)
        add_sums(w, 0, sum);
}

FLAT void bytes_along_lines(const struct strip *w)
{
    const struct view *v = &w->o->view;
    v16i sum = all_i(0);

    ROLL for (int64_t p = w->p0; p < w->p0 + BYTES; p += 4) {
        v16i word = all_i(0);

        UNROLL for (int q = 0; q < 4; q++)
            word |= TO(v16i, LOAD(v16b, (const char *)v->data + w->o->line0 + w->first +
                                        (p + q) * v->p)) << 8 * q;
        put_bytes(w, p, word, &sum);
    }
    if (w->s->sums)
        add_sums(w, 0, sum);
}

/* Takes 64 elements along k of each lane, where their strides allow it. */
FLAT int prepare_bytes(struct strip *w, int64_t k)
{
    const struct view *v = &w->o->view;

    if (v->patch || w->live <= 0 || k - w->p0 < BYTES || (w->side == 0 && w->s->sums))
        return 0;       /* sums are of signed bytes: those of B */
    w->len = BYTES;
    if (v->line == 1 && w->live == KERNEL_LANES)
        bytes_along_lines(w);
    else if (v->p == 1)
        bytes_along_k(w);
    else
        return 0;
    return 1;
}

/* ---- entry ------------------------------------------------------------------------------------------------ */

FLAT v8l scales_of(const struct strip *w, int64_t from)
{
    v8l e = all_l(0);

    if (w->o->scale)
        ROLL for (int64_t i = 0; i < 8; i++)
            if (from + i < w->live)
                e[i] = w->o->scale[w->o->line0 + w->first + from + i];
    return e;
}

/* One block of one strip. */
FLAT void prepare_block(struct strip *w, int64_t k)
{
    char room[KERNEL_BLOCK * KERNEL_LANES * 16] __attribute__((aligned(64)));
    const char *from;
    int64_t stride;

    if (HOW == HOW_slices && w->s->copied && prepare_bytes(w, k))
        return;
    w->len = min64(KERNEL_BLOCK, k - w->p0);
    from = rows_of(w, room, &stride);
    switch (HOW) {
    case HOW_whole: prepare_whole(w, from, stride); break;
    case HOW_hilo: prepare_hilo(w, from, stride); break;
    case HOW_slices: prepare_slices(w, from, stride); break;
    default: prepare_residues(w, from, stride); break;
    }
}

/* All strips of lines [from, to).  Lines that are neighbours in memory are read together. */
FLAT void prepare_lines(const struct kernel_call *c, int side, int64_t from, int64_t to)
{
    const struct side *s = &CFG.side[side];
    const struct packed *o = &c->op[side];
    int64_t step = lanes_of(s), span = o->view.line == 1 && !o->view.patch ? to - from : step;

    for (int64_t first = from; first < to; first += span)
        for (int64_t p0 = 0; p0 < c->k; p0 += BYTES)
            for (int64_t at = first; at < min64(first + span, to); at += step) {
                struct strip w = { .c = c, .o = o, .s = s, .side = side,
                                   .panel = at / s->lines, .first = at,
                                   .live = min64(o->lines - at, KERNEL_LANES) };

                w.scale[0] = scales_of(&w, 0);
                w.scale[1] = scales_of(&w, 8);
                for (w.p0 = p0; w.p0 < min64(c->k, p0 + BYTES); w.p0 += w.len)
                    prepare_block(&w, c->k);
            }
    if (c->stores && CFG.unit == UNIT_i8 && side == 1 && CFG.offsets)
        ROLL for (int64_t i = from; i < to; i++)    /* what the offsets of A add, taken away */
            o->sums[i] *= -CFG.side[0].offset[0];
}

#endif
