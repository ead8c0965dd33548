/* SPDX-License-Identifier: BSD-3-Clause
 * A ring of STAGES pipeline stages in shared memory.  The threads that multiply fill it themselves
 * by asynchronous copies. */
#ifndef LIMBER_CUDA_STAGE_H
#define LIMBER_CUDA_STAGE_H

/* Returns the offset of 16-byte piece c of row r in a tile whose rows have `row` bytes.  Pieces are
 * swizzled, so that pieces with the same c in neighbouring rows are in different banks.  In FP64,
 * half a warp reads two pieces, two apart, of four rows at once. */
template <int row = STEP> DEVICE uint32_t piece_at(int r, int c)
{
    int mixed = row < 128 ? r >> 1 & 3 : UNIT == UNIT_f64 ? (r & 3) << 1 | (r >> 2 & 1) : r & 7;

    return (uint32_t)(r * row + ((c ^ mixed) << 4));
}

/* Copies one step along k of `lines` rows of A or columns of B to a pipeline stage. */
template <int lines, int threads>
DEVICE void copy_tile(uint32_t at, const char *from, int64_t pitch)
{
    constexpr int pieces = STEP / 16;

    UNROLL for (int x = 0; x < (lines * pieces + threads - 1) / threads; x++) {
        int c = thread() + x * threads, row = c / pieces, piece = c % pieces;

        if (lines * pieces % threads == 0 || c < lines * pieces)
            copy16(at + piece_at(row, piece), from + row * pitch + 16 * piece, 16);
    }
}

/* Synchronises the threads of the warp or of the block. */
template <bool of_warp> DEVICE void sync_warp_or_block()
{
    if constexpr (of_warp)
        sync_warp();
    else
        sync_block();
}

/* For each step s calls with(offset of the pipeline stage, s), a function.  Some steps earlier it
 * calls copy(stage, s), which fills the stage with `bytes` bytes.  The ring belongs to the thread
 * block or, if of_warp, to a warp. */
template <int bytes, bool of_warp = false, class C, class F>
DEVICE void ring(int steps, C copy, F with)
{
    if constexpr (INSIDE) {     /* not unrolled, since the code that copies elements is long */
        ROLL for (int s = 0; s < STAGES - 1; s++) {
            if (s < steps)
                copy(s, s);
            copy_group();
        }
    } else {
        UNROLL for (int s = 0; s < STAGES - 1; s++) {
            if (s < steps)
                copy(s, s);
            copy_group();
        }
    }
    ROLL for (int s = 0; s < steps; s++) {
        int next = s + STAGES - 1;

        copy_wait<(bytes > 0 ? STAGES - 2 : 0)>();
        /* now the pipeline stage is complete for all threads, and no thread reads the previous
         * stage any more */
        sync_warp_or_block<of_warp>();
        if (next < steps)
            copy(next % STAGES, next);
        copy_group();
        with((uint32_t)(s % STAGES * bytes), s);
    }
    sync_warp_or_block<of_warp>();
}

#endif
