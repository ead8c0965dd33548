/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/cuda/simt/dot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "limber/limber.h"

enum { NONE = -100000 };        /* exponent that zeros get, below all others */

/* Names of formats, with their sizes. */
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

/* Sets m to the parameters of a device's tensor cores for this kind of product, from the
 * library's preset for the device.  Returns false if there is no preset, or if it has features
 * that this simulation lacks. */
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
    /* products into tensor memory: one instruction multiplies all floats of at most 8 bits, so its
     * preset is named for e3m2 */
    if (columns && kind >= SIMT_E4M3)
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

/* ---- elements as the units decode them ----------------------------------------------------- */

/* Decodes element i of a line from its bit pattern. */
static void decode_element(int kind, uint32_t code, struct line *l, int i)
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

/* Decodes 32 bytes of elements of the kind.  l->zero: all elements are zeros. */
void simt_line(int kind, const void *bytes, struct line *l)
{
    int n = simt_elements(kind), size = 32 / n;

    l->special = false;
    l->zero = true;
    for (int i = 0; i < n; i++) {
        uint32_t code = 0;

        memcpy(&code, (const char *)bytes + i * size, (size_t)size);
        if (kind == SIMT_TF32) /* TF32 keeps 10 fraction bits; NaN stays NaN */
            code = code >> 13 | ((code & 0x7fffffff) > 0x7f800000);
        decode_element(kind, code, l, i);
        l->zero &= l->exp[i] == NONE;
    }
}

/* ---- sums as tensor cores form them ---------------------------------------------------------- */

/* Returns sum * 2^unit as a float, truncated to `bits` fraction bits within the range of
 * binary32. */
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

/* Returns v * 2^by, truncated toward zero. */
static int64_t shifted(int64_t v, int by)
{
    if (by >= 0)
        return v * ((int64_t)1 << by);
    if (by < -62)
        return 0;
    return v < 0 ? -(-v >> -by) : v >> -by;
}

/* Splits a finite number into *sig * 2^(exponent - 23).  Returns the exponent, NONE for zero. */
static int split(float x, int64_t *sig)
{
    int field, exponent = NONE;
    uint32_t code;

    memcpy(&code, &x, 4);
    field = (int)(code >> 23 & 255);
    *sig = (code & 0x7fffff) | (field ? 0x800000 : 0);
    if (*sig)
        exponent = (field ? field : 1) - 127;
    if (code >> 31)
        *sig = -*sig;
    return exponent;
}

/* Returns c plus the products of one fused block of elements.  All terms are aligned to the
 * largest exponent, truncated and added, as the device does. */
static float block(int kind, const struct model *m, const struct line *a, const struct line *b,
                   int from, float c)
{
    int f = kind == SIMT_TF32 ? 10 : formats[kind].frac_bits, most, exp_c;
    int32_t exponent[32];
    int64_t sum, sig_c;

    most = exp_c = split(c, &sig_c);
    for (int i = 0; i < m->block; i++) {
        exponent[i] = a->exp[from + i] + b->exp[from + i];
        most = exponent[i] > most ? exponent[i] : most;
    }
    if (most < NONE / 2)
        return 0;
    most = most < m->floor ? m->floor : most;
    sum = shifted(sig_c, exp_c - 23 - most + m->frac);
    for (int i = 0; i < m->block; i++)
        sum += shifted((int64_t)a->sig[from + i] * b->sig[from + i],
                       exponent[i] - 2 * f - most + m->frac);
    return cut(sum, most - m->frac, m->bits);
}

/* Returns the result of a block if c or an element is NaN or infinite: NaN or an infinity. */
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

/* Returns whether a block of the line, from element `from` on, has NaN or infinities. */
static bool has_special(const struct model *m, const struct line *l, int from)
{
    if (!l->special)
        return false;
    for (int i = from; i < from + m->block; i++)
        if (!isfinite(l->value[i]))
            return true;
    return false;
}

/* Reorders n elements: first the first two of each four, then the others.  Devices with `quads`
 * add them in this order. */
static void sort_quads(struct line *to, const struct line *from, int n)
{
    to->special = from->special;
    to->zero = from->zero;
    for (int i = 0; i < n; i++) {
        int at = i % (n / 2) / 2 * 4 + i % 2 + i / (n / 2) * 2;

        to->sig[i] = from->sig[at];
        to->exp[i] = from->exp[at];
        to->value[i] = from->value[at];
    }
}

/* Returns c plus the dot product of two lines of 32 bytes, rounded as the modelled tensor core
 * does, block by block. */
float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b, float c)
{
    static const uint32_t quiet = 0x7fc00000;
    int n = simt_elements(kind);

    /* zero lines are frequent, since large tiles are padded */
    if (c == 0 && (a->zero || b->zero) && !a->special && !b->special)
        return 0;
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

/* ---- blocks with scales ---------------------------------------------------------------------- */

/* Formats of the elements of block-scaled products; a number without a format has zeros. */
static const struct {
    int exp_bits, frac_bits;
} elements[SIMT_FORMATS] = { { 4, 3 }, { 5, 2 }, { 0, 0 }, { 2, 3 }, { 3, 2 }, { 2, 1 } };

static int exponent_of_one(int format)
{
    return (1 << (elements[format].exp_bits - 1)) - 1;
}

/* Decodes element i of a block-scaled line. */
static void decode_scaled_element(int format, uint32_t code, struct scaled_line *l, int i)
{
    int e = elements[format].exp_bits, f = elements[format].frac_bits;
    int field = (int)(code >> f) & ((1 << e) - 1), sig = (int)(code & ((1u << f) - 1));
    bool minus = code >> (e + f) & 1, end = field == (1 << e) - 1;

    if (format == 0 ? end && sig == 7 : format == 1 && end) {
        l->special = true;
        l->sig[i] = 0;
        l->exp[i] = NONE;
        l->value[i] = format == 0 || sig ? (double)NAN : minus ? -HUGE_VAL : HUGE_VAL;
        return;
    }
    sig |= field ? 1 << f : 0;
    l->sig[i] = minus ? -sig : sig;
    l->exp[i] = sig ? (field ? field : 1) - exponent_of_one(format) : NONE;
    l->value[i] = sig ? ldexp(l->sig[i], l->exp[i] - f) : minus ? -0. : 0.;
}

/* Decodes a block's scale, a bit pattern; normalizes subnormals. */
static void decode_scale(enum simt_scaled kind, uint8_t code, struct scaled_line *l, int block)
{
    int each = l->n / l->blocks, field = code >> 3 & 15;
    bool nan = kind == SIMT_MXF4NVF4 ? (code & 127) == 127 : code == 255;

    if (kind == SIMT_MXF4NVF4) {
        l->scale_sig[block] = (code & 7) | (field ? 8 : 0);
        l->scale_exp[block] = (field ? field : 1) - 7;
        while (l->scale_sig[block] && l->scale_sig[block] < 8) {
            l->scale_sig[block] *= 2;
            l->scale_exp[block]--;
        }
    } else {
        l->scale_sig[block] = 8;
        l->scale_exp[block] = code - 127;
    }
    l->special |= nan;
    for (int i = block * each; i < (block + 1) * each; i++) {
        l->value[i] *= nan ? (double)NAN : ldexp(l->scale_sig[block], l->scale_exp[block] - 3);
        if (!l->scale_sig[block])
            l->sig[i] = 0;
    }
}

/* Decodes a line of a block-scaled operand: 32 bytes of elements and the scales of its blocks.
 * Returns false if bits outside an element are set. */
bool simt_scaled_line(enum simt_scaled kind, int format, const uint8_t bytes[32],
                      const uint8_t *scales, struct scaled_line *l)
{
    bool in_bytes = kind == SIMT_MXF8F6F4;
    int bits = 1 + elements[format].exp_bits + elements[format].frac_bits;

    l->n = in_bytes ? 32 : 64;
    l->blocks = kind == SIMT_MXF8F6F4 ? 1 : kind == SIMT_MXF4 ? 2 : 4;
    l->frac_bits = elements[format].frac_bits;
    l->special = false;
    for (int i = 0; i < l->n; i++) {
        /* in bytes, an E2M1 element (format 5) has bits 2 to 5 */
        int low = in_bytes && format == 5 ? 2 : 0;
        uint32_t code = in_bytes ? (uint32_t)bytes[i] >> low : bytes[i / 2] >> i % 2 * 4 & 15;

        if (in_bytes && (code >> bits || bytes[i] & ((1u << low) - 1)))
            return false;
        decode_scaled_element(format, code, l, i);
    }
    for (int block = 0; block < l->blocks; block++)
        decode_scale(kind, scales[block], l, block);
    return true;
}

/* Unpacks a line's elements of less than a byte, 16 at the start of 16 bytes, to one byte each;
 * copies other kinds unchanged.  Returns false if unused bits are set. */
bool simt_unpack(enum simt_scaled kind, int format, const uint8_t from[32], uint8_t to[32])
{
    int bits = 1 + elements[format].exp_bits + elements[format].frac_bits;

    memcpy(to, from, 32);
    for (int half = 0; half < 32 && kind == SIMT_MXF8F6F4; half += 16) {
        for (int bit = 16 * bits; bit < 128; bit++)
            if (from[half + bit / 8] >> bit % 8 & 1)
                return false;
        for (int i = 0; i < 16; i++) {
            to[half + i] = 0;
            for (int k = 0; k < bits; k++)
                to[half + i] |=
                    (uint8_t)((from[half + (i * bits + k) / 8] >> (i * bits + k) % 8 & 1)
                              << (format == 5 ? k + 2 : k));
        }
    }
    return true;
}

/* Sums `count` products whose block scales are equal.  Returns the sum in units of 2^*unit. */
static int64_t scaled_term(const struct scaled_line *a, const struct scaled_line *b, int from,
                           int count, int *exponent, int *unit)
{
    int i = from * a->blocks / a->n, j = from * b->blocks / b->n;
    int64_t sum = 0, scale = a->scale_sig[i] * b->scale_sig[j];

    *exponent = a->scale_exp[i] + b->scale_exp[j];
    *unit = *exponent - 6 - a->frac_bits - b->frac_bits;
    if (count == 1) {
        *exponent += a->exp[from] + b->exp[from];
        *unit += a->exp[from] + b->exp[from];
        return scale * a->sig[from] * b->sig[from];
    }
    for (int k = from; k < from + count; k++) /* k is below 64, and exponents of E2M1 are 0 to 2 */
        sum += a->sig[k] && b->sig[k] ?
                   a->sig[k] * (1 << a->exp[k]) * b->sig[k] * (1 << b->exp[k]) :
                   0;
    return scale * sum;
}

/* Returns the result of a block-scaled product if a product or c is NaN or infinite. */
static float special_of_scaled(const struct scaled_line *a, const struct scaled_line *b, float c)
{
    double rest = isfinite(c) ? 0 : (double)c;

    for (int i = 0; i < a->n; i++) {
        double x = a->value[i] * b->value[i];

        rest += isfinite(x) ? 0 : x;
    }
    return isnan(rest) ? NAN : (float)rest;
}

/* Adds the dot product of two block-scaled lines to *c, rounded as the device does: all terms and c
 * are aligned to the largest exponent, truncated and added.  Returns false if the preset has
 * features that this function lacks. */
bool simt_scaled_dot(enum simt_scaled kind, const struct scaled_line *a,
                     const struct scaled_line *b, float *c)
{
    static const char *const names[] = { "", "b200-mxe4m3", "b200-mxfp4", "b200-nvfp4" };
    static limber_unit models[] = { LIMBER_UNIT_INIT, LIMBER_UNIT_INIT, LIMBER_UNIT_INIT,
                                    LIMBER_UNIT_INIT };
    static const uint32_t quiet = 0x7fc00000;
    limber_unit *u = &models[kind];
    int exponent[64], unit[64], terms, most, exp_c;
    int64_t value[64], sum, sig_c;

    if (!u->block && (limber_unit_parse(names[kind], u) != LIMBER_STATUS_OK || u->zeros || u->tree))
        return false;
    if (u->block != a->n || u->scale_block * a->blocks != a->n || u->floor != LIMBER_NO_FLOOR ||
        (u->scale == LIMBER_SCALE_UE4M3) != (kind == SIMT_MXF4NVF4))
        return false;
    if (a->special || b->special || !isfinite(*c)) {
        *c = special_of_scaled(a, b, *c);
        if (isnan(*c))
            memcpy(c, &quiet, 4);
        return true;
    }
    most = exp_c = split(*c, &sig_c);
    terms = u->block / u->sub;
    for (int t = 0; t < terms; t++) {
        value[t] = scaled_term(a, b, t * u->sub, u->sub, &exponent[t], &unit[t]);
        most = value[t] && exponent[t] > most ? exponent[t] : most;
    }
    *c = 0;
    if (most == NONE)
        return true;
    sum = shifted(sig_c, exp_c - 23 - most + u->frac);
    for (int t = 0; t < terms; t++)
        sum += value[t] ? shifted(value[t], unit[t] - most + u->frac) : 0;
    *c = cut(sum, most - u->frac, u->acc.format.frac_bits);
    return true;
}
