/* SPDX-License-Identifier: BSD-3-Clause
 * A handler of XLA's foreign functions: the product of two stacks of matrices.
 *
 *   operands    A (..., m, k) and B (..., k, n), contiguous, of the same rank.  An axis of a stack
 *               that has the length 1 on one side belongs to all matrices of the other.
 *   result      C (..., m, n)
 *   attributes  promise (int32: a limber_promise), bits (int32), scheme and unit (texts, may be
 *               empty), as in limber_contract
 *
 * All products run in one context, which lives as long as the process.  The handler may run in many
 * threads at once.
 *
 *   source  XLA's foreign function interface, versions 0.1 to 0.3 (OpenXLA, xla/ffi/api/c_api.h):
 *           the order of fields, and the numbers of types */
#include <limber/limber.h>
#include <limber/unit.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- XLA's structures ------------------------------------------------------------------------ */

struct xla_head {
    size_t size;
    void *extension;
};

struct xla_version {
    struct xla_head head;
    int major, minor;
};

struct xla_error {
    struct xla_head head;
    const char *message;
    int code;
};

struct xla_api {
    struct xla_head head;
    struct xla_version version;
    const void *internal;
    void *(*create_error)(struct xla_error *e);
};

struct xla_buffer {
    struct xla_head head;
    int type;
    void *data;
    int64_t rank;
    int64_t *dims;
};

struct xla_text {
    const char *at;
    size_t length;
};

struct xla_scalar {
    int type;
    void *value;
};

struct xla_buffers {
    struct xla_head head;
    int64_t count;
    int *kinds;
    struct xla_buffer **item;
};

struct xla_attributes {
    struct xla_head head;
    int64_t count;
    int *kinds;
    struct xla_text **name;
    void **item;
};

struct xla_frame {
    struct xla_head head;
    const struct xla_api *api;
    void *execution;
    int stage;
    struct xla_buffers arguments, results;
    struct xla_attributes attributes;
};

/* An extension of a frame.  With type METADATA, XLA asks for the version of the interface, once,
 * when the handler is registered. */
struct xla_extension {
    size_t size;
    int type; /* XLA's constant METADATA */
    struct xla_extension *next;
    struct xla_metadata {
        size_t size;
        struct xla_version version;
        uint32_t traits;
    } *metadata;
};

/* Numbers that XLA's interface gives to kinds of extensions, attributes, errors and types. */
enum { METADATA = 1, SCALAR = 3, TEXT = 4, INVALID_ARGUMENT = 3, S32 = 4, MOST_AXES = 32 };

/* Types of elements.  Unsigned ones have the format of the signed one of their size: products of
 * that size wrap to the same bits. */
static const struct type {
    int type;
    const char *name;
    limber_domain domain;
    bool is_unsigned;
} types[] = {
    { 2, "i8", LIMBER_DOMAIN_REAL, false },        { 3, "i16", LIMBER_DOMAIN_REAL, false },
    { 4, "i32", LIMBER_DOMAIN_REAL, false },       { 5, "i64", LIMBER_DOMAIN_REAL, false },
    { 6, "i8", LIMBER_DOMAIN_REAL, true },         { 7, "i16", LIMBER_DOMAIN_REAL, true },
    { 8, "i32", LIMBER_DOMAIN_REAL, true },        { 9, "i64", LIMBER_DOMAIN_REAL, true },
    { 10, "f16", LIMBER_DOMAIN_REAL, false },      { 11, "f32", LIMBER_DOMAIN_REAL, false },
    { 12, "f64", LIMBER_DOMAIN_REAL, false },      { 16, "bf16", LIMBER_DOMAIN_REAL, false },
    { 19, "e5m2", LIMBER_DOMAIN_REAL, false },     { 20, "e4m3", LIMBER_DOMAIN_REAL, false },
    { 24, "e5m2fnuz", LIMBER_DOMAIN_REAL, false }, { 25, "e4m3fnuz", LIMBER_DOMAIN_REAL, false },
    { 15, "f32", LIMBER_DOMAIN_COMPLEX, false },   { 18, "f64", LIMBER_DOMAIN_COMPLEX, false },
};

/* ---- the call -------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static limber_context *context;
static char refused[256];

/* Creates the context of all calls; on failure keeps the reason. */
static void open_context(void)
{
    if (limber_create(&context, NULL) != LIMBER_STATUS_OK)
        snprintf(refused, sizeof refused, "limber.jax: %s", limber_error_text());
}

/* Returns an XLA error with this message. */
static void *fail(const struct xla_frame *f, const char *message)
{
    struct xla_error e = { .head = { sizeof e, NULL },
                           .message = message,
                           .code = INVALID_ARGUMENT };

    return f->api->create_error(&e);
}

/* A call, with its contract and unit. */
struct call {
    limber_contract contract;
    limber_unit unit;
    char scheme[64], words[256];
    limber_problem problem;
};

static const struct type *type_of(const struct xla_buffer *b)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == b->type)
            return &types[i];
    return NULL;
}

/* True if an XLA string equals the name. */
static bool is_called(const struct xla_text *t, const char *name)
{
    return t->length == strlen(name) && memcmp(t->at, name, t->length) == 0;
}

/* Copies a text attribute.  Returns false if it is too long. */
static bool copy_text(char *to, size_t room, const struct xla_text *t)
{
    if (t->length >= room)
        return false;
    memcpy(to, t->at, t->length);
    to[t->length] = '\0';
    return true;
}

/* Reads the contract from the attributes.  Returns NULL, or why it is refused. */
static const char *read_contract(struct call *c, const struct xla_attributes *from)
{
    c->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    for (int64_t i = 0; i < from->count; i++) {
        const struct xla_scalar *number = from->item[i];
        bool is_number = from->kinds[i] == SCALAR && number->type == S32;

        if (is_called(from->name[i], "promise") && is_number)
            c->contract.promise = (limber_promise) * (int32_t *)number->value;
        else if (is_called(from->name[i], "bits") && is_number)
            c->contract.bits = *(int32_t *)number->value;
        else if (from->kinds[i] != TEXT)
            return "limber.jax: an attribute is unknown";
        else if (is_called(from->name[i], "scheme") ?
                     !copy_text(c->scheme, sizeof c->scheme, from->item[i]) :
                     !copy_text(c->words, sizeof c->words, from->item[i]))
            return "limber.jax: the scheme or the unit is too long";
    }
    if (*c->scheme)
        c->contract.scheme = c->scheme;
    if (*c->words) {
        c->unit = (limber_unit)LIMBER_UNIT_INIT;
        if (limber_unit_parse(c->words, &c->unit) != LIMBER_STATUS_OK)
            return limber_error_text();
        c->contract.unit = &c->unit;
    }
    return NULL;
}

/* Fills the problem of one matrix.  Returns NULL, or why the buffers are refused. */
static const char *read_buffers(struct call *c, const struct xla_frame *f)
{
    const struct xla_buffer *x[3];
    const struct type *type[3];
    limber_format format[3];
    int64_t r;

    if (f->arguments.count != 2 || f->results.count != 1)
        return "limber.jax: expected two operands and one result";
    x[0] = f->arguments.item[0], x[1] = f->arguments.item[1], x[2] = f->results.item[0];
    r = x[2]->rank;
    if (r < 2 || r > MOST_AXES || x[0]->rank != r || x[1]->rank != r)
        return "limber.jax: operands and result have different numbers of axes";
    for (int i = 0; i < 3; i++) {
        type[i] = type_of(x[i]);
        if (!type[i] || type[i]->domain != type[0]->domain)
            return "limber.jax: products of these types are not served";
        if (limber_format_named(type[i]->name, &format[i]) != LIMBER_STATUS_OK)
            return limber_error_text();
    }
    for (int i = 0; i < 2; i++)
        if (type[i]->is_unsigned && format[i].size != format[2].size) {
            if (format[i].size > 1)
                return "limber.jax: unsigned operands of 16 bits or more have results of their "
                       "size";
            format[i] = LIMBER_U8;
        }
    if (type[2]->is_unsigned && c->contract.promise != LIMBER_CONTRACT_NATIVE &&
        c->contract.promise != LIMBER_CONTRACT_REPRODUCIBLE)
        return "limber.jax: unsigned results wrap, which native and reproducible do only";
    c->problem = (limber_problem)LIMBER_PROBLEM_INIT;
    c->problem.contract = &c->contract;
    c->problem.domain = type[0]->domain;
    c->problem.m = x[2]->dims[r - 2];
    c->problem.n = x[2]->dims[r - 1];
    c->problem.k = x[0]->dims[r - 1];
    c->problem.a = (limber_matrix){ x[0]->data, format[0], c->problem.k, 1 };
    c->problem.b = (limber_matrix){ x[1]->data, format[1], c->problem.n, 1 };
    c->problem.c = (limber_output){ x[2]->data, format[2], c->problem.n, 1 };
    return NULL;
}

/* Runs the products of axes `axis` and further.  a, b and c: indices of the first matrices.  The
 * last axis of the stack is one batch. */
static limber_status run_axes(const struct call *c, const struct xla_frame *f, int64_t axis,
                              int64_t a, int64_t b, int64_t to)
{
    const int64_t *da = f->arguments.item[0]->dims, *db = f->arguments.item[1]->dims;
    const int64_t *dc = f->results.item[0]->dims, stack = f->results.item[0]->rank - 2;
    limber_problem p = c->problem;
    int64_t parts = p.domain == LIMBER_DOMAIN_COMPLEX ? 2 : 1;
    int64_t size[3] = { p.m * p.k, p.k * p.n, p.m * p.n };

    if (p.m == 0 || p.n == 0)
        return LIMBER_STATUS_OK;
    if (axis + 1 < stack) {
        for (int64_t i = 0; i < dc[axis]; i++) {
            limber_status s = run_axes(c, f, axis + 1, a * da[axis] + (da[axis] > 1 ? i : 0),
                                       b * db[axis] + (db[axis] > 1 ? i : 0), to * dc[axis] + i);

            if (s != LIMBER_STATUS_OK)
                return s;
        }
        return LIMBER_STATUS_OK;
    }
    if (axis < stack) {
        limber_batch batch = { .size = sizeof batch,
                               .count = dc[axis],
                               .a = da[axis] > 1 ? size[0] : 0,
                               .b = db[axis] > 1 ? size[1] : 0,
                               .c = size[2] };

        a *= da[axis], b *= db[axis], to *= dc[axis];
        p.batch = batch.count == 1 ? NULL : &batch;
        p.a.data = (char *)(uintptr_t)p.a.data + (size_t)(a * size[0] * parts) * p.a.format.size;
        p.b.data = (char *)(uintptr_t)p.b.data + (size_t)(b * size[1] * parts) * p.b.format.size;
        p.c.data = (char *)p.c.data + (size_t)(to * size[2] * parts) * p.c.format.size;
        return batch.count ? limber_run(context, &p, NULL) : LIMBER_STATUS_OK;
    }
    return limber_run(context, &p, NULL);
}

__attribute__((visibility("default"))) void *limber_jax_product(const struct xla_frame *f)
{
    const struct xla_extension *asked = f->head.extension;
    struct call c = { .scheme = "" };
    const char *why;

    if (asked && asked->type == METADATA) {
        asked->metadata->version.major = 0;
        asked->metadata->version.minor = f->api ? f->api->version.minor : 1;
        asked->metadata->traits = 0;
        return NULL;
    }
    pthread_once(&once, open_context);
    why = context ? read_contract(&c, &f->attributes) : refused;
    why = why ? why : read_buffers(&c, f);
    if (!why && run_axes(&c, f, 0, 0, 0, 0) != LIMBER_STATUS_OK)
        why = limber_error_text();
    return why ? fail(f, why) : NULL;
}
