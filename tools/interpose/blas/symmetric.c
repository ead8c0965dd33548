/* SPDX-License-Identifier: BSD-3-Clause
 * Symmetric matrices times vectors under `reproducible`, with the bits of Limber's products.  Each
 * stored number is read once, and multiplied for its own row and for that of its mirror image. */
#include "product.h"

#include <string.h>

enum { CHAIN = 256 };

/* Selects four of the eight numbers of two vectors; indices from 4 on are of the second. */
#if defined __clang__
#define PICK(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(mask, a, b, ...) __builtin_shuffle(a, b, (mask){ __VA_ARGS__ })
#endif
#define INLINE __attribute__((always_inline)) inline

/* types and functions of symmetric.h.  INTEGER: an integer as large as T */
#define T double
#define INTEGER int64_t
#define NAME(x) x##_d
#define FMA __builtin_fma
#include "symmetric.h"
#undef T
#undef INTEGER
#undef NAME
#undef FMA

#define T float
#define INTEGER int32_t
#define NAME(x) x##_s
#define FMA __builtin_fmaf
#include "symmetric.h"

bool limber_blas_has_fma(void)
{
#if defined FP_FAST_FMA
    return true;
#elif defined __x86_64__ && defined HAS_CLONES
    return __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

void limber_blas_symmetric(bool is_single, int64_t n, const void *a, int64_t lead, bool below,
                           const void *x, void *y)
{
    if (is_single)
        symmetric_s(n, a, lead, below, x, y);
    else
        symmetric_d(n, a, lead, below, x, y);
}
