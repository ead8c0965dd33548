/* SPDX-License-Identifier: BSD-3-Clause
 * The public call for complex matrices, and its four real products as a single one:
 *
 *     [Re C, Im C] = [Re A, Im A] [ Re B  Im B]
 *                                 [-Im B  Re B]
 *
 * Real and imaginary parts alternate: in columns on both sides of the equation, and in the rows of
 * the right factor.  So A and C are used as real matrices without a copy, and B is expanded in
 * memory.  If the columns of C are contiguous, the transposed product is computed.  Conjugates
 * become signs of the expanded B.  In device memory nothing is expanded: kernels read A and B
 * through index maps (ir/view.h). */
#include "jit/api/complex.h"
#include "jit/ways.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- B expanded to a real matrix ------------------------------------------------------------- */

/* B written out as a real matrix of twice its rows and columns (its real form), while the matrix is
 * written. */
struct expansion {
    const struct complex_product *x; /* the product, whose B is x->b */
    limber_format f; /* format of the expanded elements: B's, or a wider integer */
    char *data; /* owned by whoever calls view_b, once the matrix is complete */
    int64_t line, p; /* strides of the real form, in elements: between its columns, and along k */
    bool by_lines; /* true if a task expands a column of B, false if it expands a row */
    /* set if some integer of B is the format's most negative one, whose negative does not fit f */
    _Atomic bool least;
};

/* Stores a number of B, negated if `minus`.  Sets e->least if the negative does not fit the
 * format. */
static inline void put_number(struct expansion *e, char *to, const char *from, int size, bool minus)
{
    limber_format f = e->x->b.m.format;

    if (f.size == e->f.size) /* same format */
        memcpy(to, from, (size_t)size);
    else
        limber_convert(to, e->f, from, f, 1, LIMBER_ROUND_NEAREST);
    if (minus && !limber_is_integer(f))
        limber_negate_float(to, f);
    else if (minus && !limber_negate_integer(to, e->f.size))
        e->least = true;
}

/* Writes the four numbers of element (p, j) of the real form of B. */
static inline void expand_element(struct expansion *e, int64_t p, int64_t j, int size)
{
    const struct pairs *b = &e->x->b;
    const char *re =
        (const char *)b->m.data + 2 * (p * b->m.row_stride + j * b->m.col_stride) * size;
    const char *im = re + size;
    int wide = e->f.size;
    char *to = e->data + (2 * j * e->line + 2 * p * e->p) * wide;
    bool conj_a = e->x->a.conj, conj_b = b->conj;

    put_number(e, to, re, size, false);
    put_number(e, to + e->p * wide, im, size, conj_a == conj_b);
    put_number(e, to + e->line * wide, im, size, conj_b);
    put_number(e, to + (e->line + e->p) * wide, re, size, conj_a);
}

/* Writes the four numbers of `n` elements of binary64 or binary32, from `from` on; `next`: distance
 * between them in bytes. */
#define EXPAND_FLOATS(name, bits) \
    static void name(const struct expansion *e, const char *from, int64_t next, int64_t n, \
                     char *to, int64_t next_to) \
    { \
        const bool conj_a = e->x->a.conj, conj_b = e->x->b.conj; \
        const bits##_t sign = (bits##_t)1 << (8 * sizeof(bits##_t) - 1), \
                       below = conj_a == conj_b ? sign : 0, right = conj_b ? sign : 0, \
                       last = conj_a ? sign : 0; \
        const int64_t size = sizeof(bits##_t), p = e->p * size, line = e->line * size; \
\
        for (int64_t i = 0; i < n; i++, from += next, to += next_to) { \
            bits##_t pair[2]; \
\
            memcpy(pair, from, sizeof pair); \
            memcpy(to, &pair[0], sizeof *pair); \
            memcpy(to + p, &(bits##_t){ pair[1] ^ below }, sizeof *pair); \
            memcpy(to + line, &(bits##_t){ pair[1] ^ right }, sizeof *pair); \
            memcpy(to + line + p, &(bits##_t){ pair[0] ^ last }, sizeof *pair); \
        } \
    }
EXPAND_FLOATS(expand_f64, uint64)
EXPAND_FLOATS(expand_f32, uint32)

/* Expands a row or column of binary64 or binary32 numbers of B. */
static void expand_floats(const struct expansion *e, int64_t task, int size)
{
    const limber_matrix *b = &e->x->b.m;
    const int64_t along = e->by_lines ? b->row_stride : b->col_stride,
                  across = e->by_lines ? b->col_stride : b->row_stride,
                  to_along = e->by_lines ? e->p : e->line, to_across = e->by_lines ? e->line : e->p;

    (size == 8 ? expand_f64 : expand_f32)(e, (const char *)b->data + 2 * task * across * size,
                                          2 * along * size, e->by_lines ? e->x->k : e->x->n,
                                          e->data + 2 * task * to_across * size,
                                          2 * to_along * size);
}

/* Expands a row of B, or a column if by_lines. */
static inline void expand_line(struct expansion *e, int64_t task, int size)
{
    if (e->by_lines)
        for (int64_t p = 0; p < e->x->k; p++)
            expand_element(e, p, task, size);
    else
        for (int64_t j = 0; j < e->x->n; j++)
            expand_element(e, task, j, size);
}

/* Task: expands one row or column of B. */
static void expand_task(void *arg, int64_t task, int worker)
{
    struct expansion *e = arg;
    int size = e->x->b.m.format.size;

    (void)worker;
    if (limber_format_is_binary(e->f)) /* then B has this format, too */
        expand_floats(e, task, size);
    else if (size == 8) /* constant sizes let the compiler copy by single moves */
        expand_line(e, task, 8);
    else if (size == 4)
        expand_line(e, task, 4);
    else
        expand_line(e, task, size);
}

/* Finds the signed integer format of twice the size.  False if there is none. */
static bool find_wider_format(limber_format f, limber_format *out)
{
    static const char *const name[] = { [1] = "i16", [2] = "i32", [4] = "i64" };

    return f.size < 8 && limber_format_named(name[f.size], out) == LIMBER_STATUS_OK;
}

/* True if A is a column-major matrix that the code path `vectors` multiplies by the vector B
 * without copying A.  B must then be written out as real 2 x 2 blocks with contiguous rows. */
static bool reads_columns(const struct complex_product *x)
{
    return x->n == 1 && x->a.m.row_stride == 1 && x->a.m.col_stride != 1 &&
           limber_needs_native_sums(&x->contract);
}

/* Allocates and fills the real form of B (a real matrix of twice its rows and columns) in format
 * e->f. */
static bool expand_to_format(struct expansion *e, struct diag *d)
{
    const struct complex_product *x = e->x;

    e->by_lines = x->n == 1 ? !reads_columns(x) : x->b.m.row_stride == 1 && x->b.m.col_stride != 1;
    e->line = e->by_lines ? 2 * x->k : 1;
    e->p = e->by_lines ? 1 : 2 * x->n;
    e->least = false;
    e->data = limber_complex_memory(x->ctx, 2 * x->k, 2 * x->n, e->f, "the real form of b", d);
    if (!e->data)
        return false;
    limber_complex_share(x->ctx, e->by_lines ? x->n : x->k, x->k * x->n, expand_task, e);
    return true;
}

/* Expands B. The negative of the smallest integer of B's format needs the next wider format, so if
 * B holds that integer, B is expanded again.  Where results wrap modulo 2^64, the smallest i64 is
 * its own negative. */
static bool expand_b(struct expansion *e, struct diag *d)
{
    bool wraps = limber_wraps(&e->x->contract, e->x->a.m.format, e->x->b.m.format);

    e->f = e->x->b.m.format;
    if (e->f.kind == LIMBER_KIND_UINT)
        find_wider_format(e->f, &e->f);
    if (!expand_to_format(e, d))
        return false;
    if (!e->least || (wraps && e->f.size == 8))
        return true;
    limber_memory_free(&e->x->ctx->allocator, e->data);
    e->data = NULL;
    if (!find_wider_format(e->f, &e->f))
        return limber_fail(d, LIMBER_STATUS_RANGE,
                           "an operand holds -2^63, whose negative does not fit "
                           "i64");
    return expand_to_format(e, d);
}

/* ---- complex numbers in device memory -------------------------------------------------------- */

/* True if the address p lies in device memory. */
static bool is_on_device(const struct complex_product *x, const void *p)
{
    return limber_device_holds(x->ctx, p);
}

/* Sets *least to true if B, or one matrix of a batch, holds the smallest integer of its format,
 * whose negative does not fit. */
static bool find_smallest_integer(const struct complex_product *x, bool *least, struct diag *d)
{
    const struct pair_map along = { .kind = PAIRS_along };
    const struct view v = { x->b.m.data, 2 * x->b.m.col_stride, 2 * x->b.m.row_stride,
                            .pairs = &along };
    const limber_batch *t = &x->batch;
    limber_format f = x->b.m.format;
    const struct spread each = { 2 * t->b * f.size, t->address_b };
    int64_t count = t->address_b || t->b ? t->count : 1;
    struct mask *m = calloc((size_t)count, sizeof *m);
    const struct device_scan all = { m, count, each, &v, x->n, 2 * x->k };
    bool ok = m ? limber_device_scans(x->ctx, &all, 1, f, x->queue, d) :
                  limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a scan of b");

    *least = false;
    for (int64_t g = 0; m && g < count; g++) {
        *least = *least || (ok && !m[g].zero && m[g].emax == 8 * f.size - 1);
        limber_mask_clear(&m[g]);
    }
    free(m);
    return ok;
}

/* Refuses the smallest i64 unless results wrap, since its negative exists only modulo 2^64. */
static bool check_smallest_i64(const struct complex_product *x, struct diag *d)
{
    limber_format f = x->b.m.format;
    bool least = false;

    if (f.kind != LIMBER_KIND_INT || f.size < 8 || limber_wraps(&x->contract, x->a.m.format, f))
        return true;
    return find_smallest_integer(x, &least, d) &&
           (!least || limber_fail(d, LIMBER_STATUS_RANGE,
                                  "an operand holds -2^63, whose negative does "
                                  "not fit i64"));
}

/* Sets *wide to true if integers of fewer than 64 bits must be read in a wider format, so that
 * every negative fits.  A simulated unit accepts only its own formats; for it *wide is true only if
 * B holds a number whose negative does not fit. */
static bool find_if_wider_needed(const struct complex_product *x, bool *wide, struct diag *d)
{
    limber_format f = x->b.m.format;

    *wide = limber_is_integer(f) && f.size < 8;
    return !limber_simulates(&x->contract) || f.kind != LIMBER_KIND_INT ||
           find_smallest_integer(x, wide, d);
}

/* Sets the view through which kernels on the device read B as a real matrix of twice its rows and
 * columns. */
static bool view_remote_b(const struct complex_product *x, struct problem *p, struct diag *d)
{
    limber_format f = x->b.m.format;
    bool conj_a = x->a.conj, conj_b = x->b.conj, wide;

    if (!find_if_wider_needed(x, &wide, d))
        return false;
    p->fb = f;
    p->pairs_b = (struct pair_map){
        .kind = PAIRS_square,
        .minus = (conj_a == conj_b) << 1 | conj_b << 2 | conj_a << 3,
    };
    if (wide && find_wider_format(f, &p->fb)) {
        p->pairs_b.stored = f.size;
        p->pairs_b.is_unsigned = f.kind == LIMBER_KIND_UINT;
    }
    p->b = (struct view){ x->b.m.data, 2 * x->b.m.col_stride, 2 * x->b.m.row_stride,
                          .pairs = &p->pairs_b };
    return check_smallest_i64(x, d);
}

/* Sets the view through which the device reads A as a real matrix in which real and imaginary parts
 * alternate along a row. */
static void view_remote_a(const struct complex_product *x, struct problem *p)
{
    p->pairs_a = (struct pair_map){ .kind = PAIRS_along };
    p->a = (struct view){ x->a.m.data, 2 * x->a.m.row_stride, 2 * x->a.m.col_stride,
                          .pairs = &p->pairs_a };
}

/* ---- A in place, or copied ------------------------------------------------------------------- */

/* A dense copy of A, while it is written. */
struct gather {
    const struct complex_product *x;
    char *data;
};

/* Copies pairs of `pair` bytes from `rows` rows to contiguous rows.  A column's pairs, which may
 * share a cache line, are copied one after another. */
static inline void gather_block(const struct gather *g, int64_t first, int64_t rows, size_t pair)
{
    const limber_matrix *a = &g->x->a.m;
    const int64_t k = g->x->k;

    for (int64_t p = 0; p < k; p++)
        for (int64_t i = first; i < first + rows; i++)
            memcpy(g->data + (size_t)(i * k + p) * pair,
                   (const char *)a->data + (size_t)(i * a->row_stride + p * a->col_stride) * pair,
                   pair);
}

enum { GATHERED = 16 }; /* rows of A that a task copies */

/* Task: copies a block of rows of A, so that the pairs of a row are contiguous. */
static void gather_rows(void *arg, int64_t task, int worker)
{
    const struct gather *g = arg;
    const int64_t first = task * GATHERED,
                  rows = g->x->m - first < GATHERED ? g->x->m - first : GATHERED;
    const size_t pair = 2 * (size_t)g->x->a.m.format.size;

    (void)worker;
    if (pair == 16) /* constant sizes let the compiler copy by single moves */
        gather_block(g, first, rows, 16);
    else if (pair == 8)
        gather_block(g, first, rows, 8);
    else
        gather_block(g, first, rows, pair);
}

/* Sets the view of A as a real matrix of pairs.  If the pairs of a row are not contiguous in host
 * memory, they are copied to *copy, which the caller frees. */
static bool view_a(const struct complex_product *x, struct problem *to, char **copy, struct diag *d)
{
    struct gather g = { .x = x };

    *copy = NULL;
    to->a = (struct view){ x->a.m.data, 2 * x->a.m.row_stride, 1, NULL };
    if (x->a.m.col_stride == 1 || x->k <= 1)
        return true;
    view_remote_a(x, to);
    if (is_on_device(x, x->a.m.data) ||
        (limber_has_way(x->ctx, WAY_vectors) && !limber_way_vectors.refuses(x->ctx, to)))
        return true;
    g.data = *copy = limber_complex_memory(x->ctx, x->m, 2 * x->k, x->a.m.format, "a copy of a", d);
    if (!g.data)
        return false;
    limber_complex_share(x->ctx, (x->m - 1) / GATHERED + 1, x->m * x->k, gather_rows, &g);
    to->a = (struct view){ *copy, 2 * x->k, 1, NULL };
    return true;
}

/* Sets the view of B as a real matrix with twice its rows and columns.  In host memory B is
 * expanded to *written, which the caller frees. */
static bool view_b(const struct complex_product *x, struct problem *to, char **written,
                   struct diag *d)
{
    struct expansion e = { .x = x };

    *written = NULL;
    if (is_on_device(x, x->b.m.data))
        return view_remote_b(x, to, d);
    if (!expand_b(&e, d)) {
        limber_memory_free(&x->ctx->allocator, e.data);
        return false;
    }
    *written = e.data;
    to->fb = e.f;
    to->b = (struct view){ e.data, e.line, e.p, NULL };
    return true;
}

/* ---- four real products ---------------------------------------------------------------------- */

/* Returns C, or other memory of pairs, as a real matrix with twice the columns. row, col: strides
 * in pairs. */
static struct output_view real_view(void *data, int64_t row, int64_t col, int64_t n)
{
    struct output_view c = { data, 2 * row, 1, 2, 2 * col };

    if (col == 1)
        c.inner = n > 0 ? 2 * n : 1;
    return c;
}

/* Computes the complex product as one real product with twice the columns and twice the inner
 * dimension. fc: format of the result. */
static bool multiply_real(const struct complex_product *x, limber_format fc, struct output_view c,
                          const void *alpha, const void *beta, struct diag *d)
{
    struct problem p = {
        .contract = x->contract,
        .m = x->m,
        .n = 2 * x->n,
        .k = 2 * x->k,
        .groups = 1,
        .fa = x->a.m.format,
        .fc = fc,
        .c = c,
        .alpha = alpha,
        .beta = beta,
        .queue = x->queue,
        .given = x->given,
    };
    char *copy = NULL, *written = NULL;
    bool ok;

    if (x->batch.count) {
        p.groups = x->batch.count;
        p.at.step_a = 2 * x->batch.a;
        p.at.step_b = 2 * x->batch.b;
        p.at.step_c = 2 * x->batch.c;
        p.at.each_a = x->batch.address_a;
        p.at.each_b = x->batch.address_b;
        p.at.each_c = x->batch.address_c;
    }
    ok = view_b(x, &p, &written, d) && view_a(x, &p, &copy, d) &&
         limber_engine_run(x->ctx, &p, NULL, x->report, d);

    limber_memory_free(&x->ctx->allocator, written);
    limber_memory_free(&x->ctx->allocator, copy);
    return ok;
}

/* ---- complex alpha and beta ------------------------------------------------------------------ */

/* Computes T = A B first, then alpha T + beta C as another real product. */
static bool run_with_complex_scalars(const struct complex_product *x, struct diag *d)
{
    struct complex_product first = *x; /* the same product with T as its result */
    struct terms t;
    struct output_view c;

    if (limber_simulates(&x->contract) || x->contract.rounding)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.%s needs real alpha and beta",
                           x->contract.rounding ? "rounding" : "promise simulate");
    if (!limber_terms_new(&t, x, d))
        return false;
    c = (struct output_view){ t.data, x->n * t.width, 1, t.width == 2 ? 2 * x->n : 2, t.width };
    first.batch.c = x->m * x->n * t.width / 2;
    first.batch.address_c = NULL;
    if (!multiply_real(&first, t.f, c, NULL, NULL, d)) {
        limber_terms_drop(&t, x);
        return false;
    }
    return limber_terms_finish(&t, x, d);
}

/* ---- checks of a complex call ---------------------------------------------------------------- */

/* True if a scalar, given as a pair, has imaginary part 0. */
static bool is_real(const char *pair, limber_format c)
{
    return !pair || !limber_scalar(pair + limber_scalar_format(c).size, c, 0);
}

/* Computes the complex product by one real product of twice the columns and twice the inner
 * dimension, so of four times the work.  That product also applies alpha and beta if they are real;
 * complex ones are applied afterwards. */
static bool run_as_one_real_product(const struct complex_product *x, struct diag *d)
{
    limber_format f = x->c.format;

    if (!is_real(x->alpha, f) || !is_real(x->beta, f))
        return run_with_complex_scalars(x, d);
    return multiply_real(x, f, real_view(x->c.data, x->c.row_stride, x->c.col_stride, x->n),
                         limber_scalar(x->alpha, f, 1), limber_scalar(x->beta, f, 0), d);
}

/* Returns p, or NULL if the pair at p equals (neutral, 0). */
static const void *pair_or_null(const void *p, limber_format c, double neutral)
{
    return p && is_real(p, c) && !limber_scalar(p, c, neutral) ? NULL : p;
}

/* Checks a matrix of pairs: its format, and that the real matrix with twice its rows and columns
 * does not exceed the address space. */
static bool check_pairs(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                        struct diag *d)
{
    const int64_t most = INT64_MAX / 4;
    limber_matrix real = *m;
    int64_t elements;
    char name[64];

    if (m->row_stride < 0 || m->col_stride < 0)
        return limber_check_matrix(m, what, rows, cols, d);
    if (m->format.kind > LIMBER_KIND_EXACT || m->format.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: complex numbers are pairs of floats with -0 or of integers, not "
                           "of %s",
                           what, limber_format_name(m->format, name, sizeof name));
    if (rows > most || cols > most / 32 || m->row_stride > most || m->col_stride > most ||
        __builtin_mul_overflow(4 * rows, 32 * cols, &elements))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: %lld x %lld pairs with strides %lld and "
                           "%lld exceed the address space",
                           what, (long long)rows, (long long)cols, (long long)m->row_stride,
                           (long long)m->col_stride);
    real.row_stride *= 2;
    real.col_stride *= 2;
    return limber_check_matrix(&real, what, rows, cols, d);
}

/* Returns the matrix with each pair as one element of twice the size, for checks of addresses. */
static limber_matrix pairs_as_elements(limber_matrix m)
{
    m.format.size = (uint8_t)(2 * m.format.size);
    return m;
}

/* Checks sizes, matrices of pairs, and the contract. */
static bool check_arguments(const struct complex_product *x, const limber_contract *contract,
                            struct diag *d)
{
    const limber_matrix c = limber_as_matrix(x->c);

    return limber_check_sizes(x->m, x->n, x->k, d) && check_pairs(&x->a.m, "a", x->m, x->k, d) &&
           check_pairs(&x->b.m, "b", x->k, x->n, d) && check_pairs(&c, "c", x->m, x->n, d) &&
           limber_contract_check(contract, x->a.m.format, x->b.m.format, x->c.format, d);
}

/* Checks sizes, strides, the contract and addresses. */
static bool check_call(const struct complex_product *x, const limber_contract *contract,
                       struct diag *d)
{
    const struct product_matrices wide = { x->m,
                                           x->n,
                                           x->k,
                                           pairs_as_elements(x->a.m),
                                           pairs_as_elements(x->b.m),
                                           pairs_as_elements(limber_as_matrix(x->c)) };

    return check_arguments(x, contract, d) && limber_check_addresses(&wide, d);
}

/* Returns a view of the transpose of m. */
static limber_matrix transpose_matrix(limber_matrix m)
{
    int64_t row = m.row_stride;

    m.row_stride = m.col_stride;
    m.col_stride = row;
    return m;
}

/* Replaces the product by C^T = B^T A^T if only the columns of C are contiguous, or if A is one
 * row: the matrix B is then the left operand, which need not be expanded.  Reproducible products
 * are not transposed, because that would exchange terms of imaginary parts, whose order is
 * promised, nor are those of the caller's plan, which states the formats of A and B. */
static void transpose(struct complex_product *x)
{
    const limber_batch t = x->batch;
    struct pairs a = x->a;
    int64_t m = x->m;

    if (limber_order(&x->contract) || x->given || x->n == 1 ||
        (x->m > 1 && (x->c.col_stride == 1 || x->c.row_stride != 1)))
        return;
    x->a = (struct pairs){ transpose_matrix(x->b.m), x->b.conj };
    x->b = (struct pairs){ transpose_matrix(a.m), a.conj };
    x->c = (limber_output){ x->c.data, x->c.format, x->c.col_stride, x->c.row_stride };
    x->m = x->n;
    x->n = m;
    x->batch.a = t.b;
    x->batch.b = t.a;
    x->batch.address_a = t.address_b;
    x->batch.address_b = t.address_a;
}

/* Checks and computes one product, by three real products or by one of four times the work. */
static bool run_product(struct complex_product *x, const limber_contract *contract,
                        limber_complex_method method, struct diag *d)
{
    if (!check_call(x, contract, d))
        return false;
    x->contract = *contract;
    /* a missing kernel is compiled even if the contract says `refuse`: one of several real products
     * could be refused after the first was computed */
    if (contract->on_miss == LIMBER_ON_MISS_REFUSE)
        x->contract.on_miss = LIMBER_ON_MISS_COMPILE;
    x->alpha = pair_or_null(x->alpha, x->c.format, 1);
    x->beta = pair_or_null(x->beta, x->c.format, 0);
    transpose(x);
    if (x->report)
        memset(x->report, 0, sizeof *x->report);
    if (x->m == 0 || x->n == 0)
        return true;
    return method == LIMBER_COMPLEX_THREE_PRODUCTS ? limber_complex_three(x, d) :
                                                     run_as_one_real_product(x, d);
}

/* ---- batches of complex products ------------------------------------------------------------- */

/* Returns the address of matrix g of a batch of complex matrices.  NULL if `data` is NULL. */
static const void *matrix_at(const void *data, const void *const *address, int64_t step,
                             limber_format f, int64_t g)
{
    return address ? address[g] : data ? (const char *)data + 2 * g * step * f.size : NULL;
}

/* Returns the arguments of product g of a batch, or of the only product. */
static struct complex_product product_of(limber_context *ctx, const limber_problem *p, int64_t g,
                                         const struct given_plan *given, struct report *r)
{
    const limber_batch *t = p->batch;
    struct complex_product x = {
        .ctx = ctx,
        .queue = p->queue,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = { p->a, p->conjugate & LIMBER_CONJUGATE_A },
        .b = { p->b, p->conjugate & LIMBER_CONJUGATE_B },
        .c = p->c,
        .alpha = p->alpha,
        .beta = p->beta,
        .report = r,
        .given = given,
    };

    if (t) {
        x.a.m.data = matrix_at(p->a.data, t->address_a, t->a, p->a.format, g);
        x.b.m.data = matrix_at(p->b.data, t->address_b, t->b, p->b.format, g);
        x.c.data = t->address_c ? t->address_c[g] :
                   p->c.data    ? (char *)p->c.data + 2 * g * t->c * p->c.format.size :
                                  NULL;
    }
    return x;
}

/* Describes the results of all the batch's products as real matrices, which have two columns for
 * each complex one.  Only C is set: the problem is never computed, but tells the backup which
 * memory to save, and to restore after a failure. */
static struct problem results_as_real_matrices(const limber_problem *p)
{
    return (struct problem){
        .m = p->m,
        .n = 2 * p->n,
        .groups = p->batch->count,
        .fc = p->c.format,
        .c = real_view(p->c.data, p->c.row_stride, p->c.col_stride, p->n),
        .at.step_c = 2 * p->batch->c,
        .at.each_c = p->batch->address_c,
    };
}

/* Returns how many matrices of a batch, counting A, B and C, lie in device memory. */
static int64_t count_matrices_on_device(limber_context *ctx, const limber_problem *p)
{
    int64_t found = 0;

    for (int64_t g = 0; g < p->batch->count; g++) {
        struct complex_product x = product_of(ctx, p, g, NULL, NULL);

        found += is_on_device(&x, x.a.m.data) + is_on_device(&x, x.b.m.data) +
                 is_on_device(&x, x.c.data);
    }
    return found;
}

/* Checks that all matrices of a batch lie in device memory. found: how many do. */
static bool check_all_on_device(const limber_problem *p, int64_t found, struct diag *d)
{
    return found == 3 * p->batch->count ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.batch: complex matrices of a batch lie all in host memory, or all "
                       "in the device's");
}

/* Checks all matrices of a batch, and that no two results overlap. */
static bool check_batch(limber_context *ctx, const limber_problem *p, struct diag *d)
{
    struct complex_product first = product_of(ctx, p, 0, NULL, NULL);
    struct product_matrices all = { p->m,
                                    p->n,
                                    p->k,
                                    pairs_as_elements(p->a),
                                    pairs_as_elements(p->b),
                                    pairs_as_elements(limber_as_matrix(p->c)) };

    if (p->contract && p->contract->statistics)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "problem.batch: statistics are of one complex product");
    if (p->batch->address_a)
        all.a.data = NULL;
    if (p->batch->address_b)
        all.b.data = NULL;
    if (p->batch->address_c)
        all.c.data = NULL;
    return check_arguments(&first, p->contract, d) && limber_check_batch(p->batch, &all, d);
}

/* Adds the report of a batch's next product to that of the earlier ones: times and recomputed
 * elements are added, the larger bound is kept, and the plan is that of the last product. */
static void add_times(struct report *all, const struct report *r)
{
    struct report sum = *r;

    sum.seconds_scan += all->seconds_scan;
    sum.seconds_compile += all->seconds_compile;
    sum.seconds_run += all->seconds_run;
    sum.recomputed += all->recomputed;
    sum.recomputed_seconds += all->recomputed_seconds;
    sum.bound = all->bound > r->bound ? all->bound : r->bound;
    *all = sum;
}

/* Computes a batch: in device memory all products at once, in host memory one after another.  If
 * one product fails, C is restored. */
static bool run_batch(limber_context *ctx, const limber_problem *p, const struct given_plan *given,
                      struct report *r, struct diag *d)
{
    struct complex_product all;
    struct problem c = results_as_real_matrices(p);
    struct backup backup;
    struct report one;
    int64_t remote;
    bool ok = true;

    if (r)
        memset(r, 0, sizeof *r);
    if (!check_batch(ctx, p, d))
        return false;
    if (p->batch->count == 0 || p->m == 0 || p->n == 0)
        return true;
    remote = count_matrices_on_device(ctx, p);
    if (remote) {
        all = product_of(ctx, p, 0, given, r);
        all.batch = *p->batch;
        return check_all_on_device(p, remote, d) &&
               run_product(&all, p->contract, p->complex_method, d);
    }
    if (!limber_backup(ctx, &c, &backup, d))
        return false;
    for (int64_t g = 0; ok && g < p->batch->count; g++) {
        struct complex_product x = product_of(ctx, p, g, given, r ? &one : NULL);

        ok = run_product(&x, p->contract, p->complex_method, d);
        if (ok && r)
            add_times(r, &one);
    }
    limber_backup_end(&backup, ok);
    return ok;
}

/* Computes a complex product.  given: the caller's plan of its real product, or NULL.  r may be
 * NULL. */
bool limber_complex_run(limber_context *ctx, const limber_problem *p,
                        const struct given_plan *given, struct report *r, struct diag *d)
{
    struct complex_product x;

    if (p->batch)
        return run_batch(ctx, p, given, r, d);
    x = product_of(ctx, p, 0, given, r);
    return run_product(&x, p->contract, p->complex_method, d);
}
