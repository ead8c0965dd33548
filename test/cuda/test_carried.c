/* SPDX-License-Identifier: BSD-3-Clause
 * Tests folders of precompiled cubins (backends/cuda/cubins.c): a lookup finds the program's own
 * cubin or none. */
#define _GNU_SOURCE
#include "contexts.h"
#include "backends/cuda/driver.h"
#include "test/support/files.h"
#include "test/support/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIDE = 24 };

#define CUBIN(text) \
    &(struct blob) \
    { \
        (unsigned char[]){ text }, sizeof text \
    }

static const struct cuda_header headers[] = { { "h", "t" }, { "g", "s" } };
static const char *const options[] = { "--gpu-architecture=sm_90a", "-x" };
static const struct cuda_program a = { "a", headers, "sm_90a", options, 2, 2 };

/* Checks that the folder's cubin for this program is `want`, or that there is none if `want` is
 * NULL. */
static void expect_cubin(const struct cuda_program *p, const struct blob *want)
{
    struct blob found = { 0 };

    assert_int_equal(limber_cubin_find(p, &found), want != NULL);
    if (want) {
        assert_int_equal(found.size, want->size);
        assert_memory_equal(found.data, want->data, want->size);
    }
    free(found.data);
}

/* Stores cubins of a program and of eight programs that differ from it in one thing (name,
 * header, option, architecture, or their numbers): each program finds only its own cubin. */
static void a_program_gets_its_own_cubin(void **state)
{
    static const struct cuda_header other_text[] = { { "h", "t" }, { "g", "r" } };
    static const struct cuda_header other_name[] = { { "h", "t" }, { "f", "s" } };
    static const struct cuda_header joined[] = { { "h", "tg" }, { "", "s" } };
    static const char *const other_option[] = { "--gpu-architecture=sm_90a", "-y" };
    static const struct cuda_program others[] = {
        { "b", headers, "sm_90a", options, 2, 2 },
        { "a", other_text, "sm_90a", options, 2, 2 },
        { "a", other_name, "sm_90a", options, 2, 2 },
        { "a", joined, "sm_90a", options, 2, 2 },
        { "a", headers, "sm_90a", options, 1, 2 },
        { "a", headers, "sm_90a", other_option, 2, 2 },
        { "a", headers, "sm_90a", options, 2, 1 },
        { "a", headers, "sm_90", options, 2, 2 },
    };
    const struct blob *mine = CUBIN("mine");

    (void)state;
    expect_cubin(&a, NULL);
    limber_cubin_keep(&a, 13, 0, mine);
    expect_cubin(&a, mine);
    for (size_t i = 0; i < COUNT(others); i++) {
        expect_cubin(&others[i], NULL);
        limber_cubin_keep(&others[i], 13, 0, CUBIN("other"));
        expect_cubin(&others[i], CUBIN("other"));
    }
    expect_cubin(&a, mine);
}

/* Flips every bit of a stored cubin, cuts it at every length, appends a byte, and puts a FIFO in
 * its place: the cubin must not be found. */
static void damaged_cubins_are_refused(void **state)
{
    const struct blob *mine = CUBIN("bytes of a cubin");
    unsigned char bytes[400], bad[400];
    const char *path;
    size_t size;

    (void)state;
    limber_cubin_keep(&a, 13, 0, mine);
    path = only_file();
    size = slurp(path, bytes, sizeof bytes);
    assert_in_range(size, 100, sizeof bytes - 1);
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bad, bytes, size);
            bad[at] ^= (unsigned char)(1 << bit);
            spill(path, bad, size);
            expect_cubin(&a, NULL);
        }
    for (size_t cut = 0; cut < size; cut++) {
        spill(path, bytes, cut);
        expect_cubin(&a, NULL);
    }
    spill(path, bytes, size + 1);
    expect_cubin(&a, NULL);
    spill(path, bytes, size);
    expect_cubin(&a, mine);
    /* no process writes to the FIFO, so that a blocking read would hang */
    assert_int_equal(unlink(path) || mkfifo(path, 0600), 0);
    expect_cubin(&a, NULL);
}

/* Looks up a cubin twice for each of `count` programs, in a child process.  The child must print
 * one line that contains `want`, or nothing if `want` is empty. */
static void check_message(const char *want, const struct cuda_program *p, int count)
{
    char said[1000] = "";
    int ends[2], status;
    size_t size = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        for (int i = 0; i < count; i++)
            for (int again = 0; again < 2; again++) {
                struct blob found = { 0 };

                if (limber_cubin_find(&p[i], &found))
                    _exit(1);
            }
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + size, sizeof said - 1 - size)) > 0;)
        size += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, want));
    assert_ptr_equal(strchr(said, '\n'), *want ? said + size - 1 : NULL);
}

/* If a cubin is too new, missing or no cubin, or the folder does not exist, one message tells
 * the reason. */
static void missing_cubins_are_reported_once(void **state)
{
    static const struct cuda_program twice[] = { { "a", headers, "sm_80", options, 2, 2 },
                                                 { "b", headers, "sm_80", options, 2, 2 } };

    (void)state;
    limber_cubin_keep(&a, 14, 2, CUBIN("too new"));
    unsetenv("LIMBER_KEEP_CUBINS");
    check_message("newer than the driver", &a, 1);
    check_message("no cubin there is for sm_80", twice, 2);
    /* while a folder is being filled, missing cubins give no message */
    setenv("LIMBER_KEEP_CUBINS", dir, 1);
    check_message("", twice, 2);
    limber_cubin_keep(&a, 13, 2, CUBIN("as new as the driver"));
    expect_cubin(&a, CUBIN("as new as the driver"));
    spill(only_file(), (const unsigned char *)"something else\n", 15);
    check_message("is no cubin of Limber's", &a, 1);
    unsetenv("LIMBER_KEEP_CUBINS");
    setenv("LIMBER_CUBINS", "/nonexistent/folder", 1);
    check_message("LIMBER_CUBINS=/nonexistent/folder: No such file", &a, 1);
    setenv("LIMBER_CUBINS", dir, 1);
    setenv("LIMBER_KEEP_CUBINS", dir, 1);
}

/* Without LIMBER_KEEP_CUBINS no cubin is stored; without LIMBER_CUBINS none is found. */
static void without_the_variables_no_cubin_is_stored(void **state)
{
    (void)state;
    unsetenv("LIMBER_KEEP_CUBINS");
    limber_cubin_keep(&a, 13, 0, CUBIN("mine"));
    expect_cubin(&a, NULL);
    setenv("LIMBER_KEEP_CUBINS", dir, 1);
    limber_cubin_keep(&a, 13, 0, CUBIN("mine"));
    expect_cubin(&a, CUBIN("mine"));
    unsetenv("LIMBER_CUBINS");
    expect_cubin(&a, NULL);
    setenv("LIMBER_CUBINS", dir, 1);
}

/* Multiplies matrices in device memory in a new context and checks the product.  The call needs at
 * least two kernels, since the scan is one, too. */
static limber_status multiply_and_check(const double x[SIDE * SIDE], double to[SIDE * SIDE],
                                        void **state)
{
    const limber_format f64 = LIMBER_F64;
    const size_t bytes = SIDE * SIDE * sizeof *x;
    struct gpu_buffer a, c;
    limber_status s;

    assert_int_equal(gpu_open(state), 0);
    a = gpu_upload_new(x, bytes);
    c = gpu_upload_new(to, bytes);
    s = limber_gemm(cuda, &correct, SIDE, SIDE, SIDE, NULL,
                    (limber_matrix){ (void *)a.at, f64, SIDE, 1 },
                    (limber_matrix){ (void *)a.at, f64, 1, SIDE }, NULL,
                    (limber_output){ (void *)c.at, f64, SIDE, 1 }, NULL);

    gpu_download(to, c);
    gpu_free(a);
    gpu_free(c);
    gpu_close(state);
    return s;
}

/* Callback of functions that count a folder's files; does nothing with them. */
static void ignore_file(void *user, const char *path)
{
    (void)user, (void)path;
}

/* With a complete folder of cubins, products are computed although no compiler may run. */
static void cubins_of_the_folder_need_no_compiler(void **state)
{
    double x[SIDE * SIDE], got[3][SIDE * SIDE];
    char *made = scratch();

    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (i * 37 % 101 - 50) / 7.0;
    for (int i = 0; i < 3; i++)
        memset(got[i], i + 1, sizeof got[i]);
    assert_int_equal(multiply_and_check(x, got[0], state), LIMBER_STATUS_OK);
    assert_true(test_files_each(dir, "*.cubin", ignore_file, NULL) >= 2);
    setenv("LIMBER_NO_COMPILE", "1", 1);
    /* if NVRTC compiled a kernel, its cubin would be stored there */
    setenv("LIMBER_KEEP_CUBINS", made, 1);
    assert_int_equal(multiply_and_check(x, got[1], state), LIMBER_STATUS_OK);
    assert_memory_equal(got[0], got[1], sizeof *got);
    unsetenv("LIMBER_CUBINS");
    assert_refused(multiply_and_check(x, got[2], state), LIMBER_STATUS_DEVICE,
                   "LIMBER_NO_COMPILE is set and no cache holds");
    memset(x, 3, sizeof x);
    assert_memory_equal(got[2], x, sizeof x);
    assert_int_equal(test_files_each(made, "*", ignore_file, NULL), 0);
    unsetenv("LIMBER_NO_COMPILE");
    setenv("LIMBER_CUBINS", dir, 1);
    setenv("LIMBER_KEEP_CUBINS", dir, 1);
    discard(made);
}

static int set_up(void **state)
{
    return make_dir(state) || setenv("LIMBER_CUBINS", dir, 1) ||
           setenv("LIMBER_KEEP_CUBINS", dir, 1);
}

#define unit_test_with_folders(test) cmocka_unit_test_setup_teardown(test, set_up, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* runs first, because a forked child does not repeat messages that this process has
         * printed */
        unit_test_with_folders(missing_cubins_are_reported_once),
        unit_test_with_folders(a_program_gets_its_own_cubin),
        unit_test_with_folders(damaged_cubins_are_refused),
        unit_test_with_folders(without_the_variables_no_cubin_is_stored),
        unit_test_with_folders(cubins_of_the_folder_need_no_compiler),
    };

    gpu_stand_ins();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
