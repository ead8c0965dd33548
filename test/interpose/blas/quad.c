/* SPDX-License-Identifier: BSD-3-Clause
 * Tests cblas_qgemm without a QBLAS: sums that lose all digits unless they are exact, all layouts
 * and transpositions, scalars, and invalid arguments, which must change nothing. */
#include <stdio.h>
#include <stdlib.h>

#ifdef __SIZEOF_FLOAT128__
typedef __float128 quad;

void cblas_qgemm(int, int, int, int, int, int, quad, const quad *, int, const quad *, int, quad,
                 quad *, int);

enum { ROWS = 101, COLUMNS = 102, PLAIN = 111, TRANSPOSED = 112, M = 5, N = 7, K = 9, LEAD = 11 };

static int failures;

/* Counts and prints a failure. */
static void expect(int right, const char *what)
{
    if (!right) {
        failures++;
        printf("FAILED: %s\n", what);
    }
}

static int random_number(void)
{
    return rand() % 2001 - 1000;
}

/* Returns the address of element (i, j) of op(x). */
static quad *element_at(quad *x, int i, int j, int order, int op)
{
    return &x[(order == COLUMNS) == (op == PLAIN) ? i + j * LEAD : i * LEAD + j];
}

/* Compares a product with its exact result.  In each sum, the first and the last term cancel (2^110
 * x and -2^110 x), and all others are small. */
static void check_product(int order, int op_a, int op_b, int beta)
{
    const quad large = (quad)0x1p110;
    quad a[LEAD * LEAD] = { 0 }, b[LEAD * LEAD] = { 0 }, c[LEAD * LEAD], before[LEAD * LEAD];
    int right = 1;

    for (int i = 0; i < LEAD * LEAD; i++)
        before[i] = c[i] = random_number();
    for (int p = 0; p < K; p++) {
        for (int i = 0; i < M; i++)
            *element_at(a, i, p, order, op_a) = p == 0     ? large :
                                                p == K - 1 ? -large :
                                                             random_number();
        for (int j = 0; j < N; j++)
            *element_at(b, p, j, order, op_b) =
                p == K - 1 ? *element_at(b, 0, j, order, op_b) : random_number();
    }
    cblas_qgemm(order, op_a, op_b, M, N, K, 3, a, LEAD, b, LEAD, beta, c, LEAD);
    for (int i = 0; i < LEAD; i++)
        for (int j = 0; j < LEAD; j++) {
            quad sum = 0, old = *element_at(before, i, j, order, PLAIN);

            for (int p = 1; p < K - 1 && i < M && j < N; p++)
                sum += *element_at(a, i, p, order, op_a) * *element_at(b, p, j, order, op_b);
            right &=
                *element_at(c, i, j, order, PLAIN) == (i < M && j < N ? 3 * sum + beta * old : old);
        }
    expect(right, "a product");
}

int main(void)
{
    quad c[4] = { 1, 2, 3, 4 };

    for (int way = 0; way < 16; way++)
        check_product(way & 1 ? ROWS : COLUMNS, way & 2 ? TRANSPOSED : PLAIN,
                      way & 4 ? TRANSPOSED : PLAIN, way & 8 ? -2 : 0);
    cblas_qgemm(ROWS, PLAIN, PLAIN, 2, 2, 0, 1, c, 2, c, 2, 5, c, 2);
    expect(c[0] == 5 && c[3] == 20, "a product without terms");
    cblas_qgemm(ROWS, PLAIN, PLAIN, 2, 2, 2, 1, c, 1, c, 2, 0, c, 2);
    expect(c[0] == 5 && c[3] == 20, "a leading dimension that is too small");
    cblas_qgemm(7, PLAIN, PLAIN, 2, 2, 2, 1, c, 2, c, 2, 0, c, 2);
    expect(c[0] == 5 && c[3] == 20, "no layout");
    printf("%d failures\n", failures);
    return failures > 0;
}
#else
int main(void)
{
    printf("the compiler has no binary128: skipped\n");
    return 0;
}
#endif
