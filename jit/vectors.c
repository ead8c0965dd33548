/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, native or reproducible, without scan, key,
 * plan or packing.  Both contracts are computed with the chains of the documented order 1
 * (limber.h). */
#include "ir/num/prim.h"
#include "jit/operators/inside.h"
#include "jit/tasks.h"
#include "jit/ways.h"

#include <math.h>
#include <string.h>

/* number of rows whose sums are on the stack at once */
enum { ROWS = 512 };
/* FEW: largest number of vectors that are multiplied one by one, by a matrix of at least LEAST_ROWS
 * rows. */
enum { FEW = 8, LEAST_ROWS = 256 };
/* LINES: rows of a matrix that are converted at once.  LENGTH: elements along k of a single row
 * that are converted at once, a multiple of the length of a chain of sums. */
enum { LINES = 16, LENGTH = LINES * NATIVE_CHAIN };
/* LANES: chains that a vector of a CPU holds, about. */
enum { LANES = 8 };

/* The product as a matrix of m x k times `vectors` vectors.  If C has fewer rows than columns, the
 * product is computed transposed, as C^T = B^T A^T, and m is the caller's n. */
struct vectors {
    limber_context *ctx;
    const struct problem *p;
    /* row, col: strides of the matrix; step: stride of a vector; to: distance from one element of a
     * result to the next.  All are in elements. */
    int64_t m, k, row, col, step, to;
    /* next, next_to: distance from one vector to the next, and from one result to the next, in
     * elements */
    int64_t vectors, next, next_to;
    /* distance from the vector of one row to that of the next, in elements, if each row has one of
     * its own, as in a batch of dot products; else 0 */
    int64_t own;
    int width; /* sums of a row: 2 for a complex matrix, else 1 */
    bool by_row; /* the matrix is B */
    struct scaling scaling;
    /* alpha and beta must be applied */
    bool scales;
    limber_format fa, fx; /* formats of the matrix and of the vector */
    int size; /* bytes of a sum: 4 or 8 */
    double alpha, beta;
};

/* True if order 1 (limber.h) sums in binary32: that format holds both operands and is at least as
 * precise as C. Otherwise sums are in binary64 (docs/accuracy.md, "The stated order"). */
static bool sums_single(const struct problem *p)
{
    return limber_format_embeds(p->fa, LIMBER_F32) && limber_format_embeds(p->fb, LIMBER_F32) &&
           limber_format_sig(p->fc) <= limber_format_sig(LIMBER_F32);
}

/* True for binary64, binary32 and floats of at most 16 bits. */
static bool is_small_float(limber_format f)
{
    return limber_format_is_binary(f) || (f.kind == LIMBER_KIND_FLOAT && f.size <= 2);
}

/* True if operands must be converted: unless both operands and C have one format, binary64 or
 * binary32. */
static bool needs_conversion(const struct problem *p)
{
    return !limber_format_is_binary(p->fc) || !limber_format_equal(p->fa, p->fc) ||
           !limber_format_equal(p->fb, p->fc);
}

/* True if the product is that of a complex matrix with contiguous columns and a vector, and no
 * operand needs another format.  complex.c has made it a real product with two columns. */
static bool has_complex_columns(const struct problem *p)
{
    return p->n == 2 && p->a.pairs && p->a.pairs->kind == PAIRS_along && p->a.line == 2 &&
           !p->b.pairs && p->b.line == 1 && p->b.p == 2 && !needs_conversion(p);
}

/* True if the vector is a row of A, so that B is the matrix. */
static bool is_by_row(const struct problem *p)
{
    return p->n > p->m && !p->a.pairs;
}

/* Returns the number of vectors by which a matrix is multiplied one by one: 1, or a few if the
 * matrix's columns are contiguous but those of the result are not, so that other code would copy
 * the matrix.  0 if this does not pay. */
static int64_t count_vectors(const struct problem *p)
{
    const int64_t n = p->m < p->n ? p->m : p->n, lines = p->m < p->n ? p->n : p->m;
    const struct view *matrix = is_by_row(p) ? &p->b : &p->a;
    const bool columns = matrix->line == 1 && matrix->p >= lines && !needs_conversion(p) &&
                         (is_by_row(p) ? p->c.col : p->c.row) != 1;

    return n == 1 ? 1 : n <= FEW && columns && lines >= LEAST_ROWS && p->k > NATIVE_CHAIN ? n : 0;
}

/* True if the product has a vector and enough multiply-adds that this code is faster than that of
 * the way `direct`.  This code starts 0.15 us later.  Its vectors of 512 bits pay from 24 x 24 or
 * 32 x 32 on (measured on an Emerald Rapids), shorter ones from 64 x 64 to 96 x 96 on (Zen 4). */
static bool is_long_vector(const limber_context *ctx, int64_t m, int64_t n, int64_t k)
{
    const double least = ctx->machine.target.vector_bits >= 512 ? 1024 : 4096;

    return (m == 1 || n == 1) && (double)m * (double)n * (double)k > least;
}

/* True if the call is a batch of contiguous dot products whose chains need fewer steps side by side
 * than one product after the other.  They are computed as rows with a vector each. */
static bool sums_dots_side_by_side(const limber_context *ctx, const struct problem *p)
{
    /* steps of one product, whose own chains are side by side if it is a long one */
    const int64_t alone = is_long_vector(ctx, 1, 1, p->k) ?
                              ceil_div(p->k, LANES * NATIVE_CHAIN) * NATIVE_CHAIN :
                              p->k;

    return limber_is_batch_of_dots(p) && !p->a.pairs && p->a.p == 1 && p->b.p == 1 &&
           (double)ceil_div(p->groups, LANES) * (double)p->k <= (double)p->groups * (double)alone;
}

/* Returns the reason why the way `vectors` (a code path) cannot compute the call, as text; NULL if
 * it can. */
static const char *why_not_vectors(const limber_context *ctx, const struct problem *p)
{
    if (p->a.pairs ? !has_complex_columns(p) : !count_vectors(p))
        return "neither operand is a vector, or a few of them";
    if (!limber_needs_native_sums(&p->contract) || p->contract.scheme || p->part.roundings)
        return "it serves native and reproducible products";
    if (!ctx->machine.cpu || p->shape || !is_small_float(p->fa) || !is_small_float(p->fb) ||
        !is_small_float(p->fc))
        return "it serves f64, f32 and floats of up to 16 bits on CPUs";
    if (p->k == 0)
        return "it has nothing to multiply";
    if (!p->a.pairs && !is_long_vector(ctx, p->m, p->n, p->k) && !sums_dots_side_by_side(ctx, p) &&
        limber_has_way(ctx, WAY_direct) && !limber_way_direct.refuses(ctx, p))
        return "the vectors are short, which direct computes faster";
    return p->c.inner >= p->n && (p->a.pairs || limber_is_strided(p)) ?
               NULL :
               "the operands lie otherwise";
}

/* Returns alpha sum + beta c, with the bits of limber_blend.  If beta = 1 and the value is finite,
 * plain arithmetic gives these bits without a call of fma. */
static double apply_scalars(const struct scaling *f, double sum, double c)
{
    const double y = f->beta == 1 ? f->alpha * sum + c : NAN;

    return y - y == 0 ? y : limber_blend(f->alpha, sum, f->beta, c);
}

/* Defines name(alpha, sum, rows, c), which adds alpha times each sum to the element of C beside it,
 * if beta is 1 and C is contiguous.  Returns false, with C unchanged, if a result is not finite:
 * that row needs limber_blend. */
#define ADD_SUMS(name, T) \
    static bool name(double alpha, const T *sum, int64_t rows, char *c) \
    { \
        double check = 0; /* NaN after a result that is not finite */ \
        T made[ROWS]; \
\
        memcpy(made, c, (size_t)rows * sizeof(T)); \
        for (int64_t i = 0; i < rows; i++) { \
            const double y = alpha * (double)sum[i] + (double)made[i]; \
\
            check += y - y; \
            made[i] = (T)y; \
        } \
        if (check == 0) \
            memcpy(c, made, (size_t)rows * sizeof(T)); \
        return check == 0; \
    }
ADD_SUMS(add_doubles, double)
ADD_SUMS(add_floats, float)

/* Applies alpha and beta to one sum of each row, and stores the results to C, at any alignment.
 * sum: aligned for its type. */
static void scale_and_store(const struct vectors *x, const char *sum, int64_t rows, char *c)
{
    const struct scaling *f = &x->scaling;
    const int size = x->p->fc.size;

    if (f->beta == 1 && x->to == 1 && x->width == 1 &&
        (size == 8 ? add_doubles(f->alpha, (const double *)(const void *)sum, rows, c) :
                     add_floats(f->alpha, (const float *)(const void *)sum, rows, c)))
        return;
    for (int64_t i = 0; i < rows; i++, c += x->to * size, sum += x->width * size) {
        const double s = limber_scalar_value(sum, size),
                     y = f->beta == 0 ? f->alpha * s :
                                        apply_scalars(f, s, limber_scalar_value(c, size));
        const float narrow = (float)y;

        if (size == 8)
            memcpy(c, &y, 8);
        else
            memcpy(c, &narrow, 4);
    }
}

/* Converts n elements, `step` elements apart, to the format of the sums. */
static void convert_elements(const struct vectors *x, limber_format f, const char *from,
                             int64_t step, int64_t n, char *to)
{
    char dense[8 * NATIVE_CHAIN];
    double wide[NATIVE_CHAIN];

    for (int64_t p = 0; p < n; p += NATIVE_CHAIN) {
        const int64_t here = n - p < NATIVE_CHAIN ? n - p : NATIVE_CHAIN;
        const char *at = from + p * step * f.size;

        if (step != 1) {
            for (int64_t i = 0; i < here; i++)
                memcpy(dense + i * f.size, at + i * step * f.size, (size_t)f.size);
            at = dense;
        }
        limber_values_widen(x->ctx, f, at, wide, (size_t)here);
        if (x->size == 8)
            memcpy(to + p * 8, wide, (size_t)here * 8);
        for (int64_t i = 0; i < here && x->size == 4; i++) {
            const float narrow = (float)wide[i];

            memcpy(to + (p + i) * 4, &narrow, 4);
        }
    }
}

/* Computes rows [first, end) of one product whose operands must be converted.  Converts and
 * multiplies them block by block. */
static void run_converted(const struct vectors *x, int64_t first, int64_t end, const char *a,
                          const char *v, char *c)
{
    char rows[LENGTH * 8], vectors[LENGTH * 8];
    const limber_format fc = x->p->fc;
    const int lines = x->m == 1 ? 1 : LINES;
    const int64_t length = LENGTH / lines, next = x->own ? length : 0;
    double sum[LINES];

    for (int64_t i = first; i < end; i += lines) {
        struct vector_sums s = { .size = x->size,
                                 .m = end - i < lines ? end - i : lines,
                                 .row = length,
                                 .col = 1,
                                 .step = 1,
                                 .next = next,
                                 .a = rows,
                                 .x = vectors,
                                 .sum = sum };

        for (int64_t p = 0; p < x->k; p += length) {
            s.k = x->k - p < length ? x->k - p : length;
            s.more = p > 0;
            for (int64_t r = 0; r < (next ? s.m : 1); r++)
                convert_elements(x, x->fx, v + ((i + r) * x->own + p * x->step) * x->fx.size,
                                 x->step, s.k, vectors + r * length * x->size);
            for (int64_t r = 0; r < s.m; r++)
                convert_elements(x, x->fa, a + ((i + r) * x->row + p * x->col) * x->fa.size, x->col,
                                 s.k, rows + r * length * x->size);
            x->ctx->machine.cpu->vectors(&s, &x->ctx->machine.target);
        }
        for (int64_t r = 0; r < s.m; r++)
            limber_store_float(c + (i + r) * x->to * fc.size, fc,
                               limber_scalar_value((const char *)sum + r * x->size, x->size),
                               x->p->alpha != NULL, x->alpha, x->p->beta != NULL, x->beta);
    }
}

/* Computes some rows of one group's product. */
static void run_piece(void *arg, const struct piece *w)
{
    const struct vectors *x = arg;
    const struct problem *p = x->p;
    const struct view a = limber_group_a(p, w->group), b = limber_group_b(p, w->group);
    const struct output_view c = limber_group_c(p, w->group);
    const int size = p->fc.size;
    double sum[ROWS];
    struct vector_sums s = { .size = size,
                             .k = x->k,
                             .row = x->row,
                             .col = x->col,
                             .step = x->step,
                             .next = x->own,
                             .pairs = x->width == 2 };
    const char *matrix = x->by_row ? b.data : a.data, *vector = x->by_row ? a.data : b.data;

    if (needs_conversion(p)) {
        run_converted(x, w->first, w->end, matrix, vector, c.data);
        return;
    }
    for (int64_t i = w->first; i < w->end; i += s.m) {
        char *to = (char *)c.data + (i * x->to + w->vector * x->next_to) * size;
        const bool direct = x->to == x->width && !x->scales && x->scaling.beta == 0;
        const int64_t most = ROWS / x->width;

        s.m = direct || w->end - i < most ? w->end - i : most;
        s.a = matrix + i * x->row * size;
        s.x = vector + (w->vector * x->next + i * x->own) * size;
        s.sum = direct ? (void *)to : sum;
        x->ctx->machine.cpu->vectors(&s, &x->ctx->machine.target);
        for (int q = 0; q < x->width && !direct; q++)
            scale_and_store(x, (const char *)sum + q * size, s.m, to + q * size);
    }
}

/* Fills the report of a product with a vector. */
static void report_vectors(struct attempt *x)
{
    limber_report_library(x->r, x->ctx->machine.backend->name, "native",
                          limber_native_bound(x->p->k, sums_single(x->p) ? 4 : 8));
}

/* Returns the predicted seconds of one group on one core.  Chains in the order of k reach a tenth
 * of the rate of binary64, in both formats; a matrix beyond the caches takes twice as long. */
static double vectors_seconds(const struct vectors *x)
{
    return (double)x->m * (double)x->k * (double)x->vectors /
           (0.1 * x->ctx->machine.target.rate[UNIT_f64]);
}

/* Runs the way `vectors` (a code path): computes the product in tasks of some rows of the
 * matrix. */
static enum ran run_vectors(struct attempt *at)
{
    const struct problem *p = at->p;
    limber_context *ctx = at->ctx;
    const bool dots = sums_dots_side_by_side(ctx, p),
               by_row = dots ? p->at.step_a == 0 : is_by_row(p);
    const struct view *v = by_row ? &p->b : &p->a;
    struct vectors x = { .ctx = ctx,
                         .p = p,
                         .m = by_row ? p->n : p->m,
                         .k = p->k,
                         .row = v->line,
                         .col = v->p,
                         .step = by_row ? p->a.p : p->b.p,
                         .to = by_row ? p->c.col : p->c.row,
                         .vectors = p->a.pairs ? 1 : count_vectors(p),
                         .next = by_row ? p->a.line : p->b.line,
                         .next_to = by_row ? p->c.row : p->c.col,
                         .width = p->a.pairs ? 2 : 1,
                         .by_row = by_row,
                         .fa = by_row ? p->fb : p->fa,
                         .fx = by_row ? p->fa : p->fb,
                         .size = sums_single(p) ? 4 : 8 };
    const double start = at->r ? limber_now() : 0;

    if (dots) { /* the products are the rows; if all have one vector, it is that of a matrix */
        x.m = p->groups;
        x.row = by_row ? p->at.step_b : p->at.step_a;
        x.own = by_row ? 0 : p->at.step_b;
        x.to = p->at.step_c;
    }
    if (!needs_conversion(p)) {
        x.scales = limber_scaling(p->alpha, p->beta, p->fc.size, &x.scaling);
    } else {
        if (p->alpha)
            limber_values_widen(ctx, limber_scalar_format(p->fc), p->alpha, &x.alpha, 1);
        if (p->beta)
            limber_values_widen(ctx, limber_scalar_format(p->fc), p->beta, &x.beta, 1);
    }
    limber_run_pieces(ctx,
                      &(struct division){ .groups = dots ? 1 : p->groups,
                                          .lines = x.m,
                                          .vectors = x.vectors,
                                          .most = x.vectors > 1 ? ROWS : 0,
                                          .seconds = vectors_seconds(&x) },
                      run_piece, &x);
    if (at->r) {
        report_vectors(at);
        at->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

/* Passes products with a vector on if they are so short that the code path `direct` computes them
 * faster.  Returns false, so that the general path computes them, for longer ones. */
static bool leave_vectors(limber_context *ctx, const struct gemm_arguments *x,
                          struct report *report, const struct way *const *at)
{
    return !is_long_vector(ctx, x->m, x->n, x->k) && limber_pass_on(ctx, x, report, at);
}

const struct way limber_way_vectors = { .id = WAY_vectors,
                                        .at_once = leave_vectors,
                                        .refuses = why_not_vectors,
                                        .run = run_vectors,
                                        .report = report_vectors };
