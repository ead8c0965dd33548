/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions allocate at most the limbs of both operands and 16 MiB; gradients of filters by
 * other schemes than `native` also allocate panels of windows.  The first call must use a prebuilt
 * kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convs.h"
#include "support.h"

#include "jit/api/api.h"

/* Bytes that are allowed beside limbs: ROOM in all cases, PANELS more for gradients of filters. */
enum { ROOM = 16 << 20, PANELS = 64 << 20 };

/* ---- an allocator that counts bytes ---------------------------------------------------------- */

/* Bytes in use now, and their maximum so far. */
struct counter {
    pthread_mutex_t lock;
    size_t now, most;
};

/* An allocator's `alloc` that counts bytes.  The size of a block is stored before it. */
static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    struct counter *k = user;
    const size_t all = (bytes + 2 * alignment - 1) / alignment * alignment;
    char *memory = aligned_alloc(alignment, all);

    if (!memory)
        return NULL;
    memcpy(memory, &bytes, sizeof bytes);
    pthread_mutex_lock(&k->lock);
    k->now += bytes;
    k->most = k->now > k->most ? k->now : k->most;
    pthread_mutex_unlock(&k->lock);
    return memory + alignment;
}

/* Frees memory of the counting allocator, whose size stands 64 bytes before it. */
static void count_free(void *user, void *memory)
{
    struct counter *k = user;
    char *at = (char *)memory - 64; /* alignments are always 64 */
    size_t bytes;

    memcpy(&bytes, at, sizeof bytes);
    pthread_mutex_lock(&k->lock);
    k->now -= bytes;
    pthread_mutex_unlock(&k->lock);
    free(at);
}

/* ---- the largest memory of each layer -------------------------------------------------------- */

/* Layers: images, channels, height and width, filters, window, stride. */
static const struct layer {
    int n, c, h, o, r, stride;
} layers[] = { { 1, 3, 112, 64, 7, 2 },  { 2, 64, 56, 64, 3, 1 }, { 1, 128, 28, 256, 3, 2 },
               { 1, 512, 7, 512, 3, 1 }, { 4, 96, 56, 24, 1, 1 }, { 16, 3, 64, 16, 3, 2 } };

/* limbs: bytes of all limbs of an element together */
static const struct kind {
    const char *name, *from, *to, *scheme;
    limber_promise promise;
    bool bytes; /* all values are those of signed 8-bit integers */
    int limbs;
} kinds[] = { { "native", "f32", "f32", NULL, LIMBER_CONTRACT_NATIVE, false, 4 },
              { "INT8", "i8", "i32", NULL, LIMBER_CONTRACT_NATIVE, true, 2 },
              { "bytes in FP32", "f32", "f32", NULL, LIMBER_CONTRACT_CORRECT, true, 2 },
              { "FP32 correct", "f32", "f32", "wider", LIMBER_CONTRACT_CORRECT, false, 8 },
              { "residues", "f64", "f64", "ozaki2", LIMBER_CONTRACT_CORRECT, false, 2 * 24 } };

/* Allocates random elements of a kind. */
static char *random_elements(struct rng *r, const struct kind *k, limber_format f, int64_t count)
{
    char *data = malloc((size_t)count * f.size);

    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        const double x = k->bytes ? rng_below(r, 255) - 127 : rng_unit(r) - 0.5;

        limber_convert(data + i * f.size, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    }
    return data;
}

/* count: elements of the tensors x, w and y.  framed: elements of the input tensor with its
 * padding. */
struct sizes {
    int64_t count[TENSORS], framed;
};

/* Fills *s for a layer and returns the number of elements of its tensors. */
static struct sizes make_conv(limber_conv *s, const struct layer *l, bool nhwc, int direction)
{
    struct sizes x;
    int64_t oh, ow;

    *s = (limber_conv)LIMBER_CONV_INIT;
    s->n = l->n, s->c = l->c, s->h = s->w = l->h, s->o = l->o, s->r = s->s = l->r;
    s->groups = 1;
    for (int i = 0; i < 4; i++)
        s->pad[i] = l->r / 2;
    for (int i = 0; i < 2; i++)
        s->stride[i] = l->stride, s->dilate[i] = 1;
    s->layout = nhwc ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    assert_int_equal(limber_conv_output(s, &oh, &ow), LIMBER_STATUS_OK);
    x.count[X] = s->n * s->c * s->h * s->w;
    x.count[W] = s->o * s->c * s->r * s->s;
    x.count[Y] = s->n * s->o * oh * ow;
    x.framed = direction == DATA ? s->n * s->o * (oh + s->r) * (ow + s->s) :
                                   s->n * (s->c + 4) * (s->h + s->r) * (s->w + s->s);
    return x;
}

/* Checks that a convolution takes at most the memory that docs/performance.md states. */
static void check_memory(const struct kind *k, const struct layer *l, bool nhwc, int direction)
{
    const limber_format from = named(k->from), to = named(k->to);
    struct counter counter = { .lock = PTHREAD_MUTEX_INITIALIZER };
    limber_config config = LIMBER_CONFIG_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_report report = LIMBER_REPORT_INIT;
    const int *in = reads[direction];
    struct rng r = { 3 };
    limber_context *ctx;
    char *a, *b, *c;
    size_t allowed;
    struct sizes x;
    limber_conv s;

    config.cache_dir = "";
    config.threads = 1;
    config.allocator = (limber_allocator){ count_alloc, count_free, &counter };
    if (limber_create(&ctx, &config))
        fail_msg("%s", limber_error_text());
    contract.promise = k->promise;
    contract.scheme = k->scheme;
    x = make_conv(&s, l, nhwc, direction);
    a = random_elements(&r, k, from, x.count[in[0]]);
    b = random_elements(&r, k, from, x.count[in[1]]);
    c = malloc((size_t)x.count[written[direction]] * to.size);
    if (run_direction(ctx, direction, &contract, &s, from, a, b, to, c, NULL, NULL, &report))
        fail_msg("%s", limber_error_text());
    allowed = (size_t)((x.framed + x.count[in[1]]) * k->limbs) + ROOM;
    if (direction == FILTER && k->limbs > 4)
        allowed += PANELS;
    if (counter.most > allowed || report.workspace > allowed)
        fail_msg("%s, %d x %d x %d -> %d, window %d, %s, direction %d: %.1f MiB, %.1f allowed",
                 k->name, l->n, l->c, l->h, l->o, l->r, nhwc ? "NHWC" : "NCHW", direction,
                 (double)counter.most / (1 << 20), (double)allowed / (1 << 20));
    /* the stride phases of a gradient share a kernel, so that later ones find it in memory */
    if (ctx->machine.cpu && report.from != LIMBER_FROM_LIBRARY &&
        !(direction == DATA && report.from == LIMBER_FROM_MEMORY))
        fail_msg("%s, direction %d: the first call's kernel is from %d", k->name, direction,
                 (int)report.from);
    limber_destroy(ctx);
    assert_int_equal(counter.now, 0);
    free(a);
    free(b);
    free(c);
}

/* Convolutions of all layers and directions take at most the documented memory, and their first
 * kernels are prebuilt. */
static void memory_is_limited_and_first_kernels_are_prebuilt(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers - (BRIEF ? 4 : 0); l++)
            for (int way = 0; way < 2 * DIRECTIONS; way++)
                check_memory(&kinds[k], &layers[l], way % 2, way / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        memory_is_limited_and_first_kernels_are_prebuilt) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
