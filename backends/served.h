/* SPDX-License-Identifier: BSD-3-Clause
 * Tables of the operations, attributes and words of attributes that a backend supports.  A backend
 * refuses everything else by name, so that it never misreads a plan. */
#ifndef LIMBER_SERVED_H
#define LIMBER_SERVED_H

#include "ir/ir.h"

/* The operations, attributes and words of attributes that one backend supports. */
struct served {
    const char *backend;
    bool all_doubles; /* supports every simulated unit in binary64, not only chains of FMAs */
    bool float_limbs; /* supports residues in f16 and e4m3, and slices in e4m3 */
    struct {
        bool served;
        uint64_t attrs;
    } op[OP_count];
    uint64_t words[ATTR_count]; /* [attribute]: bit i is set if the attribute may have its word i */
};
#define LIMBER_SERVES(op, attrs) [OP_##op] = { true, attrs }
#define LIMBER_READS(name) (UINT64_C(1) << ATTR_##name)
#define LIMBER_WORD(constant) (UINT64_C(1) << (constant))

/* Checks that a backend supports all of a plan.  The operations are those of the table in served.c,
 * which is common to all backends, and those of the backend's own table `more`.  Returns false with
 * an error if not. */
bool limber_plan_served(const struct plan *p, const struct served *more, struct diag *d);

#endif
