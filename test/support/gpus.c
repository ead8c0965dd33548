/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpus.h"
#include "settings.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

limber_context *reference, *cuda;
struct driver driver;
#define CONTRACT(promised) .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_##promised
const limber_contract native = { CONTRACT(NATIVE) };
const limber_contract plain = { CONTRACT(NATIVE), .scheme = "native" };
const limber_contract reproducible = { CONTRACT(REPRODUCIBLE) };
const limber_contract correct = { CONTRACT(CORRECT) };
const limber_contract exact = { CONTRACT(EXACT) };

static limber_status open_context(limber_context **ctx, const char *backend)
{
    return limber_create(
        ctx,
        &(limber_config){ .size = sizeof(limber_config), .backend = backend, .cache_dir = "" });
}

int gpu_is_missing(void)
{
    limber_context *ctx;

    if (!getenv("LIMBER_TEST_GPU"))
        return 0;
    if (open_context(&ctx, "cuda")) {
        fprintf(stderr, "skipped: %s\n", limber_error_text());
        return 77;
    }
    limber_destroy(ctx);
    return 0;
}

void gpu_stand_ins(void)
{
    settings_from_environment();
    if (getenv("LIMBER_TEST_GPU"))
        return;
    setenv("LIMBER_CUDA", SIMT_CUDA, 1);
    setenv("LIMBER_NVRTC", SIMT_NVRTC, 1);
}

int gpu_capability(void)
{
    const char *played = getenv("SIMT_CC");
    int major = 9, minor = 0;

    if (!played && driver.cuDeviceGetAttribute) {
        driver.cuDeviceGetAttribute(&major, 75, 0);
        driver.cuDeviceGetAttribute(&minor, 76, 0);
    }
    return played ? atoi(played) : 10 * major + minor;
}

bool gpu_lacks(const char *text)
{
    return strstr(text, "cuda has no ") || strstr(text, " bits, and not 24") ||
           strstr(text, " is no chain of ");
}

int gpu_open(void **state)
{
    void *context;

    (void)state;
    gpu_stand_ins();
    if (open_context(&reference, "interp") || open_context(&cuda, "cuda")) {
        fprintf(stderr, "%s\n", limber_error_text());
        return -1;
    }
    return driver_open(&driver) && driver.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
                   driver.cuCtxSetCurrent(context) == 0 ?
               0 :
               -1;
}

int gpu_close(void **state)
{
    (void)state;
    limber_destroy(cuda);
    limber_destroy(reference);
    return 0;
}

/* ---- memory of the device -------------------------------------------------------------------- */

struct there gpu_room(size_t bytes)
{
    struct there x = { 0, bytes };

    assert_int_equal(driver.cuMemAlloc_v2(&x.at, bytes), 0);
    return x;
}

void gpu_upload(struct there to, const void *data)
{
    assert_int_equal(driver.cuMemcpyHtoDAsync_v2(to.at, data, to.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

struct there gpu_put(const void *data, size_t bytes)
{
    struct there x = gpu_room(bytes);

    gpu_upload(x, data);
    return x;
}

void gpu_get(void *to, struct there from)
{
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
    assert_int_equal(driver.cuMemcpyDtoHAsync_v2(to, from.at, from.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

void gpu_drop(struct there x)
{
    driver.cuMemFree_v2(x.at);
}

/* ---- recordings ------------------------------------------------------------------------------ */

struct there gpu_queue(limber_queue *q, size_t bytes)
{
    struct there room = gpu_room(bytes);

    *q = (limber_queue){ .size = sizeof(limber_queue),
                         .workspace = (void *)room.at,
                         .bytes = bytes,
                         .capture = LIMBER_CAPTURE_READY };
    assert_int_equal(driver.cuStreamCreate(&q->stream, 1), 0);
    return room;
}

void *gpu_recorded(const limber_queue *q)
{
    void *graph, *play;

    assert_int_equal(driver.cuStreamEndCapture(q->stream, &graph), 0);
    assert_int_equal(driver.cuGraphInstantiateWithFlags(&play, graph, 0), 0);
    driver.cuGraphDestroy(graph);
    return play;
}

void gpu_play(void *play, const limber_queue *q)
{
    assert_int_equal(driver.cuGraphLaunch(play, q->stream), 0);
    assert_int_equal(driver.cuStreamSynchronize(q->stream), 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg)
{
    int capability = gpu_capability();

    if (getenv("LIMBER_TEST_GPU") || SANITIZED) /* sanitizers do not see kernels */
        skip();
    for (size_t i = 0; i < count; i++) {
        pid_t child;
        int status;

        if (fault[i].capability && fault[i].capability != capability)
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
