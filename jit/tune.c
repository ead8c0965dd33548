/* SPDX-License-Identifier: BSD-3-Clause
 * Measures register tiles and cache blocks on this machine.  The record is an entry of the disk
 * cache, written, checked and evicted like a kernel: the target with the best tiles and rates, and
 * a line for everything tried. */
#include "jit/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 768, RUNS = 5 };

static const struct subject { enum unit unit; const char *in, *out; int columns; } subjects[] = {
    { UNIT_f64, "f64", "f64", 64 }, { UNIT_f32, "f32", "f32", 32 }, { UNIT_i8, "i8", "i32", 32 },
};
static const int rows[] = { 12, 8, 14, 6 }, tall[] = { 10, 20, 5 }, wide[] = { 256, 512, 1024 };

struct search {
    limber_context *ctx;        /* measures; keeps nothing on disk */
    struct target best;
    double rate[COUNT(subjects)];
    struct text tried;
    const limber_tuning *how;
    double end;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the record ----------------------------------------------------------------------------------------- */

/* Of the machine as probed, whatever was measured of it. */
static bool key_of(const limber_context *ctx, unsigned char key[KEY_BYTES])
{
    struct target probed;
    struct text text = { 0 };
    struct diag d = { 0 };
    bool ok = ctx->machine.backend->probe(&probed, &d);

    if (ok) {
        limber_target_print(&probed, &text);
        ok = !text.failed;
        if (ok)
            limber_key_make(key, ctx->build, "tuning\n", text.s);
    }
    limber_text_clear(&text);
    return ok;
}

/* The record's text, or NULL. */
static char *load(const limber_context *ctx)
{
    unsigned char key[KEY_BYTES];
    struct facts facts;
    struct blob bytes;
    char *s = NULL;

    if (!key_of(ctx, key) || !limber_disk_load(ctx->disk, key, &facts, &bytes))
        return NULL;
    s = malloc(bytes.size + 1);
    if (s) {
        memcpy(s, bytes.data, bytes.size);
        s[bytes.size] = 0;
    }
    free(bytes.data);
    return s;
}

static bool store(limber_context *ctx, const struct search *s, struct diag *d)
{
    struct facts facts = { .plan = "tuning record", .scheme = "none" };
    limber_cache_info info;
    struct text text = { 0 };
    struct blob bytes;
    bool ok;

    limber_disk_describe(ctx->disk, &info);
    if (!info.writable)
        return limber_fail(d, LIMBER_IO, "the cache on disk is not written: %s",
                           info.why_not[0] ? info.why_not : "no directory");
    limber_target_print(&s->best, &text);
    if (s->tried.s)
        limber_text_add(&text, "%s", s->tried.s);
    ok = key_of(ctx, facts.key) && !text.failed;
    if (ok) {
        bytes = (struct blob){ (unsigned char *)text.s, text.n };
        limber_disk_store(ctx->disk, &facts, &bytes);
    }
    limber_text_clear(&text);
    return ok || limber_fail(d, LIMBER_NO_MEMORY, "no memory for the record");
}

/* The first line, where it is about this machine. */
static bool parse(const char *record, const struct target *here, struct target *t)
{
    char line[2048];
    struct diag ignored = { 0 };
    size_t n = strcspn(record, "\n");

    if (n >= sizeof line)
        return false;
    memcpy(line, record, n);
    line[n] = 0;
    return limber_target_parse(t, line, &ignored) && strcmp(t->backend, here->backend) == 0 &&
           strcmp(t->features, here->features) == 0 && t->vector_bits == here->vector_bits &&
           t->registers == here->registers && t->group == here->group &&
           t->matrix == here->matrix;
}

void limber_tuning_read(limber_context *ctx)
{
    struct target *here = &ctx->machine.target, t;
    char *record = load(ctx);
    struct text text = { 0 };

    if (record && parse(record, here, &t)) {
        t.l1 = here->l1;
        t.l2 = here->l2;
        limber_target_print(&t, &text);
        if (text.failed) {
            limber_text_clear(&text);
        } else {
            *here = t;
            limber_text_clear(&ctx->machine.text);
            ctx->machine.text = text;
        }
    }
    free(record);
}

/* ---- measuring --------------------------------------------------------------------------------------------- */

/* The kernels in memory were made for the target before. */
static bool set_target(struct search *s, const struct target *t)
{
    struct memory *empty = limber_memory_new(COUNT(subjects));
    struct text text = { 0 };

    limber_target_print(t, &text);
    if (text.failed || !empty) {
        limber_memory_free(empty);
        limber_text_clear(&text);
        return false;
    }
    limber_memory_free(s->ctx->memory);
    s->ctx->memory = empty;
    limber_text_clear(&s->ctx->machine.text);
    s->ctx->machine.text = text;
    s->ctx->machine.target = *t;
    return true;
}

/* Multiply-adds a second of the best of a few runs; 0: it cannot be done. */
static double measure(struct search *s, const struct subject *what)
{
    static const limber_contract native = { .promise = LIMBER_NATIVE };
    limber_format in, out;
    double best = 0;
    size_t count = (size_t)SIZE * SIZE;
    char *a, *c;
    bool ok;

    limber_format_named(what->in, &in);
    limber_format_named(what->out, &out);
    a = calloc(count, in.size);
    c = calloc(count, out.size);
    ok = a && c;
    for (int i = -1; ok && i < RUNS; i++) {
        limber_matrix m = { a, in, SIZE, 1 };
        double start = now(), rate;

        ok = limber_gemm(s->ctx, &(limber_contract){ .promise = native.promise,
                         .scheme = what->unit == UNIT_i8 ? "integer" : "native" }, SIZE, SIZE,
                         SIZE, NULL, m, m, NULL, (limber_matrix){ c, out, SIZE, 1 }, NULL) ==
             LIMBER_OK;
        rate = (double)SIZE * SIZE * SIZE / (now() - start);
        if (i >= 0 && rate > best)
            best = rate;
    }
    free(a);
    free(c);
    return ok ? best : 0;
}

static void say(const struct search *s, const char *line)
{
    if (s->how->seen)
        s->how->seen(s->how->user, line);
}

/* Lines of the record look like "tried f64 12,120,256 6.1e10". */
static double known(const struct search *s, const char *words)
{
    const char *at = s->tried.s ? strstr(s->tried.s, words) : NULL;

    return at ? strtod(at + strlen(words), NULL) : 0;
}

static bool try_one(struct search *s, size_t i, int mr, int mb, int nb)
{
    const struct subject *what = &subjects[i];
    struct target t = s->best;
    char words[64], line[128];
    double rate;

    snprintf(words, sizeof words, "tried %s %d,%d,%d ", limber_units[what->unit].name, mr, mb, nb);
    rate = known(s, words);
    if (rate == 0) {
        if (now() > s->end)
            return true;
        memcpy(t.tile[what->unit], (int[]){ mr, mb, nb }, sizeof t.tile[0]);
        if (!set_target(s, &t))
            return false;
        rate = measure(s, what);
        snprintf(line, sizeof line, "%s%.4g", words, rate);
        limber_text_add(&s->tried, "%s\n", line);
        say(s, line);
    }
    if (rate > s->rate[i]) {
        s->rate[i] = rate;
        memcpy(s->best.tile[what->unit], (int[]){ mr, mb, nb }, sizeof t.tile[0]);
    }
    return !s->tried.failed;
}

/* All candidates in turn for all units, so that a short search sees some of each. */
static bool search(struct search *s)
{
    bool ok = true;

    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t h = 0; h < COUNT(tall); h++)
            for (size_t w = 0; w < COUNT(wide); w++)
                for (size_t i = 0; ok && i < COUNT(subjects); i++)
                    if (2 * rows[r] + 3 <= s->best.registers)
                        ok = try_one(s, i, rows[r], rows[r] * tall[h], wide[w]);
    return ok;
}

static bool start(struct search *s, const limber_context *ctx, struct diag *d)
{
    const struct backend *const alone[] = { ctx->machine.backend, NULL };
    const limber_config config = { .threads = 1 };
    const struct disk_options nothing = { .why_not = "measuring", .mode = CACHE_off };
    char *record = load(ctx), *tried = record ? strstr(record, "tried ") : NULL;

    if (tried)
        limber_text_add(&s->tried, "%s", tried);
    free(record);
    if (!limber_context_make(&s->ctx, &config, alone, d))
        return false;
    limber_disk_free(s->ctx->disk);
    s->ctx->disk = limber_disk_new(&nothing);
    if (!s->ctx->disk || !s->ctx->machine.backend->probe(&s->best, d))
        return limber_fail(d, LIMBER_NO_MEMORY, "no memory to measure");
    return true;
}

static void take_rates(struct search *s)
{
    for (size_t i = 0; i < COUNT(subjects); i++)
        if (s->rate[i] > 0)
            s->best.rate[subjects[i].unit] = s->rate[i];
    /* limbs of the narrow float units are computed in binary32 here */
    if (s->rate[1] > 0)
        s->best.rate[UNIT_f16] = s->best.rate[UNIT_bf16] = s->best.rate[UNIT_tf32] = s->rate[1];
}

static bool tune(limber_context *ctx, const limber_tuning *how, struct diag *d)
{
    struct search s = { .how = how };
    bool ok;

    if (strcmp(ctx->machine.backend->name, "llvm"))
        return limber_fail(d, LIMBER_DEVICE, "backend %s has nothing to tune",
                           ctx->machine.backend->name);
    s.end = now() + (how->seconds > 0 ? how->seconds : 10);
    ok = start(&s, ctx, d);
    if (ok && !search(&s))
        ok = limber_fail(d, LIMBER_NO_MEMORY, "no memory for the search");
    if (ok) {
        take_rates(&s);
        ok = store(ctx, &s, d);
    }
    if (s.ctx)
        limber_destroy(s.ctx);
    limber_text_clear(&s.tried);
    return ok;
}

limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning)
{
    static const limber_tuning plain;
    struct diag d = { 0 };

    if (!ctx)
        limber_fail(&d, LIMBER_BAD_ARGUMENT, "ctx is NULL");
    else if (tuning && !(tuning->seconds >= 0))
        limber_fail(&d, LIMBER_BAD_ARGUMENT, "tuning.seconds = %g is negative", tuning->seconds);
    else
        tune(ctx, tuning ? tuning : &plain, &d);
    if (d.status)
        limber_fail_in(&d, "tune");
    return limber_error_set(&d);
}
