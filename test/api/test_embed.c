/* SPDX-License-Identifier: BSD-3-Clause
 * What a host program can provide or do: its own allocator, its own workspace, and unloading the
 * library. */
#include "contexts.h"
#include "engine_support.h"

#include <dlfcn.h>
#include <fenv.h>
#include <math.h>

/* ---- an allocator that counts and can be exhausted ------------------------------------------- */

/* taken, given: blocks allocated and freed; left: allocations until alloc_counted() fails */
struct store {
    atomic_int taken, given, left;
    atomic_size_t bytes;
};

/* An allocator's `alloc` that counts blocks and fails when `left` is used up. */
static void *alloc_counted(void *user, size_t bytes, size_t alignment)
{
    struct store *s = user;
    void *p;

    if (s->left-- <= 0)
        return NULL;
    p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    assert_non_null(p);
    memset(p, 0xff, bytes); /* fills the memory with NaN, to expose reads of uninitialised memory */
    s->taken++;
    s->bytes += bytes;
    return p;
}

/* Frees a block and counts it. */
static void free_counted(void *user, void *memory)
{
    struct store *s = user;

    assert_non_null(memory);
    s->given++;
    free(memory);
}

/* Creates a context whose memory comes from the counting allocator. */
static limber_context *create_context(struct store *s)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .cache_dir = "",
                                   .threads = 2,
                                   .allocator = { alloc_counted, free_counted, s } };
    limber_context *ctx;

    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    return ctx;
}

/* ---- products that the tests call ------------------------------------------------------------ */

enum { N = 90 };

static void fill_numbers(double *x, int n, int seed)
{
    for (int i = 0; i < n; i++)
        x[i] = (i * 7 + seed) % 31 - 15;
}

/* Multiplies doubles under a contract.  queue: with a workspace, or NULL. */
static limber_status multiply_doubles(limber_context *ctx, limber_promise promise, double *c,
                                      const limber_queue *queue, limber_report *r)
{
    const limber_contract k = { .size = sizeof(limber_contract), .promise = promise };
    static double a[N * N], b[N * N];
    limber_format f = named("f64");

    fill_numbers(a, N * N, 1);
    fill_numbers(b, N * N, 2);
    return gemm_batch(ctx, &k, queue, NULL, N, N, N, NULL, (limber_matrix){ a, f, N, 1 },
                      (limber_matrix){ b, f, N, 1 }, NULL, (limber_output){ c, f, N, 1 }, r);
}

/* Checks that c is the product of the numbers of seeds 1 and 2, which is exact in binary64. */
static void assert_right(const double *c)
{
    static double a[N * N], b[N * N];

    fill_numbers(a, N * N, 1);
    fill_numbers(b, N * N, 2);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int p = 0; p < N; p++)
                sum += a[i * N + p] * b[p * N + j];
            assert_true(c[i * N + j] == sum);
        }
}

/* Multiplies i16 operands to an i32 result.  Under `exact`, the library first computes C in
 * separate memory. */
static limber_status multiply_integers(limber_context *ctx, int32_t *c)
{
    const limber_contract k = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT };
    static int16_t a[N * N], b[N * N];
    limber_format f16 = named("i16"), f32 = named("i32");

    for (int i = 0; i < N * N; i++) {
        a[i] = 1000;
        b[i] = 2;
    }
    return limber_gemm(ctx, &k, N, N, N, &(int64_t){ 3 }, (limber_matrix){ a, f16, N, 1 },
                       (limber_matrix){ b, f16, N, 1 }, NULL, (limber_output){ c, f32, N, 1 },
                       NULL);
}

/* Multiplies complex N x N matrices, A conjugated, under the contract `correct`. */
static limber_status complex_product(limber_context *ctx, double *c)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    static double a[2 * N * N], b[2 * N * N];
    const double alpha[2] = { 0, 1 };
    limber_format f = named("f64");

    fill_numbers(a, 2 * N * N, 3);
    fill_numbers(b, 2 * N * N, 4);
    return gemm_complex(ctx, &k, NULL, N, N, N, alpha, (limber_matrix){ a, f, N, 1 }, 1,
                        (limber_matrix){ b, f, N, 1 }, 0, NULL, (limber_output){ c, f, N, 1 }, NULL,
                        0);
}

/* Prepares A and multiplies it by B under the contract `correct`. */
static limber_status multiply_prepared(limber_context *ctx, double *c)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    static double a[N * N], b[N * N];
    limber_format f = named("f64");
    limber_matrix xa = { a, f, N, 1 }, xb = { b, f, N, 1 };
    limber_prepared *o;
    limber_status s;

    fill_numbers(a, N * N, 1);
    fill_numbers(b, N * N, 2);
    assert_int_equal(limber_prepare(ctx, xa, N, N, LIMBER_SIDE_A, NULL, &o), LIMBER_STATUS_OK);
    s = gemm_prepared(ctx, &k, N, N, N, NULL, o, xa, NULL, xb, NULL, (limber_output){ c, f, N, 1 },
                      NULL);
    limber_prepared_free(o);
    return s;
}

/* ---- what a program that embeds the library may control -------------------------------------- */

/* Real, integer, complex and prepared products take memory from the caller's allocator and return
 * all of it. */
static void large_memory_comes_from_the_allocator(void **state)
{
    static double c[2 * N * N];
    static int32_t ci[N * N];
    struct store s = { .left = 1 << 20 };
    limber_context *ctx = create_context(&s);
    int before;

    (void)state;
    assert_int_equal(multiply_doubles(ctx, LIMBER_CONTRACT_CORRECT, c, NULL, NULL),
                     LIMBER_STATUS_OK);
    assert_right(c);
    if (strcmp(ctx->machine.backend->name, "interp") != 0)
        assert_true(s.taken > 0 && s.bytes > N * N);
    before = s.taken;
    assert_int_equal(multiply_integers(ctx, ci), LIMBER_STATUS_OK);
    assert_int_equal(ci[N + 1], 3 * 2000 * N);
    assert_true(s.taken > before);
    before = s.taken;
    assert_int_equal(complex_product(ctx, c), LIMBER_STATUS_OK);
    assert_true(s.taken > before + 1);
    memset(c, 0, sizeof c);
    assert_int_equal(multiply_prepared(ctx, c), LIMBER_STATUS_OK);
    assert_right(c);
    limber_destroy(ctx);
    assert_int_equal(s.taken, s.given);
}

/* Each allocation of a product fails in turn.  C must stay unchanged. */
static void an_exhausted_allocator_leaves_c_unchanged(void **state)
{
    static double c[2 * N * N], before[2 * N * N];
    static int32_t ci[N * N];
    struct store s = { .left = 1 << 20 };
    limber_context *ctx = create_context(&s);
    int needed = s.taken, refused = 0;

    (void)state;
    assert_int_equal(complex_product(ctx, c), LIMBER_STATUS_OK);
    needed = s.taken - needed;
    for (int i = 0; i < 2 * N * N; i++)
        before[i] = c[i] = i;
    for (int enough = 0; enough < needed; enough++) {
        s.left = enough;
        assert_int_equal(complex_product(ctx, c), LIMBER_STATUS_NO_MEMORY);
        assert_memory_equal(c, before, sizeof c);
        refused++;
    }
    assert_true(refused >= 1);
    s.left = 0;
    for (int i = 0; i < N * N; i++)
        ci[i] = i;
    assert_int_equal(multiply_integers(ctx, ci), LIMBER_STATUS_NO_MEMORY);
    for (int i = 0; i < N * N; i++)
        assert_int_equal(ci[i], i);
    s.left = 1 << 20;
    assert_int_equal(multiply_doubles(ctx, LIMBER_CONTRACT_CORRECT, c, NULL, NULL),
                     LIMBER_STATUS_OK);
    assert_right(c);
    limber_destroy(ctx);
    assert_int_equal(s.taken, s.given);
}

/* An allocator without its function to free, or without that to allocate, is refused. */
static void half_an_allocator_is_refused(void **state)
{
    limber_context *ctx;

    (void)state;
    assert_refused(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                         .allocator = { .alloc = alloc_counted } }),
                   LIMBER_STATUS_BAD_ARGUMENT, "allocator.free is NULL");
    assert_refused(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                         .allocator = { .free = free_counted } }),
                   LIMBER_STATUS_BAD_ARGUMENT, "allocator.alloc is NULL");
}

/* The caller's workspace, at several addresses, of the least and of the recommended size: nothing
 * outside may be written, and the bits must be the same. */
static void a_workspace_of_the_callers(void **state)
{
    enum { GUARD = 100 };
    static double c[N * N], a[N * N];
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    limber_format f = named("f64");
    struct store s = { .left = 0 };
    limber_context *ctx = create_context(&s);
    size_t least, best;

    (void)state;
    fill_numbers(a, N * N, 1);
    assert_int_equal(gemm_workspace(ctx, &k, N, N, N, NULL, (limber_matrix){ a, f, N, 1 },
                                    (limber_matrix){ a, f, N, 1 }, NULL,
                                    (limber_output){ NULL, f, N, 1 }, &least, &best),
                     LIMBER_STATUS_OK);
    if (strcmp(ctx->machine.backend->name, "interp") == 0) {
        assert_int_equal(best, 0);
        limber_destroy(ctx);
        return;
    }
    assert_true(least > 0 && least <= best);
    for (int i = 0; i < 3; i++) {
        size_t bytes = i == 0 ? least : i == 1 ? best : least / 2;
        unsigned char *w = malloc(bytes + 2 * GUARD);
        limber_queue queue = { .size = sizeof(limber_queue),
                               .workspace = w + GUARD,
                               .bytes = bytes };
        limber_report r = LIMBER_REPORT_INIT;
        limber_status status;

        memset(w, 0xa5, bytes + 2 * GUARD);
        memset(c, 0, sizeof c);
        status = multiply_doubles(ctx, LIMBER_CONTRACT_CORRECT, c, &queue, &r);
        for (size_t at = 0; at < GUARD; at++)
            assert_true(w[at] == 0xa5 && w[GUARD + bytes + at] == 0xa5);
        free(w);
        assert_int_equal(status, i == 2 ? LIMBER_STATUS_NO_MEMORY : LIMBER_STATUS_OK);
        if (i == 2) {
            assert_non_null(strstr(limber_error_text(), "queue.workspace has"));
            continue;
        }
        assert_right(c);
        assert_true(r.workspace > 0 && r.workspace <= bytes);
    }
    limber_destroy(ctx);
    assert_int_equal(s.taken, 0);
}

/* With beta, each product of a batch is first stored in the workspace, because no result may be
 * stored before all products have memory. */
static void a_batch_in_its_workspace(void **state)
{
    enum { COUNT_OF = 3, SIZE = COUNT_OF * N * N };
    static double a[SIZE], c[SIZE];
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = COUNT_OF, .a = N * N, .b = N * N, .c = N * N
    };
    limber_format f = named("f64");
    struct store s = { .left = 0 };
    limber_context *ctx = create_context(&s);
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_queue queue = LIMBER_QUEUE_INIT;
    size_t bytes[2];

    (void)state;
    for (int i = 0; i < SIZE; i++)
        a[i] = ldexp(1.0 / (1 + i % (N * N)), i % 20);
    p.m = p.n = p.k = N;
    p.contract = &k;
    p.batch = &batch;
    p.a = (limber_matrix){ a, f, N, 1 };
    p.b = (limber_matrix){ a, f, 1, N };
    p.c = (limber_output){ c, f, N, 1 };
    assert_int_equal(limber_workspace(ctx, &p, &bytes[0], &bytes[1]), LIMBER_STATUS_OK);
    for (int i = 0; i < 2 && bytes[i]; i++) {
        queue.workspace = malloc(bytes[i]);
        queue.bytes = bytes[i];
        p.queue = &queue;
        if (limber_run(ctx, &p, NULL))
            fail_msg("%s", limber_error_text());
        free(queue.workspace);
    }
    limber_destroy(ctx);
    assert_int_equal(s.taken, 0);
}

/* Floating-point exception flags must be unchanged after a call, although limbs, NaN, infinities
 * and overflow raise them in between. */
static void flags_are_the_callers(void **state)
{
    static double a[N * N], c[2 * N * N];
    limber_context *ctx;
    limber_format f = named("f64"), f32 = named("f32");

    (void)state;
    for (int i = 0; i < N * N; i++)
        a[i] = i % 97 == 0 ? NAN : i % 89 == 0 ? INFINITY : ldexp(1.0 / (1 + i), i % 2000 - 1000);
    assert_int_equal(
        limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "" }),
        LIMBER_STATUS_OK);
    for (int promise = LIMBER_CONTRACT_NATIVE; promise <= LIMBER_CONTRACT_CORRECT; promise++) {
        const limber_contract k = { .size = sizeof(limber_contract),
                                    .promise = promise,
                                    .bits = 60 };

        for (int raised = 0; raised < 2; raised++) {
            feclearexcept(FE_ALL_EXCEPT);
            if (raised)
                feraiseexcept(FE_OVERFLOW | FE_DIVBYZERO);
            assert_int_equal(limber_gemm(ctx, &k, N, N, N, NULL, (limber_matrix){ a, f, N, 1 },
                                         (limber_matrix){ a, f, 1, N }, NULL,
                                         (limber_output){ c, raised ? f32 : f, N, 1 }, NULL),
                             LIMBER_STATUS_OK);
            assert_int_equal(fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_UNDERFLOW | FE_OVERFLOW),
                             raised ? FE_OVERFLOW | FE_DIVBYZERO : 0);
        }
    }
    limber_destroy(ctx);
}

/* Loads the library, uses its threads and background compilation, and unloads it, five times. */
static void the_library_can_be_closed(void **state)
{
    limber_format f = named("f64");

    (void)state;
    for (int i = 0; i < 5; i++) {
        void *library = dlopen(LIMBER_SHARED, RTLD_NOW | RTLD_LOCAL);
        __typeof__(&limber_create) create;
        __typeof__(&limber_gemm) gemm;
        __typeof__(&limber_destroy) destroy;
        const limber_contract k = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_CORRECT,
                                    .on_miss =
                                        i > 2 ? LIMBER_ON_MISS_GENERIC : LIMBER_ON_MISS_WAIT };
        static double x[N * N], c[N * N];
        limber_context *ctx;

        if (!library)
            fail_msg("%s", dlerror());
        *(void **)&create = dlsym(library, "limber_create");
        *(void **)&gemm = dlsym(library, "limber_gemm");
        *(void **)&destroy = dlsym(library, "limber_destroy");
        fill_numbers(x, N * N, i);
        assert_int_equal(create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                        .cache_dir = "",
                                                        .threads = 3 }),
                         LIMBER_STATUS_OK);
        assert_int_equal(gemm(ctx, &k, N, N, N, NULL, (limber_matrix){ x, f, N, 1 },
                              (limber_matrix){ x, f, N, 1 }, NULL, (limber_output){ c, f, N, 1 },
                              NULL),
                         LIMBER_STATUS_OK);
        destroy(ctx);
        assert_int_equal(dlclose(library), 0);
        /* with background compilation the library stays loaded until the compiling thread ends */
        if (k.on_miss == LIMBER_ON_MISS_WAIT)
            assert_null(dlopen(LIMBER_SHARED, RTLD_NOW | RTLD_NOLOAD));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_memory_comes_from_the_allocator),
        cmocka_unit_test(an_exhausted_allocator_leaves_c_unchanged),
        cmocka_unit_test(half_an_allocator_is_refused),
        cmocka_unit_test(a_workspace_of_the_callers),
        cmocka_unit_test(a_batch_in_its_workspace),
        cmocka_unit_test(flags_are_the_callers),
        cmocka_unit_test(the_library_can_be_closed),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
