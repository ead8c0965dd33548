/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber bench` and `limber gpu`.  Both measure rows of text (rows.c): each
 * names an operation, its sizes, formats and data, and who computes it.  Other libraries are opened
 * at run time.  Their functions and constants are declared in the files that call them, so that
 * building needs none of them. */
#ifndef LIMBER_BENCH_H
#define LIMBER_BENCH_H

#include "tools/bench/timed_cuda.h"
#include "tools/cli/cli.h"

#include <string.h>

/* scripts.c: whether `limber bench WORD` is a program in Python, and which; runs it with the
 * options behind argv[0], and returns where it cannot start. */
bool bench_is_script(const char *word, int *which);
int bench_script(int which, int argc, const char **argv);

/* The machine's or the compiler's binary128, for peers and data. */
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

/* One GPU and one stream; NULL when it can be used, else what is missing. */
const char *device_open(int device, bool pinned);
void device_close(void);

struct device_info {
    char name[96];
    int driver, major, minor, units; /* 13000 is 13.0 */
    size_t memory, l2;
};
const struct device_info *device_info(void); /* zeros: the host */
size_t device_memory_free(void);
void *device_stream(void);

/* All false after a failure, which device_error describes; the others wait for the device. */
void *device_alloc(size_t bytes); /* NULL: no memory; pinned host memory if so opened */
void device_free(void *data);
bool device_put(void *to, const void *from, size_t bytes);
bool device_get(void *to, const void *from, size_t bytes);
bool device_copy(void *to, const void *from, size_t bytes); /* in the stream's order */
bool device_fill(void *to, int byte, size_t bytes);
bool device_wait(void);
void device_host_time(bool of_cpu); /* of the process, in the place of the clock's */
bool device_start(void); /* a timing begins in the stream */
double device_stop(void); /* seconds since; negative: it failed */

/* A CUDA graph of the calls between the first two. */
bool device_record(void);
void *device_recorded(void); /* NULL: nothing could be recorded */
bool device_replay(void *graph);
void device_graph_free(void *graph);

const char *device_error(void);
bool device_lost(void); /* the device serves no more calls */
void *device_symbol(const char *name); /* of the driver; NULL: it has none */
/* Asks the driver for an attribute by its number; -1: it has none. */
int device_attribute(int number);

/* device_watch.c: device_stop reads clocks and power while the device still works.  Without NVML
 * they are zeros, and watch_open says why. */
struct device_now {
    int sm_mhz, memory_mhz, celsius;
    double watts; /* the driver's mean of the last second, on some devices */
    unsigned long long reasons; /* why clocks are low: bits of nvmlClocksEventReasons */
};
const char *watch_open(int device);
void watch_close(void);
void watch_look(void);
struct device_now watch_last(void);
/* kernels_end lists the kernels since kernels_begin with their times, as of timed_end_fn.  False:
 * LIMBER_CUDA does not name timed_cuda.c. */
bool kernels_begin(void);
int kernels_end(struct timed_kernel *list, int room);

/* ---- data: data.c ---------------------------------------------------------------------------- */

enum data {
    DATA_uniform, /* in (0,1), full significands */
    DATA_signed, /* multiples of 2^-53 in (-1,1) */
    DATA_normal, /* N(0,1) */
    DATA_scaled, /* N(0,1), rows of A times powers of two */
    DATA_mixed, /* N(0,1); exponents of 3 in 10 blocks of 256 rows of A spread over 60 */
    DATA_floats, /* binary32 values in four binades */
    DATA_integers, /* of `bits` bits and a sign */
    DATA_quad, /* uniform, significands of binary128 */
    DATA_spread /* over `binades`; one element of A in `special` is NaN or infinite (0: none) */
};
struct data_kind {
    enum data data;
    int bits, binades, special;
};

/* Random numbers from which rows are cut at random places: the device copies, the host knows every
 * element. */
struct pool {
    void *data;
    limber_format format;
    int64_t segments, length, cols; /* a row lies within one segment, */
    int64_t together; /* which so many neighbouring rows share */
};
bool pool_fill(struct pool *p, struct data_kind d, limber_format f, int64_t cols, uint64_t seed);
void pool_clear(struct pool *p);

struct tensor { /* dense, row by row */
    void *data; /* on the device */
    const struct pool *pool; /* NULL: a result */
    uint64_t seed;
    limber_format format;
    int64_t rows, cols;
};
size_t tensor_bytes(const struct tensor *t);
bool tensor_fill(struct tensor *t, const void *device_pool);
/* Of a convolution: elements of a window, pixels of an image. */
static inline int64_t conv_taps(const limber_conv *s)
{
    return (s->t ? s->t : 1) * s->r * s->s;
}
static inline int64_t conv_pixels(const limber_conv *s)
{
    return (s->t ? s->d : 1) * s->h * s->w;
}
const void *tensor_row(const struct tensor *t, int64_t row); /* on the host */

/* ---- works and contenders: measure.c --------------------------------------------------------- */

enum promise {
    PROMISE_sum, /* |error| <= factor (k+2) u |A||B| */
    PROMISE_bits, /* |error| <= 2^-factor |A||B| + u |x| */
    PROMISE_rounded, /* the exact value, rounded once */
    PROMISE_exact,
    PROMISE_bound, /* |error| <= report.bound |A||B| + u |x| */
    PROMISE_loose, /* none of its own: beyond 2^-factor |A||B| it computes something else */
    PROMISE_unit /* the bits of the simulated unit */
};

/* How Limber is called. */
enum variant {
    CALL_plain,
    CALL_bound, /* a function of limber_bind */
    CALL_shape, /* a function of limber_bind_shape */
    CALL_prepared, /* A is prepared */
    CALL_easy, /* on plain data instead of the row's */
    CALL_two_threads,
    CALL_one_thread
};

enum state { STATE_ok, STATE_wrong, STATE_skipped, STATE_failed, STATE_absent };

struct operands {
    const char *formats; /* as a peer names them; NULL: the work's own */
    limber_format fa, fb, fy;
    const void *a, *b;
    void *y;
};

struct contender {
    const struct peer *peer; /* NULL: Limber */
    const char *name; /* Limber's: how it was called or what was asked for; NULL: nothing special */
    limber_contract contract;
    enum variant variant;
    limber_context *ctx, *own_ctx, *maker; /* maker: as of struct bench */
    enum promise promise;
    double factor;
    bool base; /* ratios of the work are to the fastest of these */
    bool refused; /* by the contract: no scheme holds it */
    enum state state;
    char why[200];
    struct work *work;
    const struct operands *now; /* of the call to be made */
    void *prepared; /* the peer's own state, or a prepared operand */
    void (*function)(void); /* for CALL_bound and CALL_shape */
    int samples, repeats;
    double seconds[MOST_SAMPLES], run_seconds[MOST_SAMPLES], median, best;
    struct timed_kernel kernels[MOST_KERNELS]; /* of one call by itself */
    int kernel_count;
    struct device_now device; /* in the last sample */
    double error, allowed; /* largest, of |A||B|, in units of u; what its place was allowed */
    unsigned char got[PICKS][ELEMENT];
    limber_report report;
    bool reports; /* the next call fills it */
};

struct work {
    const char *group;
    char what[64], data_name[48]; /* data_name "": not shown */
    int64_t m, n, k;
    int64_t batch; /* products of that shape, one after the other in memory */
    double products; /* that a plain loop would form: those of m x n x k, or of a convolution */
    limber_format fa, fb, fc;
    struct data_kind data;
    bool ta, tb; /* A is stored as k x m, B as n x k */
    const char *unit_words; /* of a simulated unit; NULL: none */
    limber_unit unit;
    limber_statistics statistics;
    bool counts;
    limber_operation operation;
    limber_conv conv; /* of a convolution */
    struct contender list[MOST_CONTENDERS];
    int count;
    int threads;
    limber_kernels kernels; /* of contexts of its own */
    char why[200]; /* why nothing could be run; "" */
    size_t bytes; /* of one set of operands */
};

/* How works are measured. */
struct timing {
    int runs, least; /* samples of each; so many of them even when time is up */
    double sample, most; /* seconds of one sample, about; of all samples of a work */
    uint64_t seed;
    bool timed; /* false: one checked call each */
    void (*note)(void *user, const struct work *w, const struct contender *c);
    void *user;
};

/* Fills the list; on failure the work's or a contender's `why` says it. */
void work_measure(struct work *w, const struct timing *t);
/* Sets the state and the reason; answers false. */
bool contender_stop(struct contender *c, enum state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool contender_call(struct contender *c);
void contender_median(struct contender *c);
/* The fastest base; NULL: none ran. */
const struct contender *work_base(const struct work *w);
/* Whether both gave the same bits wherever results were looked at. */
bool same_bits(const struct contender *x, const struct contender *y);

/* The operand sets of a work: enough that repeated calls do not find theirs in the L2 cache. */
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
/* Compares the result of c->now; on failure the contender's state and why say it. */
bool result_check(const struct operand_sets *s, struct contender *c);

/* ---- checks: check.c ------------------------------------------------------------------------- */

struct reference; /* exact values of PICKS elements */
struct reference *reference_make(const struct work *w, const struct tensor *a,
                                 const struct tensor *b);
void reference_free(struct reference *r);
int64_t reference_place(const struct reference *r, int pick); /* in elements of the result */
/* Compares c->got; sets c->error and c->allowed.  False where a promise is broken. */
bool reference_check(const struct reference *r, struct contender *c);
/* Compares a corner of a simulated unit's result, and its counts, with the interpreter's. */
bool unit_check(struct contender *c);

/* ---- peers: peers.c and peers_*.c ------------------------------------------------------------ */

struct bench;
struct library {
    const char *name, *files; /* file names to try, separated by spaces */
    bool (*open)(struct library *l); /* loads it; false: why_not says it */
    void (*threads)(int);
    void (*close)(void);
    void *handle;
    char version[64], kernels[320], why_not[200]; /* why_not "": it was not asked for */
    bool gpu, usable;
    void *gemm[2]; /* cblas_dgemm, cblas_sgemm */
};

struct peer {
    const char *word, *name; /* as rows name it (several peers may share a word); as tables do */
    struct library *library; /* NULL: our own code */
    const char *formats; /* of its operands and result, and of the copies made for it; NULL: the
                            work's */
    int64_t largest; /* beyond it a call takes too long; 0: no limit */
    bool plain; /* knows no transposes */
    bool packed_before; /* prepare packs an operand */
    bool emulation; /* tell when it gives the base's bits */
    enum promise promise;
    double factor;
    int loss; /* 2^-loss of |A||B| is what sums of integers may be wrong by; 0: exact */
    int code[3]; /* the library's own, for its run */
    bool (*prepare)(struct contender *c); /* outside the timing; false: it has no kernel for this */
    bool (*run)(struct contender *c); /* false: state and why say it */
    void (*fetch)(struct contender *c); /* the result to y; NULL: run left it there */
    void (*release)(struct contender *c);
};

/* Opens the libraries of one command: those that the rows ask for. */
void peers_open(const struct bench *b);
void peers_close(void);
void peers_threads(int threads);
int peers_list(const struct peer **list);
int libraries_list(struct library *const **list);

bool library_load(struct library *l);
bool library_refuse(struct library *l, const char *why); /* false */
struct symbol {
    const char *name;
    void *function; /* where its address goes */
};
/* Finds all, else says which is missing. */
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

/* peers_torch.c: PyTorch in a process of python3.  Its version, NULL: there is none; the seconds of
 * one call, negative where it has no such function. */
const char *torch_version(void);
double torch_run(const char *function, const char *format, size_t count, int threads);
/* The same of a row's convolution, in FP32 on random tensors in its layout, of the CPU's time or
 * the clock's. */
double torch_convolve(const struct work *w, int threads, bool cpu_time);
void torch_close(void);

/* kernels.c: our own kernels of other people's ways. */
const char *dd_kernel(void); /* which vectors it uses; NULL: none here */
bool dd_prepare(struct contender *c);
bool dd_gemm(struct contender *c); /* double-double by fused multiply-adds */
bool quad_prepare(struct contender *c);
bool quad_gemm(struct contender *c); /* the compiler's binary128, blocked */

/* cpfloat.c: every product and sum of dense row-major matrices rounded to the unit's format. */
const char *cpfloat_name(void); /* NULL: its headers were not there at build time */
bool cpfloat_prepare(struct contender *c);
bool cpfloat_gemm(struct contender *c);

/* ---- the machine's limits: limits.c ---------------------------------------------------------- */

bool cpu_has(const char *feature); /* avx2, avx512, vnni, avxvnni, fma */

struct limit {
    const char *what, *unit;
    double rate; /* per second, all threads together */
    bool int8; /* counts products of bytes */
};
enum { MOST_LIMITS = 16 };
int limits_measure(int threads, struct limit *list);
/* The fastest of the byte products; 0 when there is none. */
double limits_int8(int threads, const char **instruction);
/* Seconds of reading so many bytes once, each thread its share; 0 where that cannot be measured. */
double limits_read(int threads, const void *buffer, size_t bytes);

/* ---- the two commands ------------------------------------------------------------------------ */

/* Sums of logarithms over rows of one kind. */
struct mean_ratio {
    const char *name; /* of the peer */
    double sum, least;
    int count, below; /* below: ratios under 1 */
};
struct conv_mean {
    char kind[48]; /* as the rows' data is named */
    double rate;
    int count;
    struct mean_ratio to[2], torch;
};
enum { MOST_MEANS = 48 };

struct bench {
    bool gpu, json;
    bool cpu_time; /* timings are of the process's CPU time */
    limber_context *ctx;
    limber_context *maker; /* makes specialised kernels before the clock, which ctx then finds on
                              disk; or NULL */
    const char *backend, *only; /* only: words of --rows; NULL: all */
    const char *by; /* parts of words of the table of rows, with commas between; NULL: all */
    const char *unwatched; /* why clocks are not read; NULL: they are */
    int device, threads, runs;
    limber_kernels kernels; /* of `limber bench`; 0: as the library chooses */
    bool full, first; /* first: of several thread counts */
    bool once; /* a checked call of each row, without times */
    int64_t sizes[MOST_SIZES]; /* of --sizes */
    int size_count, batch;
    double seconds, start;
    uint64_t seed;
    struct cJSON *rows;
    const char *group;
    int count[STATE_absent]; /* rows in each state */
    double int8; /* the machine's byte products per second; 0: not measured yet */
    const char *int8_by;
    double rate128, rate_dd; /* of the last products in these formats */
    struct conv_mean means[MOST_MEANS]; /* of the convolutions so far */
    int mean_count;
    char torch[48]; /* what their ratios call PyTorch */
};

/* rows.c: all groups that were asked for.  False: a row failed, after a message. */
bool rows_measure(struct bench *b);
const char *rows_words(bool gpu); /* what --rows takes */
bool rows_known(const char *list, bool gpu); /* --rows; false after a message */
bool rows_ask(const struct bench *b, const struct library *l); /* NULL: for anything at all */
bool bench_time_left(const struct bench *b);
void bench_timing(struct bench *b, struct timing *t);

/* calls.c: rows of what is no product, and of what a call costs besides its arithmetic. */
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

/* A line of the table and an object of the JSON. */
struct line {
    const char *what; /* NULL: the work's */
    const struct work *w;
    const struct contender *c; /* NULL: none */
    const char *scheme, *unit;
    int64_t n;
    double value, best;
    double ratio; /* 0: none */
    const char *of;
    const char *note; /* NULL: none */
    double share; /* of the time that the byte products need at their peak; 0 */
    bool untimed; /* the value is no rate */
    bool all; /* the JSON has what every contender took */
    bool shows_workspace; /* beyond operands: the JSON has its bytes */
};
void print_line(struct bench *b, const struct line *l); /* of `limber bench` */
void print_gpu_line(struct bench *b, const struct line *l);
/* A geometric mean of rates, and ratios as a text. */
void print_mean(struct bench *b, const char *what, double rate, const char *ratios);
void print_skip(struct bench *b, const char *what, const char *why);
void print_text(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void print_head(struct bench *b);
void print_group(struct bench *b, const char *name);
void print_progress(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All that `limber bench` measured; deletes b->rows. */
struct cJSON *print_json(struct bench *b);
/* Prints an object on one line and deletes it. */
void print_object(struct cJSON *j);
/* Describes the device and the libraries that rows ask for. */
struct cJSON *print_device(const struct bench *b);

#endif
