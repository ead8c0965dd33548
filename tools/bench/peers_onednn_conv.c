/* SPDX-License-Identifier: BSD-3-Clause
 * oneDNN's convolutions as peers, forward and both gradients: on tensors in NCHW or NHWC, and in
 * layouts that oneDNN prefers, to which operands are converted before the timing. */
#include "tools/bench/onednn.h"

#include <stdlib.h>

enum tensor_of { IMAGE, FILTERS, OUTPUT, TENSORS };
enum { MOST_DIMS = 5 };

/* [operation][tensor]: oneDNN's argument and descriptor numbers, and the operand (0: A, 1: B, 2:
 * C). */
static const struct role {
    int argument, md, operand;
} roles[][TENSORS] = {
    [LIMBER_OPERATION_CONV_FORWARD] = { { DNN_SRC, DNN_SRC_MD, 0 },
                                        { DNN_WEIGHTS, DNN_WEIGHTS_MD, 1 },
                                        { DNN_DST, DNN_DST_MD, 2 } },
    [LIMBER_OPERATION_CONV_BACKWARD_DATA] = { { DNN_DIFF_SRC, DNN_DIFF_SRC_MD, 2 },
                                              { DNN_WEIGHTS, DNN_WEIGHTS_MD, 1 },
                                              { DNN_DIFF_DST, DNN_DIFF_DST_MD, 0 } },
    [LIMBER_OPERATION_CONV_BACKWARD_FILTER] = { { DNN_SRC, DNN_SRC_MD, 0 },
                                                { DNN_DIFF_WEIGHTS, DNN_DIFF_WEIGHTS_MD, 2 },
                                                { DNN_DIFF_DST, DNN_DIFF_DST_MD, 1 } },
};

/* oneDNN's convolution of one shape. */
struct conv_state {
    void *pd, *primitive;
    /* [tensor]: descriptors and memory objects of the caller's tensors, in NCHW or NHWC */
    void *md[TENSORS], *plain[TENSORS];
    /* [tensor]: descriptor of the layout that the primitive chose; NULL if it uses the caller's */
    const void *own_md[TENSORS];
    /* [tensor]: memory object in the primitive's layout; NULL if it uses the caller's tensor */
    void *own[TENSORS];
};

static int type_of(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT ? DNN_F32 :
           f.size == 4                 ? DNN_S32 :
           f.kind == LIMBER_KIND_UINT  ? DNN_U8 :
                                         DNN_S8;
}

/* Returns the descriptor of a tensor, in NCHW or NHWC, or in a layout of oneDNN's choice if
 * `any`.  NULL if oneDNN cannot describe it. */
static void *describe(const struct work *w, enum tensor_of which, bool any)
{
    const limber_conv *s = &w->conv;
    const limber_format formats[] = { w->fa, w->fb, w->fc };
    const int type = type_of(formats[roles[w->operation][which].operand]);
    const bool nhwc = s->layout == LIMBER_LAYOUT_NHWC;
    const int grouped = which == FILTERS && s->groups > 1, deep = s->t > 0;
    int64_t size[TENSORS][5] = { { s->n, s->c, s->d, s->h, s->w },
                                 { s->o, s->c / s->groups, s->t, s->r, s->s },
                                 { s->n, s->o, 0, 0, 0 } };
    int64_t dims[12] = { s->groups }, strides[12], *of = dims + grouped, *step = strides + grouped;
    void *md = NULL;

    limber_conv_output(s, &size[OUTPUT][3], &size[OUTPUT][4]);
    limber_conv_output_depth(s, &size[OUTPUT][2]);
    memcpy(of, size[which], 2 * sizeof *of);
    memcpy(of + 2, size[which] + 3 - deep, (size_t)(2 + deep) * sizeof *of);
    step[3 + deep] = nhwc ? of[1] : 1;
    for (int i = 2 + deep; i >= 2; i--)
        step[i] = step[i + 1] * of[i + 1];
    step[1] = nhwc ? 1 : step[2] * of[2];
    step[0] = nhwc ? step[2] * of[2] : step[1] * of[1];
    if (grouped) {
        dims[1] /= s->groups;
        strides[0] = dims[1] * strides[1];
    }
    if (any ? dnn.tag3(&md, 4 + deep + grouped, dims, type, DNN_ANY) :
              dnn.strides3(&md, 4 + deep + grouped, dims, type, strides))
        return NULL;
    return md;
}

/* Describes all tensors of the work; returns false if oneDNN cannot describe one of them. */
static bool describe_all(const struct work *w, bool any, void *md[TENSORS])
{
    bool ok = true;

    for (int i = 0; i < TENSORS; i++)
        ok = (md[i] = describe(w, (enum tensor_of)i, any)) && ok;
    return ok;
}

static void free_descriptors(void *md[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        if (md[i])
            dnn.md_destroy(md[i]);
}

/* Creates the primitive's descriptor; NULL on failure.  A backward convolution needs a forward
 * descriptor as a hint. */
static void *describe_conv(const struct work *w, void *const md[TENSORS])
{
    const limber_conv *s = &w->conv;
    /* the arrays begin with the depth, which two-dimensional convolutions leave out */
    const int first = s->t ? 0 : 1;
    const int64_t strides[] = { s->depth_stride ? s->depth_stride : 1, s->stride[0], s->stride[1] };
    const int64_t apart[] = { s->depth_dilate ? s->depth_dilate - 1 : 0, s->dilate[0] - 1,
                              s->dilate[1] - 1 };
    const int64_t front[] = { s->depth_pad[0], s->pad[0], s->pad[2] };
    const int64_t back[] = { s->depth_pad[1], s->pad[1], s->pad[3] };
    const int64_t *stride = strides + first, *dilate = apart + first, *before = front + first;
    const int64_t *after = back + first;
    void *forward = NULL, *pd = NULL;

    if (dnn.conv_forward(&forward, dnn.engine, DNN_FORWARD, DNN_DIRECT, md[IMAGE], md[FILTERS],
                         NULL, md[OUTPUT], stride, dilate, before, after, NULL))
        return NULL;
    if (w->operation == LIMBER_OPERATION_CONV_FORWARD)
        return forward;
    if (w->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ?
            dnn.conv_data(&pd, dnn.engine, DNN_DIRECT, md[IMAGE], md[FILTERS], md[OUTPUT], stride,
                          dilate, before, after, forward, NULL) :
            dnn.conv_weights(&pd, dnn.engine, DNN_DIRECT, md[IMAGE], md[FILTERS], NULL, md[OUTPUT],
                             stride, dilate, before, after, forward, NULL))
        pd = NULL;
    dnn.desc_destroy(forward);
    return pd;
}

/* Returns the copy of tensor i to the primitive's layout, or, with `back`, to the caller's. */
static struct dnn_copy copy_of(const struct conv_state *s, int i, bool back)
{
    const struct dnn_copy to = { s->md[i], s->own_md[i], s->plain[i], s->own[i] };

    return back ? (struct dnn_copy){ to.to_md, to.from_md, to.to, to.from } : to;
}

/* Creates the memory objects of tensor i.  If the primitive chose its layout, copies operands into
 * it. */
static bool set_tensor(struct conv_state *s, const struct contender *c, int i, bool any)
{
    const struct role *role = &roles[c->work->operation][i];
    const void *data[] = { c->now->a, c->now->b, c->now->y };
    struct dnn_copy copy;

    if (dnn.memory_create(&s->plain[i], s->md[i], dnn.engine,
                          (void *)(uintptr_t)data[role->operand]))
        return false;
    if (!any)
        return true;
    s->own_md[i] = dnn.query_md(s->pd, role->md, 0);
    if (!s->own_md[i] ||
        dnn.memory_create(&s->own[i], s->own_md[i], dnn.engine, (void *)~(uintptr_t)0))
        return false;
    copy = copy_of(s, i, false);
    return role->operand == 2 || dnn_reorder(&copy);
}

/* Destroys all of the contender's oneDNN objects. */
void onednn_conv_release(struct contender *c)
{
    struct conv_state *s = c->prepared;

    if (s->primitive)
        dnn.primitive_destroy(s->primitive);
    for (int i = 0; i < TENSORS; i++) {
        if (s->plain[i])
            dnn.memory_destroy(s->plain[i]);
        if (s->own[i])
            dnn.memory_destroy(s->own[i]);
    }
    if (s->pd)
        dnn.desc_destroy(s->pd);
    free_descriptors(s->md);
    free(s);
    c->prepared = NULL;
}

/* Sets up oneDNN's convolution primitive, in the caller's layouts or, if the peer's code says so,
 * in layouts of oneDNN's choice.  Returns false if oneDNN has none. */
bool onednn_conv_prepare(struct contender *c)
{
    const struct work *w = c->work;
    const bool any = c->peer->code[0] == DNN_ANY;
    struct conv_state *s = dnn.convolution ? calloc(1, sizeof *s) : NULL;
    void *wanted[TENSORS] = { NULL };
    bool ok;

    if (!s)
        return false;
    c->prepared = s;
    ok = describe_all(w, false, s->md) && describe_all(w, any, wanted) &&
         (s->pd = describe_conv(w, wanted)) && !dnn.primitive_create(&s->primitive, s->pd);
    for (int i = 0; ok && i < TENSORS; i++)
        ok = set_tensor(s, c, i, any);
    free_descriptors(wanted);
    if (!ok)
        onednn_conv_release(c);
    return ok;
}

/* Executes the convolution on arrays in oneDNN's layouts, or in the caller's where these are the
 * same. */
bool onednn_conv_run(struct contender *c)
{
    const struct conv_state *s = c->prepared;
    struct dnn_argument arguments[TENSORS];

    for (int i = 0; i < TENSORS; i++)
        arguments[i] = (struct dnn_argument){ roles[c->work->operation][i].argument,
                                              s->own[i] ? s->own[i] : s->plain[i] };
    if (dnn.execute(s->primitive, dnn.stream, TENSORS, arguments))
        return contender_set_state(c, STATE_failed, "oneDNN's primitive fails");
    dnn.stream_wait(dnn.stream);
    return true;
}

void onednn_conv_fetch(struct contender *c)
{
    const struct conv_state *s = c->prepared;

    for (int i = 0; i < TENSORS; i++) {
        const struct dnn_copy back = copy_of(s, i, true);

        if (s->own[i] && roles[c->work->operation][i].operand == 2 && !dnn_reorder(&back))
            contender_set_state(c, STATE_failed, "oneDNN cannot reorder its result");
    }
}
