/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit_backends.h"
#include "contexts.h"

#include "compiler.h"

limber_context *backend[2];
const char *const backend_name[2] = { "interp", "llvm" };

int make_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i == 1 && !compiler_here()) /* simulated units have no prebuilt kernels */
            continue;
        backend[i] = group_context(.backend = backend_name[i], .threads = 1);
        if (!backend[i] && i == 0)
            return -1;
    }
    return 0;
}
