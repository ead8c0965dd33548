/* SPDX-License-Identifier: BSD-3-Clause */
#include "order.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

static bool is(limber_format f, limber_format g)
{
    return limber_format_equal(f, g);
}

/* Returns the number of format f at p as a double, which must represent it. */
double order_load(limber_format f, const void *p)
{
    mpfr_t x;
    double v;
    float narrow;

    if (is(f, LIMBER_F64)) {
        memcpy(&v, p, sizeof v);
        return v;
    }
    if (is(f, LIMBER_F32)) {
        memcpy(&narrow, p, sizeof narrow);
        return (double)narrow;
    }
    mpfr_init2(x, 64);
    ref_load(x, f, p);
    v = mpfr_get_d(x, MPFR_RNDN);
    mpfr_clear(x);
    return v;
}

/* True if chains are summed in binary32, false if in binary64, for the formats that the tests
 * use. */
bool order_is_f32(limber_format a, limber_format b, limber_format c)
{
    return !is(a, LIMBER_F64) && !is(b, LIMBER_F64) && !is(c, LIMBER_F64);
}

/* Returns the dot product in the library's reproducible order: fused multiply-adds in chains of 256
 * terms, whose sums are added in turn.  is_f32: in binary32. */
double order_sum(bool is_f32, const double *a, const double *b, int64_t k)
{
    enum { CHAIN = 256 };
    double total = 0;

    for (int64_t from = 0; from < k; from += CHAIN) {
        double s = 0;

        for (int64_t p = from; p < k && p < from + CHAIN; p++)
            s = is_f32 ? (double)fmaf((float)a[p], (float)b[p], (float)s) : fma(a[p], b[p], s);
        total = from == 0 ? s : is_f32 ? (double)((float)total + (float)s) : total + s;
    }
    return total;
}

/* Stores alpha sum + beta C.  If alpha times the sum, or beta times C, overflows although the
 * inputs are finite, computes with scaled factors again. */
void order_store(limber_format f, void *c, double sum, const void *alpha, const void *beta)
{
    double by = alpha ? order_load(f, alpha) : 1, old = beta ? order_load(f, c) : 0, r = sum;
    double times = beta ? order_load(f, beta) : 0;
    float narrow;

    if (alpha)
        r = by * sum;
    if (beta) {
        r = fma(times, old, r);
        if (!isfinite(r) && isfinite(by) && isfinite(sum) && isfinite(times) && isfinite(old))
            r = ldexp(fma(ldexp(times, -512), ldexp(old, -512), ldexp(by, -512) * ldexp(sum, -512)),
                      1024);
    }
    if (is(f, LIMBER_F64)) {
        memcpy(c, &r, sizeof r);
    } else if (is(f, LIMBER_F32)) {
        narrow = (float)r;
        memcpy(c, &narrow, sizeof narrow);
    } else {
        assert_int_equal(limber_convert(c, f, &r, LIMBER_F64, 1, LIMBER_ROUND_NEAREST),
                         LIMBER_STATUS_OK);
    }
}

static const char *at(const void *data, limber_format f, int64_t offset)
{
    return (const char *)data + offset * f.size;
}

/* Computes a GEMM by plain loops, in the order of additions that docs/accuracy.md states. */
void order_gemm(const limber_problem *p)
{
    double *a = malloc((size_t)(p->k + 1) * sizeof *a), *b = malloc((size_t)(p->k + 1) * sizeof *b);
    bool is_f32 = order_is_f32(p->a.format, p->b.format, p->c.format);

    assert_non_null(a);
    assert_non_null(b);
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t q = 0; q < p->k; q++)
            b[q] = order_load(
                p->b.format, at(p->b.data, p->b.format, q * p->b.row_stride + j * p->b.col_stride));
        for (int64_t i = 0; i < p->m; i++) {
            for (int64_t q = 0; q < p->k; q++)
                a[q] = order_load(p->a.format, at(p->a.data, p->a.format,
                                                  i * p->a.row_stride + q * p->a.col_stride));
            order_store(p->c.format,
                        (char *)p->c.data +
                            (i * p->c.row_stride + j * p->c.col_stride) * p->c.format.size,
                        order_sum(is_f32, a, b, p->k), p->alpha, p->beta);
        }
    }
    free(a);
    free(b);
}
