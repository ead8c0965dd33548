/* SPDX-License-Identifier: BSD-3-Clause
 * The groups of rows of `limber gpu`: what is measured beside what. */
#include "tools/bench/gpu.h"
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

static const limber_contract native = { .promise = LIMBER_CONTRACT_NATIVE };
static const limber_contract correct = { .promise = LIMBER_CONTRACT_CORRECT };
static const limber_contract bits53 = { .promise = LIMBER_CONTRACT_BITS, .bits = 53 };
static const limber_contract exact = { .promise = LIMBER_CONTRACT_EXACT };

/* Room for what fast algorithms lose that promise nothing (Winograd's, FP8's sums). */
enum { LOOSE = 8 };

/* ---- works ----------------------------------------------------------------------------------- */

static void note(void *user, const struct gpu_work *w, const struct contender *c)
{
    gpu_progress(user, "%s%s%s, n = %lld, %s", w->what, w->data_name ? ", " : "",
                 w->data_name ? w->data_name : "", (long long)w->n,
                 c->contract.scheme ? c->contract.scheme :
                 c->name            ? c->name :
                                      "Limber");
}

static struct gpu_work square(const char *what, const char *in, const char *out, int n)
{
    limber_format f = format_of(in);

    return (struct gpu_work){
        .what = what, .m = n, .n = n, .k = n, .fa = f, .fb = f, .fc = format_of(out)
    };
}

static struct contender *add(struct gpu_work *w, enum by by, const char *name, enum promise promise,
                             double factor)
{
    struct contender *c = &w->list[w->count++];

    *c = (struct contender){ .by = by, .name = name, .promise = promise, .factor = factor };
    return c;
}

static void add_base(struct gpu_work *w, enum by by, const char *name, enum promise promise,
                     double factor)
{
    add(w, by, name, promise, factor)->base = true;
}

/* Limber under a contract; scheme NULL: its own choice. */
static struct contender *add_own(struct gpu_work *w, const char *name, limber_contract contract,
                                 const char *scheme)
{
    static const enum promise promises[] = {
        [LIMBER_CONTRACT_NATIVE] = PROMISE_sum,
        [LIMBER_CONTRACT_BITS] = PROMISE_bits,
        [LIMBER_CONTRACT_CORRECT] = PROMISE_rounded,
        [LIMBER_CONTRACT_EXACT] = PROMISE_exact,
    };
    bool integers = w->fc.kind == LIMBER_KIND_INT;
    struct contender *c =
        add(w, BY_limber, name, integers ? PROMISE_exact : promises[contract.promise],
            contract.promise == LIMBER_CONTRACT_BITS ? contract.bits : 1);

    c->contract = contract;
    c->contract.scheme = scheme;
    return c;
}

static const struct contender *base_of(const struct gpu_work *w)
{
    const struct contender *best = NULL;

    for (int i = 0; i < w->count; i++)
        if (w->list[i].base && w->list[i].median > 0 && (!best || w->list[i].median < best->median))
            best = &w->list[i];
    return best;
}

/* An emulation that gives the plain product's bits did not emulate. */
static bool same_bits(const struct gpu_work *w, const struct contender *x,
                      const struct contender *y)
{
    for (int i = 0; i < PICKS; i++)
        if (memcmp(x->got[i], y->got[i], w->fc.size))
            return false;
    return true;
}

static bool measure_work(struct gpu_bench *b, struct gpu_work *w, bool timed)
{
    /* a work's samples end when it has had its part of the time */
    struct measuring m = { .ctx = b->ctx,
                           .until = now() + b->seconds / 20,
                           .sample = 0.02,
                           .seed = random_bits(&b->seed),
                           .timed = timed,
                           .note = note,
                           .user = b };

    if (!gpu_time_left(b))
        snprintf(w->why, sizeof w->why, "time is up (--seconds %g)", b->seconds);
    else if (gpu_lost())
        snprintf(w->why, sizeof w->why, "the device is lost: %.150s", gpu_error());
    else
        work_measure(w, &m);
    return !*w->why;
}

static void print_work(struct gpu_bench *b, const struct gpu_work *w, double amount,
                       const char *unit, const struct contender *base)
{
    char what[128];

    if (w->conv)
        snprintf(what, sizeof what, "%s, %s", w->what, w->data_name);
    else
        snprintf(what, sizeof what, "%s, %lld x %lld x %lld", w->what, (long long)w->m,
                 (long long)w->n, (long long)w->k);
    if (*w->why)
        gpu_skip(b, what, w->why);
    for (int i = 0; i < w->count && !*w->why; i++) {
        const struct contender *c = &w->list[i];
        bool same = c->emulation && base && c->state == STATE_ok && same_bits(w, c, base);

        gpu_row(
            b, &(struct gpu_row){ .w = w,
                                  .c = c,
                                  .amount = amount,
                                  .unit = unit,
                                  .base = base && c != base ? base->median : 0,
                                  .base_name = base ? base->name : NULL,
                                  .note = same ? "the plain product's bits: not emulated" : NULL });
    }
}

static double volume(const struct gpu_work *w)
{
    return 2e-12 * (double)w->m * (double)w->n * (double)w->k;
}

static void run(struct gpu_bench *b, struct gpu_work *w)
{
    measure_work(b, w, true);
    print_work(b, w, volume(w), w->fc.kind == LIMBER_KIND_INT ? "TOPS" : "TFLOPS", base_of(w));
}

/* The sizes of --sizes, else the group's own; answers how many. */
static int sizes_of(const struct gpu_bench *b, const int *own, int count, const int **list)
{
    *list = b->size_count ? b->sizes : own;
    return b->size_count ? b->size_count : count;
}

/* ---- the machine's units --------------------------------------------------------------------- */

static void unit_row(struct gpu_bench *b, enum by by, const char *what, const char *in,
                     const char *out, int n)
{
    struct gpu_work w = square(what, in, out, n);
    bool bytes = by == BY_i8;

    w.data = bytes ? DATA_integer : DATA_normal;
    w.bits = 7;
    w.tb = bytes || by == BY_e4m3; /* as these units read their operands fastest */
    /* tensor cores cut off below their accumulator's last bit */
    add(&w, by, by == BY_e4m3 ? "cuBLASLt" : "cuBLAS",
        bytes         ? PROMISE_exact :
        by == BY_e4m3 ? PROMISE_loose :
                        PROMISE_sum,
        by == BY_e4m3 ? LOOSE : 4);
    run(b, &w);
}

static bool same_words(const void *x, const void *y, size_t bytes, uint64_t seed)
{
    for (int i = 0; i < PICKS; i++) {
        size_t at = (size_t)(random_bits(&seed) % (bytes / 8)) * 8;
        uint64_t u, v;

        if (!gpu_get(&u, (const char *)x + at, 8) || !gpu_get(&v, (const char *)y + at, 8) ||
            u != v)
            return false;
    }
    return true;
}

static bool time_copies(struct contender *c, void *to, const void *from, size_t bytes)
{
    enum { COPIES = 8, SAMPLES = 5 };
    double sorted[MOST_SAMPLES];

    for (int s = -1; s < SAMPLES; s++) {
        double t;

        if (!gpu_start())
            return false;
        for (int i = 0; i < COPIES; i++)
            if (!gpu_copy(to, from, bytes))
                return false;
        t = gpu_stop();
        if (t < 0)
            return false;
        if (s >= 0)
            c->seconds[s] = t / COPIES;
    }
    c->samples = SAMPLES;
    c->repeats = COPIES;
    memcpy(sorted, c->seconds, sizeof sorted);
    c->median = median(sorted, SAMPLES, &c->best);
    return true;
}

/* Numbers of which no two words are equal, so that a copy that did nothing shows. */
static bool copy_checked(struct contender *c, char *to, char *from, size_t bytes, uint64_t seed)
{
    size_t block = 1 << 20;
    uint64_t *words = malloc(block);
    bool ok = words != NULL;

    for (size_t i = 0; ok && i < block / 8; i++)
        words[i] = random_bits(&seed);
    ok = ok && gpu_put(from, words, block);
    free(words);
    for (size_t at = block; ok && at < bytes; at += block)
        ok = gpu_copy(from + at, from, block);
    ok = ok && gpu_fill(to, 0xff, bytes) && time_copies(c, to, from, bytes) && gpu_wait();
    if (!ok)
        return contender_stop(c, STATE_failed, "%s", *gpu_error() ? gpu_error() : "no memory");
    if (!same_words(to, from, bytes, seed))
        return contender_stop(c, STATE_wrong, "the copy differs");
    return true;
}

static void copy_row(struct gpu_bench *b)
{
    size_t left = gpu_memory_free() / 8, most = (size_t)4 << 30;
    size_t bytes = (left < most ? left : most) >> 20 << 20;
    struct gpu_work w = { .what = "copy on the device", .m = 1, .n = (int64_t)bytes, .k = 1 };
    struct contender *c = add(&w, BY_sgemm, "cuMemcpyDtoD", PROMISE_exact, 0);
    char *to = gpu_alloc(bytes), *from = gpu_alloc(bytes);

    if (!bytes || !to || !from)
        contender_stop(c, STATE_skipped, "no memory: %s", gpu_error());
    else
        copy_checked(c, to, from, bytes, random_bits(&b->seed));
    gpu_free(to);
    gpu_free(from);
    gpu_row(b,
            &(struct gpu_row){ .w = &w, .c = c, .amount = 2e-9 * (double)bytes, .unit = "GB/s" });
}

void rows_units(struct gpu_bench *b)
{
    static const int own[] = { 4096, 8192, 16384 };
    const int *sizes;
    int count = sizes_of(b, own, 3, &sizes);

    for (int i = 0; i < count; i++) {
        unit_row(b, BY_f16, "FP16 to FP32", "f16", "f32", sizes[i]);
        unit_row(b, BY_bf16, "BF16 to FP32", "bf16", "f32", sizes[i]);
        unit_row(b, BY_tf32, "TF32 to FP32", "tf32", "f32", sizes[i]);
        unit_row(b, BY_i8, "INT8 to INT32", "i8", "i32", sizes[i]);
        unit_row(b, BY_e4m3, "E4M3 to FP32", "e4m3", "f32", sizes[i]);
    }
    copy_row(b);
}

/* ---- products -------------------------------------------------------------------------------- */

/* On a GPU the limbs are made in both ways. */
static void add_hilo(const struct gpu_bench *b, struct gpu_work *w, const char *scheme)
{
    if (strcmp(b->backend, "cuda") != 0) {
        add_own(w, NULL, native, scheme);
        return;
    }
    add_own(w, NULL, native, scheme)->contract.split = LIMBER_SPLIT_AHEAD;
    add_own(w, NULL, native, scheme)->contract.split = LIMBER_SPLIT_INSIDE;
}

static void fp32_row(struct gpu_bench *b, int n, enum gpu_data data)
{
    static const char *const schemes[] = { "fp32-f", "fp32-t", "fp32-b" };
    struct gpu_work w = square("FP32", "f32", "f32", n);
    struct contender *c;

    w.data = data;
    w.data_name = data == DATA_uniform ? "uniform (0,1)" : "normal, rows scaled";
    add_base(&w, BY_sgemm, "cuBLAS SGEMM", PROMISE_sum, 1);
    c = add(&w, BY_bf16x9, "cuBLAS BF16x9", PROMISE_loose, 16);
    c->emulation = true;
    add_own(&w, NULL, native, "native");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        add_hilo(b, &w, schemes[i]);
    add_own(&w, NULL, native, NULL);
    run(b, &w);
}

/* Lines in groups of their own, against one plan for all. */
static void mixed_row(struct gpu_bench *b, int n)
{
    struct gpu_work w = square("FP32", "f32", "f32", n);

    w.data = DATA_mixed;
    w.data_name = "normal, 3 of 10 blocks of rows wide";
    add_base(&w, BY_sgemm, "cuBLAS SGEMM", PROMISE_sum, 1);
    add_hilo(b, &w, "fp32-b");
    add_own(&w, NULL, native, NULL);
    run(b, &w);
}

void rows_fp32(struct gpu_bench *b)
{
    static const int own[] = { 512, 1024, 2048, 4096, 8192, 16384 };
    const int *sizes;
    int count = sizes_of(b, own, 6, &sizes);

    for (int i = 0; i < count; i++) {
        fp32_row(b, sizes[i], DATA_uniform);
        fp32_row(b, sizes[i], DATA_scaled);
        mixed_row(b, sizes[i]);
    }
}

static void add_fp64(struct gpu_work *w)
{
    struct contender *c;

    add_base(w, BY_dgemm, "cuBLAS DGEMM", PROMISE_sum, 1);
    c = add(w, BY_fixed, "cuBLAS fixed point", PROMISE_loose, 32);
    c->emulation = true;
    add_own(w, NULL, native, NULL);
    add_own(w, NULL, native, "native");
    add_own(w, NULL, native, "ozaki2");
    add_own(w, "bits=53", bits53, "ozaki2");
    add_own(w, "correct", correct, "ozaki2");
    add_own(w, NULL, native, "ozaki1-i8");
    add_own(w, "correct", correct, NULL);
}

static void fp64_row(struct gpu_bench *b, int n, int k, enum gpu_data data)
{
    struct gpu_work w = square("FP64", "f64", "f64", n);

    w.k = k;
    w.data = data;
    w.data_name = data == DATA_uniform ? "uniform (0,1)" : "normal";
    add_fp64(&w);
    run(b, &w);
}

void rows_fp64(struct gpu_bench *b)
{
    static const int own[] = { 1024, 2048, 4096, 8192, 16384 };
    const int *sizes;
    int count = sizes_of(b, own, 5, &sizes), largest = 0;

    for (int i = 0; i < count; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
        fp64_row(b, sizes[i], sizes[i], DATA_uniform);
        fp64_row(b, sizes[i], sizes[i], DATA_normal);
    }
    fp64_row(b, largest, largest < 16 ? 1 : largest / 16, DATA_normal);
}

/* DGEMM of the same size for the ratio, on operands of its own. */
void rows_quad(struct gpu_bench *b)
{
    static const int own[] = { 1024, 2048, 4096 };
    const int *sizes;
    int count = sizes_of(b, own, 3, &sizes);

    for (int i = 0; i < count; i++) {
        struct gpu_work d = square("FP64, for the ratio", "f64", "f64", sizes[i]);
        struct gpu_work w = square("binary128", "f128", "f128", sizes[i]);

        add_base(&d, BY_dgemm, "cuBLAS DGEMM", PROMISE_sum, 1);
        run(b, &d);
        w.data = DATA_quad;
        w.data_name = "uniform (0,1)";
        add_own(&w, NULL, native, "ozaki2");
        measure_work(b, &w, true);
        print_work(b, &w, volume(&w), "TFLOPS", base_of(&d));
    }
}

static void int_row(struct gpu_bench *b, const char *what, const char *in, const char *out, int n)
{
    struct gpu_work w = square(what, in, out, n);
    bool bytes = !strcmp(in, "i8");

    w.data = DATA_integer;
    /* sums of n products of i32 fit i64 only below their full range */
    w.bits = bytes ? 7 : !strcmp(in, "i16") ? 15 : 24;
    w.tb = bytes;
    if (bytes)
        add_base(&w, BY_i8, "cuBLAS INT8", PROMISE_exact, 0);
    add_own(&w, NULL, bytes ? native : exact, NULL);
    run(b, &w);
}

void rows_int(struct gpu_bench *b)
{
    static const int own[] = { 4096, 8192 };
    const int *sizes;
    int count = sizes_of(b, own, 2, &sizes);

    for (int i = 0; i < count; i++) {
        int_row(b, "i8 to i32", "i8", "i32", sizes[i]);
        int_row(b, "i16 to i64, exact", "i16", "i64", sizes[i]);
        int_row(b, "i32 (24 bits) to i64, exact", "i32", "i64", sizes[i]);
    }
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* ResNet-18's distinct layers, for images of 224 x 224. */
static const struct layer {
    const char *name;
    int c, h, o, r, stride;
} layers[] = {
    { "conv1 7x7/2", 3, 224, 64, 7, 2 },    { "layer1 3x3", 64, 56, 64, 3, 1 },
    { "layer2 3x3/2", 64, 56, 128, 3, 2 },  { "layer2 1x1/2", 64, 56, 128, 1, 2 },
    { "layer2 3x3", 128, 28, 128, 3, 1 },   { "layer3 3x3/2", 128, 28, 256, 3, 2 },
    { "layer3 1x1/2", 128, 28, 256, 1, 2 }, { "layer3 3x3", 256, 14, 256, 3, 1 },
    { "layer4 3x3/2", 256, 14, 512, 3, 2 }, { "layer4 1x1/2", 256, 14, 512, 1, 2 },
    { "layer4 3x3", 512, 7, 512, 3, 1 },
};

static limber_conv conv_of(const struct layer *l, int batch, limber_layout layout)
{
    int pad = l->r / 2;

    return (limber_conv){ .n = batch,
                          .c = l->c,
                          .h = l->h,
                          .w = l->h,
                          .o = l->o,
                          .r = l->r,
                          .s = l->r,
                          .stride = { l->stride, l->stride },
                          .dilate = { 1, 1 },
                          .pad = { pad, pad, pad, pad },
                          .groups = 1,
                          .layout = layout };
}

static void conv_work(struct gpu_work *w, const struct layer *l, const limber_conv *s)
{
    static const char *const schemes[] = { "fp32-f", "fp32-b", "native", NULL };
    bool nhwc = s->layout == LIMBER_LAYOUT_NHWC;
    int64_t oh = 0, ow = 0;

    *w = square(l->name, "f32", "f32", 1);
    limber_conv_output(s, &oh, &ow);
    w->m = s->n;
    w->n = s->o * oh * ow;
    w->k = s->c * s->r * s->s;
    w->conv = s;
    w->data = DATA_normal;
    w->data_name = nhwc ? "NHWC" : "NCHW";
    add_base(w, BY_dnn, nhwc ? "cuDNN NHWC" : "cuDNN NCHW", PROMISE_loose, LOOSE);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        add_own(w, NULL, native, schemes[i]);
}

/* Both layouts; all ratios are to the faster of cuDNN's two. */
static void conv_rows(struct gpu_bench *b, const struct layer *l)
{
    limber_conv s[2] = { conv_of(l, b->batch, LIMBER_LAYOUT_NCHW),
                         conv_of(l, b->batch, LIMBER_LAYOUT_NHWC) };
    struct gpu_work *w = calloc(2, sizeof *w);
    const struct contender *x, *y;

    if (!w) {
        gpu_skip(b, l->name, "out of memory");
        return;
    }
    for (int i = 0; i < 2; i++) {
        conv_work(&w[i], l, &s[i]);
        measure_work(b, &w[i], true);
    }
    x = base_of(&w[0]);
    y = base_of(&w[1]);
    if (!x || (y && y->median < x->median))
        x = y;
    for (int i = 0; i < 2; i++)
        print_work(b, &w[i], volume(&w[i]), "TFLOPS", x);
    free(w);
}

void rows_conv(struct gpu_bench *b)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        conv_rows(b, &layers[i]);
}

/* ---- work space ------------------------------------------------------------------------------ */

void rows_workspace(struct gpu_bench *b)
{
    int n = 16384;

    for (int i = 0; i < b->size_count; i++)
        n = i == 0 || b->sizes[i] > n ? b->sizes[i] : n;
    for (int which = 0; which < 3; which++) {
        struct gpu_work w = square("work space, FP64", "f64", "f64", n);
        struct contender *c;

        w.data = DATA_normal;
        c = which == 0 ? add_own(&w, NULL, native, NULL) :
            which == 1 ? add_own(&w, "bits=53", bits53, NULL) :
                         add_own(&w, "correct", correct, NULL);
        if (!measure_work(b, &w, false)) {
            gpu_skip(b, w.what, w.why);
            return;
        }
        gpu_row(b, &(struct gpu_row){ .w = &w,
                                      .c = c,
                                      .unit = "MiB",
                                      .untimed = true,
                                      .value = (double)c->report.workspace / (1 << 20),
                                      .value_ratio = (double)c->report.workspace / (double)w.bytes,
                                      .base_name = "the bytes of A, B and C" });
    }
}
