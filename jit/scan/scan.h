/* SPDX-License-Identifier: BSD-3-Clause
 * Scans an operand once, which gives its mask. */
#ifndef LIMBER_JIT_SCAN_H
#define LIMBER_JIT_SCAN_H

#include "backends/backend.h"

/* How thoroughly an operand is scanned.  SCAN_probe stops as soon as a line (row of A or column of
 * B) needs more than SCAN_narrow bits. */
enum scan_depth { SCAN_full, SCAN_probe };
enum { SCAN_narrow = 16 };

/* Fills the mask *m (a summary of exponents and special values) from lines x length elements that v
 * locates.  With SCAN_probe, a scan may stop early with m->scanned = false, as soon as a line is
 * seen to need more than SCAN_narrow bits.  For overlapping windows, SCAN_full reads each pixel
 * once, and tiles stay unknown.  The threads of r scan, or the calling thread if r is NULL. The
 * caller clears the mask, also after a failure. */
bool limber_scan(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                 int64_t length, enum scan_depth depth, const struct runner *r, struct diag *d);

/* Estimates from a few elements of a few tiles: the share (0 to 1) of tiles that are zero, and of
 * tiles that need at most SCAN_narrow bits, zero tiles included. */
struct sample {
    double zero, narrow;
};
struct sample limber_scan_sample(const struct view *v, limber_format f, int64_t lines,
                                 int64_t length);

/* Fills *m from the results of a device's scan. found: [enum scan_field][all], of which the first
 * `lines` entries of each row are used. tiles: [enum scan_field][tile]; NULL if tiles stay
 * unknown. */
bool limber_scan_found(struct mask *m, const int32_t *found, int64_t all, const int32_t *tiles,
                       int64_t lines, int64_t length, struct diag *d);
/* Returns the number of tiles, which have 64 x 64 elements, of an operand. */
int64_t limber_scan_tiles(int64_t lines, int64_t length);
/* Fills *m for an im2col matrix from the results of a device's scan of the images: results [first,
 * first + count) of each row of `found`.  All lines get the range of the complete images
 * (limber_mask_make_uniform).  *level: false if that is not possible, so that the lines must be
 * scanned. */
bool limber_scan_found_level(struct mask *m, const int32_t *found, int64_t all, int64_t first,
                             int64_t count, int64_t lines, int64_t length, bool *level,
                             struct diag *d);

/* Fills *m for 8-bit integers from their format, without a scan. */
bool limber_scan_bytes(struct mask *m, limber_format f, int64_t lines, int64_t length,
                       struct diag *d);

#endif
