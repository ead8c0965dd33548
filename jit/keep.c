/* SPDX-License-Identifier: BSD-3-Clause
 * A copy of C for calls that may fail after something is stored. */
#include "jit/engine.h"

static struct place kept_group(const struct keep *k, int64_t g)
{
    const struct problem *p = k->p;

    return (struct place){ .data = k->memory + g * p->m * p->n * p->fc.size, .row = p->n, .col = 1,
                           .inner = p->n };
}

bool limber_keep(limber_context *ctx, const struct problem *p, struct keep *k, struct diag *d)
{
    size_t bytes;

    *k = (struct keep){ .ctx = ctx, .p = p };
    if (limber_remote_holds(ctx, limber_group_c(p, 0).data))
        return true;            /* errors of a device are told later than its calls return */
    if (!__builtin_mul_overflow((size_t)p->m * (size_t)p->n, (size_t)p->groups, &bytes) &&
        !__builtin_mul_overflow(bytes, (size_t)p->fc.size, &bytes))
        k->memory = limber_room_take(ctx, bytes);
    if (!k->memory)
        return limber_fail(d, LIMBER_NO_MEMORY, "no memory for a second copy of c");
    for (int64_t g = 0; g < p->groups; g++) {
        const struct place to = kept_group(k, g), from = limber_group_c(p, g);

        limber_place_copy(&to, &from, p->m, p->n, p->fc.size);
    }
    return true;
}

void limber_keep_end(struct keep *k, bool ok)
{
    const struct problem *p = k->p;

    for (int64_t g = 0; g < p->groups && !ok && k->memory; g++) {
        const struct place to = limber_group_c(p, g), from = kept_group(k, g);

        limber_place_copy(&to, &from, p->m, p->n, p->fc.size);
    }
    limber_room_give(k->ctx, k->memory);
}
