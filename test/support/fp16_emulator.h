/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates the AVX-512 FP16 instructions that kernels use, on the registers in a signal frame. */
#ifndef LIMBER_FP16_EMULATOR_H
#define LIMBER_FP16_EMULATOR_H

/* Executes the instruction at the RIP of a ucontext_t and returns its length in bytes.  Returns 0
 * if the instruction is not an emulated one. */
int fp16_execute(void *context);

#endif
