/* SPDX-License-Identifier: BSD-3-Clause
 * How a GPU's threads share a product: the tiles of blocks and warps, and what a plan costs. */
#include "backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

/* ---- blocks of threads ----------------------------------------------------------------------- */

/* Of a warp, of a block, and the bytes of a line in one stage. */
struct block_shape {
    int64_t mr, nr, mb, nb, bytes;
};

/* side_by_side: a stage holds all limbs.  Registers hold the sums and, of floats, the promoted
 * ones; memory all limbs of a stage where rows go side by side.  A warpgroup has 64 lines. */
static struct block_shape large_shape(const struct node *n, const struct target *t,
                                      bool side_by_side)
{
    enum unit u = (enum unit)limber_num(n, ATTR_unit);

    if (limber_cuda_by_tiles(u, t))
        return u == UNIT_i8 ? (struct block_shape){ 64, 256, 128, 256, 128 } :
                              (struct block_shape){ 64, 128, 128, 128, 128 };
    if (limber_cuda_on_cores(u) && limber_target_has(t, "mma"))
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

/* Of a small C large blocks would be few, and filled little; where limbs go side by side they may
 * be made inside, by as many warps as large blocks have. */
static struct block_shape shape_of(const struct plan *p, const struct node *n,
                                   const struct target *t, bool side_by_side)
{
    struct block_shape s = large_shape(n, t, side_by_side);
    enum unit u = (enum unit)limber_num(n, ATTR_unit);
    bool tensor = limber_cuda_on_cores(u), groups = limber_cuda_by_tiles(u, t);

    if (p->size != SMALL_SIZE || (side_by_side && tensor))
        return s;
    s.nb = 64;
    if (groups) {
        s.nr = 64;
    } else {
        s.mb = 64;
        s.mr = 32;
        s.nr = tensor && limber_target_has(t, "mma") ? 32 : s.nr; /* lanes have their own */
    }
    return s;
}

/* Stages of the ring that the shared memory holds, of limbs, or of elements beside two stages of
 * limbs; fewer than 2: it does not do.  Barriers and alignment take a kilobyte.  Elements for
 * warpgroups come 128 lines by 32 at once. */
static int64_t stages_of(const struct plan *p, const struct target *t, bool inside)
{
    const struct node *n = limber_plan_find(p, OP_products);
    const struct node *a = &p->node[n->in[0]], *b = &p->node[n->in[1]];
    bool side_by_side =
        limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum;
    struct block_shape s = shape_of(p, n, t, side_by_side);
    int64_t lines = side_by_side ? a->type.count * s.mb + b->type.count * s.nb : s.mb + s.nb;
    int64_t window = limber_plan_find(p, OP_patches) ? WINDOW_LINE * s.nb : 0;
    int64_t available = t->shared - 1024 - window, limbs = lines * s.bytes, stages, raw;
    bool groups = limber_cuda_by_tiles((enum unit)limber_num(n, ATTR_unit), t);

    if (inside) {
        raw = 4 * (groups ? 128 * 32 : s.bytes / a->type.format.size * (s.mb + s.nb));
        stages = (available - 2 * limbs) / raw;
        return stages > (groups ? 6 : 3) ? (groups ? 6 : 3) : stages;
    }
    stages = available / limbs > 4 ? 4 : available / limbs;
    if (limber_num(n, ATTR_unit) == UNIT_f16 && !limber_target_has(t, "mma"))
        return stages < 2 ? stages : 2; /* copies are not asynchronous there, and sums need room
                                           to leave */
    return stages;
}

/* ---- where limbs are made -------------------------------------------------------------------- */

static bool splits_inside(const struct plan *p, const struct target *t, struct diag *d)
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

/* Bytes that kernels move for an element.  Ahead: operands are read and limbs written, limbs are
 * read by the products about eight times over; inside, the operands are. */
static double operand_bytes(const struct plan *p, int limbs, bool inside)
{
    const struct node *n = &p->node[limbs];
    double size = limber_source(p, limbs)->type.format.size;

    return inside ? 8 * size : size + 9.0 * n->type.count * n->type.format.size;
}

/* Totals are written and read, the result is written. */
static double result_bytes(const struct plan *p, const struct node *products,
                           const struct node *combine)
{
    limber_format f = limber_plan_find(p, OP_epilogue)->type.format;
    double total = limber_num(combine, ATTR_reconstruct) == RECONSTRUCT_crt   ? 1 :
                   limber_num(combine, ATTR_reconstruct) == RECONSTRUCT_shift ? 8 :
                                                                                0;

    return f.size + 2 * total * products->type.count;
}

enum { LAUNCHES_NS = 15000, LAUNCH_NS = 5000 }; /* of three or four kernels, of one */
enum { CUT_STEPS = 10 }; /* instructions that fetch and cut an element, counted */

/* Bytes of shared memory a multiply-add: limbs are read for every row by groups of 64 lines,
 * elements written and read, limbs written. */
static double shared_bytes(const struct plan *p, const struct node *products, struct block_shape s)
{
    const struct type *limb = &p->node[products->in[0]].type;
    double depth = (double)s.bytes / limb->format.size, lines = (double)(s.mb + s.nb);
    double read =
        (double)products->rows * (double)s.mb / 64 * (double)(64 + s.nb) * (double)s.bytes;

    return (read + lines * (8 * depth + limb->count * (double)s.bytes)) /
           ((double)(s.mb * s.nb) * depth);
}

/* Seconds of a multiply-add, of which the product takes `product`.  Every tile cuts its elements of
 * A and of B itself: beside warpgroups a group that does nothing else and issues every other clock,
 * while shared memory gives 128 bytes a clock, one a lane; elsewhere the warps that multiply. */
static double with_cutting(const struct plan *p, const struct target *t, double product)
{
    const struct node *products = limber_plan_find(p, OP_products);
    struct block_shape s = shape_of(p, products, t, true);
    double cutting = CUT_STEPS * (1.0 / (double)s.mb + 1.0 / (double)s.nb);
    double lanes = t->rate[UNIT_f32];

    if (limber_cuda_by_tiles((enum unit)limber_num(products, ATTR_unit), t))
        return fmax(product, fmax(2 * cutting, shared_bytes(p, products, s)) / lanes);
    return product + cutting / lanes;
}

/* Of a unit's peak our kernels are expected to keep 0.75, half where products go to tensor memory
 * (L2 limits them: docs/measured/gpu-estimates.md), NVIDIA's 0.9. */
static struct price price(const struct plan *p, const struct target *t, bool inside)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    enum unit u = (enum unit)limber_num(products, ATTR_unit);
    double rate = t->rate[u], kept = limber_cuda_into_columns(u, t) ? 0.5 : 0.75, product;

    if (limber_num(products, ATTR_sums) == SUMS_any) /* cuBLAS reads operands as they lie */
        return (struct price){ .product = 1 / (0.9 * rate) };
    product = (double)products->rows / (kept * rate);
    return (struct price){
        .product = inside ? with_cutting(p, t, product) : product,
        .a = operand_bytes(p, products->in[0], inside) / t->bandwidth,
        .b = operand_bytes(p, products->in[1], inside) / t->bandwidth,
        .result = result_bytes(p, products, combine) / t->bandwidth,
        .call = 1e-9 * (inside ? LAUNCH_NS : LAUNCHES_NS),
        .skips = p->roundings && limber_cuda_by_tiles(u, t),
    };
}

/* At the size for which schemes are compared. */
static double seconds(const struct plan *p, const struct price *price)
{
    double k = ldexp(1, p->kbits > 16 ? 16 : p->kbits), n = ldexp(1, p->size ? p->size : 10);

    return limber_price(price, n, n, k, 1);
}

/* Limbs are made ahead or inside, as the caller allows: whichever is faster at the plan's size. */
static struct price best_price(const struct plan *p, const struct target *t, bool *inside)
{
    struct price ahead = price(p, t, false), within = { .product = INFINITY };
    struct diag ignored = { 0 };

    if (p->split != LIMBER_SPLIT_AHEAD && splits_inside(p, t, &ignored))
        within = price(p, t, true);
    *inside = p->split == LIMBER_SPLIT_INSIDE || seconds(p, &within) < seconds(p, &ahead);
    return *inside ? within : ahead;
}

/* ---- the attribute tile ---------------------------------------------------------------------- */

/* A simulated unit's blocks of k lie whole in a stage, with exponents where they are fused. */
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
    if (stages > 3) /* two blocks of threads share a multiprocessor */
        stages = (t->shared / 2 - 1024) / one > 2 ? (t->shared / 2 - 1024) / one : 2;
    stages = stages > 3 ? 3 : stages;
    return (stages > 0 || limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                                      "the unit's block does not fit the "
                                      "memory that threads share")) &&
           (limber_node_list(p, n, ATTR_tile,
                             (int64_t[]){ 16, 32, stages, sides[i][0], sides[i][1], slots }, 6) ||
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory"));
}

/* Steps of 128 bytes, with the scales beside them, by warps or into tensor memory. */
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

static bool tile_blocks(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    const struct node *a = &p->node[n->in[0]];
    bool side_by_side =
             limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum,
         inside;
    struct block_shape s = shape_of(p, n, t, side_by_side);
    int64_t stages;

    best_price(p, t, &inside);
    if (inside && !splits_inside(p, t, d))
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

static bool tile(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    if (limber_num(n, ATTR_unit) != UNIT_model)
        return tile_blocks(p, n, t, d);
    return limber_num(n, ATTR_sums) == SUMS_fma ? tile_model(p, n, t, d) :
                                                  tile_block_scaled(p, n, t, d);
}

static struct price price_of(const struct plan *p, const struct target *t)
{
    bool inside;

    return best_price(p, t, &inside);
}

const struct block_rules limber_cuda_blocks = { tile, splits_inside, price_of };
