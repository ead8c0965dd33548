/* SPDX-License-Identifier: BSD-3-Clause
 * A program of the build.  It prints the micro-kernel of a prebuilt kernel as LLVM assembly, with
 * the generator that is also used at run time.
 *
 *   tile_text NAME UNIT MR NR GROUP MATRIX VECTOR_BITS ISA */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 1, UNIT, MR, NR, GROUP, MATRIX, VECTOR_BITS, ISA, ARGUMENTS };

/* Features that decide which instruction multiplies bytes. */
static unsigned features_of(const char *isa)
{
    bool arm = strcmp(isa, "dotprod") == 0 || strncmp(isa, "sve", 3) == 0;

    return (arm ? CPU_neon : 0) | (strncmp(isa, "sme", 3) == 0 ? CPU_neon | CPU_sme512 : 0);
}

/* Fills the fields that describe a tile. */
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
    for (from = text.s; (at = strstr(from, general)); from = at + strlen(general))
        printf("%.*sdefine hidden void @%s", (int)(at - from), from, argv[NAME]);
    if (from == text.s)
        return 1;
    printf("%s", from);
    limber_text_clear(&text);
    return fflush(stdout) ? 1 : 0;
}
