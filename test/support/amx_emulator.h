/* SPDX-License-Identifier: BSD-3-Clause
 * Executes the instructions of AMX-TILE and AMX-INT8, and those of AVX-512 FP16 that kernels use,
 * on CPUs that have none, from the signal that they raise; one set of tiles for each thread. */
#ifndef LIMBER_AMX_EMULATOR_H
#define LIMBER_AMX_EMULATOR_H

#include <stdbool.h>

/* Installs the emulator; false where it is not possible, as on other architectures. */
bool amx_emulate(void);
/* The number of instructions that this thread has emulated. */
long amx_emulated(void);

#endif
