/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that simulate a unit: their checks and their statistics. */
#include "jit/engine.h"

#include "ir/unit/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* True if the unit adds integers. */
static bool is_integer(const limber_unit *u)
{
    return u->acc.format.kind == LIMBER_KIND_INT;
}

/* True if beta is 1 and alpha is absent, as units with start=c require. */
static bool starts_from_c(const struct problem *p)
{
    return p->beta && !limber_scalar(p->beta, p->fc, 1) && !p->alpha;
}

/* Checks that operands and C have the formats of an integer unit. */
static bool check_integer(const struct problem *p, struct diag *d)
{
    const limber_unit *u = p->contract.unit;

    if (!limber_format_equal(p->fa, u->a.format) || !limber_format_equal(p->fb, u->b.format))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.unit: operands of this unit are in "
                           "its own formats");
    return limber_format_equal(p->fc, u->acc.format) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.unit: C of this unit is i32");
}

/* Checks that a simulated unit can compute the problem. */
bool limber_simulate_check(const struct problem *p, struct diag *d)
{
    const limber_unit *u = p->contract.unit;

    if (is_integer(u))
        return check_integer(p, d);
    if (!u->start_c)
        return true;
    if (!starts_from_c(p))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.unit: start=c needs alpha = 1 and "
                           "beta = 1");
    return (p->fc.kind == LIMBER_KIND_FLOAT && limber_format_embeds(p->fc, LIMBER_F32)) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "contract.unit: start=c needs C in a format that "
                       "f32 holds");
}

/* Simulates an integer unit by the CPU's own arithmetic, whose integer results are exact, too. */
static bool run_integer(limber_context *ctx, const struct problem *p, struct report *report,
                        struct diag *d)
{
    struct problem q = *p;

    q.contract = (limber_contract){ .promise = LIMBER_CONTRACT_NATIVE, .scheme = "integer" };
    return limber_engine_run_plain(ctx, &q, report, d);
}

/* Runs a simulated unit.  Events are counted if the contract asks for statistics.  Integer units
 * round nothing, so no events are counted for them. */
static bool run_model(limber_context *ctx, const struct problem *p, struct report *report,
                      struct unit_counts *counts, struct diag *d)
{
    struct problem q = *p;

    if (is_integer(p->contract.unit))
        return run_integer(ctx, p, report, d);
    if (p->contract.statistics) {
        q.counts = counts;
        q.count = p->contract.statistics->swamped_only ? COUNT_swamped : COUNT_all;
    }
    return limber_engine_run_plain(ctx, &q, report, d);
}

/* Checks that all matrices are in host memory, where statistics are computed. */
static bool check_in_host_memory(const limber_context *ctx, const struct problem *p, struct diag *d)
{
    for (int64_t g = 0; g < p->groups; g++)
        if (limber_device_holds(ctx, limber_group_a(p, g).data) ||
            limber_device_holds(ctx, limber_group_b(p, g).data) ||
            limber_device_holds(ctx, limber_group_c(p, g).data))
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                               "contract.statistics: matrices in a device's "
                               "memory are not looked at");
    return true;
}

/* Runs the problem and computes the statistics.  If that fails, C is restored. */
static bool run_counted(limber_context *ctx, const struct problem *p, struct report *report,
                        struct diag *d)
{
    struct unit_counts counts = { 0 };
    struct backup keep;
    bool ok;

    if (!check_in_host_memory(ctx, p, d) || !limber_backup(ctx, p, &keep, d))
        return false;
    ok = run_model(ctx, p, report, &counts, d) &&
         limber_statistics_fill(ctx, p, &counts, p->contract.statistics, d);
    limber_backup_end(&keep, ok);
    return ok;
}

/* Runs a problem whose unit is simulated, and fills the statistics if the contract asks for them.
 */
bool limber_simulate_run(limber_context *ctx, const struct problem *p, struct report *report,
                         struct diag *d)
{
    return limber_simulate_check(p, d) &&
           (p->contract.statistics ? run_counted(ctx, p, report, d) :
                                     run_model(ctx, p, report, NULL, d));
}
