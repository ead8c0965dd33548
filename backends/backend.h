/* SPDX-License-Identifier: BSD-3-Clause
 * The interface of a backend, which compiles a plan, after all passes, to bytes and runs such
 * bytes as a kernel. load() and launch() must not need a compiler (such as LLVM), so that stored
 * kernels run without one.  A backend that cannot run on this machine reports that once, in
 * probe(). */
#ifndef LIMBER_BACKEND_H
#define LIMBER_BACKEND_H

#include "backends/ways.h"
#include "ir/conv.h"
#include "ir/function.h"
#include "ir/ir.h"
#include "ir/spread.h"
#include "ir/steps.h"
#include "ir/view.h"

/* Returns a / b, rounded up; a >= 0, b > 0. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

struct blob {               /* compiled code or data, in the form in which it is stored on disk */
    unsigned char *data;
    size_t size;
};

/* Receives the texts that a backend writes while it compiles, for the dump.  `name` is a file name,
 * such as "kernel.ll" or "kernel.s". */
struct dump {
    void (*file)(void *user, const char *name, const char *data, size_t size);
    void *user;
    const char *without; /* name of a text that the backend may skip, or NULL */
};

/* A thread pool.  run() calls fn(arg, task, worker) once for each task in [0, tasks), in any order
 * and on any worker in [0, workers), and returns when all tasks are done. */
struct runner {
    int workers;
    void (*run)(void *self, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker),
                void *arg);
    void *self;
    int cpus; /* number of CPUs that the workers share; 0 if each worker has a CPU of its own */
};

/* Returns the number of workers that can run at the same time.  Launches divide their work for this
 * number. */
static inline int limber_runner_busy(const struct runner *r)
{
    return r->cpus && r->cpus < r->workers ? r->cpus : r->workers;
}

/* Events that kernels count while they simulate a unit; limber_statistics in limber.h explains
 * each.  Each counter of sums that lost some bits of an addend (partly swamped) comes after the
 * counter of those that lost all its bits (swamped). */
#define LIMBER_UNIT_TALLIES(TALLY) \
    TALLY(mul_inexact) \
    TALLY(mul_underflow) \
    TALLY(mul_overflow) \
    TALLY(swamped) \
    TALLY(partly_swamped) \
    TALLY(sum_overflow) \
    TALLY(outer_swamped) \
    TALLY(outer_partly)

/* Counters of a simulated unit.  Kernels count the events; outer_sums is computed from sizes
 * alone. */
struct unit_counts {
#define FIELD(name) int64_t name;
    LIMBER_UNIT_TALLIES(FIELD)
#undef FIELD
    int64_t outer_sums;
};

/* Bounds on the exponents, bits and signs of an operand's data.  The kernels of a plan rely on
 * them. */
struct bounds {
    int32_t emin, emax, spread, width, sig; /* see the attributes of these names in ir/attrs.h */
    /* is_unsigned: 1 if no element is negative; special: 1 if elements may be NaN or infinite */
    int32_t is_unsigned, special;
};

/* Tells a call that is captured into a CUDA graph how to check its data.  The scan kernels run each
 * time that the graph is launched.  If an operand leaves its bounds, the fallback kernel, which is
 * correct for any data, computes the product instead. */
struct capture_check {
    struct kernel *scan[2], *fallback;
    struct bounds bounds[2];
};

/* The packed limbs of a prepared operand.  They are kept from call to call. */
struct kept_limbs {
    char *memory; /* aligned to 64 bytes */
    bool packed; /* if false, this call must pack the limbs and then call keeper.packed */
};
/* Callbacks through which a launch gets the kept limbs of a prepared operand.  `self` belongs to
 * the operand. */
struct keeper {
    /* Returns memory for all limbs of the operand in one packing variant of the kernel.  Returns
     * NULL if nothing can be kept; then this call packs the limbs in its own workspace. */
    struct kept_limbs *(*alloc)(void *self, int variant, size_t bytes);
    void (*packed)(void *self, struct kept_limbs *);
    void (*free)(void *self, struct kept_limbs *);
    void *self;
};

/* Applies the caller's epilogue to a block of the result as soon as its sums are final.  Every
 * element is passed exactly once, on any worker.  `turned` is the finisher for the transposed
 * result. */
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
    void *own; /* data that only the backend uses */
};

/* Facts that a launch fills in for its caller. */
struct launch_result {
    enum way_id way; /* the way that computed the call */
    size_t workspace; /* peak workspace in bytes */
    /* number of elements that did not fit C's format (only if the plan has wrap=0) */
    int64_t overflow;
    int64_t recomputed; /* number of elements that were recomputed with exact sums */
    int64_t recomputed_ns; /* nanoseconds spent on these, summed over workers */
    /* event counts of the simulated unit, if the plan asks for them */
    struct unit_counts counts;
    bool finished; /* call.finish was applied to all elements; if not, the caller applies it */
};

struct call {
    int64_t m, n, k;
    struct view a, b;
    struct output_view c;
    /* number of products of one size; more than 1 only if device_ops.takes_groups allows it */
    int64_t groups;
    /* addresses of the matrices of each group; with a step of 0, all groups read the same matrix */
    struct spread each_a, each_b, each_c;
    /* the convolution whose index maps a, b and c contain; NULL for a matrix product */
    const struct conv *conv;
    /* the scalars, in the format of the result (int64_t if it is an integer format); alpha is NULL
     * if it is 1, and beta is NULL if it is 0 */
    const void *alpha, *beta;
    /* for each operand, what a scan found (exponents, special values), or NULL.  If the plan
     * scales lines, there is an array with an entry per line (row of A or column of B).  Lines
     * of successive groups follow one another, unless the groups share a matrix. */
    const struct mask *mask_a, *mask_b;
    /* callbacks that keep the limbs of A and of B; NULL if limbs are not kept */
    const struct keeper *keep[2];
    const struct runner *runner;
    /* allocates memory whose size grows with the operands; NULL to use malloc */
    const limber_allocator *allocator;
    /* memory allocated before; NULL if the launch allocates its own */
    const struct launch_memory *launch_memory;
    size_t workspace_limit; /* in bytes; a launch that needs more workspace computes C in parts */
    uint64_t seed; /* seed of the simulated unit's stochastic rounding */
    int device; /* index of the backend's device */
    const limber_queue *queue; /* the caller's stream; NULL to use a stream of the backend */
    /* checks the data when the captured graph runs; NULL if mask_a and mask_b describe the data
     * of this call */
    const struct capture_check *guard;
    const struct finisher *finish; /* applies the epilogue to blocks of C; NULL if there is none */
    /* Where a backend keeps, allocated by malloc, what it finds out about launches of this kernel
     * that differ only in addresses, scalars, masks (results of scans) and data.  *layout is NULL
     * at first; it is set once, atomically, and freed by its owner.  NULL: nothing is kept. */
    void **layout;
    bool dry; /* true if the launch only counts overflows and stores nothing */
    /* set of allowed ways (code paths), bits by way_id; a launch reads only the bits of WAY_windows
     * and WAY_unpacked */
    uint32_t ways;
    struct launch_result out;
};

/* Arguments for computing m dot products: rows of a matrix times a vector of k elements, added in
 * the order that limber.h documents as "order 1".  All numbers are binary64 (size 8) or binary32
 * (size 4).  row, col and step are distances in elements between rows, between columns and between
 * elements of the vector.  If `next` is not 0, each row has a vector of its own, `next` elements
 * after that of the row before; then col and step are 1.  The m sums are stored contiguously. */
struct vector_sums {
    int size;
    int64_t m, k, row, col, step, next;
    const void *a, *x;
    void *sum;
    bool more; /* true if `sum` holds sums of earlier elements, to which chains are added */
    /* The matrix is complex, with contiguous columns: its k / 2 columns have m pairs (re, im), and
     * col is the distance between them.  x has two columns with contiguous rows, the real form of a
     * complex vector (jit/api/complex.c), and the sums are 2 m. */
    bool pairs;
};

/* Distances in elements: from one row to the next, and from one column to the next. */
struct strides {
    int64_t row, col;
};
/* A product whose shape is known when it is compiled: A is m x k and B is k x n, with m, n and k at
 * least 1.  The structure is compared and hashed byte by byte, so it has no padding. */
struct fixed {
    int64_t m, n, k;
    /* in c, rows or columns are contiguous, unless they have only one element */
    struct strides a, b, c;
    int64_t add; /* 0 for C = A B, 1 for C += A B */
};

/* The scalars of C = alpha A B + beta C. */
struct scaling {
    double alpha, beta;
};
/* True if the result must be scaled, false for C = A B and C += A B. */
static inline bool limber_scales(const struct scaling *x)
{
    return x->alpha != 1 || (x->beta != 0 && x->beta != 1);
}

/* The compiled code of a product of one fixed shape: a C function, void (const void *a, const void
 * *b, void *c). */
struct function;
/* Operations on functions for one fixed shape: compile to bytes, load such bytes, unload.  load()
 * sets *entry to the address of the code.  Members do what the members of struct backend with the
 * same names do. */
struct functions {
    bool (*compile)(const struct plan *, const struct target *, const struct fixed *,
                    const struct dump *, struct blob *, struct diag *);
    bool (*load)(const unsigned char *data, size_t size, struct function **, void **entry,
                 struct diag *);
    void (*unload)(struct function *);
    /* nanoseconds, as measured: the cost of compiling a function, and the time that it saves over
     * cpu_ops.direct per product and per multiply-add (docs/performance.md, "Small products") */
    double cost, saved, saved_each;
};

/* A depthwise convolution, in which every filter reads one channel.  All tensors hold floats of
 * `size` bytes.  With size 1, operands are 8-bit integers and results are int32_t.  Channel c has
 * `multiplier` output channels, from c*multiplier on.  A filter has at most LIMBER_SMALL_K
 * elements, and no dimension is 0.
 *
 * Images, filters and results have depth, t and od planes; all are 1 in two dimensions.
 *
 * backward: computes the gradient of an image.  `image` is dy, to which the reversed filter is
 * applied, and the result is some of dx's rows and columns.  Channel c of dx sums `inputs` channels
 * of dy, from c*inputs on, one after the other.  Otherwise `inputs` is 1.
 *
 * gradient: computes the gradient of the filters and stores it in `result`.  `filters` points to
 * dy, which has od x oh x ow pixels and channels*multiplier channels.  One chain of sums runs over
 * all pixels. */
struct depthwise {
    int64_t images, channels, multiplier, inputs, depth, h, w, t, r, s, od, oh, ow;
    int64_t stride[3], pad[3], dilate[3]; /* [row, column, plane]; a pad may be negative */
    /* strides of the filters, in elements: [output channel, input channel, plane, row, column] */
    int64_t filter[5];
    /* strides of the result, in elements: [image, output channel, plane, row, column] */
    int64_t to[5];
    int size;
    /* nhwc: true if the channels of a pixel are contiguous.  is_unsigned: true if the image's 8-bit
     * integers are unsigned.  add: true if sums are added to the contents of `result`. */
    bool nhwc, is_unsigned, add;
    bool backward, gradient;
    const void *image, *filters;
    void *result;
};
/* Division of a depthwise convolution into tasks: `blocks` blocks of channels (`groups` vectors
 * each), and `across` by `along` pieces of the result (at most `width` by `height` pixels each).  A
 * filter gradient is divided into `along` groups of taps instead of pieces.  Each task needs `room`
 * bytes of scratch memory, aligned to 64 bytes. */
struct depthwise_plan {
    int64_t tasks, blocks, across, along, width, height, groups;
    size_t room;
};
struct depthwise_ops {
    /* Divides a convolution into tasks for `workers` threads, and stores the division to *plan.
     * Returns false if this target does not support the convolution, or a task would need too much
     * memory.  If d->backward is set, one call computes the image's gradient: all of it if the
     * stride is 2, one stride phase of it if the stride is 1. */
    bool (*plan)(const struct depthwise *d, const struct target *, int workers,
                 struct depthwise_plan *plan);
    /* Runs one task, which stores its own elements of the result.  They are computed as the scheme
     * `native` does. */
    void (*run)(const struct depthwise *, const struct target *, const struct depthwise_plan *,
                int64_t task, void *room);
    /* Computes one channel (`task` % d.channels) of an image, correctly rounded to binary32, from
     * sums in binary64.  Sets unsure[y] for each row y in which some rounding stays uncertain.
     * zeros: scratch memory for one row of the image; if it is NULL, nothing is computed.  Returns
     * false if the convolution is not supported. */
    bool (*wide)(const struct depthwise *, const struct target *, int64_t task, float *zeros,
                 uint8_t *unsure);
};

/* Converts `lines` rows or columns of int32_t sums, times a power of two, to floats of `size` (4 or
 * 8) bytes, rounded to nearest.  Steps are distances in elements from one to the next.  With size
 * 4, `to` may be the sums' memory. */
struct widened {
    const void *from;
    void *to;
    int size;
    double unit;
    int64_t lines, length, from_step, to_step;
};
/* Operations that replace floats of `size` (4 or 8) bytes by 8-bit integers, for products of floats
 * that are small integers times one power of two. */
struct int8_ops {
    bool (*serves)(const struct target *);
    /* Computes to[i] = x[i] / unit as integers from `low` to `high`, which fit in 8 bits.  Returns
     * false if an element is no such integer; the contents of `to` are then undefined. */
    bool (*from_floats)(const struct target *, int size, const void *x, double unit, int low,
                        int high, uint8_t *to, int64_t n);
    void (*to_floats)(const struct target *, const struct widened *);
};

/* Elementwise functions of arrays.  Each member returns false if this target does not support the
 * operation. */
struct function_ops {
    /* Replaces x[i] by limber_function_value(f, a, x[i]).  single: for each x[i] that is a binary32
     * number, any value that rounds to the same binary32 number may be returned. */
    bool (*run)(const struct target *, limber_function f, const struct fn_args *a, double *x,
                int64_t n, bool single);
    /* widen: converts an array of format f to doubles.  narrow: converts doubles to format f,
     * rounded to nearest even.  f is binary64, binary32 or a float of 8 or 16 bits with
     * subnormals. */
    bool (*widen)(const struct target *, limber_format f, const void *src, double *x, int64_t n);
    bool (*narrow)(const struct target *, limber_format f, const double *x, void *dst, int64_t n);
    /* Maps each element by a table with an entry for each bit pattern.  dst may be src if the
     * elements of both have the same size. */
    bool (*look_up)(const struct target *, const struct lookup *t, const void *src, void *dst,
                    int64_t n);
    /* Applies one step of an epilogue to arrays of binary32 (if `is_f32`) or binary64: to[i]
     * becomes limber_epilogue_value(s, is_f32, x[i], y[i]).  `store`, the next member, converts
     * numbers as limber_convert does. */
    bool (*step)(const struct target *, const struct epilogue_step *s, bool is_f32, const void *x,
                 const void *y, void *to, int64_t n);
    bool (*store)(const struct target *, bool is_f32, const void *x, limber_format f, void *to,
                  int64_t n);
};

/* The elements of one or several matrices; all strides are in elements. */
struct numbers {
    const char *data;
    limber_format format;
    int64_t row, col, plane;
};

/* An elementwise epilogue: applies `steps` to each element of `from` and stores the result in `to`,
 * which may be the same matrix with the same strides. */
struct epilogue {
    const struct steps *steps;
    limber_format compute; /* format in which steps are computed: binary32 or binary64 */
    limber_rounding rounding; /* rounding of results to the format in which they are stored */
    /* true for limber_apply, which applies a single function: operands are not rounded, and the
     * value is rounded to `compute` only if that is binary32 */
    bool once;
    int64_t planes, rows, cols;
    struct numbers from, to; /* to.data is written */
    /* further operands; data is NULL if no step reads the operand */
    struct numbers input[MOST_INPUTS];
};

struct kernel;

/* Results of a scan in device memory: for each field an array with one number per line (row of A or
 * column of B).  Exponents and lowest bits are defined as in struct mask.  A line of zeros has emin
 * INT32_MAX and emax INT32_MIN. */
enum scan_field { SCAN_emax, SCAN_emin, SCAN_low, SCAN_sig, SCAN_flags, SCAN_fields };
enum scan_flag { SCAN_special = 1, SCAN_negative = 2 };

/* A scan of an operand with `lines` rows or columns of `length` elements each, which the view v
 * locates.  `found` receives the results per line; `tiles`, unless NULL, receives the results per
 * tile, one array per field.  Several matrices of one shape are scanned as if their lines followed
 * one another; their tiles are not scanned. */
struct scan_call {
    const struct view *v;
    int64_t matrices;
    struct spread each;
    int64_t lines, length;
    int32_t *found, *tiles;
};

/* Arguments for copying the scalars and C of a complex alpha X + beta C, which is computed as one
 * real product.  Copies the scalars, `value`, to `factors`.  If width is 4, also copies each
 * complex number of the m x n matrix c to the third and fourth number of its group of four at `to`
 * (integers become int64_t). */
struct terms_call {
    const void *c;
    int64_t row, col; /* strides of c, in numbers */
    int64_t m, n, width;
    int64_t count; /* number of matrices of C; their copies follow one another in `to` */
    struct spread each;
    void *to, *factors;
    char value[128]; /* the scalars as 2 * width numbers in the format of those at `to` */
};

/* Arguments for weighted sums of absolute values: to[i] = sum over p of |x_ip| weights[p], in
 * binary64, from p = 0 on.  NaN and infinities count as 0.  x_ip is element (i, p) of the view or,
 * if `across` is set, element (p, i). */
struct weigh_call {
    const struct view *view;
    bool across;
    int64_t lines, length;
    const double *weights;
    double *to; /* `weights` and `to` are in host memory */
};

/* Arguments for computing re + im, or re - im if `minus`, of outer x inner complex numbers.  Steps
 * are counted in real numbers.  Results of integers have twice the operands' size; 64-bit integers
 * wrap. */
struct sums_call {
    const void *from;
    int64_t outer, inner, outer_step, inner_step;
    int64_t count; /* number of matrices; `each` gives the distances between them */
    struct spread each;
    bool minus;
    void *to; /* contiguous: the inner index is fastest, and matrices follow one another */
    bool measures;
    uint64_t most; /* out, if `measures` is set: the largest magnitude of an integer */
};

/* Arguments for combining three real products of `count` numbers each into complex results that are
 * `width` numbers apart (jit/operators/complex3.c). */
struct pairs_call {
    const void *product[3];
    int64_t count, width;
    bool plus;
    void *to;
};

/* Operations of backends whose devices have memory of their own. */
struct device_ops {
    /* chooses the tiles of thread blocks, and predicts the seconds that a plan takes */
    const struct block_rules *blocks;
    /* True if one launch can compute all groups of this call. */
    bool (*takes_groups)(const struct kernel *, const struct call *);
    /* true if p points to this device's memory, false if to the host's */
    bool (*holds)(const void *p, int device);
    bool (*compile_scan)(limber_format f, const struct target *, const struct dump *, struct blob *,
                         struct diag *);
    /* Scans one operand, or two operands of the same format in one launch. */
    bool (*scan)(struct kernel *, const struct scan_call *calls, int count, int device,
                 const limber_queue *, struct diag *);
    /* True if the stream is being captured into a graph. */
    bool (*records)(const limber_queue *, int device);
    /* Loads the kernel's code onto the device. */
    bool (*ready)(struct kernel *, int device, struct diag *);
    /* Copies scalars and C for a complex product, as struct terms_call describes.  The kernel must
     * be the one that scans C's format.  Runs in the queue's order if there is a queue. */
    bool (*terms)(struct kernel *, const struct terms_call *, int device, const limber_queue *,
                  struct diag *);
    /* Computes weighted sums of absolute values, as struct weigh_call describes. */
    bool (*weigh)(struct kernel *, const struct weigh_call *, int device, const limber_queue *,
                  struct diag *);
    /* Computes sums or differences of real and imaginary parts, as struct sums_call describes.  The
     * kernel must be the one that scans the numbers' format.  Runs in the queue's order if there is
     * a queue. */
    bool (*sums)(struct kernel *, struct sums_call *, int device, const limber_queue *,
                 struct diag *);
    /* Combines three real products into complex results, as struct pairs_call describes.  The
     * kernel must be the one that scans the numbers' format, for integers i64.  Runs in the queue's
     * order if there is a queue. */
    bool (*pairs)(struct kernel *, const struct pairs_call *, int device, const limber_queue *,
                  struct diag *);
    /* Allocates and frees device memory in the queue's order. */
    bool (*alloc)(void **p, size_t bytes, const char *what, int device, const limber_queue *,
                  struct diag *);
    void (*free)(void *p, int device, const limber_queue *);
    /* Compiles a kernel for the epilogue's steps and formats.  It takes any sizes, strides and
     * addresses. */
    bool (*compile_steps)(const struct epilogue *, const struct target *, const struct dump *,
                          struct blob *, struct diag *);
    bool (*steps)(struct kernel *, const struct epilogue *, int device, const limber_queue *,
                  struct diag *);
};

/* largest number of terms along k that library code without packing sums in one chain */
enum { LIMBER_SMALL_K = 256 };

/* Address range of code: [from, to). */
struct code_range {
    uintptr_t from, to;
};

/* Allocates the memory of several launches at once, before the first one runs. */
struct launch_memory_ops {
    size_t (*bytes)(const struct kernel *, const struct call *); /* bytes that one launch needs */
    bool (*alloc)(const struct call *, size_t bytes, struct launch_memory *, struct diag *);
    void (*free)(const struct call *, const struct launch_memory *);
};

/* Code that is part of the library, for CPUs.  All but `prebuilt` computes without a plan. */
struct cpu_ops {
    const struct functions *fixed; /* functions that are compiled for one shape */
    /* Computes C = A B or C += A B, or, with a scaling, C = alpha A B + beta C, as the scheme
     * `native` does, by library code for any shape.  All numbers are floats of `size` bytes, no
     * dimension is 0, k is at most LIMBER_SMALL_K, and rows or columns of C are contiguous.
     * Returns false if this target is not supported. */
    bool (*direct)(const struct fixed *, const struct scaling *, const struct target *, int size,
                   const void *a, const void *b, void *c);
    /* Computes a product of binary64 or binary32 numbers, with k at most LIMBER_SMALL_K or m = 1 or
     * n = 1, without allocating.  Each element is correctly rounded or, where that would take
     * longer, has an error of at most allowed |A||B| before rounding.  Returns how many elements
     * were recomputed with exact sums. */
    int64_t (*small)(const struct call *, const struct target *, limber_format a, limber_format b,
                     limber_format c, double allowed);
    /* Computes dot products without allocating, added in the order that limber.h documents as
     * "order 1". */
    void (*vectors)(const struct vector_sums *, const struct target *);
    const struct depthwise_ops *depthwise;
    const struct function_ops *functions;
    const struct int8_ops *int8;
    /* Takes a kernel that is part of the library instead of compiling one.  Fails with NOT_READY if
     * the library has none for this plan. */
    bool (*prebuilt)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* Measured seconds of a call of compile(), and the measured share of a prebuilt kernel's time
     * that the specialised one saves (docs/performance.md, "Prebuilt and specialised kernels"). */
    double compile_seconds, specialised_saves;
};

/* Abilities of backends whose kernels are machine code. */
struct code_ops {
    /* Loads the compiler, if it is found, and runs its one-time initialisation. */
    void (*open)(const struct target *);
    /* Returns the address range of the compiler's code, empty before the compiler is opened.  A
     * thread that executes this code may be stopped when the process ends. */
    struct code_range (*compiler)(void);
    /* Copies those bytes of a plan that determine the output of compile() for a given target. */
    bool (*key)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* Returns the workspace of a call in bytes: the smallest size that works, and the size that
     * holds all limbs at once. */
    void (*workspace)(const struct kernel *, const struct call *, size_t *least, size_t *most);
    /* Prints the source that compile() specialises for a plan, with its constants.  Needs neither a
     * compiler nor a device.  source_name: a file name for it. */
    bool (*source)(const struct plan *, const struct target *, struct text *out, struct diag *);
    const char *source_name;
    /* Describes a usual machine with this instruction set or architecture, such as "avx512vnni" or
     * "sm_90a".  Returns false if the backend knows no such name. */
    bool (*named)(struct target *, const char *name);
    bool by_isa; /* compiled code depends only on its key and on target.isa */
    /* the backend still loads kernels that are part of the library if target.no_compiler is set */
    bool carries;
};

struct backend {
    const char *name;
    /* Describes this machine.  Returns false, with a reason, if the backend cannot run here. */
    bool (*probe)(struct target *, struct diag *);
    /* Compiles a plan to bytes.  `dump` may be NULL. */
    bool (*compile)(const struct plan *, const struct target *, const struct dump *, struct blob *,
                    struct diag *);
    /* Makes a kernel of bytes that compile() wrote.  Refuses damaged bytes. */
    bool (*load)(const unsigned char *data, size_t size, struct kernel **, struct diag *);
    /* Computes a call.  If the launch fails, C is unchanged. */
    bool (*launch)(struct kernel *, struct call *, struct diag *);
    void (*unload)(struct kernel *);
    /* Predicts the way (code path) by which a launch of this plan's kernel will compute the call,
     * without reading data or memory.  Writes to `out`, unless it is NULL, how this way reads the
     * operands, and one line for each way that refuses the call. */
    enum way_id (*predict_way)(const struct plan *, const struct target *, const struct call *,
                               struct text *out);
    /* Tables of operations that not all backends have: NULL, or with all members set.  Without
     * `launch_memory`, a caller of several launches keeps a copy of C to undo a failure. */
    const struct code_ops *code;
    const struct cpu_ops *cpu;
    const struct device_ops *device_ops;
    const struct launch_memory_ops *launch_memory;
};

/* list.c: the backends of this build, best first, NULL at the end. */
extern const struct backend *const limber_backends[];
/* Sets the field of a target that its text form omits: `blocks`, from the target's backend. */
void limber_target_complete(struct target *t);
const struct backend *limber_backend_named(const char *name); /* NULL if there is none */
extern const struct backend limber_backend_interp;

#endif
