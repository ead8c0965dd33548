/* SPDX-License-Identifier: BSD-3-Clause
 * One work's measuring on a GPU: operands, a checked call of every contender, then samples of all
 * in turn.  Nothing is timed that was not checked, and the result is checked again afterwards. */
#include "tools/bench/gpu.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 5, MOST_REPEATS = 200, WHOLE = 64 << 20 };
static const double slow = 0.1, very_slow = 1;  /* seconds of a call that is sampled less often */

bool contender_stop(struct contender *c, enum state state, const char *format, ...)
{
    va_list args;

    c->state = state;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return false;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Tensors' rows are matrices' rows, images and filters. */
static void shape_tensors(const struct gpu_work *w, struct tensor *a, struct tensor *b,
                          struct tensor *c)
{
    const limber_conv *s = w->conv;

    *a = (struct tensor){ .format = w->fa,
                          .rows = s ? s->n : w->m,
                          .cols = s ? s->c * s->h * s->w : w->k };
    *b = (struct tensor){ .format = w->fb,
                          .rows = s     ? s->o :
                                  w->tb ? w->n :
                                          w->k,
                          .cols = s     ? s->c * s->r * s->s :
                                  w->tb ? w->k :
                                          w->n };
    *c = (struct tensor){ .format = w->fc, .rows = w->m, .cols = w->n };
}

/* Enough sets that a repeated call does not find its operands in the L2 cache. */
static int sets_wanted(size_t bytes, int most)
{
    size_t n = bytes ? 2 * gpu_about()->l2 / bytes + 1 : 1;

    return n > (size_t)most ? most : (int)n;
}

static bool fill_sets(struct tensor *list, const struct pool *p, int sets, uint64_t seed)
{
    size_t bytes = (size_t)(p->segments * p->length) * p->format.size;
    void *device = gpu_alloc(bytes);
    bool ok = device && gpu_put(device, p->data, bytes);

    for (int i = 0; ok && i < sets; i++) {
        list[i].pool = p;
        list[i].seed = seed + 0x100000000u * (uint64_t)i;
        list[i].data = gpu_alloc(tensor_bytes(&list[i]));
        ok = list[i].data && tensor_fill(&list[i], device);
    }
    gpu_free(device);
    return ok;
}

static bool result_sets(struct bench_set *s)
{
    for (int i = 0; i < s->sets; i++) {
        s->c[i].data = gpu_alloc(tensor_bytes(&s->c[i]));
        if (!s->c[i].data)
            return false;
    }
    return true;
}

/* B of scaled and of mixed data is plain: its lines are columns. */
static bool make_pools(struct bench_set *s, const struct gpu_work *w, uint64_t seed)
{
    return pool_fill(&s->pa, w->data, w->bits, w->fa, s->a[0].cols, seed) &&
           pool_fill(&s->pb,
                     w->data == DATA_scaled || w->data == DATA_mixed ? DATA_normal : w->data,
                     w->bits, w->fb, s->b[0].cols, seed + 1);
}

static bool room_for(const struct bench_set *s, struct gpu_work *w)
{
    size_t left = gpu_memory_free(), need = w->bytes * (size_t)s->sets;

    if (need <= left / 8 * 7)
        return true;
    snprintf(w->why, sizeof w->why, "operands take %.1f GiB and %.1f GiB are free",
             (double)need / (1 << 30), (double)left / (1 << 30));
    return false;
}

bool set_make(struct bench_set *s, struct gpu_work *w, uint64_t seed, int most)
{
    memset(s, 0, sizeof *s);
    shape_tensors(w, &s->a[0], &s->b[0], &s->c[0]);
    w->bytes = tensor_bytes(&s->a[0]) + tensor_bytes(&s->b[0]) + tensor_bytes(&s->c[0]);
    s->sets = sets_wanted(w->bytes, most);
    if (!room_for(s, w))
        return false;
    for (int i = 1; i < s->sets; i++)
        shape_tensors(w, &s->a[i], &s->b[i], &s->c[i]);
    if (make_pools(s, w, seed) && fill_sets(s->a, &s->pa, s->sets, random_bits(&seed)) &&
        fill_sets(s->b, &s->pb, s->sets, random_bits(&seed)) && result_sets(s))
        s->reference = reference_make(w, &s->a[0], &s->b[0]);
    if (!s->reference)
        snprintf(w->why, sizeof w->why, "operands could not be made: %.150s",
                 *gpu_error() ? gpu_error() : "out of memory");
    return s->reference != NULL;
}

void set_clear(struct bench_set *s)
{
    for (int i = 0; i < s->sets; i++) {
        gpu_free(s->a[i].data);
        gpu_free(s->b[i].data);
        gpu_free(s->c[i].data);
    }
    pool_clear(&s->pa);
    pool_clear(&s->pb);
    reference_free(s->reference);
    memset(s, 0, sizeof *s);
}

bool set_poison(const struct bench_set *s)
{
    return gpu_fill(s->c[0].data, 0xff, tensor_bytes(&s->c[0]));
}

/* The poison is a NaN of every float format: results that are small enough are looked at whole. */
static bool all_written(const struct tensor *t, struct contender *c)
{
    size_t bytes = tensor_bytes(t), size = t->format.size, at = 0;
    unsigned char poison[ELEMENT], *y;

    if (t->format.kind != LIMBER_KIND_FLOAT || bytes > WHOLE || !(y = malloc(bytes + 1)))
        return true;
    memset(poison, 0xff, sizeof poison);
    if (!gpu_get(y, t->data, bytes))
        contender_stop(c, STATE_failed, "%s", gpu_error());
    else
        while (at < bytes && memcmp(y + at, poison, size))
            at += size;
    free(y);
    if (c->state == STATE_ok && at < bytes)
        contender_stop(c, STATE_wrong, "row %lld, column %lld was not written",
                       (long long)(at / size) / t->cols, (long long)(at / size) % t->cols);
    return c->state == STATE_ok;
}

bool set_check(const struct bench_set *s, const struct gpu_work *w, struct contender *c)
{
    const char *y = s->c[0].data;
    size_t size = w->fc.size;

    if (!gpu_wait())
        return contender_stop(c, STATE_failed, "%s", gpu_error());
    for (int i = 0; i < PICKS; i++)
        if (!gpu_get(c->got[i], y + (size_t)reference_place(s->reference, i) * size, size))
            return contender_stop(c, STATE_failed, "%s", gpu_error());
    return reference_check(s->reference, w, c) && all_written(&s->c[0], c);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static limber_status gemm(struct contender *c, const struct gpu_work *w, limber_context *ctx,
                          limber_matrix a, limber_matrix b, limber_matrix y)
{
    limber_queue queue = { .stream = gpu_stream() };

    return limber_gemm_batch(ctx, &c->contract, &queue, NULL, w->m, w->n, w->k, NULL, a, b, NULL, y,
                             &c->report);
}

static limber_status own_call(struct contender *c, const struct gpu_work *w, limber_context *ctx,
                              const void *a, const void *b, void *y)
{
    limber_matrix left = { (void *)(uintptr_t)a, w->fa, w->k, 1 };
    limber_matrix right = { (void *)(uintptr_t)b, w->fb, w->tb ? 1 : w->n, w->tb ? w->k : 1 };

    if (w->conv)
        return limber_conv2d(ctx, &c->contract, w->conv, NULL, a, w->fa, b, w->fb, NULL, y, w->fc,
                             &c->report);
    return gemm(c, w, ctx, left, right, (limber_matrix){ y, w->fc, w->n, 1 });
}

bool contender_call(struct contender *c, const struct gpu_work *w, limber_context *ctx,
                    const void *a, const void *b, void *y)
{
    limber_status status;

    if (c->by == BY_dnn)
        return dnn_call(c, w, a, b, y);
    if (c->by == BY_e4m3)
        return lt_call(c, w, a, b, y);
    if (c->by != BY_limber)
        return blas_call(c, w, a, b, y);
    status = own_call(c, w, ctx, a, b, y);
    if (status == LIMBER_STATUS_OK)
        return true;
    c->refused = status == LIMBER_STATUS_NO_SCHEME;
    return contender_stop(c,
                          status == LIMBER_STATUS_NO_SCHEME || status == LIMBER_STATUS_NO_MEMORY ?
                              STATE_skipped :
                              STATE_failed,
                          "%s: %.160s", limber_status_name(status), limber_error_text());
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool call_set(struct contender *c, const struct gpu_work *w, const struct measuring *m,
                     const struct bench_set *s, int set)
{
    return contender_call(c, w, m->ctx, s->a[set].data, s->b[set].data, s->c[set].data);
}

static bool checked_call(struct contender *c, const struct gpu_work *w, const struct measuring *m,
                         const struct bench_set *s)
{
    if (!set_poison(s))
        return contender_stop(c, STATE_failed, "%s", gpu_error());
    return call_set(c, w, m, s, 0) && set_check(s, w, c);
}

/* A scheme whose own bound is too large for `native` at this k is still worth a row. */
static bool weaken(struct contender *c, const struct gpu_work *w)
{
    if (!c->refused || c->contract.promise != LIMBER_CONTRACT_NATIVE || !c->contract.scheme ||
        w->fc.kind != LIMBER_KIND_FLOAT)
        return false;
    c->contract.promise = LIMBER_CONTRACT_FAST;
    c->promise = PROMISE_bound;
    c->name = "fast";
    c->state = STATE_ok;
    c->refused = false;
    *c->why = 0;
    return true;
}

static bool first_call(struct contender *c, const struct gpu_work *w, const struct measuring *m,
                       const struct bench_set *s)
{
    return checked_call(c, w, m, s) || (weaken(c, w) && checked_call(c, w, m, s));
}

/* Seconds of one call; negative when it failed. */
static double sample(struct contender *c, const struct gpu_work *w, const struct measuring *m,
                     const struct bench_set *s, int repeats)
{
    double seconds;

    if (!gpu_start()) {
        contender_stop(c, STATE_failed, "%s", gpu_error());
        return -1;
    }
    for (int i = 0; i < repeats; i++)
        if (!call_set(c, w, m, s, i % s->sets))
            return -1;
    seconds = gpu_stop();
    if (seconds < 0)
        contender_stop(c, STATE_failed, "%s", gpu_error());
    return seconds / repeats;
}

/* Warms up and sets how many calls make a sample. */
static void calibrate(struct contender *c, const struct gpu_work *w, const struct measuring *m,
                      const struct bench_set *s)
{
    double t = sample(c, w, m, s, s->sets > 2 ? 2 : s->sets), n;

    if (t < 0)
        return;
    n = t > 0 ? m->sample / t : MOST_REPEATS;
    c->repeats = n < 1 ? 1 : n > MOST_REPEATS ? MOST_REPEATS : (int)n;
    c->samples = 0;
    c->best = t; /* until there are samples */
}

static int samples_wanted(const struct contender *c)
{
    return c->best > very_slow ? 1 : c->best > slow ? 3 : SAMPLES;
}

static void one_round(struct gpu_work *w, const struct measuring *m, const struct bench_set *s,
                      int round)
{
    for (int i = 0; i < w->count; i++) {
        struct contender *c = &w->list[i];
        double t;

        if (c->state != STATE_ok || samples_wanted(c) <= round || gpu_lost() ||
            (round > 0 && now() > m->until))
            continue;
        m->note(m->user, w, c);
        t = sample(c, w, m, s, c->repeats);
        if (t >= 0)
            c->seconds[c->samples++] = t;
    }
}

static void finish(struct gpu_work *w, const struct measuring *m, const struct bench_set *s)
{
    for (int i = 0; i < w->count; i++) {
        struct contender *c = &w->list[i];
        double sorted[MOST_SAMPLES];

        if (c->state != STATE_ok || gpu_lost())
            continue;
        memcpy(sorted, c->seconds, sizeof sorted);
        if (c->samples > 0)
            c->median = median(sorted, c->samples, &c->best);
        checked_call(c, w, m, s);
    }
}

static void stop_all(struct gpu_work *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->list[i].state == STATE_ok)
            contender_stop(&w->list[i], STATE_failed, "the device is lost: %.150s", gpu_error());
}

void work_measure(struct gpu_work *w, const struct measuring *m)
{
    struct bench_set *s = malloc(sizeof *s);

    if (!s || !set_make(s, w, m->seed, m->timed ? MOST_SETS : 1)) {
        if (s)
            set_clear(s);
        free(s);
        return;
    }
    for (int i = 0; i < w->count && !gpu_lost(); i++) {
        struct contender *c = &w->list[i];

        m->note(m->user, w, c);
        if (c->state == STATE_ok && first_call(c, w, m, s) && m->timed)
            calibrate(c, w, m, s);
    }
    for (int round = 0; m->timed && round < SAMPLES; round++)
        one_round(w, m, s, round);
    if (m->timed)
        finish(w, m, s);
    if (gpu_lost())
        stop_all(w);
    set_clear(s);
    free(s);
}
