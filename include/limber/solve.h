/* SPDX-License-Identifier: BSD-3-Clause
 * Linear systems: solutions that are more accurate than their factors. */
#ifndef LIMBER_SOLVE_H
#define LIMBER_SOLVE_H

#include <limber/limber.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How corrections of a solution are computed. */
typedef enum limber_solve_method {
    LIMBER_SOLVE_FACTORS, /* corrections are computed with the binary64 factors alone */
    LIMBER_SOLVE_GMRES /* corrections are computed by GMRES, preconditioned by the factors */
} limber_solve_method;

/* A call of limber_solve: A X = B.  Initialise it by LIMBER_SOLVE_INIT. */
typedef struct limber_solve_call {
    size_t size; /* sizeof(limber_solve_call) */
    int64_t n, columns; /* A is n x n, B and X are n x columns */
    limber_matrix a, b; /* floats or integers whose values are values of binary128 */
    limber_output x; /* a float of at most binary128, or a double-double; must not overlap a or b */
    int most_steps; /* largest number of refinement steps; 0: 60 */
} limber_solve_call;
#define LIMBER_SOLVE_INIT LIMBER_SIZED(limber_solve_call)

/* How a system was solved.  Initialise it by LIMBER_SOLVE_REPORT_INIT. */
typedef struct limber_solve_report {
    size_t size; /* sizeof(limber_solve_report) */
    limber_solve_method method;
    /* number of steps of refinement */
    int steps;
    double change; /* the last correction, relative to the largest element of its column */
    /* The largest |b - A x| of a column before the last correction, relative to the column's
     * largest |b|. */
    double residual;
    double condition; /* estimate of |A| |A^-1| in the 1-norm; rarely much too small */
    double seconds;
} limber_solve_report;
#define LIMBER_SOLVE_REPORT_INIT LIMBER_SIZED(limber_solve_report)

/* Solves A X = B and rounds X once to its format.  A is factored once in binary64, with partial
 * pivoting.  Residuals B - A X are exact sums that are rounded once to binary128, the format in
 * which X is kept.  Corrections go on until one is below half an ulp of X's format, or below
 * 2^-110.  So the error, relative to the largest element of a column, is that of the format, as
 * long as the condition of A is well below 2^53 (Carson, Higham, SIAM J. Sci. Comput. 40, 2018),
 * and with GMRES for most matrices beyond that (39, 2017).  This is the theory of such refinement,
 * not a bound that was proven for this code.
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
 * Products are computed on ctx's threads.  report may be NULL.  All arrays are in host memory.  On
 * failure x is unchanged.  BAD_ARGUMENT: sizes, formats, NULL or overlapping arrays, NaN or
 * infinities in A or B, A beyond the range of binary64.  NO_SCHEME: A is singular, either exactly
 * (for a condition of about 2^46 / n or more the determinant is computed modulo two primes) or in
 * binary64, or corrections do not shrink; the text says which.  Thread-safe. */
LIMBER_API limber_status limber_solve(limber_context *ctx, const limber_solve_call *call,
                                      limber_solve_report *report);

#ifdef __cplusplus
}
#endif

#endif
