/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the tests: random numbers that prefer the edges, and references by MPFR that are
 * independent of the library's own arithmetic. */
#ifndef LIMBER_TEST_SUPPORT_H
#define LIMBER_TEST_SUPPORT_H

#include "calls.h"
#include "limber/limber.h"
#include "limber/research.h"

#include <mpfr.h>
#include <stdbool.h>

/* Sanitized builds find memory faults with fewer values, so their loops are shorter. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* An emulator is ten times slower, and its machine has no compiler for the GPU stand-ins. */
#if defined(LIMBER_TEST_EMULATED)
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif
enum { BRIEF = SANITIZED || EMULATED }; /* tests take fewer cases */

bool is_long(void); /* LIMBER_TEST_LONG is set: tests take all cases */

/* Returns whether a sweep takes case i: one of `step`, chosen differently under sanitizers and for
 * each stand-in's architecture, so that all configurations together cover more.  LIMBER_TEST_LONG=1
 * and a GPU take all cases.  `step` is at most the number of cases in which the same fault would
 * show. */
bool is_taken(size_t i, int step);

/* ---- random ---------------------------------------------------------------------------------- */

struct rng {
    uint64_t s;
};
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n); /* 0 <= x < n */
double rng_unit(struct rng *r); /* [0, 1) */

/* The contents of a matrix. */
enum data {
    DATA_unit, /* uniform in (-1, 1) */
    DATA_bytes, /* integers 0..255 */
    DATA_ints, /* signed integers of up to 15 bits */
    DATA_spread, /* exponents spread over 40 */
    DATA_range, /* exponents over most of the format's range */
    DATA_tiny, /* around the smallest normal, subnormals too */
    DATA_zeros, /* mostly zeros of both signs */
    DATA_special, /* a few NaN and infinities */
    DATA_ties, /* few bits, so that results are often midpoints */
    DATA_nothing, /* only zeros, of both signs */
    DATA_count
};
const char *data_name(enum data d);
/* Fills count elements of format f. */
void fill(struct rng *r, enum data d, limber_format f, void *p, size_t count);

limber_format named(const char *name);

/* Returns whether two numbers have the same bits or are both NaN. */
bool same_number(limber_format f, const void *x, const void *y);

/* Allocates memory for a result, filled with bytes that no result has. */
char *poisoned(size_t bytes);

/* ---- MPFR ------------------------------------------------------------------------------------ */

enum { REF_BITS = 70000 }; /* more bits than any sum of products of binary128 needs */

/* Loads the element at p exactly, without the library's decoder. */
void ref_load(mpfr_t x, limber_format f, const void *p);
/* Returns whether *p is x rounded once to nearest-even (subnormals, overflow, signed zero). */
bool ref_rounds_to(const mpfr_t x, limber_format f, const void *p);
/* Computes the sums of a_i b_i and of |a_i b_i|; strides in elements. */
void ref_dot(mpfr_t sum, mpfr_t absolute, limber_format fa, const void *a, int64_t sa,
             limber_format fb, const void *b, int64_t sb, int64_t k);
/* |x - *p| / scale as a double; 0/0 is 0. */
double ref_error(const mpfr_t x, limber_format f, const void *p, const mpfr_t scale);

#endif
