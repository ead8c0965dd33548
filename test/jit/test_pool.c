/* SPDX-License-Identifier: BSD-3-Clause
 * The thread pool runs every task once, for any number of concurrent callers.  Threads share
 * contexts and their objects. */
#define _GNU_SOURCE
#include "contexts.h"
#include "engine_support.h"

#include "jit/tasks.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

enum { TASKS = 1000 };

/* Counts how often each task was done.  bad_worker: a call had a worker number out of range. */
struct tally {
    atomic_int done[TASKS];
    atomic_int bad_worker;
    int workers;
};

/* Task of the pool: counts itself, and checks the worker's number. */
static void note_task(void *arg, int64_t task, int worker)
{
    struct tally *t = arg;

    t->done[task]++;
    if (worker < 0 || worker >= t->workers)
        t->bad_worker = 1;
}

/* Runs tasks on the pool and checks that each runs once, on a worker that exists. */
static void run_once(struct pool *p, int tasks)
{
    struct runner r = limber_pool_runner(p);
    struct tally *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->workers = r.workers;
    r.run(r.self, tasks, note_task, t);
    for (int i = 0; i < TASKS; i++)
        if (t->done[i] != (i < tasks))
            fail_msg("task %d of %d was done %d times", i, tasks, t->done[i]);
    assert_int_equal(t->bad_worker, 0);
    free(t);
}

/* Pools of 1, 5 and 9 threads do each of up to 20, or TASKS, tasks exactly once. */
static void every_task_is_done_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 9; threads += 4) {
        struct pool *p = limber_pool_new(threads, false);

        for (int tasks = 0; tasks <= 20; tasks++)
            run_once(p, tasks);
        for (int i = 0; i < 50; i++)
            run_once(p, TASKS);
        limber_pool_free(p);
    }
}

/* A barrier for tasks that wait for each other, so that they end only if each runs in a thread
 * of its own. */
struct meeting {
    pthread_barrier_t at;
};

/* Task that ends only when every worker has begun one. */
static void meet_others(void *arg, int64_t task, int worker)
{
    struct meeting *m = arg;

    (void)task, (void)worker;
    pthread_barrier_wait(&m->at);
}

/* The CPUs on which each worker may run.  There are as many tasks as threads, which wait for
 * each other, so that each thread runs one task. */
enum { MOST = 4 };
struct cpus {
    struct meeting meeting;
    cpu_set_t set[MOST];
};

/* Task that stores on which CPUs its worker may run, and waits for the other tasks. */
static void ask_cpus(void *arg, int64_t task, int worker)
{
    struct cpus *c = arg;

    (void)task;
    assert_int_equal(sched_getaffinity(0, sizeof c->set[worker], &c->set[worker]), 0);
    pthread_barrier_wait(&c->meeting.at);
}

/* Asks each worker once on which CPUs it may run. */
static void ask_all_cpus(struct pool *p, struct cpus *c)
{
    struct runner r = limber_pool_runner(p);

    pthread_barrier_init(&c->meeting.at, NULL, (unsigned)r.workers);
    alarm(60);
    r.run(r.self, r.workers, ask_cpus, c);
    alarm(0);
    pthread_barrier_destroy(&c->meeting.at);
}

/* Returns the CPUs on which the test may run.  Skips the test if there is only one. */
static cpu_set_t own_cpus(void)
{
    cpu_set_t own;

    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    if (CPU_COUNT(&own) < 2) {
        skip_because("one CPU: nothing to choose");
    }
    return own;
}

/* Each worker of a pinned pool is bound to a CPU of its own; the caller, which is worker 0, is
 * not bound. */
static void pinned_workers_have_a_cpu_each(void **state)
{
    cpu_set_t own = own_cpus();
    int threads = CPU_COUNT(&own) < MOST ? CPU_COUNT(&own) : MOST;
    struct pool *p = limber_pool_new(threads, true);
    cpu_set_t used, both;
    struct cpus c;

    (void)state;
    ask_all_cpus(p, &c);
    assert_true(CPU_EQUAL(&c.set[0], &own)); /* worker 0 is the caller */
    CPU_ZERO(&used);
    for (int w = 1; w < threads; w++) {
        assert_int_equal(CPU_COUNT(&c.set[w]), 1);
        CPU_AND(&both, &c.set[w], &own);
        assert_int_equal(CPU_COUNT(&both), 1);
        CPU_OR(&used, &used, &c.set[w]);
    }
    assert_int_equal(CPU_COUNT(&used), threads - 1);
    limber_pool_free(p);
}

/* Workers may use all CPUs if pinning is off, or if there are more threads than CPUs. */
static void workers_are_not_pinned_otherwise(void **state)
{
    cpu_set_t own = own_cpus();

    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        /* the second pool is asked to pin more threads than there are CPUs */
        int threads = pinned ? CPU_COUNT(&own) + 1 : 2;
        struct pool *p = threads <= MOST ? limber_pool_new(threads, pinned) : NULL;
        struct cpus c;

        if (!p)
            continue;
        ask_all_cpus(p, &c);
        for (int w = 0; w < threads; w++)
            assert_true(CPU_EQUAL(&c.set[w], &own));
        limber_pool_free(p);
    }
}

/* If the caller is bound to one CPU, workers do not inherit this, and the caller stays bound. */
static void workers_do_not_inherit_a_bound_caller(void **state)
{
    cpu_set_t own = own_cpus(), one;
    struct pool *p = limber_pool_new(2, false);
    struct cpus c;
    int cpu = 0;

    (void)state;
    while (!CPU_ISSET(cpu, &own))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    ask_all_cpus(p, &c);
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
    assert_true(CPU_EQUAL(&c.set[0], &one));
    assert_true(CPU_EQUAL(&c.set[1], &own));
    limber_pool_free(p);
}

/* LIMBER_PIN=1 binds workers to CPUs; 0 or no value does not; another value is refused. */
static void the_environment_pins(void **state)
{
    static const char *const value[] = { NULL, "0", "1" };
    cpu_set_t own = own_cpus();
    limber_context *ctx;

    (void)state;
    for (size_t i = 0; i < COUNT(value); i++) {
        struct cpus c;

        value[i] ? setenv("LIMBER_PIN", value[i], 1) : unsetenv("LIMBER_PIN");
        ctx = counted_context(
            &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .threads = 2 });
        ask_all_cpus(ctx->pool, &c);
        assert_true(CPU_EQUAL(&c.set[0], &own));
        assert_int_equal(CPU_COUNT(&c.set[1]), i == 2 ? 1 : CPU_COUNT(&own));
        limber_destroy(ctx);
    }
    setenv("LIMBER_PIN", "yes", 1);
    assert_refused(
        limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .threads = 2 }),
        LIMBER_STATUS_BAD_ARGUMENT, "LIMBER_PIN");
    unsetenv("LIMBER_PIN");
}

/* A pool that is used in an OpenMP parallel region, where it must run tasks on the calling thread
 * only. */
struct region {
    struct pool *pool;
    atomic_int runs, on_other_threads;
};
/* A call of the pool from one thread of the region. */
struct alone {
    struct region *region;
    pthread_t caller;
};

/* Task that counts if it runs on another thread than the caller's. */
static void count_other_threads(void *arg, int64_t task, int worker)
{
    struct alone *a = arg;

    (void)task;
    if (worker != 0 || !pthread_equal(pthread_self(), a->caller))
        a->region->on_other_threads++;
}

/* Runs in each thread of an OpenMP parallel region: the pool must run its tasks on that thread. */
static void run_in_region(void *arg)
{
    struct region *g = arg;
    struct runner r = limber_pool_runner(g->pool);

    for (int i = 0; i < 20; i++)
        r.run(r.self, 50, count_other_threads, &(struct alone){ g, pthread_self() });
    g->runs++;
}

/* Called within an OpenMP region, a pool does not use its own threads: all tasks run in the calling
 * thread. */
static void openmp_has_its_own_threads(void **state)
{
    void *library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = NULL;
    struct region g = { .pool = limber_pool_new(3, false) };

    (void)state;
    if (library)
        *(void **)&parallel = dlsym(library, "GOMP_parallel");
    if (!parallel) {
        limber_pool_free(g.pool);
        skip_because("no libgomp here");
    }
    parallel(run_in_region, &g, 2, 0);
    assert_true(g.runs >= 1);
    if (g.runs > 1) /* if not, OpenMP granted one thread only */
        assert_int_equal(g.on_other_threads, 0);
    run_once(g.pool, TASKS); /* outside of a region all threads work */
    limber_pool_free(g.pool);
}

/* Three tasks that wait for each other at a barrier all end: they run at the same time. */
static void tasks_run_side_by_side(void **state)
{
    struct pool *p = limber_pool_new(3, false);
    struct runner r = limber_pool_runner(p);
    struct meeting m;

    (void)state;
    pthread_barrier_init(&m.at, NULL, 3);
    alarm(60); /* fails instead of waiting forever */
    r.run(r.self, 3, meet_others, &m);
    alarm(0);
    pthread_barrier_destroy(&m.at);
    limber_pool_free(p);
}

/* A pool whose tasks run tasks themselves. */
struct nest {
    struct pool *pool;
    atomic_int inner;
};

static void run_inner(void *arg, int64_t task, int worker)
{
    struct nest *n = arg;

    (void)task, (void)worker;
    n->inner++;
}

/* Task that itself runs tasks on the same pool. */
static void run_outer(void *arg, int64_t task, int worker)
{
    struct nest *n = arg;
    struct runner r = limber_pool_runner(n->pool);

    (void)task, (void)worker;
    r.run(r.self, 10, run_inner, n);
}

/* A task of the pool may itself run tasks on the pool; all of them are done. */
static void nested_runs_complete(void **state)
{
    struct nest n = { .pool = limber_pool_new(4, false) };
    struct runner r = limber_pool_runner(n.pool);

    (void)state;
    r.run(r.self, 20, run_outer, &n);
    assert_int_equal(n.inner, 200);
    limber_pool_free(n.pool);
}

/* Thread: runs 100 tasks 100 times on a pool that other threads use, too. */
static void *many_runs(void *arg)
{
    for (int i = 0; i < 100; i++)
        run_once(arg, 100);
    return NULL;
}

/* Six threads use one pool at the same time; each thread's tasks are done exactly once. */
static void threads_share_a_pool(void **state)
{
    struct pool *p = limber_pool_new(3, false);
    pthread_t thread[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        pthread_create(&thread[i], NULL, many_runs, p);
    for (int i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    limber_pool_free(p);
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Workers without work take less than 0.05 s of CPU time in 0.3 s. */
static void idle_threads_do_not_spin(void **state)
{
    struct pool *p = limber_pool_new(4, false);
    double used = 1;

    (void)state;
    run_once(p, TASKS);
    /* if other programs run, it may take a while until all workers sleep */
    for (int i = 0; i < 20 && used >= 0.05; i++) {
        const double before = cpu_seconds();

        usleep(300000);
        used = cpu_seconds() - before;
    }
    assert_true(used < 0.05);
    limber_pool_free(p);
}

/* The pool's threads do not exist in a forked child, but the child can still compute and exit. */
static void a_forked_child_can_compute(void **state)
{
    limber_context *ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .threads = 4 });
    int status;
    pid_t pid;

    (void)state;
    run_once(ctx->pool, TASKS);
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_STATUS_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        run_once(ctx->pool, TASKS);
        status = small_gemm(ctx, NULL);
        limber_destroy(ctx);
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    run_once(ctx->pool, TASKS);
    limber_destroy(ctx);
}

/* Thread: multiplies 50 times.  Returns NULL on success. */
static void *many_calls(void *arg)
{
    for (int i = 0; i < 50; i++)
        if (small_gemm(arg, NULL) != LIMBER_STATUS_OK)
            return arg;
    return NULL;
}

/* Eight threads call one context at once: all results are right, and the kernel is compiled
 * once. */
static void threads_share_a_context(void **state)
{
    limber_context *ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .threads = 3 });
    pthread_t thread[8];

    (void)state;
    compiles = 0;
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, many_calls, ctx);
    for (int i = 0; i < 8; i++) {
        void *answer;

        pthread_join(thread[i], &answer);
        assert_null(answer);
    }
    assert_int_equal(compiles, 1);
    limber_destroy(ctx);
}

/* Fills an operand with pseudo-random bytes.  width: size of a float, whose exponents are kept near
 * 1, so that all are finite; 1: integers. */
static void fill_bytes(unsigned char *data, size_t size, size_t width)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (unsigned char)(x >> 24);
        if (width > 1 && i % width == width - 1) /* the top byte: sign, and an exponent near 1 */
            data[i] = (unsigned char)((data[i] & 0x80) | 0x3f);
    }
}

/* Checks that a product has the same bits with one thread and with several. */
static void compare_thread_counts(const char *in, const char *out, limber_promise promise,
                                  int64_t K)
{
    enum { M = 133, N = 271 };
    limber_format fi, fo;
    unsigned char *a, *b, *c[2];
    size_t size;

    assert_int_equal(limber_format_named(in, &fi), LIMBER_STATUS_OK);
    assert_int_equal(limber_format_named(out, &fo), LIMBER_STATUS_OK);
    size = (size_t)M * N * fo.size;
    a = malloc((size_t)(M * K) * fi.size);
    b = malloc((size_t)(K * N) * fi.size);
    c[0] = malloc(size);
    c[1] = malloc(size);
    fill_bytes(a, (size_t)(M * K) * fi.size, fi.size);
    fill_bytes(b, (size_t)(K * N) * fi.size, fi.size);
    for (int threads = 1; threads <= 4; threads++) {
        limber_context *ctx;
        limber_contract contract = { .size = sizeof(limber_contract), .promise = promise };
        unsigned char *to = c[threads > 1];

        assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                               .cache_dir = "",
                                                               .threads = threads }),
                         LIMBER_STATUS_OK);
        memset(to, threads, size);
        if (limber_gemm(ctx, &contract, M, N, K, NULL, (limber_matrix){ a, fi, K, 1 },
                        (limber_matrix){ b, fi, N, 1 }, NULL, (limber_output){ to, fo, N, 1 },
                        NULL) != LIMBER_STATUS_OK)
            fail_msg("%s with %d threads: %s", in, threads, limber_error_text());
        if (threads > 1 && memcmp(c[0], c[1], size))
            fail_msg("%s: %d threads give other bits than one", in, threads);
        limber_destroy(ctx);
    }
    free(a);
    free(b);
    free(c[0]);
    free(c[1]);
}

/* Products that all threads share have the bits of one thread, in five combinations of format and
 * contract. */
static void threads_do_not_change_bits(void **state)
{
    (void)state;
    /* k is so long that all threads share each of these products */
    compare_thread_counts("f64", "f64", LIMBER_CONTRACT_NATIVE, 400);
    compare_thread_counts("f32", "f32", LIMBER_CONTRACT_NATIVE, 800);
    compare_thread_counts("f64", "f64", LIMBER_CONTRACT_CORRECT, 190);
    compare_thread_counts("f128", "f128", LIMBER_CONTRACT_CORRECT, 190);
    compare_thread_counts("i8", "i32", LIMBER_CONTRACT_NATIVE, 3000);
}

enum { GROUPS = 40, VECTORS = 3, LINES = 200 };

/* Pieces of a call that were computed. */
struct divided {
    atomic_int done[GROUPS][VECTORS][LINES]; /* how often each line was computed */
    atomic_int pieces;
    atomic_llong longest; /* lines of the longest piece */
};

/* Counts the lines of a piece, and keeps the longest piece. */
static void note_piece(void *arg, const struct piece *w)
{
    struct divided *x = arg;
    const long long lines = w->end - w->first;

    for (int64_t i = w->first; i < w->end; i++)
        x->done[w->group][w->vector][i]++;
    x->pieces++;
    for (long long before = x->longest; before < lines;)
        if (atomic_compare_exchange_weak(&x->longest, &before, lines))
            break;
}

/* Divides a call and checks that each line of each group and vector is computed once. */
static void divide(limber_context *ctx, const struct division *how, struct divided *x)
{
    memset(x, 0, sizeof *x);
    limber_run_pieces(ctx, how, note_piece, x);
    for (int64_t g = 0; g < GROUPS; g++)
        for (int64_t v = 0; v < VECTORS; v++)
            for (int64_t i = 0; i < LINES; i++)
                if (x->done[g][v][i] != (g < how->groups && v < how->vectors && i < how->lines))
                    fail_msg("line %d of group %d, vector %d was computed %d times", (int)i, (int)g,
                             (int)v, x->done[g][v][i]);
    if (how->most && x->longest > how->most)
        fail_msg("a piece has %lld lines", (long long)x->longest);
}

/* Every line of a call is computed once, however long the call is, and short calls and those on one
 * thread are not divided. */
static void every_line_is_computed_once(void **state)
{
    struct divided *x = calloc(1, sizeof *x);
    struct rng r = { 5 };

    (void)state;
    assert_non_null(x);
    for (int threads = 1; threads <= 3; threads++) {
        limber_context *ctx = planless_context(LIMBER_KERNELS_PREBUILT, threads, true);

        for (int i = 0; i < 60; i++)
            divide(ctx,
                   &(struct division){ .groups = 1 + rng_below(&r, GROUPS),
                                       .lines = 1 + rng_below(&r, LINES),
                                       .vectors = 1 + rng_below(&r, VECTORS),
                                       .most = rng_below(&r, 2) ? 1 + rng_below(&r, 64) : 0,
                                       .seconds = ldexp(1, rng_below(&r, 24) - 24) },
                   x);
        divide(ctx, &(struct division){ .groups = 1, .lines = 200, .vectors = 1, .seconds = 1e-5 },
               x);
        assert_int_equal(x->pieces, 1);
        divide(ctx, &(struct division){ .groups = 1, .lines = 200, .vectors = 1, .seconds = 1 }, x);
        assert_int_equal(x->pieces, threads == 1 ? 1 : threads == 2 ? 16 : 23);
        limber_destroy(ctx);
    }
    free(x);
}

/* Thread: fails, and checks that its own error text says why. */
static void *fails_alone(void *arg)
{
    (void)arg;
    limber_create(NULL, NULL);
    return strstr(limber_error_text(), "ctx is NULL") ? NULL : (void *)1;
}

/* Another thread's error must not replace this thread's error text. */
static void error_texts_are_each_threads_own(void **state)
{
    limber_context *ctx;
    pthread_t thread;
    void *answer;

    (void)state;
    limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .threads = -7 });
    pthread_create(&thread, NULL, fails_alone, NULL);
    pthread_join(thread, &answer);
    assert_null(answer);
    assert_non_null(strstr(limber_error_text(), "threads = -7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once),
        cmocka_unit_test(tasks_run_side_by_side),
        cmocka_unit_test(pinned_workers_have_a_cpu_each),
        cmocka_unit_test(workers_are_not_pinned_otherwise),
        cmocka_unit_test(workers_do_not_inherit_a_bound_caller),
        cmocka_unit_test(the_environment_pins),
        cmocka_unit_test(openmp_has_its_own_threads),
        cmocka_unit_test(nested_runs_complete),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(idle_threads_do_not_spin),
        cmocka_unit_test(a_forked_child_can_compute),
        cmocka_unit_test(threads_share_a_context),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(every_line_is_computed_once),
        cmocka_unit_test(error_texts_are_each_threads_own),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
