/* SPDX-License-Identifier: BSD-3-Clause
 * Evaluates each operation of a plan as docs/ir.md defines it: complete matrices, one element at a
 * time, in the order that docs/ir.md states.  Written to be obviously right, not fast. */
#include "backends/interp/eval.h"
#include "backends/interp/unit.h"
#include "backends/served.h"

#include "ir/num/crt.h"
#include "ir/num/digits.h"
#include "ir/num/dot.h"
#include "ir/unit/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Evaluates `arg`: makes the view of an operand, with elements in the plan's order along k.  Always
 * returns true. */
static bool eval_arg(struct eval *e, const struct node *n, struct val *v)
{
    int64_t index = limber_attr_number(n, ATTR_index);

    v->view = &e->view[index == 0 ? 0 : 1];
    v->lines = index == 0 ? e->c->m : e->c->n;
    return true;
}

/* Evaluates `filters` (side 0) or `patches` (side 1): a view of the convolution's tensor as a
 * matrix, which set_maps has made.  Always returns true. */
static bool eval_map(struct eval *e, int side, struct val *v)
{
    v->view = &e->view[side];
    v->lines = side ? e->c->n : e->c->m;
    return true;
}

/* Evaluates `patches`: B, whose columns are windows of an image.  Always returns true. */
static bool eval_patches(struct eval *e, const struct node *n, struct val *v)
{
    (void)n;
    return eval_map(e, 1, v);
}

/* Evaluates `filters`: A, whose rows are filters.  Always returns true. */
static bool eval_filters(struct eval *e, const struct node *n, struct val *v)
{
    (void)n;
    return eval_map(e, 0, v);
}

/* Evaluates `image`: the result, whose elements lie in the tensor as pixels.  Always returns true.
 */
static bool eval_image(struct eval *e, const struct node *n, struct val *v)
{
    /* nothing to do: the epilogue has stored its results through the image's map */
    (void)e, (void)n, (void)v;
    return true;
}

/* Evaluates `gemm`: fails, since the passes replace every gemm and conv by limb products before
 * a plan is evaluated. */
static bool eval_gemm(struct eval *e, const struct node *n, struct val *v)
{
    (void)v;
    return limber_fail(e->d, LIMBER_STATUS_INTERNAL, "interp: %%%s was not split", n->name);
}

/* Evaluates `conv`: fails, since the passes turn every conv into a product before a plan is
 * evaluated. */
static bool eval_conv(struct eval *e, const struct node *n, struct val *v)
{
    return eval_gemm(e, n, v);
}

/* ---- limbs of operands ----------------------------------------------------------------------- */

/* Returns the format with a name that is known to exist. */
static limber_format format_named(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

/* Returns an operand's element as a double; 0 if it is padding. */
static double element_value(const struct view *v, limber_format f, int64_t line, int64_t p)
{
    const char *at = limber_view_at(v, line, p, f.size);

    return at ? limber_format_value(f, at) : 0;
}

/* Returns floor(log2 |x|) of the largest finite element of a line (row of A or column of B);
 * INT32_MIN if all are zero. */
static int line_emax(const struct view *v, limber_format f, int64_t line, int64_t k)
{
    int most = INT32_MIN;

    for (int64_t p = 0; p < k; p++) {
        const char *at = limber_view_at(v, line, p, f.size);
        struct limber_num x[2];
        int e;

        if (!at)
            continue;
        limber_parts(x, f, at);
        if (x[0].kind != NUM_finite)
            continue;
        e = x[0].exp + (x[0].hi ? 127 - __builtin_clzll(x[0].hi) : 63 - __builtin_clzll(x[0].lo));
        most = e > most ? e : most;
    }
    return most;
}

/* Returns the largest exponent of a block of lines (rows of A or columns of B), over all tiles that
 * the product reads.  It replaces the exponents of single lines if a product reads only some tiles,
 * since scans know exponents by tile, but not by line and tile. */
static int block_emax(const struct view *v, limber_format f, int64_t line, int64_t lines, int64_t k)
{
    int64_t from = line / LIMBER_BLOCK * LIMBER_BLOCK, to = from + LIMBER_BLOCK;
    int most = INT32_MIN;

    for (int64_t i = from; i < to && i < lines; i++) {
        int e = line_emax(v, f, i, k);

        most = e > most ? e : most;
    }
    return most;
}

/* Sets for each line (row of A or column of B) the exponent of the scale that brings its largest
 * element below 2^top.  With axis=all every line gets the scale of the largest element of all
 * lines; with axis=none all exponents are 0.  Returns false, with an error, if memory runs out. */
static bool scale_lines(struct eval *e, const struct node *n, struct val *v, limber_format f,
                        int top)
{
    int64_t axis = limber_attr_number(n, ATTR_axis);
    bool tiles = v->view->tile_subset && v->view->tile_subset->tile;
    int all = INT32_MIN, most = INT32_MIN;

    v->scale = alloc_array(e, v->lines, 1, 1, sizeof *v->scale);
    if (!v->scale || axis == AXIS_none)
        return v->scale != NULL;
    for (int64_t i = 0; i < v->lines; i++) {
        if (!tiles)
            most = line_emax(v->view, f, i, e->k);
        else if (i % LIMBER_BLOCK == 0)
            most = block_emax(v->view, f, i, v->lines, e->k);
        v->scale[i] = most == INT32_MIN ? 0 : top - 1 - most;
        all = most > all ? most : all;
    }
    for (int64_t i = 0; i < v->lines && axis == AXIS_all; i++)
        v->scale[i] = all == INT32_MIN ? 0 : top - 1 - all;
    return true;
}

/* Sets the view, lines, memory and scales of a node whose value consists of limbs.  *f: set to the
 * operand's format.  Returns false, with an error, if memory runs out. */
static bool start_limbs(struct eval *e, const struct node *n, struct val *v, limber_format *f,
                        int top)
{
    const struct val *in = &e->val[n->in[0]];

    *f = e->p->node[n->in[0]].type.format;
    v->view = in->view;
    v->lines = in->lines;
    v->limb = alloc_array(e, n->type.count, v->lines, e->k, sizeof *v->limb);
    return v->limb && scale_lines(e, n, v, *f, top);
}

/* Evaluates `whole`: the only limb is the unchanged operand.  Returns false, with an error, if
 * memory runs out. */
static bool eval_whole(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, 0))
        return false;
    /* formats that double cannot hold are read from the operand by unit `exact`, so no limb is
     * stored */
    if (limber_format_equal(f, n->type.format) && !limber_format_embeds(f, format_named("f64")))
        return true;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++)
            *limb_at(e, v, 0, i, p) = element_value(v->view, f, i, p);
    return true;
}

/* Evaluates `hilo`: each limb is the remainder after the earlier limbs, scaled and rounded to the
 * unit's format.  Returns false, with an error, if memory runs out. */
static bool eval_hilo(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_attr_number(n, ATTR_top)))
        return false;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            double rest = element_value(v->view, f, i, p);

            rest = isfinite(rest) ? ldexp(rest, v->scale[i]) : 0;
            for (int l = 0; l < n->type.count; l++) {
                double x = limber_format_round(n->type.format, rest);

                *limb_at(e, v, l, i, p) = x;
                rest = ldexp(rest - x, (int)limber_attr_number(n, ATTR_shift));
            }
        }
    return true;
}

/* Stores in w element (line, p) times the line's scale as an integer in two's complement: truncated
 * or, if `nearest`, rounded to nearest. */
static void scaled_integer(const struct val *v, limber_format f, int64_t line, int64_t p,
                           bool nearest, uint64_t w[LIMBER_WIDE])
{
    const char *at = limber_view_at(v->view, line, p, f.size);

    memset(w, 0, LIMBER_WIDE * sizeof *w);
    if (at)
        limber_fix(w, f, at, v->scale[line], nearest);
}

/* Evaluates `slices`: limbs are digits of scaled integers (Ozaki I).  Returns false, with an error,
 * if memory runs out. */
static bool eval_slices(struct eval *e, const struct node *n, struct val *v)
{
    int64_t sign = limber_attr_number(n, ATTR_sign);
    int step = (int)limber_attr_number(n, ATTR_step), count = n->type.count;
    bool balanced = sign == SIGN_balanced;
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_attr_number(n, ATTR_bits)))
        return false;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            uint64_t w[LIMBER_WIDE];

            scaled_integer(v, f, i, p, balanced, w);
            if (balanced)
                limber_balance(w, count, step);
            for (int l = 0; l < count; l++)
                *limb_at(e, v, l, i, p) = balanced ?
                                              limber_balanced_slice(w, l, count, step) :
                                              limber_slice(w, l, count, step, sign == SIGN_signed);
        }
    return true;
}

/* Returns w modulo m, in [0, m).  w is an integer in two's complement. */
static int residue_modulo(const uint64_t w[LIMBER_WIDE], int m)
{
    int64_t r = (int64_t)w[LIMBER_WIDE - 1] % m;

    for (int i = LIMBER_WIDE - 1; i-- > 0;)
        for (int h = 3; h >= 0; h--)
            r = (r * 65536 + (int64_t)(w[i] >> 16 * h & 0xffff)) % m;
    return (int)(r < 0 ? r + m : r);
}

/* Makes limbs of residues in e4m3: each residue is split into digits, and each digit is a limb.
 * Returns false, with an error, if memory runs out. */
static bool eval_digits(struct eval *e, const struct node *n, struct val *v, limber_format f)
{
    const struct dims_list *moduli = limber_attr_list(n, ATTR_moduli);
    int side = limber_plan_find(e->p, OP_products)->in[1] == (int)(n - e->p->node), count;
    double digit[LIMBER_RESIDUES][LIMBER_DIGITS];

    for (int l = 0; l < n->type.count; l += count) {
        int m = (int)moduli->v[l];

        for (count = 1; l + count < n->type.count && moduli->v[l + count] == m;)
            count++;
        limber_digits_fill(limber_digits_of(m, count), side, digit);
        for (int64_t i = 0; i < v->lines; i++)
            for (int64_t p = 0; p < e->k; p++) {
                uint64_t w[LIMBER_WIDE];
                int r;

                scaled_integer(v, f, i, p, false, w);
                r = residue_modulo(w, m);
                for (int x = 0; x < count; x++)
                    *limb_at(e, v, l + x, i, p) = digit[r][x];
            }
    }
    return true;
}

/* Evaluates `residues`: limbs are scaled integers modulo each of several moduli (Ozaki II).
 * Returns false, with an error, if memory runs out. */
static bool eval_residues(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_attr_number(n, ATTR_bits)))
        return false;
    if (limber_format_equal(n->type.format, format_named("e4m3")))
        return eval_digits(e, n, v, f);
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            uint64_t w[LIMBER_WIDE];

            scaled_integer(v, f, i, p, false, w);
            for (int l = 0; l < n->type.count; l++) {
                int m = (int)limber_attr_list(n, ATTR_moduli)->v[l], r = residue_modulo(w, m);

                *limb_at(e, v, l, i, p) = limber_attr_number(n, ATTR_sign) == SIGN_unsigned ?
                                              r :
                                              limber_symmetric((uint32_t)r, (uint32_t)m);
            }
        }
    return true;
}

/* Evaluates `quantize`: rounds elements to the format in which the simulated unit loads them.  For
 * products of unit f64, the rounded elements are also the only limb.  Returns false, with an error,
 * if memory runs out. */
static bool eval_quantize(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f = e->p->node[n->in[0]].type.format;
    const struct node *products = limber_plan_find(e->p, OP_products);
    const bool limbs = products && limber_attr_number(products, ATTR_unit) != UNIT_model;
    double *line = alloc_array(e, e->k, 1, 1, sizeof *line);

    v->view = e->val[n->in[0]].view;
    v->lines = e->val[n->in[0]].lines;
    v->loaded = alloc_array(e, v->lines, e->k, 1, sizeof *v->loaded);
    v->scale = alloc_array(e, v->lines, 1, 1, sizeof *v->scale);
    for (int64_t i = 0; line && v->loaded && v->scale && i < v->lines; i++) {
        for (int64_t p = 0; p < e->k; p++)
            line[p] = element_value(v->view, f, i, p);
        limber_unit_load(e->p->model, limber_attr_number(n, ATTR_axis) == AXIS_col, line, e->k,
                         v->loaded + i * e->k);
    }
    free(line);
    if (!line || !v->loaded || !v->scale || !limbs)
        return line && v->loaded && v->scale;
    v->limb = alloc_array(e, v->lines, e->k, 1, sizeof *v->limb);
    for (int64_t i = 0; v->limb && i < v->lines * e->k; i++)
        v->limb[i] = v->loaded[i].value;
    return v->limb;
}

/* Evaluates `products`: the sums of the product table.  Returns false, with an error, if that
 * fails. */
static bool eval_products(struct eval *e, const struct node *n, struct val *v)
{
    return limber_interp_products(e, n, v);
}

/* ---- sums from products of limbs ------------------------------------------------------------- */

/* Returns the exponent of an accumulator's weight, which is a power of two. */
static int weight_of(const struct node *products, int acc)
{
    for (size_t i = 0; i < products->rows; i++)
        if (products->row[i].acc == acc)
            return products->row[i].weight;
    return 0;
}

/* Reconstruction `sum`: adds an element's weighted accumulators in binary64, and removes the scales
 * of its row and column. */
static void combine_sum(struct eval *e, const struct node *products, const struct val *s,
                        struct val *v, int64_t at, int64_t i, int64_t j)
{
    int64_t size = e->c->m * e->c->n;
    int last = products->type.count - 1;
    double x = 0;

    for (int acc = last; acc >= 0; acc--) { /* from the last accumulator, whose sums are smallest */
        double t = ldexp(s->total[acc * size + at], weight_of(products, acc));

        x = acc == last ? t : x + t;
    }
    v->total[at] = ldexp(x, -(s->scale_a[i] + s->scale_b[j]));
}

/* Reconstruction `shift`: adds an element's accumulators, each shifted by its weight, as an
 * integer. */
static void combine_shift(struct eval *e, const struct node *products, const struct val *s,
                          struct val *v, int64_t at)
{
    int64_t size = e->c->m * e->c->n, column[64] = { 0 };

    for (int acc = 0; acc < products->type.count; acc++)
        limber_columns_add(column, 1, s->sum[acc * size + at], weight_of(products, acc));
    limber_columns_words(column, 1, 64, v->word + at * v->words, v->words);
}

/* Reconstruction `crt`: computes an element's integer from its residues (ir/num/crt.h). */
static void combine_crt(struct eval *e, const struct limber_crt *t, const struct val *s,
                        struct val *v, int64_t at)
{
    int64_t size = e->c->m * e->c->n, column[LIMBER_CRT_DIGITS + 2] = { 0 }, q;
    double share = 0;

    for (int l = 0; l < t->count; l++) {
        int64_t r = s->sum[l * size + at] % t->modulus[l], c;

        c = (r + t->modulus[l]) * t->inverse[l] % t->modulus[l];
        share += (double)c / t->modulus[l];
        for (int i = 0; i < t->digits; i++)
            column[i] += c * (int64_t)t->cofactor[l][i];
    }
    q = (int64_t)rint(share);
    for (int i = 0; i < t->digits; i++)
        column[i] -= q * (int64_t)t->product[i];
    limber_columns_words(column, 1, t->digits, v->word + at * v->words, v->words);
}

/* Evaluates `combine`: turns each element's accumulators into one exact integer or one float.
 * Returns false with an error if that fails. */
static bool eval_combine(struct eval *e, const struct node *n, struct val *v)
{
    const struct node *products = &e->p->node[n->in[0]];
    const struct val *s = &e->val[n->in[0]];
    int64_t m = e->c->m, cols = e->c->n, reconstruct = limber_attr_number(n, ATTR_reconstruct);
    struct limber_crt crt;

    v->scale_a = s->scale_a;
    v->scale_b = s->scale_b;
    if (limber_attr_number(products, ATTR_unit) == UNIT_exact) {
        v->words = s->words;
        v->base = s->base;
        v->word = alloc_array(e, m, cols, v->words, sizeof *v->word);
        if (v->word)
            memcpy(v->word, s->word, (size_t)(m * cols * v->words) * sizeof *v->word);
        return v->word != NULL;
    }
    if (reconstruct == RECONSTRUCT_crt &&
        !limber_crt_init(&crt, limber_attr_list(n, ATTR_moduli)->v,
                         limber_attr_list(n, ATTR_moduli)->n))
        return limber_fail(e->d, LIMBER_STATUS_INTERNAL, "%%%s: bad moduli", n->name);
    v->words = reconstruct == RECONSTRUCT_crt ? (crt.digits + 1) / 2 : 32;
    if (reconstruct == RECONSTRUCT_sum)
        v->total = alloc_array(e, m, cols, 1, sizeof *v->total);
    else
        v->word = alloc_array(e, m, cols, v->words, sizeof *v->word);
    if (!v->total && !v->word)
        return false;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < cols; j++)
            if (reconstruct == RECONSTRUCT_sum)
                combine_sum(e, products, s, v, i * cols + j, i, j);
            else if (reconstruct == RECONSTRUCT_shift)
                combine_shift(e, products, s, v, i * cols + j);
            else
                combine_crt(e, &crt, s, v, i * cols + j);
    return true;
}

/* ---- elements of C --------------------------------------------------------------------------- */

/* Returns the value of a sum with NaN or infinite terms.  Finite values do not affect it. */
static double special_sum(const struct eval *e, limber_format fa, limber_format fb, int64_t i,
                          int64_t j)
{
    double x = 0;

    for (int64_t p = 0; p < e->c->k; p++) {
        const char *pa = limber_view_at(&e->operand[0], i, p, fa.size);
        const char *pb = limber_view_at(&e->operand[1], j, p, fb.size);
        struct limber_num a[2], b[2];

        limber_num_of_class(&a[0], 0);
        limber_num_of_class(&b[0], 0);
        if (pa)
            limber_parts(a, fa, pa);
        if (pb)
            limber_parts(b, fb, pb);
        x += limber_num_class(&a[0]) * limber_num_class(&b[0]);
    }
    return x;
}

/* True if row i of A or column j of B has NaN or infinite elements. */
static bool has_special_terms(const struct call *c, int64_t i, int64_t j)
{
    return (c->mask_a && c->mask_a->line_special && c->mask_a->line_special[i]) ||
           (c->mask_b && c->mask_b->line_special && c->mask_b->line_special[j]);
}

/* Inputs of the code that stores results: formats of A, B and C, the scalars (also as doubles),
 * and the plan's attribute `uncertain` (log2 of the error bound). */
struct results {
    limber_format a, b, f;
    struct limber_scalars sc;
    double alpha, beta;
    bool is_uncertain;
    int uncertain;
    /* chains with an error bound: Euclidean norms of [0: rows of A, 1: columns of B], owned */
    double *norm[2];
};

/* Stores one correctly rounded result, summed exactly from the operands.  Returns false if memory
 * is short. */
static bool store_exact(struct eval *e, const struct results *r, int64_t i, int64_t j)
{
    struct limber_big sum = { NULL, limber_dot_words(r->a, r->b, 62), limber_dot_base(r->a, r->b) };

    sum.w = alloc_array(e, sum.n, 1, 1, sizeof *sum.w);
    if (!sum.w)
        return false;
    limber_dot(&sum, &e->operand[0], r->a, i, &e->operand[1], r->b, j, e->c->k);
    limber_store_exact(limber_output_at(&e->out, i, j, r->f.size), r->f, sum.w, sum.n, sum.base,
                       &r->sc);
    free(sum.w);
    e->c->out.recomputed++;
    return true;
}

/* Stores the rounded integer if all values within 2^uncertain of the sum round to the same number,
 * else the rounded exact sum.  Returns false if memory is short. */
static bool store_uncertain(struct eval *e, const struct val *x, const struct results *r, int64_t i,
                            int64_t j)
{
    return limber_store_certain(limber_output_at(&e->out, i, j, r->f.size), r->f,
                                x->word + (i * e->c->n + j) * x->words, x->words, r->uncertain,
                                -(x->scale_a[i] + x->scale_b[j]), &r->sc) ||
           store_exact(e, r, i, j);
}

/* Stores a sum in binary64 if all values within its error bound round to the same number, else the
 * rounded exact sum.  The bound is 2^uncertain times the norms of its row and column.  Returns
 * false, with an error, if memory runs out. */
static bool store_near(struct eval *e, const struct val *x, const struct results *r, int64_t i,
                       int64_t j)
{
    const double scalars[2] = { r->alpha, r->beta };
    struct near_sum sum = { x->total[i * e->c->n + j], 0,
                            ldexp(r->norm[0][i] * r->norm[1][j], r->uncertain) };

    return limber_store_near(limber_output_at(&e->out, i, j, r->f.size), r->f, sum,
                             r->sc.alpha || r->sc.beta ? scalars : NULL) ||
           store_exact(e, r, i, j);
}

/* Returns the Euclidean norms of the rows of A (side 0) or the columns of B (side 1), or NULL if
 * memory is short. */
static double *line_norms(struct eval *e, int side, limber_format f, int64_t lines)
{
    double *norm = alloc_array(e, lines, 1, 1, sizeof *norm);

    for (int64_t i = 0; norm && i < lines; i++) {
        for (int64_t p = 0; p < e->c->k; p++) {
            double x = element_value(&e->operand[side], f, i, p);

            norm[i] += x * x;
        }
        norm[i] = sqrt(norm[i]);
    }
    return norm;
}

/* Sets *r, the inputs of the code that stores results.  chains: sums are doubles, whose error
 * bounds need the norms of rows and columns.  Returns false if memory is short. */
static bool init_results(struct eval *e, const struct node *n, bool chains, struct results *r)
{
    const struct node *products = limber_plan_find(e->p, OP_products);
    const struct node *combine = limber_plan_find(e->p, OP_combine);
    limber_format fs = n->type.format;

    r->f = fs;
    if (limber_num_is_int(fs))
        fs = format_named("i64");
    r->a = e->p->node[e->p->node[products->in[0]].in[0]].type.format;
    r->b = e->p->node[e->p->node[products->in[1]].in[0]].type.format;
    r->sc = (struct limber_scalars){ limber_attr_number(n, ATTR_alpha) ? e->c->alpha : NULL,
                                     limber_attr_number(n, ATTR_beta) ? e->c->beta : NULL, fs };
    r->alpha = r->sc.alpha ? limber_format_value(fs, r->sc.alpha) : 1;
    r->beta = r->sc.beta ? limber_format_value(fs, r->sc.beta) : 0;
    r->is_uncertain = limber_node_has(combine, ATTR_uncertain);
    r->uncertain = (int)limber_attr_number(combine, ATTR_uncertain);
    if (!r->is_uncertain || !chains)
        return true;
    r->norm[0] = line_norms(e, 0, r->a, e->c->m);
    r->norm[1] = line_norms(e, 1, r->b, e->c->n);
    return r->norm[0] && r->norm[1];
}

/* Stores the sum of one element whose row or column has NaN or infinities. */
static int store_special(const struct eval *e, const struct results *r, int64_t i, int64_t j,
                         void *dst)
{
    return limber_store_class(dst, r->f, special_sum(e, r->a, r->b, i, j), &r->sc);
}

/* Stores element (i, j) of C.  If it has NaN or infinite terms, they alone determine it; if its sum
 * has an error bound, rounds it if that is certain; else rounds the exact sum.  Returns false, with
 * an error, if memory runs out. */
static bool store_element(struct eval *e, const struct node *n, const struct val *x,
                          const struct results *r, int64_t i, int64_t j)
{
    char *dst = limber_output_at(&e->out, i, j, r->f.size);
    int64_t at = i * e->c->n + j;
    int flags = 0, exp = x->base - (x->scale_a ? x->scale_a[i] + x->scale_b[j] : 0);

    if (has_special_terms(e->c, i, j))
        flags = store_special(e, r, i, j, dst);
    else if (r->is_uncertain)
        return x->total ? store_near(e, x, r, i, j) : store_uncertain(e, x, r, i, j);
    else if (x->total)
        limber_unit_store(e->p->model, dst, r->f, x->total[at], r->sc.alpha ? &r->alpha : NULL,
                          r->sc.beta ? &r->beta : NULL);
    else if (limber_num_is_int(r->f) && limber_attr_number(n, ATTR_wrap))
        limber_store_wrapped(dst, r->f, limber_big_units(x->word + at * x->words, x->words, exp),
                             &r->sc);
    else
        flags = limber_store_exact(dst, r->f, x->word + at * x->words, x->words, exp, &r->sc);
    e->c->out.overflow +=
        limber_num_is_int(r->f) &&
        (flags &
         (limber_attr_number(n, ATTR_integral) ? NUM_overflow | NUM_inexact : NUM_overflow));
    return true;
}

/* Evaluates `epilogue`: stores all elements of C.  Returns false with an error if that fails. */
static bool eval_epilogue(struct eval *e, const struct node *n, struct val *v)
{
    const struct val *x = &e->val[n->in[0]];
    struct results r = { .uncertain = 0 };
    bool ok = init_results(e, n, x->total != NULL, &r);

    (void)v;
    e->c->out.recomputed = 0;
    for (int64_t i = 0; i < e->c->m; i++)
        for (int64_t j = 0; ok && j < e->c->n; j++)
            ok = store_element(e, n, x, &r, i, j);
    free(r.norm[0]);
    free(r.norm[1]);
    return ok;
}

/* ---- evaluating a plan ----------------------------------------------------------------------- */

#define R LIMBER_READS
#define W LIMBER_WORD
/* Operations and words that the interpreter supports in addition to those of backends/served.c.  It
 * ignores `tile` and `split`, on which no value depends. */
static const struct served served = {
    .backend = "interp",
    .all_doubles = true,
    .float_limbs = true,
    .op = {
        LIMBER_SERVES(patches, R(order)),
        LIMBER_SERVES(filters, R(order)),
        LIMBER_SERVES(products, R(sums) | R(joins) | R(split)),
        LIMBER_SERVES(combine, R(uncertain)),
    },
    .words = {
        [ATTR_order] = W(ORDER_rsc),
        [ATTR_axis] = W(AXIS_all),
        [ATTR_unit] = W(UNIT_i16) | W(UNIT_f16d),
        [ATTR_sums] = W(SUMS_v100) | W(SUMS_t4) | W(SUMS_a100) | W(SUMS_ada) | W(SUMS_h100) |
                      W(SUMS_b200) | W(SUMS_any),
        [ATTR_split] = W(SPLIT_ahead) | W(SPLIT_inside),
    },
};
#undef R
#undef W

/* [operation]: its evaluator */
static bool (*const eval[OP_count])(struct eval *, const struct node *, struct val *) = {
#define OP(name, least, most, attributes, flags) eval_##name,
#include "ir/ops.h"
};

/* Returns the node with the complete geometry of the convolution: the plan's node `patches`, or n
 * if there is none.  In the backward-data pass, `filters` and `image` lack some attributes. */
static const struct node *geometry_node(const struct eval *e, const struct node *n)
{
    const struct node *patches = limber_plan_find(e->p, OP_patches);

    return patches ? patches : n;
}

/* Makes two views of an operand from a node's index map and the call's sizes: in the plan's order
 * along k, and in memory order (crs). */
static void set_operand(struct eval *e, int side, const struct node *n, const void *data, int bytes)
{
    struct conv conv = { .sizes = e->c->conv->sizes };

    limber_conv_read(geometry_node(e, n), &conv.geometry);
    e->k = limber_conv_length(&conv, bytes);
    limber_conv_map(&e->ordered[side], n->op, &conv, bytes);
    e->view[side] = limber_map_view(&e->ordered[side], data);
    conv.geometry.order = ORDER_crs;
    limber_conv_map(&e->map[side], n->op, &conv, bytes);
    e->operand[side] = limber_map_view(&e->map[side], data);
    e->view[side].tile_subset = e->operand[side].tile_subset =
        (side ? &e->c->b : &e->c->a)->tile_subset;
}

/* Makes the view that tells where the elements of a convolution's result are stored. */
static void set_result(struct eval *e, const struct node *n)
{
    struct conv conv = { .sizes = e->c->conv->sizes };
    struct index_map map;

    limber_conv_read(geometry_node(e, n), &conv.geometry);
    limber_conv_map(&map, n->op, &conv, 0);
    e->out = limber_map_output(&map, e->c->c.data);
    e->out.rows = e->c->c.rows;
    e->out.cols = e->c->c.cols;
}

/* Makes the views of operands and result: of the call's matrices or, for a convolution, from the
 * plan's index maps.  Returns false, with an error, if the call lacks the convolution's sizes. */
static bool set_maps(struct eval *e)
{
    const struct node *filters = limber_plan_find(e->p, OP_filters);
    const struct node *patches = limber_plan_find(e->p, OP_patches);
    const struct node *image = limber_plan_find(e->p, OP_image);
    const struct node *products = limber_plan_find(e->p, OP_products);
    int bytes = products ? e->p->node[products->in[1]].type.format.size : 1;

    e->operand[0] = e->view[0] = e->c->a;
    e->operand[1] = e->view[1] = e->c->b;
    e->out = e->c->c;
    e->k = e->c->k;
    if (!filters && !patches && !image)
        return true;
    if (!e->c->conv)
        return limber_fail(e->d, LIMBER_STATUS_INTERNAL,
                           "interp: a convolution needs the sizes of its tensors");
    if (filters)
        set_operand(e, 0, filters, e->c->a.data, bytes);
    if (patches)
        set_operand(e, 1, patches, e->c->b.data, bytes);
    if (image)
        set_result(e, image);
    return true;
}

/* Evaluates a plan's nodes in order, for one call; the last one stores C.  Returns false on an
 * error. */
bool limber_interp_eval(const struct plan *p, struct call *c, struct diag *d)
{
    struct eval e = { .p = p, .c = c, .d = d };
    bool ok;

    e.val = calloc(p->nodes ? p->nodes : 1, sizeof *e.val);
    ok = (e.val || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory")) &&
         limber_plan_served(p, &served, d);
    c->out.overflow = 0;
    ok = ok && set_maps(&e);
    for (size_t i = 0; ok && i < p->nodes; i++)
        ok = eval[p->node[i].op](&e, &p->node[i], &e.val[i]);
    for (size_t i = 0; e.val && i < p->nodes; i++) {
        free(e.val[i].limb);
        free(e.val[i].loaded);
        free(e.val[i].scale);
        free(e.val[i].sum);
        free(e.val[i].total);
        free(e.val[i].word);
    }
    free(e.val);
    return ok;
}
