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
#include "jit/engine.h"

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

/* log2 of |sum_p a_ip b_jp| 2^-(E_i + F_j), the sum as far as binary64 knows it; NAN: 0, or not to be
 * known. */
static double size_of(const struct problem *p, const struct mask *a, const struct mask *b, int64_t i,
                      int64_t j, double *room)
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
 * 2^(kbits + bits + 3), and its rounding is certain unless it lies that near to a midpoint of numbers
 * which are 2^(1 - sig) of it apart. */
int limber_estimate_trust(const struct problem *p, const struct mask *a, const struct mask *b,
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
