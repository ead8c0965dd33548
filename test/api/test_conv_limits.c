/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions with little workspace: memory that ends just after the requested size, workspaces of
 * the size that limber_workspace returns, and strides far larger than the image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "support.h"

#include <limber/limber.h>

enum { ALIGNED = 64, DIRECTIONS = 3 };

/* ---- an allocator whose blocks end at an inaccessible page ----------------------------------- */

/* An allocator's `alloc`: an inaccessible page follows each block, so that an access beyond its end
 * is a fault. */
static void *edge_alloc(void *user, size_t bytes, size_t alignment)
{
    const size_t head = sizeof(struct guarded);
    const size_t all = (bytes + alignment - 1) / alignment * alignment;
    struct guarded g = guarded(all, true);

    (void)user;
    assert_true(alignment <= ALIGNED);
    /* guarded() has mapped one more page before the block, which holds `g` for edge_free() */
    memcpy(g.map + sysconf(_SC_PAGESIZE), &g, head);
    memset(g.data, 0xff, all);
    return g.data;
}

/* Frees memory of the allocator that lets blocks end at a page that cannot be accessed. */
static void edge_free(void *user, void *memory)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct guarded g;

    (void)user;
    if (!memory)
        return;
    memcpy(&g, (char *)((uintptr_t)memory / page * page) - page, sizeof g);
    leave_guarded(g);
}

/* ---- a layer, its tensors and contexts ------------------------------------------------------- */

/* A convolution, with the formats of the operands and of the result. */
struct layer {
    limber_conv s;
    limber_operation operation;
    limber_format from, to;
    limber_contract contract;
    int64_t elements[3]; /* numbers of elements of the image, the filters and the result */
};

static int64_t output_size(int64_t image, int64_t window, int64_t stride, const int64_t pad[2])
{
    return (image + pad[0] + pad[1] - window) / stride + 1;
}

/* Makes a random layer: operation, formats, contract, geometry. */
static void make_random_layer(struct layer *l, struct rng *r)
{
    static const struct {
        limber_format from, to;
        int promise;
    } kind[] = { { LIMBER_F32, LIMBER_F32, LIMBER_CONTRACT_NATIVE },
                 { LIMBER_F64, LIMBER_F64, LIMBER_CONTRACT_NATIVE },
                 { LIMBER_F32, LIMBER_F32, LIMBER_CONTRACT_REPRODUCIBLE },
                 { LIMBER_I8, LIMBER_I32, LIMBER_CONTRACT_EXACT },
                 { LIMBER_F64, LIMBER_F64, LIMBER_CONTRACT_CORRECT } };
    const int of = rng_below(r, 5), most = rng_below(r, 2) ? 40 : 300;
    limber_conv *s = &l->s;

    memset(l, 0, sizeof *l);
    *s = (limber_conv)LIMBER_CONV_INIT;
    s->n = 1 + (rng_below(r, 4) == 0);
    s->groups = 1 + (rng_below(r, 5) == 0);
    s->c = s->groups * (1 + rng_below(r, most / (int)s->groups));
    s->o = s->groups * (1 + rng_below(r, most / (int)s->groups));
    s->r = s->s = 1 + rng_below(r, 3);
    s->h = s->r + rng_below(r, 10);
    s->w = s->s + rng_below(r, 10);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 1 + rng_below(r, 3);
        s->dilate[i] = 1;
        s->pad[2 * i] = s->pad[2 * i + 1] = rng_below(r, 2);
    }
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    l->operation = (limber_operation)(LIMBER_OPERATION_CONV_FORWARD + rng_below(r, DIRECTIONS));
    l->from = kind[of].from;
    l->to = kind[of].to;
    l->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    l->contract.promise = kind[of].promise;
    l->elements[0] = s->n * s->c * s->h * s->w;
    l->elements[1] = s->o * (s->c / s->groups) * s->r * s->s;
    l->elements[2] = s->n * s->o * output_size(s->h, s->r, s->stride[0], &s->pad[0]) *
                     output_size(s->w, s->s, s->stride[1], &s->pad[2]);
}

/* Allocates a tensor of random small integers. */
static char *make_tensor(struct rng *r, limber_format f, int64_t elements)
{
    char *memory = malloc((size_t)(elements * f.size));

    assert_non_null(memory);
    for (int64_t i = 0; i < elements; i++) {
        const double v = rng_below(r, 255) - 127;

        assert_int_equal(
            limber_convert(memory + i * f.size, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
    }
    return memory;
}

/* Fills the problem of a layer.  data: the image, the filters, and a tensor in the result's
 * shape. */
static limber_problem problem_of(const struct layer *l, char *const data[3], char *result)
{
    const limber_format f[] = { l->from, l->from };
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = l->operation;
    p.conv = &l->s;
    p.contract = &l->contract;
    p.a.data = data[l->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? 2 : 0];
    p.b.data = data[l->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? 2 : 1];
    p.a.format = f[0];
    p.b.format = f[1];
    p.c.data = result;
    p.c.format = l->to;
    return p;
}

static size_t result_bytes(const struct layer *l)
{
    static const int made[] = { 2, 0, 1 };

    return (size_t)(l->elements[made[l->operation - LIMBER_OPERATION_CONV_FORWARD]] * l->to.size);
}

/* Creates a context with this workspace limit.  edges: memory comes from edge_alloc, whose blocks
 * end at an inaccessible page. */
static limber_context *create_context(size_t workspace, int threads, bool edges)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    config.cache_dir = "";
    config.threads = threads;
    config.workspace_bytes = workspace;
    config.kernels = LIMBER_KERNELS_PREBUILT; /* so that nothing is compiled */
    if (edges)
        config.allocator = (limber_allocator){ edge_alloc, edge_free, NULL };
    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    return ctx;
}

/* Prepares the filters.  NULL for gradients of filters, which read none. */
static limber_prepared *prepare_filters(limber_context *ctx, const struct layer *l,
                                        const char *filters)
{
    limber_prepare_config config = LIMBER_PREPARE_CONFIG_INIT;
    limber_prepared *prepared = NULL;

    if (l->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER)
        return NULL;
    config.operation = (int64_t)l->operation;
    if (limber_prepare_filters(ctx, &l->s, filters, l->from, &config, &prepared))
        fail_msg("%s", limber_error_text());
    return prepared;
}

/* Runs a problem.  Fails the test if that fails. */
static void run_with(limber_context *ctx, const limber_problem *of, limber_prepared *prepared,
                     const limber_queue *queue, int trial)
{
    limber_problem p = *of;

    p.prepared_b = prepared;
    p.queue = queue;
    if (limber_run(ctx, &p, NULL))
        fail_msg("trial %d: %s", trial, limber_error_text());
}

/* Runs a layer with exactly the workspace sizes that limber_workspace returned, followed by an
 * inaccessible page. */
static void check_workspace(limber_context *ctx, const struct layer *l, const limber_problem *p,
                            limber_prepared *prepared, const char *want, char *got, int trial)
{
    limber_problem q = *p;
    size_t bytes[2];

    q.prepared_b = prepared;
    assert_int_equal(limber_workspace(ctx, &q, &bytes[0], &bytes[1]), LIMBER_STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct guarded g = guarded((bytes[i] + ALIGNED - 1) / ALIGNED * ALIGNED, true);
        limber_queue queue = LIMBER_QUEUE_INIT;

        queue.workspace = g.data;
        queue.bytes = bytes[i];
        memset(got, 0x5a, result_bytes(l));
        run_with(ctx, p, prepared, bytes[i] ? &queue : NULL, trial);
        if (memcmp(got, want, result_bytes(l)) != 0)
            fail_msg("trial %d: another result in %zu bytes", trial, bytes[i]);
        leave_guarded(g);
    }
}

/* Random layers with a small limit of workspace give the same bits as without one, and never access
 * memory beyond an allocated block. */
static void workspace_suffices(void **state)
{
    (void)state;
    for (int trial = 0; trial < 400; trial++) {
        struct rng r = { 900 + (uint64_t)trial };
        const size_t limit = (size_t)1000 << rng_below(&r, 11);
        limber_context *plain = create_context(0, 1, false);
        limber_context *little = create_context(limit, 1 + rng_below(&r, 3), true);
        struct layer l;
        char *data[3], *want, *got;
        limber_prepared *prepared;
        limber_problem p;

        make_random_layer(&l, &r);
        for (int i = 0; i < 3; i++)
            data[i] = make_tensor(&r, l.from, l.elements[i]);
        want = calloc(result_bytes(&l), 1);
        got = malloc(result_bytes(&l));
        assert_true(want && got);
        p = problem_of(&l, data, want);
        run_with(plain, &p, NULL, NULL, trial);
        p.c.data = got;
        prepared = rng_below(&r, 2) ? prepare_filters(little, &l, data[1]) : NULL;
        memset(got, 0x5a, result_bytes(&l));
        run_with(little, &p, prepared, NULL, trial);
        if (memcmp(got, want, result_bytes(&l)) != 0)
            fail_msg("trial %d: another result within %zu bytes", trial, limit);
        limber_prepared_free(prepared);
        prepared = rng_below(&r, 2) ? prepare_filters(plain, &l, data[1]) : NULL;
        check_workspace(plain, &l, &p, prepared, want, got, trial);
        limber_prepared_free(prepared);
        for (int i = 0; i < 3; i++)
            free(data[i]);
        free(want);
        free(got);
        limber_destroy(little);
        limber_destroy(plain);
    }
}

/* The row stride of a result with a single row must not matter, however large it is. */
static void huge_strides_of_single_rows_are_ignored(void **state)
{
    const int64_t strides[] = { 7, 1000003, 1000000007 };
    float dy[5 * 5], w[5 * 6 * 3], dx[3][6 * 2 * 3];
    limber_context *ctx = create_context(0, 1, false);
    struct rng r = { 31 };

    (void)state;
    for (size_t i = 0; i < sizeof dy / sizeof *dy; i++)
        dy[i] = (float)(rng_below(&r, 15) - 7);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)(rng_below(&r, 15) - 7);
    for (int deep = 0; deep < 2; deep++)
        for (int i = 0; i < 3; i++) {
            limber_conv s = LIMBER_CONV_INIT;

            s.n = s.groups = s.s = 1;
            s.c = 6;
            s.h = 2;
            s.w = 3;
            s.o = 5;
            s.r = 3;
            s.stride[0] = strides[i];
            s.stride[1] = 3;
            s.dilate[0] = 2;
            s.dilate[1] = 4;
            s.pad[1] = 4;
            if (deep) {
                s.d = s.t = 1;
                s.depth_stride = strides[i];
                s.depth_dilate = 1;
            }
            memset(dx[i], 0x5a, sizeof dx[i]);
            if (limber_conv2d_backward_data(ctx, NULL, &s, NULL, dy, LIMBER_F32, w, LIMBER_F32,
                                            NULL, dx[i], LIMBER_F32, NULL))
                fail_msg("%s", limber_error_text());
            assert_memory_equal(dx[i], dx[0], sizeof dx[i]);
        }
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(workspace_suffices),
                                        cmocka_unit_test(huge_strides_of_single_rows_are_ignored) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
