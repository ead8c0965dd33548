/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates from the operands before a product is computed: sums of magnitudes, and a sample of the
 * result. */
#include "jit/device.h"
#include "jit/scan/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Magnitude of element p of a line; 0 for padding, NaN and infinities. */
static double magnitude_at(const struct view *v, limber_format f, int64_t line, int64_t p)
{
    const char *at = limber_view_at(v, line, p, f.size);
    double x = at ? fabs(limber_format_value(f, at)) : 0;

    return isfinite(x) ? x : 0;
}

/* Computes a job's sums of magnitudes on the host, line by line in the order of memory. */
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

/* One operand whose lines are sampled. */
struct reader {
    const struct view *v;
    limber_format f;
    bool wide, narrow; /* elements are binary64, binary32 */
    bool strided, window;
};

/* How elements of this view are read fastest. */
static struct reader reader_of(const struct view *v, limber_format f)
{
    const struct patch *w = v->patch;

    return (struct reader){ .v = v,
                            .f = f,
                            .wide = limber_format_equal(f, LIMBER_F64),
                            .narrow = limber_format_equal(f, LIMBER_F32),
                            .strided = limber_view_strided(v) && !v->tile_subset,
                            .window = w && !w->depth && !w->t && !w->transposed && !w->divide[0] &&
                                      !v->tile_subset && !v->pairs };
}

/* An element as the nearest double. */
static double value_at(const struct reader *r, const char *at)
{
    double x;
    float y;

    if (r->wide) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (!r->narrow)
        return limber_format_value(r->f, at);
    memcpy(&y, at, sizeof y);
    return y;
}

/* Loads the elements that a two-dimensional window covers, channel by channel. */
static void load_window(const struct reader *s, int64_t line, int64_t k, double *out)
{
    const struct view *v = s->v;
    const struct patch *w = v->patch;
    const int size = s->f.size;
    int64_t row = line / w->ow, image = row / w->oh;
    int64_t y0 = row % w->oh * w->stride[0] - w->pad[0];
    int64_t x0 = line % w->ow * w->stride[1] - w->pad[1];

    for (int64_t c = 0; c < k / (w->r * w->s); c++) {
        const char *data =
            (const char *)v->data + (w->origin + image * w->image + c * w->channel) * size;

        for (int64_t r = 0; r < w->r; r++)
            for (int64_t q = 0; q < w->s; q++) {
                int64_t y = y0 + r * w->dilate[0], x = x0 + q * w->dilate[1];
                bool there = y >= 0 && y < w->h && x >= 0 && x < w->w;

                *out++ = there ? value_at(s, data + (y * w->row + x * w->col) * size) : 0;
            }
    }
}

/* Loads a line as doubles. */
static void load_line(const struct reader *r, int64_t line, int64_t k, double *out)
{
    const struct view *v = r->v;
    const int size = r->f.size;

    if (r->window) {
        load_window(r, line, k, out);
        return;
    }
    for (int64_t q = 0; q < k; q++) {
        const char *at = r->strided ? (const char *)v->data + (line * v->line + q * v->p) * size :
                                      limber_view_at(v, line, q, size);

        out[q] = at ? value_at(r, at) : 0;
    }
}

/* The number of samples: few enough to cost little beside the product, whose elements all have as
 * many terms as a sample. */
static int64_t sample_count(const struct problem *p, int64_t most)
{
    enum { LEAST = 8, WORK = 1 << 19 /* multiply-adds a sample */, LONG = 4096, SHARE = 64 };
    const double elements = (double)p->m * (double)p->n * (double)p->groups;
    double count = elements * (double)p->k / WORK;

    if (p->k > LONG && elements < (double)SHARE * (double)most)
        return (int64_t)(elements / SHARE);
    if (count < LEAST)
        return LEAST;
    return count < (double)most ? (int64_t)count : most;
}

/* Loads a line times 2^-E, E its largest exponent. */
static void scaled_line(const struct reader *r, int64_t line, int emax, int64_t k, double *out)
{
    double first = ldexp(1, -emax / 2), second = ldexp(1, -emax - -emax / 2);

    load_line(r, line, k, out);
    for (int64_t q = 0; q < k; q++)
        out[q] = out[q] - out[q] == 0 ? out[q] * first * second : 0;
}

/* log2 of |sum_p a_ip b_jp| 2^-(E_i + F_j); NAN if the sum is 0, or too small for binary64 to know
 * it. */
static double log2_of_sum(const struct problem *p, const struct mask *a, const struct mask *b,
                          int64_t i, int64_t j, double *scaled)
{
    const struct reader ra = reader_of(&p->a, p->fa), rb = reader_of(&p->b, p->fb);
    double sum = 0, absolute = 0, *x = scaled, *y = scaled + p->k;

    scaled_line(&ra, i, a->line_emax[i], p->k, x);
    scaled_line(&rb, j, b->line_emax[j], p->k, y);
    for (int64_t q = 0; q < p->k; q++) {
        sum += x[q] * y[q];
        absolute += fabs(x[q] * y[q]);
    }
    sum = fabs(sum);
    return sum > absolute * 0x1p-40 ? log2(sum) : NAN;
}

/* The probability that rounding the sum of x_q y_q to sig bits is uncertain, if that has an error
 * below `error` times the product of the norms of x and y.  of_zeros if all products are zero. */
static double uncertain_chance(const double *x, const double *y, int64_t k, double error, int sig,
                               double of_zeros)
{
    double sum = 0, size = 0, size_a = 0, size_b = 0, off;
    int exp;

    for (int64_t q = 0; q < k; q++) {
        sum += x[q] * y[q];
        size += fabs(x[q] * y[q]);
        size_a += x[q] * x[q];
        size_b += y[q] * y[q];
    }
    off = sqrt(size_a) * sqrt(size_b) * error;
    if (off == 0 || !isfinite(off)) /* exact, or not finite: no exact sum is needed */
        return 0;
    frexp(sum, &exp);
    return size == 0 ? of_zeros : sum == 0 ? 1 : fmin(1, ldexp(2 * off, sig - exp));
}

/* The largest probability is left out: one sum that happens to be near 0 would outweigh all others
 * without saying anything of them. */
double limber_sample_open(const struct problem *p, double error, int sig, double of_zeros)
{
    enum { MOST = 32 };
    struct view a = p->a, b = p->b;
    const struct reader ra = reader_of(&a, p->fa), rb = reader_of(&b, p->fb);
    int64_t count = sample_count(p, MOST);
    double all = 0, largest = 0, *room = malloc((size_t)(2 * p->k + 1) * sizeof *room);

    for (int64_t s = 0; room && s < count; s++) {
        double chance;

        if (p->groups > 1) {
            a.data = limber_group_a(p, s * p->groups / count).data;
            b.data = limber_group_b(p, s * p->groups / count).data;
        }
        load_line(&ra, s * p->m / count, p->k, room);
        load_line(&rb, (s * 19 + 5) % count * p->n / count, p->k, room + p->k);
        chance = uncertain_chance(room, room + p->k, p->k, error, sig, of_zeros);
        all += chance;
        largest = fmax(largest, chance);
    }
    free(room);
    return room && count > 1 ? (all - largest) / (double)(count - 1) : NAN;
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
