/* SPDX-License-Identifier: BSD-3-Clause
 * Compares layouts of block-scaled products in tensor memory (scaled.h) with CuTe's tables, as
 * layouts.cc does for other products. */
#include "layouts.h"

/* Copies of scales to columns, as the kernel's functions issue them. */
struct copied {
    uint32_t to;
    uint64_t from;
};
static copied copies[8];
static int copies_asked;
static void issue_scales(uint32_t to, uint64_t from)
{
    copies[copies_asked++] = { to, from };
}

struct said {
    uint64_t a, b;
    uint32_t what, scales[2];
};
static said issued;
template <int>
static void issue_scaled(uint32_t, uint64_t a, uint64_t b, uint32_t what, uint32_t scales_a,
                         uint32_t scales_b, int)
{
    issued = { a, b, what, { scales_a, scales_b } };
}

enum { LIMBER_SCALE_UE4M3 = 2 };
#define __CUDA_ARCH__ 1000
#define SCALED(name, kind, bytes, a, b, format) \
    namespace name \
    { \
    enum { \
        MX = kind, \
        SCALES = bytes, \
        FORMAT_A = a, \
        FORMAT_B = b, \
        BM = 128, \
        BN = 128, \
        PIECES = 4, \
        TILE_A = BM * 128, \
        SCALES_AT = 2 * TILE_A, \
        STAGE = SCALES_AT + 256 * SCALES, \
        SCALES_FROM = 256, \
        COLUMNS_TAKEN = 512 \
    }; \
    constexpr struct { \
        int scale; \
    } MODEL = { format };
SCALED(bytes_with_scales, 1, 4, 1, 0, 1)
#include "scaled.h"
}
SCALED(sixes_with_scales, 1, 4, 3, 4, 1)
#include "scaled.h"
}
SCALED(bytes_and_fours_with_scales, 1, 4, 0, 5, 1)
#include "scaled.h"
}
SCALED(fours_with_scales, 2, 8, 5, 5, 1)
#include "scaled.h"
}
SCALED(fours_with_more_scales, 3, 16, 5, 5, LIMBER_SCALE_UE4M3)
#include "scaled.h"
}
#undef __CUDA_ARCH__

/* Checks the second stage of a buffer of block-scaled products.  place, scales, piece: functions of
 * the kernels. */
template <class P, class S, class I>
static void columns_with_scales(const std::string &name, int blocks, P place, S scales, I piece)
{
    const table &memory = cute(name + ", memory"), &columns = cute(name + ", columns");
    const table &from = cute(name + ", copies"), &taken = cute(name + ", products");
    const int stage = 1, base = 256 + stage * 2 * blocks;

    for (int line = 0; line < 384; line++)
        for (int b = 0; b < 3 * blocks; b++)
            same(name, (long)place(line, b, 3 * blocks), memory(line, b));
    copies_asked = 0;
    scales((uint32_t)0, stage);
    same(name, copies_asked, blocks / 2);
    /* copies of the scales of A (side 0) and B */
    for (int x = 0; x < blocks / 4; x++)
        for (int side = 0; side < 2; side++) {
            const copied &c = copies[side * blocks / 4 + x];
            long at = (2 * 128 * 128 + 256 * blocks) * stage + 2 * 128 * 128 + side * 128 * blocks;

            same(name, c.to - base - side * blocks, columns(x));
            same(name, (long)(c.from & ~(uint64_t)0x3fff), from.whole(x) & ~(long)0x3fff);
            same(name, (long)(c.from & 0x3fff) - (at >> 4),
                 (from.whole(x) & 0x3fff) - (from.whole(0) & 0x3fff));
        }
    for (int q = 0; q < 4; q++) {
        piece((uint32_t)0, (uint32_t)0, q, (uint32_t)0, 1);
        same(name, issued.scales[0], taken.whole(q, 0));
        same(name, issued.scales[1], taken.whole(q, 0) + blocks);
        same(name, issued.what, taken.whole(q, 1));
        same(name, (long)(issued.b - issued.a), 128 * 128 >> 4);
    }
}

#define WITH_SCALES(blocks, space) \
    columns_with_scales(#space, blocks, space::place_of_scale, space::issue_stage_scales, \
                        space::issue_scaled_piece)

int main(int, char **argv)
{
    read_tables(argv[1]);
    WITH_SCALES(4, bytes_with_scales);
    WITH_SCALES(4, sixes_with_scales);
    WITH_SCALES(4, bytes_and_fours_with_scales);
    WITH_SCALES(8, fours_with_scales);
    WITH_SCALES(16, fours_with_more_scales);
    return tell();
}
