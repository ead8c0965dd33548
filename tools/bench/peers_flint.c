/* SPDX-License-Identifier: BSD-3-Clause
 * FLINT and Arb as peers: matrices of integers, and of real numbers with 113 bits. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { PRECISION = 113, SHIFT = 113, LIMBS = 4 };

/* Functions of FLINT and Arb that are called: field, symbol, type of the result, parameters. */
#define FLINT(F) \
    F(mat_init, fmpz_mat_init, void, (void *, long, long)) \
    F(mat_clear, fmpz_mat_clear, void, (void *)) \
    F(mat_mul, fmpz_mat_mul, void, (void *, const void *, const void *)) \
    F(entry, fmpz_mat_entry, long *, (const void *, long, long)) \
    F(set_si, fmpz_set_si, void, (long *, long)) \
    F(get_si, fmpz_get_si, long, (const long *)) \
    F(set_limbs, fmpz_set_signed_ui_array, void, (long *, const unsigned long *, long)) \
    F(get_limbs, fmpz_get_signed_ui_array, void, (unsigned long *, long, const long *)) \
    F(init, fmpz_init, void, (long *)) \
    F(clear, fmpz_clear, void, (long *))
#define ARB(F) \
    F(mat_init, arb_mat_init, void, (void *, long, long)) \
    F(mat_clear, arb_mat_clear, void, (void *)) \
    F(mat_mul, arb_mat_mul, void, (void *, const void *, const void *, long)) \
    F(entry, arb_mat_entry_ptr, void *, (void *, long, long)) \
    F(set, arb_set_fmpz_2exp, void, (void *, const long *, const long *)) \
    F(get, arf_get_fmpz_fixed_si, int, (long *, const void *, long))
#define DECLARE(here, symbol, result, arguments) result(*here) arguments;
#define NEEDED_FLINT(here, symbol, result, arguments) { #symbol, &fl.here },
#define NEEDED_ARB(here, symbol, result, arguments) { #symbol, &ar.here },

/* The functions of FLINT. */
static struct {
    FLINT(DECLARE)
    void (*threads)(int);
} fl;
/* The functions of Arb. */
static struct {
    ARB(DECLARE)
} ar;
static const struct symbol needed_flint[] = { FLINT(NEEDED_FLINT) };
static const struct symbol needed_arb[] = { ARB(NEEDED_ARB) };

/* Buffers for the libraries' matrix structures, which have four words in both libraries. */
struct matrices {
    long a[16], b[16], y[16];
};

/* Converts x to the 128-bit integer x 2^SHIFT.  x must be a multiple of 2^-SHIFT below 1 in
 * magnitude. */
static void to_integer(const void *at, unsigned long limbs[2])
{
    quad x;
    __int128 v;

    memcpy(&x, at, sizeof x);
    v = (__int128)(x * ((quad)0x1p113));
    limbs[0] = (unsigned long)v;
    limbs[1] = (unsigned long)(v >> 64);
}

/* Converts a two's complement integer of LIMBS words to binary128, times `scale`, a power of
 * two. */
static void from_integer(const unsigned long limbs[LIMBS], quad scale, void *at)
{
    quad x = (quad)(long)limbs[LIMBS - 1];

    for (int i = LIMBS - 2; i >= 0; i--)
        x = x * ((quad)0x1p64) + (quad)limbs[i];
    x *= scale;
    memcpy(at, &x, sizeof x);
}

/* Sets *x to the integer for an element of A or B.  wide: elements are binary128, else int64_t. */
static void set_integer(long *x, const void *values, size_t at, bool wide)
{
    unsigned long limbs[2];

    if (wide) {
        to_integer((const char *)values + at * sizeof(quad), limbs);
        fl.set_limbs(x, limbs, 2);
    } else {
        fl.set_si(x, (long)((const int64_t *)values)[at]);
    }
}

/* True if elements are binary128, which Arb multiplies; else they are integers, for FLINT.
 * peer->code[0] tells. */
static bool is_wide(const struct contender *c)
{
    return c->peer->code[0];
}

/* True for Arb, false for FLINT. */
static bool is_arb(const struct contender *c)
{
    return c->peer->code[1];
}

/* Sets the elements of a library's matrix from an operand's values. */
static void fill_matrix(void *matrix, const struct contender *c, const void *values)
{
    long n = c->work->n, x, e;

    fl.init(&x);
    fl.init(&e);
    fl.set_si(&e, -SHIFT);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            long *to = is_arb(c) ? &x : fl.entry(matrix, i, j);

            set_integer(to, values, (size_t)(i * n + j), is_wide(c));
            if (is_arb(c))
                ar.set(ar.entry(matrix, i, j), &x, &e);
        }
    fl.clear(&x);
    fl.clear(&e);
}

/* Copies the operands to FLINT's or Arb's matrices, which are not part of the timed call. */
bool flint_prepare(struct contender *c)
{
    struct matrices *s = calloc(1, sizeof *s);
    void (*init)(void *, long, long) = is_arb(c) ? ar.mat_init : fl.mat_init;
    long n = c->work->n;

    if (!s)
        return false;
    c->prepared = s;
    init(s->a, n, n);
    init(s->b, n, n);
    init(s->y, n, n);
    fill_matrix(s->a, c, c->now->a);
    fill_matrix(s->b, c, c->now->b);
    return true;
}

bool flint_run(struct contender *c)
{
    struct matrices *s = c->prepared;

    if (is_arb(c))
        ar.mat_mul(s->y, s->a, s->b, PRECISION);
    else
        fl.mat_mul(s->y, s->a, s->b);
    return true;
}

/* Copies the result.  An arb_t begins with its midpoint, which is rounded here to a multiple of
 * 2^-226 and taken as Arb's result. */
void flint_fetch(struct contender *c)
{
    struct matrices *s = c->prepared;
    long n = c->work->n, rounded;

    fl.init(&rounded);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            const long *x = is_arb(c) ? &rounded : fl.entry(s->y, i, j);
            unsigned long limbs[LIMBS];

            if (is_arb(c))
                ar.get(&rounded, ar.entry(s->y, i, j), -2 * SHIFT);
            if (is_wide(c)) {
                fl.get_limbs(limbs, LIMBS, x);
                from_integer(limbs, (quad)0x1p-226, (char *)c->now->y + (i * n + j) * 16);
            } else {
                ((int64_t *)c->now->y)[i * n + j] = fl.get_si(x);
            }
        }
    fl.clear(&rounded);
}

void flint_release(struct contender *c)
{
    struct matrices *s = c->prepared;
    void (*clear)(void *) = is_arb(c) ? ar.mat_clear : fl.mat_clear;

    clear(s->a);
    clear(s->b);
    clear(s->y);
    free(s);
}

static bool open_flint(struct library *l)
{
    const char *version;

    if (!library_load(l) || !LIBRARY_FIND(l, needed_flint))
        return false;
    *(void **)&fl.threads = dlsym(l->handle, "flint_set_num_threads");
    version = dlsym(l->handle, "flint_version");
    snprintf(l->version, sizeof l->version, "%.32s", version ? version : "");
    snprintf(l->kernels, sizeof l->kernels, "fmpz_mat_mul");
    return true;
}

static void set_threads(int threads)
{
    if (fl.threads)
        fl.threads(threads);
}

/* Loads Arb, which needs FLINT to be loaded before.  On failure sets why_not and returns false. */
static bool open_arb(struct library *l)
{
    const char **version;

    if (!library_load(l))
        return false;
    if (!flint.usable || sizeof(quad) != 16)
        return library_refuse(l, "needs FLINT beside it and a binary128");
    if (!LIBRARY_FIND(l, needed_arb))
        return false;
    version = dlsym(l->handle, "arb_version");
    snprintf(l->version, sizeof l->version, "%.32s", version && *version ? *version : "");
    snprintf(l->kernels, sizeof l->kernels, "arb_mat_mul at %d bits", PRECISION);
    return true;
}

struct library flint = {
    .name = "FLINT", .files = "libflint.so.17", .open = open_flint, .threads = set_threads
};
struct library arb = { .name = "Arb", .files = "libflint-arb.so.2", .open = open_arb };
