/* SPDX-License-Identifier: BSD-3-Clause
 * Compilation, fork and exit. fork waits until no kernel is being compiled, because a child could
 * not release the locks that libLLVM holds during a compilation. fork also acquires every lock of
 * the library, so that the child finds consistent data.  The end of the process waits, too, and
 * prevents further compilation. */
#include "jit/runtime/runtime.h"

#include <stdatomic.h>

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int compiling; /* number of threads that compile; stopped ones do not count */
static bool forking, ended;
static struct at_fork *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int own; /* nesting depth of this thread's compilations */

/* ---- compilers that are being opened -------------------------------------------------------- */

/* A mutex that is held while a compiler is opened.  At exit, destructors run in the reverse order
 * of their registration, but functions that run at a thread's end run before all of them, also in
 * the thread that ends the process.  So every thread locks and unlocks this mutex when it ends, and
 * thereby waits until a compiler is open.  Only functions of libc are registered, which remain if
 * this library is unloaded.  The mutex must remain, too, so it is never freed. */
static pthread_mutex_t *opening; /* NULL if memory ran out */
static pthread_once_t opening_once = PTHREAD_ONCE_INIT;
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));

/* LeakSanitizer's function; NULL if the program is built without it */
extern void __lsan_ignore_object(const void *) __attribute__((weak));

/* Makes the recursive mutex `opening`, which is never freed. */
static void make_opening(void)
{
    pthread_mutexattr_t own_again;

    opening = malloc(sizeof *opening);
    if (!opening)
        return;
    pthread_mutexattr_init(&own_again);
    pthread_mutexattr_settype(&own_again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(opening, &own_again);
    pthread_mutexattr_destroy(&own_again);
    if (__lsan_ignore_object)
        __lsan_ignore_object(opening);
}

/* Makes this thread lock or unlock the mutex `opening` when it ends. */
static void call_at_thread_end(int (*take_or_give)(pthread_mutex_t *))
{
    void (*function)(void *);
    void *library;

    memcpy(&function, &take_or_give, sizeof function);
    memcpy(&library, &take_or_give, sizeof library);
    __cxa_thread_atexit_impl(function, opening, library);
}

/* Makes this thread, when it ends, wait until no other thread is opening a compiler. */
void limber_compile_watch_thread(void)
{
    static _Thread_local bool watched;

    pthread_once(&opening_once, make_opening);
    if (!watched && opening && __cxa_thread_atexit_impl) {
        call_at_thread_end(pthread_mutex_unlock); /* exit functions run in reverse order */
        call_at_thread_end(pthread_mutex_lock);
    }
    watched = true;
}

static void (*_Atomic at_end)(void);

/* Sets `watch`, which is called after each compilation and each opening of a compiler. */
void limber_compile_at_end(void (*watch)(void))
{
    atomic_store(&at_end, watch);
}

/* Calls the function that limber_compile_at_end has set, if any. */
static void watch_end(void)
{
    void (*watch)(void) = atomic_load(&at_end);

    if (watch)
        watch();
}

/* Opens a backend's compiler.  Threads that end in the meantime wait until the compiler is open. */
static void open_compiler(const struct backend *b, const struct target *t)
{
    limber_compile_watch_thread();
    if (opening)
        pthread_mutex_lock(opening);
    b->code->open(t);
    /* registers the exit handler so that it runs before the destructors of the compiler */
    watch_end();
    if (opening)
        pthread_mutex_unlock(opening);
}

/* ---- threads that compile ------------------------------------------------------------------- */

/* Begins a compilation, after any fork in progress.  False if the process is ending. */
bool limber_compile_enter(const struct backend *b, const struct target *t, struct diag *d)
{
    bool ok;

    pthread_mutex_lock(&lock);
    while (forking)
        pthread_cond_wait(&changed, &lock);
    ok = !ended || !b->code;
    compiling += ok;
    own += ok;
    pthread_mutex_unlock(&lock);
    if (ok && b->code)
        open_compiler(b, t);
    return ok || limber_fail(d, LIMBER_STATUS_DEVICE,
                             "the process ends, and nothing is compiled any more");
}

/* Ends what limber_compile_enter began. */
void limber_compile_leave(void)
{
    /* registers the exit handler so that it runs before destructors that this compilation added */
    watch_end();
    pthread_mutex_lock(&lock);
    compiling--;
    own--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Forbids compilation from now on, because the process ends. */
void limber_compile_refuse(void)
{
    pthread_mutex_lock(&lock);
    ended = true;
    pthread_mutex_unlock(&lock);
}

/* Forgets a compilation whose thread was stopped. */
void limber_compile_forget(void)
{
    pthread_mutex_lock(&lock);
    compiling--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Returns whether another thread is compiling. */
bool limber_compile_goes_on(void)
{
    bool others;

    pthread_mutex_lock(&lock);
    others = compiling > own;
    pthread_mutex_unlock(&lock);
    return others;
}

/* ---- before and after fork ------------------------------------------------------------------ */

/* Runs before fork(): waits for compilations and takes all registered locks. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    while (forking) /* another thread forks */
        pthread_cond_wait(&changed, &lock);
    forking = true;
    while (compiling > 0)
        pthread_cond_wait(&changed, &lock);
    for (struct at_fork *f = list; f; f = f->next)
        pthread_mutex_lock(f->lock);
}

/* Runs after fork() in the parent: releases the locks. */
static void after_fork(void)
{
    for (struct at_fork *f = list; f; f = f->next)
        pthread_mutex_unlock(f->lock);
    forking = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Repairs the state in the child, where the parent's other threads do not exist. */
static void in_child(void)
{
    pthread_cond_init(&changed, NULL);
    compiling = own;
    for (struct at_fork *f = list; f; f = f->next)
        if (f->child)
            f->child(f->self);
    after_fork();
}

/* Registers the handlers of fork(); called once. */
static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Registers a lock that fork() takes, so that the child finds it free and its data consistent. */
void limber_at_fork(struct at_fork *f)
{
    pthread_once(&once, register_handlers);
    pthread_mutex_lock(&lock);
    f->next = list;
    list = f;
    pthread_mutex_unlock(&lock);
}

/* Removes a lock that limber_at_fork registered. */
void limber_at_fork_no_more(struct at_fork *f)
{
    struct at_fork **at = &list;

    pthread_mutex_lock(&lock);
    while (*at && *at != f)
        at = &(*at)->next;
    if (*at)
        *at = f->next;
    pthread_mutex_unlock(&lock);
}
