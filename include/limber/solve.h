/* SPDX-License-Identifier: BSD-3-Clause
 * Linear systems: solutions more accurate than their factors. */
#ifndef LIMBER_SOLVE_H
#define LIMBER_SOLVE_H

#include <limber/limber.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where corrections of a solution come from. */
typedef enum limber_solve_method {
    LIMBER_SOLVE_FACTORS, /* the binary64 factors alone */
    LIMBER_SOLVE_GMRES /* GMRES, which the factors precondition */
} limber_solve_method;

/* A call of limber_solve: A X = B.  Start from LIMBER_SOLVE_INIT. */
typedef struct limber_solve_call {
    size_t size; /* sizeof(limber_solve_call) */
    int64_t n, columns; /* A is n x n, B and X are n x columns */
    limber_matrix a, b; /* floats and integers; every value is a value of binary128 */
    limber_output x; /* a float of at most binary128, or dd; apart from a and b */
    int most_steps; /* most steps of refinement; 0: 60 */
} limber_solve_call;
#define LIMBER_SOLVE_INIT LIMBER_SIZED(limber_solve_call)

/* How a system was solved.  Start from LIMBER_SOLVE_REPORT_INIT. */
typedef struct limber_solve_report {
    size_t size; /* sizeof(limber_solve_report) */
    limber_solve_method method;
    int steps;
    double change; /* the last correction, relative to the largest element of its column */
    double residual; /* the largest |b - A x| of a column before the last correction, relative to
                        the column's largest |b| */
    double condition; /* estimate of |A| |A^-1| in the 1-norm; seldom far too small */
    double seconds;
} limber_solve_report;
#define LIMBER_SOLVE_REPORT_INIT LIMBER_SIZED(limber_solve_report)

/* Solves A X = B and rounds X once to its format.  A is factored once in binary64 (with partial
 * pivoting).  Residuals B - A X are exact sums, rounded once to binary128, in which X is kept.
 * Corrections go on until one is below half an ulp of X's format, or 2^-110.  So the error is that
 * of the format, relative to the largest element of a column, as long as the condition of A is
 * well below 2^53 (Carson, Higham, SIAM J. Sci. Comput. 40, 2018), and with GMRES for most matrices
 * beyond (39, 2017).  Both are the theory of such refinement, not a bound that was proven for this
 * code.
 *
 *     limber_solve_call s = LIMBER_SOLVE_INIT;
 *     s.n = n, s.columns = 1;
 *     s.a = (limber_matrix){ a, LIMBER_F64, n, 1 };
 *     s.b = (limber_matrix){ b, LIMBER_F64, 1, 1 };
 *     s.x = (limber_output){ x, LIMBER_F128, 1, 1 };
 *     if (limber_solve(ctx, &s, NULL))
 *         fprintf(stderr, "%s\n", limber_error_text());
 *
 * A complex system is a real one of twice the size, which Python's limber.solve makes:
 * [Re A, -Im A; Im A, Re A] [Re X; Im X] = [Re B; Im B].
 *
 * ctx's threads multiply.  report may be NULL.  All arrays lie in host memory.  On failure x is
 * untouched.  BAD_ARGUMENT: sizes, formats, NULL or overlapping arrays, NaN or infinities in A or
 * B, A beyond the range of binary64.  NO_SCHEME: A is singular, exactly (from a condition of about
 * 2^46 / n on its determinant is computed modulo two primes) or in binary64, or corrections do not
 * shrink; the text says which.  Thread-safe. */
LIMBER_API limber_status limber_solve(limber_context *ctx, const limber_solve_call *call,
                                      limber_solve_report *report);

#ifdef __cplusplus
}
#endif

#endif
