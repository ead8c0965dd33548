/* SPDX-License-Identifier: BSD-3-Clause
 * Texts of epilogue steps: what is printed must be read again as the same steps. */
#include "ir/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void parse_steps(struct steps *s, const char *text, const char *const names[], int inputs)
{
    struct diag d = { 0 };

    if (!limber_steps_parse(s, text, names, inputs, LIMBER_F64, &d))
        fail_msg("%s\nin\n%s", d.text, text);
}

static void assert_same_steps(const struct steps *a, const struct steps *b)
{
    assert_int_equal(a->inputs, b->inputs);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const struct epilogue_step *x = &a->step[i], *y = &b->step[i];

        assert_int_equal(x->op, y->op);
        if (x->op == STEP_function)
            assert_int_equal(x->function, y->function);
        assert_memory_equal(x->operand, y->operand, sizeof x->operand);
        assert_memory_equal(x->number, y->number, sizeof x->number);
    }
}

/* Checks that steps are the same after they were printed and read again. */
static void check_round_trip(const char *text, const char *const names[], int inputs)
{
    struct steps first, second;
    struct text out = { 0 }, again = { 0 };

    parse_steps(&first, text, names, inputs);
    limber_steps_print(&out, &first, names);
    assert_false(out.failed);
    parse_steps(&second, out.s, names, inputs);
    assert_same_steps(&first, &second);
    limber_steps_print(&again, &second, names);
    assert_string_equal(out.s, again.s);
    limber_text_clear(&out);
    limber_text_clear(&again);
}

/* Printing renames results of lines, so that an input may have the name that a line had. */
static void lines_are_not_called_as_inputs(void **state)
{
    static const char text[] = "%a = add %x %IN\n%b = gelu %a\n%c = mul %b %IN\n";
    static const char *const names[] = { "_1", "_2", "_3", "_99", "__1", "_", "_1a", "1", "a_1" };
    char named[sizeof text + 32];

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        char *to = named;

        for (const char *from = text; *from;)
            if (!strncmp(from, "IN", 2)) {
                to = stpcpy(to, names[i]);
                from += 2;
            } else
                *to++ = *from++;
        *to = '\0';
        check_round_trip(named, &names[i], 1);
    }
}

/* A text with the largest number of inputs (8) survives printing and parsing, though their names
 * look like those that the printer gives to lines: underscores and a number. */
static void names_like_printed_ones_stay_distinct(void **state)
{
    static const char *const names[MOST_INPUTS] = { "________1", "_______2", "______3", "_____1",
                                                    "____2",     "___3",     "__4",     "_5" };

    (void)state;
    check_round_trip("%a = add %x %________1\n%b = add %a %_______2\n%c = add %b %______3\n"
                     "%d = add %c %_____1\n%e = add %d %____2\n%f = add %e %___3\n"
                     "%g = add %f %__4\n%h = sub %_5 %g\n",
                     names, MOST_INPUTS);
}

/* Every operation and every function, with numbers at the ends of the range, is the same after
 * it was printed and read again. */
static void all_operations_come_back(void **state)
{
    static const char *const names[] = { "bias", "_1" };
    static const char *const numbers[] = {
        "0", "-0", "inf", "-inf", "0.1", "-1e-320", "0x1p-1074", "1.7976931348623157e308"
    };
    static const char *const ops[] = { "add", "sub", "mul", "div", "max", "min" };
    char text[160];
    const char *function;
    int most, functions = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t j = 0; j < COUNT(numbers); j++) {
            snprintf(text, sizeof text, "%%y = %s %%x %s\n%%z = %s %s %%y\n%%_2 = %s %%z %%_1",
                     ops[i], numbers[j], ops[i], numbers[j], ops[i]);
            check_round_trip(text, names, 2);
        }
    for (int f = 0; (function = limber_function_at(f, NULL, &most)); f++, functions++)
        for (size_t j = 0; j < COUNT(numbers); j++) {
            const char *q = most > 1 ? " q=inf" : "";

            if (most)
                snprintf(text, sizeof text, "%%y = add %%x %%_1\n%%z = %s %%y p=%s%s", function,
                         numbers[j], q);
            else
                snprintf(text, sizeof text, "%%y = add %%x %%_1\n%%z = %s %%y", function);
            check_round_trip(text, names, 2);
        }
    assert_true(functions > 30);
}

/* All numbers of a step are rounded to binary32, also two adjacent ones, which a compiler may round
 * in one vector. */
static void numbers_are_rounded(void **state)
{
    static const char text[] = "%a = clamp %x p=-0.3 q=0.3\n%b = leaky_relu %a p=0.1\n"
                               "%c = add 0.7 0.9\n%d = add %b %c\n";
    struct steps s;
    struct diag d = { 0 };

    (void)state;
    if (!limber_steps_parse(&s, text, NULL, 0, LIMBER_F32, &d))
        fail_msg("%s", d.text);
    assert_true(s.step[0].number[0] == (double)-0.3f && s.step[0].number[1] == (double)0.3f);
    assert_true(s.step[1].number[0] == (double)0.1f);
    assert_true(s.step[2].number[0] == (double)0.7f && s.step[2].number[1] == (double)0.9f);
    if (!limber_steps_parse(&s, "%a = add %x 0\n%b = mul 0.0e7 %a\n%c = max %b -0 ; 1\n", NULL, 0,
                            LIMBER_F32, &d))
        fail_msg("%s", d.text); /* a zero must not be refused as an underflow */
    parse_steps(&s, text, NULL, 0);
    assert_true(s.step[0].number[0] == -0.3 && s.step[2].number[1] == 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_not_called_as_inputs),
        cmocka_unit_test(names_like_printed_ones_stay_distinct),
        cmocka_unit_test(all_operations_come_back),
        cmocka_unit_test(numbers_are_rounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
