/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `tile`: register tiles and cache blocks for the target.
 *
 *   needs   a product table
 *   leaves  products.tile = mr, nr, group, mb, nb, kc: the register tile is mr x nr; a panel of B
 *           (nr x kc) stays in L1 or close to it; a block of A (mb x kc) stays in a quarter of L2;
 *           `group` elements along k are packed next to each other.  kc divides the chunk, so
 *           chains end with chunks.  On a GPU a warp has mr x nr, a thread block mb x nb, and its
 *           shared memory is a ring of `group` stages of kc elements.  products.split = inside
 *           if the kernel that multiplies limbs also makes them
 *   tells   limber_traffic: the bytes that a tile moves beyond L2
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008); Van Zee and van de Geijn, TOMS 41 (2015) */
#include "passes/passes.h"

#include <math.h>
#include <string.h>

/* Largest number of rows of a block of A, for floats.  More rows fit into L2 but are slower: FP64
 * reached 68 GFLOPS with 240 rows and 76 with 48 to 96 on a Xeon with 2 MiB of L2, the only CPU on
 * which this was measured. */
enum { FLOAT_ROWS = 84 };

/* Smallest number of columns of a block that are combined at once; blocks are multiples of it. */
enum { COMBINED = 16 };

static int64_t at_least(int64_t x, int64_t least)
{
    return x > least ? x : least;
}

static int64_t round_down(int64_t x, int64_t step)
{
    return x / step * step;
}

/* Returns the unit whose rate the products have. */
static enum unit rated_unit(const struct node *products)
{
    return limber_rated_unit(limber_attr_number(products, ATTR_unit));
}

/* Finds the bytes of a packed element, the accumulators per vector register (*lanes), and the
 * number of elements along k that one instruction sums (*group). */
static void element_shape(const struct node *n, const struct target *t, int64_t *bytes,
                          int64_t *lanes, int64_t *group)
{
    enum unit u = rated_unit(n);
    int64_t vector = t->vector_bits >= 128 ? t->vector_bits / 8 : 16;

    *bytes = u == UNIT_f64 ? 8 : u != UNIT_i8 ? 4 : t->group < 4 ? 4 / t->group : 1;
    *lanes = vector / (u == UNIT_f64 ? 8 : 4);
    *group = u == UNIT_i8 ? t->group : 1;
}

/* Sets *mr, *mb and *nb to the target's measured tile, if there is one.  Fails if the tile is
 * invalid: more than 16 rows, or a block that is not a multiple of the register tile. */
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

/* Chooses the sizes of register tiles, blocks and panels for the target, by measured values
 * where there are any. */
bool limber_pass_tile(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *n = limber_plan_find(p, OP_products);
    int64_t bytes, lanes, group, mr, nr, kc, mb, nb, chunk, most;

    if (!n || limber_attr_number(n, ATTR_unit) == UNIT_exact)
        return true;
    if (t->blocks)
        return t->blocks->tile(p, n, t, d);
    if (t->group < 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: group = %d", t->group);
    element_shape(n, t, &bytes, &lanes, &group);
    mr = t->registers >= 32 ? 12 : 6;
    if (group == 8 && t->vector_bits > 128)
        mr = 8; /* with 12 rows LLVM spills SVE accumulators */
    nr = 2 * lanes;
    /* outer products use all of ZA: 2 x 4 tiles of doubles, 2 x 2 of words */
    if (limber_target_is_outer(t)) {
        int64_t vector = limber_target_has(t, "sme256") ? 32 : 64;

        mr = 2 * vector / (bytes == 8 ? 8 : 4);
        nr = bytes == 8 ? 4 * vector / 8 : mr;
    }
    if (limber_attr_number(n, ATTR_unit) == UNIT_model) {
        /* simulating one multiply-add takes a dozen operations, so the kernel works on accumulators
         * of four rows by two vectors of 64 bytes at a time */
        mr = 12;
        nr = 32;
        if (!limber_node_list(
                p, n, ATTR_tile,
                (int64_t[]){ mr, nr, 1, 5 * mr, 256, limber_attr_number(n, ATTR_chunk) }, 6))
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
        return true;
    }
    if (rated_unit(n) == UNIT_i8 && t->matrix)
        mr = nr = 2 * t->matrix;
    chunk = limber_attr_number(n, ATTR_chunk);
    /* a matrix unit is so fast that L2 can supply only A, so the panel of B must fit into L1 */
    most = rated_unit(n) == UNIT_i8 && t->matrix ? t->l1 / 2 : t->l1 * 3 / 2;
    if (limber_attr_number(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_sum ||
        chunk < 64)
        kc = chunk; /* totals in floats are updated once per chunk */
    else /* parts of a partitioned product skip tiles along k, so kc is at most 256 */
        for (kc = 64; kc * 2 <= (p->roundings && chunk > 256 ? 256 : chunk) &&
                      chunk % (kc * 2) == 0 && kc * 2 * nr * bytes <= most;)
            kc *= 2;
    mb = round_down(at_least(t->l2 / 4 / (kc * bytes), mr), mr);
    mb = mb > 20 * mr ? 20 * mr : mb;
    if (rated_unit(n) != UNIT_i8)
        mb = mb > FLOAT_ROWS ? round_down(FLOAT_ROWS, mr) : mb;
    /* smaller blocks leave room in the cache for the totals */
    else if (n->type.count > 8 || most < t->l1)
        mb = mb > 10 * mr ? 10 * mr : mb;
    nb = at_least(256 / nr, 1) * nr;
    if (!apply_measured_tile(n, t, nr, &mr, &mb, &nb, d))
        return false;
    if (!limber_node_list(p, n, ATTR_tile, (int64_t[]){ mr, nr, group, mb, nb, kc }, 6))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "tile: out of memory");
    return true;
}

/* ---- memory traffic of a blocking ------------------------------------------------------------ */

/* How a product with m = n = k = size is blocked. */
struct block {
    double size, rows; /* m = n = k; rows of the product table */
    /* in elements: nr columns of a register tile, mb rows and nb columns of a block, kc elements
     * along k of a packed block, and `chunk` of an exact chain */
    double nr, mb, nb, kc, chunk;
    double limbs[2], bytes; /* number of limbs of A and of B; bytes of an element of a limb */
    /* bytes per element: of a sum in a register tile, and of an accumulator's total */
    double sum, total;
    double totals; /* number of accumulators with a total of their own; 0 if sums are the totals */
    /* a matrix unit finishes the chains of a whole column of register tiles before it adds them
     * to totals */
    bool columns;
};

/* Returns how the plan's tile blocks a product with m = n = k = size. */
static struct block block_of(const struct plan *p, const struct node *n, const struct target *t,
                             double size)
{
    const int64_t *tile = limber_attr_list(n, ATTR_tile)->v;
    int64_t how = limber_attr_number(limber_plan_find(p, OP_combine), ATTR_reconstruct);
    bool single = n->rows == 1 && size <= (double)limber_attr_number(n, ATTR_chunk);
    int64_t bytes, lanes, group;

    element_shape(n, t, &bytes, &lanes, &group);
    return (struct block){
        .size = size,
        .rows = (double)n->rows,
        .nr = (double)tile[1],
        .mb = fmin((double)tile[3], size),
        .nb = fmin((double)tile[4], size),
        .kc = fmin((double)tile[5], size),
        .chunk = (double)limber_attr_number(n, ATTR_chunk),
        .limbs = { p->node[n->in[0]].type.count, p->node[n->in[1]].type.count },
        .bytes = (double)bytes,
        .sum = limber_attr_number(n, ATTR_unit) == UNIT_f64 ? 8 : 4,
        .total = how != RECONSTRUCT_crt                       ? 8 :
                 limber_attr_number(n, ATTR_unit) == UNIT_i16 ? 2 :
                                                                1,
        .totals = how == RECONSTRUCT_sum || single ? 0 : n->type.count,
        .columns = rated_unit(n) == UNIT_i8 && t->matrix && n->rows > 1,
    };
}

/* Returns the bytes moved per multiply-add.  Each term counts bytes per element of A, B or C; there
 * are n^2 elements for n^3 multiply-adds.  A store counts twice, because its cache line is fetched
 * and later written back.  Data that is reused is fetched again if more data than the cache holds
 * is used in between. operands, result: bytes of an element of A and B, of C. */
static double block_traffic(const struct block *b, double operands, double result, double l2)
{
    double limbs = b->limbs[0] + b->limbs[1], of_c = b->mb * b->nb;
    double used = (b->limbs[0] * b->mb + b->limbs[1] * b->nb) * b->size * b->bytes +
                  b->totals * b->total * of_c;
    double step = (b->mb + b->nb) * b->kc * b->bytes + of_c * b->sum;
    /* number of elements of A along k after which B is read again from beyond L2 */
    double run = b->columns ? fmin(b->chunk, b->size) : b->kc;
    double each_a = ceil(b->size / b->nb), each_b = ceil(b->size / b->mb);
    double moved = operands + 2 * result;

    if (limbs * b->size * b->size * b->bytes > l2) {
        moved += 2 * limbs * b->bytes; /* packed limbs are stored */
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

/* Predicts the memory traffic of a plan, after all passes, between L2 and the memory beyond, at
 * m = n = k = size on one core.  Zeros if the plan has no cache blocks of a CPU. */
struct traffic limber_traffic(const struct plan *p, const struct target *t, double size)
{
    const struct node *n = limber_plan_find(p, OP_products);
    struct traffic x = { 0 };
    struct block b;
    int operands;

    if (!n || !n->rows || !limber_node_has(n, ATTR_tile) || !limber_plan_find(p, OP_combine) ||
        limber_attr_number(n, ATTR_unit) == UNIT_model || limber_is_device(t) || t->group < 1)
        return x;
    b = block_of(p, n, t, size);
    operands =
        limber_source(p, n->in[0])->type.format.size + limber_source(p, n->in[1])->type.format.size;
    x.bytes = block_traffic(&b, operands, p->node[p->ret].type.format.size, (double)t->l2);
    x.rate = x.bytes * t->rate[rated_unit(n)] / b.rows;
    return x;
}
