/* SPDX-License-Identifier: BSD-3-Clause
 * Threads, locks, clocks and memory: what every other folder of jit/ stands on. */
#ifndef LIMBER_JIT_RUNTIME_H
#define LIMBER_JIT_RUNTIME_H

#include "backends/backend.h"
#include "limber/limber.h"
#include <fenv.h>
#include <pthread.h>

/* ---- clock.c --------------------------------------------------------------------------------- */

double limber_now(void); /* seconds of a clock that nobody sets */

/* ---- call_scope.c ---------------------------------------------------------------------------- */

/* First in every public call that computes, waits for others, or reads or writes files: until it
 * returns its thread is not cancelled, which would leave locks taken, kernels half made and workers
 * on a stack that is gone; and floating-point arithmetic is the default one, to nearest, with
 * subnormals and without traps.  What the program has set, and its flags, are there again
 * afterwards. */
#define CALL_SCOPE \
    struct call_scope apart __attribute__((cleanup(limber_call_leave), unused)) = \
        limber_call_enter()
/* The arithmetic alone, for products that neither take a lock nor wait. */
#define MODE_SCOPE \
    struct float_mode mode __attribute__((cleanup(limber_mode_leave), unused)) = limber_mode_enter()
struct float_mode {
#if defined(__x86_64__)
    unsigned mxcsr;
#elif defined(__aarch64__)
    uint64_t fpcr, fpsr;
#else
    fenv_t fenv;
#endif
};
struct call_scope {
    int cancelled;
    struct float_mode mode;
};
#if defined(__x86_64__)
/* Inlined: small products take as long as few instructions. */
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
/* Is so much of this thread's stack left?  False on a stack that the program has made itself: its
 * bounds are not known.  STACK_small is for products that are neither scanned nor planned: they
 * take 60 KiB. */
enum stack_need { STACK_small = 96 << 10, STACK_run = 192 << 10, STACK_compile = 2 << 20 };
bool limber_has_stack(enum stack_need need);
/* Calls fn.  If this thread has less stack left than `need`, another thread calls it. */
bool limber_with_stack(enum stack_need need, bool (*fn)(void *arg, struct diag *d), void *arg,
                       struct diag *d);
/* A thread of the library's own.  The size of its stack does not depend on the program's limits.
 * It blocks all signals, which the program's threads handle. */
bool limber_thread(pthread_t *thread, void *(*fn)(void *), void *arg);
/* All of it, or false with errno; never a signal. */
bool limber_write(int fd, const void *data, size_t size);

/* ---- fork.c ---------------------------------------------------------------------------------- */

/* A lock that fork takes.  A thread that holds one of these locks waits for no other.  The child
 * calls `child` (unless it is NULL) on what the lock guards, while it holds all of them. */
struct at_fork {
    pthread_mutex_t *lock;
    void (*child)(void *self);
    void *self;
    struct at_fork *next;
};
void limber_at_fork(struct at_fork *f);
void limber_at_fork_no_more(struct at_fork *f);
/* Between these, around a compiler's work, fork and the end of the process wait.  Opens the
 * backend's compiler, if it is found.  False: the process ends. */
bool limber_compile_enter(const struct backend *b, const struct target *t, struct diag *d);
void limber_compile_leave(void);
/* Called behind each compilation and opening, so that the end of the process ends compiling before
 * it runs what was registered before. */
void limber_compile_at_end(void (*watch)(void));
/* The end of the process calls these: nothing is compiled from now on; a compiling thread was
 * stopped and no longer counts; does another thread compile? */
void limber_compile_refuse(void);
void limber_compile_forget(void);
bool limber_compile_goes_on(void);
/* If this thread ends while another opens a compiler, it waits until that is done. */
void limber_compile_watch_thread(void);

/* ---- allocator.c ----------------------------------------------------------------------------- */

/* Memory that grows with the operands, aligned to 64 bytes (below 64 bytes to 16); NULL: there is
 * none. */
void *limber_memory_alloc(const limber_allocator *a, size_t bytes);
void limber_memory_free(const limber_allocator *a, void *memory); /* NULL is fine */

/* ---- pool.c: threads that sleep between calls ------------------------------------------------ */

struct pool;
/* threads counts the caller; none is started before the first run that needs it.  pinned: each to
 * a CPU.  NULL: no memory. */
struct pool *limber_pool_new(int threads, bool pinned);
void limber_pool_free(struct pool *p);
/* Between these two, one run follows another: workers wait a moment before they sleep. */
void limber_pool_enter(struct pool *p);
void limber_pool_leave(struct pool *p);
struct runner limber_pool_runner(struct pool *p);

/* ---- stop.c: threads that the end of a process stops ----------------------------------------- */

/* Stops the thread (its gettid) for ever if it runs this code and has allowed it; false: it does
 * not.  One at a time. */
bool limber_stop(int thread, struct code_range code);
/* Whether the calling thread may be stopped. */
void limber_stop_allow(bool allowed);

/* ---- background.c: kernels made while calls go on -------------------------------------------- */

struct background;
/* Calls make with the bytes of each job, in a thread that the first job starts.  The process may
 * end while that thread runs this code of a compiler (NULL: it waits for the job). */
struct background *limber_background_new(void (*make)(void *user, const void *key), void *user,
                                         struct code_range (*compiler)(void *user));
/* Waits for the job at work, unless its thread was stopped, and drops the others. */
void limber_background_free(struct background *b);
/* Queues the job unless it is queued already.  False: no memory, or no thread. */
bool limber_background_ask(struct background *b, const void *key, size_t size);
/* Is the job still pending?  Waits for its end, but not beyond `seconds`, less than 1, after it was
 * queued. */
bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds);
/* From now on jobs are dropped: the process ends. */
bool limber_background_ending(void);
/* Was one of such threads stopped?  What it was making is never ready. */
bool limber_background_stopped(void);

#endif
