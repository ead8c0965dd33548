/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions of vectors of 1024 elements, compared with a copy of the bytes that they read and
 * write, and with PyTorch. */
#include "tools/bench/bench.h"

#include <limber/ops.h>

#include <math.h>
#include <stdlib.h>

enum { LINE = 1024, COUNT = 1 << 22 };

/* The reductions to measure. */
static const struct reduction {
    limber_reduction reduction;
    const char *name; /* Limber's and PyTorch's name */
} reductions[] = { { LIMBER_REDUCTION_SUM, "sum" },
                   { LIMBER_REDUCTION_VARIANCE, "variance" },
                   { LIMBER_REDUCTION_SOFTMAX, "softmax" },
                   { LIMBER_REDUCTION_LAYER_NORM, "layer_norm" },
                   { LIMBER_REDUCTION_RMS_NORM, "rms_norm" } };

/* The accumulators to measure. */
static const struct carry {
    limber_carry carry;
    const char *name;
} carries[] = { { LIMBER_CARRY_F32, "f32" },
                { LIMBER_CARRY_COMPENSATED, "compensated" },
                { LIMBER_CARRY_EXACT, "exact" },
                { LIMBER_CARRY_STORAGE, "storage" } };

/* A reduction's call and its arrays. */
struct lines {
    limber_reduce_call call;
    char *src, *dst, *other;
};

static void close_lines(struct lines *w)
{
    free(w->src);
    free(w->dst);
    free(w->other);
}

/* Allocates the arrays of a reduction of COUNT / LINE vectors, and describes the call. */
static bool open_lines(struct lines *w, const struct reduction *r, const struct carry *c,
                       const char *format)
{
    uint64_t state = 1;

    *w = (struct lines){ .call = LIMBER_REDUCE_INIT };
    w->call.reduction = r->reduction;
    w->call.carry = c->carry;
    w->call.from = w->call.to = format_of(format);
    w->call.outer = COUNT / LINE;
    w->call.count = LINE;
    w->call.inner = 1;
    w->call.epsilon = 1e-5;
    w->src = malloc((size_t)COUNT * 8);
    w->dst = calloc(COUNT, 8);
    w->other = calloc(COUNT, 8);
    if (!w->src || !w->dst || !w->other)
        return !complain("bench: not enough memory");
    for (size_t i = 0; i < COUNT; i++) {
        double x = 2 * random_normal(&state);

        limber_convert(w->src + i * w->call.from.size, w->call.from, &x, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
    }
    w->call.src = w->src;
    w->call.dst = w->dst;
    return true;
}

/* Prints a row: a reduction by Limber, compared with a copy and with PyTorch. */
static bool print_reduction_row(struct bench *b, const struct reduction *r, const struct carry *c,
                                const char *format)
{
    struct contender here = { .times.samples = b->runs }, copy = here, torch = here;
    struct lines w;
    char what[64], note[64];
    bool ok = open_lines(&w, r, c, format), has_torch = ok && torch_version();
    size_t read = (size_t)COUNT * w.call.from.size;
    size_t bytes = r->reduction < LIMBER_REDUCTION_SOFTMAX ? read : 2 * read;

    for (int i = -1; ok && i < b->runs; i++) {
        int at = i < 0 ? 0 : i;
        double start = now();

        ok = limber_reduce(b->ctx, &w.call) == LIMBER_STATUS_OK;
        here.times.seconds[at] = now() - start;
        torch.times.seconds[at] = has_torch ? torch_run(r->name, format, COUNT, b->threads) : -1;
        has_torch = torch.times.seconds[at] > 0;
        start = now();
        memcpy(w.other, w.src, bytes / 2);
        copy.times.seconds[at] = now() - start;
    }
    if (!ok)
        complain("bench: %s", limber_error_text());
    close_lines(&w);
    if (!ok)
        return false;
    contender_median(&here);
    contender_median(&copy);
    snprintf(what, sizeof what, "%s, %s, carried %s", r->name, format, c->name);
    if (has_torch) {
        contender_median(&torch);
        snprintf(note, sizeof note, "%.2f x PyTorch %s", torch.times.median / here.times.median,
                 torch_version());
    }
    print_line(b, &(struct line){ .what = what,
                                  .scheme = "",
                                  .n = COUNT,
                                  .unit = "GB/s",
                                  .value = (double)bytes * 1e-9 / here.times.median,
                                  .best = (double)bytes * 1e-9 / here.times.best,
                                  .ratio = copy.times.median / here.times.median,
                                  .of = "a copy",
                                  .note = has_torch ? note : NULL });
    return true;
}

bool reduction_rows(struct bench *b)
{
    static const char *const formats[] = { "f32", "bf16" };
    bool ok = true;

    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t r = 0; ok && r < sizeof reductions / sizeof *reductions; r++)
            for (size_t c = 0; ok && c < sizeof carries / sizeof *carries; c++)
                ok = print_reduction_row(b, &reductions[r], &carries[c], formats[f]);
    torch_close();
    return ok;
}
