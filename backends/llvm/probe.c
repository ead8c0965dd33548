/* SPDX-License-Identifier: BSD-3-Clause
 * Describes this CPU to the passes: instruction set, vectors, caches, and rates. */
#include "backends/llvm/llvm.h"

#include <string.h>
#include <unistd.h>

/* The instruction sets of this architecture, from the list in ir/isa.h.  The last row describes a
 * CPU without any of them. */
static const struct isa {
    const char *word;
    unsigned needs;
    int bits, registers, group, matrix;
    double byte_products, exact_rate;
} isas[] = {
#define ROW(isa, word, needs, bits, registers, group, matrix, byte_products, exact_rate) \
    { word, NEEDS_##isa, bits, registers, group, matrix, byte_products, exact_rate },
    LIMBER_ISAS(ROW)
#undef ROW
        { .bits = 64 }
};

/* Reports the missing features by name, and always returns false. */
bool limber_cpu_lacks(unsigned missing, struct diag *d)
{
    char list[128] = "";

    limber_cpu_names(missing, list, sizeof list);
    return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: the kernel needs %s, which this CPU lacks",
                       list);
}

/* Returns the size of a cache in bytes, as the C library tells it; `otherwise` if it does not
 * know. */
static int64_t cache_bytes(int name, int64_t otherwise)
{
    long v = sysconf(name);

    return v > 0 ? v : otherwise;
}

/* Returns the best instruction set of a CPU. */
static const struct isa *best_isa(unsigned cpu)
{
    const struct isa *best = &isas[COUNT(isas) - 1];

    for (size_t i = 0; i + 1 < COUNT(isas); i++)
        if (!(isas[i].needs & ~cpu))
            best = &isas[i];
    return best;
}

/* Sets peak rates of one core in multiply-adds per second, at a nominal 3 GHz.  Only the ratios of
 * these rates matter: they decide between schemes. */
static void set_rates(struct target *t, const struct isa *isa, unsigned cpu)
{
    double lanes = t->vector_bits / 64.0, cycle = 3e9;

    /* assumed for SME: one outer product of floats per cycle, one of 8-bit integers per two
     * cycles */
    const double f64 = 64, f32 = 256, i8 = 512;
    double outer = cpu & CPU_sme512 ? 1 : cpu & CPU_sme256 ? 0.25 : 0;

    t->rate[UNIT_f64] = (outer > 0 ? outer * f64 : 2 * lanes) * cycle;
    t->rate[UNIT_f32] = t->rate[UNIT_f16] = t->rate[UNIT_bf16] = t->rate[UNIT_tf32] =
        (outer > 0 ? outer * f32 : 4 * lanes) * cycle;
    t->rate[UNIT_i8] = (outer > 0 ? outer * i8 : isa->byte_products * lanes) * cycle;
    t->rate[UNIT_exact] = isa->exact_rate;
    t->rate[UNIT_model] = t->rate[UNIT_f32] / 6;
}

/* Describes a machine with these features of a CPU, and with this machine's caches. */
static void describe_machine(struct target *t, const struct isa *isa, unsigned cpu)
{
    const bool arm = cpu & CPU_neon;

    memset(t, 0, sizeof *t);
    strcpy(t->backend, "llvm");
    strcpy(t->isa, isa->word);
    limber_cpu_names(cpu, t->features, sizeof t->features);
    t->cpu = cpu;
    t->vector_bits = isa->bits;
    if (cpu & CPU_sme)
        /* only the micro-kernel uses SME's vectors */
        t->vector_bits = cpu & CPU_sve512 ? 512 : cpu & CPU_sve256 ? 256 : 128;
    t->registers = isa->registers;
    t->group = isa->group;
    t->matrix = isa->matrix;
    t->l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, arm ? 65536 : 32768);
    t->l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, arm ? 1048576 : 524288);
    set_rates(t, isa, cpu);
}

/* Describes this machine.  Returns false with an error if the CPU lacks features that all kernels
 * need. */
bool limber_llvm_probe(struct target *t, struct diag *d)
{
    const struct isa *isa = best_isa(limber_cpu());

    if (!isa->word)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: this CPU lacks %s",
                           limber_cpu_missing());
    describe_machine(t, isa, limber_cpu());
    return true;
}

/* Implements code_ops.named: describes a usual machine with this instruction set. */
bool limber_llvm_named(struct target *t, const char *name)
{
    for (size_t i = 0; i + 1 < COUNT(isas); i++)
        if (strcmp(isas[i].word, name) == 0) {
            describe_machine(t, &isas[i], isas[i].needs);
            return true;
        }
    return false;
}
