/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the index of products that LIMBER_CAPTURE stored. */
#define _GNU_SOURCE     /* asprintf, getline */
#include "tools/cli/explore.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void captured_clear(struct captured *list, int n)
{
    for (int i = 0; i < n; i++) {
        free(list[i].a);
        free(list[i].b);
    }
    free(list);
}

/* Returns the path of the file that a member of an index line names.  NULL if it names no file
 * in the folder. */
static char *captured_path(const char *folder, const cJSON *line, const char *member)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(line, member));
    char *path;

    return name && *name && !strchr(name, '/') && asprintf(&path, "%s/%s", folder, name) >= 0 ?
               path :
               NULL;
}

/* Reads a line of the index.  Returns false if it is malformed.  *left_out: true if the product is
 * complex. */
static bool read_line(const char *folder, const char *text, struct captured *to, bool *left_out)
{
    cJSON *line = cJSON_Parse(text);

    *left_out = cJSON_IsTrue(cJSON_GetObjectItem(line, "complex"));
    *to = (struct captured){ captured_path(folder, line, "a"), captured_path(folder, line, "b") };
    cJSON_Delete(line);
    return to->a && to->b;
}

/* Reads the index of a folder of captured products, line by line.  On failure prints a message and
 * returns false. */
bool captured_read(const char *folder, struct captured **list, int *n, int *left_out)
{
    char *path = NULL, *text = NULL;
    size_t room = 0, most = 0;
    FILE *f;
    bool ok;

    *list = NULL;
    *n = *left_out = 0;
    if (asprintf(&path, "%s/index.jsonl", folder) < 0)
        return complain("--captured: out of memory"), false;
    f = fopen(path, "re");
    ok = f || (complain("%s: %s", path, strerror(errno)), false);
    for (int at = 1; ok && getline(&text, &room, f) >= 0; at++) {
        struct captured one;
        bool is_complex;

        ok = read_line(folder, text, &one, &is_complex) ||
             (complain("%s:%d: no line of JSON that names two files of this folder as a and b",
                       path, at),
              false);
        if (ok && !is_complex && (size_t)*n == most) {
            struct captured *grown = realloc(*list, (most = 2 * most + 16) * sizeof *grown);

            ok = grown || (complain("--captured: out of memory"), false);
            *list = grown ? grown : *list;
        }
        *left_out += ok && is_complex;
        if (ok && !is_complex) {
            (*list)[(*n)++] = one;
        } else {
            free(one.a);
            free(one.b);
        }
    }
    ok = ok && (*n || (complain("%s: no product of real matrices", path), false));
    if (f)
        fclose(f);
    free(text);
    free(path);
    return ok;
}
