/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates AMX-TILE, AMX-INT8 and the AVX-512 FP16 instructions that kernels use, in a SIGILL
 * handler, on CPUs without them.  Each thread has its own tiles. */
#ifndef LIMBER_AMX_EMULATOR_H
#define LIMBER_AMX_EMULATOR_H

#include <stdbool.h>

/* Installs the emulator.  False if that is not possible, for instance on another architecture than
 * x86-64. */
bool amx_emulate(void);
/* Returns the number of instructions that were emulated in this thread. */
long amx_emulated(void);

#endif
