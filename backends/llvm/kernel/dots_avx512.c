/* SPDX-License-Identifier: BSD-3-Clause */
#define DOTS(name) limber_dots_##name##_avx512
#include "backends/llvm/kernel/dots.c"
