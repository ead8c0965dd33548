/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that are compiled in the background for shapes of small native products: they have the
 * bits of the library's code, their table is bounded, and threads share them. */
#include "contexts.h"
#include "engine_support.h"

#include <pthread.h>
#include <sched.h>

/* a number of products that pays for the compilation of any function */
static const int64_t often = INT64_C(1) << 40;

static limber_context *context_of(limber_kernels kernels)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    config.kernels = kernels;
    config.threads = 1;
    config.cache_dir = "";
    if (limber_create(&ctx, &config))
        fail_msg("%s", limber_error_text());
    return ctx;
}

/* A product of matrices with padding of a few elements between rows or columns. */
struct trial {
    struct product_shape shape;
    char *a, *b, *c;
    size_t bytes; /* size of each matrix */
};

/* Counts the elements from the first to the last of a matrix with these strides. */
static int64_t count_spanned(struct strides s, int64_t rows, int64_t cols)
{
    return (rows - 1) * s.row + (cols - 1) * s.col + 1;
}

/* Draws strides of a row-major or column-major matrix, with up to two elements of padding. */
static struct strides rows_or_columns(struct rng *r, int64_t rows, int64_t cols)
{
    int64_t more = rng_below(r, 3);

    return rng_below(r, 2) ? (struct strides){ cols + more, 1 } :
                             (struct strides){ 1, rows + more };
}

/* Draws shape, layouts and operands of a product; sizes are at most `most`. */
static struct trial draw_trial(struct rng *r, int most)
{
    const int64_t m = 1 + rng_below(r, most), n = 1 + rng_below(r, most),
                  k = 1 + rng_below(r, most);
    struct trial p = { .shape = { .fixed = { .m = m,
                                             .n = n,
                                             .k = k,
                                             .a = rows_or_columns(r, m, k),
                                             .b = rows_or_columns(r, k, n),
                                             .c = rows_or_columns(r, m, n),
                                             .add = rng_below(r, 2) },
                                  .size = rng_below(r, 2) ? 8 : 4 } };
    const struct fixed *f = &p.shape.fixed;
    const limber_format format = p.shape.size == 8 ? LIMBER_F64 : LIMBER_F32;
    int64_t most_elements = count_spanned(f->a, m, k);

    most_elements =
        count_spanned(f->b, k, n) > most_elements ? count_spanned(f->b, k, n) : most_elements;
    most_elements =
        count_spanned(f->c, m, n) > most_elements ? count_spanned(f->c, m, n) : most_elements;
    p.bytes = (size_t)(most_elements * p.shape.size);
    p.a = malloc(p.bytes);
    p.b = malloc(p.bytes);
    p.c = malloc(p.bytes);
    assert_true(p.a && p.b && p.c);
    for (int64_t i = 0; i < most_elements; i++)
        for (int x = 0; x < 3; x++) {
            double v = 2 * rng_unit(r) - 1;

            limber_convert((x == 0 ? p.a :
                            x == 1 ? p.b :
                                     p.c) +
                               i * p.shape.size,
                           format, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        }
    return p;
}

static void free_trial(struct trial *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
}

/* Returns the trial's product, with result c, as a problem for limber_run. */
static limber_problem problem_of(const struct trial *p, void *c)
{
    static const double one = 1;
    static const float one_f32 = 1;
    const struct fixed *f = &p->shape.fixed;
    const limber_format format = p->shape.size == 8 ? LIMBER_F64 : LIMBER_F32;
    const void *beta = p->shape.size == 8 ? (const void *)&one : &one_f32;

    return gemm_problem(NULL, f->m, f->n, f->k, NULL,
                        (limber_matrix){ p->a, format, f->a.row, f->a.col },
                        (limber_matrix){ p->b, format, f->b.row, f->b.col }, f->add ? beta : NULL,
                        (limber_output){ c, format, f->c.row, f->c.col });
}

/* Computes the product, and returns C, which the caller frees. */
static char *result_of(limber_context *ctx, const struct trial *p, limber_report *report)
{
    char *c = malloc(p->bytes);
    limber_problem problem;

    assert_non_null(c);
    memcpy(c, p->c, p->bytes);
    problem = problem_of(p, c);
    if (limber_run(ctx, &problem, report))
        fail_msg("%s", limber_error_text());
    return c;
}

/* Compares the bits of two results, and frees the second. */
static void compare_and_free(const struct trial *p, const char *want, char *got)
{
    const struct fixed *f = &p->shape.fixed;

    if (memcmp(want, got, p->bytes))
        fail_msg("%lld x %lld x %lld of %lld bytes: other bits", (long long)f->m, (long long)f->n,
                 (long long)f->k, (long long)p->shape.size);
    free(got);
}

/* ---- functions have the bits of kernels ------------------------------------------------------ */

/* Waits until the function for a shape has been compiled in the background. */
static void await_function(limber_context *ctx, const struct product_shape *s)
{
    while (!limber_shape_code(ctx, s, often))
        sched_yield();
}

/* Returns whether limber_bind_shape can compile functions in this context. */
static bool makes_functions(limber_context *ctx)
{
    const limber_matrix one = { NULL, LIMBER_F64, 1, 1 };
    limber_kernel f;

    return ctx->shapes && limber_bind_shape(ctx, NULL, 1, 1, 1, one, one, output_of(one),
                                            LIMBER_ACCUMULATE_NONE, &f) == LIMBER_STATUS_OK;
}

/* Products have the same bits before and after a function for their fixed shape has been
 * compiled. */
static void functions_keep_the_bits(void **state)
{
    limber_context *plain = context_of(LIMBER_KERNELS_PREBUILT);
    limber_context *ctx = context_of(LIMBER_KERNELS_BOTH);
    limber_contract reproducible = LIMBER_CONTRACT_INIT;
    struct rng r = { 5 };

    (void)state;
    reproducible.promise = LIMBER_CONTRACT_REPRODUCIBLE;
    for (int i = 0; i < 40 && makes_functions(ctx); i++) {
        struct trial p = draw_trial(&r, i < 20 ? 20 : 70);
        limber_report report = LIMBER_REPORT_INIT;
        char *want = result_of(plain, &p, &report), *c = malloc(p.bytes);
        limber_problem problem = problem_of(&p, c);

        assert_int_equal(report.from, LIMBER_FROM_LIBRARY);
        compare_and_free(&p, want, result_of(ctx, &p, NULL));
        await_function(ctx, &p.shape);
        compare_and_free(&p, want, result_of(ctx, &p, NULL));
        compare_and_free(&p, want, result_of(ctx, &p, &report));
        assert_int_equal(report.from, LIMBER_FROM_MEMORY);
        assert_string_equal(report.kernel, "");
        memcpy(c, p.c, p.bytes);
        problem.contract = &reproducible;
        assert_int_equal(limber_run(ctx, &problem, NULL), LIMBER_STATUS_OK);
        compare_and_free(&p, want, c);
        free(want);
        free_trial(&p);
    }
    limber_destroy(ctx);
    limber_destroy(plain);
}

/* A batch of n products counts as n calls of its shape, so that a function is soon compiled for
 * the shape.  With the function, the batch has the same bits. */
static void batches_use_the_functions_of_their_shape(void **state)
{
    enum { COUNT_OF_PRODUCTS = 8, SIDE = 5, ALL = COUNT_OF_PRODUCTS * SIDE * SIDE };
    limber_context *plain = context_of(LIMBER_KERNELS_PREBUILT);
    limber_context *ctx = context_of(LIMBER_KERNELS_BOTH);
    double a[ALL], b[ALL], want[ALL], got[ALL];
    limber_batch batch = LIMBER_BATCH_INIT;
    limber_report report = LIMBER_REPORT_INIT;
    struct rng r = { 6 };
    limber_problem p;

    (void)state;
    batch.count = COUNT_OF_PRODUCTS;
    batch.a = batch.b = batch.c = SIDE * SIDE;
    for (int i = 0; i < ALL; i++) {
        a[i] = rng_unit(&r);
        b[i] = rng_unit(&r);
    }
    p = gemm_problem(NULL, SIDE, SIDE, SIDE, NULL, (limber_matrix){ a, LIMBER_F64, SIDE, 1 },
                     (limber_matrix){ b, LIMBER_F64, SIDE, 1 }, NULL,
                     (limber_output){ want, LIMBER_F64, SIDE, 1 });
    p.batch = &batch;
    assert_int_equal(limber_run(plain, &p, NULL), LIMBER_STATUS_OK);
    p.c.data = got;
    while (makes_functions(ctx) && report.from != LIMBER_FROM_MEMORY) {
        memset(got, 0, sizeof got);
        assert_int_equal(limber_run(ctx, &p, &report), LIMBER_STATUS_OK);
        assert_memory_equal(got, want, sizeof want);
    }
    limber_destroy(ctx);
    limber_destroy(plain);
}

/* The problem must be refused with this text. */
static void refuse(limber_context *ctx, const limber_problem *p, const char *text)
{
    assert_refused(limber_run(ctx, p, NULL), LIMBER_STATUS_BAD_ARGUMENT, text);
}

/* Once a shape has a function, its sizes are known to be valid, but the addresses of matrices are
 * checked in each call. */
static void addresses_are_checked_in_each_call(void **state)
{
    enum { SIDE = 6, LEAD = 2 * SIDE, ALL = LEAD * LEAD };
    limber_context *ctx = context_of(LIMBER_KERNELS_BOTH);
    double x[ALL], y[ALL], want[SIDE];
    const double two = 2;
    limber_problem p;

    (void)state;
    if (!makes_functions(ctx)) {
        limber_destroy(ctx);
        skip_because("this context makes no functions");
    }
    for (int i = 0; i < ALL; i++)
        x[i] = y[i] = i % 7 - 3;
    p = gemm_problem(NULL, SIDE, SIDE, SIDE, NULL, (limber_matrix){ x, LIMBER_F64, LEAD, 1 },
                     (limber_matrix){ y, LIMBER_F64, LEAD, 1 }, NULL,
                     (limber_output){ x + ALL / 2, LIMBER_F64, LEAD, 1 });
    await_function(ctx, &(struct product_shape){
                            { SIDE, SIDE, SIDE, { LEAD, 1 }, { LEAD, 1 }, { LEAD, 1 }, 0 }, 8 });
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    memcpy(want, x + ALL / 2, sizeof want);
    p.c.data = x + SIDE; /* C lies between rows of A: the function must not be used */
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    assert_memory_equal(x + SIDE, want, sizeof want);
    p.c.data = x + SIDE - 1;
    refuse(ctx, &p, "c overlaps a");
    p.c.data = y + 5 * LEAD + SIDE - 1;
    refuse(ctx, &p, "c overlaps b");
    p.c.data = NULL;
    refuse(ctx, &p, "c.data is NULL");
    p.c.data = x + SIDE;
    p.b.data = (void *)(UINTPTR_MAX - 64);
    refuse(ctx, &p, "address space");
    p.b.data = y;
    p.alpha = &two; /* functions do not scale by alpha */
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    for (int j = 0; j < SIDE; j++)
        assert_true(x[SIDE + j] == 2 * want[j]);
    limber_destroy(ctx);
}

/* ---- the table of functions ------------------------------------------------------------------ */

/* Number of compilations, and whether they fail. */
static atomic_int made;
static atomic_bool fails;

static void write_nothing(const void *a, const void *b, void *c)
{
    (void)a, (void)b, (void)c;
}

/* Replaces the compiler of functions: counts compilations, and fails if the test says so. */
static bool make_function(const struct plan *p, const struct target *t, const struct fixed *f,
                          const struct dump *dump, struct blob *out, struct diag *d)
{
    (void)p, (void)t, (void)f, (void)dump;
    made++;
    if (fails)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a function");
    *out = (struct blob){ calloc(1, 1), 1 };
    return out->data != NULL;
}

/* Replaces the loader: the loaded function writes nothing, so that C shows whether it was used. */
static bool load_function(const unsigned char *data, size_t size, struct function **out,
                          void **entry, struct diag *d)
{
    static const limber_kernel nothing = write_nothing;

    (void)data, (void)size, (void)d;
    *out = NULL;
    memcpy(entry, &nothing, sizeof *entry);
    return true;
}

static void unload_function(struct function *f)
{
    (void)f;
}

/* Takes the place of the code of small products, and computes none of them. */
static bool run_direct(const struct fixed *f, const struct scaling *x, const struct target *t,
                       int size, const void *a, const void *b, void *c)
{
    (void)f, (void)x, (void)t, (void)size, (void)a, (void)b, (void)c;
    return false;
}

static bool no_prebuilt(const struct plan *p, const struct target *t, struct blob *out,
                        struct diag *d)
{
    (void)p, (void)t, (void)out;
    return limber_fail(d, LIMBER_STATUS_NOT_READY, "no prebuilt kernels");
}

/* Opens a context whose functions compile at once and compute nothing. */
static limber_context *idle_context(void)
{
    static const struct functions functions = { .compile = make_function,
                                                .load = load_function,
                                                .unload = unload_function,
                                                .cost = 12e6,
                                                .saved = 30,
                                                .saved_each = 1.0 / 1600 };
    static const struct cpu_ops cpu = { .fixed = &functions,
                                        .direct = run_direct,
                                        .prebuilt = no_prebuilt };
    static struct backend idle;
    static const struct backend *const list[] = { &idle, NULL };
    const limber_config config = {
        .size = sizeof config, .cache_dir = "", .backend = "counted", .kernels = LIMBER_KERNELS_BOTH
    };
    limber_context *ctx;
    struct diag d = { 0 };

    idle = counted;
    idle.cpu = &cpu;
    if (!limber_context_make(&ctx, &config, list, &d))
        fail_msg("%s", d.text);
    return ctx;
}

static struct product_shape square_shape(int64_t n, int64_t ld)
{
    return (struct product_shape){ { n, n, n, { ld, 1 }, { ld, 1 }, { ld, 1 }, 0 }, 8 };
}

/* If the table is full, no more functions are compiled or looked up. */
static void the_table_is_bounded(void **state)
{
    enum { SHAPES = 2000, PLACES = 256 };
    limber_context *ctx = idle_context();
    int found = 0;

    (void)state;
    made = 0;
    for (int i = 0; i < 2 * SHAPES; i++) {
        const struct product_shape s = square_shape(1 + i % SHAPES % 40, 40 + i % SHAPES / 40);

        limber_shape_make(ctx, &s);
    }
    for (int i = 0; i < SHAPES; i++) {
        const struct product_shape s = square_shape(1 + i % 40, 40 + i / 40);

        found += limber_shape_code(ctx, &s, 0) == write_nothing;
    }
    assert_true(found > PLACES / 2 && found <= PLACES);
    assert_int_equal(found, made);
    limber_destroy(ctx);
}

/* A shape for which there is neither library code nor a compiled function is computed by a kernel.
 * A function that fails to compile is requested only once. */
static void failed_functions_are_requested_once(void **state)
{
    limber_context *ctx = idle_context();
    const struct product_shape s = square_shape(3, 3);
    const double a[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    double c[9] = { 0 };
    limber_report report = LIMBER_REPORT_INIT;
    limber_problem p = gemm_problem(NULL, 3, 3, 3, NULL, (limber_matrix){ a, LIMBER_F64, 3, 1 },
                                    (limber_matrix){ a, LIMBER_F64, 3, 1 }, NULL,
                                    (limber_output){ c, LIMBER_F64, 3, 1 });

    (void)state;
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    assert_true(c[0] == 30 && c[8] == 150);
    c[0] = 0;
    assert_int_equal(limber_run(ctx, &p, &report), LIMBER_STATUS_OK);
    assert_true(c[0] == 30 && c[8] == 150);
    made = 0;
    fails = true;
    for (int i = 0; i < 1000; i++)
        assert_null(limber_shape_code(ctx, &s, often));
    limber_destroy(ctx); /* waits for the background threads */
    assert_true(made <= 1);
    fails = false;
}

/* Only contexts with both kinds of kernels and with compilation allowed make functions for fixed
 * shapes. */
static void settings_decide_whether_functions_are_made(void **state)
{
    limber_context *ctx = context_of(LIMBER_KERNELS_PREBUILT);

    (void)state;
    assert_null(ctx->shapes);
    limber_destroy(ctx);
    ctx = context_of(LIMBER_KERNELS_SPECIALISED);
    assert_null(ctx->shapes);
    limber_destroy(ctx);
    setenv("LIMBER_NO_COMPILE", "1", 1);
    ctx = context_of(LIMBER_KERNELS_BOTH);
    unsetenv("LIMBER_NO_COMPILE");
    assert_null(ctx->shapes);
    limber_destroy(ctx);
}

/* ---- threads that share functions ------------------------------------------------------------ */

enum { THREADS = 4, PRODUCTS = 300 };

/* The products that all threads draw from, with their results. */
struct crowd {
    limber_context *ctx;
    struct trial product[PRODUCTS];
    char *want[PRODUCTS];
};

/* One of the threads. */
struct thread {
    pthread_t thread;
    const struct crowd *crowd;
    uint64_t seed;
    int wrong;
};

/* Thread: computes random products of a list that all threads share, and requests functions for
 * the first 20. */
static void *run_thread(void *arg)
{
    struct thread *t = arg;
    const struct crowd *crowd = t->crowd;
    struct rng r = { t->seed };
    char *c = malloc(1 << 16);

    for (int i = 0; i < 4000; i++) {
        int at = rng_below(&r, PRODUCTS);
        const struct trial *p = &crowd->product[at];
        limber_problem problem = problem_of(p, c);

        if (at < 20 && i % 8 == 0)
            limber_shape_code(crowd->ctx, &p->shape, often);
        memcpy(c, p->c, p->bytes);
        t->wrong += limber_run(crowd->ctx, &problem, NULL) != LIMBER_STATUS_OK ||
                    memcmp(c, crowd->want[at], p->bytes) != 0;
    }
    free(c);
    return NULL;
}

/* Some shapes get functions while all threads multiply.  The context is destroyed while
 * compilations are queued. */
static void threads_share_functions(void **state)
{
    static struct crowd crowd;
    limber_context *plain = context_of(LIMBER_KERNELS_PREBUILT);
    struct thread thread[THREADS];
    struct rng r = { 9 };

    (void)state;
    crowd.ctx = context_of(LIMBER_KERNELS_BOTH);
    for (int i = 0; i < PRODUCTS; i++) {
        crowd.product[i] = draw_trial(&r, 12);
        crowd.want[i] = result_of(plain, &crowd.product[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        thread[i] = (struct thread){ .crowd = &crowd, .seed = (uint64_t)i + 1 };
        assert_int_equal(pthread_create(&thread[i].thread, NULL, run_thread, &thread[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i].thread, NULL);
        assert_int_equal(thread[i].wrong, 0);
    }
    for (int i = 20; i < 40; i++)
        limber_shape_code(crowd.ctx, &crowd.product[i].shape, often);
    limber_destroy(crowd.ctx);
    for (int i = 0; i < PRODUCTS; i++) {
        free_trial(&crowd.product[i]);
        free(crowd.want[i]);
    }
    limber_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_keep_the_bits),
        cmocka_unit_test(batches_use_the_functions_of_their_shape),
        cmocka_unit_test(addresses_are_checked_in_each_call),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(failed_functions_are_requested_once),
        cmocka_unit_test(settings_decide_whether_functions_are_made),
        cmocka_unit_test(threads_share_functions),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
