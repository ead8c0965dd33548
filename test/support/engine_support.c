/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine_support.h"

#include "contexts.h"

#include "jit/ways.h"

atomic_int compiles, loads, unloads, compile_delay, compile_tells = -1;

static bool counted_probe(struct target *t, struct diag *d)
{
    return limber_backend_interp.probe(t, d);
}

/* The interpreter's compile, which counts calls and can be slow. */
static bool counted_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                            struct blob *out, struct diag *d)
{
    compiles++;
    if (compile_tells >= 0 && write(compile_tells, "", 1) != 1)
        abort();
    usleep((useconds_t)compile_delay);
    return limber_backend_interp.compile(p, t, dump, out, d);
}

/* The interpreter's load, which counts calls. */
static bool counted_load(const unsigned char *data, size_t size, struct kernel **k, struct diag *d)
{
    loads++;
    return limber_backend_interp.load(data, size, k, d);
}

static bool counted_launch(struct kernel *k, struct call *c, struct diag *d)
{
    return limber_backend_interp.launch(k, c, d);
}

static void counted_unload(struct kernel *k)
{
    unloads++;
    limber_backend_interp.unload(k);
}

static enum way_id counted_way(const struct plan *p, const struct target *t, const struct call *c,
                               struct text *out)
{
    return limber_backend_interp.predict_way(p, t, c, out);
}

const struct backend counted = { .name = "counted",
                                 .probe = counted_probe,
                                 .compile = counted_compile,
                                 .load = counted_load,
                                 .launch = counted_launch,
                                 .unload = counted_unload,
                                 .predict_way = counted_way };
const struct backend *const counted_list[] = { &counted, NULL };

limber_context *counted_context(const limber_config *c)
{
    limber_context *ctx;
    struct diag d = { 0 };

    if (!limber_context_make(&ctx, c, counted_list, &d))
        fail_msg("%s", d.text);
    return ctx;
}

limber_context *counted_group_context(void)
{
    return keep_for_group(
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = "" }));
}

/* Creates the contexts of every backend, once for each number of threads. */
int make_contexts_of_backends(limber_context **contexts, int room, const int *threads)
{
    int count = 0;

    for (int i = 0; limber_backends[i]; i++)
        for (int t = 0; threads[t]; t++) {
            assert_true(count < room);
            contexts[count] =
                group_context(.backend = limber_backends[i]->name, .threads = threads[t]);
            count += contexts[count] != NULL;
        }
    return count;
}

/* Multiplies small integers under a policy for kernels that are not in the cache, and checks the
 * result. */
limber_status gemm_on_miss(limber_context *ctx, limber_on_miss on_miss, limber_report *report)
{
    static const double want[6] = { 50, 60, 114, 140, 178, 220 };
    double a[12], b[8], c[6] = { -1, -1, -1, -1, -1, -1 };
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE,
                                       .on_miss = on_miss };
    limber_format f64 = named("f64");
    limber_status s;

    for (int i = 0; i < 12; i++)
        a[i] = i + 1;
    for (int i = 0; i < 8; i++)
        b[i] = i + 1;
    s = limber_gemm(ctx, &contract, 3, 2, 4, NULL, (limber_matrix){ a, f64, 4, 1 },
                    (limber_matrix){ b, f64, 2, 1 }, NULL, (limber_output){ c, f64, 2, 1 }, report);
    if (s == LIMBER_STATUS_OK)
        for (int i = 0; i < 6; i++)
            if (c[i] != want[i])
                return LIMBER_STATUS_INTERNAL;
    return s;
}

limber_status small_gemm(limber_context *ctx, limber_report *report)
{
    return gemm_on_miss(ctx, LIMBER_ON_MISS_WAIT, report);
}

int tally(void *user, const limber_cache_entry *e)
{
    int *n = user;

    n[e->good ? 1 : 0]++;
    return 0;
}

static char *key_folder;

static void discard_key_folder(void)
{
    discard(key_folder);
}

/* Unsets the variables that would change the library's behaviour, and lets the seal's key be in a
 * scratch folder that is removed at the end. */
void clear_environment(void)
{
    char key[4200];

    static const char *const names[] = {
        "LIMBER_BACKEND",       "LIMBER_THREADS", "OMP_NUM_THREADS",   "LIMBER_CACHE_DIR",
        "LIMBER_CACHE_MAXSIZE", "LIMBER_CACHE",   "LIMBER_NO_COMPILE", "LIMBER_DUMP",
        "LIMBER_VERBOSE",       "LIMBER_PIN",
    };

    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    key_folder = scratch();
    snprintf(key, sizeof key, "%s/key", key_folder);
    setenv("LIMBER_CACHE_KEY", key, 1);
    atexit(discard_key_folder);
}

void set_planless(limber_context *ctx, bool on)
{
    ctx->ways = on ? ctx->ways | limber_ways_planless() : ctx->ways & ~limber_ways_planless();
}

limber_context *planless_context(limber_kernels kernels, int threads, bool on)
{
    limber_context *ctx = test_context_of(&(limber_config){
        .size = sizeof(limber_config), .kernels = kernels, .threads = threads, .cache_dir = "" });

    assert_non_null(ctx);
    set_planless(ctx, on);
    return ctx;
}

void plan_without_matrix_unit(limber_context *ctx)
{
    double *rate = &ctx->machine.target.rate[UNIT_i8];

    if (*rate > 3.84e11)
        *rate = 3.84e11;
}
