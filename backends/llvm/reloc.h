/* SPDX-License-Identifier: BSD-3-Clause
 * Relocations of self-contained code, of both architectures on either. */
#ifndef LIMBER_LLVM_RELOC_H
#define LIMBER_LLVM_RELOC_H

#include <stdbool.h>
#include <stdint.h>

struct relocation {
    uint16_t machine; /* e_machine: EM_X86_64 or EM_AARCH64 */
    uint32_t kind;
    uint64_t place, target; /* addresses: of what is patched, and that plus addend it refers to */
};

/* Bytes that are patched; 0: no relocation that is known. */
unsigned limber_relocation_width(uint16_t machine, uint32_t kind);
/* Patches them; false: the target is out of the instruction's range, or not aligned for it. */
bool limber_relocation_apply(const struct relocation *r, unsigned char *at);

#endif
