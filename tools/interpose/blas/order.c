/* SPDX-License-Identifier: BSD-3-Clause
 * Short vectors under `reproducible`.  Results have the bits of Limber's products, without a call
 * of Limber, which would cost as much as a thousand multiply-adds. */
#include "product.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CHAIN = 256, CHAINS = LIMBER_BLAS_SHORT / CHAIN };

/* Types and constants of order.h.  WIDE: type in which updates are summed; BITS: an integer as
 * large as T; MOST: the largest number. */
#define T double
#define WIDE double
#define BITS uint64_t
#define ABS __builtin_fabs
#define MOST DBL_MAX
#define NAME(x) x##_d
#define FMA __builtin_fma
#include "order.h"
#undef T
#undef WIDE
#undef BITS
#undef ABS
#undef MOST
#undef NAME
#undef FMA

#define T float
#define WIDE double
#define BITS uint32_t
#define ABS __builtin_fabsf
#define MOST FLT_MAX
#define NAME(x) x##_s
#define FMA __builtin_fmaf
#include "order.h"

double limber_blas_short_dot(bool is_single, int64_t n, const void *x, int64_t step_x,
                             const void *y, int64_t step_y)
{
    return is_single ? (double)dot_s(n, x, step_x, y, step_y) : dot_d(n, x, step_x, y, step_y);
}

void limber_blas_rank_one(const struct active_request *j, int64_t m, int64_t n, const void *x,
                          const void *y, int64_t step_y, void *c, int64_t lead)
{
    if (j->is_single)
        rank_one_s(m, n, j->alpha.f[0], x, y, step_y, c, lead);
    else
        rank_one_d(m, n, j->alpha.d[0], x, y, step_y, c, lead);
}
