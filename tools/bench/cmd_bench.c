/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench: ratios to other libraries and to the machine.
 * limber gpu: ratios to cuBLAS and cuDNN on an NVIDIA GPU.
 * All figures of a run are from that run; Limber and its peers alternate. */
#include "tools/bench/bench.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_THREAD_COUNTS = 8, MOST_THREADS = 256, MOST_BATCH = 1024 };
enum { NO_DEVICE = 77 }; /* an exit status that test drivers read as "skipped" */

/* Up to `room` numbers from 1 to `most`, with commas between; 0: something else. */
static int read_numbers(const char *list, long most, int64_t *numbers, int room)
{
    int n = 0;

    while (*list) {
        char *end;
        long x = strtol(list, &end, 10);

        if (end == list || (*end && *end != ',') || x < 1 || x > most || n == room)
            return 0;
        numbers[n++] = x;
        list = end + (*end == ',');
    }
    return n;
}

/* LIMBER_KERNELS_AUTO: after a message. */
static limber_kernels kernels_of(const char *word)
{
    static const struct {
        const char *word;
        limber_kernels kernels;
    } list[] = { { "both", LIMBER_KERNELS_BOTH },
                 { "prebuilt", LIMBER_KERNELS_PREBUILT },
                 { "specialised", LIMBER_KERNELS_SPECIALISED } };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(word, list[i].word))
            return list[i].kernels;
    complain("bench: --kernels takes both, prebuilt or specialised");
    return LIMBER_KERNELS_AUTO;
}

/* Reads the options of a command that takes no files; false after a message. */
static bool read_options(poptContext o, const char *command, const char *help)
{
    return options_read(o, help) && (!poptPeekArg(o) || !complain("%s takes no files", command));
}

/* ---- limber bench ---------------------------------------------------------------------------- */

static bool with_threads(struct bench *b, int threads)
{
    limber_config config = { .size = sizeof(limber_config),
                             .threads = threads,
                             .kernels = b->kernels };
    limber_config making = { .size = sizeof(limber_config),
                             .threads = threads,
                             .kernels = LIMBER_KERNELS_SPECIALISED };
    bool ok;

    b->threads = threads;
    b->int8 = 0;
    if (limber_create(&b->ctx, &config) != LIMBER_STATUS_OK ||
        (b->kernels == LIMBER_KERNELS_BOTH &&
         limber_create(&b->maker, &making) != LIMBER_STATUS_OK)) {
        complain("%s", limber_error_text());
        context_end(b->ctx);
        return false;
    }
    peers_threads(threads);
    print_text(b, "\n%d thread%s\n%-46s %5s  %-12s %9s %9s %-7s  ratio", threads,
               threads == 1 ? "" : "s", "work", "n", "scheme", "median", "best", "unit");
    ok = rows_measure(b);
    context_end(b->maker);
    context_end(b->ctx);
    b->maker = NULL;
    return ok;
}

static int run_bench(struct bench *b, const int64_t *threads, int count)
{
    bool ok = true, written;

    peers_open(false);
    print_head(b);
    for (int i = 0; ok && i < count; i++) {
        b->first = i == 0;
        ok = with_threads(b, (int)threads[i]);
    }
    written = !b->json || json_print(print_json(b));
    return !(ok && written);
}

int cmd_bench(int argc, const char **argv)
{
    int json = 0, full = 0, cpu_time = 0, runs = 5, batch = 1, n = 0, status = 2, script;
    int64_t counts[MOST_THREAD_COUNTS];
    char *rows = NULL, *threads = NULL, *kernels = NULL;
    struct poptOption table[] = {
        { "full", 0, POPT_ARG_NONE, &full, 0, "measure larger sizes too", NULL },
        { "threads", 0, POPT_ARG_STRING, &threads, 0, "number of threads, or a list of such (1)",
          "1,2" },
        { "rows", 0, POPT_ARG_STRING, &rows, 0, rows_words(false), "WORD,WORD" },
        { "kernels", 0, POPT_ARG_STRING, &kernels, 0,
          "code of Limber's products (both; specialised ones are made before the "
          "measurement); rows of latency: both",
          "both|prebuilt|specialised" },
        { "runs", 0, POPT_ARG_INT, &runs, 0, "runs of every row (5)", "1..99" },
        { "batch", 0, POPT_ARG_INT, &batch, 0, "images of a convolution (1)", "N" },
        { "cpu-time", 0, POPT_ARG_NONE, &cpu_time, 0,
          "time of the CPU in the place of the clock's, with one thread: for a machine that other "
          "programs use",
          NULL },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o;
    struct bench b = { .backend = "", .group = "", .seed = 1, .start = now() };

    if (argc > 1 && bench_is_script(argv[1], &script))
        return bench_script(script, argc - 1, argv + 1);
    o = options_open(argc, argv, table);
    if (!read_options(
            o, "bench",
            "[options]\n"
            "       limber bench apps [--help]\n"
            "       limber bench python [--help]\n\n"
            "Measures Limber beside OpenBLAS, BLIS, MKL, oneDNN, LIBXSMM, FLINT and Arb, "
            "whichever\n"
            "the dynamic linker finds (LD_LIBRARY_PATH).  `sh tools/bench/peers.sh FOLDER` "
            "puts the\n"
            "first five into a folder.  The head of the table names those that are missing.\n"
            "Rows of operators, reductions and convolutions ask python3 for PyTorch."
            "\n"
            "`limber bench apps` has python3 run the applications (docs/applications.md) beside "
            "a\n"
            "plain BLAS, `limber bench python` products of small matrices beside NumPy; both "
            "have\n"
            "options of their own."
            "\n\n"
            "example: limber bench --rows fp64,quad --threads 1,2"))
        status = 2;
    else if (!(n = read_numbers(threads ? threads : "1", MOST_THREADS, counts, MOST_THREAD_COUNTS)))
        complain("bench: --threads takes numbers from 1 to %d with commas between", MOST_THREADS);
    else if (runs < 1 || runs > MOST_SAMPLES)
        complain("bench: --runs takes a number from 1 to %d", MOST_SAMPLES);
    else if (cpu_time && (n > 1 || counts[0] != 1))
        complain("bench: --cpu-time is of one thread");
    else if (batch < 1 || batch > MOST_BATCH)
        complain("bench: --batch takes a number from 1 to %d", MOST_BATCH);
    else if (rows_known(rows, false) && (b.kernels = kernels_of(kernels ? kernels : "both"))) {
        b.runs = runs;
        b.batch = batch;
        b.full = full;
        b.cpu_time = cpu_time;
        device_host_time(cpu_time);
        b.only = rows;
        b.json = json;
        b.rows = cJSON_CreateArray();
        status = b.rows ? run_bench(&b, counts, n) : complain("out of memory");
        cJSON_Delete(b.rows);
    }
    poptFreeContext(o);
    free(rows);
    free(threads);
    free(kernels);
    return status;
}

/* ---- limber gpu ------------------------------------------------------------------------------ */

struct options {
    char *rows, *sizes, *json, *out, *backend;
    double seconds;
    int device, batch, seed;
};

/* A file of the folder of --out, for free(); NULL: no memory. */
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
    return mkdir(folder, 0777) == 0 || errno == EEXIST ||
           !complain("%s: %s", folder, strerror(errno));
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

static int run_gpu(struct bench *b, const struct options *o)
{
    cJSON *all;
    bool written;

    print_head(b);
    rows_measure(b);
    print_text(b, "\n%d rows measured, %d WRONG, %d failed, %d skipped, %.0f s", b->count[STATE_ok],
               b->count[STATE_wrong], b->count[STATE_failed], b->count[STATE_skipped],
               now() - b->start);
    all = print_json(b);
    written = write_all(all, o);
    cJSON_Delete(all);
    return b->count[STATE_wrong] || b->count[STATE_failed] || !written;
}

/* The benchmark, with a copy of its table in a file where a folder is named. */
static int run_gpu_with_table(struct bench *b, const struct options *o)
{
    char *path = o->out ? path_in(o->out, "gpu.txt") : NULL;
    struct draft table;
    int code = 1;

    if (!o->out)
        return run_gpu(b, o);
    if (path && draft_open(&table, path)) {
        b->table = table.f;
        code = run_gpu(b, o);
        b->table = NULL;
        if (!draft_close(&table, true))
            code = 1;
    }
    free(path);
    return code;
}

/* Operands of a backend that is not the GPU's must be readable from the host.  Peers come first,
 * since a context has the scheme `cublas` where cuBLAS is there already. */
static int run_on_device(struct bench *b, const struct options *o)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = b->backend,
                             .device = b->device };
    const char *missing = device_open(b->device, strcmp(b->backend, "cuda") != 0);
    limber_status status;
    int code;

    if (missing) {
        complain("gpu: %s", missing);
        return NO_DEVICE;
    }
    peers_open(true);
    status = limber_create(&b->ctx, &config);
    if (status != LIMBER_STATUS_OK) {
        complain("gpu: %s", limber_error_text());
        peers_close();
        device_close();
        return status == LIMBER_STATUS_DEVICE ? NO_DEVICE : 1;
    }
    code = run_gpu_with_table(b, o);
    context_end(b->ctx);
    peers_close();
    device_close();
    return code;
}

static int checked(const struct options *o)
{
    struct bench b = { .gpu = true,
                       .backend = o->backend ? o->backend : "cuda",
                       .only = o->rows,
                       .device = o->device,
                       .threads = 1,
                       .runs = 5,
                       .seconds = o->seconds,
                       .batch = o->batch,
                       .seed = (uint64_t)o->seed,
                       .start = now(),
                       .group = "" };
    int status = 1;

    if (!(o->seconds > 0))
        return complain("gpu: --seconds takes a time above 0"), 2;
    if (o->batch < 1 || o->batch > MOST_BATCH)
        return complain("gpu: --batch takes a number from 1 to %d", MOST_BATCH), 2;
    if (!rows_known(o->rows, true))
        return 2;
    if (o->sizes && !(b.size_count = read_numbers(o->sizes, 65536, b.sizes, MOST_SIZES - 1)))
        return complain("gpu: --sizes takes up to %d numbers from 1 to 65536 with commas between",
                        MOST_SIZES - 1),
               2;
    if (o->out && !make_folder(o->out))
        return 1;
    b.rows = cJSON_CreateArray();
    if (b.rows)
        status = run_on_device(&b, o);
    else
        complain("out of memory");
    cJSON_Delete(b.rows);
    return status;
}

int cmd_gpu(int argc, const char **argv)
{
    struct options v = { .seconds = 300, .batch = 64, .seed = 1 };
    struct poptOption table[] = {
        { "rows", 0, POPT_ARG_STRING, &v.rows, 0, rows_words(true), "WORD,WORD" },
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
          "backend of Limber's rows (cuda); others compute on the host", "BACKEND" },
        { "seed", 0, POPT_ARG_INT, &v.seed, 0, "seed of the random operands (1)", "N" },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    int status = 2;

    if (read_options(o, "gpu",
                     "[options]\n\n"
                     "Measures Limber beside cuBLAS and cuDNN on an NVIDIA GPU.  Their libraries "
                     "are opened\n"
                     "where they are found.  Every row is compared with exact values.  Exit "
                     "status: 0; 1: a\n"
                     "row is WRONG or failed; 2: usage; 77: no GPU or no driver.  tools/gpu.sh "
                     "builds, tests\n"
                     "and measures on a machine that has little more than the CUDA toolkit.\n\n"
                     "example: limber gpu --rows fp32,fp64 --sizes 4096,8192 --out results")) {
        tell_beside(v.json);
        status = checked(&v);
    }
    poptFreeContext(o);
    free(v.rows);
    free(v.sizes);
    free(v.json);
    free(v.out);
    free(v.backend);
    return status;
}
