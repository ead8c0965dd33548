/* SPDX-License-Identifier: BSD-3-Clause
 * Features of CPUs: what this CPU has, and what targets name. */
#ifndef LIMBER_IR_CPU_H
#define LIMBER_IR_CPU_H

#include "ir/ir.h"
#include "ir/isa.h"

/* CPU features as bits of a set. */
enum cpu {
#define NUMBER(bit, name, words, has) CPU_NUMBER_##bit,
    LIMBER_X86_FEATURES(NUMBER) LIMBER_ARM_FEATURES(NUMBER) CPU_FEATURES,
#undef NUMBER
#define BIT(bit, name, words, has) CPU_##bit = 1 << CPU_NUMBER_##bit,
    LIMBER_X86_FEATURES(BIT) LIMBER_ARM_FEATURES(BIT)
#undef BIT
        CPU_sme = CPU_sme256 | CPU_sme512,
/* features that the code for an instruction set needs; bytes that its dot-product instruction takes
 * for each 32-bit lane (group); bits of its vectors */
#define SET(isa, word, needs, bits, registers, group, ...) \
    NEEDS_##isa = needs, GROUP_##isa = group, BITS_##isa = bits,
    LIMBER_X86_ISAS(SET) LIMBER_ARM_ISAS(SET)
#undef SET
};
/* Returns the features that this process may use, with those that tests emulate. */
unsigned limber_cpu(void);
/* Returns the features that this process may use and this CPU has. */
unsigned limber_cpu_here(void);
/* Limits the features for the process from now on.  5, the default, is no limit; 4 allows x86-64-v4
 * without VNNI and everything newer; 3 allows x86-64-v3.  Thread-safe. */
void limber_cpu_set_limit(int level);
/* Returns the names of those features that all kernels need and this CPU lacks; "" if it lacks
 * none. */
const char *limber_cpu_missing(void);
/* True if a gather is slower than single loads, as on all AMD CPUs so far. */
bool limber_cpu_gathers_slowly(void);
/* True on CPUs that load two 64-byte vectors a cycle from L1 and one from L2 (AMD's Zen 5).  On
 * these CPUs packing operands gains less. */
bool limber_cpu_reads_wide(void);
/* Returns the set of features that a target names. */
unsigned limber_cpu_of(const struct target *t);
/* Appends the names of the features in a set to the string `to`, separated by commas, as far as
 * they fit `size` bytes. */
void limber_cpu_names(unsigned cpu, char *to, size_t size);
/* Prints LLVM's words for the features in a set, separated by commas. */
void limber_cpu_words(unsigned cpu, struct text *out);
extern unsigned limber_cpu_emulated; /* features that tests emulate; 0 outside tests */

#endif
