/* SPDX-License-Identifier: BSD-3-Clause
 * When the compiler is opened, libLLVM must register all destructors that kernels need.  A later
 * destructor would run, at the end of the process, before Limber's function that waits for
 * compilations.  Each machine is tested in a process of its own, in which libLLVM has not been
 * opened before. */
#define _GNU_SOURCE     /* for RTLD_NEXT */
#include "support.h"

#include "compiler.h"
#include "files.h"
#include "plans.h"
#include "settings.h"
#include "targets.h"

#include "passes/passes.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct backend limber_backend_llvm;
struct code_range limber_llvm_code(void);

enum { PART = 16 }; /* one plan file in PART is compiled for each machine */
enum { FINE = 0, LATE = 1, BROKEN = 2, NO_COMPILER = 77 };

/* ---- counting libLLVM's registrations -------------------------------------------------------- */

static int registered; /* number of destructors that libLLVM has registered since it was opened */
static uintptr_t last;

int __cxa_atexit(void (*function)(void *), void *arg, void *library);

/* Replaces the C library's __cxa_atexit, and counts libLLVM's registrations. */
__attribute__((visibility("default"))) int __cxa_atexit(void (*function)(void *), void *arg,
                                                        void *library)
{
    static int (*real)(void (*)(void *), void *, void *);
    const struct code_range code = limber_llvm_code();
    uintptr_t at = (uintptr_t)__builtin_return_address(0);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "__cxa_atexit");
    if (at >= code.from && at < code.to) {
        registered++;
        last = at - code.from;
    }
    return real(function, arg, library);
}

/* ---- compiling kernels for all machines ------------------------------------------------------ */

/* The kernels compiled for one target; late: those after which libLLVM had registered
 * destructors. */
struct compilations {
    struct target target;
    size_t number, seen; /* number: index of the target; seen: number of plan files seen so far */
    int compiled, late;
};

/* Counts a compiled kernel, and reports it if libLLVM registered destructors since `before`, the
 * number of registrations before the compilation. */
static void count_registration(struct compilations *r, const char *what, int before)
{
    r->compiled++;
    if (registered == before)
        return;
    r->late++;
    printf("%s, %s: %d destructors, the last from libLLVM's code at %#lx\n", r->target.isa, what,
           registered - before, (unsigned long)last);
}

/* Compiles the plan of a file.  A plan that the machine does not support is skipped. */
static void compile_file(void *user, const char *path)
{
    struct compilations *r = user;
    char *text = test_file_read(path);
    struct plan p = { 0 };
    struct blob blob = { 0 };
    struct diag d = { 0 };
    int before = registered;

    if (text && r->seen++ % PART == r->number % PART && limber_plan_parse(&p, text, &d) &&
        limber_plan_verify(&p, &d) &&
        limber_passes_run(&p, &r->target, strstr(text, " = products ") ? "tile" : NULL,
                          (struct pass_watch){ 0 }, &d) &&
        limber_backend_llvm.compile(&p, &r->target, NULL, &blob, &d))
        count_registration(r, strrchr(path, '/') + 1, before);
    limber_plan_clear(&p);
    free(blob.data);
    free(text);
}

static void ignore_dump(void *user, const char *name, const char *data, size_t size)
{
    (void)user, (void)name, (void)data, (void)size;
}

/* Compiles functions for fixed shapes.  They are also dumped, since dumps use further code of
 * libLLVM. */
static void compile_functions(struct compilations *r)
{
    const struct dump dump = { .file = ignore_dump };
    static const char *const formats[] = { "f64", "f32" };

    for (int i = 0; i < 4; i++) {
        const struct fixed f = { 5, 7, 3 + 6 * i, { 64, 1 }, { 64, 1 }, { 64, 1 }, i % 2 };
        const struct mask none = { 0 };
        struct blob blob = { 0 };
        struct diag d = { 0 };
        struct plan p;
        int before = registered;

        build_plan(&p, &(struct planned){ LIMBER_CONTRACT_NATIVE, "native", named(formats[i / 2]),
                                          named(formats[i / 2]), &none, &none, 5, false });
        if (limber_passes_run(&p, &r->target, NULL, (struct pass_watch){ 0 }, &d) &&
            limber_backend_llvm.cpu->fixed->compile(&p, &r->target, &f, &dump, &blob, &d))
            count_registration(r, "a function", before);
        limber_plan_clear(&p);
        free(blob.data);
    }
}

/* Compiles a part of the test's plans, and some functions for fixed shapes, for a target.  Returns
 * the child process's exit status. */
static int compile_all(size_t number)
{
    struct compilations r = { .number = number };
    struct diag d = { 0 };

    if (!limber_target_parse(&r.target, targets[number].text, &d))
        return BROKEN;
    limber_backend_llvm.code->open(&r.target);
    if (!compiler_here())
        return NO_COMPILER;
    test_files_each(LIMBER_TEST_DIR "/run", "*.lir", compile_file, &r);
    compile_functions(&r);
    printf("%s: %d compiled\n", r.target.isa, r.compiled);
    /* libLLVM may have been built without a foreign target */
    if (r.compiled < 5 && !(r.compiled == 0 && is_foreign(&r.target)))
        return BROKEN;
    return r.late ? LATE : FINE;
}

/* Each target is tested in a child process, in which libLLVM registers its destructors anew. */
static void kernels_register_no_destructors(void **state)
{
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
            status = compile_all(i);
            fflush(stdout);
            _exit(status);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_COMPILER)
            skip_because("no compiler");
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}

/* libLLVM registers functions for the program's exit while it is opened.  The test's counter
 * must see these registrations. */
static void opening_is_counted(void **state)
{
    struct target target;
    struct diag d = { 0 };

    (void)state;
    need_compiler();
    if (!limber_backend_llvm.probe(&target, &d))
        skip_because("no compiler for this CPU");
    limber_backend_llvm.code->open(&target);
    assert_true(registered > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_register_no_destructors),
        cmocka_unit_test(opening_is_counted),
    };

    settings_from_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
