/* SPDX-License-Identifier: BSD-3-Clause
 * Relocations of self-contained code; either architecture can apply those of both. */
#ifndef LIMBER_LLVM_RELOC_H
#define LIMBER_LLVM_RELOC_H

#include <stdbool.h>
#include <stdint.h>

struct relocation {
    uint16_t machine; /* e_machine: EM_X86_64 or EM_AARCH64 */
    uint32_t kind;
    /* addresses: of the patched bytes (P), and of symbol plus addend (S + A) */
    uint64_t place, target;
};

/* Number of patched bytes; 0 if the relocation is unknown. */
unsigned limber_relocation_width(uint16_t machine, uint32_t kind);
/* Patches them; false if the target is out of range or misaligned. */
bool limber_relocation_apply(const struct relocation *r, unsigned char *at);

#endif
