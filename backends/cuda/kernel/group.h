/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel of warpgroups: a first group fetches tiles into a ring of stages, one thread
 * of it by tensor copies, or all of them piece by piece through a convolution's window, or cutting
 * elements into limbs; two groups multiply 64 lines each straight from shared memory.  Blocks stay
 * and take one task after another; the ring runs on across them.
 *
 * The blocks of a cluster have neighbouring tiles of the same columns: each fetches its part of B's
 * tile for all of them.  So a stage is free when the groups of all have read it, and one that has
 * no tile left goes along with zeros. */
#ifndef LIMBER_CUDA_GROUP_H
#define LIMBER_CUDA_GROUP_H

enum {
    GROUPS = BM / 64, NJ = BN / 8, GROUP_THREADS = 128, THREADS = (GROUPS + 1) * GROUP_THREADS,
    TILE_A = BM * STEP, TILE_B = BN * STEP,
    HELD_A = TOTALS ? 1 : LIMBS_A, HELD_B = TOTALS ? 1 : LIMBS_B,
    STAGE = HELD_A * TILE_A + HELD_B * TILE_B,
    /* elements that become limbs inside: a square of 32 x 32 is one of a warp's STAGES */
    SQUARE = 32, RAW = SQUARE * SQUARE * 4, LIMB_STAGES = INSIDE ? 2 : STAGES,
    RAWS = LIMB_STAGES * STAGE, FULL = RAWS + (INSIDE ? 4 * STAGES * RAW : 0),
    EMPTY = FULL + 8 * LIMB_STAGES,
    PIXELS = EMPTY + 8 * LIMB_STAGES,   /* the window's table */
    PIECES = STEP / 32          /* products of one step */
};

/* Where the ring stands: its stage, and how often it has gone round. */
struct ring { int stage; uint32_t parity; };

DEVICE void advance(struct ring &r)
{
    if (++r.stage == LIMB_STAGES) {
        r.stage = 0;
        r.parity ^= 1;
    }
}

DEVICE int steps_of(const multiply_args &a, struct task t)
{
    return TOTALS ? rows_of(t) * a.steps : a.steps;
}

/* Whether step s of a task has anything to multiply: where parts of k show nothing of a row of
 * tiles, or of a column of them, neither the fetching thread nor those who multiply know of the
 * step. */
DEVICE bool is_shown(const multiply_args &a, struct task t, int s)
{
    int part;

    if (!PARTED || !a.shown_a)
        return true;
    part = (TOTALS ? step_at(a, s) : s) / a.shown_steps;
    return load<uint8_t>(a.shown_a + t.i / a.cluster * a.shown + part) &&
           load<uint8_t>(a.shown_b + t.j * a.shown + part);
}

/* This block's tile of its cluster's task. */
DEVICE struct task own_task(const multiply_args &a, int index)
{
    struct task t = task_at(a, index);

    t.i = t.i * a.cluster + block() % a.cluster;
    return t;
}

/* ---- fetching -------------------------------------------------------------------------------- */

DEVICE void fetch_b(const multiply_args &a, uint32_t at, int x, int line, int limb, uint32_t full)
{
    int lines = BN / a.cluster, from = block() % a.cluster * lines;

    if (a.cluster == 1)
        tensor_load(at, &a.map_b, x, line, limb, full);
    else
        tensor_load_all(at + (uint32_t)(from * STEP), &a.map_b, x, line + from, limb, full,
                        (1u << a.cluster) - 1);
}

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
}

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
}

/* ---- fetching through a window --------------------------------------------------------------- */

/* Lines whose pieces a warp copies (those of copy_pixels): their part of the table is its own. */
DEVICE void find_own_pixels(const multiply_args &a, int64_t j0)
{
    constexpr int every = GROUP_THREADS * 16 / STEP, own = every / 4;

    sync_warp();                /* the last task's copies have been asked for */
    ROLL for (int x = lane(); x < BN / 4; x += 32) {
        int line = x / own * every + warp() * own + x % own;

        store_shared<struct pixel>((uint32_t)(PIXELS + line * PIXEL), pixel_of(a, j0 + line));
    }
    sync_warp();
}

/* The oldest stage that was asked for is there.  Why products may read it: cp.async writes through
 * the generic proxy, and once a thread has waited for its copies they are as if it had stored them;
 * its own fence orders them before what the asynchronous proxy does later, and the arrival releases
 * all of that to those who wait for the barrier.  Were the copies to arrive at the barrier by
 * themselves (cp.async.mbarrier.arrive), no thread could fence between the two. */
template <int behind> DEVICE void announce(struct ring &oldest)
{
    copy_wait<behind>();
    fence_async();
    sync_warp();
    if (lane() == 0)
        barrier_arrive((uint32_t)(FULL + 8 * oldest.stage));
    advance(oldest);
}

/* A's tiles are one thread's tensor copies; it arrives as it asks for them. */
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
        a, at + HELD_A * TILE_A, PIXELS, a.limbs_b + (TOTALS ? ROW_B[row] * a.limb_b : 0), step);
    copy_group();
}

/* A stage is free again when the products of the next one have begun, so that one must have been
 * announced before another is asked for: all but two of the ring may still be on their way. */
DEVICE void fetch_pixels(const multiply_args &a)
{
    constexpr int behind = STAGES - 2;
    struct ring r = { 0, 0 }, oldest = r;
    int asked = 0;              /* stages, not announced */

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
}

/* ---- fetching elements and cutting them ------------------------------------------------------ */

#if INSIDE
static_assert(BM == 4 * SQUARE && BN == 4 * SQUARE, "each warp cuts 32 lines of both operands");

enum { ALONG = STEP / BYTES / SQUARE, SQUARES = 2 * ALONG };    /* of a warp's lines in one step */

/* Square x of a step: those of A, then those of B. */
template <int S> DEVICE void copy_square(const multiply_args &a, struct task t, int slot, int x)
{
    int64_t line0 = ((int64_t)(S ? t.j : t.i) * 4 + warp()) * SQUARE;
    int64_t p0 = ((int64_t)(x / SQUARES) * ALONG + x % ALONG) * SQUARE;

    copy_raw<S, SQUARE, SQUARE, 32>(a, (uint32_t)(RAWS + (warp() * STAGES + slot) * RAW), t.product,
                                    line0, p0, lane());
}

/* Each lane cuts its line. */
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

/* A task's squares; the ring of elements is each warp's own, that of limbs all warps' together. */
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
            fence_async();      /* products read what these lanes have stored */
            sync_warp();
            if (lane() == 0)
                barrier_arrive((uint32_t)(FULL + 8 * r.stage));
            advance(r);
        }
    });
}

DEVICE void cut(const multiply_args &a)
{
    struct ring r = { 0, 0 };

    ROLL for (int index = block(); index < a.tasks; index += blocks())
        cut_task(a, task_at(a, index), r);
}
#endif

/* ---- multiplying ----------------------------------------------------------------------------- */

#define AS_TILES(d) (*(sum (*)[1][NJ][4])(d))

template <int SA, int SB>
DEVICE void product_i8(int32_t (&d)[4 * NJ], uint32_t a, uint32_t b, int keep)
{
    group_fence();
    UNROLL for (int q = 0; q < PIECES; q++)
        group_i8<BN, SA, SB>(d, tile_descriptor(a, 32 * q), tile_descriptor(b, 32 * q),
                             (keep | q) != 0);
    group_commit();
}

/* One group; a commit behind the branches would make ptxas begin, and await, another there. */
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

DEVICE void product(float (&d)[4 * NJ], uint32_t a, uint32_t b, int, int keep)
{
    group_fence();
    UNROLL for (int q = 0; q < PIECES; q++)
        product_piece(d, a, b, q, (keep | q) != 0);
    group_commit();
}

/* The stage's tiles have been read by this warp's products: all that write there are told. */
DEVICE void release(const multiply_args &a, int stage)
{
    if (lane() < a.cluster)
        barrier_arrive_in((uint32_t)(EMPTY + 8 * stage), lane());
}

/* Steps [s, end) of one accumulator; then its sums are there and all stages are free. */
template <class sum>
DEVICE void multiply_steps(sum (&d)[4 * NJ], const multiply_args &a, struct task t, struct ring &r,
                           int line, int s, int end, int keep)
{
    int held = -1;              /* the stage that the newest products but one read */

    ROLL for (; s < end; s++) {
        uint32_t at = (uint32_t)(r.stage * STAGE);

        if (!is_shown(a, t, s))
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
    group_keep(d);
    if (held >= 0)
        release(a, held);
    if (PARTED && !keep)        /* nothing was shown */
        clear(d);
}

/* Where a run of steps from s on ends: with the chunk, the flush or the task. */
DEVICE int end_of(int s, int steps)
{
    int length = UNIT == UNIT_i8 ? FLUSH_STEPS : CHUNK_STEPS, end = (s / length + 1) * length;

    return end < steps ? end : steps;
}

/* Of this warp's part of a tile. */
DEVICE int64_t first_row(struct task t, int line)
{
    return (int64_t)t.i * BM + here(line) + (here(thread()) >> 5 & 3) * 16;
}

DEVICE int64_t first_column(struct task t) { return (int64_t)t.j * BN; }

/* The sums fill the registers: where they go is found when it is needed. */
template <class F> DEVICE void put_task(const multiply_args &a, int index, int line, F put)
{
    struct task t = own_task(a, here(index));

    put(result_of(a.r, t.product), t.acc, first_row(t, line), first_column(t));
}

template <class sum>
DEVICE void totals_task(const multiply_args &a, int index, struct ring &r, int line)
{
    struct task t = own_task(a, index);
    int steps = steps_of(a, t), flushed = 0, keep = 0, s = 0, end;
    int32_t total[1][NJ][4];    /* of chunks of floats */
    sum d[4 * NJ];
    auto put = [&](auto &sums) {
        put_task(a, index, line, [&](const result_args &to, int acc, int64_t i, int64_t j) {
            put_totals(to, acc, i, j, sums, flushed++ == 0);
        });
    };

    clear(d);
    if (UNIT != UNIT_i8)
        clear(*(int32_t (*)[4 * NJ])total);
    do {                        /* once where there are no steps */
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
        put_task(a, index, line, [&](const result_args &to, int acc, int64_t i, int64_t j) {
            if constexpr (UNIT == UNIT_i8)
                put_residues_of(to, acc, i, j, AS_TILES(d));
            else
                put_residues_of(to, acc, i, j, total);
        });
}

/* Rows r and up of one piece; the first row of an accumulator may begin a sum. */
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

/* The first accumulator is promoted, the others run through. */
template <class sum>
DEVICE void sums_task(const multiply_args &a, int index, struct ring &r, int line)
{
    struct task t = own_task(a, index);     /* of parts that show nothing */
    sum d[ACCUMULATORS][4 * NJ], total[4 * NJ];
    int through = 0;

    clear(total);
    UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
        clear(d[acc]);
    ROLL for (int s = 0; s < a.steps;) {
        int end = end_of(s, a.steps), held = -1, keep = 0;

        ROLL for (; s < end; s++) {
            if (!is_shown(a, t, s))
                continue;
            barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);
            group_fence();
            UNROLL for (int q = 0; q < PIECES; q++)     /* rows take turns every 32 bytes */
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
            group_keep(d[acc]);
        if (PARTED && held < 0)
            continue;
        release(a, held);
        promote(total, d[0]);
    }
    UNROLL for (int x = 0; x < 4 * NJ; x++)
        d[0][x] = total[x];
    put_task(a, index, line, [&](const result_args &to, int, int64_t i, int64_t j) {
        put_sums(to, i, j, *(sum (*)[ACCUMULATORS][1][NJ][4])d);
    });
}

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

/* Of a thread; a block is launched with 168 for each. */
enum { FETCHING = INSIDE ? 72 : WINDOW ? 40 : 24, MULTIPLYING = INSIDE ? 216 : WINDOW ? 232 : 240 };
static_assert(GROUPS != 2 || FETCHING + GROUPS * MULTIPLYING <= (GROUPS + 1) * 168, "registers");

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

KERNEL(limber_multiply, struct multiply_args, THREADS, 1)
{
    if (is_left(args.r.choice, args.r.mine))
        return;
    if (thread() == 0) {
        ROLL for (int s = 0; s < LIMB_STAGES; s++) {
            barrier_init((uint32_t)(FULL + 8 * s), INSIDE ? 4 : WINDOW ? 5 : 1);
            barrier_init((uint32_t)(EMPTY + 8 * s), 4 * GROUPS * args.cluster);
        }
        barrier_init_done();
        if (!INSIDE)
            tensor_prefetch(&args.map_a);
        if (!INSIDE && !WINDOW)
            tensor_prefetch(&args.map_b);
    }
    sync_cluster();
    if (warp() < 4) {
        registers_less<FETCHING>();
#if INSIDE
        cut(args);
#else
        if constexpr (WINDOW)
            fetch_pixels(args);
        else if (thread() == 0)
            fetch(args);
#endif
    } else {
        registers_more<MULTIPLYING>();
        multiply(args);
    }
    sync_cluster();             /* until then others may still arrive here */
}

#endif
