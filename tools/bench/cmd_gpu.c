/* SPDX-License-Identifier: BSD-3-Clause
 * limber gpu: ratios to cuBLAS and cuDNN on an NVIDIA GPU, all from one run. */
#include "tools/bench/gpu.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NO_DEVICE = 77 };        /* an exit status that test drivers read as "skipped" */

static const struct {
    const char *name;
    void (*rows)(struct gpu_bench *);
} groups[] = {
    { "units", rows_units }, { "fp32", rows_fp32 },
    { "fp64", rows_fp64 },   { "quad", rows_quad },
    { "int", rows_int },     { "conv", rows_conv },
    { "small", rows_small }, { "workspace", rows_workspace },
};
enum { GROUPS = sizeof groups / sizeof *groups };

struct options {
    char *rows, *sizes, *json, *out, *backend;
    double seconds;
    int device, batch, seed;
};

/* ---- options --------------------------------------------------------------------------------- */

/* Whether the word of the given length stands in a list with commas; NULL lists all. */
static bool listed(const char *list, const char *word, size_t length)
{
    if (!list)
        return true;
    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == length && !strncmp(list, word, n))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static bool known_groups(const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        bool known = false;

        for (int i = 0; i < GROUPS; i++)
            known |= strlen(groups[i].name) == n && !strncmp(groups[i].name, list, n);
        if (!known) {
            complain("gpu: no rows are called \"%.*s\"", (int)n, list);
            return false;
        }
        list += n + (list[n] == ',');
    }
    return true;
}

static bool read_sizes(struct gpu_bench *b, const char *list)
{
    while (list && *list) {
        char *end;
        long n = strtol(list, &end, 10);

        if (end == list || (*end && *end != ',') || n < 1 || n > 65536 ||
            b->size_count == MOST_SIZES) {
            complain("gpu: --sizes takes up to %d numbers from 1 to 65536 with commas between",
                     MOST_SIZES);
            return false;
        }
        b->sizes[b->size_count++] = (int)n;
        list = end + (*end == ',');
    }
    return true;
}

/* A file of the folder of --out, for free(); NULL where there is no such folder. */
static char *path_in(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);

    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static bool make_folder(const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return true;
    complain("%s: %s", folder, strerror(errno));
    return false;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void json_library(cJSON *list, const struct peer_library *l)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "name", l->name);
    cJSON_AddBoolToObject(j, "usable", l->usable);
    cJSON_AddStringToObject(j, l->usable ? "version" : "why_not", l->usable ? l->version : l->why);
    cJSON_AddItemToArray(list, j);
}

static cJSON *json_all(struct gpu_bench *b, const struct peer_library *const *peers, int count)
{
    const struct gpu_about *g = gpu_about();
    cJSON *all = cJSON_CreateObject(), *gpu = cJSON_AddObjectToObject(all, "gpu"), *list;

    cJSON_AddStringToObject(all, "limber", LIMBER_VERSION);
    cJSON_AddStringToObject(all, "backend", b->backend);
    cJSON_AddStringToObject(gpu, "name", g->name);
    cJSON_AddNumberToObject(gpu, "capability", g->major * 10 + g->minor);
    cJSON_AddNumberToObject(gpu, "multiprocessors", g->units);
    cJSON_AddNumberToObject(gpu, "memory", (double)g->memory);
    cJSON_AddNumberToObject(gpu, "l2", (double)g->l2);
    cJSON_AddNumberToObject(gpu, "driver", g->driver);
    list = cJSON_AddArrayToObject(all, "peers");
    for (int i = 0; i < count; i++)
        json_library(list, peers[i]);
    cJSON_AddNumberToObject(all, "seconds", now() - b->start);
    cJSON_AddNumberToObject(all, "ok", b->measured);
    cJSON_AddNumberToObject(all, "wrong", b->wrong);
    cJSON_AddNumberToObject(all, "failed", b->failed);
    cJSON_AddNumberToObject(all, "skipped", b->skipped);
    cJSON_AddItemToObject(all, "rows", b->rows);
    b->rows = NULL;
    return all;
}

static bool write_json(const cJSON *all, const char *path)
{
    char *text = cJSON_Print(all);
    struct draft d;
    bool ok = text && draft_open(&d, path);

    if (ok) {
        fprintf(d.f, "%s\n", text);
        ok = draft_close(&d, true);
    } else if (!text)
        complain("out of memory");
    cJSON_free(text);
    return ok;
}

static bool write_all(const cJSON *all, const struct options *o)
{
    char *path = o->out ? path_in(o->out, "gpu.json") : NULL;
    bool ok = (!o->json || write_json(all, o->json)) && (!path || write_json(all, path));

    free(path);
    return ok;
}

/* ---- running --------------------------------------------------------------------------------- */

static void all_groups(struct gpu_bench *b, const char *list)
{
    for (int i = 0; i < GROUPS; i++)
        if (listed(list, groups[i].name, strlen(groups[i].name))) {
            gpu_group(b, groups[i].name);
            groups[i].rows(b);
        }
}

static void list_peers(struct gpu_bench *b, const struct peer_library *const *peers, int count)
{
    for (int i = 0; i < count; i++)
        if (peers[i]->usable)
            gpu_line(b, "%s%s%s", peers[i]->name, *peers[i]->version ? " " : "", peers[i]->version);
        else
            gpu_line(b, "%s: skipped: %s", peers[i]->name, peers[i]->why);
}

static int bench(struct gpu_bench *b, const struct options *o)
{
    const struct peer_library *peers[] = { blas_open(), lt_open(), dnn_open() };
    int count = sizeof peers / sizeof *peers;
    cJSON *all;
    bool written;

    gpu_head(b);
    list_peers(b, peers, count);
    all_groups(b, o->rows);
    gpu_line(b, "\n%d rows measured, %d WRONG, %d failed, %d skipped, %.0f s", b->measured,
             b->wrong, b->failed, b->skipped, now() - b->start);
    all = json_all(b, peers, count);
    written = write_all(all, o);
    cJSON_Delete(all);
    dnn_close();
    blas_close();
    return b->wrong || b->failed || !written;
}

/* The benchmark, with a copy of its table in a file where a folder is named. */
static int bench_with_table(struct gpu_bench *b, const struct options *o)
{
    char *path = o->out ? path_in(o->out, "gpu.txt") : NULL;
    struct draft table;
    int code = 1;

    if (!o->out)
        return bench(b, o);
    if (path && draft_open(&table, path)) {
        b->table = table.f;
        code = bench(b, o);
        b->table = NULL;
        if (!draft_close(&table, true))
            code = 1;
    }
    free(path);
    return code;
}

/* Operands of a backend that is not the GPU's must be readable from the host. */
static int with_device(struct gpu_bench *b, const struct options *o)
{
    limber_config config = { .backend = b->backend, .device = b->device };
    const char *missing = gpu_open(b->device, strcmp(b->backend, "cuda") != 0);
    limber_status status;
    int code;

    if (missing) {
        complain("gpu: %s", missing);
        return NO_DEVICE;
    }
    status = limber_create(&b->ctx, &config);
    if (status != LIMBER_STATUS_OK) {
        complain("gpu: %s", limber_error_text());
        gpu_close();
        return status == LIMBER_STATUS_DEVICE ? NO_DEVICE : 1;
    }
    code = bench_with_table(b, o);
    context_end(b->ctx);
    gpu_close();
    return code;
}

static int run(const struct options *o)
{
    struct gpu_bench b = { .backend = o->backend ? o->backend : "cuda",
                           .device = o->device,
                           .seconds = o->seconds,
                           .batch = o->batch,
                           .seed = (uint64_t)o->seed,
                           .start = now(),
                           .group = "" };
    int status = 1;

    if (!known_groups(o->rows) || !read_sizes(&b, o->sizes))
        return 2;
    if (o->out && !make_folder(o->out))
        return 1;
    b.rows = cJSON_CreateArray();
    if (b.rows)
        status = with_device(&b, o);
    else
        complain("out of memory");
    cJSON_Delete(b.rows);
    return status;
}

static int checked(const struct options *o)
{
    if (!(o->seconds > 0))
        complain("gpu: --seconds takes a time above 0");
    else if (o->batch < 1 || o->batch > 1024)
        complain("gpu: --batch takes a number from 1 to 1024");
    else
        return run(o);
    return 2;
}

int cmd_gpu(int argc, const char **argv)
{
    struct options v = { .seconds = 300, .batch = 64, .seed = 1 };
    struct poptOption table[] = {
        { "rows", 0, POPT_ARG_STRING, &v.rows, 0,
          "only these: units fp32 fp64 quad int conv "
          "small workspace",
          "WORD,WORD" },
        { "sizes", 0, POPT_ARG_STRING, &v.sizes, 0, "n of products, instead of each group's own",
          "N,N" },
        { "batch", 0, POPT_ARG_INT, &v.batch, 0, "images of a convolution (64)", "N" },
        { "seconds", 0, POPT_ARG_DOUBLE, &v.seconds, 0, "begin no work after this time (300)",
          "S" },
        { "json", 0, POPT_ARG_STRING, &v.json, 0, "write all samples to this file", "FILE" },
        { "out", 0, POPT_ARG_STRING, &v.out, 0, "write gpu.txt and gpu.json to this folder",
          "FOLDER" },
        { "device", 0, POPT_ARG_INT, &v.device, 0, "which GPU (0)", "N" },
        { "backend", 0, POPT_ARG_STRING, &v.backend, 0,
          "of Limber's rows (cuda); others compute "
          "on the host",
          "NAME" },
        { "seed", 0, POPT_ARG_INT, &v.seed, 0, "of the random operands (1)", "N" },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = poptGetContext("limber", argc, argv, table, 0);
    int code, status = 2;

    poptSetOtherOptionHelp(
        o,
        "[options]\n\n"
        "Measures Limber beside cuBLAS and cuDNN on an NVIDIA GPU; their libraries are opened\n"
        "where they are found.  Every row is compared with exact values.  Exit status: 0; 1: a\n"
        "row is WRONG or failed; 2: usage; 77: no GPU or no driver.  tools/gpu.sh builds, tests\n"
        "and measures on a machine that has little more than the CUDA toolkit.\n\n"
        "example: limber gpu --rows fp32,fp64 --sizes 4096,8192 --out results");
    code = poptGetNextOpt(o);
    if (code < -1)
        complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    else if (poptPeekArg(o))
        complain("gpu takes no files");
    else
        status = checked(&v);
    poptFreeContext(o);
    free(v.rows);
    free(v.sizes);
    free(v.json);
    free(v.out);
    free(v.backend);
    return status;
}
