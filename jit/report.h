/* SPDX-License-Identifier: BSD-3-Clause
 * The report of a call and the cut of a product, as the engine fills them: the public structures,
 * with space for all parts. jit/api/sized.c copies them to the caller's. */
#ifndef LIMBER_JIT_REPORT_H
#define LIMBER_JIT_REPORT_H

#include "backends/ways.h"
#include "limber/limber.h"

#include <stddef.h>
#include <string.h>

/* The engine's report of a call.  limber_report describes most fields. */
struct report {
    char scheme[32], backend[16], kernel[33];
    int rows, pruned;
    double bound, cost, seconds_scan, seconds_compile, seconds_run;
    limber_origin from;
    size_t workspace;
    int64_t recomputed;
    /* recomputed_seconds: summed over threads; recomputed_share: their share of the threads'
     * time, 0 to 1 */
    double recomputed_seconds, recomputed_share;
    int parts;
    int order;
    enum way_id way;
    limber_part part[LIMBER_PARTS]; /* the first `parts` elements are set */
};
/* Clears a report, except the array `part`, which takes kilobytes. */
static inline void limber_report_clear(struct report *r)
{
    memset(r, 0, offsetof(struct report, part));
}

/* Fills the report of a call that library code computes without a plan. */
static inline void limber_report_library(struct report *r, const char *backend, const char *scheme,
                                         double bound)
{
    limber_report_clear(r);
    r->rows = 1;
    r->from = LIMBER_FROM_LIBRARY;
    r->bound = bound;
    strcpy(r->scheme, scheme);
    memccpy(r->backend, backend, '\0', sizeof r->backend - 1);
}

/* Copies a report, with the parts that are set. */
static inline void limber_report_copy(struct report *to, const struct report *from)
{
    memcpy(to, from, offsetof(struct report, part) + (size_t)from->parts * sizeof *from->part);
}

/* How a product is divided: a limber_cut with room for all parts.  Its arrays are owned, and freed
 * by limber_cut_clear. */
struct cut {
    int parts;
    limber_part part[LIMBER_PARTS];
    double one_plan;
    int64_t blocks[2];
    unsigned char *group[2];
    int64_t tiles, tile;
    unsigned char *kind[2];
};
void limber_cut_clear(struct cut *cut);

#endif
