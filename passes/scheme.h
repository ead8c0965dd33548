/* SPDX-License-Identifier: BSD-3-Clause
 * A scheme: how a product is computed on the units at hand.  Each is a file in scheme/ whose
 * split function refuses with a reason or turns the plan's gemm into limbs, a product table
 * and their recombination.  Families share a split and differ in the row of the list. */
#ifndef LIMBER_SCHEME_H
#define LIMBER_SCHEME_H

#include "ir/ir.h"

/* The data that determines a plan of the scheme. */
enum scheme_data {
    SCHEME_by_masks,
    SCHEME_by_formats, /* formats; also masks under a contract in bits, since ranges may break it */
    SCHEME_by_special /* positions of NaN and infinities, which device kernels find themselves */
};

/* A scheme: how a product becomes products of limbs. */
struct scheme {
    union {
        struct {
            const char *name, *about;
        };
        limber_scheme entry; /* name and about, as callers see them */
    };
    bool (*split)(struct plan *, const struct scheme *, const struct target *, struct diag *);
    enum unit unit;
    int limbs; /* hilo: limbs of an operand */
    int shift; /* hilo: scale between limbs */
    int kept; /* hilo: the paper's scheme keeps rows with i+j < kept */
    bool scaled; /* hilo: lines of operands are scaled */
    bool asked; /* only used if the caller names it */
    enum scheme_data data;
};

extern const struct scheme limber_schemes[];
extern const size_t limber_scheme_count;
const struct scheme *limber_scheme_find(const char *name); /* NULL: unknown */
/* True if the caller may name the number of slices or moduli (limber_contract.slices). */
bool limber_scheme_has_count(const struct scheme *s);
/* Bits of a slice of the Ozaki I scheme called name for k <= 2^kbits; 0: no such scheme. */
int limber_slice_step(const char *name, int kbits);

/* The gemm of a stated plan and its operands. */
struct stated {
    int gemm, a, b; /* indices of nodes */
    struct type type; /* type of the gemm's value */
    limber_format fa, fb; /* operands as stored */
    limber_format result; /* format of the epilogue's value */
    const struct node *ma, *mb; /* the arg nodes with the masks; valid until a node is added */
    const struct node *out; /* the epilogue */
    bool wraps; /* the result is an integer that wraps */
};
bool limber_stated(const struct plan *p, struct stated *s, struct diag *d);

/* The product table of two sets of limbs, and how their sums become one value. */
struct product_table {
    int a, b; /* nodes of the limbs; negative: out of memory */
    enum unit unit;
    int64_t chunk;
    const struct row *row;
    size_t rows;
    int accumulators, reconstruct;
    const int64_t *moduli; /* crt: one per accumulator; else NULL */
};
/* Replaces the gemm by products and a combine; copies the rows. */
bool limber_split_finish(struct plan *p, const struct stated *s, const struct product_table *t,
                         struct diag *d);

/* Sets the attribute sums of products on the target's tensor cores. */
bool limber_split_sums(struct plan *p, const struct target *t, struct diag *d);

/* Bits that a scaled integer of this operand needs so that both operands together move no element
 * by more than half of the budget: all of its bits, or fewer where the budget allows.
 * false with a reason when the mask does not tell. */
bool limber_need_bits(const struct plan *p, const struct node *mask, limber_format f, int *bits,
                      struct diag *d);

/* Bits of the scaled integers if all lines share one scale. */
int64_t limber_width_of_all(const struct node *mask);
/* The axis along which B is scaled, and its mask for that: one scale per line, or one for all where
 * windows share the limbs of one image and that makes its integers only a little longer. */
int limber_axis_b(const struct plan *p, const struct stated *s, struct node *mask);

/* log2 of the error bound of native chains of binary64 with k <= 2^kbits, as a share of the product
 * of both lines' Euclidean norms. */
int limber_chain_error(int kbits);
enum { MOST_CHAIN_ERROR = -20 };

/* Error bound of a plan for inner dimension k, as a coefficient of |A||B|: docs/accuracy.md. */
double limber_spent(const struct plan *p, double k);
/* The smallest of budget - spent over all k that the plan serves. */
double limber_slack(const struct plan *p);

#endif
