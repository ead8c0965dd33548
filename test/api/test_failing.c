/* SPDX-License-Identifier: BSD-3-Clause
 * Makes each allocation fail in turn, for every public call on every backend.  The call must then
 * give its usual bits, or return LIMBER_STATUS_NO_MEMORY and leave C unchanged.  Nothing may leak.
 * Failing allocations are the library's own calls of malloc and similar functions, which the linker
 * wraps, and those of the caller's allocator.  Other libraries are not affected. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double want[2 * ALL]; /* the result of an undisturbed call */

/* ---- allocations that fail, and leaks -------------------------------------------------------- */

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
/* blocks in use: a hash table with open addressing; freed blocks leave a mark (&gone) */
static void *live[LIVE];
static char gone;
/* allocations since arm(), and the number of the one that fails; 0 if none fails */
static long count, fails_at;
static bool armed;

/* Returns the place of a block, or of the first free place for it, in the hash table `live`. */
static size_t place_of(const void *p)
{
    size_t at = (uintptr_t)p / 16 * 0x9e3779b97f4a7c15u % LIVE;

    while (live[at] && live[at] != p)
        at = (at + 1) % LIVE;
    return at;
}

/* Counts an allocation.  True if it is the one that shall fail. */
static bool must_fail(void)
{
    bool now = false;

    pthread_mutex_lock(&lock);
    if (armed)
        now = ++count == fails_at;
    pthread_mutex_unlock(&lock);
    return now;
}

/* Adds a block to the table while faults are being made; returns it. */
static void *record_block(void *p)
{
    pthread_mutex_lock(&lock);
    if (p && armed)
        live[place_of(p)] = p;
    pthread_mutex_unlock(&lock);
    return p;
}

/* Removes a block from the table. */
static void forget_block(void *p)
{
    pthread_mutex_lock(&lock);
    if (p && live[place_of(p)] == p)
        live[place_of(p)] = &gone;
    pthread_mutex_unlock(&lock);
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : record_block(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : record_block(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    void *q;

    if (must_fail())
        return NULL;
    forget_block(p);
    q = __real_realloc(p, size);
    return record_block(q);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return must_fail() ? NULL : record_block(__real_aligned_alloc(align, size));
}

char *__wrap_strdup(const char *s)
{
    return must_fail() ? NULL : record_block(__real_strdup(s));
}

void __wrap_free(void *p)
{
    forget_block(p);
    __real_free(p);
}

/* Starts to count allocations: number `at` will fail, or none if `at` is 0. */
static void arm(long at)
{
    pthread_mutex_lock(&lock);
    memset(live, 0, sizeof live);
    count = 0;
    fails_at = at;
    armed = true;
    pthread_mutex_unlock(&lock);
}

/* Stops counting.  Returns how many allocations were tried since arm(). */
static long disarm(void)
{
    pthread_mutex_lock(&lock);
    armed = false;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Returns how many recorded blocks have not been freed. */
static int count_live_blocks(void)
{
    int n = 0;

    for (size_t i = 0; i < LIVE; i++)
        n += live[i] && live[i] != &gone;
    return n;
}

/* The caller's allocator, which fails at call number takes_fail_at.  The wrapped functions of the C
 * library do not count its blocks.  out: its blocks in use. */
static long takes, takes_fail_at, out;

/* Allocates for a context, except at the call that must fail. */
static void *alloc_counted(void *user, size_t bytes, size_t align)
{
    (void)user;
    if (__atomic_add_fetch(&takes, 1, __ATOMIC_SEQ_CST) == takes_fail_at)
        return NULL;
    __atomic_add_fetch(&out, 1, __ATOMIC_SEQ_CST);
    align = align < 16 ? 16 : align;
    return __real_aligned_alloc(align, (bytes + align) / align * align);
}

static void free_counted(void *user, void *p)
{
    (void)user;
    __atomic_sub_fetch(&out, 1, __ATOMIC_SEQ_CST);
    __real_free(p);
}

/* ---- each allocation of each call ------------------------------------------------------------ */

/* number of failing allocations that are tried for each call, unless LIMBER_TEST_LONG is set */
enum { SHORT = SANITIZED ? 13 : 40 };

/* Creates a context.  host: its memory comes from alloc_counted, an allocator of the caller's. */
static limber_status create_context(limber_context **ctx, const char *backend, const char *dir,
                                    bool host)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = backend,
                             .threads = 2,
                             .cache_dir = dir,
                             .dump_dir = "",
                             .workspace_bytes = 1 << 16 };
    limber_status s;

    if (host)
        config.allocator = (limber_allocator){ alloc_counted, free_counted, NULL };
    s = limber_create(ctx, &config);
    if (s == LIMBER_STATUS_OK)
        (*ctx)->pricing.brief = 0;
    return s;
}

/* Checks the outcome of a call in which an allocation failed: right bits, or NO_MEMORY and C
 * unchanged. */
static void check_outcome(const char *backend, size_t i, long at, limber_status s)
{
    /* a cache that cannot be opened for lack of memory has an error text of its own */
    if (s != LIMBER_STATUS_OK && s != LIMBER_STATUS_NO_MEMORY &&
        !strstr(limber_error_text(), "is not used: no memory"))
        fail_msg("%s, %s, allocation %ld: %s: %s", backend, calls[i].name, at,
                 limber_status_name(s), limber_error_text());
    if (s == LIMBER_STATUS_OK ? memcmp(c, want, sizeof c) : memcmp(c, before, sizeof c))
        fail_msg("%s, %s, allocation %ld: %s and %s", backend, calls[i].name, at,
                 limber_status_name(s), s == LIMBER_STATUS_OK ? "other bits" : "C changed");
}

/* Creates a context, makes call i and destroys the context.  Returns the status. */
static limber_status create_and_call(const char *backend, const char *dir, size_t i)
{
    limber_context *ctx;
    limber_status s = create_context(&ctx, backend, dir, false);

    reset();
    if (s == LIMBER_STATUS_OK)
        s = calls[i].call(ctx);
    else
        assert_null(ctx);
    limber_destroy(ctx);
    return s;
}

/* Makes each allocation of a call in a new context fail, one after the other. */
static void fail_each(const char *backend, const char *dir, size_t i)
{
    long at = 1, all, step;
    bool failed;
    int alive;

    if (create_and_call(backend, dir, i) != LIMBER_STATUS_OK)
        fail_msg("%s, %s: %s", backend, calls[i].name, limber_error_text());
    memcpy(want, c, sizeof c);
    arm(0);
    create_and_call(backend, dir, i);
    all = disarm();
    step = is_long() || all < SHORT ? 1 : all / SHORT;
    alive = count_live_blocks(); /* blocks that the process keeps */
    do {
        limber_status s;

        arm(at);
        s = create_and_call(backend, dir, i);
        all = disarm();
        check_outcome(backend, i, at, s);
        if (count_live_blocks() > alive)
            fail_msg("%s, %s, allocation %ld: %d blocks are left", backend, calls[i].name, at,
                     count_live_blocks() - alive);
        failed = all >= at;
        at += step;
    } while (failed);
    print_message("%s, %s: %ld allocations by %ld\n", backend, calls[i].name, all, step);
}

/* Makes each allocation of a call fail in one context.  After each failure the call must work
 * again.  host: the caller's allocator fails. */
static void fail_each_when_warm(const char *backend, const char *dir, size_t i, bool host)
{
    limber_context *ctx;
    long at = 0, all;

    assert_int_equal(create_context(&ctx, backend, dir, host), LIMBER_STATUS_OK);
    reset();
    if (calls[i].call(ctx) != LIMBER_STATUS_OK)
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
        check_outcome(backend, i, at, s);
        reset();
        check_outcome(backend, i, 0, calls[i].call(ctx));
    } while (at <= all);
    limber_destroy(ctx);
    assert_int_equal(out, 0);
}

/* Runs a test for every call on every available backend. */
static void for_each_call_and_backend(void (*run)(const char *backend, const char *dir,
                                                  size_t call))
{
    for (int k = 0; limber_backends[k]; k++) {
        const char *name = limber_backends[k]->name;
        bool available = runs_here(name);

        for (size_t i = 0; i < COUNT(calls) && available; i++)
            if (serves(name, &calls[i]))
                run(name, dir, i);
    }
}

static void fail_library(const char *backend, const char *dir, size_t i)
{
    fail_each_when_warm(backend, dir, i, false);
}

static void fail_host(const char *backend, const char *dir, size_t i)
{
    fail_each_when_warm(backend, dir, i, true);
}

static void failing_allocations_of_contexts_and_calls(void **state)
{
    (void)state;
    for_each_call_and_backend(fail_each);
}

static void failing_allocations_of_warm_calls(void **state)
{
    (void)state;
    for_each_call_and_backend(fail_library);
}

static void failing_allocations_of_host_allocators(void **state)
{
    (void)state;
    for_each_call_and_backend(fail_host);
}

/* With an empty cache, passes and code generation allocate memory, too. */
static void failing_allocations_of_compiling(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(calls); i++)
        if (calls[i].call == correct || calls[i].call == simulate_without_statistics ||
            calls[i].call == conv)
            fail_each("interp", "", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_allocations_of_contexts_and_calls),
        cmocka_unit_test(failing_allocations_of_warm_calls),
        cmocka_unit_test(failing_allocations_of_host_allocators),
        cmocka_unit_test(failing_allocations_of_compiling),
    };

    fill_operands();
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
