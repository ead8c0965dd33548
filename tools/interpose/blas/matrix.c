/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"

#include <stdlib.h>
#include <string.h>

struct view limber_blas_view(const struct request *r, const struct argument *x)
{
    bool down = (x->op == 'N') == (r->order == BLAS_COLUMNS); /* columns of op(x) are contiguous */

    return (struct view){ (void *)(uintptr_t)x->data, down ? 1 : x->lead, down ? x->lead : 1,
                          x->op == 'C' };
}

struct view limber_blas_transposed(struct view v)
{
    return (struct view){ v.data, v.col, v.row, v.conj };
}

struct view limber_blas_at(const struct active_request *j, struct view v, int64_t row, int64_t col)
{
    v.data = (char *)v.data + (row * v.row + col * v.col) * (int64_t)j->size;
    return v;
}

/* Allocates a column-major matrix; `data` is NULL if memory is exhausted. */
struct view limber_blas_fresh(struct active_request *j, int64_t rows, int64_t cols)
{
    int64_t bytes;
    struct view v = { NULL, 1, rows > 1 ? rows : 1, false };

    if (!__builtin_mul_overflow(v.col, cols, &bytes) &&
        !__builtin_mul_overflow(bytes, (int64_t)j->size, &bytes))
        v.data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!v.data)
        limber_blas_fail(j, "no memory for a copy");
    return v;
}

/* Copies n elements of `size` bytes (4, 8 or 16).  Steps are in elements. */
static void copy_line(size_t size, int64_t n, char *to, int64_t to_step, const char *from,
                      int64_t from_step)
{
    if (n <= 0)
        return;
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n;
         i++, to += to_step * (int64_t)size, from += from_step * (int64_t)size)
        switch (size) {
        case 4: memcpy(to, from, 4); break;
        case 8: memcpy(to, from, 8); break;
        default: memcpy(to, from, 16);
        }
}

/* Finds the range [*from, *to) of the rows of column `col` that belong to the part. */
static void part_rows(enum part part, int64_t m, int64_t col, int64_t *from, int64_t *to)
{
    *from = part == LOWER ? col : 0;
    *to = part == UPPER && col + 1 < m ? col + 1 : m;
}

/* Copies a part of an m x n matrix, without conjugating.  The inner loop runs in the direction in
 * which the target is contiguous. */
void limber_blas_copy(const struct active_request *j, enum part part, int64_t m, int64_t n,
                      struct view to, struct view from)
{
    int64_t first, last;

    if (to.col == 1 && to.row != 1) { /* copy along lines that are contiguous in the target */
        limber_blas_copy(j,
                         part == WHOLE ? WHOLE :
                         part == UPPER ? LOWER :
                                         UPPER,
                         n, m, limber_blas_transposed(to), limber_blas_transposed(from));
        return;
    }
    for (int64_t col = 0; col < n; col++) {
        part_rows(part, m, col, &first, &last);
        copy_line(j->size, last - first, limber_blas_at(j, to, first, col).data, to.row,
                  limber_blas_at(j, from, first, col).data, from.row);
    }
}

bool limber_blas_keep(struct active_request *j, enum part part, int64_t m, int64_t n, struct view v,
                      struct view *kept)
{
    if (limber_blas_is(j, &j->beta, 0))
        return true;
    *kept = limber_blas_fresh(j, m, n);
    if (kept->data)
        limber_blas_copy(j, part, m, n, *kept, v);
    return kept->data;
}

void limber_blas_restore(const struct active_request *j, enum part part, int64_t m, int64_t n,
                         struct view v, struct view kept)
{
    if (kept.data)
        limber_blas_copy(j, part, m, n, v, kept);
}

/* True if n contiguous numbers are finite.  Tests bits of exponents, which compilers vectorise. */
static bool are_finite(bool single, const void *x, int64_t n)
{
    const uint32_t *f = x, f_most = 0x7f800000;
    const uint64_t *d = x, d_most = 0x7ff0000000000000;
    uint64_t bad = 0;

    if (single)
        for (int64_t i = 0; i < n; i++)
            bad |= (f[i] & f_most) == f_most;
    else
        for (int64_t i = 0; i < n; i++)
            bad |= (d[i] & d_most) == d_most;
    return !bad;
}

/* True if all elements of a part of an m x n matrix are finite. */
bool limber_blas_is_finite(const struct active_request *j, enum part part, int64_t m, int64_t n,
                           struct view v)
{
    const int64_t numbers = j->is_complex ? 2 : 1;
    int64_t first, last;
    bool all = true;

    if (v.row != 1 && v.col == 1)
        return limber_blas_is_finite(j,
                                     part == WHOLE ? WHOLE :
                                     part == UPPER ? LOWER :
                                                     UPPER,
                                     n, m, limber_blas_transposed(v));
    for (int64_t col = 0; col < n && all; col++) {
        part_rows(part, m, col, &first, &last);
        if (v.row == 1 && last > first)
            all = are_finite(j->is_single, limber_blas_at(j, v, first, col).data,
                             numbers * (last - first));
        for (int64_t row = first; row < last && v.row != 1; row++)
            all &= are_finite(j->is_single, limber_blas_at(j, v, row, col).data, numbers);
    }
    return all;
}

void limber_blas_conjugate(const struct active_request *j, int64_t m, int64_t n, struct view v)
{
    for (int64_t col = 0; col < n && j->is_complex; col++)
        for (int64_t row = 0; row < m; row++) {
            union scalar *x = limber_blas_at(j, v, row, col).data;

            if (j->is_single)
                x->f[1] = -x->f[1];
            else
                x->d[1] = -x->d[1];
        }
}

void limber_blas_make_real(const struct active_request *j, int64_t n, struct view v)
{
    for (int64_t i = 0; i < n && j->is_complex; i++) {
        union scalar *x = limber_blas_at(j, v, i, i).data;

        if (j->is_single)
            x->f[1] = 0;
        else
            x->d[1] = 0;
    }
}
