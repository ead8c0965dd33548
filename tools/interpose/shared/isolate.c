/* SPDX-License-Identifier: BSD-3-Clause
 * Keeps thread cancellation and file size limits from interrupting the work inside intercepted
 * calls. */
#define _GNU_SOURCE     /* pthread_setcancelstate, sigtimedwait under any standard */
#include "tools/interpose/shared/interpose.h"

#include <pthread.h>
#include <time.h>

int interpose_disable_cancellation(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void interpose_restore_cancellation(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* The set of signals that has SIGXFSZ only. */
static sigset_t large(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

/* Blocks SIGXFSZ, and remembers whether one was pending. */
void interpose_limits_enter(struct interpose_limits *l)
{
    const sigset_t set = large();
    sigset_t pending;

    pthread_sigmask(SIG_BLOCK, &set, &l->before);
    l->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
}

/* Drops a SIGXFSZ of this library's own writes, and restores the signal mask. */
void interpose_limits_leave(const struct interpose_limits *l)
{
    const sigset_t set = large();

    while (!l->pending && sigtimedwait(&set, NULL, &(struct timespec){ 0, 0 }) > 0)
        ;
    pthread_sigmask(SIG_SETMASK, &l->before, NULL);
}
