/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the engine's tests: small products with known results, and a backend that counts its
 * calls and forwards them to interp. */
#ifndef LIMBER_TEST_ENGINE_SUPPORT_H
#define LIMBER_TEST_ENGINE_SUPPORT_H

#define _GNU_SOURCE
#include "calls.h"
#include "files.h"
#include "support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jit/api/api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Counters of the counting backend; compile_delay: added to each compilation. */
extern atomic_int compiles, loads, unloads, compile_delay; /* microseconds */
extern atomic_int compile_tells; /* a pipe that gets a byte when a compilation begins; -1: none */
extern const struct backend counted;
extern const struct backend *const counted_list[];
limber_context *counted_context(const limber_config *c);

/* Multiplies 3 x 4 by 4 x 2 small integers, exact in every order.  Returns INTERNAL for a wrong
 * result. */
limber_status gemm_on_miss(limber_context *ctx, limber_on_miss on_miss, limber_report *report);
limber_status small_gemm(limber_context *ctx, limber_report *report);

/* Callback of limber_cache_each(): counts damaged and good entries in int[2]. */
int tally(void *user, const limber_cache_entry *e);

/* Pretends that INT8 is no faster than with AVX-512 VNNI, so that such small products are cut into
 * parts. */
void plan_without_matrix_unit(limber_context *ctx);

/* Sets whether small products may be computed without a plan, whatever LIMBER_WAYS says. */
static inline void set_planless(limber_context *ctx, bool on)
{
    ctx->ways = on ? ctx->ways | WAYS_planless : ctx->ways & ~(uint32_t)WAYS_planless;
}

/* Clears the tester's environment variables, and keeps their cache key untouched. */
void clear_environment(void);

#endif
