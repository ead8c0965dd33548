/* SPDX-License-Identifier: BSD-3-Clause
 * In a locale with a decimal comma, all texts are the same as in the C locale. */
#include "engine_support.h"

#include <locale.h>

/* The folder of the locales that the test makes. */
static char *locales;

/* Creates a locale with a decimal comma, since few machines have one, and switches to it.  False if
 * that is impossible. */
static bool switch_to_comma(void)
{
    char command[5000];

    locales = scratch();
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/comma.UTF-8' > /dev/null 2>&1", locales);
    if (system(command) != 0)
        return false;
    setenv("LOCPATH", locales, 1);
    return setlocale(LC_ALL, "comma.UTF-8") && strcmp(localeconv()->decimal_point, ",") == 0;
}

static void append_line(void *user, const char *line)
{
    limber_text_add(user, "%s\n", line);
}

/* Collects all texts of the library that are the same in every run. */
static void write_texts(struct text *out)
{
    enum { N = 8 };
    const limber_contract all[] = {
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 70 },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        { .size = sizeof(limber_contract),
          .promise = LIMBER_CONTRACT_FAST,
          .scheme = "ozaki1-i8",
          .slices = 4 },
        { .size = sizeof(limber_contract),
          .promise = LIMBER_CONTRACT_BITS,
          .bits = 60,
          .scheme = "native" }, /* refused, with numbers in the error text */
    };
    limber_context *ctx;
    limber_format f64 = named("f64");
    double a[N * N], c[N * N];
    limber_unit u = LIMBER_UNIT_INIT;
    char text[600];

    for (int i = 0; i < N * N; i++)
        a[i] = (i % 5 - 2) * 0.375;
    assert_int_equal(
        limber_create(
            &ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .threads = 1 }),
        LIMBER_STATUS_OK);
    for (size_t i = 0; i < COUNT(all); i++) {
        limber_matrix m = { a, f64, N, 1 }, to = { c, f64, N, 1 };
        char *plan = NULL;
        limber_part part[] = {
            { "native", .cost = 0.25, .bound = 1e-16, .seconds = 1.5, .share = 0.5 },
            { "accumulator", .cost = 0.125, .share = 0.5 },
        };
        limber_report r = LIMBER_REPORT_INIT;

        if (gemm_plan(ctx, &all[i], N, N, N, NULL, m, m, NULL, output_of(to), &plan, &r) ==
            LIMBER_STATUS_OK)
            limber_text_add(out, "%s", plan);
        else
            limber_text_add(out, "%s\n", limber_error_text());
        limber_free(plan);
        r = (limber_report){ .size = sizeof r,
                             .part_size = sizeof *part,
                             .scheme = "mixed",
                             .parts = 2,
                             .part_room = 2,
                             .part = part };
        if (limber_report_parts(&r, &plan) == LIMBER_STATUS_OK)
            limber_text_add(out, "%s", plan);
        limber_free(plan);
    }
    assert_int_equal(limber_unit_parse("in=e5m2 mul=e5m2:rz acc=(1,8,7):rn", &u), LIMBER_STATUS_OK);
    limber_text_add(out, "%s\n", limber_unit_text(&u, text, sizeof text));
    assert_int_equal(
        limber_tune(ctx, &(limber_tuning){ .size = sizeof(limber_tuning), .seconds = -0.5 }),
        LIMBER_STATUS_BAD_ARGUMENT);
    limber_text_add(out, "%s\n", limber_error_text());
    limber_destroy(ctx);
}

/* Texts of the library are the same in a locale with a decimal comma as in C's. */
static void texts_are_the_same(void **state)
{
    struct text there = { 0 }, here = { 0 };

    (void)state;
    write_texts(&there);
    /* write_texts() has not changed the locale */
    assert_string_equal(localeconv()->decimal_point, ",");
    setlocale(LC_ALL, "C");
    write_texts(&here);
    assert_non_null(setlocale(LC_ALL, "comma.UTF-8"));
    assert_true(!here.failed && here.n > 1000);
    assert_string_equal(there.s, here.s);
    limber_text_clear(&here);
    limber_text_clear(&there);
}

/* In a locale with a decimal comma, no number in a log line has a comma. */
static void times_in_log_lines_have_decimal_points(void **state)
{
    struct text lines = { 0 };
    limber_context *ctx = counted_context(&(limber_config){ .size = sizeof(limber_config),
                                                            .cache_dir = "",
                                                            .verbose = 1,
                                                            .log = append_line,
                                                            .log_user = &lines });
    limber_report r = LIMBER_REPORT_INIT;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    for (const char *s = lines.s; (s = strchr(s, ',')); s++)
        if (s[-1] >= '0' && s[-1] <= '9' && s[1] >= '0' && s[1] <= '9')
            fail_msg("%s", lines.s);
    limber_text_clear(&lines);
}

/* Tuning records that were written in one locale are read in another. */
static void tuning_records_are_read_in_any_locale(void **state)
{
    char *dir = scratch();
    const limber_config config = { .size = sizeof(limber_config), .cache_dir = dir, .threads = 1 };
    limber_tuning how = {
        .size = sizeof(limber_tuning), .seconds = 0.2, .units = "f32", .line = append_line
    };
    struct text lines[2] = { { 0 } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        limber_context *ctx;
        limber_status s;

        setlocale(LC_ALL, i ? "C" : "comma.UTF-8");
        assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        how.user = &lines[i];
        how.seconds = i ? 1e-9 : 0.2;
        s = limber_tune(ctx, &how);
        limber_destroy(ctx);
        if (s == LIMBER_STATUS_DEVICE) {
            setlocale(LC_ALL, "comma.UTF-8");
            discard(dir);
            skip_because("this backend has nothing to tune");
        }
        assert_int_equal(s, LIMBER_STATUS_OK);
    }
    assert_non_null(lines[0].s);
    for (char *line = strtok(lines[0].s, "\n"); line; line = strtok(NULL, "\n")) {
        const char *rate = strrchr(line, ' ');

        assert_non_null(rate);
        assert_null(strchr(rate, ','));
        if (lines[1].s) /* the second context reads the record and does not measure again */
            assert_null(strstr(lines[1].s, line));
    }
    setlocale(LC_ALL, "comma.UTF-8");
    limber_text_clear(&lines[0]);
    limber_text_clear(&lines[1]);
    discard(dir);
}

/* Makes a locale with a decimal comma and runs the tests in it; without one prints that they are
 * skipped. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_the_same),
        cmocka_unit_test(times_in_log_lines_have_decimal_points),
        cmocka_unit_test(tuning_records_are_read_in_any_locale),
    };
    int failed = 0;

    clear_environment();
    if (switch_to_comma())
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    else
        printf("SKIPPED: no locale with a comma can be made here (Debian: package locales)\n");
    discard(locales);
    return failed;
}
