/* SPDX-License-Identifier: BSD-3-Clause
 * A correctly rounded product on a GPU, with matrices in the GPU's memory and with the caller's
 * stream and workspace.  The CUDA driver is opened at run time, so that this program builds without
 * CUDA.  If there is no GPU, it prints a message. */
#include <limber/environment.h>
#include <limber/limber.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 64, N = 48, K = 96 };

/* Functions of the CUDA driver; their order is that of `name` in open_driver. */
static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuStreamCreate)(void **stream, unsigned flags);
    int (*cuStreamDestroy_v2)(void *stream);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuMemAlloc_v2)(uint64_t *p, size_t bytes);
    int (*cuMemFree_v2)(uint64_t p);
    int (*cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t bytes, void *stream);
} cuda;

/* Opens the driver and makes the primary context of GPU 0 current, which Limber uses, too.
 * Returns 0 on failure. */
static int open_driver(void)
{
    static const char *const name[] = { "cuInit",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuStreamCreate",
                                        "cuStreamDestroy_v2",
                                        "cuStreamSynchronize",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2" };
    /* Limber reads LIMBER_CUDA, too, so both open the same driver. */
    const char *wish = limber_variable_value("LIMBER_CUDA");
    void *library = dlopen(wish ? wish : "libcuda.so.1", RTLD_NOW), **slot = (void **)&cuda;
    void *context;

    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!library || !(slot[i] = dlsym(library, name[i])))
            return 0;
    return cuda.cuInit(0) == 0 && cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
           cuda.cuCtxSetCurrent(context) == 0;
}

static double a[M * K], b[K * N], c[M * N];

/* Fills rows of A with 1e16, small integers and -1e16, and B with ones.  Any rounding of partial
 * sums would make C inexact. */
static void fill_operands(void)
{
    for (int i = 0; i < M; i++)
        for (int p = 0; p < K; p++)
            a[i * K + p] = p == 0 ? 1e16 : p == K - 1 ? -1e16 : i + p;
    for (int e = 0; e < K * N; e++)
        b[e] = 1;
}

/* Returns how many elements of C differ from the exact values. */
static int count_wrong(void)
{
    int wrong = 0;

    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            wrong += c[i * N + j] != (K - 2) * (i + (K - 1) / 2.0);
    return wrong;
}

/* Copies A and B to the GPU, multiplies, and copies C back.  All operations go to the stream
 * asynchronously, and the program waits once, at the end.  at: device addresses of A, B, C and the
 * workspace.  Returns 0 on failure. */
static int multiply(limber_context *ctx, void *stream, uint64_t at[4], size_t workspace)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_CORRECT };
    const limber_queue queue = { .size = sizeof(limber_queue),
                                 .stream = stream,
                                 .workspace = (void *)(uintptr_t)at[3],
                                 .bytes = workspace };
    limber_report report = LIMBER_REPORT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;

    if (cuda.cuMemcpyHtoDAsync_v2(at[0], a, sizeof a, stream) ||
        cuda.cuMemcpyHtoDAsync_v2(at[1], b, sizeof b, stream))
        return 0;
    p.m = M;
    p.n = N;
    p.k = K;
    p.a = (limber_matrix){ (void *)(uintptr_t)at[0], LIMBER_F64, K, 1 };
    p.b = (limber_matrix){ (void *)(uintptr_t)at[1], LIMBER_F64, N, 1 };
    p.c = (limber_output){ (void *)(uintptr_t)at[2], LIMBER_F64, N, 1 };
    p.contract = &contract;
    p.queue = &queue;
    if (limber_run(ctx, &p, &report) != LIMBER_STATUS_OK) {
        fprintf(stderr, "%s\n", limber_error_text());
        return 0;
    }
    printf("%d x %d x %d by %s\n", M, N, K, report.scheme);
    return cuda.cuMemcpyDtoHAsync_v2(c, at[2], sizeof c, stream) == 0 &&
           cuda.cuStreamSynchronize(stream) == 0;
}

int main(void)
{
    const limber_config config = { .size = sizeof(limber_config), .backend = "cuda" };
    const size_t bytes[4] = { sizeof a, sizeof b, sizeof c, (size_t)16 << 20 };
    limber_context *ctx = NULL;
    uint64_t at[4] = { 0 };
    void *stream = NULL;
    limber_status status = limber_create(&ctx, &config);
    int good;

    if (status != LIMBER_STATUS_OK) {
        printf("no GPU here: %s\n", limber_error_text());
        return status != LIMBER_STATUS_DEVICE;
    }
    fill_operands();
    good = open_driver() && cuda.cuStreamCreate(&stream, 1) == 0;
    for (int i = 0; i < 4; i++)
        good = good && cuda.cuMemAlloc_v2(&at[i], bytes[i]) == 0;
    good = good && multiply(ctx, stream, at, bytes[3]);
    printf("%d of %d elements are not exact\n", good ? count_wrong() : M * N, M * N);
    for (int i = 0; i < 4 && at[i]; i++)
        cuda.cuMemFree_v2(at[i]);
    if (stream)
        cuda.cuStreamDestroy_v2(stream);
    limber_destroy(ctx);
    return !good || count_wrong() != 0;
}
