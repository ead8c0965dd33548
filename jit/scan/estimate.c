/* SPDX-License-Identifier: BSD-3-Clause
 * How much of the operands is needed, where looking at the data tells.
 *
 * Slices of Ozaki I, in fast mode, for the accuracy of the result's own format.
 * With d slices of b bits the omitted products of one pair of elements are about
 * (d + 1) 2^(1 - d b) of the product of their lines' largest powers of two, and k of them add
 * up like sqrt(k).  The conventional sum errs like sqrt(k) u |A||B|.  Summed over the columns,
 * which needs |A| (|B| e) and no product of matrices, d must satisfy for every row i
 *     (d + 1) 2^(1 - d b) 2^(E_i) sum_j 2^(F_j)  <=  u sum_p |a_ip| sum_j |b_pj|.
 * A probabilistic estimate; the report carries the proven bound of the count it gives.
 * Source: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3.2. */
#include "jit/device.h"
#include "jit/scan/operands.h"

#include "passes/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static double magnitude(const struct view *v, limber_format f, int64_t line, int64_t p)
{
    const char *at = limber_view_at(v, line, p, f.size);
    double x = at ? fabs(limber_format_value(f, at)) : 0;

    return isfinite(x) ? x : 0;
}

/* Line by line of the view, as it lies. */
static void weigh_here(const struct weigh_job *j, limber_format f)
{
    int64_t lines = j->across ? j->length : j->lines, length = j->across ? j->lines : j->length;

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < length; p++) {
            int64_t to = j->across ? p : i, from = j->across ? i : p;

            j->to[to] += magnitude(j->view, f, i, p) * (j->weights ? j->weights[from] : 1);
        }
}

/* The job's sums, which begin with 0; NULL fails. */
static double *weigh(limber_context *ctx, struct weigh_job *j, limber_format f,
                     const limber_queue *q, struct diag *d)
{
    j->to = calloc((size_t)j->lines + 1, sizeof *j->to);
    if (!j->to) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to estimate slices");
    } else if (!limber_device_holds(ctx, j->view->data)) {
        weigh_here(j, f);
    } else if (!limber_device_weigh(ctx, j, f, q, d)) {
        free(j->to);
        j->to = NULL;
    }
    return j->to;
}

/* What every row needs of these: u sum_p |a_ip| sum_j |b_pj|, and sum_j 2^(F_j). */
static int most_slices(const struct problem *p, const struct mask *a, const double *conventional,
                       double scales, int step)
{
    double u = limber_format_roundoff(p->fc);
    int most = 1;

    for (int64_t i = 0; i < p->m; i++) {
        double omitted;

        if (a->line_emax[i] == INT32_MIN)
            continue;
        omitted = ldexp(scales, a->line_emax[i] + 1);
        while (most < MOST && (most + 1) * ldexp(omitted, -most * step) > u * conventional[i])
            most++;
    }
    return most;
}

bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d)
{
    struct weigh_job rows = { .view = &p->b, .across = true, .lines = p->k, .length = p->n };
    struct weigh_job sums = { .view = &p->a, .lines = p->m, .length = p->k };
    double scales = 0;

    sums.weights = weigh(ctx, &rows, p->fb, p->queue, d);
    if (!sums.weights || !weigh(ctx, &sums, p->fa, p->queue, d)) {
        free(rows.to);
        return false;
    }
    for (int64_t j = 0; j < p->n; j++)
        if (b->line_emax[j] != INT32_MIN)
            scales += ldexp(1, b->line_emax[j]);
    *slices = most_slices(p, a, sums.to, scales, step);
    free(rows.to);
    free(sums.to);
    return true;
}

/* ---- bits of a correct result ---------------------------------------------------------------- */

/* Elements of a line times 2^-E, its largest exponent; in binary64. */
static void scaled_line(const struct view *v, limber_format f, int64_t line, int emax, int64_t k,
                        double *out)
{
    double first = ldexp(1, -emax / 2), second = ldexp(1, -emax - -emax / 2);
    bool plain = f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size == 8 && f.frac_bits == 52;

    for (int64_t q = 0; q < k; q++) {
        const char *at = limber_view_at(v, line, q, f.size);
        double x = 0;

        if (at && plain)
            memcpy(&x, at, sizeof x);
        else if (at)
            x = limber_format_value(f, at);
        out[q] = x - x == 0 ? x * first * second : 0;
    }
}

/* log2 of |sum_p a_ip b_jp| 2^-(E_i + F_j), the sum as far as binary64 knows it; NAN: 0, or not to
 * be known. */
static double size_of(const struct problem *p, const struct mask *a, const struct mask *b,
                      int64_t i, int64_t j, double *room)
{
    double sum = 0, absolute = 0, *x = room, *y = room + p->k;

    scaled_line(&p->a, p->fa, i, a->line_emax[i], p->k, x);
    scaled_line(&p->b, p->fb, j, b->line_emax[j], p->k, y);
    for (int64_t q = 0; q < p->k; q++) {
        sum += x[q] * y[q];
        absolute += fabs(x[q] * y[q]);
    }
    sum = fabs(sum);
    return sum > absolute * 0x1p-40 ? log2(sum) : NAN;
}

/* X = x 2^(bits - 1 - E) is cut by less than 1, pairs by 2: the integer sum is off by less than
 * 2^(kbits + bits + 3), and its rounding is certain unless it lies that near to a midpoint of
 * numbers which are 2^(1 - sig) of it apart. */
int limber_estimate_first_pass(const struct problem *p, const struct mask *a, const struct mask *b,
                               int kbits)
{
    enum { SAMPLES = 48, MARGIN = 8 /* bits: fewer than one element in 2^8 are left */ };
    double least = INFINITY, *room = malloc((size_t)(2 * p->k + 1) * sizeof *room);
    int sig = limber_format_sig(p->fc);
    bool known = room != NULL;

    for (int64_t s = 0; known && s < SAMPLES; s++) {
        int64_t i = s * p->m / SAMPLES, j = (s * 29 + 7) % SAMPLES * p->n / SAMPLES;
        double size;

        if (a->line_emax[i] == INT32_MIN || b->line_emax[j] == INT32_MIN)
            continue;
        size = size_of(p, a, b, i, j, room);
        known = !isnan(size);
        least = size < least ? size : least;
    }
    free(room);
    if (!known || !isfinite(least))
        return 0;
    return sig + kbits + 6 + MARGIN + (int)ceil(-least);
}
