/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel with wgmma instructions.  Beside the producer warpgroup (fetch.h) two
 * warpgroups multiply 64 rows of the tile each, directly from shared memory. */
#ifndef LIMBER_CUDA_GROUP_H
#define LIMBER_CUDA_GROUP_H

enum { THREADS = (GROUPS + 1) * GROUP_THREADS };

/* ---- multiplying the steps of a task, by a warpgroup ----------------------------------------- */

/* Gives an array of sums the type [1][NJ][4] that the functions of tile.h take. */
#define AS_TILES(d) (*(sum (*)[1][NJ][4])(d))

/* Issues the products of one pipeline stage, for INT8.  SA, SB: 1 if the bytes of A, or of B, are
 * signed.  keep: 0 replaces the sums instead of adding. */
template <int SA, int SB>
DEVICE void product_i8(int32_t (&d)[4 * NJ], uint32_t a, uint32_t b, int keep)
{
    group_fence();
    UNROLL for (int q = 0; q < PIECES; q++)
        group_i8<BN, SA, SB>(d, tile_descriptor(a, 32 * q), tile_descriptor(b, 32 * q),
                             (keep | q) != 0);
    group_commit();
}

/* Issues the products of one pipeline stage, for INT8.  signs: 2 if A's limb is signed, plus 1 if
 * B's is.  Each branch has a commit of its own: after a common one ptxas would begin another group
 * and wait for it. */
DEVICE void product(int32_t (&d)[4 * NJ], uint32_t a, uint32_t b, int signs, int keep)
{
    if constexpr (SIGNS & 1)
        if (SIGNS == 1 || signs == 0)
            product_i8<0, 0>(d, a, b, keep);
    if constexpr ((SIGNS & 2) != 0)
        if (SIGNS == 2 || signs == 1)
            product_i8<0, 1>(d, a, b, keep);
    if constexpr ((SIGNS & 4) != 0)
        if (SIGNS == 4 || signs == 2)
            product_i8<1, 0>(d, a, b, keep);
    if constexpr ((SIGNS & 8) != 0)
        if (SIGNS == 8 || signs == 3)
            product_i8<1, 1>(d, a, b, keep);
}

/* Issues the product of two tiles of floats, for 32 bytes along k (piece q).  keep: 0 replaces d
 * instead of adding. */
DEVICE void product_piece(float (&d)[4 * NJ], uint32_t a, uint32_t b, int q, int keep)
{
    uint64_t da = tile_descriptor(a, 32 * q), db = tile_descriptor(b, 32 * q);

    if constexpr (UNIT == UNIT_f16)
        group_f16<BN>(d, da, db, keep);
    else if constexpr (UNIT == UNIT_bf16)
        group_bf16<BN>(d, da, db, keep);
    else if constexpr (UNIT == UNIT_e4m3)
        group_e4m3<BN>(d, da, db, keep);
    else if constexpr (UNIT == UNIT_e5m2)
        group_e5m2<BN>(d, da, db, keep);
    else
        group_tf32<BN>(d, da, db, keep);
}

/* Issues the products of one pipeline stage, for floats.  keep: 0 replaces d instead of adding. */
DEVICE void product(float (&d)[4 * NJ], uint32_t a, uint32_t b, int, int keep)
{
    group_fence();
    UNROLL for (int q = 0; q < PIECES; q++)
        product_piece(d, a, b, q, (keep | q) != 0);
    group_commit();
}

/* Frees a pipeline stage whose tiles this warp's products have read, in all blocks that write to
 * the stage. */
DEVICE void release(const multiply_args &a, int stage)
{
    if (lane() < a.cluster)
        barrier_arrive_in((uint32_t)(EMPTY + 8 * stage), lane());
}

/* Multiplies steps [s, end) of a task.  When it returns, the sums d are complete and all pipeline
 * stages are free.  line: first row of this warpgroup in the tile.  keep: 0 replaces d instead of
 * adding. */
template <class sum>
DEVICE void multiply_steps(sum (&d)[4 * NJ], const multiply_args &a, struct task t, struct ring &r,
                           int line, int s, int end, int keep)
{
    /* the pipeline stage that the last but one group of products reads; -1 if there is none */
    int held = -1;

    ROLL for (; s < end; s++) {
        uint32_t at = (uint32_t)(r.stage * STAGE);

        if (!is_step_needed(a, t, s))
            continue;
        barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);
        product(d, at + line * STEP, at + HELD_A * TILE_A,
                SIGNS_OF[row_at(a, t, s)], keep);
        keep = 1;
        group_wait<1>();
        if (held >= 0)
            release(a, held);
        held = r.stage;
        advance(r);
    }
    group_wait<0>();
    keep_behind(d);
    if (held >= 0)
        release(a, held);
    /* no step had elements to multiply, so nothing has replaced the sums yet */
    if (PARTED && !keep)
        clear(d);
}

/* Returns the first row of the tile that this warp stores.  Warps 0 to 3 are producers, so warp 4
 * has row 0. */
DEVICE int own_row() { return ((compute_here(thread()) >> 5) - 4) * 16; }

/* Computes the exact totals of one accumulator for this warpgroup's 64 rows.  Chains of floats are
 * added to integers.  Totals are reduced to residues or stored before they can overflow. */
template <class sum>
DEVICE void totals_task(const multiply_args &a, int index, struct ring &r, int line)
{
    struct task t = own_task(a, index);
    int steps = steps_of(a, t), flushed = 0, keep = 0, s = 0, end;
    int32_t total[1][NJ][4];    /* totals of float chains */
    sum d[4 * NJ];
    auto put = [&](auto &sums) {
        put_task(a, index, [&](const result_args &to, int acc, int64_t i, int64_t j) {
            put_totals(to, acc, i, j, sums, flushed++ == 0);
        });
    };

    clear(d);
    if (UNIT != UNIT_i8)
        clear(*(int32_t (*)[4 * NJ])total);
    do {                        /* the body also runs once if there are no steps */
        bool last;

        end = end_of(s, steps);
        last = end == steps;
        multiply_steps(d, a, t, r, line, s, end, keep);
        s = end;
        if constexpr (UNIT != UNIT_i8) {
            promote(*(int32_t (*)[4 * NJ])total, d);
            if (RECONSTRUCT == RECONSTRUCT_crt) {
                if (!last && end % FLUSH_STEPS == 0)
                    reduce(t.acc, total);
            } else if (last || end % FLUSH_STEPS == 0) {
                put(total);
                clear(*(int32_t (*)[4 * NJ])total);
            }
        } else if constexpr (RECONSTRUCT == RECONSTRUCT_crt) {
            if (!last)
                reduce(t.acc, AS_TILES(d));
            keep = 1;
        } else {
            put(AS_TILES(d));
        }
    } while (s < steps);
    if constexpr (RECONSTRUCT == RECONSTRUCT_crt)
        put_task(a, index, [&](const result_args &to, int acc, int64_t i, int64_t j) {
            if constexpr (UNIT == UNIT_i8)
                put_residues_of(to, acc, i, j, AS_TILES(d));
            else
                put_residues_of(to, acc, i, j, total);
        });
}

/* Issues the products for row r of the product table and all later rows, for one piece of 32 bytes.
 * Where a sum begins, the first row of its accumulator overwrites it: the sum of accumulator 0
 * begins with each chain (keep is 0), those of all others with k (through is 0). */
template <int r, class sum>
DEVICE void product_rows(sum (&d)[ACCUMULATORS][4 * NJ], uint32_t at, int line, int q, int keep,
                         int through)
{
    if constexpr (r < ROWS) {
        constexpr int acc = ROW[r].acc;

        product_piece(d[acc], at + ROW[r].a * TILE_A + line * STEP,
                      at + HELD_A * TILE_A + ROW[r].b * TILE_B, q,
                      (q | !ROW[r].begins | (acc ? through : keep)) != 0);
        product_rows<r + 1>(d, at, line, q, keep, through);
    }
}

/* Computes float sums for this warpgroup's 64 rows.  Accumulator 0 is added to a total after every
 * chunk; each other accumulator sums over all of k. */
template <class sum>
DEVICE void sums_task(const multiply_args &a, int index, struct ring &r, int line)
{
    struct task t = own_task(a, index);     /* needed only if steps are skipped */
    sum d[ACCUMULATORS][4 * NJ], total[4 * NJ];
    int through = 0;

    clear(total);
    UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
        clear(d[acc]);
    ROLL for (int s = 0; s < a.steps;) {
        int end = end_of(s, a.steps), held = -1, keep = 0;

        ROLL for (; s < end; s++) {
            if (!is_step_needed(a, t, s))
                continue;
            barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);
            group_fence();
            /* rows of the product table alternate every 32 bytes */
            UNROLL for (int q = 0; q < PIECES; q++)
                product_rows<0>(d, (uint32_t)(r.stage * STAGE), line, q, keep, through);
            keep = through = 1;
            group_commit();
            group_wait<1>();
            if (held >= 0)
                release(a, held);
            held = r.stage;
            advance(r);
        }
        group_wait<0>();
        UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
            keep_behind(d[acc]);
        if (PARTED && held < 0)
            continue;
        release(a, held);
        promote(total, d[0]);
    }
    UNROLL for (int x = 0; x < 4 * NJ; x++)
        d[0][x] = total[x];
    put_task(a, index, [&](const result_args &to, int, int64_t i, int64_t j) {
        put_sums(to, i, j, *(sum (*)[ACCUMULATORS][1][NJ][4])d);
    });
}

/* A consumer warpgroup's loop: computes its 64 rows of the tile, for all tasks of this block. */
DEVICE void multiply(const multiply_args &a)
{
    int line = (warp() / 4 - 1) * 64;
    struct ring r = { 0, 0 };

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        if constexpr (TOTALS)
            totals_task<sum_type>(a, index, r, line);
        else
            sums_task<sum_type>(a, index, r, line);
    }
}

/* Registers per thread of a producer and of a consumer; the launch gives each thread 168. */
enum { FETCHING = INSIDE ? 72 : WINDOW ? 40 : 24, MULTIPLYING = INSIDE ? 216 : WINDOW ? 232 : 240 };
static_assert(GROUPS != 2 || FETCHING + GROUPS * MULTIPLYING <= (GROUPS + 1) * 168, "registers");

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* The multiply kernel: warpgroup 0 fetches tiles, all others multiply. */
KERNEL(limber_multiply, struct multiply_args, THREADS, 1)
{
    if (thread() == 0) {
        start_ring(args, 4 * GROUPS);
        barrier_init_done();
    }
    await_launch();
    let_next_begin();
    if (is_left(args.r.choice, args.r.mine))
        return;
    sync_cluster();
    if (warp() < 4) {
        registers_less<FETCHING>();
        fetch_all(args);
    } else {
        registers_more<MULTIPLYING>();
        multiply(args);
    }
    /* do not end before the other blocks have made their arrivals at this block's barriers */
    sync_cluster();
}

#endif
