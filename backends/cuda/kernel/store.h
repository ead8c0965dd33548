/* SPDX-License-Identifier: BSD-3-Clause
 * Elements of C, as the kernels that end a product store them. */
#ifndef LIMBER_CUDA_STORE_H
#define LIMBER_CUDA_STORE_H

DEVICE bool is_special(const result_args &r, int64_t i, int64_t j)
{
    return (r.special_a && load<uint8_t>(r.special_a + i)) ||
           (r.special_b && load<uint8_t>(r.special_b + j));
}

DEVICE const limber_scalars scalars_of(const result_args &r)
{
    return { ALPHA ? r.alpha : NULL, BETA ? r.beta : NULL, SCALARS };
}

/* Element (i, j) of this part from the weighted sum of its accumulators. */
DEVICE void put_float(const result_args &r, int64_t i, int64_t j, double x)
{
    char *to = limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size), element[16];

    if (SCALED)
        x = mul64(x, power_of_two(-scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j)));
    if (BETA) {
        typename raw_of<RESULT.size>::type e = load_raw<RESULT.size>(to);

        memcpy(element, &e, RESULT.size);
    }
    limber_store_float(element, RESULT, x, ALPHA, ALPHA ? double_of(SCALARS, r.alpha) : 1, BETA,
                       BETA ? double_of(SCALARS, r.beta) : 0);
    store_raw<RESULT.size>(to, element);
}

#endif
