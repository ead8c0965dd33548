/* SPDX-License-Identifier: BSD-3-Clause
 * Compiles a kernel to an object file, from a configuration, the text of its micro-kernel and the
 * bitcode of the kernel's source.
 *
 * LLVM ends the process if it finds no machine instruction for an operation.  So LLVM is told only
 * features that the CPU reported, and the micro-kernel's text uses an intrinsic only if the CPU has
 * its feature. */
#include "backends/llvm/llvm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Embeds the bitcode of the kernel's source in this object file, once for each kind of limb. */
#define BITCODE(limb_kind) \
    __asm__(".section .rodata\n.balign 16\n" \
            "limber_bitcode_" #limb_kind ":\n.incbin \"" LIMBER_BITCODE "/kernel_" #limb_kind \
            ".bc\"\n" \
            "limber_bitcode_end_" #limb_kind ":\n.byte 0\n.previous\n"); \
    extern const char limber_bitcode_##limb_kind[] __attribute__((visibility("hidden"))); \
    extern const char limber_bitcode_end_##limb_kind[] __attribute__((visibility("hidden")));
#define EMBED(prefix, word, ...) BITCODE(word)
LIMBER_LIMB_KINDS(EMBED)

static const struct {
    const char *start, *end;
} bitcode[LIMB_KIND_count] = {
#define ROW(prefix, word, ...) { limber_bitcode_##word, limber_bitcode_end_##word },
    LIMBER_LIMB_KINDS(ROW)
};

/* LLVM's handler for warnings, which must not be printed to the program's stderr. */
static void ignore_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    (void)info, (void)user;
}

/* The state of one compilation by libLLVM. */
struct emit {
    const struct llvm *l;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    struct diag *d;
    const char *triple, *cpu;
    struct text features;
};

/* Starts a compilation: sets the architecture from the target's features, and creates LLVM's
 * context.  Returns false with an error if that fails. */
static bool begin_emit(struct emit *e, const struct target *t, struct diag *d)
{
    unsigned cpu = limber_cpu_of(t);
    bool arm = cpu & CPU_neon;

    *e = (struct emit){ .l = limber_llvm(d),
                        .d = d,
                        .triple = arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu",
                        .cpu = arm ? "generic" : "x86-64" };
    if (!e->l)
        return false;
    if (arm ? !e->l->aarch64 : !e->l->x86)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: this libLLVM has no %s",
                           arm ? "AArch64" : "X86");
    limber_cpu_words(cpu, &e->features);
    if (e->features.failed || !e->features.s)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    e->context = e->l->LLVMContextCreate();
    e->l->LLVMContextSetDiagnosticHandler(e->context, ignore_diagnostic, NULL);
    return true;
}

/* Reports an error of libLLVM, frees its message, and always returns false. */
static bool fail_llvm(struct emit *e, const char *what, char *message)
{
    limber_fail(e->d, LIMBER_STATUS_INTERNAL, "llvm: %s: %s", what, message ? message : "unknown");
    if (message)
        e->l->LLVMDisposeMessage(message);
    return false;
}

/* Reads the bitcode for the kernel's kind of limbs, and links the micro-kernel into the module.
 * Returns false with an error if that fails. */
static bool read_modules(struct emit *e, const struct kernel_config *k, const struct target *t)
{
    int limb_kind = k->side[0].limb_kind;
    size_t size = (size_t)(bitcode[limb_kind].end - bitcode[limb_kind].start);
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef micro = NULL;
    struct text text = { 0 };
    char *message = NULL;
    bool ok;

    buffer =
        e->l->LLVMCreateMemoryBufferWithMemoryRangeCopy(bitcode[limb_kind].start, size, "kernel");
    ok = !e->l->LLVMParseBitcodeInContext2(e->context, buffer, &e->module);
    e->l->LLVMDisposeMemoryBuffer(buffer);
    if (!ok)
        return fail_llvm(e, "the kernel's bitcode does not read", NULL);
    if (k->unit == UNIT_model)
        return true; /* simulated units have no micro-kernel, and its declaration stays unused */
    if (!limber_micro_text(k, t, &text)) {
        limber_text_clear(&text);
        return limber_fail(e->d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    }
    buffer = e->l->LLVMCreateMemoryBufferWithMemoryRangeCopy(text.s, text.n, "micro");
    limber_text_clear(&text);
    /* the parser takes ownership of the buffer */
    if (e->l->LLVMParseIRInContext(e->context, buffer, &micro, &message))
        return fail_llvm(e, "the register tile does not parse", message);
    e->l->LLVMSetTarget(micro, e->triple);
    if (e->l->LLVMLinkModules2(e->module, micro))
        return fail_llvm(e, "the register tile does not link", NULL);
    return true;
}

/* Replaces the kernel's external configuration by constant bytes, so that the optimiser folds them
 * into the code.  Returns false with an error if that fails. */
static bool set_config(struct emit *e, const struct kernel_config *k)
{
    LLVMValueRef old = e->l->LLVMGetNamedGlobal(e->module, "limber_kernel_constants"), bytes,
                 global;

    if (!old)
        return fail_llvm(e, "the bitcode has no configuration", NULL);
    bytes = e->l->LLVMConstStringInContext(e->context, (const char *)k, sizeof *k, 1);
    global = e->l->LLVMAddGlobal(e->module, e->l->LLVMTypeOf(bytes), "limber_constants");
    e->l->LLVMSetInitializer(global, bytes);
    e->l->LLVMSetGlobalConstant(global, 1);
    e->l->LLVMSetLinkage(global, LLVMInternalLinkage);
    e->l->LLVMSetAlignment(global, 64);
    e->l->LLVMReplaceAllUsesWith(old, global);
    e->l->LLVMDeleteGlobal(old);
    return true;
}

/* Gives each function the target's CPU features, and internal linkage to all but the entry
 * points. */
static void set_attributes(struct emit *e)
{
    const unsigned whole = (unsigned)LLVMAttributeFunctionIndex;
    LLVMAttributeRef cpu, feature, calls, vectors, nounwind;

    cpu = e->l->LLVMCreateStringAttribute(e->context, "target-cpu", 10, e->cpu,
                                          (unsigned)strlen(e->cpu));
    feature = e->l->LLVMCreateStringAttribute(e->context, "target-features", 15, e->features.s,
                                              (unsigned)e->features.n);
    calls = e->l->LLVMCreateStringAttribute(e->context, "no-builtins", 11, "", 0);
    vectors = e->l->LLVMCreateStringAttribute(e->context, "prefer-vector-width", 19, "512", 3);
    nounwind = e->l->LLVMCreateEnumAttribute(
        e->context, e->l->LLVMGetEnumAttributeKindForName("nounwind", 8), 0);
    for (LLVMValueRef f = e->l->LLVMGetFirstFunction(e->module); f;
         f = e->l->LLVMGetNextFunction(f)) {
        size_t n;
        const char *name = e->l->LLVMGetValueName2(f, &n);
        bool entry = !strcmp(name, "limber_pack") || !strcmp(name, "limber_block") ||
                     !strcmp(name, "limber_fixed") || !strcmp(name, "memset") ||
                     !strcmp(name, "memcpy");

        if (e->l->LLVMIsDeclaration(f))
            continue;
        e->l->LLVMRemoveStringAttributeAtIndex(f, whole, "tune-cpu", 8);
        e->l->LLVMAddAttributeAtIndex(f, whole, cpu);
        e->l->LLVMAddAttributeAtIndex(f, whole, feature);
        e->l->LLVMAddAttributeAtIndex(f, whole, calls);
        e->l->LLVMAddAttributeAtIndex(f, whole, vectors);
        e->l->LLVMAddAttributeAtIndex(f, whole, nounwind);
        if (!entry)
            e->l->LLVMSetLinkage(f, LLVMInternalLinkage);
    }
}

/* Creates LLVM's code generator for the target.  Returns false with an error if that fails. */
static bool make_machine(struct emit *e)
{
    LLVMTargetRef target;
    LLVMTargetDataRef layout;
    char *message = NULL;

    if (e->l->LLVMGetTargetFromTriple(e->triple, &target, &message))
        return fail_llvm(e, "no target", message);
    e->machine =
        e->l->LLVMCreateTargetMachine(target, e->triple, e->cpu, e->features.s,
                                      LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelSmall);
    if (!e->machine)
        return fail_llvm(e, "no target machine", NULL);
    layout = e->l->LLVMCreateTargetDataLayout(e->machine);
    e->l->LLVMSetModuleDataLayout(e->module, layout);
    e->l->LLVMDisposeTargetData(layout);
    e->l->LLVMSetTarget(e->module, e->triple);
    return true;
}

/* The optimiser's passes.  The kernel's source is vectorised by hand and inlined at build time, so
 * the passes only fold constants, remove dead code and unroll loops over registers. */
static const char passes[] =
    "globaldce,function(early-cse,simplifycfg),"
    "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg),globaldce,"
    "function(loop-mssa(loop-rotate,licm),loop(indvars,loop-deletion,loop-unroll-full),"
    "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)";

/* Runs the passes on the module.  Returns false with an error if they fail. */
static bool optimise(struct emit *e)
{
    LLVMPassBuilderOptionsRef options = e->l->LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = e->l->LLVMRunPasses(e->module, passes, e->machine, options);
    char *message;

    e->l->LLVMDisposePassBuilderOptions(options);
    if (!error)
        return true;
    message = e->l->LLVMGetErrorMessage(error);
    limber_fail(e->d, LIMBER_STATUS_INTERNAL, "llvm: passes: %s", message);
    e->l->LLVMDisposeErrorMessage(message);
    return false;
}

/* Compiles the module to an object file or to assembly.  Returns false with an error if that fails.
 * The caller disposes of *buffer by libLLVM. */
static bool write_file(struct emit *e, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *buffer)
{
    char *message = NULL;

    if (e->l->LLVMTargetMachineEmitToMemoryBuffer(e->machine, e->module, kind, &message, buffer))
        return fail_llvm(e, "code generation", message);
    return true;
}

/* Compiles the module and copies the object file to *object, which the caller frees.  Returns false
 * with an error if that fails. */
static bool emit_object(struct emit *e, struct blob *object)
{
    LLVMMemoryBufferRef buffer;

    if (!write_file(e, LLVMObjectFile, &buffer))
        return false;
    object->size = e->l->LLVMGetBufferSize(buffer);
    object->data = malloc(object->size);
    if (object->data)
        memcpy(object->data, e->l->LLVMGetBufferStart(buffer), object->size);
    e->l->LLVMDisposeMemoryBuffer(buffer);
    return object->data || limber_fail(e->d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
}

/* Disposes of what libLLVM has made for a compilation. */
static void emit_clear(struct emit *e)
{
    if (e->machine)
        e->l->LLVMDisposeTargetMachine(e->machine);
    if (e->module)
        e->l->LLVMDisposeModule(e->module);
    if (e->context)
        e->l->LLVMContextDispose(e->context);
    limber_text_clear(&e->features);
}

/* Parses LLVM assembly into the module.  Returns false with an error if that fails. */
static bool read_text(struct emit *e, const char *text, size_t size)
{
    LLVMMemoryBufferRef buffer;
    char *message = NULL;

    buffer = e->l->LLVMCreateMemoryBufferWithMemoryRangeCopy(text, size, "text");
    /* the parser takes ownership of the buffer */
    return !e->l->LLVMParseIRInContext(e->context, buffer, &e->module, &message) ||
           fail_llvm(e, "the function's text does not parse", message);
}

/* Prints a configuration as comments of LLVM's IR, in which it is a string of bytes. */
static void print_constants(struct text *out, const struct kernel_config *k)
{
    struct text all = { 0 };

    limber_print_config(&all, k);
    limber_text_add(out, "; @limber_constants: members, with their offsets in bytes\n");
    for (const char *line = all.s; line && *line; line += strcspn(line, "\n") + 1)
        limber_text_add(out, ";%.*s\n", (int)strcspn(line, "\n"), line);
    out->failed = out->failed || all.failed;
    limber_text_clear(&all);
}

/* Writes the IR and the assembly to the dump.  Code generation changes a module, so the assembly is
 * made from a new module, parsed from the text.  On failure there is only no assembly in the dump.
 * k: the configuration among the module's constants, or NULL. */
static void dump_texts(const struct target *t, const char *text, const struct kernel_config *k,
                       const struct dump *dump)
{
    LLVMMemoryBufferRef assembly;
    struct diag ignored = { 0 };
    struct text all = { 0 };
    struct emit e;

    if (k)
        print_constants(&all, k);
    limber_text_add(&all, "%s", text);
    if (!all.failed)
        dump->file(dump->user, "kernel.ll", all.s, all.n);
    limber_text_clear(&all);
    if (dump->without && strcmp(dump->without, "kernel.s") == 0)
        return;
    if (begin_emit(&e, t, &ignored) && read_text(&e, text, strlen(text)) && make_machine(&e) &&
        write_file(&e, LLVMAssemblyFile, &assembly)) {
        dump->file(dump->user, "kernel.s", e.l->LLVMGetBufferStart(assembly),
                   e.l->LLVMGetBufferSize(assembly));
        e.l->LLVMDisposeMemoryBuffer(assembly);
    }
    emit_clear(&e);
}

/* Compiles the object file first and writes the dump afterwards, so that dumping does not change
 * the object file.  k: as in dump_texts.  Returns false with an error if that fails. */
static bool emit_object_and_dump(struct emit *e, const struct target *t,
                                 const struct kernel_config *k, const struct dump *dump,
                                 struct blob *object)
{
    char *text = dump ? e->l->LLVMPrintModuleToString(e->module) : NULL;
    bool ok = emit_object(e, object);

    if (text && ok)
        dump_texts(t, text, k, dump);
    if (text)
        e->l->LLVMDisposeMessage(text);
    return ok;
}

/* Compiles a kernel: links bitcode and micro-kernel, sets the configuration, optimises, and writes
 * the object file. */
bool limber_llvm_object(const struct kernel_config *k, const struct target *t,
                        const struct dump *dump, struct blob *object, struct diag *d)
{
    struct emit e;
    bool ok = begin_emit(&e, t, d) && read_modules(&e, k, t);

    /* Names of values take time, and only dumps show them.  Functions, and modules parsed from
     * text, keep their names. */
    if (ok && !dump)
        e.l->LLVMContextSetDiscardValueNames(e.context, 1);
    ok = ok && make_machine(&e) && set_config(&e, k);

    if (ok) {
        set_attributes(&e);
        ok = optimise(&e) && emit_object_and_dump(&e, t, k, dump, object);
    }
    emit_clear(&e);
    return ok;
}

/* Compiles a module from text: sets its attributes, creates the code generator, and writes the
 * object file and the dump. */
bool limber_llvm_text_object(const struct text *text, const struct target *t,
                             const struct dump *dump, struct blob *object, struct diag *d)
{
    struct emit e;
    bool ok = begin_emit(&e, t, d) && read_text(&e, text->s, text->n) && make_machine(&e);

    if (ok) {
        set_attributes(&e);
        ok = emit_object_and_dump(&e, t, NULL, dump, object);
    }
    emit_clear(&e);
    return ok;
}

/* A module that is compiled to warm up libLLVM, which builds some internal tables at first use.  To
 * need all tables that kernels need, the module has a call of a library function, an SVE intrinsic
 * and, in a loop, splat and non-splat constant vectors. */
#define FIVES "float 5.0, float 5.0, float 5.0, float 5.0"
static const char first[] =
    "declare <vscale x 4 x float> @llvm.aarch64.sve.ld1.nxv4f32(<vscale x 4 x i1>, ptr)\n"
    "define void @memset(ptr %p) noinline {\n"
    "  store i8 0, ptr %p\n"
    "  ret void\n"
    "}\n"
    "define void @limber_fixed(ptr %a, ptr %b, i64 %n) {\n"
    "entry:\n"
    "  call void @memset(ptr %b)\n"
    "  br label %loop\n"
    "loop:\n"
    "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
    "  %s = phi <16 x float> [ zeroinitializer, %entry ], [ %sum, %loop ]\n"
    "  %p = getelementptr <16 x float>, ptr %a, i64 %i\n"
    "  %x = load <16 x float>, ptr %p\n"
    "  %y = fmul <16 x float> %x, <" FIVES ", " FIVES ", " FIVES ", " FIVES ">\n"
    "  %sum = fadd <16 x float> %s, %y\n"
    "  %q = getelementptr <4 x float>, ptr %b, i64 %i\n"
    "  %u = load <4 x float>, ptr %q\n"
    "  %v = fmul <4 x float> %u, <float 1.0, float 2.0, float 3.0, float 4.0>\n"
    "  store <4 x float> %v, ptr %q\n"
    "  %next = add i64 %i, 1\n"
    "  %more = icmp ult i64 %next, %n\n"
    "  br i1 %more, label %loop, label %done\n"
    "done:\n"
    "  store <16 x float> %sum, ptr %b\n"
    "  ret void\n"
    "}\n";
#undef FIVES

/* Makes libLLVM create its static tables before Limber registers its exit function, which waits for
 * running compilations.  Destructors run at exit in reverse order, so tables that were created
 * later would be destroyed while a compilation still runs.  Writing assembly creates all tables
 * that writing an object file needs. */
void limber_llvm_open(const struct target *t)
{
    static atomic_bool done;
    LLVMMemoryBufferRef assembly;
    struct diag ignored = { 0 };
    struct emit e;

    if (atomic_load(&done) || !limber_object_may_run(&ignored) || !limber_llvm(&ignored))
        return;
    if (begin_emit(&e, t, &ignored) && read_text(&e, first, sizeof first - 1) && make_machine(&e)) {
        set_attributes(&e);
        if (optimise(&e) && write_file(&e, LLVMAssemblyFile, &assembly)) {
            e.l->LLVMDisposeMemoryBuffer(assembly);
            atomic_store(&done, true);
        }
    }
    emit_clear(&e);
}
