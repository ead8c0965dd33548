/* SPDX-License-Identifier: BSD-3-Clause
 * The pool does every task once, whoever calls it from wherever; contexts and what they hand out
 * are shared by threads. */
#define _GNU_SOURCE
#include "engine_support.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

enum { TASKS = 1000 };

struct tally {
    atomic_int done[TASKS];
    atomic_int bad_worker;
    int workers;
};

static void count(void *arg, int64_t task, int worker)
{
    struct tally *t = arg;

    t->done[task]++;
    if (worker < 0 || worker >= t->workers)
        t->bad_worker = 1;
}

static void run_once(struct pool *p, int tasks)
{
    struct runner r = limber_pool_runner(p);
    struct tally *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->workers = r.workers;
    r.run(r.self, tasks, count, t);
    for (int i = 0; i < TASKS; i++)
        if (t->done[i] != (i < tasks))
            fail_msg("task %d of %d was done %d times", i, tasks, t->done[i]);
    assert_int_equal(t->bad_worker, 0);
    free(t);
}

static void every_task_is_done_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 9; threads += 4) {
        struct pool *p = limber_pool_new(threads);

        for (int tasks = 0; tasks <= 20; tasks++)
            run_once(p, tasks);
        for (int i = 0; i < 50; i++)
            run_once(p, TASKS);
        limber_pool_free(p);
    }
}

/* Two tasks that wait for each other end only when two threads work. */
struct meeting { pthread_barrier_t at; };

static void meet(void *arg, int64_t task, int worker)
{
    struct meeting *m = arg;

    (void)task, (void)worker;
    pthread_barrier_wait(&m->at);
}

/* How many CPUs each worker may use; two tasks meet so that two threads are asked. */
struct cpus {
    struct meeting meeting;
    int count[2];
};

static void count_cpus(void *arg, int64_t task, int worker)
{
    struct cpus *c = arg;
    cpu_set_t set;

    (void)task;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    c->count[worker] = CPU_COUNT(&set);
    pthread_barrier_wait(&c->meeting.at);
}

static void workers_are_pinned_on_request(void **state)
{
    cpu_set_t before;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2) {
        print_message("one CPU: nothing to pin\n");
        skip();
    }
    for (int asked = 0; asked < 2; asked++) {
        struct pool *p = limber_pool_new(2);
        struct runner r = limber_pool_runner(p);
        struct cpus c = { .count = { 0, 0 } };

        asked ? setenv("LIMBER_PIN", "1", 1) : unsetenv("LIMBER_PIN");
        pthread_barrier_init(&c.meeting.at, NULL, 2);
        r.run(r.self, 2, count_cpus, &c);
        assert_int_equal(c.count[0], CPU_COUNT(&before));
        assert_int_equal(c.count[1], asked ? 1 : CPU_COUNT(&before));
        pthread_barrier_destroy(&c.meeting.at);
        limber_pool_free(p);
    }
    unsetenv("LIMBER_PIN");
}

static void tasks_run_side_by_side(void **state)
{
    struct pool *p = limber_pool_new(3);
    struct runner r = limber_pool_runner(p);
    struct meeting m;

    (void)state;
    pthread_barrier_init(&m.at, NULL, 3);
    alarm(60);                  /* else it would wait for ever */
    r.run(r.self, 3, meet, &m);
    alarm(0);
    pthread_barrier_destroy(&m.at);
    limber_pool_free(p);
}

struct nest { struct pool *pool; atomic_int inner; };

static void inner(void *arg, int64_t task, int worker)
{
    struct nest *n = arg;

    (void)task, (void)worker;
    n->inner++;
}

static void outer(void *arg, int64_t task, int worker)
{
    struct nest *n = arg;
    struct runner r = limber_pool_runner(n->pool);

    (void)task, (void)worker;
    r.run(r.self, 10, inner, n);
}

static void runs_may_be_nested(void **state)
{
    struct nest n = { .pool = limber_pool_new(4) };
    struct runner r = limber_pool_runner(n.pool);

    (void)state;
    r.run(r.self, 20, outer, &n);
    assert_int_equal(n.inner, 200);
    limber_pool_free(n.pool);
}

static void *many_runs(void *arg)
{
    for (int i = 0; i < 100; i++)
        run_once(arg, 100);
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    struct pool *p = limber_pool_new(3);
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

static void nobody_spins_between_runs(void **state)
{
    struct pool *p = limber_pool_new(4);
    double before;

    (void)state;
    run_once(p, TASKS);
    usleep(20000);
    before = cpu_seconds();
    usleep(300000);
    assert_true(cpu_seconds() - before < 0.05);
    limber_pool_free(p);
}

/* The pool's threads do not survive a fork; the child's calls do, and so does its end. */
static void forks(void **state)
{
    limber_context *ctx = counted_context(&(limber_config){ .cache_dir = "", .threads = 4 });
    int status;
    pid_t pid;

    (void)state;
    run_once(ctx->pool, TASKS);
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_OK);
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

static void *many_calls(void *arg)
{
    for (int i = 0; i < 50; i++)
        if (small_gemm(arg, NULL) != LIMBER_OK)
            return arg;
    return NULL;
}

static void threads_share_a_context(void **state)
{
    limber_context *ctx = counted_context(&(limber_config){ .cache_dir = "", .threads = 3 });
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

static void *fails_alone(void *arg)
{
    (void)arg;
    limber_create(NULL, NULL);
    return strstr(limber_error_text(), "ctx is NULL") ? NULL : (void *)1;
}

static void error_texts_are_each_threads_own(void **state)
{
    limber_context *ctx;
    pthread_t thread;
    void *answer;

    (void)state;
    limber_create(&ctx, &(limber_config){ .threads = -7 });
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
        cmocka_unit_test(workers_are_pinned_on_request),
        cmocka_unit_test(runs_may_be_nested),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(nobody_spins_between_runs),
        cmocka_unit_test(forks),
        cmocka_unit_test(threads_share_a_context),
        cmocka_unit_test(error_texts_are_each_threads_own),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
