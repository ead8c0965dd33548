/* SPDX-License-Identifier: BSD-3-Clause
 * Simulates, on any machine, how 64 threads work on products.  The backend divides products into
 * tasks.  Instead of running them, the test adds up their predicted seconds, and a model of the
 * pool assigns them to threads.  The predictions follow from the rates in the machines'
 * descriptions.  Another test compares the bits of many threads with those of one. */
#define _GNU_SOURCE
#include "engine_support.h"

#include "ir/cpu.h"
#include "backends/llvm/loaded.h"
#include "ir/poison.h"
#include "jit/scan/scan.h"

#include <math.h>
#include <sched.h>

extern const struct backend limber_backend_llvm;

enum { WORKERS = 64 };

/* Replaces the C library's function, and reports WORKERS CPUs. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(size, set);
    for (size_t i = 0; i < WORKERS; i++)
        CPU_SET_S(i, size, set);
    return 0;
}

/* Predicted seconds on one core: for each element or limb that is scanned, packed or stored, and
 * for each item (a panel, a row of tiles, a line) that the calling thread handles between runs
 * of the pool. */
static const double scan_seconds = 0.25e-9, pack_seconds = 0.5e-9, store_seconds = 0.3e-9,
                    item_seconds = 2e-9;

/* Work and span of a product, in seconds. work: sum of all tasks. span: time from the beginning
 * to the end. alone: the part of the span in which one thread works alone, at the end of a run
 * of the pool or between runs. */
struct cost {
    double work, span, alone;
    int runs;
};

/* The state of the modelled pool. */
static struct {
    struct cost sum;
    double *task; /* [task] seconds of the current run's tasks */
    int64_t tasks;
    double side_by_side[4096]; /* [product of a batch] seconds, if the products are tasks */
    atomic_int groups;
    const struct target *target;
} model;

/* ---- a model of the pool --------------------------------------------------------------------- */

/* Returns the worker that first becomes idle, or -1 if all have ended.  at: [worker] seconds of its
 * tasks so far; done: [worker] true if it has found no more task. */
static int first_idle_worker(const double *at, const bool *done, int workers)
{
    int first = -1;

    for (int w = 0; w < workers; w++)
        if (!done[w] && (first < 0 || at[w] < at[first]))
            first = w;
    return first;
}

/* Returns a worker's next task: from its own share, else from that of a later worker; -1 if no task
 * is left. */
static int64_t next_task(int64_t (*share)[2], int workers, int w)
{
    for (int s = 0; s < workers; s++) {
        int64_t *of = share[(w + s) % workers];

        if (of[0] < of[1])
            return of[0]++;
    }
    return -1;
}

/* Simulates how the pool runs tasks with these durations, and adds the cost to model.sum. alone
 * is the time after all workers but the last have ended. */
static void add_run(const double *task, int64_t tasks)
{
    int workers = tasks < WORKERS ? (int)tasks : WORKERS, w;
    int64_t share[WORKERS][2], i;
    double at[WORKERS] = { 0 }, last = 0, before = 0;
    bool done[WORKERS] = { false };

    for (w = 0; w < workers; w++) {
        share[w][0] = w ? share[w - 1][1] : 0;
        share[w][1] = share[w][0] + tasks / workers + (w < tasks % workers);
    }
    while ((w = first_idle_worker(at, done, workers)) >= 0) {
        if ((i = next_task(share, workers, w)) >= 0)
            at[w] += task[i];
        else
            done[w] = true;
    }
    for (w = 0; w < workers; w++) {
        before = fmax(before, fmin(last, at[w]));
        last = fmax(last, at[w]);
    }
    for (i = 0; i < tasks; i++)
        model.sum.work += task[i];
    model.sum.span += last;
    model.sum.alone += last - before;
    model.sum.runs++;
}

/* Adds to model.sum the seconds in which the calling thread handles `items` items while no other
 * thread works. */
static void add_caller_seconds(double items)
{
    model.sum.work += items * item_seconds;
    model.sum.span += items * item_seconds;
    model.sum.alone += items * item_seconds;
}

/* ---- predicted seconds of a launch ----------------------------------------------------------- */

/* Replaces a kernel's packing function: records the task's predicted seconds. */
static void predict_pack(struct kernel_call *c, int64_t task)
{
    int side = task >= c->tasks[0];
    int64_t i = task - (side ? c->tasks[0] : 0), from = i / c->cuts[side] * c->lines[side];
    int64_t p0 = i % c->cuts[side] * c->depth[side], lines = c->op[side].lines - from;
    int64_t depth = c->k - p0 < c->depth[side] ? c->k - p0 : c->depth[side];
    const struct packed *o = &c->op[side];
    int limbs = c->config->side[side].limbs;

    lines = lines < c->lines[side] ? lines : c->lines[side];
    model.task[model.tasks++] = pack_seconds * (double)lines * (double)depth * limbs;
    if (i == 0) /* the calling thread clears and adds one number for each panel and block */
        add_caller_seconds((double)(limbs * o->panels * o->blocks +
                                    (o->sums ? limbs * o->chunks * o->sum_lines * 4 : 0)) /
                               64 +
                           (double)(c->config->side[side].limb_kind == LIMB_KIND_whole ?
                                        o->panels * o->blocks :
                                        0) +
                           (double)(o->scale ? o->lines : 0) / 4);
}

/* Replaces a kernel's function that multiplies one block: records its predicted seconds. */
static void predict_block(struct kernel_call *c, int64_t task, char *scratch)
{
    const struct kernel_config *f = c->config;
    int64_t i = task / c->blocks_j * c->mb, j = task % c->blocks_j * c->nb;
    double rows = (double)(c->m - i < c->mb ? c->m - i : c->mb);
    double cols = (double)(c->n - j < c->nb ? c->n - j : c->nb);

    (void)scratch;
    model.task[model.tasks++] = rows * cols * (double)c->k * f->rows / model.target->rate[f->unit] +
                                (c->stores ? 0 : rows * cols * f->accumulators * store_seconds);
}

/* Replaces the pool: lets each task record its predicted seconds, then simulates the run. */
static void predict_run(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    model.task = calloc((size_t)tasks + 1, sizeof *model.task);
    model.tasks = 0;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, (int)(i % WORKERS));
    assert_int_equal(model.tasks, tasks);
    add_run(model.task, tasks);
    free(model.task);
}

static double count_multiply_adds(const struct call *c)
{
    return (double)c->m * (double)c->n * (double)c->k;
}

/* Replaces the backend's launch: calls it with functions that record predicted seconds.  A launch
 * within a batch is one task. */
static bool predict_launch(struct kernel *k, struct call *c, struct diag *d)
{
    const struct runner runner = { WORKERS, predict_run, NULL };
    struct kernel priced = *k;
    struct call all = *c;

    if (c->runner->workers == 1) { /* the launch is a task of a batch */
        model.side_by_side[model.groups++] =
            count_multiply_adds(c) * k->config.rows / model.target->rate[k->config.unit];
        return true;
    }
    priced.pack = predict_pack;
    priced.block = predict_block;
    all.runner = &runner;
    all.ways = 0; /* no code path is allowed but the plan's kernel, whose tasks are predicted */
    if (!limber_backend_llvm.launch(&priced, &all, d))
        return false;
    c->out.workspace = all.out.workspace;
    return true;
}

/* Replaces the code of small products, which is called only as a task of a batch. */
static bool predict_direct(const struct fixed *f, const struct scaling *x, const struct target *t,
                           int size, const void *a, const void *b, void *c)
{
    const struct call call = { .m = f->m, .n = f->n, .k = f->k };

    (void)x, (void)a, (void)b, (void)c;
    model.side_by_side[model.groups++] =
        count_multiply_adds(&call) / t->rate[size == 8 ? UNIT_f64 : UNIT_f32];
    return true;
}

/* ---- predicted seconds of scans -------------------------------------------------------------- */

/* Predicted seconds of all tasks of the next run, and of the runs after it. */
static double scan_task, scan_lines;

/* Replaces the pool for a scan: all tasks of a run get the same predicted seconds. */
static void predict_scan_run(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    double *task = calloc((size_t)tasks + 1, sizeof *task);

    (void)self;
    for (int64_t i = 0; i < tasks; i++) {
        fn(arg, i, (int)(i % WORKERS));
        task[i] = scan_task / (double)tasks;
    }
    scan_task = scan_lines; /* after the first run, runs only join results of lines */
    add_run(task, tasks);
    free(task);
}

/* Adds to model.sum the predicted time of an operand's scan: runs limber_scan on a pool that only
 * adds up seconds. */
static void add_scan_seconds(const struct view *v, limber_format f, int64_t lines, int64_t length)
{
    const struct runner runner = { WORKERS, predict_scan_run, NULL };
    struct mask m;
    struct diag d = { 0 };

    scan_task = scan_seconds * (double)lines * (double)length;
    scan_lines = item_seconds * (double)lines;
    assert_true(limber_scan(&m, v, f, lines, length, SCAN_full, &runner, &d));
    add_caller_seconds((double)m.tile_rows);
    limber_mask_clear(&m);
}

/* ---- machines and shapes --------------------------------------------------------------------- */

/* All these machines have prebuilt kernels, but none of them is run. */
static const char *const machines[] = {
    "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 l2=524288 group=2 "
    "rate.f64=2.4e10 rate.f32=4.8e10 rate.f16=4.8e10 rate.i8=9.6e10 rate.exact=3.5e8 "
    "rate.model=8e9",
    "target llvm isa=avxvnni features=avx2,fma,avxvnni vector=256 registers=16 l1=49152 "
    "l2=2097152 group=4 rate.f64=2.4e10 rate.f32=4.8e10 rate.f16=4.8e10 rate.i8=1.92e11 "
    "rate.exact=3.5e8 rate.model=8e9",
    "target llvm isa=avx512vnni features=avx2,fma,avx512,avx512vnni vector=512 registers=32 "
    "l1=32768 l2=1048576 group=4 rate.f64=4.8e10 rate.f32=9.6e10 rate.f16=9.6e10 rate.i8=3.84e11 "
    "rate.exact=7e8 rate.model=1.6e10",
    "target llvm isa=amx features=avx2,fma,avx512,avx512vnni,amxint8 vector=512 registers=32 "
    "l1=49152 l2=2097152 group=4 matrix=16 rate.f64=4.8e10 rate.f32=9.6e10 rate.f16=9.6e10 "
    "rate.i8=1.2e12 rate.exact=7e8 rate.model=1.6e10",
};

/* ---- predicted cost of products -------------------------------------------------------------- */

/* The products whose speed with many threads is predicted. */
static const struct work {
    const char *name, *f, *result;
    limber_promise promise;
    enum data data;
    bool scans;
} works[] = {
    { "FP64 native", "f64", "f64", LIMBER_CONTRACT_NATIVE, DATA_unit, false },
    { "FP32 native", "f32", "f32", LIMBER_CONTRACT_NATIVE, DATA_unit, false },
    { "FP64 correct", "f64", "f64", LIMBER_CONTRACT_CORRECT, DATA_unit, true },
    { "FP32 correct", "f32", "f32", LIMBER_CONTRACT_CORRECT, DATA_unit, true },
    { "binary128", "f128", "f128", LIMBER_CONTRACT_CORRECT, DATA_unit, true },
    { "INT8", "i8", "i32", LIMBER_CONTRACT_EXACT, DATA_ints, false },
    { "doubles of bytes", "f64", "f64", LIMBER_CONTRACT_CORRECT, DATA_bytes, true },
};

/* busy: smallest allowed share of the threads' time in which they work; alone: largest allowed
 * share of the span in which one thread works alone */
static const struct shape {
    int64_t m, n, k, count;
    double busy, alone;
} shapes[] = {
    { 4096, 4096, 4096, 1, 0.85, 0.01 }, { 64, 16384, 4096, 1, 0.8, 0.04 },
    { 16384, 64, 4096, 1, 0.8, 0.1 },    { 256, 256, 65536, 1, 0.5, 0.03 },
    { 64, 64, 64, 64, 0.9, 0.01 },       { 256, 256, 256, 64, 0.9, 0.01 },
};

/* Predicts the cost of a product in model.sum.  Rows and columns are three elements apart and
 * overlap, so that operands need little memory. */
static void predict_product(limber_context *ctx, const struct work *w, const struct shape *s)
{
    limber_format f = named(w->f), result = named(w->result);
    struct rng r = { 1 };
    char *data = malloc((size_t)(s->k * 3 + s->n + s->m * 3 + s->k) * (size_t)f.size);
    void *c = malloc((size_t)(s->m * s->n * s->count * result.size));
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_batch batch = LIMBER_BATCH_INIT;
    const struct view a = { .data = data, .line = 3, .p = 1 },
                      b = { .data = data, .line = 1, .p = 3 };

    assert_true(data && c);
    fill(&r, w->data, f, data, (size_t)(s->k * 3 + s->n + s->m * 3 + s->k));
    memset(&model.sum, 0, sizeof model.sum);
    model.groups = 0;
    contract.promise = w->promise;
    batch.count = s->count;
    batch.c = s->m * s->n;
    p.m = s->m;
    p.n = s->n;
    p.k = s->k;
    p.a = (limber_matrix){ data, f, 3, 1 };
    p.b = (limber_matrix){ data, f, 3, 1 };
    p.c = (limber_output){ c, result, s->n, 1 };
    p.contract = &contract;
    p.batch = s->count > 1 ? &batch : NULL;
    if (limber_run(ctx, &p, NULL) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", w->name, limber_error_text());
    if (model.groups)
        add_run(model.side_by_side, model.groups);
    if (w->scans && s->count == 1) {
        add_scan_seconds(&a, f, s->m, s->k);
        add_scan_seconds(&b, f, s->n, s->k);
    }
    free(data);
    free(c);
}

static struct backend priced_backend;
static struct cpu_ops cpu;
static const struct backend *const priced_list[] = { &priced_backend, NULL };

/* Opens a context for a described machine, whose launches are predicted but not computed. */
static limber_context *create_predicting_context(const char *machine)
{
    limber_context *ctx;
    struct target *t;
    struct diag d = { 0 };

    priced_backend = limber_backend_llvm;
    priced_backend.launch = predict_launch;
    cpu = *limber_backend_llvm.cpu;
    cpu.direct = predict_direct;
    priced_backend.cpu = &cpu;
    if (!limber_context_make(&ctx,
                             &(limber_config){ .size = sizeof(limber_config),
                                               .cache_dir = "",
                                               .kernels = LIMBER_KERNELS_PREBUILT,
                                               .threads = WORKERS },
                             priced_list, &d)) {
        skip_because("%s", d.text);
    }
    ctx->ways &= ~(limber_way_bit(WAY_pairs) | limber_way_bit(WAY_depthwise_pairs));
    t = &ctx->machine.target;
    if (!limber_target_parse(t, machine, &d))
        fail_msg("%s", d.text);
    limber_target_complete(t);
    model.target = t;
    return ctx;
}

/* Checks all shapes on one machine: the share of time in which threads work, and the share in which
 * one thread works alone. */
static void check_machine(size_t machine)
{
    limber_context *ctx = create_predicting_context(machines[machine]);

    limber_cpu_emulated = limber_cpu_of(model.target);
    print_message("%s\n", ctx->machine.target.isa);
    for (size_t i = 0; i < COUNT(works); i++)
        for (size_t j = 0; j < COUNT(shapes); j++) {
            const struct shape *s = &shapes[j];
            double busy, alone;

            if (!is_taken(machine + i + j, 3))
                continue;
            predict_product(ctx, &works[i], s);
            busy = model.sum.work / model.sum.span / WORKERS;
            alone = model.sum.alone / model.sum.span;
            print_message("%-16s %5d x %5d x %5d, %2d: %3d runs, %8.3f ms, threads busy %.3f, "
                          "one alone %.4f\n",
                          works[i].name, (int)s->m, (int)s->n, (int)s->k, (int)s->count,
                          model.sum.runs, model.sum.span * 1e3, busy, alone);
            if (busy < s->busy || alone > s->alone)
                fail_msg("threads are busy %.3f, not %.3f, or one alone %.4f, not %.4f", busy,
                         s->busy, alone, s->alone);
        }
    limber_cpu_emulated = 0;
    limber_destroy(ctx);
}

/* On each machine of the list, threads work for the required share of a product's predicted
 * time. */
static void threads_are_busy(void **state)
{
    bool poisons = limber_poisons;

    (void)state;
    limber_poisons = false; /* so that workspaces are counted but not filled with a pattern */
    for (size_t i = 0; i < (SANITIZED ? 1 : COUNT(machines)); i++)
        check_machine(i);
    limber_poisons = poisons;
}

/* ---- bits with many threads ------------------------------------------------------------------ */

/* Opens a context with prebuilt kernels.  Skips the test if there are none. */
static limber_context *context_of(int threads)
{
    limber_context *ctx;

    if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                              .backend = "llvm",
                                              .cache_dir = "",
                                              .kernels = LIMBER_KERNELS_PREBUILT,
                                              .threads = threads }) != LIMBER_STATUS_OK) {
        skip_because("%s", limber_error_text());
    }
    return ctx;
}

/* Computes a product of dense matrices in new memory, which the caller frees. */
static void *result_of(limber_context *ctx, const struct work *w, const struct shape *s,
                       const void *a, const void *b)
{
    limber_format f = named(w->f), result = named(w->result);
    void *c = calloc((size_t)(s->m * s->n), (size_t)result.size);
    limber_contract contract = LIMBER_CONTRACT_INIT;

    assert_non_null(c);
    contract.promise = w->promise;
    if (limber_gemm(ctx, &contract, s->m, s->n, s->k, NULL, (limber_matrix){ a, f, s->k, 1 },
                    (limber_matrix){ b, f, s->n, 1 }, NULL, (limber_output){ c, result, s->n, 1 },
                    NULL) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", w->name, limber_error_text());
    return c;
}

/* Compares the bits of a product in a context with one thread and in one with many. */
static void compare(limber_context *one, limber_context *many, const struct work *w,
                    const struct shape *s)
{
    limber_format f = named(w->f), result = named(w->result);
    char *a = malloc((size_t)(s->m * s->k * f.size)), *b = malloc((size_t)(s->k * s->n * f.size));
    struct rng r = { 7 };
    void *x, *y;

    assert_true(a && b);
    fill(&r, w->data, f, a, (size_t)(s->m * s->k));
    fill(&r, w->data, f, b, (size_t)(s->k * s->n));
    x = result_of(one, w, s, a, b);
    y = result_of(many, w, s, a, b);
    if (memcmp(x, y, (size_t)(s->m * s->n * result.size)) != 0)
        fail_msg("%s, %d x %d x %d: other bits with %d threads", w->name, (int)s->m, (int)s->n,
                 (int)s->k, WORKERS);
    free(a);
    free(b);
    free(x);
    free(y);
}

/* Results have the bits of one thread for shapes in which many threads divide blocks, packing
 * and scans into smaller tasks. */
static void bits_are_those_of_one_thread(void **state)
{
    static const struct shape small[] = {
        { .m = 200, .n = 130, .k = 300 },
        { .m = 70, .n = 90, .k = 5000 },
        { .m = 1, .n = 3000, .k = 700 },
        { .m = 1500, .n = 17, .k = 1100 },
    };
    limber_context *one = context_of(1), *many = context_of(WORKERS);

    (void)state;
    for (size_t i = 0; i < COUNT(works); i++)
        for (size_t j = 0; j < COUNT(small); j++)
            compare(one, many, &works[i], &small[j]);
    limber_destroy(one);
    limber_destroy(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_busy),
        cmocka_unit_test(bits_are_those_of_one_thread),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
