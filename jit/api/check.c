/* SPDX-License-Identifier: BSD-3-Clause
 * What the public calls ask of their arguments.  Every text names the argument. */
#include "jit/api/api.h"

#include <math.h>
#include <string.h>

/* Of `length` characters. */
static bool known_scheme(const char *name, size_t length)
{
    const limber_scheme *s;

    for (int i = 0; (s = limber_scheme_at(i)); i++)
        if (strlen(s->name) == length && strncmp(s->name, name, length) == 0)
            return true;
    return false;
}

/* A scheme, or two with a plus between them. */
static bool known_schemes(const char *name)
{
    size_t first = strcspn(name, "+");

    return known_scheme(name, first) &&
           (!name[first] || known_scheme(name + first + 1, strlen(name + first + 1)));
}

bool limber_check_contract(const limber_contract *k, limber_format c, struct diag *d)
{
    char name[32];

    if (!k)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract is NULL");
    if ((int)k->promise < LIMBER_CONTRACT_NATIVE || k->promise > LIMBER_CONTRACT_SIMULATE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.promise = %d is none of the promises", (int)k->promise);
    if (k->promise == LIMBER_CONTRACT_BITS && (k->bits < 1 || k->bits > 160))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.bits = %d is not from 1 to 160",
                           k->bits);
    if (k->slices < 0 || k->slices > 64)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.slices = %d is not from 0 to 64", k->slices);
    if ((int)k->split < LIMBER_SPLIT_ANY || k->split > LIMBER_SPLIT_INSIDE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.split = %d is none of its values", (int)k->split);
    if ((int)k->on_miss < LIMBER_ON_MISS_WAIT || k->on_miss > LIMBER_ON_MISS_COMPILE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.on_miss = %d is none of its values", (int)k->on_miss);
    if (k->promise == LIMBER_CONTRACT_SIMULATE && !k->unit)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.unit is NULL, but simulate needs one");
    if (k->promise == LIMBER_CONTRACT_SIMULATE && !limber_unit_verify(k->unit, d)) {
        limber_fail_in(d, "contract.unit");
        return false;
    }
    if (k->promise == LIMBER_CONTRACT_SIMULATE && k->scheme && strcmp(k->scheme, "simulate") != 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.scheme = \"%.40s\" simulates no unit", k->scheme);
    if (k->statistics && k->promise != LIMBER_CONTRACT_SIMULATE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.statistics are of simulated units only");
    if (k->promise == LIMBER_CONTRACT_FAST && !k->scheme)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.scheme is NULL, but fast needs one");
    if (k->scheme && !known_schemes(k->scheme))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.scheme = \"%.40s\" is unknown",
                           k->scheme);
    if (c.kind == LIMBER_KIND_UINT)     /* kernels store and check signed integers only */
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "c: %s is for operands; results are signed integers or floats",
                           limber_format_name(c, name, sizeof name));
    if (k->promise == LIMBER_CONTRACT_EXACT && !limber_is_integer(c))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.promise exact needs an integer result, c is %s",
                           limber_format_name(c, name, sizeof name));
    return true;
}

bool limber_check_format(limber_format f, const char *what, struct diag *d)
{
    const double zero = 0;
    unsigned char room[16];

    if (limber_format_equal(f, LIMBER_F64) || limber_format_equal(f, LIMBER_F32))
        return true;            /* spares the usual calls a conversion */
    if (f.kind == LIMBER_KIND_EXACT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: format exact is for plans only",
                           what);
    if (f.kind != LIMBER_KIND_NONE && f.size >= 1 && f.size <= sizeof room) {
        if (limber_convert(room, f, &zero, LIMBER_F64, 1, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK)
            return true;
    }
    return limber_fail(
        d, LIMBER_STATUS_BAD_ARGUMENT,
        "%s: format (kind %d, exponent %d, fraction %d, bias %d, size %d) is unknown", what, f.kind,
        f.exp_bits, f.frac_bits, f.bias, f.size);
}

/* Bytes from the first to behind the last element; false on overflow. */
static bool span(const limber_matrix *m, int64_t rows, int64_t cols, int64_t *bytes)
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
        __builtin_mul_overflow(elements, (int64_t)32, &bytes) || !span(m, rows, cols, &bytes))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: %lld x %lld elements with strides %lld and %lld exceed the "
                           "address space",
                           what, (long long)rows, (long long)cols, (long long)m->row_stride,
                           (long long)m->col_stride);
    return true;
}

bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d)
{
    return m->data || rows == 0 || cols == 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s.data is NULL", what);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* Elements (i,j) and (i+di, j-dj) coincide exactly when di row = dj col; the smallest such step is
 * (col, row) / gcd. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d)
{
    int64_t g = gcd(m->row_stride, m->col_stride);
    bool clash;

    if (rows == 0 || cols == 0)
        return true;
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

/* A matrix as a block of columns of a column-major array, whichever way it is walked. */
struct block {
    int64_t lead, high, wide;
};

static bool as_block(const limber_matrix *m, int64_t rows, int64_t cols, struct block *b)
{
    if (m->row_stride == 1)
        *b = (struct block){ m->col_stride, rows, cols };
    else if (m->col_stride == 1)
        *b = (struct block){ m->row_stride, cols, rows };
    else
        return false;
    return b->high <= b->lead;
}

/* Blocks of one array, as factorisations use them: their byte ranges meet though they share
 * nothing. */
static bool apart_in_one_array(const limber_matrix *c, struct block cb, const limber_matrix *x,
                               struct block xb)
{
    intptr_t bytes = (intptr_t)((uintptr_t)x->data - (uintptr_t)c->data), off;
    int64_t down, along;

    if (cb.lead != xb.lead || c->format.size != x->format.size || bytes % c->format.size != 0)
        return false;
    off = bytes / c->format.size;
    along = off / cb.lead - (off % cb.lead < 0);
    down = off - along * cb.lead;
    if (down + xb.high > cb.lead)       /* x wraps around into the next column: be careful */
        return false;
    return down >= cb.high || along >= cb.wide || along + xb.wide <= 0;
}

bool limber_check_apart(struct extent c, struct extent x, struct diag *d)
{
    uintptr_t pc = (uintptr_t)c.m->data, px = (uintptr_t)x.m->data;
    int64_t nc, nx;
    struct block cb, xb;

    if (!span(c.m, c.rows, c.cols, &nc) || !span(x.m, x.rows, x.cols, &nx) || nc == 0 || nx == 0 ||
        pc + (uintptr_t)nc <= px || px + (uintptr_t)nx <= pc)
        return true;
    if (as_block(c.m, c.rows, c.cols, &cb) && as_block(x.m, x.rows, x.cols, &xb) &&
        apart_in_one_array(c.m, cb, x.m, xb))
        return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s overlaps %s in memory", c.what, x.what);
}

/* Rounding to odd keeps what is inexact away from 0 and 1. */
const void *limber_scalar(const void *x, limber_format c, double neutral)
{
    limber_format from = c;
    double v;

    if (!x)
        return NULL;
    if (limber_format_equal(c, LIMBER_F64)) {
        memcpy(&v, x, sizeof v);
        return v == neutral ? NULL : x;
    }
    if (limber_is_integer(c))
        limber_format_named("i64", &from);
    if (limber_convert(&v, LIMBER_F64, x, from, 1, LIMBER_ROUND_ODD) == LIMBER_STATUS_OK &&
        v == neutral)
        return NULL;
    return x;
}
