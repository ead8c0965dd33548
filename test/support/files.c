/* SPDX-License-Identifier: BSD-3-Clause
 * Folders of text tests. */
#include "files.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

char *test_file_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size = -1;

    if (f && !fseek(f, 0, SEEK_END))
        size = ftell(f);
    if (size >= 0 && !fseek(f, 0, SEEK_SET))
        text = calloc((size_t)size + 1, 1);
    if (text && fread(text, 1, (size_t)size, f) != (size_t)size) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

int test_file_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    int bad = !f || fputs(text, f) < 0;

    if (f && fclose(f))
        bad = 1;
    return bad;
}

size_t test_files_each(const char *folder, void (*each)(void *user, const char *path), void *user)
{
    char pattern[4096];
    glob_t g = { 0 };
    size_t n;

    snprintf(pattern, sizeof pattern, "%s/*.lir", folder);
    glob(pattern, 0, NULL, &g);
    for (size_t i = 0; i < g.gl_pathc; i++)
        each(user, g.gl_pathv[i]);
    n = g.gl_pathc;
    globfree(&g);
    return n;
}
