/* SPDX-License-Identifier: BSD-3-Clause
 * Iterative refinement of the solutions of linear systems. */
#ifndef LIMBER_JIT_SOLVE_H
#define LIMBER_JIT_SOLVE_H

#include "jit/engine.h"
#include "limber/solve.h"

#include <float.h>

/* binary128, under the name that the compiler has for it. */
#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

/* Factors of a matrix in binary64, row-major: P A = L U. */
struct factors {
    limber_context *ctx;
    int64_t n;
    /* owned by the caller: n x n; A, which is replaced by L and U */
    double *lu;
    int64_t *swap; /* [n]: the row with which row i was exchanged at step i */
    double norm; /* 1-norm of A */
};

/* Factors the matrix in f->lu.  False if the pivot of column *zero is 0, or, with an error in *d,
 * if a product failed. */
bool limber_factor(struct factors *f, int64_t *zero, struct diag *d);
/* Computes x := A^-1 x. x is n x columns, row-major. */
bool limber_factor_solve(const struct factors *f, double *x, int64_t columns, struct diag *d);
/* Computes x := A^-1 x for one column in binary128, by the binary64 factors. */
void limber_factor_solve_quad(const struct factors *f, quad *x);
/* Estimates |A| |A^-1| in the 1-norm (Higham, ACM TOMS 14, 1988).  room: scratch of n numbers.
 * Returns 0 on failure. */
double limber_factor_condition(const struct factors *f, double *room, struct diag *d);

/* Computes d := A^-1 d approximately, by GMRES preconditioned with the factors. a: A, row-major.
 * room: scratch of n x (KRYLOV + 1) numbers. */
enum { KRYLOV = 40 };
void limber_krylov(const struct factors *f, const quad *a, quad *d, quad *room);

/* True if a matrix of finite numbers, row-major, is singular.  False is certain; true is wrong with
 * a probability of about 2^-92. room: scratch of n x n numbers. */
bool limber_is_singular(const quad *a, int64_t n, uint64_t *room);

/* Returns |x| as a double. */
static inline double limber_quad_size(quad x)
{
    return (double)(x < 0 ? -x : x);
}

#endif
