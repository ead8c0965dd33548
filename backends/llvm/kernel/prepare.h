/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's first half: elements are read, cut into limbs and packed in panels. */
#ifndef LIMBER_KERNEL_PREPARE_H
#define LIMBER_KERNEL_PREPARE_H

/* ---- reading an operand -------------------------------------------------------------------------- */

/* Elements p0 .. p0+len-1 of a line, as they are; contiguous data is read in place. */
FLAT const char *gather(const struct packed *o, limber_format f, int64_t line, int64_t p0,
                        int64_t len, char *room)
{
    if (!o->view.patch && o->view.p == 1)
        return (const char *)o->view.data + ((o->line0 + line) * o->view.line + p0) * f.size;
    if (!o->view.patch) {
        const char *s = (const char *)o->view.data +
                        ((o->line0 + line) * o->view.line + p0 * o->view.p) * f.size;

        for (int64_t p = 0; p < len; p++)
            __builtin_memcpy(room + p * f.size, s + p * o->view.p * f.size, f.size);
        return room;
    }
    for (int64_t p = 0; p < len; p++) {
        const char *at = limber_view_at(&o->view, o->line0 + line, p0 + p, f.size);

        for (int b = 0; b < f.size; b++)
            room[p * f.size + b] = at ? at[b] : 0;
    }
    return room;
}

/* An element whose format embeds in binary64. */
FLAT double load(limber_format f, const char *p)
{
    struct limber_num x;
    double d;
    float s;

    if (f.kind == LIMBER_KIND_FLOAT && f.size == 8) {
        __builtin_memcpy(&d, p, 8);
        return d;
    }
    if (f.kind == LIMBER_KIND_FLOAT && f.size == 4) {
        __builtin_memcpy(&s, p, 4);
        return s;
    }
    if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT)
        return (double)limber_load_int(f, p);
    limber_num_decode(&x, f, p);
    limber_num_encode(&d, binary64(), &x, 0, LIMBER_RN);
    return d;
}

FLAT double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double d;

    __builtin_memcpy(&d, &bits, 8);
    return d;
}

/* x 2^e with one rounding; |e| < 3000, and x normal enough when e is beyond one factor. */
FLAT double scale_by(double x, int e)
{
    while (e > 1000) {
        x *= power_of_two(1000);
        e -= 1000;
    }
    while (e < -1000 && e < -1022) {
        x *= power_of_two(-500);
        e += 500;
    }
    return x * power_of_two(e);
}

FLAT double finite(double x)
{
    return x - x == 0 ? x : 0;
}

/* ---- packing ------------------------------------------------------------------------------------------ */

/* Where a block of one line goes. */
struct where {
    const struct packed *o;
    const struct side *s;
    int64_t panel, p0, len, line;
    int lane;               /* line within the panel */
};

/* Position of the line's first element of the block, limb by limb. */
FLAT char *target(const struct where *w, int limb, int bytes)
{
    return w->o->data + limb * w->o->limb_bytes + w->panel * w->o->panel_bytes +
           ((w->p0 / CFG.group * w->s->lines + w->lane) * CFG.group) * bytes;
}

FLAT void mark(const struct where *w, int limb, int64_t any)
{
    if (any)
        w->o->nonzero[(limb * w->o->panels + w->panel) * w->o->blocks + w->p0 / CFG.kc] = 1;
}

/* One limb of one line as integers; beyond len the packed value is 0. */
FLAT void put_ints(const struct where *w, int limb, int32_t *v)
{
    int offset = w->s->offset[limb], step = w->s->lines * CFG.group;
    int32_t any = 0, sum = 0;
    signed char narrow[KERNEL_BLOCK];

    for (int p = 0; p < KERNEL_BLOCK; p++)
        any |= v[p];
    mark(w, limb, any);
    if (CFG.offsets) {
        for (int p = 0; p < KERNEL_BLOCK; p++) {
            v[p] = p < w->len ? v[p] + offset : 0;
            sum += v[p];
        }
        w->o->sums[(limb * w->o->chunks + w->p0 / CFG.chunk) * w->o->sum_lines +
                   w->panel * w->s->lines + w->lane] += sum;
    }
    if (CFG.bytes == 1) {
        char *to = target(w, limb, 1);

        for (int p = 0; p < KERNEL_BLOCK; p++)
            narrow[p] = (signed char)v[p];
        for (int p = 0; p < w->len; p += 4)
            __builtin_memcpy(to + p / 4 * step, narrow + p, 4);
    } else if (CFG.bytes == 2) {
        char *to = target(w, limb, 2);

        for (int p = 0; p < w->len; p += 2) {
            int16_t pair[2] = { (int16_t)v[p], (int16_t)v[p + 1] };

            __builtin_memcpy(to + p / 2 * step * 2, pair, 4);
        }
    } else {
        char *to = target(w, limb, 4);

        for (int p = 0; p < w->len; p++)
            __builtin_memcpy(to + p * step * 4, &v[p], 4);
    }
}

/* One limb of one line as floats of the unit's width. */
FLAT void put_floats(const struct where *w, int limb, const double *v)
{
    int64_t step = w->s->lines;
    int any = 0;

    for (int p = 0; p < KERNEL_BLOCK; p++)
        any |= v[p] != 0;
    mark(w, limb, any);
    if (CFG.bytes == 8) {
        double *to = (double *)(void *)target(w, limb, 8);

        for (int p = 0; p < w->len; p++)
            to[p * step] = v[p];
    } else {
        float *to = (float *)(void *)target(w, limb, 4);

        for (int p = 0; p < w->len; p++)
            to[p * step] = (float)v[p];
    }
}

FLAT void put_values(const struct where *w, int limb, int32_t *v)
{
    double wide[KERNEL_BLOCK];

    if (CFG.unit == UNIT_i8) {
        put_ints(w, limb, v);
        return;
    }
    for (int p = 0; p < KERNEL_BLOCK; p++)
        wide[p] = v[p];
    put_floats(w, limb, wide);
}

/* ---- limbs -------------------------------------------------------------------------------------------- */

FLAT void load_line(const struct where *w, const char *raw, double *v)
{
    for (int p = 0; p < KERNEL_BLOCK; p++)
        v[p] = p < w->len ? load(w->s->f, raw + p * w->s->f.size) : 0;
}

/* x to the nearest value of a narrower binary format with at least binary16's range below. */
FLAT double round_limb(limber_format f, double x)
{
    struct limber_num num;
    unsigned char code[4];
    double r;

    limber_num_from_f64(&num, x);
    limber_num_encode(code, f, &num, 0, LIMBER_RN);
    limber_num_decode(&num, f, code);
    limber_num_encode(&r, binary64(), &num, 0, LIMBER_RN);
    return r;
}

FLAT void prepare_hilo(const struct where *w, const char *raw)
{
    double rest[KERNEL_BLOCK], limb[KERNEL_BLOCK];
    double up = power_of_two(w->s->shift);
    int scale = w->o->scale ? w->o->scale[w->o->line0 + w->line] : 0;

    load_line(w, raw, rest);
    for (int p = 0; p < KERNEL_BLOCK; p++)
        rest[p] = scale_by(finite(rest[p]), scale);
    for (int l = 0; l < w->s->limbs; l++) {
        for (int p = 0; p < KERNEL_BLOCK; p++) {
            limb[p] = round_limb(w->s->limb, rest[p]);
            rest[p] = (rest[p] - limb[p]) * up;
        }
        if (w->s->used[l])
            put_floats(w, l, limb);
    }
}

/* Scaled integers of a line, word by word. */
struct ints {
    uint64_t w[LIMBER_WIDE][KERNEL_BLOCK];
};

FLAT void fix_line(const struct where *w, const char *raw, struct ints *x)
{
    int scale = w->o->scale ? w->o->scale[w->o->line0 + w->line] : 0;

    if (w->s->narrow && w->s->axis == AXIS_none) {
        for (int p = 0; p < KERNEL_BLOCK; p++)
            x->w[0][p] = p < w->len ? (uint64_t)limber_load_int(w->s->f, raw + p * w->s->f.size) :
                                      0;
        return;
    }
    if (w->s->narrow) {
        int half = scale / 2;
        double f1 = power_of_two(half), f2 = power_of_two(scale - half), v[KERNEL_BLOCK];

        load_line(w, raw, v);
        for (int p = 0; p < KERNEL_BLOCK; p++)
            x->w[0][p] = (uint64_t)(int64_t)(finite(v[p]) * f1 * f2);
        return;
    }
    for (int p = 0; p < KERNEL_BLOCK; p++) {
        uint64_t v[LIMBER_WIDE] = { 0 };

        if (p < w->len)
            limber_fix(v, w->s->f, raw + p * w->s->f.size, scale);
        for (int i = 0; i < LIMBER_WIDE; i++)
            x->w[i][p] = v[i];
    }
}

FLAT void prepare_slices(const struct where *w, const char *raw)
{
    struct ints x;
    int32_t v[KERNEL_BLOCK];
    int step = w->s->step;

    fix_line(w, raw, &x);
    for (int l = 0; l < w->s->limbs; l++) {
        int from = step * (w->s->limbs - 1 - l);

        if (!w->s->used[l])
            continue;
        if (w->s->narrow) {
            int64_t mask = ((int64_t)1 << step) - 1;

            if (l == 0 && w->s->is_signed)
                for (int p = 0; p < KERNEL_BLOCK; p++)
                    v[p] = (int32_t)((int64_t)x.w[0][p] >> min64(from, 63));
            else
                for (int p = 0; p < KERNEL_BLOCK; p++)
                    v[p] = (int32_t)((int64_t)x.w[0][p] >> min64(from, 63) & mask);
        } else {
            for (int p = 0; p < KERNEL_BLOCK; p++) {
                uint64_t word[LIMBER_WIDE] = { x.w[0][p], x.w[1][p], x.w[2][p] };

                v[p] = limber_slice(word, l, w->s->limbs, step, w->s->is_signed);
            }
        }
        put_values(w, l, v);
    }
}

FLAT void prepare_residues(const struct where *w, const char *raw, int side)
{
    struct ints x;
    uint32_t piece[4 * LIMBER_WIDE][KERNEL_BLOCK];
    int32_t v[KERNEL_BLOCK];
    int words = w->s->narrow ? 1 : LIMBER_WIDE;

    fix_line(w, raw, &x);
    for (int i = 0; i < words; i++)
        for (int p = 0; p < KERNEL_BLOCK; p++) {
            uint64_t u = x.w[i][p] ^ (i == words - 1 ? (uint64_t)1 << 63 : 0);

            piece[4 * i][p] = u & 0xffff;
            piece[4 * i + 1][p] = u >> 16 & 0xffff;
            piece[4 * i + 2][p] = u >> 32 & 0xffff;
            piece[4 * i + 3][p] = (uint32_t)(u >> 48);
        }
    for (int l = 0; l < w->s->limbs; l++) {
        uint32_t m = (uint32_t)CFG.crt.modulus[l];
        const uint32_t *c = CFG.piece[side][l];

        for (int p = 0; p < KERNEL_BLOCK; p++) {
            uint32_t t = c[12], r;

            for (int i = 0; i < 4 * words; i++)
                t += piece[i][p] * c[i];
            t = (t >> 16) * c[1] + (t & 0xffff);
            r = limber_mod24(t, m, CFG.inverse[l]);
            v[p] = w->s->is_signed ? limber_symmetric(r, m) : (int32_t)r;
        }
        if (w->len < KERNEL_BLOCK)
            for (int p = (int)w->len; p < KERNEL_BLOCK; p++)
                v[p] = 0;
        put_ints(w, l, v);
    }
}

FLAT void prepare_whole(const struct where *w, const char *raw)
{
    double v[KERNEL_BLOCK];

    load_line(w, raw, v);
    put_floats(w, 0, v);
}

/* A full panel of elements that are packed as they are: no arithmetic, k outermost. */
FLAT int copy_panel(const struct kernel_call *c, const struct side *s, const struct packed *o,
                    int64_t panel)
{
    int bytes = CFG.bytes, lines = s->lines;
    const char *from = (const char *)o->view.data +
                       (o->line0 + panel * lines) * o->view.line * bytes;
    char *to = o->data + panel * o->panel_bytes;

    if (HOW != HOW_whole || s->f.kind != LIMBER_KIND_FLOAT || s->f.size != bytes ||
        s->f.carried || o->view.patch || (panel + 1) * lines > o->lines)
        return 0;
    for (int64_t p = 0; p < c->k; p++) {
        if (o->view.line == 1)
            for (int i = 0; i < lines * bytes; i++)
                to[p * lines * bytes + i] = from[p * o->view.p * bytes + i];
        else
            for (int l = 0; l < lines; l++)
                __builtin_memcpy(to + (p * lines + l) * bytes,
                                 from + (l * o->view.line + p * o->view.p) * bytes,
                                 (unsigned)bytes);
    }
    return 1;
}

/* ---- entry: pack one panel ------------------------------------------------------------------------------- */

FLAT void prepare_panel(const struct kernel_call *c, int side, int64_t panel)
{
    const struct side *s = &CFG.side[side];
    const struct packed *o = &c->op[side];
    char room[KERNEL_BLOCK * 16];
    struct where w = { .o = o, .s = s, .panel = panel };

    if (copy_panel(c, s, o, panel))
        return;
    for (w.p0 = 0; w.p0 < c->k; w.p0 += w.len) {
        w.len = min64(KERNEL_BLOCK, c->k - w.p0);
        for (w.lane = 0; w.lane < s->lines; w.lane++) {
            const char *raw;

            w.line = panel * s->lines + w.lane;
            if (w.line >= o->lines)
                break;      /* the rest was cleared */
            raw = gather(o, s->f, w.line, w.p0, w.len, room);
            switch (HOW) {
            case HOW_whole: prepare_whole(&w, raw); break;
            case HOW_hilo: prepare_hilo(&w, raw); break;
            case HOW_slices: prepare_slices(&w, raw); break;
            default: prepare_residues(&w, raw, side); break;
            }
        }
    }
}

#endif
