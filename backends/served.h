/* SPDX-License-Identifier: BSD-3-Clause
 * The table of what a backend serves: operations, the attributes that it reads, and the words of
 * those attributes.  It refuses everything else by name, so that it never misreads a plan. */
#ifndef LIMBER_SERVED_H
#define LIMBER_SERVED_H

#include "ir/ir.h"

/* Which operations, attributes and words of plans a backend serves. */
struct served {
    const char *backend;
    bool all_doubles; /* serves every unit in f64, not only chains of FMAs */
    bool float_limbs; /* serves residues in f16 and e4m3, and slices in e4m3 */
    struct {
        bool served;
        uint64_t attrs;
    } op[OP_count];
    uint64_t words[ATTR_count]; /* per attribute: bit i is set if word i is served */
};
#define LIMBER_SERVES(op, attrs) [OP_##op] = { true, attrs }
#define LIMBER_READS(name) (UINT64_C(1) << ATTR_##name)
#define LIMBER_WORD(constant) (UINT64_C(1) << (constant))

/* Checks that a backend serves the whole plan: by the common table in served.c or by `more`, its
 * own. */
bool limber_plan_served(const struct plan *p, const struct served *more, struct diag *d);

#endif
