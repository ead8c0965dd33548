/* SPDX-License-Identifier: BSD-3-Clause
 * cuDNN as a peer: FP32 convolutions without TF32, by the algorithm that it measures as fastest. */
#include "tools/bench/bench.h"

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

/* Functions of cuDNN that are called: field, symbol, type of the result, parameters. */
#define DNN(F) \
    F(create, cudnnCreate, int, (void **)) \
    F(destroy, cudnnDestroy, int, (void *)) \
    F(version, cudnnGetVersion, size_t, (void)) \
    F(text, cudnnGetErrorString, const char *, (int)) \
    F(stream, cudnnSetStream, int, (void *, void *)) \
    F(tensor_new, cudnnCreateTensorDescriptor, int, (void **)) \
    F(tensor_set, cudnnSetTensor4dDescriptor, int, (void *, int, int, int, int, int, int)) \
    F(tensor_end, cudnnDestroyTensorDescriptor, int, (void *)) \
    F(filter_new, cudnnCreateFilterDescriptor, int, (void **)) \
    F(filter_set, cudnnSetFilter4dDescriptor, int, (void *, int, int, int, int, int, int)) \
    F(filter_end, cudnnDestroyFilterDescriptor, int, (void *)) \
    F(conv_new, cudnnCreateConvolutionDescriptor, int, (void **)) \
    F(conv_set, cudnnSetConvolution2dDescriptor, int, \
      (void *, int, int, int, int, int, int, int, int)) \
    F(conv_math, cudnnSetConvolutionMathType, int, (void *, int)) \
    F(conv_end, cudnnDestroyConvolutionDescriptor, int, (void *)) \
    F(find, cudnnFindConvolutionForwardAlgorithm, int, \
      (void *, void *, void *, void *, void *, int, int *, struct found *)) \
    F(forward, cudnnConvolutionForward, int, \
      (void *, const void *, void *, const void *, void *, const void *, void *, int, void *, \
       size_t, const void *, void *, void *))
#define DECLARE(here, symbol, result, arguments) result(*here) arguments;
#define NEEDED(here, symbol, result, arguments) { #symbol, &dnn.here },

/* The functions of cuDNN, and descriptors that are kept for one shape. */
static struct {
    void *handle, *x, *f, *y, *conv, *workspace;
    limber_conv shape; /* shape whose descriptors are cached, if `ready` */
    bool ready;
    struct found best;
    DNN(DECLARE)
} dnn;
static const struct symbol needed[] = { DNN(NEEDED) };

/* Opens cuDNN with the benchmark's stream.  Returns false and sets why_not if that fails. */
static bool open_cudnn(struct library *l)
{
    size_t version;
    int code;

    if (!library_load(l) || !LIBRARY_FIND(l, needed))
        return false;
    code = dnn.create(&dnn.handle);
    if (code) {
        dnn.handle = NULL;
        snprintf(l->why_not, sizeof l->why_not, "cudnnCreate: %s", dnn.text(code));
        return false;
    }
    version = dnn.version();
    snprintf(l->version, sizeof l->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return dnn.stream(dnn.handle, device_stream()) == 0 ||
           library_refuse(l, "cudnnSetStream fails");
}

/* ---- a convolution by cuDNN ------------------------------------------------------------------ */

/* Destroys cuDNN's descriptors that exist, and frees the workspace. */
static void free_descriptors(void)
{
    if (dnn.x)
        dnn.tensor_end(dnn.x);
    if (dnn.y)
        dnn.tensor_end(dnn.y);
    if (dnn.f)
        dnn.filter_end(dnn.f);
    if (dnn.conv)
        dnn.conv_end(dnn.conv);
    device_free(dnn.workspace);
    dnn.x = dnn.y = dnn.f = dnn.conv = dnn.workspace = NULL;
    dnn.ready = false;
}

/* Makes cuDNN's descriptors of a convolution's tensors and of its geometry.  Returns cuDNN's
 * status. */
static int make_descriptors(const limber_conv *s)
{
    int64_t oh = 0, ow = 0;
    int code, layout = s->layout == LIMBER_LAYOUT_NHWC; /* a cudnnTensorFormat_t */

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

/* Lets cuDNN time its algorithms, and chooses the fastest one that does not use TF32. */
static int choose_algorithm(void)
{
    struct found list[ALGORITHMS];
    int n = 0, code = dnn.find(dnn.handle, dnn.x, dnn.f, dnn.conv, dnn.y, ALGORITHMS, &n, list);

    if (code)
        return code;
    for (int i = 0; i < n; i++)
        if (list[i].status == 0 && list[i].math == FMA_MATH) {
            dnn.best = list[i];
            dnn.workspace = device_alloc(list[i].memory);
            if (dnn.workspace)
                return 0;
        }
    return NOT_SUPPORTED;
}

/* Sets the contender's state, and returns false, unless cuDNN succeeded. */
static bool check_status(struct contender *c, int code)
{
    if (code == 0)
        return true;
    return contender_set_state(c,
                               code / 1000 == NOT_SUPPORTED / 1000 ? STATE_skipped : STATE_failed,
                               "cuDNN: %s", dnn.text(code));
}

/* Runs a forward convolution.  Descriptors and the fastest algorithm are kept until the shape
 * changes. */
bool cudnn_run(struct contender *c)
{
    const struct operands *o = c->now;
    const limber_conv *shape = &c->work->conv;
    int code = 0;

    if (!dnn.ready || memcmp(&dnn.shape, shape, sizeof dnn.shape)) {
        free_descriptors();
        code = make_descriptors(shape);
        if (code == 0)
            code = choose_algorithm();
        dnn.shape = *shape;
        dnn.ready = code == 0;
    }
    if (code == 0)
        code = dnn.forward(dnn.handle, &(float){ 1 }, dnn.x, o->a, dnn.f, o->b, dnn.conv,
                           dnn.best.algorithm, dnn.workspace, dnn.best.memory, &(float){ 0 }, dnn.y,
                           o->y);
    snprintf(c->report.scheme, sizeof c->report.scheme, "algorithm %d", dnn.best.algorithm);
    return check_status(c, code);
}

static void close_cudnn(void)
{
    free_descriptors();
    if (dnn.handle)
        dnn.destroy(dnn.handle);
    memset(&dnn, 0, sizeof dnn);
}

struct library cudnn = { .name = "cuDNN",
                         .files = "libcudnn.so.9 libcudnn.so /usr/local/cuda/lib64/libcudnn.so.9",
                         .gpu = true,
                         .open = open_cudnn,
                         .close = close_cudnn };
