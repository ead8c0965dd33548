/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates from a sample of the result, before a product is computed. */
#include "jit/scan/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How the elements of an operand are read. */
struct reader {
    const struct view *v;
    limber_format f;
    bool is_f64, is_f32; /* format of the elements */
    /* strided: strides locate the elements; window: a line is a two-dimensional window of an
     * image */
    bool strided, window;
};

/* Chooses how elements of this view are read fastest. */
static struct reader reader_of(const struct view *v, limber_format f)
{
    const struct patch *w = v->patch;

    return (struct reader){ .v = v,
                            .f = f,
                            .is_f64 = limber_same_format(f, LIMBER_F64),
                            .is_f32 = limber_same_format(f, LIMBER_F32),
                            .strided = limber_view_strided(v) && !v->tile_subset,
                            .window = w && !w->depth && !w->t && !w->transposed && !w->divide[0] &&
                                      !v->tile_subset && !v->pairs };
}

/* Returns an element as the nearest double. */
static double value_at(const struct reader *r, const char *at)
{
    double x;
    float y;

    if (r->is_f64) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (!r->is_f32)
        return limber_format_value(r->f, at);
    memcpy(&y, at, sizeof y);
    return y;
}

/* Loads the elements in a two-dimensional window of the image, channel by channel.  Padding is 0.
 * k: number of elements. */
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
                bool inside = y >= 0 && y < w->h && x >= 0 && x < w->w;

                *out++ = inside ? value_at(s, data + (y * w->row + x * w->col) * size) : 0;
            }
    }
}

/* Loads the k elements of a line (row of A or column of B) as doubles. */
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

/* Returns how many elements of the result are sampled, so few that sampling costs little compared
 * with the product. */
static int64_t sample_count(const struct problem *p, int64_t most)
{
    enum {
        LEAST = 8,
        WORK = 1 << 19 /* multiply-adds of the product for each sample */,
        LONG = 4096,
        SHARE = 64
    };
    const double elements = (double)p->m * (double)p->n * (double)p->groups;
    double count = elements * (double)p->k / WORK;

    if (p->k > LONG && elements < (double)SHARE * (double)most)
        return (int64_t)(elements / SHARE);
    if (count < LEAST)
        return LEAST;
    return count < (double)most ? (int64_t)count : most;
}

/* Loads a line times 2^-emax, where emax is the line's largest exponent.  NaN and infinities become
 * 0. */
static void load_scaled_line(const struct reader *r, int64_t line, int emax, int64_t k, double *out)
{
    double first = ldexp(1, -emax / 2), second = ldexp(1, -emax - -emax / 2);

    load_line(r, line, k, out);
    for (int64_t q = 0; q < k; q++)
        out[q] = out[q] - out[q] == 0 ? out[q] * first * second : 0;
}

/* Returns log2 of |sum_p a_ip b_pj| 2^-(E_i + F_j), where E_i and F_j are the largest exponents of
 * row i and column j.  NAN if the sum is 0, or too inexact in binary64. */
static double log2_of_sum(const struct problem *p, const struct mask *a, const struct mask *b,
                          int64_t i, int64_t j, double *scaled)
{
    const struct reader ra = reader_of(&p->a, p->fa), rb = reader_of(&p->b, p->fb);
    double sum = 0, absolute = 0, *x = scaled, *y = scaled + p->k;

    load_scaled_line(&ra, i, a->line_emax[i], p->k, x);
    load_scaled_line(&rb, j, b->line_emax[j], p->k, y);
    for (int64_t q = 0; q < p->k; q++) {
        sum += x[q] * y[q];
        absolute += fabs(x[q] * y[q]);
    }
    sum = fabs(sum);
    return sum > absolute * 0x1p-40 ? log2(sum) : NAN;
}

/* Returns the probability that the rounding of sum_q x_q y_q to sig bits is uncertain, if the
 * computed sum has an error below `error` times the product of the norms of x and y. of_zeros: the
 * result if all products are zero. */
static double uncertain_chance(const double *x, const double *y, int64_t k, double error, int sig,
                               double of_zeros)
{
    double sum = 0, size = 0, size_a = 0, size_b = 0, error_bound;
    int exp;

    for (int64_t q = 0; q < k; q++) {
        sum += x[q] * y[q];
        size += fabs(x[q] * y[q]);
        size_a += x[q] * x[q];
        size_b += y[q] * y[q];
    }
    error_bound = sqrt(size_a) * sqrt(size_b) * error;
    if (error_bound == 0 || !isfinite(error_bound)) /* exact, or not finite: not recomputed */
        return 0;
    frexp(sum, &exp);
    return size == 0 ? of_zeros : sum == 0 ? 1 : fmin(1, ldexp(2 * error_bound, sig - exp));
}

/* Returns the mean probability that the rounding of a sampled element stays uncertain.  Leaves out
 * the largest probability, because a single sum that happens to be near 0 would outweigh all
 * others.  Returns NAN if memory runs out. */
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

/* Returns log2 of the smallest of some sampled sums of |a| |b|, relative to the largest elements of
 * row and column. */
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
