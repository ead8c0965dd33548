/* SPDX-License-Identifier: BSD-3-Clause
 * limber_bind_shape: checks the request for a function of one shape, makes its code and returns the
 * address. */
#include "jit/api/api.h"

#include <string.h>

enum { MOST_SIZE = 256 }; /* largest m, n and k; for larger ones packing pays */

/* Checks that a size is from 1 to MOST_SIZE.  what: its name. */
static bool check_size(int64_t v, const char *what, struct diag *d)
{
    if (v < 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is less than 1", what,
                           (long long)v);
    return v <= MOST_SIZE || limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                                         "%s = %lld is more than %d; limber_gemm and "
                                         "limber_bind serve it",
                                         what, (long long)v, MOST_SIZE);
}

/* Checks that a format is f64 or f32, and the same as C's. */
static bool check_format(limber_format f, limber_format c, const char *what, struct diag *d)
{
    char name[32];

    if (!limber_format_is_binary(f))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "%s: functions for one shape serve f64 and f32, "
                           "not %s",
                           what, limber_format_name(f, name, sizeof name));
    return limber_format_equal(f, c) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s: format %s is not that of c", what,
                       limber_format_name(f, name, sizeof name));
}

/* Checks that C has contiguous rows or columns, or is a vector. */
static bool check_strides(const limber_matrix *c, int64_t m, int64_t n, struct diag *d)
{
    return c->col_stride == 1 || c->row_stride == 1 || m == 1 || n == 1 ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "c: neither row_stride = %lld nor col_stride = %lld is 1",
                       (long long)c->row_stride, (long long)c->col_stride);
}

/* Checks a request for a function of one shape. */
static bool check_request(const limber_context *ctx, const limber_contract *contract,
                          const struct fixed *f, limber_matrix a, limber_matrix b, limber_matrix c,
                          limber_accumulate add, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if (add != LIMBER_ACCUMULATE_NONE && add != LIMBER_ACCUMULATE_ADD)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "accumulate = %d is none of its values",
                           (int)add);
    a.data = b.data = c.data = NULL;
    return check_size(f->m, "m", d) && check_size(f->n, "n", d) && check_size(f->k, "k", d) &&
           limber_check_matrix(&a, "a", f->m, f->k, d) &&
           limber_check_matrix(&b, "b", f->k, f->n, d) &&
           limber_check_matrix(&c, "c", f->m, f->n, d) &&
           limber_check_distinct(&c, "c", f->m, f->n, d) &&
           limber_contract_check(contract, a.format, b.format, c.format, d) &&
           limber_fixed_check(contract, d) && check_format(c.format, c.format, "c", d) &&
           check_format(a.format, c.format, "a", d) && check_format(b.format, c.format, "b", d) &&
           check_strides(&c, f->m, f->n, d);
}

/* Returns the strides of a matrix.  A stride of a dimension with one element is set to 0, so
 * that equivalent requests share a function. */
static struct strides strides_of(const limber_matrix *x, int64_t rows, int64_t cols)
{
    return (struct strides){ rows > 1 ? x->row_stride : 0, cols > 1 ? x->col_stride : 0 };
}

/* Compiles a function for products of one shape and one layout, and stores its address in
 * *function; NULL on failure. */
limber_status limber_bind_shape(limber_context *ctx, const limber_contract *contract, int64_t m,
                                int64_t n, int64_t k, limber_matrix a, limber_matrix b,
                                limber_output to, limber_accumulate accumulate,
                                limber_kernel *function)
{
    CALL_SCOPE;
    const limber_matrix c = limber_as_matrix(to);
    struct fixed f = { .m = m, .n = n, .k = k, .add = accumulate == LIMBER_ACCUMULATE_ADD };
    limber_contract native = LIMBER_CONTRACT_INIT;
    struct diag d = { 0 };
    void *entry = NULL;

    if (!function) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "function is NULL");
    } else if ((!contract || limber_copy_sized_in(&native, sizeof native, contract, LEAST_contract,
                                                  "contract", &d)) &&
               check_request(ctx, &native, &f, a, b, c, accumulate, &d)) {
        f.a = strides_of(&a, m, k);
        f.b = strides_of(&b, k, n);
        f.c = strides_of(&c, m, n);
        limber_engine_function(ctx, &native, &f, c.format, &entry, &d);
    }
    if (function)
        memcpy(function, &entry, sizeof *function);
    if (d.status)
        limber_fail_in(&d, "bind_shape");
    return limber_error_set(&d);
}
