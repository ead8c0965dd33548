/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/cuda/simt/dot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "limber/limber.h"

enum { NONE = -100000 };        /* exponent of zero */

static const struct {
    const char *name;
    int bytes, exp_bits, frac_bits;
} formats[] = {
    [SIMT_F16] = { "fp16", 2, 5, 10 },  [SIMT_BF16] = { "bf16", 2, 8, 7 },
    [SIMT_TF32] = { "tf32", 4, 8, 10 }, [SIMT_E4M3] = { "e4m3", 1, 4, 3 },
    [SIMT_E5M2] = { "e5m2", 1, 5, 2 },
};

int simt_elements(int kind)
{
    return kind < SIMT_F16 ? 32 : 32 / formats[kind].bytes;
}

bool simt_model(int kind, int capability, bool columns, struct model *m)
{
    const char *family = capability < 75  ? "v100" :
                         capability < 80  ? "t4" :
                         capability == 80 ? "a100" :
                         capability < 90  ? "ada" :
                         capability < 100 ? "h100" :
                                            "b200";
    char name[32];
    limber_unit u = LIMBER_UNIT_INIT;

    if (kind < SIMT_F16 || kind > SIMT_E5M2)
        return false;
    if (columns && kind >= SIMT_E4M3) /* the instruction is that of all narrow floats */
        snprintf(name, sizeof name, "%s-e3m2 in=%s", family, formats[kind].name);
    else
        snprintf(name, sizeof name, "%s-%s", family, formats[kind].name);
    if (limber_unit_parse(name, &u) != LIMBER_STATUS_OK || u.tree || u.zeros || u.sub != 1)
        return false;
    *m = (struct model){ u.block, u.frac, u.floor, u.acc.format.frac_bits, u.group > 0 };
    return !u.group ||
           (u.group == simt_elements(kind) && 2 * u.block == u.group &&
            u.order == LIMBER_ORDER_QUADS && limber_format_equal(u.outer.format, LIMBER_F32));
}

/* ---- operands ------------------------------------------------------------------------------ */

static void element(int kind, uint32_t code, struct line *l, int i)
{
    int e = formats[kind].exp_bits, f = formats[kind].frac_bits, bias = (1 << (e - 1)) - 1;
    int field = (int)(code >> f) & ((1 << e) - 1);
    int sig = (int)(code & ((1u << f) - 1));
    bool minus = code >> (e + f) & 1, end = field == (1 << e) - 1;

    if (kind == SIMT_E4M3 ? end && sig == 7 : end) {
        l->special = true;
        l->sig[i] = 0;
        l->exp[i] = NONE;
        l->value[i] = kind == SIMT_E4M3 || sig ? NAN : minus ? -INFINITY : INFINITY;
        return;
    }
    if (field)
        sig |= 1 << f;
    l->sig[i] = minus ? -sig : sig;
    l->exp[i] = sig ? (field ? field : 1) - bias : NONE;
    l->value[i] = sig ? ldexpf((float)l->sig[i], l->exp[i] - f) : 0;
}

void simt_line(int kind, const void *bytes, struct line *l)
{
    int n = simt_elements(kind), size = 32 / n;

    l->special = false;
    for (int i = 0; i < n; i++) {
        uint32_t code = 0;

        memcpy(&code, (const char *)bytes + i * size, (size_t)size);
        if (kind == SIMT_TF32)          /* cut to 10 bits; NaN stays NaN */
            code = code >> 13 | ((code & 0x7fffffff) > 0x7f800000);
        element(kind, code, l, i);
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* sum 2^unit, cut to `bits` fraction bits in the range of binary32. */
static float cut(int64_t sum, int unit, int bits)
{
    uint64_t size = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    int lead, shift;
    float v;

    if (!sum)
        return 0;
    lead = 63 - __builtin_clzll(size) + unit;
    shift = (lead > -126 ? lead : -126) - bits - unit;
    if (shift > 63)
        size = 0;
    else if (shift > 0)
        size = size >> shift << shift;
    v = lead > 127 ? INFINITY : (float)ldexp((double)size, unit);
    return sum < 0 ? -v : v;
}

static int64_t shifted(int64_t v, int by)
{
    if (by >= 0)
        return v * ((int64_t)1 << by);
    if (by < -62)
        return 0;
    return v < 0 ? -(-v >> -by) : v >> -by;
}

static float block(int kind, const struct model *m, const struct line *a, const struct line *b,
                   int from, float c)
{
    int f = kind == SIMT_TF32 ? 10 : formats[kind].frac_bits, most, exp_c = NONE;
    int32_t exponent[32];
    uint32_t code;
    int64_t sum, sig_c;

    memcpy(&code, &c, 4);
    sig_c = code & 0x7fffff;
    if (code & 0x7fffffff) {
        exp_c = (int)(code >> 23 & 255);
        sig_c |= exp_c ? 0x800000 : 0;
        exp_c = (exp_c ? exp_c : 1) - 127;
    }
    most = exp_c;
    for (int i = 0; i < m->block; i++) {
        exponent[i] = a->exp[from + i] + b->exp[from + i];
        most = exponent[i] > most ? exponent[i] : most;
    }
    if (most < NONE / 2)
        return 0;
    most = most < m->floor ? m->floor : most;
    sum = shifted(code >> 31 ? -sig_c : sig_c, exp_c - 23 - most + m->frac);
    for (int i = 0; i < m->block; i++)
        sum += shifted((int64_t)a->sig[from + i] * b->sig[from + i],
                       exponent[i] - 2 * f - most + m->frac);
    return cut(sum, most - m->frac, m->bits);
}

/* With a NaN or an infinity among the terms. */
static float special(const struct model *m, const struct line *a, const struct line *b, int from,
                     float c)
{
    double rest = isfinite(c) ? 0 : (double)c;

    for (int i = from; i < from + m->block; i++) {
        double x = (double)a->value[i] * (double)b->value[i];

        rest += isfinite(x) ? 0 : x;
    }
    return isnan(rest) ? NAN : (float)rest;
}

static bool has_special(const struct model *m, const struct line *l, int from)
{
    if (!l->special)
        return false;
    for (int i = from; i < from + m->block; i++)
        if (!isfinite(l->value[i]))
            return true;
    return false;
}

static void sort_quads(struct line *to, const struct line *from, int n)
{
    to->special = from->special;
    for (int i = 0; i < n; i++) {
        int at = i % (n / 2) / 2 * 4 + i % 2 + i / (n / 2) * 2;

        to->sig[i] = from->sig[at];
        to->exp[i] = from->exp[at];
        to->value[i] = from->value[at];
    }
}

float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b, float c)
{
    static const uint32_t quiet = 0x7fc00000;
    int n = simt_elements(kind);

    if (m->quads) {
        struct model each = *m;
        struct line x, y;

        each.quads = false;
        sort_quads(&x, a, n);
        sort_quads(&y, b, n);
        c += simt_dot(kind, &each, &x, &y, 0);
        if (isnan(c))
            memcpy(&c, &quiet, 4);
        return c;
    }
    for (int from = 0; from < n; from += m->block)
        if (!isfinite(c) || has_special(m, a, from) || has_special(m, b, from))
            c = special(m, a, b, from, c);
        else
            c = block(kind, m, a, b, from, c);
    if (isnan(c))
        memcpy(&c, &quiet, 4);
    return c;
}
