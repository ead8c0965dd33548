/* SPDX-License-Identifier: BSD-3-Clause
 * State of a scan that is running. */
#ifndef LIMBER_JIT_SCAN_HOST_SCAN_H
#define LIMBER_JIT_SCAN_HOST_SCAN_H

#include "jit/scan/measure.h"
#include "jit/scan/scan.h"

#include <stdatomic.h>

enum { RUN = LIMBER_TILE };
_Static_assert((int)RUN == (int)MEASURE_RUN, "runs are tiles");

/* Extremes of exponents and bits in a run of elements, a line (row of A or column of B) or a
 * tile.  If there is no finite nonzero element, emin and lsb are NONE_LOW and emax is NONE_HIGH.
 * lsb: exponent of the lowest set bit. sig: largest number of significant bits of an element. */
struct extremes {
    int32_t emin, emax, lsb, sig;
    uint8_t special, negative;
};

/* The extremes of no elements. */
static const struct extremes nothing = { NONE_LOW, NONE_HIGH, NONE_LOW, 0, 0, 0 };

/* Merges the extremes of two sets of elements. */
static inline void join_extremes(struct extremes *a, const struct extremes *b)
{
    a->emin = b->emin < a->emin ? b->emin : a->emin;
    a->emax = b->emax > a->emax ? b->emax : a->emax;
    a->lsb = b->lsb < a->lsb ? b->lsb : a->lsb;
    a->sig = b->sig > a->sig ? b->sig : a->sig;
    a->special |= b->special;
    a->negative |= b->negative;
}

/* The functions that measure elements, for one instruction set. */
struct measures {
    measure_start *start;
    measure_end *end;
    measure_along *along;
    measure_across *across;
    measure_widen *widen;
};

/* A scan while its tasks run. */
struct host_scan {
    const struct view *v;
    limber_format f;
    enum kind kind; /* kind of elements that are measured */
    /* the elements' format if they are converted to binary32 before they are measured; else NULL */
    const struct small_float *small;
    struct measures measure;
    int64_t lines, length;
    enum scan_depth depth;
    struct extremes *line, *tile; /* extremes of lines, [section][line], and of tiles */
    /* [worker][measured_at_once]: scratch, one accumulator for each of eight lanes */
    struct accumulator *lanes;
    struct mask *m;
    /* counted in rows of tiles: the row at which the scan continues, and the size of a task */
    int64_t first, rows;
    /* number of tasks that share lines, and elements of a line that each of them scans */
    int64_t sections, section_length;
    atomic_bool stop; /* a probe has found that the operand needs too many bits */
};

/* True if the scan need not go on. */
static inline bool is_stopped(struct host_scan *j)
{
    return atomic_load_explicit(&j->stop, memory_order_relaxed);
}

/* Scans the lines and tiles of j->v and stores the lines' extremes (of exponents and bits) in
 * j->line.  False if memory runs out. */
typedef bool scan_fn(struct host_scan *j, const struct runner *r);
/* pixels.c: scans lines that are windows of an image or, if `filters` is set, channels of filters.
 * Measures each pixel only once, by `scan`.  Returns false if memory runs out. */
bool limber_scan_pixels(struct host_scan *j, const struct pixels *x, bool filters, scan_fn *scan,
                        const struct runner *r);

#endif
