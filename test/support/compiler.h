/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of kernels: whether LLVM is available, a backend that uses prebuilt kernels only, and
 * operations of a device without memory of its own. */
#ifndef LIMBER_TEST_COMPILER_H
#define LIMBER_TEST_COMPILER_H

#include "backends/backend.h"

#include <stdbool.h>

bool compiler_here(void); /* true if libLLVM can be opened */
void need_compiler(void); /* skips the test, and prints why, unless libLLVM can be opened */
/* Returns a copy of the backend `llvm`, named `prebuilt`, that compiles nothing and uses the
 * library's prebuilt kernels.  NULL if the library has no prebuilt kernels. */
const struct backend *prebuilt_kernels(void);

/* Operations of a device that holds no memory, records no queue and takes no groups; for backends
 * that compile kernels for GPUs and execute none.  Other members are NULL. */
extern const struct device_ops no_device_memory;

#endif
