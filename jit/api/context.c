/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts: options of the caller and of the environment. */
#define _GNU_SOURCE     /* sched_getaffinity */
#include "backends/settings.h"
#include "ir/x86.h"
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
static const double patience = 20; /* seconds; a maker that takes longer hangs or was stopped */

/* ---- settings from the environment ----------------------------------------------------------- */

/* Reads an integer in [least, most], which ends at `end` or at the text's end. */
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

/* Reads a variable as a number in [least, most]; *out stays as it is if the variable is not set. */
static bool env_number(const char *name, long least, long most, int *out, struct diag *d)
{
    const char *s = limber_variable_value(name);

    return !s || read_number(name, s, '\0', least, most, out, d);
}

/* Reads a number of bytes, with K, M or G for powers of 1024. */
static bool env_size(const char *name, size_t *out, struct diag *d)
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

/* Sets *index to the place of a variable's value among `count` words, some of which may be NULL.
 * Leaves it alone if the variable is not set. */
static bool env_word(const char *name, const char *const *word, size_t count, const char *all,
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

/* Reads LIMBER_CACHE: off, read only, or read and write (if not set). */
static bool env_mode(enum cache_mode *mode, struct diag *d)
{
    static const char *const word[] = { [CACHE_off] = "off", [CACHE_ro] = "ro", [CACHE_rw] = "rw" };
    int index = CACHE_rw;
    bool ok = env_word("LIMBER_CACHE", word, COUNT(word), "off, ro, rw", &index, d);

    *mode = (enum cache_mode)index;
    return ok;
}

/* Decides which kernels serve, by the configuration or LIMBER_KERNELS. */
static bool choose_kernels(limber_kernels wish, limber_kernels *out, struct diag *d)
{
    static const char *const word[] = { [LIMBER_KERNELS_BOTH] = "both",
                                        [LIMBER_KERNELS_PREBUILT] = "prebuilt",
                                        [LIMBER_KERNELS_SPECIALISED] = "specialised" };
    int index = LIMBER_KERNELS_BOTH;

    if ((unsigned)wish >= COUNT(word))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "config.kernels = %d is none of its values", (int)wish);
    if (wish == LIMBER_KERNELS_AUTO &&
        !env_word("LIMBER_KERNELS", word, COUNT(word), "both, prebuilt, specialised", &index, d))
        return false;
    *out = wish == LIMBER_KERNELS_AUTO ? (limber_kernels)index : wish;
    return true;
}

static int core_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return 1;
}

/* The number of threads: LIMBER_THREADS, else the first of OMP_NUM_THREADS, else one per core. */
static bool env_threads(int *threads, struct diag *d)
{
    const char *s = limber_variable_value("LIMBER_THREADS");

    if (s)
        return read_number("LIMBER_THREADS", s, '\0', 1, MOST_THREADS, threads, d);
    s = limber_variable_value("OMP_NUM_THREADS");
    if (s) /* a list of numbers, one per nesting level */
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

static char *join_path(const char *dir, const char *rest)
{
    struct text t = { 0 };

    limber_text_add(&t, "%s/%s", dir, rest);
    if (t.failed)
        limber_text_clear(&t);
    return t.s;
}

/* The cache directory, or NULL with a reason; never a directory with a predictable name that others
 * can write to. */
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

/* The file of the key that seals entries; NULL without failing: none is named.  It lies apart from
 * the cache, so that copying or packing the cache does not take the key along, and in a state
 * folder, since configuration folders are shared and published. */
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

static void to_stderr(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static void warn(void *user, const char *line)
{
    const limber_context *ctx = user;

    if (ctx->verbose > 0)
        ctx->log(ctx->log_user, line);
}

/* Takes the first backend of *list that runs here and advances *list past it.  False if none is
 * left.  *why: why the last one that was skipped does not run. */
static bool next_machine(struct machine *m, int device, const struct backend *const **list,
                         struct diag *why)
{
    for (; **list; ++*list) {
        struct diag now = { 0 };

        memset(m, 0, sizeof *m);
        m->target.device = device;
        if ((**list)->probe(&m->target, &now)) {
            m->backend = *(*list)++;
            limber_target_print(&m->target, &m->text);
            return true;
        }
        *why = now;
    }
    return false;
}

/* Takes the first backend of the list that runs here; the next one that does is the spare. */
static bool use_first_backend(limber_context *ctx, int device, const struct backend *const *list,
                              struct diag *d)
{
    const struct backend *const best = *list;
    struct diag why = { 0 };

    if (!next_machine(&ctx->machine, device, &list, &why))
        return limber_fail(d, LIMBER_STATUS_DEVICE, "no backend runs on this machine: %s",
                           why.text);
    if (ctx->machine.backend == &limber_backend_interp)
        limber_context_interprets(ctx, ctx->machine.backend == best ? "this build has no compiler" :
                                                                      why.text);
    next_machine(&ctx->spare, device, &list, &why);
    return true;
}

/* Takes the backend of this name, or fails with the reason why it does not run here. */
static bool use_named_backend(limber_context *ctx, const limber_config *c, const char *wish,
                              const struct backend *const *list, struct diag *d)
{
    struct diag why = { 0 };

    for (; *list; list++)
        if (strcmp(wish, (*list)->name) == 0) {
            const struct backend *const alone[] = { *list, NULL }, *const *at = alone;

            return next_machine(&ctx->machine, c->device, &at, &why) ||
                   limber_fail(d, LIMBER_STATUS_DEVICE, "backend %s: %s", wish, why.text);
        }
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = \"%.40s\" is no backend of this build",
                       c->backend ? "backend" : "LIMBER_BACKEND", wish);
}

/* Limits instructions of the whole process, since library code is chosen once per process. */
static bool limit_instructions(struct diag *d)
{
    static const char *const word[] = { "avx2", "avx512", "all" };
    int index = COUNT(word) - 1;

    if (!env_word("LIMBER_ISA", word, COUNT(word), "avx2, avx512, all", &index, d))
        return false;
    limber_x86_set_limit(3 + index);
    return true;
}

/* Takes the named backend, or the first of the list that runs here. */
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
    while (ctx->machine.backend->device_ops && next_machine(&ctx->host, 0, &list, &why) &&
           ctx->host.backend->device_ops)
        limber_text_clear(&ctx->host.text);
    ctx->machine.target.no_compiler = ctx->no_compile;
    return (!ctx->machine.text.failed && !ctx->spare.text.failed && !ctx->host.text.failed) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the target");
}

/* Sets where messages and dumps go. */
static bool make_output(limber_context *ctx, const limber_config *c, struct diag *d)
{
    const char *dump = c->dump_dir ? c->dump_dir : limber_variable_value("LIMBER_DUMP");

    ctx->log = c->log ? c->log : to_stderr;
    ctx->log_user = c->log_user;
    if (!env_number("LIMBER_VERBOSE", 0, 9, &ctx->verbose, d))
        return false;
    if (c->verbose)
        ctx->verbose = c->verbose;
    if (dump && *dump && !(ctx->dump_dir = copy_string(dump)))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "no memory for the name of the dump directory");
    return true;
}

/* Makes the caches in memory and on disk. */
static bool make_caches(limber_context *ctx, const limber_config *c, struct diag *d)
{
    struct disk_options o = {
        .limit = (size_t)256 << 20, .patience = patience, .warn = warn, .user = ctx
    };
    char *dir = NULL, *key = NULL;
    int off = 0;

    if (!env_mode(&o.mode, d) || !env_size("LIMBER_CACHE_MAXSIZE", &o.limit, d) ||
        !env_number("LIMBER_NO_COMPILE", 0, 1, &off, d) ||
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
        free(ctx->dump_dir);
        ctx->dump_dir = NULL;
    }
    o.dir = dir;
    o.key_file = key;
    ctx->disk = limber_disk_new(&o);
    ctx->memory = limber_kernels_new(MOST_KERNELS);
    ctx->codes = limber_kernels_new(MOST_KERNELS);
    ctx->functions = limber_kernels_new(SIZE_MAX);
    free(dir);
    free(key);
    ctx->background = limber_background_new(limber_engine_make, ctx, limber_engine_compiler);
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
    if (threads == 0 && !env_threads(&threads, d))
        return false;
    if (!env_number("LIMBER_PIN", 0, 1, &pinned, d))
        return false;
    ctx->pool = limber_pool_new(threads, pinned);
    return ctx->pool ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %d threads", threads);
}

/* Checks that an allocator has both functions or none. */
static bool check_allocator(const limber_allocator *a, struct diag *d)
{
    return !a->alloc == !a->free ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "allocator.%s is NULL",
                       a->alloc ? "free" : "alloc");
}

/* Decides which ways may serve, by the configuration or LIMBER_WAYS. */
static bool choose_ways(limber_context *ctx, const limber_config *c, struct diag *d)
{
    const char *wish = limber_variable_value("LIMBER_WAYS");

    ctx->ways = WAYS_all;
    if (c->partition == LIMBER_PARTITION_OFF)
        ctx->ways &= ~limber_way_bit(WAY_parts);
    if (ctx->kernels == LIMBER_KERNELS_SPECIALISED) /* without ways that use library code instead */
        ctx->ways &= ~(limber_way_bit(WAY_bytes) | limber_way_bit(WAY_windows) |
                       limber_way_bit(WAY_unpacked));
    return !wish || limber_ways_read(wish, &ctx->ways, d);
}

/* ---- making and destroying contexts ---------------------------------------------------------- */

bool limber_context_make(limber_context **out, const limber_config *config,
                         const struct backend *const *backends, struct diag *d)
{
    limber_config full = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    *out = NULL;
    if (config && !limber_sized_in(&full, sizeof full, config, LEAST_config, "config", d))
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
    if (ctx->kernels == LIMBER_KERNELS_BOTH && !ctx->no_compile && ctx->machine.backend->direct &&
        ctx->machine.backend->fixed && !(ctx->shapes = limber_shapes_new())) {
        limber_destroy(ctx);
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a context");
    }
    /* Deciding whether to partition a product takes a tenth of this time. */
    ctx->brief = ctx->machine.backend->device_ops ? 5e-3 : 300e-6;
    limber_tuning_read(ctx);
    *out = ctx;
    return true;
}

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
    if (generic) /* another thread has made one meanwhile */
        limber_destroy(new);
    return generic ? generic : new;
}

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

void limber_destroy(limber_context *ctx)
{
    CALL_SCOPE;
    if (!ctx)
        return;
    limber_background_free(ctx->background); /* first, since its thread uses the rest */
    limber_destroy(ctx->generic);
    limber_at_fork_no_more(&ctx->at_fork);
    limber_bindings_free(ctx->bindings);
    limber_priced_free(ctx->priced);
    limber_recordable_free(ctx->recordable);
    limber_kernels_free(ctx->memory); /* first: kernels may own threads' workspaces */
    limber_kernels_free(ctx->codes); /* after the entries that used their kernels */
    limber_kernels_free(ctx->functions);
    limber_shapes_free(ctx->shapes);
    limber_tables_free(ctx->tables);
    limber_disk_free(ctx->disk);
    if (!ctx->shared_pool)
        limber_pool_free(ctx->pool);
    limber_text_clear(&ctx->machine.text);
    limber_text_clear(&ctx->spare.text);
    limber_text_clear(&ctx->host.text);
    free(ctx->dump_dir);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

void limber_free(void *text)
{
    free(text);
}
