/* SPDX-License-Identifier: BSD-3-Clause
 * Complex products with complex alpha and beta; memory and threads of complex products. */
#include "jit/api/complex.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory, and work shared by threads ------------------------------------------------------ */

/* Allocates rows x cols elements of format f. `what` is named in the error if memory is short. */
void *limber_complex_memory(const limber_context *ctx, int64_t rows, int64_t cols, limber_format f,
                            const char *what, struct diag *d)
{
    size_t bytes;
    void *p = NULL;

    if (!__builtin_mul_overflow((size_t)rows, (size_t)cols, &bytes) &&
        !__builtin_mul_overflow(bytes, (size_t)f.size, &bytes))
        p = limber_memory_alloc(&ctx->allocator, bytes + 1);
    if (!p)
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %s", what);
    return p;
}

/* largest number of elements for which one thread is faster than several */
enum { ALONE = 1 << 15 };

/* Runs fn for every task, on several threads if there are enough elements. */
void limber_complex_share(limber_context *ctx, int64_t tasks, int64_t elements,
                          void (*fn)(void *arg, int64_t task, int worker), void *arg)
{
    struct runner r = limber_pool_runner(ctx->pool);

    if (elements > ALONE)
        r.run(r.self, tasks, fn, arg);
    else
        for (int64_t i = 0; i < tasks; i++)
            fn(arg, i, 0);
}

/* ---- negated numbers ------------------------------------------------------------------------- */

/* Negates the number at the address `at`. */
void limber_negate_float(char *at, limber_format f)
{
    /* the sign is the top bit of the binary32 or binary64 number in which the element is stored,
     * or of the format */
    int bit = f.carried || f.kind == LIMBER_KIND_DD ? 8 * f.size - 1 : f.exp_bits + f.frac_bits;

    at[bit / 8] = (char)(at[bit / 8] ^ 1 << bit % 8);
    if (f.kind == LIMBER_KIND_DD)
        at[7] = (char)(at[7] ^ 0x80);
}

/* Negates the integer of `size` bytes at the address `at`.  Returns false if the negative does not
 * fit. */
bool limber_negate_integer(char *at, int size)
{
    int64_t v = 0;

    memcpy(&v, at, (size_t)size);
    v = (int64_t)((0 - (uint64_t)v) << (64 - 8 * size)) >> (64 - 8 * size);
    memcpy(at, &v, (size_t)size);
    return v != INT64_MIN >> (64 - 8 * size);
}

/* ---- complex alpha and beta ------------------------------------------------------------------ */

/* Allocates device memory for the terms, followed by alpha and beta. */
static bool allocate_terms_on_device(struct terms *t, const struct complex_product *x,
                                     struct diag *d)
{
    enum { ALIGN = 256 };
    size_t bytes;
    void *p = NULL;

    if (__builtin_mul_overflow((size_t)(x->m * x->n), (size_t)(t->width * t->f.size), &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)limber_complex_products(x), &bytes) ||
        bytes > SIZE_MAX / 2)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a b before its sum with c");
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!limber_device_alloc(x->ctx, &p, bytes + ALIGN, "a b before its sum with c", x->queue, d))
        return false;
    t->data = p;
    t->factors = t->data + bytes;
    return true;
}

/* Allocates the terms of a complex sum.  Returns false, with an error, if memory runs out. */
bool limber_terms_new(struct terms *t, const struct complex_product *x, struct diag *d)
{
    t->f = limber_scalar_format(x->c.format);
    t->width = x->beta ? 4 : 2;
    t->factors = NULL;
    if (limber_device_holds(x->ctx, x->c.data))
        return allocate_terms_on_device(t, x, d);
    t->data =
        limber_complex_memory(x->ctx, x->m * x->n, t->width, t->f, "a b before its sum with c", d);
    return t->data;
}

/* Frees the terms without computing C. */
void limber_terms_drop(struct terms *t, const struct complex_product *x)
{
    if (t->factors)
        limber_device_free(x->ctx, t->data, x->queue);
    else
        limber_memory_free(&x->ctx->allocator, t->data);
    t->data = NULL;
}

/* Arguments of fill_row. */
struct filling {
    const struct complex_product *x;
    const struct terms *t;
};

/* Task: converts row i of C's pairs and stores them as the last two of each element's four
 * terms. */
static void fill_row(void *arg, int64_t i, int worker)
{
    const struct filling *f = arg;
    const limber_output *c = &f->x->c;
    size_t size = f->t->f.size;

    (void)worker;
    for (int64_t j = 0; j < f->x->n; j++) {
        const char *from =
            (const char *)c->data + 2 * (i * c->row_stride + j * c->col_stride) * c->format.size;
        char *to = f->t->data + (size_t)((i * f->x->n + j) * f->t->width + 2) * size;

        limber_convert(to, f->t->f, from, c->format, 2, LIMBER_ROUND_NEAREST);
    }
}

/* Writes alpha and beta as a real matrix to the address `to`: a row for the real parts of
 * results and a row for the imaginary parts, 2 or (with beta) 4 columns.  False if the negative
 * of an imaginary part does not fit i64. */
static bool write_coefficients(const struct terms *t, const struct complex_product *x, char *to,
                               struct diag *d)
{
    const char *given[2] = { x->alpha, x->beta };
    size_t size = t->f.size;
    const double one[2] = { 1, 0 };
    char pair[32];

    for (int i = 0; 2 * i < t->width; i++) {
        char *re = to + 2 * (size_t)i * size, *im = re + (size_t)t->width * size;

        if (given[i])
            memcpy(pair, given[i], 2 * size);
        else
            limber_convert(pair, t->f, one, LIMBER_F64, 2, LIMBER_ROUND_NEAREST);
        memcpy(re, pair, size);
        memcpy(re + size, pair + size, size);
        memcpy(im, pair + size, size);
        memcpy(im + size, pair, size);
        if (!limber_is_integer(t->f))
            limber_negate_float(re + size, t->f);
        else if (!limber_negate_integer(re + size, (int)size))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s: the negative of its imaginary part "
                               "does not fit i64",
                               i ? "beta" : "alpha");
    }
    return true;
}

/* Copies the pairs of C to the terms if there is a beta, and writes the real matrix of alpha and
 * beta to *matrix.  On a device *matrix is set to its address there. */
static bool fill_terms(const struct terms *t, const struct complex_product *x, char **matrix,
                       struct diag *d)
{
    struct terms_call call = {
        .c = x->c.data,
        .row = 2 * x->c.row_stride,
        .col = 2 * x->c.col_stride,
        .m = x->m,
        .n = x->n,
        .width = t->width,
        .count = limber_complex_products(x),
        .each = { 2 * x->batch.c * x->c.format.size, (const void *const *)x->batch.address_c },
        .to = t->data,
        .factors = t->factors,
    };
    struct filling f = { x, t };

    if (!write_coefficients(t, x, t->factors ? call.value : *matrix, d))
        return false;
    if (t->factors) {
        *matrix = t->factors;
        return limber_device_terms(x->ctx, &call, x->c.format, x->queue, d);
    }
    if (t->width == 4)
        limber_complex_share(x->ctx, x->m, x->m * x->n, fill_row, &f);
    return true;
}

/* Computes alpha T + beta C of complex numbers as one real product: the real matrix of alpha and
 * beta (2 x 2, with beta 2 x 4) times the real and imaginary parts of T and C (2 or 4 rows, mn
 * columns).  On a device the contract asks for no scan, which would take longer than the
 * product. */
static bool add_terms(const struct terms *t, const struct complex_product *x, struct diag *d)
{
    char coefficients[8 * 16], *matrix = coefficients;
    const limber_contract k = limber_contract_of_sum(&x->contract, t->f, t->factors != NULL);
    const bool filled = fill_terms(t, x, &matrix, d);
    const struct problem p = {
        .contract = k,
        .m = 2,
        .n = x->m * x->n,
        .k = t->width,
        .groups = limber_complex_products(x),
        .fa = t->f,
        .fb = t->f,
        .fc = x->c.format,
        .a = { matrix, t->width, 1, NULL },
        .b = { t->data, t->width, 1, NULL },
        .at.step_b = x->m * x->n * t->width,
        .queue = x->queue,
        .c = { x->c.data, 1, 2 * x->c.col_stride, x->n, 2 * x->c.row_stride },
        .at.step_c = 2 * x->batch.c,
        .at.each_c = x->batch.address_c,
    };
    struct report r;

    if (!filled || !limber_engine_run(x->ctx, &p, NULL, x->report ? &r : NULL, d))
        return false;
    if (x->report) {
        x->report->seconds_scan += r.seconds_scan;
        x->report->seconds_compile += r.seconds_compile;
        x->report->seconds_run += r.seconds_run;
    }
    return true;
}

/* Computes C = alpha A B + beta C from the terms, and frees them. */
bool limber_terms_finish(struct terms *t, const struct complex_product *x, struct diag *d)
{
    bool ok = add_terms(t, x, d);

    limber_terms_drop(t, x);
    return ok;
}
