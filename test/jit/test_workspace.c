/* SPDX-License-Identifier: BSD-3-Clause
 * The limit of the workspace (workspace_bytes) holds for long sums under every scheme, as a
 * counting allocator measures, and does not change the bits. */
#include "engine_support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* In bytes: LIMIT, of the workspace; MORE, beyond it; COUNTED, the head of a counted block. LENGTH:
 * elements along k. */
enum { LENGTH = (1 << 14) + 77, LIMIT = 1 << 20, MORE = 1 << 20, COUNTED = 64 };

/* ---- an allocator that counts bytes ---------------------------------------------------------- */

/* The bytes in use, and the most that were. */
static struct {
    pthread_mutex_t lock;
    size_t held, peak; /* bytes */
} counter = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* An allocator that counts bytes.  Each block's size is stored just before the block. */
static void *counted_alloc(void *user, size_t bytes, size_t alignment)
{
    char *p = alignment <= COUNTED ?
                  aligned_alloc(COUNTED, (bytes + 2 * COUNTED - 1) / COUNTED * COUNTED) :
                  NULL;

    (void)user;
    if (!p)
        return NULL;
    memcpy(p, &bytes, sizeof bytes);
    pthread_mutex_lock(&counter.lock);
    counter.held += bytes;
    counter.peak = counter.held > counter.peak ? counter.held : counter.peak;
    pthread_mutex_unlock(&counter.lock);
    return p + COUNTED;
}

/* Frees memory of the counting allocator: its size is stored before it. */
static void counted_free(void *user, void *memory)
{
    size_t bytes;

    (void)user;
    if (!memory)
        return;
    memcpy(&bytes, (char *)memory - COUNTED, sizeof bytes);
    pthread_mutex_lock(&counter.lock);
    counter.held -= bytes;
    pthread_mutex_unlock(&counter.lock);
    free((char *)memory - COUNTED);
}

/* Creates a context with a limit of workspace (in bytes), the counting allocator and prebuilt
 * kernels only. */
static limber_context *context_of(size_t limit, int threads)
{
    limber_context *ctx;

    assert_int_equal(
        limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                              .threads = threads,
                                              .cache_dir = "",
                                              .kernels = LIMBER_KERNELS_PREBUILT,
                                              .allocator = { counted_alloc, counted_free, NULL },
                                              .workspace_bytes = limit }),
        LIMBER_STATUS_OK);
    return ctx;
}

/* ---- memory that each scheme takes ----------------------------------------------------------- */

/* The products whose memory is measured. */
static const struct way {
    const char *in, *out, *scheme;
    int promise;
} rows[] = {
    { "f64", "f64", "native", LIMBER_CONTRACT_NATIVE },
    { "f32", "f32", "native", LIMBER_CONTRACT_NATIVE },
    { "bf16", "f32", "native", LIMBER_CONTRACT_NATIVE },
    { "f64", "f64", NULL, LIMBER_CONTRACT_REPRODUCIBLE },
    { "f32", "f32", "fp32-f", LIMBER_CONTRACT_FAST },
    { "f32", "f32", "fp32-b", LIMBER_CONTRACT_FAST },
    { "f32", "f32", "wider", LIMBER_CONTRACT_CORRECT },
    { "f64", "f64", "ozaki1-i8", LIMBER_CONTRACT_CORRECT },
    { "f64", "f64", "ozaki1-i8", LIMBER_CONTRACT_BITS },
    { "f64", "f64", "ozaki1-f64", LIMBER_CONTRACT_CORRECT },
    { "f64", "f64", "ozaki2", LIMBER_CONTRACT_CORRECT },
    { "f64", "f64", "accumulator", LIMBER_CONTRACT_CORRECT },
    { "f32", "f32", "accumulator", LIMBER_CONTRACT_CORRECT },
    { "f64", "f128", "accumulator", LIMBER_CONTRACT_CORRECT },
    { "i8", "i32", NULL, LIMBER_CONTRACT_EXACT },
    { "i8", "i64", NULL, LIMBER_CONTRACT_EXACT },
    { "i16", "i64", NULL, LIMBER_CONTRACT_EXACT },
    { "u8", "f64", NULL, LIMBER_CONTRACT_CORRECT },
};

/* A product of some shape, with or without scalars. apart: distance between adjacent elements of
 * a row of C. */
struct asked {
    const struct way *row;
    limber_format f, out;
    int m, n, scaled, apart, threads;
    const char *a, *b;
};

/* Multiplies within `limit` bytes of memory.  *peak: largest number of bytes that were allocated at
 * the same time. */
static limber_report multiply_within(const struct asked *p, size_t limit, char *c, size_t *peak)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_report r = LIMBER_REPORT_INIT;
    limber_context *ctx = context_of(limit, p->threads);
    char alpha[16], beta[16];
    limber_status s;

    contract.scheme = p->row->scheme;
    contract.promise = (limber_promise)p->row->promise;
    contract.bits = p->row->promise == LIMBER_CONTRACT_BITS ? 45 : 0;
    store_scalar(alpha, p->out, 1.5);
    store_scalar(beta, p->out, -2);
    counter.peak = counter.held;
    s = limber_gemm(ctx, &contract, p->m, p->n, LENGTH, p->scaled ? alpha : NULL,
                    (limber_matrix){ p->a, p->f, LENGTH, 1 },
                    (limber_matrix){ p->b, p->f, p->n, 1 }, p->scaled ? beta : NULL,
                    (limber_output){ c, p->out, p->n * p->apart, p->apart }, &r);
    if (s != LIMBER_STATUS_OK)
        fail_msg("%s -> %s, %s: %s", p->row->in, p->row->out, p->row->scheme, limber_error_text());
    *peak = counter.peak;
    limber_destroy(ctx);
    assert_int_equal(counter.held, 0);
    return r;
}

/* Compares a product within LIMIT bytes of memory with one without a limit: their bits, and the
 * memory that was used. */
static void compare_with_unlimited(struct rng *r, const struct way *row, enum data data, int m,
                                   int n, int scaled, int threads, bool special)
{
    struct asked p = { .row = row, .f = named(row->in), .out = named(row->out), .m = m, .n = n };
    size_t bytes, of_whole, of_cut;
    char *a, *b, *c, *want;
    limber_report cut;

    p.threads = threads;
    p.scaled = scaled;
    p.apart = 1 + scaled;
    bytes = (size_t)(m * n * p.apart) * p.out.size;
    a = malloc((size_t)m * LENGTH * p.f.size);
    b = malloc((size_t)n * LENGTH * p.f.size);
    c = calloc(1, bytes);
    want = calloc(1, bytes);
    assert_true(a && b && c && want);
    fill(r, data, p.f, a, (size_t)m * LENGTH);
    fill(r, data, p.f, b, (size_t)n * LENGTH);
    if (special) {
        const double inf = INFINITY, nan = NAN;

        limber_convert(a + (size_t)(LENGTH - 5) * p.f.size, p.f, &inf, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
        limber_convert(b + (size_t)(n - 1) * p.f.size, p.f, &nan, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
    }
    p.a = a;
    p.b = b;
    multiply_within(&p, (size_t)1 << 36, want, &of_whole);
    cut = multiply_within(&p, LIMIT, c, &of_cut);
    if (of_cut > LIMIT + MORE || cut.workspace > LIMIT + MORE)
        fail_msg("%s -> %s, %s, %d x %d, %d threads: %zu bytes, %zu without a bound, report %zu",
                 row->in, row->out, cut.scheme, m, n, threads, of_cut, of_whole, cut.workspace);
    if (memcmp(c, want, bytes))
        fail_msg("%s -> %s, %s, %d x %d, %d threads: other bits", row->in, row->out, cut.scheme, m,
                 n, threads);
    free(a);
    free(b);
    free(c);
    free(want);
}

/* Long dot products of every scheme in the list are computed within the limit of workspace, with
 * the bits of the computation without a limit. */
static void long_sums_keep_the_bound(void **state)
{
    struct rng r = { 5 };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bool bytes = rows[i].in[1] == '8', ints = strcmp(rows[i].in, "i16") == 0;
        const bool hilo = rows[i].promise == LIMBER_CONTRACT_FAST;
        const bool sure = rows[i].promise == LIMBER_CONTRACT_CORRECT && !bytes;

        compare_with_unlimited(&r, &rows[i],
                               bytes ? DATA_bytes :
                               ints  ? DATA_ints :
                                       DATA_unit,
                               1, 1, 0, 1, false);
        compare_with_unlimited(&r, &rows[i],
                               bytes ? DATA_bytes :
                               ints  ? DATA_ints :
                               hilo  ? DATA_unit :
                                       DATA_spread,
                               5, 37, !ints, 1, false);
        compare_with_unlimited(&r, &rows[i],
                               bytes ? DATA_bytes :
                               ints  ? DATA_ints :
                                       DATA_unit,
                               40, 3, 0, 3, sure);
    }
}

/* ---- more elements along k than 2^31 --------------------------------------------------------- */

enum { PERIOD = 1 << 22 }; /* bytes of the file that is repeated */

/* Maps `bytes` of address space that repeat one file of PERIOD bytes. */
static void *map_repeated(const void *period, size_t bytes)
{
    FILE *f = tmpfile();
    char *all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_non_null(f);
    assert_true(all != MAP_FAILED);
    assert_int_equal(fwrite(period, 1, PERIOD, f), PERIOD);
    assert_int_equal(fflush(f), 0);
    for (size_t at = 0; at < bytes; at += PERIOD)
        assert_true(mmap(all + at, PERIOD, PROT_READ, MAP_SHARED | MAP_FIXED, fileno(f), 0) !=
                    MAP_FAILED);
    fclose(f);
    return all;
}

/* Computes a long sum and compares it with the value that follows from the sum over one period. */
static void sum_long(const struct way *row, int64_t k)
{
    limber_format f = named(row->in), out = named(row->out);
    const int64_t period = PERIOD / f.size, rest = k % period;
    const size_t bytes = (size_t)(k / period + 1) * PERIOD;
    double *x = malloc((size_t)period * 8), *y = malloc((size_t)period * 8), c;
    char *file = malloc(PERIOD), result[16];
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_context *ctx = context_of((size_t)16 << 20, 1);
    int64_t of_period = 0, of_rest = 0;
    const void *a, *b;

    assert_true(x && y && file);
    for (int64_t i = 0; i < period; i++) {
        x[i] = (double)(i * 7 % 127) - 40;
        y[i] = (double)(i * 5 % 101) - 20;
        of_period += (int64_t)(x[i] * y[i]);
        of_rest += i < rest ? (int64_t)(x[i] * y[i]) : 0;
    }
    limber_convert(file, f, x, LIMBER_F64, (size_t)period, LIMBER_ROUND_NEAREST);
    a = map_repeated(file, bytes);
    limber_convert(file, f, y, LIMBER_F64, (size_t)period, LIMBER_ROUND_NEAREST);
    b = map_repeated(file, bytes);
    contract.scheme = row->scheme;
    contract.promise = (limber_promise)row->promise;
    counter.peak = counter.held;
    if (limber_gemm(ctx, &contract, 1, 1, k, NULL, (limber_matrix){ a, f, k, 1 },
                    (limber_matrix){ b, f, 1, 1 }, NULL, (limber_output){ result, out, 1, 1 },
                    NULL) != LIMBER_STATUS_OK)
        fail_msg("%s -> %s: %s", row->in, row->out, limber_error_text());
    limber_convert(&c, LIMBER_F64, result, out, 1, LIMBER_ROUND_NEAREST);
    if (c != (double)(k / period * of_period + of_rest))
        fail_msg("%s -> %s: %.17g, not %.17g", row->in, row->out, c,
                 (double)(k / period * of_period + of_rest));
    assert_true(counter.peak <= (17 << 20));
    limber_destroy(ctx);
    munmap((void *)(uintptr_t)a, bytes);
    munmap((void *)(uintptr_t)b, bytes);
    free(x);
    free(y);
    free(file);
}

/* A sum of more than 2^31 products is right.  Runs only if long tests are requested. */
static void sums_are_longer_than_two_to_the_31(void **state)
{
    static const struct way bytes = { "i8", "i64", NULL, LIMBER_CONTRACT_EXACT };

    (void)state;
    if (!is_long())
        skip_because("LIMBER_TEST_LONG is not set");
    sum_long(&bytes, ((int64_t)1 << 31) + 12345);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sums_keep_the_bound),
        cmocka_unit_test(sums_are_longer_than_two_to_the_31),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
