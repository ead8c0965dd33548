/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `conv_to_gemm`: a convolution becomes an implicit GEMM.
 *
 *   needs   conv %x %w
 *   leaves  a gemm of filters(%w), m x k, and patches(%x), k x n, which are read through index
 *           maps.  The m x n result is written through the map `image`.  Nothing is copied.
 *           m = output channels of a group, k = (c/groups) (t) r s, n = images (od) oh ow.
 *           Backward convolutions: see ir/conv.h.
 *           On a GPU, all channels of a window's position are adjacent along k (order=rsc), so that
 *           tiles can be fetched from the limbs of the image itself.
 *   source  implicit GEMM: Chetlur et al., cuDNN, arXiv 1410.0759, section 3 */
#include "ir/conv.h"
#include "passes/passes.h"

/* Returns the type of a matrix with these dimensions. */
static struct type matrix_type(limber_format f, char rows, char cols)
{
    return (struct type){ .format = f, .rank = 2, .dim = { -rows, -cols }, .count = 1 };
}

/* Reports that memory ran out, and returns false. */
static bool no_memory(struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "conv_to_gemm: out of memory");
}

/* Gives the epilogue an m x n result, and adds a node that maps this matrix to an image. */
static bool map_result_to_image(struct plan *p, int conv, int gemm, const struct conv_geometry *g,
                                struct diag *d)
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
    flat = matrix_type(t.format, 'm', 'n');
    out->type = flat;
    if (out->nin == 2)
        p->node[out->in[1]].type = flat;
    image = limber_plan_add(p, OP_image, NULL, (int)(out - p->node), -1, t);
    if (image < 0 || !limber_conv_write(p, &p->node[image], g))
        return no_memory(d);
    p->ret = image;
    return true;
}

/* Replaces a convolution by the product of filters and im2col matrix, and maps the product's
 * result to the image. */
bool limber_pass_conv_to_gemm(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *conv = limber_plan_find(p, OP_conv);
    struct conv_geometry geometry;
    int c, x, w, patches, filters, gemm;

    if (!conv)
        return true;
    c = (int)(conv - p->node);
    x = conv->in[0];
    w = conv->in[1];
    limber_conv_read(conv, &geometry);
    /* on devices channels vary fastest along k, unless a simulated unit or the contract
     * `reproducible` fixes the order of products */
    if (t->blocks && !p->model && geometry.direction == DIRECTION_forward &&
        p->promise != LIMBER_CONTRACT_REPRODUCIBLE)
        geometry.order = ORDER_rsc;
    filters =
        limber_plan_add(p, OP_filters, NULL, w, -1, matrix_type(p->node[w].type.format, 'm', 'k'));
    patches =
        limber_plan_add(p, OP_patches, NULL, x, -1, matrix_type(p->node[x].type.format, 'k', 'n'));
    if (filters < 0 || patches < 0 || !limber_conv_write(p, &p->node[filters], &geometry) ||
        !limber_conv_write(p, &p->node[patches], &geometry))
        return no_memory(d);
    gemm = limber_plan_add(p, OP_gemm, NULL, filters, patches,
                           matrix_type(p->node[c].type.format, 'm', 'n'));
    if (gemm < 0)
        return no_memory(d);
    return map_result_to_image(p, c, gemm, &geometry, d) && (limber_plan_sweep(p) || no_memory(d));
}
