/* SPDX-License-Identifier: BSD-3-Clause
 * What LAPACK's objects ask of Fortran's run-time library: strings, and the report of a wrong
 * argument.  So nobody needs libgfortran.  Lengths are those of gfortran's calls. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* ../blas/real.c knows this library by it. */
extern const char limber_lapack_is_here[];
const char limber_lapack_is_here[] = "";

HIDDEN void _gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                                    size_t size_b, const char *b);
HIDDEN void _gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                                    size_t size_b, const char *b)
{
    for (size_t i = 0; i < size; i++)
        to[i] = i < size_a ? a[i] : i - size_a < size_b ? b[i - size_a] : ' ';
}

/* second and dsecnd, which no other routine calls, answer 0. */
HIDDEN void _gfortran_etime(void *array, float *seconds);
HIDDEN void _gfortran_etime(void *array, float *seconds)
{
    (void)array;
    *seconds = 0;
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

/* The report of a wrong argument goes to the program's own xerbla, as Python's LAPACK has one that
 * raises an exception; else to stderr.  It returns: no routine ends a program. */
void LIMBER_XERBLA(const char *routine, const void *argument, size_t size);
void LIMBER_XERBLA(const char *routine, const void *argument, size_t size)
{
#if LIMBER_LAPACK_WIDTH == 64
    static const char *const names[] = { "xerbla_64_", "scipy_xerbla_64_" };
    const long which = (long)*(const int64_t *)argument;
#else
    static const char *const names[] = { "xerbla_", "scipy_xerbla_" };
    const long which = *(const int32_t *)argument;
#endif
    void (*report)(const char *, const void *, size_t);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *(void **)&report = dlsym(RTLD_DEFAULT, names[i]);
        if (report && report != LIMBER_XERBLA) {
            report(routine, argument, size);
            return;
        }
    }
    fprintf(stderr, "%.*s: argument %ld is wrong\n", (int)size, routine, which);
}

/* ---- powers with integer exponents ----------------------------------------------------------- */

static double power(double x, int64_t n)
{
    double y = 1;

    for (uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n; left; left >>= 1, x *= x)
        if (left & 1)
            y *= x;
    return n < 0 ? 1 / y : y;
}

HIDDEN double _gfortran_pow_r8_i8(double x, int64_t n);
HIDDEN double _gfortran_pow_r8_i8(double x, int64_t n)
{
    return power(x, n);
}

HIDDEN float _gfortran_pow_r4_i8(float x, int64_t n);
HIDDEN float _gfortran_pow_r4_i8(float x, int64_t n)
{
    return (float)power(x, n);
}
