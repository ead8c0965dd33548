/* SPDX-License-Identifier: BSD-3-Clause
 * Stores elements of C, for kernels that compute final results. */
#ifndef LIMBER_CUDA_STORE_H
#define LIMBER_CUDA_STORE_H

/* Returns the distance between the exponents of successive products: `lines` if each line (row of A
 * or column of B) has one, 1 if each matrix has one.  lines: distance of the products' lines; 0 if
 * all products share one matrix, and so the exponents. */
template <int S> DEVICE int64_t exponents_of(int64_t lines)
{
    return SIDES[S].scaled == SCALED_all ? lines != 0 : lines;
}

/* Returns the destination of one product of a batch. */
DEVICE result_args result_of(const result_args &all, int64_t product)
{
    result_args r = all;

    r.c.data = (void *)limber_spread_at(r.c.data, &r.each_c, product);
    r.emax_a += r.emax_a ? product * exponents_of<0>(r.each_a) : 0;
    r.emax_b += r.emax_b ? product * exponents_of<1>(r.each_b) : 0;
    r.special_a += r.special_a ? product * r.each_a : 0;
    r.special_b += r.special_b ? product * r.each_b : 0;
    r.totals += product * r.m * r.total_pitch;
    return r;
}

/* True if row i of A or column j of B has NaN or infinities. */
DEVICE bool is_special(const result_args &r, int64_t i, int64_t j)
{
    return (r.special_a && load<uint8_t>(r.special_a + i)) ||
           (r.special_b && load<uint8_t>(r.special_b + j));
}

/* Returns the scalars of a call: NULL for those that the plan does not have. */
DEVICE const limber_scalars scalars_of(const result_args &r)
{
    return { ALPHA ? r.alpha : NULL, BETA ? r.beta : NULL, SCALARS };
}

/* Returns alpha or beta in FP64.  compute_here() delays the conversion to where the value is used,
 * to save registers. */
DEVICE double scalar_of(const void *p)
{
    if (limber_num_is_f32(SCALARS)) {
        float v;

        memcpy(&v, p, 4);
        return (double)compute_here(v);
    }
    return compute_here(double_of(SCALARS, p));
}

/* Applies scales, alpha and beta to x, the weighted sum of an element whose result is FP32 or FP64.
 * e: exponent that undoes the scales of A and B.  old: C's old value. */
DEVICE double apply_scaling(double x, int e, double alpha, double beta, double old)
{
    if (SCALED)
        x = mul64(x, power_of_two(e));
    if (!BETA)
        return ALPHA ? mul64(x, alpha) : x;
    /* no overflow is possible: beta old and alpha x are in FP64, but have FP32's range */
    if (RESULT.size == 4)
        return fma64(beta, old, ALPHA ? mul64(alpha, x) : x);
    return limber_blend(ALPHA ? alpha : 1, x, beta, old);
}

/* Stores element (i, j) of this block of C, which is FP32 or FP64. */
DEVICE void put_float(const result_args &r, int64_t i, int64_t j, double x)
{
    char *to = limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
    double alpha = ALPHA ? scalar_of(r.alpha) : 1, beta = BETA ? scalar_of(r.beta) : 0, old = 0;
    int e = SCALED ? -scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j) : 0;

    if (BETA)
        old = RESULT.size == 4 ? (double)load<float>(to) : load<double>(to);
    x = apply_scaling(x, e, alpha, beta, old);
    if (RESULT.size == 4)
        store<float>(to, (float)x);
    else
        store<double>(to, x);
}

#endif
