/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the LLVM backend. */
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

/* Every function of LLVM's C API in use. */
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

/* Of each architecture, as far as libLLVM has it. */
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
    bool x86, aarch64; /* libLLVM compiles for them */
};

/* LLVM's functions, opened at first use and kept; NULL with a reason when there is no libLLVM. */
const struct llvm *limber_llvm(struct diag *d);
/* Its code; empty before it is opened. */
struct code_range limber_llvm_code(void);

/* micro.c, and amx.c, sme.c for tiles of a matrix unit: the register-tile kernel as LLVM assembly
 * text. */
bool limber_micro_text(const struct kernel_config *k, const struct target *t, struct text *out);
bool limber_amx_text(const struct kernel_config *k, struct text *out);
bool limber_sme_text(const struct kernel_config *k, const struct target *t, struct text *out);
/* small.c: a product of fixed shape as LLVM assembly text, with the one function limber_fixed. */
bool limber_small_text(const struct fixed *f, enum unit unit, int64_t chunk, const struct target *t,
                       struct text *out);
/* fixed.c: its way to a C function. */
extern const struct functions limber_llvm_functions;
/* Whether the instruction for bytes of this group and unit takes signed ones on both sides. */
static inline bool limber_same_sign(int unit, int group, int matrix, unsigned cpu)
{
    return unit == UNIT_i8 && (matrix || (group == 4 && (cpu & CPU_neon) && !(cpu & CPU_sme)));
}
/* config.c: whether all of a plan is served; its constants. */
bool limber_llvm_serves(const struct plan *p, struct diag *d);
bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d);
/* prebuilt.c: the entries of a kernel that is part of the library and computes what this
 * configuration says, on a CPU with these features; false: there is none. */
bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block);
/* prebuilt.c: backend.direct. */
bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c);
/* prebuilt.c: the code of strips for a CPU with these features; NULL: there is none. */
kernel_strip *limber_strip_code(unsigned cpu);
/* kernel/bytes.c, for a CPU; its functions are NULL where there is none. */
struct bytes_code {
    kernel_bytes *run;
    kernel_bytes_join *join;
    kernel_bytes_planes *planes;
    int group; /* channels of a word of 32 bits: 4, or 2 of 16 bits */
    int units; /* of filters that pixels meet together: those of a strip */
};
struct bytes_code limber_bytes_code(unsigned cpu);
/* prebuilt.c: backend.depthwise. */
extern const struct depthwise_ops limber_llvm_depthwise;
extern const struct function_ops limber_llvm_elementwise;
extern const struct narrow_ops limber_llvm_narrow;
/* zeros.c: bytes that are mostly zeros in little room, `size` a multiple of 4; answers the bytes
 * that it takes at `to`, at most LIMBER_ZEROS_MOST.  Damaged bytes give false. */
#define LIMBER_ZEROS_MOST(size) (2 * (size) + 8)
size_t limber_zeros_pack(const void *from, size_t size, unsigned char *to);
bool limber_zeros_unpack(const unsigned char *from, size_t packed, void *to, size_t size);
/* emit.c: backend.open. */
void limber_llvm_open(const struct target *t);
/* emit.c: an object file. */
bool limber_llvm_object(const struct kernel_config *k, const struct target *t,
                        const struct dump *dump, struct blob *object, struct diag *d);

/* emit.c: an object file of a text that needs no optimiser; the features are set here. */
bool limber_llvm_text_object(const struct text *text, const struct target *t,
                             const struct dump *dump, struct blob *object, struct diag *d);

/* object.c: an ELF object of this architecture in memory, mapped without a linker.  Anything that
 * it does not understand is refused. */
/* Does the system let this process execute what it has written?  What it has refused once stays
 * refused. */
bool limber_object_may_run(struct diag *d);
bool limber_object_map(const unsigned char *data, size_t size, struct object *o, struct diag *d);
void *limber_object_symbol(const unsigned char *data, size_t size, const struct object *o,
                           const char *name);
void limber_object_unmap(struct object *o);

#endif
