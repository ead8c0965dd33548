/* SPDX-License-Identifier: BSD-3-Clause
 * GMRES in binary128, preconditioned by binary64 factors: E. Carson, N. Higham, A New Analysis of
 * Iterative Refinement and Its Application to Accurate Solution of Ill-Conditioned Sparse Linear
 * Systems, SIAM J. Sci. Comput. 39 (2017). */
#include "jit/operators/solve.h"

#include <math.h>
#include <string.h>

/* Returns the square root, from two steps of Newton's method that start from the binary64 root. */
static quad square_root(quad x)
{
    quad y = sqrt((double)x);

    for (int i = 0; y > 0 && i < 2; i++)
        y = (y + x / y) / 2;
    return y;
}

/* Returns the dot product of two vectors, summed in binary128. */
static quad dot(const quad *x, const quad *y, int64_t n)
{
    quad sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The Hessenberg matrix h of Arnoldi's method, made triangular by Givens rotations, and the
 * right-hand side g under the same rotations. */
struct rotated {
    quad h[KRYLOV + 1][KRYLOV], g[KRYLOV + 1], cosine[KRYLOV], sine[KRYLOV];
};

/* Makes one step of Arnoldi's method: v_(k+1) becomes A v_k, preconditioned, orthogonalised against
 * v_0 to v_k, and normalised.  Returns its norm before it was normalised. */
static quad next_vector(const struct factors *f, const quad *a, quad *v, int k, struct rotated *r)
{
    const int64_t n = f->n;
    quad *w = v + (k + 1) * n, length;

    for (int64_t i = 0; i < n; i++)
        w[i] = dot(a + i * n, v + k * n, n);
    limber_factor_solve_quad(f, w);
    for (int j = 0; j <= k; j++) {
        r->h[j][k] = dot(v + j * n, w, n);
        for (int64_t i = 0; i < n; i++)
            w[i] -= r->h[j][k] * v[j * n + i];
    }
    length = square_root(dot(w, w, n));
    for (int64_t i = 0; length > 0 && i < n; i++)
        w[i] /= length;
    return length;
}

/* Applies the earlier rotations to column k, and adds the rotation that eliminates `length`, the
 * element below the diagonal.  False if the column is zero. */
static bool rotate_column(struct rotated *r, int k, quad length)
{
    quad size;

    for (int j = 0; j < k; j++) {
        quad t = r->h[j][k];

        r->h[j][k] = r->cosine[j] * t + r->sine[j] * r->h[j + 1][k];
        r->h[j + 1][k] = r->cosine[j] * r->h[j + 1][k] - r->sine[j] * t;
    }
    size = square_root(r->h[k][k] * r->h[k][k] + length * length);
    if (size == 0)
        return false;
    r->cosine[k] = r->h[k][k] / size;
    r->sine[k] = length / size;
    r->h[k][k] = size;
    r->g[k + 1] = -r->sine[k] * r->g[k];
    r->g[k] *= r->cosine[k];
    return true;
}

/* Solves A x = d by GMRES in binary128, preconditioned by the factors f. d: replaced by x. room:
 * scratch for the basis vectors. */
void limber_krylov(const struct factors *f, const quad *a, quad *d, quad *room)
{
    const int64_t n = f->n;
    const int steps = n < KRYLOV ? (int)n : KRYLOV;
    struct rotated r;
    quad *v = room;
    int k = 0;

    memset(&r, 0, sizeof r);
    limber_factor_solve_quad(f, d);
    r.g[0] = square_root(dot(d, d, n));
    if (r.g[0] == 0)
        return;
    for (int64_t i = 0; i < n; i++)
        v[i] = d[i] / r.g[0];
    while (k < steps && limber_quad_size(r.g[k]) > 1e-6 * limber_quad_size(r.g[0]) &&
           rotate_column(&r, k, next_vector(f, a, v, k, &r)))
        k++;
    memset(d, 0, (size_t)n * sizeof *d);
    while (k-- > 0) { /* back substitution: g[k] becomes the k-th coordinate */
        r.g[k] /= r.h[k][k];
        for (int j = 0; j < k; j++)
            r.g[j] -= r.h[j][k] * r.g[k];
        for (int64_t i = 0; i < n; i++)
            d[i] += r.g[k] * v[k * n + i];
    }
}
