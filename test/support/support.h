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

/* Sanitizers look for faults of memory, which the same code with fewer numbers has as well: loops
 * over values are shorter for them.  Builds without them run all. */
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

/* An emulator takes ten times as long, and its machine has no compiler for GPUs' stand-ins. */
#if defined(LIMBER_TEST_EMULATED)
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif
enum { BRIEF = SANITIZED || EMULATED }; /* tests do less */

bool is_long(void); /* LIMBER_TEST_LONG is set: loops are as long as they get */

/* Whether a sweep over combinations takes case number `i`: one of `step`, with sanitizers and for
 * each of the stand-ins' architectures another one, so that all tiers together take more.  With
 * LIMBER_TEST_LONG=1, and on a GPU, all are taken.  `step` is at most the number of cases that
 * share what could be wrong. */
bool is_taken(size_t i, int step);

/* ---- random ---------------------------------------------------------------------------------- */

struct rng {
    uint64_t s;
};
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n); /* 0 <= x < n */
double rng_unit(struct rng *r); /* [0, 1) */

/* What a matrix holds. */
enum data {
    DATA_unit, /* uniform in (-1, 1) */
    DATA_bytes, /* integers 0..255 */
    DATA_ints, /* signed integers of up to 15 bits */
    DATA_spread, /* exponents spread over 40 */
    DATA_range, /* exponents over most of the format's range */
    DATA_tiny, /* around the smallest normal, subnormals too */
    DATA_zeros, /* mostly zeros of both signs */
    DATA_special, /* a few NaN and infinities */
    DATA_ties, /* few bits: results often lie half-way */
    DATA_nothing, /* zeros of both signs, nothing else */
    DATA_count
};
const char *data_name(enum data d);
/* Fills count elements of format f. */
void fill(struct rng *r, enum data d, limber_format f, void *p, size_t count);

limber_format named(const char *name);

/* The same bytes, or NaN both: one is as good as another. */
bool same_number(limber_format f, const void *x, const void *y);

/* Memory for a result, filled with what no result is. */
char *poisoned(size_t bytes);

/* ---- MPFR ------------------------------------------------------------------------------------ */

enum { REF_BITS = 70000 }; /* more than any sum of products of binary128 */

/* The element at p, exactly; decoded here, not by the library. */
void ref_load(mpfr_t x, limber_format f, const void *p);
/* Is *p the value x rounded once to nearest-even (subnormals, overflow, signed zero)? */
bool ref_rounds_to(const mpfr_t x, limber_format f, const void *p);
/* sum and sum of absolute values of a_i b_i; strides in elements. */
void ref_dot(mpfr_t sum, mpfr_t absolute, limber_format fa, const void *a, int64_t sa,
             limber_format fb, const void *b, int64_t sb, int64_t k);
/* |x - *p| / scale as a double; 0/0 is 0. */
double ref_error(const mpfr_t x, limber_format f, const void *p, const mpfr_t scale);

#endif
