/* SPDX-License-Identifier: BSD-3-Clause
 * Tells which settings are in effect, and checks that everything which they name can be used,
 * before a program runs for hours. */
#define _GNU_SOURCE     /* strdup, strndup under any standard */
#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

const char *interpose_lacks_llvm(void)
{
    static _Thread_local char why[400];
    const char *file = limber_variable_value("LIMBER_LLVM");

    if (!file || !strchr(file, '/') || access(file, R_OK) == 0)
        return "";
    snprintf(why, sizeof why, "LIMBER_LLVM = \"%.200s\": %s; no kernel is compiled", file,
             strerror(errno));
    return why;
}

PUBLIC int limber_blas_settings(void)
{
    const struct interpose_options *o = interpose_options();

    return o->refused ? -1 : o->on;
}

/* True if the folder of `path` is writable, so that `path` can be created there. */
static bool parent_allows(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = !slash ? strdup(".") : slash == path ? strdup("/") : NULL;
    bool ok;

    if (!parent)
        parent = strndup(path, (size_t)(slash - path));
    ok = parent && access(parent, W_OK | X_OK) == 0;
    free(parent);
    return ok;
}

/* Checks that a variable's file or folder can be written or created.  If not, prints why and
 * returns false. */
static bool can_write(const char *variable, const char *path, bool is_folder)
{
    struct stat s;
    bool there = path && stat(path, &s) == 0, ok;

    if (!path)
        return true;
    if (there && S_ISDIR(s.st_mode) != is_folder) {
        errno = is_folder ? ENOTDIR : EISDIR;
        ok = false;
    } else {
        ok = there && (is_folder || !S_ISREG(s.st_mode)) ? access(path, W_OK) == 0 :
                                                           parent_allows(path);
    }
    if (!ok)
        interpose_message("%s = \"%.200s\" cannot be written: %s", variable, path, strerror(errno));
    return ok;
}

static bool check_report(const char *pattern)
{
    char path[4096];

    if (!pattern)
        return true;
    interpose_expand_name(pattern, path, sizeof path);
    return can_write("LIMBER_REPORT", path, false);
}

/* Returns false and prints a message if the user names the cache's folder or key, but the cache
 * cannot be used. */
static bool check_cache(limber_context *ctx, const char *folder)
{
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    const char *key = limber_variable_value("LIMBER_CACHE_KEY");

    if ((!folder && !key) || limber_cache_describe(ctx, &info) != LIMBER_STATUS_OK ||
        !*info.why_not || strstr(info.why_not, "LIMBER_CACHE is off"))
        return true;
    interpose_message("%s%s%s: the cache is not used: %s", folder ? "LIMBER_CACHE_DIR" : "",
                      folder && key ? ", " : "", key ? "LIMBER_CACHE_KEY" : "", info.why_not);
    return false;
}

/* Checks LIMBER_LLVM by binding a product of one element, since the Limber library opens libLLVM
 * only when it first compiles. */
static bool check_llvm(void)
{
    const limber_matrix one = { NULL, LIMBER_F64, 1, 1 };
    const limber_output c = { NULL, LIMBER_F64, 1, 1 };
    limber_config config = interpose_config();
    limber_context *ctx = NULL;
    limber_kernel function;
    bool ok;

    if (!limber_variable_value("LIMBER_LLVM"))
        return true;
    config.backend = "llvm";
    config.dump_dir = "";
    config.kernels = LIMBER_KERNELS_SPECIALISED;
    ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK &&
         limber_bind_shape(ctx, NULL, 1, 1, 1, one, one, c, LIMBER_ACCUMULATE_NONE, &function) ==
             LIMBER_STATUS_OK;
    if (!ok)
        interpose_message("LIMBER_LLVM = \"%.200s\": %s", limber_variable_value("LIMBER_LLVM"),
                          limber_error_text());
    limber_destroy(ctx);
    return ok;
}

/* Checks that a context can be created and its cache folder used.  On failure prints a message
 * and returns false. */
static bool check_context(const struct interpose_options *o)
{
    const limber_config config = interpose_config();
    limber_context *ctx = NULL;
    bool ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK;

    if (!ok)
        interpose_message("%s", limber_error_text());
    ok = ok &&
         check_cache(ctx, o->cache_dir ? o->cache_dir : limber_variable_value("LIMBER_CACHE_DIR"));
    limber_destroy(ctx);
    return ok;
}

/* Set by limber_blas_check_settings: nothing is computed in this process. */
static atomic_bool only_checks;

bool interpose_only_checks(void)
{
    return atomic_load(&only_checks);
}

/* Checks all settings without computing.  Returns limber_blas_settings() unless it is 1; else 1
 * if everything that the settings name can be used, -1 if not. */
PUBLIC int limber_blas_check_settings(void)
{
    const struct interpose_options *o = interpose_options();
    bool ok;

    atomic_store(&only_checks, true);

    if (limber_blas_settings() != 1)
        return limber_blas_settings();
    ok = check_context(o) && check_llvm() && interpose_check_own() && check_report(o->report) &&
         can_write("LIMBER_CAPTURE", o->capture, true) &&
         can_write("LIMBER_DUMP", limber_variable_value("LIMBER_DUMP"), true);
    return ok ? 1 : -1;
}
