/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "files.h"

#include <ftw.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

char *scratch(void)
{
    const char *tmp = getenv("TMPDIR");
    char *name = NULL;

    assert_true(asprintf(&name, "%s/limber-test-XXXXXX", tmp ? tmp : "/tmp") > 0);
    assert_non_null(mkdtemp(name));
    return name;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void discard(char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

char *dir;

const char *in_dir(const char *name)
{
    static char path[4][5000];
    static int at;

    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", dir, name);
    return path[at];
}

int make_dir(void **state)
{
    (void)state;
    dir = scratch();
    return 0;
}

int remove_dir(void **state)
{
    (void)state;
    discard(dir);
    return 0;
}

/* Returns the file's bytes followed by a zero byte, to be freed; NULL if the file cannot be
 * read. */
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

static void copy_path(void *to, const char *path)
{
    snprintf(to, 4096, "%s", path);
}

const char *only_file(void)
{
    static char path[4096];

    assert_int_equal(test_files_each(dir, "*", copy_path, path), 1);
    return path;
}

size_t slurp(const char *path, unsigned char *data, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(data, 1, room, f);
    fclose(f);
    return n;
}

void spill(const char *path, const unsigned char *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
    chmod(path, 0600);
}

/* Calls `each` for every file of the folder that matches the pattern `names`, sorted by name.
 * Returns their number. */
size_t test_files_each(const char *folder, const char *names,
                       void (*each)(void *user, const char *path), void *user)
{
    char pattern[4096];
    glob_t g = { 0 };
    size_t n;

    snprintf(pattern, sizeof pattern, "%s/%s", folder, names);
    glob(pattern, 0, NULL, &g);
    for (size_t i = 0; i < g.gl_pathc; i++)
        each(user, g.gl_pathv[i]);
    n = g.gl_pathc;
    globfree(&g);
    return n;
}
