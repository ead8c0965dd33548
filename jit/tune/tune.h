/* SPDX-License-Identifier: BSD-3-Clause
 * The record of what was measured of a machine: record.c reads it, tune.c makes it. */
#ifndef LIMBER_JIT_TUNE_H
#define LIMBER_JIT_TUNE_H

#include "jit/context.h"

/* What is tried: rows of a register tile, multiples of them, and columns of a block. */
static const int limber_tile_rows[] = { 12, 8, 14, 6 }, limber_tile_tall[] = { 10, 20, 5 },
                 limber_tile_wide[] = { 256, 512, 1024 };

/* The record's key: of the machine as probed, whatever was measured of it. */
bool limber_tuning_key(const limber_context *ctx, unsigned char key[KEY_BYTES]);
char *limber_tuning_load(const limber_context *ctx); /* its text, for free(); NULL: there is none */
/* The tile of outer products (SME) is the unit's: nothing is tried. */
bool limber_tile_has_registers(const struct target *t, int mr);
/* The machine's target with its text; false: no memory. */
bool limber_machine_describe(struct machine *m, const struct target *t);

#endif
