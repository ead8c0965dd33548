/* SPDX-License-Identifier: BSD-3-Clause
 * Loops over k of a simulated unit.  This file is included once for each kind of lanes.  The
 * includer defines
 *
 *   F(name)        the name of a function for these lanes
 *   V, RAND, MASK  vectors of values, of random numbers, of comparison results
 *   ROWS, VECS     number of rows of a tile, and of vectors in a row
 *
 * and, after the include, the functions that are declared here. */

/* A register tile while it is computed. */
struct F(tile) {
    const struct kernel_call *c;
    const char *a, *b;          /* panels of FP32 values: [p][line] */
    const char *ea, *eb;        /* panels of 32-bit exponents: [p][line] */
    RAND element[ROWS][VECS]; /* seeds of the random numbers of each element */
    F(tally) tally;
    int bounded;                /* 1 if overflow and infinities are excluded, or sums are tracked */
    V most;                     /* largest magnitude of the sums, if sums are tracked */
};

/* Returns element p of row r of A, in all lanes. */
FLAT V F(load_a)(const struct F(tile) *t, int64_t p, int r);
/* Returns vector v of row p of B. */
FLAT V F(load_b)(const struct F(tile) *t, int64_t p, int v);
/* Returns a * b, rounded as the unit rounds products.  h: random bits for stochastic rounding. */
FLAT V F(multiply)(struct F(tile) *t, V a, V b, RAND h);
/* Returns acc + x, in the format and rounding of s.  h: random bits for stochastic rounding. */
FLAT V F(add)(struct F(tile) *t, limber_step s, V acc, V x, RAND h);
/* Returns acc + a * b, with the unit's roundings.  h: random bits for stochastic rounding. */
FLAT V F(add_product)(struct F(tile) *t, V acc, V a, V b, RAND h);
/* Adds x, the sum of a group or of a section of k, to `sum`, an outer sum.  Returns the result in
 * the format and rounding of s.  h: random bits for stochastic rounding. */
FLAT V F(outer)(struct F(tile) *t, limber_step s, V sum, V x, RAND h);
/* Adds products [p, p + n) along k to each accumulator.  Products and accumulator are aligned to
 * their largest exponent, and their sum is rounded once. */
FLAT void F(fused)(struct F(tile) *t, V acc[ROWS][VECS], int64_t p, int64_t n);
/* Adds products [p, p + n) along k to each accumulator in two steps: first the products are aligned
 * and summed without the accumulator, then the accumulator is added to that sum. */
FLAT void F(late)(struct F(tile) *t, V acc[ROWS][VECS], int64_t p, int64_t n);

/* Returns random bits number `index` of a stream, for element (r, v).  They are not random if no
 * rounding of the unit is stochastic. */
FLAT RAND F(number)(const struct F(tile) *t, int r, int v, uint32_t stream, uint32_t index)
{
    RAND x = t->element[r][v];

    if (!MODEL.seeded)
        return x;
    return LIMBER_NUMBER(x, stream, index);
}

/* Adds product p to the accumulators, one after another for all elements of the tile. */
FLAT void F(one_by_one)(struct F(tile) *t, V acc[ROWS][VECS], int64_t p)
{
    UNROLL for (int v = 0; v < VECS; v++) {
        V b = F(load_b)(t, p, v);

        UNROLL for (int r = 0; r < ROWS; r++) {
            RAND h = F(number)(t, r, v, 0, (uint32_t)p);
            V a = F(load_a)(t, p, r);

            if (MODEL.mul.format.kind)
                acc[r][v] = F(add)(t, MODEL.acc, acc[r][v], F(multiply)(t, a, b, h), h);
            else
                acc[r][v] = F(add_product)(t, acc[r][v], a, b, h);
        }
    }
}

/* Adds a block of n products, from p on, to the accumulators as a balanced tree. */
FLAT void F(tree)(struct F(tile) *t, V acc[ROWS][VECS], int64_t p, int64_t n)
{
    RAND none = t->element[0][0];

    ROLL for (int r = 0; r < ROWS; r++)
        ROLL for (int v = 0; v < VECS; v++) {
            V x[64];

            ROLL for (int q = 0; q < MODEL.block; q++) {
                if (q >= n) {
                    x[q] = x[0] - x[0];
                    x[q] = (V)((MASK)x[q] & 0);
                } else {
                    x[q] = F(multiply)(t, F(load_a)(t, p + q, r), F(load_b)(t, p + q, v), none);
                }
            }
            ROLL for (int width = MODEL.block / 2; width > 0; width /= 2)
                ROLL for (int q = 0; q < width; q++)
                    x[q] = F(add)(t, MODEL.acc, x[2 * q], x[2 * q + 1], none);
            acc[r][v] = F(add)(t, MODEL.acc, acc[r][v], x[0], none);
        }
}

/* Adds products [from, to) to the accumulators, block by block. */
FLAT void F(chain)(struct F(tile) *t, V acc[ROWS][VECS], int64_t from, int64_t to)
{
    ROLL for (int64_t p = from; p < to; p += MODEL.block) {
        if (MODEL.tree)
            F(tree)(t, acc, p, min64(MODEL.block, to - p));
        else if (MODEL.late)
            F(late)(t, acc, p, min64(MODEL.block, to - p));
        else if (MODEL.block > 1)
            F(fused)(t, acc, p, min64(MODEL.block, to - p));
        else
            F(one_by_one)(t, acc, p);
    }
}

/* Sets all accumulators to zero. */
FLAT void F(clear)(V acc[ROWS][VECS])
{
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECS; v++)
            acc[r][v] = (V){ 0 };
}

/* Adds the sum of a group or of a section of k to an outer sum, in the format and rounding of s,
 * for each accumulator. */
FLAT void F(add_part)(struct F(tile) *t, limber_step s, V sum[ROWS][VECS], V part[ROWS][VECS],
                      uint32_t stream, int64_t index)
{
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECS; v++)
            sum[r][v] = F(outer)(t, s, sum[r][v], part[r][v],
                                 F(number)(t, r, v, stream, (uint32_t)index));
}

/* Copies all accumulators. */
FLAT void F(copy)(V to[ROWS][VECS], V from[ROWS][VECS])
{
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECS; v++)
            to[r][v] = from[r][v];
}

/* Starts the accumulators of a group or of a section of k: at zero if its sum is added to `sum`
 * later (apart), else at `sum`. */
FLAT void F(begin)(V acc[ROWS][VECS], V sum[ROWS][VECS], int apart)
{
    if (apart)
        F(clear)(acc);
    else
        F(copy)(acc, sum);
}

/* Ends a group or a section of k: adds acc to `sum` if it started at zero (apart), else replaces
 * `sum` by acc. */
FLAT void F(end)(struct F(tile) *t, limber_step s, V sum[ROWS][VECS], V acc[ROWS][VECS],
                 uint32_t stream, int64_t index, int apart)
{
    if (apart)
        F(add_part)(t, s, sum, acc, stream, index);
    else
        F(copy)(sum, acc);
}

/* Adds products from, from + step and so on, below `to`, to the accumulators. */
FLAT void F(stride)(struct F(tile) *t, V acc[ROWS][VECS], int64_t from, int64_t to, int64_t step)
{
    ROLL for (int64_t p = from; p < to; p += step)
        F(one_by_one)(t, acc, p);
}

/* Sums a group in several accumulators (lanes), and then adds these as a tree.  The tree's
 * additions are numbered as in a heap, to select random numbers. */
FLAT void F(in_lanes)(struct F(tile) *t, V acc[ROWS][VECS], int64_t from, int64_t to)
{
    const int64_t whole = limber_unit_steps_end(&MODEL, from, to);
    V x[LIMBER_UNIT_LANES][ROWS][VECS];

    ROLL for (int lane = 0; lane < MODEL.lanes; lane++) {
        V own[ROWS][VECS];

        F(clear)(own);
        F(stride)(t, own, from + lane, whole, MODEL.lanes);
        if (MODEL.unroll && !MODEL.rest_after)
            F(stride)(t, own, lane ? to : whole, to, 1);
        F(copy)(x[lane], own);
    }
    ROLL for (int width = MODEL.lanes; width > 1; width /= 2)
        ROLL for (int i = 0; i < width / 2; i++) {
            F(copy)(x[i], x[limber_unit_lane(&MODEL, width, i, 0)]);
            F(add_part)(t, MODEL.acc, x[i], x[limber_unit_lane(&MODEL, width, i, 1)], 4,
                        limber_unit_group_index(&MODEL, from) * LIMBER_UNIT_LANES + width / 2 + i);
        }
    F(copy)(acc, x[0]);
    if (MODEL.rest_after)
        F(stride)(t, acc, whole, to, 1);
}

/* Sums the groups of a section of k.  Without groups, the section is one chain. */
FLAT void F(groups)(struct F(tile) *t, V sum[ROWS][VECS], int64_t from, int64_t to)
{
    ROLL for (int64_t p = from, end; p < to; p = end) {
        V acc[ROWS][VECS];

        end = MODEL.group ? limber_unit_group_end(&MODEL, p, to) : to;
        F(begin)(acc, sum, MODEL.group > 0);
        if (MODEL.lanes)
            F(in_lanes)(t, acc, p, end);
        else
            F(chain)(t, acc, p, end);
        F(end)(t, MODEL.outer, sum, acc, 1, MODEL.group ? limber_unit_group_index(&MODEL, p) : 0,
               MODEL.group > 0);
    }
}

/* Sums all of k, in sections (parts) if the unit splits it.  A slot has one or two of these; the
 * second one's sum is added to that of the first, and this to `sum`. */
FLAT void F(whole)(struct F(tile) *t, V sum[ROWS][VECS])
{
    const int64_t k = t->c->k, slots = MODEL.split > 1 ? limber_unit_slots(&MODEL) : 1;
    const int apart = MODEL.split > 1, most = apart && MODEL.merge_pairs ? 2 : 1;

    ROLL for (int64_t slot = 0; slot < slots; slot++) {
        V both[ROWS][VECS], own[ROWS][VECS];
        int parts = 0;

        ROLL for (; parts < most; parts++) {
            const int64_t part = limber_unit_slot_part(&MODEL, slot, parts);
            const int64_t from = apart ? limber_unit_part_begin(&MODEL, k, part) : 0;
            const int64_t to = apart ? limber_unit_part_begin(&MODEL, k, part + 1) : k;

            if (part < 0 || from >= to)
                break; /* if the first part is empty, so is the second one, which is behind it */
            if (parts)
                F(copy)(both, own);
            F(begin)(own, sum, apart);
            F(groups)(t, own, from, to);
        }
        if (parts == 0)
            continue;
        if (!apart) {
            F(copy)(sum, own);
            continue;
        }
        ROLL for (int more = parts; more > 0; more--) { /* 2: both + own; 1: sum + that */
            V x[ROWS][VECS];

            UNROLL for (int r = 0; r < ROWS; r++)
                UNROLL for (int v = 0; v < VECS; v++)
                    x[r][v] = more == 2 ? both[r][v] : sum[r][v];
            F(add_part)(t, MODEL.total, x, own, 2, limber_unit_slot_part(&MODEL, slot, more - 1));
            if (more == 2)
                F(copy)(own, x);
            else
                F(copy)(sum, x);
        }
    }
}
