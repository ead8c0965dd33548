/* SPDX-License-Identifier: BSD-3-Clause
 * Internals of the simulated GPU.  engine.c: fibres, who runs when, meetings.  shared.c: shared
 * memory and the order of accesses to it.  memory.c: device memory.  order.c: the order of accesses
 * to that.  async.c: copies and barriers.
 * product.c: what warps and warpgroups multiply.  columns.c: tensor memory.  driver.c: the driver's
 * functions.
 *
 * One launch runs at a time, on the calling thread. */
#ifndef LIMBER_SIMT_ENGINE_H
#define LIMBER_SIMT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/cuda/simt/api.h"

enum {
    MAX_THREADS = 1024,
    MAX_WARPS = MAX_THREADS / 32,
    MAX_GROUPS = MAX_THREADS / 128,
    MAX_BARRIERS = 128,
    MAX_CLUSTER = 2,
    MAX_RESIDENT = 3 * MAX_CLUSTER,
    MAX_SHARED = 227 * 1024,
    STACK = 256 * 1024,
    /* identities of accessors in epochs: threads, products of warpgroups, copies to a barrier,
     * products into tensor memory; then the same for the cluster's next block */
    AGENT_GROUP = MAX_THREADS,
    AGENT_BARRIER = AGENT_GROUP + MAX_GROUPS,
    AGENT_TENSOR = AGENT_BARRIER + MAX_BARRIERS,
    AGENTS = MAX_GROUPS + MAX_BARRIERS + 1,
    COUNTERS = 32, /* counters in device memory whose messages are distinguished */
    BLOCK_IDS = MAX_THREADS + AGENTS,
    ID_BARRIER = 0xffe, /* marks bytes of a barrier */
    ID_FLIGHT = 0xfff, /* marks bytes of a pending copy */
};

/* ---- which accesses are ordered ---------------------------------------------------------- */

/* Vector clock entry: id << 20 | clock, with clocks from 1 on. 0: never. */
typedef uint32_t epoch;
enum { CLOCK_BITS = 20, CLOCK_MASK = (1 << CLOCK_BITS) - 1 };

/* A vector clock: the last known clock of each thread and agent, and of each thread's last write
 * that was fenced for asynchronous units, for each block of a cluster; then how many messages of
 * each counter are known (order.c).  Threads that have met share it. */
struct clocks {
    int refs;
    struct clocks *next;
    uint32_t at[];
};

struct block;

/* Clocks with which an access is checked. */
struct witness {
    const uint32_t *known; /* vector clock */
    int self; /* thread whose own accesses are all known; -1: none */
    uint32_t fenced; /* last fenced write of self */
    bool async; /* writes of threads must be fenced */
    epoch now; /* epoch that the access records */
};

/* ---- scheduling threads as fibres ------------------------------------------------------------ */

enum state { READY, WAITING, ENDED };

/* Where threads of a warp, a warpgroup or a barrier wait for each other. */
struct meeting {
    const char *what;
    /* `count` of `size` threads have arrived; kind: the operation that they meet for */
    int kind, count, size;
    int from; /* first thread of a warp or warpgroup */
    struct fibre *here[MAX_THREADS];
};

/* A pending copy of a thread: bytes from p to shared memory `at`; the rest of `size` bytes become
 * zero. */
struct copy {
    uint32_t at;
    const void *p;
    int bytes, size, group;
};

/* A simulated thread, with a stack of its own. */
struct fibre {
    void *sp;
    char *stack;
    struct block *block;
    int thread, id; /* id: identity in epochs */
    enum state state;
    const char *where; /* primitive in which it waits */
    uint32_t where_at, where_parity;
    void *arg; /* argument of the operation for which it waits */
    struct clocks *known;
    uint32_t clock, fenced; /* the fibre's own entries */
    uint32_t moment; /* moment (order.c) of its last write to device memory */
    bool began; /* has waited for the previous launch */
    struct copy *copies;
    int copy_count, copy_room, copy_group;
    bool group_fenced;
    struct load *loads; /* pending loads from tensor memory */
    int load_count, load_room;
    struct clocks *columns_known;
    /* clock of its last arrival at another block's barrier; 0: never */
    uint32_t reached[MAX_CLUSTER];
};

/* A barrier in shared memory. agent: who its copies are in epochs. */
struct barrier {
    uint32_t at;
    int count, pending, agent;
    int64_t bytes; /* expected bytes minus completed ones, in this phase */
    uint32_t phase; /* number of ended phases */
    epoch init;
    bool init_done;
    /* numbers of copies and of product arrivals that were asked for, and that took place */
    uint32_t issued, landed;
    uint32_t arrived; /* value of landed at the last product arrival */
    struct clocks *now, *done; /* clocks of arrivals in this phase; of all ended phases */
};

/* A pending tensor copy to a block; without a map, a contiguous copy; with neither, an arrival of a
 * block's products with their clocks. */
struct flight {
    const struct map *map;
    const void *from;
    uint32_t at, bytes;
    int x, y, z;
    struct barrier *barrier;
    epoch done;
    struct clocks *known;
};

/* Registers in which products of a warpgroup are summed. */
struct sum {
    struct sum *next;
    int kind, n;
    uint32_t *d[128]; /* registers of each thread */
    /* The true sums: n / 2 registers of each of 128 threads.  Until the warp has waited, the
     * program's registers (d) hold poison, so that a read too early is seen. */
    uint32_t *value;
    bool open[4]; /* by warp: it has not waited for the sums yet */
    uint32_t last[4]; /* by warp: the commit group of the last product */
};

/* Products of a warpgroup. */
struct group {
    struct sum *sums;
    uint32_t committed[4]; /* number of groups that each warp has committed */
};

/* Who wrote four bytes of shared memory last, and up to three who have read them since. */
struct cell {
    epoch write, read[3];
};

/* Blocks that can access each other's shared memory; they start together. */
struct cluster {
    struct block *block[MAX_CLUSTER];
    int size, here_count;
    struct fibre *here[MAX_CLUSTER * MAX_THREADS]; /* threads waiting in sync_cluster */
};

/* A simulated block of threads. */
struct block {
    int index, rank, threads, ended;
    struct cluster *cluster;
    struct clocks *end; /* clocks of threads at their end */
    int registers[MAX_WARPS]; /* registers per thread after setmaxnreg; 0: as launched */
    uint32_t limit; /* bytes of shared memory */
    unsigned char *shared;
    /* cells of 4-byte words, and of single bytes in words that are split */
    struct cell *words, *bytes;
    unsigned char *split;
    struct fibre *fibres;
    struct meeting warps[MAX_WARPS], warpgroups[MAX_GROUPS], bars[16];
    struct group groups[MAX_GROUPS];
    struct barrier barriers[MAX_BARRIERS];
    int barrier_count;
    struct flight *flights;
    int flight_count, flight_room;
    struct columns *columns; /* tensor memory */
};

/* A launch that the driver asks the engine to run. */
struct launch {
    const char *name;
    void (*entry)(const void *args);
    const void *args;
    uint32_t args_size;
    int device, blocks, threads, cluster;
    uint32_t shared;
    bool early; /* may begin before the previous launch has ended */
};

/* All that one launch is run with. */
struct engine {
    struct simt_now now;
    struct fibre *running;
    void *main_sp;
    const struct launch *launch;
    struct block *resident[MAX_RESIDENT];
    struct cluster clusters[MAX_RESIDENT];
    int resident_count, cluster_count, next_block;
    int first_cluster, cluster_step; /* order in which clusters start */
    struct fibre **ready;
    int ready_count;
    uint64_t random, seed;
    int fuse, fuse_length; /* accesses until the next switch of fibres; most of them */
    int clocks_size; /* entries of a vector clock */
    struct clocks *spare;
    int capability;
    char error[8192];
    bool failed;
};
extern struct engine engine;
extern const struct simt_api simt_table;

/* Runs a launch to its end; false: engine.error has the reason. */
bool engine_run(const struct launch *launch);
/* Records the first failure; does not return in a fibre. */
void engine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void engine_drop(void); /* frees all memory */
uint32_t engine_random(uint32_t below);

void registers_change(int n);
/* called by all lanes of a warp; true for one lane, which is the same throughout a launch */
bool is_elected(void);
void fibre_wait(const char *where, uint32_t at, uint32_t parity);
void fibre_wake(struct fibre *f);
void fibre_yield(void);
void fibre_maybe_yield(void);
/* Waits for all of a warp or warpgroup.  Returns true for the last one, which does the work while
 * the others wait, and then calls meeting_end. */
bool meeting_enter(struct meeting *m, const char *what, int kind, void *arg);
void meeting_end(struct meeting *m);
struct meeting *my_warp(void);
struct meeting *my_warpgroup(void);

/* ---- shared.c -------------------------------------------------------------------------------- */

void shared_start(struct block *b);
/* Index of an accessor's entry, and of the fenced write of thread `id`, in a vector clock. */
size_t clocks_index(epoch e);
size_t clocks_fence(int id);
struct clocks *clocks_new(void);
void clocks_drop(struct clocks *c);
struct clocks *clocks_keep(struct clocks *c);
void clocks_join(struct clocks *to, const struct clocks *from);
void clocks_join_fibre(struct clocks *to, const struct fibre *f);
void clocks_tick(struct fibre *f);
void fibre_acquire(struct fibre *f, struct clocks *c);
/* Joins the clocks of all these fibres. */
void clocks_meet(struct fibre *const *fibres, int count);
bool clocks_know(const struct witness *w, epoch e);
struct witness fibre_witness(const struct fibre *f);
/* Checks and records an access; the range must be inside the block's memory. */
void shared_note(struct block *b, const struct witness *w, uint32_t at, uint32_t size, bool write);
/* Records a write without a check, for pending and completed copies. */
void shared_mark(struct block *b, epoch e, uint32_t at, uint32_t size);
void shared_range(const struct block *b, uint32_t at, uint64_t size, uint32_t align,
                  const char *what);
void *shared_read(uint32_t at, uint32_t size, uint32_t align);
void *shared_write(uint32_t at, uint32_t size, uint32_t align);
void sync_some(int id, int threads);
void sync_warp(void);
void sync_cluster(void);
void fence_async(void);

/* ---- memory.c -------------------------------------------------------------------------------- */

bool memory_start(uint64_t each); /* reserves address space of all devices */
void memory_stop(void);
uint64_t memory_allocate(int device, uint64_t size); /* 0: out of memory */
bool memory_free(uint64_t at);
uint64_t memory_left(int device);
bool memory_inside(uint64_t at); /* inside the address space of any device */
int memory_device(uint64_t at);
/* Host address of device memory; NULL unless all bytes are in one allocation. */
unsigned char *memory_real(uint64_t at, uint64_t size);
bool memory_find(uint64_t at, uint64_t *base, uint64_t *size);
void memory_written(uint64_t at, uint64_t size);
void memory_copy(uint64_t to, uint64_t from, uint64_t size);
void memory_launch(void); /* from now on, written memory is not constant */
void memory_spoil(void); /* flips a bit in the last byte, by address, that the launch wrote */
const unsigned char *memory_check(uint64_t at, uint64_t size, bool constant, const char *what);
void *global_read(const void *p, uint32_t size, uint32_t align, int constant);
void *global_write(void *p, uint32_t size, uint32_t align);
void *global_atomic(void *p, uint32_t size, uint32_t align);

/* ---- faults.c: faults that variables of README.md plant -------------------------------------- */

bool fault_is_gone(void); /* an earlier process lost the device */
void fault_before(void); /* called before a launch: may hang or fail */
void fault_after(const char *kernel); /* called after a launch: may change what it wrote */

/* ---- order.c --------------------------------------------------------------------------------- */

void order_start(void);
void order_end(void);
uint32_t order_moment(void); /* identifies what the running thread writes now */
/* fails unless the running thread is ordered after that write */
void order_check(uint64_t at, uint32_t moment);
void order_pass(uint64_t at); /* an atomic operation on a counter: releases and acquires */
/* order_begin waits for the previous launch; an early launch must not access device memory before
 * it. */
void order_begin(void);
void order_began(const char *what);

/* ---- async.c --------------------------------------------------------------------------------- */

/* Contents of the 128 bytes that cuTensorMapEncodeTiled writes. */
#define SIMT_MAP UINT64_C(0x70616d746d6973)
struct map {
    uint64_t magic, base;
    uint64_t stride[2];
    uint64_t size[3]; /* sizes of the tensor in elements */
    uint32_t box[3];
    uint8_t rank, element, swizzle, fill;
};

bool async_land(void); /* completes one copy; false: none is pending */
void async_end(struct fibre *f);
void copy_later(uint32_t at, const void *p, int bytes, int size);
void copy_group(void);
void copy_wait(int n);
void barrier_init(uint32_t at, int count);
void barrier_init_done(void);
void barrier_arrive(uint32_t at, uint32_t bytes);
/* Schedules an arrival at the barriers of these blocks (0: this block), with an epoch and
 * clocks. */
void async_arrive(uint32_t at, uint32_t blocks, epoch done, const struct clocks *known);
void barrier_arrive_in(uint32_t at, int rank);
void barrier_wait(uint32_t at, uint32_t parity);
void tensor_load(uint32_t at, const void *map, int x, int y, int z, uint32_t barrier,
                 uint32_t blocks);
void bulk_load(uint32_t at, const void *from, uint32_t bytes, uint32_t barrier);
void tensor_prefetch(const void *map);

/* ---- product.c ------------------------------------------------------------------------------- */

void product_start(void); /* call before threads run, because their stacks are small */
void product_end(struct fibre *f);
void product_drop(struct block *b);
void load_fragments(uint32_t *r, uint32_t at);
void mma(int kind, void *d, const uint32_t *a, const uint32_t *b);
/* A block-scaled product: formats of a and b, and the byte of the scale words, and the place in the
 * quad of lanes, from which scales come. */
struct scaled_product {
    enum simt_scaled kind;
    int format[2], byte[2], quad[2];
};
void mma_scaled(const struct scaled_product *x, float *d, const uint32_t *a, const uint32_t *b,
                uint32_t scales_a, uint32_t scales_b);
void mma_f64(double *d, double a, double b);
void wmma_load(uint32_t *r, uint32_t at, int ld);
void wmma(float *d, const uint32_t *a, const uint32_t *b);
void wmma_store(uint32_t at, const float *d, int ld);
void group_fence(void);
void group_commit(void);
void group_wait(int n);
/* Rows of 128 bytes in shared memory: a tile begins at byte `at`, at a multiple of 32; groups of
 * eight rows are `groups` bytes apart.  Rows of copies to tensor memory have 16 bytes. */
struct tile {
    uint32_t at, groups;
};
void group(int kind, int n, void *d, struct tile a, struct tile b, int keep);
/* d[row n + column] += products of 32 bytes of rows of a and columns of b, read with these
 * clocks. */
void product_of_tiles(int kind, bool columns, const struct witness *w, int rows, struct tile a,
                      int n, struct tile b, uint32_t *const *d, const char *what);
/* Adds block-scaled products.  Elements of less than a byte are packed 16 per 16 bytes; `scales`
 * are four bytes for each row and column, of which the product uses one. */
void scaled_product_of_tiles(const struct scaled_product *x, const struct witness *w, int rows,
                             struct tile a, int n, struct tile b, uint8_t (*const scales[2])[4],
                             uint32_t *const *d);

/* ---- columns.c ------------------------------------------------------------------------------- */

void columns_take(uint32_t at, uint32_t count);
void columns_take_no_more(void);
void columns_give(uint32_t address, uint32_t count);
void columns_before(void);
void columns_after(void);
void columns_product(int kind, int n, uint32_t to, struct tile a, struct tile b, int keep);
/* A block-scaled product; scales are in columns from `scales` on. */
void columns_scaled_product(const struct scaled_product *x, int n, uint32_t to, struct tile a,
                            struct tile b, const uint32_t scales[2], int keep);
/* Copies 32 rows of 16 bytes of shared memory to four columns, in each quarter of their lanes. */
void columns_copy(uint32_t to, struct tile from);
void columns_arrive(uint32_t at, uint32_t blocks);
void columns_load(uint32_t *d, uint32_t address);
void columns_wait(void);
void columns_end(struct fibre *f);
void columns_drop(struct block *b);

/* ---- ptx.c ----------------------------------------------------------------------------------- */

/* Executes assembly in the running thread.  Parsed texts are cached by address until ptx_forget. */
void ptx(const char *text, const struct simt_operand *o, int count);
void ptx_forget(void);

#endif
