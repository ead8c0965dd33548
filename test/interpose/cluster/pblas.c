/* SPDX-License-Identifier: BSD-3-Clause
 * An unmodified ScaLAPACK program: `pblas ROWS COLS N ERROR` multiplies and solves N x N matrices
 * on a grid of ROWS by COLS processes.
 *
 * Elements are integers that are functions of their indices.  So every process knows all matrices,
 * and compares its part of the result with sums in 128-bit integers.  Products of small integers
 * must be exact.  Sums of large ones cancel, and PBLAS rounds to doubles for each panel of k that
 * it adds to C: the error of an element may be ERROR |A||B|.  Solutions are tested as ScaLAPACK's
 * own testers do: |A x - b| / (eps n |A| |x|) < 3, in infinity norms. */
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BLACS has a C interface, the other libraries have Fortran interfaces.  No package installs
 * headers. */
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *nb, const int *me, const int *first, const int *count);
void descinit_(int *desc, const int *m, const int *n, const int *mb, const int *nb,
               const int *first_row, const int *first_col, const int *context, const int *lead,
               int *info);
void pdgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *da,
             const double *b, const int *ib, const int *jb, const int *db, const double *beta,
             double *c, const int *ic, const int *jc, const int *dc, size_t la, size_t lb);
void pdgesv_(const int *n, const int *nrhs, double *a, const int *ia, const int *ja, const int *da,
             int *pivots, double *b, const int *ib, const int *jb, const int *db, int *info);
void pdposv_(const char *uplo, const int *n, const int *nrhs, double *a, const int *ia,
             const int *ja, const int *da, double *b, const int *ib, const int *jb, const int *db,
             int *info, size_t lu);

enum { BLOCK = 64, K = 256, RIGHT = 2 };
static int size;
static const int one = 1, zero = 0, block = BLOCK;

/* The BLACS grid of processes, and this process's place in it. */
static struct {
    int context, rows, cols, row, col;
} grid;
static int rank, failures;

/* ---- matrices as functions ------------------------------------------------------------------- */

typedef int64_t (*element)(int i, int j);

static uint64_t hash(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* Returns a pseudo-random integer of either sign.  bits: its width, up to 63. */
static int64_t integer(int i, int j, int salt, int bits)
{
    return (int64_t)hash(((uint64_t)salt << 40) + ((uint64_t)i << 20) + (uint64_t)j) >> (63 - bits);
}

/* Elements of A, B and C that are small integers. */
static int64_t small_a(int i, int j)
{
    return integer(i, j, 1, 5);
}
static int64_t small_b(int i, int j)
{
    return integer(i, j, 2, 5);
}
static int64_t small_c(int i, int j)
{
    return integer(i, j, 3, 5);
}
/* Large elements of A and B: A has pairs of equal columns, B pairs of nearly opposite rows, so that
 * sums cancel. */
static int64_t large_a(int i, int j)
{
    return integer(i, j / 2, 4, 40);
}
static int64_t large_b(int i, int j)
{
    int64_t x = integer(i / 2, j, 5, 40);

    return i % 2 ? x + integer(i, j, 6, 5) : -x;
}
static int64_t zero_element(int i, int j)
{
    return 0 * i * j;
}
static int64_t general(int i, int j)
{
    return integer(i, j, 7, 30);
}
static int64_t right_side(int i, int j)
{
    return integer(i, j, 8, 30);
}
/* Returns an element of a symmetric, diagonally dominant and hence positive definite matrix. */
static int64_t definite(int i, int j)
{
    return i == j ? (int64_t)size << 31 : integer(i < j ? i : j, i < j ? j : i, 9, 30);
}

/* Returns the global index of local row i. */
static int row_of(int i)
{
    return (i / BLOCK * grid.rows + grid.row) * BLOCK + i % BLOCK;
}
static int col_of(int j)
{
    return (j / BLOCK * grid.cols + grid.col) * BLOCK + j % BLOCK;
}

/* The part of a distributed matrix that this process holds, with its descriptor. */
struct matrix {
    int desc[9], rows, cols;
    double *data;
};

/* Makes this process's part of a distributed matrix. */
static struct matrix make_matrix(int m, int n, element of)
{
    struct matrix x;
    int lead, info;

    x.rows = numroc_(&m, &block, &grid.row, &zero, &grid.rows);
    x.cols = numroc_(&n, &block, &grid.col, &zero, &grid.cols);
    lead = x.rows > 1 ? x.rows : 1;
    descinit_(x.desc, &m, &n, &block, &block, &zero, &zero, &grid.context, &lead, &info);
    x.data = malloc(((size_t)lead * (size_t)x.cols + 1) * sizeof *x.data);
    if (info || !x.data)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int j = 0; j < x.cols; j++)
        for (int i = 0; i < x.rows; i++)
            x.data[i + j * lead] = (double)of(row_of(i), col_of(j));
    return x;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Prints the largest error of all processes, and counts a failure. */
static void report_error(const char *what, double worst, double allowed)
{
    double all;

    MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %.3g of %.3g allowed%s\n", what, all, allowed,
               all <= allowed ? "" : "  FAILED");
    failures += !(all <= allowed);
}

/* Returns the largest error of C = A B - C0, in units of |A||B| + |C0|. */
static double largest_error(const struct matrix *c, element a, element b, element c0)
{
    double worst = 0;

    for (int j = 0; j < c->cols; j++)
        for (int i = 0; i < c->rows; i++) {
            int p = row_of(i), q = col_of(j);
            __int128 sum = -(__int128)c0(p, q), all = llabs(c0(p, q)), off;
            double got = c->data[i + j * c->desc[8]];

            if (!(fabs(got) < 0x1p120))
                return INFINITY;
            for (int k = 0; k < K; k++) {
                __int128 term = (__int128)a(p, k) * b(k, q);

                sum += term;
                all += term < 0 ? -term : term;
            }
            off = sum - (__int128)got;
            worst = fmax(worst, (double)(off < 0 ? -off : off) / (double)(all ? all : 1));
        }
    return worst;
}

/* Multiplies distributed matrices by pdgemm, and checks the result. */
static void multiply(const char *what, element a, element b, element c0, double allowed)
{
    const int n = size, k = K;
    const double alpha = 1, beta = -1;
    struct matrix x = make_matrix(n, K, a), y = make_matrix(K, n, b), z = make_matrix(n, n, c0);

    pdgemm_("N", "N", &n, &n, &k, &alpha, x.data, &one, &one, x.desc, y.data, &one, &one, y.desc,
            &beta, z.data, &one, &one, z.desc, 1, 1);
    report_error(what, largest_error(&z, a, b, c0), allowed);
    free(x.data);
    free(y.data);
    free(z.data);
}

/* ---- solvers --------------------------------------------------------------------------------- */

/* Returns |A x - b| / (eps n |A| |x|).  x: [RIGHT][size], complete on every process. */
static double residual(element a, const double *x)
{
    double worst = 0;

    for (int r = 0; r < RIGHT; r++) {
        double off = 0, norm_a = 0, norm_x = 0;

        for (int i = 0; i < size; i++) {
            long double sum = -(long double)right_side(i, r);
            double row = 0;

            for (int j = 0; j < size; j++) {
                sum += (long double)a(i, j) * x[r * size + j];
                row += fabs((double)a(i, j));
            }
            off = fmax(off, fabs((double)sum));
            norm_a = fmax(norm_a, row);
            norm_x = fmax(norm_x, fabs(x[r * size + i]));
        }
        worst = fmax(worst, off / (DBL_EPSILON / 2 * size * norm_a * norm_x));
    }
    return worst;
}

/* Solves a linear system, by Cholesky if it is symmetric, else by LU, and reports the residual. */
static void solve(const char *what, element of, int symmetric)
{
    const int n = size, nrhs = RIGHT;
    struct matrix a = make_matrix(n, n, of), b = make_matrix(n, RIGHT, right_side);
    int *pivots = calloc((size_t)a.rows + BLOCK, sizeof *pivots), info;
    double *x = calloc((size_t)RIGHT * (size_t)n, sizeof *x);

    if (!pivots || !x)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (symmetric)
        pdposv_("L", &n, &nrhs, a.data, &one, &one, a.desc, b.data, &one, &one, b.desc, &info, 1);
    else
        pdgesv_(&n, &nrhs, a.data, &one, &one, a.desc, pivots, b.data, &one, &one, b.desc, &info);
    for (int j = 0; j < b.cols; j++)
        for (int i = 0; i < b.rows; i++)
            x[col_of(j) * n + row_of(i)] = b.data[i + j * b.desc[8]];
    MPI_Allreduce(MPI_IN_PLACE, x, RIGHT * n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    report_error(what, info ? INFINITY : residual(of, x), 3);
    free(x);
    free(pivots);
    free(a.data);
    free(b.data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) {
        fprintf(stderr, "usage: pblas ROWS COLS N ERROR\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size = atoi(argv[3]);
    Cblacs_get(-1, 0, &grid.context);
    Cblacs_gridinit(&grid.context, "Row", atoi(argv[1]), atoi(argv[2]));
    Cblacs_gridinfo(grid.context, &grid.rows, &grid.cols, &grid.row, &grid.col);
    multiply("pdgemm, small integers", small_a, small_b, small_c, 0);
    multiply("pdgemm, large integers", large_a, large_b, zero_element, atof(argv[4]));
    solve("pdgesv", general, 0);
    solve("pdposv", definite, 1);
    if (rank == 0)
        printf("%d failures\n", failures);
    fflush(stdout); /* mpirun kills the other ranks as soon as one has failed */
    Cblacs_gridexit(grid.context);
    MPI_Finalize();
    return failures != 0;
}
