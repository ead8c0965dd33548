/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's source.  Compiled to bitcode once for each KERNEL_HOW, linked with a register-tile
 * kernel and with a constant configuration at run time, then optimised: what the configuration
 * does not need is gone.  No libc, no calls out. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/prim.h"

extern const struct kernel_config limber_kernel_constants;

/* c (mr x nr, row stride ldc bytes) = or += sum over `groups` groups of a times b. */
void limber_micro(const char *a, const char *b, int64_t groups, char *c, int64_t ldc,
                  int64_t first);

/* What the code generator calls for long copies and clears; the object must need nothing else. */
__attribute__((used)) void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = (char)c;
    return to;
}

__attribute__((used)) void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

#define CFG limber_kernel_constants
/* How operands become limbs, and with it how accumulators become results. */
#define HOW KERNEL_HOW
#define VIA (HOW == HOW_slices ? VIA_shift : HOW == HOW_residues ? VIA_crt : VIA_sum)
#define FLAT static inline __attribute__((always_inline))
#define SLOW static __attribute__((noinline))

FLAT int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

FLAT limber_format binary64(void)
{
    return (limber_format){ LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };
}

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

void limber_prepare(struct kernel_call *c, int64_t task)
{
    if (HOW == HOW_exact)
        return;
    if (task < c->op[0].panels)
        prepare_panel(c, 0, task);
    else
        prepare_panel(c, 1, task - c->op[0].panels);
}

/* ---- products -------------------------------------------------------------------------------------------- */

struct block {
    int64_t i0, j0, rows, cols;     /* of C's part */
    int64_t panel_a, panels_a, panel_b, panels_b;
};

FLAT int is_float(void)
{
    return VIA == VIA_sum;
}

/* Bytes of an accumulator of the register tile. */
FLAT int acc_bytes(void)
{
    return CFG.unit == UNIT_f64 ? 8 : 4;
}

FLAT void clear_tile(char *c, int64_t ldc)
{
    for (int i = 0; i < CFG.mr; i++)
        for (int j = 0; j < CFG.nr * acc_bytes(); j++)
            c[i * ldc + j] = 0;
}

/* Products of limbs la, lb over k in [p0, p0 + kc) into the block's tile array. */
FLAT void multiply(const struct kernel_call *c, const struct block *b, int la, int lb, int64_t p0,
                   int first, char *tile)
{
    const struct packed *oa = &c->op[0], *ob = &c->op[1];
    int64_t ldc = (int64_t)CFG.nb * acc_bytes(), kb = p0 / CFG.kc;
    int64_t groups = (min64(CFG.kc, c->k - p0) + CFG.group - 1) / CFG.group;
    int64_t at = p0 / CFG.group * CFG.group * CFG.bytes;
    int skips = HOW != HOW_whole && !CFG.offsets;

    for (int64_t j = 0; j < b->panels_b; j++) {
        const char *pb = ob->data + lb * ob->limb_bytes + (b->panel_b + j) * ob->panel_bytes +
                         at * CFG.nr;
        int zero_b = skips && !ob->nonzero[(lb * ob->panels + b->panel_b + j) * ob->blocks + kb];

        for (int64_t i = 0; i < b->panels_a; i++) {
            const char *pa = oa->data + la * oa->limb_bytes +
                             (b->panel_a + i) * oa->panel_bytes + at * CFG.mr;
            char *to = tile + i * CFG.mr * ldc + j * CFG.nr * acc_bytes();

            if (zero_b || (skips && !oa->nonzero[(la * oa->panels + b->panel_a + i) *
                                                 oa->blocks + kb])) {
                if (first)
                    clear_tile(to, ldc);
                continue;
            }
            limber_micro(pa, pb, groups, to, ldc, first);
        }
    }
}

/* What packed offsets added to a chain: -ob sum a' - oa sum b' + oa ob length. */
FLAT void remove_offsets(const struct kernel_call *c, const struct block *b, int la, int lb,
                         int64_t chunk, int64_t length, int32_t *tile)
{
    uint32_t oa = (uint32_t)CFG.side[0].offset[la], ob = (uint32_t)CFG.side[1].offset[lb];
    const struct packed *a = &c->op[0], *o = &c->op[1];
    const int32_t *sa = a->sums + (la * a->chunks + chunk) * a->sum_lines + b->i0;
    const int32_t *sb = o->sums + (lb * o->chunks + chunk) * o->sum_lines + b->j0;

    if (!oa && !ob)
        return;
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++)
            tile[i * CFG.nb + j] = (int32_t)((uint32_t)tile[i * CFG.nb + j] -
                                             ob * (uint32_t)sa[i] - oa * (uint32_t)sb[j] +
                                             oa * ob * (uint32_t)length);
}

/* A strip of a single chain: what remove_offsets leaves, times its weight. */
FLAT void load_single(const struct kernel_call *c, const struct block *b, const int32_t *tile,
                      int64_t i, int64_t j0, int64_t cols, int64_t *v)
{
    int la = CFG.row[0].a, lb = CFG.row[0].b;
    uint32_t oa = (uint32_t)CFG.side[0].offset[la], ob = (uint32_t)CFG.side[1].offset[lb];
    const struct packed *a = &c->op[0], *o = &c->op[1];
    uint32_t row = oa * ob * (uint32_t)c->k;

    if (ob)
        row -= ob * (uint32_t)a->sums[la * a->sum_lines + b->i0 + i];
    for (int64_t j = 0; j < cols; j++) {
        uint32_t t = (uint32_t)tile[j] + row;

        if (oa)
            t -= oa * (uint32_t)o->sums[lb * o->sum_lines + b->j0 + j0 + j];
        v[j] = (int64_t)((uint64_t)(int64_t)(int32_t)t << CFG.weight[0]);
    }
}

/* Adds an exact chain to its total. */
FLAT void fold_total(const struct block *b, const int32_t *tile, int64_t *total, int fresh)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;

            total[at] = (fresh ? 0 : total[at]) + tile[at];
        }
}

FLAT void fold_floats(const struct block *b, const char *tile, int64_t *total, int fresh)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;
            int64_t v = CFG.unit == UNIT_f64 ? (int64_t)((const double *)(const void *)tile)[at] :
                        (int64_t)((const float *)(const void *)tile)[at];

            total[at] = (fresh ? 0 : total[at]) + v;
        }
}

/* t mod p in [0, p) of a 32-bit chain. */
FLAT uint32_t residue_of(int32_t t, int l)
{
    uint32_t p = (uint32_t)CFG.crt.modulus[l], u = (uint32_t)t ^ 0x80000000u;
    const uint32_t *c = CFG.piece[0][l];

    /* bias 2^31 = 2^15 2^16; c[1] = 2^16 mod p */
    u = (u >> 16) * c[1] + (u & 0xffff) + (p - (c[1] << 15) % p);
    u = (u >> 16) * c[1] + (u & 0xffff);
    return limber_mod24(u, p, CFG.inverse[l]);
}

FLAT void fold_residue(const struct block *b, const int32_t *tile, unsigned char *total, int l,
                       int fresh)
{
    uint32_t p = (uint32_t)CFG.crt.modulus[l];

    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            int64_t at = i * CFG.nb + j;
            uint32_t r = residue_of(tile[at], l) + (fresh ? 0 : total[at]);

            total[at] = (unsigned char)(r >= p ? r - p : r);
        }
}

/* Bytes of one accumulator's totals of a block. */
FLAT int64_t total_bytes(void)
{
    return (int64_t)CFG.mb * CFG.nb * (is_float() ? acc_bytes() : VIA == VIA_crt ? 1 : 8);
}

/* Scratch: the tile array (exact schemes), then the accumulators. */
FLAT const char *totals(const char *scratch)
{
    return scratch + (is_float() ? 0 : (int64_t)CFG.mb * CFG.nb * acc_bytes());
}

/* Totals of 62 bits that go to binary64 or binary32, or unscaled to an integer. */
FLAT int to_binary(void)
{
    return CFG.small && CFG.plain && CFG.c.kind == LIMBER_KIND_FLOAT &&
           ((CFG.c.size == 8 && CFG.c.frac_bits == 52) ||
            (CFG.c.size == 4 && CFG.c.frac_bits == 23));
}

FLAT int to_integer(void)
{
    return CFG.small && CFG.plain && CFG.c.kind == LIMBER_KIND_INT &&
           CFG.side[0].axis == AXIS_none;
}

/* A single chain of a single product is its own total: it stays in the tile array. */
FLAT int is_single(const struct kernel_call *c)
{
    return CFG.rows == 1 && (to_binary() || to_integer()) && CFG.unit == UNIT_i8 &&
           c->k <= CFG.chunk;
}

FLAT void exact_row(const struct kernel_call *c, const struct block *b, int r, char *scratch,
                    int fresh)
{
    const struct kernel_row *row = &CFG.row[r];
    char *total = (char *)totals(scratch) + row->acc * total_bytes();

    for (int64_t p0 = 0; p0 < c->k; p0 += CFG.kc) {
        int64_t chunk = p0 / CFG.chunk, from = chunk * CFG.chunk;
        int64_t end = min64(from + CFG.chunk, c->k);

        multiply(c, b, row->a, row->b, p0, p0 == from, scratch);
        if (p0 + CFG.kc < end)
            continue;
        if (VIA == VIA_shift && is_single(c))
            return;             /* the store takes the offsets away */
        if (CFG.offsets)
            remove_offsets(c, b, row->a, row->b, chunk, end - from, (int32_t *)(void *)scratch);
        if (VIA == VIA_crt)
            fold_residue(b, (int32_t *)(void *)scratch, (unsigned char *)total, row->acc, fresh);
        else if (CFG.unit == UNIT_i8)
            fold_total(b, (int32_t *)(void *)scratch, (int64_t *)(void *)total, fresh);
        else
            fold_floats(b, scratch, (int64_t *)(void *)total, fresh);
        fresh = 0;
    }
}

FLAT void products(const struct kernel_call *c, const struct block *b, char *scratch)
{
    for (int r = 0; r < CFG.rows; r++) {
        int fresh = r == 0 || CFG.row[r - 1].acc != CFG.row[r].acc;

        if (!is_float()) {
            exact_row(c, b, r, scratch, fresh);
            continue;
        }
        for (int64_t p0 = 0; p0 < c->k; p0 += CFG.kc)
            multiply(c, b, CFG.row[r].a, CFG.row[r].b, p0, fresh && p0 == 0,
                     (char *)totals(scratch) + CFG.row[r].acc * total_bytes());
    }
}

/* ---- combine and epilogue ---------------------------------------------------------------------------------- */

FLAT int scale_of(const struct packed *o, int64_t line)
{
    return o->scale ? o->scale[o->line0 + line] : 0;
}

FLAT struct limber_scalars scalars(const struct kernel_call *c)
{
    return (struct limber_scalars){ CFG.has_alpha ? c->alpha : 0, CFG.has_beta ? c->beta : 0,
                                    CFG.scalars };
}

FLAT char *place(const struct kernel_call *c, int64_t i, int64_t j)
{
    return limber_place_at(&c->c, c->i0 + i, c->j0 + j, CFG.c.size);
}

/* The sum of products as NaN and infinities make it. */
SLOW double special(const struct kernel_call *c, int64_t i, int64_t j)
{
    double x = 0;

    for (int64_t p = 0; p < c->k; p++) {
        double v[2];

        for (int s = 0; s < 2; s++) {
            const struct packed *o = &c->op[s];
            const char *at = limber_view_at(&o->view, o->line0 + (s ? j : i), p,
                                            CFG.side[s].f.size);
            struct limber_num part[2];

            v[s] = 0;
            if (at) {
                limber_parts(part, CFG.side[s].f, at);
                v[s] = limber_num_class(&part[0]);
            }
        }
        x += v[0] * v[1];
    }
    return x;
}

FLAT int is_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    return (c->op[0].special && c->op[0].special[c->op[0].line0 + i]) ||
           (c->op[1].special && c->op[1].special[c->op[1].line0 + j]);
}

SLOW void store_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    struct limber_scalars sc = scalars(c);

    limber_store_class(place(c, i, j), CFG.c, special(c, i, j), &sc);
}

SLOW int store_general(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                       int exp)
{
    struct limber_scalars sc = scalars(c);

    return limber_store_exact(place(c, i, j), CFG.c, w, n, exp, &sc);
}

/* One exact value of n words, 2^exp; answers 1 when it does not fit the result. */
FLAT int store_words(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                     int exp)
{
    int flags;

    if (CFG.c.kind == LIMBER_KIND_INT && CFG.wrap) {
        struct limber_scalars sc = scalars(c);

        limber_store_wrapped(place(c, i, j), CFG.c, w[0], &sc);
        return 0;
    }
    if (CFG.plain) {
        struct limber_big sum = { w, n, exp };

        flags = limber_big_store(place(c, i, j), CFG.c, &sum);
    } else {
        flags = store_general(c, i, j, w, n, exp);
    }
    return CFG.c.kind == LIMBER_KIND_INT && (flags & 2);
}

FLAT int64_t total_at(const char *scratch, int acc, int64_t at)
{
    return ((const int64_t *)(const void *)(scratch + acc * total_bytes()))[at];
}

FLAT void columns_of_shift(const char *total, int64_t at, int64_t column[][KERNEL_STRIP])
{
    for (int acc = 0; acc < CFG.accumulators; acc++)
        for (int j = 0; j < KERNEL_STRIP; j++)
            limber_columns_add(&column[0][j], KERNEL_STRIP, total_at(total, acc, at + j),
                               CFG.weight[acc]);
}

FLAT void columns_of_crt(const char *total, int64_t at, int64_t column[][KERNEL_STRIP])
{
    double share[KERNEL_STRIP] = { 0 };
    int64_t q[KERNEL_STRIP];

    for (int l = 0; l < CFG.accumulators; l++) {
        const unsigned char *r = (const unsigned char *)total + l * total_bytes() + at;
        uint32_t c[KERNEL_STRIP];

        for (int j = 0; j < KERNEL_STRIP; j++) {
            c[j] = limber_mod24((uint32_t)r[j] * CFG.crt.inverse[l],
                                (uint32_t)CFG.crt.modulus[l], CFG.inverse[l]);
            share[j] += c[j] * CFG.share[l];
        }
        for (int d = 0; d < CFG.crt.digits; d++)
            for (int j = 0; j < KERNEL_STRIP; j++)
                column[d][j] += (int64_t)((uint64_t)c[j] * CFG.crt.cofactor[l][d]);
    }
    for (int j = 0; j < KERNEL_STRIP; j++)
        q[j] = (int64_t)__builtin_rint(share[j]);
    for (int d = 0; d < CFG.crt.digits; d++)
        for (int j = 0; j < KERNEL_STRIP; j++)
            column[d][j] -= q[j] * (int64_t)CFG.crt.product[d];
}

/* Stores `cols` values of CFG.c.size bytes each, the low bytes of v; one run where C is dense. */
FLAT void store_row(const struct kernel_call *c, int64_t i, int64_t j, int64_t cols,
                    const int64_t *v)
{
    if (c->c.col == 1 && c->j0 + j + cols <= c->c.inner) {
        char *to = place(c, i, j);

        for (int64_t x = 0; x < cols; x++)
            __builtin_memcpy(to + x * CFG.c.size, &v[x], (unsigned)CFG.c.size);
        return;
    }
    for (int64_t x = 0; x < cols; x++)
        __builtin_memcpy(place(c, i, j + x), &v[x], (unsigned)CFG.c.size);
}

/* Totals of 62 bits to binary64 or binary32: one conversion rounds, the power of two is exact. */
FLAT int store_small(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                     int64_t cols, const int64_t *v)
{
    int low = CFG.c.size == 8 ? -1022 : -126, high = CFG.c.size == 8 ? 1023 - 63 : 127 - 63;
    int sa = scale_of(&c->op[0], b->i0 + i), fits = 1;
    int64_t bits[KERNEL_STRIP];
    double x[KERNEL_STRIP];

    for (int64_t j = 0; j < cols; j++) {
        int e = -(sa + scale_of(&c->op[1], b->j0 + j0 + j));

        fits &= (e >= low) & (e <= high);
    }
    if (!fits)
        return 0;
    for (int64_t j = 0; j < cols; j++) {
        double r = CFG.c.size == 8 ? (double)v[j] : (double)(float)v[j];

        x[j] = r * power_of_two(-(sa + scale_of(&c->op[1], b->j0 + j0 + j)));
    }
    for (int64_t j = 0; j < cols; j++) {
        float narrow = (float)x[j];

        bits[j] = 0;
        __builtin_memcpy(&bits[j], CFG.c.size == 8 ? (const void *)&x[j] : (const void *)&narrow,
                         (unsigned)CFG.c.size);
    }
    store_row(c, b->i0 + i, b->j0 + j0, cols, bits);
    return 1;
}

/* Totals of 62 bits to integers, unscaled; answers how many did not fit. */
FLAT int64_t store_integers(const struct kernel_call *c, const struct block *b, int64_t i,
                            int64_t j0, int64_t cols, const int64_t *v)
{
    int unused = 64 - 8 * CFG.c.size;
    int64_t lost = 0;

    if (!CFG.wrap)
        for (int64_t j = 0; j < cols; j++)
            lost += (int64_t)((uint64_t)v[j] << unused) >> unused != v[j];
    store_row(c, b->i0 + i, b->j0 + j0, cols, v);
    return lost;
}

/* A strip whose totals need more than 62 bits, or another format. */
FLAT int64_t wide_strip(const struct kernel_call *c, const struct block *b, const char *total,
                        int64_t i, int64_t j0, int64_t cols)
{
    int64_t column[32][KERNEL_STRIP], at = i * CFG.nb + j0, lost = 0;

    for (int d = 0; d < 2 * CFG.words; d++)
        for (int j = 0; j < KERNEL_STRIP; j++)
            column[d][j] = 0;
    if (VIA == VIA_crt)
        columns_of_crt(total, at, column);
    else
        columns_of_shift(total, at, column);
    for (int64_t j = 0; j < cols; j++) {
        uint64_t w[16];
        int exp = -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j0 + j));

        limber_columns_words(&column[0][j], KERNEL_STRIP, 2 * CFG.words, w, CFG.words);
        lost += store_words(c, b->i0 + i, b->j0 + j0 + j, w, CFG.words, exp);
    }
    return lost;
}

/* A strip of totals of 62 bits to binary64, binary32 or integers. */
FLAT int64_t small_strip(const struct kernel_call *c, const struct block *b, const char *tile,
                         int64_t i, int64_t j0, int64_t cols)
{
    int64_t v[KERNEL_STRIP] = { 0 }, at = i * CFG.nb + j0, lost = 0;

    if (is_single(c))
        load_single(c, b, (const int32_t *)(const void *)tile + at, i, j0, cols, v);
    else
        for (int acc = 0; acc < CFG.accumulators; acc++)
            for (int64_t j = 0; j < KERNEL_STRIP; j++)
                v[j] += (int64_t)((uint64_t)total_at(totals(tile), acc, at + j) <<
                                  CFG.weight[acc]);
    if (to_integer())
        return store_integers(c, b, i, j0, cols, v);
    if (store_small(c, b, i, j0, cols, v))
        return 0;
    for (int64_t j = 0; j < cols; j++) {    /* a scale beyond one power of two */
        uint64_t w[2] = { (uint64_t)v[j], (uint64_t)(v[j] >> 63) };
        int exp = -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j0 + j));

        lost += store_words(c, b->i0 + i, b->j0 + j0 + j, w, 2, exp);
    }
    return lost;
}

/* A strip of one row; answers how many integers did not fit. */
FLAT int64_t exact_strip(const struct kernel_call *c, const struct block *b, const char *tile,
                         int64_t i, int64_t j0, int64_t cols)
{
    if ((to_binary() || to_integer()) && cols == KERNEL_STRIP)      /* of constant length */
        return small_strip(c, b, tile, i, j0, KERNEL_STRIP);
    if (to_binary() || to_integer())
        return small_strip(c, b, tile, i, j0, cols);
    return wide_strip(c, b, totals(tile), i, j0, cols);
}

FLAT double float_total(const char *total, int acc, int64_t at)
{
    const char *t = total + acc * total_bytes();

    return CFG.unit == UNIT_f64 ? ((const double *)(const void *)t)[at] :
           (double)((const float *)(const void *)t)[at];
}

FLAT void float_row(const struct kernel_call *c, const struct block *b, const char *total,
                    int64_t i)
{
    for (int64_t j = 0; j < b->cols; j++) {
        int64_t at = i * CFG.nb + j;
        int last = CFG.accumulators - 1, scaled = c->op[0].scale || c->op[1].scale;
        double x = float_total(total, last, at);

        if (CFG.weight[last])
            x *= power_of_two(CFG.weight[last]);
        for (int acc = last - 1; acc >= 0; acc--)
            x += float_total(total, acc, at) * power_of_two(CFG.weight[acc]);
        if (scaled)
            x = scale_by(x, -(scale_of(&c->op[0], b->i0 + i) + scale_of(&c->op[1], b->j0 + j)));
        limber_store_float(place(c, b->i0 + i, b->j0 + j), CFG.c, x, CFG.has_alpha, c->alpha_f64,
                           CFG.has_beta, c->beta_f64);
    }
}

/* Special elements would be overwritten after they were combined with what C held: they are
 * stored apart, by asking before each row. */
FLAT int64_t finish(const struct kernel_call *c, const struct block *b, const char *scratch)
{
    int checks = HOW != HOW_whole && (c->op[0].special || c->op[1].special);
    int64_t lost = 0;

    for (int64_t i = 0; i < b->rows; i++) {
        if (is_float() && !checks) {
            float_row(c, b, scratch, i);
            continue;
        }
        for (int64_t j0 = 0; j0 < b->cols; j0 += KERNEL_STRIP) {
            int64_t cols = min64(KERNEL_STRIP, b->cols - j0);
            int64_t j = 0;

            while (j < cols) {      /* runs of ordinary elements */
                int64_t from = j;
                struct block part = *b;

                while (j < cols && !(checks && is_special(c, b->i0 + i, b->j0 + j0 + j)))
                    j++;
                if (j > from && is_float()) {
                    part.j0 += j0 + from;
                    part.cols = j - from;
                    float_row(c, &part, scratch + (j0 + from) * acc_bytes(), i);
                } else if (j > from) {
                    lost += exact_strip(c, b, scratch, i, j0 + from, j - from);
                }
                if (j < cols)
                    store_special(c, b->i0 + i, b->j0 + j0 + j++);
            }
        }
    }
    return lost;
}

/* ---- the long accumulator ------------------------------------------------------------------------------------ */

FLAT int64_t exact_block(const struct kernel_call *c, const struct block *b)
{
    uint64_t w[LIMBER_BIG];
    int64_t lost = 0;

    for (int64_t i = b->i0; i < b->i0 + b->rows; i++)
        for (int64_t j = b->j0; j < b->j0 + b->cols; j++) {
            struct limber_big sum = { w, CFG.big_words, CFG.big_base };

            if (is_special(c, i, j)) {
                store_special(c, i, j);
                continue;
            }
            limber_big_zero(&sum);
            for (int64_t p = 0; p < c->k; p++) {
                const char *pa = limber_view_at(&c->op[0].view, c->op[0].line0 + i, p,
                                                CFG.side[0].f.size);
                const char *pb = limber_view_at(&c->op[1].view, c->op[1].line0 + j, p,
                                                CFG.side[1].f.size);
                struct limber_num x[2], y[2];

                if (!pa || !pb)
                    continue;
                for (int s = limber_parts(x, CFG.side[0].f, pa); s-- > 0;)
                    for (int t = limber_parts(y, CFG.side[1].f, pb); t-- > 0;)
                        if (x[s].kind == NUM_finite && y[t].kind == NUM_finite)
                            limber_big_add_product(&sum, &x[s], &y[t]);
            }
            lost += store_words(c, i, j, w, CFG.big_words, CFG.big_base);
        }
    return lost;
}

/* ---- entry: one block of C ------------------------------------------------------------------------------------- */

void limber_block(struct kernel_call *c, int64_t task, char *scratch)
{
    struct block b;
    int64_t lost;

    b.i0 = task / c->blocks_j * CFG.mb;
    b.j0 = task % c->blocks_j * CFG.nb;
    b.rows = min64(CFG.mb, c->m - b.i0);
    b.cols = min64(CFG.nb, c->n - b.j0);
    b.panel_a = b.i0 / CFG.mr;
    b.panel_b = b.j0 / CFG.nr;
    b.panels_a = (b.rows + CFG.mr - 1) / CFG.mr;
    b.panels_b = (b.cols + CFG.nr - 1) / CFG.nr;
    if (HOW == HOW_exact) {
        lost = exact_block(c, &b);
    } else {
        products(c, &b, scratch);
        lost = finish(c, &b, scratch);
    }
    if (lost)
        __atomic_fetch_add(&c->overflow, lost, __ATOMIC_RELAXED);
}
