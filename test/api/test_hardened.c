/* SPDX-License-Identifier: BSD-3-Clause
 * Processes that may not execute memory that they have written.  The linker wraps the system calls,
 * which then refuse.  If Linux can enforce this itself (PR_SET_MDWE), it does so in another child
 * process. */
#include "contexts.h"
#include "compiler.h"
#include "engine_support.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* What the wrapped system calls refuse.  NOTHING; CHANGES: memory that becomes executable after it
 * was written, or is writable and executable at once; ALL: all executable memory. */
static enum { NOTHING, CHANGES, ALL } refuses;
/* Number of compilations. */
static int compiled;

int __real_mprotect(void *p, size_t size, int prot);
int __wrap_mprotect(void *p, size_t size, int prot);
void *__real_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);
#if defined(LIMBER_HAVE_LLVM)
enum { BUILT = 1 };
bool __real_limber_llvm_object(const void *k, const void *t, const void *dump, void *object,
                               void *d);
bool __wrap_limber_llvm_object(const void *k, const void *t, const void *dump, void *object,
                               void *d);

bool __wrap_limber_llvm_object(const void *k, const void *t, const void *dump, void *object,
                               void *d)
{
    compiled++;
    return __real_limber_llvm_object(k, t, dump, object, d);
}
#else
enum { BUILT = 0 };
#endif

/* Replaces mprotect: refuses to make memory executable, as a hardened kernel does. */
int __wrap_mprotect(void *p, size_t size, int prot)
{
    if (prot & PROT_EXEC && refuses != NOTHING) {
        errno = EACCES;
        return -1;
    }
    return __real_mprotect(p, size, prot);
}

/* Replaces mmap: refuses executable memory, or only memory that is writable, too. */
void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset)
{
    if (prot & PROT_EXEC && (refuses == ALL || (refuses == CHANGES && prot & PROT_WRITE))) {
        errno = EACCES;
        return MAP_FAILED;
    }
    return __real_mmap(p, size, prot, flags, fd, offset);
}

static const double a[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7 }, one[4] = { 1 };
static double c[16];

static limber_matrix square(const double *p)
{
    return (limber_matrix){ p, LIMBER_F64, 4, 1 };
}

/* Checks that c is A times a matrix whose only nonzero element is 1, in the upper left corner. */
static void assert_product(void)
{
    for (int i = 0; i < 16; i++)
        assert_true(c[i] == (i % 4 ? 0 : a[i]));
}

/* Multiplies 4 x 4 doubles under a contract, or as a simulated unit if u is not NULL. */
static limber_status multiply_doubles(limber_context *ctx, limber_promise promise,
                                      const limber_unit *u, limber_report *r)
{
    static double b[16];
    limber_contract k = LIMBER_CONTRACT_INIT;

    b[0] = one[0];
    k.promise = promise;
    k.unit = u;
    memset(c, 0, sizeof c);
    return limber_gemm(ctx, &k, 4, 4, 4, NULL, square(a), square(b), NULL, output_of(square(c)), r);
}

/* Binds a function and calls it.  works: that must succeed, else executable memory must be
 * refused. */
static void bind_and_call(limber_context *ctx, bool works)
{
    static double b[16];
    int (*f)(int, int, int, const double *, int, const double *, int, double *, int);
    limber_status s = limber_bind(
        ctx, NULL, LIMBER_F64, LIMBER_F64, LIMBER_F64,
        "int(m:i32 n:i32 k:i32 a:ptr lda:i32 b:ptr ldb:i32 c:ptr ldc:i32)", (void (**)(void))&f);

    if (!works) {
        assert_refused(s, LIMBER_STATUS_NO_MEMORY, "executable memory");
        return;
    }
    assert_int_equal(s, LIMBER_STATUS_OK);
    b[0] = one[0];
    memset(c, 0, sizeof c);
    /* column-major, so that A and B are exchanged */
    assert_int_equal(f(4, 4, 4, b, 4, a, 4, c, 4), LIMBER_STATUS_OK);
    assert_product();
}

/* Fails the test if a page of the process is both writable and executable. */
static void assert_no_writable_code(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strstr(line, " rwx") || strstr(line, " -wx"))
            fail_msg("%s", line);
    fclose(f);
}

/* Generates code of every kind, in a process that has not done so before. */
static void generate_all_code(void)
{
    limber_unit u = LIMBER_UNIT_INIT;
    limber_context *ctx;
    limber_kernel kernel;
    bool may = refuses == NOTHING && compiler_here();

    assert_int_equal(
        limber_create(
            &ctx, &(limber_config){ .size = sizeof(limber_config), .threads = 1, .cache_dir = "" }),
        LIMBER_STATUS_OK);
    for (int i = 0; i < 2; i++)
        for (int promise = LIMBER_CONTRACT_NATIVE; promise <= LIMBER_CONTRACT_CORRECT; promise++) {
            if (promise == LIMBER_CONTRACT_BITS)
                continue;
            assert_int_equal(multiply_doubles(ctx, (limber_promise)promise, NULL, NULL),
                             LIMBER_STATUS_OK);
            assert_product();
        }
    for (int i = 0; i < 3; i++) {
        limber_report r = LIMBER_REPORT_INIT;
        char words[64];

        /* the first unit runs twice, so that its kernel is used again */
        snprintf(words, sizeof words, "in=bf16 acc=f32 group=%d", i / 2 + 2);
        assert_int_equal(limber_unit_parse(words, &u), LIMBER_STATUS_OK);
        assert_int_equal(multiply_doubles(ctx, LIMBER_CONTRACT_SIMULATE, &u, &r), LIMBER_STATUS_OK);
        assert_product();
        if (BUILT)
            assert_string_equal(r.backend, may ? "llvm" : "interp");
    }
    if (refuses != NOTHING && BUILT && compiler_here())
        assert_non_null(strstr(limber_fallback_reason(ctx), "executable memory"));
    assert_int_equal(limber_bind_shape(ctx, NULL, 4, 4, 4, square(a), square(a),
                                       output_of(square(c)), LIMBER_ACCUMULATE_NONE, &kernel),
                     may ? LIMBER_STATUS_OK : LIMBER_STATUS_DEVICE);
    assert_int_equal(compiled > 0, may);
    bind_and_call(ctx, refuses != ALL);
    assert_no_writable_code();
    limber_destroy(ctx);
}

/* Runs generate_all_code() in a child process, since refusals last until the process ends. */
static void run_in_child(void (*before)(void))
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        before();
        generate_all_code();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void refuse_nothing(void)
{
    refuses = NOTHING;
}

static void refuse_changes(void)
{
    refuses = CHANGES;
}

static void refuse_all(void)
{
    refuses = ALL;
}

/* PR_SET_MDWE and PR_MDWE_REFUSE_EXEC_GAIN, which older headers lack */
enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };

static void let_linux_refuse(void)
{
    refuses = CHANGES; /* generate_all_code() must expect what Linux refuses */
    if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0))
        _exit(0);
}

static void kernels_run_without_restrictions(void **state)
{
    (void)state;
    run_in_child(refuse_nothing);
}

static void written_memory_is_not_executed(void **state)
{
    (void)state;
    run_in_child(refuse_changes);
}

static void no_memory_is_executed(void **state)
{
    (void)state;
    run_in_child(refuse_all);
}

static void kernels_when_linux_refuses_executable_memory(void **state)
{
    (void)state;
    run_in_child(let_linux_refuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run_without_restrictions),
        cmocka_unit_test(written_memory_is_not_executed),
        cmocka_unit_test(no_memory_is_executed),
        cmocka_unit_test(kernels_when_linux_refuses_executable_memory),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
