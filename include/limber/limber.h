/* SPDX-License-Identifier: BSD-3-Clause
 * Limber: GEMM and convolution in the format and at the accuracy that you ask for.
 *
 * You state a problem: formats, shapes and a contract.  Limber scans the data, splits the operands
 * into limbs that the machine's units can multiply, and runs a prebuilt kernel.  For a problem that
 * comes often it compiles a specialised kernel in the background, and keeps that kernel in memory
 * and on disk.  Nothing here prints, exits, or changes the floating-point environment.  Every
 * function may be called from any thread.  Many threads may share a context.
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
 * initialised by its macro (LIMBER_PROBLEM_INIT and so on), which stores the size that your program
 * was compiled with and clears the other fields.  A program that was compiled with an older header
 * runs with a newer library.  With an older library, fields that it does not know must be zero;
 * else the call returns BAD_ARGUMENT.  Structures without `size` never change, with two exceptions
 * that grow as well: limber_part, whose size is in the structure that has the array, and
 * limber_cache_entry, which the library owns. */
#ifndef LIMBER_H
#define LIMBER_H

#include "format.h"
#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMBER_VERSION "0.2.0"

/* Returns LIMBER_VERSION of the library that the program runs with. */
LIMBER_API const char *limber_version(void);

typedef struct limber_context limber_context;

/* ---- errors ---------------------------------------------------------------------------- */

/* Returns the error text of the last failed call in this thread, or "" if none has failed.  The
 * text is valid until the thread's next call. */
LIMBER_API const char *limber_error_text(void);

/* Return the name of a status, such as "BAD_ARGUMENT", and its meaning. */
LIMBER_API const char *limber_status_name(limber_status s);
LIMBER_API const char *limber_status_meaning(limber_status s);

/* ---- contexts -------------------------------------------------------------------------- */

/* Functions that allocate and free memory that grows with the operands: workspaces, limbs of
 * prepared operands, and copies that a call needs.  Several threads may call both functions at the
 * same time.  `alloc` returns NULL if there is no memory; the call then fails with NO_MEMORY. */
typedef struct limber_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *memory);
    void *user;
} limber_allocator;

/* Whether a product may be divided into several parts, each computed by a plan of its own. */
typedef enum limber_partition {
    /* divided if that is predicted to be faster, unless LIMBER_WAYS contains -parts */
    LIMBER_PARTITION_AUTO,
    LIMBER_PARTITION_OFF /* one plan computes the product, whatever its data */
} limber_partition;

/* Which machine code may compute plans on CPUs.  All choices give the same bits. */
typedef enum limber_kernels {
    LIMBER_KERNELS_AUTO, /* as the environment variable LIMBER_KERNELS says, else BOTH */
    /* Calls use prebuilt kernels.  If a plan is used so often that compiling pays, a thread of the
     * context compiles a specialised kernel, which later calls use. */
    LIMBER_KERNELS_BOTH,
    /* Only prebuilt kernels, which are part of the library.  Nothing is compiled, and libLLVM is
     * not needed.  If no prebuilt kernel can compute a plan, the interpreter does. */
    LIMBER_KERNELS_PREBUILT,
    /* Only specialised kernels, each compiled for one plan.  The first call compiles the kernel, or
     * does what contract.on_miss says. */
    LIMBER_KERNELS_SPECIALISED
} limber_kernels;

/* The options of a context. */
typedef struct limber_config {
    size_t size;
    const char *backend; /* "auto" (also NULL), "interp", "llvm", "cuda" */
    int threads; /* 0: LIMBER_THREADS, else OMP_NUM_THREADS, else the available cores */
    /* Absolute path of the cache on disk.  NULL stands for LIMBER_CACHE_DIR or, if that is not set,
     * XDG_CACHE_HOME/limber, else ~/.cache/limber.  "" keeps kernels in memory only. */
    const char *cache_dir;
    /* largest size of the cache on disk, in bytes; 0: LIMBER_CACHE_MAXSIZE, else 256 MiB */
    size_t cache_bytes;
    const char *dump_dir; /* NULL stands for LIMBER_DUMP; with "" nothing is dumped */
    int verbose; /* above 0: log lines are written; 0: as LIMBER_VERBOSE says */
    /* Limit in bytes for a launch's packed limbs and accumulators, of all threads together.  C, and
     * k of matrix products, are divided into pieces that fit.  If not even the smallest piece fits
     * (`least` of limber_workspace), that piece's size is used. 0: a quarter of the operands plus
     * 56 MiB, 16 MiB per thread and 16 bytes per element of k.  Results of scans are not counted:
     * half a byte per element of an operand, one byte if the operand has NaN or infinities. */
    size_t workspace_bytes;
    /* gets each log line; NULL: lines are written to stderr if verbose */
    void (*log)(void *user, const char *line);
    void *log_user;
    int device; /* backend "cuda": index of a GPU in the driver's list */
    limber_partition partition;
    /* NULL functions: the system's allocator, and workspaces are kept between calls */
    limber_allocator allocator;
    limber_kernels kernels;
} limber_config;

/* Makes a context.  config may be NULL, which means LIMBER_CONFIG_INIT.  limber/environment.h lists
 * the environment variables that are read.  *ctx is NULL after a failure.
 * Errors   BAD_ARGUMENT (unknown backend, bad value in the environment), NO_MEMORY, DEVICE (the
 *          backend that config names does not run here). */
LIMBER_API limber_status limber_create(limber_context **ctx, const limber_config *config);

/* Returns why the interpreter, which is some hundred times slower, computes instead of the backend
 * that the context would have chosen: for example, libLLVM is not found.  Returns "" if the chosen
 * backend computes, or if config names the interpreter.  The text is valid until the context
 * ends. */
LIMBER_API const char *limber_fallback_reason(limber_context *ctx);

/* Frees a context; ctx may be NULL.  No call on it may be running, and function pointers that the
 * context returned must not be used afterwards. */
LIMBER_API void limber_destroy(limber_context *ctx);

/* Calls compute in the default floating-point modes, whatever modes the program has set, and leave
 * the program's modes and flags as they were.  Only functions of limber_bind_shape run in the
 * program's modes. */

/* ---- contracts ------------------------------------------------------------------------- */

/* The promise of a contract.  u is the unit round-off of the result's format; |A||B| is the product
 * of the matrices of absolute values. */
typedef enum limber_promise {
    /* |error| <= (k+2) u |A||B|, unless products or sums underflow, plus the final rounding for
     * posits.  Sums of integers wrap.  Sums of floats with an integer result are computed as under
     * LIMBER_CONTRACT_CORRECT. */
    LIMBER_CONTRACT_NATIVE,
    /* |error| <= 2^-bits |A||B|, plus the final rounding.  No intermediate overflow or underflow
     * affects a result that the format holds.  With beta, a result in a format of less precision
     * than f64 may first be rounded to f64. */
    LIMBER_CONTRACT_BITS,
    LIMBER_CONTRACT_CORRECT, /* the exact value, rounded once to nearest-even */
    /* integer results: exact; if one does not fit, the call fails with RANGE and C is unchanged */
    LIMBER_CONTRACT_EXACT,
    /* the named scheme, with its own published error bound, which holds unless products or sums
     * underflow */
    LIMBER_CONTRACT_FAST,
    LIMBER_CONTRACT_SIMULATE, /* bit for bit what the simulated unit computes */
    LIMBER_CONTRACT_REPRODUCIBLE /* native, by a documented order of fused multiply-adds */
} limber_promise;

/* LIMBER_CONTRACT_REPRODUCIBLE, order 1.  An element's bits follow from its row of A, its column of
 * B, alpha, beta, its c and the formats.  They are the same on every CPU and GPU and on every
 * backend, for any number of threads, in any batch, with any strides, for every way to compute.
 *
 * Chains      s = fma(a_p, b_p, s) from s = +0, for p = 0 to 255; the next chain takes the next 256
 *             products, the last chain the remaining ones.  No product is left out, not even of
 *             zeros.
 * Sum         the first chain; then each next chain is added to the sum, in order.  k = 0: +0.
 * Format      chains and sum are computed in f32 if f32 holds every value of A's and B's formats
 *             and has at least the significant bits of C's format, else in f64.
 * Scalars     then, in f64: t = alpha s, or s without alpha (NULL or 1); fma(beta, c, t), or t
 *             without beta (NULL or 0).  If that sum is not finite, but all four numbers are, each
 *             number is first multiplied by 2^-512, and the sum is then multiplied by 2^1024.
 * Result      rounded to C's format.
 * Convolution k runs over channels, rows and columns of the window, columns fastest, whatever the
 *             layout, and includes the zeros of the padding.  Backward data: k runs over filters,
 *             rows and columns of the window, columns fastest, in the order of the window.  An
 *             element of the window is multiplied by the pixel of dy to which it leads from the
 *             pixel of dx, or by zero if that pixel is outside dy.  Elements that lead between
 *             two pixels of dy, because of a stride, are left out.
 * Complex     each part is such a product with inner dimension 2k.  Terms 2p and 2p+1 of the real
 *             part are Re a Re b and -Im a Im b, of the imaginary part Re a Im b and Im a Re b
 *             (conjugates change signs).  With complex alpha or beta, t = A B is first computed
 *             like this and rounded to C's format; then chains of
 *             [Re alpha, -Im alpha, Re beta, -Im beta] and
 *             [Im alpha, Re alpha, Im beta, Re beta] times [Re t, Im t, Re c, Im c].  Without beta
 *             they have only the first two terms.
 * Vectors     the BLAS routines of levels 1 and 2 that Limber intercepts (docs/blas.md) have the
 *             bits of the product of matrices that they are equivalent to: dot and gemv of a
 *             column of gemm, symv of symm, trmv of trmm, ger and axpy of gemm with k = 1, asum of
 *             |x| times ones.  A band matrix is computed as a full matrix with zeros, a triangular
 *             one as in trmm, except for signs of zero.  trmm begins a row's sum at the beginning
 *             of its block of 128 rows (upper) or at 0 (lower).  nrm2 is the square root of the
 *             sum of squares, which for f32 is one of f64, as is dsdot.  If that sum is below
 *             2^-800 or above 2^800, x is first scaled by the power of two that brings its largest
 *             element into [1, 2).  rot rounds each product and each sum.
 * Substitution  trsm and trsv solve blocks of 256 rows, each divided into blocks of 32 rows, which
 *             are counted from row 0.  A block first becomes alpha B - A X, as one product, where
 *             X are the rows that were solved before it.  In a block of 32 rows each operation is
 *             rounded: x_r = (x_r - a_rq x_q - ...) / a_rr, with q in the order in which rows are
 *             solved.  Complex numbers are divided by Smith's method.
 * LAPACK      Limber's LAPACK (docs/blas.md) is the reference LAPACK 3.11.0 on these routines.
 * NaN         all NaN are alike: sign and payload are not promised.
 * Error       |error| <= (k+2) u |A||B|, the bound of LIMBER_CONTRACT_NATIVE.
 * Refused     BAD_ARGUMENT: operands or results that are integers, binary128 or double-doubles, or
 *             a scheme other than "native".
 *
 * limber_report.order has the number of the order.  Another order would have another number. */

/* Where a GPU makes limbs of FP32 operands for the fp32-* schemes.  The bits are the same. */
typedef enum limber_split {
    LIMBER_SPLIT_ANY, /* the one that is predicted to be faster */
    LIMBER_SPLIT_AHEAD, /* by kernels of their own, once, into the workspace */
    LIMBER_SPLIT_INSIDE /* in the multiply kernel, tile by tile; other plans are refused */
} limber_split;

/* What a call does if its kernel is neither in memory, nor on disk, nor part of the library.  A
 * product that is divided into parts never waits for the kernels of its parts: until all of them
 * are ready, one plan computes the whole product. */
typedef enum limber_on_miss {
    LIMBER_ON_MISS_WAIT, /* the call makes the kernel; other calls that need the same kernel wait */
    /* A thread of the context makes the kernel; until it is ready, the interpreter computes rows of
     * C. Only for GEMMs on CPUs with float results, under native, bits and correct; other calls
     * wait. */
    LIMBER_ON_MISS_GENERIC,
    /* A thread of the context makes the kernel, and the call returns NOT_READY.  For callers that
     * have another way to compute.  Complex products wait. */
    LIMBER_ON_MISS_REFUSE,
    /* Like WAIT, for callers that have another way to compute: without a compiler the call returns
     * DEVICE, where WAIT would use the interpreter.  REFUSE also returns DEVICE then. */
    LIMBER_ON_MISS_COMPILE
} limber_on_miss;

/* Which residues modulo m a result consists of. */
typedef enum limber_residues {
    LIMBER_RESIDUES_LEAST, /* from 0 to m - 1 */
    LIMBER_RESIDUES_SYMMETRIC /* above -m/2, at most m/2 */
} limber_residues;

/* A contract: the accuracy that the caller requires of the result. */
typedef struct limber_contract {
    size_t size;
    limber_promise promise;
    int bits; /* for LIMBER_CONTRACT_BITS: 1 to 160 */
    /* NULL if the library chooses, else a name that limber_scheme_at() returns.
     * LIMBER_CONTRACT_FAST needs a name. "A+B" or "A+B+C" names schemes by falling preference:
     * each multiplies the tiles whose elements it suits and the schemes before it do not suit.
     * "ape" stands for "fp32-f+fp32-b+native".  Tiles with NaN and infinities are multiplied by
     * the last scheme.  If a product is not divided into tiles, the first scheme that suits all
     * data computes it. */
    const char *scheme;
    /* ozaki1-*: number of slices of each operand.  ozaki2*: number of moduli.  1 to 64; 0: the
     * library chooses.  LIMBER_CONTRACT_FAST keeps as many bits of the operands as this number of
     * slices or moduli holds, and report.bound includes the loss.  With 0, ozaki1-* estimates the
     * number from the data: errors are then likely, though not proven, to be at most those of
     * conventional sums in the result's format (docs/accuracy.md).  Other contracts refuse a number
     * that is too small; they use more moduli than they need if asked to, but no more slices.
     * Other schemes refuse a number. */
    int slices;
    limber_split split;
    const limber_unit *unit; /* LIMBER_CONTRACT_SIMULATE: the unit; read during the call */
    /* LIMBER_CONTRACT_SIMULATE: statistics to fill on success; or NULL. Counting slows the kernel
     * down, and is possible in host memory only. */
    limber_statistics *statistics;
    limber_on_miss on_miss;
    /* LIMBER_CONTRACT_EXACT: if `modulus` is not 0, results are alpha A B + beta C modulo this
     * number, from 2 to 2^63 - 1, for any sizes.  Elements and scalars are integers in an integer,
     * float or posit format that i64 or f64 holds; else the call fails with RANGE.  C is read only
     * if beta is not 0 modulo this number, and its format, a signed integer or a float, holds all
     * residues.  Only for products of real matrices in host memory,
     * batches included, without an epilogue or prepared operands.  Memory: 8 bytes for each
     * element of all C, beside 64 MiB or workspace_bytes. */
    limber_residues residues;
    uint64_t modulus;
    /* LIMBER_CONTRACT_CORRECT: how each element is rounded, once, from its exact value: to nearest
     * (0), UP, DOWN, ZERO, or AWAY, which rounds ties away from zero.  Overflow, subnormals and NaN
     * are as IEEE 754 says.  An exact zero is -0 under DOWN, unless the sum is empty (k = 0 and
     * beta = 0).  Other modes than to nearest are for products whose C has a float format and is in
     * host memory, without an epilogue or a queue; f128 on CPUs only; if C is complex, alpha and
     * beta are real.  Memory: 16 bytes (f128: 32) for each element of all C. */
    limber_rounding rounding;
} limber_contract;

/* A scheme: its name, and one line about it. */
typedef struct limber_scheme {
    const char *name, *about;
} limber_scheme;
/* Returns the i-th scheme, from 0; NULL past the end. */
LIMBER_API const limber_scheme *limber_scheme_at(int i);

/* ---- reports --------------------------------------------------------------------------- */

/* One part of a product that several plans compute. */
typedef struct limber_part {
    char scheme[32];
    char kernel[33]; /* key of the kernel, as in limber_report */
    int rows; /* number of limb products kept */
    double bound; /* error bound of this part, as in limber_report */
    /* number of rows of A and of columns of B of which the part reads all or some tiles */
    int64_t m, n;
    double share; /* fraction of all multiply-adds of the product that this part computes */
    /* predicted and measured seconds; seconds is 0 if the product was only planned */
    double cost, seconds;
    int group[2]; /* index of A's group of rows and of B's group of columns (limber_cut) */
    /* [A, B]: bit c is set if tiles of kind c (limber_tile_kind) are read; 0: all tiles */
    unsigned kinds[2];
} limber_part;
enum { LIMBER_PARTS = 27 }; /* no product has more parts */

/* Where a kernel came from. */
typedef enum limber_origin {
    LIMBER_FROM_COMPILER, /* this call compiled it */
    LIMBER_FROM_DISK,
    LIMBER_FROM_MEMORY,
    LIMBER_FROM_INTERPRETER, /* the interpreter computed rows while the kernel was being made */
    /* The library's own code: a prebuilt kernel that this call was the first to use, or code for
     * products of any shape. */
    LIMBER_FROM_LIBRARY
} limber_origin;

/* Describes how a call was computed.  Texts are truncated to fit. */
typedef struct limber_report {
    size_t size;
    char scheme[32];
    char backend[16];
    char kernel[33]; /* the kernel's key: its first 128 bits in hexadecimal */
    int rows; /* number of limb products kept */
    int pruned; /* number of limb products that the contract or the data made unnecessary */
    /* Proven bound of |error| / |A||B|, before the final rounding.  0: the result is exact before
     * that rounding; infinity: nothing is proven. */
    double bound;
    double cost; /* predicted seconds */
    double seconds_scan, seconds_compile, seconds_run;
    limber_origin from;
    /* largest number of bytes of packed limbs and accumulators in use at any time */
    size_t workspace;
    /* Number of elements that a first pass with fewer bits could not round with certainty, and
     * which were then recomputed exactly. */
    int64_t recomputed;
    /* Number of parts; 0 if one plan computed the product.  With parts, the scheme is "mixed", rows
     * and bound are the largest values of all parts, and the kernel is that of the last part. */
    int parts;
    int part_room; /* in: number of elements of `part` */
    size_t part_size; /* in: sizeof(limber_part), from the initialiser */
    limber_part *part; /* in: an array of the caller's, which gets the first parts; or NULL */
    int order; /* LIMBER_CONTRACT_REPRODUCIBLE: the number of the order of additions; else 0 */
    /* Share of the threads' time in seconds_run that was spent on recomputing, 0 to 1. 0 also for
     * products that are so small that they have no plan, and on devices, where the time is not
     * measured. */
    double recomputed_share;
    /* Code path that computed the call: a word of the environment variable LIMBER_WAYS, or
     * "packed", "inside" or "interpreter" (docs/design.md, "Ways"). */
    char way[24];
} limber_report;

/* Writes the parts of a report as a table with one line for each part: its groups of A and B,
 * size, share, scheme, seconds and bound. "a" is all of group a; "a:nW" stands for its tiles of
 * kinds narrow and wide.  *text is the caller's, to be released with limber_free. */
LIMBER_API limber_status limber_report_parts(const limber_report *report, char **text);
LIMBER_API void limber_free(void *text);

/* ---- problems -------------------------------------------------------------------------- */

/* A matrix that is read.  Element (i,j) is at data + (i*row_stride + j*col_stride) elements.
 * Strides are >= 0.  Row-major with leading dimension ld: row_stride = ld, col_stride = 1.
 * Column-major: row_stride = 1, col_stride = ld.  Exchanging the strides transposes the matrix. */
typedef struct limber_matrix {
    const void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_matrix;

/* A matrix that is written, and read if beta is not 0.  No two of its elements overlap. */
typedef struct limber_output {
    void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_output;

/* What a problem computes. */
typedef enum limber_operation {
    LIMBER_OPERATION_GEMM, /* C = alpha op(A) op(B) + beta C */
    LIMBER_OPERATION_CONV_FORWARD, /* C = alpha conv(A, B) + beta C: image A, filters B */
    /* C is the gradient of the image, computed from the gradient of the result (A) and the filters
     * (B). */
    LIMBER_OPERATION_CONV_BACKWARD_DATA,
    /* C is the gradient of the filters, computed from the image (A) and the gradient of the result
     * (B). */
    LIMBER_OPERATION_CONV_BACKWARD_FILTER
} limber_operation;

typedef enum limber_layout { LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC } limber_layout;

/* The geometry of a convolution (cross-correlation, as in neural networks), for all directions.
 *   image    n x c x h x w                     (NHWC: n x h x w x c)
 *   filters  o x (c/groups) x r x s            (NHWC: o x r x s x (c/groups))
 *   result   n x o x oh x ow                   (NHWC: n x oh x ow x o)
 *   oh = (h + pad[0] + pad[1] - dilate[0]*(r-1) - 1) / stride[0] + 1; ow likewise from w, s,
 *   pad[2], pad[3].  All tensors are dense.
 * One dimension: h = r = 1.  Three dimensions, if t is not 0:
 *   image    n x c x d x h x w                 (NHWC: n x d x h x w x c)
 *   filters  o x (c/groups) x t x r x s        (NHWC: o x t x r x s x (c/groups))
 *   result   n x o x od x oh x ow              (NHWC: n x od x oh x ow x o)
 *   od is computed like oh, from d, t, depth_pad, depth_stride and depth_dilate.
 * Forward computes the result.  Backward data computes the gradient of the image from the gradient
 * of the result, dx = conv^T(dy, w), which is also called transposed convolution; h and w are the
 * size of dx, so they include what other libraries call output padding.  Backward filter computes
 * the gradient of the filters from the image and the gradient of the result.  A gradient has the
 * shape of the tensor that it belongs to. */
typedef struct limber_conv {
    size_t size;
    int64_t n, c, h, w, o, r, s;
    int64_t stride[2], dilate[2]; /* >= 1 */
    int64_t pad[4]; /* top, bottom, left, right; >= 0 */
    int64_t groups; /* >= 1, divides c and o */
    limber_layout layout;
    int64_t d, t; /* depth of the image and of the filters; t = 0: two dimensions */
    int64_t depth_stride, depth_dilate; /* 0 means 1 */
    int64_t depth_pad[2]; /* front, back; >= 0 */
} limber_conv;

/* Computes the height and width of the result.  BAD_ARGUMENT for an impossible geometry. */
LIMBER_API limber_status limber_conv_output(const limber_conv *conv, int64_t *oh, int64_t *ow);
/* Computes the depth of the result; 1 for two dimensions. */
LIMBER_API limber_status limber_conv_output_depth(const limber_conv *conv, int64_t *od);

/* What the elements of matrices are. */
typedef enum limber_domain {
    LIMBER_DOMAIN_REAL,
    /* pairs (re, im) of numbers of the matrix's format; strides count pairs */
    LIMBER_DOMAIN_COMPLEX
} limber_domain;

/* Which complex operands are conjugated. */
typedef enum limber_conjugate {
    LIMBER_CONJUGATE_NONE,
    LIMBER_CONJUGATE_A,
    LIMBER_CONJUGATE_B,
    LIMBER_CONJUGATE_BOTH
} limber_conjugate;

/* How many real products of m x n x k compute a complex one. */
typedef enum limber_complex_method {
    LIMBER_COMPLEX_AUTO, /* the library chooses: four products */
    /* Fewer multiplications.  For integers, under native or exact, results are those of four
     * products, or the call returns NO_SCHEME if |A||B| might exceed 63 bits.  If A, B and C are
     * all f32 or all f64, under `fast` with a scheme, each part's error is at most report.bound
     * (|Re A| + |Im A|) (|Re B| + |Im B|), so a part that is much smaller than the other may lose
     * all its digits (docs/accuracy.md, "Complex matrices"). */
    LIMBER_COMPLEX_THREE_PRODUCTS,
    LIMBER_COMPLEX_FOUR_PRODUCTS
} limber_complex_method;

/* Several products of one size.  Matrix g of an operand, 0 <= g < count, begins g*a elements (for B
 * g*b, for C g*c) after the first one, or at address_a[g].  If a step is 0, all products read one
 * matrix.  No two matrices of C overlap. */
typedef struct limber_batch {
    size_t size;
    int64_t count; /* >= 0 */
    int64_t a, b, c; /* elements from one matrix to the next; >= 0; c > 0 unless count < 2 */
    /* arrays of `count` addresses in host memory, which replace data and step; or NULL */
    const void *const *address_a;
    const void *const *address_b;
    void *const *address_c;
} limber_batch;

/* Whether the call prepares for a CUDA graph that will capture it. */
typedef enum limber_capture {
    LIMBER_CAPTURE_NONE,
    LIMBER_CAPTURE_READY /* also makes what the same call needs while the stream is captured */
} limber_capture;

/* Where a call runs on a GPU (backend "cuda"), and its workspace there.  The call reads and writes
 * operands in device memory in the order of the stream, and returns without waiting for them.  With
 * an operand in host memory it returns when C is complete.  A call without a queue runs after the
 * earlier work of the legacy default stream, and returns when C is complete.  On CPUs only the
 * workspace is used: host memory, for this call alone while it runs.
 * A kernel of your own that follows on the stream with programmatic stream serialization may begin
 * while the call's last kernel runs.  It must wait (griddepcontrol.wait) before it writes what the
 * call reads or writes, the workspace included. */
typedef struct limber_queue {
    size_t size;
    /* CUstream or cudaStream_t of the context's device; NULL is the device's legacy default
     * stream */
    void *stream;
    /* Memory that the call may use, on the device in the stream's order, aligned to 256 bytes.
     * If it is NULL, the library uses its own. */
    void *workspace;
    /* Size of the workspace in bytes.  With less than `best` of limber_workspace, the call computes
     * in smaller parts. */
    size_t bytes;
    limber_capture capture;
} limber_queue;

/* CUDA graphs can capture products and convolutions.  The call needs operands in device memory, a
 * workspace of the caller's, and the same call (formats, contract, class of sizes, window of a
 * convolution) made once before with LIMBER_CAPTURE_READY.  While it is captured, nothing is
 * allocated, copied or waited for; the report has no times, and scalars are those of the capture.
 * When the graph is launched, the device scans the operands.  If they are not of the class that the
 * plan was made for, a slower plan that suits any data computes the result, to the same contract.
 * Its kernels may need a larger workspace than the least; the error text then says how large.
 * Exact integer results are refused, since a graph could not report RANGE.  A graph must not
 * outlive its context. */

/* What happens to the result after alpha and beta: limber/ops.h. */
typedef struct limber_epilogue limber_epilogue;

typedef struct limber_prepared limber_prepared; /* made by limber_prepare */

/* What is computed.
 *
 * GEMM         A is m x k, B is k x n, C is m x n.  m, n, k >= 0.  k = 0 is an empty sum, +0, which
 *              alpha multiplies (a negative alpha gives -0, an infinite one NaN).
 * Convolution  a is the image, b the filters, c the result: data and format; strides stay 0.
 *              `conv` has the sizes; m, n, k stay 0.  Error bounds hold with k = (c/groups) r s.
 *              Backward data: a is dy, b the filters, c is dx; k = (o/groups) r s.  The zeros that
 *              a stride would put between the pixels of dy are not multiplied.  dy is surrounded by
 *              zeros, like an image with padding, so an infinite element of a filter gives NaN at
 *              edges.  A pixel that no element of the window reaches is an empty sum, like k = 0.
 *              Backward filter: a is the image, b is dy, c is dw; k = n oh ow.
 * Scalars      alpha and beta point to one value each, in C's format (for integers in i64).  NULL
 *              means alpha = 1 and beta = 0.  With beta = 0, C is not read.
 * Error        as the contract promises, for each element; docs/accuracy.md.  NaN, infinities and
 *              signed zeros are those of the conventional algorithm.
 * Memory       A and B are read, C is written.  C must not overlap A or B.  Each may be in host
 *              memory or in the device's.
 * Complex      GEMM only.  Scalars are pairs.  Each part of C is an element of one real product,
 *                  Re C = [Re A, Im A] [Re B; -Im B],   Im C = [Re A, Im A] [Im B; Re B],
 *              and the contract holds for it with inner dimension 2k: `correct` gives the exact
 *              part, rounded once.  If an imaginary part of alpha or beta is not 0, the contract
 *              holds for T = A B in C's format (for integers in i64), and then for [T, C] times the
 *              pairs of alpha and beta: each part is again a real product, of inner dimension 4, or
 *              2 without beta (under `fast`: native).  NaN and infinities follow from these
 *              formulas: Inf times a part that is 0 is NaN.  The call keeps a real form of one
 *              operand in memory, four times the size of its parts, unless it is in the device's
 *              memory.  Complex alpha or beta need memory for A B and C, three products need memory
 *              for sums and products.  RANGE also if an i64 operand of `exact` holds a part of
 *              -2^63, or A B before a complex alpha does not fit i64.  `simulate` needs real
 *              scalars.
 * Prepared     GEMM, and filters of convolutions forward and backward data
 *              (limber_prepare_filters).  The results are those of the plain call, bit for bit.
 *              The operand is not scanned again, and limbs that are kept are not made again.  The
 *              LLVM backend keeps limbs, with these exceptions: parts of a partitioned product,
 *              simulated units, the scheme accumulator, and long chains of bytes that are summed in
 *              parts.  For these, and on other backends, only the scan is saved.  a or b must be
 *              the matrix that was prepared.  Many threads may use one operand at the same time:
 *              while one thread makes limbs that will be kept, others make their own.
 * Batch        GEMM only.  Real matrices: one scan, one kernel.  A prepared operand serves a batch
 *              whose products all read it (step 0).  Complex matrices: all in host memory, or all
 *              in a device's.
 * Together     Features combine as said here.  Other combinations are refused by name
 *              (BAD_ARGUMENT): prepared complex operands, complex convolutions, conjugates of real
 *              matrices, batches of convolutions. */
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
    const limber_contract *contract; /* NULL stands for native */
    const limber_epilogue *epilogue; /* or NULL */
    limber_prepared *prepared_a, *prepared_b; /* what limber_prepare made of a, of b; or NULL */
    const limber_batch *batch; /* NULL if there is one product */
    /* If NULL, the library uses a stream of its own, and the call returns when C is complete. */
    const limber_queue *queue;
} limber_problem;

/* ---- verbs ----------------------------------------------------------------------------- */

/* Computes the problem.
 * report   NULL, or filled on success.  For a batch or a complex product it covers all real
 *          products.
 * Returns  LIMBER_STATUS_OK.  On any other status C is unchanged, and limber_error_text() says
 *          which argument is wrong (BAD_ARGUMENT), which need of the contract is not met
 *          (NO_SCHEME), or which element did not fit (RANGE).
 * Source   slices: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3;
 *          residues: Ozaki, Uchino, Imamura, arXiv 2504.08009; Hi/Lo: Ma et al., ICS 2022. */
LIMBER_API limber_status limber_run(limber_context *ctx, const limber_problem *problem,
                                    limber_report *report);

/* Writes as text what limber_run would do: the plan before the passes and after every pass that
 * changed it, the product table, why each other scheme was refused, the error bound and the
 * predicted cost.  For a product in parts it first lists the parts, then writes this for each part.
 * Reads A and B, computes nothing; c.data may be NULL.  Backward data with strides is computed in
 * phases; the plan is that of the phase with the longest sums.  For real problems without a batch.
 * *text is the caller's, to be released with limber_free. */
LIMBER_API limber_status limber_plan(limber_context *ctx, const limber_problem *problem,
                                     char **text, limber_report *report);

/* Computes the workspace that limber_run needs, in bytes: the least, and the one that holds all
 * limbs at once.  Reads A and B, computes nothing; 0 for backend "interp".  For real problems.  For
 * a batch on CPUs it is what the first product needs, on GPUs what all products need.  Errors:
 * those of limber_run. */
LIMBER_API limber_status limber_workspace(limber_context *ctx, const limber_problem *problem,
                                          size_t *least, size_t *best);

/* Kinds of tiles of an operand, by the range of their elements. */
typedef enum limber_tile_kind {
    LIMBER_TILE_ZERO,
    LIMBER_TILE_NARROW, /* a small range of exponents, or few bits, is enough for all elements */
    LIMBER_TILE_WIDE,
    LIMBER_TILE_BEYOND /* only where the caller names three schemes: for the third one */
} limber_tile_kind;

/* How a product is divided into parts.  Blocks of 64 rows of A and of 64 columns of B form groups.
 * If several parts add to the same elements of C, each reads only tiles of some kinds; a tile has
 * 64 rows or columns and `tile` elements along k.  In arrays of two, index 0 is A, index 1 is B. */
typedef struct limber_cut {
    size_t size;
    size_t part_size; /* in: sizeof(limber_part), from the initialiser */
    int parts; /* 0: one plan computes the product, and the fields below are 0 */
    limber_part *part; /* [parts] */
    double one_plan; /* predicted seconds of one plan for all data; INFINITY if there is none */
    /* number of blocks of 64 lines (rows of A, columns of B) */
    int64_t blocks[2];
    unsigned char *group[2]; /* [block]: index of its group */
    /* number of tiles along k, and elements of a tile along k; 0: all parts read all tiles */
    int64_t tiles, tile;
    unsigned char *kind[2]; /* [block][tile]: limber_tile_kind */
} limber_cut;

/* Finds how limber_run would divide the product into parts; limber_plan describes the same as text.
 * For real GEMMs without a batch.  The arrays of *cut are the caller's, to be released with
 * limber_cut_free; after a failure there are none.  Errors: those of limber_plan. */
LIMBER_API limber_status limber_explain(limber_context *ctx, const limber_problem *problem,
                                        limber_cut *cut, limber_report *report);
LIMBER_API void limber_cut_free(limber_cut *cut);

/* Does limber_run for a real GEMM that has only these arguments: the usual case in one line.  A
 * NULL contract is native. */
LIMBER_API limber_status limber_gemm(limber_context *ctx, const limber_contract *contract,
                                     int64_t m, int64_t n, int64_t k, const void *alpha,
                                     limber_matrix a, limber_matrix b, const void *beta,
                                     limber_output c, limber_report *report);

/* Do limber_run for a backward convolution: dx = alpha conv^T(dy, w) + beta dx, and dw = alpha (the
 * sum over images and pixels of x times dy) + beta dw.  conv is the geometry of the forward
 * convolution.  A NULL contract is native. */
LIMBER_API limber_status limber_conv2d_backward_data(
    limber_context *ctx, const limber_contract *contract, const limber_conv *conv,
    const void *alpha, const void *dy, limber_format dyf, const void *w, limber_format wf,
    const void *beta, void *dx, limber_format dxf, limber_report *report);
LIMBER_API limber_status limber_conv2d_backward_filter(
    limber_context *ctx, const limber_contract *contract, const limber_conv *conv,
    const void *alpha, const void *x, limber_format xf, const void *dy, limber_format dyf,
    const void *beta, void *dw, limber_format dwf, limber_report *report);

/* Does limber_run for a forward convolution, y = alpha conv(x, w) + beta y.  A NULL contract is
 * native. */
LIMBER_API limber_status limber_conv2d(limber_context *ctx, const limber_contract *contract,
                                       const limber_conv *conv, const void *alpha, const void *x,
                                       limber_format xf, const void *w, limber_format wf,
                                       const void *beta, void *y, limber_format yf,
                                       limber_report *report);

/* ---- operands -------------------------------------------------------------------------- */

/* Which operand of a product a matrix is. */
typedef enum limber_side {
    LIMBER_SIDE_A, /* its lines are rows */
    LIMBER_SIDE_B /* its lines are columns */
} limber_side;

/* Whether calls check that the elements of a prepared operand have not changed. */
typedef enum limber_change_check {
    LIMBER_CHANGES_TRUSTED, /* the caller changes nothing */
    LIMBER_CHANGES_CHECKED /* every call compares a hash; BAD_ARGUMENT if it differs */
} limber_change_check;

typedef struct limber_prepare_config {
    size_t size;
    /* Largest number of bytes of kept limbs. 0: the context's workspace_bytes, or if that is 0,
     * four times the elements' bytes plus 64 MiB. */
    size_t bytes;
    limber_change_check changes;
    /* limber_operation.  For limber_prepare_filters: 0 or CONV_FORWARD, or CONV_BACKWARD_DATA.
     * Else 0.  Eight bytes, since older programs have padding in place of a field of four. */
    int64_t operation;
} limber_prepare_config;

/* Scans x, rows x cols, so that later products with x as this operand need not scan it.  config may
 * be NULL.
 *
 * Memory   x.data stays the caller's and is not copied: the elements must stay in place, unchanged,
 *          until limber_prepared_free.  Limbs are kept in memory of the prepared operand; each
 *          kernel makes them at its first use.  Beyond the limit the least recently used limbs are
 *          freed.  If the limit is too small for the limbs of one kernel, every call makes them.
 * Changes  Without LIMBER_CHANGES_CHECKED, a product keeps no contract after the elements have
 *          changed: scales and plan are those of the data when it was prepared; kept limbs are
 *          those of the data when they were made, other limbs those of the current data; rows or
 *          columns with NaN or infinities are those of the preparation.  Nothing outside C is
 *          written.
 * Errors   BAD_ARGUMENT (the text names the argument; LIMBER_CHANGES_CHECKED for elements in a
 *          device's memory), NO_MEMORY; *prepared is NULL then. */
LIMBER_API limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side,
                                        const limber_prepare_config *config,
                                        limber_prepared **prepared);

/* Prepares a convolution's filters w, dense in conv's layout, as problem.prepared_b of a forward
 * convolution or, if config->operation says so, of backward data (transposed convolution).  conv
 * has o, c, r, s (and t), groups and layout, and for backward data strides, dilations and the pads
 * before an image: pixels with different remainders modulo the strides read different parts of the
 * window, and each part is scanned and kept.  Calls may have other sizes of images; here these
 * sizes may be 0. */
LIMBER_API limber_status limber_prepare_filters(limber_context *ctx, const limber_conv *conv,
                                                const void *w, limber_format wf,
                                                const limber_prepare_config *config,
                                                limber_prepared **prepared);

/* Frees a prepared operand; NULL is allowed.  No call that uses it may be running, and its context
 * must still exist. */
LIMBER_API void limber_prepared_free(limber_prepared *prepared);

/* Checks whether the elements are unchanged: OK, or BAD_ARGUMENT "operand has changed since it was
 * prepared".  Works also without LIMBER_CHANGES_CHECKED.  Compares hashes of 128 bits, not
 * elements. */
LIMBER_API limber_status limber_prepared_check(limber_prepared *prepared);

/* Flags of what a scan finds in a tile.  Exponents in the structures below are those of finite
 * nonzero values, e with 2^e <= |x| < 2^(e+1); they are 0 if there is no such value. */
enum { LIMBER_INSPECT_TILE = 64 };
typedef enum limber_tile_flags {
    LIMBER_TILE_FLAG_ZERO = 1, /* only zeros */
    LIMBER_TILE_FLAG_SPECIAL = 2, /* NaN or infinities */
    /* negative numbers */
    LIMBER_TILE_FLAG_NEGATIVE = 4
} limber_tile_flags;
typedef struct limber_tile {
    int16_t emin, emax; /* smallest and largest exponent */
    int16_t low; /* exponent of the lowest set bit */
    uint8_t bits; /* significant bits of the element that needs most, at most 255 */
    uint8_t flags; /* limber_tile_flags */
} limber_tile;
/* What a scan finds in an operand.  Lines are rows of an operand A or columns of an operand B. */
typedef struct limber_inspection {
    size_t size;
    int64_t lines, length; /* number of lines; elements of each, k */
    /* flags: no finite nonzero value; NaN or infinities; negative numbers */
    int zero, special, negative;
    /* smallest and largest exponent */
    int emin, emax;
    int spread; /* the largest emax - emin within a line */
    int width; /* bits of integers that hold any line exactly, if each line has one scale */
    int bits; /* significant bits of the element that needs most */
    int64_t tile_rows, tile_cols; /* number of tiles: of 64 lines, by 64 elements along k */
    limber_tile *tile; /* [tile_rows][tile_cols]; NULL if they are unknown */
} limber_inspection;

/* Scans x, rows x cols elements in host memory or, with backend "cuda", in the device's memory,
 * whose tiles stay unknown.  Reads x once, on the context's threads, and keeps nothing of it.
 * *out     its tiles are the caller's, to be released with limber_inspection_free; there are none
 *          after a failure.
 * Errors   BAD_ARGUMENT (the text names the argument), NO_MEMORY; for device memory DEVICE. */
LIMBER_API limber_status limber_inspect(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side, limber_inspection *out);
LIMBER_API void limber_inspection_free(limber_inspection *inspection);

/* ---- plans and kernels as text --------------------------------------------------------- */

/* Runs passes over a plan given in the text form of docs/ir.md.  passes: comma-separated names, or
 * NULL for all; target: the text of a target, the name of an instruction set or architecture, such
 * as "avx512vnni" or "sm_90a", or NULL for this machine.  *text has the plan after each pass that
 * changed it, and is the caller's, to be released with limber_free. */
LIMBER_API limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *passes,
                                          const char *target, char **text);
/* Runs the passes on a plan for a target and prints the source of its kernel: C with the kernel's
 * constants, or CUDA C.  Needs no compiler, driver or device, and runs no kernel.  *source is the
 * caller's, to be released with limber_free. */
LIMBER_API limber_status limber_plan_source(limber_context *ctx, const char *plan,
                                            const char *target, char **source);

/* Runs a plan, given as text, on a problem's operands.  The plan is as it is before the passes, or
 * after them; then its limbs and rows need not be those that the library would choose, if the pass
 * `bound` accepts them.  A plan that the backend does not support is interpreted, unless the
 * context names the backend.
 * problem  as of limber_run, without prepared operands, and without a contract, which the plan
 *          states.  For complex matrices the plan is of the real product with inner dimension 2k,
 *          with an epilogue of the product before the steps.  report may be NULL.
 * Errors   BAD_ARGUMENT (the text names what of the call is not what the plan is for), NO_SCHEME
 *          (no bound, or the backend does not support the plan), else those of limber_run. */
LIMBER_API limber_status limber_run_plan(limber_context *ctx, const char *plan,
                                         const limber_problem *problem, limber_report *report);

/* Kernels made ahead of their use.  limber_kernel_plan returns the text of the plan of a kernel in
 * memory, found by the key in a report.  The text has the class of data, contract and sizes that
 * the kernel is for, and nothing of this machine.  limber_kernel_make makes the kernel of such a
 * text, here or on another machine, or of a plan after the passes.  It keeps the kernel on disk,
 * unless it is there already (report->from).  report may be NULL.
 * *plan    the caller's, to be released with limber_free.
 * Errors   BAD_ARGUMENT (no such kernel, or no plan), else those of limber_run. */
LIMBER_API limber_status limber_kernel_plan(limber_context *ctx, const char *kernel, char **plan);
LIMBER_API limber_status limber_kernel_make(limber_context *ctx, const char *plan,
                                            limber_report *report);

/* ---- kernels as functions -------------------------------------------------------------- */

/* Makes a plain C function pointer that is bound to one contract and one set of formats.  A call of
 * it goes through a libffi closure, and the checks and the kernel look-up of limber_gemm.  For
 * small products of one shape limber_bind_shape, below, is faster.
 *
 * signature  the arguments in order, each as "name:type", separated by spaces:
 *              m n k lda ldb ldc : i32 i64 *i32 *i64      (sizes; * means by reference)
 *              alpha beta        : f32 f64 *f32 *f64      (in C's format; * with any format)
 *              a b c             : ptr
 *              transa transb     : *char char i32         ('N' 'T' 'C', or CBLAS 111 112 113)
 *              order             : i32                    (CBLAS 101 row-major, 102 column-major)
 *              _                 : any of these           (accepted and ignored)
 *            Column-major if there is no order.  Without alpha it is 1, without beta it is 0.
 *            "dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm" stand for their usual signatures.
 * *function  returns an int status if the signature is "int(...)", else nothing.  A failed call
 *            leaves C unchanged, and limber_error_text() has the reason.
 * The pointer is valid as long as the context.  Thread-safe.
 * Errors     BAD_ARGUMENT (the text names the word of the signature), NO_MEMORY (the system refused
 *            executable memory to libffi). */
LIMBER_API limber_status limber_bind(limber_context *ctx, const limber_contract *contract,
                                     limber_format a, limber_format b, limber_format c,
                                     const char *signature, void (**function)(void));

/* A product of one shape, as machine code. */
typedef void (*limber_kernel)(const void *a, const void *b, void *c);

typedef enum limber_accumulate {
    LIMBER_ACCUMULATE_NONE, /* C = A B; C is not read */
    LIMBER_ACCUMULATE_ADD /* C += A B */
} limber_accumulate;

/* Compiles the product of one shape.  *function is that code itself: a call makes no checks and no
 * look-up, and uses one thread.  This is the way to call small products in a loop.
 *
 * Shape     A is m x k, B is k x n, C is m x n; 1 <= m, n, k <= 256.  Formats and strides of a, b,
 *           c hold for every call; their data is ignored.  All three are in f64, or all in f32.  A
 *           and B have any strides; C has row_stride = 1 or col_stride = 1.
 * Contract  NULL or native; its scheme is NULL or "native".
 * Error     as native promises.  The bits are those of limber_gemm with this scheme, alpha = 1 and
 *           beta = 0 or 1, if the operands have no NaN and no infinities.
 * A call    takes the addresses of the first elements, aligned to their format.  C must not overlap
 *           A or B.  Nothing is checked.  It needs at most 128 KiB of stack.
 * The pointer is valid as long as the context.  Thread-safe, the function too.  The code is cached
 * like other kernels, and equal requests get the same pointer.
 * Errors    BAD_ARGUMENT and NO_SCHEME (the text names the argument; limber_gemm and limber_bind
 *           serve what is not served here), DEVICE (the backend makes no such functions),
 *           NO_MEMORY; *function is NULL then.
 * Source    Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III. */
LIMBER_API limber_status limber_bind_shape(limber_context *ctx, const limber_contract *contract,
                                           int64_t m, int64_t n, int64_t k, limber_matrix a,
                                           limber_matrix b, limber_output c,
                                           limber_accumulate accumulate, limber_kernel *function);

/* ---- tuning ---------------------------------------------------------------------------- */

typedef struct limber_tuning {
    size_t size;
    double seconds; /* about how long to measure at most; 0 stands for 10 */
    const char *units; /* the units to measure, such as "f64,f32,i8"; NULL for all */
    void (*line)(void *user, const char *line); /* called for each measurement; or NULL */
    void *user;
} limber_tuning;

/* Measures shapes of register tiles and cache blocks for FP64, FP32 and INT8 on this machine.
 * Keeps the best as an entry of the disk cache and, once all three units are measured, also their
 * rates.  Contexts that are created afterwards use them for their plans.  Tiles do not change the
 * bits of a scheme; the rates may make another scheme the cheapest that keeps a contract.  What an
 * earlier search has measured is not measured again.  Runs on the caller's thread.
 * line() gets "tried UNIT MR,MB,NB RATE": rows of the register tile, rows and columns of the block,
 *           multiply-adds per second.
 * Errors    BAD_ARGUMENT, IO if the cache on disk cannot be used, DEVICE if the backend has nothing
 *           to tune or must not compile, NO_MEMORY. */
LIMBER_API limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning);

/* ---- cache ----------------------------------------------------------------------------- */

/* An entry of the cache on disk.  The library owns the structure, and it is valid during the
 * callback.  Later versions append fields. */
typedef struct limber_cache_entry {
    char key[65]; /* hexadecimal */
    char plan[128]; /* one line that names problem and scheme */
    size_t bytes;
    int64_t used; /* time of last use, in seconds since the epoch */
    /* Flag; 0: damaged or foreign, so the kernel will be compiled again.  LIMBER_CACHE_LIST checks
     * only the head of the entry. */
    int good;
    /* flag: intact, but sealed by another key than this user's; known only with
     * LIMBER_CACHE_VERIFY */
    int foreign;
} limber_cache_entry;

typedef struct limber_cache_info {
    size_t size;
    char directory[4096]; /* "" if there is none */
    char why_not[256]; /* why the directory is not used; "" if it is */
    int writable; /* 1 if the cache may store entries, else 0 */
    /* number of entries, their bytes, and the largest allowed number of bytes */
    size_t entries, bytes, limit;
    int tuned; /* flag: this context's plans use measurements of limber_tune */
} limber_cache_info;

typedef enum limber_cache_depth {
    LIMBER_CACHE_LIST, /* reads only the heads of entries */
    LIMBER_CACHE_VERIFY /* also checks the bytes and the seal of each entry */
} limber_cache_depth;
typedef enum limber_cache_choice {
    LIMBER_CACHE_CLEAR_ALL,
    LIMBER_CACHE_CLEAR_DAMAGED
} limber_cache_choice;

/* Describes the cache: its directory, whether it is used, and how much it holds. */
LIMBER_API limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info);
/* Calls `visit` for every entry on disk, until `visit` returns a nonzero value. */
LIMBER_API limber_status limber_cache_each(limber_context *ctx, limber_cache_depth depth,
                                           int (*visit)(void *user, const limber_cache_entry *),
                                           void *user);
/* Removes entries.  *removed: number of removed entries. */
LIMBER_API limber_status limber_cache_clear(limber_context *ctx, limber_cache_choice choice,
                                            size_t *removed);

#ifdef __cplusplus
}
#endif

/* ---- initialisers ---------------------------------------------------------------------- */

#define LIMBER_CONFIG_INIT LIMBER_SIZED(limber_config)
#define LIMBER_CONTRACT_INIT LIMBER_SIZED(limber_contract)
#define LIMBER_PROBLEM_INIT LIMBER_SIZED(limber_problem)
/* Initialises one group, strides and dilations of 1, no padding.  The caller sets the sizes. */
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
