/* SPDX-License-Identifier: BSD-3-Clause
 * Tensor memory: allocation of columns, loads, and the products and copies into it, which one
 * thread of a block issues.  A product is computed when it is issued, but only a thread that is
 * ordered after its arrival may read its sums or overwrite its tiles or scales.  A load fills its
 * registers at columns_wait.  Copies are ordered before products that are issued later, but not
 * after earlier products.  Cells of 16 lanes by 4 columns have epochs, as words of shared memory
 * do.
 *
 * A thread's vector clock for tensor memory is the one that it had at its last columns_after.  Its
 * reads count as pending until its columns_before. */
#include "test/cuda/simt/engine.h"

#include <stdlib.h>
#include <string.h>

#define POISON 0xffc5c5c5u
#define READING ((epoch)ID_FLIGHT << CLOCK_BITS | 1)

enum { LANES = 128, ALL = 512, GROUPS = LANES / 16, LOADED = 64, CELL = 4 };

/* A load from tensor memory by one lane: the registers that it will fill, and their values. */
struct load {
    uint32_t *d, value[LOADED / 2];
    uint32_t group, column; /* group of 16 lanes, and column, from which it reads */
    /* this lane is one that was chosen at random from its warp: only its load is recorded as a
     * reader of the cells */
    bool witness;
    bool awaited;
};

/* A block's tensor memory, and the epochs of its accesses. */
struct columns {
    uint32_t from, count, *value;
    struct cell cell[GROUPS][ALL / CELL];
    epoch taken;
    bool given_up; /* the block has called columns_take_no_more */
    const struct fibre *issuer;
    struct clocks *known; /* vector clock of all products so far */
    uint32_t arrivals; /* number of arrivals requested so far */
};

/* Returns the tensor memory of the running thread's block.  Fails the launch if the device has
 * none, none was allocated, or the allocation is not ordered before this access. */
static struct columns *checked_columns(const char *what)
{
    struct columns *c = engine.running->block->columns;
    struct witness w = fibre_witness(engine.running);

    if (engine.capability / 10 != 10)
        engine_fail("%s: this device has no tensor memory", what);
    if (!c || !c->count)
        engine_fail("%s: no columns were taken", what);
    if (!clocks_know(&w, c->taken))
        engine_fail("%s: the columns were taken without an order between", what);
    return c;
}

/* Returns the first time of the block's tensor-core agent, which counts as one more thread. */
static epoch agent_of(const struct block *b)
{
    return (epoch)(b->rank * BLOCK_IDS + AGENT_TENSOR) << CLOCK_BITS;
}

/* Returns the clocks with which a thread's access to tensor memory is checked. */
static struct witness witness_of(const struct fibre *f)
{
    static const uint32_t nothing[MAX_CLUSTER * (2 * MAX_THREADS + AGENTS)];
    struct witness w = fibre_witness(f);

    w.known = f->columns_known ? f->columns_known->at : nothing;
    return w;
}

/* Checks that columns [column, column + count) belong to the block and begin at a cell. */
static void check_range(const struct columns *c, uint32_t column, uint32_t count, const char *what)
{
    if (column < c->from || column + count > c->from + c->count)
        engine_fail("%s of columns %u to %u, where %u to %u are this block's", what, column,
                    column + count - 1, c->from, c->from + c->count - 1);
    if (column % CELL)
        engine_fail("%s from column %u on", what, column);
}

/* ---- taking and giving ----------------------------------------------------------------------- */

/* Waits until all 32 lanes of a warp have called this function.  Returns the warp's meeting to
 * the last lane, which does the work for all lanes, and NULL to the others. */
static struct meeting *whole_warp(const char *what, int kind, void *arg)
{
    struct meeting *m = my_warp();

    if (m->size != 32)
        engine_fail("%s in a warp of %d threads", what, m->size);
    return meeting_enter(m, what, kind, arg) ? m : NULL;
}

/* Allocates `count` columns of tensor memory at a random place, for a warp, and stores their first
 * column at byte `at` of shared memory.  Fails if the block has columns or has given up the right
 * to allocate. */
void columns_allocate(uint32_t at, uint32_t count)
{
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("columns_allocate", (int)count, NULL);
    struct columns *c = b->columns;
    struct witness w;

    if (!m)
        return;
    if (count < 32 || count > ALL || count & (count - 1))
        engine_fail("columns_allocate of %u", count);
    if (c && (c->count || c->given_up))
        engine_fail("columns_allocate, but this block has some or wanted no more");
    if (!c)
        c = b->columns = calloc(1, sizeof *c);
    c->value = malloc(LANES * ALL * sizeof *c->value);
    c->from = 32 * engine_random((ALL - count) / 32 + 1);
    c->count = count;
    c->known = clocks_new();
    w = fibre_witness(&b->fibres[m->from]);
    c->taken = w.now;
    shared_range(b, at, 4, 4, "columns_allocate");
    shared_note(b, &w, at, 4, true);
    memcpy(b->shared + at, &c->from, 4);
    meeting_end(m);
}

/* The warp gives up the right to allocate columns of tensor memory. */
void columns_take_no_more(void)
{
    struct meeting *m = whole_warp("columns_take_no_more", 0, NULL);

    if (!m)
        return;
    if (engine.running->block->columns)
        engine.running->block->columns->given_up = true;
    meeting_end(m);
}

/* Fails if an access to tensor memory may be concurrent with an earlier one. */
static void check_cell(const struct witness *w, const struct cell *c, bool write, uint32_t column,
                       const char *what)
{
    if (c->write && !clocks_know(w, c->write))
        engine_fail("%s: column %u of tensor memory has what was not waited for, or "
                    "columns_after lacks",
                    what, column);
    if (!c->write && !write)
        engine_fail("%s: nothing was written to column %u of tensor memory", what, column);
    for (int i = 0; write && i < 3; i++)
        if (c->read[i] && !clocks_know(w, c->read[i]))
            engine_fail("%s: column %u of tensor memory is being read, or columns_before or "
                        "columns_after lack",
                        what, column);
}

/* Frees all tensor memory of the block.  Fails unless these are the columns that were allocated,
 * and all accesses to them are ordered before this call. */
void columns_free(uint32_t address, uint32_t count)
{
    struct meeting *m = whole_warp("columns_free", (int)count, NULL);
    struct columns *c;
    struct witness w;

    if (!m)
        return;
    c = checked_columns("columns_free");
    w = witness_of(&engine.running->block->fibres[m->from]);
    if (address != c->from || count != c->count)
        engine_fail("columns_free of %u from %x on, but %u from %x on were taken", count, address,
                    c->count, c->from);
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t x = c->from / CELL; x < (c->from + c->count) / CELL; x++)
            check_cell(&w, &c->cell[g][x], true, CELL * x, "columns_free");
    c->count = 0;
    meeting_end(m);
}

/* ---- fences around products ------------------------------------------------------------------ */

/* Drops the thread's loads from tensor memory that columns_wait has completed, and records them as
 * reads of their cells. */
void columns_before(void)
{
    struct fibre *f = engine.running;
    struct columns *c = f->block->columns;
    int left = 0;

    for (int i = 0; i < f->load_count; i++) {
        const struct load *l = &f->loads[i];

        if (!l->awaited) {
            f->loads[left++] = *l;
            continue;
        }
        for (uint32_t x = l->column / CELL; l->witness && x < (l->column + LOADED) / CELL; x++)
            c->cell[l->group][x].read[0] = fibre_witness(f).now;
    }
    f->load_count = left;
}

/* After columns_wait: the thread is ordered after the block's products. */
void columns_after(void)
{
    struct fibre *f = engine.running;

    if (f->columns_known)
        clocks_drop(f->columns_known);
    f->columns_known = clocks_keep(f->known);
}

/* ---- products to tensor memory --------------------------------------------------------------- */

/* Returns the clocks with which accesses of the block's products are checked.  Products run in
 * order and after the block's copies. */
static struct witness witness_of_products(const struct columns *c, const struct fibre *f)
{
    struct witness w = witness_of(f);

    w.self = (int)(agent_of(f->block) >> CLOCK_BITS);
    w.now = agent_of(f->block) | (c->arrivals + 1);
    return w;
}

/* Records that a product writes n columns. keep: the product also reads these columns, since it
 * adds to them. */
static void write_cells(struct columns *c, const struct fibre *f, uint32_t column, int n, int keep)
{
    struct witness w = witness_of_products(c, f);

    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t x = column / CELL; x < (column + (uint32_t)n) / CELL; x++) {
            struct cell *cell = &c->cell[g][x];

            check_cell(&w, cell, true, CELL * x, "a product");
            if (keep)
                check_cell(&w, cell, false, CELL * x, "a product");
            *cell = (struct cell){ w.now, { 0 } };
        }
}

/* Returns the block's columns.  Fails if another thread has issued products or copies: only one
 * thread of a block may issue them in this simulation. */
static struct columns *issued_by(struct fibre *f, const char *what)
{
    struct columns *c = checked_columns(what);

    if (c->issuer && c->issuer != f)
        engine_fail("%ss of threads %d and %d: the harness knows one a block", what + 2,
                    c->issuer->thread, f->thread);
    c->issuer = f;
    return c;
}

/* Returns the witness (a vector clock, for the check of races) of a read of shared memory by a
 * tensor-core product or a bulk copy.  The read is asynchronous: its time is that of the block's
 * agent at the next arrival. */
static struct witness reader_of(const struct columns *c, const struct fibre *f)
{
    struct witness w = fibre_witness(f);

    w.async = true;
    w.now = agent_of(f->block) | (c->arrivals + 1);
    return w;
}

/* Returns the addresses of a product's sums, n columns from column `to` on.  Without `keep`, clears
 * the sums. */
static uint32_t *const *sums_of(struct columns *c, const struct fibre *f, int n, uint32_t to,
                                int keep)
{
    static uint32_t *d[LANES * 256];

    if (to >> 16)
        engine_fail("a product's sums from lane %u on", to >> 16);
    check_range(c, to, (uint32_t)n, "a product's sums");
    write_cells(c, f, to, n, keep);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < n; j++) {
            d[i * n + j] = &c->value[(uint32_t)i * ALL + to + (uint32_t)j];
            if (!keep)
                *d[i * n + j] = 0;
        }
    return d;
}

/* Simulates tcgen05.mma: the product of tiles a and b, of n columns, to tensor memory at `to`.
 * keep: adds to the sums that are there. */
void columns_product(int kind, int n, uint32_t to, struct tile a, struct tile b, int keep)
{
    struct fibre *f = engine.running;
    uint32_t *const *d;
    struct columns *c;
    struct witness w;

    fibre_maybe_yield();
    c = issued_by(f, "a product");
    d = sums_of(c, f, n, to, keep);
    w = reader_of(c, f);
    product_of_tiles(kind, true, &w, LANES, a, n, b, d, "a product into tensor memory");
    clocks_join_fibre(c->known, f);
}

/* ---- blocks with scales ---------------------------------------------------------------------- */

/* Copies 32 rows of 16 bytes of shared memory to four columns of tensor memory, once into each
 * quarter of the 128 lanes. */
void columns_copy(uint32_t to, struct tile from)
{
    struct fibre *f = engine.running;
    struct block *b = f->block;
    struct columns *c;
    struct witness w, reader;

    fibre_maybe_yield();
    c = issued_by(f, "a copy to columns");
    if (to >> 16)
        engine_fail("a copy to columns from lane %u on", to >> 16);
    check_range(c, to, CELL, "a copy to columns");
    w = witness_of(f);
    reader = reader_of(c, f);
    for (uint32_t g = 0; g < GROUPS; g++) {
        struct cell *cell = &c->cell[g][to / CELL];

        check_cell(&w, cell, true, to, "a copy to columns");
        *cell = (struct cell){ reader.now, { 0 } };
    }
    for (uint32_t row = 0; row < LANES; row++) {
        uint32_t at = from.at + row % 32 / 8 * from.groups + row % 8 * 16;

        shared_range(b, at, 16, 16, "a copy to columns");
        shared_note(b, &reader, at, 16, false);
        memcpy(&c->value[row * ALL + to], b->shared + at, 16);
    }
    clocks_join_fibre(c->known, f);
}

/* Reads the four scale bytes of each of `lines` rows or columns, from column `from` on. */
static void read_scales(struct columns *c, const struct fibre *f, uint32_t from, int lines,
                        uint8_t (*scales)[4])
{
    struct witness w = witness_of_products(c, f);
    uint32_t count = ((uint32_t)lines + 31) / 32;

    if (from >> 16)
        engine_fail("a product's scales from lane %u on", from >> 16);
    check_range(c, from, count, "a product's scales");
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t x = from / CELL; x < (from + count + CELL - 1) / CELL; x++) {
            check_cell(&w, &c->cell[g][x], false, CELL * x, "a product's scales");
            c->cell[g][x].read[1] = w.now;
        }
    for (uint32_t line = 0; line < (uint32_t)lines; line++)
        memcpy(scales[line], &c->value[line % LANES * ALL + from + line / 32], 4);
}

/* Simulates tcgen05.mma with block scales, which it reads from tensor memory at scales[0] (of A)
 * and scales[1] (of B).  keep: adds to the sums at `to`. */
void columns_scaled_product(const struct scaled_product *x, int n, uint32_t to, struct tile a,
                            struct tile b, const uint32_t scales[2], int keep)
{
    static uint8_t of_a[LANES][4], of_b[256][4];
    struct fibre *f = engine.running;
    uint32_t *const *d;
    struct columns *c;
    struct witness w;

    fibre_maybe_yield();
    c = issued_by(f, "a product");
    read_scales(c, f, scales[0], LANES, of_a);
    read_scales(c, f, scales[1], n, of_b);
    d = sums_of(c, f, n, to, keep);
    w = reader_of(c, f);
    scaled_product_of_tiles(x, &w, LANES, a, n, b, (uint8_t(*const[2])[4]){ of_a, of_b }, d);
    clocks_join_fibre(c->known, f);
}

/* ---- barriers that await products ------------------------------------------------------------ */

/* Announces an arrival, after all products so far, at the barrier at this address in each block of
 * the mask (0: in this block). */
void columns_arrive(uint32_t at, uint32_t blocks)
{
    struct fibre *f = engine.running;
    struct columns *c;

    fibre_maybe_yield();
    c = checked_columns("products_arrive");
    if (c->issuer && c->issuer != f)
        engine_fail("products_arrive by a thread that has issued none");
    if (++c->arrivals >= CLOCK_MASK)
        engine_fail("the harness counts no further: too many arrivals of products");
    async_arrive(at, blocks, agent_of(f->block) | c->arrivals, c->known);
}

/* ---- loads from tensor memory ---------------------------------------------------------------- */

/* Appends a load of tensor memory that its thread has not waited for yet. */
static struct load *add_load(struct fibre *f)
{
    if (f->load_count == f->load_room) {
        f->load_room = f->load_room ? 2 * f->load_room : 4;
        f->loads = realloc(f->loads, (size_t)f->load_room * sizeof *f->loads);
    }
    return &f->loads[f->load_count++];
}

/* A lane's arguments of columns_load. */
struct wanted {
    uint32_t *d, address;
};

/* Loads tensor memory into the registers d of a warp's lanes.  The registers hold poison until
 * columns_wait, so that a premature read is noticed. */
void columns_load(uint32_t *d, uint32_t address)
{
    struct wanted own = { d, address };
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("columns_load", 0, &own);
    uint32_t lane = address >> 16, column = address & 0xffff, chosen;
    struct columns *c;

    if (!m)
        return;
    c = checked_columns("columns_load");
    check_range(c, column, LOADED, "columns_load");
    if (lane % 16 || lane / 32 != (uint32_t)(m->from / 32 % 4))
        engine_fail("columns_load from lane %u on by warp %d", lane, m->from / 32);
    chosen = engine_random(32);
    for (uint32_t l = 0; l < 32; l++) {
        struct fibre *f = &b->fibres[m->from + (int)l];
        const struct wanted *x = f->arg;
        struct load *load = add_load(f);
        struct witness w = witness_of(f);

        if (x->address != address)
            engine_fail("columns_load: the lanes give different addresses");
        *load = (struct load){
            .d = x->d, .group = lane / 16, .column = column, .witness = l == chosen
        };
        for (uint32_t i = 0; i < LOADED / 2; i++) {
            uint32_t row = lane + l / 4 + (i & 2) * 4,
                     at = column + i / 4 * 8 + l % 4 * 2 + (i & 1);

            check_cell(&w, &c->cell[lane / 16][at / CELL], false, at, "columns_load");
            load->value[i] = c->value[row * ALL + at];
            x->d[i] = POISON;
        }
    }
    for (uint32_t x = column / CELL; x < (column + LOADED) / CELL; x++)
        c->cell[lane / 16][x].read[0] = READING;
    meeting_end(m);
}

/* Completes all loads from tensor memory of a warp: stores the values in the registers, which must
 * still hold poison. */
void columns_wait(void)
{
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("columns_wait", 0, NULL);

    if (!m)
        return;
    for (int t = m->from; t < m->from + 32; t++)
        for (int i = 0; i < b->fibres[t].load_count; i++) {
            struct load *l = &b->fibres[t].loads[i];

            for (uint32_t k = 0; k < LOADED / 2 && !l->awaited; k++) {
                if (l->d[k] != POISON)
                    engine_fail("thread %d wrote the registers of a load before columns_wait", t);
                l->d[k] = l->value[k];
            }
            l->awaited = true;
        }
    meeting_end(m);
}

/* ---- the end of a block ---------------------------------------------------------------------- */

/* Checks at a thread's end that it has waited for all loads. */
void columns_end(struct fibre *f)
{
    for (int i = 0; i < f->load_count; i++)
        if (!f->loads[i].awaited)
            engine_fail("has ended without columns_wait for its loads");
    f->load_count = 0;
    if (f->columns_known)
        clocks_drop(f->columns_known);
    f->columns_known = NULL;
}

/* Frees the simulated tensor memory of a block that has ended.  Fails the launch if columns are
 * still allocated. */
void columns_drop(struct block *b)
{
    struct columns *c = b->columns;

    for (int t = 0; t < b->threads; t++)
        columns_end(&b->fibres[t]);
    if (c && c->count && !engine.failed)
        engine_fail("block %d has ended with columns of tensor memory", b->index);
    if (c) {
        clocks_drop(c->known);
        free(c->value);
        free(c);
    }
    b->columns = NULL;
}
