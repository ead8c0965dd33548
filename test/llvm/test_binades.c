/* SPDX-License-Identifier: BSD-3-Clause
 * Sweeps over all binades (powers of two) of all formats, for operands and results, including both
 * ends of the range: subnormal numbers, the smallest and the largest normal ones, overflow.  Each
 * scheme runs with each kind of alpha and beta on instruction sets that run here, and must have the
 * interpreter's bits.  The interpreter's results must be the exact values, rounded once.
 *
 * A row of A has numbers of one binade, a column of B of one or a few.  So one call has hundreds of
 * binades, and few kernels are made.  LIMBER_TEST_BINADES=N repeats the test N times, with other
 * numbers, instruction sets and scalars. */
#include "engine_support.h"
#include "gpus.h"
#include "support.h"
#include "targets.h"

#include "ir/poison.h"
#include "ir/num/prim.h"

#include <math.h>

extern const struct backend limber_backend_llvm;

/* EDGE: all exponents this near an end of the range are tested.  STEP: about one in STEP of the
 * others. */
enum { K = 5, COLUMNS = 13, EDGE = 10, STEP = 27 };

/* ---- numbers of a given binade --------------------------------------------------------------- */

static bool is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

/* Returns the least exponent e of a nonzero number x of f, where 2^e <= |x| < 2^(e+1). */
static int lowest_exponent(limber_format f)
{
    return limber_format_emin(f);
}

/* Returns the largest exponent that is drawn for f.  For integers it is one less than the format's,
 * which only -2^(n-1) and unsigned numbers have. */
static int highest_exponent(limber_format f)
{
    return is_integer(f) ? limber_format_emax(f) - 1 : limber_format_emax(f);
}

/* Returns the exponent nearest to e among those that are drawn for f. */
static int clamp_exponent(limber_format f, int e)
{
    return e < lowest_exponent(f)  ? lowest_exponent(f) :
           e > highest_exponent(f) ? highest_exponent(f) :
                                     e;
}

enum look { FULL, ONES, POWER, SHORT, LOOKS };

/* Draws a number with exponent e and stores it in format f. */
static void set_number(struct rng *r, limber_format f, int e, enum look look, void *to)
{
    struct limber_num x = {
        .hi = rng_next(r), .lo = rng_next(r), .kind = NUM_finite, .sign = (uint8_t)rng_below(r, 2)
    };

    if (look == ONES)
        x.hi = x.lo = UINT64_MAX;
    if (look == POWER || look == SHORT)
        x.lo = 0;
    if (look == POWER)
        x.hi = 0;
    if (look == SHORT)
        x.hi &= (uint64_t)0x7f << 56;
    x.hi |= (uint64_t)1 << 63;
    x.exp = e - 127;
    if (f.kind == LIMBER_KIND_DD)
        limber_num_encode_dd(to, &x, 0, LIMBER_ROUND_ZERO);
    else /* toward zero, so that the number stays in its binade */
        limber_num_encode(to, f, &x, 0, LIMBER_ROUND_ZERO);
}

/* Negates a number in place; of a double-double both parts. */
static void negate(limber_format f, char *x)
{
    uint64_t v = 0;

    if (is_integer(f)) {
        memcpy(&v, x, f.size);
        v = 0 - v;
        memcpy(x, &v, f.size);
        return;
    }
    x[f.kind == LIMBER_KIND_DD ? 7 : f.size - 1] ^= (char)0x80;
    if (f.kind == LIMBER_KIND_DD)
        x[15] ^= (char)0x80;
}

/* ---- sweeps: products of rows and columns of given binades ----------------------------------- */

/* The formats of A, B and C. */
static const struct pair {
    const char *a, *b, *c;
} pairs[] = {
    { "f64", "f64", "f64" },
    { "f64", "f64", "dd" },
    { "f64", "f64", "f128" },
    { "f64", "f64", "f32" },
    { "f32", "f32", "f32" },
    { "f32", "f32", "f64" },
    { "f32", "f64", "dd" },
    { "f128", "f128", "f128" },
    { "f128", "f128", "f64" },
    { "f128", "f64", "dd" },
    { "dd", "dd", "dd" },
    { "dd", "dd", "f64" },
    { "dd", "f128", "f128" },
    { "f16", "f16", "f16" },
    { "f16", "f16", "f32" },
    { "bf16", "bf16", "bf16" },
    { "bf16", "f32", "f32" },
    { "tf32", "tf32", "f32" },
    { "tf32", "tf32", "tf32" },
    { "(1,8,5)", "(1,8,5)", "f32" },
    { "(1,5,2)", "(1,8,5)", "(1,8,5)" },
    { "(1,11,20)", "f64", "f64" },
    { "(1,5,7,15,2,4,1)", "(1,5,7,15,2,4,1)", "f32" },
    { "e4m3", "e4m3", "f32" },
    { "e4m3", "e4m3", "e4m3" },
    { "e5m2", "e5m2", "e5m2" },
    { "e5m2", "e3m2", "f16" },
    { "i32", "i32", "i64" },
    { "i64", "i64", "i64" },
    { "i16", "i16", "f32" },
    { "i64", "i64", "f64" },
};

/* The requested schemes and their contracts. */
static const struct request {
    const char *scheme;
    limber_promise promise;
} requests[] = {
    { "ozaki2", LIMBER_CONTRACT_CORRECT },      { "ozaki1-i8", LIMBER_CONTRACT_CORRECT },
    { "ozaki1-f64", LIMBER_CONTRACT_CORRECT },  { "ozaki1-f16", LIMBER_CONTRACT_CORRECT },
    { "accumulator", LIMBER_CONTRACT_CORRECT }, { "native", LIMBER_CONTRACT_NATIVE },
    { "integer", LIMBER_CONTRACT_NATIVE },      { "fp32-f", LIMBER_CONTRACT_FAST },
    { "wider", LIMBER_CONTRACT_CORRECT },
};

/* Which scalars are passed: neither, alpha, beta, both, or an alpha far from 1. */
enum { PLAIN, ALPHA, BETA, BOTH, FAR, SCALARS };

/* A product of rows and columns of given exponents. */
struct sweep {
    limber_format fa, fb, fc;
    struct request request;
    int scalars, most, m, k; /* most: largest number of rows m; 0 if there is no limit */
    int *row; /* [row of A], [column of B]: exponent of its numbers */
    int column[COLUMNS];
    char *a, *b, *c0, alpha[16], beta[16];
};

/* Returns how often each test is repeated with other numbers. */
static int round_count(void)
{
    const char *s = getenv("LIMBER_TEST_BINADES");

    return s && atoi(s) > 0 ? atoi(s) : 1;
}

/* Chooses the exponent of each row: all exponents near both ends of the range, and about one in
 * `step` between.  Columns have consecutive exponents, so that results have nearly all
 * exponents. */
static void choose_rows(struct sweep *s, struct rng *r)
{
    int low = lowest_exponent(s->fa), high = highest_exponent(s->fa), span = high - low,
        step = span < 64   ? 1 :
               span < 4500 ? STEP :
                             5 * STEP;
    int e = low;

    s->row = malloc((size_t)(span + 2) * LOOKS * sizeof *s->row);
    assert_non_null(s->row);
    s->m = 0;
    for (; e <= high; e++) {
        bool edge = e < low + EDGE || e > high - EDGE;

        for (int i = 0; edge && i < LOOKS; i++)
            s->row[s->m++] = e;
        if (!edge && ((e - low) % step == 0 || (step > 1 && abs(e - (low + high) / 2) < 4)))
            s->row[s->m++] = clamp_exponent(s->fa, e + rng_below(r, step));
    }
    for (int i = 0; s->most && s->m > s->most && i < s->most; i++)
        s->row[i] = s->row[(int64_t)i * (s->m - 1) / (s->most - 1)];
    s->m = s->most && s->m > s->most ? s->most : s->m;
}

/* Chooses the exponent of each column: 0, 1 and so on, and for the last four columns the lowest,
 * one near it, the highest, and minus half of the highest. */
static void choose_columns(struct sweep *s, struct rng *r)
{
    int half = highest_exponent(s->fb) / 2;
    const int more[] = { lowest_exponent(s->fb), lowest_exponent(s->fb) + rng_below(r, EDGE),
                         highest_exponent(s->fb), -half + rng_below(r, 9) };

    for (int j = 0; j < COLUMNS; j++)
        s->column[j] = clamp_exponent(s->fb, j < COLUMNS - 4 ? j : more[j - (COLUMNS - 4)]);
}

/* Makes A, B and C.  A sum has terms of one size, or a single term, or terms that cancel to a
 * small number or to zero. */
static void make_operands(struct sweep *s, struct rng *r)
{
    size_t sa = s->fa.size, sb = s->fb.size, sc = s->fc.size;

    choose_rows(s, r);
    choose_columns(s, r);
    s->k = K;
    s->a = calloc((size_t)(s->m * s->k) + 1, sa);
    s->b = calloc((size_t)(COLUMNS * s->k), sb);
    s->c0 = calloc((size_t)(s->m * COLUMNS) + 1, sc);
    assert_true(s->a && s->b && s->c0);
    for (int i = 0; i < s->m; i++) {
        char *a = s->a + (size_t)(i * s->k) * sa;

        for (int p = 0; p < s->k; p++)
            set_number(r, s->fa, s->row[i], (enum look)(i % LOOKS), a + (size_t)p * sa);
        /* equal to the first term, or different in one bit, so that sums of both cancel */
        if (i % 3 == 1) {
            memcpy(a + sa, a, sa);
            if (rng_below(r, 3) && s->fa.kind != LIMBER_KIND_DD && !s->fa.carried)
                a[sa + (size_t)rng_below(r, (int)(sa + 1) / 2)] ^= 1;
        }
        if (i % 4 == 2)
            memset(a, 0, sa);
    }
    for (int j = 0; j < COLUMNS; j++) {
        enum look look = (enum look)(j % LOOKS);
        char *b = s->b + (size_t)(j * s->k) * sb;

        for (int p = 0; p < (j % 3 == 2 ? 1 : s->k); p++)
            set_number(r, s->fb, s->column[j], look, b + (size_t)p * sb);
        if (j == COLUMNS - 2 &&
            /* the column with the highest exponent also gets the lowest one, so that the scheme
             * `accumulator` needs its full width */
            strcmp(s->request.scheme, "accumulator") == 0)
            set_number(r, s->fb, lowest_exponent(s->fb), look, b + sb);
        if (j % 3 == 1) {
            memset(b, 0, (size_t)s->k * sb);
            set_number(r, s->fb, s->column[j], look, b);
            memcpy(b + sb, b, sb);
            negate(s->fb, b + sb);
        }
    }
    for (int i = 0; i < s->m; i++)
        for (int j = 0; j < COLUMNS; j++)
            set_number(r, s->fc,
                       clamp_exponent(s->fc, s->row[i] + s->column[j] - 60 + rng_below(r, 80)),
                       (enum look)rng_below(r, LOOKS), s->c0 + (size_t)(i * COLUMNS + j) * sc);
}

/* Draws alpha and beta near 1.  FAR: alpha has half the exponent of the least or of the greatest
 * number. */
static void make_scalars(struct sweep *s, struct rng *r)
{
    limber_format f = is_integer(s->fc) ? named("i64") : s->fc;
    int far =
        s->scalars == FAR ? (rng_below(r, 2) ? lowest_exponent(f) : highest_exponent(f)) / 2 : 0;

    set_number(r, f, clamp_exponent(f, is_integer(f) ? 2 : far), FULL, s->alpha);
    set_number(r, f, clamp_exponent(f, is_integer(f) ? 2 : 0), FULL, s->beta);
}

/* Returns alpha's address if the sweep passes alpha, else NULL.  beta_of does this for beta. */
static const void *alpha_of(const struct sweep *s)
{
    return s->scalars == PLAIN || s->scalars == BETA ? NULL : s->alpha;
}

static const void *beta_of(const struct sweep *s)
{
    return s->scalars == BETA || s->scalars == BOTH ? s->beta : NULL;
}

static void free_sweep(struct sweep *s)
{
    free(s->row);
    free(s->a);
    free(s->b);
    free(s->c0);
}

static size_t result_bytes(const struct sweep *s)
{
    return (size_t)(s->m * COLUMNS) * s->fc.size;
}

/* Computes the sweep's product in a context.  Before the call C holds c0 if beta is passed,
 * otherwise poison. */
static limber_status multiply_sweep(limber_context *ctx, const struct sweep *s, char *c,
                                    limber_report *report)
{
    const limber_contract contract = {
        .size = sizeof(limber_contract),
        /* integers are computed modulo 2^n, so that any value may be drawn */
        .promise = is_integer(s->fc) ? LIMBER_CONTRACT_NATIVE : s->request.promise,
        .scheme = s->request.scheme,
    };

    if (beta_of(s))
        memcpy(c, s->c0, result_bytes(s));
    else
        limber_poison_fill(c, result_bytes(s));
    return limber_gemm(ctx, &contract, s->m, COLUMNS, s->k, alpha_of(s),
                       (limber_matrix){ s->a, s->fa, s->k, 1 },
                       (limber_matrix){ s->b, s->fb, 1, s->k }, beta_of(s),
                       (limber_output){ c, s->fc, COLUMNS, 1 }, report);
}

/* Prints element `at` of a result in hexadecimal, with its operands' exponents.  want: the expected
 * result, or NULL. */
static void print_element(const struct sweep *s, const char *where, int at, const char *got,
                          const char *want)
{
    char name[3][40];
    const unsigned char *x[2] = { (const unsigned char *)got, (const unsigned char *)want };

    print_message("%s, %s: %s x %s to %s, scalars %d, row of 2^%d, column %d of 2^%d:", where,
                  s->request.scheme, limber_format_name(s->fa, name[0], 40),
                  limber_format_name(s->fb, name[1], 40), limber_format_name(s->fc, name[2], 40),
                  s->scalars, s->row[at / COLUMNS], at % COLUMNS, s->column[at % COLUMNS]);
    for (int w = 0; w < (want ? 2 : 1); w++) {
        print_message(w ? ", not " : " ");
        for (int b = s->fc.size; b-- > 0;)
            print_message("%02x", x[w][at * s->fc.size + b]);
    }
    print_message("\n");
}

/* Compares results; any two NaN are equal. */
static void compare(const struct sweep *s, const char *where, const char *got, const char *want)
{
    size_t size = s->fc.size;

    for (int i = 0; i < s->m * COLUMNS; i++) {
        const char *x = got + (size_t)i * size, *y = want + (size_t)i * size;

        if (!same_number(s->fc, x, y)) {
            print_element(s, where, i, got, want);
            fail();
        }
    }
}

/* Compares some elements of the interpreter's result with alpha A B + beta C, computed exactly and
 * rounded once.  Returns their number. */
static long check_values(const struct sweep *s, const char *c, struct rng *r)
{
    mpfr_t sum, size, x, y;
    long checked = 0;

    if (s->request.promise != LIMBER_CONTRACT_CORRECT || is_integer(s->fc))
        return 0;
    mpfr_inits2(REF_BITS, sum, size, x, y, (mpfr_ptr)0);
    for (int i = 0; i < s->m; i++) {
        int j = rng_below(r, COLUMNS);
        int at = i * COLUMNS + j;

        if (rng_below(r, 7))
            continue;
        ref_dot(sum, size, s->fa, s->a + (size_t)(i * s->k) * s->fa.size, 1, s->fb,
                s->b + (size_t)(j * s->k) * s->fb.size, 1, s->k);
        if (alpha_of(s)) {
            ref_load(x, s->fc, s->alpha);
            mpfr_mul(sum, sum, x, MPFR_RNDN);
        }
        if (beta_of(s)) {
            ref_load(x, s->fc, s->beta);
            ref_load(y, s->fc, s->c0 + (size_t)at * s->fc.size);
            mpfr_mul(x, x, y, MPFR_RNDN);
            mpfr_add(sum, sum, x, MPFR_RNDN);
        }
        if (!mpfr_zero_p(sum) && !ref_rounds_to(sum, s->fc, c + (size_t)at * s->fc.size)) {
            print_element(s, "the interpreter against MPFR", at, c, NULL);
            fail();
        }
        checked++;
    }
    mpfr_clears(sum, size, x, y, (mpfr_ptr)0);
    return checked;
}

/* ---- contexts of all instruction sets -------------------------------------------------------- */

static const char *target_text;

static bool probe_described(struct target *t, struct diag *d)
{
    return limber_target_parse(t, target_text, d);
}

enum { MOST = 8 };
/* A context for each instruction set. */
static struct {
    limber_context *ctx;
    const char *name;
} sets[MOST];
static int set_count;
static limber_context *interp;

/* Opens a context for each machine of the list whose instructions this CPU has. */
static void open_sets(void)
{
    const limber_config plain = { .size = sizeof(limber_config),
                                  .cache_dir = "",
                                  .dump_dir = "",
                                  .threads = 1,
                                  .partition = LIMBER_PARTITION_OFF };
    static struct backend played;
    static const struct backend *const list[] = { &played, NULL };
    struct target here;
    struct diag d = { 0 };

    if (!limber_backend_llvm.probe(&here, &d))
        return;
    played = limber_backend_llvm;
    played.probe = probe_described;
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (!strstr(here.features, targets[i].needs) || targets[i].emulated)
            continue;
        target_text = targets[i].text;
        if (!limber_context_make(&sets[set_count].ctx, &plain, list, &d))
            fail_msg("%s", d.text);
        sets[set_count++].name = targets[i].needs;
    }
}

static int open_contexts(void **state)
{
    const limber_config alone = { .size = sizeof(limber_config),
                                  .backend = "interp",
                                  .cache_dir = "",
                                  .dump_dir = "",
                                  .threads = 1 };

    (void)state;
    if (limber_create(&interp, &alone))
        return -1;
    open_sets();
    return 0;
}

static int close_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < set_count; i++)
        limber_destroy(sets[i].ctx);
    limber_destroy(interp);
    return 0;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Sweeps that were compared, values that were checked, sweeps that no scheme supports, and how
 * many sweeps of each request the interpreter computed. */
struct tally {
    long ran, checked, refused;
    size_t served[COUNT(requests)];
};

/* Computes the sweep by the interpreter and, if a scheme supports the request, on one
 * instruction set, and compares all bits. */
static void run_sweep(struct sweep *s, int request, int set, struct rng *r, struct tally *n)
{
    bool compiles = set_count;
    char *want, *got;
    limber_status status;

    make_operands(s, r);
    make_scalars(s, r);
    want = poisoned(result_bytes(s));
    got = poisoned(result_bytes(s));
    status = multiply_sweep(interp, s, want, NULL);
    if (!status)
        n->checked += check_values(s, want, r);
    if (!status)
        compiles = compiles && is_taken(n->served[request]++, 2);
    if (!status && compiles)
        status = multiply_sweep(sets[set].ctx, s, got, NULL);
    if (status == LIMBER_STATUS_NO_SCHEME) {
        n->refused++;
    } else if (status) {
        fail_msg("%s: %s", s->request.scheme, limber_error_text());
    } else if (compiles) {
        compare(s, sets[set].name, got, want);
        n->ran++;
    }
    free(want);
    free(got);
    free_sweep(s);
}

/* Each scheme and pair of formats has the interpreter's bits on one instruction set with one kind
 * of scalars; the next round tests another combination. */
static void every_set_has_the_interpreter_s_bits(void **state)
{
    struct tally n = { 0 };

    (void)state;
    for (int round = 0; round < round_count(); round++)
        for (int i = 0; i < (int)(COUNT(pairs) * COUNT(requests)); i += SANITIZED ? 5 : 1) {
            const struct pair *p = &pairs[i / (int)COUNT(requests)];
            struct rng r = { 100 + (uint64_t)i + 100000 * (uint64_t)round };
            struct sweep s = { named(p->a), named(p->b), named(p->c),
                               requests[i % (int)COUNT(requests)],
                               (i / (int)COUNT(requests) + i + round) % SCALARS };

            run_sweep(&s, i % (int)COUNT(requests), set_count ? (i + round) % set_count : 0, &r,
                      &n);
        }
    print_message("%ld products on %d instruction sets, %ld values by MPFR, %ld refused\n", n.ran,
                  set_count, n.checked, n.refused);
    assert_true(n.checked > (SANITIZED ? 100 : 1000) &&
                (n.ran > (SANITIZED ? 6 : 60) || !set_count));
}

/* The first computation, with few bits, does not determine the rounding of elements whose sums
 * cancel by few or by many bits.  They must be recomputed, in various binades of the result.  The
 * planner's sample of the data misses the columns that cancel. */
static void uncertain_elements_are_recomputed_in_every_binade(void **state)
{
    /* matrices of this size are so large that each number of bits has a class (and a plan) of
     * its own */
    enum { N = 412, CANCEL = 3 };
    static const int cancel[CANCEL] = { 1, 3, 4 };
    static const char *const results[] = { "f32", "f64" };
    limber_format f64 = named("f64");
    double *a = malloc(N * N * sizeof *a), *b = malloc(N * N * sizeof *b);
    long recomputed = 0;

    (void)state;
    assert_true(a && b);
    for (int at = 0; set_count && at < 8; at++) {
        struct rng r = { 40 + (uint64_t)at };
        limber_format fc = named(results[at % 2]);
        const limber_contract summed = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT,
                                         .scheme = "accumulator" },
                              first = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_CORRECT,
                                        .scheme = "ozaki2" };
        int half = (fc.bias / 2 - 4) * (2 * (at / 2) - 3) / 3;
        char *c = poisoned(N * N * fc.size), *want = poisoned(N * fc.size);
        limber_context *ctx = sets[at / 2 % set_count].ctx;
        limber_report report = LIMBER_REPORT_INIT;

        for (int i = 0; i < N * N; i++) {
            set_number(&r, f64, half - (rng_below(&r, 16) ? 0 : 12), FULL, &a[i]);
            set_number(&r, f64, half - (rng_below(&r, 16) ? 0 : 12), FULL, &b[i]);
        }
        for (int j = 0; j < CANCEL; j++)
            for (int p = 0; p < N; p++)
                b[p * N + cancel[j]] = p == 0 ? ldexp(1 + rng_unit(&r), half) :
                                       p == 1 ? -b[cancel[j]] :
                                                0;
        for (int i = 0; i < N; i++)
            a[i * N + 1] = a[i * N] * (1 + ldexp(rng_unit(&r), -(i % 50)));
        if (limber_gemm(ctx, &first, N, N, N, NULL, (limber_matrix){ a, f64, N, 1 },
                        (limber_matrix){ b, f64, N, 1 }, NULL, (limber_output){ c, fc, N, 1 },
                        &report))
            fail_msg("%s", limber_error_text());
        recomputed += report.recomputed;
        for (int j = 0; j < CANCEL; j++) {
            if (limber_gemm(interp, &summed, N, 1, N, NULL, (limber_matrix){ a, f64, N, 1 },
                            (limber_matrix){ b + cancel[j], f64, N, 1 }, NULL,
                            (limber_output){ want, fc, 1, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            for (int i = 0; i < N; i++)
                if (memcmp(c + (i * N + cancel[j]) * fc.size, want + i * fc.size, fc.size))
                    fail_msg("%s to %s, operands of 2^%d: element (%d, %d) is %a, not %a",
                             report.scheme, results[at % 2], half, i, cancel[j],
                             limber_format_value(fc, c + (i * N + cancel[j]) * fc.size),
                             limber_format_value(fc, want + i * fc.size));
        }
        free(c);
        free(want);
    }
    print_message("%ld elements were recomputed\n", recomputed);
    assert_true(recomputed > 0 || !set_count);
    free(a);
    free(b);
}

/* Tests few requests and few rows on the simulation that runs CUDA kernels on the CPU. */
static void a_gpu_has_the_interpreter_s_bits(void **state)
{
    static const struct {
        struct pair pair;
        struct request request;
        int scalars;
    } few[] = {
        { { "f64", "f64", "dd" }, { "ozaki2", LIMBER_CONTRACT_CORRECT }, PLAIN },
        { { "f128", "f128", "f128" }, { "ozaki2", LIMBER_CONTRACT_CORRECT }, BOTH },
        { { "f128", "f128", "f64" }, { "accumulator", LIMBER_CONTRACT_CORRECT }, PLAIN },
        { { "tf32", "tf32", "f32" }, { "accumulator", LIMBER_CONTRACT_CORRECT }, PLAIN },
        { { "(1,8,5)", "(1,8,5)", "(1,8,5)" }, { "accumulator", LIMBER_CONTRACT_CORRECT }, ALPHA },
    };
    const limber_config device = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "",
                                   .dump_dir = "",
                                   .threads = 1 };
    limber_context *cuda;

    (void)state;
    gpu_stand_ins();
    if (limber_create(&cuda, &device))
        skip_because("%s", limber_error_text());
    for (size_t i = 0; i < COUNT(few); i++) {
        struct rng r = { 900 + i };
        struct sweep s = { named(few[i].pair.a), named(few[i].pair.b), named(few[i].pair.c),
                           few[i].request,       few[i].scalars,       60 };
        char *want, *got;

        make_operands(&s, &r);
        want = poisoned(result_bytes(&s));
        got = poisoned(result_bytes(&s));
        make_scalars(&s, &r);
        if (multiply_sweep(interp, &s, want, NULL) || multiply_sweep(cuda, &s, got, NULL))
            fail_msg("%s: %s", s.request.scheme, limber_error_text());
        check_values(&s, want, &r);
        compare(&s, "cuda", got, want);
        free(want);
        free(got);
        free_sweep(&s);
    }
    limber_destroy(cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_has_the_interpreter_s_bits),
        cmocka_unit_test(uncertain_elements_are_recomputed_in_every_binade),
        cmocka_unit_test(a_gpu_has_the_interpreter_s_bits),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
