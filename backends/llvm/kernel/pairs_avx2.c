/* SPDX-License-Identifier: BSD-3-Clause */
#define PAIRS(name) limber_pairs_##name##_avx2
#include "backends/llvm/kernel/pairs.c"
