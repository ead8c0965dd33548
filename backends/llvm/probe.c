/* SPDX-License-Identifier: BSD-3-Clause
 * What this CPU offers, by CPUID feature bits (never by model name). */
#include "backends/llvm/llvm.h"

#include <string.h>
#include <unistd.h>

static const struct { enum cpu bit; const char *name; } names[] = {
    { CPU_avx2, "avx2" }, { CPU_fma, "fma" }, { CPU_f16c, "f16c" }, { CPU_avx512, "avx512" },
    { CPU_vnni, "avx512vnni" }, { CPU_avxvnni, "avxvnni" },
};

unsigned limber_cpu(void)
{
    unsigned m = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        m |= CPU_avx2;
    if (__builtin_cpu_supports("fma"))
        m |= CPU_fma;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        m |= CPU_avx512;
    if ((m & CPU_avx512) && __builtin_cpu_supports("avx512vnni"))
        m |= CPU_vnni;
#endif
    return m;
}

unsigned limber_cpu_of(const struct target *t)
{
    unsigned m = 0;

    for (size_t i = 0; i < COUNT(names); i++) {
        size_t n = strlen(names[i].name);

        for (const char *s = t->features; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
            if (strncmp(s, names[i].name, n) == 0 && (s[n] == ',' || s[n] == 0))
                m |= names[i].bit;
    }
    return m;
}

static int64_t cache(int name, int64_t otherwise)
{
    long v = sysconf(name);

    return v > 0 ? v : otherwise;
}

/* Multiply-adds per cycle and core that these instruction sets allow, times a nominal 3 GHz;
 * only their ratios matter for choosing. */
static void rates(struct target *t, unsigned cpu)
{
    double lanes = t->vector_bits / 64.0, cycle = 3e9;

    t->rate[UNIT_f64] = 2 * lanes * cycle;
    t->rate[UNIT_f32] = t->rate[UNIT_f16] = t->rate[UNIT_bf16] = t->rate[UNIT_tf32] =
        4 * lanes * cycle;
    t->rate[UNIT_i8] = (cpu & CPU_vnni ? 16 : 8) * lanes * cycle;
    t->rate[UNIT_exact] = 8e7;
}

bool limber_llvm_probe(struct target *t, struct diag *d)
{
    unsigned cpu = limber_cpu();

    memset(t, 0, sizeof *t);
    if ((cpu & (CPU_avx2 | CPU_fma)) != (CPU_avx2 | CPU_fma))
        return limber_fail(d, LIMBER_DEVICE, "llvm: this CPU lacks AVX2 and FMA");
    strcpy(t->backend, "llvm");
    strcpy(t->isa, cpu & CPU_vnni ? "avx512vnni" : cpu & CPU_avx512 ? "avx512" : "avx2");
    for (size_t i = 0; i < COUNT(names); i++)
        if (cpu & names[i].bit) {
            strcat(t->features, t->features[0] ? "," : "");
            strcat(t->features, names[i].name);
        }
    t->vector_bits = cpu & CPU_avx512 ? 512 : 256;
    t->registers = cpu & CPU_avx512 ? 32 : 16;
    t->l1 = cache(_SC_LEVEL1_DCACHE_SIZE, 32768);
    t->l2 = cache(_SC_LEVEL2_CACHE_SIZE, 524288);
    t->group = cpu & CPU_vnni ? 4 : 2;
    rates(t, cpu);
    return true;
}
