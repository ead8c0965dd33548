/* SPDX-License-Identifier: BSD-3-Clause
 * The library in front of cuBLAS: Limber computes the products for which the user states a
 * contract, and all other calls are forwarded.  cuBLAS's types and constants are declared here, so
 * that the library can be built without CUDA. */
#ifndef LIMBER_CUBLAS_H
#define LIMBER_CUBLAS_H

#include "tools/interpose/shared/interpose.h"

#include <stdbool.h>

/* Constants of cublasStatus_t, cublasOperation_t and cublasPointerMode_t. */
enum { CUBLAS_SUCCESS = 0, CUBLAS_NOT_INITIALIZED = 1 };
enum { CUBLAS_N = 0, CUBLAS_T = 1, CUBLAS_C = 2 };
enum { CUBLAS_POINTER_HOST = 0, CUBLAS_POINTER_DEVICE = 1 };

/* cudaDataType: R is real, C is complex. */
enum {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_8I = 3,
    CUDA_C_32F = 4,
    CUDA_C_64F = 5,
    CUDA_R_32I = 10,
    CUDA_R_16BF = 14,
    CUDA_R_8F_E4M3 = 28,
    CUDA_R_8F_E5M2 = 29
};

/* cublasComputeType_t */
enum {
    CUBLAS_32F = 68,
    CUBLAS_32F_PEDANTIC = 69,
    CUBLAS_64F = 70,
    CUBLAS_64F_PEDANTIC = 71,
    CUBLAS_32I = 72,
    CUBLAS_32I_PEDANTIC = 73,
    CUBLAS_32F_FAST_16F = 74,
    CUBLAS_32F_FAST_16BF = 75,
    CUBLAS_32F_FAST_TF32 = 77,
    CUBLAS_32F_BF16X9 = 78,
    CUBLAS_64F_FIXED = 79
};

enum form { FORM_one, FORM_strided, FORM_array };

/* An operand or the result of a call. */
struct side {
    /* a matrix; for FORM_array, an array of addresses in device memory */
    const void *data;
    int type, op;
    /* leading dimension; for FORM_strided, distance of the batch's matrices; elements */
    int64_t lead, step;
};

/* A call, with the program's arguments. */
struct request {
    const char *name;
    const void *caller;         /* an address in the calling code */
    void *handle;
    enum form form;
    int64_t m, n, k, count;
    const void *alpha, *beta;
    struct side a, b, c;
    /* cublasComputeType_t; 0 for functions named by type, such as cublasDgemm, which compute in C's
     * type */
    int compute;
    /* number of real products in a complex one, 3 or 4; 0 for functions of real numbers */
    int products;
};

/* serve.c: computes the product.  Returns false if the caller must forward the call to cuBLAS. */
bool limber_cublas_serve(const struct request *r);

/* real.c: returns cuBLAS's own function; if it is not found, prints a message once and returns
 * NULL. limber_cublas_inside: number of this thread's calls that are inside cuBLAS, where cuBLAS's
 * calls to itself are forwarded. */
void *limber_cublas_real(const char *name, const void *caller);
extern _Thread_local int limber_cublas_inside;

/* device.c: memory and streams, by the CUDA driver.  Without a driver all memory counts as the
 * host's. */
int limber_cublas_device(void);
bool limber_cublas_is_device(const void *p);
bool limber_cublas_is_capturing(void *stream);
/* Copies from host or device memory to the host, after the stream's earlier work, and waits for the
 * copy. */
bool limber_cublas_fetch(void *to, const void *from, size_t bytes, void *stream);

#endif
