/* SPDX-License-Identifier: BSD-3-Clause
 * Prepared operands must give limber_gemm's bits in every case.  Limbs are made once, limits of
 * memory are kept, and changes of elements are noticed. */
#include "contexts.h"
#include "engine_support.h"

#include "jit/api/api.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* tight: has little workspace, so that C is computed in blocks */
static limber_context *interp, *fast, *tight;

static int make_contexts(void **state)
{
    (void)state;
    if (make_interp_and_best(&interp, &fast))
        return -1;
    tight = group_context(.backend = "auto", .threads = 2, .workspace_bytes = 1 << 18);
    plan_without_matrix_unit(fast);
    return tight ? 0 : -1;
}

/* ---- operands of a trial --------------------------------------------------------------------- */

/* A product of prepared operands; in, out: formats of the operands and the result. */
struct trial {
    const char *in, *out;
    limber_contract contract;
    enum data data;
};

static const struct trial trials[] = {
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
      DATA_unit },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
      DATA_bytes },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE, .scheme = "native" },
      DATA_special },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 40 },
      DATA_spread },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT, .scheme = "ozaki2" },
      DATA_unit },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
      DATA_special },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
      DATA_range },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_FAST, .scheme = "ozaki1-i8" },
      DATA_unit },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_FAST,
        .scheme = "ozaki1-f64",
        .slices = 3 },
      DATA_special },
    { "f64",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_FAST, .scheme = "ozaki2" },
      DATA_ints },
    { "f32",
      "f32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
      DATA_unit },
    { "f32",
      "f32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_FAST, .scheme = "fp32-f" },
      DATA_special },
    { "f32",
      "f64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
      DATA_zeros },
    { "f16",
      "f32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
      DATA_range },
    { "f128",
      "f128",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
      DATA_unit },
    { "dd",
      "dd",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 90 },
      DATA_unit },
    { "i8",
      "i32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT },
      DATA_ints },
    { "u8",
      "i32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT },
      DATA_bytes },
    { "i16",
      "i64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT },
      DATA_ints },
    { "i32",
      "i32",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
      DATA_range },
};
enum { TRIALS = sizeof trials / sizeof *trials };

/* Operands of one product.  The buffers are large enough for all strides. */
struct operands {
    int64_t m, n, k;
    limber_matrix a, b;
    char *c0;
    bool columns; /* C is column-major */
    char alpha[16], beta[16];
    bool scalars;
};

static void *make_random_array(struct rng *r, enum data data, limber_format f, int64_t count)
{
    void *p = malloc((size_t)(count + 1) * f.size);

    fill(r, data, f, p, (size_t)count);
    return p;
}

/* Returns a random matrix, row-major if by_rows, else column-major, with a padding of three
 * elements after each row or column. */
static limber_matrix matrix(struct rng *r, const struct trial *t, int64_t rows, int64_t cols,
                            bool by_rows)
{
    limber_format f = named(t->in);
    int64_t ld = (by_rows ? cols : rows) + 3;

    return (limber_matrix){ make_random_array(r, t->data, f, ld * (by_rows ? rows : cols)), f,
                            by_rows ? ld : 1, by_rows ? 1 : ld };
}

/* Makes operands.  layout: bit 0: A is row-major, bit 1: B is row-major, bit 2: C is column-major,
 * bit 3: alpha and beta are given. */
static struct operands make_operands(struct rng *r, const struct trial *t, int64_t m, int64_t n,
                                     int64_t k, int layout)
{
    limber_format f = named(t->out), s = t->out[0] == 'i' ? named("i64") : f;
    struct operands o = { m,
                          n,
                          k,
                          matrix(r, t, m, k, layout & 1),
                          matrix(r, t, k, n, layout & 2),
                          NULL,
                          layout & 4,
                          { 0 },
                          { 0 },
                          layout & 8 };

    o.c0 = make_random_array(r, t->out[0] == 'i' ? DATA_bytes : DATA_unit, f, m * n);
    fill(r, DATA_bytes, s, o.alpha, 1);
    fill(r, DATA_bytes, s, o.beta, 1);
    return o;
}

static void free_operands(struct operands *o)
{
    free(writable(o->a.data));
    free(writable(o->b.data));
    free(o->c0);
}

/* ---- preparing and multiplying --------------------------------------------------------------- */

/* Multiplies.  a, b: prepared operands; NULL for one that is not prepared. */
static limber_status multiply_operands(limber_context *ctx, const struct trial *t,
                                       const struct operands *o, limber_prepared *a,
                                       limber_prepared *b, char *out, limber_report *report)
{
    limber_matrix c = { out, named(t->out), o->columns ? 1 : o->n, o->columns ? o->m : 1 };
    const void *alpha = o->scalars ? o->alpha : NULL, *beta = o->scalars ? o->beta : NULL;

    memcpy(out, o->c0, (size_t)(o->m * o->n) * c.format.size);
    if (!a && !b)
        return limber_gemm(ctx, &t->contract, o->m, o->n, o->k, alpha, o->a, o->b, beta,
                           output_of(c), report);
    return gemm_prepared(ctx, &t->contract, o->m, o->n, o->k, alpha, a, o->a, b, o->b, beta,
                         output_of(c), report);
}

/* Multiplies; fails the test if the call fails. */
static void multiply_or_fail(limber_context *ctx, const struct trial *t, const struct operands *o,
                             limber_prepared *a, limber_prepared *b, char *out,
                             limber_report *report)
{
    limber_status s = multiply_operands(ctx, t, o, a, b, out, report);

    if (s != LIMBER_STATUS_OK)
        print_error("%s: %s\n", t->in, limber_error_text());
    assert_int_equal(s, LIMBER_STATUS_OK);
}

/* Prepares an operand: A if `left`, else B.  bytes: the limit of its memory; 0 for none. */
static limber_prepared *prepare_operand(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, int left, size_t bytes)
{
    const limber_prepare_config config = { .size = sizeof(limber_prepare_config), .bytes = bytes };
    limber_prepared *o;

    assert_int_equal(limber_prepare(ctx, x, rows, cols, left ? LIMBER_SIDE_A : LIMBER_SIDE_B,
                                    bytes ? &config : NULL, &o),
                     LIMBER_STATUS_OK);
    return o;
}

static char *allocate_result(const struct trial *t, const struct operands *o)
{
    return malloc((size_t)(o->m * o->n) * named(t->out).size + 1);
}

/* Checks that the product with prepared operands has the same bits and the same kernel, at the
 * first use and later. */
static void compare_prepared(limber_context *ctx, const struct trial *t, const struct operands *o,
                             limber_prepared *a, limber_prepared *b)
{
    char *want = allocate_result(t, o), *got = allocate_result(t, o);
    limber_report plain = LIMBER_REPORT_INIT, prepared = LIMBER_REPORT_INIT;

    multiply_or_fail(ctx, t, o, NULL, NULL, want, &plain);
    for (int again = 0; again < 2; again++) {
        multiply_or_fail(ctx, t, o, a, b, got, &prepared);
        if (memcmp(got, want, (size_t)(o->m * o->n) * named(t->out).size) ||
            strcmp(plain.kernel, prepared.kernel))
            fail_msg("%s %s %s %lld x %lld x %lld, prepared %d %d, time %d", t->in, plain.scheme,
                     data_name(t->data), (long long)o->m, (long long)o->n, (long long)o->k,
                     a != NULL, b != NULL, again);
        assert_int_equal(plain.parts, prepared.parts);
    }
    free(want);
    free(got);
}

/* ---- prepared operands give the same bits ---------------------------------------------------- */

/* Multiplies a prepared A with several widths of B, and a prepared B with several heights of A. */
static void check_both_sides(limber_context *ctx, struct rng *r, const struct trial *t, int64_t m,
                             int64_t n, int64_t k, int layout)
{
    struct operands o = make_operands(r, t, m, n, k, layout);
    limber_prepared *a = prepare_operand(ctx, o.a, m, k, 1, 0),
                    *b = prepare_operand(ctx, o.b, k, n, 0, 0);

    compare_prepared(ctx, t, &o, a, NULL);
    compare_prepared(ctx, t, &o, NULL, b);
    compare_prepared(ctx, t, &o, a, b);
    o.n = n / 2 + 1;
    compare_prepared(ctx, t, &o, a, NULL);
    o.n = n;
    o.m = m / 2 + 1;
    compare_prepared(ctx, t, &o, NULL, b);
    o.m = m;
    o.columns = !o.columns; /* another layout of C, with or without scalars */
    o.scalars = !o.scalars;
    compare_prepared(ctx, t, &o, a, b);
    limber_prepared_free(a);
    limber_prepared_free(b);
    free_operands(&o);
}

/* Prepared operands of every scheme give the bits of unprepared ones in compiled kernels, in many
 * layouts. */
static void test_every_scheme(void **state)
{
    struct rng r = { 11 };

    (void)state;
    for (int i = 0; i < TRIALS; i++)
        for (int layout = i % 2; layout < 16; layout += SANITIZED ? 15 : 7)
            check_both_sides(fast, &r, &trials[i], 70 + i, 90 - i, 67 + 7 * layout, layout);
}

/* Prepared operands give the bits of unprepared ones in the interpreter. */
static void test_interp(void **state)
{
    struct rng r = { 12 };

    (void)state;
    for (int i = 0; i < TRIALS; i++)
        check_both_sides(interp, &r, &trials[i], 9, 7, 12, 5 * i % 16);
}

/* With little memory for C, blocks of C begin at lines in the middle of the kept limbs. */
static void test_small_workspace(void **state)
{
    static const int some[] = { 0, 4, 7, 10, 14, 16 };
    struct rng r = { 13 };

    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const struct trial *t = &trials[some[i]];
        struct operands o = make_operands(&r, t, 530, 610, 150, (int)i);
        limber_prepared *a = prepare_operand(tight, o.a, 530, 150, 1, 64 << 20);
        limber_prepared *b = prepare_operand(tight, o.b, 150, 610, 0, 64 << 20);

        compare_prepared(tight, t, &o, a, NULL);
        compare_prepared(tight, t, &o, NULL, b);
        compare_prepared(tight, t, &o, a, b);
        limber_prepared_free(a);
        limber_prepared_free(b);
        free_operands(&o);
    }
}

/* Prepared operands give the same bits if k is so long that it is split, and C holds partial
 * sums. */
static void test_cut_k(void **state)
{
    static const struct {
        int trial;
        int64_t m, n, k;
    } cut[] = {
        { 0, 4100, 17, 1300 },
        { 0, 33, 2050, 2100 },
        { 10, 4100, 17, 2300 },
        { 16, 6000, 20, 6000 },
    };
    struct rng r = { 14 };

    (void)state;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i += SANITIZED ? 2 : 1) {
        const struct trial *t = &trials[cut[i].trial];
        struct operands o = make_operands(&r, t, cut[i].m, cut[i].n, cut[i].k, 1);
        limber_prepared *a = prepare_operand(fast, o.a, o.m, o.k, 1, 0),
                        *b = prepare_operand(fast, o.b, o.k, o.n, 0, 0);

        compare_prepared(fast, t, &o, a, NULL);
        compare_prepared(fast, t, &o, NULL, b);
        compare_prepared(fast, t, &o, a, b);
        limber_prepared_free(a);
        limber_prepared_free(b);
        free_operands(&o);
    }
}

/* One row spans many binades, so that several plans compute the product.  All of them use the
 * scan results of the prepared operands. */
static void test_mixed(void **state)
{
    static const struct trial t = { "f64",
                                    "f64",
                                    { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT },
                                    DATA_bytes };
    struct rng r = { 15 };
    struct operands o = make_operands(&r, &t, 448, 384, 512, 1);
    limber_prepared *a, *b;
    limber_report report = LIMBER_REPORT_INIT;
    char *c = allocate_result(&t, &o);

    (void)state;
    fill(&r, DATA_unit, o.a.format, (char *)o.a.data + 70 * o.a.row_stride * o.a.format.size, 512);
    a = prepare_operand(fast, o.a, o.m, o.k, 1, 0);
    b = prepare_operand(fast, o.b, o.k, o.n, 0, 0);
    multiply_or_fail(fast, &t, &o, a, b, c, &report);
    assert_true(report.parts > 1 || !strcmp(report.backend, "interp"));
    compare_prepared(fast, &t, &o, a, b);
    limber_prepared_free(a);
    limber_prepared_free(b);
    free(c);
    free_operands(&o);
}

/* A prepared operand keeps limbs of two sizes separately, such as those of all rows and those of
 * the last rows of a call. */
static void test_sizes_of_limbs(void **state)
{
    struct rng r = { 17 };
    struct operands o = make_operands(&r, &trials[0], 40, 40, 40, 0);
    limber_prepared *a = prepare_operand(fast, o.a, o.m, o.k, 1, 0);
    const struct facts facts = { .scheme = "none" };
    struct kept_limbs *few, *all, *again;
    const struct keeper *keep;
    struct keeping of;

    (void)state;
    keep = limber_operand_keeper(a, &facts, 0, 0, &of);
    assert_non_null(keep);
    few = keep->alloc(keep->self, 0, 1000);
    assert_non_null(few);
    keep->packed(keep->self, few);
    all = keep->alloc(keep->self, 0, 2000);
    assert_true(all != few);
    again = keep->alloc(keep->self, 0, 1000);
    assert_ptr_equal(again, few);
    keep->free(keep->self, few);
    keep->free(keep->self, again);
    if (all)
        keep->free(keep->self, all);
    limber_prepared_free(a);
    free_operands(&o);
}

/* Prepared operands may have sizes of 0, and then no address. */
static void test_empty(void **state)
{
    static const int64_t sizes[][3] = { { 0, 4, 5 }, { 4, 0, 5 }, { 4, 5, 0 }, { 0, 0, 0 } };
    struct rng r = { 16 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = 0; layout < 16; layout += 8) {
            struct operands o =
                make_operands(&r, &trials[4], sizes[i][0], sizes[i][1], sizes[i][2], layout);
            limber_prepared *a = prepare_operand(fast, o.a, o.m, o.k, 1, 0);
            limber_prepared *b = prepare_operand(fast, o.b, o.k, o.n, 0, 0);

            compare_prepared(fast, &trials[4], &o, a, b);
            limber_prepared_free(a);
            limber_prepared_free(b);
            free_operands(&o);
        }
    for (int left = 0; left < 2; left++) { /* empty operands without an address */
        const limber_matrix none = { NULL, LIMBER_F32, 0, 1 };

        limber_prepared_free(prepare_operand(fast, none, left ? 0 : 3, left ? 3 : 0, left, 0));
    }
}

/* ---- limbs that a prepared operand keeps ----------------------------------------------------- */

/* Replaces A's elements by others of the same class (range of exponents, number of bits), so
 * that the plan stays the same.  Returns the old ones, which the caller frees. */
static void *replace_elements(struct rng *r, const struct operands *o)
{
    size_t bytes = (size_t)(o->m * o->a.row_stride) * o->a.format.size;
    void *old = malloc(bytes);

    memcpy(old, o->a.data, bytes);
    fill(r, DATA_unit, o->a.format, writable(o->a.data), (size_t)(o->m * o->a.row_stride));
    return old;
}

/* True if the backend keeps prepared limbs: only compiled kernels do. */
static bool keeps_limbs(void)
{
    struct rng r = { 1 };
    struct operands o = make_operands(&r, &trials[0], 4, 4, 4, 1);
    char c[128];
    limber_report report = LIMBER_REPORT_INIT;

    multiply_or_fail(fast, &trials[0], &o, NULL, NULL, c, &report);
    free_operands(&o);
    return strcmp(report.backend, "llvm") == 0;
}

/* Finds out for each trial whether its limbs were kept: then, after A has changed, the result is
 * still that of the old A. bound: bytes of limbs that the context may keep. */
static void find_kept(size_t bound, const int *trial, int count, bool *kept)
{
    struct rng r = { 17 };
    struct operands o = make_operands(&r, &trials[trial[0]], 100, 90, 80, 1);
    size_t bytes = (size_t)(o.m * o.n) * 8;
    limber_prepared *a = prepare_operand(fast, o.a, o.m, o.k, 1, bound);
    char *before[4], *after = malloc(bytes), *now = malloc(bytes);

    for (int i = 0; i < count; i++) {
        before[i] = malloc(bytes);
        multiply_or_fail(fast, &trials[trial[i]], &o, a, NULL, before[i], NULL);
    }
    free(replace_elements(&r, &o));
    for (int i = count - 1; i >= 0; i--) {
        multiply_or_fail(fast, &trials[trial[i]], &o, a, NULL, after, NULL);
        multiply_or_fail(fast, &trials[trial[i]], &o, NULL, NULL, now, NULL);
        assert_memory_not_equal(before[i], now, bytes);
        kept[i] = !memcmp(after, before[i], bytes);
        assert_true(kept[i] || !memcmp(after, now, bytes));
        free(before[i]);
    }
    free(after);
    free(now);
    limber_prepared_free(a);
    free_operands(&o);
}

/* Limbs of prepared operands are kept between calls up to a number of bytes, and older ones are
 * evicted. */
static void test_prepared_limbs_are_kept(void **state)
{
    static const int one[] = { 0 }, two[] = { 0, 4 };
    bool kept[2];
    size_t bound;

    (void)state;
    if (!keeps_limbs())
        skip_because("this backend keeps no limbs");
    find_kept(0, one, 1, kept);
    assert_true(kept[0]);
    find_kept(0, two, 2, kept);
    assert_true(kept[0] && kept[1]);
    find_kept(1, two, 2, kept); /* too little for any limbs */
    assert_false(kept[0] || kept[1]);
    find_kept(80 << 10, one, 1, kept); /* enough for 100 x 80 doubles, and the padding of panels */
    assert_true(kept[0]);
    /* Enough for the limbs of one product only, so that the residues evict the limbs of `native`.
     * A residue takes one byte, or a 16-bit word; matrix units pad 80 elements to 128. */
    bound = fast->machine.target.group == 2                                 ? 200 << 10 :
            fast->machine.target.group == 4 && !fast->machine.target.matrix ? 150 << 10 :
                                                                              300 << 10;
    find_kept(bound, two, 2, kept);
    assert_true(!kept[0] && kept[1]);
}

/* A call of one of several threads with the same prepared operands. */
struct concurrent_call {
    const struct trial *t;
    const struct operands *o;
    limber_prepared *a, *b;
    pthread_barrier_t *start;
    char *out;
    bool ok;
};

/* Thread: multiplies by shared operands as soon as all threads have started. */
static void *multiply_concurrently(void *arg)
{
    struct concurrent_call *x = arg;

    pthread_barrier_wait(x->start);
    x->ok = multiply_operands(fast, x->t, x->o, x->a, x->b, x->out, NULL) == LIMBER_STATUS_OK;
    return NULL;
}

/* Threads use a prepared operand for the first time all at once, with memory for the limbs of one
 * kernel or of none. */
static void test_threads(void **state)
{
    enum { THREADS = 4, TIMES = 6 };
    static const int of_thread[THREADS] = { 0, 0, 4, 4 };
    struct rng r = { 18 };
    struct operands o = make_operands(&r, &trials[0], 200, 190, 180, 0);
    size_t bytes = (size_t)(o.m * o.n) * 8;
    char *want[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        want[i] = malloc(bytes);
        multiply_or_fail(fast, &trials[of_thread[i]], &o, NULL, NULL, want[i], NULL);
    }
    for (int time = 0; time < TIMES; time++) {
        size_t bound = time % 2 ? 700 << 10 : 0;
        limber_prepared *a = prepare_operand(fast, o.a, o.m, o.k, 1, bound);
        limber_prepared *b = prepare_operand(fast, o.b, o.k, o.n, 0, bound);
        struct concurrent_call x[THREADS];
        pthread_t thread[THREADS];
        pthread_barrier_t start;

        pthread_barrier_init(&start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            x[i] = (struct concurrent_call){ &trials[of_thread[i]], &o,   a, b, &start,
                                             malloc(bytes),         false };
            assert_int_equal(pthread_create(&thread[i], NULL, multiply_concurrently, &x[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_true(x[i].ok);
            assert_memory_equal(x[i].out, want[i], bytes);
            free(x[i].out);
        }
        pthread_barrier_destroy(&start);
        limber_prepared_free(a);
        limber_prepared_free(b);
    }
    for (int i = 0; i < THREADS; i++)
        free(want[i]);
    free_operands(&o);
}

/* ---- operands that change after preparation -------------------------------------------------- */

/* Checks that a call refuses a prepared operand whose elements have changed. */
static void expect_changes_noticed(limber_context *ctx, int trial, int layout)
{
    const limber_prepare_config config = { .size = sizeof(limber_prepare_config), .changes = 1 };
    const struct trial *t = &trials[trial];
    struct rng r = { 19 + (uint64_t)layout };
    struct operands o = make_operands(&r, t, 37, 29, 300, layout);
    char *c = allocate_result(t, &o), *want = allocate_result(t, &o);
    limber_prepared *a, *b;

    multiply_or_fail(ctx, t, &o, NULL, NULL, want, NULL);
    assert_int_equal(limber_prepare(ctx, o.a, o.m, o.k, LIMBER_SIDE_A, &config, &a),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_prepare(ctx, o.b, o.k, o.n, LIMBER_SIDE_B, &config, &b),
                     LIMBER_STATUS_OK);
    for (int i = 0; i < 20; i++) {
        const limber_matrix *x = i % 2 ? &o.b : &o.a;
        int64_t rows = i % 2 ? o.k : o.m, cols = i % 2 ? o.n : o.k;
        int64_t row = i < 2 ? rows - 1 : rng_below(&r, (int)rows);
        int64_t col = i < 2 ? cols - 1 : rng_below(&r, (int)cols);
        char *at = (char *)x->data + (row * x->row_stride + col * x->col_stride) * x->format.size;

        at += rng_below(&r, x->format.size);
        *at ^= 1;
        assert_int_equal(multiply_operands(ctx, t, &o, a, b, c, NULL), LIMBER_STATUS_BAD_ARGUMENT);
        assert_non_null(
            strstr(limber_error_text(), i % 2 ? "prepared_b has changed since it was prepared" :
                                                "prepared_a has changed since it was prepared"));
        assert_memory_equal(c, o.c0, (size_t)(o.m * o.n) * named(t->out).size);
        assert_int_equal(limber_prepared_check(i % 2 ? b : a), LIMBER_STATUS_BAD_ARGUMENT);
        assert_int_equal(limber_prepared_check(i % 2 ? a : b), LIMBER_STATUS_OK);
        *at ^= 1;
        multiply_or_fail(ctx, t, &o, a, b, c, NULL);
        assert_memory_equal(c, want, (size_t)(o.m * o.n) * named(t->out).size);
    }
    limber_prepared_free(a);
    limber_prepared_free(b);
    free(c);
    free(want);
    free_operands(&o);
}

/* Calls and limber_prepared_check notice that elements of a prepared operand have changed. */
static void test_changed_operands_are_noticed(void **state)
{
    (void)state;
    expect_changes_noticed(fast, 0, 0);
    expect_changes_noticed(fast, 4, 3);
    expect_changes_noticed(fast, 14, 9);
    expect_changes_noticed(interp, 16, 6);
}

/* Memory between rows does not belong to the operand: limber_prepared_check does not notice
 * changes there. */
static void test_gaps_may_change(void **state)
{
    struct rng r = { 23 };
    struct operands o = make_operands(&r, &trials[0], 8, 8, 8, 1);
    limber_prepared *a = prepare_operand(fast, o.a, 8, 8, 1, 0);

    (void)state;
    ((double *)o.a.data)[8] += 1; /* just past the first row */
    assert_int_equal(limber_prepared_check(a), LIMBER_STATUS_OK);
    ((double *)o.a.data)[7] += 1;
    assert_int_equal(limber_prepared_check(a), LIMBER_STATUS_BAD_ARGUMENT);
    limber_prepared_free(a);
    free_operands(&o);
}

/* ---- arguments that are refused -------------------------------------------------------------- */

static void expect_refused(limber_context *ctx, const struct operands *o, limber_prepared *a,
                           limber_prepared *b, const char *why)
{
    char c[8 * 8 * 8];

    assert_refused(multiply_operands(ctx, &trials[0], o, a, b, c, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   why);
}

/* A prepared operand is refused with another context, side, size or matrix than those it was
 * prepared for. */
static void test_arguments(void **state)
{
    struct rng r = { 24 };
    struct operands o = make_operands(&r, &trials[0], 8, 6, 7, 1), other;
    limber_prepared *a = prepare_operand(fast, o.a, 8, 7, 1, 0),
                    *b = prepare_operand(fast, o.b, 7, 6, 0, 0), *x;
    limber_matrix none = o.a;

    (void)state;
    expect_refused(interp, &o, a, NULL, "prepared_a was prepared with another context");
    expect_refused(fast, &o, NULL, a, "prepared_b was prepared for the other side");
    other = o;
    other.m = 7;
    expect_refused(fast, &other, a, NULL, "prepared_a was prepared as 8 x 7, not 7 x 7");
    other = o;
    other.b.data = (double *)o.b.data + 1;
    other.n = 6;
    expect_refused(fast, &other, NULL, b, "prepared_b was prepared of another matrix");
    other = o;
    other.a.row_stride = o.a.row_stride - 1;
    expect_refused(fast, &other, a, b, "prepared_a was prepared of another matrix");

    none.data = NULL;
    assert_int_equal(limber_prepare(fast, none, 8, 7, LIMBER_SIDE_A, NULL, &x),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(x);
    assert_refused(limber_prepare(fast, o.a, -8, 7, LIMBER_SIDE_A, NULL, &x),
                   LIMBER_STATUS_BAD_ARGUMENT, "rows = -8");
    assert_int_equal(limber_prepare(NULL, o.a, 8, 7, LIMBER_SIDE_A, NULL, &x),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_prepare(fast, o.a, 8, 7, LIMBER_SIDE_A, NULL, NULL),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_prepared_check(NULL), LIMBER_STATUS_BAD_ARGUMENT);
    limber_prepared_free(NULL);
    limber_prepared_free(a);
    limber_prepared_free(b);
    free_operands(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scheme),    cmocka_unit_test(test_interp),
        cmocka_unit_test(test_small_workspace), cmocka_unit_test(test_cut_k),
        cmocka_unit_test(test_mixed),           cmocka_unit_test(test_sizes_of_limbs),
        cmocka_unit_test(test_empty),           cmocka_unit_test(test_prepared_limbs_are_kept),
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_changed_operands_are_noticed),
        cmocka_unit_test(test_gaps_may_change), cmocka_unit_test(test_arguments),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
