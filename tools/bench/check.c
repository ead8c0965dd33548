/* SPDX-License-Identifier: BSD-3-Clause
 * Exact values of some elements of a product or convolution, and results compared with them. */
#include "tools/bench/bench.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

/* Products of the widest operands have 226 bits; data spans few enough binades for sums of them to
 * lose nothing, or nothing that a contract could tell. */
enum { SUM_BITS = 448, PARTS = 3, CORNER = 8 };

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

/* 0: exact. */
static double unit_roundoff(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return 0x1p-104;
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

static bool vectors_start(struct vectors *v, const struct work *w)
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

static void gather(struct vectors *v, const void *a, const void *b)
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

static void gather_gemm(struct vectors *v, const struct work *w, const struct tensor *a,
                        const struct tensor *b, int64_t at)
{
    int64_t i = at / w->n, j = at % w->n;

    for (int64_t q = 0; q < w->k; q++)
        gather(v, w->ta ? element(a, q, i) : element(a, i, q),
               w->tb ? element(b, j, q) : element(b, q, j));
}

/* Rows are images and filters. */
static void gather_conv(struct vectors *v, const struct work *w, const struct tensor *a,
                        const struct tensor *b, int64_t at)
{
    const limber_conv *s = &w->conv;
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
        gather(v,
               element(a, image, nchw ? (ch * s->h + iy) * s->w + ix : (iy * s->w + ix) * c + ch),
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

static void set_sum(mpfr_t x, double *const *parts, int count, int64_t i)
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
        set_sum(x, v->x, pa, i);
        set_sum(y, v->y, pb, i);
        mpfr_mul(z, x, y, MPFR_RNDN);
        mpfr_add(r->sum[pick], r->sum[pick], z, MPFR_RNDN);
        r->scale[pick] += fabs(v->x[0][i] * v->y[0][i]);
    }
    mpfr_clears(x, y, z, (mpfr_ptr)NULL);
    return true;
}

/* The corners, then anywhere. */
static int64_t place(const struct work *w, int pick, uint64_t *state)
{
    int64_t corners[] = { 0, w->n - 1, (w->m - 1) * w->n, w->m * w->n - 1 };

    if (pick < 4)
        return corners[pick];
    return (int64_t)(random_bits(state) % (uint64_t)(w->m * w->n));
}

struct reference *reference_make(const struct work *w, const struct tensor *a,
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
        if (w->is_conv)
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
    bool wide = f.size >= 8 && f.kind == LIMBER_KIND_INT, ok;
    int64_t integer;
    quad q;

    if (wide) { /* i64 has more bits than a double */
        memcpy(&integer, p, sizeof integer);
        mpfr_set_sj(x, integer, MPFR_RNDN);
        return true;
    }
    ok = spread(parts, &q, f, p, 1) && isfinite(part[0]);
    if (ok)
        set_sum(x, parts, parts_of(f), 0);
    return ok;
}

/* What the promise allows of |x - sum|, in units of u |A||B| (integers: of |A||B|). */
static double allowed(const struct contender *c, double u, double sum, double scale)
{
    switch (c->promise) {
    case PROMISE_sum: return c->factor * (double)(c->work->k + 2);
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
static bool compare(const struct reference *r, struct contender *c, int pick, mpfr_t got,
                    mpfr_t error)
{
    limber_format f = c->now->fy;
    double u = unit_roundoff(f), scale = r->scale[pick], e, most;

    if (!load(got, f, c->got[pick])) {
        c->error = INFINITY;
        return false;
    }
    mpfr_sub(error, got, r->sum[pick], MPFR_RNDN);
    e = fabs(mpfr_get_d(error, MPFR_RNDA));
    if (e > 0)
        e /= scale * (u > 0 ? u : 1);
    most = scale > 0 && u > 0 ? allowed(c, u, mpfr_get_d(r->sum[pick], MPFR_RNDN), scale) : 0;
    if (e >= c->error) {
        c->error = e;
        c->allowed = most;
    }
    if (c->promise == PROMISE_rounded)
        return rounded(got, r->sum[pick], f);
    return e <= most;
}

/* Bit by bit, but for NaN, with what Limber found. */
static bool same_as_unit(struct contender *c)
{
    const struct contender *limber = &c->work->list[0];

    for (int i = 0; c != limber && i < PICKS; i++) {
        float x, y;

        memcpy(&x, limber->got[i], sizeof x);
        memcpy(&y, c->got[i], sizeof y);
        if (x != y && !(isnan(x) && isnan(y)))
            return contender_stop(c, STATE_wrong, "an element is %a, by Limber %a", (double)y,
                                  (double)x);
    }
    return true;
}

bool reference_check(const struct reference *r, struct contender *c)
{
    mpfr_t got, error;
    int wrong = -1;

    if (c->promise == PROMISE_unit)
        return same_as_unit(c);
    mpfr_inits2(SUM_BITS, got, error, (mpfr_ptr)NULL);
    for (int i = 0; i < PICKS; i++)
        if (!compare(r, c, i, got, error) && wrong < 0)
            wrong = i;
    mpfr_clears(got, error, (mpfr_ptr)NULL);
    if (wrong >= 0)
        contender_stop(c, STATE_wrong,
                       "row %lld, column %lld breaks its contract; largest error "
                       "%.3g, allowed %.3g",
                       (long long)(r->place[wrong] / c->work->n),
                       (long long)(r->place[wrong] % c->work->n), c->error, c->allowed);
    return wrong < 0;
}

/* ---- simulated units ------------------------------------------------------------------------- */

/* A corner of the product, CORNER x CORNER. */
static bool corner_of(struct contender *c, limber_context *ctx, const limber_contract *contract,
                      float *y)
{
    const struct work *w = c->work;
    const limber_format f = format_of("f32");
    limber_matrix a = { (void *)(uintptr_t)c->now->a, f, w->k, 1 };
    limber_matrix b = { (void *)(uintptr_t)c->now->b, f, w->n, 1 };

    return limber_gemm(ctx, contract, CORNER, CORNER, w->k, NULL, a, b, NULL,
                       (limber_matrix){ y, f, CORNER, 1 }, NULL) == LIMBER_STATUS_OK ||
           contender_stop(c, STATE_failed, "%.160s", limber_error_text());
}

static bool same_counts(struct contender *c, const limber_statistics *wanted)
{
    const limber_statistics *got = &c->work->statistics;

    if (got->nonzero == wanted->nonzero && got->mul_inexact == wanted->mul_inexact &&
        got->swamped == wanted->swamped && got->partly_swamped == wanted->partly_swamped)
        return true;
    return contender_stop(c, STATE_wrong, "%lld sums of a corner are swamped, by interp %lld",
                          (long long)got->swamped, (long long)wanted->swamped);
}

bool unit_check(struct contender *c)
{
    struct work *w = c->work;
    limber_statistics counts = { .swamped_only = w->statistics.swamped_only };
    limber_contract plain = c->contract;
    limber_config config = { .backend = "interp", .threads = 1, .cache_dir = "" };
    limber_context *ctx = NULL;
    float wanted[CORNER * CORNER], again[CORNER * CORNER];
    const float *y = c->now->y;
    bool ok;

    plain.statistics = w->counts ? &counts : NULL;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        return contender_stop(c, STATE_failed, "%.160s", limber_error_text());
    ok = corner_of(c, ctx, &plain, wanted);
    for (int i = 0; ok && i < CORNER; i++)
        if (memcmp(y + i * w->n, wanted + i * CORNER, CORNER * sizeof *y))
            ok = contender_stop(c, STATE_wrong, "row %d has other bits than by interp", i);
    context_end(ctx);
    /* the counts on the context that is measured */
    return ok &&
           (!w->counts || (corner_of(c, c->ctx, &c->contract, again) && same_counts(c, &counts)));
}
