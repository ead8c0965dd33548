/* SPDX-License-Identifier: BSD-3-Clause */
#define VECTORS(name) limber_vectors_##name##_avx512
#include "backends/llvm/kernel/vectors.c"
