/* SPDX-License-Identifier: BSD-3-Clause
 * What CPUs offer, as targets name it. */
#ifndef LIMBER_LLVM_CPU_H
#define LIMBER_LLVM_CPU_H

#include "ir/ir.h"

/* CPU features by name; see probe.c.  Bits of a mask. */
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
    CPU_sve256 = 16384,         /* SVE with vectors of just so many bits */
    CPU_sve512 = 32768,
    CPU_sme256 = 65536,         /* outer products of vectors of just so many bits, doubles' too */
    CPU_sme512 = 131072,
    CPU_bfdot = 262144,         /* AArch64's sums of products of BF16 */
    CPU_sme = CPU_sme256 | CPU_sme512
};
unsigned limber_cpu(void);
/* Gathers take longer than loads one by one, as on all of AMD's so far. */
bool limber_cpu_gathers_slowly(void);
/* Is it one whose second level of cache delivers a vector of 64 bytes a cycle, and whose core loads
 * two (AMD's Zen 5)?  There products gain less by packed panels. */
bool limber_cpu_reads_wide(void);
unsigned limber_cpu_of(const struct target *t); /* the features that a target names */
/* As probe of a backend. */
bool limber_llvm_probe(struct target *t, struct diag *d);
/* LLVM's words for features, separated by commas. */
void limber_cpu_words(unsigned cpu, struct text *out);
bool limber_cpu_lacks(unsigned missing, struct diag *d); /* fails, with their names */
extern unsigned limber_cpu_emulated; /* what tests emulate beside; 0 */

#endif
