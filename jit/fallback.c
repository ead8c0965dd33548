/* SPDX-License-Identifier: BSD-3-Clause
 * Why the interpreter computes instead of a context's backend. */
#include "jit/context.h"

#include <stdio.h>

/* Stores why the interpreter computes (only the first reason), and logs it in verbose contexts. */
void limber_context_interprets(limber_context *ctx, const char *why)
{
    char line[320] = "";

    pthread_mutex_lock(&ctx->lock);
    if (!*ctx->interpreted) {
        snprintf(ctx->interpreted, sizeof ctx->interpreted, "%s", why);
        snprintf(line, sizeof line, "limber: the interpreter computes: %.255s", why);
    }
    pthread_mutex_unlock(&ctx->lock);
    if (*line && ctx->tells.verbose > 0)
        ctx->tells.log(ctx->tells.log_user, line);
}

/* Returns why the interpreter, which is some hundred times slower, computes instead of the backend
 * that the context would have chosen: for example, libLLVM is not found. */
const char *limber_fallback_reason(limber_context *ctx)
{
    const char *why = "";

    if (ctx) {
        pthread_mutex_lock(&ctx->lock);
        why = ctx->interpreted; /* written only once, so the text stays valid without the lock */
        pthread_mutex_unlock(&ctx->lock);
    }
    return why;
}
