/* SPDX-License-Identifier: BSD-3-Clause
 * Limber: GEMM and convolution in the format and at the accuracy that you ask for.
 *
 * You state a problem: formats, shapes and a contract.  Limber scans the data, splits the operands
 * into limbs that the machine's units hold, and runs a prebuilt kernel.  For a problem that comes
 * often it compiles a specialised kernel in the background, and keeps that in memory and on disk.
 * Nothing here prints, exits, or changes the floating-point environment.  Every function may be
 * called from any thread.  Many threads may share a context.
 *
 *     limber_problem p = LIMBER_PROBLEM_INIT;
 *     limber_contract correct = LIMBER_CONTRACT_INIT;
 *     correct.promise = LIMBER_CONTRACT_CORRECT;
 *     p.contract = &correct;
 *     p.m = p.n = p.k = 1000;
 *     p.a = (limber_matrix){ a, LIMBER_F64, 1000, 1 };
 *     p.b = (limber_matrix){ b, LIMBER_F64, 1000, 1 };
 *     p.c = (limber_output){ c, LIMBER_F64, 1000, 1 };
 *     status = limber_run(context, &p, NULL);
 *
 * Structures grow: later versions append fields.  A structure whose first field is `size` must be
 * started from its initialiser (LIMBER_PROBLEM_INIT and so on), which stores the size that your
 * program was compiled with and clears the rest.  A program compiled with an older header runs with
 * a newer library.  With an older library, fields that it does not know must be zero, or the call
 * answers BAD_ARGUMENT.  Structures without `size` never change, but for two that grow as well:
 * limber_part, whose size the caller's structure states, and limber_cache_entry, which the library
 * owns. */
#ifndef LIMBER_H
#define LIMBER_H

#include "format.h"
#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMBER_VERSION "0.2.0"

/* LIMBER_VERSION of the library that the program runs with. */
LIMBER_API const char *limber_version(void);

typedef struct limber_context limber_context;

/* ---- errors ---------------------------------------------------------------------------- */

/* The text of the last failure in this thread, or "".  It is valid until the thread's next call. */
LIMBER_API const char *limber_error_text(void);

/* The name ("BAD_ARGUMENT") and the meaning of a status. */
LIMBER_API const char *limber_status_name(limber_status s);
LIMBER_API const char *limber_status_meaning(limber_status s);

/* ---- contexts -------------------------------------------------------------------------- */

/* Memory that grows with the operands: workspaces, limbs of prepared operands, copies that a call
 * needs.  Several threads may call both functions at once.  `alloc` answers NULL where there is no
 * memory; the call then fails with NO_MEMORY. */
typedef struct limber_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *memory);
    void *user;
} limber_allocator;

/* Whether a product may be computed as several parts, each by a plan of its own. */
typedef enum limber_partition {
    LIMBER_PARTITION_AUTO, /* where that is predicted to be faster, unless LIMBER_WAYS has -parts */
    LIMBER_PARTITION_OFF /* one plan serves the product, whatever its data */
} limber_partition;

/* Which code serves plans on CPUs.  The results have the same bits. */
typedef enum limber_kernels {
    LIMBER_KERNELS_AUTO, /* LIMBER_KERNELS of the environment, else both */
    LIMBER_KERNELS_BOTH, /* prebuilt kernels at once.  Where a plan is used so much that it pays, a
                            thread of the context's compiles a specialised kernel, which serves
                            later calls */
    /* prebuilt kernels alone, which are part of the library: nothing is compiled, libLLVM is not
     * needed.  The interpreter computes what they do not serve */
    LIMBER_KERNELS_PREBUILT,
    /* specialised kernels alone, each compiled for one plan: the first call compiles, or on_miss
     * says what it does */
    LIMBER_KERNELS_SPECIALISED
} limber_kernels;

typedef struct limber_config {
    size_t size;
    const char *backend; /* "auto" (also NULL), "interp", "llvm", "cuda" */
    int threads; /* 0: LIMBER_THREADS, OMP_NUM_THREADS, else the available cores */
    const char *cache_dir; /* an absolute path; NULL: LIMBER_CACHE_DIR, XDG_CACHE_HOME/limber,
                               ~/.cache/limber; "" keeps kernels in memory only */
    size_t cache_bytes; /* bound of the disk cache; 0: LIMBER_CACHE_MAXSIZE, else 256 MiB */
    const char *dump_dir; /* NULL: LIMBER_DUMP; "" dumps nothing */
    int verbose; /* lines to `log`; 0: LIMBER_VERBOSE */
    size_t workspace_bytes; /* limit of a launch's packed limbs and accumulators, of all threads.
                               C, and k of matrices, are cut into parts that fit.  If not even the
                               smallest part fits (limber_workspace: least), its size is used.
                               0: a quarter of the operands plus 56 MiB, 16 MiB per thread and 16
                               bytes per element of k.  Results of scans are not counted: half a
                               byte per element of an operand, twice that with NaN or infinities */
    void (*log)(void *user, const char *line); /* NULL: stderr, only when verbose */
    void *log_user;
    int device; /* backend "cuda": index of a GPU in the driver's list */
    limber_partition partition;
    limber_allocator allocator; /* zeros: the system's, and workspaces are kept between calls */
    limber_kernels kernels;
} limber_config;

/* Makes a context.  config may be NULL, which means LIMBER_CONFIG_INIT.  limber/environment.h lists
 * the environment variables that are read.  *ctx is NULL after a failure.
 * Errors   BAD_ARGUMENT (unknown backend, bad value in the environment), NO_MEMORY, DEVICE (the
 *          backend that config names does not run here). */
LIMBER_API limber_status limber_create(limber_context **ctx, const limber_config *config);

/* Why the interpreter computes instead of the backend that the context would have chosen, some
 * hundred times slower (libLLVM is not found, for example).  "" while that is not so, or where
 * config names the interpreter.  Valid until the context ends. */
LIMBER_API const char *limber_fallback_reason(limber_context *ctx);

/* Ends a context; NULL is fine.  No call on it may be running, and no function pointer that it has
 * handed out may be used afterwards. */
LIMBER_API void limber_destroy(limber_context *ctx);

/* Calls compute in the default floating-point modes, whatever the program has set, and leave its
 * modes and flags as they were.  Only functions of limber_bind_shape run in the program's modes. */

/* ---- contracts ------------------------------------------------------------------------- */

/* u is the unit round-off of the result's format, |A||B| the product of absolute values. */
typedef enum limber_promise {
    /* |error| <= (k+2) u |A||B|, and a posit's rounding.  Sums of integers wrap.  Sums of floats
     * in an integer result are as under LIMBER_CONTRACT_CORRECT */
    LIMBER_CONTRACT_NATIVE,
    LIMBER_CONTRACT_BITS, /* |error| <= 2^-bits |A||B|, plus one final rounding; no
                                   intermediate overflow or underflow spoils a result that the
                                   format holds.  With beta, a result in a format narrower than f64
                                   may be rounded to f64 before */
    LIMBER_CONTRACT_CORRECT, /* the exact value, rounded once to nearest-even */
    LIMBER_CONTRACT_EXACT, /* integer results: exact, or RANGE and C untouched */
    LIMBER_CONTRACT_FAST, /* the named scheme and its own published bound */
    LIMBER_CONTRACT_SIMULATE, /* bit for bit what the described unit computes */
    LIMBER_CONTRACT_REPRODUCIBLE /* native, by one stated order of fused multiply-adds */
} limber_promise;

/* LIMBER_CONTRACT_REPRODUCIBLE, order 1.  An element's bits follow from its row of A, its column of
 * B, alpha, beta, its c and the formats.  They are the same on every CPU and GPU and on every
 * backend, for any number of threads, in any batch, with any strides, for every way to compute.
 *
 * Chains      s = fma(a_p, b_p, s) from s = +0, for p = 0 to 255; the next chain takes the next 256
 *             products, the last what is left.  None is left out, not even products of zeros.
 * Sum         the first chain; then each next chain is added to it, in order.  k = 0: +0.
 * Format      chains and sum are of f32 where that holds every number of A's and B's formats and
 *             has C's significant bits, else of f64.
 * Scalars     then, in f64: t = alpha s, or s without alpha (NULL or 1); fma(beta, c, t), or t
 *             without beta (NULL or 0).  Where that sum is not finite, but all four numbers are,
 *             each is multiplied by 2^-512 before and the sum by 2^1024 behind.
 * Result      rounded to C's format.
 * Convolution k runs over channels, rows and columns of the window, columns fastest, whatever the
 *             layout, and with the zeros of the padding.  Backward data: over filters, rows and
 *             columns of the window, columns fastest, as the window lies; each of its elements
 *             times the pixel of dy that it meets, or zero beyond dy, but under a stride only
 *             those elements that the pixel of dx and a pixel of dy can share.
 * Complex     each part is such a product with 2k for k: terms 2p and 2p+1 of the real part are
 *             Re a Re b and -Im a Im b, of the imaginary part Re a Im b and Im a Re b (conjugates
 *             change signs).  With complex alpha or beta, t = A B is made so in C's format; then
 *             chains of [Re alpha, -Im alpha, Re beta, -Im beta] and [Im alpha, Re alpha, Im beta,
 *             Re beta] times [Re t, Im t, Re c, Im c], without beta of the first two.
 * Vectors     the BLAS routines of levels 1 and 2 that Limber intercepts (docs/blas.md) have the
 *             bits of the product of matrices that they stand for: dot and gemv of a column of
 *             gemm, symv of symm, trmv of trmm, ger and axpy of gemm with k = 1, asum of |x| times
 *             ones.  Bands count as full matrices, triangles as trmm's, but for signs of zero.
 *             trmm begins a row's sum where its block of 128 rows begins (upper) or at 0 (lower).
 *             nrm2 is the square root of the sum of squares.  If that sum is below 2^-800 or above
 *             2^800 (f32: 2^-100, 2^100), x is first scaled by the power of two that brings its
 *             largest element into [1, 2). rot rounds each product and each sum.
 * Substitution  trsm and trsv solve blocks of 256 rows, and in these blocks of 32, counted from row
 *             0.  One product, alpha B - A X, subtracts from a block the rows X that were solved
 *             before.  In a block of 32 each operation is rounded: x_r = (x_r - a_rq x_q - ...) /
 *             a_rr, q in the order in which rows are solved.  Complex numbers are divided by
 *             Smith's method.
 * NaN         all NaN are alike: sign and payload are not promised.
 * Error       as native.
 * Refused     BAD_ARGUMENT: operands or results that are integers, binary128 or double-doubles, or
 *             a scheme other than "native".
 *
 * limber_report.order tells the order.  Another order would have another number. */

/* Where FP32 operands of fp32-* schemes become limbs on a GPU; the bits are the same. */
typedef enum limber_split {
    LIMBER_SPLIT_ANY, /* whichever is predicted to be faster */
    LIMBER_SPLIT_AHEAD, /* by kernels of their own, once, into the workspace */
    LIMBER_SPLIT_INSIDE /* in the multiply kernel, tile by tile; other plans are refused */
} limber_split;

/* What a call does when its kernel is neither in memory, nor on disk, nor part of the library.  A
 * product in parts never waits for the kernels of its parts.  Until all of them are there, one plan
 * serves the whole product. */
typedef enum limber_on_miss {
    LIMBER_ON_MISS_WAIT, /* it makes the kernel; other calls that need the same one wait */
    LIMBER_ON_MISS_GENERIC, /* a thread of the context's makes it; until it is there the interpreter
                               computes rows of C.  GEMMs on CPUs to float results, under native,
                               bits and correct; other calls wait */
    LIMBER_ON_MISS_REFUSE, /* a thread of the context's makes it, and the call answers NOT_READY:
                               for callers that have another way.  Complex products wait */
    LIMBER_ON_MISS_COMPILE /* WAIT for callers that have another way: without a compiler the call
                               answers DEVICE, where WAIT would use the interpreter.  So does
                               REFUSE */
} limber_on_miss;

typedef struct limber_contract {
    size_t size;
    limber_promise promise;
    int bits; /* LIMBER_CONTRACT_BITS: 1..160 */
    const char *scheme; /* NULL: the library chooses; else a name that limber_scheme_at() tells.
                           LIMBER_CONTRACT_FAST needs one.  Two names, "NARROW+WIDE": the first
                           multiplies tiles of A and B that both suit it, the second the others.
                           The second serves all where a product is not cut into tiles */
    /* ozaki1-*: number of slices of each operand; ozaki2*: number of moduli; 1 to 64, 0: the
     * library counts.  LIMBER_CONTRACT_FAST keeps the operands' bits that this many hold, and
     * report.bound covers the loss.  With 0, ozaki1-* estimates a count, and errors are two to six
     * decimal orders above native's, more where exponents lie apart: docs/accuracy.md.  Other
     * contracts refuse a count that is too small, and take more moduli, but no more slices, than
     * they need.  Other schemes refuse a count */
    int slices;
    limber_split split;
    const limber_unit *unit; /* LIMBER_CONTRACT_SIMULATE: the unit; read during the call */
    limber_statistics *statistics; /* LIMBER_CONTRACT_SIMULATE: NULL, or filled on success.  The
                                       counters slow the kernel down; host memory only */
    limber_on_miss on_miss;
} limber_contract;

/* A scheme: its name, and one line about it. */
typedef struct limber_scheme {
    const char *name, *about;
} limber_scheme;
/* The i-th scheme; NULL past the end. */
LIMBER_API const limber_scheme *limber_scheme_at(int i);

/* ---- reports --------------------------------------------------------------------------- */

/* One of the parts of a product that several plans compute. */
typedef struct limber_part {
    char scheme[32];
    char kernel[33]; /* the kernel's key, as in limber_report */
    int rows; /* limb products kept */
    double bound; /* error bound of this part, as in limber_report */
    int64_t m, n; /* rows of A and columns of B that it reads, whole or in tiles */
    double share; /* share of the product's multiply-adds */
    double cost, seconds; /* predicted and measured seconds; a plan measures nothing: 0 */
    int group[2]; /* index of A's group of rows and of B's group of columns: limber_cut */
    unsigned kinds[2]; /* bit c: tiles of kind c (limber_tile_kind) of A, of B; 0: whole lines */
} limber_part;
enum { LIMBER_PARTS = 27 }; /* no product has more parts */

/* Where a kernel came from. */
typedef enum limber_origin {
    LIMBER_FROM_COMPILER, /* this call made it */
    LIMBER_FROM_DISK,
    LIMBER_FROM_MEMORY,
    LIMBER_FROM_INTERPRETER, /* the interpreter computed rows while it was made */
    LIMBER_FROM_LIBRARY /* prebuilt: a kernel, which this call was the first to use; or code for
                           small products of any shape */
} limber_origin;

/* What a call did.  Texts are truncated to fit. */
typedef struct limber_report {
    size_t size;
    char scheme[32];
    char backend[16];
    char kernel[33]; /* the kernel's key in hexadecimal, first 128 bits */
    int rows; /* limb products kept */
    int pruned; /* limb products that the contract or the data made needless */
    double bound; /* proven |error| / |A||B|, before the final rounding; 0 is exact, and
                               infinity says that nothing is proven */
    double cost; /* predicted seconds */
    double seconds_scan, seconds_compile, seconds_run;
    limber_origin from;
    size_t workspace; /* bytes of packed limbs and accumulators at the peak */
    int64_t recomputed; /* elements that a first pass with fewer bits left uncertain, and that
                               the call summed again, exactly */
    int parts; /* 0: one plan served the whole product.  Else the scheme is "mixed",
                               rows and bound are the largest of the parts', the kernel is the
                               last part's */
    int part_room; /* in: elements of `part` */
    size_t part_size; /* in: sizeof(limber_part), from the initialiser */
    limber_part *part; /* in: NULL, or an array of the caller's for the first parts */
    int order; /* LIMBER_CONTRACT_REPRODUCIBLE: the version of the order of sums; else 0 */
    double recomputed_share; /* share of the threads' time in seconds_run that `recomputed` took,
                                0 to 1; 0 also for products so small that they have no plan, and
                                on devices, where it is not measured */
    char way[24]; /* what computed it: a word that LIMBER_WAYS takes, or "packed", "inside" or
                     "interpreter" (docs/design.md, "Ways") */
} limber_report;

/* The parts of a report as a table, a line each: groups ("a", "a:nW" for its narrow and wide
 * tiles), size, share, scheme, seconds and bound.  *text is the caller's, to be released with
 * limber_free. */
LIMBER_API limber_status limber_report_parts(const limber_report *report, char **text);
LIMBER_API void limber_free(void *text);

/* ---- problems -------------------------------------------------------------------------- */

/* A matrix that is read.  Element (i,j) is at data + (i*row_stride + j*col_stride) elements.
 * Strides are >= 0.  Row-major with leading dimension ld: row_stride = ld, col_stride = 1.
 * Column-major: row_stride = 1, col_stride = ld.  Exchanging the strides transposes. */
typedef struct limber_matrix {
    const void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_matrix;

/* A matrix that is written, and read where beta is not 0.  Its elements lie apart. */
typedef struct limber_output {
    void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_output;

typedef enum limber_operation {
    LIMBER_OPERATION_GEMM, /* C = alpha op(A) op(B) + beta C */
    LIMBER_OPERATION_CONV_FORWARD, /* C = alpha conv(A, B) + beta C: image A, filters B */
    LIMBER_OPERATION_CONV_BACKWARD_DATA, /* C is the gradient of the image, from that of the result
                                            (A) and the filters (B) */
    LIMBER_OPERATION_CONV_BACKWARD_FILTER /* C is the gradient of the filters, from the image (A)
                                             and the gradient of the result (B) */
} limber_operation;

typedef enum limber_layout { LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC } limber_layout;

/* The geometry of a convolution (cross-correlation, as in neural networks), in every direction.
 *   image    n x c x h x w                     (NHWC: n x h x w x c)
 *   filters  o x (c/groups) x r x s            (NHWC: o x r x s x (c/groups))
 *   result   n x o x oh x ow                   (NHWC: n x oh x ow x o)
 *   oh = (h + pad[0] + pad[1] - dilate[0]*(r-1) - 1) / stride[0] + 1; ow alike with w, s,
 *   pad[2], pad[3].  All tensors are dense.
 * One dimension: h = r = 1.  Three, where t is not 0:
 *   image    n x c x d x h x w                 (NHWC: n x d x h x w x c)
 *   filters  o x (c/groups) x t x r x s        (NHWC: o x t x r x s x (c/groups))
 *   result   n x o x od x oh x ow              (NHWC: n x od x oh x ow x o)
 *   od as oh, with d, t, depth_pad, depth_stride, depth_dilate.
 * Forward computes the result.  Backward data computes the gradient of the image from that of the
 * result, dx = conv^T(dy, w), which is also called transposed convolution: h and w say how large
 * dx is (and so what "output padding" says).  Backward filter computes the gradient of the filters
 * from the image and the gradient of the result.  Gradients have the shapes of what they are of. */
typedef struct limber_conv {
    size_t size;
    int64_t n, c, h, w, o, r, s;
    int64_t stride[2], dilate[2]; /* >= 1 */
    int64_t pad[4]; /* top, bottom, left, right; >= 0 */
    int64_t groups; /* >= 1, divides c and o */
    limber_layout layout;
    int64_t d, t; /* the depth of the image and of the filters; t = 0: two dimensions */
    int64_t depth_stride, depth_dilate; /* 0: 1 */
    int64_t depth_pad[2]; /* front, back; >= 0 */
} limber_conv;

/* The height and width of the result.  BAD_ARGUMENT for an impossible geometry. */
LIMBER_API limber_status limber_conv_output(const limber_conv *conv, int64_t *oh, int64_t *ow);
/* The depth of the result; 1 for two dimensions. */
LIMBER_API limber_status limber_conv_output_depth(const limber_conv *conv, int64_t *od);

/* What the elements of the matrices are. */
typedef enum limber_domain {
    LIMBER_DOMAIN_REAL,
    LIMBER_DOMAIN_COMPLEX /* pairs (re, im) of numbers of the matrix' format; strides count pairs */
} limber_domain;

/* op: which complex operands are conjugated. */
typedef enum limber_conjugate {
    LIMBER_CONJUGATE_NONE,
    LIMBER_CONJUGATE_A,
    LIMBER_CONJUGATE_B,
    LIMBER_CONJUGATE_BOTH
} limber_conjugate;

/* How many real products of m x n x k a complex one takes. */
typedef enum limber_complex_method {
    LIMBER_COMPLEX_AUTO, /* the library's choice: four */
    LIMBER_COMPLEX_THREE_PRODUCTS, /* fewer multiplications.  Integers, native or exact: the same
                                       results, and NO_SCHEME where |A||B| might exceed 63 bits.
                                       A, B, C all f32 or all f64, `fast` with a scheme: each part's
                                       error is at most report.bound (|Re A| + |Im A|) (|Re B| +
                                       |Im B|), so a part much smaller than the other may lose all
                                       its digits (docs/accuracy.md, "Complex matrices") */
    LIMBER_COMPLEX_FOUR_PRODUCTS
} limber_complex_method;

/* Matrix g of an operand, 0 <= g < count, lies g*a elements (g*b, g*c) behind the first one, or at
 * address_a[g].  A step of 0: all products read one matrix.  No two matrices of C overlap. */
typedef struct limber_batch {
    size_t size;
    int64_t count; /* >= 0 */
    int64_t a, b, c; /* >= 0; c > 0 unless count < 2 */
    /* NULL, or arrays of `count` addresses in host memory, which replace data and step */
    const void *const *address_a;
    const void *const *address_b;
    void *const *address_c;
} limber_batch;

/* Whether a call that a CUDA graph will capture is being made ready. */
typedef enum limber_capture {
    LIMBER_CAPTURE_NONE,
    LIMBER_CAPTURE_READY /* also make what the same call needs while the stream is captured */
} limber_capture;

/* Where a call runs on a GPU (backend "cuda"), and its workspace there.  The call reads and writes
 * operands in device memory in the stream's order and returns without waiting for them.  With an
 * operand in host memory it returns when C is there.  A call without a queue comes after what the
 * legacy default stream was given before, and returns when C is there.  On CPUs only the workspace
 * counts: host memory, of this call alone while it runs.
 * A kernel of your own that follows on the stream with programmatic stream serialization may begin
 * while the call's last kernel runs: it waits (griddepcontrol.wait) before it writes what the call
 * reads or writes, the workspace included. */
typedef struct limber_queue {
    size_t size;
    void *stream; /* CUstream or cudaStream_t of the context's device; NULL: its legacy default
                           stream */
    void *workspace; /* memory that the call may use, the device's in the stream's order, aligned
                           to 256 bytes; NULL: the library's own */
    /* size of the workspace in bytes; with less than `best` of limber_workspace the call works in
     * smaller parts */
    size_t bytes;
    limber_capture capture;
} limber_queue;

/* CUDA graphs can capture products and convolutions.  They need operands in device memory, a
 * workspace of the caller's, and the same call (formats, contract, class of sizes, a convolution's
 * window) made once before with LIMBER_CAPTURE_READY.  Nothing is then allocated, copied or waited
 * for, the report tells no times, and scalars are those of the capture.  When the graph is played,
 * the device scans the operands.  Where they are not of the class that the plan was made for, a
 * slower plan that suits any data computes the result, to the same contract; its kernels may need a
 * larger workspace than the least, and the refusal tells how large.  Exact integer results are
 * refused, since nobody could learn of RANGE.  A graph must not outlive its context. */

/* What happens to the result after alpha and beta: limber/ops.h. */
typedef struct limber_epilogue limber_epilogue;

typedef struct limber_prepared limber_prepared; /* limber_prepare */

/* What is computed.
 *
 * GEMM         A is m x k, B is k x n, C is m x n.  m, n, k >= 0; k = 0 is an empty
 *              sum, +0, which alpha multiplies (by a negative one -0, by an infinite one NaN).
 * Convolution  a is the image, b the filters, c the result: data and format; strides stay 0.
 *              `conv` has the sizes; m, n, k stay 0.  Bounds hold with k = (c/groups) r s.
 *              Backward data: a is dy, b the filters, c is dx; k = (o/groups) r s.  Products with
 *              zeros that a stride would put between the pixels of dy are not formed; dy is seen
 *              with zeros around it, as an image with its padding, so that an infinite element of
 *              a filter gives NaN at edges.  A pixel that no element of the window reaches is an
 *              empty sum, as k = 0.
 *              Backward filter: a is the image, b is dy, c is dw; k = n oh ow.
 * Scalars      alpha and beta point to one value in C's format (integers: in i64); NULL means 1 and
 *              0.  beta = 0 does not read C.
 * Error        as the contract promises, per element; docs/accuracy.md.  NaN, infinities and signed
 *              zeros as the conventional algorithm gives them.
 * Memory       A and B are read, C is written.  C overlaps neither.  Each may lie in host memory or
 *              in the device's.
 * Complex      GEMM only.  Scalars are pairs.  Each part of C is an element of one real product,
 *                  Re C = [Re A, Im A] [Re B; -Im B],   Im C = [Re A, Im A] [Im B; Re B],
 *              and the contract holds for it with inner dimension 2k: `correct` gives the exact
 *              part, rounded once.  Where an imaginary part of alpha or beta is not 0 this holds
 *              for T = A B in C's format (integers: i64), and then for [T, C] times the pairs of
 *              alpha and beta, again a real product of each part, of inner dimension 4, or 2
 *              without beta (`fast`: native).  NaN and infinities as these formulas give them: Inf
 *              times a part that is 0 is NaN.  The call keeps a real form of one operand in memory,
 *              four times its parts, unless it lies in the device's; a complex alpha or beta takes
 *              memory for A B and C, three products for sums and products.  RANGE also where an i64
 *              operand of `exact` holds a part of -2^63, or A B before a complex alpha does not fit
 *              i64. `simulate` needs real scalars.
 * Prepared     GEMM, and filters of convolutions forward and backward data
 *              (limber_prepare_filters).  The results are those of the plain call, bit for bit.
 *              The operand is not scanned again, and limbs that are kept are not made again.  The
 *              LLVM backend keeps them, but not of parts of a mixed product, of simulated units, of
 *              the long accumulator, nor where long chains of bytes are summed in parts; there, and
 *              on other backends, only the scan is spared.  a or b holds the matrix that was
 *              prepared.  Many threads may use one operand at once: while one makes limbs that are
 *              to be kept, others make their own.
 * Batch        GEMM only.  Real matrices: one scan, one kernel.  A prepared operand serves a batch
 *              whose products all read it (step 0).  Complex matrices: all in host memory, or all
 *              in a device's.
 * Together     Features combine as said here.  Others are refused by name (BAD_ARGUMENT): prepared
 *              complex operands, complex convolutions, conj of real matrices, batches of
 *              convolutions. */
typedef struct limber_problem {
    size_t size;
    limber_operation operation;
    limber_domain domain;
    int64_t m, n, k;
    const limber_conv *conv;
    limber_matrix a, b;
    limber_output c;
    const void *alpha, *beta;
    limber_conjugate conjugate;
    limber_complex_method complex_method;
    const limber_contract *contract; /* NULL: native */
    const limber_epilogue *epilogue; /* NULL */
    limber_prepared *prepared_a, *prepared_b; /* NULL, or what limber_prepare made of a, of b */
    const limber_batch *batch; /* NULL: one product */
    const limber_queue *queue; /* NULL: a stream of the library's own; the call
                                                   returns when C is there */
} limber_problem;

/* ---- verbs ----------------------------------------------------------------------------- */

/* Computes the problem.
 * report   NULL, or filled on success.  Of a batch or a complex product: of all real products.
 * Returns  LIMBER_STATUS_OK.  On any other status C is untouched and limber_error_text() says which
 *          argument (BAD_ARGUMENT), which need of the contract (NO_SCHEME), or which element did
 *          not fit (RANGE).
 * Source   slices: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3;
 *          residues: Ozaki, Uchino, Imamura, arXiv 2504.08009; Hi/Lo: Ma et al., ICS 2022. */
LIMBER_API limber_status limber_run(limber_context *ctx, const limber_problem *problem,
                                    limber_report *report);

/* What limber_run would do, as text: the IR as stated and after every pass that changed it, the
 * product table, why each other scheme was refused, the bound and the predicted cost; of a mixed
 * product first its parts, then this for each.  Reads A and B, computes nothing; c.data may be
 * NULL.  Backward data with strides is computed in phases: the one with the longest sums is
 * shown.  Real problems without a batch.  *text is the caller's, to be released with
 * limber_free. */
LIMBER_API limber_status limber_plan(limber_context *ctx, const limber_problem *problem,
                                     char **text, limber_report *report);

/* The workspace that limber_run needs, in bytes: the least, and that which holds all limbs at once.
 * Reads A and B, computes nothing; 0 of backend "interp".  Real problems; of a batch on CPUs, what
 * its first product needs, on GPUs all of them.  Errors: as limber_run. */
LIMBER_API limber_status limber_workspace(limber_context *ctx, const limber_problem *problem,
                                          size_t *least, size_t *best);

/* Kinds of tiles of an operand. */
typedef enum limber_tile_kind {
    LIMBER_TILE_ZERO,
    LIMBER_TILE_NARROW, /* a few binades or bits are enough */
    LIMBER_TILE_WIDE
} limber_tile_kind;

/* How a product is cut into parts.  Blocks of 64 rows of A and of 64 columns of B form groups.
 * Where parts are sums over different tiles of the same elements, tiles of 64 lines by `tile`
 * elements along k have kinds.  Index 0 is A, index 1 is B. */
typedef struct limber_cut {
    size_t size;
    size_t part_size; /* in: sizeof(limber_part), from the initialiser */
    int parts; /* 0: one plan serves the whole product, and all else is 0 */
    limber_part *part; /* [parts] */
    double one_plan; /* predicted seconds of one plan for all data; INFINITY: none holds */
    int64_t blocks[2];
    unsigned char *group[2]; /* [block] */
    int64_t tiles, tile; /* along k, and elements of one; 0: no part leaves out tiles */
    unsigned char *kind[2]; /* [block][tile]: limber_tile_kind */
} limber_cut;

/* The cut that limber_run would make; limber_plan tells it as text.  Real GEMMs without a batch.
 * The arrays of *cut are the caller's, to be released with limber_cut_free; after a failure there
 * are none.  Errors: as limber_plan. */
LIMBER_API limber_status limber_explain(limber_context *ctx, const limber_problem *problem,
                                        limber_cut *cut, limber_report *report);
LIMBER_API void limber_cut_free(limber_cut *cut);

/* limber_run of a real GEMM with nothing but these: the usual case in one line.  contract may be
 * NULL: native. */
LIMBER_API limber_status limber_gemm(limber_context *ctx, const limber_contract *contract,
                                     int64_t m, int64_t n, int64_t k, const void *alpha,
                                     limber_matrix a, limber_matrix b, const void *beta,
                                     limber_output c, limber_report *report);

/* limber_run of a convolution backward: dx = alpha conv^T(dy, w) + beta dx, and
 * dw = alpha (the sum over images and pixels of x times dy) + beta dw.  conv is the geometry of the
 * forward convolution.  contract may be NULL. */
LIMBER_API limber_status limber_conv2d_backward_data(
    limber_context *ctx, const limber_contract *contract, const limber_conv *conv,
    const void *alpha, const void *dy, limber_format dyf, const void *w, limber_format wf,
    const void *beta, void *dx, limber_format dxf, limber_report *report);
LIMBER_API limber_status limber_conv2d_backward_filter(
    limber_context *ctx, const limber_contract *contract, const limber_conv *conv,
    const void *alpha, const void *x, limber_format xf, const void *dy, limber_format dyf,
    const void *beta, void *dw, limber_format dwf, limber_report *report);

/* limber_run of a forward convolution, y = alpha conv(x, w) + beta y.  contract may be NULL. */
LIMBER_API limber_status limber_conv2d(limber_context *ctx, const limber_contract *contract,
                                       const limber_conv *conv, const void *alpha, const void *x,
                                       limber_format xf, const void *w, limber_format wf,
                                       const void *beta, void *y, limber_format yf,
                                       limber_report *report);

/* ---- operands -------------------------------------------------------------------------- */

/* The side of a product on which a matrix stands. */
typedef enum limber_side {
    LIMBER_SIDE_A, /* its lines are rows */
    LIMBER_SIDE_B /* its lines are columns */
} limber_side;

/* Whether calls look for changes of a prepared operand's elements. */
typedef enum limber_change_check {
    LIMBER_CHANGES_TRUSTED, /* the caller changes nothing */
    LIMBER_CHANGES_CHECKED /* every call compares a hash: BAD_ARGUMENT where it differs */
} limber_change_check;

typedef struct limber_prepare_config {
    size_t size;
    size_t bytes; /* limit of the limbs kept; 0: the context's workspace_bytes, or, if that
                               is 0, four times the elements' bytes plus 64 MiB */
    limber_change_check changes;
    int64_t operation; /* limber_operation, of limber_prepare_filters: 0 or CONV_FORWARD, or
                               CONV_BACKWARD_DATA.  Else 0.  (Eight bytes: a field of four would lie
                               where older programs have padding.) */
} limber_prepare_config;

/* Scans x, rows x cols, the operand on this side of products to come, so that they need not.
 * config may be NULL.
 *
 * Memory   x.data stays the caller's and is not copied: the elements stay where and as they are
 *          until limber_prepared_free.  Limbs are kept in memory of the operand's own, at first use
 *          by each kernel; beyond the bound the least recently used ones are dropped.  Where it
 *          holds not even those of one kernel, every call makes them.
 * Changes  Without LIMBER_CHANGES_CHECKED, a product after the elements have changed holds no
 *          contract: its scales and plan are those of the data when it was prepared; limbs that are
 *          kept are those of the data when they were made, others of the current data, and lines
 *          with NaN or infinities are those of the preparation.  Nothing outside C is written.
 * Errors   BAD_ARGUMENT (the argument is named; LIMBER_CHANGES_CHECKED of elements in a device's
 *          memory), NO_MEMORY; *prepared is NULL then. */
LIMBER_API limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side,
                                        const limber_prepare_config *config,
                                        limber_prepared **prepared);

/* Prepares a convolution's filters w, dense in conv's layout, as problem.prepared_b of a forward
 * convolution, or, where config->operation says so, of backward data (transposed convolution).
 * conv says o, c, r, s (t), groups and layout, and for backward data strides, dilations and the
 * pads before an image: pixels with different remainders modulo the strides read different parts
 * of the window, each of which is scanned and kept.  Calls may have other sizes of images; here
 * they may be 0. */
LIMBER_API limber_status limber_prepare_filters(limber_context *ctx, const limber_conv *conv,
                                                const void *w, limber_format wf,
                                                const limber_prepare_config *config,
                                                limber_prepared **prepared);

/* Ends a prepared operand; NULL is fine.  No call on it may be running, and its context still
 * exists. */
LIMBER_API void limber_prepared_free(limber_prepared *prepared);

/* Whether the elements are what they were: OK, or BAD_ARGUMENT "operand has changed since it was
 * prepared", also without LIMBER_CHANGES_CHECKED.  Compares hashes of 128 bits, not elements. */
LIMBER_API limber_status limber_prepared_check(limber_prepared *prepared);

/* What one scan finds of an operand.  Exponents are those of finite nonzero values, e of
 * 2^e <= |x| < 2^(e+1), and 0 where there is none. */
enum { LIMBER_INSPECT_TILE = 64 };
typedef enum limber_tile_flags {
    LIMBER_TILE_FLAG_ZERO = 1, /* nothing but zeros */
    LIMBER_TILE_FLAG_SPECIAL = 2, /* NaN or infinities */
    LIMBER_TILE_FLAG_NEGATIVE = 4
} limber_tile_flags;
typedef struct limber_tile {
    int16_t emin, emax; /* smallest and largest exponent */
    int16_t low; /* the exponent of the lowest bit that is 1 */
    uint8_t bits; /* significant bits of the element that has most of them; at most 255 */
    uint8_t flags; /* limber_tile_flags */
} limber_tile;
typedef struct limber_inspection {
    size_t size;
    int64_t lines, length; /* rows of A or columns of B; k */
    int zero, special, negative; /* flags: no finite nonzero; NaN or infinities; negatives */
    int emin, emax;
    int spread; /* emax - emin of the line where that is largest */
    int width; /* bits of integers that hold any line exactly under one scale */
    int bits; /* significant bits of the element that has most of them */
    int64_t tile_rows, tile_cols; /* tiles of 64 lines by 64 elements along k */
    limber_tile *tile; /* [tile_rows][tile_cols]; NULL: not known */
} limber_inspection;

/* Scans x, rows x cols elements in host memory or, backend "cuda", in the device's, whose tiles
 * stay unknown.  Reads x once, on the context's threads; keeps nothing of it.
 * *out     its tiles are the caller's, to be released with limber_inspection_free; none after a
 *          failure.
 * Errors   BAD_ARGUMENT (the argument is named), NO_MEMORY; of device memory DEVICE. */
LIMBER_API limber_status limber_inspect(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side, limber_inspection *out);
LIMBER_API void limber_inspection_free(limber_inspection *inspection);

/* ---- plans and kernels as text --------------------------------------------------------- */

/* Runs passes over a plan given in the text form of docs/ir.md.  passes: comma-separated names,
 * or NULL for all; target: text of a target, or NULL for this machine. */
LIMBER_API limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *passes,
                                          const char *target, char **text);

/* Kernels made ahead.  limber_kernel_plan gives the stated plan of a kernel that is in memory,
 * found by the key in a report: the data, contract and class of sizes that it is for, nothing of
 * this machine.  limber_kernel_make makes the kernel of such a text, here or on another machine,
 * and keeps it on disk, unless it is there already (report->from); report may be NULL.
 * *plan    the caller's, to be released with limber_free.
 * Errors   BAD_ARGUMENT (no such kernel, a text that is no stated plan), else as limber_run. */
LIMBER_API limber_status limber_kernel_plan(limber_context *ctx, const char *kernel, char **plan);
LIMBER_API limber_status limber_kernel_make(limber_context *ctx, const char *plan,
                                            limber_report *report);

/* ---- kernels as functions -------------------------------------------------------------- */

/* A plain C function pointer bound to one contract and one set of formats.  A call goes through a
 * libffi closure, the checks and the look-up of limber_gemm; small products of one shape are
 * better served by limber_bind_shape below.
 *
 * signature  the arguments in order, each "name:type" and separated by spaces, of
 *              m n k lda ldb ldc : i32 i64 *i32 *i64      (sizes; * passes by reference)
 *              alpha beta        : f32 f64 *f32 *f64      (in C's format; * any format)
 *              a b c             : ptr
 *              transa transb     : *char char i32         ('N' 'T' 'C', or CBLAS 111 112 113)
 *              order             : i32                    (CBLAS 101 row-major, 102 column-major)
 *              _                 : any of these           (accepted and ignored)
 *            Column-major when no order is given.  Missing alpha is 1, beta is 0.
 *            "dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm" name the usual ones.
 * *function  returns an int status for "int(...)" , nothing otherwise; a failed call leaves C
 *            untouched and limber_error_text() holds the reason.
 * The pointer lives as long as the context.  Thread-safe.
 * Errors     BAD_ARGUMENT (the word of the signature is named), NO_MEMORY (the system refused
 *            executable memory to libffi). */
LIMBER_API limber_status limber_bind(limber_context *ctx, const limber_contract *contract,
                                     limber_format a, limber_format b, limber_format c,
                                     const char *signature, void (**function)(void));

/* A product of one shape as machine code. */
typedef void (*limber_kernel)(const void *a, const void *b, void *c);

typedef enum limber_accumulate {
    LIMBER_ACCUMULATE_NONE, /* C = A B; C is not read */
    LIMBER_ACCUMULATE_ADD /* C += A B */
} limber_accumulate;

/* Compiles the product of one shape; *function is the code itself, with nothing around it: no
 * check, no look-up, one thread.  This is the way to call small products in a loop.
 *
 * Shape     A is m x k, B is k x n, C is m x n; 1 <= m, n, k <= 256, in elements.  Formats and
 *           strides of a, b, c hold for every call; their data is ignored.  All three are in f64,
 *           or all in f32.  A and B have any strides, C has row_stride = 1 or col_stride = 1.
 * Contract  NULL or native; its scheme is NULL or "native".
 * Error     as native promises.  The bits are those of limber_gemm with this scheme, alpha = 1 and
 *           beta = 0 or 1, wherever the operands hold no NaN and no infinities.
 * A call    takes the addresses of the first elements, aligned to their format; C overlaps neither
 *           A nor B.  Nothing is checked.  Its work space is at most 128 KiB of stack.
 * The pointer lives as long as the context.  Thread-safe, the function too.  The code is kept like
 * other kernels, and equal requests get one pointer.
 * Errors    BAD_ARGUMENT and NO_SCHEME (the argument is named; limber_gemm and limber_bind serve
 *           what is not served here), DEVICE (the backend makes no such functions), NO_MEMORY;
 *           *function is NULL then.
 * Source    Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III. */
LIMBER_API limber_status limber_bind_shape(limber_context *ctx, const limber_contract *contract,
                                           int64_t m, int64_t n, int64_t k, limber_matrix a,
                                           limber_matrix b, limber_output c,
                                           limber_accumulate accumulate, limber_kernel *function);

/* ---- tuning ---------------------------------------------------------------------------- */

typedef struct limber_tuning {
    size_t size;
    double seconds; /* at most, about; 0: 10 */
    const char *units; /* the units to measure, from "f64,f32,i8"; NULL: all */
    void (*line)(void *user, const char *line); /* one line a measurement; NULL: quiet */
    void *user;
} limber_tuning;

/* Measures shapes of register tiles and cache blocks for FP64, FP32 and INT8 on this machine and
 * keeps the best as one entry of the disk cache, with the rates of the units once all three are
 * known.  Contexts that are created afterwards read it: their plans follow it.  No tile changes the
 * bits of a scheme; the rates may make another scheme the cheapest that holds a contract.  What an
 * earlier search has measured is not measured again.  Runs on the caller's thread.
 * line() gets "tried UNIT MR,MB,NB RATE": rows of the register tile, rows and columns of the block,
 *           multiply-adds per second.
 * Errors    BAD_ARGUMENT, IO when the cache on disk cannot be used, DEVICE where the backend is
 *           not tuned or must not compile, NO_MEMORY. */
LIMBER_API limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning);

/* ---- cache ----------------------------------------------------------------------------- */

/* An entry on disk.  The library owns it during the callback; later versions append fields. */
typedef struct limber_cache_entry {
    char key[65]; /* hexadecimal */
    char plan[128]; /* one line: problem and scheme */
    size_t bytes;
    int64_t used; /* seconds since the epoch */
    int good; /* flag; 0: damaged or foreign, will be recompiled.  A list checks only the head */
    int foreign; /* flag: intact, but sealed by another key than this user's; only verified */
} limber_cache_entry;

typedef struct limber_cache_info {
    size_t size;
    char directory[4096]; /* "" when there is none */
    char why_not[256]; /* why the directory is not used, "" when it is */
    int writable; /* flag */
    size_t entries, bytes, limit;
    int tuned; /* flag: this context's plans follow a record of limber_tune */
} limber_cache_info;

typedef enum limber_cache_depth {
    LIMBER_CACHE_LIST, /* read the heads of entries */
    LIMBER_CACHE_VERIFY /* also check each entry's bytes and seal */
} limber_cache_depth;
typedef enum limber_cache_choice {
    LIMBER_CACHE_CLEAR_ALL,
    LIMBER_CACHE_CLEAR_DAMAGED
} limber_cache_choice;

/* Where the cache is, whether it is used, and how much it holds. */
LIMBER_API limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info);
/* Calls `visit` for every entry on disk; a nonzero answer stops. */
LIMBER_API limber_status limber_cache_each(limber_context *ctx, limber_cache_depth depth,
                                           int (*visit)(void *user, const limber_cache_entry *),
                                           void *user);
/* Removes entries; *removed counts them. */
LIMBER_API limber_status limber_cache_clear(limber_context *ctx, limber_cache_choice choice,
                                            size_t *removed);

#ifdef __cplusplus
}
#endif

/* ---- initialisers ---------------------------------------------------------------------- */

#define LIMBER_CONFIG_INIT LIMBER_SIZED(limber_config)
#define LIMBER_CONTRACT_INIT LIMBER_SIZED(limber_contract)
#define LIMBER_PROBLEM_INIT LIMBER_SIZED(limber_problem)
/* One group, strides and dilations of 1, no padding: the sizes are missing. */
#ifdef __cplusplus
extern "C++" {
inline limber_conv limber_conv_init()
{
    limber_conv conv = limber_sized<limber_conv>();
    conv.stride[0] = conv.stride[1] = conv.dilate[0] = conv.dilate[1] = conv.groups = 1;
    return conv;
}
}
#define LIMBER_CONV_INIT (limber_conv_init())
#else
#define LIMBER_CONV_INIT \
    { .size = sizeof(limber_conv), .stride = { 1, 1 }, .dilate = { 1, 1 }, .groups = 1 }
#endif
#define LIMBER_BATCH_INIT LIMBER_SIZED(limber_batch)
#define LIMBER_QUEUE_INIT LIMBER_SIZED(limber_queue)
#define LIMBER_PREPARE_CONFIG_INIT LIMBER_SIZED(limber_prepare_config)
#define LIMBER_INSPECTION_INIT LIMBER_SIZED(limber_inspection)
#define LIMBER_TUNING_INIT LIMBER_SIZED(limber_tuning)
#define LIMBER_CACHE_INFO_INIT LIMBER_SIZED(limber_cache_info)
#ifdef __cplusplus
extern "C++" {
template <class T> inline T limber_sized_parts()
{
    T x = limber_sized<T>();
    x.part_size = sizeof(limber_part);
    return x;
}
}
#define LIMBER_REPORT_INIT (limber_sized_parts<limber_report>())
#define LIMBER_CUT_INIT (limber_sized_parts<limber_cut>())
#else
#define LIMBER_REPORT_INIT { .size = sizeof(limber_report), .part_size = sizeof(limber_part) }
#define LIMBER_CUT_INIT { .size = sizeof(limber_cut), .part_size = sizeof(limber_part) }
#endif

#endif
