/* SPDX-License-Identifier: BSD-3-Clause
 * What the engine's tests share: scratch directories, small products with known results, and a
 * backend that counts what it is asked for and leaves the work to interp. */
#ifndef LIMBER_TEST_ENGINE_SUPPORT_H
#define LIMBER_TEST_ENGINE_SUPPORT_H

#define _GNU_SOURCE
#include "calls.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jit/api/api.h"

#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAYBE_UNUSED __attribute__((unused))

static atomic_int compiles, loads, unloads;
static atomic_int compile_delay;    /* microseconds */

static bool counted_probe(struct target *t, struct diag *d)
{
    return limber_backend_interp.probe(t, d);
}

static bool counted_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                            struct blob *out, struct diag *d)
{
    compiles++;
    usleep((useconds_t)compile_delay);
    return limber_backend_interp.compile(p, t, dump, out, d);
}

static bool counted_load(const unsigned char *data, size_t size, struct kernel **k, struct diag *d)
{
    loads++;
    return limber_backend_interp.load(data, size, k, d);
}

static bool counted_launch(struct kernel *k, struct call *c, struct diag *d)
{
    return limber_backend_interp.launch(k, c, d);
}

static void counted_unload(struct kernel *k)
{
    unloads++;
    limber_backend_interp.unload(k);
}

static const struct backend counted = { "counted",    counted_probe,  counted_compile,
                                        counted_load, counted_launch, counted_unload,
                                        NULL,         NULL,           NULL };
static const struct backend *const counted_list[] = { &counted, NULL };

static MAYBE_UNUSED limber_context *counted_context(const limber_config *c)
{
    limber_context *ctx;
    struct diag d = { 0 };

    if (!limber_context_make(&ctx, c, counted_list, &d))
        fail_msg("%s", d.text);
    return ctx;
}

static MAYBE_UNUSED limber_format format(const char *name)
{
    limber_format f;

    assert_int_equal(limber_format_named(name, &f), LIMBER_STATUS_OK);
    return f;
}

/* C = A B for 3 x 4 times 4 x 2 small integers: exact in every order. */
static MAYBE_UNUSED limber_status gemm_meanwhile(limber_context *ctx, limber_on_miss on_miss,
                                                 limber_report *report)
{
    static const double want[6] = { 50, 60, 114, 140, 178, 220 };
    double a[12], b[8], c[6] = { -1, -1, -1, -1, -1, -1 };
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE,
                                       .on_miss = on_miss };
    limber_format f64 = format("f64");
    limber_status s;

    for (int i = 0; i < 12; i++)
        a[i] = i + 1;
    for (int i = 0; i < 8; i++)
        b[i] = i + 1;
    s = limber_gemm(ctx, &contract, 3, 2, 4, NULL, (limber_matrix){ a, f64, 4, 1 },
                    (limber_matrix){ b, f64, 2, 1 }, NULL, (limber_output){ c, f64, 2, 1 }, report);
    if (s == LIMBER_STATUS_OK)
        for (int i = 0; i < 6; i++)
            if (c[i] != want[i])
                return LIMBER_STATUS_INTERNAL;
    return s;
}

static MAYBE_UNUSED limber_status small_gemm(limber_context *ctx, limber_report *report)
{
    return gemm_meanwhile(ctx, LIMBER_ON_MISS_WAIT, report);
}

static MAYBE_UNUSED char *scratch(void)
{
    const char *tmp = getenv("TMPDIR");
    char *name = malloc(4096);

    assert_non_null(name);
    snprintf(name, 4096, "%s/limber-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(name));
    return name;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static MAYBE_UNUSED void discard(char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

static char *key_folder;

static void discard_key_folder(void)
{
    discard(key_folder);
}

/* What the tester's environment says does not count, and their key is left alone. */
static MAYBE_UNUSED void clear_environment(void)
{
    char key[4200];

    static const char *const names[] = {
        "LIMBER_BACKEND",       "LIMBER_THREADS", "OMP_NUM_THREADS",   "LIMBER_CACHE_DIR",
        "LIMBER_CACHE_MAXSIZE", "LIMBER_CACHE",   "LIMBER_NO_COMPILE", "LIMBER_DUMP",
        "LIMBER_VERBOSE",       "LIMBER_PIN",
    };

    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    key_folder = scratch();
    snprintf(key, sizeof key, "%s/key", key_folder);
    setenv("LIMBER_CACHE_KEY", key, 1);
    atexit(discard_key_folder);
}

#endif
