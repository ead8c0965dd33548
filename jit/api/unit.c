/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls on descriptions of units.  ir/ and research/ do the work. */
#include "jit/api/api.h"

#include "ir/unit/num.h"
#include "research/research.h"

#include <stdio.h>
#include <string.h>

/* Copies a unit to the caller's structure, which may be of an older version.  False if the unit was
 * not read (`read`), or if the structure has no room for all words of the description. */
static bool copy_unit_out(limber_unit *unit, limber_unit *full, bool read, struct diag *d)
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
    limber_copy_sized_out(unit, full, sizeof *full);
    return read;
}

/* Parses the description of a simulated matrix unit into *unit. */
limber_status limber_unit_parse(const char *text, limber_unit *unit)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_check(unit, LEAST_unit, "unit", &d)) {
        bool read = limber_unit_read(text, &full, &d);

        copy_unit_out(unit, &full, read, &d);
    }
    return limber_error_set(&d);
}

/* Checks that a description is complete and without contradiction. limber_unit_parse makes the same
 * check. */
limber_status limber_unit_check(const limber_unit *unit)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_copy_sized_in(&full, sizeof full, unit, LEAST_unit, "unit", &d))
        limber_unit_verify(&full, &d);
    return limber_error_set(&d);
}

/* Writes a unit's description to `text`; an empty string if the unit is NULL or wrong. */
const char *limber_unit_text(const limber_unit *unit, char *text, size_t size)
{
    struct diag ignored = { 0 };
    struct text t = { 0 };
    limber_unit full;

    if (!size)
        return text;
    if (unit && limber_copy_sized_in(&full, sizeof full, unit, LEAST_unit, "unit", &ignored) &&
        limber_unit_verify(&full, &ignored))
        limber_unit_print(&full, &t);
    snprintf(text, size, "%s", t.s ? t.s : "");
    limber_text_clear(&t);
    return text;
}

/* Converts the description of a layer in LP-GEMM's form to a unit. */
limber_status limber_unit_lpgemm(const char *text, const char *layer, limber_unit *unit,
                                 int *listed)
{
    struct diag d = { 0 };
    limber_unit full;

    if (!unit)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "unit is NULL");
    else if (limber_sized_check(unit, LEAST_unit, "unit", &d)) {
        bool read = limber_unit_lpgemm_read(text, layer, &full, listed, &d);

        copy_unit_out(unit, &full, read, &d);
    }
    return limber_error_set(&d);
}

/* Returns random number `index` of stream `stream` for element (i, j), as a simulated unit draws
 * it. */
uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream, uint32_t index)
{
    return limber_unit_number(limber_unit_element(limber_unit_row_hash(seed, i), j), stream, index);
}

/* Checks the arguments, finds the order in which the caller's function sums, and prints that order
 * and the words of a unit that sums in this order. */
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

/* Finds the order in which the function `sum` adds k products.  *tree: that order.  *unit: a unit
 * that adds so, or NULL. */
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
        /* there is no unit for some orders; then limber_unit_read refuses the words */
        if (unit && words.s && limber_unit_read(words.s, &full, &refused)) {
            *unit = words.s;
            words.s = NULL;
        }
    }
    limber_text_clear(&order);
    limber_text_clear(&words);
    return limber_error_set(&d);
}
