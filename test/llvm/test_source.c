/* SPDX-License-Identifier: BSD-3-Clause
 * Tests the source of kernels that dumps and `limber plan --source` show.  A C compiler compiles
 * its initialiser, whose bytes must be those of the kernel's configuration. */
#define _GNU_SOURCE
#include "backends/llvm/kernel/kernel.h"
#include "passes/passes.h"
#include "compiler.h"
#include "contexts.h"
#include "files.h"
#include "support.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_llvm;
bool limber_kernel_config(const struct plan *p, const struct target *t, struct kernel_config *k,
                          struct diag *d);
static size_t compared;

/* Compiles a source, without the kernel that it includes at its end, and returns the library. */
static void *compile(char *source)
{
    char *end = strstr(source, "};\n\n#include"), *command = NULL;
    void *library;

    assert_non_null(end);
    end[3] = 0;
    assert_int_equal(test_file_write(in_dir("kernel.c"), source), 0);
    assert_true(asprintf(&command,
                         "cc -std=gnu11 -shared -fPIC -w -I%s/.. -I%s/../include %s/kernel.c -o "
                         "%s/kernel%zu.so",
                         LIMBER_TEST_DIR, LIMBER_TEST_DIR, dir, dir, compared) > 0);
    if (system(command))
        fail_msg("%s\n%s", command, source);
    free(command);
    assert_true(asprintf(&command, "%s/kernel%zu.so", dir, compared) > 0);
    library = dlopen(command, RTLD_NOW | RTLD_LOCAL);
    free(command);
    assert_non_null(library);
    return library;
}

/* Compares the configuration of a file's plan with what its source says. */
static void check_file(void *user, const char *path)
{
    char *text = test_file_read(path);
    struct kernel_config k;
    struct text source = { 0 };
    struct plan p = { 0 };
    struct target t;
    struct diag d = { 0 };
    bool finished = strstr(text, " = products ") != NULL;
    void *library;

    (void)user;
    assert_true(limber_backend_llvm.probe(&t, &d));
    if (limber_plan_parse(&p, text, &d) &&
        limber_passes_run(&p, &t, finished ? "tile" : NULL, (struct pass_watch){ 0 }, &d) &&
        limber_kernel_config(&p, &t, &k, &d) && is_taken(compared, 2)) {
        if (!limber_backend_llvm.code->source(&p, &t, &source, &d))
            fail_msg("%s: %s", path, d.text);
        library = compile(source.s);
        if (memcmp(dlsym(library, "limber_kernel_constants"), &k, sizeof k))
            fail_msg("%s: the source says something else\n%s", path, source.s);
        dlclose(library);
    }
    compared++;
    limber_text_clear(&source);
    limber_plan_clear(&p);
    free(text);
}

static void sources_state_the_configuration(void **state)
{
    (void)state;
    if (SANITIZED || EMULATED || system("cc --version > /dev/null 2>&1"))
        skip();
    assert_true(test_files_each(LIMBER_TEST_DIR "/run", "*.lir", check_file, NULL) > 25);
}

/* The source of a plan is printed for a machine that is given by its name and is not this one. */
static void sources_for_other_machines(void **state)
{
    static const char plan[] = "plan gemm promise=correct wanted=ozaki2 kbits=8 budget=0 {\n"
                               "  %a = arg index=0 emin=-8 emax=15 spread=23 width=76 sig=53 "
                               "sign=signed special=0 : f64[m,k]\n"
                               "  %b = arg index=1 emin=-8 emax=15 spread=23 width=76 sig=53 "
                               "sign=signed special=0 : f64[k,n]\n"
                               "  %c = gemm %a %b : exact[m,n]\n"
                               "  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]\n"
                               "  ret %d\n"
                               "}\n";
    static const struct {
        const char *target, *has;
    } rows[] = { { "sm_90a", "UNIT = UNIT_i8" },
                 { "sm_70", "UNIT = UNIT_i8" },
#if defined(__x86_64__)
                 { "avx2", ".wide = 1, " },
                 { "avx512vnni", ".unit = UNIT_i8" },
#endif
                 { NULL, ".reconstruct = RECONSTRUCT_crt" } };
    limber_context *ctx = test_context("llvm", 1, 0);
    char *source;

    (void)state;
    if (!ctx)
        skip();
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (limber_plan_source(ctx, plan, rows[i].target, &source) != LIMBER_STATUS_OK)
            fail_msg("%s", limber_error_text());
        if (!strstr(source, rows[i].has))
            fail_msg("%s: no %s in\n%s", rows[i].target, rows[i].has, source);
        limber_free(source);
    }
    assert_refused(limber_plan_source(ctx, plan, "sm_99", &source), LIMBER_STATUS_BAD_ARGUMENT,
                   "target");
    assert_null(source);
    assert_refused(
        limber_plan_source(ctx, plan, "target interp isa=any group=1 rate.i8=1e8", &source),
        LIMBER_STATUS_NO_SCHEME, "makes no code");
    assert_refused(limber_plan_source(ctx, "plan {", NULL, &source), LIMBER_STATUS_BAD_ARGUMENT,
                   "plan");
    assert_refused(limber_plan_source(ctx, plan, NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT, "NULL");
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_in_dir(sources_state_the_configuration),
        cmocka_unit_test(sources_for_other_machines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
