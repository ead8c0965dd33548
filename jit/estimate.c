/* SPDX-License-Identifier: BSD-3-Clause
 * How many slices Ozaki I needs, in fast mode, for the accuracy of the result's own format.
 *
 * With d slices of b bits the omitted products of one pair of elements are about
 * (d + 1) 2^(1 - d b) of the product of their lines' largest powers of two, and k of them add
 * up like sqrt(k).  The conventional sum errs like sqrt(k) u |A||B|.  Summed over the columns,
 * which needs |A| (|B| e) and no product of matrices, d must satisfy for every row i
 *     (d + 1) 2^(1 - d b) 2^(E_i) sum_j 2^(F_j)  <=  u sum_p |a_ip| sum_j |b_pj|.
 * A probabilistic estimate; the report carries the proven bound of the count it gives.
 * Source: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3.2. */
#include "jit/engine.h"

#include "passes/passes.h"

#include <math.h>
#include <stdlib.h>

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
        limber_fail(d, LIMBER_NO_MEMORY, "no memory to estimate slices");
    } else if (!limber_remote_holds(ctx, j->view->data)) {
        weigh_here(j, f);
    } else if (!limber_remote_weigh(ctx, j, f, q, d)) {
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
