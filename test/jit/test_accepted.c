/* SPDX-License-Identifier: BSD-3-Clause
 * Calls whose form was accepted before: they have the bits of a context that accepts every call
 * anew, whatever data follows, their addresses are checked in each call, their table is bounded,
 * and threads share it. */
#include "engine_support.h"

#include "jit/accepted.h"

#include <pthread.h>

/* Returns a context that caches accepted calls (`ctx->forms`).  Skips the test if no backend of
 * this build and machine supports that. */
static limber_context *keeping_context(limber_kernels kernels, int threads)
{
    limber_context *ctx = planless_context(kernels, threads, true);

    if (ctx->forms)
        return ctx;
    limber_destroy(ctx);
    skip_because("no backend here keeps forms");
    return NULL;
}

/* Returns a context that does not cache accepted calls. */
static limber_context *forgetful_context(void)
{
    limber_context *ctx = planless_context(LIMBER_KERNELS_PREBUILT, 1, true);

    limber_forms_free(ctx->forms);
    ctx->forms = NULL;
    return ctx;
}

enum { MOST = 176, ROOM = (MOST + 4) * (MOST + 4) };

/* A product of numbers of one format, and its operands. */
struct trial {
    limber_contract contract;
    limber_format f;
    int64_t m, n, k, step[3][2]; /* step: [A, B, C][row, column] distances, in elements */
    int scalars; /* bit 0: alpha is passed; bit 1: beta is passed */
    size_t room; /* number of elements that each matrix may have */
    double a[ROOM], b[ROOM], c[2][ROOM]; /* elements of format f, each with room for a double */
};

/* Draws the strides of rows and of columns, one of which is 1. */
static void draw_steps(struct rng *r, int64_t step[2], int64_t rows, int64_t cols)
{
    const int64_t more = rng_below(r, 3);

    step[0] = rng_below(r, 4) ? cols + more : 1;
    step[1] = step[0] == 1 ? rows + more : 1;
}

/* Draws the properties of a product by which accepted calls are cached: contract, format, sizes,
 * strides and scalars. */
static void draw_form(struct rng *r, struct trial *t, int least, int most)
{
    static const limber_promise promises[] = { LIMBER_CONTRACT_NATIVE, LIMBER_CONTRACT_CORRECT,
                                               LIMBER_CONTRACT_BITS, LIMBER_CONTRACT_REPRODUCIBLE };
    static const char *const formats[] = { "f64", "f64", "f32", "bf16" };

    t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    t->contract.promise = promises[rng_below(r, 4)];
    t->contract.bits = t->contract.promise == LIMBER_CONTRACT_BITS ? 20 + rng_below(r, 60) : 0;
    t->f = named(formats[rng_below(r, 4)]);
    t->m = least + rng_below(r, most - least + 1);
    t->n = least + rng_below(r, most - least + 1);
    t->k = least + rng_below(r, most - least + 1);
    t->scalars = rng_below(r, 2) ? 0 : rng_below(r, 4);
    t->room = (size_t)(most + 4) * (size_t)(most + 4);
    draw_steps(r, t->step[0], t->m, t->k);
    draw_steps(r, t->step[1], t->k, t->n);
    draw_steps(r, t->step[2], t->m, t->n);
}

static void draw_data(struct rng *r, struct trial *t)
{
    static const enum data kinds[] = { DATA_unit,  DATA_bytes, DATA_ints, DATA_spread,
                                       DATA_zeros, DATA_tiny,  DATA_ties, DATA_special };

    fill(r, kinds[rng_below(r, 8)], t->f, t->a, t->room);
    fill(r, kinds[rng_below(r, 8)], t->f, t->b, t->room);
    fill(r, DATA_unit, t->f, t->c[0], t->room);
    memcpy(t->c[1], t->c[0], t->room * t->f.size);
}

/* Multiplies, and stores the result in t->c[to]. */
static limber_status multiply(limber_context *ctx, struct trial *t, int to, limber_report *report)
{
    char scalar[2][16];

    store_scalar(scalar[0], t->f, 0.75);
    store_scalar(scalar[1], t->f, -1.25);
    return limber_gemm(ctx, &t->contract, t->m, t->n, t->k, t->scalars & 1 ? scalar[0] : NULL,
                       (limber_matrix){ t->a, t->f, t->step[0][0], t->step[0][1] },
                       (limber_matrix){ t->b, t->f, t->step[1][0], t->step[1][1] },
                       t->scalars & 2 ? scalar[1] : NULL,
                       (limber_output){ t->c[to], t->f, t->step[2][0], t->step[2][1] }, report);
}

static void expect_same(const struct trial *t)
{
    for (size_t i = 0; i < t->room; i++)
        if (!same_number(t->f, (const char *)t->c[0] + i * t->f.size,
                         (const char *)t->c[1] + i * t->f.size))
            fail_msg("element %zu of %lld x %lld x %lld differs, promise %d", i, (long long)t->m,
                     (long long)t->n, (long long)t->k, (int)t->contract.promise);
}

/* Counts the cached forms of accepted calls.  Fails the test if a call still uses one. */
static int count_forms(limber_context *ctx)
{
    int count = 0;

    for (int i = 0; i < FORM_PLACES << FORM_BITS; i++) {
        struct accepted *w = atomic_load(&ctx->forms->place[i / FORM_PLACES][i % FORM_PLACES]);

        if (!w)
            continue;
        assert_int_equal(atomic_load(&w->users), 0);
        count += atomic_load(&w->hash) != 0;
    }
    return count;
}

/* Returns the only cached form of an accepted call; NULL if none is cached.  Fails the test if
 * there are several. */
static struct accepted *only_form(limber_context *ctx)
{
    struct accepted *found = NULL;

    for (int i = 0; i < FORM_PLACES << FORM_BITS; i++) {
        struct accepted *w = atomic_load(&ctx->forms->place[i / FORM_PLACES][i % FORM_PLACES]);

        if (!w || !atomic_load(&w->hash))
            continue;
        assert_null(found);
        found = w;
    }
    return found;
}

/* Cached accepted calls give the bits and reports of calls that are not cached. */
static void forms_keep_the_bits(void **state)
{
    limber_context *ctx = keeping_context(LIMBER_KERNELS_PREBUILT, 1), *other = forgetful_context();
    struct trial *t = calloc(1, sizeof *t);
    struct rng r = { 31 };

    (void)state;
    assert_non_null(t);
    for (int form = 0; form < 60; form++) {
        draw_form(&r, t, form % 2 ? 1 : 60, form % 2 ? 40 : form % 6 ? 90 : MOST);
        for (int run = 0; run < 6; run++) {
            limber_report now = LIMBER_REPORT_INIT, before = LIMBER_REPORT_INIT;

            draw_data(&r, t);
            assert_int_equal(multiply(ctx, t, 0, run % 2 ? &now : NULL),
                             multiply(other, t, 1, run % 2 ? &before : NULL));
            expect_same(t);
            assert_string_equal(now.scheme, before.scheme);
            assert_string_equal(now.way, before.way);
            assert_string_equal(now.kernel, before.kernel);
            assert_true(now.bound == before.bound);
        }
    }
    assert_true(count_forms(ctx) > 20);
    free(t);
    limber_destroy(ctx);
    limber_destroy(other);
}

/* Data of another class (range of exponents, number of bits) than in the first calls is computed
 * by a kernel of its own. */
static void each_class_of_data_has_its_kernel(void **state)
{
    static const enum data kinds[] = { DATA_ints, DATA_ints,  DATA_ints,  DATA_unit,
                                       DATA_ints, DATA_range, DATA_unit,  DATA_special,
                                       DATA_ints, DATA_tiny,  DATA_zeros, DATA_unit };
    static const limber_promise promises[] = { LIMBER_CONTRACT_NATIVE, LIMBER_CONTRACT_CORRECT };
    limber_context *ctx = keeping_context(LIMBER_KERNELS_PREBUILT, 1), *other = forgetful_context();
    struct trial *t = calloc(1, sizeof *t);
    struct rng r = { 35 };

    (void)state;
    assert_non_null(t);
    for (int i = 0; i < 2; i++) {
        draw_form(&r, t, 140, 150);
        t->f = LIMBER_F64;
        t->contract.promise = promises[i];
        t->contract.bits = 0;
        for (size_t run = 0; run < COUNT(kinds); run++) {
            limber_report now = LIMBER_REPORT_INIT, before = LIMBER_REPORT_INIT;

            draw_data(&r, t);
            fill(&r, kinds[run], t->f, t->a, t->room);
            fill(&r, kinds[run], t->f, t->b, t->room);
            assert_int_equal(multiply(ctx, t, 0, &now), LIMBER_STATUS_OK);
            assert_int_equal(multiply(other, t, 1, &before), LIMBER_STATUS_OK);
            expect_same(t);
            assert_string_equal(now.scheme, before.scheme);
            assert_string_equal(now.kernel, before.kernel);
        }
    }
    free(t);
    limber_destroy(ctx);
    limber_destroy(other);
}

/* A convolution or, if channels is 0, a batch of products.  channels: input channels that a filter
 * of a convolution sees. */
static const struct other_call {
    limber_promise promise;
    const char *format;
    int64_t channels;
    limber_operation operation;
    int64_t size; /* m, n and k of a product */
    bool listed; /* a batch gives the addresses of its matrices */
    bool shared; /* the products of a batch have one B */
    bool prepared; /* filters or A are prepared */
} other_calls[] = {
    { LIMBER_CONTRACT_NATIVE, "f32", 16, LIMBER_OPERATION_CONV_FORWARD, .prepared = false },
    { LIMBER_CONTRACT_NATIVE, "f32", 16, LIMBER_OPERATION_CONV_FORWARD, .prepared = true },
    { LIMBER_CONTRACT_NATIVE, "f32", 16, LIMBER_OPERATION_CONV_BACKWARD_DATA, .prepared = false },
    { LIMBER_CONTRACT_NATIVE, "f32", 16, LIMBER_OPERATION_CONV_BACKWARD_FILTER, .size = 0 },
    { LIMBER_CONTRACT_NATIVE, "f64", 1, LIMBER_OPERATION_CONV_FORWARD, .size = 0 },
    { LIMBER_CONTRACT_CORRECT, "f32", 1, LIMBER_OPERATION_CONV_FORWARD, .size = 0 },
    { LIMBER_CONTRACT_CORRECT, "f64", 8, LIMBER_OPERATION_CONV_FORWARD, .size = 0 },
    { LIMBER_CONTRACT_CORRECT, "f64", 8, LIMBER_OPERATION_CONV_BACKWARD_FILTER, .size = 0 },
    { LIMBER_CONTRACT_NATIVE, "f64", 0, LIMBER_OPERATION_GEMM, .size = 12 },
    { LIMBER_CONTRACT_NATIVE, "bf16", 0, LIMBER_OPERATION_GEMM, .size = 40, .listed = true },
    { LIMBER_CONTRACT_NATIVE, "bf16", 0, LIMBER_OPERATION_GEMM, .size = 40 },
    { LIMBER_CONTRACT_CORRECT, "f64", 0, LIMBER_OPERATION_GEMM, .size = 70, .shared = true },
    { LIMBER_CONTRACT_CORRECT, "f64", 0, LIMBER_OPERATION_GEMM, .size = 70 },
    { LIMBER_CONTRACT_CORRECT, "f64", 0, LIMBER_OPERATION_GEMM, .size = 70, .prepared = true },
};
enum { COUNT_OF_BATCH = 3 };

/* Makes a call, and stores the result in t->c[to].  beta: 0, 1 or 2. */
static void compute_other(limber_context *ctx, const struct other_call *e, struct trial *t, int to,
                          int beta, limber_report *report)
{
    const limber_conv conv = { .size = sizeof conv,
                               .n = 1,
                               .c = 16,
                               .h = 12,
                               .w = 11,
                               .o = 16,
                               .r = 3,
                               .s = 3,
                               .stride = { 1, 1 },
                               .pad = { 1, 1, 1, 1 },
                               .dilate = { 1, 1 },
                               .groups = e->channels ? 16 / e->channels : 1 };
    const int64_t n = e->size, step = n * n, size = t->f.size;
    const void *a[COUNT_OF_BATCH], *b[COUNT_OF_BATCH];
    void *c[COUNT_OF_BATCH];
    limber_batch batch = { .size = sizeof batch,
                           .count = COUNT_OF_BATCH,
                           .a = e->prepared ? 0 : step,
                           .b = e->shared ? 0 : step,
                           .c = step };
    const limber_matrix left = { t->a, t->f, n, 1 };
    limber_prepared *prepared = NULL;
    limber_problem p;
    char scalar[16];

    store_scalar(scalar, t->f, beta);
    for (int64_t g = 0; g < COUNT_OF_BATCH; g++) {
        a[g] = (char *)t->a + g * step * size;
        b[g] = (char *)t->b + (COUNT_OF_BATCH - 1 - g) * step * size;
        c[g] = (char *)t->c[to] + g * step * size;
    }
    p = e->channels ?
            conv_problem(&t->contract, &conv, NULL, t->a, t->f, t->b, t->f, beta ? scalar : NULL,
                         t->c[to], t->f) :
            gemm_problem(&t->contract, n, n, n, NULL, left, (limber_matrix){ t->b, t->f, n, 1 },
                         beta ? scalar : NULL, (limber_output){ t->c[to], t->f, n, 1 });
    p.operation = e->operation;
    if (!e->channels)
        p.batch = &batch;
    if (e->listed) {
        batch.address_a = a;
        batch.address_b = b;
        batch.address_c = c;
    }
    if (e->prepared && e->channels)
        assert_int_equal(limber_prepare_filters(ctx, &conv, t->b, t->f, NULL, &p.prepared_b),
                         LIMBER_STATUS_OK);
    else if (e->prepared)
        assert_int_equal(limber_prepare(ctx, left, n, n, LIMBER_SIDE_A, NULL, &p.prepared_a),
                         LIMBER_STATUS_OK);
    prepared = p.prepared_a ? p.prepared_a : p.prepared_b;
    assert_int_equal(limber_run(ctx, &p, report), LIMBER_STATUS_OK);
    limber_prepared_free(prepared);
}

/* Compares convolutions, batches and calls with prepared operands on these threads with those of a
 * context that caches no accepted calls, for various data and betas. */
static void compare_other_calls(int threads)
{
    static const int betas[] = { 0, 0, 0, 1, 1, 1, 2, 2, 1, 2, 0 };
    limber_context *ctx = keeping_context(LIMBER_KERNELS_PREBUILT, threads);
    limber_context *other = forgetful_context();
    struct trial *t = calloc(1, sizeof *t);
    struct rng r = { 41 };

    assert_non_null(t);
    for (size_t i = 0; i < COUNT(other_calls); i++) {
        const struct other_call *e = &other_calls[i];

        t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
        t->contract.promise = e->promise;
        t->f = named(e->format);
        t->room = COUNT_OF_BATCH * 70 * 70;
        for (size_t run = 0; run < COUNT(betas); run++) {
            limber_report now = LIMBER_REPORT_INIT, before = LIMBER_REPORT_INIT;

            draw_data(&r, t);
            compute_other(ctx, e, t, 0, betas[run], &now);
            compute_other(other, e, t, 1, betas[run], &before);
            expect_same(t);
            assert_string_equal(now.scheme, before.scheme);
            assert_string_equal(now.way, before.way);
            assert_string_equal(now.kernel, before.kernel);
            assert_true(now.bound == before.bound);
        }
    }
    assert_int_equal(count_forms(ctx), 3 * COUNT(other_calls));
    free(t);
    limber_destroy(ctx);
    limber_destroy(other);
}

static void other_calls_keep_the_bits(void **state)
{
    (void)state;
    compare_other_calls(1);
    compare_other_calls(3);
}

/* Repeated calls, whose form (formats, shape, strides) is cached, are still refused if C overlaps
 * an operand or a pointer is NULL. */
static void addresses_are_checked_in_each_call(void **state)
{
    limber_context *ctx = planless_context(LIMBER_KERNELS_PREBUILT, 1, true);
    struct trial *t = calloc(1, sizeof *t);
    const limber_format f = LIMBER_F64;
    const int64_t n = 150;
    struct rng r = { 32 };

    (void)state;
    assert_non_null(t);
    fill(&r, DATA_unit, f, t->a, ROOM);
    fill(&r, DATA_unit, f, t->b, ROOM);
    for (int run = 0; run < 3; run++) {
        const limber_matrix a = { t->a, f, n, 1 }, b = { t->b, f, n, 1 }, none = { NULL, f, n, 1 };
        double before = t->a[7];

        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, a, b, NULL,
                                     (limber_output){ t->c[0], f, n, 1 }, NULL),
                         LIMBER_STATUS_OK);
        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, a, b, NULL,
                                     (limber_output){ t->a + 7, f, n, 1 }, NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(limber_error_text(), "c overlaps a"));
        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, a, b, NULL,
                                     (limber_output){ t->b + n * n - 1, f, n, 1 }, NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, none, b, NULL,
                                     (limber_output){ t->c[0], f, n, 1 }, NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, a, none, NULL,
                                     (limber_output){ t->c[0], f, n, 1 }, NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_int_equal(limber_gemm(ctx, NULL, n, n, n, NULL, a, b, NULL,
                                     (limber_output){ NULL, f, n, 1 }, NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_true(t->a[7] == before);
    }
    free(t);
    limber_destroy(ctx);
}

/* If the table of accepted calls is full, further products are still right. */
static void the_table_is_bounded(void **state)
{
    limber_context *ctx = keeping_context(LIMBER_KERNELS_PREBUILT, 1), *other = forgetful_context();
    struct trial *t = calloc(1, sizeof *t);
    struct rng r = { 33 };

    (void)state;
    assert_non_null(t);
    for (int form = 0; form < 1200; form++) {
        draw_form(&r, t, 1, 14);
        draw_data(&r, t);
        assert_int_equal(multiply(ctx, t, 0, NULL), multiply(other, t, 1, NULL));
        expect_same(t);
        assert_int_equal(multiply(ctx, t, 0, NULL), multiply(other, t, 1, NULL));
        expect_same(t);
    }
    assert_true(count_forms(ctx) > FORM_PLACES << (FORM_BITS - 1));
    free(t);
    limber_destroy(ctx);
    limber_destroy(other);
}

/* If a kernel was replaced by another one, calls use the new one, and so does the cache of accepted
 * calls. */
static void replaced_kernels_are_not_used(void **state)
{
    limber_context *ctx = keeping_context(LIMBER_KERNELS_BOTH, 1);
    struct trial *t = calloc(1, sizeof *t);
    struct rng r = { 34 };
    struct accepted *w;
    struct found *found;
    struct entry *old;
    struct kernel_key key;

    (void)state;
    assert_non_null(t);
    draw_form(&r, t, MOST, MOST);
    t->contract.promise = LIMBER_CONTRACT_CORRECT;
    t->contract.bits = t->scalars = 0;
    t->f = LIMBER_F64;
    draw_data(&r, t);
    for (int i = 0; i < ROOM; i++)
        /* no 8-bit integers, for which another plan would be made */
        t->a[i] = t->b[i] = 1 + rng_unit(&r);
    for (int run = 0; run < 2; run++)
        assert_int_equal(multiply(ctx, t, 0, NULL), LIMBER_STATUS_OK);
    w = only_form(ctx);
    assert_non_null(w);
    found = atomic_load(&w->found[0]);
    assert_non_null(found);
    old = found->e;
    key = found->key;
    limber_specialise(ctx, &key);
    if (!atomic_load(&old->stale)) { /* there is no compiler */
        free(t);
        limber_destroy(ctx);
        skip_because("no backend here keeps forms");
    }
    for (int run = 0; run < 3; run++) {
        memcpy(t->c[1], t->c[0], sizeof t->c[0]);
        assert_int_equal(multiply(ctx, t, 1, NULL), LIMBER_STATUS_OK);
        expect_same(t);
    }
    w = only_form(ctx);
    assert_non_null(w);
    found = atomic_load(&w->found[0]);
    assert_non_null(found);
    assert_false(found->e->prebuilt);
    assert_memory_equal(&found->key, &key, limber_kernel_key_size(&key));
    free(t);
    limber_destroy(ctx);
}

enum { THREADS = 4, FORMS = 200 };

/* A thread of threads_share_forms.  ctx caches accepted calls, `other` does not. */
struct part {
    pthread_t thread;
    limber_context *ctx, *other;
    bool ok;
};

/* Thread: multiplies products of many forms (formats, shapes, strides) in both contexts and
 * compares the bits. */
static void *multiply_often(void *arg)
{
    struct part *p = arg;
    struct trial *t = calloc(1, sizeof *t);

    p->ok = t != NULL;
    for (int i = 0; i < FORMS && p->ok; i++) {
        struct rng form = { 100 + (uint64_t)(i * 7 % FORMS / THREADS) }, data = { (uint64_t)i };

        draw_form(&form, t, 1, i % 50 ? 14 : 80);
        draw_data(&data, t);
        p->ok = multiply(p->ctx, t, 0, NULL) == multiply(p->other, t, 1, NULL);
        for (size_t e = 0; e < t->room && p->ok; e++)
            p->ok = same_number(t->f, (const char *)t->c[0] + e * t->f.size,
                                (const char *)t->c[1] + e * t->f.size);
    }
    free(t);
    return NULL;
}

/* Threads that use and replace cached accepted calls at the same time get right results. */
static void threads_share_forms(void **state)
{
    struct part part[THREADS];
    limber_context *ctx = keeping_context(LIMBER_KERNELS_PREBUILT, 1), *other = forgetful_context();

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        part[i] = (struct part){ .ctx = ctx, .other = other };
        assert_int_equal(pthread_create(&part[i].thread, NULL, multiply_often, &part[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(part[i].thread, NULL);
        assert_true(part[i].ok);
    }
    count_forms(ctx); /* fails if a cached call is still in use */
    limber_destroy(ctx);
    limber_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_keep_the_bits),
        cmocka_unit_test(each_class_of_data_has_its_kernel),
        cmocka_unit_test(other_calls_keep_the_bits),
        cmocka_unit_test(addresses_are_checked_in_each_call),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(replaced_kernels_are_not_used),
        cmocka_unit_test(threads_share_forms),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
