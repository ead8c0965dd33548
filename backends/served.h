/* SPDX-License-Identifier: BSD-3-Clause
 * What a backend serves: operations, with the attributes that it reads, and of attributes that are
 * words, which.  It refuses everything else by name: it never reads one thing as another. */
#ifndef LIMBER_SERVED_H
#define LIMBER_SERVED_H

#include "ir/ir.h"

struct served {
    const char *backend;
    bool all_doubles; /* units in f64 that are no chains of FMAs */
    bool float_limbs; /* residues in f16 and e4m3, slices in e4m3 */
    struct {
        bool served;
        uint64_t attrs;
    } op[OP_count];
    uint64_t words[ATTR_count]; /* a bit a word */
};
#define LIMBER_SERVES(op, attrs) [OP_##op] = { true, attrs }
#define LIMBER_READS(name) (UINT64_C(1) << ATTR_##name)
#define LIMBER_WORD(constant) (UINT64_C(1) << (constant))

/* Does the backend serve the whole plan?  What all backends serve is in served.c, `more` is what
 * this one serves beside it. */
bool limber_plan_served(const struct plan *p, const struct served *more, struct diag *d);

#endif
