/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the parts of a mixed product, as JSON and as the table that the library prints. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>

static const char *const sides[] = { "a", "b" };

/* Adds the names of a set of kinds of tiles (bit i: kind i). */
static void kinds_json(cJSON *j, unsigned kinds)
{
    static const char *const name[] = { "zero", "narrow", "wide", "beyond" };
    cJSON *list = cJSON_AddArrayToObject(j, "tiles");

    for (int c = 0; c <= LIMBER_TILE_BEYOND; c++)
        if (kinds >> c & 1)
            cJSON_AddItemToArray(list, cJSON_CreateString(name[c]));
}

limber_report parts_report(limber_part part[LIMBER_PARTS])
{
    limber_report r = LIMBER_REPORT_INIT;

    r.part = part;
    r.part_room = LIMBER_PARTS;
    return r;
}

void parts_print(const limber_report *r)
{
    char *text;

    if (limber_report_parts(r, &text) == LIMBER_STATUS_OK)
        fputs(text, stdout);
    limber_free(text);
}

/* Returns the parts of a mixed product as a JSON array.  measured: with the seconds that each
 * took. */
cJSON *parts_json(const limber_report *r, bool measured)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < r->parts; i++) {
        const limber_part *p = &r->part[i];
        cJSON *j = cJSON_CreateObject();

        for (int side = 0; side < 2; side++) {
            cJSON *s = cJSON_AddObjectToObject(j, sides[side]);

            cJSON_AddNumberToObject(s, "group", p->group[side]);
            if (p->kinds[side])
                kinds_json(s, p->kinds[side]);
        }
        cJSON_AddNumberToObject(j, "m", (double)p->m);
        cJSON_AddNumberToObject(j, "n", (double)p->n);
        cJSON_AddNumberToObject(j, "share", p->share);
        cJSON_AddStringToObject(j, "scheme", p->scheme);
        cJSON_AddNumberToObject(j, "products_kept", p->rows);
        json_number(j, "seconds_predicted", p->cost);
        if (measured)
            cJSON_AddNumberToObject(j, "seconds", p->seconds);
        json_number(j, "bound", p->bound);
        cJSON_AddItemToArray(list, j);
    }
    return list;
}

/* Adds how a product is divided into parts (predicted seconds without parts, the groups of A and B)
 * to a JSON object. */
void cut_json(cJSON *j, const limber_cut *cut)
{
    cJSON *groups;

    if (!cut->parts)
        return;
    json_number(j, "seconds_predicted_whole", cut->one_plan);
    groups = cJSON_AddObjectToObject(j, "groups");
    for (int side = 0; side < 2; side++) {
        cJSON *list = cJSON_AddArrayToObject(groups, sides[side]);

        for (int64_t i = 0; i < cut->blocks[side]; i++)
            cJSON_AddItemToArray(list, cJSON_CreateNumber(cut->group[side][i]));
    }
}
