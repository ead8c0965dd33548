/* SPDX-License-Identifier: BSD-3-Clause
 * Batches: checks that matrices lie in memory and that no two results overlap. */
#include "jit/api/api.h"

#include <stdio.h>
#include <stdlib.h>

/* The matrices of one operand. */
struct many {
    const char *what;
    limber_matrix m;
    int64_t rows, cols, count, step;
    const void *const *each;    /* addresses; NULL: by step */
};

/* The matrix of product g, whose address is listed or follows from the step. */
static limber_matrix matrix_of(const struct many *x, int64_t g)
{
    limber_matrix m = x->m;

    if (x->each)
        m.data = x->each[g];
    else
        m.data = (const char *)m.data + g * x->step * m.format.size;
    return m;
}

static bool is_empty(const struct many *x)
{
    return x->rows == 0 || x->cols == 0 || x->count == 0;
}

/* The distance from the first element to the last, in elements; known not to overflow. */
static int64_t extent_of(const struct many *x)
{
    return (x->rows - 1) * x->m.row_stride + (x->cols - 1) * x->m.col_stride;
}

static uintptr_t bytes_of(const struct many *x)
{
    return (uintptr_t)(extent_of(x) + 1) * x->m.format.size;
}

/* ---- addresses of one operand's matrices ----------------------------------------------------- */

/* Checks listed addresses: none is NULL or so high that its matrix would wrap around. */
static bool check_addresses(const struct many *x, struct diag *d)
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

/* Checks a matrix and its step: all matrices lie in the address space. */
static bool check_step(const struct many *x, struct diag *d)
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

/* Checks one side of a batch.  Batches without elements may have any addresses. */
static bool check_many(const struct many *x, struct diag *d)
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

/* True if x row + y col = t for some |x| < rows, |y| < cols. */
static bool is_difference(const struct many *c, int64_t t)
{
    bool tall = c->rows > c->cols;
    int64_t few = tall ? c->cols : c->rows, many = tall ? c->rows : c->cols;
    int64_t by_few = tall ? c->m.col_stride : c->m.row_stride,
            by_many = tall ? c->m.row_stride : c->m.col_stride;

    for (int64_t x = 1 - few; x < few; x++) {
        int64_t rest = t - x * by_few;

        if (rest == 0 || (by_many > 0 && many > 1 && rest % by_many == 0 &&
                          min_int64(rest, -rest) / by_many > -many))
            return true;
    }
    return false;
}

/* Matrices a step apart share an element exactly if a multiple of the step is the distance of two
 * elements of one matrix. */
static bool check_steps(const struct many *c, struct diag *d)
{
    int64_t most;

    if (c->count < 2 || c->step > extent_of(c))
        return true;
    if (c->step == 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.c = 0 with %lld products",
                           (long long)c->count);
    most = min_int64(c->count - 1, extent_of(c) / c->step);
    for (int64_t g = 1; g <= most; g++)
        if (is_difference(c, g * c->step))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "batch.c = %lld makes matrices of c overlap: products 0 and %lld",
                               (long long)c->step, (long long)g);
    return true;
}

/* The address of a batch's result number g. */
struct address {
    uintptr_t at;
    int64_t g;
};

static int by_address(const void *a, const void *b)
{
    uintptr_t x = ((const struct address *)a)->at, y = ((const struct address *)b)->at;

    return x < y ? -1 : x > y;
}

/* The addresses of all matrices in ascending order, with the numbers of their products; NULL: no
 * memory. */
static struct address *sort_addresses(const struct many *x, struct diag *d)
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

/* Checks that c of product g does not overlap x of product h. */
static bool check_pair(const struct many *c, int64_t g, const struct many *x, int64_t h,
                       struct diag *d)
{
    const limber_matrix mc = matrix_of(c, g), mx = matrix_of(x, h);
    char first[40], second[40];

    snprintf(first, sizeof first, "%s of product %lld", c->what, (long long)g);
    snprintf(second, sizeof second, "%s of product %lld", x->what, (long long)h);
    return limber_check_apart((struct extent){ &mc, first, c->rows, c->cols },
                              (struct extent){ &mx, second, x->rows, x->cols }, d);
}

/* Among matrices sorted by address, a matrix can only overlap earlier ones that end behind its
 * begin. */
static bool check_addresses_apart(const struct many *c, const struct address *a, struct diag *d)
{
    for (int64_t i = 1; i < c->count; i++)
        for (int64_t j = i - 1; j >= 0 && a[i].at - a[j].at < bytes_of(c); j--)
            if (!check_pair(c, a[j].g, c, a[i].g, d))
                return false;
    return true;
}

/* ---- results must not overlap operands ------------------------------------------------------- */

/* True if all of x lie before or behind all of c: the usual case, and a fast test. */
static bool are_ranges_apart(const struct many *c, const struct many *x)
{
    uintptr_t first[2] = { UINTPTR_MAX, UINTPTR_MAX }, end[2] = { 0, 0 };
    const struct many *const side[2] = { c, x };

    for (int s = 0; s < 2; s++)
        for (int64_t g = 0; g < side[s]->count; g++) {
            uintptr_t at = (uintptr_t)matrix_of(side[s], g).data;

            first[s] = at < first[s] ? at : first[s];
            end[s] = at + bytes_of(side[s]) > end[s] ? at + bytes_of(side[s]) : end[s];
        }
    return end[0] <= first[1] || end[1] <= first[0];
}

/* The first of the sorted addresses whose matrix of c ends behind the address `at`. */
static int64_t first_behind(const struct many *c, const struct address *a, uintptr_t at)
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

/* Checks that no result of the batch overlaps a matrix of x. a: the results' addresses, sorted, or
 * NULL. */
static bool check_operand(const struct many *c, const struct address *a, const struct many *x,
                          struct diag *d)
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
static bool check_apart(const struct many *c, const struct many *a, const struct many *b,
                        struct diag *d)
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

bool limber_check_batch(const limber_batch *t, const struct product *x, struct diag *d)
{
    const struct many a = { "a", x->a, x->m, x->k, t->count, t->a, t->address_a };
    const struct many b = { "b", x->b, x->k, x->n, t->count, t->b, t->address_b };
    const struct many c = {
        "c", x->c, x->m, x->n, t->count, t->c, (const void *const *)t->address_c
    };

    if (t->count < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "batch.count = %lld is negative",
                           (long long)t->count);
    return check_many(&a, d) && check_many(&b, d) && check_many(&c, d) &&
           (is_empty(&c) ||
            (limber_check_distinct(&x->c, "c", x->m, x->n, d) && check_apart(&c, &a, &b, d)));
}
