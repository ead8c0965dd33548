/* SPDX-License-Identifier: BSD-3-Clause
 * Peak rates of the hardware: loops on registers only, and reading memory. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* True if the CPU has AMX-INT8 and Linux permits this process to use the tile registers. */
static bool has_amx(void)
{
    enum { REQUEST = 0x1023, TILES = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 25 & 1 &&
           syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
}
#endif

/* Returns whether the CPU has a feature, and whether this process may use it. */
bool cpu_has(const char *feature)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strcmp(feature, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!strcmp(feature, "vnni"))
        return cpu_has("avx512") && __builtin_cpu_supports("avx512vnni");
    if (!strcmp(feature, "avxvnni"))
        return __builtin_cpu_supports("avxvnni");
    if (!strcmp(feature, "amx"))
        return has_amx();
    if (!strcmp(feature, "avx2"))
        return __builtin_cpu_supports("avx2");
    if (!strcmp(feature, "fma"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    (void)feature;
    return false;
}

enum { BUFFER = 256 << 20 };

/* A loop that repeats one instruction, or loads.  One round of it executes `each` units of work:
 * multiply-adds, operations or bytes. */
struct loop {
    const char *what, *feature, *unit;
    void (*run)(long rounds, const char *buffer);
    long rounds;
    double each;
    bool int8;
};

#if defined(__x86_64__)

/* clang-format off */
#define TIMES24(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23)
/* clang-format on */
#define TIMES12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define LOW \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

/* Zeroes a register, because stale subnormals would slow some CPUs down.  Registers 16 to 31 are
 * not in the clobber list, since compilers accept them only for AVX-512 targets; none is live
 * across a call. */
#define ZERO_Z(r) "vpxorq %%zmm" #r ", %%zmm" #r ", %%zmm" #r "\n"
#define ZERO_Y(r) "vpxor %%ymm" #r ", %%ymm" #r ", %%ymm" #r "\n"
/* Define a function that runs the instructions X n times, after it has cleared the registers. */
#define WIDE(name, X) \
    static __attribute__((noinline)) void name(long n, const char *buffer) \
    { \
        (void)buffer; \
        __asm__ volatile(TIMES24(ZERO_Z) ZERO_Z(30) \
                             ZERO_Z(31) "1:\n" TIMES24(X) "dec %0\njnz 1b\nvzeroupper" \
                         : "+r"(n) \
                         : \
                         : LOW); \
    }
#define NARROW(name, X) \
    static __attribute__((noinline)) void name(long n, const char *buffer) \
    { \
        (void)buffer; \
        __asm__ volatile(TIMES12(ZERO_Y) ZERO_Y(14) \
                             ZERO_Y(15) "1:\n" TIMES12(X) "dec %0\njnz 1b\nvzeroupper" \
                         : "+r"(n) \
                         : \
                         : LOW); \
    }

#define DOT_Z(r) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #r "\n"
#define DOT_Y(r) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #r "\n"
#define MADD_Z(r) "vpmaddwd %%zmm30, %%zmm31, %%zmm29\nvpaddd %%zmm29, %%zmm" #r ", %%zmm" #r "\n"
#define MADD_Y(r) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\nvpaddd %%ymm13, %%ymm" #r ", %%ymm" #r "\n"
#define PD_Z(r) "vfmadd231pd %%zmm30, %%zmm31, %%zmm" #r "\n"
#define PD_Y(r) "vfmadd231pd %%ymm14, %%ymm15, %%ymm" #r "\n"
#define PS_Z(r) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #r "\n"
#define PS_Y(r) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #r "\n"
WIDE(dot_z, DOT_Z)
NARROW(dot_y, DOT_Y)
WIDE(madd_z, MADD_Z)
NARROW(madd_y, MADD_Y)
WIDE(pd_z, PD_Z)
NARROW(pd_y, PD_Y)
WIDE(ps_z, PS_Z)
NARROW(ps_y, PS_Y)

/* Runs rounds of four AMX tile products of nonzero bytes, without loads. */
static __attribute__((noinline)) void run_amx(long n, const char *buffer)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    uint8_t some[1024];

    (void)buffer;
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    for (int i = 0; i < 1024; i++)
        some[i] = (uint8_t)(i * 2654435761u >> 13);
    __asm__ volatile("ldtilecfg %1\ntilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\n"
                     "tilezero %%tmm3\ntileloadd (%2,%3,1), %%tmm4\n"
                     "tileloadd (%2,%3,1), %%tmm5\ntileloadd (%2,%3,1), %%tmm6\n"
                     "tileloadd (%2,%3,1), %%tmm7\n1:\n"
                     "tdpbusd %%tmm6, %%tmm4, %%tmm0\ntdpbusd %%tmm7, %%tmm4, %%tmm1\n"
                     "tdpbusd %%tmm6, %%tmm5, %%tmm2\ntdpbusd %%tmm7, %%tmm5, %%tmm3\n"
                     "dec %0\njnz 1b\ntilerelease"
                     : "+r"(n)
                     : "m"(config), "r"(some), "r"(64L)
                     : "memory", "cc");
}

/* A round of the read loops reads 512 bytes. */
#define LOAD_Z(r) "vmovdqu64 64*" #r "(%1), %%zmm" #r "\n"
#define LOAD_Y(r) "vmovdqu 32*" #r "(%1), %%ymm" #r "\n"
/* Reads n times 512 bytes with AVX-512. */
static __attribute__((noinline)) void read_z(long n, const char *p)
{
    __asm__ volatile("1:\n" LOAD_Z(0) LOAD_Z(1) LOAD_Z(2) LOAD_Z(3) LOAD_Z(4) LOAD_Z(5) LOAD_Z(6)
                         LOAD_Z(7) "add $512, %1\ndec %0\njnz 1b\nvzeroupper"
                     : "+r"(n), "+r"(p)
                     :
                     : "memory", LOW);
}

/* Reads n times 512 bytes with AVX2. */
static __attribute__((noinline)) void read_y(long n, const char *p)
{
    __asm__ volatile("1:\n" LOAD_Y(0) LOAD_Y(1) LOAD_Y(2) LOAD_Y(3) LOAD_Y(4) LOAD_Y(5) LOAD_Y(6)
                         LOAD_Y(7) LOAD_Y(8) LOAD_Y(9) LOAD_Y(10) LOAD_Y(11) LOAD_Y(12) LOAD_Y(13)
                             LOAD_Y(14) LOAD_Y(15) "add $512, %1\ndec %0\njnz 1b\nvzeroupper"
                     : "+r"(n), "+r"(p)
                     :
                     : "memory", LOW);
}

static const struct loop loops[] = {
    { "INT8, tdpbusd", "amx", "GMAC/s", run_amx, 100000, 4 * 16384, true },
    { "INT8, vpdpbusd zmm", "vnni", "GMAC/s", dot_z, 1000000, 24 * 64, true },
    { "INT8, vpdpbusd ymm (AVX-VNNI)", "avxvnni", "GMAC/s", dot_y, 2000000, 12 * 32, true },
    { "INT8, vpmaddwd + vpaddd zmm", "avx512", "GMAC/s", madd_z, 500000, 24 * 32, true },
    { "INT8, vpmaddwd + vpaddd ymm", "avx2", "GMAC/s", madd_y, 1000000, 12 * 16, true },
    { "FP64, fused multiply-add zmm", "avx512", "GFLOPS", pd_z, 1000000, 24 * 16, false },
    { "FP64, fused multiply-add ymm", "fma", "GFLOPS", pd_y, 2000000, 12 * 8, false },
    { "FP32, fused multiply-add zmm", "avx512", "GFLOPS", ps_z, 1000000, 24 * 32, false },
    { "FP32, fused multiply-add ymm", "fma", "GFLOPS", ps_y, 2000000, 12 * 16, false },
    { "reading 256 MiB, zmm", "avx512", "GB/s", read_z, BUFFER / 512, 512, false },
    { "reading 256 MiB, ymm", "avx2", "GB/s", read_y, BUFFER / 512, 512, false },
};
enum { LOOPS = sizeof loops / sizeof *loops };

#else

static const struct loop loops[1];
enum { LOOPS = 0 };

#endif

/* A thread that runs a loop, and the time of its run. */
struct worker {
    pthread_t thread;
    /* 0 if the thread has to wait, 1 if it may run, 2 if it has to return without running */
    atomic_int *go;
    const struct loop *loop;
    const char *from;
    char *buffer; /* owned; NULL if the caller's memory is read */
    long rounds;
    double begin, end;
};

/* Thread: waits for the start, then runs its loop. */
static void *run_worker(void *argument)
{
    struct worker *w = argument;

    while (!atomic_load(w->go))
        sched_yield();
    w->begin = now();
    if (atomic_load(w->go) == 1)
        w->loop->run(w->rounds, w->from);
    w->end = now();
    return NULL;
}

/* Seconds from the first start of a thread to the last end. */
static double elapsed(const struct worker *w, int threads)
{
    double begin = w->begin, end = w->end;

    for (int i = 1; i < threads; i++) {
        begin = w[i].begin < begin ? w[i].begin : begin;
        end = w[i].end > end ? w[i].end : end;
    }
    return end - begin;
}

/* Runs `rounds` of the loop on each thread, the caller among them.  Returns the seconds, or 0 if
 * threads could not be created. */
static double run_all(const struct loop *l, struct worker *w, int threads)
{
    atomic_int go = 0;
    int made = 1;

    for (int i = 0; i < threads; i++) {
        w[i].loop = l;
        w[i].go = &go;
    }
    while (made < threads && !pthread_create(&w[made].thread, NULL, run_worker, &w[made]))
        made++;
    atomic_store(&go, made < threads ? 2 : 1);
    run_worker(w);
    for (int i = 1; i < made; i++)
        pthread_join(w[i].thread, NULL);
    return made < threads ? 0 : elapsed(w, threads);
}

/* Returns the best rate of 25 runs (5 if memory is read): a limit is a maximum, which disturbances
 * only lower. */
static double best_rate(const struct loop *l, int threads)
{
    bool memory = !strcmp(l->unit, "GB/s");
    struct worker *w = calloc((size_t)threads, sizeof *w);
    double best = 0;
    bool ok = w != NULL;

    for (int i = 0; ok && memory && i < threads; i++) {
        w[i].buffer = malloc(BUFFER);
        w[i].from = w[i].buffer;
        ok = w[i].buffer != NULL;
        if (ok)
            memset(w[i].buffer, 1, BUFFER);
    }
    for (int i = 0; ok && i < threads; i++)
        w[i].rounds = l->rounds;
    for (int i = 0; ok && i < (memory ? 5 : 25); i++) {
        double seconds = run_all(l, w, threads);
        double r = seconds > 0 ? threads * (double)l->rounds * l->each / seconds : 0;

        best = r > best ? r : best;
    }
    for (int i = 0; w && i < threads; i++)
        free(w[i].buffer);
    free(w);
    return best;
}

/* Measures the peak rate of each loop that this CPU can run.  Returns the number of rates in
 * `list`. */
int limits_measure(int threads, struct limit *list)
{
    int count = 0;

    for (int i = 0; i < LOOPS && count < MOST_LIMITS; i++) {
        const struct loop *l = &loops[i];

        if (!cpu_has(l->feature))
            continue;
        list[count++] = (struct limit){ l->what, l->unit, best_rate(l, threads), l->int8 };
    }
    return count;
}

/* Returns the seconds in which all threads together read the buffer once, each thread a part of
 * it. */
double limits_read(int threads, const void *buffer, size_t bytes)
{
    struct worker *w = calloc((size_t)threads, sizeof *w);
    size_t each = bytes / (size_t)threads / 512 * 512;
    const struct loop *l = NULL;
    double seconds = 0;

    for (int i = 0; i < LOOPS && !l; i++)
        if (!strcmp(loops[i].unit, "GB/s") && cpu_has(loops[i].feature))
            l = &loops[i];
    for (int i = 0; w && i < threads; i++) {
        w[i].from = (const char *)buffer + (size_t)i * each;
        w[i].rounds = (long)(each / 512);
    }
    if (w && l && each)
        seconds = run_all(l, w, threads);
    free(w);
    return seconds;
}

/* Returns the largest rate of INT8 multiply-adds of all instructions that the CPU has, and the
 * instruction's name. */
double limits_int8(int threads, const char **instruction)
{
    double best = 0;

    *instruction = "none";
    for (int i = 0; i < LOOPS; i++) {
        double r;

        if (!loops[i].int8 || !cpu_has(loops[i].feature))
            continue;
        r = best_rate(&loops[i], threads);
        if (r > best) {
            best = r;
            *instruction = loops[i].what;
        }
    }
    return best;
}
