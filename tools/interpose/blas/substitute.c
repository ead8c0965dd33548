/* SPDX-License-Identifier: BSD-3-Clause
 * Substitution in a small triangle by one stated order, so that its bits are the same everywhere.
 * Without contraction (-ffp-contract=off) every operation rounds. */
#include "triangular.h"

#include <math.h>
#include <string.h>

enum { ROWS = LIMBER_BLAS_SUBSTITUTE, WIDE = 16 };

struct small_triangle {
    const void *a;
    int64_t n, row, col;
    bool upper, unit, conj, is_complex;
};

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

void limber_blas_solve_small(const struct job *j, const struct triangular *t, int64_t i, int64_t p,
                             const union scalar *alpha)
{
    const struct view a = limber_blas_at(j, t->a, i, i), b = limber_blas_at(j, t->b, i, 0);
    const struct small_triangle s = {
        a.data, p, a.row, a.col, t->upper, j->r->diag == 'U', a.conj, j->is_complex
    };

    if (j->is_single)
        solve_s(&s, b.data, b.row, b.col, t->wide, alpha->f);
    else
        solve_d(&s, b.data, b.row, b.col, t->wide, alpha->d);
}
