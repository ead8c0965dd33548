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

/* Texts a backend may give for the dump: name is "kernel.ll", "kernel.s". */
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
    int cpus; /* that the workers share; 0: each has its own */
};

/* How many workers work at once: as many as work is divided for. */
static inline int limber_runner_busy(const struct runner *r)
{
    return r->cpus && r->cpus < r->workers ? r->cpus : r->workers;
}

/* What kernels count inside a model: limber_statistics has the meaning.  Partly swamped sums follow
 * the fully swamped ones of their kind. */
#define LIMBER_UNIT_TALLIES(TALLY) \
    TALLY(mul_inexact) \
    TALLY(mul_underflow) \
    TALLY(mul_overflow) \
    TALLY(swamped) \
    TALLY(partly_swamped) \
    TALLY(sum_overflow) \
    TALLY(outer_swamped) \
    TALLY(outer_partly)

/* Bare counts, the kernels' first.  Sizes alone give outer_sums. */
struct unit_counts {
#define FIELD(name) int64_t name;
    LIMBER_UNIT_TALLIES(FIELD)
#undef FIELD
    int64_t outer_sums;
};

/* What a plan knows of an operand: data within these bounds is what its kernels are made for. */
struct bounds {
    int32_t emin, emax, spread, width, sig;
    int32_t is_unsigned, special; /* nothing is negative; NaN and infinities may occur */
};

/* Of a call that a stream records: operands are scanned when it is played, and where one leaves its
 * bounds, the fallback, which knows nothing of the data, computes instead. */
struct guard {
    struct kernel *scan[2], *fallback;
    struct bounds bounds[2];
};

/* Limbs of an operand that outlive a call. */
struct kept {
    char *memory; /* aligned to 64 bytes */
    bool packed; /* by an earlier call; else by this one, which then says so */
};
struct keeper {
    /* For the limbs that the kernel makes of all of the operand in this variant, each of one size;
     * NULL: this call has to make them elsewhere. */
    struct kept *(*alloc)(void *self, int variant, size_t bytes);
    void (*packed)(void *self, struct kept *);
    void (*free)(void *self, struct kept *);
    void *self;
};

/* What is done to blocks of a result as soon as they are final: to each element once, on any
 * worker.  `turned` does it to the transposed result. */
struct finisher {
    void (*block)(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                  int64_t cols);
    const struct finisher *turned;
};

/* Memory for launches, taken before the first of them stores: a launch that has it cannot fail for
 * want of any. */
struct launch_memory {
    char *memory;
    size_t bytes;
    void *own; /* the backend's own matter */
};

struct call {
    int64_t m, n, k;
    struct view a, b;
    struct output_view c;
    int64_t groups; /* at least 2: products of one size, in one call of a backend that takes groups;
                       else there is one */
    struct spread each_a, each_b, each_c; /* of several groups: a step of 0 is one matrix for all */
    const struct conv *conv; /* of a convolution, else NULL: a, b and c are its maps */
    const void *alpha, *beta; /* in the result's format (integers: i64); NULL: 1, 0 */
    const struct mask *mask_a, *mask_b; /* with lines, where the plan scales; else NULL.  Of several
                                           groups one after the other, or of the matrix of all */
    const struct keeper *keep[2]; /* of a, b; NULL: limbs are of this call alone */
    const struct runner *runner;
    const limber_allocator *allocator; /* of what grows with the operands; NULL: the system's */
    const struct launch_memory *launch_memory; /* NULL: the launch takes its own */
    size_t workspace_limit; /* packed limbs held at once; chunked to fit */
    size_t workspace; /* out: bytes at the peak */
    int64_t overflow; /* out: elements that did not fit (wrap=0) */
    int64_t recomputed; /* out: elements that were summed again, exactly */
    int64_t recomputed_ns; /* out: how long that took, of all workers together */
    uint64_t seed; /* of the model's stochastic rounding */
    struct unit_counts counts; /* out: where the plan counts */
    int device; /* which of the backend's */
    const limber_queue *queue; /* of the device; NULL: the backend's own */
    const struct guard *guard; /* NULL: masks are those of the data */
    const struct finisher *finish; /* NULL: nothing is done */
    bool finished; /* out: it was, to all elements; a backend need not */
    bool dry; /* only count what does not fit, and store nothing */
    uint32_t ways; /* those that may serve: WAY_windows, WAY_unpacked; others always may */
    enum way_id way; /* out: the one that did */
};

/* Sums of m rows of a matrix times a vector of k elements, as order 1 has them (limber.h), all of
 * binary64 (size 8) or binary32 (4).  row, col and step: elements from one row, one column and one
 * element of the vector to the next.  The m sums are dense. */
struct vector_sums {
    int size;
    int64_t m, k, row, col, step;
    const void *a, *x;
    void *sum;
    bool more; /* sums go on: the first product begins a chain that is not a sum's first */
};

/* A product whose shape is known when it is compiled: A is m x k, B is k x n, all at least 1.
 * Compared and hashed as bytes: no holes. */
struct strides {
    int64_t row, col;
}; /* in elements */
struct fixed {
    int64_t m, n, k;
    struct strides a, b, c; /* c: one of them is 1 where it matters */
    int64_t add; /* 0: C = A B; 1: C += A B */
};

/* Of C = alpha A B + beta C. */
struct scaling {
    double alpha, beta;
};
/* False where that is C = A B or C += A B. */
static inline bool limber_scales(const struct scaling *x)
{
    return x->alpha != 1 || (x->beta != 0 && x->beta != 1);
}

/* Plan and shape -> bytes -> a C function, void (const void *a, const void *b, void *c), that is
 * the code itself.  As the slots of the same names below. */
struct function;
struct functions {
    bool (*compile)(const struct plan *, const struct target *, const struct fixed *,
                    const struct dump *, struct blob *, struct diag *);
    bool (*load)(const unsigned char *data, size_t size, struct function **, void **entry,
                 struct diag *);
    void (*unload)(struct function *);
};

/* A convolution whose every filter sees one channel, of floats of `size` bytes throughout, or (size
 * 1) of bytes whose sums are i32.  Channel c has the outputs c*multiplier and on; a window has at
 * most LIMBER_SMALL_K elements, and no dimension is 0.
 *
 * Images, windows and results have planes: depth, t and od of them, 1 of two dimensions.
 *
 * The gradient of an image is one, too: its image is dy, whose pixels are met from the window's end
 * to its begin, and its result some of dx's rows and columns.  Channel c of that sums `inputs`
 * channels of dy, c*inputs and on, one after the other; elsewhere inputs is 1.
 *
 * gradient: of the filters.  `result` holds them, and dy, of od x oh x ow pixels and
 * channels*multiplier channels, is read at `filters`; a chain runs over all pixels. */
struct depthwise {
    int64_t images, channels, multiplier, inputs, depth, h, w, t, r, s, od, oh, ow;
    int64_t stride[3], pad[3], dilate[3]; /* down, across, into the depth; pads may be negative */
    int64_t filter[5]; /* elements from one output's filters to the next one's, from input to input,
                          from plane to plane, from row to row, along a row */
    int64_t to[5]; /* elements of the result from image to image, output, plane, row and column */
    int size;
    bool nhwc, is_unsigned, add; /* bytes of the image are unsigned; the result is added */
    bool backward, gradient;
    const void *image, *filters;
    void *result;
};
/* How it is cut: tasks, each of which needs so many bytes of room, aligned to 64. */
struct depthwise_plan {
    int64_t tasks, blocks, across, along, width, height, groups;
    size_t room;
};
struct depthwise_ops {
    /* False: not on this target, or with too much room.  Backward with a stride of two is all of an
     * image's gradient: else it is one phase, whose stride is one. */
    bool (*plan)(const struct depthwise *, const struct target *, int workers,
                 struct depthwise_plan *);
    /* Each task stores elements of its own, as the scheme `native` computes them. */
    void (*run)(const struct depthwise *, const struct target *, const struct depthwise_plan *,
                int64_t task, void *room);
    /* Correct results of binary32: channel `task` % d.channels of an image.  Those in rows y where
     * unsure[y] is set are not known.  zeros: room for a row of the image.  False: not of such
     * convolutions; zeros is NULL: only that answer. */
    bool (*wide)(const struct depthwise *, const struct target *, int64_t task, float *zeros,
                 uint8_t *unsure);
};

/* Lines of sums of type int32_t, times a power of two, as floats of `size` bytes, 4 or 8, rounded
 * to nearest; steps are elements from line to line.  Of size 4 `to` may be where the sums are. */
struct widened {
    const void *from;
    void *to;
    int size;
    double unit;
    int64_t lines, length, from_step, to_step;
};
/* Floats of `size` bytes, 4 or 8, that hold multiples of one power of two, and integers. */
struct narrow_ops {
    bool (*serves)(const struct target *);
    /* to[i] = x[i] / unit, `low` to `high` within 8 bits; false: one of them is no such integer,
     * and `to` holds anything. */
    bool (*narrow)(const struct target *, int size, const void *x, double unit, int low, int high,
                   uint8_t *to, int64_t n);
    void (*widen)(const struct target *, const struct widened *);
};

/* Elementwise functions of arrays; false: not on this target. */
struct function_ops {
    /* x[i] becomes limber_function_value(f, a, x[i]); single: or, where x[i] is of binary32, any
     * number that rounds to nearest in binary32 as that does. */
    bool (*run)(const struct target *, limber_function f, const struct fn_args *a, double *x,
                int64_t n, bool single);
    /* Values of an array as doubles; and doubles rounded to nearest, ties to even.  Of binary64,
     * binary32 and floats of 8 or 16 bits with subnormal numbers. */
    bool (*widen)(const struct target *, limber_format f, const void *src, double *x, int64_t n);
    bool (*narrow)(const struct target *, limber_format f, const double *x, void *dst, int64_t n);
    /* dst may be src where elements have one size. */
    bool (*look_up)(const struct target *, const struct lookup *t, const void *src, void *dst,
                    int64_t n);
    /* Of epilogues: numbers are binary32 (narrow) or binary64.  to[i] becomes
     * limber_epilogue_value(s, narrow, x[i], y[i]); numbers are stored as limber_convert does. */
    bool (*step)(const struct target *, const struct epilogue_step *s, bool narrow, const void *x,
                 const void *y, void *to, int64_t n);
    bool (*store)(const struct target *, bool narrow, const void *x, limber_format f, void *to,
                  int64_t n);
};

/* Numbers of matrices; strides, from matrix to matrix as well, in numbers. */
struct numbers {
    const char *data;
    limber_format format;
    int64_t row, col, plane;
};

/* to = steps(from), element by element; `to` may be where `from` is, with the same strides. */
struct epilogue {
    const struct steps *steps;
    limber_format compute; /* binary32 or binary64 */
    limber_rounding rounding; /* of what is stored */
    bool once; /* a function of an array, limber_apply: its value is rounded to `compute` only if
                  that is binary32, and numbers that it reads never are */
    int64_t planes, rows, cols;
    struct numbers from, to; /* to.data is written */
    struct numbers input[MOST_INPUTS]; /* data is NULL where no step reads it */
};

struct kernel;

/* What a scan of operands in a device's memory finds, field after field of `lines` numbers:
 * exponents and lowest bits as struct mask has them; a zero line has INT32_MAX and INT32_MIN. */
enum scan_field { SCAN_emax, SCAN_emin, SCAN_low, SCAN_sig, SCAN_flags, SCAN_fields };
enum scan_flag { SCAN_special = 1, SCAN_negative = 2 };

/* lines x length elements seen through v; what is found goes to `found` and, unless it is NULL, the
 * same of tiles, field after field of all of them, to `tiles`.  Of several matrices, each like the
 * first, the lines of one follow those of the other, and there is nothing of tiles. */
struct scan_job {
    const struct view *v;
    int64_t matrices;
    struct spread each;
    int64_t lines, length;
    int32_t *found, *tiles;
};

/* What complex factors multiply: `width` numbers at `to` for each of the m x n pairs at c, where
 * width is 4 the third and fourth those of c (integers: in i64); and the factors, at `factors`. */
struct terms_job {
    const void *c;
    int64_t row, col; /* strides of c, in numbers */
    int64_t m, n, width;
    int64_t count; /* of matrices of c, whose terms follow each other */
    struct spread each;
    void *to, *factors;
    char value[128]; /* of the factors, 2 x width numbers as those at `to` */
};

/* to[i] = sum over p of |x_ip| weights[p], in binary64 from p = 0 on; what is not finite counts as
 * 0. x_ip is element (i, p) of the view, or `across` element (p, i).  weights: NULL, all 1. */
struct weigh_job {
    const struct view *view;
    bool across;
    int64_t lines, length;
    const double *weights;
    double *to; /* both in host memory */
};

/* Sums re + im, or re - im, of outer x inner pairs; steps count numbers.  Integers become twice as
 * long, and of 64 bits stay modulo 2^64. */
struct sums_job {
    const void *from;
    int64_t outer, inner, outer_step, inner_step;
    int64_t count; /* matrices, `each` apart */
    struct spread each;
    bool minus;
    void *to; /* dense, the inner ones together, one matrix after the other */
    bool measures;
    uint64_t most; /* out, where it measures: the largest magnitude of an integer */
};

/* Three products of `count` numbers each become pairs, `width` numbers apart: complex3.c. */
struct pairs_job {
    const void *product[3];
    int64_t count, width;
    bool plus;
    void *to;
};

/* Of backends whose devices have memory of their own. */
struct device_ops {
    bool (*holds)(const void *p, int device); /* false: host memory */
    bool (*compile_scan)(limber_format f, const struct target *, const struct dump *, struct blob *,
                         struct diag *);
    /* Of one operand or two of one format, together. */
    bool (*scan)(struct kernel *, const struct scan_job *jobs, int count, int device,
                 const limber_queue *, struct diag *);
    bool (*records)(const limber_queue *, int device); /* into a graph */
    bool (*ready)(struct kernel *, int device, struct diag *); /* nothing is left to load */
    /* By the kernel that scans c's format; with a queue, in its order. */
    bool (*terms)(struct kernel *, const struct terms_job *, int device, const limber_queue *,
                  struct diag *);
    bool (*weigh)(struct kernel *, const struct weigh_job *, int device, const limber_queue *,
                  struct diag *);
    /* By the kernel that scans the numbers' format, of integers of pairs_job i64; likewise. */
    bool (*sums)(struct kernel *, struct sums_job *, int device, const limber_queue *,
                 struct diag *);
    bool (*pairs)(struct kernel *, const struct pairs_job *, int device, const limber_queue *,
                  struct diag *);
    /* The device's memory, taken and given back in the queue's order. */
    bool (*alloc)(void **p, size_t bytes, const char *what, int device, const limber_queue *,
                  struct diag *);
    void (*free)(void *p, int device, const limber_queue *);
    /* A kernel for these steps and formats, whatever the sizes and places; and all numbers. */
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
    /* C is what it was after a failure. */
    bool (*launch)(struct kernel *, struct call *, struct diag *);
    void (*unload)(struct kernel *);
    /* The way in which a launch of this plan's kernel would compute this call, of which data and
     * memory are not looked at; to `out`, unless it is NULL, how it reads the operands, and a line
     * for each way that it refuses. */
    enum way_id (*way)(const struct plan *, const struct target *, const struct call *,
                       struct text *out);
    /* Bytes of workspace of a call: the fewest, and those that hold all of it at once.  NULL: it
     * takes none of the caller's. */
    void (*workspace)(const struct kernel *, const struct call *, size_t *least, size_t *most);
    const struct functions *fixed; /* NULL: makes no functions */
    const struct device_ops *device_ops; /* NULL: operands lie in host memory */
    /* A product of binary64 or binary32 throughout, k at most LIMBER_SMALL_K, by code that needs no
     * plan and no memory.  Each element is correctly rounded, or, where that takes longer, off by
     * at most allowed |A||B| before it is rounded.  target: of the machine.  Answers how many
     * elements were summed again, exactly.  NULL: there is none. */
    int64_t (*small)(const struct call *, const struct target *, limber_format a, limber_format b,
                     limber_format c, double allowed);
    /* Sums of order 1, by code that needs no plan and no memory.  NULL: there is none. */
    void (*vectors)(const struct vector_sums *, const struct target *);
    /* What of a plan decides about compile()'s bytes, the target aside.  NULL: all of it. */
    bool (*code_key)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* For calls that are several launches, all memory first.  NULL: who needs all of them or none
     * keeps a copy of C. */
    const struct launch_memory_ops *launch_memory;
    const struct block_rules *blocks; /* NULL: no device whose threads share memory in blocks */
    /* As compile, of code that is part of the library, at once: NOT_READY where it has none for
     * this plan.  NULL: it never has. */
    bool (*prebuilt)(const struct plan *, const struct target *, struct blob *, struct diag *);
    /* C = A B or C += A B or, where there is a scaling, in the place of these
     * C = alpha A B + beta C, as the scheme `native` computes it, of floats of `size` bytes
     * throughout, at least one of each dimension and k at most LIMBER_SMALL_K, rows or columns of C
     * dense, by code of the library for any shape.  False: not on this target.  NULL: there is
     * none. */
    bool (*direct)(const struct fixed *, const struct scaling *, const struct target *, int size,
                   const void *a, const void *b, void *c);
    const struct depthwise_ops *depthwise; /* by code of the library; NULL: there is none */
    const struct function_ops *function_ops; /* by code of the library; NULL: there is none */
    const struct narrow_ops *narrow; /* by code of the library; NULL: there is none */
    /* Whether launch makes all groups of this call, or none of them.  NULL: it takes none. */
    bool (*takes_groups)(const struct kernel *, const struct call *);
    /* The compiler's own code, anywhere in which a thread may be stopped when the process ends;
     * empty before it is opened.  NULL: there is none. */
    struct code_range (*compiler)(void);
    /* Opens the compiler, where it is found, and has it do what it does once.  NULL: there is
     * none. */
    void (*open)(const struct target *);
    bool code_by_isa; /* of the target, compilers read `isa` alone, beside what code_key tells */
    bool carries; /* under target.no_compiler it takes kernels that came along */
    bool reads_tiles; /* its kernels take tiles and rates that were measured: target.tile, .rate */
};

struct launch_memory_ops {
    size_t (*bytes)(const struct kernel *, const struct call *); /* of one launch */
    bool (*alloc)(const struct call *, size_t bytes, struct launch_memory *, struct diag *);
    void (*free)(const struct call *, const struct launch_memory *);
};

/* list.c: the backends of this build, best first, NULL at the end. */
extern const struct backend *const limber_backends[];
/* Gives a target that was read from a text what its backend adds to it. */
void limber_target_complete(struct target *t);
extern const struct backend limber_backend_interp;

#endif
