/* SPDX-License-Identifier: BSD-3-Clause
 * Operands that are multiplied many times: the mask of one scan, and limbs by kernel, the least
 * recently used ones dropped. */
#define XXH_INLINE_ALL
#include "jit/api/api.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { HASHED = 1 << 16 };     /* elements of a task */

/* Limbs of one kernel. */
struct limbs {
    struct kept kept;           /* first: handed out, and cast back */
    struct limbs *next;
    unsigned char key[KEY_BYTES];
    int side, variant;
    int64_t place; /* limber_kept_place */
    size_t bytes;
    int users;
    uint64_t tick;              /* of the last use */
};

struct limber_prepared {
    limber_context *ctx;
    limber_matrix x;
    int64_t rows, cols;
    bool left, checks;
    limber_operation operation; /* that reads filters; GEMM: a matrix */
    struct conv conv; /* of filters */
    int64_t parts, groups; /* of filters; else 1 */
    struct mask *mask; /* [part][group] */
    XXH128_hash_t hash;         /* 0 for elements in a device's memory */
    size_t bound;
    struct at_fork at_fork;
    pthread_mutex_t lock;       /* of what follows */
    struct limbs *limbs;
    size_t bytes;
    uint64_t tick;
    struct limber_prepared *narrow; /* NULL, or the same elements as bytes */
    bool makes_narrow;
    void *elements; /* NULL, or what x is, to be freed with it */
};

/* A matrix has one, whichever product of a batch reads it. */
static int64_t places(const struct limber_prepared *o)
{
    return o->parts * o->groups;
}

/* ---- limbs ----------------------------------------------------------------------------------- */

static void drop(struct limber_prepared *o, struct limbs **at)
{
    struct limbs *l = *at;

    *at = l->next;
    o->bytes -= l->bytes;
    limber_memory_free(&o->ctx->allocator, l->kept.memory);
    free(l);
}

/* Drops what was used longest ago until so many bytes more fit the bound; false: not all of it can
 * go. */
static bool make_room(struct limber_prepared *o, size_t bytes)
{
    while (bytes <= o->bound && o->bytes > o->bound - bytes) {
        struct limbs **oldest = NULL;

        for (struct limbs **at = &o->limbs; *at; at = &(*at)->next)
            if ((*at)->users == 0 && (!oldest || (*at)->tick < (*oldest)->tick))
                oldest = at;
        if (!oldest)
            return false;
        drop(o, oldest);
    }
    return bytes <= o->bound;
}

static struct limbs *add(struct limber_prepared *o, const struct keeping *of, int variant,
                         size_t bytes)
{
    struct limbs *l = make_room(o, bytes) ? calloc(1, sizeof *l) : NULL;

    if (!l)
        return NULL;
    l->kept.memory = limber_memory_alloc(&o->ctx->allocator, bytes);
    if (!l->kept.memory) {
        free(l);
        return NULL;
    }
    memcpy(l->key, of->key, sizeof l->key);
    l->side = of->side;
    l->place = of->place;
    l->variant = variant;
    l->bytes = bytes;
    l->next = o->limbs;
    o->limbs = l;
    o->bytes += bytes;
    return l;
}

static struct kept *take(void *self, int variant, size_t bytes)
{
    const struct keeping *of = self;
    struct limber_prepared *o = of->operand;
    struct limbs *l;

    pthread_mutex_lock(&o->lock);
    for (l = o->limbs; l && (memcmp(l->key, of->key, sizeof l->key) || l->side != of->side ||
                             l->place != of->place || l->variant != variant || l->bytes != bytes);)
        l = l->next;
    if (!l)
        l = add(o, of, variant, bytes);
    else if (!l->kept.packed) /* another thread is at it */
        l = NULL;
    if (l) {
        l->users++;
        l->tick = ++o->tick;
    }
    pthread_mutex_unlock(&o->lock);
    return l ? &l->kept : NULL;
}

static void packed(void *self, struct kept *kept)
{
    const struct keeping *of = self;

    pthread_mutex_lock(&of->operand->lock);
    kept->packed = true;
    pthread_mutex_unlock(&of->operand->lock);
}

static void give(void *self, struct kept *kept)
{
    const struct keeping *of = self;

    pthread_mutex_lock(&of->operand->lock);
    ((struct limbs *)kept)->users--;
    pthread_mutex_unlock(&of->operand->lock);
}

const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f, int side,
                                           int64_t place, struct keeping *of)
{
    if (!o)
        return NULL;
    *of = (struct keeping){ .keeper = { take, packed, give, of },
                            .operand = o,
                            .key = f->key,
                            .side = side,
                            .place = place % places(o) };
    return &of->keeper;
}

/* ---- the mask -------------------------------------------------------------------------------- */

/* A glance gives up at a line that is wide. */
void limber_prepared_mask(const limber_prepared *o, int64_t place, struct mask *m,
                          enum scan_depth depth)
{
    *m = o->mask[place % places(o)];
    if (depth == SCAN_probe && m->width > SCAN_narrow)
        m->scanned = false;
}

static void begin(struct limber_prepared *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->at_fork = (struct at_fork){ .lock = &o->lock };
    limber_at_fork(&o->at_fork);
}

static bool scan_lines(const struct limber_prepared *o, const struct view *v, int64_t lines,
                       int64_t length, struct mask *m, struct diag *d)
{
    struct runner r = limber_pool_runner(o->ctx->pool);

    return limber_device_holds(o->ctx, o->x.data) ?
               limber_device_scan(o->ctx, m, v, o->x.format, lines, length, NULL, d) :
               limber_scan(m, v, o->x.format, lines, length, SCAN_full, &r, d);
}

/* Filters as backward data reads them: lines are channels. */
static bool scan_part(const struct limber_prepared *o, int64_t part, struct diag *d)
{
    struct conv c = o->conv;
    struct index_map map;
    struct view v;
    int64_t m, n, k;

    if (!limber_conv_set_part(&c, part))
        return true; /* nobody asks for it */
    limber_conv_map(&map, OP_filters, &c, 0);
    limber_conv_product(&c, &m, &n, &k);
    v = limber_map_view(&map, o->x.data);
    for (int64_t i = 0; i < o->groups; i++) {
        if (!scan_lines(o, &v, m, k, &o->mask[part * o->groups + i], d))
            return false;
        if (v.data) /* else there are no elements */
            v.data = (const char *)v.data + map.group * (int64_t)o->x.format.size;
    }
    return true;
}

static bool scan_group(const struct limber_prepared *o, int64_t group, struct diag *d)
{
    const limber_matrix *x = &o->x;
    struct view v = { x->data, o->left ? x->row_stride : x->col_stride,
                      o->left ? x->col_stride : x->row_stride, NULL, NULL };
    int64_t lines = (o->left ? o->rows : o->cols) / o->groups;
    int64_t length = o->left ? o->cols : o->rows;

    if (x->data)
        v.data = (const char *)x->data + group * lines * v.line * (int64_t)x->format.size;
    return scan_lines(o, &v, lines, length, &o->mask[group], d);
}

static bool scan(struct limber_prepared *o, struct diag *d)
{
    bool back = o->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA;

    o->mask = calloc((size_t)places(o), sizeof *o->mask);
    if (!o->mask)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for an operand");
    for (int64_t i = 0; i < (back ? o->parts : o->groups); i++)
        if (!(back ? scan_part(o, i, d) : scan_group(o, i, d)))
            return false;
    return true;
}

/* ---- as bytes -------------------------------------------------------------------------------- */

/* Integers of 7 bits and a sign that are counted in the lowest bit of any, or in 1. */
static bool is_narrow(const struct limber_prepared *o, int *exponent)
{
    int low = INT32_MAX, high = INT32_MIN;

    if ((double)o->rows * (double)o->cols > (double)o->bound)
        return false;
    for (int64_t g = 0; g < o->groups; g++) {
        const struct mask *m = &o->mask[g];

        if (!m->scanned || m->special)
            return false;
        if (m->zero)
            continue;
        low = limber_mask_low(m) < low ? limber_mask_low(m) : low;
        high = m->emax > high ? m->emax : high;
    }
    *exponent = low > high || (low >= 0 && high <= 6) ? 0 : low;
    return low > high || high - *exponent <= 6;
}

enum narrow_state limber_prepared_narrow(limber_prepared *o, int *exponent, limber_prepared **bytes)
{
    enum narrow_state state;

    if (!is_narrow(o, exponent))
        return NARROW_none;
    pthread_mutex_lock(&o->lock);
    state = o->narrow ? NARROW_there : o->makes_narrow ? NARROW_elsewhere : NARROW_to_make;
    *bytes = o->narrow;
    o->makes_narrow = true;
    pthread_mutex_unlock(&o->lock);
    return state;
}

const void *limber_prepared_data(const limber_prepared *o)
{
    return o->x.data;
}

/* Nobody changes these elements, so that they need no hash. */
static struct limber_prepared *of_bytes(const struct limber_prepared *o, void *memory, int64_t line,
                                        int64_t p)
{
    struct limber_prepared *n = calloc(1, sizeof *n);
    struct diag ignored = { 0 };

    if (!n)
        return NULL;
    *n = (struct limber_prepared){ .ctx = o->ctx,
                                   .x = { memory, LIMBER_I8, o->left ? line : p,
                                          o->left ? p : line },
                                   .rows = o->rows,
                                   .cols = o->cols,
                                   .left = o->left,
                                   .operation = o->operation,
                                   .conv = o->conv,
                                   .parts = o->parts,
                                   .groups = o->groups,
                                   .bound = o->bound - (size_t)(o->rows * o->cols) };
    begin(n);
    if (scan(n, &ignored)) {
        n->elements = memory;
        return n;
    }
    limber_prepared_free(n);
    return NULL;
}

limber_prepared *limber_prepared_made_narrow(limber_prepared *o, void *memory, int64_t line,
                                             int64_t p)
{
    struct limber_prepared *n = memory ? of_bytes(o, memory, line, p) : NULL;

    pthread_mutex_lock(&o->lock);
    o->narrow = n;
    o->makes_narrow = memory != NULL; /* until the maker gives up */
    pthread_mutex_unlock(&o->lock);
    return n;
}

/* ---- changes --------------------------------------------------------------------------------- */

struct hashing {
    const limber_matrix *x;
    int64_t outer, inner; /* the inner ones are nearer to each other in memory */
    int64_t outer_step, inner_step;
    int64_t each; /* outer ones of a task */
    XXH128_hash_t *hash;
};

static void hash_apart(XXH3_state_t *state, const char *at, int64_t n, int64_t step, size_t size)
{
    char buffer[4096];
    int64_t most = (int64_t)(sizeof buffer / size);

    for (; n > 0; n -= most) {
        int64_t some = n < most ? n : most;

        for (int64_t i = 0; i < some; i++, at += step)
            memcpy(buffer + (size_t)i * size, at, size);
        XXH3_128bits_update(state, buffer, (size_t)some * size);
    }
}

static void hash_some(void *arg, int64_t task, int worker)
{
    const struct hashing *h = arg;
    size_t size = h->x->format.size;
    int64_t end = (task + 1) * h->each < h->outer ? (task + 1) * h->each : h->outer;
    XXH3_state_t state;

    (void)worker;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    for (int64_t i = task * h->each; i < end; i++) {
        const char *at = (const char *)h->x->data + i * h->outer_step * (int64_t)size;

        if (h->inner_step == 1)
            XXH3_128bits_update(&state, at, (size_t)h->inner * size);
        else
            hash_apart(&state, at, h->inner, h->inner_step * (int64_t)size, size);
    }
    h->hash[task] = XXH3_128bits_digest(&state);
}

/* Of all elements, by the context's threads. */
static bool hash(const struct limber_prepared *o, XXH128_hash_t *out, struct diag *d)
{
    bool by_rows = o->x.col_stride <= o->x.row_stride;
    struct hashing h = { .x = &o->x,
                         .outer = by_rows ? o->rows : o->cols,
                         .inner = by_rows ? o->cols : o->rows,
                         .outer_step = by_rows ? o->x.row_stride : o->x.col_stride,
                         .inner_step = by_rows ? o->x.col_stride : o->x.row_stride };
    struct runner r = limber_pool_runner(o->ctx->pool);
    int64_t tasks;

    h.each = HASHED / (h.inner + 1) + 1;
    tasks = h.inner ? (h.outer + h.each - 1) / h.each : 0;
    h.hash = malloc((size_t)(tasks + 1) * sizeof *h.hash);
    if (!h.hash)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the hashes of an operand");
    r.run(r.self, tasks, hash_some, &h);
    *out = XXH3_128bits(h.hash, (size_t)tasks * sizeof *h.hash);
    free(h.hash);
    return true;
}

/* what: "operand a". */
static bool is_same(const struct limber_prepared *o, const char *what, struct diag *d)
{
    XXH128_hash_t now;

    return hash(o, &now, d) && (XXH128_isEqual(now, o->hash) ||
                                limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                                            "%s has changed since it was prepared", what));
}

/* ---- the calls ------------------------------------------------------------------------------- */

static size_t bound_of(const struct limber_prepared *o, const limber_prepare_config *c)
{
    double elements = (double)o->rows * (double)o->cols * o->x.format.size;

    return c->bytes          ? c->bytes :
           o->ctx->workspace ? o->ctx->workspace :
                               (size_t)(4 * elements) + ((size_t)64 << 20);
}

static bool check_prepare(const limber_context *ctx, struct extent x,
                          const limber_prepare_config *c, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if (x.rows < 0 || x.cols < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative",
                           x.rows < 0 ? "rows" : "cols", (long long)(x.rows < 0 ? x.rows : x.cols));
    if (!limber_check_matrix(x.m, x.what, x.rows, x.cols, d) ||
        !limber_check_data(x.m, x.what, x.rows, x.cols, d))
        return false;
    if (c->changes != LIMBER_CHANGES_TRUSTED && c->changes != LIMBER_CHANGES_CHECKED)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "config.changes = %d is none of its values", (int)c->changes);
    return c->changes != LIMBER_CHANGES_CHECKED || !limber_device_holds(ctx, x.m->data) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "config.changes: LIMBER_CHANGES_CHECKED of x in a device's memory");
}

/* Of filters. */
static limber_operation operation_of(const limber_prepare_config *c)
{
    return c->operation ? (limber_operation)c->operation : LIMBER_OPERATION_CONV_FORWARD;
}

static bool prepare(struct limber_prepared *o, struct diag *d)
{
    begin(o);
    return scan(o, d) && (limber_device_holds(o->ctx, o->x.data) || hash(o, &o->hash, d));
}

/* conv: of filters; else NULL. */
static limber_status prepare_as(const char *name, limber_context *ctx, struct extent x,
                                limber_side side, const struct conv *conv,
                                const limber_prepare_config *c, limber_prepared **prepared,
                                struct diag *d)
{
    struct limber_prepared *o = NULL;

    if (!d->status && check_prepare(ctx, x, c, d)) {
        o = calloc(1, sizeof *o);
        if (!o)
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for an operand");
    }
    if (o) {
        o->ctx = ctx;
        o->x = *x.m;
        o->rows = x.rows;
        o->cols = x.cols;
        o->left = side == LIMBER_SIDE_A;
        o->parts = o->groups = 1;
        if (conv) {
            o->operation = operation_of(c);
            o->conv = *conv;
            o->parts = limber_conv_parts(conv);
            o->groups = conv->geometry.groups;
        }
        o->checks = c->changes == LIMBER_CHANGES_CHECKED;
        o->bound = bound_of(o, c);
        if (prepare(o, d))
            *prepared = o;
        else
            limber_prepared_free(o);
    }
    if (d->status)
        limber_fail_in(d, name);
    return limber_error_set(d);
}

/* What both have: *prepared is NULL until there is one. */
static bool begin_call(limber_prepared **prepared, const limber_prepare_config *config,
                       limber_prepare_config *c, struct diag *d)
{
    if (!prepared)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "prepared is NULL");
    *prepared = NULL;
    return !config || limber_sized_in(c, sizeof *c, config, LEAST_prepare_config, "config", d);
}

limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows, int64_t cols,
                             limber_side side, const limber_prepare_config *config,
                             limber_prepared **prepared)
{
    CALL_SCOPE;
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;
    struct diag d = { 0 };

    if (begin_call(prepared, config, &c, &d) && side != LIMBER_SIDE_A && side != LIMBER_SIDE_B)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "side = %d is neither A nor B", (int)side);
    if (!d.status && c.operation != LIMBER_OPERATION_GEMM)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT,
                    "config.operation = %lld, but a matrix is prepared for products",
                    (long long)c.operation);
    return prepare_as("prepare", ctx, (struct extent){ &x, "x", rows, cols }, side, NULL, &c,
                      prepared, &d);
}

limber_status limber_prepare_filters(limber_context *ctx, const limber_conv *conv, const void *w,
                                     limber_format wf, const limber_prepare_config *config,
                                     limber_prepared **prepared)
{
    CALL_SCOPE;
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;
    limber_matrix x = { w, wf, 0, 1 };
    limber_conv full = { 0 };
    struct conv filters = { 0 };
    struct diag d = { 0 };

    if (begin_call(prepared, config, &c, &d) && !conv)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "conv is NULL");
    if (!d.status && c.operation != 0 && c.operation != LIMBER_OPERATION_CONV_FORWARD &&
        c.operation != LIMBER_OPERATION_CONV_BACKWARD_DATA)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT,
                    "config.operation = %lld reads no filters: they are prepared for "
                    "CONV_FORWARD or CONV_BACKWARD_DATA",
                    (long long)c.operation);
    if (!d.status && limber_sized_in(&full, sizeof full, conv, LEAST_conv, "conv", &d))
        limber_conv_filters(&full, operation_of(&c), &filters, &x.row_stride, &d);
    /* one after another, whatever the layout: a line is a filter */
    return prepare_as("prepare_filters", ctx, (struct extent){ &x, "x", full.o, x.row_stride },
                      LIMBER_SIDE_A, &filters, &c, prepared, &d);
}

void limber_prepared_free(limber_prepared *o)
{
    CALL_SCOPE;
    if (!o)
        return;
    limber_prepared_free(o->narrow);
    while (o->limbs)
        drop(o, &o->limbs);
    for (int64_t i = 0; o->mask && i < places(o); i++)
        limber_mask_clear(&o->mask[i]);
    free(o->mask);
    limber_at_fork_no_more(&o->at_fork);
    pthread_mutex_destroy(&o->lock);
    limber_memory_free(&o->ctx->allocator, o->elements);
    free(o);
}

limber_status limber_prepared_check(limber_prepared *o)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!o)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "operand is NULL");
    else if (limber_device_holds(o->ctx, o->x.data))
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "operand in a device's memory");
    else
        is_same(o, "operand", &d);
    if (d.status)
        limber_fail_in(&d, "prepared_check");
    return limber_error_set(&d);
}

static const char *reader(limber_operation o)
{
    return o == LIMBER_OPERATION_GEMM         ? "products of matrices" :
           o == LIMBER_OPERATION_CONV_FORWARD ? "forward convolutions" :
                                                "backward data";
}

bool limber_prepared_fits(const limber_context *ctx, const limber_prepared *o, struct extent x,
                          limber_operation operation, limber_side side, struct diag *d)
{
    const bool left = side == LIMBER_SIDE_A;

    if (!o)
        return true;
    if (o->ctx != ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared with another context",
                           x.what);
    if (o->operation != operation)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared for %s, not for %s",
                           x.what, reader(o->operation), reader(operation));
    if (o->left != left)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared for the other side",
                           x.what);
    if (o->rows != x.rows || o->cols != x.cols)
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared as %lld x %lld, not %lld x %lld",
            x.what, (long long)o->rows, (long long)o->cols, (long long)x.rows, (long long)x.cols);
    if (o->x.data != x.m->data || o->x.row_stride != x.m->row_stride ||
        o->x.col_stride != x.m->col_stride || !limber_format_equal(o->x.format, x.m->format))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared of another matrix",
                           x.what);
    return !o->checks || is_same(o, x.what, d);
}

/* What decides which elements a phase reads, one side of a window: NULL where it is alike. */
static const char *differs(const struct conv_geometry *a, const struct conv_geometry *b, int side)
{
    static const char *const name[3][3] = {
        { "stride[0]", "dilate[0]", "pad[0]" },
        { "stride[1]", "dilate[1]", "pad[2]" },
        { "depth_stride", "depth_dilate", "depth_pad[0]" },
    };

    return a->stride[side] != b->stride[side]   ? name[side][0] :
           a->dilate[side] != b->dilate[side]   ? name[side][1] :
           a->pad[2 * side] != b->pad[2 * side] ? name[side][2] :
                                                  NULL;
}

static bool filters_are_alike(const struct conv *a, const struct conv *b, struct diag *d)
{
    const char *other = a->geometry.layout != b->geometry.layout ? "layout" :
                        a->sizes.r != b->sizes.r                 ? "r" :
                        a->sizes.s != b->sizes.s                 ? "s" :
                        a->sizes.t != b->sizes.t                 ? "t" :
                                                                   NULL;

    for (int i = 0; i < 3 && !other && limber_conv_parts(a) + limber_conv_parts(b) > 2; i++)
        other = differs(&a->geometry, &b->geometry, i);
    return !other || limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                                 "prepared_b was prepared with another conv.%s", other);
}

bool limber_prepared_filters_fit(const limber_context *ctx, const limber_problem *p, struct diag *d)
{
    const limber_prepared *o = p->prepared_b;
    limber_matrix x = { p->b.data, p->b.format, 0, 1 };
    struct conv c;

    if (!o)
        return true;
    if (!limber_conv_filters(p->conv, p->operation, &c, &x.row_stride, d) ||
        !limber_prepared_fits(ctx, o, (struct extent){ &x, "prepared_b", p->conv->o, x.row_stride },
                              p->operation, LIMBER_SIDE_A, d))
        return false;
    if (o->groups != p->conv->groups)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "prepared_b was prepared in %lld groups, not %lld", (long long)o->groups,
                           (long long)p->conv->groups);
    return filters_are_alike(&o->conv, &c, d);
}
