/* SPDX-License-Identifier: BSD-3-Clause
 * Relocations of self-contained code.  Each of x86-64 and AArch64 can apply the relocations of
 * both. */
#ifndef LIMBER_LLVM_RELOC_H
#define LIMBER_LLVM_RELOC_H

#include <stdbool.h>
#include <stdint.h>

struct relocation {
    uint16_t machine; /* the object's e_machine: EM_X86_64 or EM_AARCH64 */
    uint32_t kind;
    /* place: address of the patched bytes (P); target: symbol plus addend (S + A) */
    uint64_t place, target;
};

/* Returns the number of bytes that the relocation changes; 0 if its kind is unknown. */
unsigned limber_relocation_width(uint16_t machine, uint32_t kind);
/* Applies the relocation to the bytes at `at`.  Returns false if the target is out of range or
 * misaligned. */
bool limber_relocation_apply(const struct relocation *r, unsigned char *at);

#endif
