/* SPDX-License-Identifier: BSD-3-Clause */
#include "contexts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

limber_context *test_context(const char *backend, int threads, size_t workspace_bytes)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = backend,
                                   .cache_dir = "",
                                   .dump_dir = "",
                                   .threads = threads,
                                   .workspace_bytes = workspace_bytes };
    limber_context *ctx = NULL;

    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        print_message("%s\n", limber_error_text());
    return ctx;
}

void assert_refused(limber_status got, limber_status want, const char *text)
{
    if (got != want || !strstr(limber_error_text(), text))
        fail_msg("status %s, \"%s\" does not say \"%s\"", limber_status_name(got),
                 limber_error_text(), text);
}
