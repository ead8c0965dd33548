/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel with tcgen05 instructions, whose sums are in Blackwell's tensor memory.
 * Beside the producer warps (fetch.h) one thread issues all products, which read shared memory
 * directly, and two warpgroups load sums from tensor memory while the next sums are computed.
 *
 * A part of a task is a run of steps whose products form one chain.  The sums of accumulator 0
 * alternate between two places (ranges of columns), part by part.  Each other accumulator of float
 * sums has one place after these two, and sums over all of k. */
#ifndef LIMBER_CUDA_TENSOR_H
#define LIMBER_CUDA_TENSOR_H

enum {
    THREADS = (GROUPS + 2) * GROUP_THREADS, PLACES = 2, TAKERS = 4 * GROUPS,
    /* barriers: the sums in a place (columns of tensor memory) are complete; the sums in a place
     * have been read; all other accumulators have been read */
    FILLED = PARTS, TAKEN = FILLED + 8 * PLACES, OTHERS = TAKEN + 8 * PLACES, ADDRESS = OTHERS + 8,
    /* first column of the block scales, which follow the sums; each pipeline stage has columns for
     * A and for B */
    SCALES_FROM = (PLACES + (TOTALS ? 0 : ACCUMULATORS - 1)) * BN
};
static_assert(BM == 128, "a row of products is a lane");
static_assert(SCALES_FROM + STAGES * 2 * SCALES <= COLUMNS_TAKEN, "columns");
static_assert(!SCALES || BN == 128, "scales of 128 lines come together");

/* A range of columns of tensor memory (a "place") that holds sums of accumulator 0, and a parity
 * that changes with each round over the places. */
struct place { int index; uint32_t parity; };

/* Moves on to the next place (columns of tensor memory); after the last one, to the first one with
 * the other parity. */
DEVICE void advance(struct place &p)
{
    if (++p.index == PLACES) {
        p.index = 0;
        p.parity ^= 1;
    }
}

/* True if any of the steps [s, end) has elements to multiply. */
DEVICE bool is_part(const multiply_args &a, struct task t, int s, int end)
{
    if (!PARTED)
        return s < end;
    ROLL for (; s < end; s++)
        if (is_step_needed(a, t, s))
            return true;
    return false;
}

/* Returns the first column of an accumulator's sums in tensor memory.  Only accumulator 0 has
 * several places (ranges of columns). */
DEVICE uint32_t column_of_accumulator(int acc, int place)
{
    return (uint32_t)((acc ? PLACES - 1 + acc : place) * BN);
}

/* ---- issuing products to tensor memory ------------------------------------------------------- */

/* Returns the instruction descriptor of this kernel's products.  signs (INT8): 2 if A's limb is
 * signed, plus 1 if B's is. */
DEVICE uint32_t product_of(int signs)
{
    if (UNIT == UNIT_i8)
        return product_descriptor(BM, BN, (uint32_t)signs >> 1, signs & 1, PRODUCT_i32);
    if (UNIT == UNIT_e4m3)
        return product_descriptor(BM, BN, PRODUCT_e4m3, PRODUCT_e4m3, PRODUCT_f32);
    return UNIT == UNIT_f16  ? product_descriptor(BM, BN, PRODUCT_f16, PRODUCT_f16, PRODUCT_f32) :
           UNIT == UNIT_bf16 ? product_descriptor(BM, BN, PRODUCT_bf16, PRODUCT_bf16, PRODUCT_f32) :
                               product_descriptor(BM, BN, PRODUCT_tf32, PRODUCT_tf32, PRODUCT_f32);
}

/* Issues the product of two tiles for 32 bytes along k (piece q).  what: an instruction descriptor.
 * keep: 0 replaces the sums instead of adding. */
DEVICE void issue_piece(uint32_t to, uint32_t a, uint32_t b, int q, uint32_t what, int keep)
{
    uint64_t da = tile_descriptor(a, 32 * q), db = tile_descriptor(b, 32 * q);

    if constexpr (UNIT == UNIT_f16 || UNIT == UNIT_bf16)
        issue_f16(to, da, db, what, keep);
    else if constexpr (UNIT == UNIT_tf32)
        issue_tf32(to, da, db, what, keep);
    else if constexpr (UNIT == UNIT_e4m3)
        issue_f8(to, da, db, what, keep);
#if defined __CUDA_ARCH_FEAT_SM100_ALL
    else
        issue_i8(to, da, db, what, keep);
#endif
}

/* Issues the products for row r of the product table and all later rows, for one piece of 32 bytes.
 * Where a sum begins, the first row of its accumulator overwrites it: the sum of accumulator 0
 * begins with each chain (keep is 0), those of all others with k (through is 0). */
template <int r>
DEVICE void issue_rows(uint32_t columns, int place, uint32_t at, int q, int keep, int through)
{
    if constexpr (r < ROWS) {
        constexpr int acc = ROW[r].acc;

        issue_piece(columns + column_of_accumulator(acc, place), at + ROW[r].a * TILE_A,
                    at + HELD_A * TILE_A + ROW[r].b * TILE_B, q, product_of(0),
                    (q | !ROW[r].begins | (acc ? through : keep)) != 0);
        issue_rows<r + 1>(columns, place, at, q, keep, through);
    }
}

#if MX
/* Copies the block scales of a pipeline stage to the columns that belong to the stage, and returns
 * the first of these columns.  Nothing orders these copies after products that read the stage's
 * previous scales, but those products are complete once the stage has been filled again. */
DEVICE uint32_t issue_stage_scales(uint32_t columns, int stage)
{
    uint32_t to = columns + (uint32_t)(SCALES_FROM + stage * 2 * SCALES);
    uint32_t from = (uint32_t)(stage * STAGE + SCALES_AT);

    UNROLL for (int x = 0; x < SCALES / 2; x++)
        issue_scales(to + 4 * x, scales_descriptor(from + 512 * x));
    return to;
}

/* Issues the block-scaled instruction for piece q, 32 bytes along k, of a pipeline stage's tiles.
 * to: the accumulator; scales: the stage's scales; both are columns of tensor memory.  at: the
 * tiles in shared memory.  keep: 0 overwrites the accumulator. */
DEVICE void issue_scaled_piece(uint32_t to, uint32_t at, int q, uint32_t scales, int keep)
{
    constexpr int each = SCALES / PIECES;   /* bytes of scales per row or column and piece */
    constexpr uint32_t e8m0 = MODEL.scale != LIMBER_SCALE_UE4M3;
    uint32_t what = scaled_descriptor(BM, BN, MX == 1 ? FORMAT_A : 1, MX == 1 ? FORMAT_B : 1, e8m0,
                                      q * each % 4);

    scales += (uint32_t)(q * each / 4 * 4);
    issue_scaled<MX>(to, tile_descriptor(at, 32 * q), tile_descriptor(at + TILE_A, 32 * q), what,
                     scales, scales + SCALES, keep);
}

/* Issues the first `pieces` pieces of a step or, if `all`, all pieces without branches. */
template <bool all>
DEVICE void issue_scaled_pieces(uint32_t to, uint32_t at, uint32_t scales, int keep, int pieces)
{
    UNROLL for (int q = 0; q < PIECES; q++) {
        if (!all && q >= pieces)
            break;
        issue_scaled_piece(to, at, q, scales, (keep | q) != 0);
    }
}
#endif

/* Frees a pipeline stage, in all blocks that write to it, as soon as the products issued so far are
 * complete. */
DEVICE void release(const multiply_args &a, int stage)
{
    if (a.cluster == 1)
        products_arrive((uint32_t)(EMPTY + 8 * stage));
    else
        products_arrive_all((uint32_t)(EMPTY + 8 * stage), (1u << a.cluster) - 1);
}

/* Issues the products of steps [s, end), which are one part of a task. */
DEVICE void issue_part(const multiply_args &a, struct task t, struct ring &r, uint32_t columns,
                       int place, int s, int end, int &through)
{
    int keep = 0;

    ROLL for (; s < end; s++) {
        uint32_t at = (uint32_t)(r.stage * STAGE);      /* offset of the stage's tiles */

        if (!is_step_needed(a, t, s))
            continue;
        barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);
        columns_after();
#if MX
        uint32_t scales = issue_stage_scales(columns, r.stage);
        uint32_t to = columns + column_of_accumulator(0, place);
        int pieces = pieces_of(a, s);

        if (pieces == PIECES)
            issue_scaled_pieces<true>(to, at, scales, keep, pieces);
        else
            issue_scaled_pieces<false>(to, at, scales, keep, pieces);
#else
        /* rows of the product table alternate every 32 bytes */
        UNROLL for (int q = 0; q < PIECES; q++)
            if constexpr (TOTALS)
                issue_piece(columns + column_of_accumulator(0, place), at, at + TILE_A, q,
                            product_of(SIGNS_OF[row_at(a, t, s)]), (keep | q) != 0);
            else
                issue_rows<0>(columns, place, at, q, keep, through);
#endif
        keep = through = 1;
        release(a, r.stage);
        advance(r);
    }
}

/* The issuing thread's loop: issues the products of all tasks of this block as their tiles
 * arrive. */
DEVICE void issue_tasks(const multiply_args &a)
{
    uint32_t columns = load_shared<uint32_t>(ADDRESS), others = 1;
    struct ring r = { 0, 0 };
    struct place p = { 0, 0 };

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        struct task t = own_task(a, index);
        int steps = steps_of(a, t), through = 0, end;

        if (!TOTALS && ACCUMULATORS > 1) {
            barrier_wait(OTHERS, others);
            others ^= 1;
        }
        ROLL for (int s = 0; s < steps; s = end) {
            end = end_of(s, steps);
            if (!is_part(a, t, s, end))
                continue;
            barrier_wait((uint32_t)(TAKEN + 8 * p.index), p.parity ^ 1);
            issue_part(a, t, r, columns, p.index, s, end, through);
            products_arrive((uint32_t)(FILLED + 8 * p.index));
            advance(p);
        }
    }
}

/* ---- loading sums from tensor memory --------------------------------------------------------- */

/* Returns the first row of the tile that this warp loads and stores. */
DEVICE int own_row()
{
    int w = compute_here(thread()) >> 5;

    return (w & 3) * 32 + (w / 4 - 2) * 16;
}

/* Adds a loaded sum, the bit pattern of an integer or of a float, to a total. */
DEVICE void add_sum(int32_t &total, uint32_t v)
{
    total += UNIT == UNIT_i8 ? (int32_t)v : (int32_t)bits_float(v);
}
DEVICE void add_sum(float &total, uint32_t v) { total = add32(total, bits_float(v)); }

/* Loads this warp's rows of an accumulator, 64 columns at a time, and calls with(i, sum), a
 * function, for each register i.  from: the accumulator's address in tensor memory. */
template <class F> DEVICE void each_sum(uint32_t from, F with)
{
    UNROLL for (int c = 0; c < BN / 64; c++) {
        uint32_t d[32];

        columns_load(d, from + 64 * c);
        columns_wait(d);
        UNROLL for (int x = 0; x < 32; x++)
            with(32 * c + x, d[x]);
    }
}

/* Arrives at the barrier once all lanes of this warp have read their sums. */
DEVICE void announce_taken(uint32_t barrier)
{
    columns_before();
    sync_warp();
    if (lane() == 0)
        barrier_arrive(barrier);
}

/* Waits for the sums of the next part of a task, loads them from tensor memory, and adds them to
 * the totals. */
template <class T> DEVICE void take_part(T (&total)[4 * NJ], uint32_t columns, struct place &p)
{
    barrier_wait((uint32_t)(FILLED + 8 * p.index), p.parity);
    columns_after();
    each_sum(columns + column_of_accumulator(0, p.index),
             [&](int x, uint32_t v) { add_sum(total[x], v); });
    announce_taken((uint32_t)(TAKEN + 8 * p.index));
    advance(p);
}

/* Gives an array of totals the type [1][NJ][4] that the functions of tile.h take. */
#define AS_TILES(d) (*(int32_t (*)[1][NJ][4])(d))

/* Computes a task with exact totals: adds its parts, and reduces totals to residues or stores them
 * before they can overflow. */
DEVICE void totals_task(const multiply_args &a, int index, uint32_t columns, struct place &p)
{
    struct task t = own_task(a, index);
    int steps = steps_of(a, t), flushed = 0, s = 0, end;
    int32_t total[4 * NJ];

    clear(total);
    do {                        /* the body also runs once if there are no steps */
        bool last;

        end = end_of(s, steps);
        last = end == steps;
        if (is_part(a, t, s, end))
            take_part(total, columns, p);
        s = end;
        if (RECONSTRUCT == RECONSTRUCT_crt) {
            if (!last && end % FLUSH_STEPS == 0)
                reduce(t.acc, AS_TILES(total));
        } else if (last || end % FLUSH_STEPS == 0) {
            put_task(a, index, [&](const result_args &to, int acc, int64_t i, int64_t j) {
                put_totals(to, acc, i, j, AS_TILES(total), flushed++ == 0);
            });
            clear(total);
        }
    } while (s < steps);
    if constexpr (RECONSTRUCT == RECONSTRUCT_crt)
        put_task(a, index, [&](const result_args &to, int acc, int64_t i, int64_t j) {
            put_residues_of(to, acc, i, j, AS_TILES(total));
        });
}

/* Computes a task with float sums.  Accumulator 0 is added to a total part by part; each other
 * accumulator has summed over all of k in tensor memory. */
DEVICE void sums_task(const multiply_args &a, int index, uint32_t columns, struct place &p)
{
    struct task t = own_task(a, index);     /* needed only if steps are skipped */
    float d[ACCUMULATORS][4 * NJ];
    bool any = false;
    int end;

    UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
        clear(d[acc]);
    if (MX)
        start(d[0], a.steps);
    ROLL for (int s = 0; s < a.steps; s = end) {
        end = end_of(s, a.steps);
        if (!is_part(a, t, s, end))
            continue;
        take_part(d[0], columns, p);
        any = true;
    }
    if constexpr (ACCUMULATORS > 1) {
        if (any)
            UNROLL for (int acc = 1; acc < ACCUMULATORS; acc++)
                each_sum(columns + column_of_accumulator(acc, 0),
                         [&](int x, uint32_t v) { d[acc][x] = bits_float(v); });
        announce_taken(OTHERS);
    }
    if (MX)
        set_nan(d[0]);
    put_task(a, index, [&](const result_args &to, int, int64_t i, int64_t j) {
        put_sums(to, i, j, *(float (*)[ACCUMULATORS][1][NJ][4])d);
    });
}

/* A storing warp's loop: loads sums from tensor memory for all tasks of this block, and stores
 * results. */
DEVICE void store_tasks(const multiply_args &a)
{
    uint32_t columns = load_shared<uint32_t>(ADDRESS) + ((uint32_t)own_row() << 16);
    struct place p = { 0, 0 };

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        if constexpr (TOTALS)
            totals_task(a, index, columns, p);
        else
            sums_task(a, index, columns, p);
    }
}

/* ---- the kernel: what each warp does --------------------------------------------------------- */

/* Registers per thread in each role; the launch gives each thread 128. */
enum {
    FETCHING = INSIDE ? 72 : WINDOW ? 40 : PARTED ? 32 : 24, ISSUING = PARTED ? 32 : 24,
    TAKING = ((GROUPS + 2) * 128 - FETCHING - ISSUING) / GROUPS / 8 * 8
};

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* The multiply kernel: warps 0 to 3 fetch tiles, warp 4 issues products, and warps from 8 on store
 * sums. */
KERNEL(limber_multiply, struct multiply_args, THREADS, 1)
{
    if (thread() == 0) {
        start_ring(args, 1);
        ROLL for (int p = 0; p < PLACES; p++) {
            barrier_init((uint32_t)(FILLED + 8 * p), 1);
            barrier_init((uint32_t)(TAKEN + 8 * p), TAKERS);
        }
        barrier_init(OTHERS, TAKERS);
        barrier_init_done();
    }
    await_launch();
    let_next_begin();
    if (is_left(args.r.choice, args.r.mine))
        return;
    if (warp() == 4)
        columns_allocate<COLUMNS_TAKEN>(ADDRESS);
    columns_before();
    sync_cluster();
    columns_after();
    if (warp() < 4) {
        registers_less<FETCHING>();
        fetch_all(args);
    } else if (warp() < 8) {
        registers_less<ISSUING>();
        if (warp() == 4 && is_chosen())
            issue_tasks(args);
    } else {
        registers_more<TAKING>();
        store_tasks(args);
    }
    columns_before();
    /* do not end before the other blocks have made their arrivals and reads in this block's
     * memory */
    sync_cluster();
    columns_after();
    sync_warp(); /* one lane of warp 4 issued products while its other lanes waited here */
    if (warp() == 4)
        columns_free<COLUMNS_TAKEN>(load_shared<uint32_t>(ADDRESS));
}

#endif
