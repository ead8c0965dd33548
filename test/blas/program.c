/* SPDX-License-Identifier: BSD-3-Clause
 * A program on a BLAS: `program served`, where its products should come from elsewhere, or `program
 * left`.  Each result is compared with sums of its own. */
#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int mock_calls, mock_errors;

#define FORTRAN(name)                                                                           \
    void name(const char *, const char *, const INTEGER *, const INTEGER *, const INTEGER *,    \
              const void *, const void *, const INTEGER *, const void *, const INTEGER *,       \
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

static double complex at(const void *x, char type, int i)
{
    switch (type) {
    case 's': return ((const float *)x)[i];
    case 'd': return ((const double *)x)[i];
    case 'c': return ((const float complex *)x)[i];
    default: return ((const double complex *)x)[i];
    }
}

static void set(void *x, char type, int i, double complex v)
{
    switch (type) {
    case 's': ((float *)x)[i] = (float)creal(v); break;
    case 'd': ((double *)x)[i] = creal(v); break;
    case 'c': ((float complex *)x)[i] = (float complex)v; break;
    default: ((double complex *)x)[i] = v; break;
    }
}

static double complex element(const void *x, char type, char op, int i, int j, int rows)
{
    int down = (op == 'N') != rows;
    double complex v = at(x, type, down ? i + j * LEAD : i * LEAD + j);

    return op == 'C' ? conj(v) : v;
}

struct matrices { void *a, *b, *c, *before; };

static struct matrices make(char type)
{
    struct matrices m = { malloc(SIZE * 16), malloc(SIZE * 16), malloc(SIZE * 16), malloc(SIZE * 16) };

    for (int i = 0; i < SIZE; i++) {
        set(m.a, type, i, random_unit() + I * random_unit());
        set(m.b, type, i, random_unit() + I * random_unit());
        set(m.c, type, i, random_unit() + I * random_unit());
    }
    memcpy(m.before, m.c, SIZE * 16);
    return m;
}

static void drop(struct matrices *m)
{
    free(m->a);
    free(m->b);
    free(m->c);
    free(m->before);
}

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

static void fortran(const char *name, char type, FORTRAN((*gemm)))
{
    static const char ops[][2] = { { 'N', 'N' }, { 'T', 'N' }, { 'N', 'C' }, { 'C', 'T' } };
    const INTEGER m = M, n = N, k = K, lead = LEAD;

    for (int q = 0; q < 4; q++) {
        struct matrices x = make(type);
        double complex alpha[1], beta[1];

        set(alpha, type, 0, type == 'c' || type == 'z' ? 1.5 - 0.5 * I : 1.5);
        set(beta, type, 0, -0.5);
        gemm(&ops[q][0], &ops[q][1], &m, &n, &k, alpha, x.a, &lead, x.b, &lead, beta, x.c, &lead, 1, 1);
        check(name, &x, type, ops[q][0], ops[q][1], at(alpha, type, 0), -0.5, 0);
        drop(&x);
    }
}

static void cblas(void)
{
    for (int rows = 0; rows < 2; rows++)
        for (int t = 0; t < 2; t++) {
            struct matrices x = make('d');

            cblas_dgemm(rows ? 101 : 102, t ? 112 : 111, 111, M, N, K, 2, x.a, LEAD, x.b, LEAD, 0.25, x.c,
                        LEAD);
            check(rows ? "rows" : "columns", &x, 'd', t ? 'T' : 'N', 'N', 2, 0.25, rows);
            drop(&x);
        }
}

/* The BLAS itself says what is wrong. */
static void wrong(void)
{
    const INTEGER m = M, n = N, k = K, lead = LEAD, little = 3;
    struct matrices x = make('d');
    double one = 1;
    int before = mock_errors;

    dgemm_("N", "N", &m, &n, &k, &one, x.a, &lead, x.b, &lead, &one, x.c, &little, 1, 1);
    if (mock_errors != before + 1 || memcmp(x.c, x.before, SIZE * 8)) {
        printf("a wrong leading dimension: %d errors\n", mock_errors - before);
        failures++;
    }
    drop(&x);
}

int main(int argc, char **argv)
{
    int served = argc > 1 && strcmp(argv[1], "served") == 0;

    fortran("sgemm", 's', sgemm_);
    fortran("dgemm", 'd', dgemm_);
    fortran("cgemm", 'c', cgemm_);
    fortran("zgemm", 'z', zgemm_);
    cblas();
    if (mock_calls != (served ? 0 : 20)) {
        printf("%d products were left to the BLAS\n", mock_calls);
        failures++;
    }
    wrong();
    printf("%d failures\n", failures);
    return failures != 0;
}
