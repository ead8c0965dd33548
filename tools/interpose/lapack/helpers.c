/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of Fortran's run-time library that LAPACK's objects call: strings, powers, times,
 * and the report of a wrong argument.  With them, no program needs libgfortran.  Lengths of strings
 * are passed as in gfortran's calls. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* a symbol by which ../blas/real.c recognises this library */
extern const char limber_lapack_is_here[];
const char limber_lapack_is_here[] = "";

/* Concatenates two strings, and fills the result with blanks. */
HIDDEN void _gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                                    size_t size_b, const char *b);
HIDDEN void _gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                                    size_t size_b, const char *b)
{
    for (size_t i = 0; i < size; i++)
        to[i] = i < size_a ? a[i] : i - size_a < size_b ? b[i - size_a] : ' ';
}

/* Replaces libgfortran's function for the LAPACK routines SECOND and DSECND: stores the seconds of
 * CPU time of the process, in all and in the kernel, where an array descriptor's first word points,
 * and returns their sum.  Only programs call these routines. */
HIDDEN float _gfortran_etime(void *descriptor);
HIDDEN float _gfortran_etime(void *descriptor)
{
    float *parts = *(float **)descriptor;

    parts[0] = (float)clock() / CLOCKS_PER_SEC;
    parts[1] = 0;
    return parts[0];
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

void LIMBER_XERBLA(const char *routine, const void *argument, size_t size);
/* Reports a wrong argument by the program's own xerbla (Python's LAPACK has one that raises an
 * exception) or, if it has none, by a message on stderr.  Unlike the reference xerbla it
 * returns. */
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

/* Returns x^n by repeated squaring; for negative n, 1 / x^-n. */
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
