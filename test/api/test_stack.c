/* SPDX-License-Identifier: BSD-3-Clause
 * Tests with small stacks: every public call, with its kernel compiled, loaded from disk and in
 * memory, runs in a thread with a stack of 48 KiB, and on a stack that the program allocated.
 * Stacks are filled with a pattern to measure how much is used. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Under sanitizers frames are larger, and threads use more stack at their start. */
enum { STACK = SANITIZED ? 176 << 10 : 48 << 10, GUARD = 1 << 16, PAINT = 0xa5 };

static unsigned char *stack; /* follows an inaccessible page */

/* A call to make on a small stack, and its results. */
struct stack_call {
    const struct every_call *call;
    const char *backend, *folder;
    /* results of three calls: one whose kernel is compiled, one that reads it from disk, one that
     * finds it in memory */
    limber_status status[3];
    char text[256];
};

/* Makes the call three times: once in a first context, and twice in a second one. */
static void make_calls(struct stack_call *e)
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

static void *thread_entry(void *arg)
{
    make_calls(arg);
    return NULL;
}

static ucontext_t here, there;
static struct stack_call *call_of_context;

static void context_entry(void)
{
    make_calls(call_of_context);
}

/* Bytes of the stack that were used. */
static size_t stack_bytes_used(void)
{
    size_t i = 0;

    while (i < STACK && stack[i] == PAINT)
        i++;
    return STACK - i;
}

/* Runs the call in a thread whose stack is the small one of the test. */
static void run_in_thread(struct stack_call *e)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstack(&attr, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, thread_entry, e), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

/* Runs the call on the test's small stack, in this thread. */
static void run_on_own_stack(struct stack_call *e)
{
    call_of_context = e;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, context_entry, 0);
    swapcontext(&here, &there);
}

static void (*run_on_stack)(struct stack_call *e);

/* Makes the calls on a stack that is filled with a pattern.  Fails the test unless they succeed
 * without using all of it. */
static void measure(const char *backend, const char *folder, const struct every_call *call)
{
    struct stack_call e = { call, backend, folder, .text = "" };

    memset(stack, PAINT, STACK);
    run_on_stack(&e);
    for (int j = 0; j < 3; j++)
        if (e.status[j])
            fail_msg("%s, %s, %d: %s", backend, call->name, j, e.text);
    print_message("%s, %s: %zu bytes\n", backend, call->name, stack_bytes_used());
    assert_true(stack_bytes_used() < STACK);
}

/* Measures each call on a stack of STACK bytes with a page that cannot be accessed below it. */
static void for_each_call(void (*on)(struct stack_call *e))
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
    for_each_call(run_in_thread);
}

static void stacks_of_the_programs(void **state)
{
    (void)state;
    if (SANITIZED)
        skip_because("sanitizers do not support switching stacks");
    for_each_call(run_on_own_stack);
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
