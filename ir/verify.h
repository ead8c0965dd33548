/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations inside the verifier of plans. */
#ifndef LIMBER_IR_VERIFY_H
#define LIMBER_IR_VERIFY_H

#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>

/* What a check gets: the plan, one of its values, and the place for an error message. */
struct check {
    const struct plan *p;
    const struct node *n;   /* the value that is checked */
    struct diag *d;
};

static inline bool bad(const struct check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports what is wrong with the value.  Returns false. */
static inline bool bad(const struct check *c, const char *format, ...)
{
    char text[400];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return limber_fail(c->d, LIMBER_STATUS_BAD_ARGUMENT, "%%%.48s: %s", c->n->name, text);
}

/* Returns operand i of the value. */
static inline const struct node *in(const struct check *c, int i)
{
    return &c->p->node[c->n->in[i]];
}

/* Checks what must hold for all operations, before the checks of a single operation.  In
 * verify_node.c. */
bool limber_verify_node(const struct check *c);
/* Checks the accumulators of a table of products: their number, the order of their rows, and which
 * share one total. */
bool limber_verify_accumulators(const struct check *c);
/* Checks the head of a plan: promise, sizes, error bounds and the simulated unit.  In
 * verify_node.c. */
bool limber_verify_head(const struct plan *p, struct diag *d);

#endif
