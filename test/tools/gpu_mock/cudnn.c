/* SPDX-License-Identifier: BSD-3-Clause
 * A mock cuDNN for tests of `limber gpu`: plain loops.  Descriptors are arrays of numbers.  Of the
 * algorithms that it finds, the second is the one without TF32. */
#include <stdlib.h>
#include <string.h>

/* layout of cudnnConvolutionFwdAlgoPerf_t */
struct found {
    int algorithm, status;
    float ms;
    size_t memory;
    int determinism, math, reserved[3];
};
/* A descriptor.  Of a tensor or of filters it holds the layout (1: NHWC, 0: NCHW) and the four
 * sizes; of a convolution, two paddings and two strides. */
struct numbers {
    int v[5];
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

int cudnnCreate(void **handle)
{
    return make(handle);
}
int cudnnDestroy(void *handle)
{
    return drop(handle);
}
size_t cudnnGetVersion(void)
{
    return 91000;
}
int cudnnCreateTensorDescriptor(void **d)
{
    return make(d);
}
int cudnnDestroyTensorDescriptor(void *d)
{
    return drop(d);
}
int cudnnCreateFilterDescriptor(void **d)
{
    return make(d);
}
int cudnnDestroyFilterDescriptor(void *d)
{
    return drop(d);
}
int cudnnCreateConvolutionDescriptor(void **d)
{
    return make(d);
}
int cudnnDestroyConvolutionDescriptor(void *d)
{
    return drop(d);
}

const char *cudnnGetErrorString(int code)
{
    return code ? "an error" : "no error";
}

int cudnnSetStream(void *handle, void *stream)
{
    (void)handle;
    (void)stream;
    return 0;
}

int cudnnSetConvolutionMathType(void *d, int math)
{
    (void)d;
    return math == 3 ? 0 : 2000;
}

static int set(void *d, int a, int b, int c, int e, int f)
{
    *(struct numbers *)d = (struct numbers){ { a, b, c, e, f } };
    return 0;
}

int cudnnSetTensor4dDescriptor(void *d, int layout, int type, int n, int c, int h, int w)
{
    return type ? 2000 : set(d, layout, n, c, h, w);
}

int cudnnSetFilter4dDescriptor(void *d, int type, int layout, int n, int c, int h, int w)
{
    return type ? 2000 : set(d, layout, n, c, h, w);
}

int cudnnSetConvolution2dDescriptor(void *d, int ph, int pw, int u, int v, int dh, int dw, int mode,
                                    int type)
{
    return dh != 1 || dw != 1 || mode != 1 || type ? 2000 : set(d, ph, pw, u, v, 0);
}

int cudnnFindConvolutionForwardAlgorithm(void *handle, void *x, void *f, void *conv, void *y,
                                         int room, int *count, struct found *list)
{
    (void)handle;
    (void)x;
    (void)f;
    (void)conv;
    (void)y;
    *count = room < 2 ? room : 2;
    memset(list, 0, (size_t)*count * sizeof *list);
    if (room > 1)
        list[1] = (struct found){ .algorithm = 1, .math = 3, .memory = 256 };
    return 0;
}

/* Returns the index of an element in the tensor's layout. */
static size_t at(const struct numbers *t, int n, int c, int h, int w)
{
    size_t cs = (size_t)t->v[2], hs = (size_t)t->v[3], ws = (size_t)t->v[4];
    size_t i = (size_t)n, j = (size_t)c, y = (size_t)h, x = (size_t)w;

    return t->v[0] ? ((i * hs + y) * ws + x) * cs + j : ((i * cs + j) * hs + y) * ws + x;
}

/* Returns one element of a convolution, by plain loops. */
static float element(const float *x, const float *f, const struct numbers *xd,
                     const struct numbers *fd, const int *conv, const int place[4])
{
    float sum = 0;

    for (int c = 0; c < fd->v[2]; c++)
        for (int i = 0; i < fd->v[3]; i++)
            for (int j = 0; j < fd->v[4]; j++) {
                int h = place[2] * conv[2] + i - conv[0], w = place[3] * conv[3] + j - conv[1];

                if (h >= 0 && h < xd->v[3] && w >= 0 && w < xd->v[4])
                    sum += x[at(xd, place[0], c, h, w)] * f[at(fd, place[1], c, i, j)];
            }
    return sum;
}

int cudnnConvolutionForward(void *handle, const void *alpha, void *x_about, const void *x,
                            void *f_about, const void *f, void *conv, int algorithm,
                            void *workspace, size_t bytes, const void *beta, void *y_about, void *y)
{
    const struct numbers *xd = x_about, *fd = f_about, *yd = y_about, *cd = conv;
    int p[4];

    (void)handle;
    (void)alpha;
    (void)beta;
    if (algorithm != 1 || !workspace || bytes != 256)
        return 2000;
    for (p[0] = 0; p[0] < yd->v[1]; p[0]++)
        for (p[1] = 0; p[1] < yd->v[2]; p[1]++)
            for (p[2] = 0; p[2] < yd->v[3]; p[2]++)
                for (p[3] = 0; p[3] < yd->v[4]; p[3]++)
                    ((float *)y)[at(yd, p[0], p[1], p[2], p[3])] = element(x, f, xd, fd, cd->v, p);
    return 0;
}
