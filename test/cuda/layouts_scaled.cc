/* SPDX-License-Identifier: BSD-3-Clause
 * As layouts.cc, of products of blocks with scales into tensor memory (scaled.h). */
#include <cstdint>
#include <cstdio>

#include "layouts.h"

#include <cute/tensor.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cutlass/detail/sm100_blockscaled_layout.hpp>

/* Copies of scales to columns, and what a product says. */
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

/* A step of blocks with scales, of depth elements: where scales lie in memory, how they come to
 * columns, which ones a product takes.  place, scales, piece: the functions of kernels. */
template <class op, int block, int depth, class P, class S, class I>
static void columns_with_scales(const char *name, P place, S scales, I piece)
{
    using namespace cute;
    using traits = MMA_Traits<op>;
    using config = cutlass::detail::Sm1xxBlockScaledConfig<block>;
    using scale = typename traits::ValTypeSFA;
    using tiled = decltype(make_tiled_mma(op{}));
    using shape_mnk = Shape<Int<128>, Int<128>, Int<depth>>;
    using copy = SM100::TMEM::UTCCP::SM100_UTCCP_4x32dp128bit_1cta;
    constexpr int blocks = depth / block, stage = 1, base = 256 + stage * 2 * blocks;
    auto memory = config::tile_atom_to_shape_SFA(make_shape(384, 128, 3 * depth, 1));
    auto shared = config::deduce_smem_layoutSFA(tiled{}, shape_mnk{});
    auto all = make_tensor(make_smem_ptr((scale *)nullptr), filter_zeros(shared));
    auto frag = make_tensor<typename traits::FrgTypeSFA>(shape(shared));
    auto compact = make_tensor(frag.data(), filter_zeros(frag.layout()));
    auto slice = make_utccp_copy(copy{}, compact).get_slice(0);
    auto from = get_utccp_smem_desc_tensor<copy>(slice.partition_S(all));
    auto to = slice.partition_D(compact);
    auto idesc = traits{}.idesc_;

    for (int line = 0; line < 384; line++)
        for (int b = 0; b < 3 * blocks; b++)
            same(name, (long)place(line, b, 3 * blocks), (long)memory(line, b * block, 0));
    copies_asked = 0;
    scales((uint32_t)0, stage);
    same(name, copies_asked, blocks / 2);
    for (int x = 0; x < blocks / 4; x++)    /* those of A; B's are the same behind them */
        for (int side = 0; side < 2; side++) {
            const copied &c = copies[side * blocks / 4 + x];
            long at = (2 * 128 * 128 + 256 * blocks) * stage + 2 * 128 * 128 + side * 128 * blocks;

            same(name, c.to - base - side * blocks, (long)raw_pointer_cast(to(_, 0, 0, x).data()));
            same(name, (long)(c.from & ~(uint64_t)0x3fff),
                 (long)(from(0, 0, 0, x).desc_ & ~(uint64_t)0x3fff));
            same(name, (long)(c.from & 0x3fff) - (at >> 4),
                 (long)(from(0, 0, 0, x).desc_ & 0x3fff) - (long)(from(0, 0, 0, 0).desc_ & 0x3fff));
        }
    for (int q = 0; q < 4; q++) {
        uint32_t where = (uint32_t)raw_pointer_cast(frag(_, _, q).data());

        piece((uint32_t)0, (uint32_t)0, q, (uint32_t)0, 1);
        same(name, issued.scales[0], where & 0x3fffffff);
        same(name, issued.scales[1], (where & 0x3fffffff) + blocks);
        same(name, issued.what,
             (long)(UMMA::make_runtime_instr_desc_block_scaled<>(idesc, where, where) >> 32));
        same(name, (long)(issued.b - issued.a), 128 * 128 >> 4);
    }
}

#define WITH_SCALES(op, block, depth, space) \
    columns_with_scales<op, block, depth>(#space, space::place_of_scale, \
                                          space::issue_stage_scales, space::issue_scaled_piece)
template <class a, class b>
using scaled_bytes = cute::SM100_MMA_MXF8F6F4_SS<a, b, float, cute::float_ue8m0_t, 128, 128,
                                                 cute::UMMA::Major::K, cute::UMMA::Major::K>;
template <class scale, int block>
using scaled_fours =
    cute::SM100_MMA_MXF4_SS<cute::float_e2m1_t, cute::float_e2m1_t, float, scale, 128, 128, block,
                            cute::UMMA::Major::K, cute::UMMA::Major::K>;

int main()
{
    using sixes =
        scaled_bytes<cute::detail::float_e2m3_unpacksmem_t, cute::detail::float_e3m2_unpacksmem_t>;
    using bytes_and_fours = scaled_bytes<cute::float_e4m3_t, cute::detail::float_e2m1_unpacksmem_t>;
    using bytes_alone = scaled_bytes<cute::float_e5m2_t, cute::float_e4m3_t>;
    using fours = scaled_fours<cute::float_ue8m0_t, 32>;
    using more_scales = scaled_fours<cute::float_ue4m3_t, 16>;

    WITH_SCALES(bytes_alone, 32, 128, bytes_with_scales);
    WITH_SCALES(sixes, 32, 128, sixes_with_scales);
    WITH_SCALES(bytes_and_fours, 32, 128, bytes_and_fours_with_scales);
    WITH_SCALES(fours, 32, 256, fours_with_scales);
    WITH_SCALES(more_scales, 16, 256, fours_with_more_scales);
    return tell();
}
