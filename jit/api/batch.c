/* SPDX-License-Identifier: BSD-3-Clause
 * Checks of a batch: that matrices do not exceed the address space, and that no result overlaps
 * another matrix. */
#include "jit/api/api.h"

#include <stdio.h>
#include <stdlib.h>

/* The matrices of one operand of a batch. */
struct batch_operand {
    const char *what;
    limber_matrix m;
    int64_t rows, cols, count, step;
    const void *const *each; /* the matrices; if NULL, they are `step` elements apart */
};

/* Returns the matrix of product g. */
static limber_matrix matrix_of(const struct batch_operand *x, int64_t g)
{
    limber_matrix m = x->m;

    if (x->each)
        m.data = x->each[g];
    else
        m.data = (const char *)m.data + g * x->step * m.format.size;
    return m;
}

/* True if the operand has no elements. */
static bool is_empty(const struct batch_operand *x)
{
    return x->rows == 0 || x->cols == 0 || x->count == 0;
}

/* Returns the distance from the first to the last element of a matrix, in elements.
 * limber_check_matrix has checked that it does not overflow. */
static int64_t extent_of(const struct batch_operand *x)
{
    return (x->rows - 1) * x->m.row_stride + (x->cols - 1) * x->m.col_stride;
}

/* Returns the number of bytes from the first element of a matrix to the end of its last one. */
static uintptr_t bytes_of(const struct batch_operand *x)
{
    return (uintptr_t)(extent_of(x) + 1) * x->m.format.size;
}

/* ---- addresses of one operand's matrices ----------------------------------------------------- */

/* Checks listed addresses: none is NULL, and no matrix exceeds the address space. */
static bool check_addresses(const struct batch_operand *x, struct diag *d)
{
    for (int64_t g = 0; g < x->count; g++) {
        const limber_matrix m = matrix_of(x, g);

        if (!m.data)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.address_%s[%lld] is NULL",
                               x->what, (long long)g);
        if ((uintptr_t)m.data > UINTPTR_MAX - bytes_of(x))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "batch.address_%s[%lld]: the matrix exceeds the address space",
                               x->what, (long long)g);
    }
    return true;
}

/* Checks matrices at a constant step: the first one is not NULL, and all lie in the address
 * space. */
static bool check_step(const struct batch_operand *x, struct diag *d)
{
    int64_t last, bytes;

    if (!limber_check_data(&x->m, x->what, x->rows, x->cols, d))
        return false;
    if (!__builtin_mul_overflow(x->count - 1, x->step, &last) &&
        !__builtin_add_overflow(last, extent_of(x) + 1, &last) &&
        !__builtin_mul_overflow(last, (int64_t)x->m.format.size, &bytes) && bytes <= PTRDIFF_MAX &&
        (uintptr_t)x->m.data <= UINTPTR_MAX - (uintptr_t)bytes)
        return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "batch.%s = %lld: %lld matrices exceed the address space", x->what,
                       (long long)x->step, (long long)x->count);
}

/* Checks one operand of a batch.  A batch without elements may have any addresses. */
static bool check_many(const struct batch_operand *x, struct diag *d)
{
    if (x->step < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.%s = %lld is negative", x->what,
                           (long long)x->step);
    return is_empty(x) || (x->each ? check_addresses(x, d) : check_step(x, d));
}

/* ---- results must not overlap one another ---------------------------------------------------- */

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* True if t = x * row_stride + y * col_stride for some integers |x| < rows, |y| < cols; t is then
 * the distance of two elements of one matrix. */
static bool is_difference(const struct batch_operand *c, int64_t t)
{
    bool tall = c->rows > c->cols;
    int64_t shorter = tall ? c->cols : c->rows, longer = tall ? c->rows : c->cols;
    int64_t shorter_stride = tall ? c->m.col_stride : c->m.row_stride,
            longer_stride = tall ? c->m.row_stride : c->m.col_stride;

    for (int64_t x = 1 - shorter; x < shorter; x++) {
        int64_t rest = t - x * shorter_stride;

        if (rest == 0 || (longer_stride > 0 && longer > 1 && rest % longer_stride == 0 &&
                          min_int64(rest, -rest) / longer_stride > -longer))
            return true;
    }
    return false;
}

/* Checks that results at a constant step do not overlap.  Two results share an element exactly if
 * the distance between them is the distance between two elements of one matrix. */
static bool check_steps(const struct batch_operand *c, struct diag *d)
{
    int64_t last_overlapping;

    if (c->count < 2 || c->step > extent_of(c))
        return true;
    if (c->step == 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.c = 0 with %lld products",
                           (long long)c->count);
    last_overlapping = min_int64(c->count - 1, extent_of(c) / c->step);
    for (int64_t g = 1; g <= last_overlapping; g++)
        if (is_difference(c, g * c->step))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "batch.c = %lld makes matrices of c overlap: products 0 and %lld",
                               (long long)c->step, (long long)g);
    return true;
}

/* The address of result g of a batch. */
struct address {
    uintptr_t at;
    int64_t g;
};

/* Compares addresses, for qsort. */
static int by_address(const void *a, const void *b)
{
    uintptr_t x = ((const struct address *)a)->at, y = ((const struct address *)b)->at;

    return x < y ? -1 : x > y;
}

/* Returns the addresses of all matrices in rising order, with the numbers of their products.  The
 * caller frees them.  NULL if memory runs out. */
static struct address *sort_addresses(const struct batch_operand *x, struct diag *d)
{
    struct address *a = calloc((size_t)x->count, sizeof *a);
    bool ascending = true;

    if (!a) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %lld addresses",
                    (long long)x->count);
        return NULL;
    }
    for (int64_t g = 0; g < x->count; g++) {
        a[g] = (struct address){ (uintptr_t)matrix_of(x, g).data, g };
        ascending = ascending && (g == 0 || a[g - 1].at <= a[g].at);
    }
    if (!ascending)
        qsort(a, (size_t)x->count, sizeof *a, by_address);
    return a;
}

/* Checks that matrix g of c does not overlap matrix h of x. */
static bool check_pair(const struct batch_operand *c, int64_t g, const struct batch_operand *x,
                       int64_t h, struct diag *d)
{
    const limber_matrix mc = matrix_of(c, g), mx = matrix_of(x, h);
    char first[40], second[40];

    snprintf(first, sizeof first, "%s of product %lld", c->what, (long long)g);
    snprintf(second, sizeof second, "%s of product %lld", x->what, (long long)h);
    return limber_check_apart((struct extent){ &mc, first, c->rows, c->cols },
                              (struct extent){ &mx, second, x->rows, x->cols }, d);
}

/* Checks that no two results at listed addresses overlap.  In rising order of addresses, a matrix
 * can overlap only earlier ones that end after its beginning. */
static bool check_addresses_apart(const struct batch_operand *c, const struct address *a,
                                  struct diag *d)
{
    for (int64_t i = 1; i < c->count; i++)
        for (int64_t j = i - 1; j >= 0 && a[i].at - a[j].at < bytes_of(c); j--)
            if (!check_pair(c, a[j].g, c, a[i].g, d))
                return false;
    return true;
}

/* ---- results must not overlap operands ------------------------------------------------------- */

/* True if the memory of all matrices of x lies before or after that of all matrices of c.  This is
 * the usual case, and fast to test. */
static bool are_ranges_apart(const struct batch_operand *c, const struct batch_operand *x)
{
    uintptr_t first[2] = { UINTPTR_MAX, UINTPTR_MAX }, end[2] = { 0, 0 };
    const struct batch_operand *const side[2] = { c, x };

    for (int s = 0; s < 2; s++)
        for (int64_t g = 0; g < side[s]->count; g++) {
            uintptr_t at = (uintptr_t)matrix_of(side[s], g).data;

            first[s] = at < first[s] ? at : first[s];
            end[s] = at + bytes_of(side[s]) > end[s] ? at + bytes_of(side[s]) : end[s];
        }
    return end[0] <= first[1] || end[1] <= first[0];
}

/* Returns the index of the first sorted address whose matrix of c ends after the address `at`. */
static int64_t first_behind(const struct batch_operand *c, const struct address *a, uintptr_t at)
{
    int64_t low = 0, high = c->count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (a[middle].at + bytes_of(c) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Checks that no result of the batch overlaps a matrix of x.  a: the sorted addresses of the
 * results. */
static bool check_operand(const struct batch_operand *c, const struct address *a,
                          const struct batch_operand *x, struct diag *d)
{
    int64_t distinct = !x->each && x->step == 0 ? 1 : x->count;

    for (int64_t h = 0; h < distinct; h++) {
        uintptr_t at = (uintptr_t)matrix_of(x, h).data;

        for (int64_t i = first_behind(c, a, at); i < c->count && a[i].at < at + bytes_of(x); i++)
            if (!check_pair(c, a[i].g, x, h, d))
                return false;
    }
    return true;
}

/* Checks that no result overlaps another result or an operand. */
static bool check_apart(const struct batch_operand *c, const struct batch_operand *a,
                        const struct batch_operand *b, struct diag *d)
{
    bool far_a = is_empty(a) || are_ranges_apart(c, a),
         far_b = is_empty(b) || are_ranges_apart(c, b), ok;
    struct address *at;

    if (!c->each && !check_steps(c, d))
        return false;
    if (!c->each && far_a && far_b)
        return true;
    at = sort_addresses(c, d);
    ok = at && (!c->each || check_addresses_apart(c, at, d)) &&
         (far_a || check_operand(c, at, a, d)) && (far_b || check_operand(c, at, b, d));
    free(at);
    return ok;
}

/* ---- all checks of a batch ------------------------------------------------------------------- */

/* Checks a batch of t->count products of x's sizes: its matrices must be valid, no two elements
 * of its results may coincide, and results must not overlap operands. */
bool limber_check_batch(const limber_batch *t, const struct product_matrices *x, struct diag *d)
{
    const struct batch_operand a = { "a", x->a, x->m, x->k, t->count, t->a, t->address_a };
    const struct batch_operand b = { "b", x->b, x->k, x->n, t->count, t->b, t->address_b };
    const struct batch_operand c = {
        "c", x->c, x->m, x->n, t->count, t->c, (const void *const *)t->address_c
    };

    if (t->count < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.count = %lld is negative",
                           (long long)t->count);
    return check_many(&a, d) && check_many(&b, d) && check_many(&c, d) &&
           (is_empty(&c) ||
            (limber_check_distinct(&x->c, "c", x->m, x->n, d) && check_apart(&c, &a, &b, d)));
}
