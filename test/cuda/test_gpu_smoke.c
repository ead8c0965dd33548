/* SPDX-License-Identifier: BSD-3-Clause
 * Runs gpu_smoke on the harness with one fault planted per kernel, and checks its report.  Faults
 * affect a chosen warp and lane, so that the report's places are tested, too. */
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { TEXT = 1 << 20, WORDS = 6 };

/* Runs gpu_smoke, writes its standard output to `text` and returns its exit status. */
static int run_gpu_smoke(const char *arguments, char text[TEXT])
{
    char command[4096];
    size_t size = 0, more;
    FILE *pipe;
    int status;

    snprintf(command, sizeof command, "'%s' %s 2>/dev/null", GPU_SMOKE, arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((more = fread(text + size, 1, TEXT - 1 - size, pipe)))
        size += more;
    text[size] = 0;
    status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The simulated device's compute capability as text. */
static const char *capability_text(void)
{
    static char played[8];

    snprintf(played, sizeof played, "%d", gpu_capability());
    return played;
}

/* ---- faults must be reported where they are -------------------------------------------------- */

#define NO_FENCE \
    "    group_fence();\\n    UNROLL for (int q = 0; q < PIECES; q++)\\n        group_i8=>" \
    "    UNROLL for (int q = 0; q < PIECES; q++)\\n        group_i8"

/* words: texts that the report must contain, in this order */
static const struct fault {
    const char *cc, *kind, *what, *fault, *words[WORDS];
} faults[] = {
    { "90",
      "scan",
      "subnormals scanned as normal numbers",
      "exponent ? exponent - f.bias : unit=>1 ? exponent - f.bias : unit",
      { "\"stage\": \"scan\", \"run\": \"f32", "\"map\": \"tiles\"", "\"element\": [" } },
    { "90",
      "pack",
      "a byte of a plane of B's residues",
      "out[x] = (uint8_t)r[x];=>out[x] = (uint8_t)(r[x] ^ (S == 1 && l == 2 && warp() == 3 && "
      "lane() == 5 && x == 4));",
      { "\"stage\": \"limbs of B\", \"run\": \"positions of B", "{\"stage\": \"limbs of B\"",
        "\"map\": \"warps\", \"rows\": [\"...1....\"]",
        "\"map\": \"lanes\", \"rows\": [\".....1..........................\"]",
        "{\"element\": [12, 44], \"plane\": 2, \"tile\": [0, 0], \"warp\": 3, \"lane\": 5," } },
    { "90",
      "fp32-f",
      "a word of A's second limb",
      "out[w] = take_word<S>(x + w * (4 / s.limb.size));=>out[w] = take_word<S>(x + w * (4 / "
      "s.limb.size)) ^ (S == 0 && l == 1 && warp() == 6 && lane() == 8 && w == 3);",
      { "\"stage\": \"limbs of A\"", "\"map\": \"warps\", \"rows\": [\"......1.\"]",
        "{\"element\": [25, 6], \"plane\": 1, \"tile\": [0, 0], \"warp\": 6, \"lane\": 8," } },
    { "90",
      "int8-step",
      "the accumulators of two lanes exchanged",
      "            put(AS_TILES(d));=>            for (int x = 0; x < 4 * NJ; x++) { int32_t y = "
      "(int32_t)shuffle_xor((uint32_t)d[x], 1); d[x] = warp() == 5 && lane() >> 1 == 3 ? y : d[x]; "
      "} put(AS_TILES(d));",
      { "\"stage\": \"sums\"", "{\"stage\": \"limbs of B\", \"compared\": 8192, \"wrong\": 0}",
        "\"map\": \"warps\", \"rows\": [\"    .1......\"]",
        "\"map\": \"lanes\", \"rows\": [\"......11........................\"]",
        "{\"element\": [17, 4], \"plane\": 0, \"tile\": [0, 0], \"warp\": 5, \"lane\": 6,",
        "\"got_is\": \"B[0][6]\", \"want_is\": \"B[0][4]\"" } },
    { "90",
      "int8-steps",
      "the last step dropped",
      "        product(d, at + line * STEP, at + HELD_A=>        if (s != 8) product(d, at + line "
      "* "
      "STEP, at + HELD_A",
      { "\"stage\": \"sums\"", "\"limbs of A\", \"compared\": 147456, \"wrong\": 0}",
        "\"stage\": \"C\"", "\"got_is\": \"zero\", \"want_is\": \"B[10" } },
    { "90",
      "int8-clusters",
      "halves of B's tile exchanged between the blocks of a cluster",
      "&a.map_b, x, line + from, limb=>&a.map_b, x, line + (lines - from), limb",
      { "\"stage\": \"sums\"", "\"map\": \"tiles\", \"of\": \"sums\", \"tile\": [128, 256]",
        "\"tile\": [0, 0]", "\"got_is\": \"B[11][128]\", \"want_is\": \"B[11][0]\"" } },
    { "90",
      "reconstruct",
      "another modulus in one warp's remainders",
      "    uint32_t p = MODULUS[acc];=>    uint32_t p = MODULUS[acc ^ (acc == 3 && warp() == 6)];",
      { "\"stage\": \"remainders\"", "\"map\": \"warps\", \"rows\": [\"    ..",
        "\"plane\": 3, \"tile\": [0, 0], \"warp\": 6," } },
    { "90",
      "reconstruct",
      "one thread's second element of C",
      "        lost = reconstruct_four(r, i, j, e);=>        lost = reconstruct_four(r, i, j, e), "
      "e[1] ^= thread() == 77;",
      { "\"stage\": \"C\"", "{\"stage\": \"remainders\"", "\"wrong\": 0}",
        "{\"element\": [9, 21], \"plane\": 0, \"tile\": [0, 0], \"warp\": 2, \"lane\": 13," } },
    { "90",
      "fp32-f",
      "a lane's pair of C",
      "            store(at + 8 * x * size, out);=>            if (warp() == 7 && lane() == 17 && "
      "x "
      "== 2) set_elements(out, 3, 3); store(at + 8 * x * size, out);",
      { "\"stage\": \"C\"", "\"map\": \"warps\", \"rows\": [\"    ...1....\"]",
        "\"map\": \"lanes\", \"rows\": [\".................1..............\"]",
        "{\"element\": [52, "
        "18], \"plane\": 0, \"tile\": [0, 0], \"warp\": 7, \"lane\": 17," } },
    { "90",
      "f32-fma",
      "a sum of a lane",
      "return sum_of(&d[i * TJ + j], 0); });=>return sum_of(&d[i * TJ + j], 0) + (thread() == 179 "
      "&& "
      "i == 1 && j == 2); });",
      { "\"stage\": \"C\"", "\"rows\": [\".....1..\"]",
        "{\"element\": [70, 83], \"plane\": 0, \"tile\": [0, 0], \"warp\": 5, \"lane\": 19," } },
    { "90",
      "f64-mma",
      "sums of four products from the last to the first",
      "    int g = lane() >> 2, t = lane() & 3;\\n\\n    UNROLL for (int q = 0; q < STEP=>    int "
      "g = "
      "lane() >> 2, t = 3 - (lane() & 3);\\n\\n    UNROLL for (int q = 0; q < STEP",
      { "\"stage\": \"C\", \"run\": \"ordinary numbers, 16 x 8 x 4\"",
        "{\"operand\": \"rows of A\", \"lines\": [\"",
        "{\"order\": \"device\", \"tree\": \"[2, 3, 1, 0, 7..4:-1",
        "{\"order\": \"interpreter\", \"tree\": \"[0..31]\", \"unit\": \"" } },
    { "90",
      "unit",
      "a sum of a simulated unit's lane",
      "n.element[i][j], (double)sum[i][j]);=>n.element[i][j], (double)sum[i][j] + (thread() == 45 "
      "&& "
      "i == 0 && j == 0));",
      { "\"stage\": \"C\"",
        "{\"element\": [1, 37], \"plane\": 0, \"tile\": [0, 0], \"warp\": 1, \"lane\": 13," } },
    { "90",
      "conv-forward",
      "windows that see the pixel beside theirs",
      "+ y) * w.w + x) * w.pieces * 16 };=>+ y) * w.w + x + (x == 3)) * w.pieces * 16 };",
      { "\"stage\": \"C\"", "\"limbs of B\"", "\"wrong\": 0}",
        "of the image\", \"want_is\": \"" } },
    { "90",
      "int8-step",
      "a fence of registers left out",
      NO_FENCE,
      { "\"stage\": \"launch\"", "{\"error\": \"", "{\"plan\": \"", "\"passed\": false" } },
    { "80",
      "int8-step",
      "a lane's first row, by mma.sync",
      "            char *at = all + row * r.total_pitch=>            row += (warp() == 3 && lane() "
      "== "
      "10 && i == 1 && h == 0) ? 2048 : 0; char *at = all + row * r.total_pitch",
      { "\"stage\": \"sums\"", "\"warp\": 3, \"lane\": 10," } },
    { "100",
      "int8-step",
      "a lane's first row, by tcgen05",
      "            char *at = all + row * r.total_pitch=>            row += (warp() == 11 && "
      "lane() "
      "== 10 && i == 0 && h == 0) ? 2048 : 0; char *at = all + row * r.total_pitch",
      { "\"stage\": \"sums\"", "\"warp\": 11, \"lane\": 10," } },
};

/* With CUDA_LAUNCH_BLOCKING=1 each launch waits for its kernel, so that the error names the
 * kernel. */
static void a_failed_launch_names_its_kernel(void **state)
{
    char *text = malloc(TEXT);

    (void)state;
    if (strcmp(capability_text(), "90"))
        skip_because("only for capability 9.0");
    /* with this seed kernels begin only when the program waits for them */
    setenv("SIMT_SEED", "3", 1);
    setenv("SIMT_FAULT", NO_FENCE, 1);
    if (run_gpu_smoke("int8-step", text) != 1 ||
        !strstr(text, "{\"error\": \"copying from the device: "))
        fail_msg("no error of a wait: %.600s", text);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    if (run_gpu_smoke("int8-step", text) != 1 ||
        !strstr(text, "{\"error\": \"limber_multiply: CUDA_ERROR"))
        fail_msg("no kernel is named: %.600s", text);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    unsetenv("SIMT_FAULT");
    unsetenv("SIMT_SEED");
    free(text);
}

/* Each fault that this device's kernels contain makes the smoke test fail, and its report has
 * the expected words in order. */
static void reports_locate_planted_faults(void **state)
{
    char *text = malloc(TEXT);
    int planted = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        const struct fault *f = &faults[i];
        const char *at = text;

        if (strcmp(f->cc, capability_text()))
            continue;
        planted++;
        setenv("SIMT_FAULT", f->fault, 1);
        if (run_gpu_smoke(f->kind, text) != 1)
            fail_msg("%s: not found: %.600s", f->what, text);
        for (int w = 0; w < WORDS && f->words[w]; w++) {
            const char *found = strstr(at, f->words[w]);

            if (!found)
                fail_msg("%s: the report of %s has no %s: %.6000s", f->what, f->kind, f->words[w],
                         text);
            at = found;
        }
    }
    unsetenv("SIMT_FAULT");
    free(text);
    assert_true(planted > 0);
    print_message("%d planted faults found\n", planted);
}

/* ---- all kinds of checks --------------------------------------------------------------------- */

/* Runs all kinds of checks; the long one only if LIMBER_TEST_LONG=1. */
static void all_kinds_are_right(void **state)
{
    bool all = is_long();
    char *list = malloc(TEXT), *text = malloc(TEXT), *next = NULL;
    int kinds = 0;

    (void)state;
    assert_int_equal(run_gpu_smoke("--list", list), 0);
    for (char *kind = strtok_r(list, "\n", &next); kind; kind = strtok_r(NULL, "\n", &next)) {
        if (strcmp(kind, "long-k") == 0 && !all)
            continue;
        if (run_gpu_smoke(kind, text) != 0)
            fail_msg("%s: %.6000s", kind, text);
        if (!strstr(text, "\"passed\": true, \"runs\": ") ||
            (strstr(text, "\"compared\": 0") && !strstr(text, "\"lacks\"")))
            fail_msg("%s compares nothing: %s", kind, text);
        kinds++;
    }
    assert_true(kinds > 30);
    free(text);
    free(list);
}

/* ---- the command and its arguments ----------------------------------------------------------- */

/* The smoke test lists its stages and prints its usage; wrong arguments give status 2. */
static void arguments_are_checked(void **state)
{
    char *text = malloc(TEXT);

    (void)state;
    assert_int_equal(run_gpu_smoke("--list", text), 0);
    assert_ptr_equal(strstr(text, "attributes\nscan\npack\n"), text);
    assert_int_equal(run_gpu_smoke("--help", text), 0);
    assert_non_null(strstr(text, "gpu_smoke int8-step "));
    assert_int_equal(run_gpu_smoke("", text), 2);
    assert_int_equal(run_gpu_smoke("scan pack", text), 2);
    assert_int_equal(run_gpu_smoke("scans", text), 2);
    assert_int_equal(strlen(text), 0);
    free(text);
}

/* Without a driver the smoke test ends with status 77 (skipped) and says why in its report. */
static void a_missing_device_is_reported(void **state)
{
    char *text = malloc(TEXT), *driver_name = getenv("LIMBER_CUDA");

    (void)state;
    driver_name = strdup(driver_name);
    setenv("LIMBER_CUDA", "/nonexistent/libcuda.so", 1);
    assert_int_equal(run_gpu_smoke("scan", text), 77);
    assert_ptr_equal(strstr(text, "{\"smoke\": \"scan\", \"passed\": false, \"missing\": \""),
                     text);
    setenv("LIMBER_CUDA", driver_name, 1);
    free(driver_name);
    free(text);
}

/* With the argument `kinds`, tests that each kind passes; without it, tests the reports of planted
 * faults. */
int main(int argc, char **argv)
{
    const struct CMUnitTest kinds[] = { cmocka_unit_test(all_kinds_are_right) };
    const struct CMUnitTest reports[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(a_missing_device_is_reported),
        cmocka_unit_test(a_failed_launch_names_its_kernel),
        cmocka_unit_test(reports_locate_planted_faults),
    };

    unsetenv("LIMBER_TEST_GPU"); /* faults can be planted only on simulated devices */
    gpu_stand_ins();
    return argc > 1 && strcmp(argv[1], "kinds") == 0 ? cmocka_run_group_tests(kinds, NULL, NULL) :
                                                       cmocka_run_group_tests(reports, NULL, NULL);
}
