/* SPDX-License-Identifier: BSD-3-Clause
 * limber warm: fills the cache before a program needs it. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPILED, FOUND, WAYS };

struct warming {
    limber_context *ctx;
    cJSON *rows;                /* NULL: text */
    const char *data;           /* normal, uniform, bytes */
    bool device;                /* sizes of products matter there */
    int made[WAYS];
};

static void tell(struct warming *w, const char *what, const limber_report *r)
{
    w->made[r->from == 0 ? COMPILED : FOUND]++;
    if (w->rows) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "for", what);
        cJSON_AddStringToObject(j, "kernel", r->kernel);
        cJSON_AddStringToObject(j, "scheme", r->scheme);
        cJSON_AddBoolToObject(j, "compiled", r->from == 0);
        cJSON_AddNumberToObject(j, "seconds", r->seconds_compile);
        cJSON_AddItemToArray(w->rows, j);
        return;
    }
    printf("%.12s  %-10s  %-8s  %7.1f ms  %s\n", r->kernel, r->scheme,
           r->from == 0 ? "compiled" : "there", 1e3 * r->seconds_compile, what);
    fflush(stdout);
}

/* ---- a program's report ---------------------------------------------------------------------- */

static bool make_plan(struct warming *w, const char *path, const char *plan)
{
    limber_report r = { 0 };
    char what[100];

    if (limber_kernel_make(w->ctx, plan, &r) != LIMBER_STATUS_OK) {
        complain("%s: %s", path, limber_error_text());
        return false;
    }
    snprintf(what, sizeof what, "%.*s", (int)strcspn(plan, "{\n"), plan);
    tell(w, what, &r);
    return true;
}

static bool from_report(struct warming *w, const char *path, const char *text)
{
    cJSON *report = cJSON_Parse(text);
    const cJSON *kernels = cJSON_GetObjectItem(report, "kernels"), *k;
    bool ok = cJSON_IsArray(kernels);

    if (!ok)
        complain("%s: no report: it has no list of kernels", path);
    cJSON_ArrayForEach(k, kernels)
    {
        const cJSON *plan = cJSON_GetObjectItem(k, "plan");

        if (ok && !cJSON_IsString(plan))
            ok = complain("%s: a kernel has no plan", path) == 0;
        ok = ok && make_plan(w, path, plan->valuestring);
    }
    cJSON_Delete(report);
    return ok;
}

/* ---- a list of shapes ------------------------------------------------------------------------ */

struct shape {
    int64_t m, n, k;
    char format[24], contract[24], scheme[64];
    bool is_complex, alpha, beta;
};

/* Of the sizes a kernel knows the class of k alone, unless they are very small or for a device:
 * fewer lines are made sooner. */
enum { ENOUGH = 1 << 26, LINES = 128 };

static void shrink(struct shape *s, bool device)
{
    while (!device && (double)s->m * (double)s->n * (double)s->k > ENOUGH &&
           (s->m > LINES || s->n > LINES)) {
        s->m = s->m > LINES ? s->m / 2 + s->m % 2 : s->m;
        s->n = s->n > LINES ? s->n / 2 + s->n % 2 : s->n;
    }
}

static bool fill(const char *kind, limber_format f, int64_t count, void *to)
{
    limber_format f64 = format_of("f64");
    uint64_t state = 1;

    for (int64_t i = 0; i < count; i++) {
        double x = *kind == 'n' ? random_normal(&state) :
                   *kind == 'u' ? (double)(int64_t)random_bits(&state) * 0x1p-63 :
                                  (double)(random_bits(&state) % 255) - 127;
        char *at = (char *)to + i * f.size;

        if (limber_convert(at, f, &x, f64, 1, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
            return false;
    }
    return true;
}

static bool run(struct warming *w, const struct shape *s, const limber_contract *k,
                limber_report *r)
{
    limber_format f = format_of(s->format),
                  scalar = f.kind == LIMBER_KIND_FLOAT ? f : format_of("i64");
    int64_t parts = s->is_complex ? 2 : 1,
            sides[3][2] = { { s->m, s->k }, { s->k, s->n }, { s->m, s->n } };
    char values[2][64] = { { 0 } };
    const double two[2] = { 2, 0 };
    struct array x[3] = { { .data = NULL } };
    bool ok = true;
    limber_status status;

    for (int i = 0; i < 3 && ok; i++) {
        x[i] = (struct array){ .format = f, .rank = 3, .dim = { sides[i][0], sides[i][1], parts } };
        ok = array_alloc(&x[i], "warm") && fill(w->data, f, array_size(&x[i]), x[i].data);
    }
    for (int i = 0; i < 2 && ok; i++)
        ok = limber_convert(values[i], scalar, two, format_of("f64"), 2, LIMBER_ROUND_NEAREST) ==
             LIMBER_STATUS_OK;
    if (ok) {
        const void *alpha = s->alpha ? values[0] : NULL, *beta = s->beta ? values[1] : NULL;
        limber_matrix a = { x[0].data, f, s->k, 1 }, b = { x[1].data, f, s->n, 1 };
        limber_matrix c = { x[2].data, f, s->n, 1 };

        status = s->is_complex ? limber_gemm_complex(w->ctx, k, NULL, s->m, s->n, s->k, alpha, a, 0,
                                                     b, 0, beta, c, r, 0) :
                                 limber_gemm(w->ctx, k, s->m, s->n, s->k, alpha, a, b, beta, c, r);
        if (status != LIMBER_STATUS_OK)
            ok = complain("%s", limber_error_text()) == 0;
    }
    for (int i = 0; i < 3; i++)
        array_clear(&x[i]);
    return ok;
}

static bool read_word(struct shape *s, const char *word)
{
    if (strcmp(word, "alpha") == 0)
        s->alpha = true;
    else if (strcmp(word, "beta") == 0)
        s->beta = true;
    else if (strncmp(word, "scheme=", 7) == 0 && strlen(word + 7) < sizeof s->scheme)
        strcpy(s->scheme, word + 7);
    else
        return false;
    return true;
}

/* s, d, c and z of the BLAS, or a format. */
static bool read_format(struct shape *s)
{
    static const char letters[] = "sdcz";
    const char *letter = s->format[0] && !s->format[1] ? strchr(letters, s->format[0]) : NULL;
    limber_format f;

    if (letter) {
        s->is_complex = letter - letters >= 2;
        strcpy(s->format, (letter - letters) % 2 ? "f64" : "f32");
    }
    return limber_format_named(s->format, &f) == LIMBER_STATUS_OK;
}

static bool shape_of(struct warming *w, const char *path, int at, char *line)
{
    limber_contract k = { .promise = LIMBER_CONTRACT_NATIVE };
    limber_report r = { 0 };
    struct shape s = { .m = 0 };
    long long m, n, p;
    char *rest, *word, what[160];
    int used = 0;

    snprintf(what, sizeof what, "%s", line);
    if (sscanf(line, "%lld %lld %lld %23s %23s%n", &m, &n, &p, s.format, s.contract, &used) < 5 ||
        m < 1 || n < 1 || p < 1)
        return complain("%s:%d: a line is M N K FORMAT CONTRACT [scheme=NAME] [alpha] [beta]", path,
                        at) == 0;
    if (!read_format(&s))
        return complain("%s:%d: \"%s\" is no format, and none of s d c z", path, at, s.format) == 0;
    if (!contract_of(s.contract, &k))
        return complain("%s:%d: \"%s\" is no contract", path, at, s.contract) == 0;
    for (rest = line + used; (word = strtok_r(rest, " \t", &rest));)
        if (!read_word(&s, word))
            return complain("%s:%d: \"%s\" is none of scheme=NAME, alpha, beta", path, at, word) ==
                   0;
    k.scheme = *s.scheme ? s.scheme : NULL;
    s.m = m;
    s.n = n;
    s.k = p;
    shrink(&s, w->device);
    if (!run(w, &s, &k, &r))
        return complain("%s:%d: not made", path, at) == 0;
    tell(w, what, &r);
    return true;
}

static bool from_shapes(struct warming *w, const char *path, char *text)
{
    bool ok = true;
    int at = 1;

    for (char *line; ok && text; at++) {
        line = strsep(&text, "\n");
        line[strcspn(line, "#\r")] = 0;
        if (line[strspn(line, " \t")])
            ok = shape_of(w, path, at, line);
    }
    return ok;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool from_file(struct warming *w, const char *path)
{
    char *text = text_read(path);
    bool ok = text && (text[strspn(text, " \t\r\n")] == '{' ? from_report(w, path, text) :
                                                              from_shapes(w, path, text));

    free(text);
    return ok;
}

static bool works_on_device(limber_context *ctx)
{
    const limber_contract native = { .promise = LIMBER_CONTRACT_NATIVE };
    limber_matrix one = { &(float){ 1 }, format_of("f32"), 1, 1 },
                  c = { &(float){ 0 }, one.format, 1, 1 };
    limber_report r;

    return limber_gemm(ctx, &native, 1, 1, 1, NULL, one, one, NULL, c, &r) == LIMBER_STATUS_OK &&
           strcmp(r.backend, "cuda") == 0;
}

static int warm(struct warming *w, poptContext o)
{
    limber_cache_info info;
    const char *path;
    bool ok = true;

    if (limber_create(&w->ctx, &(limber_config){ .whole = 1 }) != LIMBER_STATUS_OK ||
        limber_cache_describe(w->ctx, &info) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text());
    w->device = works_on_device(w->ctx);
    if (!info.writable)
        return complain("warm: there is no cache to fill: %s",
                        *info.why_not ? info.why_not : "it is read only");
    while (ok && (path = poptGetArg(o)))
        ok = from_file(w, path);
    if (ok && !w->rows)
        printf("%d compiled, %d there, in %s\n", w->made[COMPILED], w->made[FOUND], info.directory);
    if (ok && w->rows) {
        ok = json_print(w->rows);
        w->rows = NULL;
    }
    return !ok;
}

int cmd_warm(int argc, const char **argv)
{
    struct warming w = { .data = NULL };
    char *data = NULL;
    int json = 0, code, status;
    struct poptOption table[] = { { "data", 0, POPT_ARG_STRING, &data, 0,
                                    "of a list of shapes: normal, uniform or bytes (normal)",
                                    "KIND" },
                                  { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = poptGetContext("limber", argc, argv, table, 0);

    poptSetOtherOptionHelp(
        o, "FILE... [options]\n\nA FILE is a report that LIMBER_REPORT has written, whose "
           "kernels are made, or lines of\nM N K FORMAT CONTRACT [scheme=NAME] [alpha] "
           "[beta], where FORMAT may be s, d, c or z.\nKernels depend on what data is like: "
           "a report names them, shapes are tried on random data.\n\nexample: echo "
           "\"2000 2000 500 d correct beta\" > shapes; limber warm shapes");
    code = poptGetNextOpt(o);
    w.data = data ? data : "normal";
    if (code < -1)
        status =
            complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code)) + 1;
    else if (strcmp(w.data, "normal") && strcmp(w.data, "uniform") && strcmp(w.data, "bytes"))
        status = complain("--data: \"%s\" is none of normal, uniform, bytes", data) + 1;
    else if (!poptPeekArg(o))
        status = complain("warm takes a report or a list of shapes") + 1;
    else {
        w.rows = json ? cJSON_CreateArray() : NULL;
        status = warm(&w, o);
    }
    cJSON_Delete(w.rows);
    context_end(w.ctx);
    poptFreeContext(o);
    free(data);
    return status;
}
