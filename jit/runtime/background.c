/* SPDX-License-Identifier: BSD-3-Clause
 * The background thread, which makes kernels while calls go on, and what happens to it when the
 * process ends. */
#define _GNU_SOURCE /* gettid */
#include "jit/runtime/runtime.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Guards `working`, which all contexts share. */
static pthread_mutex_t working_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t working_changed = PTHREAD_COND_INITIALIZER;
static struct background *working; /* list of background threads that are running a job */
static atomic_bool ending, any_stopped;

/* A job that waits for the background thread.  Its key, of `size` bytes, identifies and describes
 * it. */
struct queued_job {
    struct queued_job *next;
    struct timespec asked; /* time at which the job was queued */
    size_t size;
    unsigned char key[];
};

/* A background thread and its queue. */
struct background {
    void (*make)(void *user, const void *key);
    void *user;
    struct code_range (*compiler)(void *user); /* the code in which the thread may be stopped */
    struct background *next; /* next in `working`; guarded by working_lock */
    int id; /* the thread's gettid */
    bool stopped, gone; /* stopped for ever; ended; guarded by working_lock */
    struct at_fork at_fork;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    struct queued_job *jobs; /* queue; the first job is running */
    bool started, leave;
    pthread_t thread;
};

/* ---- the end of the process ------------------------------------------------------------------ */

/* Stops those threads that are running a job and can be stopped.  True if another one is still
 * working. working_lock is held. */
static bool stop_or_find_working(void)
{
    bool some = false;

    for (struct background *b = working; b; b = b->next) {
        if (b->stopped || b->id == (int)gettid())
            continue;
        b->stopped = b->compiler && limber_stop(b->id, b->compiler(b->user));
        if (b->stopped) {
            atomic_store(&any_stopped, true);
            limber_compile_forget();
        } else {
            some = true;
        }
    }
    return some;
}

/* Seconds to wait at the end of the process, longer than any compilation.  A thread that compiles
 * even longer would use tables of libLLVM that destructors have freed, and might never end.  The
 * program's own threads are not stopped, because code that runs later may wait for them. */
static const double patience = 20;

/* Exit handler.  Drops jobs that have not begun, stops the library's own threads that are executing
 * the compiler's code, and waits at most `patience` seconds for the program's threads that
 * compile. */
static void end_compilers(void)
{
    const struct timespec moment = { 0, 100000 };
    static double until; /* set by the first of several calls */

    until = until > 0 ? until : limber_now() + patience;
    limber_compile_refuse();
    atomic_store(&ending, true);
    pthread_mutex_lock(&working_lock);
    while ((stop_or_find_working() || limber_compile_goes_on()) && limber_now() < until) {
        pthread_mutex_unlock(&working_lock);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&working_lock);
    }
    pthread_cond_broadcast(&working_changed);
    pthread_mutex_unlock(&working_lock);
}

/* Registers the exit handler.  A process that ends runs libLLVM's destructors, those registered
 * last first, while other threads still run.  libLLVM registers them when it is opened, and when it
 * compiles for the first time; limber_llvm_open() makes it do both.  So this handler is registered
 * after them, and again after each kernel, in case that kernel was the first to need another
 * destructor. */
static void register_exit_handler(void)
{
    atexit(end_compilers);
}

/* ---- the background thread ------------------------------------------------------------------- */

/* Registers this thread as working, and lets end_compilers stop it by a signal.  False if the
 * process has begun to end. */
static bool begin_job(struct background *b)
{
    bool ok;

    pthread_mutex_lock(&working_lock);
    ok = !atomic_load(&ending);
    if (ok) {
        limber_stop_allow(true);
        b->next = working;
        working = b;
    }
    pthread_mutex_unlock(&working_lock);
    return ok;
}

/* Removes b from the list of background threads that do a job, and wakes those who wait for the
 * list.  After this the thread may no longer be stopped. */
static void end_job(struct background *b)
{
    struct background **at = &working;

    pthread_mutex_lock(&working_lock);
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    pthread_cond_broadcast(&working_changed);
    pthread_mutex_unlock(&working_lock);
    limber_stop_allow(false);
}

/* The background thread: runs jobs in the order in which they were queued, until `leave` is set. */
static void *background_loop(void *arg)
{
    struct background *b = arg;

    b->id = (int)gettid();
    pthread_mutex_lock(&b->lock);
    while (!b->leave) {
        struct queued_job *first = b->jobs;

        if (!first) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        pthread_mutex_unlock(&b->lock);
        if (begin_job(b)) {
            b->make(b->user, first->key);
            end_job(b);
        }
        pthread_mutex_lock(&b->lock);
        b->jobs = first->next;
        free(first);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    pthread_mutex_lock(&working_lock);
    b->gone = true;
    pthread_cond_broadcast(&working_changed);
    pthread_mutex_unlock(&working_lock);
    return NULL;
}

/* Starts the background thread, unless it runs.  Returns false if that fails. */
static bool start_thread(struct background *b)
{
    if (!b->started)
        register_exit_handler(); /* the process waits at its end for every kind of job */
    b->started = b->started || limber_thread(&b->thread, background_loop, b);
    return b->started;
}

/* True once the process has begun to end.  From then on no job is begun. */
bool limber_background_ending(void)
{
    return atomic_load(&ending);
}

/* True if a background thread was stopped, so that its job will never be done. */
bool limber_background_stopped(void)
{
    return atomic_load(&any_stopped);
}

/* Resets the queue in a forked child, which has no background thread. */
static void in_child(void *self)
{
    struct background *b = self;

    pthread_cond_init(&b->changed, NULL);
    pthread_mutex_init(&working_lock, NULL);
    pthread_cond_init(&working_changed, NULL);
    working = NULL;
    b->jobs = NULL; /* leaked, since the first job may be half done */
    b->started = false;
}

/* Makes the queue of a background thread, which starts with the first job. make: does a job.
 * compiler: the code in which a thread may be stopped. */
struct background *limber_background_new(void (*make)(void *user, const void *key), void *user,
                                         struct code_range (*compiler)(void *user))
{
    struct background *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->make = make;
    b->user = user;
    b->compiler = compiler;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->at_fork = (struct at_fork){ &b->lock, in_child, b };
    limber_compile_at_end(register_exit_handler);
    limber_at_fork(&b->at_fork);
    return b;
}

/* Waits until the thread has ended.  False if the thread was stopped, so that it never ends. */
static bool join_thread(struct background *b)
{
    bool gone;

    pthread_mutex_lock(&working_lock);
    while (!b->gone && !b->stopped)
        pthread_cond_wait(&working_changed, &working_lock);
    gone = b->gone;
    pthread_mutex_unlock(&working_lock);
    return gone && pthread_join(b->thread, NULL) == 0;
}

/* Ends the thread and frees its queue.  The memory is leaked if the thread had to be stopped. */
void limber_background_free(struct background *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->leave = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (b->started && !join_thread(b))
        return; /* leaked, since the stopped thread may use this memory */
    limber_at_fork_no_more(&b->at_fork);
    while (b->jobs) {
        struct queued_job *next = b->jobs->next;

        free(b->jobs);
        b->jobs = next;
    }
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    free(b);
}

/* ---- asking for jobs ------------------------------------------------------------------------- */

/* Returns the link to the job with this key in the queue; *result is NULL if there is none. */
static struct queued_job **find_job(struct background *b, const void *key, size_t size)
{
    struct queued_job **at = &b->jobs;

    while (*at && ((*at)->size != size || memcmp((*at)->key, key, size)))
        at = &(*at)->next;
    return at;
}

/* Queues a job unless it is queued already.  False if no thread or memory is available, or the
 * process is ending. */
bool limber_background_ask(struct background *b, const void *key, size_t size)
{
    struct queued_job **at, *new;
    bool ok;

    if (atomic_load(&ending))
        return false;
    pthread_mutex_lock(&b->lock);
    at = find_job(b, key, size);
    ok = *at || start_thread(b);
    if (!*at && ok) {
        new = calloc(1, sizeof *new + size);
        if (new) {
            new->size = size;
            clock_gettime(CLOCK_REALTIME, &new->asked);
            memcpy(new->key, key, size);
            *at = new;
            pthread_cond_broadcast(&b->changed);
        }
        ok = new != NULL;
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

/* Returns the time t + seconds. */
static struct timespec add_seconds(struct timespec t, double seconds)
{
    t.tv_nsec += (long)(seconds * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Waits until a job is done, or `seconds` after it was asked for.  Returns true if it is still
 * queued. */
bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds)
{
    struct queued_job *job;

    pthread_mutex_lock(&b->lock);
    while ((job = *find_job(b, key, size))) {
        struct timespec until = add_seconds(job->asked, seconds);

        if (pthread_cond_timedwait(&b->changed, &b->lock, &until) != 0)
            break;
    }
    pthread_mutex_unlock(&b->lock);
    return job != NULL;
}
