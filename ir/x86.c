/* SPDX-License-Identifier: BSD-3-Clause
 * A compiler for an ABI level may use all its instructions, also those that no source names.  Code
 * for level 3 faults on a CPU with AVX2 but without BMI2.  Without LZCNT it gives wrong results,
 * since the CPU executes BSR.
 *
 *   source  System V ABI, AMD64 supplement, table 3.1 */
#include "ir/x86.h"

#include <stdatomic.h>

static atomic_int limit = 5;

void limber_x86_set_limit(int level)
{
    atomic_store(&limit, level);
}

int limber_x86_limit(void)
{
    return atomic_load(&limit);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { EBX = 1, ECX = 2 };

/* A feature of the CPU: leaf and register of CPUID, and the bit. */
struct feature {
    const char *name;
    unsigned leaf, which, bit;
};

static const struct feature third[] = {
    { "SSE3", 1, ECX, 0 },          { "SSSE3", 1, ECX, 9 },          { "CMPXCHG16B", 1, ECX, 13 },
    { "SSE4.1", 1, ECX, 19 },       { "SSE4.2", 1, ECX, 20 },        { "POPCNT", 1, ECX, 23 },
    { "LAHF", 0x80000001, ECX, 0 }, { "AVX", 1, ECX, 28 },           { "AVX2", 7, EBX, 5 },
    { "BMI1", 7, EBX, 3 },          { "BMI2", 7, EBX, 8 },           { "F16C", 1, ECX, 29 },
    { "FMA", 1, ECX, 12 },          { "LZCNT", 0x80000001, ECX, 5 }, { "MOVBE", 1, ECX, 22 },
    { "OSXSAVE", 1, ECX, 27 },
};
static const struct feature fourth[] = {
    { "AVX512F", 7, EBX, 16 },  { "AVX512DQ", 7, EBX, 17 }, { "AVX512CD", 7, EBX, 28 },
    { "AVX512BW", 7, EBX, 30 }, { "AVX512VL", 7, EBX, 31 },
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level;
static char lacks[sizeof third / sizeof *third * 12];

static int has_feature(const struct feature *f)
{
    unsigned v[4] = { 0 };

    __get_cpuid_count(f->leaf, 0, &v[0], &v[1], &v[2], &v[3]);
    return v[f->which] >> f->bit & 1;
}

static void add_lacking(const char *name)
{
    strcat(lacks, lacks[0] ? ", " : "");
    strcat(lacks, name);
}

/* XCR0: the register state that the operating system saves and restores. */
static uint64_t saved_state(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Reads CPUID once in a process, because it traps in a virtual machine. */
static void read_cpuid(void)
{
    const uint64_t ymm = 6, zmm = 0xe6;
    uint64_t saved;

    for (unsigned i = 0; i < sizeof third / sizeof *third; i++)
        if (!has_feature(&third[i]))
            add_lacking(third[i].name);
    if (lacks[0])
        return;
    saved = saved_state();
    if ((saved & ymm) != ymm) {
        add_lacking("a system that saves AVX");
        return;
    }
    level = (saved & zmm) == zmm ? 4 : 3;
    for (unsigned i = 0; i < sizeof fourth / sizeof *fourth; i++)
        if (!has_feature(&fourth[i]))
            level = 3;
}

int limber_x86_found(void)
{
    pthread_once(&once, read_cpuid);
    return level;
}

const char *limber_x86_lacks(void)
{
    pthread_once(&once, read_cpuid);
    return lacks;
}
#else
int limber_x86_found(void)
{
    return 0;
}

const char *limber_x86_lacks(void)
{
    return "";
}
#endif

int limber_x86_level(void)
{
    int found = limber_x86_found(), most = limber_x86_limit();

    return found < most ? found : most;
}
