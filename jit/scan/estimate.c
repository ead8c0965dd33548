/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates from the operands before a product is computed: sums of magnitudes, and a sample of the
 * result. */
#include "jit/device.h"
#include "jit/scan/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double magnitude_at(const struct view *v, limber_format f, int64_t line, int64_t p)
{
    const char *at = limber_view_at(v, line, p, f.size);
    double x = at ? fabs(limber_format_value(f, at)) : 0;

    return isfinite(x) ? x : 0;
}

/* Sums in the order of memory, line by line of the view. */
static void weigh_on_host(const struct weigh_job *j, limber_format f)
{
    int64_t lines = j->across ? j->length : j->lines, length = j->across ? j->lines : j->length;

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < length; p++) {
            int64_t to = j->across ? p : i, from = j->across ? i : p;

            j->to[to] += magnitude_at(j->view, f, i, p) * (j->weights ? j->weights[from] : 1);
        }
}

/* Computes the job's sums, from 0 on; NULL after a failure. */
static double *weigh_operand(limber_context *ctx, struct weigh_job *j, limber_format f,
                             const limber_queue *q, struct diag *d)
{
    j->to = calloc((size_t)j->lines + 1, sizeof *j->to);
    if (!j->to) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to estimate slices");
    } else if (!limber_device_holds(ctx, j->view->data)) {
        weigh_on_host(j, f);
    } else if (!limber_device_weigh(ctx, j, f, q, d)) {
        free(j->to);
        j->to = NULL;
    }
    return j->to;
}

bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d)
{
    const struct product_request r = limber_request(p);
    struct weigh_job rows = { .view = &p->b, .across = true, .lines = p->k, .length = p->n };
    struct weigh_job sums = { .view = &p->a, .lines = p->m, .length = p->k };
    double scales = 0;

    sums.weights = weigh_operand(ctx, &rows, p->fb, p->queue, d);
    if (!sums.weights || !weigh_operand(ctx, &sums, p->fa, p->queue, d)) {
        free(rows.to);
        return false;
    }
    for (int64_t j = 0; j < p->n; j++)
        if (b->line_emax[j] != INT32_MIN)
            scales += ldexp(1, b->line_emax[j]);
    *slices = limber_slices_needed(&r, a, sums.to, scales, step);
    free(rows.to);
    free(sums.to);
    return true;
}

/* ---- a sample of the result ------------------------------------------------------------------ */

/* An element as the nearest double. */
static double value_at(const char *at, limber_format f, bool wide, bool narrow)
{
    double x;
    float y;

    if (wide) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (!narrow)
        return limber_format_value(f, at);
    memcpy(&y, at, sizeof y);
    return y;
}

/* Loads the elements that a two-dimensional window covers, channel by channel. */
static void load_window(const struct view *v, limber_format f, int64_t line, int64_t k, double *out)
{
    const struct patch *w = v->patch;
    bool wide = limber_format_equal(f, LIMBER_F64), narrow = limber_format_equal(f, LIMBER_F32);
    int64_t row = line / w->ow, image = row / w->oh;
    int64_t y0 = row % w->oh * w->stride[0] - w->pad[0];
    int64_t x0 = line % w->ow * w->stride[1] - w->pad[1];

    for (int64_t c = 0; c < k / (w->r * w->s); c++) {
        const char *data =
            (const char *)v->data + (w->origin + image * w->image + c * w->channel) * f.size;

        for (int64_t r = 0; r < w->r; r++)
            for (int64_t s = 0; s < w->s; s++) {
                int64_t y = y0 + r * w->dilate[0], x = x0 + s * w->dilate[1];
                bool there = y >= 0 && y < w->h && x >= 0 && x < w->w;

                *out++ = there ?
                             value_at(data + (y * w->row + x * w->col) * f.size, f, wide, narrow) :
                             0;
            }
    }
}

static void load_line(const struct view *v, limber_format f, int64_t line, int64_t k, double *out)
{
    const char *first = k > 0 ? limber_view_at(v, line, 0, f.size) : NULL;
    bool strided = first && limber_view_strided(v) && !v->tile_subset;
    const struct patch *w = v->patch;
    bool wide = limber_format_equal(f, LIMBER_F64), narrow = limber_format_equal(f, LIMBER_F32);

    if (w && !w->depth && !w->t && !w->transposed && !w->divide[0] && !v->tile_subset &&
        !v->pairs) {
        load_window(v, f, line, k, out);
        return;
    }
    for (int64_t q = 0; q < k; q++) {
        const char *at = strided ? first + q * v->p * f.size : limber_view_at(v, line, q, f.size);

        out[q] = at ? value_at(at, f, wide, narrow) : 0;
    }
}

/* The number of samples: few enough to cost little beside the product. */
static int64_t sample_count(const struct problem *p, int64_t most)
{
    enum { LEAST = 8, WORK = 1 << 19 }; /* multiply-adds a sample */
    double count = (double)p->m * (double)p->n * (double)p->k * (double)p->groups / WORK;

    if (count < LEAST)
        return LEAST;
    return count < (double)most ? (int64_t)count : most;
}

/* Loads a line times 2^-E, E its largest exponent. */
static void scaled_line(const struct view *v, limber_format f, int64_t line, int emax, int64_t k,
                        double *out)
{
    double first = ldexp(1, -emax / 2), second = ldexp(1, -emax - -emax / 2);

    load_line(v, f, line, k, out);
    for (int64_t q = 0; q < k; q++)
        out[q] = out[q] - out[q] == 0 ? out[q] * first * second : 0;
}

/* log2 of |sum_p a_ip b_jp| 2^-(E_i + F_j); NAN if the sum is 0, or too small for binary64 to know
 * it. */
static double log2_of_sum(const struct problem *p, const struct mask *a, const struct mask *b,
                          int64_t i, int64_t j, double *scaled)
{
    double sum = 0, absolute = 0, *x = scaled, *y = scaled + p->k;

    scaled_line(&p->a, p->fa, i, a->line_emax[i], p->k, x);
    scaled_line(&p->b, p->fb, j, b->line_emax[j], p->k, y);
    for (int64_t q = 0; q < p->k; q++) {
        sum += x[q] * y[q];
        absolute += fabs(x[q] * y[q]);
    }
    sum = fabs(sum);
    return sum > absolute * 0x1p-40 ? log2(sum) : NAN;
}

/* The probability that rounding an element to sig bits is uncertain, if its sum has an error below
 * `error` times the product of its lines' norms. */
static double uncertain_chance(const struct problem *p, int64_t i, int64_t j, double error, int sig,
                               double *room)
{
    double sum = 0, size_a = 0, size_b = 0, off, *x = room, *y = room + p->k;
    int exp;

    load_line(&p->a, p->fa, i, p->k, x);
    load_line(&p->b, p->fb, j, p->k, y);
    for (int64_t q = 0; q < p->k; q++) {
        sum += x[q] * y[q];
        size_a += x[q] * x[q];
        size_b += y[q] * y[q];
    }
    off = sqrt(size_a) * sqrt(size_b) * error;
    if (off == 0 || !isfinite(off)) /* exact, or not finite: no exact sum is needed */
        return 0;
    frexp(sum, &exp);
    return sum == 0 ? 1 : fmin(1, ldexp(2 * off, sig - exp));
}

/* The largest probability is left out: one sum that happens to be near 0 would outweigh all others
 * without saying anything of them. */
double limber_sample_open(const struct problem *p, double error, int sig)
{
    enum { MOST = 32 };
    int64_t count = sample_count(p, MOST);
    double all = 0, largest = 0, *room = malloc((size_t)(2 * p->k + 1) * sizeof *room);

    for (int64_t s = 0; room && s < count; s++) {
        int64_t g = s * p->groups / count;
        struct problem group = *p;
        double chance;

        group.a = limber_group_a(p, g);
        group.b = limber_group_b(p, g);
        chance = uncertain_chance(&group, s * p->m / count, (s * 19 + 5) % count * p->n / count,
                                  error, sig, room);
        all += chance;
        largest = fmax(largest, chance);
    }
    free(room);
    return room ? (all - largest) / (double)(count - 1) : NAN;
}

double limber_sample_sums(const struct problem *p, const struct mask *a, const struct mask *b)
{
    enum { MOST = 48 };
    int64_t count = sample_count(p, MOST);
    double least = INFINITY, *scaled = malloc((size_t)(2 * p->k + 1) * sizeof *scaled);
    bool known = scaled != NULL;

    for (int64_t s = 0; known && s < count; s++) {
        int64_t i = s * p->m / count, j = (s * 29 + 7) % count * p->n / count;
        double size;

        if (a->line_emax[i] == INT32_MIN || b->line_emax[j] == INT32_MIN)
            continue;
        size = log2_of_sum(p, a, b, i, j, scaled);
        known = !isnan(size);
        least = size < least ? size : least;
    }
    free(scaled);
    return known ? least : NAN;
}
