/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates the AVX-512 FP16 instructions that kernels use, on the registers in a signal frame. */
#ifndef LIMBER_FP16_EMULATOR_H
#define LIMBER_FP16_EMULATOR_H

/* Executes the instruction at the context's RIP (a ucontext_t) and returns its length; 0: not one
 * of these. */
int fp16_execute(void *context);

#endif
