/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls that control the cache. */
#include "jit/api/api.h"

/* Describes the disk cache of compiled kernels in *info: folder, size, limit, why it is unused. */
limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!ctx || !info)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "cache_describe: %s is NULL",
                    ctx ? "info" : "ctx");
    else if (limber_sized_check(info, LEAST_cache_info, "info", &d)) {
        limber_cache_info full = LIMBER_CACHE_INFO_INIT;

        limber_disk_describe(ctx->disk, &full);
        full.tuned = ctx->tuned;
        limber_copy_sized_out(info, &full, sizeof full);
    }
    return limber_error_set(&d);
}

/* Calls `visit` for each entry of the disk cache.  Verification reads entire entries. */
limber_status limber_cache_each(limber_context *ctx, limber_cache_depth depth,
                                int (*visit)(void *user, const limber_cache_entry *), void *user)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!ctx || !visit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", ctx ? "visit" : "ctx");
    else if (depth != LIMBER_CACHE_LIST && depth != LIMBER_CACHE_VERIFY)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "depth = %d is none of its values", (int)depth);
    else
        limber_disk_each(ctx->disk, depth == LIMBER_CACHE_VERIFY, visit, user, &d);
    if (d.status)
        limber_fail_in(&d, "cache_each");
    return limber_error_set(&d);
}

/* Removes all entries of the disk cache, or the damaged ones.  *removed: their number. */
limber_status limber_cache_clear(limber_context *ctx, limber_cache_choice choice, size_t *removed)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    size_t n = 0;

    if (!ctx)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    else if (choice != LIMBER_CACHE_CLEAR_ALL && choice != LIMBER_CACHE_CLEAR_DAMAGED)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "choice = %d is none of its values",
                    (int)choice);
    else
        limber_disk_clear(ctx->disk, choice == LIMBER_CACHE_CLEAR_DAMAGED, &n, &d);
    if (removed)
        *removed = n;
    if (d.status)
        limber_fail_in(&d, "cache_clear");
    return limber_error_set(&d);
}
