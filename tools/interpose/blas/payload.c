/* SPDX-License-Identifier: BSD-3-Clause
 * Propagates the payloads of NaN and raises exception flags, as instructions of CPUs do.  R's NA is
 * a NaN with a payload.  Schemes that multiply integers or limbs lose payloads, and calls of Limber
 * leave flags as they were. */
#include "product.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_nan(const struct active_request *j, struct view v, int64_t row, int64_t col)
{
    const void *p = limber_blas_at(j, v, row, col).data;

    return j->is_single ? isnan(*(const float *)p) : isnan(*(const double *)p);
}

static bool is_infinite(const struct active_request *j, struct view v, int64_t row, int64_t col)
{
    const void *p = limber_blas_at(j, v, row, col).data;

    return j->is_single ? isinf(*(const float *)p) : isinf(*(const double *)p);
}

/* Copies a NaN and makes it quiet, as an instruction would. */
static void copy_nan(const struct active_request *j, void *to, const void *from)
{
    uint32_t single;
    uint64_t twice;

    if (j->is_single) {
        memcpy(&single, from, sizeof single);
        single |= (uint32_t)1 << 22;
        memcpy(to, &single, sizeof single);
    } else {
        memcpy(&twice, from, sizeof twice);
        twice |= (uint64_t)1 << 51;
        memcpy(to, &twice, sizeof twice);
    }
}

/* True if some of `count` contiguous elements is NaN or infinite: its exponent has all bits set.
 * Integer operations raise no exception flags, and compilers vectorise them. */
static bool has_nonfinite(const struct active_request *j, const void *p, int64_t count)
{
    const uint32_t *single = p;
    const uint64_t *twice = p;
    uint32_t singles = 0;
    uint64_t doubles = 0;

    if (j->is_single)
        for (int64_t i = 0; i < count; i++)
            singles |= ((single[i] >> 23 & 0xff) + 1) >> 8;
    else
        for (int64_t i = 0; i < count; i++)
            doubles |= ((twice[i] >> 52 & 0x7ff) + 1) >> 11;
    return singles || doubles;
}

enum { UNKNOWN = -2 };

/* Allocates a cache for first_nan(); all entries are UNKNOWN. */
static int64_t *make_cache(int64_t lines)
{
    int64_t *known = malloc((size_t)lines * sizeof *known);

    for (int64_t i = 0; known && i < lines; i++)
        known[i] = UNKNOWN;
    return known;
}

/* Index of the first NaN in a line (row of a, or column of b), or -1 if there is none.  known[line]
 * caches it. */
static int64_t first_nan(const struct active_request *j, int64_t *known, struct view v, bool is_row,
                         int64_t line, int64_t k)
{
    int64_t at = 0;

    if (known[line] != UNKNOWN)
        return known[line];
    while (at < k && !is_nan(j, v, is_row ? line : at, is_row ? at : line))
        at++;
    return known[line] = at < k ? at : -1;
}

/* Gives element (i, n) of c the payload of an operand's NaN.  False if no operand has one. */
static bool carry_payload(const struct active_request *j, const struct blas_product *p, int64_t i,
                          int64_t n, int64_t *in_row, int64_t *in_col)
{
    void *to = limber_blas_at(j, p->c, i, n).data;
    int64_t at = first_nan(j, in_row, p->a, true, i, p->k);

    if (at >= 0) {
        copy_nan(j, to, limber_blas_at(j, p->a, i, at).data);
        return true;
    }
    at = first_nan(j, in_col, p->b, false, n, p->k);
    if (at >= 0)
        copy_nan(j, to, limber_blas_at(j, p->b, at, n).data);
    return at >= 0;
}

/* The rows or columns of a matrix, whichever are contiguous. */
struct lines {
    struct view v;
    bool are_rows;
    int64_t count, length;
};

static struct lines lines_of(struct view v, int64_t rows, int64_t cols)
{
    const bool are_rows = v.col == 1;

    return (struct lines){ v, are_rows, are_rows ? rows : cols, are_rows ? cols : rows };
}

/* Number of the first line, from `line` on, that has a NaN or an infinity; x->count if there is
 * none. */
static int64_t next_with_nonfinite(const struct active_request *j, const struct lines *x,
                                   int64_t line)
{
    while (line < x->count &&
           !has_nonfinite(
               j, limber_blas_at(j, x->v, x->are_rows ? line : 0, x->are_rows ? 0 : line).data,
               x->length))
        line++;
    return line;
}

/* True if the matrix may have a NaN or an infinity, or is not contiguous in either direction. */
static bool any_nonfinite(const struct active_request *j, struct view v, int64_t rows, int64_t cols)
{
    const struct lines x = lines_of(v, rows, cols);

    return (v.row != 1 && v.col != 1) || next_with_nonfinite(j, &x, 0) < x.count;
}

/* True if both operands and alpha are finite and C is not read, so that an infinity of the result
 * has overflowed. */
static bool has_overflowed(const struct active_request *j, const struct blas_product *p)
{
    const double alpha = j->is_single ? (double)p->alpha->f[0] : p->alpha->d[0];

    return isfinite(alpha) && limber_blas_is(j, p->beta, 0) &&
           !any_nonfinite(j, p->a, p->m, p->k) && !any_nonfinite(j, p->b, p->k, p->n);
}

/* Gives each NaN of a product's result the payload of the operand's NaN that caused it, since a
 * processor would keep it.  Raises the flags of overflow, and of invalid operations that made a
 * NaN, unless C is also an operand.  If C is much larger than A and B, only NaN in these are looked
 * for, and overflow raises no flag. */
void limber_blas_carry_payloads(const struct active_request *j, const struct blas_product *p)
{
    const struct lines c = lines_of(p->c, p->m, p->n);
    bool invalid = false, infinite = false;
    int64_t *known = NULL;

    if (j->is_complex || j->contract->promise == LIMBER_CONTRACT_SIMULATE)
        return;
    /* Looks for NaN in a and b first if they are much smaller than c: without them, c has no
     * payload to carry. */
    if ((p->m + p->n) * p->k < p->m * p->n / 2 && !any_nonfinite(j, p->a, p->m, p->k) &&
        !any_nonfinite(j, p->b, p->k, p->n))
        return;
    for (int64_t line = next_with_nonfinite(j, &c, 0); line < c.count;
         line = next_with_nonfinite(j, &c, line + 1)) {
        if (!known && !(known = make_cache(p->m + p->n)))
            return; /* memory is exhausted: results remain NaN, but with other payloads */
        for (int64_t i = 0; i < c.length; i++) {
            const int64_t row = c.are_rows ? line : i, col = c.are_rows ? i : line;

            if (is_nan(j, p->c, row, col))
                invalid |= !carry_payload(j, p, row, col, known, known + p->m);
            else
                infinite = infinite || is_infinite(j, p->c, row, col);
        }
    }
    free(known);
    invalid = invalid && limber_blas_is(j, p->beta, 0);
    infinite = infinite && has_overflowed(j, p);
    if (invalid || infinite)
        feraiseexcept((invalid ? FE_INVALID : 0) | (infinite ? FE_OVERFLOW | FE_INEXACT : 0));
}
