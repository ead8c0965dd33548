/* SPDX-License-Identifier: BSD-3-Clause
 * Isolates calls from the program's thread state and limits.  Inside a call the thread is not
 * cancelled, and its rounding mode, flushing of subnormals and traps have no effect.  A small stack
 * does not overflow.  If a limit on file sizes is exceeded, a write fails without a signal. */
#define _GNU_SOURCE /* pthread_getattr_np, gettid */
#include "jit/runtime/runtime.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if !defined(__x86_64__)
/* Saves the floating-point mode and flags, and sets the default mode. */
struct float_mode limber_mode_enter(void)
{
    struct float_mode before;

#if defined(__aarch64__)
    /* fesetenv would leave bits AHP, DN and EBF of FPCR unchanged (other half precision, default
     * NaN, BF16 products), so FPCR is cleared directly */
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(before.fpcr), "=r"(before.fpsr));
    if (before.fpcr)
        __asm__ volatile("msr fpcr, xzr" : : : "memory");
#else
    feholdexcept(&before.fenv);
    fesetenv(FE_DFL_ENV);
#endif
    return before;
}

/* Restores the floating-point mode and flags. */
void limber_mode_leave(const struct float_mode *before)
{
#if defined(__aarch64__)
    uint64_t fpcr, fpsr;

    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fpcr), "=r"(fpsr) : : "memory");
    if (fpsr != before->fpsr)
        __asm__ volatile("msr fpsr, %0" : : "r"(before->fpsr));
    if (fpcr != before->fpcr)
        __asm__ volatile("msr fpcr, %0" : : "r"(before->fpcr));
#else
    fesetenv(&before->fenv);
#endif
}
#endif

/* Begins a call of the library in this thread.  Returns the state that limber_call_leave restores.
 */
struct call_scope limber_call_enter(void)
{
    struct call_scope before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancelled);
    before.mode = limber_mode_enter();
    return before;
}

/* Ends a call of the library in this thread. */
void limber_call_leave(const struct call_scope *before)
{
    limber_mode_leave(&before->mode);
    pthread_setcancelstate(before->cancelled, NULL);
}

/* ---- room on the stack, or a thread with more ------------------------------------------------ */

/* Stack size of the library's own threads, in bytes. */
enum { OWN_STACK = 8 << 20 };
/* Bounds of this thread's stack: the lowest address, and the address just past the end.  `end` is 0
 * if the stack was not measured yet. */
static _Thread_local struct stack {
    uintptr_t lowest, end;
} this_stack;

/* Finds the bounds of this thread's stack.  Not inlined, because it runs only once per thread,
 * while every small product tests whether it has run. */
static __attribute__((noinline)) void measure_stack(struct stack *s)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
    pthread_attr_t attr;
    size_t bytes, guard = 0;
    void *low;

    s->end = 1; /* marks the stack as measured; its bounds are unknown so far */
    /* the main thread's stack ends where the kernel put AT_RANDOM's bytes */
    if (gettid() == getpid()) {
        uintptr_t end = (uintptr_t)getauxval(AT_RANDOM);

        getrlimit(RLIMIT_STACK, &limit);
        bytes = limit.rlim_cur < OWN_STACK ? (size_t)limit.rlim_cur : OWN_STACK;
        s->lowest = end > bytes ? end - bytes : 0;
        s->end = end ? end : 1;
    } else if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &low, &bytes) == 0 &&
            pthread_attr_getguardsize(&attr, &guard) == 0) {
            s->lowest = (uintptr_t)low + guard;
            s->end = (uintptr_t)low + bytes;
        }
        pthread_attr_destroy(&attr);
    }
}

/* True if the thread's stack has enough room left. */
bool limber_has_stack(enum stack_need need)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct stack *s = &this_stack;

    if (!s->end)
        measure_stack(s);
    return here < s->end && here > s->lowest && here - s->lowest >= (size_t)need;
}

/* A function that another thread runs, and its result. */
struct thread_call {
    bool (*fn)(void *arg, struct diag *d);
    void *arg;
    struct diag *d;
    bool ok;
};

/* Thread function: runs a call on a thread with a larger stack. */
static void *run_thread_call(void *arg)
{
    struct thread_call *call = arg;

    call->ok = call->fn(call->arg, call->d);
    return NULL;
}

/* Starts a thread with a stack of its own size and all signals blocked.  False if that fails. */
bool limber_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    bool ok;

    if (pthread_attr_init(&attr))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = pthread_attr_setstacksize(&attr, OWN_STACK) == 0 &&
         pthread_create(thread, &attr, fn, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

/* Calls fn, in a new thread if the stack of this one is too small, and returns its result.  False,
 * with an error, if no thread can be started. */
bool limber_with_stack(enum stack_need need, bool (*fn)(void *arg, struct diag *d), void *arg,
                       struct diag *d)
{
    struct thread_call call = { fn, arg, d, false };
    pthread_t thread;

    if (limber_has_stack(need))
        return fn(arg, d);
    if (!limber_thread(&thread, run_thread_call, &call))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "this thread's stack is small, and there is no memory for "
                           "another");
    pthread_join(thread, NULL);
    return call.ok;
}

/* ---- writing files --------------------------------------------------------------------------- */

/* Writes all bytes, in as many calls of write() as needed.  False, with errno, on failure. */
static bool write_all(int fd, const char *at, size_t size)
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

/* Writes all bytes.  False, with errno, on failure.  If a file grows too large, the system sends
 * SIGXFSZ to the writing thread; the thread blocks that signal and discards it. */
bool limber_write(int fd, const void *data, size_t size)
{
    sigset_t large, before, pending;
    bool ok, other;
    int error;

    sigemptyset(&large);
    sigaddset(&large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &large, &before);
    other = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
    ok = write_all(fd, data, size);
    error = errno;
    if (!ok && error == EFBIG && !other)
        sigtimedwait(&large, NULL, &(struct timespec){ 0, 0 });
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return ok;
}
