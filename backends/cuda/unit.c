/* SPDX-License-Identifier: BSD-3-Clause
 * A simulated unit as constants of its kernels, and what its narrow lanes may be used for. */
#include "backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { LEAST = -50 };           /* narrow lanes take magnitudes from 2^LEAST on */

/* What kernel/unit_narrow.h takes for granted; docs/simulation.md says why it may. */
struct limits {
    bool fused, safe, safe_outer, clamps, ends;
    int head;                   /* |a b| < 2^(exponents' sum + head) */
    int most;                   /* magnitudes are below 2^most */
    int chunk;                  /* products whose terms fit 31 bits */
    bool one_sum;               /* a block's do, with acc */
    int64_t k;                  /* at most so many products */
};

static double quantum_of(limber_format f)
{
    return ldexp(1, limber_format_quantum(f));
}

/* Overflow is looked for in formats that end early; ranges exclude it in others. */
static bool ends_early(limber_format f)
{
    return (1 << f.exp_bits) - 1 - f.bias <= 60;
}

/* Can a sum in binary32 be rounded to this step, as the kernel does it? */
static bool step_fits(const limber_unit *u, const limber_step *s, bool fused)
{
    limber_format f = s->format;
    bool cut = s->rounding == LIMBER_ROUND_AWAY || s->rounding == LIMBER_ROUND_STOCHASTIC;

    if (!f.kind)
        return true;
    if (f.frac_bits == 22 || (f.frac_bits == 23 && (cut || f.bias != 127)) || f.bias > 127 ||
        f.bias < -60 || limber_format_emax(f) < 0)
        return false;
    if (s->rounding == LIMBER_ROUND_STOCHASTIC && f.frac_bits + u->random_bits > 23)
        return false;
    if (!ends_early(f))
        return !(f.flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE));
    return fused || !(f.flags & LIMBER_FORMAT_FINITE);  /* where NaN would become a number */
}

/* Sums of values of `from` in binary32, to nearest, round to `to` as the exact sums do:
 * 24 >= 2 p + 2 (Figueroa 1995), and no term has bits below the format's least. */
static bool is_safe(const limber_step *from, const limber_step *to)
{
    return to->rounding == LIMBER_ROUND_NEAREST && from->format.frac_bits <= to->format.frac_bits &&
           to->format.frac_bits <= 10 && quantum_of(from->format) >= quantum_of(to->format);
}

/* Products are exact in binary32, or rounded there, or not at all before they are added. */
static bool products_fit(const limber_unit *u, int counts)
{
    int bits =
        u->a.format.frac_bits + u->b.format.frac_bits + (u->scale == LIMBER_SCALE_UE4M3 ? 8 : 0);

    return bits <= 22 || (!counts && u->block == 1 &&
                          (!u->mul.format.kind || (u->mul.format.frac_bits == 23 &&
                                                   u->mul.rounding == LIMBER_ROUND_NEAREST)));
}

/* Sums of neighbours, which share their scales, in units of the least product: exact? */
static bool sums_fit(const limber_unit *u)
{
    double units = limber_format_largest(u->a.format) / quantum_of(u->a.format) *
                   (limber_format_largest(u->b.format) / quantum_of(u->b.format)) * u->sub;

    return u->sub % 4 == 0 && u->block / u->sub <= 4 &&
           units * (u->scale == LIMBER_SCALE_UE4M3 ? 225 : 1) <= 0x1p24;
}

static bool block_fits(const limber_unit *u, struct limits *l)
{
    int spare = 31 - l->head - u->frac;  /* bits for the number of terms in one sum */

    if (u->block == 1)
        return true;
    if (u->tree)
        return u->mul.format.kind && u->block <= 8;     /* more are too much code */
    if (u->sub > 1)
        return sums_fit(u);
    if (spare < 2 || u->block > 2 << spare || u->floor > 60)
        return false;
    l->chunk = spare > 8 ? 256 : 1 << spare;
    l->one_sum = u->block + 1 <= 1 << (spare > 8 ? 8 : spare);
    return true;
}

/* Without overflow in formats that end late: |sums| < 2^(2 most + 1 + 24) for 2^24 products, and
 * 2^16 for what roundings away from zero add. */
static void bound(const limber_unit *u, struct limits *l)
{
    const limber_step *all[] = { &u->mul, &u->acc, &u->outer, &u->total };

    l->most = 40;
    l->k = 1 << 24;
    for (size_t i = 0; i < COUNT(all); i++) {
        limber_format f = all[i]->format;
        bool near = all[i]->rounding == LIMBER_ROUND_NEAREST ||
                    all[i]->rounding == LIMBER_ROUND_AWAY || all[i]->rounding == LIMBER_ROUND_ZERO;
        int most = (limber_format_emax(f) - 43) / 2;
        int64_t k = (int64_t)ldexp(11, f.frac_bits);

        if (!f.kind)
            continue;
        l->ends |= ends_early(f);
        if (ends_early(f))
            continue;
        l->most = most < l->most ? most : l->most;
        if (!near && k < l->k)
            l->k = k;
    }
}

static bool is_narrow(const limber_unit *u, int counts, struct limits *l)
{
    const limber_step *sum = u->group ? &u->outer : &u->acc;
    bool rounds = u->mul.format.kind != 0;

    memset(l, 0, sizeof *l);
    l->fused = u->block > 1 && !u->tree;
    l->head = u->scale == LIMBER_SCALE_UE4M3 ? 4 : 2;
    l->safe = rounds && is_safe(&u->mul, &u->acc);
    l->clamps = rounds && (quantum_of(u->mul.format) < quantum_of(u->acc.format) ||
                           u->acc.format.flags & LIMBER_FORMAT_NO_SUBNORMAL);
    l->safe_outer =
        (!u->group || is_safe(&u->acc, &u->outer)) && (u->split == 1 || is_safe(sum, &u->total));
    bound(u, l);
    return !u->start_c && !u->late && !u->lanes && products_fit(u, counts) && block_fits(u, l) &&
           step_fits(u, &u->mul, false) && (u->sub > 1 || step_fits(u, &u->acc, l->fused)) &&
           step_fits(u, &u->outer, false) && step_fits(u, &u->total, false);
}

void limber_cuda_unit(const struct plan *p, struct cuda_config *c)
{
    const limber_unit *u = p->model;
    struct cuda_model *m = &c->model;
    struct limits l;

    m->block = u->block;
    for (m->piece = 4; m->piece < u->block;)
        m->piece *= 2;
    m->group = u->group;
    m->split = u->split;
    m->lanes = u->lanes;
    m->scale_block = u->scale ? u->scale_block : 0;
    m->start_c = u->start_c;
    m->counts = p->counts;
    m->narrow = is_narrow(u, p->counts, &l);
    for (int i = 0; i < 2; i++) {
        c->side[i].scaled = 0;
        c->side[i].limbs = l.fused ? 2 : 1;
    }
    c->special = 0;
}

void limber_cuda_block_scaled(const struct plan *p, const struct target *t, struct cuda_config *c)
{
    c->mma_path = limber_target_has(t, "tcgen05") ? MMA_PATH_tensor : MMA_PATH_warp;
    c->mx.kind = (int32_t)limber_unit_block_scaled(p->model);
    c->bytes = 1;
    c->packed = c->mx.kind == BLOCK_SCALED_mxf8f6f4 ? 1 : 2;
    c->mx.scales = 128 * c->packed / p->model->scale_block;
    c->side[0].scaled = c->side[1].scaled = 0;
    c->special = 0;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void step(struct text *t, const limber_step *s)
{
    limber_format f = s->format;

    limber_text_add(t, "    { { %d, %d, %d, %d, %d, %d, %d }, %d, %d },\n", f.kind, f.exp_bits,
                    f.frac_bits, f.flags, f.bias, f.size, f.carried, s->rounding, s->overflow);
}

static void numbers(struct text *t, const int32_t *v, size_t count)
{
    limber_text_add(t, "   ");
    for (size_t i = 0; i < count; i++)
        limber_text_add(t, " %d,", v[i]);
    limber_text_add(t, "\n");
}

/* All fields in their order. */
static void model(struct text *t, const limber_unit *u)
{
    limber_text_add(t, "constexpr limber_unit MODEL = { sizeof(limber_unit),\n");
    step(t, &u->a);
    step(t, &u->b);
    limber_text_add(t, "    (enum limber_unit_scale)%d, (enum limber_scale_rule)%d, %d,\n",
                    (int)u->scale, (int)u->scale_rule, u->scale_block);
    step(t, &u->mul);
    step(t, &u->acc);
    numbers(t, (int32_t[]){ u->block, u->sub, u->frac, u->floor, u->zeros, u->tree }, 6);
    limber_text_add(t, "    (enum limber_unit_order)%d, %d,\n", (int)u->order, u->group);
    step(t, &u->outer);
    numbers(t, &u->split, 1);
    step(t, &u->total);
    numbers(t, &u->start_c, 1);
    step(t, &u->out);
    numbers(t, (int32_t[]){ u->narrow, u->random_bits }, 2);
    limber_text_add(t, "    0, %d,\n", u->seeded != 0);
    numbers(t,
            (int32_t[]){ u->late, u->reach, u->halves, u->lanes, u->halve, u->unroll, u->rest_after,
                         u->join_halves },
            8);
    limber_text_add(t, "};\n");
}

void limber_cuda_unit_source(const struct plan *p, const struct cuda_config *c, struct text *out)
{
    struct limits l;

    is_narrow(p->model, p->counts, &l);
    limber_text_add(out, "\n#include \"ir/unit/num.h\"\n");
    model(out, p->model);
    _Static_assert(COUNT_none == 0 && COUNT_swamped == 1 && COUNT_all == 2,
                   "as kernels number them");
    limber_text_add(out,
                    "enum { COUNT_none, COUNT_swamped, COUNT_all };\n"
                    "enum {\n    COUNTS = %d, FUSED = %d, PIECE = %d, MOST = %d, LEAST = %d,\n"
                    "    SAFE = %d, SAFE_OUTER = %d, CLAMPS = %d, ENDS = %d, CHUNK = %d, "
                    "ONE_SUM = %d,\n    NARROW_K = %lld\n};\n"
                    "#define NARROW %d\n#define SCALE_BLOCK %d\n",
                    p->counts, l.fused, c->model.piece, l.most, LEAST, l.safe, l.safe_outer,
                    l.clamps, l.ends, l.chunk ? l.chunk : 1, l.one_sum, (long long)l.k,
                    c->model.narrow, c->model.scale_block);
#define NAME(name) "    TALLY_" #name ",\n"
    limber_text_add(out, "enum {\n" LIMBER_UNIT_TALLIES(NAME) "    TALLY_fields\n};\n");
#undef NAME
}

/* As descriptors of products number them, and device.h. */
static int number_of(limber_format f)
{
    return f.exp_bits == 4  ? 0 :
           f.exp_bits == 5  ? 1 :
           f.frac_bits == 3 ? 3 :
           f.exp_bits == 3  ? 4 :
                              5;
}

void limber_cuda_block_scaled_source(const struct plan *p, struct text *out)
{
    limber_text_add(out, "\n#include \"ir/unit/num.h\"\n");
    model(out, p->model);
    _Static_assert(BLOCK_SCALED_mxf8f6f4 == 1 && BLOCK_SCALED_mxf4 == 2 &&
                       BLOCK_SCALED_mxf4nvf4 == 3,
                   "as kernels number them");
    limber_text_add(out, "enum { FORMAT_A = %d, FORMAT_B = %d };\n", number_of(p->model->a.format),
                    number_of(p->model->b.format));
}
