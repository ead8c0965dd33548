/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls on descriptions of units; ir/ and research/ do the work. */
#include "jit/api/api.h"

#include "ir/unit/num.h"
#include "research/research.h"

#include <stdio.h>
#include <string.h>

/* Copies a unit to the caller's, perhaps older structure; fails if that would lose a word. */
static bool unit_out(limber_unit *unit, limber_unit *full, bool read, struct diag *d)
{
    static const limber_unit none;
    size_t size = unit->size < sizeof *full ? unit->size : sizeof *full;

    if (read && memcmp((char *)full + size, (const char *)&none + size, sizeof *full - size)) {
        read = limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "unit.size = %zu: a limber_unit of this size has no room for all words "
                           "of the description; build the program with this library's headers",
                           unit->size);
        *full = none;
    }
    limber_sized_out(unit, full, sizeof *full);
    return read;
}

limber_status limber_unit_parse(const char *text, limber_unit *unit)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_check(unit, LEAST_unit, "unit", &d)) {
        bool read = limber_unit_read(text, &full, &d);

        unit_out(unit, &full, read, &d);
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
        bool read = limber_unit_lpgemm_read(text, layer, &full, listed, &d);

        unit_out(unit, &full, read, &d);
    }
    return limber_error_set(&d);
}

uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream, uint32_t index)
{
    return limber_unit_number(limber_unit_element(limber_unit_row(seed, i), j), stream, index);
}

/* Finds the order of a caller's sum, and prints it and the unit's words. */
static bool run_reveal(const struct revealed_sum *s, struct text *tree, struct text *words,
                       struct diag *d)
{
    if (!s->call)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "sum is NULL");
    if (s->k < 2 || s->k > 65536)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "k = %lld: from 2 to 65536",
                           (long long)s->k);
    if (!limber_format_check("operand", s->operand, d) ||
        !limber_format_check("result", s->result, d))
        return false;
    if (s->operand.kind != LIMBER_KIND_FLOAT || !limber_format_embeds(s->operand, LIMBER_F64))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "operand: no format of floats of at most binary64");
    if (s->result.kind != LIMBER_KIND_FLOAT || !limber_format_embeds(s->result, LIMBER_F64))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "result: no format of floats of at most binary64");
    return limber_reveal_order(s, tree, words, d);
}

limber_status limber_reveal(limber_reveal_fn *sum, void *user, int64_t k, limber_format operand,
                            limber_format result, char **tree, char **unit)
{
    const struct revealed_sum s = { sum, user, k, operand, result };
    struct text order = { 0 }, words = { 0 };
    struct diag d = { 0 }, refused = { 0 };
    limber_unit full;

    if (unit)
        *unit = NULL;
    if (!tree) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "tree is NULL");
        return limber_error_set(&d);
    }
    *tree = NULL;
    if (run_reveal(&s, &order, &words, &d)) {
        *tree = order.s;
        order.s = NULL;
        /* some orders that can be described have no unit */
        if (unit && words.s && limber_unit_read(words.s, &full, &refused)) {
            *unit = words.s;
            words.s = NULL;
        }
    }
    limber_text_clear(&order);
    limber_text_clear(&words);
    return limber_error_set(&d);
}
