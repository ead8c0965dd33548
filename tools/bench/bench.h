/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber bench`: peers, limits, measuring. */
#ifndef LIMBER_BENCH_H
#define LIMBER_BENCH_H

#include "tools/cli/cli.h"

/* The machine's or the compiler's binary128, for peers and checks. */
#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

bool cpu_has(const char *feature);  /* avx2, avx512, vnni, avxvnni, fma */

/* ---- peers ----------------------------------------------------------------------------------- */

/* What a peer multiplies.  Its operands are square, dense, row-major and in one format. */
enum kind { KIND_F64, KIND_F32, KIND_I8, KIND_U8, KIND_QUAD, KIND_DD, KIND_INT, KINDS };

limber_format kind_a(enum kind k); /* the formats of its operands and of its result */
limber_format kind_b(enum kind k);
limber_format kind_c(enum kind k);
double kind_unit(enum kind k); /* round-off of the result's format; 0: exact */

struct call {
    int n;
    bool ta, tb;
    const void *a, *b;
    void *c;
};

struct peer {
    const char *name; /* as rows name it */
    enum kind kind;
    int largest; /* beyond it a call takes too long; 0: no limit */
    bool plain; /* knows no transposes */
    bool packed_before; /* prepare packs an operand */
    void *(*prepare)(struct call *); /* outside the timing; NULL: the state is the call */
    void (*run)(void *state);
    void (*fetch)(void *state); /* the result to call.c; NULL: run left it there */
    void (*release)(void *state);
};

struct library {
    const char *name, *files; /* file names to try, separated by spaces */
    void *handle;
    char version[64], kernels[320];
    bool usable;
    char why_not[160];
};

enum { MOST_PEERS = 24 };
/* Finds the libraries and sets each up at its best; answers how many there are in *list. */
int peers_open(struct library **list);
void peers_threads(int threads);
int peers_list(const struct peer **list);

/* ---- our own kernels of other people's ways -------------------------------------------------- */

const char *dd_kernel(void); /* which vectors it uses; NULL: none here */
void dd_gemm(void *call); /* double-double by fused multiply-adds */
void quad_gemm(void *call); /* the compiler's binary128, blocked */

/* ---- the machine's limits -------------------------------------------------------------------- */

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

/* ---- measuring ------------------------------------------------------------------------------- */

enum data {
    UNIFORM, /* multiples of 2^-53 in (-1,1) */
    NORMAL, /* N(0,1) with full significands */
    UNIFORM_QUAD,
    FLOATS, /* binary32 values in four binades */
    INTEGERS /* of `bits` bits and a sign */
};

struct own {
    const char *name;
    limber_context *ctx;
    void (*bound)(void); /* a cblas-like function of the context instead of limber_gemm */
    limber_kernel shape; /* code for this one shape instead of either */
};

struct work {
    const char *group, *what;
    int n, bits;
    enum data data;
    limber_format fa, fb, fc;
    limber_contract contract;
    bool ta, tb;
    unsigned kinds; /* 1 << kind of every peer that runs beside */
    const struct peer *only; /* this one alone */
    double seconds; /* repeat calls until one timing takes this long */
    const struct own *own;
    int owns; /* 1 or 2 */
    int runs, threads;
};

struct result {
    const char *name;
    const struct peer *peer; /* NULL: Limber */
    double median, best; /* seconds of one call */
    double error; /* against Limber, of the tolerance */
};

struct outcome {
    int count, runs;
    struct result r[MOST_PEERS + 2];
    limber_report report; /* of the last call */
    double median_run, best_run; /* without the scan */
};

/* Runs Limber and the peers in turn.  False after a message. */
bool measure(const struct work *w, struct outcome *o);
/* The fastest peer, or the fastest that packs its operands in the timed call; NULL: none ran. */
const struct result *best_peer(const struct outcome *o, bool packed_before);

/* Of n seconds, which it sorts; *best: the least. */
double median(double *v, int n, double *best);

/* A folder with all that is in it. */
bool remove_directory(const char *path);

/* ---- operands -------------------------------------------------------------------------------- */

/* FP64 products of one A, prepared, and plain ones in turn; results in this order. */
struct prepared_work {
    const char *what;
    int64_t m, n, k;
    limber_contract contract;
    limber_context *ctx;
    int runs;
};
bool measure_prepared(const struct prepared_work *w, struct outcome *o);

/* The scan of one operand, in binary64 or binary32, and reading it, in turn. */
enum { SCAN_LENGTH = 4096 }; /* k */
struct scan_work {
    const char *what;
    limber_format f;
    bool across; /* lines are neighbours in memory */
    size_t bytes; /* a multiple of SCAN_LENGTH elements */
    limber_context *ctx;
    int runs, threads;
};
bool measure_scan(const struct scan_work *w, struct outcome *o);

/* A product of data spread over so many binades, one element of A in `special` NaN or infinite (0:
 * none), and one of plain data, in turn; results in this order. */
struct hostile_work {
    const char *what;
    int n, binades, special;
    limber_contract contract, plain;
    limber_context *ctx;
    int runs;
};
bool measure_hostile(const struct hostile_work *w, struct outcome *o);

/* ---- simulated units ------------------------------------------------------------------------- */

struct unit_work {
    const char *what, *words; /* the row's name, the unit's description */
    enum { UNIT_uncounted, UNIT_swamped, UNIT_counted } counts; /* in the kernel's time */
    limber_context *ctx;
    int n, runs, threads;
};

/* Runs the unit, the native FP32 product of the same matrices and, where it knows the unit and is
 * there, CPFloat in turn; results in this order.  False after a message. */
bool measure_unit(const struct unit_work *w, struct outcome *o);

const char *cpfloat_name(void); /* NULL: its headers were not there at build time */
/* c in f, every product and sum of dense row-major matrices rounded to it; group 0: no groups. */
bool cpfloat_gemm(const struct call *c, limber_format f, int group);

#endif
