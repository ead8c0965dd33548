/* SPDX-License-Identifier: BSD-3-Clause
 * Machines that the LLVM backend compiles for, as texts that describe a target, and the
 * instructions that their kernels must contain. */
#ifndef LIMBER_TEST_TARGETS_H
#define LIMBER_TEST_TARGETS_H

#ifdef LIMBER_HAVE_LLVM
#include "ir/cpu.h"

/* needs: the CPU feature that is required to run the kernels.  emulated: bit set of features that
 * the CPU may lack, since the test emulates them. */
static const struct target_case {
    const char *needs, *text;
    unsigned emulated;
    /* i8, f64: instruction that the assembly of an INT8 or FP64 kernel must contain; never: one
     * that it must not contain */
    const char *i8, *f64, *never;
} targets[] = {
    { "avx2",
      "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 l2=262144 "
      "group=2 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=8e10 rate.exact=1e8 "
      "rate.model=1e10",
      0, "vpmaddwd", "vfmadd", "%zmm" },
    { "avxvnni",
      "target llvm isa=avxvnni features=avx2,fma,avxvnni vector=256 registers=16 "
      "l1=32768 l2=262144 group=4 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=2e11 "
      "rate.exact=1e8 rate.model=1e10",
      0, "{vex}\tvpdpbusd", "vfmadd", "%zmm" },
    { "avx512",
      "target llvm isa=avx512 features=avx2,fma,avx512 vector=512 registers=32 l1=32768 "
      "l2=1048576 group=2 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 rate.i8=1.6e11 "
      "rate.exact=1e8 rate.model=1e10",
      0, "vpmaddwd", "vfmadd", "vpdpbusd" },
    { "avx512vnni",
      "target llvm isa=avx512vnni features=avx2,fma,avx512,avx512vnni vector=512 "
      "registers=32 l1=32768 l2=1048576 group=4 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 "
      "rate.i8=4e11 rate.exact=1e8 rate.model=1e10",
      0, "vpdpbusd", "vfmadd", "tdpbssd" },
    { "avx512vnni",
      "target llvm isa=amx features=avx2,fma,avx512,avx512vnni,amxint8 vector=512 "
      "registers=32 l1=32768 l2=1048576 group=4 matrix=16 rate.f64=4e10 rate.f32=8e10 "
      "rate.f16=8e10 rate.i8=4e12 rate.exact=1e8 rate.model=1e10",
      CPU_amx, "tdpbssd", "vfmadd", "sdot" },
    { "avx512vnni",
      "target llvm isa=avx512fp16 features=avx2,fma,avx512,avx512vnni,avx512fp16 vector=512 "
      "registers=32 l1=32768 l2=1048576 group=4 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 "
      "rate.i8=4e11 rate.exact=1e8 rate.model=1e10",
      CPU_fp16, "vpdpbusd", "vfmadd", "tdpbssd" },
    { "neon",
      "target llvm isa=neon features=neon vector=128 registers=32 l1=65536 l2=1048576 group=1 "
      "rate.f64=1e10 rate.f32=2e10 rate.f16=2e10 rate.i8=8e10 rate.exact=1e8 rate.model=1e10",
      0, "mla\tv", "fmla", "sdot" },
    { "dotprod",
      "target llvm isa=dotprod features=neon,dotprod vector=128 registers=32 l1=65536 "
      "l2=1048576 group=4 rate.f64=1e10 rate.f32=2e10 rate.f16=2e10 rate.i8=8e10 rate.exact=1e8 "
      "rate.model=1e10",
      0, "sdot", "fmla", "usdot" },
    { "i8mm",
      "target llvm isa=i8mm features=neon,dotprod,i8mm vector=128 registers=32 l1=65536 "
      "l2=1048576 group=8 rate.f64=1e10 rate.f32=2e10 rate.f16=2e10 rate.i8=8e10 rate.exact=1e8 "
      "rate.model=1e10",
      0, "usmmla", "fmla", "zmm" },
    { "sve256",
      "target llvm isa=sve256 features=neon,dotprod,i8mm,sve256 vector=256 registers=32 l1=65536 "
      "l2=1048576 group=8 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=2e11 rate.exact=1e8 "
      "rate.model=1e10",
      0, "usmmla\tz", "fmla\tz", "sdot" },
    { "sve512",
      "target llvm isa=sve512 features=neon,sve512 vector=512 registers=32 l1=65536 l2=1048576 "
      "group=4 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 rate.i8=3e11 rate.exact=1e8 "
      "rate.model=1e10",
      0, "sdot\tz", "fmla\tz", "usmmla" },
    { "sme256",
      "target llvm isa=sme256 features=neon,sme256 vector=128 registers=32 l1=65536 l2=1048576 "
      "group=4 rate.f64=5e10 rate.f32=2e11 rate.f16=2e11 rate.i8=4e11 rate.exact=1e8 "
      "rate.model=1e10",
      0, "usmopa", "fmopa", "sdot" },
    { "sme512",
      "target llvm isa=sme512 features=neon,sme512 vector=128 registers=32 l1=65536 l2=1048576 "
      "group=4 rate.f64=2e11 rate.f32=8e11 rate.f16=8e11 rate.i8=1.6e12 rate.exact=1e8 "
      "rate.model=1e10",
      0, "usmopa", "fmopa", "sdot" },
};

/* True if the target has another architecture than this machine, so that its kernels are only
 * compiled. */
static inline bool is_foreign(const struct target *t)
{
    return (limber_cpu_of(t) & CPU_neon) != (limber_cpu() & CPU_neon);
}
#endif

#endif
