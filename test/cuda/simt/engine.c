/* SPDX-License-Identifier: BSD-3-Clause
 * Runs GPU threads as fibres, one at a time.  A seeded generator draws the next fibre. */
#define _GNU_SOURCE
#include "test/cuda/simt/engine.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct engine engine;

/* ---- switching between fibres -------------------------------------------------------------- */

#if defined(__x86_64__)
void simt_switch(void **save, void *to);
__asm__(".text\n"
        ".globl simt_switch\n"
        ".hidden simt_switch\n"
        ".type simt_switch,@function\n"
        "simt_switch:\n"
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
        "ret\n"
        ".size simt_switch, .-simt_switch\n");

/* Prepares a new stack so that simt_switch to it calls `entry`.  top: the end of the stack. */
static void *first_frame(char *top, void (*entry)(void))
{
    void **sp = (void **)(void *)top;

    *--sp = NULL;               /* `entry` has no return address */
    *--sp = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
#else
#include <ucontext.h>

/* Switches to another coroutine; *save receives what it takes to come back. */
static void simt_switch(void **save, void *to)
{
    ucontext_t here;

    *save = &here;
    swapcontext(&here, to);
}

/* Prepares a new coroutine, with its stack below `top`. */
static void *first_frame(char *top, void (*entry)(void))
{
    ucontext_t *c = (ucontext_t *)(void *)(top - (sizeof *c + 63) / 64 * 64);

    getcontext(c);
    c->uc_stack.ss_sp = top - STACK;
    c->uc_stack.ss_size = (size_t)((char *)c - (top - STACK));
    c->uc_link = NULL;
    makecontext(c, entry, 0);
    return c;
}
#endif

/* Returns a pseudorandom number below a limit. */
uint32_t engine_random(uint32_t below)
{
    uint64_t z = engine.random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % below;
}

static void switch_to_main(void)
{
    struct fibre *f = engine.running;

    engine.running = NULL;
    simt_switch(&f->sp, engine.main_sp);
}

/* Records the first failure of a launch, with its kernel, block and thread.  If a simulated thread
 * calls it, it ends that thread and does not return. */
void engine_fail(const char *format, ...)
{
    const struct fibre *f = engine.running;
    size_t n = 0;
    va_list args;

    if (!engine.failed) {
        engine.failed = true;
        if (f)
            n = (size_t)snprintf(engine.error, sizeof engine.error,
                                 "%s, block %d, thread %d: ", engine.launch->name, f->block->index,
                                 f->thread);
        else
            n = (size_t)snprintf(engine.error, sizeof engine.error,
                                 "%s: ", engine.launch ? engine.launch->name : "simt");
        va_start(args, format);
        vsnprintf(engine.error + n, sizeof engine.error - n, format, args);
        va_end(args);
        if (getenv("SIMT_VERBOSE") && strcmp(getenv("SIMT_VERBOSE"), "0") != 0)
            fprintf(stderr, "simt: %s\n", engine.error);
    }
    if (engine.running)
        switch_to_main();
}

/* Lets a thread that waits go on when its turn comes. */
void fibre_wake(struct fibre *f)
{
    f->state = READY;
    f->where = NULL;
    engine.ready[engine.ready_count++] = f;
}

/* Suspends the running thread until another wakes it; the arguments say where it waits. */
void fibre_wait(const char *where, uint32_t at, uint32_t parity)
{
    struct fibre *f = engine.running;

    f->state = WAITING;
    f->where = where;
    f->where_at = at;
    f->where_parity = parity;
    switch_to_main();
}

/* Lets other threads run before the running one goes on. */
void fibre_yield(void)
{
    fibre_wake(engine.running);
    switch_to_main();
}

/* Lets other threads run now and then: after a random number of calls. */
void fibre_maybe_yield(void)
{
    if (--engine.fuse > 0)
        return;
    engine.fuse = 1 + (int)engine_random((uint32_t)engine.fuse_length);
    fibre_yield();
}

/* ---- meetings of a warp's or block's threads ------------------------------------------------- */

struct meeting *my_warp(void)
{
    return &engine.running->block->warps[engine.running->thread / 32];
}

/* Returns where the running thread's warpgroup meets, which must have 128 threads. */
struct meeting *my_warpgroup(void)
{
    struct meeting *m = &engine.running->block->warpgroups[engine.running->thread / 128];

    if (m->size != 128)
        engine_fail("a product of a warpgroup that has no 128 threads");
    return m;
}

/* Counts the arrival of the running thread at a rendezvous of its warp or warpgroup, and waits
 * for the other threads.  Returns true in the last thread that arrives.  Fails if the threads
 * have called it for different operations. */
bool meeting_enter(struct meeting *m, const char *what, int kind, void *arg)
{
    struct fibre *f = engine.running;

    for (int i = m->from; f->block->ended && i < m->from + m->size; i++)
        if (f->block->fibres[i].state == ENDED)
            engine_fail("%s, but thread %d of the same %s has ended", what, i,
                        m->size > 32 ? "warpgroup" : "warp");
    if (m->count && (m->what != what || m->kind != kind))
        engine_fail("divergent: %s, but thread %d waits in %s", what, m->here[0]->thread, m->what);
    m->what = what;
    m->kind = kind;
    m->here[m->count++] = f;
    f->arg = arg;
    if (m->count == m->size) {
        m->count = 0; /* so that a failure does not list these threads twice */
        return true;
    }
    fibre_wait(what, 0, 0);
    return false;
}

/* Wakes the other threads of a meeting. */
void meeting_end(struct meeting *m)
{
    for (int i = m->from; i < m->from + m->size; i++) {
        struct fibre *f = &engine.running->block->fibres[i];

        if (f != engine.running)
            fibre_wake(f);
    }
}

/* warp(): the index of the running thread's warp.  All its lanes must call it together. */
static int warp_index(void)
{
    struct meeting *m = my_warp();
    int w = engine.running->thread / 32;

    if (meeting_enter(m, "warp", 0, NULL))
        meeting_end(m);
    return w;
}

/* elect.sync: true in one lane of the warp, which the seed chooses. */
bool is_elected(void)
{
    struct meeting *m = my_warp();
    int lane = engine.running->thread % 32;

    if (meeting_enter(m, "elect", 0, NULL))
        meeting_end(m);
    return lane == (int)(engine.seed % 32);
}

/* Records the number of registers that a warp requests by setmaxnreg.  Fails if all warps
 * together need more than the launch has, since some would wait forever. */
static void share_registers(struct block *b, int warp, int n)
{
    int warps = b->threads / 32, launched = 65536 / b->threads / 8 * 8, sum = 0;

    b->registers[warp] = n;
    for (int w = 0; w < warps; w++) {
        if (!b->registers[w])
            return; /* another warp has not executed setmaxnreg yet */
        sum += b->registers[w];
    }
    if (sum > warps * launched)
        engine_fail("setmaxnreg: %d warps want %d registers a lane together, the block has %d",
                    warps, sum, warps * launched);
}

/* setmaxnreg: all lanes of a warp change their number of registers to n. */
void registers_change(int n)
{
    struct meeting *m = my_warp();

    if (n < 24 || n > 256 || n % 8)
        engine_fail("setmaxnreg of %d: not a multiple of 8 in 24 to 256", n);
    if (!meeting_enter(m, "registers", n, NULL))
        return;
    share_registers(engine.running->block, m->from / 32, n);
    meeting_end(m);
}

/* A lane's argument and result of a shuffle. */
struct exchange {
    uint32_t in, out;
    int mask;
};

/* Returns the v of another lane of the warp: the one whose number is this lane's XOR `mask`.
 * Lanes may pass different masks. */
static uint32_t shuffle_xor(uint32_t v, int mask)
{
    struct exchange x = { v, v, mask };
    struct meeting *m = my_warp();

    if (meeting_enter(m, "shuffle_xor", 0, &x)) {
        struct fibre *first = &engine.running->block->fibres[m->from];

        for (int i = 0; i < m->size; i++) {
            struct exchange *to = first[i].arg;
            int from = (i ^ to->mask) & 31;

            if (from < m->size)
                to->out = ((struct exchange *)first[from].arg)->in;
        }
        meeting_end(m);
    }
    return x.out;
}

/* ---- starting and stopping blocks ------------------------------------------------------------ */

/* Ends the running thread: fails if others of its warp wait for it, or if its asynchronous work is
 * pending, and returns to the scheduler. */
static void end_fibre(void)
{
    struct fibre *f = engine.running;
    const struct meeting *w = &f->block->warps[f->thread / 32];
    const struct meeting *g = &f->block->warpgroups[f->thread / 128];

    if (w->count || g->count)
        engine_fail("has ended while others of its warp or warpgroup wait in %s",
                    w->count ? w->what : g->what);
    product_end(f);
    columns_end(f);
    async_end(f);
    order_began("ends");
    clocks_join_fibre(f->block->end, f);
    f->state = ENDED;
    f->block->ended++;
    switch_to_main();
}

static void fibre_main(void)
{
    engine.launch->entry(engine.launch->args);
    end_fibre();
}

/* Maps zeroed memory, of which only touched pages take room. */
static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED) {
        fprintf(stderr, "simt: no memory\n");
        abort();
    }
    return p;
}

/* Creates a block with the largest shared memory and number of threads. */
static struct block *new_block(void)
{
    struct block *b = map_pages(sizeof *b);

    b->shared = map_pages(MAX_SHARED);
    b->words = map_pages(MAX_SHARED / 4 * sizeof *b->words);
    b->bytes = map_pages(MAX_SHARED * sizeof *b->bytes);
    b->split = map_pages(MAX_SHARED / 4);
    b->fibres = map_pages(MAX_THREADS * sizeof *b->fibres);
    return b;
}

/* Allocates a stack with a guard page below it. */
static char *new_stack(void)
{
    char *stack = map_pages(STACK + 4096);

    mprotect(stack, 4096, PROT_NONE);
    return stack + 4096;
}

/* Prepares the places where threads of a block wait for each other: one for each warp, one for
 * each warpgroup of 128 threads, and the 16 named barriers. */
static void start_meetings(struct block *b)
{
    for (int w = 0; w * 32 < b->threads; w++) {
        b->warps[w].count = 0;
        b->warps[w].from = w * 32;
        b->warps[w].size = b->threads - w * 32 < 32 ? b->threads - w * 32 : 32;
    }
    for (int g = 0; g * 128 < b->threads; g++) {
        b->warpgroups[g].count = 0;
        b->warpgroups[g].from = g * 128;
        b->warpgroups[g].size = b->threads - g * 128 < 128 ? 0 : 128;
    }
    for (int i = 0; i < 16; i++)
        b->bars[i].count = 0;
}

/* Starts a block: resets its vector clocks, shared memory, barriers and threads. */
static void start_block(struct block *b, int index)
{
    struct clocks *none;

    b->index = index;
    b->rank = index % engine.launch->cluster;
    b->end = clocks_new();
    b->threads = engine.launch->threads;
    b->limit = engine.launch->shared;
    b->ended = b->barrier_count = b->flight_count = 0;
    memset(b->registers, 0, sizeof b->registers);
    shared_start(b);
    start_meetings(b);
    none = clocks_new();
    for (int i = 0; i < b->threads; i++) {
        struct fibre *f = &b->fibres[i];
        struct fibre fresh = { .stack = f->stack ? f->stack : new_stack(),
                               .block = b,
                               .thread = i,
                               .id = b->rank * BLOCK_IDS + i,
                               .clock = 1,
                               .known = clocks_keep(none),
                               .copies = f->copies,
                               .copy_room = f->copy_room,
                               .loads = f->loads,
                               .load_room = f->load_room };

        *f = fresh;
        f->sp = first_frame(f->stack + STACK, fibre_main);
        fibre_wake(f);
    }
    clocks_drop(none);
}

/* Frees what a block has allocated, so that another block can run in its place. */
static void stop_block(struct block *b)
{
    columns_drop(b);
    for (int i = 0; i < b->flight_count; i++)
        if (b->flights[i].known)
            clocks_drop(b->flights[i].known);
    b->flight_count = 0;
    for (int i = 0; i < b->threads; i++) {
        if (b->fibres[i].known)
            clocks_drop(b->fibres[i].known);
        b->fibres[i].known = NULL;
    }
    for (int i = 0; i < b->barrier_count; i++) {
        clocks_drop(b->barriers[i].now);
        clocks_drop(b->barriers[i].done);
    }
    if (b->threads)
        clocks_drop(b->end);
    b->barrier_count = 0;
    b->threads = 0;
    product_drop(b);
}

/* Frees the blocks' memory and stacks, which launches reuse. */
void engine_drop(void)
{
    for (int i = 0; i < MAX_RESIDENT; i++) {
        struct block *b = engine.resident[i];

        if (!b)
            continue;
        for (int t = 0; t < MAX_THREADS; t++) {
            free(b->fibres[t].copies);
            free(b->fibres[t].loads);
            if (b->fibres[t].stack)
                munmap(b->fibres[t].stack - 4096, STACK + 4096);
        }
        munmap(b->shared, MAX_SHARED);
        munmap(b->words, MAX_SHARED / 4 * sizeof *b->words);
        munmap(b->bytes, MAX_SHARED * sizeof *b->bytes);
        munmap(b->split, MAX_SHARED / 4);
        munmap(b->fibres, MAX_THREADS * sizeof *b->fibres);
        free(b->flights);
        munmap(b, sizeof *b);
        engine.resident[i] = NULL;
    }
    free(engine.ready);
    engine.ready = NULL;
}

/* ---- running fibres in random order ---------------------------------------------------------- */

/* Reports at which operation each thread waits; adjacent threads that wait at one operation share a
 * line. */
static void report_deadlock(void)
{
    static char list[6000];
    size_t n = 0;

    for (int r = 0; r < engine.resident_count; r++) {
        const struct block *b = engine.resident[r];

        for (int i = 0, to; i < b->threads; i = to) {
            const struct fibre *f = &b->fibres[i];

            for (to = i + 1; to < b->threads; to++) {
                const struct fibre *o = &b->fibres[to];

                if (o->state != f->state || o->where != f->where || o->where_at != f->where_at ||
                    o->where_parity != f->where_parity)
                    break;
            }
            if (n + 200 > sizeof list)
                break;
            n += (size_t)snprintf(list + n, sizeof list - n,
                                  "\n  block %d, threads %d to %d: ", b->index, i, to - 1);
            if (f->state == ENDED)
                n += (size_t)snprintf(list + n, sizeof list - n, "ended");
            else
                n += (size_t)snprintf(list + n, sizeof list - n, "%s (%u, %u)",
                                      f->where ? f->where : "?", f->where_at, f->where_parity);
        }
    }
    engine_fail("deadlock%s", list);
}

/* Returns whether the seed makes this warp run later than others. */
static bool is_slow(const struct fibre *f)
{
    uint64_t h = (engine.seed + 1) * 0x9e3779b97f4a7c15u +
                 (uint64_t)(f->thread / 32 + 40 * f->block->index) * 0xbf58476d1ce4e5b9u;

    return (h ^ h >> 29) % 4 == 0;
}

/* Removes a random thread from the list of ready threads and returns it.  Draws up to three
 * times, since threads of slow warps are accepted with probability 1/8 only. */
static struct fibre *pick_fibre(void)
{
    uint32_t i = 0;
    struct fibre *f;

    for (int tries = 0; tries < 3; tries++) {
        i = engine_random((uint32_t)engine.ready_count);
        if (!is_slow(engine.ready[i]) || engine_random(8) == 0)
            break;
    }
    f = engine.ready[i];
    engine.ready[i] = engine.ready[--engine.ready_count];
    return f;
}

/* Runs a thread of the kernel until it waits or ends. */
static void run_fibre(struct fibre *f)
{
    engine.running = f;
    engine.now.thread = f->thread;
    engine.now.block = f->block->index;
    simt_switch(&engine.main_sp, f->sp);
}

/* Fails if the block could end before an arrival from a block of its cluster reaches its barrier:
 * the block's shared memory ends with it. */
static void check_reached(const struct block *b, const struct block *by)
{
    for (int t = 0; t < by->threads; t++) {
        const struct fibre *f = &by->fibres[t];

        if (f->reached[b->rank] > b->end->at[clocks_index((epoch)f->id << CLOCK_BITS)])
            engine_fail("block %d may have ended before thread %d of block %d arrived at its "
                        "barrier",
                        b->index, t, by->index);
    }
}

/* Fails if the block could end before asynchronous products arrive at its barriers. */
static void check_arrived(const struct block *b)
{
    for (int i = 0; i < b->barrier_count; i++)
        if (b->barriers[i].arrived >
            b->end->at[clocks_index((epoch)b->barriers[i].agent << CLOCK_BITS)])
            engine_fail("block %d may have ended before products arrived at its barrier at byte %u",
                        b->index, b->barriers[i].at);
}

/* Returns whether all threads of a cluster have ended. */
static bool has_ended(const struct cluster *c)
{
    for (int i = 0; i < c->size; i++)
        if (c->block[i]->ended < c->block[i]->threads)
            return false;
    return c->block[0]->threads != 0;
}

/* Ends a cluster's blocks.  Fails the launch if asynchronous work is pending or barriers are
 * left in a wrong state. */
static void stop_cluster(struct cluster *c)
{
    for (int i = 0; i < c->size; i++) {
        if (c->block[i]->flight_count)
            engine_fail("block %d has ended with tensor copies, or arrivals of products, in flight",
                        c->block[i]->index);
        check_arrived(c->block[i]);
        for (int j = 0; j < c->size; j++)
            check_reached(c->block[i], c->block[j]);
    }
    for (int i = 0; i < c->size; i++)
        stop_block(c->block[i]);
}

/* Returns the number of the i-th cluster to start.  The seed draws the order, since no launch may
 * depend on it. */
static int cluster_number(int i)
{
    int count = engine.launch->blocks / engine.launch->cluster;

    return (int)((engine.first_cluster + (int64_t)i * engine.cluster_step) % count);
}

/* Draws the random order in which the launch starts its clusters: first_cluster, then always
 * cluster_step further, modulo their number. */
static void draw_order(int clusters)
{
    int a, b, rest;

    engine.first_cluster = (int)engine_random((uint32_t)clusters);
    do { /* draw a step that is coprime to the number of clusters */
        engine.cluster_step = a = 1 + (int)engine_random((uint32_t)clusters);
        for (b = clusters; a; a = rest) {
            rest = b % a;
            b = a;
        }
    } while (b != 1);
}

/* Removes clusters whose threads have all ended, and starts waiting ones in their place.  Returns
 * false if no cluster is left. */
static bool refill(void)
{
    bool live = false;

    for (int r = 0; r < engine.cluster_count; r++) {
        struct cluster *c = &engine.clusters[r];

        if (has_ended(c))
            stop_cluster(c);
        if (!c->block[0]->threads && engine.next_block < engine.launch->blocks && !engine.failed) {
            int number = cluster_number(engine.next_block / c->size);

            c->here_count = 0;
            for (int i = 0; i < c->size; i++)
                start_block(c->block[i], number * c->size + i);
            engine.next_block += c->size;
        }
        live |= c->block[0]->threads != 0;
    }
    return live;
}

/* Runs the threads in random order until all have ended, one fails, or all wait. */
static void schedule(void)
{
    struct fibre *f = NULL;

    while (!engine.failed) {
        if ((!f || f->state == ENDED) && !refill())
            return;
        if (engine.failed)
            return;
        if (engine.ready_count == 0) {
            if (!async_land()) {
                report_deadlock();
                return;
            }
            f = NULL;
            continue;
        }
        if (engine.seed % 3 && engine_random(512) == 0)
            async_land();
        f = pick_fibre();
        run_fibre(f);
    }
}

/* ---- faults of the machine ------------------------------------------------------------------- */

/* within: this thread runs a launch.  before: the handlers to restore. */
static _Thread_local bool within;
static struct sigaction before[4];
static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };

/* Handles faults such as SIGSEGV: inside a kernel they become an error of the launch, elsewhere the
 * previous handler runs. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (within && engine.running)
        engine_fail("%s at %p: an access that is not one of device.h's, or a full stack",
                    strsignal(signal), info->si_addr);
    for (int i = 0; i < 4; i++)
        if (signals[i] == signal)
            sigaction(signal, &before[i], NULL);
}

/* Installs the handlers of signals while kernels run (on), or restores those from before. */
static void catch_signals(bool on)
{
    static char stack[65536];
    static stack_t old;
    stack_t new = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction a = { .sa_sigaction = on_signal,
                           .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

    within = on;
    if (on) {
        sigaltstack(&new, &old);
        for (int i = 0; i < 4; i++)
            sigaction(signals[i], &a, &before[i]);
    } else {
        for (int i = 0; i < 4; i++)
            sigaction(signals[i], &before[i], NULL);
        sigaltstack(&old, NULL);
    }
}

/* Runs a launch to its end: starts its blocks in an order that the seed draws, and switches between
 * their threads.  Returns false after a failure, whose message is in engine.error. */
bool engine_run(const struct launch *launch)
{
    engine.launch = launch;
    engine.now.blocks = launch->blocks;
    engine.next_block = 0;
    engine.ready_count = 0;
    engine.running = NULL;
    engine.random = engine.seed * 0x9e3779b97f4a7c15u + 1;
    engine.fuse_length = 64 << 2 * (engine.seed % 3);
    engine.fuse = engine.fuse_length;
    engine.clocks_size = launch->cluster * (2 * launch->threads + AGENTS) + COUNTERS;
    draw_order(launch->blocks / launch->cluster);
    engine.cluster_count = 1 + (int)(engine.seed % (MAX_RESIDENT / MAX_CLUSTER));
    if (engine.cluster_count > launch->blocks / launch->cluster)
        engine.cluster_count = launch->blocks / launch->cluster;
    engine.resident_count = engine.cluster_count * launch->cluster;
    if (!engine.ready)
        engine.ready = calloc(MAX_RESIDENT * MAX_THREADS, sizeof *engine.ready);
    for (int r = 0; r < engine.resident_count; r++)
        if (!engine.resident[r])
            engine.resident[r] = new_block();
    for (int r = 0; r < engine.resident_count; r++) {
        struct cluster *c = &engine.clusters[r / launch->cluster];

        c->size = launch->cluster;
        c->block[r % c->size] = engine.resident[r];
        engine.resident[r]->cluster = c;
    }
    memory_begin_launch();
    order_start();
    product_start();
    catch_signals(true);
    schedule();
    catch_signals(false);
    for (int r = 0; r < engine.resident_count; r++)
        stop_block(engine.resident[r]);
    order_end();
    while (engine.spare) { /* free spare vector clocks, whose length depends on the launch */
        struct clocks *c = engine.spare;

        engine.spare = c->next;
        free(c);
    }
    engine.launch = NULL;
    return !engine.failed;
}

const struct simt_api simt_table = { &engine.now, global_read,  global_write, global_atomic,
                                     shared_read, shared_write, sync_some,    sync_warp,
                                     warp_index,  shuffle_xor,  ptx };
