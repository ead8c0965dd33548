/* SPDX-License-Identifier: BSD-3-Clause
 * Limber embedded in a program.  The program provides the cache directory, the memory allocator and
 * the log, and prints errors itself.  Kernels are compiled in the background, and threads share a
 * context and a prepared matrix.
 *
 *     embed [DIRECTORY]      keeps compiled kernels in DIRECTORY, or in memory only */
#include <limber/limber.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 96, N = 16, K = 200, THREADS = 4 };

/* Counts the lines of the library's log, which several threads may write. */
struct log {
    pthread_mutex_t lock;
    int lines;
};

/* Receives a line of Limber's log.  Several threads may call this at once. */
static void write_line(void *user, const char *line)
{
    struct log *log = user;

    pthread_mutex_lock(&log->lock);
    printf("log: %s\n", line);
    log->lines++;
    pthread_mutex_unlock(&log->lock);
}

/* Counts the memory that the allocator below gives to Limber. */
struct account {
    atomic_size_t taken; /* bytes that were ever allocated */
    atomic_int open;     /* blocks that are not freed yet */
};

/* Allocates memory for Limber.  A program may use its own memory pools here. */
static void *host_alloc(void *user, size_t bytes, size_t alignment)
{
    struct account *a = user;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);

    a->taken += memory ? bytes : 0;
    a->open += memory != NULL;
    return memory;
}

/* Frees memory of host_alloc. */
static void host_free(void *user, void *memory)
{
    struct account *a = user;

    a->open--;
    free(memory);
}

/* A context and the matrix A, which all threads share. */
struct shared {
    limber_context *ctx;
    limber_prepared *operand; /* A, prepared for multiplications */
    limber_matrix a;
    double element[M * K]; /* the elements of A, row-major */
};

/* The multiplication that one thread does: C = A B, with a B and C of its own. */
struct multiplication {
    struct shared *shared;
    limber_on_miss on_miss;
    double b[K * N], c[M * N];
    limber_status status;
    limber_report report;
    /* A copy of the error text, because limber_error_text is available only in the thread of the
     * failed call. */
    char error[256];
};

/* Start function of the threads: computes one product. */
static void *compute_product(void *of)
{
    struct multiplication *j = of;
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_CORRECT,
                                       .on_miss = j->on_miss };
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = M;
    p.n = N;
    p.k = K;
    p.a = j->shared->a;
    p.b = (limber_matrix){ j->b, LIMBER_F64, N, 1 };
    p.c = (limber_output){ j->c, LIMBER_F64, N, 1 };
    p.prepared_a = j->shared->operand;
    p.contract = &contract;
    j->report = (limber_report)LIMBER_REPORT_INIT;
    j->status = limber_run(j->shared->ctx, &p, &j->report);
    if (j->status != LIMBER_STATUS_OK)
        snprintf(j->error, sizeof j->error, "%s", limber_error_text());
    return NULL;
}

/* Sets row i of A to 1e16, i, i, ..., -1e16, and all elements of thread t's B to t + 1.  The
 * exact elements in row i of thread t's C are therefore (K - 2) i (t + 1). */
static void fill_operands(struct shared *s, struct multiplication *product)
{
    for (int i = 0; i < M; i++)
        for (int p = 0; p < K; p++)
            s->element[i * K + p] = p == 0 ? 1e16 : p == K - 1 ? -1e16 : i;
    for (int t = 0; t < THREADS; t++) {
        product[t].shared = s;
        product[t].on_miss = LIMBER_ON_MISS_GENERIC;
        for (int e = 0; e < K * N; e++)
            product[t].b[e] = t + 1;
    }
}

/* Returns how many elements of a thread's C differ from the exact values. */
static int count_wrong(const struct multiplication *j, int t)
{
    int wrong = 0;

    for (int i = 0; i < M; i++)
        for (int e = 0; e < N; e++)
            wrong += j->c[i * N + e] != (double)(K - 2) * i * (t + 1);
    return wrong;
}

/* Prints the outcome of a call.  Returns the number of wrong elements of C, or 1 if it failed. */
static int report_call(const char *of, const struct multiplication *j, int t)
{
    const limber_report *r = &j->report;

    if (j->status != LIMBER_STATUS_OK) {
        printf("%s %d: %s: %s\n", of, t, limber_status_name(j->status), j->error);
        return 1;
    }
    printf("%s %d: %s on %s, %d limb products, bound %g, compiled in %.0f us, run in %.0f us\n", of,
           t, r->scheme, r->backend, r->rows, r->bound, 1e6 * r->seconds_compile,
           1e6 * r->seconds_run);
    return count_wrong(j, t);
}

/* Computes all products on threads, then product 0 once more.  Returns the number of wrong
 * elements, plus the number of failed calls and of threads that did not start. */
static int run_threads(struct multiplication *product)
{
    pthread_t thread[THREADS];
    int started = 0, wrong = 0;

    while (started < THREADS &&
           !pthread_create(&thread[started], NULL, compute_product, &product[started]))
        started++;
    for (int t = 0; t < started; t++)
        pthread_join(thread[t], NULL);
    for (int t = 0; t < started; t++)
        wrong += report_call("thread", &product[t], t);
    /* The kernel may still be compiling in the background.  This call waits until it is ready. */
    product[0].on_miss = LIMBER_ON_MISS_WAIT;
    compute_product(&product[0]);
    return wrong + report_call("again", &product[0], 0) + THREADS - started;
}

/* Makes a request that Limber must refuse: the contract `exact` for a product of doubles.
 * Returns 0 if the call fails and leaves C unchanged. */
static int test_refusal(limber_context *ctx, limber_format f64)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_EXACT };
    double one = 1, c = 5;
    limber_matrix x = { &one, f64, 1, 1 };
    limber_status status = limber_gemm(ctx, &contract, 1, 1, 1, NULL, x, x, NULL,
                                       (limber_output){ &c, f64, 1, 1 }, NULL);

    printf("refused: %s (%s): %s\n", limber_status_name(status), limber_status_meaning(status),
           limber_error_text());
    return status == LIMBER_STATUS_OK || c != 5;
}

/* Prepares A, computes all products and tests a refusal.  Returns the number of failures. */
static int compute(struct shared *s, limber_format f64)
{
    static struct multiplication product[THREADS];
    int bad;

    fill_operands(s, product);
    s->a = (limber_matrix){ s->element, f64, K, 1 };
    if (limber_prepare(s->ctx, s->a, M, K, LIMBER_SIDE_A, NULL, &s->operand) != LIMBER_STATUS_OK) {
        printf("%s\n", limber_error_text());
        return 1;
    }
    bad = run_threads(product) + test_refusal(s->ctx, f64);
    limber_prepared_free(s->operand);
    return bad;
}

int main(int argc, char **argv)
{
    static struct shared shared;
    static limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    struct log log = { PTHREAD_MUTEX_INITIALIZER, 0 };
    static struct account account;
    const limber_config config = { .size = sizeof(limber_config),
                                   .cache_dir = argc > 1 ? argv[1] : "",
                                   .verbose = 1,
                                   .log = write_line,
                                   .log_user = &log,
                                   .allocator = { host_alloc, host_free, &account } };
    limber_format f64 = LIMBER_F64;
    int bad;

    if (limber_create(&shared.ctx, &config) != LIMBER_STATUS_OK) {
        printf("%s\n", limber_error_text());
        return 1;
    }
    bad = compute(&shared, f64);
    if (limber_cache_describe(shared.ctx, &info) == LIMBER_STATUS_OK)
        printf("kernels on disk: %zu; directory: %s\n", info.entries,
               info.directory[0] ? info.directory : info.why_not);
    limber_destroy(shared.ctx);
    pthread_mutex_destroy(&log.lock);
    printf("memory from the program: %zu bytes, not given back: %d\n", (size_t)account.taken,
           account.open);
    printf("%d lines in the log; elements or calls that are wrong: %d\n", log.lines, bad);
    return bad != 0 || log.lines == 0 || account.open != 0;
}
