/* SPDX-License-Identifier: BSD-3-Clause
 * Compares elements of a product with exact dot products, which the interpreter's long accumulator
 * computes and rounds once: to the type of C, and to binary128.  Under `reproducible` an element
 * must equal the interpreter's sum in the contract's order, bit by bit. */
#include "product.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Most elements of a product that are compared; every EVERY-th product is checked. */
enum { MOST = 64, EVERY = 64 };

/* An element of C to compare. */
struct element {
    int64_t i, j;
    /* the element of C before the product, which beta multiplies: its bytes in the call's type,
     * which may fill only a part of the array */
    double before[2];
};

/* The elements to compare of a call. */
struct sample {
    int elements;
    struct element element[];
};

/* True if this product is to be checked: those with the numbers 1, 2, 4, 8 and so on, and every
 * EVERY-th. */
static bool is_chosen(void)
{
    static atomic_ullong products;
    unsigned long long n = ++products;

    return (n & (n - 1)) == 0 || n % EVERY == 0;
}

/* Mixes the bits of x (the finaliser of MurmurHash3), to choose elements at random. */
static uint64_t scramble(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Chooses random elements of a product, before it is computed, and saves their old values if beta
 * needs them.  Returns NULL if this product is not checked. */
struct sample *limber_blas_sample(struct active_request *j, const struct blas_product *x)
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

static limber_format format_named(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

static limber_format c_format(const struct active_request *j)
{
    return format_named(j->is_single ? "f32" : "f64");
}

/* A context on the interpreter, since a check must not depend on compiled code. */
static limber_context *judge;
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* Creates the interpreter's context once, for all checks. */
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

/* Computes an element under a contract, in format f. out: one number, or two if complex; before the
 * call it holds the old element of C. */
static bool compute_element(const struct active_request *j, const struct blas_product *x,
                            const struct element *e, const limber_contract *contract,
                            limber_format f, void *out)
{
    char alpha[32], beta[32];
    size_t parts = j->is_complex ? 2 : 1;
    limber_problem one;

    pthread_once(&made, make_judge);
    if (!judge ||
        limber_convert(alpha, f, x->alpha, c_format(j), parts, LIMBER_ROUND_NEAREST) !=
            LIMBER_STATUS_OK ||
        limber_convert(beta, f, x->beta, c_format(j), parts, LIMBER_ROUND_NEAREST) !=
            LIMBER_STATUS_OK)
        return false;
    one = limber_blas_problem(j, &(struct blas_product){ .m = 1,
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

static double number_of(const struct active_request *j, const void *p, int which)
{
    return j->is_single ? ((const float *)p)[which] : ((const double *)p)[which];
}

/* Returns |re| + |im| of a number. */
static double abs_of(const struct active_request *j, const void *p)
{
    return fabs(number_of(j, p, 0)) + (j->is_complex ? fabs(number_of(j, p, 1)) : 0);
}

/* Returns |A||B| for one element.  For complex numbers this bounds the value for both parts. */
static double magnitude(const struct active_request *j, const struct blas_product *x,
                        const struct element *e)
{
    double size = 0;

    for (int64_t p = 0; p < x->k; p++)
        size += abs_of(j, limber_blas_at(j, x->a, e->i, p).data) *
                abs_of(j, limber_blas_at(j, x->b, p, e->j).data);
    return size;
}

/* Returns the unit in the last place of x in the call's type. */
static double ulp(const struct active_request *j, double x)
{
    int exponent;

    frexp(x, &exponent);
    return j->is_single ? ldexp(1, fmax(exponent - 24, -149)) :
                          ldexp(1, fmax(exponent - 53, -1074));
}

/* Returns the number of products in an element's sum, of real numbers. */
static double term_count(const struct active_request *j, const struct blas_product *x)
{
    return (double)x->k * (j->is_complex ? 2 : 1);
}

/* Error that the contract allows before the final rounding, as a share of |alpha||A||B| +
 * |beta||C|. */
static double allowed_error(const struct active_request *j, const struct blas_product *x)
{
    const double u = j->is_single ? 0x1p-24 : 0x1p-53, k = term_count(j, x);

    switch (j->contract->promise) {
    case LIMBER_CONTRACT_BITS: return ldexp(1, -j->contract->bits);
    /* a simulated unit promises bits, not an error */
    case LIMBER_CONTRACT_SIMULATE: return INFINITY;
    case LIMBER_CONTRACT_REPRODUCIBLE:
    case LIMBER_CONTRACT_NATIVE: return (k + 2) * u;
    default: return j->report.bound;
    }
}

/* Absolute error that underflow may cause under `native`: each addition in the subnormal range may
 * lose half of the smallest number. */
static double underflow_error(const struct active_request *j, const struct blas_product *x)
{
    return j->contract->promise == LIMBER_CONTRACT_NATIVE ?
               ldexp((term_count(j, x) + 2) * fmax(abs_of(j, x->alpha), 1),
                     j->is_single ? -150 : -1075) :
               0;
}

/* True if native sums of this size may overflow, as in IEEE arithmetic. */
static bool may_overflow(const struct active_request *j, double size)
{
    return j->contract->promise == LIMBER_CONTRACT_NATIVE &&
           !(size < (j->is_single ? 0x1p127 : 0x1p1023));
}

/* Magnitudes for an element: sum is |A||B|, all is |alpha||A||B| + |beta||C|. */
struct magnitudes {
    double sum, all;
};

/* Compares one number of an element.  got: the program's result; due: the right bits, for contracts
 * that promise bits; pair: the exact value as a double-double. */
static void compare_number(struct active_request *j, const struct blas_product *x,
                           struct magnitudes size, double got, double due, const double *pair)
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
    limit = allowed_error(j, x) * size.all * (1 + 0x1p-20) + ulps + underflow_error(j, x);
    c->broken += promise == LIMBER_CONTRACT_CORRECT || promise == LIMBER_CONTRACT_REPRODUCIBLE ?
                     got != due :
                     error > limit;
}

/* Compares one element with its exact value. */
static void compare_element(struct active_request *j, const struct blas_product *x,
                            const struct element *e)
{
    const void *got = limber_blas_at(j, x->c, e->i, e->j).data;
    const bool ordered = j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE;
    double pair[4], due[2];
    struct magnitudes size = { .sum = magnitude(j, x, e) };
    int parts = j->is_complex ? 2 : 1;
    char wide[32];

    size.all = abs_of(j, x->alpha) * size.sum +
               (limber_blas_is(j, x->beta, 0) ? 0 : abs_of(j, x->beta) * abs_of(j, e->before));
    memcpy(due, e->before, sizeof due);
    if (limber_convert(wide, format_named("f128"), e->before, c_format(j), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK ||
        !compute_element(j, x, e, &exact, format_named("f128"), wide) ||
        !compute_element(j, x, e, ordered ? &in_order : &exact, c_format(j), due) ||
        limber_convert(pair, format_named("dd"), wide, format_named("f128"), (size_t)parts,
                       LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        return;
    for (int i = 0; i < parts; i++)
        compare_number(j, x, size, number_of(j, got, i), number_of(j, due, i), pair + 2 * i);
}

/* Compares the sampled elements of a product's result with the contract, if the product is done,
 * and prints a message if one breaks it.  Frees s.  Restores the floating-point flags, and adds
 * the time to j->checking. */
void limber_blas_compare(struct active_request *j, const struct blas_product *x, struct sample *s,
                         bool done)
{
    const int before = j->check.broken;
    double start;
    int flags;

    if (!s)
        return;
    flags = fetestexcept(FE_ALL_EXCEPT);
    start = limber_blas_now();
    for (int e = 0; done && e < s->elements; e++)
        compare_element(j, x, &s->element[e]);
    if (j->check.broken > before)
        interpose_message("%s %lld x %lld x %lld: an element does not keep the contract",
                          j->r->name, (long long)x->m, (long long)x->n, (long long)x->k);
    free(s);
    feclearexcept(FE_ALL_EXCEPT & ~flags);
    j->checking += limber_blas_now() - start;
}
