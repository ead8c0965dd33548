/* SPDX-License-Identifier: BSD-3-Clause
 * The list of schemes, and functions that several families of schemes use. */
#include "passes/scheme.h"

#include "passes/scheme/scheme_split.h"

#include <math.h>
#include <string.h>

/* clang-format off */
const struct scheme limber_schemes[] = {
    { .name = "native",
      .about = "the machine's own fused multiply-add",
      .split = limber_split_native, .unit = UNIT_f64, .limbs = 1, .data = SCHEME_by_formats },
    { .name = "cublas",
      .about = "NVIDIA's own product, where it is at hand; its bits are its own",
      .split = limber_split_cublas, .unit = UNIT_f64, .limbs = 1, .data = SCHEME_by_formats },
    { .name = "wider",
      .about = "binary64 chains for results of 24 bits; what they leave open is summed exactly",
      .split = limber_split_wider, .unit = UNIT_f64, .limbs = 1 },
    { .name = "tensor-e4m3",
      .about = "operands as they are on FP8 (e4m3) tensor cores",
      .split = limber_split_tensor, .unit = UNIT_e4m3, .limbs = 1 },
    { .name = "tensor-e5m2",
      .about = "operands as they are on FP8 (e5m2) tensor cores",
      .split = limber_split_tensor, .unit = UNIT_e5m2, .limbs = 1 },
    { .name = "tensor-f16",
      .about = "operands that FP16 holds, as they are, on FP16 tensor cores",
      .split = limber_split_tensor, .unit = UNIT_f16, .limbs = 1 },
    { .name = "fp32-f",
      .about = "FP32 from two scaled FP16 limbs, 3 products (Ape)",
      .split = limber_split_hilo, .unit = UNIT_f16, .limbs = 2, .shift = 12, .kept = 2,
      .scaled = true },
    { .name = "fp32-fd",
      .about = "FP32-F on an FP16 unit with FP64 sums, which no machine has (Ape, section 8)",
      .split = limber_split_hilo, .unit = UNIT_f16d, .limbs = 2, .shift = 12, .kept = 2,
      .scaled = true, .asked = true },
    { .name = "fp32-m",
      .about = "FP32 from two unscaled FP16 limbs, 4 products (Markidis)",
      .split = limber_split_hilo, .unit = UNIT_f16, .limbs = 2, .kept = 3 },
    { .name = "fp32-t",
      .about = "FP32 from two TF32 limbs, 3 products (Ape)",
      .split = limber_split_hilo, .unit = UNIT_tf32, .limbs = 2, .kept = 2, .scaled = true },
    { .name = "fp32-b",
      .about = "FP32 from three BF16 limbs, 6 products (Ape)",
      .split = limber_split_hilo, .unit = UNIT_bf16, .limbs = 3, .kept = 3, .scaled = true },
    { .name = "fp32-b9",
      .about = "FP32 from three BF16 limbs, all 9 products",
      .split = limber_split_hilo, .unit = UNIT_bf16, .limbs = 3, .kept = 5, .scaled = true },
    { .name = "ape",
      .about = "FP32-F where a tile allows it, else FP32-B, else FP32 (Ape)",
      .list = "fp32-f+fp32-b+native", .asked = true },
    { .name = "ozaki1-f16",
      .about = "error-free slices on FP16 units with FP32 sums",
      .split = limber_split_ozaki1, .unit = UNIT_f16 },
    { .name = "ozaki1-f16d",
      .about = "error-free slices on an FP16 unit with FP64 sums, which no machine has",
      .split = limber_split_ozaki1, .unit = UNIT_f16d, .asked = true },
    { .name = "ozaki1-bf16",
      .about = "error-free slices on BF16 units with FP32 sums",
      .split = limber_split_ozaki1, .unit = UNIT_bf16 },
    { .name = "ozaki1-i8",
      .about = "error-free slices on INT8 units with INT32 sums",
      .split = limber_split_ozaki1, .unit = UNIT_i8 },
    { .name = "ozaki1-e4m3",
      .about = "error-free slices on FP8 (e4m3) units with FP32 sums",
      .split = limber_split_ozaki1, .unit = UNIT_e4m3 },
    { .name = "ozaki1-f64",
      .about = "error-free slices on FP64 units",
      .split = limber_split_ozaki1, .unit = UNIT_f64 },
    { .name = "ozaki2",
      .about = "residues on INT8 units, Chinese remainders",
      .split = limber_split_ozaki2, .unit = UNIT_i8 },
    { .name = "ozaki2-f16",
      .about = "residues on FP16 units with FP32 sums, Chinese remainders",
      .split = limber_split_ozaki2, .unit = UNIT_f16 },
    { .name = "ozaki2-e4m3",
      .about = "residues as digits on FP8 (e4m3) units with FP32 sums, Chinese remainders",
      .split = limber_split_ozaki2, .unit = UNIT_e4m3 },
    { .name = "integer",
      .about = "bytes of integers on INT8 units",
      .split = limber_split_integer, .unit = UNIT_i8 },
    { .name = "accumulator",
      .about = "exact products in a long accumulator, for any data (Kulisch)",
      .split = limber_split_exact, .unit = UNIT_exact, .limbs = 1, .data = SCHEME_by_special },
    { .name = "pairs",
      .about = "small products and vectors in pairs of doubles, correctly rounded, no kernel",
      .split = limber_split_exact, .unit = UNIT_exact, .limbs = 1, .asked = true },
    { .name = "simulate",
      .about = "what a described low-precision unit computes, bit for bit",
      .split = limber_split_simulate, .unit = UNIT_model, .limbs = 1 },
    { .name = "tensor-mx",
      .about = "block-scaled units by NVIDIA's instructions, whose bits one model alone predicts",
      .split = limber_split_block_scaled, .unit = UNIT_model, .limbs = 1, .asked = true },
};
/* clang-format on */
const size_t limber_scheme_count = COUNT(limber_schemes);

/* Returns the row with this name; NULL if there is none. */
static const struct scheme *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < limber_scheme_count; i++)
        if (strlen(limber_schemes[i].name) == length &&
            memcmp(limber_schemes[i].name, name, length) == 0)
            return &limber_schemes[i];
    return NULL;
}

/* Returns the scheme with this name; NULL if there is none, or if the name stands for a list. */
const struct scheme *limber_scheme_find(const char *name)
{
    const struct scheme *s = find_row(name, strlen(name));

    return s && !s->list ? s : NULL;
}

/* Parses "A", "A+B", "A+B+C", or the name of such a list.  Returns false if a scheme is unknown. */
bool limber_scheme_list_read(const char *text, struct scheme_list *out)
{
    const struct scheme *s = find_row(text, strlen(text));

    out->count = 0;
    text = s && s->list ? s->list : text;
    for (;;) {
        const size_t length = strcspn(text, "+");

        s = find_row(text, length);
        if (!s || s->list || out->count == SCHEMES)
            return false;
        out->scheme[out->count++] = s;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

/* Returns the i-th scheme, from 0; NULL past the end. */
const limber_scheme *limber_scheme_at(int i)
{
    return i >= 0 && (size_t)i < limber_scheme_count ? &limber_schemes[i].entry : NULL;
}

/* Finds the plan's gemm, its operands, the nodes with their scan results, and the epilogue.
 * Fails if the plan has no gemm. */
bool limber_find_stated_gemm(const struct plan *p, struct stated_gemm *s, struct diag *d)
{
    const struct node *g = limber_plan_find(p, OP_gemm), *out = limber_plan_find(p, OP_epilogue);

    if (!g || !out)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "the plan has no gemm with an epilogue");
    s->gemm = (int)(g - p->node);
    s->a = g->in[0];
    s->b = g->in[1];
    s->type = g->type;
    s->fa = p->node[s->a].type.format;
    s->fb = p->node[s->b].type.format;
    s->result = out->type.format;
    s->ma = limber_source(p, s->a);
    s->mb = limber_source(p, s->b);
    s->out = out;
    s->wraps = limber_attr_number(out, ATTR_wrap) == 1;
    return true;
}

/* Reports that memory ran out, and returns false. */
static bool no_memory(struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "split: out of memory");
}

/* Adds the node that combines the accumulators to one value, and makes it replace the gemm. */
static bool add_combine(struct plan *p, const struct stated_gemm *s, int products,
                        const struct product_table *t, struct diag *d)
{
    size_t count = (size_t)t->accumulators;
    struct type type = s->type;
    int c;

    if (t->reconstruct == RECONSTRUCT_sum && limber_units[t->unit].exact_bits)
        limber_format_named(count > 1 ? "f64" : limber_units[t->unit].acc, &type.format);
    else
        limber_format_named("exact", &type.format);
    c = limber_plan_add(p, OP_combine, NULL, products, -1, type);
    if (c < 0)
        return no_memory(d);
    limber_node_set(&p->node[c], ATTR_reconstruct, t->reconstruct);
    if (t->reconstruct == RECONSTRUCT_crt &&
        !limber_node_list(p, &p->node[c], ATTR_moduli, t->moduli, count))
        return no_memory(d);
    for (size_t i = 0; i < p->nodes; i++)
        for (int j = 0; j < p->node[i].nin; j++)
            if (p->node[i].in[j] == s->gemm)
                p->node[i].in[j] = c;
    return limber_plan_sweep(p) || no_memory(d);
}

/* Replaces the gemm by the products of the table t and their combination.  False, with an error,
 * if memory runs out. */
bool limber_split_finish(struct plan *p, const struct stated_gemm *s, const struct product_table *t,
                         struct diag *d)
{
    struct type type = s->type;
    struct row *copy = limber_plan_alloc(p, t->rows * sizeof *copy);
    int products;

    if (t->a < 0 || t->b < 0 || !copy)
        return no_memory(d);
    limber_format_named(t->reconstruct == RECONSTRUCT_sum ? limber_units[t->unit].acc : "i64",
                        &type.format);
    type.count = t->accumulators;
    products = limber_plan_add(p, OP_products, NULL, t->a, t->b, type);
    if (products < 0)
        return no_memory(d);
    memcpy(copy, t->row, t->rows * sizeof *copy);
    p->node[products].row = copy;
    p->node[products].rows = t->rows;
    limber_node_set(&p->node[products], ATTR_unit, t->unit);
    limber_node_set(&p->node[products], ATTR_chunk, t->chunk);
    return add_combine(p, s, products, t, d);
}

/* Sets how the target's matrix unit sums products.  Fails if no tensor core is known with this
 * order of sums. */
bool limber_split_sums(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *n = limber_plan_find(p, OP_products);
    int sums = limber_word_find(limber_attrs[ATTR_sums].words, t->sums, strlen(t->sums));
    limber_unit unit;

    if (sums < 0 || sums == SUMS_any)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: sums=%s is not known", t->sums);
    limber_node_set(n, ATTR_sums, sums);
    return limber_unit_of_sums(n, &unit) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "one sum of sums=%s is no chain of %s", t->sums,
                       limber_units[limber_attr_number(n, ATTR_unit)].name);
}

/* Sets the attribute `sums` of exact products in e4m3. */
bool limber_split_exact_e4m3(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *n = limber_plan_find(p, OP_products);

    if (!t->sums[0])
        limber_node_set(n, ATTR_sums, SUMS_b200);
    else if (!limber_split_sums(p, t, d))
        return false;
    return limber_exact_bits(n) >= 24 ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "sums=%s of e4m3 have %d bits, and not 24",
                       t->sums, limber_exact_bits(n));
}

/* True if the caller may set the number of slices or moduli (limber_contract.slices). */
bool limber_scheme_has_count(const struct scheme *s)
{
    return s->split == limber_split_ozaki1 || s->split == limber_split_ozaki2;
}

/* Sets *bits to the number of bits that an operand's scaled integers need, so that truncating
 * them keeps the budget.  Fails if the operand is not scanned or needs too many. */
bool limber_need_bits(const struct plan *p, const struct node *mask, limber_format f, int *bits,
                      struct diag *d)
{
    double budget = p->budget;
    int64_t width, need;

    if (!limber_node_has(mask, ATTR_width))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "needs a scan of %%%s", mask->name);
    width = limber_attr_number(mask, ATTR_width);
    if (budget > 0 && budget < 1) {
        /* Every scaled integer X, |X| >= 2^(bits-1-spread), is truncated by less than 1 (by 2
         * for the two parts of dd).  Each operand may use half of the budget; one more bit is
         * for the product of both errors and for pruning. */
        need = (int64_t)ceil(-log2(budget)) + 3 + (f.kind == LIMBER_KIND_DD) +
               limber_attr_number(mask, ATTR_spread);
        if (need < width)
            width = need;
    }
    if (width < 1)
        width = 1;
    if (width > INT32_MAX)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s is too wide", mask->name);
    *bits = (int)width;
    return true;
}

/* Returns the bits of the scaled integers if all lines of an operand share one scale. */
int64_t limber_width_of_all(const struct node *mask)
{
    int64_t spread = limber_attr_number(mask, ATTR_emax) - limber_attr_number(mask, ATTR_emin);
    int64_t width = spread + limber_attr_number(mask, ATTR_sig);

    return limber_node_has(mask, ATTR_reach) && limber_attr_number(mask, ATTR_reach) < width ?
               limber_attr_number(mask, ATTR_reach) :
               width;
}

/* Returns the axis along which B is scaled: AXIS_all if overlapping windows share the limbs of
 * an image and one scale needs few extra bits, else AXIS_col.  Sets *mask to B's exponents and
 * bits for that axis. */
int limber_axis_b(const struct plan *p, const struct stated_gemm *s, struct node *mask)
{
    /* a common scale with up to 32 more bits costs less than limbs of each window */
    enum { MORE = 32 };
    int64_t spread, width;

    *mask = *s->mb;
    spread = limber_attr_number(mask, ATTR_emax) - limber_attr_number(mask, ATTR_emin);
    width = limber_width_of_all(mask);
    spread = spread < width ? spread : width - 1;
    if (!limber_plan_map(p, s->b) || !limber_node_has(mask, ATTR_width) ||
        width > limber_attr_number(mask, ATTR_width) + MORE)
        return AXIS_col;
    limber_node_set(mask, ATTR_spread, spread);
    limber_node_set(mask, ATTR_width, width);
    return AXIS_all;
}
