/* SPDX-License-Identifier: BSD-3-Clause
 * What a program does to its threads and limits, kept apart from the library's work: a thread is not cancelled
 * inside a call, and a limit on the size of files is an error of a write and no signal. */
#define _GNU_SOURCE     /* pthread_setcancelstate, sigtimedwait under any standard */
#include "jit/engine.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

int limber_stay(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void limber_stay_no_more(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

static bool write_on(int fd, const char *at, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The signal of a file that is too large goes to the thread that writes. */
bool limber_write(int fd, const void *data, size_t size)
{
    sigset_t large, before, pending;
    bool ok, other;
    int error;

    sigemptyset(&large);
    sigaddset(&large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &large, &before);
    other = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
    ok = write_on(fd, data, size);
    error = errno;
    if (!ok && error == EFBIG && !other)
        sigtimedwait(&large, NULL, &(struct timespec){ 0, 0 });
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return ok;
}
