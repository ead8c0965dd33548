/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel in memory, ready to run. */
#ifndef LIMBER_LLVM_LOADED_H
#define LIMBER_LLVM_LOADED_H

#include "backends/llvm/kernel/kernel.h"

/* A mapped object file; empty if the code is part of the library. */
struct object {
    unsigned char *map;
    size_t size;
};

/* A kernel, loaded from an object file or taken from the library. */
struct kernel {
    struct kernel_config config;
    struct object object;
    kernel_pack *pack;
    kernel_block *block;
    unsigned cpu; /* set of CPU features that the code needs */
};

/* ---- blob.c: backend.compile, prebuilt, load, unload and code_key ---------------------------- */

bool limber_blob_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                         struct blob *out, struct diag *d);
bool limber_blob_prebuilt(const struct plan *p, const struct target *t, struct blob *out,
                          struct diag *d);
bool limber_blob_load(const unsigned char *data, size_t size, struct kernel **out, struct diag *d);
void limber_blob_unload(struct kernel *k);
bool limber_blob_key(const struct plan *p, const struct target *t, struct blob *out,
                     struct diag *d);

#endif
