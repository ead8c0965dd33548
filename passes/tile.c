/* SPDX-License-Identifier: BSD-3-Clause
 * Register tiles and cache blocks, from the target.
 *
 *   needs   a product table
 *   leaves  products.tile = mr, nr, group, mb, nb, kc: the register tile is mr x nr, a panel of B
 *           (nr x kc) comes from L1 or next to it, a block of A (mb x kc) stays in a quarter
 *           of L2; group elements along k lie together.  kc divides the chunk: chains end with
 * chunks. On a machine whose threads share memory in blocks: a warp has mr x nr, a block mb x nb,
 *           its memory a ring of `group` stages of kc elements.  products.split = inside where
 *           limbs are made by the kernel that multiplies them.
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008); Van Zee and van de Geijn, TOMS 41 (2015) */
#include "passes/device.h"
#include "passes/passes.h"

static int64_t at_least(int64_t x, int64_t least)
{
    return x > least ? x : least;
}

static int64_t round_down(int64_t x, int64_t step)
{
    return x / step * step;
}

/* Bytes of a packed element, and elements that one vector register accumulates. */
static void shape(const struct node *n, const struct target *t, int64_t *bytes, int64_t *lanes,
                  int64_t *group)
{
    enum unit u = (enum unit)limber_num(n, ATTR_unit);
    int64_t vector = t->vector_bits >= 128 ? t->vector_bits / 8 : 16;

    *bytes = u == UNIT_f64 ? 8 : u == UNIT_i8 ? 4 / t->group : 4;
    *lanes = vector / (u == UNIT_f64 ? 8 : 4);
    *group = u == UNIT_i8 ? t->group : 1;
}

/* What was measured, where it is legal: a register tile of at most 16 rows, blocks of whole tiles.
 */
static bool measured(const struct node *n, const struct target *t, int64_t nr, int64_t *mr,
                     int64_t *mb, int64_t *nb, struct diag *d)
{
    enum unit u = (enum unit)limber_num(n, ATTR_unit);
    const int *tile = t->tile[u];

    if (!tile[0] || (u == UNIT_i8 && t->matrix))
        return true;
    if (tile[0] > 16 || tile[1] % tile[0] || tile[2] % nr)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "target: tile.%s=%d,%d,%d: at most 16 rows, "
                           "blocks are multiples of them and of %d columns",
                           limber_units[u].name, tile[0], tile[1], tile[2], (int)nr);
    *mr = tile[0];
    *mb = n->type.count > 8 && tile[1] > 10 * *mr ? 10 * *mr : tile[1];
    *nb = tile[2];
    return true;
}

/* ---- blocks of threads ----------------------------------------------------------------------- */

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
        stages = at_least((t->shared / 2 - 1024) / one, 2);
    stages = stages > 3 ? 3 : stages;
    return (stages > 0 || limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                                      "the unit's block does not fit the "
                                      "memory that threads share")) &&
           (limber_node_list(p, n, ATTR_tile,
                             (int64_t[]){ 16, 32, stages, sides[i][0], sides[i][1], slots }, 6) ||
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory"));
}

static bool tile_blocks(struct plan *p, struct node *n, const struct target *t, struct diag *d)
{
    const struct node *a = &p->node[n->in[0]];
    bool side_by_side =
             limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum,
         inside;
    struct block_shape s = limber_block_shape(n, t, side_by_side);
    int64_t stages;

    limber_device_price(p, t, &inside);
    if (inside && !limber_can_split_inside(p, t, d))
        return false;
    stages = limber_block_stages(p, t, inside);
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

bool limber_pass_tile(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *n = limber_plan_find(p, OP_products);
    int64_t bytes, lanes, group, mr, nr, kc, mb, nb, chunk;

    if (!n || limber_num(n, ATTR_unit) == UNIT_exact)
        return true;
    if (t->shared && limber_num(n, ATTR_unit) == UNIT_model)
        return tile_model(p, n, t, d);
    if (t->shared)
        return tile_blocks(p, n, t, d);
    if (t->group < 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: group = %d", t->group);
    shape(n, t, &bytes, &lanes, &group);
    mr = t->registers >= 32 ? 12 : 6;
    nr = 2 * lanes;
    if (limber_num(n, ATTR_unit) == UNIT_model) {
        /* every step is a dozen operations: accumulators of four rows, in two vectors of 64 bytes,
         * at a time */
        mr = 12;
        nr = 32;
        if (!limber_node_list(p, n, ATTR_tile,
                              (int64_t[]){ mr, nr, 1, 5 * mr, 256, limber_num(n, ATTR_chunk) }, 6))
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
        return true;
    }
    if (limber_num(n, ATTR_unit) == UNIT_i8 && t->matrix)
        mr = nr = 2 * t->matrix;
    chunk = limber_num(n, ATTR_chunk);
    if (limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum ||
        chunk < 64)
        kc = chunk; /* float totals are added once a chunk */
    else /* a part's tiles are left out block by block */
        for (kc = 64; kc * 2 <= (p->roundings && chunk > 256 ? 256 : chunk) &&
                      chunk % (kc * 2) == 0 && kc * 2 * nr * bytes <= t->l1 * 3 / 2;)
            kc *= 2;
    mb = round_down(at_least(t->l2 / 4 / (kc * bytes), mr), mr);
    mb = mb > 20 * mr ? 20 * mr : mb;
    if (n->type.count > 8) /* the totals of a block stay at hand too */
        mb = mb > 10 * mr ? 10 * mr : mb;
    nb = at_least(256 / nr, 1) * nr;
    if (!measured(n, t, nr, &mr, &mb, &nb, d))
        return false;
    if (!limber_node_list(p, n, ATTR_tile, (int64_t[]){ mr, nr, group, mb, nb, kc }, 6))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
    return true;
}
