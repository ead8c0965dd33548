/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels that a thread of its own makes while calls go on. */
#define _GNU_SOURCE     /* gettid */
#include "jit/runtime/runtime.h"

#include <stdatomic.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of all contexts. */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pending_changed = PTHREAD_COND_INITIALIZER;
static int pending;
static struct background *working; /* whose threads are at work */
static atomic_bool ending;      /* the program's first thread has ended */
static atomic_bool any_stopped;

struct job {
    struct job *next;
    struct timespec asked;      /* when */
    size_t size;
    unsigned char key[];
};

struct background {
    void (*make)(void *user, const void *key);
    void *user;
    struct code_range (*compiler)(void *user); /* while it runs this, the thread may be stopped */
    struct background *next;    /* of those at work; pending_lock guards this */
    int id;                     /* the thread's */
    bool stopped;
    struct at_fork at_fork;
    pthread_mutex_t lock;       /* of what follows */
    pthread_cond_t changed;
    struct job *jobs;           /* in order; the first is at work */
    bool started, leave;
    pthread_t thread;
};

/* ---- the end of the process ------------------------------------------------------------------ */

static void add_pending(int jobs)
{
    pthread_mutex_lock(&pending_lock);
    pending += jobs;
    pthread_cond_broadcast(&pending_changed);
    pthread_mutex_unlock(&pending_lock);
}

/* Is there a thread at work that cannot be stopped now?  Under the lock. */
static bool one_goes_on(void)
{
    bool some = false;

    for (struct background *b = working; b; b = b->next)
        if (b->stopped || (b->compiler && limber_stop(b->id, b->compiler(b->user)))) {
            b->stopped = true;
            atomic_store(&any_stopped, true);
        } else {
            some = true;
        }
    return some;
}

/* Leaves the jobs that nobody has begun, and stops each thread as soon as it can be stopped.  Under
 * the lock. */
static void stop_all(void)
{
    const struct timespec moment = { 0, 100000 };

    atomic_store(&ending, true);
    while (one_goes_on()) {
        pthread_mutex_unlock(&pending_lock);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&pending_lock);
    }
}

/* The first thread usually ends with its process, so it stops the others.  Another thread waits
 * for all jobs: whether the process ends with it is not known. */
static void end_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pending_lock);
    if (gettid() == getpid())
        stop_all();
    else
        while (pending > 0)
            pthread_cond_wait(&pending_changed, &pending_lock);
    pthread_mutex_unlock(&pending_lock);
}

/* Did the first thread leave by itself?  Then others go on without it, and it stays as a zombie. */
static bool first_thread_left(void)
{
    char path[64], text[256], *state;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    state = strrchr(text, ')'); /* behind the program's name */
    return state && strncmp(state, ") Z", 3) == 0;
}

void limber_background_go_on(void)
{
    if (!atomic_load(&any_stopped) || (gettid() != getpid() && !first_thread_left()))
        return;
    pthread_mutex_lock(&pending_lock);
    for (struct background *b = working; b; b = b->next)
        if (b->stopped) {
            b->stopped = false;
            limber_stop_end(b->id);
        }
    while (working)
        pthread_cond_wait(&pending_changed, &pending_lock);
    atomic_store(&any_stopped, false);
    pthread_mutex_unlock(&pending_lock);
}

/* The end of a process runs libLLVM's destructors whatever other threads do, the last registered
 * first; only destructors of the thread's own come before.  So threads that have asked look after
 * the kernel at work when they end. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
extern void *__dso_handle;

static void end_after(void)
{
    static _Thread_local bool asked;

    if (!asked && __cxa_thread_atexit_impl)
        __cxa_thread_atexit_impl(end_thread, NULL, &__dso_handle);
    asked = true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool begin(struct background *b)
{
    bool ok;

    pthread_mutex_lock(&pending_lock);
    ok = !atomic_load(&ending);
    if (ok) {
        limber_stop_allow(true);
        b->next = working;
        working = b;
    }
    pthread_mutex_unlock(&pending_lock);
    return ok;
}

static void end(struct background *b)
{
    struct background **at = &working;

    pthread_mutex_lock(&pending_lock);
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    pthread_cond_broadcast(&pending_changed);
    pthread_mutex_unlock(&pending_lock);
    limber_stop_allow(false);
}

static void *loop(void *arg)
{
    struct background *b = arg;

    b->id = (int)gettid();
    pthread_mutex_lock(&b->lock);
    while (!b->leave) {
        struct job *first = b->jobs;

        if (!first) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        pthread_mutex_unlock(&b->lock);
        if (begin(b)) {
            b->make(b->user, first->key);
            end(b);
        }
        pthread_mutex_lock(&b->lock);
        b->jobs = first->next;
        free(first);
        add_pending(-1);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static bool start(struct background *b)
{
    b->started = b->started || limber_thread(&b->thread, loop, b);
    return b->started;
}

bool limber_background_ending(void)
{
    return atomic_load(&ending);
}

/* The thread is not in the child. */
static void in_child(void *self)
{
    struct background *b = self;

    pthread_cond_init(&b->changed, NULL);
    pthread_mutex_init(&pending_lock, NULL);
    pthread_cond_init(&pending_changed, NULL);
    pending = 0;
    working = NULL;
    atomic_store(&ending, false);
    atomic_store(&any_stopped, false);
    b->stopped = false;
    b->jobs = NULL; /* one may have been half way through */
    b->started = false;
}

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
    limber_at_fork(&b->at_fork);
    return b;
}

void limber_background_free(struct background *b)
{
    if (!b)
        return;
    limber_background_go_on();
    pthread_mutex_lock(&b->lock);
    b->leave = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (b->started)
        pthread_join(b->thread, NULL);
    limber_at_fork_no_more(&b->at_fork);
    while (b->jobs) {
        struct job *next = b->jobs->next;

        free(b->jobs);
        b->jobs = next;
        add_pending(-1);
    }
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    free(b);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct job **place_of(struct background *b, const void *key, size_t size)
{
    struct job **at = &b->jobs;

    while (*at && ((*at)->size != size || memcmp((*at)->key, key, size)))
        at = &(*at)->next;
    return at;
}

bool limber_background_ask(struct background *b, const void *key, size_t size)
{
    struct job **at, *new;
    bool ok;

    end_after();
    if (atomic_load(&ending) && first_thread_left()) {
        limber_background_go_on();
        atomic_store(&ending, false);
    }
    pthread_mutex_lock(&b->lock);
    at = place_of(b, key, size);
    ok = *at || start(b);
    if (!*at && ok) {
        new = calloc(1, sizeof *new + size);
        if (new) {
            new->size = size;
            clock_gettime(CLOCK_REALTIME, &new->asked);
            memcpy(new->key, key, size);
            *at = new;
            add_pending(1);
            pthread_cond_broadcast(&b->changed);
        }
        ok = new != NULL;
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

static struct timespec later(struct timespec t, double seconds)
{
    t.tv_nsec += (long)(seconds * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds)
{
    struct job *job;

    pthread_mutex_lock(&b->lock);
    while ((job = *place_of(b, key, size))) {
        struct timespec until = later(job->asked, seconds);

        if (pthread_cond_timedwait(&b->changed, &b->lock, &until) != 0)
            break;
    }
    pthread_mutex_unlock(&b->lock);
    return job != NULL;
}
