/* SPDX-License-Identifier: BSD-3-Clause
 * limber formats: names, ranges, precision; and the schemes. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <popt.h>

/* Exponents of the largest finite and of the smallest positive value, significant bits. */
static void measures(limber_format f, int *sig, int *top, int *low)
{
    *low = 0;
    if (f.kind == LIMBER_KIND_FLOAT) {
        *sig = f.frac_bits + 1;
        *top = (1 << f.exp_bits) - 1 - f.bias -
               !(f.flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE));
        *low = 1 - f.bias - f.frac_bits;
    } else if (f.kind == LIMBER_KIND_DD) {
        *sig = 107;
        *top = 1023;
        *low = -1074;
    } else {
        *sig = 8 * f.size - (f.kind == LIMBER_KIND_INT);
        *top = *sig - 1;
    }
}

static void row(const char *name, cJSON *array)
{
    limber_format f = format_of(name);
    int sig, top, low;

    measures(f, &sig, &top, &low);
    if (array) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "name", name);
        cJSON_AddNumberToObject(j, "bytes", f.size);
        cJSON_AddNumberToObject(j, "significant_bits", sig);
        cJSON_AddNumberToObject(j, "largest_exponent", top);
        cJSON_AddNumberToObject(j, "smallest_exponent", low);
        cJSON_AddItemToArray(array, j);
        return;
    }
    printf("%-5s %5d %5d   2^%-6d  2^%-6d  ", name, f.size, sig, top + 1, low);
    if (f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_DD)
        printf("2^-%d", f.kind == LIMBER_KIND_DD ? 106 : sig);
    else
        printf("0");
    printf("\n");
}

int cmd_formats(int argc, const char **argv)
{
    int json = 0;
    bool ok;
    struct poptOption table[] = { { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = poptGetContext("limber", argc, argv, table, 0);
    cJSON *array = NULL;
    const limber_scheme *scheme;
    const char *name;

    ok = options_read(o, "[options]\n\nexample: limber formats --json");
    poptFreeContext(o);
    if (!ok)
        return 2;
    if (json)
        array = cJSON_CreateArray();
    else
        printf("name  bytes  bits   below      smallest   round-off u\n");
    for (int i = 0; (name = limber_format_at(i)); i++)
        row(name, array);
    if (json) {
        char *s = cJSON_Print(array);

        printf("%s\n", s ? s : "[]");
        cJSON_free(s);
        cJSON_Delete(array);
        return 0;
    }
    printf("(1,e,m)  any float with e exponent and m fraction bits, e <= 8 in a float, e <= 11 in "
           "a double\n\nschemes\n");
    for (int i = 0; (scheme = limber_scheme_at(i)); i++)
        printf("  %-12s  %s\n", scheme->name, scheme->about);
    return 0;
}
