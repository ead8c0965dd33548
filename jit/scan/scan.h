/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over an operand's data: what the passes may know of it. */
#ifndef LIMBER_JIT_SCAN_H
#define LIMBER_JIT_SCAN_H

#include "backends/backend.h"

enum scan_depth { SCAN_full, SCAN_probe };
enum { SCAN_narrow = 16 };

/* Fills *m from the lines x length elements seen through v.  SCAN_probe may stop early with
 * m->scanned = false as soon as the data is seen to need more than SCAN_narrow bits of width.  Of
 * windows that overlap SCAN_full looks at each pixel once, and tiles stay unknown.  r may be NULL
 * (one thread).  The mask is the caller's to clear, also after a failure. */
bool limber_scan(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                 int64_t length, enum scan_depth depth, const struct runner *r, struct diag *d);

/* Of a few tiles here and there, a few elements each: shares that seem to be zero, and to need at
 * most 16 bits (zeros among them). */
struct sample {
    double zero, narrow;
};
struct sample limber_scan_sample(const struct view *v, limber_format f, int64_t lines,
                                 int64_t length);

/* The same from what a device found of every line of `all`, and of tiles, row by row: enum
 * scan_field, field after field.  tiles NULL: they stay unknown. */
bool limber_scan_found(struct mask *m, const int32_t *found, int64_t all, const int32_t *tiles,
                       int64_t lines, int64_t length, struct diag *d);
int64_t limber_scan_tiles(int64_t lines, int64_t length);

/* What is known of bytes without a scan. */
bool limber_scan_bytes(struct mask *m, limber_format f, int64_t lines, int64_t length,
                       struct diag *d);

#endif
