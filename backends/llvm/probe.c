/* SPDX-License-Identifier: BSD-3-Clause
 * Features of this CPU, from CPUID or AArch64's auxiliary vector, never from the model's name.  The
 * vendor is used where no feature bit tells a CPU's speed. */
#include "backends/llvm/llvm.h"
#include "ir/x86.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

/* Names in targets, and LLVM's names. */
static const struct {
    enum cpu bit;
    const char *name, *words;
} names[] = {
    { CPU_avx2, "avx2", "+avx2,+bmi,+bmi2,+lzcnt,+popcnt" },
    { CPU_fma, "fma", "+fma" },
    { CPU_f16c, "f16c", "+f16c" },
    { CPU_avx512, "avx512", "+avx512f,+avx512bw,+avx512dq,+avx512vl" },
    { CPU_vnni, "avx512vnni", "+avx512vnni" },
    { CPU_avxvnni, "avxvnni", "+avxvnni" },
    { CPU_fp16, "avx512fp16", "+avx512fp16" },
    { CPU_bf16, "avx512bf16", "+avx512bf16" },
    { CPU_ifma, "avx512ifma", "+avx512ifma" },
    { CPU_vbmi, "avx512vbmi", "+avx512vbmi" },
    { CPU_amx, "amxint8", "+amx-tile,+amx-int8" },
    { CPU_neon, "neon", "+neon,+fp-armv8" },
    { CPU_dotprod, "dotprod", "+dotprod" },
    { CPU_i8mm, "i8mm", "+i8mm" },
    { CPU_bfdot, "bfdot", "+bf16" },
    { CPU_sve256, "sve256", "+sve" },
    { CPU_sve512, "sve512", "+sve" },
    { CPU_sme256, "sme256", "+sme,+sme-f64f64" },
    { CPU_sme512, "sme512", "+sme,+sme-f64f64" },
};

unsigned limber_cpu_emulated;

#if defined(__x86_64__)
/* Reads XCR0: the state that the system saves and restores for threads. */
static uint64_t saved_state(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Asks Linux to let this process use AMX tiles.  Asking twice is harmless. */
static bool request_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static unsigned x86_cpu(void)
{
    const uint64_t tiles = 3 << 17;
    int level = limber_x86_found();
    uint32_t a = 0, b = 0, c = 0, d = 0, a1 = 0, b1, c1, d1;
    unsigned m = CPU_avx2 | CPU_fma | CPU_f16c;

    if (level < 3)
        return 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (a >= 1)
        __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
    m |= a1 >> 4 & 1 ? CPU_avxvnni : 0;
    if (level >= 4)
        m |= CPU_avx512 | (c >> 11 & 1 ? CPU_vnni : 0) | (d >> 23 & 1 ? CPU_fp16 : 0) |
             (a1 >> 5 & 1 ? CPU_bf16 : 0) | (b >> 21 & 1 ? CPU_ifma : 0) |
             (c >> 1 & 1 ? CPU_vbmi : 0);
    if ((saved_state() & tiles) == tiles && (d >> 24 & 1) && (d >> 25 & 1) && request_tiles())
        m |= CPU_amx;
    return m;
}
#elif defined(__aarch64__)
/* Length of SVE or SME vectors in bytes.  Threads inherit it from their process. */
static int vector_length(int question)
{
    enum { LENGTH = 0xffff }; /* PR_SVE_VL_LEN_MASK, PR_SME_VL_LEN_MASK */
    int answer = prctl(question);

    return answer < 0 ? 0 : answer & LENGTH;
}

/* SVE's features that kernels serve: vectors of 256 or 512 bits. */
static unsigned sve_features(void)
{
    enum { GET_VL = 51 }; /* PR_SVE_GET_VL */
    int length = vector_length(GET_VL);

    return length == 32 ? CPU_sve256 : length == 64 ? CPU_sve512 : 0;
}

/* The micro-kernel needs SME's outer products of FP64, FP32 and bytes. */
static unsigned sme_features(unsigned long hwcap2)
{
    enum { GET_VL = 64 }; /* PR_SME_GET_VL */
    /* HWCAP2_SME, _SME_F64F64, _SME_I8I32, _SME_F32F32 */
    const unsigned long needs = 1ul << 23 | 1ul << 25 | 1ul << 26 | 1ul << 29;
    int length = (hwcap2 & needs) == needs ? vector_length(GET_VL) : 0;

    return length == 32 ? CPU_sme256 : length == 64 ? CPU_sme512 : 0;
}

static unsigned arm_cpu(void)
{
    unsigned long first = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);

    if ((first & (HWCAP_FP | HWCAP_ASIMD)) != (HWCAP_FP | HWCAP_ASIMD))
        return 0;
    return CPU_neon | (first & HWCAP_ASIMDDP ? CPU_dotprod : 0) |
           (hwcap2 & HWCAP2_I8MM && (!(first & HWCAP_SVE) || hwcap2 & HWCAP2_SVEI8MM) ? CPU_i8mm :
                                                                                        0) |
           (hwcap2 & HWCAP2_BF16 ? CPU_bfdot : 0) | (first & HWCAP_SVE ? sve_features() : 0) |
           sme_features(hwcap2);
}
#endif

/* Found once: CPUID is slow, since it leaves a virtual machine. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned here;
static bool slow_gathers, wide_reads;

static void probe_cpu(void)
{
#if defined(__x86_64__)
    enum { AUTH = 0x68747541, HYGO = 0x6f677948 }; /* begin "AuthenticAMD", "HygonGenuine" */
    uint32_t a, b = 0, c = 0, d = 0;

    here = x86_cpu();
    __get_cpuid(0, &a, &b, &c, &d);
    slow_gathers = b == AUTH || b == HYGO; /* no CPUID bit tells this, nor what follows (Zen 5) */
    wide_reads = b == AUTH && here & CPU_avx512 && here & CPU_avxvnni;
#elif defined(__aarch64__)
    here = arm_cpu();
#endif
}

static unsigned allowed_features(void)
{
#if defined(__x86_64__)
    const unsigned third = CPU_avx2 | CPU_fma | CPU_f16c;
    int limit = limber_x86_limit();

    return limit > 4 ? ~0u : limit > 3 ? third | CPU_avx512 : third;
#else
    return ~0u;
#endif
}

unsigned limber_cpu(void)
{
    pthread_once(&once, probe_cpu);
    return (here & allowed_features()) | limber_cpu_emulated;
}

bool limber_cpu_gathers_slowly(void)
{
    pthread_once(&once, probe_cpu);
    return slow_gathers;
}

bool limber_cpu_reads_wide(void)
{
    pthread_once(&once, probe_cpu);
    return wide_reads;
}

unsigned limber_cpu_of(const struct target *t)
{
    unsigned m = t->cpu;

    for (size_t i = 0; i < COUNT(names) && !t->cpu; i++) {
        size_t n = strlen(names[i].name);

        for (const char *s = t->features; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
            if (strncmp(s, names[i].name, n) == 0 && (s[n] == ',' || s[n] == 0))
                m |= names[i].bit;
    }
    return m;
}

void limber_cpu_words(unsigned cpu, struct text *out)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (cpu & names[i].bit)
            limber_text_add(out, "%s%s", out->n ? "," : "", names[i].words);
}

bool limber_cpu_lacks(unsigned missing, struct diag *d)
{
    char list[128] = "";

    for (size_t i = 0; i < COUNT(names); i++)
        if (missing & names[i].bit && strlen(list) + strlen(names[i].name) + 2 < sizeof list) {
            strcat(list, list[0] ? "," : "");
            strcat(list, names[i].name);
        }
    return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: the kernel needs %s, which this CPU lacks",
                       list);
}

/* Size of a cache as the C library knows it; `otherwise` if it does not. */
static int64_t cache_bytes(int name, int64_t otherwise)
{
    long v = sysconf(name);

    return v > 0 ? v : otherwise;
}

/* Byte multiply-adds in the time of one FP64 multiply-add. */
static double bytes_for_a_double(unsigned cpu)
{
    if (cpu & CPU_neon)
        return cpu & (CPU_dotprod | CPU_sve256 | CPU_sve512) ? 16 : 1;
    if (cpu & CPU_amx)
        return 50;
    if (cpu & CPU_avx512)
        /* without VNNI, additions compete with products for ports */
        return cpu & CPU_vnni ? 16 : 4;
    return cpu & CPU_avxvnni ? 16 : 6;
}

/* Sets peak rates: multiply-adds per cycle and core, at a nominal 3 GHz.  AMX has what remains of
 * 128 if limbs come from L2.  Only the ratios matter, for choosing schemes. */
static void rates(struct target *t, unsigned cpu)
{
    double lanes = t->vector_bits / 64.0, cycle = 3e9;

    /* assumed for SME: one outer product a cycle, of bytes one in two cycles */
    const double f64 = 64, f32 = 256, i8 = 512;
    double outer = cpu & CPU_sme512 ? 1 : cpu & CPU_sme256 ? 0.25 : 0;

    t->rate[UNIT_f64] = (outer > 0 ? outer * f64 : 2 * lanes) * cycle;
    t->rate[UNIT_f32] = t->rate[UNIT_f16] = t->rate[UNIT_bf16] = t->rate[UNIT_tf32] =
        (outer > 0 ? outer * f32 : 4 * lanes) * cycle;
    t->rate[UNIT_i8] = (outer > 0 ? outer * i8 : bytes_for_a_double(cpu) * lanes) * cycle;
    t->rate[UNIT_exact] = cpu & CPU_avx512 ? 7e8 : cpu & CPU_avx2 ? 3.5e8 : 2e7; /* measured */
    t->rate[UNIT_model] = t->rate[UNIT_f32] / 6;
}

/* Describes an x86-64 CPU to the passes: instruction set, vectors, registers, group of bytes. */
static void describe_x86(struct target *t, unsigned cpu)
{
    strcpy(t->isa, cpu & CPU_amx     ? "amx" :
                   cpu & CPU_vnni    ? "avx512vnni" :
                   cpu & CPU_avx512  ? "avx512" :
                   cpu & CPU_avxvnni ? "avxvnni" :
                                       "avx2");
    t->vector_bits = cpu & CPU_avx512 ? 512 : 256;
    t->registers = cpu & CPU_avx512 ? 32 : 16;
    t->l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32768);
    t->l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 524288);
    t->group = cpu & (cpu & CPU_avx512 ? CPU_vnni : CPU_vnni | CPU_avxvnni) ? 4 : 2;
    t->matrix = cpu & CPU_amx ? 16 : 0;
}

/* Without dot products (SVE has them), bytes are widened to 32 bits and multiplied. */
static void describe_arm(struct target *t, unsigned cpu)
{
    bool sve = cpu & (CPU_sve256 | CPU_sve512);

    strcpy(t->isa, cpu & CPU_sme512  ? "sme512" :
                   cpu & CPU_sme256  ? "sme256" :
                   cpu & CPU_sve512  ? "sve512" :
                   cpu & CPU_sve256  ? "sve256" :
                   cpu & CPU_i8mm    ? "i8mm" :
                   cpu & CPU_dotprod ? "dotprod" :
                                       "neon");
    t->vector_bits = cpu & CPU_sve512 ? 512 : cpu & CPU_sve256 ? 256 : 128;
    t->registers = 32;
    t->l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 65536);
    t->l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1048576);
    t->group = cpu & CPU_i8mm && !(cpu & CPU_sme)   ? 8 :
               sve || cpu & (CPU_dotprod | CPU_sme) ? 4 :
                                                      1;
}

bool limber_llvm_probe(struct target *t, struct diag *d)
{
    unsigned cpu = limber_cpu();

    memset(t, 0, sizeof *t);
#if defined(__aarch64__)
    if (!(cpu & CPU_neon))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "llvm: this CPU lacks floating point and Advanced SIMD");
#else
    if (!(cpu & CPU_avx2))
        return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: this CPU lacks %s of x86-64-v3",
                           limber_x86_lacks());
#endif
    strcpy(t->backend, "llvm");
    for (size_t i = 0; i < COUNT(names); i++)
        if (cpu & names[i].bit) {
            strcat(t->features, t->features[0] ? "," : "");
            strcat(t->features, names[i].name);
        }
    t->cpu = cpu;
    if (cpu & CPU_neon)
        describe_arm(t, cpu);
    else
        describe_x86(t, cpu);
    rates(t, cpu);
    return true;
}
