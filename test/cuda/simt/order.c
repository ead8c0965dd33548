/* SPDX-License-Identifier: BSD-3-Clause
 * Checks the order of accesses to device memory within a launch.  A plain read must happen after
 * another thread's write in the same launch.  Within a cluster, barriers order accesses, as for
 * shared memory; between clusters, counters do.  An atomic operation with release and acquire
 * semantics passes all writes that happened before it in its thread, including those of its block
 * before their last barrier, to later operations at that address.  Order that is passed twice, from
 * one counter to another, is not tracked. */
#include "test/cuda/simt/engine.h"

#include <stdlib.h>

/* Returns the index of a counter's entry in vector clocks.  Counters may share an entry. */
static size_t place_of(uint64_t at)
{
    return (size_t)(engine.clocks_size - COUNTERS) + (size_t)(at / 4 % COUNTERS);
}

/* A record: the writes of a thread up to its next release, identified by the thread's cluster
 * and epoch. */
struct moment {
    int cluster;
    epoch at;
};

/* A release: the clocks of a cluster when it added to a counter.  A cluster that reads the counter
 * later takes them over (acquire). */
struct release {
    uint64_t at;
    int cluster;
    struct clocks *known;
};

/* All records of the launch. */
static struct {
    struct moment *moment;
    struct release *release;
    uint32_t moments, releases, moment_room, release_room;
} order;

void order_start(void)
{
    order.moments = 1; /* index 0: no record */
    order.releases = 0;
}

void order_end(void)
{
    while (order.releases)
        clocks_drop(order.release[--order.releases].known);
}

static int cluster_of(const struct fibre *f)
{
    return f->block->index / engine.launch->cluster;
}

/* Returns the index of the record of the writes that the running thread makes until its next
 * release.  Adds the record if there is none. */
uint32_t order_record(void)
{
    struct fibre *f = engine.running;

    if (f->moment && order.moment[f->moment].at == fibre_witness(f).now)
        return f->moment;
    if (order.moments >= order.moment_room) {
        order.moment_room = 2 * order.moments + 1024;
        order.moment = realloc(order.moment, order.moment_room * sizeof *order.moment);
    }
    order.moment[order.moments] = (struct moment){ cluster_of(f), fibre_witness(f).now };
    return f->moment = order.moments++;
}

/* Returns whether a thread is ordered after the writes of record m by an atomic counter: a thread
 * of m's cluster has released at the counter after these writes, and the thread f has acquired
 * there later.  The thread knows release i if its entry for the counter exceeds i. */
static bool is_ordered_by_counter(const struct fibre *f, const struct moment *m)
{
    for (uint32_t i = 0; i < order.releases; i++) {
        const struct release *r = &order.release[i];
        const struct witness w = { .known = r->known->at, .self = -1 };

        if (r->cluster == m->cluster && f->known->at[place_of(r->at)] > i && clocks_know(&w, m->at))
            return true;
    }
    return false;
}

/* Fails unless the running thread is ordered after the write of this record at address `at`. */
void order_check(uint64_t at, uint32_t moment)
{
    const struct fibre *f = engine.running;
    const struct moment *m = &order.moment[moment];
    const struct witness w = fibre_witness(f);

    if (m->cluster == cluster_of(f) ? clocks_know(&w, m->at) : is_ordered_by_counter(f, m))
        return;
    engine_fail("race on device memory: reads %#llx, which thread %d of block %d wrote",
                (unsigned long long)at, (int)(m->at >> CLOCK_BITS) % BLOCK_IDS,
                m->cluster * engine.launch->cluster + (int)(m->at >> CLOCK_BITS) / BLOCK_IDS);
}

/* Records that the running thread releases and acquires at the counter `at`: threads that pass
 * this counter later are ordered after all that this thread is ordered after. */
void order_pass(uint64_t at)
{
    struct fibre *f = engine.running;
    struct clocks *told = clocks_new(), *known = clocks_new();

    if (order.releases == order.release_room) {
        order.release_room = 2 * order.releases + 64;
        order.release = realloc(order.release, order.release_room * sizeof *order.release);
    }
    clocks_join_fibre(told, f);
    order.release[order.releases++] = (struct release){ at, cluster_of(f), told };
    clocks_join(known, told);
    known->at[place_of(at)] = order.releases;
    clocks_drop(f->known);
    f->known = known;
    clocks_tick(f);
}

/* The running thread has waited for the previous launch (griddepcontrol.wait). */
void order_begin(void)
{
    engine.running->began = true;
}

/* Fails if a launch that began early accesses memory before it has waited for the previous
 * launch. */
void order_began(const char *what)
{
    if (engine.launch->early && !engine.running->began)
        engine_fail("%s before the launch in front of this one was awaited", what);
}
