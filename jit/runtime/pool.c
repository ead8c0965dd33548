/* SPDX-License-Identifier: BSD-3-Clause
 * The thread pool.  Workers sleep on a condition variable between calls.  During a call they first
 * yield a few times after a run, because the next run usually follows soon.  The calling thread
 * works, too, as worker 0.
 *
 * One run uses the workers at a time.  A run executes its tasks on the caller's thread if the
 * workers are busy with another thread's run or an enclosing one, in a parallel region of OpenMP,
 * whose threads occupy the CPUs already, and in a forked process, which has no worker threads.
 *
 * Workers may use the CPUs of the thread that made the pool, whichever thread calls first, because
 * callers are often bound to one CPU. Pinned workers get one of these CPUs each; callers are never
 * moved.  Without pinning the scheduler moves workers to free CPUs, also to the caller's, so that
 * several processes with equal CPU sets do not collide. */
#define _GNU_SOURCE /* for the CPU_ macros */
#include "jit/runtime/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tasks that are assigned to one worker, on cache lines of its own: from `next` to `end`. */
struct share {
    _Alignas(128) _Atomic int64_t next;
    int64_t end;
};

struct pool {
    int threads; /* workers including the caller */
    int started; /* workers started so far, without the caller */
    pid_t pid;
    bool pinned;
    cpu_set_t cpus; /* CPUs of the thread that made the pool; empty if unknown */
    int here; /* the CPU on which the first caller ran */
    /* set while a run uses the workers */
    atomic_flag taken;
    struct openmp *openmp; /* used by the thread that has set `taken` */
    atomic_int calls; /* number of calls in progress */
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    _Atomic uint64_t run; /* number of the current run, which the fields below describe */
    atomic_bool leave;
    int wanted; /* workers 1 to `wanted` take part */
    atomic_int busy; /* workers that have not finished */
    struct share *share;        /* [worker] */
    void (*fn)(void *, int64_t, int);
    void *arg;
};

/* The OpenMP runtimes in this process, kept open so that they are not unloaded. */
struct openmp {
    unsigned long long loads; /* number of loaded libraries when runtimes were last searched */
    void *library[4];
    int (*in_parallel[4])(void);
};

struct worker {
    struct pool *pool;
    int index;
};

/* Executes the tasks of a worker's own share, then tasks of other shares.  Thus a worker mostly
 * reads data in the next run that it wrote in this run, and no worker waits for a thread that
 * has no CPU. */
static void run_shares(struct pool *p, int worker)
{
    int shares = p->wanted + 1;

    for (int s = 0; s < shares; s++) {
        struct share *of = &p->share[(worker + s) % shares];

        for (int64_t i;
             atomic_load_explicit(&of->next, memory_order_relaxed) < of->end &&
             (i = atomic_fetch_add_explicit(&of->next, 1, memory_order_relaxed)) < of->end;)
            p->fn(p->arg, i, worker);
    }
}

/* Divides the tasks evenly among the workers that take part. */
static void divide_tasks(struct pool *p, int64_t tasks)
{
    int64_t shares = p->wanted + 1, each = tasks / shares, more = tasks % shares, next = 0;

    for (int64_t s = 0; s < shares; s++) {
        atomic_store_explicit(&p->share[s].next, next, memory_order_relaxed);
        p->share[s].end = next += each + (s < more);
    }
}

enum { YIELDS = 100 }; /* some 30 microseconds on an idle machine */

/* Returns how often a waiting thread yields: 0 if there are more threads than CPUs, because a
 * yielding thread would delay a working one. */
static int yield_count(const struct pool *p)
{
    return CPU_COUNT(&p->cpus) < p->threads ? 0 : YIELDS;
}

/* Yields for a moment, in case another run of the call follows. seen: number of the run that the
 * worker has finished.  The lock is held on entry and return, and released in between. */
static void yield_for_next_run(struct pool *p, uint64_t seen)
{
    pthread_mutex_unlock(&p->lock);
    for (int i = 0, most = yield_count(p); i < most && p->calls > 0 && p->run == seen && !p->leave;
         i++)
        sched_yield();
    pthread_mutex_lock(&p->lock);
}

/* A worker thread: takes part in each run that needs it, until `leave` is set. */
static void *worker_loop(void *arg)
{
    struct worker w = *(struct worker *)arg;
    struct pool *p = w.pool;
    uint64_t seen = 0;

    free(arg);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->leave && (p->run == seen || w.index > p->wanted)) {
            seen = p->run; /* this run does not need the worker */
            pthread_cond_wait(&p->wake, &p->lock);
        }
        if (p->leave)
            break;
        seen = p->run;
        pthread_mutex_unlock(&p->lock);
        run_shares(p, w.index);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
        yield_for_next_run(p, seen);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- a CPU for each worker ------------------------------------------------------------------- */

/* Sets *set to the CPU of this worker, if there is a CPU for each worker: CPU number `worker` of
 * the pool's set, where the first caller's CPU is not counted. */
static void choose_cpu(const struct pool *p, int worker, cpu_set_t *set)
{
    if (CPU_COUNT(&p->cpus) < p->threads)
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &p->cpus) && (int)cpu != p->here && --worker == 0) {
            CPU_ZERO(set);
            CPU_SET(cpu, set);
        }
}

/* Sets a worker's CPUs.  Errors are ignored; the worker then has the CPUs of its creator. */
static void set_affinity(const struct pool *p, int worker)
{
    cpu_set_t set = p->cpus;

    if (CPU_COUNT(&set) == 0)
        return;
    if (p->pinned)
        choose_cpu(p, worker, &set);
    pthread_setaffinity_np(p->thread[worker - 1], sizeof set, &set);
}

/* ---- a caller's parallel region of OpenMP ---------------------------------------------------- */

/* Callback of dl_iterate_phdr: reads how many libraries were loaded so far. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

/* Finds the OpenMP runtimes that are loaded, by their names, because runtimes that modules of other
 * languages load are not in the global scope.  Searches again only if a library was loaded since
 * the last search. */
static void find_openmp(struct openmp *o)
{
    static const char *const name[COUNT(o->library)] = { "libgomp.so.1", "libomp.so.5", "libomp.so",
                                                         "libiomp5.so" };
    unsigned long long loads = 0;

    dl_iterate_phdr(count_loads, &loads);
    if (loads == o->loads)
        return;
    o->loads = loads;
    for (size_t i = 0; i < COUNT(o->library); i++) {
        if (o->library[i] || !(o->library[i] = dlopen(name[i], RTLD_LAZY | RTLD_NOLOAD)))
            continue;
        *(void **)&o->in_parallel[i] = dlsym(o->library[i], "omp_in_parallel");
    }
}

/* True if the caller runs in a parallel region of OpenMP. */
static bool is_in_parallel(struct openmp *o)
{
    find_openmp(o);
    for (size_t i = 0; i < COUNT(o->library); i++)
        if (o->in_parallel[i] && o->in_parallel[i]())
            return true;
    return false;
}

/* Closes the OpenMP runtimes that find_openmp has opened. */
static void openmp_free(struct openmp *o)
{
    for (size_t i = 0; o && i < COUNT(o->library); i++)
        if (o->library[i])
            dlclose(o->library[i]);
    free(o);
}

/* ---- runs of tasks on the workers ------------------------------------------------------------ */

/* Starts the pool's next worker thread.  False if there is no memory for it. */
static bool start_worker(struct pool *p)
{
    struct worker *w = malloc(sizeof *w);

    if (!w)
        return false;
    *w = (struct worker){ p, p->started + 1 };
    if (!limber_thread(&p->thread[p->started], worker_loop, w)) {
        free(w);
        return false;
    }
    p->started++;
    set_affinity(p, p->started);
    return true;
}

/* Starts threads until `wanted` workers run, or as many as the system allows. */
static void start_workers(struct pool *p, int wanted)
{
    if (p->started >= wanted)
        return;
    if (p->started == 0)
        p->here = sched_getcpu();
    while (p->started < wanted && start_worker(p))
        ;
}

/* Runs tasks on the workers and this thread, and waits until all have finished. */
static void run_all(struct pool *p, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    int wanted = p->threads - 1;

    if (wanted > tasks - 1)
        wanted = (int)(tasks - 1);
    pthread_mutex_lock(&p->lock);
    start_workers(p, wanted);
    p->wanted = wanted < p->started ? wanted : p->started;
    p->busy = p->wanted;
    p->fn = fn;
    p->arg = arg;
    divide_tasks(p, tasks);
    p->run++;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    run_shares(p, 0);
    for (int i = 0, most = yield_count(p); i < most && atomic_load(&p->busy) > 0; i++)
        sched_yield();
    pthread_mutex_lock(&p->lock);
    while (p->busy > 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* Runs all tasks on the calling thread. */
static void run_alone(int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* The `run` of struct runner: runs tasks on the workers, or on the caller's thread if these are
 * busy or must not be used. */
static void run_tasks(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    struct pool *p = self;

    if (tasks <= 1 || p->threads == 1 || p->pid != getpid() ||
        atomic_flag_test_and_set_explicit(&p->taken, memory_order_acquire)) {
        run_alone(tasks, fn, arg);
        return;
    }
    if (is_in_parallel(p->openmp)) {
        atomic_flag_clear_explicit(&p->taken, memory_order_release);
        run_alone(tasks, fn, arg);
        return;
    }
    run_all(p, tasks, fn, arg);
    atomic_flag_clear_explicit(&p->taken, memory_order_release);
}

/* Begins a sequence of runs, between which workers yield for a moment before they sleep. */
void limber_pool_enter(struct pool *p)
{
    if (p->threads > 1)
        p->calls++;
}

/* Ends a sequence of runs that limber_pool_enter began. */
void limber_pool_leave(struct pool *p)
{
    if (p->threads > 1)
        p->calls--;
}

/* Makes a pool of `threads` threads, which start when they are needed.  pinned: each runs on one
 * CPU only.  NULL if memory runs out. */
struct pool *limber_pool_new(int threads, bool pinned)
{
    struct pool *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->threads = threads;
    p->pinned = pinned;
    p->pid = getpid();
    p->thread = calloc((size_t)threads, sizeof *p->thread);
    p->share = aligned_alloc(_Alignof(struct share), (size_t)threads * sizeof *p->share);
    p->openmp = calloc(1, sizeof *p->openmp);
    if (!p->thread || !p->share || !p->openmp) {
        free(p->thread);
        free(p->share);
        free(p->openmp);
        free(p);
        return NULL;
    }
    if (sched_getaffinity(0, sizeof p->cpus, &p->cpus) != 0)
        CPU_ZERO(&p->cpus);
    atomic_flag_clear(&p->taken);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    return p;
}

/* Lets all worker threads end, waits for them, and destroys the lock and conditions. */
static void stop_workers(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->leave = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
}

/* Ends the pool's threads and frees it. */
void limber_pool_free(struct pool *p)
{
    if (!p)
        return;
    if (p->pid == getpid()) /* in a forked child the threads and the locks are invalid */
        stop_workers(p);
    openmp_free(p->openmp);
    free(p->thread);
    free(p->share);
    free(p);
}

/* Returns a runner that runs tasks on the pool's threads. */
struct runner limber_pool_runner(struct pool *p)
{
    return (struct runner){ p->threads, run_tasks, p, CPU_COUNT(&p->cpus) };
}
