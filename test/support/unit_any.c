/* SPDX-License-Identifier: BSD-3-Clause
 * Random simulated units, and helpers that tests of units share. */
#include "unit_any.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Returns a random rounding mode of a unit's description. random: stochastic rounding (rs) is
 * allowed. */
static const char *any_mode(struct rng *r, bool random)
{
    static const char *const all[] = { "rn", "rn", "rn", "ra", "rz", "ru", "rd", "ro", "rs" };

    return all[rng_below(r, random ? 9 : 8)];
}

/* Returns a random format, named or as (1,e,m). wide: up to 23 fraction bits. */
static const char *any_format(struct rng *r, char *text, bool wide)
{
    static const char *const names[] = { "f16",  "bf16", "tf32", "e4m3", "e5m2",
                                         "e3m2", "e2m3", "e2m1", "f32" };

    if (rng_below(r, 3) == 0)
        return names[rng_below(r, wide ? 9 : 8)];
    snprintf(text, 32, "(1,%d,%d)", 2 + rng_below(r, 7), 1 + rng_below(r, wide ? 23 : 10));
    return text;
}

static const char *any_flags(struct rng *r)
{
    static const char *const all[] = { "", "", "", "", ":sat", ":inf", ":ftz", ":sat:ftz" };

    return all[rng_below(r, 8)];
}

static void add_words(char *text, size_t size, const char *form, ...)
{
    size_t n = strlen(text);
    va_list list;

    va_start(list, form);
    vsnprintf(text + n, size - n, form, list);
    va_end(list);
}

/* Returns a random format of operands.  Formats without -0 are allowed for operands only. */
static const char *any_operand(struct rng *r, char *text)
{
    return rng_below(r, 8) ? any_format(r, text, rng_below(r, 3) == 0) :
           rng_below(r, 2) ? "e4m3fnuz" :
                             "e5m2fnuz:sat";
}

/* Describes a unit that adds a block of products at once (fused sum). */
static void describe_fused(struct rng *r, char *t, size_t size, const char *in)
{
    int block = 2 + rng_below(r, 40), frac = 1 + rng_below(r, 35);
    char acc[32];

    snprintf(t, size, "in=%s acc=%s:%s%s block=%d frac=%d", in, any_format(r, acc, true),
             any_mode(r, true), any_flags(r), block, frac);
    if (rng_below(r, 3) == 0) {
        add_words(t, size, " late=%d halves=%s", frac + rng_below(r, 41 - frac),
                  rng_below(r, 2) ? "yes" : "no");
        if (rng_below(r, 2))
            add_words(t, size, " reach=%d", 1 + rng_below(r, 50));
    } else if (rng_below(r, 3) == 0)
        add_words(t, size, " floor=%d", rng_below(r, 200) - 150);
    if (rng_below(r, 5) == 0)
        add_words(t, size, " zeros=keep");
    if (rng_below(r, 2))
        add_words(t, size, " group=%d outer=f32:%s order=%s", block * (1 + rng_below(r, 4)),
                  any_mode(r, true), rng_below(r, 3) ? "forward" : "quads");
    if (rng_below(r, 4) == 0)
        add_words(t, size, " scale=%s",
                  rng_below(r, 2) ? "e8m0:8:ceil" :
                  rng_below(r, 2) ? "ue4m3:4" :
                                    "e8m0:7:even");
}

/* Describes a unit with fused sums, whose terms are exact sums of adjacent products. */
static void describe_sums(struct rng *r, char *t, size_t size)
{
    static const char *const small[] = { "e2m1", "e3m2", "e2m3", "(1,2,4)", "(1,3,3)" };
    int sub = 2 << rng_below(r, 4), block = sub * (1 + rng_below(r, 5));
    char acc[32];

    snprintf(t, size, "in=%s acc=%s:%s%s block=%d sub=%d frac=%d zeros=%s", small[rng_below(r, 5)],
             any_format(r, acc, true), any_mode(r, true), any_flags(r), block, sub,
             1 + rng_below(r, 40), rng_below(r, 4) ? "drop" : "keep");
    if (rng_below(r, 3))
        add_words(t, size, " scale=%s:%d", rng_below(r, 2) ? "e8m0" : "ue4m3",
                  sub * (1 + rng_below(r, 3)));
    if (rng_below(r, 3) == 0)
        add_words(t, size, " group=%d outer=f32:%s", 2 * block, any_mode(r, true));
}

/* Adds lanes to a description: several partial sums, which are added in a tree at the end of a
 * group. */
static void describe_lanes(struct rng *r, char *t, size_t size, const char *s)
{
    int lanes = 2 << rng_below(r, 4), group = 1 + rng_below(r, 20);

    add_words(t, size, " group=%d outer=%s:%s lanes=%d order=%s", group, s, any_mode(r, true),
              lanes, rng_below(r, 3) ? "forward" : "swapped");
    if (rng_below(r, 2))
        add_words(t, size, " unroll=%d rest=%s", lanes * (1 + rng_below(r, 3)),
                  rng_below(r, 2) ? "first" : "after");
    if (rng_below(r, 3) == 0)
        add_words(t, size, " join=halves");
    if (rng_below(r, 3) == 0)
        add_words(t, size, " halve=%d", group % 4 == 0 ? 4 : 1);
}

/* Describes a unit that adds products one by one or in a tree. */
static void describe_steps(struct rng *r, char *t, size_t size, const char *in)
{
    bool wide = rng_below(r, 3) == 0, tree = rng_below(r, 8) == 0;
    char mul[32], acc[32], other[32];
    const char *p = any_format(r, mul, wide), *s = rng_below(r, 3) ? p : any_format(r, acc, true);

    snprintf(t, size, "in=%s acc=%s:%s%s narrow=yes", in, s, any_mode(r, !tree), any_flags(r));
    if (rng_below(r, 4))
        add_words(t, size, " mul=%s:%s%s", p, any_mode(r, !tree), any_flags(r));
    if (tree)
        add_words(t, size, " block=%d tree=yes", 2 << rng_below(r, 4));
    else if (rng_below(r, 2))
        add_words(t, size, " group=%d outer=%s:%s order=%s", 1 + rng_below(r, 20),
                  rng_below(r, 2) ? s : any_format(r, other, true), any_mode(r, true),
                  rng_below(r, 3) ? "forward" : "evenodd");
    else if (rng_below(r, 8) == 0)
        add_words(t, size, " order=%s", rng_below(r, 2) ? "reverse" : "swapped");
    else if (rng_below(r, 4) == 0)
        describe_lanes(r, t, size, s);
}

/* Draws descriptions of simulated units until one is valid.  Returns the unit; text: its
 * description. */
limber_unit any_unit(struct rng *r, char *text, size_t size)
{
    char in[32], other[32];
    limber_unit u = LIMBER_UNIT_INIT;

    do {
        const char *f = any_operand(r, in);

        if (rng_below(r, 3))
            describe_steps(r, text, size, f);
        else if (rng_below(r, 4) == 0)
            describe_sums(r, text, size);
        else
            describe_fused(r, text, size, f);
        if (rng_below(r, 6) == 0)
            add_words(text, size, " split=%d total=%s:%s", 2 + rng_below(r, 4),
                      any_format(r, other, true), any_mode(r, true));
        if (rng_below(r, 8) == 0)
            add_words(text, size, " out=%s:%s", any_format(r, other, true), any_mode(r, true));
        if (rng_below(r, 8) == 0)
            add_words(text, size, " start=c");
        add_words(text, size, " seed=%d bits=%d", rng_below(r, 1000), 1 + rng_below(r, 16));
    } while (limber_unit_parse(text, &u) != LIMBER_STATUS_OK);
    return u;
}

/* Fails unless each description is refused. */
void expect_refused_units(const struct refused_unit *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        limber_unit u = LIMBER_UNIT_INIT;

        if (limber_unit_parse(bad[i].text, &u) != LIMBER_STATUS_BAD_ARGUMENT)
            fail_msg("\"%s\" was taken", bad[i].text);
        if (!strstr(limber_error_text(), bad[i].key))
            fail_msg("\"%s\": %s", bad[i].text, limber_error_text());
        assert_int_equal(u.block, 0);
    }
}

/* Draws units as libraries call them: k is split into parts of whole tiles, and results are rounded
 * twice. */
limber_unit any_library_unit(struct rng *r, char *text, size_t size)
{
    char in[32], other[32];
    limber_unit u = LIMBER_UNIT_INIT;

    do {
        if (rng_below(r, 2))
            describe_steps(r, text, size, any_operand(r, in));
        else
            describe_fused(r, text, size, any_operand(r, in));
        if (limber_unit_parse(text, &u) != LIMBER_STATUS_OK)
            continue; /* draws again */
        add_words(text, size, " tile=%d split=%d total=%s:%s merge=%s deal=%s",
                  u.block * (1 + rng_below(r, 6)), 1 + rng_below(r, 6), any_format(r, other, true),
                  any_mode(r, false), rng_below(r, 2) ? "pairs" : "serial",
                  rng_below(r, 2) ? "turns" : "runs");
        if (rng_below(r, 3))
            add_words(text, size, " epilogue=%s:%s%s",
                      rng_below(r, 2) ? "f32" : any_format(r, other, true), any_mode(r, false),
                      any_flags(r));
        if (rng_below(r, 8) == 0)
            add_words(text, size, " start=c");
    } while (limber_unit_parse(text, &u) != LIMBER_STATUS_OK);
    return u;
}

/* Returns a random number of one of eight kinds: small and large ranges of exponents, many zeros,
 * small integers, large, with NaN and infinities, decreasing. */
double any_value(struct rng *r, int kind)
{
    double x = 2 * rng_unit(r) - 1;

    switch (kind) {
    case 0: return x;
    case 1: return ldexp(x, rng_below(r, 40) - 20);
    case 2: return ldexp(x, rng_below(r, 240) - 120);
    case 3: return rng_below(r, 3) ? 0 : x;
    case 4: return rng_below(r, 9) - 4;
    case 5: return 64 * x;
    case 6: return rng_below(r, 40) ? x : rng_below(r, 2) ? NAN : x < 0 ? -INFINITY : INFINITY;
    default: return ldexp(x, -rng_below(r, 20));
    }
}

double *any_matrix(struct rng *r, int64_t count, int kind)
{
    double *x = calloc((size_t)count + 1, sizeof *x);

    for (int64_t i = 0; i < count; i++)
        x[i] = (float)any_value(r, kind);
    return x;
}

limber_unit unit(const char *text)
{
    limber_unit u = LIMBER_UNIT_INIT;

    if (limber_unit_parse(text, &u) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", text, limber_error_text());
    return u;
}

void *converted(const double *x, size_t count, limber_format f)
{
    char *to = malloc((count + 1) * f.size);

    assert_int_equal(limber_convert(to, f, x, named("f64"), count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    return to;
}

const limber_conv uneven_conv = { .size = sizeof(limber_conv),
                                  .n = 2,
                                  .c = 4,
                                  .h = 5,
                                  .w = 6,
                                  .o = 6,
                                  .r = 3,
                                  .s = 2,
                                  .stride = { 2, 1 },
                                  .dilate = { 1, 2 },
                                  .pad = { 1, 0, 1, 2 },
                                  .groups = 2 };

/* Checks that a simulated unit's convolution has the same bits in two contexts, in the second by
 * the given scheme. */
void same_simulated_conv(struct rng *r, const char *text, limber_layout layout,
                         limber_context *const ctx[2], const char *scheme)
{
    enum { IMAGE = 2 * 4 * 5 * 6, FILTERS = 6 * 2 * 3 * 2, RESULT = 2 * 6 * 400 };
    limber_conv shape = uneven_conv;
    limber_unit u = unit(text);
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };
    double *x = any_matrix(r, IMAGE, 0), *w = any_matrix(r, FILTERS, 0);
    float *c[2] = { calloc(RESULT, 4), calloc(RESULT, 4) };

    shape.layout = layout;
    for (int i = 0; i < 2; i++) {
        contract.scheme = i ? scheme : NULL;
        if (limber_conv2d(ctx[i], &contract, &shape, NULL, x, named("f64"), w, named("f64"), NULL,
                          c[i], named("f32"), NULL) != LIMBER_STATUS_OK)
            fail_msg("%s: %s", text, limber_error_text());
    }
    assert_memory_equal(c[0], c[1], RESULT * 4);
    free(x);
    free(w);
    free(c[0]);
    free(c[1]);
}
