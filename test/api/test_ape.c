/* SPDX-License-Identifier: BSD-3-Clause
 * Lists of schemes, "A+B+C" and the name `ape`: which scheme multiplies which tiles, what the plan
 * and the report say of it, and results on ordinary and on extreme data. */
#include "contexts.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 64, TILE = 256 };
enum kind { KIND_zero, KIND_narrow, KIND_wide, KIND_beyond, KINDS };

static limber_context *interp, *fast;

static int make_contexts(void **state)
{
    (void)state;
    return make_interp_and_best(&interp, &fast);
}

/* ---- products -------------------------------------------------------------------------------- */

/* A product of FP32 matrices; lines of A and of B are contiguous. */
struct work {
    int64_t m, n, k;
    float *a, *b, *c, *again;
    limber_contract contract;
    limber_report report;
    limber_part part[LIMBER_PARTS];
};

static struct work new_work(int64_t m, int64_t n, int64_t k, const char *scheme)
{
    return (struct work){ .m = m,
                          .n = n,
                          .k = k,
                          .a = calloc((size_t)(m * k + 1), 4),
                          .b = calloc((size_t)(n * k + 1), 4),
                          .c = calloc((size_t)(m * n + 1), 4),
                          .again = calloc((size_t)(m * n + 1), 4),
                          .contract = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE,
                                        .scheme = scheme },
                          .report = LIMBER_REPORT_INIT };
}

static void free_work(struct work *w)
{
    free(w->a);
    free(w->b);
    free(w->c);
    free(w->again);
}

/* Returns the problem c = a b of `w`. */
static limber_problem problem_of(const struct work *w, float *c)
{
    return gemm_problem(&w->contract, w->m, w->n, w->k, NULL,
                        (limber_matrix){ w->a, LIMBER_F32, w->k, 1 },
                        (limber_matrix){ w->b, LIMBER_F32, 1, w->k }, NULL,
                        (limber_output){ c, LIMBER_F32, w->n, 1 });
}

/* Computes w's product, with a report that has room for all parts. */
static void run_work(limber_context *ctx, struct work *w, float *c)
{
    limber_problem p = problem_of(w, c);
    limber_status s;

    w->report = (limber_report)LIMBER_REPORT_INIT;
    w->report.part = w->part;
    w->report.part_room = LIMBER_PARTS;
    s = limber_run(ctx, &p, &w->report);
    if (s != LIMBER_STATUS_OK)
        print_error("%s, %lld x %lld x %lld: %s\n", w->contract.scheme, (long long)w->m,
                    (long long)w->n, (long long)w->k, limber_error_text());
    assert_int_equal(s, LIMBER_STATUS_OK);
}

/* Checks element (i, j) against MPFR.  If terms are NaN or infinite, the element must be their sum.
 * Else it may have the error of `native` (under `fast`, the bound of the report) and of underflow
 * of each product. */
static void check_element(const struct work *w, int64_t i, int64_t j)
{
    const float *a = w->a + i * w->k, *b = w->b + j * w->k, c = w->c[i * w->n + j];
    double classes = 0;
    mpfr_t sum, all, least;

    for (int64_t p = 0; p < w->k; p++) {
        double x = isfinite(a[p]) ? (a[p] != 0) * copysign(1, a[p]) : a[p];
        double y = isfinite(b[p]) ? (b[p] != 0) * copysign(1, b[p]) : b[p];

        classes += isfinite(x * y) ? 0 : x * y;
    }
    if (!isfinite(classes)) {
        if (!(isnan(classes) ? isnan(c) : c == (float)classes))
            print_error("%s: (%lld,%lld) is %g, not %g\n", w->contract.scheme, (long long)i,
                        (long long)j, c, classes);
        assert_true(isnan(classes) ? isnan(c) : c == (float)classes);
        return;
    }
    mpfr_inits2(800, sum, all, least, (mpfr_ptr)NULL);
    ref_dot(sum, all, LIMBER_F32, a, 1, LIMBER_F32, b, 1, w->k);
    mpfr_mul_d(all, all,
               w->contract.promise == LIMBER_CONTRACT_FAST ? w->report.bound + 0x1p-24 :
                                                             (double)(w->k + 2) * 0x1p-24,
               MPFR_RNDU);
    mpfr_set_d(least, (double)(w->k + 1) * 0x1p-149, MPFR_RNDU);
    mpfr_add(all, all, least, MPFR_RNDU);
    if (ref_error(sum, LIMBER_F32, &c, all) > 1)
        print_error("%s: (%lld,%lld) of %lld x %lld x %lld errs by %g of what is allowed\n",
                    w->report.scheme, (long long)i, (long long)j, (long long)w->m, (long long)w->n,
                    (long long)w->k, ref_error(sum, LIMBER_F32, &c, all));
    assert_true(ref_error(sum, LIMBER_F32, &c, all) <= 1);
    mpfr_clears(sum, all, least, (mpfr_ptr)NULL);
}

/* Runs a product on both backends, whose bits must agree, and checks up to `samples` elements at
 * equal distances. */
static void try_work(struct work *w, int64_t samples)
{
    const int64_t count = w->m * w->n, step = count / samples + 1;

    run_work(interp, w, w->again);
    run_work(fast, w, w->c);
    for (int64_t i = 0; i < count; i++)
        if (!same_number(LIMBER_F32, w->c + i, w->again + i)) {
            print_error("%s: element %lld is %a, by the interpreter %a\n", w->contract.scheme,
                        (long long)i, w->c[i], w->again[i]);
            fail();
        }
    for (int64_t at = 0; at < count; at += step)
        check_element(w, at / w->n, at % w->n);
}

/* ---- which scheme multiplies which tiles ----------------------------------------------------- */

/* Number of blocks of rows or columns. */
static int64_t blocks_of(int64_t lines)
{
    return (lines + BLOCK - 1) / BLOCK;
}

/* Number of tiles along k. */
static int64_t tiles_of(int64_t k)
{
    return (k + TILE - 1) / TILE;
}

/* Draws an element of a tile of this kind.  Every tile has elements at both ends of its range. */
static float draw(struct rng *r, enum kind kind)
{
    static const int range[KINDS][2] = {
        [KIND_narrow] = { 0, 8 }, [KIND_wide] = { -30, 30 }, [KIND_beyond] = { -120, 1 }
    };
    double x = 1 + rng_unit(r);
    int e = rng_below(r, 4);

    if (kind == KIND_zero)
        return 0;
    e = e == 0 ? range[kind][0] :
        e == 1 ? range[kind][1] - 1 :
                 range[kind][0] + rng_below(r, range[kind][1] - range[kind][0]);
    return (float)ldexp(rng_below(r, 2) ? x : -x, e);
}

/* Fills an operand with tiles of random kinds, which are stored in kinds[block][tile]. most: the
 * last kind that occurs.  If that is KIND_wide, most tiles are narrow, because with many wide tiles
 * the library would compute the whole product by FP32-B. */
static void fill_tiles(struct rng *r, float *x, int64_t lines, int64_t k, int most,
                       unsigned char *kinds)
{
    for (int64_t t = 0; t < blocks_of(lines) * tiles_of(k); t++)
        kinds[t] = (unsigned char)(most == KIND_wide && rng_below(r, 4) ? KIND_narrow :
                                                                          rng_below(r, most + 1));
    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < k; p++)
            x[i * k + p] = draw(r, (enum kind)kinds[i / BLOCK * tiles_of(k) + p / TILE]);
}

/* Smallest and largest exponent of a tile's nonzero elements.  zero: there is none. */
struct span {
    int low, high;
    bool zero;
};

/* Returns the smallest and the largest exponent of the nonzero elements of a tile. */
static struct span span_of(const float *x, int64_t lines, int64_t k, int64_t block, int64_t tile)
{
    struct span s = { 1 << 20, -(1 << 20), true };

    for (int64_t i = block * BLOCK; i < lines && i < (block + 1) * BLOCK; i++)
        for (int64_t p = tile * TILE; p < k && p < (tile + 1) * TILE; p++) {
            int e;

            if (x[i * k + p] == 0)
                continue;
            frexp(x[i * k + p], &e);
            s.zero = false;
            s.low = e - 1 < s.low ? e - 1 : s.low;
            s.high = e - 1 > s.high ? e - 1 : s.high;
        }
    return s;
}

/* The range of exponents that a scheme's limbs can represent: `binades` powers of two up to
 * 2^top or, if `any`, up to any power of two. */
struct held {
    int binades, top;
    bool any;
};
static const struct held fp32_f = { 29, 0, true }, fp32_b = { 237, 126, false },
                         fp32_t = { 241, 126, false };

/* Lowers the kind (range of exponents) of those tiles of a block that a scheme can represent.  If
 * the top of the scheme's range is free, chooses the top with which most tiles fit. */
static void lower_kinds(const struct span *s, unsigned char *kind, int64_t n, int from,
                        struct held held)
{
    int best = -1, top = held.top, binades = held.binades;

    for (int64_t i = 0; held.any && i < n; i++) {
        int count = 0;

        for (int64_t j = 0; kind[i] == from && j < n; j++)
            count += kind[j] == from && s[j].high <= s[i].high && s[j].low > s[i].high - binades;
        if (kind[i] == from && count > best) {
            best = count;
            top = s[i].high;
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (kind[i] == from && s[i].high <= top && s[i].low > top - binades)
            kind[i] = (unsigned char)(from - 1);
}

/* Computes the kinds (ranges of exponents) of an operand's tiles from its elements. held[i]: the
 * range of exponents that scheme i can represent. */
static void map_tiles(const float *x, int64_t lines, int64_t k, const struct held *held,
                      int schemes, unsigned char *kinds)
{
    const int64_t n = tiles_of(k);
    struct span s[16];

    for (int64_t b = 0; b < blocks_of(lines); b++) {
        unsigned char *kind = kinds + b * n;

        for (int64_t c = 0; c < n; c++) {
            s[c] = span_of(x, lines, k, b, c);
            kind[c] = (unsigned char)(s[c].zero ? 0 : schemes);
        }
        for (int i = schemes - 1; i > 0; i--)
            lower_kinds(s, kind, n, i + 1, held[i - 1]);
    }
}

/* Checks the parts of a product against the kinds (ranges of exponents) of the tiles: each pair of
 * a tile of A and one of B is in one part, whose scheme is that of the wider kind, and a scheme's
 * share is that of its pairs. */
static void check_parts(const struct work *w, const limber_cut *cut, const char *const *names,
                        int schemes)
{
    const int64_t tiles = tiles_of(w->k), all = blocks_of(w->m) * blocks_of(w->n) * tiles;
    int covered[KINDS][KINDS] = { { 0 } };
    double share[KINDS] = { 0 }, want[KINDS] = { 0 };

    for (int i = 0; i < cut->parts; i++) {
        const limber_part *p = &cut->part[i];
        int most = 0;

        for (int x = 0; x < KINDS; x++)
            for (int y = 0; y < KINDS; y++)
                if (p->kinds[0] >> x & 1 && p->kinds[1] >> y & 1) {
                    covered[x][y]++;
                    most = x > most ? x : most;
                    most = y > most ? y : most;
                }
        assert_in_range(most, 1, schemes);
        assert_string_equal(p->scheme, names[most - 1]);
        share[most] += p->share;
    }
    for (int64_t i = 0; i < blocks_of(w->m); i++)
        for (int64_t j = 0; j < blocks_of(w->n); j++)
            for (int64_t c = 0; c < tiles; c++) {
                int x = cut->kind[0][i * tiles + c], y = cut->kind[1][j * tiles + c];

                if (x && y) {
                    assert_int_equal(covered[x][y], 1);
                    want[x > y ? x : y] += 1.0 / (double)all;
                }
            }
    for (int s = 1; s <= schemes; s++)
        assert_true(fabs(share[s] - want[s]) < 1e-12);
}

/* Plants tiles of all kinds (ranges of exponents) in both operands.  The library must report these
 * kinds, which map_tiles also finds from the elements; parts, report, plan and results must agree
 * with them. */
static void tiles_take_the_scheme_that_suits_them(void **state)
{
    static const struct {
        const char *scheme, *name[3];
        int most;
    } cases[] = {
        { "ape", { "fp32-f", "fp32-b", "native" }, KIND_beyond },
        { "fp32-f+fp32-b+native", { "fp32-f", "fp32-b", "native" }, KIND_beyond },
        { "fp32-f+fp32-t+accumulator", { "fp32-f", "fp32-t", "accumulator" }, KIND_beyond },
        { "ape", { "fp32-f", "fp32-b", "native" }, KIND_wide },
        { "fp32-f+fp32-b", { "fp32-f", "fp32-b" }, KIND_wide },
    };
    struct rng r = { 61 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct work w = new_work(150 + 10 * (int64_t)i, 201, 800, cases[i].scheme);
        int schemes = cases[i].name[2] ? 3 : 2;
        const struct held held[] = { fp32_f, i == 2 ? fp32_t : fp32_b };
        unsigned char planted[2][64], map[64];
        limber_cut cut = LIMBER_CUT_INIT;
        limber_problem p = problem_of(&w, w.c);

        fill_tiles(&r, w.a, w.m, w.k, cases[i].most, planted[0]);
        fill_tiles(&r, w.b, w.n, w.k, cases[i].most, planted[1]);
        assert_int_equal(limber_explain(fast, &p, &cut, NULL), LIMBER_STATUS_OK);
        assert_true(cut.parts > 1 && cut.tile == TILE && cut.tiles == tiles_of(w.k));
        for (int side = 0; side < 2; side++) {
            int64_t lines = side ? w.n : w.m, count = blocks_of(lines) * tiles_of(w.k);

            map_tiles(side ? w.b : w.a, lines, w.k, held, schemes, map);
            assert_memory_equal(map, planted[side], (size_t)count);
            assert_memory_equal(map, cut.kind[side], (size_t)count);
        }
        check_parts(&w, &cut, cases[i].name, schemes);
        try_work(&w, SANITIZED ? 15 : BRIEF ? 40 : 200);
        assert_int_equal(w.report.parts, cut.parts);
        for (int q = 0; q < cut.parts; q++)
            assert_string_equal(w.part[q].scheme, cut.part[q].scheme);
        limber_cut_free(&cut);
        free_work(&w);
    }
}

/* If most tiles are wide (need FP32-B), FP32-B computes the whole product, since a division into
 * parts would not cost less.  If some tile exceeds even FP32-B's range, the product is divided.
 * The choice does not depend on the backend. */
static void one_scheme_is_taken_where_parts_cost_more(void **state)
{
    static const char *const schemes[] = { "ape", "fp32-f+fp32-b" };
    struct rng r = { 65 };

    (void)state;
    for (int beyond = 0; beyond < 2; beyond++)
        for (int s = 0; s < 2 - beyond; s++) {
            struct work w = new_work(256, 128, 1024, schemes[s]);
            unsigned char kinds[64];

            fill_tiles(&r, w.b, w.n, w.k, KIND_narrow, kinds);
            for (int64_t i = 0; i < w.m; i++)
                for (int64_t q = 0; q < w.k; q++)
                    w.a[i * w.k + q] = draw(&r, i < 64             ? KIND_narrow :
                                                beyond && q >= 768 ? KIND_beyond :
                                                                     KIND_wide);
            try_work(&w, 60);
            assert_int_equal(w.report.parts > 1, beyond);
            assert_string_equal(w.report.scheme, beyond ? "mixed" : "fp32-b");
            free_work(&w);
        }
}

/* The plan's text draws the tiles and names the scheme of each part. */
static void the_plan_tells_the_tiles(void **state)
{
    struct rng r = { 62 };
    struct work w = new_work(128, 64, 512, "ape");
    limber_problem p = problem_of(&w, w.c);
    char *text = NULL;

    (void)state;
    for (int64_t i = 0; i < w.m; i++)
        for (int64_t q = 0; q < w.k; q++)
            w.a[i * w.k + q] = draw(&r, i < 64 ? (q < 256 ? KIND_narrow : KIND_beyond) :
                                                 (q < 256 ? KIND_wide : KIND_zero));
    for (int64_t i = 0; i < w.n * w.k; i++)
        w.b[i] = draw(&r, KIND_narrow);
    assert_int_equal(limber_plan(fast, &p, &text, NULL), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, ". zero, n narrow, W wide, X beyond\n  nX\n  W.\n"));
    assert_non_null(strstr(text, "a:n   a:n "));
    assert_non_null(strstr(text, "a:W   a:nW "));
    assert_non_null(strstr(text, "a:X   a:nWX "));
    limber_free(text);
    free_work(&w);
}

/* ---- ordinary data --------------------------------------------------------------------------- */

enum fault {
    FAULT_none,
    FAULT_huge,
    FAULT_tiny,
    FAULT_infinity,
    FAULT_nan,
    FAULT_subnormal,
    FAULTS
};

static float fault_value(enum fault f)
{
    switch (f) {
    case FAULT_huge: return 0x1.8p100f;
    case FAULT_tiny: return 0x1.8p-118f;
    case FAULT_infinity: return -INFINITY;
    case FAULT_nan: return NAN;
    case FAULT_subnormal: return 0x1p-149f;
    default: return 0.75f;
    }
}

/* Products of squares of 1 to 100 rows, of vectors, zeros and constants keep the contract.  If it
 * allows any error, small products, too, are computed by the first scheme that can represent the
 * data. */
static void small_products_take_the_first_that_suits(void **state)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },    { 2, 2, 2 },    { 3, 5, 7 },
                                        { 17, 17, 17 }, { 64, 64, 64 }, { 100, 100, 100 },
                                        { 1, 90, 80 },  { 90, 1, 80 },  { 33, 33, 1 },
                                        { 1, 1, 300 },  { 70, 3, 512 } };
    struct rng r = { 63 };

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int data = 0; data < 3; data++) {
            struct work w = new_work(sizes[s][0], sizes[s][1], sizes[s][2], "ape");

            for (int64_t i = 0; i < w.m * w.k; i++)
                w.a[i] = data == 0 ? 0 : data == 1 ? 3 : draw(&r, KIND_narrow);
            for (int64_t i = 0; i < w.n * w.k; i++)
                w.b[i] = data == 2 ? draw(&r, KIND_narrow) : -1.5f;
            try_work(&w, 60);
            w.contract.promise = LIMBER_CONTRACT_FAST;
            for (int list = 0; list < 2; list++) {
                w.contract.scheme = list ? "ape" : "fp32-f+fp32-b";
                try_work(&w, 30);
                assert_string_equal(w.report.scheme, "fp32-f");
                assert_true(data < 2 || w.report.rows == 3);
            }
            free_work(&w);
        }
}

/* Plants one element that the first scheme cannot represent: another scheme computes the product
 * of its block or tile, the first scheme all others. */
static void one_element_is_outside(void **state)
{
    static const char *const schemes[FAULTS] = { "",       "fp32-b", "native",
                                                 "native", "native", "native" };
    struct rng r = { 64 };

    (void)state;
    for (int f = FAULT_huge; f < FAULTS; f++)
        for (int side = SANITIZED ? f % 2 : 0; side < 2; side += SANITIZED ? 2 : 1) {
            struct work w = new_work(200, 130, 520, "ape");
            bool first = false, other = false;

            for (int64_t i = 0; i < w.m * w.k; i++)
                w.a[i] = draw(&r, KIND_narrow);
            for (int64_t i = 0; i < w.n * w.k; i++)
                w.b[i] = i % w.k == 300 ? 0 : draw(&r, KIND_narrow);
            if (f == FAULT_huge) /* far above the others */
                for (int64_t i = 0; i < w.m * w.k; i++)
                    w.a[i] = ldexpf(w.a[i], side ? 0 : 60);
            (side ? w.b : w.a)[70 * w.k + 300] = fault_value((enum fault)f);
            try_work(&w, 300);
            check_element(&w, side ? 3 : 70, side ? 70 : 3);
            check_element(&w, side ? 70 : 5, side ? 5 : 70);
            for (int i = 0; i < w.report.parts; i++) {
                first = first || !strcmp(w.part[i].scheme, "fp32-f");
                other = other || !strcmp(w.part[i].scheme, schemes[f]);
            }
            if (!first || !other)
                print_error("fault %d of side %d: %s %d\n", f, side, w.report.scheme,
                            w.report.parts);
            assert_true(first && other);
            free_work(&w);
        }
}

/* ---- edges of ranges ------------------------------------------------------------------------- */

/* Plants elements on each side of each edge of a scheme's range of exponents, in a tile of
 * numbers near 1, beside a tile that FP32-F cannot represent. */
static void edges_of_ranges_are_exact(void **state)
{
    static const struct {
        const char *list, *scheme;
        float x;
    } cases[] = {
        { "ape", "fp32-f", 0x1p-28f },
        { "ape", "fp32-b", 0x1.fffffep-29f },
        { "ape", "fp32-f", 0x1.fffffep28f },
        { "ape", "fp32-b", 0x1p29f },
        { "ape", "fp32-b", -0x1p-110f },
        { "ape", "native", 0x1.fffffep-111f },
        { "ape", "fp32-b", 0x1.fffffep126f },
        { "ape", "native", -0x1p127f },
        { "ape", "native", 0x1p-149f },
        { "fp32-t+native", "fp32-t", 0x1p-114f },
        { "fp32-t+native", "native", -0x1.fffffep-115f },
        { "fp32-t+native", "fp32-t", 0x1.fffffep126f },
        { "fp32-t+native", "native", 0x1.fffffep127f },
        { "fp32-b9+native", "fp32-b9", 0x1.fffffep-110f },
        { "fp32-b9+native", "native", 0x1p-111f },
    };
    struct rng r = { 68 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int side = SANITIZED ? i % 2 : 0; side < 2; side += SANITIZED ? 2 : 1) {
            struct work w = new_work(70, 66, 2 * TILE, cases[i].list);
            float *x = side ? w.b : w.a;
            bool right = false;

            for (int64_t e = 0; e < w.m * w.k; e++)
                w.a[e] = side ? ldexpf(draw(&r, KIND_narrow), -9) : (float)(1 + rng_unit(&r));
            for (int64_t e = 0; e < w.n * w.k; e++)
                w.b[e] = side ? (float)(1 + rng_unit(&r)) : ldexpf(draw(&r, KIND_narrow), -9);
            for (int64_t e = 0; e < 64; e++) /* tile 0 of block 0 */
                x[e * w.k + e] = draw(&r, KIND_wide);
            x[5 * w.k] = 0x1p-30f;
            x[6 * w.k] = 0x1p29f;
            x[9 * w.k + TILE + 3] = cases[i].x;
            try_work(&w, 60);
            check_element(&w, side ? 2 : 9, side ? 9 : 2);
            for (int q = 0; q < w.report.parts; q++) /* the kind of tile 1 */
                right = right || !strcmp(w.part[q].scheme, cases[i].scheme);
            if (!right)
                print_error("%s: %a of side %d: %s\n", cases[i].list, cases[i].x, side,
                            w.report.scheme);
            assert_true(right);
            {
                const bool ape = !strcmp(cases[i].list, "ape");
                const int kind = !strcmp(cases[i].scheme, "native")        ? 2 + ape :
                                 ape && !strcmp(cases[i].scheme, "fp32-b") ? 2 :
                                                                             1;
                limber_cut cut = LIMBER_CUT_INIT;
                limber_problem p = problem_of(&w, w.c);

                assert_int_equal(limber_explain(fast, &p, &cut, NULL), LIMBER_STATUS_OK);
                /* without tiles one scheme computes all */
                assert_int_equal(cut.tiles ? cut.kind[side][1] : 1, kind);
                limber_cut_free(&cut);
            }
            free_work(&w);
        }
}

/* Multiplies lines whose exponents cover the complete range of BF16's and TF32's limbs, which no
 * scale would fit. */
static void lines_of_240_binades(void **state)
{
    static const char *const schemes[] = { "fp32-b", "fp32-t", "fp32-b9" };
    struct rng r = { 69 };

    (void)state;
    for (int s = 0; s < 3; s++)
        for (int small = 0; small < 3; small++) {
            const int low = s == 1 ? -114 : -110, top = small == 1 ? 20 : 127;
            struct work w = new_work(20, 30, small == 2 ? 40 : 300, schemes[s]);

            w.contract.promise = small == 2 ? LIMBER_CONTRACT_FAST : LIMBER_CONTRACT_NATIVE;
            for (int64_t e = 0; e < w.m * w.k; e++)
                w.a[e] = (float)ldexp(1 + rng_unit(&r), low + rng_below(&r, top - low));
            for (int64_t e = 0; e < w.n * w.k; e++)
                w.b[e] = (float)ldexp(-1 - rng_unit(&r), small == 1 ? low + rng_below(&r, 100) :
                                                                      -rng_below(&r, 14) - 9);
            w.a[3] = (float)ldexp(1, low);
            try_work(&w, 200);
            assert_string_equal(w.report.scheme, schemes[s]);
            w.a[3] = (float)ldexp(1, low - 1);
            {
                limber_problem p = problem_of(&w, w.c);

                assert_refused(limber_run(fast, &p, NULL), LIMBER_STATUS_NO_SCHEME, "spread over");
                w.a[3] = 1;
                w.contract.promise = LIMBER_CONTRACT_BITS;
                w.contract.bits = 12;
                assert_refused(limber_run(fast, &p, NULL), LIMBER_STATUS_NO_SCHEME, "spread over");
            }
            free_work(&w);
        }
}

/* ---- convolutions ---------------------------------------------------------------------------- */

enum { IMAGES = 3, CHANNELS = 5, SIDE = 13, FILTERS = 150, TAPS = 3, PIXELS = SIDE * SIDE };
enum { LENGTH = CHANNELS * TAPS * TAPS };

/* A convolution with padding 1.  Its product has a row for each filter, and a column for each pixel
 * of the result. */
struct layer {
    limber_conv conv;
    float x[IMAGES * CHANNELS * PIXELS], w[FILTERS * LENGTH], y[2][IMAGES * FILTERS * PIXELS];
};

static int64_t image_at(const struct layer *l, int64_t n, int64_t c, int64_t y, int64_t x)
{
    return l->conv.layout == LIMBER_LAYOUT_NCHW ? ((n * CHANNELS + c) * SIDE + y) * SIDE + x :
                                                  ((n * SIDE + y) * SIDE + x) * CHANNELS + c;
}

static int64_t filter_at(const struct layer *l, int64_t o, int64_t c, int64_t r, int64_t s)
{
    return l->conv.layout == LIMBER_LAYOUT_NCHW ? ((o * CHANNELS + c) * TAPS + r) * TAPS + s :
                                                  ((o * TAPS + r) * TAPS + s) * CHANNELS + c;
}

/* Collects the elements of a pixel's window, or those of a filter, into LENGTH numbers. */
static void collect(const struct layer *l, bool filter, int64_t line, float *out)
{
    const int64_t n = line / PIXELS, y = line % PIXELS / SIDE, x = line % SIDE;

    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t r = 0; r < TAPS; r++)
            for (int64_t s = 0; s < TAPS; s++) {
                int64_t v = y + r - 1, u = x + s - 1;

                *out++ = filter ? l->w[filter_at(l, line, c, r, s)] :
                         v >= 0 && v < SIDE && u >= 0 && u < SIDE ? l->x[image_at(l, n, c, v, u)] :
                                                                    0;
            }
}

/* Returns which scheme suits a block of filters or pixels: the first that can represent the
 * exponents of each line. */
static int scheme_of_lines(const struct layer *l, bool filter, int64_t block)
{
    const int64_t lines = filter ? FILTERS : IMAGES * PIXELS;
    float e[LENGTH];
    int scheme = 0;

    for (int64_t i = block * BLOCK; i < lines && i < (block + 1) * BLOCK; i++) {
        struct span s;
        int own;

        collect(l, filter, i, e);
        for (int p = 0; p < LENGTH; p++)
            if (!isfinite(e[p]))
                return 2;
        s = span_of(e, 1, LENGTH, 0, 0);
        own = s.zero || s.high - s.low < fp32_f.binades                   ? 0 :
              s.high <= fp32_b.top && s.low > fp32_b.top - fp32_b.binades ? 1 :
                                                                            2;
        scheme = own > scheme ? own : scheme;
    }
    return scheme;
}

/* Checks every 611th element of the result, and which share of the product each scheme computed. */
static void check_layer(const struct layer *l, const limber_report *report)
{
    static const char *const names[] = { "fp32-f", "fp32-b", "native" };
    struct work one = new_work(1, 1, LENGTH, "ape");
    const int64_t m = FILTERS, n = IMAGES * PIXELS;
    double share[3] = { 0 }, want[3] = { 0 };

    one.contract.promise = LIMBER_CONTRACT_FAST;
    one.report = *report;
    for (int64_t at = 0; at < m * n; at += 611) {
        const int64_t o = at / n, line = at % n, i = line / PIXELS, p = line % PIXELS;

        collect(l, true, o, one.a);
        collect(l, false, line, one.b);
        one.c[0] = l->y[0][l->conv.layout == LIMBER_LAYOUT_NCHW ? (i * FILTERS + o) * PIXELS + p :
                                                                  line * FILTERS + o];
        check_element(&one, 0, 0);
    }
    for (int64_t g = 0; g < blocks_of(m); g++)
        for (int64_t h = 0; h < blocks_of(n); h++) {
            int a = scheme_of_lines(l, true, g), b = scheme_of_lines(l, false, h);
            int64_t rows = m - g * BLOCK < BLOCK ? m - g * BLOCK : BLOCK;
            int64_t cols = n - h * BLOCK < BLOCK ? n - h * BLOCK : BLOCK;

            want[a > b ? a : b] += (double)(rows * cols) / (double)(m * n);
        }
    for (int i = 0; i < report->parts; i++)
        for (int s = 0; s < 3; s++)
            share[s] += strcmp(report->part[i].scheme, names[s]) ? 0 : report->part[i].share;
    for (int s = 0; s < 3; s++)
        assert_true(fabs(share[s] - want[s]) < 1e-12);
    free_work(&one);
}

/* Convolutions in both layouts, with filters and pixels of all kinds: blocks of 64 filters and of
 * 64 pixels take the first scheme that suits them. */
static void convolutions_are_cut_into_blocks(void **state)
{
    struct rng r = { 66 };
    struct layer *l = calloc(1, sizeof *l);
    limber_part part[LIMBER_PARTS];

    (void)state;
    for (int i = 0; i < 6; i++) {
        limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_FAST, .scheme = "ape" };
        limber_report report = LIMBER_REPORT_INIT;
        limber_problem p;
        char *text;

        l->conv = (limber_conv)LIMBER_CONV_INIT;
        l->conv.n = IMAGES, l->conv.c = CHANNELS, l->conv.h = l->conv.w = SIDE;
        l->conv.o = FILTERS, l->conv.r = l->conv.s = TAPS;
        for (int s = 0; s < 4; s++)
            l->conv.pad[s] = 1;
        l->conv.layout = i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        for (int64_t e = 0; e < IMAGES * CHANNELS * PIXELS; e++)
            l->x[e] = draw(&r, KIND_narrow);
        for (int64_t e = 0; e < FILTERS * LENGTH; e++)
            l->w[e] = draw(&r, i > 1 && e / LENGTH == 70 ? KIND_wide : KIND_narrow);
        if (i > 1) {
            l->x[image_at(l, 1, 2, 5, 5)] = 0x1p-50f;
            l->x[image_at(l, 2, 4, 11, 2)] = i > 3 ? NAN : 0x1p-120f;
        }
        report.part = part;
        report.part_room = LIMBER_PARTS;
        p = conv_problem(&k, &l->conv, NULL, l->x, LIMBER_F32, l->w, LIMBER_F32, NULL, l->y[1],
                         LIMBER_F32);
        assert_int_equal(limber_run(interp, &p, NULL), LIMBER_STATUS_OK);
        p.c.data = l->y[0];
        assert_int_equal(limber_run(fast, &p, &report), LIMBER_STATUS_OK);
        for (int64_t e = 0; e < IMAGES * FILTERS * PIXELS; e++)
            assert_true(same_number(LIMBER_F32, &l->y[0][e], &l->y[1][e]));
        assert_true(i > 1 ? report.parts > 2 : report.parts == 1);
        check_layer(l, &report);
        assert_int_equal(limber_plan(fast, &p, &text, NULL), LIMBER_STATUS_OK);
        assert_non_null(strstr(text, "scheme=fp32-f"));
        limber_free(text);
    }
    free(l);
}

/* Runs a convolution of x and w, or one of its gradients, into y.  Fails the test if the call
 * fails. */
static void run_direction(limber_context *ctx, const struct layer *l, const limber_contract *k,
                          limber_operation operation, const float *x, const float *w, float *y,
                          limber_report *report)
{
    limber_problem p =
        conv_problem(k, &l->conv, NULL, x, LIMBER_F32, w, LIMBER_F32, NULL, y, LIMBER_F32);
    limber_status s;

    p.operation = operation;
    s = limber_run(ctx, &p, report);
    if (s != LIMBER_STATUS_OK)
        print_error("operation %d: %s\n", (int)operation, limber_error_text());
    assert_int_equal(s, LIMBER_STATUS_OK);
}

/* Gradients of the image and of the filters are divided into blocks, too; both backends give the
 * same bits, which are within the bound of correctly rounded results. */
static void gradients_are_cut_into_blocks(void **state)
{
    enum { ALL = IMAGES * FILTERS * PIXELS };
    static const limber_operation operations[] = { LIMBER_OPERATION_CONV_BACKWARD_DATA,
                                                   LIMBER_OPERATION_CONV_BACKWARD_FILTER };
    struct rng r = { 67 };
    struct layer *l = calloc(1, sizeof *l);
    float *in = calloc(2 * ALL, 4), *w = calloc(2 * ALL, 4), *out = calloc(4 * ALL, 4);

    (void)state;
    l->conv = (limber_conv)LIMBER_CONV_INIT;
    l->conv.n = IMAGES, l->conv.c = CHANNELS, l->conv.h = l->conv.w = SIDE;
    l->conv.o = FILTERS, l->conv.r = l->conv.s = TAPS;
    for (int s = 0; s < 4; s++)
        l->conv.pad[s] = 1;
    for (int i = 0; i < 8; i++) {
        const limber_operation op = operations[i / 2 % 2];
        const bool filter = op == LIMBER_OPERATION_CONV_BACKWARD_FILTER;
        limber_contract ape = { .size = sizeof ape,
                                .promise = LIMBER_CONTRACT_FAST,
                                .scheme = "ape" };
        limber_contract correct = { .size = sizeof correct, .promise = LIMBER_CONTRACT_CORRECT };
        limber_report report = LIMBER_REPORT_INIT;
        const float *x = in, *y = w;

        l->conv.layout = i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        l->conv.stride[0] = l->conv.stride[1] = i < 4 ? 1 : 2;
        for (int64_t e = 0; e < ALL; e++) {
            in[e] = draw(&r, e / 7000 == 1 ? KIND_wide : KIND_narrow);
            w[e] = draw(&r, e / 5000 == 3 ? KIND_wide : KIND_narrow);
            in[ALL + e] = fabsf(in[e]);
            w[ALL + e] = fabsf(w[e]);
        }
        run_direction(interp, l, &ape, op, x, y, out, NULL);
        run_direction(fast, l, &ape, op, x, y, out + ALL, &report);
        run_direction(fast, l, &correct, op, x, y, out + (ptrdiff_t)2 * ALL, NULL);
        run_direction(fast, l, &correct, op, x + ALL, y + ALL, out + (ptrdiff_t)3 * ALL, NULL);
        assert_true(i > 3 || report.parts > 1);
        for (int64_t e = 0; e < (filter ? FILTERS * LENGTH : IMAGES * CHANNELS * PIXELS); e++) {
            double error = fabs((double)out[ALL + e] - out[2 * (int64_t)ALL + e]);

            /* With strides, the phases of a gradient are separate products, which may take other
             * schemes, so bits may differ. */
            assert_true(i > 3 || same_number(LIMBER_F32, &out[e], &out[ALL + e]));
            assert_true(error <= (report.bound + 0x1p-23) * out[3 * (int64_t)ALL + e]);
        }
    }
    free(l);
    free(in);
    free(w);
    free(out);
}

/* ---- batches, other formats, and names that are refused -------------------------------------- */

/* The products of a batch have one plan: the first scheme that suits all data. */
static void batches_take_one_scheme(void **state)
{
    static const char *const schemes[] = { "fp32-f", "fp32-b", "native" };
    struct rng r = { 65 };

    (void)state;
    for (int kind = KIND_narrow; kind <= KIND_beyond; kind++) {
        struct work w = new_work(4 * 20, 4 * 20, 70, "ape");
        limber_batch batch = LIMBER_BATCH_INIT;
        limber_status s;

        w.contract.promise = LIMBER_CONTRACT_FAST;
        batch.count = 4;
        batch.a = batch.b = 20 * w.k;
        batch.c = 400;
        for (int64_t i = 0; i < w.m * w.k; i++) {
            w.a[i] = draw(&r, i / w.k == 30 ? (enum kind)kind : KIND_narrow);
            w.b[i] = draw(&r, KIND_narrow);
        }
        s = gemm_batch(fast, &w.contract, NULL, &batch, 20, 20, w.k, NULL,
                       (limber_matrix){ w.a, LIMBER_F32, w.k, 1 },
                       (limber_matrix){ w.b, LIMBER_F32, 1, w.k }, NULL,
                       (limber_output){ w.c, LIMBER_F32, 20, 1 }, &w.report);
        assert_int_equal(s, LIMBER_STATUS_OK);
        assert_string_equal(w.report.scheme, schemes[kind - 1]);
        free_work(&w);
    }
}

/* Lists of schemes with an unknown or empty name, with too many names, or with a name that stands
 * for a list itself (ape), are refused; the error names contract.scheme. */
static void wrong_lists_are_refused(void **state)
{
    static const char *const wrong[] = {
        "ape+native",     "native+ape",           "fp32-f+", "+fp32-f",
        "fp32-f++native", "fp32-f+fp32-x+native", "Ape",     "fp32-f+fp32-b+fp32-t+native"
    };
    struct work w = new_work(3, 3, 3, NULL);
    bool listed = false;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        limber_problem p;

        w.contract.scheme = wrong[i];
        p = problem_of(&w, w.c);
        w.c[0] = 7;
        assert_refused(limber_run(fast, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.scheme");
        assert_true(w.c[0] == 7);
    }
    for (int i = 0; limber_scheme_at(i); i++)
        listed = listed || !strcmp(limber_scheme_at(i)->name, "ape");
    assert_true(listed);
    free_work(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_take_the_scheme_that_suits_them),
        cmocka_unit_test(one_scheme_is_taken_where_parts_cost_more),
        cmocka_unit_test(the_plan_tells_the_tiles),
        cmocka_unit_test(small_products_take_the_first_that_suits),
        cmocka_unit_test(one_element_is_outside),
        cmocka_unit_test(edges_of_ranges_are_exact),
        cmocka_unit_test(lines_of_240_binades),
        cmocka_unit_test(convolutions_are_cut_into_blocks),
        cmocka_unit_test(gradients_are_cut_into_blocks),
        cmocka_unit_test(batches_take_one_scheme),
        cmocka_unit_test(wrong_lists_are_refused),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
