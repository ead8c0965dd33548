/* SPDX-License-Identifier: BSD-3-Clause
 * LINES lines by ELEMENTS elements of an operand come to shared memory, read along whichever of the two
 * lies together. */
#ifndef LIMBER_CUDA_READ_H
#define LIMBER_CUDA_READ_H

enum { LINES = 32, ELEMENTS = 64, EACH = 8, PREPARE_THREADS = LINES * ELEMENTS / EACH,
       PADDED = ELEMENTS + 1 };

template <int size>
DEVICE void read_block(struct view v, int64_t line0, int64_t lines, int64_t p0, int64_t length)
{
    typedef typename raw_of<size>::type raw;
    bool along = v.p == 1 && !v.patch;

    ROLL for (int x = thread(); x < LINES * ELEMENTS; x += PREPARE_THREADS) {
        int line = along ? x / ELEMENTS : x % LINES, p = along ? x % ELEMENTS : x / LINES;
        const char *at = NULL;
        raw e = {};

        if (line < lines && p0 + p < length)
            at = limber_view_at(&v, line0 + line, p0 + p, size);
        if (at)
            e = load_raw<size>(at);
        store_shared<raw>((uint32_t)((line * PADDED + p) * size), e);
    }
    sync_block();
}

#endif
