/* SPDX-License-Identifier: BSD-3-Clause
 * The record of a machine's measurements: record.c reads it, tune.c makes it. */
#ifndef LIMBER_JIT_TUNE_H
#define LIMBER_JIT_TUNE_H

#include "jit/context.h"

/* Sizes that the tuner tries: rows of a register tile (limber_tile_rows); rows of a block, as
 * multiples of the tile's (limber_tile_tall); columns of a block (limber_tile_wide). */
static const int limber_tile_rows[] = { 12, 8, 14, 6 }, limber_tile_tall[] = { 10, 20, 5 },
                 limber_tile_wide[] = { 256, 512, 1024 };

/* Computes the record's key: that of the machine without measurements. */
bool limber_tuning_key(const limber_context *ctx, unsigned char key[KEY_BYTES]);
/* Returns the record's text, which the caller frees; NULL if there is no record. */
char *limber_tuning_load(const limber_context *ctx);
/* True if the registers suffice for a tile of mr rows.  False for SME, whose tile is fixed. */
bool limber_tile_has_registers(const struct target *t, int mr);
/* Sets the machine's target and its text.  False if memory runs out. */
bool limber_machine_describe(struct machine *m, const struct target *t);

#endif
