/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel with WMMA.  The layout of its registers is not specified, so sums are stored
 * through shared memory.  Rows of tiles are padded, not swizzled.  Devices without asynchronous
 * copies fill pipeline stages synchronously. */
#ifndef LIMBER_CUDA_PORTABLE_H
#define LIMBER_CUDA_PORTABLE_H

enum {
    MI = WM / 16, NJ = WN / 16, WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32,
    LINE = STEP + 16, LD = LINE / 2,    /* bytes and elements of a padded row of a tile */
    TILE_A = BM * LINE, TILE_B = BN * LINE,
    HELD_A = TOTALS ? 1 : LIMBS_A, HELD_B = TOTALS ? 1 : LIMBS_B,
    STAGE = HELD_A * TILE_A + HELD_B * TILE_B,
    /* buffers of each warp through which 16 x 16 sums are stored, one buffer per accumulator */
    OUT_LD = 24, OUT = 16 * OUT_LD * 4, OUTS = STAGES * STAGE, OUT_SUMS = TOTALS ? 1 : ACCUMULATORS
};

/* Copies one step along k of `lines` rows of A or columns of B to shared memory. */
template <int lines> DEVICE void copy_lines(uint32_t at, const char *from, int64_t pitch)
{
    constexpr int pieces = STEP / 16;

    ROLL for (int c = thread(); c < lines * pieces; c += THREADS)
        copy16(at + (uint32_t)(c / pieces * LINE + c % pieces * 16),
               from + c / pieces * pitch + c % pieces * 16, 16);
}

/* Copies the tiles of step s of a task to a pipeline stage. */
DEVICE void copy_stage(const multiply_args &a, struct task t, int stage, int s)
{
    uint32_t at = (uint32_t)(stage * STAGE);
    int row = TOTALS ? row_at(a, t, s) : 0, step = TOTALS ? step_at(a, s) : s;
    const char *from_a = a.limbs_a + limbs_at_a(a, t) * a.pitch + (int64_t)step * STEP;
    const char *from_b = a.limbs_b + limbs_at_b(a, t) * a.pitch + (int64_t)step * STEP;

    UNROLL for (int l = 0; l < HELD_A; l++)
        copy_lines<BM>(at + l * TILE_A, from_a + (TOTALS ? ROW_A[row] : l) * a.limb_a, a.pitch);
    UNROLL for (int l = 0; l < HELD_B; l++)
        copy_lines<BN>(at + HELD_A * TILE_A + l * TILE_B,
                       from_b + (TOTALS ? ROW_B[row] : l) * a.limb_b, a.pitch);
}

/* ---- products of 16 x 16 tiles by WMMA ------------------------------------------------------ */

typedef float tile_sums[MI][NJ][8];
/* Gives sums [MI][NJ][8] the type of a flat array. */
#define FLAT8(type, d) (*(type (*)[MI * NJ * 8])(d))

/* Multiplies the warp's rows of a tile of A by its columns of a tile of B, for 16 elements along k:
 * piece q of the step. */
DEVICE void multiply_pair(tile_sums &d, uint32_t a, uint32_t b, int q)
{
    uint32_t right[NJ][8], left[8];

    UNROLL for (int j = 0; j < NJ; j++)
        wmma_load_b(right[j], b + (uint32_t)(16 * j * LINE + 32 * q), LD);
    UNROLL for (int i = 0; i < MI; i++) {
        wmma_load_a(left, a + (uint32_t)(16 * i * LINE + 32 * q), LD);
        UNROLL for (int j = 0; j < NJ; j++)
            wmma_f16(d[i][j], left, right[j]);
    }
}

/* Multiplies piece q of a step for row r of the product table and all later rows. */
template <int r>
DEVICE void multiply_rows(tile_sums (&d)[ACCUMULATORS], uint32_t a, uint32_t b, int q)
{
    if constexpr (r < ROWS) {
        multiply_pair(d[ROW[r].acc], a + ROW[r].a * TILE_A, b + ROW[r].b * TILE_B, q);
        multiply_rows<r + 1>(d, a, b, q);
    }
}

/* ---- storing the tiles' sums ----------------------------------------------------------------- */

/* Returns the offset in shared memory of this warp's buffer for an accumulator. */
DEVICE uint32_t buffer_of(int acc)
{
    return (uint32_t)(OUTS + ((thread() >> 5) * OUT_SUMS + acc) * OUT);
}

/* Calls with(row, column, offset), a function, for this lane's elements of a 16 x 16 tile whose
 * sums are in the warp's buffers.  Lane l has eight elements of row l / 2. */
template <class F> DEVICE void for_each_sum(int64_t i0, int64_t j0, F with)
{
    int row = lane() >> 1, column = (lane() & 1) * 8;

    sync_warp();
    ROLL for (int x = 0; x < 8; x++)
        with(i0 + row, j0 + column + x, (uint32_t)((row * OUT_LD + column + x) * 4));
    sync_warp();
}

/* Returns, for one element, the weighted sum of accumulator `acc` and all later accumulators. */
template <int acc> DEVICE double weighted_at(uint32_t at)
{
    double t = mul64((double)load_shared<float>(buffer_of(acc) + at), power_of_two(WEIGHT[acc]));

    if constexpr (acc + 1 < ACCUMULATORS)
        return add64(weighted_at<acc + 1>(at), t);
    return t;
}

/* Stores a 16 x 16 tile of float sums to C. */
DEVICE void put_tile(const result_args &r, int64_t i0, int64_t j0)
{
    if constexpr (DIRECT)
        if (int64_t base; is_simple(r, j0, 16, base)) {
            int row = lane() >> 1, column = (lane() & 1) * 8;

            sync_warp();
            put_line<8>(r, base, i0 + row, j0 + column, 1, [&](int x) {
                return weighted_at<0>((uint32_t)((row * OUT_LD + column + x) * 4));
            });
            sync_warp();
            return;
        }
    for_each_sum(i0, j0, [&](int64_t row, int64_t column, uint32_t at) {
        put_sum(r, row, column, weighted_at<0>(at));
    });
}

/* Stores exact totals or their residues.  Unless `first` is set, adds totals to those in memory. */
DEVICE void flush(const result_args &r, struct task t, int64_t i0, int64_t j0,
                  const int32_t (&total)[MI][NJ][8], bool first)
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++) {
            float bits[8];

            UNROLL for (int x = 0; x < 8; x++)
                bits[x] = bits_float((uint32_t)total[i][j][x]);
            wmma_store(buffer_of(0), bits, OUT_LD);
            for_each_sum(i0 + 16 * i, j0 + 16 * j, [&](int64_t row, int64_t column, uint32_t at) {
                int32_t v = load_shared<int32_t>(buffer_of(0) + at);

                if (RECONSTRUCT != RECONSTRUCT_crt) {
                    if (row < r.m && column < r.n)
                        put_total(r, t.acc, row, column, v, first);
                } else if (row < r.m) { /* columns of totals are padded, so only rows are checked */
                    store<uint8_t>(r.totals + t.acc * r.total_size + row * r.total_pitch + column,
                                   (uint8_t)limber_mod32(v, MODULUS[t.acc], QUOTIENT[t.acc]));
                }
            });
        }
}

/* ---- tasks: a block's totals or sums -------------------------------------------------------- */

/* Computes a task with exact totals: chains of floats are added to integers, which are reduced to
 * residues or stored before they can overflow. */
DEVICE void totals_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    int64_t i0 = (int64_t)t.i * BM + line_a, j0 = (int64_t)t.j * BN + line_b;
    int steps = rows_of(t) * a.steps, flushed = 0;
    int32_t total[MI][NJ][8];
    tile_sums d;

    clear(FLAT8(float, d));
    clear(FLAT8(int32_t, total));
    ring<STAGE>(steps, [&](int stage, int s) { copy_stage(a, t, stage, s); },
                [&](uint32_t stage, int s) {
        UNROLL for (int q = 0; q < STEP / 32; q++)
            multiply_pair(d, stage + line_a * LINE, stage + TILE_A + line_b * LINE, q);
        if ((s + 1) % CHUNK_STEPS == 0 || s + 1 == steps) {
            promote(FLAT8(int32_t, total), FLAT8(float, d));
            clear(FLAT8(float, d));
        }
        if ((s + 1) % FLUSH_STEPS == 0 && s + 1 < steps && RECONSTRUCT == RECONSTRUCT_crt) {
            UNROLL for (int x = 0; x < MI * NJ * 8; x++)
                FLAT8(int32_t, total)[x] = (int32_t)limber_mod32(FLAT8(int32_t, total)[x],
                                                                MODULUS[t.acc], QUOTIENT[t.acc]);
        } else if ((s + 1) % FLUSH_STEPS == 0 && s + 1 < steps) {
            flush(result_of(a.r, t.product), t, i0, j0, total, flushed++ == 0);
            clear(FLAT8(int32_t, total));
        }
    });
    flush(result_of(a.r, t.product), t, i0, j0, total, flushed == 0);
}

/* Computes a task with float sums.  Accumulator 0 is added to a total after every chunk; each other
 * accumulator sums over all of k. */
DEVICE void sums_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    int64_t i0 = (int64_t)t.i * BM + line_a, j0 = (int64_t)t.j * BN + line_b;
    tile_sums d[ACCUMULATORS], total;

    UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
        clear(FLAT8(float, d[acc]));
    clear(FLAT8(float, total));
    ring<STAGE>(a.steps, [&](int stage, int s) { copy_stage(a, t, stage, s); },
                [&](uint32_t stage, int s) {
        UNROLL for (int q = 0; q < STEP / 32; q++)
            multiply_rows<0>(d, stage + line_a * LINE,
                             stage + HELD_A * TILE_A + line_b * LINE, q);
        if ((s + 1) % CHUNK_STEPS == 0 || s + 1 == a.steps) {
            promote(FLAT8(float, total), FLAT8(float, d[0]));
            clear(FLAT8(float, d[0]));
        }
    });
    memcpy(d[0], total, sizeof total);
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++) {
            UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
                wmma_store(buffer_of(acc), d[acc][i][j], OUT_LD);
            put_tile(result_of(a.r, t.product), i0 + 16 * i, j0 + 16 * j);
        }
}

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* The multiply kernel: each block computes one task after another. */
KERNEL(limber_multiply, struct multiply_args, THREADS, 1)
{
    int line_a = warp() / WARPS_N * WM, line_b = warp() % WARPS_N * WN;

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
