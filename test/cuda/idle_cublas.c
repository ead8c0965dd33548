/* SPDX-License-Identifier: BSD-3-Clause
 * A libcublas that can be opened but multiplies nothing.  Programs then request the kernels that
 * they would request beside cuBLAS, and `limber gpu` offers the scheme `cublas`. */
#define DOES_NOTHING(name) \
    __attribute__((visibility("default"))) int name(void); \
    int name(void) \
    { \
        return 0; \
    }

DOES_NOTHING(cublasCreate_v2)
DOES_NOTHING(cublasDestroy_v2)
DOES_NOTHING(cublasGetVersion_v2)
DOES_NOTHING(cublasSetWorkspace_v2)
DOES_NOTHING(cublasSetStream_v2)
DOES_NOTHING(cublasSgemm_v2)
DOES_NOTHING(cublasDgemm_v2)
DOES_NOTHING(cublasGemmEx)
DOES_NOTHING(cublasSgemmStridedBatched)
DOES_NOTHING(cublasDgemmStridedBatched)
DOES_NOTHING(cublasSgemmBatched)
DOES_NOTHING(cublasDgemmBatched)
