/* SPDX-License-Identifier: BSD-3-Clause
 * Threads, locks, clocks and memory, on which all other folders of jit/ are built. */
#ifndef LIMBER_JIT_RUNTIME_H
#define LIMBER_JIT_RUNTIME_H

#include "backends/backend.h"
#include "limber/limber.h"
#include <fenv.h>
#include <pthread.h>

/* ---- clock.c --------------------------------------------------------------------------------- */

double limber_now(void); /* seconds of a monotonic clock */

/* ---- call_scope.c ---------------------------------------------------------------------------- */

/* The first statement of every public call that computes, waits, or uses files.  Until the call
 * returns, its thread cannot be cancelled: that would leave locks held, kernels half made, and
 * workers on a stack that no longer exists.  Floating-point arithmetic has the default modes: round
 * to nearest, subnormals, no traps.  The program's modes and flags are restored on return. */
#define CALL_SCOPE \
    struct call_scope apart __attribute__((cleanup(limber_call_leave), unused)) = \
        limber_call_enter()
/* Sets the floating-point modes, but nothing else of CALL_SCOPE, for products that neither take
 * a lock nor wait. */
#define MODE_SCOPE \
    struct float_mode mode __attribute__((cleanup(limber_mode_leave), unused)) = limber_mode_enter()
/* The thread's floating-point modes and flags. */
struct float_mode {
#if defined(__x86_64__)
    unsigned mxcsr;
#elif defined(__aarch64__)
    uint64_t fpcr, fpsr;
#else
    fenv_t fenv;
#endif
};
/* The state of a thread that a call changes and restores. */
struct call_scope {
    int cancelled;
    struct float_mode mode;
};
#if defined(__x86_64__)
/* Replaces the thread's floating-point modes by the default ones, and returns the old ones.
 * Inlined, since a small product takes hardly longer than a function call. */
static inline struct float_mode limber_mode_enter(void)
{
    /* DEFAULT: no traps, round to nearest, no flushing to zero.  CONTROL: all bits of MXCSR but the
     * flags. */
    enum { DEFAULT = 0x1f80, CONTROL = 0xffc0 };
    const struct float_mode before = { __builtin_ia32_stmxcsr() };

    if ((before.mxcsr & CONTROL) != DEFAULT)
        __builtin_ia32_ldmxcsr(DEFAULT);
    return before;
}

/* Restores the rounding mode and flush-to-zero flags of the caller. */
static inline void limber_mode_leave(const struct float_mode *before)
{
    if (__builtin_ia32_stmxcsr() != before->mxcsr)
        __builtin_ia32_ldmxcsr(before->mxcsr);
}
#else
struct float_mode limber_mode_enter(void);
void limber_mode_leave(const struct float_mode *before);
#endif
struct call_scope limber_call_enter(void);
void limber_call_leave(const struct call_scope *before);
/* True if this thread's stack has at least `need` bytes left.  False on a stack made by the
 * program, whose bounds are unknown.  STACK_small is for products that are neither scanned nor
 * planned, which take 60 KiB. */
enum stack_need { STACK_small = 96 << 10, STACK_run = 192 << 10, STACK_compile = 2 << 20 };
bool limber_has_stack(enum stack_need need);
/* Calls fn, in another thread if this thread's stack has less than `need` bytes left.  Returns the
 * result of fn. */
bool limber_with_stack(enum stack_need need, bool (*fn)(void *arg, struct diag *d), void *arg,
                       struct diag *d);
/* Starts a thread of the library; false if that fails.  Its stack has a fixed size, whatever the
 * program's limits.  It blocks all signals, so that the program's threads handle them. */
bool limber_thread(pthread_t *thread, void *(*fn)(void *), void *arg);
/* Writes all bytes.  On failure returns false with errno.  A file that exceeds the limit on file
 * sizes fails with EFBIG, and raises no SIGXFSZ. */
bool limber_write(int fd, const void *data, size_t size);

/* ---- fork.c ---------------------------------------------------------------------------------- */

/* A lock that fork takes, so that the child finds it free and its data consistent.  A thread that
 * holds one of these locks must not wait for another.  In the child, `child` (unless NULL) repairs
 * the data that the lock guards, while all these locks are held. */
struct at_fork {
    pthread_mutex_t *lock;
    void (*child)(void *self);
    void *self;
    struct at_fork *next;
};
void limber_at_fork(struct at_fork *f);
void limber_at_fork_no_more(struct at_fork *f);
/* Begins and ends a compilation, for which fork and the end of the process wait.
 * limber_compile_enter opens the backend's compiler if it is found, and returns false if the
 * process is ending. */
bool limber_compile_enter(const struct backend *b, const struct target *t, struct diag *d);
void limber_compile_leave(void);
/* Sets `watch`, which is called after each compilation and each opening of a compiler.  `watch`
 * registers an exit handler, which then runs before the destructors that the compiler has
 * registered. */
void limber_compile_at_end(void (*watch)(void));
/* For the end of the process.  limber_compile_refuse: nothing is compiled from now on.
 * limber_compile_forget: a compiling thread was stopped and no longer counts.
 * limber_compile_goes_on: true if another thread is compiling. */
void limber_compile_refuse(void);
void limber_compile_forget(void);
bool limber_compile_goes_on(void);
/* Makes this thread, when it ends, wait until no other thread is opening a compiler. */
void limber_compile_watch_thread(void);

/* ---- allocator.c ----------------------------------------------------------------------------- */

/* Allocates memory that grows with the operands, aligned to 64 bytes.  NULL if there is none. */
void *limber_memory_alloc(const limber_allocator *a, size_t bytes);
void limber_memory_free(const limber_allocator *a, void *memory); /* memory may be NULL */

/* ---- pool.c: threads that sleep between calls ------------------------------------------------ */

struct pool;
/* Makes a pool.  threads: number of workers, including the caller.  Threads start at the first run
 * that needs them.  pinned: each worker is bound to a CPU.  NULL if memory runs out. */
struct pool *limber_pool_new(int threads, bool pinned);
void limber_pool_free(struct pool *p);
/* Begin and end a sequence of runs.  Between the runs workers yield for a moment before they
 * sleep. */
void limber_pool_enter(struct pool *p);
void limber_pool_leave(struct pool *p);
struct runner limber_pool_runner(struct pool *p);

/* ---- stop.c: threads that the end of a process stops ----------------------------------------- */

/* Stops the thread with this gettid for ever, if it executes this code and has allowed that.
 * Returns false if the thread was not stopped.  Only one thread may call this at a time. */
bool limber_stop(int thread, struct code_range code);
/* Sets whether the calling thread may be stopped. */
void limber_stop_allow(bool allowed);

/* ---- background.c: kernels made while calls go on -------------------------------------------- */

struct background;
/* Makes a background thread, which starts at the first job and calls `make` with the key of each
 * job. The process may end while the thread executes code in the range that `compiler` returns.  If
 * compiler is NULL, the end of the process waits for the job. */
struct background *limber_background_new(void (*make)(void *user, const void *key), void *user,
                                         struct code_range (*compiler)(void *user));
/* Waits for the running job, unless its thread was stopped, and drops the other jobs. */
void limber_background_free(struct background *b);
/* Queues the job unless it is queued already.  False if memory runs out, no thread can be started,
 * or the process is ending. */
bool limber_background_ask(struct background *b, const void *key, size_t size);
/* True if the job is still pending.  Waits for its end, but only until `seconds` (less than 1)
 * after it was queued. */
bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds);
/* True once the process has begun to end.  From then on no job is begun. */
bool limber_background_ending(void);
/* True if a background thread was stopped, so that its job will never be done. */
bool limber_background_stopped(void);

#endif
