/* SPDX-License-Identifier: BSD-3-Clause
 * Tests passes by texts.  A *.lir in this folder holds
 *
 *   ; run: prune,tile               passes, in their usual order; "all" stands for every pass
 *   ; target: llvm isa=any ...      the machine
 *   the plan
 *   ; expect                        the plan after the passes, each line with "; " before it
 *   ; expect error: text            or a part of the error text
 *
 *  With LIMBER_BLESS=1 the test writes the plans that the passes leave now.  A person reads the
 * difference. */
#include "backends/backend.h"
#include "passes/passes.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A test file: a plan, the pass to run on it, and the plan to expect. */
struct trial {
    const char *path;
    char *text, *expect; /* text: the file; expect: the position of "; expect" in it */
    char run[200], target[2000];
};

/* Copies the rest of the line that begins with `key`.  Returns false if there is no such line, or
 * if it is too long. */
static bool line_of(const struct trial *t, const char *key, char *to, size_t size)
{
    const char *at = strstr(t->text, key);
    size_t n;

    if (!at || (at != t->text && at[-1] != '\n'))
        return false;
    at += strlen(key);
    n = strcspn(at, "\n");
    if (n >= size)
        return false;
    memcpy(to, at, n);
    to[n] = 0;
    return true;
}

/* Reads a file and finds its parts. */
static void open_trial(struct trial *t, const char *path)
{
    char target[sizeof t->target];

    memset(t, 0, sizeof *t);
    t->path = path;
    t->text = test_file_read(path);
    if (!t->text)
        fail_msg("%s cannot be read", path);
    t->expect = strstr(t->text, "\n; expect");
    if (!t->expect || !line_of(t, "; run: ", t->run, sizeof t->run) ||
        !line_of(t, "; target: ", target, sizeof target - 8))
        fail_msg("%s lacks \"; run: \", \"; target: \" or \"; expect\"", path);
    t->expect++;
    snprintf(t->target, sizeof t->target, "target %.1900s", target);
}

/* Runs the passes.  Writes the plan's text, or "error: ...", with "; " before every line. */
static void run_passes(const struct trial *t, struct text *out)
{
    struct target machine;
    struct plan p = { 0 };
    struct diag d = { 0 };
    struct text plan = { 0 };
    char *input = strndup(t->text, (size_t)(t->expect - t->text));
    bool ok;

    assert_non_null(input);
    if (!limber_target_parse(&machine, t->target, &d) || !limber_plan_parse(&p, input, &d) ||
        !limber_plan_verify(&p, &d))
        fail_msg("%s: %s", t->path, d.text);
    limber_target_complete(&machine);
    ok = limber_passes_run(&p, &machine, strcmp(t->run, "all") ? t->run : NULL,
                           (struct pass_watch){ 0 }, &d);
    if (ok) {
        limber_text_add(out, "; expect\n");
        limber_plan_print(&p, &plan);
    } else {
        limber_text_add(out, "; expect error: ");
        limber_text_add(&plan, "%s\n", d.text);
    }
    for (const char *s = plan.s; s && *s; s += strcspn(s, "\n"), s += *s == '\n')
        limber_text_add(out, "%s%.*s\n", ok || s != plan.s ? "; " : "", (int)strcspn(s, "\n"), s);
    limber_text_clear(&plan);
    limber_plan_clear(&p);
    free(input);
}

/* Replaces the expected outcome in the file. */
static void rewrite_expected(const struct trial *t, const char *expect)
{
    struct text all = { 0 };

    limber_text_add(&all, "%.*s%s", (int)(t->expect - t->text), t->text, expect);
    assert_false(all.failed);
    assert_int_equal(test_file_write(t->path, all.s), 0);
    limber_text_clear(&all);
}

/* True if the outcome is as expected: the plan's text is equal, or the error text contains the
 * expected one. */
static bool is_expected(const char *want, const char *have)
{
    static const char error[] = "; expect error: ";
    char piece[600];

    if (strncmp(want, error, sizeof error - 1))
        return !strcmp(want, have);
    want += sizeof error - 1;
    snprintf(piece, sizeof piece, "%.*s", (int)strcspn(want, "\n"), want);
    return !strncmp(have, error, sizeof error - 1) && strstr(have, piece) != NULL;
}

/* Runs the passes of a file and compares the outcome, or rewrites the file if LIMBER_BLESS is
 * set. */
static void check_trial(void *user, const char *path)
{
    struct text have = { 0 };
    struct trial t;

    (void)user;
    open_trial(&t, path);
    run_passes(&t, &have);
    assert_false(have.failed);
    if (!is_expected(t.expect, have.s)) {
        if (!getenv("LIMBER_BLESS"))
            fail_msg("%s: expected\n%sbut it is\n%s", path, t.expect, have.s);
        rewrite_expected(&t, have.s);
    }
    limber_text_clear(&have);
    free(t.text);
}

static void passes_leave_what_the_texts_say(void **state)
{
    (void)state;
    assert_true(test_files_each(LIMBER_TEST_DIR "/passes", "*.lir", check_trial, NULL) > 0);
}

/* ---- plans that are valid but that no caller would make -------------------------------------- */

static uint64_t seed;

static uint32_t rng(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* Replaces a few digits of a text. */
static void change_digits(char *s)
{
    for (int changes = (int)rng(3); changes >= 0; changes--) {
        size_t at = rng((uint32_t)strlen(s));

        at += strcspn(s + at, "0123456789");
        if (s[at])
            s[at] = (char)('0' + rng(10));
    }
}

/* Changes digits of plans at random.  The passes must make a valid plan, or refuse it with a
 * text that is not about an internal error. */
static void check_mutated(void *user, const char *path)
{
    size_t *ran = user;
    struct trial t;

    open_trial(&t, path);
    for (int i = 0; i < 300; i++) {
        char *input = strndup(t.text, (size_t)(t.expect - t.text));
        struct diag d = { 0 }, bad = { 0 };
        struct target machine;
        struct plan p = { 0 };

        assert_non_null(input);
        assert_true(limber_target_parse(&machine, t.target, &d));
        limber_target_complete(&machine);
        change_digits(input);
        if (limber_plan_parse(&p, input, &bad) && limber_plan_verify(&p, &bad)) {
            ++*ran;
            if (!limber_passes_run(&p, &machine, NULL, (struct pass_watch){ 0 }, &d) &&
                (d.status == LIMBER_STATUS_OK || d.status == LIMBER_STATUS_INTERNAL || !d.text[0]))
                fail_msg("%s: %s\n%s", path, d.text, input);
        }
        limber_plan_clear(&p);
        free(input);
    }
    free(t.text);
}

/* Passes on plans whose digits were changed at random make a valid plan or refuse it. */
static void passes_survive_strange_plans(void **state)
{
    const char *s = getenv("LIMBER_SEED");
    size_t ran = 0;

    (void)state;
    seed = s ? strtoull(s, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    assert_true(test_files_each(LIMBER_TEST_DIR "/passes", "*.lir", check_mutated, &ran) > 0);
    assert_true(ran > 100);
}

/* The name of a pass that does not exist is refused by name. */
static void unknown_passes_are_named(void **state)
{
    struct plan p = { 0 };
    struct target t = { .group = 1 };
    struct diag d = { 0 };

    (void)state;
    limber_plan_init(&p);
    assert_false(limber_passes_run(&p, &t, "prune,polish", (struct pass_watch){ 0 }, &d));
    assert_int_equal(d.status, LIMBER_STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(d.text, "polish"));
    limber_plan_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_leave_what_the_texts_say),
        cmocka_unit_test(passes_survive_strange_plans),
        cmocka_unit_test(unknown_passes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
