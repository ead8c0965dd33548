/* SPDX-License-Identifier: BSD-3-Clause
 * The table of environment variables: code reads only these variables, and the documentation lists
 * them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limber/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* limber_variable_value gives the value of a variable in the table; NULL for other names and for an
 * empty value. */
static void values_are_those_of_the_table(void **state)
{
    (void)state;
    setenv("LIMBER_SCHEME", "best", 1);
    setenv("LIMBER_SCHEMA", "best", 1);
    assert_string_equal(limber_variable_value("LIMBER_SCHEME"), "best");
    assert_null(limber_variable_value("LIMBER_SCHEMA"));
    assert_null(limber_variable_value("LIMBER_SCHEM"));
    assert_null(limber_variable_value("LIMBER_"));
    assert_null(limber_variable_value("PATH"));
    assert_null(limber_variable_value(NULL));
    setenv("LIMBER_SCHEME", "", 1);
    assert_null(limber_variable_value("LIMBER_SCHEME"));
    unsetenv("LIMBER_SCHEME");
    unsetenv("LIMBER_SCHEMA");
    assert_null(limber_variable_at(-1));
}

static void gather(void *user, const char *name)
{
    strcat(strcat(user, name), " ");
}

/* Variables that begin with LIMBER_ but are not in the table are reported, and only those; a long
 * name does not overrun the buffer. */
static void misspelt_variables_are_found(void **state)
{
    char seen[400] = "", many[100];

    (void)state;
    memset(many, 'X', sizeof many);
    memcpy(many, "LIMBER_", 7);
    many[sizeof many - 1] = 0;
    for (int i = 0; limber_variable_at(i); i++)
        if (strncmp(limber_variable_at(i)->name, "LIMBER_", 7) == 0)
            setenv(limber_variable_at(i)->name, "", 0);
    limber_variable_unknown(gather, seen);
    assert_string_equal(seen, "");
    setenv("LIMBER_CACH", "1", 1);
    setenv("LIMBER_CACHE_", "1", 1);
    setenv("LIMBER", "1", 1);
    limber_variable_unknown(gather, seen);
    assert_non_null(strstr(seen, "LIMBER_CACH "));
    assert_non_null(strstr(seen, "LIMBER_CACHE_ "));
    assert_int_equal(strlen(seen), strlen("LIMBER_CACH LIMBER_CACHE_ "));
    setenv(many, "1", 1); /* the name is truncated and does not overrun the buffer */
    limber_variable_unknown(gather, seen);
    unsetenv(many);
    unsetenv("LIMBER_CACH");
    unsetenv("LIMBER_CACHE_");
    unsetenv("LIMBER");
}

/* The rows of docs/environment.md are those of the table of variables, in the same order. */
static void the_documentation_has_the_tables_rows(void **state)
{
    FILE *f = fopen(LIMBER_TEST_DIR "/../docs/environment.md", "r");
    char line[600], row[600];
    int rows = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const limber_variable *v = limber_variable_at(rows);

        if (strncmp(line, "| `", 3) != 0)
            continue;
        if (!v)
            fail_msg("no variable has the row %s", line);
        snprintf(row, sizeof row, "| `%s` | %s | %s | %s |\n", v->name, v->reader, v->meaning,
                 v->danger);
        assert_string_equal(line, row);
        rows++;
    }
    fclose(f);
    assert_null(limber_variable_at(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_table),
        cmocka_unit_test(misspelt_variables_are_found),
        cmocka_unit_test(the_documentation_has_the_tables_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
