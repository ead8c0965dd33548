/* SPDX-License-Identifier: BSD-3-Clause
 * cuDNN as a peer: FP32 convolutions without TF32, by the algorithm that it finds fastest. */
#include "tools/bench/gpu.h"

#include <dlfcn.h>
#include <string.h>

/* Constants of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h. */
enum { FLOATS = 0, CROSS_CORRELATION = 1, FMA_MATH = 3, NOT_SUPPORTED = 3000, ALGORITHMS = 16 };

/* cudnnConvolutionFwdAlgoPerf_t */
struct found {
    int algorithm, status;
    float ms;
    size_t memory;
    int determinism, math, reserved[3];
};

static struct {
    void *handle, *x, *f, *y, *conv, *workspace;
    limber_conv shape;          /* what the descriptors are for */
    bool ready;
    struct found best;
    int (*create)(void **);
    int (*destroy)(void *);
    size_t (*version)(void);
    const char *(*text)(int);
    int (*stream)(void *, void *);
    int (*tensor_new)(void **);
    int (*tensor_set)(void *, int, int, int, int, int, int);
    int (*tensor_end)(void *);
    int (*filter_new)(void **);
    int (*filter_set)(void *, int, int, int, int, int, int);
    int (*filter_end)(void *);
    int (*conv_new)(void **);
    int (*conv_set)(void *, int, int, int, int, int, int, int, int);
    int (*conv_math)(void *, int);
    int (*conv_end)(void *);
    int (*find)(void *, void *, void *, void *, void *, int, int *, struct found *);
    int (*forward)(void *, const void *, void *, const void *, void *, const void *, void *, int,
                   void *, size_t, const void *, void *, void *);
} dnn;

static struct peer_library about = { .name = "cuDNN" };

static bool refuse(const char *why)
{
    snprintf(about.why, sizeof about.why, "%s", why);
    return false;
}

#define FIND(where, name) (*(void **)&(where) = dlsym(l, name))

static bool find_functions(void *l)
{
    return FIND(dnn.create, "cudnnCreate") && FIND(dnn.destroy, "cudnnDestroy") &&
           FIND(dnn.version, "cudnnGetVersion") && FIND(dnn.text, "cudnnGetErrorString") &&
           FIND(dnn.stream, "cudnnSetStream") &&
           FIND(dnn.tensor_new, "cudnnCreateTensorDescriptor") &&
           FIND(dnn.tensor_set, "cudnnSetTensor4dDescriptor") &&
           FIND(dnn.tensor_end, "cudnnDestroyTensorDescriptor") &&
           FIND(dnn.filter_new, "cudnnCreateFilterDescriptor") &&
           FIND(dnn.filter_set, "cudnnSetFilter4dDescriptor") &&
           FIND(dnn.filter_end, "cudnnDestroyFilterDescriptor") &&
           FIND(dnn.conv_new, "cudnnCreateConvolutionDescriptor") &&
           FIND(dnn.conv_set, "cudnnSetConvolution2dDescriptor") &&
           FIND(dnn.conv_math, "cudnnSetConvolutionMathType") &&
           FIND(dnn.conv_end, "cudnnDestroyConvolutionDescriptor") &&
           FIND(dnn.find, "cudnnFindConvolutionForwardAlgorithm") &&
           FIND(dnn.forward, "cudnnConvolutionForward");
}

static bool start(void)
{
    void *library = gpu_library("libcudnn.so.9 libcudnn.so /usr/local/cuda/lib64/libcudnn.so.9",
                                about.why, sizeof about.why);
    size_t version;
    int code;

    if (!library)
        return false;
    if (!find_functions(library))
        return refuse("has none of the functions needed");
    code = dnn.create(&dnn.handle);
    if (code) {
        dnn.handle = NULL;
        snprintf(about.why, sizeof about.why, "cudnnCreate: %s", dnn.text(code));
        return false;
    }
    version = dnn.version();
    snprintf(about.version, sizeof about.version, "%zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return dnn.stream(dnn.handle, gpu_stream()) == 0 ? true : refuse("cudnnSetStream fails");
}

const struct peer_library *dnn_open(void)
{
    about.usable = start();
    return &about;
}

/* ---- a convolution --------------------------------------------------------------------------- */

static void forget(void)
{
    if (dnn.x)
        dnn.tensor_end(dnn.x);
    if (dnn.y)
        dnn.tensor_end(dnn.y);
    if (dnn.f)
        dnn.filter_end(dnn.f);
    if (dnn.conv)
        dnn.conv_end(dnn.conv);
    gpu_free(dnn.workspace);
    dnn.x = dnn.y = dnn.f = dnn.conv = dnn.workspace = NULL;
    dnn.ready = false;
}

static int describe(const limber_conv *s)
{
    int64_t oh = 0, ow = 0;
    int code, layout = s->layout == LIMBER_LAYOUT_NHWC; /* as cudnnTensorFormat_t counts */

    limber_conv_output(s, &oh, &ow);
    if ((code = dnn.tensor_new(&dnn.x)) || (code = dnn.tensor_new(&dnn.y)) ||
        (code = dnn.filter_new(&dnn.f)) || (code = dnn.conv_new(&dnn.conv)) ||
        (code =
             dnn.tensor_set(dnn.x, layout, FLOATS, (int)s->n, (int)s->c, (int)s->h, (int)s->w)) ||
        (code = dnn.tensor_set(dnn.y, layout, FLOATS, (int)s->n, (int)s->o, (int)oh, (int)ow)) ||
        (code =
             dnn.filter_set(dnn.f, FLOATS, layout, (int)s->o, (int)s->c, (int)s->r, (int)s->s)) ||
        (code = dnn.conv_set(dnn.conv, (int)s->pad[0], (int)s->pad[2], (int)s->stride[0],
                             (int)s->stride[1], 1, 1, CROSS_CORRELATION, FLOATS)))
        return code;
    return dnn.conv_math(dnn.conv, FMA_MATH);
}

/* The library tries its algorithms; those that would use TF32 are passed over. */
static int choose(void)
{
    struct found list[ALGORITHMS];
    int n = 0, code = dnn.find(dnn.handle, dnn.x, dnn.f, dnn.conv, dnn.y, ALGORITHMS, &n, list);

    if (code)
        return code;
    for (int i = 0; i < n; i++)
        if (list[i].status == 0 && list[i].math == FMA_MATH) {
            dnn.best = list[i];
            dnn.workspace = gpu_alloc(list[i].memory);
            if (dnn.workspace)
                return 0;
        }
    return NOT_SUPPORTED;
}

static bool answer(struct contender *c, int code)
{
    if (code == 0)
        return true;
    return contender_stop(c, code / 1000 == NOT_SUPPORTED / 1000 ? STATE_skipped : STATE_failed,
                          "cuDNN: %s", dnn.text(code));
}

bool dnn_call(struct contender *c, const struct gpu_work *w, const void *x, const void *f, void *y)
{
    int code = 0;

    if (!about.usable)
        return contender_stop(c, STATE_skipped, "no cuDNN: %s", about.why);
    if (!dnn.ready || memcmp(&dnn.shape, w->conv, sizeof dnn.shape)) {
        forget();
        code = describe(w->conv);
        if (code == 0)
            code = choose();
        dnn.shape = *w->conv;
        dnn.ready = code == 0;
    }
    if (code == 0)
        code =
            dnn.forward(dnn.handle, &(float){ 1 }, dnn.x, x, dnn.f, f, dnn.conv, dnn.best.algorithm,
                        dnn.workspace, dnn.best.memory, &(float){ 0 }, dnn.y, y);
    snprintf(c->report.scheme, sizeof c->report.scheme, "algorithm %d", dnn.best.algorithm);
    return answer(c, code);
}

void dnn_close(void)
{
    forget();
    if (dnn.handle)
        dnn.destroy(dnn.handle);
    memset(&dnn, 0, sizeof dnn);
}
