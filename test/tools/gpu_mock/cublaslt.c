/* SPDX-License-Identifier: BSD-3-Clause
 * A mock cuBLASLt for tests of `limber gpu`: multiplies E4M3 to FP32 and INT8 to INT32, with the
 * first operand transposed. */
#include "small_float.h"

#include <stdint.h>
#include <stdlib.h>

enum { R_32F = 0, R_8I = 3, R_32I = 10, R_E4M3 = 28, TRANSA = 3, OP_T = 1, BAD = 7 };
enum { AS_32F = 68, AS_32I = 72 };

/* The attributes of a cuBLASLt object. */
struct numbers {
    /* of a layout: type, rows, columns, leading dimension; of a product: v[0] is the
     * transposition */
    int64_t v[4];
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
    return (as == AS_32F && scale == R_32F) || (as == AS_32I && scale == R_32I) ? make(d) : BAD;
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
    *count = room > 0 && ((struct numbers *)desc)->v[0] == OP_T && x->v[0] == y->v[0] &&
             ((x->v[0] == R_E4M3 && z->v[0] == R_32F) || (x->v[0] == R_8I && z->v[0] == R_32I)) &&
             x->v[1] == y->v[1];
    return 0;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_about,
                   const void *b, void *b_about, const void *beta, const void *c, void *c_about,
                   void *d, void *d_about, const void *algorithm, void *workspace, size_t bytes,
                   void *stream)
{
    const struct numbers *x = a_about, *y = b_about, *z = d_about;
    const unsigned char *left = a, *right = b;
    int whole = z->v[0] == R_32I;

    (void)handle;
    (void)desc;
    (void)c;
    (void)c_about;
    (void)workspace;
    (void)bytes;
    (void)stream;
    for (int64_t j = 0; j < z->v[2]; j++)
        for (int64_t i = 0; i < z->v[1]; i++) {
            float sum = 0;
            int32_t number = 0;

            for (int64_t q = 0; q < x->v[1]; q++) {
                unsigned char l = left[i * x->v[3] + q], r = right[j * y->v[3] + q];

                number += whole ? (int8_t)l * (int8_t)r : 0;
                sum += whole ? 0 : small_float(l, 4, 3) * small_float(r, 4, 3);
            }
            if (whole)
                ((int32_t *)d)[j * z->v[3] + i] = number;
            else
                ((float *)d)[j * z->v[3] + i] = sum;
        }
    if (whole ? *(const int32_t *)alpha != 1 || *(const int32_t *)beta :
                *(const float *)alpha != 1 || *(const float *)beta != 0)
        return BAD;
    return algorithm ? 0 : BAD;
}
