/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the parts of `limber plan` share. */
#ifndef LIMBER_PLAN_H
#define LIMBER_PLAN_H

#include "tools/cli/cli.h"

enum { MOST_ATTEMPTS = 40 };

/* Predictions about a plan that are not in its report. */
struct outlook {
    struct attempt { /* a scheme that the passes tried */
        const char *name;
        /* predicted seconds for 2^30 multiply-adds; infinite if the scheme was refused */
        double seconds;
        char why[240]; /* why the scheme was refused; "" if it keeps the contract */
    } attempt[MOST_ATTEMPTS];
    int attempts;
    /* predicted seconds under `native`; INFINITY if `native` has no plan */
    double native;
    char native_scheme[32];
    size_t least, best; /* bytes of workspace: the least that suffices; enough for the best speed */
};

/* Reads the attempts from the text that limber_plan gives. */
void outlook_read(struct outlook *o, const char *text);
/* Prints a plan's summary.  r: the plan's report. */
void outlook_print(const struct cli_product *p, const struct outlook *o, const limber_report *r);
void outlook_parts(const char *text);
void outlook_json(struct cJSON *j, const struct outlook *o, const limber_report *r);

#endif
