/* SPDX-License-Identifier: BSD-3-Clause
 * Partition of one product: lines, or tiles along k, of different kinds get plans of their own. */
#ifndef LIMBER_PARTITION_H
#define LIMBER_PARTITION_H

#include "ir/ir.h"
#include "ir/view.h"

enum { PARTITION_GROUPS = 3, PARTITION_PARTS = 3 * PARTITION_GROUPS * PARTITION_GROUPS };
enum tile_class { CLASS_zero, CLASS_narrow, CLASS_wide };

/* How one side is cut: its blocks of lines into groups, its tiles into classes. */
struct partition_side {
    const struct mask *mask;
    int groups;
    int64_t first[PARTITION_GROUPS + 1];
    int32_t *block; /* group g is block[first[g]] .. block[first[g + 1] - 1], in rising order */
    uint8_t *tile; /* enum tile_class, [block][tile] */
    int64_t tiles; /* per block, each of 2^shift elements along k */
    int shift;
};

/* A group of A times a group of B.  A part with `adds` sums further tiles onto the same
 * elements. */
struct partition_part {
    int group[2];
    uint32_t keep[2]; /* bit c: tiles of class c are multiplied; 0: all tiles */
    bool adds;
    const char *scheme; /* NULL: the plan's choice */
    int roundings; /* roundings of an element, as in struct plan */
    double share; /* share of the product's multiply-adds */
    double seconds; /* predicted */
};

/* A product divided into parts. */
struct partition {
    struct partition_side side[2];
    struct partition_part part[PARTITION_PARTS];
    int parts;
    double seconds, whole; /* predicted: of all parts, and of one plan for all data */
};

struct partition_input {
    const struct mask *mask[2]; /* scanned, with blocks; with tiles if they are known */
    int64_t k;
    int shift; /* tiles along k have 2^shift elements, the granularity at which kernels leave them
                  out: at least LIMBER_TILE */
    int grain[2]; /* number of neighbouring blocks of A, of B, that are left out together */
    bool sums; /* the result is a float that may be rounded part by part */
    const char *scheme[2]; /* [0] for narrow, [1] for wide tiles: then tiles are cut whatever it
                              costs; or [0] for all, NULL; NULL, NULL: the plans choose */
    /* The price of a plan for data of these masks; product is INFINITY if no plan exists. */
    bool (*price)(void *user, const struct mask *a, const struct mask *b, const char *scheme,
                  int roundings, struct price *out, struct diag *d);
    void *user;
};

/* Partitions the product where that is predicted to pay; else it has one part.  False: out of
 * memory, or the price failed. */
bool limber_partition_make(const struct partition_input *in, struct partition *p, struct diag *d);
void limber_partition_clear(struct partition *p);
/* The tiles of a side that a part multiplies; tile is NULL if it leaves out none. */
struct tile_subset limber_partition_subset(const struct partition *p,
                                           const struct partition_part *part, int side);
/* The number of blocks of a part's side. */
int64_t limber_partition_blocks(const struct partition *p, const struct partition_part *part,
                                int side);

#endif
