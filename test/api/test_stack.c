/* SPDX-License-Identifier: BSD-3-Clause
 * Small stacks: every public call, its kernel made, found on disk and in memory, by a thread with a
 * stack of 48 KiB and on a stack of the program's own making.  Both are painted, so that what a
 * call takes is measured. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { STACK = 176 << 10 };     /* frames are larger, and threads begin with more */
#else
enum { STACK = 48 << 10 };
#endif
enum { GUARD = 1 << 16, PAINT = 0xa5 };

static unsigned char *stack;    /* above a page that nobody may touch */

struct errand {
    const struct every_call *call;
    const char *backend, *dir;
    limber_status status[3];    /* made, on disk, in memory */
    char text[256];
};

/* Each time a context, the last time two calls of it. */
static void run_errand(struct errand *e)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = e->backend,
                                   .threads = 2,
                                   .cache_dir = e->dir,
                                   .dump_dir = "" };
    limber_context *ctx;

    for (int i = 0; i < 2; i++) {
        e->status[i] = limber_create(&ctx, &config);
        for (int j = i; j < 2 * i + 1 && !e->status[i]; j++) {
            reset();
            e->status[j] = e->call->call(ctx);
            if (e->status[j])
                snprintf(e->text, sizeof e->text, "%s", limber_error_text());
        }
        limber_destroy(ctx);
    }
}

static void *thread_errand(void *arg)
{
    run_errand(arg);
    return NULL;
}

static ucontext_t here, there;
static struct errand *of_context;

static void context_errand(void)
{
    run_errand(of_context);
}

static size_t used(void)
{
    size_t i = 0;

    while (i < STACK && stack[i] == PAINT)
        i++;
    return STACK - i;
}

static void on_thread(struct errand *e)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstack(&attr, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, thread_errand, e), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

static void on_own_stack(struct errand *e)
{
    of_context = e;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, context_errand, 0);
    swapcontext(&here, &there);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static void each(void (*on)(struct errand *e))
{
    unsigned char *memory =
        mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory, GUARD, PROT_NONE), 0);
    stack = memory + GUARD;
    fill_operands();
    for (int k = 0; limber_backends[k]; k++)
        for (size_t i = 0; i < COUNT(calls); i++) {
            char dir[] = "/tmp/limber-stack-XXXXXX";
            struct errand e = { .call = &calls[i],
                                .backend = limber_backends[k]->name,
                                .dir = dir };
            limber_context *ctx;

            if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                      .backend = e.backend,
                                                      .threads = 1,
                                                      .cache_dir = "" }))
                break;
            limber_destroy(ctx);
            assert_non_null(mkdtemp(dir));
            memset(stack, PAINT, STACK);
            on(&e);
            for (int j = 0; j < 3; j++)
                if (e.status[j])
                    fail_msg("%s, %s, %d: %s", e.backend, calls[i].name, j, e.text);
            print_message("%s, %s: %zu bytes\n", e.backend, calls[i].name, used());
            assert_true(used() < STACK);
            nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        }
    munmap(memory, GUARD + STACK);
}

static void threads_with_small_stacks(void **state)
{
    (void)state;
    each(on_thread);
}

static void stacks_of_the_programs(void **state)
{
    (void)state;
#ifdef SANITIZED                /* does not know of stacks that change */
    skip();
#endif
    each(on_own_stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_with_small_stacks),
        cmocka_unit_test(stacks_of_the_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
