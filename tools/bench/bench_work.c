/* SPDX-License-Identifier: BSD-3-Clause
 * One row's measuring: operands, Limber and peers in turn, and the comparison of all results.
 * Nothing is timed that was not checked. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 24, MOST_RUNS = 99, MOST_COMPARED = 1 << 20 };
static const double budget = 12;    /* seconds; beyond it three runs are enough */

/* ---- data ------------------------------------------------------------------------------------ */

/* A multiple of 2^-53 in (-1,1). */
static double uniform(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    double x = (double)(bits >> 11) * 0x1p-53;

    return bits & 1 ? -x : x;
}

static double float_value(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    double x = ldexp((double)(bits >> 41 | 1 << 23), (int)(bits & 3) - 24);

    return bits & 4 ? -x : x;
}

static double integer(uint64_t *state, int bits)
{
    double most = ldexp(1, bits) - 1, x = floor(fabs(uniform(state)) * (most + 1));

    return random_bits(state) & 1 ? -x : x;
}

static double value(const struct work *w, uint64_t *state)
{
    switch (w->data) {
    case NORMAL: return random_normal(state);
    case FLOATS: return float_value(state);
    case INTEGERS: return integer(state, w->bits);
    default: return uniform(state);
    }
}

static void fill_quad(quad *x, size_t count, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (quad)uniform(state) + (quad)uniform(state) * (quad)0x1p-60;
}

static size_t elements(const struct work *w)
{
    return (size_t)w->n * (size_t)w->n;
}

/* Fills one operand in format f; unsigned ones get absolute values. */
static bool fill(const struct work *w, limber_format f, void *out, uint64_t seed)
{
    size_t count = elements(w);
    bool wide = w->data == UNIFORM_QUAD;
    void *x = malloc(count * (wide ? sizeof(quad) : sizeof(double)));
    bool ok = x != NULL;

    if (ok && wide)
        fill_quad(x, count, &seed);
    for (size_t i = 0; ok && !wide && i < count; i++) {
        ((double *)x)[i] = value(w, &seed);
        if (f.kind == LIMBER_KIND_UINT)
            ((double *)x)[i] = fabs(((double *)x)[i]);
    }
    ok = ok && limber_convert(out, f, x, format_of(wide ? "f128" : "f64"), count,
                              LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK;
    free(x);
    return ok;
}

/* ---- contenders ------------------------------------------------------------------------------ */

struct operands {
    void *a, *b;
};

struct contender {
    const struct own *own; /* or */
    const struct peer *peer;
    struct call call;
    void *state; /* NULL until prepared */
    double seconds[MOST_RUNS];
};

struct ring {
    const struct work *w;
    void *a, *b, *c; /* Limber's */
    double *na, *nb; /* norms of rows of A and columns of B */
    struct operands of[KINDS]; /* the peers' */
    void *result[KINDS];
    struct contender *list;
    int count;
    int pieces; /* calls in one timing */
    limber_report report;
    double run_seconds[MOST_RUNS];
};

static limber_matrix matrix(void *data, limber_format f, int n, bool transposed)
{
    return (limber_matrix){ data, f, transposed ? 1 : n, transposed ? n : 1 };
}

typedef void bound_d(int, int, int, int, int, int, double, const void *, int, const void *, int,
                     double, void *, int);
typedef void bound_s(int, int, int, int, int, int, float, const void *, int, const void *, int,
                     float, void *, int);

static bool call_own(struct ring *r, const struct own *o)
{
    const struct work *w = r->w;
    int n = w->n;

    if (o->shape) {
        o->shape(r->a, r->b, r->c);
        return true;
    }
    if (o->bound && w->fc.size == 8) {
        ((bound_d *)o->bound)(101, 111, 111, n, n, n, 1, r->a, n, r->b, n, 0, r->c, n);
        return true;
    }
    if (o->bound) {
        ((bound_s *)o->bound)(101, 111, 111, n, n, n, 1, r->a, n, r->b, n, 0, r->c, n);
        return true;
    }
    return limber_gemm(o->ctx, &w->contract, n, n, n, NULL, matrix(r->a, w->fa, n, w->ta),
                       matrix(r->b, w->fb, n, w->tb), NULL, matrix(r->c, w->fc, n, false),
                       &r->report) == LIMBER_STATUS_OK;
}

static bool call_once(struct ring *r, const struct contender *c)
{
    if (c->own)
        return call_own(r, c->own);
    c->peer->run(c->state);
    return true;
}

/* Other libraries' threads spin for a while after their work and would disturb the next. */
static void settle(const struct work *w)
{
    if (w->threads > 1)
        nanosleep(&(struct timespec){ 0, 40000000 }, NULL);
}

/* Seconds of one call; negative when it failed. */
static double time_one(struct ring *r, const struct contender *c)
{
    double start;

    settle(r->w);
    start = now();
    for (int i = 0; i < r->pieces; i++)
        if (!call_once(r, c))
            return -1;
    return (now() - start) / r->pieces;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static quad load_quad(const void *data, limber_format f, size_t at)
{
    quad x = 0;
    double d = 0;

    if (sizeof(quad) == 16 &&
        limber_convert(&x, format_of("f128"), (const char *)data + at * f.size, f, 1,
                       LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK)
        return x;
    limber_convert(&d, format_of("f64"), (const char *)data + at * f.size, f, 1,
                   LIMBER_ROUND_NEAREST);
    return (quad)d;
}

static double unit_of(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return 0x1p-104;
    return f.kind == LIMBER_KIND_FLOAT ? ldexp(1, -f.frac_bits - 1) : 0;
}

static quad magnitude(quad x)
{
    return x < 0 ? -x : x;
}

/* One element against the sum in binary128: the error, of what the contract allows. */
static double element_error(const struct ring *r, int i, int j)
{
    const struct work *w = r->w;
    size_t n = (size_t)w->n, u = (size_t)i, v = (size_t)j;
    quad sum = 0, scale = 0, error, allowed, got = load_quad(r->c, w->fc, u * n + v);
    double unit = unit_of(w->fc);

    for (size_t k = 0; k < n; k++) {
        quad p = load_quad(r->a, w->fa, w->ta ? k * n + u : u * n + k) *
                 load_quad(r->b, w->fb, w->tb ? v * n + k : k * n + v);

        sum += p;
        scale += magnitude(p);
    }
    error = magnitude(got - sum);
    if (w->contract.promise == LIMBER_CONTRACT_CORRECT)
        allowed = magnitude(sum) * (quad)unit;
    else
        allowed = scale * (quad)((double)(n + 2) * unit);
    /* what the sum in binary128 may be off by itself; integers are exact in it */
    if (unit > 0)
        allowed += scale * (quad)((double)(n + 2) * 0x1p-112);
    return error == 0 ? 0 : allowed == 0 ? HUGE_VAL : (double)(error / allowed);
}

static bool check_samples(const struct ring *r)
{
    uint64_t state = 7;

    for (int s = 0; s < SAMPLES; s++) {
        int i = (int)(random_bits(&state) % (unsigned)r->w->n);
        int j = (int)(random_bits(&state) % (unsigned)r->w->n);
        double e = element_error(r, i, j);

        if (!(e <= 1)) {
            complain("bench: %s, n = %d: element (%d,%d) is wrong: %.3g times what the contract "
                     "allows",
                     r->w->what, r->w->n, i, j, e);
            return false;
        }
    }
    return true;
}

/* Euclidean norms of the rows of op(A), or of the columns of op(B): |A||B| is below their
 * products. */
static double *norms(const struct work *w, const void *data, limber_format f, bool rows)
{
    size_t n = (size_t)w->n, count = n * n;
    double *x = malloc(count * sizeof *x), *out = calloc(n, sizeof *out);
    bool ok = x && out &&
              limber_convert(x, format_of("f64"), data, f, count, LIMBER_ROUND_NEAREST) ==
                  LIMBER_STATUS_OK;

    for (size_t i = 0; ok && i < n; i++)
        for (size_t j = 0; j < n; j++)
            out[rows ? i : j] += x[i * n + j] * x[i * n + j];
    for (size_t i = 0; ok && i < n; i++)
        out[i] = sqrt(out[i]);
    free(x);
    if (!ok) {
        free(out);
        return NULL;
    }
    return out;
}

/* Row i of both results; the largest error, of what both may be off by together. */
static double row_error(const struct ring *r, const quad *x, const quad *y, double unit, int i)
{
    double worst = 0;
    int n = r->w->n;

    for (int j = 0; j < n; j++) {
        quad error = magnitude(x[j] - y[j]);
        double allowed = (n + 2) * unit * r->na[i] * r->nb[j], e;

        if (error == 0)
            continue;
        e = allowed == 0 ? HUGE_VAL : (double)error / allowed;
        worst = e > worst || e != e ? e : worst;
    }
    return worst;
}

/* The peer's result against Limber's: all rows of small matrices, evenly spread ones of large. */
static bool compare(const struct ring *r, const struct contender *c, double *worst)
{
    const struct work *w = r->w;
    enum kind k = c->peer->kind;
    double unit = unit_of(w->fc) + kind_unit(k);
    size_t n = (size_t)w->n, step = n * n / MOST_COMPARED + 1;
    quad *x = malloc(2 * n * sizeof *x), *y = x ? x + n : NULL;
    limber_format f = format_of("f128");
    bool ok = x && sizeof(quad) == 16;

    *worst = 0;
    for (size_t i = 0; ok && i < n; i += step) {
        double e;

        ok = limber_convert(x, f, (char *)r->c + i * n * w->fc.size, w->fc, n,
                            LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK &&
             limber_convert(y, f, (char *)c->call.c + i * n * kind_c(k).size, kind_c(k), n,
                            LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK;
        e = ok ? row_error(r, x, y, unit, (int)i) : 0;
        *worst = e > *worst || e != e ? e : *worst;
    }
    free(x);
    if (!ok)
        complain("bench: %s, n = %d: the results could not be compared", w->what, w->n);
    else if (!(*worst <= 1))
        complain("bench: %s, n = %d: Limber and %s differ by %.3g times what both may be off by",
                 w->what, w->n, c->peer->name, *worst);
    return ok && *worst <= 1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool operands_of(struct ring *r, enum kind k)
{
    const struct work *w = r->w;
    size_t count = elements(w);
    limber_format fa = kind_a(k), fb = kind_b(k), fc = kind_c(k);
    struct operands *o = &r->of[k];

    if (r->result[k])
        return true;
    o->a = malloc(count * fa.size);
    o->b = malloc(count * fb.size);
    r->result[k] = calloc(count, fc.size);
    return o->a && o->b && r->result[k] &&
           limber_convert(o->a, fa, r->a, w->fa, count, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK &&
           limber_convert(o->b, fb, r->b, w->fb, count, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK;
}

static bool takes_part(const struct work *w, const struct peer *p)
{
    if (w->only)
        return p == w->only;
    return (w->kinds >> p->kind & 1) && (!p->largest || w->n <= p->largest) &&
           !(p->plain && (w->ta || w->tb));
}

static bool join(struct ring *r, const struct peer *p)
{
    struct contender *c = &r->list[r->count];

    if (!operands_of(r, p->kind))
        return false;
    c->peer = p;
    c->call = (struct call){ r->w->n,          r->w->ta,         r->w->tb,
                             r->of[p->kind].a, r->of[p->kind].b, r->result[p->kind] };
    c->state = p->prepare ? p->prepare(&c->call) : &c->call;
    if (!c->state)
        return true; /* it has no kernel for this: its ratio is left out */
    r->count++;
    return true;
}

static bool enter(struct ring *r, const struct work *w)
{
    const struct peer *peers;
    int n = peers_list(&peers);
    size_t count = elements(w);

    r->w = w;
    r->pieces = 1;
    r->list = calloc(MOST_PEERS + 2, sizeof *r->list);
    r->a = malloc(count * w->fa.size);
    r->b = malloc(count * w->fb.size);
    r->c = malloc(count * w->fc.size);
    if (!r->list || !r->a || !r->b || !r->c || !fill(w, w->fa, r->a, 1) || !fill(w, w->fb, r->b, 2))
        return false;
    r->na = norms(w, r->a, w->fa, !w->ta);
    r->nb = norms(w, r->b, w->fb, w->tb);
    if (!r->na || !r->nb)
        return false;
    for (int i = 0; i < w->owns; i++)
        r->list[r->count++].own = &w->own[i];
    for (int i = 0; i < n; i++)
        if (takes_part(w, &peers[i]) && !join(r, &peers[i]))
            return false;
    return true;
}

static void leave(struct ring *r)
{
    for (int i = 0; r->list && i < r->count; i++)
        if (r->list[i].peer && r->list[i].peer->release)
            r->list[i].peer->release(r->list[i].state);
    for (int k = 0; k < KINDS; k++) {
        free(r->of[k].a);
        free(r->of[k].b);
        free(r->result[k]);
    }
    free(r->a);
    free(r->b);
    free(r->c);
    free(r->na);
    free(r->nb);
    free(r->list);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool fail(const struct ring *r)
{
    complain("bench: %s, n = %d: %s", r->w->what, r->w->n, limber_error_text());
    return false;
}

/* The first calls: kernels are compiled, results checked. */
static bool warm_up(struct ring *r, double errors[])
{
    for (int i = 0; i < r->count; i++) {
        struct contender *c = &r->list[i];

        memset(c->own ? r->c : c->call.c, 0x55,
               elements(r->w) * (c->own ? r->w->fc.size : kind_c(c->peer->kind).size));
        errors[i] = 0;
        if (!call_once(r, c))
            return fail(r);
        if (c->own) {
            if (!check_samples(r))
                return false;
            continue;
        }
        if (c->peer->fetch)
            c->peer->fetch(c->state);
        if (!compare(r, c, &errors[i]))
            return false;
    }
    return true;
}

static bool all_runs(struct ring *r, int *runs)
{
    const struct work *w = r->w;
    double began = now(), first;

    if (w->seconds > 0) {
        first = time_one(r, &r->list[0]);
        if (first < 0)
            return fail(r);
        r->pieces = first > 0 ? (int)(w->seconds / first) + 1 : 1000;
    }
    for (*runs = 0; *runs < w->runs && *runs < MOST_RUNS; ++*runs) {
        if (*runs >= 3 && now() - began > budget)
            break;
        for (int i = 0; i < r->count; i++) {
            double s = time_one(r, &r->list[i]);

            if (s < 0)
                return fail(r);
            r->list[i].seconds[*runs] = s;
            if (i == 0)
                r->run_seconds[*runs] = r->report.seconds_run;
        }
    }
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(double *v, int n, double *best)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    *best = v[0];
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void sum_up(struct ring *r, const double errors[], int runs, struct outcome *o)
{
    o->count = r->count;
    o->runs = runs;
    o->report = r->report;
    for (int i = 0; i < r->count; i++) {
        struct contender *c = &r->list[i];
        struct result *x = &o->r[i];

        x->name = c->own ? c->own->name : c->peer->name;
        x->peer = c->peer;
        x->error = errors[i];
        x->median = median(c->seconds, runs, &x->best);
    }
    o->median_run = median(r->run_seconds, runs, &o->best_run);
}

bool measure(const struct work *w, struct outcome *o)
{
    struct ring r = { 0 };
    double errors[MOST_PEERS + 2];
    int runs;
    bool ok = enter(&r, w);

    memset(o, 0, sizeof *o);
    if (!ok)
        complain("bench: %s, n = %d: not enough memory for the operands", w->what, w->n);
    ok = ok && warm_up(&r, errors) && all_runs(&r, &runs);
    if (ok)
        sum_up(&r, errors, runs, o);
    leave(&r);
    return ok;
}

const struct result *best_peer(const struct outcome *o, bool packed_before)
{
    const struct result *best = NULL;

    for (int i = 0; i < o->count; i++)
        if (o->r[i].peer && (packed_before || !o->r[i].peer->packed_before) &&
            (!best || o->r[i].median < best->median))
            best = &o->r[i];
    return best;
}
