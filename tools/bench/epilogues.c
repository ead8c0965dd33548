/* SPDX-License-Identifier: BSD-3-Clause
 * The cost of epilogues, compared with the product alone and with oneDNN's matmul with a bias and
 * post-ops.  Matrices are row-major, and not packed before. */
#include "tools/bench/onednn.h"

#include <limber/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DNN_RELU = 0x20, DNN_GELU_TANH = 0x2b, DNN_BIAS = 41 };

/* An epilogue to measure. */
static const struct steps_of {
    const char *what, *text;
    int dnn; /* oneDNN's algorithm of the elementwise post-op */
} steps[] = { { "bias, relu", "%1 = add %x %bias\n%2 = relu %1\n", DNN_RELU },
              { "bias, gelu_tanh", "%1 = add %x %bias\n%2 = gelu_tanh %1\n", DNN_GELU_TANH } };

/* The products and convolutions to which each epilogue is added. */
static const struct factors_of {
    const char *of, *to;
    int64_t n, k;
    int dnn[2]; /* oneDNN's types of operands and result; 0: not compared with oneDNN */
    bool correct;
    int64_t batch; /* number of products of n x n x k; 0 for a single one */
    bool conv; /* a convolution of k x k pixels with n channels, n filters and 3 x 3 windows */
} works[] = { { "f32", "f32", 1024, 256, { DNN_F32, DNN_F32 }, false },
              { "f32", "f32", 1024, 1024, { DNN_F32, DNN_F32 }, false },
              { "f32", "f32", 2048, 512, { DNN_F32, DNN_F32 }, false },
              { "f64", "f64", 1024, 256, { 0, 0 }, false },
              { "bf16", "bf16", 1024, 256, { DNN_BF16, DNN_BF16 }, false },
              { "bf16", "bf16", 1024, 1024, { DNN_BF16, DNN_BF16 }, false },
              { "i8", "f32", 1024, 1024, { DNN_S8, DNN_F32 }, false },
              { "i8", "f32", 1024, 1024, { DNN_S8, DNN_F32 }, true },
              { "f32", "f32", 256, 256, { 0, 0 }, false, .batch = 16 },
              { "bf16", "bf16", 256, 256, { 0, 0 }, false, .batch = 16 },
              { "f32", "f32", 128, 28, { 0, 0 }, false, .conv = true } };

/* A product with an epilogue, set up for Limber and for oneDNN. */
struct fused {
    limber_problem p;
    limber_contract contract;
    limber_epilogue e;
    limber_epilogue_input bias;
    limber_batch batch;
    limber_conv conv;
    char *a, *b, *c, *other, *line;
    void *md[4], *memory[4], *attr, *post, *pd, *primitive; /* each in the order: A, B, bias, C */
};

/* Frees the arrays and oneDNN's objects of a product with an epilogue. */
static void close_fused(struct fused *f)
{
    if (f->primitive)
        dnn.primitive_destroy(f->primitive);
    for (int i = 0; i < 4; i++) {
        if (f->memory[i])
            dnn.memory_destroy(f->memory[i]);
        if (f->md[i])
            dnn.md_destroy(f->md[i]);
    }
    if (f->pd)
        dnn.desc_destroy(f->pd);
    if (f->post)
        dnn.post_ops_destroy(f->post);
    if (f->attr)
        dnn.attr_destroy(f->attr);
    free(f->a);
    free(f->b);
    free(f->c);
    free(f->other);
    free(f->line);
}

/* Fills an array with normal numbers; integers are ten times as large.  Returns false if `to` is
 * NULL. */
static bool fill_random(limber_format f, char *to, int64_t count, uint64_t *state)
{
    for (int64_t i = 0; to && i < count; i++) {
        double x = random_normal(state) * (f.kind == LIMBER_KIND_INT ? 10 : 1);

        limber_convert(to + i * f.size, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    }
    return to != NULL;
}

/* Allocates operands and results, and describes the call to Limber, with f->e as its epilogue. */
static bool open_fused(struct fused *f, const struct factors_of *w, const struct steps_of *s)
{
    limber_format of = format_of(w->of), to = format_of(w->to);
    const int64_t count = w->batch ? w->batch : 1, pixels = w->k * w->k;
    const int64_t as = w->conv ? w->n * pixels : count * w->n * w->k;
    const int64_t bs = w->conv ? w->n * w->n * 9 : count * w->n * w->k;
    const int64_t cs = w->conv ? w->n * pixels : count * w->n * w->n;
    uint64_t state = 3;

    *f = (struct fused){ .p = LIMBER_PROBLEM_INIT,
                         .contract = LIMBER_CONTRACT_INIT,
                         .e = LIMBER_EPILOGUE_INIT,
                         .bias = LIMBER_EPILOGUE_INPUT_INIT,
                         .batch = LIMBER_BATCH_INIT,
                         .conv = LIMBER_CONV_INIT };
    f->a = malloc((size_t)as * of.size);
    f->b = malloc((size_t)bs * of.size);
    f->c = calloc((size_t)cs, to.size);
    f->other = calloc((size_t)cs, to.size);
    f->line = malloc((size_t)w->n * 4);
    if (!f->c || !f->other || !fill_random(of, f->a, as, &state) ||
        !fill_random(of, f->b, bs, &state) || !fill_random(LIMBER_F32, f->line, w->n, &state))
        return !complain("bench: not enough memory");
    if (w->correct)
        f->contract.promise = LIMBER_CONTRACT_CORRECT;
    f->bias.name = "bias";
    f->bias.shape = LIMBER_INPUT_COLUMN;
    f->bias.format = LIMBER_F32;
    f->bias.data = f->line;
    f->e.steps = s->text;
    f->e.inputs = &f->bias;
    f->e.input_count = 1;
    f->p.m = f->p.n = w->n;
    f->p.k = w->k;
    f->p.a = (limber_matrix){ f->a, of, w->k, 1 };
    f->p.b = (limber_matrix){ f->b, of, w->n, 1 };
    f->p.c = (limber_output){ f->c, to, w->n, 1 };
    f->p.contract = &f->contract;
    if (w->batch) {
        f->batch.count = w->batch;
        f->batch.a = f->batch.b = w->n * w->k, f->batch.c = w->n * w->n;
        f->p.batch = &f->batch;
    }
    if (w->conv) {
        f->conv.n = 1, f->conv.c = f->conv.o = w->n, f->conv.h = f->conv.w = w->k;
        f->conv.r = f->conv.s = 3, f->conv.groups = 1;
        f->conv.stride[0] = f->conv.stride[1] = f->conv.dilate[0] = f->conv.dilate[1] = 1;
        for (int i = 0; i < 4; i++)
            f->conv.pad[i] = 1;
        f->bias.shape = LIMBER_INPUT_ROW;
        f->p = (limber_problem)LIMBER_PROBLEM_INIT;
        f->p.operation = LIMBER_OPERATION_CONV_FORWARD, f->p.conv = &f->conv;
        f->p.a = (limber_matrix){ f->a, of, 0, 0 };
        f->p.b = (limber_matrix){ f->b, of, 0, 0 };
        f->p.c = (limber_output){ f->c, to, 0, 0 };
        f->p.contract = &f->contract;
    }
    return true;
}

/* Sets up oneDNN's primitive for this product and epilogue.  Returns false if oneDNN has none. */
static bool open_peer(struct fused *f, const struct factors_of *w, const struct steps_of *s)
{
    const int64_t dims[4][2] = { { w->n, w->k }, { w->k, w->n }, { 1, w->n }, { w->n, w->n } };
    const int types[4] = { w->dnn[0], w->dnn[0], DNN_F32, w->dnn[1] };
    void *data[4] = { f->a, f->b, f->line, f->other };

    if (!w->dnn[0] || !onednn.usable || !dnn.fused || dnn.attr_create(&f->attr) ||
        dnn.post_ops_create(&f->post) || dnn.append_eltwise(f->post, s->dnn, 0, 0) ||
        dnn.set_post_ops(f->attr, f->post))
        return false;
    for (int i = 0; i < 4; i++) {
        const int64_t strides[2] = { dims[i][1], 1 };

        if (dnn.strides3(&f->md[i], 2, dims[i], types[i], strides) ||
            dnn.memory_create(&f->memory[i], f->md[i], dnn.engine, data[i]))
            return false;
    }
    return !dnn.matmul_create(&f->pd, dnn.engine, f->md[0], f->md[1], f->md[2], f->md[3],
                              f->attr) &&
           !dnn.primitive_create(&f->primitive, f->pd);
}

/* Seconds of oneDNN's call; -1 if it fails. */
static double run_peer(struct fused *f)
{
    const struct dnn_argument arguments[4] = { { DNN_SRC, f->memory[0] },
                                               { DNN_WEIGHTS, f->memory[1] },
                                               { DNN_BIAS, f->memory[2] },
                                               { DNN_DST, f->memory[3] } };
    double start = now();

    if (dnn.execute(f->primitive, dnn.stream, 4, arguments))
        return -1;
    dnn.stream_wait(dnn.stream);
    return now() - start;
}

/* True if Limber's and oneDNN's results are nearly equal in every 101st element. */
static bool results_agree(const struct fused *f)
{
    for (int64_t i = 0; i < f->p.m * f->p.n; i += 101) {
        limber_format to = f->p.c.format;
        double x, y;

        limber_convert(&x, LIMBER_F64, f->c + i * to.size, to, 1, LIMBER_ROUND_NEAREST);
        limber_convert(&y, LIMBER_F64, f->other + i * to.size, to, 1, LIMBER_ROUND_NEAREST);
        if (!(fabs(x - y) <= (to.size == 2 ? 2e-2 : 1e-3) * (1 + fabs(x))))
            return false;
    }
    return true;
}

/* Times one call of Limber, without the epilogue if `bare`. */
static bool run_once(limber_context *ctx, struct fused *f, bool bare, double *seconds)
{
    double start = now();

    f->p.epilogue = bare ? NULL : &f->e;
    if (limber_run(ctx, &f->p, NULL) != LIMBER_STATUS_OK)
        return !complain("bench: %s", limber_error_text());
    *seconds = now() - start;
    return true;
}

/* Prints a row: the product with its epilogue, compared with the bare product and with oneDNN. */
static bool print_fused_row(struct bench *b, const struct factors_of *w, const struct steps_of *s)
{
    struct contender here = { .times.samples = b->runs }, bare = here, peer = here;
    const double each = (double)w->n * (double)w->n * (double)w->k;
    const double work = 2e-9 * each *
                        (w->conv  ? 9 * (double)w->k :
                         w->batch ? (double)w->batch :
                                    1);
    char what[64], note[96];
    struct fused f;
    bool ok = open_fused(&f, w, s), has_peer = ok && open_peer(&f, w, s);

    /* run -2 makes kernels, run -1 warms up */
    for (int i = b->maker ? -2 : -1; ok && i < b->runs; i++) {
        int at = i < 0 ? 0 : i;
        limber_context *ctx = i < -1 ? b->maker : b->ctx;

        ok = run_once(ctx, &f, true, &bare.times.seconds[at]) &&
             run_once(ctx, &f, false, &here.times.seconds[at]);
        peer.times.seconds[at] = has_peer ? run_peer(&f) : 0;
        has_peer = has_peer && peer.times.seconds[at] >= 0 && (i >= 0 || results_agree(&f));
    }
    close_fused(&f);
    if (!ok)
        return false;
    contender_median(&here);
    contender_median(&bare);
    if (w->conv)
        snprintf(what, sizeof what, "%s, convolution of 3 x 3, %lld x %lld", s->what,
                 (long long)w->k, (long long)w->k);
    else
        snprintf(what, sizeof what, "%s, %s to %s, k %lld%s%s", s->what, w->of, w->to,
                 (long long)w->k, w->correct ? ", correct" : "", w->batch ? ", 16 products" : "");
    if (has_peer) {
        contender_median(&peer);
        snprintf(note, sizeof note, "%.2f x oneDNN", peer.times.median / here.times.median);
    }
    print_line(b, &(struct line){ .what = what,
                                  .scheme = "",
                                  .n = w->n,
                                  .unit = "GFLOPS",
                                  .value = work / here.times.median,
                                  .best = work / here.times.best,
                                  .ratio = bare.times.median / here.times.median,
                                  .of = "without",
                                  .note = has_peer ? note : NULL });
    return true;
}

bool epilogue_rows(struct bench *b)
{
    for (size_t w = 0; w < sizeof works / sizeof *works; w++)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
            if (!print_fused_row(b, &works[w], &steps[s]))
                return false;
    return true;
}
