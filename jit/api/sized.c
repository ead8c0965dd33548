/* SPDX-License-Identifier: BSD-3-Clause
 * Public structures that grow in later versions: copies between the size that a program was
 * compiled with and this library's size. */
#include "jit/api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Later versions only append fields, so these structures are not smaller than in version 0.2. */
_Static_assert(sizeof(limber_part) >= LEAST_part && sizeof(limber_report) >= LEAST_report &&
                   sizeof(limber_contract) >= LEAST_contract &&
                   sizeof(limber_problem) >= LEAST_problem && sizeof(limber_conv) >= LEAST_conv &&
                   sizeof(limber_batch) >= LEAST_batch && sizeof(limber_queue) >= LEAST_queue &&
                   sizeof(limber_config) >= LEAST_config && sizeof(limber_unit) >= LEAST_unit &&
                   sizeof(limber_statistics) >= LEAST_statistics &&
                   sizeof(limber_prepare_config) >= LEAST_prepare_config &&
                   sizeof(limber_inspection) >= LEAST_inspection &&
                   sizeof(limber_cut) >= LEAST_cut && sizeof(limber_tuning) >= LEAST_tuning &&
                   sizeof(limber_cache_info) >= LEAST_cache_info,
               "structures only grow");

/* a size field above this means that the structure was not initialised */
enum { MOST = 1 << 16 };

/* Reports a `size` field that no version of the structure has, and returns false. */
static bool refuse_size(const char *what, size_t size, struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s.size = %zu: start the structure from its LIMBER_..._INIT", what, size);
}

/* Copies a caller's structure, whose first field is its size and may be that of another version,
 * to a structure of `full` bytes. Fields that the caller lacks become 0; unknown ones must be 0. */
bool limber_copy_sized_in(void *to, size_t full, const void *from, size_t least, const char *what,
                          struct diag *d)
{
    size_t size;

    memcpy(&size, from, sizeof size);
    if (size < least || size > MOST) /* most likely not initialised */
        return refuse_size(what, size, d);
    memcpy(to, from, size < full ? size : full);
    if (size < full)
        memset((char *)to + size, 0, full - size);
    memcpy(to, &full, sizeof full);
    for (size_t i = full; i < size; i++)
        if (((const char *)from)[i])
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s has a field that version " LIMBER_VERSION
                               " of the library does not know",
                               what);
    return true;
}

/* Copies the caller's contract, and its unit if it has one, to *to and *unit.  Without a contract
 * *to has the default values. */
bool limber_contract_in(limber_contract *to, limber_unit *unit, const limber_contract *from,
                        struct diag *d)
{
    *to = (limber_contract)LIMBER_CONTRACT_INIT;
    if (from && !limber_copy_sized_in(to, sizeof *to, from, LEAST_contract, "contract", d))
        return false;
    if (!to->unit)
        return true;
    if (!limber_copy_sized_in(unit, sizeof *unit, to->unit, LEAST_unit, "contract.unit", d))
        return false;
    to->unit = unit;
    return true;
}

/* Checks the `size` field of a caller's structure.  least: bytes of its first version. */
bool limber_sized_check(const void *to, size_t least, const char *what, struct diag *d)
{
    size_t size;

    memcpy(&size, to, sizeof size);
    return size >= least || refuse_size(what, size, d);
}

/* Copies the library's structure to the caller's, except the field `size`.  full: bytes of the
 * library's structure. */
void limber_copy_sized_out(void *to, const void *from, size_t full)
{
    size_t size;

    memcpy(&size, to, sizeof size);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
           (size < full ? size : full) - sizeof size);
}

/* ---- checking and copying sized structures --------------------------------------------------- */

/* Checks the size of a limber_part, which the caller's initialiser stored. */
static bool check_parts(size_t size, const char *what, struct diag *d)
{
    return size >= LEAST_part ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s.part_size = %zu: start the structure from its LIMBER_..._INIT", what,
                       size);
}

/* Copies parts to the caller's array, whose structures have `size` bytes each. */
static void copy_parts(void *to, size_t size, const limber_part *from, int count)
{
    size_t each = size < sizeof *from ? size : sizeof *from;

    for (int i = 0; i < count; i++)
        memcpy((char *)to + (size_t)i * size, &from[i], each);
}

/* Checks the size fields of a report.  NULL is valid. */
bool limber_report_check(const limber_report *r, struct diag *d)
{
    if (!r)
        return true;
    if (!limber_sized_check(r, LEAST_report, "report", d))
        return false;
    if (r->part_room < 0 || (r->part_room > 0 && !r->part))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "report.part_room = %d, but %s",
                           r->part_room, r->part ? "no room is negative" : "report.part is NULL");
    return r->part_room == 0 || check_parts(r->part_size, "report", d);
}

/* Copies a report to the caller's structure: only the fields that this has (it may be of an older
 * version), and as many parts as fit the caller's array. */
void limber_report_out(limber_report *to, const struct report *from)
{
    limber_report r = {
        .rows = from->rows,
        .pruned = from->pruned,
        .bound = from->bound,
        .cost = from->cost,
        .seconds_scan = from->seconds_scan,
        .seconds_compile = from->seconds_compile,
        .seconds_run = from->seconds_run,
        .from = from->from,
        .workspace = from->workspace,
        .recomputed = from->recomputed,
        .recomputed_share = from->recomputed_share,
        .parts = from->parts,
        .part_room = to->part_room,
        .part_size = to->part_size,
        .part = to->part,
        .order = from->order,
    };

    memcpy(r.scheme, from->scheme, sizeof r.scheme);
    memcpy(r.backend, from->backend, sizeof r.backend);
    memcpy(r.kernel, from->kernel, sizeof r.kernel);
    strncpy(r.way, limber_way_name(from->way), sizeof r.way - 1);
    copy_parts(to->part, to->part_size, from->part,
               from->parts < to->part_room ? from->parts : to->part_room);
    limber_copy_sized_out(to, &r, sizeof r);
}

/* Checks the size fields of a cut. */
bool limber_cut_check(const limber_cut *cut, struct diag *d)
{
    return limber_sized_check(cut, LEAST_cut, "cut", d) && check_parts(cut->part_size, "cut", d);
}

/* Copies the description of a partition to the caller's structure, which takes over the lists of
 * `from`. */
bool limber_cut_out(limber_cut *to, struct cut *from, struct diag *d)
{
    limber_cut c = { .part_size = to->part_size, .parts = from->parts };

    if (from->parts) {
        c.part = malloc((size_t)from->parts * to->part_size);
        if (!c.part)
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the parts");
        memset(c.part, 0, (size_t)from->parts * to->part_size);
        copy_parts(c.part, to->part_size, from->part, from->parts);
    }
    c.one_plan = from->one_plan;
    c.tiles = from->tiles;
    c.tile = from->tile;
    for (int i = 0; i < 2; i++) {
        c.blocks[i] = from->blocks[i];
        c.group[i] = from->group[i];
        c.kind[i] = from->kind[i];
        from->group[i] = from->kind[i] = NULL;
    }
    limber_copy_sized_out(to, &c, sizeof c);
    return true;
}

/* Frees the arrays of a cut.  All of them are in version 0.2's structure; an array that a later
 * version adds may be freed only if the caller's structure is large enough to have it. */
void limber_cut_free(limber_cut *cut)
{
    limber_cut none = { 0 };

    if (!cut)
        return;
    free(cut->part);
    for (int i = 0; i < 2; i++) {
        free(cut->group[i]);
        free(cut->kind[i]);
    }
    none.part_size = cut->part_size;
    limber_copy_sized_out(cut, &none, sizeof none);
}
