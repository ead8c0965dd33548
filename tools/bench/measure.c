/* SPDX-License-Identifier: BSD-3-Clause
 * Measures one row of the benchmark: makes operands, calls every contender and checks its result,
 * then takes samples of all contenders in turn.  Only contenders with a right result are timed, and
 * the result is checked again afterwards. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

/* MOST_REPEATS: calls in a sample. READ_WHOLE: bytes of a result that is searched for elements that
 * were not written. */
enum { MOST_REPEATS = 1000, READ_WHOLE = 64 << 20 };
/* Seconds of a call above which fewer samples are taken. */
static const double slow = 0.1, very_slow = 1;

bool contender_set_state(struct contender *c, enum state state, const char *format, ...)
{
    va_list args;

    c->state = state;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return false;
}

/* Ends a contender whose call returned an error: its state is `skipped` if no scheme keeps the
 * contract or memory is short, else `failed`. */
static bool stop_limber_failed(struct contender *c, limber_status status)
{
    bool refused = status == LIMBER_STATUS_NO_SCHEME || status == LIMBER_STATUS_NO_MEMORY;

    c->refused = status == LIMBER_STATUS_NO_SCHEME;
    return contender_set_state(c, refused ? STATE_skipped : STATE_failed, "%s: %.160s",
                               limber_status_name(status), limber_error_text());
}

/* ---- operands of a row ----------------------------------------------------------------------- */

/* Sets the tensors' sizes.  A row of a tensor is a row of a matrix, an image or a filter. */
static void set_tensor_sizes(const struct work *w, struct tensor *a, struct tensor *b,
                             struct tensor *y)
{
    const limber_conv *s = &w->conv;
    const struct tensor image = { .rows = s->n, .cols = s->c * conv_pixels(s) };
    const struct tensor filters = { .rows = s->o,
                                    .cols =
                                        s->groups ? s->c / s->groups * conv_window_size(s) : 0 };
    int64_t oh = 0, ow = 0, od = 0;
    struct tensor output;

    if (w->operation != LIMBER_OPERATION_GEMM) {
        limber_conv_output(s, &oh, &ow);
        limber_conv_output_depth(s, &od);
    }
    output = (struct tensor){ .rows = s->n, .cols = s->o * od * oh * ow };
    switch (w->operation) {
    case LIMBER_OPERATION_GEMM:
        *a = (struct tensor){ .rows = w->batch * (w->ta ? w->k : w->m),
                              .cols = w->ta ? w->m : w->k };
        *b = (struct tensor){ .rows = w->batch * (w->tb ? w->n : w->k),
                              .cols = w->tb ? w->k : w->n };
        *y = (struct tensor){ .rows = w->batch * w->m, .cols = w->n };
        break;
    case LIMBER_OPERATION_CONV_FORWARD: *a = image, *b = filters, *y = output; break;
    case LIMBER_OPERATION_CONV_BACKWARD_DATA: *a = output, *b = filters, *y = image; break;
    case LIMBER_OPERATION_CONV_BACKWARD_FILTER: *a = image, *b = output, *y = filters; break;
    }
    a->format = w->fa;
    b->format = w->fb;
    y->format = w->fc;
}

/* Returns how many sets of operands together are twice as large as the L2 cache, so that each call
 * reads its operands from memory; at most `most`. */
static int set_count(size_t bytes, int most)
{
    size_t n = bytes ? 2 * device_info()->l2 / bytes + 1 : 1;

    return n > (size_t)most ? most : (int)n;
}

/* Allocates tensors on the device, and copies their rows from the pool. */
static bool fill_sets(struct tensor *list, const struct pool *p, int sets, uint64_t seed)
{
    size_t bytes = (size_t)(p->segments * p->length) * p->format.size;
    void *device = device_alloc(bytes);
    bool ok = device && device_put(device, p->data, bytes);

    for (int i = 0; ok && i < sets; i++) {
        list[i].pool = p;
        list[i].seed = seed + 0x100000000u * (uint64_t)i;
        list[i].data = device_alloc(tensor_bytes(&list[i]));
        ok = list[i].data && tensor_fill(&list[i], device);
    }
    device_free(device);
    return ok;
}

/* Returns the distribution of B's data.  B is normal if rows of A are scaled or mixed, since
 * scaling a row of B would not scale a column.  Only A has NaN and infinities. */
static struct data_kind data_of_b(struct data_kind d)
{
    if (d.data == DATA_scaled || d.data == DATA_mixed)
        d.data = DATA_normal;
    d.special = 0;
    return d;
}

/* Fills all sets from two pools of random numbers. */
static bool fill_operands(struct operand_sets *s, const struct work *w, uint64_t seed)
{
    if (w->data.data == DATA_cancels)
        s->pb.repeats = s->a[0].cols / 2;
    return pool_fill(&s->pa, w->data, w->fa, s->a[0].cols, seed) &&
           pool_fill(&s->pb, data_of_b(w->data), w->fb, s->b[0].cols, seed + 1) &&
           fill_sets(s->a, &s->pa, s->sets, random_bits(&seed)) &&
           fill_sets(s->b, &s->pb, s->sets, random_bits(&seed));
}

/* Allocates a result for each set of operands, and lists all sets.  False if memory is short. */
static bool alloc_results(struct operand_sets *s)
{
    for (int i = 0; i < s->sets; i++) {
        s->y[i].data = device_alloc(tensor_bytes(&s->y[i]));
        if (!s->y[i].data)
            return false;
        s->list[i] = (struct operands){ .fa = s->a[i].format,
                                        .fb = s->b[i].format,
                                        .fy = s->y[i].format,
                                        .a = s->a[i].data,
                                        .b = s->b[i].data,
                                        .y = s->y[i].data };
    }
    return true;
}

/* Checks that the free device memory suffices for all sets; else sets w->why. */
static bool check_memory(const struct operand_sets *s, struct work *w)
{
    size_t left = device_memory_free(), need = w->bytes * (size_t)s->sets;

    if (need <= left / 8 * 7)
        return true;
    snprintf(w->why, sizeof w->why, "operands take %.1f GiB and %.1f GiB are free",
             (double)need / (1 << 30), (double)left / (1 << 30));
    return false;
}

/* Allocates enough sets of operands that repeated calls miss the L2 cache, but at most `most`. */
bool sets_alloc(struct operand_sets *s, struct work *w, uint64_t seed, int most)
{
    bool checked = w->data.data != DATA_spread; /* sums of DATA_spread may overflow the format */
    bool ok;

    memset(s, 0, sizeof *s);
    set_tensor_sizes(w, &s->a[0], &s->b[0], &s->y[0]);
    w->bytes = tensor_bytes(&s->a[0]) + tensor_bytes(&s->b[0]) + tensor_bytes(&s->y[0]);
    s->sets = set_count(w->bytes, most);
    if (!check_memory(s, w))
        return false;
    for (int i = 1; i < s->sets; i++)
        set_tensor_sizes(w, &s->a[i], &s->b[i], &s->y[i]);
    ok = fill_operands(s, w, seed) && alloc_results(s);
    if (ok && checked)
        s->reference = reference_make(w, &s->a[0], &s->b[0]);
    ok = ok && (s->reference || !checked);
    if (!ok)
        snprintf(w->why, sizeof w->why, "operands could not be made: %.150s",
                 *device_error() ? device_error() : "out of memory");
    return ok;
}

void sets_free(struct operand_sets *s)
{
    for (int i = 0; i < s->sets; i++) {
        device_free(s->a[i].data);
        device_free(s->b[i].data);
        device_free(s->y[i].data);
    }
    pool_clear(&s->pa);
    pool_clear(&s->pb);
    reference_free(s->reference);
    memset(s, 0, sizeof *s);
}

static size_t result_bytes(const struct contender *c)
{
    return (size_t)(c->work->batch * c->work->m * c->work->n) * c->now->fy.size;
}

/* Fills the result with NaN, so that elements that are not written show. */
bool result_poison(const struct contender *c)
{
    return device_fill(c->now->y, 0xff, result_bytes(c));
}

/* True if no element still holds the poison, which is a NaN in every float format.  Results of
 * integers, and of more than READ_WHOLE bytes, are not examined. */
static bool is_all_written(struct contender *c)
{
    size_t bytes = result_bytes(c), size = c->now->fy.size, at = 0;
    unsigned char poison[ELEMENT], *y;

    if (c->now->fy.kind != LIMBER_KIND_FLOAT || bytes > READ_WHOLE || !(y = malloc(bytes + 1)))
        return true;
    memset(poison, 0xff, sizeof poison);
    if (!device_get(y, c->now->y, bytes))
        contender_set_state(c, STATE_failed, "%s", device_error());
    else
        while (at < bytes && memcmp(y + at, poison, size))
            at += size;
    free(y);
    if (c->state == STATE_ok && at < bytes)
        contender_set_state(c, STATE_wrong, "row %lld, column %lld was not written",
                            (long long)(at / size) / c->work->n,
                            (long long)(at / size) % c->work->n);
    return c->state == STATE_ok;
}

/* Copies picked elements of the contender's result and compares them with the reference, if
 * there is one.  False if the device fails, or the result is wrong. */
bool result_check(const struct operand_sets *s, struct contender *c)
{
    const char *y = c->now->y;
    size_t size = c->now->fy.size;

    if (!device_wait())
        return contender_set_state(c, STATE_failed, "%s", device_error());
    if (!s->reference)
        return true;
    for (int i = 0; i < PICKS; i++)
        if (!device_get(c->checked.got[i], y + (size_t)reference_place(s->reference, i) * size,
                        size))
            return contender_set_state(c, STATE_failed, "%s", device_error());
    return reference_check(s->reference, c) && is_all_written(c);
}

bool same_bits(const struct contender *x, const struct contender *y)
{
    for (int i = 0; i < PICKS; i++)
        if (memcmp(x->checked.got[i], y->checked.got[i], x->work->fc.size))
            return false;
    return true;
}

/* ---- copies of operands for peers in other formats ------------------------------------------- */

/* Copies of operands in other formats; contenders with equal formats share a copy. */
struct copies {
    struct operands list[MOST_CONTENDERS];
    int count;
};

/* Parses one format, or three for A, B and C, such as "u8 i8 i32". */
static void parse_formats(const char *words, struct operands *o)
{
    char a[8] = "", b[8] = "", y[8] = "";

    sscanf(words, "%7s %7s %7s", a, b, y);
    o->formats = words;
    o->fa = format_of(a);
    o->fb = *b ? format_of(b) : o->fa;
    o->fy = *y ? format_of(y) : o->fa;
}

/* Returns a converted copy of an array, which the caller frees. */
static void *convert_copy(limber_format to, const void *x, limber_format from, int64_t count)
{
    void *out = malloc((size_t)count * to.size);

    if (out &&
        limber_convert(out, to, x, from, (size_t)count, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK)
        return out;
    free(out);
    return NULL;
}

/* Returns the operands for a peer: the work's own, or copies on the host in the peer's formats.
 * NULL if memory is exhausted. */
static const struct operands *operands_for(const struct peer *p, const struct work *w,
                                           const struct operand_sets *s, struct copies *copies)
{
    const struct operands *own = &s->list[0];
    struct operands *o = &copies->list[copies->count];

    if (!p->formats)
        return own;
    for (int i = 0; i < copies->count; i++)
        if (!strcmp(copies->list[i].formats, p->formats))
            return &copies->list[i];
    parse_formats(p->formats, o);
    if (limber_format_equal(o->fa, w->fa) && limber_format_equal(o->fb, w->fb) &&
        limber_format_equal(o->fy, w->fc))
        return own;
    copies->count++;
    o->a = convert_copy(o->fa, own->a, w->fa, s->a[0].rows * s->a[0].cols);
    o->b = convert_copy(o->fb, own->b, w->fb, s->b[0].rows * s->b[0].cols);
    o->y = calloc((size_t)(w->batch * w->m * w->n), o->fy.size);
    return o;
}

static void free_copies(struct copies *copies)
{
    for (int i = 0; i < copies->count; i++) {
        free((void *)(uintptr_t)copies->list[i].a);
        free((void *)(uintptr_t)copies->list[i].b);
        free(copies->list[i].y);
    }
}

/* ---- one call of a contender ----------------------------------------------------------------- */

/* Describes a matrix whose rows have `cols` elements, or, if transposed, whose columns have
 * `rows`. */
static limber_matrix matrix_of(const void *data, limber_format f, int64_t cols, bool transposed,
                               int64_t rows)
{
    return (limber_matrix){ (void *)(uintptr_t)data, f, transposed ? 1 : cols,
                            transposed ? rows : 1 };
}

typedef void bound_d(int, int, int, int, int, int, double, const void *, int, const void *, int,
                     double, void *, int);
typedef void bound_s(int, int, int, int, int, int, float, const void *, int, const void *, int,
                     float, void *, int);

/* Calls a function of limber_bind.  101 is CblasRowMajor, 111 CblasNoTrans. */
static void call_bound(const struct contender *c)
{
    const struct operands *o = c->now;
    int n = (int)c->work->n;

    if (o->fy.size == 8)
        ((bound_d *)c->function)(101, 111, 111, n, n, n, 1, o->a, n, o->b, n, 0, o->y, n);
    else
        ((bound_s *)c->function)(101, 111, 111, n, n, n, 1, o->a, n, o->b, n, 0, o->y, n);
}

/* Calls limber_gemm without a report, since filling one takes as long as an 8 x 8 product. */
static limber_status call_plainly(const struct contender *c)
{
    const struct work *w = c->work;
    const struct operands *o = c->now;

    return limber_gemm(c->ctx, &c->contract, w->m, w->n, w->k, NULL,
                       matrix_of(o->a, o->fa, w->k, w->ta, w->m),
                       matrix_of(o->b, o->fb, w->n, w->tb, w->k), NULL,
                       (limber_output){ o->y, o->fy, w->n, 1 }, NULL);
}

/* Calls limber_run with all that the work may have: convolution, batch, stream, prepared
 * operand. */
static limber_status call_product(struct contender *c)
{
    const struct work *w = c->work;
    const struct operands *o = c->now;
    limber_queue queue = { .size = sizeof(limber_queue),
                           .stream = device_stream(),
                           .workspace = c->workspace,
                           .bytes = c->workspace_bytes,
                           .capture = c->workspace ? LIMBER_CAPTURE_READY : LIMBER_CAPTURE_NONE };
    limber_batch batch = { .size = sizeof(limber_batch),
                           .count = w->batch,
                           .a = w->m * w->k,
                           .b = w->k * w->n,
                           .c = w->m * w->n };
    limber_report *report = c->reports ? &c->report : NULL;
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.contract = &c->contract;
    p.a = (limber_matrix){ o->a, o->fa, 0, 0 };
    p.b = (limber_matrix){ o->b, o->fb, 0, 0 };
    p.c = (limber_output){ o->y, o->fy, 0, 0 };
    p.queue = queue.stream ? &queue : NULL;
    if (w->operation != LIMBER_OPERATION_GEMM) {
        p.operation = w->operation;
        p.conv = &w->conv;
        p.prepared_b = c->variant == CALL_prepared ? c->prepared : NULL;
        return limber_run(c->ctx, &p, report);
    }
    p.m = w->m;
    p.n = w->n;
    p.k = w->k;
    p.a = matrix_of(o->a, o->fa, w->k, w->ta, w->m);
    p.b = matrix_of(o->b, o->fb, w->n, w->tb, w->k);
    p.c.row_stride = w->n;
    p.c.col_stride = 1;
    p.prepared_a = c->variant == CALL_prepared ? c->prepared : NULL;
    p.batch = w->batch > 1 ? &batch : NULL;
    return limber_run(c->ctx, &p, report);
}

/* Makes one call that is to be timed: a peer library's, or Limber's by the variant under test.
 * False on failure. */
bool contender_call(struct contender *c)
{
    limber_status status = LIMBER_STATUS_OK;

    if (c->peer)
        return c->peer->run(c);
    if (c->variant == CALL_plain && !c->reports && c->work->batch == 1 && !device_stream() &&
        c->work->operation == LIMBER_OPERATION_GEMM)
        status = call_plainly(c);
    else if (c->variant == CALL_bound)
        call_bound(c);
    else if (c->variant == CALL_shape)
        ((limber_kernel)c->function)(c->now->a, c->now->b, c->now->y);
    else
        status = call_product(c);
    return status == LIMBER_STATUS_OK || stop_limber_failed(c, status);
}

/* ---- setting up the contenders --------------------------------------------------------------- */

/* Prepares a peer.  If it cannot compute the work, sets the contender's state and returns false. */
static bool begin_peer(struct contender *c)
{
    const struct peer *p = c->peer;
    const struct library *l = p->library;
    const struct work *w = c->work;

    if (l && l->gpu && !l->usable)
        return contender_set_state(c, STATE_skipped, "no %s: %s", l->name, l->why_not);
    if ((l && !l->usable) || (p->largest && w->n > p->largest) || (p->plain && (w->ta || w->tb)))
        return contender_set_state(c, STATE_absent, "it does not do this");
    if (!c->now->a || !c->now->b || !c->now->y)
        return contender_set_state(c, STATE_failed, "not enough memory for the operands");
    return !p->prepare || p->prepare(c) || contender_set_state(c, STATE_absent, "it has no kernel");
}

/* Makes what a variant of Limber needs before its calls: its context, bound function or prepared
 * operand. */
static bool begin_own(struct contender *c)
{
    const struct work *w = c->work;
    limber_format f = w->fc;
    limber_matrix m = { NULL, f, w->n, 1 };
    limber_config config = { .size = sizeof(limber_config),
                             .threads = c->variant == CALL_two_threads ? 2 : 1,
                             .kernels = w->kernels };
    const limber_prepare_config prepare = { .size = sizeof prepare, .operation = w->operation };
    limber_kernel kernel = NULL;
    limber_status status = LIMBER_STATUS_OK;

    if (c->variant == CALL_two_threads || c->variant == CALL_one_thread) {
        status = limber_create(&c->own_ctx, &config);
        c->ctx = c->own_ctx;
    } else if (c->variant == CALL_bound) {
        status = limber_bind(c->ctx, &c->contract, f, f, f,
                             f.size == 4 ? "cblas_sgemm" : "cblas_dgemm", &c->function);
    } else if (c->variant == CALL_shape) {
        status = limber_bind_shape(c->ctx, &c->contract, w->n, w->n, w->n, m, m,
                                   (limber_output){ NULL, m.format, m.row_stride, m.col_stride },
                                   LIMBER_ACCUMULATE_NONE, &kernel);
        c->function = (void (*)(void))kernel;
        if (status == LIMBER_STATUS_DEVICE) /* the backend cannot bind shapes */
            return contender_set_state(c, STATE_absent, "%.160s", limber_error_text());
    } else if (c->variant == CALL_prepared && w->operation != LIMBER_OPERATION_GEMM) {
        status = limber_prepare_filters(c->ctx, &w->conv, c->now->b, w->fb, &prepare,
                                        (limber_prepared **)&c->prepared);
    } else if (c->variant == CALL_prepared) {
        status = limber_prepare(c->ctx, matrix_of(c->now->a, w->fa, w->k, false, w->m), w->m, w->k,
                                LIMBER_SIDE_A, NULL, (limber_prepared **)&c->prepared);
    }
    return status == LIMBER_STATUS_OK || stop_limber_failed(c, status);
}

/* Prepares a contender: a peer library, or a variant of Limber. */
static bool begin_contender(struct contender *c)
{
    return c->peer ? begin_peer(c) : begin_own(c);
}

/* Frees what begin_contender made. */
static void end_contender(struct contender *c)
{
    if (c->peer && c->peer->release && c->prepared)
        c->peer->release(c);
    else if (!c->peer)
        limber_prepared_free(c->prepared);
    c->prepared = NULL;
    context_end(c->own_ctx);
    c->own_ctx = NULL;
}

/* ---- the first call, which makes kernels ----------------------------------------------------- */

/* Compiles specialised kernels to disk by the maker's context.  The contender's context then loads
 * them, as in a long-running program, and compiles nothing during the timing. */
static void make_kernels(struct contender *c)
{
    struct contender maker = *c;

    if (c->peer || !c->maker || c->variant == CALL_bound || c->variant == CALL_shape)
        return;
    maker.ctx = c->maker;
    maker.variant = CALL_plain;
    (void)call_product(&maker); /* the contender's own call reports a failure */
}

/* Makes kernels, calls the contender once, and checks the result.  Returns false if this fails. */
static bool call_and_check(struct contender *c, const struct operand_sets *s)
{
    if (!result_poison(c))
        return contender_set_state(c, STATE_failed, "%s", device_error());
    make_kernels(c);
    if (!contender_call(c))
        return false;
    if (c->peer && c->peer->fetch)
        c->peer->fetch(c);
    if (c->variant == CALL_easy)
        return true;
    return result_check(s, c) && (c->peer || c->promise != PROMISE_unit || unit_check(c));
}

/* If Limber refused a named scheme under `native`, because its error bound is too large at this k,
 * changes the contract to `fast`.  Returns true if the call should be repeated. */
static bool retry_as_fast(struct contender *c)
{
    if (!c->refused || c->contract.promise != LIMBER_CONTRACT_NATIVE || !c->contract.scheme ||
        c->work->fc.kind != LIMBER_KIND_FLOAT)
        return false;
    c->contract.promise = LIMBER_CONTRACT_FAST;
    c->promise = PROMISE_bound;
    c->name = "fast";
    c->state = STATE_ok;
    c->refused = false;
    *c->why = 0;
    return true;
}

/* ---- samples: timed calls, in turns ---------------------------------------------------------- */

/* Waits 40 ms, until spinning threads of other CPU libraries have gone to sleep, so that they do
 * not disturb the next sample. */
static void wait_for_idle(const struct work *w)
{
    if (w->threads > 1)
        nanosleep(&(struct timespec){ 0, 40000000 }, NULL);
}

/* Average seconds of `repeats` calls; negative on failure. */
static double time_sample(struct contender *c, const struct operand_sets *s, int repeats)
{
    const struct operands *first = c->now;
    bool sets = first == &s->list[0], ok = true;
    double seconds;

    wait_for_idle(c->work);
    if (!device_start()) {
        contender_set_state(c, STATE_failed, "%s", device_error());
        return -1;
    }
    for (int i = 0; ok && i < repeats; i++) {
        c->now = sets ? &s->list[i % s->sets] : first;
        c->reports = i + 1 == repeats;
        ok = contender_call(c);
    }
    c->now = first;
    c->reports = true;
    if (!ok)
        return -1;
    seconds = device_stop();
    c->times.device = watch_last();
    if (seconds < 0)
        contender_set_state(c, STATE_failed, "%s", device_error());
    return seconds / repeats;
}

/* Repeats a small product until its specialised kernel, which is compiled in the background,
 * replaces the prebuilt one. */
static void repeat_small(struct contender *c, const struct operand_sets *s)
{
    enum { PRODUCTS = 1000 };
    const struct work *w = c->work;
    double until = now() + 3; /* at most three seconds, in which a busy machine can compile, too */

    if (c->peer || c->variant != CALL_plain || device_stream() || w->m * w->n * w->k > 1 << 21)
        return;
    while (c->report.from == LIMBER_FROM_LIBRARY && now() < until)
        if (time_sample(c, s, PRODUCTS < w->batch ? 1 : (int)(PRODUCTS / w->batch)) < 0)
            return;
}

/* Warms up, and sets how many calls make a sample.  On a GPU all sets of operands are used, since
 * their data may need different kernels. */
static void calibrate(struct contender *c, const struct operand_sets *s, const struct timing *t)
{
    double first, n;

    repeat_small(c, s);
    if (device_stream() && !c->peer && time_sample(c, s, s->sets) < 0)
        return;
    first = time_sample(c, s, s->sets > 2 ? 2 : s->sets);

    if (first < 0)
        return;
    n = first > 0 ? t->sample / first : MOST_REPEATS;
    c->times.repeats = n < 1 ? 1 : n > MOST_REPEATS ? MOST_REPEATS : (int)n;
    c->times.best = first; /* an estimate until there are samples */
}

/* Returns the number of samples.  On a GPU slow calls need fewer, since their times hardly vary. */
static int sample_count(const struct contender *c, const struct timing *t)
{
    int least = c->times.best > very_slow ? 1 : c->times.best > slow ? 3 : t->runs;

    return device_stream() && least < t->runs ? least : t->runs;
}

/* Takes one sample of each contender.  After the time `until`, only samples of the first t->least
 * rounds are taken. */
static void sample_round(struct work *w, const struct timing *t, const struct operand_sets *s,
                         int round, double until)
{
    for (int i = 0; i < w->count; i++) {
        struct contender *c = &w->list[i];
        double seconds;

        if (c->state != STATE_ok || sample_count(c, t) <= round || device_lost() ||
            (round >= t->least && now() > until))
            continue;
        t->note(t->user, w, c);
        seconds = time_sample(c, s, c->times.repeats);
        if (seconds < 0)
            continue;
        c->times.run_seconds[c->times.samples] = c->report.seconds_run;
        c->times.seconds[c->times.samples++] = seconds;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median of n durations; *best is the minimum. */
static double median(const double *seconds, int n, double *best)
{
    double v[MOST_SAMPLES];

    memcpy(v, seconds, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    *best = v[0];
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void contender_median(struct contender *c)
{
    if (c->times.samples > 0)
        c->times.median = median(c->times.seconds, c->times.samples, &c->times.best);
}

const struct contender *work_base(const struct work *w)
{
    const struct contender *best = NULL;

    for (int i = 0; i < w->count; i++)
        if (w->list[i].base && w->list[i].times.median > 0 &&
            (!best || w->list[i].times.median < best->times.median))
            best = &w->list[i];
    return best;
}

/* Marks the prepared contender wrong if its result differs in any bit from a plain call's. */
static void compare_prepared(struct work *w)
{
    for (int i = 1; i < w->count; i++)
        if (w->list[0].variant == CALL_prepared && w->list[0].state == STATE_ok &&
            !w->list[i].peer && w->list[i].state == STATE_ok &&
            !same_bits(&w->list[0], &w->list[i]))
            contender_set_state(&w->list[0], STATE_wrong, "the prepared operand gives other bits");
}

/* Chooses each contender's operands: the work's, copies in a peer's formats, or for CALL_easy
 * well-scaled data. */
static bool choose_operands(struct work *w, const struct operand_sets *s, struct copies *copies,
                            struct operand_sets *easy, uint64_t seed)
{
    for (int i = 0; i < w->count; i++) {
        struct contender *c = &w->list[i];

        c->work = w;
        c->now = &s->list[0];
        if (c->peer)
            c->now = operands_for(c->peer, w, s, copies);
        if (c->variant == CALL_easy) {
            struct work plain = *w;

            plain.data = (struct data_kind){ .data = DATA_spread, .binades = 1 };
            if (!sets_alloc(easy, &plain, seed, 1)) {
                memcpy(w->why, plain.why, sizeof w->why);
                return false;
            }
            c->now = &easy->list[0];
        }
    }
    return true;
}

/* Times the kernels of three calls, and keeps the times of the call with the smallest sum. */
static void time_kernels(struct contender *c)
{
    enum { CALLS = 3 };
    double least = 0;

    for (int i = 0; !c->peer && i < CALLS && kernels_begin(); i++) {
        struct timed_kernel list[MOST_KERNELS];
        bool ok = contender_call(c);
        int count = kernels_end(list, MOST_KERNELS);
        double sum = 0;

        for (int j = 0; j < count; j++)
            sum += list[j].seconds;
        if (!ok || count < 0)
            return;
        if (i > 0 && sum >= least)
            continue;
        memcpy(c->times.kernels, list, sizeof list);
        c->times.kernel_count = count;
        least = sum;
    }
}

/* Prepares, checks, calibrates and times all contenders. */
static void measure_all(struct work *w, const struct timing *t, const struct operand_sets *s)
{
    double until;

    for (int i = 0; i < w->count && !device_lost(); i++) {
        struct contender *c = &w->list[i];

        t->note(t->user, w, c);
        if (c->state == STATE_ok && begin_contender(c) &&
            (call_and_check(c, s) || (retry_as_fast(c) && call_and_check(c, s))) && t->timed)
            calibrate(c, s, t);
        if (t->timed)
            t->called(t->user, w, c);
    }
    until = now() + t->most;
    for (int round = 0; t->timed && round < t->runs; round++)
        sample_round(w, t, s, round, until);
    for (int i = 0; t->timed && i < w->count; i++) {
        struct contender *c = &w->list[i];

        if (c->state != STATE_ok || device_lost())
            continue;
        contender_median(c);
        time_kernels(c);
        call_and_check(c, s);
    }
    for (int i = 0; device_lost() && i < w->count; i++)
        if (w->list[i].state == STATE_ok)
            contender_set_state(&w->list[i], STATE_failed, "the device is lost: %.150s",
                                device_error());
    compare_prepared(w);
}

/* Measures all contenders of a work: makes operands, calls and checks each contender, takes
 * samples.  Sets w->why if that is impossible. */
void work_measure(struct work *w, const struct timing *t)
{
    struct operand_sets *s = calloc(2, sizeof *s);
    struct copies copies = { .count = 0 };

    if (!s)
        snprintf(w->why, sizeof w->why, "out of memory");
    else if (sets_alloc(&s[0], w, t->seed, t->timed ? MOST_SETS : 1) &&
             choose_operands(w, &s[0], &copies, &s[1], t->seed + 2)) {
        measure_all(w, t, &s[0]);
        for (int i = 0; i < w->count; i++)
            end_contender(&w->list[i]);
    }
    free_copies(&copies);
    if (s) {
        sets_free(&s[0]);
        sets_free(&s[1]);
    }
    free(s);
}
