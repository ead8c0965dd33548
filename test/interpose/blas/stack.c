/* SPDX-License-Identifier: BSD-3-Clause
 * Calls dgemm_ in a thread whose stack has 48 KiB. */
#include <pthread.h>
#include <stdio.h>

enum { N = 96, STACK = 48 << 10 };

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);

static double a[N * N], b[N * N], c[N * N];

static void *multiply_in_thread(void *arg)
{
    const double one = 1, zero = 0;
    const int n = N;

    (void)arg;
    for (int i = 0; i < 3; i++)
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return NULL;
}

int main(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    for (int i = 0; i < N * N; i++)
        a[i] = i % 7 * (i % 3 ? 1e9 : 1e-9), b[i] = i % 5;
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, STACK) ||
        pthread_create(&thread, &attr, multiply_in_thread, NULL))
        return 2;
    pthread_join(thread, NULL);
    puts("called");
    return 0;
}
