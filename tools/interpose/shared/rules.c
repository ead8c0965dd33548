/* SPDX-License-Identifier: BSD-3-Clause
 * Rules give matching calls a setting of their own:
 *
 *     rule ROUTINE... [m<N n>=N k=N work>N caller=NAME]... -> off | CONTRACT [scheme=NAME]
 *
 * The contract simulate=UNIT extends to the end of the line. */
#define _GNU_SOURCE     /* dladdr, FNM_CASEFOLD */
#include "tools/interpose/shared/interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing contracts ----------------------------------------------------------------------- */

bool interpose_read_number(const char *s, int least, int most, int *out)
{
    char *rest;
    long v;

    errno = 0;
    v = strtol(s, &rest, 10);
    *out = (int)v;
    return *s >= '0' && *s <= '9' && !*rest && !errno && v >= least && v <= most;
}

/* Removes blanks at both ends of s, in place, and returns the first other character's address. */
char *interpose_trim(char *s)
{
    size_t n;

    s += strspn(s, " \t");
    n = strlen(s);
    while (n > 0 && strchr(" \t", s[n - 1]))
        s[--n] = 0;
    return s;
}

enum { SIMULATE = sizeof "simulate=" - 1 };

bool interpose_is_unit(const char *s)
{
    return strncmp(s, "simulate=", SIMULATE) == 0;
}

/* Parses "simulate=UNIT". contract.unit is set later, by finish_setting(), since the setting's
 * address may still change. */
static bool read_unit(const char *s, struct interpose_setting *to)
{
    to->unit = (limber_unit)LIMBER_UNIT_INIT;
    return strlen(s) < sizeof to->words &&
           limber_unit_parse(s + SIMULATE, &to->unit) == LIMBER_STATUS_OK;
}

/* Returns why s is no contract: `wanted` or, if s looks like a unit's description, what is wrong
 * in that.  The text is valid until the thread's next call. */
const char *interpose_no_contract(const char *s, const char *wanted)
{
    static _Thread_local char text[400];
    struct interpose_setting to;
    const char *why = "it is too long";

    if (!interpose_is_unit(s))
        return wanted;
    if (!read_unit(s, &to) && strlen(s) < sizeof to.words)
        why = limber_error_text();
    if (strncmp(why, "simulate: ", 10) == 0)
        why += 10;
    snprintf(text, sizeof text, "no unit: %s (`limber units` lists those with a name)", why);
    return text;
}

/* Parses a contract, such as "bits=40", into a setting.  Returns false if the text is invalid. */
bool interpose_read_contract(const char *s, struct interpose_setting *to)
{
    limber_contract *k = &to->contract;

    k->size = sizeof *k;
    if (strcmp(s, "native") == 0)
        k->promise = LIMBER_CONTRACT_NATIVE;
    else if (strcmp(s, "reproducible") == 0)
        k->promise = LIMBER_CONTRACT_REPRODUCIBLE;
    else if (strcmp(s, "correct") == 0)
        k->promise = LIMBER_CONTRACT_CORRECT;
    else if (strcmp(s, "fast") == 0)
        k->promise = LIMBER_CONTRACT_FAST;
    else if (strncmp(s, "fast=", 5) == 0 && interpose_read_number(s + 5, 1, 64, &k->slices))
        k->promise = LIMBER_CONTRACT_FAST;
    else if (strncmp(s, "bits=", 5) == 0 && interpose_read_number(s + 5, 1, 160, &k->bits))
        k->promise = LIMBER_CONTRACT_BITS;
    else if (interpose_is_unit(s) && read_unit(s, to))
        k->promise = LIMBER_CONTRACT_SIMULATE;
    else
        return false;
    snprintf(to->words, sizeof to->words, "%s", s);
    to->on = true;
    return true;
}

static bool is_scheme(const char *s)
{
    size_t length = strcspn(s, "+");
    const limber_scheme *scheme;

    for (int i = 0; (scheme = limber_scheme_at(i)); i++)
        if (strlen(scheme->name) == length && strncmp(scheme->name, s, length) == 0)
            return strcmp(scheme->name, "simulate") != 0 &&
                   (!s[length] || is_scheme(s + length + 1));
    return false;
}

bool interpose_read_scheme(const char *s, struct interpose_setting *to)
{
    if (!is_scheme(s) || strlen(s) >= sizeof to->scheme)
        return false;
    strcpy(to->scheme, s);
    to->contract.size = sizeof to->contract;
    to->contract.scheme = to->scheme;
    return true;
}

const char *interpose_conflict(const limber_contract *k)
{
    if (k->promise == LIMBER_CONTRACT_FAST && !k->scheme)
        return "a promise of a scheme, and none is named (LIMBER_SCHEME, scheme= in a rule)";
    if (k->promise == LIMBER_CONTRACT_SIMULATE && k->scheme)
        return "what a unit computes, and LIMBER_SCHEME names a scheme";
    if (k->promise == LIMBER_CONTRACT_REPRODUCIBLE && k->scheme && strcmp(k->scheme, "native") != 0)
        return "a promise of the scheme native, and LIMBER_SCHEME names another";
    return NULL;
}

/* ---- rules ----------------------------------------------------------------------------------- */

enum { MOST_NAMES = 16, MOST_CONDITIONS = 8 };

/* A condition on the sizes of a call. */
struct condition {
    char what; /* what is compared: m, n, k, or w for the product m n k */
    /* what the comparison accepts; "<=" sets less and equal */
    bool less, equal, more;
    double value;
};

/* A rule: calls that match it get its setting. */
struct rules {
    struct rules *next;
    char *words; /* owned; `name` and `caller` point into it */
    const char *name[MOST_NAMES];
    int names;
    struct condition condition[MOST_CONDITIONS];
    int conditions;
    const char *caller; /* a pattern of fnmatch, or NULL */
    struct interpose_setting setting;
};

static bool set_error(char *why, size_t size, const char *text, const char *word)
{
    snprintf(why, size, text, word);
    return false;
}

/* Parses a condition such as "m>=512", and appends it. */
static bool read_condition(struct rules *r, char *word, char *why, size_t size)
{
    static const struct {
        const char *name;
        char what;
    } sizes[] = { { "m", 'm' }, { "n", 'n' }, { "k", 'k' }, { "work", 'w' } };
    size_t length = strcspn(word, "<>="), signs = strspn(word + length, "<>=");
    const char *sign = word + length;
    struct condition c = { 0 };
    char *rest;

    if (r->conditions == MOST_CONDITIONS)
        return set_error(why, size, "\"%.60s\" is one condition too many", word);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strlen(sizes[i].name) == length && strncmp(sizes[i].name, word, length) == 0)
            c.what = sizes[i].what;
    if (!c.what)
        return set_error(why, size, "\"%.60s\" is about none of m, n, k, work, caller", word);
    c.less = *sign == '<';
    c.more = *sign == '>';
    c.equal = sign[signs - 1] == '=';
    c.value = strtod(sign + signs, &rest);
    if (signs > 2 || (signs == 2 && (*sign == '=' || !c.equal)) || rest == sign + signs || *rest ||
        !(c.value >= 0))
        return set_error(why, size, "\"%.60s\" compares with no number", word);
    r->condition[r->conditions++] = c;
    return true;
}

/* Reads a word before "->": a routine, a condition or caller=PATTERN.  On failure sets `why` and
 * returns false. */
static bool read_left(struct rules *r, char *word, char *why, size_t size)
{
    if (strncmp(word, "caller=", 7) == 0 && word[7]) {
        r->caller = word + 7;
        return true;
    }
    if (strpbrk(word, "<>="))
        return read_condition(r, word, why, size);
    if (r->names == MOST_NAMES)
        return set_error(why, size, "\"%.60s\" is one routine too many", word);
    r->name[r->names++] = word;
    return true;
}

/* Reads a word after "->": first "off" or a contract, then scheme=NAME.  On failure sets `why` and
 * returns false. */
static bool read_right(struct rules *r, char *word, bool first, char *why, size_t size)
{
    struct interpose_setting *s = &r->setting;

    if (first && strcmp(word, "off") == 0)
        return true;
    if (first && !interpose_read_contract(word, s)) {
        snprintf(why, size, "\"%.60s\" is %s", word,
                 interpose_no_contract(word, "neither off nor a contract"));
        return false;
    }
    if (first)
        return true;
    if (s->on && strncmp(word, "scheme=", 7) == 0 && interpose_read_scheme(word + 7, s))
        return true;
    return set_error(why, size, "\"%.60s\" is no scheme=NAME after a contract", word);
}

/* Parses the words of a rule: routines and conditions, "->", contract and scheme.  On failure sets
 * `why` and returns false. */
static bool read_rule(struct rules *r, char *why, size_t size)
{
    char *rest = r->words, *word;
    bool right = false, first = true, ok = true;

    while (ok && (word = strtok_r(rest, " \t", &rest))) {
        if (strcmp(word, "->") == 0 && !right) {
            right = true;
            rest = interpose_trim(rest);
            if (interpose_is_unit(rest)) {
                ok = read_right(r, rest, true, why, size);
                first = false;
                break;
            }
        } else if (right) {
            ok = read_right(r, word, first, why, size);
            first = false;
        } else {
            ok = read_left(r, word, why, size);
        }
    }
    if (ok && (!right || first))
        return set_error(why, size, "a rule ends in -> and a contract, or off%s", "");
    if (ok && r->names == 0)
        return set_error(why, size, "a rule begins with a routine, such as dgemm or *%s", "");
    if (ok && interpose_conflict(&r->setting.contract)) {
        snprintf(why, size, "\"%.60s\" is %s", r->setting.words,
                 interpose_conflict(&r->setting.contract));
        return false;
    }
    return ok;
}

/* Parses a rule and appends it to the list.  On failure writes the reason to `why` and returns
 * false. */
bool interpose_rules_add(struct rules **rules, char *words, char *why, size_t size)
{
    struct rules *r = calloc(1, sizeof *r);

    while (*rules)
        rules = &(*rules)->next;
    if (!r || !(r->words = strdup(words)))
        snprintf(why, size, "no memory");
    else if (read_rule(r, why, size)) {
        *rules = r;
        return true;
    }
    if (r)
        free(r->words);
    free(r);
    return false;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* Writes the BLAS name of a routine: dgemm_, dgemm_64_ and scipy_cblas_dgemm64_ give "dgemm". */
static void write_plain_name(const char *routine, char *plain, size_t size)
{
    size_t n;

    if (strncmp(routine, "scipy_", 6) == 0)
        routine += 6;
    if (strncmp(routine, "cblas_", 6) == 0)
        routine += 6;
    snprintf(plain, size, "%s", routine);
    n = strlen(plain);
    while (n > 0 && plain[n - 1] == '_')
        plain[--n] = 0;
    if (n > 2 && strcmp(plain + n - 2, "64") == 0)
        plain[n -= 2] = 0;
    while (n > 0 && plain[n - 1] == '_')
        plain[--n] = 0;
}

/* Returns whether a rule names a routine, with or without prefix and suffix. */
static bool matches_routine(const struct rules *r, const char *routine, const char *plain)
{
    for (int i = 0; i < r->names; i++)
        if (fnmatch(r->name[i], plain, FNM_CASEFOLD) == 0 ||
            fnmatch(r->name[i], routine, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

/* Returns whether a call fulfils a condition on its sizes. */
static bool is_true(const struct condition *c, const struct interpose_call *call)
{
    double m = (double)call->m, n = (double)call->n, k = (double)call->k;
    double x = c->what == 'm' ? m : c->what == 'n' ? n : c->what == 'k' ? k : m * n * k;

    return (c->less && x < c->value) || (c->more && x > c->value) || (c->equal && x == c->value);
}

/* True if the pattern matches the calling function or its file.  A function's name is known only if
 * its file exports it. */
static bool matches_caller(const char *pattern, const void *site)
{
    const char *file;
    Dl_info info;

    if (!site || !dladdr(site, &info))
        return false;
    if (info.dli_sname && fnmatch(pattern, info.dli_sname, 0) == 0)
        return true;
    file = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return info.dli_fname && (fnmatch(pattern, info.dli_fname, 0) == 0 ||
                              (file && fnmatch(pattern, file + 1, 0) == 0));
}

/* True if a rule's conditions, routine and caller match the call. plain: the routine's name
 * from write_plain_name. */
static bool matches_call(const struct rules *r, const struct interpose_call *call,
                         const char *plain)
{
    for (int i = 0; i < r->conditions; i++)
        if (!is_true(&r->condition[i], call))
            return false;
    return matches_routine(r, call->routine, plain) &&
           (!r->caller || matches_caller(r->caller, call->site));
}

/* Returns the setting of the first rule that matches the call; NULL if none does. */
const struct interpose_setting *interpose_rules_find(struct rules *rules,
                                                     const struct interpose_call *call)
{
    char plain[64];

    if (!rules)
        return NULL;
    write_plain_name(call->routine, plain, sizeof plain);
    for (struct rules *r = rules; r; r = r->next)
        if (matches_call(r, call, plain))
            return &r->setting;
    return NULL;
}

void interpose_rules_each(struct rules *rules, void (*fn)(struct interpose_setting *))
{
    for (; rules; rules = rules->next)
        fn(&rules->setting);
}

bool interpose_rules_serve(const struct rules *rules)
{
    for (; rules; rules = rules->next)
        if (rules->setting.on)
            return true;
    return false;
}
