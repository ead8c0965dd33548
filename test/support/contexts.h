/* SPDX-License-Identifier: BSD-3-Clause
 * For tests: creating and destroying contexts, and checking refusals. */
#ifndef LIMBER_TEST_CONTEXTS_H
#define LIMBER_TEST_CONTEXTS_H

#include "limber/limber.h"

/* Creates a context without a disk cache or dumps.  Prints the reason and returns NULL if that
 * fails.  backend: a name, or NULL for the default; workspace_bytes: 0 for the default limit. */
limber_context *test_context(const char *backend, int threads, size_t workspace_bytes);

/* Creates a context that destroy_group_contexts() destroys.  The arguments set fields of
 * limber_config, for instance group_context(.backend = "interp", .threads = 2).  Prints the reason
 * and returns NULL if that fails. */
#define group_context(...) \
    keep_for_group(test_context_of(&(limber_config){ \
        .size = sizeof(limber_config), .cache_dir = "", .dump_dir = "", __VA_ARGS__ }))

limber_context *test_context_of(const limber_config *config);
/* Registers a context for destroy_group_contexts(); does nothing for NULL.  Returns ctx. */
limber_context *keep_for_group(limber_context *ctx);
/* Creates contexts of the interpreter and of the best backend, with two threads each, for a group
 * of tests.  Returns 0, or -1 if one cannot be created. */
int make_interp_and_best(limber_context **interp, limber_context **best);
/* Teardown of a group of tests: destroys all registered contexts. */
int destroy_group_contexts(void **state);

/* Fails the test unless `got` is `want` and limber_error_text() contains `text`. */
void assert_refused(limber_status got, limber_status want, const char *text);

#endif
