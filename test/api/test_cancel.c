/* SPDX-License-Identifier: BSD-3-Clause
 * Cancellation of threads, and resource limits.  A thread with a pending cancellation calls every
 * public function with empty caches.  It must be cancelled after the call, not inside.  With a
 * limit on files' sizes the cache is not written.  The tests need no clock: a pending cancellation
 * acts at the first cancellation point. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double want[2 * ALL]; /* result of the first call, which later calls must give, too */

/* ---- a pending cancellation ------------------------------------------------------------------ */

/* A call in a thread with a pending cancellation. */
struct cancelled_call {
    const char *backend, *folder, *name;
    limber_status (*call)(limber_context *ctx);
    limber_context *ctx;
    bool done;
    limber_status status;
    char text[256];
};

/* Thread: calls a function with a cancellation pending, which must come only afterwards. */
static void *call_with_pending_cancellation(void *arg)
{
    struct cancelled_call *v = arg;

    pthread_cancel(pthread_self());
    v->status = v->call(v->ctx);
    if (v->status)
        snprintf(v->text, sizeof v->text, "%s", limber_error_text());
    v->done = true;
    pthread_testcancel();
    return NULL;
}

/* Thread: creates a context with a cancellation pending, which must come only afterwards. */
static void *create_with_pending_cancellation(void *arg)
{
    struct cancelled_call *v = arg;

    pthread_cancel(pthread_self());
    v->status = open_context(&v->ctx, v->backend, v->folder);
    limber_destroy(v->ctx);
    v->done = true;
    pthread_testcancel();
    return NULL;
}

/* Runs a function in a new thread.  Fails the test unless its call succeeds and the thread is
 * cancelled afterwards. */
static void run_and_expect_cancellation(struct cancelled_call *v, void *(*run)(void *))
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

/* Runs a call in a thread with a pending cancellation, then once more without. */
static void cancel_call(const char *backend, const char *folder, const struct every_call *call)
{
    struct cancelled_call v = { backend, folder, call->name, .call = call->call };

    assert_int_equal(open_context(&v.ctx, backend, folder), LIMBER_STATUS_OK);
    reset();
    run_and_expect_cancellation(&v, call_with_pending_cancellation);
    memcpy(want, c, sizeof c);
    reset(); /* the kernel that the cancelled thread made must also be usable by this one */
    assert_int_equal(v.call(v.ctx), LIMBER_STATUS_OK);
    assert_memory_equal(c, want, sizeof c);
    limber_destroy(v.ctx);
}

static void threads_are_cancelled_after_a_call(void **state)
{
    (void)state;
    each_call(cancel_call);
}

/* A thread with a pending cancellation creates a context completely, and is cancelled only
 * afterwards. */
static void cancelled_after_creating_a_context(void **state)
{
    (void)state;
    for (int k = 0; limber_backends[k]; k++) {
        struct cancelled_call v = { limber_backends[k]->name, dir, "create", .call = NULL };

        if (runs_here(v.backend))
            run_and_expect_cancellation(&v, create_with_pending_cancellation);
    }
}

/* ---- a limit on the size of files ------------------------------------------------------------ */

/* Number of signals that the handler got. */
static atomic_int signals;

static void count_signal(int n)
{
    (void)n;
    signals++;
}

/* Runs in a child process: computes with a limit on the size of files.  Returns 0 if that succeeds
 * without a signal, and without entries in the cache if the limit is small. */
static int run_with_file_limit(const char *backend, const char *folder, const char *dumps,
                               rlim_t bytes)
{
    const struct rlimit limit = { bytes, bytes };
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = backend,
                                   .threads = 2,
                                   .cache_dir = folder,
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

/* In child processes with a limit of file size, each backend computes, with dumps or without, and
 * no SIGXFSZ reaches the program, whether it handles that signal or not. */
static void file_size_limits_are_errors(void **state)
{
    static const rlim_t limits[] = { 0, 1, 4096, 20000 };

    (void)state;
    for (int k = 0; limber_backends[k]; k++) {
        const char *name = limber_backends[k]->name;

        if (!runs_here(name))
            continue;
        for (size_t i = 0; i < COUNT(limits) * 4; i++) {
            char *folder = scratch(), dumps[5000] = "";
            int status;
            pid_t pid;

            if (i & 1 && strcmp(name, "interp") == 0)
                snprintf(dumps, sizeof dumps, "%s/dumps", folder);
            pid = fork();
            if (pid == 0) {
                signal(SIGXFSZ, i & 2 ? count_signal : SIG_DFL);
                _exit(run_with_file_limit(name, folder, dumps, limits[i / 4]));
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status)
                fail_msg("%s, limit %ld: status %#x", name, (long)limits[i / 4], (unsigned)status);
            discard(folder);
        }
    }
}

/* ---- a limit on address space ---------------------------------------------------------------- */

/* Runs in a child process: computes with `megabytes` of address space beyond what is in use.
 * Returns 0 if the call succeeds, or fails with LIMBER_STATUS_NO_MEMORY and leaves C unchanged. */
static int run_with_megabytes(const char *backend, const char *folder, rlim_t megabytes)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = backend,
                                   .threads = 1,
                                   .cache_dir = folder,
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

/* In child processes with limits of 0 to 1024 MiB beyond what is used, a call succeeds, or fails
 * with status NO_MEMORY and leaves C unchanged. */
static void exhausted_address_space_is_an_error(void **state)
{
    (void)state;
    if (SANITIZED)
        skip_because("sanitizers reserve terabytes of address space");
    for (int k = 0; limber_backends[k]; k++)
        for (rlim_t megabytes = 0; megabytes <= 1024; megabytes += megabytes < 64 ? 1 : 48) {
            const char *name = limber_backends[k]->name;
            char *folder;
            int status;
            pid_t pid;

            if (strcmp(name, "cuda") == 0)
                continue;
            folder = scratch();
            pid = fork();
            if (pid == 0)
                _exit(run_with_megabytes(name, folder, megabytes));
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status)
                fail_msg("%s, %ld MiB: status %#x", name, (long)megabytes, (unsigned)status);
            discard(folder);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            exhausted_address_space_is_an_error), /* first, while libLLVM is not loaded */
        cmocka_unit_test(threads_are_cancelled_after_a_call),
        unit_test_in_dir(cancelled_after_creating_a_context),
        cmocka_unit_test(file_size_limits_are_errors),
    };

    fill_operands();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
