/* SPDX-License-Identifier: BSD-3-Clause
 * A call whose arguments are checked, and one group of its products. */
#ifndef LIMBER_JIT_PROBLEM_H
#define LIMBER_JIT_PROBLEM_H

#include "backends/backend.h"
#include "ir/conv.h"
#include "jit/report.h"
#include "limber/limber.h"

#include <string.h>

/* A call whose arguments are checked.  a and b are the left and right operands of the products;
 * for convolutions what ir/conv.h calls filters and patches.  A group's product is m x k by k x
 * n. */
struct problem {
    limber_contract contract;
    const limber_conv *shape;       /* NULL: gemm */
    struct conv conv;               /* geometry and sizes of a convolution */
    int64_t m, n, k, groups;
    limber_format fa, fb, fc;
    struct view a, b;
    struct index_map map_a, map_b;  /* index maps of a convolution; a and b point to them */
    struct pair_map pairs_a, pairs_b; /* index maps of complex matrices; a and b point to them */
    struct output_view c;
    int64_t step_a, step_b, step_c; /* elements from one group to the next */
    /* NULL, or addresses of the groups' matrices, which replace data and steps */
    const void *const *each_a, *const *each_b;
    void *const *each_c;
    const limber_queue *queue; /* NULL: the backend's own */
    const void *alpha, *beta; /* NULL: exactly 1, exactly 0 */
    struct unit_counts *counts; /* NULL, or where a simulated unit adds its counts */
    enum counts count; /* which events are counted */
    bool transposed; /* a and b are the caller's b and a, transposed, and so is c */
    bool fine; /* a part of a large product: a kernel for finer classes of sizes pays */
    int roundings; /* part of a mixed product: roundings of an element, as in struct plan */
    /* part of a mixed product: the first pass that was chosen for the whole product */
    struct first_pass first_pass;
    limber_prepared *kept[2]; /* a, b if they are prepared; else NULL */
    int64_t kept_part; /* prepared filters: index of the window's part (ir/conv.h); else 0 */
    /* epilogue of each block, for a product of one group; NULL: none */
    const struct finisher *finish;
    bool *finished; /* out: finish was called for all elements; if not, the caller does it */
};

/* The place of a group's mask in a prepared operand: all groups of a part, then the next part. */
static inline int64_t limber_kept_place(const struct problem *p, int64_t group)
{
    return p->kept_part * p->groups + group;
}

/* groups.c: the places of all groups' operands and results; below, of group g. */
struct spread limber_groups_a(const struct problem *p);
struct spread limber_groups_b(const struct problem *p);
struct spread limber_groups_c(const struct problem *p);
struct view limber_group_a(const struct problem *p, int64_t g);
struct view limber_group_b(const struct problem *p, int64_t g);
struct output_view limber_group_c(const struct problem *p, int64_t g);
/* Copies m x n elements from one place to another. */
void limber_output_copy(const struct output_view *to, const struct output_view *from, int64_t m,
                        int64_t n, int size);
/* Calls fn for every group, each a task of the runner.  After a failure it returns false with the
 * text of the first one, and may have skipped groups. */
bool limber_groups_run(const struct runner *r, int64_t groups,
                       bool (*fn)(void *arg, int64_t g, int worker, struct diag *d), void *arg,
                       struct diag *d);

/* True if A or B is a vector; where n is not 1, it is A. */
static inline bool limber_has_vector(const struct problem *p)
{
    return p->m == 1 || p->n == 1;
}

/* True if the elements of A, B and C are found by strides alone, and all are shown. */
static inline bool limber_is_strided(const struct problem *p)
{
    return limber_view_strided(&p->a) && limber_view_strided(&p->b) && !p->a.tile_subset &&
           !p->b.tile_subset && !p->c.rows && !p->c.cols;
}

/* The scalar at x, a binary64 (size 8) or a binary32 (size 4), at any alignment. */
static inline double limber_scalar_value(const void *x, int64_t size)
{
    double wide;
    float narrow;

    if (size == 8) {
        memcpy(&wide, x, sizeof wide);
        return wide;
    }
    memcpy(&narrow, x, sizeof narrow);
    return narrow;
}

static inline bool limber_scalar_is(const void *x, int64_t size, double value)
{
    return limber_scalar_value(x, size) == value;
}

/* False where a product is C = A B or C += A B: alpha is 1 or NULL, beta 0, 1 or NULL. */
static inline bool limber_scaling(const void *alpha, const void *beta, int64_t size,
                                  struct scaling *f)
{
    f->alpha = alpha ? limber_scalar_value(alpha, size) : 1;
    f->beta = beta ? limber_scalar_value(beta, size) : 0;
    return limber_scales(f);
}

/* x, or NULL if the scalar equals `neutral` (1 or 0). */
const void *limber_scalar(const void *x, limber_format c, double neutral);

#endif
