/* SPDX-License-Identifier: BSD-3-Clause
 * Internals of the simulated GPU.  engine.c: fibres, their scheduling, meetings of threads.
 * shared.c: shared memory and the order of accesses to it.  memory.c: device memory.  order.c: the
 * order of accesses to device memory.  async.c: copies and barriers.
 * product.c: products of warps and warpgroups.  columns.c: tensor memory.  driver.c: functions of
 * the driver.
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
    /* identities of those who access memory, in epochs: threads, then products of warpgroups,
     * copies to a barrier, products into tensor memory.  BLOCK_IDS is added for each further
     * block of the cluster. */
    AGENT_GROUP = MAX_THREADS,
    AGENT_BARRIER = AGENT_GROUP + MAX_GROUPS,
    AGENT_TENSOR = AGENT_BARRIER + MAX_BARRIERS,
    AGENTS = MAX_GROUPS + MAX_BARRIERS + 1,
    COUNTERS = 32, /* number of counters in device memory that order.c distinguishes */
    BLOCK_IDS = MAX_THREADS + AGENTS,
    ID_BARRIER = 0xffe, /* identity that marks bytes that hold a barrier */
    ID_FLIGHT = 0xfff, /* identity that marks bytes that a pending copy writes */
};

/* ---- which accesses are ordered ---------------------------------------------------------- */

/* Entry of a vector clock: identity of a thread or asynchronous unit << 20 | its clock, which
 * begins at 1. 0: never. */
typedef uint32_t epoch;
enum { CLOCK_BITS = 20, CLOCK_MASK = (1 << CLOCK_BITS) - 1 };

/* A vector clock.  For each block of a cluster it has the last known clock of each thread and
 * asynchronous unit, and that of each thread's last write that was fenced for asynchronous
 * units; then the number of known releases at each counter in device memory (order.c).  Threads
 * that have waited for each other share one vector clock. */
struct clocks {
    int refs;
    struct clocks *next;
    uint32_t at[];
};

struct block;

/* The clocks that tell whether an access is ordered after earlier ones. */
struct witness {
    const uint32_t *known; /* vector clock of the accessor */
    /* identity of the accessor: all its own earlier accesses are ordered before; -1: no identity */
    int self;
    uint32_t fenced; /* clock of the accessor's last fenced write */
    bool async; /* an asynchronous unit: sees threads' writes only if they were fenced */
    epoch now; /* epoch of this access, which is recorded */
};

/* ---- scheduling threads as fibres ------------------------------------------------------------ */

enum state { READY, WAITING, ENDED };

/* A place where threads of a warp, a warpgroup or a barrier wait for each other. */
struct meeting {
    const char *what;
    /* `count` of `size` threads have arrived; kind: distinguishes operations that must agree */
    int kind, count, size;
    int from; /* first thread of the warp or warpgroup */
    struct fibre *here[MAX_THREADS];
};

/* A pending copy of a thread: `bytes` bytes from p to shared memory at `at`, then zeros up to
 * `size` bytes. */
struct copy {
    uint32_t at;
    const void *p;
    int bytes, size, group;
};

/* A simulated thread with its own stack. */
struct fibre {
    void *sp;
    char *stack;
    struct block *block;
    int thread, id; /* id: identity in epochs */
    enum state state;
    const char *where; /* the operation in which it waits, or NULL */
    uint32_t where_at, where_parity;
    void *arg; /* arguments of the operation in which it waits */
    struct clocks *known;
    /* the thread's clock, and its value at the last fence for asynchronous units */
    uint32_t clock, fenced;
    uint32_t moment; /* index of the moment (order.c) of its last write to device memory */
    bool began; /* the thread has waited for the previous launch */
    struct copy *copies;
    int copy_count, copy_room, copy_group;
    bool group_fenced;
    struct load *loads; /* pending loads from tensor memory */
    int load_count, load_room;
    struct clocks *columns_known;
    /* [rank] clock of its last arrival at a barrier of that block; 0: never */
    uint32_t reached[MAX_CLUSTER];
};

/* A barrier in shared memory.  agent: identity of its copies in epochs. */
struct barrier {
    uint32_t at;
    int count, pending, agent;
    int64_t bytes; /* bytes expected minus bytes completed, in this phase */
    uint32_t phase; /* number of ended phases */
    epoch init;
    bool init_done;
    /* number of copies and product arrivals that were requested, and number that have completed */
    uint32_t issued, landed;
    uint32_t arrived; /* value of `landed` at the last product arrival */
    struct clocks *now, *done; /* vector clocks: of arrivals in this phase; of all ended phases */
};

/* A pending copy to a block: of a tensor's box, or contiguous if map is NULL.  If map and from are
 * NULL: a pending arrival of a block's products, with their clocks. */
struct flight {
    const struct map *map;
    const void *from;
    uint32_t at, bytes;
    int x, y, z;
    struct barrier *barrier;
    epoch done;
    struct clocks *known;
};

/* A set of registers in which products of a warpgroup are summed. */
struct sum {
    struct sum *next;
    int kind, n;
    uint32_t *d[128]; /* [thread] address of its registers */
    /* the true sums: n / 2 registers of each of 128 threads; until the warp has waited, the
     * program's registers (d) hold poison, so that a premature read is noticed */
    uint32_t *value;
    bool open[4]; /* [warp] true until the warp has waited for the sums */
    uint32_t last[4]; /* [warp] commit group of the last product */
};

/* Products of a warpgroup, and their sums. */
struct group {
    struct sum *sums;
    uint32_t committed[4]; /* [warp] number of commit groups so far */
};

/* Epochs of the last write to four bytes of shared memory, and of up to three later reads. */
struct cell {
    epoch write, read[3];
};

/* Blocks that can access each other's shared memory; they start together. */
struct cluster {
    struct block *block[MAX_CLUSTER];
    int size, here_count;
    struct fibre *here[MAX_CLUSTER * MAX_THREADS]; /* threads that wait in sync_cluster */
};

/* A simulated block of threads. */
struct block {
    int index, rank, threads, ended;
    struct cluster *cluster;
    struct clocks *end; /* vector clock of all threads that have ended */
    int registers[MAX_WARPS]; /* [warp] registers per thread after setmaxnreg; 0: as launched */
    uint32_t limit; /* bytes of shared memory */
    unsigned char *shared;
    /* epochs of 4-byte words, and of single bytes in the words that are split */
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

/* A launch as the driver passes it to the engine. */
struct launch {
    const char *name;
    void (*entry)(const void *args);
    const void *args;
    uint32_t args_size;
    int device, blocks, threads, cluster;
    uint32_t shared;
    bool early; /* may begin before the previous launch has ended */
};

/* State of the launch that runs, and the memory that launches reuse. */
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
    int fuse, fuse_length; /* accesses until the next switch of fibres, and their maximum */
    int clocks_size; /* number of entries of a vector clock */
    struct clocks *spare;
    int capability;
    char error[8192];
    bool failed;
};
extern struct engine engine;
extern const struct simt_api simt_table;

/* Runs a launch to its end.  Returns false after a failure, whose message is in engine.error. */
bool engine_run(const struct launch *launch);
/* Records the first failure.  In a fibre this does not return. */
void engine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void engine_drop(void); /* frees all memory */
uint32_t engine_random(uint32_t below);

void registers_change(int n);
/* is called by all lanes of a warp; returns true in one lane, always the same one during a
 * launch */
bool is_elected(void);
void fibre_wait(const char *where, uint32_t at, uint32_t parity);
void fibre_wake(struct fibre *f);
void fibre_yield(void);
void fibre_maybe_yield(void);
/* Waits for all threads of a warp or warpgroup.  Returns true to the last one, which does the work
 * while the others wait, and then calls meeting_end. */
bool meeting_enter(struct meeting *m, const char *what, int kind, void *arg);
void meeting_end(struct meeting *m);
struct meeting *my_warp(void);
struct meeting *my_warpgroup(void);

/* ---- shared.c -------------------------------------------------------------------------------- */

void shared_start(struct block *b);
/* Returns the index in a vector clock of the thread or agent to which the epoch e belongs. */
size_t clocks_index(epoch e);
/* Returns the index in a vector clock of the last fenced write of thread id. */
size_t clocks_fence(int id);
struct clocks *clocks_new(void);
void clocks_drop(struct clocks *c);
struct clocks *clocks_keep(struct clocks *c);
void clocks_join(struct clocks *to, const struct clocks *from);
void clocks_join_fibre(struct clocks *to, const struct fibre *f);
void clocks_tick(struct fibre *f);
void fibre_acquire(struct fibre *f, struct clocks *c);
/* Joins the vector clocks of all these fibres: each then knows what any of them knew. */
void clocks_meet(struct fibre *const *fibres, int count);
bool clocks_know(const struct witness *w, epoch e);
struct witness fibre_witness(const struct fibre *f);
/* Checks and records an access.  The range must be inside the block's shared memory. */
void shared_note(struct block *b, const struct witness *w, uint32_t at, uint32_t size, bool write);
/* Records epoch e as the last write of these bytes, without a check.  e may be FLIGHT (a pending
 * copy will write them) or IS_BARRIER (they hold a barrier). */
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

/* reserves the address space of all devices; each: bytes of memory per device */
bool memory_start(uint64_t each);
void memory_stop(void);
uint64_t memory_allocate(int device, uint64_t size); /* returns 0 if memory is exhausted */
bool memory_free(uint64_t at);
uint64_t memory_left(int device);
/* returns whether an address is in the address space of any device */
bool memory_inside(uint64_t at);
int memory_device(uint64_t at);
/* Returns the host address of device memory, NULL unless all bytes are in one allocation. */
unsigned char *memory_host_address(uint64_t at, uint64_t size);
bool memory_find(uint64_t at, uint64_t *base, uint64_t *size);
void memory_written(uint64_t at, uint64_t size);
void memory_copy(uint64_t to, uint64_t from, uint64_t size);
void memory_begin_launch(void); /* begins a launch: bytes that it writes are not constant */
/* flips a bit of the byte with the highest address that the launch wrote */
void memory_flip_bit(void);
const unsigned char *memory_check(uint64_t at, uint64_t size, bool constant, const char *what);
void *global_read(const void *p, uint32_t size, uint32_t align, int constant);
void *global_write(void *p, uint32_t size, uint32_t align);
void *global_atomic(void *p, uint32_t size, uint32_t align);

/* ---- faults.c: faults that variables of README.md plant -------------------------------------- */

bool fault_is_gone(void); /* returns whether an earlier process has lost the device */
void fault_before(void); /* called before a launch; may hang or fail */
void fault_after(const char *kernel); /* called after a launch; may change a byte that it wrote */

/* ---- order.c --------------------------------------------------------------------------------- */

void order_start(void);
void order_end(void);
/* records which thread writes now, and when; returns the record's index */
uint32_t order_record(void);
/* fails unless the running thread is ordered after the write of that record */
void order_check(uint64_t at, uint32_t moment);
/* notes an atomic operation with acquire and release semantics on a counter */
void order_pass(uint64_t at);
/* order_begin records that the thread has waited for the previous launch; order_began fails if
 * an early launch accesses device memory before that. */
void order_begin(void);
void order_began(const char *what);

/* ---- async.c --------------------------------------------------------------------------------- */

/* A tensor map: contents of the 128 bytes that cuTensorMapEncodeTiled writes. */
#define SIMT_MAP UINT64_C(0x70616d746d6973)
struct map {
    uint64_t magic, base;
    uint64_t stride[2];
    uint64_t size[3]; /* sizes of the tensor, in elements */
    uint32_t box[3];
    uint8_t rank, element, swizzle, fill;
};

bool async_land(void); /* completes one pending copy; false if there is none */
void async_end(struct fibre *f);
void copy_later(uint32_t at, const void *p, int bytes, int size);
void copy_group(void);
void copy_wait(int n);
void barrier_init(uint32_t at, int count);
void barrier_init_done(void);
void barrier_arrive(uint32_t at, uint32_t bytes);
/* Schedules an arrival at the barriers of the blocks in the mask (0: this block).  done: epoch of
 * the products; known: their vector clock. */
void async_arrive(uint32_t at, uint32_t blocks, epoch done, const struct clocks *known);
void barrier_arrive_in(uint32_t at, int rank);
void barrier_wait(uint32_t at, uint32_t parity);
void tensor_load(uint32_t at, const void *map, int x, int y, int z, uint32_t barrier,
                 uint32_t blocks);
void bulk_load(uint32_t at, const void *from, uint32_t bytes, uint32_t barrier);
void tensor_prefetch(const void *map);

/* ---- product.c ------------------------------------------------------------------------------- */

/* prepares models of tensor cores before threads run, because their stacks are small */
void product_start(void);
void product_end(struct fibre *f);
void product_drop(struct block *b);
void load_fragments(uint32_t *r, uint32_t at);
void mma(int kind, void *d, const uint32_t *a, const uint32_t *b);
/* A block-scaled product.  For A and B: the format, which byte of each word of scales is used
 * first, and which lane of each four provides the scales. */
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
/* Rows of 128 bytes in shared memory.  The tile begins at byte `at`, a multiple of 32.  Groups of
 * eight rows are `groups` bytes apart.  In copies to tensor memory rows have 16 bytes. */
struct tile {
    uint32_t at, groups;
};
void group(int kind, int n, void *d, struct tile a, struct tile b, int keep);
/* Adds products of 32 bytes of each row of a and each column of b to d[row * n + column].  w: the
 * clocks with which a and b are read. */
void product_of_tiles(int kind, bool columns, const struct witness *w, int rows, struct tile a,
                      int n, struct tile b, uint32_t *const *d, const char *what);
/* Adds block-scaled products.  Elements of less than a byte are packed, 16 at the start of 16
 * bytes.  scales: four bytes for each row and column, of which the product uses some. */
void scaled_product_of_tiles(const struct scaled_product *x, const struct witness *w, int rows,
                             struct tile a, int n, struct tile b, uint8_t (*const scales[2])[4],
                             uint32_t *const *d);

/* ---- columns.c ------------------------------------------------------------------------------- */

void columns_allocate(uint32_t at, uint32_t count);
void columns_take_no_more(void);
void columns_free(uint32_t address, uint32_t count);
void columns_before(void);
void columns_after(void);
void columns_product(int kind, int n, uint32_t to, struct tile a, struct tile b, int keep);
/* A block-scaled product into tensor memory; scales: columns where those of A and B begin. */
void columns_scaled_product(const struct scaled_product *x, int n, uint32_t to, struct tile a,
                            struct tile b, const uint32_t scales[2], int keep);
/* Copies 32 rows of 16 bytes of shared memory to four columns, once into each quarter of the
 * lanes. */
void columns_copy(uint32_t to, struct tile from);
void columns_arrive(uint32_t at, uint32_t blocks);
void columns_load(uint32_t *d, uint32_t address);
void columns_wait(void);
void columns_end(struct fibre *f);
void columns_drop(struct block *b);

/* ---- ptx.c ----------------------------------------------------------------------------------- */

/* Executes the text of an asm statement in the running thread.  Parsed texts are cached by address
 * until ptx_forget. */
void ptx(const char *text, const struct simt_operand *o, int count);
void ptx_forget(void);

#endif
