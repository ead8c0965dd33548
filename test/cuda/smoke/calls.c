/* SPDX-License-Identifier: BSD-3-Clause
 * Smoke tests of library calls on device memory, compared with the interpreter.  The engine chooses
 * the kernels, so reports name wrong rows and columns, but no lanes. */
#include "smoke.h"

#include "gpus.h"

#include <limber/ops.h>

#include <stdlib.h>
#include <string.h>

extern const struct backend limber_backend_cuda;

/* ---- attributes of the device ---------------------------------------------------------------- */

/* Writes a JSON line that describes the device. */
static void print_device(FILE *out, const struct target *t, const char *name, size_t bytes)
{
    fprintf(out, "{\"device\": ");
    smoke_print_json_string(out, name);
    fprintf(out,
            ", \"arch\": \"%s\", \"features\": \"%s\", \"sums\": \"%s\", \"shared\": %lld, "
            "\"l2\": %lld, \"memory\": %zu, \"driver\": %d}\n",
            t->isa, t->features, t->sums, (long long)t->shared, (long long)t->l2, bytes,
            smoke_driver->version);
}

/* Describes the device, and checks that its memory keeps what is written to it.  No kernel runs. */
void smoke_attributes(struct report *r)
{
    enum { BYTES = 1 << 20 };
    const struct cuda_driver *c = smoke_driver;
    struct target t = { .device = 0 };
    char name[256] = "", *data = malloc(BYTES), *back = malloc(BYTES);
    struct memory m = { 0 };
    struct diag d = { 0 };
    size_t total = 0;
    bool right = false;

    for (int i = 0; data && i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 251);
    if (!data || !back || !limber_backend_cuda.probe(&t, &d) ||
        !limber_cuda_ok(c, c->cuDeviceGetName(name, sizeof name, 0), "naming the device", &d) ||
        !limber_cuda_ok(c, c->cuDeviceTotalMem_v2(&total, 0), "asking for memory", &d)) {
        smoke_failed(r, "device", "attributes", d.text);
    } else if (!smoke_upload(&m, data, BYTES, &d) || !smoke_download(back, &m, &d)) {
        smoke_failed(r, "copies", "attributes", d.text);
    } else {
        right = memcmp(data, back, BYTES) == 0;
        r->compared = BYTES;
        smoke_count_run(r, right, "copies", "attributes");
        print_device(r->details, &t, name, total);
    }
    smoke_free(&m);
    free(data);
    free(back);
}

/* ---- scans by the device --------------------------------------------------------------------- */

/* Counts a run that has one stage, and reports the stage if this is the first wrong run. */
static void report_stage(struct report *r, struct stage *s, const char *run)
{
    if (smoke_count_run(r, s->wrong == 0, s->name, run)) {
        fprintf(r->details, "{\"stage\": \"%s\", \"compared\": %lld, \"wrong\": %lld}\n", s->name,
                (long long)s->compared, (long long)s->wrong);
        smoke_describe(r->details, s, NULL);
    }
    r->compared += s->compared;
    free(s->bad);
}

/* Compares the device's scan of a matrix with the host's.  across: lines are strided. */
static void scan(struct report *r, const char *format, enum data data, int64_t lines,
                 int64_t length, bool across)
{
    limber_format f = named(format);
    size_t bytes = (size_t)(lines * length) * f.size;
    struct rng random = { 3 };
    struct stage s = { 0 };
    struct memory m = { 0 };
    struct diag d = { 0 };
    char *host = malloc(bytes), run[80];
    struct view v = { host, across ? 1 : length, across ? lines : 1, NULL, NULL, NULL }, there = v;

    snprintf(run, sizeof run, "%s, %s, %lld lines of %lld%s", format, data_name(data),
             (long long)lines, (long long)length, across ? ", across" : "");
    fprintf(stderr, "  %s\n", run);
    if (host)
        fill(&random, data, f, host, (size_t)(lines * length));
    if (!host || !smoke_upload(&m, host, bytes, &d)) {
        smoke_failed(r, "memory", run, d.text);
    } else {
        there.data = (const void *)(uintptr_t)m.at;
        if (smoke_scan(r, &s, &v, &there, f, lines, length, &d))
            report_stage(r, &s, run);
        else
            smoke_failed(r, "scan", run, d.text);
    }
    smoke_free(&m);
    free(host);
}

void smoke_scans(struct report *r)
{
    scan(r, "f64", DATA_unit, 70, 130, false);
    scan(r, "f64", DATA_special, 33, 1000, true);
    scan(r, "f32", DATA_tiny, 40, 200, false);
    scan(r, "f32", DATA_range, 5, 5000, true);
}

/* ---- calls of the public interface ----------------------------------------------------------- */

/* Host and device copies of A, B and C.  host[2] has the interpreter's C, `got` the device's. */
struct numbers3 {
    limber_context *cuda, *reference;
    limber_format f;
    int64_t rows, cols; /* rows and columns of C */
    size_t bytes[3];
    char *host[3], *got;
    struct memory there[3];
};

static void close_calls(struct numbers3 *x)
{
    for (int i = 0; i < 3; i++) {
        free(x->host[i]);
        smoke_free(&x->there[i]);
    }
    free(x->got);
    limber_destroy(x->cuda);
    limber_destroy(x->reference);
}

/* Copies A, B and C to the device, into new memory. */
static bool upload(struct numbers3 *x, struct diag *d)
{
    for (int i = 0; i < 3; i++) {
        smoke_free(&x->there[i]);
        if (!smoke_upload(&x->there[i], x->host[i], x->bytes[i], d))
            return false;
    }
    return true;
}

static limber_status open_context(limber_context **ctx, const char *backend)
{
    const limber_config config = { .size = sizeof config, .backend = backend, .cache_dir = "" };

    return limber_create(ctx, &config);
}

/* Opens both contexts and fills the matrices with random data.  count: elements of A, B and C. */
static bool open_calls(struct numbers3 *x, struct report *r, const char *format, enum data data,
                       const int64_t count[3])
{
    struct rng random = { 11 };
    struct diag d = { 0 };
    bool ok = !open_context(&x->cuda, "cuda") && !open_context(&x->reference, "interp");

    if (!ok)
        limber_fail(&d, LIMBER_STATUS_DEVICE, "%s", limber_error_text());
    x->f = named(format);
    for (int i = 0; ok && i < 3; i++) {
        x->bytes[i] = (size_t)count[i] * x->f.size;
        x->host[i] = malloc(x->bytes[i]);
        if (x->host[i])
            fill(&random, data, x->f, x->host[i], (size_t)count[i]);
        ok = x->host[i] != NULL;
    }
    x->got = ok ? malloc(x->bytes[2]) : NULL;
    if (x->got && upload(x, &d))
        return true;
    smoke_failed(r, "memory", format, d.text);
    return false;
}

/* Returns operand i on the device (`there`) or on the host; row: its row stride. */
static limber_matrix matrix_at(const struct numbers3 *x, int i, bool there, int64_t row)
{
    return (limber_matrix){ there ? (const void *)(uintptr_t)x->there[i].at : x->host[i], x->f, row,
                            1 };
}

static limber_output output_at(const struct numbers3 *x, bool there, int64_t row)
{
    return (limber_output){ there ? (void *)(uintptr_t)x->there[2].at : x->host[2], x->f, row, 1 };
}

/* Compares all of C on the device with the interpreter's C. */
static void compare_c(struct report *r, struct numbers3 *x, const char *stage, const char *run)
{
    struct diag d = { 0 };
    struct stage s;

    fprintf(stderr, "  %s, %s\n", stage, run);
    if (!smoke_download(x->got, &x->there[2], &d) ||
        !smoke_stage(&s, stage, SITE_none, x->rows, x->cols)) {
        smoke_failed(r, stage, run, d.text);
        return;
    }
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            size_t at = (size_t)(i * x->cols + j) * x->f.size;

            smoke_compare(&s, 0, i, j, x->f, x->got + at, x->host[2] + at);
        }
    report_stage(r, &s, run);
}

static const limber_contract fast_ozaki2 = { .size = sizeof(limber_contract),
                                             .promise = LIMBER_CONTRACT_FAST,
                                             .scheme = "ozaki2" };
static const limber_contract correct_ozaki2 = { .size = sizeof(limber_contract),
                                                .promise = LIMBER_CONTRACT_CORRECT,
                                                .scheme = "ozaki2" };

/* Multiplies complex matrices by four and by three real products.  The report counts a complex
 * column of C as two. */
void smoke_complex(struct report *r)
{
    enum { M = 70, N = 45, K = 40 };
    static const char *const ways[] = { "three products", "four products" };

    for (int products = 4; products >= 3; products--) {
        const double one[2] = { 1, 0 }, zero[2] = { 0, 0 };
        struct numbers3 x = { .rows = M, .cols = 2 * N };
        limber_status s = LIMBER_STATUS_OK;

        if (open_calls(&x, r, "f64", DATA_unit, (int64_t[]){ 2 * M * K, 2 * K * N, 2 * M * N })) {
            for (int there = 0; !s && there < 2; there++)
                s = gemm_complex(there ? x.cuda : x.reference,
                                 products == 3 ? &fast_ozaki2 : &correct_ozaki2, NULL, M, N, K, one,
                                 matrix_at(&x, 0, there, K), 0, matrix_at(&x, 1, there, N), 1, zero,
                                 output_at(&x, there, N), NULL, products);
            if (s)
                smoke_failed(r, "call", ways[products - 3], limber_error_text());
            else
                compare_c(r, &x, ways[products - 3], "f64");
            r->kernels += 2;
        }
        close_calls(&x);
    }
}

enum { GRAPH_M = 140, GRAPH_N = 60, GRAPH_K = 70 };

/* Computes the product that the graph records: on the device (there = true), or by the
 * interpreter. */
static limber_status graph_product(const struct numbers3 *x, const limber_contract *c, bool there,
                                   const limber_queue *queue)
{
    return gemm_batch(there ? x->cuda : x->reference, c, queue, NULL, GRAPH_M, GRAPH_N, GRAPH_K,
                      NULL, matrix_at(x, 0, there, GRAPH_K), matrix_at(x, 1, there, GRAPH_N), NULL,
                      output_at(x, there, GRAPH_N), NULL);
}

/* Records a product into a graph.  Its kernels must have been loaded. */
static bool record_product(const struct numbers3 *x, const limber_queue *queue, struct driver *c,
                           void **play, struct diag *d)
{
    void *graph = NULL;
    bool ok = limber_cuda_ok(smoke_driver, c->cuStreamBeginCapture_v2(queue->stream, 0),
                             "beginning a capture", d);
    bool ran = ok && !graph_product(x, &correct_ozaki2, true, queue);

    if (ok && !ran)
        limber_fail(d, LIMBER_STATUS_DEVICE, "recording: %s", limber_error_text());
    ok = ok &&
         limber_cuda_ok(smoke_driver, c->cuStreamEndCapture(queue->stream, &graph),
                        "ending a capture", d) &&
         ran &&
         limber_cuda_ok(smoke_driver, c->cuGraphInstantiateWithFlags(play, graph, 0),
                        "making a graph", d);
    if (graph)
        c->cuGraphDestroy(graph);
    return ok;
}

/* Multiplies on a stream, then records the product and replays the graph on two sets of data: of
 * the class that the recorded plan supports, and of another, which the fallback plan computes. */
static void check_replay(struct report *r, struct numbers3 *x, struct driver *c,
                         const limber_queue *queue)
{
    static const enum data data[] = { DATA_unit, DATA_range };
    limber_contract any = correct_ozaki2;
    struct rng random = { 17 };
    struct diag d = { 0 };
    void *graph = NULL;

    any.scheme = NULL;
    if (graph_product(x, &correct_ozaki2, true, queue) ||
        graph_product(x, &correct_ozaki2, false, NULL)) {
        smoke_failed(r, "call", "in a queue", limber_error_text());
        return;
    }
    compare_c(r, x, "call", "in a queue");
    if (!record_product(x, queue, c, &graph, &d)) {
        smoke_failed(r, "capture", "recorded", d.text);
        return;
    }
    for (int i = 0; i < 2; i++) {
        for (int side = 0; side < 2; side++)
            fill(&random, data[i], x->f, x->host[side], x->bytes[side] / x->f.size);
        /* sides A and B: the graph reads its operands at these addresses */
        for (int side = 0; side < 2; side++)
            smoke_driver->cuMemcpyHtoDAsync_v2(x->there[side].at, x->host[side], x->bytes[side],
                                               smoke_stream);
        if (!limber_cuda_ok(smoke_driver, smoke_driver->cuStreamSynchronize(smoke_stream),
                            "copying", &d) ||
            !limber_cuda_ok(smoke_driver, c->cuGraphLaunch(graph, queue->stream), "playing a graph",
                            &d) ||
            !limber_cuda_ok(smoke_driver, smoke_driver->cuStreamSynchronize(queue->stream),
                            "playing a graph", &d)) {
            smoke_failed(r, "play", data_name(data[i]), d.text);
            return;
        }
        if (graph_product(x, i ? &any : &correct_ozaki2, false, NULL))
            smoke_failed(r, "interpreter", data_name(data[i]), limber_error_text());
        else
            compare_c(r, x, i ? "graph, fallback" : "graph", data_name(data[i]));
    }
    c->cuGraphExecDestroy(graph);
}

/* Computes products on a stream with a caller's workspace, records one into a graph and replays
 * it. */
void smoke_graph(struct report *r)
{
    struct numbers3 x = { .rows = GRAPH_M, .cols = GRAPH_N };
    struct memory space = { 0 };
    struct diag d = { 0 };
    struct driver c;
    size_t least, best;

    if (open_calls(&x, r, "f64", DATA_unit,
                   (int64_t[]){ GRAPH_M * GRAPH_K, GRAPH_K * GRAPH_N, GRAPH_M * GRAPH_N })) {
        limber_queue queue = { .size = sizeof queue, .capture = LIMBER_CAPTURE_READY };

        if (gemm_workspace(x.cuda, &correct_ozaki2, GRAPH_M, GRAPH_N, GRAPH_K, NULL,
                           matrix_at(&x, 0, true, GRAPH_K), matrix_at(&x, 1, true, GRAPH_N), NULL,
                           output_at(&x, true, GRAPH_N), &least, &best)) {
            smoke_failed(r, "call", "workspace", limber_error_text());
        } else if (!driver_open(&c) || !smoke_upload(&space, NULL, best, &d)) {
            smoke_failed(r, "memory", "workspace", d.text);
        } else {
            queue.stream = smoke_stream;
            queue.workspace = (void *)(uintptr_t)space.at;
            queue.bytes = best;
            check_replay(r, &x, &c, &queue);
            r->kernels += 3; /* kernels: scan, plan and fallback */
        }
        smoke_free(&space);
    }
    close_calls(&x);
}

/* Applies epilogue steps to a product, in a separate kernel. */
void smoke_steps(struct report *r)
{
    enum { M = 70, N = 45, K = 40 };
    struct numbers3 x = { .rows = M, .cols = N };
    limber_status s = LIMBER_STATUS_OK;

    if (open_calls(&x, r, "f32", DATA_unit, (int64_t[]){ M * K, K * N, M * N })) {
        for (int there = 0; !s && there < 2; there++) {
            limber_problem p =
                gemm_problem(&correct, M, N, K, NULL, matrix_at(&x, 0, there, K),
                             matrix_at(&x, 1, there, N), NULL, output_at(&x, there, N));
            limber_epilogue e = LIMBER_EPILOGUE_INIT;

            e.steps = "%1 = gelu %x\n%2 = mul %1 3\n%3 = max %2 -0.25";
            p.epilogue = &e;
            s = limber_run(there ? x.cuda : x.reference, &p, NULL);
        }
        if (s)
            smoke_failed(r, "call", "steps", limber_error_text());
        else
            compare_c(r, &x, "steps", "f32, correct");
        r->kernels += 3; /* kernels: scan, product and steps */
    }
    close_calls(&x);
}

/* Applies elementary functions to special values on the device, and compares them with the
 * interpreter's results. */
void smoke_apply(struct report *r)
{
    static const limber_function functions[] = { LIMBER_FUNCTION_TANH, LIMBER_FUNCTION_EXP };

    for (size_t i = 0; i < COUNT(functions); i++) {
        enum { ROWS = 40, COLS = 100 };
        const char *name = limber_function_at((int)functions[i], NULL, NULL);
        struct numbers3 x = { .rows = ROWS, .cols = COLS };
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
        limber_status s = LIMBER_STATUS_OK;

        if (open_calls(&x, r, i ? "f64" : "f32", DATA_special,
                       (int64_t[]){ ROWS * COLS, 1, ROWS * COLS })) {
            e.function = functions[i];
            e.from = e.to = x.f;
            e.count = ROWS * COLS;
            for (int there = 0; !s && there < 2; there++) {
                e.src = matrix_at(&x, 0, there, COLS).data;
                e.dst = output_at(&x, there, COLS).data;
                s = limber_apply(there ? x.cuda : x.reference, &e);
            }
            if (s)
                smoke_failed(r, "call", name, limber_error_text());
            else
                compare_c(r, &x, "apply", name);
            r->kernels++;
        }
        close_calls(&x);
    }
}
