/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a block of LINES rows of A (or columns of B) by ELEMENTS along k into shared memory, in the
 * direction that is contiguous, 16 bytes at once if possible. */
#ifndef LIMBER_CUDA_READ_H
#define LIMBER_CUDA_READ_H

enum { LINES = 32, ELEMENTS = 64, EACH = 8, PACK_THREADS = LINES * ELEMENTS / EACH,
       PADDED = ELEMENTS + 1 };

/* True if a block can be read by 16-byte loads, along k (`along`) or across lines, such that each
 * load is entirely inside or entirely outside of the operand. */
template <int S>
DEVICE bool can_load_pieces(const struct view &v, bool along, int64_t line0, int64_t lines,
                            int64_t length)
{
    constexpr int size = SIDES[S].f.size;
    uint64_t from = (uint64_t)v.data | (uint64_t)(along ? v.line : v.p) * size |
                    (along ? 0 : (uint64_t)line0 * size);

    return size < 16 && limber_view_strided(&v) && !v.tile_subset && (along ? v.p : v.line) == 1 &&
           from % 16 == 0 && (along ? length : lines) % (16 / size) == 0;
}

/* Reads a block by 16-byte loads.  A thread's loads have a constant distance, and all are issued
 * before the first store. */
template <int S>
DEVICE void read_pieces(const struct view &v, bool along, int64_t line0, int64_t lines, int64_t p0,
                        int64_t length)
{
    constexpr int size = SIDES[S].f.size, each = 16 / size, pieces = LINES * ELEMENTS / each;
    constexpr int turns = pieces > PACK_THREADS ? pieces / PACK_THREADS : 1;
    /* number of 16-byte loads per row and per column of a block */
    constexpr int row = ELEMENTS / each, column = LINES / each;
    typedef typename raw_of<size>::type raw;
    int line = along ? thread() / row : thread() % column * each;
    int p = along ? thread() % row * each : thread() / column;
    int step = PACK_THREADS / (along ? row : column);
    int64_t ahead = along ? lines - line : length - p0 - p;
    int rest = (int)(ahead < ELEMENTS ? ahead : ELEMENTS);
    int64_t apart = (along ? v.line : v.p) * step * size;
    const char *from = (const char *)v.data + ((line0 + line) * v.line + (p0 + p) * v.p) * size;
    uint32_t to = (uint32_t)((line * PADDED + p) * size);
    bool inside = along ? p0 + p < length : line < lines;
    bool mine = pieces >= PACK_THREADS || thread() < pieces;
    bytes16 piece[turns];

    UNROLL for (int t = 0; t < turns; t++, from += apart) {
        piece[t] = {};
        if (inside && t * step < rest && mine)
            piece[t] = load<bytes16>(from);
    }
    UNROLL for (int t = 0; t < turns; t++, to += (uint32_t)((along ? PADDED : 1) * step * size))
        UNROLL for (int i = 0; i < each; i++) {
            raw e;

            memcpy(&e, (const char *)&piece[t] + i * size, size);
            if (mine)
                store_shared<raw>(to + (uint32_t)((along ? i : i * PADDED) * size), e);
        }
}

/* Reads a block into shared memory, by 16-byte loads if the layout allows, else element by element.
 * The block begins at line0 and p0.  lines: number of lines up to the end.  length: k. */
template <int S>
DEVICE void read_block(struct view v, int64_t line0, int64_t lines, int64_t p0, int64_t length)
{
    constexpr int size = SIDES[S].f.size;
    typedef typename raw_of<size>::type raw;
    bool along = lies_along(v), in_pieces = can_load_pieces<S>(v, along, line0, lines, length);

    if constexpr (size < 16)
        if (in_pieces)
            read_pieces<S>(v, along, line0, lines, p0, length);
    ROLL for (int x = thread(); !in_pieces && x < LINES * ELEMENTS; x += PACK_THREADS) {
        int line = along ? x / ELEMENTS : x % LINES, p = along ? x % ELEMENTS : x / LINES;
        raw e = {};

        if (line < lines && p0 + p < length)
            load_element<S>(e, v, line0 + line, p0 + p);
        store_shared<raw>((uint32_t)((line * PADDED + p) * size), e);
    }
    sync_block();
}

#endif
