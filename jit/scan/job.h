/* SPDX-License-Identifier: BSD-3-Clause
 * A scan that is running, and its parameters. */
#ifndef LIMBER_JIT_SCAN_JOB_H
#define LIMBER_JIT_SCAN_JOB_H

#include "jit/scan/measure.h"
#include "jit/scan/scan.h"

#include <stdatomic.h>

enum { RUN = LIMBER_TILE };
_Static_assert((int)RUN == (int)MEASURE_RUN, "runs are tiles");

/* Extremes of a run, a line or a tile; NONE_LOW and NONE_HIGH if it has no finite nonzero. */
struct extremes {
    int32_t emin, emax, lsb, sig;
    uint8_t special, negative;
};

static const struct extremes nothing = { NONE_LOW, NONE_HIGH, NONE_LOW, 0, 0, 0 };

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

struct job {
    const struct view *v;
    limber_format f;
    enum kind kind; /* format in which elements are measured */
    const struct small_float *small; /* NULL, or the format that is converted to binary32 first */
    struct measures measure;
    int64_t lines, length;
    enum scan_depth depth;
    struct extremes *line, *tile; /* line: [cut][line] */
    struct accumulator *lanes; /* [worker][measured_at_once] */
    struct mask *m;
    int64_t first, rows; /* in rows of tiles: begin of the next run, and size of a task */
    int64_t cuts, depth_of_cut; /* number of tasks that share lines, and elements of each */
    atomic_bool stop; /* a probe has seen enough: full-width data */
};

static inline bool is_stopped(struct job *j)
{
    return atomic_load_explicit(&j->stop, memory_order_relaxed);
}

/* Scans the lines and tiles of j->v into j->line: in scan.c. */
typedef bool scan_job(struct job *j, const struct runner *r);
/* pixels.c: scans lines that are windows, or channels of filters; `scan` reads each pixel once. */
bool limber_scan_pixels(struct job *j, const struct pixels *x, bool filters, scan_job *scan,
                        const struct runner *r);

#endif
