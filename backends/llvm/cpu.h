/* SPDX-License-Identifier: BSD-3-Clause
 * CPU features and what is known of CPUs, beside what targets say. */
#ifndef LIMBER_LLVM_CPU_H
#define LIMBER_LLVM_CPU_H

#include "ir/ir.h"

/* Bits of a mask of features; probe.c has their names. */
enum cpu {
    CPU_avx2 = 1,
    CPU_fma = 2,
    CPU_f16c = 4,
    CPU_avx512 = 8,
    CPU_vnni = 16,
    CPU_avxvnni = 32,
    CPU_fp16 = 64,
    CPU_bf16 = 128,
    CPU_ifma = 256,
    CPU_amx = 512,
    CPU_neon = 1024,
    CPU_dotprod = 2048,
    CPU_i8mm = 4096,
    CPU_vbmi = 8192,
    CPU_sve256 = 16384,         /* SVE with vectors of exactly 256 bits */
    CPU_sve512 = 32768,
    CPU_sme256 = 65536,         /* SME with vectors of exactly 256 bits, FP64 included */
    CPU_sme512 = 131072,
    CPU_bfdot = 262144,         /* AArch64's BF16 dot products */
    CPU_sme = CPU_sme256 | CPU_sme512
};
unsigned limber_cpu(void);
/* True if a gather is slower than single loads, as on all AMD CPUs so far. */
bool limber_cpu_gathers_slowly(void);
/* True on CPUs that load two vectors of 64 bytes a cycle, and one from L2 (AMD's Zen 5).  There
 * packed panels gain less. */
bool limber_cpu_reads_wide(void);
unsigned limber_cpu_of(const struct target *t); /* the features that a target names */
/* The backend's probe. */
bool limber_llvm_probe(struct target *t, struct diag *d);
/* Prints LLVM's names of the features, separated by commas. */
void limber_cpu_words(unsigned cpu, struct text *out);
bool limber_cpu_lacks(unsigned missing, struct diag *d); /* fails and names them */
extern unsigned limber_cpu_emulated; /* features that tests emulate; else 0 */

#endif
