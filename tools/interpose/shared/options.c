/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* strdup, newlocale under any standard */
#include "tools/interpose/shared/interpose.h"
#include "tools/plain_text.h"

#include <limber/environment.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct interpose_options options;
static struct rules *rules;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static locale_t plain_locale;
static pthread_once_t plain_made = PTHREAD_ONCE_INIT;

static void make_plain(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t interpose_plain_numbers(void)
{
    pthread_once(&plain_made, make_plain);
    return uselocale(plain_locale);
}

/* Prints a formatted message after the library's name, with control characters replaced. */
void interpose_message(const char *format, ...)
{
    char line[1000], *shown;
    int n = snprintf(line, sizeof line, "%s: ", interpose_name);
    va_list args;

    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    shown = plain_text_of(line);
    /* a single write, so that messages of several processes do not mix */
    fprintf(stderr, "%s\n", shown ? shown : interpose_name);
    free(shown);
}

/* ---- settings and their values --------------------------------------------------------------- */

static bool set_contract(const char *s)
{
    return interpose_read_contract(s, &options.setting);
}

static bool set_scheme(const char *s)
{
    return interpose_read_scheme(s, &options.setting);
}

static bool set_verbose(const char *s)
{
    return interpose_read_number(s, 0, 9, &options.verbose);
}

static bool set_check(const char *s)
{
    return interpose_read_number(s, 0, 1000, &options.check);
}

static bool set_quiet(const char *s)
{
    return interpose_read_number(s, 0, 1, &options.quiet);
}

static bool set_trust(const char *s)
{
    return interpose_read_number(s, 0, 1, &options.trust);
}

static bool set_rows(const char *s)
{
    return interpose_read_number(s, 0, 8192, &options.rows);
}

static bool set_background(const char *s)
{
    int on;

    if (!interpose_read_number(s, 0, 1, &on))
        return false;
    options.background = on;
    return true;
}

static bool set_threads(const char *s)
{
    return interpose_read_number(s, 1, 1024, &options.threads);
}

static bool set_text(const char **to, const char *s)
{
    *to = strdup(s);
    return *to && *s;
}

static bool set_report(const char *s)
{
    return set_text(&options.report, s);
}
/* Parses "FOLDER,BYTES".  BYTES may end in K, M or G, which are powers of 1024. */
static bool set_capture(const char *s)
{
    static const char units[] = "KMG";
    const char *comma = strrchr(s, ','), *unit;
    unsigned long long v;
    char *rest;
    int shift = 0;

    if (!comma || comma == s || comma[1] < '0' || comma[1] > '9')
        return false;
    errno = 0;
    v = strtoull(comma + 1, &rest, 10);
    if (*rest && (unit = strchr(units, *rest))) {
        shift = 10 * (int)(unit - units + 1);
        rest++;
    }
    if (*rest || errno || v == 0 || v > (unsigned long long)INT64_MAX >> shift)
        return false;
    options.capture_bytes = (int64_t)(v << shift);
    options.capture = strndup(s, (size_t)(comma - s));
    return options.capture;
}

static bool set_backend(const char *s)
{
    return set_text(&options.backend, s);
}
static bool set_cache_dir(const char *s)
{
    return set_text(&options.cache_dir, s);
}

/* Settings: name in the file LIMBER_CONFIG, and environment variable, which takes precedence.
 * `library`: only the Limber library reads the variable. */
static const struct key {
    const char *name, *variable;
    bool (*set)(const char *s);
    bool library;
    const char *wanted;
} keys[] = {
    { "contract", "LIMBER_CONTRACT", set_contract, false,
      "none of native, reproducible, bits=N (1 to 160), correct, fast, fast=SLICES (1 to 64), "
      "simulate=UNIT (`limber units`)" },
    { "scheme", "LIMBER_SCHEME", set_scheme, false, "no scheme; `limber formats` lists them" },
    { "verbose", "LIMBER_VERBOSE", set_verbose, false, "no number from 0 to 9" },
    { "report", "LIMBER_REPORT", set_report, false, "no file" },
    { "report_rows", "LIMBER_REPORT_ROWS", set_rows, false, "no number from 0 to 8192" },
    { "capture", "LIMBER_CAPTURE", set_capture, false,
      "no folder and number of bytes, such as operands,512M" },
    { "quiet", "LIMBER_QUIET", set_quiet, false, "neither 0 nor 1" },
    { "trust_blas", "LIMBER_TRUST_BLAS", set_trust, false, "neither 0 nor 1" },
    { "check", "LIMBER_CHECK", set_check, false, "no number from 0 to 1000" },
    { "background", "LIMBER_BACKGROUND", set_background, false, "neither 0 nor 1" },
    { "backend", "LIMBER_BACKEND", set_backend, true, "no backend" },
    { "threads", "LIMBER_THREADS", set_threads, true, "no number from 1 to 1024" },
    { "cache_dir", "LIMBER_CACHE_DIR", set_cache_dir, true, "no directory" },
};
enum { KEYS = sizeof keys / sizeof *keys };

static const char *wanted_by(const struct key *k, const char *value)
{
    return k->set == set_contract ? interpose_no_contract(value, k->wanted) : k->wanted;
}

/* Prints that a setting is invalid, and that all calls are therefore forwarded; returns false. */
static bool refuse(const char *format, ...)
{
    char text[800];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    interpose_message("%s; every product is left to %s", text, interpose_original);
    return false;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Sets the option that a line of the file names, unless its environment variable is set, which
 * has precedence.  Returns false, with the reason, if the key is unknown or repeated, or the
 * value wrong. */
static bool read_key(const char *file, int at, const char *word, const char *value)
{
    static bool seen[KEYS];

    for (int i = 0; i < KEYS; i++) {
        if (strcmp(word, keys[i].name) != 0)
            continue;
        if (seen[i])
            return refuse("%s:%d: %s stands there twice", file, at, word);
        seen[i] = true;
        return limber_variable_value(keys[i].variable) || keys[i].set(value) ||
               refuse("%s:%d: %s %.60s is %s", file, at, word, value, wanted_by(&keys[i], value));
    }
    return refuse("%s:%d: unknown key \"%.60s\"", file, at, word);
}

/* Reads a line of the options file: a rule or a key with a value; an empty line is accepted. */
static bool read_line(const char *file, int at, char *line)
{
    char *rest = line, *word = strtok_r(line, " \t", &rest), *value, why[600];

    if (!word)
        return true;
    if (strcmp(word, "rule") == 0)
        return interpose_rules_add(&rules, rest, why, sizeof why) ||
               refuse("%s:%d: %s", file, at, why);
    value = interpose_trim(rest);
    if (!*value || (strpbrk(value, " \t") && !interpose_is_unit(value)))
        return refuse("%s:%d: \"%.60s\" needs one value", file, at, word);
    return read_key(file, at, word, value);
}

/* Reads the settings and rules of the file LIMBER_CONFIG.  On failure prints a message and returns
 * false. */
static bool read_file(const char *name)
{
    FILE *f = fopen(name, "re");
    char *line = NULL;
    size_t room = 0;
    bool ok = true;

    if (!f)
        return refuse("LIMBER_CONFIG = \"%.200s\": %s", name, strerror(errno));
    for (int at = 1; ok && getline(&line, &room, f) >= 0; at++) {
        line[strcspn(line, "#\r\n")] = 0;
        ok = read_line(name, at, line);
    }
    if (ok && ferror(f))
        ok = refuse("LIMBER_CONFIG = \"%.200s\": %s", name, strerror(errno));
    free(line);
    fclose(f);
    return ok;
}

/* ---- the environment ------------------------------------------------------------------------- */

static bool read_environment(void)
{
    for (int i = 0; i < KEYS; i++) {
        const char *s = limber_variable_value(keys[i].variable);

        if (s && !keys[i].library && !keys[i].set(s))
            return refuse("%s = \"%.60s\" is %s", keys[i].variable, s, wanted_by(&keys[i], s));
    }
    return true;
}

static void print_unknown(void *user, const char *name)
{
    (void)user;
    interpose_message("%s is no variable of Limber's, and is ignored", name);
}

/* Reads all settings from the file and the environment, and checks them.  Returns false, after a
 * message, if one is invalid. */
static bool read_all(void)
{
    const char *file = limber_variable_value("LIMBER_CONFIG");

    options.check = -1;
    options.trust = 1;
    options.rows = 100;
    if ((file && !read_file(file)) || !read_environment())
        return false;
    if (options.setting.on && interpose_conflict(&options.setting.contract))
        return refuse("LIMBER_CONTRACT = \"%s\" is %s", options.setting.words,
                      interpose_conflict(&options.setting.contract));
    if (options.check < 0)
        options.check = options.report ? 2 : 0;
    if (options.verbose && *interpose_lacks_llvm())
        interpose_message("%s", interpose_lacks_llvm());
    limber_variable_unknown(print_unknown, NULL);
    return true;
}

/* Completes a setting when its address is final.  Under `native` the other library keeps the
 * contract, too, so calls are forwarded, not interpreted, while a kernel is compiled. */
static void finish_setting(struct interpose_setting *s)
{
    bool native = s->contract.promise == LIMBER_CONTRACT_NATIVE;

    if (s->contract.promise == LIMBER_CONTRACT_SIMULATE)
        s->contract.unit = &s->unit;
    if (options.background)
        s->contract.on_miss = native ? LIMBER_ON_MISS_REFUSE : LIMBER_ON_MISS_GENERIC;
    else if (native)
        s->contract.on_miss = LIMBER_ON_MISS_COMPILE;
}

/* Reads the file and the environment; called once. */
static void read_options(void)
{
    locale_t before = interpose_plain_numbers();
    bool understood = read_all();

    uselocale(before);
    if (!understood) {
        options = (struct interpose_options){ .verbose = options.verbose, .refused = true };
        return;
    }
    options.on = options.setting.on || interpose_rules_serve(rules);
    finish_setting(&options.setting);
    interpose_rules_each(rules, finish_setting);
}

const struct interpose_options *interpose_options(void)
{
    pthread_once(&read_once, read_options);
    return &options;
}

limber_config interpose_config(void)
{
    const struct interpose_options *o = interpose_options();

    return (limber_config){ .size = sizeof(limber_config),
                            .backend = o->backend,
                            .threads = o->threads,
                            .cache_dir = o->cache_dir,
                            .verbose = -1 };
}

const struct interpose_setting *interpose_choose(const struct interpose_call *call)
{
    const struct interpose_options *o = interpose_options();
    const struct interpose_setting *s = o->on ? interpose_rules_find(rules, call) : NULL;

    return s ? s : &o->setting;
}
