/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP64: for any description and any data, one element of a thread at a time. */
#ifndef LIMBER_CUDA_UNIT_WIDE_H
#define LIMBER_CUDA_UNIT_WIDE_H

/* The state of one element: accumulator, sum of groups, and sum of sections of k. */
struct wide_chain {
    struct progress at;
    double acc, outer, total;
    /* the accumulators (lanes) that take turns in summing a group, for units that have lanes */
    double lane[MODEL.lanes ? MODEL.lanes : 1];
    uint32_t element;           /* hash of the element, for stochastic rounding */
    struct tally tally;
};

/* ---- products added one by one --------------------------------------------------------------- */

/* Returns a b, rounded to the unit's product format if it has one.  h: random number. */
DEVICE double wide_multiply(struct wide_chain &w, float a, float b, uint32_t h)
{
    double x = mul64((double)a, (double)b), y;
    bool beyond;

    if (!MODEL.mul.format.kind)
        return x;
    y = wide_round(MODEL.mul, x, random_of(h << 16), beyond);
    if (COUNTS == COUNT_all && x != 0 && finite(x)) {
        w.tally.n[TALLY_mul_inexact] += y != x;
        w.tally.n[TALLY_mul_underflow] += y == 0;
        w.tally.n[TALLY_mul_overflow] += beyond;
    }
    return y;
}

/* Returns sum + x in the format and rounding of s.  Counts a nonzero x that left the sum
 * unchanged (counter `first`), that lost some bits (first + 1), or that made the sum overflow.
 * h: random number. */
DEVICE double wide_add(struct wide_chain &w, limber_step s, double sum, double x, uint32_t h,
                       int first)
{
    double exact = wide_sum(sum, x), y;
    bool beyond;

    y = wide_round(s, exact, random_of(h), beyond);
    if (COUNTS && x != 0 && finite(x) && finite(sum)) {
        bool swamped = y != exact && y == sum, partly = y != exact && !swamped && !beyond;

        w.tally.n[first] += swamped;
        if (COUNTS == COUNT_all) {
            w.tally.n[first + 1] += partly;
            if (first == TALLY_swamped)
                w.tally.n[TALLY_sum_overflow] += beyond && !swamped;
        }
    }
    return y;
}

/* Multiplies a and b, rounded as the unit does, and adds the product to the accumulator.  If the
 * unit has lanes, which are several accumulators used in turn, p selects the accumulator. */
DEVICE void wide_multiply_add(struct wide_chain &w, float a, float b, uint32_t p)
{
    uint32_t h = number_of(w.element, 0, p);
    double &acc = MODEL.lanes ? w.lane[(p - w.at.group * (uint32_t)MODEL.group) %
                                       (uint32_t)(MODEL.lanes ? MODEL.lanes : 1)] : w.acc;

    acc = wide_add(w, MODEL.acc, acc, wide_multiply(w, a, b, h), h, TALLY_swamped);
}

/* ---- elements of a pipeline stage, one at a time --------------------------------------------- */

/* Location of one block of an element's terms in shared memory: offset of the pipeline stage, row
 * of A, column of B, first slot, and number of positions within k. */
struct wide_block { uint32_t stage; int row, column, first, n; };

/* Loads the word in slot q (position along k) of a row or column of a tile. */
DEVICE uint32_t word_at(uint32_t tile, int line, int q)
{
    return load_shared<uint32_t>(tile + piece_at(line, q / 4) + 4 * (q % 4));
}

/* Returns A's element in slot q of the block. */
DEVICE float wide_a(const struct wide_block &b, int q)
{
    return bits_float(word_at(b.stage, b.row, b.first + q));
}

/* Returns B's element in slot q of the block. */
DEVICE float wide_b(const struct wide_block &b, int q)
{
    return bits_float(word_at(b.stage + HELD * TILE_A, b.column, b.first + q));
}

/* Returns the exponent of product q of the block. */
DEVICE int wide_exponent(const struct wide_block &b, int q)
{
    return (int)word_at(b.stage + TILE_A, b.row, b.first + q) +
           (int)word_at(b.stage + HELD * TILE_A + TILE_B, b.column, b.first + q);
}

/* ---- trees of sums, added like carries of a binary counter ----------------------------------- */

/* Adds a block to the accumulator.  The block's products are added as a balanced tree. */
DEVICE void wide_tree(struct wide_chain &w, const struct wide_block &b)
{
    double held[7];

    ROLL for (int q = 0; q < BLOCK; q++) {
        double x = q < b.n ? wide_multiply(w, wide_a(b, q), wide_b(b, q), 0) : 0;
        int level = 0;

        ROLL for (; q >> level & 1; level++)
            x = wide_add(w, MODEL.acc, held[level], x, 0, TALLY_swamped);
        held[level] = x;
        if (q == BLOCK - 1)
            w.acc = wide_add(w, MODEL.acc, w.acc, x, 0, TALLY_swamped);
    }
}

/* ---- fused blocks: terms are truncated to one unit, then added exactly ----------------------- */

/* Returns one term: the exact sum of SUB neighbouring products.  Products that are NaN or infinite
 * are added to `rest` instead. */
DEVICE double wide_term(const struct wide_block &b, int q, double &rest)
{
    double sum = 0;

    ROLL for (int s = q; s < q + SUB && s < b.n; s++) {
        double x = mul64((double)wide_a(b, s), (double)wide_b(b, s));

        if (!finite(x))
            rest = add64(rest, x);
        sum = add64(sum, x);
    }
    return sum;
}

/* Returns the exponent of a sum, as it counts for the alignment of a block; at least FP32's
 * smallest. */
DEVICE int wide_exponent_of(double x)
{
    int e = (int)(double_bits(x) >> 52 & 0x7ff) - 1023;

    return x == 0 && !MODEL.zeros ? NO_EXPONENT : e > -126 ? e : -126;
}

/* Returns the largest exponent of a block's terms and of the accumulator.  rest: set to the sum of
 * those that are NaN or infinite, or to 0. */
DEVICE int wide_most(const struct wide_chain &w, const struct wide_block &b, double &rest)
{
    int most = wide_exponent_of(w.acc);

    rest = finite(w.acc) ? 0 : w.acc;
    ROLL for (int q = 0; q < b.n; q += SUB) {
        double x = wide_term(b, q, rest);
        int e = wide_exponent(b, q);

        if ((SUB == 1 || MODEL.zeros || x != 0) && e > most)
            most = e;
    }
    most = most > MODEL.floor ? most : MODEL.floor;
    return most > -400 ? most : -400;       /* any small exponent will do if all terms are zero */
}

/* Adds a fused block to the accumulator: all terms are aligned to the largest exponent, truncated
 * and added exactly, and the sum is rounded once. */
DEVICE void wide_fused(struct wide_chain &w, const struct wide_block &b)
{
    uint32_t h = number_of(w.element, 0, w.at.p);
    double rest, up, sum;
    int unit = wide_most(w, b, rest) - MODEL.frac;
    bool beyond;

    if (!finite(rest)) {
        w.acc = wide_round(MODEL.acc, rest, 0, beyond);
        return;
    }
    up = power_of_two(-unit);
    sum = cut64(mul64(w.acc, up));
    ROLL for (int q = 0; q < b.n; q += SUB) {
        double x = wide_term(b, q, rest), cut = cut64(mul64(x, up));

        sum = add64(sum, cut);
        if (COUNTS) {
            w.tally.n[TALLY_swamped] += x != 0 && cut == 0;
            if (COUNTS == COUNT_all)
                w.tally.n[TALLY_partly_swamped] += cut != 0 && cut != mul64(x, up);
        }
    }
    w.acc = wide_round(MODEL.acc, add64(mul64(sum, power_of_two(unit)), 0), random_of(h), beyond);
    if (COUNTS == COUNT_all)
        w.tally.n[TALLY_sum_overflow] += beyond;
}

/* ---- fused blocks to which the accumulator is added last ------------------------------------- */

/* Returns x rounded down to an integer. */
DEVICE double floor64(double x)
{
    double t = cut64(x);

    return x < t ? add64(t, -1) : t;
}

/* Returns one product of a block.  A product that is too large becomes infinite. */
DEVICE double wide_late_product(const struct wide_block &b, int q)
{
    double x = mul64((double)wide_a(b, q), (double)wide_b(b, q));

    return x >= LIMBER_UNIT_TOO_LARGE ? __builtin_inf() :
           x <= -LIMBER_UNIT_TOO_LARGE ? -__builtin_inf() : x;
}

/* Returns the sum of the products first, first + step and so on, truncated to units of 2^(most -
 * frac), as a number of these units.  most: set to the largest exponent of these products. */
DEVICE double wide_late_sum(struct wide_chain &w, const struct wide_block &b, int first, int step,
                            int &most)
{
    double sum = 0, up;

    most = -400;                    /* any small exponent will do if all products are zero */
    ROLL for (int q = first; q < b.n; q += step) {
        int e = wide_exponent(b, q);

        most = e > most ? e : most;
    }
    up = power_of_two(MODEL.frac - most);
    ROLL for (int q = first; q < b.n; q += step) {
        double x = wide_late_product(b, q), cut = cut64(mul64(x, up));

        sum = add64(sum, cut);
        if (COUNTS) {
            w.tally.n[TALLY_swamped] += x != 0 && cut == 0;
            if (COUNTS == COUNT_all)
                w.tally.n[TALLY_partly_swamped] += cut != 0 && cut != mul64(x, up);
        }
    }
    return sum;
}

/* Emulates how a matrix unit adds a block of products to the accumulator in two steps.  First
 * the products are aligned to their largest exponent and summed in units of 2^(exponent -
 * frac).  Then this sum and the accumulator are aligned to the larger of their exponents, e,
 * cut to `late` and to `frac` bits, added and rounded to MODEL.acc.  With MODEL.reach, the
 * accumulator is dropped if its exponent is more than `reach` below e.  If there are NaN or
 * infinities, their sum `rest` is the result. */
DEVICE void wide_late(struct wide_chain &w, const struct wide_block &b)
{
    uint32_t h = number_of(w.element, 0, w.at.p);
    double rest = finite(w.acc) ? 0 : w.acc, sum, other, c;
    int of_acc, most, odd, e;
    bool beyond;

    ROLL for (int q = 0; q < b.n; q++) {
        double x = wide_late_product(b, q);

        if (!finite(x))
            rest = add64(rest, x);
    }
    if (!finite(rest)) {
        w.acc = wide_round(MODEL.acc, rest, 0, beyond);
        return;
    }
    of_acc = (int)(double_bits(w.acc) >> 52 & 0x7ff) - 1023;
    of_acc = of_acc > -126 ? of_acc : -126;
    sum = wide_late_sum(w, b, 0, MODEL.halves ? 2 : 1, most);
    if (MODEL.halves) {
        int even = most;

        other = wide_late_sum(w, b, 1, 2, odd);
        most = odd > even ? odd : even;
        sum = add64(floor64(mul64(sum, power_of_two(even - most))),
                    floor64(mul64(other, power_of_two(odd - most))));
    }
    e = of_acc > most ? of_acc : most;
    sum = floor64(mul64(sum, power_of_two(most - MODEL.frac - e + MODEL.late)));
    c = MODEL.reach && of_acc < e - MODEL.reach ? 0 : w.acc;
    c = mul64(floor64(mul64(c, power_of_two(MODEL.frac - e))),
              power_of_two(MODEL.late - MODEL.frac));
    sum = add64(mul64(add64(sum, c), power_of_two(e - MODEL.late)), 0);
    w.acc = wide_round(MODEL.acc, sum, random_of(h), beyond);
    if (COUNTS == COUNT_all)
        w.tally.n[TALLY_sum_overflow] += beyond;
}

/* ---- a task: all of k ------------------------------------------------------------------------ */

/* Adds the accumulators of a group's lanes to w.acc as a tree.  Its nodes are numbered as in a
 * heap, to select random numbers. */
DEVICE void wide_lanes(struct wide_chain &w)
{
    ROLL for (int width = MODEL.lanes / 2; width > 0; width /= 2)
        ROLL for (int i = 0; i < width; i++) {
            uint32_t node = w.at.group * LIMBER_UNIT_LANES + (uint32_t)(width + i);

            w.lane[i] = wide_add(w, MODEL.acc, w.lane[2 * i], w.lane[2 * i + 1],
                                 number_of(w.element, 4, node), TALLY_outer_swamped);
        }
    w.acc = w.lane[0];
    ROLL for (int i = 0; i < MODEL.lanes; i++)
        w.lane[i] = 0;
}

/* Adds accumulators to outer sums where a group ends, and outer sums to totals where a section of k
 * ends. */
DEVICE void wide_ends(struct wide_chain &w, int what)
{
    if (MODEL.group && what & ENDS_group) {
        if (MODEL.lanes)
            wide_lanes(w);
        w.outer = wide_add(w, MODEL.outer, w.outer, w.acc, number_of(w.element, 1, w.at.group),
                           TALLY_outer_swamped);
        w.acc = 0;
    }
    if (MODEL.split > 1 && what & ENDS_part) {
        double &part = MODEL.group ? w.outer : w.acc;

        w.total = wide_add(w, MODEL.total, w.total, part, number_of(w.element, 2, w.at.part),
                           TALLY_outer_swamped);
        part = 0;
    }
    begin_next(w.at, what);
}

/* Returns the number of positions of the next block that are within k. */
DEVICE int positions_left(const struct wide_chain &w, const struct slots &s)
{
    int64_t left = s.k - w.at.p;

    return left < BLOCK ? (int)left : BLOCK;
}

/* Adds the products of a pipeline stage to an element's accumulator. */
DEVICE void wide_stage(const multiply_args &a, struct wide_chain &w, uint32_t stage, int row,
                       int column)
{
    ROLL for (int slot = 0; slot < STAGE_SLOTS && w.at.slot < a.slots.count; slot += PIECE) {
        struct wide_block b = { stage, row, column, slot, BLOCK };

        if constexpr (BLOCK == 1) {
            bytes16 x = values_a(stage, row, slot / 4), y = values_b(stage, column, slot / 4);

            ROLL for (int q = 0; q < 4; q++) {
                wide_multiply_add(w, bits_float(x.w[0]), bits_float(y.w[0]), w.at.p + (uint32_t)q);
                x = { { x.w[1], x.w[2], x.w[3], 0 } };
                y = { { y.w[1], y.w[2], y.w[3], 0 } };
            }
        } else {
            b.n = positions_left(w, a.slots);
            if constexpr (MODEL.late > 0)
                wide_late(w, b);
            else if constexpr (FUSED)
                wide_fused(w, b);
            else
                wide_tree(w, b);
        }
        wide_ends(w, advance(w.at, a.slots));
    }
}

/* Returns the start value of the outermost sum: 0, or C's value for units that start with C. */
DEVICE double start_of(const result_args &r, int64_t i, int64_t j)
{
    typename raw_of<RESULT.size>::type e;
    const limber_unit u = MODEL;

    if (!MODEL.start_c || i >= r.m || j >= r.n)
        return 0;
    e = load_raw<RESULT.size>(limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size));
    return limber_unit_start(&u, double_of(RESULT, &e));
}

/* Returns the outermost sum: that of sections of k if the unit splits k, else that of groups, else
 * the accumulator. */
DEVICE double &outermost(struct wide_chain &w)
{
    return MODEL.split > 1 ? w.total : MODEL.group ? w.outer : w.acc;
}

/* Computes a tile of C in FP64.  Each thread simulates the unit for one element after another. */
DEVICE void wide_task(const multiply_args &a, struct task t)
{
    const result_args r = result_of(a.r, t.product);

    ROLL for (int x = thread(); x < BM * BN; x += THREADS) {
        int row = x / BN, column = x % BN;
        int64_t i = (int64_t)t.i * BM + row, j = (int64_t)t.j * BN + column;
        struct wide_chain w = { begin(a.slots), 0, 0, 0, {}, element_of(a, i, j), {} };

        outermost(w) = start_of(r, i, j);
        pipeline(a, t, [&](uint32_t stage, int) { wide_stage(a, w, stage, row, column); });
        put_value(r, i, j, w.element, outermost(w));
        add_counts(a.counts, w.tally);
    }
}

#endif
