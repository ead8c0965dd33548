/* SPDX-License-Identifier: BSD-3-Clause
 * What the files share that find the order of a sum (reveal.c), a unit with this order
 * (reveal_tree.c) and the unit's other words (reveal_words.c, reveal_rest.c). */
#ifndef LIMBER_REVEAL_H
#define LIMBER_REVEAL_H

#include "research/research.h"

struct branch {
    int32_t leaf; /* -1: a node */
    int32_t first, next; /* child; sibling; -1: none */
    int32_t children, terms;
    uint64_t set; /* a hash of the terms below */
};

struct tree {
    struct branch *node;
    int32_t nodes;
};

struct reveal {
    const struct revealed_sum *sum;
    struct diag *d;
    double *a, *b; /* of the next question */
    int high, low; /* exponents of products and results, by their formats */
    int top, bottom; /* of what comes back */
    int unit; /* the exponent of what questions call 1 */
    int bits; /* behind the first, which sums keep */
    int large, one; /* exponents of M, and of the terms that vanish beside it */
    int64_t counted; /* of these at a time */
    struct tree found, said; /* by results; by words */
    int32_t root; /* of what was found */
    bool failed; /* the sum under study */
};

void limber_reveal_clear(const struct reveal *r);
void limber_reveal_power(const struct reveal *r, int64_t p, int exponent);
bool limber_reveal_ask(struct reveal *r, double *sum);
/* A new term (-1: a node), and a child for a node. */
int32_t limber_reveal_leaf(struct tree *t, int32_t leaf);
void limber_reveal_hang(struct tree *t, int32_t node, int32_t child);
/* Of the terms of a set, which adds up those of each. */
uint64_t limber_reveal_mix(uint64_t x);
/* Of a tree: that of another tree with the same nodes, in whatever order, is the same. */
uint64_t limber_reveal_hash(const struct tree *t);
/* Of fused blocks: floor and zeros.  Of operands: scales.  Whether sums round at random. */
bool limber_reveal_alignment(struct reveal *r, limber_unit *u);
bool limber_reveal_scale(struct reveal *r, limber_unit *u);
bool limber_reveal_random(struct reveal *r, bool *random);
/* Products of a part; there is one part without `split`. */
int64_t limber_reveal_part(const struct reveal *r, const limber_unit *u);
/* Finds a unit of this k with the tree that was found, simple ones first; u->block is 0 where there
 * is none.  False: no memory. */
bool limber_reveal_unit(struct reveal *r, const limber_step *acc, limber_unit *u);
/* Nothing where no words say this order. */
bool limber_reveal_words(struct reveal *r, struct text *words);

#endif
