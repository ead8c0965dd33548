/* SPDX-License-Identifier: BSD-3-Clause
 * Compares elements of a product with exact dot products.  The interpreter's long accumulator
 * computes these and rounds them once: to the type of C, and to binary128. */
#include "product.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, EVERY = 64 };

struct element {
    int64_t i, j;
    double before[2];           /* of C; a pair of floats in the first half */
};

struct sample {
    int elements;
    struct element element[];
};

/* The first products are checked, then fewer and fewer. */
static bool is_chosen(void)
{
    static atomic_ullong products;
    unsigned long long n = ++products;

    return (n & (n - 1)) == 0 || n % EVERY == 0;
}

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

struct sample *limber_blas_sample(struct job *j, const struct product *x)
{
    static atomic_ullong seed;
    int count = interpose_options()->check;
    struct sample *s;

    count = count > MOST ? MOST : count;
    if (count == 0 || x->m == 0 || x->n == 0 || !is_chosen())
        return NULL;
    s = calloc(1, sizeof *s + (size_t)count * sizeof *s->element);
    if (!s)
        return NULL;
    s->elements = count;
    for (int e = 0; e < count; e++) {
        uint64_t bits = scramble(++seed);
        struct element *at = &s->element[e];

        at->i = (int64_t)(bits % (uint64_t)x->m);
        at->j = (int64_t)((bits >> 32) % (uint64_t)x->n);
        if (!limber_blas_is(j, x->beta, 0))
            memcpy(at->before, limber_blas_at(j, x->c, at->i, at->j).data, j->size);
    }
    return s;
}

static limber_format named(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

static limber_format own(const struct job *j)
{
    return named(j->is_single ? "f32" : "f64");
}

/* The interpreter: a check does not trust compiled code. */
static limber_context *judge;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_judge(void)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "interp",
                                   .threads = 1,
                                   .cache_dir = "",
                                   .dump_dir = "",
                                   .verbose = -1 };

    limber_create(&judge, &config);
}

/* Writes the exact element in format f: one or two numbers at out.  What beta multiplies is already
 * there. */
static bool exact(const struct job *j, const struct product *x, const struct element *e,
                  limber_format f, void *out)
{
    static const limber_contract contract = { .size = sizeof(limber_contract),
                                              .promise = LIMBER_CONTRACT_CORRECT,
                                              .scheme = "exact" };
    char alpha[32], beta[32];
    size_t parts = j->is_complex ? 2 : 1;
    limber_problem one;

    pthread_once(&made, make_judge);
    if (!judge ||
        limber_convert(alpha, f, x->alpha, own(j), parts, LIMBER_ROUND_NEAREST) !=
            LIMBER_STATUS_OK ||
        limber_convert(beta, f, x->beta, own(j), parts, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return false;
    one = limber_blas_problem(j, &(struct product){ .m = 1,
                                                    .n = 1,
                                                    .k = x->k,
                                                    .a = limber_blas_at(j, x->a, e->i, 0),
                                                    .b = limber_blas_at(j, x->b, 0, e->j) });
    one.alpha = alpha;
    one.beta = beta;
    one.c = (limber_output){ out, f, 1, 1 };
    one.contract = &contract;
    return limber_run(judge, &one, NULL) == LIMBER_STATUS_OK;
}

static double part(const struct job *j, const void *p, int which)
{
    return j->is_single ? ((const float *)p)[which] : ((const double *)p)[which];
}

static double size_of(const struct job *j, const void *p)
{
    return fabs(part(j, p, 0)) + (j->is_complex ? fabs(part(j, p, 1)) : 0);
}

/* |alpha||A||B| + |beta||C|.  For complex numbers it is at least that of each part. */
static double magnitude(const struct job *j, const struct product *x, const struct element *e)
{
    double sum = 0;

    for (int64_t p = 0; p < x->k; p++)
        sum += size_of(j, limber_blas_at(j, x->a, e->i, p).data) *
               size_of(j, limber_blas_at(j, x->b, p, e->j).data);
    return size_of(j, x->alpha) * sum +
           (limber_blas_is(j, x->beta, 0) ? 0 : size_of(j, x->beta) * size_of(j, e->before));
}

static double ulp(const struct job *j, double x)
{
    int exponent;

    frexp(x, &exponent);
    return j->is_single ? ldexp(1, fmax(exponent - 24, -149)) :
                          ldexp(1, fmax(exponent - 53, -1074));
}

/* The error that the contract allows besides the final rounding. */
static double allowed(const struct job *j, const struct product *x)
{
    const double u = j->is_single ? 0x1p-24 : 0x1p-53, k = (double)x->k * (j->is_complex ? 2 : 1);

    switch (j->contract->promise) {
    case LIMBER_CONTRACT_BITS: return ldexp(1, -j->contract->bits);
    case LIMBER_CONTRACT_SIMULATE: return INFINITY; /* a unit promises its bits */
    case LIMBER_CONTRACT_REPRODUCIBLE:
    case LIMBER_CONTRACT_NATIVE: return (k + 2) * u;
    default: return j->report.bound;
    }
}

/* Compares one number of an element: what the program got, and the exact value, rounded to C's type
 * and to a pair of doubles. */
static void compare_element(struct job *j, const struct product *x, double size, double got,
                            double rounded, const double *pair)
{
    double error = fabs((got - pair[0]) - pair[1]), ulps = ulp(j, pair[0]), limit;
    struct interpose_check *c = &j->check;

    c->elements++;
    if (isnan(got) || isnan(rounded) || isinf(got) || isinf(rounded)) {
        c->broken += !(isnan(got) && isnan(rounded)) && got != rounded;
        return;
    }
    c->error = fmax(c->error, size > 0 ? error / size : error > 0 ? INFINITY : 0);
    c->ulps = fmax(c->ulps, error / ulps);
    limit = allowed(j, x) * size * (1 + 0x1p-20) + ulps;
    c->broken += j->contract->promise == LIMBER_CONTRACT_CORRECT ? got != rounded : error > limit;
}

static void compare(struct job *j, const struct product *x, const struct element *e)
{
    const void *got = limber_blas_at(j, x->c, e->i, e->j).data;
    double size = magnitude(j, x, e), pair[4], rounded[2];
    int parts = j->is_complex ? 2 : 1;
    char wide[32];

    memcpy(rounded, e->before, sizeof rounded);
    if (limber_convert(wide, named("f128"), e->before, own(j), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK ||
        !exact(j, x, e, named("f128"), wide) || !exact(j, x, e, own(j), rounded) ||
        limber_convert(pair, named("dd"), wide, named("f128"), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return;
    for (int i = 0; i < parts; i++)
        compare_element(j, x, size, part(j, got, i), part(j, rounded, i), pair + 2 * i);
}

void limber_blas_compare(struct job *j, const struct product *x, struct sample *s, bool done)
{
    const int flags = fetestexcept(FE_ALL_EXCEPT), before = j->check.broken;
    double start = limber_blas_now();

    for (int e = 0; s && done && e < s->elements; e++)
        compare(j, x, &s->element[e]);
    if (j->check.broken > before)
        interpose_message("%s %lld x %lld x %lld: an element does not keep the contract",
                          j->r->name, (long long)x->m, (long long)x->n, (long long)x->k);
    free(s);
    feclearexcept(FE_ALL_EXCEPT & ~flags);
    j->checking += limber_blas_now() - start;
}
