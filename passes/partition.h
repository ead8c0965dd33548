/* SPDX-License-Identifier: BSD-3-Clause
 * Partition of a product: lines (rows of A, columns of B) of different kinds, or tiles along k of
 * different kinds, are computed by plans of their own. */
#ifndef LIMBER_PARTITION_H
#define LIMBER_PARTITION_H

#include "ir/ir.h"
#include "ir/view.h"

/* largest number of groups of lines of an operand, and of parts of a product */
enum { PARTITION_GROUPS = 3, PARTITION_PARTS = 3 * PARTITION_GROUPS * PARTITION_GROUPS };
enum tile_class { CLASS_zero, CLASS_narrow, CLASS_wide, CLASS_beyond };

/* How one operand is cut: its blocks of lines into groups, and its tiles into classes. */
struct partition_side {
    const struct mask *mask;
    int groups;
    /* [group]: index in `block` of the group's first block; the entry after the last group is the
     * end */
    int64_t first[PARTITION_GROUPS + 1];
    /* owned; group g is block[first[g]] .. block[first[g + 1] - 1], in rising order */
    int32_t *block;
    uint8_t *tile; /* owned; enum tile_class, [block][tile] */
    int64_t tiles; /* number of tiles per block; each has 2^shift elements along k */
    int shift;
};

/* A part of a product: a group of A times a group of B.  If `adds`, the part's sums are added to
 * elements of C that an earlier part computed. */
struct partition_part {
    int group[2]; /* index of A's group, of B's group */
    uint32_t keep[2]; /* [A, B]: bit c is set if tiles of class c are multiplied; 0 for all tiles */
    bool adds;
    const char *scheme; /* scheme of the part's plan; NULL: the plan chooses one */
    int roundings; /* number of times that an element is rounded between parts, as in struct plan */
    double share; /* share of the product's multiply-adds */
    double seconds; /* predicted seconds */
};

/* A product divided into parts. */
struct partition {
    struct partition_side side[2];
    struct partition_part part[PARTITION_PARTS];
    int parts;
    /* predicted seconds of all parts together, and of one plan for all data */
    double seconds, whole;
};

/* What limber_partition_make needs to know. */
struct partition_input {
    /* what scans found in A and B, for each block of lines, and for each tile if that is known */
    const struct mask *mask[2];
    int64_t k;
    /* Tiles have 2^shift elements along k, at least LIMBER_TILE. Kernels can skip such tiles. */
    int shift;
    int grain[2]; /* [A, B]: number of neighbouring blocks that kernels skip together */
    bool sums; /* the result is a float that may be rounded after each part */
    /* The schemes that the caller names.  A single scheme is used for all tiles.  If several are
     * joined by +, as "A+B+C", the first is for the narrowest tiles, the next for wider ones,
     * and so on; then tiles are cut even if that is slower.  NULL: each plan chooses a scheme. */
    const char *scheme;
    /* Predicts the cost of a plan for data with these scan results (masks); out->product is
     * INFINITY if no plan is possible.  False on failure. */
    bool (*price)(void *user, const struct mask *a, const struct mask *b, const char *scheme,
                  int roundings, struct price *out, struct diag *d);
    void *user;
};

/* Partitions the product if that is predicted to pay; otherwise *p has one part.  False if memory
 * runs out, or a cost cannot be predicted. */
bool limber_partition_make(const struct partition_input *in, struct partition *p, struct diag *d);
void limber_partition_clear(struct partition *p);
/* Returns the tiles of one operand that a part multiplies.  The field `tile` of the result is NULL
 * if these are all tiles. */
struct tile_subset limber_partition_subset(const struct partition *p,
                                           const struct partition_part *part, int side);
/* Returns the number of blocks of lines of one operand that a part multiplies. */
int64_t limber_partition_blocks(const struct partition *p, const struct partition_part *part,
                                int side);

#endif
