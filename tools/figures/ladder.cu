/* SPDX-License-Identifier: BSD-3-Clause
 * Figure ladder on a GPU: one product C = A B in steps.  A is FP16 by rows, B is FP16 by columns, C
 * is FP32 by rows.  All steps are this one template; LADDER_STEP chooses among its parts.  A program
 * defines it and includes backends/cuda/kernel/device.h, in whose dialect this file is written.
 *
 * The host includes the part before the kernel: sizes of blocks, and the addresses that lanes
 * access, of which it counts bank conflicts.
 *
 *   source  OpenMLSys, "accelerator programming": tiles, fragments, access to memory, balance */
#ifndef LADDER_STEP
#include <stdint.h>
#define DEVICE static inline
typedef struct {
    _Alignas(128) uint64_t opaque[16];
} tensor_map;
#endif

enum {
    LADDER_NAIVE,        /* a thread computes one element, from global memory */
    LADDER_TILES,        /* tiles of A and B in shared memory, 8 x 8 sums of a thread in registers */
    LADDER_FRAGMENTS,    /* products of a warp by tensor cores */
    LADDER_FREE,         /* pieces of rows are permuted, so that no bank is read twice at once */
    LADDER_PIPELINED,    /* asynchronous copies run STAGES - 1 tiles ahead */
    LADDER_SPECIALISED,  /* one warp copies by TMA, the others multiply */
    LADDER_STEPS
};

/* A block computes TALL x WIDE elements of C, and a stage of shared memory has DEPTH elements along
 * k of its rows of A and columns of B.  A line (row of A or column of B) takes ROW bytes of a
 * stage, in pieces of 16 bytes.  A warp multiplies WARP_TALL x WARP_WIDE elements. */
enum {
    TALL = 128, WIDE = 128, DEPTH = 64, ROW = 2 * DEPTH, PIECES = ROW / 16, SIDE = TALL * ROW,
    STAGE = 2 * SIDE, STAGE_PRODUCTS = TALL * WIDE * DEPTH, STAGES = 3,
    WARP_TALL = 64, WARP_WIDE = 32, WARPS = 8, THREADS = 32 * WARPS, SUMS = 64,
    REGISTER_TILE = 8, APART = TALL / REGISTER_TILE, NAIVE_TALL = 8, NAIVE_WIDE = 32
};

struct ladder_args {
    tensor_map map[2];    /* of A and B, for LADDER_SPECIALISED */
    const char *a, *b;
    char *c;
    int m, n, k;          /* k is a multiple of 8 */
};

/* Returns the offset in a stage's tile of piece c of line r. */
DEVICE uint32_t piece_at(int step, int r, int c)
{
    return (uint32_t)(r * ROW + ((step < LADDER_FREE ? c : c ^ (r & 7)) << 4));
}

/* Returns the offset of the piece that `lane` passes to load_fragments for 16 lines from `line` on
 * and elements 16 q to 16 q + 15 of a stage.  side: 0 for A, 1 for B. */
DEVICE uint32_t fragment_at(int step, int side, int lane, int line, int q)
{
    int upper = side ? lane >> 4 : lane >> 3 & 1, right = side ? lane >> 3 & 1 : lane >> 4;

    return piece_at(step, line + (lane & 7) + 8 * upper, 2 * q + right);
}

/* Returns the line of a tile that a thread reads for row, or column, i of its register tile. */
DEVICE int register_line(int side, int t, int i)
{
    return i * APART + (side ? t % APART : t / APART);
}

/* Returns the line of a tile, and the piece in it, that a thread copies in round x. */
DEVICE int copied_line(int t, int x)
{
    return (t + x * THREADS) / PIECES;
}
DEVICE int copied_piece(int t)
{
    return t % PIECES;
}

DEVICE int ladder_threads(int step)
{
    return step == LADDER_SPECIALISED ? THREADS + 32 : THREADS;
}

/* Returns the bytes of shared memory.  Each stage of LADDER_SPECIALISED has two barriers. */
DEVICE int ladder_shared(int step)
{
    return step == LADDER_NAIVE     ? 0 :
           step < LADDER_PIPELINED  ? STAGE :
           step == LADDER_PIPELINED ? STAGES * STAGE :
                                      STAGES * (STAGE + 16);
}

#ifdef LADDER_STEP

/* Where a block's tile begins in C, and a warp's in the block's. */
struct place {
    int row, column, warp_row, warp_column;
};

/* ---- copies from global to shared memory ----------------------------------------------------- */

/* Copies step s along k of one operand's lines, from line `first` on, to a stage's tile.  What is
 * outside of the matrix becomes zero. */
DEVICE void copy_side(uint32_t at, const char *from, int lines, int first, int k, int s)
{
    UNROLL for (int x = 0; x < TALL * PIECES / THREADS; x++) {
        int row = copied_line(thread(), x), piece = copied_piece(thread());
        int line = first + row, element = s * DEPTH + 8 * piece;
        bool inside = line < lines && element < k;
        const char *p = from + (inside ? 2 * ((int64_t)line * k + element) : 0);
        uint32_t to = at + piece_at(LADDER_STEP, row, piece);

        if constexpr (LADDER_STEP >= LADDER_PIPELINED)
            copy16(to, p, inside ? 16 : 0);
        else
            store_shared(to, inside ? load<bytes16>(p) : bytes16{});
    }
}

DEVICE void copy_stage(const ladder_args &a, struct place t, uint32_t at, int s)
{
    copy_side(at, a.a, a.m, t.row, a.k, s);
    copy_side(at + SIDE, a.b, a.n, t.column, a.k, s);
}

/* ---- products of a stage --------------------------------------------------------------------- */

/* Adds a stage's products to a thread's 8 x 8 sums, in the order of k. */
DEVICE void multiply_register_tile(float (&d)[SUMS], uint32_t at)
{
    ROLL for (int c = 0; c < PIECES; c++) {
        bytes16 a[REGISTER_TILE], b[REGISTER_TILE];

        UNROLL for (int i = 0; i < REGISTER_TILE; i++) {
            a[i] = load_shared<bytes16>(
                at + piece_at(LADDER_STEP, register_line(0, thread(), i), c));
            b[i] = load_shared<bytes16>(
                at + SIDE + piece_at(LADDER_STEP, register_line(1, thread(), i), c));
        }
        UNROLL for (int w = 0; w < 4; w++) {
            float x[REGISTER_TILE][2], y[REGISTER_TILE][2];

            UNROLL for (int i = 0; i < REGISTER_TILE; i++) {
                unpack_f16(a[i].w[w], x[i][0], x[i][1]);
                unpack_f16(b[i].w[w], y[i][0], y[i][1]);
            }
            UNROLL for (int p = 0; p < 2; p++)
                UNROLL for (int i = 0; i < REGISTER_TILE; i++)
                    UNROLL for (int j = 0; j < REGISTER_TILE; j++)
                        d[i * REGISTER_TILE + j] =
                            fma32(x[i][p], y[j][p], d[i * REGISTER_TILE + j]);
        }
    }
}

enum { FRAGMENTS_A = WARP_TALL / 16, FRAGMENTS_B = WARP_WIDE / 16 };

/* Adds a stage's products to a warp's sums, in the order of k. */
DEVICE void multiply_fragments(float (&d)[SUMS], struct place t, uint32_t at)
{
    UNROLL for (int q = 0; q < DEPTH / 16; q++) {
        uint32_t a[FRAGMENTS_A][4], b[FRAGMENTS_B][4];

        UNROLL for (int i = 0; i < FRAGMENTS_A; i++)
            load_fragments(a[i], at + fragment_at(LADDER_STEP, 0, lane(), t.warp_row + 16 * i, q));
        UNROLL for (int j = 0; j < FRAGMENTS_B; j++)
            load_fragments(
                b[j], at + SIDE + fragment_at(LADDER_STEP, 1, lane(), t.warp_column + 16 * j, q));
        UNROLL for (int i = 0; i < FRAGMENTS_A; i++)
            UNROLL for (int j = 0; j < 2 * FRAGMENTS_B; j++)
                mma_f16(d + 4 * (i * 2 * FRAGMENTS_B + j), a[i], b[j / 2] + j % 2 * 2);
    }
}

DEVICE void multiply_stage(float (&d)[SUMS], struct place t, uint32_t at)
{
    if constexpr (LADDER_STEP == LADDER_TILES)
        multiply_register_tile(d, at);
    else
        multiply_fragments(d, t, at);
}

/* ---- the order of copies and products -------------------------------------------------------- */

/* Copies and multiplies in turn. */
DEVICE void multiply_in_turn(const ladder_args &a, float (&d)[SUMS], struct place t, int steps)
{
    ROLL for (int s = 0; s < steps; s++) {
        copy_stage(a, t, 0, s);
        sync_block(); /* copied */
        multiply_stage(d, t, 0);
        sync_block(); /* multiplied */
    }
}

/* Multiplies a stage while the next ones are copied. */
DEVICE void multiply_pipelined(const ladder_args &a, float (&d)[SUMS], struct place t, int steps)
{
    UNROLL for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            copy_stage(a, t, (uint32_t)(s * STAGE), s);
        copy_group();
    }
    ROLL for (int s = 0; s < steps; s++) {
        int next = s + STAGES - 1;

        copy_wait<STAGES - 2>();
        /* the stage is complete for all threads, and no thread reads the previous one any more */
        sync_block();
        if (next < steps)
            copy_stage(a, t, (uint32_t)(next % STAGES * STAGE), next);
        copy_group();
        multiply_stage(d, t, (uint32_t)(s % STAGES * STAGE));
    }
}

#if LADDER_STEP == 5
/* Offsets of a stage's barriers: its tiles are complete; all warps have read them. */
DEVICE uint32_t full_at(int stage) { return (uint32_t)(STAGES * STAGE + 16 * stage); }
DEVICE uint32_t empty_at(int stage) { return full_at(stage) + 8; }

/* Copies all stages, as soon as they are empty.  One thread calls this. */
DEVICE void copy_all(const ladder_args &a, struct place t, int steps)
{
    ROLL for (int s = 0; s < steps; s++) {
        int stage = s % STAGES;
        uint32_t at = (uint32_t)(stage * STAGE);

        barrier_wait(empty_at(stage), (uint32_t)(s / STAGES + 1) & 1); /* read */
        barrier_expect(full_at(stage), STAGE);
        tensor_load(at, &a.map[0], s * DEPTH, t.row, 0, full_at(stage));
        tensor_load(at + SIDE, &a.map[1], s * DEPTH, t.column, 0, full_at(stage));
    }
}

/* True in the last warp, which has no part of the tile. */
DEVICE bool is_copier(struct place t) { return t.warp_row >= TALL; }

/* One warp copies, the others multiply. */
DEVICE void multiply_specialised(const ladder_args &a, float (&d)[SUMS], struct place t, int steps)
{
    if (thread() == 0) {
        UNROLL for (int s = 0; s < STAGES; s++) {
            barrier_init(full_at(s), 1);
            barrier_init(empty_at(s), WARPS);
        }
        barrier_init_done();
    }
    sync_block();
    if (is_copier(t)) {
        if (lane() == 0)
            copy_all(a, t, steps);
        return;
    }
    ROLL for (int s = 0; s < steps; s++) {
        barrier_wait(full_at(s % STAGES), (uint32_t)(s / STAGES) & 1); /* copied */
        multiply_stage(d, t, (uint32_t)(s % STAGES * STAGE));
        sync_warp();
        if (lane() == 0)
            barrier_arrive(empty_at(s % STAGES));
    }
}
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

DEVICE void store_sum(const ladder_args &a, int i, int j, float sum)
{
    if (i < a.m && j < a.n)
        store(a.c + 4 * ((int64_t)i * a.n + j), sum);
}

/* Stores a thread's sums of the block's tile at (row, column). */
DEVICE void store_sums(const ladder_args &a, const float (&d)[SUMS], struct place t)
{
    if constexpr (LADDER_STEP == LADDER_TILES) {
        UNROLL for (int i = 0; i < REGISTER_TILE; i++)
            UNROLL for (int j = 0; j < REGISTER_TILE; j++)
                store_sum(a, t.row + register_line(0, thread(), i),
                          t.column + register_line(1, thread(), j), d[i * REGISTER_TILE + j]);
    } else {
        UNROLL for (int i = 0; i < FRAGMENTS_A; i++)
            UNROLL for (int j = 0; j < 2 * FRAGMENTS_B; j++)
                UNROLL for (int e = 0; e < 4; e++)
                    store_sum(a, t.row + t.warp_row + 16 * i + e / 2 * 8 + lane() / 4,
                              t.column + t.warp_column + 8 * j + lane() % 4 * 2 + e % 2,
                              d[4 * (i * 2 * FRAGMENTS_B + j) + e]);
    }
}

/* Computes one element, in the order of k. */
DEVICE void multiply_naive(const ladder_args &a, int i, int j)
{
    float sum = 0, x, y, unused;

    if (i >= a.m || j >= a.n)
        return;
    for (int p = 0; p < a.k; p++) {
        unpack_f16(load<uint16_t>(a.a + 2 * ((int64_t)i * a.k + p)), x, unused);
        unpack_f16(load<uint16_t>(a.b + 2 * ((int64_t)j * a.k + p)), y, unused);
        sum = fma32(x, y, sum);
    }
    store_sum(a, i, j, sum);
}

KERNEL(limber_ladder, ladder_args, (LADDER_STEP == 5 ? THREADS + 32 : THREADS), 1)
{
    constexpr int tall = LADDER_STEP == LADDER_NAIVE ? NAIVE_TALL : TALL;
    constexpr int wide = LADDER_STEP == LADDER_NAIVE ? NAIVE_WIDE : WIDE;
    int across = (args.n + wide - 1) / wide, steps = (args.k + DEPTH - 1) / DEPTH, w = warp();
    struct place t = { block() / across * tall, block() % across * wide,
                       w / (WIDE / WARP_WIDE) * WARP_TALL, w % (WIDE / WARP_WIDE) * WARP_WIDE };

    if constexpr (LADDER_STEP == LADDER_NAIVE) {
        multiply_naive(args, t.row + thread() / NAIVE_WIDE, t.column + thread() % NAIVE_WIDE);
    } else {
        float d[SUMS] = {};

#if LADDER_STEP == 5
        multiply_specialised(args, d, t, steps);
        if (is_copier(t))
            return;
#else
        if constexpr (LADDER_STEP == LADDER_PIPELINED)
            multiply_pipelined(args, d, t, steps);
        else
            multiply_in_turn(args, d, t, steps);
#endif
        store_sums(args, d, t);
    }
}
#endif
