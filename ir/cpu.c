/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the features of this CPU, by CPUID or AArch64's auxiliary vector, never by the model's
 * name.  The vendor matters only where no feature bit tells how fast an instruction is.
 *
 * All features of an x86-64 level are tested: a compiler for a level may use all of its
 * instructions, also those that no source names.  Code for level 3 faults on a CPU with AVX2 but
 * without BMI2.  Without LZCNT it gives wrong results, since the CPU executes BSR.
 *
 *   source  System V ABI, AMD64 supplement, table 3.1 */
#include "ir/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
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

static const struct {
    enum cpu bit;
    const char *name, *words;
} features[] = {
#define ROW(bit, name, words, has) { CPU_##bit, name, words },
    LIMBER_X86_FEATURES(ROW) LIMBER_ARM_FEATURES(ROW)
#undef ROW
};

unsigned limber_cpu_emulated;

static atomic_int limit = 5;

/* This CPU's features.  They are found only once, since each CPUID instruction in a virtual machine
 * traps to the hypervisor, which is slow. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned found;
static bool slow_gathers, wide_reads;
/* names of features that all kernels need and this CPU does not have */
static char lacks[256] = "";

#if defined(__x86_64__)
enum { EAX, EBX, ECX, EDX };

/* A feature of the CPU, and where CPUID reports it: leaf, register and bit. */
struct feature {
    const char *name;
    unsigned leaf, which, bit;
};

/* features that level 3 needs */
static const struct feature third[] = {
    { "SSE3", 1, ECX, 0 },          { "SSSE3", 1, ECX, 9 },          { "CMPXCHG16B", 1, ECX, 13 },
    { "SSE4.1", 1, ECX, 19 },       { "SSE4.2", 1, ECX, 20 },        { "POPCNT", 1, ECX, 23 },
    { "LAHF", 0x80000001, ECX, 0 }, { "AVX", 1, ECX, 28 },           { "AVX2", 7, EBX, 5 },
    { "BMI1", 7, EBX, 3 },          { "BMI2", 7, EBX, 8 },           { "F16C", 1, ECX, 29 },
    { "FMA", 1, ECX, 12 },          { "LZCNT", 0x80000001, ECX, 5 }, { "MOVBE", 1, ECX, 22 },
    { "OSXSAVE", 1, ECX, 27 },
};
/* features that level 4 needs in addition */
static const struct feature fourth[] = {
    { "AVX512F", 7, EBX, 16 },  { "AVX512DQ", 7, EBX, 17 }, { "AVX512CD", 7, EBX, 28 },
    { "AVX512BW", 7, EBX, 30 }, { "AVX512VL", 7, EBX, 31 },
};

/* True if CPUID reports the feature. */
static int has_feature(const struct feature *f)
{
    unsigned v[4] = { 0 };

    __get_cpuid_count(f->leaf, 0, &v[EAX], &v[EBX], &v[ECX], &v[EDX]);
    return v[f->which] >> f->bit & 1;
}

/* Appends a feature to the list of those that are missing. */
static void add_lacking(const char *name)
{
    strcat(lacks, lacks[0] ? ", " : "");
    strcat(lacks, name);
}

/* Reads XCR0, whose bits tell which registers the system saves and restores for threads. */
static uint64_t saved_state(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Returns this CPU's x86-64 level: 3, 4, or 0 with `lacks` set. */
static int find_level(void)
{
    const uint64_t ymm = 6, zmm = 0xe6;
    int level;

    for (size_t i = 0; i < COUNT(third); i++)
        if (!has_feature(&third[i]))
            add_lacking(third[i].name);
    if (!lacks[0] && (saved_state() & ymm) != ymm)
        add_lacking("a system that saves AVX");
    if (lacks[0]) {
        strcat(lacks, " of x86-64-v3");
        return 0;
    }
    level = (saved_state() & zmm) == zmm ? 4 : 3;
    for (size_t i = 0; i < COUNT(fourth); i++)
        if (!has_feature(&fourth[i]))
            level = 3;
    return level;
}

/* Asks Linux to let this process use AMX's tile data.  Returns true if allowed.  Repeating the
 * request is harmless. */
static bool may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const uint64_t tiles = 3 << 17; /* bits of the state components XTILECFG and XTILEDATA */

    return (saved_state() & tiles) == tiles &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Finds this CPU's features; called once. */
static void find_features(void)
{
    /* the first four letters of "AuthenticAMD" and "HygonGenuine" */
    enum { AUTH = 0x68747541, HYGO = 0x6f677948 };
    const int level = find_level();
    unsigned leaf7[2][4] = { 0 }, v[4] = { 0 };

    if (level)
        __get_cpuid_count(7, 0, &leaf7[0][EAX], &leaf7[0][EBX], &leaf7[0][ECX], &leaf7[0][EDX]);
    if (leaf7[0][EAX] >= 1)
        __get_cpuid_count(7, 1, &leaf7[1][EAX], &leaf7[1][EBX], &leaf7[1][ECX], &leaf7[1][EDX]);
#define LEVEL(n) (level >= (n))
#define LEAF7(n, subleaf, which, bit) (level >= (n) && leaf7[subleaf][which] >> (bit) & 1)
#define ADD(bit, name, words, has) found |= (has) ? CPU_##bit : 0;
    LIMBER_X86_FEATURES(ADD)
#undef ADD
#undef LEAF7
#undef LEVEL
    __get_cpuid(0, &v[EAX], &v[EBX], &v[ECX], &v[EDX]);
    /* no CPUID bit tells how fast gathers are, nor (next line) that the CPU is a Zen 5 */
    slow_gathers = v[EBX] == AUTH || v[EBX] == HYGO;
    wide_reads = v[EBX] == AUTH && found & CPU_avx512 && found & CPU_avxvnni;
}

/* Returns the set of features that the process's limit (limber_cpu_set_limit) allows. */
static unsigned allowed_features(void)
{
    const unsigned v3 = CPU_avx2 | CPU_fma | CPU_f16c;
    const int most = atomic_load(&limit);

    return most > 4 ? ~0u : most > 3 ? v3 | CPU_avx512 : v3;
}
#elif defined(__aarch64__)
/* Asks prctl for the length of SVE's or SME's vectors in bits; 0 if there are none.  Threads
 * inherit the length from their process. */
static int vector_bits(int question)
{
    enum { LENGTH = 0xffff }; /* PR_SVE_VL_LEN_MASK, PR_SME_VL_LEN_MASK */
    int answer = prctl(question);

    return answer < 0 ? 0 : 8 * (answer & LENGTH);
}

/* Returns the length of SVE vectors in bits, as the kernel tells. */
static int sve_bits(unsigned long first)
{
    enum { GET_VL = 51 }; /* PR_SVE_GET_VL */

    return first & HWCAP_SVE ? vector_bits(GET_VL) : 0;
}

/* Returns 0 if SME lacks what the micro-kernel needs: outer products of FP64, FP32 and 8-bit
 * integers. */
static int sme_bits(unsigned long second)
{
    enum { GET_VL = 64 }; /* PR_SME_GET_VL */
    /* HWCAP2_SME, _SME_F64F64, _SME_I8I32, _SME_F32F32 */
    const unsigned long needs = 1ul << 23 | 1ul << 25 | 1ul << 26 | 1ul << 29;

    return (second & needs) == needs ? vector_bits(GET_VL) : 0;
}

/* Finds this CPU's features; called once. */
static void find_features(void)
{
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);

    if ((first & (HWCAP_FP | HWCAP_ASIMD)) != (HWCAP_FP | HWCAP_ASIMD)) {
        strcpy(lacks, "floating point and Advanced SIMD");
        return;
    }
#define ADD(bit, name, words, has) found |= (has) ? CPU_##bit : 0;
    LIMBER_ARM_FEATURES(ADD)
#undef ADD
}
#else
/* Finds this CPU's features; called once. */
static void find_features(void)
{
    strcpy(lacks, "an instruction set that Limber has code for");
}
#endif

#if !defined(__x86_64__)
/* Returns the features that the limit allows: all, since only x86-64 has levels. */
static unsigned allowed_features(void)
{
    return ~0u;
}
#endif

/* Limits the features for the process from now on.  5, the default, is no limit; 4 allows x86-64-v4
 * without VNNI and everything newer; 3 allows x86-64-v3. */
void limber_cpu_set_limit(int level)
{
    atomic_store(&limit, level);
}

unsigned limber_cpu_here(void)
{
    pthread_once(&once, find_features);
    return found & allowed_features();
}

unsigned limber_cpu(void)
{
    return limber_cpu_here() | limber_cpu_emulated;
}

/* Returns the names of those features that all kernels need and this CPU lacks; "" if it lacks
 * none. */
const char *limber_cpu_missing(void)
{
    pthread_once(&once, find_features);
    return lacks;
}

/* True if a gather is slower than single loads, as on all AMD CPUs so far. */
bool limber_cpu_gathers_slowly(void)
{
    pthread_once(&once, find_features);
    return slow_gathers;
}

/* True on CPUs that load two 64-byte vectors a cycle from L1 and one from L2 (AMD's Zen 5). */
bool limber_cpu_reads_wide(void)
{
    pthread_once(&once, find_features);
    return wide_reads;
}

/* Returns the features of a target: its set if that is filled, else those that its text names. */
unsigned limber_cpu_of(const struct target *t)
{
    unsigned m = t->cpu;

    for (size_t i = 0; i < COUNT(features) && !t->cpu; i++) {
        size_t n = strlen(features[i].name);

        for (const char *s = t->features; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
            if (strncmp(s, features[i].name, n) == 0 && (s[n] == ',' || s[n] == 0))
                m |= features[i].bit;
    }
    return m;
}

/* Appends the names of the features in a set to the string `to`, separated by commas, as far as
 * they fit `size` bytes. */
void limber_cpu_names(unsigned cpu, char *to, size_t size)
{
    for (size_t i = 0; i < COUNT(features); i++)
        if (cpu & features[i].bit && strlen(to) + strlen(features[i].name) + 2 <= size) {
            strcat(to, to[0] ? "," : "");
            strcat(to, features[i].name);
        }
}

/* Prints LLVM's words for the features in a set, separated by commas. */
void limber_cpu_words(unsigned cpu, struct text *out)
{
    for (size_t i = 0; i < COUNT(features); i++)
        if (cpu & features[i].bit)
            limber_text_add(out, "%s%s", out->n ? "," : "", features[i].words);
}
