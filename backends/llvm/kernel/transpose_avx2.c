/* SPDX-License-Identifier: BSD-3-Clause */
#define TURN limber_transpose_avx2
#include "backends/llvm/kernel/transpose.c"
