/* SPDX-License-Identifier: BSD-3-Clause */
#include "plans.h"

#include <math.h>

static int add_operand(struct plan *p, const char *name, int index, const struct planned *x,
                       const struct mask *mask, int rows, int cols)
{
    struct type t = { .format = x->f, .rank = 2, .dim = { -rows, -cols }, .count = 1 };
    int n = limber_plan_add(p, OP_arg, name, -1, -1, t);

    limber_node_set(&p->node[n], ATTR_index, index);
    limber_mask_class(mask, x->f, &p->node[n]);
    return n;
}

void plan_state(struct plan *p, const struct planned *x)
{
    struct type t = { .format = { .kind = LIMBER_KIND_EXACT }, .rank = 2, .dim = { -'m', -'n' },
                      .count = 1 };
    int a, b, c, c0 = -1, d;

    limber_plan_init(p);
    p->name = "gemm";
    p->promise = x->promise;
    p->kbits = x->kbits;
    p->wanted = x->scheme;
    p->budget = x->promise == LIMBER_FAST ? INFINITY : x->promise == LIMBER_NATIVE ?
                (ldexp(1, x->kbits - 1) + 3) * limber_format_roundoff(x->result) : 0;
    a = add_operand(p, "a", 0, x, x->a, 'm', 'k');
    b = add_operand(p, "b", 1, x, x->b, 'k', 'n');
    c = limber_plan_add(p, OP_gemm, "c", a, b, t);
    t.format = x->result;
    if (x->scalars) {
        c0 = limber_plan_add(p, OP_arg, "c0", -1, -1, t);
        limber_node_set(&p->node[c0], ATTR_index, 2);
    }
    d = limber_plan_add(p, OP_epilogue, "d", c, c0, t);
    limber_node_set(&p->node[d], ATTR_alpha, x->scalars);
    limber_node_set(&p->node[d], ATTR_beta, x->scalars);
    limber_node_set(&p->node[d], ATTR_wrap, 0);
    p->ret = d;
}
