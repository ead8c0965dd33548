/* SPDX-License-Identifier: BSD-3-Clause
 * Reads units from configuration files with LPGEMM's keys: lines "key = value", comments after #,
 * and sections "[layer]" for what holds for one layer only.  docs/simulation.md has the keys and
 * the choices. */
#include "ir/lex.h"
#include "research/research.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 64 };
enum key { LENGTH, TARGET, ROUNDING, LAYERS, SEED, KEYS };
static const char *const names[KEYS] = {
    "groupedCumulativeLength", "targetFloatType", "roundingType", "quantLayer", "seed",
};

/* [key]: the value as written in the file, and the number of its line.  The line is 0 if the file
 * does not have the key. */
struct settings {
    struct word value[KEYS];
    int line[KEYS];
};

/* State of the reader of a configuration file. */
struct reader {
    /* settings of all layers, of the wanted layer, and of other layers */
    struct settings all, layer, other;
    /* settings of the current section */
    struct settings *now;
    const char *wanted;
    bool met;                           /* true: the section of the wanted layer has been read */
    int line;
    struct diag *d;
};

/* Reports what is wrong with a value.  Returns false. */
static bool fail_value(const struct reader *r, int line, const char *key, struct word v,
                       const char *what)
{
    return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: %s: '%.*s' %s", line, key,
                       (int)(v.n < MAX_NAME ? v.n : MAX_NAME), v.s, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Returns a word without blanks at its ends. */
static struct word trim(struct word w)
{
    while (w.n && is_blank(*w.s))
        w.s++, w.n--;
    while (w.n && is_blank(w.s[w.n - 1]))
        w.n--;
    return w;
}

/* Removes surrounding white space and one pair of quotes. */
static struct word unquote(struct word w)
{
    w = trim(w);
    if (w.n > 1 && (*w.s == '"' || *w.s == '\'') && w.s[w.n - 1] == *w.s)
        w.s++, w.n -= 2;
    return trim(w);
}

/* Copies the word in lower case and without white space.  Returns false if it is empty or too
 * long. */
static bool lower_case(struct word w, char name[MAX_NAME])
{
    size_t n = 0;

    w = unquote(w);
    for (size_t i = 0; i < w.n; i++) {
        if (is_blank(w.s[i]))
            continue;
        if (n == MAX_NAME - 1)
            return false;
        name[n++] = w.s[i] >= 'A' && w.s[i] <= 'Z' ? (char)(w.s[i] + 32) : w.s[i];
    }
    name[n] = 0;
    return n > 0;
}

/* ---- values of a configuration file -------------------------------------------------------- */

/* Reads the length of groups.  It is 1 if the key is absent.  Returns false, with an error, if it
 * is wrong. */
static bool read_length(const struct reader *r, const struct settings *s, int64_t *length)
{
    *length = 1;
    if (!s->line[LENGTH] ||
        (limber_lex_int(unquote(s->value[LENGTH]), length) && *length >= 1 && *length <= INT32_MAX))
        return true;
    return fail_value(r, s->line[LENGTH], names[LENGTH], s->value[LENGTH],
                      "is not a number from 1 to 2147483647");
}

/* Reads the rounding.  Sets *mode to its two letters in a unit's description.  Returns false, with
 * an error, if it is wrong. */
static bool read_rounding(const struct reader *r, const struct settings *s, const char **mode)
{
    static const char *const words[][2] = {
        { "nearest", "rn" }, { "truncate", "rz" }, { "stochastic", "rs" }, { "rn", "rn" },
        { "rne", "rn" },     { "ra", "ra" },       { "rna", "ra" },        { "rz", "rz" },
        { "ru", "ru" },      { "rd", "rd" },       { "ro", "ro" },         { "rs", "rs" },
        { "sr", "rs" },
    };
    char name[MAX_NAME];

    *mode = "rn";
    if (!s->line[ROUNDING])
        return true;
    for (size_t i = 0; lower_case(s->value[ROUNDING], name) && i < COUNT(words); i++)
        if (!strcmp(name, words[i][0])) {
            *mode = words[i][1];
            return true;
        }
    return fail_value(r, s->line[ROUNDING], names[ROUNDING], s->value[ROUNDING],
                      "is none of nearest truncate stochastic rn ra rz ru rd ro rs");
}

/* Reads the seed, which stochastic rounding needs.  Sets seed to " seed=NUMBER" or "".  Returns
 * false, with an error, if it is wrong or missing. */
static bool read_seed(const struct reader *r, const struct settings *s, const char *mode,
                      char seed[MAX_NAME])
{
    struct word w = unquote(s->value[SEED]);

    *seed = 0;
    if (s->line[SEED]) {
        for (size_t i = 0; i < w.n; i++)
            if (w.s[i] < '0' || w.s[i] > '9')
                w.n = 0;
        if (!w.n || w.n > 20)
            return fail_value(r, s->line[SEED], names[SEED], s->value[SEED],
                              "is not a number from 0 to 2^64-1");
        snprintf(seed, MAX_NAME, " seed=%.*s", (int)w.n, w.s);
    } else if (!strcmp(mode, "rs")) {
        return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                           "line %d: %s: stochastic rounding needs a "
                           "line 'seed = NUMBER'",
                           s->line[ROUNDING], names[ROUNDING]);
    }
    return true;
}

/* Makes the unit that the settings describe.  Leaves it empty if they name no format.  Returns
 * false, with an error, if a setting is wrong. */
static bool describe_unit(const struct reader *r, const struct settings *s, limber_unit *unit)
{
    char format[MAX_NAME], seed[MAX_NAME], groups[2 * MAX_NAME + 32] = "", text[8 * MAX_NAME];
    struct diag why = { 0 };
    const char *mode;
    int64_t length;

    if (!read_length(r, s, &length) || !read_rounding(r, s, &mode) || !read_seed(r, s, mode, seed))
        return false;
    if (!s->line[TARGET])
        return true;
    if (!lower_case(s->value[TARGET], format) || strpbrk(format, ":=|\n"))
        return fail_value(r, s->line[TARGET], names[TARGET], s->value[TARGET], "is no format");
    if (length > 1)
        snprintf(groups, sizeof groups, " group=%lld outer=%s:%s", (long long)length, format, mode);
    snprintf(text, sizeof text, "in=%s mul=%s:%s acc=%s:%s%s%s", format, format, mode, format, mode,
             groups, seed);
    if (limber_unit_read(text, unit, &why))
        return true;
    return limber_fail(r->d, why.status, "line %d: %s: %s", s->line[TARGET], names[TARGET],
                       why.text);
}

/* ---- lines and sections of the file -------------------------------------------------------- */

/* Reads the next line of *at without its comment.  Returns false at the end of the text. */
static bool next_line(const char **at, struct word *line)
{
    const char *s = *at;
    char quote = 0;

    if (!*s)
        return false;
    line->s = s;
    line->n = 0;
    for (bool comment = false; *s && *s != '\n'; s++) {
        if (!quote && *s == '#')
            comment = true;
        if (quote ? *s == quote : *s == '"' || *s == '\'')
            quote = quote ? 0 : *s;
        line->n += !comment;
    }
    *at = s + (*s == '\n');
    *line = trim(*line);
    return true;
}

/* Begins a section "[layer]".  Settings of layers that are not wanted are kept separate, and not
 * used.  Returns false, with an error, if it is wrong. */
static bool begin_section(struct reader *r, struct word line)
{
    struct word name;

    if (line.n < 3 || line.s[line.n - 1] != ']')
        return fail_value(r, r->line, "section", line, "is not [layer]");
    name = unquote((struct word){ line.s + 1, line.n - 2 });
    if (!name.n)
        return fail_value(r, r->line, "section", line, "is not [layer]");
    if (!r->wanted || !limber_lex_is(name, r->wanted)) {
        memset(&r->other, 0, sizeof r->other);
        r->now = &r->other;
        return true;
    }
    if (r->met)
        return fail_value(r, r->line, "section", line, "stands twice");
    r->met = true;
    r->now = &r->layer;
    return true;
}

/* Reads "key = value" into the settings of the current section, and checks the value.  Returns
 * false, with an error, if one of them is wrong. */
static bool read_assignment(struct reader *r, struct word line)
{
    struct word v = line, name = trim(limber_lex_cut(&v, '='));
    struct settings alone = { 0 };
    limber_unit ignored;
    int k = 0;

    if (name.n == line.n)
        return fail_value(r, r->line, "line", line, "is neither key = value nor [layer]");
    while (k < KEYS && !limber_lex_is(name, names[k]))
        k++;
    if (k == KEYS)
        return fail_value(r, r->line, "key", name, "is unknown");
    if (r->now->line[k])
        return fail_value(r, r->line, "key", name, "stands twice");
    if (k == LAYERS && r->now != &r->all)
        return fail_value(r, r->line, "key", name, "cannot hold for one layer");
    r->now->value[k] = trim(v);
    r->now->line[k] = r->line;
    /* values are checked at once, since those for other layers are not used later */
    alone.value[k] = r->now->value[k];
    alone.line[k] = r->line;
    if (k == ROUNDING) {
        alone.value[SEED] = (struct word){ "0", 1 };
        alone.line[SEED] = r->line;
    }
    return describe_unit(r, &alone, &ignored);
}

/* Sets *listed to whether the layer is quantised: true if the key quantLayer is absent, or names
 * the wanted layer, or, if no layer is wanted, names any layer. */
static bool find_listed(struct reader *r, int *listed)
{
    struct word v = r->all.value[LAYERS];
    int line = r->all.line[LAYERS];

    *listed = !line;
    if (!line)
        return true;
    if (v.n < 2 || *v.s != '[' || v.s[v.n - 1] != ']')
        return fail_value(r, line, names[LAYERS], v, "is not [layer,layer]");
    for (struct word rest = trim((struct word){ v.s + 1, v.n - 2 }); rest.n;) {
        struct word name = unquote(limber_lex_cut(&rest, ','));

        if (!name.n || memchr(name.s, '[', name.n) || memchr(name.s, ']', name.n))
            return fail_value(r, line, names[LAYERS], v, "is not [layer,layer]");
        *listed |= !r->wanted || limber_lex_is(name, r->wanted);
    }
    return true;
}

/* Converts a configuration of LPGEMM to the unit that computes `layer`, from the settings of all
 * layers, which the layer's own settings replace.  *listed: whether the layer is quantised; if
 * not, *unit is empty. */
bool limber_unit_lpgemm_read(const char *text, const char *layer, limber_unit *unit, int *listed,
                             struct diag *d)
{
    struct reader r = { .wanted = layer, .d = d };
    struct settings both;
    struct word line;
    int quantised;

    memset(unit, 0, sizeof *unit);
    if (listed)
        *listed = 0;
    if (!text)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "text is NULL");
    r.now = &r.all;
    for (r.line = 1; next_line(&text, &line); r.line++)
        if (line.n && !(*line.s == '[' ? begin_section(&r, line) : read_assignment(&r, line)))
            return false;
    both = r.all;
    for (int k = 0; k < KEYS; k++)
        if (r.layer.line[k]) {
            both.value[k] = r.layer.value[k];
            both.line[k] = r.layer.line[k];
        }
    if (!find_listed(&r, &quantised))
        return false;
    if (quantised && !both.line[TARGET])
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is missing", names[TARGET]);
    if (quantised && !describe_unit(&r, &both, unit))
        return false;
    if (listed)
        *listed = quantised;
    return true;
}
