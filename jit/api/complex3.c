/* SPDX-License-Identifier: BSD-3-Clause
 * Complex products by three real products (Karatsuba).  With s and t the signs of the imaginary
 * parts of A and B (-1 for a conjugate):
 *
 *     P1 = Re A Re B,   P2 = Im A Im B,   P3 = (Re A + s Im A) (Re B + t Im B)
 *     Re = P1 - s t P2,                   Im = P3 - P1 - s t P2
 *
 * Integers: the sums in P3 are formed in the next wider format, and the products modulo 2^64.  So
 * both parts are right modulo 2^64, and exact if they are known to fit.  Floats: see
 * docs/accuracy.md.  Operands in device memory are read in place; sums and products are allocated
 * there. */
#include "jit/api/complex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const limber_format i64 = { LIMBER_KIND_INT, 0, 0, 0, 0, 8, 0 };

/* Index of the three real matrices of an operand: real parts, imaginary parts, and their sum. */
enum { RE, IM, SUM, PLANES };

/* One complex operand as three real matrices: real parts, imaginary parts, and their sums.  The
 * lines of a view are rows of A or columns of B. In a batch, `part` describes the first product's
 * matrices, and `step` or `each` tells where the matrices of the other products are. */
struct planes {
    struct view part[PLANES]; /* [RE, IM, SUM]: views of the three matrices */
    limber_format f, sum_f;
    int64_t step[PLANES];
    const void *const *each[PLANES];
    /* owned addresses of a batch's imaginary parts; NULL if there are no listed addresses */
    const void **imaginary;
    char *host[PLANES]; /* owned dense copies in host memory; NULL for operands on the device */
    void *on_device; /* owned sums in device memory; NULL for operands in host memory */
    double most; /* for integers, the largest absolute value of a part */
};

/* Returns the format of Re + Im: the next wider integer; f itself for floats, or if no integer is
 * wider. */
static limber_format sum_format(limber_format f)
{
    static const char *const name[] = { [1] = "i16", [2] = "i32", [4] = "i64" };

    if (limber_is_integer(f) && f.size < 8)
        limber_format_named(name[f.size], &f);
    return f;
}

/* Reads an integer of any size as a signed 64-bit integer. */
static int64_t load_integer(const char *at, limber_format f)
{
    uint64_t v = 0;
    int unused = 64 - 8 * f.size;

    memcpy(&v, at, f.size);
    return f.kind == LIMBER_KIND_UINT ? (int64_t)v : (int64_t)(v << unused) >> unused;
}

/* Computes Re + Im, or Re - Im if `minus`, of the integers at index `at`.  Parts of up to 32 bits
 * have exact sums in 64 bits; sums of 64-bit parts wrap. */
static void add_integers(struct planes *p, int64_t at, bool minus)
{
    int64_t re = load_integer(p->host[RE] + at * p->f.size, p->f);
    int64_t im = load_integer(p->host[IM] + at * p->f.size, p->f);
    uint64_t sum = minus ? (uint64_t)re - (uint64_t)im : (uint64_t)re + (uint64_t)im;

    memcpy(p->host[SUM] + at * p->sum_f.size, &sum, p->sum_f.size);
    p->most = fmax(p->most, fmax(fabs((double)re), fabs((double)im)));
}

/* Computes Re + Im, or Re - Im if `minus`, of the floats at index `at`. */
static void add_floats(struct planes *p, int64_t at, bool minus)
{
    double x, y;
    float u, v;

    if (p->f.size == 8) {
        memcpy(&x, p->host[RE] + at * 8, 8);
        memcpy(&y, p->host[IM] + at * 8, 8);
        x = minus ? x - y : x + y;
        memcpy(p->host[SUM] + at * 8, &x, 8);
    } else {
        memcpy(&u, p->host[RE] + at * 4, 4);
        memcpy(&v, p->host[IM] + at * 4, 4);
        u = minus ? u - v : u + v;
        memcpy(p->host[SUM] + at * 4, &u, 4);
    }
}

/* Splits complex numbers into three dense matrices: Re, Im, and Re + Im (for a conjugate Re -
 * Im). */
static void split_pairs(struct planes *p, const struct pairs *x, int64_t rows, int64_t cols)
{
    size_t size = p->f.size;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const char *from = (const char *)x->m.data +
                               2 * (size_t)(i * x->m.row_stride + j * x->m.col_stride) * size;
            int64_t at = i * cols + j;

            memcpy(p->host[RE] + (size_t)at * size, from, size);
            memcpy(p->host[IM] + (size_t)at * size, from + size, size);
            if (limber_is_integer(p->f))
                add_integers(p, at, x->conj);
            else
                add_floats(p, at, x->conj);
        }
}

/* Returns the view of one of the three matrices. left: the operand is A, so lines are rows; else
 * they are columns. */
static struct view plane_view(const void *data, int64_t row, int64_t col, bool left)
{
    return left ? (struct view){ data, row, col, NULL } : (struct view){ data, col, row, NULL };
}

/* Copies the three matrices of an operand to dense matrices in host memory. left: the operand is A.
 * False if memory runs out. */
static bool copy_planes(const limber_context *ctx, struct planes *p, const struct pairs *x,
                        int64_t rows, int64_t cols, bool left, struct diag *d)
{
    static const char *const what[] = { "the real parts of an operand",
                                        "the imaginary parts of an operand",
                                        "the sums of an operand's parts" };

    for (int i = 0; i < PLANES; i++) {
        p->host[i] = limber_complex_memory(ctx, rows, cols, i == SUM ? p->sum_f : p->f, what[i], d);
        if (!p->host[i])
            return false;
        p->part[i] = plane_view(p->host[i], cols, 1, left);
    }
    split_pairs(p, x, rows, cols);
    return true;
}

/* Sets where the matrices of a batch are.  *matrices: their number, or 1 if all products share one
 * matrix. elements: elements of one matrix of sums. */
static bool set_batch_steps(const struct complex_product *x, struct planes *p, bool left,
                            int64_t elements, int64_t *matrices, struct diag *d)
{
    const void *const *address = left ? x->batch.address_a : x->batch.address_b;
    int64_t step = left ? x->batch.a : x->batch.b, count = limber_complex_products(x);

    *matrices = count > 1 && (address || step) ? count : 1;
    if (*matrices == 1)
        return true;
    p->step[SUM] = elements;
    if (!address) {
        p->step[RE] = p->step[IM] = 2 * step;
        return true;
    }
    p->imaginary = calloc((size_t)count, sizeof *p->imaginary);
    if (!p->imaginary)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for addresses");
    for (int64_t g = 0; g < count; g++)
        p->imaginary[g] = (const char *)address[g] + p->f.size;
    p->each[RE] = address;
    p->each[IM] = p->imaginary;
    return true;
}

/* Sets views of an operand in device memory, and computes the sums there.  The sums are contiguous
 * along the dimension in which the operand's stride is smaller. */
static bool view_planes_on_device(const struct complex_product *x, struct planes *p,
                                  const struct pairs *of, int64_t rows, int64_t cols, bool left,
                                  struct diag *d)
{
    limber_matrix m = of->m;
    bool by_rows = m.col_stride <= m.row_stride;
    struct sums_call call = {
        .from = m.data,
        .outer = by_rows ? rows : cols,
        .inner = by_rows ? cols : rows,
        .outer_step = 2 * (by_rows ? m.row_stride : m.col_stride),
        .inner_step = 2 * (by_rows ? m.col_stride : m.row_stride),
        .minus = of->conj,
        .measures = limber_refuses_overflow(&x->contract, x->a.m.format, x->b.m.format, p->f),
    };
    size_t bytes;

    if (!set_batch_steps(x, p, left, rows * cols, &call.count, d))
        return false;
    call.each = (struct spread){ p->step[RE] * p->f.size, p->each[RE] };
    if (__builtin_mul_overflow((size_t)rows * (size_t)cols, (size_t)p->sum_f.size, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)call.count, &bytes))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "no memory for the sums of an operand's parts");
    if (!limber_device_alloc(x->ctx, &p->on_device, bytes, "the sums of an operand's parts",
                             x->queue, d))
        return false;
    call.to = p->on_device;
    p->part[RE] = plane_view(m.data, 2 * m.row_stride, 2 * m.col_stride, left);
    p->part[IM] = p->part[RE];
    p->part[IM].data = (const char *)m.data + p->f.size;
    p->part[SUM] =
        by_rows ? plane_view(call.to, cols, 1, left) : plane_view(call.to, 1, rows, left);
    if (!limber_device_sums(x->ctx, &call, p->f, x->queue, d))
        return false;
    p->most = (double)call.most;
    return true;
}

/* Makes the three real matrices of an operand, on the device if the operand is there. left: the
 * operand is A. */
static bool make_planes(const struct complex_product *x, struct planes *p, const struct pairs *of,
                        int64_t rows, int64_t cols, bool left, struct diag *d)
{
    p->f = of->m.format;
    p->sum_f = sum_format(p->f);
    return limber_device_holds(x->ctx, of->m.data) ?
               view_planes_on_device(x, p, of, rows, cols, left, d) :
               copy_planes(x->ctx, p, of, rows, cols, left, d);
}

/* Frees the real and imaginary planes of an operand. */
static void free_planes(const struct complex_product *x, struct planes *p)
{
    for (int i = 0; i < PLANES; i++)
        limber_memory_free(&x->ctx->allocator, p->host[i]);
    if (p->on_device)
        limber_device_free(x->ctx, p->on_device, x->queue);
    free(p->imaginary);
}

/* ---- which calls can use three products ------------------------------------------------------ */

/* Checks that three products can compute this call: the contract allows them, and no stream is
 * being captured, because memory must be allocated. */
static bool can_use_three_products(const struct complex_product *x, struct diag *d)
{
    if (limber_device_records(x->ctx, x->queue))
        return limber_fail(
            d, LIMBER_STATUS_DEVICE,
            "problem.complex_method, three products: queue.stream is being captured, and "
            "sums and products need memory");
    return limber_three_products_check(&x->contract, x->a.m.format, x->b.m.format, x->c.format, d);
}

/* True if real and imaginary parts of all results fit into 63 bits, or results may wrap.  The parts
 * are at most 2 k times the largest part of A times that of B.  This bound is computed in doubles
 * with a relative error of at most 2^-50. */
static bool fits_63_bits(const struct complex_product *x, const struct planes *a,
                         const struct planes *b, struct diag *d)
{
    if (!limber_refuses_overflow(&x->contract, a->f, b->f, a->f) ||
        (a->most < 0x1p62 && b->most < 0x1p62 && 2 * (double)x->k * a->most * b->most < 0x1.fffp62))
        return true;
    return limber_fail(
        d, LIMBER_STATUS_NO_SCHEME,
        "problem.complex_method, three products: sums of %lld products of these numbers "
        "may exceed 63 bits",
        (long long)x->k);
}

/* ---- three real products, and their combination ---------------------------------------------- */

/* Adds the report of one of the three products to *sum. first: the report is stored instead. */
static void add_reports(struct report *sum, const struct report *r, bool first)
{
    struct report s = first ? *r : *sum;

    if (!first) {
        s.rows += r->rows;
        s.pruned += r->pruned;
        s.bound = fmax(s.bound, r->bound);
        s.cost += r->cost;
        s.seconds_scan += r->seconds_scan;
        s.seconds_compile += r->seconds_compile;
        s.seconds_run += r->seconds_run;
        s.workspace = s.workspace > r->workspace ? s.workspace : r->workspace;
    }
    *sum = s;
}

/* The three products, each a dense matrix.  All are in host memory, or all in device memory if C
 * is.  The matrices of a batch follow one another. */
struct three_products {
    limber_format f;
    char *data[3];
    void *on_device;
};

/* Allocates memory for the three products, in host memory or, if C is on the device, there. */
static bool allocate_products(const struct complex_product *x, struct three_products *p,
                              struct diag *d)
{
    enum { ALIGN = 256 };
    size_t bytes;

    p->f = limber_is_integer(x->c.format) ? i64 : x->c.format;
    if (!limber_device_holds(x->ctx, x->c.data)) {
        for (int i = 0; i < 3; i++)
            if (!(p->data[i] =
                      limber_complex_memory(x->ctx, x->m, x->n, p->f, "three products", d)))
                return false;
        return true;
    }
    if (__builtin_mul_overflow((size_t)x->m * (size_t)x->n, (size_t)p->f.size, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)limber_complex_products(x), &bytes) ||
        bytes > SIZE_MAX / 4)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for three products");
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!limber_device_alloc(x->ctx, &p->on_device, 3 * bytes, "three products", x->queue, d))
        return false;
    for (size_t i = 0; i < 3; i++)
        p->data[i] = (char *)p->on_device + i * bytes;
    return true;
}

/* Frees the three real products. */
static void free_products(const struct complex_product *x, struct three_products *p)
{
    if (p->on_device)
        limber_device_free(x->ctx, p->on_device, x->queue);
    for (int i = 0; i < 3 && !p->on_device; i++)
        limber_memory_free(&x->ctx->allocator, p->data[i]);
}

/* Computes one of the three real products. plane: RE, IM or SUM. first: this product's report is
 * stored, not added. */
static bool multiply_planes(const struct complex_product *x, const struct planes *a,
                            const struct planes *b, int plane, const struct three_products *to,
                            bool first, struct diag *d)
{
    const struct problem p = {
        /* fits_63_bits has checked that these products are exact */
        .contract = limber_three_products_part(&x->contract),
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .groups = limber_complex_products(x),
        .fa = plane == SUM ? a->sum_f : a->f,
        .fb = plane == SUM ? b->sum_f : b->f,
        .fc = to->f,
        .a = a->part[plane],
        .b = b->part[plane],
        .at.step_a = a->step[plane],
        .at.step_b = b->step[plane],
        .at.step_c = x->m * x->n,
        .at.each_a = a->each[plane],
        .at.each_b = b->each[plane],
        .c = { .data = to->data[plane], .row = x->n, .col = 1, .inner = x->n },
        .queue = x->queue,
    };
    struct report r;

    if (!limber_engine_run(x->ctx, &p, NULL, x->report ? &r : NULL, d))
        return false;
    if (x->report)
        add_reports(x->report, &r, first);
    return true;
}

/* Computes Re and Im of a result from the three products.  plus: exactly one operand is conjugated,
 * so that p[1], the product of the imaginary parts, is added to the real part. */
static void combine_integers(const uint64_t p[3], bool plus, uint64_t out[2])
{
    uint64_t second = plus ? 0 - p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

/* Computes Re and Im of a result from the three products, in FP64. plus: exactly one operand is
 * conjugated. */
static void combine_doubles(const double p[3], bool plus, double out[2])
{
    double second = plus ? -p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

/* Computes Re and Im of a result from the three products, in FP32. plus: exactly one operand is
 * conjugated. */
static void combine_floats(const float p[3], bool plus, float out[2])
{
    float second = plus ? -p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

/* Computes the terms of C from the three products of each element, in host memory. */
static void combine_on_host(const struct complex_product *x, const struct terms *t,
                            const struct three_products *p)
{
    bool plus = x->a.conj != x->b.conj;
    size_t size = t->f.size;
    union {
        uint64_t i[3];
        double d[3];
        float f[3];
    } in;
    union {
        uint64_t i[2];
        double d[2];
        float f[2];
    } out;

    for (int64_t e = 0; e < x->m * x->n; e++) {
        for (int i = 0; i < 3; i++)
            memcpy((char *)&in + (size_t)i * size, p->data[i] + (size_t)e * size, size);
        if (limber_is_integer(t->f))
            combine_integers(in.i, plus, out.i);
        else if (size == 8)
            combine_doubles(in.d, plus, out.d);
        else
            combine_floats(in.f, plus, out.f);
        memcpy(t->data + (size_t)(e * t->width) * size, &out, 2 * size);
    }
}

/* Computes the terms of C from the three products of each element, in host or device memory. */
static bool combine(const struct complex_product *x, const struct terms *t,
                    const struct three_products *p, struct diag *d)
{
    const struct pairs_call call = {
        .product = { p->data[RE], p->data[IM], p->data[SUM] },
        .count = limber_complex_products(x) * x->m * x->n,
        .width = t->width,
        .plus = x->a.conj != x->b.conj,
        .to = t->data,
    };

    if (p->on_device)
        return limber_device_pairs(x->ctx, &call, p->f, x->queue, d);
    combine_on_host(x, t, p);
    return true;
}

/* Computes the three real products. */
static bool multiply_all(const struct complex_product *x, const struct planes *a,
                         const struct planes *b, const struct three_products *p, struct diag *d)
{
    return multiply_planes(x, a, b, SUM, p, true, d) && multiply_planes(x, a, b, RE, p, false, d) &&
           multiply_planes(x, a, b, IM, p, false, d);
}

/* Makes the real matrices of both operands, multiplies them and computes the terms of C. */
static bool run_planes(const struct complex_product *x, struct planes *a, struct planes *b,
                       struct three_products *p, struct terms *t, struct diag *d)
{
    if (!make_planes(x, a, &x->a, x->m, x->k, true, d) ||
        !make_planes(x, b, &x->b, x->k, x->n, false, d) || !fits_63_bits(x, a, b, d) ||
        !allocate_products(x, p, d) || !multiply_all(x, a, b, p, d) || !limber_terms_new(t, x, d))
        return false;
    if (combine(x, t, p, d))
        return true;
    limber_terms_drop(t, x);
    return false;
}

/* Computes a complex product by three real ones: of the real parts, of the imaginary parts, and of
 * their sums. */
bool limber_complex_three(const struct complex_product *x, struct diag *d)
{
    struct planes a = { .most = 0 }, b = { .most = 0 };
    struct three_products p = { .on_device = NULL };
    struct terms t = { .width = 0 };
    double u = limber_is_integer(x->c.format) ? 0 : ldexp(1, -x->c.format.frac_bits - 1);
    bool ok = can_use_three_products(x, d) && run_planes(x, &a, &b, &p, &t, d);

    free_planes(x, &a);
    free_planes(x, &b);
    free_products(x, &p);
    if (!ok || !limber_terms_finish(&t, x, d))
        return false;
    if (x->report) /* error of the sums: docs/accuracy.md, "Complex matrices" */
        x->report->bound = 2 * x->report->bound + 7 * u;
    return true;
}
