/* SPDX-License-Identifier: BSD-3-Clause
 * Opens NVRTC when the first kernel must be compiled, and compiles kernels. */
#include "backends/cuda/cuda.h"
#include "backends/settings.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *nvrtc_program;

/* clang-format off */
#define NVRTC(F) \
    F(nvrtcVersion, (int *, int *)) \
    F(nvrtcCreateProgram, (nvrtc_program *, const char *, const char *, int, const char *const *, \
                           const char *const *)) \
    F(nvrtcDestroyProgram, (nvrtc_program *)) \
    F(nvrtcCompileProgram, (nvrtc_program, int, const char *const *)) \
    F(nvrtcGetProgramLogSize, (nvrtc_program, size_t *)) \
    F(nvrtcGetProgramLog, (nvrtc_program, char *)) \
    F(nvrtcGetCUBINSize, (nvrtc_program, size_t *)) \
    F(nvrtcGetCUBIN, (nvrtc_program, char *))
/* clang-format on */

static struct {
#define FIELD(name, arguments) int(*name) arguments;
    NVRTC(FIELD)
#undef FIELD
    const char *(*nvrtcGetErrorString)(int);
    bool opened;
} nvrtc;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Opens the NVRTC of the driver's major version, since a driver may refuse code of a newer NVRTC.
 * Returns its handle or NULL. */
static void *find_matching(void)
{
    struct diag ignored = { 0 };
    const struct cuda_driver *c = limber_cuda(&ignored);
    char name[32];

    if (!c)
        return NULL;
    snprintf(name, sizeof name, "libnvrtc.so.%d", c->version / 1000);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* Opens NVRTC's library: the one that LIMBER_NVRTC names, else that of the driver's version, else
 * any.  Returns its handle or NULL. */
static void *open_library(void)
{
    static const char *const names[] = { "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                         "/usr/local/cuda/lib64/libnvrtc.so" };
    const char *wish = limber_setting("LIMBER_NVRTC");
    void *handle = NULL;

    if (wish)
        return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    handle = find_matching();
    for (size_t i = 0; !handle && i < COUNT(names); i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return handle;
}

/* Opens NVRTC and looks up its functions.  Returns false with an error. */
static bool open_nvrtc(struct diag *d)
{
    void *handle = open_library();

    if (!handle)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "no NVRTC to compile kernels: %s", dlerror());
#define GET(name, arguments) *(void **)&nvrtc.name = dlsym(handle, #name);
    NVRTC(GET)
#undef GET
    *(void **)&nvrtc.nvrtcGetErrorString = dlsym(handle, "nvrtcGetErrorString");
#define HAS(name, arguments) nvrtc.name &&
    nvrtc.opened = NVRTC(HAS) nvrtc.nvrtcGetErrorString;
#undef HAS
    if (nvrtc.opened)
        return true;
    dlclose(handle);
    return limber_fail(d, LIMBER_STATUS_DEVICE, "NVRTC is too old: it gives no cubins");
}

/* Loads NVRTC at the first call; later calls return what the first one returned. */
static bool open_once(struct diag *d)
{
    bool ok;

    pthread_mutex_lock(&lock);
    ok = nvrtc.opened || open_nvrtc(d);
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Implements code_ops.open: loads NVRTC, unless compiling is forbidden or LIMBER_CUBINS is set. */
void limber_nvrtc_open(const struct target *t)
{
    struct diag ignored = { 0 };

    /* if LIMBER_CUBINS is set, all kernels should be precompiled, so NVRTC is not opened */
    if (!t->no_compiler && !limber_setting("LIMBER_CUBINS"))
        open_once(&ignored);
}

/* Writes NVRTC's log to the dump, and its first error to the diagnostic. */
static void dump_log(nvrtc_program p, int result, const char *arch, const struct dump *dump,
                     struct diag *d)
{
    size_t size = 0;
    char *log = NULL, *error;

    if (nvrtc.nvrtcGetProgramLogSize(p, &size) == 0 && size > 1 && (log = malloc(size + 1))) {
        log[size] = 0;
        if (nvrtc.nvrtcGetProgramLog(p, log)) {
            free(log);
            log = NULL;
        }
    }
    if (log && dump)
        dump->file(dump->user, "nvrtc.log", log, strlen(log));
    if (result) {
        enum { INVALID_OPTION = 5 }; /* NVRTC's result if it does not know the architecture */
        int major = 0, minor = 0;

        nvrtc.nvrtcVersion(&major, &minor);
        error = log ? strstr(log, "error") : NULL;
        error = error ? error : log;
        limber_fail(d, LIMBER_STATUS_DEVICE, "NVRTC %d.%d for %s: %s: %.*s%s", major, minor, arch,
                    nvrtc.nvrtcGetErrorString(result),
                    !error                   ? 0 :
                    result == INVALID_OPTION ? (int)strcspn(error, "\n") :
                                               300,
                    error ? error : "",
                    result == INVALID_OPTION ?
                        "; it is too old or too new for the device, LIMBER_NVRTC names another" :
                        "");
    }
    free(log);
}

/* Copies the compiled cubin from NVRTC; the caller frees out->data.  Returns false with an
 * error. */
static bool get_cubin(nvrtc_program p, struct blob *out, struct diag *d)
{
    size_t size = 0;

    if (nvrtc.nvrtcGetCUBINSize(p, &size) || size == 0)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "NVRTC gave no cubin");
    out->data = malloc(size);
    if (!out->data)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a cubin");
    out->size = size;
    return nvrtc.nvrtcGetCUBIN(p, (char *)out->data) == 0 ||
           limber_fail(d, LIMBER_STATUS_DEVICE, "NVRTC gave no cubin");
}

/* Compiles a program by NVRTC, writes NVRTC's log to the dump, and stores the cubin in
 * LIMBER_KEEP_CUBINS if that is set. */
static bool compile(const struct cuda_program *program, const struct dump *dump, struct blob *out,
                    struct diag *d)
{
    const char *names[CUDA_HEADERS], *texts[CUDA_HEADERS];
    nvrtc_program p = NULL;
    int result, major = 0, minor = 0;
    bool ok;

    if (!open_once(d))
        return false;
    for (int i = 0; i < program->headers; i++) {
        names[i] = program->header[i].name;
        texts[i] = program->header[i].text;
    }
    if (nvrtc.nvrtcCreateProgram(&p, program->source, "limber.cu", program->headers, texts, names))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a CUDA program");
    result = nvrtc.nvrtcCompileProgram(p, program->options, program->option);
    dump_log(p, result, program->arch, dump, d);
    ok = result == 0 && get_cubin(p, out, d);
    nvrtc.nvrtcDestroyProgram(&p);
    if (ok && nvrtc.nvrtcVersion(&major, &minor) == 0)
        limber_cubin_keep(program, major, minor, out);
    return ok;
}

/* Takes a precompiled cubin if there is one; else opens NVRTC and compiles the source. */
bool limber_nvrtc(const char *source, const char *arch, bool no_compiler, const struct dump *dump,
                  struct blob *out, struct diag *d)
{
    char target[64];
    const char *const options[] = { target,
                                    "--std=c++17",
                                    "--fmad=false",
                                    "--device-int128",
                                    "--device-as-default-execution-space",
                                    "--ptxas-options=-v",
                                    "--diag-suppress=177,550,128,186,1650" };
    const struct cuda_program program = { source,  limber_cuda_headers,      arch,
                                          options, limber_cuda_header_count, COUNT(options) };

    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    if (limber_cubin_find(&program, out))
        return true;
    if (no_compiler)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "LIMBER_NO_COMPILE is set and no cache holds this kernel, nor does "
                           "LIMBER_CUBINS");
    return compile(&program, dump, out, d);
}
