/* SPDX-License-Identifier: BSD-3-Clause
 * Compares the byte layouts of fragments and tiles in the kernels (kernels.h, extracted from the
 * headers in backends/cuda/kernel) with CuTe's tables for the same instructions, which
 * layouts_cute.cc wrote to the file that is this program's argument. */
#include "layouts.h"

/* ---- kernel functions on a warp's shared memory ---------------------------------------------- */

enum { STEP = 128, MI = 2, NJ = 4, LINES = 64, UNIT_f64 = 1 };
static int warp_lane;
static int lane()
{
    return warp_lane;
}

/* For each 16-byte piece of a tile in shared memory: its line (row of A or column of B), and the
 * index along k of its first byte. */
struct place {
    int line, byte;
};
static place tile[LINES * STEP / 16];

static place place_of(uint32_t at)
{
    return { tile[at / 16].line, tile[at / 16].byte + (int)(at % 16) };
}

/* [call of ldmatrix][lane] address of the piece that the lane passes */
static uint32_t addresses[8][32];
static int calls;
static bool asks; /* true: all lanes' addresses are being recorded */
/* [call of ldmatrix][register][byte] the byte of the tile that the lane's register holds */
static place held[8][4][4];

/* Emulates ldmatrix for all lanes by CuTe's table: records which bytes this lane's registers
 * hold. */
static void load_fragments(uint32_t *, uint32_t at)
{
    static const table &source = cute("ldmatrix, source"), &to = cute("ldmatrix, registers");

    if (asks) {
        addresses[calls++][warp_lane] = at;
        return;
    }
    for (int r = 0; r < 4; r++)
        for (int b = 0; b < 4; b++) {
            int bit = to(warp_lane, 4 * r + b); /* index among the bits of all addresses */

            for (int l = 0; l < 32; l++)
                if (bit >= source(l) && bit < source(l) + 128)
                    held[calls][r][b] =
                        place_of(addresses[calls][l] + (uint32_t)(bit - source(l)) / 8);
        }
    calls++;
}

/* FP64 kernels: a load returns the position of its number, which the products record. */
template <class T> static T load_shared(uint32_t at)
{
    place p = place_of(at);

    return (T)(p.line * 1000 + p.byte);
}
/* Addresses from which a lane loads block scales. */
enum { SCALES = 4 };
struct step_scales {
    uint32_t at;
};
template <> step_scales load_shared<step_scales>(uint32_t at)
{
    return { at };
}

static double taken[2][2 * MI][NJ];
static int products;
static void mma_f64(double *, double a, double b)
{
    taken[0][products / NJ % (2 * MI)][products % NJ] = a;
    taken[1][products / NJ % (2 * MI)][products % NJ] = b;
    products++;
}

namespace bytes
{
enum { UNIT = 0 };
#include "kernels.h"
} // namespace bytes
namespace doubles
{
enum { UNIT = UNIT_f64 };
#include "kernels.h"
} // namespace doubles

namespace blackwell
{
enum { UNIT = 0 };
#define __CUDA_ARCH__ 1000
#include "kernels.h"
#undef __CUDA_ARCH__
} // namespace blackwell

template <class F> static void store_tile(F piece_at)
{
    for (int line = 0; line < LINES; line++)
        for (int c = 0; c < STEP / 16; c++)
            tile[piece_at(line, c) / 16] = { line, 16 * c };
}

/* ---- products of warps ----------------------------------------------------------------------- */

/* Calls `load` for each lane with `asks` set, so that the lanes' addresses are collected. */
template <class F> static void load_of_all_lanes(F load)
{
    asks = true;
    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        calls = 0;
        load();
    }
    asks = false;
}

/* Compares the places of elements that Limber's code loads for a warp's mma instruction with CuTe's
 * tables.  bits: size of an element; depth: elements along k. */
static void check_warps(const std::string &name, int bits, int depth)
{
    const table &a = cute(name + ", a"), &b = cute(name + ", b"), &c = cute(name + ", c");
    const int each = 32 / bits;
    uint32_t left[MI][4], right[NJ / 2][4];

    for (int q = 0; q < STEP / 32; q++) {
        auto load_a = [&] { bytes::fragments_a(left, 0, 16, q); };
        auto load_b = [&] { bytes::fragments_b(right, 0, 8, q); };

        load_of_all_lanes(load_a);
        for (warp_lane = 0; warp_lane < 32; warp_lane++) {
            calls = 0;
            load_a();
            for (int v = 0; v < 4 * each; v++) {
                int at = a(warp_lane, v); /* row + 16 * (element along k) */

                same(name, held[0][v / each][v % each * bits / 8].line, 16 + at % 16);
                same(name, held[0][v / each][v % each * bits / 8].byte,
                     32 * q + at / 16 * bits / 8);
            }
        }
        load_of_all_lanes(load_b);
        for (warp_lane = 0; warp_lane < 32; warp_lane++) {
            calls = 0;
            load_b();
            for (int j = 0; j < 2; j++) /* one ldmatrix loads the operands of two products */
                for (int v = 0; v < 2 * each; v++) {
                    int at = b(warp_lane, v);
                    place p = held[0][2 * j + v / each][v % each * bits / 8];

                    same(name, p.line, 8 + 8 * j + at % 8);
                    same(name, p.byte, 32 * q + at / 8 * bits / 8);
                }
        }
    }
    for (int l = 0; l < 32; l++)
        for (int v = 0; v < 4; v++) {
            int at = c(l, v);

            same(name, bytes::row_of(0, v, l), at % 16);
            same(name, bytes::column_of(0, v, l), at / 16);
        }
    same(name, depth * bits / 8, 32);
}

/* Compares the places of A, B and C in a warp's mma of doubles with CuTe's tables. */
static void check_warps_of_doubles()
{
    const table &a = cute("f64, a"), &b = cute("f64, b"), &c = cute("f64, c");
    double d[MI][NJ][4];

    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        int at_a = a(warp_lane), at_b = b(warp_lane), last = STEP / 32 - 1;

        products = 0;
        doubles::multiply_f64(d, 0, 0, 8, 16);
        for (int i = 0; i < 2 * MI; i++) /* compares the last four elements along k */
            for (int j = 0; j < NJ; j++) {
                same("f64", (long)taken[0][i][j],
                     (8 + 8 * i + at_a % 8) * 1000 + 32 * last + 8 * (at_a / 8));
                same("f64", (long)taken[1][i][j],
                     (16 + 8 * j + at_b % 8) * 1000 + 32 * last + 8 * (at_b / 8));
            }
        for (int v = 0; v < 2; v++) {
            same("f64", bytes::row_of(0, v, warp_lane), c(warp_lane, v) % 8);
            same("f64", bytes::column_of(0, v, warp_lane), c(warp_lane, v) / 8);
        }
    }
}

/* Checks that the operands that multiply_f64 loads for two groups of eight rows are those of one
 * product of 16 rows on devices of capability 9.0. */
static void warps_of_sixteen_rows_of_doubles()
{
    const table &a = cute("f64, 16 rows, a"), &b = cute("f64, 16 rows, b");
    const table &c = cute("f64, 16 rows, c");

    for (int l = 0; l < 32; l++) {
        for (int v = 0; v < 2; v++) {
            same("f64, 16 rows", (l >> 2) + 8 * v, a(l, v) % 16);
            same("f64, 16 rows", l & 3, a(l, v) / 16);
        }
        same("f64, 16 rows", l >> 2, b(l) % 8);
        same("f64, 16 rows", l & 3, b(l) / 8);
        for (int v = 0; v < 4; v++) {
            same("f64, 16 rows", bytes::row_of(0, v, l), c(l, v) % 16);
            same("f64, 16 rows", bytes::column_of(0, v, l), c(l, v) / 16);
        }
    }
}

/* Checks which lanes provide scales for a first product: of each four lanes, the first two for A
 * and the first for B.  Later lanes belong to later tiles. */
static void check_scales(const std::string &name)
{
    const table &a = cute(name + ", a"), &b = cute(name + ", b");
    step_scales held[1];

    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        int t = warp_lane & 3;

        bytes::load_scales(held, 0, 0);
        same(name, held[0].at / SCALES, t / 2 * 16 + a((warp_lane & ~3) + (t & 1)) % 16);
        same(name, held[0].at / SCALES, t * 8 + b(warp_lane) % 8);
    }
}

/* ---- products of warpgroups ------------------------------------------------------------------ */

/* Compares the places of sums in a warpgroup's wgmma with CuTe's table. */
static void check_groups(int columns)
{
    const table &c = cute("wgmma, " + std::to_string(columns) + " columns");

    for (int thread = 0; thread < 128; thread++)
        for (int v = 0; v < columns / 2; v++) {
            int at = c(thread, v);

            same("wgmma", 16 * (thread >> 5) + bytes::row_of(0, v % 4, thread & 31), at % 64);
            same("wgmma", bytes::column_of(v / 4, v % 4, thread & 31), at / 64);
        }
}

/* Checks the descriptors of a tile's four pieces of 32 bytes along k.  CuTe's descriptors have
 * address 0; its table has each piece's start. */
static void check_pieces(const std::string &name, uint64_t descriptor(uint32_t at, int from))
{
    const table &pieces = cute(name + ", pieces");

    for (int q = 0; q < 4; q++) {
        same(name, (long)(descriptor(0, 32 * q) & 0x3fff), pieces(q, 0) >> 4);
        same(name, (long)(descriptor(0, 32 * q) & ~(uint64_t)0x3fff),
             pieces.whole(q, 1) & ~(long)0x3fff);
    }
}

static std::string name_tile(const char *type, int lines)
{
    return std::string("tiles of ") + type + ", " + std::to_string(lines) + " lines";
}

static void check_tiles(const char *type, int size, int lines)
{
    std::string name = name_tile(type, lines);
    const table &at = cute(name);

    for (int line = 0; line < lines; line++)
        for (int p = 0; p < 128 / size; p++)
            same(name, bytes::piece_at<128>(line, p * size / 16) + p * size % 16, at(line, p));
    check_pieces(name, bytes::tile_descriptor);
}

/* ---- tensor memory --------------------------------------------------------------------------- */

/* Compares rows and columns of C that each thread loads from tensor memory with CuTe's tables of
 * tcgen05.ld. */
static void check_columns()
{
    const table &begin = cute("tcgen05.ld, begin"), &rows = cute("tcgen05.ld, rows");
    const table &columns = cute("tcgen05.ld, columns");

    for (int thread = 0; thread < 128; thread++)
        for (int h = 0; h < 2; h++) {
            /* first row that this thread's warp loads if it is in warpgroup h (tensor.h) */
            int row = thread / 32 * 32 + 16 * h;

            same("tcgen05.ld", (long)row << 16, begin(thread, h));
            for (int v = 0; v < 32; v++) {
                same("tcgen05.ld", row + bytes::row_of(0, v % 4, thread & 31),
                     rows(thread, 32 * h + v));
                same("tcgen05.ld", bytes::column_of(v / 4, v % 4, thread & 31),
                     columns(thread, 32 * h + v));
            }
        }
}

static void check_descriptor(const char *types, int n, uint32_t a, uint32_t b, uint32_t sum)
{
    std::string name = std::string("idesc of ") + types;

    same(name, blackwell::product_descriptor(128, n, a, b, sum), cute(name).whole(0));
}

static void tiles_of_tcgen05(const char *type, int lines)
{
    check_pieces("tcgen05's " + name_tile(type, lines), blackwell::tile_descriptor);
}

/* Compares all layouts of the CUDA kernels with the tables in the file argv[1], which
 * layouts_cute.cc has written. */
int main(int, char **argv)
{
    namespace on = blackwell;

    read_tables(argv[1]);
    store_tile([](int line, int c) { return bytes::piece_at(line, c); });
    check_warps("f16", 16, 16);
    check_warps("bf16", 16, 16);
    check_warps("tf32", 32, 8);
    for (const char *name : { "i8", "u8", "e4m3", "e5m2", "scaled bytes" })
        check_warps(name, 8, 32);
    check_warps("E2M1", 4, 64);
    store_tile([](int line, int c) { return doubles::piece_at(line, c); });
    check_warps_of_doubles();
    warps_of_sixteen_rows_of_doubles();
    check_scales("scales of bytes");
    check_scales("scales of E2M1");
    for (int n = 64; n <= 256; n += 64)
        check_groups(n);
    check_tiles("i8", 1, 64);
    check_tiles("i8", 1, 256);
    check_tiles("f16", 2, 128);
    check_tiles("bf16", 2, 128);
    check_tiles("tf32", 4, 128);
    check_tiles("e4m3", 1, 128);
    check_columns();
    check_descriptor("u8 and u8", 256, 0, 0, on::PRODUCT_i32);
    check_descriptor("i8 and u8", 64, 1, 0, on::PRODUCT_i32);
    check_descriptor("u8 and i8", 128, 0, 1, on::PRODUCT_i32);
    check_descriptor("f16", 128, on::PRODUCT_f16, on::PRODUCT_f16, on::PRODUCT_f32);
    check_descriptor("bf16", 64, on::PRODUCT_bf16, on::PRODUCT_bf16, on::PRODUCT_f32);
    check_descriptor("tf32", 128, on::PRODUCT_tf32, on::PRODUCT_tf32, on::PRODUCT_f32);
    check_descriptor("e4m3", 256, on::PRODUCT_e4m3, on::PRODUCT_e4m3, on::PRODUCT_f32);
    check_descriptor("e5m2", 64, on::PRODUCT_e5m2, on::PRODUCT_e5m2, on::PRODUCT_f32);
    tiles_of_tcgen05("i8", 128);
    tiles_of_tcgen05("i8", 256);
    tiles_of_tcgen05("f16", 128);
    tiles_of_tcgen05("bf16", 128);
    tiles_of_tcgen05("tf32", 128);
    tiles_of_tcgen05("e4m3", 128);
    tiles_of_tcgen05("e4m3", 256);
    return tell();
}
