/* SPDX-License-Identifier: BSD-3-Clause
 * Exact values of some elements of a product or convolution, and results compared with them. */
#include "tools/bench/gpu.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

/* Products of the widest operands have 226 bits; data spans few enough binades for sums of them to
 * lose nothing, or nothing that a contract could tell. */
enum { SUM_BITS = 448, PARTS = 3 };

struct reference {
    int64_t place[PICKS];
    mpfr_t sum[PICKS];
    double scale[PICKS];        /* |A||B| */
};

/* What one element multiplies, each number as a sum of doubles. */
struct vectors {
    int64_t count, room;
    char *a, *b;                /* gathered, as stored */
    double *x[PARTS], *y[PARTS];
    quad *wide;
    limber_format fa, fb;
};

double unit_roundoff(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT ? ldexp(1, -f.frac_bits - 1) : 0;
}

static int parts_of(limber_format f)
{
    return f.size == 16 ? PARTS : 1;
}

static void vectors_end(struct vectors *v)
{
    free(v->a);
    free(v->b);
    free(v->wide);
    free(v->x[0]);
}

static bool vectors_start(struct vectors *v, const struct gpu_work *w)
{
    size_t n = (size_t)w->k;

    *v = (struct vectors){ .room = w->k, .fa = w->fa, .fb = w->fb };
    v->a = malloc(n * w->fa.size + 1);
    v->b = malloc(n * w->fb.size + 1);
    v->wide = malloc(n * sizeof(quad) + 1);
    v->x[0] = malloc(2 * PARTS * n * sizeof(double) + 1);
    if (!v->a || !v->b || !v->wide || !v->x[0])
        return false;
    for (int i = 0; i < PARTS; i++) {
        v->x[i] = v->x[0] + (size_t)i * n;
        v->y[i] = v->x[0] + (size_t)(PARTS + i) * n;
    }
    return true;
}

static void take(struct vectors *v, const void *a, const void *b)
{
    memcpy(v->a + v->count * v->fa.size, a, v->fa.size);
    memcpy(v->b + v->count * v->fb.size, b, v->fb.size);
    v->count++;
}

/* Element (row,col) of a tensor on the host. */
static const void *element(const struct tensor *t, int64_t row, int64_t col)
{
    return (const char *)tensor_row(t, row) + col * t->format.size;
}

static void gather_gemm(struct vectors *v, const struct gpu_work *w, const struct tensor *a,
                        const struct tensor *b, int64_t at)
{
    int64_t i = at / w->n, j = at % w->n;
    const char *row = tensor_row(a, i);

    for (int64_t q = 0; q < w->k; q++)
        take(v, row + q * w->fa.size, w->tb ? element(b, j, q) : element(b, q, j));
}

/* Rows are images and filters. */
static void gather_conv(struct vectors *v, const struct gpu_work *w, const struct tensor *a,
                        const struct tensor *b, int64_t at)
{
    const limber_conv *s = w->conv;
    bool nchw = s->layout == LIMBER_LAYOUT_NCHW;
    int64_t oh = 0, ow = 0, x, y, o, image, c = s->c;

    limber_conv_output(s, &oh, &ow);
    image = at / (s->o * oh * ow);
    x = nchw ? at % ow : at / s->o % ow;
    y = nchw ? at / ow % oh : at / (s->o * ow) % oh;
    o = nchw ? at / (ow * oh) % s->o : at % s->o;
    for (int64_t d = 0; d < c * s->r * s->s; d++) {
        int64_t ch = d / (s->r * s->s), i = d / s->s % s->r, j = d % s->s;
        int64_t iy = y * s->stride[0] + i - s->pad[0], ix = x * s->stride[1] + j - s->pad[2];

        if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w)
            continue;
        take(v, element(a, image, nchw ? (ch * s->h + iy) * s->w + ix : (iy * s->w + ix) * c + ch),
             element(b, o, nchw ? d : (i * s->s + j) * c + ch));
    }
}

/* The parts of count numbers in format f; sums of them are exact. */
static bool spread(double **parts, quad *wide, limber_format f, const void *in, int64_t count)
{
    size_t n = (size_t)count;

    if (parts_of(f) == 1)
        return limber_convert(parts[0], format_of("f64"), in, f, n, LIMBER_ROUND_NEAREST) ==
               LIMBER_STATUS_OK;
    if (sizeof(quad) != 16 ||
        limber_convert(wide, format_of("f128"), in, f, n, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        for (int p = 0; p < PARTS; p++) {
            parts[p][i] = (double)wide[i];
            wide[i] -= (quad)parts[p][i];
        }
    return true;
}

static void set_parts(mpfr_t x, double *const *parts, int count, int64_t i)
{
    mpfr_set_d(x, parts[0][i], MPFR_RNDN);
    for (int p = 1; p < count; p++)
        mpfr_add_d(x, x, parts[p][i], MPFR_RNDN);
}

static bool add_products(struct reference *r, int pick, struct vectors *v)
{
    int pa = parts_of(v->fa), pb = parts_of(v->fb);
    mpfr_t x, y, z;

    if (!spread(v->x, v->wide, v->fa, v->a, v->count) ||
        !spread(v->y, v->wide, v->fb, v->b, v->count))
        return false;
    mpfr_init2(x, pa == 1 ? 53 : 113);
    mpfr_init2(y, pb == 1 ? 53 : 113);
    mpfr_init2(z, 226);
    for (int64_t i = 0; i < v->count; i++) {
        set_parts(x, v->x, pa, i);
        set_parts(y, v->y, pb, i);
        mpfr_mul(z, x, y, MPFR_RNDN);
        mpfr_add(r->sum[pick], r->sum[pick], z, MPFR_RNDN);
        r->scale[pick] += fabs(v->x[0][i] * v->y[0][i]);
    }
    mpfr_clears(x, y, z, (mpfr_ptr)NULL);
    return true;
}

/* The corners, then anywhere. */
static int64_t place(const struct gpu_work *w, int pick, uint64_t *state)
{
    int64_t corners[] = { 0, w->n - 1, (w->m - 1) * w->n, w->m * w->n - 1 };

    if (pick < 4)
        return corners[pick];
    return (int64_t)(random_bits(state) % (uint64_t)(w->m * w->n));
}

struct reference *reference_make(const struct gpu_work *w, const struct tensor *a,
                                 const struct tensor *b)
{
    struct reference *r = calloc(1, sizeof *r);
    struct vectors v = { 0 };
    uint64_t state = a->seed ^ 0x5bd1e995;
    bool ok = r && vectors_start(&v, w);

    for (int i = 0; r && i < PICKS; i++) {
        mpfr_init2(r->sum[i], SUM_BITS);
        mpfr_set_zero(r->sum[i], 1);
        r->place[i] = place(w, i, &state);
        v.count = 0;
        if (!ok)
            continue;
        if (w->conv)
            gather_conv(&v, w, a, b, r->place[i]);
        else
            gather_gemm(&v, w, a, b, r->place[i]);
        ok = add_products(r, i, &v);
    }
    vectors_end(&v);
    if (ok)
        return r;
    reference_free(r);
    return NULL;
}

void reference_free(struct reference *r)
{
    for (int i = 0; r && i < PICKS; i++)
        mpfr_clear(r->sum[i]);
    free(r);
}

int64_t reference_place(const struct reference *r, int pick)
{
    return r->place[pick];
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* False for what is no number. */
static bool load(mpfr_t x, limber_format f, const void *p)
{
    double part[PARTS] = { 0 };
    double *parts[PARTS] = { &part[0], &part[1], &part[2] };
    bool wide = f.size >= 8 && f.kind != LIMBER_KIND_FLOAT, ok;
    int64_t integer;
    quad q;

    if (wide) { /* i64 has more bits than a double */
        memcpy(&integer, p, sizeof integer);
        mpfr_set_sj(x, integer, MPFR_RNDN);
        return true;
    }
    ok = spread(parts, &q, f, p, 1) && isfinite(part[0]);
    if (ok)
        set_parts(x, parts, parts_of(f), 0);
    return ok;
}

/* What the promise allows of |x - sum|, in units of u |A||B| (integers: of |A||B|). */
static double allowed(const struct contender *c, const struct gpu_work *w, double sum, double scale)
{
    double u = unit_roundoff(w->fc);

    switch (c->promise) {
    case PROMISE_sum: return c->factor * (double)(w->k + 2);
    case PROMISE_bits: return (ldexp(1, -(int)c->factor) + u * fabs(sum) / scale) / u;
    case PROMISE_bound: return c->report.bound / u + fabs(sum) / scale;
    case PROMISE_loose: return ldexp(1, -(int)c->factor) / u;
    default: return 0;
    }
}

static bool rounded(mpfr_t got, const mpfr_t sum, limber_format f)
{
    mpfr_t x;
    bool same;

    mpfr_init2(x, f.frac_bits + 1);
    mpfr_set(x, sum, MPFR_RNDN);
    same = mpfr_equal_p(x, got) != 0;
    mpfr_clear(x);
    return same;
}

/* One element: its error in units of u |A||B|; false when it breaks the promise. */
static bool compare(const struct reference *r, const struct gpu_work *w, struct contender *c,
                    int pick, mpfr_t got, mpfr_t error)
{
    double u = unit_roundoff(w->fc), scale = r->scale[pick], e, most;

    if (!load(got, w->fc, c->got[pick])) {
        c->error = INFINITY;
        return false;
    }
    mpfr_sub(error, got, r->sum[pick], MPFR_RNDN);
    e = fabs(mpfr_get_d(error, MPFR_RNDA));
    if (e > 0)
        e /= scale * (u > 0 ? u : 1);
    most = scale > 0 && u > 0 ? allowed(c, w, mpfr_get_d(r->sum[pick], MPFR_RNDN), scale) : 0;
    if (e >= c->error) {
        c->error = e;
        c->allowed = most;
    }
    if (c->promise == PROMISE_rounded)
        return rounded(got, r->sum[pick], w->fc);
    return e <= most;
}

bool reference_check(const struct reference *r, const struct gpu_work *w, struct contender *c)
{
    mpfr_t got, error;
    int wrong = -1;

    mpfr_inits2(SUM_BITS, got, error, (mpfr_ptr)NULL);
    for (int i = 0; i < PICKS; i++)
        if (!compare(r, w, c, i, got, error) && wrong < 0)
            wrong = i;
    mpfr_clears(got, error, (mpfr_ptr)NULL);
    if (wrong >= 0)
        contender_stop(c, STATE_wrong,
                       "row %lld, column %lld breaks its contract; largest error "
                       "%.3g, allowed %.3g",
                       (long long)(r->place[wrong] / w->n), (long long)(r->place[wrong] % w->n),
                       c->error, c->allowed);
    return wrong < 0;
}
