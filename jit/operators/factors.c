/* SPDX-License-Identifier: BSD-3-Clause
 * LU factorisation with partial pivoting in binary64, by blocks of columns.  After each block, one
 * native product updates the remaining matrix. */
#include "jit/operators/solve.h"

#include <math.h>
#include <string.h>

/* columns of a block */
enum { BLOCK = 64 };

/* Returns the address of row i of the factors. */
static double *row_of(const struct factors *f, int64_t i)
{
    return f->lu + i * f->n;
}

/* Computes c -= a b, for c of m x n elements. a: address of the first element of an m x k block of
 * the factors. */
static bool subtract(const struct factors *f, int64_t m, int64_t n, int64_t k, const double *a,
                     limber_matrix b, limber_output c, struct diag *d)
{
    const double minus = -1, one = 1;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_contract native = LIMBER_CONTRACT_INIT;
    limber_status status;

    if (m == 0 || n == 0 || k == 0)
        return true;
    p.m = m, p.n = n, p.k = k;
    p.alpha = &minus, p.beta = &one;
    p.a = (limber_matrix){ a, LIMBER_F64, f->n, 1 };
    p.b = b;
    p.c = c;
    p.contract = &native;
    status = limber_run(f->ctx, &p, NULL);
    return !status || limber_fail(d, status, "%s", limber_error_text());
}

static void swap_rows(double *x, double *y, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        double z = x[j];

        x[j] = y[j];
        y[j] = z;
    }
}

/* Factors columns [k, k + w) of the rows from k on.  False if all pivots in column *zero are 0. */
static bool factor_panel(struct factors *f, int64_t k, int64_t w, int64_t *zero)
{
    for (int64_t p = k; p < k + w; p++) {
        int64_t best = p;

        for (int64_t i = p + 1; i < f->n; i++)
            if (fabs(row_of(f, i)[p]) > fabs(row_of(f, best)[p]))
                best = i;
        f->swap[p] = best;
        *zero = p;
        if (row_of(f, best)[p] == 0)
            return false;
        if (best != p)
            swap_rows(row_of(f, p), row_of(f, best), f->n);
        for (int64_t i = p + 1; i < f->n; i++) {
            double *row = row_of(f, i), l = row[p] /= row_of(f, p)[p];

            for (int64_t j = p + 1; j < k + w && l != 0; j++)
                row[j] -= l * row_of(f, p)[j];
        }
    }
    return true;
}

/* Factors f's matrix as P L U in place, by blocks.  False if the pivot of column *zero is 0, or,
 * with an error in *d, if a product failed. */
bool limber_factor(struct factors *f, int64_t *zero, struct diag *d)
{
    const int64_t n = f->n;

    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t w = BLOCK < n - k ? BLOCK : n - k, next = k + w;

        if (!factor_panel(f, k, w, zero))
            return false;
        for (int64_t p = k; p < next; p++)
            for (int64_t i = p + 1; i < next; i++)
                for (int64_t j = next; j < n; j++)
                    row_of(f, i)[j] -= row_of(f, i)[p] * row_of(f, p)[j];
        if (!subtract(f, n - next, n - next, w, row_of(f, next) + k,
                      (limber_matrix){ row_of(f, k) + next, LIMBER_F64, n, 1 },
                      (limber_output){ row_of(f, next) + next, LIMBER_F64, n, 1 }, d))
            return false;
    }
    return true;
}

/* Solves rows [i, i + w) of x by the triangular block of L, or of U if `upper`, on the diagonal. */
static void solve_block(const struct factors *f, double *x, int64_t columns, int64_t i, int64_t w,
                        bool upper)
{
    for (int64_t s = 0; s < w; s++) {
        const int64_t p = upper ? i + w - 1 - s : i + s;
        const int64_t from = upper ? p + 1 : i, to = upper ? i + w : p;

        for (int64_t q = from; q < to; q++)
            for (int64_t j = 0; j < columns; j++)
                x[p * columns + j] -= row_of(f, p)[q] * x[q * columns + j];
        for (int64_t j = 0; j < columns && upper; j++)
            x[p * columns + j] /= row_of(f, p)[p];
    }
}

/* Solves L U X = P B in place for `columns` right-hand sides in x. */
bool limber_factor_solve(const struct factors *f, double *x, int64_t columns, struct diag *d)
{
    const int64_t n = f->n, blocks = (n + BLOCK - 1) / BLOCK;

    for (int64_t i = 0; i < n; i++)
        if (f->swap[i] != i)
            swap_rows(x + i * columns, x + f->swap[i] * columns, columns);
    for (int64_t s = 0; s < 2 * blocks; s++) {
        const bool upper = s >= blocks;
        const int64_t i = BLOCK * (upper ? 2 * blocks - 1 - s : s);
        const int64_t w = BLOCK < n - i ? BLOCK : n - i;
        const int64_t from = upper ? i + w : 0, done = upper ? n - from : i;

        if (!subtract(f, w, columns, done, row_of(f, i) + from,
                      (limber_matrix){ x + from * columns, LIMBER_F64, columns, 1 },
                      (limber_output){ x + i * columns, LIMBER_F64, columns, 1 }, d))
            return false;
        solve_block(f, x, columns, i, w, upper);
    }
    return true;
}

/* Solves one system in place in binary128. */
void limber_factor_solve_quad(const struct factors *f, quad *x)
{
    const int64_t n = f->n;

    for (int64_t i = 0; i < n; i++) {
        quad z = x[i];

        x[i] = x[f->swap[i]];
        x[f->swap[i]] = z;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            x[i] -= (quad)row_of(f, i)[j] * x[j];
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < n; j++)
            x[i] -= (quad)row_of(f, i)[j] * x[j];
        x[i] /= (quad)row_of(f, i)[i];
    }
}

/* Computes x := A^-T x from the factors. */
static void solve_transposed(const struct factors *f, double *x)
{
    const int64_t n = f->n;

    for (int64_t i = 0; i < n; i++) {
        x[i] /= row_of(f, i)[i];
        for (int64_t j = i + 1; j < n; j++)
            x[j] -= row_of(f, i)[j] * x[i];
    }
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = 0; j < i; j++)
            x[j] -= row_of(f, i)[j] * x[i];
    for (int64_t k = n - 1; k >= 0; k--)
        swap_rows(x + k, x + f->swap[k], 1);
}

/* Estimates |A| |A^-1| in the 1-norm (Higham, ACM TOMS 14, 1988).  room: scratch of n numbers.
 * Returns 0 on failure. */
double limber_factor_condition(const struct factors *f, double *room, struct diag *d)
{
    const int64_t n = f->n;
    double inverse = 0;
    int64_t at = -1;

    for (int64_t i = 0; i < n; i++)
        room[i] = 1.0 / (double)n;
    for (int step = 0; step < 5; step++) {
        double sum = 0;
        int64_t best = 0;

        if (!limber_factor_solve(f, room, 1, d))
            return 0;
        for (int64_t i = 0; i < n; i++)
            sum += fabs(room[i]);
        inverse = fmax(inverse, sum);
        for (int64_t i = 0; i < n; i++)
            room[i] = room[i] < 0 ? -1 : 1;
        solve_transposed(f, room);
        for (int64_t i = 0; i < n; i++)
            if (fabs(room[i]) > fabs(room[best]))
                best = i;
        if (best == at)
            break;
        at = best;
        memset(room, 0, (size_t)n * sizeof *room);
        room[at] = 1;
    }
    return f->norm * inverse;
}
