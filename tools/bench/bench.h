/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the parts of `limber bench` and `limber gpu` share.  Both measure the rows that
 * rows.c lists as text: each names an operation, its sizes, formats and data, and the contenders
 * that compute it.  Other libraries are opened at run time.  Their functions and constants are
 * declared in the files that call them, so that no headers of theirs are needed. */
#ifndef LIMBER_BENCH_H
#define LIMBER_BENCH_H

#include "tools/bench/timed_cuda.h"
#include "tools/cli/cli.h"

#include <string.h>

/* scripts.c: True if `limber bench WORD` runs a Python program; *which is its index.  bench_script
 * executes that program with the options after argv[0], and returns only on failure. */
bool bench_is_script(const char *word, int *which);
int bench_script(int which, int argc, const char **argv);

/* binary128 of the hardware or of the compiler, used by peers and for operands' data. */
#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

/* PICKS: elements of a result that are checked. MOST_SETS: sets of operands, which take turns.
 * ELEMENT: bytes of the largest element. */
enum {
    MOST_SAMPLES = 99,
    PICKS = 200,
    MOST_SETS = 16,
    MOST_CONTENDERS = 20,
    MOST_SIZES = 12,
    ELEMENT = 16,
    MOST_KERNELS = 12
};

/* ---- the device: device.c -------------------------------------------------------------------- */

/* Before device_open succeeds, the functions of the device that follow use the host's memory and
 * clock. */

/* Opens a GPU with one stream.  pinned: device_alloc gives pinned host memory.  Returns NULL, or
 * the reason for which the GPU cannot be used. */
const char *device_open(int device, bool pinned);
void device_close(void);

/* A GPU. */
struct device_info {
    char name[96];
    /* driver: its version, 13000 for 13.0; major.minor: compute capability; units: number of
     * multiprocessors */
    int driver, major, minor, units;
    size_t memory, l2;
};
const struct device_info *device_info(void); /* all zeros if no device is open */
size_t device_memory_free(void);
void *device_stream(void);

/* The functions below return NULL or false on failure, which device_error describes.  All but
 * device_copy wait for the device. */
void *device_alloc(size_t bytes); /* NULL if out of memory */
void device_free(void *data);
bool device_put(void *to, const void *from, size_t bytes);
bool device_get(void *to, const void *from, size_t bytes);
/* copies; does not wait for the device, but later work of the stream does */
bool device_copy(void *to, const void *from, size_t bytes);
bool device_fill(void *to, int byte, size_t bytes);
bool device_wait(void);
/* Timings on the host use the process's CPU time instead of wall time. */
void device_host_time(bool of_cpu);
bool device_start(void); /* starts a timing in the stream */
double device_stop(void); /* seconds since device_start; negative on failure */

/* Captures the calls between device_begin_capture and device_end_capture in a CUDA graph. */
bool device_begin_capture(void);
/* returns the graph, which was not run; NULL if the capture failed */
void *device_end_capture(void);
bool device_replay(void *graph);
void device_graph_free(void *graph);

const char *device_error(void);
bool device_lost(void); /* true if the device failed and accepts no more calls */
void *device_symbol(const char *name); /* a function of the driver; NULL if absent */
/* Returns the value of an attribute, given its CUdevice_attribute number; -1 if unknown. */
int device_attribute(int number);

/* device_watch.c: clocks, temperature and power of the device, which device_stop samples by
 * watch_sample while the device is still busy.  If NVML is missing, the samples are zeros and
 * watch_open returns the reason. */
struct device_now {
    int sm_mhz, memory_mhz, celsius;
    double watts; /* on some devices the driver's average over the last second */
    unsigned long long reasons; /* reasons for throttled clocks: bits of nvmlClocksEventReasons */
};
const char *watch_open(int device);
void watch_close(void);
void watch_sample(void);
struct device_now watch_last(void);
/* Records kernels between the two calls.  kernels_begin: false if LIMBER_CUDA does not name
 * timed_cuda.c's library.  kernels_end: lists the kernels and their times like timed_end_fn. */
bool kernels_begin(void);
int kernels_end(struct timed_kernel *list, int room);

/* ---- operands' data -------------------------------------------------------------------------- */

enum data {
    DATA_uniform, /* uniform in (0,1), full significands */
    DATA_signed, /* uniform in (-1,1), multiples of 2^-53 */
    DATA_normal, /* standard normal */
    DATA_scaled, /* standard normal; rows of A are multiplied by powers of two */
    /* standard normal; in 3 of 10 blocks of 256 rows of A, exponents spread over 60 binades */
    DATA_mixed,
    DATA_floats, /* binary32 values whose magnitudes lie in four binades */
    DATA_integers, /* signed integers of `bits` bits */
    /* standard normal; products cancel in pairs except for relative errors of A of up to 2^-bits
     * (bits = 0: no errors) */
    DATA_cancels,
    DATA_quad, /* uniform, with significands of binary128 */
    /* exponents spread over `binades`; one of `special` elements of A is NaN or infinite (special =
     * 0: none) */
    DATA_spread
};
/* Distribution from which operands' data are drawn. */
struct data_kind {
    enum data data;
    int bits, binades, special;
};

/* A pool of random numbers.  Each row of a matrix is copied from a random place in the pool, so
 * that the device only copies, and the host can find every element. */
struct pool {
    void *data;
    limber_format format;
    /* number of segments; elements of a segment; elements of a row of the matrix, which is copied
     * from one segment */
    int64_t segments, length, cols;
    int64_t together; /* number of adjacent rows that are copied from the same segment */
    int64_t repeats; /* number of rows after which the rows repeat; 0 if they do not */
};
bool pool_fill(struct pool *p, struct data_kind d, limber_format f, int64_t cols, uint64_t seed);
void pool_clear(struct pool *p);

struct tensor { /* dense, row-major */
    void *data; /* address in device memory */
    const struct pool *pool; /* the pool from which the rows were copied; NULL for a result */
    uint64_t seed;
    limber_format format;
    int64_t rows, cols;
};
size_t tensor_bytes(const struct tensor *t);
bool tensor_fill(struct tensor *t, const void *device_pool);
/* Returns the number of elements of a filter in one channel. */
static inline int64_t conv_window_size(const limber_conv *s)
{
    return (s->t ? s->t : 1) * s->r * s->s;
}
/* Returns the number of pixels of a convolution's image. */
static inline int64_t conv_pixels(const limber_conv *s)
{
    return (s->t ? s->d : 1) * s->h * s->w;
}
const void *tensor_row(const struct tensor *t, int64_t row); /* host copy of a row */

/* ---- rows of the benchmark and contenders: measure.c ----------------------------------------- */

enum promise {
    PROMISE_sum, /* |error| <= factor (k+2) u |A||B|, where u is the unit roundoff */
    PROMISE_bits, /* |error| <= 2^-factor |A||B| + u |result| */
    PROMISE_rounded, /* the result is the exact value, rounded once */
    PROMISE_exact,
    PROMISE_bound, /* |error| <= report.bound |A||B| + u |result| */
    /* no error bound is promised, but an error above 2^-factor |A||B| counts as a wrong result */
    PROMISE_loose,
    PROMISE_unit /* the result has the bits of the simulated unit */
};

/* How Limber is called. */
enum variant {
    CALL_plain,
    CALL_bound, /* by a function of limber_bind */
    CALL_shape, /* by a function of limber_bind_shape */
    CALL_prepared, /* A is a prepared operand */
    CALL_easy, /* operands are well scaled, whatever data the row of the benchmark names */
    CALL_two_threads,
    CALL_one_thread
};

enum state { STATE_ok, STATE_wrong, STATE_skipped, STATE_failed, STATE_absent };

/* Operands and result of one call. */
struct operands {
    const char *formats; /* the peer's formats as text; NULL if they are the work's */
    limber_format fa, fb, fy;
    const void *a, *b;
    void *y;
};

/* Times of a contender's calls. */
struct call_times {
    int samples, repeats;
    double seconds[MOST_SAMPLES], run_seconds[MOST_SAMPLES], median, best;
    struct timed_kernel kernels[MOST_KERNELS]; /* the kernels that a single call launches */
    int kernel_count;
    struct device_now device; /* clocks and power in the last sample */
};

/* Elements of a contender's result that were checked. */
struct checked {
    /* largest error of an element, relative to |A||B| and in units of u; the error that this
     * element may have */
    double error, allowed;
    unsigned char got[PICKS][ELEMENT];
};

/* A library, or a variant of Limber, that is timed for a row of the benchmark, and its times. */
struct contender {
    const struct peer *peer; /* NULL if the contender is Limber */
    const char *name; /* name in tables of Limber's variant or contract; NULL for the default */
    limber_contract contract;
    enum variant variant;
    /* maker: a context that makes kernels before the timing, as in struct bench */
    limber_context *ctx, *own_ctx, *maker;
    enum promise promise;
    double factor;
    /* the rates of other contenders are divided by that of the fastest contender with this flag */
    bool base;
    bool refused; /* Limber refused the call, since no scheme keeps the contract */
    enum state state;
    char why[200];
    struct work *work;
    const struct operands *now; /* operands and result of the next call */
    /* device memory for calls that are captured in a CUDA graph, else NULL; owned */
    void *workspace;
    size_t workspace_bytes;
    void *prepared; /* state that belongs to the peer, or Limber's prepared operand */
    void (*function)(void); /* the function that CALL_bound and CALL_shape call */
    struct call_times times;
    struct checked checked;
    limber_report report;
    bool reports; /* true if the next call fills `report` */
};

/* A row of the benchmark: one problem, and the contenders (libraries or variants of Limber) that
 * compute it. */
struct work {
    const char *group;
    char what[64], data_name[48]; /* data_name is not printed if it is "" */
    int64_t m, n, k;
    int64_t batch; /* number of products of this shape, contiguous in memory */
    double products; /* number of multiply-adds of a plain loop: m n k, or those of a convolution */
    limber_format fa, fb, fc;
    struct data_kind data;
    bool ta, tb; /* an operand is stored transposed: A as k x m, B as n x k */
    const char *unit_words; /* description of the simulated unit, or NULL */
    limber_unit unit;
    limber_statistics statistics;
    bool counts;
    limber_operation operation;
    limber_conv conv; /* sizes of the convolution, if `operation` is one */
    struct contender list[MOST_CONTENDERS];
    int count;
    int threads;
    limber_kernels kernels; /* kernels that contexts which are made for this work may use */
    char why[200]; /* why nothing was measured; "" if contenders were measured */
    size_t bytes; /* bytes of one set of operands and result */
};

/* Limits of a measurement, and functions that it calls. */
struct timing {
    /* number of samples of each contender; as many as `least` are taken even if time is up */
    int runs, least;
    double sample, most; /* seconds that a sample should take; seconds for all samples of a work */
    uint64_t seed;
    bool timed; /* if false, each contender is called and checked once, without timing */
    /* Called before a contender's first call, and after its first calls were checked. */
    void (*note)(void *user, const struct work *w, const struct contender *c);
    void (*called)(void *user, const struct work *w, const struct contender *c);
    void *user;
};

/* Measures all contenders.  On failure `why` of the work or of the contender tells the reason. */
void work_measure(struct work *w, const struct timing *t);
/* Sets the contender's state and the reason for it; returns false. */
bool contender_set_state(struct contender *c, enum state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool contender_call(struct contender *c);
void contender_median(struct contender *c);
/* Fastest contender whose `base` flag is set; NULL if none was measured. */
const struct contender *work_base(const struct work *w);
/* True if the checked elements of both contenders' results have equal bits. */
bool same_bits(const struct contender *x, const struct contender *y);

/* Several sets of operands for one work, so many that repeated calls do not find their operands in
 * the GPU's L2 cache. */
struct operand_sets {
    struct pool pa, pb;
    struct tensor a[MOST_SETS], b[MOST_SETS], y[MOST_SETS];
    struct operands list[MOST_SETS];
    int sets;
    struct reference *reference;
};
bool sets_alloc(struct operand_sets *s, struct work *w, uint64_t seed, int most);
void sets_free(struct operand_sets *s);
bool result_poison(const struct contender *c);
/* Checks the result in c->now.  On failure sets the contender's state and `why`, and returns
 * false. */
bool result_check(const struct operand_sets *s, struct contender *c);

/* ---- checks of results ----------------------------------------------------------------------- */

struct reference; /* exact values of PICKS chosen elements of the result */
struct reference *reference_make(const struct work *w, const struct tensor *a,
                                 const struct tensor *b);
void reference_free(struct reference *r);
/* Index in the result of the pick-th element that is checked. */
int64_t reference_place(const struct reference *r, int pick);
/* Checks the elements in c->got, and sets c->error and c->allowed.  Returns false if an error is
 * larger than the contender promises. */
bool reference_check(const struct reference *r, struct contender *c);
/* Compares a corner of a simulated unit's result, and its statistics, with the interpreter's.  On
 * failure sets the contender's state, and returns false. */
bool unit_check(struct contender *c);

/* ---- peers: other libraries ------------------------------------------------------------------ */

struct bench;
/* Another library that is measured, or the reason for its absence. */
struct library {
    /* files: names of shared libraries to try in turn, separated by spaces */
    const char *name, *files;
    /* loads the library; returns false and sets why_not on failure */
    bool (*open)(struct library *l);
    void (*threads)(int);
    void (*close)(void);
    void *handle;
    /* why_not: why the library cannot be used; "" if it was not needed or could be opened */
    char version[64], kernels[320], why_not[200];
    bool gpu, usable;
    void *gemm[2]; /* addresses of cblas_dgemm and cblas_sgemm */
};

/* A peer, with which Limber is compared: a function of another library, or of this program. */
struct peer {
    /* word: in the benchmark's rows, which several peers may share; name: in tables */
    const char *word, *name;
    struct library *library; /* NULL if the code is part of this program (kernels.c or cpfloat.c) */
    /* formats to which operands are converted, and of the result; NULL: the work's formats */
    const char *formats;
    int64_t largest; /* largest n that does not take too long; 0 if any n does */
    bool plain; /* true if the peer cannot take transposed operands */
    bool packed_before; /* `prepare` packs an operand, and packing is not timed */
    bool emulation; /* the table tells whether the result's bits equal those of the base */
    enum promise promise;
    double factor;
    /* the peer's sums of integers may have an error of 2^-loss |A||B|; 0 if they are exact */
    int loss;
    int code[3]; /* parameters for the peer's functions, such as its library's codes of types */
    /* setup that is not timed; returns false if the peer cannot compute this work */
    bool (*prepare)(struct contender *c);
    /* computes; on failure sets the contender's state and `why`, and returns false */
    bool (*run)(struct contender *c);
    /* copies the result to y, untimed; NULL if `run` stores to y */
    void (*fetch)(struct contender *c);
    void (*release)(struct contender *c);
};

/* Opens those libraries that the rows of the command use. */
void peers_open(const struct bench *b);
void peers_close(void);
void peers_threads(int threads);
int peers_list(const struct peer **list);
int libraries_list(struct library *const **list);

bool library_load(struct library *l);
bool library_refuse(struct library *l, const char *why); /* sets why_not; returns false */
struct symbol {
    const char *name;
    void *function; /* address of the function pointer to set */
};
/* Looks up all symbols.  On failure why_not names the missing one. */
bool library_look_up_symbols(struct library *l, const struct symbol *list, size_t count);
#define LIBRARY_FIND(l, list) library_look_up_symbols(l, list, sizeof(list) / sizeof *(list))

extern struct library openblas, blis, mkl, onednn, libxsmm, limber_blas, flint, arb, cublas,
    cublaslt, cudnn;
bool onednn_run(struct contender *c);
bool onednn_prepare(struct contender *c);
bool onednn_matmul(struct contender *c);
void onednn_release(struct contender *c);
bool onednn_conv_prepare(struct contender *c);
bool onednn_conv_run(struct contender *c);
void onednn_conv_fetch(struct contender *c);
void onednn_conv_release(struct contender *c);
bool flint_prepare(struct contender *c);
bool flint_run(struct contender *c);
void flint_fetch(struct contender *c);
void flint_release(struct contender *c);
bool cublas_run(struct contender *c);
bool cublaslt_run(struct contender *c);
bool cudnn_run(struct contender *c);

/* peers_torch.c: PyTorch runs in a child process of python3.  torch_version: its version, NULL if
 * PyTorch is absent.  torch_run: seconds of one call of a function; negative if PyTorch lacks the
 * function. */
const char *torch_version(void);
double torch_run(const char *function, const char *format, size_t count, int threads);
/* Seconds that PyTorch takes for a row's convolution, in FP32 on random tensors in the row's
 * layout.  cpu_time: CPU time instead of wall time. */
double torch_convolve(const struct work *w, int threads, bool cpu_time);
void torch_close(void);

/* kernels.c: peers that are part of this program, written after published algorithms. */
const char *dd_kernel(void); /* vector extension in use; NULL if this CPU has none of them */
bool dd_prepare(struct contender *c);
bool dd_gemm(struct contender *c); /* double-double by fused multiply-adds */
bool quad_prepare(struct contender *c);
bool quad_gemm(struct contender *c); /* a blocked GEMM in the compiler's binary128 */

/* cpfloat.c: dense row-major products by CPFloat, which rounds every product and sum to the unit's
 * format. */
const char *cpfloat_name(void); /* NULL if this program was built without CPFloat */
bool cpfloat_prepare(struct contender *c);
bool cpfloat_gemm(struct contender *c);

/* ---- limits of the hardware: limits.c -------------------------------------------------------- */

bool cpu_has(const char *feature); /* feature: avx2, avx512, vnni, avxvnni or fma */

/* A measured limit of the hardware. */
struct limit {
    const char *what, *unit;
    double rate; /* units (of struct loop in limits.c) per second, of all threads together */
    bool int8; /* true if the rate counts multiply-adds of 8-bit integers */
};
enum { MOST_LIMITS = 16 };
int limits_measure(int threads, struct limit *list);
/* Multiply-adds of INT8 per second by the fastest instruction, and its name; 0 if there is none. */
double limits_int8(int threads, const char **instruction);
/* Seconds in which all threads together read the buffer once; 0 if it cannot be measured. */
double limits_read(int threads, const void *buffer, size_t bytes);

/* ---- the commands bench and gpu -------------------------------------------------------------- */

/* Collects the geometric mean of rates or ratios over rows of one kind. */
struct mean_ratio {
    const char *name; /* the peer's name */
    double sum, least; /* sum of the logarithms of ratios, and the smallest ratio */
    int count, below; /* number of all ratios, and of those below 1 */
};
/* Geometric means over convolutions of one kind. */
struct conv_mean {
    char kind[48]; /* data_name of the rows */
    double rate;
    int count;
    struct mean_ratio to[2], torch;
};
enum { MOST_MEANS = 48 };

/* The results of the benchmark's rows so far. */
struct results {
    struct cJSON *rows;
    const char *group;
    int count[STATE_absent]; /* number of results in each state */
    double int8; /* peak multiply-adds of INT8 per second; 0 if not measured yet */
    const char *int8_by;
    double rate128, rate_dd; /* rates of the last products in binary128 and double-double */
    struct conv_mean means[MOST_MEANS]; /* means over convolutions measured so far */
    int mean_count;
    char torch[48]; /* name of PyTorch in the ratios of `means` */
};

/* The options and the state of a run. */
struct bench {
    bool gpu, json;
    bool cpu_time; /* times are the process's CPU time, not wall time */
    limber_context *ctx;
    /* context that makes specialised kernels before the timing, so that ctx loads them from disk;
     * or NULL */
    limber_context *maker;
    const char *backend, *only; /* only: names of groups, from --rows; NULL for all */
    const char *by; /* comma-separated substrings of contenders' words, for --by; NULL: all */
    const char *unwatched; /* why clocks are not sampled; NULL if they are */
    int device, threads, runs;
    limber_kernels kernels; /* --kernels of `limber bench`; 0 for the library's default */
    /* full: --full, which adds larger sizes.  first: this is the first of several numbers of
     * threads. */
    bool full, first;
    bool once; /* --once: each contender is called and checked once, without timing */
    int64_t sizes[MOST_SIZES]; /* the numbers given by the option --sizes */
    int size_count, batch;
    double seconds, start;
    uint64_t seed;
    struct results results;
};

/* rows.c: Measures all groups of rows that were asked for.  If a row fails, prints a message and
 * returns false. */
bool rows_measure(struct bench *b);
const char *rows_help_text(bool gpu); /* help text of --rows */
/* Checks the value of --rows.  Prints a message and returns false if a word is unknown. */
bool rows_check_words(const char *list, bool gpu);
/* True if a selected row needs library l; if l is NULL, true if any contender is selected. */
bool rows_use_library(const struct bench *b, const struct library *l);
bool bench_time_left(const struct bench *b);
void bench_timing(struct bench *b, struct timing *t);

/* calls.c: rows of limits and scans, of the latency of calls, and of copies on a GPU. */
bool limit_rows(struct bench *b);
bool scan_rows(struct bench *b);
bool window_rows(struct bench *b); /* windows.c */
bool operator_rows(struct bench *b); /* operators.c */
bool reduction_rows(struct bench *b); /* reductions.c */
bool epilogue_rows(struct bench *b); /* epilogues.c */
bool latency_rows(struct bench *b);
bool copy_rows(struct bench *b);
bool gpu_call_rows(struct bench *b);

/* ---- tables and JSON: print.c ---------------------------------------------------------------- */

/* A line of the printed table, which is also an object of the JSON output. */
struct line {
    const char *what; /* the text to print; NULL for the text `what` of the work */
    const struct work *w;
    const struct contender *c; /* NULL if the line has no contender */
    const char *scheme, *unit;
    int64_t n;
    double value, best;
    double ratio; /* 0 if the line has no ratio */
    const char *of;
    const char *note; /* NULL if the line has no note */
    /* predicted time of the INT8 multiply-adds at the CPU's peak rate, divided by the measured
     * time; 0: not printed */
    double share;
    bool untimed; /* true if the value is not a rate */
    bool all; /* the JSON lists times of all contenders */
    bool shows_workspace; /* the JSON has the size of the workspace */
};
void print_line(struct bench *b, const struct line *l); /* prints a line of `limber bench` */
void print_gpu_line(struct bench *b, const struct line *l);
/* Prints a JSON object for a contender after its first calls and before its timed samples, so that
 * the output shows its state if a later call hangs.  Only for `limber gpu --json`. */
void print_so_far(void *bench, const struct work *w, const struct contender *c);
/* Prints a line with a geometric mean of rates, followed by the text `ratios`. */
void print_mean(struct bench *b, const char *what, double rate, const char *ratios);
void print_skipped_row(struct bench *b, const char *what, const char *why);
void print_text(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void print_head(struct bench *b);
void print_group(struct bench *b, const char *name);
void print_progress(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes JSON of all measurements of `limber bench`; takes b->rows. */
struct cJSON *print_json(struct bench *b);
/* Prints a JSON object on one line, and deletes it. */
void print_object(struct cJSON *j);
/* Makes JSON that describes the device and the libraries which rows use. */
struct cJSON *print_device(const struct bench *b);

#endif
