/* SPDX-License-Identifier: BSD-3-Clause
 * Argument checks of the public calls.  Every error text names the argument. */
#include "jit/api/api.h"

#include <math.h>
#include <string.h>

/* Checks that a format describes elements in memory and can be converted. */
bool limber_check_format(limber_format f, const char *what, struct diag *d)
{
    const double zero = 0;
    unsigned char element[16];
    struct diag ignored = { 0 };

    if (limber_format_equal(f, LIMBER_F64) || limber_format_equal(f, LIMBER_F32))
        return true;            /* fast test for the usual formats */
    if (f.kind == LIMBER_KIND_EXACT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: format exact is for plans only",
                           what);
    if (f.kind != LIMBER_KIND_NONE && f.size >= 1 && f.size <= sizeof element) {
        if (limber_format_check(what, f, &ignored) &&
            limber_format_convert(element, f, &zero, LIMBER_F64, 1, LIMBER_ROUND_NEAREST, &ignored))
            return true;
    }
    return limber_fail(
        d, LIMBER_STATUS_BAD_ARGUMENT,
        "%s: format (kind %d, exponent %d, fraction %d, bias %d, size %d) is unknown", what, f.kind,
        f.exp_bits, f.frac_bits, f.bias, f.size);
}

/* Computes the number of bytes from the first element to the end of the last one.  False on
 * overflow, or if the matrix exceeds the address space. */
static bool byte_span(const limber_matrix *m, int64_t rows, int64_t cols, int64_t *bytes)
{
    int64_t down, along, last;

    *bytes = 0;
    if (rows == 0 || cols == 0)
        return true;
    return !__builtin_mul_overflow(rows - 1, m->row_stride, &down) &&
           !__builtin_mul_overflow(cols - 1, m->col_stride, &along) &&
           !__builtin_add_overflow(down, along, &last) && !__builtin_add_overflow(last, 1, &last) &&
           !__builtin_mul_overflow(last, (int64_t)m->format.size, bytes) && *bytes <= PTRDIFF_MAX &&
           (uintptr_t)m->data <= UINTPTR_MAX - (uintptr_t)*bytes;
}

/* Checks a matrix's format and strides, and that its size in bytes does not overflow. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d)
{
    int64_t elements, bytes;

    if (!limber_check_format(m->format, what, d))
        return false;
    if (m->row_stride < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s.row_stride = %lld is negative", what,
                           (long long)m->row_stride);
    if (m->col_stride < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s.col_stride = %lld is negative", what,
                           (long long)m->col_stride);
    if (__builtin_mul_overflow(rows, cols, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)32, &bytes) || !byte_span(m, rows, cols, &bytes))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: %lld x %lld elements with strides %lld and %lld exceed the "
                           "address space",
                           what, (long long)rows, (long long)cols, (long long)m->row_stride,
                           (long long)m->col_stride);
    return true;
}

/* Checks that the address of the matrix is not NULL, unless the matrix has no elements. */
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d)
{
    return m->data || rows == 0 || cols == 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s.data is NULL", what);
}

/* Checks the arrays of an elementwise operation: they must not overlap, except that dst may be
 * src if elements have the same size. */
bool limber_check_arrays(const void *dst, limber_format to, const void *src, limber_format from,
                         size_t count, struct diag *d)
{
    uintptr_t read = (uintptr_t)src, written = (uintptr_t)dst;

    if (count > PTRDIFF_MAX / 16)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "count = %zu is too large", count);
    if (count && (!src || !dst))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", src ? "dst" : "src");
    if (read < written + count * to.size && written < read + count * from.size &&
        (src != dst || from.size != to.size))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "dst and src overlap");
    return true;
}

/* Returns the greatest common divisor of a and b. */
static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* Checks that no two elements share memory.  Elements (i,j) and (i+di, j-dj) have the same address
 * exactly if di * row_stride = dj * col_stride.  The smallest nonzero di and dj with this property
 * are (col_stride, row_stride) / gcd. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d)
{
    int64_t g;
    bool clash;

    /* fast test for the usual layouts, without two divisions */
    if (rows == 0 || cols == 0 || (m->col_stride == 1 && m->row_stride >= cols) ||
        (m->row_stride == 1 && m->col_stride >= rows))
        return true;
    g = gcd(m->row_stride, m->col_stride);
    if (rows == 1 || cols == 1)
        clash = (rows > 1 && m->row_stride == 0) || (cols > 1 && m->col_stride == 0);
    else
        clash = m->row_stride == 0 || m->col_stride == 0 ||
                (m->col_stride / g < rows && m->row_stride / g < cols);
    if (!clash)
        return true;
    return limber_fail(
        d, LIMBER_STATUS_BAD_ARGUMENT,
        "%s: row_stride = %lld and col_stride = %lld put different elements of a %lld x "
        "%lld matrix into the same place",
        what, (long long)m->row_stride, (long long)m->col_stride, (long long)rows, (long long)cols);
}

/* A matrix as a block of a column-major array; a row-major matrix is transposed.  lead: leading
 * dimension; high, wide: rows and columns of the block. */
struct block {
    int64_t lead, high, wide;
};

/* Describes a matrix as a block of a column-major array.  False if neither its rows nor its columns
 * are dense. */
static bool describe_as_block(const limber_matrix *m, int64_t rows, int64_t cols, struct block *b)
{
    if (m->row_stride == 1)
        *b = (struct block){ m->col_stride, rows, cols };
    else if (m->col_stride == 1)
        *b = (struct block){ m->row_stride, cols, rows };
    else
        return false;
    return b->high <= b->lead;
}

/* True if C and X are disjoint blocks of one array, as in blocked factorisations: their address
 * ranges overlap though they share no element. */
static bool are_disjoint_blocks(const limber_matrix *c, struct block cb, const limber_matrix *x,
                                struct block xb)
{
    intptr_t bytes = (intptr_t)((uintptr_t)x->data - (uintptr_t)c->data), distance;
    int64_t down, along;

    if (cb.lead != xb.lead || c->format.size != x->format.size || bytes % c->format.size != 0)
        return false;
    distance = bytes / c->format.size;
    along = distance / cb.lead - (distance % cb.lead < 0);
    down = distance - along * cb.lead;
    if (down + xb.high > cb.lead) /* x wraps into the next column, so an overlap is assumed */
        return false;
    return down >= cb.high || along >= cb.wide || along + xb.wide <= 0;
}

/* Checks that the matrices c and x share no element.  Ranges of addresses may overlap if both are
 * blocks of one larger matrix. */
bool limber_check_apart(struct extent c, struct extent x, struct diag *d)
{
    uintptr_t pc = (uintptr_t)c.m->data, px = (uintptr_t)x.m->data;
    int64_t nc, nx;
    struct block cb, xb;

    if (!byte_span(c.m, c.rows, c.cols, &nc) || !byte_span(x.m, x.rows, x.cols, &nx) || nc == 0 ||
        nx == 0 || pc + (uintptr_t)nc <= px || px + (uintptr_t)nx <= pc)
        return true;
    if (describe_as_block(c.m, c.rows, c.cols, &cb) &&
        describe_as_block(x.m, x.rows, x.cols, &xb) && are_disjoint_blocks(c.m, cb, x.m, xb))
        return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s overlaps %s in memory", c.what, x.what);
}

/* Returns NULL if the scalar x equals `neutral`, else x.  The scalar is converted to binary64 by
 * rounding to odd, so that an inexact value never becomes 0 or 1. */
const void *limber_scalar(const void *x, limber_format c, double neutral)
{
    struct diag ignored = { 0 };
    double v;

    if (!x)
        return NULL;
    if (limber_format_equal(c, LIMBER_F64)) {
        memcpy(&v, x, sizeof v);
        return v == neutral ? NULL : x;
    }
    if (limber_format_convert(&v, LIMBER_F64, x, limber_scalar_format(c), 1, LIMBER_ROUND_ODD,
                              &ignored) &&
        v == neutral)
        return NULL;
    return x;
}
