/* SPDX-License-Identifier: BSD-3-Clause
 * oneDNN as a peer: its gemm functions, and its matmul primitive with B packed before the
 * timing. */
#define _GNU_SOURCE
#include "tools/bench/onednn.h"

#include <dlfcn.h>
#include <stdlib.h>

struct dnn dnn;
#define NEEDED(here, symbol, result, arguments) { #symbol, &dnn.here },
static const struct symbol gemm[] = { GEMM(NEEDED) }, matmul[] = { MATMUL(NEEDED) };
static const struct symbol release2[] = { RELEASE2(NEEDED) }, release3[] = { RELEASE3(NEEDED) };
static const struct symbol convolution[] = { CONVOLUTION(NEEDED) };
static const struct symbol eltwise[] = { ELTWISE(NEEDED) };
static const struct symbol fused[] = { FUSED(NEEDED) };

/* Multiplies by oneDNN's GEMM functions.  peer->code has oneDNN's types of A, B and C. */
bool onednn_run(struct contender *c)
{
    const struct operands *o = c->now;
    char ta = c->work->ta ? 'T' : 'N', tb = c->work->tb ? 'T' : 'N';
    int64_t n = c->work->n;
    int32_t zero = 0;

    if (c->peer->code[0] == DNN_F32)
        dnn.sgemm(ta, tb, n, n, n, 1, o->a, n, o->b, n, 0, o->y, n);
    else if (c->peer->code[0] == DNN_U8)
        dnn.u8(ta, tb, 'F', n, n, n, 1, o->a, n, 0, o->b, n, 0, 0, o->y, n, &zero);
    else
        dnn.s8(ta, tb, 'F', n, n, n, 1, o->a, n, 0, o->b, n, 0, 0, o->y, n, &zero);
    return true;
}

/* Returns the descriptor of an n x n matrix in row-major order, or column-major order if
 * transposed; NULL on failure. */
static void *describe_matrix(int n, int type, bool transposed)
{
    int64_t dims[12] = { n, n }, strides[12] = { transposed ? 1 : n, transposed ? n : 1 };
    void *md = NULL;

    if (dnn.major >= 3)
        return dnn.strides3(&md, 2, dims, type, strides) ? NULL : md;
    md = calloc(1, DNN_ROOM);
    if (md && dnn.strides2(md, 2, dims, type, strides)) {
        free(md);
        md = NULL;
    }
    return md;
}

/* Descriptor of an n x n matrix whose layout oneDNN may choose; NULL on failure. */
static void *describe_any_layout(int n, int type)
{
    int64_t dims[12] = { n, n };
    void *md = NULL;

    if (dnn.major >= 3)
        return dnn.tag3(&md, 2, dims, type, DNN_ANY) ? NULL : md;
    md = calloc(1, DNN_ROOM);
    if (md && dnn.tag2(md, 2, dims, type, DNN_ANY)) {
        free(md);
        md = NULL;
    }
    return md;
}

/* Frees a memory descriptor. */
static void md_free(void *md)
{
    if (dnn.major >= 3 && md)
        dnn.md_destroy(md);
    else
        free(md);
}

/* Descriptor of a matmul primitive; NULL if oneDNN has none for these types. */
static void *describe_matmul(const void *a, const void *b, const void *c)
{
    void *pd = NULL, *op;

    if (!a || !b || !c)
        return NULL;
    if (dnn.major >= 3)
        return dnn.matmul_create(&pd, dnn.engine, a, b, NULL, c, NULL) ? NULL : pd;
    op = calloc(1, DNN_ROOM);
    if (!op || dnn.matmul_init(op, a, b, NULL, c) ||
        dnn.desc_create(&pd, op, NULL, dnn.engine, NULL))
        pd = NULL;
    free(op);
    return pd;
}

/* A prepared product of oneDNN. */
struct dnn_state {
    void *primitive, *a, *b, *c;
};

static void dnn_release(struct dnn_state *s)
{
    if (s->primitive)
        dnn.primitive_destroy(s->primitive);
    if (s->a)
        dnn.memory_destroy(s->a);
    if (s->b)
        dnn.memory_destroy(s->b);
    if (s->c)
        dnn.memory_destroy(s->c);
    free(s);
}

void onednn_release(struct contender *c)
{
    dnn_release(c->prepared);
}

/* Copies an array to another layout by oneDNN. False on failure. */
bool dnn_reorder(const struct dnn_copy *p)
{
    const struct dnn_argument arguments[] = { { DNN_SRC, p->from }, { DNN_DST, p->to } };
    void *pd = NULL, *reorder = NULL;
    bool ok = !dnn.reorder_create(&pd, p->from_md, dnn.engine, p->to_md, dnn.engine, NULL) &&
              !dnn.primitive_create(&reorder, pd) &&
              !dnn.execute(reorder, dnn.stream, 2, arguments) && !dnn.stream_wait(dnn.stream);

    if (reorder)
        dnn.primitive_destroy(reorder);
    if (pd)
        dnn.desc_destroy(pd);
    return ok;
}

/* Packs B into the layout that the primitive prefers.  The address -1 lets oneDNN allocate
 * memory. */
static bool pack_weights(struct dnn_state *s, const void *pd, const void *plain, const void *b)
{
    struct dnn_copy copy = { .from_md = plain, .to_md = dnn.query_md(pd, DNN_WEIGHTS_MD, 0) };
    bool ok = copy.to_md &&
              !dnn.memory_create(&s->b, copy.to_md, dnn.engine, (void *)~(uintptr_t)0) &&
              !dnn.memory_create(&copy.from, plain, dnn.engine, (void *)(uintptr_t)b);

    copy.to = s->b;
    ok = ok && dnn_reorder(&copy);
    if (copy.from)
        dnn.memory_destroy(copy.from);
    return ok;
}

/* Sets up oneDNN's matmul primitive for a product, and packs B as it prefers.  Returns false if
 * oneDNN has none for these types. */
bool onednn_prepare(struct contender *x)
{
    const int *type = x->peer->code, n = (int)x->work->n;
    struct dnn_state *s = dnn.matmul ? calloc(1, sizeof *s) : NULL;
    void *a, *b, *c, *any, *pd;
    bool ok;

    if (!s)
        return false;
    a = describe_matrix(n, type[0], x->work->ta);
    b = describe_matrix(n, type[1], x->work->tb);
    c = describe_matrix(n, type[2], false);
    any = describe_any_layout(n, type[1]);
    pd = describe_matmul(a, any, c);
    ok = b && pd && !dnn.primitive_create(&s->primitive, pd) &&
         !dnn.memory_create(&s->a, a, dnn.engine, (void *)(uintptr_t)x->now->a) &&
         !dnn.memory_create(&s->c, c, dnn.engine, x->now->y) && pack_weights(s, pd, b, x->now->b);
    if (pd)
        dnn.desc_destroy(pd);
    md_free(a);
    md_free(b);
    md_free(c);
    md_free(any);
    if (!ok)
        dnn_release(s);
    else
        x->prepared = s;
    return ok;
}

bool onednn_matmul(struct contender *c)
{
    struct dnn_state *s = c->prepared;
    struct dnn_argument arguments[] = { { DNN_SRC, s->a },
                                        { DNN_WEIGHTS, s->b },
                                        { DNN_DST, s->c } };

    if (dnn.execute(s->primitive, dnn.stream, 3, arguments))
        return contender_set_state(c, STATE_failed, "oneDNN's primitive fails");
    dnn.stream_wait(dnn.stream);
    return true;
}

static bool find_matmul(struct library *l)
{
    return LIBRARY_FIND(l, matmul) &&
           (dnn.major == 2 ? LIBRARY_FIND(l, release2) :
                             dnn.major == 3 && LIBRARY_FIND(l, release3)) &&
           !dnn.engine_create(&dnn.engine, DNN_CPU, 0) &&
           !dnn.stream_create(&dnn.stream, dnn.engine, DNN_IN_ORDER);
}

/* Loads oneDNN, and finds the functions of its release for products, convolutions and elementwise
 * primitives. */
static bool open_onednn(struct library *l)
{
    const struct {
        int major, minor, patch;
    } *v;
    int (*isa)(void);
    const char *(*isa_name)(int);

    if (!library_load(l) || !LIBRARY_FIND(l, gemm))
        return false;
    v = dnn.version();
    dnn.major = v->major;
    snprintf(l->version, sizeof l->version, "%d.%d.%d", v->major, v->minor, v->patch);
    dnn.matmul = find_matmul(l);
    dnn.convolution = dnn.matmul && dnn.major == 3 && LIBRARY_FIND(l, convolution);
    dnn.eltwise = dnn.matmul && dnn.major == 3 && LIBRARY_FIND(l, eltwise);
    dnn.fused = dnn.matmul && dnn.major == 3 && LIBRARY_FIND(l, fused);
    *(void **)&dnn.omp_threads = dlsym(l->handle, "omp_set_num_threads");
    if ((*(void **)&isa = dlsym(l->handle, "dnnl_get_effective_cpu_isa")) &&
        (*(void **)&isa_name = dlsym(l->handle, "dnnl_cpu_isa2str")))
        snprintf(l->kernels, sizeof l->kernels, "%s%s", isa_name(isa()),
                 dnn.matmul ? "" : "; no matmul primitive");
    return true;
}

static void set_threads(int threads)
{
    if (dnn.omp_threads)
        dnn.omp_threads(threads);
}

struct library onednn = { .name = "oneDNN",
                          .files = "libdnnl.so.3 libdnnl.so.2",
                          .open = open_onednn,
                          .threads = set_threads };
