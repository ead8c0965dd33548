/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel in memory, ready to run. */
#ifndef LIMBER_LLVM_LOADED_H
#define LIMBER_LLVM_LOADED_H

#include "backends/llvm/kernel/kernel.h"

/* An object that is mapped; none: the code is part of the library. */
struct object {
    unsigned char *map;
    size_t size;
};

struct kernel {
    struct kernel_config config;
    struct object object;
    kernel_pack *pack;
    kernel_block *block;
    unsigned cpu; /* features that the code needs */
};

#endif
