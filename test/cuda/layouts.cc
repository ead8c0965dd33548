/* SPDX-License-Identifier: BSD-3-Clause
 * Where bytes of fragments and tiles lie: what kernels say (kernels.h, taken from the headers in
 * backends/cuda/kernel as they stand) against CuTe's tables of the same instructions. */
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "layouts.h"

#include <cute/tensor.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm120.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm89.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>

/* ---- the functions of kernels, with a warp's shared memory ----------------------------------- */

enum { STEP = 128, MI = 2, NJ = 4, LINES = 64, UNIT_f64 = 1 };
static int warp_lane;
static int lane()
{
    return warp_lane;
}

/* Of each 16-byte piece of a tile where it was stored: its line and its bytes along k. */
struct place {
    int line, byte;
};
static place tile[LINES * STEP / 16];

static place place_of(uint32_t at)
{
    return { tile[at / 16].line, tile[at / 16].byte + (int)(at % 16) };
}

/* ldmatrix of all lanes, by CuTe's table: what registers of this lane hold. */
static uint32_t addresses[8][32]; /* of a call, of a lane */
static int calls;
static bool asks; /* addresses are being collected */
static place held[8][4][4]; /* of a call, a register, a byte */

static void load_fragments(uint32_t *, uint32_t at)
{
    using traits = cute::Copy_Traits<cute::SM75_U32x4_LDSM_N>;
    traits::SrcLayout source;
    traits::DstLayout to;

    if (asks) {
        addresses[calls++][warp_lane] = at;
        return;
    }
    for (int r = 0; r < 4; r++)
        for (int b = 0; b < 4; b++) {
            int bit = (int)to(warp_lane, 32 * r + 8 * b); /* among those of all addresses */

            for (int l = 0; l < 32; l++)
                if (bit >= (int)source(l, 0) && bit < (int)source(l, 0) + 128)
                    held[calls][r][b] =
                        place_of(addresses[calls][l] + (uint32_t)(bit - (int)source(l, 0)) / 8);
        }
    calls++;
}

/* Binary64: the place of what is loaded, and the products that take it. */
template <class T> static T load_shared(uint32_t at)
{
    place p = place_of(at);

    return (T)(p.line * 1000 + p.byte);
}
/* Scales of blocks: where a lane's are loaded from. */
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

template <class F> static void load_of_all_lanes(F load)
{
    asks = true;
    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        calls = 0;
        load();
    }
    asks = false;
}

template <class op, int bits> static void warps(const char *name, int depth)
{
    using traits = cute::MMA_Traits<op>;
    typename traits::ALayout a;
    typename traits::BLayout b;
    typename traits::CLayout c;
    constexpr int each = 32 / bits;
    uint32_t left[MI][4], right[NJ / 2][4];

    for (int q = 0; q < STEP / 32; q++) {
        auto load_a = [&] { bytes::fragments_a(left, 0, 16, q); };
        auto load_b = [&] { bytes::fragments_b(right, 0, 8, q); };

        load_of_all_lanes(load_a);
        for (warp_lane = 0; warp_lane < 32; warp_lane++) {
            calls = 0;
            load_a();
            for (int v = 0; v < 4 * each; v++) {
                int at = (int)a(warp_lane, v); /* row + 16 element */

                same(name, held[0][v / each][v % each * bits / 8].line, 16 + at % 16);
                same(name, held[0][v / each][v % each * bits / 8].byte,
                     32 * q + at / 16 * bits / 8);
            }
        }
        load_of_all_lanes(load_b);
        for (warp_lane = 0; warp_lane < 32; warp_lane++) {
            calls = 0;
            load_b();
            for (int j = 0; j < 2; j++) /* two products from one load */
                for (int v = 0; v < 2 * each; v++) {
                    int at = (int)b(warp_lane, v);
                    place p = held[0][2 * j + v / each][v % each * bits / 8];

                    same(name, p.line, 8 + 8 * j + at % 8);
                    same(name, p.byte, 32 * q + at / 8 * bits / 8);
                }
        }
    }
    for (int l = 0; l < 32; l++)
        for (int v = 0; v < 4; v++) {
            int at = (int)c(l, v);

            same(name, bytes::row_of(0, v, l), at % 16);
            same(name, bytes::column_of(0, v, l), at / 16);
        }
    same(name, depth * bits / 8, 32);
}

static void warps_of_doubles()
{
    using traits = cute::MMA_Traits<cute::SM80_8x8x4_F64F64F64F64_TN>;
    traits::ALayout a;
    traits::BLayout b;
    traits::CLayout c;
    double d[MI][NJ][4];

    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        int at_a = (int)a(warp_lane, 0), at_b = (int)b(warp_lane, 0), last = STEP / 32 - 1;

        products = 0;
        doubles::multiply_f64(d, 0, 0, 8, 16);
        for (int i = 0; i < 2 * MI; i++) /* the last four along k */
            for (int j = 0; j < NJ; j++) {
                same("f64", (long)taken[0][i][j],
                     (8 + 8 * i + at_a % 8) * 1000 + 32 * last + 8 * (at_a / 8));
                same("f64", (long)taken[1][i][j],
                     (16 + 8 * j + at_b % 8) * 1000 + 32 * last + 8 * (at_b / 8));
            }
        for (int v = 0; v < 2; v++) {
            same("f64", bytes::row_of(0, v, warp_lane), (int)c(warp_lane, v) % 8);
            same("f64", bytes::column_of(0, v, warp_lane), (int)c(warp_lane, v) / 8);
        }
    }
}

/* What multiply_f64 has loaded for eight rows, and for eight more, is one product's on 9.0. */
static void warps_of_sixteen_rows_of_doubles()
{
    using traits = cute::MMA_Traits<cute::SM90_16x8x4_F64F64F64F64_TN>;
    traits::ALayout a;
    traits::BLayout b;
    traits::CLayout c;

    for (int l = 0; l < 32; l++) {
        for (int v = 0; v < 2; v++) {
            same("f64, 16 rows", (l >> 2) + 8 * v, (int)a(l, v) % 16);
            same("f64, 16 rows", l & 3, (int)a(l, v) / 16);
        }
        same("f64, 16 rows", l >> 2, (int)b(l, 0) % 8);
        same("f64, 16 rows", l & 3, (int)b(l, 0) / 8);
        for (int v = 0; v < 4; v++) {
            same("f64, 16 rows", bytes::row_of(0, v, l), (int)c(l, v) % 16);
            same("f64, 16 rows", bytes::column_of(0, v, l), (int)c(l, v) / 16);
        }
    }
}

/* Lanes that give the scales of a first product, whose place in the quad is 0; places further on are
 * those of further tiles. */
template <class op> static void scales(const char *name)
{
    using traits = cute::MMA_Traits<op>;
    typename traits::SFALayout a;
    typename traits::SFBLayout b;
    step_scales held[1];

    for (warp_lane = 0; warp_lane < 32; warp_lane++) {
        int t = warp_lane & 3;

        bytes::load_scales(held, 0, 0);
        same(name, held[0].at / SCALES, t / 2 * 16 + (int)a((warp_lane & ~3) + (t & 1), 0) % 16);
        same(name, held[0].at / SCALES, t * 8 + (int)b(warp_lane, 0) % 8);
    }
}

/* ---- products of warpgroups ------------------------------------------------------------------ */

template <int n> static void groups()
{
    cute::GMMA::CLayout_64xN<n> c;

    for (int thread = 0; thread < 128; thread++)
        for (int v = 0; v < n / 2; v++) {
            int at = (int)c(thread, v);

            same("wgmma", 16 * (thread >> 5) + bytes::row_of(0, v % 4, thread & 31), at % 64);
            same("wgmma", bytes::column_of(v / 4, v % 4, thread & 31), at / 64);
        }
}

template <class element, int lines> static void tiles(const char *name)
{
    constexpr int size = cute::sizeof_bits_v<element> / 8, depth = 128 / size;
    auto layout = cute::tile_to_shape(cute::GMMA::Layout_K_SW128_Atom<element>{},
                                      cute::Shape<cute::Int<lines>, cute::Int<depth>>{});
    auto all = cute::make_tensor(cute::make_smem_ptr((element *)nullptr), layout);

    for (int line = 0; line < lines; line++)
        for (int p = 0; p < depth; p++) {
            int at = (int)cute::Swizzle<3, 4, 3>{}((int)layout.layout_b()(line, p) * size);

            same(name, bytes::piece_at<128>(line, p * size / 16) + p * size % 16, at);
        }
    for (int q = 0; q < 4; q++) {
        auto part = cute::local_tile(all, cute::Shape<cute::Int<lines>, cute::Int<depth / 4>>{},
                                     cute::make_coord(0, q));
        auto d = cute::GMMA::make_gmma_desc<cute::GMMA::Major::K>(part);
        long from = (long)((char *)cute::raw_pointer_cast(part.data()) - (char *)nullptr);

        /* CuTe's is of address 0, or knows none on the host */
        same(name, (long)(bytes::tile_descriptor(0, 32 * q) & 0x3fff), from >> 4);
        same(name, (long)(bytes::tile_descriptor(0, 32 * q) & ~(uint64_t)0x3fff),
             (long)(d.desc_ & ~(uint64_t)0x3fff));
    }
}

/* ---- tensor memory --------------------------------------------------------------------------- */

/* Loads of 16 lanes and 64 columns, two for a warp's 32 lanes: where they begin, and what a thread
 * gets. */
static void columns()
{
    using shape = cute::Shape<cute::_128, cute::_64>;
    auto memory = cute::make_tensor(
        cute::make_tmem_ptr<float>(0u),
        cute::make_layout(shape{}, cute::make_stride(cute::TMEM::DP<float>{}, cute::_1{})));
    auto copy = cute::make_tmem_copy(cute::SM100::TMEM::LOAD::SM100_TMEM_LOAD_16dp256b8x{}, memory);

    for (int thread = 0; thread < 128; thread++) {
        auto slice = copy.get_slice(thread);
        auto from = slice.partition_S(memory);
        auto to = slice.partition_D(cute::make_identity_tensor(shape{}));

        for (int h = 0; h < 2; h++) {
            int row = thread / 32 * 32 + 16 * h; /* that of a warp of group h of tensor.h */

            same("tcgen05.ld", (long)row << 16,
                 (long)cute::raw_pointer_cast(from(cute::_, h, 0).data()));
            for (int v = 0; v < 32; v++) {
                same("tcgen05.ld", row + bytes::row_of(0, v % 4, thread & 31),
                     (int)cute::get<0>(to(v, h, 0)));
                same("tcgen05.ld", bytes::column_of(v / 4, v % 4, thread & 31),
                     (int)cute::get<1>(to(v, h, 0)));
            }
        }
    }
}

template <class A, class B, class C, int n>
static void descriptors(const char *name, uint32_t a, uint32_t b, uint32_t sum)
{
    auto d =
        cute::UMMA::make_instr_desc<A, B, C, 128, n, cute::UMMA::Major::K, cute::UMMA::Major::K>();

    same(name, blackwell::product_descriptor(128, n, a, b, sum), (long)(uint32_t)d);
}

template <class element, int lines> static void tiles_of_tcgen05(const char *name)
{
    constexpr int size = cute::sizeof_bits_v<element> / 8, depth = 128 / size;
    auto all =
        cute::make_tensor(cute::make_smem_ptr((element *)nullptr),
                          cute::tile_to_shape(cute::UMMA::Layout_K_SW128_Atom<element>{},
                                              cute::Shape<cute::Int<lines>, cute::Int<depth>>{}));

    for (int q = 0; q < 4; q++) {
        auto part = cute::local_tile(all, cute::Shape<cute::Int<lines>, cute::Int<depth / 4>>{},
                                     cute::make_coord(0, q));
        auto d = cute::UMMA::make_umma_desc<cute::UMMA::Major::K>(part);
        long from = (long)((char *)cute::raw_pointer_cast(part.data()) - (char *)nullptr);

        same(name, (long)(blackwell::tile_descriptor(0, 32 * q) & 0x3fff), from >> 4);
        same(name, (long)(blackwell::tile_descriptor(0, 32 * q) & ~(uint64_t)0x3fff),
             (long)(d.desc_ & ~(uint64_t)0x3fff));
    }
}

int main()
{
    namespace scaled = cute::SM120::BLOCKSCALED;

    store_tile([](int line, int c) { return bytes::piece_at(line, c); });
    warps<cute::SM80_16x8x16_F32F16F16F32_TN, 16>("f16", 16);
    warps<cute::SM80_16x8x16_F32BF16BF16F32_TN, 16>("bf16", 16);
    warps<cute::SM80_16x8x8_F32TF32TF32F32_TN, 32>("tf32", 8);
    warps<cute::SM80_16x8x32_S32S8S8S32_TN, 8>("i8", 32);
    warps<cute::SM80_16x8x32_S32U8S8S32_TN, 8>("u8", 32);
    warps<cute::SM89_16x8x32_F32E4M3E4M3F32_TN, 8>("e4m3", 32);
    warps<cute::SM89_16x8x32_F32E5M2E5M2F32_TN, 8>("e5m2", 32);
    warps<scaled::SM120_16x8x32_TN_VS<cute::float_e4m3_t, cute::float_e5m2_t, float,
                                      cute::float_ue8m0_t, 32>,
          8>("scaled bytes", 32);
    warps<scaled::SM120_16x8x64_TN_VS<cute::float_e2m1_t, cute::float_e2m1_t, float,
                                      cute::float_ue4m3_t, 16>,
          4>("E2M1", 64);
    store_tile([](int line, int c) { return doubles::piece_at(line, c); });
    warps_of_doubles();
    warps_of_sixteen_rows_of_doubles();
    scales<scaled::SM120_16x8x32_TN_VS<cute::float_e4m3_t, cute::float_e5m2_t, float,
                                       cute::float_ue8m0_t, 32>>("scales of bytes");
    scales<scaled::SM120_16x8x64_TN_VS<cute::float_e2m1_t, cute::float_e2m1_t, float,
                                       cute::float_ue4m3_t, 16>>("scales of E2M1");
    groups<64>();
    groups<128>();
    groups<192>();
    groups<256>();
    tiles<int8_t, 64>("tiles of i8");
    tiles<int8_t, 256>("tiles of i8");
    tiles<cute::half_t, 128>("tiles of f16");
    tiles<cute::bfloat16_t, 128>("tiles of bf16");
    tiles<cute::tfloat32_t, 128>("tiles of tf32");
    tiles<cute::float_e4m3_t, 128>("tiles of e4m3");
    columns();
    descriptors<uint8_t, uint8_t, int32_t, 256>("idesc of u8", 0, 0, blackwell::PRODUCT_i32);
    descriptors<int8_t, uint8_t, int32_t, 64>("idesc of i8", 1, 0, blackwell::PRODUCT_i32);
    descriptors<uint8_t, int8_t, int32_t, 128>("idesc of i8", 0, 1, blackwell::PRODUCT_i32);
    descriptors<cute::half_t, cute::half_t, float, 128>(
        "idesc of f16", blackwell::PRODUCT_f16, blackwell::PRODUCT_f16, blackwell::PRODUCT_f32);
    descriptors<cute::bfloat16_t, cute::bfloat16_t, float, 64>(
        "idesc of bf16", blackwell::PRODUCT_bf16, blackwell::PRODUCT_bf16, blackwell::PRODUCT_f32);
    descriptors<cute::tfloat32_t, cute::tfloat32_t, float, 128>(
        "idesc of tf32", blackwell::PRODUCT_tf32, blackwell::PRODUCT_tf32, blackwell::PRODUCT_f32);
    descriptors<cute::float_e4m3_t, cute::float_e4m3_t, float, 256>(
        "idesc of e4m3", blackwell::PRODUCT_e4m3, blackwell::PRODUCT_e4m3, blackwell::PRODUCT_f32);
    descriptors<cute::float_e5m2_t, cute::float_e5m2_t, float, 64>(
        "idesc of e5m2", blackwell::PRODUCT_e5m2, blackwell::PRODUCT_e5m2, blackwell::PRODUCT_f32);
    tiles_of_tcgen05<int8_t, 128>("tcgen05's tiles of i8");
    tiles_of_tcgen05<int8_t, 256>("tcgen05's tiles of i8");
    tiles_of_tcgen05<cute::half_t, 128>("tcgen05's tiles of f16");
    tiles_of_tcgen05<cute::bfloat16_t, 128>("tcgen05's tiles of bf16");
    tiles_of_tcgen05<cute::tfloat32_t, 128>("tcgen05's tiles of tf32");
    tiles_of_tcgen05<cute::float_e4m3_t, 128>("tcgen05's tiles of e4m3");
    tiles_of_tcgen05<cute::float_e4m3_t, 256>("tcgen05's tiles of e4m3");
    return tell();
}
