/* SPDX-License-Identifier: BSD-3-Clause
 * Products modulo a number: every element against sums of 128 bits, for moduli from 2 to 2^63 - 1,
 * all formats, strides, scalars and limits of memory; the conversions to and from residues on every
 * instruction set; refused arguments. */
#include "calls.h"
#include "contexts.h"
#include "support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/cpu.h"
#include "jit/api/api.h"
#include "limber/ops.h"
#include "jit/operators/residues.h"

enum { MOST = 80, ROOM = 2 * MOST * MOST, LONGEST = 300000 };

static const int64_t moduli[] = { 2,
                                  3,
                                  5,
                                  127,
                                  128,
                                  255,
                                  256,
                                  257,
                                  1009,
                                  65521,
                                  65536,
                                  (1 << 20) + 7,
                                  (1 << 21) - 9,
                                  (1 << 21) + 17,
                                  INT32_MAX,
                                  (int64_t)1 << 32,
                                  ((int64_t)1 << 42) - 11,
                                  ((int64_t)1 << 42) + 15,
                                  ((int64_t)1 << 53) - 111,
                                  ((int64_t)1 << 61) - 1,
                                  (int64_t)1 << 62,
                                  INT64_MAX - 24, /* the largest prime below 2^63 */
                                  INT64_MAX - 1,
                                  INT64_MAX };

static limber_context *ctx, *interp, *tight;

static int set_up(void **state)
{
    (void)state;
    ctx = group_context(.threads = 2);
    interp = group_context(.backend = "interp", .threads = 1);
    /* so little memory that lines of A and B, and k, are divided into blocks */
    tight = group_context(.threads = 1, .workspace_bytes = 1 << 15);
    return ctx && interp && tight ? 0 : -1;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Integers of a product, and the same numbers in the formats of a, b and c. */
struct product {
    int64_t p;
    int m, n, k;
    limber_format f[3];
    int64_t value[3][ROOM];
    char data[3][ROOM * 8];
    limber_matrix at[3];
    int64_t alpha, beta;
    bool symmetric;
};

/* Returns v modulo p, from 0 to p - 1. */
static int64_t least(__int128 v, int64_t p)
{
    const int64_t r = (int64_t)(v % p);

    return r < 0 ? r + p : r;
}

/* Returns the element that a product must have. */
static int64_t wanted(const struct product *x, int i, int j)
{
    const int64_t p = x->p;
    int64_t sum = 0;

    for (int l = 0; l < x->k; l++)
        sum = least((__int128)x->value[0][i * x->k + l] * x->value[1][l * x->n + j] + sum, p);
    sum = least((__int128)x->alpha * sum, p);
    if (x->beta)
        sum = least((__int128)x->beta * x->value[2][i * x->n + j] + sum, p);
    return x->symmetric && sum > p / 2 ? sum - p : sum;
}

/* Returns an integer that the format holds: any one, near zero, or an extreme one. */
static int64_t some_integer(struct rng *r, limber_format f, int64_t p)
{
    const int bits = limber_is_integer(f)      ? limber_format_sig(f) :
                     limber_format_sig(f) < 60 ? limber_format_sig(f) :
                                                 60;
    const int64_t most = (int64_t)(((uint64_t)1 << bits) - 1);
    const bool sign = f.kind != LIMBER_KIND_UINT;
    int64_t v = (int64_t)(rng_next(r) >> 1);

    switch (rng_below(r, 6)) {
    case 0: v = most; break;
    case 1: v = p / 2 < most ? p / 2 : most; break;
    case 2: v %= 3; break;
    default: v = v % most + (v % most < most); break;
    }
    return sign && rng_below(r, 2) ? -v : v;
}

/* Stores a matrix of integers by rows, columns, or apart. */
static void store_matrix(struct product *x, int which, int rows, int cols, int layout)
{
    const limber_format f = x->f[which];
    limber_matrix *at = &x->at[which];

    at->data = x->data[which];
    at->format = f;
    at->row_stride = layout == 0 ? cols : layout == 1 ? 1 : 2 * cols;
    at->col_stride = layout == 0 ? 1 : layout == 1 ? rows : 2;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            assert_int_equal(
                limber_convert(x->data[which] + (i * at->row_stride + j * at->col_stride) * f.size,
                               f, &x->value[which][i * cols + j], LIMBER_I64, 1,
                               LIMBER_ROUND_NEAREST),
                LIMBER_STATUS_OK);
}

/* Draws the integers of matrix `which`, and stores them. */
static void make_matrix(struct product *x, struct rng *r, int which, int rows, int cols)
{
    for (int i = 0; i < rows * cols; i++)
        x->value[which][i] = some_integer(r, x->f[which], x->p);
    store_matrix(x, which, rows, cols, rng_below(r, rows * cols * 2 <= ROOM / 2 ? 3 : 2));
}

/* Returns the contract of a product modulo p. */
static limber_contract modulo(const struct product *x)
{
    return (limber_contract){ .size = sizeof(limber_contract),
                              .promise = LIMBER_CONTRACT_EXACT,
                              .residues =
                                  x->symmetric ? LIMBER_RESIDUES_SYMMETRIC : LIMBER_RESIDUES_LEAST,
                              .modulus = (uint64_t)x->p };
}

/* Computes a product modulo N. */
static limber_status multiply(limber_context *with, const struct product *x, char *c,
                              limber_report *report)
{
    const limber_contract contract = modulo(x);
    char scalar[2][16];

    store_scalar(scalar[0], x->f[2], (double)x->alpha);
    store_scalar(scalar[1], x->f[2], (double)x->beta);
    return limber_gemm(with, &contract, x->m, x->n, x->k, x->alpha == 1 ? NULL : scalar[0],
                       x->at[0], x->at[1], x->beta ? scalar[1] : NULL,
                       (limber_output){ c, x->f[2], x->at[2].row_stride, x->at[2].col_stride },
                       report);
}

/* Multiplies, and compares every element. */
static void check_product(limber_context *with, const struct product *x)
{
    static char c[ROOM * 8];
    limber_report report = LIMBER_REPORT_INIT;

    memcpy(c, x->data[2], sizeof c);
    if (multiply(with, x, c, &report))
        fail_msg("modulo %lld: %s", (long long)x->p, limber_error_text());
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            int64_t got;

            limber_convert(&got, LIMBER_I64,
                           c + (i * x->at[2].row_stride + j * x->at[2].col_stride) * x->f[2].size,
                           x->f[2], 1, LIMBER_ROUND_NEAREST);
            if (got != wanted(x, i, j))
                fail_msg("%d x %d x %d modulo %lld: element %d, %d is %lld, not %lld", x->m, x->n,
                         x->k, (long long)x->p, i, j, (long long)got, (long long)wanted(x, i, j));
        }
    if (x->m && x->n && x->k)
        assert_true(report.rows > 0 && report.bound == 0);
}

/* True if c's format holds every residue. */
static bool holds_residues(const struct product *x)
{
    const int64_t most = x->symmetric ? x->p / 2 : x->p - 1;

    return x->f[2].kind == LIMBER_KIND_FLOAT ? most <= (int64_t)1 << limber_format_sig(x->f[2]) :
                                               most >> (limber_format_sig(x->f[2])) == 0;
}

/* Random sizes, formats, strides, scalars and memory give what sums of 128 bits give. */
static void products_are_right(void **state)
{
    static const char *const operands[] = { "i8",  "u8",  "i16",  "i32", "i64",
                                            "f64", "f32", "bf16", "i4",  "f16" };
    static const char *const results[] = { "i64", "f64", "i32", "f32", "i16", "i8", "f16", "bf16" };
    static struct product x;
    struct rng r = { 7 };

    (void)state;
    for (size_t each = 0; each < COUNT(moduli); each++)
        for (int trial = 0; trial < 24; trial++) {
            x.p = moduli[each];
            x.symmetric = trial & 1;
            x.m = rng_below(&r, 3) ? 1 + rng_below(&r, MOST) : rng_below(&r, 2);
            x.n = rng_below(&r, 3) ? 1 + rng_below(&r, MOST) : 1;
            x.k = rng_below(&r, 3) ? 1 + rng_below(&r, MOST) : rng_below(&r, 2);
            x.f[0] = named(operands[rng_below(&r, COUNT(operands))]);
            x.f[1] = named(operands[rng_below(&r, COUNT(operands))]);
            x.f[2] = named(results[rng_below(&r, COUNT(results))]);
            if (!holds_residues(&x))
                x.f[2] = LIMBER_I64;
            x.alpha = rng_below(&r, 2) ? 1 : 5 - rng_below(&r, 11);
            x.beta = rng_below(&r, 2) ? 0 : 5 - rng_below(&r, 11);
            make_matrix(&x, &r, 0, x.m, x.k);
            make_matrix(&x, &r, 1, x.k, x.n);
            make_matrix(&x, &r, 2, x.m, x.n);
            check_product(trial % 3 == 0 ? tight : trial % 8 == 1 ? interp : ctx, &x);
        }
}

/* Lines longer than what is converted at once, and large scalars, give what sums of 128 bits
 * give. */
static void long_lines_are_right(void **state)
{
    static const int sizes[][3] = { { 2, 1100, 3 }, { 1100, 2, 3 }, { 3, 4, 1100 }, { 5, 513, 7 } };
    static struct product x;
    struct rng r = { 13 };

    (void)state;
    for (size_t each = 0; each < COUNT(moduli); each++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            x.p = moduli[each];
            x.symmetric = each & 1;
            x.m = sizes[s][0], x.n = sizes[s][1], x.k = sizes[s][2];
            x.f[0] = named(s & 1 ? "i64" : "f64");
            x.f[1] = named(s & 1 ? "i32" : "i64");
            x.f[2] = LIMBER_I64;
            x.alpha = -((int64_t)1 << 52) - 2 * rng_below(&r, 1000);
            x.beta = ((int64_t)1 << 52) + 2 * rng_below(&r, 1000);
            make_matrix(&x, &r, 0, x.m, x.k);
            make_matrix(&x, &r, 1, x.k, x.n);
            make_matrix(&x, &r, 2, x.m, x.n);
            check_product(s & 1 ? tight : ctx, &x);
        }
}

/* Floats far beyond 2^63 are integers, too. */
static void large_floats_are_integers(void **state)
{
    const double a[] = { 0x1.fffffffffffffp+1023, -0x1p62, 0x1.8p100 }, b[] = { 1, 3, -7 };

    (void)state;
    for (size_t each = 0; each < COUNT(moduli); each++) {
        const int64_t p = moduli[each];
        struct product x = { .p = p };
        const limber_contract contract = modulo(&x);
        __int128 sum = 0;
        int64_t c;

        for (int i = 0; i < 3; i++) {
            int e;
            __int128 v = (int64_t)ldexp(frexp(a[i], &e), 53);

            for (e -= 53; e > 0; e--)
                v = v * 2 % p;
            for (; e < 0; e++)
                v /= 2;
            sum += v * (int64_t)b[i] % p;
        }
        assert_int_equal(limber_gemm(ctx, &contract, 1, 1, 3, NULL,
                                     (limber_matrix){ a, LIMBER_F64, 3, 1 },
                                     (limber_matrix){ b, LIMBER_F64, 1, 1 }, NULL,
                                     (limber_output){ &c, LIMBER_I64, 1, 1 }, NULL),
                         LIMBER_STATUS_OK);
        assert_true(c == least(sum, p));
    }
}

/* Sums longer than bytes can be summed in 32 bits, of the largest residues. */
static void long_sums_are_right(void **state)
{
    static const int64_t some[] = { 256, 255, 257, INT64_MAX };
    int64_t *a = malloc(LONGEST * sizeof *a);

    (void)state;
    assert_non_null(a);
    for (size_t each = 0; each < COUNT(some); each++) {
        const int64_t p = some[each];
        struct product x = { .p = p };
        const limber_contract contract = modulo(&x);
        int64_t c;

        for (int i = 0; i < LONGEST; i++)
            a[i] = p / 2;
        assert_int_equal(limber_gemm(ctx, &contract, 1, 1, LONGEST, NULL,
                                     (limber_matrix){ a, LIMBER_I64, LONGEST, 1 },
                                     (limber_matrix){ a, LIMBER_I64, 1, 1 }, NULL,
                                     (limber_output){ &c, LIMBER_I64, 1, 1 }, NULL),
                         LIMBER_STATUS_OK);
        assert_true(c == least((__int128)least((__int128)(p / 2) * (p / 2), p) * LONGEST, p));
    }
    free(a);
}

/* Products of a batch have the bits of single ones, where matrices are listed, or begin at equal
 * steps, and where one is shared. */
static void batches_are_right(void **state)
{
    enum { GROUPS = 3, N = 5 };
    const int64_t p = INT32_MAX;
    int64_t a[GROUPS][N][N], b[N][N], c[2][GROUPS][N][N], want[N][N];
    const void *listed[GROUPS] = { a[2], a[0], a[1] };
    limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_EXACT, .modulus = p };
    limber_batch batch = { .size = sizeof batch, .count = GROUPS, .a = N * N, .c = N * N };
    limber_problem x = LIMBER_PROBLEM_INIT;
    struct rng r = { 3 };

    (void)state;
    for (int i = 0; i < GROUPS * N * N; i++)
        (&a[0][0][0])[i] = (int64_t)rng_next(&r);
    for (int i = 0; i < N * N; i++)
        (&b[0][0])[i] = (int64_t)rng_next(&r);
    x.m = x.n = x.k = N;
    x.a = (limber_matrix){ a, LIMBER_I64, N, 1 };
    x.b = (limber_matrix){ b, LIMBER_I64, N, 1 };
    x.c = (limber_output){ c[0], LIMBER_I64, N, 1 };
    x.contract = &k;
    x.batch = &batch;
    assert_int_equal(limber_run(ctx, &x, NULL), LIMBER_STATUS_OK);
    x.c.data = c[1];
    batch.a = 0;
    batch.address_a = listed;
    assert_int_equal(limber_run(ctx, &x, NULL), LIMBER_STATUS_OK);
    for (int g = 0; g < GROUPS; g++) {
        assert_int_equal(limber_gemm(ctx, &k, N, N, N, NULL,
                                     (limber_matrix){ a[g], LIMBER_I64, N, 1 }, x.b, NULL,
                                     (limber_output){ want, LIMBER_I64, N, 1 }, NULL),
                         LIMBER_STATUS_OK);
        assert_memory_equal(c[0][g], want, sizeof want);
        assert_memory_equal(c[1][(g + 1) % GROUPS], want, sizeof want);
    }
}

/* ---- conversions ----------------------------------------------------------------------------- */

/* The conversions, compiled for one instruction set. */
struct conversions {
    const char *isa;
    unsigned needs;
    residues_reduce *reduce;
    residues_split *split;
    residues_join *join;
    residues_shorten *shorten;
};
#define ROW(isa, ...) \
    { #isa, \
      NEEDS_##isa, \
      limber_residues_reduce_##isa, \
      limber_residues_split_##isa, \
      limber_residues_join_##isa, \
      limber_residues_shorten_##isa },

/* Every instruction set's conversions give residues, and take the number back from them. */
static void conversions_are_right(void **state)
{
    enum { COUNTED = 1100 };
    static const struct conversions sets[] = { LIMBER_FALLBACK(ROW, ){
        "C", 0, limber_residues_reduce, limber_residues_split, limber_residues_join,
        limber_residues_shorten } };
    static int64_t v[COUNTED], reduced[COUNTED], back[COUNTED];
    static int8_t residues[MOST_MODULI * COUNTED];
    static int32_t wide[MOST_MODULI * COUNTED];
    const unsigned cpu = limber_cpu_here();
    struct rng r = { 11 };

    (void)state;
    for (size_t s = 0; s < COUNT(sets); s++)
        for (size_t each = 0; each < COUNT(moduli); each++) {
            const int64_t p = moduli[each];
            struct moduli x = { 0 };

            if (sets[s].needs & ~cpu)
                continue;
            assert_true(limber_moduli_choose(&x, p, 1 << 20));
            for (int i = 0; i < COUNTED; i++)
                v[i] = reduced[i] = i < 8  ? (i & 1 ? INT64_MIN + i / 2 : INT64_MAX - i / 2) :
                                    i < 16 ? p / 2 + i - 12 :
                                             (int64_t)(rng_next(&r) >> rng_below(&r, 63));
            sets[s].reduce(p, reduced, COUNTED);
            sets[s].split(&x, reduced, COUNTED, residues, COUNTED);
            for (int i = 0; i < COUNTED; i++) {
                assert_true(least(reduced[i], p) == least(v[i], p));
                assert_true(reduced[i] <= p / 2 && reduced[i] > p / 2 - p);
                for (int m = 0; m < x.count; m++) {
                    const int32_t much = INT32_MAX / x.m[m] * x.m[m] - 4 * x.m[m];
                    int32_t *w = &wide[m * COUNTED + i];

                    assert_true(least(residues[m * COUNTED + i] - (__int128)reduced[i], x.m[m]) ==
                                0);
                    *w = residues[m * COUNTED + i] + (i % 3 - 1) * much;
                }
            }
            sets[s].join(&x, wide, COUNTED, COUNTED, back);
            assert_memory_equal(back, reduced, sizeof back);
            for (int m = 0; m < x.count; m++) {
                sets[s].shorten(&x, m, wide + m * COUNTED, COUNTED);
                for (int i = 0; i < COUNTED; i++)
                    assert_true(abs(wide[m * COUNTED + i]) <= x.m[m] / 2 &&
                                least(wide[m * COUNTED + i] - (__int128)reduced[i], x.m[m]) == 0);
            }
        }
}

/* ---- refused arguments ----------------------------------------------------------------------- */

/* Invalid moduli, formats and elements are refused, and C is unchanged. */
static void refused_calls_write_nothing(void **state)
{
    static const double a[4] = { 1, 2, 3, 4 }, half[4] = { 1, 2, 3.5, 4 },
                        nan_[4] = { 1, NAN, 3, 4 };
    const int64_t kept[8] = { 11, 12, 13, 14, 15, 16, 17, 18 };
    int64_t c[8] = { 11, 12, 13, 14, 15, 16, 17, 18 };
    static const double second[8] = { 1, 2, 3, 4, 5, 6, 7, 0.25 };
    const limber_batch batch = { .size = sizeof batch, .count = 2, .a = 4, .c = 4 };
    limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_EXACT, .modulus = 7 };
    limber_problem p = LIMBER_PROBLEM_INIT;
    const limber_matrix overlapping = { c, LIMBER_I64, 2, 1 };
    const limber_unit unit = LIMBER_UNIT_INIT;
    const limber_epilogue epilogue = { .size = sizeof epilogue, .steps = "%1 = neg %x" };
    limber_statistics statistics = LIMBER_STATISTICS_INIT;
    const int64_t scalar = 3;
    size_t bytes;
    char *text = NULL;

    (void)state;
    p.m = p.n = p.k = 2;
    p.a = p.b = (limber_matrix){ a, LIMBER_F64, 2, 1 };
    p.c = (limber_output){ c, LIMBER_I64, 2, 1 };
    p.contract = &k;
    p.alpha = &scalar;
#define REFUSED(status, text, change, undo) \
    do { \
        change; \
        assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_##status, text); \
        assert_memory_equal(c, kept, sizeof c); \
        undo; \
    } while (0)
    REFUSED(BAD_ARGUMENT, "contract.modulus = 1 is not from 2", k.modulus = 1, k.modulus = 7);
    REFUSED(BAD_ARGUMENT, "contract.modulus = 9223372036854775808", k.modulus = (uint64_t)1 << 63,
            k.modulus = 7);
    REFUSED(BAD_ARGUMENT, "promise exact", k.promise = LIMBER_CONTRACT_CORRECT,
            k.promise = LIMBER_CONTRACT_EXACT);
    REFUSED(BAD_ARGUMENT, "contract.residues = 2", k.residues = (limber_residues)2,
            k.residues = LIMBER_RESIDUES_LEAST);
    REFUSED(BAD_ARGUMENT, "contract.scheme", k.scheme = "ozaki2", k.scheme = NULL);
    REFUSED(RANGE, "a: an element is no integer", (p.batch = &batch, p.a.data = second),
            (p.batch = NULL, p.a.data = a));
    REFUSED(BAD_ARGUMENT, "domain", p.domain = LIMBER_DOMAIN_COMPLEX,
            p.domain = LIMBER_DOMAIN_REAL);
    REFUSED(BAD_ARGUMENT, "a: products modulo a number take", p.a.format = LIMBER_DD,
            p.a.format = LIMBER_F64);
    REFUSED(BAD_ARGUMENT, "c: i8 does not hold 128", (k.modulus = 129, p.c.format = LIMBER_I8),
            (k.modulus = 7, p.c.format = LIMBER_I64));
    REFUSED(BAD_ARGUMENT, "contract.split", k.split = LIMBER_SPLIT_INSIDE, k.split = 0);
    REFUSED(BAD_ARGUMENT, "contract.statistics", k.statistics = &statistics, k.statistics = NULL);
    REFUSED(BAD_ARGUMENT, "contract.unit", k.unit = &unit, k.unit = NULL);
    REFUSED(BAD_ARGUMENT, "contract.on_miss = 77", k.on_miss = (limber_on_miss)77, k.on_miss = 0);
    REFUSED(BAD_ARGUMENT, "c: posit16 does not hold 6", p.c.format = named("posit16"),
            p.c.format = LIMBER_I64);
    /* floats that hold no odd numbers, or in which 1 is not normal */
    REFUSED(BAD_ARGUMENT, "does not hold 6", p.c.format = named("(1,5,10,-12,0,2,0)"),
            p.c.format = LIMBER_I64);
    REFUSED(BAD_ARGUMENT, "does not hold 6", p.c.format = named("(1,5,10,0,2,2,0)"),
            p.c.format = LIMBER_I64);
    REFUSED(BAD_ARGUMENT, "problem.epilogue", p.epilogue = &epilogue, p.epilogue = NULL);
    REFUSED(RANGE, "a: an element is no integer", p.a.data = half, p.a.data = a);
    REFUSED(RANGE, "b: an element is no integer", p.b.data = nan_, p.b.data = a);
    REFUSED(BAD_ARGUMENT, "overlaps", p.a = overlapping, p.a = p.b);
    assert_refused(limber_plan(ctx, &p, &text, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   "contract.modulus: only limber_gemm and limber_run");
    assert_refused(limber_workspace(ctx, &p, &bytes, &bytes), LIMBER_STATUS_BAD_ARGUMENT,
                   "contract.modulus");
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    assert_int_equal(c[0], 3 * (1 * 1 + 2 * 3) % 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),          cmocka_unit_test(long_lines_are_right),
        cmocka_unit_test(large_floats_are_integers),   cmocka_unit_test(long_sums_are_right),
        cmocka_unit_test(batches_are_right),           cmocka_unit_test(conversions_are_right),
        cmocka_unit_test(refused_calls_write_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, destroy_group_contexts);
}
