/* SPDX-License-Identifier: BSD-3-Clause
 * Problems that the library computes without a kernel: small products as pairs of doubles, sums in
 * fixed-point accumulators, NaN and infinities by bit masks.  They have the interpreter's bits on
 * every available instruction set. */
#include "contexts.h"
#include "engine_support.h"

#include "guarded.h"
#include "support.h"

#include <math.h>

enum { MOST = 24, MOST_K = 60 };

/* CPU features of each context; NULL: this machine's. */
static const char *const sets[] = { NULL, "", "avx2,fma", "avx2,fma,avx512" };
static limber_context *compiled[COUNT(sets)], *interp;

/* Creates the interpreter's context, and one for each set of CPU features of the list that this CPU
 * has. */
static int make_contexts(void **state)
{
    (void)state;
#ifdef LIMBER_HAVE_LLVM
    for (size_t i = 0; i < COUNT(sets); i++) {
        struct target *t;

        compiled[i] = group_context(.backend = "llvm", .threads = i ? 1 : 2);
        if (!compiled[i])
            break;
        t = &compiled[i]->machine.target;
        if (i > 1 && !strstr(t->features, i == 2 ? "avx2" : "avx512")) {
            compiled[i] = NULL;
            break;
        }
        if (sets[i]) {
            snprintf(t->features, sizeof t->features, "%s", sets[i]);
            t->cpu = 0; /* use these features and not those of the CPU */
        }
    }
#endif
    interp = group_context(.backend = "interp", .threads = 1);
    return interp ? 0 : -1;
}

/* ---- random matrices ------------------------------------------------------------------------- */

/* Contents of a matrix.  Elements have `binades` different exponents around `middle`. bits: nonzero
 * if elements are integers of this many bits. cancels: elements cancel in pairs. zeros: one element
 * in `zeros` is zero.  specials: some elements are infinite or NaN. */
struct kind {
    int binades, middle, bits, cancels, zeros, specials;
};

/* Draws the kind of a product's elements.  specials: some may be infinite or NaN. */
static struct kind draw_kind(struct rng *r, bool specials)
{
    static const int ranges[] = { 1, 8, 40, 300, 2100, 9000 };
    struct kind k = { .binades = ranges[rng_below(r, COUNT(ranges))],
                      .bits = rng_below(r, 3) ? 0 : 1 + rng_below(r, 20),
                      .cancels = rng_below(r, 4) == 0,
                      .zeros = rng_below(r, 3) ? 9 : 2,
                      .specials = specials && rng_below(r, 4) == 0 };

    if (rng_below(r, 4) == 0)
        k.middle = rng_below(r, 2000) - 1000;
    return k;
}

/* Draws an element of this kind. */
static void draw_element(struct rng *r, const struct kind *k, limber_format f, char *to)
{
    double x = 2 * rng_unit(r) - 1;

    if (f.kind == LIMBER_KIND_INT) {
        uint64_t v = rng_next(r) >> rng_below(r, 63);

        memcpy(to, &v, f.size);
        return;
    }
    if (k->bits)
        x = floor(ldexp(x, k->bits));
    x = ldexp(x, rng_below(r, k->binades) - k->binades / 2 + k->middle);
    if (rng_below(r, k->zeros) == 0)
        x = rng_below(r, 2) ? 0 : -0.0;
    if (k->specials && rng_below(r, 40) == 0)
        x = rng_below(r, 3) ? copysign(INFINITY, x) : NAN;
    limber_convert(to, f, &x, named("f64"), 1, LIMBER_ROUND_NEAREST);
    if (f.kind == LIMBER_KIND_DD && isfinite(x)) { /* adds a low part */
        double low = x * 0x1p-54 * rng_unit(r);

        memcpy(to + 8, &low, 8);
    } else if (f.size == 16 && isfinite(x)) {
        memset(to, rng_below(r, 256), 5);
    }
}

/* Fills a matrix.  If the kind cancels, every second element repeats the one before it, negated if
 * `negative`, which is set for one of the two operands. */
static void fill_kind(struct rng *r, const struct kind *k, limber_format f, char *to, int64_t count,
                      bool negative)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(k->cancels && i % 2)) {
            draw_element(r, k, f, to + i * f.size);
            continue;
        }
        memcpy(to + i * f.size, to + (i - 1) * f.size, f.size);
        if (negative && f.kind == LIMBER_KIND_FLOAT)
            to[(i + 1) * f.size - 1] ^= (char)0x80;
    }
}

/* ---- products of many sizes and layouts ------------------------------------------------------ */

/* Compares a small product in all contexts with the interpreter's. */
static void check_one(struct rng *r, const char *const *formats, int count, const char *scheme,
                      int trial)
{
    static char a[MOST * MOST_K * 16], b[MOST * MOST_K * 16], c[MOST * MOST * 16],
        old[MOST * MOST * 16];
    static char want[MOST * MOST * 16];
    limber_format fa = named(formats[rng_below(r, count)]),
                  fb = named(formats[rng_below(r, count)]);
    limber_format fc = named(formats[rng_below(r, count < 5 ? count : 5)]);
    int64_t m = 1 + rng_below(r, MOST), n = 1 + rng_below(r, MOST), k = rng_below(r, MOST_K);
    struct kind ka = draw_kind(r, true), kb = draw_kind(r, true),
                kc = { 100, 0, 0, 0, 9, trial % 6 == 5 };
    int across = rng_below(r, 8), scalars = rng_below(r, 4);
    char alpha[16], beta[16];
    limber_matrix ma = { a, fa, across & 1 ? 1 : k ? k : 1, across & 1 ? m : 1 };
    limber_matrix mb = { b, fb, across & 2 ? 1 : n, across & 2 ? (k ? k : 1) : 1 };
    limber_matrix mc = { want, fc, across & 4 ? 1 : n, across & 4 ? m : 1 };
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_CORRECT,
                                 .scheme = "accumulator" };

    fill_kind(r, &ka, fa, a, m * k, true);
    fill_kind(r, &kb, fb, b, k * n, false);
    fill_kind(r, &kc, fc, old, m * n, false);
    draw_element(r, &kc, fc, alpha);
    draw_element(r, &kc, fc, beta);
    memcpy(want, old, sizeof want);
    assert_int_equal(limber_gemm(interp, &contract, m, n, k, scalars & 1 ? alpha : NULL, ma, mb,
                                 scalars & 2 ? beta : NULL, output_of(mc), NULL),
                     LIMBER_STATUS_OK);
    contract.scheme = scheme;
    mc.data = c;
    for (size_t i = 0; i < COUNT(sets) && compiled[i]; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        memcpy(c, old, sizeof c);
        assert_int_equal(limber_gemm(compiled[i], &contract, m, n, k, scalars & 1 ? alpha : NULL,
                                     ma, mb, scalars & 2 ? beta : NULL, output_of(mc), &report),
                         LIMBER_STATUS_OK);
        assert_string_equal(report.scheme, scheme ? scheme : "pairs");
        assert_same_numbers(fc, want, c, (size_t)(m * n), "%s, trial %d",
                            sets[i] ? sets[i] : "here", trial);
    }
}

/* Random small products by double-double sums (scheme `pairs`) have the interpreter's bits, and
 * compile no kernel. */
static void pairs_round_correctly(void **state)
{
    static const char *const formats[] = { "f64", "f32" };
    struct rng r = { 71 };

    (void)state;
    for (int trial = 0; trial < 1500; trial++)
        check_one(&r, formats, COUNT(formats), NULL, trial);
    for (size_t i = 0; i < COUNT(sets) && compiled[i]; i++) /* no kernel was compiled */
        assert_int_equal(limber_kernels_count(compiled[i]->memory), 0);
}

/* Random small products by the long accumulator (scheme `accumulator`) have the interpreter's bits
 * in many formats. */
static void windows_round_correctly(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128", "dd",  "f16",
                                           "i64", "i32", "tf32", "bf16" };
    struct rng r = { 72 };

    (void)state;
    for (int trial = 0; trial < 500; trial++)
        check_one(&r, formats, COUNT(formats), "accumulator", trial);
}

/* Operands may have every distance between elements and between lines, in memory that ends with
 * the operand.  A distance of eight bytes may also be two FP32 elements. */
static void lines_may_have_any_stride(void **state)
{
    static const char *const formats[] = { "f64", "f32" }, *const schemes[] = { NULL,
                                                                                "accumulator" };
    enum { LINES = 12, LONG = 40 };
    struct rng r = { 75 };

    (void)state;
    for (int trial = 0; trial < 3000; trial++) {
        int64_t size[3] = { 1 + rng_below(&r, LINES), 1 + rng_below(&r, LINES),
                            1 + rng_below(&r, LONG) };
        const limber_contract contract = { .size = sizeof(limber_contract),
                                           .promise = LIMBER_CONTRACT_CORRECT,
                                           .scheme = schemes[trial % 2] };
        struct guarded room[2];
        limber_matrix side[2];
        char c[LINES * LINES * 8], want[LINES * LINES * 8];
        limber_format fc = named(formats[rng_below(&r, 2)]);

        for (int s = 0; s < 2; s++) {
            limber_format f = named(formats[rng_below(&r, 2)]);
            int64_t along = size[2], across = size[s], step = 1 + rng_below(&r, 4);
            int64_t line = along * step + rng_below(&r, 3), count;
            struct kind kind = draw_kind(&r, true);

            /* neighbouring elements of a line are farther apart than lines */
            if (rng_below(&r, 2)) {
                line = step;
                step = across * line + rng_below(&r, 3);
            }
            count = (along - 1) * step + (across - 1) * line + 1;
            room[s] = guarded((size_t)count * f.size, true);
            fill_kind(&r, &kind, f, room[s].data, count, s == 0);
            side[s] = (limber_matrix){ room[s].data, f, s ? step : line, s ? line : step };
        }
        for (size_t i = 0; i <= COUNT(sets); i++) {
            limber_context *ctx = i ? compiled[i - 1] : interp;

            if (!ctx)
                break;
            if (limber_gemm(ctx, &contract, size[0], size[1], size[2], NULL, side[0], side[1], NULL,
                            (limber_output){ i ? c : want, fc, size[1], 1 }, NULL))
                fail_msg("%s", limber_error_text());
            if (i)
                assert_same_numbers(fc, want, c, (size_t)(size[0] * size[1]), "%s, trial %d",
                                    sets[i - 1] ? sets[i - 1] : "here", trial);
        }
        leave_guarded(room[0]);
        leave_guarded(room[1]);
    }
}

/* Products of a matrix and a few vectors, or of two vectors, are correctly rounded.  Lengths are
 * around multiples of the blocks in which the library sums, and numbers of rows around multiples
 * of its blocks of rows.  Layouts vary, and memory ends with the operands. */
static void vectors_round_correctly(void **state)
{
    static const char *const formats[] = { "f64", "f64", "f32" };
    static const int lengths[] = { 9, 70, 530, 1100, 4200, 8300 }, rows[] = { 1, 6, 40, 550 };
    struct rng r = { 77 };

    (void)state;
    for (int trial = 0; trial < 1200; trial++) {
        const int64_t k = 1 + rng_below(&r, lengths[rng_below(&r, COUNT(lengths))]),
                      most = rows[rng_below(&r, k > 100 ? 3 : 4)],
                      m = k > 3000 && most > 6 ? 6 : 1 + rng_below(&r, (int)most),
                      n = rng_below(&r, 4) ? 1 : 2 + rng_below(&r, 5), size[2] = { m, n },
                      to = rng_below(&r, 3) ? 1 : 2;
        const bool turned = rng_below(&r, 2);
        const int scalars = rng_below(&r, 3) ? 0 : rng_below(&r, 4);
        const limber_format fc = named(formats[rng_below(&r, 3)]);
        const struct kind plain = { 100, 0, 0, 0, 9, trial % 6 == 5 };
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT,
                                     .scheme = "accumulator" };
        struct guarded room[2];
        limber_matrix side[2];
        char alpha[8], beta[8], *old = malloc((size_t)(m * n * to * 8)),
                                *c = malloc((size_t)(m * n * to * 8)),
                                *want = malloc((size_t)(m * n * to * 8));

        for (int s = 0; s < 2; s++) {
            const limber_format f = named(formats[rng_below(&r, 3)]);
            int64_t step = rng_below(&r, 3) ? 1 : 1 + rng_below(&r, 4),
                    line = k * step + rng_below(&r, 3), count;
            struct kind kind = draw_kind(&r, true);

            /* neighbouring elements of a line are farther apart than lines */
            if (rng_below(&r, 2)) {
                line = step;
                step = size[s] * line + rng_below(&r, 3);
            }
            count = (k - 1) * step + (size[s] - 1) * line + 1;
            room[s] = guarded((size_t)count * f.size, true);
            fill_kind(&r, &kind, f, room[s].data, count, s == 0);
            side[s] = (limber_matrix){ room[s].data, f, (s == 0) != turned ? line : step,
                                       (s == 0) != turned ? step : line };
        }
        fill_kind(&r, &plain, fc, old, m * n * to, false);
        draw_element(&r, &plain, fc, alpha);
        draw_element(&r, &plain, fc, beta);
        for (size_t i = 0; i <= COUNT(sets); i++) {
            limber_context *ctx = i ? compiled[i - 1] : interp;
            limber_report report = LIMBER_REPORT_INIT;
            const limber_output out = { i ? c : want, fc, turned ? to : n * to,
                                        turned ? n * to : to };

            if (!ctx)
                break;
            contract.scheme = i ? NULL : "accumulator";
            memcpy(i ? c : want, old, (size_t)(m * n * to * fc.size));
            if (limber_gemm(ctx, &contract, turned ? n : m, turned ? m : n, k,
                            scalars & 1 ? alpha : NULL, side[turned], side[!turned],
                            scalars & 2 ? beta : NULL, out, &report))
                fail_msg("%s", limber_error_text());
            /* a product of one multiplication is computed by the code path `direct` */
            if (i && (m > 1 || k > 1))
                assert_string_equal(report.way, "pairs");
            if (i)
                assert_same_numbers(fc, want, c, (size_t)(m * n * to), "%s, trial %d",
                                    sets[i - 1] ? sets[i - 1] : "here", trial);
        }
        leave_guarded(room[0]);
        leave_guarded(room[1]);
        free(old);
        free(c);
        free(want);
    }
}

/* The products of rows with a vector cancel, exactly or except for a small number.  Sums in bins
 * of doubles (accumulators for ranges of exponents) must decide the rounding of all rows, so
 * that none needs the long accumulator. */
static void cancelling_vectors_are_exact(void **state)
{
    enum { ROWS = 6, HALF = 2200 };
    static double a[ROWS * 2 * HALF], b[2 * HALF];
    struct rng r = { 78 };

    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        const int half = 1 + rng_below(&r, HALF), k = 2 * half;
        const bool turned = trial % 2;
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT,
                                     .scheme = "accumulator" };
        double c[ROWS], want[ROWS];

        for (int p = 0; p < half; p++)
            b[p] = b[half + p] = ldexp(rng_unit(&r) - 0.5, rng_below(&r, 12));
        for (int i = 0; i < ROWS; i++)
            for (int p = 0; p < half; p++) {
                double x = ldexp(rng_unit(&r) - 0.5, rng_below(&r, 12));

                a[turned ? p * ROWS + i : i * k + p] = x;
                /* the element differs from the previous one in the last bit, so that the pair
                 * does not cancel */
                if (i % 3 == 1 && p == 0)
                    x = nextafter(x, 9);
                if (i % 3 == 2)
                    x *= 1 + ldexp(rng_unit(&r), -50);
                a[turned ? (half + p) * ROWS + i : i * k + half + p] = -x;
            }
        for (size_t i = 0; i <= COUNT(sets); i++) {
            limber_context *ctx = i ? compiled[i - 1] : interp;
            limber_report report = LIMBER_REPORT_INIT;

            if (!ctx)
                break;
            contract.scheme = i ? NULL : "accumulator";
            assert_int_equal(
                limber_gemm(ctx, &contract, ROWS, 1, k, NULL,
                            (limber_matrix){ a, LIMBER_F64, turned ? 1 : k, turned ? ROWS : 1 },
                            (limber_matrix){ b, LIMBER_F64, 1, 1 }, NULL,
                            (limber_output){ i ? c : want, LIMBER_F64, 1, 1 }, &report),
                LIMBER_STATUS_OK);
            if (i)
                assert_same_numbers(LIMBER_F64, want, c, (size_t)(ROWS), "%s, trial %d",
                                    sets[i - 1] ? sets[i - 1] : "here", trial);
            if (i)
                assert_int_equal(report.recomputed, 0);
        }
    }
}

/* Products whose magnitudes sum to just less than 2^1000, the limit of sums in bins of doubles,
 * are correctly rounded. */
static void vectors_at_the_limit_of_bins(void **state)
{
    static const int lengths[] = { 2, 70, 600 };
    enum { ROWS = 5, LONG = 600 };
    static double a[ROWS * LONG], b[LONG];
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };

    (void)state;
    for (int trial = 0; trial < 4 * (int)COUNT(lengths); trial++) {
        const int k = lengths[trial / 4], m = trial & 1 ? ROWS : 1;
        const bool turned = trial & 2;
        double c[ROWS];

        memset(a, 0, sizeof a);
        for (int p = 0; p < k; p++)
            b[p] = 0x1p499;
        for (int i = 0; i < m; i++) {
            a[turned ? i : i * k] = 0x1p500;
            a[turned ? m + i : i * k + 1] = -0x1p500 * (1 - 0x1p-51);
        }
        for (size_t s = 0; s < COUNT(sets) && compiled[s]; s++) {
            assert_int_equal(
                limber_gemm(compiled[s], &correct, m, 1, k, NULL,
                            (limber_matrix){ a, LIMBER_F64, turned ? 1 : k, turned ? m : 1 },
                            (limber_matrix){ b, LIMBER_F64, 1, 1 }, NULL,
                            (limber_output){ c, LIMBER_F64, 1, 1 }, NULL),
                LIMBER_STATUS_OK);
            for (int i = 0; i < m; i++)
                assert_true(c[i] == 0x1p948);
        }
    }
}

/* Long sums, over several parts of k and blocks of C, are correctly rounded: with few binades,
 * with the largest sums (all products equal), with sums that cancel, and with lines whose
 * magnitude is far from 1.  Double-double sums decide the rounding of most of them. */
static void long_sums_round_correctly(void **state)
{
    enum { M = 37, N = 41, LONG = 2600 };
    static double a[M * LONG], b[LONG * N], c[M * N], want[M * N];
    limber_format f64 = named("f64");
    struct rng r = { 74 };

    (void)state;
    for (int trial = 0; trial < 8; trial++) {
        const int64_t k = trial < 4 ? LONG : 1 + rng_below(&r, LONG);
        const double scalars[2] = { 1.5, -0.75 };
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT,
                                     .scheme = "accumulator" };

        for (int64_t i = 0; i < M * k; i++)
            a[i] = trial == 0 ? 2 - 0x1p-52 : (2 * rng_unit(&r) - 1) * (trial == 1 ? 0x1p-700 : 1);
        for (int64_t i = 0; i < k * N; i++)
            b[i] = trial == 0 ? 2 - 0x1p-52 : (2 * rng_unit(&r) - 1) * (trial == 1 ? 0x1p600 : 1);
        for (int64_t i = 0; i < M * k && trial == 2; i++) /* every second product cancels */
            a[i] = i % k % 2 ? -a[i - 1] : a[i];
        for (int64_t p = 1; p < k && trial == 2; p += 2)
            memcpy(b + p * N, b + (p - 1) * N, sizeof(double) * N);
        for (size_t i = 0; i < COUNT(sets) + 1; i++) {
            limber_context *ctx = i ? compiled[i - 1] : interp;
            double *to = i ? c : want;

            if (!ctx)
                break;
            for (int e = 0; e < M * N; e++)
                to[e] = e % 19;
            if (limber_gemm(ctx, &contract, M, N, k, trial % 2 ? &scalars[0] : NULL,
                            (limber_matrix){ a, f64, k, 1 }, (limber_matrix){ b, f64, N, 1 },
                            trial % 2 ? &scalars[1] : NULL, (limber_output){ to, f64, N, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            if (i)
                assert_same_numbers(f64, want, c, (size_t)(M * N), "%s, trial %d",
                                    sets[i - 1] ? sets[i - 1] : "here", trial);
        }
    }
}

/* ---- NaN and infinities ---------------------------------------------------------------------- */

/* Multiplies each class of values (NaN, infinities, zeros, numbers) by all others.  Products of
 * doubles give the expected results. */
static void nan_and_infinities_are_those_of_doubles(void **state)
{
    static const double value[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN };
    static const char *const schemes[] = { NULL, "accumulator", "ozaki2", "ozaki1-i8", "wider" };
    enum { ALL = COUNT(value) * COUNT(value) };
    static double a[ALL * 70], b[70 * ALL], c[ALL * ALL];
    static float narrow_a[ALL * 70], narrow_b[70 * ALL];
    limber_format f64 = named("f64"), f32 = named("f32");

    (void)state;
    for (int k = 2; k <= 70; k += 68) /* k = 70 takes two words of bit masks */
        for (size_t s = 0; s < COUNT(schemes); s++)
            for (size_t set = 0; set < COUNT(sets) && compiled[set]; set++) {
                const limber_contract contract = { .size = sizeof(limber_contract),
                                                   .promise = LIMBER_CONTRACT_CORRECT,
                                                   .scheme = schemes[s] };

                memset(a, 0, sizeof a);
                memset(b, 0, sizeof b);
                for (int i = 0; i < ALL; i++) {
                    a[i * k] = b[i] = value[i / COUNT(value)];
                    a[i * k + k - 1] = b[(k - 1) * ALL + i] = value[i % COUNT(value)];
                }
                if (set && s > 1) /* these schemes use kernels */
                    continue;
                for (int i = 0; i < ALL * 70; i++) {
                    narrow_a[i] = (float)a[i];
                    narrow_b[i] = (float)b[i];
                }
                for (int j = 0; j < ALL; j += 9) { /* few columns, so that the product is small */
                    int n = ALL - j < 9 ? ALL - j : 9;
                    bool narrow = s == COUNT(schemes) - 1;
                    float results[ALL * 9];

                    if (limber_gemm(compiled[set], &contract, ALL, n, k, NULL,
                                    narrow ? (limber_matrix){ narrow_a, f32, k, 1 } :
                                             (limber_matrix){ a, f64, k, 1 },
                                    narrow ? (limber_matrix){ narrow_b + j, f32, ALL, 1 } :
                                             (limber_matrix){ b + j, f64, ALL, 1 },
                                    NULL,
                                    narrow ? (limber_output){ results, f32, n, 1 } :
                                             (limber_output){ c + j, f64, ALL, 1 },
                                    NULL))
                        fail_msg("%s", limber_error_text());
                    for (int i = 0; narrow && i < ALL * n; i++)
                        c[i / n * ALL + j + i % n] = results[i];
                }
                for (int i = 0; i < ALL * ALL; i++) {
                    const double *x = a + i / ALL * k, *y = b + i % ALL;
                    double want = x[0] * y[0] + x[k - 1] * y[(k - 1) * ALL];

                    if (isnan(want) ? !isnan(c[i]) : c[i] != want)
                        fail_msg("%s, k = %d: %g %g times %g %g gives %g",
                                 schemes[s] ? schemes[s] : "pairs", k, x[0], x[k - 1], y[0],
                                 y[(k - 1) * ALL], c[i]);
                }
            }
}

/* ---- which calls are small ------------------------------------------------------------------- */

/* A batch of 300 small products in three threads is computed by double-double sums (scheme pairs)
 * and has the interpreter's bits. */
static void batches_are_served_too(void **state)
{
    enum { COUNT_ = 300, N = 9 };
    static double a[COUNT_ * N * N], b[COUNT_ * N * N], c[COUNT_ * N * N], want[COUNT_ * N * N];
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = COUNT_, .a = N * N, .b = N * N, .c = N * N
    };
    limber_format f64 = named("f64");
    limber_context *threads;
    limber_report report = LIMBER_REPORT_INIT;
    struct rng r = { 73 };

    (void)state;
    if (!compiled[0])
        skip_because("no compiled backend");
    assert_int_equal(limber_create(&threads, &(limber_config){ .size = sizeof(limber_config),
                                                               .backend = "llvm",
                                                               .cache_dir = "",
                                                               .threads = 3 }),
                     LIMBER_STATUS_OK);
    fill(&r, DATA_spread, f64, a, COUNT_ * N * N);
    fill(&r, DATA_spread, f64, b, COUNT_ * N * N);
    for (int which = 0; which < 2; which++)
        assert_int_equal(
            gemm_batch(which ? interp : threads, &correct, NULL, &batch, N, N, N, NULL,
                       (limber_matrix){ a, f64, N, 1 }, (limber_matrix){ b, f64, N, 1 }, NULL,
                       (limber_output){ which ? want : c, f64, N, 1 }, which ? NULL : &report),
            LIMBER_STATUS_OK);
    assert_string_equal(report.scheme, "pairs");
    assert_memory_equal(c, want, sizeof c);
    limber_destroy(threads);
}

/* Only the last term tells whether a sum is above or below the midpoint of two doubles.  The
 * term is at every distance from the largest product, or is the low bits of products whose high
 * bits cancel. */
static void low_terms_decide_ties(void **state)
{
    static const char *const schemes[] = { NULL, "accumulator" };
    enum { TERMS = 8, LAST = 700 };
    limber_format f64 = named("f64");
    double x = 1 + 0x1p-52;

    (void)state;
    for (int distance = 54; distance < LAST; distance += distance < 340 ? 1 : 37)
        for (int way = 0; way < 4; way++) {
            double sign = way & 1 ? -1 : 1, half = ldexp(1, -distance / 2), c;
            double a[TERMS] = { 1, 0x1p-53, sign * half },
                   b[TERMS] = { 1, 1, ldexp(1, distance / 2 - distance) };

            /* the sum of these three is the lowest bit of (1 + 2^-52)^2, which has 105 bits */
            if (way & 2) {
                a[2] = sign * half * x, b[2] *= x;
                a[3] = -sign * half, b[3] = ldexp(1, distance / 2 - distance);
                a[4] = -sign * half * 0x1p-51, b[4] = b[3];
            }
            for (size_t s = 0; s < COUNT(schemes); s++)
                for (size_t i = 0; i < COUNT(sets) && compiled[i]; i++) {
                    const limber_contract contract = { .size = sizeof(limber_contract),
                                                       .promise = LIMBER_CONTRACT_CORRECT,
                                                       .scheme = schemes[s] };

                    assert_int_equal(limber_gemm(compiled[i], &contract, 1, 1, TERMS, NULL,
                                                 (limber_matrix){ a, f64, TERMS, 1 },
                                                 (limber_matrix){ b, f64, 1, 1 }, NULL,
                                                 (limber_output){ &c, f64, 1, 1 }, NULL),
                                     LIMBER_STATUS_OK);
                    if (c != (way & 1 ? 1 : 1 + 0x1p-52))
                        fail_msg("%s, 2^-%d, way %d: %a", schemes[s] ? schemes[s] : "pairs",
                                 distance, way, c);
                }
        }
}

#if defined(__SIZEOF_FLOAT128__)
/* Sums of random terms, and of two more terms that bring the sum near the midpoint of two doubles,
 * are correctly rounded.  Some sums are so near the midpoint that double-double arithmetic, or a
 * sum in bins of doubles, cannot decide the rounding. */
static void sums_beside_midpoints(void **state)
{
    enum { MOST_TERMS = 60000, TRIALS = 900 };
    static double a[MOST_TERMS], b[MOST_TERMS];
    limber_format f64 = named("f64");
    struct rng r = { 74 };

    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int k = trial % 300 == 299 ? MOST_TERMS : 3 + rng_below(&r, 250);
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT,
                                     .scheme = "accumulator" };
        __float128 sum = 0, middle;
        double want, c;

        for (int p = 0; p < k - 2; p++) {
            a[p] = 1 + rng_unit(&r);
            b[p] = (1 + rng_unit(&r)) * (trial % 3 && k < MOST_TERMS && rng_below(&r, 2) ? -1 : 1);
            sum += (__float128)a[p] * b[p];
        }
        want = (double)(sum / 2) + 1;
        middle = want + (__float128)ldexp(1, ilogb(want) - 53);
        a[k - 2] = a[k - 1] = 1;
        b[k - 2] = (double)(middle - sum);
        b[k - 1] = (double)(middle - sum - b[k - 2]);
        assert_int_equal(limber_gemm(interp, &contract, 1, 1, k, NULL,
                                     (limber_matrix){ a, f64, k, 1 },
                                     (limber_matrix){ b, f64, 1, 1 }, NULL,
                                     (limber_output){ &want, f64, 1, 1 }, NULL),
                         LIMBER_STATUS_OK);
        for (int way = 0; way < 2; way++)
            for (size_t i = 0; i < COUNT(sets) && compiled[i]; i++) {
                contract.scheme = way && k <= 256 ? "pairs" : "accumulator";
                assert_int_equal(limber_gemm(compiled[i], &contract, 1, 1, k, NULL,
                                             (limber_matrix){ a, f64, k, 1 },
                                             (limber_matrix){ b, f64, 1, 1 }, NULL,
                                             (limber_output){ &c, f64, 1, 1 }, NULL),
                                 LIMBER_STATUS_OK);
                if (c != want)
                    fail_msg("%s, trial %d, k = %d: %a, not %a", contract.scheme, trial, k, c,
                             want);
            }
    }
}
#endif

/* Sums that are no integers must be refused for an integer result.  Sums of fractions may be
 * integers. */
static void fractions_are_no_integers(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128" };
    const limber_contract exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_EXACT };
    limber_format i64 = named("i64"), f64 = named("f64");

    (void)state;
    for (size_t f = 0; f < COUNT(formats); f++)
        for (int whole = 0; whole < 2; whole++)
            for (int k = 0; k < 2; k++) {
                double x[2] = { 2.5, whole ? 1.5 : 1.25 }, y[2] = { 3, 1 };
                limber_format format = named(formats[f]);
                char a[32], b[32];
                int64_t c = 77;
                limber_context *ctx = k ? interp : compiled[0];

                if (!ctx)
                    continue;
                limber_convert(a, format, x, f64, 2, LIMBER_ROUND_NEAREST);
                limber_convert(b, format, y, f64, 2, LIMBER_ROUND_NEAREST);
                assert_int_equal(limber_gemm(ctx, &exact, 1, 1, 2, NULL,
                                             (limber_matrix){ a, format, 2, 1 },
                                             (limber_matrix){ b, format, 1, 1 }, NULL,
                                             (limber_output){ &c, i64, 1, 1 }, NULL),
                                 whole ? LIMBER_STATUS_OK : LIMBER_STATUS_RANGE);
                assert_int_equal(c, whole ? 9 : 77);
            }
}

/* Sums of so many terms that the first column of the long accumulator, a 64-bit integer, would
 * overflow.  Needs 4 GB, so it runs only on request. */
static void very_long_sums_are_exact(void **state)
{
    enum { K = 9000000 };
    const limber_contract exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_CORRECT,
                                    .scheme = "accumulator" };
    limber_format f64 = named("f64");
    double *x, c = 0;

    (void)state;
    if (!is_long() || !compiled[0])
        skip_because("LIMBER_TEST_LONG is not set");
    x = malloc(K * sizeof *x);
    for (int i = 0; i < K; i++)
        x[i] = 2 - 0x1p-10;
    for (int sign = 0; sign < 2; sign++) {
        double want = (sign ? -1 : 1) * (2 - 0x1p-10) * (2 - 0x1p-10) * K; /* exact: 21 + 24 bits */

        for (int i = 0; i < K && sign; i++)
            x[i] = i % 2 ? 2 - 0x1p-10 : 0x1p-10 - 2;
        assert_int_equal(limber_gemm(compiled[0], &exact, 1, 1, sign ? K / 2 : K, NULL,
                                     (limber_matrix){ x, f64, 2 * K, sign ? 2 : 1 },
                                     (limber_matrix){ x + sign, f64, sign ? 2 : 1, 1 }, NULL,
                                     (limber_output){ &c, f64, 1, 1 }, NULL),
                         LIMBER_STATUS_OK);
        assert_true(c == (sign ? want / 2 : want));
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_round_correctly),
        cmocka_unit_test(lines_may_have_any_stride),
        cmocka_unit_test(vectors_round_correctly),
        cmocka_unit_test(cancelling_vectors_are_exact),
        cmocka_unit_test(vectors_at_the_limit_of_bins),
        cmocka_unit_test(windows_round_correctly),
        cmocka_unit_test(long_sums_round_correctly),
        cmocka_unit_test(nan_and_infinities_are_those_of_doubles),
        cmocka_unit_test(batches_are_served_too),
        cmocka_unit_test(low_terms_decide_ties),
#if defined(__SIZEOF_FLOAT128__)
        cmocka_unit_test(sums_beside_midpoints),
#endif
        cmocka_unit_test(fractions_are_no_integers),
        cmocka_unit_test(very_long_sums_are_exact),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
