/* SPDX-License-Identifier: BSD-3-Clause
 * Batches of GEMMs: groups of products that share a shape. */
#include "blas.h"

#include <string.h>

/* Returns the letter of group i's transposition. */
static char op_at(const struct request *r, const void *ops, int64_t i)
{
    static const char letters[] = "NTC";
    int op;

    if (!r->cblas)
        return limber_blas_letter((const char *)ops + i);
    op = ((const int *)ops)[i];
    return op >= 111 && op <= 113 ? letters[op - 111] : 0;
}

/* Returns the address of group i's alpha or beta. */
static const void *scalar_at(const struct request *r, const void *scalars, int64_t i)
{
    size_t size = r->type == 's' ? 4 : r->type == 'z' ? 16 : 8;

    return (const char *)scalars + (size_t)i * size;
}

/* Sets the request to group i.  `first` is the index of the group's first matrices in the arrays of
 * addresses. */
static void set_group(struct request *r, const struct groups *g, int64_t i, int64_t first)
{
    bool wide = r->wide;

    r->m = limber_blas_integer(g->m, i, wide);
    r->n = limber_blas_integer(g->n, i, wide);
    r->k = limber_blas_integer(g->k, i, wide);
    r->alpha = scalar_at(r, g->alpha, i);
    r->beta = scalar_at(r, g->beta, i);
    r->a = (struct argument){ g->a, op_at(r, g->ta, i), limber_blas_integer(g->lda, i, wide) };
    r->b = (struct argument){ g->b, op_at(r, g->tb, i), limber_blas_integer(g->ldb, i, wide) };
    r->c = (struct argument){ g->c, 'N', limber_blas_integer(g->ldc, i, wide) };
    if (!g->size)
        return;
    r->batch.count = limber_blas_integer(g->size, i, wide);
    r->batch.each_a = (const void *const *)g->a + first;
    r->batch.each_b = (const void *const *)g->b + first;
    r->batch.each_c = (void *const *)g->c + first;
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

/* Returns the position of the group's first wrong argument in the batch routine; 0 if all are
 * valid. */
static int first_wrong_of_group(const struct request *r, const struct groups *g)
{
    int wrong = limber_blas_first_bad_argument(r);

    if (g->size)
        return wrong ? wrong : r->batch.count < 0 ? 15 : 0;
    if (wrong)
        return wrong < 10 ? wrong : wrong == 10 ? 11 : 15;
    return r->batch.step_a < 0 ? 9 :
           r->batch.step_b < 0 ? 12 :
           r->batch.step_c < 0 ? 16 :
           r->batch.count < 0  ? 17 :
                                 0;
}

/* Returns the position of the first wrong argument of any group; 0 if all are valid. */
static int first_wrong(struct request *r, const struct groups *g)
{
    int wrong = g->count < 0 ? 14 : 0;

    for (int64_t i = 0; i < g->count && !wrong; i++) {
        set_group(r, g, i, 0);
        wrong = first_wrong_of_group(r, g);
    }
    return wrong;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static const void *element_at(const void *base, int64_t i, size_t size)
{
    return (const char *)base + (size_t)i * size;
}

/* Passes r->count products of group i, starting at product `first`, to the BLAS function `behind`,
 * as a batch with one group.  Without g->size the batch has strides instead of lists of matrices,
 * and its matrices are passed unchanged. */
static void forward_part(const struct request *r, const struct groups *g, int64_t i, int64_t first,
                         limber_blas_part *hand_on, void *behind)
{
    size_t integer = r->wide ? 8 : 4, op = r->cblas ? sizeof(int) : 1;
    struct groups part = *g;

    part.ta = element_at(g->ta, i, op);
    part.tb = element_at(g->tb, i, op);
    part.m = element_at(g->m, i, integer);
    part.n = element_at(g->n, i, integer);
    part.k = element_at(g->k, i, integer);
    part.alpha = scalar_at(r, g->alpha, i);
    part.beta = scalar_at(r, g->beta, i);
    part.lda = element_at(g->lda, i, integer);
    part.ldb = element_at(g->ldb, i, integer);
    part.ldc = element_at(g->ldc, i, integer);
    part.count = 1;
    if (g->size) {
        part.a = element_at(g->a, first, sizeof(void *));
        part.b = element_at(g->b, first, sizeof(void *));
        part.c = element_at(g->c, first, sizeof(void *));
        /* a 32-bit integer is the lower half of a 64-bit one, which comes first in little-endian
         * memory */
        part.size = &r->batch.count;
    }
    hand_on(r, &part, behind);
}

/* Computes the products of r, which belong to group i, or forwards them. */
static void serve_part(struct request *r, const struct groups *g, int64_t i, int64_t first,
                       limber_blas_part *hand_on)
{
    void *behind;

    if (limber_blas_serve(r))
        return;
    behind = limber_blas_real(r->name, r->caller, true);
    if (behind)
        forward_part(r, g, i, first, hand_on, behind);
    else
        limber_blas_serve_without_blas(r);
    limber_blas_end(r);
}

/* Computes or forwards each complex product of group i as a call of its own. */
static void serve_one_by_one(struct request *r, const struct groups *g, int64_t i, int64_t first,
                             limber_blas_part *hand_on)
{
    int64_t count = r->batch.count;
    size_t size = r->type == 'c' ? 8 : 16;
    struct request one = *r;

    one.batch.count = 1;
    for (int64_t p = 0; p < count; p++) {
        if (g->size) {
            one.a.data = *(one.batch.each_a = r->batch.each_a + p);
            one.b.data = *(one.batch.each_b = r->batch.each_b + p);
            one.c.data = *(one.batch.each_c = r->batch.each_c + p);
        } else {
            one.a.data = element_at(r->a.data, p * r->batch.step_a, size);
            one.b.data = element_at(r->b.data, p * r->batch.step_b, size);
            one.c.data = element_at(r->c.data, p * r->batch.step_c, size);
        }
        serve_part(&one, g, i, first + p, hand_on);
    }
}

/* Computes each group of a batch by Limber, or forwards it.  A batch with a wrong argument is
 * forwarded as a whole, or reported if there is no other BLAS. */
void limber_blas_batch(struct request *r, const struct groups *g, limber_blas_part *hand_on)
{
    int wrong = limber_blas_first_bad_argument(r) == -1 ? -1 : first_wrong(r, g);
    void *behind =
        wrong || limber_blas_is_inside() ? limber_blas_real(r->name, r->caller, true) : NULL;
    int64_t first = 0;

    if (behind) {
        hand_on(r, g, behind);
        return;
    }
    if (wrong) {
        limber_blas_report_wrong_argument(r, wrong);
        return;
    }
    for (int64_t i = 0; i < g->count; i++) {
        set_group(r, g, i, first);
        if (r->type == 's' || r->type == 'd')
            serve_part(r, g, i, first, hand_on);
        else
            serve_one_by_one(r, g, i, first, hand_on);
        first += r->batch.count;
    }
}
