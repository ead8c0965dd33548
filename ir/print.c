/* SPDX-License-Identifier: BSD-3-Clause
 * A plan as canonical text: what dumps show, tests compare and caches hash. */
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const promises[] = { "native", "bits", "correct", "exact", "fast" };

/* Powers of two as 2^e, other numbers as C99 hexadecimal. */
static void print_number(struct text *out, double x)
{
    int e;

    if (isinf(x))
        limber_text_add(out, "any");
    else if (x > 0 && frexp(x, &e) == 0.5)
        limber_text_add(out, "2^%d", e - 1);
    else
        limber_text_add(out, "%a", x);
}

static void print_type(struct text *out, const struct node *n)
{
    char name[64];

    limber_text_add(out, " : %s[", limber_format_name(n->type.format, name, sizeof name));
    for (int i = 0; i < n->type.rank; i++) {
        int64_t dim = n->type.dim[i];

        if (dim < 0)
            limber_text_add(out, "%s%c", i ? "," : "", (char)-dim);
        else
            limber_text_add(out, "%s%lld", i ? "," : "", (long long)dim);
    }
    limber_text_add(out, "]");
    if (limber_ops[n->op].flags & OP_MANY)
        limber_text_add(out, "x%d", n->type.count);
}

static void print_word(struct text *out, const char *words, int64_t index)
{
    while (index-- > 0) {
        words = strchr(words, '|');
        if (!words)
            return;
        words++;
    }
    limber_text_add(out, "%.*s", (int)strcspn(words, "|"), words);
}

static void print_attr(struct text *out, const struct node *n, enum attr a)
{
    limber_text_add(out, " %s=", limber_attrs[a].name);
    switch (limber_attrs[a].kind) {
    case ATTR_INT:
        limber_text_add(out, "%lld", (long long)n->num[a]);
        break;
    case ATTR_WORD:
        print_word(out, limber_attrs[a].words, n->num[a]);
        break;
    case ATTR_LIST:
        for (size_t i = 0; i < n->list[a].n; i++)
            limber_text_add(out, "%s%lld", i ? "," : "", (long long)n->list[a].v[i]);
        break;
    }
}

static void print_rows(struct text *out, const struct plan *p, const struct node *n)
{
    limber_text_add(out, " {\n");
    for (size_t i = 0; i < n->rows; i++) {
        const struct row *r = &n->row[i];

        limber_text_add(out, "    row %%%s.%d %%%s.%d acc=%d w=2^%d share=",
                        p->node[n->in[0]].name, r->a, p->node[n->in[1]].name, r->b, r->acc,
                        r->weight);
        if (isinf(r->share))
            limber_text_add(out, "all");
        else
            print_number(out, r->share);
        limber_text_add(out, "\n");
    }
    limber_text_add(out, "  }");
}

static void print_node(struct text *out, const struct plan *p, const struct node *n)
{
    limber_text_add(out, "  %%%s = %s", n->name, limber_ops[n->op].name);
    for (int i = 0; i < n->nin; i++)
        limber_text_add(out, " %%%s", p->node[n->in[i]].name);
    for (int a = 0; a < ATTR_count; a++)
        if (limber_node_has(n, (enum attr)a))
            print_attr(out, n, (enum attr)a);
    print_type(out, n);
    if (limber_ops[n->op].flags & OP_ROWS)
        print_rows(out, p, n);
    limber_text_add(out, "\n");
}

void limber_plan_print(const struct plan *p, struct text *out)
{
    limber_text_add(out, "plan %s promise=%s", p->name && p->name[0] ? p->name : "plan",
                    promises[p->promise]);
    if (p->bits)
        limber_text_add(out, " bits=%d", p->bits);
    if (p->wanted)
        limber_text_add(out, " wanted=%s", p->wanted);
    if (p->slices)
        limber_text_add(out, " slices=%d", p->slices);
    limber_text_add(out, " kbits=%d budget=", p->kbits);
    print_number(out, p->budget);
    if (!isnan(p->spent)) {
        limber_text_add(out, " spent=");
        print_number(out, p->spent);
    }
    if (p->scheme)
        limber_text_add(out, " scheme=%s", p->scheme);
    if (p->pruned)
        limber_text_add(out, " pruned=%d", p->pruned);
    if (p->dropped > 0) {
        limber_text_add(out, " dropped=");
        print_number(out, p->dropped);
    }
    limber_text_add(out, " {\n");
    for (size_t i = 0; i < p->nodes; i++)
        print_node(out, p, &p->node[i]);
    if (p->ret >= 0)
        limber_text_add(out, "  ret %%%s\n", p->node[p->ret].name);
    limber_text_add(out, "}\n");
}
