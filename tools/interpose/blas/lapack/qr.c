/* SPDX-License-Identifier: BSD-3-Clause
 * Blocked QR factorisation with reflectors I - V T V': R. Schreiber, C. Van Loan, A
 * Storage-Efficient WY Representation for Products of Householder Transformations (SIAM J. Sci.
 * Stat.  Comput. 10, 1989).  The other LAPACK computes the reflectors of a block, and T. */
#include "lapack.h"

#include <stdlib.h>
#include <string.h>

typedef void geqrf(const void *, const void *, void *, const void *, void *, void *, const void *,
                   void *);
typedef void larft(const char *, const char *, const void *, const void *, const void *,
                   const void *, const void *, void *, const void *, size_t, size_t);
typedef void trmm(const char *, const char *, const char *, const char *, const void *,
                  const void *, const void *, const void *, const void *, void *, const void *,
                  size_t, size_t, size_t, size_t);

/* Householder reflectors, and workspace for a block of LAPACK_BLOCK of them. */
struct reflectors {
    struct view a; /* its elements below the diagonal are the reflectors */
    void *tau;
    int64_t rows;
    /* V and T of a block; the product W = C' V */
    struct view v, t, w;
    geqrf *geqrf;
    larft *larft;
    trmm *trmm;
};

/* Looks up routines and allocates workspace.  wide: number of columns (from the right: of rows) of
 * the matrix to which the reflectors are applied.  Returns false on failure. */
static bool open_reflectors(struct active_request *j, struct reflectors *f, int64_t wide)
{
    *(void **)&f->geqrf = limber_lapack_behind(j, "geqrf");
    *(void **)&f->larft = f->geqrf ? limber_lapack_behind(j, "larft") : NULL;
    *(void **)&f->trmm = f->larft ? limber_lapack_behind(j, "trmm") : NULL;
    if (!f->trmm)
        return false;
    f->v = limber_blas_fresh(j, f->rows, LAPACK_BLOCK);
    f->t = limber_blas_fresh(j, LAPACK_BLOCK, LAPACK_BLOCK);
    f->w = limber_blas_fresh(j, wide, LAPACK_BLOCK);
    return f->v.data && f->t.data && f->w.data;
}

static void close_reflectors(struct reflectors *f)
{
    free(f->v.data);
    free(f->t.data);
    free(f->w.data);
}

static void *tau_at(const struct active_request *j, const struct reflectors *f, int64_t i)
{
    return (char *)f->tau + (size_t)i * j->size;
}

/* Copies V of the reflectors [i, i + n), with its implied zeros and ones, and computes T. */
static void prepare_block(struct active_request *j, struct reflectors *f, int64_t i, int64_t n)
{
    const union scalar one = limber_blas_scalar(j, 1, 0);
    const int64_t m = f->rows - i;

    f->v.col = m;
    limber_blas_copy(j, LOWER, m, n, f->v, limber_blas_at(j, f->a, i, i));
    for (int64_t col = 0; col < n; col++) {
        memset(limber_blas_at(j, f->v, 0, col).data, 0, (size_t)col * j->size);
        memcpy(limber_blas_at(j, f->v, col, col).data, &one, j->size);
    }
    memset(f->t.data, 0, (size_t)LAPACK_BLOCK * LAPACK_BLOCK * j->size);
    f->larft("F", "C", &m, &n, f->v.data, &f->v.col, tau_at(j, f, i), f->t.data, &f->t.col, 1, 1);
}

/* Applies I - V T V' or its adjoint from the left to c, which is m x wide; V has m rows.  The
 * product W = C' V is transposed, so that a multiplication from the right can pass the adjoint of
 * its matrix as c. */
static bool apply_block(struct active_request *j, struct reflectors *f, int64_t n, bool adjoint,
                        int64_t m, int64_t wide, struct view c)
{
    const union scalar one = limber_blas_scalar(j, 1, 0), zero = limber_blas_scalar(j, 0, 0);
    /* (op(T) V' C)' = C' V op(T)' */
    const char op = adjoint ? 'N' : limber_lapack_adjoint_letter(j);

    if (wide == 0)
        return true;
    f->w.col = wide;
    if (!limber_blas_multiply(j, wide, n, m, &one, limber_lapack_adjoint(c), f->v, &zero, f->w))
        return false;
    f->trmm("R", "U", &op, "N", &wide, &n, &one, f->t.data, &f->t.col, f->w.data, &f->w.col, 1, 1,
            1, 1);
    if (c.conj) /* C cannot be a conjugated view, since it is the result; its adjoint is updated */
        return limber_lapack_update(j, wide, m, n, -1, f->w, limber_lapack_adjoint(f->v),
                                    limber_lapack_adjoint(c));
    return limber_lapack_update(j, m, wide, n, -1, f->v, limber_lapack_adjoint(f->w), c);
}

/* Computes geqrf: factors blocks of columns, and applies each block's reflectors to the columns
 * to its right. */
static bool factor(struct active_request *j, struct reflectors *f, int64_t n)
{
    const int64_t k = f->rows < n ? f->rows : n;

    for (int64_t i = 0; i < k; i += LAPACK_BLOCK) {
        const int64_t width = LAPACK_BLOCK < k - i ? LAPACK_BLOCK : k - i, m = f->rows - i;
        const int64_t room = LAPACK_BLOCK * LAPACK_BLOCK, right = n - i - width;
        int64_t info = 0;

        f->geqrf(&m, &width, limber_blas_at(j, f->a, i, i).data, &f->a.col, tau_at(j, f, i),
                 f->t.data, &room, &info);
        if (right == 0)
            break;
        prepare_block(j, f, i, width);
        if (!apply_block(j, f, width, true, m, right, limber_blas_at(j, f->a, i, i + width)))
            return false;
    }
    return true;
}

/* Computes ormqr: C = op(Q) C or, if not `left`, C = C op(Q), which is computed as C' = op(Q)'
 * C'.  Q is the product of k reflectors. wide: columns of C, or its rows if not `left`.  False
 * on failure. */
static bool apply_q(struct active_request *j, struct reflectors *f, int64_t k, bool left,
                    bool adjoint, int64_t wide, struct view c)
{
    const int64_t blocks = (k + LAPACK_BLOCK - 1) / LAPACK_BLOCK;
    const bool forward = left == adjoint;

    for (int64_t b = 0; b < blocks; b++) {
        const int64_t i = LAPACK_BLOCK * (forward ? b : blocks - 1 - b);
        const int64_t n = LAPACK_BLOCK < k - i ? LAPACK_BLOCK : k - i;
        struct view part = left ? limber_blas_at(j, c, i, 0) : limber_blas_at(j, c, 0, i);

        prepare_block(j, f, i, n);
        if (!apply_block(j, f, n, left == adjoint, f->rows - i, wide,
                         left ? part : limber_lapack_adjoint(part)))
            return false;
    }
    return true;
}

/* Computes orgqr: makes the first n columns of Q, by applying the blocks to the identity from
 * last to first.  A block does not change columns before its own. */
static bool make_columns(struct active_request *j, struct reflectors *f, int64_t n, int64_t k,
                         struct view q)
{
    const union scalar one = limber_blas_scalar(j, 1, 0);

    for (int64_t col = 0; col < n; col++) {
        memset(limber_blas_at(j, q, 0, col).data, 0, (size_t)f->rows * j->size);
        memcpy(limber_blas_at(j, q, col, col).data, &one, j->size);
    }
    for (int64_t i = (k - 1) / LAPACK_BLOCK * LAPACK_BLOCK; i >= 0; i -= LAPACK_BLOCK) {
        const int64_t width = LAPACK_BLOCK < k - i ? LAPACK_BLOCK : k - i;

        prepare_block(j, f, i, width);
        if (!apply_block(j, f, width, false, f->rows - i, n - i, limber_blas_at(j, q, i, i)))
            return false;
    }
    return true;
}

/* Computes the routine that was called: geqrf, orgqr or ormqr, whose result replaces c.  False on
 * failure. */
static bool compute_routine(struct active_request *j, struct reflectors *f, struct view c)
{
    const struct request *r = j->r;
    const bool left = r->side == 'L';

    switch (r->routine) {
    case LAPACK_GEQRF: return factor(j, f, r->n);
    case LAPACK_ORGQR: return make_columns(j, f, r->n, r->k, c);
    default: return apply_q(j, f, r->k, left, r->a.op != 'N', left ? r->n : r->m, c);
    }
}

/* Computes geqrf, orgqr or ormqr.  The result replaces a, or for ormqr c. */
bool limber_lapack_qr(struct active_request *j)
{
    const struct request *r = j->r;
    const bool applies = r->routine == LAPACK_ORMQR;
    struct view a = { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false };
    struct view c = { (void *)(uintptr_t)r->c.data, 1, r->c.lead, false };
    struct view result = applies ? c : a, before = limber_blas_fresh(j, r->m, r->n);
    struct reflectors f = { .a = a,
                            .tau = r->lapack.vector,
                            .rows = applies && r->side == 'R' ? r->n : r->m };
    bool done = before.data && open_reflectors(j, &f, r->m > r->n ? r->m : r->n);

    if (before.data)
        limber_blas_copy(j, WHOLE, r->m, r->n, before, result);
    if (r->routine == LAPACK_ORGQR)
        f.a = before;
    if (done && !(done = compute_routine(j, &f, result)))
        limber_blas_copy(j, WHOLE, r->m, r->n, result, before);
    if (done)
        limber_lapack_set_results(j, 0);
    close_reflectors(&f);
    free(before.data);
    return done;
}
