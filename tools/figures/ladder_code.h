/* SPDX-License-Identifier: BSD-3-Clause
 * Counts a GPU kernel's instructions, for the figure ladder. */
#ifndef LIMBER_LADDER_CODE_H
#define LIMBER_LADDER_CODE_H

#include <stdbool.h>
#include <stddef.h>

enum ladder_class {
    CLASS_product,
    CLASS_shared,
    CLASS_global,
    CLASS_barrier,
    CLASS_other,
    CLASSES
};

/* The work of a thread block in one step. */
struct ladder_tile {
    double macs;    /* multiply-adds of a block for one iteration of its outermost main loop */
    double warps;   /* number of warps that multiply */
};
/* How many instructions a step executes. */
struct ladder_counts {
    double of[CLASSES]; /* instructions of a warp for 1024 multiply-adds, by class */
};

/* Disassembles a cubin by nvdisasm.  Returns the text, which the caller frees; NULL if nvdisasm is
 * absent or fails. */
char *ladder_disassemble(const void *cubin, size_t size);

/* Counts the instructions of the main loops of a kernel: those that hold its products, and those
 * that start copies for them.  text: nvdisasm's output, or PTX.  False if there is no main loop. */
bool ladder_count(const char *text, struct ladder_tile tile, struct ladder_counts *counts);

#endif
