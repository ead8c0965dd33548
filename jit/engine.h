/* SPDX-License-Identifier: BSD-3-Clause
 * The engine: scans, makes the key, finds the kernel or makes it (passes, compile), launches. */
#ifndef LIMBER_JIT_ENGINE_H
#define LIMBER_JIT_ENGINE_H

#include "jit/device.h"
#include "jit/prepared.h"
#include "jit/problem.h"
#include "jit/scan/operands.h"
#include "jit/trace.h"

/* ---- engine.c -------------------------------------------------------------------------------- */

bool limber_engine_run(limber_context *ctx, const struct problem *p, struct report *report,
                       struct diag *d);
/* limber_engine_run without a simulated unit's statistics. */
bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, struct report *report,
                             struct diag *d);
/* run.c: logs a line about a call, which begins with a command that repeats it. */
void limber_call_log(const limber_context *ctx, const struct problem *p, const struct report *r);

/* ---- kernel.c -------------------------------------------------------------------------------- */

struct kernel_key;
/* Gets the kernel of a key and makes it if it is absent; release it with limber_kernels_put.
 * *found (or NULL): whether it was there. */
bool limber_entry_of(limber_context *ctx, const struct kernel_key *key, struct entry **e,
                     bool *found, struct diag *d);
/* The predicted price of one plan for a product of one group with known masks; price->product is
 * INFINITY if there is no plan. */
bool limber_engine_price(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d);
bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d);
/* limber_engine_plan of a product of one group with known masks. */
bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, struct report *report,
                               struct diag *d);
struct priced;
void limber_priced_free(struct priced *list);
/* Number of workers that share a call's predicted seconds: threads of a CPU; 1 for a device. */
double limber_price_workers(const limber_context *ctx);

/* on_miss.c: the key of a kernel that is being made in the background. */
struct awaited {
    const void *key;
    size_t size;
};
struct on_miss {
    struct problem rest; /* rows that are still to be computed */
    char *saved; /* copy of C's rows before they were computed; owned */
    struct report report; /* of the rows that the interpreter computed */
    /* in: computes rows on the interpreter's context */
    bool (*run)(limber_context *, const struct problem *, struct report *, struct diag *);
};
/* Interprets rows until the kernel is there; false: all rows are computed. */
bool limber_on_miss_run(limber_context *ctx, const struct problem *p, const struct awaited *kernel,
                        struct on_miss *w);
/* Must follow limber_on_miss_run.  done: the kernel has computed the rest.  Else the interpreter
 * computes it now, or C is restored and false returned. */
bool limber_on_miss_finish(limber_context *ctx, const struct problem *p, struct on_miss *w,
                           bool done);

/* parts_text.c: fills *cut, also after a failure; whole is the price of one plan for all. */
struct partition;
bool limber_parts_cut(struct cut *cut, const struct partition *parts, bool transposed,
                      const struct report *r, double whole, struct diag *d);
void limber_parts_text(struct text *out, const struct cut *cut);
/* Writes a line for each part. */
void limber_parts_table(struct text *out, const limber_part *part, int parts);
/* Writes the shares of the schemes: " 62% fp32-f, 38% fp32-b". */
void limber_parts_shares(struct text *out, const struct report *r);

/* Makes the kernel of a stated plan unless the disk has it; it is not kept in memory. */
bool limber_engine_make_stated(limber_context *ctx, const char *plan, struct report *r,
                               struct diag *d);

/* Bytes of workspace of a call, or of the first product of a batch. */
bool limber_engine_workspace(limber_context *ctx, const struct problem *p, bool batch,
                             size_t *least, size_t *best, struct diag *d);
/* out may be NULL.  cut is NULL for convolutions; else it is filled for the caller to free, or
 * zero. */
bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        struct cut *cut, struct report *report, struct diag *d);

/* backup.c: a copy of C that is restored if the work after it fails.  p must outlive it. */
struct backup {
    limber_context *ctx;
    const struct problem *p;
    char *memory;
};
bool limber_backup(limber_context *ctx, const struct problem *p, struct backup *k, struct diag *d);
void limber_backup_end(struct backup *k, bool ok);

/* The code of a product of fixed shape whose matrices are all in format f; it lives as long as the
 * context. */
bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d);

/* simulate.c: checks what the promise `simulate` requires of a problem. */
bool limber_simulate_check(const struct problem *p, struct diag *d);
/* Runs a problem whose unit is simulated and fills the statistics that are asked for. */
bool limber_simulate_run(limber_context *ctx, const struct problem *p, struct report *report,
                         struct diag *d);

/* statistics.c: fills the statistics of a product that has run; counts are the kernel's. */
bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s, struct diag *d);

/* ---- kernel_key.c ---------------------------------------------------------------------------- */

enum { MASK_FIRST = ATTR_emin, MASK_LAST = ATTR_reach, MASK_ATTRS = MASK_LAST - MASK_FIRST + 1 };

/* Compared as bytes, so it must be cleared before it is filled.  Fields that are usually empty
 * stand last, since comparisons stop before them. */
struct kernel_key {
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, kbits;
    int32_t size, split, roundings, first_pass_bits, decided, paired;
    int32_t alpha, beta, wrap, conv;
    int32_t counts, simulates;
    char wanted[SCHEME_NAME];
    uint64_t has[2]; /* attributes set in the masks of a, b */
    int64_t mask[2][MASK_ATTRS];
    struct conv_geometry geometry; /* of a convolution */
    char model[512]; /* the unit's words, with seed 0 */
};
size_t limber_kernel_key_size(const struct kernel_key *key); /* bytes without the empty tail */
bool limber_kernel_key_make(limber_context *ctx, struct kernel_key *key, const struct problem *p,
                            const struct scan_result *f, struct diag *d);
/* Makes the stated plan of a key.  fixed: NULL, or the shape. */
bool limber_plan_state(struct plan *p, const struct kernel_key *key, const struct fixed *fixed,
                       struct diag *d);

/* ---- compile.c ------------------------------------------------------------------------------- */

/* The inputs of compiling a kernel, or a function of one shape. */
struct compile_job {
    limber_context *ctx;
    const struct kernel_key *key;
    const struct fixed *fixed; /* NULL: a kernel for many sizes */
    const struct machine *machine;
    const char *stated; /* NULL, or the stated plan as text, which replaces the kernel key */
    enum { CODE_ANY, CODE_READY, CODE_SPECIALISED } code; /* READY: only without compiling */
};
/* The `make` of struct kernel_maker; user is a struct compile_job.  If the compiler is missing, the
 * context's spare backend serves. */
bool limber_make_kernel(void *user, struct entry *e, struct diag *d);
/* Makes the key of a stated plan.  *stated (or NULL): its text, which the caller frees. */
bool limber_plan_key(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                     const struct fixed *f, unsigned char key[KEY_BYTES], char **stated,
                     struct diag *d);
/* Fills the facts of a finished plan. */
void limber_gather(struct facts *f, const struct plan *p, const struct fixed *fixed);
bool limber_passes_traced(struct plan *p, const struct target *t, const char *names,
                          struct trace *s, struct diag *d);
const char *limber_promise_name(const limber_contract *k, char *text, size_t size);

/* ---- specialise.c ---------------------------------------------------------------------------- */

/* A native product of floats of `size` bytes throughout that needs no packing.  Compared and hashed
 * as bytes, so it has no padding. */
struct product_shape {
    struct fixed fixed;
    int64_t size;
};

/* A job of the background thread.  Compared as bytes; `specialise` takes a whole word. */
struct background_job {
    struct kernel_key key;
    struct product_shape shape; /* size > 0: make this function, not a kernel */
    int64_t specialise; /* 1: make a specialised kernel that replaces a prebuilt one */
};
/* Adds the seconds that a call spent in the prebuilt kernel e.  Asks for a specialised kernel as
 * soon as it pays. */
void limber_specialise_later(limber_context *ctx, const struct kernel_key *key, struct entry *e,
                             double seconds);
/* Replaces a prebuilt kernel by a specialised one. */
void limber_specialise(limber_context *ctx, const struct kernel_key *key);

/* ---- small.c --------------------------------------------------------------------------------- */

/* Checks that the scheme `pairs` can serve, if the caller names it; the interpreter may compute its
 * results. */
bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d);

/* Calls fn, which cannot fail, for every task: by all threads if they are `shared`, or by this one
 * in order. */
void limber_tasks_run(limber_context *ctx, int64_t tasks, bool shared,
                      bool (*fn)(void *arg, int64_t task, int worker, struct diag *d), void *arg);
/* Cuts a product of `work` multiply-adds by lines of C, and returns the lines of a task: tasks have
 * about `least` multiply-adds or more, and there are at most eight a thread. */
int64_t limber_task_lines(limber_context *ctx, int64_t lines, double work, double least);
/* Calls fn, which cannot fail, for every group of small products.  All threads are used if the
 * groups together have more than four times `work` multiply-adds. */
void limber_groups_run_small(limber_context *ctx, const struct problem *p, int64_t work,
                             bool (*fn)(void *arg, int64_t g, int worker, struct diag *d),
                             void *arg);

/* ---- direct.c -------------------------------------------------------------------------------- */

/* True if products of this size are computed without packing. */
bool limber_is_direct_size(int64_t m, int64_t n, int64_t k);
/* True of a product with a vector that has a faster way. */
bool limber_is_long_vector(int64_t m, int64_t n, int64_t k);
/* Computes one product, scaled unless x is NULL, by `code`, or if that is NULL by library code for
 * any shape.  False: not served here. */
bool limber_shape_run(limber_context *ctx, const struct product_shape *s, const struct scaling *x,
                      limber_kernel code, const void *a, const void *b, void *c);
/* Error bound of native sums of k products in binary64 (size 8) or binary32 (size 4), which have
 * chains of at most NATIVE_CHAIN: docs/accuracy.md, "Native chains". */
double limber_native_bound(int64_t k, int64_t size);
/* Fills the report of a product by limber_shape_run, which took so many seconds. */
void limber_shape_report(const limber_context *ctx, const struct product_shape *s,
                         limber_kernel code, double seconds, struct report *r);

/* ---- depthwise.c ----------------------------------------------------------------------------- */

/* Library code for depthwise convolutions, native or of bytes, which needs no plan.
 * limber_depthwise_run computes the convolution.  False: nothing is computed, because it is not
 * served or memory (the call's workspace, or the system's) is missing. */
bool limber_is_depthwise(const limber_context *ctx, const struct problem *p);
bool limber_depthwise_run(limber_context *ctx, const struct problem *p, struct report *r);
/* True if limber_depthwise_run may compute all phases of an image's gradient at once; else it must
 * be called phase by phase. */
bool limber_is_depthwise_whole(const limber_context *ctx, const struct problem *p);
/* The bytes that limber_depthwise_run needs.  False: it does not serve this convolution. */
bool limber_depthwise_workspace(limber_context *ctx, const struct problem *p, size_t *bytes);

/* ---- shapes.c -------------------------------------------------------------------------------- */

struct shapes *limber_shapes_new(void); /* NULL: no memory */
void limber_shapes_free(struct shapes *all);
/* The function for this shape.  NULL: there is none yet; `times` products are counted for it. */
limber_kernel limber_shape_code(limber_context *ctx, const struct product_shape *s, int64_t times);
/* Makes the function of a shape; after a failure there is none. */
void limber_shape_make(limber_context *ctx, const struct product_shape *s);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* The index maps of a convolution's operands and result, from the plan's geometry and the call's
 * sizes.  A struct call points into them. */
struct maps {
    struct conv conv;
    struct index_map map[3];
};
void limber_maps_bind(struct maps *x, const struct conv_geometry *g, const struct problem *p);
void limber_maps_apply(const struct maps *x, const struct problem *p, struct call *c);
/* One group of a problem as a backend's call, without masks and index maps. */
struct call limber_call_plain(const limber_context *ctx, const struct problem *p,
                              const struct runner *r);

/* A launch of one kernel over the groups of a problem. */
struct step {
    const struct problem *p;
    const struct scan_result *f;
    struct entry *e;
    struct report *report; /* or NULL */
    const struct finisher *finish; /* NULL: none; only of a step that computes the whole product */
    void *zeroed; /* NULL, or memory that is cleared before the step stores */
    size_t zeroed_bytes;
    enum way_id way; /* out: the way that its launch took */
};
/* Runs all steps.  After a failure C, which is that of `whole`, is unchanged.  If there are
 * several, none may store integers. */
bool limber_launch(limber_context *ctx, struct step *s, int count, const struct problem *whole,
                   struct diag *d);

enum { MOST_PHASES = 16 };
/* Convolutions whose results are parts of one tensor of floats.  `zeroed`: NULL, or memory that is
 * cleared before them. */
struct phases {
    int count;
    void *zeroed;
    size_t zeroed_bytes;
    bool done;
    struct phase {
        struct problem part;
        struct scan_result f;
        struct kernel_key key;
        struct report report;
    } phase[MOST_PHASES];
};
/* Runs all phases.  C, which is that of `whole`, is unchanged after a failure, and while a kernel
 * is being made in the background; then the call returns true and x->done is false. */
bool limber_engine_run_phases(limber_context *ctx, const struct problem *whole, struct phases *x,
                              struct diag *d);
/* Makes the key of a step whose problem and masks are set, and gets its kernel.  The kernel is made
 * in the background unless the contract says to wait; *ready is false until it is there. */
bool limber_engine_step(limber_context *ctx, struct step *s, struct kernel_key *key, bool *ready,
                        struct diag *d);
/* Bytes that one launch of several needs, within call->workspace_limit. */
size_t limber_launch_bytes(const struct entry *e, const struct call *call);
/* The way that a launch of this plan's kernel would take.  Writes the backend's explanation to
 * `out`, unless it is NULL. */
enum way_id limber_way_say(limber_context *ctx, const struct machine *m, const struct problem *p,
                           const struct plan *plan, struct text *out);
/* Launches into a stream that is being captured, where a failure spoils the graph. */
bool limber_launch_recorded(limber_context *ctx, struct step *s, const struct guard *guard,
                            struct diag *d);

#endif
