/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpus.h"

#include "limber/limber.h"

#include <stdio.h>
#include <stdlib.h>

int gpu_is_missing(void)
{
    const limber_config device = { .backend = "cuda", .cache_dir = "" };
    limber_context *ctx;

    if (!getenv("LIMBER_TEST_GPU"))
        return 0;
    if (limber_create(&ctx, &device)) {
        fprintf(stderr, "skipped: %s\n", limber_error_text());
        return 77;
    }
    limber_destroy(ctx);
    return 0;
}
