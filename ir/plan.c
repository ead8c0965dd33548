/* SPDX-License-Identifier: BSD-3-Clause
 * Plans: tables of operations, attributes and units; the arena; functions that build plans; removal
 * of values that are not needed. */
#include "ir/ir.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A(name) (UINT64_C(1) << ATTR_##name)
#define EXACT OP_EXACT
#define MANY OP_MANY
#define ROWS OP_ROWS
const struct op_info limber_ops[OP_count] = {
#define OP(name, least, most, attributes, flags) { #name, least, most, attributes, flags },
#include "ir/ops.h"
};
#undef A
#undef EXACT
#undef MANY
#undef ROWS

const struct attr_info limber_attrs[ATTR_count] = {
#define ATTR(name, kind, words) { #name, ATTR_##kind, words },
#include "ir/attrs.h"
};

#define UNIT_ROW(prefix, word, in, acc, exact, tensor) { #word, in, acc, exact, tensor },
const struct unit_info limber_units[UNIT_count] = { LIMBER_UNITS(UNIT_ROW) };

const char *const limber_limb_kinds[LIMB_KIND_count] = { LIMBER_LIMB_KINDS(LIMBER_WORD_NAME) };
const char *const limber_reconstructions[] = { LIMBER_RECONSTRUCTIONS(LIMBER_WORD_NAME) };
#define PROMISE_ROW(prefix, word, number) [number] = #word,
const char *const limber_promises[PROMISES] = { LIMBER_PROMISES(PROMISE_ROW) };
/* Promises have an index in the text form, and a number in the public interface.  Both must
 * agree. */
enum { LIMBER_PROMISES(LIMBER_WORD_CONSTANT) PROMISE_count };
#define PROMISE_AGREES(prefix, word, number) \
    _Static_assert(prefix##_##word == (int)(number), "in the interface's order");
LIMBER_PROMISES(PROMISE_AGREES)
_Static_assert(PROMISE_count == (int)PROMISES, "all of them");

/* Returns the kind of limbs that an operation makes; LIMB_KIND_count if it makes none. */
enum limb_kind limber_limb_kind(enum op op)
{
#define KIND_ROW(prefix, word, op) op,
    static const enum op ops[] = { LIMBER_LIMB_KINDS(KIND_ROW) };
    int i = 0;

    while (i < LIMB_KIND_count && ops[i] != op)
        i++;
    return (enum limb_kind)i;
}

/* Returns word i of words with bars between them, "a|b|c", and sets *n to its length. */
const char *limber_word_at(const char *words, int64_t i, int *n)
{
    for (; words && i > 0; i--) {
        const char *bar = strchr(words, '|');

        words = bar ? bar + 1 : NULL;
    }
    *n = words ? (int)strcspn(words, "|") : 0;
    return words;
}

/* Returns the index of a word of n bytes in a list of words; -1 if it is not there. */
int limber_word_find(const char *words, const char *s, size_t n)
{
    const char *word;
    int length;

    for (int i = 0; (word = limber_word_at(words, i, &length)); i++)
        if ((size_t)length == n && !memcmp(word, s, n))
            return i;
    return -1;
}

/* An allocation of a plan's arena. */
struct block {
    struct block *next;
    _Alignas(max_align_t) unsigned char data[];
};

/* Makes an empty plan. */
void limber_plan_init(struct plan *p)
{
    memset(p, 0, sizeof *p);
    p->name = "plan";
    p->budget = INFINITY;
    p->spent = p->cost = NAN;
    p->ret = -1;
}

/* Frees all memory of a plan. */
void limber_plan_clear(struct plan *p)
{
    struct block *b = p->arena, *next;

    for (; b; b = next) {
        next = b->next;
        free(b);
    }
    limber_text_clear(&p->refused);
    memset(p, 0, sizeof *p);
    p->ret = -1;
}

/* Allocates cleared memory that lives as long as the plan.  NULL if there is none. */
void *limber_plan_alloc(struct plan *p, size_t bytes)
{
    struct block *b;

    if (bytes > PTRDIFF_MAX - sizeof *b)
        return NULL;
    b = calloc(1, sizeof *b + bytes);
    if (!b)
        return NULL;
    b->next = p->arena;
    p->arena = b;
    return b->data;
}

/* Copies a string to the arena.  Returns NULL if memory runs out. */
const char *limber_plan_string(struct plan *p, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = limber_plan_alloc(p, n);

    return copy ? memcpy(copy, s, n) : NULL;
}

/* True if a node of the plan has this name. */
static bool is_name_taken(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (!strcmp(p->node[i].name, name))
            return true;
    return false;
}

/* Copies the name to the arena.  If it is taken, appends the first number that makes it unique.  If
 * name is NULL, the name starts with "v". */
static const char *unique_name(struct plan *p, const char *name)
{
    char text[80];

    if (name && !is_name_taken(p, name))
        return limber_plan_string(p, name);
    for (size_t i = name ? 2 : p->nodes;; i++) {
        snprintf(text, sizeof text, "%.50s%zu", name ? name : "v", i);
        if (!is_name_taken(p, text))
            return limber_plan_string(p, text);
    }
}

/* Makes room for more nodes.  Returns false if memory runs out. */
static bool grow_nodes(struct plan *p)
{
    size_t capacity = p->capacity ? 2 * p->capacity : 16;
    struct node *node = limber_plan_alloc(p, capacity * sizeof *node);

    if (!node)
        return false;
    if (p->nodes)
        memcpy(node, p->node, p->nodes * sizeof *node);
    p->node = node;
    p->capacity = capacity;
    return true;
}

/* Appends a value with up to two operands (-1 if there is none).  Returns its index, or -1 if
 * memory runs out. */
int limber_plan_add(struct plan *p, enum op op, const char *name, int a, int b, struct type t)
{
    struct node *n;

    name = unique_name(p, name);
    if (!name || (p->nodes == p->capacity && !grow_nodes(p)))
        return -1;
    n = &p->node[p->nodes];
    memset(n, 0, sizeof *n);
    n->op = op;
    n->name = name;
    n->in[0] = a;
    n->in[1] = b;
    n->nin = a < 0 ? 0 : b < 0 ? 1 : 2;
    n->type = t;
    return (int)p->nodes++;
}

#define A(name) (UINT64_C(1) << ATTR_##name)
#define OP(name, least, most, attributes, flags) \
    _Static_assert(__builtin_popcountll(attributes) <= NODE_ATTRS, #name);
#include "ir/ops.h"
#undef A

/* Returns the position of an attribute among those that the operation can have; NODE_ATTRS if the
 * operation cannot have it. */
static int attr_index(const struct node *n, enum attr a)
{
    uint64_t attrs = limber_ops[n->op].attrs, bit = UINT64_C(1) << a;

    return attrs & bit ? __builtin_popcountll(attrs & (bit - 1)) : NODE_ATTRS;
}

/* Sets an attribute.  If the operation cannot have it, only sets its bit in `has`; verification
 * then fails. */
static void set_attr(struct node *n, enum attr a, union attr_value v)
{
    int at = attr_index(n, a);

    n->has |= UINT64_C(1) << a;
    if (at < NODE_ATTRS)
        n->attr[at] = v;
}

/* Sets an attribute to a number, or to the index of a word. */
void limber_node_set(struct node *n, enum attr a, int64_t value)
{
    set_attr(n, a, (union attr_value){ .num = value });
}

/* Sets an attribute to a copy of `count` numbers.  False if memory runs out. */
bool limber_node_list(struct plan *p, struct node *n, enum attr a, const int64_t *v, size_t count)
{
    struct dims_list *list = limber_plan_alloc(p, sizeof *list + count * sizeof *v);
    int64_t *copy = list ? (int64_t *)(void *)(list + 1) : NULL;

    if (!list)
        return false;
    if (count)
        memcpy(copy, v, count * sizeof *copy);
    *list = (struct dims_list){ copy, count };
    set_attr(n, a, (union attr_value){ .list = list });
    return true;
}

/* Returns the number of an attribute; 0 if it is not set. */
int64_t limber_attr_number(const struct node *n, enum attr a)
{
    int at = limber_node_has(n, a) ? attr_index(n, a) : NODE_ATTRS;

    return at < NODE_ATTRS ? n->attr[at].num : 0;
}

/* Returns the list of an attribute; an empty list if it is not set. */
const struct dims_list *limber_attr_list(const struct node *n, enum attr a)
{
    static const struct dims_list none = { NULL, 0 };
    int at = limber_node_has(n, a) ? attr_index(n, a) : NODE_ATTRS;

    return at < NODE_ATTRS && n->attr[at].list ? n->attr[at].list : &none;
}

/* Returns the node `patches` or `filters` that value v is, or from which v's limbs are made. */
const struct node *limber_plan_map(const struct plan *p, int v)
{
    const struct node *n = &p->node[v];

    while (n->op != OP_patches && n->op != OP_filters && n->nin == 1)
        n = &p->node[n->in[0]];
    return n->op == OP_patches || n->op == OP_filters ? n : NULL;
}

/* Returns the order along k (ORDER_crs, ...) of value v, if v is a convolution's view or limbs of
 * one; else ORDER_crs. */
int limber_plan_order(const struct plan *p, int v)
{
    const struct node *n = limber_plan_map(p, v);

    return n && limber_node_has(n, ATTR_order) ? (int)limber_attr_number(n, ATTR_order) : ORDER_crs;
}

/* Returns the `arg` node that a value is computed from. */
const struct node *limber_source(const struct plan *p, int value)
{
    const struct node *n = &p->node[value];

    while (n->op != OP_arg && n->nin > 0)
        n = &p->node[n->in[0]];
    return n;
}

/* Returns the predicted seconds of an m x n x k product, if only a share of its multiply-adds (0 to
 * 1) is done. */
double limber_price(const struct price *p, double m, double n, double k, double share)
{
    return p->product * m * n * k * share + p->a * m * k + p->b * n * k + p->result * m * n +
           p->call;
}

/* Returns the largest number of rows of the product table that one accumulator sums. */
int limber_most_rows(const struct node *products)
{
    int most = 0;

    for (int acc = 0; acc < products->type.count; acc++) {
        int n = 0;

        for (size_t i = 0; i < products->rows; i++)
            n += products->row[i].acc == acc;
        most = n > most ? n : most;
    }
    return most;
}

/* Returns the first node with this operation, or NULL if there is none. */
struct node *limber_plan_find(const struct plan *p, enum op op)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == op)
            return &p->node[i];
    return NULL;
}

/* Copies a node, its name, rows and lists to the arena of another plan.  Returns false if memory
 * runs out. */
static bool copy_node(struct plan *to, struct node *n, const struct node *from)
{
    struct row *row = limber_plan_alloc(to, from->rows * sizeof *row);

    *n = *from;
    n->name = limber_plan_string(to, from->name);
    if (!n->name || !row)
        return false;
    if (from->rows)
        memcpy(row, from->row, from->rows * sizeof *row);
    n->row = row;
    for (int a = 0; a < ATTR_count; a++) {
        const struct dims_list *list = limber_attr_list(from, (enum attr)a);

        if (limber_attrs[a].kind == ATTR_LIST && limber_node_has(from, (enum attr)a) &&
            !limber_node_list(to, n, (enum attr)a, list->v, list->n))
            return false;
    }
    return true;
}

/* Copies a simulated unit's description to the plan's arena. */
static const limber_unit *copy_model(struct plan *p, const limber_unit *from)
{
    limber_unit *u = limber_plan_alloc(p, sizeof *u);

    if (u)
        *u = *from;
    return u;
}

/* Makes a deep copy with its own memory.  False if memory runs out. */
bool limber_plan_copy(struct plan *to, const struct plan *from)
{
    bool ok;

    *to = *from;
    to->arena = NULL;
    memset(&to->refused, 0, sizeof to->refused);
    if (from->refused.s)
        limber_text_add(&to->refused, "%s", from->refused.s);
    to->name = from->name ? limber_plan_string(to, from->name) : NULL;
    to->wanted = from->wanted ? limber_plan_string(to, from->wanted) : NULL;
    to->scheme = from->scheme ? limber_plan_string(to, from->scheme) : NULL;
    to->model = from->model ? copy_model(to, from->model) : NULL;
    to->capacity = from->nodes;
    to->node = limber_plan_alloc(to, from->nodes * sizeof *to->node);
    ok = to->node && !to->refused.failed && !to->name == !from->name &&
         !to->wanted == !from->wanted && !to->scheme == !from->scheme && !to->model == !from->model;
    for (size_t i = 0; ok && i < from->nodes; i++)
        ok = copy_node(to, &to->node[i], &from->node[i]);
    if (!ok)
        limber_plan_clear(to);
    return ok;
}

/* States of a node in limber_plan_sweep: not needed, needed, moved to the new list. */
enum { UNUSED, NEEDED, PLACED };

/* Marks all values that the returned value depends on.  Each round marks the operands of marked
 * values. */
static void mark_needed(const struct plan *p, unsigned char *state)
{
    bool more = true;

    state[p->ret] = NEEDED;
    while (more) {
        more = false;
        for (size_t i = p->nodes; i-- > 0;)
            for (int j = 0; state[i] && j < p->node[i].nin; j++)
                if (!state[p->node[i].in[j]]) {
                    state[p->node[i].in[j]] = NEEDED;
                    more = true;
                }
    }
}

/* Returns true if all operands of a node were moved to the new list. */
static bool is_ready(const struct node *n, const unsigned char *state)
{
    for (int j = 0; j < n->nin; j++)
        if (state[n->in[j]] != PLACED)
            return false;
    return true;
}

/* Deletes values that the returned value does not need, and moves the others after their
 * operands.  False if memory runs out. */
bool limber_plan_sweep(struct plan *p)
{
    unsigned char *state;
    struct node *node;
    size_t kept = 0;
    int *to;

    if (p->ret < 0)
        return true;
    state = limber_plan_alloc(p, p->nodes);
    to = limber_plan_alloc(p, p->nodes * sizeof *to);
    node = limber_plan_alloc(p, p->nodes * sizeof *node);
    if (!state || !to || !node)
        return false;
    mark_needed(p, state);
    /* moves values whose operands were moved; if a round moves none, there is a cycle, which
     * limber_plan_verify reports */
    for (size_t i = 0, before = 0; i < p->nodes;) {
        if (state[i] == NEEDED && is_ready(&p->node[i], state)) {
            node[kept] = p->node[i];
            for (int j = 0; j < node[kept].nin; j++)
                node[kept].in[j] = to[node[kept].in[j]];
            state[i] = PLACED;
            to[i] = (int)kept++;
            if (state[p->ret] == PLACED)
                break;
        }
        if (++i == p->nodes && kept > before) {
            before = kept;
            i = 0;
        }
    }
    if (state[p->ret] != PLACED)
        return true;
    p->ret = to[p->ret];
    p->node = node;
    p->nodes = p->capacity = kept;
    return true;
}
