/* SPDX-License-Identifier: BSD-3-Clause
 * Limber: GEMM and convolution in the format and at the accuracy that you ask for.
 *
 * State a problem (formats, shapes, a contract); Limber scans the data, splits the operands into
 * limbs that the machine's units hold, compiles one specialised kernel at first use, and keeps
 * it in memory and on disk.  Nothing here prints, exits, or changes the floating-point
 * environment.  Every function may be called from any thread; many threads may share a context. */
#ifndef LIMBER_H
#define LIMBER_H

#include "format.h"
#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMBER_VERSION "0.1.0"

/* LIMBER_VERSION of the library at hand. */
LIMBER_API const char *limber_version(void);

typedef struct limber_context limber_context;

/* ---- errors ---------------------------------------------------------------------------- */

/* The text of the last failure in this thread, "" when there was none; valid until the next
 * Limber call of the thread. */
LIMBER_API const char *limber_error_text(void);

/* The name ("BAD_ARGUMENT") and the meaning of a status. */
LIMBER_API const char *limber_status_name(limber_status s);
LIMBER_API const char *limber_status_meaning(limber_status s);

/* ---- contexts -------------------------------------------------------------------------- */

/* Memory that grows with the operands: workspaces, limbs of prepared operands, copies that a call
 * needs. Both functions are called from any thread, several at once; alloc gives NULL where there
 * is no memory, which fails the call with NO_MEMORY. */
typedef struct limber_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *memory);
    void *user;
} limber_allocator;

typedef struct limber_config {
    const char *backend;    /* "auto" (also NULL), "interp", "llvm", "cuda" */
    int threads;            /* 0: LIMBER_THREADS, OMP_NUM_THREADS, else the cores at hand */
    const char *cache_dir;  /* an absolute path; NULL: LIMBER_CACHE_DIR, XDG_CACHE_HOME/limber,
                             ~/.cache/limber; "" keeps kernels in memory only */
    size_t cache_bytes;     /* bound of the disk cache; 0: LIMBER_CACHE_MAXSIZE, else 256 MiB */
    const char *dump_dir;   /* NULL: LIMBER_DUMP; "" dumps nothing */
    int verbose;            /* lines to `log`; 0: LIMBER_VERBOSE */
    size_t workspace_bytes; /* bound of the packed limbs held at once; 0: a quarter of the
                               operands plus 64 MiB */
    void (*log)(void *user, const char *line); /* NULL: stderr, only when verbose */
    void *log_user;
    int device;             /* backend "cuda": which of the GPUs that the driver lists */
    int whole; /* not 0: one plan a product, whatever its parts are like; 0: LIMBER_NO_PARTS */
    limber_allocator allocator; /* zeros: the system's, and workspaces are kept between calls */
} limber_config;

/* Makes a context; config may be NULL (all zero).  What is read of the environment:
 * limber/environment.h.  Errors: BAD_ARGUMENT (unknown backend, bad value in the environment),
 * NO_MEMORY, DEVICE (a backend asked for by name does not run here).  *ctx is NULL after a failure.
 */
LIMBER_API limber_status limber_create(limber_context **ctx, const limber_config *config);

/* Why the interpreter computes in the place of the backend that the context would have chosen
 * (libLLVM is not found, say), some hundred times slower; "" as long as it does not, or where it
 * was named.  Valid until the context ends. */
LIMBER_API const char *limber_fallback_reason(limber_context *ctx);

/* Ends a context; NULL is fine.  No call on it may be running, and no function pointer handed
 * out by it may be used afterwards. */
LIMBER_API void limber_destroy(limber_context *ctx);

/* Calls compute in the default floating-point modes, whatever the program has set, and leave its
 * modes and flags as they were; functions of limber_bind_shape alone run in the program's. */

/* ---- contracts ------------------------------------------------------------------------- */

/* u is the unit round-off of the result's format, |A||B| the product of absolute values. */
typedef enum limber_promise {
    LIMBER_CONTRACT_NATIVE, /* |error| <= (k+2) u |A||B|; integers wrap */
    LIMBER_CONTRACT_BITS, /* |error| <= 2^-bits |A||B|, plus one final rounding; nothing overflows
                    or underflows on the way to a result that the format holds */
    LIMBER_CONTRACT_CORRECT, /* the exact value, rounded once to nearest-even */
    LIMBER_CONTRACT_EXACT, /* integer results: exact, or RANGE and C untouched */
    LIMBER_CONTRACT_FAST, /* the named scheme and its own published bound */
    LIMBER_CONTRACT_SIMULATE /* bit for bit what the described unit computes */
} limber_promise;

/* Where FP32 operands of fp32-* schemes become limbs on a GPU; the bits are the same. */
typedef enum limber_split {
    LIMBER_SPLIT_ANY, /* whichever is predicted to be faster */
    LIMBER_SPLIT_AHEAD, /* by kernels of their own, once, into the workspace */
    LIMBER_SPLIT_INSIDE /* in the multiply kernel, tile by tile; other plans are refused */
} limber_split;

/* What a call does whose kernel is neither in memory nor on disk.  Products of parts wait for none
 * of theirs: until all are there, one plan serves the whole. */
typedef enum limber_on_miss {
    LIMBER_ON_MISS_WAIT, /* it makes the kernel, and others wait that need the same */
    LIMBER_ON_MISS_GENERIC, /* a thread of the context's makes it; rows of C are computed by the
                                 interpreter until it is there.  GEMMs on CPUs to float results,
                               under native, bits and correct; other calls wait */
    LIMBER_ON_MISS_REFUSE, /* a thread of the context's makes it; NOT_READY, for callers that have
                                another way to compute.  Complex products wait */
    LIMBER_ON_MISS_COMPILE /* as WAIT, for such callers: where no compiler is found it is DEVICE,
                              and not the interpreter that computes in its place; REFUSE alike */
} limber_on_miss;

typedef struct limber_contract {
    limber_promise promise;
    int bits; /* LIMBER_CONTRACT_BITS: 1..160 */
    const char *scheme; /* NULL: the library chooses; else a name of limber_scheme_name();
                           required for LIMBER_CONTRACT_FAST.  "NARROW+WIDE", two names: tiles of A
                           and B that both suit the first are multiplied by it, others by the
                           second, which serves all where a product is not cut into tiles */
    int slices; /* Ozaki I under LIMBER_CONTRACT_FAST: slices per operand, fast mode; 0 estimates
                   the count for the accuracy of the result's format */
    limber_split split;
    const limber_unit *unit; /* LIMBER_CONTRACT_SIMULATE: the unit; read during the call */
    limber_statistics *statistics; /* LIMBER_CONTRACT_SIMULATE: NULL, or filled on success; the
                                      counters slow the kernel down; matrices in host memory only */
    limber_on_miss on_miss;
} limber_contract;

/* The i-th scheme's name and one line about it; NULL past the end. */
LIMBER_API const char *limber_scheme_name(int i);
LIMBER_API const char *limber_scheme_about(int i);

/* One of the plans that a mixed product was made of. */
typedef struct limber_part {
    char scheme[32];
    int rows; /* as below, of this part */
    double bound;
    int64_t m, n; /* rows of A and columns of B that it saw, whole or in tiles */
    double share; /* of the product's multiply-adds */
    double cost, seconds; /* predicted and measured seconds; plans measure nothing: 0 */
    int group[2]; /* of A's blocks of rows, of B's blocks of columns: limber_cut */
    unsigned kinds[2]; /* bit c: tiles of kind c of A, of B; 0, 0: whole lines */
    char kernel[33]; /* as below */
} limber_part;
enum { LIMBER_PARTS = 27 };

/* What a call did.  Texts are truncated to fit. */
typedef struct limber_report {
    char scheme[32];
    char backend[16];
    char kernel[33]; /* the kernel's key in hexadecimal, first 128 bits */
    int rows; /* limb products kept */
    int pruned; /* limb products that the contract or the data made needless */
    double bound; /* proven |error| / |A||B|, before the final rounding; 0 is exact */
    double cost; /* predicted seconds */
    double seconds_scan, seconds_compile, seconds_run;
    int from; /* 0 compiled now, 1 found on disk, 2 found in memory; 3: rows were computed
                 by the interpreter while it was made */
    size_t workspace; /* bytes of packed limbs and accumulators at the peak */
    int64_t recomputed; /* correct: elements that a first pass with fewer bits left undecided, and
                         that were summed again, exactly */
    int parts; /* 0: one plan served the whole product; else the scheme is "mixed", rows
                  and bound are the largest of the parts', the kernel is the last's */
    limber_part part[LIMBER_PARTS];
} limber_report;

/* ---- operands -------------------------------------------------------------------------- */

/* A matrix in the caller's memory.  Element (i,j) is at data + (i*row + j*col) elements; row and
 * col are strides >= 0 (row-major with leading dimension ld: row = ld, col = 1; column-major:
 * row = 1, col = ld; the transpose swaps them). */
typedef struct limber_matrix {
    void *data;
    limber_format format;
    int64_t row, col;
} limber_matrix;

/* C = alpha A B + beta C, to the contract.
 *
 * Shape    A is m x k, B is k x n, C is m x n.  m, n, k >= 0; k = 0 gives beta C.
 * Scalars  alpha and beta point to one value in C's format (integers: in i64); NULL means 1 and
 *          0.  beta = 0 does not read C.
 * Error    as the contract promises, per element; docs/accuracy.md.  NaN, infinities and signed
 *          zeros as the conventional algorithm gives them.
 * Memory   A and B are read, C is written; C overlaps neither and its elements are distinct.
 * Returns  LIMBER_STATUS_OK; on any other status C is untouched and limber_error_text() says which
 *          argument (BAD_ARGUMENT), which need of the contract (NO_SCHEME), or which element
 *          did not fit (RANGE).
 * report   NULL, or filled on success.
 * Source   slices: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3;
 *          residues: Ozaki, Uchino, Imamura, arXiv 2504.08009; Hi/Lo: Ma et al., ICS 2022. */
LIMBER_API limber_status limber_gemm(limber_context *ctx, const limber_contract *contract,
                                     int64_t m, int64_t n, int64_t k, const void *alpha,
                                     limber_matrix a, limber_matrix b, const void *beta,
                                     limber_matrix c, limber_report *report);

/* ---- prepared operands ------------------------------------------------------------------ */

/* A matrix that is multiplied many times, with what products need of it beside its elements: the
 * scan's result, and limbs that kernels have made of it. */
typedef struct limber_prepared limber_prepared;

typedef struct limber_prepare_config {
    size_t bytes; /* bound of the limbs kept; 0: the context's workspace_bytes, where this is
                     0 four times the elements plus 64 MiB */
    int check; /* not 0: every call looks whether the elements are what they were */
} limber_prepare_config;

/* Scans x, rows x cols, the left operand (A) or, with left = 0, the right one (B) of products to
 * come; config may be NULL (all zero).
 *
 * Memory   x.data stays the caller's and is not copied: the elements stay where and as they are
 *          until limber_prepared_free.  Limbs are kept in memory of the operand's own, at first
 *          use by each kernel, the least recently used ones dropped beyond the bound; where it
 *          holds not even those of one kernel, they are made in every call.
 * Changes  without `check`, a product after the elements have changed holds no contract: its scales
 *          and plan are those of the data when it was prepared; limbs that are kept are those of
 *          the data when they were made, others of the data at hand, and lines with NaN or
 *          infinities are those of the preparation.  Nothing outside C is written.
 * Errors   BAD_ARGUMENT (the argument is named; `check` of elements in a device's memory),
 *          NO_MEMORY; *operand is NULL then. */
LIMBER_API limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, int left, const limber_prepare_config *config,
                                        limber_prepared **operand);

/* Ends an operand; NULL is fine.  No call on it may be running, and its context still exists. */
LIMBER_API void limber_prepared_free(limber_prepared *operand);

/* Whether the elements are what they were: OK, or BAD_ARGUMENT "operand has changed since it was
 * prepared", also where it was prepared without `check`.  Compares hashes of 128 bits, not
 * elements. */
LIMBER_API limber_status limber_prepared_check(limber_prepared *operand);

/* limber_gemm where A, B or both are prepared: `prepared_a` of a, `prepared_b` of b, NULL for one
 * that is not.  The results are limber_gemm's, bit for bit.  A prepared operand is not scanned
 * again, and limbs that are kept are not made again.  They are kept by the LLVM backend, not of
 * parts of a mixed product, of simulated units, of the long accumulator, nor where long chains of
 * bytes are summed in parts; there, and on other backends, only the scan is spared.
 *
 * Threads  many may use one operand at once; while one makes limbs that are to be kept, others make
 *          their own.
 * Returns  as limber_gemm; BAD_ARGUMENT also for an operand of another context, matrix or side, and
 *          "operand a has changed since it was prepared" where that is looked for.
 * report   workspace does not count limbs that are kept. */
LIMBER_API limber_status limber_gemm_prepared(limber_context *ctx, const limber_contract *contract,
                                              int64_t m, int64_t n, int64_t k, const void *alpha,
                                              limber_prepared *prepared_a, limber_matrix a,
                                              limber_prepared *prepared_b, limber_matrix b,
                                              const void *beta, limber_matrix c,
                                              limber_report *report);

/* ---- batches, queues, complex numbers --------------------------------------------------- */

/* Many products of one shape.  Matrix g of A is `a` elements behind the one before it (0: all share
 * one), or at pa[g]; of B and C alike.  No two matrices of C overlap. */
typedef struct limber_batch {
    int64_t count; /* >= 0 */
    int64_t a, b, c; /* >= 0; c > 0 unless count < 2 */
    const void *const *pa, *const *pb; /* NULL, or `count` addresses, which replace the steps; */
    void *const *pc; /* in host memory */
} limber_batch;

/* Where a call runs on a GPU (backend "cuda"), and its workspace there; on CPUs a workspace in host
 * memory, of this call alone while it runs, and nothing else is looked at.  Operands in device
 * memory are read and written in the stream's order and the call returns without waiting for them;
 * with an operand in host memory it returns when C is there. */
typedef struct limber_queue {
    void *stream; /* CUstream or cudaStream_t of the context's device; NULL: its legacy default
                     stream */
    void *workspace; /* memory that the call may use, the device's in the stream's order and aligned
                        to 256 bytes; NULL: the library's own */
    size_t bytes; /* of it; less than what limber_gemm_workspace calls best means smaller parts */
    int graph; /* not 0: make ready what the same call needs while the stream is captured */
} limber_queue;

/* Products and convolutions can be captured into a CUDA graph: operands in device memory, a
 * workspace of the caller's, and the same call (formats, contract, class of sizes, a convolution's
 * window) made once before with queue.graph set.  Nothing is then allocated, copied or waited for,
 * the report tells of no times, and scalars are those of the capture.  When the graph is played,
 * the operands are scanned on the device; where they are not of the class that the plan was made
 * for, a slower plan that suits any data computes the result, to the same contract.  Exact integer
 * results, whose RANGE nobody could learn, are refused.  A graph must not outlive its context. That
 * plan's kernels may need a larger workspace than the least; the refusal tells. */

/* The workspace that a call of limber_gemm_batch needs, in bytes: the least, and that which holds
 * all limbs at once.  Reads A and B, computes nothing; 0 of backend "interp". Errors: as the call
 * itself. */
LIMBER_API limber_status limber_gemm_workspace(limber_context *ctx, const limber_contract *contract,
                                               int64_t m, int64_t n, int64_t k, const void *alpha,
                                               limber_matrix a, limber_matrix b, const void *beta,
                                               limber_matrix c, size_t *least, size_t *best);

/* limber_gemm for every matrix of a batch.  batch NULL: one; queue NULL: a stream of the library's
 * own, and the call returns when C is there.  A failure leaves every matrix of C as it was.
 * Statistics and report are of all products together. */
LIMBER_API limber_status limber_gemm_batch(limber_context *ctx, const limber_contract *contract,
                                           const limber_queue *queue, const limber_batch *batch,
                                           int64_t m, int64_t n, int64_t k, const void *alpha,
                                           limber_matrix a, limber_matrix b, const void *beta,
                                           limber_matrix c, limber_report *report);

/* C = alpha op(A) op(B) + beta C for complex matrices; op is the conjugate where conj_a, conj_b is
 * not 0.  An element is a pair (re, im) of numbers of the matrix' format.
 *
 * Shape    A is m x k, B is k x n, C is m x n; strides count pairs.
 * Scalars  alpha and beta point to one pair in C's format (integers: in i64); NULL means 1 and 0.
 *          beta = 0 does not read C.
 * Error    each part of C is an element of one real product,
 *              Re C = [Re A, Im A] [Re B; -Im B],   Im C = [Re A, Im A] [Im B; Re B],
 *          and the contract holds for it with inner dimension 2k: `correct` gives the exact part,
 *          rounded once.  Where an imaginary part of alpha or beta is not 0 this holds for T = A B
 *          in C's format (integers: i64), and then for [T, C] times the pairs of alpha and beta,
 *          again a real product of each part, of inner dimension 4, or 2 without beta (`fast`:
 *          native).  NaN and infinities as these formulas give them: Inf times a part that is 0
 *          is NaN.
 * products how many real products of m x n x k: 4, or 0 for the library's choice, which is 4.  3:
 *          fewer multiplications.  Integers, native or exact: the same results, and NO_SCHEME where
 *          |A||B| might exceed 63 bits.  f32 or f64 all three, under `fast` with a scheme: each
 *          part's error is at most report.bound (|Re A| + |Im A|) (|Re B| + |Im B|), so a part much
 *          smaller than the other may lose all its digits (docs/accuracy.md, section 11).
 * Memory   as limber_gemm; the call keeps a real form of one operand, four times its parts, unless
 *          that lies in the device's memory.  Each matrix may lie there or in host memory.  With a
 *          complex alpha or beta the call takes device memory for A B and C beside the workspace;
 *          with three products also for sums of the operands' parts and for the products.
 * Returns  as limber_gemm.  RANGE also where an i64 operand of `exact` holds a part of -2^63, or
 *          A B before a complex alpha does not fit i64.  simulate: alpha and beta are real.
 * report   NULL, or filled on success; of the real products. */
LIMBER_API limber_status limber_gemm_complex(limber_context *ctx, const limber_contract *contract,
                                             const limber_queue *queue, int64_t m, int64_t n,
                                             int64_t k, const void *alpha, limber_matrix a,
                                             int conj_a, limber_matrix b, int conj_b,
                                             const void *beta, limber_matrix c,
                                             limber_report *report, int products);

/* ---- convolution ----------------------------------------------------------------------- */

typedef enum limber_layout { LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC } limber_layout;

/* Forward convolution (cross-correlation, as in neural networks).
 *   x  n x c x h x w                     (NHWC: n x h x w x c)
 *   w  o x (c/groups) x r x s            (NHWC: o x r x s x (c/groups))
 *   y  n x o x oh x ow                   (NHWC: n x oh x ow x o)
 *   oh = (h + pad[0] + pad[1] - dilate[0]*(r-1) - 1) / stride[0] + 1, ow alike with w, s,
 *   pad[2], pad[3].  All tensors are dense. */
typedef struct limber_conv {
    int64_t n, c, h, w, o, r, s;
    int64_t stride[2], dilate[2]; /* >= 1 */
    int64_t pad[4]; /* top, bottom, left, right; >= 0 */
    int64_t groups; /* divides c and o */
    limber_layout layout;
} limber_conv;

/* The height and width of the result.  BAD_ARGUMENT for an impossible shape. */
LIMBER_API limber_status limber_conv_output(const limber_conv *shape, int64_t *oh, int64_t *ow);

/* y = alpha conv(x, w) + beta y, to the contract; k is (c/groups) r s in its bounds.  Scalars,
 * memory and returns as limber_gemm. */
LIMBER_API limber_status limber_conv2d(limber_context *ctx, const limber_contract *contract,
                                       const limber_conv *shape, const void *alpha, const void *x,
                                       limber_format xf, const void *w, limber_format wf,
                                       const void *beta, void *y, limber_format yf,
                                       limber_report *report);

/* The same in a queue (NULL: as without), and the workspace that it needs, as limber_gemm_workspace
 * tells it. */
LIMBER_API limber_status limber_conv2d_queue(limber_context *ctx, const limber_contract *contract,
                                             const limber_queue *queue, const limber_conv *shape,
                                             const void *alpha, const void *x, limber_format xf,
                                             const void *w, limber_format wf, const void *beta,
                                             void *y, limber_format yf, limber_report *report);
LIMBER_API limber_status limber_conv2d_workspace(limber_context *ctx,
                                                 const limber_contract *contract,
                                                 const limber_conv *shape, const void *alpha,
                                                 const void *x, limber_format xf, const void *w,
                                                 limber_format wf, const void *beta,
                                                 limber_format yf, size_t *least, size_t *best);

/* ---- data ------------------------------------------------------------------------------ */

/* What one scan finds of an operand.  Exponents are those of finite nonzero values, e of
 * 2^e <= |x| < 2^(e+1), and 0 where there is none. */
enum { LIMBER_INSPECT_TILE = 64 };
enum { LIMBER_TILE_IS_ZERO = 1, LIMBER_TILE_HAS_SPECIAL = 2, LIMBER_TILE_HAS_NEGATIVE = 4 };
typedef struct limber_tile {
    int16_t emin, emax; /* smallest and largest exponent */
    int16_t low; /* the exponent of the lowest bit that is 1 */
    uint8_t bits; /* significant bits of the element that has most of them; at most 255 */
    uint8_t flags; /* LIMBER_LOOK_...: nothing but zeros, NaN or infinities, negatives */
} limber_tile;
typedef struct limber_inspection {
    int64_t lines, length; /* rows of A or columns of B; k */
    int zero, special, negative; /* no finite nonzero; NaN or infinities; negative values */
    int emin, emax;
    int spread; /* emax - emin of the line where that is largest */
    int width; /* bits of integers that hold any line exactly under one scale */
    int bits; /* significant bits of the element that has most of them */
    int64_t tile_rows, tile_cols; /* tiles of 64 lines by 64 elements along k */
    limber_tile *tile; /* [tile_rows][tile_cols]; NULL: not known */
} limber_inspection;

/* Looks at x, rows x cols elements in host memory or, backend "cuda", in the device's, of which
 * tiles are not told.  left not 0: rows are the lines, as of A; else columns are, as of B.  Reads x
 * once, on the context's threads; keeps nothing of it. *out     its tiles are the caller's, to be
 * released with limber_inspection_free; all zero after a failure. Errors   BAD_ARGUMENT (the
 * argument is named), NO_MEMORY; of device memory DEVICE. */
LIMBER_API limber_status limber_inspect(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, int left, limber_inspection *out);
LIMBER_API void limber_inspection_free(limber_inspection *look);

/* ---- plans ----------------------------------------------------------------------------- */

/* What limber_gemm would do, as text: the IR as stated and after every pass that changed it, the
 * product table, why each other scheme was refused, the bound and the predicted cost; of a mixed
 * product first its parts, then this for each.  Reads A and B, computes nothing.  *text is the
 * caller's, to be released with limber_free. */
LIMBER_API limber_status limber_gemm_plan(limber_context *ctx, const limber_contract *contract,
                                          int64_t m, int64_t n, int64_t k, const void *alpha,
                                          limber_matrix a, limber_matrix b, const void *beta,
                                          limber_matrix c, char **text, limber_report *report);
LIMBER_API limber_status limber_conv2d_plan(limber_context *ctx, const limber_contract *contract,
                                            const limber_conv *shape, const void *alpha,
                                            const void *x, limber_format xf, const void *w,
                                            limber_format wf, const void *beta, limber_format yf,
                                            char **text, limber_report *report);

/* How a product is cut into parts: blocks of 64 rows of A and of 64 columns of B into groups, and
 * where parts are sums over other tiles of the same elements, tiles of 64 lines by `tile` elements
 * along k into kinds.  Side 0 is A, side 1 is B. */
enum { LIMBER_CUT_ZERO, LIMBER_CUT_NARROW, LIMBER_CUT_WIDE };
typedef struct limber_cut {
    int parts; /* 0: one plan serves the whole product, and all else is 0 */
    limber_part part[LIMBER_PARTS];
    double whole; /* predicted seconds of one plan for all data; INFINITY: none holds */
    int64_t blocks[2];
    unsigned char *group[2]; /* [block] */
    int64_t tiles, tile; /* along k, and elements of one; 0: no part leaves out tiles */
    unsigned char *kind[2]; /* [block][tile]: zero, narrow or wide */
} limber_cut;

/* The cut that limber_gemm would make, which limber_gemm_plan tells as text.  Arguments and errors
 * as limber_gemm_plan.  The arrays of *cut are the caller's, to be released with limber_cut_free;
 * all of it is zero after a failure. */
LIMBER_API limber_status limber_gemm_cut(limber_context *ctx, const limber_contract *contract,
                                         int64_t m, int64_t n, int64_t k, const void *alpha,
                                         limber_matrix a, limber_matrix b, const void *beta,
                                         limber_matrix c, limber_cut *cut, limber_report *report);
LIMBER_API void limber_cut_free(limber_cut *cut);

/* The parts of a report as a table, a line each: groups ("a", "a:nW" for its narrow and wide
 * tiles), size, share, scheme, seconds and bound.  *text is the caller's, to be released with
 * limber_free. */
LIMBER_API limber_status limber_report_parts(const limber_report *report, char **text);

/* Runs passes over a plan given in the text form of docs/ir.md.  passes: comma-separated names,
 * or NULL for all; target: text of a target, or NULL for this machine. */
LIMBER_API limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *passes,
                                          const char *target, char **text);
LIMBER_API void limber_free(void *text);

/* Kernels made ahead.  limber_kernel_plan gives the stated plan of a kernel that is in memory, by
 * the key in a report, as text: what data, contract and class of sizes it is for, nothing of this
 * machine. limber_kernel_make makes the kernel of such a text, here or on another machine, and
 * keeps it on disk, unless it is there (report->from); report may be NULL. *plan    the caller's,
 * to be released with limber_free. Errors   BAD_ARGUMENT (no such kernel, a text that is no stated
 * plan), else as limber_gemm. */
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
 *              transa transb     : char *char i32         ('N' 'T' 'C', or CBLAS 111 112 113)
 *              order             : i32                    (CBLAS 101 row-major, 102 column-major)
 *              _                 : any of these           (accepted and ignored)
 *            Column-major when no order is given.  Missing alpha is 1, beta is 0.
 *            "dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm" name the usual ones.
 * *function  returns an int status for "int(...)" , nothing otherwise; a failed call leaves C
 *            untouched and limber_error_text() holds the reason.
 * The pointer lives as long as the context. Thread-safe.
 * Errors     BAD_ARGUMENT (the word of the signature is named), NO_MEMORY (the system refused
 *            executable memory to libffi). */
LIMBER_API limber_status limber_bind(limber_context *ctx, const limber_contract *contract,
                                     limber_format a, limber_format b, limber_format c,
                                     const char *signature, void (**function)(void));

/* Calls a function whose signature is only known at run time (same words); arguments[i] points
 * to the i-th argument's value. */
LIMBER_API limber_status limber_call(const char *signature, void (*function)(void),
                                     void **arguments);

/* A product of one shape as machine code: C = A B, or C += A B. */
typedef void (*limber_kernel)(const void *a, const void *b, void *c);

/* Compiles the product of one shape; *function is the code itself, with nothing around it: no
 * check, no look-up, one thread.  This is the way to call small products in a loop.
 *
 * Shape     A is m x k, B is k x n, C is m x n; 1 <= m, n, k <= 256, in elements.  Formats and
 *           strides of a, b, c hold for every call; their data is ignored.  All three are in f64,
 *           or all in f32; A and B have any strides, C has row = 1 or col = 1.
 * add       0: C = A B, C is not read; 1: C += A B.
 * Contract  native; its scheme is NULL or "native".
 * Error     as native promises.  The bits are those of limber_gemm with this scheme, alpha = 1 and
 *           beta = add, wherever the operands hold no NaN and no infinities.
 * A call    takes the addresses of the first elements, aligned to their format; C overlaps neither
 *           A nor B.  Nothing is checked.  Its work space is at most 128 KiB of stack.
 * The pointer lives as long as the context.  Thread-safe, the function too; the code is kept like
 * other kernels, and equal requests get one pointer.
 * Errors    BAD_ARGUMENT and NO_SCHEME (the argument is named; limber_gemm and limber_bind serve
 *           what is not served here), DEVICE (the backend makes no such functions), NO_MEMORY;
 *           *function is NULL then.
 * Source    Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III. */
LIMBER_API limber_status limber_bind_shape(limber_context *ctx, const limber_contract *contract,
                                           int64_t m, int64_t n, int64_t k, limber_matrix a,
                                           limber_matrix b, limber_matrix c, int add,
                                           limber_kernel *function);

/* ---- tuning ---------------------------------------------------------------------------- */

typedef struct limber_tuning {
    double seconds; /* at most, about; 0: 10 */
    const char *units; /* of "f64,f32,i8" those to measure; NULL: all */
    void (*seen)(void *user, const char *line); /* one line a measurement; NULL: quiet */
    void *user;
} limber_tuning;

/* Measures shapes of register tiles and cache blocks for FP64, FP32 and INT8 on this machine and
 * keeps the best as one entry of the disk cache, with the rates of the units once all three are
 * known.  Contexts that are created afterwards read it: their plans follow it.  No tile changes
 * the bits of a scheme; the rates may make another scheme the cheapest that holds a contract.
 * What an earlier search has measured is not measured again.  Runs on the caller's thread.
 * Lines     "tried UNIT MR,MB,NB RATE": rows of the register tile, rows and columns of the block,
 *           multiply-adds per second.
 * Errors    BAD_ARGUMENT, IO when the cache on disk cannot be used, DEVICE where the backend is
 *           not tuned or must not compile, NO_MEMORY. */
LIMBER_API limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning);

/* ---- cache ----------------------------------------------------------------------------- */

typedef struct limber_cache_entry {
    char key[65]; /* hexadecimal */
    char plan[128]; /* one line: problem and scheme */
    size_t bytes;
    int64_t used; /* seconds since the epoch */
    int good; /* 0: damaged or foreign, will be recompiled */
    int foreign; /* verify: not damaged, and sealed by another key than this user's */
} limber_cache_entry;

typedef struct limber_cache_info {
    char directory[4096]; /* "" when there is none */
    char why_not[256]; /* why the directory is not used, "" when it is */
    int writable;
    size_t entries, bytes, limit;
    int tuned; /* this context's plans follow a record of limber_tune */
} limber_cache_info;

LIMBER_API limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info);
/* Calls seen for every entry on disk; a nonzero answer stops.  verify != 0 also checks each
 * entry's bytes and seal. */
LIMBER_API limber_status limber_cache_each(limber_context *ctx, int verify,
                                           int (*seen)(void *user, const limber_cache_entry *),
                                           void *user);
/* Removes all entries, or those that are damaged; *removed counts them. */
LIMBER_API limber_status limber_cache_clear(limber_context *ctx, int damaged_only, size_t *removed);

#ifdef __cplusplus
}
#endif
#endif
