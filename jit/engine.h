/* SPDX-License-Identifier: BSD-3-Clause
 * The engine: scans the operands, makes the kernel key, finds the kernel or makes it (passes and
 * compilation), and launches it. */
#ifndef LIMBER_JIT_ENGINE_H
#define LIMBER_JIT_ENGINE_H

#include "jit/device.h"
#include "jit/prepared.h"
#include "jit/problem.h"
#include "jit/scan/operands.h"
#include "jit/trace.h"

/* ---- engine.c -------------------------------------------------------------------------------- */

/* Runs a call.  accepted: kernels and ways (code paths) found for calls of the same form
 * (jit/accepted.h), or NULL. */
struct accepted;
bool limber_engine_run(limber_context *ctx, const struct problem *p, struct accepted *accepted,
                       struct report *report, struct diag *d);
/* Run a call without filling a simulated unit's statistics. */
bool limber_engine_run_accepted(limber_context *ctx, const struct problem *p,
                                struct accepted *accepted, struct report *report, struct diag *d);
bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, struct report *report,
                             struct diag *d);
/* run.c: logs a line about a call.  The line begins with a command that repeats the call. */
void limber_call_log(const limber_context *ctx, const struct problem *p, const struct report *r);

/* ---- kernel.c -------------------------------------------------------------------------------- */

struct kernel_key;
/* Gets the kernel of a key, and makes it if it is absent.  It must be released with
 * limber_kernels_put.  *found (may be NULL): true if the kernel existed. */
bool limber_get_entry(limber_context *ctx, const struct kernel_key *key, struct entry **e,
                      bool *found, struct diag *d);
/* Predicts the cost of one plan for a product of a single group whose masks (what scans found in
 * A and B) are known. price->product is INFINITY if no plan is possible. */
bool limber_predict_cost(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d);
bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d);
/* Plans a product of a single group whose masks (what scans found in A and B) are known. */
bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, struct report *report,
                               struct diag *d);
struct priced;
void limber_priced_free(struct priced *list);
/* Number of workers that share a call's predicted seconds: the threads of a CPU; 1 for a device. */
double limber_price_workers(const limber_context *ctx);

/* on_miss.c: identifies the job of the background thread that makes a kernel. */
struct awaited {
    const void *key;
    size_t size;
};
/* The state of a call whose first rows are interpreted while its kernel is being made. */
struct on_miss {
    struct problem rest; /* the problem of the rows that are still to be computed */
    char *saved; /* owned; copy of C's rows before they were computed */
    struct report report; /* report of the rows that the interpreter computed */
    /* in: the function that computes rows in the interpreter's context */
    bool (*run)(limber_context *, const struct problem *, struct report *, struct diag *);
};
/* Interprets rows until the kernel is ready.  False if all rows have been computed. */
bool limber_on_miss_run(limber_context *ctx, const struct problem *p, const struct awaited *kernel,
                        struct on_miss *w);
/* Must follow limber_on_miss_run. done: the kernel has computed the remaining rows; if it is false,
 * the interpreter computes them now.  If that fails, restores C and returns false. */
bool limber_on_miss_finish(limber_context *ctx, const struct problem *p, struct on_miss *w,
                           bool done);

/* parts_text.c: fills *cut from a partition.  The caller clears *cut, also after a failure. whole:
 * predicted seconds of one plan for the product. */
struct partition;
bool limber_parts_cut(struct cut *cut, const struct partition *parts, bool transposed,
                      const struct report *r, double whole, struct diag *d);
void limber_parts_text(struct text *out, const struct cut *cut);
/* Writes the table of parts, a line for each. */
void limber_parts_table(struct text *out, const limber_part *part, int parts);
/* Writes the schemes with their shares of the product, such as " 62% fp32-f, 38% fp32-b". */
void limber_parts_shares(struct text *out, const struct report *r);

/* Fills the report from the facts of a plan. */
void limber_report_facts(struct report *r, const limber_context *ctx, const struct backend *b,
                         const struct problem *p, const struct facts *f);

/* plan_run.c: computes a call by the caller's plan, p->given.  r may be NULL.  After a failure C is
 * unchanged. */
bool limber_engine_run_plan(limber_context *ctx, const struct problem *p, struct report *r,
                            struct diag *d);

/* Makes the kernel of a plan in text form, unless it is on disk, and does not keep it in memory. */
bool limber_engine_make_stated(limber_context *ctx, const char *plan, struct report *r,
                               struct diag *d);

/* Computes the workspace of a call, in bytes. batch: *p is the first product of a batch. */
bool limber_engine_workspace(limber_context *ctx, const struct problem *p, bool batch,
                             size_t *least, size_t *best, struct diag *d);
/* Plans a call without running it. out (may be NULL) gets the plan's text. cut is NULL for
 * convolutions; else it gets the partition, and the caller must clear it. */
bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        struct cut *cut, struct report *report, struct diag *d);

/* backup.c: a copy of C that is restored if the call fails.  The problem p must outlive the
 * copy. */
struct backup {
    limber_context *ctx;
    const struct problem *p;
    char *memory;
};
bool limber_backup(limber_context *ctx, const struct problem *p, struct backup *k, struct diag *d);
void limber_backup_end(struct backup *k, bool ok);

/* Gets the code of a product of one shape whose matrices are all in format f.  It lives as long as
 * the context. */
bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d);

/* simulate.c: checks what the contract `simulate` requires of a problem. */
bool limber_simulate_check(const struct problem *p, struct diag *d);
/* Runs a problem whose unit is simulated, and fills the statistics if the contract asks for
 * them. */
bool limber_simulate_run(limber_context *ctx, const struct problem *p, struct report *report,
                         struct diag *d);

/* statistics.c: fills the statistics of a product that was computed. counts: what the kernel
 * counted. */
bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s, struct diag *d);

/* ---- kernel_key.c ---------------------------------------------------------------------------- */

/* The properties of a call that determine its plan before the passes, and so its kernel.  Keys are
 * compared as bytes, so a key must be cleared before it is filled.  Fields that are usually empty
 * come last, because comparisons stop before them. */
struct kernel_key {
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, kbits;
    int32_t size, split, roundings, first_pass_bits, decided, paired;
    int32_t alpha, beta, wrap, conv;
    int32_t counts, simulates;
    char wanted[SCHEME_LIST];
    struct data_class data[2]; /* what scans found in A and in B */
    struct conv_geometry geometry; /* geometry of a convolution */
    char model[512]; /* text of the simulated unit, with seed 0 */
};
/* Returns the number of bytes of a key without the empty fields at its end. */
size_t limber_kernel_key_size(const struct kernel_key *key);
bool limber_kernel_key_make(limber_context *ctx, struct kernel_key *key, const struct problem *p,
                            const struct scan_result *f, struct diag *d);
/* Makes the plan (as it is before the passes) of a key. fixed: the shape, for a function of one
 * shape; else NULL. */
bool limber_plan_state(struct plan *p, const struct kernel_key *key, const struct fixed *fixed,
                       struct diag *d);

/* ---- compile.c ------------------------------------------------------------------------------- */

/* What limber_make_kernel needs: inputs of compiling a kernel, or a function of one shape. */
struct compile_inputs {
    limber_context *ctx;
    const struct kernel_key *key;
    const struct fixed *fixed; /* NULL if the kernel is for many sizes */
    const struct machine *machine;
    /* the text of a plan, before or after the passes, which replaces `key`; or NULL */
    const char *stated;
    /* READY fails if the code must be compiled; SPECIALISED does not use prebuilt code */
    enum { CODE_ANY, CODE_READY, CODE_SPECIALISED } code;
};
/* The `make` function of struct kernel_maker. user: a struct compile_inputs.  If the compiler is
 * missing, the context's spare backend is used. */
bool limber_make_kernel(void *user, struct entry *e, struct diag *d);
/* Makes the disk key of a plan before the passes.  *stated (may be NULL): the plan's text, which
 * the caller frees. */
bool limber_plan_key(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                     const struct fixed *f, unsigned char key[KEY_BYTES], char **stated,
                     struct diag *d);
/* Returns the names of the passes that must run on a plan.  NULL stands for all passes; for a
 * plan that has limbs and rows already, the passes that leave these unchanged. */
const char *limber_passes_of(const struct plan *p);
/* Fills *f from a plan on which all passes have run. */
void limber_fill_facts(struct facts *f, const struct plan *p, const struct fixed *fixed);
bool limber_passes_traced(struct plan *p, const struct target *t, const char *names,
                          struct trace *s, struct diag *d);
const char *limber_promise_name(const limber_contract *k, char *text, size_t size);

/* ---- specialise.c ---------------------------------------------------------------------------- */

/* The shape of a native product of floats of `size` bytes that needs no packing.  Compared and
 * hashed as bytes, so it has no padding. */
struct product_shape {
    struct fixed fixed;
    int64_t size;
};

/* A job of the background thread.  Compared as bytes; `specialise` has 64 bits to avoid padding. */
struct background_job {
    struct kernel_key key;
    /* if its size is not 0, the function of this shape is compiled instead of a kernel */
    struct product_shape shape;
    /* 1 if a specialised kernel is compiled to replace a prebuilt one; else 0 */
    int64_t specialise;
};
/* Adds the seconds that a call spent in the prebuilt kernel e.  Requests a specialised kernel as
 * soon as compiling it pays. */
void limber_specialise_later(limber_context *ctx, const struct kernel_key *key, struct entry *e,
                             double seconds);
/* Replaces a prebuilt kernel by a specialised one. */
void limber_specialise(limber_context *ctx, const struct kernel_key *key);

/* ---- small.c --------------------------------------------------------------------------------- */

/* If the caller names the scheme `pairs` (double-double sums), checks that the library's code or
 * the interpreter can compute the problem with it. */
bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d);

/* ---- direct.c -------------------------------------------------------------------------------- */

/* True if library code without packing may compute this size: k is at most LIMBER_SMALL_K, and
 * there are at most `work` multiply-adds. */
static inline bool limber_is_small(int64_t m, int64_t n, int64_t k, int64_t work)
{
    return k <= LIMBER_SMALL_K && m <= work && n <= work && m * n <= work && m * n * k <= work;
}
/* True if native products of this size are computed without packing.  The limit was measured, since
 * predicted times would not give it: on a Zen 4 the code with packing and the code without reach
 * the same rate (28 GMAC/s of f64), and the one with packing starts 0.6 us later.  Time without
 * packing divided by time with it, AVX2: f64 1.1 (n = 160) and 1.25 (256), f32 1.0, 0.96 and 1.26
 * (512); AVX-512: f64 0.87 (160) and 0.90 (256). */
static inline bool limber_is_direct_size(int64_t m, int64_t n, int64_t k)
{
    enum { MOST = 128 * 128 * 128 }; /* multiply-adds */

    return m > 0 && n > 0 && k > 0 && limber_is_small(m, n, k, MOST);
}
/* True if the call is a batch of dot products whose operands and results are a constant distance
 * apart. */
static inline bool limber_is_batch_of_dots(const struct problem *p)
{
    return p->m == 1 && p->n == 1 && p->groups > 1 && !p->at.each_a && !p->at.each_b &&
           !p->at.each_c;
}
/* Computes one product by `code` or, if that is NULL, by library code for any shape. x: alpha
 * and beta; NULL for C = A B, or C += A B if s->fixed.add is 1.  False if the library has no
 * such code for this machine. */
bool limber_shape_run(limber_context *ctx, const struct product_shape *s, const struct scaling *x,
                      limber_kernel code, const void *a, const void *b, void *c);
/* Returns the error bound of native sums of k products in binary64 (size 8) or binary32 (size 4),
 * in chains of at most NATIVE_CHAIN products: docs/accuracy.md, "Native chains". */
double limber_native_bound(int64_t k, int64_t size);
/* Fills the report of a product that limber_shape_run computed in `seconds` seconds. */
void limber_shape_report(const limber_context *ctx, const struct product_shape *s,
                         limber_kernel code, double seconds, struct report *r);

/* ---- depthwise.c ----------------------------------------------------------------------------- */

/* Library code for depthwise convolutions, native or of 8-bit integers, which needs no plan.
 * limber_is_depthwise: true if there is code for the convolution. limber_depthwise_run computes it,
 * or returns false and computes nothing if there is no code or no memory. */
bool limber_is_depthwise(const limber_context *ctx, const struct problem *p);
bool limber_depthwise_run(limber_context *ctx, const struct problem *p, struct report *r);
/* True if limber_depthwise_run can compute all stride phases of an image's gradient in one call.
 * Otherwise it must be called for each phase. */
bool limber_can_run_depthwise_phases_at_once(const limber_context *ctx, const struct problem *p);
/* Computes the bytes of workspace that limber_depthwise_run needs.  False if it cannot compute the
 * convolution. */
bool limber_depthwise_workspace(limber_context *ctx, const struct problem *p, size_t *bytes);

/* ---- shapes.c -------------------------------------------------------------------------------- */

struct shapes *limber_shapes_new(void); /* NULL if memory runs out */
void limber_shapes_free(struct shapes *all);
/* Returns the function for this shape.  If there is none yet, adds `times` to the number of
 * products of this shape and returns NULL. */
limber_kernel limber_shape_code(limber_context *ctx, const struct product_shape *s, int64_t times);
/* Compiles the function of a shape.  If that fails, no function is kept. */
void limber_shape_make(limber_context *ctx, const struct product_shape *s);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* The index maps of a convolution's operands and result, from the plan's geometry and the call's
 * sizes.  The views of a struct call point to them. */
struct maps {
    struct conv conv;
    struct index_map map[3];
};
void limber_maps_bind(struct maps *x, const struct conv_geometry *g, const struct problem *p);
void limber_maps_apply(const struct maps *x, const struct problem *p, struct call *c);
/* Returns the backend's call for one group of a problem, without the results of scans and
 * without index maps. */
struct call limber_call_plain(const limber_context *ctx, const struct problem *p,
                              const struct runner *r);

/* The launch of one kernel for the groups of a problem. */
struct step {
    const struct problem *p;
    const struct scan_result *f;
    struct entry *e;
    struct report *report; /* the report to be filled, or NULL */
    /* the caller's steps, applied to each block of C, or NULL; only for a step that computes the
     * complete product */
    const struct finisher *finish;
    void **layout; /* where the backend keeps its work layout (struct call); or NULL */
    void *zeroed; /* memory that is cleared before the step stores anything, or NULL */
    size_t zeroed_bytes;
    enum way_id way; /* out: the code path (way) that the launch took */
};
/* Launches the kernels of all steps.  After a failure C, the result of `whole`, is unchanged.  If
 * there are several steps, none may store integers. */
bool limber_launch(limber_context *ctx, struct step *s, int count, const struct problem *whole,
                   struct diag *d);

enum { MOST_PHASES = 16 };
/* The stride phases of a convolution: convolutions whose results are parts of one tensor of
 * floats. */
struct phases {
    int count;
    /* memory that is cleared before the phases, or NULL */
    void *zeroed;
    size_t zeroed_bytes;
    /* out: true if the phases were run */
    bool done;
    struct phase {
        struct problem part;
        struct scan_result f;
        struct kernel_key key;
        struct report report;
    } phase[MOST_PHASES];
};
/* Runs all stride phases.  C, the result of `whole`, is unchanged after a failure.  If a kernel is
 * being made in the background, C is unchanged, too: the call then returns true and x->done is
 * false. */
bool limber_engine_run_phases(limber_context *ctx, const struct problem *whole, struct phases *x,
                              struct diag *d);
/* Makes the key of a step whose problem and scan results are set, and gets its kernel.  Unless
 * the contract says to wait, a missing kernel is made in the background, and *ready is false. */
bool limber_engine_step(limber_context *ctx, struct step *s, struct kernel_key *key, bool *ready,
                        struct diag *d);
/* Returns the bytes that one of several launches needs, within call->workspace_limit. */
size_t limber_launch_bytes(const struct entry *e, const struct call *call);
/* Returns the code path (way) that a launch of this plan's kernel would take.  Unless out is NULL,
 * writes it there with the backend's explanation. */
enum way_id limber_describe_way(limber_context *ctx, const struct machine *m,
                                const struct problem *p, const struct plan *plan, struct text *out);
/* Launches into a stream that is being captured. guard: checks at each replay that the data
 * still fits the kernel.  After a failure the captured graph must not be used. */
bool limber_launch_recorded(limber_context *ctx, struct step *s, const struct capture_check *guard,
                            struct diag *d);

#endif
