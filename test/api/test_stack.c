/* SPDX-License-Identifier: BSD-3-Clause
 * Small stacks: every public call, with its kernel compiled, loaded from disk and in memory, runs
 * in a thread with a stack of 48 KiB and on a stack that the program allocated.  Stacks are painted
 * to measure their use. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Under sanitizers frames are larger, and threads use more at their start. */
enum { STACK = SANITIZED ? 176 << 10 : 48 << 10, GUARD = 1 << 16, PAINT = 0xa5 };

static unsigned char *stack;    /* above a guard page */

struct errand {
    const struct every_call *call;
    const char *backend, *folder;
    limber_status status[3];    /* for a kernel that is compiled, on disk, in memory */
    char text[256];
};

/* Creates a context for each status; the last one makes two calls. */
static void run_errand(struct errand *e)
{
    limber_context *ctx;

    for (int i = 0; i < 2; i++) {
        e->status[i] = open_context(&ctx, e->backend, e->folder);
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

static void (*run_on_stack)(struct errand *e);

/* Makes a call on a painted stack, and fails if it used more than it may. */
static void measure(const char *backend, const char *folder, const struct every_call *call)
{
    struct errand e = { call, backend, folder, .text = "" };

    memset(stack, PAINT, STACK);
    run_on_stack(&e);
    for (int j = 0; j < 3; j++)
        if (e.status[j])
            fail_msg("%s, %s, %d: %s", backend, call->name, j, e.text);
    print_message("%s, %s: %zu bytes\n", backend, call->name, used());
    assert_true(used() < STACK);
}

static void for_each_call(void (*on)(struct errand *e))
{
    unsigned char *memory =
        mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory, GUARD, PROT_NONE), 0);
    stack = memory + GUARD;
    run_on_stack = on;
    each_call(measure);
    munmap(memory, GUARD + STACK);
}

static void threads_with_small_stacks(void **state)
{
    (void)state;
    for_each_call(on_thread);
}

static void stacks_of_the_programs(void **state)
{
    (void)state;
    if (SANITIZED)              /* sanitizers do not support switching stacks */
        skip();
    for_each_call(on_own_stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_with_small_stacks),
        cmocka_unit_test(stacks_of_the_programs),
    };

    fill_operands();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
