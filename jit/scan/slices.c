/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates how many slices (Ozaki I) give the accuracy of sums in the result's format.
 *
 * What slices leave out of element (i, j) is proportional to 2^(E_i + F_j), the largest powers of
 * two of its row and column; what conventional sums round is proportional to sum_p |a_ip b_pj|.  So
 * the smallest quotient of these decides:
 *     least = min over i, j of S_ij,   S_ij = sum_p |a_ip| |b_pj| 2^-(E_i + F_j).
 * All S_ij would cost a matrix product.  They are computed for few rows and all columns, then for
 * few columns and all rows: for lines that are small beside their largest element, or where the
 * other operand is large, and for those that earlier sums show to be small. */
#include "jit/device.h"
#include "jit/scan/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES = 8, /* lines whose sums with all lines of the other operand are computed */
    TILE_LINES = 16,
    TILE_LENGTH = 256
};

/* One operand of the product whose number of slices is estimated.  S of a row of A and a column
 * of B is the sum over k of |a||b|, both divided by the largest power of two in their line (row
 * of A or column of B). */
struct side {
    const struct view *view;
    limber_format f;
    const struct mask *mask;
    int64_t lines, k;
    int top; /* sums over k are computed times 2^-top, so that large numbers do not overflow */
    double *scale; /* [lines]: 2^-(largest exponent of the line); 0 for a line of zeros */
    double *profile; /* [k]: sum over lines of scaled magnitudes */
    double *own; /* [lines]: sum over k of magnitudes */
    double *met; /* [lines]: sum over k of magnitudes times the profile of the other operand */
    double *line; /* [CANDIDATES][k]: scaled magnitudes of the chosen lines */
    /* [CANDIDATES][lines]: S of each line and each chosen line of the other operand */
    double *pair;
    double *smallest; /* [lines]: smallest nonzero S of each line so far */
    double *room; /* holds all arrays */
};

/* ---- weighted sums of magnitudes ------------------------------------------------------------- */

/* Returns |x|; 0 for NaN and infinities. */
static double magnitude(double x)
{
    x = fabs(x);
    return isfinite(x) ? x : 0;
}

/* Returns the magnitude of element p of a line (row of A or column of B); 0 for padding, NaN and
 * infinities. */
static double magnitude_at(const struct side *s, int64_t line, int64_t p)
{
    const char *at = limber_view_at(s->view, line, p, s->f.size);
    double x = 0;
    float y;

    if (!at)
        return 0;
    if (limber_format_equal(s->f, LIMBER_F64)) {
        memcpy(&x, at, sizeof x);
    } else if (limber_format_equal(s->f, LIMBER_F32)) {
        memcpy(&y, at, sizeof y);
        x = y;
    } else {
        x = limber_format_value(s->f, at);
    }
    return magnitude(x);
}

/* Loads the magnitudes of a tile, [p][TILE_LINES], along the operand's smaller stride. */
static void load_tile(const struct side *s, int64_t line0, int64_t lines, int64_t p0,
                      int64_t length, double *to)
{
    const struct view *v = s->view;
    bool plain = limber_view_strided(v) && !v->tile_subset && limber_format_equal(s->f, LIMBER_F64);
    const double *from = (const double *)v->data + (plain ? line0 * v->line + p0 * v->p : 0);

    if (plain && (uintptr_t)v->data % sizeof *from == 0 && v->line == 1) {
        for (int64_t p = 0; p < length; p++)
            for (int64_t i = 0; i < lines; i++)
                to[p * TILE_LINES + i] = magnitude(from[p * v->p + i]);
    } else if (plain && (uintptr_t)v->data % sizeof *from == 0) {
        for (int64_t i = 0; i < lines; i++)
            for (int64_t p = 0; p < length; p++)
                to[p * TILE_LINES + i] = magnitude(from[i * v->line + p * v->p]);
    } else {
        for (int64_t i = 0; i < lines; i++)
            for (int64_t p = 0; p < length; p++)
                to[p * TILE_LINES + i] = magnitude_at(s, line0 + i, p0 + p);
    }
}

/* Adds a tile's products to the weighted sums of magnitudes of a call, each in the order of the
 * device's kernel: from p = 0 on, or from line 0 on if call->across. */
static void weigh_tile(const struct weigh_call *call, const double *tile, int64_t line0,
                       int64_t lines, int64_t p0, int64_t length)
{
    double sum[TILE_LINES] = { 0 };

    if (call->across) {
        for (int64_t p = 0; p < length; p++)
            for (int64_t i = 0; i < lines; i++)
                call->to[p0 + p] += tile[p * TILE_LINES + i] * call->weights[line0 + i];
        return;
    }
    memcpy(sum, call->to + line0, (size_t)lines * sizeof *sum);
    for (int64_t p = 0; p < length; p++)
        for (int i = 0; i < TILE_LINES; i++) /* sums of lines that do not exist are unused */
            sum[i] += tile[p * TILE_LINES + i] * call->weights[p0 + p];
    memcpy(call->to + line0, sum, (size_t)lines * sizeof *sum);
}

/* Computes the weighted sums of magnitudes of `count` calls on the host, reading the operand
 * once. */
static void weigh_on_host(const struct side *s, const struct weigh_call *calls, int count)
{
    double tile[TILE_LINES * TILE_LENGTH] = { 0 };

    for (int64_t i = 0; i < s->lines; i += TILE_LINES)
        for (int64_t p = 0; p < s->k; p += TILE_LENGTH) {
            int64_t lines = s->lines - i < TILE_LINES ? s->lines - i : TILE_LINES;
            int64_t length = s->k - p < TILE_LENGTH ? s->k - p : TILE_LENGTH;

            load_tile(s, i, lines, p, length, tile);
            for (int c = 0; c < count; c++)
                weigh_tile(&calls[c], tile, i, lines, p, length);
        }
}

/* Computes the weighted sums of magnitudes of `count` calls over one operand, on the device or the
 * host; sets the calls' view and sizes first.  Returns false if the device fails. */
static bool weigh(limber_context *ctx, const struct problem *p, const struct side *s,
                  struct weigh_call *calls, int count, struct diag *d)
{
    bool ok = true;

    for (int c = 0; c < count; c++) {
        calls[c].view = s->view;
        calls[c].lines = calls[c].across ? s->k : s->lines;
        calls[c].length = calls[c].across ? s->lines : s->k;
        for (int64_t i = 0; i < calls[c].lines; i++)
            calls[c].to[i] = 0;
    }
    if (!limber_device_holds(ctx, s->view->data)) {
        weigh_on_host(s, calls, count);
        return true;
    }
    for (int c = 0; ok && c < count; c++)
        ok = limber_device_weigh(ctx, &calls[c], s->f, p->queue, d);
    return ok;
}

/* ---- lines whose sums are small -------------------------------------------------------------- */

/* Allocates the arrays of one operand.  False if memory is short. */
static bool alloc_side(struct side *s, struct diag *d)
{
    size_t lines = (size_t)s->lines, k = (size_t)s->k;
    double *at = calloc(lines * (4 + CANDIDATES) + k * (1 + CANDIDATES) + 1, sizeof *at);

    if (!at)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to estimate slices");
    s->room = at;
    s->top = s->mask->emax > 500  ? s->mask->emax - 500 :
             s->mask->emax < -500 ? s->mask->emax + 500 :
                                    0;
    s->scale = at;
    s->own = s->scale + lines;
    s->met = s->own + lines;
    s->smallest = s->met + lines;
    s->pair = s->smallest + lines;
    s->profile = s->pair + CANDIDATES * lines;
    s->line = s->profile + k;
    for (int64_t i = 0; i < s->lines; i++) {
        int e = s->mask->line_emax[i];

        /* 2^-e overflows for lines of subnormals, for which a smaller factor suffices */
        s->scale[i] = e == INT32_MIN ? 0 : ldexp(1, e < -1020 ? 1020 : -e);
        s->smallest[i] = INFINITY;
    }
    return true;
}

/* Divides sums over k by each line's largest power of two, and by 2^top. */
static void scale_sums(const struct side *s, double *sums)
{
    for (int64_t i = 0; i < s->lines; i++)
        sums[i] = s->scale[i] == 0 ? 0 : ldexp(sums[i], s->top - s->mask->line_emax[i]);
}

/* Adds the `count` lines with the smallest nonzero values to the chosen ones.  Returns how many are
 * chosen then. */
static int choose_smallest(const double *value, int64_t lines, int count, int64_t *chosen, int made)
{
    for (int c = 0; c < count; c++) {
        int64_t best = -1;

        for (int64_t i = 0; i < lines; i++) {
            bool taken = !(value[i] > 0) || (best >= 0 && value[i] >= value[best]);

            for (int q = 0; !taken && q < made; q++)
                taken = chosen[q] == i;
            if (!taken)
                best = i;
        }
        if (best < 0)
            break;
        chosen[made++] = best;
    }
    return made;
}

/* Loads the magnitudes of the chosen lines to s->line, divided by each line's largest power of
 * two and by 2^top of the other operand. */
static bool load_lines(limber_context *ctx, const struct problem *p, struct side *s, int top,
                       const int64_t *chosen, int count, struct diag *d)
{
    double *unit = calloc((size_t)s->lines, sizeof *unit);
    bool ok = unit || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to estimate slices");

    for (int c = 0; ok && c < count; c++) {
        double *to = s->line + c * s->k;

        if (limber_device_holds(ctx, s->view->data)) {
            struct weigh_call call = { .across = true, .weights = unit, .to = to };

            unit[chosen[c]] = 1;
            ok = weigh(ctx, p, s, &call, 1, d);
            unit[chosen[c]] = 0;
        } else {
            for (int64_t q = 0; q < s->k; q++)
                to[q] = magnitude_at(s, chosen[c], q);
        }
        /* a line of zeros has no largest exponent */
        for (int64_t q = 0; q < s->k && s->scale[chosen[c]] != 0; q++)
            to[q] = ldexp(to[q], -s->mask->line_emax[chosen[c]] - top);
    }
    free(unit);
    return ok;
}

/* Computes the sums S (struct side) of the chosen lines of x and all lines of y.  *least: lowered
 * to the smallest S. */
static bool compute_pair_sums(limber_context *ctx, const struct problem *p, const struct side *x,
                              struct side *y, int count, double *least, struct diag *d)
{
    struct weigh_call call[CANDIDATES] = { { .view = NULL } };

    for (int c = 0; c < count; c++) {
        call[c].weights = x->line + c * x->k;
        call[c].to = y->pair + c * y->lines;
    }
    if (!weigh(ctx, p, y, call, count, d))
        return false;
    for (int c = 0; c < count; c++) {
        scale_sums(y, call[c].to);
        for (int64_t i = 0; i < y->lines; i++)
            if (call[c].to[i] > 0 && call[c].to[i] < y->smallest[i])
                y->smallest[i] = call[c].to[i];
    }
    for (int64_t i = 0; i < y->lines; i++)
        *least = y->smallest[i] < *least ? y->smallest[i] : *least;
    return true;
}

/* Computes, for both operands, the sums by which lines are chosen: `own`, the sum of a line's
 * magnitudes, and `met`, the sum of their products with the other operand's `profile`. */
static bool sum_sides(limber_context *ctx, const struct problem *p, struct side side[2],
                      struct diag *d)
{
    double *ones = malloc((size_t)(p->k + 1) * sizeof *ones);
    bool ok = ones || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to estimate slices");

    for (int x = 0; ok && x < 2; x++) {
        struct weigh_call call[] = {
            { .across = true, .weights = side[x].scale, .to = side[x].profile },
            { .weights = ones, .to = side[x].own },
        };

        for (int64_t q = 0; q < p->k; q++)
            ones[q] = ldexp(1, -side[x].top);
        ok = weigh(ctx, p, &side[x], call, 2, d);
        scale_sums(&side[x], side[x].own);
    }
    for (int x = 0; ok && x < 2; x++) {
        struct weigh_call call = { .weights = side[!x].profile, .to = side[x].met };

        for (int64_t q = 0; q < p->k; q++)
            side[!x].profile[q] = ldexp(side[!x].profile[q], -side[x].top);
        ok = weigh(ctx, p, &side[x], &call, 1, d);
        scale_sums(&side[x], side[x].met);
    }
    free(ones);
    return ok;
}

/* Computes the sums S (struct side) for the chosen lines of both operands.  *least: set to the
 * smallest S found; INFINITY if all products are zero. */
static bool find_least(limber_context *ctx, const struct problem *p, struct side side[2],
                       double *least, struct diag *d)
{
    struct side *a = &side[0], *b = &side[1];
    int64_t chosen[CANDIDATES];
    int count;

    *least = INFINITY;
    if (!sum_sides(ctx, p, side, d))
        return false;
    count = choose_smallest(a->met, a->lines, CANDIDATES / 2, chosen, 0);
    count = choose_smallest(a->own, a->lines, CANDIDATES / 2, chosen, count);
    if (!load_lines(ctx, p, a, b->top, chosen, count, d) ||
        !compute_pair_sums(ctx, p, a, b, count, least, d))
        return false;
    count = choose_smallest(b->smallest, b->lines, CANDIDATES / 2, chosen, 0);
    count = choose_smallest(b->met, b->lines, CANDIDATES / 4, chosen, count);
    count = choose_smallest(b->own, b->lines, CANDIDATES / 4, chosen, count);
    return load_lines(ctx, p, b, a->top, chosen, count, d) &&
           compute_pair_sums(ctx, p, b, a, count, least, d);
}

/* Estimates how many slices (Ozaki I) reach the accuracy of the result's format. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int *slices, struct diag *d)
{
    const struct product_request r = limber_request(p);
    struct side side[2] = {
        { .view = &p->a, .f = p->fa, .mask = a, .lines = p->m, .k = p->k },
        { .view = &p->b, .f = p->fb, .mask = b, .lines = p->n, .k = p->k },
    };
    double least;
    bool ok =
        alloc_side(&side[0], d) && alloc_side(&side[1], d) && find_least(ctx, p, side, &least, d);

    if (ok)
        *slices = limber_slices_needed(&r, a, b, least);
    free(side[0].room);
    free(side[1].room);
    return ok;
}
