/* SPDX-License-Identifier: BSD-3-Clause
 * Plans: their tables, their arena, building and sweeping. */
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT OP_EXACT
#define MANY OP_MANY
#define ROWS OP_ROWS
#define A(name) ((uint64_t)1 << ATTR_##name)
const struct op_info limber_ops[OP_count] = {
#define OP(name, least, most, attributes, flags) { #name, least, most, attributes, flags },
#include "ir/ops.h"
};
#undef EXACT
#undef MANY
#undef ROWS
#undef A

#define INT ATTR_INT
#define LIST ATTR_LIST
#define WORD ATTR_WORD
const struct attr_info limber_attrs[ATTR_count] = {
#define ATTR(name, kind, words) { #name, kind, words },
#include "ir/attrs.h"
};
#undef INT
#undef LIST
#undef WORD

_Static_assert(ATTR_count <= 64, "node.has is a bit per attribute");

const struct unit_info limber_units[UNIT_count] = {
    [UNIT_f64] = { "f64", "f64", "f64", 53 },
    [UNIT_f32] = { "f32", "f32", "f32", 24 },
    [UNIT_f16] = { "f16", "f16", "f32", 24 },
    [UNIT_bf16] = { "bf16", "bf16", "f32", 24 },
    [UNIT_tf32] = { "tf32", "tf32", "f32", 24 },
    [UNIT_i8] = { "i8", "i8", "i32", 31 },
    [UNIT_exact] = { "exact", "exact", "exact", 0 },
};

/* ---- arena ----------------------------------------------------------------------------------- */

struct piece {
    struct piece *next;
    size_t used, room;
    max_align_t data[];
};

void *limber_plan_alloc(struct plan *p, size_t bytes)
{
    struct piece *piece = p->arena;
    void *at;

    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!piece || piece->room - piece->used < bytes) {
        size_t room = bytes > 8192 ? bytes : 8192;

        piece = calloc(1, sizeof *piece + room);
        if (!piece)
            return NULL;
        piece->next = p->arena;
        piece->room = room;
        p->arena = piece;
    }
    at = (char *)piece->data + piece->used;
    piece->used += bytes;
    return at;
}

void limber_plan_init(struct plan *p)
{
    memset(p, 0, sizeof *p);
    p->ret = -1;
    p->spent = p->cost = NAN;
    p->budget = INFINITY;
}

void limber_plan_clear(struct plan *p)
{
    struct piece *next;

    for (struct piece *piece = p->arena; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    limber_text_clear(&p->refused);
    memset(p, 0, sizeof *p);
    p->ret = -1;
}

const char *limber_plan_string(struct plan *p, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = limber_plan_alloc(p, n);

    return copy ? memcpy(copy, s, n) : NULL;
}

/* ---- building -------------------------------------------------------------------------------- */

static bool taken(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (strcmp(p->node[i].name, name) == 0)
            return true;
    return false;
}

static const char *fresh_name(struct plan *p)
{
    char name[24];
    size_t i = p->nodes;

    do
        snprintf(name, sizeof name, "v%zu", i++);
    while (taken(p, name));
    return limber_plan_string(p, name);
}

int limber_plan_add(struct plan *p, enum op op, const char *name, int a, int b, struct type t)
{
    struct node *n;

    if (p->nodes == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        struct node *grown = limber_plan_alloc(p, room * sizeof *grown);

        if (!grown)
            return -1;
        if (p->nodes)
            memcpy(grown, p->node, p->nodes * sizeof *grown);
        p->node = grown;
        p->room = room;
    }
    name = name ? limber_plan_string(p, name) : fresh_name(p);
    if (!name)
        return -1;
    n = &p->node[p->nodes];
    memset(n, 0, sizeof *n);
    n->op = op;
    n->name = name;
    n->in[0] = a;
    n->in[1] = b;
    n->nin = (a >= 0) + (b >= 0);
    n->type = t;
    return (int)p->nodes++;
}

void limber_node_set(struct node *n, enum attr a, int64_t value)
{
    n->has |= (uint64_t)1 << a;
    n->num[a] = value;
}

bool limber_node_list(struct plan *p, struct node *n, enum attr a, const int64_t *v, size_t count)
{
    int64_t *copy = limber_plan_alloc(p, (count ? count : 1) * sizeof *copy);

    if (!copy)
        return false;
    if (count)
        memcpy(copy, v, count * sizeof *copy);
    n->has |= (uint64_t)1 << a;
    n->list[a] = (struct dims_list){ copy, count };
    return true;
}

struct node *limber_plan_find(const struct plan *p, enum op op)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == op)
            return &p->node[i];
    return NULL;
}

static bool copy_node(struct plan *to, const struct node *from)
{
    int at = limber_plan_add(to, from->op, from->name, from->in[0], from->in[1], from->type);
    struct node *n = &to->node[at];
    const char *name;

    if (at < 0)
        return false;
    name = n->name;
    *n = *from;
    n->name = name;
    for (int a = 0; a < ATTR_count; a++)
        if (from->list[a].n && !limber_node_list(to, n, a, from->list[a].v, from->list[a].n))
            return false;
    if (from->rows) {
        n->row = limber_plan_alloc(to, from->rows * sizeof *n->row);
        if (!n->row)
            return false;
        memcpy(n->row, from->row, from->rows * sizeof *n->row);
    }
    return true;
}

bool limber_plan_copy(struct plan *to, const struct plan *from)
{
    limber_plan_init(to);
    *to = (struct plan){ .promise = from->promise, .bits = from->bits, .slices = from->slices,
                         .kbits = from->kbits, .budget = from->budget, .spent = from->spent,
                         .cost = from->cost, .pruned = from->pruned, .dropped = from->dropped,
                         .ret = from->ret, .scheme = from->scheme };
    to->name = limber_plan_string(to, from->name ? from->name : "");
    to->wanted = from->wanted ? limber_plan_string(to, from->wanted) : NULL;
    to->scheme = from->scheme ? limber_plan_string(to, from->scheme) : NULL;
    if (!to->name || (from->wanted && !to->wanted) || (from->scheme && !to->scheme))
        return false;
    for (size_t i = 0; i < from->nodes; i++)
        if (!copy_node(to, &from->node[i]))
            return false;
    return true;
}

/* ---- sweep ----------------------------------------------------------------------------------- */

/* Numbers v and what it needs in the order of definition before use. */
static void visit(const struct plan *p, int v, int *number, int *next)
{
    if (number[v] >= 0)
        return;
    for (int i = 0; i < p->node[v].nin; i++)
        visit(p, p->node[v].in[i], number, next);
    number[v] = (*next)++;
}

bool limber_plan_sweep(struct plan *p)
{
    int *number = malloc((p->nodes + 1) * sizeof *number), next = 0;
    struct node *kept = limber_plan_alloc(p, p->room * sizeof *kept);
    bool ok = number && kept;

    if (ok && p->ret >= 0) {
        for (size_t i = 0; i < p->nodes; i++)
            number[i] = -1;
        visit(p, p->ret, number, &next);
        for (size_t i = 0; i < p->nodes; i++)
            if (number[i] >= 0) {
                struct node *n = &kept[number[i]];

                *n = p->node[i];
                for (int j = 0; j < n->nin; j++)
                    n->in[j] = number[n->in[j]];
            }
        p->ret = number[p->ret];
        p->node = kept;
        p->nodes = (size_t)next;
    }
    free(number);
    return ok;
}
