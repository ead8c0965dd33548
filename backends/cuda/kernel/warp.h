/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel with mma instructions of a warp.  Asynchronous copies fill a ring of STAGES
 * pipeline stages in shared memory with tiles of limbs.  Each warp multiplies WM x WN elements of
 * the BM x BN tile.  If limbs are made in this kernel (INSIDE), the ring holds elements, and the
 * elements of the next step are split while one step is multiplied. */
#ifndef LIMBER_CUDA_WARP_H
#define LIMBER_CUDA_WARP_H

enum {
    MI = WM / 16, NJ = WN / 8, WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32,
    TILE_A = BM * STEP, TILE_B = BN * STEP,
    /* number of limbs of A and of B in a pipeline stage */
    HELD_A = TOTALS ? 1 : LIMBS_A, HELD_B = TOTALS ? 1 : LIMBS_B,
    SCALES_AT = HELD_A * TILE_A + HELD_B * TILE_B,  /* offset of the block scales in a stage */
    STAGE = SCALES_AT + SCALES * (BM + BN),
    PIXELS = STAGES * STAGE,    /* table of the windows' first pixels (window.h) */
    DEPTH = STEP / BYTES, RAW_A = BM * DEPTH * 4, RAW = (BM + BN) * DEPTH * 4,
    RAWS = 2 * STAGE            /* elements are stored after two stages of limbs */
};

/* ---- copying stages to shared memory --------------------------------------------------------- */

#if MX
/* Copies the block scales of one step for `lines` rows of A or columns of B. */
template <int lines> DEVICE void copy_scales(uint32_t at, const char *from, int64_t pitch)
{
    constexpr int size = SCALES < 16 ? 4 : 16, pieces = SCALES / size;

    UNROLL for (int x = 0; x < (lines * pieces + THREADS - 1) / THREADS; x++) {
        int c = thread() + x * THREADS;
        const char *piece = from + c / pieces * pitch + c % pieces * size;

        if (lines * pieces % THREADS != 0 && c >= lines * pieces)
            continue;
        if constexpr (size == 4)
            copy4(at + 4 * c, piece, 4);
        else
            copy16(at + 16 * c, piece, 16);
    }
}
#endif

/* Copies the tiles of step s of a task to a pipeline stage.  For exact totals that is one limb of A
 * and one of B; for float sums it is all limbs. */
DEVICE void copy_stage(const multiply_args &a, struct task t, int stage, int s)
{
    uint32_t at = (uint32_t)(stage * STAGE);
    int row = TOTALS ? row_at(a, t, s) : 0, step = TOTALS ? step_at(a, s) : s;
    const char *from_a = a.limbs_a + limbs_at_a(a, t) * a.pitch + (int64_t)step * STEP;
    const char *from_b = a.limbs_b + (TOTALS ? ROW_B[row] * a.limb_b : 0);

    UNROLL for (int l = 0; l < HELD_A; l++)
        copy_tile<BM, THREADS>(at + l * TILE_A, from_a + (TOTALS ? ROW_A[row] : l) * a.limb_a,
                               a.pitch);
    if constexpr (WINDOW) {
        copy_pixels<THREADS, HELD_B, TILE_B>(a, at + HELD_A * TILE_A, PIXELS,
                                             from_b + t.product * a.next_b, step);
    } else {
        from_b += limbs_at_b(a, t) * a.pitch + (int64_t)step * STEP;
        UNROLL for (int l = 0; l < HELD_B; l++)
            copy_tile<BN, THREADS>(at + HELD_A * TILE_A + l * TILE_B, from_b + l * a.limb_b,
                                   a.pitch);
    }
#if MX
    copy_scales<BM>(at + SCALES_AT, a.scales_a + limbs_at_a(a, t) * a.scale_pitch + s * SCALES,
                    a.scale_pitch);
    copy_scales<BN>(at + SCALES_AT + SCALES * BM,
                    a.scales_b + limbs_at_b(a, t) * a.scale_pitch + s * SCALES, a.scale_pitch);
#endif
}

#if INSIDE
/* Copies the unsplit elements of step s, which this kernel splits into limbs. */
DEVICE void copy_step(const multiply_args &a, struct task t, int stage, int s)
{
    uint32_t at = (uint32_t)(RAWS + stage * RAW);
    int64_t p0 = (int64_t)s * DEPTH;

    copy_raw<0, BM, DEPTH, THREADS>(a, at, t.product, (int64_t)t.i * BM, p0, thread());
    copy_raw<1, BN, DEPTH, THREADS>(a, at + RAW_A, t.product, (int64_t)t.j * BN, p0, thread());
}

/* Splits the elements of one step of operand S (0: A, 1: B) into limbs, from offset `raw` of shared
 * memory to offset `limbs`.  A thread splits every beside-th piece of one row of A or column of
 * B; `beside` threads share that row or column. */
template <int S, int lines, int tile>
DEVICE void cut_side(const multiply_args &a, uint32_t raw, uint32_t limbs, struct factors f)
{
    constexpr int beside = THREADS / lines;

    static_assert(STEP / 16 % beside == 0, "");
    UNROLL for (int x = 0; x < STEP / 16 / beside; x++) {
        int piece = thread() / lines + x * beside;

        cut_piece<S, lines, DEPTH, tile>(raw, thread() % lines, piece * PIECE_ELEMENTS,
                                         a.origin[S].across, limbs, thread() % lines, piece, f);
    }
}

/* Calls with(offset of the limbs, s), a function, for each step of a task.  Limbs are split one
 * step before they are multiplied.  The ring's barrier separates the writing of a step's limbs from
 * their reading. */
template <class F> DEVICE void cut_ahead(const multiply_args &a, struct task t, int steps, F with)
{
    struct factors fa = factors_of<0>(a, t.product, (int64_t)t.i * BM + thread() % BM);
    struct factors fb = factors_of<1>(a, t.product, (int64_t)t.j * BN + thread() % BN);

    ring<RAW>(steps + 1, [&](int stage, int s) {
        if (s < steps)
            copy_step(a, t, stage, s);
    }, [&](uint32_t raw, int s) {
        if (s < steps) {
            uint32_t limbs = (uint32_t)(s % 2 * STAGE);

            cut_side<0, BM, TILE_A>(a, RAWS + raw, limbs, fa);
            cut_side<1, BN, TILE_B>(a, RAWS + raw + RAW_A, limbs + HELD_A * TILE_A, fb);
        }
        if (s > 0)
            with((uint32_t)((s - 1) % 2 * STAGE), s - 1);
    });
}
#endif

/* ---- fragments: operands in a warp's registers ----------------------------------------------- */

/* Loads a warp's rows of a tile of A for piece q of 32 bytes.  For each 16 rows these are four
 * matrices of 8 rows by 16 bytes, the lower rows first. */
DEVICE void fragments_a(uint32_t (&r)[MI][4], uint32_t tile, int line0, int q)
{
    int l = lane();

    UNROLL for (int i = 0; i < MI; i++)
        load_fragments(r[i], tile + piece_at(line0 + 16 * i + (l & 7) + (l & 8), 2 * q + (l >> 4)));
}

/* Loads a warp's columns of a tile of B for piece q of 32 bytes.  The two registers that a product
 * of 8 columns reads are adjacent. */
DEVICE void fragments_b(uint32_t (&r)[NJ / 2][4], uint32_t tile, int line0, int q)
{
    int l = lane();

    UNROLL for (int j = 0; j < NJ / 2; j++)
        load_fragments(r[j], tile + piece_at(line0 + 16 * j + (l & 7) + (l >> 4) * 8,
                                             2 * q + (l >> 3 & 1)));
}

/* Multiplies fragments of INT8.  SA, SB: 1 if the bytes of A, or of B, are signed. */
template <int SA, int SB>
DEVICE void product_i8(int32_t (&d)[MI][NJ][4], const uint32_t (&a)[MI][4],
                       const uint32_t (&b)[NJ / 2][4])
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            mma_i8<SA, SB>(d[i][j], a[i], b[j / 2] + 2 * (j & 1));
}

/* Multiplies fragments of INT8.  signs: 2 if A's limb is signed, plus 1 if B's is. */
DEVICE void product(int32_t (&d)[MI][NJ][4], const uint32_t (&a)[MI][4],
                    const uint32_t (&b)[NJ / 2][4], int signs)
{
    if constexpr (SIGNS & 1)
        if (SIGNS == 1 || signs == 0)
            product_i8<0, 0>(d, a, b);
    if constexpr ((SIGNS & 2) != 0)
        if (SIGNS == 2 || signs == 1)
            product_i8<0, 1>(d, a, b);
    if constexpr ((SIGNS & 4) != 0)
        if (SIGNS == 4 || signs == 2)
            product_i8<1, 0>(d, a, b);
    if constexpr ((SIGNS & 8) != 0)
        if (SIGNS == 8 || signs == 3)
            product_i8<1, 1>(d, a, b);
}

/* Computes d += a b by one instruction, in the unit's format. */
DEVICE void product_float(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if constexpr (UNIT == UNIT_f16)
        mma_f16(d, a, b);
    else if constexpr (UNIT == UNIT_bf16)
        mma_bf16(d, a, b);
#if __CUDA_ARCH__ >= 890
    else if constexpr (UNIT == UNIT_e4m3)
        mma_e4m3(d, a, b);
    else if constexpr (UNIT == UNIT_e5m2)
        mma_e5m2(d, a, b);
#endif
    else
        mma_tf32(d, a, b);
}

/* Multiplies fragments of floats. */
DEVICE void product(float (&d)[MI][NJ][4], const uint32_t (&a)[MI][4],
                    const uint32_t (&b)[NJ / 2][4], int)
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            product_float(d[i][j], a[i], b[j / 2] + 2 * (j & 1));
}

/* ---- products of one stage ------------------------------------------------------------------- */

/* Gives sums [MI][NJ][4] the type of a flat array. */
#define FLAT(d) (*(sum (*)[MI * NJ * 4])(d))

/* Multiplies a stage in FP64. */
DEVICE void multiply_f64(double (&d)[MI][NJ][4], uint32_t ta, uint32_t tb, int line_a, int line_b)
{
    int g = lane() >> 2, t = lane() & 3;

    UNROLL for (int q = 0; q < STEP / 32; q++) {
        double a[2 * MI], b[NJ];

        UNROLL for (int i = 0; i < 2 * MI; i++)
            a[i] = load_shared<double>(ta + piece_at(line_a + 8 * i + g, 2 * q + (t >> 1)) +
                                       8 * (t & 1));
        UNROLL for (int j = 0; j < NJ; j++)
            b[j] = load_shared<double>(tb + piece_at(line_b + 8 * j + g, 2 * q + (t >> 1)) +
                                       8 * (t & 1));
#if __CUDA_ARCH__ == 900
        UNROLL for (int i = 0; i < MI; i++)
            UNROLL for (int j = 0; j < NJ; j++)
                mma_f64_rows(d[i][j], a + 2 * i, b[j]);
#else
        UNROLL for (int i = 0; i < 2 * MI; i++)
            UNROLL for (int j = 0; j < NJ; j++)
                mma_f64(d[i / 2][j] + 2 * (i & 1), a[i], b[j]);
#endif
    }
}

#if MX
/* The block scales of a row of A or column of B in one step. */
struct alignas(SCALES) step_scales { uint32_t w[SCALES / 4]; };

/* Loads block scales.  Lane l loads those of row or column 8 (l & 3) + (l >> 2) of every 32, which
 * are two tiles of A or four of B.  Each product names the lane of a quad (four lanes) that has its
 * scales. */
template <int n> DEVICE void load_scales(step_scales (&to)[n], uint32_t tile, int line0)
{
    int l = lane();

    UNROLL for (int x = 0; x < n; x++)
        to[x] = load_shared<step_scales>(tile + (line0 + 32 * x + 8 * (l & 3) + (l >> 2)) * SCALES);
}

/* Multiplies the first `pieces` 32-byte pieces of a step or, if `all`, all pieces without
 * branches. */
template <bool all>
DEVICE void multiply_scaled(float (&d)[MI][NJ][4], uint32_t stage, int line_a, int line_b,
                            int pieces)
{
    constexpr int each = SCALES / 4;    /* bytes of scales per row or column and instruction */
    uint32_t a[MI][4], b[NJ / 2][4];
    step_scales sa[MI / 2], sb[NJ / 4];

    load_scales(sa, stage + SCALES_AT, line_a);
    load_scales(sb, stage + SCALES_AT + SCALES * BM, line_b);
    UNROLL for (int q = 0; q < STEP / 32; q++) {
        if (!all && q >= pieces)
            break;
        fragments_a(a, stage, line_a, q);
        fragments_b(b, stage + HELD_A * TILE_A, line_b, q);
        UNROLL for (int i = 0; i < MI; i++)
            UNROLL for (int j = 0; j < NJ; j++)
                mma_scaled<MX, FORMAT_A, FORMAT_B>(
                    d[i][j], a[i], b[j / 2] + 2 * (j & 1), sa[i / 2].w[q * each / 4],
                    sb[j / 4].w[q * each / 4], q * each % 4, i & 1, j & 3);
    }
}
#endif

/* Multiplies one limb of A by one of B, for one pipeline stage. */
template <class sum>
DEVICE void multiply_pair(sum (&d)[MI][NJ][4], uint32_t stage, int line_a, int line_b, int signs)
{
    uint32_t a[MI][4], b[NJ / 2][4];

    if constexpr (UNIT == UNIT_f64) {
        multiply_f64(d, stage, stage + HELD_A * TILE_A, line_a, line_b);
    } else {
        UNROLL for (int q = 0; q < STEP / 32; q++) {
            fragments_a(a, stage, line_a, q);
            fragments_b(b, stage + HELD_A * TILE_A, line_b, q);
            product(d, a, b, signs);
        }
    }
}

/* Multiplies fragments of all limbs, for row r of the product table and all later rows. */
template <int r>
DEVICE void product_rows(float (&d)[ACCUMULATORS][MI][NJ][4], const uint32_t (&a)[LIMBS_A][MI][4],
                         const uint32_t (&b)[LIMBS_B][NJ / 2][4])
{
    if constexpr (r < ROWS) {
        product(d[ROW[r].acc], a[ROW[r].a], b[ROW[r].b], 0);
        product_rows<r + 1>(d, a, b);
    }
}

/* Multiplies the limbs in one pipeline stage: for each piece of 32 bytes along k, all rows of the
 * product table. */
DEVICE void multiply_rows(float (&d)[ACCUMULATORS][MI][NJ][4], uint32_t stage, int line_a,
                          int line_b)
{
    uint32_t a[LIMBS_A][MI][4], b[LIMBS_B][NJ / 2][4];

    UNROLL for (int q = 0; q < STEP / 32; q++) {
        UNROLL for (int l = 0; l < LIMBS_A; l++)
            fragments_a(a[l], stage + l * TILE_A, line_a, q);
        UNROLL for (int l = 0; l < LIMBS_B; l++)
            fragments_b(b[l], stage + HELD_A * TILE_A + l * TILE_B, line_b, q);
        product_rows<0>(d, a, b);
    }
}

/* ---- tasks: a block's totals or sums --------------------------------------------------------- */

/* Fetches the limbs of all steps s of a task, and calls with(offset of the pipeline stage, s), a
 * function, when a step's limbs are in shared memory. */
template <class F> DEVICE void pipeline(const multiply_args &a, struct task t, int steps, F with)
{
    if constexpr (WINDOW)
        find_pixels<THREADS>(a, PIXELS, t.j);
#if INSIDE
    cut_ahead(a, t, steps, with);
#else
    ring<STAGE>(steps, [&](int stage, int s) { copy_stage(a, t, stage, s); }, with);
#endif
}

/* Computes a task with exact totals, those of one accumulator.  Chains of floats are added to
 * integers.  Totals are reduced to residues or stored before they can overflow. */
template <class sum>
DEVICE void totals_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    int64_t i0 = (int64_t)t.i * BM + line_a, j0 = (int64_t)t.j * BN + line_b;
    int steps = rows_of(t) * a.steps, flushed = 0;
    sum d[MI][NJ][4];
    int32_t total[MI][NJ][4];   /* totals of float chains */

    clear(FLAT(d));
    if (UNIT != UNIT_i8)
        clear(*(int32_t (*)[MI * NJ * 4])total);
    pipeline(a, t, steps, [&](uint32_t stage, int s) {
        multiply_pair(d, stage, line_a, line_b, SIGNS_OF[row_at(a, t, s)]);
        if (UNIT != UNIT_i8 && UNIT != UNIT_f64 &&
            ((s + 1) % CHUNK_STEPS == 0 || s + 1 == steps)) {
            if constexpr (UNIT != UNIT_i8 && UNIT != UNIT_f64)
                promote(*(int32_t (*)[MI * NJ * 4])total, FLAT(d));
            clear(FLAT(d));
        }
        if ((s + 1) % FLUSH_STEPS == 0 && s + 1 < steps) {
            if constexpr (RECONSTRUCT == RECONSTRUCT_crt && UNIT == UNIT_i8) {
                reduce(t.acc, d);
            } else if constexpr (RECONSTRUCT == RECONSTRUCT_crt) {
                reduce(t.acc, total);
            } else if constexpr (UNIT == UNIT_i8 || UNIT == UNIT_f64) {
                put_totals(result_of(a.r, t.product), t.acc, i0, j0, d, flushed++ == 0);
                clear(FLAT(d));
            } else {
                put_totals(result_of(a.r, t.product), t.acc, i0, j0, total, flushed++ == 0);
                clear(*(int32_t (*)[MI * NJ * 4])total);
            }
        }
    });
    if constexpr (RECONSTRUCT == RECONSTRUCT_crt && UNIT == UNIT_i8)
        put_residues_of(result_of(a.r, t.product), t.acc, i0, j0, d);
    else if constexpr (RECONSTRUCT == RECONSTRUCT_crt)
        put_residues_of(result_of(a.r, t.product), t.acc, i0, j0, total);
    else if constexpr (UNIT == UNIT_i8 || UNIT == UNIT_f64)
        put_totals(result_of(a.r, t.product), t.acc, i0, j0, d, flushed == 0);
    else
        put_totals(result_of(a.r, t.product), t.acc, i0, j0, total, flushed == 0);
}

/* Computes a task with float sums.  The first JOINED accumulators are added to a total after
 * every chunk; each other accumulator sums over all of k.  Then stores the sums. */
template <class sum>
DEVICE void sums_task(const multiply_args &a, struct task t, int line_a, int line_b)
{
    sum d[ACCUMULATORS][MI][NJ][4], total[MI][NJ][4];

    clear(*(sum (*)[ACCUMULATORS * MI * NJ * 4])d);
    start(FLAT(total), a.steps);
    pipeline(a, t, a.steps, [&](uint32_t stage, int s) {
#if MX
        int pieces = pieces_of(a, s);

        if (pieces == STEP / 32)
            multiply_scaled<true>(d[0], stage, line_a, line_b, pieces);
        else
            multiply_scaled<false>(d[0], stage, line_a, line_b, pieces);
#else
        if constexpr (ROWS == 1)
            multiply_pair(d[0], stage, line_a, line_b, 0);
        else if constexpr (UNIT != UNIT_f64)
            multiply_rows(d, stage, line_a, line_b);
#endif
        if ((s + 1) % CHUNK_STEPS == 0 || s + 1 == a.steps) {
            UNROLL for (int acc = 0; acc < JOINED; acc++) {
                promote(FLAT(total), FLAT(d[acc]));
                clear(FLAT(d[acc]));
            }
        }
    });
    if (MX)
        set_nan(FLAT(total));
    memcpy(d[0], total, sizeof total);
    put_sums(result_of(a.r, t.product), (int64_t)t.i * BM + line_a, (int64_t)t.j * BN + line_b, d);
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
            totals_task<sum_type>(args, t, line_a, line_b);
        else
            sums_task<sum_type>(args, t, line_a, line_b);
    }
}

#endif
