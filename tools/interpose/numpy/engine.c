/* SPDX-License-Identifier: BSD-3-Clause
 * Large products of integers of few bits by Limber's own kernels, which multiply bytes faster, and
 * by several threads. */
#include "engine.h"

#include <pthread.h>

static limber_context *context;
static bool is_native; /* true if the context's backend compiles kernels */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Creates the context that all loops use. */
static void create(void)
{
    if (limber_create(&context, NULL) != LIMBER_STATUS_OK)
        context = NULL;
    else
        is_native = limber_fallback_reason(context)[0] == 0;
}

limber_context *limber_numpy_context(void)
{
    pthread_once(&once, create);
    return context;
}

static limber_format format_of(enum element type)
{
    switch (type) {
    case I16: return LIMBER_I16;
    case I32: return LIMBER_I32;
    case I64: return LIMBER_I64;
    default: return LIMBER_I8;
    }
}

/* Converts a distance in bytes to elements in *elements.  False if the distance is negative or
 * no whole number of elements. */
static bool in_elements(int64_t bytes, int64_t size, int64_t *elements)
{
    *elements = bytes / size;
    return bytes >= 0 && bytes % size == 0;
}

bool limber_numpy_engine(const struct loop_product *x)
{
    const limber_format f = format_of(x->type);
    limber_problem problem = LIMBER_PROBLEM_INIT;
    limber_contract native = LIMBER_CONTRACT_INIT;
    limber_context *ctx = limber_numpy_context();

    if (!ctx || !is_native)
        return false;
    native.promise = LIMBER_CONTRACT_NATIVE;
    native.on_miss = LIMBER_ON_MISS_REFUSE;
    problem.m = x->m, problem.n = x->n, problem.k = x->k;
    problem.a.data = x->a.data, problem.b.data = x->b.data, problem.c.data = x->c;
    problem.a.format = problem.b.format = problem.c.format = f;
    problem.contract = &native;
    return in_elements(x->a.line, f.size, &problem.a.row_stride) &&
           in_elements(x->a.k, f.size, &problem.a.col_stride) &&
           in_elements(x->b.k, f.size, &problem.b.row_stride) &&
           in_elements(x->b.line, f.size, &problem.b.col_stride) &&
           in_elements(x->cm, f.size, &problem.c.row_stride) &&
           in_elements(x->cn, f.size, &problem.c.col_stride) &&
           limber_run(ctx, &problem, NULL) == LIMBER_STATUS_OK;
}
