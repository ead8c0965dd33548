/* SPDX-License-Identifier: BSD-3-Clause
 * Counts the kernels that a network needs: convolutions that differ only in facts that kernels do
 * not use share code.  Kernels are compiled for a described machine and counted, but not
 * executed. */
#include "compiler.h"
#include "engine_support.h"

#include "backends/cuda/cuda.h"
#include "support.h"

#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif
extern const struct backend limber_backend_cuda;

/* the tested backend, which the counting backend of create_counting_context calls to compile */
static const struct backend *real;
static int compiled;

static const char cpu[] = "target llvm isa=avx512vnni features=avx2,fma,avx512,avx512vnni "
                          "vector=512 registers=32 l1=32768 l2=1048576 group=4 rate.f64=4e10 "
                          "rate.f32=8e10 rate.f16=8e10 rate.i8=4e11 rate.exact=1e8 "
                          "rate.model=1e10";

/* The functions of a backend that describes a fixed machine, counts the kernels that it compiles,
 * and neither loads nor runs them. */
static bool probe(struct target *t, struct diag *d)
{
    return real == &limber_backend_cuda ?
               limber_cuda_arch(t, 9, 0, 132, 1.7e9, 227 << 10, 50 << 20, d) :
               limber_target_parse(t, cpu, d);
}

static bool compile(const struct plan *p, const struct target *t, const struct dump *dump,
                    struct blob *out, struct diag *d)
{
    compiled++;
    return real->compile(p, t, dump, out, d);
}

static bool load(const unsigned char *data, size_t size, struct kernel **k, struct diag *d)
{
    (void)data, (void)size, (void)d;
    *k = NULL;
    return true;
}

static bool launch(struct kernel *k, struct call *c, struct diag *d)
{
    (void)k, (void)c, (void)d;
    return true;
}

static void unload(struct kernel *k)
{
    (void)k;
}

/* Creates a context on a backend that compiles with `backend`, counts compilations and computes
 * nothing. */
static limber_context *create_counting_context(const struct backend *backend)
{
    static struct backend mine;
    static const struct backend *list[] = { &mine, NULL };
    const limber_config config = {
        .size = sizeof(limber_config), .threads = 1, .cache_dir = "", .dump_dir = "", .verbose = -1
    };
    struct diag d = { 0 };
    limber_context *ctx;

    real = backend;
    compiled = 0;
    mine = (struct backend){ .name = "counts",
                             .probe = probe,
                             .compile = compile,
                             .load = load,
                             .launch = launch,
                             .unload = unload,
                             .predict_way = backend->predict_way,
                             .code = backend->code,
                             .device_ops =
                                 backend == &limber_backend_cuda ? &no_device_memory : NULL };
    if (!limber_context_make(&ctx, &config, list, &d))
        fail_msg("%s", d.text);
    return ctx;
}

/* ---- running the network --------------------------------------------------------------------- */

/* All convolutions of ResNet-18: He et al., arXiv 1512.03385, table 1. */
static const struct layer {
    int times, c, h, o, r, stride, pad;
} layers[] = {
    { 1, 3, 224, 64, 7, 2, 3 },   { 4, 64, 56, 64, 3, 1, 1 },   { 1, 64, 56, 128, 3, 2, 1 },
    { 1, 64, 56, 128, 1, 2, 0 },  { 3, 128, 28, 128, 3, 1, 1 }, { 1, 128, 28, 256, 3, 2, 1 },
    { 1, 128, 28, 256, 1, 2, 0 }, { 3, 256, 14, 256, 3, 1, 1 }, { 1, 256, 14, 512, 3, 2, 1 },
    { 1, 256, 14, 512, 1, 2, 0 }, { 3, 512, 7, 512, 3, 1, 1 },
};

/* Returns the layer's convolution for a number of images. */
static limber_conv shape_of(const struct layer *l, int images)
{
    return (limber_conv){ .size = sizeof(limber_conv),
                          .n = images,
                          .c = l->c,
                          .h = l->h,
                          .w = l->h,
                          .o = l->o,
                          .r = l->r,
                          .s = l->r,
                          .stride = { l->stride, l->stride },
                          .pad = { l->pad, l->pad, l->pad, l->pad },
                          .dilate = { 1, 1 },
                          .groups = 1 };
}

/* Roles of tensors.  A kernel may depend on what a scan finds of its data (exponents, signs), so
 * all data of a role is of one kind.  Activations are nonnegative after ReLU, gradients are
 * small. */
enum role { IMAGE, FILTERS, GRADIENT };

/* Returns a random element of a tensor with this role. */
static float number(struct rng *r, enum role role)
{
    double x = rng_unit(r) + 0x1p-8;

    if (role == IMAGE)
        return rng_next(r) & 1 ? 0 : (float)x;
    return (float)(rng_next(r) & 1 ? -x : x) * (role == FILTERS ? 1 : 0x1p-12f);
}

/* Allocates a random tensor for a role. */
static void *make_tensor(limber_format f, enum role role, size_t count)
{
    char *p = malloc(count * f.size);
    struct rng r = { count };

    for (size_t i = 0; i < count; i++)
        if (f.kind == LIMBER_KIND_INT)
            p[i] = (char)(rng_next(&r) & 0xff);
        else
            ((float *)(void *)p)[i] = number(&r, role);
    return p;
}

/* The contracts under which the network's layers are computed. */
struct work {
    limber_contract contract;
    const char *from, *to;
    int images;
};

/* Convolves in one direction with operands of the roles that the direction has. */
static void convolve_direction(limber_context *ctx, const limber_conv *s, const struct work *w,
                               limber_operation direction)
{
    static const enum role roles[][3] = {
        [LIMBER_OPERATION_CONV_FORWARD] = { IMAGE, FILTERS, GRADIENT },
        [LIMBER_OPERATION_CONV_BACKWARD_DATA] = { GRADIENT, FILTERS, IMAGE },
        [LIMBER_OPERATION_CONV_BACKWARD_FILTER] = { IMAGE, GRADIENT, FILTERS },
    };
    limber_problem p = LIMBER_PROBLEM_INIT;
    const limber_format f = named(w->from), g = named(w->to);
    size_t count[3] = { (size_t)(s->n * s->c * s->h * s->w), (size_t)(s->o * s->c * s->r * s->s) };
    const enum role *role = roles[direction];
    void *of[3];
    int64_t oh, ow;

    assert_int_equal(limber_conv_output(s, &oh, &ow), LIMBER_STATUS_OK);
    count[GRADIENT] = (size_t)(s->n * s->o * oh * ow);
    for (int i = 0; i < 3; i++)
        of[i] = make_tensor(i < 2 ? f : g, role[i], count[role[i]]);
    p.operation = direction;
    p.conv = s;
    p.contract = &w->contract;
    p.a = (limber_matrix){ of[0], f, 0, 0 };
    p.b = (limber_matrix){ of[1], f, 0, 0 };
    p.c = (limber_output){ of[2], g, 0, 0 };
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
    for (int i = 0; i < 3; i++)
        free(of[i]);
}

#define CONTRACT(promised) .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_##promised

/* Runs all layers in the first `directions` of the three directions, and checks that at most `most`
 * kernels are compiled.  With several images, each kind of layer runs once, since large tensors
 * take time. */
static void run_network(const struct backend *backend, const struct work *w, int directions,
                        int most)
{
    limber_context *ctx = create_counting_context(backend);
    int convolutions = 0;

    for (int direction = 0; direction < directions; direction++)
        for (size_t j = 0; j < COUNT(layers); j++) {
            limber_conv s = shape_of(&layers[j], w->images);

            for (int t = 0; t < layers[j].times; t++, convolutions++)
                if (t == 0 || w->images == 1 || is_long())
                    convolve_direction(
                        ctx, &s, w, (limber_operation)(LIMBER_OPERATION_CONV_FORWARD + direction));
        }
    assert_int_equal(convolutions, 20 * directions);
    print_message("%s, %s, %s%s%s: %d convolutions, %d kernels\n", backend->name, w->from,
                  limber_promises[w->contract.promise], w->contract.scheme ? " by " : "",
                  w->contract.scheme ? w->contract.scheme : "", convolutions, compiled);
    if (compiled < 1 || compiled > most)
        fail();
    limber_destroy(ctx);
}

/* Computes the network in several formats, and limits the number of kernels. */
static void expect_few_kernels(const struct backend *backend)
{
    static const struct work work[] = {
        { { CONTRACT(NATIVE) }, "f32", "f32", 1 },
        { { CONTRACT(CORRECT) }, "f32", "f32", 1 },
        { { CONTRACT(EXACT) }, "i8", "i32", 1 },
    };
    enum { MOST = 4 };

    for (size_t i = 0; i < COUNT(work); i++)
        run_network(backend, &work[i], 1, MOST);
}

/* Convolutions that differ only in padding and stride must share one kernel. */
static void expect_one_kernel(const struct backend *backend)
{
    static const struct work work = { { CONTRACT(NATIVE) }, "f32", "f32", 1 };
    const struct layer same[] = { { 1, 8, 9, 8, 3, 1, 0 },
                                  { 1, 8, 9, 8, 3, 1, 1 },
                                  { 1, 8, 9, 8, 3, 2, 0 } };
    limber_context *ctx = create_counting_context(backend);

    for (size_t i = 0; i < COUNT(same); i++) {
        limber_conv s = shape_of(&same[i], 1);

        convolve_direction(ctx, &s, &work, LIMBER_OPERATION_CONV_FORWARD);
    }
    assert_int_equal(compiled, 1);
    limber_destroy(ctx);
}

/* All convolutions of a training step of ResNet need only few kernels of the CPU backend. */
static void a_network_needs_few_kernels(void **state)
{
    (void)state;
    need_compiler();
#ifdef LIMBER_HAVE_LLVM
    expect_few_kernels(&limber_backend_llvm);
#endif
}

static void a_network_needs_few_cubins(void **state)
{
    (void)state;
    expect_few_kernels(&limber_backend_cuda);
}

/* A training step (forward and both gradients) needs few cubins.  On a GPU one more cubin per
 * format scans operands. */
static void a_step_needs_few_cubins(void **state)
{
    enum { BATCH = SANITIZED ? 1 : 16, MOST = 12, SCAN = 1 };
    static const struct work work[] = {
        { { CONTRACT(NATIVE) }, "f32", "f32", BATCH },
        { { CONTRACT(NATIVE), .scheme = "native" }, "f32", "f32", BATCH },
        { { CONTRACT(FAST), .scheme = "fp32-f" }, "f32", "f32", BATCH },
        { { CONTRACT(CORRECT) }, "f32", "f32", BATCH },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(work); i++)
        run_network(&limber_backend_cuda, &work[i], 3, MOST - SCAN);
}

/* Convolutions that differ only in padding and stride share one kernel, on CPUs and GPUs. */
static void geometry_is_no_part_of_a_kernel(void **state)
{
    (void)state;
#ifdef LIMBER_HAVE_LLVM
    if (compiler_here())
        expect_one_kernel(&limber_backend_llvm);
#endif
    expect_one_kernel(&limber_backend_cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_needs_few_kernels),
        cmocka_unit_test(a_network_needs_few_cubins),
        cmocka_unit_test(a_step_needs_few_cubins),
        cmocka_unit_test(geometry_is_no_part_of_a_kernel),
    };

    setenv("LIMBER_NVRTC", SIMT_NVRTC, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
