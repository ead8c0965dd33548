/* SPDX-License-Identifier: BSD-3-Clause
 * limber operators: lists elementwise functions and the errors of rounding their results to a
 * format, also compared with published tables for FP16. */
#include "tools/cli/cli.h"

#include <limber/ops.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 1 << 16, SAMPLES = 1 << 22, MOST = 16 };

/* Errors over all inputs: largest and mean, absolute and relative. */
struct errors {
    double most, most_relative, mean, mean_relative;
    double weight; /* sum of the weights in the means */
};

/* Adds one input's error to the largest and the mean errors. weight: of this input in the means. */
static void add_error(struct errors *e, double exact, double rounded, double weight)
{
    double error = fabs(rounded - exact), relative = exact == 0 ? 0 : error / fabs(exact);

    if (!isfinite(exact) || !isfinite(rounded))
        return;
    e->most = fmax(e->most, error);
    e->most_relative = fmax(e->most_relative, relative);
    e->mean += weight * error;
    e->mean_relative += weight * relative;
    e->weight += weight;
}

/* Divides the sums of errors by their weights. */
static void finish_means(struct errors *e)
{
    e->mean /= e->weight > 0 ? e->weight : 1;
    e->mean_relative /= e->weight > 0 ? e->weight : 1;
}

/* Applies a function to `count` elements.  On failure prints a message and returns false. */
static bool apply_function(limber_function function, limber_format from, limber_format to,
                           const void *x, void *y, size_t count)
{
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    e.function = function;
    e.from = from;
    e.to = to;
    e.src = x;
    e.dst = y;
    e.count = count;
    e.p = function == LIMBER_FUNCTION_CLAMP ? -1 : 0.01;
    e.q = 1;
    if (limber_apply(NULL, &e) == LIMBER_STATUS_OK)
        return true;
    complain("%s", limber_error_text());
    return false;
}

/* The inputs over which errors are measured. */
struct inputs {
    double least, most; /* range of magnitudes; most is 0 if there is no upper limit */
    bool positive;
    bool evenly; /* an input's weight in the means is the spacing of numbers there; else 1 */
    bool by_steps; /* softsign only: the sum 1 + |x| is rounded, too */
};

static bool is_input(const struct inputs *in, double x)
{
    return isfinite(x) && fabs(x) >= in->least && (in->most == 0 || fabs(x) <= in->most) &&
           (!in->positive || x > 0);
}

/* Returns the weight of an input in the means. */
static double weight_of(const struct inputs *in, double x)
{
    int exponent;

    frexp(x, &exponent);
    return in->evenly ? ldexp(1, exponent) : 1;
}

/* Rounds x to format f, and returns it as a double. */
static double round_to(limber_format f, double x)
{
    char bits[16];

    limber_convert(bits, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&x, LIMBER_F64, bits, f, 1, LIMBER_ROUND_NEAREST);
    return x;
}

/* Measures the errors that rounding to format f causes in function(x), which is computed in
 * binary32, over inputs x of format f. */
static bool measure(limber_function function, limber_format f, const struct inputs *in,
                    struct errors *e)
{
    static double x[CODES], exact[CODES], rounded[CODES];
    static float single[CODES];
    static uint16_t codes[CODES], bits[CODES];
    int n = 0;

    for (int i = 0; i < CODES; i++)
        codes[i] = (uint16_t)i;
    limber_convert(x, LIMBER_F64, codes, f, CODES, LIMBER_ROUND_NEAREST);
    for (int i = 0; i < CODES; i++)
        if (is_input(in, x[i]))
            x[n++] = x[i];
    if (!apply_function(function, LIMBER_F64, LIMBER_F32, x, single, (size_t)n))
        return false;
    limber_convert(exact, LIMBER_F64, single, LIMBER_F32, (size_t)n, LIMBER_ROUND_NEAREST);
    limber_convert(bits, f, single, LIMBER_F32, (size_t)n, LIMBER_ROUND_NEAREST);
    limber_convert(rounded, LIMBER_F64, bits, f, (size_t)n, LIMBER_ROUND_NEAREST);
    memset(e, 0, sizeof *e);
    for (int i = 0; i < n; i++) {
        if (in->by_steps)
            rounded[i] = round_to(f, x[i] / round_to(f, 1 + fabs(x[i])));
        add_error(e, exact[i], rounded[i], weight_of(in, x[i]));
    }
    finish_means(e);
    return true;
}

/* ---- the published tables -------------------------------------------------------------------- */

/* [index in `measures`]: least and largest value over a group's functions. */
struct range {
    double low[4], high[4];
};

/* Functions with one set of published error figures. */
static const struct group {
    const char *functions;
    struct range published;
    const char *note;
    struct inputs inputs; /* inputs over which `others` are measured */
    /* functions whose published figures are reached on `inputs` only; name of these inputs */
    const char *others, *name;
} groups[] = {
    { "sin cos atan acosh asinh tanh acos asin atanh",
      { { 0.000244, 0.000486, 5.85e-5, 0.000115 }, { 0.003905, 0.000517, 0.001138, 0.000179 } },
      "Means of tanh, asin, atanh and asinh over all x are below the published least, since most\n"
      "FP16 numbers are tiny.  Of numbers spread evenly between -1 and 1 all four are within.\n"
      "0.000486 is acosh's; the largest relative errors of atan, asinh, tanh, acos, asin and\n"
      "atanh are smaller.  Which inputs the guide took for these six is not known.",
      { 0x1p-14, 1, .evenly = true },
      "tanh asin atanh asinh",
      "evenly in [-1, 1]" },
    { "log2 log10 log1p",
      { { 0.001953, 0.000482, 0.0004, 0.000171 }, { 0.0033905, 0.000487, 0.001258, 0.000175 } },
      "0.0033905 is a misprint of 0.0039053: results from 8 to 16 are off by up to 2^-8 = "
      "0.0039063.\n"
      "log1p counts x from -1 on, which lowers its means." },
    { "floor round relu ceil", { { 0 }, { 0 } }, NULL },
    { "sqrt rsqrt",
      { { 0.031227, 0.000488, 0.002071, 0.000172 }, { 0.062485, 0.000488, 0.004158, 0.000179 } },
      NULL },
    { "exp expm1 tan cosh sinh reciprocal square tanh_shrink",
      { { 1, 0.000486, 0.000786, 9.18e-5 }, { 16, 1, 0.378427, 0.082869 } },
      "Results that overflow are left out.  tanh_shrink: x^3 / 3 of small x is below all FP16\n"
      "numbers, an error of 1; in binary32 x - tanh x is 0 there, which hides it." },
    { "logsigmoid sigmoid silu softsign",
      { { 0.000701, 0.000486, 6.55e-5, 0.000104 }, { 0.002665, 0.000945, 9.96e-5, 0.000203 } },
      "Of all inputs e^-x underflows for one in twenty-five, an error of 1.  The published "
      "figures\n"
      "are of x > 0 (0.000945 and 0.000104 are silu's there, 6.55e-05 sigmoid's), and of a "
      "softsign\n"
      "whose 1 + |x| was rounded to FP16, too (0.000701 and 0.000203).  What gave 9.96e-05 is not\n"
      "known: no function does over all x, over x > 0, or by steps.",
      { 0x1p-14, .positive = true },
      "sigmoid silu",
      "x > 0" },
};

/* Published errors of converting FP32 to FP16.  The inputs' logarithms are uniform on an
 * interval. */
static const struct conversion {
    const char *name;
    double low;
    double published[4];
    const char *note;
} conversions[] = {
    { "subnormal numbers too",
      0x1p-24,
      { 16, 0.33289, 0.38871, 0.008834 },
      "1/3 is lost of 1.5 2^-24; a small sample, as the published one, comes near it" },
    { "normal numbers",
      0x1p-14,
      { 16, 0.00048, 0.51876, 0.000175 },
      "2^-11 = 0.000488 is the most; means of a small sample differ by some per cent" },
};

static const char *const measures[4] = { "largest", "largest relative", "mean", "mean relative" };

static void copy_to_array(const struct errors *e, double to[4])
{
    to[0] = e->most;
    to[1] = e->most_relative;
    to[2] = e->mean;
    to[3] = e->mean_relative;
}

static void add_json_array(cJSON *to, const char *name, const double v[4])
{
    cJSON_AddItemToObject(to, name, cJSON_CreateDoubleArray(v, 4));
}

/* Measures functions, and prints or adds a row for each.  *r: extended to the values of these
 * functions. */
static bool measure_all(const char *functions, const struct inputs *in, struct range *r,
                        cJSON *json)
{
    char text[128], *rest = NULL;
    limber_function function;
    struct errors e;
    double v[4];

    snprintf(text, sizeof text, "%s", functions);
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        if (limber_function_named(name, &function) || !measure(function, LIMBER_F16, in, &e))
            return false;
        copy_to_array(&e, v);
        if (json)
            add_json_array(json, name, v);
        else
            printf("  %-12s %12.6g %12.6g %12.6g %12.6g\n", name, v[0], v[1], v[2], v[3]);
        for (int i = 0; i < 4; i++) {
            r->low[i] = name == text ? v[i] : fmin(r->low[i], v[i]);
            r->high[i] = name == text ? v[i] : fmax(r->high[i], v[i]);
        }
    }
    return true;
}

static const struct inputs all_normal = { .least = 0x1p-14 };

/* Measures functions of a group again, on the inputs that explain the published figures. */
static bool measure_others(const struct group *g, cJSON *json)
{
    const struct inputs steps = { 0x1p-14, .positive = true, .by_steps = true };
    cJSON *others = json && g->others ? cJSON_AddObjectToObject(json, g->name) : NULL;
    struct range r;

    if (!g->others)
        return true;
    if (!json)
        printf("  %s:\n", g->name);
    return measure_all(g->others, &g->inputs, &r, others) &&
           (!strstr(g->functions, "softsign") ||
            ((json || printf("  x > 0, by steps:\n")) &&
             measure_all("softsign", &steps, &r,
                         json ? cJSON_AddObjectToObject(json, "x > 0, by steps") : NULL)));
}

static void print_range(const char *name, const struct range *r)
{
    printf("  %-12s", name);
    for (int i = 0; i < 4; i++)
        printf(" %.4g..%.4g%s", r->low[i], r->high[i], i < 3 ? "," : "\n");
}

/* Prints FP16 errors of all functions beside the published ones, or adds them to the JSON. */
static bool print_functions_table(cJSON *json)
{
    cJSON *list = json ? cJSON_AddArrayToObject(json, "functions") : NULL;

    if (!json)
        printf("Functions of all FP16 numbers x, 2^-14 <= |x| <= 65504: binary32 against its FP16\n"
               "  function          largest  largest rel.         mean    mean rel.\n");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        cJSON *group = json ? cJSON_CreateObject() : NULL;
        struct range r = { { 0 }, { 0 } };

        if (json)
            cJSON_AddItemToArray(list, group);
        if (!measure_all(groups[i].functions, &all_normal, &r, group))
            return false;
        if (json) {
            if (!measure_others(&groups[i], group))
                return false;
            if (groups[i].note)
                cJSON_AddStringToObject(group, "note", groups[i].note);
            add_json_array(group, "published_low", groups[i].published.low);
            add_json_array(group, "published_high", groups[i].published.high);
            continue;
        }
        print_range("all", &r);
        print_range("published", &groups[i].published);
        if (!measure_others(&groups[i], NULL))
            return false;
        printf("%s%s\n", groups[i].note ? groups[i].note : "", groups[i].note ? "\n" : "");
    }
    return true;
}

/* Prints errors of conversions from FP32 to FP16 beside the published ones, or adds them to the
 * JSON. */
static bool print_conversions_table(cJSON *json)
{
    float *x = malloc(SAMPLES * sizeof *x);
    uint16_t *bits = malloc(SAMPLES * sizeof *bits);
    bool ok = x && bits;

    if (!ok)
        complain("out of memory");
    for (size_t i = 0; ok && i < sizeof conversions / sizeof *conversions; i++) {
        const struct conversion *c = &conversions[i];
        struct errors e = { 0 };
        uint64_t state = 1;
        double v[4], low = log2(c->low), high = log2(65504);

        for (int j = 0; j < SAMPLES; j++)
            x[j] =
                (float)exp2(low + (high - low) * ((double)(random_bits(&state) >> 11) * 0x1p-53));
        ok = apply_function(LIMBER_FUNCTION_CAST, LIMBER_F32, LIMBER_F16, x, bits, SAMPLES);
        for (int j = 0; ok && j < SAMPLES; j++) {
            double rounded;

            limber_convert(&rounded, LIMBER_F64, &bits[j], LIMBER_F16, 1, LIMBER_ROUND_NEAREST);
            add_error(&e, (double)x[j], rounded, 1);
        }
        finish_means(&e);
        copy_to_array(&e, v);
        if (json) {
            cJSON *j = cJSON_AddObjectToObject(json, c->low < 0x1p-14 ? "all" : "normal");

            add_json_array(j, "measured", v);
            add_json_array(j, "published", c->published);
            cJSON_AddStringToObject(j, "note", c->note);
            continue;
        }
        if (i == 0)
            printf("FP32 to FP16, x = 2^u for uniform u up to 65504, %d samples\n", SAMPLES);
        printf("  %s, from 2^%g on\n", c->name, low);
        for (int k = 0; k < 4; k++)
            printf("    %-17s %-12.5g published %g\n", measures[k], v[k], c->published[k]);
        printf("    %s\n", c->note);
    }
    free(x);
    free(bits);
    return ok;
}

/* ---- the list of operators ------------------------------------------------------------------- */

/* Finds the largest error of a binary32 function in units in the last place, over random bit
 * patterns, so that all binades and both signs occur.  The reference is the binary64 function,
 * whose error is below 2^-27 of such units. */
static bool measure_ulps(limber_function function, double *largest)
{
    enum { NUMBERS = 1 << 19 };
    static float x[NUMBERS], y[NUMBERS];
    static double wide[NUMBERS], exact[NUMBERS];
    uint64_t state = 1;
    int n = 0;

    while (n < NUMBERS) {
        const uint32_t bits = (uint32_t)random_bits(&state);

        memcpy(&x[n], &bits, sizeof bits);
        wide[n] = (double)x[n];
        n += isfinite(x[n]);
    }
    if (!apply_function(function, LIMBER_F32, LIMBER_F32, x, y, NUMBERS) ||
        !apply_function(function, LIMBER_F64, LIMBER_F64, wide, exact, NUMBERS))
        return false;
    *largest = 0;
    for (int i = 0; i < NUMBERS; i++) {
        int exponent;

        if (!isfinite(exact[i]) || !isfinite(y[i]))
            continue;
        frexp(exact[i], &exponent);
        exponent = exact[i] == 0 || exponent < -125 ? -125 : exponent;
        *largest = fmax(*largest, fabs((double)y[i] - exact[i]) * ldexp(1, 24 - exponent));
    }
    return true;
}

/* Prints each function's largest error in binary32, in units in the last place, or adds it to the
 * JSON. */
static bool list_ulps(cJSON *json)
{
    cJSON *rows = json ? cJSON_AddArrayToObject(json, "functions") : NULL;
    const char *meaning, *name;
    int parameters;
    double ulps;

    if (!json)
        printf("%-12s %12s  %s\n", "function", "largest ulp", "meaning");
    for (int i = 0; (name = limber_function_at(i, &meaning, &parameters)); i++) {
        if (!measure_ulps((limber_function)i, &ulps))
            return false;
        if (json) {
            cJSON *row = cJSON_CreateObject();

            cJSON_AddStringToObject(row, "name", name);
            cJSON_AddStringToObject(row, "meaning", meaning);
            cJSON_AddNumberToObject(row, "parameters", parameters);
            cJSON_AddNumberToObject(row, "largest_ulps", ulps);
            cJSON_AddItemToArray(rows, row);
        } else {
            printf("%-12s %12.6f  %s\n", name, ulps, meaning);
        }
    }
    return true;
}

/* Prints each function's errors in a 16-bit format, or in binary32, or adds them to the JSON. */
static bool list_functions(const char *format, cJSON *json)
{
    cJSON *rows = json ? cJSON_AddArrayToObject(json, "functions") : NULL;
    const char *meaning, *name;
    limber_format f;
    int parameters;

    if (limber_format_named(format, &f) == LIMBER_STATUS_OK && limber_format_equal(f, LIMBER_F32))
        return list_ulps(json);
    if (limber_format_named(format, &f) || f.size != 2 || f.kind != LIMBER_KIND_FLOAT)
        return complain("--format %s: f16, bf16 or f32", format), false;
    if (!json)
        printf("%-12s %12s %11s  %s\n", "function", "largest rel.", "mean rel.", "meaning");
    for (int i = 0; (name = limber_function_at(i, &meaning, &parameters)); i++) {
        struct errors e;

        if (!measure((limber_function)i, f, &(struct inputs){ 0 }, &e))
            return false;
        if (json) {
            cJSON *row = cJSON_CreateObject();

            cJSON_AddStringToObject(row, "name", name);
            cJSON_AddStringToObject(row, "meaning", meaning);
            cJSON_AddNumberToObject(row, "parameters", parameters);
            cJSON_AddNumberToObject(row, "largest_relative_error", e.most_relative);
            cJSON_AddNumberToObject(row, "mean_relative_error", e.mean_relative);
            cJSON_AddItemToArray(rows, row);
        } else {
            printf("%-12s %12.3g %11.3g  %s\n", name, e.most_relative, e.mean_relative, meaning);
        }
    }
    return true;
}

/* The command `limber operators`: lists functions with their errors, or compares them with
 * published tables. */
int cmd_operators(int argc, const char **argv)
{
    int json = 0, tables = 0;
    char *format = NULL;
    struct poptOption table[] = {
        { "tables", 0, POPT_ARG_NONE, &tables, 0,
          "errors of FP16 beside the published tables, differences explained", NULL },
        { "format", 0, POPT_ARG_STRING, &format, 0, "for the list (f16); of f32 errors in ulps",
          "f16|bf16|f32" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    cJSON *object;
    bool ok;

    ok = options_read(o, "[options]\n\n"
                         "Lists the elementwise functions of limber/ops.h and what rounding their\n"
                         "results to a format of 16 bits costs, over all its numbers, or by how\n"
                         "many ulps results in binary32 are off.\n\n"
                         "example: limber operators --tables");
    if (ok && poptPeekArg(o))
        ok = complain("operators takes options alone, no \"%s\"", poptGetArg(o)) == 0;
    else if (ok && tables && format)
        ok = complain("--tables are of f16: no --format beside them") == 0;
    poptFreeContext(o);
    if (!ok) {
        free(format);
        return 2;
    }
    object = json ? cJSON_CreateObject() : NULL;
    ok = tables ? print_functions_table(object) && print_conversions_table(object) :
                  list_functions(format ? format : "f16", object);
    if (ok && json) {
        char *s = cJSON_Print(object);

        printf("%s\n", s ? s : "{}");
        cJSON_free(s);
    }
    cJSON_Delete(object);
    free(format);
    return ok ? 0 : 1;
}
