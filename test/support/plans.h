/* SPDX-License-Identifier: BSD-3-Clause
 * States plans of products and runs them without the engine. */
#ifndef LIMBER_TEST_PLANS_H
#define LIMBER_TEST_PLANS_H

#include "backends/backend.h"
#include "ir/ir.h"
#include "support.h"

struct planned {
    limber_promise promise;
    const char *scheme;         /* NULL: any */
    limber_format f, result;    /* f: of both operands; result: of C */
    const struct mask *a, *b;
    int kbits;
    bool scalars;               /* alpha and beta are passed */
};
/* States the product [m,k] times [k,n]; native and fast plans have a budget.  The caller clears the
 * plan. */
void plan_state(struct plan *p, const struct planned *x);
/* States a two-dimensional convolution, NCHW or NHWC, in the direction of its geometry.  a: mask of
 * the filters' matrix; b: of the windows' matrix. */
void plan_state_conv(struct plan *p, const struct conv_geometry *g, const struct planned *x);
/* Compiles a finished plan for the target, loads it and launches it once; false: d holds the
 * error. */
bool plan_launch(const struct backend *b, const struct plan *p, const struct target *t,
                 struct call *c, struct diag *d);
/* Runs tasks one after the other in the caller's thread. */
extern const struct runner plan_runner;
/* A convolution: the node's geometry and the sizes n c h w o r s, from which the result's sizes are
 * computed.  place_group() returns the call for one group, with its matrices in the tensors. */
struct placed {
    struct conv conv;
    struct index_map map[3];
};
struct tensor {
    void *data;
    limber_format f;
};
void place_conv(struct placed *p, const struct conv_geometry *g, const struct conv_sizes *s);
struct call place_group(const struct placed *p, int64_t group, struct tensor filters,
                        struct tensor image, struct tensor result);
/* Fails unless the scheme's plan for this GPU gives the interpreter's bits; passes where the GPU
 * lacks the unit. */
void plan_compare(const char *scheme, limber_format f, limber_format result, enum data data,
                  int64_t m, int64_t n, int64_t k);
/* plan_compare for an exact scheme with chains of `chunk` products, as long as those of a long
 * k. */
void plan_compare_chains(const char *scheme, limber_format f, limber_format result, enum data data,
                         int64_t m, int64_t n, int64_t k, int64_t chunk);

#endif
