/* SPDX-License-Identifier: BSD-3-Clause
 * Counts a program's calls of BLAS and LAPACK.  This library is preloaded before them; when a
 * process ends, it prints calls and multiply-adds on stderr, one line per function. */
#define _GNU_SOURCE     /* for RTLD_NEXT */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

/* Functions, with their parameters, arguments, and the multiply-adds of a call to leading order.
 * Integers have 32 bits; lengths of character arguments come last. */
/* clang-format off */
#define FUNCTIONS(F) \
    F(dgemm, (S ta, S tb, I m, I n, I k, D al, D a, I lda, D b, I ldb, D be, D c, I ldc, size_t x, \
              size_t y), \
      (ta, tb, m, n, k, al, a, lda, b, ldb, be, c, ldc, x, y), V(m) * V(n) * V(k)) \
    F(dtrsm, (S s, S u, S t, S d, I m, I n, D al, D a, I lda, D b, I ldb, size_t w, size_t x, \
              size_t y, size_t z), \
      (s, u, t, d, m, n, al, a, lda, b, ldb, w, x, y, z), \
      V(m) * V(n) * (*s == 'L' || *s == 'l' ? V(m) : V(n)) / 2) \
    F(dtrmm, (S s, S u, S t, S d, I m, I n, D al, D a, I lda, D b, I ldb, size_t w, size_t x, \
              size_t y, size_t z), \
      (s, u, t, d, m, n, al, a, lda, b, ldb, w, x, y, z), \
      V(m) * V(n) * (*s == 'L' || *s == 'l' ? V(m) : V(n)) / 2) \
    F(dsyrk, (S u, S t, I n, I k, D al, D a, I lda, D be, D c, I ldc, size_t x, size_t y), \
      (u, t, n, k, al, a, lda, be, c, ldc, x, y), V(n) * V(n) * V(k) / 2) \
    F(dgemv, (S t, I m, I n, D al, D a, I lda, D v, I iv, D be, D w, I iw, size_t x), \
      (t, m, n, al, a, lda, v, iv, be, w, iw, x), V(m) * V(n)) \
    F(dger, (I m, I n, D al, D v, I iv, D w, I iw, D a, I lda), \
      (m, n, al, v, iv, w, iw, a, lda), V(m) * V(n)) \
    F(dtrsv, (S u, S t, S d, I n, D a, I lda, D v, I iv, size_t x, size_t y, size_t z), \
      (u, t, d, n, a, lda, v, iv, x, y, z), V(n) * V(n) / 2) \
    F(dgetrf, (I m, I n, D a, I lda, I p, I info), (m, n, a, lda, p, info), \
      V(n) * V(n) * (V(m) - V(n) / 3) / 2) \
    F(dpotrf, (S u, I n, D a, I lda, I info, size_t x), (u, n, a, lda, info, x), \
      V(n) * V(n) * V(n) / 6)
/* clang-format on */

typedef const char *S;
typedef int *I;
typedef double *D;
#define V(p) (double)*(p)

enum {
#define NAME(name, arguments, pass, work) AT_##name,
    FUNCTIONS(NAME)
#undef NAME
        COUNT
};
static const char *const names[COUNT] = {
#define NAME(name, arguments, pass, work) #name,
    FUNCTIONS(NAME)
#undef NAME
};
/* The counts of each function; work: multiply-adds. */
static struct {
    long calls;
    double work;
} seen[COUNT];

/* Defines a function that counts its calls and multiply-adds, and then calls the next library's
 * function of that name. */
#define DEFINE(name, arguments, pass, multiply_adds) \
    void name##_ arguments; \
    void name##_ arguments \
    { \
        void(*real) arguments; \
\
        seen[AT_##name].calls++; \
        seen[AT_##name].work += multiply_adds; \
        *(void **)&real = dlsym(RTLD_NEXT, #name "_"); \
        real pass; \
    }
FUNCTIONS(DEFINE)

__attribute__((destructor)) static void print_counts(void)
{
    for (int i = 0; i < COUNT; i++)
        if (seen[i].calls)
            fprintf(stderr, "calls: %s %ld %.0f\n", names[i], seen[i].calls, seen[i].work);
}
