/* SPDX-License-Identifier: BSD-3-Clause
 * A program that the build runs.  It prints the micro-kernel of one prebuilt kernel as LLVM
 * assembly, by the code that also prints micro-kernels at run time.
 *
 *   tile_text NAME UNIT MR NR GROUP MATRIX VECTOR_BITS ISA */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 1, UNIT, MR, NR, GROUP, MATRIX, VECTOR_BITS, ISA, ARGUMENTS };

/* Returns the CPU features that the code for an instruction set needs. */
static unsigned features_of(const char *isa)
{
    static const struct {
        const char *name;
        unsigned needs;
    } isas[] = {
#define ROW(isa, ...) { #isa, NEEDS_##isa },
        LIMBER_X86_ISAS(ROW) LIMBER_ARM_ISAS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < COUNT(isas); i++)
        if (strcmp(isa, isas[i].name) == 0)
            return isas[i].needs;
    return 0;
}

/* Sets the fields that describe the register tile, from the program's arguments. */
static void describe(char **argv, struct kernel_config *k, struct target *t)
{
    k->unit = !strcmp(argv[UNIT], "i8") ? UNIT_i8 : strcmp(argv[UNIT], "f64") ? UNIT_f32 : UNIT_f64;
    k->mr = atoi(argv[MR]);
    k->nr = atoi(argv[NR]);
    k->group = atoi(argv[GROUP]);
    k->matrix = atoi(argv[MATRIX]);
    t->vector_bits = atoi(argv[VECTOR_BITS]);
    snprintf(t->isa, sizeof t->isa, "%s", argv[ISA]);
    k->same_sign = limber_same_sign(k->unit, k->group, k->matrix, features_of(argv[ISA]));
}

/* Prints the micro-kernel, with its functions renamed to NAME. */
int main(int argc, char **argv)
{
    static const char general[] = "define void @limber_micro";
    static struct kernel_config k;
    struct target t = { .vector_bits = 0 };
    struct text text = { 0 };
    const char *from, *at;

    if (argc != ARGUMENTS)
        return 2;
    describe(argv, &k, &t);
    if (!limber_micro_text(&k, &t, &text))
        return 1;
    /* replace the general names of the micro-kernel's functions by the kernel's own names */
    for (from = text.s; (at = strstr(from, general)); from = at + strlen(general))
        printf("%.*sdefine hidden void @%s", (int)(at - from), from, argv[NAME]);
    if (from == text.s)
        return 1;
    printf("%s", from);
    limber_text_clear(&text);
    return fflush(stdout) ? 1 : 0;
}
