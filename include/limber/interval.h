/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices of intervals. */
#ifndef LIMBER_INTERVAL_H
#define LIMBER_INTERVAL_H

#include <limber/limber.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A call of limber_interval_gemm.  Initialise it by LIMBER_INTERVAL_INIT.  A is m x k, B is k x n,
 * C is m x n.  An element of A is the interval of all real numbers from a_low to a_high; likewise B
 * and C. */
typedef struct limber_interval_call {
    size_t size; /* sizeof(limber_interval_call) */
    int64_t m, n, k;
    /* Floats or integers whose values are values of f64.  If the data of a_high is NULL, A is
     * a_low, a matrix of numbers (points); likewise B. */
    limber_matrix a_low, a_high, b_low, b_high;
    limber_output c_low, c_high; /* f64 or f32, both the same; they overlap no other matrix */
} limber_interval_call;
#define LIMBER_INTERVAL_INIT LIMBER_SIZED(limber_interval_call)

/* Encloses the products of all matrices in A and all matrices in B: each element of C contains the
 * sums of products of all numbers in the intervals of its row and column.
 *
 * Points     If A and B are points, C is the tightest enclosure: the exact product, rounded down
 *            and up, of one product.
 * Intervals  By midpoint and radius: C = mid A mid B -+ (|mid A| rad B + rad A (|mid B| + rad B)).
 *            The product of the midpoints is exact, and rounded down and up; the radius is at most
 *            2^-27 too large, relative to itself, besides one rounding.  C is at most 1.5 times as
 *            wide as the tightest enclosure, before roundings.  A bound may be infinite; elements
 *            of C that depend on it are then all real numbers, -infinity to infinity.
 *
 *     limber_interval_call x = LIMBER_INTERVAL_INIT;
 *     x.m = x.n = x.k = n;
 *     x.a_low = (limber_matrix){ a, LIMBER_F64, n, 1 };
 *     x.b_low = (limber_matrix){ b, LIMBER_F64, n, 1 };
 *     x.c_low = (limber_output){ low, LIMBER_F64, n, 1 };
 *     x.c_high = (limber_output){ high, LIMBER_F64, n, 1 };
 *     if (limber_interval_gemm(ctx, &x, NULL))
 *         fprintf(stderr, "%s\n", limber_error_text());
 *
 * Memory: 16 bytes for each element of C; with intervals also 16 for each of C, 24 of A and of B.
 * report, which may be NULL, describes the product of points or midpoints.  All arrays are in host
 * memory.  On failure C is unchanged.  BAD_ARGUMENT names sizes, formats, NULL or overlapping
 * arrays, points that are not finite, bounds that are NaN, and intervals that contain no number.
 * Thread-safe.
 * Source: Rump, BIT 39 (1999), 534-554. */
LIMBER_API limber_status limber_interval_gemm(limber_context *ctx, const limber_interval_call *call,
                                              limber_report *report);

#ifdef __cplusplus
}
#endif

#endif
