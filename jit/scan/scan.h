/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over an operand's data, which gives its mask. */
#ifndef LIMBER_JIT_SCAN_H
#define LIMBER_JIT_SCAN_H

#include "backends/backend.h"

enum scan_depth { SCAN_full, SCAN_probe };
enum { SCAN_narrow = 16 };

/* Fills *m from the lines x length elements seen through v.  SCAN_probe may stop early with
 * m->scanned = false as soon as the data is seen to need more than SCAN_narrow bits of width.  For
 * overlapping windows SCAN_full reads each pixel once, and tiles stay unknown.  r may be NULL (one
 * thread).  The caller clears the mask, also after a failure. */
bool limber_scan(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                 int64_t length, enum scan_depth depth, const struct runner *r, struct diag *d);

/* Estimates from a few elements of a few tiles: the shares of tiles that are zero, and that need at
 * most 16 bits (zero ones included); 0 to 1. */
struct sample {
    double zero, narrow;
};
struct sample limber_scan_sample(const struct view *v, limber_format f, int64_t lines,
                                 int64_t length);

/* Fills *m from a device's scan: found has a row of `all` numbers per enum scan_field, tiles
 * likewise one per tile.  tiles NULL: they stay unknown. */
bool limber_scan_found(struct mask *m, const int32_t *found, int64_t all, const int32_t *tiles,
                       int64_t lines, int64_t length, struct diag *d);
int64_t limber_scan_tiles(int64_t lines, int64_t length);
/* The mask of a patches matrix by limber_mask_level, from what a device found of all pixels:
 * numbers first to first + count - 1 of each row of found.  *level: false if its lines must be
 * scanned. */
bool limber_scan_found_level(struct mask *m, const int32_t *found, int64_t all, int64_t first,
                             int64_t count, int64_t lines, int64_t length, bool *level,
                             struct diag *d);

/* The mask of bytes that follows from their format, without a scan. */
bool limber_scan_bytes(struct mask *m, limber_format f, int64_t lines, int64_t length,
                       struct diag *d);

#endif
