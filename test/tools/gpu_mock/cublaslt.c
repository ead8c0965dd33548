/* SPDX-License-Identifier: BSD-3-Clause
 * cuBLASLt for tests of `limber gpu`: E4M3 to FP32, the first operand transposed. */
#include "small_float.h"

#include <stdint.h>
#include <stdlib.h>

enum { R_32F = 0, R_E4M3 = 28, AS_32F = 68, TRANSA = 3, OP_T = 1, BAD = 7 };

struct numbers {
    int64_t v[4]; /* layouts: type, rows, columns, leading dimension; products: transposed */
};

static int make(void **d)
{
    *d = calloc(1, sizeof(struct numbers));
    return *d ? 0 : 1;
}

static int drop(void *d)
{
    free(d);
    return 0;
}

int cublasLtCreate(void **handle)
{
    return make(handle);
}
int cublasLtDestroy(void *handle)
{
    return drop(handle);
}
int cublasLtMatmulPreferenceCreate(void **d)
{
    return make(d);
}
int cublasLtMatmulPreferenceDestroy(void *d)
{
    return drop(d);
}
int cublasLtMatmulDescDestroy(void *d)
{
    return drop(d);
}
int cublasLtMatrixLayoutDestroy(void *d)
{
    return drop(d);
}

int cublasLtMatmulDescCreate(void **d, int as, int scale)
{
    return as == AS_32F && scale == R_32F ? make(d) : BAD;
}

int cublasLtMatmulDescSetAttribute(void *d, int which, const void *value, size_t size)
{
    if (which != TRANSA || size != sizeof(int))
        return BAD;
    ((struct numbers *)d)->v[0] = *(const int *)value;
    return 0;
}

int cublasLtMatrixLayoutCreate(void **d, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    if (make(d))
        return 1;
    *(struct numbers *)*d = (struct numbers){ { type, (int64_t)rows, (int64_t)cols, ld } };
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(void *d, int which, const void *value, size_t size)
{
    (void)d;
    (void)value;
    return which == 1 && size == sizeof(size_t) ? 0 : BAD;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int room, void *list, int *count)
{
    const struct numbers *x = a, *y = b, *z = d;

    (void)handle;
    (void)c;
    (void)preference;
    (void)list;
    *count = room > 0 && ((struct numbers *)desc)->v[0] == OP_T && x->v[0] == R_E4M3 &&
             y->v[0] == R_E4M3 && z->v[0] == R_32F && x->v[1] == y->v[1];
    return 0;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_about,
                   const void *b, void *b_about, const void *beta, const void *c, void *c_about,
                   void *d, void *d_about, const void *algorithm, void *workspace, size_t bytes,
                   void *stream)
{
    const struct numbers *x = a_about, *y = b_about, *z = d_about;
    const unsigned char *left = a, *right = b;

    (void)handle;
    (void)desc;
    (void)alpha;
    (void)beta;
    (void)c;
    (void)c_about;
    (void)workspace;
    (void)bytes;
    (void)stream;
    for (int64_t j = 0; j < z->v[2]; j++)
        for (int64_t i = 0; i < z->v[1]; i++) {
            float sum = 0;

            for (int64_t q = 0; q < x->v[1]; q++)
                sum += small_float(left[i * x->v[3] + q], 4, 3) *
                       small_float(right[j * y->v[3] + q], 4, 3);
            ((float *)d)[j * z->v[3] + i] = sum;
        }
    return algorithm ? 0 : BAD;
}
