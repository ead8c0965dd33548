/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber gpu`.  NVIDIA's libraries are opened at run time; their functions
 * and constants are declared here and in the files that call them: building needs none of them. */
#ifndef LIMBER_GPU_H
#define LIMBER_GPU_H

#include "tools/cli/cli.h"

enum {
    MOST_SAMPLES = 9,
    PICKS = 200,
    MOST_SETS = 16,
    MOST_CONTENDERS = 12,
    MOST_SIZES = 8,
    ELEMENT = 16
};

/* ---- the driver ------------------------------------------------------------------------------ */

/* One device and one stream; NULL when it can be used, else what is missing. */
const char *gpu_open(int device, bool pinned);
void gpu_close(void);

struct gpu_about {
    char name[96];
    int driver, major, minor, units; /* 13000 is 13.0 */
    size_t memory, l2;
};
const struct gpu_about *gpu_about(void);
size_t gpu_memory_free(void);
void *gpu_stream(void);

/* All false after a failure, which gpu_error describes; the others wait for the device. */
void *gpu_alloc(size_t bytes); /* NULL: no memory; pinned host memory if so opened */
void gpu_free(void *data);
bool gpu_put(void *to, const void *from, size_t bytes);
bool gpu_get(void *to, const void *from, size_t bytes);
bool gpu_copy(void *to, const void *from, size_t bytes); /* in the stream's order */
bool gpu_fill(void *to, int byte, size_t bytes);
bool gpu_wait(void);
bool gpu_start(void); /* a timing begins in the stream */
double gpu_stop(void); /* seconds since; negative: it failed */

/* What is called between is recorded and can be launched again. */
bool gpu_record(void);
void *gpu_recorded(void); /* NULL: nothing could be */
bool gpu_replay(void *graph);
void gpu_forget(void *graph);

const char *gpu_error(void);
bool gpu_lost(void); /* the device serves no more calls */

/* A shared library by the first of its names (separated by spaces) that can be opened. */
void *gpu_library(const char *names, char *why, size_t size);

/* ---- data ------------------------------------------------------------------------------------ */

enum gpu_data {
    DATA_uniform, /* in (0,1), full significands */
    DATA_normal, /* N(0,1) */
    DATA_scaled, /* N(0,1), rows of A times powers of two */
    DATA_mixed, /* N(0,1); of 3 in 10 blocks of 256 rows of A exponents spread over 60 */
    DATA_integer, /* of `bits` bits and a sign */
    DATA_quad /* uniform, significands of binary128 */
};

/* Random numbers from which rows are cut at random places: the device copies, the host knows every
 * element. */
struct pool {
    void *data;
    limber_format format;
    int64_t segments, length, cols; /* a row lies within one segment, */
    int64_t together; /* which so many neighbouring rows share */
};
bool pool_fill(struct pool *p, enum gpu_data data, int bits, limber_format f, int64_t cols,
               uint64_t seed);
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
const void *tensor_row(const struct tensor *t, int64_t row); /* on the host */

/* ---- works and contenders -------------------------------------------------------------------- */

enum promise {
    PROMISE_sum, /* |error| <= factor (k+2) u |A||B| */
    PROMISE_bits, /* |error| <= 2^-factor |A||B| + u |x| */
    PROMISE_rounded, /* the exact value, rounded once */
    PROMISE_exact,
    PROMISE_bound, /* |error| <= report.bound |A||B| + u |x| */
    PROMISE_loose /* none of its own: beyond 2^-factor |A||B| it computes something else */
};

enum by {
    BY_limber,
    BY_sgemm,
    BY_dgemm,
    BY_f16,
    BY_bf16,
    BY_tf32,
    BY_i8,
    BY_e4m3,
    BY_bf16x9,
    BY_fixed,
    BY_dnn
};

enum state { STATE_ok, STATE_wrong, STATE_skipped, STATE_failed };

struct contender {
    enum by by;
    const char *name;
    limber_contract contract;
    enum promise promise;
    double factor;
    bool base; /* ratios of the work are to the fastest of these */
    bool refused; /* by the contract: no scheme holds it */
    bool emulation; /* tell when it gives the base's bits */
    enum state state;
    char why[200];
    int samples, repeats;
    double seconds[MOST_SAMPLES], median, best;
    double error, allowed; /* largest, of |A||B|, in units of u; what its place was allowed */
    unsigned char got[PICKS][ELEMENT];
    limber_report report;
};

struct gpu_work {
    const char *what, *data_name;
    int64_t m, n, k;
    limber_format fa, fb, fc;
    enum gpu_data data;
    int bits;
    bool tb; /* B is stored as n x k */
    const limber_conv *conv; /* NULL: a product */
    struct contender list[MOST_CONTENDERS];
    int count;
    char why[200]; /* why nothing could be run; "" */
    size_t bytes; /* of one set of operands */
};

/* One call of a contender on one set of operands, in the stream's order.  False: state and why
 * say it. */
bool contender_call(struct contender *c, const struct gpu_work *w, limber_context *ctx,
                    const void *a, const void *b, void *y);

struct measuring {
    limber_context *ctx;
    double until; /* now() after which no sample begins */
    double sample; /* seconds of one sample, about */
    uint64_t seed;
    bool timed; /* false: one checked call each */
    void (*note)(void *user, const struct gpu_work *w, const struct contender *c);
    void *user;
};
void work_measure(struct gpu_work *w, const struct measuring *m);

/* One operand set of a work whose calls are made elsewhere. */
struct bench_set {
    struct pool pa, pb;
    struct tensor a[MOST_SETS], b[MOST_SETS], c[MOST_SETS];
    int sets;
    struct reference *reference;
};
bool set_make(struct bench_set *s, struct gpu_work *w, uint64_t seed, int most);
void set_clear(struct bench_set *s);
bool set_poison(const struct bench_set *s);
/* Compares the result of the first set; on failure the contender's state and why say it. */
bool set_check(const struct bench_set *s, const struct gpu_work *w, struct contender *c);

/* ---- checks ---------------------------------------------------------------------------------- */

struct reference; /* exact values of PICKS elements */
struct reference *reference_make(const struct gpu_work *w, const struct tensor *a,
                                 const struct tensor *b);
void reference_free(struct reference *r);
int64_t reference_place(const struct reference *r, int pick); /* in elements of the result */
/* Compares c->got; sets c->error and c->allowed.  False where a promise is broken. */
bool reference_check(const struct reference *r, const struct gpu_work *w, struct contender *c);
double unit_roundoff(limber_format f);

/* ---- NVIDIA's libraries ---------------------------------------------------------------------- */

struct peer_library {
    const char *name;
    bool usable;
    char version[32], why[160];
};
const struct peer_library *blas_open(void);
const struct peer_library *lt_open(void);
const struct peer_library *dnn_open(void);
void blas_close(void);
void dnn_close(void);
bool blas_call(struct contender *c, const struct gpu_work *w, const void *a, const void *b,
               void *y);
bool lt_call(struct contender *c, const struct gpu_work *w, const void *a, const void *b, void *y);
bool dnn_call(struct contender *c, const struct gpu_work *w, const void *x, const void *f, void *y);
/* Sets the state and the reason; answers false. */
bool contender_stop(struct contender *c, enum state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- rows ------------------------------------------------------------------------------------ */

struct gpu_bench {
    limber_context *ctx;
    const char *backend;
    int device;
    int sizes[MOST_SIZES], size_count; /* of --sizes; 0: each group's own */
    int batch;
    double seconds, start;
    uint64_t seed;
    FILE *table; /* a second copy of the table; NULL: none */
    struct cJSON *rows;
    const char *group;
    int wrong, failed, skipped, measured;
};

/* A line of the table and an object of the JSON. */
struct gpu_row {
    const struct gpu_work *w;
    const struct contender *c;
    double amount; /* of `unit` a call */
    const char *unit;
    bool untimed; /* value and value_ratio stand instead of rate and ratio */
    double value, value_ratio;
    double base; /* seconds of one call of what the ratio is to; 0: none */
    const char *base_name;
    const char *note;
};
void gpu_row(struct gpu_bench *b, const struct gpu_row *r);
void gpu_skip(struct gpu_bench *b, const char *what, const char *why);
/* To the table, and to its copy in a file. */
void gpu_line(struct gpu_bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gpu_head(struct gpu_bench *b);
void gpu_group(struct gpu_bench *b, const char *name);
void gpu_progress(struct gpu_bench *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool gpu_time_left(const struct gpu_bench *b);

/* The groups; each goes on after a row that failed and stops when the device is lost. */
void rows_units(struct gpu_bench *b);
void rows_fp32(struct gpu_bench *b);
void rows_fp64(struct gpu_bench *b);
void rows_quad(struct gpu_bench *b);
void rows_int(struct gpu_bench *b);
void rows_conv(struct gpu_bench *b);
void rows_small(struct gpu_bench *b);
void rows_workspace(struct gpu_bench *b);

#endif
