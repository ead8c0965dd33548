/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions compared with a copy of the same bytes, and with oneDNN's and PyTorch's
 * functions. */
#include "tools/bench/onednn.h"

#include <limber/ops.h>

#include <math.h>
#include <stdlib.h>

/* oneDNN's constants. */
enum { DNN_INFERENCE = 96, DNN_TANH = 0x21, DNN_EXP = 0x2a, DNN_GELU = 0x31 };

/* The functions to measure. */
static const struct function {
    limber_function function;
    int dnn; /* oneDNN's algorithm; 0 if it has none */
} functions[] = { { LIMBER_FUNCTION_EXP, DNN_EXP },
                  { LIMBER_FUNCTION_TANH, DNN_TANH },
                  { LIMBER_FUNCTION_GELU, DNN_GELU },
                  { LIMBER_FUNCTION_CAST, 0 } };

/* The formats of operand and result. */
static const struct pair_of {
    const char *from, *to;
    int dnn; /* oneDNN's type of operand and result; 0 if it has none */
} pairs[] = { { "f16", "f16", DNN_F16 }, { "bf16", "bf16", DNN_BF16 }, { "e4m3", "e4m3", 0 },
              { "f32", "f32", DNN_F32 }, { "f32", "bf16", 0 },         { "f32", "f16", 0 } };

/* A function's call, set up for Limber and for oneDNN. */
struct operation {
    limber_elementwise call;
    char *src, *dst, *other; /* other: the peer's result, then a copy of src */
    void *pd, *primitive, *md, *memory[2];
};

/* Destroys oneDNN's objects and frees the arrays of an operation. */
static void close_operator(struct operation *o)
{
    if (o->primitive)
        dnn.primitive_destroy(o->primitive);
    for (int i = 0; i < 2; i++)
        if (o->memory[i])
            dnn.memory_destroy(o->memory[i]);
    if (o->pd)
        dnn.desc_destroy(o->pd);
    if (o->md)
        dnn.md_destroy(o->md);
    free(o->src);
    free(o->dst);
    free(o->other);
}

/* Allocates an operation's arrays, and describes the call to Limber. */
static bool open_operator(struct operation *o, limber_function f, const struct pair_of *p,
                          size_t count)
{
    uint64_t state = 1;

    *o = (struct operation){ .call = LIMBER_ELEMENTWISE_INIT };
    o->call.function = f;
    o->call.from = format_of(p->from);
    o->call.to = format_of(p->to);
    o->call.count = count;
    o->src = malloc(count * 8);
    o->dst = calloc(count, 8);
    o->other = calloc(count, 8);
    if (!o->src || !o->dst || !o->other)
        return !complain("bench: not enough memory");
    for (size_t i = 0; i < count; i++) {
        double x = 2 * random_normal(&state);

        limber_convert(o->src + i * o->call.from.size, o->call.from, &x, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
    }
    o->call.src = o->src;
    o->call.dst = o->dst;
    return true;
}

/* Sets up oneDNN's primitive for the function.  Returns false if oneDNN has none. */
static bool open_peer(struct operation *o, int function, int type)
{
    const int64_t dims[1] = { (int64_t)o->call.count }, strides[1] = { 1 };

    return function && type && onednn.usable && dnn.eltwise &&
           !dnn.strides3(&o->md, 1, dims, type, strides) &&
           !dnn.eltwise_forward(&o->pd, dnn.engine, DNN_INFERENCE, function, o->md, o->md, 0, 0,
                                NULL) &&
           !dnn.primitive_create(&o->primitive, o->pd) &&
           !dnn.memory_create(&o->memory[0], o->md, dnn.engine, o->src) &&
           !dnn.memory_create(&o->memory[1], o->md, dnn.engine, o->other);
}

/* Seconds of oneDNN's call; -1 if it fails. */
static double run_peer(struct operation *o)
{
    const struct dnn_argument arguments[2] = { { DNN_SRC, o->memory[0] },
                                               { DNN_DST, o->memory[1] } };
    double start = now();

    if (dnn.execute(o->primitive, dnn.stream, 2, arguments))
        return -1;
    dnn.stream_wait(dnn.stream);
    return now() - start;
}

/* True if the results of Limber and the peer differ by few units in the last place, in every 97th
 * element. */
static bool results_agree(const struct operation *o)
{
    limber_format f = o->call.to;

    for (size_t i = 0; i < o->call.count; i += 97) {
        double x, y;

        limber_convert(&x, LIMBER_F64, o->dst + i * f.size, f, 1, LIMBER_ROUND_NEAREST);
        limber_convert(&y, LIMBER_F64, o->other + i * f.size, f, 1, LIMBER_ROUND_NEAREST);
        if (!(fabs(x - y) <= ldexp(fabs(x), 2 - (f.frac_bits < 18 ? f.frac_bits : 18)) + 1e-4))
            return false;
    }
    return true;
}

/* Prints a row: a function by Limber, compared with a copy, oneDNN and PyTorch. */
static bool print_operator_row(struct bench *b, const struct function *f, const struct pair_of *p,
                               size_t count)
{
    const char *name = limber_function_at((int)f->function, NULL, NULL);
    struct contender here = { .times.samples = b->runs }, copy = here, peer = here, torch = here;
    struct operation o;
    char what[64], note[96] = "";
    bool ok = open_operator(&o, f->function, p, count), has_peer, has_torch;
    size_t bytes;

    has_peer = ok && open_peer(&o, f->dnn, p->dnn);
    has_torch = f->function != LIMBER_FUNCTION_CAST && torch_version();
    bytes = count * (o.call.from.size + o.call.to.size);
    /* run -1 warms up, and makes the function's table */
    for (int i = -1; ok && i < b->runs; i++) {
        int at = i < 0 ? 0 : i;
        double start = now();

        ok = limber_apply(b->ctx, &o.call) == LIMBER_STATUS_OK;
        here.times.seconds[at] = now() - start;
        peer.times.seconds[at] = has_peer ? run_peer(&o) : 0;
        has_peer = has_peer && (i >= 0 || results_agree(&o));
        torch.times.seconds[at] = has_torch ? torch_run(name, p->from, count, b->threads) : -1;
        has_torch = torch.times.seconds[at] > 0;
        start = now();
        memcpy(o.other, o.src, bytes / 2);
        copy.times.seconds[at] = now() - start;
    }
    if (!ok)
        complain("bench: %s", limber_error_text());
    close_operator(&o);
    if (!ok)
        return false;
    contender_median(&here);
    contender_median(&copy);
    snprintf(what, sizeof what, "%s, %s to %s", name, p->from, p->to);
    if (has_peer) {
        contender_median(&peer);
        snprintf(note, sizeof note, "%.2f x oneDNN", peer.times.median / here.times.median);
    }
    if (has_torch) {
        contender_median(&torch);
        snprintf(note + strlen(note), sizeof note - strlen(note), "%s%.2f x PyTorch %s",
                 *note ? ", " : "", torch.times.median / here.times.median, torch_version());
    }
    print_line(b, &(struct line){ .what = what,
                                  .scheme = "",
                                  .n = (int64_t)count,
                                  .unit = "GB/s",
                                  .value = (double)bytes * 1e-9 / here.times.median,
                                  .best = (double)bytes * 1e-9 / here.times.best,
                                  .ratio = copy.times.median / here.times.median,
                                  .of = "a copy",
                                  .note = *note ? note : NULL });
    return true;
}

/* Measures elementwise functions in all formats, for a short and a long array. */
bool operator_rows(struct bench *b)
{
    static const size_t counts[2] = { 1 << 18, 1 << 24 };

    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
            for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
                bool casts = strcmp(pairs[p].from, pairs[p].to);

                if (casts == (functions[f].function == LIMBER_FUNCTION_CAST) &&
                    !print_operator_row(b, &functions[f], &pairs[p], counts[c])) {
                    torch_close();
                    return false;
                }
            }
    torch_close();
    return true;
}
