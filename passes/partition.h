/* SPDX-License-Identifier: BSD-3-Clause
 * One product as several: lines, or tiles along k, of unlike data go to plans of their own. */
#ifndef LIMBER_PARTITION_H
#define LIMBER_PARTITION_H

#include "ir/ir.h"
#include "ir/view.h"

enum { PARTITION_GROUPS = 3, PARTITION_PARTS = 3 * PARTITION_GROUPS * PARTITION_GROUPS };
enum tile_class { CLASS_zero, CLASS_narrow, CLASS_wide };

/* How one side is cut: its blocks of lines in groups, and tiles in classes. */
struct partition_side {
    const struct mask *mask;
    int groups;
    int64_t first[PARTITION_GROUPS + 1];
    int32_t *block; /* group g is block[first[g]] .. block[first[g + 1] - 1], in rising order */
    uint8_t *tile; /* enum tile_class, [block][tile] */
    int64_t tiles; /* of a block, of 2^shift elements each */
    int shift;
};

/* One group of A by one of B.  Parts that add are sums over other tiles of the same elements. */
struct partition_part {
    int group[2];
    uint32_t keep[2]; /* classes of tiles; 0: all, and no tile is left out */
    bool adds;
    const char *scheme; /* NULL: the plan's choice */
    int roundings; /* as in struct plan */
    double share; /* of all multiply-adds of the product */
    double seconds; /* predicted */
};

struct partition {
    struct partition_side side[2];
    struct partition_part part[PARTITION_PARTS];
    int parts;
    double seconds, whole; /* predicted: of all parts, and of one plan for all data */
};

struct partition_input {
    const struct mask *mask[2]; /* scanned, with blocks; with tiles where known */
    int64_t k;
    int shift; /* tiles along k have 2^shift elements, of which kernels leave out
                  what they can: at least LIMBER_TILE */
    int grain[2]; /* neighbouring blocks of A, of B, that they leave out together */
    bool sums; /* the result is a float that may be rounded part by part */
    const char *scheme[2]; /* of narrow and of wide tiles, which then are told apart whatever
                              it costs; or of all, NULL; NULL, NULL: the plans' choice */
    /* The price of a plan for data of these masks; product is INFINITY where there is none. */
    bool (*price)(void *user, const struct mask *a, const struct mask *b, const char *scheme,
                  int roundings, struct price *out, struct diag *d);
    void *user;
};

/* Cuts where that is predicted to pay; one part, if it nowhere does.  False: out of memory, or the
 * price failed. */
bool limber_partition_make(const struct partition_input *in, struct partition *p, struct diag *d);
void limber_partition_clear(struct partition *p);
/* What a part shows of a side; tile is NULL where it leaves out nothing. */
struct tile_subset limber_partition_subset(const struct partition *p,
                                           const struct partition_part *part, int side);
/* Blocks of a part's side. */
int64_t limber_partition_blocks(const struct partition *p, const struct partition_part *part,
                                int side);

#endif
