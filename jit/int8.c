/* SPDX-License-Identifier: BSD-3-Clause
 * Correct products of floats whose values are 8-bit integers times a power of two, such as
 * quantised data.  Both operands are converted to INT8 and multiplied as integers.  No scan is
 * made, because it would read the operands once more: a few sampled elements tell whether to try,
 * and the conversion detects elements that do not fit.  The bits are those of exact sums that are
 * rounded once.  A "byte" in this file is such an 8-bit integer. */
#include "jit/ways.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    SAMPLE = 64, /* elements of an operand that are sampled */
    MOST_K = 65536, /* largest k for which sums of unsigned times signed bytes fit 32 bits */
    /* largest |exponent| of the power of two that scales an operand, so that results neither
     * overflow nor underflow */
    FAR = 100,
    OFTEN = 64, /* smallest m, n and k for which bytes are faster than native products */
    TASK = 1 << 15, /* elements of a task */
    PIECE = 1024, /* elements that are converted at once to test whether they are bytes */
    ALIGNED = 64
};

/* An operand that is converted to bytes.  Its lines are rows or columns of contiguous elements; a
 * line begins `step` elements after the previous one. */
struct int8_operand {
    const char *data;
    limber_format from;
    int64_t lines, length, step;
    bool is_unsigned; /* true if the bytes are numbers from 0 to 255, false if from -128 to 127 */
    int exponent; /* byte b stands for the number b * 2^exponent */
    const uint8_t *bytes; /* the bytes, in dense lines */
    uint8_t *to; /* where this call stores the bytes; NULL if they exist already */
    int64_t tasks;
    limber_prepared *source, *kept; /* the caller's prepared operand, and its bytes; or NULL */
    enum int8_state state; /* whether `source` has, or this call makes, a copy as bytes */
};

/* State of one product that is computed in bytes. */
struct int8_product {
    /* must be first: pointers to these two are cast back to struct int8_product */
    struct finisher straight, turned;
    const struct target *target;
    const struct int8_ops *ops;
    struct int8_operand of[2];
    atomic_bool other; /* set if an element is not a byte times the operand's power of two */
    int size; /* bytes of an element of C */
    double unit; /* a sum s of products of bytes stands for s * unit */
    bool (*again)(struct attempt *); /* computes the product of the bytes */
    const struct finisher *finish; /* the caller's steps, applied to the floats; or NULL */
    /* C, and where the i32 sums are stored: in C's memory if C is binary32 */
    struct output_view c, sums;
    int64_t rows, length; /* number and length of C's rows of contiguous elements */
};

/* ---- which calls are served ------------------------------------------------------------------ */

/* True if results under the contracts `native` and `bits` may be computed exactly, in bytes: C is
 * binary64, and the product is so large that converting the operands pays. */
static bool is_worth_exact(const struct problem *p)
{
    return (p->contract.promise == LIMBER_CONTRACT_NATIVE ||
            p->contract.promise == LIMBER_CONTRACT_BITS) &&
           p->fc.size == 8 && p->m >= OFTEN && p->n >= OFTEN && p->k >= OFTEN;
}

/* Returns the reason why INT8 units cannot compute this call, as text; NULL if they can, provided
 * that all elements turn out to be bytes, which is tested later. */
static const char *why_not_as_bytes(const limber_context *ctx, const struct problem *p)
{
    const struct cpu_ops *cpu = ctx->machine.cpu;
    const limber_contract *k = &p->contract;

    if (!(k->promise == LIMBER_CONTRACT_CORRECT || is_worth_exact(p)) || k->scheme || k->slices)
        return "it serves correct results, and large ones of f64";
    if (!limber_format_is_binary(p->fa) || !limber_format_is_binary(p->fb) ||
        !limber_format_is_binary(p->fc) || p->alpha || p->beta)
        return "it serves products of f64 and f32 that are not scaled or added";
    if (p->k == 0 || p->k > MOST_K)
        return "k is 0, or sums may leave 32 bits";
    if (!cpu || ctx->machine.target.rate[UNIT_i8] <= ctx->machine.target.rate[UNIT_f64] ||
        !cpu->int8->serves(&ctx->machine.target))
        return "bytes are not faster here";
    if (p->queue && p->queue->workspace)
        return "it takes memory beside the workspace";
    return !p->part.fine && (p->shape ? !p->conv.sizes.phase[0] : p->groups == 1) &&
                   !p->at.each_a && !p->a.pairs && !p->b.pairs && !p->a.tile_subset &&
                   !p->b.tile_subset ?
               NULL :
               "it serves one product of all of its operands";
}

/* Describes each dense tensor of a convolution in *j as a single line of elements. */
static void set_tensors(const struct problem *p, struct int8_product *j)
{
    const struct conv_elements count = limber_conv_elements(&p->conv);

    j->of[0].length = j->of[0].step = count.left;
    j->of[1].length = j->of[1].step = count.right;
    j->length = count.result;
    j->rows = j->of[0].lines = j->of[1].lines = 1;
}

/* Describes a matrix by its contiguous lines, which run along k or perpendicular to k.  False if
 * neither are contiguous. */
static bool set_matrix(struct int8_operand *x, const struct view *v, int64_t lines, int64_t k)
{
    x->lines = v->p == 1 ? lines : k;
    x->length = v->p == 1 ? k : lines;
    x->step = v->p == 1 ? v->line : v->p;
    return (v->p == 1 || v->line == 1) && x->step >= x->length;
}

/* Describes both operands and the result of a GEMM. False if the layout is not supported. */
static bool set_matrices(const struct problem *p, struct int8_product *j)
{
    j->rows = p->m;
    j->length = p->n;
    return p->c.col == 1 && p->c.inner >= p->n && p->c.row >= p->n && !p->c.wide && !p->c.rows &&
           !p->c.cols && set_matrix(&j->of[0], &p->a, p->m, p->k) &&
           set_matrix(&j->of[1], &p->b, p->n, p->k);
}

/* ---- do some elements of the data look like bytes? ------------------------------------------- */

/* Returns element i as a double. */
static double element_value(const struct int8_operand *x, int64_t i)
{
    return limber_scalar_value(x->data + (i / x->length * x->step + i % x->length) * x->from.size,
                               x->from.size);
}

/* Returns the exponent of the lowest set bit of a nonzero finite number. */
static int low_bit(double value)
{
    int exponent;
    const int64_t digits = (int64_t)ldexp(fabs(frexp(value, &exponent)), 53);

    return exponent - 53 + __builtin_ctzll((unsigned long long)digits);
}

/* Samples an operand.  True if the sampled elements are bytes times one power of two, the unit.
 * The unit is 1 if they are integers, else their lowest set bit.  The bytes are unsigned if that is
 * allowed and no sampled element is negative. */
static bool sample_bytes(struct int8_operand *x, bool may_be_unsigned)
{
    const int64_t all = x->lines * x->length, step = all / SAMPLE + 1;
    int low = INT32_MAX, high = INT32_MIN;
    bool negative = false;

    for (int64_t i = 0, at = 0; at < all; i++, at = i * step + i % step) {
        const double value = element_value(x, at);

        if (!(fabs(value) < HUGE_VAL))
            return false;
        negative |= value < 0;
        if (value == 0)
            continue;
        low = low_bit(value) < low ? low_bit(value) : low;
        high = ilogb(value) > high ? ilogb(value) : high;
        if (high - low > 7) /* a range of more than 8 bits does not fit a byte */
            return false;
    }
    x->is_unsigned = may_be_unsigned && !negative;
    if (low > high) /* only zeros */
        low = high = 0;
    x->exponent = low >= 0 && high <= (x->is_unsigned ? 7 : 6) ? 0 : low;
    return x->exponent >= -FAR && x->exponent <= FAR;
}

/* True if an operand seems to hold bytes.  For a prepared operand the scan has found that out, and
 * its bytes are signed; other operands are sampled. */
static bool may_hold_bytes(struct int8_operand *x, bool may_be_unsigned)
{
    if (!x->source)
        return sample_bytes(x, may_be_unsigned);
    x->state = limber_prepared_int8(x->source, &x->exponent, &x->kept);
    if (x->kept)
        x->bytes = limber_prepared_data(x->kept);
    return x->state != INT8_none && x->exponent >= -FAR && x->exponent <= FAR;
}

/* ---- conversion of floats to bytes ----------------------------------------------------------- */

/* Returns the number of tasks for a line.  Several short lines share a task. */
static int64_t parts_per_line(int64_t length)
{
    return (length + TASK - 1) / TASK;
}

/* Returns the number of lines that a task converts. */
static int64_t lines_per_task(int64_t length)
{
    return length < TASK ? TASK / (length + 1) + 1 : 1;
}

/* Returns the number of tasks that convert lines x length elements. */
static int64_t task_count(int64_t lines, int64_t length)
{
    return (lines + lines_per_task(length) - 1) / lines_per_task(length) * parts_per_line(length);
}

/* The elements that a task converts. */
struct task_elements {
    int64_t first, end, at, count; /* lines [first, end); elements [at, at + count) of each */
};

/* Returns the lines and elements that a task converts. */
static struct task_elements elements_of_task(int64_t lines, int64_t length, int64_t task)
{
    const int64_t parts = parts_per_line(length), each = lines_per_task(length);
    struct task_elements p = { task / parts * each, (task / parts + 1) * each, task % parts * TASK,
                               TASK };

    p.end = p.end < lines ? p.end : lines;
    p.count = p.count < length - p.at ? p.count : length - p.at;
    return p;
}

/* Converts `count` elements of a line, from index `at`, to bytes.  False if one of them is no 8-bit
 * integer times 2^x->exponent. */
static bool convert_elements(const struct int8_product *j, const struct int8_operand *x,
                             int64_t line, int64_t at, int64_t count, uint8_t *to)
{
    const int low = x->is_unsigned ? 0 : -128, high = x->is_unsigned ? 255 : 127;

    return j->ops->from_floats(j->target, x->from.size,
                               x->data + (line * x->step + at) * x->from.size,
                               ldexp(1, x->exponent), low, high, to, count);
}

/* Task: converts some lines of an operand to bytes.  An element that is no byte sets j->other,
 * which ends the attempt. */
static void convert_task(void *arg, int64_t task, int worker)
{
    struct int8_product *j = arg;
    const struct int8_operand *x = &j->of[task >= j->of[0].tasks];
    const struct task_elements p = elements_of_task(
        x->lines, x->length, task >= j->of[0].tasks ? task - j->of[0].tasks : task);

    (void)worker;
    for (int64_t i = p.first; i < p.end; i++) {
        if (atomic_load_explicit(&j->other, memory_order_relaxed))
            return;
        if (!convert_elements(j, x, i, p.at, p.count, x->to + i * x->length + p.at))
            atomic_store(&j->other, true);
    }
}

/* Converts the integer sums of a block of C to floats, from element (row, col): `lines` rows, or
 * columns if `columns` is set, of `length` contiguous elements each. */
static void widen_block(const struct int8_product *j, int64_t row, int64_t col, int64_t lines,
                        int64_t length, bool columns)
{
    struct widened w = { .from = limber_output_at(&j->sums, row, col, sizeof(int32_t)),
                         .to = limber_output_at(&j->c, row, col, j->size),
                         .size = j->size,
                         .unit = j->unit,
                         .lines = lines,
                         .length = length,
                         .from_step = columns ? j->sums.col : j->sums.row,
                         .to_step = columns ? j->c.col : j->c.row };

    j->ops->to_floats(j->target, &w);
}

/* The `block` callback of a finisher: converts the integer sums of a block of C to floats and
 * applies the caller's steps.  The block is divided where the stride between columns changes. */
static void finish_straight(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                            int64_t cols)
{
    const struct int8_product *j = (const struct int8_product *)(const void *)self;
    const int64_t inner = j->c.inner;

    for (int64_t at = col, n; at < col + cols; at += n) {
        n = inner - at % inner < col + cols - at ? inner - at % inner : col + cols - at;
        if (j->c.col == 1)
            widen_block(j, row, at, rows, n, false);
        else
            widen_block(j, row, at, n, rows, true);
    }
    if (j->finish)
        j->finish->block(j->finish, row, rows, col, cols);
}

/* The `block` callback of a finisher for a product that the backend computes transposed. */
static void finish_turned(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                          int64_t cols)
{
    finish_straight(self->turned, col, cols, row, rows);
}

/* Task: converts some of the integer sums to the result's floats. */
static void widen_task(void *arg, int64_t task, int worker)
{
    struct int8_product *j = arg;
    const struct task_elements p = elements_of_task(j->rows, j->length, task);

    (void)worker;
    j->ops->to_floats(
        j->target,
        &(struct widened){ .from = (char *)j->sums.data +
                                   (p.first * j->sums.row + p.at) * (int64_t)sizeof(int32_t),
                           .to = (char *)j->c.data + (p.first * j->c.row + p.at) * j->size,
                           .size = j->size,
                           .unit = j->unit,
                           .lines = p.end - p.first,
                           .length = p.count,
                           .from_step = j->sums.row,
                           .to_step = j->c.row });
}

/* Runs tasks on all threads, or on the caller's thread if there is one task or one thread. */
static void run_all(limber_context *ctx, int64_t tasks, void (*task)(void *, int64_t, int),
                    struct int8_product *j)
{
    const struct runner all = limber_pool_runner(ctx->pool);

    if (tasks > 1 && all.workers > 1)
        all.run(all.self, tasks, task, j);
    else
        for (int64_t i = 0; i < tasks; i++)
            task(j, i, 0);
}

/* Converts both operands.  False if an element is no byte (8-bit integer times the operand's power
 * of two). */
static bool convert_operands(limber_context *ctx, struct int8_product *j)
{
    for (int i = 0; i < 2; i++) {
        struct int8_operand *x = &j->of[i];

        /* without padding between lines the operand is a single long line */
        if (x->step == x->length) {
            x->length *= x->lines;
            x->lines = 1;
        }
        x->tasks = x->to ? task_count(x->lines, x->length) : 0;
    }
    run_all(ctx, j->of[0].tasks + j->of[1].tasks, convert_task, j);
    return !j->other;
}

/* ---- the product of the bytes ---------------------------------------------------------------- */

/* Returns the view of an operand's dense bytes. lines: number of its rows (A) or columns (B). */
static struct view view_of(const struct problem *p, const struct view *v,
                           const struct int8_operand *x, int64_t lines)
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

/* Gives the bytes to the prepared operand, which owns them from then on, if this call made them for
 * it. */
static void hand_over_bytes(const struct problem *p, struct int8_operand *x, const struct view *v)
{
    if (x->state == INT8_to_make && x->to)
        x->kept = limber_prepared_set_bytes(x->source, x->to, p->shape ? p->k : v->line,
                                            p->shape ? 1 : v->p);
}

/* Returns the INT8 product that replaces p.  After it has run, *finished tells whether the backend
 * has converted the sums to C's floats. */
static struct problem problem_of(const struct problem *p, struct int8_product *j, bool *finished)
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
    hand_over_bytes(p, &j->of[0], &q.a);
    hand_over_bytes(p, &j->of[1], &q.b);
    q.kept[0] = j->of[0].kept;
    q.kept[1] = j->of[1].kept;
    q.finish = j->c.col == 1 || j->c.row == 1 ? &j->straight : NULL;
    q.finished = finished;
    return q;
}

/* Computes the call as a product of 8-bit integers.  Returns false, with C unchanged, if it
 * fails. */
static bool run_bytes(limber_context *ctx, const struct problem *p, struct int8_product *j,
                      bool *finished, struct report *r)
{
    const struct problem q = problem_of(p, j, finished);
    struct diag ignored = { 0 }; /* C is unchanged, so another code path can compute the call */
    struct attempt x = { .ctx = ctx, .p = &q, .r = r, .d = &ignored };

    return j->again(&x);
}

/* Converts the operands to bytes, multiplies them, and converts the sums to floats: block by block
 * if the kernel calls the finisher, else all at the end.  False, with C unchanged, if an element is
 * no byte or the product fails. */
static bool multiply_bytes(limber_context *ctx, const struct problem *p, struct int8_product *j,
                           struct report *r)
{
    bool finished = false, ok;

    limber_pool_enter(ctx->pool);
    ok = convert_operands(ctx, j) && run_bytes(ctx, p, j, &finished, r);
    if (ok && finished && p->finish)
        *p->finished = true;
    if (ok && !finished)
        run_all(ctx, task_count(j->rows, j->length), widen_task, j);
    limber_pool_leave(ctx->pool);
    return ok;
}

/* Rounds up to a multiple of 64 bytes. */
static size_t align_bytes(double bytes)
{
    return ((size_t)bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Allocates memory for the bytes that the prepared operand will own.  If there is none, the bytes
 * are made for this call only. */
static void alloc_kept(limber_context *ctx, struct int8_operand *x)
{
    if (x->state != INT8_to_make)
        return;
    x->to = limber_memory_alloc(&ctx->allocator, (size_t)(x->lines * x->length));
    x->bytes = x->to;
    if (x->to)
        return;
    limber_prepared_set_bytes(x->source, NULL, 0, 0);
    x->state = INT8_elsewhere;
}

/* If this call was to make the bytes of a prepared operand but did not, frees their memory, and
 * lets a later call make them. */
static void free_kept(limber_context *ctx, struct int8_operand *x)
{
    if (x->state != INT8_to_make || x->kept)
        return;
    limber_prepared_set_bytes(x->source, NULL, 0, 0);
    limber_memory_free(&ctx->allocator, x->to);
}

/* Allocates memory for the bytes of both operands and, if C is binary64, for the 32-bit sums, and
 * multiplies.  False, with C unchanged, on failure. */
static bool run_in_memory(limber_context *ctx, const struct problem *p, struct int8_product *j,
                          struct report *r)
{
    size_t size[3] = { 0, 0, j->size == 8 ? (size_t)(j->rows * j->length) * sizeof(int32_t) : 0 };
    size_t all = size[2];
    char *memory;
    bool ok;

    for (int i = 0; i < 2; i++) {
        if (!j->of[i].bytes)
            size[i] = align_bytes((double)j->of[i].lines * (double)j->of[i].length);
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
    ok = multiply_bytes(ctx, p, j, r);
    limber_memory_free(&ctx->allocator, memory);
    if (ok && r)
        r->workspace += all;
    return ok;
}

/* Describes the product in *j.  False if its layout is not supported, or sampled elements are no
 * bytes. kept: uses the bytes that prepared operands keep, or has this call make them. */
static bool describe_product(const limber_context *ctx, const struct problem *p, bool kept,
                             struct int8_product *j)
{
    const bool conv = p->shape != NULL;

    *j = (struct int8_product){ .straight = { finish_straight, &j->turned },
                                .turned = { finish_turned, &j->straight },
                                .target = &ctx->machine.target,
                                .ops = ctx->machine.cpu->int8,
                                .size = p->fc.size,
                                .finish = p->finish,
                                .c = p->c,
                                .sums = p->c };
    j->of[0] = (struct int8_operand){ .data = p->a.data, .from = p->fa };
    j->of[1] = (struct int8_operand){ .data = p->b.data, .from = p->fb };
    for (int i = 0; i < 2 && kept; i++)
        j->of[i].source = p->kept[i];
    if (conv)
        set_tensors(p, j);
    else if (!set_matrices(p, j))
        return false;
    /* the byte code accepts unsigned bytes only for the right operand of convolutions, and for A of
     * GEMMs */
    return may_hold_bytes(&j->of[0], !conv) && may_hold_bytes(&j->of[1], conv) &&
           abs(j->of[0].exponent + j->of[1].exponent) <= FAR;
}

/* Runs the way `bytes` (a code path): converts the operands to INT8, multiplies, and converts the
 * sums.  RAN_not if an element is no byte, or memory runs out. */
static enum ran run_bytes_way(struct attempt *x)
{
    const double start = x->r ? limber_now() : 0;
    struct int8_product j;
    bool ok = describe_product(x->ctx, x->p, true, &j);

    j.again = x->again;
    j.unit = ldexp(1, j.of[0].exponent + j.of[1].exponent);
    for (int i = 0; ok && i < 2; i++)
        alloc_kept(x->ctx, &j.of[i]);
    ok = ok && run_in_memory(x->ctx, x->p, &j, x->r);
    for (int i = 0; i < 2; i++)
        free_kept(x->ctx, &j.of[i]);
    if (ok && x->r) {
        strcpy(x->r->scheme, "ozaki1-i8");
        x->r->bound = 0;
        x->r->seconds_run = limber_now() - start;
    }
    return limber_ran(ok);
}

/* ---- what would be computed: plans of this way ----------------------------------------------- */

/* True if all elements of an operand are bytes. */
static bool are_bytes(const struct int8_product *j, const struct int8_operand *x)
{
    uint8_t to[PIECE];
    bool all = true;

    for (int64_t i = 0; i < x->lines; i++)
        for (int64_t at = 0; all && at < x->length; at += PIECE)
            all =
                convert_elements(j, x, i, at, x->length - at < PIECE ? x->length - at : PIECE, to);
    return all;
}

/* True if all elements of A and B are integers of 8 bits times one unit. */
static bool bytes_suit_data(struct attempt *x)
{
    struct int8_product j;

    return describe_product(x->ctx, x->p, false, &j) && are_bytes(&j, &j.of[0]) &&
           are_bytes(&j, &j.of[1]);
}

/* Writes the plan of the product of bytes.  RAN_not if sampled elements are no bytes. */
static enum ran plan_bytes(struct attempt *x, struct text *out, struct cut *cut)
{
    struct int8_product j;
    struct problem q;
    bool ok;

    (void)cut;
    if (!describe_product(x->ctx, x->p, false, &j))
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
                                      .refuses = why_not_as_bytes,
                                      .run = run_bytes_way,
                                      .suits = bytes_suit_data,
                                      .plan = plan_bytes };
