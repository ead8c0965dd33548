/* SPDX-License-Identifier: BSD-3-Clause
 * Searches for a simulated unit whose tree of additions is the tree found from results. */
#include "ir/unit/num.h"
#include "research/reveal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the tree of a unit ---------------------------------------------------------------------- */

/* Adds a node that adds b to a, and returns it.  If a or b is -1 (nothing), returns the other
 * one. */
static int32_t join_nodes(struct tree *t, int32_t a, int32_t b)
{
    int32_t node;

    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    node = limber_reveal_leaf(t, -1);
    limber_reveal_hang(t, node, a);
    limber_reveal_hang(t, node, b);
    return node;
}

int64_t limber_reveal_part(const struct reveal *r, const limber_unit *u)
{
    return u->split > 1 ? limber_unit_part(u, r->sum->k) : r->sum->k;
}

/* Adds the term at position p of the unit's order to r->said.  Returns its node. */
static int32_t term_at(struct reveal *r, const limber_unit *u, int64_t p)
{
    return limber_reveal_leaf(&r->said, (int32_t)limber_unit_index_of_position(u, r->sum->k, p));
}

/* Builds the part of the unit's tree that adds products [from, to), at most one block, to node
 * acc. */
static int32_t build_block(struct reveal *r, const limber_unit *u, int32_t acc, int64_t from,
                           int64_t to)
{
    int32_t x[64], node;

    if (!u->tree) {
        if (to - from + (acc >= 0) == 1)
            return term_at(r, u, from);
        node = limber_reveal_leaf(&r->said, -1);
        if (acc >= 0)
            limber_reveal_hang(&r->said, node, acc);
        for (; from < to; from++)
            limber_reveal_hang(&r->said, node, term_at(r, u, from));
        return node;
    }
    for (int q = 0; q < u->block; q++)
        x[q] = from + q < to ? term_at(r, u, from + q) : -1;
    for (int width = u->block / 2; width > 0; width /= 2)
        for (int q = 0; q < width; q++)
            x[q] = join_nodes(&r->said, x[2 * q], x[2 * q + 1]);
    return join_nodes(&r->said, acc, x[0]);
}

/* Adds every step-th term of positions [from, to) to the node `sum`, one after the other.  Returns
 * the last sum. */
static int32_t build_stride(struct reveal *r, const limber_unit *u, int32_t sum, int64_t from,
                            int64_t to, int64_t step)
{
    for (int64_t p = from; p < to; p += step)
        sum = join_nodes(&r->said, sum, term_at(r, u, p));
    return sum;
}

/* Builds the part of the unit's tree that distributes products [from, to) over lanes.  Returns its
 * root. */
static int32_t build_lanes(struct reveal *r, const limber_unit *u, int64_t from, int64_t to)
{
    const int64_t whole = limber_unit_steps_end(u, from, to);
    int32_t x[LIMBER_UNIT_LANES];

    for (int lane = 0; lane < u->lanes; lane++)
        x[lane] = build_stride(r, u, -1, from + lane, whole, u->lanes);
    if (!u->rest_after)
        x[0] = build_stride(r, u, x[0], whole, to, 1);
    for (int width = u->lanes; width > 1; width /= 2)
        for (int i = 0; i < width / 2; i++)
            x[i] = join_nodes(&r->said, x[limber_unit_lane(u, width, i, 0)],
                              x[limber_unit_lane(u, width, i, 1)]);
    return u->rest_after ? build_stride(r, u, x[0], whole, to, 1) : x[0];
}

/* Builds the tree of one group, products [from, to), in r->said.  Returns its root. */
static int32_t build_group(struct reveal *r, const limber_unit *u, int64_t from, int64_t to)
{
    int32_t sum = -1;

    if (u->lanes)
        return build_lanes(r, u, from, to);
    for (int64_t p = from; p < to; p += u->block)
        sum = build_block(r, u, sum, p, p + u->block < to ? p + u->block : to);
    return sum;
}

/* Builds the tree in which the unit sums k terms, in r->said.  Returns its root. */
static int32_t build_unit(struct reveal *r, const limber_unit *u)
{
    const int64_t k = r->sum->k, length = limber_reveal_part(r, u);
    int32_t total = -1, part;

    r->said.nodes = 0;
    for (int64_t p = 0; p < k; p += length) {
        const int64_t to = p + length < k ? p + length : k;

        part = -1;
        for (int64_t from = p, end; from < to; from = end) {
            end = u->group ? limber_unit_group_end(u, from, to) : to;
            part = join_nodes(&r->said, part, build_group(r, u, from, end));
        }
        total = join_nodes(&r->said, total, part);
    }
    return total;
}

/* ---- searching for a unit with the tree that was found --------------------------------------- */

/* The lengths of blocks and groups that a unit with the found tree can have, and the hash of this
 * tree. */
struct candidates {
    int32_t block[8], group[40];
    int blocks, groups;
    uint64_t hash;
};

/* Adds a length of groups to the candidates, unless it is among them. */
static void add_group(struct candidates *c, int32_t group)
{
    for (int i = 0; i < c->groups; i++)
        if (c->group[i] == group)
            return;
    if (c->groups < (int)COUNT(c->group))
        c->group[c->groups++] = group;
}

/* Returns the child that contains term 0, which is the first child.  For nodes on the path from the
 * root to term 0 only. */
static int32_t first_child(const struct reveal *r, int32_t at)
{
    return r->found.node[at].first;
}

/* Collects possible lengths of groups.  On the path from term 0 to the root, these are the sizes of
 * sums to which a sum of at least the same size is added, and the sizes of the sums nearest to the
 * root. */
static void find_groups(const struct reveal *r, struct candidates *c)
{
    const struct branch *node = r->found.node;
    int32_t path[4] = { -1, -1, -1, -1 };

    c->group[c->groups++] = 0;
    for (int32_t at = r->root; node[at].leaf < 0; at = first_child(r, at)) {
        const int32_t below = first_child(r, at), other = node[below].next;

        if (node[at].children == 2 && node[other].terms >= node[below].terms)
            add_group(c, node[below].terms);
    }
    path[0] = r->root;
    for (int i = 0; i < 4 && node[path[i]].leaf < 0; i++) {
        if (node[path[i]].children == 2)
            add_group(c, node[first_child(r, path[i])].terms);
        if (i < 3)
            path[i + 1] = first_child(r, path[i]);
    }
    add_group(c, (int32_t)r->sum->k);
}

/* Finds lengths of blocks and groups that the found tree suggests.  A node with three or more
 * children suggests fused blocks.  If there is none, blocks are taken to be binary trees whose
 * number of leaves is a power of two. */
static void find_candidates(const struct reveal *r, struct candidates *c)
{
    int32_t most = 0;

    memset(c, 0, sizeof *c);
    c->hash = limber_reveal_hash(&r->found);
    for (int32_t at = 0; at < r->found.nodes; at++) {
        int32_t leaves = 0;

        if (r->found.node[at].children < 3)
            continue;
        for (int32_t x = r->found.node[at].first; x >= 0; x = r->found.node[x].next)
            leaves += r->found.node[x].leaf >= 0;
        most = leaves > most ? leaves : most;
    }
    if (most)
        c->block[c->blocks++] = most;
    for (int32_t block = 1; !most && block <= 64; block *= 2)
        c->block[c->blocks++] = block;
    find_groups(r, c);
}

/* Hashes of sets of terms. node: for each node of the found tree in order, the set of terms
 * below it. first[p]: the set of terms 0 to p - 1. */
struct sets {
    uint64_t *node, *first;
    int32_t nodes;
};

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Makes the tables of struct sets.  Returns false if memory runs out. */
static bool make_sets(const struct reveal *r, struct sets *s)
{
    const int64_t k = r->sum->k;

    s->nodes = 0;
    s->node = malloc((size_t)r->found.nodes * sizeof *s->node);
    s->first = malloc((size_t)(k + 1) * sizeof *s->first);
    if (!s->node || !s->first)
        return limber_fail(r->d, LIMBER_STATUS_NO_MEMORY, "no memory for %lld terms", (long long)k);
    for (int32_t at = 0; at < r->found.nodes; at++)
        s->node[s->nodes++] = r->found.node[at].set;
    qsort(s->node, (size_t)s->nodes, sizeof *s->node, by_value);
    s->first[0] = 0;
    for (int64_t p = 0; p < k; p++)
        s->first[p + 1] = s->first[p] + limber_reveal_mix((uint64_t)p);
    return true;
}

/* Returns true if the found tree has a node for every group of u's terms.  If the sum runs from the
 * last term to the first, the groups are mirrored.  Without such nodes, no unit with these groups
 * can have the tree, whatever its blocks are. */
static bool has_groups(const struct reveal *r, const struct sets *s, const limber_unit *u)
{
    const int64_t k = r->sum->k, length = limber_reveal_part(r, u);

    for (int64_t p = 0; p < k && u->group; p += length) {
        const int64_t to = p + length < k ? p + length : k;

        for (int64_t from = p, end; from < to; from = end) {
            const int64_t reversed = k - from;
            uint64_t set, other;

            end = limber_unit_group_end(u, from, to);
            set = s->first[end] - s->first[from];
            other = s->first[reversed] - s->first[k - end];
            if (!bsearch(&set, s->node, (size_t)s->nodes, sizeof set, by_value) &&
                !bsearch(&other, s->node, (size_t)s->nodes, sizeof other, by_value))
                return false;
        }
    }
    return true;
}

/* Returns true if the unit is valid, and sums in the order of the found tree. */
static bool has_found_tree(struct reveal *r, const struct candidates *c, const limber_unit *u)
{
    struct diag ignored = { 0 };

    if (!limber_unit_verify(u, &ignored))
        return false;
    build_unit(r, u);
    return limber_reveal_hash(&r->said) == c->hash;
}

/* Tries units that distribute a group's products cyclically over lanes, with or without unrolling.
 * Returns true if one sums in the found order. */
static bool find_lanes(struct reveal *r, const struct candidates *c, limber_unit *u)
{
    for (u->lanes = 2; u->lanes <= LIMBER_UNIT_LANES; u->lanes *= 2)
        for (u->join_halves = 0; u->join_halves < 2; u->join_halves++)
            for (u->unroll = 0; u->unroll <= 8 * u->lanes && u->unroll <= 64;
                 u->unroll += u->unroll ? u->unroll : u->lanes)
                for (u->rest_after = 0; u->rest_after <= (u->unroll > 0); u->rest_after++)
                    if (has_found_tree(r, c, u))
                        return true;
    u->lanes = u->join_halves = u->unroll = u->rest_after = 0;
    return false;
}

/* Tries all orders of k, with and without lanes, for a unit with these blocks and groups.  Returns
 * true if one sums in the found order. */
static bool find_inside(struct reveal *r, const struct candidates *c, limber_unit *u)
{
    for (int order = LIMBER_ORDER_FORWARD; order <= LIMBER_ORDER_SWAPPED; order++) {
        u->order = (enum limber_unit_order)order;
        if (has_found_tree(r, c, u) || (u->block == 1 && u->group && find_lanes(r, c, u)))
            return true;
    }
    return false;
}

/* Finds a unit whose tree of additions equals r->found, trying simple units first.  Sets
 * u->block to 0 if there is none. acc: format and rounding of every addition.  False if memory
 * runs out. */
bool limber_reveal_unit(struct reveal *r, const limber_step *acc, limber_unit *u)
{
    static const int32_t halves[] = { 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 };
    const int32_t k = (int32_t)r->sum->k;
    const limber_step none = { .rounding = 0 };
    struct candidates c;
    struct sets s;
    bool good = make_sets(r, &s), found = false;

    find_candidates(r, &c);
    for (int split = 1; good && split <= 16 && 2 * split <= k + 2; split++)
        for (int g = 0; g < c.groups && !found; g++)
            for (size_t h = 0; h < COUNT(halves) && !found; h++) {
                const int32_t group = c.group[g], part = (k + split - 1) / split;

                u->split = split;
                u->total = split > 1 ? *acc : none;
                u->group = group;
                u->outer = group ? *acc : none;
                u->halve = halves[h];
                if ((u->halve && (!group || part <= group || group % u->halve)) ||
                    !has_groups(r, &s, u))
                    continue;
                for (int b = 0; b < c.blocks && !found; b++) {
                    u->block = c.block[b];
                    u->tree = u->block > 1 && c.blocks > 1;
                    u->frac = u->block > 1 && !u->tree ? 1 : 0;
                    found = u->block < k && find_inside(r, &c, u);
                }
            }
    if (!found)
        u->block = 0;
    free(s.node);
    free(s.first);
    return good;
}
