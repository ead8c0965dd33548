/* SPDX-License-Identifier: BSD-3-Clause
 * limber formats: lists names, ranges and precisions of formats, and the schemes. */
#define _GNU_SOURCE
#include "tools/cli/commands.h"

#include <limber/names.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <mpfr.h>
#include <popt.h>
#include <string.h>

/* Formats that have another name. */
static const struct other_name {
    limber_format format;
    const char *name;
} other_names[] = {
#define OTHER_NAME(NAME, name) { LIMBER_##NAME, name },
    LIMBER_FORMAT_NAMES(OTHER_NAME)
};

/* Prints the other names that stand for format f, or adds them to `list` if it is not NULL. */
static void show_other_names(limber_format f, cJSON *list)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        const struct other_name *o = &other_names[i];

        if (!limber_format_equal(f, o->format))
            continue;
        if (list)
            cJSON_AddItemToArray(list, cJSON_CreateString(o->name));
        else
            printf(" %s", o->name);
    }
}

/* Prints a format's size, bits and range as a row, or adds them to the JSON. */
static void print_row(const char *name, cJSON *array)
{
    limber_format f = format_of(name);
    limber_format_facts x = LIMBER_FORMAT_FACTS_INIT;

    limber_format_describe(f, &x);
    if (array) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "name", name);
        cJSON_AddNumberToObject(j, "bytes", f.size);
        cJSON_AddNumberToObject(j, "significant_bits", x.significant_bits);
        cJSON_AddNumberToObject(j, "largest_exponent", x.largest_exponent);
        cJSON_AddNumberToObject(j, "smallest_exponent", x.smallest_exponent);
        show_other_names(f, cJSON_AddArrayToObject(j, "other_names"));
        cJSON_AddItemToArray(array, j);
        return;
    }
    printf("%-8s %5d %5d   2^%-6d  2^%-6d  ", name, f.size, x.significant_bits,
           x.largest_exponent + 1, x.smallest_exponent);
    if (x.roundoff > 0)
        printf("2^%-10d ", ilogb(x.roundoff));
    else
        printf("%-12s ", "0");
    show_other_names(f, NULL);
    printf("\n");
}

/* ---- tables of a format's values ------------------------------------------------------------- */

/* Statements of a published guide to FP16 operators that differ from this table. */
static const struct said {
    const char *format, *what, *published, *why;
} guide[] = {
    { "f16", "largest", "655 (table 1-2)", "a misprint of 65504" },
    { "f16", "bits of the largest", "0 11110 0000000000 (table 1-4)",
      "these bits are 32768; 65504 is 0 11110 1111111111" },
    { "f16", "overflow", "numbers above 65504 become infinite (1.4.1)",
      "up to 65520 they round to 65504; 65520, the tie, and what is larger become infinite" },
    { "f16", "underflow", "numbers below 2^-24 become 0 (1.4.1)",
      "those above 2^-25 round to 2^-24; 2^-25, the tie, goes to 0" },
    { "f16", "epsilon", "the smallest e with 1 + e > 1 (table 1-1)",
      "it is the distance from 1 to the next number; 1 + e rounds above 1 from e > 2^-11 on" },
    { "f16", "swallowed", "sum / addend > 2^11 loses the addend (1.4.2)",
      "from 2^11 to 2^12 it does for half of all addends, beyond 2^12 for all" },
    { "bf16", "smallest", "9.2e-41 (table 1-2)",
      "2^-133, a subnormal number, which several units flush to 0; the smallest normal one is "
      "1.18e-38" },
    { "bf16", "conversion", "cuts the fraction (1.1)",
      "most units round to nearest even; cutting doubles the largest error" },
};

static bool is_real(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_POSIT ||
           f.kind == LIMBER_KIND_POWER;
}

/* Writes a bit pattern as text: sign, exponent and fraction of a float; sign and other bits of a
 * posit; all bits of a power of two. */
static void write_bits(limber_format f, uint64_t code, char *to)
{
    bool is_float = f.kind == LIMBER_KIND_FLOAT;
    int bits = is_float ? 1 + f.exp_bits + f.frac_bits : 8 * f.size;

    for (int i = bits - 1; i >= 0; i--) {
        *to++ = (char)('0' + (code >> i & 1));
        if (i && ((i == bits - 1 && f.kind != LIMBER_KIND_POWER) || (is_float && i == f.frac_bits)))
            *to++ = ' ';
    }
    *to = '\0';
}

/* Prints the bit pattern of a special value, or adds it to the JSON. */
static void show_special(limber_format f, const char *name, double value, cJSON *json)
{
    char bits[80];
    uint64_t code = 0;

    if (limber_convert(&code, f, &value, LIMBER_F64, 1, LIMBER_ROUND_NEAREST))
        return;
    write_bits(f, code, bits);
    if (json)
        cJSON_AddStringToObject(json, name, bits);
    else
        printf("  %-24s %-16.9g %s\n", name, value, bits);
}

/* Prints a special value's bits, or adds them to the JSON, for formats that are stored in a wider
 * one, such as tf32, or have more than 64 bits.  All of these follow IEEE 754.  fraction: its first
 * bit, its middle bits and its last bit. */
static void show_special_by_fields(limber_format f, const char *name, int exponent,
                                   const char *fraction, cJSON *json)
{
    char bits[160], *to = bits;

    to += sprintf(to, "0 ");
    for (int i = f.exp_bits - 1; i >= 0; i--)
        *to++ = (char)('0' + (exponent >> i & 1));
    *to++ = ' ';
    for (int i = 0; i < f.frac_bits; i++)
        *to++ = fraction[i == 0 ? 0 : i + 1 < f.frac_bits ? 1 : 2];
    *to = '\0';
    if (json)
        cJSON_AddStringToObject(json, name, bits);
    else
        printf("  %-24s %s\n", name, bits);
}

/* Prints the bit patterns of a format's special values, or adds them to the JSON. */
static void show_specials(limber_format f, const limber_format_facts *x, cJSON *to)
{
    const int top = (1 << f.exp_bits) - 1;
    cJSON *json;

    if (!is_real(f))
        return;
    json = to ? cJSON_AddObjectToObject(to, "bits") : NULL;
    if (f.carried || f.size > 8) {
        show_special_by_fields(f, "zero", 0, "000", json);
        show_special_by_fields(f, "smallest", 0, f.frac_bits > 1 ? "001" : "111", json);
        show_special_by_fields(f, "smallest normal", 1, "000", json);
        show_special_by_fields(f, "one", f.bias, "000", json);
        show_special_by_fields(f, "largest", top - 1, "111", json);
        show_special_by_fields(f, "infinity", top, "000", json);
        show_special_by_fields(f, "NaN", top, "100", json);
        return;
    }
    if (f.kind != LIMBER_KIND_POWER)
        show_special(f, "zero", 0, json);
    show_special(f, "smallest", x->smallest, json);
    show_special(f, "smallest normal", x->normal, json);
    show_special(f, "one", 1, json);
    show_special(f, "largest", x->largest, json);
    if (x->has_infinity)
        show_special(f, "infinity", INFINITY, json);
    if (x->has_nan)
        show_special(f, "NaN", NAN, json);
}

/* Lists the spacing of numbers by binade.  JSON and formats of few binades list every binade.
 * Else lists the binades around 1, at both ends and at the first normal number, and dots for the
 * others. */
static void show_spacings(limber_format f, const limber_format_facts *x, cJSON *to)
{
    cJSON *list = to ? cJSON_AddArrayToObject(to, "spacing") : NULL;
    int low = x->smallest_exponent, high = x->largest_exponent, spacing, count = 0;
    bool left_out = false;

    for (int e = low; e <= high; e++) {
        bool shown = list || high - low < 48 || e == low || e == high || (e >= -4 && e <= 12) ||
                     e == x->normal_exponent;

        if (!shown || limber_format_spacing(f, e, &spacing)) {
            left_out = true;
            continue;
        }
        if (list) {
            int pair[2] = { e, spacing };

            cJSON_AddItemToArray(list, cJSON_CreateIntArray(pair, 2));
        } else {
            if (count++ % 8 == 0)
                printf("%s  %-22s", count > 1 ? ",\n" : "", count > 1 ? "" : "spacing from");
            printf("%s%s 2^%d: 2^%d", count % 8 == 1 ? " " : ",", left_out ? " ...," : "", e,
                   spacing);
            left_out = false;
        }
    }
    if (count)
        printf("\n");
}

/* Writes 2^e (2 - less) as decimal text by MPFR, since it may be beyond binary64. */
static const char *format_beyond(int e, double less, char *text)
{
    mpfr_t v;

    mpfr_init2(v, 160);
    mpfr_set_ui(v, 2, MPFR_RNDN);
    mpfr_sub_d(v, v, less, MPFR_RNDN);
    mpfr_mul_2si(v, v, e, MPFR_RNDN);
    mpfr_snprintf(text, 50, "%.9Rg", v);
    mpfr_clear(v);
    return text;
}

/* Writes the threshold of overflow (the largest number plus half its unit in the last place) and
 * its formula, since the threshold has the same leading digits as the largest number. */
static const char *format_overflow(int e, int bits, char text[60])
{
    char value[60];

    snprintf(text, 60, "%.30s (2^%d - 2^%d)", format_beyond(e, ldexp(1, -bits), value), e + 1,
             e - bits);
    return text;
}

/* Writes a fact of a format whose value binary64 cannot hold.  Returns NULL if binary64 can, or if
 * there is no such fact. */
const char *fact_beyond_f64(const limber_format_facts *x, const char *name, char text[60])
{
    const double unit = ldexp(1, 1 - x->significant_bits);

    if (!strcmp(name, "overflow beyond") && !isfinite(x->overflow))
        return format_overflow(x->largest_exponent, x->significant_bits, text);
    if (!strcmp(name, "zero up to") && x->underflow == 0 && x->has_infinity && x->smallest > 0)
        return format_beyond(x->smallest_exponent - 1, 1, text);
    if (isfinite(x->largest))
        return NULL;
    if (!strcmp(name, "least")) {
        text[0] = '-';
        format_beyond(x->largest_exponent, unit, text + 1);
        return text;
    }
    return !strcmp(name, "largest")         ? format_beyond(x->largest_exponent, unit, text) :
           !strcmp(name, "smallest normal") ? format_beyond(x->normal_exponent, 1, text) :
           !strcmp(name, "smallest")        ? format_beyond(x->smallest_exponent, 1, text) :
           !strcmp(name, "zero up to")      ? format_beyond(x->smallest_exponent - 1, 1, text) :
                                              NULL;
}

/* False for facts that double-double lacks: it has no single threshold of overflow, and some of its
 * values have several bit patterns. */
static bool is_known(limber_format f, const char *name)
{
    return f.kind != LIMBER_KIND_DD ||
           (strcmp(name, "overflow beyond") && strcmp(name, "zero up to") &&
            strcmp(name, "finite values"));
}

/* Prints the numeric facts of a format, one per line, or adds them to the JSON. */
static void show_numeric_facts(limber_format f, const limber_format_facts *x, cJSON *json)
{
    const struct {
        const char *name;
        double value;
    } row[] = { { "significant bits", x->significant_bits },
                { "epsilon", x->epsilon },
                { "round-off", x->roundoff },
                { "largest", x->largest },
                { "least", x->lowest },
                { "smallest normal", x->normal },
                { "smallest", x->smallest },
                { "overflow beyond", x->overflow },
                { "zero up to", x->underflow },
                { "decimal digits", x->decimal_digits },
                { "digits kept", x->digits_kept },
                { "digits needed", x->digits_needed },
                { "finite values", x->finite_values },
                { "integers up to", x->exact_integers } };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char wide[60];
        const char *text = fact_beyond_f64(x, row[i].name, wide);

        if (!is_known(f, row[i].name))
            continue;
        if (json && text)
            cJSON_AddStringToObject(json, row[i].name, text);
        else if (json) {
            /* cJSON itself would print only 15 digits */
            snprintf(wide, sizeof wide, "%.17g", row[i].value);
            cJSON_AddRawToObject(json, row[i].name, wide);
        } else if (text)
            printf("  %-24s %s\n", row[i].name, text);
        else
            printf("  %-24s %.9g\n", row[i].name, row[i].value);
    }
    if (json)
        return;
    printf("  %-24s 2^%d to below 2^%d, normal from 2^%d\n", "exponents", x->smallest_exponent,
           x->largest_exponent + 1, x->normal_exponent);
}

/* Prints all facts of a format (layout, ranges, bit patterns, spacing) or, if `array` is not NULL,
 * adds them to it as an object.  If there is no such format, prints a message and returns false. */
static bool print_facts(const char *word, cJSON *array)
{
    limber_format_facts x = LIMBER_FORMAT_FACTS_INIT;
    cJSON *json = NULL;
    char name[64];
    limber_format f;

    if (limber_format_named(word, &f) || limber_format_describe(f, &x))
        return complain("'%s' is no format: limber formats lists them", word), false;
    if (array)
        cJSON_AddItemToArray(array, json = cJSON_CreateObject());
    limber_format_name(f, name, sizeof name);
    if (json)
        cJSON_AddStringToObject(json, "name", name);
    else if (f.kind == LIMBER_KIND_FLOAT)
        printf("%s: 1 sign, %d exponent and %d fraction bits, bias %d, %d byte%s\n", name,
               f.exp_bits, f.frac_bits, f.bias, f.size, f.size > 1 ? "s" : "");
    else if (f.kind == LIMBER_KIND_POSIT)
        printf("%s: a posit with %d exponent bits and up to %d of fraction, %d byte%s\n", name,
               f.exp_bits, f.frac_bits, f.size, f.size > 1 ? "s" : "");
    else if (f.kind == LIMBER_KIND_SHORT)
        printf("%s: the low %d bits of a byte\n", name, f.frac_bits + 1);
    else
        printf("%s: %d byte%s\n", name, f.size, f.size > 1 ? "s" : "");
    show_numeric_facts(f, &x, json);
    show_specials(f, &x, json);
    if (f.kind == LIMBER_KIND_FLOAT)
        show_spacings(f, &x, json);
    for (size_t i = 0; i < sizeof guide / sizeof *guide && !json; i++)
        if (!strcmp(guide[i].format, name))
            printf("  the guide on %s: %s\n    %s\n", guide[i].what, guide[i].published,
                   guide[i].why);
    return true;
}

/* Prints the facts of the named formats, or of all. */
static int print_tables(const char **names, bool json)
{
    cJSON *array = json ? cJSON_CreateArray() : NULL;
    const char *name;
    bool ok = true;

    if (names)
        for (int i = 0; ok && names[i]; i++)
            ok = print_facts(names[i], array);
    else
        for (int i = 0; ok && (name = limber_format_at(i)); i++)
            ok = print_facts(name, array);
    if (ok && json) {
        char *s = cJSON_Print(array);

        printf("%s\n", s ? s : "[]");
        cJSON_free(s);
    }
    cJSON_Delete(array);
    return ok ? 0 : 2;
}

/* The command `limber formats`: lists formats and schemes, or prints facts of the named formats. */
int cmd_formats(int argc, const char **argv)
{
    int json = 0, wants_tables = 0, status;
    bool ok;
    struct poptOption table[] = {
        { "tables", 0, POPT_ARG_NONE, &wants_tables, 0,
          "ranges, precision, bits and spacing of the formats named, or of all", NULL },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    cJSON *array = NULL;
    const limber_scheme *scheme;
    const char *name;

    ok = options_read(o, "[options] [FORMAT...]\n\n"
                         "Lists formats and schemes; of formats named, or with --tables of all,\n"
                         "what they can hold, and where a published guide for FP16 errs.\n\n"
                         "example: limber formats f16 bf16");
    if (ok && (wants_tables || poptPeekArg(o))) {
        status = print_tables(poptGetArgs(o), json);
        poptFreeContext(o);
        return status;
    }
    poptFreeContext(o);
    if (!ok)
        return 2;
    if (json)
        array = cJSON_CreateArray();
    else
        printf("name     bytes  bits   below      smallest   round-off u   other names\n");
    for (int i = 0; (name = limber_format_at(i)); i++)
        print_row(name, array);
    if (json) {
        char *s = cJSON_Print(array);

        printf("%s\n", s ? s : "[]");
        cJSON_free(s);
        cJSON_Delete(array);
        return 0;
    }
    printf("(1,e,m)  any float with e exponent and m fraction bits, e <= 8 in a float, e <= 11 in "
           "a double\n\nschemes\n");
    for (int i = 0; (scheme = limber_scheme_at(i)); i++)
        printf("  %-12s  %s\n", scheme->name, scheme->about);
    return 0;
}
