/* SPDX-License-Identifier: BSD-3-Clause
 * The reason why the interpreter computes instead of a context's backend. */
#include "jit/context.h"

#include <stdio.h>

void limber_context_interprets(limber_context *ctx, const char *why)
{
    char line[320] = "";

    pthread_mutex_lock(&ctx->lock);
    if (!*ctx->interpreted) {
        snprintf(ctx->interpreted, sizeof ctx->interpreted, "%s", why);
        snprintf(line, sizeof line, "limber: the interpreter computes: %.255s", why);
    }
    pthread_mutex_unlock(&ctx->lock);
    if (*line && ctx->verbose > 0)
        ctx->log(ctx->log_user, line);
}

const char *limber_fallback_reason(limber_context *ctx)
{
    const char *why = "";

    if (ctx) {
        pthread_mutex_lock(&ctx->lock);
        why = ctx->interpreted; /* written only once, so it stays valid without the lock */
        pthread_mutex_unlock(&ctx->lock);
    }
    return why;
}
