/* SPDX-License-Identifier: BSD-3-Clause
 * The public call of elementwise functions: its arguments. */
#include "jit/api/api.h"

#include <string.h>

static bool check_arrays(const limber_elementwise *e, struct diag *d)
{
    size_t from = e->count * e->from.size, to = e->count * e->to.size;
    const char *src = e->src, *dst = e->dst;

    if (e->count > PTRDIFF_MAX / 16)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "count = %zu is too large", e->count);
    if (e->count && (!src || !dst))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", src ? "dst" : "src");
    if (e->count && src < dst + to && dst < src + from &&
        (src != dst || e->from.size != e->to.size))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "dst and src overlap");
    return true;
}

limber_status limber_apply(limber_context *ctx, const limber_elementwise *elementwise)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    limber_elementwise e;

    if (!elementwise)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "e is NULL");
    else if (limber_sized_in(&e, sizeof e, elementwise, LEAST_elementwise, "e", &d) &&
             limber_function_check(&e, &d) && check_arrays(&e, &d))
        limber_elementwise_run(ctx, &e);
    if (d.status)
        limber_fail_in(&d, "apply");
    return limber_error_set(&d);
}
