/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units of Arm with Arm's instructions, which QEMU executes (arm_unit.c).
 * Skipped if CMake has found no cross compiler or QEMU. */
#include "engine_support.h"
#include "support.h"
#include "contexts.h"
#include "unit_backends.h"
#include "unit_instructions.h"

#include <math.h>
#include <sys/wait.h>

enum { M = 24, N = 40, MOST_K = 64 };

/* Instructions in the order in which arm_unit.c numbers them, and the units that simulate them. */
static const struct {
    const char *instruction, *unit, *format;
} all[] = {
    { "BFDOT", "arm-bfdot", "bf16" },     { "BFMMLA", "arm-bfdot", "bf16" },
    { "BFMLAL", "arm-bfmlal", "bf16" },   { "FMLAL", "arm-fmlal", "f16" },
    { "BFMOPA", "arm-sme-bf16", "bf16" }, { "FMOPA", "arm-sme-fp16", "f16" },
};

/* The operands A, B and C, and in `want` the instruction's results. */
struct arm_products {
    int32_t head[3]; /* instruction, k, number of elements */
    uint16_t a[M][MOST_K], b[N][MOST_K];
    float c[M * N], want[M * N];
};

/* Executes the products in QEMU.  Its results are x->want. */
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

/* Compares the results of an instruction on random data with those of the unit that simulates
 * it. */
static void compare(int instruction, int kind, struct rng *r)
{
    struct arm_products *x = calloc(1, sizeof *x);
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
    for (int e = 0; e < M * N; e++)
        x->c[e] = any_start(r, kind);
    emulate(x);
    compare_with_unit(&(struct executed){
        .instruction = all[instruction].instruction,
        .unit = all[instruction].unit,
        .kind = kind,
        .m = M,
        .n = N,
        .k = x->head[1],
        .a = { x->a, named(all[instruction].format), MOST_K, 1 },
        .b = { x->b, named(all[instruction].format), 1, MOST_K },
        .c = x->c,
        .want = x->want,
    });
    free(x);
}

/* Each Arm instruction of the list, run in QEMU, gives the bits of the unit that simulates it. */
static void instructions_have_the_units_bits(void **state)
{
    struct rng r = { 22 };

    (void)state;
    if (!ARM_PROGRAM[0])
        skip_because("no compiler for AArch64");
    for (int i = 0; i < (int)COUNT(all); i++)
        for (int kind = 0; kind < CODE_KINDS; kind++)
            for (int turn = 0; turn < (kind ? 2 : 4); turn++)
                compare(i, kind, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_have_the_units_bits),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
