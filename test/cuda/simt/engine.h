/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the stand-in for a GPU.  engine.c: fibres, who runs when, meetings.  shared.c: shared
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
    /* who accesses, in epochs: threads, the products of warpgroups, the copies to a barrier,
     * products into tensor memory; the same of the cluster's next block */
    AGENT_GROUP = MAX_THREADS,
    AGENT_BARRIER = AGENT_GROUP + MAX_GROUPS,
    AGENT_TENSOR = AGENT_BARRIER + MAX_BARRIERS,
    AGENTS = MAX_GROUPS + MAX_BARRIERS + 1,
    COUNTERS = 32, /* in device memory, whose messages are told apart */
    BLOCK_IDS = MAX_THREADS + AGENTS,
    ID_BARRIER = 0xffe, /* these bytes are a barrier */
    ID_FLIGHT = 0xfff, /* a copy that has not landed */
};

/* ---- order ------------------------------------------------------------------------------- */

/* A moment of someone: id << 20 | clock, the clock from 1 on.  0: never. */
typedef uint32_t epoch;
enum { CLOCK_BITS = 20, CLOCK_MASK = (1 << CLOCK_BITS) - 1 };

/* The last moment of everyone that is known: of a block's threads, of agents, and of threads
 * again the last write that was fenced for asynchronous units; block after block of a cluster.
 * Behind them how many messages of counters are known (order.c).  Shared by those who met. */
struct clocks {
    int refs;
    struct clocks *next;
    uint32_t at[];
};

struct block;

/* Whose access is checked. */
struct witness {
    const uint32_t *known; /* as clocks */
    int self; /* thread that knows all of itself; -1 */
    uint32_t fenced; /* of self */
    bool async; /* needs fences behind writes of threads */
    epoch now; /* what the access leaves behind */
};

/* ---- who runs ------------------------------------------------------------------------------- */

enum state { READY, WAITING, ENDED };

/* A place where threads of a warp, a warpgroup or a barrier meet. */
struct meeting {
    const char *what;
    int kind, count, size; /* here, of so many; kind tells the same words apart */
    int from; /* first thread of a warp or warpgroup */
    struct fibre *here[MAX_THREADS];
};

struct copy {
    uint32_t at;
    const void *p;
    int bytes, size, group;
};

struct fibre {
    void *sp;
    char *stack;
    struct block *block;
    int thread, id; /* id: in epochs */
    enum state state;
    const char *where; /* in which primitive it waits */
    uint32_t where_at, where_parity;
    void *arg; /* of the meeting it waits in */
    struct clocks *known;
    uint32_t clock, fenced; /* its own */
    uint32_t moment; /* of its last write to device memory */
    bool began; /* has awaited the launch before */
    struct copy *copies;
    int copy_count, copy_room, copy_group;
    bool group_fenced;
    struct load *loads; /* from tensor memory */
    int load_count, load_room;
    struct clocks *columns_known;
    uint32_t reached[MAX_CLUSTER]; /* when it last arrived in another block; 0: never */
};

struct barrier {
    uint32_t at;
    int count, pending, agent;
    int64_t bytes; /* awaited, less landed, in this phase */
    uint32_t phase; /* that have ended */
    epoch init;
    bool init_done;
    uint32_t issued, landed; /* copies, and arrivals of products */
    uint32_t arrived; /* landed, at the last of the latter */
    struct clocks *now, *done; /* of arrivals in this phase; of all ended ones */
};

/* A tensor copy in flight, of a block that it lands in; or, without a map, a copy of bytes that lie
 * together; or, with neither, the arrival of products of a block, with what they knew. */
struct flight {
    const struct map *map;
    const void *from;
    uint32_t at, bytes;
    int x, y, z;
    struct barrier *barrier;
    epoch done;
    struct clocks *known;
};

/* Registers that products of a warpgroup sum in. */
struct sum {
    struct sum *next;
    int kind, n;
    uint32_t *d[128]; /* of each thread */
    uint32_t *value; /* 128 times n / 2: true, while d holds poison */
    bool open[4]; /* for the warp: not waited for */
    uint32_t last[4]; /* commit group, by warp */
};

struct group {
    struct sum *sums;
    uint32_t committed[4]; /* groups of each warp */
};

struct cell {
    epoch write, read[3];
};

/* Blocks that see each other's shared memory; they start together. */
struct cluster {
    struct block *block[MAX_CLUSTER];
    int size, here_count;
    struct fibre *here[MAX_CLUSTER * MAX_THREADS]; /* in sync_cluster */
};

struct block {
    int index, rank, threads, ended;
    struct cluster *cluster;
    struct clocks *end; /* what threads knew when they ended */
    int registers[MAX_WARPS]; /* of a thread, since setmaxnreg; 0: as launched */
    uint32_t limit; /* bytes of shared memory */
    unsigned char *shared;
    struct cell *words, *bytes; /* of 4 bytes, and of single ones where split */
    unsigned char *split;
    struct fibre *fibres;
    struct meeting warps[MAX_WARPS], warpgroups[MAX_GROUPS], bars[16];
    struct group groups[MAX_GROUPS];
    struct barrier barriers[MAX_BARRIERS];
    int barrier_count;
    struct flight *flights;
    int flight_count, flight_room;
    struct columns *columns; /* of tensor memory */
};

struct launch {
    const char *name;
    void (*entry)(const void *args);
    const void *args;
    uint32_t args_size;
    int device, blocks, threads, cluster;
    uint32_t shared;
    bool early; /* begins before the launch in front of it has ended */
};

struct engine {
    struct simt_now now;
    struct fibre *running;
    void *main_sp;
    const struct launch *launch;
    struct block *resident[MAX_RESIDENT];
    struct cluster clusters[MAX_RESIDENT];
    int resident_count, cluster_count, next_block;
    int first_cluster, cluster_step; /* clusters start in this order */
    struct fibre **ready;
    int ready_count;
    uint64_t random, seed;
    int fuse, fuse_length; /* accesses until the next switch */
    int clocks_size; /* entries */
    struct clocks *spare;
    int capability;
    char error[8192];
    bool failed;
};
extern struct engine engine;
extern const struct simt_api simt_table;

/* Runs a launch to its end; false: engine.error says why not. */
bool engine_run(const struct launch *launch);
/* Keeps the first text; a fibre never returns from here. */
void engine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void engine_drop(void); /* all memory */
uint32_t engine_random(uint32_t below);

void registers_change(int n);
bool is_elected(void); /* all of a warp ask: one lane, the same for a launch */
void fibre_wait(const char *where, uint32_t at, uint32_t parity);
void fibre_wake(struct fibre *f);
void fibre_yield(void);
void fibre_maybe_yield(void);
/* Waits for all of a warp or warpgroup: true for the last, who does the work while the others wait,
 * and then calls meeting_end. */
bool meeting_enter(struct meeting *m, const char *what, int kind, void *arg);
void meeting_end(struct meeting *m);
struct meeting *my_warp(void);
struct meeting *my_warpgroup(void);

/* ---- shared.c -------------------------------------------------------------------------------- */

void shared_start(struct block *b);
/* Where clocks have a moment of someone, or what thread `id` has fenced. */
size_t clocks_index(epoch e);
size_t clocks_fence(int id);
struct clocks *clocks_new(void);
void clocks_drop(struct clocks *c);
struct clocks *clocks_keep(struct clocks *c);
void clocks_join(struct clocks *to, const struct clocks *from);
void clocks_join_fibre(struct clocks *to, const struct fibre *f);
void clocks_tick(struct fibre *f);
void fibre_acquire(struct fibre *f, struct clocks *c);
/* All of these know what all of these know. */
void clocks_meet(struct fibre *const *fibres, int count);
bool clocks_know(const struct witness *w, epoch e);
struct witness fibre_witness(const struct fibre *f);
/* Checks and notes; the range lies within the block's. */
void shared_note(struct block *b, const struct witness *w, uint32_t at, uint32_t size, bool write);
/* Writes without checks: what has landed, what is in flight. */
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

bool memory_start(uint64_t each); /* arenas of all devices */
void memory_stop(void);
uint64_t memory_allocate(int device, uint64_t size); /* 0: none left */
bool memory_free(uint64_t at);
uint64_t memory_left(int device);
bool memory_inside(uint64_t at); /* of any arena */
int memory_device(uint64_t at);
/* Where an address's bytes are; NULL unless all lie in one allocation. */
unsigned char *memory_real(uint64_t at, uint64_t size);
bool memory_find(uint64_t at, uint64_t *base, uint64_t *size);
void memory_written(uint64_t at, uint64_t size);
void memory_copy(uint64_t to, uint64_t from, uint64_t size);
void memory_launch(void); /* what is written from now on is not constant */
void memory_spoil(void); /* flips a bit in the last byte that the launch wrote, by address */
const unsigned char *memory_check(uint64_t at, uint64_t size, bool constant, const char *what);
void *global_read(const void *p, uint32_t size, uint32_t align, int constant);
void *global_write(void *p, uint32_t size, uint32_t align);
void *global_atomic(void *p, uint32_t size, uint32_t align);

/* ---- faults.c: variables of README.md ------------------------------------------------------- */

bool fault_is_gone(void); /* an earlier process lost the device */
void fault_before(void); /* a launch: may not return, or fail */
void fault_after(const char *kernel); /* may change what the launch wrote */

/* ---- order.c --------------------------------------------------------------------------------- */

void order_start(void);
void order_end(void);
uint32_t order_moment(void); /* what the running thread now writes is known by this number */
void order_check(uint64_t at, uint32_t moment); /* whether it may read what was written then */
void order_pass(uint64_t at); /* by a counter: releases and acquires */
/* Until here nothing may be touched of what lies in device memory, where a launch is early. */
void order_begin(void);
void order_began(const char *what);

/* ---- async.c --------------------------------------------------------------------------------- */

/* What cuTensorMapEncodeTiled leaves in the 128 bytes. */
#define SIMT_MAP UINT64_C(0x70616d746d6973)
struct map {
    uint64_t magic, base;
    uint64_t stride[2];
    uint64_t size[3]; /* of the tensor, elements */
    uint32_t box[3];
    uint8_t rank, element, swizzle, fill;
};

bool async_land(void); /* one tensor copy; false: none in flight */
void async_end(struct fibre *f);
void copy_later(uint32_t at, const void *p, int bytes, int size);
void copy_group(void);
void copy_wait(int n);
void barrier_init(uint32_t at, int count);
void barrier_init_done(void);
void barrier_arrive(uint32_t at, uint32_t bytes);
/* Later: at the barriers of these blocks (0: of this one); tells of a moment, and of what is
 * known. */
void async_arrive(uint32_t at, uint32_t blocks, epoch done, const struct clocks *known);
void barrier_arrive_in(uint32_t at, int rank);
void barrier_wait(uint32_t at, uint32_t parity);
void tensor_load(uint32_t at, const void *map, int x, int y, int z, uint32_t barrier,
                 uint32_t blocks);
void bulk_load(uint32_t at, const void *from, uint32_t bytes, uint32_t barrier);
void tensor_prefetch(const void *map);

/* ---- product.c ------------------------------------------------------------------------------- */

void product_start(void); /* before threads run, whose stacks are small */
void product_end(struct fibre *f);
void product_drop(struct block *b);
void load_fragments(uint32_t *r, uint32_t at);
void mma(int kind, void *d, const uint32_t *a, const uint32_t *b);
/* Of blocks with scales: formats of a and b, from which byte of the lanes at which place of their
 * quads the scales come. */
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
/* Rows of 128 bytes in shared memory: a tile begins at byte `at` of them, in one of their pieces of
 * 32 bytes; groups of eight lie so many bytes apart.  Rows that become columns have 16 bytes. */
struct tile {
    uint32_t at, groups;
};
void group(int kind, int n, void *d, struct tile a, struct tile b, int keep);
/* d[row n + column] += for rows of a and columns of b, 32 bytes of each, read by this witness. */
void product_of_tiles(int kind, bool columns, const struct witness *w, int rows, struct tile a,
                      int n, struct tile b, uint32_t *const *d, const char *what);
/* The same of blocks with scales, where elements of less than a byte lie 16 together in 16 bytes;
 * `scales` are the four bytes of each row and of each column, of which the product names one. */
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
/* Of blocks with scales, which lie in columns from `scales` on. */
void columns_scaled_product(const struct scaled_product *x, int n, uint32_t to, struct tile a,
                            struct tile b, const uint32_t scales[2], int keep);
/* 32 rows of 16 bytes of shared memory to four columns, in all four quarters of their lanes. */
void columns_copy(uint32_t to, struct tile from);
void columns_arrive(uint32_t at, uint32_t blocks);
void columns_load(uint32_t *d, uint32_t address);
void columns_wait(void);
void columns_end(struct fibre *f);
void columns_drop(struct block *b);

/* ---- ptx.c ----------------------------------------------------------------------------------- */

/* Does what assembly says, by the running thread.  Texts are known by their addresses, until they
 * are forgotten. */
void ptx(const char *text, const struct simt_operand *o, int count);
void ptx_forget(void);

#endif
