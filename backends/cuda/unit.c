/* SPDX-License-Identifier: BSD-3-Clause
 * Flattens a simulated unit into the constants of its kernels, and decides whether FP32 lanes can
 * simulate the unit. */
#include "backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { LEAST = -50 }; /* nonzero magnitudes of elements must be at least 2^LEAST in FP32 lanes */

/* Properties of a unit that kernel/unit_f32.h relies on; docs/simulation.md proves why. */
struct limits {
    /* fused: blocks are fused sums.  safe: rounding to FP32 and then to acc's format is innocuous.
     * safe_outer: rounding to FP32 and then to the formats of outer and total is innocuous.
     * clamps: products may be below the range of acc's format.  ends: some format has few
     * exponents, so the kernel checks for overflow. */
    bool fused, safe, safe_outer, clamps, ends;
    int head; /* bound on products: |a b| < 2^(sum of both exponents + head) */
    int most; /* magnitudes of elements are below 2^most */
    int chunk; /* number of terms whose sum fits 31 bits */
    bool one_sum; /* a block's terms and the accumulator together fit in 31 bits */
    int64_t k; /* largest length of a sum */
};

/* Returns the smallest positive number of a format. */
static double quantum_of(limber_format f)
{
    return ldexp(1, limber_format_quantum(f));
}

/* True if the format's exponents are so small that the kernel must check for overflow.  For other
 * formats the bounds of set_bounds exclude overflow. */
static bool has_small_exponents(limber_format f)
{
    return (1 << f.exp_bits) - 1 - f.bias <= 60;
}

/* True if the kernel's FP32 arithmetic can round a sum to the format of s. */
static bool can_round_step(const limber_unit *u, const limber_step *s, bool fused)
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
    if (!has_small_exponents(f))
        return !(f.flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE));
    /* a format without NaN would turn NaN into a number */
    return fused || !(f.flags & LIMBER_FORMAT_FINITE);
}

/* True if the sum of two numbers of the format of `from`, rounded to nearest in FP32 and then to
 * the format of `to`, equals the exact sum rounded to `to`.  This needs 24 >= 2 p + 2 for a
 * precision of p bits (Figueroa 1995), and numbers without bits below the lowest bit of `to`. */
static bool is_double_rounding_innocuous(const limber_step *from, const limber_step *to)
{
    return to->rounding == LIMBER_ROUND_NEAREST && from->format.frac_bits <= to->format.frac_bits &&
           to->format.frac_bits <= 10 && quantum_of(from->format) >= quantum_of(to->format);
}

/* True if products are exact in FP32; or, if blocks have one product and the plan does not count
 * inexact ones (counts), if the unit rounds products to nearest FP32 or adds them by a fused
 * multiply-add. */
static bool has_exact_products(const limber_unit *u, int counts)
{
    int bits =
        u->a.format.frac_bits + u->b.format.frac_bits + (u->scale == LIMBER_SCALE_UE4M3 ? 8 : 0);

    return bits <= 22 || (!counts && u->block == 1 &&
                          (!u->mul.format.kind || (u->mul.format.frac_bits == 23 &&
                                                   u->mul.rounding == LIMBER_ROUND_NEAREST)));
}

/* True if FP32 holds exactly the sums of `sub` neighbouring products, which share their scales. */
static bool has_exact_sums(const limber_unit *u)
{
    double units = limber_format_largest(u->a.format) / quantum_of(u->a.format) *
                   (limber_format_largest(u->b.format) / quantum_of(u->b.format)) * u->sub;

    return u->sub % 4 == 0 && u->block / u->sub <= 4 &&
           units * (u->scale == LIMBER_SCALE_UE4M3 ? 225 : 1) <= 0x1p24;
}

/* True if a block's terms can be summed in 31-bit integers, or as a tree in FP32.  Sets l->chunk
 * and l->one_sum. */
static bool can_sum_block(const limber_unit *u, struct limits *l)
{
    int spare = 31 - l->head - u->frac; /* log2 of the number of terms whose sum fits 31 bits */

    if (u->block == 1)
        return true;
    if (u->tree)
        return u->mul.format.kind && u->block <= 8; /* larger trees would need too much code */
    if (u->sub > 1)
        return has_exact_sums(u);
    if (spare < 2 || u->block > 2 << spare || u->floor > 60)
        return false;
    l->chunk = spare > 8 ? 256 : 1 << spare;
    l->one_sum = u->block + 1 <= 1 << (spare > 8 ? 8 : spare);
    return true;
}

/* Sets bounds on elements and on k that exclude overflow in formats with large exponents.  Sums of
 * 2^24 products are below 2^(2 most + 1 + 24), times 2^16 if the unit rounds away from zero. */
static void set_bounds(const limber_unit *u, struct limits *l)
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
        l->ends |= has_small_exponents(f);
        if (has_small_exponents(f))
            continue;
        l->most = most < l->most ? most : l->most;
        if (!near && k < l->k)
            l->k = k;
    }
}

/* True if FP32 lanes can simulate the unit exactly.  *l: set to the bounds on the data, and to the
 * roundings that need extra code. */
static bool can_use_f32_lanes(const limber_unit *u, int counts, struct limits *l)
{
    const limber_step *sum = u->group ? &u->outer : &u->acc;
    bool rounds = u->mul.format.kind != 0;

    memset(l, 0, sizeof *l);
    l->fused = u->block > 1 && !u->tree;
    l->head = u->scale == LIMBER_SCALE_UE4M3 ? 4 : 2;
    l->safe = rounds && is_double_rounding_innocuous(&u->mul, &u->acc);
    l->clamps = rounds && (quantum_of(u->mul.format) < quantum_of(u->acc.format) ||
                           u->acc.format.flags & LIMBER_FORMAT_NO_SUBNORMAL);
    l->safe_outer = (!u->group || is_double_rounding_innocuous(&u->acc, &u->outer)) &&
                    (u->split == 1 || is_double_rounding_innocuous(sum, &u->total));
    set_bounds(u, l);
    return !u->start_c && !u->late && !u->lanes && has_exact_products(u, counts) &&
           can_sum_block(u, l) && can_round_step(u, &u->mul, false) &&
           (u->sub > 1 || can_round_step(u, &u->acc, l->fused)) &&
           can_round_step(u, &u->outer, false) && can_round_step(u, &u->total, false);
}

/* Copies the unit's sizes, and decides whether FP32 lanes may be used. */
void limber_cuda_set_unit(const struct plan *p, struct cuda_config *c)
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
    m->f32_lanes = can_use_f32_lanes(u, p->counts, &l);
    for (int i = 0; i < 2; i++) {
        c->side[i].scaled = 0;
        c->side[i].limbs = l.fused ? 2 : 1;
    }
    c->special = 0;
}

/* Sets the constants of block-scaled instructions. */
void limber_cuda_set_block_scaled(const struct plan *p, const struct target *t,
                                  struct cuda_config *c)
{
    c->mma_path = limber_target_has(t, "tcgen05") ? MMA_PATH_tensor : MMA_PATH_warp;
    c->mx.kind = (int32_t)limber_unit_block_scaled(p->model);
    c->bytes = 1;
    c->packed = c->mx.kind == BLOCK_SCALED_mxf8f6f4 ? 1 : 2;
    c->mx.scales = 128 * c->packed / p->model->scale_block;
    c->side[0].scaled = c->side[1].scaled = 0;
    c->special = 0;
}

/* ---- printing a unit as constants ------------------------------------------------------------ */

/* Prints a rounding (format and mode) of a unit as an initialiser in C. */
static void print_step(struct text *t, const limber_step *s)
{
    limber_format f = s->format;

    limber_text_add(t, "    { { %d, %d, %d, %d, %d, %d, %d }, %d, %d },\n", f.kind, f.exp_bits,
                    f.frac_bits, f.flags, f.bias, f.size, f.carried, s->rounding, s->overflow);
}

/* Prints `count` integers as an initialiser. */
static void print_numbers(struct text *t, const int32_t *v, size_t count)
{
    limber_text_add(t, "   ");
    for (size_t i = 0; i < count; i++)
        limber_text_add(t, " %d,", v[i]);
    limber_text_add(t, "\n");
}

/* Prints the unit as a constant in C, all its fields in order. */
static void print_model(struct text *t, const limber_unit *u)
{
    limber_text_add(t, "constexpr limber_unit MODEL = { sizeof(limber_unit),\n");
    print_step(t, &u->a);
    print_step(t, &u->b);
    limber_text_add(t, "    (enum limber_unit_scale)%d, (enum limber_scale_rule)%d, %d,\n",
                    (int)u->scale, (int)u->scale_rule, u->scale_block);
    print_step(t, &u->mul);
    print_step(t, &u->acc);
    print_numbers(t, (int32_t[]){ u->block, u->sub, u->frac, u->floor, u->zeros, u->tree }, 6);
    limber_text_add(t, "    (enum limber_unit_order)%d, %d,\n", (int)u->order, u->group);
    print_step(t, &u->outer);
    print_numbers(t, &u->split, 1);
    print_step(t, &u->total);
    print_numbers(t, &u->start_c, 1);
    print_step(t, &u->out);
    print_numbers(t, (int32_t[]){ u->narrow, u->random_bits }, 2);
    limber_text_add(t, "    0, %d,\n", u->seeded != 0);
    print_numbers(t,
                  (int32_t[]){ u->late, u->reach, u->halves, u->lanes, u->halve, u->unroll,
                               u->rest_after, u->join_halves },
                  8);
    print_step(t, &u->epilogue);
    print_numbers(t, (int32_t[]){ u->tile, u->deal_turns, u->merge_pairs }, 3);
    limber_text_add(t, "};\n");
}

/* Prints the unit's description, and the limits within which FP32 lanes can simulate it. */
void limber_cuda_unit_source(const struct plan *p, const struct cuda_config *c, struct text *out)
{
    struct limits l;

    can_use_f32_lanes(p->model, p->counts, &l);
    limber_text_add(out, "\n#include \"ir/unit/num.h\"\n");
    print_model(out, p->model);
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
                    c->model.f32_lanes, c->model.scale_block);
#define NAME(name) "    TALLY_" #name ",\n"
    limber_text_add(out, "enum {\n" LIMBER_UNIT_TALLIES(NAME) "    TALLY_fields\n};\n");
#undef NAME
}

/* Returns the number of a format in instruction descriptors, and in kernel/device.h. */
static int format_number(limber_format f)
{
    return f.exp_bits == 4  ? 0 :
           f.exp_bits == 5  ? 1 :
           f.frac_bits == 3 ? 3 :
           f.exp_bits == 3  ? 4 :
                              5;
}

/* Prints the constants of block-scaled instructions as source. */
void limber_cuda_block_scaled_source(const struct plan *p, struct text *out)
{
    limber_text_add(out, "\n#include \"ir/unit/num.h\"\n");
    print_model(out, p->model);
    _Static_assert(BLOCK_SCALED_mxf8f6f4 == 1 && BLOCK_SCALED_mxf4 == 2 &&
                       BLOCK_SCALED_mxf4nvf4 == 3,
                   "as kernels number them");
    limber_text_add(out, "enum { FORMAT_A = %d, FORMAT_B = %d };\n",
                    format_number(p->model->a.format), format_number(p->model->b.format));
}
