/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzzes files of the disk cache: an entry, which a call then looks up, and the bytes of a kernel.
 * The product must be right, whatever the entry holds. */
#define _GNU_SOURCE
#include "fuzz.h"

#include "jit/api/api.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES = 4 };

static char dir[] = "/tmp/limber-fuzz-XXXXXX", entry[ENTRIES][4096];
static int entries;

/* Called for each file below the cache's folder: collects those that hold kernels. */
static int find_entries(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)f;
    if (type == FTW_F && s->st_size > 100 && entries < ENTRIES)
        snprintf(entry[entries++], sizeof *entry, "%s", path);
    return 0;
}

static int remove_file(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static void clean_up(void)
{
    nftw(dir, remove_file, 16, FTW_DEPTH | FTW_PHYS);
}

/* Multiplies in a context that uses the cache.  Aborts if the result is wrong. */
static void multiply(void)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "interp",
                                   .threads = 1,
                                   .cache_dir = dir,
                                   .dump_dir = "" };
    double a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 6, 7, 8 }, c[4] = { 0 };
    limber_contract native = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE };
    limber_matrix m = { a, { 0 }, 2, 1 }, n, r;
    limber_context *ctx;

    limber_format_named("f64", &m.format);
    n = r = m;
    n.data = b;
    r.data = c;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK ||
        limber_gemm(ctx, &native, 2, 2, 2, NULL, m, n, NULL,
                    (limber_output){ c, m.format, m.row_stride, m.col_stride },
                    NULL) != LIMBER_STATUS_OK ||
        c[0] != 19 || c[3] != 50)
        abort();
    limber_destroy(ctx);
}

/* Fills a cache with kernels, once. */
static void set_up(void)
{
    if (entries)
        return;
    if (!mkdtemp(dir))
        abort();
    atexit(clean_up);
    multiply();
    nftw(dir, find_entries, 16, FTW_PHYS);
    if (!entries)
        abort();
}

/* Writes an input: 'E' and an entry of the cache, or 'K' and the last 512 bytes of an entry, where
 * its kernel is. */
size_t fuzz_seed(int i, uint8_t *to)
{
    static uint8_t good[2 * ENTRIES][FUZZ_MOST];
    static size_t size[2 * ENTRIES];
    int count;

    set_up();
    count = 2 * entries;
    if (i >= count)
        return 0;
    if (!size[i]) {
        FILE *f = fopen(entry[i / 2], "rb");

        good[i][0] = i % 2 ? 'K' : 'E';
        if (f && i % 2)
            fseek(f, -512, SEEK_END);
        size[i] = 1 + (f ? fread(good[i] + 1, 1, FUZZ_MOST - 1, f) : 0);
        if (f)
            fclose(f);
    }
    memcpy(to, good[i], size[i]);
    return size[i];
}

/* Has each backend load arbitrary bytes as a kernel. */
static void load_on_all_backends(const uint8_t *data, size_t size)
{
    for (int i = 0; limber_backends[i]; i++) {
        struct kernel *k = NULL;
        struct diag d = { 0 };

        if (limber_backends[i]->load(data, size, &k, &d))
            limber_backends[i]->unload(k);
    }
}

/* 'E' and bytes: replaces an entry of the cache, and computes.  Others: loads them as a kernel. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *f;

    set_up();
    if (size < 1)
        return 0;
    if (*data != 'E') {
        load_on_all_backends(data + 1, size - 1);
        return 0;
    }
    f = fopen(entry[0], "wb");
    if (!f)
        return 0;
    chmod(entry[0], 0600);
    fwrite(data + 1, 1, size - 1, f);
    fclose(f);
    multiply();
    return 0;
}
