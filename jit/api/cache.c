/* SPDX-License-Identifier: BSD-3-Clause
 * The public cache controls. */
#include "jit/api/api.h"

limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!ctx || !info)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "cache_describe: %s is NULL",
                    ctx ? "info" : "ctx");
    else {
        limber_disk_describe(ctx->disk, info);
        info->tuned = ctx->tuned;
    }
    return limber_error_set(&d);
}

limber_status limber_cache_each(limber_context *ctx, int verify,
                                int (*seen)(void *user, const limber_cache_entry *), void *user)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!ctx || !seen)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", ctx ? "seen" : "ctx");
    else
        limber_disk_each(ctx->disk, verify != 0, seen, user, &d);
    if (d.status)
        limber_fail_in(&d, "cache_each");
    return limber_error_set(&d);
}

limber_status limber_cache_clear(limber_context *ctx, int damaged_only, size_t *removed)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    size_t n = 0;

    if (!ctx)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    else
        limber_disk_clear(ctx->disk, damaged_only != 0, &n, &d);
    if (removed)
        *removed = n;
    if (d.status)
        limber_fail_in(&d, "cache_clear");
    return limber_error_set(&d);
}
