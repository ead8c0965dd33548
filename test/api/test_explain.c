/* SPDX-License-Identifier: BSD-3-Clause
 * Tests what the library reports about data and plans: inspections of operands, partitions of
 * products, plans of their parts, and lines of the log. */
#include "contexts.h"
#include "support.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 200, N = 130, K = 600 };

static limber_context *ctx;
/* The last line that the library logged. */
static char line[512];

static void remember(void *user, const char *text)
{
    (void)user;
    snprintf(line, sizeof line, "%s", text);
}

static int make_context(void **state)
{
    (void)state;
    ctx = group_context(.threads = 2, .verbose = 1, .log = remember);
    return ctx ? 0 : -1;
}

/* ---- inspections of operands ----------------------------------------------------------------- */

/* Returns e where x = m 2^e, 1 <= m < 2. */
static int exponent(double x)
{
    int e;

    frexp(x, &e);
    return e - 1;
}

/* Returns the exponent of the lowest bit of x. */
static int lowest_bit(double x)
{
    int e = exponent(x);

    while (fmod(x, ldexp(1, e)) != 0)
        e--;
    return e;
}

/* The expected result of a scan: exponents, number of bits and flags, as limber_tile has them. */
struct seen {
    int emin, emax, low, bits, flags;
};

/* Computes element by element what a scan of the matrix should find.  at: distance between lines
 * (rows of A), in elements. */
static struct seen scan_slowly(const double *x, int64_t lines, int64_t length, int64_t at)
{
    struct seen s = { INT_MAX, INT_MIN, INT_MAX, 0, 0 };
    bool finite = false, special = false;

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < length; p++) {
            double v = x[i * at + p];

            special = special || !isfinite(v);
            if (!isfinite(v) || v == 0)
                continue;
            finite = true;
            s.flags |= v < 0 ? LIMBER_TILE_FLAG_NEGATIVE : 0;
            s.emin = exponent(v) < s.emin ? exponent(v) : s.emin;
            s.emax = exponent(v) > s.emax ? exponent(v) : s.emax;
            s.low = lowest_bit(v) < s.low ? lowest_bit(v) : s.low;
            s.bits =
                exponent(v) - lowest_bit(v) + 1 > s.bits ? exponent(v) - lowest_bit(v) + 1 : s.bits;
        }
    s.flags |= special ? LIMBER_TILE_FLAG_SPECIAL : finite ? 0 : LIMBER_TILE_FLAG_ZERO;
    if (!finite)
        s.emin = s.emax = s.low = 0;
    return s;
}

/* Allocates a matrix whose tiles hold zeros, small integers, or numbers with a wide range of
 * exponents.  One element is NaN. */
static double *make_tiles(struct rng *r, int64_t lines, int64_t length)
{
    double *x = malloc((size_t)(lines * length) * sizeof *x);

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < length; p++)
            switch ((i / 64 + p / 64) % 3) {
            case 0: x[i * length + p] = 0; break;
            case 1: x[i * length + p] = rng_below(r, 200); break;
            default: x[i * length + p] = ldexp(rng_unit(r) - 0.5, rng_below(r, 80) - 40);
            }
    x[70 * length + 2] = NAN;
    return x;
}

/* The public inspection of a matrix gives, for each tile and for the whole matrix, what a plain
 * loop finds. */
static void inspections_match_a_slow_scan(void **state)
{
    struct rng r = { 7 };
    double *x = make_tiles(&r, M, K);
    limber_inspection right = LIMBER_INSPECTION_INIT, left = LIMBER_INSPECTION_INIT;

    (void)state;
    assert_int_equal(
        limber_inspect(ctx, (limber_matrix){ x, named("f64"), K, 1 }, M, K, LIMBER_SIDE_A, &left),
        LIMBER_STATUS_OK);
    assert_int_equal(left.lines, M);
    assert_int_equal(left.length, K);
    assert_int_equal(left.tile_rows, 4);
    assert_int_equal(left.tile_cols, 10);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t p = 0; p < 10; p++) {
            struct seen s = scan_slowly(x + i * 64 * K + p * 64, M - i * 64 < 64 ? M - i * 64 : 64,
                                        K - p * 64 < 64 ? K - p * 64 : 64, K);
            const limber_tile *t = &left.tile[i * 10 + p];

            assert_int_equal(t->flags, s.flags);
            assert_int_equal(t->emin, s.emin);
            assert_int_equal(t->emax, s.emax);
            assert_int_equal(t->low, s.low);
            assert_int_equal(t->bits, s.bits);
        }
    {
        struct seen s = scan_slowly(x, M, K, K);
        int spread = 0, width = 0;

        for (int64_t i = 0; i < M; i++) {
            struct seen l = scan_slowly(x + i * K, 1, K, K);

            spread = l.emax - l.emin > spread ? l.emax - l.emin : spread;
            width = l.emax - l.low + 1 > width ? l.emax - l.low + 1 : width;
        }
        assert_true(left.special && left.negative && !left.zero);
        assert_int_equal(left.emin, s.emin);
        assert_int_equal(left.emax, s.emax);
        assert_int_equal(left.spread, spread);
        assert_int_equal(left.width, width);
        assert_int_equal(left.bits, s.bits);
    }
    /* The same matrix is inspected as the transposed right operand. */
    assert_int_equal(
        limber_inspect(ctx, (limber_matrix){ x, named("f64"), 1, K }, K, M, LIMBER_SIDE_B, &right),
        LIMBER_STATUS_OK);
    assert_int_equal(right.lines, M);
    assert_memory_equal(left.tile, right.tile, 40 * sizeof *left.tile);
    limber_inspection_free(&left);
    limber_inspection_free(&right);
    assert_null(left.tile);
    limber_inspection_free(NULL);
    memset(x, 0, M * K * sizeof *x);
    assert_int_equal(
        limber_inspect(ctx, (limber_matrix){ x, named("f64"), K, 1 }, M, K, LIMBER_SIDE_A, &left),
        LIMBER_STATUS_OK);
    assert_true(left.zero && left.emin == 0 && left.emax == 0 && left.width == 0);
    limber_inspection_free(&left);
    free(x);
}

/* limber_inspect refuses missing pointers and negative sizes, and leaves no result to be freed. */
static void invalid_inspections_are_refused(void **state)
{
    double x[4] = { 1, 2, 3, 4 };
    limber_matrix m = { x, named("f64"), 2, 1 };
    limber_inspection look = LIMBER_INSPECTION_INIT;

    (void)state;
    assert_int_equal(limber_inspect(NULL, m, 2, 2, LIMBER_SIDE_A, &look),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_refused(limber_inspect(ctx, m, 2, 2, LIMBER_SIDE_A, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   "out is NULL");
    assert_refused(limber_inspect(ctx, m, 2, -1, LIMBER_SIDE_A, &look), LIMBER_STATUS_BAD_ARGUMENT,
                   "cols = -1");
    m.data = NULL;
    assert_int_equal(limber_inspect(ctx, m, 2, 2, LIMBER_SIDE_A, &look),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(look.tile);
    assert_int_equal(limber_inspect(ctx, m, 0, 2, LIMBER_SIDE_A, &look), LIMBER_STATUS_OK);
    assert_int_equal(look.lines, 0);
    limber_inspection_free(&look);
}

/* ---- partitions of products ------------------------------------------------------------------ */

/* Allocates a matrix.  In the blocks of 64 rows that `blocks` selects (bit i: block i), the
 * exponents of the second tile along k have a wide range. */
static float *make_matrix(struct rng *r, int64_t lines, unsigned blocks)
{
    float *x = malloc((size_t)(lines * K) * sizeof *x);

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < K; p++) {
            bool wide = blocks >> i / 64 & 1 && p / 256 == 1;

            x[i * K + p] = (float)ldexp(rng_unit(r) - 0.5, wide ? rng_below(r, 60) - 30 : 0);
        }
    return x;
}

/* A product and its report.  columns: C is column-major. */
struct call {
    float *a, *b, *c;
    limber_contract contract;
    bool columns;
    limber_report report;
    limber_part part[LIMBER_PARTS];
};

static limber_matrix result_matrix(const struct call *x)
{
    return (limber_matrix){ x->c, named("f32"), x->columns ? 1 : N, x->columns ? M : 1 };
}

/* Makes a random product of M x N floats under the contract `native`.  columns: C is column-
 * major. */
static struct call make_call(const char *scheme, bool columns)
{
    struct rng r = { 8 };

    return (struct call){
        make_matrix(&r, M, 10),
        make_matrix(&r, N, 1),
        malloc(M * N * sizeof(float)),
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE, .scheme = scheme },
        columns,
        LIMBER_REPORT_INIT
    };
}

static void free_call(struct call *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
}

/* Returns the parts into which the library would divide the product; x->report gets the plan's
 * report. */
static limber_cut explain(struct call *x)
{
    limber_cut out = LIMBER_CUT_INIT;

    x->report.part = x->part;
    x->report.part_room = LIMBER_PARTS;
    assert_int_equal(gemm_cut(ctx, &x->contract, M, N, K, NULL,
                              (limber_matrix){ x->a, named("f32"), K, 1 },
                              (limber_matrix){ x->b, named("f32"), 1, K }, NULL,
                              output_of(result_matrix(x)), &out, &x->report),
                     LIMBER_STATUS_OK);
    return out;
}

/* Computes the product and gets its report with all parts. */
static void run_call(struct call *x)
{
    x->report.part = x->part;
    x->report.part_room = LIMBER_PARTS;
    assert_int_equal(limber_gemm(ctx, &x->contract, M, N, K, NULL,
                                 (limber_matrix){ x->a, named("f32"), K, 1 },
                                 (limber_matrix){ x->b, named("f32"), 1, K }, NULL,
                                 output_of(result_matrix(x)), &x->report),
                     LIMBER_STATUS_OK);
}

/* Returns the text of the product's plan, which the caller frees. */
static char *plan(struct call *x)
{
    char *text;

    assert_int_equal(gemm_plan(ctx, &x->contract, M, N, K, NULL,
                               (limber_matrix){ x->a, named("f32"), K, 1 },
                               (limber_matrix){ x->b, named("f32"), 1, K }, NULL,
                               output_of(result_matrix(x)), &text, &x->report),
                     LIMBER_STATUS_OK);
    return text;
}

/* A plan must report the parts that the call then runs. */
static void planned_parts_are_those_that_run(void **state)
{
    static const unsigned char kinds[2][4 * 3] = { { 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1 },
                                                   { 1, 2, 1, 1, 1, 1, 1, 1, 1 } };
    static const int wide[2] = { 2, 1 }, blocks[2] = { 4, 3 };
    static const unsigned keep[3][2] = { { 2, 2 }, { 4, 6 }, { 2, 4 } };

    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct call x = make_call("fp32-f+native", columns);
        limber_report planned = LIMBER_REPORT_INIT;
        limber_part parts[LIMBER_PARTS];
        limber_cut c = explain(&x);
        double sum = 0;

        planned = x.report;
        memcpy(parts, x.part, sizeof parts);
        planned.part = parts;
        run_call(&x);
        assert_int_equal(c.parts, 3);
        assert_int_equal(c.tile, 256);
        assert_int_equal(c.tiles, 3);
        for (int side = 0; side < 2; side++) {
            assert_int_equal(c.blocks[side], blocks[side]);
            assert_memory_equal(c.kind[side], kinds[side], (size_t)(3 * blocks[side]));
            for (int64_t b = 0; b < c.blocks[side]; b++)
                assert_int_equal(c.group[side][b], 0);
        }
        assert_int_equal(x.report.parts, 3);
        for (int i = 0; i < 3; i++) {
            const limber_part *p = &planned.part[i], *did = &x.report.part[i];

            assert_int_equal(p->kinds[0], keep[i][0]);
            assert_int_equal(p->kinds[1], keep[i][1]);
            assert_int_equal(p->m, M);
            assert_int_equal(p->n, N);
            assert_string_equal(p->scheme, i ? "native" : "fp32-f");
            assert_string_equal(p->scheme, did->scheme);
            assert_true(p->share == did->share && p->cost == did->cost && p->bound == did->bound);
            assert_int_equal(p->kinds[0], did->kinds[0]);
            assert_true(p->seconds == 0 && did->seconds > 0 && p->cost > 0);
            assert_memory_equal(&c.part[i], p, sizeof *p);
            sum += p->share;
        }
        /* in tile 1 along k, 2 of A's 4 blocks and 2 of B's 3 have a small range of exponents */
        assert_true(fabs(planned.part[0].share - (1 + 4. / 12 + 1) / 3) < 1e-12);
        assert_true(fabs(planned.part[1].share - wide[0] / 4. / 3) < 1e-12);
        assert_true(fabs(sum - 1) < 1e-12);
        assert_true(planned.bound == x.report.bound);
        limber_cut_free(&c);
        assert_null(c.group[0]);
        free_call(&x);
    }
    limber_cut_free(NULL);
}

/* A product by one scheme has no parts in the explanation, the report, the plan's text and the
 * log. */
static void whole_products_are_not_partitioned(void **state)
{
    struct call x = make_call("native", false);
    limber_cut c = explain(&x), none = LIMBER_CUT_INIT;
    char *text = plan(&x);

    (void)state;
    assert_memory_equal(&c, &none, sizeof c);
    assert_int_equal(x.report.parts, 0);
    assert_null(strstr(text, "; part"));
    limber_free(text);
    run_call(&x);
    assert_null(strstr(line, "parts"));
    free_call(&x);
}

/* `native` computes the transposed product for a column-major C.  The report must be about the
 * original one. */
static void transposed_products(void **state)
{
    enum { SIZE = 1024, WIDTH = 640 };
    struct rng r = { 9 };
    double *a = calloc((size_t)SIZE * SIZE, sizeof *a),
           *b = malloc((size_t)SIZE * WIDTH * sizeof *b);
    double *c = malloc((size_t)SIZE * WIDTH * sizeof *c);
    limber_contract native = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE };
    limber_format f = named("f64");

    (void)state;
    for (int i = 0; i < SIZE * SIZE; i++) /* A is zero except for its upper left quarter */
        a[i] = i / SIZE < SIZE / 2 && i % SIZE < SIZE / 2 ? rng_unit(&r) : 0;
    for (int i = 0; i < SIZE * WIDTH; i++)
        b[i] = rng_unit(&r);
    for (int columns = 0; columns < 2; columns++) {
        limber_matrix ma = { a, f, SIZE, 1 }, mb = { b, f, WIDTH, 1 };
        limber_matrix mc = { c, f, columns ? 1 : WIDTH, columns ? SIZE : 1 };
        limber_report planned = LIMBER_REPORT_INIT, done = LIMBER_REPORT_INIT;
        limber_part parts[LIMBER_PARTS];
        int64_t rows = 0;
        limber_cut cut = LIMBER_CUT_INIT;

        done.part = parts;
        done.part_room = LIMBER_PARTS;
        assert_int_equal(gemm_cut(ctx, &native, SIZE, WIDTH, SIZE, NULL, ma, mb, NULL,
                                  output_of(mc), &cut, &planned),
                         LIMBER_STATUS_OK);
        assert_int_equal(
            limber_gemm(ctx, &native, SIZE, WIDTH, SIZE, NULL, ma, mb, NULL, output_of(mc), &done),
            LIMBER_STATUS_OK);
        assert_true(cut.parts >= 1);
        assert_int_equal(done.parts, cut.parts);
        assert_int_equal(cut.blocks[0], SIZE / 64);
        assert_int_equal(cut.blocks[1], WIDTH / 64);
        for (int i = 0; i < cut.parts; i++) {
            assert_int_equal(done.part[i].m, cut.part[i].m);
            assert_int_equal(done.part[i].group[0], cut.part[i].group[0]);
            assert_int_equal(cut.part[i].n, WIDTH);
            assert_int_equal(cut.part[i].group[1], 0);
            rows += cut.part[i].m;
        }
        assert_int_equal(rows, SIZE);
        for (int64_t i = 0; i < cut.blocks[0] && cut.tiles; i++)
            assert_int_equal(cut.kind[0][i * cut.tiles] == LIMBER_TILE_ZERO, i >= SIZE / 128);
        limber_cut_free(&cut);
    }
    free(a);
    free(b);
    free(c);
}

/* In rows whose halves cancel, the rounding of some elements is uncertain.  They must be recomputed
 * and reported. */
static void recomputed_elements_are_reported(void **state)
{
    enum { ROWS = 96, LENGTH = 300 };
    struct rng r = { 45 };
    double *a = malloc(ROWS * LENGTH * sizeof *a), *b = malloc(ROWS * LENGTH * sizeof *b);
    double *c = malloc(ROWS * ROWS * sizeof *c);
    limber_contract correct = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT,
                                .scheme = "ozaki2" };
    limber_format f = named("f64");
    limber_report report = LIMBER_REPORT_INIT;
    char said[64];

    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int p = 0; p < LENGTH / 2; p++) {
            double x = ldexp(rng_unit(&r) - 0.5, rng_below(&r, 150) - 60);
            double y = ldexp(rng_unit(&r) - 0.5, rng_below(&r, 150) - 60);

            a[i * LENGTH + p] = x;
            a[i * LENGTH + p + LENGTH / 2] =
                i % 2 ? -x * (1 + 0x1p-18 * (p % 7 == 0)) : rng_unit(&r);
            b[i * LENGTH + p] = b[i * LENGTH + p + LENGTH / 2] = y;
        }
    assert_int_equal(limber_gemm(ctx, &correct, ROWS, ROWS, LENGTH, NULL,
                                 (limber_matrix){ a, f, LENGTH, 1 },
                                 (limber_matrix){ b, f, 1, LENGTH }, NULL,
                                 (limber_output){ c, f, ROWS, 1 }, &report),
                     LIMBER_STATUS_OK);
    assert_true(report.recomputed > 0);
    snprintf(said, sizeof said, " ms, %lld elements recomputed", (long long)report.recomputed);
    assert_non_null(strstr(line, said));
    free(a);
    free(b);
    free(c);
}

/* Compares texts of plans, except for predicted seconds, which depend on the machine. */
static void texts_are_stable(void **state)
{
    static const char *const lines[] = {
        "; parts\n3 parts: predicted ",
        "groups of A, blocks of 64 rows: aaaa\ngroups of B, blocks of 64 columns: aaa\n"
        "tiles of A, 64 rows by 256 along k: . zero, n narrow, W wide\n"
        "  nnn\n  nWn\n  nnn\n  nWn\n"
        "tiles of B, 64 columns by 256 along k: . zero, n narrow, W wide\n"
        "  nnn\n  Wnn\n  nnn\n"
        "part  A     B     rows x columns   products  scheme       predicted     bound\n"
        "   1  a:n   a:n      200 x 130       77.78%  fp32-f       ",
        "\n   2  a:W   a:nW     200 x 130       16.67%  native       ",
        "\n   3  a:n   a:W      200 x 130        5.56%  native       ",
        "; part 1\n; 00-stated.lir\n",
        "; part 2\n",
        "; part 3\n",
    };
    struct call x = make_call("fp32-f+native", false);
    char *text = plan(&x), *at = text;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *found = strstr(at, lines[i]);

        if (!found)
            print_error("missing:\n%s\nin:\n%s\n", lines[i], at);
        assert_non_null(found);
        at = found + strlen(lines[i]);
    }
    assert_true(strncmp(text, lines[0], strlen(lines[0])) == 0);
    limber_free(text);
    run_call(&x);
    if (!strstr(line, "# mixed: 77.8% fp32-f, 22.2% native; 3 parts "))
        print_error("%s\n", line);
    assert_non_null(strstr(line, "# mixed: 77.8% fp32-f, 22.2% native; 3 parts "));
    assert_int_equal(limber_report_parts(&x.report, &text), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "scheme       predicted  measured     bound\n"));
    limber_free(text);
    assert_int_equal(limber_report_parts(NULL, &text), LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(text);
    free_call(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspections_match_a_slow_scan),
        cmocka_unit_test(invalid_inspections_are_refused),
        cmocka_unit_test(planned_parts_are_those_that_run),
        cmocka_unit_test(whole_products_are_not_partitioned),
        cmocka_unit_test(transposed_products),
        cmocka_unit_test(recomputed_elements_are_reported),
        cmocka_unit_test(texts_are_stable),
    };

    return cmocka_run_group_tests_name("explain", tests, make_context, destroy_group_contexts);
}
