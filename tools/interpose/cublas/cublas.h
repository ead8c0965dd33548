/* SPDX-License-Identifier: BSD-3-Clause
 * The library before cuBLAS: Limber computes the products for which the user states a contract.
 * The few types and constants of cuBLAS that matter are declared here, so that building needs no
 * CUDA. */
#ifndef LIMBER_CUBLAS_H
#define LIMBER_CUBLAS_H

#include "tools/interpose/shared/interpose.h"

#include <stdbool.h>

/* cublasStatus_t, cublasOperation_t, cublasPointerMode_t */
enum { CUBLAS_SUCCESS = 0, CUBLAS_NOT_INITIALIZED = 1 };
enum { CUBLAS_N = 0, CUBLAS_T = 1, CUBLAS_C = 2 };
enum { CUBLAS_POINTER_HOST = 0, CUBLAS_POINTER_DEVICE = 1 };

/* cudaDataType: real types, and C, which is R + 4 up to 32I. */
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

struct side {
    const void *data;           /* FORM_array: addresses in device memory */
    int type, op;
    int64_t lead, step;
};

/* A call as the program made it. */
struct request {
    const char *name;
    const void *caller;         /* an address in the code that called */
    void *handle;
    enum form form;
    int64_t m, n, k, count;
    const void *alpha, *beta;
    struct side a, b, c;
    int compute;                /* 0: of c's type, where the function's name says it */
    int products;               /* of complex matrices: 3 or 4 */
};

/* serve.c.  True: the product is computed.  False: the caller asks cuBLAS. */
bool limber_cublas_serve(const struct request *r);

/* real.c: the real function of cuBLAS.  NULL: there is none; a message is printed once.  While
 * `inside` is not 0 cuBLAS is working, and its own calls go to it. */
void *limber_cublas_real(const char *name, const void *caller);
extern _Thread_local int limber_cublas_inside;

/* device.c: memory and streams, by the driver.  Without a driver all memory is the host's. */
int limber_cublas_device(void);
bool limber_cublas_is_device(const void *p);
bool limber_cublas_is_capturing(void *stream);
/* Copies from host or device memory, in the stream's order, and waits. */
bool limber_cublas_fetch(void *to, const void *from, size_t bytes, void *stream);

#endif
