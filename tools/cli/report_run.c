/* SPDX-License-Identifier: BSD-3-Clause
 * Shows the reports (LIMBER_REPORT) of libraries that intercept BLAS and cuBLAS calls: what Limber
 * computed, what it did not and why, times compared with the BLAS, advice. */
#include "tools/cli/page.h"
#include "tools/cli/report_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- reading a report of a run --------------------------------------------------------------- */

static double number_of(const cJSON *o, const char *name)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsNumber(x) ? x->valuedouble : 0;
}

static void copy_text(const cJSON *o, const char *name, char *to, size_t size)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, name);

    snprintf(to, size, "%s", cJSON_IsString(x) ? x->valuestring : "");
}

/* Writes a routine's BLAS name: without prefixes of Python's wheels and suffixes for the width of
 * integers. */
static void write_plain_name(const char *from, char *to, size_t size)
{
    static const char *const prefixes[] = { "scipy_", "limber32_", "limber64_" };
    size_t n;

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(from, prefixes[i], strlen(prefixes[i])))
            from += strlen(prefixes[i]);
    snprintf(to, size, "%s", from);
    n = strlen(to);
    if (n > 4 && !strcmp(to + n - 4, "_64_"))
        to[n - 4] = '\0';
    else if (n > 3 && (!strcmp(to + n - 3, "64_") || !strcmp(to + n - 3, "_64")))
        to[n - 3] = '\0';
    else if (n > 1 && to[n - 1] == '_')
        to[n - 1] = '\0';
}

/* Returns the seconds without those for compiling kernels, which a later run finds in the cache. */
static double warm_seconds(const struct group *g)
{
    return fmax(g->seconds - g->compiling, 0);
}

/* Adds the calls of a group to a sum. */
static void add_group(struct group *sum, const struct group *g)
{
    sum->calls += g->calls;
    sum->seconds += g->seconds;
    sum->original += g->original;
    sum->rated_calls += g->rated_calls;
    sum->rated += g->rated;
    sum->compiling += g->compiling;
    sum->elements += g->elements;
    sum->broken += g->broken;
    sum->ulps = fmax(sum->ulps, g->ulps);
    sum->products += g->products;
    sum->swamped += g->swamped;
    sum->partly += g->partly;
    sum->underflow += g->underflow;
    sum->overflow += g->overflow;
}

/* Reads an entry of a report: the sums over calls of one routine, shape and outcome. */
static struct group read_call(const cJSON *o)
{
    const cJSON *unit = cJSON_GetObjectItemCaseSensitive(o, "unit");
    struct group g = { .m = (int64_t)number_of(o, "m"),
                       .n = (int64_t)number_of(o, "n"),
                       .k = (int64_t)number_of(o, "k"),
                       .rest = number_of(o, "shapes"),
                       .calls = number_of(o, "calls"),
                       .seconds = number_of(o, "seconds"),
                       .original = number_of(o, "estimated_original_seconds"),
                       .compiling = number_of(o, "compile_seconds"),
                       .elements = number_of(o, "checked_elements"),
                       .broken = number_of(o, "broken"),
                       .ulps = number_of(o, "worst_ulps"),
                       .products = number_of(unit, "products"),
                       .swamped = number_of(unit, "swamped"),
                       .partly = number_of(unit, "partly_swamped"),
                       .underflow = number_of(unit, "underflow"),
                       .overflow = number_of(unit, "overflow") + number_of(unit, "sum_overflow") };
    char name[64];

    copy_text(o, "routine", name, sizeof name);
    write_plain_name(name, g.routine, sizeof g.routine);
    copy_text(o, "caller", g.caller, sizeof g.caller);
    copy_text(o, "contract", g.contract, sizeof g.contract);
    g.served = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "served"));
    copy_text(o, g.served ? "scheme" : "why_not", g.outcome, sizeof g.outcome);
    if (g.served && g.original > 0) {
        g.rated_calls = g.calls;
        g.rated = warm_seconds(&g);
    }
    return g;
}

/* Returns the group of this routine and outcome.  If the table is full, returns the last group. */
static struct group *group_of(struct run_totals *r, const struct group *g)
{
    struct group *at = r->group;

    while (at < r->group + r->groups &&
           (strcmp(at->routine, g->routine) || strcmp(at->outcome, g->outcome) ||
            at->served != g->served))
        at++;
    if (at == r->group + MOST_GROUPS)
        return at - 1;
    if (at == r->group + r->groups) {
        *at = (struct group){ .served = g->served };
        memcpy(at->routine, g->routine, sizeof at->routine);
        memcpy(at->outcome, g->outcome, sizeof at->outcome);
        r->groups++;
    }
    return at;
}

/* Adds a contract to the list, which reads as "correct and bits=40". */
static void add_contract(struct run_totals *r, const char *words)
{
    const size_t n = strlen(words), have = strlen(r->contracts);

    for (const char *at = r->contracts; n && (at = strstr(at, words)); at += n)
        if ((at == r->contracts || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return;
    if (n && have + n + 6 < sizeof r->contracts)
        snprintf(r->contracts + have, sizeof r->contracts - have, "%s%s", have ? " and " : "",
                 words);
}

/* Adds calls to the sums of their routine and caller. */
static void add_site(struct run_totals *r, const struct group *g)
{
    struct group *at = r->site;

    while (at < r->site + r->sites &&
           (strcmp(at->routine, g->routine) != 0 || strcmp(at->caller, g->caller) != 0))
        at++;
    if (at < r->site + r->sites) {
        add_group(at, g);
        return;
    }
    *at = *g;
    r->sites++;
}

/* Enlarges a list of `count` groups by one. */
static bool make_room(struct group **list, int count)
{
    struct group *more = realloc(*list, ((size_t)count + 1) * sizeof **list);

    if (more)
        *list = more;
    return more;
}

/* Adds a report's entries to the lists of shapes and callers, and to the totals by routine and
 * outcome.  On failure prints a message and returns false. */
static bool add_calls(struct run_totals *r, const cJSON *calls)
{
    int count = cJSON_GetArraySize(calls);
    const cJSON *o;

    if (!make_room(&r->shape, r->shapes + count) || !make_room(&r->site, r->sites + count))
        return !complain("report: not enough memory");
    cJSON_ArrayForEach(o, calls)
    {
        struct group g = read_call(o);

        add_contract(r, g.contract);
        if (g.rest <= 1)
            r->shape[r->shapes++] = g;
        if (g.products > 0)
            add_site(r, &g);
        add_group(group_of(r, &g), &g);
        add_group(g.served ? &r->served : &r->left, &g);
        if (g.served)
            add_group(strncmp(g.contract, "reproducible", 12) ? &r->exact : &r->ordered, &g);
    }
    return true;
}

/* Adds a report to the sum of all reports.  On failure prints a message and returns false. */
bool run_totals_add(struct run_totals *r, const cJSON *o)
{
    const cJSON *one;

    r->files++;
    copy_text(o, "program", r->program, sizeof r->program);
    copy_text(o, "library", r->library, sizeof r->library);
    if (cJSON_HasObjectItem(o, "contract"))
        copy_text(o, "contract", r->stated, sizeof r->stated);
    if (cJSON_HasObjectItem(o, "interpreted"))
        copy_text(o, "interpreted", r->interpreted, sizeof r->interpreted);
    if (cJSON_HasObjectItem(o, "compiler"))
        copy_text(o, "compiler", r->compiler, sizeof r->compiler);
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(o, "loaded"))
    {
        if (cJSON_IsString(one) &&
            strlen(r->loaded) + strlen(one->valuestring) + 3 < sizeof r->loaded) {
            strcat(r->loaded, *r->loaded ? ", " : "");
            strcat(r->loaded, one->valuestring);
        }
    }
    r->began = r->began > 0 ? fmin(r->began, number_of(o, "began")) : number_of(o, "began");
    r->wall = fmax(r->wall, number_of(o, "wall_seconds"));
    r->opening += number_of(o, "opening_seconds");
    r->unlisted += number_of(o, "unlisted_calls");
    r->incomplete += !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "complete"));
    return add_calls(r, cJSON_GetObjectItemCaseSensitive(o, "calls"));
}

static int by_seconds(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static int by_products(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->products < y->products ? 1 : x->products > y->products ? -1 : 0;
}

/* ---- the verdict: did the calls keep their contracts? ---------------------------------------- */

enum { SHORTEST_RATED = 10 }; /* in milliseconds; shorter times are not compared */

/* Returns the number of calls that were forwarded although a contract was in effect that the BLAS
 * may not keep.  *most: the group with the largest number of such calls. */
static double not_kept(const struct run_totals *r, const struct group **most)
{
    static const char *const keeps[] = { "standard error bound",  "under native",
                                         "is as fast below",      "nothing is multiplied",
                                         "no contract is stated", "a rule leaves" };
    double calls = 0;

    *most = NULL;
    for (int i = 0; i < r->groups; i++) {
        const struct group *g = &r->group[i];
        size_t j = 0;

        while (j < sizeof keeps / sizeof *keeps && !strstr(g->outcome, keeps[j]))
            j++;
        if (g->served || j < sizeof keeps / sizeof *keeps)
            continue;
        calls += g->calls;
        if (!*most || g->calls > (*most)->calls)
            *most = g;
    }
    return calls;
}

/* Sets the verdict: a sentence that tells whether the intercepted calls kept their contracts. */
static void find_verdict(struct run_totals *r)
{
    const struct group *s = &r->served, *most;
    double left = not_kept(r, &most), calls = s->calls + r->left.calls;
    char *to = r->verdict;

    if (calls == 0)
        snprintf(to, sizeof r->verdict, "Nothing to judge: no call reached Limber.");
    else if (s->broken > 0)
        snprintf(to, sizeof r->verdict,
                 "NOT KEPT: %.0f of %.0f elements checked break the contract.", s->broken,
                 s->elements);
    else if (!*r->contracts)
        snprintf(to, sizeof r->verdict, "%s: the BLAS computed all %.0f calls.",
                 *r->stated ? "Rules said off" : "No contract was stated", calls);
    else if (left > 0)
        snprintf(to, sizeof r->verdict,
                 "NOT KEPT by all: the BLAS computed %.0f of %.0f calls, %s%s: %.150s.", left,
                 calls, left > most->calls ? "most of them " : "", most->routine, most->outcome);
    else
        snprintf(to, sizeof r->verdict, "Kept: all %.0f calls that reached Limber kept %s.", calls,
                 r->contracts);
}

/* Returns what the verdict does not cover. */
static const char *scope_of(const struct run_totals *r)
{
    if (strstr(r->contracts, "correct") || strstr(r->contracts, "bits"))
        return "Not covered: what a program or a LAPACK computes from products (a solution, an "
               "eigenvalue), and a program's own loops.";
    return "Not seen: what a BLAS's own LAPACK computes inside itself, and a program's own loops.";
}

/* ---- the report as text ---------------------------------------------------------------------- */

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Writes the first line of the report: "PROGRAM, 2026-11-28 14:03, 12.3 s, contract correct". */
static void write_head(const struct run_totals *r, char *to, size_t size)
{
    char when[40] = "", files[40] = "";
    time_t began = (time_t)r->began;
    struct tm local;

    if (r->began > 0 && localtime_r(&began, &local))
        strftime(when, sizeof when, ", %Y-%m-%d %H:%M", &local);
    if (r->files > 1)
        snprintf(files, sizeof files, ", %d reports", r->files);
    snprintf(to, size, "%.100s%s, %.1f s%s, %s%.100s, by %.30s", base(r->program), when, r->wall,
             files, *r->contracts ? "contract " : "no contract", r->contracts, r->library);
}

/* Writes a factor with at most two digits after the point, and never with an exponent. */
static void write_factor(double x, char *to, size_t size)
{
    if (x < 0.005)
        snprintf(to, size, "below 0.01");
    else
        snprintf(to, size, "%.*f", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x);
}

/* Returns Limber's time without compiling, divided by the BLAS's estimated time, over the calls
 * that have an estimate.  NAN if there are none, or if both times are too short to compare. */
static double ratio_to_blas(const struct group *g)
{
    return g->original > 0 && 1e3 * fmax(g->rated, g->original) >= SHORTEST_RATED ?
               g->rated / g->original :
               NAN;
}

/* Writes Limber's time divided by the BLAS's, such as "51 times"; "" if that is unknown. */
static void write_ratio(const struct group *g, char *to, size_t size)
{
    const double x = ratio_to_blas(g);
    char factor[32];

    *to = '\0';
    if (!g->served || isnan(x))
        return;
    write_factor(x, factor, sizeof factor);
    snprintf(to, size, "%s times", factor);
}

/* Compares Limber's time with the BLAS's in words; "" if both are too short for a comparison. */
static void write_speed(const struct group *g, char *to, size_t size)
{
    const double x = ratio_to_blas(g);
    char factor[32], part[80] = ", ";

    *to = '\0';
    if (isnan(x))
        return;
    if (g->rated_calls < g->calls)
        snprintf(part, sizeof part, "; %.0f of them in %.3g s, ", g->rated_calls, g->rated);
    write_factor(x > 1 ? x : 1 / x, factor, sizeof factor);
    if (x > 1.05)
        snprintf(to, size, "%s%s times as long as the BLAS (about %.3g s)", part, factor,
                 g->original);
    else if (x < 0.95)
        snprintf(to, size, "%s%s times as fast as the BLAS (about %.3g s)", part, factor,
                 g->original);
    else
        snprintf(to, size, "%sas long as the BLAS (about %.3g s)", part, g->original);
}

static void write_start_up(const struct run_totals *r, char *to, size_t size)
{
    snprintf(to, size, "%.3g s to open Limber and %.3g s to compile kernels", r->opening,
             r->served.compiling);
}

/* Writes how many elements were compared with exact values, and what that found. */
static void write_checked(const struct group *g, char *to, size_t size)
{
    char what[80];

    if (g->broken > 0)
        snprintf(what, sizeof what, "%.0f break the contract", g->broken);
    else
        snprintf(what, sizeof what, "all keep the contract");
    snprintf(to, size, "%.0f elements against exact values: %s, largest error %.3g ulp",
             g->elements, what, g->ulps);
}

/* Writes how many elements were compared with the stated order of sums, and what that found. */
static void write_ordered(const struct group *g, char *to, size_t size)
{
    char what[40];

    if (g->broken > 0)
        snprintf(what, sizeof what, "%.0f differ", g->broken);
    else
        snprintf(what, sizeof what, "all equal");
    snprintf(to, size, "%.0f elements against the stated order: %s", g->elements, what);
}

/* ---- advice to the user ---------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void advise(struct run_totals *r, const char *format,
                                                         ...)
{
    va_list args;

    if (r->advices == MOST_ADVICE)
        return;
    va_start(args, format);
    vsnprintf(r->advice[r->advices++], WORDS, format, args);
    va_end(args);
}

/* Number of calls that were forwarded for a reason that contains these words. */
static double left_because(const struct run_totals *r, const char *words)
{
    double calls = 0;

    for (int i = 0; i < r->groups; i++)
        if (!r->group[i].served && strstr(r->group[i].outcome, words))
            calls += r->group[i].calls;
    return calls;
}

/* Returns by how many seconds products of fewer than `work` multiply-adds took longer than the
 * BLAS's estimate.  Products of a matrix and a vector, which have k = 0, are left out. */
static double lost_below(const struct run_totals *r, double work)
{
    double lost = 0;

    for (int i = 0; i < r->shapes; i++) {
        const struct group *g = &r->shape[i];

        if (g->served && g->k > 0 && g->original > 0 &&
            (double)g->m * (double)g->n * (double)g->k < work)
            lost += fmax(g->seconds - g->original, 0);
    }
    return lost;
}

/* Returns the shape that loses the largest number of seconds compared with the BLAS.  NULL if no
 * shape loses 1 % of the run and SHORTEST_RATED milliseconds. */
static const struct group *slowest_of(const struct run_totals *r)
{
    const struct group *found = NULL;
    double most = fmax(0.01 * r->wall, 1e-3 * SHORTEST_RATED);

    for (int i = 0; i < r->shapes; i++) {
        const struct group *g = &r->shape[i];
        double lost = g->served && g->original > 0 ? warm_seconds(g) - g->original : 0;

        if (lost > most) {
            most = lost;
            found = g;
        }
    }
    return found;
}

/* Collects advice for the user from the sums: settings that would save time or keep more
 * contracts. */
static void find_advice(struct run_totals *r)
{
    const struct group *s = &r->served;
    const struct group *slowest = slowest_of(r);
    double small = lost_below(r, 1e6), running = warm_seconds(s),
           elsewhere = left_because(r, "the program's LAPACK");

    if (left_because(r, "no contract is stated") > 0)
        advise(r,
               "No contract was stated, so the BLAS computed: LIMBER_CONTRACT=correct, or a rule "
               "of LIMBER_CONFIG, states one.");
    if (*r->interpreted)
        advise(r,
               "The interpreter computed, some hundred times slower than compiled code: %s. "
               "LIMBER_LLVM names a libLLVM.",
               r->interpreted);
    else if (*r->compiler)
        advise(r, "%s: prebuilt kernels computed.", r->compiler);
    if (s->broken > 0)
        advise(r,
               "%.0f of %.0f elements compared do not keep the contract: please report this "
               "with the file.",
               s->broken, s->elements);
    if (s->compiling > 0.1 * s->seconds && s->compiling > 0.5)
        advise(r,
               "%.2g s of %.2g s went to compiling: `limber prebuild FILE` makes the same kernels "
               "ahead; the next run finds them in the cache in any case.",
               s->compiling, s->seconds);
    if (elsewhere > 0)
        advise(r,
               "The program's LAPACK computed %.0f call%s, so results may differ on another CPU: "
               "preload Limber's LAPACK too (docs/blas.md, Limber's own LAPACK), as `python -m "
               "limber run` does.",
               elsewhere, elsewhere > 1 ? "s" : "");
    else if (s->products == 0 && small > 0.2 * running && small > 0.1)
        advise(r,
               "Products of less than a million multiply-adds took %.2g s longer than the BLAS "
               "would: `rule * work<1e6 -> off` in LIMBER_CONFIG leaves them to it, if they need "
               "no contract.",
               small);
    else if (s->products == 0 && slowest)
        advise(r,
               "Most of the time beyond the BLAS's, %.2g s, is in %s of %" PRId64 " x %" PRId64
               " x %" PRId64 "%s%.*s: `rule %s -> CONTRACT` in LIMBER_CONFIG states a cheaper "
               "contract for it, or `off`.",
               warm_seconds(slowest) - slowest->original, slowest->routine, slowest->m, slowest->n,
               slowest->k, *slowest->caller ? ", called by " : "",
               (int)strcspn(slowest->caller, ":"), slowest->caller, slowest->routine);
    if (left_because(r, "LIMBER_NO_COMPILE") > 0)
        advise(r, "Calls were left because LIMBER_NO_COMPILE is set and no cache holds their "
                  "kernels: `limber prebuild FILE` makes those of a run without it.");
    if (left_because(r, "standard error bound") > 0)
        advise(
            r,
            "The BLAS keeps bits=N of %.0f calls by the standard error bound. LIMBER_TRUST_BLAS=0 "
            "has Limber compute them.",
            left_because(r, "standard error bound"));
    if (r->unlisted > 0)
        advise(r, "%.0f calls are in the sums of no entry, as there were too many shapes.",
               r->unlisted);
    if (r->incomplete)
        advise(r, "%d of %d reports were written before the program ended.", r->incomplete,
               r->files);
    if (s->calls + r->left.calls == 0)
        advise(r,
               "No BLAS was called by name: the program calls none, or in a way that is not "
               "reached (docs/blas.md), or its children did, whose reports are called FILE.PID. "
               "Loaded libraries with a BLAS's name: %s.",
               *r->loaded ? r->loaded : "none");
    if (!r->advices)
        advise(r, "Nothing to advise.");
}

/* Prints what a simulated unit counted, if there was one. */
static void print_unit(const struct group *g)
{
    if (g->products > 0)
        printf("unit            %.3g products; of as many additions %.2g%% changed nothing, %.2g%% "
               "lost bits; %.0f products became 0, %.0f numbers infinite\n",
               g->products, 100 * g->swamped / g->products, 100 * g->partly / g->products,
               g->underflow, g->overflow);
}

/* Returns a share of a group's products in percent. */
static double percent(double part, const struct group *g)
{
    return 100 * part / g->products;
}

/* The caller of a group's calls. */
static const char *site_of(const struct group *g)
{
    return *g->caller ? g->caller : "callers that are not listed";
}

/* Prints the counts of simulated units, by routine and caller. */
static void print_sites(const struct run_totals *r)
{
    if (r->sites)
        printf("\n%-16s %10s %10s %10s %9s %9s  %s\n", "unit", "products", "unchanged", "lost bits",
               "became 0", "infinite", "caller");
    for (int i = 0; i < r->sites; i++) {
        const struct group *g = &r->site[i];

        printf("%-16s %10.4g %9.3g%% %9.3g%% %9.0f %9.0f  %s\n", g->routine, g->products,
               percent(g->swamped, g), percent(g->partly, g), g->underflow, g->overflow,
               site_of(g));
    }
}

/* Returns the outcome of a group's calls in words.  Some LAPACK calls need no product, for
 * example if a triangle is one block. */
static const char *outcome_of(const struct group *g)
{
    return *g->outcome || !g->served ? g->outcome : "Limber, without a product";
}

/* Prints the sum of all reports as text.  top: number of shapes that are listed. */
void run_totals_print(const struct run_totals *r, int top)
{
    const struct group *s = &r->served;
    char line[WORDS];

    write_head(r, line, sizeof line);
    printf("%s\n%s\n%s\n\n", line, r->verdict, scope_of(r));
    write_speed(s, line, sizeof line);
    printf("Limber          %.0f calls in %.3g s%s\n", s->calls, warm_seconds(s), line);
    write_start_up(r, line, sizeof line);
    printf("start-up        %s\n", line);
    printf("the BLAS        %.0f calls in %.3g s\n", r->left.calls, r->left.seconds);
    write_checked(&r->exact, line, sizeof line);
    if (r->exact.elements > 0)
        printf("checked         %s\n", line);
    write_ordered(&r->ordered, line, sizeof line);
    if (r->ordered.elements > 0)
        printf("checked         %s\n", line);
    print_unit(s);
    if (r->routines)
        printf("\n%-16s %10s %10s %16s %14s  %s\n", "routine", "calls", "seconds", "BLAS's seconds",
               "time / BLAS's", "computed by");
    for (int i = 0; i < r->routines; i++) {
        const struct group *g = &r->routine[i];

        write_ratio(g, line, sizeof line);
        printf("%-16s %10.0f %10.3g %16.3g %14s  %s\n", g->routine, g->calls, warm_seconds(g),
               g->original, line, g->outcome);
    }
    if (r->shapes)
        printf("\n%-16s %7s %7s %7s %9s %10s %14s  %s\n", "longest", "m", "n", "k", "calls",
               "seconds", "time / BLAS's", "called by");
    for (int i = 0; i < r->shapes && i < top; i++) {
        const struct group *g = &r->shape[i];

        write_ratio(g, line, sizeof line);
        printf("%-16s %7" PRId64 " %7" PRId64 " %7" PRId64 " %9.0f %10.3g %14s  %s\n", g->routine,
               g->m, g->n, g->k, g->calls, warm_seconds(g), g->served ? line : "the BLAS",
               g->caller);
    }
    print_sites(r);
    for (int i = 0; i < r->advices; i++)
        printf("%s- %s\n", i ? "" : "\n", r->advice[i]);
}

/* ---- the report as HTML ---------------------------------------------------------------------- */

/* Writes a group as a row of an HTML table.  shape: with m, n and k; most: longest time, for the
 * bars. */
static void html_row(FILE *f, const struct group *g, bool shape, double most)
{
    char times[32];

    write_ratio(g, times, sizeof times);
    fputs("<tr><td>", f);
    page_text(f, g->routine);
    fputs("</td>", f);
    if (shape)
        fprintf(f, "<td class=n>%" PRId64 " &times; %" PRId64 " &times; %" PRId64 "</td>", g->m,
                g->n, g->k);
    fprintf(f, "<td class=n>%.0f</td><td class=n>%.3g</td><td class=n>%s</td>", g->calls,
            warm_seconds(g), times);
    page_bar(f, warm_seconds(g), most, g->served ? g->original : 0, !g->served);
    fputs("<td>", f);
    page_text(f, shape && !g->served ? "the BLAS: " : "");
    page_text(f, outcome_of(g));
    if (shape && *g->caller) {
        fputs(", called by ", f);
        page_text(f, g->caller);
    }
    fputs("</td></tr>\n", f);
}

/* Writes an HTML table of groups.  shape: with m, n and k. */
static void html_table(FILE *f, const char *title, const struct group *g, int count, bool shape)
{
    double most = 0;

    if (!count)
        return;
    for (int i = 0; i < count; i++)
        most = fmax(most, fmax(warm_seconds(&g[i]), g[i].served ? g[i].original : 0));
    fprintf(f,
            "<h2>%s</h2>\n<div><table><tr><th>routine</th>%s<th>calls</th><th>seconds</th>"
            "<th>time / BLAS's</th><th></th><th>computed by</th></tr>\n",
            title, shape ? "<th>m &times; n &times; k</th>" : "");
    for (int i = 0; i < count; i++)
        html_row(f, &g[i], shape, most);
    fputs("</table></div>\n", f);
}

/* Writes an HTML table of what simulated units counted, by routine and caller. */
static void html_sites(FILE *f, const struct run_totals *r)
{
    if (!r->sites)
        return;
    fputs("<h2>The simulated unit</h2>\n<p>Of as many additions as there are products, how many "
          "changed nothing and how many lost bits; products that became 0, numbers that became "
          "infinite.</p>\n<div><table><tr><th>routine</th><th>products</th><th>changed "
          "nothing</th><th>lost bits</th><th>became 0</th><th>infinite</th><th>called by</th>"
          "</tr>\n",
          f);
    for (int i = 0; i < r->sites; i++) {
        const struct group *g = &r->site[i];

        fputs("<tr><td>", f);
        page_text(f, g->routine);
        fprintf(f,
                "</td><td class=n>%.4g</td><td class=n>%.3g%%</td><td class=n>%.3g%%</td>"
                "<td class=n>%.0f</td><td class=n>%.0f</td><td>",
                g->products, percent(g->swamped, g), percent(g->partly, g), g->underflow,
                g->overflow);
        page_text(f, site_of(g));
        fputs("</td></tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void html_fact(FILE *f, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void html_fact(FILE *f, const char *name, const char *format, ...)
{
    char line[WORDS];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(f, "<tr><th>%s</th><td>", name);
    page_text(f, line);
    fputs("</td></tr>\n", f);
}

/* Writes the sum of all reports as HTML. top: number of shapes that are listed. */
void run_totals_html(const struct run_totals *r, FILE *f, int top)
{
    const struct group *s = &r->served;
    char line[WORDS];

    fputs("<h1>", f);
    write_head(r, line, sizeof line);
    page_text(f, line);
    fprintf(f, "</h1>\n<p class=\"%s\">", strncmp(r->verdict, "NOT", 3) ? "good" : "bad");
    page_text(f, r->verdict);
    fputs("</p>\n<p>", f);
    page_text(f, scope_of(r));
    fputs("</p>\n<div><table>\n", f);
    write_speed(s, line, sizeof line);
    html_fact(f, "Limber", "%.0f calls in %.3g s%s", s->calls, warm_seconds(s), line);
    write_start_up(r, line, sizeof line);
    html_fact(f, "Start-up", "%s", line);
    html_fact(f, "The BLAS", "%.0f calls in %.3g s", r->left.calls, r->left.seconds);
    write_checked(&r->exact, line, sizeof line);
    if (r->exact.elements > 0)
        html_fact(f, "Checked", "%s", line);
    write_ordered(&r->ordered, line, sizeof line);
    if (r->ordered.elements > 0)
        html_fact(f, "Checked", "%s", line);
    fputs("</table></div>\n<h2>Advice</h2>\n<ul>\n", f);
    for (int i = 0; i < r->advices; i++) {
        fputs("<li>", f);
        page_text(f, r->advice[i]);
        fputs("</li>\n", f);
    }
    fputs(
        "</ul>\n<p>Bars: Limber's seconds are blue and the BLAS's grey; an orange line is the time "
        "that the BLAS would take.</p>\n",
        f);
    html_table(f, "Routines", r->routine, r->routines, false);
    html_table(f, "Longest calls", r->shape, r->shapes < top ? r->shapes : top, true);
    html_sites(f, r);
}

/* ---- making, finishing and freeing a report -------------------------------------------------- */

struct run_totals *run_totals_new(void)
{
    struct run_totals *r = calloc(1, sizeof *r);

    if (!r)
        complain("report: not enough memory");
    return r;
}

void run_totals_free(struct run_totals *r)
{
    if (r) {
        free(r->shape);
        free(r->site);
    }
    free(r);
}

/* Appends how calls were computed, such as "pairs 300, ozaki2 20, the BLAS 5 (why)". */
static void add_outcome(struct group *to, const struct group *g)
{
    size_t have = strlen(to->outcome);

    snprintf(to->outcome + have, sizeof to->outcome - have, "%s%s", have ? ", " : "",
             g->served ? outcome_of(g) : "the BLAS");
    have = strlen(to->outcome);
    if (g->calls != to->calls)
        snprintf(to->outcome + have, sizeof to->outcome - have, " %.0f", g->calls);
    have = strlen(to->outcome);
    if (!g->served)
        snprintf(to->outcome + have, sizeof to->outcome - have, " (%s)", g->outcome);
}

/* Joins the groups of each routine to a row of the table.  The groups must be sorted by time. */
static void join_routines(struct run_totals *r)
{
    for (int i = 0; i < r->groups; i++) {
        const struct group *g = &r->group[i];
        struct group *to = r->routine;

        while (to < r->routine + r->routines && strcmp(to->routine, g->routine) != 0)
            to++;
        if (to == r->routine + r->routines) {
            memset(to, 0, sizeof *to);
            memcpy(to->routine, g->routine, sizeof to->routine);
            r->routines++;
        }
        add_group(to, g);
        to->served |= g->served;
        to->original += g->served ? 0 : g->seconds - g->original;
        to->rated += g->served ? 0 : g->seconds;
    }
    for (int i = 0; i < r->groups; i++)
        for (int j = 0; j < r->routines; j++)
            if (!strcmp(r->routine[j].routine, r->group[i].routine))
                add_outcome(&r->routine[j], &r->group[i]);
    qsort(r->routine, (size_t)r->routines, sizeof *r->routine, by_seconds);
}

void run_totals_finish(struct run_totals *r)
{
    qsort(r->group, (size_t)r->groups, sizeof *r->group, by_seconds);
    join_routines(r);
    if (r->sites)
        qsort(r->site, (size_t)r->sites, sizeof *r->site, by_products);
    if (r->shapes)
        qsort(r->shape, (size_t)r->shapes, sizeof *r->shape, by_seconds);
    r->served.served = true;
    find_verdict(r);
    if (!*r->contracts)
        memcpy(r->contracts, r->stated, sizeof r->contracts);
    find_advice(r);
}

const char *run_totals_name(const struct run_totals *r)
{
    return base(r->program);
}
