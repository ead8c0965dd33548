/* SPDX-License-Identifier: BSD-3-Clause
 * Shared memory, and detection of races on it as in FastTrack (Flanagan and Freund, PLDI 2009). 
 * Each word (or byte, if threads access single bytes) has the epochs of its last write and of up to
 * three later reads.  A read must be ordered after that write, and a write after that write and
 * those reads.  If more than three reads are unordered, three are kept. */
#include "test/cuda/simt/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clocks: what each thread knows of the others ------------------------------------------ */

/* Index in a vector clock at which the entries of the block of thread `id` begin. */
static int block_begin(int id)
{
    return id / BLOCK_IDS * (2 * engine.launch->threads + AGENTS);
}

/* Returns the place of an epoch's thread in vector clocks. */
size_t clocks_index(epoch e)
{
    int id = (int)(e >> CLOCK_BITS), own = id % BLOCK_IDS;

    return (size_t)(block_begin(id) +
                    (own < MAX_THREADS ? own : own - MAX_THREADS + engine.launch->threads));
}

/* Returns the place in vector clocks of a thread's last fence for asynchronous units. */
size_t clocks_fence(int id)
{
    return (size_t)(block_begin(id) + id % BLOCK_IDS + engine.launch->threads + AGENTS);
}

/* Returns a vector clock of zeros. */
struct clocks *clocks_new(void)
{
    size_t size = (size_t)engine.clocks_size * sizeof(uint32_t);
    struct clocks *c = engine.spare;

    if (c)
        engine.spare = c->next;
    else
        c = malloc(sizeof *c + size);
    c->refs = 1;
    memset(c->at, 0, size);
    return c;
}

/* Releases a vector clock when its last user has gone. */
void clocks_drop(struct clocks *c)
{
    if (--c->refs)
        return;
    c->next = engine.spare;
    engine.spare = c;
}

/* Notes another user of a vector clock; returns it. */
struct clocks *clocks_keep(struct clocks *c)
{
    c->refs++;
    return c;
}

/* Joins `from` into `to`: the maximum of each entry.  Entries are compared as signed numbers,
 * because every vector unit supports that. */
void clocks_join(struct clocks *to, const struct clocks *from)
{
    for (int i = 0; i < engine.clocks_size; i++)
        to->at[i] = (int32_t)to->at[i] > (int32_t)from->at[i] ? to->at[i] : from->at[i];
}

/* Adds a fibre's own clock and its last fenced write to a vector clock. */
static void join_self(struct clocks *to, const struct fibre *f)
{
    to->at[clocks_index((epoch)f->id << CLOCK_BITS)] = f->clock;
    to->at[clocks_fence(f->id)] = f->fenced;
}

void clocks_join_fibre(struct clocks *to, const struct fibre *f)
{
    clocks_join(to, f->known);
    join_self(to, f);
}

/* Begins a thread's next epoch. */
void clocks_tick(struct fibre *f)
{
    if (++f->clock >= CLOCK_MASK)
        engine_fail("the harness counts no further: too many meetings of threads");
}

/* Joins the vector clocks of all these threads: they then share one, which has what any of them
 * knew. */
void clocks_meet(struct fibre *const *fibres, int count)
{
    struct clocks *all = clocks_new();
    const struct clocks *last = NULL;

    for (int i = 0; i < count; i++) {
        if (fibres[i]->known != last)
            clocks_join(all, fibres[i]->known);
        last = fibres[i]->known;
    }
    for (int i = 0; i < count; i++)
        join_self(all, fibres[i]);
    for (int i = 0; i < count; i++) {
        struct fibre *f = fibres[i];

        clocks_drop(f->known);
        f->known = clocks_keep(all);
        clocks_tick(f);
    }
    clocks_drop(all);
}

/* Joins c into the fibre's vector clock, which is shared with c if possible. */
void fibre_acquire(struct fibre *f, struct clocks *c)
{
    struct clocks *own;
    uint32_t less = 0, more = 0;

    if (f->known == c)
        return;
    for (int i = 0; i < engine.clocks_size; i++) {
        less |= (int32_t)f->known->at[i] > (int32_t)c->at[i];
        more |= (int32_t)f->known->at[i] < (int32_t)c->at[i];
    }
    if (!more)
        return;
    if (less) {
        own = clocks_new();
        clocks_join(own, f->known);
        clocks_join(own, c);
    } else {
        own = clocks_keep(c);
    }
    clocks_drop(f->known);
    f->known = own;
}

/* True if an access by w is ordered after epoch e. */
bool clocks_know(const struct witness *w, epoch e)
{
    int id = (int)(e >> CLOCK_BITS);

    if (id == w->self)
        return true;
    return id < ID_BARRIER && w->known[clocks_index(e)] >= (e & CLOCK_MASK);
}

/* Returns what a thread knows of the others' epochs, for the check of an access. */
struct witness fibre_witness(const struct fibre *f)
{
    return (struct witness){ f->known->at, f->id, f->fenced, false,
                             (epoch)f->id << CLOCK_BITS | f->clock };
}

/* ---- cells: who read and wrote four bytes last ----------------------------------------------- */

static bool is_thread(int id)
{
    return id < ID_BARRIER && id % BLOCK_IDS < MAX_THREADS;
}

/* Returns a description of who accessed shared memory at an epoch, for messages. */
static const char *accessor_name(epoch e)
{
    int id = (int)(e >> CLOCK_BITS);

    return id == ID_BARRIER                ? "a barrier" :
           id == ID_FLIGHT                 ? "a copy in flight" :
           id % BLOCK_IDS >= AGENT_BARRIER ? "a tensor copy whose barrier was not waited for" :
           id % BLOCK_IDS >= AGENT_GROUP   ? "a product of a warpgroup that was not waited for" :
                                             "thread";
}

/* Reports a race with an earlier access e to this address. did: "wrote" or "read", what the earlier
 * access did. */
static void conflict(uint32_t at, bool write, epoch e, const char *did)
{
    char who[32] = "";
    int id = (int)(e >> CLOCK_BITS);

    if (is_thread(id))
        snprintf(who, sizeof who, engine.launch->cluster > 1 ? " %d of rank %d" : " %d",
                 id % BLOCK_IDS, id / BLOCK_IDS);
    engine_fail("race on shared memory: %s byte %u, which %s%s %s", write ? "writes" : "reads", at,
                accessor_name(e), who, did);
}

/* Returns whether an asynchronous access may miss the write e, because the writing thread has
 * not executed fence.proxy.async since. */
static bool lacks_fence(const struct witness *w, epoch e)
{
    int id = (int)(e >> CLOCK_BITS);
    uint32_t clock = e & CLOCK_MASK;

    if (!w->async || !is_thread(id))
        return false;
    return w->known[clocks_fence(id)] < clock && !(id == w->self && w->fenced >= clock);
}

/* Fails unless the access is ordered after the cell's last write, which must be fenced for
 * asynchronous units. */
static void check_write(const struct witness *w, const struct cell *c, uint32_t at, bool write)
{
    if (c->write && !clocks_know(w, c->write))
        conflict(at, write, c->write, c->write >> CLOCK_BITS == ID_BARRIER ? "is" : "wrote");
    if (c->write && lacks_fence(w, c->write))
        engine_fail("an asynchronous unit %s byte %u of shared memory, which thread %d wrote "
                    "without fence_async",
                    write ? "writes" : "reads", at, (int)(c->write >> CLOCK_BITS) % BLOCK_IDS);
}

/* Records a read of a byte or word; fails if its last write may be concurrent. */
static void note_read(const struct witness *w, struct cell *c, uint32_t at)
{
    int free = -1;

    if (!c->write)
        engine_fail("reads byte %u of shared memory, which no one has written", at);
    check_write(w, c, at, false);
    for (int i = 0; i < 3; i++) {
        if (c->read[i] >> CLOCK_BITS == w->now >> CLOCK_BITS && c->read[i]) {
            c->read[i] = w->now;
            return;
        }
        if (!c->read[i] || clocks_know(w, c->read[i]))
            free = i;
    }
    c->read[free < 0 ? (int)engine_random(3) : free] = w->now;
}

/* Records a write of a byte or word; fails if an earlier access may be concurrent. */
static void note_write(const struct witness *w, struct cell *c, uint32_t at)
{
    check_write(w, c, at, true);
    for (int i = 0; i < 3; i++)
        if (c->read[i] && !clocks_know(w, c->read[i]))
            conflict(at, true, c->read[i], "read");
    *c = (struct cell){ w->now, { 0 } };
}

/* Gives each byte of a word its own epochs, since threads access single bytes. */
static void split_word(struct block *b, uint32_t word)
{
    if (b->split[word])
        return;
    b->split[word] = 1;
    for (int i = 0; i < 4; i++)
        b->bytes[4 * word + (uint32_t)i] = b->words[word];
}

/* Checks and records an access to single bytes of a word. */
static void note_bytes(struct block *b, const struct witness *w, uint32_t from, uint32_t to,
                       bool write)
{
    split_word(b, from / 4);
    for (uint32_t at = from; at < to; at++)
        if (write)
            note_write(w, &b->bytes[at], at);
        else
            note_read(w, &b->bytes[at], at);
    if (write && to - from == 4) {
        b->words[from / 4] = b->bytes[from];
        b->split[from / 4] = 0;
    }
}

/* Records an access to `size` bytes of shared memory and reports races.  Words accessed as a whole
 * have one record, other words one for each byte. */
void shared_note(struct block *b, const struct witness *w, uint32_t at, uint32_t size, bool write)
{
    uint32_t end = at + size, to;

    for (; at < end; at = to) {
        to = (at | 3) + 1 < end ? (at | 3) + 1 : end;
        if (to - at < 4 || b->split[at / 4])
            note_bytes(b, w, at, to, write);
        else if (write)
            note_write(w, &b->words[at / 4], at);
        else
            note_read(w, &b->words[at / 4], at);
    }
}

/* Records a write of whole words of shared memory. */
void shared_mark(struct block *b, epoch e, uint32_t at, uint32_t size)
{
    for (uint32_t word = at / 4; word < (at + size) / 4; word++) {
        b->split[word] = 0;
        b->words[word] = (struct cell){ e, { 0 } };
    }
}

/* Clears the records of a block's shared memory, and fills the memory with garbage. */
void shared_start(struct block *b)
{
    size_t words = (b->limit + 3) / 4;

    memset(b->words, 0, words * sizeof *b->words);
    memset(b->split, 0, words);
    memset(b->shared, 0xc5, b->limit);
}

/* ---- operations of threads ------------------------------------------------------------------- */

/* Checks that bytes are inside a block's shared memory and aligned. */
void shared_range(const struct block *b, uint32_t at, uint64_t size, uint32_t align,
                  const char *what)
{
    if (at > b->limit || size > b->limit - at)
        engine_fail("%s of bytes %u to %llu of shared memory, which has %u", what, at,
                    (unsigned long long)(at + size - 1), b->limit);
    if (at % align)
        engine_fail("%s at byte %u of shared memory, not aligned to %u", what, at, align);
}

/* Checks and records an access of the running thread; returns the host address of its bytes. */
static void *shared_access(uint32_t at, uint32_t size, uint32_t align, bool write)
{
    struct fibre *f = engine.running;
    struct witness w;

    fibre_maybe_yield();
    shared_range(f->block, at, size, align, write ? "store" : "load");
    w = fibre_witness(f);
    shared_note(f->block, &w, at, size, write);
    return f->block->shared + at;
}

void *shared_read(uint32_t at, uint32_t size, uint32_t align)
{
    return shared_access(at, size, align, false);
}

void *shared_write(uint32_t at, uint32_t size, uint32_t align)
{
    return shared_access(at, size, align, true);
}

/* Simulates fence.proxy.async: copies and tensor cores see the thread's writes so far. */
void fence_async(void)
{
    struct fibre *f = engine.running;

    f->fenced = f->clock;
    clocks_tick(f);
}

/* Counts a warp's arrival at a barrier of the block.  Called by the warp's last lane, which
 * wakes all threads when all have arrived. */
static void warp_arrives(struct meeting *warp, struct meeting *m, int id, int threads)
{
    struct fibre *f = engine.running;

    if (m->count && m->size != threads)
        engine_fail("sync_some %d of %d threads, but thread %d waits there for %d", id, threads,
                    m->here[0]->thread, m->size);
    m->size = threads;
    for (int i = 0; i < warp->size; i++)
        m->here[m->count++] = &f->block->fibres[warp->from + i];
    if (m->count < threads) {
        fibre_wait(warp->what, (uint32_t)id, (uint32_t)threads);
        return;
    }
    clocks_meet(m->here, m->count);
    for (int i = 0; i < m->count; i++)
        if (m->here[i] != f)
            fibre_wake(m->here[i]);
    m->count = 0;
    fibre_maybe_yield();
}

/* Simulates bar.sync, or __syncthreads if id is 0. */
void sync_some(int id, int threads)
{
    struct block *b = engine.running->block;
    struct meeting *warp = my_warp();

    threads = id ? threads : b->threads;
    if (threads > b->threads)
        engine_fail("sync_some of %d threads in a block of %d", threads, b->threads);
    if (meeting_enter(warp, id ? "sync_some" : "sync_block", id, NULL))
        warp_arrives(warp, &b->bars[id], id, threads);
}

/* Simulates __syncwarp. */
void sync_warp(void)
{
    struct meeting *m = my_warp();

    if (meeting_enter(m, "sync_warp", 0, NULL)) {
        clocks_meet(m->here, m->size);
        meeting_end(m);
    }
}

/* Counts a warp's arrival at the cluster's barrier.  Called by the warp's last lane. */
static void warp_joins(struct meeting *warp, struct cluster *c)
{
    struct fibre *f = engine.running;

    for (int i = 0; i < warp->size; i++)
        c->here[c->here_count++] = &f->block->fibres[warp->from + i];
    if (c->here_count < c->size * f->block->threads) {
        fibre_wait(warp->what, 0, 0);
        return;
    }
    clocks_meet(c->here, c->here_count);
    for (int i = 0; i < c->here_count; i++)
        if (c->here[i] != f)
            fibre_wake(c->here[i]);
    c->here_count = 0;
    fibre_maybe_yield();
}

/* Waits for all threads of the cluster. */
void sync_cluster(void)
{
    struct meeting *warp = my_warp();

    if (meeting_enter(warp, "sync_cluster", 0, NULL))
        warp_joins(warp, engine.running->block->cluster);
}
