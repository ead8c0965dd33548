/* SPDX-License-Identifier: BSD-3-Clause
 * Low-precision units as data: a description of what a unit computes, bit for bit
 * (LIMBER_CONTRACT_SIMULATE).
 *
 * A description is plain data.  Its text form (docs/simulation.md) is a list of words "key=value",
 * with at most one preset's name in front:
 *
 *     in=e5m2 mul=e5m2:rn acc=e5m2:rn group=16 outer=f32:rn
 *     h100-e4m3 group=128 outer=f32
 *
 * For one element of the result, with k products in the unit's order, the words mean:
 *   loading   every element of an operand is rounded to `a` or `b` (with block scales: a block is
 *             scaled and rounded)
 *   block=1   p = round_mul(a b), or a b itself if there is no mul; acc = round_acc(acc + p): every
 *             multiplication and every addition is rounded, or both at once (FMA)
 *   block=B   the exact products of B neighbours and acc are aligned to the largest exponent among
 *             them, truncated to `frac` bits below it, summed exactly, and rounded to `acc`
 *   late=L    the products of a block are aligned without acc; then their sum and acc are aligned,
 *             and rounded down: AMD's CDNA3
 *   tree=B    the rounded products of B neighbours are added pairwise (p0+p1, p2+p3, ...), rounded
 *             to `acc` at every node, then added to acc
 *   group=G   after every G products acc is added to an outer sum, rounded to `outer`, and starts
 *             from +0 again
 *   lanes=L   the products of a group go in turn to L accumulators, which are added at its end
 *   unroll=U  lanes take turns only in complete steps of U products; products that are left at the
 *             end of a group go to the first lane, or (rest=after) are added to the sum of lanes
 *   halve=U   if more than one group and less than two are left, they are two halves of what is
 *             left, the first rounded up to a multiple of U: OpenBLAS, oneDNN
 *   split=S   k is divided into S parts, which are computed separately and added in order, rounded
 *             to `total`
 *   tile=T    parts of k consist of whole tiles of T neighbouring products: of a run of tiles or,
 *             with deal=turns, of the tiles whose number mod S is that of the part
 *   merge     pairs: the last part comes first; to each part of the first half its counterpart in
 *             the second half is added, and the sum to the total
 *   out       one more rounding of the result, before alpha, beta and the format of C
 *   epilogue  alpha x + beta c is rounded to this, and then to the format of C
 * acc starts from +0.  With start=c the outermost sum starts from C as it is.
 *
 * Source   Huang et al., LPGEMM, 2024; Fasi et al., PeerJ CS 7:e330; Khattak and Mikaitis,
 *          arXiv 2512.07004; Xie et al., arXiv 2511.10909; OCP Microscaling Formats 1.0. */
#ifndef LIMBER_UNIT_H
#define LIMBER_UNIT_H

#include "format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rounding gives on overflow. */
enum limber_step_overflow {
    LIMBER_OVERFLOW_ROUNDED, /* what the rounding mode gives (IEEE 754) */
    LIMBER_OVERFLOW_INFINITY /* infinity in every rounding mode */
};

/* One rounding, to a float of at most 8 exponent bits and 23 fraction bits, or to binary64 in a
 * chain of FMAs. */
typedef struct limber_step {
    limber_format format; /* KIND_NONE: there is no such step */
    uint8_t rounding; /* limber_rounding, LIMBER_ROUND_STOCHASTIC included */
    uint8_t overflow;       /* limber_step_overflow */
} limber_step;

/* The order in which products are summed. */
enum limber_unit_order {
    LIMBER_ORDER_FORWARD,         /* k = 0, 1, 2, ... */
    LIMBER_ORDER_REVERSE,         /* the last k first */
    LIMBER_ORDER_EVENODD, /* in every group: even k, then odd k */
    LIMBER_ORDER_QUADS, /* in every group: k mod 4 in {0, 1}, then k mod 4 in {2, 3} */
    LIMBER_ORDER_SWAPPED          /* k = 1, 0, 3, 2, ... */
};

/* Scales of blocks of operands. */
enum limber_unit_scale {
    LIMBER_SCALE_NONE,
    LIMBER_SCALE_E8M0, /* a power of two for each block of an operand along k */
    LIMBER_SCALE_UE4M3 /* an unsigned OCP e4m3 number for each block of an operand along k */
};

/* Rules by which an E8M0 scale follows from the largest magnitude of a block.  Scales in UE4M3 have
 * no rule: they are the largest magnitude divided by the largest number of the element format,
 * rounded to nearest even. */
enum limber_scale_rule {
    /* 2^(floor(log2 largest) - emax of the element format): OCP MX 1.0, 6.3 */
    LIMBER_SCALE_RULE_FLOOR,
    LIMBER_SCALE_RULE_CEIL, /* the smallest power of two with which no element saturates */
    /* like FLOOR, after the largest magnitude was rounded to the element's precision */
    LIMBER_SCALE_RULE_EVEN
};

/* value of limber_unit.floor if the exponents to which terms are aligned have no lower limit */
enum { LIMBER_NO_FLOOR = -10000 };

/* A simulated unit. */
typedef struct limber_unit {
    size_t size; /* from LIMBER_UNIT_INIT */
    limber_step a, b; /* rounding of the operands when they are loaded */
    enum limber_unit_scale scale;
    enum limber_scale_rule scale_rule;
    int32_t scale_block; /* elements of a block along k */
    limber_step mul; /* KIND_NONE: products are exact */
    limber_step acc;
    int32_t block; /* number of products that are summed at once; 1: one by one */
    int32_t sub; /* number of neighbours whose products are summed exactly before the alignment */
    int32_t frac; /* block > 1: fraction bits that the alignment keeps */
    int32_t floor; /* smallest exponent of an alignment; or LIMBER_NO_FLOOR */
    int32_t zeros; /* 1: zero products and a zero acc take part in the alignment */
    int32_t tree; /* 1: a block is summed by a tree of additions */
    enum limber_unit_order order;
    int32_t group; /* number of products of a group; 0: no groups */
    limber_step outer;
    int32_t split; /* number of parts of k; 1: not divided */
    limber_step total;
    int32_t start_c; /* 1: the outermost sum starts from C (alpha = beta = 1) */
    limber_step out; /* KIND_NONE: no such rounding */
    int32_t narrow; /* 1: acc may have less precision than mul */
    int32_t random_bits; /* number of random bits of stochastic rounding: 1 to 16 */
    uint64_t seed;
    uint64_t seeded; /* 1: a seed was given */
    /* block > 1: the products are first summed without acc, and this many fraction bits are kept
     * when acc is added to their sum; 0: acc is aligned together with the products */
    int32_t late;
    /* Used with `late` only: acc is dropped if its exponent is more than this much below the
     * largest one; 0: never dropped. */
    int32_t reach;
    /* used with `late` only; 1: products at even and at odd positions of a block are summed
     * separately */
    int32_t halves;
    /* number of accumulators to which the products of a group are added in turn; 0: one
     * accumulator */
    int32_t lanes;
    /* If the last two groups are not full, the remaining products are divided into two halves, of
     * which the first is rounded up to a multiple of this number; 0: only the last group is
     * shorter. */
    int32_t halve;
    /* lanes take turns only in complete steps of this many products; 0: product by product */
    int32_t unroll;
    /* where products after the last complete step are added: 1: to the sum of the lanes; 0: to the
     * first lane */
    int32_t rest_after;
    /* how the lanes' sums are joined: 1: lane i + lanes/2 is added to lane i, and so on; 0:
     * neighbouring lanes are added */
    int32_t join_halves;
    limber_step epilogue; /* KIND_NONE: alpha x + beta c is rounded to the format of C only */
    int32_t tile; /* number of products of a tile, of which parts of k consist; 0: groups, blocks */
    int32_t deal_turns; /* 1: tiles belong to the parts in turn; 0: a part is a run of tiles */
    int32_t merge_pairs; /* 1: parts are added in pairs; 0: one after another */
} limber_unit;

/* Reads the unit that a text describes.  BAD_ARGUMENT names the key that is unknown, out of range
 * or contradicts another key; *unit is then all zero. */
LIMBER_API limber_status limber_unit_parse(const char *text, limber_unit *unit);
/* Writes the canonical text of a unit, with every word that is not a default: at most size bytes
 * with the closing zero.  Returns text. limber_unit_parse reads that text back to the same unit.
 * The text is "" for a unit that limber_unit_check refuses. */
LIMBER_API const char *limber_unit_text(const limber_unit *unit, char *text, size_t size);
/* Checks that a description is complete and without contradiction. limber_unit_parse makes the same
 * check. */
LIMBER_API limber_status limber_unit_check(const limber_unit *unit);

/* A preset: its name, its words and its source. */
typedef struct limber_unit_preset {
    const char *name, *words, *source;
} limber_unit_preset;
LIMBER_API const limber_unit_preset *limber_unit_preset_at(int i);

/* ---- what happened inside ------------------------------------------------------------------ */

/* Bin e + 160 counts numbers with 2^e <= |x| < 2^(e+1).  The first and last bins also count smaller
 * and larger numbers. */
enum { LIMBER_EXPONENTS = 320 };

/* A distribution of numbers.  The structure never changes, so it has no size field. */
typedef struct limber_distribution {
    /* special: NaN and infinities, which the other fields leave out */
    int64_t count, zeros, special;
    double mean, variance, least, largest;
    int64_t exponents[LIMBER_EXPONENTS];
} limber_distribution;

/* What happened inside a simulated product.  Counts are of multiplications and additions of the
 * products themselves (m n k of them), except outer_*.  A product is swamped if adding it leaves
 * acc unchanged although it is not zero, and partly swamped if some of its bits are lost; in a
 * fused block, if its term is truncated to zero or loses bits. */
typedef struct limber_statistics {
    size_t size; /* from LIMBER_STATISTICS_INIT */
    /* set by the caller */
    /* 1: also computes the fields after `result`, for which the product is computed twice more in
     * FP64 */
    int compare;
    /* 1: the kernel counts only swamped and outer_swamped, which costs least; its other counters
     * are 0 */
    int swamped_only;
    /* set by the call */
    /* m n k, and the number of products whose factors are both nonzero and finite */
    int64_t products, nonzero;
    int64_t mul_inexact, mul_underflow, mul_overflow; /* underflow: a nonzero product became 0 */
    int64_t swamped, partly_swamped, sum_overflow;
    /* additions of sums of groups and of parts of k: all of them, swamped ones, partly swamped
     * ones */
    int64_t outer_sums, outer_swamped, outer_partly;
    limber_distribution a, b, result; /* operands as loaded; C as stored */
    /* variance of the elements of the product of the loaded operands, summed in FP64 */
    double variance_wide;
    double retention; /* result.variance / variance_wide, the measured variance retention ratio */
    double predicted; /* limber_unit_retention for this unit and k */
    double distance; /* mean |C - A B| with A and B as given, the mean Manhattan distance */
    double relative; /* sum |C - A B| / sum |A B| */
} limber_statistics;

#ifdef __cplusplus
}
#endif
#define LIMBER_UNIT_INIT LIMBER_SIZED(limber_unit)
#define LIMBER_STATISTICS_INIT LIMBER_SIZED(limber_statistics)

#endif
