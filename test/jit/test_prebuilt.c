/* SPDX-License-Identifier: BSD-3-Clause
 * Prebuilt kernels in the library have the bits of specialised kernels, need no compiler, and are
 * replaced by specialised ones.  Also tests small native products, which need no kernel. */
#include "contexts.h"
#include "compiler.h"
#include "engine_support.h"
#include "support.h"

#include "jit/api/api.h"
#include "jit/ways.h"
#include "targets.h"

#include <pthread.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Contexts; `direct` computes small products without plans. */
static limber_context *prebuilt, *specialised, *direct;

static int begin(void **state)
{
    (void)state;
    prebuilt = planless_context(LIMBER_KERNELS_PREBUILT, 2, false);
    specialised = planless_context(LIMBER_KERNELS_SPECIALISED, 2, false);
    direct = planless_context(LIMBER_KERNELS_PREBUILT, 2, true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    limber_destroy(prebuilt);
    limber_destroy(specialised);
    limber_destroy(direct);
    return 0;
}

static void need_prebuilt(void)
{
    if (!prebuilt->machine.cpu)
        skip_because("no prebuilt kernels for this CPU");
}

/* ---- prebuilt kernels have the bits of compiled ones ----------------------------------------- */

/* A product: its operands, and two results, which begin with equal contents. */
struct drawn {
    limber_problem problem;
    limber_contract contract;
    void *a, *b, *c[2];
    size_t bytes;
    double scalar[4];
};

/* Describes a matrix with a padded leading dimension: row-major, or column-major if `across`. */
static limber_matrix matrix_of(limber_format f, void *data, int64_t rows, int64_t cols, bool across)
{
    return (limber_matrix){ data, f, across ? 1 : cols + 1, across ? rows + 2 : 1 };
}

/* Draws alpha or beta in format f.  May return NULL. */
static const void *draw_scalar(struct rng *r, limber_format f, void *to)
{
    if (rng_below(r, 2))
        return NULL;
    if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT)
        *(int64_t *)to = rng_below(r, 5) - 2;
    else
        fill(r, DATA_ties, f, to, 1);
    return to;
}

/* Draws a product's sizes, layouts, operands and scalars. */
static void draw_product(struct drawn *p, struct rng *r, const char *const formats[3],
                         const limber_contract *contract, int most)
{
    int64_t m = 1 + rng_below(r, most), n = 1 + rng_below(r, most), k = rng_below(r, 3 * most);
    limber_format fa = named(formats[0]), fb = named(formats[1]), fc = named(formats[2]);
    enum data data = (enum data)rng_below(r, DATA_count),
              other = (enum data)rng_below(r, DATA_count);
    bool across_a = rng_below(r, 2), across_b = rng_below(r, 2), across_c = rng_below(r, 3) == 0;

    memset(p, 0, sizeof *p);
    p->contract = *contract;
    p->a = calloc((size_t)((m + 2) * (k + 2)), 16);
    p->b = calloc((size_t)((k + 2) * (n + 2)), 16);
    p->bytes = (size_t)((m + 2) * (n + 2)) * 16;
    p->c[0] = calloc(1, p->bytes);
    p->c[1] = malloc(p->bytes);
    fill(r, data, fa, p->a, (size_t)((m + 2) * (k + 1)));
    fill(r, rng_below(r, 2) ? data : other, fb, p->b, (size_t)((k + 2) * (n + 1)));
    fill(r, DATA_unit, fc, p->c[0], (size_t)((m + 2) * (n + 1)));
    memcpy(p->c[1], p->c[0], p->bytes);
    p->problem = gemm_problem(
        &p->contract, m, n, k, draw_scalar(r, fc, &p->scalar[0]),
        matrix_of(fa, p->a, m, k, across_a), matrix_of(fb, p->b, k, n, across_b),
        draw_scalar(r, fc, &p->scalar[2]), output_of(matrix_of(fc, p->c[0], m, n, across_c)));
}

static void free_product(struct drawn *p)
{
    free(p->a);
    free(p->b);
    free(p->c[0]);
    free(p->c[1]);
}

/* Computes in two contexts and compares status and bits. */
static void compare_two_contexts(struct drawn *p, limber_context *one, limber_context *other)
{
    limber_status first = limber_run(one, &p->problem, NULL), second;
    limber_format f = p->problem.c.format;
    char name[32];

    p->problem.c.data = p->c[1];
    second = limber_run(other, &p->problem, NULL);
    if (first != second)
        fail_msg("%s, and %s: %s", limber_status_name(first), limber_status_name(second),
                 limber_error_text());
    for (size_t i = 0; i < p->bytes / f.size; i++)
        if (!same_number(f, (char *)p->c[0] + i * f.size, (char *)p->c[1] + i * f.size))
            fail_msg("unlike bits of element %zu: m = %d, n = %d, k = %d, scheme %s, %s", i,
                     (int)p->problem.m, (int)p->problem.n, (int)p->problem.k,
                     p->contract.scheme ? p->contract.scheme : "any",
                     limber_format_name(f, name, sizeof name));
}

/* The contracts and schemes of the products, and the formats of A, B and C. */
static const struct {
    const char *format[3];
    limber_promise promise;
    int bits;
    const char *scheme;
} cases[] = {
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_NATIVE, 0, "native" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_NATIVE, 0, "native" },
    { { "bf16", "f16", "f32" }, LIMBER_CONTRACT_NATIVE, 0, "native" },
    { { "f32", "f64", "f64" }, LIMBER_CONTRACT_NATIVE, 0, "native" },
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_CORRECT, 0, NULL },
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_CORRECT, 0, "ozaki2" },
    { { "f64", "f64", "f32" }, LIMBER_CONTRACT_CORRECT, 0, "ozaki1-i8" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_CORRECT, 0, NULL },
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_CORRECT, 0, "ozaki1-f64" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_CORRECT, 0, "ozaki1-bf16" },
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_BITS, 40, NULL },
    { { "f64", "f64", "f64" }, LIMBER_CONTRACT_BITS, 30, "ozaki1-f16" },
    { { "f64", "f64", "f128" }, LIMBER_CONTRACT_CORRECT, 0, NULL },
    { { "f128", "dd", "f128" }, LIMBER_CONTRACT_BITS, 100, NULL },
    { { "dd", "dd", "dd" }, LIMBER_CONTRACT_BITS, 90, "ozaki2" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_FAST, 0, "fp32-f" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_FAST, 0, "fp32-b" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_FAST, 0, "fp32-m" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_FAST, 0, "fp32-t" },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_FAST, 0, "fp32-b9" },
    { { "i8", "i8", "i32" }, LIMBER_CONTRACT_NATIVE, 0, NULL },
    { { "u8", "i8", "i32" }, LIMBER_CONTRACT_NATIVE, 0, NULL },
    { { "i16", "i16", "i64" }, LIMBER_CONTRACT_EXACT, 0, NULL },
    { { "i32", "i32", "i64" }, LIMBER_CONTRACT_NATIVE, 0, NULL },
    { { "i64", "i32", "i64" }, LIMBER_CONTRACT_EXACT, 0, NULL },
    { { "i64", "i64", "i64" }, LIMBER_CONTRACT_NATIVE, 0, "ozaki2" },
    { { "f16", "e4m3", "f16" }, LIMBER_CONTRACT_CORRECT, 0, NULL },
    { { "f32", "f32", "f32" }, LIMBER_CONTRACT_CORRECT, 0, "wider" },
    { { "bf16", "i16", "bf16" }, LIMBER_CONTRACT_CORRECT, 0, "wider" },
    { { "f32", "f16", "f32" }, LIMBER_CONTRACT_BITS, 35, "wider" },
};

/* Products of all schemes have the same bits, whether a prebuilt kernel computes them or one
 * compiled for them. */
static void prebuilt_kernels_have_specialised_bits(void **state)
{
    struct rng r = { 20 };

    (void)state;
    need_prebuilt();
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int j = 0; j < (BRIEF ? 2 : is_long() ? 8 : 4); j++) {
            limber_contract contract = LIMBER_CONTRACT_INIT;
            struct drawn p;

            if (cases[i].promise == LIMBER_CONTRACT_BITS && !cases[i].scheme && !compiler_here())
                continue; /* without a compiler, the interpreter would choose another scheme */

            contract.promise = cases[i].promise;
            contract.bits = cases[i].bits;
            contract.scheme = cases[i].scheme;
            draw_product(&p, &r, cases[i].format, &contract, j % 2 ? 20 : EMULATED ? 36 : 90);
            compare_two_contexts(&p, prebuilt, specialised);
            free_product(&p);
        }
}

/* Random convolutions have the same bits, whether a prebuilt kernel computes them or one
 * compiled for them. */
static void prebuilt_convolutions_have_specialised_bits(void **state)
{
    static const char *const formats[][3] = { { "f32", "f32", "f32" }, { "i8", "i8", "i32" } };
    struct rng r = { 21 };

    (void)state;
    need_prebuilt();
    for (int i = 0; i < (BRIEF ? 8 : 40); i++) {
        const char *const *f = formats[i % 2];
        limber_contract contract = LIMBER_CONTRACT_INIT;
        limber_conv g = LIMBER_CONV_INIT;
        int groups = 1 + rng_below(&r, 2);
        size_t x, w, y;
        void *data[4];

        contract.promise =
            i % 2 || rng_below(&r, 2) ? LIMBER_CONTRACT_NATIVE : LIMBER_CONTRACT_CORRECT;
        g.n = 1 + rng_below(&r, 2);
        g.c = groups * (1 + rng_below(&r, 5));
        g.o = groups * (1 + rng_below(&r, 9));
        g.h = 6 + rng_below(&r, 9);
        g.w = 6 + rng_below(&r, 9);
        g.r = 1 + rng_below(&r, 3);
        g.s = 1 + rng_below(&r, 3);
        g.stride[0] = g.stride[1] = 1 + rng_below(&r, 2);
        g.pad[0] = g.pad[1] = rng_below(&r, 2);
        g.dilate[0] = g.dilate[1] = 1;
        g.groups = groups;
        g.layout = rng_below(&r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        x = (size_t)(g.n * g.c * g.h * g.w);
        w = (size_t)(g.o * g.c * g.r * g.s);
        y = (size_t)(g.n * g.o * (g.h + 3) * (g.w + 3));
        data[0] = malloc(x * 4);
        data[1] = malloc(w * 4);
        fill(&r, DATA_bytes, named(f[0]), data[0], x);
        fill(&r, i % 4 ? DATA_unit : DATA_special, named(f[1]), data[1], w);
        for (int j = 0; j < 2; j++) {
            limber_problem p;

            data[2 + j] = calloc(y, 4);
            p = conv_problem(&contract, &g, NULL, data[0], named(f[0]), data[1], named(f[1]), NULL,
                             data[2 + j], named(f[2]));
            if (limber_run(j ? specialised : prebuilt, &p, NULL))
                fail_msg("%s", limber_error_text());
        }
        assert_memory_equal(data[2], data[3], y * 4);
        for (int j = 0; j < 4; j++)
            free(data[j]);
    }
}

/* ---- the origin of kernels ------------------------------------------------------------------- */

/* Computes an n x n product by the scheme ozaki2 and returns the report. */
static limber_report report_of(limber_context *ctx, int64_t n)
{
    double *a = calloc((size_t)(n * n), 8), *c = calloc((size_t)(n * n), 8);
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_report r = LIMBER_REPORT_INIT;
    limber_problem p;

    contract.promise = LIMBER_CONTRACT_CORRECT;
    contract.scheme = "ozaki2";
    p = gemm_problem(&contract, n, n, n, NULL, matrix_of(LIMBER_F64, a, n, n - 1, false),
                     matrix_of(LIMBER_F64, a, n, n - 1, false), NULL,
                     output_of(matrix_of(LIMBER_F64, c, n, n - 1, false)));
    for (int64_t i = 0; i < n * n; i++)
        a[i] = (double)i / 3;
    if (limber_run(ctx, &p, &r))
        fail_msg("%s", limber_error_text());
    free(a);
    free(c);
    return r;
}

/* The report of the first call says that its kernel comes from the library, that of the second that
 * it comes from memory. */
static void reports_name_the_origin_of_kernels(void **state)
{
    limber_context *ctx = planless_context(LIMBER_KERNELS_BOTH, 1, false);
    limber_report first, second;

    (void)state;
    need_prebuilt();
    first = report_of(ctx, 30);
    second = report_of(ctx, 30);
    assert_int_equal(first.from, LIMBER_FROM_LIBRARY);
    assert_int_equal(second.from, LIMBER_FROM_MEMORY);
    assert_string_equal(first.kernel, second.kernel);
    assert_string_equal(first.backend, ctx->machine.backend->name);
    limber_destroy(ctx);
}

/* Returns the key of the product's kernel. */
static struct kernel_key key_of(limber_context *ctx, struct drawn *p)
{
    struct scan_result f = { 0 };
    struct kernel_key key = { 0 };
    struct scan_wants wants;
    struct problem x;
    struct diag d = { 0 };

    if (!limber_gemm_state(ctx, &p->problem, true, &x, &d))
        fail_msg("%s", d.text);
    wants = limber_scan_wants(ctx, &x);
    if (!limber_scan_operands(ctx, &f, &x, &wants, &d) ||
        !limber_kernel_key_make(ctx, &key, &x, &f, &d))
        fail_msg("%s", d.text);
    limber_scan_result_clear(&f, x.groups);
    return key;
}

/* Returns the entry of a kernel that must be in memory.  The caller releases it by
 * limber_kernels_put. */
static struct entry *entry_of(limber_context *ctx, const struct kernel_key *key)
{
    struct entry *e;
    bool found;

    assert_true(limber_kernels_get(ctx->memory, key, limber_kernel_key_size(key),
                                   (struct kernel_maker){ NULL, NULL }, &e, &found,
                                   &(struct diag){ 0 }));
    assert_true(found);
    return e;
}

/* A thread that computes the product p into its own c. */
struct user {
    limber_context *ctx;
    struct drawn *p;
    void *c;
};

/* Thread: computes the product 200 times.  Returns NULL if all calls succeed. */
static void *use_kernel(void *arg)
{
    struct user *u = arg;
    limber_problem p = u->p->problem;

    p.c.data = u->c;
    for (int i = 0; i < 200; i++)
        if (limber_run(u->ctx, &p, NULL))
            return arg;
    return NULL;
}

/* A specialised kernel replaces a prebuilt one that other threads are still using. */
static void test_specialised_kernel_replaces_prebuilt(void **state)
{
    static const char *const f64[] = { "f64", "f64", "f64" };
    limber_context *ctx;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_report r = LIMBER_REPORT_INIT;
    pthread_t thread[2];
    struct rng rng = { 22 };
    struct user user[2];
    struct drawn p;
    struct kernel_key key;
    struct entry *e;

    (void)state;
    need_prebuilt();
    need_compiler();
    ctx = planless_context(LIMBER_KERNELS_BOTH, 1, false);
    contract.promise = LIMBER_CONTRACT_CORRECT;
    contract.scheme = "ozaki2";
    draw_product(&p, &rng, f64, &contract, 60);
    p.problem.alpha = p.problem.beta = NULL;
    assert_int_equal(limber_run(ctx, &p.problem, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, LIMBER_FROM_LIBRARY);
    key = key_of(ctx, &p);
    for (int i = 0; i < 2; i++) {
        user[i] = (struct user){ ctx, &p, malloc(p.bytes) };
        memcpy(user[i].c, p.c[1], p.bytes);
        assert_int_equal(pthread_create(&thread[i], NULL, use_kernel, &user[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        limber_specialise(ctx, &key);
    for (int i = 0; i < 2; i++) {
        void *failed;

        pthread_join(thread[i], &failed);
        assert_null(failed);
        assert_memory_equal(user[i].c, p.c[0], p.bytes);
        free(user[i].c);
    }
    e = entry_of(ctx, &key);
    assert_false(e->prebuilt);
    limber_kernels_put(ctx->memory, e);
    assert_int_equal((int)limber_kernels_count(ctx->memory), 1);
    free_product(&p);
    limber_destroy(ctx);
}

/* A kernel that has been used often enough is queued for specialisation, but only once. */
static void test_used_kernel_is_specialised_once(void **state)
{
    static const char *const f64[] = { "f64", "f64", "f64" };
    limber_context *ctx;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    struct rng rng = { 23 };
    struct drawn p;
    struct kernel_key key;
    struct entry *e;
    bool found;

    (void)state;
    need_prebuilt();
    need_compiler();
    ctx = planless_context(LIMBER_KERNELS_BOTH, 1, false);
    contract.promise = LIMBER_CONTRACT_CORRECT;
    contract.scheme = "ozaki2";
    draw_product(&p, &rng, f64, &contract, 30);
    assert_int_equal(limber_run(ctx, &p.problem, NULL), LIMBER_STATUS_OK);
    key = key_of(ctx, &p);
    e = entry_of(ctx, &key);
    limber_specialise_later(ctx, &key, e, 1e-3);
    assert_false(atomic_load(&e->replaced));
    limber_specialise_later(ctx, &key, e, 100);
    assert_true(atomic_load(&e->replaced));
    limber_kernels_put(ctx->memory, e);
    for (found = false; !found;) { /* until the background thread has compiled it */
        struct entry *now = entry_of(ctx, &key);

        found = !now->prebuilt;
        limber_kernels_put(ctx->memory, now);
        sched_yield();
    }
    free_product(&p);
    limber_destroy(ctx);
}

/* Calls on a machine without a compiler, and calls that must not use the compiler, use prebuilt
 * kernels or the interpreter. */
static void test_without_compiler(void **state)
{
    limber_contract simulate = LIMBER_CONTRACT_INIT;
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_report r = LIMBER_REPORT_INIT;
    limber_context *ctx;
    double a = 1.5, c = 0;
    limber_problem p;

    (void)state;
    need_prebuilt();
    setenv("LIMBER_NO_COMPILE", "1", 1);
    ctx = planless_context(LIMBER_KERNELS_BOTH, 1, false);
    unsetenv("LIMBER_NO_COMPILE");
    assert_int_equal(report_of(ctx, 20).from, LIMBER_FROM_LIBRARY);
    limber_destroy(ctx);
    /* no prebuilt kernel simulates this unit */
    if (limber_unit_parse("a100-fp16", &unit))
        fail_msg("%s", limber_error_text());
    simulate.promise = LIMBER_CONTRACT_SIMULATE;
    simulate.unit = &unit;
    p = gemm_problem(&simulate, 1, 1, 1, NULL, matrix_of(LIMBER_F64, &a, 1, 1, false),
                     matrix_of(LIMBER_F64, &a, 1, 1, false), NULL,
                     output_of(matrix_of(LIMBER_F64, &c, 1, 1, false)));
    if (limber_run(prebuilt, &p, &r))
        fail_msg("%s", limber_error_text());
    assert_string_equal(r.backend, "interp");
    assert_true(c == 2.25);
}

/* An invalid choice of kernels, in the configuration or in LIMBER_KERNELS, is refused; a valid
 * variable is used. */
static void test_options(void **state)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    (void)state;
    config.kernels = (limber_kernels)4;
    assert_refused(limber_create(&ctx, &config), LIMBER_STATUS_BAD_ARGUMENT, "config.kernels");
    config.kernels = LIMBER_KERNELS_AUTO;
    setenv("LIMBER_KERNELS", "some", 1);
    assert_refused(limber_create(&ctx, &config), LIMBER_STATUS_BAD_ARGUMENT, "LIMBER_KERNELS");
    setenv("LIMBER_KERNELS", "prebuilt", 1);
    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    assert_int_equal(ctx->kernels, LIMBER_KERNELS_PREBUILT);
    limber_destroy(ctx);
}

/* ---- all architectures ----------------------------------------------------------------------- */

#ifdef LIMBER_HAVE_LLVM
/* On every architecture, each plan that the passes make must have a prebuilt kernel. */
static void test_targets(void **state)
{
    (void)state;
    need_prebuilt();
    for (size_t t = 0; t < COUNT(targets); t++) {
        limber_context *ctx;
        struct target target;

        assert_true(limber_target_parse(&target, targets[t].text, &(struct diag){ 0 }));
        if (is_foreign(&target))
            continue;
        ctx = planless_context(LIMBER_KERNELS_PREBUILT, 1, false);
        ctx->machine.target = target;
        for (size_t i = 0; i < COUNT(cases); i++) {
            struct rng r = { 30 + i };
            limber_contract contract = LIMBER_CONTRACT_INIT;
            struct drawn p;
            struct kernel_key key;
            struct plan plan = { 0 };
            struct blob blob = { 0 };
            struct diag d = { 0 };

            contract.promise = cases[i].promise;
            contract.bits = cases[i].bits;
            contract.scheme = cases[i].scheme;
            draw_product(&p, &r, cases[i].format, &contract, 30);
            key = key_of(ctx, &p);
            if (!limber_plan_state(&plan, &key, NULL, &d) ||
                !limber_passes_run(&plan, &ctx->machine.target, NULL,
                                   (struct pass_watch){ NULL, NULL }, &d))
                d.status = d.status == LIMBER_STATUS_NO_SCHEME ? LIMBER_STATUS_OK : d.status;
            else
                ctx->machine.cpu->prebuilt(&plan, &ctx->machine.target, &blob, &d);
            if (d.status)
                fail_msg("%s, scheme %s: %s", targets[t].text, plan.scheme, d.text);
            free(blob.data);
            limber_plan_clear(&plan);
            free_product(&p);
        }
        limber_destroy(ctx);
    }
}
#endif

/* ---- products without a kernel --------------------------------------------------------------- */

/* Products without a plan have the bits of compiled kernels, for any alpha and beta. */
static void direct_products_have_specialised_bits(void **state)
{
    static const char *const formats[][3] = { { "f64", "f64", "f64" }, { "f32", "f32", "f32" } };
    static const double values[] = {
        1, 1, -1, 0, 0.5, -0.1, 3, -0.0, 1e300, 1e-300, NAN, INFINITY
    };
    double scalar[2];
    float narrow[2];
    struct rng r = { 24 };
    int served = 0;

    (void)state;
    need_prebuilt();
    for (int i = 0; i < (BRIEF ? 100 : 1000); i++) {
        limber_contract contract = LIMBER_CONTRACT_INIT;
        struct drawn p;
        struct problem x;
        struct diag d = { 0 };

        draw_product(&p, &r, formats[i & 1], &contract, i % 7 ? 40 : 9);
        for (int of = 0; of < 2; of++) {
            double x = values[rng_below(&r, COUNT(values))];

            scalar[of] = x;
            narrow[of] = (float)(fabs(x) < INFINITY && fabs(x) > 1e30 ? x * 1e-262 : x);
        }
        p.problem.alpha = rng_below(&r, 2) ? NULL : i & 1 ? (void *)&narrow[0] : &scalar[0];
        p.problem.beta = rng_below(&r, 2) ? NULL : i & 1 ? (void *)&narrow[1] : &scalar[1];
        assert_true(limber_gemm_state(direct, &p.problem, true, &x, &d));
        served += !limber_way_direct.refuses(direct, &x);
        compare_two_contexts(&p, direct, specialised);
        free_product(&p);
    }
    assert_true(served > (BRIEF ? 50 : 500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prebuilt_kernels_have_specialised_bits),
        cmocka_unit_test(prebuilt_convolutions_have_specialised_bits),
        cmocka_unit_test(reports_name_the_origin_of_kernels),
        cmocka_unit_test(test_specialised_kernel_replaces_prebuilt),
        cmocka_unit_test(test_used_kernel_is_specialised_once),
        cmocka_unit_test(test_without_compiler),
        cmocka_unit_test(test_options),
#ifdef LIMBER_HAVE_LLVM
        cmocka_unit_test(test_targets),
#endif
        cmocka_unit_test(direct_products_have_specialised_bits),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
