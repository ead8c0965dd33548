/* SPDX-License-Identifier: BSD-3-Clause
 * Evaluates the operation `products`: exact sums, chains of fused multiply-adds, sums in the order
 * of tensor cores, and sums of simulated units. */
#include "backends/interp/eval.h"
#include "backends/interp/unit.h"

#include "ir/num/dot.h"

#include <math.h>
#include <string.h>

/* Unit `exact`: sums products of any two formats exactly in a long accumulator.  Returns false,
 * with an error, if memory runs out. */
static bool products_exact(struct eval *e, const struct node *n, struct val *v)
{
    limber_format fa = e->p->node[n->in[0]].type.format, fb = e->p->node[n->in[1]].type.format;
    const struct view *va = e->val[n->in[0]].view, *vb = e->val[n->in[1]].view;

    v->base = limber_dot_base(fa, fb);
    v->words = limber_dot_words(fa, fb, 62);
    v->word = alloc_array(e, e->c->m, e->c->n, v->words, sizeof *v->word);
    if (!v->word)
        return false;
    for (int64_t i = 0; i < e->c->m; i++)
        for (int64_t j = 0; j < e->c->n; j++) {
            struct limber_big sum = { v->word + (i * e->c->n + j) * v->words, v->words, v->base };

            limber_dot(&sum, va, fa, i, vb, fb, j, e->k);
        }
    return true;
}

/* Returns the sum of k products: a chain of fused multiply-adds from +0, in binary64 or, if
 * `is_f32`, in binary32. */
static double fma_chain(const double *a, const double *b, int64_t k, bool is_f32)
{
    double acc = 0;

    for (int64_t p = 0; p < k; p++)
        acc = is_f32 ? (double)fmaf((float)a[p], (float)b[p], (float)acc) : fma(a[p], b[p], acc);
    return acc;
}

/* Adds the sum of a chain to its total, in binary32 if `is_f32`.  The first sum becomes the total
 * unchanged, so that -0 stays -0. */
static void add_chain(double *total, double x, bool first, bool is_f32)
{
    *total = first ? x : is_f32 ? (double)((float)*total + (float)x) : *total + x;
}

/* True if row r is the first of the product table for its accumulator. */
static bool is_first(const struct node *products, size_t r)
{
    for (size_t i = 0; i < r; i++)
        if (products->row[i].acc == products->row[r].acc)
            return false;
    return true;
}

/* Returns the exact sum of k products of integers. */
static int64_t exact_chain(const double *a, const double *b, int64_t k)
{
    int64_t acc = 0;

    for (int64_t p = 0; p < k; p++)
        /* a digit in e4m3 may be scaled, but A's by 2^-3 and B's by 2^3, so each product is an
         * integer */
        acc += (int64_t)(a[p] * b[p]);
    return acc;
}

/* Evaluates products of the unit `model`: computes each element as the plan's simulated unit does.
 * Returns false, with an error, if memory runs out. */
static bool products_model(struct eval *e, const struct node *n, struct val *v)
{
    const struct val *a = &e->val[n->in[0]], *b = &e->val[n->in[1]];
    const limber_unit *u = e->p->model;
    limber_format f = limber_plan_find(e->p, OP_epilogue)->type.format;
    int64_t cols = e->c->n, k = e->k;

    v->total = alloc_array(e, e->c->m, cols, 1, sizeof *v->total);
    if (!v->total)
        return false;
    for (int64_t i = 0; i < e->c->m; i++)
        for (int64_t j = 0; j < cols; j++) {
            struct model_dot dot = { u, a->loaded + i * k, b->loaded + j * k, k, 0, e->c->seed, i,
                                     j, &e->c->out.counts };

            if (u->start_c)
                dot.start = limber_unit_start(
                    u, limber_format_value(f, limber_output_at(&e->out, i, j, f.size)));
            v->total[i * cols + j] = limber_interp_dot(&dot);
        }
    return true;
}

/* ---- sums of tensor cores -------------------------------------------------------------------- */

/* Returns the limbs of an operand as the simulated tensor core loads them, [limb][row or
 * column][p], owned by the caller.  Returns NULL if memory is short. */
static struct loaded *load_limbs(struct eval *e, const struct val *v, int limbs, limber_format f)
{
    int64_t count = limbs * v->lines * e->k;
    struct loaded *out = alloc_array(e, count, 1, 1, sizeof *out);

    for (int64_t i = 0; out && i < count; i++)
        out[i] = (struct loaded){ v->limb[i], limber_unit_exponent(f, v->limb[i]) };
    return out;
}

/* Operands of products that are summed in the order of a tensor core.  u: the simulated core. */
struct tensor {
    const struct node *n;
    const limber_unit *u;
    const struct loaded *a, *b;
    /* rows of A, columns of B, elements along k, and elements along k that one instruction
     * multiplies */
    int64_t lines_a, lines_b, k, step;
};

/* Returns d plus the products at positions [p, p + len) along k for one accumulator.  The rows
 * of the product table that belong to it take turns: each contributes `step` positions. */
static double tensor_chain(const struct tensor *t, int acc, int64_t i, int64_t j, int64_t p,
                           int64_t len, double d)
{
    for (int64_t q = p; q < p + len; q += t->step)
        for (size_t r = 0; r < t->n->rows; r++) {
            const struct row *row = &t->n->row[r];
            struct unit_counts ignored;
            struct model_dot dot = { t->u,
                                     t->a + (row->a * t->lines_a + i) * t->k + q,
                                     t->b + (row->b * t->lines_b + j) * t->k + q,
                                     p + len - q < t->step ? p + len - q : t->step,
                                     d,
                                     0,
                                     0,
                                     0,
                                     &ignored };

            if (row->acc == acc)
                d = limber_interp_dot(&dot);
        }
    return d;
}

/* Evaluates products in the order of a tensor core.  Accumulator 0 is added to its total after
 * every chunk of k.  With `joins` the other accumulators are added to the total, too, after
 * accumulator 0; without `joins` each of them sums over all of k.  Returns false, with an error, if
 * memory runs out. */
static bool products_tensor(struct eval *e, const struct node *n, const limber_unit *u,
                            struct val *v)
{
    const struct val *a = &e->val[n->in[0]], *b = &e->val[n->in[1]];
    struct loaded *la = load_limbs(e, a, e->p->node[n->in[0]].type.count, u->a.format);
    struct loaded *lb = load_limbs(e, b, e->p->node[n->in[1]].type.count, u->b.format);
    struct tensor t = { n,        u,        la,   lb,
                        a->lines, b->lines, e->k, 32 / e->p->node[n->in[0]].type.format.size };
    int64_t m = e->c->m, cols = e->c->n, k = e->k, chunk = limber_attr_number(n, ATTR_chunk);
    const bool joins = limber_node_has(n, ATTR_joins);

    v->total = alloc_array(e, n->type.count, m, cols, sizeof *v->total);
    for (int acc = 0; la && lb && v->total && acc < n->type.count; acc++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < cols; j++) {
                double *total = &v->total[(acc * m + i) * cols + j];

                if (acc)
                    *total = joins ? 0 : tensor_chain(&t, acc, i, j, 0, k, 0);
                for (int64_t p = 0; acc == 0 && p < k; p += chunk)
                    for (int q = 0; q < (joins ? n->type.count : 1); q++)
                        add_chain(total,
                                  tensor_chain(&t, q, i, j, p, k - p < chunk ? k - p : chunk, 0),
                                  p == 0 && q == 0, true);
            }
    free(la);
    free(lb);
    return la && lb && v->total;
}

/* Evaluates `products` by the unit that the node names.  Returns false if memory is short. */
bool limber_interp_products(struct eval *e, const struct node *n, struct val *v)
{
    const struct unit_info *unit = &limber_units[limber_attr_number(n, ATTR_unit)];
    struct val *a = &e->val[n->in[0]], *b = &e->val[n->in[1]];
    int64_t m = e->c->m, cols = e->c->n, k = e->k, chunk = limber_attr_number(n, ATTR_chunk);
    bool is_f32 = strcmp(unit->acc, "f32") == 0;
    bool exact = n->type.format.kind == LIMBER_KIND_INT;
    limber_unit model;

    v->scale_a = a->scale;
    v->scale_b = b->scale;
    if (limber_attr_number(n, ATTR_unit) == UNIT_exact)
        return products_exact(e, n, v);
    if (limber_attr_number(n, ATTR_unit) == UNIT_model)
        return products_model(e, n, v);
    if (!exact && limber_unit_of_sums(n, &model))
        return products_tensor(e, n, &model, v);
    if (exact)
        v->sum = alloc_array(e, n->type.count, m, cols, sizeof *v->sum);
    else
        v->total = alloc_array(e, n->type.count, m, cols, sizeof *v->total);
    if (!v->sum && !v->total)
        return false;
    for (size_t r = 0; r < n->rows; r++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < cols; j++) {
                const double *pa = limb_at(e, a, n->row[r].a, i, 0);
                const double *pb = limb_at(e, b, n->row[r].b, j, 0);
                int64_t at = (n->row[r].acc * m + i) * cols + j;

                for (int64_t p = 0; p < k; p += chunk) {
                    int64_t len = k - p < chunk ? k - p : chunk;

                    if (exact)
                        v->sum[at] += exact_chain(pa + p, pb + p, len);
                    else
                        add_chain(&v->total[at], fma_chain(pa + p, pb + p, len, is_f32),
                                  p == 0 && is_first(n, r), is_f32);
                }
            }
    return true;
}
