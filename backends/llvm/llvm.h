/* SPDX-License-Identifier: BSD-3-Clause
 * Internal declarations of the LLVM backend. */
#ifndef LIMBER_LLVM_H
#define LIMBER_LLVM_H

#include "backends/backend.h"
#include "backends/llvm/cpu.h"
#include "backends/llvm/kernel/bytes.h"
#include "backends/llvm/loaded.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* The functions of LLVM's C API that are used. */
/* clang-format off */
#define LIMBER_LLVM_API(F) \
    F(LLVMContextCreate) F(LLVMContextDispose) F(LLVMDisposeMessage) \
    F(LLVMContextSetDiagnosticHandler) F(LLVMContextSetDiscardValueNames) \
    F(LLVMCreateMemoryBufferWithMemoryRangeCopy) F(LLVMDisposeMemoryBuffer) \
    F(LLVMGetBufferStart) F(LLVMGetBufferSize) \
    F(LLVMParseBitcodeInContext2) F(LLVMParseIRInContext) F(LLVMLinkModules2) \
    F(LLVMDisposeModule) F(LLVMPrintModuleToString) F(LLVMVerifyModule) \
    F(LLVMSetTarget) F(LLVMSetModuleDataLayout) \
    F(LLVMGetNamedGlobal) F(LLVMAddGlobal) F(LLVMSetInitializer) F(LLVMSetGlobalConstant) \
    F(LLVMSetLinkage) F(LLVMSetAlignment) F(LLVMReplaceAllUsesWith) F(LLVMDeleteGlobal) \
    F(LLVMConstStringInContext) F(LLVMTypeOf) \
    F(LLVMGetFirstFunction) F(LLVMGetNextFunction) F(LLVMIsDeclaration) F(LLVMGetValueName2) \
    F(LLVMCreateStringAttribute) F(LLVMAddAttributeAtIndex) \
    F(LLVMRemoveStringAttributeAtIndex) F(LLVMCreateEnumAttribute) \
    F(LLVMGetEnumAttributeKindForName) \
    F(LLVMGetTargetFromTriple) F(LLVMCreateTargetMachine) F(LLVMDisposeTargetMachine) \
    F(LLVMCreateTargetDataLayout) F(LLVMDisposeTargetData) \
    F(LLVMCreatePassBuilderOptions) F(LLVMDisposePassBuilderOptions) F(LLVMRunPasses) \
    F(LLVMGetErrorMessage) F(LLVMDisposeErrorMessage) \
    F(LLVMTargetMachineEmitToMemoryBuffer)

/* Initialisation functions of each architecture, which libLLVM may lack. */
#define LIMBER_LLVM_X86(F) \
    F(LLVMInitializeX86TargetInfo) F(LLVMInitializeX86Target) F(LLVMInitializeX86TargetMC) \
    F(LLVMInitializeX86AsmPrinter)
#define LIMBER_LLVM_AARCH64(F) \
    F(LLVMInitializeAArch64TargetInfo) F(LLVMInitializeAArch64Target) \
    F(LLVMInitializeAArch64TargetMC) F(LLVMInitializeAArch64AsmPrinter) \
    F(LLVMInitializeAArch64AsmParser)
/* clang-format on */

struct llvm {
#define F(name) __typeof__(&name) name;
    LIMBER_LLVM_API(F)
#undef F
    bool x86, aarch64; /* libLLVM generates code for it */
};

/* Opens libLLVM at first use and keeps it open; NULL with a reason if there is none. */
const struct llvm *limber_llvm(struct diag *d);
/* Address range of libLLVM's code; empty before it is opened. */
struct code_range limber_llvm_code(void);

/* Print the micro-kernel as LLVM assembly: micro.c, or amx.c and sme.c for tiles of a matrix
 * unit. */
bool limber_micro_text(const struct kernel_config *k, const struct target *t, struct text *out);
bool limber_amx_text(const struct kernel_config *k, struct text *out);
bool limber_sme_text(const struct kernel_config *k, const struct target *t, struct text *out);
/* small.c: prints a product of fixed shape as LLVM assembly; its one function is limber_fixed. */
bool limber_small_text(const struct fixed *f, enum unit unit, int64_t chunk, const struct target *t,
                       struct text *out);
/* fixed.c: compiles and loads a product of fixed shape as a C function. */
extern const struct functions limber_llvm_functions;
/* True if the unit's dot-product instruction takes signed bytes on both sides. */
static inline bool limber_same_sign(int unit, int group, int matrix, unsigned cpu)
{
    return unit == UNIT_i8 && (matrix || (group == 4 && (cpu & CPU_neon) && !(cpu & CPU_sme)));
}
/* config.c: checks that the backend serves all of a plan; flattens it into constants. */
bool limber_llvm_serves(const struct plan *p, struct diag *d);
bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d);
/* prebuilt.c: entry points of the library's kernel for this configuration and these CPU features;
 * false if there is none. */
bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block);
/* prebuilt.c (backend.direct): computes a product of one fixed shape at once, by code in the
 * library for this CPU's instructions, without making a kernel.  False: the library has no such
 * code. */
bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c);
/* prebuilt.c: the strip micro-kernel for these CPU features; NULL if there is none. */
kernel_strip *limber_strip_code(unsigned cpu);
/* prebuilt.c: the library's functions that multiply bytes (kernel/bytes.c) for these CPU features;
 * NULL pointers if there are none. */
struct bytes_code {
    kernel_bytes *run;
    kernel_bytes_join *join;
    kernel_bytes_planes *planes;
    int group; /* channels in a 32-bit word: 4 bytes, or 2 elements of 16 bits */
    int units; /* a pixel is multiplied by up to this many units of filters, a strip, at once */
};
struct bytes_code limber_bytes_code(unsigned cpu);
/* prebuilt.c: further functions of the backend. */
extern const struct depthwise_ops limber_llvm_depthwise;
extern const struct function_ops limber_llvm_elementwise;
extern const struct narrow_ops limber_llvm_narrow;
/* zeros.c: compresses `size` bytes, mostly zeros, `size` a multiple of 4.  Returns the bytes
 * written to `to`, at most LIMBER_ZEROS_MOST. Unpacking returns false on damaged data. */
#define LIMBER_ZEROS_MOST(size) (2 * (size) + 8)
size_t limber_zeros_pack(const void *from, size_t size, unsigned char *to);
bool limber_zeros_unpack(const unsigned char *from, size_t packed, void *to, size_t size);
/* emit.c: implements backend.open: opens libLLVM and lets it compile a small function, so that all
 * of its parts are initialised. */
void limber_llvm_open(const struct target *t);
/* emit.c: compiles a kernel to an object file. */
bool limber_llvm_object(const struct kernel_config *k, const struct target *t,
                        const struct dump *dump, struct blob *object, struct diag *d);

/* emit.c: compiles LLVM assembly that needs no optimiser to an object file; features are set
 * here. */
bool limber_llvm_text_object(const struct text *text, const struct target *t,
                             const struct dump *dump, struct blob *object, struct diag *d);

/* object.c: maps an ELF object of this architecture, without a linker.  It refuses what it does not
 * understand. */
/* Tests whether the system lets this process execute memory that it has written.  A refusal is
 * remembered. */
bool limber_object_may_run(struct diag *d);
bool limber_object_map(const unsigned char *data, size_t size, struct object *o, struct diag *d);
void *limber_object_symbol(const unsigned char *data, size_t size, const struct object *o,
                           const char *name);
void limber_object_unmap(struct object *o);

#endif
