/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the tiles of thread blocks and warps, and predicts the time of a plan on a GPU. */
#include "backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

/* ---- tiles and pipeline stages of thread blocks ---------------------------------------------- */

/* Tile of a warp (mr x nr) and of a thread block (mb x nb).  bytes: bytes along k of each row of A
 * or column of B in a pipeline stage. */
struct block_shape {
    int64_t mr, nr, mb, nb, bytes;
};

/* Returns the tiles for large products.  side_by_side: a pipeline stage holds all limbs of the
 * operands, else one limb of each.  Registers hold the sums of a warp's tile and so limit its size;
 * shared memory limits the number of stages.  A warpgroup (four warps) multiplies 64 rows at
 * once. */
static struct block_shape large_shape(const struct node *n, const struct target *t,
                                      bool side_by_side)
{
    enum unit u = (enum unit)limber_attr_number(n, ATTR_unit);

    if (limber_cuda_reads_shared(u, t))
        return u == UNIT_i8 ? (struct block_shape){ 64, 256, 128, 256, 128 } :
                              (struct block_shape){ 64, 128, 128, 128, 128 };
    if (limber_cuda_is_tensor_unit(u) && limber_target_has(t, "mma"))
        return side_by_side ? (struct block_shape){ 32, 32, 128, 64, 64 } :
               u == UNIT_i8 ? (struct block_shape){ 64, 64, 128, 256, 64 } :
                              (struct block_shape){ 32, 32, 128, 64, 128 };
    if (u == UNIT_f16)
        return (struct block_shape){ 32, 32, 64, 64, 64 };
    if (u == UNIT_f64 && limber_target_has(t, "mma"))
        return (struct block_shape){ 32, 32, 128, 64, 128 };
    return u == UNIT_f64 ? (struct block_shape){ 32, 32, 128, 64, 64 } :
                           (struct block_shape){ 32, 64, 128, 128, 64 };
}

/* Returns the tiles of a plan.  A small C gets smaller tiles, so that more thread blocks run at
 * once.  An exception are plans for tensor cores whose pipeline stages hold all limbs: their kernel
 * may split elements into limbs itself, and needs the warps of a large block for that. */
static struct block_shape shape_of(const struct plan *p, const struct node *n,
                                   const struct target *t, bool side_by_side)
{
    struct block_shape s = large_shape(n, t, side_by_side);
    enum unit u = (enum unit)limber_attr_number(n, ATTR_unit);
    bool tensor = limber_cuda_is_tensor_unit(u), warpgroups = limber_cuda_reads_shared(u, t);

    if (p->size != SMALL_SIZE || (side_by_side && tensor))
        return s;
    s.nb = 64;
    if (warpgroups) {
        s.nr = 64;
    } else {
        s.mb = 64;
        s.mr = 32;
        /* kernels without tensor cores keep the nr of the large tile */
        s.nr = tensor && limber_target_has(t, "mma") ? 32 : s.nr;
    }
    return s;
}

/* Returns the number of pipeline stages that fit in shared memory.  The caller refuses fewer than
 * 2.  If the multiply kernel splits elements into limbs (inside), its stages hold elements, and
 * there are also two stages of limbs.  1024 bytes are reserved for barriers and alignment.  For
 * warpgroups, elements are copied in boxes of 128 rows or columns by 32. */
static int64_t stages_of(const struct plan *p, const struct target *t, bool inside)
{
    const struct node *n = limber_plan_find(p, OP_products);
    const struct node *a = &p->node[n->in[0]], *b = &p->node[n->in[1]];
    bool side_by_side =
        limber_attr_number(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum;
    struct block_shape s = shape_of(p, n, t, side_by_side);
    int64_t lines = side_by_side ? a->type.count * s.mb + b->type.count * s.nb : s.mb + s.nb;
    int64_t window = limber_plan_find(p, OP_patches) ? WINDOW_LINE * s.nb : 0;
    int64_t available = t->shared - 1024 - window, limbs = lines * s.bytes, stages, raw;
    bool groups = limber_cuda_reads_shared((enum unit)limber_attr_number(n, ATTR_unit), t);

    if (inside) {
        raw = 4 * (groups ? 128 * 32 : s.bytes / a->type.format.size * (s.mb + s.nb));
        stages = (available - 2 * limbs) / raw;
        return stages > (groups ? 6 : 3) ? (groups ? 6 : 3) : stages;
    }
    stages = available / limbs > 4 ? 4 : available / limbs;
    if (limber_attr_number(n, ATTR_unit) == UNIT_f16 && !limber_target_has(t, "mma"))
        /* on this GPU copies are synchronous, so more than two pipeline stages gain nothing; sums
         * also need shared memory */
        return stages < 2 ? stages : 2;
    return stages;
}

/* ---- where limbs are made: before the multiply kernel or inside it --------------------------- */

/* Implements block_rules.splits_inside: true if the multiply kernel itself can split this plan's
 * elements into limbs. */
static bool can_split_inside(const struct plan *p, const struct target *t, struct diag *d)
{
    const struct node *n = limber_plan_find(p, OP_products);

    if (!t->shared || !limber_target_has(t, "mma"))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "split=inside: %s has no kernel for that",
                           t->backend);
    for (int i = 0; i < 2; i++) {
        const struct node *limbs = &p->node[n->in[i]], *x = &p->node[limbs->in[0]];

        if (limbs->op != OP_hilo || x->op != OP_arg ||
            !limber_format_equal(x->type.format, LIMBER_F32))
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                               "split=inside: %%%s are no Hi/Lo limbs of a "
                               "matrix of f32",
                               limbs->name);
    }
    return stages_of(p, t, true) >= 2 ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "split=inside: elements and limbs do not fit the %lld "
                       "bytes that threads share",
                       (long long)t->shared);
}

/* Returns the bytes of memory traffic per element of an operand.  If a separate kernel splits
 * elements into limbs, an element is read once, and its limbs are written and then read about eight
 * times.  If the multiply kernel splits them (inside), the element is read eight times.
 *
 * For a convolution's image with k in the order row, column, channel: if it has one scale, or no
 * limbs, each pixel is packed once, although about four windows cover it.  Otherwise an im2col
 * matrix is packed, and locating each of its elements counts as 50 bytes (measured on an H200). */
static double operand_bytes(const struct plan *p, int limbs, bool inside)
{
    const struct node *n = &p->node[limbs];
    double size = limber_source(p, limbs)->type.format.size;
    double cut = size + n->type.count * n->type.format.size;
    double read = 8.0 * n->type.count * n->type.format.size;

    if (inside)
        return 8 * size;
    if (limber_plan_order(p, limbs) != ORDER_rsc || p->node[n->in[0]].op != OP_patches)
        return cut + read;
    if (n->op != OP_whole &&
        !(limber_node_has(n, ATTR_axis) && limber_attr_number(n, ATTR_axis) == AXIS_all))
        return cut + read + 50;
    return cut / 4 + read;
}

/* Returns the bytes of memory traffic per element of the result: totals are written and read, and
 * the result is written. */
static double result_bytes(const struct plan *p, const struct node *products,
                           const struct node *combine)
{
    limber_format f = limber_plan_find(p, OP_epilogue)->type.format;
    double total = limber_attr_number(combine, ATTR_reconstruct) == RECONSTRUCT_crt   ? 1 :
                   limber_attr_number(combine, ATTR_reconstruct) == RECONSTRUCT_shift ? 8 :
                                                                                        0;

    return f.size + 2 * total * products->type.count;
}

/* nanoseconds to launch three or four kernels, and to launch one kernel */
enum { LAUNCHES_NS = 15000, LAUNCH_NS = 5000 };
/* number of instructions that fetch and split an element, counted in the code */
enum { CUT_STEPS = 10 };
/* Clocks per instruction of a producer warp.  Each scheduler of a multiprocessor has one such warp,
 * which waits for the results of its own instructions: 7.6 clocks on an H200
 * (docs/measured/gpu-h200.md). */
static const double cut_clocks = 7.6;

/* Returns the bytes of shared memory traffic per multiply-add, if the multiply kernel splits
 * elements into limbs.  Each row of the product table reads limbs once per 64 rows of the tile;
 * elements are written and read; limbs are written. */
static double shared_bytes(const struct plan *p, const struct node *products, struct block_shape s)
{
    const struct type *limb = &p->node[products->in[0]].type;
    double depth = (double)s.bytes / limb->format.size, lines = (double)(s.mb + s.nb);
    double read =
        (double)products->rows * (double)s.mb / 64 * (double)(64 + s.nb) * (double)s.bytes;

    return (read + lines * (8 * depth + limb->count * (double)s.bytes)) /
           ((double)(s.mb * s.nb) * depth);
}

/* Returns the predicted seconds per multiply-add if the multiply kernel splits elements into limbs.
 * product: seconds for the multiplication alone.  Each thread block splits its own elements of A
 * and B.  With warpgroups, producer warps split at the same time, and shared memory delivers 128
 * bytes per clock.  Otherwise the warps that multiply also split. */
static double seconds_with_splitting(const struct plan *p, const struct target *t, double product)
{
    const struct node *products = limber_plan_find(p, OP_products);
    struct block_shape s = shape_of(p, products, t, true);
    double cutting = CUT_STEPS * (1.0 / (double)s.mb + 1.0 / (double)s.nb);
    double lanes = t->rate[UNIT_f32];

    if (limber_cuda_reads_shared((enum unit)limber_attr_number(products, ATTR_unit), t))
        return fmax(product, fmax(cut_clocks * cutting, shared_bytes(p, products, s)) / lanes);
    return product + cutting / lanes;
}

/* Predicts the time of a plan.  Kernels are assumed to reach 0.75 of a unit's peak rate, 0.5 with
 * tensor memory (limited by L2: docs/measured/gpu-estimates.md), and cuBLAS 0.9.  inside: the
 * multiply kernel splits elements into limbs. */
static struct price predict_plan_time(const struct plan *p, const struct target *t, bool inside)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    enum unit u = (enum unit)limber_attr_number(products, ATTR_unit);
    double rate = t->rate[u], kept = limber_cuda_uses_tensor_memory(u, t) ? 0.5 : 0.75, product;

    /* cuBLAS reads operands directly, so nothing is packed */
    if (limber_attr_number(products, ATTR_sums) == SUMS_any)
        return (struct price){ .product = 1 / (0.9 * rate) };
    product = (double)products->rows / (kept * rate);
    if (limber_node_has(products, ATTR_joins)) /* additions to the total, on FP32 lanes */
        product += products->type.count /
                   ((double)limber_attr_number(products, ATTR_chunk) * t->rate[UNIT_f32]);
    return (struct price){
        .product = inside ? seconds_with_splitting(p, t, product) : product,
        .a = operand_bytes(p, products->in[0], inside) / t->bandwidth,
        .b = operand_bytes(p, products->in[1], inside) / t->bandwidth,
        .result = result_bytes(p, products, combine) / t->bandwidth,
        .call = 1e-9 * (inside ? LAUNCH_NS : LAUNCHES_NS),
        .skips = p->roundings && limber_cuda_reads_shared(u, t),
    };
}

/* Returns the predicted seconds of a product of the size at which schemes are compared. */
static double total_seconds(const struct plan *p, const struct price *price)
{
    double k = ldexp(1, p->kbits > 16 ? 16 : p->kbits), n = ldexp(1, p->size ? p->size : 10);

    return limber_price(price, n, n, k, 1);
}

/* Predicts the plan's time with limbs made by a separate kernel, and by the multiply kernel, as far
 * as the caller allows each.  Returns the better prediction.  *inside: set to true if that is the
 * multiply kernel. */
static struct price best_price(const struct plan *p, const struct target *t, bool *inside)
{
    struct price ahead = predict_plan_time(p, t, false), within = { .product = INFINITY };
    struct diag ignored = { 0 };

    if (p->split != LIMBER_SPLIT_AHEAD && can_split_inside(p, t, &ignored))
        within = predict_plan_time(p, t, true);
    *inside =
        p->split == LIMBER_SPLIT_INSIDE || total_seconds(p, &within) < total_seconds(p, &ahead);
    return *inside ? within : ahead;
}

/* ---- the attribute tile ---------------------------------------------------------------------- */

/* Sets the tile of a plan for a simulated unit.  A pipeline stage holds complete blocks of the unit
 * along k, and the exponents of their elements if blocks are fused sums. */
static bool tile_model(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    static const int64_t sides[][2] = { { 64, 64 }, { 32, 32 }, { 16, 32 } };
    const limber_unit *u = p->model;
    int64_t slots = 32, stages = 0, held = u->block > 1 && !u->tree ? 2 : 1, one, i;

    while (slots < u->block)
        slots *= 2;
    for (i = 0; i < (int64_t)COUNT(sides); i++) {
        one = 4 * slots * held * (sides[i][0] + sides[i][1]);
        stages = (t->shared - 1024) / one;
        if (stages >= 2)
            break;
    }
    i -= i == (int64_t)COUNT(sides);
    if (stages > 3) /* with fewer stages, two thread blocks fit on a multiprocessor */
        stages = (t->shared / 2 - 1024) / one > 2 ? (t->shared / 2 - 1024) / one : 2;
    stages = stages > 3 ? 3 : stages;
    return (stages > 0 || limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                                      "the unit's block does not fit the "
                                      "memory that threads share")) &&
           (limber_node_list(p, n, ATTR_tile,
                             (int64_t[]){ 16, 32, stages, sides[i][0], sides[i][1], slots }, 6) ||
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory"));
}

/* Sets the tile of a plan for block-scaled instructions.  A pipeline stage holds 128 bytes along k
 * and their scales. */
static bool tile_block_scaled(struct plan *p, struct node *n, const struct target *t,
                              struct diag *d)
{
    bool bytes = limber_unit_block_scaled(p->model) == BLOCK_SCALED_mxf8f6f4;
    bool columns = limber_target_has(t, "tcgen05");
    int64_t mb = columns || p->size != SMALL_SIZE ? 128 : 64, nb = columns ? 128 : 64;
    int64_t mr = columns ? 64 : 32, nr = columns ? nb : 32, step = bytes ? 128 : 256;
    int64_t stages = (t->shared - 1024) / ((128 + step / p->model->scale_block) * (mb + nb));

    if (stages < 2)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "two stages do not fit the %lld bytes",
                           (long long)t->shared);
    return limber_node_list(p, n, ATTR_tile,
                            (int64_t[]){ mr, nr, stages > 4 ? 4 : stages, mb, nb, step }, 6) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
}

/* Sets the attribute `tile` of products that are neither simulated nor block-scaled, and the
 * attribute `split`, which says whether a separate kernel or the multiply kernel makes limbs. */
static bool tile_blocks(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    const struct node *a = &p->node[n->in[0]];
    bool side_by_side = limber_attr_number(limber_plan_find(p, OP_combine), ATTR_reconstruct) ==
                        RECONSTRUCT_sum,
         inside;
    struct block_shape s = shape_of(p, n, t, side_by_side);
    int64_t stages;

    best_price(p, t, &inside);
    if (inside && !can_split_inside(p, t, d))
        return false;
    stages = stages_of(p, t, inside);
    if (stages < 2)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "two stages of %lld bytes a line do not fit the "
                           "%lld that threads share",
                           (long long)s.bytes, (long long)t->shared);
    if (inside)
        limber_node_set(n, ATTR_split, SPLIT_inside);
    return limber_node_list(
               p, n, ATTR_tile,
               (int64_t[]){ s.mr, s.nr, stages, s.mb, s.nb, s.bytes / a->type.format.size }, 6) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
}

/* Implements block_rules.tile: sets the attribute `tile` of the plan's products. */
static bool tile(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    if (limber_attr_number(n, ATTR_unit) != UNIT_model)
        return tile_blocks(p, n, t, d);
    return limber_attr_number(n, ATTR_sums) == SUMS_fma ? tile_model(p, n, t, d) :
                                                          tile_block_scaled(p, n, t, d);
}

/* Implements block_rules.price: predicts the time of a plan. */
static struct price price_of(const struct plan *p, const struct target *t)
{
    bool inside;

    return best_price(p, t, &inside);
}

const struct block_rules limber_cuda_blocks = { tile, can_split_inside, price_of };
