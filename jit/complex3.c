/* SPDX-License-Identifier: BSD-3-Clause
 * Complex matrices by three real products (Karatsuba).  With s and t the signs of the imaginary
 * parts of A and B (-1 for a conjugate):
 *
 *     P1 = Re A Re B,   P2 = Im A Im B,   P3 = (Re A + s Im A) (Re B + t Im B)
 *     Re = P1 - s t P2,                   Im = P3 - P1 - s t P2
 *
 * Integers: sums are formed in the next wider format and the P modulo 2^64, so both parts are right
 * modulo 2^64, and right where they are known to be smaller.  Floats: docs/accuracy.md. */
#include "jit/complex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const limber_format i64 = { LIMBER_KIND_INT, 0, 0, 0, 0, 8, 0 };

/* One operand as three dense real matrices: its parts and their sum. */
struct planes {
    limber_format f, sum_f;
    int64_t rows, cols;
    char *re, *im, *sum;
    double most;                /* integers: no part is larger in magnitude */
};

static bool is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

static limber_format sum_format(limber_format f)
{
    static const char *const name[] = { [1] = "i16", [2] = "i32", [4] = "i64" };

    if (is_integer(f) && f.size < 8)
        limber_format_named(name[f.size], &f);
    return f;
}

static bool planes_new(struct planes *p, const struct pairs *x, int64_t rows, int64_t cols,
                       struct diag *d)
{
    p->f = x->m.format;
    p->sum_f = sum_format(p->f);
    p->rows = rows;
    p->cols = cols;
    p->re = limber_complex_room(rows, cols, p->f, "the real parts of an operand", d);
    p->im = limber_complex_room(rows, cols, p->f, "the imaginary parts of an operand", d);
    p->sum = limber_complex_room(rows, cols, p->sum_f, "the sums of an operand's parts", d);
    return p->re && p->im && p->sum;
}

static void planes_free(struct planes *p)
{
    free(p->re);
    free(p->im);
    free(p->sum);
}

static int64_t integer(const char *at, limber_format f)
{
    uint64_t v = 0;
    int unused = 64 - 8 * f.size;

    memcpy(&v, at, f.size);
    return f.kind == LIMBER_KIND_UINT ? (int64_t)v : (int64_t)(v << unused) >> unused;
}

/* Parts of 32 bits and fewer have sums in 64; of longer ones the sums are modulo 2^64. */
static void add_integers(struct planes *p, int64_t at, bool minus)
{
    int64_t re = integer(p->re + at * p->f.size, p->f), im = integer(p->im + at * p->f.size, p->f);
    uint64_t sum = minus ? (uint64_t)re - (uint64_t)im : (uint64_t)re + (uint64_t)im;

    memcpy(p->sum + at * p->sum_f.size, &sum, p->sum_f.size);
    p->most = fmax(p->most, fmax(fabs((double)re), fabs((double)im)));
}

static void add_floats(struct planes *p, int64_t at, bool minus)
{
    double x, y;
    float u, v;

    if (p->f.size == 8) {
        memcpy(&x, p->re + at * 8, 8);
        memcpy(&y, p->im + at * 8, 8);
        x = minus ? x - y : x + y;
        memcpy(p->sum + at * 8, &x, 8);
    } else {
        memcpy(&u, p->re + at * 4, 4);
        memcpy(&v, p->im + at * 4, 4);
        u = minus ? u - v : u + v;
        memcpy(p->sum + at * 4, &u, 4);
    }
}

static void split(struct planes *p, const struct pairs *x)
{
    size_t size = p->f.size;

    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->cols; j++) {
            const char *from = (const char *)x->m.data +
                               2 * (size_t)(i * x->m.row + j * x->m.col) * size;
            int64_t at = i * p->cols + j;

            memcpy(p->re + (size_t)at * size, from, size);
            memcpy(p->im + (size_t)at * size, from + size, size);
            if (is_integer(p->f))
                add_integers(p, at, x->conj);
            else
                add_floats(p, at, x->conj);
        }
}

/* ---- what three products can serve ----------------------------------------------------------- */

static bool is_float(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && !f.carried && !f.flags &&
           ((f.exp_bits == 11 && f.frac_bits == 52) || (f.exp_bits == 8 && f.frac_bits == 23));
}

static bool serves(const struct complex_product *x, struct diag *d)
{
    limber_format a = x->a.m.format, b = x->b.m.format, c = x->c.format;

    if (limber_remote_holds(x->ctx, x->a.m.data) || limber_remote_holds(x->ctx, x->b.m.data) ||
        limber_remote_holds(x->ctx, x->c.data))
        return limber_fail(d, LIMBER_NO_SCHEME,
                           "products = 3: matrices in a device's memory are multiplied by four");
    if (is_integer(a) && is_integer(b) && is_integer(c))
        return x->contract.promise == LIMBER_NATIVE || x->contract.promise == LIMBER_EXACT ||
               limber_fail(d, LIMBER_NO_SCHEME,
                           "products = 3: integers need contract.promise native or exact");
    if (!limber_format_equal(a, b) || !limber_format_equal(a, c) || !is_float(a))
        return limber_fail(d, LIMBER_NO_SCHEME,
                           "products = 3: a, b and c must be integers, all f32 or all f64");
    return x->contract.promise == LIMBER_FAST ||
           limber_fail(d, LIMBER_NO_SCHEME, "products = 3: the error of floats is bounded by norms "
                       "only, which contract.promise fast allows");
}

/* Both parts are below 2 k |a| |b|.  The doubles are at most 2^-50 off. */
static bool is_small(const struct complex_product *x, const struct planes *a,
                     const struct planes *b, struct diag *d)
{
    if (!is_integer(a->f) || x->contract.promise == LIMBER_NATIVE ||
        (a->most < 0x1p62 && b->most < 0x1p62 &&
         2 * (double)x->k * a->most * b->most < 0x1.fffp62))
        return true;
    return limber_fail(d, LIMBER_NO_SCHEME, "products = 3: sums of %lld products of these numbers "
                       "may exceed 63 bits", (long long)x->k);
}

/* ---- three products -------------------------------------------------------------------------- */

static void add_reports(limber_report *sum, const limber_report *r, bool first)
{
    limber_report s = first ? *r : *sum;

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

static bool multiply(const struct complex_product *x, const char *a, limber_format fa,
                     const char *b, limber_format fb, char *to, limber_format fc, bool first,
                     struct diag *d)
{
    struct problem p = {
        .contract = x->contract, .m = x->m, .n = x->n, .k = x->k, .groups = 1,
        .fa = fa, .fb = fb, .fc = fc, .a = { a, x->k, 1, NULL }, .b = { b, 1, x->n, NULL },
        .c = { .data = to, .row = x->n, .col = 1, .inner = x->n }, .queue = x->queue,
    };
    limber_report r;

    if (p.contract.promise == LIMBER_EXACT)     /* modulo 2^64, which is_small makes exact */
        p.contract.promise = LIMBER_NATIVE;
    if (!limber_engine_run(x->ctx, &p, x->report ? &r : NULL, d))
        return false;
    if (x->report)
        add_reports(x->report, &r, first);
    return true;
}

static void combine_integers(const uint64_t p[3], bool plus, uint64_t out[2])
{
    uint64_t second = plus ? 0 - p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

static void combine_doubles(const double p[3], bool plus, double out[2])
{
    double second = plus ? -p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

static void combine_floats(const float p[3], bool plus, float out[2])
{
    float second = plus ? -p[1] : p[1];

    out[0] = p[0] - second;
    out[1] = p[2] - p[0] - second;
}

static void combine(const struct complex_product *x, const struct terms *t, char *const p[3])
{
    bool plus = x->a.conj != x->b.conj;
    size_t size = t->f.size;
    union { uint64_t i[3]; double d[3]; float f[3]; } in;
    union { uint64_t i[2]; double d[2]; float f[2]; } out;

    for (int64_t e = 0; e < x->m * x->n; e++) {
        for (int i = 0; i < 3; i++)
            memcpy((char *)&in + (size_t)i * size, p[i] + (size_t)e * size, size);
        if (is_integer(t->f))
            combine_integers(in.i, plus, out.i);
        else if (size == 8)
            combine_doubles(in.d, plus, out.d);
        else
            combine_floats(in.f, plus, out.f);
        memcpy(t->data + (size_t)(e * t->width) * size, &out, 2 * size);
    }
}

static bool multiply_all(const struct complex_product *x, const struct planes *a,
                         const struct planes *b, char *const p[3], limber_format f,
                         struct diag *d)
{
    return multiply(x, a->sum, a->sum_f, b->sum, b->sum_f, p[2], f, true, d) &&
           multiply(x, a->re, a->f, b->re, b->f, p[0], f, false, d) &&
           multiply(x, a->im, a->f, b->im, b->f, p[1], f, false, d);
}

static bool run(const struct complex_product *x, struct planes *a, struct planes *b,
                char *p[3], struct terms *t, struct diag *d)
{
    limber_format f = is_integer(x->c.format) ? i64 : x->c.format;

    if (!planes_new(a, &x->a, x->m, x->k, d) || !planes_new(b, &x->b, x->k, x->n, d))
        return false;
    split(a, &x->a);
    split(b, &x->b);
    if (!is_small(x, a, b, d))
        return false;
    for (int i = 0; i < 3; i++)
        if (!(p[i] = limber_complex_room(x->m, x->n, f, "three products", d)))
            return false;
    if (!multiply_all(x, a, b, p, f, d) || !limber_terms_new(t, x, d))
        return false;
    combine(x, t, p);
    return true;
}

bool limber_complex_three(const struct complex_product *x, struct diag *d)
{
    struct planes a = { .most = 0 }, b = { .most = 0 };
    struct terms t = { .width = 0 };
    char *p[3] = { NULL };
    double u = is_integer(x->c.format) ? 0 : ldexp(1, -x->c.format.frac_bits - 1);
    bool ok = serves(x, d) && run(x, &a, &b, p, &t, d);

    planes_free(&a);
    planes_free(&b);
    for (int i = 0; i < 3; i++)
        free(p[i]);
    if (!ok || !limber_terms_finish(&t, x, d))
        return false;
    if (x->report)              /* docs/accuracy.md, section 11 */
        x->report->bound = 2 * x->report->bound + 7 * u;
    return true;
}
