/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit_instructions.h"

#include "engine_support.h"
#include "unit_backends.h"

#include <math.h>

/* Returns a random bit pattern of binary16 (half) or bfloat16. Kind 0: any pattern; 1: of middle
 * exponents; 2: of small exponents; 3: just above 1 in magnitude. */
uint16_t any_code(struct rng *r, int kind, bool half)
{
    const int fraction = half ? 10 : 7, bias = half ? 15 : 127;
    const uint16_t code = (uint16_t)rng_below(r, 1 << 16);
    int exponent, field;

    if (kind == 0)
        return code;
    if (kind == 3)
        return (uint16_t)((code & 0x8000) | (bias << fraction) | (code & 3));
    exponent = kind == 1 ? rng_below(r, 12) - 6 :
               half      ? -rng_below(r, 15) :
                           -63 + rng_below(r, 9) - 4;
    field = exponent + bias > 0 ? exponent + bias : 0;
    return (uint16_t)((code & (0x8000 | ((1 << fraction) - 1))) | field << fraction);
}

float any_start(struct rng *r, int kind)
{
    const uint32_t code = (uint32_t)(rng_unit(r) * 0x1p32);
    float x;

    memcpy(&x, &code, sizeof x);
    return kind ? (float)ldexp(2 * rng_unit(r) - 1, kind == 2 ? -124 - rng_below(r, 9) : 2) : x;
}

/* Checks that the simulated unit gives the bits that a CPU's instruction gave, on both backends.
 * Any two NaN are equal. */
void compare_with_unit(const struct executed *x)
{
    const size_t count = (size_t)(x->m * x->n);
    const float one = 1;
    limber_unit u = LIMBER_UNIT_INIT;
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };
    float *got = malloc(count * sizeof *got);
    char text[128];

    snprintf(text, sizeof text, "%s start=c", x->unit);
    assert_int_equal(limber_unit_parse(text, &u), LIMBER_STATUS_OK);
    for (int i = 0; i < 2 && backend[i]; i++) {
        memcpy(got, x->c, count * sizeof *got);
        if (limber_gemm(backend[i], &contract, x->m, x->n, x->k, NULL, x->a, x->b, &one,
                        output_of((limber_matrix){ got, named("f32"), x->n, 1 }), NULL))
            fail_msg("%s: %s", text, limber_error_text());
        for (size_t e = 0; e < count; e++)
            if (memcmp(&got[e], &x->want[e], sizeof got[e]) &&
                !(isnan(got[e]) && isnan(x->want[e])))
                fail_msg("%s, data %d, k = %d on %s: element %d from %a is %a, not %a",
                         x->instruction, x->kind, (int)x->k, backend_name[i], (int)e, x->c[e],
                         got[e], x->want[e]);
    }
    free(got);
}
