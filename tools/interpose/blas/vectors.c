/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routines of levels 1 and 2.  Each routine becomes one or more products of matrices of
 * which one has a single row or column, so that elements have the bits of a matrix product.
 * Band, packed and symmetric matrices are expanded, a block of rows at a time. */
#include "product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* BLOCK: rows that are expanded at a time. CHAIN: products in a chain of order 1. MOST_SOLVED:
 * largest n of tbsv and tpsv. */
enum { BLOCK = 128, CHAIN = 256, MOST_SOLVED = 4096 };

/* Returns the number of elements of a vector whose products form one chain of order 1
 * (limber.h).  A complex product takes two of a chain's products. */
static int64_t chain_length(const struct active_request *j)
{
    return j->is_complex ? CHAIN / 2 : CHAIN;
}

static bool is_reproducible(const struct active_request *j)
{
    return j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* Address of element 0 of a vector.  With a negative increment it is the last in memory. */
static char *first_of(const struct active_request *j, const struct argument *x, int64_t n)
{
    return (char *)(uintptr_t)x->data - (x->lead < 0 ? (n - 1) * x->lead : 0) * (int64_t)j->size;
}

/* Views a vector as a column. */
static struct view column_of(const struct active_request *j, const struct argument *x, int64_t n)
{
    return (struct view){ first_of(j, x, n), x->lead, x->lead == 1 && n > 1 ? n : 1, false };
}

/* Copies a vector to a contiguous column, whose data the caller frees.  If memory is exhausted,
 * `data` is NULL. */
static struct view copy_of(struct active_request *j, const struct argument *x, int64_t n)
{
    struct view to = limber_blas_fresh(j, n, 1);

    if (to.data)
        limber_blas_copy(j, WHOLE, n, 1, to, column_of(j, x, n));
    return to;
}

/* Views a vector as a column in place or, if its increment is not positive, as a contiguous copy.
 * The caller frees *copy.  If memory is exhausted, `data` is NULL. */
static struct view view_of_positive_step(struct active_request *j, const struct argument *x,
                                         int64_t n, void **copy)
{
    struct view v;

    *copy = NULL;
    if (x->lead > 0)
        return column_of(j, x, n);
    v = copy_of(j, x, n);
    *copy = v.data;
    return v;
}

/* Copies a column to a vector of the program. */
static void put_back(const struct active_request *j, const struct argument *x, int64_t n,
                     struct view from)
{
    limber_blas_copy(j, WHOLE, n, 1, column_of(j, x, n), from);
}

/* True if elements of a real vector may be computed in this file, without a call of Limber: under
 * `reproducible`, unless LIMBER_CHECK asks for a comparison.  Then sets the report's scheme. */
static bool is_short(struct active_request *j)
{
    if (!is_reproducible(j) || j->is_complex || interpose_options()->check)
        return false;
    strcpy(j->report.scheme, "native");
    return true;
}

/* ---- level 1 --------------------------------------------------------------------------------- */

/* Returns element i of a vector of floats or doubles. */
static double real_at(bool is_single, const void *x, int64_t i)
{
    return is_single ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* Stores element i of a vector of floats or doubles. */
static void set_real(const struct active_request *j, void *x, int64_t i, double value)
{
    if (j->is_single)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* Computes dot, dotu or dotc; also sdsdot, as one product, sb + x.y, whose error the contract
 * bounds. */
static bool dot(struct active_request *j)
{
    const struct request *r = j->r;
    const union scalar one = limber_blas_scalar(j, 1, 0),
                       beta = limber_blas_scalar(j, r->beta ? 1 : 0, 0);
    const struct view to = limber_blas_view(r, &r->c);
    void *copy[2];
    struct view x, y;
    bool done;

    if (r->k <= LIMBER_BLAS_SHORT && is_short(j)) {
        set_real(j, to.data, 0,
                 limber_blas_short_dot(j->is_single, r->k, first_of(j, &r->a, r->k), r->a.lead,
                                       first_of(j, &r->b, r->k), r->b.lead));
        return true;
    }
    x = view_of_positive_step(j, &r->a, r->k, &copy[0]);
    y = view_of_positive_step(j, &r->b, r->k, &copy[1]);
    x.conj = r->hermitian;
    if (r->beta)
        memcpy(to.data, r->beta, j->size);
    done = x.data && y.data &&
           limber_blas_multiply(j, 1, 1, r->k, &one, limber_blas_transposed(x), y, &beta, to);
    free(copy[0]);
    free(copy[1]);
    return done;
}

/* Computes a dot product of real numbers, which callers use as a part of norms and sums. */
bool limber_blas_real_dot(struct active_request *j, int64_t n, void *a, void *b, bool wide,
                          double *sum)
{
    const bool is_single = j->is_single, is_complex = j->is_complex;
    const size_t size = j->size;
    union scalar one, zero, value;
    const struct view row = { a, n, 1, false }, column = { b, 1, n, false },
                      to = { &value, 1, 1, false };
    bool done = true;

    j->is_single = is_single && !wide;
    j->is_complex = false;
    j->size = j->is_single ? sizeof(float) : sizeof(double);
    if (n <= LIMBER_BLAS_SHORT && is_short(j)) {
        *sum = limber_blas_short_dot(j->is_single, n, a, 1, b, 1);
    } else {
        one = limber_blas_scalar(j, 1, 0);
        zero = limber_blas_scalar(j, 0, 0);
        done = limber_blas_multiply(j, 1, 1, n, &one, row, column, &zero, to);
        if (done)
            *sum = j->is_single ? (double)value.f[0] : value.d[0];
    }
    j->is_single = is_single;
    j->is_complex = is_complex;
    j->size = size;
    return done;
}

/* Copies n numbers, floats if `is_single` and else doubles, or pairs of them, to doubles, which the
 * caller frees.  NULL if memory is exhausted. */
static double *extend(struct active_request *j, const struct argument *x, int64_t n, bool is_single)
{
    const int64_t parts = j->is_complex ? 2 : 1, step = x->lead * parts;
    const int64_t first = step < 0 ? (1 - n) * step : 0;
    double *to = malloc((size_t)(n * parts) * sizeof *to);

    if (!to)
        limber_blas_fail(j, "no memory for a copy");
    for (int64_t i = 0; i < n && to; i++)
        for (int64_t q = 0; q < parts; q++)
            to[i * parts + q] = real_at(is_single, x->data, first + i * step + q);
    return to;
}

/* Computes dsdot; also sdsdot under `reproducible`, which adds sb to the sum in doubles, and
 * then rounds. */
static bool extended_dot(struct active_request *j)
{
    const struct request *r = j->r;
    double *x = extend(j, &r->a, r->k, true), *y = x ? extend(j, &r->b, r->k, true) : NULL, sum;
    const bool done = y && limber_blas_real_dot(j, r->k, x, y, true, &sum);

    if (done)
        set_real(j, (void *)(uintptr_t)r->c.data, 0,
                 r->beta ? (double)*(const float *)r->beta + sum : sum);
    free(x);
    free(y);
    return done;
}

/* Computes asum: the dot product of absolute values and ones. */
static bool sum_magnitudes(struct active_request *j)
{
    const struct request *r = j->r;
    const int64_t n = r->k << j->is_complex;
    struct view x = copy_of(j, &r->a, r->k), ones = { NULL };
    double sum;
    bool done;

    if (x.data)
        ones = limber_blas_fresh(j, r->k, 1);
    for (int64_t i = 0; i < n && ones.data; i++) {
        set_real(j, x.data, i, fabs(real_at(j->is_single, x.data, i)));
        set_real(j, ones.data, i, 1);
    }
    done = ones.data && limber_blas_real_dot(j, n, x.data, ones.data, false, &sum);
    if (done)
        set_real(j, (void *)(uintptr_t)r->c.data, 0, sum);
    free(x.data);
    free(ones.data);
    return done;
}

/* Computes the norm of a vector of floats, whose squares are added as doubles, which hold them
 * exactly. */
static bool compute_float_norm(struct active_request *j)
{
    const struct request *r = j->r;
    double *x = extend(j, &r->a, r->k, true), sum;
    const bool done = x && limber_blas_real_dot(j, r->k << j->is_complex, x, x, true, &sum);

    if (done)
        set_real(j, (void *)(uintptr_t)r->c.data, 0, sqrt(sum));
    free(x);
    return done;
}

/* Computes nrm2 under `correct`. */
static bool compute_rounded_norm(struct active_request *j)
{
    const struct request *r = j->r;
    double *x = extend(j, &r->a, r->k, j->is_single), norm;
    const bool done = x && limber_blas_round_norm(j, r->k << j->is_complex, x, &norm);

    if (done)
        set_real(j, (void *)(uintptr_t)r->c.data, 0, norm);
    free(x);
    return done;
}

/* Computes nrm2: the square root of the sum of squares.  If the sum is so small or so large that
 * squares may have left the range of doubles, sums again, with all elements scaled by the power
 * of two that brings the largest into [1, 2). */
static bool compute_norm(struct active_request *j)
{
    const struct request *r = j->r;
    const int64_t n = r->k << j->is_complex;
    const double low = 0x1p-800, high = 0x1p800;
    struct view x = column_of(j, &r->a, r->k);
    void *copy = NULL;
    double sum = 0, most = 0;
    int scale = 0;
    bool done = true;

    if (limber_blas_rounds_once(j))
        return compute_rounded_norm(j);
    if (!is_reproducible(j))
        return limber_blas_fail(j, "the square root of a sum would be rounded twice");
    if (j->is_single)
        return compute_float_norm(j);
    for (int pass = 0; done && pass < 2; pass++) {
        if (r->k <= LIMBER_BLAS_SHORT && is_short(j)) {
            sum = limber_blas_short_dot(false, n, x.data, x.row, x.data, x.row);
        } else {
            if (x.row != 1) {
                x = copy_of(j, &r->a, r->k);
                copy = x.data;
            }
            done = x.data && limber_blas_real_dot(j, n, x.data, x.data, false, &sum);
        }
        if (!done || pass || (sum >= low && sum <= high))
            break;
        if (!copy) {
            x = copy_of(j, &r->a, r->k);
            copy = x.data;
        }
        for (int64_t i = 0; i < n && copy; i++)
            most = fmax(most, fabs(real_at(j->is_single, copy, i)));
        if (!copy || !(most > 0) || !isfinite(most))
            break;
        scale = -ilogb(most);
        for (int64_t i = 0; i < n; i++)
            set_real(j, copy, i, ldexp(real_at(j->is_single, copy, i), scale));
    }
    done = done && x.data;
    if (done)
        set_real(j, (void *)(uintptr_t)r->c.data, 0, ldexp(sqrt(sum), -scale));
    free(copy);
    return done;
}

/* Computes axpy for a y whose step is 0: all terms are added to one element, in order. */
static bool add_to_one_element(struct active_request *j)
{
    const struct request *r = j->r;
    const union scalar one = limber_blas_scalar(j, 1, 0);
    const struct view alone = { (void *)(uintptr_t)&one, 1, 1, false },
                      y = { (void *)(uintptr_t)r->c.data, 1, 1, false },
                      x = column_of(j, &r->a, r->m);
    union scalar term, old;
    bool done = true;

    memcpy(&old, y.data, j->size);
    for (int64_t i = 0; i < r->m && done; i++) {
        memcpy(&term, limber_blas_at(j, x, i, 0).data, j->size);
        done = limber_blas_multiply(j, 1, 1, 1, &j->alpha, (struct view){ &term, 1, 1, false },
                                    alone, &one, y);
    }
    if (!done)
        memcpy(y.data, &old, j->size);
    return done;
}

/* Computes axpy, y = alpha x + y, or scal, x = alpha x. */
static bool add_scaled(struct active_request *j)
{
    const struct request *r = j->r;
    const bool scales = r->routine == BLAS_SCAL;
    const struct argument *from = scales ? &r->c : &r->a;
    const union scalar one = limber_blas_scalar(j, 1, 0), zero = limber_blas_scalar(j, 0, 0);
    const struct view alone = { (void *)(uintptr_t)&one, 1, 1, false };
    void *copies[2];
    struct view to, x;
    bool done;

    if (!scales && r->c.lead == 0 && r->m > 1)
        return add_to_one_element(j);
    if (r->a.lead == 1 && r->c.lead == 1 && r->a.data != r->c.data && !scales && is_short(j)) {
        limber_blas_rank_one(j, r->m, 1, r->a.data, &one, 1, (void *)(uintptr_t)r->c.data, 0);
        return true;
    }
    to = view_of_positive_step(j, &r->c, r->m, &copies[0]);
    if (from->data == r->c.data) { /* operands must not overlap the result */
        x = copy_of(j, from, r->m);
        copies[1] = x.data;
    } else {
        x = view_of_positive_step(j, from, r->m, &copies[1]);
    }
    done = to.data && x.data &&
           limber_blas_multiply(j, r->m, 1, 1, &j->alpha, x, alone, scales ? &zero : &one, to);
    if (done && copies[0])
        put_back(j, &r->c, r->m, to);
    free(copies[0]);
    free(copies[1]);
    return done;
}

/* ---- matrices that are stored in part -------------------------------------------------------- */

/* A band matrix or a packed triangle, column-major: each column stores a contiguous run of rows.
 * The flags below tell how the routine's matrix follows from it. */
struct stored {
    const char *data;
    /* below, above: number of stored diagonals beside the main one; lead: elements from column to
     * column */
    int64_t rows, cols, below, above, lead;
    bool packed, upper; /* packed: no space between columns; upper: the upper triangle is stored */
    /* triangle: elements outside it are zeros; mirrored: they equal the stored ones of the other
     * triangle */
    bool triangle, transposed, mirrored, hermitian, conj, unit;
};

/* Describes the matrix of a band or packed routine.  Row-major data are read as the transpose. */
static struct stored stored_of(const struct request *r)
{
    const bool by_rows = r->order == BLAS_ROWS, multiply_general = r->routine == BLAS_GBMV;
    const bool upper = (r->uplo == 'U') != by_rows;
    struct stored s = { .data = r->a.data,
                        .rows = by_rows && multiply_general ? r->n : r->m,
                        .cols = by_rows && multiply_general ? r->m : r->n,
                        .lead = r->a.lead,
                        .upper = upper,
                        .transposed = by_rows != (r->a.op != 'N'),
                        .conj = r->a.op == 'C' };

    if (multiply_general) {
        s.below = by_rows ? r->above : r->below;
        s.above = by_rows ? r->below : r->above;
        return s;
    }
    s.packed = r->routine == BLAS_SPMV || r->routine == BLAS_TPMV || r->routine == BLAS_TPSV;
    s.below = upper ? 0 : s.packed ? r->n - 1 : r->k;
    s.above = !upper ? 0 : s.packed ? r->n - 1 : r->k;
    s.mirrored = r->routine == BLAS_SBMV || r->routine == BLAS_SPMV;
    s.triangle = !s.mirrored;
    s.hermitian = r->hermitian;
    s.unit = r->diag == 'U';
    if (s.mirrored) { /* a row-major Hermitian matrix is the conjugate of the column-major one */
        s.transposed = false;
        s.conj = s.hermitian && by_rows;
    }
    return s;
}

/* Finds the rows [*first, *last) that column `col` stores, and returns the first one's address. */
static const char *run_of(const struct active_request *j, const struct stored *s, int64_t col,
                          int64_t *first, int64_t *last)
{
    int64_t at;

    *first = col > s->above ? col - s->above : 0;
    *last = s->rows - col > s->below + 1 ? col + s->below + 1 : s->rows;
    if (*last < *first)
        *last = *first;
    if (s->packed)
        at = s->upper ? col * (col + 1) / 2 : col * s->rows - col * (col - 1) / 2;
    else
        at = s->above + *first - col + col * s->lead;
    return s->data + at * (int64_t)j->size;
}

/* Finds the range [*from, *to) of columns in which rows [i, i + p) have stored elements.  For a
 * band, *from is rounded down to the start of a chain of the full matrix (for an upper triangle, of
 * trmm's block), so that sums have the same bits as those of the full matrix. */
static void find_column_range(const struct active_request *j, const struct stored *s, int64_t i,
                              int64_t p, int64_t *from, int64_t *to)
{
    const int64_t chain = chain_length(j), cols = s->transposed ? s->rows : s->cols;
    const int64_t below = s->mirrored   ? s->below + s->above :
                          s->transposed ? s->above :
                                          s->below,
                  above = s->mirrored   ? s->below + s->above :
                          s->transposed ? s->below :
                                          s->above;

    *from = i <= below ? 0 : s->triangle && !below ? i : (i - below) / chain * chain;
    *to = cols - (i + p) > above ? i + p + above : cols;
    if (*from > *to)
        *from = *to;
}

/* Copies n contiguous elements to a column of `to`, or to a row if `across`. */
static void copy_run(const struct active_request *j, struct view to, int64_t n, const char *from,
                     bool across)
{
    const struct view run = { (void *)(uintptr_t)from, 1, n > 1 ? n : 1, false };

    if (across)
        to = limber_blas_transposed(to);
    limber_blas_copy(j, WHOLE, n, 1, to, run);
}

/* Expands rows [i, i + p) and columns [from, to) to a column-major panel, with zeros where nothing
 * is stored. */
static void expand_rows(const struct active_request *j, const struct stored *s, int64_t i,
                        int64_t p, int64_t from, int64_t to, struct view panel)
{
    const union scalar one = limber_blas_scalar(j, 1, 0);
    int64_t first, last;

    memset(panel.data, 0, (size_t)(p * (to - from)) * j->size);
    for (int64_t col = from; col < to && !s->transposed; col++) {
        const char *run = run_of(j, s, col, &first, &last);
        const int64_t begin = first > i ? first : i, end = last < i + p ? last : i + p;

        if (begin < end)
            copy_run(j, limber_blas_at(j, panel, begin - i, col - from), end - begin,
                     run + (begin - first) * (int64_t)j->size, false);
    }
    for (int64_t row = i; row < i + p && (s->transposed || s->mirrored); row++) {
        const char *run = run_of(j, s, row, &first, &last);
        const int64_t begin = first > from ? first : from, end = last < to ? last : to;
        const struct view at = limber_blas_at(j, panel, row - i, begin - from);

        if (begin >= end)
            continue;
        copy_run(j, at, end - begin, run + (begin - first) * (int64_t)j->size, true);
        if (s->mirrored && s->hermitian)
            limber_blas_conjugate(j, 1, end - begin, at);
    }
    for (int64_t row = i; row < i + p && (s->unit || s->hermitian); row++)
        if (row >= from && row < to) {
            struct view at = limber_blas_at(j, panel, row - i, row - from);

            if (s->unit)
                memcpy(at.data, &one, j->size);
            else
                limber_blas_make_real(j, 1, at);
        }
}

/* ---- matrix times vector --------------------------------------------------------------------- */

/* Computes gemv: y = alpha A x + beta y. */
static bool multiply_general(struct active_request *j)
{
    const struct request *r = j->r;
    const bool across = r->a.op != 'N';
    const int64_t m = across ? r->n : r->m, k = across ? r->m : r->n;
    void *copies[2];
    struct view y = view_of_positive_step(j, &r->c, m, &copies[0]),
                x = view_of_positive_step(j, &r->b, k, &copies[1]);
    bool done =
        x.data && y.data &&
        limber_blas_multiply(j, m, 1, k, &j->alpha, limber_blas_view(r, &r->a), x, &j->beta, y);

    if (done && copies[0])
        put_back(j, &r->c, m, y);
    free(copies[0]);
    free(copies[1]);
    return done;
}

/* Returns the request for a level 3 routine with the matrix on the left, and the contiguous
 * column x as its other operand. */
static struct request request_with_column(const struct request *r, enum routine routine,
                                          struct view x)
{
    struct request column = *r;

    column.routine = routine;
    column.side = 'L';
    column.k = r->n; /* number of rows of the matrix */
    column.n = 1;
    column.b = (struct argument){ x.data, 'N', r->order == BLAS_ROWS ? 1 : r->n };
    return column;
}

/* Computes to = alpha A x + beta to, for a band or packed matrix whose blocks of rows are
 * expanded. */
static bool multiply_by_blocks(struct active_request *j, const union scalar *alpha, struct view x,
                               const union scalar *beta, struct view to)
{
    const struct stored s = stored_of(j->r);
    const int64_t m = s.transposed ? s.cols : s.rows;
    struct view panel = { NULL };
    int64_t from, end, most = 0;
    bool done = true;

    for (int64_t i = 0; i < m; i += BLOCK) {
        find_column_range(j, &s, i, BLOCK < m - i ? BLOCK : m - i, &from, &end);
        most = end - from > most ? end - from : most;
    }
    panel = limber_blas_fresh(j, BLOCK < m ? BLOCK : m, most);
    if (!panel.data)
        return false;
    panel.conj = s.conj;
    for (int64_t i = 0; i < m && done; i += BLOCK) {
        const int64_t p = BLOCK < m - i ? BLOCK : m - i;

        find_column_range(j, &s, i, p, &from, &end);
        panel.col = p;
        expand_rows(j, &s, i, p, from, end, panel);
        done =
            limber_blas_multiply(j, p, 1, end - from, alpha, panel, limber_blas_at(j, x, from, 0),
                                 beta, limber_blas_at(j, to, i, 0));
    }
    free(panel.data);
    return done;
}

/* Returns the transpose, or if Hermitian the conjugate transpose, of a block. */
static struct view mirror(const struct active_request *j, struct view v)
{
    v = limber_blas_transposed(v);
    v.conj ^= j->r->hermitian;
    return v;
}

/* Expands a diagonal tile of a symmetric or Hermitian matrix to both triangles. */
static void fill_diagonal(const struct active_request *j, struct view a, bool upper, int64_t n,
                          struct view tile)
{
    limber_blas_copy(j, upper ? LOWER : UPPER, n, n, tile, limber_blas_transposed(a));
    if (j->r->hermitian)
        limber_blas_conjugate(j, n, n, tile);
    limber_blas_copy(j, upper ? UPPER : LOWER, n, n, tile, a);
    if (j->r->hermitian)
        limber_blas_make_real(j, n, tile);
}

/* Computes sum = A x for a symmetric or Hermitian matrix.  A tile, as wide as a chain, is used
 * twice: for its own rows and, mirrored, for the rows of the other triangle. */
static bool multiply_tiles(struct active_request *j, struct view x, struct view sum)
{
    const struct request *r = j->r;
    const int64_t n = r->n, chain = chain_length(j);
    const union scalar one = limber_blas_scalar(j, 1, 0), zero = limber_blas_scalar(j, 0, 0);
    const bool upper = r->uplo == 'U';
    const struct view a = limber_blas_view(r, &r->a);
    const int64_t side = n < chain ? n : chain;
    struct view tile = limber_blas_fresh(j, side, side);
    bool done = tile.data;

    for (int64_t p = 0; p < n && done; p += chain) {
        const int64_t w = chain < n - p ? chain : n - p;
        const union scalar *more = p ? &one : &zero;
        const struct view of_p = limber_blas_at(j, sum, p, 0), at_p = limber_blas_at(j, x, p, 0);

        tile.col = w;
        fill_diagonal(j, limber_blas_at(j, a, p, p), upper, w, tile);
        done = limber_blas_multiply(j, w, 1, w, &one, tile, at_p, more, of_p);
        for (int64_t i = p + chain; i < n && done; i += chain) {
            const int64_t h = chain < n - i ? chain : n - i;
            const struct view block =
                upper ? mirror(j, limber_blas_at(j, a, p, i)) : limber_blas_at(j, a, i, p);

            done = limber_blas_multiply(j, h, 1, w, &one, block, at_p, more,
                                        limber_blas_at(j, sum, i, 0)) &&
                   limber_blas_multiply(j, w, 1, h, &one, mirror(j, block),
                                        limber_blas_at(j, x, i, 0), &one, of_p);
        }
    }
    free(tile.data);
    return done;
}

/* Computes symv or hemv under `reproducible`: the product A x, to which the scalars are then
 * applied. */
static bool multiply_symmetric(struct active_request *j, struct view x, struct view y)
{
    const struct request *r = j->r;
    const union scalar one = limber_blas_scalar(j, 1, 0);
    struct view sum = limber_blas_fresh(j, r->n, 1);
    bool done = sum.data;

    if (done && limber_blas_has_fma() && is_short(j))
        /* a row-major triangle is the other triangle of the column-major matrix */
        limber_blas_symmetric(j->is_single, r->n, r->a.data, r->a.lead,
                              (r->uplo == 'U') == (r->order == BLAS_ROWS), x.data, sum.data);
    else
        done = done && multiply_tiles(j, x, sum);
    done = done &&
           limber_blas_multiply(j, r->n, 1, 1, &j->alpha, sum,
                                (struct view){ (void *)(uintptr_t)&one, 1, 1, false }, &j->beta, y);
    free(sum.data);
    return done;
}

/* Computes symv or hemv as symm or hemm with one column. */
static bool multiply_by_symm(struct active_request *j, struct view x, struct view y)
{
    const struct request *r = j->r;
    struct request column = request_with_column(r, r->hermitian ? BLAS_HEMM : BLAS_SYMM, x);
    bool done;

    column.c = (struct argument){ y.data, 'N', column.b.lead };
    j->r = &column;
    done = limber_blas_symm(j);
    j->r = r;
    return done;
}

/* Computes symv, hemv and products of general or symmetric band or packed matrices by a vector. */
static bool multiply_partly_stored(struct active_request *j)
{
    const struct request *r = j->r;
    const bool across = r->a.op != 'N';
    const int64_t m = across ? r->n : r->m, k = across ? r->m : r->n;
    struct view y = copy_of(j, &r->c, m), x = { NULL };
    bool done;

    if (y.data)
        x = copy_of(j, &r->b, k);
    if (x.data && r->routine == BLAS_SYMV)
        done = is_reproducible(j) ? multiply_symmetric(j, x, y) : multiply_by_symm(j, x, y);
    else
        done = x.data && multiply_by_blocks(j, &j->alpha, x, &j->beta, y);
    if (done)
        put_back(j, &r->c, m, y);
    free(x.data);
    free(y.data);
    return done;
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Computes a triangular product or solution as trmm or trsm with one column. */
static bool call_level_3(struct active_request *j, struct view x)
{
    const struct request *r = j->r;
    const bool solves = r->routine >= BLAS_TRSV;
    struct request column = request_with_column(r, solves ? BLAS_TRSM : BLAS_TRMM, x);
    struct view full = { NULL };
    bool done = true;

    /* trsm needs op(A) as an expanded, column-major matrix */
    if (r->routine == BLAS_TBSV || r->routine == BLAS_TPSV) {
        const struct stored s = stored_of(r);

        full = limber_blas_fresh(j, r->n, r->n);
        done = full.data;
        if (done)
            expand_rows(j, &s, 0, r->n, 0, r->n, full);
        if (done && s.conj)
            limber_blas_conjugate(j, r->n, r->n, full);
        column.order = BLAS_COLUMNS;
        column.a = (struct argument){ full.data, 'N', r->n };
        column.b.lead = r->n;
        column.uplo = s.upper != s.transposed ? 'U' : 'L';
    }
    j->alpha = limber_blas_scalar(j, 1, 0);
    j->r = &column;
    done = done && (solves ? limber_blas_trsm : limber_blas_trmm)(j);
    j->r = r;
    free(full.data);
    return done;
}

/* Computes x = A x for a band or packed triangle. */
static bool multiply_triangle(struct active_request *j, struct view x)
{
    const union scalar one = limber_blas_scalar(j, 1, 0), zero = limber_blas_scalar(j, 0, 0);
    const int64_t n = j->r->n;
    struct view to;
    bool done;

    if (!limber_blas_is_finite(j, WHOLE, n, 1, x))
        return limber_blas_fail(j, "x is not finite");
    to = limber_blas_fresh(j, n, 1);
    done = to.data && multiply_by_blocks(j, &one, x, &zero, to);
    if (done)
        limber_blas_copy(j, WHOLE, n, 1, x, to);
    free(to.data);
    return done;
}

/* Computes trmv, trsv and their band and packed forms. */
static bool triangular(struct active_request *j)
{
    const struct request *r = j->r;
    const bool times = r->routine == BLAS_TBMV || r->routine == BLAS_TPMV;
    struct view x;
    bool done;

    if ((r->routine == BLAS_TBSV || r->routine == BLAS_TPSV) && r->n > MOST_SOLVED)
        return limber_blas_fail(j, "the band or packed triangle is large");
    x = copy_of(j, &r->c, r->n);
    done = x.data && (times ? multiply_triangle : call_level_3)(j, x);
    if (done)
        put_back(j, &r->c, r->n, x);
    free(x.data);
    return done;
}

/* ---- updates --------------------------------------------------------------------------------- */

/* Computes ger, geru or gerc. */
static bool rank_one(struct active_request *j)
{
    const struct request *r = j->r;
    const union scalar one = limber_blas_scalar(j, 1, 0);
    const bool by_rows = r->order == BLAS_ROWS;
    void *copies[2];
    struct view x, y;
    bool done;

    if ((by_rows ? r->b.lead : r->a.lead) == 1 && is_short(j)) {
        limber_blas_rank_one(
            j, by_rows ? r->n : r->m, by_rows ? r->m : r->n, by_rows ? r->b.data : r->a.data,
            by_rows ? first_of(j, &r->a, r->m) : first_of(j, &r->b, r->n),
            by_rows ? r->a.lead : r->b.lead, (void *)(uintptr_t)r->c.data, r->c.lead);
        return true;
    }
    x = view_of_positive_step(j, &r->a, r->m, &copies[0]);
    y = view_of_positive_step(j, &r->b, r->n, &copies[1]);
    y.conj = r->hermitian;
    done = x.data && y.data &&
           limber_blas_multiply(j, r->m, r->n, 1, &j->alpha, x, limber_blas_transposed(y), &one,
                                limber_blas_view(r, &r->c));
    free(copies[0]);
    free(copies[1]);
    return done;
}

/* Copies a packed triangle to a full column-major matrix, or back. */
static void copy_packed(const struct active_request *j, struct view full, bool back)
{
    const struct request *r = j->r;
    struct stored s = { .data = r->c.data,
                        .rows = r->n,
                        .cols = r->n,
                        .packed = true,
                        .upper = (r->uplo == 'U') != (r->order == BLAS_ROWS) };
    int64_t first, last;

    s.above = s.upper ? r->n - 1 : 0;
    s.below = s.upper ? 0 : r->n - 1;
    for (int64_t col = 0; col < r->n; col++) {
        char *run = (char *)(uintptr_t)run_of(j, &s, col, &first, &last),
             *at = limber_blas_at(j, full, first, col).data;

        memcpy(back ? run : at, back ? at : run, (size_t)(last - first) * j->size);
    }
}

/* Computes syr, her, syr2, her2 and their packed forms as syrk, herk, syr2k or her2k with k = 1. */
static bool update_symmetric(struct active_request *j)
{
    const struct request *r = j->r;
    const bool packed = r->routine == BLAS_SPR || r->routine == BLAS_SPR2,
               two = r->routine == BLAS_SYR2 || r->routine == BLAS_SPR2;
    struct request q = *r;
    struct view x = copy_of(j, &r->a, r->n), y = { NULL }, full = { NULL };
    bool done = x.data;

    if (done && two)
        done = (y = copy_of(j, &r->b, r->n)).data;
    if (done && packed)
        done = (full = limber_blas_fresh(j, r->n, r->n)).data;
    if (done) {
        const int64_t lead = r->order == BLAS_ROWS ? 1 : r->n;

        q.routine = two          ? r->hermitian ? BLAS_HER2K : BLAS_SYR2K :
                    r->hermitian ? BLAS_HERK :
                                   BLAS_SYRK;
        q.a = (struct argument){ x.data, 'N', lead };
        q.b = (struct argument){ y.data, 'N', lead };
        if (packed) {
            copy_packed(j, full, false);
            q.c = (struct argument){ full.data, 'N', r->n };
        }
        j->beta = limber_blas_scalar(j, 1, 0);
        j->r = &q;
        done = limber_blas_triangle(j);
        j->r = r;
        if (done && packed)
            copy_packed(j, full, true);
    }
    free(full.data);
    free(y.data);
    free(x.data);
    return done;
}

/* Computes a routine of level 1 or 2. */
bool limber_blas_vectors(struct active_request *j)
{
    switch (j->r->routine) {
    case BLAS_DOT:
        return j->r->extends && (!j->is_single || is_reproducible(j)) ? extended_dot(j) : dot(j);
    case BLAS_NRM2: return compute_norm(j);
    case BLAS_ASUM: return sum_magnitudes(j);
    case BLAS_AXPY:
    case BLAS_SCAL: return add_scaled(j);
    case BLAS_ROT:
        return limber_blas_rotate(j, column_of(j, &j->r->b, j->r->m),
                                  column_of(j, &j->r->c, j->r->m));
    case BLAS_GEMV: return multiply_general(j);
    case BLAS_GBMV:
    case BLAS_SYMV:
    case BLAS_SBMV:
    case BLAS_SPMV: return multiply_partly_stored(j);
    case BLAS_TRMV:
    case BLAS_TBMV:
    case BLAS_TPMV:
    case BLAS_TRSV:
    case BLAS_TBSV:
    case BLAS_TPSV: return triangular(j);
    case BLAS_GER: return rank_one(j);
    default: return update_symmetric(j);
    }
}
