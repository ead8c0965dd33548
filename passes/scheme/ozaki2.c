/* SPDX-License-Identifier: BSD-3-Clause
 * Ozaki II: scales each line (row of A, column of B) to integers, multiplies residues modulo enough
 * pairwise coprime moduli, and computes the integer result by the Chinese remainder theorem.
 * Residues of 8 bits are multiplied in INT8.  If the machine computes INT8 products in 16-bit
 * words, residues have 12 bits instead, so that fewer moduli are needed.  Tensor cores whose INT8
 * products are slow or missing multiply 8-bit residues in FP16, which sums 1024 products exactly.
 * Tensor cores that are much faster in FP8 split a residue into one to three digits, whose products
 * one accumulator sums (ir/num/digits.h).
 *
 *   needs   a mask: bits of the scaled integers.  If the caller sets the number of moduli, the
 *           contract `fast` keeps as many bits of both operands as these moduli hold
 *   leaves  residues (8 bits: A in [0,p), B symmetric; 16-bit words and FP16: both symmetric; FP8:
 *           a limb for each digit), a diagonal table, a crt combine
 *   proof   docs/accuracy.md, "Residues (Ozaki II)": 2 k |a||b| < P makes the result unique;
 *           docs/accuracy.md, "Uncertain elements": the error if a first pass keeps fewer bits
 *   source  Ozaki, Uchino, Imamura, arXiv 2504.08009 */
#include "ir/num/crt.h"
#include "ir/num/digits.h"
#include "ir/num/prim_num.h"
#include "passes/scheme/scheme_split.h"

#include <math.h>

enum { MODULI = LIMBER_MODULI, LIMBS = MODULI * LIMBER_DIGITS };

/* Pairwise coprime moduli of at most 256, chosen greedily from the largest.  Together they hold
 * 341.9 bits. */
static const int64_t byte_moduli[MODULI] = {
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191,
    181, 179, 173, 167, 163, 157, 151, 149, 139, 137, 131, 127, 113, 109, 107, 103, 101,
    97,  89,  83,  79,  73,  71,  67,  61,  59,  53,  47,  43,  41,  37,  29,
};

/* Moduli for a unit that multiplies words of 16 bits.  They are at most 4093, so that sums of 512
 * products of symmetric remainders stay below 2^31.  Together they hold 347.3 bits. */
static const int64_t word_moduli[] = {
    4093, 4092, 4091, 4087, 4085, 4079, 4073, 4069, 4067, 4063, 4057, 4051, 4049, 4033, 4031,
    4027, 4021, 4019, 4013, 4007, 4003, 4001, 3989, 3979, 3977, 3967, 3947, 3943, 3931,
};

/* For each unit: its moduli, their number, the longest exact chain, and the residues' formats. */
static const struct residues {
    enum unit unit;
    const int64_t *moduli;
    int most;
    int64_t chunk;
    const char *format[2]; /* formats of A's and of B's residues */
} residues[] = {
    { UNIT_i8, byte_moduli, COUNT(byte_moduli), 65536, { "u8", "i8" } },
    { UNIT_i16, word_moduli, COUNT(word_moduli), 512, { "i16", "i16" } },
    /* exact: 128^2 2^10 = 2^24 */
    { UNIT_f16, byte_moduli, COUNT(byte_moduli), 1024, { "f16", "f16" } },
    /* NULL: the moduli are in limber_digits; products of digits are at most 160^2, and
     * 160^2 512 < 2^24 */
    { UNIT_e4m3, NULL, MODULI, 512, { "e4m3", "e4m3" } },
};

/* Returns the kind of residues that this target multiplies on the scheme's unit.  NULL, with a
 * reason, if it has no kernel for them. */
static const struct residues *residues_of(const struct scheme *scheme, const struct target *t,
                                          struct diag *d)
{
    if (scheme->unit == UNIT_i8)
        return &residues[t->group == 2]; /* group 2: the target multiplies 16-bit words */
    if (t->vector_bits > 0) {
        limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s has no kernel of residues in %s", t->backend,
                    limber_units[scheme->unit].name);
        return NULL;
    }
    return &residues[scheme->unit == UNIT_f16 ? 2 : 3];
}

/* The selected moduli of a plan, and the limbs that hold their residues. */
struct taken_moduli {
    int64_t modulus[MODULI], of_limb[LIMBS]; /* [limb]: the limb's modulus */
    /* [modulus]: number of digits of its residues; each digit is a limb */
    int digits[MODULI];
    int moduli, limbs;
};

/* Selects the first `count` moduli or, if count is 0, as many as hold `need` bits.  Returns the
 * number of bits that they hold. */
static double select_moduli(const struct residues *r, double need, int count,
                            struct taken_moduli *x)
{
    double have = 0;

    *x = (struct taken_moduli){ .moduli = 0 };
    while (x->moduli < r->most && (count ? x->moduli < count : have < need)) {
        const struct limber_digits *d = r->moduli ? NULL : &limber_digits[x->moduli];

        x->digits[x->moduli] = d ? d->count : 1;
        x->modulus[x->moduli] = d ? d->p : r->moduli[x->moduli];
        have += log2((double)x->modulus[x->moduli++]);
    }
    /* The last modulus may make a smaller one unnecessary, which is then removed. */
    for (int i = x->moduli; !r->moduli && !count && i-- > 0;)
        if (have - log2((double)x->modulus[i]) >= need) {
            have -= log2((double)x->modulus[i]);
            x->moduli--;
            for (int j = i; j < x->moduli; j++) {
                x->modulus[j] = x->modulus[j + 1];
                x->digits[j] = x->digits[j + 1];
            }
        }
    for (int i = 0; i < x->moduli; i++)
        for (int j = 0; j < x->digits[i]; j++)
            x->of_limb[x->limbs++] = x->modulus[i];
    return have;
}

/* Adds the node that makes an operand's residues of scaled integers below 2^bits.  Returns the
 * node's index, negative if memory runs out. */
static int add_residues(struct plan *p, int operand, int axis, int bits,
                        const struct taken_moduli *x, const char *format)
{
    size_t count = (size_t)x->limbs;
    struct type t = p->node[operand].type;
    int n;

    limber_format_named(format, &t.format);
    t.count = x->limbs;
    n = limber_plan_add(p, OP_residues, NULL, operand, -1, t);
    if (n >= 0) {
        limber_node_set(&p->node[n], ATTR_axis, axis);
        limber_node_set(&p->node[n], ATTR_bits, bits);
        limber_node_set(&p->node[n], ATTR_sign,
                        t.format.kind == LIMBER_KIND_UINT ? SIGN_unsigned : SIGN_signed);
        if (!limber_node_list(p, &p->node[n], ATTR_moduli, x->of_limb, count))
            return -1;
    }
    return n;
}

/* Reduces the operands' bits to those of a first pass, if these are fewer.  Returns log2 of the
 * error that the reduction makes in a sum; -1 if nothing is reduced. */
static int cut_to_first_pass(const struct plan *p, const struct stated_gemm *s, int *bits_a,
                             int *bits_b)
{
    int full[2] = { *bits_a, *bits_b }, *bits[2] = { bits_a, bits_b }, error_log2 = -1;
    bool pairs = s->fa.kind == LIMBER_KIND_DD || s->fb.kind == LIMBER_KIND_DD;

    if (!p->first_pass.bits ||
        (p->promise != LIMBER_CONTRACT_CORRECT && p->promise != LIMBER_CONTRACT_BITS) ||
        limber_num_is_int(s->result))
        return -1;
    for (int i = 0; i < 2; i++)
        if (p->first_pass.bits < full[i])
            *bits[i] = p->first_pass.bits;
    /* cutting one operand changes a sum by less than k 2^bits, with the bits of the other
     * operand */
    for (int i = 0; i < 2; i++)
        if (*bits[i] < full[i] && *bits[!i] > error_log2)
            error_log2 = *bits[!i];
    return error_log2 < 0 ? -1 : error_log2 + p->kbits + 2 + pairs;
}

/* Returns the bits that the moduli must hold in addition to the bits of both operands.  The margin
 * 2^-16 keeps |S|/P away from 1/2 by more than the rounding error of the quotient. */
static double extra_bits(const struct plan *p)
{
    return p->kbits + 1 + 0x1p-16;
}

/* The selected moduli and the bits of both operands. error_log2: log2 of the error that reduced
 * bits make in a sum; -1 if nothing is cut. */
struct choice {
    struct taken_moduli taken;
    int bits_a, bits_b, error_log2;
};

/* Reduces the bits of both operands to what the caller's number of moduli can hold: each gets
 * half of the bits, or more if the other operand has fewer. have: bits that the moduli hold. */
static bool cut_to_moduli(const struct plan *p, double have, struct choice *x, struct diag *d)
{
    int both = (int)floor(have - extra_bits(p));
    int *less = x->bits_a < x->bits_b ? &x->bits_a : &x->bits_b;
    int *more = less == &x->bits_a ? &x->bits_b : &x->bits_a;

    if (both < 2) {
        d->by_class = CLASS_OF_k;
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d moduli hold no product with k up to 2^%d",
                           p->slices, p->kbits);
    }
    if (*less > both / 2)
        *less = both / 2;
    if (*more > both - *less)
        *more = both - *less;
    return true;
}

/* Chooses the bits of both operands, and enough moduli for exact sums.  False, with a reason, if
 * there are not enough moduli. */
static bool choose_moduli(const struct plan *p, const struct residues *r,
                          const struct stated_gemm *s, const struct node *mb, struct choice *x,
                          struct diag *d)
{
    double have, need;

    if (p->slices > r->most)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d, but there are %d moduli", p->slices, r->most);
    if (!limber_need_bits(p, s->ma, s->fa, &x->bits_a, d) ||
        !limber_need_bits(p, mb, s->fb, &x->bits_b, d))
        return false;
    x->error_log2 = cut_to_first_pass(p, s, &x->bits_a, &x->bits_b);
    need = x->bits_a + x->bits_b + extra_bits(p);
    have = select_moduli(r, need, p->slices, &x->taken);
    if (have < need && p->slices) {
        if (p->promise == LIMBER_CONTRACT_FAST)
            return cut_to_moduli(p, have, x, d);
        select_moduli(r, need, 0, &x->taken);
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d moduli, but the contract needs %d of them",
                           p->slices, x->taken.moduli);
    }
    if (have >= need && x->bits_a <= 165 && x->bits_b <= 165)
        return true;
    d->by_class = CLASS_OF_k;
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "%d and %d bits with k up to 2^%d exceed %d moduli", x->bits_a, x->bits_b,
                       p->kbits, r->most);
}

/* Scheme Ozaki II: computes products of residues modulo several numbers, which the Chinese
 * remainder theorem combines. */
bool limber_split_ozaki2(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    const struct residues *r = residues_of(scheme, t, d);
    struct row table[LIMBS];
    struct stated_gemm s;
    struct choice x;
    int a, b, axis, acc = 0;
    struct node mb;

    if (!r || !limber_find_stated_gemm(p, &s, d))
        return false;
    if (s.wraps)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result wraps, scaled operands do not");
    axis = limber_axis_b(p, &s, &mb);
    /* one scale for all lines would lose bits */
    if (p->slices && p->promise == LIMBER_CONTRACT_FAST) {
        axis = AXIS_col;
        mb = *s.mb;
    }
    if (!choose_moduli(p, r, &s, &mb, &x, d))
        return false;
    a = add_residues(p, s.a, AXIS_row, x.bits_a, &x.taken, r->format[0]);
    b = add_residues(p, s.b, axis, x.bits_b, &x.taken, r->format[1]);
    for (int i = 0; i < x.taken.limbs; i++) {
        acc += i > 0 && x.taken.of_limb[i] != x.taken.of_limb[i - 1];
        table[i] = (struct row){ .a = i, .b = i, .acc = acc, .share = INFINITY };
    }
    if (!limber_split_finish(p, &s,
                             &(const struct product_table){ .a = a,
                                                            .b = b,
                                                            .unit = r->unit,
                                                            .chunk = r->chunk,
                                                            .row = table,
                                                            .rows = (size_t)x.taken.limbs,
                                                            .accumulators = x.taken.moduli,
                                                            .reconstruct = RECONSTRUCT_crt,
                                                            .moduli = x.taken.modulus },
                             d) ||
        (r->unit == UNIT_e4m3 && !limber_split_exact_e4m3(p, t, d)))
        return false;
    if (x.error_log2 >= 0)
        limber_node_set(limber_plan_find(p, OP_combine), ATTR_uncertain, x.error_log2);
    return true;
}
