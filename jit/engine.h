/* SPDX-License-Identifier: BSD-3-Clause
 * What a call does: scan, make the key, find the kernel or make it (passes, compile), launch. */
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
/* The same without a simulated unit's statistics. */
bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, struct report *report,
                             struct diag *d);
/* run.c: a line of what a call did, whose beginning is a command that repeats it. */
void limber_call_log(const limber_context *ctx, const struct problem *p, const struct report *r);

/* ---- kernel.c -------------------------------------------------------------------------------- */

struct kernel_key;
/* The kernel of a key, made where it is absent, to be put back; found: NULL, or whether it was
 * there. */
bool limber_entry_of(limber_context *ctx, const struct kernel_key *key, struct entry **e,
                     bool *found, struct diag *d);
/* One plan for a product of one group whose masks are known: what it would cost, with product
 * INFINITY where there is none. */
bool limber_engine_price(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d);
bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d);
/* limber_engine_plan of such a product. */
bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, struct report *report,
                               struct diag *d);
struct priced;
void limber_priced_free(struct priced *list);

/* on_miss.c: a call whose kernel is being made in the background, under this key. */
struct awaited {
    const void *key;
    size_t size;
};
struct on_miss {
    struct problem rest; /* rows that are still to be computed */
    char *saved; /* C as it was, of the others */
    struct report report; /* of the others */
    /* in: computes rows on the interpreter's context */
    bool (*run)(limber_context *, const struct problem *, struct report *, struct diag *);
};
/* Computes rows until the kernel is there, or none is left: false. */
bool limber_on_miss_run(limber_context *ctx, const struct problem *p, const struct awaited *kernel,
                        struct on_miss *w);
/* To be called after it.  done: the rest is computed; else it is computed now, or C made what it
 * was and false returned. */
bool limber_on_miss_finish(limber_context *ctx, const struct problem *p, struct on_miss *w,
                           bool done);

/* parts_text.c: whole is the price of one plan for all; of *cut also after a failure. */
struct partition;
bool limber_parts_cut(struct cut *cut, const struct partition *parts, bool transposed,
                      const struct report *r, double whole, struct diag *d);
void limber_parts_text(struct text *out, const struct cut *cut);
/* A line for each part. */
void limber_parts_table(struct text *out, const limber_part *part, int parts);
/* " 62% fp32-f, 38% fp32-b" */
void limber_parts_shares(struct text *out, const struct report *r);

/* The kernel of a stated plan, made unless the disk has it; it is not kept in memory. */
bool limber_engine_make_stated(limber_context *ctx, const char *plan, struct report *r,
                               struct diag *d);

/* Workspace of a call, or of the first product of a batch. */
bool limber_engine_workspace(limber_context *ctx, const struct problem *p, bool batch,
                             size_t *least, size_t *best, struct diag *d);
/* out may be NULL; cut (of convolutions NULL) is zero, or filled for the caller to free. */
bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        struct cut *cut, struct report *report, struct diag *d);

/* backup.c: C as it is, to be put back if what follows fails.  p stays until the end. */
struct backup {
    limber_context *ctx;
    const struct problem *p;
    char *memory;
};
bool limber_backup(limber_context *ctx, const struct problem *p, struct backup *k, struct diag *d);
void limber_backup_end(struct backup *k, bool ok);

/* The code of a product of fixed shape, all of whose matrices are in format f; it lives as long as
 * the context. */
bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d);

/* simulate.c: what promise simulate asks of a problem beyond others. */
bool limber_simulate_check(const struct problem *p, struct diag *d);
/* Runs a problem whose unit is simulated and fills the statistics that are asked for. */
bool limber_simulate_run(limber_context *ctx, const struct problem *p, struct report *report,
                         struct diag *d);

/* statistics.c: of a product that has run; counts are the kernel's. */
bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s, struct diag *d);

/* ---- kernel_key.c ---------------------------------------------------------------------------- */

enum { MASK_FIRST = ATTR_emin, MASK_LAST = ATTR_reach, MASK_ATTRS = MASK_LAST - MASK_FIRST + 1 };

/* Compared as bytes: cleared before it is filled.  What most calls leave empty stands last, so that
 * their comparison ends before it. */
struct kernel_key {
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, kbits;
    int32_t size, split, roundings, first_pass_bits, decided;
    int32_t alpha, beta, wrap, conv;
    int32_t counts, simulates;
    char wanted[SCHEME_NAME];
    uint64_t has[2]; /* of the operands' masks: a, b */
    int64_t mask[2][MASK_ATTRS];
    struct conv_geometry geometry; /* of a convolution */
    char model[512]; /* the unit's words, with seed 0 */
};
size_t limber_kernel_key_size(const struct kernel_key *key); /* bytes that say it all */
bool limber_kernel_key_make(limber_context *ctx, struct kernel_key *key, const struct problem *p,
                            const struct scan_result *f, struct diag *d);
/* fixed: NULL, or the shape. */
bool limber_plan_state(struct plan *p, const struct kernel_key *key, const struct fixed *fixed,
                       struct diag *d);

/* ---- compile.c ------------------------------------------------------------------------------- */

struct compile_job {
    limber_context *ctx;
    const struct kernel_key *key;
    const struct fixed *fixed; /* NULL: a kernel for many sizes */
    const struct machine *machine;
    const char *stated; /* in the place of a kernel key: the stated plan */
    enum { CODE_ANY, CODE_READY, CODE_SPECIALISED } code; /* READY: without compiling */
};
/* As kernel_maker.make; user is a struct compile_job.  Where the compiler is missing, the context's
 * spare backend serves. */
bool limber_make_kernel(void *user, struct entry *e, struct diag *d);
/* The key of a stated plan; *stated: NULL, or its text for the caller to free. */
bool limber_plan_key(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                     const struct fixed *f, unsigned char key[KEY_BYTES], char **stated,
                     struct diag *d);
/* What is known of a finished plan. */
void limber_gather(struct facts *f, const struct plan *p, const struct fixed *fixed);
bool limber_passes_traced(struct plan *p, const struct target *t, const char *names,
                          struct trace *s, struct diag *d);
const char *limber_promise_name(const limber_contract *k, char *text, size_t size);

/* ---- specialise.c ---------------------------------------------------------------------------- */

/* A native product of floats of `size` bytes throughout on operands as they lie.  Compared and
 * hashed as bytes: no holes. */
struct product_shape {
    struct fixed fixed;
    int64_t size;
};

/* What the background is asked for.  Compared as bytes: `specialise` fills a word. */
struct background_job {
    struct kernel_key key;
    struct product_shape shape; /* of a function, in the place of a kernel; size 0: none */
    int64_t specialise; /* in the place of a prebuilt kernel */
};
/* A call of so many seconds was served by the prebuilt kernel e: asks for a specialised one as soon
 * as it pays. */
void limber_specialise_later(limber_context *ctx, const struct kernel_key *key, struct entry *e,
                             double seconds);
/* Puts a specialised kernel in the place of a prebuilt one. */
void limber_specialise(limber_context *ctx, const struct kernel_key *key);

/* ---- small.c --------------------------------------------------------------------------------- */

/* False where the scheme is asked for and cannot serve.  The interpreter computes its results
 * anyway. */
bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d);

/* Calls fn, which cannot fail, for every group of small products: on all threads where they have
 * more than four times so many multiply-adds together. */
void limber_groups_run_small(limber_context *ctx, const struct problem *p, int64_t work,
                             bool (*fn)(void *arg, int64_t g, int worker, struct diag *d),
                             void *arg);

/* ---- direct.c -------------------------------------------------------------------------------- */

/* Whether products of this size are computed without packing. */
bool limber_is_direct_size(int64_t m, int64_t n, int64_t k);
/* One product, scaled unless that is NULL, by this code or, where that is NULL, by the
 * library's for any shape.  False: that does not serve here. */
bool limber_shape_run(limber_context *ctx, const struct product_shape *s, const struct scaling *x,
                      limber_kernel code, const void *a, const void *b, void *c);
/* What it did, in so many seconds. */
void limber_shape_report(const limber_context *ctx, const struct product_shape *s,
                         limber_kernel code, double seconds, struct report *r);

/* ---- depthwise.c ----------------------------------------------------------------------------- */

/* A convolution whose filters see one channel each, native or of bytes, by code of the library
 * that needs no plan; and it is done.  False: nothing is done, no code serves here or there is no
 * memory, or less in the call's workspace. */
bool limber_is_depthwise(const limber_context *ctx, const struct problem *p);
bool limber_depthwise_run(limber_context *ctx, const struct problem *p, struct report *r);
/* Whether limber_depthwise_run may compute all phases of an image's gradient at once: where it
 * answers false, phase by phase. */
bool limber_is_depthwise_whole(const limber_context *ctx, const struct problem *p);
/* The bytes that it takes.  False: the library has no code for this one. */
bool limber_depthwise_workspace(limber_context *ctx, const struct problem *p, size_t *bytes);

/* ---- shapes.c -------------------------------------------------------------------------------- */

struct shapes *limber_shapes_new(void); /* NULL: no memory */
void limber_shapes_free(struct shapes *all);
/* The function for this shape.  NULL: there is none so far, and so many products are counted. */
limber_kernel limber_shape_code(limber_context *ctx, const struct product_shape *s, int64_t times);
/* Makes it; on a failure it is not there. */
void limber_shape_make(limber_context *ctx, const struct product_shape *s);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* The index maps of a convolution's operands and result, from what its kernel's plan says of them
 * and the call's sizes; those of a call point into them. */
struct maps {
    struct conv conv;
    struct index_map map[3];
};
void limber_maps_bind(struct maps *x, const struct conv_geometry *g, const struct problem *p);
void limber_maps_apply(const struct maps *x, const struct problem *p, struct call *c);
/* One group of a problem as a backend sees it, but for masks and for maps. */
struct call limber_call_plain(const limber_context *ctx, const struct problem *p,
                              const struct runner *r);

/* One kernel over the groups of a problem. */
struct step {
    const struct problem *p;
    const struct scan_result *f;
    struct entry *e;
    struct report *report; /* or NULL */
    const struct finisher *finish; /* NULL: none; of a step that is all of the product */
    void *zeroed; /* NULL, or so many bytes that are zero before the step stores */
    size_t zeroed_bytes;
    enum way_id way; /* out: the one that its launch took */
};
/* Runs all of them; after a failure C, which is that of `whole`, is what it was.  Of several none
 * stores integers. */
bool limber_launch(limber_context *ctx, struct step *s, int count, const struct problem *whole,
                   struct diag *d);

enum { MOST_PHASES = 16 };
/* Convolutions whose results are parts of one tensor, of floats; that is zero before them, or
 * `zeroed` is NULL. */
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
/* All of them, or none and C, which is that of `whole`, is what it was: after a failure, or where
 * a kernel is being made in the background; then the call answers true and nothing is done. */
bool limber_engine_run_phases(limber_context *ctx, const struct problem *whole, struct phases *x,
                              struct diag *d);
/* Makes the key of a step whose problem and masks are stated, and takes its kernel.  The kernel is
 * made in the background unless the contract says to wait; *ready is false until it is there. */
bool limber_engine_step(limber_context *ctx, struct step *s, struct kernel_key *key, bool *ready,
                        struct diag *d);
/* What a call of several launches takes for one of them, within call->workspace_limit. */
size_t limber_launch_bytes(const struct entry *e, const struct call *call);
/* The way that a launch of this plan's kernel takes; to `out`, unless it is NULL, what the backend
 * says of it. */
enum way_id limber_way_say(limber_context *ctx, const struct machine *m, const struct problem *p,
                           const struct plan *plan, struct text *out);
/* Into a stream that records, where failure spoils the record. */
bool limber_launch_recorded(limber_context *ctx, struct step *s, const struct guard *guard,
                            struct diag *d);

#endif
