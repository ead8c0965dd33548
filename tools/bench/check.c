/* SPDX-License-Identifier: BSD-3-Clause
 * Computes exact values of some elements of a product or convolution, and compares results with
 * them. */
#include "tools/bench/bench.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

/* SUM_BITS: precision of exact sums.  A product of two binary128 numbers has 226 bits, and the data
 * have so few binades that sums are exact, or so nearly that no contract notices.  PARTS: number of
 * doubles by which an element is decoded.  CORNER: rows and columns of a simulated result that are
 * checked. */
enum { SUM_BITS = 448, PARTS = 3, CORNER = 8 };

/* Exact values of some elements of the result, chosen at random. */
struct reference {
    /* [pick]: index in the result */
    int64_t place[PICKS];
    mpfr_t sum[PICKS];
    double scale[PICKS]; /* sum of |a b| over the element's products */
};

/* Returns the unit roundoff of a format; 0 for integers. */
static double unit_roundoff(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return 0x1p-104;
    return f.kind == LIMBER_KIND_FLOAT ? ldexp(1, -f.frac_bits - 1) : 0;
}

/* Converts an element exactly to *x.  Returns false if the element is NaN or infinite. */
static bool decode(mpfr_t x, limber_format f, const void *p)
{
    int64_t integer;
    double d;
    quad q;

    if (f.kind == LIMBER_KIND_INT && f.size == 8) { /* may have more bits than a double */
        memcpy(&integer, p, sizeof integer);
        mpfr_set_sj(x, integer, MPFR_RNDN);
        return true;
    }
    if (f.size < 16) {
        if (limber_convert(&d, format_of("f64"), p, f, 1, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
            return false;
        mpfr_set_d(x, d, MPFR_RNDN);
        return isfinite(d);
    }
    if (sizeof(quad) != 16 ||
        limber_convert(&q, format_of("f128"), p, f, 1, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return false;
    mpfr_set_zero(x, 1);
    for (int i = 0; i < PARTS; i++) {
        d = (double)q;
        q -= (quad)d;
        mpfr_add_d(x, x, d, MPFR_RNDN);
    }
    return mpfr_number_p(x) != 0;
}

/* State while the exact sum of one element is computed. */
struct sum {
    mpfr_ptr sum;
    double *scale;
    mpfr_t x, y, z;
    bool ok;
};

/* Adds a b to the exact sum, and |a b| to the sum of magnitudes. */
static void add_product(struct sum *s, const struct work *w, const void *a, const void *b)
{
    s->ok = s->ok && decode(s->x, w->fa, a) && decode(s->y, w->fb, b);
    if (!s->ok)
        return;
    mpfr_mul(s->z, s->x, s->y, MPFR_RNDN);
    mpfr_add(s->sum, s->sum, s->z, MPFR_RNDN);
    *s->scale += fabs(mpfr_get_d(s->z, MPFR_RNDN));
}

/* Returns the host address of element (row, col) of a tensor. */
static const void *element(const struct tensor *t, int64_t row, int64_t col)
{
    return (const char *)tensor_row(t, row) + col * t->format.size;
}

/* Adds the products whose sum is element `at` of C. */
static void add_gemm(struct sum *s, const struct work *w, const struct tensor *a,
                     const struct tensor *b, int64_t at)
{
    int64_t row = at / w->n, i = row % w->m, j = at % w->n, g = row / w->m;

    for (int64_t q = 0; q < w->k; q++)
        add_product(s, w, w->ta ? element(a, g * w->k + q, i) : element(a, row, q),
                    w->tb ? element(b, g * w->n + j, q) : element(b, g * w->k + q, j));
}

/* Sizes of a tensor without its outermost axis: channels, depth, height, width.  d is 1 in two
 * dimensions. */
struct extent {
    int64_t c, d, h, w;
};

/* Indices of an element of a tensor; row: image or filter. */
struct place {
    int64_t row, c, z, y, x;
};

/* Returns the index of an element within its image or filter. */
static int64_t pixel_index(bool nchw, const struct extent *e, const struct place *p)
{
    const int64_t at = (p->z * e->h + p->y) * e->w + p->x;

    return nchw ? p->c * e->d * e->h * e->w + at : at * e->c + p->c;
}

/* Converts an index of a tensor's element to its image, channel and pixel. */
static struct place place_of(bool nchw, const struct extent *e, int64_t at)
{
    const int64_t pixels = e->d * e->h * e->w, row = at / (e->c * pixels),
                  in = at % (e->c * pixels);
    const int64_t c = nchw ? in / pixels : in % e->c, p = nchw ? in % pixels : in / e->c;

    return (struct place){ row, c, p / (e->h * e->w), p / e->w % e->h, p % e->w };
}

/* Replaces a missing depth (0) by 1. */
static int64_t max_1(int64_t x)
{
    return x > 0 ? x : 1;
}

static struct extent image_extent(const limber_conv *s)
{
    return (struct extent){ s->c, s->t ? s->d : 1, s->h, s->w };
}

static struct extent filter_extent(const limber_conv *s)
{
    return (struct extent){ s->c / s->groups, max_1(s->t), s->r, s->s };
}

static struct extent output_extent(const limber_conv *s)
{
    struct extent e = { .c = s->o };

    limber_conv_output(s, &e.h, &e.w);
    limber_conv_output_depth(s, &e.d);
    return e;
}

/* Finds the pixel x of the image that element f of the window reads for output pixel y.  Returns
 * false if it is padding. */
static bool image_pixel(const limber_conv *s, const struct place *y, const struct place *f,
                        struct place *x)
{
    const struct extent e = image_extent(s);

    x->z = y->z * max_1(s->depth_stride) + f->z * max_1(s->depth_dilate) - s->depth_pad[0];
    x->y = y->y * s->stride[0] + f->y * s->dilate[0] - s->pad[0];
    x->x = y->x * s->stride[1] + f->x * s->dilate[1] - s->pad[2];
    return x->z >= 0 && x->z < e.d && x->y >= 0 && x->y < e.h && x->x >= 0 && x->x < e.w;
}

/* Adds the products of element `at` of a forward convolution's output. */
static void add_forward(struct sum *sum, const struct work *w, const struct tensor *a,
                        const struct tensor *b, int64_t at)
{
    const limber_conv *s = &w->conv;
    const bool nchw = s->layout == LIMBER_LAYOUT_NCHW;
    const struct extent image = image_extent(s), filter = filter_extent(s),
                        output = output_extent(s);
    const struct place y = place_of(nchw, &output, at);

    for (int64_t i = 0; i < filter.c * conv_window_size(s); i++) {
        const struct place f = place_of(true, &filter, i);
        struct place x = { .c = y.c / (s->o / s->groups) * filter.c + f.c };

        if (image_pixel(s, &y, &f, &x))
            add_product(sum, w, element(a, y.row, pixel_index(nchw, &image, &x)),
                        element(b, y.c, pixel_index(nchw, &filter, &f)));
    }
}

/* Finds the output pixel y for which element f of the window reads image pixel x.  Returns false if
 * there is none. */
static bool output_pixel(const limber_conv *s, const struct place *x, const struct place *f,
                         struct place *y)
{
    const struct extent e = output_extent(s);
    struct place back;

    y->z = (x->z + s->depth_pad[0] - f->z * max_1(s->depth_dilate)) / max_1(s->depth_stride);
    y->y = (x->y + s->pad[0] - f->y * s->dilate[0]) / s->stride[0];
    y->x = (x->x + s->pad[2] - f->x * s->dilate[1]) / s->stride[1];
    return y->z >= 0 && y->z < e.d && y->y >= 0 && y->y < e.h && y->x >= 0 && y->x < e.w &&
           image_pixel(s, y, f, &back) && back.z == x->z && back.y == x->y && back.x == x->x;
}

/* Adds the products of element `at` of the image's gradient.  A is the gradient of the output, B
 * the filters. */
static void add_backward_data(struct sum *sum, const struct work *w, const struct tensor *a,
                              const struct tensor *b, int64_t at)
{
    const limber_conv *s = &w->conv;
    const bool nchw = s->layout == LIMBER_LAYOUT_NCHW;
    const int64_t filters = s->o / s->groups, taps = conv_window_size(s);
    const struct extent image = image_extent(s), filter = filter_extent(s),
                        output = output_extent(s);
    const struct place x = place_of(nchw, &image, at);

    for (int64_t i = 0; i < filters * taps; i++) {
        struct place f = place_of(true, &filter, i % taps), y;

        f.c = x.c % filter.c;
        y.c = x.c / filter.c * filters + i / taps;
        if (output_pixel(s, &x, &f, &y))
            add_product(sum, w, element(a, x.row, pixel_index(nchw, &output, &y)),
                        element(b, y.c, pixel_index(nchw, &filter, &f)));
    }
}

/* Adds the products of element `at` of the filters' gradient.  A is the image, B the gradient of
 * the output. */
static void add_backward_filter(struct sum *sum, const struct work *w, const struct tensor *a,
                                const struct tensor *b, int64_t at)
{
    const limber_conv *s = &w->conv;
    const bool nchw = s->layout == LIMBER_LAYOUT_NCHW;
    const struct extent image = image_extent(s), filter = filter_extent(s),
                        output = output_extent(s);
    const int64_t pixels = output.d * output.h * output.w;
    const struct place f = place_of(nchw, &filter, at);

    for (int64_t i = 0; i < s->n * pixels; i++) {
        struct place y = place_of(true, &output, i % pixels), x;

        y.c = f.row;
        x.c = f.row / (s->o / s->groups) * filter.c + f.c;
        if (image_pixel(s, &y, &f, &x))
            add_product(sum, w, element(a, i / pixels, pixel_index(nchw, &image, &x)),
                        element(b, i / pixels, pixel_index(nchw, &output, &y)));
    }
}

/* Adds the products of element `at` of the result of any operation. */
static void add_terms(struct sum *s, const struct work *w, const struct tensor *a,
                      const struct tensor *b, int64_t at)
{
    switch (w->operation) {
    case LIMBER_OPERATION_GEMM: add_gemm(s, w, a, b, at); break;
    case LIMBER_OPERATION_CONV_FORWARD: add_forward(s, w, a, b, at); break;
    case LIMBER_OPERATION_CONV_BACKWARD_DATA: add_backward_data(s, w, a, b, at); break;
    case LIMBER_OPERATION_CONV_BACKWARD_FILTER: add_backward_filter(s, w, a, b, at); break;
    }
}

/* Index of the pick-th element to check: first the four corners of the result, then random ones. */
static int64_t choose_place(const struct work *w, int pick, uint64_t *state)
{
    int64_t count = w->batch * w->m * w->n, corners[] = { 0, w->n - 1, count - w->n, count - 1 };

    if (pick < 4)
        return corners[pick];
    return (int64_t)(random_bits(state) % (uint64_t)count);
}

/* Computes exact values of PICKS elements of the result.  NULL if an operand is not finite. */
struct reference *reference_make(const struct work *w, const struct tensor *a,
                                 const struct tensor *b)
{
    struct reference *r = calloc(1, sizeof *r);
    struct sum s = { .ok = r };
    uint64_t state = a->seed ^ 0x5bd1e995;

    mpfr_inits2(113, s.x, s.y, (mpfr_ptr)NULL);
    mpfr_init2(s.z, 226);
    for (int i = 0; r && i < PICKS; i++) {
        mpfr_init2(r->sum[i], SUM_BITS);
        mpfr_set_zero(r->sum[i], 1);
        r->place[i] = choose_place(w, i, &state);
        s.sum = r->sum[i];
        s.scale = &r->scale[i];
        add_terms(&s, w, a, b, r->place[i]);
    }
    mpfr_clears(s.x, s.y, s.z, (mpfr_ptr)NULL);
    if (s.ok)
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

/* ---- comparing results with the reference ---------------------------------------------------- */

/* The error |x - sum| that the promise allows, in units of u |A||B|, or of |A||B| for integers.
 * scale: |A||B|. */
static double allowed_error(const struct contender *c, double u, double sum, double scale)
{
    switch (c->promise) {
    case PROMISE_sum: return c->factor * (double)(c->work->k + 2);
    case PROMISE_bits: return (ldexp(1, -(int)c->factor) + u * fabs(sum) / scale) / u;
    case PROMISE_bound: return c->report.bound / u + fabs(sum) / scale;
    case PROMISE_loose: return ldexp(1, -(int)c->factor) / u;
    default: return 0;
    }
}

/* True if `got` is the sum rounded once, to nearest even. */
static bool is_rounded_once(mpfr_t got, const mpfr_t sum, limber_format f)
{
    mpfr_t x;
    bool same;

    mpfr_init2(x, f.frac_bits + 1);
    mpfr_set(x, sum, MPFR_RNDN);
    same = mpfr_equal_p(x, got) != 0;
    mpfr_clear(x);
    return same;
}

/* Checks one element, and keeps the largest error so far in units of u |A||B|.  Returns false if
 * the element breaks the promise. */
static bool check_element(const struct reference *r, struct contender *c, int pick, mpfr_t got,
                          mpfr_t error)
{
    limber_format f = c->now->fy;
    double u = unit_roundoff(f), scale = r->scale[pick], e, most;
    /* error that the contender's sums of integers may have, as a share of |A||B| */
    double lost = c->peer && c->peer->loss ? ldexp(1, -c->peer->loss) : 0;

    if (!decode(got, f, c->checked.got[pick])) {
        c->checked.error = INFINITY;
        return false;
    }
    mpfr_sub(error, got, r->sum[pick], MPFR_RNDN);
    e = fabs(mpfr_get_d(error, MPFR_RNDA));
    if (e > 0)
        e /= scale * (u > 0 ? u : 1);
    most =
        scale > 0 && u > 0 ? allowed_error(c, u, mpfr_get_d(r->sum[pick], MPFR_RNDN), scale) : lost;
    if (e >= c->checked.error) {
        c->checked.error = e;
        c->checked.allowed = most;
    }
    if (c->promise == PROMISE_rounded)
        return is_rounded_once(got, r->sum[pick], f);
    return e <= most;
}

/* Returns whether the checked elements have the bits of Limber's result.  All NaN are equal.
 * Otherwise sets the contender's state. */
static bool check_unit_bits(struct contender *c)
{
    const struct contender *limber = &c->work->list[0];

    for (int i = 0; c != limber && i < PICKS; i++) {
        float x, y;

        memcpy(&x, limber->checked.got[i], sizeof x);
        memcpy(&y, c->checked.got[i], sizeof y);
        if (x != y && !(isnan(x) && isnan(y)))
            return contender_set_state(c, STATE_wrong, "an element is %a, by Limber %a", (double)y,
                                       (double)x);
    }
    return true;
}

/* Checks all chosen elements of a result against their exact values.  Stores the largest error and,
 * if an element breaks the promise, the state `wrong`. */
bool reference_check(const struct reference *r, struct contender *c)
{
    mpfr_t got, error;
    int wrong = -1;

    if (c->promise == PROMISE_unit)
        return check_unit_bits(c);
    mpfr_inits2(SUM_BITS, got, error, (mpfr_ptr)NULL);
    for (int i = 0; i < PICKS; i++)
        if (!check_element(r, c, i, got, error) && wrong < 0)
            wrong = i;
    mpfr_clears(got, error, (mpfr_ptr)NULL);
    if (wrong >= 0)
        contender_set_state(c, STATE_wrong,
                            "row %lld, column %lld breaks its contract; largest error "
                            "%.3g, allowed %.3g",
                            (long long)(r->place[wrong] / c->work->n),
                            (long long)(r->place[wrong] % c->work->n), c->checked.error,
                            c->checked.allowed);
    return wrong < 0;
}

/* ---- comparing a simulated unit's bits and counters ------------------------------------------ */

/* Computes the leading CORNER rows and columns of the product. */
static bool compute_corner(struct contender *c, limber_context *ctx,
                           const limber_contract *contract, float *y)
{
    const struct work *w = c->work;
    const limber_format f = format_of("f32");
    limber_matrix a = { (void *)(uintptr_t)c->now->a, f, w->k, 1 };
    limber_matrix b = { (void *)(uintptr_t)c->now->b, f, w->n, 1 };

    return limber_gemm(ctx, contract, CORNER, CORNER, w->k, NULL, a, b, NULL,
                       (limber_output){ y, f, CORNER, 1 }, NULL) == LIMBER_STATUS_OK ||
           contender_set_state(c, STATE_failed, "%.160s", limber_error_text());
}

/* Returns whether the corner's statistics are those that the interpreter counted. */
static bool has_counts(struct contender *c, const limber_statistics *wanted)
{
    const limber_statistics *got = &c->work->statistics;

    if (got->nonzero == wanted->nonzero && got->mul_inexact == wanted->mul_inexact &&
        got->swamped == wanted->swamped && got->partly_swamped == wanted->partly_swamped)
        return true;
    return contender_set_state(c, STATE_wrong, "%lld sums of a corner are swamped, by interp %lld",
                               (long long)got->swamped, (long long)wanted->swamped);
}

/* Checks a simulated unit's result: its first CORNER rows and columns, and what it counted, must be
 * those of the interpreter. */
bool unit_check(struct contender *c)
{
    struct work *w = c->work;
    limber_statistics counts = { .size = sizeof(limber_statistics),
                                 .swamped_only = w->statistics.swamped_only };
    limber_contract plain = c->contract;
    limber_config config = {
        .size = sizeof(limber_config), .backend = "interp", .threads = 1, .cache_dir = ""
    };
    limber_context *ctx = NULL;
    float wanted[CORNER * CORNER], again[CORNER * CORNER];
    const float *y = c->now->y;
    bool ok;

    plain.statistics = w->counts ? &counts : NULL;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        return contender_set_state(c, STATE_failed, "%.160s", limber_error_text());
    ok = compute_corner(c, ctx, &plain, wanted);
    for (int i = 0; ok && i < CORNER; i++)
        if (memcmp(y + i * w->n, wanted + i * CORNER, CORNER * sizeof *y))
            ok = contender_set_state(c, STATE_wrong, "row %d has other bits than by interp", i);
    context_end(ctx);
    /* the corner is computed again by the context under test, for its statistics */
    return ok && (!w->counts ||
                  (compute_corner(c, c->ctx, &c->contract, again) && has_counts(c, &counts)));
}
