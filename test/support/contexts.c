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

    return test_context_of(&config);
}

limber_context *test_context_of(const limber_config *config)
{
    limber_context *ctx = NULL;

    if (limber_create(&ctx, config) != LIMBER_STATUS_OK)
        print_message("no context on %s: %s\n", config->backend ? config->backend : "auto",
                      limber_error_text());
    return ctx;
}

/* The contexts that groups of tests have registered.  Groups run one after the other. */
static struct {
    limber_context *context[64];
    int count;
} kept_contexts;

limber_context *keep_for_group(limber_context *ctx)
{
    if (ctx) {
        assert_true(kept_contexts.count <
                    (int)(sizeof kept_contexts.context / sizeof *kept_contexts.context));
        kept_contexts.context[kept_contexts.count++] = ctx;
    }
    return ctx;
}

int make_interp_and_best(limber_context **interp, limber_context **best)
{
    *interp = group_context(.backend = "interp", .threads = 2);
    *best = group_context(.backend = "auto", .threads = 2);
    return *interp && *best ? 0 : -1;
}

int destroy_group_contexts(void **state)
{
    (void)state;
    while (kept_contexts.count)
        limber_destroy(kept_contexts.context[--kept_contexts.count]);
    return 0;
}

void assert_refused(limber_status got, limber_status want, const char *text)
{
    if (got != want || !strstr(limber_error_text(), text))
        fail_msg("status %s, \"%s\" does not say \"%s\"", limber_status_name(got),
                 limber_error_text(), text);
}
