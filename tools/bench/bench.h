/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the parts of `limber bench` and `limber gpu` share.  Both measure rows, which
 * rows.c has as text: each names an operation, its sizes, formats and data, and who computes it.
 * Other libraries are opened at run time.  Their functions and constants are declared in the files
 * that call them, so that building needs no headers of them. */
#ifndef LIMBER_BENCH_H
#define LIMBER_BENCH_H

#include "tools/bench/timed_cuda.h"
#include "tools/cli/cli.h"

#include <string.h>

/* scripts.c: whether `limber bench WORD` is a Python program, and its index; bench_script executes
 * it with the options after argv[0] and returns only on failure. */
bool bench_is_script(const char *word, int *which);
int bench_script(int which, int argc, const char **argv);

/* The hardware's or the compiler's binary128, for peers and data. */
#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

enum {
    MOST_SAMPLES = 99,
    PICKS = 200,
    MOST_SETS = 16,
    MOST_CONTENDERS = 20,
    MOST_SIZES = 12,
    ELEMENT = 16,
    MOST_KERNELS = 12
};

/* ---- the device: device.c --------------------------------------------------------------------
 *
 * Until device_open succeeds, the host is the device: its memory, its clock. */

/* Opens a GPU with one stream. pinned: allocate pinned host memory.  Returns NULL, or why it is
 * unusable. */
const char *device_open(int device, bool pinned);
void device_close(void);

struct device_info {
    char name[96];
    /* driver: version, 13000 is 13.0; capability major.minor; units: multiprocessors */
    int driver, major, minor, units;
    size_t memory, l2;
};
const struct device_info *device_info(void); /* all zeros: the host */
size_t device_memory_free(void);
void *device_stream(void);

/* The functions below return NULL or false on failure, which device_error describes.  All but
 * device_copy wait for the device. */
void *device_alloc(size_t bytes); /* NULL: out of memory; pinned host memory if opened so */
void device_free(void *data);
bool device_put(void *to, const void *from, size_t bytes);
bool device_get(void *to, const void *from, size_t bytes);
bool device_copy(void *to, const void *from, size_t bytes); /* asynchronous, in the stream */
bool device_fill(void *to, int byte, size_t bytes);
bool device_wait(void);
/* host timings are the process's CPU time instead of wall time */
void device_host_time(bool of_cpu);
bool device_start(void); /* starts a timing in the stream */
double device_stop(void); /* seconds since device_start; negative: failure */

/* Captures the calls between device_record and device_recorded in a CUDA graph. */
bool device_record(void);
void *device_recorded(void); /* the graph; NULL: capture failed */
bool device_replay(void *graph);
void device_graph_free(void *graph);

const char *device_error(void);
bool device_lost(void); /* the device failed and accepts no more calls */
void *device_symbol(const char *name); /* a function of the driver; NULL: absent */
/* Value of an attribute by its CUdevice_attribute number; -1: unknown. */
int device_attribute(int number);

/* device_watch.c: device_stop samples clocks and power while the device is still busy.  Without
 * NVML they are zeros, and watch_open returns why. */
struct device_now {
    int sm_mhz, memory_mhz, celsius;
    double watts; /* on some devices the driver's mean over the last second */
    unsigned long long reasons; /* why clocks are throttled: bits of nvmlClocksEventReasons */
};
const char *watch_open(int device);
void watch_close(void);
void watch_look(void);
struct device_now watch_last(void);
/* kernels_end lists the kernels since kernels_begin with their times, as timed_end_fn does.
 * kernels_begin: false if LIMBER_CUDA does not name timed_cuda.c. */
bool kernels_begin(void);
int kernels_end(struct timed_kernel *list, int room);

/* ---- operands' data -------------------------------------------------------------------------- */

enum data {
    DATA_uniform, /* in (0,1), full significands */
    DATA_signed, /* multiples of 2^-53 in (-1,1) */
    DATA_normal, /* N(0,1) */
    DATA_scaled, /* N(0,1), rows of A times powers of two */
    DATA_mixed, /* N(0,1); exponents of 3 in 10 blocks of 256 rows of A spread over 60 */
    DATA_floats, /* binary32 values in four binades */
    DATA_integers, /* `bits` bits and a sign */
    DATA_cancels, /* N(0,1); sums cancel but for relative errors of up to 2^-bits of A (0: none) */
    DATA_quad, /* uniform, significands of binary128 */
    /* exponents spread over `binades`; one element of A in `special` is NaN or infinite (0:
     * none) */
    DATA_spread
};
/* How operands' data are drawn. */
struct data_kind {
    enum data data;
    int bits, binades, special;
};

/* A pool of random numbers; matrix rows are copies of random places in it.  The device copies them,
 * while the host knows every element. */
struct pool {
    void *data;
    limber_format format;
    /* number of segments; elements of one; elements of a row, which lies within one segment */
    int64_t segments, length, cols;
    int64_t together; /* number of neighbouring rows that are cut from the same segment */
    int64_t repeats; /* rows repeat after so many; 0: they do not */
};
bool pool_fill(struct pool *p, struct data_kind d, limber_format f, int64_t cols, uint64_t seed);
void pool_clear(struct pool *p);

struct tensor { /* dense, row-major */
    void *data; /* device memory */
    const struct pool *pool; /* NULL: a result */
    uint64_t seed;
    limber_format format;
    int64_t rows, cols;
};
size_t tensor_bytes(const struct tensor *t);
bool tensor_fill(struct tensor *t, const void *device_pool);
/* Elements of a convolution's window, pixels of its image. */
static inline int64_t conv_taps(const limber_conv *s)
{
    return (s->t ? s->t : 1) * s->r * s->s;
}
static inline int64_t conv_pixels(const limber_conv *s)
{
    return (s->t ? s->d : 1) * s->h * s->w;
}
const void *tensor_row(const struct tensor *t, int64_t row); /* host copy of a row */

/* ---- work items and contenders: measure.c ---------------------------------------------------- */

enum promise {
    PROMISE_sum, /* |error| <= factor (k+2) u |A||B| */
    PROMISE_bits, /* |error| <= 2^-factor |A||B| + u |x| */
    PROMISE_rounded, /* the exact value, rounded once */
    PROMISE_exact,
    PROMISE_bound, /* |error| <= report.bound |A||B| + u |x| */
    PROMISE_loose, /* no bound is promised; an error above 2^-factor |A||B| is a wrong result */
    PROMISE_unit /* the bits of the simulated unit */
};

/* The way in which Limber is called. */
enum variant {
    CALL_plain,
    CALL_bound, /* through a function of limber_bind */
    CALL_shape, /* through a function of limber_bind_shape */
    CALL_prepared, /* with A prepared */
    CALL_easy, /* on well-scaled data instead of the row's */
    CALL_two_threads,
    CALL_one_thread
};

enum state { STATE_ok, STATE_wrong, STATE_skipped, STATE_failed, STATE_absent };

/* One set of operands and result. */
struct operands {
    const char *formats; /* a peer's formats as text; NULL: the work's formats */
    limber_format fa, fb, fy;
    const void *a, *b;
    void *y;
};

/* One library or variant of Limber that computes a row, with its times. */
struct contender {
    const struct peer *peer; /* NULL: Limber */
    const char *name; /* Limber's variant or contract for tables; NULL: the default */
    limber_contract contract;
    enum variant variant;
    limber_context *ctx, *own_ctx, *maker; /* maker: as in struct bench */
    enum promise promise;
    double factor;
    bool base; /* the work's ratios are to the fastest contender with this flag */
    bool refused; /* no scheme keeps the contract */
    enum state state;
    char why[200];
    struct work *work;
    const struct operands *now; /* operands of the next call */
    void *workspace; /* device memory for calls that are recorded in a graph; else NULL */
    size_t workspace_bytes;
    void *prepared; /* the peer's own state, or Limber's prepared operand */
    void (*function)(void); /* what CALL_bound and CALL_shape call */
    int samples, repeats;
    double seconds[MOST_SAMPLES], run_seconds[MOST_SAMPLES], median, best;
    struct timed_kernel kernels[MOST_KERNELS]; /* kernels of a single call */
    int kernel_count;
    struct device_now device; /* clocks and power in the last sample */
    /* largest error relative to |A||B|, in units of u; bound for the same element */
    double error, allowed;
    unsigned char got[PICKS][ELEMENT];
    limber_report report;
    bool reports; /* the next call fills the report */
};

/* A row: what is multiplied, and who multiplies it. */
struct work {
    const char *group;
    char what[64], data_name[48]; /* data_name "": not printed */
    int64_t m, n, k;
    int64_t batch; /* number of products of this shape, contiguous in memory */
    double products; /* multiply-adds of a naive loop: m n k, or those of a convolution */
    limber_format fa, fb, fc;
    struct data_kind data;
    bool ta, tb; /* stored transposed: A as k x m, B as n x k */
    const char *unit_words; /* description of a simulated unit; NULL: none */
    limber_unit unit;
    limber_statistics statistics;
    bool counts;
    limber_operation operation;
    limber_conv conv; /* geometry of a convolution */
    struct contender list[MOST_CONTENDERS];
    int count;
    int threads;
    limber_kernels kernels; /* kernels that contexts made for this work may use */
    char why[200]; /* why nothing was measured; "": no failure */
    size_t bytes; /* bytes of one set of operands and result */
};

/* Limits and callbacks of a measurement. */
struct timing {
    /* samples of each contender; samples that are taken even after the time limit */
    int runs, least;
    double sample, most; /* approximate seconds of a sample; seconds of all samples of a work */
    uint64_t seed;
    bool timed; /* false: one checked call of each contender */
    /* called before a contender is called, and after its first calls, which were checked */
    void (*note)(void *user, const struct work *w, const struct contender *c);
    void (*called)(void *user, const struct work *w, const struct contender *c);
    void *user;
};

/* Measures all contenders; after a failure `why` of the work or contender has the reason. */
void work_measure(struct work *w, const struct timing *t);
/* Sets the contender's state and reason; returns false. */
bool contender_stop(struct contender *c, enum state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool contender_call(struct contender *c);
void contender_median(struct contender *c);
/* Fastest contender with the base flag; NULL: none was measured. */
const struct contender *work_base(const struct work *w);
/* Whether the checked elements of both results have the same bits. */
bool same_bits(const struct contender *x, const struct contender *y);

/* Operand sets of a work.  There are enough that repeated calls do not find their operands in the
 * GPU's L2 cache. */
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
/* Checks the result of c->now; on failure the contender's state and why are set. */
bool result_check(const struct operand_sets *s, struct contender *c);

/* ---- checks of results ----------------------------------------------------------------------- */

struct reference; /* exact values of PICKS elements of the result */
struct reference *reference_make(const struct work *w, const struct tensor *a,
                                 const struct tensor *b);
void reference_free(struct reference *r);
/* index of the element in the result */
int64_t reference_place(const struct reference *r, int pick);
/* Checks c->got; sets c->error and c->allowed.  False if it breaks its promise. */
bool reference_check(const struct reference *r, struct contender *c);
/* Compares a corner of a simulated unit's result, and its statistics, with the interpreter's. */
bool unit_check(struct contender *c);

/* ---- peers: other libraries ------------------------------------------------------------------ */

struct bench;
/* Another library, or why it is absent. */
struct library {
    const char *name, *files; /* file names to try, separated by spaces */
    bool (*open)(struct library *l); /* loads it; false: why_not is set */
    void (*threads)(int);
    void (*close)(void);
    void *handle;
    char version[64], kernels[320], why_not[200]; /* why_not "": it was not asked for */
    bool gpu, usable;
    void *gemm[2]; /* cblas_dgemm, cblas_sgemm */
};

struct peer {
    const char *word, *name; /* word in rows, which several peers may share; name in tables */
    struct library *library; /* NULL: kernels.c or cpfloat.c */
    /* formats of operands and result, to which operands are converted; NULL: the work's */
    const char *formats;
    int64_t largest; /* largest n for which a call is not too slow; 0: no limit */
    bool plain; /* takes no transposed operands */
    bool packed_before; /* prepare packs an operand outside the timing */
    bool emulation; /* print whether its bits equal the base's */
    enum promise promise;
    double factor;
    int loss; /* integer sums may err by 2^-loss |A||B|; 0: they are exact */
    int code[3]; /* parameters that the peer's functions read, such as the library's type codes */
    bool (*prepare)(struct contender *c); /* untimed setup; false: no kernel for this work */
    bool (*run)(struct contender *c); /* false: state and why are set */
    /* untimed copy of the result to y; NULL: run wrote it there */
    void (*fetch)(struct contender *c);
    void (*release)(struct contender *c);
};

/* Opens those libraries that the command's rows use. */
void peers_open(const struct bench *b);
void peers_close(void);
void peers_threads(int threads);
int peers_list(const struct peer **list);
int libraries_list(struct library *const **list);

bool library_load(struct library *l);
bool library_refuse(struct library *l, const char *why); /* returns false */
struct symbol {
    const char *name;
    void *function; /* address of the function pointer to set */
};
/* Looks all symbols up; on failure why_not names the missing one. */
bool library_find(struct library *l, const struct symbol *list, size_t count);
#define LIBRARY_FIND(l, list) library_find(l, list, sizeof(list) / sizeof *(list))

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

/* peers_torch.c: PyTorch in a child process of python3. torch_version: NULL if it is absent.
 * torch_run: seconds of one call, negative if PyTorch has no such function. */
const char *torch_version(void);
double torch_run(const char *function, const char *format, size_t count, int threads);
/* Seconds of a row's convolution by PyTorch, in FP32 on random tensors in the row's layout; CPU
 * time or wall time. */
double torch_convolve(const struct work *w, int threads, bool cpu_time);
void torch_close(void);

/* kernels.c: peers of our own, written after published algorithms. */
const char *dd_kernel(void); /* vector extension in use; NULL: none here */
bool dd_prepare(struct contender *c);
bool dd_gemm(struct contender *c); /* double-double by fused multiply-adds */
bool quad_prepare(struct contender *c);
bool quad_gemm(struct contender *c); /* the compiler's binary128, blocked */

/* cpfloat.c: dense row-major products by CPFloat, which rounds every product and sum to the unit's
 * format. */
const char *cpfloat_name(void); /* NULL: built without its headers */
bool cpfloat_prepare(struct contender *c);
bool cpfloat_gemm(struct contender *c);

/* ---- limits of the hardware: limits.c -------------------------------------------------------- */

bool cpu_has(const char *feature); /* avx2, avx512, vnni, avxvnni, fma */

struct limit {
    const char *what, *unit;
    double rate; /* units per second, summed over threads */
    bool int8; /* it counts INT8 multiply-adds */
};
enum { MOST_LIMITS = 16 };
int limits_measure(int threads, struct limit *list);
/* Fastest rate of INT8 multiply-adds and its instruction; 0: none. */
double limits_int8(int threads, const char **instruction);
/* Seconds in which all threads together read the buffer once; 0: not measurable. */
double limits_read(int threads, const void *buffer, size_t bytes);

/* ---- the commands bench and gpu -------------------------------------------------------------- */

/* Accumulates a geometric mean of ratios over rows of one kind. */
struct mean_ratio {
    const char *name; /* the peer's name */
    double sum, least; /* sum of logarithms; smallest ratio */
    int count, below; /* below: number of ratios under 1 */
};
/* The mean over convolutions of one kind. */
struct conv_mean {
    char kind[48]; /* data_name of the rows */
    double rate;
    int count;
    struct mean_ratio to[2], torch;
};
enum { MOST_MEANS = 48 };

struct bench {
    bool gpu, json;
    bool cpu_time; /* time is the process's CPU time */
    limber_context *ctx;
    /* makes specialised kernels before the timing, which ctx then loads from disk; may be NULL */
    limber_context *maker;
    const char *backend, *only; /* only: groups for --rows; NULL: all */
    const char *by; /* comma-separated substrings of contenders' words, for --by; NULL: all */
    const char *unwatched; /* why clocks are not sampled; NULL: they are */
    int device, threads, runs;
    limber_kernels kernels; /* --kernels of `limber bench`; 0: the library's default */
    bool full, first; /* first: this is the first of several thread counts */
    bool once; /* one checked, untimed call of each row */
    int64_t sizes[MOST_SIZES]; /* values of --sizes */
    int size_count, batch;
    double seconds, start;
    uint64_t seed;
    struct cJSON *rows;
    const char *group;
    int count[STATE_absent]; /* number of rows in each state */
    double int8; /* peak INT8 multiply-adds per second; 0: not measured yet */
    const char *int8_by;
    double rate128, rate_dd; /* rates of the last binary128 and double-double products */
    struct conv_mean means[MOST_MEANS]; /* means over convolutions measured so far */
    int mean_count;
    char torch[48]; /* PyTorch's name in their ratios */
};

/* rows.c: measures all groups that were asked for.  False: a row failed, after a message. */
bool rows_measure(struct bench *b);
const char *rows_words(bool gpu); /* help text of --rows */
bool rows_known(const char *list, bool gpu); /* checks --rows; false after a message */
/* whether a row uses l; NULL: any contender */
bool rows_ask(const struct bench *b, const struct library *l);
bool bench_time_left(const struct bench *b);
void bench_timing(struct bench *b, struct timing *t);

/* calls.c: rows that are not products, and rows of call overheads. */
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

/* A line of the table, and an object of the JSON. */
struct line {
    const char *what; /* NULL: the work's `what` */
    const struct work *w;
    const struct contender *c; /* NULL: no contender */
    const char *scheme, *unit;
    int64_t n;
    double value, best;
    double ratio; /* 0: none */
    const char *of;
    const char *note; /* NULL: none */
    double share; /* share of the time in which the INT8 multiply-adds run at peak; 0: not shown */
    bool untimed; /* the value is not a rate */
    bool all; /* the JSON lists the times of all contenders */
    bool shows_workspace; /* the JSON has the bytes of workspace */
};
void print_line(struct bench *b, const struct line *l); /* for `limber bench` */
void print_gpu_line(struct bench *b, const struct line *l);
/* Prints what is known of a contender before its row, with the word "so_far" for its state: a
 * contender that hangs afterwards would take it along.  Only for `limber gpu --json`. */
void print_so_far(void *bench, const struct work *w, const struct contender *c);
/* Prints a geometric mean of rates, and ratios as text. */
void print_mean(struct bench *b, const char *what, double rate, const char *ratios);
void print_skip(struct bench *b, const char *what, const char *why);
void print_text(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void print_head(struct bench *b);
void print_group(struct bench *b, const char *name);
void print_progress(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All measurements of `limber bench` as JSON; deletes b->rows. */
struct cJSON *print_json(struct bench *b);
/* Prints an object on one line and deletes it. */
void print_object(struct cJSON *j);
/* Describes the device and the libraries that rows use. */
struct cJSON *print_device(const struct bench *b);

#endif
