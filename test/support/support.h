/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by all tests: random data with many special cases, and references by MPFR that do not use
 * the library's arithmetic. */
#ifndef LIMBER_TEST_SUPPORT_H
#define LIMBER_TEST_SUPPORT_H

#include "calls.h"
#include "limber/limber.h"
#include "limber/research.h"

#include <mpfr.h>
#include <stdbool.h>

/* SANITIZED: built with AddressSanitizer, which slows tests down.  Loops are shorter then. */
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

/* EMULATED: the tests run in an emulator of another CPU, which is ten times slower and has no
 * compiler for simulated GPUs. */
#if defined(LIMBER_TEST_EMULATED)
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif
enum { BRIEF = SANITIZED || EMULATED }; /* tests take fewer cases */

bool is_long(void); /* true if LIMBER_TEST_LONG is set: tests take all cases */

/* True if a loop should take case i.  It takes one case of every `step`, and different ones under
 * sanitizers, in emulators and for each GPU architecture of the stand-in, so that all builds
 * together cover more.  With LIMBER_TEST_LONG or LIMBER_TEST_GPU all cases are taken.  `step`
 * should be at most the number of cases that would show the same fault. */
bool is_taken(size_t i, int step);

/* Skips the running test and prints why.  Arguments as for printf. */
#define skip_because(...) \
    do { \
        print_message("skipped: " __VA_ARGS__); \
        print_message("\n"); \
        skip(); \
    } while (0)

/* ---- random numbers -------------------------------------------------------------------------- */

/* A generator of random numbers. */
struct rng {
    uint64_t s;
};
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n); /* an integer 0 <= x < n */
double rng_unit(struct rng *r); /* a number 0 <= x < 1 */

/* Kinds of random matrices. */
enum data {
    DATA_unit, /* uniform in (-1, 1) */
    DATA_bytes, /* integers 0..255 */
    DATA_ints, /* signed integers of up to 15 bits */
    DATA_spread, /* exponents in a range of 40 */
    DATA_range, /* exponents over most of the format's range */
    DATA_tiny, /* around the smallest normal number, with subnormals */
    DATA_zeros, /* mostly zeros of both signs */
    DATA_special, /* a few NaN and infinities */
    DATA_ties, /* numbers of few bits, so that results are often midpoints */
    DATA_nothing, /* only zeros, of both signs */
    DATA_count
};
const char *data_name(enum data d);
/* Fills `count` elements of format f at p. */
void fill(struct rng *r, enum data d, limber_format f, void *p, size_t count);

/* Returns the format with a name.  Fails the test if there is none. */
limber_format named(const char *name);
/* Stores a value of alpha or beta for a result of format c: in that format, or as i64 if c is an
 * integer format. */
void store_scalar(char *to, limber_format c, double value);

/* True if two numbers have the same bits or are both NaN. */
bool same_number(limber_format f, const void *x, const void *y);

/* Returns the index of the first of `count` numbers that differs, -1 if none does.  value: the
 * wanted and the found number there, as binary64. */
int64_t first_difference(limber_format f, const void *want, const void *got, size_t count,
                         double value[2]);
/* Fails the test unless all numbers are the same (same_number); the message begins with the text,
 * which is made as by printf. */
void assert_same_numbers(limber_format f, const void *want, const void *got, size_t count,
                         const char *text, ...) __attribute__((format(printf, 5, 6)));

/* Allocates memory for a result, filled with a pattern that no result has. */
char *poisoned(size_t bytes);

/* ---- MPFR ------------------------------------------------------------------------------------ */

enum { REF_BITS = 70000 }; /* enough for sums of products of binary128 without rounding */

/* Loads the element at p exactly, without the library's conversion. */
void ref_load(mpfr_t x, limber_format f, const void *p);
/* True if *p is right where x is not finite: NaN for NaN, an infinity of the same sign for one. */
bool ref_is_same_special(const mpfr_t x, limber_format f, const void *p);
/* True if *p is x rounded once to nearest, ties to even, with subnormals, overflow and signed
 * zero. */
bool ref_rounds_to(const mpfr_t x, limber_format f, const void *p);
/* Computes the sums of a[i] b[i] and of |a[i] b[i]|.  sa, sb: strides in elements. */
void ref_dot(mpfr_t sum, mpfr_t absolute, limber_format fa, const void *a, int64_t sa,
             limber_format fb, const void *b, int64_t sb, int64_t k);
/* Returns |x - *p| / scale.  0 / 0 counts as 0. */
double ref_error(const mpfr_t x, limber_format f, const void *p, const mpfr_t scale);

#endif
