/* SPDX-License-Identifier: BSD-3-Clause
 * Substitution in a small triangle, with sums in a fixed order, so that its bits are the same on
 * every machine.  It is compiled without contraction (-ffp-contract=off): every operation
 * rounds. */
#include "triangular.h"

#include <math.h>
#include <string.h>

enum { ROWS = LIMBER_BLAS_SUBSTITUTE, WIDE = 16 };

/* An n x n triangle; row and col are strides in elements. */
struct small_triangle {
    const void *a;
    int64_t n, row, col;
    bool upper, unit, conj;
};

#define FLAT static inline __attribute__((always_inline))

#define T double
#define NAME(x) x##_d
#define ABS fabs
#include "substitute.h"
#undef T
#undef NAME
#undef ABS

#define T float
#define NAME(x) x##_s
#define ABS fabsf
#include "substitute.h"

/* Solves in place the p x p triangle of t->a that starts at row and column i, for rows i to i +
 * p - 1 of t->b, scaled by alpha. */
void limber_blas_solve_small(const struct active_request *j, const struct triangular *t, int64_t i,
                             int64_t p, const union scalar *alpha)
{
    const struct view a = limber_blas_at(j, t->a, i, i), b = limber_blas_at(j, t->b, i, 0);
    const struct small_triangle s = {
        a.data, p, a.row, a.col, t->upper, j->r->diag == 'U', a.conj
    };

    if (j->is_single && j->is_complex)
        solve_complex_s(&s, b.data, b.row, b.col, t->wide, alpha->f);
    else if (j->is_complex)
        solve_complex_d(&s, b.data, b.row, b.col, t->wide, alpha->d);
    else if (j->is_single)
        solve_real_s(&s, b.data, b.row, b.col, t->wide, alpha->f[0]);
    else
        solve_real_d(&s, b.data, b.row, b.col, t->wide, alpha->d[0]);
}
