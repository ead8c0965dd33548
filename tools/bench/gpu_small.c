/* SPDX-License-Identifier: BSD-3-Clause
 * What a call costs besides its arithmetic: compiled, from disk, from memory, queued, replayed. */
#define _GNU_SOURCE
#include "tools/bench/gpu.h"
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <stdlib.h>
#include <string.h>

enum { CALLS = 9, QUEUED = 100 };

struct small {
    struct gpu_bench *b;
    struct gpu_work *w;
    struct contender *c;
    struct bench_set set;
    limber_context *ctx;
    char dir[4096];
};

static bool lost(struct contender *c)
{
    return contender_stop(c, STATE_failed, "%s", gpu_error());
}

static bool call(struct small *s)
{
    return contender_call(s->c, s->w, s->ctx, s->set.a[0].data, s->set.b[0].data, s->set.c[0].data);
}

/* From the call to the result, as the caller's clock sees it. */
static bool one_call(struct small *s, double *seconds)
{
    double start;

    if (!set_poison(&s->set))
        return lost(s->c);
    start = now();
    if (!call(s))
        return false;
    if (!gpu_wait())
        return lost(s->c);
    *seconds = now() - start;
    return set_check(&s->set, s->w, s->c);
}

static bool fresh_context(struct small *s)
{
    limber_config config = { .backend = s->b->backend,
                             .device = s->b->device,
                             .cache_dir = s->dir };

    context_end(s->ctx);
    if (limber_create(&s->ctx, &config) == LIMBER_STATUS_OK)
        return true;
    return contender_stop(s->c, STATE_failed, "%.160s", limber_error_text());
}

static void row(struct small *s, const char *what)
{
    static const char *const from[] = { "compiled", "from disk", "from memory", "interpreter" };
    struct contender *c = s->c;
    double sorted[MOST_SAMPLES];

    memcpy(sorted, c->seconds, sizeof sorted);
    if (c->samples > 0)
        c->median = median(sorted, c->samples, &c->best);
    s->w->what = what;
    gpu_row(s->b, &(struct gpu_row){ .w = s->w,
                                     .c = c,
                                     .unit = "TFLOPS",
                                     .note = from[c->report.from],
                                     .amount = 2e-12 * (double)s->w->m * (double)s->w->n *
                                               (double)s->w->k });
}

/* A new line of the table: nothing measured yet. */
static void begin(struct small *s, int repeats)
{
    struct contender *c = s->c;

    c->state = STATE_ok;
    *c->why = 0;
    c->samples = 0;
    c->repeats = repeats;
    c->error = c->allowed = c->median = c->best = 0;
}

static bool first_calls(struct small *s)
{
    static const char *const names[] = { "first call, empty cache", "first call, cache on disk" };

    for (int i = 0; i < 2; i++) {
        begin(s, 1);
        gpu_progress(s->b, "%s", names[i]);
        if (fresh_context(s) && one_call(s, &s->c->seconds[0]))
            s->c->samples = 1;
        row(s, names[i]);
        if (s->c->state != STATE_ok)
            return false;
    }
    return true;
}

static bool later_calls(struct small *s)
{
    begin(s, 1);
    while (s->c->samples < CALLS && one_call(s, &s->c->seconds[s->c->samples]))
        s->c->samples++;
    row(s, "later call, waited for");
    return s->c->state == STATE_ok;
}

/* Seconds of one of many calls, or launches of a graph, in the stream; negative: failed. */
static double queued(struct small *s, void *graph)
{
    double t;

    if (!gpu_start())
        return -1;
    for (int i = 0; i < QUEUED; i++)
        if (graph ? !gpu_replay(graph) : !call(s))
            return -1;
    t = gpu_stop();
    return t < 0 ? t : t / QUEUED;
}

static void sample_queued(struct small *s, void *graph)
{
    struct contender *c = s->c;

    for (c->samples = 0; c->samples < CALLS; c->samples++) {
        double t = queued(s, graph);

        if (t < 0 && c->state == STATE_ok)
            lost(c);
        if (t < 0)
            return;
        c->seconds[c->samples] = t;
    }
}

static bool queued_calls(struct small *s)
{
    begin(s, QUEUED);
    if (!set_poison(&s->set))
        lost(s->c);
    else
        sample_queued(s, NULL);
    if (s->c->state == STATE_ok)
        set_check(&s->set, s->w, s->c);
    row(s, "later calls, queued");
    return s->c->state == STATE_ok;
}

static void *record(struct small *s)
{
    void *graph;
    bool called;

    if (!gpu_record()) {
        contender_stop(s->c, STATE_skipped, "%s", gpu_error());
        return NULL;
    }
    called = call(s);
    graph = gpu_recorded();
    if (!called || !graph)
        contender_stop(s->c, STATE_skipped, "a call cannot be recorded: %.150s",
                       called ? gpu_error() : limber_error_text());
    if (called)
        return graph;
    gpu_forget(graph);
    return NULL;
}

static void replayed(struct small *s)
{
    void *graph;

    begin(s, QUEUED);
    graph = record(s);
    if (graph && set_poison(&s->set) && gpu_replay(graph) && set_check(&s->set, s->w, s->c))
        sample_queued(s, graph);
    else if (s->c->state == STATE_ok)
        lost(s->c);
    if (s->c->state == STATE_ok)
        set_check(&s->set, s->w, s->c);
    gpu_forget(graph);
    row(s, "replayed by a CUDA graph");
}

static bool folder(struct small *s)
{
    const char *tmp = limber_variable_value("TMPDIR");

    snprintf(s->dir, sizeof s->dir, "%s/limber-gpu-XXXXXX", tmp ? tmp : "/tmp");
    if (mkdtemp(s->dir))
        return true;
    gpu_skip(s->b, "small calls", "no temporary directory can be made");
    return false;
}

static void series(struct gpu_bench *b, const char *format, int n, limber_promise promise)
{
    limber_format f = format_of(format);
    struct gpu_work w = { .what = "small",
                          .data_name =
                              promise == LIMBER_CONTRACT_CORRECT ? "FP64 correct" : "FP32 native",
                          .m = n,
                          .n = n,
                          .k = n,
                          .fa = f,
                          .fb = f,
                          .fc = f,
                          .data = DATA_normal,
                          .count = 1 };
    struct small *s = calloc(1, sizeof *s);

    if (!s)
        return;
    s->b = b;
    s->w = &w;
    s->c = &w.list[0];
    *s->c = (struct contender){ .by = BY_limber,
                                .contract = { .promise = promise },
                                .factor = 1,
                                .promise = promise == LIMBER_CONTRACT_CORRECT ? PROMISE_rounded :
                                                                                PROMISE_sum };
    if (!folder(s)) {
        free(s);
        return;
    }
    if (!set_make(&s->set, &w, random_bits(&b->seed), 1))
        gpu_skip(b, w.data_name, w.why);
    else if (first_calls(s) && later_calls(s) && queued_calls(s))
        replayed(s);
    context_end(s->ctx);
    set_clear(&s->set);
    if (!remove_directory(s->dir))
        complain("gpu: %s stays behind", s->dir);
    free(s);
}

void rows_small(struct gpu_bench *b)
{
    int n = b->size_count ? b->sizes[0] : 256;

    if (!gpu_time_left(b)) {
        gpu_skip(b, "small calls", "time is up");
        return;
    }
    series(b, "f32", n, LIMBER_CONTRACT_NATIVE);
    if (!gpu_lost())
        series(b, "f64", n, LIMBER_CONTRACT_CORRECT);
}
