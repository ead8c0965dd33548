/* SPDX-License-Identifier: BSD-3-Clause
 * Reads tiles of B from limbs of an image, through the window of a convolution.  Each column of B
 * is one position of the window; pixels outside of the image are zero.  A table in shared memory,
 * made once per task, holds the first pixel of each column's window.  The element of the window to
 * which a 16-byte piece belongs is computed once per step along k. */
#ifndef LIMBER_CUDA_WINDOW_H
#define LIMBER_CUDA_WINDOW_H

/* bytes of an entry of the table; a coordinate that lies outside of any image */
enum { PIXEL = 16, OUTSIDE = 1 << 29 };

/* A pixel's position, or the distance of two pixels: rows, columns, and bytes in a limb. */
struct alignas(PIXEL) pixel { int32_t y, x; int64_t at; };

/* Returns the first pixel of the window of column j of B in this part.  For columns that do not
 * exist, returns a pixel far above the image, so that all copied pixels are zero. */
DEVICE struct pixel pixel_of(const multiply_args &a, int64_t j)
{
    const struct window &w = a.window;
    int64_t line = w.line0 + j, image = line / ((int64_t)w.oh * w.ow);
    int32_t rest = (int32_t)(line - image * w.oh * w.ow);
    int32_t y = rest / w.ow * w.stride[0] - w.pad[0], x = rest % w.ow * w.stride[1] - w.pad[1];

    if (j >= a.r.n)
        return { -2 * OUTSIDE, 0, 0 };
    return { y, x, ((image * w.h + y) * w.w + x) * w.pieces * 16 };
}

/* Returns the distance from a window's first pixel to 16-byte piece `index` along k.  Beyond the
 * last piece, it leads far below the image, so that copied pixels are zero. */
DEVICE struct pixel piece_offset(const struct window &w, int index)
{
    int position = limber_divide_by(index, w.pieces, w.inverse_pieces);
    int piece = index - position * w.pieces;
    int r = limber_divide_by(position, w.s, w.inverse_s), y, x;

    y = r * w.dilate[0];
    x = (position - r * w.s) * w.dilate[1];
    if (r >= w.r)
        return { OUTSIDE, 0, 0 };
    return { y, x, (((int64_t)y * w.w + x) * w.pieces + piece) * 16 };
}

/* Fills the table for a tile of columns.  All threads of the block take part, and none may still be
 * reading the previous table. */
template <int threads> DEVICE void find_pixels(const multiply_args &a, uint32_t table, int tile)
{
    ROLL for (int l = thread(); l < BN; l += threads)
        store_shared<struct pixel>(table + (uint32_t)(l * PIXEL),
                                   pixel_of(a, (int64_t)tile * BN + l));
    sync_block();
}

/* Copies one 16-byte piece of a column of B to shared memory, for all limbs. */
template <int limbs, int tile>
DEVICE void copy_pixel(const multiply_args &a, uint32_t at, const struct pixel &p,
                       const struct pixel &spot, const char *from)
{
    bool inside = (uint32_t)(p.y + spot.y) < (uint32_t)a.window.h &&
                  (uint32_t)(p.x + spot.x) < (uint32_t)a.window.w;

    UNROLL for (int l = 0; l < limbs; l++)
        copy16(at + l * tile, from + l * a.limb_b + p.at + spot.at, inside ? 16 : 0);
}

/* Copies one step along k of all columns of a tile, by `threads` threads.  A thread copies the same
 * piece of several columns, a few at a time, since producer threads have few registers. */
template <int threads, int limbs, int tile>
DEVICE void copy_pixels(const multiply_args &a, uint32_t at, uint32_t table, const char *from,
                        int step)
{
    constexpr int pieces = STEP / 16, lines = threads / pieces, each = BN / lines;
    constexpr int at_once = each < 8 ? each : 8;
    int piece = thread() % pieces;
    struct pixel spot = piece_offset(a.window, step * pieces + piece);

    static_assert(BN % lines == 0 && each % at_once == 0, "");
    ROLL for (int first = thread() / pieces; first < BN; first += at_once * lines)
        UNROLL for (int x = 0; x < at_once; x++) {
            int line = first + x * lines;

            copy_pixel<limbs, tile>(a, at + piece_at(line, piece),
                                    load_shared<struct pixel>(table + (uint32_t)(line * PIXEL)),
                                    spot, from);
        }
}

#endif
