/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous copies, and barriers in shared memory.  A copy completes as late as the rules allow,
 * so that a missing wait is found. */
#include "test/cuda/simt/engine.h"

#include <stdlib.h>
#include <string.h>

#define FLIGHT ((epoch)ID_FLIGHT << CLOCK_BITS | 1)

/* ---- copies of 16 or 4 bytes ----------------------------------------------------------------- */

static const char *copy_name(int size)
{
    return size == 16 ? "copy16" : "copy4";
}

/* Begins an asynchronous copy of this thread: `bytes` bytes from p, then zeros up to `size`
 * bytes. */
void copy_later(uint32_t at, const void *p, int bytes, int size)
{
    struct fibre *f = engine.running;
    const char *what = copy_name(size);
    struct witness w;

    fibre_maybe_yield();
    shared_range(f->block, at, (uint64_t)size, (uint32_t)size, what);
    if (bytes < 0 || bytes > size)
        engine_fail("%s of %d bytes", what, bytes);
    if ((uintptr_t)p % (uintptr_t)size)
        engine_fail("%s from %p, not aligned to %d", what, p, size);
    order_began(what);
    if (bytes)
        memory_check((uint64_t)(uintptr_t)p, (uint64_t)bytes, false, what);
    w = fibre_witness(f);
    shared_note(f->block, &w, at, (uint32_t)size, true);
    shared_mark(f->block, FLIGHT, at, (uint32_t)size);
    if (f->copy_count == f->copy_room) {
        f->copy_room = f->copy_room ? 2 * f->copy_room : 16;
        f->copies = realloc(f->copies, (size_t)f->copy_room * sizeof *f->copies);
    }
    f->copies[f->copy_count++] = (struct copy){ at, p, bytes, size, f->copy_group };
}

/* Ends a group of asynchronous copies (cp.async.commit_group). */
void copy_group(void)
{
    engine.running->copy_group++;
}

/* Waits until at most n of the thread's last groups of asynchronous copies are pending: completes
 * the copies of all earlier groups. */
void copy_wait(int n)
{
    struct fibre *f = engine.running;
    epoch now = fibre_witness(f).now;
    int left = 0;

    for (int i = 0; i < f->copy_count; i++) {
        struct copy c = f->copies[i];
        unsigned char *to = f->block->shared + c.at;

        if (c.group >= f->copy_group - n) {
            f->copies[left++] = c;
            continue;
        }
        memset(to, 0, (size_t)c.size);
        if (c.bytes)
            memcpy(
                to,
                memory_check((uint64_t)(uintptr_t)c.p, (uint64_t)c.bytes, false, copy_name(c.size)),
                (size_t)c.bytes);
        shared_mark(f->block, now, c.at, (uint32_t)c.size);
    }
    f->copy_count = left;
    fibre_maybe_yield();
}

void async_end(struct fibre *f)
{
    f->copy_count = 0;
}

/* ---- barriers in shared memory --------------------------------------------------------------- */

#define IS_BARRIER ((epoch)ID_BARRIER << CLOCK_BITS | 1)

/* Returns the barrier that was initialised at this address, or NULL. */
static struct barrier *find_barrier(struct block *b, uint32_t at)
{
    for (int i = 0; i < b->barrier_count; i++)
        if (b->barriers[i].at == at && b->words[at / 4].write == IS_BARRIER)
            return &b->barriers[i];
    return NULL;
}

/* Returns the barrier at an address.  Fails if this thread is not ordered after its
 * initialisation. */
static struct barrier *use_barrier(struct block *block, uint32_t at, const char *what)
{
    struct witness w = fibre_witness(engine.running);
    struct barrier *b;

    shared_range(block, at, 8, 8, what);
    if (block->ended == block->threads)
        engine_fail("%s: block %d has ended", what, block->index);
    b = find_barrier(block, at);
    if (!b)
        engine_fail("%s: no barrier at byte %u", what, at);
    if (!clocks_know(&w, b->init))
        engine_fail("%s: the barrier at byte %u was set up by thread %d without an order between",
                    what, at, (int)(b->init >> CLOCK_BITS) % BLOCK_IDS);
    return b;
}

/* Returns the block with this rank in the running thread's cluster. */
static struct block *block_of(int rank, const char *what)
{
    struct cluster *c = engine.running->block->cluster;

    if (rank < 0 || rank >= c->size)
        engine_fail("%s: block %d of a cluster of %d", what, rank, c->size);
    return c->block[rank];
}

/* Initialises the barrier at byte `at` of shared memory, which expects `count` arrivals in each
 * phase; or initialises an existing barrier anew. */
void barrier_init(uint32_t at, int count)
{
    struct fibre *f = engine.running;
    struct block *block = f->block;
    struct witness w = fibre_witness(f);
    struct barrier *b;

    shared_range(block, at, 8, 8, "barrier_init");
    if (count < 1 || count > (1 << 20) - 1)
        engine_fail("barrier_init of %d arrivals", count);
    b = find_barrier(block, at);
    if (!b) {
        shared_note(block, &w, at, 8, true);
        if (block->barrier_count == MAX_BARRIERS)
            engine_fail("more than %d barriers", MAX_BARRIERS);
        b = &block->barriers[block->barrier_count++];
    } else {
        clocks_drop(b->now);
        clocks_drop(b->done);
    }
    *b = (struct barrier){ .at = at,
                           .count = count,
                           .pending = count,
                           .init = w.now,
                           .agent =
                               block->rank * BLOCK_IDS + AGENT_BARRIER + (int)(b - block->barriers),
                           .now = clocks_new(),
                           .done = clocks_new() };
    shared_mark(block, IS_BARRIER, at, 8);
}

/* Makes the initialised barriers visible to the asynchronous copy engine. */
void barrier_init_done(void)
{
    struct fibre *f = engine.running;

    for (int i = 0; i < f->block->barrier_count; i++)
        if ((int)(f->block->barriers[i].init >> CLOCK_BITS) == f->id)
            f->block->barriers[i].init_done = true;
}

/* If no arrival or byte is pending, ends the barrier's phase and wakes waiting threads. */
static void try_end(struct block *block, struct barrier *b)
{
    struct clocks *done;

    if (b->pending || b->bytes)
        return;
    b->phase++;
    b->pending = b->count;
    done = clocks_new(); /* a new clock, because waiting threads may share the old one */
    clocks_join(done, b->done);
    clocks_join(done, b->now);
    clocks_drop(b->done);
    clocks_drop(b->now);
    b->done = done;
    b->now = clocks_new();
    for (int i = 0; i < block->threads; i++) {
        struct fibre *f = &block->fibres[i];

        if (f->state == WAITING && f->arg == b && f->where_parity != (b->phase & 1)) {
            f->arg = NULL;
            fibre_acquire(f, b->done);
            fibre_wake(f);
        }
    }
}

/* Counts an arrival of this thread at a barrier, which then expects `bytes` more bytes. */
static void arrive(struct block *block, struct barrier *b, uint32_t bytes)
{
    struct fibre *f = engine.running;

    if (!b->pending)
        engine_fail("barrier_arrive: the phase of the barrier at byte %u has its %d arrivals",
                    b->at, b->count);
    clocks_join_fibre(b->now, f);
    if (block != f->block)
        f->reached[block->rank] = f->clock;
    clocks_tick(f);
    b->bytes += bytes;
    b->pending--;
    try_end(block, b);
}

/* A thread arrives at a barrier of shared memory, and announces `bytes` that copies will bring. */
void barrier_arrive(uint32_t at, uint32_t bytes)
{
    struct block *block = engine.running->block;

    fibre_maybe_yield();
    if (bytes >= 1 << 20)
        engine_fail("barrier_expect of %u bytes", bytes);
    arrive(block, use_barrier(block, at, bytes ? "barrier_expect" : "barrier_arrive"), bytes);
}

/* A thread arrives at a barrier of another block in its cluster. */
void barrier_arrive_in(uint32_t at, int rank)
{
    struct block *block;
    struct barrier *b;

    fibre_maybe_yield();
    block = block_of(rank, "barrier_arrive_in");
    b = use_barrier(block, at, "barrier_arrive_in");
    if (!b->init_done)
        engine_fail("barrier_arrive_in: no barrier_init_done behind the barrier's init");
    arrive(block, b, 0);
}

/* Makes the running thread wait until the barrier's phase of this parity is complete.  Everything
 * released by that phase's arrivals is then ordered before the thread's later accesses. */
void barrier_wait(uint32_t at, uint32_t parity)
{
    struct fibre *f = engine.running;
    struct barrier *b;

    fibre_maybe_yield();
    b = use_barrier(f->block, at, "barrier_wait");
    if (parity > 1)
        engine_fail("barrier_wait for parity %u", parity);
    if ((b->phase & 1) != parity) {
        fibre_acquire(f, b->done);
        return;
    }
    f->arg = b;
    fibre_wait("barrier_wait", at, parity);
}

/* ---- copies that complete later -------------------------------------------------------------- */

/* Adds a copy or an arrival that completes later. */
static void add_flight(struct block *block, struct flight f)
{
    if (block->flight_count == block->flight_room) {
        block->flight_room = block->flight_room ? 2 * block->flight_room : 16;
        block->flights =
            realloc(block->flights, (size_t)block->flight_room * sizeof *block->flights);
    }
    block->flights[block->flight_count++] = f;
}

/* Schedules an arrival at the barrier at byte `at` of each block of the cluster in the bit mask
 * `blocks` (0: of this block), when the products of epoch `done` have completed.  known: their
 * vector clock. */
void async_arrive(uint32_t at, uint32_t blocks, epoch done, const struct clocks *known)
{
    struct block *own = engine.running->block;

    for (int rank = 0; rank == 0 || blocks >> rank; rank++) {
        struct block *to = blocks ? block_of(rank, "products_arrive_all") : own;
        struct clocks *copy;
        struct barrier *b;

        if (blocks && !(blocks >> rank & 1))
            continue;
        b = use_barrier(to, at, "products_arrive");
        if (!b->init_done)
            engine_fail("products_arrive: no barrier_init_done behind the barrier's init");
        copy = clocks_new();
        clocks_join(copy, known);
        add_flight(to, (struct flight){ .barrier = b, .done = done, .known = copy });
    }
}

/* Completes a pending arrival of asynchronous products at its barrier. */
static void land_arrival(struct block *block, const struct flight *t)
{
    struct barrier *b = t->barrier;
    uint32_t *at = &b->now->at[clocks_index(t->done)];

    if (block->ended == block->threads)
        engine_fail("products arrive in block %d, which has ended", block->index);
    if (!b->pending)
        engine_fail("products_arrive: the phase of the barrier at byte %u has its %d arrivals",
                    b->at, b->count);
    clocks_join(b->now, t->known);
    clocks_drop(t->known);
    *at = *at > (t->done & CLOCK_MASK) ? *at : t->done & CLOCK_MASK;
    b->arrived = ++b->landed;
    b->now->at[clocks_index((epoch)b->agent << CLOCK_BITS)] = b->landed;
    b->pending--;
    try_end(block, b);
}

/* ---- copies of tiles of tensors -------------------------------------------------------------- */

/* For the row of a box at (x, y, z): sets *from and *to so that bytes [*from, *to) are inside the
 * tensor, and *at to their address. */
static void row_of(const struct map *m, int64_t x, int64_t y, int64_t z, int64_t *from, int64_t *to,
                   uint64_t *at)
{
    int64_t row = (int64_t)m->box[0] * m->element, begin = x * m->element;
    int64_t end = (int64_t)m->size[0] * m->element;

    *from = begin < 0 ? -begin : 0;
    *to = begin + row < end ? row : end - begin;
    if (y < 0 || z < 0 || y >= (int64_t)m->size[1] || z >= (int64_t)m->size[2])
        *to = 0;
    *from = *from < *to ? *from : *to;
    *at =
        m->base + (uint64_t)(z * (int64_t)m->stride[1] + y * (int64_t)m->stride[0] + begin + *from);
}

/* Fails unless all elements of a copied box that are inside the tensor are in allocated device
 * memory. */
static void check_source(const struct map *m, int x, int y, int z)
{
    for (int64_t k = 0; k < m->box[2]; k++)
        for (int64_t j = 0; j < m->box[1]; j++) {
            int64_t from, to;
            uint64_t at;

            row_of(m, x, y + j, z + k, &from, &to, &at);
            if (from < to)
                memory_check(at, (uint64_t)(to - from), false, "tensor_load");
        }
}

/* Fails unless a tensor map is in the kernel's arguments and is valid.  Returns the map. */
static const struct map *check_map(const void *p, const char *what)
{
    const char *args = engine.launch->args, *map = p;
    const struct map *m = p;

    if (map < args || map + 128 > args + engine.launch->args_size || (uintptr_t)p % 64)
        engine_fail("%s: the map is not in the kernel's arguments, aligned to 64", what);
    if (m->magic != SIMT_MAP)
        engine_fail("%s: not a map that cuTensorMapEncodeTiled has written", what);
    return m;
}

/* Checks the tensor map; the simulation prefetches nothing. */
void tensor_prefetch(const void *map)
{
    check_map(map, "tensor_prefetch");
}

/* Starts a copy to one block.  barrier: its address, which is the same in each block's shared
 * memory. */
static void start_copy(struct block *block, struct flight t, uint32_t barrier, uint32_t align,
                       const char *what)
{
    struct barrier *b = use_barrier(block, barrier, what);
    struct witness w;

    if (!b->init_done)
        engine_fail("%s: no barrier_init_done behind the barrier's init", what);
    shared_range(block, t.at, t.bytes, align, what);
    w = fibre_witness(engine.running);
    w.async = true;
    shared_note(block, &w, t.at, t.bytes, true);
    shared_mark(block, FLIGHT, t.at, t.bytes);
    memset(block->shared + t.at, 0xc5, t.bytes);
    t.barrier = b;
    add_flight(block, t);
    b->issued++;
}

/* Starts an asynchronous copy of contiguous bytes from global to shared memory, which completes at
 * a barrier. */
void bulk_load(uint32_t at, const void *from, uint32_t bytes, uint32_t barrier)
{
    fibre_maybe_yield();
    order_began("bulk_load");
    if (!bytes || bytes % 16 || (uintptr_t)from % 16)
        engine_fail("bulk_load of %u bytes from %p", bytes, from);
    memory_check((uint64_t)(uintptr_t)from, bytes, false, "bulk_load");
    start_copy(engine.running->block, (struct flight){ .from = from, .at = at, .bytes = bytes },
               barrier, 16, "bulk_load");
}

/* Starts the copy of a box of a tensor, at (x, y, z), to byte `at` of the shared memory of each
 * block of the bit mask `blocks` (0: of this block).  Each barrier counts the bytes of its own
 * copy. */
void tensor_load(uint32_t at, const void *map, int x, int y, int z, uint32_t barrier,
                 uint32_t blocks)
{
    const struct map *m;
    struct flight t;

    fibre_maybe_yield();
    m = check_map(map, "tensor_load");
    order_began("tensor_load");
    if (m->rank != 3 || m->swizzle != 3 || m->fill != 0 || m->box[0] * m->element != 128)
        engine_fail("tensor_load: a map of rank %d, swizzle %d, fill %d, rows of %u bytes", m->rank,
                    m->swizzle, m->fill, m->box[0] * m->element);
    check_source(m, x, y, z);
    t = (struct flight){
        .map = m, .at = at, .bytes = 128 * m->box[1] * m->box[2], .x = x, .y = y, .z = z
    };
    if (!blocks)
        start_copy(engine.running->block, t, barrier, 1024, "tensor_load");
    for (int rank = 0; blocks >> rank; rank++)
        if (blocks >> rank & 1)
            start_copy(block_of(rank, "tensor_load_all"), t, barrier, 1024, "tensor_load");
}

/* Copies the box of a tensor map to shared memory, with the 128-byte swizzle. */
static void land_box(struct block *block, const struct flight *t)
{
    const struct map *m = t->map;
    uint32_t row = 0;

    for (int64_t k = 0; k < m->box[2]; k++)
        for (int64_t j = 0; j < m->box[1]; j++, row++) {
            unsigned char line[128] = { 0 }, *to = block->shared + t->at + 128 * row;
            int64_t from, end;
            uint64_t at;

            row_of(m, t->x, t->y + j, t->z + k, &from, &end, &at);
            if (from < end)
                memcpy(line + from, memory_check(at, (uint64_t)(end - from), false, "tensor_load"),
                       (size_t)(end - from));
            for (uint32_t c = 0; c < 8; c++)
                memcpy(to + 16 * (c ^ (row & 7)), line + 16 * c, 16);
        }
}

/* Completes an asynchronous copy: writes its bytes and reports them to its barrier. */
static void land(struct block *block, const struct flight *t)
{
    struct barrier *b = t->barrier;

    if (t->map)
        land_box(block, t);
    else
        memcpy(block->shared + t->at,
               memory_check((uint64_t)(uintptr_t)t->from, t->bytes, false, "bulk_load"), t->bytes);
    if (block->ended == block->threads)
        engine_fail("a copy lands in block %d, which has ended", block->index);
    b->landed++;
    shared_mark(block, (epoch)b->agent << CLOCK_BITS | b->landed, t->at, t->bytes);
    b->now->at[clocks_index((epoch)b->agent << CLOCK_BITS)] = b->landed;
    b->bytes -= t->bytes;
    try_end(block, b);
}

/* Completes one pending copy, chosen at random; returns false if none is pending.  Copies to one
 * barrier complete in order, copies to different barriers in any order. */
bool async_land(void)
{
    int total = 0, n;

    for (int r = 0; r < engine.resident_count; r++)
        total += engine.resident[r]->threads ? engine.resident[r]->flight_count : 0;
    if (!total)
        return false;
    n = (int)engine_random((uint32_t)total);
    for (int r = 0; r < engine.resident_count; r++) {
        struct block *b = engine.resident[r];
        struct flight t;
        int i = 0;

        if (!b->threads || n >= b->flight_count) {
            n -= b->threads ? b->flight_count : 0;
            continue;
        }
        while (b->flights[i].barrier != b->flights[n].barrier)
            i++;
        t = b->flights[i];
        memmove(&b->flights[i], &b->flights[i + 1], (size_t)(b->flight_count - i - 1) * sizeof t);
        b->flight_count--;
        if (t.map || t.from)
            land(b, &t);
        else
            land_arrival(b, &t);
        break;
    }
    return true;
}
