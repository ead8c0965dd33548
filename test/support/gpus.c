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

/* Returns 77 (test skipped), with a message, if LIMBER_TEST_GPU asks for a real device and there is
 * none; else 0. */
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
    const char *simulated_capability = getenv("SIMT_CC");
    int major = 9, minor = 0;

    if (!simulated_capability && driver.cuDeviceGetAttribute) {
        driver.cuDeviceGetAttribute(&major, 75, 0);
        driver.cuDeviceGetAttribute(&minor, 76, 0);
    }
    return simulated_capability ? atoi(simulated_capability) : 10 * major + minor;
}

bool gpu_lacks(const char *text)
{
    return strstr(text, "cuda has no ") || strstr(text, " bits, and not 24") ||
           strstr(text, " is no chain of ");
}

/* cmocka set-up: creates contexts of the interpreter (`reference`) and of the device (`cuda`), and
 * opens the driver.  Returns 0, or -1 on failure. */
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

struct gpu_buffer gpu_allocate(size_t bytes)
{
    struct gpu_buffer x = { 0, bytes };

    assert_int_equal(driver.cuMemAlloc_v2(&x.at, bytes), 0);
    return x;
}

void gpu_upload(struct gpu_buffer to, const void *data)
{
    assert_int_equal(driver.cuMemcpyHtoDAsync_v2(to.at, data, to.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

struct gpu_buffer gpu_upload_new(const void *data, size_t bytes)
{
    struct gpu_buffer x = gpu_allocate(bytes);

    gpu_upload(x, data);
    return x;
}

void gpu_download(void *to, struct gpu_buffer from)
{
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
    assert_int_equal(driver.cuMemcpyDtoHAsync_v2(to, from.at, from.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

void gpu_free(struct gpu_buffer x)
{
    driver.cuMemFree_v2(x.at);
}

/* ---- recordings ------------------------------------------------------------------------------ */

struct gpu_buffer gpu_queue(limber_queue *q, size_t bytes)
{
    struct gpu_buffer room = gpu_allocate(bytes);

    *q = (limber_queue){ .size = sizeof(limber_queue),
                         .workspace = (void *)room.at,
                         .bytes = bytes,
                         .capture = LIMBER_CAPTURE_READY };
    assert_int_equal(driver.cuStreamCreate(&q->stream, 1), 0);
    return room;
}

void *gpu_end_recording(const limber_queue *q)
{
    void *graph, *play;

    assert_int_equal(driver.cuStreamEndCapture(q->stream, &graph), 0);
    assert_int_equal(driver.cuGraphInstantiateWithFlags(&play, graph, 0), 0);
    driver.cuGraphDestroy(graph);
    return play;
}

void gpu_run_graph(void *play, const limber_queue *q)
{
    assert_int_equal(driver.cuGraphLaunch(play, q->stream), 0);
    assert_int_equal(driver.cuStreamSynchronize(q->stream), 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Plants each fault in the kernels' source in a child process, and fails the test unless run(arg)
 * then returns 0, which means that the fault was detected; 3 means that it was not planted. */
void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg)
{
    int capability = gpu_capability(), found = 0;

    if (getenv("LIMBER_TEST_GPU") || SANITIZED)
        skip_because(
            "faults are planted in stand-ins only, and sanitizers do not see their kernels");
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
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
            fail_msg("%s: not planted; its text may not stand once in the kernels' sources: %s",
                     fault[i].what, fault[i].fault);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: not found (%d)", fault[i].what, WEXITSTATUS(status));
        found++;
    }
    if (found)
        print_message("%d planted faults found\n", found);
}
