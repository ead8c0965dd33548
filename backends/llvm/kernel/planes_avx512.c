/* SPDX-License-Identifier: BSD-3-Clause */
#define GATHER limber_planes_gather_avx512
#define WINDOW_SUMS limber_planes_sums_avx512
#define WINDOW_NORMS limber_planes_norms_avx512
#define COPY limber_planes_copy_avx512
#define TRANSPOSE limber_transpose_avx512
#include "backends/llvm/kernel/planes.c"
