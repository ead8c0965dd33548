/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by tests of the engine: small products with known results, and a backend that counts its
 * calls and forwards them to the interpreter. */
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

/* How often functions of the counting backend were called.  compile_delay, in microseconds, is
 * added to each compilation. */
extern atomic_int compiles, loads, unloads, compile_delay;
/* file descriptor to which each compilation writes a byte when it begins; -1 if there is none */
extern atomic_int compile_tells;
extern const struct backend counted;
extern const struct backend *const counted_list[];
/* Creates a context on the counting backend.  Fails the test if that fails. */
limber_context *counted_context(const limber_config *c);
/* Creates a context on the counting backend, without a disk cache, that destroy_group_contexts()
 * destroys. */
limber_context *counted_group_context(void);

/* Creates contexts of every backend that runs here, one for each number of `threads` (up to a 0),
 * for a group of tests.  Returns how many it has stored in `contexts`, at most `room`. */
int make_contexts_of_backends(limber_context **contexts, int room, const int *threads);

/* Multiplies a 3 x 4 by a 4 x 2 matrix of small integers under a policy for kernels that are not in
 * the cache.  Returns LIMBER_STATUS_INTERNAL if the result is wrong. */
limber_status gemm_on_miss(limber_context *ctx, limber_on_miss on_miss, limber_report *report);
/* Calls gemm_on_miss() with the policy that waits for the compilation. */
limber_status small_gemm(limber_context *ctx, limber_report *report);

/* Callback of limber_cache_each(): counts damaged entries in ((int *)user)[0], good ones in [1]. */
int tally(void *user, const limber_cache_entry *e);

/* Limits the target's INT8 rate to that of AVX-512 VNNI.  With AMX's rate, small products would not
 * be partitioned. */
void plan_without_matrix_unit(limber_context *ctx);

/* Switches the code paths that compute small products without a plan on or off, whatever
 * LIMBER_WAYS says. */
void set_planless(limber_context *ctx, bool on);
/* Creates a context without a disk cache, and calls set_planless.  Fails the test on failure. */
limber_context *planless_context(limber_kernels kernels, int threads, bool on);

/* Removes the environment variables that configure the library, and moves the cache key to a
 * temporary folder, so that the user's key is not used. */
void clear_environment(void);

#endif
