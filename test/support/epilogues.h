/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by tests of epilogues: contexts of every backend with one and with three threads, and
 * buffers for operands. */
#ifndef LIMBER_TEST_EPILOGUES_H
#define LIMBER_TEST_EPILOGUES_H

#include "contexts.h"
#include "engine_support.h"
#include "support.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXTS = 12, INPUTS = 3, ROOM = 1 << 20 };

static limber_context *contexts[CONTEXTS];
static int context_count;
static char *a, *b, *c0, *c, *x, *data[INPUTS];

/* Fixture: creates the contexts and the buffers.  Fails if no context can be created. */
static int set_up(void **state)
{
    (void)state;
    context_count = make_contexts_of_backends(contexts, CONTEXTS, (const int[]){ 1, 3, 0 });
    for (int i = 0; i < INPUTS; i++)
        data[i] = malloc(ROOM);
    a = malloc(ROOM), b = malloc(ROOM), c0 = malloc(ROOM), c = malloc(ROOM), x = malloc(ROOM);
    return context_count > 0 ? 0 : -1;
}

static int drop(void **state)
{
    for (int i = 0; i < INPUTS; i++)
        free(data[i]);
    free(a), free(b), free(c0), free(c), free(x);
    return destroy_group_contexts(state);
}

/* Returns a product of a 3 x 5 by a 5 x 4 matrix with an epilogue. of: format of A and B; to: of
 * C. */
static inline limber_problem small(limber_epilogue *e, limber_format of, limber_format to)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = 3, p.n = 4, p.k = 5;
    p.a = (limber_matrix){ a, of, 5, 1 }, p.b = (limber_matrix){ b, of, 4, 1 };
    p.c = (limber_output){ c, to, 4, 1 };
    p.epilogue = e;
    return p;
}

#endif
