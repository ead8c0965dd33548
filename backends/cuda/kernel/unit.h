/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel of simulated units.  Packed operands are copied to shared memory in a ring of
 * stages; a thread computes its elements of C as the description says, slot by slot along k.
 *
 *   narrow  FP32 and 32-bit integers, TI x TJ elements at once, if the description and the values
 *           of this tile's lines allow it
 *   wide    FP64, one element at a time: everything else */
#ifndef LIMBER_CUDA_UNIT_H
#define LIMBER_CUDA_UNIT_H

enum {
    TI = 4, TJ = 4, WARP_M = 4 * TI, WARP_N = 8 * TJ, WARPS_N = BN / WARP_N,
    THREADS = BM / WARP_M * WARPS_N * 32,
    HELD = FUSED ? 2 : 1,                   /* values, followed by exponents */
    TILE_A = BM * STEP, TILE_B = BN * STEP, STAGE = HELD * (TILE_A + TILE_B),
    STAGE_SLOTS = STEP / 4,
    BLOCK = MODEL.block, SUB = MODEL.sub,
    /* registers of each element: two thread blocks are resident if they are few */
    KEPT = 1 + (MODEL.group > 0) + (MODEL.split > 1) + (MODEL.seeded != 0) +
           (FUSED ? (SUB > 1 ? 4 : CHUNK < PIECE ? 4 : 2) : MODEL.tree ? 2 : 0),
    RESIDENT = KEPT <= 3 ? 2 : 1
};

/* ---- copying stages of k to shared memory ---------------------------------------------------- */

/* Copies the tiles of step s to a stage: values and, for fused blocks, exponents. */
DEVICE void copy_stage(const multiply_args &a, struct task t, int stage, int s)
{
    const char *from_a = a.limbs_a + limbs_at_a(a, t) * a.pitch + (int64_t)s * STEP;
    const char *from_b = a.limbs_b + limbs_at_b(a, t) * a.pitch + (int64_t)s * STEP;
    uint32_t at = (uint32_t)(stage * STAGE);

    UNROLL for (int h = 0; h < HELD; h++) {
        copy_tile<BM, THREADS>(at + h * TILE_A, from_a + h * a.limb_a, a.pitch);
        copy_tile<BN, THREADS>(at + HELD * TILE_A + h * TILE_B, from_b + h * a.limb_b, a.pitch);
    }
}

/* Copies the tiles of all steps of a task through the stages; calls with(stage, step) for each. */
template <class F> DEVICE void pipeline(const multiply_args &a, struct task t, F with)
{
    if constexpr (STAGES == 1) {
        ROLL for (int s = 0; s < a.steps; s++) {
            sync_block();
            copy_stage(a, t, 0, s);
            copy_group();
            copy_wait<0>();
            sync_block();
            with(0, s);
        }
        sync_block();
    } else {
        ring<STAGE>(a.steps, [&](int stage, int s) { copy_stage(a, t, stage, s); }, with);
    }
}

/* Four slots of a line: values, or exponents. */
DEVICE bytes16 values_a(uint32_t stage, int row, int piece)
{
    return load_shared<bytes16>(stage + piece_at(row, piece));
}
DEVICE bytes16 values_b(uint32_t stage, int column, int piece)
{
    return load_shared<bytes16>(stage + HELD * TILE_A + piece_at(column, piece));
}
DEVICE bytes16 exponents_a(uint32_t stage, int row, int piece)
{
    return load_shared<bytes16>(stage + TILE_A + piece_at(row, piece));
}
DEVICE bytes16 exponents_b(uint32_t stage, int column, int piece)
{
    return load_shared<bytes16>(stage + HELD * TILE_A + TILE_B + piece_at(column, piece));
}

/* ---- position in the chains, the same for all lanes ------------------------------------------ */

enum { ENDS_group = 1, ENDS_part = 2 };

/* How far a task has come along k: the slot, and what is left of its group and part. */
struct progress {
    int32_t slot;
    uint32_t p;                 /* position of this slot in the unit's order */
    int32_t group_left, part_left;
    uint32_t group, part;       /* numbers of group and part, counted over all of k */
};

/* The beginning of k. */
DEVICE struct progress begin(const struct slots &s)
{
    return { 0, 0, s.group, s.part, 0, 0 };
}

/* Advances by a piece of four slots, or by a block; returns what ended there. */
DEVICE int advance(struct progress &g, const struct slots &s)
{
    int ended = 0;

    g.slot += PIECE;
    g.p += BLOCK > 1 ? BLOCK : 4;
    if (MODEL.group && ((g.group_left -= PIECE) == 0 || g.slot == s.count)) {
        ended |= ENDS_group;
        g.group_left = s.group;
        g.p = (g.group + 1) * (uint32_t)MODEL.group;
    }
    if (MODEL.split > 1 && ((g.part_left -= PIECE) == 0 || g.slot == s.count)) {
        ended |= ENDS_part;
        g.part_left = s.part;
        g.p = (g.part + 1) * (uint32_t)s.part_length;
    }
    return ended;
}

/* Counts the group and the part that ended. */
DEVICE void ended(struct progress &g, int what)
{
    g.group += what & ENDS_group ? 1 : 0;
    g.part += what & ENDS_part ? 1 : 0;
}

/* ---- counters of roundings, and stored results ----------------------------------------------- */

struct tally { uint32_t n[TALLY_fields]; };

/* Adds a thread's counters to those of the launch. */
DEVICE void add_counts(uint64_t *to, const struct tally &t)
{
    if (COUNTS)
        UNROLL for (int c = 0; c < TALLY_fields; c++)
            if (t.n[c])
                atomic_add(to + c, t.n[c]);
}

DEVICE uint32_t element_of(const multiply_args &a, int64_t i, int64_t j)
{
    return MODEL.seeded ? limber_unit_element(limber_unit_row(a.seed, a.r.i0 + i), a.r.j0 + j) : 0;
}

DEVICE uint32_t number_of(uint32_t element, uint32_t stream, uint32_t index)
{
    return MODEL.seeded ? limber_unit_number(element, stream, index) : 0;
}

/* Rounds the final value and stores it to C. */
DEVICE void put_value(const result_args &r, int64_t i, int64_t j, uint32_t element, double x)
{
    bool beyond;

    if (MODEL.out.format.kind)
        x = wide_round(MODEL.out, x, random_of(number_of(element, 3, 0)), beyond);
    put_sum(r, i, j, x == x ? x : __builtin_nan(""));
}

#include "unit_wide.h"
#if NARROW
#include "unit_narrow.h"
#endif

/* ---- the kernel: each block's tiles of C ----------------------------------------------------- */

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* Multiplies as the simulated unit does: in FP32 where value ranges make that exact, else in FP64.
 */
KERNEL(limber_multiply, struct multiply_args, THREADS, RESIDENT)
{
    await_launch();
    let_next_begin();
    ROLL for (int index = block(); index < args.tasks; index += blocks()) {
        struct task t = task_at(args, index);

#if NARROW
        if (args.slots.k <= NARROW_K &&
            !load<uint32_t>(args.wide_a + limbs_at_a(args, t) / BM) &&
            !load<uint32_t>(args.wide_b + limbs_at_b(args, t) / BN)) {
            narrow_task(args, t);
            continue;
        }
#endif
        wide_task(args, t);
    }
}

#endif
