/* SPDX-License-Identifier: BSD-3-Clause
 * Replaces a prebuilt kernel by a specialised one as soon as that would have saved as much time as
 * it costs to compile.  Both compute the same bits. */
#include "jit/engine.h"

/* Seconds that compiling takes, and the share of a prebuilt kernel's time that it saves:
 * docs/performance.md, "Prebuilt and specialised kernels". */
static const double cost = 0.1, saved = 0.05;

void limber_specialise_later(limber_context *ctx, const struct kernel_key *key, struct entry *e,
                             double seconds)
{
    struct background_job job = { .specialise = true };
    long long spent = (long long)(seconds * 1e9);

    spent += atomic_fetch_add_explicit(&e->spent, spent, memory_order_relaxed);
    if (ctx->kernels != LIMBER_KERNELS_BOTH || ctx->no_compile ||
        (double)spent * saved < cost * 1e9 || atomic_exchange(&e->replaced, true))
        return;
    job.key = *key;
    limber_background_ask(ctx->background, &job, sizeof job);
}

void limber_specialise(limber_context *ctx, const struct kernel_key *key)
{
    const struct kernel_maker kernel_maker = { limber_make_kernel,
                                               &(struct compile_job){ .ctx = ctx,
                                                                      .key = key,
                                                                      .machine = &ctx->machine,
                                                                      .code = CODE_SPECIALISED } };
    struct diag ignored = { 0 }; /* on a failure the prebuilt kernel goes on serving */

    limber_kernels_replace(ctx->memory, key, limber_kernel_key_size(key), kernel_maker, &ignored);
}
