/* SPDX-License-Identifier: BSD-3-Clause
 * Writes CuTe's tables of fragments, tiles and descriptors to a file, one table per line: name,
 * number of columns, numbers.  layouts.cc and layouts_scaled.cc compare kernels with these tables.
 * This program does not include kernels, so that CuTe is compiled only once. */
#include <cstdint>
#include <cstdio>
#include <string>

#include <cute/tensor.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm120.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm89.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cutlass/detail/sm100_blockscaled_layout.hpp>

using namespace cute;

static FILE *file; /* the tables; CuTe writes to stdout that there is no GPU */

template <class F> static void table(const std::string &name, int rows, int columns, F number)
{
    fprintf(file, "%s: %d", name.c_str(), columns);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            fprintf(file, " %ld", (long)number(i, j));
    fputc('\n', file);
}

/* ---- products of warps ----------------------------------------------------------------------- */

/* Prints ldmatrix: for each lane, the index of its address in bits, and the bits that its registers
 * hold. */
static void ldmatrix()
{
    using traits = Copy_Traits<SM75_U32x4_LDSM_N>;

    table("ldmatrix, source", 32, 1, [](int l, int) { return traits::SrcLayout{}(l, 0); });
    table("ldmatrix, registers", 32, 16,
          [](int l, int byte) { return traits::DstLayout{}(l, 8 * byte); });
}

template <class layout> static void lanes(const std::string &name)
{
    table(name, size<0>(layout{}), size<1>(layout{}), [](int l, int v) { return layout{}(l, v); });
}

template <class op> static void warps(const std::string &name)
{
    lanes<typename MMA_Traits<op>::ALayout>(name + ", a");
    lanes<typename MMA_Traits<op>::BLayout>(name + ", b");
    lanes<typename MMA_Traits<op>::CLayout>(name + ", c");
}

template <class op> static void scales(const std::string &name)
{
    table(name + ", a", 32, 1,
          [](int l, int) { return typename MMA_Traits<op>::SFALayout{}(l, 0); });
    table(name + ", b", 32, 1,
          [](int l, int) { return typename MMA_Traits<op>::SFBLayout{}(l, 0); });
}

/* ---- products of warpgroups and into tensor memory ------------------------------------------- */

/* Prints the offsets in a tile at which the four pieces along k begin, and their descriptors for
 * address 0. */
template <class T, class D> static void pieces(const std::string &name, T all, D descriptor)
{
    auto shape = make_shape(size<0>(all), size<1>(all) / Int<4>{});

    table(name, 4, 2, [&](int q, int column) {
        auto part = local_tile(all, shape, make_coord(0, q));

        return column ? (long)descriptor(part) :
                        (long)((char *)raw_pointer_cast(part.data()) - (char *)nullptr);
    });
}

/* Writes the layout of a tile of `lines` lines of 128 bytes, swizzled as wgmma reads it, and the
 * descriptors of its pieces. */
template <class element, int lines> static void tiles(const std::string &type)
{
    constexpr int bytes = sizeof_bits_v<element> / 8, depth = 128 / bytes;
    std::string name = "tiles of " + type + ", " + std::to_string(lines) + " lines";
    auto layout =
        tile_to_shape(GMMA::Layout_K_SW128_Atom<element>{}, Shape<Int<lines>, Int<depth>>{});
    auto all = make_tensor(make_smem_ptr((element *)nullptr), layout);

    table(name, lines, depth, [&](int line, int p) {
        return Swizzle<3, 4, 3>{}((int)layout.layout_b()(line, p) * bytes);
    });
    pieces(name + ", pieces", all,
           [](auto part) { return GMMA::make_gmma_desc<GMMA::Major::K>(part).desc_; });
}

template <class element, int lines> static void tiles_of_tcgen05(const std::string &type)
{
    constexpr int depth = 128 / (sizeof_bits_v<element> / 8);

    pieces("tcgen05's tiles of " + type + ", " + std::to_string(lines) + " lines, pieces",
           make_tensor(make_smem_ptr((element *)nullptr),
                       tile_to_shape(UMMA::Layout_K_SW128_Atom<element>{},
                                     Shape<Int<lines>, Int<depth>>{})),
           [](auto part) { return UMMA::make_umma_desc<UMMA::Major::K>(part).desc_; });
}

/* Prints the loads of 16 lanes and 64 columns, two for a warp's 32 lanes: the address at which they
 * begin, and what each thread receives. */
static void columns()
{
    using shape = Shape<_128, _64>;
    auto memory = make_tensor(make_tmem_ptr<float>(0u),
                              make_layout(shape{}, make_stride(TMEM::DP<float>{}, _1{})));
    auto copy = make_tmem_copy(SM100::TMEM::LOAD::SM100_TMEM_LOAD_16dp256b8x{}, memory);
    auto got = [&](int thread, int v) {
        return copy.get_slice(thread).partition_D(make_identity_tensor(shape{}))(v % 32, v / 32, 0);
    };

    table("tcgen05.ld, begin", 128, 2, [&](int thread, int h) {
        return raw_pointer_cast(copy.get_slice(thread).partition_S(memory)(_, h, 0).data());
    });
    table("tcgen05.ld, rows", 128, 64, [&](int t, int v) { return (int)get<0>(got(t, v)); });
    table("tcgen05.ld, columns", 128, 64, [&](int t, int v) { return (int)get<1>(got(t, v)); });
}

template <class A, class B, class C, int n> static void descriptor(const std::string &types)
{
    table("idesc of " + types, 1, 1, [](int, int) {
        return (uint32_t)UMMA::make_instr_desc<A, B, C, 128, n, UMMA::Major::K, UMMA::Major::K>();
    });
}

/* Prints a step of block-scaled products of `depth` elements: where scales are in shared memory,
 * how they are copied to columns, and which ones a product uses. */
template <class op, int block, int depth> static void columns_with_scales(const std::string &name)
{
    using traits = MMA_Traits<op>;
    using config = cutlass::detail::Sm1xxBlockScaledConfig<block>;
    using scale = typename traits::ValTypeSFA;
    using tiled = decltype(make_tiled_mma(op{}));
    using shape_mnk = Shape<Int<128>, Int<128>, Int<depth>>;
    using copy = SM100::TMEM::UTCCP::SM100_UTCCP_4x32dp128bit_1cta;
    constexpr int blocks = depth / block;
    auto memory = config::tile_atom_to_shape_SFA(make_shape(384, 128, 3 * depth, 1));
    auto shared = config::deduce_smem_layoutSFA(tiled{}, shape_mnk{});
    auto all = make_tensor(make_smem_ptr((scale *)nullptr), filter_zeros(shared));
    auto frag = make_tensor<typename traits::FrgTypeSFA>(shape(shared));
    auto compact = make_tensor(frag.data(), filter_zeros(frag.layout()));
    auto slice = make_utccp_copy(copy{}, compact).get_slice(0);
    auto from = get_utccp_smem_desc_tensor<copy>(slice.partition_S(all));
    auto to = slice.partition_D(compact);
    auto idesc = traits{}.idesc_;
    auto where = [&](int q) { return (uint32_t)raw_pointer_cast(frag(_, _, q).data()); };

    table(name + ", memory", 384, 3 * blocks,
          [&](int line, int b) { return memory(line, b * block, 0); });
    table(name + ", columns", blocks / 4, 1,
          [&](int x, int) { return raw_pointer_cast(to(_, 0, 0, x).data()); });
    table(name + ", copies", blocks / 4, 1, [&](int x, int) { return from(0, 0, 0, x).desc_; });
    table(name + ", products", 4, 2, [&](int q, int column) -> long {
        auto whole = UMMA::make_runtime_instr_desc_block_scaled<>(idesc, where(q), where(q));

        return column ? whole >> 32 : where(q) & 0x3fffffff;
    });
}

template <class a, class b>
using scaled_bytes =
    SM100_MMA_MXF8F6F4_SS<a, b, float, float_ue8m0_t, 128, 128, UMMA::Major::K, UMMA::Major::K>;
template <class scale, int block>
using scaled_fours = SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, scale, 128, 128, block,
                                       UMMA::Major::K, UMMA::Major::K>;

/* Writes CuTe's tables of all layouts that the CUDA kernels use to the file argv[1]. */
int main(int, char **argv)
{
    namespace scaled = SM120::BLOCKSCALED;
    using sixes =
        scaled_bytes<cute::detail::float_e2m3_unpacksmem_t, cute::detail::float_e3m2_unpacksmem_t>;
    using bytes_and_fours = scaled_bytes<float_e4m3_t, cute::detail::float_e2m1_unpacksmem_t>;
    using of_bytes =
        scaled::SM120_16x8x32_TN_VS<float_e4m3_t, float_e5m2_t, float, float_ue8m0_t, 32>;
    using of_e2m1 =
        scaled::SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>;

    file = fopen(argv[1], "w");
    if (!file)
        return 1;
    ldmatrix();
    warps<SM80_16x8x16_F32F16F16F32_TN>("f16");
    warps<SM80_16x8x16_F32BF16BF16F32_TN>("bf16");
    warps<SM80_16x8x8_F32TF32TF32F32_TN>("tf32");
    warps<SM80_16x8x32_S32S8S8S32_TN>("i8");
    warps<SM80_16x8x32_S32U8S8S32_TN>("u8");
    warps<SM89_16x8x32_F32E4M3E4M3F32_TN>("e4m3");
    warps<SM89_16x8x32_F32E5M2E5M2F32_TN>("e5m2");
    warps<of_bytes>("scaled bytes");
    warps<of_e2m1>("E2M1");
    warps<SM80_8x8x4_F64F64F64F64_TN>("f64");
    warps<SM90_16x8x4_F64F64F64F64_TN>("f64, 16 rows");
    scales<of_bytes>("scales of bytes");
    scales<of_e2m1>("scales of E2M1");
    lanes<GMMA::CLayout_64xN<64>>("wgmma, 64 columns");
    lanes<GMMA::CLayout_64xN<128>>("wgmma, 128 columns");
    lanes<GMMA::CLayout_64xN<192>>("wgmma, 192 columns");
    lanes<GMMA::CLayout_64xN<256>>("wgmma, 256 columns");
    tiles<int8_t, 64>("i8");
    tiles<int8_t, 256>("i8");
    tiles<half_t, 128>("f16");
    tiles<bfloat16_t, 128>("bf16");
    tiles<tfloat32_t, 128>("tf32");
    tiles<float_e4m3_t, 128>("e4m3");
    columns();
    descriptor<uint8_t, uint8_t, int32_t, 256>("u8 and u8");
    descriptor<int8_t, uint8_t, int32_t, 64>("i8 and u8");
    descriptor<uint8_t, int8_t, int32_t, 128>("u8 and i8");
    descriptor<half_t, half_t, float, 128>("f16");
    descriptor<bfloat16_t, bfloat16_t, float, 64>("bf16");
    descriptor<tfloat32_t, tfloat32_t, float, 128>("tf32");
    descriptor<float_e4m3_t, float_e4m3_t, float, 256>("e4m3");
    descriptor<float_e5m2_t, float_e5m2_t, float, 64>("e5m2");
    tiles_of_tcgen05<int8_t, 128>("i8");
    tiles_of_tcgen05<int8_t, 256>("i8");
    tiles_of_tcgen05<half_t, 128>("f16");
    tiles_of_tcgen05<bfloat16_t, 128>("bf16");
    tiles_of_tcgen05<tfloat32_t, 128>("tf32");
    tiles_of_tcgen05<float_e4m3_t, 128>("e4m3");
    tiles_of_tcgen05<float_e4m3_t, 256>("e4m3");
    columns_with_scales<scaled_bytes<float_e5m2_t, float_e4m3_t>, 32, 128>("bytes_with_scales");
    columns_with_scales<sixes, 32, 128>("sixes_with_scales");
    columns_with_scales<bytes_and_fours, 32, 128>("bytes_and_fours_with_scales");
    columns_with_scales<scaled_fours<float_ue8m0_t, 32>, 32, 256>("fours_with_scales");
    columns_with_scales<scaled_fours<float_ue4m3_t, 16>, 16, 256>("fours_with_more_scales");
    return fclose(file) != 0;
}
