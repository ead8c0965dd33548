/* SPDX-License-Identifier: BSD-3-Clause
 * Recursive LU factorisation with row pivoting, of the left half of the columns and then of the
 * right half: S. Toledo, Locality of Reference in LU Decomposition with Partial Pivoting (SIAM J.
 * Matrix Anal.  Appl. 18, 1997). */
#include "lapack.h"

#include <stdlib.h>
#include <string.h>

typedef void getrf(const void *, const void *, void *, const void *, void *, void *);

/* The state of an LU factorisation.  info: 0, or the position of the first pivot that is zero. */
struct lu {
    struct view a;
    int64_t m, info;
    getrf *behind;
};

static void *pivot_at(const struct active_request *j, int64_t i)
{
    return (char *)j->r->lapack.vector + i * (j->r->wide ? 8 : 4);
}

static int64_t pivot_row(const struct active_request *j, int64_t i)
{
    return limber_blas_integer(j->r->lapack.vector, i, j->r->wide);
}

/* Exchanges the elements of two rows in column `col`. */
static void swap_elements(const struct active_request *j, struct view a, int64_t row, int64_t other,
                          int64_t col)
{
    char *x = limber_blas_at(j, a, row, col).data, *y = limber_blas_at(j, a, other, col).data;
    char z[16];

    memcpy(z, x, j->size);
    memcpy(x, y, j->size);
    memcpy(y, z, j->size);
}

/* Exchanges rows of n columns as the pivots [from, to) prescribe: in ascending order, or in
 * descending order if `back`. */
static void exchange_rows(const struct active_request *j, struct view a, int64_t n, int64_t from,
                          int64_t to, bool back)
{
    for (int64_t col = 0; col < n; col++)
        for (int64_t i = from; i < to; i++) {
            int64_t row = back ? to - 1 - (i - from) : i, other = pivot_row(j, row) - 1;

            if (other != row)
                swap_elements(j, a, row, other, col);
        }
}

/* Factors n columns from row and column `first` on by the other LAPACK, and converts its pivots to
 * row numbers of the full matrix. */
static void factor_block(struct active_request *j, struct lu *f, int64_t first, int64_t n)
{
    const int64_t m = f->m - first, pivots = m < n ? m : n;
    int64_t info = 0;

    f->behind(&m, &n, limber_blas_at(j, f->a, first, first).data, &f->a.col, pivot_at(j, first),
              &info);
    info = limber_blas_integer(&info, 0, j->r->wide);
    if (info > 0 && f->info == 0)
        f->info = first + info;
    for (int64_t i = first; i < first + pivots; i++)
        if (j->r->wide)
            *(int64_t *)pivot_at(j, i) += first;
        else
            *(int32_t *)pivot_at(j, i) += (int32_t)first;
}

/* Factors columns [first, first + n) from row `first` on, recursively.  The rows above have their
 * final values already. */
static bool factor(struct active_request *j, struct lu *f, int64_t first, int64_t n)
{
    const int64_t left = (n / 2 + LAPACK_BLOCK - 1) / LAPACK_BLOCK * LAPACK_BLOCK;
    const int64_t middle = first + left, right = n - left;
    struct view lower = limber_blas_at(j, f->a, first, first),
                upper = limber_blas_at(j, f->a, first, middle);
    const struct triangle_solve solve = { 'L', 'L', 'N', 'U', left, right, 1, lower, upper };

    if (n <= LAPACK_BLOCK) {
        factor_block(j, f, first, n);
        return true;
    }
    if (!factor(j, f, first, left))
        return false;
    exchange_rows(j, limber_blas_at(j, f->a, 0, middle), right, first, middle, false);
    if (!limber_lapack_solve(j, &solve) ||
        !limber_lapack_update(j, f->m - middle, right, left, -1,
                              limber_blas_at(j, f->a, middle, first), upper,
                              limber_blas_at(j, f->a, middle, middle)) ||
        !factor(j, f, middle, right))
        return false;
    exchange_rows(j, limber_blas_at(j, f->a, 0, first), left, middle, first + n, false);
    return true;
}

/* Factors an m x n matrix.  If n exceeds m, the columns from m on are only multiplied by the
 * inverse of L. */
static bool factor_matrix(struct active_request *j, int64_t m, int64_t n, struct view a,
                          int64_t *info)
{
    const int64_t k = m < n ? m : n;
    struct lu f = { a, m, 0, NULL };
    const struct triangle_solve solve = { 'L', 'L', 'N',
                                          'U', k,   n - k,
                                          1,   a,   limber_blas_at(j, a, 0, k) };

    *(void **)&f.behind = limber_lapack_behind(j, "getrf");
    if (!f.behind || !factor(j, &f, 0, k))
        return false;
    exchange_rows(j, solve.b, n - k, 0, k, false);
    *info = f.info;
    return limber_lapack_solve(j, &solve);
}

/* Solves op(A) X = B with the factorisation of A. */
static bool solve_all(struct active_request *j, char op, int64_t n, int64_t wide, struct view a,
                      struct view b)
{
    const struct triangle_solve lower = { 'L', 'L', op, 'U', n, wide, 1, a, b },
                                upper = { 'L', 'U', op, 'N', n, wide, 1, a, b };
    bool done;

    if (op == 'N')
        exchange_rows(j, b, wide, 0, n, false);
    done = limber_lapack_solve(j, op == 'N' ? &lower : &upper) &&
           limber_lapack_solve(j, op == 'N' ? &upper : &lower);
    if (op != 'N')
        exchange_rows(j, b, wide, 0, n, true);
    return done;
}

/* Inverts A by A^-1 = U^-1 L^-1 P: inverts U, solves with L, then permutes columns. */
static bool invert_all(struct active_request *j, int64_t n, struct view a, int64_t *info)
{
    struct view lower = limber_blas_fresh(j, n, n), columns = limber_blas_transposed(a);
    const struct triangle_solve solve = { 'R', 'L', 'N', 'U', n, n, 1, lower, a };
    bool done = lower.data;

    *info = limber_lapack_find_zero(j, n, a);
    if (done && *info == 0) {
        limber_blas_copy(j, LOWER, n, n, lower, a);
        for (int64_t col = 0; col + 1 < n; col++)
            memset(limber_blas_at(j, a, col + 1, col).data, 0, (size_t)(n - 1 - col) * j->size);
        done = limber_lapack_invert_triangle(j, 'U', 'N', n, a) && limber_lapack_solve(j, &solve);
        exchange_rows(j, columns, n, 0, n, true);
    }
    free(lower.data);
    return done;
}

/* Computes the routine that was called on the matrix a and, if it solves, the right-hand sides
 * b.  *info: LAPACK's result code.  False on failure. */
static bool compute_routine(struct active_request *j, struct view a, struct view b, int64_t *info)
{
    const struct request *r = j->r;

    switch (r->routine) {
    case LAPACK_GETRF: return factor_matrix(j, r->m, r->n, a, info);
    case LAPACK_GETRS: return solve_all(j, r->a.op, r->m, r->n, a, b);
    case LAPACK_GETRI: return invert_all(j, r->m, a, info);
    default:
        return factor_matrix(j, r->m, r->m, a, info) &&
               (*info > 0 || solve_all(j, 'N', r->m, r->n, a, b));
    }
}

/* Computes getrf, getrs, gesv or getri: factors a matrix, solves, inverts.  If a part fails,
 * restores the program's matrices and returns false. */
bool limber_lapack_lu(struct active_request *j)
{
    const struct request *r = j->r;
    struct view a = { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false };
    struct view b = { (void *)(uintptr_t)r->b.data, 1, r->b.lead, false };
    const bool factors = r->routine != LAPACK_GETRS;
    const int64_t columns = r->routine == LAPACK_GETRF ? r->n : r->m;
    struct view old_a = { NULL }, old_b = { NULL };
    int64_t info = 0;
    bool done = true;

    if (factors && (old_a = limber_blas_fresh(j, r->m, columns)).data)
        limber_blas_copy(j, WHOLE, r->m, columns, old_a, a);
    if (b.data && (old_b = limber_blas_fresh(j, r->m, r->n)).data)
        limber_blas_copy(j, WHOLE, r->m, r->n, old_b, b);
    done = (!factors || old_a.data) && (!b.data || old_b.data);
    if (done && !(done = compute_routine(j, a, b, &info))) {
        if (factors)
            limber_blas_copy(j, WHOLE, r->m, columns, a, old_a);
        if (b.data)
            limber_blas_copy(j, WHOLE, r->m, r->n, b, old_b);
    }
    if (done)
        limber_lapack_set_results(j, info);
    free(old_a.data);
    free(old_b.data);
    return done;
}
