/* SPDX-License-Identifier: BSD-3-Clause
 * Register tiles and cache blocks, from the target.
 *
 *   needs   a product table
 *   leaves  products.tile = mr, nr, group, mb, nb, kc: the register tile is mr x nr, a panel of B
 *           (nr x kc) comes from L1 or next to it, a block of A (mb x kc) stays in a quarter
 *           of L2; group elements along k lie together.  kc divides the chunk: chains end with
 *           chunks.  On a GPU: a warp has mr x nr, a block mb x nb,
 *           its memory a ring of `group` stages of kc elements.  products.split = inside where
 *           limbs are made by the kernel that multiplies them.
 *   tells   limber_traffic: the bytes that a tile moves beyond L2
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008); Van Zee and van de Geijn, TOMS 41 (2015) */
#include "passes/passes.h"

#include <math.h>
#include <string.h>

/* The most rows of a block of floats.  More fit L2, but are slower: FP64 reached 68 GFLOPS with 240
 * rows and 76 with 48 to 96 on a Xeon with 2 MiB of L2, the only CPU on which this has been
 * measured. */
enum { FLOAT_ROWS = 84 };

/* Columns of a block that are combined at once if a register tile has fewer. */
enum { COMBINED = 16 };

static int64_t at_least(int64_t x, int64_t least)
{
    return x > least ? x : least;
}

static int64_t round_down(int64_t x, int64_t step)
{
    return x / step * step;
}

static enum unit rated_unit(const struct node *products)
{
    return limber_rated_unit(limber_num(products, ATTR_unit));
}

/* Bytes of a packed element, accumulators per vector register, and elements summed at once along k.
 */
static void element_shape(const struct node *n, const struct target *t, int64_t *bytes,
                          int64_t *lanes, int64_t *group)
{
    enum unit u = rated_unit(n);
    int64_t vector = t->vector_bits >= 128 ? t->vector_bits / 8 : 16;

    *bytes = u == UNIT_f64 ? 8 : u != UNIT_i8 ? 4 : t->group < 4 ? 4 / t->group : 1;
    *lanes = vector / (u == UNIT_f64 ? 8 : 4);
    *group = u == UNIT_i8 ? t->group : 1;
}

/* Takes the target's measured tile if it is legal: at most 16 rows, whole register tiles per block.
 */
static bool apply_measured_tile(const struct node *n, const struct target *t, int64_t nr,
                                int64_t *mr, int64_t *mb, int64_t *nb, struct diag *d)
{
    enum unit u = rated_unit(n);
    const int *tile = t->tile[u];
    int64_t step = at_least(nr, COMBINED);

    if (!tile[0] || (u == UNIT_i8 && t->matrix))
        return true;
    if (u == UNIT_i8 && t->group == 8 && tile[0] % 2)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "target: tile.%s=%d,%d,%d: an even number of rows, of which two share "
                           "an accumulator",
                           limber_units[u].name, tile[0], tile[1], tile[2]);
    if (tile[0] > 16 || tile[1] % tile[0] || tile[2] % step)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "target: tile.%s=%d,%d,%d: at most 16 rows, "
                           "blocks are multiples of them and of %d columns",
                           limber_units[u].name, tile[0], tile[1], tile[2], (int)step);
    if (limber_target_is_outer(t))
        return true;
    *mr = tile[0];
    *mb = n->type.count > 8 && tile[1] > 10 * *mr ? 10 * *mr : tile[1];
    *nb = tile[2];
    return true;
}

bool limber_pass_tile(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *n = limber_plan_find(p, OP_products);
    int64_t bytes, lanes, group, mr, nr, kc, mb, nb, chunk, most;

    if (!n || limber_num(n, ATTR_unit) == UNIT_exact)
        return true;
    if (t->blocks)
        return t->blocks->tile(p, n, t, d);
    if (t->group < 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: group = %d", t->group);
    element_shape(n, t, &bytes, &lanes, &group);
    mr = t->registers >= 32 ? 12 : 6;
    if (group == 8 && t->vector_bits > 128)
        mr = 8; /* with 12, LLVM spills accumulators of SVE */
    nr = 2 * lanes;
    if (limber_target_is_outer(t)) { /* all of ZA: 2 x 4 tiles of doubles, 2 x 2 of 32-bit words */
        int64_t vector = limber_target_has(t, "sme256") ? 32 : 64;

        mr = 2 * vector / (bytes == 8 ? 8 : 4);
        nr = bytes == 8 ? 4 * vector / 8 : mr;
    }
    if (limber_num(n, ATTR_unit) == UNIT_model) {
        /* a step takes a dozen operations: the kernel works on accumulators of four rows by two
         * vectors of 64 bytes at a time */
        mr = 12;
        nr = 32;
        if (!limber_node_list(p, n, ATTR_tile,
                              (int64_t[]){ mr, nr, 1, 5 * mr, 256, limber_num(n, ATTR_chunk) }, 6))
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
        return true;
    }
    if (rated_unit(n) == UNIT_i8 && t->matrix)
        mr = nr = 2 * t->matrix;
    chunk = limber_num(n, ATTR_chunk);
    /* a matrix unit is faster than L2, which can supply A alone: B's panel must fit L1 */
    most = rated_unit(n) == UNIT_i8 && t->matrix ? t->l1 / 2 : t->l1 * 3 / 2;
    if (limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum ||
        chunk < 64)
        kc = chunk; /* float totals are added once per chunk */
    else /* mixed products leave out tiles along k, so kc stays at most 256 there */
        for (kc = 64; kc * 2 <= (p->roundings && chunk > 256 ? 256 : chunk) &&
                      chunk % (kc * 2) == 0 && kc * 2 * nr * bytes <= most;)
            kc *= 2;
    mb = round_down(at_least(t->l2 / 4 / (kc * bytes), mr), mr);
    mb = mb > 20 * mr ? 20 * mr : mb;
    if (rated_unit(n) != UNIT_i8)
        mb = mb > FLOAT_ROWS ? round_down(FLOAT_ROWS, mr) : mb;
    else if (n->type.count > 8 || most < t->l1) /* leaves cache for the totals of a block */
        mb = mb > 10 * mr ? 10 * mr : mb;
    nb = at_least(256 / nr, 1) * nr;
    if (!apply_measured_tile(n, t, nr, &mr, &mb, &nb, d))
        return false;
    if (!limber_node_list(p, n, ATTR_tile, (int64_t[]){ mr, nr, group, mb, nb, kc }, 6))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
    return true;
}

/* ---- memory traffic of a blocking ------------------------------------------------------------ */

/* A block of C, in a product with m = n = k = size. */
struct block {
    double size, rows; /* m = n = k; rows of the product table */
    double nr, mb, nb, kc, chunk; /* elements: columns of a tile, block, lengths along k */
    double limbs[2], bytes; /* limbs of A and of B; bytes of a limb's element */
    double sum, total; /* bytes of a sum in a register tile, and of an accumulator's total */
    double totals; /* number of accumulators with a separate total; 0: sums are the totals */
    bool columns; /* a matrix unit ends the chains of a column of register tiles together */
};

/* The block of C that the plan's tile makes of a product with m = n = k = size. */
static struct block block_of(const struct plan *p, const struct node *n, const struct target *t,
                             double size)
{
    const int64_t *tile = limber_list(n, ATTR_tile)->v;
    int64_t how = limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct);
    bool single = n->rows == 1 && size <= (double)limber_num(n, ATTR_chunk);
    int64_t bytes, lanes, group;

    element_shape(n, t, &bytes, &lanes, &group);
    return (struct block){
        .size = size,
        .rows = (double)n->rows,
        .nr = (double)tile[1],
        .mb = fmin((double)tile[3], size),
        .nb = fmin((double)tile[4], size),
        .kc = fmin((double)tile[5], size),
        .chunk = (double)limber_num(n, ATTR_chunk),
        .limbs = { p->node[n->in[0]].type.count, p->node[n->in[1]].type.count },
        .bytes = (double)bytes,
        .sum = limber_num(n, ATTR_unit) == UNIT_f64 ? 8 : 4,
        .total = how != RECONSTRUCT_crt               ? 8 :
                 limber_num(n, ATTR_unit) == UNIT_i16 ? 2 :
                                                        1,
        .totals = how == RECONSTRUCT_sum || single ? 0 : n->type.count,
        .columns = rated_unit(n) == UNIT_i8 && t->matrix && n->rows > 1,
    };
}

/* Bytes moved per multiply-add.  Each term counts bytes per element of A, B or C: n^2 elements for
 * n^3 multiply-adds.  A store counts twice, since its cache line is fetched and later written back.
 * Reused data is fetched again if more than the cache holds is used in between. */
static double block_traffic(const struct block *b, double operands, double result, double l2)
{
    double limbs = b->limbs[0] + b->limbs[1], of_c = b->mb * b->nb;
    double used = (b->limbs[0] * b->mb + b->limbs[1] * b->nb) * b->size * b->bytes +
                  b->totals * b->total * of_c;
    double step = (b->mb + b->nb) * b->kc * b->bytes + of_c * b->sum;
    double run = b->columns ? fmin(b->chunk, b->size) : b->kc; /* length of A that B streams past */
    double each_a = ceil(b->size / b->nb), each_b = ceil(b->size / b->mb);
    double moved = operands + 2 * result;

    if (limbs * b->size * b->size * b->bytes > l2) {
        moved += 2 * limbs * b->bytes; /* packing */
        if (b->mb * run * b->bytes > l2)
            each_a *= ceil(b->nb / b->nr);
        if (used <= l2) /* limbs of A stay in L2 for the next block of columns */
            moved += (b->limbs[0] + b->limbs[1] * each_b) * b->bytes;
        else
            moved += b->rows * (each_a + each_b) * b->bytes;
    }
    if (step > l2 && !b->columns)
        moved += 2 * b->sum * (b->rows * ceil(b->size / b->kc) - 1);
    if (used > l2 && b->totals > 0)
        moved += b->total * (2 * b->rows * ceil(b->size / b->chunk) + b->totals);
    return moved / b->size;
}

struct traffic limber_traffic(const struct plan *p, const struct target *t, double size)
{
    const struct node *n = limber_plan_find(p, OP_products);
    struct traffic x = { 0 };
    struct block b;
    int operands;

    if (!n || !n->rows || !limber_node_has(n, ATTR_tile) || !limber_plan_find(p, OP_combine) ||
        limber_num(n, ATTR_unit) == UNIT_model || limber_is_device(t) || t->group < 1)
        return x;
    b = block_of(p, n, t, size);
    operands =
        limber_source(p, n->in[0])->type.format.size + limber_source(p, n->in[1])->type.format.size;
    x.bytes = block_traffic(&b, operands, p->node[p->ret].type.format.size, (double)t->l2);
    x.rate = x.bytes * t->rate[rated_unit(n)] / b.rows;
    return x;
}
