/* SPDX-License-Identifier: BSD-3-Clause
 * The record of measurements of a machine: record.c reads it, tune.c makes it. */
#ifndef LIMBER_JIT_TUNE_H
#define LIMBER_JIT_TUNE_H

#include "jit/context.h"

/* Candidates: rows of a register tile, multiples of them per block, and columns of a block. */
static const int limber_tile_rows[] = { 12, 8, 14, 6 }, limber_tile_tall[] = { 10, 20, 5 },
                 limber_tile_wide[] = { 256, 512, 1024 };

/* The record's key: that of the machine as probed, without measurements. */
bool limber_tuning_key(const limber_context *ctx, unsigned char key[KEY_BYTES]);
char *limber_tuning_load(const limber_context *ctx); /* its text, owned by the caller; NULL: none */
/* True if the registers suffice for mr rows; false for SME, whose tile is fixed. */
bool limber_tile_has_registers(const struct target *t, int mr);
/* Sets the machine's target and its text; false: no memory. */
bool limber_machine_describe(struct machine *m, const struct target *t);

#endif
