/* SPDX-License-Identifier: BSD-3-Clause
 * Threads that are cancelled, and limits: a thread with a cancellation pending calls every public
 * function, with nothing in memory or on disk, and is cancelled behind the call and not in it; a
 * cache that may not grow is a cache that is not written.  No clock decides: a pending cancellation
 * acts at the first place where it may. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static void discard(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static double want[2 * ALL];    /* the result of a call that nothing happened to */

/* ---- a cancellation that waits ----------------------------------------------------------------
 */

struct victim {
    const char *backend, *dir, *name;
    limber_status (*call)(limber_context *ctx);
    limber_context *ctx;
    bool done;
    limber_status status;
    char text[256];
};

static void *doomed(void *arg)
{
    struct victim *v = arg;

    pthread_cancel(pthread_self());
    v->status = v->call(v->ctx);
    if (v->status)
        snprintf(v->text, sizeof v->text, "%s", limber_error_text());
    v->done = true;
    pthread_testcancel();
    return NULL;
}

static void *doomed_life(void *arg)
{
    struct victim *v = arg;
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = v->backend,
                                   .threads = 2,
                                   .cache_dir = v->dir,
                                   .dump_dir = "" };

    pthread_cancel(pthread_self());
    v->status = limber_create(&v->ctx, &config);
    limber_destroy(v->ctx);
    v->done = true;
    pthread_testcancel();
    return NULL;
}

static void cancel(struct victim *v, void *(*run)(void *))
{
    pthread_t thread;
    void *result;

    assert_int_equal(pthread_create(&thread, NULL, run, v), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    if (!v->done || v->status)
        fail_msg("%s, %s: %s %s", v->backend, v->name,
                 v->done ? "failed:" : "was cancelled half-way", v->text);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void cancelled_behind_the_call(void **state)
{
    (void)state;
    fill_operands();
    for (int k = 0; limber_backends[k]; k++)
        for (size_t i = 0; i <= COUNT(calls); i++) {
            char dir[] = "/tmp/limber-cancel-XXXXXX";
            struct victim v = { .backend = limber_backends[k]->name,
                                .dir = dir,
                                .name = "create",
                                .call = i ? calls[i - 1].call : NULL };
            const limber_config config = { .size = sizeof(limber_config),
                                           .backend = v.backend,
                                           .threads = 2,
                                           .cache_dir = dir,
                                           .dump_dir = "" };

            if (limber_create(&v.ctx, &config))
                break;
            assert_non_null(mkdtemp(dir));
            if (i == 0) {
                limber_destroy(v.ctx);
                cancel(&v, doomed_life);
            } else {
                v.name = calls[i - 1].name;
                reset();
                cancel(&v, doomed);
                memcpy(want, c, sizeof c);
                reset();        /* its kernel is there for others */
                assert_int_equal(v.call(v.ctx), LIMBER_STATUS_OK);
                assert_memory_equal(c, want, sizeof c);
                limber_destroy(v.ctx);
            }
            discard(dir);
        }
}

/* ---- files that may not grow ------------------------------------------------------------------
 */

static atomic_int signals;

static void count_signal(int n)
{
    (void)n;
    signals++;
}

/* In a child, whose limit it is: 0 where all is well. */
static int under_a_limit(const char *backend, const char *dir, const char *dumps, rlim_t bytes)
{
    const struct rlimit limit = { bytes, bytes };
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = backend,
                                   .threads = 2,
                                   .cache_dir = dir,
                                   .dump_dir = dumps };
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    limber_context *ctx;
    sigset_t pending;

    if (setrlimit(RLIMIT_FSIZE, &limit) || limber_create(&ctx, &config))
        return 2;
    reset();
    if (native(ctx) || correct(ctx) || limber_cache_describe(ctx, &info))
        return 3;
    limber_destroy(ctx);
    if (info.entries && bytes < 1000)
        return 4;
    sigpending(&pending);
    return signals ? 5 : sigismember(&pending, SIGXFSZ) ? 6 : 0;
}

static void limits_are_errors(void **state)
{
    static const rlim_t limits[] = { 0, 1, 4096, 20000 };

    (void)state;
    fill_operands();
    for (int k = 0; limber_backends[k]; k++)
        for (size_t i = 0; i < COUNT(limits) * 4; i++) {
            char dir[] = "/tmp/limber-limit-XXXXXX", dumps[64] = "";
            const char *name = limber_backends[k]->name;
            limber_context *ctx;
            int status;
            pid_t pid;

            if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                      .backend = name,
                                                      .threads = 1,
                                                      .cache_dir = "" }))
                break;
            limber_destroy(ctx);
            assert_non_null(mkdtemp(dir));
            if (i & 1 && strcmp(name, "interp") == 0)
                snprintf(dumps, sizeof dumps, "%s/dumps", dir);
            pid = fork();
            if (pid == 0) {
                signal(SIGXFSZ, i & 2 ? count_signal : SIG_DFL);
                _exit(under_a_limit(name, dir, dumps, limits[i / 4]));
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status)
                fail_msg("%s, limit %ld: status %#x", name, (long)limits[i / 4], (unsigned)status);
            discard(dir);
        }
}

/* ---- address space that ends ------------------------------------------------------------------
 */

/* In a child: a kernel is made, or there is no memory and C is what it was. */
static int with_megabytes(const char *backend, const char *dir, rlim_t megabytes)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = backend,
                                   .threads = 1,
                                   .cache_dir = dir,
                                   .dump_dir = "" };
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    limber_context *ctx;
    struct rlimit limit;
    limber_status s;

    if (!f || fscanf(f, "%lu", &pages) != 1)
        return 2;
    fclose(f);
    limit.rlim_cur = limit.rlim_max = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (megabytes << 20);
    if (setrlimit(RLIMIT_AS, &limit))
        return 3;
    reset();
    s = limber_create(&ctx, &config);
    if (s == LIMBER_STATUS_OK)
        s = native(ctx);
    if (s == LIMBER_STATUS_OK)
        return 0;
    return s != LIMBER_STATUS_NO_MEMORY || memcmp(c, before, sizeof c) ? 4 : 0;
}

static void address_space_that_ends(void **state)
{
    (void)state;
#ifdef SANITIZED                /* takes terabytes */
    skip();
#endif
    fill_operands();
    for (int k = 0; limber_backends[k]; k++)
        for (rlim_t megabytes = 0; megabytes <= 1024; megabytes += megabytes < 64 ? 1 : 48) {
            char dir[] = "/tmp/limber-room-XXXXXX";
            const char *name = limber_backends[k]->name;
            int status;
            pid_t pid;

            if (strcmp(name, "cuda") == 0)
                continue;
            assert_non_null(mkdtemp(dir));
            pid = fork();
            if (pid == 0)
                _exit(with_megabytes(name, dir, megabytes));
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status)
                fail_msg("%s, %ld MiB: status %#x", name, (long)megabytes, (unsigned)status);
            discard(dir);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_space_that_ends),     /* first: libLLVM is not loaded yet */
        cmocka_unit_test(cancelled_behind_the_call),
        cmocka_unit_test(limits_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
