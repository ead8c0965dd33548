/* SPDX-License-Identifier: BSD-3-Clause
 * LINES lines by ELEMENTS elements of an operand come to shared memory, read along whichever of the
 * two lies together. */
#ifndef LIMBER_CUDA_READ_H
#define LIMBER_CUDA_READ_H

enum { LINES = 32, ELEMENTS = 64, EACH = 8, PACK_THREADS = LINES * ELEMENTS / EACH,
       PADDED = ELEMENTS + 1 };

template <int S>
DEVICE void read_block(struct view v, int64_t line0, int64_t lines, int64_t p0, int64_t length)
{
    constexpr int size = SIDES[S].f.size;
    typedef typename raw_of<size>::type raw;
    bool along = lies_along(v);

    ROLL for (int x = thread(); x < LINES * ELEMENTS; x += PACK_THREADS) {
        int line = along ? x / ELEMENTS : x % LINES, p = along ? x % ELEMENTS : x / LINES;
        raw e = {};

        if (line < lines && p0 + p < length)
            load_element<S>(e, v, line0 + line, p0 + p);
        store_shared<raw>((uint32_t)((line * PADDED + p) * size), e);
    }
    sync_block();
}

#endif
