/* SPDX-License-Identifier: BSD-3-Clause
 * Solves the equations of a grid of N x N x N points, with six neighbours each, by a sparse solver:
 *
 *     sparse cholmod N    CHOLMOD's supernodal Cholesky factorisation
 *     sparse mumps N      MUMPS' LU factorisation of an unsymmetric matrix, of a grid with a flow
 *
 * Prints the CPU seconds of the factorisation, and the residual of a solution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_CHOLMOD
#include <suitesparse/cholmod.h>
#endif
#ifdef HAVE_MUMPS
#include <dmumps_c.h>
#endif

static double now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A sparse matrix as triples of row, column (from 0) and value. */
struct grid {
    int n, count;
    int *row, *column;
    double *value;
};

static void add_entry(struct grid *g, int row, int column, double value)
{
    g->row[g->count] = row;
    g->column[g->count] = column;
    g->value[g->count++] = value;
}

/* Returns the matrix of an n x n x n grid's 7-point stencil; `flow` makes it unsymmetric.  If
 * `lower`, only its lower triangle. */
static struct grid make_grid(int n, double flow, int lower)
{
    const int step[3] = { 1, n, n * n }, points = n * n * n;
    struct grid g = { .n = points };

    g.row = malloc(7 * (size_t)points * sizeof *g.row);
    g.column = malloc(7 * (size_t)points * sizeof *g.column);
    g.value = malloc(7 * (size_t)points * sizeof *g.value);
    if (!g.row || !g.column || !g.value)
        exit(1);
    for (int i = 0; i < points; i++) {
        add_entry(&g, i, i, 6.1);
        for (int d = 0; d < 3; d++) {
            const int at = i / step[d] % n;

            if (at > 0)
                add_entry(&g, i, i - step[d], -1 - flow);
            if (at < n - 1 && !lower)
                add_entry(&g, i, i + step[d], -1 + flow);
        }
    }
    return g;
}

/* Returns |b - A x| / (|A| |x|), where all elements of b are 1. */
static double residual(const struct grid *g, const double *x)
{
    double most = 0, size = 0, *r = malloc((size_t)g->n * sizeof *r);

    if (!r)
        exit(1);
    for (int i = 0; i < g->n; i++)
        r[i] = 1;
    for (int i = 0; i < g->count; i++)
        r[g->row[i]] -= g->value[i] * x[g->column[i]];
    for (int i = 0; i < g->n; i++) {
        most = fmax(most, fabs(r[i]));
        size = fmax(size, fabs(x[i]));
    }
    free(r);
    return most / (12.1 * size);
}

#ifdef HAVE_CHOLMOD
/* Factors and solves a symmetric system by CHOLMOD.  *seconds: time of the factorisation; *error:
 * the residual. */
static void cholmod(int n, double *seconds, double *error)
{
    struct grid half = make_grid(n, 0, 1), whole = make_grid(n, 0, 0);
    cholmod_common c;
    cholmod_triplet *t;
    cholmod_sparse *a;
    cholmod_factor *f;
    cholmod_dense *b, *x;

    cholmod_start(&c);
    c.supernodal = CHOLMOD_SUPERNODAL;
    t = cholmod_allocate_triplet((size_t)half.n, (size_t)half.n, (size_t)half.count, -1,
                                 CHOLMOD_REAL, &c);
    memcpy(t->i, half.row, (size_t)half.count * sizeof(int));
    memcpy(t->j, half.column, (size_t)half.count * sizeof(int));
    memcpy(t->x, half.value, (size_t)half.count * sizeof(double));
    t->nnz = (size_t)half.count;
    a = cholmod_triplet_to_sparse(t, 0, &c);
    f = cholmod_analyze(a, &c);
    *seconds = now();
    if (!cholmod_factorize(a, f, &c) || c.status != CHOLMOD_OK)
        exit(1);
    *seconds = now() - *seconds;
    b = cholmod_ones((size_t)half.n, 1, CHOLMOD_REAL, &c);
    x = cholmod_solve(CHOLMOD_A, f, b, &c);
    *error = residual(&whole, x->x);
    cholmod_free_dense(&x, &c);
    cholmod_free_dense(&b, &c);
    cholmod_free_factor(&f, &c);
    cholmod_free_sparse(&a, &c);
    cholmod_free_triplet(&t, &c);
    cholmod_finish(&c);
}
#endif

#ifdef HAVE_MUMPS
/* Factors and solves an unsymmetric system by MUMPS.  *seconds: time of the factorisation; *error:
 * the residual. */
static void mumps(int n, double *seconds, double *error)
{
    struct grid g = make_grid(n, 0.3, 0);
    double *x = malloc((size_t)g.n * sizeof *x);
    DMUMPS_STRUC_C s = { .comm_fortran = -987654, .par = 1, .sym = 0, .job = -1 };

    if (!x)
        exit(1);
    for (int i = 0; i < g.n; i++)
        x[i] = 1;
    dmumps_c(&s);
    for (int i = 0; i < 4; i++)
        s.icntl[i] = i < 3 ? -1 : 0; /* turns off messages */
    for (int i = 0; i < g.count; i++) {
        g.row[i]++;
        g.column[i]++;
    }
    s.n = g.n;
    s.nnz = g.count;
    s.irn = g.row;
    s.jcn = g.column;
    s.a = g.value;
    s.rhs = x;
    s.job = 1;
    dmumps_c(&s);
    *seconds = now();
    s.job = 2;
    dmumps_c(&s);
    *seconds = now() - *seconds;
    s.job = 3;
    dmumps_c(&s);
    if (s.infog[0] < 0)
        exit(1);
    for (int i = 0; i < g.count; i++) {
        g.row[i]--;
        g.column[i]--;
    }
    *error = residual(&g, x);
    s.job = -2;
    dmumps_c(&s);
}
#endif

int main(int argc, char **argv)
{
    double seconds = -1, error = 1;
    const int n = argc == 3 ? atoi(argv[2]) : 0;

    if (n < 2 || n > 100)
        return 2;
#ifdef HAVE_CHOLMOD
    if (strcmp(argv[1], "cholmod") == 0)
        cholmod(n, &seconds, &error);
#endif
#ifdef HAVE_MUMPS
    if (strcmp(argv[1], "mumps") == 0)
        mumps(n, &seconds, &error);
#endif
    if (seconds < 0)
        return 2;
    printf("factors %.3f s, residual %.1e\n", seconds, error);
    return error < 1e-14 ? 0 : 1;
}
