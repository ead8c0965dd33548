/* SPDX-License-Identifier: BSD-3-Clause
 * A mock libcublas that computes on the host.  If LIMBER_CUDA names a driver, matrices are in
 * device memory and are copied in the order of the handle's stream.  If the stream is being
 * captured, a call only stores a mark in the result. */
#include "call.h"

#include "test/support/driver.h"

#include "tools/interpose/cublas/entries.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { EXECUTION_FAILED = 13 };

static struct driver driver; /* its functions are NULL if all memory is the host's */

EXPORT int cublasCreate_v2(struct handle **handle)
{
    if (!driver.cuInit && getenv("LIMBER_CUDA") && !driver_open(&driver))
        return CUBLAS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    return *handle ? CUBLAS_SUCCESS : 3;
}

EXPORT int cublasDestroy_v2(struct handle *handle)
{
    free(handle);
    return CUBLAS_SUCCESS;
}

EXPORT int cublasSetStream_v2(struct handle *handle, void *stream)
{
    handle->stream = stream;
    return CUBLAS_SUCCESS;
}

EXPORT int cublasGetStream_v2(void *handle, void **stream)
{
    *stream = ((struct handle *)handle)->stream;
    return CUBLAS_SUCCESS;
}

EXPORT int cublasSetPointerMode_v2(struct handle *handle, int mode)
{
    handle->mode = mode;
    return CUBLAS_SUCCESS;
}

EXPORT int cublasGetPointerMode_v2(void *handle, int *mode)
{
    *mode = ((struct handle *)handle)->mode;
    return CUBLAS_SUCCESS;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* Copies memory of the device, or of the host if there is no driver.  The caller frees the copy. */
static char *fetch(const struct handle *h, const void *from, int64_t bytes)
{
    char *p = calloc(1, (size_t)bytes + 1);

    if (!driver.cuInit)
        return memcpy(p, from, (size_t)bytes);
    if (driver.cuMemcpyDtoHAsync_v2(p, (uintptr_t)from, (size_t)bytes, h->stream) ||
        driver.cuStreamSynchronize(h->stream)) {
        free(p);
        return NULL;
    }
    return p;
}

/* Reads alpha or beta from host or device memory, as the handle's pointer mode says. */
static bool fetch_scalar(const struct handle *h, const struct call *x, const void *from,
                         double v[2])
{
    int type = call_scalar(x);
    char *p = h->mode == CUBLAS_POINTER_DEVICE ? fetch(h, from, call_size(type)) : NULL;

    if (!p && h->mode == CUBLAS_POINTER_DEVICE)
        return false;
    call_pair(p ? p : from, type, 0, false, v);
    free(p);
    return true;
}

/* ---- products ------------------------------------------------------------------------------- */

/* Computes C, element by element. */
static void compute(const struct call *x, const char *a, const char *b, char *c,
                    const double alpha[2], const double beta[2])
{
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            int parts = call_is_complex(x->type_c) ? 2 : 1;
            double v[2];

            call_element(x, a, b, c, alpha, beta, i, j, v);
            for (int y = 0; y < parts; y++)
                call_store(c, x->type_c, (i + j * x->ldc) * parts + y, v[y]);
        }
}

/* Computes a product as cuBLAS does, from operands in device memory if there is a driver. */
static int multiply(const struct handle *h, const struct call *x, const void *alpha, const void *a,
                    const void *b, const void *beta, void *to)
{
    int64_t bytes = call_extent(x->m, x->n, x->ldc, 0, x->type_c);
    char *pa = fetch(h, a, call_extent(x->m, x->k, x->lda, x->op_a, x->type_a));
    char *pb = fetch(h, b, call_extent(x->k, x->n, x->ldb, x->op_b, x->type_b));
    char *pc = fetch(h, to, bytes);
    double va[2], vb[2];
    bool ok = pa && pb && pc && fetch_scalar(h, x, alpha, va) && fetch_scalar(h, x, beta, vb);

    if (ok)
        compute(x, pa, pb, pc, va, vb);
    if (ok && !driver.cuInit)
        memcpy(to, pc, (size_t)bytes);
    else if (ok)
        ok = driver.cuMemcpyHtoDAsync_v2((uintptr_t)to, pc, (size_t)bytes, h->stream) == 0 &&
             driver.cuStreamSynchronize(h->stream) == 0;
    free(pa);
    free(pb);
    free(pc);
    return ok ? CUBLAS_SUCCESS : EXECUTION_FAILED;
}

static bool is_captured(const struct handle *h)
{
    int status = 0;

    return (driver.cuInit && driver.cuStreamIsCapturing(h->stream, &status) != 0) || status != 0;
}

/* In a captured stream the mock computes nothing, and stores a mark that the test finds. */
static int mark_captured(const struct handle *h, void *c)
{
    return driver.cuMemsetD32Async((uintptr_t)c, CAPTURED_MARK, 1, h->stream) ? EXECUTION_FAILED :
                                                                                CUBLAS_SUCCESS;
}

/* Returns the number of calls through all handles. */
EXPORT long cublas_mock_calls(void);
static long all_calls;
EXPORT long cublas_mock_calls(void)
{
    return all_calls;
}

/* Notes which function was called last. */
static void record_call(struct handle *h, const char *name, int64_t count)
{
    all_calls++;
    h->calls++;
    h->name = name;
    h->count = count;
}

/* Computes a batch whose matrices lie at constant distances. */
static int strided(struct handle *h, const struct call *x, const void *alpha, const char *a,
                   int64_t step_a, const char *b, int64_t step_b, const void *beta, char *c,
                   int64_t step_c, int64_t count)
{
    int status = h->status;

    if (!status && is_captured(h))
        return mark_captured(h, c);
    for (int64_t g = 0; g < count && !status; g++)
        status = multiply(h, x, alpha, a + g * step_a * call_size(x->type_a),
                          b + g * step_b * call_size(x->type_b), beta,
                          c + g * step_c * call_size(x->type_c));
    return status;
}

/* Computes a batch whose matrices are given by lists of addresses. */
static int array(struct handle *h, const struct call *x, const void *alpha, const void *const *a,
                 const void *const *b, const void *beta, void *const *c, int64_t count)
{
    int64_t bytes = count * (int64_t)sizeof(void *);
    char *pa, *pb, *pc;
    int status = h->status;

    if (!status && is_captured(h))
        return mark_captured(h, (void *)(uintptr_t)c);
    pa = fetch(h, a, bytes);
    pb = fetch(h, b, bytes);
    pc = fetch(h, c, bytes);
    for (int64_t g = 0; g < count && !status; g++)
        status = pa && pb && pc ? multiply(h, x, alpha, ((void **)pa)[g], ((void **)pb)[g], beta,
                                           ((void **)pc)[g]) :
                                  EXECUTION_FAILED;
    free(pa);
    free(pb);
    free(pc);
    return status;
}

/* ---- the functions -------------------------------------------------------------------------- */

/* Defines a function of cuBLAS. TA, TB, TC: types of the matrices; RESULT: the expression that
 * computes and returns a status. */
#define DEFINE(NAME, PARAMS, TA, TB, TC, COMPUTE, COUNT, RESULT) \
    EXPORT int NAME(PARAMS); \
    EXPORT int NAME(PARAMS) \
    { \
        const struct call x = { transa, transb, m, n, k, lda, ldb, ldc, TA, TB, TC, COMPUTE }; \
\
        record_call(handle, #NAME, COUNT); \
        return RESULT; \
    }
#define ONE(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_ONE(T), TYPE, TYPE, TYPE, 0, 1, \
           strided(handle, &x, alpha, a, 0, b, 0, beta, c, 0, 1))
#define ARRAY(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_ARRAY(T), TYPE, TYPE, TYPE, 0, count, \
           array(handle, &x, alpha, a, b, beta, c, count))
#define STRIDED(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_STRIDED(T), TYPE, TYPE, TYPE, 0, count, \
           strided(handle, &x, alpha, a, step_a, b, step_b, beta, c, step_c, count))
#define EX(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_EX(T), type_a, type_b, type_c, compute, 1, \
           strided(handle, &x, alpha, a, 0, b, 0, beta, c, 0, 1))
#define ARRAY_EX(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_ARRAY_EX(T), type_a, type_b, type_c, compute, count, \
           array(handle, &x, alpha, a, b, beta, c, count))
#define STRIDED_EX(NAME, T, TYPE, PRODUCTS) \
    DEFINE(NAME, CUBLAS_PARAMS_STRIDED_EX(T), type_a, type_b, type_c, compute, count, \
           strided(handle, &x, alpha, a, step_a, b, step_b, beta, c, step_c, count))

#pragma GCC diagnostic ignored "-Wunused-parameter"
CUBLAS_ONE(ONE)
CUBLAS_ARRAY(ARRAY)
CUBLAS_STRIDED(STRIDED)
CUBLAS_EX(EX)
CUBLAS_ARRAY_EX(ARRAY_EX)
CUBLAS_STRIDED_EX(STRIDED_EX)
