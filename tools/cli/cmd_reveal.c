/* SPDX-License-Identifier: BSD-3-Clause
 * limber reveal: finds the order in which a BLAS, a simulated unit or Limber sums, and whether the
 * unit that it describes predicts its bits. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <limber/research.h>

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *,
                          const void *, const void *, const int *, const void *, const int *,
                          const void *, void *, const int *, size_t, size_t);
typedef void fortran_gemm_64(const char *, const char *, const int64_t *, const int64_t *,
                             const int64_t *, const void *, const void *, const int64_t *,
                             const void *, const int64_t *, const void *, void *, const int64_t *,
                             size_t, size_t);
typedef int dnnl_gemm(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                      const float *, int64_t, float, float *, int64_t);

/* The column-major product C = A B of which element (i, j) is examined. */
struct subject {
    int64_t m, n, k, i, j;
    /* format of the matrices in memory; format of which all values of operands are */
    limber_format f, operand;
    void *a, *b, *c;
    int64_t calls;
    /* the function of a BLAS that computes; NULL if Limber does, under a contract or as a unit */
    void *routine;
    /* wide: routine takes 64-bit integers; dnnl: routine is oneDNN's row-major dnnl_sgemm */
    bool wide, dnnl;
    limber_context *ctx;
    limber_contract contract;
    limber_unit unit;
};

/* Computes the subject's product by Limber, in the result c.  False on failure. */
static bool multiply_subject(struct subject *s, limber_context *ctx,
                             const limber_contract *contract, void *c)
{
    return limber_gemm(ctx, contract, s->m, s->n, s->k, NULL,
                       (limber_matrix){ s->a, s->f, 1, s->m },
                       (limber_matrix){ s->b, s->f, 1, s->k }, NULL,
                       (limber_output){ c, s->f, 1, s->m }, NULL) == LIMBER_STATUS_OK;
}

/* Computes the product by the routine or by Limber. */
static bool run_subject(struct subject *s)
{
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const void *alpha = s->f.size == 8 ? (const void *)&one : &one_f;
    const void *beta = s->f.size == 8 ? (const void *)&zero : &zero_f;

    s->calls++;
    if (s->ctx)
        return multiply_subject(s, s->ctx, &s->contract, s->c);
    if (s->dnnl) { /* row-major: C^T = B^T A^T */
        return ((dnnl_gemm *)s->routine)('N', 'N', s->n, s->m, s->k, 1, s->b, s->k, s->a, s->m, 0,
                                         s->c, s->m) == 0;
    }
    if (s->wide) {
        ((fortran_gemm_64 *)s->routine)("N", "N", &s->m, &s->n, &s->k, alpha, s->a, &s->m, s->b,
                                        &s->k, beta, s->c, &s->m, 1, 1);
    } else {
        const int m = (int)s->m, n = (int)s->n, k = (int)s->k;

        ((fortran_gemm *)s->routine)("N", "N", &m, &n, &k, alpha, s->a, &m, s->b, &k, beta, s->c,
                                     &m, 1, 1);
    }
    return true;
}

static void store_value(const struct subject *s, void *x, int64_t at, double value)
{
    if (s->f.size == 8)
        ((double *)x)[at] = value;
    else
        ((float *)x)[at] = (float)value;
}

static double load_value(const struct subject *s, const void *x, int64_t at)
{
    return s->f.size == 8 ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

/* Computes the sum that is examined: stores the factors in a row of A and a column of B,
 * multiplies, and returns the element of C. */
static int sum_products(void *user, const double *a, const double *b, int64_t k, double *out)
{
    struct subject *s = user;

    for (int64_t p = 0; p < k; p++) {
        store_value(s, s->a, s->i + p * s->m, a[p]);
        store_value(s, s->b, p + s->j * k, b[p]);
    }
    if (!run_subject(s))
        return 1;
    *out = load_value(s, s->c, s->i + s->j * s->m);
    return 0;
}

/* ---- what is asked, from options ------------------------------------------------------------- */

/* The options of the command line. */
struct options {
    char *blas, *routine, *unit, *contract, *format, *shape, *at;
    int trials, json;
};

/* Reads `count` numbers of at least `least`, separated by commas. */
static bool parse_shape(const char *text, const char *option, int count, int64_t *v, int64_t least)
{
    char *end;

    for (int i = 0; i < count; i++, text = end + 1) {
        v[i] = strtoll(text, &end, 10);
        if (end == text || v[i] < least || v[i] > 65536 || *end != (i < count - 1 ? ',' : 0))
            return complain("--%s: %d whole numbers from %d to 65536, with commas between", option,
                            count, (int)least),
                   false;
    }
    return true;
}

/* Opens the BLAS, and looks up the routine that is examined. */
static bool set_blas(struct subject *s, const struct options *o)
{
    const char *name = o->routine ? o->routine : "dgemm";
    void *library = dlopen(o->blas, RTLD_NOW | RTLD_LOCAL);
    char text[256];

    if (!library)
        return complain("--blas: %s", dlerror()), false;
    s->routine = dlsym(library, name);
    if (!s->routine && snprintf(text, sizeof text, "%s_", name) < (int)sizeof text)
        s->routine = dlsym(library, text);
    if (!s->routine)
        return complain("--routine: %s has neither %s nor %s_", o->blas, name, name), false;
    s->dnnl = strcmp(name, "dnnl_sgemm") == 0;
    s->wide = strstr(name, "64") != NULL;
    s->f = strstr(name, "sgemm") ? LIMBER_F32 : LIMBER_F64;
    if (!strstr(name, "sgemm") && !strstr(name, "dgemm"))
        return complain("--routine: %s is neither an sgemm nor a dgemm", name), false;
    s->operand = s->f;
    return true;
}

/* Makes a simulated unit the subject. */
static bool set_unit(struct subject *s, const char *words)
{
    if (limber_unit_parse(words, &s->unit) != LIMBER_STATUS_OK)
        return complain("--unit: %s", limber_error_text()), false;
    s->contract.promise = LIMBER_CONTRACT_SIMULATE;
    s->contract.unit = &s->unit;
    s->operand = s->unit.a.format;
    s->f = s->operand.frac_bits > LIMBER_F32.frac_bits ? LIMBER_F64 : LIMBER_F32;
    return true;
}

/* Makes Limber under a contract the subject. */
static bool set_contract(struct subject *s, const struct options *o)
{
    const char *words = o->contract ? o->contract : "native";

    if (!contract_of(words, &s->contract))
        return complain("--contract: \"%s\" is no contract; for a unit there is --unit", words),
               false;
    s->f = LIMBER_F64;
    if (o->format && limber_format_named(o->format, &s->f) != LIMBER_STATUS_OK)
        return complain("--format: %s", limber_error_text()), false;
    if (!limber_format_equal(s->f, LIMBER_F64) && !limber_format_equal(s->f, LIMBER_F32))
        return complain("--format: f32 or f64"), false;
    s->operand = s->f;
    return true;
}

/* Reads the subject (a BLAS, a unit or a contract), the sizes of the product and the element. */
static bool set_subject(struct subject *s, const struct options *o)
{
    int64_t v[3] = { 64, 64, 64 }, at[2] = { 0, 0 };

    s->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    s->unit = (limber_unit)LIMBER_UNIT_INIT;
    if ((o->blas != NULL) + (o->unit != NULL) + (o->contract != NULL) > 1)
        return complain("one of --blas, --unit and --contract"), false;
    if (o->routine && !o->blas)
        return complain("--routine needs --blas"), false;
    if (o->format && (o->blas || o->unit))
        return complain("--format is for --contract"), false;
    if ((o->shape && !parse_shape(o->shape, "shape", 3, v, 1)) ||
        (o->at && !parse_shape(o->at, "at", 2, at, 0)))
        return false;
    if (at[0] >= v[0] || at[1] >= v[1])
        return complain("--at: no element of %d x %d", (int)v[0], (int)v[1]), false;
    s->m = v[0];
    s->n = v[1];
    s->k = v[2];
    s->i = at[0];
    s->j = at[1];
    if (o->blas ? !set_blas(s, o) : o->unit ? !set_unit(s, o->unit) : !set_contract(s, o))
        return false;
    return true;
}

/* ---- what is found, and printed -------------------------------------------------------------- */

/* Number of results of random products that were compared with the unit, and that have the bits it
 * predicts: of all elements, and of the examined element. */
struct prediction {
    int64_t results, same, looked_at, same_there;
};

/* Compares the subject on random products with the simulated unit that `words` describe. */
static bool predict(struct subject *s, const char *words, int trials, struct prediction *x)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx = NULL;
    const size_t size = (size_t)(s->m * s->n) * s->f.size;
    void *c = malloc(size);
    uint64_t state = 1;
    bool good = c && limber_unit_parse(words, &unit) == LIMBER_STATUS_OK &&
                limber_create(&ctx, &config) == LIMBER_STATUS_OK;

    contract.promise = LIMBER_CONTRACT_SIMULATE;
    contract.unit = &unit;
    memset(x, 0, sizeof *x);
    for (int t = 0; t < trials && good; t++) {
        for (int64_t e = 0; e < s->m * s->k; e++)
            store_value(s, s->a, e, random_normal(&state));
        for (int64_t e = 0; e < s->k * s->n; e++)
            store_value(s, s->b, e, random_normal(&state));
        good = run_subject(s) && multiply_subject(s, ctx, &contract, c);
        for (int64_t e = 0; e < s->m * s->n && good; e++) {
            const double got = load_value(s, s->c, e), want = load_value(s, c, e);
            const bool same = memcmp(&got, &want, sizeof got) == 0;

            x->results++;
            x->same += same;
            if (e == s->i + s->j * s->m) {
                x->looked_at++;
                x->same_there += same;
            }
        }
    }
    if (!good)
        complain("%s", c ? limber_error_text() : "out of memory");
    if (ctx)
        context_end(ctx);
    free(c);
    return good;
}

/* Prints the order of sums, the unit's words, and how many results they predict. */
static int print_result(const struct subject *s, const char *tree, const char *words,
                        const struct prediction *x, bool json)
{
    /* true if none of the examined element's results has the predicted bits */
    const bool fails = x->results && x->same_there == 0;
    cJSON *j;
    char *text;

    if (!json) {
        printf("order  %s\n", tree);
        printf("unit   %s\n",
               words && !fails ? words : "no words of a simulated unit say this order");
        if (fails)
            printf("tried  %s, which predicts none of %lld results of random products\n", words,
                   (long long)x->looked_at);
        else if (x->results)
            printf("bits   the unit predicts %lld of %lld results of random products, of element "
                   "(%lld, %lld) %lld of %lld\n",
                   (long long)x->same, (long long)x->results, (long long)s->i, (long long)s->j,
                   (long long)x->same_there, (long long)x->looked_at);
        return 0;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "order", tree);
    if (words && !fails)
        cJSON_AddStringToObject(j, "unit", words);
    else
        cJSON_AddNullToObject(j, "unit");
    if (fails)
        cJSON_AddStringToObject(j, "tried", words);
    cJSON_AddNumberToObject(j, "calls", (double)s->calls);
    if (x->results) {
        cJSON_AddNumberToObject(j, "results", (double)x->results);
        cJSON_AddNumberToObject(j, "predicted", (double)x->same);
        cJSON_AddNumberToObject(j, "results_there", (double)x->looked_at);
        cJSON_AddNumberToObject(j, "predicted_there", (double)x->same_there);
    }
    text = cJSON_Print(j);
    cJSON_Delete(j);
    if (!text)
        return complain("out of memory");
    printf("%s\n", text);
    cJSON_free(text);
    return 0;
}

/* Finds the order of sums, predicts random products with it, and prints both. */
static int reveal(struct subject *s, const struct options *o)
{
    struct prediction x = { 0 };
    char *tree = NULL, *words = NULL;
    int status = 1;

    if (limber_reveal(sum_products, s, s->k, s->operand, s->f, &tree, &words) != LIMBER_STATUS_OK)
        complain("%s", limber_error_text());
    else if (!words || !o->trials || predict(s, words, o->trials, &x))
        status = print_result(s, tree, words, &x, o->json);
    limber_free(tree);
    limber_free(words);
    return status;
}

/* Allocates the matrices, and finds the order of sums.  Returns the exit status. */
static int reveal_subject(struct subject *s, const struct options *o)
{
    limber_config config = LIMBER_CONFIG_INIT;
    int status = 1;

    if (!set_subject(s, o))
        return 2;
    s->a = calloc((size_t)(s->m * s->k), s->f.size);
    s->b = calloc((size_t)(s->k * s->n), s->f.size);
    s->c = calloc((size_t)(s->m * s->n), s->f.size);
    if (!s->a || !s->b || !s->c)
        complain("no memory for matrices of %lld x %lld x %lld", (long long)s->m, (long long)s->n,
                 (long long)s->k);
    else if (!s->routine && limber_create(&s->ctx, &config) != LIMBER_STATUS_OK)
        complain("%s", limber_error_text());
    else
        status = reveal(s, o);
    if (s->ctx)
        context_end(s->ctx);
    free(s->a);
    free(s->b);
    free(s->c);
    return status;
}

/* The command `limber reveal`: finds in which order a BLAS, a unit or Limber adds. */
int cmd_reveal(int argc, const char **argv)
{
    struct options x = { .trials = 10 };
    struct subject s = { 0 };
    struct poptOption table[] = {
        { "blas", 0, POPT_ARG_STRING, &x.blas, 0, "look at a BLAS, or oneDNN", "LIBRARY" },
        { "routine", 0, POPT_ARG_STRING, &x.routine, 0,
          "its routine: sgemm, dgemm, dnnl_sgemm, or a name with one of them in it (dgemm); a name "
          "with 64 takes 64-bit integers",
          "NAME" },
        { "unit", 0, POPT_ARG_STRING, &x.unit, 0, "look at a simulated unit", "UNIT" },
        { "contract", 0, POPT_ARG_STRING, &x.contract, 0,
          "look at Limber under a contract (native)", "CONTRACT" },
        { "format", 0, POPT_ARG_STRING, &x.format, 0, "of --contract: f32 or f64 (f64)", "FORMAT" },
        { "shape", 0, POPT_ARG_STRING, &x.shape, 0,
          "rows, columns and products in a sum (64,64,64)", "M,N,K" },
        { "at", 0, POPT_ARG_STRING, &x.at, 0, "the element that is looked at (0,0)", "I,J" },
        { "trials", 0, POPT_ARG_INT, &x.trials, 0,
          "random products whose bits the unit is to predict (10)", "N" },
        { "json", 0, POPT_ARG_NONE, &x.json, 0, "print JSON", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    int status;

    if (!options_read(o, "[options]\n\n"
                         "example: limber reveal --blas libopenblas.so.0 --routine sgemm --shape "
                         "64,64,700"))
        status = 2;
    else if (poptPeekArg(o))
        status = complain("reveal takes options alone, no \"%s\"", poptGetArg(o)) + 1;
    else if (x.trials < 0)
        status = complain("--trials: a whole number from 0 on") + 1;
    else
        status = reveal_subject(&s, &x);
    poptFreeContext(o);
    for (char **text = (char *[]){ x.blas, x.routine, x.unit, x.contract, x.format, x.shape, x.at,
                                   NULL },
              **end = text + 7;
         text < end; text++)
        free(*text);
    return status;
}
