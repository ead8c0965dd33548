/* SPDX-License-Identifier: BSD-3-Clause
 * Calls whose kernels are still being compiled in the background, and processes that fork
 * meanwhile. */
#include "contexts.h"
#include "engine_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

/* ---- a backend whose compilations the test controls ------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* shut: compilations wait at the gate.  broken: they fail. */
static bool shut, broken;

/* Sets a flag and wakes the threads that wait for flags. */
static void set_flag(bool *what, bool value)
{
    pthread_mutex_lock(&lock);
    *what = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Implements backend.compile: waits until the test opens the gate, then fails or compiles. */
static bool gated_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                          struct blob *out, struct diag *d)
{
    bool fails;

    pthread_mutex_lock(&lock);
    while (shut)
        pthread_cond_wait(&changed, &lock);
    fails = broken;
    pthread_mutex_unlock(&lock);
    return fails ? limber_fail(d, LIMBER_STATUS_INTERNAL, "broken") :
                   counted.compile(p, t, dump, out, d);
}

/* Implements backend.compile: does not return before the process ends. */
static bool endless_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                            struct blob *out, struct diag *d)
{
    compiles++;
    while (!limber_background_ending())
        sched_yield();
    return limber_backend_interp.compile(p, t, dump, out, d);
}

static struct backend gated;
static const struct backend *const gated_list[] = { &gated, NULL };

/* Opens a context whose compilations wait until the test opens the gate. */
static limber_context *gated_context(const char *cache_dir)
{
    limber_context *ctx;
    struct diag d = { 0 };

    gated = counted;
    gated.name = "gated";
    gated.compile = gated_compile;
    if (!limber_context_make(&ctx,
                             &(limber_config){ .size = sizeof(limber_config),
                                               .cache_dir = cache_dir,
                                               .threads = 2,
                                               .kernels = LIMBER_KERNELS_BOTH },
                             gated_list, &d))
        fail_msg("%s", d.text);
    compiles = 0;
    shut = broken = false;
    return ctx;
}

/* ---- the product that is asked for ----------------------------------------------------------- */

enum { M = 37, N = 29, K = 41, LDC = N + 3, GUARD = 12345 };
struct case_numbers {
    double a[M * K], b[K * N], c[M * LDC], want[M * LDC];
};

/* Fills matrices with small integers, whose sums do not depend on the order.  Gaps between rows of
 * C must not be written. */
static void fill_numbers(struct case_numbers *x, double beta)
{
    for (int i = 0; i < M * K; i++)
        x->a[i] = i * 7 % 23 - 11;
    for (int i = 0; i < K * N; i++)
        x->b[i] = i * 5 % 19 - 9;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < LDC; j++) {
            double *c = &x->c[i * LDC + j], sum = 0;

            *c = j < N ? i - j : GUARD;
            for (int p = 0; p < K && j < N; p++)
                sum += x->a[i * K + p] * x->b[p * N + j];
            x->want[i * LDC + j] = j < N ? sum + beta * *c : GUARD;
        }
}

/* Multiplies small integers. on_miss: what the call must do if its kernel is not ready. */
static limber_status multiply_integers(limber_context *ctx, struct case_numbers *x,
                                       limber_on_miss on_miss, limber_promise promise, double beta,
                                       limber_report *r)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = promise,
                                .on_miss = on_miss };
    limber_format f = named("f64");

    fill_numbers(x, beta);
    return limber_gemm(ctx, &k, M, N, K, NULL, (limber_matrix){ x->a, f, K, 1 },
                       (limber_matrix){ x->b, f, N, 1 }, &beta, (limber_output){ x->c, f, LDC, 1 },
                       r);
}

static void assert_right(const struct case_numbers *x)
{
    assert_memory_equal(x->c, x->want, sizeof x->c);
}

/* Repeats the product until its kernel has been compiled in the background. */
static void wait_until_ready(limber_context *ctx, struct case_numbers *x, limber_promise promise)
{
    limber_status s;

    while ((s = multiply_integers(ctx, x, LIMBER_ON_MISS_REFUSE, promise, 1, NULL)) ==
           LIMBER_STATUS_NOT_READY)
        usleep(1000);
    assert_int_equal(s, LIMBER_STATUS_OK);
    assert_right(x);
}

/* ---- one process whose kernels are not ready ------------------------------------------------- */

/* With on_miss = generic, the interpreter computes while the kernel is being compiled (once
 * only), and afterwards the compiled kernel computes. */
static void the_interpreter_serves_until_the_kernel_is_there(void **state)
{
    static struct case_numbers x;
    limber_context *ctx = gated_context("");
    limber_report r = LIMBER_REPORT_INIT;

    (void)state;
    for (int promise = LIMBER_CONTRACT_NATIVE; promise <= LIMBER_CONTRACT_CORRECT;
         promise += LIMBER_CONTRACT_CORRECT) {
        shut = true;
        compiles = 0;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(multiply_integers(ctx, &x, LIMBER_ON_MISS_GENERIC, promise, 1, &r),
                             LIMBER_STATUS_OK);
            assert_right(&x);
            assert_int_equal(r.from, 3);
            assert_string_equal(r.backend, "interp");
        }
        set_flag(&shut, false);
        wait_until_ready(ctx, &x, promise);
        assert_int_equal(compiles, 1);
        assert_int_equal(multiply_integers(ctx, &x, LIMBER_ON_MISS_GENERIC, promise, 1, &r),
                         LIMBER_STATUS_OK);
        assert_right(&x);
        assert_int_equal(r.from, 2);
        assert_string_equal(r.backend, "gated");
    }
    limber_destroy(ctx);
}

/* With on_miss = refuse, a call whose kernel is not ready returns NOT_READY and leaves C
 * unchanged. */
static void a_refused_call_leaves_c_alone(void **state)
{
    static struct case_numbers x, before;
    limber_context *ctx = gated_context("");

    (void)state;
    shut = true;
    fill_numbers(&before, 1);
    assert_refused(
        multiply_integers(ctx, &x, LIMBER_ON_MISS_REFUSE, LIMBER_CONTRACT_NATIVE, 1, NULL),
        LIMBER_STATUS_NOT_READY, "being made");
    assert_memory_equal(x.c, before.c, sizeof x.c);
    set_flag(&shut, false);
    wait_until_ready(ctx, &x, LIMBER_CONTRACT_NATIVE);
    limber_destroy(ctx);
}

/* While one kernel is being compiled, calls that use other kernels are not delayed. */
static void other_kernels_stay_available(void **state)
{
    static struct case_numbers x;
    limber_context *ctx = gated_context("");
    limber_report r = LIMBER_REPORT_INIT;

    (void)state;
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_STATUS_OK);
    shut = true;
    assert_int_equal(
        multiply_integers(ctx, &x, LIMBER_ON_MISS_REFUSE, LIMBER_CONTRACT_CORRECT, 1, NULL),
        LIMBER_STATUS_NOT_READY);
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 2);
    set_flag(&shut, false);
    limber_destroy(ctx);
}

/* A call whose kernel is in the disk cache loads it, and nothing is compiled. */
static void a_kernel_on_disk_is_waited_for(void **state)
{
    static struct case_numbers x;
    char *dir = scratch();
    limber_context *ctx = gated_context(dir);

    (void)state;
    assert_int_equal(
        multiply_integers(ctx, &x, LIMBER_ON_MISS_WAIT, LIMBER_CONTRACT_CORRECT, 1, NULL),
        LIMBER_STATUS_OK);
    limber_destroy(ctx);
    ctx = gated_context(dir);
    shut = true;
    wait_until_ready(ctx, &x, LIMBER_CONTRACT_CORRECT);
    assert_int_equal(compiles, 0);
    shut = false;
    limber_destroy(ctx);
    discard(dir);
}

/* A failed compilation is reported by the call, unless the interpreter has computed all rows. */
static void a_failed_compilation_is_reported(void **state)
{
    static struct case_numbers x;
    limber_context *ctx = gated_context("");
    limber_status s;

    (void)state;
    broken = true;
    s = multiply_integers(ctx, &x, LIMBER_ON_MISS_GENERIC, LIMBER_CONTRACT_NATIVE, 1, NULL);
    if (s == LIMBER_STATUS_OK)
        assert_right(&x);
    else
        assert_int_equal(s, LIMBER_STATUS_INTERNAL);
    do
        s = multiply_integers(ctx, &x, LIMBER_ON_MISS_REFUSE, LIMBER_CONTRACT_NATIVE, 1, NULL);
    while (s == LIMBER_STATUS_NOT_READY);
    assert_refused(s, LIMBER_STATUS_INTERNAL, "broken");
    broken = false;
    assert_int_equal(
        multiply_integers(ctx, &x, LIMBER_ON_MISS_WAIT, LIMBER_CONTRACT_NATIVE, 1, NULL),
        LIMBER_STATUS_OK);
    assert_right(&x);
    limber_destroy(ctx);
}

/* If some rows have been computed and neither kernel nor interpreter can compute the others, the
 * call fails and must restore C. */
static void a_failed_call_restores_c(void **state)
{
    static struct case_numbers x, before;
    limber_context *ctx = gated_context("");
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT,
                                .scheme = "fp32-f" };
    limber_format f = named("f64");
    const struct problem p = {
        .contract = k,
        .m = M,
        .n = N,
        .k = K,
        .groups = 1,
        .fa = f,
        .fb = f,
        .fc = f,
        .a = { x.a, K, 1, NULL, NULL },
        .b = { x.b, 1, N, NULL, NULL },
        .c = { .data = x.c, .row = LDC, .col = 1, .inner = N },
    };
    struct on_miss w = { .rest = p, .run = limber_engine_run_plain };

    (void)state;
    fill_numbers(&x, 0);
    fill_numbers(&before, 0);
    w.rest.m = 20;
    w.saved = malloc(sizeof(double) * M * N);
    for (int i = 20; i < M; i++)
        for (int j = 0; j < N; j++) {
            memcpy(w.saved + sizeof(double) * (size_t)(i * N + j), &x.c[i * LDC + j],
                   sizeof(double));
            x.c[i * LDC + j] = 4711;
        }
    assert_false(limber_on_miss_finish(ctx, &p, &w, false));
    assert_memory_equal(x.c, before.c, sizeof x.c);
    limber_destroy(ctx);
}

/* ---- with real kernels ----------------------------------------------------------------------- */

/* Returns a hash (FNV-1a) of the bits of n numbers. */
static uint64_t hash_numbers(const double *x, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++) {
        uint64_t bits;

        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

/* Multiplies random numbers.  *bits: hash of the result's bits. */
static limber_status random_product(limber_context *ctx, int64_t n, limber_on_miss on_miss,
                                    limber_promise promise, uint64_t *bits, limber_report *r)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = promise,
                                .on_miss = on_miss };
    double *a = malloc(sizeof *a * (size_t)(3 * n * n)), *b = a + n * n, *c = b + n * n;
    limber_format f = named("f64");
    uint64_t seed = 1;
    limber_status s;

    assert_non_null(a);
    for (int64_t i = 0; i < 3 * n * n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        a[i] = (double)(int64_t)seed * 0x1p-63;
    }
    s = limber_gemm(ctx, &k, n, n, n, NULL, (limber_matrix){ a, f, n, 1 },
                    (limber_matrix){ b, f, 1, n }, NULL, (limber_output){ c, f, n, 1 }, r);
    *bits = hash_numbers(c, (size_t)(n * n));
    free(a);
    return s;
}

/* A row has the same bits whether the kernel or the interpreter computes it. */
static void bits_do_not_depend_on_who_computes(void **state)
{
    uint64_t want, got;

    (void)state;
    for (int64_t n = 50; n <= 200; n += 150) {
        limber_context *ctx;

        assert_int_equal(
            limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "" }),
            LIMBER_STATUS_OK);
        assert_int_equal(
            random_product(ctx, n, LIMBER_ON_MISS_GENERIC, LIMBER_CONTRACT_CORRECT, &got, NULL),
            LIMBER_STATUS_OK);
        assert_int_equal(
            random_product(ctx, n, LIMBER_ON_MISS_WAIT, LIMBER_CONTRACT_CORRECT, &want, NULL),
            LIMBER_STATUS_OK);
        assert_true(got == want);
        limber_destroy(ctx);
    }
}

/* A thread that requests new kernels until `leave` is set. */
struct busy {
    limber_context *ctx;
    int first;
    atomic_int leave, failures;
};

/* Thread: requests new kernels all the time. */
static void *keep_compiling(void *arg)
{
    struct busy *b = arg;

    for (int i = b->first; !b->leave; i++) {
        limber_on_miss on_miss = i % 2 ? LIMBER_ON_MISS_GENERIC : LIMBER_ON_MISS_WAIT;
        const limber_contract k = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_BITS,
                                    .bits = 10 + i % 140,
                                    .on_miss = on_miss };
        double x[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, y[9];
        limber_format f = named("f64");

        if (limber_gemm(b->ctx, &k, 3, 3, 3, NULL, (limber_matrix){ x, f, 3, 1 },
                        (limber_matrix){ x, f, 3, 1 }, NULL, (limber_output){ y, f, 3, 1 }, NULL) ||
            y[0] != 30)
            b->failures++;
    }
    return NULL;
}

/* Child process: compiles and computes.  Returns 0 if all is right. */
static int run_child(limber_context *ctx, int i)
{
    const limber_on_miss on_miss = i % 2 ? LIMBER_ON_MISS_WAIT : LIMBER_ON_MISS_GENERIC;
    uint64_t bits;

    alarm(100);
    if (random_product(ctx, 20 + i, on_miss, LIMBER_CONTRACT_CORRECT, &bits, NULL) ||
        random_product(ctx, 3, on_miss, LIMBER_CONTRACT_NATIVE, &bits, NULL))
        return 1;
    limber_destroy(ctx);
    return 0;
}

/* The process forks while other threads compile, wait and look up kernels.  The child can
 * compute. */
static void a_forked_child_can_compute(void **state)
{
    enum { THREADS = 3, FORKS = 12 };
    char *dir = scratch();
    struct busy busy[THREADS];
    pthread_t thread[THREADS];
    limber_context *ctx;

    (void)state;
    assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                           .cache_dir = dir,
                                                           .threads = 2 }),
                     LIMBER_STATUS_OK);
    for (int i = 0; i < THREADS; i++) {
        busy[i] = (struct busy){ .ctx = ctx, .first = 47 * i };
        assert_int_equal(pthread_create(&thread[i], NULL, keep_compiling, &busy[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t pid;

        usleep(3000 * (useconds_t)i);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(run_child(ctx, i));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        busy[i].leave = 1;
        pthread_join(thread[i], NULL);
        assert_int_equal(busy[i].failures, 0);
    }
    limber_destroy(ctx);
    discard(dir);
}

/* The process ends while libLLVM is being loaded, or while libLLVM compiles.  It must end
 * normally. */
static void a_process_may_end_at_any_time(void **state)
{
    static limber_context *ctx;

    (void)state;
    for (int i = 0; i < 12; i++) {
        int status;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            uint64_t bits;

            alarm(100);
            if (limber_create(&ctx,
                              &(limber_config){ .size = sizeof(limber_config), .cache_dir = "" }) ||
                random_product(ctx, 3, LIMBER_ON_MISS_GENERIC, LIMBER_CONTRACT_CORRECT, &bits,
                               NULL))
                _exit(1);
            usleep((useconds_t)(8000 * i));
            exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* Exit function: the process succeeds if exactly one kernel was compiled. */
static void check_one_compilation(void)
{
    _exit(compiles == 1 ? 0 : 1);
}

/* When the process ends, compilations that have not begun are abandoned. */
static void a_process_ends_without_queued_compilations(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct case_numbers x;
        limber_context *ctx = gated_context("");

        alarm(100);
        /* functions registered later run earlier, so this one runs after the library's exit
         * function */
        atexit(check_one_compilation);
        gated.compile = endless_compile;
        for (int promise = LIMBER_CONTRACT_NATIVE; promise <= LIMBER_CONTRACT_CORRECT;
             promise += LIMBER_CONTRACT_CORRECT)
            if (multiply_integers(ctx, &x, LIMBER_ON_MISS_REFUSE, promise, 1, NULL) !=
                LIMBER_STATUS_NOT_READY)
                _exit(2);
        while (compiles == 0)
            sched_yield();
        exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The context that a thread uses after the first thread has exited. */
static limber_context *left_to_others;

/* Returns whether the first thread is still running (after it has ended it remains as a zombie).
 * Joining it would be an error to the sanitizer. */
static bool first_thread_is_there(void)
{
    char path[64], text[256], *state = NULL;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    f = fopen(path, "r");
    if (f && fgets(text, sizeof text, f))
        state = strrchr(text, ')'); /* the state follows the program's name */
    if (f)
        fclose(f);
    return !state || strncmp(state, ") Z", 3) != 0;
}

/* Thread: after the first thread has exited, requests another kernel, which must be compiled
 * soon. */
static void *go_on_alone(void *unused)
{
    static struct case_numbers x;
    limber_status status = LIMBER_STATUS_NOT_READY;

    (void)unused;
    while (first_thread_is_there())
        usleep(1000);
    while (status == LIMBER_STATUS_NOT_READY) {
        usleep(2000);
        status = multiply_integers(left_to_others, &x, LIMBER_ON_MISS_REFUSE,
                                   LIMBER_CONTRACT_CORRECT, 1, NULL);
    }
    _exit(status == LIMBER_STATUS_OK ? 0 : 1);
}

/* After the first thread has exited, kernels are still compiled for other threads. */
static void kernels_are_compiled_after_the_first_thread_has_exited(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct case_numbers x;
        pthread_t other;

        alarm(100);
        left_to_others = gated_context("");
        while (multiply_integers(left_to_others, &x, LIMBER_ON_MISS_REFUSE, LIMBER_CONTRACT_NATIVE,
                                 1, NULL) == LIMBER_STATUS_NOT_READY)
            sched_yield();
        if (pthread_create(&other, NULL, go_on_alone, NULL))
            _exit(2);
        pthread_exit(NULL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A background job.  Job 2 ends the process with status 0, for which the test waits. */
static void make_two(void *unused, const void *job)
{
    (void)unused;
    if (*(const int *)job == 2)
        _exit(0);
}

/* Thread: requests job 2 until that job ends the process. */
static void *ask_on(void *background)
{
    while (limber_background_ask(background, &(int){ 2 }, sizeof(int)))
        sched_yield();
    _exit(2);
}

/* Thread: forks and returns; in the child it is the first thread. */
static void *fork_and_leave(void *pid)
{
    struct background *b;
    pthread_t other;

    *(pid_t *)pid = fork();
    if (*(pid_t *)pid != 0)
        return NULL;
    alarm(100);
    b = limber_background_new(make_two, NULL, NULL);
    if (!b || !limber_background_ask(b, &(int){ 1 }, sizeof(int)) ||
        pthread_create(&other, NULL, ask_on, b))
        _exit(3);
    return NULL;
}

/* A thread forks and ends: in the child, where it is the first thread, background compilation still
 * works. */
static void jobs_are_done_after_a_forked_first_thread(void **state)
{
    pthread_t thread;
    int status;
    pid_t pid;

    (void)state;
    fflush(NULL);
    assert_int_equal(pthread_create(&thread, NULL, fork_and_leave, &pid), 0);
    pthread_join(thread, NULL);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- a compiler that is at work when the process ends ---------------------------------------- */

/* The library recognises the compiler's code by its addresses, because the compiler is a library
 * of its own.  In this test, functions in a section of their own take the place of the compiler. */
#define COMPILER __attribute__((section("compiler"), noinline))
extern const char __start_compiler[], __stop_compiler[];
/* Jobs that entered the compiler, whether they may leave it, and jobs that left it. */
static atomic_int begun, may_end, made;

/* Takes the place of a function of libLLVM: works until the test tells it to end. its_code
 * returns the address range of the section. */
COMPILER static void work_until_told(void)
{
    while (!may_end)
        ;
}

static void open_nothing(const struct target *t)
{
    (void)t;
}

static const struct code_ops opens_nothing = { .open = open_nothing };
static const struct backend with_compiler = { .code = &opens_nothing };

/* A background job that stays in the compiler until the test lets it leave. */
static void compile_until_told(void *unused, const void *job)
{
    struct diag d = { 0 };

    (void)unused;
    (void)job;
    if (!limber_compile_enter(&with_compiler, NULL, &d))
        _exit(5);
    begun++;
    work_until_told();
    limber_compile_leave();
    made++;
}

/* A background job that is not in the compiler, and continues for a while after it was told to
 * end. */
static void work_until_the_end(void *unused, const void *job)
{
    (void)unused;
    (void)job;
    begun++;
    while (!limber_background_ending())
        sched_yield();
    usleep(50000);
    made++;
}

/* Returns where the stand-in compiler's code is. */
static struct code_range its_code(void *unused)
{
    (void)unused;
    return (struct code_range){ (uintptr_t)__start_compiler, (uintptr_t)__stop_compiler };
}

/* The thread of jobs that is stopped at exit, and the number of urgent signals. */
static struct background *stopped;
static atomic_int urgent;

static void count_urgent(int signal)
{
    (void)signal;
    urgent++;
}

/* Exit function: the job must have been abandoned in the compiler. */
static void check_abandoned(void)
{
    _exit(made == 0 ? 0 : 1);
}

/* Exit function: the job must have ended by itself, without an urgent signal. */
static void check_ended(void)
{
    _exit(made == 1 && urgent == 0 ? 0 : 1);
}

/* Exit function: frees the queue while its job is still in the compiler. */
static void free_queue(void)
{
    limber_background_free(stopped);
    _exit(made == 0 ? 0 : 1);
}

/* Exit function: lets the job leave the compiler; freeing the queue must wait for the job. */
static void end_job(void)
{
    may_end = 1;
    limber_background_free(stopped);
    _exit(made == 1 ? 0 : 1);
}

/* Exit function: nobody can enter the compiler any more, but the process can fork. */
static void check_fork(void)
{
    struct diag d = { 0 };
    pid_t pid;
    int status;

    if (limber_compile_enter(&with_compiler, NULL, &d) || d.status != LIMBER_STATUS_DEVICE)
        _exit(2);
    pid = fork();
    if (pid == 0)
        _exit(0);
    _exit(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
}

static struct kernel_cache *entries;

/* Makes a cache entry. wait: if not NULL, the function first stays in the compiler until the
 * test tells it to leave. */
static bool make_entry(void *wait, struct entry *e, struct diag *d)
{
    (void)d;
    e->backend = &counted;
    if (wait)
        compile_until_told(NULL, NULL);
    return true;
}

/* A background job that makes a cache entry slowly. */
static void make_slowly(void *unused, const void *job)
{
    struct diag d = { 0 };
    struct entry *e;
    bool found;

    (void)unused;
    limber_kernels_get(entries, job, sizeof(int), (struct kernel_maker){ make_entry, &begun }, &e,
                       &found, &d);
}

/* Exit function: the stopped thread never makes the entry, so this thread makes it. */
static void make_it_anew(void)
{
    struct diag d = { 0 };
    struct entry *e;
    bool found = true;

    if (!limber_kernels_get(entries, &(int){ 1 }, sizeof(int),
                            (struct kernel_maker){ make_entry, NULL }, &e, &found, &d))
        _exit(1);
    _exit(found || made ? 2 : 0);
}

/* Thread: after the first thread has exited, lets the job leave the compiler and requests
 * another job. */
static void *ask_for_another(void *unused)
{
    (void)unused;
    while (first_thread_is_there())
        usleep(1000);
    may_end = 1;
    while (limber_background_ask(stopped, &(int){ 2 }, sizeof(int)) && made < 2)
        usleep(1000);
    _exit(made >= 2 ? 0 : 1);
}

/* Ends a child process while a job is in the compiler. leaves: NULL; or the function of a thread
 * that continues after the child's first thread has ended.  `first` and `last` run before and
 * after the library's exit function. */
static void end_while_at_work(void (*make)(void *, const void *), void (*first)(void),
                              void (*last)(void), void *(*leaves)(void *))
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t other;

        alarm(100);
        entries = limber_kernels_new(4);
        if (last)
            atexit(last);
        stopped = limber_background_new(make, NULL, its_code);
        if (!stopped || !limber_background_ask(stopped, &(int){ 1 }, sizeof(int)) ||
            (leaves && pthread_create(&other, NULL, leaves, NULL)))
            _exit(3);
        while (!begun)
            sched_yield();
        if (leaves)
            pthread_exit(NULL);
        if (first)
            atexit(first);
        exit(4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_process_ends_while_its_compiler_is_at_work(void **state)
{
    (void)state;
    end_while_at_work(compile_until_told, NULL, check_abandoned, NULL);
}

static void a_process_waits_for_code_outside_the_compiler(void **state)
{
    (void)state;
    end_while_at_work(work_until_the_end, NULL, check_ended, NULL);
}

/* Exit functions that run before and after the library's own may still use the library, although
 * the thread in its compiler was stopped. */
static void no_thread_waits_for_a_stopped_compiler(void **state)
{
    (void)state;
    end_while_at_work(compile_until_told, end_job, NULL, NULL);
    end_while_at_work(compile_until_told, NULL, free_queue, NULL);
    end_while_at_work(compile_until_told, NULL, check_fork, NULL);
    end_while_at_work(make_slowly, NULL, make_it_anew, NULL);
    end_while_at_work(compile_until_told, NULL, NULL, ask_for_another);
}

/* A signal handler that the program has installed is not replaced. */
static void the_programs_signal_handler_is_kept(void **state)
{
    const struct sigaction theirs = { .sa_handler = count_urgent };
    struct sigaction before;

    (void)state;
    sigaction(SIGURG, &theirs, &before);
    end_while_at_work(work_until_the_end, NULL, check_ended, NULL);
    sigaction(SIGURG, &before, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interpreter_serves_until_the_kernel_is_there),
        cmocka_unit_test(a_refused_call_leaves_c_alone),
        cmocka_unit_test(other_kernels_stay_available),
        cmocka_unit_test(a_kernel_on_disk_is_waited_for),
        cmocka_unit_test(a_failed_compilation_is_reported),
        cmocka_unit_test(a_failed_call_restores_c),
        cmocka_unit_test(bits_do_not_depend_on_who_computes),
        cmocka_unit_test(a_process_may_end_at_any_time),
        cmocka_unit_test(a_process_ends_without_queued_compilations),
        cmocka_unit_test(kernels_are_compiled_after_the_first_thread_has_exited),
        cmocka_unit_test(jobs_are_done_after_a_forked_first_thread),
        cmocka_unit_test(a_process_ends_while_its_compiler_is_at_work),
        cmocka_unit_test(a_process_waits_for_code_outside_the_compiler),
        cmocka_unit_test(no_thread_waits_for_a_stopped_compiler),
        cmocka_unit_test(the_programs_signal_handler_is_kept),
        cmocka_unit_test(a_forked_child_can_compute),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
