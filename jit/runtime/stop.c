/* SPDX-License-Identifier: BSD-3-Clause
 * Stops a thread for ever while it executes a compiler's own code, so that the process can end.
 * A process that ends runs the compiler's destructors, and a thread that still compiles would use
 * what they free.  A thread that is in the compiler's code is in no function of libc, so it holds
 * no lock of malloc, the loader or a stream, which the end of a process needs.
 *
 * The signal is SIGURG, which the system ignores by default and programs hardly use. */
#define _GNU_SOURCE /* gettid, REG_RIP */
#include "jit/runtime/runtime.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIGNAL = SIGURG };
enum answer { NONE, STOPPED, ELSEWHERE };

static atomic_int asked; /* gettid of the thread that must answer, or 0 */
static atomic_uintptr_t from, to; /* the code in which the thread may be stopped */
static atomic_int answer;

/* Returns the program counter of an interrupted thread. */
static uintptr_t program_counter(const ucontext_t *u)
{
#if defined(__x86_64__)
    return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)u->uc_mcontext.pc;
#else
    (void)u;
    return 0;
#endif
}

/* Signal handler of a thread that is to be stopped.  In the compiler's code the thread waits for
 * ever; in other code the handler answers ELSEWHERE and returns. */
static void stop_handler(int signal, siginfo_t *info, void *context)
{
    int here = (int)gettid();
    uintptr_t at = program_counter(context);
    sigset_t mask;

    (void)signal;
    (void)info;
    if (!atomic_compare_exchange_strong(&asked, &here, 0))
        return;
    if (at < atomic_load(&from) || at >= atomic_load(&to)) {
        atomic_store(&answer, ELSEWHERE);
        return;
    }
    atomic_store(&answer, STOPPED);
    sigfillset(&mask);
    for (;;)
        sigsuspend(&mask);
}

/* Installs the signal handler.  False if the program uses the signal. */
static bool install_handler(void)
{
    struct sigaction old,
        ours = { .sa_sigaction = stop_handler, .sa_flags = SA_SIGINFO | SA_RESTART };

    if (sigaction(SIGNAL, NULL, &old))
        return false;
    if (old.sa_flags & SA_SIGINFO)
        return old.sa_sigaction == stop_handler;
    sigfillset(&ours.sa_mask);
    return (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) &&
           sigaction(SIGNAL, &ours, NULL) == 0;
}

/* Sets whether the calling thread may be stopped. */
void limber_stop_allow(bool allowed)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    pthread_sigmask(allowed ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

/* Sends a signal that stops a thread for good if it is executing `code`.  Returns whether it was
 * stopped. */
bool limber_stop(int thread, struct code_range code)
{
    const struct timespec moment = { 0, 20000 };

    if (code.from == code.to || !install_handler())
        return false;
    atomic_store(&from, code.from);
    atomic_store(&to, code.to);
    atomic_store(&answer, NONE);
    atomic_store(&asked, thread);
    if (syscall(SYS_tgkill, getpid(), thread, SIGNAL))
        return false;
    while (atomic_load(&answer) == NONE)
        nanosleep(&moment, NULL);
    return atomic_load(&answer) == STOPPED;
}
