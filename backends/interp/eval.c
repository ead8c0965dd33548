/* SPDX-License-Identifier: BSD-3-Clause
 * The meaning of every operation.  Slow and obvious: whole matrices, one element at a time, in the
 * order that docs/ir.md states. */
#include "backends/interp/eval.h"
#include "backends/interp/unit.h"
#include "backends/served.h"

#include "ir/num/crt.h"
#include "ir/num/digits.h"
#include "ir/num/dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Evaluates `arg`: an operand in the plan's order of k. */
static bool eval_arg(struct eval *e, const struct node *n, struct val *v)
{
    int64_t index = limber_num(n, ATTR_index);

    v->view = &e->view[index == 0 ? 0 : 1];
    v->lines = index == 0 ? e->c->m : e->c->n;
    return true;
}

/* The view of a convolution's tensor; set_maps made its index map. */
static bool eval_map(struct eval *e, int side, struct val *v)
{
    v->view = &e->view[side];
    v->lines = side ? e->c->n : e->c->m;
    return true;
}

static bool eval_patches(struct eval *e, const struct node *n, struct val *v)
{
    (void)n;
    return eval_map(e, 1, v);
}

static bool eval_filters(struct eval *e, const struct node *n, struct val *v)
{
    (void)n;
    return eval_map(e, 0, v);
}

static bool eval_image(struct eval *e, const struct node *n, struct val *v)
{
    /* nothing to do: the epilogue has stored its results through the image's map */
    (void)e, (void)n, (void)v;
    return true;
}

static bool eval_gemm(struct eval *e, const struct node *n, struct val *v)
{
    (void)v;
    return limber_fail(e->d, LIMBER_STATUS_INTERNAL, "interp: %%%s was not split", n->name);
}

static bool eval_conv(struct eval *e, const struct node *n, struct val *v)
{
    return eval_gemm(e, n, v);
}

/* ---- limbs of operands ----------------------------------------------------------------------- */

static limber_format format_named(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

/* An element as a double; zero for padding. */
static double element_value(const struct view *v, limber_format f, int64_t line, int64_t p)
{
    const char *at = limber_view_at(v, line, p, f.size);

    return at ? limber_format_value(f, at) : 0;
}

/* floor(log2|x|) of the largest finite element of the line; INT32_MIN for a zero line. */
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

/* Largest exponent of all visible tiles of the block, used where tiles are left out: scans know
 * tiles of a block, not each line's part of a tile. */
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

/* Sets scales that bring the largest element of every line (axis=all: of all lines) below 2^top; 0
 * for axis=none. */
static bool scale_lines(struct eval *e, const struct node *n, struct val *v, limber_format f,
                        int top)
{
    int64_t axis = limber_num(n, ATTR_axis);
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

/* Sets what all kinds of limbs have: lines, format, memory and scales. */
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

/* Limbs that are the elements themselves. */
static bool eval_whole(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, 0))
        return false;
    /* a format wider than binary64: only the exact unit takes it, and reads the operand itself */
    if (limber_format_equal(f, n->type.format) && !limber_format_embeds(f, format_named("f64")))
        return true;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++)
            *limb_at(e, v, 0, i, p) = element_value(v->view, f, i, p);
    return true;
}

/* Limbs hi and lo: each is the scaled rest of the ones before, rounded to the unit's format. */
static bool eval_hilo(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_num(n, ATTR_top)))
        return false;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            double rest = element_value(v->view, f, i, p);

            rest = isfinite(rest) ? ldexp(rest, v->scale[i]) : 0;
            for (int l = 0; l < n->type.count; l++) {
                double x = limber_format_round(n->type.format, rest);

                *limb_at(e, v, l, i, p) = x;
                rest = ldexp(rest - x, (int)limber_num(n, ATTR_shift));
            }
        }
    return true;
}

/* Element p of a line as an integer, scaled by 2^-shift, in two's complement. */
static void scaled_integer(const struct eval *e, const struct val *v, limber_format f, int64_t line,
                           int64_t p, int shift, uint64_t w[LIMBER_WIDE])
{
    const char *at = limber_view_at(v->view, line, p, f.size);

    (void)e;
    memset(w, 0, LIMBER_WIDE * sizeof *w);
    if (at)
        limber_fix(w, f, at, shift);
}

/* Limbs that are digits of scaled integers. */
static bool eval_slices(struct eval *e, const struct node *n, struct val *v)
{
    bool digits = limber_format_equal(n->type.format, format_named("e4m3"));
    int step = (int)limber_num(n, ATTR_step);
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_num(n, ATTR_bits)))
        return false;
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            uint64_t w[LIMBER_WIDE];

            scaled_integer(e, v, f, i, p, v->scale[i], w);
            for (int l = 0; l < n->type.count; l++)
                *limb_at(e, v, l, i, p) = digits ?
                                              limber_signed_slice(w, l, n->type.count, step) :
                                              limber_slice(w, l, n->type.count, step,
                                                           limber_num(n, ATTR_sign) == SIGN_signed);
        }
    return true;
}

/* w mod m in [0, m); w is in two's complement. */
static int residue_modulo(const uint64_t w[LIMBER_WIDE], int m)
{
    int64_t r = (int64_t)w[LIMBER_WIDE - 1] % m;

    for (int i = LIMBER_WIDE - 1; i-- > 0;)
        for (int h = 3; h >= 0; h--)
            r = (r * 65536 + (int64_t)(w[i] >> 16 * h & 0xffff)) % m;
    return (int)(r < 0 ? r + m : r);
}

/* Makes residues as digits, one limb per digit. */
static bool eval_digits(struct eval *e, const struct node *n, struct val *v, limber_format f)
{
    const struct dims_list *moduli = limber_list(n, ATTR_moduli);
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

                scaled_integer(e, v, f, i, p, v->scale[i], w);
                r = residue_modulo(w, m);
                for (int x = 0; x < count; x++)
                    *limb_at(e, v, l + x, i, p) = digit[r][x];
            }
    }
    return true;
}

/* Limbs that are remainders of scaled integers. */
static bool eval_residues(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f;

    if (!start_limbs(e, n, v, &f, (int)limber_num(n, ATTR_bits)))
        return false;
    if (limber_format_equal(n->type.format, format_named("e4m3")))
        return eval_digits(e, n, v, f);
    for (int64_t i = 0; i < v->lines; i++)
        for (int64_t p = 0; p < e->k; p++) {
            uint64_t w[LIMBER_WIDE];

            scaled_integer(e, v, f, i, p, v->scale[i], w);
            for (int l = 0; l < n->type.count; l++) {
                int m = (int)limber_list(n, ATTR_moduli)->v[l], r = residue_modulo(w, m);

                *limb_at(e, v, l, i, p) = limber_num(n, ATTR_sign) == SIGN_unsigned ?
                                              r :
                                              limber_symmetric((uint32_t)r, (uint32_t)m);
            }
        }
    return true;
}

/* Operands of a simulated unit, rounded to its formats. */
static bool eval_quantize(struct eval *e, const struct node *n, struct val *v)
{
    limber_format f = e->p->node[n->in[0]].type.format;
    double *line = alloc_array(e, e->k, 1, 1, sizeof *line);

    v->view = e->val[n->in[0]].view;
    v->lines = e->val[n->in[0]].lines;
    v->loaded = alloc_array(e, v->lines, e->k, 1, sizeof *v->loaded);
    v->scale = alloc_array(e, v->lines, 1, 1, sizeof *v->scale);
    for (int64_t i = 0; line && v->loaded && v->scale && i < v->lines; i++) {
        for (int64_t p = 0; p < e->k; p++)
            line[p] = element_value(v->view, f, i, p);
        limber_unit_load(e->p->model, limber_num(n, ATTR_axis) == AXIS_col, line, e->k,
                         v->loaded + i * e->k);
    }
    free(line);
    return line && v->loaded && v->scale;
}

static bool eval_products(struct eval *e, const struct node *n, struct val *v)
{
    return limber_interp_products(e, n, v);
}

/* ---- sums from products of limbs ------------------------------------------------------------- */

/* The weight of an accumulator: its total counts 2^weight. */
static int weight_of(const struct node *products, int acc)
{
    for (size_t i = 0; i < products->rows; i++)
        if (products->row[i].acc == acc)
            return products->row[i].weight;
    return 0;
}

/* Sums the weighted accumulators of an element in binary64, and removes the scales of its row and
 * column. */
static void combine_sum(struct eval *e, const struct node *products, const struct val *s,
                        struct val *v, int64_t at, int64_t i, int64_t j)
{
    int64_t size = e->c->m * e->c->n;
    int last = products->type.count - 1;
    double x = 0;

    for (int acc = last; acc >= 0; acc--) { /* smallest first */
        double t = ldexp(s->total[acc * size + at], weight_of(products, acc));

        x = acc == last ? t : x + t;
    }
    v->total[at] = ldexp(x, -(s->scale_a[i] + s->scale_b[j]));
}

/* Adds all accumulators' totals of one element, each shifted by its weight. */
static void combine_shift(struct eval *e, const struct node *products, const struct val *s,
                          struct val *v, int64_t at)
{
    int64_t size = e->c->m * e->c->n, column[64] = { 0 };

    for (int acc = 0; acc < products->type.count; acc++)
        limber_columns_add(column, 1, s->sum[acc * size + at], weight_of(products, acc));
    limber_columns_words(column, 1, 64, v->word + at * v->words, v->words);
}

/* Computes an element from its residues by the Chinese remainder theorem. */
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

/* Evaluates `combine`: totals of limbs become exact values or float sums. */
static bool eval_combine(struct eval *e, const struct node *n, struct val *v)
{
    const struct node *products = &e->p->node[n->in[0]];
    const struct val *s = &e->val[n->in[0]];
    int64_t m = e->c->m, cols = e->c->n, reconstruct = limber_num(n, ATTR_reconstruct);
    struct limber_crt crt;

    v->scale_a = s->scale_a;
    v->scale_b = s->scale_b;
    if (limber_num(products, ATTR_unit) == UNIT_exact) {
        v->words = s->words;
        v->base = s->base;
        v->word = alloc_array(e, m, cols, v->words, sizeof *v->word);
        if (v->word)
            memcpy(v->word, s->word, (size_t)(m * cols * v->words) * sizeof *v->word);
        return v->word != NULL;
    }
    if (reconstruct == RECONSTRUCT_crt &&
        !limber_crt_init(&crt, limber_list(n, ATTR_moduli)->v, limber_list(n, ATTR_moduli)->n))
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

/* The sum of products as NaN and infinities determine it; finite values do not matter. */
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

static bool is_special(const struct call *c, int64_t i, int64_t j)
{
    return (c->mask_a && c->mask_a->line_special && c->mask_a->line_special[i]) ||
           (c->mask_b && c->mask_b->line_special && c->mask_b->line_special[j]);
}

/* Formats and scalars for storing elements. */
struct results {
    limber_format a, b, f;
    struct limber_scalars sc;
    double alpha, beta;
    bool is_uncertain;
    int uncertain;
    double *norm[2]; /* uncertain chains: Euclidean norms of the lines of A and of B; owned */
};

/* Stores the correctly rounded result, summed exactly from the operands; false: out of memory. */
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
    e->c->recomputed++;
    return true;
}

/* Stores the rounded result if all values within 2^uncertain of the integer round alike, else that
 * of the exact sum. */
static bool store_uncertain(struct eval *e, const struct val *x, const struct results *r, int64_t i,
                            int64_t j)
{
    return limber_store_certain(limber_output_at(&e->out, i, j, r->f.size), r->f,
                                x->word + (i * e->c->n + j) * x->words, x->words, r->uncertain,
                                -(x->scale_a[i] + x->scale_b[j]), &r->sc) ||
           store_exact(e, r, i, j);
}

/* store_uncertain for a sum in binary64, whose error is below 2^uncertain times both norms. */
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

/* The Euclidean norms of lines; NULL: out of memory. */
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

/* Prepares the storing of results. chains: sums are doubles, whose error bounds need the lines'
 * norms. */
static bool set_results(struct eval *e, const struct node *n, bool chains, struct results *r)
{
    const struct node *products = limber_plan_find(e->p, OP_products);
    const struct node *combine = limber_plan_find(e->p, OP_combine);
    limber_format fs = n->type.format;

    r->f = fs;
    if (limber_num_is_int(fs))
        fs = format_named("i64");
    r->a = e->p->node[e->p->node[products->in[0]].in[0]].type.format;
    r->b = e->p->node[e->p->node[products->in[1]].in[0]].type.format;
    r->sc = (struct limber_scalars){ limber_num(n, ATTR_alpha) ? e->c->alpha : NULL,
                                     limber_num(n, ATTR_beta) ? e->c->beta : NULL, fs };
    r->alpha = r->sc.alpha ? limber_format_value(fs, r->sc.alpha) : 1;
    r->beta = r->sc.beta ? limber_format_value(fs, r->sc.beta) : 0;
    r->is_uncertain = limber_node_has(combine, ATTR_uncertain);
    r->uncertain = (int)limber_num(combine, ATTR_uncertain);
    if (!r->is_uncertain || !chains)
        return true;
    r->norm[0] = line_norms(e, 0, r->a, e->c->m);
    r->norm[1] = line_norms(e, 1, r->b, e->c->n);
    return r->norm[0] && r->norm[1];
}

static int store_special(const struct eval *e, const struct results *r, int64_t i, int64_t j,
                         void *dst)
{
    return limber_store_class(dst, r->f, special_sum(e, r->a, r->b, i, j), &r->sc);
}

/* Stores an element of C: as special values say, as its uncertain sum allows, or by one
 * rounding. */
static bool store_element(struct eval *e, const struct node *n, const struct val *x,
                          const struct results *r, int64_t i, int64_t j)
{
    char *dst = limber_output_at(&e->out, i, j, r->f.size);
    int64_t at = i * e->c->n + j;
    int flags = 0, exp = x->base - (x->scale_a ? x->scale_a[i] + x->scale_b[j] : 0);

    if (is_special(e->c, i, j))
        flags = store_special(e, r, i, j, dst);
    else if (r->is_uncertain)
        return x->total ? store_near(e, x, r, i, j) : store_uncertain(e, x, r, i, j);
    else if (x->total)
        limber_store_float(dst, r->f, x->total[at], r->sc.alpha != NULL, r->alpha,
                           r->sc.beta != NULL, r->beta);
    else if (limber_num_is_int(r->f) && limber_num(n, ATTR_wrap))
        limber_store_wrapped(dst, r->f, limber_big_units(x->word + at * x->words, x->words, exp),
                             &r->sc);
    else
        flags = limber_store_exact(dst, r->f, x->word + at * x->words, x->words, exp, &r->sc);
    e->c->overflow +=
        limber_num_is_int(r->f) &&
        (flags & (limber_num(n, ATTR_integral) ? NUM_overflow | NUM_inexact : NUM_overflow));
    return true;
}

/* Evaluates `epilogue`: stores all elements of C. */
static bool eval_epilogue(struct eval *e, const struct node *n, struct val *v)
{
    const struct val *x = &e->val[n->in[0]];
    struct results r = { .uncertain = 0 };
    bool ok = set_results(e, n, x->total != NULL, &r);

    (void)v;
    e->c->recomputed = 0;
    for (int64_t i = 0; i < e->c->m; i++)
        for (int64_t j = 0; ok && j < e->c->n; j++)
            ok = store_element(e, n, x, &r, i, j);
    free(r.norm[0]);
    free(r.norm[1]);
    return ok;
}

/* ---- a whole plan ---------------------------------------------------------------------------- */

#define R LIMBER_READS
#define W LIMBER_WORD
/* The operations that the interpreter serves in addition to the common table.  No value depends on
 * tile and split. */
static const struct served served = {
    .backend = "interp",
    .all_doubles = true,
    .float_limbs = true,
    .op = {
        LIMBER_SERVES(patches, R(order)),
        LIMBER_SERVES(filters, R(order)),
        LIMBER_SERVES(products, R(sums) | R(split)),
        LIMBER_SERVES(combine, R(uncertain)),
    },
    .words = {
        [ATTR_order] = W(ORDER_rsc),
        [ATTR_axis] = W(AXIS_all),
        [ATTR_unit] = W(UNIT_i16),
        [ATTR_sums] = W(SUMS_v100) | W(SUMS_t4) | W(SUMS_a100) | W(SUMS_ada) | W(SUMS_h100) |
                      W(SUMS_b200) | W(SUMS_any),
        [ATTR_split] = W(SPLIT_ahead) | W(SPLIT_inside),
    },
};
#undef R
#undef W

static bool (*const eval[OP_count])(struct eval *, const struct node *, struct val *) = {
#define OP(name, least, most, attributes, flags) eval_##name,
#include "ir/ops.h"
};

/* The patches node has the whole geometry, from which all three maps of backward data are made. */
static const struct node *geometry_node(const struct eval *e, const struct node *n)
{
    const struct node *patches = limber_plan_find(e->p, OP_patches);

    return patches ? patches : n;
}

/* Makes a node's map with the call's sizes: in the order of memory (crs) and in the node's
 * order. */
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
}

/* Sets where a convolution's results are stored. */
static void set_result(struct eval *e, const struct node *n)
{
    struct conv conv = { .sizes = e->c->conv->sizes };
    struct index_map map;

    limber_conv_read(geometry_node(e, n), &conv.geometry);
    limber_conv_map(&map, n->op, &conv, 0);
    e->out = limber_map_output(&map, e->c->c.data);
}

/* Finds operands and result: where the call says, or for a convolution by the plan's index maps. */
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

bool limber_interp_eval(const struct plan *p, struct call *c, struct diag *d)
{
    struct eval e = { .p = p, .c = c, .d = d };
    bool ok;

    e.val = calloc(p->nodes ? p->nodes : 1, sizeof *e.val);
    ok = (e.val || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory")) &&
         limber_plan_served(p, &served, d);
    c->overflow = 0;
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
