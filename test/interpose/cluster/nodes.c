/* SPDX-License-Identifier: BSD-3-Clause
 * Two kinds of nodes share one cache: this machine, and one that reports older CPU features.  Each
 * must compile its own kernel once and never load the other's, and both results must be right. */
#include "backends/backend.h"
#include "ir/cpu.h"
#include "jit/api/api.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 70 };

extern const struct backend limber_backend_llvm;
/* The older machine: a CPU with AVX2. */
static const char old_target[] =
    "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 "
    "l2=262144 group=2 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=8e10 rate.exact=1e8 "
    "rate.model=1e10";

static int failures;

/* Describes the older of the two machines. */
static bool probe_old(struct target *t, struct diag *d)
{
    return limber_target_parse(t, old_target, d);
}

/* Multiplies in a new context, as on a node that has just started.  Returns 0 if the call or the
 * result is wrong, else 1 + the kernel's origin.  *r: the report. */
static int first_product(const char *dir, bool old, limber_report *r)
{
    static double a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    struct backend node = limber_backend_llvm;
    const struct backend *const list[] = { &node, NULL };
    limber_context *ctx;
    limber_format f64;
    struct diag d = { 0 };

    if (old)
        node.probe = probe_old;
    limber_format_named("f64", &f64);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            a[i][j] = (i * 31 + j * 17) % 1009 - 500;
            b[i][j] = (i * 29 + j * 13) % 1013 - 500;
        }
    if (!limber_context_make(
            &ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = dir, .threads = 1 },
            list, &d) ||
        limber_gemm(ctx, &correct, SIZE, SIZE, SIZE, NULL, (limber_matrix){ a, f64, SIZE, 1 },
                    (limber_matrix){ b, f64, SIZE, 1 }, NULL, (limber_output){ c, f64, SIZE, 1 },
                    r)) {
        printf("%s%s\n", d.text, limber_error_text());
        limber_destroy(ctx);
        return 0;
    }
    limber_destroy(ctx);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            int64_t sum = 0;

            for (int k = 0; k < SIZE; k++)
                sum += (int64_t)a[i][k] * (int64_t)b[k][j];
            if (c[i][j] != (double)sum) {
                printf("element %d, %d is wrong\n", i, j);
                return 0;
            }
        }
    return 1 + r->from;
}

/* Checks where the kernel of a node's first product comes from. old: the node has an older CPU.
 * from: 0 if the kernel must be compiled, 1 if it is read from disk, 2 if it is in memory.  *r:
 * the report. */
static void expect_origin(const char *dir, bool old, int from, limber_report *r)
{
    static const char *const name[] = { "compiled", "from disk", "from memory" };
    int got = first_product(dir, old, r);

    printf("%s node: %s, kernel %.8s\n", old ? "old" : "this", got ? name[got - 1] : "failed",
           r->kernel);
    if (got != 1 + from) {
        printf("FAILED: it should have been %s\n", name[from]);
        failures++;
    }
}

int main(int argc, char **argv)
{
    const unsigned needed = CPU_avx2 | CPU_fma;
    limber_report mine = LIMBER_REPORT_INIT, others = LIMBER_REPORT_INIT;

    if (argc != 2) {
        fprintf(stderr, "usage: nodes CACHE\n");
        return 2;
    }
    if ((limber_cpu() & needed) != needed) {
        printf("SKIPPED: this CPU has no AVX2\n");
        return 77;
    }
    for (int from = 0; from < 2; from++) {
        expect_origin(argv[1], false, from, &mine);
        expect_origin(argv[1], true, from, &others);
    }
    if (strcmp(mine.kernel, others.kernel) == 0) {
        printf("FAILED: both have one key\n");
        failures++;
    }
    return failures != 0;
}
