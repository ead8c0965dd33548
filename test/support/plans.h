/* SPDX-License-Identifier: BSD-3-Clause
 * Plans of products, stated and run without the engine. */
#ifndef LIMBER_TEST_PLANS_H
#define LIMBER_TEST_PLANS_H

#include "backends/backend.h"
#include "ir/ir.h"
#include "support.h"

struct planned {
    limber_promise promise;
    const char *scheme;         /* NULL: any */
    limber_format f, result;    /* of both operands, of C */
    const struct mask *a, *b;
    int kbits;
    bool scalars;               /* alpha and beta are given */
};
/* [m,k] times [k,n]; native and fast plans have a budget, others none.  The caller clears them. */
void plan_state(struct plan *p, const struct planned *x);
/* A convolution in the direction of its geometry, NCHW or NHWC, in two dimensions.  a: the mask of
 * the filters' matrix, b: of the windows'. */
void plan_state_conv(struct plan *p, const struct conv_geometry *g, const struct planned *x);
/* Compiles a finished plan for the target, loads it and launches it once; false: d tells. */
bool plan_launch(const struct backend *b, const struct plan *p, const struct target *t,
                 struct call *c, struct diag *d);
/* Runs tasks one after the other, in the caller's thread. */
extern const struct runner plan_runner;
/* A convolution by the geometry of its node and the sizes n c h w o r s; those of the result are
 * computed.  place_group() answers the call for one group of it: its matrices in the tensors. */
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
/* Fails unless the plan that a scheme gives for this GPU has the interpreter's bits there; passes
 * where the GPU has no such unit. */
void plan_compare(const char *scheme, limber_format f, limber_format result, enum data data,
                  int64_t m, int64_t n, int64_t k);
/* The same of an exact scheme whose chains have `chunk` products: so many are as long k would
 * have. */
void plan_compare_chains(const char *scheme, limber_format f, limber_format result, enum data data,
                         int64_t m, int64_t n, int64_t k, int64_t chunk);

#endif
