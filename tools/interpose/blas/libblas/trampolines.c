/* SPDX-License-Identifier: BSD-3-Clause
 * Defines every function of names.inc as a jump to the other BLAS's function of that name, whatever
 * its arguments and results are. */
#include "library.h"

#include "tools/interpose/shared/interpose.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

/* Prints, once, that a function is missing.  text[0] tells whether that was done; the name
 * follows. */
#define HIDDEN __attribute__((visibility("hidden"), used))
HIDDEN void limber_blas_missing(atomic_char *text);
void limber_blas_missing(atomic_char *text)
{
    if (!atomic_exchange(text, 1))
        interpose_message("the BLAS behind has no %s; LIMBER_BLAS names another",
                          (const char *)text + 1);
}

#if defined __x86_64__
#define JUMP(name) "endbr64\n jmp *limber_slot_" name "(%rip)\n"
#define MISSING(name) "lea limber_text_" name "(%rip), %rdi\n jmp limber_blas_missing\n"
#elif defined __aarch64__
#define JUMP(name) \
    "hint 34\n adrp x16, limber_slot_" name "\n"      /* hint 34 is bti c */ \
    "ldr x16, [x16, :lo12:limber_slot_" name "]\n br x16\n"
#define MISSING(name) \
    "hint 34\n adrp x0, limber_text_" name "\n" \
    "add x0, x0, :lo12:limber_text_" name "\n b limber_blas_missing\n"
#else
#error "no jump for this processor"
#endif

/* Defines a jump through a slot.  The slot holds the address of the other BLAS's function, or of
 * code that reports that the function is missing. */
#define TRAMPOLINE(name) \
    ".pushsection .data\n .p2align 3\n" \
    ".globl limber_slot_" name "\n .hidden limber_slot_" name "\n" \
    "limber_slot_" name ": .quad limber_missing_" name "\n" \
    "limber_text_" name ": .byte 0\n .asciz \"" name "\"\n .popsection\n" \
    ".pushsection .text\n .p2align 4\n .globl " name "\n .type " name ", %function\n" name \
    ":\n" JUMP(name) ".size " name ", .-" name "\n" \
                     "limber_missing_" name ":\n" MISSING(name) ".popsection\n"
#define NAME(f) \
    __asm__(TRAMPOLINE(#f)); \
    extern HIDDEN_SLOT void *limber_slot_##f;
#define HIDDEN_SLOT __attribute__((visibility("hidden")))
#include "names.inc"
#undef NAME

/* Global variables of the reference CBLAS that its callers and test programs share.  They expect an
 * int, for which 64 bits suffice. */
#define PUBLIC __attribute__((visibility("default")))
PUBLIC extern int64_t RowMajorStrg, CBLAS_CallFromC;
int64_t RowMajorStrg, CBLAS_CallFromC;

/* The functions of the BLAS to which trampolines jump. */
static const struct {
    const char *name;
    void **slot;
} slots[] = {
#define NAME(f) { #f, &limber_slot_##f },
#include "names.inc"
};

__attribute__((constructor)) static void fill_slots(void)
{
    void *f;

    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (limber_blas_designated(slots[i].name, NULL, &f) && f)
            *slots[i].slot = f;
}
