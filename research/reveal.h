/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the files that find the order of a sum (reveal.c), a simulated unit with this order
 * (reveal_tree.c), and the rest of its description (reveal_words.c, reveal_rest.c). */
#ifndef LIMBER_REVEAL_H
#define LIMBER_REVEAL_H

#include "research/research.h"

struct branch {
    int32_t leaf; /* the term's number; -1: an inner node */
    int32_t first, next; /* first child, next sibling; -1: none */
    int32_t children, terms;
    uint64_t set; /* sum of the hashes of all terms below */
};

/* A tree in which a sum adds its terms. */
struct tree {
    struct branch *node;
    int32_t nodes;
};

struct reveal {
    const struct revealed_sum *sum;
    struct diag *d;
    double *a, *b; /* the k factors of the next sum to be computed */
    int high, low; /* exponents that both products and results may have by their formats */
    int top, bottom; /* exponents of powers of two that the sum returns unchanged */
    int unit; /* test values are multiples of 2^unit */
    int bits; /* bits behind the leading one that sums keep */
    int large, one; /* exponents of M, and of the terms that vanish beside it */
    int64_t counted; /* how many small terms are set at a time */
    struct tree found, said; /* the tree found from results, and that of a candidate unit */
    int32_t root; /* root of `found` */
    bool failed; /* the caller's function has failed */
};

void limber_reveal_clear(const struct reveal *r);
void limber_reveal_power(const struct reveal *r, int64_t p, int exponent);
bool limber_reveal_ask(struct reveal *r, double *sum);
/* Adds a term (-1: an inner node) to the tree and returns its index; hangs a child below a node. */
int32_t limber_reveal_leaf(struct tree *t, int32_t leaf);
void limber_reveal_hang(struct tree *t, int32_t node, int32_t child);
/* The hash of one term.  A set's hash is the sum of its terms' hashes. */
uint64_t limber_reveal_mix(uint64_t x);
/* The hash of a tree, which does not depend on the order of children. */
uint64_t limber_reveal_hash(const struct tree *t);
/* The rest of a unit's description: floor and zeros of fused blocks, the scales of operands, and
 * whether sums round stochastically. */
bool limber_reveal_alignment(struct reveal *r, limber_unit *u);
bool limber_reveal_scale(struct reveal *r, limber_unit *u);
bool limber_reveal_random(struct reveal *r, bool *random);
/* The number of products in one of the unit's `split` parts of k; k without `split`. */
int64_t limber_reveal_part(const struct reveal *r, const limber_unit *u);
/* Finds a unit whose tree of additions equals the one that was found, trying simple units first;
 * u->block is 0 if there is none.  False: no memory. */
bool limber_reveal_unit(struct reveal *r, const limber_step *acc, limber_unit *u);
/* Writes the description of a unit with this order; nothing if there is none. */
bool limber_reveal_words(struct reveal *r, struct text *words);

#endif
