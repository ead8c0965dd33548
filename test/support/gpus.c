/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpus.h"

#include "limber/limber.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int gpu_is_missing(void)
{
    const limber_config device = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_context *ctx;

    if (!getenv("LIMBER_TEST_GPU"))
        return 0;
    if (limber_create(&ctx, &device)) {
        fprintf(stderr, "skipped: %s\n", limber_error_text());
        return 77;
    }
    limber_destroy(ctx);
    return 0;
}

void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg)
{
    int capability = getenv("SIMT_CC") ? atoi(getenv("SIMT_CC")) : 90;

    if (getenv("LIMBER_TEST_GPU"))
        skip();
    for (size_t i = 0; i < count; i++) {
        pid_t child;
        int status;

        if (fault[i].capability != capability)
            continue;
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("SIMT_FAULT", fault[i].fault, 1);
            _exit(run(arg));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: not found (%d)", fault[i].what, WEXITSTATUS(status));
    }
}
