/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel without tensor cores: fused multiply-adds in FP32 and FP64, and dot products
 * of four bytes.  A thread computes TI x TJ elements of C. */
#ifndef LIMBER_CUDA_LANE_H
#define LIMBER_CUDA_LANE_H

enum {
    TI = 8, TJ = UNIT == UNIT_f64 ? 4 : 8, WARP_M = 4 * TI, WARP_N = 8 * TJ,
    WARPS_N = BN / WARP_N, THREADS = BM / WARP_M * WARPS_N * 32,
    TILE_A = BM * STEP, TILE_B = BN * STEP, STAGE = TILE_A + TILE_B,
    PIXELS = STAGES * STAGE     /* table of the windows' first pixels (window.h) */
};

typedef sum_type sum;
typedef sum sums[TI * TJ];

/* Rows and columns of a lane in its warp's tile: lane l has rows (l >> 3) + 4 i and columns (l & 7)
 * + 8 j, so that neighbouring lanes read different banks. */
DEVICE int lane_row(int i) { return (lane() >> 3) + 4 * i; }
DEVICE int lane_column(int j) { return (lane() & 7) + 8 * j; }

/* Copies the tiles of step s of a task to a pipeline stage. */
DEVICE void copy_stage(const multiply_args &a, struct task t, int stage, int s)
{
    int row = row_at(a, t, s), step = step_at(a, s);
    const char *from_a = a.limbs_a + ROW_A[row] * a.limb_a + limbs_at_a(a, t) * a.pitch;
    const char *from_b = a.limbs_b + ROW_B[row] * a.limb_b;
    uint32_t at = (uint32_t)(stage * STAGE);

    copy_tile<BM, THREADS>(at, from_a + step * STEP, a.pitch);
    if constexpr (WINDOW)
        copy_pixels<THREADS, 1, TILE_B>(a, at + TILE_A, PIXELS, from_b + t.product * a.next_b,
                                        step);
    else
        copy_tile<BN, THREADS>(at + TILE_A, from_b + limbs_at_b(a, t) * a.pitch + step * STEP,
                               a.pitch);
}

/* ---- products of one piece of 16 bytes along k ----------------------------------------------- */

/* Adds the products of 16 bytes along k to d, in the order of k. */
DEVICE void multiply_add(float &d, const bytes16 &a, const bytes16 &b, int)
{
    UNROLL for (int q = 0; q < 4; q++)
        d = fma32(bits_float(a.w[q]), bits_float(b.w[q]), d);
}

/* Returns double q of the two in a piece. */
DEVICE double double_at(const bytes16 &v, int q)
{
    return bits_double(v.w[2 * q] | (uint64_t)v.w[2 * q + 1] << 32);
}

DEVICE void multiply_add(double &d, const bytes16 &a, const bytes16 &b, int)
{
    UNROLL for (int q = 0; q < 2; q++)
        d = fma64(double_at(a, q), double_at(b, q), d);
}

/* Returns d plus 16 products of 8-bit integers.  SA, SB: 1 if those of a, or of b, are signed. */
template <int SA, int SB> DEVICE int32_t dot16(int32_t d, const bytes16 &a, const bytes16 &b)
{
    UNROLL for (int q = 0; q < 4; q++)
        d = dot4<SA, SB>(a.w[q], b.w[q], d);
    return d;
}

DEVICE void multiply_add(int32_t &d, const bytes16 &a, const bytes16 &b, int signs)
{
    d = signs == 0 ? dot16<0, 0>(d, a, b) : signs == 1 ? dot16<0, 1>(d, a, b) :
        signs == 2 ? dot16<1, 0>(d, a, b) : dot16<1, 1>(d, a, b);
}

/* Multiplies this thread's rows of A by its columns of B, for one pipeline stage.  signs: 2 if A's
 * limb is signed, plus 1 if B's is. */
DEVICE void multiply_stage(sums &d, uint32_t stage, int line_a, int line_b, int signs)
{
    ROLL for (int c = 0; c < STEP / 16; c++) {    /* each round has at least 64 multiply-adds */
        bytes16 a[TI], b;

        UNROLL for (int i = 0; i < TI; i++)
            a[i] = load_shared<bytes16>(stage + piece_at(line_a + lane_row(i), c));
        UNROLL for (int j = 0; j < TJ; j++) {
            b = load_shared<bytes16>(stage + TILE_A + piece_at(line_b + lane_column(j), c));
            UNROLL for (int i = 0; i < TI; i++)
                multiply_add(d[i * TJ + j], a[i], b, signs);
        }
    }
}

/* ---- tasks: a block's totals or sums --------------------------------------------------------- */

/* Fetches the tiles of all steps of a task, and calls with(offset of the pipeline stage, step), a
 * function, when a step's tiles are in shared memory. */
template <class F> DEVICE void pipeline(const multiply_args &a, struct task t, int steps, F with)
{
    if constexpr (WINDOW)
        find_pixels<THREADS>(a, PIXELS, t.j);
    ring<STAGE>(steps, [&](int stage, int s) { copy_stage(a, t, stage, s); }, with);
}

/* Calls with(row, column, sum), a function, for each of this thread's elements. */
template <class F> DEVICE void each_element(const sums &d, int64_t i0, int64_t j0, F with)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            with(i0 + lane_row(i), j0 + lane_column(j), d[i * TJ + j]);
}

/* Stores sums as exact totals or, if not `first`, adds them to the totals in memory. */
DEVICE void flush_totals(const result_args &r, int acc, int64_t i0, int64_t j0, const sums &d,
                         bool first)
{
    UNROLL for (int i = 0; i < TI; i++) {
        int64_t row = i0 + lane_row(i), column = j0 + lane_column(0);
        char *at = r.totals + acc * r.total_size + row * r.total_pitch;

        if (row >= r.m)
            continue;
        UNROLL for (int j = 0; j < TJ; j++) {
            int64_t v = (int64_t)d[i * TJ + j];

            if (!r.wide)
                store<int32_t>((int32_t *)at + column + 8 * j, (int32_t)v);
            else if (first)
                store<int64_t>((int64_t *)at + column + 8 * j, v);
            else
                atomic_add((uint64_t *)at + column + 8 * j, (uint64_t)v);
        }
    }
}

/* Stores sums as residues modulo the accumulator's modulus. */
DEVICE void flush_residues(const result_args &r, int acc, int64_t i0, int64_t j0, const sums &d)
{
    each_element(d, i0, j0, [&](int64_t i, int64_t j, sum v) {
        if (i < r.m)
            store<uint8_t>(r.totals + acc * r.total_size + i * r.total_pitch + j,
                           (uint8_t)limber_mod32((int32_t)v, MODULUS[acc], QUOTIENT[acc]));
    });
}

/* Computes a task with exact totals, which are reduced to residues or stored before they can
 * overflow. */
DEVICE void totals_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    int64_t i0 = (int64_t)t.i * BM + line_a, j0 = (int64_t)t.j * BN + line_b;
    int steps = rows_of(t) * a.steps, flushed = 0;
    sums d;

    clear(d);
    pipeline(a, t, steps, [&](uint32_t stage, int s) {
        multiply_stage(d, stage, line_a, line_b, SIGNS_OF[row_at(a, t, s)]);
        if ((s + 1) % FLUSH_STEPS || s + 1 == steps)
            return;
        if (RECONSTRUCT == RECONSTRUCT_crt) {
            UNROLL for (int x = 0; x < TI * TJ; x++)
                d[x] = (sum)limber_mod32((int32_t)d[x], MODULUS[t.acc], QUOTIENT[t.acc]);
        } else {
            flush_totals(result_of(a.r, t.product), t.acc, i0, j0, d, flushed++ == 0);
            clear(d);
        }
    });
    if (RECONSTRUCT == RECONSTRUCT_crt)
        flush_residues(result_of(a.r, t.product), t.acc, i0, j0, d);
    else
        flush_totals(result_of(a.r, t.product), t.acc, i0, j0, d, flushed == 0);
}

/* Stores float sums: to C, which may have any layout, or unless DIRECT for the reconstruct kernel.
 * Registers cannot be indexed, so the loop for unusual layouts shifts all sums towards d[0], which
 * destroys d. */
DEVICE void put_lanes(const result_args &r, int64_t i0, int64_t j0, sums &d)
{
    if constexpr (!DIRECT) {
        UNROLL for (int i = 0; i < TI; i++) {
            int64_t row = i0 + lane_row(i);
            char *at = r.totals + row * r.total_pitch + (j0 + lane_column(0)) * 8;

            if (row < r.m)
                UNROLL for (int j = 0; j < TJ; j++)
                    store<double>(at + 64 * j, (double)d[i * TJ + j]);
        }
        return;
    }
    if (int64_t base; is_simple(r, j0, WARP_N, base)) {
        UNROLL for (int i = 0; i < TI; i++)
            put_line<TJ>(r, base, i0 + lane_row(i), j0 + lane_column(0), 8,
                         [&](int j) { return sum_of(&d[i * TJ + j], 0); });
        return;
    }
    ROLL for (int x = 0; x < TI * TJ; x += 4) {
        UNROLL for (int q = 0; q < 4; q++)
            put_sum(r, i0 + lane_row((x + q) / TJ), j0 + lane_column((x + q) % TJ), (double)d[q]);
        UNROLL for (int y = 0; y + 4 < TI * TJ; y++)
            d[y] = d[y + 4];
    }
}

/* Computes a task with float sums, which are added to a total after every chunk. */
DEVICE void sums_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    sums d, total;

    clear(d);
    start(total, a.steps);
    pipeline(a, t, a.steps, [&](uint32_t stage, int s) {
        multiply_stage(d, stage, line_a, line_b, 0);
        if ((s + 1) % CHUNK_STEPS == 0 || s + 1 == a.steps) {
            promote(total, d);
            clear(d);
        }
    });
    put_lanes(result_of(a.r, t.product), (int64_t)t.i * BM + line_a, (int64_t)t.j * BN + line_b,
              total);
}

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* The multiply kernel: each block computes one task after another. */
KERNEL(limber_multiply, struct multiply_args, THREADS, 1)
{
    int line_a = warp() / WARPS_N * WARP_M, line_b = warp() % WARPS_N * WARP_N;

    await_launch();
    let_next_begin();
    if (is_left(args.r.choice, args.r.mine))
        return;
    ROLL for (int index = block(); index < args.tasks; index += blocks()) {
        struct task t = task_at(args, index);

        if constexpr (TOTALS)
            totals_task(args, t, line_a, line_b);
        else
            sums_task(args, t, line_a, line_b);
    }
}

#endif
