/* SPDX-License-Identifier: BSD-3-Clause
 * Converts between decimal text and elements of every format. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

/* Stores x, which was rounded to 113 bits, as binary128.  rounded: MPFR's return value (ternary
 * value) of that rounding, which keeps subnormal numbers from being rounded twice. */
static void to_f128(mpfr_t x, int rounded, unsigned char *out)
{
    limber_format f128 = format_of("f128");
    mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    unsigned char code[16] = { 0 };
    mpfr_exp_t e;
    mpz_t z;
    size_t count;

    mpfr_set_emin(-16493);
    mpfr_set_emax(16384);
    mpfr_subnormalize(x, mpfr_check_range(x, rounded, MPFR_RNDN), MPFR_RNDN);
    mpz_init(z);
    if (mpfr_nan_p(x) || mpfr_inf_p(x)) {
        code[14] = 0xff;
        code[15] = 0x7f;
        code[13] = mpfr_nan_p(x) ? 0x80 : 0;
    } else if (!mpfr_zero_p(x)) {
        e = mpfr_get_z_2exp(z, x); /* x = z 2^e, where z has 113 bits */
        mpz_abs(z, z);
        for (; e < -16494; e++)
            mpz_fdiv_q_2exp(z, z, 1);
        if (mpz_sizeinbase(z, 2) == 113) {
            mpz_clrbit(z, 112);
            e += 16383 + 112;
        } else {
            e = 0;
        }
        mpz_export(code, &count, -1, 1, -1, 0, z);
        code[14] = (unsigned char)e;
        code[15] = (unsigned char)(e >> 8);
    }
    if (mpfr_signbit(x))
        code[15] |= 0x80;
    mpz_clear(z);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    memcpy(out, code, f128.size);
}

/* Parses a number and rounds it to odd, to 53 bits: the last bit of an inexact result is 1.  A
 * later rounding to fewer bits then equals a single rounding. */
static double to_odd(const char *text, char **end)
{
    uint64_t bits;
    double d;
    mpfr_t x;
    int lost;

    mpfr_init2(x, 53);
    lost = mpfr_strtofr(x, text, end, 10, MPFR_RNDZ);
    d = mpfr_get_d(x, MPFR_RNDZ);
    mpfr_clear(x);
    memcpy(&bits, &d, sizeof bits);
    bits |= lost != 0;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Converts decimal text to one element, rounded once.  Returns false if the text is no number of
 * the format. */
bool parse_number(const char *text, limber_format f, void *out)
{
    unsigned char wide[16];
    char *end;
    mpfr_t x;
    bool ok;

    if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_SHORT) {
        int64_t v;

        errno = 0;
        v = strtoll(text, &end, 10);
        memcpy(out, &v, 8); /* alpha and beta of integer products are i64, so 8 bytes are stored */
        return end != text && *end == 0 && errno != ERANGE;
    }
    if (limber_format_equal(f, format_of("dd"))) {
        double high, low;

        mpfr_init2(x, 2200);
        ok = mpfr_strtofr(x, text, &end, 10, MPFR_RNDN) != 99 && end != text && *end == 0;
        high = mpfr_get_d(x, MPFR_RNDN);
        mpfr_sub_d(x, x, high, MPFR_RNDN);
        low = mpfr_get_d(x, MPFR_RNDN);
        memcpy(out, &high, 8);
        memcpy((char *)out + 8, &low, 8);
        mpfr_clear(x);
        return ok;
    }
    if (f.size == 16) {
        int rounded;

        mpfr_init2(x, 113);
        rounded = mpfr_strtofr(x, text, &end, 10, MPFR_RNDN);
        ok = end != text && *end == 0;
        to_f128(x, rounded, wide);
        memcpy(out, wide, 16);
        mpfr_clear(x);
        return ok;
    }
    if (f.kind != LIMBER_KIND_UINT) {
        double d =
            limber_format_equal(f, format_of("f64")) ? strtod(text, &end) : to_odd(text, &end);

        if (end == text || *end)
            return false;
        return limber_convert(out, f, &d, format_of("f64"), 1, LIMBER_ROUND_NEAREST) ==
               LIMBER_STATUS_OK;
    }
    return false;
}

/* Writes the shortest decimal text that is read back as d. */
static bool write_double(FILE *f, double d)
{
    char text[40];

    for (int digits = 15; digits < 18; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    return fputs(text, f) >= 0;
}

/* Writes an element as decimal text from which the same element is read back.  Returns false on
 * failure. */
bool write_number(FILE *f, limber_format fmt, const void *p)
{
    double d, part[2];
    int64_t v;
    mpfr_t x;
    int n;

    if (fmt.kind == LIMBER_KIND_INT || fmt.kind == LIMBER_KIND_UINT) {
        limber_convert(&v, format_of("i64"), p, fmt, 1, LIMBER_ROUND_NEAREST);
        return fprintf(f, "%" PRId64, v) > 0;
    }
    if (fmt.kind != LIMBER_KIND_DD && fmt.size < 16) {
        limber_convert(&d, format_of("f64"), p, fmt, 1, LIMBER_ROUND_NEAREST);
        return write_double(f, d);
    }
    mpfr_init2(x, 2200);
    if (fmt.kind == LIMBER_KIND_DD) {
        memcpy(part, p, 16);
        mpfr_set_d(x, part[0], MPFR_RNDN);
        mpfr_add_d(x, x, isfinite(part[0]) ? part[1] : 0, MPFR_RNDN);
    } else {
        uint64_t low, high;

        memcpy(&low, p, 8);
        memcpy(&high, (const char *)p + 8, 8);
        n = (int)(high >> 48 & 0x7fff);
        mpfr_set_uj(x, (high & 0xffffffffffff) | (n ? (uintmax_t)1 << 48 : 0), MPFR_RNDN);
        mpfr_mul_2si(x, x, 64, MPFR_RNDN);
        {
            mpfr_t t;

            mpfr_init2(t, 64);
            mpfr_set_uj(t, low, MPFR_RNDN);
            mpfr_add(x, x, t, MPFR_RNDN);
            mpfr_clear(t);
        }
        mpfr_mul_2si(x, x, (n ? n : 1) - 16383 - 112, MPFR_RNDN);
        if (n == 0x7fff && ((high & 0xffffffffffff) || low))
            mpfr_set_nan(x);
        else if (n == 0x7fff)
            mpfr_set_inf(x, 1);
        if (high >> 63)
            mpfr_neg(x, x, MPFR_RNDN);
    }
    n = mpfr_fprintf(f, "%.35Re", x);
    mpfr_clear(x);
    return n > 0;
}
