/* SPDX-License-Identifier: BSD-3-Clause
 * The producer warps of multiply kernels whose instructions read shared memory directly.  The first
 * 128 threads fill a ring of pipeline stages in shared memory in one of three ways: one thread
 * starts tensor copies, or all threads copy 16 bytes at a time through a convolution's window, or
 * all split elements into limbs.  Thread blocks are persistent and compute one task after another;
 * the ring continues across tasks.
 *
 * The blocks of a cluster compute neighbouring tiles in the same columns of C, and each fetches a
 * share of B's tile for all.  So a stage is free when all blocks have multiplied it.  A block
 * without a tile takes part with zeros or, in a batch, with rows of the next product; its results
 * are not stored. */
#ifndef LIMBER_CUDA_FETCH_H
#define LIMBER_CUDA_FETCH_H

enum {
    GROUPS = BM / 64, NJ = BN / 8, GROUP_THREADS = 128,
    TILE_A = BM * STEP, TILE_B = BN * STEP,
    HELD_A = TOTALS ? 1 : LIMBS_A, HELD_B = TOTALS ? 1 : LIMBS_B,
    SCALES_AT = HELD_A * TILE_A + HELD_B * TILE_B,  /* block scales are stored after the limbs */
    STAGE = SCALES_AT + SCALES * (BM + BN),
    /* if this kernel splits elements: each of a warp's STAGES holds a square of 32 x 32 elements */
    SQUARE = 32, RAW = SQUARE * SQUARE * 4, LIMB_STAGES = INSIDE ? 2 : STAGES,
    RAWS = LIMB_STAGES * STAGE, FULL = RAWS + (INSIDE ? 4 * STAGES * RAW : 0),
    EMPTY = FULL + 8 * LIMB_STAGES,
    PARTS = EMPTY + 8 * LIMB_STAGES,    /* barriers for sums in tensor memory (tensor.h) */
    PIXELS = PARTS + (COLUMNS_TAKEN ? 48 : 0),  /* table of the windows' first pixels (window.h) */
    PIECES = STEP / 32          /* 32-byte pieces of a step; an instruction multiplies one piece */
};

static_assert(CLUSTER <= 2, "pairs() shifts");
static_assert(!SCALES || !(WINDOW || INSIDE), "scales come as they were packed");

/* A position in the ring: the pipeline stage, and a parity that changes with each round through the
 * ring. */
struct ring { int stage; uint32_t parity; };

/* Moves on to the next stage. */
DEVICE void advance(struct ring &r)
{
    if (++r.stage == LIMB_STAGES) {
        r.stage = 0;
        r.parity ^= 1;
    }
}

/* Returns the number of steps of a task.  With exact totals, a task runs through all of k for each
 * row of the product table.  With float sums, it runs through k once, for all rows. */
DEVICE int steps_of(const multiply_args &a, struct task t)
{
    return TOTALS ? rows_of(t) * a.steps : a.steps;
}

/* Returns 1 if clusters have two blocks, 0 if one.  Callers shift by it instead of dividing in
 * loops. */
DEVICE int pairs(const multiply_args &a) { return a.cluster - 1; }

/* False if step s of a task can be skipped.  In a part of a product (docs/mixed.md) that uses only
 * some tiles of A and B, these are the steps at whose k no tile of A in the task's rows is used, or
 * no tile of B in its columns.  Producers and consumers skip the same steps. */
DEVICE bool is_step_needed(const multiply_args &a, struct task t, int s)
{
    int part;

    if (!PARTED || !a.shown_a)
        return true;
    part = (TOTALS ? step_at(a, s) : s) >> a.shown_shift;
    return load<uint8_t>(a.shown_a + (t.i >> pairs(a)) * a.shown + part) &&
           load<uint8_t>(a.shown_b + t.j * a.shown + part);
}

/* Returns the task of this block: its own tile of the cluster's task number `index`. */
DEVICE struct task own_task(const multiply_args &a, int index)
{
    struct task t = task_at(a, index);

    t.i = t.i * a.cluster + block() % a.cluster;
    return t;
}

/* Waits until all pipeline stages of the ring are free.  tcgen05 instructions, also those of the
 * cluster's other block, arrive at this block's barriers when they complete, so the block must not
 * end before. */
DEVICE void await_products(struct ring r)
{
    if (COLUMNS_TAKEN)
        ROLL for (int s = 0; s < LIMB_STAGES; s++, advance(r))
            barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);
}

/* ---- tensor copies of a step ----------------------------------------------------------------- */

/* Fetches the tile of one limb of B into shared memory at `at`.  In a cluster of two blocks each
 * block fetches half of the tile, for both.  full: the barrier that counts the copied bytes. */
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
/* Fetches the block scales of a step, which are contiguous for a tile.  A block without a tile of C
 * fetches those of line 0: its own would lie beyond the end of A's scales, and bulk copies, unlike
 * tensor copies, do not check bounds. */
DEVICE void fetch_scales(const multiply_args &a, struct task t, uint32_t at, int s, uint32_t full)
{
    int64_t line_a = (int64_t)t.i * BM < a.r.m ? limbs_at_a(a, t) : 0, line_b = limbs_at_b(a, t);
    int64_t step = (int64_t)s * SCALES;

    bulk_load(at + SCALES_AT, a.scales_a + line_a * a.scale_pitch + step * BM, SCALES * BM, full);
    bulk_load(at + SCALES_AT + SCALES * BM, a.scales_b + line_b * a.scale_pitch + step * BN,
              SCALES * BN, full);
}
#endif

/* Fetches the tiles of step s into the ring's pipeline stage, once all blocks have multiplied its
 * previous tiles. */
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

/* The producer thread's loop: fetches the tiles of all tasks of this block, step by step. */
DEVICE void fetch(const multiply_args &a)
{
    struct ring r = { 0, 0 };

    ROLL for (int index = block() / a.cluster; index < a.tasks; index += blocks() / a.cluster) {
        struct task t = own_task(a, index);
        int steps = steps_of(a, t);

        ROLL for (int s = 0; s < steps; s++)
            if (is_step_needed(a, t, s)) {
                fetch_step(a, t, r, s);
                advance(r);
            }
    }
    await_products(r);
}

/* ---- copies through the window of a convolution ---------------------------------------------- */

/* Fills this warp's entries of the table of first pixels: those of the columns of B whose pieces
 * the warp copies in copy_pixels. */
DEVICE void find_own_pixels(const multiply_args &a, int64_t j0)
{
    constexpr int every = GROUP_THREADS * 16 / STEP, own = every / 4;

    sync_warp();                /* all lanes have issued the copies of the previous task */
    ROLL for (int x = lane(); x < BN / 4; x += 32) {
        int line = x / own * every + warp() * own + x % own;

        store_shared<struct pixel>((uint32_t)(PIXELS + line * PIXEL), pixel_of(a, j0 + line));
    }
    sync_warp();
}

/* Tells the barrier of the oldest pipeline stage that this thread's copies to it are complete.
 * cp.async writes through the generic proxy, and after a thread has waited for its copies they
 * count as its own stores.  The fence orders them before later accesses of the asynchronous proxy,
 * and the arrival releases them to threads that wait at the barrier.  If copies arrived themselves
 * (cp.async.mbarrier.arrive), there would be no such fence. */
template <int behind> DEVICE void announce(struct ring &oldest)
{
    copy_wait<behind>();
    fence_async();
    sync_warp();
    if (lane() == 0)
        barrier_arrive((uint32_t)(FULL + 8 * oldest.stage));
    advance(oldest);
}

/* Issues the copies of a step into a pipeline stage.  One thread starts tensor copies of A's tiles,
 * and arrives at the barrier at once. */
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

/* The producer warps' loop if B is read through a window.  A pipeline stage becomes free when the
 * products of the next stage have begun.  So the next stage must be announced (its barrier told
 * that it is filled) before copies to another one are issued: at most STAGES - 2 stages may be
 * issued but not announced. */
DEVICE void fetch_pixels(const multiply_args &a)
{
    constexpr int behind = STAGES - 2;
    struct ring r = { 0, 0 }, oldest = r;
    int asked = 0;              /* number of stages that are issued but not yet announced */

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

/* number of 32 x 32 squares of elements that a warp splits in one step: of one operand, and of
 * both */
enum { ALONG = STEP / BYTES / SQUARE, SQUARES = 2 * ALONG };

/* Copies square x of a task to shared memory.  In each step A's squares are first, then B's. */
template <int S> DEVICE void copy_square(const multiply_args &a, struct task t, int slot, int x)
{
    int64_t line0 = ((int64_t)(S ? t.j : t.i) * 4 + warp()) * SQUARE;
    int64_t p0 = ((int64_t)(x / SQUARES) * ALONG + x % ALONG) * SQUARE;

    copy_raw<S, SQUARE, SQUARE, 32>(a, (uint32_t)(RAWS + (warp() * STAGES + slot) * RAW), t.product,
                                    line0, p0, lane());
}

/* Splits a square of elements into limbs.  Each lane splits one row of A or column of B. */
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

/* Splits all squares of a task into limbs.  Each warp has its own ring of elements; all warps share
 * the ring of limbs. */
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
            fence_async(); /* products read what these lanes stored, by the asynchronous proxy */
            sync_warp();
            if (lane() == 0)
                barrier_arrive((uint32_t)(FULL + 8 * r.stage));
            advance(r);
        }
    });
}

/* The producer warps' loop if limbs are made inside the multiply kernel: splits the elements of all
 * tasks of this block. */
DEVICE void cut_tasks(const multiply_args &a)
{
    struct ring r = { 0, 0 };

    ROLL for (int index = block(); index < a.tasks; index += blocks())
        cut_task(a, task_at(a, index), r);
    await_products(r);
}
#endif

/* ---- steps of a task; start of the ring ------------------------------------------------------ */

/* Returns the step at which a run of steps from s on must end: the end of the chain or of the
 * interval after which exact totals are stored, but at most `steps`, the end of the task. */
DEVICE int end_of(int s, int steps)
{
    int length = UNIT == UNIT_i8 ? FLUSH_STEPS : CHUNK_STEPS, end = (s / length + 1) * length;

    return end < steps ? end : steps;
}

/* Returns the first of the 16 rows of the tile that this warp stores. */
DEVICE int own_row();

/* Calls `put` with the destination of a task's sums.  The destination is computed as late as
 * possible, since the sums fill the registers. */
template <class F> DEVICE void put_task(const multiply_args &a, int index, F put)
{
    struct task t = own_task(a, compute_here(index));

    put(result_of(a.r, t.product), t.acc, (int64_t)t.i * BM + own_row(), (int64_t)t.j * BN);
}

/* Initialises the ring's barriers.  readers: number of arrivals of one block that free a pipeline
 * stage. */
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

/* Runs the producer warps' loop for the whole kernel. */
DEVICE void fetch_all(const multiply_args &a)
{
#if INSIDE
    cut_tasks(a);
#else
    if constexpr (WINDOW)
        fetch_pixels(a);
    else if (thread() == 0)
        fetch(a);
#endif
}

#endif
