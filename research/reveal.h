/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations shared by the files that find the order of a sum (reveal.c), a simulated unit with
 * this order (reveal_tree.c), and the other properties of this unit (reveal_words.c,
 * reveal_rest.c). */
#ifndef LIMBER_REVEAL_H
#define LIMBER_REVEAL_H

#include "research/research.h"

/* A node of a tree of additions. */
struct branch {
    int32_t leaf; /* index of the term; -1 for an inner node */
    int32_t first, next; /* first child and next sibling; -1 if there is none */
    /* number of children, and of terms below this node */
    int32_t children, terms;
    uint64_t set; /* sum of the hashes of all terms below this node */
};

/* The tree in which a sum adds its terms. */
struct tree {
    struct branch *node;
    int32_t nodes;
};

/* State of the search for the order of a sum. */
struct reveal {
    const struct revealed_sum *sum;
    struct diag *d;
    double *a, *b; /* [k]: factors of the products for the next sum that is asked for */
    /* largest and smallest exponent that products and results can have by their formats */
    int high, low;
    /* largest and smallest exponent of powers of two that the sum returns unchanged */
    int top, bottom;
    int unit; /* exponent of the unit of test values */
    int bits; /* fraction bits that sums keep */
    /* exponents of the two large terms M and -M, which cancel, and of the small terms, the ones,
     * that vanish beside M */
    int large, one;
    int64_t counted; /* largest number of ones in one sum */
    struct tree found, said; /* the tree found from results, and the tree of a candidate unit */
    int32_t root; /* root of `found` */
    bool failed; /* true: the caller's function has failed */
};

/* Sets all factors of the next sum to 0. */
void limber_reveal_clear(const struct reveal *r);
/* Sets product p of the next sum to 2^exponent. */
void limber_reveal_power(const struct reveal *r, int64_t p, int exponent);
/* Asks the caller's function for the sum of the products.  Returns false, with an error, if that
 * fails. */
bool limber_reveal_ask(struct reveal *r, double *sum);
/* Adds a node for a term (-1: an inner node) to the tree, and returns its index. */
int32_t limber_reveal_leaf(struct tree *t, int32_t leaf);
/* Makes a node the last child of another node. */
void limber_reveal_hang(struct tree *t, int32_t node, int32_t child);
/* Returns the hash of a term.  The hash of a set of terms is the sum of their hashes. */
uint64_t limber_reveal_mix(uint64_t x);
/* Returns the hash of a tree, which does not depend on the order of children. */
uint64_t limber_reveal_hash(const struct tree *t);
/* Finds the members `floor` and `zeros` of a unit with fused blocks.  Returns false if a sum
 * fails. */
bool limber_reveal_alignment(struct reveal *r, limber_unit *u);
/* Finds the scales of a unit's operands.  Returns false if a sum fails. */
bool limber_reveal_scale(struct reveal *r, limber_unit *u);
/* Sets *random to true if sums are rounded stochastically.  Returns false if a sum fails. */
bool limber_reveal_random(struct reveal *r, bool *random);
/* Returns the number of products in one of the unit's u->split parts of k. */
int64_t limber_reveal_part(const struct reveal *r, const limber_unit *u);
/* Finds a unit whose tree of additions equals r->found.  Tries simple units first.  Sets
 * u->block to 0 if there is none. acc: format and rounding of every addition.  Returns false if
 * memory runs out. */
bool limber_reveal_unit(struct reveal *r, const limber_step *acc, limber_unit *u);
/* Writes the description of a unit with this order, or nothing if there is none.  Returns false
 * after an error. */
bool limber_reveal_words(struct reveal *r, struct text *words);

#endif
