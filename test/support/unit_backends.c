/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit_backends.h"

#include "compiler.h"

limber_context *backend[2];
const char *const backend_name[2] = { "interp", "llvm" };

int make_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        limber_config c = {
            .size = sizeof(limber_config), .backend = backend_name[i], .cache_dir = "", .threads = 1
        };

        if (i == 1 && !compiler_here()) /* units have no prebuilt kernels */
            continue;
        if (limber_create(&backend[i], &c) != LIMBER_STATUS_OK && i == 0)
            return -1;
    }
    return 0;
}

int drop_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        limber_destroy(backend[i]);
    return 0;
}
