/* SPDX-License-Identifier: BSD-3-Clause
 * Convolution becomes an implicit GEMM.
 *
 *   needs   conv2d %x %w
 *   leaves  gemm of filters(%w): m x k and patches(%x): k x n, seen through index maps; the
 *           m x n result is written through the map `image`.  Nothing is copied.
 *           m = output channels of a group, k = (c/groups) r s, n = images oh ow.
 *           Where threads share memory in blocks k runs window by window (order=rsc): a pixel's
 *           channels lie together, and tiles are fetched from the image's own limbs.
 *   source  implicit GEMM: Chetlur et al., cuDNN, arXiv 1410.0759, section 3 */
#include "passes/passes.h"

static struct type matrix(limber_format f, char rows, char cols)
{
    return (struct type){ .format = f, .rank = 2, .dim = { -rows, -cols }, .count = 1 };
}

static bool copy_lists(struct plan *p, struct node *to, const struct node *from, struct diag *d)
{
    static const enum attr lists[] = { ATTR_stride, ATTR_pad, ATTR_dilate };

    for (size_t i = 0; i < COUNT(lists); i++)
        if (!limber_node_list(p, to, lists[i], from->list[lists[i]].v, from->list[lists[i]].n))
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory");
    return true;
}

/* Simulated units take products in the order of the definition. */
static void set_order(struct plan *p, struct node *filters, struct node *patches,
                      const struct target *t)
{
    if (!t->shared || p->model)
        return;
    limber_node_set(filters, ATTR_order, ORDER_rsc);
    limber_node_set(patches, ATTR_order, ORDER_rsc);
}

/* The epilogue computes on m x n and its value becomes an image. */
static bool finish(struct plan *p, int conv, int gemm, int64_t layout, struct diag *d)
{
    struct node *out = limber_plan_find(p, OP_epilogue);
    int image;
    struct type t, flat;

    if (!out)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "conv_to_gemm: a plan without epilogue");
    for (size_t i = 0; i < p->nodes; i++)
        for (int j = 0; j < p->node[i].nin; j++)
            if (p->node[i].in[j] == conv)
                p->node[i].in[j] = gemm;
    t = out->type;
    flat = matrix(t.format, 'm', 'n');
    out->type = flat;
    if (out->nin == 2)
        p->node[out->in[1]].type = flat;
    image = limber_plan_add(p, OP_image, NULL, (int)(out - p->node), -1, t);
    if (image < 0)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory");
    limber_node_set(&p->node[image], ATTR_layout, layout);
    p->ret = image;
    return true;
}

bool limber_pass_conv_to_gemm(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *conv = limber_plan_find(p, OP_conv2d);
    int c, x, w, patches, filters, gemm;
    int64_t layout;

    if (!conv)
        return true;
    c = (int)(conv - p->node);
    x = conv->in[0];
    w = conv->in[1];
    layout = conv->num[ATTR_layout];
    filters = limber_plan_add(p, OP_filters, NULL, w, -1, matrix(p->node[w].type.format, 'm', 'k'));
    patches = limber_plan_add(p, OP_patches, NULL, x, -1, matrix(p->node[x].type.format, 'k', 'n'));
    if (filters < 0 || patches < 0)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory");
    limber_node_set(&p->node[filters], ATTR_layout, layout);
    limber_node_set(&p->node[patches], ATTR_layout, layout);
    set_order(p, &p->node[filters], &p->node[patches], t);
    if (!copy_lists(p, &p->node[patches], &p->node[c], d))
        return false;
    gemm = limber_plan_add(p, OP_gemm, NULL, filters, patches,
                           matrix(p->node[c].type.format, 'm', 'n'));
    if (gemm < 0)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory");
    return finish(p, c, gemm, layout, d) &&
           (limber_plan_sweep(p) ||
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory"));
}
