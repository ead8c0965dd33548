/* SPDX-License-Identifier: BSD-3-Clause
 * A copy of C, for calls that may fail after some elements were stored. */
#include "jit/engine.h"

/* Returns the dense copy of group g's C. */
static struct output_view backup_view(const struct backup *k, int64_t g)
{
    const struct problem *p = k->p;

    return (struct output_view){
        .data = k->memory + g * p->m * p->n * p->fc.size, .row = p->n, .col = 1, .inner = p->n
    };
}

/* Copies C of all groups to memory that k owns, so that it can be restored after a failure.  Does
 * nothing for C in device memory. */
bool limber_backup(limber_context *ctx, const struct problem *p, struct backup *k, struct diag *d)
{
    size_t bytes;

    *k = (struct backup){ .ctx = ctx, .p = p };
    if (limber_device_holds(ctx, limber_group_c(p, 0).data))
        return true; /* device errors are reported only after the call has returned */
    if (!__builtin_mul_overflow((size_t)p->m * (size_t)p->n, (size_t)p->groups, &bytes) &&
        !__builtin_mul_overflow(bytes, (size_t)p->fc.size, &bytes))
        k->memory = limber_memory_alloc(&ctx->allocator, bytes);
    if (!k->memory)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a second copy of c");
    for (int64_t g = 0; g < p->groups; g++) {
        const struct output_view to = backup_view(k, g), from = limber_group_c(p, g);

        limber_output_copy(&to, &from, p->m, p->n, p->fc.size);
    }
    return true;
}

/* Restores C from the copy unless `ok`, and frees the copy. */
void limber_backup_end(struct backup *k, bool ok)
{
    const struct problem *p = k->p;

    for (int64_t g = 0; g < p->groups && !ok && k->memory; g++) {
        const struct output_view to = limber_group_c(p, g), from = backup_view(k, g);

        limber_output_copy(&to, &from, p->m, p->n, p->fc.size);
    }
    limber_memory_free(&k->ctx->allocator, k->memory);
}
