/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units as libraries call them: k split into parts of tiles, sums of parts in pairs, and
 * results that are rounded twice.  They are compared with the MPFR reference, and with products
 * that mmaemu computed. */
#include "engine_support.h"
#include "support.h"
#include "contexts.h"
#include "unit_backends.h"
#include "unit_any.h"
#include "unit_oracle.h"

#include <math.h>

/* ---- descriptions ---------------------------------------------------------------------------- */

/* A description is printed in its canonical form, and the printed form parses to the same unit. */
static void texts_become_canonical(void **state)
{
    static const struct {
        const char *given, *canonical;
    } texts[] = {
        { "epilogue=f32 merge=pairs deal=turns tile=8 split=3 in=f16 acc=f32",
          "in=f16 acc=f32 split=3 total=f32 tile=8 deal=turns merge=pairs epilogue=f32" },
        { "in=f16 acc=f32 split=2 merge=serial deal=runs epilogue=bf16:rz:ftz",
          "in=f16 acc=f32 split=2 total=f32 epilogue=bf16:rz:ftz" },
        { "h100-scaled-mm a=e5m2 split=4",
          "a=e5m2 b=e4m3 acc=(1,8,13):rz:inf block=32 frac=13 group=128 outer=f32 split=4 "
          "total=f32 tile=128 epilogue=f32" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        limber_unit u = unit(texts[i].given), back;
        char text[512];

        assert_string_equal(limber_unit_text(&u, text, sizeof text), texts[i].canonical);
        back = unit(text);
        assert_memory_equal(&back, &u, sizeof u);
    }
}

/* Each invalid description is refused with a text that names the word at fault. */
static void contradictions_name_their_key(void **state)
{
    static const struct refused_unit bad[] = {
        { "in=e5m2 acc=f16 tile=0", "tile: '0' is not a number" },
        { "in=e5m2 acc=f16 tile=1048577", "tile:" },
        { "in=e5m2 acc=f16 block=4 frac=9 tile=6 split=2", "tile: 6 is no multiple" },
        { "in=e5m2 acc=f16 tile=8 order=reverse", "tile: only with order=forward" },
        { "in=e5m2 acc=f16:rs seed=1 tile=8 split=2", "tile:" },
        { "in=e5m2 acc=f16 split=2 deal=turns", "deal: there are no tiles" },
        { "in=e5m2 acc=f16 deal=around", "deal: 'around' is none of" },
        { "in=e5m2 acc=f16 merge=pairs", "merge: k is not split" },
        { "in=e5m2 acc=f16 split=2 merge=all", "merge:" },
        { "in=e5m2 acc=f16 total=f32", "total: k is not split" },
        { "in=e5m2 acc=f16 epilogue=f33", "epilogue: 'f33' is no format" },
        { "in=e5m2 acc=f16 epilogue=f64", "epilogue: e = 11" },
        { "in=e5m2 acc=f16 epilogue=f16:rs seed=1", "epilogue: results are not" },
        { "in=e5m2 acc=f16 epilogue=f16 epilogue=f16", "epilogue: said twice" },
        { "in=f64 acc=f64 epilogue=f32", "epilogue:" },
        { "in=i8 acc=i32 epilogue=f32", "in: integer units" },
        { "in=i8 acc=i32 tile=4", "in: integer units" },
    };

    (void)state;
    expect_refused_units(bad, COUNT(bad));
}

/* A structure of a version without these words is refused by its size if the unit has them. */
static void old_structures_lose_no_words(void **state)
{
    limber_unit u = { .size = offsetof(limber_unit, epilogue) };

    (void)state;
    assert_int_equal(limber_unit_parse("h100-e4m3", &u), LIMBER_STATUS_OK);
    assert_refused(limber_unit_parse("h100-scaled-mm", &u), LIMBER_STATUS_BAD_ARGUMENT,
                   "unit.size = ");
}

/* ---- random units ---------------------------------------------------------------------------- */

/* A product whose result is stored in some format, with or without scalars. */
struct product {
    const limber_unit *u;
    int64_t m, n, k;
    double *a, *b, *c;
    limber_format f;
    const double *alpha, *beta; /* NULL: absent */
};

/* Returns what is to be stored for element i of a product, whose sum is `sum`. */
static double stored(const struct product *p, double sum, double old)
{
    const limber_step last = { p->f, LIMBER_ROUND_NEAREST, 0 };
    double x = p->alpha ? *p->alpha * sum : sum;

    if (p->beta)
        x = fma(*p->beta, old, x);
    else if (p->u->epilogue.format.kind)
        x += 0.0;
    if (p->u->epilogue.format.kind)
        x = oracle_round(&p->u->epilogue, x, 0, 0);
    return p->f.exp_bits == 11 ? x : oracle_round(&last, x, 0, 0);
}

/* Computes the sums of a product by the MPFR reference. */
static double *reference_sums(const struct product *p, limber_statistics *counts)
{
    struct oracle_value *a = oracle_load_lines(p->u, 0, p->a, p->m, p->k, p->k, 1);
    struct oracle_value *b = oracle_load_lines(p->u, 1, p->b, p->n, p->k, 1, p->n);
    double *sums = calloc((size_t)(p->m * p->n), sizeof *sums);

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            sums[i * p->n + j] = oracle_dot(p->u, a + i * p->k, b + j * p->k, p->k,
                                            p->u->start_c ? p->c[i * p->n + j] : 0, i, j, counts);
    free(a);
    free(b);
    return sums;
}

/* Computes a product by one backend, and compares the elements of C with the reference's sums. */
static void compare(const struct product *p, int ctx, const double *sums, const char *text,
                    limber_statistics *s)
{
    const size_t count = (size_t)(p->m * p->n);
    char *c = converted(p->c, count, p->f), *alpha = NULL, *beta = NULL;
    double *got = calloc(count, sizeof *got), *old = calloc(count, sizeof *old), one = 1;
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = p->u,
                                 .statistics = s };

    if (p->alpha)
        alpha = converted(p->alpha, 1, p->f);
    if (p->beta || p->u->start_c)
        beta = converted(p->beta ? p->beta : &one, 1, p->f);
    assert_int_equal(limber_convert(old, named("f64"), c, p->f, count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    if (limber_gemm(backend[ctx], &contract, p->m, p->n, p->k, alpha,
                    (limber_matrix){ p->a, named("f64"), p->k ? p->k : 1, 1 },
                    (limber_matrix){ p->b, named("f64"), p->n, 1 }, beta,
                    output_of((limber_matrix){ c, p->f, p->n, 1 }), NULL))
        fail_msg("%s: %s", text, limber_error_text());
    assert_int_equal(limber_convert(got, named("f64"), c, p->f, count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        const double due = stored(p, sums[i], old[i]);

        if (!oracle_equal(got[i], due))
            fail_msg("%s on %s, %d x %d x %d: element %d is %a, not %a", text, backend_name[ctx],
                     (int)p->m, (int)p->n, (int)p->k, (int)i, got[i], due);
    }
    free(c);
    free(alpha);
    free(beta);
    free(got);
    free(old);
}

/* Compares a random product of a unit with the reference on both backends: bits, and additions of
 * sums of groups and parts. */
static void check_unit(struct rng *r, const limber_unit *u, const char *text)
{
    static const char *const formats[] = { "f32", "f32", "f16", "bf16", "e5m2", "f64" };
    static const double alphas[] = { 1.5, -0.5, 0, 0.375 }, betas[] = { 1, -0.75 };
    const int kind = rng_below(r, VALUE_KINDS);
    limber_statistics want = LIMBER_STATISTICS_INIT;
    struct product p = { .u = u,
                         .m = 1 + rng_below(r, 3),
                         .n = 1 + rng_below(r, 40),
                         .k = rng_below(r, 90),
                         .f = named(u->start_c ? "f32" : formats[rng_below(r, COUNT(formats))]) };
    double *sums;

    p.a = any_matrix(r, p.m * p.k, kind);
    p.b = any_matrix(r, p.k * p.n, kind);
    p.c = any_matrix(r, p.m * p.n, 4);
    if (!u->start_c && rng_below(r, 2))
        p.alpha = &alphas[rng_below(r, COUNT(alphas))];
    if (!u->start_c && rng_below(r, 3) == 0)
        p.beta = &betas[rng_below(r, COUNT(betas))];
    sums = reference_sums(&p, &want);
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        limber_statistics s = LIMBER_STATISTICS_INIT;

        compare(&p, ctx, sums, text, NULL);
        compare(&p, ctx, sums, text, &s);
        assert_int_equal(s.outer_sums, want.outer_sums);
        assert_int_equal(s.outer_swamped, want.outer_swamped);
        assert_int_equal(s.swamped, want.swamped);
    }
    free(sums);
    free(p.a);
    free(p.b);
    free(p.c);
}

/* Random units with tiles and an epilogue have the results of the reference implementation. */
static void random_units_compute_what_they_describe(void **state)
{
    struct rng r = { 52 };
    int turns = 0, pairs = 0, twice = 0;

    (void)state;
    for (int i = 0; i < (BRIEF ? 6 : is_long() ? 120 : 14); i++) {
        char text[512];
        limber_unit u = any_library_unit(&r, text, sizeof text);

        turns += u.deal_turns && u.split > 2;
        pairs += u.merge_pairs && u.split > 2;
        twice += u.epilogue.format.kind != 0;
        check_unit(&r, &u, text);
    }
    assert_true(turns > 0 && twice > 0 && (BRIEF || pairs > 0));
}

/* 1 + 2^-8 + 2^-26 is just above a midpoint of BF16 numbers.  Rounded to FP32 first, it is the
 * midpoint, and rounds down.  A zero result of a negative alpha is then +0, since +0 is added. */
static void results_are_rounded_twice(void **state)
{
    static const char *const units[] = { "in=f16 acc=f32 epilogue=f32", "in=f16 acc=f32" };
    const uint16_t due[2][2] = { { 0x3f80, 0x0000 }, { 0x3f81, 0x8000 } };
    double a[1] = { 1 }, zeros[2] = { 0, 0 }, b[2] = { 1 + 0x1p-8, 1 };
    double minus = -1;

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            limber_unit u = unit(units[i]);
            uint16_t c[2] = { 0, 0 };
            /* C is 2^-26 and beta 1, as a sum in FP32 would lose 2^-26 */
            limber_contract k = { .size = sizeof(limber_contract),
                                  .promise = LIMBER_CONTRACT_SIMULATE,
                                  .unit = &u };
            uint16_t *one = converted(&(double){ 1 }, 1, named("bf16"));
            uint16_t *tiny = converted(&(double){ 0x1p-26 }, 1, named("bf16"));
            uint16_t *negative = converted(&minus, 1, named("bf16"));

            c[0] = *tiny;
            assert_int_equal(limber_gemm(backend[ctx], &k, 1, 1, 1, NULL,
                                         (limber_matrix){ a, named("f64"), 1, 1 },
                                         (limber_matrix){ b, named("f64"), 1, 1 }, one,
                                         output_of((limber_matrix){ c, named("bf16"), 1, 1 }),
                                         NULL),
                             LIMBER_STATUS_OK);
            assert_int_equal(limber_gemm(backend[ctx], &k, 1, 1, 2, negative,
                                         (limber_matrix){ zeros, named("f64"), 2, 1 },
                                         (limber_matrix){ b, named("f64"), 1, 1 }, NULL,
                                         output_of((limber_matrix){ c + 1, named("bf16"), 1, 1 }),
                                         NULL),
                             LIMBER_STATUS_OK);
            assert_int_equal(c[0], due[i][0]);
            assert_int_equal(c[1], due[i][1]);
            free(one);
            free(tiny);
            free(negative);
        }
}

/* ---- products of another program ------------------------------------------------------------- */

enum { M = 2, N = 3, K = 1040 };

/* Fills a matrix with finite codes of e4m3, from a generator with the given seed. */
static void fill_codes(uint8_t *x, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        seed = UINT64_C(6364136223846793005) * seed + UINT64_C(1442695040888963407);
        x[i] = (uint8_t)((seed >> 33) % 254);
        x[i] += x[i] >= 127; /* 127 and 255 are NaN */
    }
}

/* mmaemu 0.1.0 (PyPI, Apache-2.0), mmaemu.accumulate, has these products of two matrices: of its
 * profiles hopper (an H100 PCIe) and ada (an RTX 4060), with k split as the words say. */
static void mmaemu_has_the_same_products(void **state)
{
    static const struct {
        const char *words;
        uint32_t due[M * N];
    } products[] = {
        { "h100-scaled-mm",
          { 0xc86c5800, 0xc7dbc700, 0xc791d2c0, 0x4711c400, 0x48345b00, 0x48611080 } },
        { "h100-scaled-mm split=3",
          { 0xc86c5800, 0xc7dbc700, 0xc791d2c0, 0x4711c400, 0x48345b00, 0x48611080 } },
        { "h100-scaled-mm split=7",
          { 0xc86c5800, 0xc7dbc700, 0xc791d2c0, 0x4711c400, 0x48345b00, 0x48611080 } },
        { "h100-scaled-mm-fast",
          { 0xc86c2800, 0xc7dbcc00, 0xc7920400, 0x47120000, 0x48346400, 0x48613000 } },
        { "h100-scaled-mm-fast split=3",
          { 0xc86c5300, 0xc7dbc680, 0xc791c400, 0x4711fe00, 0x48346000, 0x48616800 } },
        { "h100-scaled-mm-fast split=7",
          { 0xc86c4640, 0xc7dbd200, 0xc791c9c0, 0x4711d000, 0x48347a00, 0x48614f80 } },
        { "ada-scaled-mm",
          { 0xc86c5980, 0xc7dbdc00, 0xc791d240, 0x4711cc00, 0x48345480, 0x48612a00 } },
        { "ada-scaled-mm split=3",
          { 0xc86c5800, 0xc7dbe080, 0xc791e200, 0x47122400, 0x48346800, 0x48613100 } },
        { "ada-scaled-mm split=3 merge=pairs",
          { 0xc86c5800, 0xc7dbe080, 0xc791e200, 0x47122400, 0x48346800, 0x48613100 } },
        { "ada-scaled-mm split=4 merge=pairs",
          { 0xc86c4e80, 0xc7dbdc00, 0xc791edc0, 0x47124400, 0x48345f00, 0x48610a80 } },
        { "ada-scaled-mm split=7 merge=pairs",
          { 0xc86c4ec0, 0xc7dbba80, 0xc7920d80, 0x47122f00, 0x48348100, 0x48611f00 } },
        { "ada-scaled-mm-fast",
          { 0xc86c2800, 0xc7dbcc00, 0xc7921400, 0x47120000, 0x48345800, 0x48612800 } },
        { "ada-scaled-mm-fast split=3",
          { 0xc86c5100, 0xc7dc0000, 0xc791b800, 0x4711e800, 0x48343400, 0x48612600 } },
        { "ada-scaled-mm-fast split=3 merge=pairs",
          { 0xc86c5100, 0xc7dc0000, 0xc791b800, 0x4711e800, 0x48343400, 0x48612600 } },
        { "ada-scaled-mm-fast split=4 merge=pairs",
          { 0xc86c3100, 0xc7dbbc00, 0xc791ec00, 0x4711f400, 0x48345800, 0x48613200 } },
        { "ada-scaled-mm-fast split=7 merge=pairs",
          { 0xc86c5200, 0xc7dbbc00, 0xc79201c0, 0x47120600, 0x48345900, 0x48613d80 } },
    };
    uint8_t a[M * K], b[N * K];

    (void)state;
    fill_codes(a, M * K, 1);
    fill_codes(b, N * K, 2);
    for (size_t i = 0; i < COUNT(products); i++)
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            limber_unit u = unit(products[i].words);
            limber_contract k = { .size = sizeof(limber_contract),
                                  .promise = LIMBER_CONTRACT_SIMULATE,
                                  .unit = &u };
            uint32_t c[M * N];

            assert_int_equal(limber_gemm(backend[ctx], &k, M, N, K, NULL,
                                         (limber_matrix){ a, named("e4m3"), K, 1 },
                                         (limber_matrix){ b, named("e4m3"), 1, K }, NULL,
                                         output_of((limber_matrix){ c, named("f32"), N, 1 }), NULL),
                             LIMBER_STATUS_OK);
            for (int x = 0; x < M * N; x++)
                if (c[x] != products[i].due[x])
                    fail_msg("%s on %s: element %d is %08x, not %08x", products[i].words,
                             backend_name[ctx], x, c[x], products[i].due[x]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_canonical),
        cmocka_unit_test(contradictions_name_their_key),
        cmocka_unit_test(old_structures_lose_no_words),
        cmocka_unit_test(random_units_compute_what_they_describe),
        cmocka_unit_test(results_are_rounded_twice),
        cmocka_unit_test(mmaemu_has_the_same_products),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
