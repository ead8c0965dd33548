/* SPDX-License-Identifier: BSD-3-Clause
 * Groups of a problem: the address of each group's matrices, and one task per group. */
#include "jit/problem.h"

#include <stdatomic.h>
#include <string.h>

/* Returns where the groups' matrices of A are.  Steps are in bytes. */
struct spread limber_groups_a(const struct problem *p)
{
    return (struct spread){ p->at.each_a ? 0 : p->at.step_a * p->fa.size, p->at.each_a };
}

/* Returns where the groups' matrices of B are.  Steps are in bytes.  Integers of complex numbers
 * may be stored in fewer bytes than the format in which they are read. */
struct spread limber_groups_b(const struct problem *p)
{
    int64_t size = p->b.pairs && p->b.pairs->stored ? p->b.pairs->stored : p->fb.size;

    return (struct spread){ p->at.each_b ? 0 : p->at.step_b * size, p->at.each_b };
}

/* Returns where the groups' matrices of C are.  Steps are in bytes. */
struct spread limber_groups_c(const struct problem *p)
{
    return (struct spread){ p->at.each_c ? 0 : p->at.step_c * p->fc.size,
                            (const void *const *)p->at.each_c };
}

/* Returns the view of group g of A. */
struct view limber_find_group_a(const struct problem *p, int64_t g)
{
    const struct spread x = limber_groups_a(p);
    struct view v = p->a;

    v.data = limber_spread_at(v.data, &x, g);
    return v;
}

/* Returns the view of group g of B. */
struct view limber_find_group_b(const struct problem *p, int64_t g)
{
    const struct spread x = limber_groups_b(p);
    struct view v = p->b;

    v.data = limber_spread_at(v.data, &x, g);
    return v;
}

/* Returns the view of group g of C. */
struct output_view limber_find_group_c(const struct problem *p, int64_t g)
{
    const struct spread x = limber_groups_c(p);
    struct output_view c = p->c;

    c.data = (void *)(uintptr_t)limber_spread_at(c.data, &x, g);
    return c;
}

/* Copies m x n elements of `size` bytes from one output view to another. */
void limber_output_copy(const struct output_view *to, const struct output_view *from, int64_t m,
                        int64_t n, int size)
{
    bool rows = to->col == 1 && from->col == 1 && to->inner >= n && from->inner >= n && !to->rows &&
                !to->cols && !from->rows && !from->cols;

    for (int64_t i = 0; i < m && rows; i++)
        memcpy((char *)to->data + i * to->row * size,
               (const char *)from->data + i * from->row * size, (size_t)(n * size));
    for (int64_t i = 0; i < m && !rows; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(limber_output_at(to, i, j, size), limber_output_at(from, i, j, size),
                   (size_t)size);
}

/* ---- groups of a convolution, one task each -------------------------------------------------- */

/* A function that is called for all groups, and the first error that it reports. */
struct group_tasks {
    bool (*fn)(void *arg, int64_t g, int worker, struct diag *d);
    void *arg;
    struct diag *d; /* gets the error of the first group that fails */
    atomic_flag reported;
    atomic_bool failed;
};

/* Task: calls fn for group g unless another group has failed, and keeps the first error. */
static void run_group(void *arg, int64_t g, int worker)
{
    struct group_tasks *s = arg;
    struct diag d = { 0 };

    if (atomic_load_explicit(&s->failed, memory_order_relaxed) || s->fn(s->arg, g, worker, &d))
        return;
    atomic_store(&s->failed, true);
    if (!atomic_flag_test_and_set(&s->reported))
        *s->d = d;
}

/* Calls fn for every group, each in a task of the runner. */
bool limber_groups_run(const struct runner *r, int64_t groups,
                       bool (*fn)(void *arg, int64_t g, int worker, struct diag *d), void *arg,
                       struct diag *d)
{
    struct group_tasks s = { .fn = fn, .arg = arg, .d = d, .reported = ATOMIC_FLAG_INIT };

    if (groups == 1)
        return fn(arg, 0, 0, d);
    r->run(r->self, groups, run_group, &s);
    return !s.failed;
}
