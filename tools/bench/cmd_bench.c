/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench: ratios to other libraries and to the hardware's limits.  limber gpu: ratios to
 * cuBLAS and cuDNN on an NVIDIA GPU.  Limber and its peers are measured in turn, in the same
 * run. */
#include "tools/bench/bench.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREAD_COUNTS = 8, MOST_THREADS = 256, MOST_BATCH = 1024 };
enum { NO_DEVICE = 77 }; /* exit status that test programs read as "skipped" */

/* Parses up to `room` numbers from 1 to `most`, separated by commas.  Returns their number, or 0 if
 * the list is malformed. */
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

/* Returns the value of --kernels.  Prints a message and returns LIMBER_KERNELS_AUTO if the word is
 * unknown. */
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

/* Reads the options of a command that takes no other arguments.  Prints a message and returns false
 * on failure. */
static bool read_options(poptContext o, const char *command, const char *help)
{
    return options_read(o, help) && (!poptPeekArg(o) || !complain("%s takes no files", command));
}

/* ---- limber bench ---------------------------------------------------------------------------- */

/* Measures all rows with this number of threads. */
static bool bench_with_threads(struct bench *b, int threads)
{
    limber_config config = { .size = sizeof(limber_config),
                             .threads = threads,
                             .kernels = b->kernels };
    limber_config making = { .size = sizeof(limber_config),
                             .threads = threads,
                             .kernels = LIMBER_KERNELS_SPECIALISED };
    bool ok;

    b->threads = threads;
    b->results.int8 = 0;
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

/* Measures all rows for each number of threads. */
static int run_bench(struct bench *b, const int64_t *threads, int count)
{
    bool ok = true, written;

    peers_open(b);
    print_head(b);
    for (int i = 0; ok && i < count; i++) {
        b->first = i == 0;
        ok = bench_with_threads(b, (int)threads[i]);
    }
    written = !b->json || json_print(print_json(b));
    return !(ok && written);
}

/* The command `limber bench`: reads and checks its options, then measures the rows on the CPU.
 * Returns the exit status. */
int cmd_bench(int argc, const char **argv)
{
    int json = 0, full = 0, cpu_time = 0, runs = 5, batch = 1, n = 0, status = 2, script;
    int64_t counts[MOST_THREAD_COUNTS];
    char *rows = NULL, *threads = NULL, *kernels = NULL;
    struct poptOption table[] = {
        { "full", 0, POPT_ARG_NONE, &full, 0, "measure larger sizes too", NULL },
        { "threads", 0, POPT_ARG_STRING, &threads, 0, "number of threads, or a list of such (1)",
          "1,2" },
        { "rows", 0, POPT_ARG_STRING, &rows, 0, rows_help_text(false), "WORD,WORD" },
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
    struct bench b = { .backend = "", .results.group = "", .seed = 1, .start = now() };

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
            "Rows of operators, reductions and convolutions ask a Python with PyTorch (PATH, "
            "/usr/bin)."
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
    else if (rows_check_words(rows, false) &&
             (b.kernels = kernels_of(kernels ? kernels : "both"))) {
        b.runs = runs;
        b.batch = batch;
        b.full = full;
        b.cpu_time = cpu_time;
        device_host_time(cpu_time);
        b.only = rows;
        b.json = json;
        b.results.rows = cJSON_CreateArray();
        status = b.results.rows ? run_bench(&b, counts, n) : complain("out of memory");
        cJSON_Delete(b.results.rows);
    }
    poptFreeContext(o);
    free(rows);
    free(threads);
    free(kernels);
    return status;
}

/* ---- limber gpu ------------------------------------------------------------------------------ */

/* Values of the options of `limber gpu`. */
struct options {
    char *rows, *sizes, *by, *backend;
    double seconds;
    int device, batch, seed, json, once, probe;
};

/* Prints the number of results in each state, and the time that passed. */
static void print_totals(struct bench *b)
{
    static const char *const names[] = { [STATE_ok] = "ok",
                                         [STATE_wrong] = "wrong",
                                         [STATE_skipped] = "skipped",
                                         [STATE_failed] = "failed" };
    cJSON *j;

    print_text(b, "\n%d rows measured, %d WRONG, %d failed, %d skipped, %.0f s",
               b->results.count[STATE_ok], b->results.count[STATE_wrong],
               b->results.count[STATE_failed], b->results.count[STATE_skipped], now() - b->start);
    if (!b->json)
        return;
    j = cJSON_CreateObject();
    for (int i = 0; i < STATE_absent; i++)
        cJSON_AddNumberToObject(j, names[i], b->results.count[i]);
    cJSON_AddNumberToObject(j, "seconds", now() - b->start);
    print_object(j);
}

/* Measures the rows of `limber gpu`; returns the exit status.  Libraries are opened before the
 * context is created, so that Limber finds cuBLAS loaded and may use it. */
static int run_rows(struct bench *b)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = b->backend,
                             .device = b->device };
    limber_status status;

    peers_open(b);
    status = limber_create(&b->ctx, &config);
    if (status == LIMBER_STATUS_OK) {
        print_head(b);
        if (b->json)
            print_object(print_device(b));
        rows_measure(b);
        print_totals(b);
        context_end(b->ctx);
    } else {
        complain("gpu: %s", limber_error_text());
    }
    peers_close();
    if (status != LIMBER_STATUS_OK)
        return status == LIMBER_STATUS_DEVICE ? NO_DEVICE : 1;
    return b->results.count[STATE_wrong] || b->results.count[STATE_failed];
}

/* Checks that the device works: random bytes are copied there and back.  Returns the exit
 * status. */
static int run_probe(const struct bench *b)
{
    enum { WORDS = 1 << 16 };
    uint64_t *sent = calloc(2 * WORDS, sizeof *sent), *back = sent + WORDS, seed = b->seed;
    char *there = device_alloc(WORDS * sizeof *sent);
    bool ok = sent && there;

    for (int i = 0; ok && i < WORDS; i++)
        sent[i] = random_bits(&seed);
    ok = ok && device_put(there, sent, WORDS * sizeof *sent) &&
         device_get(back, there, WORDS * sizeof *sent) && device_wait();
    if (!ok)
        complain("gpu: %s", *device_error() ? device_error() : "out of memory");
    else if (memcmp(sent, back, WORDS * sizeof *sent))
        ok = !complain("gpu: bytes come back from the device as others");
    else
        print_object(print_device(b));
    device_free(there);
    free(sent);
    return !ok;
}

/* Opens the device, and measures or probes it; returns the exit status.  For another backend than
 * `cuda`, operands are in pinned memory, which the host can read. */
static int run_on_device(struct bench *b, bool probe)
{
    const char *missing = device_open(b->device, strcmp(b->backend, "cuda") != 0);
    int code;

    if (missing) {
        complain("gpu: %s", missing);
        return NO_DEVICE;
    }
    b->unwatched = watch_open(b->device);
    code = probe ? run_probe(b) : run_rows(b);
    watch_close();
    device_close();
    return code;
}

/* Checks the options of `limber gpu`, then executes the command; returns its exit status. */
static int run_with_options(const struct options *o)
{
    struct bench b = { .gpu = true,
                       .backend = o->backend ? o->backend : "cuda",
                       .only = o->rows,
                       .by = o->by,
                       .device = o->device,
                       .threads = 1,
                       .runs = 5,
                       .seconds = o->seconds,
                       .batch = o->batch,
                       .json = o->json,
                       .once = o->once,
                       .seed = (uint64_t)o->seed,
                       .start = now(),
                       .results.group = "" };

    if (!(o->seconds > 0))
        return complain("gpu: --seconds takes a time above 0"), 2;
    if (o->batch < 1 || o->batch > MOST_BATCH)
        return complain("gpu: --batch takes a number from 1 to %d", MOST_BATCH), 2;
    if (!rows_check_words(o->rows, true))
        return 2;
    if (o->by && !rows_use_library(&b, NULL))
        return complain("gpu: nothing of these rows is computed by \"%s\"", o->by), 2;
    if (o->sizes && !(b.size_count = read_numbers(o->sizes, 65536, b.sizes, MOST_SIZES - 1)))
        return complain("gpu: --sizes takes up to %d numbers from 1 to 65536 with commas between",
                        MOST_SIZES - 1),
               2;
    return run_on_device(&b, o->probe);
}

/* The command `limber gpu`: reads its options and measures or probes a GPU.  Returns the exit
 * status. */
int cmd_gpu(int argc, const char **argv)
{
    struct options v = { .seconds = 300, .batch = 64, .seed = 1 };
    struct poptOption table[] = {
        { "rows", 0, POPT_ARG_STRING, &v.rows, 0, rows_help_text(true), "WORD,WORD" },
        { "sizes", 0, POPT_ARG_STRING, &v.sizes, 0, "n of products, instead of each group's own",
          "N,N" },
        { "by", 0, POPT_ARG_STRING, &v.by, 0,
          "only what is computed by such words: dgemm, sgemm, int8, native, correct, ozaki2, "
          "fp32-f",
          "WORD,WORD" },
        { "batch", 0, POPT_ARG_INT, &v.batch, 0, "images of a convolution (64)", "N" },
        { "seconds", 0, POPT_ARG_DOUBLE, &v.seconds, 0, "begin no work after this time (300)",
          "S" },
        { "json", 0, POPT_ARG_NONE, &v.json, 0,
          "print JSON: the device, then each row when it is measured, one object a line", NULL },
        { "once", 0, POPT_ARG_NONE, &v.once, 0,
          "call everything once and check it, without times: for ncu and compute-sanitizer", NULL },
        { "probe", 0, POPT_ARG_NONE, &v.probe, 0,
          "only copy bytes to the device and back, and print its attributes as JSON", NULL },
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
                     "row is WRONG or failed; 2: usage; 77: no GPU or no driver.  Times of single "
                     "kernels are\n"
                     "shown where LIMBER_CUDA names libtimed_cuda.so, which stands beside this "
                     "program.\n"
                     "tools/gpu.sh builds, tests and measures on a machine that has little more "
                     "than the CUDA\ntoolkit.\n\n"
                     "example: limber gpu --rows fp32,fp64 --sizes 4096,8192"))
        status = run_with_options(&v);
    poptFreeContext(o);
    free(v.rows);
    free(v.sizes);
    free(v.by);
    free(v.backend);
    return status;
}
