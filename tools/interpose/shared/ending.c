/* SPDX-License-Identifier: BSD-3-Clause
 * Ends of a process other than exit: signals that it does not handle, _exit and quick_exit.  A
 * handler of a signal may not write a file, nor may the child of a fork, and who calls _exit may be
 * either.  So they tell a thread by a pipe, and the thread writes. */
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
enum { LEAVES = 0 }; /* is told in the place of a signal */

static int told[2]; /* the pipe */
static atomic_int teller; /* the process that has the thread: a child of a fork has none */
static atomic_int written; /* the process that leaves, once its report is written */

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

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

static bool tell_thread(int what)
{
    unsigned char byte = (unsigned char)what;

    return atomic_load(&teller) == (int)getpid() && write(told[1], &byte, 1) == 1;
}

static void tell(int signal)
{
    const int before = errno;

    if (!tell_thread(signal))
        end_by(signal);
    /* raise() is not to return; but what was interrupted may hold what the thread waits for */
    for (int i = 0; i < 50; i++)
        wait_a_little();
    errno = before;
}

/* Async-signal-safe.  Nothing is done in a child that shares its parent's memory (vfork), which is
 * another process than the one that has the thread.  What a handler of a signal interrupted may
 * hold what the thread waits for, so the wait ends. */
void interpose_leave(void)
{
    const int mine = (int)getpid();

    if (!tell_thread(LEAVES))
        return;
    for (int i = 0; i < 500 && atomic_load(&written) != mine; i++)
        wait_a_little();
}

static void *wait_for_end(void *unused)
{
    unsigned char byte;
    sigset_t all_signals;

    (void)unused;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, NULL);
    for (;;) {
        while (poll(&(struct pollfd){ .fd = told[0], .events = POLLIN }, 1, 500) == 0)
            interpose_write_rest();
        if (read(told[0], &byte, 1) != 1) {
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
    struct sigaction mine = { .sa_handler = tell, .sa_flags = SA_RESTART }, theirs;
    pthread_attr_t apart;
    pthread_t thread;
    bool ok;

    if (atomic_load(&teller) == (int)getpid() || pipe2(told, O_CLOEXEC))
        return;
    pthread_attr_init(&apart);
    pthread_attr_setdetachstate(&apart, PTHREAD_CREATE_DETACHED);
    ok = pthread_create(&thread, &apart, wait_for_end, NULL) == 0;
    pthread_attr_destroy(&apart);
    if (!ok)
        return;
    atomic_store(&teller, (int)getpid());
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (sigaction(ending[i], NULL, &theirs) == 0 && !(theirs.sa_flags & SA_SIGINFO) &&
            (theirs.sa_handler == SIG_DFL || theirs.sa_handler == tell))
            sigaction(ending[i], &mine, NULL);
}

__attribute__((constructor)) static void watch_quick_exit(void)
{
    at_quick_exit(interpose_leave);
}
