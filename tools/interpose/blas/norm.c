/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routine rot, and nrm2 under `correct`. */
#include "product.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* n numbers, scaled by a power of two, as two arrays with room for MORE further elements each. */
enum { MORE = 3 };
struct scaled {
    double *x, *y;
    int64_t n;
    int scale;
    bool underflows; /* some number that is not zero became subnormal or zero */
};

/* Computes the sign of |x|^2 - (r + d / 2)^2.  The difference is one dot product, whose terms after
 * the squares are -r r, -r d and -(d / 2)^2, so that its rounded value has the sign of the exact
 * one.  False on failure. */
static bool compare_with_midpoint(struct active_request *j, struct scaled *s, double r, double d,
                                  double *sign)
{
    const double by = ldexp(r, s->scale), step = ldexp(d, s->scale);
    const double left[MORE] = { by, by, step / 2 }, right[MORE] = { -by, -step, -step / 2 };

    memcpy(s->x + s->n, left, sizeof left);
    memcpy(s->y + s->n, right, sizeof right);
    if (!limber_blas_real_dot(j, s->n + MORE, s->x, s->y, true, sign))
        return false;
    if (*sign == 0 && s->underflows) /* the squares that were lost decide */
        *sign = 1;
    return true;
}

/* Returns the neighbour of a number in the routine's format. */
static double next_to(const struct active_request *j, double r, bool up)
{
    return j->is_single ? (double)nextafterf((float)r, up ? INFINITY : 0) :
                          nextafter(r, up ? INFINITY : 0);
}

/* True if the last bit of a number of the request's type is 1. */
static bool is_odd(const struct active_request *j, double r)
{
    const float f = (float)r;
    uint64_t bits = 0;

    memcpy(&bits, j->is_single ? (const void *)&f : &r, j->is_single ? sizeof f : sizeof r);
    return bits & 1;
}

/* Rounds the root of the sum of squares to the request's type: corrects *root, an approximation to
 * about one unit in the last place, by comparisons with the midpoints beside it.  False on
 * failure. */
static bool round_root(struct active_request *j, struct scaled *s, double *root)
{
    const double most = j->is_single ? FLT_MAX : DBL_MAX;
    const double start = fmin(*root, most);
    double r = start, sign = 0;

    for (int way = 0; way < 2 && r == start; way++) {
        const bool up = way == 0;

        for (int steps = 0; steps < 2 && r <= most; steps++) {
            const double next = next_to(j, r, up);
            /* beyond the largest number, the step is as wide as below it */
            const double d = next > most ? r - next_to(j, r, false) : next - r;

            if (!compare_with_midpoint(j, s, r, d, &sign))
                return false;
            if (up ? sign < 0 || (sign == 0 && !is_odd(j, r)) :
                     sign > 0 || (sign == 0 && !is_odd(j, r)))
                break;
            r = next;
        }
    }
    *root = r;
    return true;
}

bool limber_blas_round_norm(struct active_request *j, int64_t n, const double *x, double *norm)
{
    struct scaled s = { .n = n };
    double most = 0, sum = 0;
    bool done;

    *norm = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]) || isnan(*norm))
            *norm = NAN;
        else
            most = fmax(most, fabs(x[i]));
    }
    if (isnan(*norm) || most == 0)
        return true;
    *norm = most;
    if (isinf(most))
        return true;
    s.x = malloc((size_t)(n + MORE) * sizeof *s.x);
    s.y = malloc((size_t)(n + MORE) * sizeof *s.y);
    s.scale = -ilogb(most);
    for (int64_t i = 0; i < n && s.x && s.y; i++) {
        s.x[i] = s.y[i] = ldexp(x[i], s.scale);
        s.underflows |= x[i] != 0 && fabs(s.x[i]) < DBL_MIN;
    }
    done = s.x && s.y ? limber_blas_real_dot(j, n, s.x, s.y, true, &sum) :
                        limber_blas_fail(j, "no memory for a copy");
    if (done) {
        *norm = ldexp(sqrt(sum), -s.scale);
        if (j->is_single)
            *norm = (double)(float)*norm;
        done = round_root(j, &s, norm);
    }
    free(s.x);
    free(s.y);
    return done;
}

/* Copies part q of the n numbers of two vectors to pairs, column-major, or back. */
static void move_pairs(const struct active_request *j, char *pairs, struct view x, struct view y,
                       bool back)
{
    const int64_t n = j->r->m, parts = j->is_complex ? 2 : 1;
    const size_t size = j->size / (size_t)parts;

    for (int64_t i = 0; i < n; i++)
        for (int vector = 0; vector < 2; vector++) {
            char *number = limber_blas_at(j, vector ? y : x, i, 0).data,
                 *pair = pairs + (size_t)((vector * n + i) * parts) * size;

            memcpy(back ? number : pair, back ? pair : number, j->size);
        }
}

/* Computes rot with one rounding of each element: the vectors are the columns of a matrix of real
 * numbers, and their new values are its product by [c -s; s c]. */
static bool rotate_by_product(struct active_request *j, struct view x, struct view y)
{
    const struct request *r = j->r;
    const bool is_complex = j->is_complex;
    const size_t size = j->size, real = j->is_single ? sizeof(float) : sizeof(double);
    const int64_t rows = r->m << is_complex;
    const union scalar one = limber_blas_scalar(j, 1, 0), zero = limber_blas_scalar(j, 0, 0);
    const double c = j->is_single ? (double)j->alpha.f[0] : j->alpha.d[0],
                 s = j->is_single ? (double)j->beta.f[0] : j->beta.d[0];
    const double turn[4] = { c, s, -s, c };
    const float turn_f[4] = { (float)c, (float)s, (float)-s, (float)c };
    const void *turn_of_type = j->is_single ? (const void *)turn_f : turn;
    char *pairs = malloc(4 * (size_t)rows * real), *turned;
    bool done;

    if (!pairs)
        return limber_blas_fail(j, "no memory for a copy");
    turned = pairs + 2 * (size_t)rows * real;
    move_pairs(j, pairs, x, y, false);
    j->is_complex = false;
    j->size = real;
    done = limber_blas_multiply(j, rows, 2, 2, &one, (struct view){ pairs, 1, rows, false },
                                (struct view){ (void *)(uintptr_t)turn_of_type, 1, 2, false },
                                &zero, (struct view){ turned, 1, rows, false });
    j->is_complex = is_complex;
    j->size = size;
    if (done)
        move_pairs(j, turned, x, y, true);
    free(pairs);
    return done;
}

/* Computes rot: x = c x + s y and y = c y - s x.  Under `reproducible` each operation rounds, since
 * -ffp-contract=off forbids FMA. */
bool limber_blas_rotate(struct active_request *j, struct view x, struct view y)
{
    const int64_t parts = j->is_complex ? 2 : 1;

    if (limber_blas_rounds_once(j) && j->r->m > 1 && (x.row == 0 || y.row == 0))
        return limber_blas_fail(j, "a step of 0 rotates one element many times");
    if (limber_blas_rounds_once(j))
        return rotate_by_product(j, x, y);
    if (j->contract->promise != LIMBER_CONTRACT_REPRODUCIBLE)
        return limber_blas_fail(j, "two products and their sum would be rounded three times");
    for (int64_t i = 0; i < j->r->m; i++)
        for (int64_t q = 0; q < parts; q++) {
            void *at_x = limber_blas_at(j, x, i, 0).data, *at_y = limber_blas_at(j, y, i, 0).data;

            if (j->is_single) {
                float *u = (float *)at_x + q, *v = (float *)at_y + q;
                const float c = j->alpha.f[0], s = j->beta.f[0], old = *u;

                *u = c * old + s * *v;
                *v = c * *v - s * old;
            } else {
                double *u = (double *)at_x + q, *v = (double *)at_y + q;
                const double c = j->alpha.d[0], s = j->beta.d[0], old = *u;

                *u = c * old + s * *v;
                *v = c * *v - s * old;
            }
        }
    return true;
}
