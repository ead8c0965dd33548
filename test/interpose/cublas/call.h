/* SPDX-License-Identifier: BSD-3-Clause
 * A cuBLAS call with all its arguments, and its result by definition.  The mock computes by it, and
 * the program checks by it. */
#ifndef LIMBER_TEST_CUBLAS_CALL_H
#define LIMBER_TEST_CUBLAS_CALL_H

#include "tools/interpose/cublas/cublas.h"

/* A call of cublasGemmEx. */
struct call {
    int op_a, op_b;
    int64_t m, n, k, lda, ldb, ldc;
    int type_a, type_b, type_c, compute;
};

/* The mock's handle.  It records the last call.  If `status` is not 0, every call returns it. */
struct handle {
    void *stream;
    int mode, calls, status;
    const char *name;
    int64_t count; /* number of products of the last call */
};
int cublasCreate_v2(struct handle **handle);
int cublasDestroy_v2(struct handle *handle);
int cublasSetStream_v2(struct handle *handle, void *stream);
int cublasGetStream_v2(void *handle, void **stream);
int cublasSetPointerMode_v2(struct handle *handle, int mode);
int cublasGetPointerMode_v2(void *handle, int *mode);

static inline bool call_is_complex(int type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}

static inline limber_format call_format(int type)
{
    limber_format f = { 0 };

    limber_format_named(type == CUDA_R_32F || type == CUDA_C_32F ? "f32" :
                        type == CUDA_R_64F || type == CUDA_C_64F ? "f64" :
                        type == CUDA_R_16F                       ? "f16" :
                        type == CUDA_R_16BF                      ? "bf16" :
                        type == CUDA_R_8I                        ? "i8" :
                                                                   "i32",
                        &f);
    return f;
}

static inline int64_t call_size(int type)
{
    return call_format(type).size * (call_is_complex(type) ? 2 : 1);
}

/* Returns the type of alpha and beta. */
static inline int call_scalar(const struct call *x)
{
    if (call_is_complex(x->type_c))
        return x->type_c;
    return x->compute == 0          ? x->type_c :
           x->compute == CUBLAS_64F ? CUDA_R_64F :
           x->compute == CUBLAS_32I ? CUDA_R_32I :
                                      CUDA_R_32F;
}

/* Returns the part-th number at an address; a complex element has two. */
static inline double call_number(const char *from, int type, int64_t part)
{
    limber_format f = call_format(type), f64;
    double v;

    limber_format_named("f64", &f64);
    limber_convert(&v, f64, from + part * f.size, f, 1, LIMBER_ROUND_NEAREST);
    return v;
}

static inline void call_store(char *to, int type, int64_t part, double v)
{
    limber_format f = call_format(type), f64;

    limber_format_named("f64", &f64);
    limber_convert(to + part * f.size, f, &v, f64, 1, LIMBER_ROUND_NEAREST);
}

/* Returns the real and imaginary part of element `at`. */
static inline void call_pair(const char *data, int type, int64_t at, bool conj, double v[2])
{
    v[0] = call_number(data, type, call_is_complex(type) ? 2 * at : at);
    v[1] = call_is_complex(type) ? call_number(data, type, 2 * at + 1) : 0;
    v[1] = conj ? -v[1] : v[1];
}

/* Returns the bytes from a matrix's first to its last element.  op: it is transposed. */
static inline int64_t call_extent(int64_t rows, int64_t cols, int64_t lead, int op, int type)
{
    int64_t high = op ? cols : rows, wide = op ? rows : cols;

    return high && wide ? ((wide - 1) * lead + high) * call_size(type) : 0;
}

/* Computes element (i, j) of C = alpha op(A) op(B) + beta C, in host memory, as real and imaginary
 * part.  The result is exact for small integers. */
static inline void call_element(const struct call *x, const char *a, const char *b, const char *c,
                                const double alpha[2], const double beta[2], int64_t i, int64_t j,
                                double out[2])
{
    double sum[2] = { 0, 0 }, u[2], v[2];

    for (int64_t p = 0; p < x->k; p++) {
        call_pair(a, x->type_a, x->op_a ? p + i * x->lda : i + p * x->lda, x->op_a == CUBLAS_C, u);
        call_pair(b, x->type_b, x->op_b ? j + p * x->ldb : p + j * x->ldb, x->op_b == CUBLAS_C, v);
        sum[0] += u[0] * v[0] - u[1] * v[1];
        sum[1] += u[0] * v[1] + u[1] * v[0];
    }
    call_pair(c, x->type_c, i + j * x->ldc, false, v);
    if (beta[0] == 0 && beta[1] == 0)
        v[0] = v[1] = 0;
    out[0] = alpha[0] * sum[0] - alpha[1] * sum[1] + beta[0] * v[0] - beta[1] * v[1];
    out[1] = alpha[0] * sum[1] + alpha[1] * sum[0] + beta[0] * v[1] + beta[1] * v[0];
}

/* bits that the mock stores in the result of a captured call */
enum { CAPTURED_MARK = 0x40a00000 };

#endif
