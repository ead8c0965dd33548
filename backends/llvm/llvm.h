/* SPDX-License-Identifier: BSD-3-Clause
 * Internal declarations of the LLVM backend. */
#ifndef LIMBER_LLVM_H
#define LIMBER_LLVM_H

#include "backends/backend.h"
#include "backends/llvm/kernel/bytes.h"
#include "backends/llvm/loaded.h"
#include "ir/cpu.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* The functions of LLVM's C API that this backend uses. */
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

/* Initialisation functions of LLVM's code generators.  libLLVM lacks those of architectures for
 * which it was not built. */
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
    bool x86, aarch64; /* true if libLLVM can generate code for this architecture */
};

/* Implements backend.probe. */
bool limber_llvm_probe(struct target *t, struct diag *d);
/* Reports an error that names the missing features, and returns false. */
bool limber_cpu_lacks(unsigned missing, struct diag *d);
/* Opens libLLVM at first use and keeps it open.  Returns NULL, with a reason, if it cannot be
 * used. */
const struct llvm *limber_llvm(struct diag *d);
/* Returns the address range of libLLVM's code; empty before libLLVM is opened. */
struct code_range limber_llvm_code(void);

/* Prints the micro-kernel for vectors as LLVM assembly (micro.c).  Returns false if that is not
 * possible. */
bool limber_micro_text(const struct kernel_config *k, const struct target *t, struct text *out);
/* Prints the micro-kernel for AMX (amx.c).  Returns false if that is not possible. */
bool limber_amx_text(const struct kernel_config *k, struct text *out);
/* Prints the micro-kernel for SME (sme.c).  Returns false if that is not possible. */
bool limber_sme_text(const struct kernel_config *k, const struct target *t, struct text *out);
/* Prints a product of fixed shape as LLVM assembly, with the single function limber_fixed
 * (small.c).  Returns false if that fails. */
bool limber_small_text(const struct fixed *f, enum unit unit, int64_t chunk, const struct target *t,
                       struct text *out);
/* Compiles and loads products of fixed shape as C functions (fixed.c). */
extern const struct functions limber_llvm_functions;
/* True if the unit's dot-product instruction takes signed bytes of both operands. */
static inline bool limber_same_sign(int unit, int group, int matrix, unsigned cpu)
{
    return unit == UNIT_i8 && (matrix || (group == 4 && (cpu & CPU_neon) && !(cpu & CPU_sme)));
}
/* Returns true if the backend supports all of a plan; else false, with an error (config.c). */
bool limber_llvm_serves(const struct plan *p, struct diag *d);
/* Fills the configuration of a plan's kernel: constants into which the plan is flattened
 * (config.c).  Returns false, with an error, if the backend does not support the plan. */
bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d);
/* Prints a configuration as the members of an initialiser, each with its offset in bytes, by which
 * LLVM's IR reads it (source.c). */
void limber_print_config(struct text *out, const struct kernel_config *k);
/* Prints a kernel as C: its configuration as an initialiser, and the source (source.c). */
bool limber_kernel_source(const struct kernel_config *k, struct text *out, struct diag *d);
/* Implements code_ops.source: prints the source of a plan's kernel, with its constants. */
bool limber_blob_source(const struct plan *p, const struct target *t, struct text *out,
                        struct diag *d);
/* Implements code_ops.named: describes a usual machine with this instruction set.  Returns false if
 * the name is unknown. */
bool limber_llvm_named(struct target *t, const char *name);
/* Finds the entry points of the library's prebuilt kernel for this configuration and these CPU
 * features (prebuilt.c).  Returns false if there is none. */
bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block);
/* Implements cpu_ops.direct: computes a product by library code for this CPU's instruction set,
 * without making a kernel (prebuilt.c).  Returns false if the library has no such code. */
bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c);
/* Returns the micro-kernel of the way (code path) `unpacked` for these CPU features, or NULL if
 * there is none (prebuilt.c). */
kernel_strip *limber_strip_code(unsigned cpu);
/* The library's functions that multiply 8-bit integers (kernel/bytes.c) for given CPU features.
 * The pointers are NULL if there are none. */
struct bytes_code {
    kernel_bytes *run;
    kernel_bytes_join *join;
    kernel_bytes_planes *planes;
    int group; /* channels in a 32-bit word: four bytes, or two elements of 16 bits */
    /* largest number of units of sixteen filters (a strip) by which a pixel is multiplied at
     * once */
    int units;
};
struct bytes_code limber_bytes_code(unsigned cpu);
/* Members depthwise, functions and int8 of cpu_ops (prebuilt.c). */
extern const struct depthwise_ops limber_llvm_depthwise;
extern const struct function_ops limber_llvm_elementwise;
extern const struct int8_ops limber_llvm_int8;
/* Largest number of bytes to which limber_zeros_pack compresses `size` bytes. */
#define LIMBER_ZEROS_MOST(size) (2 * (size) + 8)
/* Compresses `size` bytes, a multiple of 4, that are mostly zeros (zeros.c).  Returns the number of
 * bytes written to `to`. */
size_t limber_zeros_pack(const void *from, size_t size, unsigned char *to);
/* Restores `size` bytes from `packed` compressed bytes.  Returns false if the data are damaged. */
bool limber_zeros_unpack(const unsigned char *from, size_t packed, void *to, size_t size);
/* Implements code_ops.open: opens libLLVM and compiles a small function, so that all of libLLVM is
 * initialised (emit.c). */
void limber_llvm_open(const struct target *t);
/* Compiles a kernel to an object file (emit.c). */
bool limber_llvm_object(const struct kernel_config *k, const struct target *t,
                        const struct dump *dump, struct blob *object, struct diag *d);

/* Compiles LLVM assembly that needs no optimiser to an object file (emit.c).  Gives all functions
 * the target's CPU features. */
bool limber_llvm_text_object(const struct text *text, const struct target *t,
                             const struct dump *dump, struct blob *object, struct diag *d);

/* Loading of object files (object.c): maps an ELF object file of this architecture without a
 * linker, and refuses what it does not understand. */
/* Tests whether the system lets this process execute memory that it has written.  A refusal is
 * remembered. */
bool limber_object_may_run(struct diag *d);
/* Maps the object file: copies its sections, applies relocations, and makes the mapping executable.
 * Returns false with an error. */
bool limber_object_map(const unsigned char *data, size_t size, struct object *o, struct diag *d);
/* Returns the address of the symbol `name` in a mapped object file, or NULL if there is none. */
void *limber_object_symbol(const unsigned char *data, size_t size, const struct object *o,
                           const char *name);
/* Unmaps a mapped object file. */
void limber_object_unmap(struct object *o);

#endif
