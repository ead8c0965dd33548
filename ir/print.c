/* SPDX-License-Identifier: BSD-3-Clause
 * Prints a plan as canonical text: equal plans give equal bytes.  docs/ir.md describes the text. */
#include "ir/lex.h"

#include <math.h>
#include <string.h>

/* Prints an error bound; infinity is printed as `any`. */
static void print_bound(struct text *out, double v)
{
    if (isinf(v))
        limber_text_add(out, "any");
    else
        limber_print_number(out, v);
}

/* Prints the description of a simulated unit, with bars between its words. */
static void print_model(const limber_unit *u, struct text *out)
{
    struct text t = { 0 };

    limber_unit_print(u, &t);
    for (size_t i = 0; i < t.n; i++)
        if (t.s[i] == ' ')
            t.s[i] = '|';
    limber_text_add(out, " model=%s", t.s ? t.s : "");
    out->failed |= t.failed;
    limber_text_clear(&t);
}

/* Prints word i of a list "a|b|c". */
static void print_word(const char *words, int64_t i, struct text *out)
{
    int n;
    const char *word = limber_word_at(words, i, &n);

    limber_text_add(out, "%.*s", n, word ? word : "");
}

/* Prints the first line of a plan: the problem's contract and sizes, and what passes have set. */
static void print_head(const struct plan *p, struct text *out)
{
    limber_text_add(out, "plan %s", p->name && *p->name ? p->name : "plan");
    if ((int)p->promise >= 0 && (int)p->promise < PROMISES)
        limber_text_add(out, " promise=%s", limber_promises[p->promise]);
    if (p->bits)
        limber_text_add(out, " bits=%d", p->bits);
    if (p->wanted)
        limber_text_add(out, " wanted=%s", p->wanted);
    if (p->slices)
        limber_text_add(out, " slices=%d", p->slices);
    if (p->split) {
        limber_text_add(out, " split=");
        print_word(LIMBER_WORDS(LIMBER_SPLITS),
                   p->split == LIMBER_SPLIT_INSIDE ? SPLIT_inside : SPLIT_ahead, out);
    }
    limber_text_add(out, " kbits=%d", p->kbits);
    if (p->size)
        limber_text_add(out, " size=%d", p->size);
    if (p->first_pass.bits)
        limber_text_add(out, " first_pass_bits=%d", p->first_pass.bits);
    if (p->first_pass.decided)
        limber_text_add(out, " decided=%d", p->first_pass.decided);
    if (p->first_pass.paired)
        limber_text_add(out, " paired=%d", p->first_pass.paired);
    if (p->roundings)
        limber_text_add(out, " roundings=%d", p->roundings);
    limber_text_add(out, " budget=");
    print_bound(out, p->budget);
    if (!isnan(p->spent)) {
        limber_text_add(out, " spent=");
        print_bound(out, p->spent);
    }
    if (p->scheme)
        limber_text_add(out, " scheme=%s", p->scheme);
    if (p->pruned)
        limber_text_add(out, " pruned=%d", p->pruned);
    if (p->dropped > 0) {
        limber_text_add(out, " dropped=");
        print_bound(out, p->dropped);
    }
    if (p->model)
        print_model(p->model, out);
    if (p->counts)
        limber_text_add(out, " counts=%d", p->counts);
    limber_text_add(out, " {\n");
}

/* Prints an attribute as " key=value". */
static void print_attr(const struct node *n, enum attr a, struct text *out)
{
    const struct attr_info *info = &limber_attrs[a];

    limber_text_add(out, " %s=", info->name);
    if (info->kind == ATTR_WORD)
        print_word(info->words, limber_attr_number(n, a), out);
    else if (info->kind == ATTR_INT)
        limber_text_add(out, "%lld", (long long)limber_attr_number(n, a));
    for (size_t i = 0; info->kind == ATTR_LIST && i < limber_attr_list(n, a)->n; i++)
        limber_text_add(out, "%s%lld", i ? "," : "", (long long)limber_attr_list(n, a)->v[i]);
}

/* Prints a value's type: format, dimensions and number of limbs or accumulators. */
static void print_type(const struct node *n, struct text *out)
{
    char name[48];

    limber_text_add(out, " : %s[", limber_format_name(n->type.format, name, sizeof name));
    for (int i = 0; i < n->type.rank && i < MOST_RANK; i++) {
        int64_t d = n->type.dim[i];

        if (d < 0)
            limber_text_add(out, "%s%c", i ? "," : "", (int)-d);
        else
            limber_text_add(out, "%s%lld", i ? "," : "", (long long)d);
    }
    limber_text_add(out, "]");
    if (limber_ops[n->op].flags & OP_MANY)
        limber_text_add(out, "x%d", n->type.count);
}

/* Returns the name of node i. */
static const char *name_of(const struct plan *p, int i)
{
    return i >= 0 && (size_t)i < p->nodes ? p->node[i].name : "?";
}

/* Prints the rows of a product table. */
static void print_rows(const struct plan *p, const struct node *n, struct text *out)
{
    limber_text_add(out, " {\n");
    for (size_t i = 0; i < n->rows; i++) {
        const struct row *r = &n->row[i];

        limber_text_add(out, "    row %%%s.%d %%%s.%d acc=%d w=2^%d share=", name_of(p, n->in[0]),
                        r->a, name_of(p, n->in[1]), r->b, r->acc, r->weight);
        if (isinf(r->share))
            limber_text_add(out, "all");
        else
            limber_print_number(out, r->share);
        limber_text_add(out, "\n");
    }
    limber_text_add(out, "  }");
}

/* Prints one operation with its operands, attributes, type and rows. */
static void print_node(const struct plan *p, const struct node *n, struct text *out)
{
    limber_text_add(out, "  %%%s = %s", n->name, limber_ops[n->op].name);
    for (int i = 0; i < n->nin; i++)
        limber_text_add(out, " %%%s", name_of(p, n->in[i]));
    for (int a = 0; a < ATTR_count; a++)
        if (limber_node_has(n, (enum attr)a))
            print_attr(n, (enum attr)a, out);
    print_type(n, out);
    if (limber_ops[n->op].flags & OP_ROWS)
        print_rows(p, n, out);
    limber_text_add(out, "\n");
}

/* Prints a plan as text that limber_plan_parse reads. */
void limber_plan_print(const struct plan *p, struct text *out)
{
    print_head(p, out);
    for (size_t i = 0; i < p->nodes; i++)
        print_node(p, &p->node[i], out);
    if (p->ret >= 0)
        limber_text_add(out, "  ret %%%s\n", name_of(p, p->ret));
    limber_text_add(out, "}\n");
}
