/* SPDX-License-Identifier: BSD-3-Clause
 * Calls every function that liblimber_cublas serves, in every form, as programs that use cuBLAS do.
 * If LIMBER_CUDA names a driver, matrices are in device memory, with streams, scalars on the host
 * or the device, captured streams and two devices; otherwise all memory is the host's.  Data are
 * small integers, which are exact in every type.  The argument says what is checked:
 *   served   all results are right; only calls that Limber must refuse reach the mock
 *   passed   all results are right, and the mock computed them
 *   three    the same as `served`, for the functions that request three real products
 *   order    under `reproducible`, sums that round have the bits of the documented order
 *   capture  the process makes its first call while its stream is captured */
#include "call.h"

#include "test/support/driver.h"
#include "tools/interpose/cublas/entries.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 5, N = 4, K = 7, COUNT = 3, MOST = 4096 };

static struct driver driver;    /* its functions are NULL if there is no device */
static struct handle *handle;
/* Whether Limber must compute the calls, rather than the mock. */
static bool served;
static int failures, checks;

/* Counts a check, and prints it if it failed. */
static void expect(bool ok, const char *what, const char *name)
{
    checks++;
    if (ok)
        return;
    failures++;
    printf("FAILED: %s: %s (%d calls of the mock, last %s)\n", name, what,
           handle ? handle->calls : 0, handle && handle->name ? handle->name : "none");
}

/* ---- the functions -------------------------------------------------------------------------- */

/* A call, and the addresses of its matrices. */
struct args {
    struct call x;
    const void *alpha, *beta;
    char *a, *b, *c;            /* matrices, or arrays of their addresses */
    int64_t step_a, step_b, step_c, count;
};

/* Declares a function of cuBLAS, and defines call_NAME, which calls it with the arguments in *y.
 * INT: its type of sizes. */
#define DECLARE(NAME, INT, PARAMS, ...) \
    int NAME(PARAMS(INT)); \
    static int call_##NAME(struct args *y) \
    { \
        typedef INT T; \
        const struct call *x = &y->x; \
\
        return NAME(handle, x->op_a, x->op_b, (T)x->m, (T)x->n, (T)x->k, y->alpha, __VA_ARGS__); \
    }
#define ARRAY_OF(p) (const void *const *)(void *)(p)
#define CALL_ONE(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ONE, y->a, (T)x->lda, y->b, (T)x->ldb, y->beta, y->c, \
            (T)x->ldc)
#define CALL_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_EX, y->a, x->type_a, (T)x->lda, y->b, x->type_b, (T)x->ldb, \
            y->beta, y->c, x->type_c, (T)x->ldc, x->compute, -1)
#define CALL_ARRAY(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ARRAY, ARRAY_OF(y->a), (T)x->lda, ARRAY_OF(y->b), (T)x->ldb, \
            y->beta, (void *const *)(void *)y->c, (T)x->ldc, (T)y->count)
#define CALL_ARRAY_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_ARRAY_EX, ARRAY_OF(y->a), x->type_a, (T)x->lda, \
            ARRAY_OF(y->b), x->type_b, (T)x->ldb, y->beta, (void *const *)(void *)y->c, x->type_c, \
            (T)x->ldc, (T)y->count, x->compute, -1)
#define CALL_STRIDED(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_STRIDED, y->a, (T)x->lda, y->step_a, y->b, (T)x->ldb, \
            y->step_b, y->beta, y->c, (T)x->ldc, y->step_c, (T)y->count)
#define CALL_STRIDED_EX(NAME, INT, TYPE, PRODUCTS) \
    DECLARE(NAME, INT, CUBLAS_PARAMS_STRIDED_EX, y->a, x->type_a, (T)x->lda, y->step_a, y->b, \
            x->type_b, (T)x->ldb, y->step_b, y->beta, y->c, x->type_c, (T)x->ldc, y->step_c, \
            (T)y->count, x->compute, -1)
CUBLAS_ONE(CALL_ONE)
CUBLAS_EX(CALL_EX)
CUBLAS_ARRAY(CALL_ARRAY)
CUBLAS_ARRAY_EX(CALL_ARRAY_EX)
CUBLAS_STRIDED(CALL_STRIDED)
CUBLAS_STRIDED_EX(CALL_STRIDED_EX)

/* A function of cuBLAS to test. */
struct function {
    const char *name;
    int (*call)(struct args *y);
    enum form form;
    /* index of the type in types[]; 0: the function is tested with each of types[] */
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

/* The types of A, B and C, and the type in which cuBLAS computes. */
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

static const struct function *find_function(const char *name)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    abort();
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Takes memory of the GPU, or of the host if there is no driver. */
static char *allocate(size_t bytes)
{
    uint64_t at = 0;

    if (!driver.cuInit)
        return calloc(1, bytes);
    if (driver.cuMemAlloc_v2(&at, bytes))
        expect(false, "cuMemAlloc", "memory");
    return (char *)(uintptr_t)at;
}

static void copy_to_device(void *to, const void *from, size_t bytes)
{
    if (!driver.cuInit)
        memcpy(to, from, bytes);
    else if (driver.cuMemcpyHtoDAsync_v2((uintptr_t)to, from, bytes, handle->stream))
        expect(false, "cuMemcpyHtoDAsync", "memory");
}

static void copy_to_host(void *to, const void *from, size_t bytes)
{
    if (!driver.cuInit)
        memcpy(to, from, bytes);
    else if (driver.cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, handle->stream) ||
             driver.cuStreamSynchronize(handle->stream))
        expect(false, "cuMemcpyDtoHAsync", "memory");
}

static void free_memory(void *p)
{
    if (driver.cuInit)
        driver.cuMemFree_v2((uintptr_t)p);
    else
        free(p);
}

static unsigned seed = 1;

/* Fills MOST bytes with small integers of the type. */
static void fill(char *p, int type)
{
    for (int64_t e = 0; e < MOST / call_size(type) * (call_is_complex(type) ? 2 : 1); e++) {
        seed = seed * 1103515245 + 12345;
        call_store(p, type, e, (int)(seed >> 16) % 9 - 4);
    }
}

/* ---- one call ------------------------------------------------------------------------------- */

/* The matrices of one operand in a batch: their host copy, their device copy, and the array of
 * device addresses. */
struct many {
    char here[MOST], *there, *array;
    int64_t step;               /* distance of matrices, in elements */
};
static struct many a, b, c;
static double alpha[2], beta[2];
/* Device memory for alpha and beta. */
static char *scalars_there;

/* Makes COUNT random matrices, and the array of their addresses. */
static void place_operand(struct many *x, int type)
{
    char *each[COUNT];

    x->step = MOST / COUNT / call_size(type);
    fill(x->here, type);
    copy_to_device(x->there, x->here, MOST);
    for (int g = 0; g < COUNT; g++)
        each[g] = x->there + g * x->step * call_size(type);
    copy_to_device(x->array, each, sizeof each);
}

/* Stores a scalar in host or device memory, according to the pointer mode, and returns its
 * address. */
static const void *place_scalar(const struct call *x, const double v[2], char *host, char *device)
{
    int type = call_scalar(x);

    for (int i = 0; i < (call_is_complex(type) ? 2 : 1); i++)
        call_store(host, type, i, v[i]);
    if (handle->mode == CUBLAS_POINTER_HOST)
        return host;
    copy_to_device(device, host, 16);
    return device;
}

/* Returns the arguments with which a function multiplies operands of its t-th combination of
 * types. */
static struct args make_args(const struct function *f, int t, int op_a, int op_b)
{
    int type = f->type;
    struct args y = { .count = f->form == FORM_one ? 1 : COUNT };

    y.x = (struct call){ op_a,  op_b, M,    N,    K, (op_a ? K : M) + 1, (op_b ? N : K) + 2,
                         M + 1, type, type, type, 0 };
    if (f->states_types) {
        y.x.type_a = types[t].a;
        y.x.type_b = types[t].b;
        y.x.type_c = types[t].c;
        y.x.compute = types[t].compute;
    }
    place_operand(&a, y.x.type_a);
    place_operand(&b, y.x.type_b);
    place_operand(&c, y.x.type_c);
    y.a = f->form == FORM_array ? a.array : a.there;
    y.b = f->form == FORM_array ? b.array : b.there;
    y.c = f->form == FORM_array ? c.array : c.there;
    y.step_a = a.step;
    y.step_b = b.step;
    y.step_c = c.step;
    return y;
}

/* Sets alpha and beta: 0: 1 and 0; 1: real; 2: complex. */
static void give_scalars(struct args *y, int scalars)
{
    static const double value[3][4] = { { 1, 0, 0, 0 }, { 2, 0, -3, 0 }, { 2, -1, -3, 2 } };
    static char host[2][32];

    for (int i = 0; i < 2; i++) {
        alpha[i] = i && !call_is_complex(y->x.type_c) ? 0 : value[scalars][i];
        beta[i] = i && !call_is_complex(y->x.type_c) ? 0 : value[scalars][2 + i];
    }
    y->alpha = place_scalar(&y->x, alpha, host[0], scalars_there);
    y->beta = place_scalar(&y->x, beta, host[1], scalars_there + 32);
}

/* Returns whether all elements of C are those wanted. */
static bool is_right(const struct args *y)
{
    const struct call *x = &y->x;
    static char got[MOST];
    double want[2], v[2];

    copy_to_host(got, c.there, MOST);
    for (int64_t g = 0; g < y->count; g++)
        for (int64_t i = 0; i < x->m; i++)
            for (int64_t j = 0; j < x->n; j++) {
                call_element(x, a.here + g * a.step * call_size(x->type_a),
                             b.here + g * b.step * call_size(x->type_b),
                             c.here + g * c.step * call_size(x->type_c), alpha, beta, i, j, want);
                call_pair(got + g * c.step * call_size(x->type_c), x->type_c, i + j * x->ldc, false,
                          v);
                if (v[0] != want[0] || (call_is_complex(x->type_c) && v[1] != want[1]))
                    return false;
            }
    return true;
}

/* Prints op(X) by rows, as pairs of real and imaginary parts. */
static void print_operand(FILE *to, const struct many *x, int64_t g, int type, int op, int64_t lead,
                          int64_t rows, int64_t cols)
{
    double v[2];

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            call_pair(x->here + g * x->step * call_size(type), type,
                      op ? j + i * lead : i + j * lead, op == CUBLAS_C, v);
            fprintf(to, "%g %g ", v[0], call_is_complex(type) ? v[1] : 0);
        }
    fprintf(to, "\n");
}

/* Prints operands, so that they can be compared with those that LIMBER_CAPTURE writes: a line
 * with the function's name, and a line of numbers for each of A and B. */
static void print_operands(const struct args *y, const char *name)
{
    static FILE *to;
    const struct call *x = &y->x;

    if (!to && !(getenv("OPERANDS") && (to = fopen(getenv("OPERANDS"), "we"))))
        return;
    for (int64_t g = 0; g < y->count; g++) {
        fprintf(to, "%s\n", name);
        print_operand(to, &a, g, x->type_a, x->op_a, x->lda, x->m, x->k);
        print_operand(to, &b, g, x->type_b, x->op_b, x->ldb, x->k, x->n);
    }
    fflush(to);
}

/* Calls a function once.  The call must reach the mock if and only if Limber must not compute it,
 * and the result must be right. */
static void try_call(const struct function *f, int t, int op_a, int op_b, int scalars)
{
    struct args y = make_args(f, t, op_a, op_b);
    int calls = handle->calls;

    give_scalars(&y, scalars);
    expect(f->call(&y) == CUBLAS_SUCCESS, "status", f->name);
    print_operands(&y, f->name);
    if (served)
        expect(handle->calls == calls, "reached the mock", f->name);
    else
        expect(handle->calls == calls + 1 && strcmp(handle->name, f->name) == 0 &&
                   handle->count == y.count,
               "did not reach the mock", f->name);
    if (!is_right(&y)) {
        expect(false, "wrong result", f->name);
        printf("  type %d ops %d%d scalars %d mode %d\n", y.x.type_c, op_a, op_b, scalars,
               handle->mode);
    }
}

/* ---- what programs do ----------------------------------------------------------------------- */

static const int ops[][2] = { { 0, 0 }, { 1, 0 }, { 0, 2 }, { 2, 1 }, { 1, 1 },
                              { 2, 2 }, { 0, 1 }, { 2, 0 }, { 1, 2 } };
enum { OPS = sizeof ops / sizeof *ops };

/* Calls all functions.  On a device, where calls take longer, each is called with one pair of
 * operations, with alternating streams and pointer modes. */
static void all_functions(void *stream)
{
    int i = 0;

    for (const struct function *f = functions; f < functions + FUNCTIONS; f++)
        for (int t = 0; t < (f->states_types ? TYPES : 1); t++)
            for (int scalars = 0; scalars < (getenv("OPERANDS") ? 1 : 3); scalars++, i++) {
                cublasSetStream_v2(handle, i % 2 ? stream : NULL);
                cublasSetPointerMode_v2(handle, driver.cuInit ? i / 2 % 2 : CUBLAS_POINTER_HOST);
                for (int op = driver.cuInit ? i % OPS : 0; op < (driver.cuInit ? i % OPS + 1 : OPS);
                     op++)
                    try_call(f, t, ops[op][0], ops[op][1], scalars);
            }
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_HOST);
    cublasSetStream_v2(handle, stream);
}

/* Checks that a batch takes as many launches as a batch of two, if the driver counts launches. */
static void batches_are_one_launch_a_step(void)
{
    /* two batches of two, since the first call of a kind also loads its scan kernel */
    static const int count[3] = { 2, 2, COUNT };

    for (const struct function *f = functions; driver.simt_launches && f < functions + FUNCTIONS;
         f++) {
        long launches[3] = { 0, 0, 0 };

        for (int i = 0; i < 3 && f->form != FORM_one; i++) {
            struct args y = make_args(f, 2, 0, 1);

            give_scalars(&y, call_is_complex(f->type) ? 2 : 1);
            y.count = count[i];
            launches[i] = driver.simt_launches();
            expect(f->call(&y) == CUBLAS_SUCCESS && is_right(&y), "a batch", f->name);
            launches[i] = driver.simt_launches() - launches[i];
        }
        expect(launches[1] == launches[2], "launches of a batch", f->name);
    }
}

/* A second call reads the first one's result, without a synchronization between them. */
static void calls_follow_each_other(const char *name)
{
    const struct function *f = find_function(name);
    struct args y = make_args(f, 0, 0, 0);
    char *last = c.there, *first = allocate(MOST);

    y.x.n = y.x.k = M;
    y.x.lda = y.x.ldb = y.x.ldc = M + 1;
    give_scalars(&y, 0);
    y.c = first;
    expect(f->call(&y) == CUBLAS_SUCCESS, "first status", name);
    y.b = first;
    y.c = last;
    expect(f->call(&y) == CUBLAS_SUCCESS, "second status", name);
    copy_to_host(b.here, first, MOST);
    expect(is_right(&y), "the second of two results", name);
    free_memory(first);
}

/* Makes a call that Limber refuses.  The call must reach cuBLAS unchanged, and cuBLAS's status must
 * be returned. */
static void check_refusal(struct args y, const struct function *f, int status, const char *what)
{
    int calls = handle->calls;

    handle->status = status;
    expect(f->call(&y) == status && handle->calls == calls + 1 &&
               strcmp(handle->name, f->name) == 0,
           what, f->name);
    handle->status = 0;
}

/* Calls that Limber refuses, with wrong arguments or types, must reach cuBLAS unchanged. */
static void check_refusals(void)
{
    const struct function *f = find_function("cublasDgemmStridedBatched");
    struct args good = make_args(f, 0, 0, 0), y = good;

    give_scalars(&good, 0);
    y = good;
    y.step_c = 0; /* so that results overlap */
    check_refusal(y, f, CUBLAS_SUCCESS, "overlap");
    y = good;
    y.x.m = -1;
    check_refusal(y, f, 7, "m < 0");
    f = find_function("cublasDgemm_v2");
    good = make_args(f, 0, 0, 0);
    give_scalars(&good, 0);
    y = good;
    y.x.lda = M - 1;
    check_refusal(y, f, 7, "a leading dimension");
    y = good;
    y.x.ldc = 0;
    check_refusal(y, f, 7, "a leading dimension of 0");
    y = good;
    y.x.op_a = 3;
    check_refusal(y, f, 7, "an operation");
    y = good;
    y.x.k = -1;
    check_refusal(y, f, 7, "k < 0");
    y = good;
    y.x.m = 0;
    check_refusal(y, f, CUBLAS_SUCCESS, "m = 0");
    f = find_function("cublasGemmEx");
    good = make_args(f, 0, 0, 0);
    give_scalars(&good, 0);
    y = good;
    y.x.type_a = y.x.type_b = y.x.type_c = CUDA_R_16F;
    y.x.compute = 64;
    check_refusal(y, f, 7, "a way of computing");
    y = good;
    y.x.type_b = y.x.type_c = CUDA_R_64F;
    y.x.compute = CUBLAS_64F;
    check_refusal(y, f, 7, "types that do not go together");
    if (!driver.cuInit)
        return;
    f = find_function("cublasZgemmBatched");
    y = make_args(f, 0, 0, 1);
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_DEVICE);
    give_scalars(&y, 1);
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_HOST);
    y.alpha = &alpha; /* alpha is in host memory, as the pointer mode says */
    y.beta = &beta;
    expect(f->call(&y) == CUBLAS_SUCCESS && is_right(&y), "scalars of the host", f->name);
}

/* Multiplies a row of k numbers by a column of ones, and returns the sum; C is 1 before. */
static double one_element(struct args *y, const struct function *f, const double *left, int k)
{
    const double ones[3] = { 1, 1, 1 };
    double sum = 1;

    y->x = (struct call){ 0, 0, 1, 1, k, 1, k, 1, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, 0 };
    copy_to_device(y->a, left, (size_t)k * sizeof *left);
    copy_to_device(y->b, ones, (size_t)k * sizeof *ones);
    copy_to_device(y->c, &sum, sizeof sum);
    expect(f->call(y) == CUBLAS_SUCCESS, "status", f->name);
    copy_to_host(&sum, y->c, sizeof sum);
    return sum;
}

/* Checks scalars on the device, a sum that cancels, and alpha = 0, with which A is not read. */
static void special_cases(void)
{
    const struct function *f = find_function("cublasDgemm_v2");
    const double cancel[3] = { 1e16, 1, -1e16 }, zero = 0, nan = 0 / zero;
    struct args y = make_args(f, 0, 0, 0);
    int calls = handle->calls;

    /* without a driver, the library takes host memory as device memory */
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_DEVICE);
    try_call(f, 0, 0, 1, 1);
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_HOST);
    give_scalars(&y, 0);
    expect(one_element(&y, f, cancel, 3) == 1, "not correct", f->name);
    give_scalars(&y, 1);
    y.alpha = &zero; /* alpha = 0: A is not read */
    expect(one_element(&y, f, &nan, 1) == -3, "alpha = 0", f->name);
    expect(handle->calls == calls, "reached the mock", f->name);
}

/* Makes a call on a stream that is being captured: the call reaches the mock, and the capture
 * stays valid. */
static void check_capture(const struct function *f, int t, int mode, int scalars)
{
    struct args y = make_args(f, t, 0, 0);
    void *graph = NULL, *exec = NULL;
    int calls = handle->calls;
    unsigned got = 0;

    cublasSetPointerMode_v2(handle, mode == 1 ? CUBLAS_POINTER_DEVICE : CUBLAS_POINTER_HOST);
    give_scalars(&y, scalars);
    expect(driver.cuStreamBeginCapture_v2(handle->stream, mode) == 0, "begin", f->name);
    expect(f->call(&y) == CUBLAS_SUCCESS && handle->calls == calls + 1, "not cuBLAS's", f->name);
    expect(driver.cuStreamEndCapture(handle->stream, &graph) == 0 && graph, "spoilt", f->name);
    cublasSetPointerMode_v2(handle, CUBLAS_POINTER_HOST);
    if (!graph)
        return;
    expect(driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 &&
               driver.cuGraphLaunch(exec, handle->stream) == 0,
           "graph", f->name);
    copy_to_host(&got, y.c, sizeof got);
    expect(got == CAPTURED_MARK, "nothing captured", f->name);
    driver.cuGraphExecDestroy(exec);
    driver.cuGraphDestroy(graph);
}

/* Calls functions while a graph is captured, in each mode of captures. */
static void check_captures(void)
{
    for (int mode = 0; mode < 3; mode++) {
        check_capture(find_function("cublasDgemm_v2"), 0, mode, mode);
        check_capture(find_function("cublasCgemm_v2"), 0, mode, mode);
        check_capture(find_function("cublasGemmEx"), 3, mode, 0);
        check_capture(find_function("cublasSgemmBatched"), 0, mode, 0);
        check_capture(find_function("cublasZgemmStridedBatched_64"), 0, mode, mode);
    }
}

/* While another stream is being captured, Limber must compute calls on a stream that is not. */
static void check_beside_capture(int mode)
{
    void *other, *graph = NULL;

    expect(driver.cuStreamCreate(&other, 1) == 0, "stream", "capture");
    expect(driver.cuStreamBeginCapture_v2(other, mode) == 0, "begin", "capture");
    try_call(find_function("cublasDgemm_v2"), 0, 0, 0, 1);
    try_call(find_function("cublasZgemm_v2"), 0, 2, 0, 2);
    expect(driver.cuStreamEndCapture(other, &graph) == 0, "spoilt", "capture");
    driver.cuGraphDestroy(graph);
    driver.cuStreamDestroy_v2(other);
}

/* Calls `work` with a handle, a stream and memory of a device. */
static void run_on_device(int device, void (*work)(void *stream))
{
    void *context = NULL, *stream = NULL;

    if (driver.cuInit)
        expect(driver.cuDevicePrimaryCtxRetain(&context, device) == 0 &&
                   driver.cuCtxSetCurrent(context) == 0 && driver.cuStreamCreate(&stream, 1) == 0,
               "start", "device");
    expect(cublasCreate_v2(&handle) == CUBLAS_SUCCESS, "handle", "device");
    cublasSetStream_v2(handle, stream);
    for (struct many *const *x = (struct many *const[]){ &a, &b, &c, NULL }; *x; x++) {
        (*x)->there = allocate(MOST);
        (*x)->array = allocate(COUNT * sizeof(void *));
    }
    scalars_there = allocate(64);
    work(stream);
    free_memory(scalars_there);
    for (struct many *const *x = (struct many *const[]){ &a, &b, &c, NULL }; *x; x++) {
        free_memory((*x)->there);
        free_memory((*x)->array);
    }
    if (stream)
        driver.cuStreamDestroy_v2(stream);
    cublasDestroy_v2(handle);
    handle = NULL;
}

/* Runs all checks that need one device. */
static void first_device(void *stream)
{
    all_functions(stream);
    calls_follow_each_other("cublasDgemm_v2");
    calls_follow_each_other("cublasSgemm_v2_64");
    calls_follow_each_other("cublasZgemm_v2");
    check_refusals();
    if (served) {
        special_cases();
        batches_are_one_launch_a_step();
    }
    if (served && driver.cuInit) {
        check_captures();
        for (int mode = 0; mode < 3; mode++)
            check_beside_capture(mode);
    }
}

/* Calls the functions that multiply complex numbers by three real products. */
static void three_products(void *stream)
{
    static const char *const names[] = { "cublasCgemm3m", "cublasZgemm3m_64",
                                         "cublasCgemm3mBatched", "cublasCgemm3mStridedBatched",
                                         "cublasZgemm3m" };

    (void)stream;
    for (int i = 0; i < 5; i++)
        for (int scalars = 0; scalars < 3; scalars++)
            try_call(find_function(names[i]), 0, ops[(i + scalars) % 4][0],
                     ops[(i + scalars) % 4][1], scalars);
    batches_are_one_launch_a_step();
}

/* ---- the stated order ----------------------------------------------------------------------- */

enum { LONG = 300, CHAIN = 256, LEAD = LONG + 3, ROOM = LEAD * (M + 1) * 8 };

/* Computes element (i, j) of A^T B in the documented order: chains of fused multiply-adds, the sum
 * of the chains, then alpha and beta. */
static double sum_in_order(const struct call *x, const char *at_a, const char *at_b, double old,
                           int64_t i, int64_t j)
{
    bool is_f32 = x->type_c != CUDA_R_64F;
    double total = 0;

    for (int64_t first = 0; first < x->k; first += CHAIN) {
        double s = 0;

        for (int64_t p = first; p < x->k && p < first + CHAIN; p++) {
            double u = call_number(at_a, x->type_a, p + i * x->lda);
            double v = call_number(at_b, x->type_b, p + j * x->ldb);

            s = is_f32 ? (double)fmaf((float)u, (float)v, (float)s) : fma(u, v, s);
        }
        total = first == 0 ? s : is_f32 ? (double)((float)total + (float)s) : total + s;
    }
    return fma(beta[0], old, alpha[0] == 1 ? total : alpha[0] * total);
}

/* Fills ROOM bytes with numbers of several exponents, so that every sum rounds. */
static void fill_rounding(char *p, int type)
{
    for (int64_t e = 0; e < ROOM / call_size(type); e++) {
        seed = seed * 1103515245 + 12345;
        call_store(p, type, e, ldexp((double)(seed >> 8) - 0x1p23, -24 - (int)(seed % 5)));
    }
}

/* Under `reproducible`, products in all types must have the bits of the documented order. */
static void sums_have_one_order(void *stream)
{
    static char at_a[ROOM], at_b[ROOM], at_c[ROOM], got[ROOM], host[2][32];
    char *there[3] = { allocate(ROOM), allocate(ROOM), allocate(ROOM) };
    const struct function *const f = find_function("cublasGemmEx");
    static const double values[2] = { -0.75, 0.3125 }; /* values that are exact in every type */

    (void)stream;
    for (int t = 0; t < TYPES; t++)
        for (int scalars = 0; scalars < 2; scalars++) {
            struct args y = { .a = there[0], .b = there[1], .c = there[2], .count = 1 };
            int calls = handle->calls;

            if (call_is_complex(types[t].c) || types[t].c == CUDA_R_32I)
                continue;
            y.x = (struct call){ CUBLAS_T,   CUBLAS_N,   M,          N,
                                 LONG,       LEAD,       LEAD,       M + 1,
                                 types[t].a, types[t].b, types[t].c, types[t].compute };
            alpha[0] = scalars ? values[0] : 1;
            beta[0] = scalars ? values[1] : 0;
            y.alpha = place_scalar(&y.x, alpha, host[0], scalars_there);
            y.beta = place_scalar(&y.x, beta, host[1], scalars_there + 32);
            fill_rounding(at_a, y.x.type_a);
            fill_rounding(at_b, y.x.type_b);
            fill_rounding(at_c, y.x.type_c);
            copy_to_device(there[0], at_a, ROOM);
            copy_to_device(there[1], at_b, ROOM);
            copy_to_device(there[2], at_c, ROOM);
            expect(f->call(&y) == CUBLAS_SUCCESS && handle->calls == calls, "served", f->name);
            copy_to_host(got, there[2], ROOM);
            for (int64_t e = 0; e < M * N; e++) {
                int64_t at = e % M + e / M * y.x.ldc;
                double old = scalars ? call_number(at_c, y.x.type_c, at) : 0;

                call_store(at_c, y.x.type_c, at, sum_in_order(&y.x, at_a, at_b, old, e % M, e / M));
            }
            expect(memcmp(got, at_c, (size_t)(N * (M + 1) * call_size(y.x.type_c))) == 0,
                   "the stated order", f->name);
        }
    for (int i = 0; i < 3; i++)
        free_memory(there[i]);
}

/* Calls functions on the second device. */
static void second_device(void *stream)
{
    (void)stream;
    try_call(find_function("cublasDgemm_v2"), 0, 0, 0, 1);
    try_call(find_function("cublasCgemmStridedBatched"), 0, 1, 2, 2);
    try_call(find_function("cublasGemmBatchedEx"), 2, 1, 0, 0);
}

static void captured_first(void *stream)
{
    (void)stream;
    check_captures();
    second_device(stream);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "served";

    served = strcmp(how, "passed") != 0;
    if (getenv("LIMBER_CUDA") && !driver_open(&driver)) {
        printf("FAILED: no driver\n");
        return 1;
    }
    if (strcmp(how, "three") == 0) {
        run_on_device(0, three_products);
    } else if (strcmp(how, "order") == 0) {
        run_on_device(0, sums_have_one_order);
    } else if (!driver.cuInit) {
        run_on_device(0, first_device);
    } else {
        run_on_device(0, strcmp(how, "capture") == 0 ? captured_first : first_device);
        run_on_device(1, second_device);
        run_on_device(0, second_device);
    }
    if (driver.simt_error && *driver.simt_error())
        expect(false, driver.simt_error(), "the harness");
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
