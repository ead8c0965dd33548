/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the verifier. */
#ifndef LIMBER_IR_VERIFY_H
#define LIMBER_IR_VERIFY_H

#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>

/* The value that is checked, its plan, and where the message goes. */
struct check {
    const struct plan *p;
    const struct node *n;   /* the value that is checked */
    struct diag *d;
};

static inline bool bad(const struct check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports what is wrong with the value; returns false. */
static inline bool bad(const struct check *c, const char *format, ...)
{
    char text[400];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return limber_fail(c->d, LIMBER_STATUS_BAD_ARGUMENT, "%%%.48s: %s", c->n->name, text);
}

static inline const struct node *in(const struct check *c, int i)
{
    return &c->p->node[c->n->in[i]];
}

/* verify_node.c: the checks that all operations share; they run before an operation's own. */
bool limber_verify_node(const struct check *c);

#endif
