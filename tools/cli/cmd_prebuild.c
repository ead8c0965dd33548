/* SPDX-License-Identifier: BSD-3-Clause
 * limber prebuild: fills the kernel cache before a program needs it. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum source { COMPILED, FOUND, INTERPRETED, SOURCES };

/* The state of the command; made: kernels by how they were obtained. */
struct prebuild {
    limber_context *ctx;
    cJSON *rows; /* owned; NULL if text is printed */
    const char *data;           /* normal, uniform or bytes */
    bool device;                /* a GPU computes, whose kernels also depend on m and n */
    int made[SOURCES];
};

/* Returns how the kernel was obtained.  INTERPRETED: no kernel was made, since no compiler was
 * found and the interpreter computed. */
static enum source source_of(limber_context *ctx, const limber_report *r)
{
    if (strcmp(r->backend, "interp") == 0 && *limber_fallback_reason(ctx))
        return INTERPRETED;
    return r->from == LIMBER_FROM_COMPILER ? COMPILED : FOUND;
}

/* Prints how a kernel was obtained, and counts it. */
static void print_kernel(struct prebuild *p, const char *what, const limber_report *r)
{
    static const char *const words[] = { "compiled", "there", "interpreted" };
    enum source source = source_of(p->ctx, r);

    p->made[source]++;
    if (p->rows) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "for", what);
        cJSON_AddStringToObject(j, "kernel", r->kernel);
        cJSON_AddStringToObject(j, "scheme", r->scheme);
        cJSON_AddBoolToObject(j, "compiled", source == COMPILED);
        cJSON_AddBoolToObject(j, "made", source != INTERPRETED);
        cJSON_AddNumberToObject(j, "seconds", r->seconds_compile);
        cJSON_AddItemToArray(p->rows, j);
        return;
    }
    printf("%.12s  %-10s  %-8s  %7.1f ms  %s\n", r->kernel, r->scheme, words[source],
           1e3 * r->seconds_compile, what);
    fflush(stdout);
}

/* ---- shapes from a program's report ---------------------------------------------------------- */

/* Makes the kernel for a plan's text from a report. */
static bool make_plan(struct prebuild *p, const char *path, const char *plan)
{
    limber_report r = LIMBER_REPORT_INIT;
    char what[100];

    if (limber_kernel_make(p->ctx, plan, &r) != LIMBER_STATUS_OK) {
        complain("%s: %s", path, limber_error_text());
        return false;
    }
    snprintf(what, sizeof what, "%.*s", (int)strcspn(plan, "{\n"), plan);
    print_kernel(p, what, &r);
    return true;
}

/* Makes the kernels that a program's report lists. */
static bool make_report(struct prebuild *p, const char *path, const char *text)
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
        ok = ok && make_plan(p, path, plan->valuestring);
    }
    cJSON_Delete(report);
    return ok;
}

/* ---- shapes from a list ---------------------------------------------------------------------- */

/* A shape of the list, with the words of its contract and scheme. */
struct shape {
    int64_t m, n, k;
    char format[24], contract[24], scheme[64];
    bool is_complex, alpha, beta;
};

/* A CPU's kernel depends on the class of k, but on m and n only if they are very small.  So a
 * product of smaller m and n makes the same kernel in less time. */
enum { ENOUGH = 1 << 26, LINES = 128 };

/* Halves m and n of a large product until it is small enough, but only for CPUs, whose kernels do
 * not depend on m and n. */
static void shrink_lines(struct shape *s, bool device)
{
    while (!device && (double)s->m * (double)s->n * (double)s->k > ENOUGH &&
           (s->m > LINES || s->n > LINES)) {
        s->m = s->m > LINES ? s->m / 2 + s->m % 2 : s->m;
        s->n = s->n > LINES ? s->n / 2 + s->n % 2 : s->n;
    }
}

/* Fills an array with random numbers of this kind. */
static bool fill_random(const char *kind, limber_format f, int64_t count, void *to)
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

/* Runs a product of this shape once, so that its kernel is made. */
static bool run_shape(struct prebuild *p, const struct shape *s, const limber_contract *k,
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
        ok =
            array_alloc(&x[i], "prebuild") && fill_random(p->data, f, array_size(&x[i]), x[i].data);
    }
    for (int i = 0; i < 2 && ok; i++)
        ok = limber_convert(values[i], scalar, two, format_of("f64"), 2, LIMBER_ROUND_NEAREST) ==
             LIMBER_STATUS_OK;
    if (ok) {
        const void *alpha = s->alpha ? values[0] : NULL, *beta = s->beta ? values[1] : NULL;
        limber_problem q = LIMBER_PROBLEM_INIT;

        q.domain = s->is_complex ? LIMBER_DOMAIN_COMPLEX : LIMBER_DOMAIN_REAL;
        q.m = s->m;
        q.n = s->n;
        q.k = s->k;
        q.a = (limber_matrix){ x[0].data, f, s->k, 1 };
        q.b = (limber_matrix){ x[1].data, f, s->n, 1 };
        q.c = (limber_output){ x[2].data, f, s->n, 1 };
        q.alpha = alpha;
        q.beta = beta;
        q.contract = k;
        status = limber_run(p->ctx, &q, r);
        if (status != LIMBER_STATUS_OK)
            ok = complain("%s", limber_error_text()) == 0;
    }
    for (int i = 0; i < 3; i++)
        array_clear(&x[i]);
    return ok;
}

/* Reads a word after the sizes in a line of a list of shapes. */
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

/* Reads the format: a letter of the BLAS (s, d, c, z), or a format's name.  Returns false if the
 * text is neither. */
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

/* Makes the kernel for one line of a list of shapes. */
static bool make_shape(struct prebuild *p, const char *path, int at, char *line)
{
    limber_contract k = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE };
    limber_report r = LIMBER_REPORT_INIT;
    struct shape s = { .m = 0 };
    long long m, n, inner;
    char *rest, *word, what[160];
    int used = 0;

    snprintf(what, sizeof what, "%s", line);
    if (sscanf(line, "%lld %lld %lld %23s %23s%n", &m, &n, &inner, s.format, s.contract, &used) <
            5 ||
        m < 1 || n < 1 || inner < 1)
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
    s.k = inner;
    shrink_lines(&s, p->device);
    if (!run_shape(p, &s, &k, &r))
        return complain("%s:%d: not made", path, at) == 0;
    print_kernel(p, what, &r);
    return true;
}

/* Makes the kernels for a list of shapes. */
static bool make_shapes(struct prebuild *p, const char *path, char *text)
{
    bool ok = true, any = false;
    int at = 1;

    for (char *line; ok && text; at++) {
        line = strsep(&text, "\n");
        line[strcspn(line, "#\r")] = 0;
        if (line[strspn(line, " \t")]) {
            any = true;
            ok = make_shape(p, path, at, line);
        }
    }
    return ok && (any || complain("%s: names no product", path) == 0);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Makes the kernels for a file, which is a program's report in JSON or a list of shapes. */
static bool make_file(struct prebuild *p, const char *path)
{
    char *text = text_read(path);
    bool ok = text && (text[strspn(text, " \t\r\n")] == '{' ? make_report(p, path, text) :
                                                              make_shapes(p, path, text));

    free(text);
    return ok;
}

/* True if the context computes on a GPU. */
static bool is_gpu_used(limber_context *ctx)
{
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    limber_matrix one = { &(float){ 1 }, LIMBER_F32, 1, 1 };
    limber_output c = { &(float){ 0 }, LIMBER_F32, 1, 1 };
    limber_report r = LIMBER_REPORT_INIT;

    return limber_gemm(ctx, &native, 1, 1, 1, NULL, one, one, NULL, c, &r) == LIMBER_STATUS_OK &&
           strcmp(r.backend, "cuda") == 0;
}

/* Makes the kernels for all files of the command line.  Returns the exit status. */
static int make_all(struct prebuild *p, poptContext o)
{
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    const char *path;
    bool ok = true;

    if (limber_create(&p->ctx, &(limber_config){ .size = sizeof(limber_config),
                                                 .partition = LIMBER_PARTITION_OFF,
                                                 .kernels = LIMBER_KERNELS_SPECIALISED }) !=
            LIMBER_STATUS_OK ||
        limber_cache_describe(p->ctx, &info) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text());
    p->device = is_gpu_used(p->ctx);
    if (!info.writable)
        return complain("prebuild: there is no cache to fill: %s",
                        *info.why_not ? info.why_not : "it is read only");
    while (ok && (path = poptGetArg(o)))
        ok = make_file(p, path);
    if (ok && !p->rows)
        printf("%d compiled, %d there, in %s\n", p->made[COMPILED], p->made[FOUND], info.directory);
    if (ok && p->made[INTERPRETED])
        complain("%d kernels are not made: no compiler is at hand", p->made[INTERPRETED]);
    if (ok && p->rows) {
        ok = json_print(p->rows);
        p->rows = NULL;
    }
    return !ok || p->made[INTERPRETED] > 0;
}

/* The command `limber prebuild`: makes kernels ahead of programs that need them. */
int cmd_prebuild(int argc, const char **argv)
{
    struct prebuild p = { .data = NULL };
    char *data = NULL;
    int json = 0, status;
    bool ok;
    struct poptOption table[] = { { "data", 0, POPT_ARG_STRING, &data, 0,
                                    "random data for a list of shapes (normal)",
                                    "normal|uniform|bytes" },
                                  { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);

    ok = options_read(
        o,
        "FILE... [options]\n\nMakes kernels before a program needs them.  A FILE is a report that "
        "LIMBER_REPORT has written,\nor a list of lines M N K FORMAT CONTRACT [scheme=NAME] "
        "[alpha] [beta]; FORMAT may also be\ns, d, c or z.  Kernels depend on the data: a "
        "report names them; a list is tried on random data.\n\nexample: echo "
        "\"2000 2000 500 d correct beta\" > shapes; limber prebuild shapes");
    p.data = data ? data : "normal";
    if (!ok)
        status = 2;
    else if (strcmp(p.data, "normal") && strcmp(p.data, "uniform") && strcmp(p.data, "bytes"))
        status = complain("--data: \"%s\" is none of normal, uniform, bytes", data) + 1;
    else if (!poptPeekArg(o))
        status = complain("prebuild takes a report or a list of shapes") + 1;
    else {
        p.rows = json ? cJSON_CreateArray() : NULL;
        status = make_all(&p, o);
    }
    cJSON_Delete(p.rows);
    context_end(p.ctx);
    poptFreeContext(o);
    free(data);
    return status;
}
