/* SPDX-License-Identifier: BSD-3-Clause
 * The multiply kernel of simulated units.  Packed operands are copied to a ring of pipeline stages
 * in shared memory.  A thread computes its elements of C as the unit's description says, slot by
 * slot along k (struct slots).
 *
 *   f32     FP32 and 32-bit integers, TI x TJ elements of a thread at once, if the description
 *           and the values of this tile's rows and columns allow it
 *   wide    FP64, one element of a thread at a time, in all other cases */
#ifndef LIMBER_CUDA_UNIT_H
#define LIMBER_CUDA_UNIT_H

enum {
    TI = 4, TJ = 4, WARP_M = 4 * TI, WARP_N = 8 * TJ, WARPS_N = BN / WARP_N,
    THREADS = BM / WARP_M * WARPS_N * 32,
    HELD = FUSED ? 2 : 1, /* number of packed arrays: values and, for fused blocks, exponents */
    TILE_A = BM * STEP, TILE_B = BN * STEP, STAGE = HELD * (TILE_A + TILE_B),
    STAGE_SLOTS = STEP / 4,
    BLOCK = MODEL.block, SUB = MODEL.sub,
    /* estimated registers per element of C; if they are few, two thread blocks fit on a
     * multiprocessor */
    KEPT = 1 + (MODEL.group > 0) + (MODEL.split > 1) + (MODEL.seeded != 0) +
           (FUSED ? (SUB > 1 ? 4 : CHUNK < PIECE ? 4 : 2) : MODEL.tree ? 2 : 0),
    RESIDENT = KEPT <= 3 ? 2 : 1
};

/* ---- copying pipeline stages to shared memory ------------------------------------------------ */

/* Copies the tiles of step s to a pipeline stage: values and, for fused blocks, exponents. */
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

/* Fetches the tiles of all steps of a task, and calls with(offset of the pipeline stage, step), a
 * function, when a step's tiles are in shared memory. */
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

/* Load four slots (positions along k) of a row of A or column of B: values, or exponents. */
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

/* ---- position along k, the same in all lanes ------------------------------------------------- */

/* Bit flags: a group of the unit, or a section of k (part), ends at this position along k. */
enum { ENDS_group = 1, ENDS_part = 2 };

/* The position of a task along k. */
struct progress {
    /* the next slot */
    int32_t slot;
    uint32_t p;                 /* index, in the unit's order, of the element in the next slot */
    /* number of slots up to the end of the group, and of the section of k (part) */
    int32_t group_left, part_left;
    uint32_t group, part;       /* indices of the group and of the section of k (part) */
};

/* Returns the position at the beginning of k. */
DEVICE struct progress begin(const struct slots &s)
{
    return { 0, 0, s.group, s.part, 0, 0 };
}

/* Advances by one piece: a block of the unit, or four slots (positions along k) if it has no
 * blocks.  Returns flags (ENDS_...) of what ends there. */
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

/* Moves on to the next group or section of k, if one ended (what: ENDS_...). */
DEVICE void begin_next(struct progress &g, int what)
{
    g.group += what & ENDS_group ? 1 : 0;
    g.part += what & ENDS_part ? 1 : 0;
}

/* ---- counters of roundings, and stored results ----------------------------------------------- */

/* A thread's event counters (LIMBER_UNIT_TALLIES). */
struct tally { uint32_t n[TALLY_fields]; };

/* Adds a thread's event counters to those of the call. */
DEVICE void add_counts(uint64_t *to, const struct tally &t)
{
    if (COUNTS)
        UNROLL for (int c = 0; c < TALLY_fields; c++)
            if (t.n[c])
                atomic_add(to + c, t.n[c]);
}

/* Returns a hash of the seed and of element (i, j) of C, for stochastic rounding; 0 if the unit has
 * none. */
DEVICE uint32_t element_of(const multiply_args &a, int64_t i, int64_t j)
{
    return MODEL.seeded ?
               limber_unit_element(limber_unit_row_hash(a.seed, a.r.i0 + i), a.r.j0 + j) :
               0;
}

/* Returns random number `index` of an element.  Each kind of sum has its own stream. */
DEVICE uint32_t number_of(uint32_t element, uint32_t stream, uint32_t index)
{
    return MODEL.seeded ? limber_unit_number(element, stream, index) : 0;
}

/* Rounds an element's final value to the unit's output format, and stores it to C. */
DEVICE void put_value(const result_args &r, int64_t i, int64_t j, uint32_t element, double x)
{
    bool beyond;

    if (MODEL.out.format.kind)
        x = wide_round(MODEL.out, x, random_of(number_of(element, 3, 0)), beyond);
    put_sum(r, i, j, x == x ? x : __builtin_nan(""));
}

#include "unit_wide.h"
#if NARROW
#include "unit_f32.h"
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

static_assert(THREADS == LAUNCHED, "tiles of warps are those of the launch");

/* The multiply kernel: computes a tile in FP32 if its values make that exact, else in FP64. */
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
            f32_task(args, t);
            continue;
        }
#endif
        wide_task(args, t);
    }
}

#endif
