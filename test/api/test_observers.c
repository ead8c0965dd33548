/* SPDX-License-Identifier: BSD-3-Clause
 * Observation changes nothing: with a dump, a log, reports, plans, inspections, prepared operands
 * or statistics, results and cache entries must have the same bytes as in a run without
 * observation. */
#include "engine_support.h"

#include "compiler.h"
#include "gpus.h"
#include "jit/cache/cache.h"
#include "support.h"

#include <ftw.h>
#include <math.h>

enum { MOST = 4000 }; /* number of results or cache entries, at most */

/* Named bytes: a result, or a file of the cache. */
struct bytes {
    char *name, *data;
    size_t size;
};
/* A list of named bytes. */
struct shelf {
    struct bytes *item;
    size_t count;
};

/* Adds a copy of named bytes to a list. */
static void shelf_add(struct shelf *s, const char *name, const void *data, size_t size)
{
    struct bytes *b;

    if (!s->item)
        s->item = calloc(MOST, sizeof *s->item);
    assert_true(s->item && s->count < MOST);
    b = &s->item[s->count++];
    *b = (struct bytes){ strdup(name), malloc(size + 1), size };
    assert_true(b->name && b->data);
    memcpy(b->data, data, size);
}

static void shelf_clear(struct shelf *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->item[i].name);
        free(s->item[i].data);
    }
    free(s->item);
    *s = (struct shelf){ 0 };
}

static const struct bytes *shelf_find(const struct shelf *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->item[i].name, name) == 0)
            return &s->item[i];
    return NULL;
}

/* ---- kinds of observation -------------------------------------------------------------------- */

/* What a run observes (bit flags).  CHECK: multiplies with prepared operands that are checked for
 * changes. */
enum { DUMP = 1, LOG = 2, REPORT = 4, PLAN = 8, LOOK = 16, CHECK = 32, STATISTICS = 64 };

/* One run of the test's calls.  watch: flags of what is observed; lines: lines that were logged */
struct observation {
    limber_context *ctx;
    int watch;
    struct shelf *results;
    long lines;
    limber_report report;
};

static void count_line(void *user, const char *line)
{
    struct observation *r = user;

    assert_non_null(line);
    r->lines++;
}

/* ---- calls that are observed ----------------------------------------------------------------- */

/* The products that are computed on CPUs. */
static const struct work {
    const char *scheme;
    limber_promise promise;
    int bits;
    const char *fa, *fc;
    enum data data;
    const char *unit;
} cpu_works[] = {
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "f64", "f64", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "f32", "f32", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "f16", "f32", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "i8", "i32", DATA_bytes, NULL },
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "i16", "i16", DATA_ints, NULL },
    { NULL, LIMBER_CONTRACT_BITS, 40, "f64", "f64", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_BITS, 20, "f32", "f64", DATA_spread, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_special, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "f32", "f64", DATA_spread, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "f128", "f128", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "dd", "dd", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "tf32", "bf16", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_EXACT, 0, "i32", "i64", DATA_ints, NULL },
    { "accumulator", LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_range, NULL },
    { "fp32-f", LIMBER_CONTRACT_FAST, 0, "f32", "f32", DATA_bytes, NULL },
    { "fp32-m", LIMBER_CONTRACT_FAST, 0, "f32", "f32", DATA_bytes, NULL },
    { "fp32-b", LIMBER_CONTRACT_FAST, 0, "f32", "f32", DATA_bytes, NULL },
    { "ozaki1-i8", LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_ints, NULL },
    { "ozaki1-f16", LIMBER_CONTRACT_CORRECT, 0, "f32", "f32", DATA_unit, NULL },
    { "ozaki1-f64", LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_unit, NULL },
    { "ozaki2", LIMBER_CONTRACT_CORRECT, 0, "f64", "dd", DATA_zeros, NULL },
    { NULL, LIMBER_CONTRACT_SIMULATE, 0, "f16", "f32", DATA_unit, "h100-fp16" },
    { NULL, LIMBER_CONTRACT_SIMULATE, 0, "f32", "f32", DATA_unit,
      "in=e5m2 mul=e5m2 acc=f16 group=8 outer=f32" },
}, gpu_works[] = {
    { NULL, LIMBER_CONTRACT_NATIVE, 0, "f64", "f64", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_CORRECT, 0, "f64", "f64", DATA_unit, NULL },
    { "fp32-b", LIMBER_CONTRACT_FAST, 0, "f32", "f32", DATA_unit, NULL },
    { NULL, LIMBER_CONTRACT_EXACT, 0, "i8", "i32", DATA_bytes, NULL },
    { NULL, LIMBER_CONTRACT_SIMULATE, 0, "f16", "f32", DATA_unit, "a100-fp16" },
};

/* Size of an alpha or beta, in bytes: integers are passed as i64 or u64. */
static size_t scalar_size(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT ? 8 : f.size;
}

/* Stores alpha or beta in the format in which the library reads it. */
static void make_scalar(void *to, limber_format f, double x)
{
    limber_format as = scalar_size(f) == f.size ? f : named("i64");

    assert_int_equal(limber_convert(to, as, &x, named("f64"), 1, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
}

static void expect_ok(limber_status s, const char *name)
{
    if (s)
        fail_msg("%s: %s", name, limber_error_text());
}

/* Makes the queries that the run observes: plan, partition, workspace, inspections. */
static void make_queries(const struct observation *r, const limber_contract *k,
                         const int64_t size[3], const void *alpha, limber_matrix a, limber_matrix b,
                         const void *beta, limber_matrix c, const char *name)
{
    limber_cut cut = LIMBER_CUT_INIT;
    limber_inspection look = LIMBER_INSPECTION_INIT;
    char *text = NULL;
    limber_report report = LIMBER_REPORT_INIT;
    size_t least, best;

    if (r->watch & PLAN) {
        expect_ok(gemm_plan(r->ctx, k, size[0], size[1], size[2], alpha, a, b, beta, output_of(c),
                            &text, &report),
                  name);
        limber_free(text);
        expect_ok(gemm_cut(r->ctx, k, size[0], size[1], size[2], alpha, a, b, beta, output_of(c),
                           &cut, NULL),
                  name);
        limber_cut_free(&cut);
        expect_ok(gemm_workspace(r->ctx, k, size[0], size[1], size[2], alpha, a, b, beta,
                                 output_of(c), &least, &best),
                  name);
    }
    if (r->watch & LOOK) {
        expect_ok(limber_inspect(r->ctx, a, size[0], size[2], LIMBER_SIDE_A, &look), name);
        limber_inspection_free(&look);
    }
}

static limber_report *report_of(struct observation *r)
{
    r->report = (limber_report)LIMBER_REPORT_INIT;
    return r->watch & REPORT ? &r->report : NULL;
}

static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols,
                            bool transposed)
{
    return (limber_matrix){ data, f, transposed ? 1 : cols, transposed ? rows : 1 };
}

/* Computes products of a kind in several layouts and adds the results to the list.  scaled: with
 * alpha and beta. */
static void compute_products(struct observation *r, const struct work *w, bool scaled,
                             const int64_t size[3], int layouts)
{
    int64_t m = size[0], n = size[1], k = size[2];
    limber_format fa = named(w->fa), fc = named(w->fc);
    size_t bytes = (size_t)(m * n) * fc.size;
    char *a = malloc((size_t)(m * k) * fa.size), *b = malloc((size_t)(k * n) * fa.size);
    char *c = malloc(bytes), alpha[16], beta[16], name[200];
    limber_statistics statistics = LIMBER_STATISTICS_INIT;
    struct rng rng = { 77 };
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_contract contract = {
        .size = sizeof(limber_contract), .promise = w->promise, .bits = w->bits, .scheme = w->scheme
    };

    assert_true(a && b && c);
    if (w->unit) {
        expect_ok(limber_unit_parse(w->unit, &unit), w->unit);
        contract.unit = &unit;
        if (r->watch & STATISTICS)
            contract.statistics = &statistics;
    }
    fill(&rng, w->data, fa, a, (size_t)(m * k));
    fill(&rng, w->data, fa, b, (size_t)(k * n));
    make_scalar(alpha, fc, 2);
    make_scalar(beta, fc, 1);
    for (int at = 0; at < layouts; at++) {
        limber_matrix ma = matrix(a, fa, m, k, at & 1), mb = matrix(b, fa, k, n, at & 2);
        limber_matrix mc = matrix(c, fc, m, n, at & 4);
        const void *pa = scaled ? alpha : NULL, *pb = scaled ? beta : NULL;

        snprintf(name, sizeof name, "%s %s %s of %s to %s, layout %d%s", w->unit ? w->unit : "gemm",
                 w->scheme ? w->scheme : "", data_name(w->data), w->fa, w->fc, at,
                 pa ? ", alpha, beta" : "");
        if (pb)
            fill(&rng, DATA_bytes, fc, c, (size_t)(m * n));
        else
            memset(c, 0xa5, bytes);
        statistics = (limber_statistics)LIMBER_STATISTICS_INIT;
        make_queries(r, &contract, size, pa, ma, mb, pb, mc, name);
        if (r->watch & CHECK && !w->unit) {
            const limber_prepare_config checked = { .size = sizeof(limber_prepare_config),
                                                    .changes = 1 };
            limber_prepared *kept;

            expect_ok(limber_prepare(r->ctx, mb, k, n, LIMBER_SIDE_B, &checked, &kept), name);
            expect_ok(gemm_prepared(r->ctx, &contract, m, n, k, pa, NULL, ma, kept, mb, pb,
                                    output_of(mc), report_of(r)),
                      name);
            limber_prepared_free(kept);
        } else {
            expect_ok(limber_gemm(r->ctx, &contract, m, n, k, pa, ma, mb, pb, output_of(mc),
                                  report_of(r)),
                      name);
        }
        shelf_add(r->results, name, c, bytes);
    }
    free(a);
    free(b);
    free(c);
}

/* Computes two complex products, of which each has A or B transposed, and keeps their results. */
static void compute_complex_products(struct observation *r, limber_promise promise)
{
    enum { M = 20, N = 17, K = 23 };
    static double a[2 * M * K], b[2 * K * N], c[2 * M * N];
    const limber_contract k = { .size = sizeof(limber_contract), .promise = promise, .bits = 40 };
    limber_format f64 = named("f64");
    struct rng rng = { 5 };

    fill(&rng, DATA_unit, f64, a, COUNT(a));
    fill(&rng, DATA_unit, f64, b, COUNT(b));
    for (int transposed = 0; transposed < 2; transposed++) {
        memset(c, 0xa5, sizeof c);
        expect_ok(gemm_complex(r->ctx, &k, NULL, M, N, K, NULL, matrix(a, f64, M, K, transposed), 1,
                               matrix(b, f64, K, N, !transposed), 0, NULL,
                               output_of(matrix(c, f64, M, N, transposed)), report_of(r), 4),
                  "complex");
        shelf_add(r->results, "complex", c, sizeof c);
    }
}

/* Computes a convolution, after its plan if plans are watched, and keeps its result. */
static void compute_convolutions(struct observation *r, limber_promise promise)
{
    const limber_conv shape = { .size = sizeof(limber_conv),
                                .n = 2,
                                .c = 3,
                                .h = 9,
                                .w = 8,
                                .o = 5,
                                .r = 3,
                                .s = 3,
                                .stride = { 1, 1 },
                                .dilate = { 1, 1 },
                                .pad = { 1, 1, 1, 1 },
                                .groups = 1,
                                .layout = promise == LIMBER_CONTRACT_NATIVE ? LIMBER_LAYOUT_NHWC :
                                                                              LIMBER_LAYOUT_NCHW };
    static float x[2 * 3 * 9 * 8], w[5 * 3 * 3 * 3], y[2 * 5 * 9 * 8];
    const limber_contract k = { .size = sizeof(limber_contract), .promise = promise };
    limber_format f32 = named("f32");
    struct rng rng = { 6 };
    char *text;

    fill(&rng, DATA_unit, f32, x, COUNT(x));
    fill(&rng, DATA_unit, f32, w, COUNT(w));
    memset(y, 0xa5, sizeof y);
    if (r->watch & PLAN) {
        expect_ok(conv2d_plan(r->ctx, &k, &shape, NULL, x, f32, w, f32, NULL, f32, &text, NULL),
                  "conv");
        limber_free(text);
    }
    expect_ok(limber_conv2d(r->ctx, &k, &shape, NULL, x, f32, w, f32, NULL, y, f32, report_of(r)),
              "conv");
    shelf_add(r->results, "conv", y, sizeof y);
}

/* Calls kernels that are bound to one shape. */
static void compute_by_shape_kernels(struct observation *r)
{
    enum { N = 13, K = 9 };
    static double a[N * K], b[K * N], c[N * N];
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_NATIVE };
    limber_format f64 = named("f64");
    struct rng rng = { 7 };
    limber_kernel f;

    fill(&rng, DATA_unit, f64, a, COUNT(a));
    fill(&rng, DATA_unit, f64, b, COUNT(b));
    for (int at = 0; at < 8; at++) {
        expect_ok(limber_bind_shape(r->ctx, &k, N, N, K, matrix(NULL, f64, N, K, at & 1),
                                    matrix(NULL, f64, K, N, at & 2),
                                    output_of(matrix(NULL, f64, N, N, at & 4)),
                                    LIMBER_ACCUMULATE_NONE, &f),
                  "bind_shape");
        memset(c, 0xa5, sizeof c);
        f(a, b, c);
        shelf_add(r->results, "bind_shape", c, sizeof c);
    }
}

/* Computes all products and convolutions of the test.  compiled: products are larger, and kernels
 * for a fixed shape compute some. */
static void work_on_cpu(struct observation *r, bool compiled)
{
    static const int64_t large[3] = { 45, 66, 70 }, small[3] = { 12, 9, 14 };

    for (size_t i = 0; i < COUNT(cpu_works); i += SANITIZED ? 3 : 1)
        compute_products(r, &cpu_works[i], i & 1, compiled ? large : small,
                         compiled && !SANITIZED ? 8 : 2);
    compute_complex_products(r, LIMBER_CONTRACT_NATIVE);
    compute_complex_products(r, LIMBER_CONTRACT_BITS);
    compute_convolutions(r, LIMBER_CONTRACT_NATIVE);
    compute_convolutions(r, LIMBER_CONTRACT_CORRECT);
    if (compiled)
        compute_by_shape_kernels(r);
}

static void work_on_llvm(struct observation *r)
{
    work_on_cpu(r, true);
}

static void work_on_interp(struct observation *r)
{
    work_on_cpu(r, false);
}

/* Computes products on a GPU. */
static void work_on_cuda(struct observation *r)
{
    static const int64_t size[3] = { 18, 9, 20 };

    for (size_t i = 0; i < COUNT(gpu_works); i++)
        compute_products(r, &gpu_works[i], i == 0, size, 2);
}

/* ---- runs with and without observation ------------------------------------------------------- */

static struct shelf *collected;

/* Callback of nftw: adds an entry of the cache to the list. */
static int collect(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    char *data;
    FILE *f;

    if (flag != FTW_F || !strstr(path, ".kernel"))
        return 0;
    data = malloc((size_t)st->st_size + 1);
    f = fopen(path, "rb");
    assert_true(data && f && fread(data, 1, (size_t)st->st_size, f) == (size_t)st->st_size);
    fclose(f);
    shelf_add(collected, path + ftw->base, data, (size_t)st->st_size);
    free(data);
    return 0;
}

/* Reads the kernels in a cache's folder, by name. */
static struct shelf entries_of(const char *dir)
{
    struct shelf s = { 0 };

    collected = &s;
    nftw(dir, collect, 16, FTW_PHYS);
    return s;
}

static int files;

/* Callback of nftw: counts files, except an empty log of NVRTC. */
static int count_file(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)ftw;
    files += flag == FTW_F && (st->st_size > 0 || !strstr(path, "nvrtc.log"));
    return 0;
}

/* Runs all work once in a new context, and collects the results.  Returns false if the backend is
 * unavailable. */
static bool run_work(const char *backend, void (*work)(struct observation *), int watch,
                     const char *cache, const char *dumps, struct shelf *results)
{
    struct observation r = { .watch = watch, .results = results };
    const limber_config config = {
        .size = sizeof(limber_config),
        .backend = backend,
        .threads = 1,
        .cache_dir = cache,
        .log_user = &r,
        .log = count_line,
        .dump_dir = watch & DUMP ? dumps : "",
        .verbose = watch & LOG ? 9 : 0,
    };

    if (limber_create(&r.ctx, &config))
        return false;
    work(&r);
    limber_destroy(r.ctx);
    assert_true((r.lines > 0) == ((watch & LOG) != 0));
    if (watch & REPORT)
        assert_true(r.report.scheme[0]);
    return true;
}

/* KNOWN: bytes at the start of an entry, up to and including its facts.  Length, checksum and seal
 * follow, up to HEAD, then the code. */
enum { KNOWN = 16 + sizeof(struct facts), HEAD = KNOWN + 8 + 8 + 16 };

/* Returns an entry's code.  Of several plans with equal code one entry stores it, and the others
 * store the key of that entry.  Observation may change which entry stores it. */
static struct bytes code_of(const struct shelf *s, const struct bytes *entry)
{
    struct bytes code = { entry->name, entry->data + HEAD, entry->size - HEAD };
    char name[KEY_HEX + sizeof ".kernel"];

    assert_true(entry->size > HEAD);
    if (code.size == KEY_BYTES) {
        limber_key_hex((const unsigned char *)code.data, KEY_BYTES, name);
        strcat(name, ".kernel");
        /* an entry's file name without the folder, which is named by the first two digits of the
         * key */
        entry = shelf_find(s, name + 2);
        assert_non_null(entry);
        code = (struct bytes){ entry->name, entry->data + HEAD, entry->size - HEAD };
    }
    return code;
}

/* Checks that every cache entry of `plain` (of calls not watched) is in `seen` (of watched calls)
 * with the same code.  With statistics an entry may be missing, since a kernel that counts rounding
 * events takes its place. */
static void assert_same_entries(const struct shelf *plain, const struct shelf *seen, int watch,
                                const char *backend)
{
    for (size_t i = 0; i < plain->count; i++) {
        const struct bytes *want = &plain->item[i], *got = shelf_find(seen, want->name);
        struct bytes code, other;
        size_t same = 0;

        if (!got && (watch & STATISTICS))
            continue;
        if (!got)
            fail_msg("%s, watched by %d: entry %.12s is missing", backend, watch, want->name);
        code = code_of(plain, want);
        other = code_of(seen, got);
        if (memcmp(want->data, got->data, KNOWN))
            fail_msg("%s, watched by %d: entry %.12s says something else", backend, watch,
                     want->name);
        while (same < code.size && same < other.size && other.data[same] == code.data[same])
            same++;
        if (other.size != code.size || same < code.size)
            fail_msg("%s, watched by %d: entry %.12s has code of %zu bytes for %zu, other from %zu",
                     backend, watch, want->name, other.size, code.size, same);
    }
    if (!(watch & STATISTICS))
        assert_int_equal(seen->count, plain->count);
}

/* Checks that watched calls (`seen`) have the same results as unwatched ones (`plain`). */
static void assert_same_results(const struct shelf *plain, const struct shelf *seen, int watch,
                                const char *backend)
{
    assert_int_equal(plain->count, seen->count);
    for (size_t i = 0; i < plain->count; i++) {
        assert_string_equal(plain->item[i].name, seen->item[i].name);
        assert_int_equal(plain->item[i].size, seen->item[i].size);
        if (memcmp(plain->item[i].data, seen->item[i].data, plain->item[i].size))
            fail_msg("%s, watched by %d: other bits of %s", backend, watch, plain->item[i].name);
    }
}

/* Runs all calls without observation, and then with several kinds of observation.  Results and
 * cache entries must be equal. */
static void compare_observed_runs(const char *backend, void (*work)(struct observation *))
{
    /* the run without observation uses the cache that the run with DUMP has filled */
    static const int watches[] = { DUMP, 0, LOG | REPORT | PLAN | LOOK | CHECK | STATISTICS };
    struct shelf plain = { 0 }, entries;
    char *cache = scratch(), *seen_cache = scratch(), *dumps = scratch();

    if (!run_work(backend, work, 0, cache, dumps, &plain)) {
        discard(cache);
        discard(seen_cache);
        discard(dumps);
        skip_because("%s does not run here: %s", backend, limber_error_text());
    }
    entries = entries_of(cache);
    assert_true(entries.count > 0);
    for (size_t i = 0; i < COUNT(watches); i++) {
        struct shelf results = { 0 }, seen;
        char *own = watches[i] > DUMP ? scratch() : NULL, *dir = own ? own : seen_cache;

        assert_true(run_work(backend, work, watches[i], dir, dumps, &results));
        seen = entries_of(dir);
        assert_same_results(&plain, &results, watches[i], backend);
        assert_same_entries(&entries, &seen, watches[i], backend);
        shelf_clear(&results);
        shelf_clear(&seen);
        if (own)
            discard(own);
    }
    files = 0;
    nftw(dumps, count_file, 16, FTW_PHYS);
    print_message("%s: %zu results, %zu entries, %d files of dumps\n", backend, plain.count,
                  entries.count, files);
    assert_true(files > (int)entries.count);
    shelf_clear(&plain);
    shelf_clear(&entries);
    discard(cache);
    discard(seen_cache);
    discard(dumps);
}

static void observers_change_nothing_in_the_interpreter(void **state)
{
    (void)state;
    compare_observed_runs("interp", work_on_interp);
}

static void observers_change_nothing_in_compiled_kernels(void **state)
{
    (void)state;
    need_compiler();
    compare_observed_runs("llvm", work_on_llvm);
}

static void observers_change_nothing_in_cuda_kernels(void **state)
{
    (void)state;
    gpu_stand_ins();
    compare_observed_runs("cuda", work_on_cuda);
}

/* A backend without a compiler dumps what it can, and does not refuse the call. */
static void a_dump_does_not_ask_for_a_compiler(void **state)
{
    struct shelf first = { 0 }, second = { 0 };
    char *cache = scratch(), *dumps = scratch();

    (void)state;
    assert_true(run_work("interp", work_on_interp, 0, cache, dumps, &first));
    setenv("LIMBER_NO_COMPILE", "1", 1);
    assert_true(run_work("interp", work_on_interp, DUMP, cache, dumps, &second));
    unsetenv("LIMBER_NO_COMPILE");
    assert_same_results(&first, &second, DUMP, "interp");
    shelf_clear(&first);
    shelf_clear(&second);
    discard(cache);
    discard(dumps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observers_change_nothing_in_the_interpreter),
        cmocka_unit_test(observers_change_nothing_in_compiled_kernels),
        cmocka_unit_test(observers_change_nothing_in_cuda_kernels),
        cmocka_unit_test(a_dump_does_not_ask_for_a_compiler),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
