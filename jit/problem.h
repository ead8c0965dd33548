/* SPDX-License-Identifier: BSD-3-Clause
 * A call whose arguments were checked, and the groups of its products. */
#ifndef LIMBER_JIT_PROBLEM_H
#define LIMBER_JIT_PROBLEM_H

#include "backends/backend.h"
#include "ir/conv.h"
#include "jit/report.h"
#include "limber/limber.h"

#include <string.h>

/* Where the matrices of groups are.  step_a and so on: elements from one group's matrix to the
 * next group's. */
struct groups_at {
    int64_t step_a, step_b, step_c;
    /* addresses of the groups' matrices, which replace data and steps; or NULL */
    const void *const *each_a, *const *each_b;
    void *const *each_c;
};

/* Properties that a part of a partitioned product inherits from the whole product. */
struct part_of_product {
    /* the product is a part of a large one, so it pays to compile kernels for data with few bits */
    bool fine;
    int roundings; /* how often an element is rounded, as in struct plan */
    struct first_pass first_pass; /* the first pass that was chosen for the whole product */
};

/* A plan of the caller's that computes a call: its text, and what was read from it. */
struct given_plan {
    const char *text;
    const struct plan *plan;
};

/* A call whose arguments were checked.  a and b are the left and right operands of its products;
 * for a convolution these are the matrices that ir/conv.h calls filters and patches.  The product
 * of a group is m x k by k x n. */
struct problem {
    limber_contract contract;
    const limber_conv *shape; /* NULL for a GEMM */
    struct conv conv; /* geometry and sizes of a convolution */
    int64_t m, n, k, groups;
    limber_format fa, fb, fc;
    struct view a, b;
    struct index_map map_a, map_b; /* index maps of a convolution, to which a and b point */
    struct pair_map pairs_a, pairs_b; /* index maps of complex matrices, to which a and b point */
    struct output_view c;
    struct groups_at at; /* where the groups' matrices are */
    const limber_queue *queue; /* the caller's; NULL for the backend's own */
    const void *alpha, *beta; /* alpha: NULL if it is exactly 1; beta: NULL if it is exactly 0 */
    struct unit_counts *counts; /* where a simulated unit adds its counts, or NULL */
    enum counts count; /* which events in a simulated unit are counted */
    bool transposed; /* the product is transposed: a and b are the caller's b and a, and so is c */
    struct part_of_product part;
    const struct given_plan *given; /* the caller's plan, which computes the call; or NULL */
    limber_prepared *kept[2]; /* [a, b]: the prepared operand, or NULL */
    int64_t kept_part; /* prepared filters: index of the window's part (ir/conv.h); else 0 */
    /* the caller's steps for each block of C, for a product of one group; or NULL */
    const struct finisher *finish;
    bool *finished; /* out: `finish` was applied to all elements; if not, the caller applies it */
};

/* Returns the index of a group's mask (scan result) in a prepared operand: [part of the
 * window][group]. */
static inline int64_t limber_kept_place(const struct problem *p, int64_t group)
{
    return p->kept_part * p->groups + group;
}

/* groups.c: the addresses of the operands and results of all groups, and the views of group g. */
struct spread limber_groups_a(const struct problem *p);
struct spread limber_groups_b(const struct problem *p);
struct spread limber_groups_c(const struct problem *p);
struct view limber_find_group_a(const struct problem *p, int64_t g);
struct view limber_find_group_b(const struct problem *p, int64_t g);
struct output_view limber_find_group_c(const struct problem *p, int64_t g);
/* Returns the view of group g of A. */
static inline struct view limber_group_a(const struct problem *p, int64_t g)
{
    return g == 0 && !p->at.each_a ? p->a : limber_find_group_a(p, g);
}
/* Returns the view of group g of B. */
static inline struct view limber_group_b(const struct problem *p, int64_t g)
{
    return g == 0 && !p->at.each_b ? p->b : limber_find_group_b(p, g);
}
/* Returns the view of group g of C. */
static inline struct output_view limber_group_c(const struct problem *p, int64_t g)
{
    return g == 0 && !p->at.each_c ? p->c : limber_find_group_c(p, g);
}
/* Copies m x n elements of `size` bytes. */
void limber_output_copy(const struct output_view *to, const struct output_view *from, int64_t m,
                        int64_t n, int size);
/* Calls fn for every group, each in a task of the runner.  False if a call failed, with the error
 * of the first one; then groups may have been skipped. */
bool limber_groups_run(const struct runner *r, int64_t groups,
                       bool (*fn)(void *arg, int64_t g, int worker, struct diag *d), void *arg,
                       struct diag *d);

/* True if A or B is a vector: if n is 1, B is one, else A. */
static inline bool limber_has_vector(const struct problem *p)
{
    return p->m == 1 || p->n == 1;
}

/* True if strides alone locate the elements of A, B and C, without index maps, and no operand has a
 * subset of tiles. */
static inline bool limber_is_strided(const struct problem *p)
{
    return limber_view_strided(&p->a) && limber_view_strided(&p->b) && !p->a.tile_subset &&
           !p->b.tile_subset && !p->c.rows && !p->c.cols;
}

/* Reads a scalar, a binary64 (size 8) or a binary32 (size 4), at any alignment. */
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

/* True if the scalar at x equals `value`. */
static inline bool limber_scalar_is(const void *x, int64_t size, double value)
{
    return limber_scalar_value(x, size) == value;
}

/* Reads alpha and beta into *f.  False if they are not needed, because the product is C = A B or C
 * += A B: alpha is 1 or NULL, beta is 0, 1 or NULL. */
static inline bool limber_scaling(const void *alpha, const void *beta, int64_t size,
                                  struct scaling *f)
{
    f->alpha = alpha ? limber_scalar_value(alpha, size) : 1;
    f->beta = beta ? limber_scalar_value(beta, size) : 0;
    return limber_scales(f);
}

/* Returns x, or NULL if the scalar equals `neutral` (1 or 0). */
const void *limber_scalar(const void *x, limber_format c, double neutral);

#endif
