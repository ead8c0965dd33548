/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units of Intel with the instructions: VDPBF16PS, TDPBF16PS and TDPFP16PS.
 * Each is skipped if this CPU, its operating system or the compiler lacks it. */
#define _GNU_SOURCE
#include "engine_support.h"
#include "support.h"
#include "contexts.h"
#include "unit_backends.h"
#include "unit_instructions.h"

#include <math.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { M = 16, N = 16, K = 32 };

/* The operands A, B and C, and the results in `want`. */
struct unit_products {
    /* pairs: b in the layout that the instructions read */
    uint16_t a[M][K], b[K][N], pairs[K / 2][N][2];
    float c[M][N], want[M][N];
};

#if defined(__x86_64__)
/* Draws operands, also in the layout of pairs that the instructions read. */
static void draw_operands(struct rng *r, int kind, bool half, struct unit_products *x)
{
    for (int p = 0; p < K; p++) {
        for (int i = 0; i < M; i++)
            x->a[i][p] = any_code(r, kind, half);
        for (int j = 0; j < N; j++)
            x->pairs[p / 2][j][p % 2] = x->b[p][j] = any_code(r, kind, half);
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            x->c[i][j] = any_start(r, kind);
}

/* Compares the results of an instruction on random data with those of the unit that simulates
 * it. */
static void compare_with_instruction(const char *name, const char *format,
                                     void (*execute)(struct unit_products *))
{
    struct unit_products *x = calloc(1, sizeof *x);
    struct rng r = { 23 };

    for (int turn = 0; turn < 20 * CODE_KINDS; turn++) {
        draw_operands(&r, turn % CODE_KINDS, !strcmp(format, "f16"), x);
        memcpy(x->want, x->c, sizeof x->c);
        execute(x);
        compare_with_unit(&(struct executed){
            .instruction = name,
            .unit = name,
            .kind = turn % CODE_KINDS,
            .m = M,
            .n = N,
            .k = K,
            .a = { x->a, named(format), K, 1 },
            .b = { x->b, named(format), N, 1 },
            .c = x->c[0],
            .want = x->want[0],
        });
    }
    free(x);
}

/* True if a bit of a register of CPUID's leaf 7 is set.  which: 0 to 3 for EAX to EDX. */
static bool has_cpuid_bit(unsigned subleaf, int which, int bit)
{
    unsigned v[4] = { 0 };

    return __get_cpuid_count(7, subleaf, &v[0], &v[1], &v[2], &v[3]) && v[which] >> bit & 1;
}

__attribute__((target("avx512f,avx512bf16"))) static void vdpbf16ps(struct unit_products *x)
{
    for (int i = 0; i < M; i++) {
        __m512 c = _mm512_loadu_ps(x->want[i]);

        for (int p = 0; p < K / 2; p++) {
            int pair;

            memcpy(&pair, &x->a[i][2 * p], sizeof pair);
            c = _mm512_dpbf16_ps(c, (__m512bh)_mm512_set1_epi32(pair),
                                 (__m512bh)_mm512_loadu_si512(x->pairs[p]));
        }
        _mm512_storeu_ps(x->want[i], c);
    }
}
#endif

/* The unit that simulates AVX512-BF16 gives the bits of this CPU's instruction. */
static void avx512_bf16(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (has_cpuid_bit(1, 0, 5) && __builtin_cpu_supports("avx512f")) {
        compare_with_instruction("avx512-bf16", "bf16", vdpbf16ps);
        return;
    }
#endif
    skip_because("this CPU has no AVX512-BF16");
}

#if defined(__x86_64__)
/* The arguments of arch_prctl that ask Linux for the use of AMX's tiles. */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

/* Three AMX tiles of 16 rows of 64 bytes: c, a, pairs.  The products are tmm0 += tmm1 tmm2, written
 * as bytes, because older assemblers do not know all of them. */
#define TDPBF16PS ".byte 0xc4, 0xe2, 0x6a, 0x5c, 0xc1\n"
#define TDPFP16PS ".byte 0xc4, 0xe2, 0x6b, 0x5c, 0xc1\n"
/* Loads the tiles of x, executes one product of tiles, and stores the sums in x->want. */
#define EXECUTE(x, product) \
    __asm__ volatile("ldtilecfg %0\n" \
                     "tileloadd (%1, %4), %%tmm0\n" \
                     "tileloadd (%2, %4), %%tmm1\n" \
                     "tileloadd (%3, %4), %%tmm2\n" product "tilestored %%tmm0, (%1, %4)\n" \
                     "tilerelease" \
                     : \
                     : "m"(tiles), "r"((x)->want), "r"((x)->a), "r"((x)->pairs), "r"((int64_t)64) \
                     : "memory")

/* AMX's configuration of tiles. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tiles = { .palette = 1, .bytes = { 64, 64, 64 }, .rows = { 16, 16, 16 } };

static void tdpbf16ps(struct unit_products *x)
{
    EXECUTE(x, TDPBF16PS);
}

static void tdpfp16ps(struct unit_products *x)
{
    EXECUTE(x, TDPFP16PS);
}

/* Requests permission to use AMX tiles from Linux. */
static bool request_tiles(void)
{
    return has_cpuid_bit(0, 3, 24) && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}
#endif

/* The unit that simulates AMX-BF16 gives the bits of this CPU's instruction. */
static void amx_bf16(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (has_cpuid_bit(0, 3, 22) && request_tiles()) {
        compare_with_instruction("amx-bf16", "bf16", tdpbf16ps);
        return;
    }
#endif
    skip_because("this CPU has no AMX-BF16");
}

/* The unit that simulates AMX-FP16 gives the bits of this CPU's instruction. */
static void amx_fp16(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (has_cpuid_bit(1, 0, 21) && request_tiles()) {
        compare_with_instruction("amx-fp16", "f16", tdpfp16ps);
        return;
    }
#endif
    skip_because("this CPU has no AMX-FP16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx512_bf16),
        cmocka_unit_test(amx_bf16),
        cmocka_unit_test(amx_fp16),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
