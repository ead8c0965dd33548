/* SPDX-License-Identifier: BSD-3-Clause */
#define TURN limber_turn_avx2
#include "backends/llvm/kernel/turn.c"
