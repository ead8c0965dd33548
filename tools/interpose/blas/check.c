/* SPDX-License-Identifier: BSD-3-Clause
 * Compares elements of a product with exact dot products.  The interpreter's long accumulator
 * computes these and rounds them once: to the type of C, and to binary128.  Under `reproducible` an
 * element must be what the interpreter sums in the stated order. */
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

static const limber_contract exact = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_CORRECT,
                                       .scheme = "accumulator" };
static const limber_contract in_order = { .size = sizeof(limber_contract),
                                          .promise = LIMBER_CONTRACT_REPRODUCIBLE };

/* Writes the element under a contract in format f: one or two numbers at out.  What beta multiplies
 * is already there. */
static bool sum(const struct job *j, const struct product *x, const struct element *e,
                const limber_contract *contract, limber_format f, void *out)
{
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
    one.contract = contract;
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

/* |A||B|.  For complex numbers it is at least that of each part. */
static double magnitude(const struct job *j, const struct product *x, const struct element *e)
{
    double size = 0;

    for (int64_t p = 0; p < x->k; p++)
        size += size_of(j, limber_blas_at(j, x->a, e->i, p).data) *
                size_of(j, limber_blas_at(j, x->b, p, e->j).data);
    return size;
}

static double ulp(const struct job *j, double x)
{
    int exponent;

    frexp(x, &exponent);
    return j->is_single ? ldexp(1, fmax(exponent - 24, -149)) :
                          ldexp(1, fmax(exponent - 53, -1074));
}

static double terms(const struct job *j, const struct product *x)
{
    return (double)x->k * (j->is_complex ? 2 : 1);
}

/* The error that the contract allows besides the final rounding. */
static double allowed(const struct job *j, const struct product *x)
{
    const double u = j->is_single ? 0x1p-24 : 0x1p-53, k = terms(j, x);

    switch (j->contract->promise) {
    case LIMBER_CONTRACT_BITS: return ldexp(1, -j->contract->bits);
    case LIMBER_CONTRACT_SIMULATE: return INFINITY; /* a unit promises its bits */
    case LIMBER_CONTRACT_REPRODUCIBLE:
    case LIMBER_CONTRACT_NATIVE: return (k + 2) * u;
    default: return j->report.bound;
    }
}

/* Native sums err as IEEE arithmetic does where they leave its range on their way: each addition
 * below the normal numbers by half of the least one, and beyond the range it overflows. */
static double underflow(const struct job *j, const struct product *x)
{
    return j->contract->promise == LIMBER_CONTRACT_NATIVE ?
               ldexp((terms(j, x) + 2) * fmax(size_of(j, x->alpha), 1),
                     j->is_single ? -150 : -1075) :
               0;
}

static bool may_overflow(const struct job *j, double size)
{
    return j->contract->promise == LIMBER_CONTRACT_NATIVE &&
           !(size < (j->is_single ? 0x1p127 : 0x1p1023));
}

/* Sizes of an element: |A||B|, and |alpha||A||B| + |beta||C|. */
struct sizes {
    double sum, all;
};

/* Compares one number of an element: what the program got, what it is due in C's type where the
 * contract promises its bits, and the exact value as a pair of doubles. */
static void compare_element(struct job *j, const struct product *x, struct sizes size, double got,
                            double due, const double *pair)
{
    const limber_promise promise = j->contract->promise;
    double error = fabs((got - pair[0]) - pair[1]), ulps = ulp(j, pair[0]), limit;
    struct interpose_check *c = &j->check;

    c->elements++;
    if (isnan(got) || isnan(due) || isinf(got) || isinf(due)) {
        c->broken +=
            !(isnan(got) && isnan(due)) && got != due && !may_overflow(j, fmax(size.sum, size.all));
        return;
    }
    c->error = fmax(c->error, size.all > 0 ? error / size.all : error > 0 ? INFINITY : 0);
    c->ulps = fmax(c->ulps, error / ulps);
    limit = allowed(j, x) * size.all * (1 + 0x1p-20) + ulps + underflow(j, x);
    c->broken += promise == LIMBER_CONTRACT_CORRECT || promise == LIMBER_CONTRACT_REPRODUCIBLE ?
                     got != due :
                     error > limit;
}

static void compare(struct job *j, const struct product *x, const struct element *e)
{
    const void *got = limber_blas_at(j, x->c, e->i, e->j).data;
    const bool ordered = j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE;
    double pair[4], due[2];
    struct sizes size = { .sum = magnitude(j, x, e) };
    int parts = j->is_complex ? 2 : 1;
    char wide[32];

    size.all = size_of(j, x->alpha) * size.sum +
               (limber_blas_is(j, x->beta, 0) ? 0 : size_of(j, x->beta) * size_of(j, e->before));
    memcpy(due, e->before, sizeof due);
    if (limber_convert(wide, named("f128"), e->before, own(j), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK ||
        !sum(j, x, e, &exact, named("f128"), wide) ||
        !sum(j, x, e, ordered ? &in_order : &exact, own(j), due) ||
        limber_convert(pair, named("dd"), wide, named("f128"), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return;
    for (int i = 0; i < parts; i++)
        compare_element(j, x, size, part(j, got, i), part(j, due, i), pair + 2 * i);
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
