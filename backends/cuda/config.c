/* SPDX-License-Identifier: BSD-3-Clause
 * Flattens a plan into the constants of its kernels (struct cuda_config). */
#include "backends/cuda/cuda.h"
#include "backends/served.h"
#include "ir/num/dot.h"

#include <string.h>

#define R LIMBER_READS
#define W LIMBER_WORD
/* Operations and words that this backend supports in addition to those of backends/served.c.  Of
 * index maps only the attribute `order` is read here, since the views that the backend gets
 * contain the maps. */
static const struct served served = {
    .backend = "cuda",
    .float_limbs = true,
    .op = {
        LIMBER_SERVES(patches, R(order)),
        LIMBER_SERVES(filters, R(order)),
        LIMBER_SERVES(products, R(sums) | R(joins) | R(split)),
    },
    .words = {
        [ATTR_order] = W(ORDER_rsc),
        [ATTR_axis] = W(AXIS_all),
        [ATTR_sums] = W(SUMS_v100) | W(SUMS_t4) | W(SUMS_a100) | W(SUMS_ada) | W(SUMS_h100) |
                      W(SUMS_b200) | W(SUMS_any),
        [ATTR_split] = W(SPLIT_ahead) | W(SPLIT_inside),
    },
};
#undef R
#undef W

/* Sets the properties of one operand and of its limbs.  limbs: index of the node that makes the
 * limbs. */
static void set_side(const struct plan *p, int limbs, struct cuda_config *c, struct cuda_side *s)
{
    const struct node *n = &p->node[limbs];
    const struct node *source = n;

    while (source->op != OP_arg && source->nin > 0)
        source = &p->node[source->in[0]];
    s->f = source->type.format;
    s->limb = n->type.format;
    s->limb_kind = (int32_t)limber_limb_kind(n->op);
    s->limbs = n->type.count;
    s->scaled = !limber_node_has(n, ATTR_axis) || limber_attr_number(n, ATTR_axis) == AXIS_none ?
                    0 :
                limber_attr_number(n, ATTR_axis) == AXIS_all ? SCALED_all :
                                                               SCALED_lines;
    s->top = (int32_t)(n->op == OP_hilo ? limber_attr_number(n, ATTR_top) :
                                          limber_attr_number(n, ATTR_bits));
    s->shift = (int32_t)limber_attr_number(n, ATTR_shift);
    s->step = (int32_t)limber_attr_number(n, ATTR_step);
    s->is_signed =
        !limber_node_has(n, ATTR_sign) || limber_attr_number(n, ATTR_sign) != SIGN_unsigned;
    s->balanced =
        limber_node_has(n, ATTR_sign) && limber_attr_number(n, ATTR_sign) == SIGN_balanced;
    c->special |= s->limb_kind != LIMB_KIND_whole && limber_attr_number(source, ATTR_special) == 1;
    /* rounding may add a bit */
    s->digits = (int32_t)(limber_attr_number(n, ATTR_bits) + 1 + s->balanced + 31) / 32;
}

bool limber_cuda_is_tensor_unit(enum unit u)
{
    return u == UNIT_i8 || limber_units[u].tensor;
}

/* True if the unit's products use tcgen05 on this target.  Not every device has tcgen05 for INT8,
 * and no plan uses it for E5M2. */
bool limber_cuda_uses_tensor_memory(enum unit u, const struct target *t)
{
    return limber_cuda_is_tensor_unit(u) && limber_target_has(t, "tcgen05") && u != UNIT_e5m2 &&
           (u != UNIT_i8 || limber_target_has(t, "tcgen05-i8"));
}

/* True if the unit's instructions on this target read operands from shared memory directly. */
bool limber_cuda_reads_shared(enum unit u, const struct target *t)
{
    return (limber_cuda_is_tensor_unit(u) && limber_target_has(t, "wgmma")) ||
           limber_cuda_uses_tensor_memory(u, t);
}

/* True if the multiply kernel reads operands from shared memory, which a group of producer threads
 * fills (kernel/fetch.h). */
bool limber_cuda_fetches(const struct cuda_config *c)
{
    return c->mma_path == MMA_PATH_group || c->mma_path == MMA_PATH_tensor;
}

/* Returns the path (enum cuda_mma_path) by which this unit's products are computed on the
 * target. */
static int mma_path_of(enum unit u, const struct target *t)
{
    bool small = limber_cuda_is_tensor_unit(u);

    if (u == UNIT_exact)
        return MMA_PATH_element;
    if (u == UNIT_model)
        return MMA_PATH_unit;
    if (small && limber_target_has(t, "wgmma"))
        return MMA_PATH_group;
    if (limber_cuda_uses_tensor_memory(u, t))
        return MMA_PATH_tensor;
    if ((small || u == UNIT_f64) && limber_target_has(t, "mma"))
        return MMA_PATH_warp;
    if (u == UNIT_f16 && limber_target_has(t, "wmma"))
        return MMA_PATH_portable;
    return MMA_PATH_lane;
}

/* Checks that the device's tensor cores round and order sums as the plan says; sums=fma and
 * sums=any always pass.  Returns false with an error if they do not. */
static bool check_sums(const struct cuda_config *c, const struct node *n, const struct target *t,
                       struct diag *d)
{
    int length;
    const char *word =
        limber_word_at(limber_attrs[ATTR_sums].words, limber_attr_number(n, ATTR_sums), &length);

    if (limber_attr_number(n, ATTR_sums) == SUMS_fma ||
        limber_attr_number(n, ATTR_sums) == SUMS_any ||
        (strlen(t->sums) == (size_t)length && !memcmp(word, t->sums, (size_t)length) &&
         c->mma_path != MMA_PATH_lane))
        return true;
    return limber_fail(d, LIMBER_STATUS_INTERNAL, "cuda: %%%s: this device has no sums=%.*s",
                       n->name, length, word);
}

/* Sets the tiles of thread blocks and warps, and the shared memory and number of threads of the
 * multiply kernel. */
static void set_tile(struct cuda_config *c, const struct node *n)
{
    const int64_t *tile = limber_attr_list(n, ATTR_tile)->v;
    int held_a = c->totals ? 1 : c->side[0].limbs, held_b = c->totals ? 1 : c->side[1].limbs;

    c->wm = (int32_t)tile[0];
    c->wn = (int32_t)tile[1];
    c->stages = (int32_t)tile[2];
    c->bm = (int32_t)tile[3];
    c->bn = (int32_t)tile[4];
    c->step = (int32_t)tile[5] * c->bytes / c->packed;
    c->shared = (c->inside ? 2 : c->stages) * c->step * (held_a * c->bm + held_b * c->bn);
    c->shared += c->stages * c->mx.scales * (c->bm + c->bn);
    /* shared memory also holds pipeline stages of elements, in addition to the two stages of limbs;
     * for warpgroups, a stage has pieces of 128 x 32 floats */
    if (c->inside)
        c->shared += c->stages * 4 *
                     (limber_cuda_fetches(c) ? 128 * 32 : c->step / c->bytes * (c->bm + c->bn));
    c->threads = c->bm / c->wm * (c->bn / c->wn) * 32;
    if (c->mma_path ==
        /* rows of limbs are padded by 16 bytes; each warp has 1536 bytes of sums per accumulator */
        MMA_PATH_portable) {
        c->shared = c->stages * (c->step + 16) * (held_a * c->bm + held_b * c->bn) +
                    c->threads / 32 * (c->totals ? 1 : c->accumulators) * 1536;
        c->window = 0;
    }
    if (limber_cuda_fetches(c)) {
        c->threads = (c->bm / 64 + (c->mma_path == MMA_PATH_tensor ? 2 : 1)) * 128;
        c->shared += 16 * (c->inside ? 2 : c->stages) +
                     (c->mma_path == MMA_PATH_tensor ? TENSOR_BARRIERS : 0);
    }
    /* Two blocks that share B read its limbs from L2 half as often.  If B is read through a
     * convolution's window, threads copy it to shared memory, and blocks cannot share it. */
    c->cluster = limber_cuda_fetches(c) && !c->window && !c->inside ? 2 : 1;
    if (c->window)
        c->shared += WINDOW_LINE * c->bn;
}

/* Sets the number of steps along k after which a chain ends, and the number after which exact
 * totals are moved from registers to memory. */
static void set_lengths(struct cuda_config *c, const struct node *n)
{
    /* check_tile made sure that the chunks of f64, which the caller may choose, consist of complete
     * steps */
    int64_t steps = limber_attr_number(n, ATTR_chunk) * c->bytes / c->step;

    c->chunk_steps = steps < 1 ? 1 : steps > INT32_MAX / 128 ? INT32_MAX / 128 : (int32_t)steps;
    c->flush_steps = c->chunk_steps;
    if (limber_units[c->unit].tensor)
        /* 64 chains of magnitude below 2^24 have a sum below 2^31, so it fits an int */
        c->flush_steps *= 64;
}

/* Sets the size of the long accumulator of unit `exact`.  Returns false if the unit is not
 * supported. */
static bool set_exact(struct cuda_config *c)
{
    limber_format a = c->side[0].f, b = c->side[1].f;

    c->long_base = limber_dot_base(a, b);
    c->long_words = limber_dot_words(a, b, 63);
    return true;
}

/* Checks the plan's tile and the size of its product table.  Returns false with an error if the
 * kernels do not support them. */
static bool check_tile(const struct cuda_config *c, const struct node *n, struct diag *d)
{
    if (!limber_node_has(n, ATTR_tile) || limber_attr_list(n, ATTR_tile)->n != 6)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "cuda: %%%s has no tile", n->name);
    for (int i = 0; i < 6; i++)
        if (limber_attr_list(n, ATTR_tile)->v[i] < 1 || limber_attr_list(n, ATTR_tile)->v[i] > 1024)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "cuda: %%%s: tile %d is out of range",
                               n->name, i);
    if (!c->totals && limber_attr_number(n, ATTR_chunk) % limber_attr_list(n, ATTR_tile)->v[5])
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "cuda: groups of f64 are multiples of %d here, and not %lld",
                           (int)limber_attr_list(n, ATTR_tile)->v[5],
                           (long long)limber_attr_number(n, ATTR_chunk));
    return (c->rows <= CUDA_ROWS && c->accumulators <= CUDA_ACCUMULATORS) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "cuda: %d rows are too many for a kernel",
                       c->rows);
}

/* Fills *c from a plan on which all passes have run.  Returns false, with an error, if the
 * backend does not support the plan. */
bool limber_cuda_config(const struct plan *p, const struct target *t, struct cuda_config *c,
                        struct diag *d)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    const struct node *out = limber_plan_find(p, OP_epilogue);

    memset(c, 0, sizeof *c);
    if (!limber_plan_served(p, &served, d))
        return false;
    if (p->model && (p->model->halve || p->model->unroll || p->model->join_halves))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "cuda: halve=, unroll= and join= of units are not served");
    if (p->model && (p->model->epilogue.format.kind ||
                     (p->model->split > 1 && (p->model->tile || p->model->merge_pairs))))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "cuda: epilogue=, and parts of k with tile= or merge= are not served");
    if (!products || !combine || !out)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "cuda: the plan is not finished");
    if (p->model && limber_attr_number(products, ATTR_unit) == UNIT_f64 &&
        limber_plan_find(p, OP_quantize))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "cuda: operands that a unit rounds and sums in f64 are not served");
    set_side(p, products->in[0], c, &c->side[0]);
    set_side(p, products->in[1], c, &c->side[1]);
    c->result = out->type.format;
    c->scalars = limber_scalar_format(c->result);
    c->unit = (int32_t)limber_attr_number(products, ATTR_unit);
    c->mma_path = mma_path_of((enum unit)c->unit, t);
    c->reconstruct = (int32_t)limber_attr_number(combine, ATTR_reconstruct);
    c->rsc = limber_plan_order(p, products->in[1]) == ORDER_rsc;
    /* if each window has a scale of its own, a pixel has a different scale in each window that
     * covers it, so the image cannot be packed once */
    c->window = c->rsc && c->side[1].scaled != SCALED_lines;
    c->rows = (int32_t)products->rows;
    c->accumulators = products->type.count;
    c->most_rows = limber_most_rows(products);
    c->bytes = c->side[0].limb.size;
    c->packed = 1;
    c->totals = c->reconstruct != RECONSTRUCT_sum;
    c->direct = !c->totals && limber_format_is_binary(c->result);
    c->total_bytes = c->reconstruct == RECONSTRUCT_crt ? 1 : c->totals ? 4 : 8;
    c->fast_doubles = t->rate[UNIT_f64] >= t->rate[UNIT_f32] / 2;
    c->alpha = limber_attr_number(out, ATTR_alpha) != 0;
    c->beta = limber_attr_number(out, ATTR_beta) != 0;
    c->wrap = (int32_t)limber_attr_number(out, ATTR_wrap);
    c->integral = (int32_t)limber_attr_number(out, ATTR_integral);
    c->library = limber_attr_number(products, ATTR_sums) == SUMS_any;
    c->joins = limber_node_has(products, ATTR_joins);
    if (c->joins && c->mma_path != MMA_PATH_warp)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "cuda: joins is for mma.sync alone");
    if (c->mma_path == MMA_PATH_element) {
        c->special = 1;
        return set_exact(c);
    }
    if (c->mma_path == MMA_PATH_unit && limber_attr_number(products, ATTR_sums) != SUMS_fma)
        limber_cuda_set_block_scaled(p, t, c);
    else if (c->mma_path == MMA_PATH_unit)
        limber_cuda_set_unit(p, c);
    c->inside = limber_attr_number(products, ATTR_split) == SPLIT_inside;
    c->parted = p->roundings > 0;
    if (c->inside && c->mma_path != MMA_PATH_warp && !limber_cuda_fetches(c))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "cuda: %%%s: split=inside is for tensor cores of "
                           "8.0 and later",
                           products->name);
    if (!check_sums(c, products, t, d) || !check_tile(c, products, d))
        return false;
    set_tile(c, products);
    set_lengths(c, products);
    return true;
}
