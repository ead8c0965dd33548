/* SPDX-License-Identifier: BSD-3-Clause
 * The interpreter and LLVM's backend, for tests of simulated units on both. */
#ifndef LIMBER_TEST_UNIT_BACKENDS_H
#define LIMBER_TEST_UNIT_BACKENDS_H

#include "support.h"

extern limber_context *backend[2]; /* interp, llvm (NULL: none) */
extern const char *const backend_name[2];

/* Set-up and tear-down of a group of cmocka tests. */
int make_contexts(void **state);
int drop_contexts(void **state);

#endif
