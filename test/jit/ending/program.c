/* SPDX-License-Identifier: BSD-3-Clause
 * Ends a process in every way while its compiler is in every state.  Without arguments the program
 * runs itself with each WAY and STATE.  Its LIMBER_LLVM is gate.c, which holds compilations when
 * the program says so and reports those that begin too late. */
#define _GNU_SOURCE     /* for at_quick_exit */
#include "gate.h"

#include <limber/limber.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

atomic_int gate_shut, gate_held, gate_in_background, gate_lost;

/* ---- the library, opened and closed by dlopen ------------------------------------------------ */

/* clang-format off */
#define FUNCTIONS(F) \
    F(limber_create) F(limber_destroy) F(limber_gemm) F(limber_unit_parse) F(limber_bind_shape) \
    F(limber_error_text) F(limber_fallback_reason)
/* clang-format on */
static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} lib;
static void *handle;
static limber_context *ctx;

/* Ends the process with a status that differs from that of a crash. */
static void fault(const char *what)
{
    fprintf(stderr, "%s (%s)\n", what, lib.limber_error_text ? lib.limber_error_text() : "");
    _exit(72);
}

static limber_context *make_context(void)
{
    const limber_config config = { .size = sizeof config, .threads = 1, .cache_dir = "" };
    limber_context *new;

    if (lib.limber_create(&new, &config))
        fault("no context");
    return new;
}

/* Loads the library by dlopen, so that it can be unloaded. */
static void open_library(void)
{
    handle = dlopen(LIMBER_SHARED, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fault(dlerror());
#define GET(name) *(void **)&lib.name = dlsym(handle, #name);
    FUNCTIONS(GET)
#undef GET
    ctx = make_context();
}

/* ---- calls of the library ------------------------------------------------------------------- */

enum { SIDE = 4 };
static const double left[SIDE * SIDE] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7 },
                                right[SIDE * SIDE] = { 3, 1, 4, 1, 5, 9, 2, 6,
                                                       5, 3, 5, 8, 9, 7, 9, 3 };
static atomic_int last_unit = 2; /* number of the next unit; each is new to the library */

static bool is_right(const double *c)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        double sum = 0;

        for (int k = 0; k < SIDE; k++)
            sum += left[i / SIDE * SIDE + k] * right[k * SIDE + i % SIDE];
        if (c[i] != sum)
            return false;
    }
    return true;
}

/* Computes the product in a context and checks it.  k: the contract, or NULL. */
static limber_status multiply_and_check(limber_context *x, const limber_contract *k)
{
    double c[SIDE * SIDE] = { 0 };
    limber_status s =
        lib.limber_gemm(x, k, SIDE, SIDE, SIDE, NULL, (limber_matrix){ left, LIMBER_F64, SIDE, 1 },
                        (limber_matrix){ right, LIMBER_F64, SIDE, 1 }, NULL,
                        (limber_output){ c, LIMBER_F64, SIDE, 1 }, NULL);

    if (s == LIMBER_STATUS_OK && !is_right(c))
        fault("a wrong product");
    return s;
}

/* Multiplies on a simulated unit for which no kernel has been compiled. */
static limber_status simulate(limber_on_miss on_miss)
{
    limber_unit u = LIMBER_UNIT_INIT;
    limber_contract k = LIMBER_CONTRACT_INIT;
    char text[64];

    snprintf(text, sizeof text, "in=bf16 acc=f32 group=%d", last_unit++);
    if (lib.limber_unit_parse(text, &u))
        fault("no unit");
    k.promise = LIMBER_CONTRACT_SIMULATE;
    k.unit = &u;
    k.on_miss = on_miss;
    return multiply_and_check(ctx, &k);
}

/* Binds a function for a new shape.  Compiling it takes little time. */
static bool bind_one(limber_context *x)
{
    static atomic_int stride = SIDE;
    const int64_t row = stride++;
    double c[SIDE * SIDE] = { 0 };
    limber_kernel f;

    if (lib.limber_bind_shape(x, NULL, SIDE, SIDE, SIDE,
                              (limber_matrix){ left, LIMBER_F64, SIDE, 1 },
                              (limber_matrix){ right, LIMBER_F64, SIDE, 1 },
                              (limber_output){ c, LIMBER_F64, row, 1 }, LIMBER_ACCUMULATE_NONE, &f))
        return false;
    if (row == SIDE) {
        f(left, right, c);
        if (!is_right(c))
            fault("a wrong function");
    }
    return true;
}

/* Checks that the library still computes. compiles: whether a compiler must be available. */
static void check_service(bool compiles)
{
    const limber_contract correct = { .size = sizeof correct, .promise = LIMBER_CONTRACT_CORRECT };

    if (multiply_and_check(ctx, NULL) || multiply_and_check(ctx, &correct) ||
        simulate(LIMBER_ON_MISS_WAIT))
        fault("a product fails");
    if (compiles != !*lib.limber_fallback_reason(ctx))
        fault(compiles ? "it was interpreted" : "it was compiled");
    if (bind_one(ctx) != compiles)
        fault(compiles ? "no function" : "a function was compiled");
}

/* ---- states of the library when the process ends -------------------------------------------- */

static const char *const states[] = {
    "none", "idle", "foreground", "background", "opening", "lost"
};
enum state { NONE, IDLE, FOREGROUND, BACKGROUND, OPENING, LOST, STATES };
static enum state state;

/* flags of the thread that uses the context while the process ends */
static atomic_bool is_in_context, leave_context;

/* Thread: binds functions until told to stop, then never returns. */
static void *compile_on(void *unused)
{
    (void)unused;
    is_in_context = true;
    while (!leave_context)
        bind_one(ctx);
    is_in_context = false;
    for (;;)
        pause();
    return NULL;
}

/* Starts a thread that compiles and waits at the gate. */
static void hold_other_thread(void)
{
    pthread_t thread;

    gate_shut = 1;
    if (pthread_create(&thread, NULL, compile_on, NULL))
        fault("no thread");
}

/* Brings the library to the state of this run: idle, or with a compilation held at the gate. */
static void reach_state(void)
{
    if (state == NONE)
        return;
    if (state == OPENING) {
        hold_other_thread();
    } else if (!bind_one(ctx)) {
        fault("no function");
    } else if (state == FOREGROUND || state == LOST) {
        gate_lost = state == LOST;
        hold_other_thread();
    } else if (state == BACKGROUND) {
        gate_in_background = gate_shut = 1;
        if (simulate(LIMBER_ON_MISS_REFUSE) != LIMBER_STATUS_NOT_READY)
            fault("not in the background");
    }
    while (gate_shut && !gate_held)
        sched_yield();
}

/* Opens the gate, unless the thread that compiles must never continue in this run. */
static void let_go(void)
{
    gate_shut = state == LOST;
}

static void let_go_with_thread(void *unused)
{
    (void)unused;
    let_go();
}

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

/* Opens the gate in a destructor of this thread that runs after those which the library
 * registered for the thread: a thread that has used the library waits at its end for a compiler
 * that is being opened. */
static void leave_gate_to_thread(void)
{
    if (state == OPENING)
        __cxa_thread_atexit_impl(let_go_with_thread, NULL, &__dso_handle);
}

/* ---- ways in which the process ends --------------------------------------------------------- */

static const char *const ways[] = { "return", "thread", "quick",   "early", "late",
                                    "static", "close",  "destroy", "forked" };
enum way { RETURN, THREAD, QUICK, EARLY, LATE, STATIC, CLOSE, DESTROY, FORKED, WAYS };
static enum way way;

/* Exit function that runs before the library's own: the library must still compute.  If this way to
 * end is LATE and a compiler was still being opened, there need not be one. */
static void compute_at_exit(void)
{
    let_go();
    check_service(state != OPENING || way != LATE);
}

/* Exit function that checks that the library still computes, after the destructors of all libraries
 * that were opened after its registration. */
static void compute_in_destructor(void)
{
    check_service(state == NONE);
}

/* Exit function: destroys the context when no thread is in it.  A lost thread never leaves it. */
static void destroy_after(void)
{
    compute_in_destructor();
    leave_context = true;
    while (is_in_context && state != LOST)
        sched_yield();
    lib.limber_destroy(ctx);
}

/* Replaces the C library's clock_gettime, so that waiting for a lost thread times out at once. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    static atomic_int seconds;
    int result = (int)syscall(SYS_clock_gettime, clock, t);

    if (state == LOST)
        t->tv_sec += seconds++;
    return result;
}

/* Whether the exit function could be registered. */
static bool is_registered;

/* Registers an exit function before main runs, as the constructor of a static C++ object does. */
__attribute__((constructor)) static void register_first(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], ways[STATIC]) == 0)
        is_registered = atexit(compute_in_destructor) == 0;
    else if (argc == 3 && strcmp(argv[1], ways[DESTROY]) == 0)
        is_registered = atexit(destroy_after) == 0;
}

static void *exit_here(void *unused)
{
    (void)unused;
    lib.limber_destroy(make_context());
    leave_gate_to_thread();
    exit(0);
}

/* Unloads the library and loads it again. */
static void close_library(void)
{
    if (state == FOREGROUND || state == OPENING || state == LOST) /* a thread is in the library */
        return;
    let_go();
    lib.limber_destroy(ctx);
    dlclose(handle);
    open_library();
    check_service(true);
}

/* Forks while a compilation runs.  The child must be able to compute. */
static void fork_child(void)
{
    int status = 0;
    pid_t child;

    /* before it forks, the library waits until no compilation is running */
    pthread_atfork(let_go, NULL, NULL);
    child = fork();
    if (child == 0) {
        check_service(true);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        fault("the child fails");
}

/* Ends the process in the way that this run tests (enum way).  Returns what main returns. */
static int end_process(void)
{
    pthread_t thread;

    if (way == EARLY)
        atexit(compute_in_destructor);
    open_library();
    reach_state();
    leave_gate_to_thread();
    if (way == LATE)
        atexit(compute_at_exit);
    else if (way == QUICK && at_quick_exit(compute_at_exit) == 0)
        quick_exit(0);
    else if (way == CLOSE)
        close_library();
    else if (way == FORKED)
        fork_child();
    if (way != LATE)
        atexit(let_go);
    if (way == THREAD && pthread_create(&thread, NULL, exit_here, NULL) == 0)
        for (;;)
            pause();
    return way == THREAD || way == QUICK;
}

/* Returns whether a combination is tested.  Excludes those that would wait for the lost thread
 * forever. */
static bool is_possible(int w, int s)
{
    return s != LOST || (w != LATE && w != FORKED && w != QUICK);
}

/* ---- all combinations ------------------------------------------------------------------------ */

/* Returns the index of a name; ends the process if it is unknown. */
static int index_of(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    exit(73);
}

/* Runs the program for each possible way and state.  Returns 1 if one of these runs failed. */
static int run_all(const char *program)
{
    int failed = 0, tried = 0;

    for (int w = 0; w < WAYS; w++)
        for (int s = 0; s < STATES; s++) {
            int status = 0;
            pid_t child;

            if (!is_possible(w, s))
                continue;
            tried++;
            child = fork();
            if (child == 0) {
                execl(program, program, ways[w], states[s], NULL);
                _exit(74);
            }
            if (child < 0 || waitpid(child, &status, 0) != child || status) {
                printf("%s, %s: status %x\n", ways[w], states[s], status);
                failed++;
            }
        }
    printf("%d of %d failed\n", failed, tried);
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return run_all(argv[0]);
    alarm(100);
    way = (enum way)index_of(argv[1], ways, WAYS);
    state = (enum state)index_of(argv[2], states, STATES);
    if ((way == STATIC || way == DESTROY) && !is_registered)
        return 75;
    return end_process();
}
