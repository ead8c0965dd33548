/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the report if a process ends other than by exit: by unhandled signals, _exit or
 * quick_exit.  Neither a signal handler nor the child of a fork may write files, and _exit may be
 * called by either.  They therefore wake a thread by a pipe, and the thread writes. */
#define _GNU_SOURCE     /* pipe2 */
#include "tools/interpose/shared/interpose.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const int ending[] = { SIGTERM, SIGINT, SIGHUP, SIGXCPU };
enum { LEAVES = 0 }; /* sent through the pipe instead of a signal's number */

static int pipe_ends[2]; /* the pipe: read end, write end */
static atomic_int thread_owner; /* the process that has the thread; a fork's child has none */
static atomic_int written; /* identity of the process whose final report is written */

static void end_by(int signal)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };
    sigset_t one;

    sigaction(signal, &plain, NULL);
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    kill(getpid(), signal);
}

static void sleep_10_ms(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

static bool notify_thread(int what)
{
    unsigned char byte = (unsigned char)what;

    return atomic_load(&thread_owner) == (int)getpid() && write(pipe_ends[1], &byte, 1) == 1;
}

static void handle_signal(int signal)
{
    const int before = errno;

    if (!notify_thread(signal))
        end_by(signal);
    /* raise() should not return, but the interrupted code may hold a lock that the thread needs */
    for (int i = 0; i < 50; i++)
        sleep_10_ms();
    errno = before;
}

/* Async-signal-safe.  Does nothing in a vfork child, which shares memory with its parent but is not
 * the process with the thread.  The wait is bounded, because code that a signal handler interrupted
 * may hold a lock that the thread needs. */
void interpose_leave(void)
{
    const int mine = (int)getpid();

    if (!notify_thread(LEAVES))
        return;
    for (int i = 0; i < 500 && atomic_load(&written) != mine; i++)
        sleep_10_ms();
}

static void *wait_for_end(void *unused)
{
    unsigned char byte;
    sigset_t all_signals;

    (void)unused;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, NULL);
    for (;;) {
        while (poll(&(struct pollfd){ .fd = pipe_ends[0], .events = POLLIN }, 1, 500) == 0)
            interpose_write_rest();
        if (read(pipe_ends[0], &byte, 1) != 1) {
            if (errno != EINTR)
                return NULL;
        } else if (byte == LEAVES) {
            interpose_write_last(true);
            atomic_store(&written, (int)getpid());
        } else {
            interpose_write_last(false);
            end_by(byte);
            return NULL;
        }
    }
}

void interpose_watch_end(void)
{
    struct sigaction mine = { .sa_handler = handle_signal, .sa_flags = SA_RESTART }, theirs;
    pthread_attr_t apart;
    pthread_t thread;
    bool ok;

    if (atomic_load(&thread_owner) == (int)getpid() || pipe2(pipe_ends, O_CLOEXEC))
        return;
    pthread_attr_init(&apart);
    pthread_attr_setdetachstate(&apart, PTHREAD_CREATE_DETACHED);
    ok = pthread_create(&thread, &apart, wait_for_end, NULL) == 0;
    pthread_attr_destroy(&apart);
    if (!ok)
        return;
    atomic_store(&thread_owner, (int)getpid());
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (sigaction(ending[i], NULL, &theirs) == 0 && !(theirs.sa_flags & SA_SIGINFO) &&
            (theirs.sa_handler == SIG_DFL || theirs.sa_handler == handle_signal))
            sigaction(ending[i], &mine, NULL);
}

__attribute__((constructor)) static void watch_quick_exit(void)
{
    at_quick_exit(interpose_leave);
}
