/* SPDX-License-Identifier: BSD-3-Clause
 * A program that multiplies by cuBLAS: every function that liblimber_cublas serves, in every form.
 * "served": results are checked and nothing may reach the mock but what Limber has to refuse;
 * "passed": everything has to reach it.  Data are small integers, exact in every type. */
#include "mock.h"

#include "tools/interpose/cublas/cublas.h"
#include "tools/interpose/cublas/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MOST = 3, M = 5, N = 4, K = 7, ROOM = 4 * 16 * 16 };

static int failures, checks;

static void expect(int ok, const char *what, const char *name)
{
    checks++;
    if (ok)
        return;
    failures++;
    printf("FAILED: %s: %s (mock: %d calls, last %s)\n", name, what, mock.calls,
           mock.name ? mock.name : "none");
}

/* ---- the functions --------------------------------------------------------------------------- */

struct args {
    int transa, transb;
    int64_t m, n, k, lda, ldb, ldc, count;
    const void *alpha, *beta;
    char *a, *b, *c;
    const void *pa[COUNT_MOST], *pb[COUNT_MOST];
    void *pc[COUNT_MOST];
    int64_t step_a, step_b, step_c;
    int type_a, type_b, type_c, compute;
    void *handle;
};

#define HEAD x->handle, x->transa, x->transb, (T)x->m, (T)x->n, (T)x->k, x->alpha
#define DECLARE(NAME, INT, PARAMS, ...) \
    int NAME(PARAMS(INT)); \
    static int call_##NAME(struct args *x) \
    { \
        typedef INT T; \
\
        return NAME(__VA_ARGS__); \
    }
#define CALL_ONE(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ONE, HEAD, x->a, (T)x->lda, x->b, (T)x->ldb, x->beta, x->c, \
            (T)x->ldc)
#define CALL_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_EX, HEAD, x->a, x->type_a, (T)x->lda, x->b, x->type_b, \
            (T)x->ldb, x->beta, x->c, x->type_c, (T)x->ldc, x->compute, -1)
#define CALL_ARRAY(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ARRAY, HEAD, x->pa, (T)x->lda, x->pb, (T)x->ldb, x->beta, \
            x->pc, (T)x->ldc, (T)x->count)
#define CALL_ARRAY_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ARRAY_EX, HEAD, x->pa, x->type_a, (T)x->lda, x->pb, \
            x->type_b, (T)x->ldb, x->beta, x->pc, x->type_c, (T)x->ldc, (T)x->count, x->compute, \
            -1)
#define CALL_STRIDED(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_STRIDED, HEAD, x->a, (T)x->lda, x->step_a, x->b, (T)x->ldb, \
            x->step_b, x->beta, x->c, (T)x->ldc, x->step_c, (T)x->count)
#define CALL_STRIDED_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_STRIDED_EX, HEAD, x->a, x->type_a, (T)x->lda, x->step_a, \
            x->b, x->type_b, (T)x->ldb, x->step_b, x->beta, x->c, x->type_c, (T)x->ldc, x->step_c, \
            (T)x->count, x->compute, -1)
CUBLAS_ONE(CALL_ONE)
CUBLAS_EX(CALL_EX)
CUBLAS_ARRAY(CALL_ARRAY)
CUBLAS_ARRAY_EX(CALL_ARRAY_EX)
CUBLAS_STRIDED(CALL_STRIDED)
CUBLAS_STRIDED_EX(CALL_STRIDED_EX)

struct function {
    const char *name;
    int (*call)(struct args *x);
    enum form form;
    int type;
    bool states_types;
};
#define ROW_ONE(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_one, TYPE, false },
#define ROW_EX(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_one, TYPE, true },
#define ROW_ARRAY(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_array, TYPE, false },
#define ROW_ARRAY_EX(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_array, TYPE, true },
#define ROW_STRIDED(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_strided, TYPE, false },
#define ROW_STRIDED_EX(NAME, INT, TYPE, P) { #NAME, call_##NAME, FORM_strided, TYPE, true },
static const struct function functions[] = { CUBLAS_ONE(ROW_ONE) CUBLAS_EX(ROW_EX) CUBLAS_ARRAY(
    ROW_ARRAY) CUBLAS_ARRAY_EX(ROW_ARRAY_EX) CUBLAS_STRIDED(ROW_STRIDED)
                                                 CUBLAS_STRIDED_EX(ROW_STRIDED_EX) };
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- numbers --------------------------------------------------------------------------------- */

static const struct {
    int a, b, c, compute;
} types[] = {
    { CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_32F },
    { CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_32F_FAST_TF32 },
    { CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_64F },
    { CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_32F },
    { CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_32F },
    { CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_32F_PEDANTIC },
    { CUDA_R_8I, CUDA_R_8I, CUDA_R_32I, CUBLAS_32I },
    { CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, CUBLAS_32F },
    { CUDA_C_64F, CUDA_C_64F, CUDA_C_64F, CUBLAS_64F },
};
enum { TYPES = sizeof types / sizeof *types };

static bool is_complex(int type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}

static limber_format format(int type)
{
    const char *name = type == CUDA_R_32F || type == CUDA_C_32F ? "f32" :
                       type == CUDA_R_64F || type == CUDA_C_64F ? "f64" :
                       type == CUDA_R_16F                       ? "f16" :
                       type == CUDA_R_16BF                      ? "bf16" :
                       type == CUDA_R_8I                        ? "i8" :
                                                                  "i32";
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

static int parts(int type)
{
    return is_complex(type) ? 2 : 1;
}

static void store(char *to, int type, int64_t part, double v)
{
    limber_format f = format(type), f64 = format(CUDA_R_64F);

    limber_convert(to + part * f.size, f, &v, f64, 1, LIMBER_ROUND_NEAREST);
}

static double number(const char *from, int type, int64_t part)
{
    limber_format f = format(type), f64 = format(CUDA_R_64F);
    double v;

    limber_convert(&v, f64, from + part * f.size, f, 1, LIMBER_ROUND_NEAREST);
    return v;
}

static unsigned seed = 1;

static int small(void)
{
    seed = seed * 1103515245 + 12345;
    return (int)(seed >> 16) % 9 - 4;
}

/* ---- one call -------------------------------------------------------------------------------- */

static char store_a[ROOM * 16], store_b[ROOM * 16], store_c[ROOM * 16], before[ROOM * 16];
static char alpha[16], beta[16];
static double alpha_v[2], beta_v[2];

static void make(struct args *x, const struct function *f, int scalars)
{
    int64_t step = ROOM / 4;
    int scalar = x->compute == CUBLAS_32I ? CUDA_R_32I :
                 x->compute == 0          ? x->type_c :
                 x->compute == CUBLAS_64F ? CUDA_R_64F :
                                            CUDA_R_32F;

    for (int64_t e = 0; e < ROOM; e++) {
        store(store_a, x->type_a, e, small());
        store(store_b, x->type_b, e, small());
        store(store_c, x->type_c, e, small());
    }
    memcpy(before, store_c, sizeof before);
    for (int i = 0; i < 2; i++) {
        alpha_v[i] = i == 0 ? scalars ? 2 : 1 : scalars == 2 ? -1 : 0;
        beta_v[i] = i == 0 ? scalars ? -3 : 0 : scalars == 2 ? 2 : 0;
        if (i < parts(x->type_c)) {
            store(alpha, scalar, i, alpha_v[i]);
            store(beta, scalar, i, beta_v[i]);
        } else {
            alpha_v[i] = beta_v[i] = 0;
        }
    }
    x->handle = &mock;
    x->alpha = alpha;
    x->beta = beta;
    x->a = store_a;
    x->b = store_b;
    x->c = store_c;
    x->count = f->form == FORM_one ? 1 : COUNT_MOST;
    x->step_a = x->step_b = x->step_c = step / 2;
    for (int64_t g = 0; g < COUNT_MOST; g++) {
        x->pa[g] = x->a + g * x->step_a * parts(x->type_a) * format(x->type_a).size;
        x->pb[g] = x->b + g * x->step_b * parts(x->type_b) * format(x->type_b).size;
        x->pc[g] = x->c + g * x->step_c * parts(x->type_c) * format(x->type_c).size;
    }
}

static struct args shape(int type_a, int type_b, int type_c, int compute, int transa, int transb)
{
    return (struct args){
        .transa = transa,
        .transb = transb,
        .m = M,
        .n = N,
        .k = K,
        .lda = (transa ? K : M) + 1,
        .ldb = (transb ? N : K) + 2,
        .ldc = M + 1,
        .type_a = type_a,
        .type_b = type_b,
        .type_c = type_c,
        .compute = compute,
    };
}

/* Element (i, j) of op(X). */
static void load(const char *data, int type, int64_t lead, int op, int64_t i, int64_t j,
                 double v[2])
{
    int64_t at = op ? j + i * lead : i + j * lead;

    v[0] = number(data, type, at * parts(type));
    v[1] = is_complex(type) ? number(data, type, at * 2 + 1) : 0;
    if (op == CUBLAS_C)
        v[1] = -v[1];
}

static bool is_right(const struct args *x, int64_t g, int64_t i, int64_t j)
{
    int64_t at = g * x->step_c * parts(x->type_c);
    double sum[2] = { 0, 0 }, c[2], want[2], got;

    for (int64_t p = 0; p < x->k; p++) {
        double a[2], b[2];

        load(x->pa[g], x->type_a, x->lda, x->transa, i, p, a);
        load(x->pb[g], x->type_b, x->ldb, x->transb, p, j, b);
        sum[0] += a[0] * b[0] - a[1] * b[1];
        sum[1] += a[0] * b[1] + a[1] * b[0];
    }
    load(before + at * format(x->type_c).size, x->type_c, x->ldc, CUBLAS_N, i, j, c);
    want[0] = alpha_v[0] * sum[0] - alpha_v[1] * sum[1] + beta_v[0] * c[0] - beta_v[1] * c[1];
    want[1] = alpha_v[0] * sum[1] + alpha_v[1] * sum[0] + beta_v[0] * c[1] + beta_v[1] * c[0];
    for (int y = 0; y < parts(x->type_c); y++) {
        got = number(x->c, x->type_c, at + (i + j * x->ldc) * parts(x->type_c) + y);
        if (got != want[y])
            return false;
    }
    return true;
}

static bool are_right(const struct args *x)
{
    for (int64_t g = 0; g < x->count; g++)
        for (int64_t i = 0; i < x->m; i++)
            for (int64_t j = 0; j < x->n; j++)
                if (!is_right(x, g, i, j))
                    return false;
    return true;
}

static void try_call(const struct function *f, struct args *x, int scalars, bool served)
{
    int calls = mock.calls, status;

    make(x, f, scalars);
    status = f->call(x);
    expect(status == 0, "status", f->name);
    if (served) {
        expect(mock.calls == calls, "reached the mock", f->name);
        expect(are_right(x), "wrong result", f->name);
    } else {
        expect(mock.calls == calls + 1 && strcmp(mock.name, f->name) == 0 && mock.count == x->count,
               "did not reach the mock", f->name);
        expect(memcmp(before, store_c, sizeof before) == 0, "touched c", f->name);
    }
}

static void try_function(const struct function *f, bool served)
{
    for (int op = 0; op < 9; op++)
        for (int t = 0; t < (f->states_types ? TYPES : 1); t++) {
            struct args x = f->states_types ? shape(types[t].a, types[t].b, types[t].c,
                                                    types[t].compute, op % 3, op / 3) :
                                              shape(f->type, f->type, f->type, 0, op % 3, op / 3);

            for (int scalars = 0; scalars < 3; scalars++)
                try_call(f, &x, scalars, served);
        }
}

/* ---- what has to reach cuBLAS whatever the contract ----------------------------------------- */

static const struct function *named(const char *name)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

static void refused(void)
{
    const struct function *d = named("cublasDgemm_v2"), *ex = named("cublasGemmEx");
    const struct function *strided = named("cublasDgemmStridedBatched");
    struct args good = shape(CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, 0, 0, 0), x;

    x = good;
    x.lda = M - 1;
    try_call(d, &x, 0, false);
    x = good;
    x.transa = 3;
    try_call(d, &x, 0, false);
    x = good;
    x.k = -1;
    try_call(d, &x, 0, false);
    x = good;
    x.m = 0;
    try_call(d, &x, 0, false);
    x = shape(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, 64, 0, 0);
    try_call(ex, &x, 0, false);
    x = shape(CUDA_R_32F, CUDA_R_64F, CUDA_R_64F, CUBLAS_64F, 0, 0);
    try_call(ex, &x, 0, false);
    x = good;
    make(&x, strided, 0);
    x.step_c = 0; /* results that overlap: Limber refuses */
    strided->call(&x);
    expect(mock.name && strcmp(mock.name, strided->name) == 0, "overlap was served", strided->name);
    mock.status = 7;
    make(&x, d, 0);
    x.ldc = 0;
    expect(d->call(&x) == 7, "the status of cuBLAS", d->name);
    mock.status = 0;
}

static void special_cases(void)
{
    const struct function *d = named("cublasDgemm_v2");
    struct args x = shape(CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, 0, 0, 1);
    const double cancel[3] = { 1e16, 1, -1e16 }, ones[3] = { 1, 1, 1 };
    double sum = 0, nan = 0, zero = 0;
    int calls = mock.calls;

    mock.pointer_mode = CUBLAS_POINTER_DEVICE; /* without a driver, memory like any other */
    try_call(d, &x, 1, true);
    mock.pointer_mode = CUBLAS_POINTER_HOST;
    x.m = x.n = 1;
    x.k = 3;
    x.lda = x.ldb = x.ldc = 1;
    make(&x, d, 0);
    x.a = (char *)(uintptr_t)cancel;
    x.b = (char *)(uintptr_t)ones;
    x.c = (char *)&sum;
    expect(d->call(&x) == 0 && sum == 1, "not correct", d->name);
    nan = sum / zero - sum / zero;
    make(&x, d, 1);
    x.a = (char *)&nan;
    x.k = 1;
    x.alpha = &zero; /* A is not read */
    x.c = (char *)&sum;
    expect(d->call(&x) == 0 && sum == -3, "alpha = 0", d->name);
    expect(mock.calls == calls, "reached the mock", d->name);
}

int main(int argc, char **argv)
{
    bool served = argc > 1 && strcmp(argv[1], "served") == 0;

    for (int i = 0; i < FUNCTIONS; i++)
        try_function(&functions[i], served);
    refused();
    if (served)
        special_cases();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
