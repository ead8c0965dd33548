/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench: ratios to other libraries and to the machine, all from one run on one thread.
 * Own calls and peers' alternate; every figure is a median. */
#define _GNU_SOURCE
#include "cli.h"

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 7 };

/* ---- peer ------------------------------------------------------------------------------------------ */

typedef void dgemm_fn(int, int, int, int, int, int, double, const double *, int, const double *,
                      int, double, double *, int);
typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *, int,
                      float, float *, int);

struct peer {
    void *library;
    dgemm_fn *dgemm;
    sgemm_fn *sgemm;
    char core[64], config[256];
};

static bool has(const char *feature)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strcmp(feature, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!strcmp(feature, "vnni"))
        return __builtin_cpu_supports("avx512vnni");
    if (!strcmp(feature, "avx2"))
        return __builtin_cpu_supports("avx2");
#endif
    (void)feature;
    return false;
}

static bool is_wide(const char *core)
{
    return strcasestr(core, "skylakex") || strcasestr(core, "cooperlake") ||
           strcasestr(core, "sapphire");
}

/* Debian's OpenBLAS takes newer CPUs for old ones, and environments name kernels for older ones:
 * a peer at its best uses the vectors that the CPU has. */
static void name_kernels(void)
{
    const char *core = getenv("OPENBLAS_CORETYPE");

    if (has("avx512") && !(core && is_wide(core)))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
}

static bool open_peer(struct peer *p)
{
    char *(*core)(void), *(*config)(void);
    void (*threads)(int);

    memset(p, 0, sizeof *p);
    name_kernels();
    p->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!p->library)
        return false;
    *(void **)&p->dgemm = dlsym(p->library, "cblas_dgemm");
    *(void **)&p->sgemm = dlsym(p->library, "cblas_sgemm");
    *(void **)&core = dlsym(p->library, "openblas_get_corename");
    *(void **)&config = dlsym(p->library, "openblas_get_config");
    *(void **)&threads = dlsym(p->library, "openblas_set_num_threads");
    if (!p->dgemm || !p->sgemm || !threads)
        return false;
    threads(1);
    snprintf(p->core, sizeof p->core, "%s", core ? core() : "unknown");
    snprintf(p->config, sizeof p->config, "%s", config ? config() : "unknown");
    return true;
}

/* An SSE kernel on a machine with AVX2 is no peer. */
static bool misdetected(const struct peer *p)
{
    static const char *const old[] = { "Prescott", "Core2", "Katmai", "Generic", "Nehalem" };

    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcasestr(p->core, old[i]))
            return has("avx2");
    return false;
}

/* ---- the machine's own limit -------------------------------------------------------------------------- */

#define TIMES24(X)                                                                              \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define TIMES12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Byte products per second of a loop that touches registers only. */
static double peak(const char **instruction)
{
    long n = 4000000, left = n;
    double start, seconds, each = 0;

    *instruction = "none";
    start = now();
#if defined(__x86_64__)
    if (has("vnni")) {
#define X(r) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #r "\n"
        __asm__ volatile("1:\n" TIMES24(X) "dec %0\njnz 1b" : "+r"(left));
#undef X
        each = 24 * 64;
        *instruction = "vpdpbusd zmm";
    } else if (has("avx2")) {
#define X(r) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\nvpaddd %%ymm13, %%ymm" #r ", %%ymm" #r "\n"
        __asm__ volatile("1:\n" TIMES12(X) "dec %0\njnz 1b" : "+r"(left));
#undef X
        each = 12 * 16;
        *instruction = "vpmaddwd + vpaddd ymm";
    }
#endif
    seconds = now() - start;
    return seconds > 0 ? (double)n * each / seconds : 0;
}

/* ---- measuring ------------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

struct bench {
    limber_context *ctx;
    struct peer peer;
    bool has_peer, full;
    cJSON *rows;        /* NULL: text */
    double dgemm[5];    /* the peer's DGEMM seconds by size index */
};

static const int sizes[] = { 256, 512, 1024, 2048 };

static void note(const struct bench *b, const char *what, int n)
{
    if (isatty(2) && !b->rows)
        fprintf(stderr, "\r%s n=%d ...\033[K", what, n);
}

static void clear_note(const struct bench *b)
{
    if (isatty(2) && !b->rows)
        fprintf(stderr, "\r\033[K");
}

static void print_row(struct bench *b, const char *what, int n, const char *scheme, double value,
                      const char *unit, double ratio, const char *of)
{
    clear_note(b);
    if (b->rows) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "work", what);
        cJSON_AddNumberToObject(j, "n", n);
        cJSON_AddStringToObject(j, "scheme", scheme);
        cJSON_AddNumberToObject(j, "value", value);
        cJSON_AddStringToObject(j, "unit", unit);
        if (ratio > 0) {
            cJSON_AddNumberToObject(j, "ratio", ratio);
            cJSON_AddStringToObject(j, "ratio_to", of);
        }
        cJSON_AddItemToArray(b->rows, j);
        return;
    }
    printf("%-34s %5d  %-12s %10.1f %-7s", what, n, scheme, value, unit);
    if (ratio > 0)
        printf("  %5.2f x %s", ratio, of);
    printf("\n");
    fflush(stdout);
}

/* What a product reads and writes. */
struct data {
    void *a, *b, *c, *peer_c;
    double *x;
};

static bool make(struct data *d, int n, limber_format f, limber_format fc, int integers)
{
    size_t count = (size_t)n * (size_t)n;
    uint64_t s = 12345;

    d->a = malloc(count * f.size);
    d->b = malloc(count * f.size);
    d->c = malloc(count * fc.size);
    d->peer_c = calloc(count, 8);
    d->x = malloc(count * sizeof *d->x);
    if (!d->a || !d->b || !d->c || !d->peer_c || !d->x)
        return false;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            d->x[i] = integers ? (double)(int)(s >> 57) : (double)(int64_t)s * 0x1p-63;
        }
        if (limber_convert(side ? d->b : d->a, f, d->x, format_of("f64"), count, LIMBER_RN))
            return false;
    }
    return true;
}

static void drop(struct data *d)
{
    free(d->a);
    free(d->b);
    free(d->c);
    free(d->peer_c);
    free(d->x);
}

static void run_peer(const struct bench *b, const struct data *d, int n, bool single)
{
    if (single)
        b->peer.sgemm(101, 111, 111, n, n, n, 1, d->a, n, d->b, n, 0, d->peer_c, n);
    else
        b->peer.dgemm(101, 111, 111, n, n, n, 1, d->a, n, d->b, n, 0, d->peer_c, n);
}

/* Medians of own and peer's seconds, taken in turn; peer 0: none, 'd' or 's'. */
static bool measure(struct bench *b, int n, limber_format f, limber_format fc,
                    const limber_contract *contract, int integers, char peer, double *own,
                    double *other, limber_report *r)
{
    double mine[ROUNDS], theirs[ROUNDS];
    struct data d = { 0 };
    limber_matrix ma, mb, mc;
    bool ok = make(&d, n, f, fc, integers);

    ma = (limber_matrix){ d.a, f, n, 1 };
    mb = (limber_matrix){ d.b, f, n, 1 };
    mc = (limber_matrix){ d.c, fc, n, 1 };
    *other = 0;
    for (int i = -1; ok && i < ROUNDS; i++) {
        double start = now();

        ok = limber_gemm(b->ctx, contract, n, n, n, NULL, ma, mb, NULL, mc, r) == LIMBER_OK;
        if (i >= 0)
            mine[i] = now() - start;
        start = now();
        if (peer)
            run_peer(b, &d, n, peer == 's');
        if (i >= 0)
            theirs[i] = now() - start;
    }
    if (!ok)
        complain("bench: %s", limber_error_text());
    else {
        *own = median(mine, ROUNDS);
        *other = peer ? median(theirs, ROUNDS) : 0;
    }
    drop(&d);
    return ok;
}

static bool native_rows(struct bench *b)
{
    static const limber_contract native = { .promise = LIMBER_NATIVE };

    for (int single = 0; single < 2; single++)
        for (int i = 0; i < 3 + b->full; i++) {
            limber_format f = format_of(single ? "f32" : "f64");
            int n = sizes[i];
            double own, other, flop = 2e-9 * n * n * n;
            limber_report r;

            note(b, single ? "native FP32" : "native FP64", n);
            if (!measure(b, n, f, f, &native, 0, b->has_peer ? (single ? 's' : 'd') : 0, &own,
                         &other, &r))
                return false;
            if (!single)
                b->dgemm[i] = other;
            print_row(b, single ? "native FP32" : "native FP64", n, r.scheme, flop / own, "GFLOPS",
                      other / own, single ? "OpenBLAS SGEMM" : "OpenBLAS DGEMM");
        }
    return true;
}

static bool int8_rows(struct bench *b)
{
    static const limber_contract c = { .promise = LIMBER_NATIVE, .scheme = "integer" };
    const char *instruction;
    double best = 0;

    for (int i = 0; i < 5; i++) {
        double p = peak(&instruction);

        best = p > best ? p : best;
    }
    print_row(b, "INT8 registers only", 0, instruction, 1e-9 * best, "GMAC/s", 0, "");
    for (int i = 2; i < 3 + b->full; i++) {
        int n = sizes[i];
        double own, other;
        limber_report r;

        note(b, "INT8", n);
        if (!measure(b, n, format_of("i8"), format_of("i32"), &c, 1, 0, &own, &other, &r))
            return false;
        print_row(b, "INT8 -> INT32, scan and packing in", n, r.scheme, 1e-9 * n * n * n / own,
                  "GMAC/s", 1.0 * n * n * n / own / best, "registers only");
        print_row(b, "  without the scan", n, r.scheme, 1e-9 * n * n * n / r.seconds_run,
                  "GMAC/s", 1.0 * n * n * n / r.seconds_run / best, "registers only");
    }
    return true;
}

static bool accuracy_rows(struct bench *b)
{
    static const struct { const char *what, *f, *fc; limber_contract c; int integers; } rows[] = {
        { "FP64 correct", "f64", "f64", { .promise = LIMBER_CORRECT }, 0 },
        { "doubles that hold bytes", "f64", "f64", { .promise = LIMBER_NATIVE }, 1 },
        { "binary128 from binary64", "f64", "f128", { .promise = LIMBER_NATIVE }, 0 },
        { "binary128 from binary128", "f128", "f128", { .promise = LIMBER_NATIVE }, 0 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int at = 2, n = sizes[at];
        double own, other;
        limber_report r;

        note(b, rows[i].what, n);
        if (!measure(b, n, format_of(rows[i].f), format_of(rows[i].fc), &rows[i].c,
                     rows[i].integers, 0, &own, &other, &r))
            return false;
        print_row(b, rows[i].what, n, r.scheme, 2e-9 * n * n * n / own, "GFLOPS",
                  b->dgemm[at] / own, "OpenBLAS DGEMM");
    }
    return true;
}

/* First call in an empty cache, in a new context that finds the disk, and in memory. */
static bool latency_rows(struct bench *b)
{
    char dir[] = "/tmp/limber-bench-XXXXXX";
    limber_config config = { .threads = 1, .cache_dir = dir };
    limber_contract c = { .promise = LIMBER_NATIVE };
    double a[64] = { 1 }, result[64], ms[3];
    limber_format f = format_of("f64");
    limber_context *ctx = NULL;
    size_t removed;
    bool ok = mkdtemp(dir) != NULL;

    for (int i = 0; ok && i < 3; i++) {
        double start;

        if (i < 2) {
            limber_destroy(ctx);
            ok = limber_create(&ctx, &config) == LIMBER_OK;
        }
        start = now();
        ok = ok && limber_gemm(ctx, &c, 8, 8, 8, NULL, (limber_matrix){ a, f, 8, 1 },
                               (limber_matrix){ a, f, 8, 1 }, NULL,
                               (limber_matrix){ result, f, 8, 1 }, NULL) == LIMBER_OK;
        ms[i] = 1e6 * (now() - start);
    }
    if (ok) {
        print_row(b, "first call, compiled", 8, "native", ms[0], "us", 0, "");
        print_row(b, "first call, from disk", 8, "native", ms[1], "us", 0, "");
        print_row(b, "later call, from memory", 8, "native", ms[2], "us", 0, "");
        limber_cache_clear(ctx, 0, &removed);
    } else {
        complain("bench: %s", limber_error_text());
    }
    limber_destroy(ctx);
    if (strcmp(dir, "/tmp/limber-bench-XXXXXX")) {
        char command[64];

        snprintf(command, sizeof command, "rm -rf %s", dir);
        if (system(command))
            complain("bench: %s stays behind", dir);
    }
    return ok;
}

static void head(const struct bench *b)
{
    if (b->rows)
        return;
    printf("one thread, medians of %d runs\n", ROUNDS);
    if (!b->peer.library)
        printf("OpenBLAS: not found (libopenblas.so.0), ratios to it are left out\n");
    else
        printf("OpenBLAS: kernels for %s%s; %s\n", b->peer.core, misdetected(&b->peer) ?
               " (misdetected: not compared; set OPENBLAS_CORETYPE)" :
               has("avx512") && !is_wide(b->peer.core) && !strcasestr(b->peer.core, "zen") ?
               " (narrower than this CPU's vectors)" : "",
               b->peer.config);
}

int cmd_bench(int argc, const char **argv)
{
    int json = 0, full = 0, code, status = 0;
    struct poptOption table[] = {
        { "full", 0, POPT_ARG_NONE, &full, 0, "larger sizes too", NULL },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP
        POPT_TABLEEND
    };
    poptContext o = poptGetContext("limber", argc, argv, table, 0);
    limber_config config = { .threads = 1 };
    struct bench b = { 0 };

    poptSetOtherOptionHelp(o, "[options]\n\nexample: limber bench --full");
    code = poptGetNextOpt(o);
    if (code < -1)
        complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    poptFreeContext(o);
    if (code < -1)
        return 2;
    if (limber_create(&b.ctx, &config) != LIMBER_OK)
        return complain("%s", limber_error_text());
    b.full = full;
    b.rows = json ? cJSON_CreateArray() : NULL;
    b.has_peer = open_peer(&b.peer) && !misdetected(&b.peer);
    head(&b);
    if (!native_rows(&b) || !int8_rows(&b) || !accuracy_rows(&b) || !latency_rows(&b))
        status = 1;
    if (json) {
        cJSON *all = cJSON_CreateObject();
        char *s;

        cJSON_AddStringToObject(all, "openblas_core", b.peer.core);
        cJSON_AddStringToObject(all, "openblas_config", b.peer.config);
        cJSON_AddItemToObject(all, "rows", b.rows);
        s = cJSON_Print(all);
        printf("%s\n", s ? s : "{}");
        cJSON_free(s);
        cJSON_Delete(all);
    }
    limber_destroy(b.ctx);
    return status;
}
