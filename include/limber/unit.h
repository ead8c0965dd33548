/* SPDX-License-Identifier: BSD-3-Clause
 * Low-precision units as data: what a described unit computes, bit for bit
 * (LIMBER_CONTRACT_SIMULATE).
 *
 * A description is plain data; its text form (docs/simulation.md) is words "key=value", at most one
 * preset's name in front:
 *
 *     in=e5m2 mul=e5m2:rn acc=e5m2:rn group=16 outer=f32:rn
 *     h100-e4m3 group=128 outer=f32
 *
 * What it means, for one element of the result, with k factors in the unit's order:
 *   loading   every operand element is rounded to `a` or `b` (with block scales: to a scaled block)
 *   block=1   p = round_mul(a b), or a b itself when mul is absent; acc = round_acc(acc + p): every
 *             multiplication and every addition is rounded, or both at once (FMA)
 *   block=B   the exact products of B neighbours and acc are aligned to the largest exponent among
 *             them, cut toward zero to `frac` bits below it, summed exactly, rounded to `acc`
 *   late=L    the products of a block are aligned without acc; then their sum and acc are, rounded
 *             down: AMD's CDNA3
 *   tree=B    the rounded products of B neighbours are added pairwise (p0+p1, p2+p3, ...), rounded
 *             to `acc` at every node, then to acc
 *   group=G   after every G products acc is added to an outer sum, rounded to `outer`, and starts
 *             from +0 again
 *   lanes=L   the products of a group go in turn to L accumulators, which are added at its end
 *   unroll=U  lanes take turns in whole steps of U products; those left at the end of a group go to
 *             the first lane, or (rest=after) are added behind the sum of the lanes
 *   halve=U   where more than one group is left and less than two, they are halves of what is left,
 *             the first rounded up to a multiple of U: OpenBLAS, oneDNN
 *   split=S   k is cut into S parts that are computed apart and added in order, rounded to `total`
 *   out       one more rounding of the result, before alpha, beta and the format of C
 * acc starts from +0; with start=c the outermost sum starts from C as it is.
 *
 * Source   Huang et al., LPGEMM, 2024; Fasi et al., PeerJ CS 7:e330; Khattak and Mikaitis,
 *          arXiv 2512.07004; Xie et al., arXiv 2511.10909; OCP Microscaling Formats 1.0. */
#ifndef LIMBER_UNIT_H
#define LIMBER_UNIT_H

#include "format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum limber_step_overflow {
    LIMBER_OVERFLOW_ROUNDED,      /* as the rounding says (IEEE 754) */
    LIMBER_OVERFLOW_INFINITY      /* infinity in every mode */
};

/* One rounding.  e <= 8 and m <= 23, or binary64 in a chain of FMAs. */
typedef struct limber_step {
    limber_format format;   /* KIND_NONE: the step does not exist */
    uint8_t rounding;       /* limber_rounding, LIMBER_ROUND_STOCHASTIC included */
    uint8_t overflow;       /* limber_step_overflow */
} limber_step;

enum limber_unit_order {
    LIMBER_ORDER_FORWARD,         /* k = 0, 1, 2, ... */
    LIMBER_ORDER_REVERSE,         /* the last k first */
    LIMBER_ORDER_EVENODD,         /* in every group: even k, then odd k */
    LIMBER_ORDER_QUADS,           /* in every group: k mod 4 in {0, 1}, then those in {2, 3} */
    LIMBER_ORDER_SWAPPED          /* k = 1, 0, 3, 2, ... */
};

enum limber_unit_scale {
    LIMBER_SCALE_NONE,
    LIMBER_SCALE_E8M0,            /* a power of two for each block of an operand along k */
    LIMBER_SCALE_UE4M3            /* an unsigned OCP e4m3 number */
};

enum limber_scale_rule {
    LIMBER_SCALE_RULE_FLOOR, /* 2^(floor(log2 largest) - emax of the element): OCP MX 1.0, 6.3 */
    LIMBER_SCALE_RULE_CEIL, /* the least power of two with which nothing saturates */
    /* as FLOOR, after the largest magnitude was rounded to the element's precision */
    LIMBER_SCALE_RULE_EVEN
}; /* ue4m3: largest / largest of the element, rounded to nearest even */

enum { LIMBER_NO_FLOOR = -10000 };

typedef struct limber_unit {
    size_t size;            /* from LIMBER_UNIT_INIT */
    limber_step a, b; /* operands */
    enum limber_unit_scale scale;
    enum limber_scale_rule scale_rule;
    int32_t scale_block; /* elements of a block */
    limber_step mul; /* NONE: products are exact */
    limber_step acc;
    int32_t block; /* products that are summed at once; 1: one by one */
    int32_t sub; /* neighbours whose products are summed exactly before alignment */
    int32_t frac; /* block > 1: fraction bits kept by the alignment */
    int32_t floor; /* least exponent of an alignment; LIMBER_NO_FLOOR */
    int32_t zeros; /* 1: zero products and a zero acc take part in the alignment */
    int32_t tree; /* 1: block is a tree of additions */
    enum limber_unit_order order;
    int32_t group; /* 0: no groups */
    limber_step outer;
    int32_t split; /* parts of k; 1 */
    limber_step total;
    int32_t start_c; /* 1: the outermost sum starts from C (alpha = beta = 1) */
    limber_step out; /* NONE: none */
    int32_t narrow; /* 1: acc may be narrower than mul */
    int32_t random_bits; /* random bits of stochastic rounding: 1 to 16 */
    uint64_t seed;
    uint64_t seeded; /* 1: a seed was given */
    int32_t late; /* block > 1: acc is added to the sum of the products, which keeps this many
                     fraction bits beside it; 0: acc is a term like the others */
    int32_t reach; /* with late: acc is dropped if its exponent is more than this much below the
                      largest; 0: never */
    int32_t
        halves; /* 1, with late: products at even and at odd places of a block are summed apart */
    int32_t lanes; /* products of a group go to this many accumulators in turn; 0: one */
    int32_t halve; /* the last two groups, if not full, are halves of what is left, of which the
                      first is a multiple of this; 0: only the last group is shorter */
    int32_t unroll; /* lanes take turns in whole steps of this many products; 0: of all products */
    int32_t rest_after; /* products after the last whole step: 1: added to the sum of the lanes;
                           0: to the first lane */
    int32_t join_halves; /* 1: lane i is added to lane i + lanes/2, and so on; 0: neighbours are */
} limber_unit;

/* The unit that a text describes.  BAD_ARGUMENT names the key that is unknown, out of range or in
 * contradiction with another; *unit is then all zero. */
LIMBER_API limber_status limber_unit_parse(const char *text, limber_unit *unit);
/* The canonical text of a unit, with every word that is not a default, at most size bytes with the
 * closing zero; returns text.  limber_unit_parse reads it back to the same unit.  "" of what
 * limber_unit_check refuses. */
LIMBER_API const char *limber_unit_text(const limber_unit *unit, char *text, size_t size);
/* Is the description whole and without contradiction?  limber_unit_parse asks this already. */
LIMBER_API limber_status limber_unit_check(const limber_unit *unit);

/* The i-th preset: its name, its words and where they are from; NULL past the end. */
typedef struct limber_unit_preset {
    const char *name, *words, *source;
} limber_unit_preset;
LIMBER_API const limber_unit_preset *limber_unit_preset_at(int i);

/* ---- what happened inside ------------------------------------------------------------------ */

enum { LIMBER_EXPONENTS = 320 }; /* bin e + 160 counts 2^e <= |x| < 2^(e+1); ends take the rest */

/* A structure that never changes, so it has no size field. */
typedef struct limber_distribution {
    int64_t count, zeros, special; /* special: NaN and infinities, which the rest leaves out */
    double mean, variance, least, largest;
    int64_t exponents[LIMBER_EXPONENTS];
} limber_distribution;

/* Counts are of additions and multiplications of the products themselves (m n k of them), except
 * outer_*.  A sum is swamped fully when a nonzero product leaves acc unchanged, partly when bits
 * of the product are lost; in a fused block, when its term is cut to zero or loses bits. */
typedef struct limber_statistics {
    size_t size; /* from LIMBER_STATISTICS_INIT */
    /* in */
    int compare; /* 1: also the fields behind `result`; needs a product in FP64 twice */
    int swamped_only; /* 1: of the kernel's counters only swamped and outer_swamped, which costs
                         least; the others stay 0 */
    /* out */
    int64_t products, nonzero; /* m n k; with both factors nonzero and finite */
    int64_t mul_inexact, mul_underflow, mul_overflow; /* underflow: a nonzero product became 0 */
    int64_t swamped, partly_swamped, sum_overflow;
    int64_t outer_sums, outer_swamped, outer_partly; /* additions of groups and of parts of k */
    limber_distribution a, b, result; /* operands as loaded; C as stored */
    double variance_wide; /* variance of the product of the same loaded operands, summed in FP64 */
    double retention; /* result.variance / variance_wide: the measured VRR */
    double predicted; /* by limber_unit_retention for this unit and k */
    double distance; /* mean |C - A B|, A and B as given: the mean Manhattan distance */
    double relative; /* sum |C - A B| / sum |A B| */
} limber_statistics;

#ifdef __cplusplus
}
#endif
#define LIMBER_UNIT_INIT LIMBER_SIZED(limber_unit)
#define LIMBER_STATISTICS_INIT LIMBER_SIZED(limber_statistics)

#endif
