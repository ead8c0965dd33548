/* SPDX-License-Identifier: BSD-3-Clause
 * Compares limber_apply with MPFR: every function at every number of all formats of at most 16 bits
 * (of the 16-bit formats partly at a sample), in every direction of rounding, to its own format and
 * about a third of the others (with LIMBER_TEST_LONG all).  The expected result is found by a
 * search among all numbers of the format. */
#include "codes.h"
#include "function_reference.h"

#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CODES = 1 << 16, MODES = LIMBER_ROUND_ODD + 1 };

static const char *const names[] = { "f16",  "bf16", "e4m3",     "e5m2",    "e3m2",
                                     "e2m3", "e2m1", "e4m3fnuz", "e5m2fnuz" };
/* The first WIDE of the formats have 16 bits, all others at most 8. f16 represents every number of
 * the formats with at most 8 bits. */
enum { FORMATS = sizeof names / sizeof *names, WIDE = 2 };

/* A number of a format, and its bit pattern. */
struct value {
    double x;
    uint16_t code;
};

/* A format with a table of its numbers. */
static struct format {
    limber_format f;
    struct value sorted[CODES]; /* finite numbers in rising order; zero only once, as +0 */
    int count;
} formats[FORMATS];

static double x_of[WIDE][CODES], exact[WIDE][CODES];
static limber_context *vectors;
/* [16-bit format]: distance between bit patterns that are tested as operands */
static unsigned step_of[WIDE];

/* Returns the distance between bit patterns that are tested as operands.  A function is tested at
 * all bit patterns of one 16-bit format, and at a sample of the other's. */
static unsigned choose_step(int function, int wide)
{
    return SANITIZED ? 61 : is_taken((size_t)(function + wide), 2) ? 1 : 7;
}

static double value_of(limber_format f, unsigned code)
{
    unsigned char bytes[2] = { (unsigned char)code, (unsigned char)(code >> 8) };

    return limber_format_value(f, bytes);
}

/* qsort's comparison: orders numbers by value. */
static int by_value(const void *a, const void *b)
{
    double x = ((const struct value *)a)->x, y = ((const struct value *)b)->x;

    return x < y ? -1 : x > y;
}

/* Returns the number of bit patterns of a format. */
static unsigned code_count(limber_format f)
{
    return 2u << (f.exp_bits + f.frac_bits);
}

/* Creates the context, and lists the finite numbers of each format in rising order. */
static int set_up(void **state)
{
    limber_config config = LIMBER_CONFIG_INIT;

    (void)state;
    config.cache_dir = "";
    if (limber_create(&vectors, &config))
        return 1;
    for (int i = 0; i < FORMATS; i++) {
        struct format *f = &formats[i];

        f->f = named(names[i]);
        assert_in_range(f->f.size, 1, 2);
        for (unsigned code = 0; code < code_count(f->f); code++) {
            double x = value_of(f->f, code);

            if (i < WIDE)
                x_of[i][code] = x;
            if (isfinite(x) && !(x == 0 && signbit(x)))
                f->sorted[f->count++] = (struct value){ x, (uint16_t)code };
        }
        qsort(f->sorted, (size_t)f->count, sizeof *f->sorted, by_value);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    limber_destroy(vectors);
    return 0;
}

/* Returns the bit pattern of the neighbour, low or high, to which x rounds in this mode. */
static unsigned select_neighbour(const struct value *low, const struct value *high, double x,
                                 int mode)
{
    double middle = low->x / 2 + high->x / 2;
    bool down;

    switch (mode) {
    case LIMBER_ROUND_ZERO: down = x > 0; break;
    case LIMBER_ROUND_UP: down = false; break;
    case LIMBER_ROUND_DOWN: down = true; break;
    case LIMBER_ROUND_ODD: down = low->code & 1; break;
    case LIMBER_ROUND_AWAY: down = x != middle ? x < middle : x < 0; break;
    default: down = x != middle ? x < middle : !(low->code & 1); break;
    }
    return down ? low->code : high->code;
}

/* Rounds x in every mode, by a binary search in the sorted numbers. */
static void round_all(const struct format *f, double x, unsigned char code[MODES][2])
{
    const struct value *low = f->sorted, *high;
    int n = f->count;
    unsigned sign = 1u << (f->f.exp_bits + f->f.frac_bits);

    /* beyond the largest number limber_convert rounds, which test_format.c checks */
    if (!(fabs(x) <= f->sorted[f->count - 1].x)) {
        for (int mode = 0; mode < MODES; mode++) {
            memset(code[mode], 0, 2);
            limber_convert(code[mode], f->f, &x, LIMBER_F64, 1, (limber_rounding)mode);
        }
        return;
    }
    while (n > 1) { /* finds the last number that is at most x */
        int half = n / 2;

        if (low[half].x <= x)
            low += half;
        n = low[half].x <= x && n > 1 ? n - half : half;
    }
    high = low->x == x ? low : low + 1;
    for (int mode = 0; mode < MODES; mode++) {
        unsigned c = low == high ? low->code : select_neighbour(low, high, x, mode);

        if (c || !(f->f.flags & LIMBER_FORMAT_NO_MINUS_ZERO))
            c |= x < 0 || signbit(x) ? sign : 0; /* sets the sign of zeros, too */
        code[mode][0] = (unsigned char)c;
        code[mode][1] = (unsigned char)(c >> 8);
    }
}

/* Returns the operands of a format: every step-th bit pattern. */
static const unsigned char *make_operands(const struct format *from, size_t *count)
{
    static unsigned char codes[2 * CODES];
    const limber_format f = from->f;
    const unsigned step = f.size == 1 ? 1 : step_of[from - formats];

    *count = 0;
    for (unsigned code = 0; code < code_count(f); code += step) {
        codes[f.size * *count] = (unsigned char)code;
        if (f.size == 2)
            codes[2 * *count + 1] = (unsigned char)(code >> 8);
        ++*count;
    }
    return codes;
}

/* Checks a function from one format to another in all rounding modes.  at: index of the pair of
 * formats, which selects the sample of operands.  want: exact values. */
static void check_pair_of_formats(limber_elementwise e, int at, const struct format *to,
                                  const double *want)
{
    static unsigned char wanted[MODES][2 * CODES], got[2 * CODES];
    limber_context *const contexts[] = { NULL, vectors };
    char from[32], name[32];
    size_t size = to->f.size;

    for (size_t i = 0; i < e.count; i++) {
        unsigned char code[MODES][2];

        round_all(to, want[i], code);
        for (int mode = 0; mode < MODES; mode++)
            memcpy(wanted[mode] + i * size, code[mode], size);
    }
    e.to = to->f;
    e.dst = got;
    for (int mode = 0; mode < MODES; mode++)
        for (int c = 0; c < 2; c++) {
            /* rounding to nearest is checked in both contexts, other modes in one of the two */
            if (mode && !is_taken((size_t)(e.function + at + mode + c), 2))
                continue;
            e.rounding = (limber_rounding)mode;
            assert_int_equal(limber_apply(contexts[c], &e), LIMBER_STATUS_OK);
            if (memcmp(wanted[mode], got, e.count * size) == 0)
                continue;
            for (size_t i = 0; i < e.count; i++)
                if (memcmp(wanted[mode] + i * size, got + i * size, size) &&
                    !same_number(to->f, wanted[mode] + i * size, got + i * size))
                    fail_msg("%s of %s to %s in direction %d, context %d: %a gives %a, not %a, "
                             "for %a",
                             limber_function_at((int)e.function, NULL, NULL),
                             limber_format_name(e.from, from, sizeof from),
                             limber_format_name(to->f, name, sizeof name), mode, c,
                             limber_format_value(e.from, (const char *)e.src + i * e.from.size),
                             limber_format_value(to->f, got + i * size),
                             limber_format_value(to->f, wanted[mode] + i * size), want[i]);
        }
}

/* Returns the exact values of the function at the operands.  Values for formats of up to 8 bits are
 * those for the f16 number of equal value. */
static void values_of(const limber_elementwise *e, int from, double *want)
{
    const unsigned char *src = e->src;

    for (size_t i = 0; i < e->count; i++) {
        const unsigned char *at = src + i * e->from.size;
        unsigned code = at[0];
        double x = limber_format_value(e->from, at);

        if (from < WIDE) {
            code += 256u * at[1];
        } else {
            unsigned char wide[2];

            limber_convert(wide, LIMBER_F16, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            code = wide[0] + 256u * wide[1];
            if (x == x)
                assert_true(x_of[0][code] == x);
        }
        want[i] = exact[from < WIDE ? from : 0][code];
    }
}

/* Checks a function with these parameters, from and to every format of the list. */
static void check_function(limber_function function, double p, double q)
{
    static double want[CODES];
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    e.function = function;
    e.p = p, e.q = q;
    e.nan_to_zero = 1;
    for (int i = 0; i < WIDE; i++) {
        step_of[i] = choose_step((int)function, i);
        for (unsigned code = 0; code < CODES; code++)
            if (code % step_of[i] == 0 || (i == 0 && (code & 0x3f) == 0))
                exact[i][code] = ref_function(function, p, q, x_of[i][code]);
    }
    for (int from = 0; from < FORMATS; from++) {
        e.from = formats[from].f;
        e.src = make_operands(&formats[from], &e.count);
        values_of(&e, from, want);
        for (int to = 0; to < FORMATS; to++)
            if (from == to || is_taken((size_t)(function + from + to), 3))
                check_pair_of_formats(e, (from + to) / 3 + from, &formats[to], want);
    }
}

/* True if *got is x correctly rounded to f.  For 32-bit posits the neighbouring numbers are
 * accepted, too. */
static bool is_rounded(double x, limber_format f, const unsigned char *got)
{
    uint32_t code = 0, want;
    mpfr_t v;
    bool ok;

    mpfr_init2(v, 53);
    mpfr_set_d(v, x, MPFR_RNDN);
    ok = ref_rounds_to(v, f, got);
    if (!ok && f.kind == LIMBER_KIND_POSIT && f.size == 4) {
        memcpy(&code, got, 4);
        want = (uint32_t)ref_nearest_code(f, v);
        ok = code - want + 1 <= 2;
    }
    mpfr_clear(v);
    return ok;
}

/* Functions from posits to posits and to f16 give the expected results. */
static void test_posits(void **state)
{
    static const limber_format *const to[] = { &LIMBER_POSIT8, &LIMBER_POSIT16, &LIMBER_POSIT32,
                                               &LIMBER_F16 };
    static unsigned char codes[2 * CODES], got[4 * CODES], again[4 * CODES];
    static double want[CODES];

    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (int wide = 0; wide < 2; wide++) {
            const unsigned step = wide ? choose_step(f, 0) : 1;
            limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

            e.function = (limber_function)f;
            e.p = f == LIMBER_FUNCTION_CLAMP ? -1.5 : 0.01, e.q = 2.25;
            e.from = wide ? LIMBER_POSIT16 : LIMBER_POSIT8;
            e.src = codes;
            for (unsigned code = 0; code < (wide ? CODES : 256); code += step, e.count++) {
                memcpy(codes + e.count * e.from.size, &(uint16_t){ (uint16_t)code }, e.from.size);
                want[e.count] =
                    ref_function(e.function, e.p, e.q, ref_value_of_bits(e.from, (uint64_t)code));
            }
            for (size_t t = 0; t < sizeof to / sizeof *to; t++) {
                if (!is_taken((size_t)(f + wide) + t, 2))
                    continue;
                e.to = *to[t];
                e.dst = got;
                assert_int_equal(limber_apply(NULL, &e), LIMBER_STATUS_OK);
                e.dst = again;
                assert_int_equal(limber_apply(vectors, &e), LIMBER_STATUS_OK);
                for (size_t i = 0; i < e.count; i++) {
                    assert_true(same_number(e.to, got + i * e.to.size, again + i * e.to.size));
                    if (!is_rounded(want[i], e.to, got + i * e.to.size))
                        fail_msg("%s of posit%d, number %zu, to format %zu: not %a",
                                 limber_function_at(f, NULL, NULL), wide ? 16 : 8, i, t, want[i]);
                }
            }
        }
}

/* Checks the functions first <= f < last.  Two tests share the functions, so that progress is
 * visible. */
static void check_functions(int first, int last)
{
    for (int f = first; f < last; f++) {
        check_function((limber_function)f, f == LIMBER_FUNCTION_CLAMP ? -1.5 : 0.01, 2.25);
        if (f == LIMBER_FUNCTION_LEAKY_RELU) { /* parameters with a full significand */
            check_function((limber_function)f, -0x1.5555555555555p-2, 0);
            check_function((limber_function)f, 0x1.921fb54442d18p+1, 0);
        }
    }
}

static void test_first_half_of_functions(void **state)
{
    (void)state;
    check_functions(0, LIMBER_FUNCTION_COUNT / 2);
}

static void test_second_half_of_functions(void **state)
{
    (void)state;
    check_functions(LIMBER_FUNCTION_COUNT / 2, LIMBER_FUNCTION_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_first_half_of_functions),
                                        cmocka_unit_test(test_second_half_of_functions),
                                        cmocka_unit_test(test_posits) };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
