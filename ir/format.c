/* SPDX-License-Identifier: BSD-3-Clause
 * Formats as data: names, ranges, precision, and conversion of arrays. */
#include "ir/ir.h"
#include "ir/num/prim_num.h"
#include "limber/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct named {
    const char *name;
    limber_format format;
} named[] = {
#define NAMED(NAME, name, kind, e, m, bias, flags, size, carried) \
    { #name, { LIMBER_KIND_##kind, e, m, flags, bias, size, carried } },
    LIMBER_FORMATS(NAMED)
    /* types inside plans only: exact values, and values beside a float (prim_num.h) */
    { "exact", { .kind = LIMBER_KIND_EXACT } },
    { "sided32", { LIMBER_KIND_SIDED, 8, 23, 0, 127, 8, 0 } },
    { "sided64", { LIMBER_KIND_SIDED, 11, 52, 0, 1023, 16, 0 } },
    { "sided128", { LIMBER_KIND_SIDED, 15, 112, 0, 16383, 32, 0 } },
};

/* Indices of the rows of `named`. */
enum {
#define PLACE(NAME, ...) AT_##NAME,
    LIMBER_FORMATS(PLACE) NAMED_FORMATS
};

/* Further names of formats, which are read but never printed. */
static const struct {
    const char *name;
    int at;
} other_names[] = {
#define OTHER(NAME, name) { name, AT_##NAME },
    LIMBER_FORMAT_NAMES(OTHER)
};

/* Returns the named format, or NULL. */
static const limber_format *find_format(const char *name)
{
    for (size_t i = 0; i < COUNT(named); i++)
        if (!strcasecmp(name, named[i].name))
            return &named[i].format;
    for (size_t i = 0; i < COUNT(other_names); i++)
        if (!strcasecmp(name, other_names[i].name))
            return &named[other_names[i].at].format;
    return NULL;
}

/* Reads at most `most` numbers, separated by commas, up to the closing parenthesis that ends the
 * string.  Returns their number, or 0 if s has another form. */
static int read_numbers(const char *s, int *v, int most)
{
    int n = 0, minus, digits;

    for (;; s++) {
        minus = *s == '-';
        s += minus;
        if (n == most || *s < '0' || *s > '9')
            return 0;
        v[n] = 0;
        for (digits = 0; *s >= '0' && *s <= '9'; s++, digits++)
            if (digits < 6)
                v[n] = 10 * v[n] + *s - '0';
        if (digits > 5)
            return 0;
        v[n] = minus ? -v[n] : v[n];
        n++;
        if (*s == ')')
            return s[1] ? 0 : n;
        if (*s != ',')
            return 0;
    }
}

/* Returns a float format with e exponent and m fraction bits by the rules of IEEE 754, whose
 * elements are stored as binary32 or binary64. */
static limber_format ieee_float(int e, int m)
{
    return (limber_format){ .kind = LIMBER_KIND_FLOAT,
                            .exp_bits = (uint8_t)e,
                            .frac_bits = (uint8_t)m,
                            .bias = (int16_t)((1 << (e - 1)) - 1),
                            .size = e <= 8 && m <= 23 ? 4 : 8,
                            .carried = 1 };
}

/* Reads "(1,e,m)", whose elements are stored as binary32 if possible, else as binary64; or all
 * fields of a float: "(1,e,m,bias,flags,size,carried)".  Returns false if s has neither form. */
static bool read_free_form(const char *s, limber_format *out)
{
    int v[7], n = *s == '(' ? read_numbers(s + 1, v, 7) : 0;
    limber_format f;

    if ((n != 3 && n != 7) || v[0] != 1)
        return false;
    if (n == 3) {
        if (v[1] < 2 || v[1] > 11 || v[2] < 1 || v[2] > 52)
            return false;
        *out = ieee_float(v[1], v[2]);
        return true;
    }
    f = (limber_format){ .kind = LIMBER_KIND_FLOAT,
                         .exp_bits = (uint8_t)v[1],
                         .frac_bits = (uint8_t)v[2],
                         .bias = (int16_t)v[3],
                         .flags = (uint8_t)v[4],
                         .size = (uint8_t)v[5],
                         .carried = (uint8_t)v[6] };
    if (f.exp_bits != v[1] || f.frac_bits != v[2] || f.bias != v[3] || f.flags != v[4] ||
        f.size != v[5] || f.carried != v[6] || !limber_format_check("", f, NULL))
        return false;
    *out = f;
    return true;
}

/* Finds a format by its name, or parses a description such as (1,5,10). */
limber_status limber_format_named(const char *name, limber_format *out)
{
    const limber_format *found;

    if (!out)
        return LIMBER_STATUS_BAD_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!name)
        return LIMBER_STATUS_BAD_ARGUMENT;
    found = find_format(name);
    if (found) {
        *out = *found;
        return LIMBER_STATUS_OK;
    }
    return read_free_form(name, out) ? LIMBER_STATUS_OK : LIMBER_STATUS_BAD_ARGUMENT;
}

/* Writes a format's name or, if it has none, its description to `text`, and returns that. */
const char *limber_format_name(limber_format f, char *text, size_t size)
{
    if (!size)
        return text;
    for (size_t i = 0; i < COUNT(named); i++)
        if (limber_format_equal(f, named[i].format)) {
            snprintf(text, size, "%s", named[i].name);
            return text;
        }
    if (f.kind == LIMBER_KIND_FLOAT && f.exp_bits >= 2 && f.exp_bits <= 11 && f.frac_bits >= 1 &&
        f.frac_bits <= 52 && limber_format_equal(f, ieee_float(f.exp_bits, f.frac_bits)))
        snprintf(text, size, "(1,%d,%d)", f.exp_bits, f.frac_bits);
    else if (f.kind == LIMBER_KIND_FLOAT)
        snprintf(text, size, "(1,%d,%d,%d,%d,%d,%d)", f.exp_bits, f.frac_bits, f.bias, f.flags,
                 f.size, f.carried);
    else if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT)
        snprintf(text, size, "%c%d", f.kind == LIMBER_KIND_INT ? 'i' : 'u', 8 * f.size);
    else
        snprintf(text, size, "none");
    return text;
}

/* Returns the name of row i of the table, or NULL.  The types inside plans are hidden from
 * callers. */
const char *limber_format_at(int i)
{
    return i >= 0 && i < NAMED_FORMATS ? named[i].name : NULL;
}

_Static_assert(sizeof(limber_format) == 8, "without holes, so that one comparison does");

/* Returns 1 if a and b are the same format, else 0. */
int limber_format_equal(limber_format a, limber_format b)
{
    return limber_same_format(a, b);
}

/* Returns the exponent of the lowest bit that any number of the format can have. */
int limber_format_quantum(limber_format f)
{
    switch (f.kind) {
    case LIMBER_KIND_DD: return -1074;
    case LIMBER_KIND_SIDED:
    case LIMBER_KIND_FLOAT: return 1 - f.bias - f.frac_bits;
    case LIMBER_KIND_POSIT: return -limber_format_emax(f);
    case LIMBER_KIND_POWER: return -f.bias;
    default: return 0;
    }
}

/* Returns the number of significant bits, the hidden one included; 107 for dd. */
int limber_format_sig(limber_format f)
{
    switch (f.kind) {
    case LIMBER_KIND_FLOAT:
    case LIMBER_KIND_POSIT:
    case LIMBER_KIND_POWER: return f.frac_bits + 1;
    case LIMBER_KIND_SHORT: return f.frac_bits;
    case LIMBER_KIND_INT: return 8 * f.size - 1;
    case LIMBER_KIND_UINT: return 8 * f.size;
    case LIMBER_KIND_DD: return 107;
    case LIMBER_KIND_SIDED: return f.frac_bits + 2; /* the integer tells as much as one more bit */
    default: return 0;
    }
}

/* Returns the unit round-off 2^-sig; 2^-106 for dd, 0 for integers. */
double limber_format_roundoff(limber_format f)
{
    if (f.kind == LIMBER_KIND_DD)
        return 0x1p-106; /* half an ulp of the low part, which is at most 2^-53 of x */
    return limber_is_real(f) ? ldexp(1, -limber_format_sig(f)) : 0;
}

/* True if all values of the format are integers. */
static bool is_int(limber_format f)
{
    return limber_is_integer(f) || f.kind == LIMBER_KIND_SHORT;
}

/* Returns the format of alpha and beta for a C of format c. */
limber_format limber_scalar_format(limber_format c)
{
    return is_int(c) ? LIMBER_I64 : limber_num_base(c);
}

/* Returns the exponent of the smallest nonzero magnitude. */
int limber_format_emin(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.flags & LIMBER_FORMAT_NO_SUBNORMAL ?
               1 - f.bias :
               limber_format_quantum(f);
}

/* Returns the exponent of the largest finite magnitude. */
int limber_format_emax(limber_format f)
{
    int top = (1 << f.exp_bits) - 1;

    switch (f.kind) {
    case LIMBER_KIND_SIDED:
    case LIMBER_KIND_FLOAT:
        return top - f.bias -
               !(f.flags & LIMBER_FORMAT_FINITE || (f.flags & LIMBER_FORMAT_NO_INF && f.frac_bits));
    case LIMBER_KIND_INT:
    case LIMBER_KIND_UINT: return 8 * f.size - 1;
    case LIMBER_KIND_SHORT: return f.frac_bits;
    case LIMBER_KIND_POSIT: return (8 * f.size - 2) << f.exp_bits;
    case LIMBER_KIND_POWER: return top - f.bias - 1;
    case LIMBER_KIND_DD: return 1023;
    default: return 0;
    }
}

/* Returns how many bit patterns, from the largest on, are NaN, in a format without infinities: 1,
 * or 0 if -0 is NaN or there is none. */
static int nonfinite_codes(limber_format f)
{
    return f.flags & LIMBER_FORMAT_NO_INF && !(f.flags & LIMBER_FORMAT_NO_MINUS_ZERO);
}

/* Returns the largest finite value of a float of at most binary64, a posit or a power of two. */
double limber_format_largest(limber_format f)
{
    int ulps = 1 + nonfinite_codes(f);

    if (f.kind == LIMBER_KIND_POSIT || f.kind == LIMBER_KIND_POWER)
        return ldexp(1, limber_format_emax(f));
    return ldexp(2 - ulps * ldexp(1, -f.frac_bits), limber_format_emax(f));
}

/* True if every finite value of the float or integer `small` is a value of `large`. */
static bool holds_finite_values(limber_format small, limber_format large)
{
    if (limber_format_sig(small) > limber_format_sig(large) ||
        limber_format_emax(small) > limber_format_emax(large))
        return false;
    if (large.flags & LIMBER_FORMAT_NO_SUBNORMAL)
        return limber_format_emin(small) >= limber_format_emin(large);
    return limber_format_quantum(small) >= limber_format_quantum(large);
}

/* Returns true if every value of `small` is a value of `large`, which is another format. */
bool limber_other_format_embeds(limber_format small, limber_format large)
{
    if (large.kind == LIMBER_KIND_EXACT)
        return small.kind != LIMBER_KIND_NONE;
    if (large.kind == LIMBER_KIND_DD)
        return is_int(small) || (limber_is_real(small) && holds_finite_values(small, LIMBER_F64));
    if (is_int(small) && is_int(large))
        return limber_format_sig(small) <= limber_format_sig(large) &&
               (large.kind != LIMBER_KIND_UINT || small.kind == LIMBER_KIND_UINT);
    if (large.kind != LIMBER_KIND_FLOAT ||
        (large.flags & LIMBER_FORMAT_NO_MINUS_ZERO && small.kind == LIMBER_KIND_FLOAT &&
         !(small.flags & LIMBER_FORMAT_NO_MINUS_ZERO)))
        return false;
    if (is_int(small))
        return holds_finite_values(small, large);
    return limber_is_real(small) && holds_finite_values(small, large) &&
           (small.flags & LIMBER_FORMAT_FINITE ||
            (!(large.flags & LIMBER_FORMAT_FINITE) &&
             (small.flags & LIMBER_FORMAT_NO_INF || small.kind != LIMBER_KIND_FLOAT ||
              !(large.flags & LIMBER_FORMAT_NO_INF))));
}

/* True if elements cannot have the format's size in bytes. */
static bool is_bad_size(limber_format f)
{
    return f.size != 1 && f.size != 2 && f.size != 4 && f.size != 8 &&
           (f.size != 16 || f.kind != LIMBER_KIND_FLOAT);
}

/* Checks that the fields of a float fit together, and that binary32 or binary64 holds all its
 * values if its elements are stored in one of them. */
static bool check_float(const char *what, limber_format f, struct diag *d)
{
    limber_format c = limber_num_carrier(f);

    if (f.exp_bits < 1 || f.exp_bits > 15)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: exp_bits = %d is not in 1..15", what,
                           f.exp_bits);
    if (f.frac_bits > 112)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: frac_bits = %d is not in 0..112",
                           what, f.frac_bits);
    if (f.flags & LIMBER_FORMAT_FINITE && f.flags & LIMBER_FORMAT_NO_INF)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: flags = %d: finite formats have no NaN", what, f.flags);
    if (f.flags & LIMBER_FORMAT_NO_MINUS_ZERO && !(f.flags & LIMBER_FORMAT_NO_INF))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: flags = %d: where -0 is NaN there are no infinities", what,
                           f.flags);
    if (!f.frac_bits && (f.exp_bits == 1 || !(f.flags & LIMBER_FORMAT_NO_INF)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: frac_bits = 0 leaves no code for NaN", what);
    if (f.exp_bits == 1 && f.flags & LIMBER_FORMAT_NO_SUBNORMAL)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: exp_bits = 1 holds only subnormals, which flags forbid", what);
    if (f.carried && f.size != 4 && f.size != 8)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: size = %d; a carrier has 4 or 8 bytes", what, f.size);
    if (f.carried &&
        (f.frac_bits > c.frac_bits || limber_format_quantum(f) < limber_format_quantum(c) ||
         limber_format_emax(f) > limber_format_emax(c)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: a carrier of %d bytes cannot hold (1,%d,%d) with bias %d", what,
                           f.size, f.exp_bits, f.frac_bits, f.bias);
    if (!f.carried && 1 + f.exp_bits + f.frac_bits != 8 * f.size &&
        !(f.flags & LIMBER_FORMAT_FINITE && f.size == 1 && f.exp_bits + f.frac_bits < 8))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: size = %d bytes, but (1,%d,%d) has %d bits", what, f.size,
                           f.exp_bits, f.frac_bits, 1 + f.exp_bits + f.frac_bits);
    return true;
}

/* Checks that a posit, short integer or power of two is one of LIMBER_FORMATS. */
static bool check_row(const char *what, limber_format f, struct diag *d)
{
    for (size_t i = 0; i < COUNT(named); i++)
        if (limber_format_equal(f, named[i].format))
            return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s: kind = %d has no format of size = %d, exp_bits = %d, frac_bits = %d, "
                       "bias = %d, flags = %d, carried = %d",
                       what, f.kind, f.size, f.exp_bits, f.frac_bits, f.bias, f.flags, f.carried);
}

/* Checks that f is a valid format of elements in memory.  Otherwise the error names the field of
 * `what` that is wrong. */
bool limber_format_check(const char *what, limber_format f, struct diag *d)
{
    if (f.kind > LIMBER_KIND_EXACT && f.kind <= LIMBER_KIND_POWER)
        return check_row(what, f, d);
    if (f.kind == LIMBER_KIND_EXACT || f.kind == LIMBER_KIND_NONE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: kind = %d has no elements in memory",
                           what, f.kind);
    if (f.kind > LIMBER_KIND_EXACT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: kind = %d is unknown", what, f.kind);
    if (f.flags & ~31)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: flags = %d is not a set of flags",
                           what, f.flags);
    if (f.carried > (f.kind == LIMBER_KIND_FLOAT))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: carried = %d is not allowed", what,
                           f.carried);
    if (f.kind == LIMBER_KIND_DD   ? f.size != 16 :
        f.kind == LIMBER_KIND_UINT ? f.size != 1 :
                                     is_bad_size(f))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: size = %d is not allowed", what,
                           f.size);
    return f.kind != LIMBER_KIND_FLOAT || check_float(what, f, d);
}

/* Decodes an element.  Returns a sticky bit: 1 if the number has nonzero bits below those of *x,
 * which only double-doubles can have. */
static int load_number(struct limber_num *x, limber_format f, const void *p)
{
    if (f.kind == LIMBER_KIND_DD)
        return limber_num_decode_dd(x, p);
    limber_num_decode(x, f, p);
    return 0;
}

/* Rounds x to a format and stores it. sticky: 1 if the number has further nonzero bits below those
 * of x. */
static void store_number(void *p, limber_format f, const struct limber_num *x, int sticky,
                         limber_rounding mode)
{
    if (f.kind == LIMBER_KIND_DD)
        limber_num_encode_dd(p, x, sticky, mode);
    else
        limber_num_encode(p, f, x, sticky, mode);
}

/* Converts `count` numbers from one format to another.  False, with an error, if a format or the
 * rounding is invalid. */
bool limber_format_convert(void *dst, limber_format to, const void *src, limber_format from,
                           size_t count, limber_rounding mode, struct diag *d)
{
    struct limber_num x;
    int sticky;

    if (!limber_format_check("to", to, d) || !limber_format_check("from", from, d))
        return false;
    if ((unsigned)mode > LIMBER_ROUND_ODD)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "mode = %d is no rounding", (int)mode);
    if (to.kind == LIMBER_KIND_POSIT && mode != LIMBER_ROUND_NEAREST)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "mode = %d: posits are rounded to nearest only", (int)mode);
    for (size_t i = 0; i < count; i++) {
        sticky = load_number(&x, from, (const char *)src + i * from.size);
        store_number((char *)dst + i * to.size, to, &x, sticky, mode);
    }
    return true;
}

/* Returns the element at p, rounded to the nearest double. */
double limber_format_value(limber_format f, const void *p)
{
    struct diag d = { 0 };
    double x = 0;

    limber_format_convert(&x, LIMBER_F64, p, f, 1, LIMBER_ROUND_NEAREST, &d);
    return x;
}

/* Returns x rounded to nearest in format f. */
double limber_format_round(limber_format f, double x)
{
    unsigned char bytes[16];
    struct diag d = { 0 };

    limber_format_convert(bytes, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST, &d);
    return limber_format_value(f, bytes);
}
