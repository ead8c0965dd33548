/* SPDX-License-Identifier: BSD-3-Clause
 * A finished plan as the constants of its kernel. */
#include "backends/llvm/llvm.h"

#include "ir/prim.h"

#include <string.h>

static enum how how_of(enum op op)
{
    return op == OP_hilo ? HOW_hilo : op == OP_slices ? HOW_slices :
           op == OP_residues ? HOW_residues : HOW_whole;
}

/* Instructions of i8 with group 4 multiply unsigned by signed bytes: A is moved up to unsigned,
 * B down to signed. */
static int offset_of(const struct side *s, int side, int limb, int group)
{
    bool is_signed = s->how == HOW_residues ? s->is_signed : limb == 0 && s->is_signed;

    if (group != 4)
        return 0;
    return side == 0 ? (is_signed ? 128 : 0) : (is_signed ? 0 : -128);
}

static void set_side(const struct plan *p, const struct node *products, int which,
                     struct kernel_config *k)
{
    const struct node *n = &p->node[products->in[which]];
    struct side *s = &k->side[which];

    s->f = p->node[n->in[0]].type.format;
    s->limb = n->type.format;
    s->how = how_of(n->op);
    s->limbs = n->type.count;
    s->axis = (int)n->num[ATTR_axis];
    s->top = (int)(n->op == OP_hilo ? n->num[ATTR_top] : n->num[ATTR_bits]);
    s->shift = (int)n->num[ATTR_shift];
    s->step = (int)n->num[ATTR_step];
    s->is_signed = n->num[ATTR_sign] == SIGN_signed;
    s->narrow = n->num[ATTR_bits] <= 62 && s->f.kind != LIMBER_KIND_DD && s->f.size < 16 &&
                (s->axis == AXIS_none || limber_format_sig(s->f) <= 53);
    s->lines = which ? k->nr : k->mr;
    for (size_t r = 0; r < products->rows; r++)
        s->used[which ? products->row[r].b : products->row[r].a] = 1;
    for (int l = 0; l < s->limbs && k->unit == UNIT_i8; l++) {
        s->offset[l] = offset_of(s, which, l, k->group);
        k->offsets |= s->offset[l] != 0;
    }
}

static bool set_tile(const struct node *products, struct kernel_config *k, struct diag *d)
{
    const struct dims_list *tile = &products->list[ATTR_tile];

    if (k->unit == UNIT_exact) {
        k->mr = k->nr = k->mb = k->nb = 16;
        k->group = k->bytes = 1;
        k->kc = k->chunk;
        return true;
    }
    if (tile->n != 6)
        return limber_fail(d, LIMBER_INTERNAL, "llvm: products without a tile");
    k->mr = (int)tile->v[0];
    k->nr = (int)tile->v[1];
    k->group = (int)tile->v[2];
    k->mb = (int)tile->v[3];
    k->nb = (int)tile->v[4];
    k->kc = tile->v[5];
    k->bytes = k->unit == UNIT_f64 ? 8 : k->unit == UNIT_i8 ? 4 / k->group : 4;
    return true;
}

/* Exact results: words that hold the largest sum, with a sign. */
static void set_words(const struct plan *p, const struct node *combine, struct kernel_config *k)
{
    const struct node *products = &p->node[combine->in[0]];
    int top = 0;

    if (k->via == VIA_crt) {
        k->words = (k->crt.digits + 1) / 2;
        return;
    }
    for (int i = 0; i < k->accumulators; i++)
        top = k->weight[i] > top ? k->weight[i] : top;
    /* a total is below 2^(2*21 + kbits + log2 of its rows) < 2^63 beyond the top weight */
    k->words = (top + 64) / 64 + 1;
    (void)products;
    k->small = k->side[0].top + k->side[1].top + p->kbits <= 61 && k->side[0].narrow &&
               k->side[1].narrow;
}

static bool set_crt(const struct node *combine, struct kernel_config *k, struct diag *d)
{
    if (!limber_crt_init(&k->crt, combine->list[ATTR_moduli].v, combine->list[ATTR_moduli].n))
        return limber_fail(d, LIMBER_INTERNAL, "llvm: moduli are not pairwise coprime");
    for (int l = 0; l < k->crt.count; l++) {
        uint32_t m = (uint32_t)k->crt.modulus[l];

        k->inverse[l] = 1.0f / (float)m;
        k->share[l] = 1.0 / m;
        for (int side = 0; side < 2; side++) {
            uint32_t power = 1 % m, pieces = k->side[side].narrow ? 4 : 4 * LIMBER_WIDE, bias = 0;

            for (uint32_t i = 0; i < pieces; i++) {
                k->piece[side][l][i] = power;
                if (i == pieces - 1)
                    bias = power * 32768 % m;
                power = power * 65536 % m;
            }
            k->piece[side][l][12] = (m - bias) % m;
        }
    }
    return true;
}

static void set_exact(const struct plan *p, struct kernel_config *k)
{
    limber_format a = k->side[0].f, b = k->side[1].f;

    k->big_base = limber_format_emin(a) + limber_format_emin(b);
    k->big_words = (limber_format_emax(a) + limber_format_emax(b) + 2 + p->kbits - k->big_base) /
                   64 + 2;
    k->words = k->big_words;
}

bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    const struct node *out = limber_plan_find(p, OP_epilogue);

    (void)t;
    memset(k, 0, sizeof *k);
    if (!products || !combine || !out)
        return limber_fail(d, LIMBER_INTERNAL, "llvm: the plan was not split");
    if (products->rows > KERNEL_ROWS || products->type.count > KERNEL_ACCUMULATORS)
        return limber_fail(d, LIMBER_INTERNAL, "llvm: %zu rows and %d accumulators are too many",
                           products->rows, products->type.count);
    k->version = KERNEL_VERSION;
    k->unit = (int)products->num[ATTR_unit];
    k->chunk = products->num[ATTR_chunk];
    if (!set_tile(products, k, d))
        return false;
    set_side(p, products, 0, k);
    set_side(p, products, 1, k);
    k->c = out->type.format;
    k->scalars = k->c;
    if (k->c.kind == LIMBER_KIND_INT || k->c.kind == LIMBER_KIND_UINT)
        limber_format_named("i64", &k->scalars);
    k->rows = (int)products->rows;
    k->accumulators = products->type.count;
    k->via = (int)combine->num[ATTR_via];
    for (int r = 0; r < k->rows; r++) {
        k->row[r].a = (int16_t)products->row[r].a;
        k->row[r].b = (int16_t)products->row[r].b;
        k->row[r].acc = (int16_t)products->row[r].acc;
        k->weight[products->row[r].acc] = products->row[r].weight;
    }
    k->has_alpha = (int)out->num[ATTR_alpha];
    k->has_beta = (int)out->num[ATTR_beta];
    k->plain = !k->has_alpha && !k->has_beta;
    k->wrap = (int)out->num[ATTR_wrap];
    if (k->unit == UNIT_exact)
        set_exact(p, k);
    else if (k->via == VIA_crt && !set_crt(combine, k, d))
        return false;
    if (k->unit != UNIT_exact && k->via != VIA_sum)
        set_words(p, combine, k);
    return true;
}
