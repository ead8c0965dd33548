/* SPDX-License-Identifier: BSD-3-Clause
 * oneDNN's convolutions as peers, forward and both gradients: on plain tensors, and in oneDNN's
 * preferred layouts, into which operands are reordered before the timing. */
#include "tools/bench/onednn.h"

#include <stdlib.h>

enum tensor_of { IMAGE, FILTERS, OUTPUT, TENSORS };
enum { MOST_DIMS = 5 };

/* Names of each operation's tensors in oneDNN, and the operand (A, B, C) that each is. */
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

/* oneDNN's convolution of one shape, with tensors in layouts that it chose. */
struct conv_state {
    void *pd, *primitive;
    void *md[TENSORS], *plain[TENSORS]; /* descriptors and memories of the caller's plain tensors */
    const void *own_md[TENSORS]; /* descriptors of the primitive's layouts; NULL: the plain one */
    void *own[TENSORS];
};

static int type_of(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT ? DNN_F32 :
           f.size == 4                 ? DNN_S32 :
           f.kind == LIMBER_KIND_UINT  ? DNN_U8 :
                                         DNN_S8;
}

/* Memory descriptor of a tensor; NULL: oneDNN cannot describe it. */
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

/* Describes all tensors. any: oneDNN chooses their layouts. */
static bool describe_all(const struct work *w, bool any, void *md[TENSORS])
{
    bool ok = true;

    for (int i = 0; i < TENSORS; i++)
        ok = (md[i] = describe(w, (enum tensor_of)i, any)) && ok;
    return ok;
}

static void free_all(void *md[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        if (md[i])
            dnn.md_destroy(md[i]);
}

/* Creates the primitive's descriptor; backward ones need a forward descriptor as a hint. */
static void *describe_conv(const struct work *w, void *const md[TENSORS])
{
    const limber_conv *s = &w->conv;
    const int first = s->t ? 0 : 1; /* the depth comes first */
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

/* The copy of tensor i to oneDNN's layout, or back from it. */
static struct dnn_copy copy_of(const struct conv_state *s, int i, bool back)
{
    const struct dnn_copy to = { s->md[i], s->own_md[i], s->plain[i], s->own[i] };

    return back ? (struct dnn_copy){ to.to_md, to.from_md, to.to, to.from } : to;
}

/* Creates the memories of a tensor and reorders an operand into the primitive's layout. */
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
    free_all(s->md);
    free(s);
    c->prepared = NULL;
}

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
    free_all(wanted);
    if (!ok)
        onednn_conv_release(c);
    return ok;
}

bool onednn_conv_run(struct contender *c)
{
    const struct conv_state *s = c->prepared;
    struct dnn_argument arguments[TENSORS];

    for (int i = 0; i < TENSORS; i++)
        arguments[i] = (struct dnn_argument){ roles[c->work->operation][i].argument,
                                              s->own[i] ? s->own[i] : s->plain[i] };
    if (dnn.execute(s->primitive, dnn.stream, TENSORS, arguments))
        return contender_stop(c, STATE_failed, "oneDNN's primitive fails");
    dnn.stream_wait(dnn.stream);
    return true;
}

void onednn_conv_fetch(struct contender *c)
{
    const struct conv_state *s = c->prepared;

    for (int i = 0; i < TENSORS; i++) {
        const struct dnn_copy back = copy_of(s, i, true);

        if (s->own[i] && roles[c->work->operation][i].operand == 2 && !dnn_reorder(&back))
            contender_stop(c, STATE_failed, "oneDNN cannot reorder its result");
    }
}
