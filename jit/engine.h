/* SPDX-License-Identifier: BSD-3-Clause
 * The engine room: scan -> key -> look up -> passes -> compile -> store -> launch.  Nothing
 * outside jit/ includes this but its tests. */
#ifndef LIMBER_JIT_ENGINE_H
#define LIMBER_JIT_ENGINE_H

#include "backends/backend.h"
#include "jit/scan.h"
#include "passes/passes.h"

#include <fenv.h>
#include <pthread.h>

static inline bool limber_is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

/* ---- error.c --------------------------------------------------------------------------------- */

/* Makes d's text the thread's error text; returns d's status. */
limber_status limber_error_set(const struct diag *d);

/* ---- clock.c --------------------------------------------------------------------------------- */

double limber_now(void);        /* seconds of a clock that nobody sets */

/* ---- apart.c --------------------------------------------------------------------------------- */

/* First in every public call that computes, waits for others, or reads or writes files: until it returns its
 * thread is not cancelled, which would leave locks taken, kernels half made and workers on a stack that is gone;
 * and floating-point arithmetic is the default one, to nearest, with subnormals and without traps.  What the
 * program has set, and its flags, are there again afterwards. */
#define APART \
    struct apart apart __attribute__((cleanup(limber_apart_leave), unused)) = limber_apart_enter()
struct apart {
    int cancelled;
#if defined(__x86_64__)
    unsigned mxcsr;
#else
    fenv_t fenv;
#endif
};
struct apart limber_apart_enter(void);
void limber_apart_leave(const struct apart *before);
/* Calls fn, on another thread where this one has less stack than that. */
enum stack_need { STACK_run = 192 << 10, STACK_compile = 2 << 20 };
bool limber_with_stack(enum stack_need need, bool (*fn)(void *arg, struct diag *d), void *arg,
                       struct diag *d);
/* A thread of the library's own, with a stack that does not depend on the program's limits.  Signals are the
 * host's business, so it blocks them all. */
bool limber_thread(pthread_t *thread, void *(*fn)(void *), void *arg);
/* All of it, or false with errno; never a signal. */
bool limber_write(int fd, const void *data, size_t size);

/* ---- fork.c ---------------------------------------------------------------------------------- */

/* A lock that fork takes, none of whose holders waits for another, and what the child does with what it
 * guards (NULL: nothing), while all locks are held. */
struct at_fork {
    pthread_mutex_t *lock;
    void (*child)(void *self);
    void *self;
    struct at_fork *next;
};
void limber_at_fork(struct at_fork *f);
void limber_at_fork_no_more(struct at_fork *f);
/* Between these, around libLLVM's work, fork waits. */
void limber_compile_enter(void);
void limber_compile_leave(void);

/* ---- room.c ---------------------------------------------------------------------------------- */

/* Memory that grows with the operands, aligned to 64 bytes (below 64 bytes to 16); NULL: there is none. */
void *limber_room_take(const limber_context *ctx, size_t bytes);
void limber_room_give(const limber_context *ctx, void *memory);     /* NULL is fine */

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

/* ---- key.c ----------------------------------------------------------------------------------- */

enum { KEY_BYTES = 32, KEY_HEX = 2 * KEY_BYTES };

/* Identity of the code that runs: a hash of the library's read-only segments in memory, so that
 * a rebuilt library never meets the kernels of an older one. */
void limber_key_build(unsigned char build[16]);
/* What identifies a kernel. */
void limber_key_make(unsigned char key[KEY_BYTES], const unsigned char build[16],
                     const char *plan, const char *target);
/* The same of bytes that say it all. */
void limber_key_of_bytes(unsigned char key[KEY_BYTES], const unsigned char build[16],
                         const void *what, size_t size, const char *target);
void limber_key_hex(const unsigned char *key, size_t bytes, char *hex);

/* ---- kernels, and what is known of one without running the passes again ---------------------- */

struct facts {              /* goes to disk as it is: fixed widths, no holes */
    unsigned char key[KEY_BYTES];
    char scheme[32];
    char plan[128];         /* one line: problem and scheme */
    double bound, cost;     /* as plan.spent and plan.cost */
    int32_t rows, pruned;
};

struct entry {
    struct facts facts;
    const struct backend *backend;
    struct kernel *kernel;
    struct memory *codes;       /* NULL, or where `code` is, whose kernel this is */
    struct entry *code;
    struct function *function;  /* in the place of a kernel: of fixed shape */
    void *address;              /* of the function's code */
    int from;                   /* as in limber_report: compiled, from disk, found in memory */
    double seconds;         /* that making it took */
    char *stated;           /* the stated plan as text, or NULL */
};

/* ---- memory.c: kernels in memory ------------------------------------------------------------- */

struct memory;
/* Makes an entry; on failure the entry is left as it was. */
struct maker {
    bool (*make)(void *user, struct entry *e, struct diag *d);
    void *user;
};
/* Keeps about `bound` kernels that nobody runs. */
struct memory *limber_memory_new(size_t bound);
void limber_memory_free(struct memory *m);
/* Gives back what an entry holds. */
void limber_entry_clear(struct entry *e);
/* The entry of the description (size bytes at key), made when absent.  Threads that ask for what
 * another is making wait for it and share its failure; nobody else is held up.  *found is false
 * for the thread that made it.  Every success needs limber_memory_put. */
bool limber_memory_get(struct memory *m, const void *key, size_t size, struct maker maker,
                       struct entry **e, bool *found, struct diag *d);
void limber_memory_put(struct memory *m, struct entry *e);
size_t limber_memory_count(struct memory *m);

/* A copy of the stated plan of the entry whose key begins so; NULL: there is none, or, of one that is known, no
 * memory. */
char *limber_memory_stated(struct memory *m, const unsigned char *key, size_t size, bool *known);
/* Whether a get would find the entry made; the time of its last use is left alone. */
bool limber_memory_has(struct memory *m, const void *key, size_t size);

/* ---- background.c: kernels made while calls go on -------------------------------------------- */

struct background;
/* make is called with the bytes that were asked for, by a thread that starts with the first of them. */
struct background *limber_background_new(void (*make)(void *user, const void *key), void *user);
/* Waits for the one that is being made; the others are dropped. */
void limber_background_free(struct background *b);
/* Has it made, once for all who ask until it is.  False: no memory, or no thread. */
bool limber_background_ask(struct background *b, const void *key, size_t size);
/* Whether it is still to be made; waits for the answer no until so long, below a second, after it was
 * asked for. */
bool limber_background_busy(struct background *b, const void *key, size_t size, double seconds);

/* ---- disk.c: kernels on disk ----------------------------------------------------------------- */

enum cache_mode { CACHE_off, CACHE_ro, CACHE_rw };

struct disk;
struct disk_options {
    const char *dir;        /* NULL: none */
    const char *why_not;    /* when dir is NULL */
    const char *key_file;   /* of the key that seals entries; NULL: none, and only a site's cache is
                               read */
    size_t limit;
    enum cache_mode mode;
    double patience;        /* seconds to wait for a kernel that another process makes */
    void (*warn)(void *user, const char *line);     /* once, when the disk is given up */
    void *user;
};
struct disk *limber_disk_new(const struct disk_options *o);     /* NULL: no memory */
void limber_disk_free(struct disk *disk);
/* False when the entry is absent, foreign or damaged; the last two are removed.  The bytes are the
 * caller's, to be released with free. */
bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes);
/* Keeps an entry.  Never fails a call: what cannot be written is not kept, and after the first
 * refusal of the file system nothing more is tried. */
void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes);
void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES]);
/* Before a kernel that is not on disk is made: waits until no other process is making it, after which it
 * may be there.  To be released in any case.  -1: nobody can be asked (a disk that is not written to, a
 * file system without locks, a maker that hangs), and everybody makes their own. */
int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES]);
void limber_disk_release(int claim, const unsigned char key[KEY_BYTES]);
void limber_disk_describe(struct disk *disk, limber_cache_info *info);
bool limber_disk_each(struct disk *disk, bool verify,
                      int (*seen)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d);
bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d);

/* ---- dump.c: what happened on the way from the stated plan to the finished one --------------- */

struct story {
    int folder;             /* of this kernel's dump, open; 0: none */
    struct text *out;       /* stages as one text; NULL: none */
    struct text last;       /* the newest stage */
};
/* Makes DIR/<first 12 hex of the key>/ in the context's dump_dir, both for this user alone, and opens it
 * for a story; 0 when there is none to be or it cannot be had, which is logged. */
int limber_dump_folder(const limber_context *ctx, const unsigned char key[KEY_BYTES]);
void limber_story_stage(struct story *s, int number, const char *pass, const struct plan *p);
/* As pass_watch.seen: tells the stages that changed something. */
void limber_story_seen(void *story, const char *pass, const struct plan *p);
void limber_story_end(struct story *s, const struct plan *p);
void limber_story_clear(struct story *s);
/* As dump.file, with the story for user. */
void limber_story_file(void *story, const char *name, const char *data, size_t size);

/* ---- engine.c -------------------------------------------------------------------------------- */

/* A call whose arguments are checked.  a and b are the left and right operands of the products;
 * for convolutions these are the filters and the image.  One group is m x k by k x n. */
struct problem {
    limber_contract contract;
    const limber_conv *shape;       /* NULL: gemm */
    int64_t m, n, k, groups;
    limber_format fa, fb, fc;
    struct view a, b;
    struct patch patch_a, patch_b;  /* what a and b may point to */
    struct place c;
    int64_t step_a, step_b, step_c; /* elements from one group to the next */
    const void *const *each_a, *const *each_b;  /* NULL, or the groups' addresses in the place of */
    void *const *each_c;                        /* data and steps */
    const limber_queue *queue;      /* NULL: the backend's own */
    const void *alpha, *beta;       /* NULL: exactly 1, exactly 0 */
    struct unit_counts *counts;     /* NULL, or where the counts of a simulated unit are added */
    enum counts count;              /* what is counted */
    bool turned;                    /* a and b are the caller's b and a, transposed, and so is c */
    bool fine;                      /* a part: its whole is worth a kernel of narrow classes */
    int roundings, trust;           /* of a part: as in struct plan; its whole decides on trust */
    limber_operand *kept[2];        /* a, b where they are prepared; else NULL */
};
bool limber_engine_run(limber_context *ctx, const struct problem *p, limber_report *report,
                       struct diag *d);
/* The same for any promise but simulate, or for one whose statistics are somebody else's matter. */
bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, limber_report *report,
                             struct diag *d);
/* One plan for a product of one group whose masks are known: what it would cost, with product INFINITY
 * where there is none. */
bool limber_engine_price(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d);
bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d);
/* limber_engine_plan of such a product. */
bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, limber_report *report,
                               struct diag *d);
struct priced;
void limber_priced_free(struct priced *list);

/* meanwhile.c: a call whose kernel is being made in the background, under this key. */
struct awaited {
    const void *key;
    size_t size;
};
struct meanwhile {
    struct problem rest;        /* rows that are still to be computed */
    char *saved;                /* C as it was, of the others */
    limber_report report;       /* of the others */
};
/* Computes rows until the kernel is there, or none is left: false. */
bool limber_meanwhile_run(limber_context *ctx, const struct problem *p,
                          const struct awaited *kernel, struct meanwhile *w);
/* To be called after it.  done: the rest is computed; else it is computed now, or C made what it was and
 * false returned. */
bool limber_meanwhile_finish(limber_context *ctx, const struct problem *p, struct meanwhile *w,
                             bool done);

/* operand.c: what is kept of an operand.  The mask as a scan of this depth would give it; the lines of
 * the mask stay the operand's. */
void limber_operand_mask(const limber_operand *o, struct mask *m, enum scan_depth depth);
/* Its limbs, of a kernel, as one side of the products; *of lives as long as the keeper is in use. */
struct keeping {
    struct keeper keeper;
    limber_operand *operand;
    const unsigned char *key;       /* of the kernel */
    int side;
};
const struct keeper *limber_operand_keeper(limber_operand *o, const struct facts *f, int side,
                                           struct keeping *of);

/* mixed.c: a product as parts where that is predicted to pay.  *done is false where it is not, and
 * nothing was done then. */
bool limber_mixed_run(limber_context *ctx, const struct problem *p, const struct mask *a,
                      const struct mask *b, int trust, bool *done, limber_report *report, struct diag *d);
/* What it would be: out (or NULL) tells of the parts and then of the plan of each.  *cut is the caller's to
 * free, also after a failure. */
bool limber_mixed_plan(limber_context *ctx, const struct problem *p, const struct mask *a,
                       const struct mask *b, int trust, bool *done, struct text *out, limber_cut *cut,
                       limber_report *report, struct diag *d);

/* parts_text.c: whole is the price of one plan for all; of *cut also after a failure. */
struct partition;
bool limber_parts_cut(limber_cut *cut, const struct partition *parts, bool turned, const limber_report *r,
                      double whole, struct diag *d);
void limber_parts_text(struct text *out, const limber_cut *cut);
/* " 62% fp32-f, 38% fp32-b" */
void limber_parts_shares(struct text *out, const limber_report *r);

/* Joins what the parts of a product on a device need, where there are several, to least and best. */
bool limber_mixed_workspace(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, size_t *least, size_t *best, struct diag *d);

/* The kernel of a stated plan, made unless the disk has it; it is not kept in memory. */
bool limber_engine_make_stated(limber_context *ctx, const char *plan, limber_report *r, struct diag *d);

/* Workspace of a call on a device. */
bool limber_engine_workspace(limber_context *ctx, const struct problem *p, size_t *least,
                             size_t *best, struct diag *d);
/* out may be NULL; cut (of convolutions NULL) is zero, or filled for the caller to free. */
bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        limber_cut *cut, limber_report *report, struct diag *d);

/* groups.c: one group's operands and result. */
struct view limber_group_a(const struct problem *p, int64_t g);
struct view limber_group_b(const struct problem *p, int64_t g);
struct place limber_group_c(const struct problem *p, int64_t g);
/* m x n elements from one place to another. */
void limber_place_copy(const struct place *to, const struct place *from, int64_t m, int64_t n, int size);
/* Calls fn for every group, each a task of the runner; false with the text of the first that fails,
 * and then not all have been called. */
bool limber_groups_run(const struct runner *r, int64_t groups,
                       bool (*fn)(void *arg, int64_t g, int worker, struct diag *d), void *arg,
                       struct diag *d);

/* keep.c: C as it is, to be put back if what follows fails.  p stays until the end. */
struct keep {
    limber_context *ctx;
    const struct problem *p;
    char *memory;
};
bool limber_keep(limber_context *ctx, const struct problem *p, struct keep *k, struct diag *d);
void limber_keep_end(struct keep *k, bool ok);

/* The code of a product of fixed shape, all of whose matrices are in format f; it lives as long as
 * the context. */
bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d);

/* remote.c: operands in the memory of the context's device. */
bool limber_remote_holds(const limber_context *ctx, const void *p);
/* The stream is being captured. */
bool limber_remote_records(const limber_context *ctx, const limber_queue *q);
/* The kernel that scans operands of a format, to be put back like others. */
bool limber_remote_scanner(limber_context *ctx, limber_format f, struct entry **e,
                           struct diag *d);
bool limber_remote_scan(limber_context *ctx, struct mask *m, const struct view *v,
                        limber_format f, int64_t lines, int64_t length, const limber_queue *q,
                        struct diag *d);
/* j->c is in format f. */
bool limber_remote_terms(limber_context *ctx, const struct terms_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
bool limber_remote_weigh(limber_context *ctx, const struct weigh_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* j->from, and j->product, are in format f; of integers the products are in i64. */
bool limber_remote_sums(limber_context *ctx, struct sums_job *j, limber_format f,
                        const limber_queue *q, struct diag *d);
bool limber_remote_pairs(limber_context *ctx, const struct pairs_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* Memory of the device, in the queue's order. */
bool limber_remote_take(limber_context *ctx, void **p, size_t bytes, const char *what,
                        const limber_queue *q, struct diag *d);
void limber_remote_give(limber_context *ctx, void *p, const limber_queue *q);

/* simulate.c: what promise simulate asks of a problem beyond others. */
bool limber_simulate_check(const struct problem *p, struct diag *d);
/* Runs a problem whose unit is simulated and fills the statistics that are asked for. */
bool limber_simulate_run(limber_context *ctx, const struct problem *p, limber_report *report,
                         struct diag *d);

/* statistics.c: of a product that has run; counts are the kernel's. */
bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s,
                            struct diag *d);

/* check.c: what gemm and conv ask of their arguments.  `what` names the argument. */
bool limber_check_contract(const limber_contract *k, limber_format c, struct diag *d);
bool limber_check_format(limber_format f, const char *what, struct diag *d);
/* rows x cols elements in this matrix: format, strides, index arithmetic. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d);
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d);
/* No two of the matrix' elements share memory. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d);
/* The two matrices share no memory. */
struct extent { const limber_matrix *m; const char *what; int64_t rows, cols; };
bool limber_check_apart(struct extent c, struct extent x, struct diag *d);
/* The scalar or NULL when it is exactly `neutral` (1 or 0). */
const void *limber_scalar(const void *x, limber_format c, double neutral);

/* gemm.c: C = alpha A B + beta C as the public calls state it. */
struct product {
    int64_t m, n, k;
    const void *alpha, *beta;
    limber_matrix a, b, c;
};
/* All but where the matrices lie. */
bool limber_check_product(const limber_context *ctx, const limber_contract *contract,
                          const struct product *x, struct diag *d);
/* Where the matrices of one product lie. */
bool limber_check_places(const struct product *x, struct diag *d);
struct problem limber_state_product(const limber_contract *contract, const struct product *x);

/* ---- ffi.c ----------------------------------------------------------------------------------- */

struct binding;
void limber_bindings_free(struct binding *list);

/* ---- context.c ------------------------------------------------------------------------------- */

struct machine {
    const struct backend *backend;
    struct target target;
    struct text text;       /* of the target */
};

struct limber_context {
    struct machine machine;
    struct machine spare;   /* for what the machine's backend cannot compile here; backend NULL:
                               the caller wants no other */
    unsigned char build[16];
    struct pool *pool;
    struct memory *memory;
    struct memory *codes;       /* by what decides about the code: unlike plans may share it */
    struct memory *functions;   /* of fixed shape; none is ever given back */
    struct background *background;
    limber_context *generic;    /* NULL until it is needed */
    bool lent_pool;             /* from the context that this one is the generic one of */
    struct disk *disk;
    char *dump_dir;
    int verbose;
    bool no_compile;
    bool tuned;             /* the machine's target follows a record */
    size_t workspace;       /* 0: from the operands */
    limber_allocator allocator;     /* take NULL: the system's */
    void (*log)(void *user, const char *line);
    void *log_user;
    pthread_mutex_t lock;   /* of what follows */
    char interpreted[256];  /* why the interpreter serves; written once */
    struct at_fork at_fork;
    struct binding *bindings;
    struct warm *warm;      /* engine.c: calls that may be recorded */
    int small;              /* 0: small products have kernels of their own, too */
    int whole;              /* products are not cut into parts, nor are those that are predicted to be */
    double brief;           /* shorter than this */
    int64_t prices;         /* found so far */
    struct priced *priced;  /* engine.c: plans whose price is known */
};
void limber_warm_free(struct warm *list);
/* A context of the interpreter's, with this one's threads; lives as long as it.  NULL: no memory. */
limber_context *limber_context_generic(limber_context *ctx);
/* From now on the interpreter computes in the place of the backend, for this reason; the first counts. */
void limber_context_interprets(limber_context *ctx, const char *why);
/* As the work of its background: has the kernel of a description made. */
void limber_engine_make(void *ctx, const void *description);
/* limber_create with the backends of the caller's choice, best first, NULL at the end. */
bool limber_context_make(limber_context **ctx, const limber_config *config,
                         const struct backend *const *backends, struct diag *d);

/* tune.c: what was measured of this machine, from the disk cache into its target. */
void limber_tuning_read(limber_context *ctx);

/* estimate.c: slices for the accuracy of the result's format; masks with lines. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d);
/* Bits of scaled integers that leave few elements of a correct result undecided, from a sample of them;
 * 0: no number is known to. */
int limber_estimate_trust(const struct problem *p, const struct mask *a, const struct mask *b,
                          int kbits);

#endif
