/* SPDX-License-Identifier: BSD-3-Clause
 * Formats as data: names, ranges, conversion. */
#include "ir/ir.h"

#include "ir/prim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; limber_format f; } named[] = {
#define FORMAT(name, kind, e, m, bias, flags, size, carried)                                    \
    { #name, { LIMBER_KIND_##kind, e, m, flags, bias, size, carried } },
#include "ir/formats.h"
};

/* "(1,e,m)" */
static bool free_format(const char *name, limber_format *out)
{
    int e, m, end = 0;

    if (sscanf(name, "(1,%2d,%2d)%n", &e, &m, &end) != 2 || end == 0 || name[end] || e < 2 ||
        e > 11 || m < 1 || m > 52)
        return false;
    *out = (limber_format){ LIMBER_KIND_FLOAT, (uint8_t)e, (uint8_t)m, 0,
                            (int16_t)((1 << (e - 1)) - 1), e <= 8 && m <= 23 ? 4 : 8, 1 };
    return true;
}

limber_status limber_format_named(const char *name, limber_format *out)
{
    memset(out, 0, sizeof *out);
    if (!name)
        return LIMBER_BAD_ARGUMENT;
    for (size_t i = 0; i < COUNT(named); i++)
        if (strcmp(named[i].name, name) == 0) {
            *out = named[i].f;
            return LIMBER_OK;
        }
    return free_format(name, out) ? LIMBER_OK : LIMBER_BAD_ARGUMENT;
}

const char *limber_format_name(limber_format f, char *text, size_t size)
{
    for (size_t i = 0; i < COUNT(named); i++)
        if (limber_format_equal(named[i].f, f)) {
            snprintf(text, size, "%s", named[i].name);
            return text;
        }
    if (f.kind == LIMBER_KIND_FLOAT)
        snprintf(text, size, "(1,%d,%d)%s%s%s", f.exp_bits, f.frac_bits,
                 f.flags & LIMBER_FORMAT_NO_INF ? "noinf" : "",
                 f.flags & LIMBER_FORMAT_NO_SUBNORMAL ? "nosub" : "",
                 f.flags & LIMBER_FORMAT_SATURATE ? "sat" : "");
    else
        snprintf(text, size, "none");
    return text;
}

int limber_format_equal(limber_format a, limber_format b)
{
    return a.kind == b.kind && a.exp_bits == b.exp_bits && a.frac_bits == b.frac_bits &&
           a.flags == b.flags && a.bias == b.bias && a.size == b.size && a.carried == b.carried;
}

int limber_format_sig(limber_format f)
{
    switch (f.kind) {
    case LIMBER_KIND_FLOAT: return f.frac_bits + 1;
    case LIMBER_KIND_DD: return 107;
    case LIMBER_KIND_INT: return 8 * f.size - 1;
    case LIMBER_KIND_UINT: return 8 * f.size;
    default: return 0;
    }
}

double limber_format_roundoff(limber_format f)
{
    if (f.kind == LIMBER_KIND_FLOAT)
        return ldexp(1, -(f.frac_bits + 1));
    return f.kind == LIMBER_KIND_DD ? 0x1p-106 : 0;
}

int limber_format_emin(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return -1074;
    if (f.kind != LIMBER_KIND_FLOAT)
        return 0;
    return 1 - f.bias - (f.flags & LIMBER_FORMAT_NO_SUBNORMAL ? 0 : f.frac_bits);
}

int limber_format_emax(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return 1023;
    if (f.kind != LIMBER_KIND_FLOAT)
        return 8 * f.size - 1;
    return (1 << f.exp_bits) - 1 - f.bias - !(f.flags & LIMBER_FORMAT_NO_INF);
}

bool limber_format_embeds(limber_format small, limber_format large)
{
    if (limber_format_equal(small, large))
        return true;
    if (small.kind == LIMBER_KIND_NONE || small.kind == LIMBER_KIND_EXACT ||
        small.kind == LIMBER_KIND_DD || large.kind != LIMBER_KIND_FLOAT)
        return false;
    return limber_format_sig(small) <= limber_format_sig(large) &&
           limber_format_emin(small) >= limber_format_emin(large) &&
           limber_format_emax(small) <= limber_format_emax(large);
}

/* ---- conversion ------------------------------------------------------------------------------ */

static bool sane(limber_format f)
{
    bool power = f.size == 1 || f.size == 2 || f.size == 4 || f.size == 8;

    switch (f.kind) {
    case LIMBER_KIND_DD: return f.size == 16;
    case LIMBER_KIND_INT:
    case LIMBER_KIND_UINT: return power;
    case LIMBER_KIND_FLOAT:
        if (f.exp_bits < 1 || f.exp_bits > 15 || f.frac_bits < 1 || f.frac_bits > 112)
            return false;
        if (f.carried)
            return f.size == 4 ? f.exp_bits <= 8 && f.frac_bits <= 23 :
                   f.size == 8 && f.exp_bits <= 11 && f.frac_bits <= 52;
        return (power || f.size == 16) && 1 + f.exp_bits + f.frac_bits <= 8 * f.size;
    default: return false;
    }
}

/* The two doubles of a dd as one number; what lies more than 128 bits below its top is sticky. */
static void join(struct limber_num *x, int *sticky, const void *p)
{
    uint64_t word[LIMBER_BIG];
    struct limber_num part[2];
    struct limber_big sum = { word, 0, 0 };
    limber_format dd = { LIMBER_KIND_DD, 0, 0, 0, 0, 16, 0 };
    int low = INT32_MAX, high = INT32_MIN;

    limber_parts(part, dd, p);
    *sticky = 0;
    *x = part[0];
    if (part[0].kind != NUM_finite || part[1].kind != NUM_finite)
        return;
    for (int i = 0; i < 2; i++) {
        low = part[i].exp < low ? part[i].exp : low;
        high = part[i].exp > high ? part[i].exp : high;
    }
    sum.base = low;
    sum.n = (high - low) / 64 + 3;
    limber_big_zero(&sum);
    for (int i = 0; i < 2; i++)
        limber_big_add(&sum, part[i].sign, &part[i].lo, 1, part[i].exp);
    limber_big_num(&sum, x, sticky);
}

limber_status limber_convert(void *dst, limber_format to, const void *src, limber_format from,
                             size_t count, limber_rounding mode)
{
    if (!sane(to) || !sane(from) || (unsigned)mode > LIMBER_RO || (count && (!dst || !src)))
        return LIMBER_BAD_ARGUMENT;
    for (size_t i = 0; i < count; i++) {
        char *d = (char *)dst + i * to.size;
        const char *s = (const char *)src + i * from.size;
        struct limber_num x;
        int sticky = 0;

        if (from.kind == LIMBER_KIND_DD)
            join(&x, &sticky, s);
        else
            limber_num_decode(&x, from, s);
        if (to.kind == LIMBER_KIND_DD)
            limber_num_encode_dd(d, &x, sticky, mode);
        else
            limber_num_encode(d, to, &x, sticky, mode);
    }
    return LIMBER_OK;
}
