/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that the factorisations share. */
#include "lapack.h"

#include <stdio.h>
#include <string.h>

/* Computes trtrs: solves a triangular system. */
static bool solve_triangle(struct active_request *j)
{
    const struct request *r = j->r;
    const struct triangle_solve solve = { 'L',
                                          r->uplo,
                                          r->a.op,
                                          r->diag,
                                          r->m,
                                          r->n,
                                          1,
                                          { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false },
                                          { (void *)(uintptr_t)r->b.data, 1, r->b.lead, false } };
    const int64_t info = r->diag == 'N' ? limber_lapack_find_zero(j, r->m, solve.a) : 0;

    if (info == 0 && !limber_lapack_solve(j, &solve))
        return false;
    limber_lapack_set_results(j, info);
    return true;
}

/* Computes the LAPACK routine that was called.  False on failure. */
static bool compute_routine(struct active_request *j)
{
    switch (j->r->routine) {
    case LAPACK_POTRF:
    case LAPACK_POTRS:
    case LAPACK_POSV: return limber_lapack_cholesky(j);
    case LAPACK_TRTRI: return limber_lapack_invert(j);
    case LAPACK_TRTRS: return solve_triangle(j);
    case LAPACK_GEQRF:
    case LAPACK_ORGQR:
    case LAPACK_ORMQR: return limber_lapack_qr(j);
    default: return limber_lapack_lu(j);
    }
}

/* True if the part of A that the routine reads has no NaN or infinity. */
static bool is_finite(const struct active_request *j)
{
    const struct request *r = j->r;
    struct view a = { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false };
    const enum part part = r->uplo == 'U' ? UPPER : r->uplo == 'L' ? LOWER : WHOLE;
    const int64_t rows = r->routine == LAPACK_ORMQR && r->side == 'R' ? r->n : r->m;
    const int64_t columns = r->routine == LAPACK_GETRF || r->routine == LAPACK_GEQRF ? r->n :
                            r->routine == LAPACK_ORGQR || r->routine == LAPACK_ORMQR ? r->k :
                                                                                       r->m;

    return limber_blas_is_finite(j, part, rows, columns, a);
}

bool limber_lapack(struct active_request *j)
{
    if (j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE)
        return limber_blas_fail(j, "part of it runs in the program's LAPACK; results may differ "
                                   "on another CPU");
    if (j->r->k <= LAPACK_BLOCK)
        return limber_blas_fail(j, "it is one small block");
    if (!is_finite(j))
        return limber_blas_fail(j, "a is not finite");
    return compute_routine(j);
}

/* Returns the underlying LAPACK's function for `routine` in the call's type; NULL, with the
 * reason in j, if there is none. */
void *limber_lapack_behind(struct active_request *j, const char *routine)
{
    char name[16], why[64];
    void *f;

    snprintf(name, sizeof name, "%c%s", j->r->type, routine);
    f = limber_blas_look_up_routine(j->r, name);
    if (!f) {
        snprintf(why, sizeof why, "no LAPACK behind has %s", name);
        limber_blas_fail(j, why);
    }
    return f;
}

/* Returns the conjugate transpose of a view. */
struct view limber_lapack_adjoint(struct view v)
{
    v = limber_blas_transposed(v);
    v.conj = !v.conj;
    return v;
}

void limber_lapack_set_results(const struct active_request *j, int64_t info)
{
    const struct request *r = j->r;
    const union scalar room = limber_blas_scalar(j, (double)r->lapack.room, 0);

    if (r->lapack.work)
        memcpy(r->lapack.work, &room, j->size);
    if (r->wide)
        *(int64_t *)r->lapack.info = info;
    else
        *(int32_t *)r->lapack.info = (int32_t)info;
}

/* Returns the first index, from 1, of a zero on the diagonal, or 0. */
int64_t limber_lapack_find_zero(const struct active_request *j, int64_t n, struct view a)
{
    for (int64_t i = 0; i < n; i++) {
        const union scalar *x = limber_blas_at(j, a, i, i).data;

        if (j->is_single ? x->f[0] == 0 && (!j->is_complex || x->f[1] == 0) :
                           x->d[0] == 0 && (!j->is_complex || x->d[1] == 0))
            return i + 1;
    }
    return 0;
}

bool limber_lapack_update(struct active_request *j, int64_t m, int64_t n, int64_t k, double alpha,
                          struct view a, struct view b, struct view c)
{
    const union scalar scale = limber_blas_scalar(j, alpha, 0), one = limber_blas_scalar(j, 1, 0);

    return m == 0 || n == 0 || k == 0 || limber_blas_multiply(j, m, n, k, &scale, a, b, &one, c);
}

/* Computes a level 3 routine as a part of this request, with its own request and alpha.  Returns
 * false if that fails. */
static bool call_routine(struct active_request *j, struct request *part, double alpha,
                         bool (*routine)(struct active_request *))
{
    const struct request *whole = j->r;
    const union scalar before = j->alpha;
    bool done;

    part->name = whole->name;
    part->type = whole->type;
    part->order = BLAS_COLUMNS;
    part->wide = whole->wide;
    part->spelling = whole->spelling;
    part->caller = whole->caller;
    j->r = part;
    j->alpha = limber_blas_scalar(j, alpha, 0);
    done = routine(j);
    j->r = whole;
    j->alpha = before;
    return done;
}

typedef void trsm(const char *, const char *, const char *, const char *, const void *,
                  const void *, const void *, const void *, const void *, void *, const void *,
                  size_t, size_t, size_t, size_t);

/* Solves a triangular system: by trsm of this library if the triangle is large, else by the other
 * BLAS.  Returns false if that fails. */
bool limber_lapack_solve(struct active_request *j, const struct triangle_solve *s)
{
    const union scalar alpha = limber_blas_scalar(j, s->alpha, 0);
    const int64_t k = s->side == 'L' ? s->m : s->n;
    trsm *behind;
    struct request part = { .routine = BLAS_TRSM,
                            .side = s->side,
                            .uplo = s->uplo,
                            .diag = s->diag,
                            .m = s->m,
                            .n = s->n,
                            .k = k,
                            .a = { s->a.data, s->op, s->a.col },
                            .b = { s->b.data, 'N', s->b.col } };

    if (s->m == 0 || s->n == 0)
        return true;
    if (k > LAPACK_BLOCK)
        return call_routine(j, &part, s->alpha, limber_blas_trsm);
    *(void **)&behind = limber_lapack_behind(j, "trsm");
    if (behind)
        behind(&s->side, &s->uplo, &s->op, &s->diag, &s->m, &s->n, &alpha, s->a.data, &s->a.col,
               s->b.data, &s->b.col, 1, 1, 1, 1);
    return behind;
}
