/* SPDX-License-Identifier: BSD-3-Clause
 * Turns a call of cuBLAS into a call of Limber, or gives the reason why it cannot. */
#include "cublas.h"
#include "tools/interpose/shared/capture.h"

#include <limber/environment.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64, SCALAR = 32 };

/* A call that Limber computes. */
struct work {
    const struct request *r;
    const struct interpose_setting *setting;
    limber_context *ctx;
    bool host;                  /* the backend can use host memory only */
    bool complex;
    bool three; /* complex products are made of three real ones (functions named 3m) */
    bool device; /* some matrix is in a device's memory */
    limber_queue queue;
    limber_matrix a, b;
    limber_output c;
    /* the batch's strides or lists of addresses, for FORM_strided and FORM_array */
    limber_batch batch;
    /* for FORM_array: addresses of all matrices of a, then of b, then of c; owned */
    const void **addresses;
    char alpha[SCALAR], beta[SCALAR];
    limber_report report;
    limber_part part[LIMBER_PARTS];
    char why[256];
};

/* Sets w->why; returns false. */
static bool set_reason(struct work *w, const char *why)
{
    snprintf(w->why, sizeof w->why, "%s", why);
    return false;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* The context of each device; why: the reason if it could not be opened. */
static struct {
    limber_context *ctx;
    bool tried;
    char why[200];
} contexts[MOST_DEVICES];
INTERPOSE_LOCK(contexts_lock)

/* Creates the context of the current CUDA device, if it does not exist, and sets w->ctx.  Sets the
 * reason and returns false on failure. */
static bool find_context(struct work *w)
{
    limber_config config = interpose_config();
    const char *wish = config.backend ? config.backend : limber_variable_value("LIMBER_BACKEND");
    bool named = wish != NULL;
    int device = limber_cublas_device();

    if (!named)
        config.backend = "cuda";
    config.device = device;
    w->host = named && strcmp(wish, "cuda") != 0;
    if (device < 0 || device >= MOST_DEVICES)
        return set_reason(w, "the device is beyond those that are served");
    pthread_mutex_lock(&contexts_lock);
    if (!contexts[device].tried) {
        contexts[device].tried = true;
        if (limber_create(&contexts[device].ctx, &config) != LIMBER_STATUS_OK) {
            snprintf(contexts[device].why, sizeof contexts[device].why, "%s", limber_error_text());
            fprintf(stderr, "liblimber_cublas: %s; every product is left to cuBLAS\n",
                    contexts[device].why);
        }
    }
    pthread_mutex_unlock(&contexts_lock);
    w->ctx = contexts[device].ctx;
    return w->ctx || set_reason(w, contexts[device].why);
}

/* ---- the handle ------------------------------------------------------------------------------ */

/* Reads the handle's stream and pointer mode.  Sets the reason and returns false if they are
 * unknown, or if the stream is being captured: allocations and copies would invalidate the
 * capture. */
static bool ask_handle(struct work *w, int *mode)
{
    int (*stream)(void *, void **), (*pointer_mode)(void *, int *);

    *(void **)&stream = limber_cublas_real("cublasGetStream_v2", w->r->caller);
    *(void **)&pointer_mode = limber_cublas_real("cublasGetPointerMode_v2", w->r->caller);
    if (!stream || !pointer_mode || stream(w->r->handle, &w->queue.stream) != CUBLAS_SUCCESS ||
        pointer_mode(w->r->handle, mode) != CUBLAS_SUCCESS)
        return set_reason(w, "the handle does not tell its stream and pointer mode");
    return !limber_cublas_is_capturing(w->queue.stream) ||
           set_reason(w, "its stream is being captured");
}

/* ---- sizes and types ------------------------------------------------------------------------- */

/* True if the leading dimension is large enough. */
static bool has_valid_lead(const struct side *s, int64_t rows, int64_t cols)
{
    int64_t least = s->op == CUBLAS_N ? rows : cols;

    return s->lead >= (least > 1 ? least : 1);
}

/* True if the arguments are valid and the product is not empty.  Else sets the reason, and cuBLAS
 * handles the call. */
static bool check_sizes(struct work *w)
{
    const struct request *r = w->r;
    bool ops =
        r->a.op >= CUBLAS_N && r->a.op <= CUBLAS_C && r->b.op >= CUBLAS_N && r->b.op <= CUBLAS_C;

    if (!r->handle || !ops || r->m < 0 || r->n < 0 || r->k < 0 || r->count < 0 || !r->alpha ||
        !r->beta || !has_valid_lead(&r->a, r->m, r->k) || !has_valid_lead(&r->b, r->k, r->n) ||
        !has_valid_lead(&r->c, r->m, r->n))
        return set_reason(w, "its arguments are for cuBLAS to refuse");
    return (r->m > 0 && r->n > 0 && r->count > 0) || set_reason(w, "there is nothing to do");
}

/* Returns Limber's name for the format of a cudaDataType's real numbers; NULL if it has none. */
static const char *name_of(int type)
{
    switch (type) {
    case CUDA_R_32F:
    case CUDA_C_32F: return "f32";
    case CUDA_R_64F:
    case CUDA_C_64F: return "f64";
    case CUDA_R_16F: return "f16";
    case CUDA_R_16BF: return "bf16";
    case CUDA_R_8F_E4M3: return "e4m3";
    case CUDA_R_8F_E5M2: return "e5m2";
    case CUDA_R_8I: return "i8";
    case CUDA_R_32I: return "i32";
    default: return NULL;
    }
}

static bool is_complex(int type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}

/* Type of alpha and beta, which follows from the compute type; NULL for types that Limber does not
 * compute. */
static const char *scalar_name(const struct request *r)
{
    switch (r->compute) {
    case 0: return name_of(r->c.type);
    case CUBLAS_32F:
    case CUBLAS_32F_PEDANTIC:
    case CUBLAS_32F_FAST_16F:
    case CUBLAS_32F_FAST_16BF:
    case CUBLAS_32F_FAST_TF32:
    case CUBLAS_32F_BF16X9: return "f32";
    case CUBLAS_64F:
    case CUBLAS_64F_PEDANTIC:
    case CUBLAS_64F_FIXED: return "f64";
    case CUBLAS_32I:
    case CUBLAS_32I_PEDANTIC: return "i32";
    default: return NULL;
    }
}

/* True for combinations of types that cuBLAS takes.  A call with others is forwarded, so that
 * cuBLAS refuses it. */
static bool types_agree(const struct request *r, const char *scalar)
{
    bool floats = name_of(r->a.type)[0] != 'i' && name_of(r->b.type)[0] != 'i';

    if (is_complex(r->c.type))
        return r->a.type == r->c.type && r->b.type == r->c.type &&
               strcmp(scalar, name_of(r->c.type)) == 0;
    if (is_complex(r->a.type) || is_complex(r->b.type))
        return false;
    if (strcmp(scalar, "i32") == 0)
        return r->a.type == CUDA_R_8I && r->b.type == CUDA_R_8I && r->c.type == CUDA_R_32I;
    if (strcmp(scalar, "f64") == 0)
        return r->a.type == CUDA_R_64F && r->b.type == CUDA_R_64F && r->c.type == CUDA_R_64F;
    return floats && r->a.type != CUDA_R_64F && r->b.type != CUDA_R_64F &&
           (r->c.type == CUDA_R_32F || r->c.type == CUDA_R_16F || r->c.type == CUDA_R_16BF);
}

/* Returns op(X) as a matrix of Limber. */
static limber_matrix matrix_of(const struct side *s)
{
    limber_matrix m = { s->data, { 0 }, s->lead, 1 };

    limber_format_named(name_of(s->type), &m.format);
    if (s->op == CUBLAS_N) {
        m.row_stride = 1;
        m.col_stride = s->lead;
    }
    return m;
}

/* Converts the call's types to Limber's formats.  Returns false, with the reason in w, if they
 * are not supported. */
static bool read_types(struct work *w)
{
    const struct request *r = w->r;
    const char *scalar = scalar_name(r);
    limber_matrix c;

    if (!scalar || !name_of(r->a.type) || !name_of(r->b.type) || !name_of(r->c.type) ||
        !types_agree(r, scalar))
        return set_reason(w, "its types, or what it asks to compute in, are not served");
    w->complex = is_complex(r->c.type);
    w->a = matrix_of(&r->a);
    w->b = matrix_of(&r->b);
    c = matrix_of(&r->c);
    w->c = (limber_output){ (void *)(uintptr_t)c.data, c.format, c.row_stride, c.col_stride };
    return true;
}

/* ---- alpha and beta -------------------------------------------------------------------------- */

/* Converts a scalar to C's format, for integers to i64.  Returns false if the conversion is not
 * exact. */
static bool convert_scalar(struct work *w, char *to, const void *given, int mode)
{
    limber_format from, goal = w->c.format;
    int parts = w->complex ? 2 : 1;
    char raw[SCALAR], back[SCALAR];

    limber_format_named(scalar_name(w->r), &from);
    if (goal.kind == LIMBER_KIND_INT)
        limber_format_named("i64", &goal);
    if (mode == CUBLAS_POINTER_HOST)
        memcpy(raw, given, (size_t)parts * from.size);
    else if (!limber_cublas_fetch(raw, given, (size_t)parts * from.size, w->queue.stream))
        return set_reason(w, "alpha and beta could not be copied from the device");
    limber_convert(to, goal, raw, from, (size_t)parts, LIMBER_ROUND_NEAREST);
    limber_convert(back, from, to, goal, (size_t)parts, LIMBER_ROUND_NEAREST);
    return memcmp(raw, back, (size_t)parts * from.size) == 0 ||
           set_reason(w, "alpha and beta do not fit c's type");
}

static bool read_scalars(struct work *w, int mode)
{
    return convert_scalar(w, w->alpha, w->r->alpha, mode) &&
           convert_scalar(w, w->beta, w->r->beta, mode);
}

/* Returns k of the product, or 0 if alpha is 0: operands must not be read then. */
static int64_t effective_k(const struct work *w)
{
    limber_format f = w->c.format, f64;
    double part[2] = { 0, 0 };

    if (f.kind == LIMBER_KIND_INT)
        limber_format_named("i64", &f);
    limber_format_named("f64", &f64);
    limber_convert(part, f64, w->alpha, f, w->complex ? 2 : 1, LIMBER_ROUND_ODD);
    return part[0] == 0 && part[1] == 0 ? 0 : w->r->k;
}

/* ---- where the matrices are ------------------------------------------------------------------ */

/* Copies the addresses of all matrices of a batch from the device to w->addresses. */
static bool fetch_addresses(struct work *w)
{
    const struct request *r = w->r;
    size_t count = (size_t)r->count;
    const struct side *const side[3] = { &r->a, &r->b, &r->c };

    w->addresses = calloc(3 * count, sizeof *w->addresses);
    for (int i = 0; i < 3; i++)
        if (!w->addresses || !side[i]->data ||
            !limber_cublas_fetch(w->addresses + (size_t)i * count, side[i]->data,
                                 count * sizeof *w->addresses, w->queue.stream))
            return set_reason(w, "the matrices' addresses could not be copied from the device");
    w->batch.address_a = w->addresses;
    w->batch.address_b = w->addresses + count;
    w->batch.address_c = (void *const *)(w->addresses + 2 * count);
    return true;
}

/* Finds out whether the matrices are in device memory.  Sets the reason and returns false if the
 * backend cannot read them. */
static bool read_places(struct work *w)
{
    const struct request *r = w->r;

    w->batch = (limber_batch){ .size = sizeof(limber_batch),
                               .count = r->count,
                               .a = r->a.step,
                               .b = r->b.step,
                               .c = r->c.step };
    if (r->form == FORM_array && !fetch_addresses(w))
        return false;
    w->device = r->form == FORM_array ?
                    limber_cublas_is_device(w->addresses[0]) ||
                        limber_cublas_is_device(w->addresses[r->count]) ||
                        limber_cublas_is_device(w->addresses[2 * r->count]) :
                    limber_cublas_is_device(r->a.data) || limber_cublas_is_device(r->b.data) ||
                        limber_cublas_is_device(r->c.data);
    return !(w->device && w->host) ||
           set_reason(w, "LIMBER_BACKEND names a backend that does not see the device's memory");
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool set_limber_reason(struct work *w)
{
    return set_reason(w, limber_error_text());
}

/* Returns the call as a problem for limber_run. Operands, scalars and queue must have been read. */
static limber_problem make_problem(const struct work *w)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = w->r->m;
    p.n = w->r->n;
    p.k = effective_k(w);
    p.a = w->a;
    p.b = w->b;
    p.c = w->c;
    p.alpha = w->alpha;
    p.beta = w->beta;
    p.contract = &w->setting->contract;
    p.queue = &w->queue;
    return p;
}

/* Computes one product, or all products of a batch.  On failure computes nothing, sets the reason
 * and returns false. */
static bool run_problem(struct work *w, limber_problem *p)
{
    if (w->r->form != FORM_one)
        p->batch = &w->batch;
    return limber_run(w->ctx, p, &w->report) == LIMBER_STATUS_OK || set_limber_reason(w);
}

static bool run_real(struct work *w)
{
    limber_problem p = make_problem(w);

    return run_problem(w, &p);
}

/* Computes a complex product. */
static bool run_complex(struct work *w)
{
    const struct request *r = w->r;
    limber_problem p = make_problem(w);

    w->three = r->products == 3 && w->setting->contract.promise == LIMBER_CONTRACT_FAST;
    p.domain = LIMBER_DOMAIN_COMPLEX;
    p.conjugate = (limber_conjugate)((r->a.op == CUBLAS_C ? LIMBER_CONJUGATE_A : 0) |
                                     (r->b.op == CUBLAS_C ? LIMBER_CONJUGATE_B : 0));
    p.complex_method = w->three ? LIMBER_COMPLEX_THREE_PRODUCTS : LIMBER_COMPLEX_FOUR_PRODUCTS;
    return run_problem(w, &p);
}

/* Computes the call by Limber.  Returns false, with the reason in w, if cuBLAS has to do it. */
static bool serve_call(struct work *w)
{
    int mode = CUBLAS_POINTER_HOST;

    if (!w->setting->on)
        return set_reason(w, interpose_options()->refused ? "what is asked for is not understood" :
                             interpose_options()->on      ? "a rule leaves it alone" :
                                                            "LIMBER_CONTRACT is not set");
    if (!check_sizes(w) || !read_types(w) || !ask_handle(w, &mode) || !find_context(w) ||
        !read_scalars(w, mode) || !read_places(w))
        return false;
    return w->complex ? run_complex(w) : run_real(w);
}

/* ---- captured operands ----------------------------------------------------------------------- */

/* Copies op(X) of the batch's product g to host memory.  The caller frees its data. */
static bool fetch_operand(struct work *w, const struct side *s, int which, int64_t g,
                          struct capture_operand *o)
{
    const int64_t rows = s->op == CUBLAS_N ? o->rows : o->cols;
    const int64_t cols = s->op == CUBLAS_N ? o->cols : o->rows;
    const int64_t size = (int64_t)o->format.size << w->complex;
    const char *from = w->addresses ? w->addresses[which * w->r->count + g] :
                                      (const char *)s->data + g * s->step * size;
    int64_t bytes;
    void *room;

    o->row = s->op == CUBLAS_N ? 1 : s->lead;
    o->col = s->op == CUBLAS_N ? s->lead : 1;
    o->pairs = w->complex;
    o->conj = w->complex && s->op == CUBLAS_C;
    if (__builtin_mul_overflow(s->lead, cols - 1, &bytes) ||
        __builtin_add_overflow(bytes, rows, &bytes) || __builtin_mul_overflow(bytes, size, &bytes))
        return false;
    o->data = room = malloc((size_t)bytes);
    return room && limber_cublas_fetch(room, from, (size_t)bytes, w->queue.stream);
}

/* Saves the operands for LIMBER_CAPTURE, except those of calls that cuBLAS refuses, calls in a
 * stream that is being captured, and calls with alpha = 0, which do not read operands. */
static void capture_call(struct work *w)
{
    const struct request *r = w->r;
    int mode = CUBLAS_POINTER_HOST;

    if (!interpose_captures() || r->k <= 0 || !check_sizes(w) || !read_types(w) ||
        !ask_handle(w, &mode) || !read_scalars(w, mode) || effective_k(w) == 0 ||
        (r->form == FORM_array && !fetch_addresses(w)))
        return;
    for (int64_t g = 0; g < r->count && interpose_captures(); g++) {
        struct capture p = {
            .routine = r->name,
            .words = w->setting->on ? w->setting->words : "",
            .ops = { "NTC"[r->a.op], "NTC"[r->b.op] },
            .a = { .rows = r->m, .cols = r->k, .format = w->a.format },
            .b = { .rows = r->k, .cols = r->n, .format = w->b.format },
        };

        if (fetch_operand(w, &r->a, 0, g, &p.a) && fetch_operand(w, &r->b, 1, g, &p.b))
            interpose_capture(&p);
        else
            interpose_capture_fails("operands could not be copied from the device");
        free((void *)(uintptr_t)p.a.data);
        free((void *)(uintptr_t)p.b.data);
    }
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Prints the outcome of a call, for LIMBER_VERBOSE. */
static void print_outcome(const struct work *w, bool served)
{
    const struct request *r = w->r;
    char count[40] = "";

    if (r->form != FORM_one)
        snprintf(count, sizeof count, " count=%lld", (long long)r->count);
    if (served)
        fprintf(stderr, "limber: %s m=%lld n=%lld k=%lld%s: %s by %s, %s%s\n", r->name,
                (long long)r->m, (long long)r->n, (long long)r->k, count, w->report.scheme,
                w->report.backend, w->setting->words, w->three ? ", three products" : "");
    else
        fprintf(stderr, "limber: %s m=%lld n=%lld k=%lld%s: left to cuBLAS: %s\n", r->name,
                (long long)r->m, (long long)r->n, (long long)r->k, count, w->why);
}

/* Adds a call to the report, with the reason if Limber did not compute it. */
static void count(const struct work *w, bool served)
{
    const struct request *r = w->r;
    const struct interpose_result t = {
        .routine = r->name,
        .m = r->m,
        .n = r->n,
        .k = r->k,
        .report = served ? &w->report : NULL,
        .why_not = w->why,
        .contract = w->setting->on ? w->setting->words : "",
        .ctx = w->ctx,
        .count = (double)r->count,
        .seconds = w->report.seconds_scan + w->report.seconds_compile + w->report.seconds_run,
    };

    interpose_record_call(&t);
}

/* Computes a call of cuBLAS by Limber, saves its operands if that is asked for, and adds it to the
 * report.  Returns false if cuBLAS must compute the call. */
bool limber_cublas_serve(const struct request *r)
{
    INTERPOSE_UNCANCELLED;
    const struct interpose_call call = { r->name, r->m, r->n, r->k, NULL };
    struct work w = { .r = r,
                      .setting = interpose_choose(&call),
                      .queue = LIMBER_QUEUE_INIT,
                      .report = LIMBER_REPORT_INIT };
    bool served;

    if (limber_cublas_inside > 0) /* cuBLAS calls itself */
        return false;
    w.report.part = w.part;
    w.report.part_room = LIMBER_PARTS;
    if (interpose_options()->capture) {
        capture_call(&w);
        free(w.addresses);
        w.addresses = NULL;
        *w.why = '\0';
    }
    served = serve_call(&w);
    free(w.addresses);
    if (interpose_options()->verbose > 0)
        print_outcome(&w, served);
    if (interpose_options()->on || interpose_options()->report)
        count(&w, served);
    return served;
}
