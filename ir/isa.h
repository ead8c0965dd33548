/* SPDX-License-Identifier: BSD-3-Clause
 * The list of CPU features and of instruction sets.  These follow from it:
 *
 *   ir/cpu.c                   the probe of this CPU, the names of features in targets
 *   backends/llvm/probe.c      what the passes know of a CPU
 *   backends/llvm/isa.cmake    compiler flags, and which files the build compiles for which sets
 *   backends/llvm/prebuilt.c   tables of the library's code
 *
 * It contains macros only, because the build also reads it, by the preprocessor. */
#ifndef LIMBER_IR_ISA_H
#define LIMBER_IR_ISA_H

/* Features of x86-64 CPUs: name of the bit, name in targets, LLVM's words, and how CPUID reports
 * the feature.  LEVEL(n): all features of x86-64-vn.  LEAF7(n, subleaf, register, bit): a bit of
 * CPUID's leaf 7 on a CPU of level n. */
#define LIMBER_X86_FEATURES(F) \
    F(avx2, "avx2", "+avx2,+bmi,+bmi2,+lzcnt,+popcnt", LEVEL(3)) \
    F(fma, "fma", "+fma", LEVEL(3)) \
    F(f16c, "f16c", "+f16c", LEVEL(3)) \
    F(avx512, "avx512", "+avx512f,+avx512bw,+avx512dq,+avx512vl", LEVEL(4)) \
    F(vnni, "avx512vnni", "+avx512vnni", LEAF7(4, 0, ECX, 11)) \
    F(avxvnni, "avxvnni", "+avxvnni", LEAF7(3, 1, EAX, 4)) \
    F(fp16, "avx512fp16", "+avx512fp16", LEAF7(4, 0, EDX, 23)) \
    F(bf16, "avx512bf16", "+avx512bf16", LEAF7(4, 1, EAX, 5)) \
    F(ifma, "avx512ifma", "+avx512ifma", LEAF7(4, 0, EBX, 21)) \
    F(vbmi, "avx512vbmi", "+avx512vbmi", LEAF7(4, 0, ECX, 1)) \
    F(amx, "amxint8", "+amx-tile,+amx-int8", \
      LEAF7(3, 0, EDX, 24) && LEAF7(3, 0, EDX, 25) && may_use_tiles())

/* Features of AArch64 CPUs.  The last column is an expression in `first` and `second`, the words of
 * the auxiliary vector.  SVE and SME are used with vectors of exactly 256 or 512 bits. */
#define LIMBER_ARM_FEATURES(F) \
    F(neon, "neon", "+neon,+fp-armv8", true) \
    F(dotprod, "dotprod", "+dotprod", first &HWCAP_ASIMDDP) \
    F(i8mm, "i8mm", "+i8mm", \
      second &HWCAP2_I8MM && (!(first & HWCAP_SVE) || second & HWCAP2_SVEI8MM)) \
    F(bfdot, "bfdot", "+bf16", second &HWCAP2_BF16) \
    F(sve256, "sve256", "+sve", sve_bits(first) == 256) \
    F(sve512, "sve512", "+sve", sve_bits(first) == 512) \
    F(sme256, "sme256", "+sme,+sme-f64f64", sme_bits(second) == 256) \
    F(sme512, "sme512", "+sme,+sme-f64f64", sme_bits(second) == 512)

/* Instruction sets.  Each one extends sets above it; a CPU uses the last one that it has.
 *
 *   name in the build   name in targets (target.isa)
 *   features that the code needs
 *   bits of a vector
 *   vector registers
 *   group: bytes of an operand that the dot-product instruction takes for each 32-bit lane; 2 where
 *          words are multiplied instead, 1 where bytes are widened to 32 bits
 *   matrix: rows of an AMX tile, or 0
 *   8-bit multiply-adds per cycle for every 64 bits of a vector, as measured
 *   multiply-adds of `accumulator` per second and core, as measured
 *
 * AMX could do 128 multiply-adds per cycle and 64-bit lane; 50 of them are counted, since limbs
 * come from L2.  Without VNNI, additions and products compete for the same execution ports. */
#define LIMBER_X86_ISAS(F) \
    F(avx2, "avx2", CPU_avx2 | CPU_fma, 256, 16, 2, 0, 6, 3.5e8) \
    F(avxvnni, "avxvnni", NEEDS_avx2 | CPU_avxvnni, 256, 16, 4, 0, 16, 3.5e8) \
    F(avx512, "avx512", NEEDS_avx2 | CPU_avx512, 512, 32, 2, 0, 4, 7e8) \
    F(avx512vnni, "avx512vnni", NEEDS_avx512 | CPU_vnni, 512, 32, 4, 0, 16, 7e8) \
    F(amx, "amx", NEEDS_avx512vnni | CPU_amx, 512, 32, 4, 16, 50, 7e8)
#define LIMBER_ARM_ISAS(F) \
    F(neon, "neon", CPU_neon, 128, 32, 1, 0, 1, 2e7) \
    F(dotprod, "dotprod", NEEDS_neon | CPU_dotprod, 128, 32, 4, 0, 16, 2e7) \
    F(i8mm, "i8mm", NEEDS_dotprod | CPU_i8mm, 128, 32, 8, 0, 16, 2e7) \
    F(sve256, "sve256", NEEDS_neon | CPU_sve256, 256, 32, 4, 0, 16, 2e7) \
    F(sve512, "sve512", NEEDS_neon | CPU_sve512, 512, 32, 4, 0, 16, 2e7) \
    F(sve256i8mm, "sve256", NEEDS_sve256 | CPU_i8mm, 256, 32, 8, 0, 16, 2e7) \
    F(sve512i8mm, "sve512", NEEDS_sve512 | CPU_i8mm, 512, 32, 8, 0, 16, 2e7) \
    F(sme256, "sme256", NEEDS_neon | CPU_sme256, 256, 32, 4, 0, 16, 2e7) \
    F(sme512, "sme512", NEEDS_neon | CPU_sme512, 512, 32, 4, 0, 16, 2e7)

/* Rows and columns of the register tiles of prebuilt kernels, for each unit, as the pass `tile`
 * sets them.  Instruction sets without a row have specialised kernels only. */
#define LIMBER_X86_TILES(F) \
    F(avx2, f64, 6, 8) \
    F(avx2, f32, 6, 16) \
    F(avx2, i8, 6, 16) \
    F(avxvnni, i8, 6, 16) \
    F(avx512, f64, 12, 16) \
    F(avx512, f32, 12, 32) \
    F(avx512, i8, 12, 32) \
    F(avx512vnni, i8, 12, 32) \
    F(amx, i8, 32, 32)
#define LIMBER_ARM_TILES(F) \
    F(neon, f64, 12, 4) \
    F(neon, f32, 12, 8) \
    F(neon, i8, 12, 8) \
    F(dotprod, i8, 12, 8) \
    F(i8mm, i8, 12, 8) \
    F(sve256, f64, 12, 8) \
    F(sve256, f32, 12, 16) \
    F(sve256, i8, 12, 16) \
    F(sve256i8mm, i8, 8, 16) \
    F(sve512, f64, 12, 16) \
    F(sve512, f32, 12, 32) \
    F(sve512, i8, 12, 32) \
    F(sve512i8mm, i8, 8, 32) \
    F(sme256, f64, 8, 16) \
    F(sme256, f32, 16, 16) \
    F(sme256, i8, 16, 16) \
    F(sme512, f64, 16, 32) \
    F(sme512, f32, 32, 32) \
    F(sme512, i8, 32, 32)

/* The instruction sets, best first, for which files of backends/llvm/kernel are compiled once each:
 *
 *   FALLBACK    dots, exact, pairs, planes, transpose and vectors, compiled without a set if the
 *               list is empty, and jit/scan/measure.c, compiled also without a set in any case,
 *               since the interpreter scans on every CPU
 *   VECTORS     direct, functions, int8, steps
 *   DEPTHWISE   depthwise
 *   BYTES       bytes */
#if defined(__x86_64__)
#define LIMBER_ISAS LIMBER_X86_ISAS
#define LIMBER_TILES LIMBER_X86_TILES
#define LIMBER_FALLBACK(F, ...) F(avx512, __VA_ARGS__) F(avx2, __VA_ARGS__)
#define LIMBER_VECTORS(F, ...) F(avx512, __VA_ARGS__) F(avx2, __VA_ARGS__)
#define LIMBER_DEPTHWISE(F, ...) \
    F(avx512vnni, __VA_ARGS__) F(avx512, __VA_ARGS__) F(avx2, __VA_ARGS__)
#define LIMBER_BYTES(F, ...) F(avx512vnni, __VA_ARGS__) F(avxvnni, __VA_ARGS__) F(avx2, __VA_ARGS__)
#elif defined(__aarch64__)
#define LIMBER_ISAS LIMBER_ARM_ISAS
#define LIMBER_TILES LIMBER_ARM_TILES
#define LIMBER_FALLBACK(F, ...)
#define LIMBER_VECTORS(F, ...) F(neon, __VA_ARGS__)
#define LIMBER_DEPTHWISE(F, ...) F(neon, __VA_ARGS__)
#define LIMBER_BYTES(F, ...)
#else
#define LIMBER_ISAS(F)
#define LIMBER_TILES(F)
#define LIMBER_FALLBACK(F, ...)
#define LIMBER_VECTORS(F, ...)
#define LIMBER_DEPTHWISE(F, ...)
#define LIMBER_BYTES(F, ...)
#endif

/* LIMBER_FALLBACK(LIMBER_DECLARE, type, name) declares a function for each set of a list.
 * LIMBER_BEST(LIMBER_FALLBACK, cpu, name, otherwise) is the function for the first set that a CPU
 * with these features has, or `otherwise`. */
#define LIMBER_DECLARE(isa, type, name) type name##_##isa;
#define LIMBER_PICK(isa, cpu, name) !(NEEDS_##isa & ~(cpu)) ? name##_##isa:
#define LIMBER_BEST(list, cpu, name, otherwise) \
    ((void)(cpu), list(LIMBER_PICK, cpu, name)(otherwise))

/* The function `name`, compiled for the best set of LIMBER_FALLBACK that a CPU with these features
 * has.  On x86-64 the LLVM backend needs AVX2. */
#if defined(__x86_64__)
#define LIMBER_CODE(cpu, name) LIMBER_BEST(LIMBER_FALLBACK, cpu, name, name##_avx2)
#else
#define LIMBER_CODE(cpu, name) ((void)(cpu), name)
#endif

/* The name of a function in a file that is compiled for several sets.  The build defines LIMBER_ISA
 * as the set's name. */
#if defined(LIMBER_ISA)
#define LIMBER_JOIN(name, isa) name##_##isa
#define LIMBER_JOIN_NAME(name, isa) LIMBER_JOIN(name, isa)
#define FOR_ISA(name) LIMBER_JOIN_NAME(name, LIMBER_ISA)
#else
#define FOR_ISA(name) name
#endif

#endif
