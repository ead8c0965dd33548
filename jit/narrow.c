/* SPDX-License-Identifier: BSD-3-Clause
 * Correct products of floats that hold bytes, as those of quantised data: both operands become
 * bytes once, each under one power of two, which are multiplied as integers.  A scan before would
 * read the operands once more; here a few elements say whether it is worth trying, and whoever
 * converts an element sees whether a byte holds it.  The bits are those of exact sums, rounded
 * once. */
#include "jit/ways.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    SAMPLE = 64, /* elements of an operand that are looked at first */
    MOST_K = 65536, /* products of a byte and a signed byte whose sum cannot leave 32 bits */
    FAR = 100, /* powers of two beyond which results need care */
    OFTEN = 64, /* rows, columns and elements along k from which native products gain */
    TASK = 1 << 15, /* elements of a task */
    PIECE = 1024, /* elements that a plan looks at */
    ALIGNED = 64
};

/* An operand: dense lines, `step` elements apart. */
struct narrowed {
    const char *data;
    limber_format from;
    int64_t lines, length, step;
    bool is_unsigned; /* bytes are 0 to 255, else -128 to 127 */
    int exponent; /* bytes count units of 2^exponent */
    const uint8_t *bytes; /* lines side by side */
    uint8_t *to; /* where this call makes them; NULL: they are there already */
    int64_t tasks;
    limber_prepared *source, *kept; /* NULL, or the caller's, and its bytes */
    enum narrow_state state; /* of that */
};

struct job {
    struct finisher straight, turned; /* first: handed out, and cast back */
    const struct target *target;
    const struct narrow_ops *ops;
    struct narrowed of[2];
    atomic_bool other; /* an element is no such byte */
    int size; /* of an element of the result */
    double unit; /* of sums */
    bool (*again)(struct attempt *); /* computes the product of the bytes */
    const struct finisher *finish; /* of what is widened; or NULL */
    struct output_view c, sums; /* sums of a binary32 result lie where that will be */
    int64_t rows, length; /* of the result, dense ones */
};

/* ---- which calls ----------------------------------------------------------------------------- */

/* Sums in binary64 are exact, be they native ones or of bytes, which pay where elements are read
 * often; those in binary32 may have to be rounded. */
static bool is_exact_anyway(const struct problem *p)
{
    return (p->contract.promise == LIMBER_CONTRACT_NATIVE ||
            p->contract.promise == LIMBER_CONTRACT_BITS) &&
           p->fc.size == 8 && p->m >= OFTEN && p->n >= OFTEN && p->k >= OFTEN;
}

static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    const struct backend *b = ctx->machine.backend;
    const limber_contract *k = &p->contract;

    if (!(k->promise == LIMBER_CONTRACT_CORRECT || is_exact_anyway(p)) || k->scheme || k->slices)
        return "it serves correct results, and large ones of f64";
    if (!limber_format_is_binary(p->fa) || !limber_format_is_binary(p->fb) ||
        !limber_format_is_binary(p->fc) || p->alpha || p->beta)
        return "it serves products of f64 and f32 that are not scaled or added";
    if (p->k == 0 || p->k > MOST_K)
        return "k is 0, or sums may leave 32 bits";
    if (!b->narrow || ctx->machine.target.rate[UNIT_i8] <= ctx->machine.target.rate[UNIT_f64] ||
        !b->narrow->serves(&ctx->machine.target))
        return "bytes are not faster here";
    if (p->queue && p->queue->workspace)
        return "it takes memory beside the workspace";
    return !p->fine && (p->shape ? !p->conv.sizes.phase[0] : p->groups == 1) && !p->each_a &&
                   !p->a.pairs && !p->b.pairs && !p->a.tile_subset && !p->b.tile_subset ?
               NULL :
               "it serves one product of all of its operands";
}

/* Tensors are dense. */
static void set_tensors(const struct problem *p, struct job *j)
{
    const struct conv_elements count = limber_conv_elements(&p->conv);

    j->of[0].length = j->of[0].step = count.left;
    j->of[1].length = j->of[1].step = count.right;
    j->length = count.result;
    j->rows = j->of[0].lines = j->of[1].lines = 1;
}

static bool set_matrix(struct narrowed *x, const struct view *v, int64_t lines, int64_t k)
{
    x->lines = v->p == 1 ? lines : k;
    x->length = v->p == 1 ? k : lines;
    x->step = v->p == 1 ? v->line : v->p;
    return (v->p == 1 || v->line == 1) && x->step >= x->length;
}

static bool set_matrices(const struct problem *p, struct job *j)
{
    j->rows = p->m;
    j->length = p->n;
    return p->c.col == 1 && p->c.inner >= p->n && p->c.row >= p->n && !p->c.wide && !p->c.rows &&
           !p->c.cols && set_matrix(&j->of[0], &p->a, p->m, p->k) &&
           set_matrix(&j->of[1], &p->b, p->n, p->k);
}

/* ---- a look at the data ---------------------------------------------------------------------- */

static double element(const struct narrowed *x, int64_t i)
{
    return limber_scalar_value(x->data + (i / x->length * x->step + i % x->length) * x->from.size,
                               x->from.size);
}

/* Its lowest bit is 2^answer. */
static int low_bit(double value)
{
    int exponent;
    const int64_t digits = (int64_t)ldexp(fabs(frexp(value, &exponent)), 53);

    return exponent - 53 + __builtin_ctzll((unsigned long long)digits);
}

/* Whether a few elements are such bytes; then the unit is 1 if they are integers, else their lowest
 * bit.  Bytes may be unsigned: so they are where none of these is negative. */
static bool looks_narrow(struct narrowed *x, bool may_be_unsigned)
{
    const int64_t all = x->lines * x->length, step = all / SAMPLE + 1;
    int low = INT32_MAX, high = INT32_MIN;
    bool negative = false;

    for (int64_t i = 0, at = 0; at < all; i++, at = i * step + i % step) {
        const double value = element(x, at);

        if (!(fabs(value) < HUGE_VAL))
            return false;
        negative |= value < 0;
        if (value == 0)
            continue;
        low = low_bit(value) < low ? low_bit(value) : low;
        high = ilogb(value) > high ? ilogb(value) : high;
        if (high - low > 7)
            return false;
    }
    x->is_unsigned = may_be_unsigned && !negative;
    if (low > high) /* zeros */
        low = high = 0;
    x->exponent = low >= 0 && high <= (x->is_unsigned ? 7 : 6) ? 0 : low;
    return x->exponent >= -FAR && x->exponent <= FAR;
}

/* An operand that is scanned is known; what is kept of it are signed bytes. */
static bool is_narrow(struct narrowed *x, bool may_be_unsigned)
{
    if (!x->source)
        return looks_narrow(x, may_be_unsigned);
    x->state = limber_prepared_narrow(x->source, &x->exponent, &x->kept);
    if (x->kept)
        x->bytes = limber_prepared_data(x->kept);
    return x->state != NARROW_none && x->exponent >= -FAR && x->exponent <= FAR;
}

/* ---- conversions ----------------------------------------------------------------------------- */

/* A task is a part of a long line, or some short lines. */
static int64_t parts_of(int64_t length)
{
    return (length + TASK - 1) / TASK;
}

static int64_t lines_of(int64_t length)
{
    return length < TASK ? TASK / (length + 1) + 1 : 1;
}

static int64_t tasks_of(int64_t lines, int64_t length)
{
    return (lines + lines_of(length) - 1) / lines_of(length) * parts_of(length);
}

struct piece {
    int64_t first, end, at, count; /* lines; elements of each */
};

static struct piece piece_of(int64_t lines, int64_t length, int64_t task)
{
    const int64_t parts = parts_of(length), each = lines_of(length);
    struct piece p = { task / parts * each, (task / parts + 1) * each, task % parts * TASK, TASK };

    p.end = p.end < lines ? p.end : lines;
    p.count = p.count < length - p.at ? p.count : length - p.at;
    return p;
}

/* Elements at, at + 1 and on of a line become bytes; false where one of them is no such byte. */
static bool narrow(const struct job *j, const struct narrowed *x, int64_t line, int64_t at,
                   int64_t count, uint8_t *to)
{
    const int low = x->is_unsigned ? 0 : -128, high = x->is_unsigned ? 255 : 127;

    return j->ops->narrow(j->target, x->from.size, x->data + (line * x->step + at) * x->from.size,
                          ldexp(1, x->exponent), low, high, to, count);
}

static void run_narrow(void *arg, int64_t task, int worker)
{
    struct job *j = arg;
    const struct narrowed *x = &j->of[task >= j->of[0].tasks];
    const struct piece p =
        piece_of(x->lines, x->length, task >= j->of[0].tasks ? task - j->of[0].tasks : task);

    (void)worker;
    for (int64_t i = p.first; i < p.end; i++) {
        if (atomic_load_explicit(&j->other, memory_order_relaxed))
            return;
        if (!narrow(j, x, i, p.at, p.count, x->to + i * x->length + p.at))
            atomic_store(&j->other, true);
    }
}

/* `lines` of `length` dense elements from (row, col) on, rows or columns. */
static void widen(const struct job *j, int64_t row, int64_t col, int64_t lines, int64_t length,
                  bool columns)
{
    struct widened w = { .from = limber_output_at(&j->sums, row, col, sizeof(int32_t)),
                         .to = limber_output_at(&j->c, row, col, j->size),
                         .size = j->size,
                         .unit = j->unit,
                         .lines = lines,
                         .length = length,
                         .from_step = columns ? j->sums.col : j->sums.row,
                         .to_step = columns ? j->c.col : j->c.row };

    j->ops->widen(j->target, &w);
}

/* In stretches of columns that lie regularly; rows or columns are dense. */
static void finish_straight(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                            int64_t cols)
{
    const struct job *j = (const struct job *)(const void *)self;
    const int64_t inner = j->c.inner;

    for (int64_t at = col, n; at < col + cols; at += n) {
        n = inner - at % inner < col + cols - at ? inner - at % inner : col + cols - at;
        if (j->c.col == 1)
            widen(j, row, at, rows, n, false);
        else
            widen(j, row, at, n, rows, true);
    }
    if (j->finish)
        j->finish->block(j->finish, row, rows, col, cols);
}

static void finish_turned(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                          int64_t cols)
{
    finish_straight(self->turned, col, cols, row, rows);
}

static void run_widen(void *arg, int64_t task, int worker)
{
    struct job *j = arg;
    const struct piece p = piece_of(j->rows, j->length, task);

    (void)worker;
    j->ops->widen(j->target, &(struct widened){
                                 .from = (char *)j->sums.data +
                                         (p.first * j->sums.row + p.at) * (int64_t)sizeof(int32_t),
                                 .to = (char *)j->c.data + (p.first * j->c.row + p.at) * j->size,
                                 .size = j->size,
                                 .unit = j->unit,
                                 .lines = p.end - p.first,
                                 .length = p.count,
                                 .from_step = j->sums.row,
                                 .to_step = j->c.row });
}

static void run_all(limber_context *ctx, int64_t tasks, void (*task)(void *, int64_t, int),
                    struct job *j)
{
    const struct runner all = limber_pool_runner(ctx->pool);

    if (tasks > 1 && all.workers > 1)
        all.run(all.self, tasks, task, j);
    else
        for (int64_t i = 0; i < tasks; i++)
            task(j, i, 0);
}

static bool become_bytes(limber_context *ctx, struct job *j)
{
    for (int i = 0; i < 2; i++) {
        struct narrowed *x = &j->of[i];

        if (x->step == x->length) { /* one line */
            x->length *= x->lines;
            x->lines = 1;
        }
        x->tasks = x->to ? tasks_of(x->lines, x->length) : 0;
    }
    run_all(ctx, j->of[0].tasks + j->of[1].tasks, run_narrow, j);
    return !j->other;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Dense, as tensors are. */
static struct view view_of(const struct problem *p, const struct view *v, const struct narrowed *x,
                           int64_t lines)
{
    struct view to = *v;

    to.data = x->bytes;
    if (p->shape)
        return to;
    if (v->p == 1)
        to.line = p->k;
    else
        to.p = lines;
    return to;
}

/* Gives bytes that are to be kept to the prepared operand. */
static void keep(const struct problem *p, struct narrowed *x, const struct view *v)
{
    if (x->state == NARROW_to_make && x->to)
        x->kept = limber_prepared_made_narrow(x->source, x->to, p->shape ? p->k : v->line,
                                              p->shape ? 1 : v->p);
}

static struct problem problem_of(const struct problem *p, struct job *j, bool *finished)
{
    struct problem q = *p;

    q.contract = (limber_contract)LIMBER_CONTRACT_INIT;
    q.contract.on_miss = p->contract.on_miss;
    q.fa = j->of[0].is_unsigned ? LIMBER_U8 : LIMBER_I8;
    q.fb = j->of[1].is_unsigned ? LIMBER_U8 : LIMBER_I8;
    q.fc = LIMBER_I32;
    q.a = view_of(p, &p->a, &j->of[0], p->m);
    q.b = view_of(p, &p->b, &j->of[1], p->n);
    q.c = j->sums;
    keep(p, &j->of[0], &q.a);
    keep(p, &j->of[1], &q.b);
    q.kept[0] = j->of[0].kept;
    q.kept[1] = j->of[1].kept;
    q.finish = j->c.col == 1 || j->c.row == 1 ? &j->straight : NULL;
    q.finished = finished;
    return q;
}

static bool run_bytes(limber_context *ctx, const struct problem *p, struct job *j, bool *finished,
                      struct report *r)
{
    const struct problem q = problem_of(p, j, finished);
    struct diag ignored = { 0 }; /* nothing is stored; another way may do */
    struct attempt x = { .ctx = ctx, .p = &q, .r = r, .d = &ignored };

    return j->again(&x);
}

/* Sums are widened as soon as they are there where the kernel can; else all of them afterwards. */
static bool multiply(limber_context *ctx, const struct problem *p, struct job *j, struct report *r)
{
    bool finished = false, ok;

    limber_pool_enter(ctx->pool);
    ok = become_bytes(ctx, j) && run_bytes(ctx, p, j, &finished, r);
    if (ok && finished && p->finish)
        *p->finished = true;
    if (ok && !finished)
        run_all(ctx, tasks_of(j->rows, j->length), run_widen, j);
    limber_pool_leave(ctx->pool);
    return ok;
}

static size_t aligned(double bytes)
{
    return ((size_t)bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Bytes that stay with a prepared operand have memory of their own; without it they are this
 * call's alone. */
static void take_kept(limber_context *ctx, struct narrowed *x)
{
    if (x->state != NARROW_to_make)
        return;
    x->to = limber_memory_alloc(&ctx->allocator, (size_t)(x->lines * x->length));
    x->bytes = x->to;
    if (x->to)
        return;
    limber_prepared_made_narrow(x->source, NULL, 0, 0);
    x->state = NARROW_elsewhere;
}

static void end_kept(limber_context *ctx, struct narrowed *x)
{
    if (x->state != NARROW_to_make || x->kept)
        return;
    limber_prepared_made_narrow(x->source, NULL, 0, 0);
    limber_memory_free(&ctx->allocator, x->to);
}

/* Takes memory for both, and for sums that do not fit where the result is. */
static bool run_in_memory(limber_context *ctx, const struct problem *p, struct job *j,
                          struct report *r)
{
    size_t size[3] = { 0, 0, j->size == 8 ? (size_t)(j->rows * j->length) * sizeof(int32_t) : 0 };
    size_t all = size[2];
    char *memory;
    bool ok;

    for (int i = 0; i < 2; i++) {
        if (!j->of[i].bytes)
            size[i] = aligned((double)j->of[i].lines * (double)j->of[i].length);
        all += size[i];
    }
    if (ctx->workspace && all > ctx->workspace)
        return false;
    memory = limber_memory_alloc(&ctx->allocator, all);
    if (!memory)
        return false;
    for (int i = 0; i < 2; i++)
        if (size[i])
            j->of[i].bytes = j->of[i].to = (uint8_t *)memory + (i ? size[0] : 0);
    if (size[2]) {
        j->sums.data = memory + size[0] + size[1];
        j->sums.row = p->shape ? j->sums.row : p->n;
    }
    ok = multiply(ctx, p, j, r);
    limber_memory_free(&ctx->allocator, memory);
    if (ok && r)
        r->workspace += all;
    return ok;
}

/* False where the operands lie otherwise, or a few elements say that bytes do not hold them.  With
 * `kept`, prepared operands give the bytes that they keep, or have this call make them. */
static bool begin(const limber_context *ctx, const struct problem *p, bool kept, struct job *j)
{
    const bool conv = p->shape != NULL;

    *j = (struct job){ .straight = { finish_straight, &j->turned },
                       .turned = { finish_turned, &j->straight },
                       .target = &ctx->machine.target,
                       .ops = ctx->machine.backend->narrow,
                       .size = p->fc.size,
                       .finish = p->finish,
                       .c = p->c,
                       .sums = p->c };
    j->of[0] = (struct narrowed){ .data = p->a.data, .from = p->fa };
    j->of[1] = (struct narrowed){ .data = p->b.data, .from = p->fb };
    for (int i = 0; i < 2 && kept; i++)
        j->of[i].source = p->kept[i];
    if (conv)
        set_tensors(p, j);
    else if (!set_matrices(p, j))
        return false;
    /* the code for bytes takes unsigned ones of images, and of A */
    return is_narrow(&j->of[0], !conv) && is_narrow(&j->of[1], conv) &&
           abs(j->of[0].exponent + j->of[1].exponent) <= FAR;
}

static enum ran run(struct attempt *x)
{
    const double start = x->r ? limber_now() : 0;
    struct job j;
    bool ok = begin(x->ctx, x->p, true, &j);

    j.again = x->again;
    j.unit = ldexp(1, j.of[0].exponent + j.of[1].exponent);
    for (int i = 0; ok && i < 2; i++)
        take_kept(x->ctx, &j.of[i]);
    ok = ok && run_in_memory(x->ctx, x->p, &j, x->r);
    for (int i = 0; i < 2; i++)
        end_kept(x->ctx, &j.of[i]);
    if (ok && x->r) {
        strcpy(x->r->scheme, "ozaki1-i8");
        x->r->bound = 0;
        x->r->seconds_run = limber_now() - start;
    }
    return limber_ran(ok);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Whether bytes hold all elements of an operand. */
static bool are_bytes(const struct job *j, const struct narrowed *x)
{
    uint8_t to[PIECE];
    bool all = true;

    for (int64_t i = 0; i < x->lines; i++)
        for (int64_t at = 0; all && at < x->length; at += PIECE)
            all = narrow(j, x, i, at, x->length - at < PIECE ? x->length - at : PIECE, to);
    return all;
}

static bool suits(struct attempt *x)
{
    struct job j;

    return begin(x->ctx, x->p, false, &j) && are_bytes(&j, &j.of[0]) && are_bytes(&j, &j.of[1]);
}

static enum ran plan(struct attempt *x, struct text *out, struct cut *cut)
{
    struct job j;
    struct problem q;
    bool ok;

    (void)cut;
    if (!begin(x->ctx, x->p, false, &j))
        return RAN_not;
    q = problem_of(x->p, &j, NULL);
    if (out)
        limber_text_add(out, "; way=bytes: both operands become bytes, whose product is:\n");
    ok =
        x->plan_again(&(struct attempt){ .ctx = x->ctx, .p = &q, .r = x->r, .d = x->d }, out, NULL);
    strcpy(x->r->scheme, "ozaki1-i8");
    x->r->bound = 0;
    return ok ? RAN_done : RAN_failed;
}

const struct way limber_way_bytes = { .id = WAY_bytes,
                                      .plans = true,
                                      .keeps_memory = true,
                                      .refuses = refuses,
                                      .run = run,
                                      .suits = suits,
                                      .plan = plan };
