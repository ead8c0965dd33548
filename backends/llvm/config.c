/* SPDX-License-Identifier: BSD-3-Clause
 * Flattens a plan, on which all passes have run, into a kernel configuration: the constants for
 * which its kernel is compiled. */
#include "backends/llvm/llvm.h"

#include "backends/served.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

#include <math.h>
#include <string.h>

/* Operations, attributes and words that this backend supports beyond those of backends/served.c.
 * A plan's index maps (of convolutions) need no support, since the operands' views contain them. */
static const struct served served = {
    .backend = "llvm",
    .op = { LIMBER_SERVES(combine, LIMBER_READS(uncertain)) },
    .words = { [ATTR_axis] = LIMBER_WORD(AXIS_all),
               [ATTR_unit] = LIMBER_WORD(UNIT_i16) | LIMBER_WORD(UNIT_f16d) },
};

/* Returns true if the backend supports all of a plan; else false, with an error. */
bool limber_llvm_serves(const struct plan *p, struct diag *d)
{
    return limber_plan_served(p, &served, d);
}

/* True if kernels can read elements of this format, as a sum of doubles.  Only the interpreter
 * reads other formats. */
static bool can_read_format(limber_format f, struct diag *d)
{
    char name[64];

    return f.kind != LIMBER_KIND_FLOAT || limber_num_is_f128(f) ||
           limber_format_embeds(f, LIMBER_F64) ||
           limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: no kernel reads operands of %s",
                       limber_format_name(f, name, sizeof name));
}

/* Returns the offset (0, 128 or -128) that is added to each byte of an operand so that it has the
 * sign that the instruction takes.  Dot products of 4 or 8 bytes take unsigned bytes of A and
 * signed bytes of B.  With `same_sign` they take signed bytes of both. */
static int offset_of(const struct kernel_config *k, const struct side *s, int side, int limb)
{
    /* if slices are in two's complement, only the highest, limb 0, is signed */
    bool all = s->limb_kind == LIMB_KIND_residues || s->balanced;
    bool is_signed = s->is_signed && (all || limb == 0);

    if (k->group < 4)
        return 0;
    return side == 0 && !k->same_sign ? (is_signed ? 128 : 0) : (is_signed ? 0 : -128);
}

/* Returns the bits of the digits of scaled integers from which residues are computed.  For 12-bit
 * residues (wide) it is the largest number for which the weighted sum of the digits stays within
 * 2^24; the weights, powers modulo p, are below 2^11. */
static int digit_bits(const struct plan *p, const struct node *products, bool wide)
{
    int64_t a = limber_attr_number(&p->node[products->in[0]], ATTR_bits);
    int64_t b = limber_attr_number(&p->node[products->in[1]], ATTR_bits), bits = a > b ? a : b;
    int base = 11;

    while (bits / base + 1 > 1 << (14 - base))
        base--;
    return wide ? base : KERNEL_DIGIT;
}

/* Fills k->side[which], what packing must know of operand A (0) or B (1), from the plan's node that
 * makes the operand's limbs.  struct side explains the fields.  An offset of this operand also sets
 * `sums` of the other one. */
static void set_side(const struct plan *p, const struct node *products, int which,
                     struct kernel_config *k)
{
    const struct node *n = &p->node[products->in[which]];
    struct side *s = &k->side[which];

    s->f = p->node[n->in[0]].type.format;
    s->limb = n->type.format;
    s->limb_kind = (int32_t)limber_limb_kind(n->op);
    s->limbs = n->type.count;
    s->axis = (int)limber_attr_number(n, ATTR_axis);
    s->top = (int)(n->op == OP_hilo ? limber_attr_number(n, ATTR_top) :
                                      limber_attr_number(n, ATTR_bits));
    s->shift = (int)limber_attr_number(n, ATTR_shift);
    s->step = (int)limber_attr_number(n, ATTR_step);
    s->balanced = limber_attr_number(n, ATTR_sign) == SIGN_balanced;
    s->is_signed = s->balanced || limber_attr_number(n, ATTR_sign) == SIGN_signed;
    /* signed and unsigned residues are both correct, but this instruction takes signed ones */
    if (s->limb_kind == LIMB_KIND_residues && k->same_sign)
        s->is_signed = true;
    s->pieces = s->f.kind == LIMBER_KIND_DD || (s->f.kind == LIMBER_KIND_INT && s->f.size == 8) ?
                    2 :
                limber_num_is_f128(s->f) ? 3 :
                                           1;
    if (k->unit == UNIT_exact)
        s->limbs = s->pieces;
    s->fits_31_bits = s->limb_kind == LIMB_KIND_slices && limber_attr_number(n, ATTR_bits) <= 30 &&
                      s->pieces == 1;
    s->base = s->limb_kind == LIMB_KIND_residues ? digit_bits(p, products, k->wide) : s->step;
    s->digits = s->limb_kind == LIMB_KIND_residues ?
                    (int)limber_attr_number(n, ATTR_bits) / s->base + 1 :
                    s->limbs;
    s->lines = which ? k->nr : k->mr;
    for (size_t r = 0; r < products->rows; r++)
        s->used[which ? products->row[r].b : products->row[r].a] = 1;
    for (int l = 0; l < s->limbs && k->unit == UNIT_i8; l++) {
        s->offset[l] = offset_of(k, s, which, l);
        k->offsets |= s->offset[l] != 0;
        k->side[!which].sums |= s->offset[l] != 0;
    }
    s->copied = s->limb_kind == LIMB_KIND_whole ?
                    s->f.kind == LIMBER_KIND_FLOAT && s->f.size == k->bytes && !s->f.carried :
                    k->unit == UNIT_i8 && k->group >= 4 && s->limbs == 1 && s->axis == AXIS_none &&
                        s->f.size == 1;
}

/* True if the scheme `accumulator` first computes double-double sums, with which most FP64 and FP32
 * results can be rounded. */
bool limber_sums_pairs(const struct kernel_config *c)
{
    return c->unit == UNIT_exact && c->side[0].limbs == 1 && c->side[1].limbs == 1 &&
           limber_format_is_binary(c->c) && limber_format_is_binary(c->scalars) &&
           limber_format_embeds(c->side[0].f, LIMBER_F64) &&
           limber_format_embeds(c->side[1].f, LIMBER_F64);
}

/* Returns the bytes of a packed element of an integer unit.  A group of fewer than four elements
 * fills a 32-bit word. */
static int packed_bytes(int group)
{
    return group < 4 ? 4 / group : 1;
}

/* True if packing finds which cache blocks of an operand's limbs are zero.  The blocks of operands
 * that are packed whole, as one limb, count as nonzero. */
static bool marks_blocks(const struct plan *p, int limbs)
{
    return p->node[limbs].op != OP_whole && p->node[limbs].op != OP_quantize;
}

/* Copies the register tile and the cache blocks from a plan.  Returns false if they do not suit
 * kernels. */
static bool set_tile(const struct plan *p, const struct node *products, struct kernel_config *k,
                     struct diag *d)
{
    const struct dims_list *tile = limber_attr_list(products, ATTR_tile);
    const int64_t piece = k->unit == UNIT_i8 ? KERNEL_BYTES : KERNEL_BLOCK;
    const int kbits = p->kbits;

    if (k->unit == UNIT_exact) {
        k->mr = k->nr = 16;
        k->mb = k->nb = KERNEL_EXACT_BLOCK;
        k->group = 1;
        k->bytes = KERNEL_EXACT;
        k->kc = k->chunk;
        return true;
    }
    if (tile->n != 6)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "llvm: products without a tile");
    k->mr = (int)tile->v[0];
    k->nr = (int)tile->v[1];
    k->group = (int)tile->v[2];
    k->mb = (int)tile->v[3];
    k->nb = (int)tile->v[4];
    k->kc = tile->v[5];
    if (k->chunk % k->kc != 0 && kbits < 62 && k->chunk < (int64_t)1 << kbits)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "llvm: chains of %lld products do not end with blocks of %lld",
                           (long long)k->chunk, (long long)k->kc);
    if ((marks_blocks(p, products->in[0]) || marks_blocks(p, products->in[1])) &&
        k->kc % piece != 0 && kbits < 62 && k->kc < (int64_t)1 << kbits)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "llvm: blocks of %lld elements, but %lld are packed at once",
                           (long long)k->kc, (long long)piece);
    k->bytes = k->unit == UNIT_f64 ? 8 : k->unit == UNIT_i8 ? packed_bytes(k->group) : 4;
    return true;
}

/* Sets k->words, the number of 64-bit words that hold the largest exact sum and its sign, and the
 * flags that mark smaller sums. */
static void set_words(const struct plan *p, struct kernel_config *k)
{
    int top = 0;

    k->whole = k->plain && k->c.kind == LIMBER_KIND_INT &&
               k->side[0].top + k->side[1].top + p->kbits <= 105;
    if (k->reconstruct == RECONSTRUCT_crt) {
        k->words = (k->crt.digits + 1) / 2;
        return;
    }
    for (int i = 0; i < k->accumulators; i++)
        top = k->weight[i] > top ? k->weight[i] : top;
    /* an accumulator is below 2^63 times the top weight; 63 is at least 2 * 21 bits of a product of
     * slices, plus kbits, plus log2 of the number of rows that share the accumulator */
    k->words = (top + 64) / 64 + 1;
    k->small = k->side[0].top + k->side[1].top + p->kbits <= 61;
}

/* Returns x, in [0, p), as the congruent number in [-p/2, p/2]. */
static float symmetric_residue(uint32_t x, uint32_t p)
{
    return x > p / 2 ? (float)x - (float)p : (float)x;
}

/* Splits a number of 32-bit digits into columns of `bits` bits each, stored as doubles. */
static void split_columns(const uint32_t *digit, int bits, double *column)
{
    for (int c = 0; c < KERNEL_COLUMNS; c++)
        column[c] = limber_crt_bits(digit, bits * c, bits);
}

/* Sets the weight of residue l of 12 bits: its cofactor times its inverse in [-p/2, p/2]. */
static void set_wide_weight(struct kernel_config *k, int l)
{
    float inverse = symmetric_residue(k->crt.inverse[l], (uint32_t)k->crt.modulus[l]);
    uint32_t by = (uint32_t)fabsf(inverse), digit[LIMBER_CRT_DIGITS];
    uint64_t carry = 0;

    for (int i = 0; i < LIMBER_CRT_DIGITS; i++) {
        carry += (uint64_t)k->crt.cofactor[l][i] * by;
        digit[i] = (uint32_t)carry;
        carry >>= 32;
    }
    split_columns(digit, KERNEL_WIDE_COLUMN, k->cofactor[l]);
    for (int i = 0; i < KERNEL_COLUMNS && inverse < 0; i++)
        k->cofactor[l][i] = -k->cofactor[l][i];
    k->share[l] = (double)inverse / k->crt.modulus[l];
}

/* Sets the constants of the Chinese remainder theorem for the moduli, as columns of few bits that
 * kernels sum. */
static bool set_crt(const struct node *combine, struct kernel_config *k, struct diag *d)
{
    int bits = k->wide ? KERNEL_WIDE_COLUMN : KERNEL_COLUMN;

    if (!limber_crt_init(&k->crt, limber_attr_list(combine, ATTR_moduli)->v,
                         limber_attr_list(combine, ATTR_moduli)->n))
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "llvm: moduli are not pairwise coprime");
    split_columns(k->crt.product, bits, k->product);
    k->columns = KERNEL_COLUMNS;
    while (k->columns > 1 && k->product[k->columns - 1] == 0)
        k->columns--;
    for (int l = 0; l < k->crt.count; l++) {
        uint32_t m = (uint32_t)k->crt.modulus[l], power = 1 % m;

        if (k->wide && m < KERNEL_WIDE_LEAST)
            return limber_fail(d, LIMBER_STATUS_INTERNAL,
                               "llvm: moduli of residues in words are at least %d, not %d",
                               KERNEL_WIDE_LEAST, (int)m);
        k->inverse[l] = 1.0f / (float)m;
        k->share[l] = 1.0 / m;
        k->fold[l][0] = symmetric_residue(k->crt.inverse[l], m);
        k->fold[l][1] = symmetric_residue(65536 % m * k->crt.inverse[l] % m, m);
        split_columns(k->crt.cofactor[l], bits, k->cofactor[l]);
        if (k->wide)
            set_wide_weight(k, l);
        for (int i = 0; i < KERNEL_DIGITS; i++) {
            k->power[l][i] = symmetric_residue(power, m);
            power = (power << k->side[0].base) % m;
        }
    }
    return true;
}

/* True if one packing function works for both operands.  They may differ in lines per panel and
 * offsets, and residues also in their sign. */
static bool are_alike(const struct side *a, const struct side *b)
{
    return limber_format_equal(a->f, b->f) && a->limb_kind == b->limb_kind &&
           (a->limb_kind != LIMB_KIND_hilo || limber_format_equal(a->limb, b->limb)) &&
           a->limbs == b->limbs && (a->axis == AXIS_none) == (b->axis == AXIS_none) &&
           a->shift == b->shift && a->step == b->step && a->pieces == b->pieces &&
           a->fits_31_bits == b->fits_31_bits && a->base == b->base && a->digits == b->digits &&
           a->copied == b->copied &&
           (a->limb_kind == LIMB_KIND_residues ||
            (a->is_signed == b->is_signed && a->balanced == b->balanced));
}

/* True if register tiles hold final elements of C: one product, unscaled, with alpha 1 and beta
 * 0. */
static bool is_direct(const struct kernel_config *k)
{
    if (k->rows != 1 || !k->plain || k->weight[0] != 0 || k->c.carried)
        return false;
    if (k->unit == UNIT_i8)
        return k->reconstruct == RECONSTRUCT_shift && k->c.kind == LIMBER_KIND_INT &&
               k->c.size == 4 && k->side[0].axis == AXIS_none && k->side[1].axis == AXIS_none &&
               k->side[1].offset[k->row[0].b] == 0;
    return k->side[0].limb_kind == LIMB_KIND_whole && !k->norms &&
           (k->unit == UNIT_f64 ? limber_num_is_f64(k->c) : limber_num_is_f32(k->c));
}

/* Sets the lowest exponent and the number of words of a long accumulator that can hold every sum of
 * products of the plan's formats. */
static void set_exact(const struct plan *p, struct kernel_config *k)
{
    limber_format a = k->side[0].f, b = k->side[1].f;

    k->big_base = limber_dot_base(a, b);
    k->big_words = limber_dot_words(a, b, p->kbits);
}

/* ---- which simulated units have fast code -------------------------------------------------- */

/* Returns the format's smallest positive number, a power of two. */
static double quantum_of(limber_format f)
{
    return ldexp(1, limber_format_quantum(f));
}

/* True if FP32 lanes can round a sum to the format of s, as the simulated unit does.  Only
 * AVX-512 has instructions with a rounding mode of their own.  A format of 23 fraction bits
 * needs no second rounding, but it needs FP32's exponent range and a rounding mode that FP32
 * has. safe: rounding to FP32 and then to the format gives the same result as one rounding. */
static bool can_round_in_f32(const limber_step *s, bool safe, bool avx512)
{
    bool cut = s->rounding == LIMBER_ROUND_AWAY || s->rounding == LIMBER_ROUND_STOCHASTIC;

    if (!s->format.kind)
        return true;
    if (s->format.frac_bits == 22 || (s->format.frac_bits == 23 && (cut || s->format.bias != 127)))
        return false;
    return avx512 || (s->rounding == LIMBER_ROUND_NEAREST && (safe || s->format.frac_bits == 23));
}

/* True if double rounding is innocuous: the sum of two numbers of the format of `from`, rounded to
 * nearest in FP32 and then to the format of `to`, equals the exact sum rounded to `to`.  This needs
 * 24 >= 2 p + 2 for a precision of p bits (Figueroa 1995), and numbers that are multiples of the
 * smallest positive number of `to`. */
static bool is_double_rounding_innocuous(const limber_step *from, const limber_step *to)
{
    return to->rounding == LIMBER_ROUND_NEAREST && from->format.frac_bits <= to->format.frac_bits &&
           to->format.frac_bits <= 10 && quantum_of(from->format) >= quantum_of(to->format);
}

/* True if FP32 lanes can compute all of the unit's stochastic roundings. */
static bool can_round_randomly_in_f32(const limber_unit *u)
{
    const limber_step *all[] = { &u->mul, &u->acc, &u->outer, &u->total };

    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i]->format.kind && all[i]->rounding == LIMBER_ROUND_STOCHASTIC &&
            all[i]->format.frac_bits + u->random_bits > 23)
            return false;
    return true;
}

/* True if products are exact in FP32, or the unit rounds them to FP32 anyway.  counts: the plan
 * counts inexact products. */
static bool has_exact_products(const limber_unit *u, int counts)
{
    return u->a.format.frac_bits + u->b.format.frac_bits <= 22 ||
           (u->mul.format.frac_bits == 23 && u->mul.rounding == LIMBER_ROUND_NEAREST && !counts);
}

/* True if FP32 holds exactly the sums of those neighbouring products that share scales. */
static bool has_exact_sums(const limber_unit *u)
{
    double units = limber_format_largest(u->a.format) / quantum_of(u->a.format) *
                   (limber_format_largest(u->b.format) / quantum_of(u->b.format)) * u->sub;

    /* 225 = 15^2: the scales' significands have four bits */
    return units * (u->scale == LIMBER_SCALE_UE4M3 ? 225 : 1) <= 0x1p24;
}

/* True if FP32 lanes give the same bits as the unit for its sums of blocks, trees or single
 * products. */
static bool can_sum_blocks(const limber_unit *u, bool avx512)
{
    if (u->block == 1)
        return u->mul.format.kind || avx512 ||
               (u->acc.format.frac_bits == 23 && u->acc.rounding == LIMBER_ROUND_NEAREST);
    if (u->tree)
        return u->mul.format.kind;
    if (u->sub > 1)
        return u->block / u->sub <= 16 && has_exact_sums(u);
    /* Terms are scaled by 2^(frac - E), with E the largest exponent in a block, which is at least
     * `floor`.  With a floor above 100 the scale could be too small for FP32. */
    return avx512 && u->frac <= 29 && u->block <= 1 << (30 - u->frac) && u->floor <= 100;
}

/* True if FP32 lanes can detect overflow of this format: its exponents are small, and it has NaN or
 * infinity. */
static bool can_detect_overflow(limber_format f)
{
    return !f.kind || (limber_format_emax(f) < 60 && !(f.flags & LIMBER_FORMAT_FINITE));
}

/* Sets the bounds on exponents and magnitudes within which FP32 lanes give the unit's bits.  A
 * register tile whose operands exceed a bound is computed in FP64 lanes. */
static void set_bounds(struct kernel_config *k)
{
    const limber_unit *u = &k->model;
    const limber_step *sums[] = { &u->acc, &u->outer, &u->total };

    k->most_product = u->mul.format.kind ? limber_format_largest(u->mul.format) : 0x1p80;
    k->most_sum = 0x1p80;
    k->largest = 0x1p80;
    k->terms = u->frac <= 29 ? 1 << (29 - u->frac) : 1;
    k->quantum = quantum_of(u->mul.format.kind ? u->mul.format : u->acc.format);
    k->frees = !k->fused && can_detect_overflow(u->mul.format);
    for (size_t i = 0; i < COUNT(sums); i++) {
        limber_format f = sums[i]->format;
        bool near = sums[i]->rounding == LIMBER_ROUND_NEAREST ||
                    sums[i]->rounding == LIMBER_ROUND_AWAY ||
                    sums[i]->rounding == LIMBER_ROUND_ZERO;

        if (!f.kind)
            continue;
        k->most_sum = fmin(k->most_sum, limber_format_largest(f) / 8);
        k->largest = fmin(k->largest, limber_format_largest(f));
        k->frees &= can_detect_overflow(f);
        k->growth = fmax(k->growth, near ? 0 : 1.45 * ldexp(1, -f.frac_bits));
    }
}

/* True if FP16 lanes can compute this unit: all its formats are (1,5,10) (sign, exponent and
 * fraction bits), or all are (1,5,2), and it rounds to nearest. */
static bool can_use_f16_lanes(const limber_unit *u, int counts, unsigned cpu)
{
    const limber_step *all[] = { &u->a, &u->b, &u->mul, &u->acc, &u->outer, &u->total };
    int m = u->acc.format.frac_bits;

    if (!(cpu & CPU_fp16) || counts || u->block != 1 || u->scale || u->start_c || u->lanes ||
        u->out.format.kind || !u->mul.format.kind || (m != 10 && m != 2))
        return false;
    for (size_t i = 0; i < COUNT(all); i++) {
        limber_format f = all[i]->format;

        if (f.kind && (f.exp_bits != 5 || f.frac_bits != m || f.bias != 15 || f.flags ||
                       (i > 1 && all[i]->rounding != LIMBER_ROUND_NEAREST)))
            return false;
    }
    return true;
}

/* True if the unit is AArch64's BFDOT, so that kernels can use the instruction itself. */
static bool is_bfdot(const limber_unit *u, int counts, unsigned cpu)
{
#if defined(__aarch64__)
    struct diag ignored = { 0 };
    struct text asked = { 0 }, there = { 0 };
    limber_unit arm;
    bool is = cpu & CPU_bfdot && !counts && limber_unit_read("arm-bfdot", &arm, &ignored);

    if (is) {
        limber_unit_print(u, &asked);
        limber_unit_print(&arm, &there);
        is = !asked.failed && !there.failed && strcmp(asked.s, there.s) == 0;
    }
    limber_text_clear(&asked);
    limber_text_clear(&there);
    return is;
#else
    (void)u, (void)counts, (void)cpu;
    return false;
#endif
}

/* Sets the constants of a simulated unit, and which kinds of SIMD lanes (FP64, FP32, FP16) may
 * compute it. */
static void set_model(const struct plan *p, struct kernel_config *k, unsigned cpu)
{
    const limber_unit *u = p->model;
    bool avx512 = cpu & CPU_avx512;
    const limber_step *sum = u->group ? &u->outer : &u->acc;

    k->model = *u;
    k->fused = u->block > 1 && !u->tree;
    k->counts = p->counts;
    for (int i = 0; i < 2; i++) {
        struct side *s = &k->side[i];

        s->rounds = !limber_format_embeds(s->f, (i ? u->b : u->a).format);
        s->limbs = k->fused ? 2 : 1;
    }
    k->safe = u->mul.format.kind && is_double_rounding_innocuous(&u->mul, &u->acc);
    k->clamps = u->mul.format.kind && (quantum_of(u->mul.format) < quantum_of(u->acc.format) ||
                                       u->acc.format.flags & LIMBER_FORMAT_NO_SUBNORMAL);
    k->safe_outer = (!u->group || is_double_rounding_innocuous(&u->acc, &u->outer)) &&
                    (u->split == 1 || is_double_rounding_innocuous(sum, &u->total));
    k->f32_lanes = !u->start_c && !u->late && !u->lanes && has_exact_products(u, p->counts) &&
                   (u->scale != LIMBER_SCALE_UE4M3 || u->sub > 1) && can_sum_blocks(u, avx512) &&
                   can_round_randomly_in_f32(u) && can_round_in_f32(&u->mul, true, avx512) &&
                   (u->sub > 1 || can_round_in_f32(&u->acc, k->safe || k->fused, avx512)) &&
                   can_round_in_f32(&u->outer, k->safe_outer, avx512) &&
                   can_round_in_f32(&u->total, k->safe_outer, avx512);
    set_bounds(k);
    k->pairs = is_bfdot(u, p->counts, cpu);
    if (k->pairs || can_use_f16_lanes(u, p->counts, cpu)) {
        k->side[0].limb_kind = k->side[1].limb_kind = LIMB_KIND_half;
        k->bytes = 2;
    }
    /* for small formats, overflow is detected after the sum: bounds that exclude it beforehand
     * rarely hold, yet sums rarely overflow */
    k->tracks = avx512 && k->frees && k->largest < 2048;
}

/* Sets up packing for a simulated unit that is a chain of FMAs in FP64: operands are packed
 * unsplit, rounded as the unit loads them. */
static void set_loads(const struct plan *p, struct kernel_config *k)
{
    const limber_unit *u = p->model;

    k->model = *u;
    for (int i = 0; i < 2; i++) {
        k->side[i].limb_kind = LIMB_KIND_whole;
        k->side[i].copied = 0;
        k->side[i].rounds = !limber_format_embeds(k->side[0].f, u->a.format) ||
                            !limber_format_embeds(k->side[1].f, u->b.format);
    }
}

/* True if some accumulator occurs in no row of the product table. */
static bool has_unused_accumulator(const struct kernel_config *k)
{
    bool used[KERNEL_ACCUMULATORS] = { false };
    int count = 0;

    for (int r = 0; r < k->rows; r++) {
        count += !used[k->row[r].acc];
        used[k->row[r].acc] = true;
    }
    return count < k->accumulators;
}

/* Fills the configuration of a plan's kernel.  Returns false, with an error, if the backend does
 * not support the plan. */
bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    const struct node *out = limber_plan_find(p, OP_epilogue);

    unsigned cpu = limber_cpu_of(t);

    memset(k, 0, sizeof *k);
    if (!limber_llvm_serves(p, d))
        return false;
    if (!products || !combine || !out)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "llvm: the plan was not split");
    if (products->rows > KERNEL_ROWS || products->type.count > KERNEL_ACCUMULATORS)
        return limber_fail(d, LIMBER_STATUS_INTERNAL,
                           "llvm: %zu rows and %d accumulators are too many", products->rows,
                           products->type.count);
    k->version = KERNEL_VERSION;
    k->unit = (int)limber_rated_unit(limber_attr_number(products, ATTR_unit));
    k->wide = limber_attr_number(products, ATTR_unit) == UNIT_i16;
    if (limber_attr_number(products, ATTR_sums))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "llvm has no sums of tensor cores");
    k->chunk = limber_attr_number(products, ATTR_chunk);
    k->matrix = k->unit == UNIT_i8 ? t->matrix : 0;
    if (!set_tile(p, products, k, d))
        return false;
    if (k->wide && t->group != 2)
        return limber_fail(d, LIMBER_STATUS_INTERNAL,
                           "llvm: this target has no unit i16: it does not multiply words");
    k->same_sign = limber_same_sign(k->unit, k->group, k->matrix, cpu);
    set_side(p, products, 0, k);
    set_side(p, products, 1, k);
    /* slices and their carries must be exact in FP32, so they have few bits */
    for (int i = 0; i < 2; i++)
        if (k->side[i].limb_kind == LIMB_KIND_slices && !k->side[i].fits_31_bits &&
            k->side[i].step > 22)
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                               "llvm: slices of %d bits, at most 22 are cut", k->side[i].step);
    if (k->unit == UNIT_model)
        set_model(p, k, cpu);
    else if (p->model && limber_plan_find(p, OP_quantize))
        set_loads(p, k);
    if (!can_read_format(k->side[0].f, d) || !can_read_format(k->side[1].f, d))
        return false;
    k->c = out->type.format;
    k->scalars = limber_scalar_format(k->c);
    k->rows = (int)products->rows;
    k->accumulators = products->type.count;
    k->reconstruct = (int)limber_attr_number(combine, ATTR_reconstruct);
    for (int r = 0; r < k->rows; r++) {
        k->row[r].a = (int16_t)products->row[r].a;
        k->row[r].b = (int16_t)products->row[r].b;
        k->row[r].acc = (int16_t)products->row[r].acc;
        k->weight[products->row[r].acc] = products->row[r].weight;
    }
    k->bare = has_unused_accumulator(k);
    k->has_alpha = (int)limber_attr_number(out, ATTR_alpha);
    k->has_beta = (int)limber_attr_number(out, ATTR_beta);
    k->plain = !k->has_alpha && !k->has_beta;
    k->wrap = (int)limber_attr_number(out, ATTR_wrap);
    k->integral = (int)limber_attr_number(out, ATTR_integral);
    k->uncertain_count = limber_node_has(combine, ATTR_uncertain);
    k->uncertain = (int)limber_attr_number(combine, ATTR_uncertain);
    k->norms = k->uncertain_count && k->reconstruct == RECONSTRUCT_sum;
    if (k->unit == UNIT_exact || k->uncertain_count)
        set_exact(p, k);
    if (k->reconstruct == RECONSTRUCT_crt && !set_crt(combine, k, d))
        return false;
    if (k->unit != UNIT_exact && k->reconstruct != RECONSTRUCT_sum)
        set_words(p, k);
    k->alike = are_alike(&k->side[0], &k->side[1]);
    k->direct = k->unit != UNIT_exact && is_direct(k);
    return true;
}
