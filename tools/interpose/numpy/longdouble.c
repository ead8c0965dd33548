/* SPDX-License-Identifier: BSD-3-Clause
 * Products of long doubles.  They are computed in binary128 and then rounded to the 64 bits of
 * x87's numbers.  A first result that lies just between two of these is rounded by the sign of its
 * error, which a second product gives, so that each element is the exact value rounded once. */
#include "engine.h"
#include "loops.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* The bits of a binary128. */
struct quad {
    uint64_t low, high;
};

enum { SIZE = sizeof(long double) };

#if LDBL_MANT_DIG == 64
static struct quad from_longdouble(const char *at)
{
    uint64_t m, fraction;
    uint16_t top;
    struct quad x;

    memcpy(&m, at, 8);
    memcpy(&top, at + 8, 2);
    x.high = (uint64_t)(top & 0x8000) << 48;
    top &= 0x7fff;
    fraction = m << 1 >> 1;
    /* NaN, or an invalid encoding */
    if (top == 0x7fff ? m != (uint64_t)1 << 63 : top && !(m >> 63)) {
        top = 0x7fff;
        fraction |= (uint64_t)1 << 62;
    } else if (top == 0 && m >> 63) { /* x87 may encode the smallest exponent as 0 */
        top = 1;
    }
    x.high |= (uint64_t)top << 48 | fraction >> 15;
    x.low = fraction << 49;
    return x;
}

/* Returns the low bits of a binary128 number for which a long double of 80 bits has no room. */
static uint64_t rest_of(struct quad x)
{
    return x.low & (((uint64_t)1 << 49) - 1);
}

/* Half a unit in the last place of a long double, in the units of rest_of(). */
static const uint64_t half = (uint64_t)1 << 48;

/* Stores x rounded to nearest. error: the exact value minus x (only its sign matters), or 0. */
static void to_longdouble(struct quad x, struct quad error, char *at)
{
    const uint64_t rest = rest_of(x);
    uint64_t m = x.high << 16 >> 1 | x.low >> 49;
    uint16_t top = (uint16_t)(x.high >> 48);
    const bool is_zero = !(error.high << 1 | error.low);
    bool up = rest > half;

    if ((top & 0x7fff) == 0x7fff) { /* infinity or NaN */
        m |= (uint64_t)1 << 63;
        up = false;
    } else {
        if (top & 0x7fff)
            m |= (uint64_t)1 << 63;
        if (rest == half)
            up = is_zero ? m & 1 : (error.high >> 63) == (x.high >> 63);
    }
    m += up;
    if (up && (m == 0 || ((top & 0x7fff) == 0 && m >> 63))) { /* a carry leads to the next binade */
        m = (uint64_t)1 << 63;
        top++;
    }
    memcpy(at, &m, 8);
    memcpy(at + 8, &top, 2);
}

/* True if x is exactly between two long doubles. */
static bool is_tie(struct quad x)
{
    return rest_of(x) == half && (x.high >> 48 & 0x7fff) != 0x7fff;
}
#elif LDBL_MANT_DIG == 113
static struct quad from_longdouble(const char *at)
{
    struct quad x;

    memcpy(&x, at, sizeof x);
    return x;
}

static void to_longdouble(struct quad x, struct quad error, char *at)
{
    (void)error;
    memcpy(at, &x, sizeof x);
}

/* False: a long double of this machine is a binary128, so that nothing is rounded again. */
static bool is_tie(struct quad x)
{
    (void)x;
    return false;
}
#endif

#if LDBL_MANT_DIG == 64 || LDBL_MANT_DIG == 113
/* Copies extents[0] matrices of extents[1] x extents[2] elements to contiguous memory, converted to
 * binary128. */
static void copy(struct quad *to, const char *from, const int64_t extents[3],
                 const int64_t steps[3])
{
    for (int64_t g = 0; g < extents[0]; g++)
        for (int64_t i = 0; i < extents[1]; i++)
            for (int64_t j = 0; j < extents[2]; j++)
                *to++ = from_longdouble(from + g * steps[0] + i * steps[1] + j * steps[2]);
}

/* Computes C = A B, with beta C = A B + C, for all products of the stack, rounded once to
 * binary128. beta: NULL, or the number 1. */
static bool multiply(const struct shape *x, const struct quad *a, const struct quad *b,
                     struct quad *c, const struct quad *beta)
{
    limber_problem problem = LIMBER_PROBLEM_INIT;
    limber_contract correct = LIMBER_CONTRACT_INIT;
    limber_batch batch = LIMBER_SIZED(limber_batch);

    correct.promise = LIMBER_CONTRACT_CORRECT;
    problem.m = x->m, problem.n = x->n, problem.k = x->k;
    problem.a = (limber_matrix){ a, LIMBER_F128, x->k, 1 };
    problem.b = (limber_matrix){ b, LIMBER_F128, x->n, 1 };
    problem.c = (limber_output){ c, LIMBER_F128, x->n, 1 };
    problem.beta = beta;
    problem.contract = &correct;
    if (x->count > 1) {
        batch.count = x->count;
        batch.a = x->stack[0] ? x->m * x->k : 0;
        batch.b = x->stack[1] ? x->k * x->n : 0;
        batch.c = x->m * x->n;
        problem.batch = &batch;
    }
    return limber_run(limber_numpy_context(), &problem, NULL) == LIMBER_STATUS_OK;
}

/* Sets error[i] to the exact value minus c[i], rounded to binary128, for all elements of the
 * stack. */
static bool find_errors(const struct shape *x, const struct quad *a, const struct quad *b,
                        const struct quad *c, struct quad *error)
{
    static const struct quad one = { 0, (uint64_t)0x3fff << 48 };
    const int64_t n = x->count * x->m * x->n;

    for (int64_t i = 0; i < n; i++) {
        error[i] = c[i];
        error[i].high ^= (uint64_t)1 << 63;
    }
    return multiply(x, a, b, error, &one);
}

bool limber_numpy_longdouble(const struct shape *x, char *const *args)
{
    const int64_t sets_a = x->stack[0] ? x->count : 1, sets_b = x->stack[1] ? x->count : 1,
                  size_a = sets_a * x->m * x->k, size_b = sets_b * x->k * x->n,
                  size_c = x->count * x->m * x->n;
    struct quad *a, *b, *c, *error;
    bool ok, ties = false;

    if (!limber_numpy_context())
        return false;
    a = aligned_alloc(64, (size_t)((size_a + size_b + 2 * size_c + 3) / 4 * 4) * sizeof *a);
    if (!a)
        return false;
    b = a + size_a;
    c = b + size_b;
    error = c + size_c;
    copy(a, args[0], (const int64_t[]){ sets_a, x->m, x->k },
         (const int64_t[]){ x->stack[0], x->am, x->ak });
    copy(b, args[1], (const int64_t[]){ sets_b, x->k, x->n },
         (const int64_t[]){ x->stack[1], x->bk, x->bn });
    ok = multiply(x, a, b, c, NULL);
    for (int64_t i = 0; ok && i < size_c; i++)
        ties = ties || is_tie(c[i]);
    if (ok && ties)
        ok = find_errors(x, a, b, c, error);
    for (int64_t g = 0, at = 0; ok && g < x->count; g++)
        for (int64_t i = 0; i < x->m; i++)
            for (int64_t j = 0; j < x->n; j++, at++)
                to_longdouble(c[at], ties ? error[at] : (struct quad){ 0, 0 },
                              args[2] + g * x->stack[2] + i * x->cm + j * x->cn);
    free(a);
    return ok;
}
#else
bool limber_numpy_longdouble(const struct shape *x, char *const *args)
{
    (void)x, (void)args;
    return false;
}
#endif
