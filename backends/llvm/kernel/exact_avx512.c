/* SPDX-License-Identifier: BSD-3-Clause */
#define EXACT(name) limber_exact_##name##_avx512
#include "backends/llvm/kernel/exact.c"
