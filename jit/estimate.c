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

/* sum_j |b_pj|, and *scales = sum_j 2^(F_j). */
static double *row_sums(const struct problem *p, const struct mask *b, double *scales)
{
    double *sum = calloc((size_t)p->k + 1, sizeof *sum);

    *scales = 0;
    for (int64_t j = 0; sum && j < p->n; j++) {
        if (b->line_emax[j] == INT32_MIN)
            continue;
        *scales += ldexp(1, b->line_emax[j]);
        for (int64_t q = 0; q < p->k; q++)
            sum[q] += magnitude(&p->b, p->fb, j, q);
    }
    return sum;
}

bool limber_estimate_slices(const struct problem *p, const struct mask *a, const struct mask *b,
                            int step, int *slices, struct diag *d)
{
    double scales, u = limber_format_roundoff(p->fc), *sum = row_sums(p, b, &scales);
    int most = 1;

    if (!sum)
        return limber_fail(d, LIMBER_NO_MEMORY, "no memory to estimate slices");
    for (int64_t i = 0; i < p->m; i++) {
        double conventional = 0, omitted;
        int n = most;

        if (a->line_emax[i] == INT32_MIN)
            continue;
        for (int64_t q = 0; q < p->k; q++)
            conventional += magnitude(&p->a, p->fa, i, q) * sum[q];
        omitted = ldexp(scales, a->line_emax[i] + 1);
        while (n < MOST && (n + 1) * ldexp(omitted, -n * step) > u * conventional)
            n++;
        most = n;
    }
    free(sum);
    *slices = most;
    return true;
}
