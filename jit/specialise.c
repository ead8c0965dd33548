/* SPDX-License-Identifier: BSD-3-Clause
 * Replaces a prebuilt kernel by a specialised one as soon as the specialised kernel would have
 * saved as much time as it costs to compile.  Both kernels give the same bits. */
#include "jit/engine.h"

/* Adds `seconds` to the time spent in a kernel, and asks for a specialised one once that pays. */
void limber_specialise_later(limber_context *ctx, const struct kernel_key *key, struct entry *e,
                             double seconds)
{
    struct background_job job = { .specialise = true };
    long long spent = (long long)(seconds * 1e9);
    const struct cpu_ops *cpu = ctx->machine.cpu;

    spent += atomic_fetch_add_explicit(&e->spent, spent, memory_order_relaxed);
    if (ctx->kernels != LIMBER_KERNELS_BOTH || ctx->no_compile ||
        (double)spent * cpu->specialised_saves < cpu->compile_seconds * 1e9 ||
        atomic_exchange(&e->replaced, true))
        return;
    job.key = *key;
    limber_background_ask(ctx->background, &job, sizeof job);
}

/* Replaces a prebuilt kernel by a specialised one. */
void limber_specialise(limber_context *ctx, const struct kernel_key *key)
{
    const struct kernel_maker kernel_maker = {
        limber_make_kernel,
        &(struct compile_inputs){
            .ctx = ctx, .key = key, .machine = &ctx->machine, .code = CODE_SPECIALISED }
    };
    struct diag ignored = { 0 }; /* on failure calls still use the prebuilt kernel */

    limber_kernels_replace(ctx->memory, key, limber_kernel_key_size(key), kernel_maker, &ignored);
}
