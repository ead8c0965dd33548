/* SPDX-License-Identifier: BSD-3-Clause
 * Scheme `accumulator`: adds every product exactly to an accumulator that is as long as the range
 * of products of the two formats.  It is slow, but right for any finite data: the last resort of
 * the contract `correct`.
 *
 *   source  Kulisch, Computer Arithmetic and Validity, 2013, chapter 8 */
#include "passes/scheme/scheme_split.h"

/* Makes one product of the unchanged operands, whose products are summed exactly. */
bool limber_split_exact(struct plan *p, const struct scheme *scheme, const struct target *t,
                        struct diag *d)
{
    struct row row = { .share = __builtin_inf() };
    struct stated_gemm s;
    int a, b;

    (void)t;
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    a = limber_plan_add(p, OP_whole, NULL, s.a, -1, p->node[s.a].type);
    b = limber_plan_add(p, OP_whole, NULL, s.b, -1, p->node[s.b].type);
    return limber_split_finish(p, &s,
                               &(const struct product_table){ .a = a,
                                                              .b = b,
                                                              .unit = scheme->unit,
                                                              .chunk = (int64_t)1 << 62,
                                                              .row = &row,
                                                              .rows = 1,
                                                              .accumulators = 1,
                                                              .reconstruct = RECONSTRUCT_sum },
                               d);
}
