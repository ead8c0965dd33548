/* SPDX-License-Identifier: BSD-3-Clause
 * Arrays in files: chooses the reader, and writes. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_TEXT = 1 << 24 };

int64_t array_size(const struct array *a)
{
    int64_t n = 1;

    for (int i = 0; i < a->rank; i++)
        n *= a->dim[i];
    return n;
}

void array_clear(struct array *a)
{
    free(a->data);
    memset(a, 0, sizeof *a);
}

int64_t memory_here(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

bool array_claims(const struct array *a, const char *path, int64_t most, int64_t *count)
{
    __int128 all = 1, bytes = a->format.size;

    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] < 0)
            return complain("%s: a negative size", path), false;
        all *= a->dim[i];
        bytes *= a->dim[i] ? a->dim[i] : 1;
        if (bytes > PTRDIFF_MAX)
            return complain("%s: the array is larger than memory", path), false;
    }
    *count = (int64_t)all;
    if (bytes <= most)
        return true;
    complain("%s: the array takes %.3g GB, and may take %.3g GB here", path, (double)bytes * 1e-9,
             (double)most * 1e-9);
    return false;
}

bool array_alloc(struct array *a, const char *path)
{
    int64_t count;

    if (!array_claims(a, path, memory_here(), &count))
        return false;
    a->data = calloc(1, (size_t)(count * a->format.size) + 16);
    if (!a->data)
        return complain("%s: no memory for %lld elements", path, (long long)count), false;
    return true;
}

int64_t bytes_left(FILE *f)
{
    struct stat s;
    long at = ftell(f);

    if (at < 0 || fstat(fileno(f), &s) || !S_ISREG(s.st_mode))
        return -1;
    return s.st_size - at;
}

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), e = strlen(end);

    return n >= e && strcmp(s + n - e, end) == 0;
}

bool array_read(const char *path, bool wide, struct array *a)
{
    FILE *f = fopen(path, "rb");
    unsigned char magic[6] = { 0 };
    size_t n;
    bool ok;

    memset(a, 0, sizeof *a);
    if (!f)
        return complain("%s: %s", path, strerror(errno)), false;
    n = fread(magic, 1, sizeof magic, f);
    rewind(f);
    if (n == 6 && memcmp(magic, "\x93NUMPY", 6) == 0)
        ok = npy_read(f, path, a);
    else if (n >= 2 && memcmp(magic, "%%", 2) == 0)
        ok = mtx_read(f, path, wide, a);
    else if (n >= 4 && ((magic[0] == 0 && magic[1] == 0) || (magic[0] == 0x1f && magic[1] == 0x8b)))
        ok = idx_read(path, a);
    else
        ok = (complain("%s: neither .npy nor Matrix Market nor IDX", path), false);
    fclose(f);
    if (!ok)
        array_clear(a);
    return ok;
}

bool draft_open(struct draft *d, const char *path)
{
    d->path = path;
    if (output_open(&d->output, path)) {
        d->f = d->output.f;
        return true;
    }
    return complain("%s: %s", path, strerror(errno)), false;
}

bool draft_close(struct draft *d, bool ok)
{
    if (output_close(&d->output, ok))
        return true;
    if (ok)
        complain("%s: %s", d->path, strerror(errno));
    return false;
}

bool picture_named(const char *path, const char *option)
{
    return !path || ends(path, ".svg") ||
           (complain("%s %s: pictures are SVG, the name must end in .svg", option, path), false);
}

bool array_write(const char *path, const struct array *a)
{
    bool npy = ends(path, ".npy");
    struct draft d;

    if (!npy && !ends(path, ".mtx"))
        return complain("%s: the name must end in .npy or .mtx", path), false;
    return draft_open(&d, path) &&
           draft_close(&d, npy ? npy_write(d.f, path, a) : mtx_write(d.f, path, a));
}

char *text_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    size_t n = 0;

    if (!f) {
        complain("%s: %s", path, strerror(errno));
        return NULL;
    }
    for (;;) {
        char *grown = realloc(s, n + 65537);
        size_t got;

        if (!grown || n > LONGEST_TEXT) {
            free(grown ? grown : s);
            complain("%s: %s", path, grown ? "too long for a text" : "out of memory");
            fclose(f);
            return NULL;
        }
        s = grown;
        got = fread(s + n, 1, 65536, f);
        n += got;
        if (got == 0)
            break;
    }
    fclose(f);
    s[n] = 0;
    if (strlen(s) == n)
        return s;
    complain("%s: no text", path);
    free(s);
    return NULL;
}

/* ---- decimal text ---------------------------------------------------------------------------- */

/* Stores x, which has 113 bits.  rounded: the direction in which x was rounded, so that a subnormal
 * number is not rounded twice. */
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
        e = mpfr_get_z_2exp(z, x); /* x = z 2^e, z of 113 bits */
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

/* Rounds to odd in 53 bits: the last bit is 1 where anything was lost.  A second rounding, to a
 * narrower format, then gives the result of one rounding. */
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

bool parse_number(const char *text, limber_format f, void *out)
{
    unsigned char wide[16];
    char *end;
    mpfr_t x;
    bool ok;

    if (f.kind == LIMBER_KIND_INT) {
        int64_t v;

        errno = 0;
        v = strtoll(text, &end, 10);
        memcpy(out, &v, 8); /* scalars of integers are i64 */
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
    if (f.kind == LIMBER_KIND_FLOAT) {
        double d =
            limber_format_equal(f, format_of("f64")) ? strtod(text, &end) : to_odd(text, &end);

        if (end == text || *end)
            return false;
        return limber_convert(out, f, &d, format_of("f64"), 1, LIMBER_ROUND_NEAREST) ==
               LIMBER_STATUS_OK;
    }
    return false;
}
