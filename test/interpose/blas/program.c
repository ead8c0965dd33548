/* SPDX-License-Identifier: BSD-3-Clause
 * Multiplies by a BLAS and checks each result against its own sums: `program served` if Limber must
 * compute, `program left` if the BLAS must.  A third argument requests batches and other functions
 * that this BLAS lacks. */
#define _GNU_SOURCE     /* for RTLD_DEFAULT */
#include <complex.h>
#include <dlfcn.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int mock_calls, mock_errors, mock_info;

#define FORTRAN(name) \
    void name(const char *, const char *, const INTEGER *, const INTEGER *, const INTEGER *, \
              const void *, const void *, const INTEGER *, const void *, const INTEGER *, \
              const void *, void *, const INTEGER *, size_t, size_t)
FORTRAN(sgemm_);
FORTRAN(dgemm_);
FORTRAN(cgemm_);
FORTRAN(zgemm_);
void cblas_dgemm(int, int, int, INTEGER, INTEGER, INTEGER, double, const double *, INTEGER,
                 const double *, INTEGER, double, double *, INTEGER);

enum { M = 131, N = 140, K = 150, LEAD = 160, SIZE = LEAD * LEAD };

static int failures;

static double random_unit(void)
{
    return rand() / (RAND_MAX + 1.0) - 0.5;
}

static double complex element_value(const void *x, char type, int i)
{
    switch (type) {
    case 's': return ((const float *)x)[i];
    case 'd': return ((const double *)x)[i];
    case 'c': return ((const float complex *)x)[i];
    default: return ((const double complex *)x)[i];
    }
}

static void set_element(void *x, char type, int i, double complex v)
{
    switch (type) {
    case 's': ((float *)x)[i] = (float)creal(v); break;
    case 'd': ((double *)x)[i] = creal(v); break;
    case 'c': ((float complex *)x)[i] = (float complex)v; break;
    default: ((double complex *)x)[i] = v; break;
    }
}

/* Returns element (i, j) of op(x).  rows: the matrix is row-major. */
static double complex element(const void *x, char type, char op, int i, int j, int rows)
{
    int down = (op == 'N') != rows;
    double complex v = element_value(x, type, down ? i + j * LEAD : i * LEAD + j);

    return op == 'C' ? conj(v) : v;
}

/* The matrices of a call; before: C before it. */
struct matrices {
    void *a, *b, *c, *before;
};

static struct matrices make_matrices(char type)
{
    struct matrices m = { malloc(SIZE * 16), malloc(SIZE * 16), malloc(SIZE * 16),
                          malloc(SIZE * 16) };

    for (int i = 0; i < SIZE; i++) {
        set_element(m.a, type, i, random_unit() + I * random_unit());
        set_element(m.b, type, i, random_unit() + I * random_unit());
        set_element(m.c, type, i, random_unit() + I * random_unit());
    }
    memcpy(m.before, m.c, SIZE * 16);
    return m;
}

static void free_matrices(struct matrices *m)
{
    free(m->a);
    free(m->b);
    free(m->c);
    free(m->before);
}

/* Compares C with alpha A B + beta C, computed element by element. */
static void check(const char *what, const struct matrices *x, char type, char ta, char tb,
                  double complex alpha, double complex beta, int rows)
{
    double allowed = (type == 's' || type == 'c' ? 1e-6 : 1e-15) * 4 * K, worst = 0;

    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double complex sum = 0, got = element(x->c, type, 'N', i, j, rows);

            for (int p = 0; p < K; p++)
                sum += element(x->a, type, ta, i, p, rows) * element(x->b, type, tb, p, j, rows);
            sum = alpha * sum + beta * element(x->before, type, 'N', i, j, rows);
            worst = fmax(worst, cabs(sum - got));
        }
    if (!(worst <= allowed)) {
        printf("%s %c %c: off by %g\n", what, ta, tb, worst);
        failures++;
    }
}

/* Tests a gemm function by four pairs of transpositions. */
static void check_fortran(const char *name, char type, FORTRAN((*gemm)))
{
    static const char ops[][2] = { { 'N', 'N' }, { 'T', 'N' }, { 'N', 'C' }, { 'C', 'T' } };
    const INTEGER m = M, n = N, k = K, lead = LEAD;

    for (int q = 0; q < 4; q++) {
        struct matrices x = make_matrices(type);
        double complex alpha[1], beta[1];

        set_element(alpha, type, 0, type == 'c' || type == 'z' ? 1.5 - 0.5 * I : 1.5);
        set_element(beta, type, 0, -0.5);
        gemm(&ops[q][0], &ops[q][1], &m, &n, &k, alpha, x.a, &lead, x.b, &lead, beta, x.c, &lead, 1,
             1);
        check(name, &x, type, ops[q][0], ops[q][1], element_value(alpha, type, 0), -0.5, 0);
        free_matrices(&x);
    }
}

static void check_cblas(void)
{
    for (int rows = 0; rows < 2; rows++)
        for (int t = 0; t < 2; t++) {
            struct matrices x = make_matrices('d');

            cblas_dgemm(rows ? 101 : 102, t ? 112 : 111, 111, M, N, K, 2, x.a, LEAD, x.b, LEAD,
                        0.25, x.c, LEAD);
            check(rows ? "rows" : "columns", &x, 'd', t ? 'T' : 'N', 'N', 2, 0.25, rows);
            free_matrices(&x);
        }
}

/* Passes invalid arguments, which the BLAS itself must report. */
static void check_invalid_arguments(void)
{
    const INTEGER m = M, n = N, k = K, lead = LEAD, little = 3;
    struct matrices x = make_matrices('d');
    double one = 1;
    int before = mock_errors;

    dgemm_("N", "N", &m, &n, &k, &one, x.a, &lead, x.b, &lead, &one, x.c, &little, 1, 1);
    if (mock_errors != before + 1 || memcmp(x.c, x.before, SIZE * 8)) {
        printf("a wrong leading dimension: %d errors\n", mock_errors - before);
        failures++;
    }
    free_matrices(&x);
}

/* ---- functions that this BLAS lacks ---------------------------------------------------------- */

enum { BATCH = 3 };

typedef const void *in;
typedef void fortran_batch(const char *, const char *, in, in, in, in, in, in, in, in, in, in, in,
                           in, in, size_t, size_t);
typedef void c_batch(int, const int *, const int *, in, in, in, in, in, in, in, in, in, in, in,
                     INTEGER, in);
typedef void fortran_strided(const char *, const char *, in, in, in, in, in, in, in, in, in, in, in,
                             void *, in, in, in, size_t, size_t);
#define C_STRIDED(scalar) \
    void(int, int, int, INTEGER, INTEGER, INTEGER, scalar, in, INTEGER, INTEGER, in, INTEGER, \
         INTEGER, scalar, void *, INTEGER, INTEGER, INTEGER)
typedef void fortran_gemmt(const char *, const char *, const char *, in, in, in, in, in, in, in, in,
                           void *, in, size_t, size_t, size_t);
typedef __typeof__(C_STRIDED(double)) c_strided_d;
typedef __typeof__(C_STRIDED(in)) c_strided_z;

/* Finds a function in the libraries that precede the program's BLAS. */
#define FIND(type, f, name) \
    type *f; \
    *(void **)&f = dlsym(RTLD_DEFAULT, name)

/* Computes a batch of two groups: two products, and one with A transposed. */
static void multiply_groups(char type, int rows, int by_c)
{
    const char *name = by_c        ? type == 'd' ? "cblas_dgemm_batch" : "cblas_zgemm_batch" :
                       type == 'd' ? "dgemm_batch_" :
                                     "zgemm_batch_";
    const INTEGER m[] = { M, M }, n[] = { N, N }, k[] = { K, K }, lead[] = { LEAD, LEAD },
                  size[] = { 2, 1 }, two = 2;
    const int ta[] = { 111, 112 }, tb[] = { 111, 111 };
    struct matrices x[BATCH];
    const void *a[BATCH], *b[BATCH];
    void *c[BATCH];
    double complex alpha[2], beta[2];
    FIND(fortran_batch, f, name);
    FIND(c_batch, g, name);

    for (int i = 0; i < BATCH; i++) {
        x[i] = make_matrices(type);
        a[i] = x[i].a;
        b[i] = x[i].b;
        c[i] = x[i].c;
    }
    for (int i = 0; i < 2; i++) {
        set_element(alpha, type, i, 1.5 + i);
        set_element(beta, type, i, -0.5 * i);
    }
    if (by_c)
        g(rows ? 101 : 102, ta, tb, m, n, k, alpha, a, lead, b, lead, beta, c, lead, two, size);
    else
        f("NT", "NN", m, n, k, alpha, a, lead, b, lead, beta, c, lead, &two, size, (size_t)1,
          (size_t)1);
    for (int i = 0; i < BATCH; i++) {
        check(name, &x[i], type, i < 2 ? 'N' : 'T', 'N', i < 2 ? 1.5 : 2.5, i < 2 ? 0 : -0.5, rows);
        free_matrices(&x[i]);
    }
}

/* Computes a strided batch: all products share A, and results are SIZE elements apart. */
static void multiply_strided(char type, int by_c)
{
    const char *name = by_c ?
                           type == 'd' ? "cblas_dgemm_batch_strided" : "cblas_zgemm_batch_strided" :
                       type == 'd' ? "dgemm_batch_strided_" :
                                     "zgemm_batch_strided_";
    const INTEGER m = M, n = N, k = K, lead = LEAD, none = 0, step = SIZE, two = 2;
    size_t bytes = SIZE * (type == 'd' ? 8 : 16);
    struct matrices x[2] = { make_matrices(type), make_matrices(type) };
    char *b = malloc(2 * bytes), *c = malloc(2 * bytes);
    double complex alpha[1], beta[1];
    FIND(fortran_strided, f, name);
    FIND(c_strided_d, d, name);
    FIND(c_strided_z, z, name);

    memcpy(x[1].a, x[0].a, bytes);
    for (int i = 0; i < 2; i++) {
        memcpy(b + i * bytes, x[i].b, bytes);
        memcpy(c + i * bytes, x[i].c, bytes);
    }
    set_element(alpha, type, 0, -1);
    set_element(beta, type, 0, 2);
    if (!by_c)
        f("N", "c", &m, &n, &k, alpha, x[0].a, &lead, &none, b, &lead, &step, beta, c, &lead, &step,
          &two, (size_t)1, (size_t)1);
    else if (type == 'd')
        d(102, 111, 113, m, n, k, -1.0, x[0].a, lead, none, b, lead, step, 2.0, c, lead, step, two);
    else
        z(102, 111, 113, m, n, k, alpha, x[0].a, lead, none, b, lead, step, beta, c, lead, step,
          two);
    for (int i = 0; i < 2; i++) {
        memcpy(x[i].c, c + i * bytes, bytes);
        check(name, &x[i], type, 'N', 'C', -1, 2, 0);
        free_matrices(&x[i]);
    }
    free(b);
    free(c);
}

/* Expects one more error, about argument `info`, and C unchanged. */
static void expect_error(const char *what, int before, int info, const struct matrices *x)
{
    if (mock_errors == before + 1 && mock_info == info && !memcmp(x->c, x->before, SIZE * 8))
        return;
    printf("%s: %d errors, of argument %d\n", what, mock_errors - before, mock_info);
    failures++;
}

/* Checks how errors of batches are reported: those of Fortran calls to xerbla, those of C calls
 * to cblas_xerbla, which the mock marks by negative numbers. */
static void check_invalid_batches(void)
{
    const INTEGER m[] = { M, M }, n[] = { N, N }, k[] = { K, K }, lead[] = { LEAD, LEAD },
                  size[] = { 1, 1 };
    const INTEGER small[] = { LEAD, 3 }, two = 2, none = 0, minus = -1;
    struct matrices x = make_matrices('d');
    const void *a[] = { x.a, x.a }, *b[] = { x.b, x.b };
    void *c[] = { x.c, x.c };
    double one[] = { 1, 1 };
    int before = mock_errors;
    FIND(fortran_batch, f, "dgemm_batch_");
    FIND(c_strided_d, d, "cblas_dgemm_batch_strided");
    FIND(fortran_gemmt, t, "dgemmt_");

    f("NN", "NN", m, n, k, one, a, small, b, lead, one, c, lead, &two, size, (size_t)1, (size_t)1);
    expect_error("a batch's lda", before++, 8, &x);
    f("NX", "NN", m, n, k, one, a, lead, b, lead, one, c, lead, &two, size, (size_t)1, (size_t)1);
    expect_error("a batch's letter", before++, 1, &x);
    f("NN", "NN", m, n, k, one, a, lead, b, lead, one, c, lead, &minus, size, (size_t)1, (size_t)1);
    expect_error("a batch's number of groups", before++, 14, &x);
    d(102, 111, 111, m[0], n[0], k[0], 1.0, x.a, lead[0], none, x.b, lead[0], none, 1.0, x.c,
      small[1], none, two);
    expect_error("a strided batch's ldc", before++, -16, &x);
    d(100, 111, 111, m[0], n[0], k[0], 1.0, x.a, lead[0], none, x.b, lead[0], none, 1.0, x.c,
      lead[0], none, two);
    expect_error("a strided batch's order", before++, -1, &x);
    t("U", "N", "N", n, &minus, one, x.a, lead, x.b, lead, one, x.c, lead, (size_t)1, (size_t)1,
      (size_t)1);
    expect_error("gemmt's k", before++, 5, &x);
    free_matrices(&x);
}

typedef void fortran_gemm(const char *, const char *, in, in, in, in, in, in, in, in, in, void *,
                          in, size_t, size_t);
typedef void c_gemm_f(int, int, int, INTEGER, INTEGER, INTEGER, float, in, INTEGER, in, INTEGER,
                      float, void *, INTEGER);
typedef void c_gemm_h(int, int, int, INTEGER, INTEGER, INTEGER, uint16_t, in, INTEGER, in, INTEGER,
                      uint16_t, void *, INTEGER);

typedef void c_gemm_z(int, int, int, INTEGER, INTEGER, INTEGER, in, in, INTEGER, in, INTEGER, in,
                      void *, INTEGER);

static void expect_bytes(const char *name, const void *got, const void *want, size_t size)
{
    if (!memcmp(got, want, size))
        return;
    printf("%s: another result\n", name);
    failures++;
}

/* Multiplies A by the identity, through the functions of Fortran and of C, and compares.  unit: the
 * identity matrix; one, zero: scalars; want: A in the format of results. */
static void multiply_by_one(const char *fortran, const void *a, const void *unit, const void *want,
                            size_t size, const void *one, const void *zero)
{
    const INTEGER two = 2;
    char c[64], name[40];
    FIND(fortran_gemm, f, fortran);
    c_gemm_f *g;
    c_gemm_h *h;
    c_gemm_z *z;

    memset(c, 0xff, sizeof c);
    f("N", "N", &two, &two, &two, one, a, &two, unit, &two, zero, c, &two, (size_t)1, (size_t)1);
    expect_bytes(fortran, c, want, size);
    snprintf(name, sizeof name, "cblas_%.*s", (int)strlen(fortran) - 1, fortran);
    *(void **)&g = *(void **)&h = *(void **)&z = dlsym(RTLD_DEFAULT, name);
    memset(c, 0xff, sizeof c);
    if (fortran[0] == 's')
        g(102, 111, 111, 2, 2, 2, 1, a, 2, unit, 2, 0, c, 2);
    else if (fortran[0] == 'b')
        h(102, 111, 111, 2, 2, 2, *(const uint16_t *)one, a, 2, unit, 2, 0, c, 2);
    else
        z(102, 111, 111, 2, 2, 2, one, a, 2, unit, 2, zero, c, 2);
    expect_bytes(name, c, want, size);
}

/* Checks batched functions of other types. */
static void check_other_functions(void)
{
    const double complex z[] = { 1 + 2i, 3, -4i, 5 }, zunit[] = { 1, 0, 0, 1 };
    const float complex x[] = { 1 + 2i, 3, -4i, 5 }, xunit[] = { 1, 0, 0, 1 };
    const float s[] = { 1, 2, 3, 4 }, fone = 1, fzero = 0;
    const uint16_t b[] = { 0x3f80, 0x4000, 0x4040, 0x4080 }, bunit[] = { 0x3f80, 0, 0, 0x3f80 };
    const uint16_t h[] = { 0x3c00, 0x4000, 0x4200, 0x4400 }, hunit[] = { 0x3c00, 0, 0, 0x3c00 };

    multiply_by_one("zgemm3m_", z, zunit, z, sizeof z, &zunit[0], &zunit[1]);
    multiply_by_one("cgemm3m_", x, xunit, x, sizeof x, &xunit[0], &xunit[1]);
    multiply_by_one("sbgemm_", b, bunit, s, sizeof s, &fone, &fzero);
    multiply_by_one("shgemm_", h, hunit, s, sizeof s, &fone, &fzero);
    multiply_by_one("bgemm_", b, bunit, b, sizeof b, &bunit[0], &bunit[1]);
}

/* Checks batched functions, called from Fortran and from C. */
static void check_batches(void)
{
    check_other_functions();
    for (int by_c = 0; by_c < 2; by_c++) {
        multiply_groups('d', 0, by_c);
        multiply_groups('z', by_c, by_c);
        multiply_strided('d', by_c);
        multiply_strided('z', by_c);
    }
    check_invalid_batches();
}

int main(int argc, char **argv)
{
    int served = argc > 1 && strcmp(argv[1], "served") == 0;

    setlocale(LC_ALL, "");
    check_fortran("sgemm", 's', sgemm_);
    check_fortran("dgemm", 'd', dgemm_);
    check_fortran("cgemm", 'c', cgemm_);
    check_fortran("zgemm", 'z', zgemm_);
    check_cblas();
    if (mock_calls != (served ? 0 : 20)) {
        printf("%d products were left to the BLAS\n", mock_calls);
        failures++;
    }
    check_invalid_arguments();
    if (argc > 2)
        check_batches();
    printf("%d failures\n", failures);
    return failures != 0;
}
