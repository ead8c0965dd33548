/* SPDX-License-Identifier: BSD-3-Clause
 * Solves A x = b to all digits of binary128 from one factorisation in FP64, by iterative
 * refinement.  Limber computes the residuals b - A x exactly and rounds them once to binary128.  If
 * this refinement does not converge, corrections come from GMRES, preconditioned by the FP64
 * factors.  For comparison, the program also refines in FP64 alone, and eliminates in binary128,
 * unblocked and blocked.
 *
 *     refine FILE.mtx        a square matrix in Matrix Market's real coordinate format
 *     refine                 the matrix $LIMBER_DATA/mtx/bp__1400.mtx if that file exists, else a
 *                            generated 200 x 200 matrix of condition 10^12
 *     refine N DIGITS        a generated N x N matrix of condition 10^DIGITS, at most 10^15
 *
 * Sources  Wilkinson, Rounding Errors in Algebraic Processes, 1963; Carson, Higham, SIAM J. Sci.
 * Comput. 40 (2018): refinement converges while cond(A) is well below 2^53, and 39 (2017): GMRES
 * for larger conditions; Higham, ACM TOMS 14 (1988), 381: the estimate of the condition. */
#include <limber/environment.h>
#include <limber/limber.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* binary128: long double on some architectures, __float128 on the others */
#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

/* RHS: number of right-hand sides.  STEPS: largest number of steps of refinement.  BLOCK: columns
 * in a block of the blocked elimination.  KRYLOV: largest number of iterations of GMRES. */
enum { RHS = 4, STEPS = 60, BLOCK = 48, KRYLOV = 40 };

/* A system A x = b, with RHS columns of x and b. */
struct system {
    int n;
    double *a; /* n x n, row-major */
    double *lu; /* LU factors of a in FP64 */
    double *column; /* scratch, n elements */
    int *swap; /* [k]: row that was swapped with row k when column k was eliminated */
    quad *truth, *b; /* n x RHS, row-major; truth is the x from which b was made */
    limber_context *ctx;
    limber_format f64, f128;
};

/* Returns the time of the monotonic clock in seconds. */
static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the next pseudorandom number x, -1 <= x < 1, a multiple of 2^-bits.  The sequence is the
 * same in every run. */
static double random_number(int bits)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ldexp((double)(int64_t)(state >> (63 - bits)), -bits) - 1;
}

/* ---- the matrix ---- */

/* Applies a Householder reflection by a random vector to all rows of a, or to all columns.
 * line_stride is the distance of rows or columns, and stride that of elements in one of them, in
 * elements: n and 1 for rows, 1 and n for columns.  Returns 0 if there is no memory. */
static int reflect(double *a, int n, int line_stride, int stride)
{
    double *v = malloc((size_t)n * sizeof *v), norm = 0;

    if (!v)
        return 0;
    for (int i = 0; i < n; i++) {
        v[i] = random_number(50);
        norm += v[i] * v[i];
    }
    for (int i = 0; i < n; i++) {
        double *line = a + (ptrdiff_t)i * line_stride, sum = 0;

        for (int j = 0; j < n; j++)
            sum += line[(ptrdiff_t)j * stride] * v[j];
        for (int j = 0; j < n; j++)
            line[(ptrdiff_t)j * stride] -= 2 * sum / norm * v[j];
    }
    free(v);
    return 1;
}

/* Generates a matrix with singular values from 1 to 10^-digits: a diagonal matrix that is
 * transformed by random reflections, then rounded to multiples of 2^-52.  Sums of products of
 * its elements and numbers of 20 fraction bits are therefore exact in binary128. */
static double *generate_matrix(int n, int digits)
{
    double *a = calloc((size_t)n * n, sizeof *a);

    for (int i = 0; a && i < n; i++)
        a[(size_t)i * n + i] = pow(10, -(double)digits * i / (n - 1));
    if (!a || !reflect(a, n, n, 1) || !reflect(a, n, 1, n) || !reflect(a, n, n, 1) ||
        !reflect(a, n, 1, n)) {
        fprintf(stderr, "memory could not be had\n");
        free(a);
        return NULL;
    }
    for (size_t e = 0; e < (size_t)n * n; e++)
        a[e] = ldexp(rint(ldexp(a[e], 52)), -52);
    return a;
}

/* Reads a matrix in Matrix Market's format into n x n doubles, row-major.  Returns NULL on
 * failure. */
static double *read_matrix(const char *path, int *n)
{
    FILE *f = fopen(path, "r");
    char line[1024], kind[64] = "", symmetry[64] = "";
    double *a = NULL, x;
    int cols, i, j;
    long count = 0;

    if (!f || !fgets(line, sizeof line, f) ||
        sscanf(line, "%%%%MatrixMarket matrix coordinate %63s %63s", kind, symmetry) != 2 ||
        strcasecmp(kind, "real") || strcasecmp(symmetry, "general"))
        goto bad;
    while (fgets(line, sizeof line, f) && line[0] == '%')
        ;
    if (sscanf(line, "%d %d %ld", n, &cols, &count) != 3 || *n != cols || *n < 1 || *n > 20000 ||
        !(a = calloc((size_t)*n * *n, sizeof *a)))
        goto bad;
    while (count-- > 0) {
        if (fscanf(f, "%d %d %lf", &i, &j, &x) != 3 || i < 1 || j < 1 || i > *n || j > *n)
            goto bad;
        a[(size_t)(i - 1) * *n + j - 1] += x;
    }
    fclose(f);
    return a;
bad:
    fprintf(stderr, "%s: no square matrix in Matrix Market's real general coordinate format\n",
            path);
    if (f)
        fclose(f);
    free(a);
    return NULL;
}

/* ---- FP64: factors, solutions, condition ---- */

/* Factors A into L and U with partial pivoting.  Returns 0 if a pivot is 0. */
static int factor_matrix(struct system *s)
{
    int n = s->n;

    memcpy(s->lu, s->a, (size_t)n * n * sizeof *s->lu);
    for (int k = 0; k < n; k++) {
        double *top = s->lu + (size_t)k * n;
        int p = k;

        for (int i = k + 1; i < n; i++)
            if (fabs(s->lu[(size_t)i * n + k]) > fabs(s->lu[(size_t)p * n + k]))
                p = i;
        s->swap[k] = p;
        for (int j = 0; p != k && j < n; j++) {
            double t = top[j];

            top[j] = s->lu[(size_t)p * n + j];
            s->lu[(size_t)p * n + j] = t;
        }
        if (top[k] == 0)
            return 0;
        for (int i = k + 1; i < n; i++) {
            double *row = s->lu + (size_t)i * n, l = row[k] /= top[k];

            for (int j = k + 1; l != 0 && j < n; j++)
                row[j] -= l * top[j];
        }
    }
    return 1;
}

/* Defines a function that replaces a column x by A^-1 x, which it computes with LU factors.  The
 * column's elements are `step` apart. swap is NULL if the rows of x are already swapped. */
#define SOLVE(name, factors, element) \
    static void name(int n, const factors *lu, const int *swap, element *x, int step) \
    { \
        for (int k = 0; swap && k < n; k++) { \
            element t = x[k * step]; \
\
            x[k * step] = x[swap[k] * step]; \
            x[swap[k] * step] = t; \
        } \
        for (int i = 0; i < n; i++) \
            for (int j = 0; j < i; j++) \
                x[i * step] -= lu[(size_t)i * n + j] * x[j * step]; \
        for (int i = n - 1; i >= 0; i--) { \
            for (int j = i + 1; j < n; j++) \
                x[i * step] -= lu[(size_t)i * n + j] * x[j * step]; \
            x[i * step] /= lu[(size_t)i * n + i]; \
        } \
    }
SOLVE(solve, double, double)
SOLVE(solve_by_fp64_factors, double, quad) /* FP64 factors, binary128 arithmetic */
SOLVE(solve_quad, quad, quad)

/* Replaces x by A^-T x, computed with the FP64 factors. */
static void solve_transposed(const struct system *s, double *x)
{
    int n = s->n;

    for (int i = 0; i < n; i++) {
        x[i] /= s->lu[(size_t)i * n + i];
        for (int j = i + 1; j < n; j++)
            x[j] -= s->lu[(size_t)i * n + j] * x[i];
    }
    for (int i = n - 1; i >= 0; i--)
        for (int j = 0; j < i; j++)
            x[j] -= s->lu[(size_t)i * n + j] * x[i];
    for (int k = n - 1; k >= 0; k--) {
        double t = x[k];

        x[k] = x[s->swap[k]];
        x[s->swap[k]] = t;
    }
}

/* Estimates the condition |A|_1 |A^-1|_1 by Higham's method.  The estimate is never too large, and
 * rarely much too small. */
static double estimate_condition(const struct system *s)
{
    int n = s->n, at = -1;
    double *x = s->column, norm = 0, inverse = 0;

    for (int j = 0; j < n; j++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            sum += fabs(s->a[(size_t)i * n + j]);
        norm = fmax(norm, sum);
        x[j] = 1.0 / n;
    }
    for (int step = 0; step < 5; step++) {
        double sum = 0;
        int best = 0;

        solve(n, s->lu, s->swap, x, 1);
        for (int i = 0; i < n; i++)
            sum += fabs(x[i]);
        inverse = fmax(inverse, sum);
        for (int i = 0; i < n; i++)
            x[i] = x[i] < 0 ? -1 : 1;
        solve_transposed(s, x);
        for (int i = 0; i < n; i++)
            if (fabs(x[i]) > fabs(x[best]))
                best = i;
        if (best == at)
            break;
        at = best;
        memset(x, 0, (size_t)n * sizeof *x);
        x[at] = 1;
    }
    return norm * inverse;
}

/* ---- binary128 ---- */

/* Returns |x|. */
static double magnitude(quad x)
{
    return (double)(x < 0 ? -x : x);
}

/* Returns the largest magnitude of `count` elements. */
static double largest(const quad *x, size_t count)
{
    double most = 0;

    for (size_t e = 0; e < count; e++)
        most = fmax(most, magnitude(x[e]));
    return most;
}

/* Returns the largest error of x, relative to the largest element of the true solution. */
static double error_of(const struct system *s, const quad *x)
{
    size_t count = (size_t)s->n * RHS;
    double most = 0;

    for (size_t e = 0; e < count; e++)
        most = fmax(most, magnitude(x[e] - s->truth[e]));
    return most / largest(s->truth, count);
}

/* Converts a relative error to a number of correct decimal digits; binary128 has 34 digits. */
static double digits_of(double error)
{
    return error > 0 ? fmax(0, fmin(34, -log10(error))) : 34;
}

/* If a call failed, prints its error text and returns 0.  Returns 1 if it succeeded. */
static int succeeded(limber_status status)
{
    if (status != LIMBER_STATUS_OK)
        fprintf(stderr, "%s\n", limber_error_text());
    return status == LIMBER_STATUS_OK;
}

/* Chooses a random solution and computes b = A truth by Limber.  A loop in binary128 gives the same
 * b if no element of b is rounded; otherwise truth is not quite the solution, and this is printed.
 * Returns 0 on failure. */
static int make_right_sides(struct system *s)
{
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    int n = s->n, inexact = 0;

    for (int e = 0; e < n * RHS; e++)
        s->truth[e] = random_number(20);
    if (!succeeded(limber_gemm(s->ctx, &correct, n, RHS, n, NULL,
                               (limber_matrix){ s->a, s->f64, n, 1 },
                               (limber_matrix){ s->truth, s->f128, RHS, 1 }, NULL,
                               (limber_output){ s->b, s->f128, RHS, 1 }, NULL)))
        return 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < RHS; j++) {
            quad sum = 0;

            for (int p = 0; p < n; p++)
                sum += s->a[(size_t)i * n + p] * s->truth[p * RHS + j];
            inexact += sum != s->b[i * RHS + j];
        }
    if (inexact)
        printf("%d elements of b are rounded: the chosen x is not quite the solution\n", inexact);
    return 1;
}

/* ---- corrections by GMRES ---- */

/* Returns the square root of x, by two Newton steps from the FP64 square root. */
static quad square_root(quad x)
{
    quad y = sqrt((double)x);

    for (int i = 0; y > 0 && i < 2; i++)
        y = (y + x / y) / 2;
    return y;
}

/* Returns the dot product of x and y in binary128. */
static quad dot(const quad *x, const quad *y, int n)
{
    quad sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Replaces d by an approximation of A^-1 d, computed by GMRES with the FP64 factors as
 * preconditioner.  Iterations end when the residual has become 10^-6 of its first size.  v has room
 * for KRYLOV + 1 columns, the basis vectors. */
static void gmres_correct(const struct system *s, quad *d, quad *v)
{
    quad h[KRYLOV + 1][KRYLOV], g[KRYLOV + 1] = { 0 }, cosine[KRYLOV], sine[KRYLOV];
    int n = s->n, m = n < KRYLOV ? n : KRYLOV, k = 0;

    solve_by_fp64_factors(n, s->lu, s->swap, d, 1);
    if ((g[0] = square_root(dot(d, d, n))) == 0)
        return;
    for (int i = 0; i < n; i++)
        v[i] = d[i] / g[0];
    while (k < m && magnitude(g[k]) > 1e-6 * magnitude(g[0])) {
        quad *w = v + (size_t)(k + 1) * n, length;

        for (int i = 0; i < n; i++) {
            w[i] = 0;
            for (int j = 0; j < n; j++)
                w[i] += s->a[(size_t)i * n + j] * v[(size_t)k * n + j];
        }
        solve_by_fp64_factors(n, s->lu, s->swap, w, 1);
        for (int j = 0; j <= k; j++) {
            h[j][k] = dot(v + (size_t)j * n, w, n);
            for (int i = 0; i < n; i++)
                w[i] -= h[j][k] * v[(size_t)j * n + i];
        }
        length = square_root(dot(w, w, n));
        for (int i = 0; length > 0 && i < n; i++)
            w[i] /= length;
        for (int j = 0; j < k; j++) {
            quad t = h[j][k];

            h[j][k] = cosine[j] * t + sine[j] * h[j + 1][k];
            h[j + 1][k] = cosine[j] * h[j + 1][k] - sine[j] * t;
        }
        quad r = square_root(h[k][k] * h[k][k] + length * length);

        if (r == 0)
            break;
        cosine[k] = h[k][k] / r;
        sine[k] = length / r;
        h[k][k] = r;
        g[k + 1] = -sine[k] * g[k];
        g[k] *= cosine[k];
        k++;
    }
    memset(d, 0, (size_t)n * sizeof *d);
    /* h is now triangular.  Back substitution: g[k] becomes the coefficient of basis vector k. */
    while (k-- > 0) {
        g[k] /= h[k][k];
        for (int j = 0; j < k; j++)
            g[j] -= h[j][k] * g[k];
        for (int i = 0; i < n; i++)
            d[i] += g[k] * v[(size_t)k * n + i];
    }
}

/* ---- refinement ---- */

/* How well a method solved the system. error: the largest error of x, as error_of returns it.
 * seconds: the time, including `compile`, the seconds in which Limber compiled kernels. */
struct outcome {
    double error, seconds, compile;
    int converged;
};

/* Adds A^-1 r to x, and returns the largest element of A^-1 r.  If v is NULL, A^-1 r is computed
 * with the FP64 factors, otherwise by GMRES; v then has room for KRYLOV + 2 columns. */
static double correct_by(const struct system *s, quad *v, const quad *r, quad *x)
{
    int n = s->n;
    double most = 0;

    for (int j = 0; j < RHS; j++) {
        quad *d = v ? v + (size_t)(KRYLOV + 1) * n : NULL;

        for (int i = 0; i < n; i++)
            if (v)
                d[i] = r[i * RHS + j];
            else
                s->column[i] = (double)r[i * RHS + j];
        if (v)
            gmres_correct(s, d, v);
        else
            solve(n, s->lu, s->swap, s->column, 1);
        for (int i = 0; i < n; i++) {
            quad change = v ? d[i] : s->column[i];

            x[i * RHS + j] += change;
            most = fmax(most, magnitude(change));
        }
    }
    return most;
}

/* Refines x with residuals r, both in binary128.  Stops when a correction is at most 2^-110 of x,
 * when it is not below half the previous one, or after STEPS steps.  `operand` is A, prepared.  If
 * v is not NULL, corrections are computed by GMRES. Returns 0 if a call fails. */
static int refine_steps(struct system *s, limber_prepared *operand, quad *v, quad *x, quad *r,
                        struct outcome *o)
{
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    const quad minus = -1, one = 1;
    size_t count = (size_t)s->n * RHS;
    double last = INFINITY;
    limber_report report = LIMBER_REPORT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT; /* r = r - A x, where r is b before the call */

    p.m = p.k = s->n;
    p.n = RHS;
    p.a = (limber_matrix){ s->a, LIMBER_F64, s->n, 1 };
    p.b = (limber_matrix){ x, LIMBER_F128, RHS, 1 };
    p.c = (limber_output){ r, LIMBER_F128, RHS, 1 };
    p.alpha = &minus;
    p.beta = &one;
    p.prepared_a = operand;
    p.contract = &correct;
    for (int step = 0; step < STEPS && !o->converged; step++) {
        double change;

        memcpy(r, s->b, count * sizeof *r);
        if (!succeeded(limber_run(s->ctx, &p, &report)))
            return 0;
        change = correct_by(s, v, r, x) / largest(x, count);
        o->compile += report.seconds_compile;
        o->error = error_of(s, x);
        printf("%4d  %14.1e  %14.1e  %14.1e  %7.1f   %s, %.2f ms\n", step, change,
               largest(r, count) / largest(s->b, count), o->error, digits_of(o->error),
               report.scheme, 1e3 * (report.seconds_scan + report.seconds_run));
        o->converged = change <= 0x1p-110;
        if (step > 1 && !o->converged && !(change < last / 2)) {
            printf("      corrections do not shrink: %s do not suit this matrix\n",
                   v ? "GMRES and FP64 factors" : "FP64 factors");
            break;
        }
        last = change;
    }
    return 1;
}

/* Refines with binary128 residuals by Limber, and prints each step.  limber_prepare scans and packs
 * A once for all steps.  Returns 0 on failure. */
static int refine_in_quad(struct system *s, int by_gmres, struct outcome *o)
{
    size_t count = (size_t)s->n * RHS;
    quad *x = calloc(count, sizeof *x), *r = malloc(count * sizeof *r);
    quad *v = by_gmres ? malloc((size_t)(KRYLOV + 2) * s->n * sizeof *v) : NULL;
    double start = seconds();
    limber_prepared *operand = NULL;
    int good = x && r && (v || !by_gmres) &&
               succeeded(limber_prepare(s->ctx, (limber_matrix){ s->a, s->f64, s->n, 1 }, s->n,
                                        s->n, LIMBER_SIDE_A, NULL, &operand));

    memset(o, 0, sizeof *o);
    printf("\nrefinement, residuals in binary128 by Limber%s\n"
           "step  |correction|/|x|   |b - A x|/|b|   forward error   digits   residual by\n",
           by_gmres ? ", corrections by GMRES" : "");
    good = good && refine_steps(s, operand, v, x, r, o);
    o->seconds = seconds() - start;
    limber_prepared_free(operand);
    free(x);
    free(r);
    free(v);
    return good;
}

/* Refines by 5 steps with residuals in FP64, for b rounded to FP64.  Returns 0 if memory runs
 * out. */
static int refine_in_fp64(struct system *s, struct outcome *o)
{
    size_t count = (size_t)s->n * RHS;
    double *x = calloc(count, sizeof *x), *column = s->column;
    quad *wide = malloc(count * sizeof *wide);
    double start = seconds();
    int good = x && wide;

    for (int step = 0; good && step < 5; step++)
        for (int j = 0; j < RHS; j++) {
            for (int i = 0; i < s->n; i++) {
                double r = (double)s->b[i * RHS + j];

                for (int p = 0; p < s->n; p++)
                    r -= s->a[(size_t)i * s->n + p] * x[p * RHS + j];
                column[i] = r;
            }
            solve(s->n, s->lu, s->swap, column, 1);
            for (int i = 0; i < s->n; i++)
                x[i * RHS + j] += column[i];
        }
    o->seconds = seconds() - start;
    for (size_t e = 0; good && e < count; e++)
        wide[e] = x[e];
    o->error = good ? error_of(s, wide) : INFINITY;
    free(x);
    free(wide);
    return good;
}

/* Eliminates columns k to k + w - 1 one after the other, and updates only these columns.  Rows are
 * swapped in all columns of a and x. */
static void eliminate(quad *a, quad *x, int n, int k, int w)
{
    for (int p = k; p < k + w; p++) {
        int pivot = p;

        for (int i = p + 1; i < n; i++)
            if (magnitude(a[(size_t)i * n + p]) > magnitude(a[(size_t)pivot * n + p]))
                pivot = i;
        for (int j = 0; pivot != p && j < n + RHS; j++) {
            quad *up = j < n ? &a[(size_t)p * n + j] : &x[p * RHS + j - n];
            quad *down = j < n ? &a[(size_t)pivot * n + j] : &x[pivot * RHS + j - n], t = *up;

            *up = *down;
            *down = t;
        }
        for (int i = p + 1; i < n; i++) {
            quad l = a[(size_t)i * n + p] /= a[(size_t)p * n + p];

            for (int j = p + 1; l != 0 && j < k + w; j++)
                a[(size_t)i * n + j] -= l * a[(size_t)p * n + j];
        }
    }
}

/* Solves A x = b by elimination in binary128, in blocks of `block` columns.  Limber updates the
 * columns after a block by one product.  With block = n the elimination is unblocked and does not
 * use Limber.  Returns 0 on failure. */
static int eliminate_all(struct system *s, int block, struct outcome *o)
{
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    const quad minus = -1, one = 1;
    int n = s->n, good;
    quad *a = malloc((size_t)n * n * sizeof *a), *x = malloc((size_t)n * RHS * sizeof *x);
    double start = seconds();
    limber_report report = LIMBER_REPORT_INIT;

    memset(o, 0, sizeof *o);
    if ((good = a && x)) {
        for (size_t e = 0; e < (size_t)n * n; e++)
            a[e] = s->a[e];
        memcpy(x, s->b, (size_t)n * RHS * sizeof *x);
    }
    for (int k = 0; good && k < n; k += block) {
        int w = k + block < n ? block : n - k, rest = n - k - w;

        eliminate(a, x, n, k, w);
        /* Computes the rows of the block in later columns: U = L^-1 A, where L is unit lower
         * triangular. */
        for (int p = k; p < k + w; p++)
            for (int i = p + 1; i < k + w; i++) {
                quad l = a[(size_t)i * n + p];

                for (int j = k + w; l != 0 && j < n; j++)
                    a[(size_t)i * n + j] -= l * a[(size_t)p * n + j];
            }
        if (rest == 0)
            break;
        good = succeeded(limber_gemm(
            s->ctx, &native, rest, rest, w, &minus,
            (limber_matrix){ a + (size_t)(k + w) * n + k, s->f128, n, 1 },
            (limber_matrix){ a + (size_t)k * n + k + w, s->f128, n, 1 }, &one,
            (limber_output){ a + (size_t)(k + w) * n + k + w, s->f128, n, 1 }, &report));
        if (good)
            o->compile += report.seconds_compile;
    }
    for (int j = 0; good && j < RHS; j++)
        solve_quad(n, a, NULL, x + j, RHS);
    o->seconds = seconds() - start;
    o->error = good ? error_of(s, x) : INFINITY;
    free(a);
    free(x);
    return good;
}

/* ---- all of it ---- */

/* Prints a row of the table of methods. */
static void print_row(const char *what, const struct outcome *o)
{
    printf("%-44s %12.1e %8.1f %11.1f ms %11.1f ms\n", what, o->error, digits_of(o->error),
           1e3 * (o->seconds - o->compile), 1e3 * o->compile);
}

/* Solves the system by all methods and prints a table of them.  Returns 1 on failure. */
static int compare(struct system *s)
{
    struct outcome plain = { 0 }, wide, gmres = { 0 }, loop, blocks;
    double start = seconds(), factored, cond;

    if (!factor_matrix(s)) {
        fprintf(stderr, "the matrix is singular in FP64\n");
        return 1;
    }
    factored = seconds() - start;
    cond = estimate_condition(s);
    printf("%d x %d, condition %s %.1e (1-norm, estimated); %d right-hand sides\n", s->n, s->n,
           cond > 1e15 ? "at least about" : "about", cond, RHS);
    if (!make_right_sides(s) || !refine_in_quad(s, 0, &wide) ||
        (!wide.converged && !refine_in_quad(s, 1, &gmres)) || !refine_in_fp64(s, &plain) ||
        !eliminate_all(s, s->n, &loop) || !eliminate_all(s, BLOCK, &blocks))
        return 1;
    plain.seconds += factored;
    wide.seconds += factored;
    gmres.seconds += factored;
    printf("\n%-44s %12s %8s %14s %14s\n", "", "forward err.", "digits", "time", "compiling");
    print_row("FP64 factors, FP64 residuals, 5 steps", &plain);
    print_row("FP64 factors, binary128 residuals by Limber", &wide);
    if (!wide.converged)
        print_row("the same, corrections by GMRES", &gmres);
    print_row("binary128 elimination, the compiler's loops", &loop);
    print_row("binary128 elimination, products by Limber", &blocks);
    if (!wide.converged)
        wide = gmres;
    if (!wide.converged)
        printf("\nnot refined; elimination in binary128 has %.1f digits\n",
               digits_of(blocks.error));
    else if (wide.error > 1e-30)
        printf("\nanother solution than the chosen one: to binary128 the matrix is singular\n");
    else
        printf("\nrefined to %.1f digits; FP64 has %.1f\n", digits_of(wide.error),
               digits_of(plain.error));
    return 0;
}

/* Reads or generates the matrix that the arguments ask for.  Returns NULL on failure. */
static double *find_matrix(int argc, char **argv, int *n)
{
    const char *data = limber_variable_value("LIMBER_DATA");
    char path[4096];

    if (argc == 3) {
        int digits = atoi(argv[2]);

        *n = atoi(argv[1]);
        if (*n < 2 || *n > 20000 || digits < 0 || digits > 15) {
            fprintf(stderr, "N is from 2 to 20000, DIGITS from 0 to 15\n");
            return NULL;
        }
        return generate_matrix(*n, digits);
    }
    if (argc == 2)
        return read_matrix(argv[1], n);
    snprintf(path, sizeof path, "%s/mtx/bp__1400.mtx", data ? data : "");
    if (data && access(path, R_OK) == 0)
        return read_matrix(path, n);
    return generate_matrix(*n = 200, 12);
}

int main(int argc, char **argv)
{
    struct system s = { 0 };
    int failed = 1;

    if (!(s.a = find_matrix(argc, argv, &s.n)))
        return 1;
    s.lu = malloc((size_t)s.n * s.n * sizeof *s.lu);
    s.column = malloc((size_t)s.n * sizeof *s.column);
    s.swap = malloc((size_t)s.n * sizeof *s.swap);
    s.truth = malloc((size_t)s.n * RHS * sizeof *s.truth);
    s.b = malloc((size_t)s.n * RHS * sizeof *s.b);
    s.f64 = LIMBER_F64;
    limber_format_named("f128", &s.f128);
    if (!s.lu || !s.column || !s.swap || !s.truth || !s.b)
        fprintf(stderr, "memory could not be had\n");
    else if (succeeded(limber_create(&s.ctx, NULL)))
        failed = compare(&s);
    limber_destroy(s.ctx);
    free(s.a);
    free(s.lu);
    free(s.column);
    free(s.swap);
    free(s.truth);
    free(s.b);
    return failed;
}
