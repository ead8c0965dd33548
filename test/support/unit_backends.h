/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts of the interpreter and of the LLVM backend, for tests of simulated units on both. */
#ifndef LIMBER_TEST_UNIT_BACKENDS_H
#define LIMBER_TEST_UNIT_BACKENDS_H

#include "support.h"

extern limber_context *backend[2]; /* interp, llvm; NULL if it is unavailable */
extern const char *const backend_name[2];

/* Setup of a group of cmocka tests: creates the contexts. */
int make_contexts(void **state);

#endif
