/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber plan`. */
#ifndef LIMBER_PLAN_H
#define LIMBER_PLAN_H

#include "tools/cli/cli.h"

enum { MOST_ATTEMPTS = 40 };

/* What there is to say of a plan beside its report. */
struct outlook {
    struct attempt { /* a scheme that was tried */
        const char *name;
        double seconds; /* of 2^30 multiply-adds; infinite: it was refused */
        char why[240]; /* "": it keeps the contract */
    } attempt[MOST_ATTEMPTS];
    int attempts;
    double native; /* predicted seconds under the native contract; INFINITY: none holds it */
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
