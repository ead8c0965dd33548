/* SPDX-License-Identifier: BSD-3-Clause
 * Stores elements of C, for the kernels that end a product. */
#ifndef LIMBER_CUDA_STORE_H
#define LIMBER_CUDA_STORE_H

/* Number of exponents of a matrix with so many lines; 0: all products share them. */
template <int S> DEVICE int64_t exponents_of(int64_t lines)
{
    return SIDES[S].scaled == SCALED_all ? lines != 0 : lines;
}

/* Destination of one product of a batch. */
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

DEVICE bool is_special(const result_args &r, int64_t i, int64_t j)
{
    return (r.special_a && load<uint8_t>(r.special_a + i)) ||
           (r.special_b && load<uint8_t>(r.special_b + j));
}

DEVICE const limber_scalars scalars_of(const result_args &r)
{
    return { ALPHA ? r.alpha : NULL, BETA ? r.beta : NULL, SCALARS };
}

/* alpha or beta as FP64, converted only where it is used. */
DEVICE double scalar_of(const void *p)
{
    if (limber_num_is_f32(SCALARS)) {
        float v;

        memcpy(&v, p, 4);
        return (double)here(v);
    }
    return here(double_of(SCALARS, p));
}

/* Finishes an element of FP32 or FP64 from its weighted sum; e undoes the scales, old is C's
 * value. */
DEVICE double finished(double x, int e, double alpha, double beta, double old)
{
    if (SCALED)
        x = mul64(x, power_of_two(e));
    if (!BETA)
        return ALPHA ? mul64(x, alpha) : x;
    if (RESULT.size == 4)       /* no term overflows FP64 */
        return fma64(beta, old, ALPHA ? mul64(alpha, x) : x);
    return limber_blend(ALPHA ? alpha : 1, x, beta, old);
}

/* Stores element (i, j) of this part as FP32 or FP64. */
DEVICE void put_float(const result_args &r, int64_t i, int64_t j, double x)
{
    char *to = limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
    double alpha = ALPHA ? scalar_of(r.alpha) : 1, beta = BETA ? scalar_of(r.beta) : 0, old = 0;
    int e = SCALED ? -scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j) : 0;

    if (BETA)
        old = RESULT.size == 4 ? (double)load<float>(to) : load<double>(to);
    x = finished(x, e, alpha, beta, old);
    if (RESULT.size == 4)
        store<float>(to, (float)x);
    else
        store<double>(to, x);
}

#endif
