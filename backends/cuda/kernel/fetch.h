/* SPDX-License-Identifier: BSD-3-Clause
 * Producer threads: fetch tiles to shared memory for products that read it directly.  The first
 * group of 128 threads fills a ring of stages: one thread by tensor copies, or all of them, piece
 * by piece through a convolution's window or splitting elements into limbs.  Blocks are persistent
 * and take one task after another; the ring continues across tasks.
 *
 * The blocks of a cluster have neighbouring tiles of the same columns, and each fetches its part of
 * B's tile for all.  So a stage is free when all blocks have multiplied it.  A block without a tile
 * takes part with zeros or, in a batch, with lines of the next product; its results are not
 * stored. */
#ifndef LIMBER_CUDA_FETCH_H
#define LIMBER_CUDA_FETCH_H

enum {
    GROUPS = BM / 64, NJ = BN / 8, GROUP_THREADS = 128,
    TILE_A = BM * STEP, TILE_B = BN * STEP,
    HELD_A = TOTALS ? 1 : LIMBS_A, HELD_B = TOTALS ? 1 : LIMBS_B,
    SCALES_AT = HELD_A * TILE_A + HELD_B * TILE_B,  /* block scales follow the limbs */
    STAGE = SCALES_AT + SCALES * (BM + BN),
    /* elements to be split inside: each of a warp's STAGES is a square of 32 x 32 */
    SQUARE = 32, RAW = SQUARE * SQUARE * 4, LIMB_STAGES = INSIDE ? 2 : STAGES,
    RAWS = LIMB_STAGES * STAGE, FULL = RAWS + (INSIDE ? 4 * STAGES * RAW : 0),
    EMPTY = FULL + 8 * LIMB_STAGES,
    PARTS = EMPTY + 8 * LIMB_STAGES,    /* barriers that hand over sums in tensor memory */
    PIXELS = PARTS + (COLUMNS_TAKEN ? 48 : 0),  /* table of the window */
    PIECES = STEP / 32          /* products of 32 bytes in one step */
};

static_assert(CLUSTER <= 2, "pairs() shifts");
static_assert(!SCALES || !(WINDOW || INSIDE), "scales come as they were packed");

/* Position in the ring: the stage, and the parity of rounds. */
struct ring { int stage; uint32_t parity; };

/* Moves on to the next stage. */
DEVICE void advance(struct ring &r)
{
    if (++r.stage == LIMB_STAGES) {
        r.stage = 0;
        r.parity ^= 1;
    }
}

/* Steps of a task: along k for each row of the product table, or (float sums) for all rows at once.
 */
DEVICE int steps_of(const multiply_args &a, struct task t)
{
    return TOTALS ? rows_of(t) * a.steps : a.steps;
}

/* 1 if blocks work in pairs, 0 if alone: used to shift, since loops should not divide. */
DEVICE int pairs(const multiply_args &a) { return a.cluster - 1; }

/* True if step s of a task has anything to multiply.  Producers and consumers both skip a step
 * whose part of k is hidden in a row of tiles or in a column of them. */
DEVICE bool is_shown(const multiply_args &a, struct task t, int s)
{
    int part;

    if (!PARTED || !a.shown_a)
        return true;
    part = (TOTALS ? step_at(a, s) : s) >> a.shown_shift;
    return load<uint8_t>(a.shown_a + (t.i >> pairs(a)) * a.shown + part) &&
           load<uint8_t>(a.shown_b + t.j * a.shown + part);
}

/* This block's tile of its cluster's task. */
DEVICE struct task own_task(const multiply_args &a, int index)
{
    struct task t = task_at(a, index);

    t.i = t.i * a.cluster + block() % a.cluster;
    return t;
}

/* Waits until all stages are free.  Completed products, also the other block's, arrive here by
 * themselves; a block must not end before. */
DEVICE void await_products(struct ring r)
{
    if (COLUMNS_TAKEN)
        ROLL for (int s = 0; s < LIMB_STAGES; s++, advance(r))
            barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);
}

/* ---- asking for the copies of a step --------------------------------------------------------- */

/* Fetches a tile of B's limb into shared memory at `at`.  Of two blocks that work in pairs each
 * fetches half for both.  full: the barrier that counts the bytes. */
DEVICE void fetch_b(const multiply_args &a, uint32_t at, int x, int line, int limb, uint32_t full)
{
    int lines = BN >> pairs(a), from = (block() & pairs(a)) * lines;

    if (a.cluster == 1)
        tensor_load(at, &a.map_b, x, line, limb, full);
    else
        tensor_load_all(at + (uint32_t)(from * STEP), &a.map_b, x, line + from, limb, full,
                        (1u << a.cluster) - 1);
}

#if MX
/* Fetches the scales of a step, which are contiguous, tile by tile.  A block without a tile gets
 * the first ones: its own would be beyond the end of A's, which tensor copies check and bulk copies
 * do not. */
DEVICE void fetch_scales(const multiply_args &a, struct task t, uint32_t at, int s, uint32_t full)
{
    int64_t line_a = (int64_t)t.i * BM < a.r.m ? limbs_at_a(a, t) : 0, line_b = limbs_at_b(a, t);
    int64_t step = (int64_t)s * SCALES;

    bulk_load(at + SCALES_AT, a.scales_a + line_a * a.scale_pitch + step * BM, SCALES * BM, full);
    bulk_load(at + SCALES_AT + SCALES * BM, a.scales_b + line_b * a.scale_pitch + step * BN,
              SCALES * BN, full);
}
#endif

/* Fetches the tiles of step s into the ring's stage once its products have been computed. */
DEVICE void fetch_step(const multiply_args &a, struct task t, struct ring r, int s)
{
    uint32_t at = (uint32_t)(r.stage * STAGE), full = (uint32_t)(FULL + 8 * r.stage);
    int row = TOTALS ? row_at(a, t, s) : 0;
    int x = (TOTALS ? step_at(a, s) : s) * (STEP / BYTES);

    barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);
    barrier_expect(full, STAGE);
    UNROLL for (int l = 0; l < HELD_A; l++)
        tensor_load(at + l * TILE_A, &a.map_a, x, limbs_at_a(a, t), TOTALS ? ROW_A[row] : l, full);
    UNROLL for (int l = 0; l < HELD_B; l++)
        fetch_b(a, at + HELD_A * TILE_A + l * TILE_B, x, limbs_at_b(a, t),
                TOTALS ? ROW_B[row] : l, full);
#if MX
    fetch_scales(a, t, at, s, full);
#endif
}

/* The fetching warp: fetches the tiles of all tasks of this block, step by step. */
DEVICE void fetch(const multiply_args &a)
{
    struct ring r = { 0, 0 };

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        struct task t = own_task(a, index);
        int steps = steps_of(a, t);

        ROLL for (int s = 0; s < steps; s++)
            if (is_shown(a, t, s)) {
                fetch_step(a, t, r, s);
                advance(r);
            }
    }
    await_products(r);
}

/* ---- copies of pixels that a window sees ----------------------------------------------------- */

/* Fills a warp's own part of the table: the lines whose pieces it copies in copy_pixels. */
DEVICE void find_own_pixels(const multiply_args &a, int64_t j0)
{
    constexpr int every = GROUP_THREADS * 16 / STEP, own = every / 4;

    sync_warp();                /* the last task's copies have been issued */
    ROLL for (int x = lane(); x < BN / 4; x += 32) {
        int line = x / own * every + warp() * own + x % own;

        store_shared<struct pixel>((uint32_t)(PIXELS + line * PIXEL), pixel_of(a, j0 + line));
    }
    sync_warp();
}

/* Announces the oldest stage that was issued. cp.async writes through the generic proxy; once a
 * thread has waited for its copies they are as if it had stored them.  Its fence orders them before
 * later work of the asynchronous proxy, and the arrival releases them to those who wait at the
 * barrier.  If the copies arrived by themselves (cp.async.mbarrier.arrive), no thread could put a
 * fence between. */
template <int behind> DEVICE void announce(struct ring &oldest)
{
    copy_wait<behind>();
    fence_async();
    sync_warp();
    if (lane() == 0)
        barrier_arrive((uint32_t)(FULL + 8 * oldest.stage));
    advance(oldest);
}

/* Issues the copies of a step.  One thread copies A's tiles by tensor copies, and arrives as it
 * issues them. */
DEVICE void ask_for_step(const multiply_args &a, struct task t, struct ring r, int s)
{
    uint32_t at = (uint32_t)(r.stage * STAGE), full = (uint32_t)(FULL + 8 * r.stage);
    int row = TOTALS ? row_at(a, t, s) : 0, step = TOTALS ? step_at(a, s) : s;

    barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);
    if (thread() == 0) {
        barrier_expect(full, HELD_A * TILE_A);
        UNROLL for (int l = 0; l < HELD_A; l++)
            tensor_load(at + l * TILE_A, &a.map_a, step * (STEP / BYTES), limbs_at_a(a, t),
                        TOTALS ? ROW_A[row] : l, full);
    }
    copy_pixels<GROUP_THREADS, HELD_B, TILE_B>(
        a, at + HELD_A * TILE_A, PIXELS,
        a.limbs_b + t.product * a.next_b + (TOTALS ? ROW_B[row] * a.limb_b : 0), step);
    copy_group();
}

/* Fetches B through the window.  A stage becomes free when the products of the next one have begun.
 * So that one must be announced before another stage is issued: all but two may be in flight. */
DEVICE void fetch_pixels(const multiply_args &a)
{
    constexpr int behind = STAGES - 2;
    struct ring r = { 0, 0 }, oldest = r;
    int asked = 0;              /* stages that are issued but not announced */

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        struct task t = own_task(a, index);
        int steps = steps_of(a, t);

        find_own_pixels(a, (int64_t)t.j * BN);
        ROLL for (int s = 0; s < steps; s++, advance(r)) {
            ask_for_step(a, t, r, s);
            if (asked == behind)
                announce<behind>(oldest);
            else
                asked++;
        }
    }
    ROLL for (; asked > 0; asked--)
        announce<0>(oldest);
    await_products(r);
}

/* ---- fetching elements and splitting them ---------------------------------------------------- */

#if INSIDE
static_assert(BM == 4 * SQUARE && BN == 4 * SQUARE, "each warp cuts 32 lines of both operands");

/* squares of a warp's lines in one step, of one operand; of both */
enum { ALONG = STEP / BYTES / SQUARE, SQUARES = 2 * ALONG };

/* Copies square x of a step: A's squares come first, then B's. */
template <int S> DEVICE void copy_square(const multiply_args &a, struct task t, int slot, int x)
{
    int64_t line0 = ((int64_t)(S ? t.j : t.i) * 4 + warp()) * SQUARE;
    int64_t p0 = ((int64_t)(x / SQUARES) * ALONG + x % ALONG) * SQUARE;

    copy_raw<S, SQUARE, SQUARE, 32>(a, (uint32_t)(RAWS + (warp() * STAGES + slot) * RAW), t.product,
                                    line0, p0, lane());
}

/* Splits a square; each lane takes one line. */
template <int S>
DEVICE void cut_square(const multiply_args &a, uint32_t raw, uint32_t stage, int x,
                       struct factors f)
{
    constexpr int pieces = SQUARE / PIECE_ELEMENTS, tile = S ? TILE_B : TILE_A;
    uint32_t limbs = stage + (S ? HELD_A * TILE_A : 0);

    UNROLL for (int c = 0; c < pieces; c++)
        cut_piece<S, SQUARE, SQUARE, tile>(raw, lane(), c * PIECE_ELEMENTS, a.origin[S].across,
                                           limbs, warp() * SQUARE + lane(), x % ALONG * pieces + c,
                                           f);
}

/* Splits a task's squares.  Each warp has its own ring of elements; all share the ring of limbs. */
DEVICE void cut_task(const multiply_args &a, struct task t, struct ring &r)
{
    struct factors fa = factors_of<0>(a, t.product, (int64_t)t.i * BM + warp() * SQUARE + lane());
    struct factors fb = factors_of<1>(a, t.product, (int64_t)t.j * BN + warp() * SQUARE + lane());

    ring<RAW, true>(a.steps * SQUARES, [&](int slot, int x) {
        if (x % SQUARES < ALONG)
            copy_square<0>(a, t, slot, x);
        else
            copy_square<1>(a, t, slot, x);
    }, [&](uint32_t at, int x) {
        uint32_t raw = (uint32_t)(RAWS + warp() * STAGES * RAW) + at;

        if (x % SQUARES == 0)
            barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);
        if (x % SQUARES < ALONG)
            cut_square<0>(a, raw, (uint32_t)(r.stage * STAGE), x, fa);
        else
            cut_square<1>(a, raw, (uint32_t)(r.stage * STAGE), x, fb);
        if (x % SQUARES == SQUARES - 1) {
            fence_async();      /* products read what these lanes stored */
            sync_warp();
            if (lane() == 0)
                barrier_arrive((uint32_t)(FULL + 8 * r.stage));
            advance(r);
        }
    });
}

/* The fetching warps of plans that make limbs inside the multiply kernel: cut all tasks of this
 * block. */
DEVICE void cut(const multiply_args &a)
{
    struct ring r = { 0, 0 };

    ROLL for (int index = block(); index < a.tasks; index += blocks())
        cut_task(a, task_at(a, index), r);
    await_products(r);
}
#endif

/* ---- a task's steps, by the warps that fetch ------------------------------------------------- */

/* End of a run of steps from s on: the end of the chunk, of the flush interval or of the task. */
DEVICE int end_of(int s, int steps)
{
    int length = UNIT == UNIT_i8 ? FLUSH_STEPS : CHUNK_STEPS, end = (s / length + 1) * length;

    return end < steps ? end : steps;
}

/* First of the tile's 16 rows that this warp stores, with all columns. */
DEVICE int own_row();

/* Stores a task's sums.  They fill the registers, so the destination is computed only now. */
template <class F> DEVICE void put_task(const multiply_args &a, int index, F put)
{
    struct task t = own_task(a, here(index));

    put(result_of(a.r, t.product), t.acc, (int64_t)t.i * BM + own_row(), (int64_t)t.j * BN);
}

/* Initialises the ring's barriers; `readers` threads arrive when a stage has been read. */
DEVICE void start_ring(const multiply_args &a, int readers)
{
    ROLL for (int s = 0; s < LIMB_STAGES; s++) {
        barrier_init((uint32_t)(FULL + 8 * s), INSIDE ? 4 : WINDOW ? 5 : 1);
        barrier_init((uint32_t)(EMPTY + 8 * s), readers * a.cluster);
    }
    if (!INSIDE)
        tensor_prefetch(&a.map_a);
    if (!INSIDE && !WINDOW)
        tensor_prefetch(&a.map_b);
}

/* Runs the warps that fetch, for the whole kernel: they make limbs, or start copies of pixels or
 * tiles to shared memory. */
DEVICE void fetch_all(const multiply_args &a)
{
#if INSIDE
    cut(a);
#else
    if constexpr (WINDOW)
        fetch_pixels(a);
    else if (thread() == 0)
        fetch(a);
#endif
}

#endif
