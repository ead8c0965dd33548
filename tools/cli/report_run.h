/* SPDX-License-Identifier: BSD-3-Clause
 * The sum of the reports of runs, which report_run.c makes and shows, and report_json.c prints. */
#ifndef LIMBER_REPORT_RUN_H
#define LIMBER_REPORT_RUN_H

#include "tools/cli/report.h"

enum { MOST_GROUPS = 400, MOST_ADVICE = 10, WORDS = 400 };

/* Sums over the calls of one routine and outcome, or of one shape. */
struct group {
    char routine[64], outcome[400], caller[100], contract[64];
    int64_t m, n, k;
    bool served;
    double rest; /* number of further shapes that this group sums, which the report does not list */
    double calls, seconds, original, compiling, elements, broken, ulps;
    /* calls with an estimate of the BLAS's time, `original`; their seconds without compiling */
    double rated_calls, rated;
    double products, swamped, partly, underflow, overflow; /* counts of a simulated unit */
};

/* The sums over the reports of a run. */
struct run_totals {
    /* sums over all groups: calls that Limber computed, and calls that it did not */
    struct group served, left;
    /* of the calls that Limber computed: those that were compared with exact values, and those that
     * were compared with the stated order of sums */
    struct group exact, ordered;
    struct group group[MOST_GROUPS];
    int groups;
    struct group *shape; /* one group for each entry of the reports; owned */
    /* for simulated units: sums over the entries of a routine and caller; owned */
    struct group *site;
    int shapes, sites, files, incomplete;
    char program[200], library[40], interpreted[300], compiler[300], loaded[200];
    /* contracts: those that were in effect for calls, joined by "and", or, if none was, `stated`;
     * stated: that of the settings, which rules may replace */
    char contracts[200], stated[200];
    double wall, unlisted, began, opening;
    char verdict[WORDS], advice[MOST_ADVICE][WORDS];
    int advices;
    /* [routine]: the sum of the routine's groups, with their outcomes as text */
    struct group routine[MOST_GROUPS];
    int routines;
};

#endif
