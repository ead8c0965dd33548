/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the report if a process does not end by exit, but by a signal, _exit or quick_exit.  A
 * signal handler must not write files, nor must a fork's child, and both may call _exit.  So they
 * send a byte through a pipe to a thread, which writes. */
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
enum { LEAVES = 0 }; /* sent through the pipe by interpose_leave(), instead of a signal's number */

static int pipe_ends[2]; /* the pipe: read end, write end */
/* number of the process that has the thread; the child of a fork has none */
static atomic_int thread_owner;
static atomic_int written; /* number of the process whose final report is written */

/* Ends this process by a signal, with its default action. */
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

/* Writes to the pipe on which the thread that writes the report waits. */
static bool notify_thread(int what)
{
    unsigned char byte = (unsigned char)what;

    return atomic_load(&thread_owner) == (int)getpid() && write(pipe_ends[1], &byte, 1) == 1;
}

/* Has the thread that writes the report end the process by this signal. */
static void handle_signal(int signal)
{
    const int before = errno;

    if (!notify_thread(signal))
        end_by(signal);
    /* The thread that writes the report ends the process by end_by().  If the interrupted code
     * holds a lock that the thread needs, the program goes on after half a second. */
    for (int i = 0; i < 50; i++)
        sleep_10_ms();
    errno = before;
}

/* Called in _exit, so async-signal-safe.  Does nothing in a vfork child, which shares the parent's
 * memory but does not own the thread.  Waits at most 5 s: a signal handler may have called _exit
 * while the code that it interrupted holds a lock that the thread needs. */
void interpose_leave(void)
{
    const int mine = (int)getpid();

    if (!notify_thread(LEAVES))
        return;
    for (int i = 0; i < 500 && atomic_load(&written) != mine; i++)
        sleep_10_ms();
}

/* The thread that writes reports: every half second if calls are not in the file yet, and when the
 * process ends. */
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

/* Starts the thread that writes reports, and handles signals that end a process, unless the program
 * handles them. */
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
