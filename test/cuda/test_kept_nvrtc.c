/* SPDX-License-Identifier: BSD-3-Clause
 * Tests the cache of NVRTC's output that test_cubin uses (kept_nvrtc.c): the cache returns what
 * NVRTC would for the same input, whatever the cache's folder contains. */
#define _GNU_SOURCE
#include "test/support/files.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int (*create)(void **, const char *, const char *, int, const char *const *,
                     const char *const *);
static int (*destroy)(void **);
static int (*compile)(void *, int, const char *const *);
static int (*log_size)(void *, size_t *), (*get_log)(void *, char *);
static int (*cubin_size)(void *, size_t *), (*get_cubin)(void *, char *);
static int *compiled; /* number of calls that reached the fake NVRTC */

/* NVRTC's input: a source, up to two headers (name, text) and up to two options. */
struct given {
    const char *source;
    const char *headers[2][2], *options[2];
};

/* Compiles a program and checks the cubin, and the number of compilations that reached NVRTC. */
static void expect_cubin(const struct given *g, int compilations, const char *want)
{
    const char *names[2] = { g->headers[0][0], g->headers[1][0] };
    const char *texts[2] = { g->headers[0][1], g->headers[1][1] };
    int headers = !names[0] ? 0 : names[1] ? 2 : 1, before = *compiled, result;
    int options = !g->options[0] ? 0 : g->options[1] ? 2 : 1;
    char log[300] = "", cubin[300] = "", told[320];
    size_t size;
    void *p;

    assert_int_equal(create(&p, g->source, "limber.cu", headers, texts, names), 0);
    result = compile(p, options, g->options);
    assert_int_equal(result != 0, !strcmp(g->source, "wrong"));
    assert_int_equal(log_size(p, &size), 0);
    assert_in_range(size, 1, sizeof log);
    assert_int_equal(get_log(p, log), 0);
    snprintf(told, sizeof told, "compiled %s", want);
    assert_string_equal(log, told);
    if (result == 0) {
        assert_int_equal(cubin_size(p, &size), 0);
        assert_int_equal(size, strlen(want) + 1);
        assert_int_equal(get_cubin(p, cubin), 0);
        assert_string_equal(cubin, want);
    }
    assert_int_equal(destroy(&p), 0);
    assert_int_equal(*compiled - before, compilations);
}

/* Programs that differ only in how their texts, names and options are divided have entries of
 * their own.  In the second round nothing is compiled. */
static void compiled_programs_are_cached(void **state)
{
    static const struct {
        struct given given;
        const char *want;
    } all[] = {
        { { "a", { { "h", "t" } }, { "o" } }, "a|h|t o" },
        { { "b", { { "h", "t" } }, { "o" } }, "b|h|t o" },
        { { "a", { { "g", "t" } }, { "o" } }, "a|g|t o" },
        { { "a", { { "h", "s" } }, { "o" } }, "a|h|s o" },
        { { "a", { { "h", "t" } }, { "p" } }, "a|h|t p" },
        { { "a", { { "h", "t" } }, { "o", "p" } }, "a|h|t o p" },
        { { "a", { { "h", "t" }, { "o", "p" } }, { NULL } }, "a|h|t|o|p" },
        { { "a", { { "ht", "" } }, { "o" } }, "a|ht| o" },
        { { "ah", { { "", "t" } }, { "o" } }, "ah||t o" },
        { { "a", { { NULL } }, { "h", "t" } }, "a h t" },
    };

    (void)state;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            expect_cubin(&all[i].given, !round, all[i].want);
}

/* A program that fails to compile is compiled again at the next call. */
static void failed_compilations_are_not_cached(void **state)
{
    static const struct given wrong = { "wrong", { { "h", "t" } }, { "o" } };

    (void)state;
    expect_cubin(&wrong, 1, "wrong|h|t o");
    expect_cubin(&wrong, 1, "wrong|h|t o");
}

/* An entry with any byte changed, of any shorter length or one byte longer is compiled again and
 * replaced. */
static void damaged_entries_are_recompiled(void **state)
{
    static const struct given given = { "a", { { "h", "t" } }, { "o" } };
    unsigned char bytes[1000], again[1000];
    const char *path;
    size_t size;

    (void)state;
    expect_cubin(&given, 1, "a|h|t o");
    path = only_file();
    size = slurp(path, bytes, sizeof bytes);
    for (size_t at = 0; at < 2 * size; at++) {
        unsigned char bad[sizeof bytes];

        memcpy(bad, bytes, size);
        if (at < size)
            bad[at] ^= 0x41;
        spill(path, bad, at < size ? size : at - size);
        expect_cubin(&given, 1, "a|h|t o");
        assert_int_equal(slurp(only_file(), again, sizeof again), size);
        assert_memory_equal(again, bytes, size);
    }
    spill(path, bytes, size + 1);
    expect_cubin(&given, 1, "a|h|t o");
    expect_cubin(&given, 0, "a|h|t o");
}

/* If the cache's folder does not exist, or no folder is named, each call compiles. */
static void without_a_folder_nothing_is_cached(void **state)
{
    static const struct given given = { "a", { { "h", "t" } }, { "o" } };

    (void)state;
    setenv("LIMBER_TEST_CUBINS", "/nonexistent/folder", 1);
    expect_cubin(&given, 1, "a|h|t o");
    unsetenv("LIMBER_TEST_CUBINS");
    expect_cubin(&given, 1, "a|h|t o");
}

/* Loads the library that caches NVRTC's output, and the fake NVRTC that it calls, and finds
 * their functions. */
static int set_up(void **state)
{
    /* kept_nvrtc opens this library again by the name libnvrtc.so */
    void *fake = dlopen(FAKE_NVRTC, RTLD_NOW | RTLD_LOCAL);
    void *kept = dlopen(KEPT_NVRTC, RTLD_NOW | RTLD_LOCAL);

    (void)state;
    assert_non_null(fake);
    assert_non_null(kept);
    compiled = dlsym(fake, "fake_compiled");
    *(void **)&create = dlsym(kept, "nvrtcCreateProgram");
    *(void **)&destroy = dlsym(kept, "nvrtcDestroyProgram");
    *(void **)&compile = dlsym(kept, "nvrtcCompileProgram");
    *(void **)&log_size = dlsym(kept, "nvrtcGetProgramLogSize");
    *(void **)&get_log = dlsym(kept, "nvrtcGetProgramLog");
    *(void **)&cubin_size = dlsym(kept, "nvrtcGetCUBINSize");
    *(void **)&get_cubin = dlsym(kept, "nvrtcGetCUBIN");
    return 0;
}

static int make_folder(void **state)
{
    return make_dir(state) || setenv("LIMBER_TEST_CUBINS", dir, 1);
}

#define unit_test_with_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(compiled_programs_are_cached),
        unit_test_with_folder(failed_compilations_are_not_cached),
        unit_test_with_folder(damaged_entries_are_recompiled),
        unit_test_with_folder(without_a_folder_nothing_is_cached),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
