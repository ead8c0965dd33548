/* SPDX-License-Identifier: BSD-3-Clause
 * fork waits until no kernel is being compiled: a child could not free the locks that libLLVM
 * holds then.  It also takes every lock of the library, so that the child finds no data half
 * changed. */
#include "jit/runtime/runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int compiling;                   /* threads */
static bool forking;
static struct at_fork *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void limber_compile_enter(void)
{
    limber_background_go_on(); /* a stopped thread may hold libLLVM's locks */
    pthread_mutex_lock(&lock);
    while (forking)
        pthread_cond_wait(&changed, &lock);
    compiling++;
    pthread_mutex_unlock(&lock);
}

void limber_compile_leave(void)
{
    pthread_mutex_lock(&lock);
    compiling--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void before(void)
{
    limber_background_go_on();
    pthread_mutex_lock(&lock);
    while (forking)             /* another thread forks */
        pthread_cond_wait(&changed, &lock);
    forking = true;
    while (compiling > 0)
        pthread_cond_wait(&changed, &lock);
    for (struct at_fork *f = list; f; f = f->next)
        pthread_mutex_lock(f->lock);
}

static void after(void)
{
    for (struct at_fork *f = list; f; f = f->next)
        pthread_mutex_unlock(f->lock);
    forking = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Threads that wait in the parent are not here. */
static void in_child(void)
{
    pthread_cond_init(&changed, NULL);
    for (struct at_fork *f = list; f; f = f->next)
        if (f->child)
            f->child(f->self);
    after();
}

static void watch(void)
{
    pthread_atfork(before, after, in_child);
}

void limber_at_fork(struct at_fork *f)
{
    pthread_once(&once, watch);
    pthread_mutex_lock(&lock);
    f->next = list;
    list = f;
    pthread_mutex_unlock(&lock);
}

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
