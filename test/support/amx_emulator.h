/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates the instructions of AMX-TILE and AMX-INT8, and those of AVX-512 FP16 that kernels use,
 * in a SIGILL handler on CPUs without them; each thread has its own tiles. */
#ifndef LIMBER_AMX_EMULATOR_H
#define LIMBER_AMX_EMULATOR_H

#include <stdbool.h>

/* Installs the emulator; false where it is not possible, as on other architectures. */
bool amx_emulate(void);
/* The number of instructions that this thread has emulated. */
long amx_emulated(void);

#endif
