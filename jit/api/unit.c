/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls on descriptions of units: ir/, and where their texts go. */
#include "jit/api/api.h"

#include "ir/unit/num.h"
#include "limber/research.h"

#include <stdio.h>
#include <string.h>

limber_status limber_unit_parse(const char *text, limber_unit *unit)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_check(unit, LEAST_unit, "unit", &d)) {
        limber_unit_read(text, &full, &d);
        limber_sized_out(unit, &full, sizeof full);
    }
    return limber_error_set(&d);
}

limber_status limber_unit_check(const limber_unit *unit)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_in(&full, sizeof full, unit, LEAST_unit, "unit", &d))
        limber_unit_verify(&full, &d);
    return limber_error_set(&d);
}

const char *limber_unit_text(const limber_unit *unit, char *text, size_t size)
{
    struct diag ignored = { 0 };
    struct text t = { 0 };
    limber_unit full;

    if (!size)
        return text;
    if (unit && limber_sized_in(&full, sizeof full, unit, LEAST_unit, "unit", &ignored) &&
        limber_unit_verify(&full, &ignored))
        limber_unit_print(&full, &t);
    snprintf(text, size, "%s", t.s ? t.s : "");
    limber_text_clear(&t);
    return text;
}

limber_status limber_unit_lpgemm(const char *text, const char *layer, limber_unit *unit,
                                 int *listed)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_check(unit, LEAST_unit, "unit", &d)) {
        limber_unit_lpgemm_read(text, layer, &full, listed, &d);
        limber_sized_out(unit, &full, sizeof full);
    }
    return limber_error_set(&d);
}

uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream, uint32_t index)
{
    return limber_unit_number(limber_unit_element(limber_unit_row(seed, i), j), stream, index);
}
