/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/unit.h as they were in version 0.2.  include/limber/unit.h documents
 * them.  The test abi_program is compiled with these headers and runs with the newest library. */
#ifndef LIMBER_UNIT_H
#define LIMBER_UNIT_H

#include "format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum limber_step_overflow { LIMBER_OVERFLOW_ROUNDED, LIMBER_OVERFLOW_INFINITY };

typedef struct limber_step {
    limber_format format;
    uint8_t rounding;
    uint8_t overflow;
} limber_step;

enum limber_unit_order {
    LIMBER_ORDER_FORWARD,
    LIMBER_ORDER_REVERSE,
    LIMBER_ORDER_EVENODD,
    LIMBER_ORDER_QUADS
};

enum limber_unit_scale { LIMBER_SCALE_NONE, LIMBER_SCALE_E8M0, LIMBER_SCALE_UE4M3 };

enum limber_scale_rule { LIMBER_SCALE_RULE_FLOOR, LIMBER_SCALE_RULE_CEIL, LIMBER_SCALE_RULE_EVEN };

enum { LIMBER_NO_FLOOR = -10000 };

typedef struct limber_unit {
    size_t size;
    limber_step a, b;
    enum limber_unit_scale scale;
    enum limber_scale_rule scale_rule;
    int32_t scale_block;
    limber_step mul;
    limber_step acc;
    int32_t block;
    int32_t sub;
    int32_t frac;
    int32_t floor;
    int32_t zeros;
    int32_t tree;
    enum limber_unit_order order;
    int32_t group;
    limber_step outer;
    int32_t split;
    limber_step total;
    int32_t start_c;
    limber_step out;
    int32_t narrow;
    int32_t random_bits;
    uint64_t seed;
    uint64_t seeded;
} limber_unit;

LIMBER_API limber_status limber_unit_parse(const char *text, limber_unit *unit);
LIMBER_API const char *limber_unit_text(const limber_unit *unit, char *text, size_t size);
LIMBER_API limber_status limber_unit_check(const limber_unit *unit);

typedef struct limber_unit_preset {
    const char *name, *words, *source;
} limber_unit_preset;
LIMBER_API const limber_unit_preset *limber_unit_preset_at(int i);

enum { LIMBER_EXPONENTS = 320 };

typedef struct limber_distribution {
    int64_t count, zeros, special;
    double mean, variance, least, largest;
    int64_t exponents[LIMBER_EXPONENTS];
} limber_distribution;

typedef struct limber_statistics {
    size_t size;
    int compare;
    int swamped_only;
    int64_t products, nonzero;
    int64_t mul_inexact, mul_underflow, mul_overflow;
    int64_t swamped, partly_swamped, sum_overflow;
    int64_t outer_sums, outer_swamped, outer_partly;
    limber_distribution a, b, result;
    double variance_wide;
    double retention;
    double predicted;
    double distance;
    double relative;
} limber_statistics;

#ifdef __cplusplus
}
#endif
#define LIMBER_UNIT_INIT LIMBER_SIZED(limber_unit)
#define LIMBER_STATISTICS_INIT LIMBER_SIZED(limber_statistics)

#endif
