/* SPDX-License-Identifier: BSD-3-Clause
 * Transposes up to sixteen lines by the code of each available instruction set: every element must
 * be in its place, and nothing else may be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#include <string.h>

#include "backends/llvm/kernel/kernel.h"
#include "ir/cpu.h"

enum { LINES = 16, LONGEST = 64, ROW = 17 * 8 };

static unsigned char line[LINES][LONGEST * 8], to[LONGEST * ROW + 64];

/* Transposes `count` elements of `size` bytes of each line to rows that are `stride` bytes
 * apart. */
static void check_transpose(kernel_transpose *code, int size, int lanes, int64_t stride,
                            int64_t count)
{
    const char *at[LINES];

    for (int l = 0; l < LINES; l++)
        at[l] = (const char *)line[l < lanes ? l : lanes - 1];
    memset(to, 0xee, sizeof to);
    code(at, size, lanes, (char *)to, stride, count);
    for (int64_t p = 0; p < count; p++) {
        const unsigned char *row = to + p * stride;

        for (int l = 0; l < lanes; l++)
            if (memcmp(row + l * size, line[l] + p * size, (size_t)size) != 0)
                fail_msg("size %d, %d lanes, stride %d: element %d of line %d", size, lanes,
                         (int)stride, (int)p, l);
        for (int64_t b = lanes * size; b < stride; b++)
            if (row[b] != 0xee)
                fail_msg("size %d, %d lanes: row %d has %d bytes too many", size, lanes, (int)p,
                         (int)(b - lanes * size + 1));
    }
    for (size_t b = (size_t)(count * stride); b < sizeof to; b++)
        assert_int_equal(to[b], 0xee);
}

/* Tries all numbers of lines, with and without padding between rows. */
static void all_shapes(kernel_transpose *code)
{
    static const int64_t counts[] = { 0, 16, 32, 64 };

    for (int size = 4; size <= 8; size += 4)
        for (int lanes = 1; lanes <= LINES; lanes++)
            for (size_t i = 0; i < COUNT(counts); i++) {
                check_transpose(code, size, lanes, (int64_t)lanes * size, counts[i]);
                check_transpose(code, size, lanes, ROW, counts[i]);
            }
}

/* The code of each instruction set that this CPU has transposes lines of all lengths. */
static void lines_are_transposed(void **state)
{
    struct rng r = { 11 };

    (void)state;
    for (int l = 0; l < LINES; l++)
        for (size_t i = 0; i < sizeof line[l]; i++)
            line[l][i] = (unsigned char)rng_next(&r);
    all_shapes(LIMBER_CODE(limber_cpu_here(), limber_transpose));
#define TRY(isa, ...) \
    if (!(NEEDS_##isa & ~limber_cpu_here())) \
        all_shapes(limber_transpose_##isa);
    LIMBER_FALLBACK(TRY, )
#undef TRY
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lines_are_transposed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
