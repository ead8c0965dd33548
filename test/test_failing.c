/* SPDX-License-Identifier: BSD-3-Clause
 * Allocations that fail: for every public call, on every backend, the first, the second, ... up to the last
 * one it makes.  The call then gives the bits it gives with memory, or NO_MEMORY with C as it was; nothing
 * is leaked.  Memory is that of the library's own calls of malloc and its like (wrapped by the linker, so
 * that other libraries' are not touched) and that of a host's allocator. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#include "jit/engine.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory that fails, and what is not given back ------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
char *__real_strdup(const char *s);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
char *__wrap_strdup(const char *s);
void __wrap_free(void *p);

enum { LIVE = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[LIVE];        /* open addressing; a block that went leaves a mark */
static char gone;
static long count, fails_at;    /* takes since armed; the one that fails, 0: none */
static bool armed;

static size_t place_of(const void *p)
{
    size_t at = (uintptr_t)p / 16 * 0x9e3779b97f4a7c15u % LIVE;

    while (live[at] && live[at] != p)
        at = (at + 1) % LIVE;
    return at;
}

static bool refused(void)
{
    bool now = false;

    pthread_mutex_lock(&lock);
    if (armed)
        now = ++count == fails_at;
    pthread_mutex_unlock(&lock);
    return now;
}

static void *born(void *p)
{
    pthread_mutex_lock(&lock);
    if (p && armed)
        live[place_of(p)] = p;
    pthread_mutex_unlock(&lock);
    return p;
}

static void dies(void *p)
{
    pthread_mutex_lock(&lock);
    if (p && live[place_of(p)] == p)
        live[place_of(p)] = &gone;
    pthread_mutex_unlock(&lock);
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : born(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refused() ? NULL : born(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    void *q;

    if (refused())
        return NULL;
    dies(p);
    q = __real_realloc(p, size);
    return born(q);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return refused() ? NULL : born(__real_aligned_alloc(align, size));
}

char *__wrap_strdup(const char *s)
{
    return refused() ? NULL : born(__real_strdup(s));
}

void __wrap_free(void *p)
{
    dies(p);
    __real_free(p);
}

static void arm(long at)
{
    pthread_mutex_lock(&lock);
    memset(live, 0, sizeof live);
    count = 0;
    fails_at = at;
    armed = true;
    pthread_mutex_unlock(&lock);
}

/* Takes that there were. */
static long disarm(void)
{
    pthread_mutex_lock(&lock);
    armed = false;
    pthread_mutex_unlock(&lock);
    return count;
}

static int still_alive(void)
{
    int n = 0;

    for (size_t i = 0; i < LIVE; i++)
        n += live[i] && live[i] != &gone;
    return n;
}

/* The host's allocator; its own blocks come from beside the counted ones. */
static long takes, takes_fail_at, out;

static void *take(void *user, size_t bytes, size_t align)
{
    (void)user;
    if (__atomic_add_fetch(&takes, 1, __ATOMIC_SEQ_CST) == takes_fail_at)
        return NULL;
    __atomic_add_fetch(&out, 1, __ATOMIC_SEQ_CST);
    align = align < 16 ? 16 : align;
    return __real_aligned_alloc(align, (bytes + align) / align * align);
}

static void give(void *user, void *p)
{
    (void)user;
    __atomic_sub_fetch(&out, 1, __ATOMIC_SEQ_CST);
    __real_free(p);
}

/* ---- the calls ------------------------------------------------------------------------------- */

enum { N = 24, ROWS = 160, LONG = 512, ALL = ROWS * ROWS };

static double a[ALL], b[ALL], c[2 * ALL], before[2 * ALL], want[2 * ALL];
static double tiles[ALL];       /* of bytes, and of others */
static int8_t bytes_a[ALL], bytes_b[ALL];
static limber_format f64, f32, i8, i32;

static limber_matrix matrix(const void *p, limber_format f, int64_t row)
{
    return (limber_matrix){ (void *)(uintptr_t)p, f, row, 1 };
}

static limber_status product(limber_context *ctx, const limber_contract *contract, const double *left,
                             int m, int n, int k)
{
    const double alpha = 0.75, beta = 0.5;
    limber_report r;
    limber_status s = limber_gemm(ctx, contract, m, n, k, &alpha, matrix(left, f64, k), matrix(b, f64, n),
                                  &beta, matrix(c, f64, n), &r);

    assert_true(s != LIMBER_OK || left != tiles || r.parts > 1);
    return s;
}

static limber_status gemm(limber_context *ctx, const limber_contract *k, const double *left)
{
    return product(ctx, k, left, N, N, N);
}

static limber_status native(limber_context *ctx)
{
    return gemm(ctx, &(limber_contract){ .promise = LIMBER_NATIVE }, a);
}

static limber_status bits(limber_context *ctx)
{
    return gemm(ctx, &(limber_contract){ .promise = LIMBER_BITS, .bits = 40 }, a);
}

static limber_status correct(limber_context *ctx)
{
    return gemm(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, a);
}

static limber_status mixed(limber_context *ctx)
{
    return product(ctx, &(limber_contract){ .promise = LIMBER_NATIVE, .scheme = "ozaki2+native" }, tiles,
                   N, N, LONG);
}

static limber_status in_parts(limber_context *ctx)
{
    return product(ctx, &(limber_contract){ .promise = LIMBER_BITS, .bits = 90 }, a, ROWS, ROWS, N);
}

static limber_status meanwhile(limber_context *ctx)
{
    return gemm(ctx, &(limber_contract){ .promise = LIMBER_CORRECT,
                                         .meanwhile = LIMBER_MEANWHILE_GENERIC }, a);
}

static limber_status integers(limber_context *ctx)
{
    return limber_gemm(ctx, &(limber_contract){ .promise = LIMBER_EXACT }, N, N, N, NULL,
                       matrix(bytes_a, i8, N), matrix(bytes_b, i8, N), NULL,
                       matrix(c, i32, N), NULL);
}

static limber_status out_of_range(limber_context *ctx)
{
    limber_status s = limber_gemm(ctx, &(limber_contract){ .promise = LIMBER_EXACT }, N, N, N, NULL,
                                  matrix(bytes_a, i8, N), matrix(bytes_b, i8, N), NULL,
                                  matrix(c, i8, N), NULL);

    return s == LIMBER_RANGE && memcmp(c, before, sizeof c) == 0 ? LIMBER_OK : s;
}

static limber_status simulated(limber_context *ctx, limber_statistics *s)
{
    limber_unit u;
    limber_status read = limber_unit_parse("in=e5m2 mul=e5m2:rn acc=(1,8,7):rn", &u);

    return read ? read : gemm(ctx, &(limber_contract){ .promise = LIMBER_SIMULATE, .unit = &u, .statistics = s }, a);
}

static limber_status simulate(limber_context *ctx)
{
    return simulated(ctx, NULL);
}

static limber_status statistics(limber_context *ctx)
{
    limber_statistics s = { .compare = 1 };

    return simulated(ctx, &s);
}

static limber_status batch_of(limber_context *ctx, const limber_contract *k, const void *left,
                              const void *right, limber_format from, limber_format to)
{
    enum { COUNT_OF = 12, SIDE = 24, STEP = SIDE * SIDE };
    const limber_batch t = { .count = COUNT_OF, .a = STEP, .b = STEP, .c = STEP };

    return limber_gemm_batch(ctx, k, NULL, &t, SIDE, SIDE, SIDE, NULL, matrix(left, from, SIDE),
                             matrix(right, from, SIDE), NULL, matrix(c, to, SIDE), NULL);
}

static limber_status batch(limber_context *ctx)
{
    return batch_of(ctx, &(limber_contract){ .promise = LIMBER_NATIVE }, a, b, f64, f64);
}

static limber_status batch_correct(limber_context *ctx)
{
    return batch_of(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, a, b, f64, f64);
}

static limber_status batch_integers(limber_context *ctx)
{
    return batch_of(ctx, &(limber_contract){ .promise = LIMBER_EXACT }, bytes_a, bytes_b, i8, i32);
}

static limber_status complex_of(limber_context *ctx, limber_promise promise, int products)
{
    enum { SIDE = 40 };
    const double alpha[2] = { 1.5, -0.25 }, beta[2] = { 0, 2 };
    const limber_contract k = { .promise = promise, .scheme = promise == LIMBER_FAST ? "native" : NULL };
    limber_report r;

    return limber_gemm_complex(ctx, &k, NULL, SIDE, SIDE, SIDE, alpha, matrix(a, f64, SIDE), 1,
                               matrix(b, f64, SIDE), 0, beta, matrix(c, f64, SIDE), &r, products);
}

static limber_status complex_four(limber_context *ctx)
{
    return complex_of(ctx, LIMBER_CORRECT, 4);
}

static limber_status complex_three(limber_context *ctx)
{
    return complex_of(ctx, LIMBER_FAST, 3);
}

static const limber_conv window = { .n = 2, .c = 8, .h = 9, .w = 9, .o = 6, .r = 3, .s = 3,
                                    .stride = { 1, 1 }, .pad = { 1, 1, 1, 1 }, .dilate = { 1, 1 },
                                    .groups = 2 };

static limber_status conv(limber_context *ctx)
{
    return limber_conv2d(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, &window, NULL, a, f64, b, f64,
                         NULL, c, f64, NULL);
}

static limber_status prepared(limber_context *ctx)
{
    limber_operand *left = NULL;
    limber_status s = limber_operand_prepare(ctx, matrix(a, f64, N), N, N, 1, NULL, &left);
    const limber_contract k = { .promise = LIMBER_CORRECT };

    if (s == LIMBER_OK)
        s = limber_gemm_prepared(ctx, &k, N, N, N, NULL, left, matrix(a, f64, N), NULL, matrix(b, f64, N),
                                 NULL, matrix(c, f64, N), NULL);
    limber_operand_free(left);
    return s;
}

/* A text, freed; it is NULL after a failure. */
static limber_status told(limber_status s, char *text)
{
    assert_true(s == LIMBER_OK ? text != NULL : text == NULL);
    limber_free(text);
    return s;
}

static limber_status plan(limber_context *ctx)
{
    const limber_contract k = { .promise = LIMBER_NATIVE, .scheme = "ozaki2+native" };
    char *text = NULL;
    limber_status s = limber_gemm_plan(ctx, &k, N, N, LONG, NULL, matrix(tiles, f64, LONG),
                                       matrix(b, f64, N), NULL, matrix(c, f64, N), &text, NULL);

    return told(s, text);
}

static limber_status conv_plan(limber_context *ctx)
{
    char *text = NULL;
    limber_status s = limber_conv2d_plan(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, &window, NULL,
                                         a, f64, b, f64, NULL, f64, &text, NULL);

    return told(s, text);
}

static limber_status cut(limber_context *ctx)
{
    const limber_contract k = { .promise = LIMBER_NATIVE, .scheme = "ozaki2+native" };
    limber_cut x;
    limber_status s = limber_gemm_cut(ctx, &k, N, N, LONG, NULL, matrix(tiles, f64, LONG),
                                      matrix(b, f64, N), NULL, matrix(c, f64, N), &x, NULL);

    limber_cut_free(&x);
    return s;
}

static limber_status look(limber_context *ctx)
{
    limber_look x;
    limber_status s = limber_look_at(ctx, matrix(tiles, f64, LONG), N, LONG, 1, &x);

    if (s == LIMBER_OK)
        limber_look_free(&x);
    return s;
}

static limber_status workspace(limber_context *ctx)
{
    size_t least, best;

    return limber_gemm_workspace(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, N, N, N, NULL,
                                 matrix(a, f64, N), matrix(b, f64, N), NULL, matrix(c, f64, N), &least, &best);
}

static limber_status again(limber_context *ctx)
{
    limber_report r = { .rows = 0 };
    char *text = NULL;
    limber_status s = limber_gemm(ctx, &(limber_contract){ .promise = LIMBER_CORRECT }, 8, 8, 8, NULL,
                                  matrix(a, f64, 8), matrix(b, f64, 8), NULL, matrix(c, f64, 8), &r);

    if (s == LIMBER_OK)
        s = limber_kernel_plan(ctx, r.kernel, &text);
    memcpy(c, before, sizeof c);        /* the calls after the first write none */
    if (s == LIMBER_OK)
        s = limber_kernel_make(ctx, text, &r);
    limber_free(text);
    return s;
}

static limber_status bound(limber_context *ctx)
{
    enum { SIDE = 16 };
    static const char *const words =
        "int(m:i32 n:i32 k:i32 a:ptr lda:i32 b:ptr ldb:i32 c:ptr ldc:i32)";
    int (*multiply)(int, int, int, double *, int, double *, int, double *, int);
    limber_contract k = { .promise = LIMBER_NATIVE };
    limber_status s = limber_bind(ctx, &k, f64, f64, f64, words, (void (**)(void))&multiply);

    return s ? s : (limber_status)multiply(SIDE, SIDE, SIDE, a, SIDE, b, SIDE, c, SIDE);
}

static limber_status shape(limber_context *ctx)
{
    const limber_matrix m = { NULL, f64, 6, 1 };
    limber_kernel f;
    limber_status s = limber_bind_shape(ctx, &(limber_contract){ .promise = LIMBER_NATIVE }, 6, 6, 6, m, m, m,
                                        0, &f);

    if (s == LIMBER_OK)
        f(a, b, c);
    return s == LIMBER_DEVICE ? LIMBER_OK : s;
}

static int one_more(void *user, const limber_cache_entry *e)
{
    (void)e;
    ++*(int *)user;
    return 0;
}

static limber_status cache(limber_context *ctx)
{
    limber_cache_info info;
    int entries = 0;
    limber_status s = limber_cache_describe(ctx, &info);

    return s ? s : limber_cache_each(ctx, 1, one_more, &entries);
}

static const struct {
    const char *name;
    limber_status (*call)(limber_context *ctx);
} calls[] = {
    { "native", native }, { "bits", bits }, { "correct", correct }, { "mixed", mixed },
    { "in parts", in_parts }, { "meanwhile", meanwhile },
    { "integers", integers }, { "out of range", out_of_range }, { "simulate", simulate },
    { "statistics", statistics }, { "batch", batch }, { "batch, correct", batch_correct },
    { "batch of integers", batch_integers }, { "complex", complex_four },
    { "complex by three", complex_three }, { "convolution", conv }, { "prepared", prepared },
    { "plan", plan }, { "plan of a convolution", conv_plan }, { "cut", cut }, { "look", look },
    { "workspace", workspace }, { "kernel made again", again }, { "bind", bound },
    { "bind_shape", shape }, { "cache", cache },
};

/* ---- every one of them ----------------------------------------------------------------------- */

enum { SHORT = 40 };            /* trials of a context's whole life, where nobody has time */

static char folder[] = "/tmp/limber-failing-XXXXXX";

static limber_status context(limber_context **ctx, const char *backend, const char *dir, bool host)
{
    limber_config config = { .backend = backend, .threads = 2, .cache_dir = dir, .dump_dir = "",
                             .workspace_bytes = 1 << 16 };
    limber_status s;

    if (host)
        config.allocator = (limber_allocator){ take, give, NULL };
    s = limber_create(ctx, &config);
    if (s == LIMBER_OK)
        (*ctx)->brief = 0;
    return s;
}

static void reset(void)
{
    memcpy(c, before, sizeof c);
}

static void judge(const char *backend, size_t i, long at, limber_status s)
{
    if (s != LIMBER_OK && s != LIMBER_NO_MEMORY)
        fail_msg("%s, %s, allocation %ld: %s: %s", backend, calls[i].name, at, limber_status_name(s),
                 limber_error_text());
    if (s == LIMBER_OK ? memcmp(c, want, sizeof c) : memcmp(c, before, sizeof c))
        fail_msg("%s, %s, allocation %ld: %s and %s", backend, calls[i].name, at, limber_status_name(s),
                 s == LIMBER_OK ? "other bits" : "C changed");
}

/* Of a context that is made, and one call; what is left when it is gone. */
static limber_status whole_life(const char *backend, const char *dir, size_t i)
{
    limber_context *ctx;
    limber_status s = context(&ctx, backend, dir, false);

    reset();
    if (s == LIMBER_OK)
        s = calls[i].call(ctx);
    else
        assert_null(ctx);
    limber_destroy(ctx);
    return s;
}

static void fail_each(const char *backend, const char *dir, size_t i)
{
    long at = 1, all, step;
    bool failed;
    int alive;

    if (whole_life(backend, dir, i) != LIMBER_OK)
        fail_msg("%s, %s: %s", backend, calls[i].name, limber_error_text());
    memcpy(want, c, sizeof c);
    arm(0);
    whole_life(backend, dir, i);
    all = disarm();
    step = getenv("LIMBER_TEST_LONG") || all < SHORT ? 1 : all / SHORT;
    alive = still_alive();      /* what the process keeps */
    do {
        limber_status s;

        arm(at);
        s = whole_life(backend, dir, i);
        all = disarm();
        judge(backend, i, at, s);
        if (still_alive() > alive)
            fail_msg("%s, %s, allocation %ld: %d blocks are left", backend, calls[i].name, at,
                     still_alive() - alive);
        failed = all >= at;
        at += step;
    } while (failed);
    print_message("%s, %s: %ld allocations by %ld\n", backend, calls[i].name, all, step);
}

/* The same in a context that lives on, which must be none the worse. */
static void fail_warm(const char *backend, const char *dir, size_t i, bool host)
{
    limber_context *ctx;
    long at = 0, all;

    assert_int_equal(context(&ctx, backend, dir, host), LIMBER_OK);
    reset();
    if (calls[i].call(ctx) != LIMBER_OK)
        fail_msg("%s, %s: %s", backend, calls[i].name, limber_error_text());
    memcpy(want, c, sizeof c);
    do {
        limber_status s;

        reset();
        at++;
        takes = 0;
        takes_fail_at = host ? at : 0;
        arm(host ? 0 : at);
        s = calls[i].call(ctx);
        all = disarm();
        all = host ? takes : all;
        takes_fail_at = 0;
        judge(backend, i, at, s);
        reset();
        judge(backend, i, 0, calls[i].call(ctx));
    } while (at <= all);
    limber_destroy(ctx);
    assert_int_equal(out, 0);
}

static void each_backend(void (*run)(const char *backend, const char *dir, size_t call))
{
    for (int k = 0; limber_backends[k]; k++) {
        const char *name = limber_backends[k]->name;
        limber_context *ctx;

        if (context(&ctx, name, folder, false) != LIMBER_OK)
            continue;
        limber_destroy(ctx);
        for (size_t i = 0; i < COUNT(calls); i++)
            run(name, folder, i);
    }
}

static void warm_calls(const char *backend, const char *dir, size_t i)
{
    fail_warm(backend, dir, i, false);
}

static void warm_host(const char *backend, const char *dir, size_t i)
{
    fail_warm(backend, dir, i, true);
}

static void contexts_and_calls(void **state)
{
    (void)state;
    each_backend(fail_each);
}

static void calls_in_a_context(void **state)
{
    (void)state;
    each_backend(warm_calls);
}

static void allocators_of_hosts(void **state)
{
    (void)state;
    each_backend(warm_host);
}

/* With nothing on disk: passes and compiler too, as far as they are ours. */
static void kernels_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(calls); i++)
        if (calls[i].call == correct || calls[i].call == simulate || calls[i].call == conv)
            fail_each("interp", "", i);
}

static int set_up(void **state)
{
    struct rng r = { 1 };

    (void)state;
    f64 = named("f64");
    f32 = named("f32");
    i8 = named("i8");
    i32 = named("i32");
    fill(&r, DATA_spread, f64, a, ALL);
    for (int i = 0; i < ALL; i++)
        b[i] = (rng_unit(&r) + rng_unit(&r) + rng_unit(&r) - 1.5) * 2;
    fill(&r, DATA_ints, f64, before, 2 * ALL);
    fill(&r, DATA_bytes, i8, bytes_a, ALL);
    fill(&r, DATA_bytes, i8, bytes_b, ALL);
    for (int i = 0; i < ALL; i++) {
        tiles[i] = i % LONG < 256 ? i * 37 % 255 - 127 : b[i];
    }
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static int clean_up(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_and_calls),
        cmocka_unit_test(calls_in_a_context),
        cmocka_unit_test(allocators_of_hosts),
        cmocka_unit_test(kernels_made),
    };

    return cmocka_run_group_tests(tests, set_up, clean_up);
}
