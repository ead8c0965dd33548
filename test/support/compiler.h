/* SPDX-License-Identifier: BSD-3-Clause
 * CPU kernels for tests, with and without a compiler at run time. */
#ifndef LIMBER_TEST_COMPILER_H
#define LIMBER_TEST_COMPILER_H

#include "backends/backend.h"

#include <stdbool.h>

bool compiler_here(void); /* returns whether libLLVM can be opened */
void need_compiler(void); /* skips the test, with a reason, where it cannot */
/* The backend `llvm` under the name `prebuilt`, which compiles nothing and uses the library's own
 * kernels.  NULL: the library has none. */
const struct backend *prebuilt_kernels(void);

#endif
