/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts and refusals, for tests. */
#ifndef LIMBER_TEST_CONTEXTS_H
#define LIMBER_TEST_CONTEXTS_H

#include "limber/limber.h"

/* Makes a context without a disk cache or dumps; NULL, with a printed reason, if that fails.
 * backend: NULL takes the environment's; workspace_bytes 0: the library's own bound. */
limber_context *test_context(const char *backend, int threads, size_t workspace_bytes);

/* Fails the test unless the status is this one and limber_error_text() has the text. */
void assert_refused(limber_status got, limber_status want, const char *text);

#endif
