/* SPDX-License-Identifier: BSD-3-Clause
 * Making and destroying contexts: options from the caller and from the environment. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "backends/settings.h"
#include "ir/cpu.h"
#include "jit/api/api.h"
#include "jit/operators/operators.h"
#include "jit/ways.h"

#include "limber/environment.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024, MOST_KERNELS = 1024 };
/* seconds after which a process that is making a kernel is assumed to hang */
static const double patience = 20;

/* ---- settings from the environment ----------------------------------------------------------- */

/* Reads an integer from `least` to `most` at the beginning of s.  The number must be followed by
 * the character `end` or by the end of the text. */
static bool read_number(const char *name, const char *s, char end, long least, long most, int *out,
                        struct diag *d)
{
    char *rest;
    long v;

    errno = 0;
    v = strtol(s, &rest, 10);
    if (rest == s || (*rest && *rest != end) || errno || v < least || v > most)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s = \"%.40s\" is not a number from %ld to %ld", name, s, least, most);
    *out = (int)v;
    return true;
}

/* Reads a variable as an integer in [least, most].  If it is not set, *out is unchanged. */
static bool read_env_number(const char *name, long least, long most, int *out, struct diag *d)
{
    const char *s = limber_variable_value(name);

    return !s || read_number(name, s, '\0', least, most, out, d);
}

/* Reads a variable as a number of bytes, with an optional K, M or G for powers of 1024.  If it is
 * not set, *out is unchanged. */
static bool read_env_size(const char *name, size_t *out, struct diag *d)
{
    static const char units[] = "KMG";
    const char *s = limber_variable_value(name), *unit;
    unsigned long long v;
    char *rest;
    int shift = 0;

    if (!s)
        return true;
    errno = 0;
    v = strtoull(s, &rest, 10);
    if (*rest && (unit = strchr(units, *rest))) {
        shift = 10 * (int)(unit - units + 1);
        rest++;
    }
    if (*s < '0' || *s > '9' || *rest || errno || v == 0 || v > SIZE_MAX >> shift)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s = \"%.40s\" is not a size in bytes, such as 64M", name, s);
    *out = (size_t)v << shift;
    return true;
}

/* Sets *index to the index of a variable's value among `count` words, some of which may be NULL.
 * If the variable is not set, *index is unchanged.  all: the words, for the error text. */
static bool read_env_word(const char *name, const char *const *word, size_t count, const char *all,
                          int *index, struct diag *d)
{
    const char *s = limber_variable_value(name);

    for (size_t i = 0; s && i < count; i++)
        if (word[i] && strcmp(s, word[i]) == 0) {
            *index = (int)i;
            return true;
        }
    return !s ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = \"%.40s\" is none of %s", name, s, all);
}

/* Reads LIMBER_CACHE: "off", "ro" (read only) or "rw" (read and write), which is the default. */
static bool read_cache_mode(enum cache_mode *mode, struct diag *d)
{
    static const char *const word[] = { [CACHE_off] = "off", [CACHE_ro] = "ro", [CACHE_rw] = "rw" };
    int index = CACHE_rw;
    bool ok = read_env_word("LIMBER_CACHE", word, COUNT(word), "off, ro, rw", &index, d);

    *mode = (enum cache_mode)index;
    return ok;
}

/* Selects the kernels that calls may use: what the configuration asks for, else LIMBER_KERNELS,
 * else prebuilt and specialised ones. */
static bool choose_kernels(limber_kernels wish, limber_kernels *out, struct diag *d)
{
    static const char *const word[] = { [LIMBER_KERNELS_BOTH] = "both",
                                        [LIMBER_KERNELS_PREBUILT] = "prebuilt",
                                        [LIMBER_KERNELS_SPECIALISED] = "specialised" };
    int index = LIMBER_KERNELS_BOTH;

    if ((unsigned)wish >= COUNT(word))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "config.kernels = %d is none of its values", (int)wish);
    if (wish == LIMBER_KERNELS_AUTO && !read_env_word("LIMBER_KERNELS", word, COUNT(word),
                                                      "both, prebuilt, specialised", &index, d))
        return false;
    *out = wish == LIMBER_KERNELS_AUTO ? (limber_kernels)index : wish;
    return true;
}

/* Returns the number of CPUs on which the process may run. */
static int core_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return 1;
}

/* Reads the number of threads: LIMBER_THREADS, else the first number of OMP_NUM_THREADS, else the
 * number of available cores. */
static bool read_thread_count(int *threads, struct diag *d)
{
    const char *s = limber_variable_value("LIMBER_THREADS");

    if (s)
        return read_number("LIMBER_THREADS", s, '\0', 1, MOST_THREADS, threads, d);
    s = limber_variable_value("OMP_NUM_THREADS");
    if (s) /* OMP_NUM_THREADS is a list of numbers, one for each nesting level */
        return read_number("OMP_NUM_THREADS", s, ',', 1, MOST_THREADS, threads, d);
    *threads = core_count() < MOST_THREADS ? core_count() : MOST_THREADS;
    return true;
}

static char *copy_string(const char *s)
{
    size_t n = strlen(s) + 1;
    char *out = malloc(n);

    return out ? memcpy(out, s, n) : NULL;
}

/* Returns the path dir followed by rest, to be freed; NULL if memory is short. */
static char *join_path(const char *dir, const char *rest)
{
    struct text t = { 0 };

    limber_text_add(&t, "%s/%s", dir, rest);
    if (t.failed)
        limber_text_clear(&t);
    return t.s;
}

/* Finds the name of the cache directory.  If there is none, *dir stays NULL and *why has the
 * reason.  Never chooses a directory that other users can create or write to. */
static bool cache_dir(const char *wish, char **dir, const char **why, struct diag *d)
{
    const char *s;

    *why = "";
    if (wish && !*wish) {
        *why = "the configuration keeps kernels in memory only";
        return true;
    }
    if (wish || (wish = limber_variable_value("LIMBER_CACHE_DIR")))
        *dir = copy_string(wish);
    else if ((s = limber_variable_value("XDG_CACHE_HOME")) &&
             *s == '/') /* the XDG specification ignores relative paths */
        *dir = join_path(s, "limber");
    else if ((s = limber_variable_value("HOME")) && *s == '/')
        *dir = join_path(s, ".cache/limber");
    else {
        *why = "none of LIMBER_CACHE_DIR, XDG_CACHE_HOME and HOME names a directory";
        return true;
    }
    return *dir ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the name of the cache directory");
}

/* Finds the name of the file with the key that seals cache entries.  *file stays NULL if no
 * directory for the file is known.  The file is not in the cache directory, so that copying the
 * cache does not copy the key.  It is in a state directory, because configuration directories are
 * often shared and published. */
static bool key_file(char **file, struct diag *d)
{
    const char *s;

    if ((s = limber_variable_value("LIMBER_CACHE_KEY")))
        *file = copy_string(s);
    else if ((s = limber_variable_value("XDG_STATE_HOME")) && *s == '/')
        *file = join_path(s, "limber/cache.key");
    else if ((s = limber_variable_value("HOME")) && *s == '/')
        *file = join_path(s, ".local/state/limber/cache.key");
    else
        return true;
    return *file ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the name of the cache's key");
}

/* ---- a context's backends and log ------------------------------------------------------------ */

/* The log function of contexts for which the caller gave none. */
static void print_to_stderr(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

/* Passes a warning of the disk cache to the context's log, if that is verbose. */
static void warn(void *user, const char *line)
{
    const limber_context *ctx = user;

    if (ctx->tells.verbose > 0)
        ctx->tells.log(ctx->tells.log_user, line);
}

/* Selects the first backend of *list that runs on this machine, and sets *list to the next one.
 * False if no backend is left.  *why: the reason why the last skipped backend does not run. */
static bool select_next_backend(struct machine *m, int device, const struct backend *const **list,
                                struct diag *why)
{
    for (; **list; ++*list) {
        struct diag now = { 0 };

        memset(m, 0, sizeof *m);
        m->target.device = device;
        if ((**list)->probe(&m->target, &now)) {
            m->backend = *(*list)++;
            m->cpu = m->backend->cpu;
            limber_target_print(&m->target, &m->text);
            return true;
        }
        *why = now;
    }
    return false;
}

/* Selects the first backend of the list that runs on this machine.  The next one that runs becomes
 * the spare, for use if a compiler is missing. */
static bool use_first_backend(limber_context *ctx, int device, const struct backend *const *list,
                              struct diag *d)
{
    const struct backend *const best = *list;
    struct diag why = { 0 };

    if (!select_next_backend(&ctx->machine, device, &list, &why))
        return limber_fail(d, LIMBER_STATUS_DEVICE, "no backend runs on this machine: %s",
                           why.text);
    if (ctx->machine.backend == &limber_backend_interp)
        limber_context_interprets(ctx, ctx->machine.backend == best ? "this build has no compiler" :
                                                                      why.text);
    select_next_backend(&ctx->spare, device, &list, &why);
    return true;
}

/* Selects the backend of this name.  Fails, with the reason, if it does not run on this machine. */
static bool use_named_backend(limber_context *ctx, const limber_config *c, const char *wish,
                              const struct backend *const *list, struct diag *d)
{
    struct diag why = { 0 };

    for (; *list; list++)
        if (strcmp(wish, (*list)->name) == 0) {
            const struct backend *const alone[] = { *list, NULL }, *const *at = alone;

            return select_next_backend(&ctx->machine, c->device, &at, &why) ||
                   limber_fail(d, LIMBER_STATUS_DEVICE, "backend %s: %s", wish, why.text);
        }
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = \"%.40s\" is no backend of this build",
                       c->backend ? "backend" : "LIMBER_BACKEND", wish);
}

/* Limits the instruction set for the whole process (LIMBER_ISA).  Limber selects its code paths
 * once per process, not per context. */
static bool limit_instructions(struct diag *d)
{
    static const char *const word[] = { "avx2", "avx512", "all" };
    int index = COUNT(word) - 1;

    if (!read_env_word("LIMBER_ISA", word, COUNT(word), "avx2, avx512, all", &index, d))
        return false;
    limber_cpu_set_limit(3 + index);
    return true;
}

/* Selects the backend that the caller or LIMBER_BACKEND names, else the first of the list that runs
 * on this machine.  If it is a device, also selects a backend for arrays in host memory. */
static bool make_backend(limber_context *ctx, const limber_config *c,
                         const struct backend *const *list, struct diag *d)
{
    const char *wish = c->backend ? c->backend : limber_variable_value("LIMBER_BACKEND");
    bool any = !wish || strcmp(wish, "auto") == 0;
    struct diag why = { 0 };

    if (!limit_instructions(d))
        return false;
    if (any ? !use_first_backend(ctx, c->device, list, d) :
              !use_named_backend(ctx, c, wish, list, d))
        return false;
    while (ctx->machine.backend->device_ops && select_next_backend(&ctx->host, 0, &list, &why) &&
           ctx->host.backend->device_ops)
        limber_text_clear(&ctx->host.text);
    ctx->machine.target.no_compiler = ctx->no_compile;
    return (!ctx->machine.text.failed && !ctx->spare.text.failed && !ctx->host.text.failed) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the target");
}

/* Sets where log lines and dumps go. */
static bool make_output(limber_context *ctx, const limber_config *c, struct diag *d)
{
    const char *dump = c->dump_dir ? c->dump_dir : limber_variable_value("LIMBER_DUMP");

    ctx->tells.log = c->log ? c->log : print_to_stderr;
    ctx->tells.log_user = c->log_user;
    if (!read_env_number("LIMBER_VERBOSE", 0, 9, &ctx->tells.verbose, d))
        return false;
    if (c->verbose)
        ctx->tells.verbose = c->verbose;
    if (dump && *dump && !(ctx->tells.dump_dir = copy_string(dump)))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "no memory for the name of the dump directory");
    return true;
}

/* Makes the caches in memory and on disk, and the background thread. */
static bool make_caches(limber_context *ctx, const limber_config *c, struct diag *d)
{
    struct disk_options o = {
        .limit = (size_t)256 << 20, .patience = patience, .warn = warn, .user = ctx
    };
    char *dir = NULL, *key = NULL;
    int off = 0;

    if (!read_cache_mode(&o.mode, d) || !read_env_size("LIMBER_CACHE_MAXSIZE", &o.limit, d) ||
        !read_env_number("LIMBER_NO_COMPILE", 0, 1, &off, d) ||
        !cache_dir(c->cache_dir, &dir, &o.why_not, d))
        return false;
    if (dir && !key_file(&key, d)) {
        free(dir);
        return false;
    }
    if (c->cache_bytes)
        o.limit = c->cache_bytes;
    ctx->no_compile = off;
    if (off) { /* nothing is compiled, so there is nothing to dump */
        free(ctx->tells.dump_dir);
        ctx->tells.dump_dir = NULL;
    }
    o.dir = dir;
    o.key_file = key;
    ctx->disk = limber_disk_new(&o);
    ctx->memory = limber_kernels_new(MOST_KERNELS);
    ctx->codes = limber_kernels_new(MOST_KERNELS);
    ctx->functions = limber_kernels_new(SIZE_MAX);
    free(dir);
    free(key);
    ctx->background = limber_background_new(limber_run_background_job, ctx, limber_engine_compiler);
    return (ctx->disk && ctx->memory && ctx->codes && ctx->functions && ctx->background) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the caches");
}

/* Makes the pool of threads. */
static bool make_pool(limber_context *ctx, const limber_config *c, struct diag *d)
{
    int threads = c->threads, pinned = 0;

    if (threads < 0 || threads > MOST_THREADS)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "threads = %d is not from 0 to %d",
                           threads, MOST_THREADS);
    if (threads == 0 && !read_thread_count(&threads, d))
        return false;
    if (!read_env_number("LIMBER_PIN", 0, 1, &pinned, d))
        return false;
    ctx->pool = limber_pool_new(threads, pinned);
    return ctx->pool ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %d threads", threads);
}

/* Checks that an allocator has both functions or neither. */
static bool check_allocator(const limber_allocator *a, struct diag *d)
{
    return !a->alloc == !a->free ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "allocator.%s is NULL",
                       a->alloc ? "free" : "alloc");
}

/* Sets the code paths (ways) that calls may use, as the configuration and LIMBER_WAYS say. */
static bool choose_ways(limber_context *ctx, const limber_config *c, struct diag *d)
{
    const char *wish = limber_variable_value("LIMBER_WAYS");

    ctx->ways = WAYS_all;
    if (c->partition == LIMBER_PARTITION_OFF)
        ctx->ways &= ~limber_way_bit(WAY_parts);
    /* exclude ways that use library code instead of specialised kernels */
    if (ctx->kernels == LIMBER_KERNELS_SPECIALISED)
        ctx->ways &= ~(limber_way_bit(WAY_bytes) | limber_way_bit(WAY_windows) |
                       limber_way_bit(WAY_unpacked));
    return !wish || limber_ways_read(wish, &ctx->ways, d);
}

/* ---- making and destroying contexts ---------------------------------------------------------- */

/* Makes a context with the first of `backends` that runs on this machine, or with the named one.
 * False, with an error and *out = NULL, on failure. */
bool limber_context_make(limber_context **out, const limber_config *config,
                         const struct backend *const *backends, struct diag *d)
{
    limber_config full = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    *out = NULL;
    if (config && !limber_copy_sized_in(&full, sizeof full, config, LEAST_config, "config", d))
        return false;
    config = &full;
    if (config->partition != LIMBER_PARTITION_AUTO && config->partition != LIMBER_PARTITION_OFF)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "config.partition = %d is none of its values", (int)config->partition);
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a context");
    pthread_mutex_init(&ctx->lock, NULL);
    limber_settings_from(limber_variable_value);
    limber_compile_watch_thread();
    ctx->at_fork = (struct at_fork){ .lock = &ctx->lock };
    limber_at_fork(&ctx->at_fork);
    ctx->workspace = config->workspace_bytes;
    ctx->allocator = config->allocator;
    ctx->generic_of = limber_context_generic;
    limber_key_build(ctx->build);
    if (!choose_kernels(config->kernels, &ctx->kernels, d) || !choose_ways(ctx, config, d) ||
        !check_allocator(&config->allocator, d) || !make_output(ctx, config, d) ||
        !make_pool(ctx, config, d) || !make_caches(ctx, config, d) ||
        !make_backend(ctx, config, backends, d)) {
        limber_destroy(ctx);
        return false;
    }
    if ((ctx->machine.cpu && !(ctx->forms = limber_forms_new())) ||
        (ctx->kernels == LIMBER_KERNELS_BOTH && !ctx->no_compile && ctx->machine.cpu &&
         !(ctx->shapes = limber_shapes_new()))) {
        limber_destroy(ctx);
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a context");
    }
    /* seconds; products that take less are not partitioned, since that decision takes a tenth of
     * this time */
    ctx->pricing.brief = ctx->machine.backend->device_ops ? 5e-3 : 300e-6;
    limber_tuning_read(ctx);
    *out = ctx;
    return true;
}

/* Makes a context of the interpreter that uses this context's threads.  NULL on failure. */
static limber_context *make_generic(limber_context *ctx)
{
    static const struct backend *const interp[] = { &limber_backend_interp, NULL };
    const limber_config config = { .size = sizeof config,
                                   .backend = "auto",
                                   .threads = 1,
                                   .cache_dir = "",
                                   .verbose = -1,
                                   .dump_dir = "",
                                   .partition = LIMBER_PARTITION_OFF,
                                   .workspace_bytes = ctx->workspace,
                                   .allocator = ctx->allocator };
    limber_context *generic;
    struct diag ignored = { 0 };

    if (!limber_context_make(&generic, &config, interp, &ignored))
        return NULL;
    limber_pool_free(generic->pool);
    generic->pool = ctx->pool;
    generic->shared_pool = true;
    generic->no_compile = false;
    return generic;
}

/* Returns the context that interprets plans while kernels are compiled; makes it at the first
 * call.  NULL if that fails. */
limber_context *limber_context_generic(limber_context *ctx)
{
    limber_context *generic, *new = NULL;

    pthread_mutex_lock(&ctx->lock);
    generic = ctx->generic;
    pthread_mutex_unlock(&ctx->lock);
    if (generic || !(new = make_generic(ctx)))
        return generic;
    pthread_mutex_lock(&ctx->lock);
    generic = ctx->generic;
    if (!generic)
        ctx->generic = new;
    pthread_mutex_unlock(&ctx->lock);
    if (generic) /* another thread has made a context in the meantime */
        limber_destroy(new);
    return generic ? generic : new;
}

/* Makes a context with the backends of this library. *ctx: NULL on failure. */
limber_status limber_create(limber_context **ctx, const limber_config *config)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!ctx)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "create: ctx is NULL");
    else if (!limber_context_make(ctx, config, limber_backends, &d))
        limber_fail_in(&d, "create");
    return limber_error_set(&d);
}

/* Ends a context and frees all that it owns.  The order of the calls matters. */
void limber_destroy(limber_context *ctx)
{
    CALL_SCOPE;
    if (!ctx)
        return;
    limber_background_free(ctx->background); /* first, because its thread uses the other members */
    limber_destroy(ctx->generic);
    limber_at_fork_no_more(&ctx->at_fork);
    limber_bindings_free(ctx->bindings);
    limber_priced_free(ctx->pricing.priced);
    limber_recordable_free(ctx->recordable);
    limber_forms_free(ctx->forms); /* before the kernels that they use */
    /* before the pool's threads end, since kernels may own threads' workspaces */
    limber_kernels_free(ctx->memory);
    limber_kernels_free(ctx->codes); /* after ctx->memory, whose entries use this code */
    limber_kernels_free(ctx->functions);
    limber_shapes_free(ctx->shapes);
    limber_tables_free(ctx->tables);
    limber_disk_free(ctx->disk);
    if (!ctx->shared_pool)
        limber_pool_free(ctx->pool);
    limber_text_clear(&ctx->machine.text);
    limber_text_clear(&ctx->spare.text);
    limber_text_clear(&ctx->host.text);
    free(ctx->tells.dump_dir);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

/* Frees a text that a call of the library returned. */
void limber_free(void *text)
{
    free(text);
}
