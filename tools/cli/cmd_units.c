/* SPDX-License-Identifier: BSD-3-Clause
 * limber units: lists the presets of simulated units, or expands a description. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <string.h>

static int print_json(cJSON *j)
{
    char *s = cJSON_Print(j);

    if (s)
        printf("%s\n", s);
    cJSON_Delete(j);
    if (!s)
        return complain("out of memory");
    cJSON_free(s);
    return 0;
}

/* Prints all presets of units with their descriptions and sources, as text or as JSON. */
static int list_units(bool json)
{
    const limber_unit_preset *u;
    cJSON *array = json ? cJSON_CreateArray() : NULL;
    int longest = 0;

    for (int i = 0; (u = limber_unit_preset_at(i)); i++)
        longest = (int)strlen(u->name) > longest ? (int)strlen(u->name) : longest;
    for (int i = 0; (u = limber_unit_preset_at(i)); i++) {
        cJSON *j;

        if (!json) {
            printf("%-*s  %s\n%*s  %s\n", longest, u->name, u->words, longest, "", u->source);
            continue;
        }
        j = cJSON_CreateObject();
        cJSON_AddStringToObject(j, "name", u->name);
        cJSON_AddStringToObject(j, "words", u->words);
        cJSON_AddStringToObject(j, "source", u->source);
        cJSON_AddItemToArray(array, j);
    }
    return json ? print_json(array) : 0;
}

/* Prints a unit's description in canonical form, as text or JSON. Returns the exit status. */
static int print_unit(const char *words, bool json)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    char text[UNIT_TEXT];
    cJSON *j;

    if (limber_unit_parse(words, &unit) != LIMBER_STATUS_OK)
        return complain("%s%s", limber_error_text(), words_near(word_kind_named("unit"), words));
    limber_unit_text(&unit, text, sizeof text);
    if (!json) {
        printf("%s\n", text);
        return 0;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "unit", text);
    return print_json(j);
}

/* The command `limber units`: lists the presets of simulated units, or explains a description. */
int cmd_units(int argc, const char **argv)
{
    int json = 0, status;
    bool ok;
    struct poptOption table[] = { { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    const char *words;

    ok = options_read(o, "[\"UNIT\"] [options]\n\n"
                         "example: limber units \"h100-e4m3 group=128 outer=f32\"");
    words = poptGetArg(o);
    if (!ok)
        status = 2;
    else if (words && poptPeekArg(o))
        status = complain("units takes one description, in quotes") + 1;
    else
        status = words ? print_unit(words, json) : list_units(json);
    poptFreeContext(o);
    return status;
}
