/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of cuBLAS that Limber can compute, by form.  A row is (name, type of sizes, type of
 * the matrices, products).  Sizes are int, or int64_t for names that end in _64.  products: as in
 * struct request. */
#ifndef LIMBER_CUBLAS_ENTRIES_H
#define LIMBER_CUBLAS_ENTRIES_H

#define CUBLAS_BOTH(ROW, name, type, products) \
    ROW(name, int, type, products) \
    ROW(name##_64, int64_t, type, products)

/* Parameters: (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc). */
#define CUBLAS_ONE(ROW) \
    CUBLAS_BOTH(ROW, cublasSgemm_v2, CUDA_R_32F, 0) \
    CUBLAS_BOTH(ROW, cublasDgemm_v2, CUDA_R_64F, 0) \
    CUBLAS_BOTH(ROW, cublasCgemm_v2, CUDA_C_32F, 4) \
    CUBLAS_BOTH(ROW, cublasZgemm_v2, CUDA_C_64F, 4) \
    CUBLAS_BOTH(ROW, cublasCgemm3m, CUDA_C_32F, 3) \
    CUBLAS_BOTH(ROW, cublasZgemm3m, CUDA_C_64F, 3)

/* Batches by addresses: parameters are arrays of addresses in device memory, and the number of
 * products. */
#define CUBLAS_ARRAY(ROW) \
    CUBLAS_BOTH(ROW, cublasSgemmBatched, CUDA_R_32F, 0) \
    CUBLAS_BOTH(ROW, cublasDgemmBatched, CUDA_R_64F, 0) \
    CUBLAS_BOTH(ROW, cublasCgemmBatched, CUDA_C_32F, 4) \
    CUBLAS_BOTH(ROW, cublasZgemmBatched, CUDA_C_64F, 4) \
    CUBLAS_BOTH(ROW, cublasCgemm3mBatched, CUDA_C_32F, 3)

/* Batches by strides: parameters have a stride after each leading dimension, and the number of
 * products. */
#define CUBLAS_STRIDED(ROW) \
    CUBLAS_BOTH(ROW, cublasSgemmStridedBatched, CUDA_R_32F, 0) \
    CUBLAS_BOTH(ROW, cublasDgemmStridedBatched, CUDA_R_64F, 0) \
    CUBLAS_BOTH(ROW, cublasCgemmStridedBatched, CUDA_C_32F, 4) \
    CUBLAS_BOTH(ROW, cublasZgemmStridedBatched, CUDA_C_64F, 4) \
    CUBLAS_BOTH(ROW, cublasCgemm3mStridedBatched, CUDA_C_32F, 3)

/* The program passes the types of the matrices, and the compute type. */
#define CUBLAS_EX(ROW) CUBLAS_BOTH(ROW, cublasGemmEx, 0, 4)
#define CUBLAS_ARRAY_EX(ROW) CUBLAS_BOTH(ROW, cublasGemmBatchedEx, 0, 4)
#define CUBLAS_STRIDED_EX(ROW) CUBLAS_BOTH(ROW, cublasGemmStridedBatchedEx, 0, 4)

/* Parameters of the functions for single products, for batches by addresses and by strides, and of
 * those that take types (Ex).  T is the type of sizes. */
#define CUBLAS_PARAMS_ONE(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *a, T lda, \
        const void *b, T ldb, const void *beta, void *c, T ldc
#define CUBLAS_PARAMS_ARRAY(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *const *a, \
        T lda, const void *const *b, T ldb, const void *beta, void *const *c, T ldc, T count
#define CUBLAS_PARAMS_STRIDED(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *a, T lda, \
        int64_t step_a, const void *b, T ldb, int64_t step_b, const void *beta, void *c, T ldc, \
        int64_t step_c, T count
#define CUBLAS_PARAMS_EX(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *a, \
        int type_a, T lda, const void *b, int type_b, T ldb, const void *beta, void *c, \
        int type_c, T ldc, int compute, int algorithm
#define CUBLAS_PARAMS_ARRAY_EX(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *const *a, \
        int type_a, T lda, const void *const *b, int type_b, T ldb, const void *beta, \
        void *const *c, int type_c, T ldc, T count, int compute, int algorithm
#define CUBLAS_PARAMS_STRIDED_EX(T) \
    void *handle, int transa, int transb, T m, T n, T k, const void *alpha, const void *a, \
        int type_a, T lda, int64_t step_a, const void *b, int type_b, T ldb, int64_t step_b, \
        const void *beta, void *c, int type_c, T ldc, int64_t step_c, T count, int compute, \
        int algorithm

#endif
