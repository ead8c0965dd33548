/* SPDX-License-Identifier: BSD-3-Clause
 * Schemes: how a product is computed on the machine's units.  The split function of a scheme
 * (passes/scheme/) either refuses with a reason, or replaces the plan's gemm by limbs, a product
 * table and a node that combines the products.  Schemes of one family share a split function and
 * differ in their row of the list. */
#ifndef LIMBER_SCHEME_H
#define LIMBER_SCHEME_H

#include "ir/ir.h"

/* The properties of the data on which a plan of the scheme depends.  SCHEME_by_masks: exponents
 * and bits. */
enum scheme_data {
    SCHEME_by_masks,
    /* the formats; under a contract in bits also exponents and bits, since the data's range may
     * break the contract */
    SCHEME_by_formats,
    /* positions of NaN and infinities; on devices the kernels find these themselves */
    SCHEME_by_special
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
    /* hilo: the scheme as published keeps rows with i + j < kept, i and j being the limbs */
    int kept;
    bool scaled; /* hilo: each line of an operand is scaled by a power of two */
    bool asked; /* used only if the caller names it */
    /* NULL, or a list of schemes "A+B+C" for which the row is another name; such a row has no
     * `split` */
    const char *list;
    enum scheme_data data;
};

extern const struct scheme limber_schemes[];
extern const size_t limber_scheme_count;
/* Returns the scheme with this name; NULL if there is none, or if the name stands for a list. */
const struct scheme *limber_scheme_find(const char *name);
/* The schemes that a caller names, the preferred one first. */
enum { SCHEMES = 3 };
struct scheme_list {
    int count;
    const struct scheme *scheme[SCHEMES];
};
/* Parses "A", "A+B", "A+B+C", or a row's name for such a list.  False if a name is unknown, or
 * there are too many. */
bool limber_scheme_list_read(const char *text, struct scheme_list *out);
/* The range of exponents of elements that a scheme's float limbs can hold: `binades` powers of
 * two.  The highest is 2^top if `fixed`; else it may be any, since lines are scaled. */
struct scheme_range {
    int binades, top;
    bool fixed;
};
/* Sets *r to the range of exponents that the scheme's limbs can hold.  Returns false if they can
 * hold any exponents. */
bool limber_scheme_range(const struct scheme *s, struct scheme_range *r);
/* True if the caller may set the number of slices or moduli (limber_contract.slices). */
bool limber_scheme_has_count(const struct scheme *s);
/* Returns the bits of a slice of the named Ozaki I scheme for k <= 2^kbits under the contract
 * `fast`, where the caller gives the number of slices or the library estimates it.  0 if there is
 * no such scheme. */
int limber_slice_step(const char *name, int kbits);
/* Returns how many bits of balanced slices (signed digits) scaled integers cannot use: one for
 * the sign, one more in bytes. */
int limber_slice_spare(const char *name);

/* The gemm of a plan before the passes, with its operands. */
struct stated_gemm {
    int gemm, a, b; /* indices of nodes */
    struct type type; /* type of the gemm's value */
    limber_format fa, fb; /* operands as stored */
    limber_format result; /* format of the epilogue's value */
    /* the `arg` nodes that carry what scans found in A and B; valid until a node is added */
    const struct node *ma, *mb;
    const struct node *out; /* the node `epilogue` */
    bool wraps; /* the result is an integer that wraps */
};
/* Finds the gemm of a plan before the passes and fills *s.  False, with the reason, if there is
 * none. */
bool limber_find_stated_gemm(const struct plan *p, struct stated_gemm *s, struct diag *d);

/* The product table of the limbs of A and B, and how its accumulators become one value. */
struct product_table {
    int a, b; /* nodes of the limbs of A and B; negative if memory ran out */
    enum unit unit;
    int64_t chunk;
    const struct row *row;
    size_t rows;
    int accumulators, reconstruct;
    const int64_t *moduli; /* RECONSTRUCT_crt: the modulus of each accumulator; else NULL */
};
/* Replaces the gemm by `products` and `combine` nodes.  Copies the rows. */
bool limber_split_finish(struct plan *p, const struct stated_gemm *s, const struct product_table *t,
                         struct diag *d);

/* Sets the attribute `sums` of the products: how the target's tensor cores sum. */
bool limber_split_sums(struct plan *p, const struct target *t, struct diag *d);

/* Computes the bits that a scaled integer of this operand needs so that both operands together
 * change no element by more than half of the budget: all bits, or fewer if the budget allows.
 * False, with a reason, if the operand was not scanned. mask: the `arg` node with the results of
 * the scan. */
bool limber_need_bits(const struct plan *p, const struct node *mask, limber_format f, int *bits,
                      struct diag *d);

/* Returns the bits of the scaled integers if all lines of an operand share one scale. */
int64_t limber_width_of_all(const struct node *mask);
/* Returns the axis along which B is scaled, and sets *mask to B's exponents and bits for that
 * axis.  If overlapping windows share the limbs of an image, one scale for all lines is used,
 * unless it needs many extra bits; otherwise each line has its own scale. */
int limber_axis_b(const struct plan *p, const struct stated_gemm *s, struct node *mask);

/* Returns log2 of the error bound of native sums in binary64 with k <= 2^kbits, relative to the
 * product of the Euclidean norms of the row and the column. */
int limber_chain_error(int kbits);
/* above this limit (log2) sums in binary64 are not used */
enum { MOST_CHAIN_ERROR = -20 };

/* Returns the error bound of a plan for inner dimension k, relative to |A||B|. docs/accuracy.md has
 * the proof. */
double limber_error_bound(const struct plan *p, double k);
/* Returns the smallest difference between the allowed error and the error bound, over all inner
 * dimensions k that the plan must compute (its class). */
double limber_smallest_slack(const struct plan *p);

#endif
