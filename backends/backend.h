/* SPDX-License-Identifier: BSD-3-Clause
 * A backend makes bytes of a finished plan, and of such bytes something that runs.  The halves
 * are apart so that a kernel from disk needs no compiler: load() and launch() may not touch LLVM.
 * A backend that cannot serve this machine says so once, in probe(). */
#ifndef LIMBER_BACKEND_H
#define LIMBER_BACKEND_H

#include "backends/ways.h"
#include "ir/conv.h"
#include "ir/function.h"
#include "ir/ir.h"
#include "ir/spread.h"
#include "ir/steps.h"
#include "ir/view.h"

struct blob {               /* bytes that go to disk */
    unsigned char *data;
    size_t size;
};

/* Receives a backend's texts for the dump; name is "kernel.ll", "kernel.s" and so on. */
struct dump {
    void (*file)(void *user, const char *name, const char *data, size_t size);
    void *user;
    const char *without;    /* NULL, or the name of a text that is not wanted */
};

/* Runs fn(arg, task, worker) for 0 <= task < tasks, each once, in any order and on any worker
 * with 0 <= worker < workers; returns when all are done. */
struct runner {
    int workers;
    void (*run)(void *self, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker),
                void *arg);
    void *self;
    int cpus; /* number of CPUs that the workers share; 0: each has its own */
};

/* Number of workers that run at once, which work is split for. */
static inline int limber_runner_busy(const struct runner *r)
{
    return r->cpus && r->cpus < r->workers ? r->cpus : r->workers;
}

/* Events that kernels count inside a simulated unit; limber_statistics has their meaning.  Partly
 * swamped sums follow the fully swamped ones of their kind. */
#define LIMBER_UNIT_TALLIES(TALLY) \
    TALLY(mul_inexact) \
    TALLY(mul_underflow) \
    TALLY(mul_overflow) \
    TALLY(swamped) \
    TALLY(partly_swamped) \
    TALLY(sum_overflow) \
    TALLY(outer_swamped) \
    TALLY(outer_partly)

/* Counters: first those of kernels; outer_sums follows from the sizes alone. */
struct unit_counts {
#define FIELD(name) int64_t name;
    LIMBER_UNIT_TALLIES(FIELD)
#undef FIELD
    int64_t outer_sums;
};

/* The bounds of an operand's data that a plan's kernels are made for. */
struct bounds {
    int32_t emin, emax, spread, width, sig;
    int32_t is_unsigned, special; /* flags: no element is negative; NaN or infinities may occur */
};

/* The guard of a call captured into a graph.  Operands are scanned when the graph is played.  If
 * one leaves its bounds, the fallback kernel, which suits any data, computes instead. */
struct guard {
    struct kernel *scan[2], *fallback;
    struct bounds bounds[2];
};

/* Limbs of a prepared operand, which outlive a call. */
struct kept {
    char *memory; /* aligned to 64 bytes */
    bool packed; /* false: this call must pack them, and then call `packed` */
};
/* How a launch gets and gives back kept limbs; `self` belongs to the prepared operand. */
struct keeper {
    /* Memory for all limbs of the operand in one of the kernel's packing variants; NULL: this call
     * must make the limbs in its own workspace. */
    struct kept *(*alloc)(void *self, int variant, size_t bytes);
    void (*packed)(void *self, struct kept *);
    void (*free)(void *self, struct kept *);
    void *self;
};

/* Applies the caller's epilogue to blocks of a result as soon as they are final: once to each
 * element, on any worker.  `turned` is the finisher for the transposed result. */
struct finisher {
    void (*block)(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                  int64_t cols);
    const struct finisher *turned;
};

/* Memory for several launches, allocated before the first of them stores, so that no later launch
 * can run out of memory. */
struct launch_memory {
    char *memory;
    size_t bytes;
    void *own; /* private to the backend */
};

struct call {
    int64_t m, n, k;
    struct view a, b;
    struct output_view c;
    int64_t groups; /* 2 or more: products of one size, for backends with takes_groups; else one */
    struct spread each_a, each_b, each_c; /* where groups lie; a step of 0: all read one matrix */
    const struct conv *conv; /* NULL, or the convolution whose maps a, b and c are */
    const void *alpha, *beta; /* in the result's format (integers: i64); NULL: 1, 0 */
    /* masks of the operands, with arrays per line if the plan scales lines; else NULL.  Several
     * groups have their lines one after the other, or share those of a common matrix */
    const struct mask *mask_a, *mask_b;
    const struct keeper *keep[2]; /* keep limbs of a, of b; NULL: limbs are not kept */
    const struct runner *runner;
    /* allocates memory whose size grows with the operands; NULL: malloc */
    const limber_allocator *allocator;
    const struct launch_memory *launch_memory; /* NULL: the launch takes its own */
    size_t workspace_limit; /* bytes; the launch works in parts that fit */
    size_t workspace; /* out: peak bytes */
    int64_t overflow; /* out: elements that did not fit (wrap=0) */
    int64_t recomputed; /* out: elements that were summed again, exactly */
    int64_t recomputed_ns; /* out: nanoseconds that this took, summed over workers */
    uint64_t seed; /* seed of the simulated unit's stochastic rounding */
    struct unit_counts counts; /* out: if the plan counts */
    int device; /* index of the backend's device */
    const limber_queue *queue; /* the caller's stream; NULL: the backend's own */
    const struct guard *guard; /* NULL: masks are those of the data */
    const struct finisher *finish; /* NULL: none */
    bool finished; /* out: `finish` was applied to all elements; if not, the caller applies it */
    bool dry; /* true: only counts overflow, and stores nothing */
    uint32_t ways; /* allowed ways; only WAY_windows and WAY_unpacked are tested */
    enum way_id way; /* out: the way that computed */
};

/* Sums of m rows of a matrix times a vector of k elements, as order 1 has them (limber.h), all of
 * binary64 (size 8) or binary32 (4).  row, col and step: elements from one row, one column and one
 * element of the vector to the next.  The m sums are dense. */
struct vector_sums {
    int size;
    int64_t m, k, row, col, step;
    const void *a, *x;
    void *sum;
    bool more; /* `sum` holds sums of earlier products, to which the first chain is added */
};

/* A product whose shape is known when it is compiled: A is m x k, B is k x n, all at least 1.
 * Compared and hashed as bytes, so it has no padding. */
struct strides {
    int64_t row, col;
}; /* in elements */
struct fixed {
    int64_t m, n, k;
    struct strides a, b, c; /* elements; c: rows or columns are contiguous if longer than 1 */
    int64_t add; /* 0: C = A B; 1: C += A B */
};

/* The scalars of C = alpha A B + beta C. */
struct scaling {
    double alpha, beta;
};
/* True if the result is scaled; false for C = A B and C += A B. */
static inline bool limber_scales(const struct scaling *x)
{
    return x->alpha != 1 || (x->beta != 0 && x->beta != 1);
}

/* Compiles a plan and a shape to bytes, and loads them as a C function, void (const void *a, const
 * void *b, void *c), which is the code itself.  Same names as in struct backend. */
struct function;
/* A backend's functions for one shape: compiled, loaded from stored code, and unloaded. */
struct functions {
    bool (*compile)(const struct plan *, const struct target *, const struct fixed *,
                    const struct dump *, struct blob *, struct diag *);
    bool (*load)(const unsigned char *data, size_t size, struct function **, void **entry,
                 struct diag *);
    void (*unload)(struct function *);
};

/* A depthwise convolution: every filter reads one channel.  All tensors are floats of `size` bytes,
 * or (size 1) operands are bytes whose sums are i32.  Channel c has the `multiplier` outputs from
 * c*multiplier on.  A window has at most LIMBER_SMALL_K elements, and no dimension is 0.
 *
 * Images, windows and results have depth, t and od planes, 1 in two dimensions.
 *
 * backward: the gradient of an image.  `image` is dy, which meets the window back to front, and the
 * result is some of dx's rows and columns.  Channel c of it sums the `inputs` channels of dy from
 * c*inputs on, one after the other; otherwise inputs is 1.
 *
 * gradient: the gradient of the filters.  `result` holds them, and dy, of od x oh x ow pixels and
 * channels*multiplier channels, is read at `filters`; a chain runs over all pixels. */
struct depthwise {
    int64_t images, channels, multiplier, inputs, depth, h, w, t, r, s, od, oh, ow;
    int64_t stride[3], pad[3], dilate[3]; /* down, across, into the depth; pads may be negative */
    int64_t filter[5]; /* strides of the filters in elements: output, input, plane, row, column */
    int64_t to[5]; /* strides of the result in elements: image, output, plane, row, column */
    int size;
    /* nhwc: a pixel's channels are contiguous; is_unsigned: bytes of the image are; add: results
     * are added to what `result` holds */
    bool nhwc, is_unsigned, add;
    bool backward, gradient;
    const void *image, *filters;
    void *result;
};
/* How a depthwise convolution is cut into tasks; each needs `room` bytes, aligned to 64. */
struct depthwise_plan {
    int64_t tasks, blocks, across, along, width, height, groups;
    size_t room;
};
struct depthwise_ops {
    /* False: not served on this target, or a task would need too much room.  Backward: a stride of
     * 2 means the whole gradient of an image; a stride of 1 one phase of it. */
    bool (*plan)(const struct depthwise *, const struct target *, int workers,
                 struct depthwise_plan *);
    /* Each task stores elements of its own, as the scheme `native` computes them. */
    void (*run)(const struct depthwise *, const struct target *, const struct depthwise_plan *,
                int64_t task, void *room);
    /* Computes one channel (`task` % d.channels) of an image to correctly rounded binary32.  Sets
     * unsure[y] for rows y whose rounding stays uncertain.  zeros: scratch of one row of the image;
     * NULL: only answers whether the convolution is served.  False: it is not. */
    bool (*wide)(const struct depthwise *, const struct target *, int64_t task, float *zeros,
                 uint8_t *unsure);
};

/* Converts lines of int32_t sums, times a power of two, to floats of `size` (4 or 8) bytes, rounded
 * to nearest.  Steps are elements from line to line.  With size 4, `to` may be the sums' memory. */
struct widened {
    const void *from;
    void *to;
    int size;
    double unit;
    int64_t lines, length, from_step, to_step;
};
/* Conversion between integers and floats of `size` (4 or 8) bytes that are multiples of one power
 * of two. */
struct narrow_ops {
    bool (*serves)(const struct target *);
    /* to[i] = x[i] / unit as integers from `low` to `high`, which fit 8 bits.  False: an element is
     * no such integer; `to` is undefined then. */
    bool (*narrow)(const struct target *, int size, const void *x, double unit, int low, int high,
                   uint8_t *to, int64_t n);
    void (*widen)(const struct target *, const struct widened *);
};

/* Elementwise functions of arrays; false: not on this target. */
struct function_ops {
    /* x[i] becomes limber_function_value(f, a, x[i]).  single: if x[i] is a binary32 number, any
     * value will do that rounds to the same binary32. */
    bool (*run)(const struct target *, limber_function f, const struct fn_args *a, double *x,
                int64_t n, bool single);
    /* Converts an array to doubles, and doubles to f, rounded to nearest even.  Formats: binary64,
     * binary32 and floats of 8 or 16 bits with subnormals. */
    bool (*widen)(const struct target *, limber_format f, const void *src, double *x, int64_t n);
    bool (*narrow)(const struct target *, limber_format f, const double *x, void *dst, int64_t n);
    /* Maps each element by a table of all values. dst may be src where elements have one size. */
    bool (*look_up)(const struct target *, const struct lookup *t, const void *src, void *dst,
                    int64_t n);
    /* A step of an epilogue on arrays of binary32 (narrow) or binary64: to[i] becomes
     * limber_epilogue_value(s, narrow, x[i], y[i]).  `store` converts numbers as limber_convert. */
    bool (*step)(const struct target *, const struct epilogue_step *s, bool narrow, const void *x,
                 const void *y, void *to, int64_t n);
    bool (*store)(const struct target *, bool narrow, const void *x, limber_format f, void *to,
                  int64_t n);
};

/* The elements of one or several matrices; all strides are in elements. */
struct numbers {
    const char *data;
    limber_format format;
    int64_t row, col, plane;
};

/* to = steps(from), element by element; `to` may be where `from` is, with the same strides. */
struct epilogue {
    const struct steps *steps;
    limber_format compute; /* binary32 or binary64 */
    limber_rounding rounding; /* rounding of results to the format in which they are stored */
    bool once; /* limber_apply, one function: its value is rounded to `compute` only if that is
                  binary32, and its operands are never rounded */
    int64_t planes, rows, cols;
    struct numbers from, to; /* to.data is written */
    struct numbers input[MOST_INPUTS]; /* data is NULL where no step reads it */
};

struct kernel;

/* Results of a scan in device memory: one array of `lines` numbers per field.  Exponents and lowest
 * bits are as in struct mask.  A zero line has emin INT32_MAX and emax INT32_MIN. */
enum scan_field { SCAN_emax, SCAN_emin, SCAN_low, SCAN_sig, SCAN_flags, SCAN_fields };
enum scan_flag { SCAN_special = 1, SCAN_negative = 2 };

/* A scan of lines x length elements seen through v.  Results per line go to `found`; results per
 * tile, one array per field, to `tiles` unless it is NULL.  For several matrices of one shape the
 * lines of one follow those of the other, and tiles are not scanned. */
struct scan_job {
    const struct view *v;
    int64_t matrices;
    struct spread each;
    int64_t lines, length;
    int32_t *found, *tiles;
};

/* Prepares the product that applies complex alpha and beta.  Copies `value` to `factors`.  If width
 * is 4, copies each of the m x n pairs at c to the third and fourth number of its group of four at
 * `to` (integers as i64). */
struct terms_job {
    const void *c;
    int64_t row, col; /* strides of c, in numbers */
    int64_t m, n, width;
    int64_t count; /* number of matrices of c, whose terms follow each other */
    struct spread each;
    void *to, *factors;
    char value[128]; /* the factors: 2 x width numbers in the format of those at `to` */
};

/* to[i] = sum over p of |x_ip| weights[p], in binary64, from p = 0 on; NaN and infinities count as
 * 0.  x_ip is element (i, p) of the view, or, with `across`, (p, i).  weights: NULL means all 1. */
struct weigh_job {
    const struct view *view;
    bool across;
    int64_t lines, length;
    const double *weights;
    double *to; /* both in host memory */
};

/* Sums re + im, or re - im, of outer x inner pairs; steps are in numbers.  Integers are widened to
 * twice their size; those of 64 bits wrap. */
struct sums_job {
    const void *from;
    int64_t outer, inner, outer_step, inner_step;
    int64_t count; /* matrices, `each` apart */
    struct spread each;
    bool minus;
    void *to; /* dense, inner index fastest, one matrix after the other */
    bool measures;
    uint64_t most; /* out, if `measures`: the largest magnitude of an integer */
};

/* Combines three products of `count` numbers each to pairs, `width` numbers apart: complex3.c. */
struct pairs_job {
    const void *product[3];
    int64_t count, width;
    bool plus;
    void *to;
};

/* Operations of backends whose devices have memory of their own. */
struct device_ops {
    /* true if p is in this device's memory, false if in the host's */
    bool (*holds)(const void *p, int device);
    bool (*compile_scan)(limber_format f, const struct target *, const struct dump *, struct blob *,
                         struct diag *);
    /* Scans one operand, or two of one format together. */
    bool (*scan)(struct kernel *, const struct scan_job *jobs, int count, int device,
                 const limber_queue *, struct diag *);
    bool (*records)(const limber_queue *, int device); /* true: the stream is being captured */
    bool (*ready)(struct kernel *, int device, struct diag *); /* loads the kernel completely */
    /* Run by the kernel that scans c's format; with a queue, in its order. */
    bool (*terms)(struct kernel *, const struct terms_job *, int device, const limber_queue *,
                  struct diag *);
    bool (*weigh)(struct kernel *, const struct weigh_job *, int device, const limber_queue *,
                  struct diag *);
    /* Run by the kernel that scans the numbers' format (integers of pairs_job: i64); with a queue,
     * in its order. */
    bool (*sums)(struct kernel *, struct sums_job *, int device, const limber_queue *,
                 struct diag *);
    bool (*pairs)(struct kernel *, const struct pairs_job *, int device, const limber_queue *,
                  struct diag *);
    /* Allocates and frees device memory in the queue's order. */
    bool (*alloc)(void **p, size_t bytes, const char *what, int device, const limber_queue *,
                  struct diag *);
    void (*free)(void *p, int device, const limber_queue *);
    /* A kernel for these steps and formats, for any sizes, strides and addresses. */
    bool (*compile_steps)(const struct epilogue *, const struct target *, const struct dump *,
                          struct blob *, struct diag *);
    bool (*steps)(struct kernel *, const struct epilogue *, int device, const limber_queue *,
                  struct diag *);
};

enum { LIMBER_SMALL_K = 256 };

/* Code in memory: [from, to). */
struct code_range {
    uintptr_t from, to;
};

struct backend {
    const char *name;
    /* Describes this machine; false with a reason when the backend cannot run here. */
    bool (*probe)(struct target *, struct diag *);
    /* Plan -> bytes.  dump may be NULL. */
    bool (*compile)(const struct plan *, const struct target *, const struct dump *, struct blob *,
                    struct diag *);
    /* Bytes -> kernel.  Damaged bytes give false, never a crash. */
    bool (*load)(const unsigned char *data, size_t size, struct kernel **, struct diag *);
    /* After a failure C is unchanged. */
    bool (*launch)(struct kernel *, struct call *, struct diag *);
    void (*unload)(struct kernel *);
    /* Predicts the way in which a launch of this plan's kernel computes the call, without a look at
     * data or memory.  Writes to `out`, unless NULL, how it reads the operands, and a line for each
     * way that it refuses. */
    enum way_id (*way)(const struct plan *, const struct target *, const struct call *,
                       struct text *out);
    /* Bytes of workspace of a call: the least, and those that hold everything at once.  NULL: the
     * backend uses no workspace of the caller. */
    void (*workspace)(const struct kernel *, const struct call *, size_t *least, size_t *most);
    const struct functions *fixed; /* NULL: makes no functions */
    const struct device_ops *device_ops; /* NULL: operands lie in host memory */
    /* Computes a product of binary64 or binary32 throughout, k at most LIMBER_SMALL_K or m = 1 or
     * n = 1, without plan or memory.  Each element is correctly rounded, or, where that takes
     * longer, has an error of at most allowed |A||B| before rounding.  target: the machine's.
     * Returns how many elements were summed again, exactly.  NULL: not available. */
    int64_t (*small)(const struct call *, const struct target *, limber_format a, limber_format b,
                     limber_format c, double allowed);
    /* Computes sums of order 1, without plan or memory.  NULL: not available. */
    void (*vectors)(const struct vector_sums *, const struct target *);
    /* The part of a plan that determines compile()'s bytes for a given target.  NULL: all of it. */
    bool (*code_key)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* Allocates all memory of several launches first.  NULL: callers that need all launches or none
     * keep a copy of C. */
    const struct launch_memory_ops *launch_memory;
    const struct block_rules *blocks; /* NULL: no device whose threads share memory in blocks */
    /* Like compile, from code in the library, without compiling: NOT_READY if it has none for this
     * plan.  NULL: it never has. */
    bool (*prebuilt)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* Computes C = A B or C += A B, or, with a scaling, C = alpha A B + beta C, as the scheme
     * `native`, by library code for any shape.  Floats of `size` bytes throughout, no dimension 0,
     * k at most LIMBER_SMALL_K, rows or columns of C contiguous.  False: not on this target.
     * NULL: not available. */
    bool (*direct)(const struct fixed *, const struct scaling *, const struct target *, int size,
                   const void *a, const void *b, void *c);
    /* The next three are library code; NULL: not available. */
    const struct depthwise_ops *depthwise;
    const struct function_ops *function_ops;
    const struct narrow_ops *narrow;
    /* True if one launch computes all groups of this call.  NULL: never. */
    bool (*takes_groups)(const struct kernel *, const struct call *);
    /* The address range of the compiler's code.  A thread inside it may be stopped when the process
     * ends.  Empty before the compiler is opened.  NULL: there is none. */
    struct code_range (*compiler)(void);
    /* Loads the compiler, if it is found, and runs its one-time initialisation.  NULL: there is
     * none. */
    void (*open)(const struct target *);
    bool code_by_isa; /* code depends on code_key and, of the target, on `isa` alone */
    bool carries; /* under target.no_compiler it still takes kernels that the library ships */
    bool reads_tiles; /* its plans use measured target.tile and .rate */
};

/* How a backend takes the memory of several launches at once. */
struct launch_memory_ops {
    size_t (*bytes)(const struct kernel *, const struct call *); /* bytes that one launch needs */
    bool (*alloc)(const struct call *, size_t bytes, struct launch_memory *, struct diag *);
    void (*free)(const struct call *, const struct launch_memory *);
};

/* list.c: the backends of this build, best first, NULL at the end. */
extern const struct backend *const limber_backends[];
/* Completes a target that was parsed from text by what its backend adds. */
void limber_target_complete(struct target *t);
extern const struct backend limber_backend_interp;

#endif
