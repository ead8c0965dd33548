/* SPDX-License-Identifier: BSD-3-Clause */
#define GATHER limber_planes_gather_avx2
#define WINDOW_SUMS limber_planes_sums_avx2
#define WINDOW_NORMS limber_planes_norms_avx2
#define COPY limber_planes_copy_avx2
#define TRANSPOSE limber_transpose_avx2
#include "backends/llvm/kernel/planes.c"
