/* SPDX-License-Identifier: BSD-3-Clause
 * Builds plans of products as the engine does for a caller's problem, and runs them without the
 * engine. */
#ifndef LIMBER_TEST_PLANS_H
#define LIMBER_TEST_PLANS_H

#include "backends/backend.h"
#include "ir/ir.h"
#include "support.h"

/* The problem and settings from which a plan is built. */
struct planned {
    limber_promise promise;
    const char *scheme; /* name of the scheme; NULL if the pass `choose` shall choose one */
    limber_format f, result; /* f: format of both operands; result: format of C */
    /* masks of A and B: what a scan found of exponents, bits and signs */
    const struct mask *a, *b;
    int kbits; /* the plan shall serve every k up to 2^kbits */
    bool scalars; /* C = alpha A B + beta C; else C = A B */
};
/* Builds the plan of a product of an [m,k] by a [k,n] matrix, before any pass.  Native and fast
 * plans get an error budget.  The caller clears the plan. */
void build_plan(struct plan *p, const struct planned *x);
/* Builds the plan of a convolution in two or three dimensions, before any pass, in the direction
 * of its geometry. x->a and x->b: what scans found in the matrix of filters and in the im2col
 * matrix. */
void plan_state_conv(struct plan *p, const struct conv_geometry *g, const struct planned *x);
/* Returns a plan as text, which the caller frees. */
char *print_plan(const struct plan *p);
/* Compiles a plan, on which all passes have run, for the target, loads the kernel and launches
 * it once.  Returns false, with the error in d, if that fails. */
bool plan_launch(const struct backend *b, const struct plan *p, const struct target *t,
                 struct call *c, struct diag *d);
/* Runs all tasks in the caller's thread. */
extern const struct runner plan_runner;
/* A convolution with its sizes, and the index maps of filters, image and result.  place_conv()
 * computes them from a geometry and the sizes n c h w o r s (and d, t).  place_group() returns the
 * call of one group's product, whose matrices lie in the tensors. */
struct placed {
    struct conv conv;
    struct index_map map[3];
};
/* A contiguous array and its format. */
struct tensor {
    void *data;
    limber_format f;
};
void place_conv(struct placed *p, const struct conv_geometry *g, const struct conv_sizes *s);
struct call place_group(const struct placed *p, int64_t group, struct tensor filters,
                        struct tensor image, struct tensor result);
/* Fails the test unless the plan for a scheme gives the same bits on this GPU as on the
 * interpreter.  Does nothing if the GPU lacks the unit. */
void plan_compare(const char *scheme, limber_format f, limber_format result, enum data data,
                  int64_t m, int64_t n, int64_t k);
/* Fails the test unless a plan's kernel for FP32 under `native` gives the interpreter's bits on
 * this GPU.  Only for 256 < k <= 1024. */
void plan_compare_native(const char *scheme, enum data data, int64_t m, int64_t n, int64_t k);
/* Fails the test unless the kernel of an exact scheme, with chains of `chunk` products, gives the
 * interpreter's bits on this GPU. */
void plan_compare_chains(const char *scheme, limber_format f, limber_format result, enum data data,
                         int64_t m, int64_t n, int64_t k, int64_t chunk);

#endif
