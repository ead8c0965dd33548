/* SPDX-License-Identifier: BSD-3-Clause
 * Rows that are not products: limits of the hardware, scans, copies on a GPU, and the latency of
 * calls that compile, load from disk, find the kernel in memory, are queued or are replayed. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <ftw.h>
#include <stdlib.h>
#include <string.h>

/* Prints one row for each limit of the machine: peak arithmetic rates and memory bandwidths. */
bool limit_rows(struct bench *b)
{
    struct limit list[MOST_LIMITS];
    int n = limits_measure(b->threads, list);

    for (int i = 0; i < n; i++)
        print_line(b, &(struct line){ .what = list[i].what,
                                      .unit = list[i].unit,
                                      .scheme = list[i].unit[1] == 'B' ? "memory" : "registers",
                                      .value = 1e-9 * list[i].rate,
                                      .best = 1e-9 * list[i].rate });
    return true;
}

/* ---- timing a scan --------------------------------------------------------------------------- */

enum { SCAN_LENGTH = 4096 }; /* elements of a line */

/* Scans matrix `a` once.  Its lines are contiguous or, with `across`, have adjacent elements of
 * different lines.  *seconds: duration of the scan, which limber_plan reports. */
static bool scan_once(limber_context *ctx, void *a, limber_format f, bool across, int64_t lines,
                      double *seconds)
{
    static const limber_contract bits = { .size = sizeof(limber_contract),
                                          .promise = LIMBER_CONTRACT_BITS,
                                          .bits = 40 };
    const int64_t k = SCAN_LENGTH;
    double column[SCAN_LENGTH] = { 1 };
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_report report = LIMBER_REPORT_INIT;
    char *text = NULL;
    bool ok;

    p.m = lines;
    p.n = 1;
    p.k = k;
    p.a = (limber_matrix){ a, f, across ? 1 : k, across ? lines : 1 };
    p.b = (limber_matrix){ column, LIMBER_F64, 1, 1 };
    p.c = (limber_output){ NULL, LIMBER_F64, 1, 1 };
    p.contract = &bits;
    ok = limber_plan(ctx, &p, &text, &report) == LIMBER_STATUS_OK;
    limber_free(text);
    *seconds = report.seconds_scan;
    return ok || !complain("bench: the scan: %s", limber_error_text());
}

/* Times scanning an operand and merely reading it, alternately, and prints the rate of the scan and
 * its share of the reading rate. */
static bool scan_row(struct bench *b, const char *what, limber_format f, bool across, size_t bytes)
{
    struct contender scan = { .times.samples = b->runs }, reading = { .times.samples = b->runs };
    size_t count = bytes / f.size;
    double size = 1e-9 * (double)bytes;
    void *a = aligned_alloc(64, bytes);
    uint64_t state = 1;
    bool ok = a || !complain("bench: %s: not enough memory", what);

    for (size_t i = 0; ok && i < count; i++) {
        double x = (double)(random_bits(&state) >> 11) * 0x1p-53 - 0.5;

        if (f.size == 8)
            ((double *)a)[i] = x;
        else
            ((float *)a)[i] = (float)x;
    }
    for (int i = -1; ok && i < b->runs; i++) { /* run -1 warms up */
        int at = i < 0 ? 0 : i;

        ok = scan_once(b->ctx, a, f, across, (int64_t)count / SCAN_LENGTH, &scan.times.seconds[at]);
        reading.times.seconds[at] = limits_read(b->threads, a, bytes);
    }
    free(a);
    if (!ok)
        return false;
    contender_median(&scan);
    contender_median(&reading);
    print_line(b, &(struct line){ .what = what,
                                  .scheme = "scan",
                                  .unit = "GB/s",
                                  .value = size / scan.times.median,
                                  .best = size / scan.times.best,
                                  .ratio = reading.times.best / scan.times.best,
                                  .of = "reading it, bests" });
    return true;
}

/* Measures and prints the scan of operands in FP64 and FP32, with lines in both directions, in
 * three sizes. */
bool scan_rows(struct bench *b)
{
    static const int mebibytes[] = { 1, 64, 512 };

    for (int i = 0; i < 12; i++) {
        bool single = i >= 6, across = i / 3 % 2;
        int size = mebibytes[i % 3];
        char what[64];

        snprintf(what, sizeof what, "%s, lines %s, %d MiB", single ? "FP32" : "FP64",
                 across ? "side by side" : "along k", size);
        if (!scan_row(b, what, format_of(single ? "f32" : "f64"), across, (size_t)size << 20))
            return false;
    }
    return true;
}

/* ---- timing plain copies, for comparison ----------------------------------------------------- */

/* True if a few random words of two buffers, which may be device memory, are equal. */
static bool same_words(const void *x, const void *y, size_t bytes, uint64_t seed)
{
    for (int i = 0; i < PICKS; i++) {
        size_t at = (size_t)(random_bits(&seed) % (bytes / 8)) * 8;
        uint64_t u, v;

        if (!device_get(&u, (const char *)x + at, 8) || !device_get(&v, (const char *)y + at, 8) ||
            u != v)
            return false;
    }
    return true;
}

/* Times groups of eight copies.  The first group warms up. */
static bool time_copies(struct contender *c, void *to, const void *from, size_t bytes)
{
    enum { COPIES = 8, SAMPLES = 5 };

    for (int s = -1; s < SAMPLES; s++) {
        double t;

        if (!device_start())
            return false;
        for (int i = 0; i < COPIES; i++)
            if (!device_copy(to, from, bytes))
                return false;
        t = device_stop();
        if (t < 0)
            return false;
        c->times.seconds[s < 0 ? 0 : s] = t / COPIES;
    }
    c->times.samples = SAMPLES;
    c->times.repeats = COPIES;
    contender_median(c);
    return true;
}

/* Fills `from` with random words, times copies of it, and checks some words of the copy. */
static bool time_checked_copies(struct contender *c, char *to, char *from, size_t bytes,
                                uint64_t seed)
{
    size_t block = 1 << 20;
    uint64_t *words = malloc(block);
    bool ok = words != NULL;

    for (size_t i = 0; ok && i < block / 8; i++)
        words[i] = random_bits(&seed);
    ok = ok && device_put(from, words, block);
    free(words);
    for (size_t at = block; ok && at < bytes; at += block)
        ok = device_copy(from + at, from, block);
    ok = ok && device_fill(to, 0xff, bytes) && time_copies(c, to, from, bytes) && device_wait();
    if (!ok)
        return contender_set_state(c, STATE_failed, "%s",
                                   *device_error() ? device_error() : "no memory");
    if (!same_words(to, from, bytes, seed))
        return contender_set_state(c, STATE_wrong, "the copy differs");
    return true;
}

/* Prints the rate of copies within device memory.  Each byte counts twice: it is read and
 * written. */
bool copy_rows(struct bench *b)
{
    static const struct peer driver = { .name = "cuMemcpyDtoD" };
    size_t left = device_memory_free() / 8, most = (size_t)4 << 30;
    size_t bytes = (left < most ? left : most) >> 20 << 20;
    struct work w = { .what = "copy on the device", .m = 1, .n = (int64_t)bytes, .k = 1 };
    struct contender c = { .peer = &driver, .work = &w };
    char *to = device_alloc(bytes), *from = device_alloc(bytes);

    if (!bytes || !to || !from)
        contender_set_state(&c, STATE_skipped, "no memory: %s", device_error());
    else
        time_checked_copies(&c, to, from, bytes, random_bits(&b->seed));
    device_free(to);
    device_free(from);
    print_gpu_line(
        b, &(struct line){ .w = &w,
                           .c = &c,
                           .value = c.times.median > 0 ? 2e-9 * (double)bytes / c.times.median : 0,
                           .unit = "GB/s" });
    return true;
}

/* ---- temporary caches ------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

/* Makes a temporary folder, and writes its path. */
static bool make_directory(char *path, size_t size)
{
    const char *tmp = limber_variable_value("TMPDIR");

    snprintf(path, size, "%s/limber-bench-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(path) != NULL || !complain("no temporary directory can be made");
}

static bool remove_directory(const char *path)
{
    return nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0 ||
           !complain("bench: %s stays behind", path);
}

/* ---- latency of small calls on the host ------------------------------------------------------ */

/* Duration and report of one timed call. */
struct moment {
    double seconds;
    limber_report report;
};

/* Products and convolutions whose first call is timed.  Convolutions have 3 x 3 windows, and equal
 * numbers of filters and channels. */
static const struct first {
    const char *what, *format;
    limber_promise promise;
    int n, channels; /* images are n x n; channels = 0: a product of n x n matrices */
    limber_operation operation;
} firsts[] = {
    { "FP64 native", "f64", LIMBER_CONTRACT_NATIVE, 8 },
    { "FP64 native", "f64", LIMBER_CONTRACT_NATIVE, 256 },
    { "FP64 native", "f64", LIMBER_CONTRACT_NATIVE, 512 },
    { "FP32 correct", "f32", LIMBER_CONTRACT_CORRECT, 256 },
    { "FP64 correct", "f64", LIMBER_CONTRACT_CORRECT, 256 },
    { "FP64 correct", "f64", LIMBER_CONTRACT_CORRECT, 512 },
    { "binary128", "f128", LIMBER_CONTRACT_NATIVE, 256 },
    { "3x3, 128, FP32", "f32", LIMBER_CONTRACT_NATIVE, 28, 128, LIMBER_OPERATION_CONV_FORWARD },
    { "3x3, 128, FP32 correct", "f32", LIMBER_CONTRACT_CORRECT, 28, 128,
      LIMBER_OPERATION_CONV_FORWARD },
    { "3x3, 128, INT8", "i8", LIMBER_CONTRACT_EXACT, 28, 128, LIMBER_OPERATION_CONV_FORWARD },
    { "3x3, 128, FP32 backward data", "f32", LIMBER_CONTRACT_NATIVE, 28, 128,
      LIMBER_OPERATION_CONV_BACKWARD_DATA },
    { "3x3, 128, FP32 backward filter", "f32", LIMBER_CONTRACT_NATIVE, 28, 128,
      LIMBER_OPERATION_CONV_BACKWARD_FILTER },
};

/* Returns the number of elements of the largest of operands and result. */
static size_t largest_tensor(const struct first *f)
{
    const size_t n = (size_t)f->n, c = (size_t)f->channels;

    return f->channels == 0 ? n * n : n * n > 9 * c ? n * n * c : 9 * c * c;
}

/* Allocates operands and result as one block of three equal parts of *bytes.  Operands are random:
 * floats below 1, integers below 64 in magnitude.  NULL on failure. */
static char *make_operands(const struct first *f, size_t *bytes)
{
    limber_format stored = format_of(f->format), f64 = format_of("f64");
    const bool bytes_only = stored.kind == LIMBER_KIND_INT;
    size_t count = largest_tensor(f);
    double *x = malloc(2 * count * sizeof *x);
    char *memory;
    uint64_t state = 1;

    *bytes = count * (bytes_only ? 4 : stored.size); /* results of INT8 products are INT32 */
    memory = calloc(3, *bytes);
    for (size_t i = 0; x && i < 2 * count; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        x[i] = (double)(int64_t)state * (bytes_only ? 0x1p-57 : 0x1p-63);
    }
    if (!x || !memory ||
        limber_convert(memory, stored, x, f64, 2 * count, LIMBER_ROUND_NEAREST) !=
            LIMBER_STATUS_OK) {
        free(memory);
        memory = NULL;
    }
    free(x);
    return memory;
}

/* Makes one call, and stores its duration and its report in *m. */
static bool make_call(limber_context *ctx, const struct first *f, char *memory, size_t bytes,
                      struct moment *m)
{
    const limber_contract contract = { .size = sizeof contract, .promise = f->promise };
    const limber_format stored = format_of(f->format);
    const limber_format to = stored.kind == LIMBER_KIND_INT ? format_of("i32") : stored;
    const int64_t row = f->channels ? 0 : f->n, step = f->channels ? 0 : 1;
    limber_conv conv = LIMBER_CONV_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    double start;
    bool ok;

    conv.n = conv.groups = 1;
    conv.c = conv.o = f->channels;
    conv.h = conv.w = f->n;
    conv.r = conv.s = 3;
    conv.stride[0] = conv.stride[1] = conv.dilate[0] = conv.dilate[1] = 1;
    conv.pad[0] = conv.pad[1] = conv.pad[2] = conv.pad[3] = 1;
    p.operation = f->operation;
    p.conv = f->channels ? &conv : NULL;
    p.contract = &contract;
    p.m = p.n = p.k = f->channels ? 0 : f->n;
    p.a = (limber_matrix){ memory, stored, row, step };
    p.b = (limber_matrix){ memory + bytes, stored, row, step };
    p.c = (limber_output){ memory + 2 * bytes, to, row, step };
    m->report = (limber_report)LIMBER_REPORT_INIT;
    start = now();
    ok = limber_run(ctx, &p, &m->report) == LIMBER_STATUS_OK;
    m->seconds = now() - start;
    return ok || !complain("bench: %s", limber_error_text());
}

/* Times three calls: with an empty disk cache, in a new context that loads the kernel from disk,
 * and with the kernel in memory. */
static bool time_three_calls(const char *dir, const struct first *f, struct moment m[3])
{
    limber_config config = { .size = sizeof(limber_config), .threads = 1, .cache_dir = dir };
    limber_context *ctx = NULL;
    size_t bytes;
    char *memory = make_operands(f, &bytes);
    bool ok = memory || !complain("bench: no memory for operands");

    for (int i = 0; ok && i < 3; i++) {
        if (i < 2) {
            context_end(ctx);
            ctx = NULL;
            ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK ||
                 !complain("bench: %s", limber_error_text());
        }
        ok = ok && make_call(ctx, f, memory, bytes, &m[i]);
    }
    context_end(ctx);
    free(memory);
    return ok;
}

/* Prints one latency in microseconds. from: where the kernel came from.  `what` begins with a space
 * if it is a part of the call in the line before. */
static void print_latency(struct bench *b, const struct first *f, const char *what,
                          const char *from, double seconds)
{
    char text[80];

    snprintf(text, sizeof text, "%s%s%s", *what == ' ' ? "" : f->what, *what == ' ' ? "" : ", ",
             what);
    print_line(b, &(struct line){ .what = text,
                                  .scheme = from,
                                  .unit = "us",
                                  .n = f->n,
                                  .value = 1e6 * seconds,
                                  .best = 1e6 * seconds });
}

/* Prints the three latencies of a case, each with its parts: scan, kernel, execution. */
static void print_latencies(struct bench *b, const struct first *f, const struct moment m[3])
{
    static const char *const what[] = { "first call, empty cache", "first call, cache on disk",
                                        "later call" };

    for (int i = 0; i < 3; i++) {
        const limber_report *r = &m[i].report;
        const char *from = origin_name(r->from);

        print_latency(b, f, what[i], from, m[i].seconds);
        print_latency(b, f, "  scan", from, r->seconds_scan);
        print_latency(b, f,
                      r->from == LIMBER_FROM_COMPILER ? "  passes and compiling" :
                                                        "  finding the kernel",
                      from, r->seconds_compile);
        print_latency(b, f, "  running", from, r->seconds_run);
    }
}

/* Measures and prints how long the first calls take, with an empty and with a filled cache. */
bool latency_rows(struct bench *b)
{
    char dir[4096];
    bool ok = make_directory(dir, sizeof dir);

    if (!ok)
        return false;
    for (size_t i = 0; ok && i < sizeof firsts / sizeof *firsts; i++) {
        struct moment m[3];

        ok = time_three_calls(dir, &firsts[i], m);
        if (ok)
            print_latencies(b, &firsts[i], m);
    }
    return remove_directory(dir) && ok;
}

/* ---- latency of calls on a GPU --------------------------------------------------------------- */

/* CALLS: samples of a series.  QUEUED: calls in a sample of queued calls. */
enum { CALLS = 9, QUEUED = 100 };

/* State while a series of calls on a GPU is timed, in contexts that start with a cache in `dir`. */
struct series {
    struct bench *b;
    struct work w;
    struct contender *c;
    struct operand_sets set;
    char dir[4096];
};

/* Marks the contender as failed, with the device's error.  Returns what contender_set_state
 * does. */
static bool stop_device_failed(struct contender *c)
{
    return contender_set_state(c, STATE_failed, "%s", device_error());
}

/* Times one call, from the start until its result is complete, by the host's clock. */
static bool time_call(struct series *s, double *seconds)
{
    double start;

    if (!result_poison(s->c))
        return stop_device_failed(s->c);
    start = now();
    if (!contender_call(s->c))
        return false;
    if (!device_wait())
        return stop_device_failed(s->c);
    *seconds = now() - start;
    return result_check(&s->set, s->c);
}

/* Replaces the contender's context by a new one with the series' cache folder. */
static bool renew_context(struct series *s)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = s->b->backend,
                             .device = s->b->device,
                             .cache_dir = s->dir };

    context_end(s->c->ctx);
    s->c->ctx = NULL;
    if (limber_create(&s->c->ctx, &config) == LIMBER_STATUS_OK)
        return true;
    return contender_set_state(s->c, STATE_failed, "%.160s", limber_error_text());
}

/* Prints a line of the table.  Returns false if the series must stop after it. */
static bool end_line(struct series *s, const char *what)
{
    struct contender *c = s->c;
    double amount = 2e-12 * (double)s->w.m * (double)s->w.n * (double)s->w.k;

    contender_median(c);
    print_gpu_line(s->b,
                   &(struct line){ .what = what,
                                   .w = &s->w,
                                   .c = c,
                                   .unit = "TFLOPS",
                                   .note = origin_name(c->report.from),
                                   .value = c->times.median > 0 ? amount / c->times.median : 0 });
    return c->state == STATE_ok;
}

/* Resets the measurements for a new line of the table. */
static void begin_line(struct series *s, const char *what, int repeats)
{
    struct contender *c = s->c;

    print_progress(s->b, "%s", what);
    c->state = STATE_ok;
    *c->why = 0;
    c->times.samples = 0;
    c->times.repeats = repeats;
    c->checked.error = c->checked.allowed = c->times.median = c->times.best = 0;
}

/* Measures the first call in a new context, which makes or loads the kernel. */
static bool measure_first_call(struct series *s, const char *what)
{
    begin_line(s, what, 1);
    if (renew_context(s) && time_call(s, &s->c->times.seconds[0]))
        s->c->times.samples = 1;
    return end_line(s, what);
}

/* Measures further calls in the same context, waiting for each. */
static bool measure_later_calls(struct series *s, const char *what)
{
    begin_line(s, what, 1);
    while (s->c->times.samples < CALLS && time_call(s, &s->c->times.seconds[s->c->times.samples]))
        s->c->times.samples++;
    return end_line(s, what);
}

/* Takes CALLS samples of QUEUED calls (or launches of `graph`, if it is not NULL) in the stream. */
static void sample_queued(struct series *s, void *graph)
{
    struct contender *c = s->c;

    for (c->times.samples = 0; c->times.samples < CALLS; c->times.samples++) {
        bool ok = device_start();
        double t = -1;

        for (int i = 0; ok && i < QUEUED; i++)
            ok = graph ? device_replay(graph) : contender_call(c);
        if (ok)
            t = device_stop();
        if (t < 0) {
            if (c->state == STATE_ok)
                stop_device_failed(c);
            return;
        }
        c->times.seconds[c->times.samples] = t / QUEUED;
    }
}

/* Measures calls that are queued in a stream, without waiting for each. */
static bool measure_queued_calls(struct series *s, const char *what)
{
    begin_line(s, what, QUEUED);
    if (!result_poison(s->c))
        stop_device_failed(s->c);
    else
        sample_queued(s, NULL);
    if (s->c->state == STATE_ok)
        result_check(&s->set, s->c);
    return end_line(s, what);
}

/* Bytes of device memory for a captured call: twice what operands and limbs take, and 16 MiB. */
static size_t recorded_bytes(const struct series *s)
{
    return 2 * (s->c->report.workspace + s->w.bytes) + (1 << 24);
}

/* Captures a call in a CUDA graph, after a first call that prepares all it needs.  NULL on
 * failure. */
static void *record_graph(struct series *s)
{
    void *graph;
    bool called;

    s->c->workspace_bytes = recorded_bytes(s);
    s->c->workspace = device_alloc(s->c->workspace_bytes);
    if (!s->c->workspace) {
        contender_set_state(s->c, STATE_skipped, "%s", device_error());
        return NULL;
    }
    if (!contender_call(s->c))
        return NULL;
    if (!device_begin_capture()) {
        contender_set_state(s->c, STATE_skipped, "%s", device_error());
        return NULL;
    }
    called = contender_call(s->c);
    graph = device_end_capture();
    if (!called || !graph)
        contender_set_state(s->c, STATE_skipped, "a call cannot be recorded: %.150s",
                            called ? device_error() : limber_error_text());
    if (called)
        return graph;
    device_graph_free(graph);
    return NULL;
}

/* Measures launches of a CUDA graph of a call. */
static bool measure_replays(struct series *s, const char *what)
{
    void *graph;

    begin_line(s, what, QUEUED);
    graph = record_graph(s);
    if (graph && result_poison(s->c) && device_replay(graph) && result_check(&s->set, s->c))
        sample_queued(s, graph);
    else if (s->c->state == STATE_ok)
        stop_device_failed(s->c);
    if (s->c->state == STATE_ok)
        result_check(&s->set, s->c);
    device_graph_free(graph);
    device_free(s->c->workspace);
    s->c->workspace = NULL;
    return end_line(s, what);
}

/* Prints the latencies of one product on a GPU: first, later, queued and replayed calls. */
static void print_call_series(struct bench *b, const char *format, limber_promise promise)
{
    int64_t n = b->size_count ? b->sizes[0] : 256;
    limber_format f = format_of(format);
    bool correct = promise == LIMBER_CONTRACT_CORRECT;
    const char *first = limber_variable_value("LIMBER_CUBINS") ? "first call, LIMBER_CUBINS" :
                                                                 "first call, empty cache";
    struct series *s = calloc(1, sizeof *s);

    if (!s)
        return;
    s->b = b;
    s->w = (struct work){ .m = n,
                          .batch = 1,
                          .n = n,
                          .k = n,
                          .fa = f,
                          .fb = f,
                          .fc = f,
                          .data = { .data = DATA_normal },
                          .threads = 1,
                          .count = 1 };
    snprintf(s->w.data_name, sizeof s->w.data_name, correct ? "FP64 correct" : "FP32 native");
    s->c = &s->w.list[0];
    *s->c = (struct contender){ .work = &s->w,
                                .now = &s->set.list[0],
                                .report = LIMBER_REPORT_INIT,
                                .reports = true,
                                .contract = { .size = sizeof(limber_contract), .promise = promise },
                                .factor = 1,
                                .promise = correct ? PROMISE_rounded : PROMISE_sum };
    if (!make_directory(s->dir, sizeof s->dir)) {
        print_skipped_row(b, "small calls", "no temporary directory can be made");
    } else {
        if (!sets_alloc(&s->set, &s->w, random_bits(&b->seed), 1))
            print_skipped_row(b, s->w.data_name, s->w.why);
        else if (measure_first_call(s, first) &&
                 measure_first_call(s, "first call, cache on disk") &&
                 measure_later_calls(s, "later call, waited for") &&
                 measure_queued_calls(s, "later calls, queued"))
            measure_replays(s, "replayed by a CUDA graph");
        context_end(s->c->ctx);
        sets_free(&s->set);
        remove_directory(s->dir);
    }
    free(s);
}

bool gpu_call_rows(struct bench *b)
{
    if (!bench_time_left(b)) {
        print_skipped_row(b, "small calls", "time is up");
        return true;
    }
    print_call_series(b, "f32", LIMBER_CONTRACT_NATIVE);
    if (!device_lost())
        print_call_series(b, "f64", LIMBER_CONTRACT_CORRECT);
    return true;
}
