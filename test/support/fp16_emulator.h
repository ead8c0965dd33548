/* SPDX-License-Identifier: BSD-3-Clause
 * Executes the few instructions of AVX-512 FP16 that kernels use, on the registers of a signal. */
#ifndef LIMBER_FP16_EMULATOR_H
#define LIMBER_FP16_EMULATOR_H

/* The length of the instruction at the context's RIP, which has been executed; 0: it is none of
 * these.  context: a ucontext_t. */
int fp16_execute(void *context);

#endif
