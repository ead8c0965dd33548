/* SPDX-License-Identifier: BSD-3-Clause
 * Applies relocations.  They write a complete address or distance on both architectures, and on
 * AArch64 also bit fields of instructions.
 *
 *   source  System V ABI, AMD64 supplement, section 4.4; ELF for the Arm 64-bit Architecture
 *           (AArch64), section 5.7 */
#include "backends/llvm/reloc.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

/* How the value X of a relocation is computed.  Its target is S + A, and its own address is P.  X
 * is S + A (target), S + A - P (distance), or the distance between their 4 KiB pages (pages). */
enum of { OF_target, OF_distance, OF_pages };

/* The rule of one kind of relocation: bits [low, low + bits) of X are written to a word of `width`
 * bytes, from the word's bit `at` on.  X must be a multiple of 2^aligned.  checked: X must fit the
 * field, as an unsigned number if it is a target, else as a signed one. */
struct rule {
    uint32_t kind;
    uint8_t width, of, low, bits, at, aligned;
    bool checked;
};

static const struct rule x86[] = {
    { R_X86_64_64, 8, OF_target, 0, 64, 0, 0, false },
    { R_X86_64_PC64, 8, OF_distance, 0, 64, 0, 0, false },
    { R_X86_64_PC32, 4, OF_distance, 0, 32, 0, 0, true },
    { R_X86_64_PLT32, 4, OF_distance, 0, 32, 0, 0, true },
};

/* Relocations of data words and of 4-byte instructions.  Instructions hold the two lowest bits of a
 * 21-bit distance in a separate field. */
static const struct rule aarch64[] = {
    { R_AARCH64_ABS64, 8, OF_target, 0, 64, 0, 0, false },
    { R_AARCH64_PREL64, 8, OF_distance, 0, 64, 0, 0, false },
    { R_AARCH64_PREL32, 4, OF_distance, 0, 32, 0, 0, true },
    { R_AARCH64_ADR_PREL_LO21, 4, OF_distance, 0, 21, 5, 0, true },
    { R_AARCH64_ADR_PREL_PG_HI21, 4, OF_pages, 12, 21, 5, 0, true },
    { R_AARCH64_ADR_PREL_PG_HI21_NC, 4, OF_pages, 12, 21, 5, 0, false },
    { R_AARCH64_ADD_ABS_LO12_NC, 4, OF_target, 0, 12, 10, 0, false },
    { R_AARCH64_LDST8_ABS_LO12_NC, 4, OF_target, 0, 12, 10, 0, false },
    { R_AARCH64_LDST16_ABS_LO12_NC, 4, OF_target, 1, 11, 10, 1, false },
    { R_AARCH64_LDST32_ABS_LO12_NC, 4, OF_target, 2, 10, 10, 2, false },
    { R_AARCH64_LDST64_ABS_LO12_NC, 4, OF_target, 3, 9, 10, 3, false },
    { R_AARCH64_LDST128_ABS_LO12_NC, 4, OF_target, 4, 8, 10, 4, false },
    { R_AARCH64_LD_PREL_LO19, 4, OF_distance, 2, 19, 5, 2, true },
    { R_AARCH64_CONDBR19, 4, OF_distance, 2, 19, 5, 2, true },
    { R_AARCH64_TSTBR14, 4, OF_distance, 2, 14, 5, 2, true },
    { R_AARCH64_JUMP26, 4, OF_distance, 2, 26, 0, 2, true },
    { R_AARCH64_CALL26, 4, OF_distance, 2, 26, 0, 2, true },
    { R_AARCH64_MOVW_UABS_G0, 4, OF_target, 0, 16, 5, 0, true },
    { R_AARCH64_MOVW_UABS_G0_NC, 4, OF_target, 0, 16, 5, 0, false },
    { R_AARCH64_MOVW_UABS_G1, 4, OF_target, 16, 16, 5, 0, true },
    { R_AARCH64_MOVW_UABS_G1_NC, 4, OF_target, 16, 16, 5, 0, false },
    { R_AARCH64_MOVW_UABS_G2, 4, OF_target, 32, 16, 5, 0, true },
    { R_AARCH64_MOVW_UABS_G2_NC, 4, OF_target, 32, 16, 5, 0, false },
    { R_AARCH64_MOVW_UABS_G3, 4, OF_target, 48, 16, 5, 0, false },
};

/* Returns the rule of a relocation of this architecture, or NULL if its kind is unknown. */
static const struct rule *find_rule(uint16_t machine, uint32_t kind)
{
    const struct rule *all = machine == EM_X86_64 ? x86 : machine == EM_AARCH64 ? aarch64 : NULL;
    size_t n = machine == EM_X86_64 ? sizeof x86 / sizeof *x86 : sizeof aarch64 / sizeof *aarch64;

    for (size_t i = 0; all && i < n; i++)
        if (all[i].kind == kind)
            return &all[i];
    return NULL;
}

unsigned limber_relocation_width(uint16_t machine, uint32_t kind)
{
    const struct rule *r = find_rule(machine, kind);

    return r ? r->width : 0;
}

/* Returns a mask of the n lowest bits. */
static uint64_t low_bits(unsigned n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* True if X fits the relocation's field and has the required alignment. */
static bool fits_field(const struct rule *r, uint64_t x)
{
    unsigned end = r->low + r->bits;

    if (x & low_bits(r->aligned))
        return false;
    if (!r->checked || end >= 64)
        return true;
    if (r->of == OF_target)
        return x >> end == 0;
    x += UINT64_C(1) << (end - 1); /* the smallest value, -2^(end-1), becomes 0 */
    return x >> end == 0;
}

/* Computes a relocation's value and writes it into the bytes at `at`.  Returns false if the kind is
 * unknown or the value does not fit. */
bool limber_relocation_apply(const struct relocation *r, unsigned char *at)
{
    const struct rule *rule = find_rule(r->machine, r->kind);
    uint64_t x = r->target, word = 0, field;

    if (!rule)
        return false;
    if (rule->of == OF_distance)
        x -= r->place;
    else if (rule->of == OF_pages)
        x = (x & ~low_bits(12)) - (r->place & ~low_bits(12));
    if (!fits_field(rule, x))
        return false;
    memcpy(&word, at, rule->width);
    field = x >> rule->low & low_bits(rule->bits);
    if (rule->bits == 21) { /* ADR and ADRP hold the two lowest bits in bits 29 and 30 */
        word &= ~(low_bits(2) << 29 | low_bits(19) << 5);
        word |= (field & 3) << 29 | field >> 2 << 5;
    } else {
        word &= ~(low_bits(rule->bits) << rule->at);
        word |= field << rule->at;
    }
    memcpy(at, &word, rule->width);
    return true;
}
