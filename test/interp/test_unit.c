/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units with an MPFR reference: descriptions, all values of small formats,
 * random units, and counters.  Also tests settings that must not change the bits. */
#include "engine_support.h"
#include "support.h"
#include "contexts.h"
#include "unit_backends.h"
#include "unit_any.h"
#include "unit_oracle.h"

#include <math.h>

static limber_matrix row_major(void *data, const char *format, int64_t cols)
{
    return (limber_matrix){ data, named(format), cols > 0 ? cols : 1, 1 };
}

/* ---- descriptions -------------------------------------------------------------------------- */

/* The text of each preset unit is parsed to the same unit. */
static void presets_read_back(void **state)
{
    const limber_unit_preset *p;
    char text[1024], again[1024];
    int n = 0;

    (void)state;
    for (; (p = limber_unit_preset_at(n)); n++) {
        limber_unit u = unit(p->name), v;

        v = unit(limber_unit_text(&u, text, sizeof text));
        assert_string_equal(limber_unit_text(&v, again, sizeof again), text);
        assert_int_equal(limber_unit_check(&v), LIMBER_STATUS_OK);
        assert_true(strlen(p->source) > 0);
    }
    assert_true(n > 40);
    assert_null(limber_unit_preset_at(-1));
}

/* NVIDIA's units truncate binary32 operands to TF32, but libraries round the operands before.  For
 * each preset with TF32 there must be a preset of the same name and "-rounded". */
static void units_in_tf32_have_rounded_ones(void **state)
{
    const limber_unit_preset *p;
    int seen = 0;

    (void)state;
    for (int i = 0; (p = limber_unit_preset_at(i)); i++) {
        char name[64], words[64], text[1024], due[1024];
        limber_unit u;

        if (strncmp(p->words, "in=tf32:rz acc=", 15) != 0 || !strncmp(p->name, "cdna", 4))
            continue;
        snprintf(name, sizeof name, "%s-rounded", p->name);
        snprintf(words, sizeof words, "%s in=tf32", p->name);
        u = unit(words);
        limber_unit_text(&u, due, sizeof due);
        u = unit(name);
        assert_string_equal(limber_unit_text(&u, text, sizeof text), due);
        assert_null(strstr(text, ":rz acc"));
        seen++;
    }
    assert_int_equal(seen, 4);
}

/* A description is printed in its canonical form, without presets and other names. */
static void texts_become_canonical(void **state)
{
    static const struct {
        const char *given, *canonical;
    } texts[] = {
        { "acc=fp16:rne in=e5m2", "in=e5m2 acc=f16" },
        { "a=e5m2 b=e4m3 acc=f32:rz", "a=e5m2 b=e4m3 acc=f32:rz" },
        { "in=e5m2 mul=(1,5,2):sr acc=(1,6,9):sat:ftz group=16 seed=7",
          "in=e5m2 mul=(1,5,2):rs acc=(1,6,9):sat:ftz group=16 outer=(1,6,9):sat:ftz seed=7" },
        { "h100-e4m3 group=128 outer=fp32",
          "in=e4m3 acc=(1,8,13):rz:inf block=32 frac=13 group=128 outer=f32" },
        { "v100-fp16 floor=-132 zeros=keep",
          "in=f16 acc=f32:rz:inf block=4 frac=23 floor=-132 zeros=keep" },
        { "in=e2m1 scale=ue4m3 acc=f32 split=3",
          "in=e2m1 scale=ue4m3:16:floor acc=f32 split=3 total=f32" },
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        limber_unit u = unit(texts[i].given);

        assert_string_equal(limber_unit_text(&u, text, sizeof text), texts[i].canonical);
    }
}

/* Each invalid description is refused with a text that names the word at fault. */
static void contradictions_name_their_key(void **state)
{
    static const struct refused_unit bad[] = {
        { "", "in:" },
        { "in=e5m2", "acc:" },
        { "acc=f16", "in:" },
        { "e5m2", "'e5m2'" },
        { "in=e5m2 acc=f16 v100-fp16", "v100-fp16" },
        { "in=e5m2 acc=f16 speed=9", "speed" },
        { "in=e5m2 in=f16 acc=f16", "in: said twice" },
        { "in=e5m2 acc=(1,9,3)", "acc: e = 9" },
        { "in=(1,5,24) acc=f32", "a: m = 24" },
        { "in=e5m2 acc=f17", "acc:" },
        { "in=e5m2 acc=f16:rx", "acc:" },
        { "in=e5m2 acc=f16:sat:inf", "acc:" },
        { "in=e5m2 acc=f16 group=0", "group:" },
        { "in=e5m2 acc=f16 group=-3", "group:" },
        { "in=e5m2 acc=f16 group=x", "group:" },
        { "in=e5m2 acc=f16 outer=f32", "outer:" },
        { "in=e5m2 acc=f16 total=f32", "total:" },
        { "in=e5m2 acc=f16 split=0", "split:" },
        { "in=e5m2 acc=f16 block=0", "block:" },
        { "in=e5m2 acc=f16 block=129 frac=9", "block:" },
        { "in=e5m2 acc=f16 block=4", "frac:" },
        { "in=e5m2 acc=f16 frac=10", "frac:" },
        { "in=e5m2 acc=f16 floor=-10", "floor:" },
        { "in=e5m2 acc=f16 zeros=keep", "zeros:" },
        { "in=e5m2 mul=f16 acc=f16 block=4 frac=9", "mul:" },
        { "in=e5m2 acc=f16 block=6 tree=yes", "tree:" },
        { "in=e5m2 acc=f16 tree=yes", "tree:" },
        { "in=e5m2 acc=f16 block=4 tree=yes frac=3", "frac:" },
        { "in=e5m2 mul=f16 acc=e5m2", "acc:" },
        { "in=e5m2 acc=f16:rs", "seed:" },
        { "in=e5m2:rs acc=f16 seed=1", "a:" },
        { "in=e5m2 acc=f16:rs seed=-1", "seed:" },
        { "in=e5m2 acc=f16:rs seed=1 bits=17", "bits:" },
        { "in=e2m1 acc=f32 block=32 frac=9 sub=5", "sub:" },
        { "in=e5m2 acc=f32 block=32 frac=9 sub=4", "sub:" },
        { "in=e5m2 acc=f32 block=8 frac=9 group=12", "group:" },
        { "in=e5m2 acc=f32 order=quads", "order:" },
        { "in=e5m2 acc=f32 order=sideways", "order:" },
        { "in=e5m2 acc=f32 scale=e4m3", "scale:" },
        { "in=f64 acc=f32", "in:" },
        { "in=f64 acc=f64 lanes=2", "lanes:" },
        { "in=f64 mul=f64:rz acc=f64", "acc:" },
        { "in=f64 acc=f64 block=4 tree=yes", "in:" },
        { "in=f64 acc=f64 start=c", "in:" },
        { "in=f64 mul=f32 acc=f64", "acc:" },
        { "in=f16 mul=f16 acc=f64", "acc:" },
        { "in=f16 acc=f64 group=8 outer=f32", "acc:" },
        { "in=f16 acc=f64 block=8 frac=30", "acc:" },
        { "in=f16 acc=f32 group=8 outer=f64", "outer:" },
        { "in=f16:rs acc=f64 seed=1", "a:" },
        { "a=f16 b=f64 acc=f32", "in:" },
        { "in=e4m3 acc=e4m3fnuz", "acc:" },
        { "in=f16 acc=f32 late=31", "late:" },
        { "in=f16 acc=f32 block=4 tree=yes late=31", "late:" },
        { "in=f16 acc=f32 block=4 frac=24 late=23", "late: 23 is below" },
        { "in=f16 acc=f32 block=4 frac=24 late=24 floor=-9", "late: contradicts floor" },
        { "in=f16 acc=f32 block=4 frac=24 reach=25", "reach:" },
        { "in=f16 acc=f32 block=4 frac=24 halves=yes", "halves:" },
        { "in=f16 acc=f32 lanes=2", "lanes:" },
        { "in=f16 acc=f32 group=8 lanes=3", "lanes: 3" },
        { "in=f16 acc=f32 block=4 frac=9 group=8 lanes=2", "lanes:" },
        { "in=f16 acc=f32 halve=4", "halve:" },
        { "in=f16 acc=f32 group=6 halve=4", "halve: 4 does not divide" },
        { "in=f16 acc=f32 block=4 frac=9 group=12 halve=6", "halve: 6 is no multiple" },
        { "in=f16 acc=f32 group=8 halve=4 order=evenodd", "halve:" },
        { "in=f16 acc=f32 group=8 unroll=4", "unroll: only with lanes" },
        { "in=f16 acc=f32 group=8 join=halves", "join:" },
        { "in=f16 acc=f32 group=8 lanes=4 unroll=6", "unroll: 6 is no multiple" },
        { "in=f16 acc=f32 group=8 lanes=4 rest=after", "rest:" },
        { "in=i8 acc=f32", "acc:" },
        { "in=i8 acc=i32 group=4", "in:" },
        { "in=e2m1 acc=f32 scale=ue4m3:16:ceil", "scale:" },
    };

    (void)state;
    expect_refused_units(bad, COUNT(bad));
}

/* A contract without a unit, with an invalid unit, or with settings that a unit excludes, is
 * refused, and the error names what is wrong. */
static void calls_ask_for_a_whole_unit(void **state)
{
    float x = 1, y = 0, half = 0.5f;
    limber_unit u = unit("in=f16 acc=f16"), broken = u, start = unit("in=f16 acc=f16 start=c");
    limber_statistics s = LIMBER_STATISTICS_INIT;
    limber_contract none = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_SIMULATE },
                    bad = { .size = sizeof(limber_contract),
                            .promise = LIMBER_CONTRACT_SIMULATE,
                            .unit = &broken },
                    from_c = { .size = sizeof(limber_contract),
                               .promise = LIMBER_CONTRACT_SIMULATE,
                               .unit = &start },
                    other = { .size = sizeof(limber_contract),
                              .promise = LIMBER_CONTRACT_SIMULATE,
                              .unit = &u,
                              .scheme = "native" },
                    counted = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_NATIVE,
                                .statistics = &s };
    const struct {
        limber_contract *k;
        const void *beta;
        const char *text;
    } cases[] = {
        { &none, NULL, "contract.unit is NULL" },
        { &bad, NULL, "group: 3 is no multiple" },
        { &from_c, &half, "start=c" },
        { &from_c, NULL, "start=c" },
        { &other, NULL, "contract.scheme" },
        { &counted, NULL, "contract.statistics" },
    };

    (void)state;
    broken.block = 2;
    broken.frac = 9;
    broken.group = 3;
    broken.outer = broken.acc;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(limber_gemm(backend[0], cases[i].k, 1, 1, 1, NULL, row_major(&x, "f32", 1),
                                     row_major(&x, "f32", 1), cases[i].beta,
                                     output_of(row_major(&y, "f32", 1)), NULL),
                         LIMBER_STATUS_BAD_ARGUMENT);
        if (!strstr(limber_error_text(), cases[i].text))
            fail_msg("%s", limber_error_text());
        assert_true(y == 0);
    }
}

/* ---- sums of doubles ------------------------------------------------------------------------- */

enum { DOUBLES = 21 };

/* Returns s plus every step-th of the products from `from` up to `to`, added by fused
 * multiply-adds. */
static double add_products(const double *a, const double *b, int from, int to, int step, double s)
{
    for (int p = from; p < to; p += step)
        s = fma(a[p], b[p], s);
    return s;
}

/* Returns the sum of 21 products a[p] b[p], added as unit i of doubles_are_summed_as_described adds
 * them. */
static double expected_double(int i, const double *a, const double *b)
{
    double s = 0, x[24] = { 0 }, lane[4];

    for (int p = 0; p < DOUBLES; p++)
        x[p] = a[p] * b[p];
    for (int p = 0; p < 4; p++)
        lane[p] = add_products(a, b, p, 20, 4, 0);
    switch (i) {
    case 0:
        for (int p = 0; p < DOUBLES; p++)
            s += x[p];
        return s;
    case 1:
        for (int p = DOUBLES - 1; p >= 0; p--)
            s = fma(a[p], b[p], s);
        return s;
    case 2:
        return add_products(a, b, 0, 8, 1, 0) + add_products(a, b, 8, 14, 1, 0) +
               add_products(a, b, 14, 21, 1, 0);
    case 3:
        return add_products(a, b, 0, 8, 1, 0) + add_products(a, b, 8, 15, 1, 0) +
               add_products(a, b, 15, 21, 1, 0);
    case 4:
        return add_products(a, b, 20, 21, 1, add_products(a, b, 0, 20, 2, 0)) +
               add_products(a, b, 1, 20, 2, 0);
    case 5: return fma(a[20], b[20], (lane[0] + lane[2]) + (lane[1] + lane[3]));
    case 6: return (fma(a[20], b[20], lane[0]) + lane[1]) + (lane[2] + lane[3]);
    case 7:
        for (int p = 0; p < 24; p += 4)
            s += (x[p] + x[p + 1]) + (x[p + 2] + x[p + 3]);
        return s;
    default: return add_products(a, b, 0, 11, 1, 0) + add_products(a, b, 11, 21, 1, 0);
    }
}

/* Nine units that add FP64 products in various orders have the results of sums that are written out
 * in this test. */
static void doubles_are_summed_as_described(void **state)
{
    static const char *const units[] = {
        "in=f64 mul=f64 acc=f64",
        "in=f64 acc=f64 order=reverse",
        "in=f64 acc=f64 group=8 halve=2",
        "in=f64 acc=f64 group=8 halve=1",
        "in=f64 acc=f64 group=21 lanes=2 unroll=4",
        "in=f64 acc=f64 group=21 lanes=4 unroll=4 rest=after join=halves",
        "in=f64 acc=f64 group=21 lanes=4 unroll=4",
        "in=f64 mul=f64 acc=f64 block=4 tree=yes",
        "in=f64 acc=f64 split=2",
    };
    /* a context with a compiler, if there is one, whose calls may use the interpreter */
    limber_context *any;
    struct rng r = { 64 };

    (void)state;
    assert_int_equal(
        limber_create(
            &any, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .threads = 1 }),
        LIMBER_STATUS_OK);
    for (int i = 0; i < (int)COUNT(units); i++)
        for (int turn = 0; turn < 50; turn++) {
            limber_unit u = unit(units[i]);
            limber_contract contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_SIMULATE,
                                         .unit = &u };
            double a[DOUBLES], b[DOUBLES], c = 1, want;

            for (int p = 0; p < DOUBLES; p++) {
                a[p] = 2 * rng_unit(&r) - 1;
                b[p] = 2 * rng_unit(&r) - 1;
            }
            want = expected_double(i, a, b);
            assert_int_equal(limber_gemm(turn % 2 ? any : backend[0], &contract, 1, 1, DOUBLES,
                                         NULL, row_major(a, "f64", DOUBLES), row_major(b, "f64", 1),
                                         NULL, output_of(row_major(&c, "f64", 1)), NULL),
                             LIMBER_STATUS_OK);
            if (memcmp(&c, &want, sizeof c))
                fail_msg("%s: %a, not %a", units[i], c, want);
        }
    limber_destroy(any);
}

/* ---- all values of small formats ------------------------------------------------------------- */

/* Multiplies a (m x k) by b (k x n), from doubles to floats, on one backend. */
static void multiply(limber_context *ctx, const limber_unit *u, int64_t m, int64_t n, int64_t k,
                     double *a, double *b, float *c, limber_statistics *s)
{
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = u,
                                 .statistics = s };

    if (limber_gemm(ctx, &contract, m, n, k, NULL, row_major(a, "f64", k), row_major(b, "f64", n),
                    NULL, output_of(row_major(c, "f32", n)), NULL) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
}

static const char *const modes[] = { "rn", "ra", "rz", "ru", "rd", "ro" };

/* Decodes every bit pattern of a format of at most eight bits.  Returns the number of patterns. */
static int all_values(limber_format f, double v[256])
{
    int n = 1 << (1 + f.exp_bits + f.frac_bits), ones = (1 << f.frac_bits) - 1;

    for (int code = 0; code < n; code++) {
        int field = code >> f.frac_bits & ((1 << f.exp_bits) - 1), frac = code & ones;
        double x = field ? ldexp(ones + 1 + frac, field - f.bias - f.frac_bits) :
                           ldexp(frac, 1 - f.bias - f.frac_bits);

        if (field == (1 << f.exp_bits) - 1 && !(f.flags & LIMBER_FORMAT_FINITE)) {
            if (f.flags & LIMBER_FORMAT_NO_INF)
                x = frac == ones ? NAN : x;
            else
                x = frac ? NAN : INFINITY;
        }
        v[code] = code >> (f.exp_bits + f.frac_bits) ? -x : x;
    }
    return n;
}

/* Tests x y and x + y for all values of a format, with each rounding mode for products or sums.
 * Rounding to nearest is always tested, the other modes for some values of the case number `at`. */
static void check_all_pairs(size_t at, const char *format, const char *more)
{
    double v[256], wide[512], twice[512], *want = malloc(65536 * sizeof *want);
    float *got = malloc(65536 * sizeof *got);
    char text[256];
    int n;

    for (size_t m = 0; m < 2 * COUNT(modes); m++) {
        bool sums = m >= COUNT(modes);
        const char *mode = modes[m % COUNT(modes)];
        limber_unit u = LIMBER_UNIT_INIT;

        if (m % COUNT(modes) && !is_taken(at + m + sums, 4))
            continue;
        snprintf(text, sizeof text, "in=%s mul=%s:%s%s acc=%s:%s%s", format, format,
                 sums ? "rn" : mode, sums ? "" : more, format, sums ? mode : "rn",
                 sums ? more : "");
        u = unit(text);
        n = all_values(u.a.format, v);
        for (int i = 0; i < n; i++) { /* (x, 1) times the column (1; y) */
            wide[2 * i] = v[i];
            wide[2 * i + 1] = 1;
            twice[i] = 1;
            twice[n + i] = v[i];
        }
        /* the expected value is 0 + p for a product p, and (0 + x) + y for a sum */
        for (int i = 0; i < n; i++) {
            double first = oracle_round(&u.acc, 0 + v[i], 0, 0);

            for (int j = 0; j < n; j++)
                want[i * n + j] = sums ? oracle_round(&u.acc, first + v[j], 0, 0) :
                                         0 + oracle_round(&u.mul, v[i] * v[j], 0, 0);
        }
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            multiply(backend[ctx], &u, n, n, sums ? 2 : 1, sums ? wide : v, sums ? twice : v, got,
                     NULL);
            for (int e = 0; e < n * n; e++)
                if (!oracle_equal(got[e], want[e]))
                    fail_msg("%s on %s: %a %c %a is %a, not %a", text, backend_name[ctx], v[e / n],
                             sums ? '+' : '*', v[e % n], got[e], want[e]);
        }
    }
    free(got);
    free(want);
}

/* Products and sums of all pairs of values of formats of at most eight bits are right. */
static void all_pairs_of_eight_bits_are_right(void **state)
{
    static const char *const formats[] = { "(1,5,2)", "(1,4,3)", "e4m3", "e5m2", "(1,3,4)",
                                           "(1,2,5)", "e3m2",    "e2m3", "e2m1" };

    (void)state;
    for (size_t i = 0; i < COUNT(formats); i += SANITIZED ? 4 : 1)
        check_all_pairs(i, formats[i], "");
    check_all_pairs(9, "e4m3", ":sat");
    if (SANITIZED)
        return;
    check_all_pairs(10, "e5m2", ":sat");
    check_all_pairs(11, "(1,4,3)", ":ftz");
    check_all_pairs(12, "(1,4,3)", ":inf");
}

/* Checks the conversion when operands are loaded: all numbers of f16 or bf16, the midpoints
 * between them, and the neighbours of midpoints in binary32. */
static void check_loading(const char *format)
{
    limber_format f = named(format);
    int codes = ((1 << f.exp_bits) - 1) << f.frac_bits, n = 0;
    double *x = malloc((size_t)codes * 12 * sizeof *x), one = 1;
    float *got = malloc((size_t)codes * 12 * sizeof *got), *stored = malloc((size_t)codes * 48);
    char text[64];

    for (int code = 0; code < codes; code += SANITIZED ? 31 : 1) {
        int field = code >> f.frac_bits, frac = code & ((1 << f.frac_bits) - 1);
        double low = field ? ldexp((1 << f.frac_bits) + frac, field - f.bias - f.frac_bits) :
                             ldexp(frac, 1 - f.bias - f.frac_bits);
        double unit = ldexp(1, (field ? field : 1) - f.bias - f.frac_bits);
        float points[6] = { (float)low,
                            nextafterf((float)low, INFINITY),
                            nextafterf((float)(low + unit / 2), 0),
                            (float)(low + unit / 2),
                            nextafterf((float)(low + unit / 2), INFINITY),
                            nextafterf((float)(low + unit), 0) };

        for (int i = 0; i < 6; i++) {
            x[n++] = points[i];
            x[n++] = -points[i];
        }
    }
    for (size_t m = 0; m < COUNT(modes); m++) {
        static const limber_rounding mode[] = { LIMBER_ROUND_NEAREST, LIMBER_ROUND_AWAY,
                                                LIMBER_ROUND_ZERO,    LIMBER_ROUND_UP,
                                                LIMBER_ROUND_DOWN,    LIMBER_ROUND_ODD };
        limber_unit u = LIMBER_UNIT_INIT;

        snprintf(text, sizeof text, "in=%s:%s acc=f32", format, modes[m]);
        u = unit(text);
        assert_int_equal(limber_convert(stored, f, x, named("f64"), (size_t)n, mode[m]),
                         LIMBER_STATUS_OK);
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            if (ctx == 0 && m % 3)
                /* the interpreter is slow, and rounds by the library's conversion, so a third of
                 * the modes suffices */
                continue;
            multiply(backend[ctx], &u, n, 1, 1, x, &one, got, NULL);
            for (int i = 0; i < n; i++) {
                double want = oracle_round(&u.a, x[i], 0, 0), converted;

                limber_convert(&converted, named("f64"), (char *)stored + i * f.size, f, 1,
                               LIMBER_ROUND_NEAREST);
                if (!oracle_equal(converted, want) || !oracle_equal(got[i], 0 + want))
                    fail_msg("%s: %a becomes %a and %a, not %a", text, x[i], got[i], converted,
                             want);
            }
        }
    }
    free(x);
    free(got);
    free(stored);
}

static void sixteen_bits_are_loaded(void **state)
{
    (void)state;
    check_loading("f16");
    check_loading("bf16");
}

/* ---- random units ---------------------------------------------------------------------------- */

/* Fails if two statistics differ in a counter. */
static void assert_same_counts(const char *text, const char *where, const limber_statistics *s,
                               const limber_statistics *want)
{
    const int64_t have[] = { s->nonzero,       s->mul_inexact,    s->mul_underflow, s->mul_overflow,
                             s->swamped,       s->partly_swamped, s->sum_overflow,  s->outer_sums,
                             s->outer_swamped, s->outer_partly };
    const int64_t due[] = { want->nonzero,      want->mul_inexact, want->mul_underflow,
                            want->mul_overflow, want->swamped,     want->partly_swamped,
                            want->sum_overflow, want->outer_sums,  want->outer_swamped,
                            want->outer_partly };

    for (size_t i = 0; i < COUNT(have); i++)
        if (have[i] != due[i])
            fail_msg("%s on %s: counter %zu is %lld, not %lld", text, where, i, (long long)have[i],
                     (long long)due[i]);
}

/* Compares a random product of a unit with the reference implementation, on both backends, with or
 * without statistics. */
static void check_unit(struct rng *r, limber_unit u, const char *text, int kind)
{
    int64_t m = 1 + rng_below(r, 6), n = 1 + rng_below(r, 50), k = rng_below(r, 50);
    double *a = any_matrix(r, m * k, kind), *b = any_matrix(r, k * n, kind);
    struct oracle_value *la = oracle_load_lines(&u, 0, a, m, k, k, 1);
    struct oracle_value *lb = oracle_load_lines(&u, 1, b, n, k, 1, n);
    float *c0 = calloc((size_t)(m * n), sizeof *c0), *c = calloc((size_t)(m * n), sizeof *c);
    float one = 1;
    limber_statistics want = LIMBER_STATISTICS_INIT;
    bool counts = rng_below(r, 2);
    double *due = calloc((size_t)(m * n), sizeof *due);

    for (int64_t i = 0; i < m * n; i++) {
        c0[i] = (float)ldexp(any_value(r, 0), rng_below(r, 6) ? 0 : -130);
        due[i] = oracle_dot(&u, la + i / n * k, lb + i % n * k, k, u.start_c ? c0[i] : 0, i / n,
                            i % n, &want);
    }
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        limber_statistics s = LIMBER_STATISTICS_INIT;
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_SIMULATE,
                                     .unit = &u,
                                     .statistics = counts ? &s : NULL };

        memcpy(c, c0, (size_t)(m * n) * sizeof *c);
        if (limber_gemm(backend[ctx], &contract, m, n, k, NULL, row_major(a, "f64", k),
                        row_major(b, "f64", n), u.start_c ? &one : NULL,
                        output_of(row_major(c, "f32", n)), NULL))
            fail_msg("%s: %s", text, limber_error_text());
        for (int64_t i = 0; i < m * n; i++)
            if (!oracle_equal(c[i], due[i]))
                fail_msg("%s on %s, %d x %d x %d, data %d: element %d is %a, not %a", text,
                         backend_name[ctx], (int)m, (int)n, (int)k, kind, (int)i, c[i], due[i]);
        if (counts)
            assert_same_counts(text, backend_name[ctx], &s, &want);
    }
    free(a);
    free(b);
    free(la);
    free(lb);
    free(c0);
    free(c);
    free(due);
}

/* Presets whose parameters random units rarely have give the results of the reference
 * implementation. */
static void presets_compute_what_they_describe(void **state)
{
    static const char *const names[] = { "cdna", "amx", "avx512", "arm", "riscv" };
    const limber_unit_preset *p;
    struct rng r = { 42 };
    char text[512];
    int seen = 0;

    (void)state;
    for (int i = 0; (p = limber_unit_preset_at(i)); i++) {
        bool here = false;

        for (size_t x = 0; x < COUNT(names); x++)
            here |= !strncmp(p->name, names[x], strlen(names[x]));
        if (!here || !strcmp(p->words, "in=f32 acc=f32") || strstr(p->words, "f64"))
            continue;
        seen++;
        snprintf(text, sizeof text, "%s%s", p->name, seen % 2 ? " start=c" : "");
        for (int kind = 0; kind < VALUE_KINDS; kind += SANITIZED ? 3 : 1)
            check_unit(&r, unit(text), text, kind);
    }
    assert_true(seen > 15);
}

/* A limber_unit of an older, shorter version is refused if the description sets a field that it
 * lacks; otherwise it is filled in. */
static void old_structures_lose_no_words(void **state)
{
    limber_unit u = { .size = offsetof(limber_unit, late) };

    (void)state;
    assert_int_equal(limber_unit_parse("h100-fp16", &u), LIMBER_STATUS_OK);
    assert_int_equal(u.block, 16);
    assert_refused(limber_unit_parse("cdna3-fp16", &u), LIMBER_STATUS_BAD_ARGUMENT, "unit.size = ");
    assert_int_equal(u.block, 0);
}

/* Units with random descriptions have the results and counters of the reference implementation. */
static void random_units_compute_what_they_describe(void **state)
{
    struct rng r = { 4 };

    (void)state;
    for (int i = 0; i < (SANITIZED ? 20 : is_long() ? 70 : 35); i++) {
        char text[512];
        limber_unit u = any_unit(&r, text, sizeof text);

        check_unit(&r, u, text, rng_below(&r, VALUE_KINDS));
    }
}

/* ---- rounding errors, layouts, convolutions -------------------------------------------------- */

/* A sum of 10,000 terms with 8 significant bits must stagnate at 256, and the statistics must
 * show that. */
static void sums_stagnate(void **state)
{
    enum { N = 10000 };
    double *x = malloc(N * sizeof *x), *ones = malloc(N * sizeof *ones);
    limber_unit u = unit("in=bf16 mul=bf16 acc=bf16");
    struct rng r = { 10000 };
    float sum;

    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = rng_unit(&r);
        ones[i] = 1;
    }
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        limber_statistics s = { .size = sizeof(limber_statistics), .compare = 1 };

        multiply(backend[ctx], &u, 1, 1, N, x, ones, &sum, &s);
        assert_true(sum == 256);
        assert_true(s.swamped > 9000);
        assert_true(s.distance > 4000 && s.relative > 0.9);
    }
    free(x);
    free(ones);
}

/* Tiling, threads and strides must not change the bits. */
static void tiles_threads_and_strides_keep_the_bits(void **state)
{
    static const char *const units[] = {
        "in=e5m2 mul=e5m2:rs acc=(1,6,9):rs group=16 outer=(1,6,9):rs seed=5",
        "in=bf16 mul=bf16 acc=bf16 split=3",
        "h100-e4m3 group=128 outer=f32",
        "in=(1,4,3) mul=(1,4,3) acc=(1,4,3)",
        "b200-mxe4m3",
        "in=f16 mul=f16:ro acc=(1,8,20):ru",
        "in=(1,7,9) mul=(1,3,23) acc=f32 narrow=yes",
        "in=f16 acc=f32 block=4 frac=10 floor=500",
        "in=f16 mul=(1,2,8) acc=(1,2,8) split=5 total=e4m3:ro",
    };
    enum { M = 70, N = 90, K = 150 };
    struct rng r = { 8 };
    double *a = any_matrix(&r, M * K, 0), *b = any_matrix(&r, K * N, 0), *bt = malloc(K * N * 8);
    float *want = malloc(M * N * 4), *got = malloc(M * N * 4), *transposed = malloc(M * N * 4);

    (void)state;
    for (int p = 0; p < K; p++)
        for (int j = 0; j < N; j++)
            bt[j * K + p] = b[p * N + j];
    for (size_t i = 0; i < COUNT(units); i++) {
        limber_unit u = unit(units[i]);
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_SIMULATE,
                                     .unit = &u };

        multiply(backend[0], &u, M, N, K, a, b, want, NULL);
        for (int way = 0; way < 4 && backend[1]; way++) {
            limber_config c = { .size = sizeof(limber_config),
                                .backend = "llvm",
                                .cache_dir = "",
                                .threads = 1 + way,
                                .workspace_bytes = way > 1 ? (size_t)20000 << way : 0 };
            limber_context *ctx;

            if (!is_taken(i + (size_t)way, 2))
                continue;
            assert_int_equal(limber_create(&ctx, &c), LIMBER_STATUS_OK);
            assert_int_equal(limber_gemm(ctx, &contract, M, N, K, NULL, row_major(a, "f64", K),
                                         (limber_matrix){ bt, named("f64"), 1, K }, NULL,
                                         (limber_output){ transposed, named("f32"), 1, M }, NULL),
                             LIMBER_STATUS_OK);
            for (int e = 0; e < M * N; e++)
                got[e] = transposed[e / N + e % N * M];
            if (memcmp(got, want, M * N * 4) != 0)
                fail_msg("%s: way %d", units[i], way);
            limber_destroy(ctx);
        }
    }
    free(a);
    free(b);
    free(bt);
    free(want);
    free(got);
    free(transposed);
}

/* Stochastic rounding must have the right mean, and the same seed must give the same bits. */
static void stochastic_rounding_is_unbiased_and_repeatable(void **state)
{
    enum { N = 20000 };
    double *x = malloc(N * sizeof *x), one = 1, mean = 0;
    float *got = malloc(N * sizeof *got), *other = malloc(N * sizeof *other);
    limber_unit u = unit("in=f32 mul=(1,5,2):rs acc=f32 seed=1 bits=16");

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = 1.0625 + 0x1p-20; /* a quarter of the way from 1 to 1.25 */
    multiply(backend[0], &u, 1, N, 1, &one, x, got, NULL);
    for (int i = 0; i < N; i++)
        mean += got[i] / N;
    assert_true(fabs(mean - 1.0625) < 0.25 * 0.433 / sqrt(N) * 6);
    u.seed = 2;
    multiply(backend[0], &u, 1, N, 1, &one, x, other, NULL);
    assert_true(memcmp(got, other, N * sizeof *got) != 0);
    u.seed = 1;
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        multiply(backend[ctx], &u, 1, N, 1, &one, x, other, NULL);
        assert_memory_equal(got, other, N * sizeof *got);
    }
    free(x);
    free(got);
    free(other);
}

/* The statistics of a simulated product have the right counts, means and exponents. */
static void distributions_are_reported(void **state)
{
    double a[] = { 1, -2, 0, 0.3, INFINITY, 4 }, b[] = { 1, 1, 1 };
    limber_unit u = unit("in=(1,5,2) mul=(1,5,2) acc=f32");
    float c[2];

    (void)state;
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        limber_statistics s = { .size = sizeof(limber_statistics), .compare = 1 };

        multiply(backend[ctx], &u, 2, 1, 3, a, b, c, &s);
        assert_true(c[0] == -1 && isinf(c[1]));
        assert_int_equal(s.products, 6);
        assert_int_equal(s.nonzero, 4);
        assert_int_equal(s.a.count, 6);
        assert_int_equal(s.a.zeros, 1);
        assert_int_equal(s.a.special, 1);
        assert_true(s.a.least == -2 && s.a.largest == 4);
        assert_true(fabs(s.a.mean - 3.3125 / 5) < 1e-15); /* 0.3 is loaded as 0.3125 */
        assert_int_equal(s.a.exponents[160], 1);
        assert_int_equal(s.a.exponents[161], 1);
        assert_int_equal(s.a.exponents[158], 1);
        assert_int_equal(s.a.exponents[162], 1);
        assert_int_equal(s.result.special, 1);
        assert_true(s.distance == 0); /* the distance counts finite values only */
    }
}

/* Returns a Gaussian random number of mean 0 and variance 1, by the Box-Muller transform. */
static double gaussian(struct rng *r)
{
    double u = rng_unit(r), v = rng_unit(r);

    return sqrt(-2 * log(u > 0 ? u : 0x1p-60)) * cos(6.283185307179586 * v);
}

/* Returns the retained variance of `many` sums of n Gaussian terms: the variance of a unit's
 * results divided by that of exact sums.  The relative standard error of each of the two
 * variances is sqrt(2 / many); that of the quotient is smaller, because the variances are
 * correlated. */
static double measure_retention(const char *text, int n, int many)
{
    limber_unit u = unit(text);
    double *x = malloc((size_t)n * (size_t)many * sizeof *x), *ones = malloc((size_t)n * 8);
    float *sum = malloc((size_t)many * sizeof *sum);
    limber_statistics s = { .size = sizeof(limber_statistics), .compare = 1, .swamped_only = 1 };
    struct rng r = { 7 };

    for (int i = 0; i < n * many; i++)
        x[i] = gaussian(&r);
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    multiply(backend[1] ? backend[1] : backend[0], &u, many, 1, n, x, ones, sum, &s);
    free(x);
    free(ones);
    free(sum);
    return s.retention;
}

/* The variance that sums of simulated units retain is that of a published Monte Carlo study. */
static void retention_is_as_published(void **state)
{
    static const struct {
        const char *unit;
        int n;
        double want, error;
    } table[] = {
        { "in=(1,8,2) mul=(1,8,2) acc=(1,8,2)", 64, 0.777, 0.03 },
        { "in=(1,8,2) mul=(1,8,2) acc=(1,8,2)", 1024, 0.193, 0.02 },
        { "in=(1,8,2) mul=(1,8,2) acc=(1,8,2):rz", 64, 0.106, 0.02 },
        { "in=(1,8,5) mul=(1,8,5) acc=(1,8,5)", 1024, 0.968, 0.02 },
        { "in=(1,8,5) mul=(1,8,5) acc=(1,8,5):rz", 1024, 0.047, 0.02 },
        { "in=(1,8,5) mul=(1,8,5) acc=(1,8,5) group=64 outer=(1,8,5)", 4096, 0.99, 0.02 },
        { "in=(1,8,5) mul=(1,8,5) acc=(1,8,5):rz group=64 outer=(1,8,5):rz", 4096, 0.31, 0.04 },
    };

    (void)state;
    if (!backend[1] || SANITIZED)
        skip_because("no compiled backend, or sanitizers");
    for (size_t i = 0; i < COUNT(table); i++) {
        double have = measure_retention(table[i].unit, table[i].n, 4096);

        print_message("%s, n = %d: %.3f (published Monte Carlo %.3f)\n", table[i].unit, table[i].n,
                      have, table[i].want);
        assert_true(fabs(have - table[i].want) < table[i].error);
    }
}

/* Convolutions on a simulated unit multiply elements in this order of k: channels, then rows,
 * then columns of the filter. */
static void convolutions_are_simulated(void **state)
{
    static const char *const units[] = { "in=e5m2 mul=e5m2 acc=(1,6,9) group=4 outer=f16",
                                         "a100-bf16", "in=e4m3 scale=e8m0:4 acc=f32",
                                         "in=f16 mul=f16:rs acc=f16:rs seed=3 order=reverse" };
    limber_conv shape = uneven_conv;
    int64_t oh, ow, k = 2 * 3 * 2;
    struct rng r = { 6 };

    (void)state;
    assert_int_equal(limber_conv_output(&shape, &oh, &ow), LIMBER_STATUS_OK);
    for (size_t i = 0; i < 2 * COUNT(units); i++) {
        limber_unit u = unit(units[i / 2]);
        bool nhwc = i % 2;
        double *x = any_matrix(&r, 2 * 4 * 5 * 6, 0), *w = any_matrix(&r, 6 * k, 0);
        float *y = calloc((size_t)(2 * 6 * oh * ow), sizeof *y);
        struct oracle_value *la = calloc((size_t)k, sizeof *la),
                            *lb = calloc((size_t)k, sizeof *lb);

        shape.layout = nhwc ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            limber_contract contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_SIMULATE,
                                         .unit = &u };

            assert_int_equal(limber_conv2d(backend[ctx], &contract, &shape, NULL, x, named("f64"),
                                           w, named("f64"), NULL, y, named("f32"), NULL),
                             LIMBER_STATUS_OK);
            for (int64_t at = 0; at < 2 * 6 * oh * ow; at++) {
                int64_t image = at / (6 * oh * ow), o = at / (oh * ow) % 6, row = at / ow % oh;
                int64_t col = at % ow, g = o / 3, index;
                double line[2][12];
                limber_statistics none = LIMBER_STATISTICS_INIT;
                double want;

                for (int64_t p = 0; p < k; p++) {
                    int64_t c = p / 6 + 2 * g, fr = p / 2 % 3, fs = p % 2;
                    int64_t iy = 2 * row + fr - 1, ix = col + 2 * fs - 1;
                    bool inside = iy >= 0 && iy < 5 && ix >= 0 && ix < 6;

                    line[0][p] = nhwc ? w[((o * 3 + fr) * 2 + fs) * 2 + p / 6] : w[o * k + p];
                    line[1][p] = !inside ? 0 :
                                 nhwc    ? x[((image * 5 + iy) * 6 + ix) * 4 + c] :
                                           x[((image * 4 + c) * 5 + iy) * 6 + ix];
                }
                oracle_load(&u, 0, line[0], k, la);
                oracle_load(&u, 1, line[1], k, lb);
                want = oracle_dot(&u, la, lb, k, 0, o % 3, (image * oh + row) * ow + col, &none);
                index = nhwc ? ((image * oh + row) * ow + col) * 6 + o : at;
                if (!oracle_equal(y[index], want))
                    fail_msg("%s on %s: %a, not %a", units[i / 2], backend_name[ctx], y[index],
                             want);
            }
        }
        free(x);
        free(w);
        free(y);
        free(la);
        free(lb);
    }
}

/* The units of INT8 and FP64, which are simulated by the machine's own operations, give their
 * results. */
static void bytes_and_doubles_run_on_the_machine(void **state)
{
    int8_t a[] = { 127, -128, 5, 7 }, b[] = { 127, -128, 1, -1 };
    int32_t c[4];
    double x[] = { 1e16, 1, -1e16 }, y[] = { 1, 1, 1 }, z;
    limber_unit bytes = unit("int8"), doubles = unit("a100-fp64");
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &bytes };

    (void)state;
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        limber_statistics s = LIMBER_STATISTICS_INIT;

        contract.unit = &bytes;
        contract.statistics = &s;
        assert_int_equal(limber_gemm(backend[ctx], &contract, 2, 2, 2, NULL, row_major(a, "i8", 2),
                                     row_major(b, "i8", 2), NULL, output_of(row_major(c, "i32", 2)),
                                     NULL),
                         LIMBER_STATUS_OK);
        assert_true(c[0] == 127 * 127 - 128 && c[3] == -5 * 128 - 7);
        assert_int_equal(s.nonzero, 8);
        contract.unit = &doubles;
        contract.statistics = NULL;
        assert_int_equal(limber_gemm(backend[ctx], &contract, 1, 1, 3, NULL, row_major(x, "f64", 3),
                                     row_major(y, "f64", 1), NULL,
                                     output_of(row_major(&z, "f64", 1)), NULL),
                         LIMBER_STATUS_OK);
        assert_true(z == 0); /* in one chain 1e16 + 1 rounds to 1e16 */
    }
}

/* A group of FP64 products may have any length: its products are added in the order of k. */
static void groups_of_doubles(void **state)
{
    enum { GM = 13, GN = 21, GK = 700 };
    static const int group[] = { 1, 2, 7, 63, 64, 100, 384, 1000 };
    double *a = calloc(GM * GK, sizeof *a), *b = calloc(GK * GN, sizeof *b), c[GM * GN];
    struct rng r = { 64 };

    (void)state;
    for (int i = 0; i < GM * GK; i++)
        a[i] = ldexp(2 * rng_unit(&r) - 1, rng_below(&r, 9));
    for (int i = 0; i < GK * GN; i++)
        b[i] = ldexp(2 * rng_unit(&r) - 1, rng_below(&r, 9));
    for (size_t g = 0; g < COUNT(group); g++) {
        char text[64];
        limber_unit u;
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_SIMULATE,
                                     .unit = &u };

        snprintf(text, sizeof text, "in=f64 acc=f64 group=%d", group[g]);
        u = unit(text);
        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            if (limber_gemm(backend[ctx], &contract, GM, GN, GK, NULL, row_major(a, "f64", GK),
                            row_major(b, "f64", GN), NULL, output_of(row_major(c, "f64", GN)),
                            NULL))
                fail_msg("%s: %s", text, limber_error_text());
            for (int e = 0; e < GM * GN; e++) {
                double sum = 0, acc = 0;

                for (int p = 0; p < GK; p++) {
                    acc = fma(a[e / GN * GK + p], b[p * GN + e % GN], acc);
                    if (p % group[g] == group[g] - 1 || p == GK - 1) {
                        sum += acc;
                        acc = 0;
                    }
                }
                if (!oracle_equal(c[e], sum))
                    fail_msg("%s on %s: element %d is %a, not %a", text, backend_name[ctx], e, c[e],
                             sum);
            }
        }
    }
    free(a);
    free(b);
}

/* A function of limber_bind copies the unit, which the caller may then change. */
static void bound_functions_keep_their_unit(void **state)
{
    limber_unit u = unit("in=e5m2 mul=e5m2 acc=e5m2");
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };
    float a[] = { 1, 1 }, b[] = { 4, 0.25f }, c = 0;
    void (*f)(void);
    int (*gemm)(int64_t, int64_t, int64_t, const float *, int64_t, const float *, int64_t, float *,
                int64_t);

    (void)state;
    assert_int_equal(limber_bind(backend[0], &contract, named("f32"), named("f32"), named("f32"),
                                 "int(m:i64 n:i64 k:i64 a:ptr lda:i64 b:ptr ldb:i64 c:ptr ldc:i64)",
                                 &f),
                     LIMBER_STATUS_OK);
    memset(&u, 0, sizeof u);
    memcpy(&gemm, &f, sizeof gemm);
    assert_int_equal(gemm(1, 1, 2, a, 1, b, 2, &c, 1), 0);
    assert_true(c == 4); /* 4.25 rounds to 4 in e5m2 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_read_back),
        cmocka_unit_test(units_in_tf32_have_rounded_ones),
        cmocka_unit_test(texts_become_canonical),
        cmocka_unit_test(contradictions_name_their_key),
        cmocka_unit_test(calls_ask_for_a_whole_unit),
        cmocka_unit_test(doubles_are_summed_as_described),
        cmocka_unit_test(all_pairs_of_eight_bits_are_right),
        cmocka_unit_test(sixteen_bits_are_loaded),
        cmocka_unit_test(presets_compute_what_they_describe),
        cmocka_unit_test(old_structures_lose_no_words),
        cmocka_unit_test(random_units_compute_what_they_describe),
        cmocka_unit_test(sums_stagnate),
        cmocka_unit_test(tiles_threads_and_strides_keep_the_bits),
        cmocka_unit_test(stochastic_rounding_is_unbiased_and_repeatable),
        cmocka_unit_test(distributions_are_reported),
        cmocka_unit_test(retention_is_as_published),
        cmocka_unit_test(convolutions_are_simulated),
        cmocka_unit_test(bytes_and_doubles_run_on_the_machine),
        cmocka_unit_test(groups_of_doubles),
        cmocka_unit_test(bound_functions_keep_their_unit),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
