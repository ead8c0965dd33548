/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the parts of `limber plan` share. */
#ifndef LIMBER_PLAN_H
#define LIMBER_PLAN_H

#include "tools/cli/cli.h"

enum { MOST_ATTEMPTS = 40 };

/* Predictions for a plan that its report does not have. */
struct outlook {
    struct attempt { /* a scheme that was tried */
        const char *name;
        double seconds; /* predicted, for 2^30 multiply-adds; infinite: refused */
        char why[240]; /* reason of the refusal; empty: it keeps the contract */
    } attempt[MOST_ATTEMPTS];
    int attempts;
    /* predicted seconds under the native contract; INFINITY: no native plan exists */
    double native;
    char native_scheme[32];
    size_t least, best; /* bytes of workspace */
};

/* Reads the attempts from the text of limber_plan. */
void outlook_read(struct outlook *o, const char *text);
/* r is the plan's report. */
void outlook_print(const struct product *p, const struct outlook *o, const limber_report *r);
void outlook_parts(const char *text);
void outlook_json(struct cJSON *j, const struct outlook *o, const limber_report *r);

#endif
