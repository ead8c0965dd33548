/* SPDX-License-Identifier: BSD-3-Clause
 * Units of Arm against the instructions themselves, run by QEMU: arm_unit.c.  Skipped where the
 * cross compiler or QEMU was missing when CMake looked. */
#include "engine_support.h"
#include "support.h"
#include "unit_backends.h"

#include <math.h>
#include <sys/wait.h>

enum { M = 24, N = 40, MOST_K = 64 };

/* In the order of arm_unit.c. */
static const struct {
    const char *instruction, *unit, *format;
} all[] = {
    { "BFDOT", "arm-bfdot", "bf16" },     { "BFMMLA", "arm-bfdot", "bf16" },
    { "BFMLAL", "arm-bfmlal", "bf16" },   { "FMLAL", "arm-fmlal", "f16" },
    { "BFMOPA", "arm-sme-bf16", "bf16" }, { "FMOPA", "arm-sme-fp16", "f16" },
};

struct arm_products {
    int32_t head[3]; /* instruction, k, elements */
    uint16_t a[M][MOST_K], b[N][MOST_K];
    float c[M * N], want[M * N], got[M * N];
};

static void emulate(struct arm_products *x)
{
    char input[] = "/tmp/limber_arm_XXXXXX", command[600];
    int k = x->head[1], file = mkstemp(input);
    FILE *to = fdopen(file, "wb"), *from;

    assert_non_null(to);
    fwrite(x->head, sizeof x->head, 1, to);
    for (int e = 0; e < M * N; e++) {
        fwrite(&x->c[e], sizeof x->c[e], 1, to);
        fwrite(x->a[e / N], sizeof x->a[0][0], (size_t)k, to);
        fwrite(x->b[e % N], sizeof x->b[0][0], (size_t)k, to);
    }
    assert_int_equal(fclose(to), 0);
    snprintf(command, sizeof command, "%s -cpu max '%s' < %s", ARM_QEMU, ARM_PROGRAM, input);
    from = popen(command, "r");
    assert_non_null(from);
    assert_int_equal(fread(x->want, sizeof x->want[0], M * N, from), M * N);
    assert_int_equal(pclose(from), 0);
    unlink(input);
}

static void simulate(limber_context *ctx, struct arm_products *x, const char *text,
                     const char *format)
{
    limber_unit u = LIMBER_UNIT_INIT;
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };
    float one = 1;
    limber_matrix a = { x->a, named(format), MOST_K, 1 }, b = { x->b, named(format), 1, MOST_K };

    assert_int_equal(limber_unit_parse(text, &u), LIMBER_STATUS_OK);
    memcpy(x->got, x->c, sizeof x->c);
    if (limber_gemm(ctx, &contract, M, N, x->head[1], NULL, a, b, &one,
                    output_of((limber_matrix){ x->got, named("f32"), N, 1 }), NULL))
        fail_msg("%s: %s", text, limber_error_text());
}

/* 0: any code; 1: numbers of a few binades, so that sums lose few bits; 2: products near the
 * smallest normal float; 3: numbers that cancel. */
static uint16_t any_code(struct rng *r, int kind, bool half)
{
    int fraction = half ? 10 : 7, bias = half ? 15 : 127, field, exponent;
    uint16_t code = (uint16_t)rng_below(r, 1 << 16);

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

static void compare(int instruction, int kind, struct rng *r)
{
    struct arm_products *x = calloc(1, sizeof *x);
    char text[128];
    bool half = !strcmp(all[instruction].format, "f16");

    x->head[0] = instruction;
    x->head[1] = kind == 0 ? 4 : 4 * (1 + rng_below(r, MOST_K / 4));
    x->head[2] = M * N;
    for (int p = 0; p < MOST_K; p++) {
        for (int i = 0; i < M; i++)
            x->a[i][p] = any_code(r, kind, half);
        for (int j = 0; j < N; j++)
            x->b[j][p] = any_code(r, kind, half);
    }
    for (int e = 0; e < M * N; e++) {
        uint32_t code = (uint32_t)(rng_unit(r) * 0x1p32);

        memcpy(&x->c[e], &code, sizeof code);
        if (kind)
            x->c[e] = (float)ldexp(2 * rng_unit(r) - 1, kind == 2 ? -124 - rng_below(r, 9) : 2);
    }
    emulate(x);
    snprintf(text, sizeof text, "%s start=c", all[instruction].unit);
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        simulate(backend[ctx], x, text, all[instruction].format);
        for (int e = 0; e < M * N; e++)
            if (memcmp(&x->got[e], &x->want[e], sizeof x->got[e]) &&
                !(isnan(x->got[e]) && isnan(x->want[e])))
                fail_msg("%s, data %d, k = %d on %s: element %d from %a is %a, not %a",
                         all[instruction].instruction, kind, (int)x->head[1], backend_name[ctx], e,
                         x->c[e], x->got[e], x->want[e]);
    }
    free(x);
}

static void instructions_have_the_units_bits(void **state)
{
    struct rng r = { 22 };

    (void)state;
    if (!ARM_PROGRAM[0])
        skip();
    for (int i = 0; i < (int)COUNT(all); i++)
        for (int kind = 0; kind < 4; kind++)
            for (int turn = 0; turn < (kind ? 2 : 4); turn++)
                compare(i, kind, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_have_the_units_bits),
    };

    return cmocka_run_group_tests(tests, make_contexts, drop_contexts);
}
