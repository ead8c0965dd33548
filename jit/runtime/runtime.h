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
 * returns its thread cannot be cancelled, which would leave locks taken, kernels half made and
 * workers on a stack that is gone.  Floating-point arithmetic has the default modes: round to
 * nearest, subnormals, no traps.  The program's modes and flags are restored on return. */
#define CALL_SCOPE \
    struct call_scope apart __attribute__((cleanup(limber_call_leave), unused)) = \
        limber_call_enter()
/* The floating-point modes alone, for products that neither take a lock nor wait. */
#define MODE_SCOPE \
    struct float_mode mode __attribute__((cleanup(limber_mode_leave), unused)) = limber_mode_enter()
/* The thread's floating-point modes. */
struct float_mode {
#if defined(__x86_64__)
    unsigned mxcsr;
#elif defined(__aarch64__)
    uint64_t fpcr, fpsr;
#else
    fenv_t fenv;
#endif
};
/* The thread's state that a call changes, and restores at its end. */
struct call_scope {
    int cancelled;
    struct float_mode mode;
};
#if defined(__x86_64__)
/* Replaces the thread's floating-point modes by the library's.  Inlined, since small products take
 * hardly longer than a call. */
static inline struct float_mode limber_mode_enter(void)
{
    enum { DEFAULT = 0x1f80, CONTROL = 0xffc0 }; /* no trap, to nearest, nothing flushed to zero */
    const struct float_mode before = { __builtin_ia32_stmxcsr() };

    if ((before.mxcsr & CONTROL) != DEFAULT)
        __builtin_ia32_ldmxcsr(DEFAULT);
    return before;
}

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
 * program, whose bounds are not known.  STACK_small is for products that are neither scanned nor
 * planned: they take 60 KiB. */
enum stack_need { STACK_small = 96 << 10, STACK_run = 192 << 10, STACK_compile = 2 << 20 };
bool limber_has_stack(enum stack_need need);
/* Calls fn, in another thread if this one's stack has less than `need` bytes left. */
bool limber_with_stack(enum stack_need need, bool (*fn)(void *arg, struct diag *d), void *arg,
                       struct diag *d);
/* Starts a thread of the library.  The size of its stack does not depend on the program's limits.
 * It blocks all signals, which the program's threads handle. */
bool limber_thread(pthread_t *thread, void *(*fn)(void *), void *arg);
/* Writes all bytes, or returns false with errno; never raises SIGPIPE. */
bool limber_write(int fd, const void *data, size_t size);

/* ---- fork.c ---------------------------------------------------------------------------------- */

/* A lock that fork takes, so that the child finds it free and its data whole.  A thread that holds
 * one of these locks waits for no other.  In the child `child` (unless NULL) repairs the data that
 * the lock guards, while all locks are held. */
struct at_fork {
    pthread_mutex_t *lock;
    void (*child)(void *self);
    void *self;
    struct at_fork *next;
};
void limber_at_fork(struct at_fork *f);
void limber_at_fork_no_more(struct at_fork *f);
/* Bracket a compiler's work: fork and the end of the process wait between these calls.  Opens the
 * backend's compiler, if it is found.  False: the process is ending. */
bool limber_compile_enter(const struct backend *b, const struct target *t, struct diag *d);
void limber_compile_leave(void);
/* Sets `watch`, which is called after each compilation and opening of a compiler.  It registers an
 * exit handler, so that this one runs before the destructors that the compiler has registered. */
void limber_compile_at_end(void (*watch)(void));
/* For the end of the process: nothing is compiled from now on; a compiling thread was stopped and
 * no longer counts; true if another thread is compiling. */
void limber_compile_refuse(void);
void limber_compile_forget(void);
bool limber_compile_goes_on(void);
/* Makes this thread, if it ends while another opens a compiler, wait until that is done. */
void limber_compile_watch_thread(void);

/* ---- allocator.c ----------------------------------------------------------------------------- */

/* Memory that grows with the operands, aligned to 64 bytes (to 16 below 64 bytes); NULL: no
 * memory. */
void *limber_memory_alloc(const limber_allocator *a, size_t bytes);
void limber_memory_free(const limber_allocator *a, void *memory); /* NULL is fine */

/* ---- pool.c: threads that sleep between calls ------------------------------------------------ */

struct pool;
/* threads counts the caller; workers start at the first run that needs them.  pinned: each is bound
 * to a CPU.  NULL: no memory. */
struct pool *limber_pool_new(int threads, bool pinned);
void limber_pool_free(struct pool *p);
/* Bracket several runs: between them workers yield for a moment before they sleep. */
void limber_pool_enter(struct pool *p);
void limber_pool_leave(struct pool *p);
struct runner limber_pool_runner(struct pool *p);

/* ---- stop.c: threads that the end of a process stops ----------------------------------------- */

/* Stops the thread (its gettid) for ever if it executes this code and has allowed it; false: it
 * does not.  One call at a time. */
bool limber_stop(int thread, struct code_range code);
/* Sets whether the calling thread may be stopped. */
void limber_stop_allow(bool allowed);

/* ---- background.c: kernels made while calls go on -------------------------------------------- */

struct background;
/* Calls make with the bytes of each job, in a thread that the first job starts.  The process may
 * end while that thread executes the code of `compiler`; if that is NULL, the end waits for the
 * job. */
struct background *limber_background_new(void (*make)(void *user, const void *key), void *user,
                                         struct code_range (*compiler)(void *user));
/* Waits for the running job, unless its thread was stopped, and drops the others. */
void limber_background_free(struct background *b);
/* Queues the job unless it is queued already.  False: no memory, or no thread. */
bool limber_background_ask(struct background *b, const void *key, size_t size);
/* True if the job is still pending.  Waits for its end, until at most `seconds`, less than 1, after
 * it was queued. */
bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds);
/* Drops all jobs from now on, since the process ends. */
bool limber_background_ending(void);
/* True if a background thread was stopped, so that its job will never be ready. */
bool limber_background_stopped(void);

#endif
