/* SPDX-License-Identifier: BSD-3-Clause
 * limber_tune: measures register tiles and cache blocks on this machine.  The record is an entry of
 * the disk cache, stored, checked and evicted like a kernel.  It holds the target with the best
 * tiles and rates, and a line for each tile that was measured. */
#include "jit/tune/tune.h"

#include "jit/accepted.h"
#include "jit/api/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* m, n and k of the measured products; number of runs, of which the fastest is taken */
enum { SIZE = 768, RUNS = 5 };

/* A unit that is measured, and the formats and the scheme of a product that uses it. */
static const struct subject {
    enum unit unit;
    const char *in, *out, *scheme;
} subjects[] = {
    { UNIT_f64, "f64", "f64", "native" },
    { UNIT_f32, "f32", "f32", "native" },
    { UNIT_i8, "i8", "i32", "integer" },
};
static const double clearly = 1.02; /* smaller gains are measurement noise */

/* State of a search for the machine's best tiles. */
struct search {
    limber_context *ctx; /* used for measuring; stores nothing on disk */
    /* target with the fastest tiles so far */
    struct target best;
    /* best rate so far, in multiply-adds per second */
    double rate[COUNT(subjects)];
    /* units that the caller wants measured */
    bool wanted[COUNT(subjects)];
    /* lines of the record, one for each measured tile */
    struct text tried;
    struct diag unserved; /* the reason why no kernel had a tile */
    const limber_tuning *options;
    /* time at which the search ends */
    double end;
};

/* ---- the record of what was measured --------------------------------------------------------- */

/* Stores the record on disk. */
static bool store_record(limber_context *ctx, const struct search *s, struct diag *d)
{
    struct facts facts = { .plan = "tuning record", .scheme = "none" };
    limber_cache_info info;
    struct text text = { 0 };
    struct blob bytes;
    bool ok;

    limber_disk_describe(ctx->disk, &info);
    if (!info.writable)
        return limber_fail(d, LIMBER_STATUS_IO, "the cache on disk is not written: %s",
                           info.why_not[0] ? info.why_not : "no directory");
    limber_target_print(&s->best, &text);
    if (s->tried.s)
        limber_text_add(&text, "%s", s->tried.s);
    ok = limber_tuning_key(ctx, facts.key) && !text.failed;
    if (ok) {
        bytes = (struct blob){ (unsigned char *)text.s, text.n };
        limber_disk_store(ctx->disk, &facts, &bytes);
    }
    limber_text_clear(&text);
    if (!ok)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the record");
    limber_disk_describe(ctx->disk, &info);
    return info.writable ||
           limber_fail(d, LIMBER_STATUS_IO, "the cache on disk is not written: %s", info.why_not);
}

/* ---- measuring tiles and rates --------------------------------------------------------------- */

/* Sets the target of the context that measures.  Drops its kernels in memory, because they were
 * made for the old target.  Returns false if memory runs out. */
static bool set_target(struct search *s, const struct target *t)
{
    struct kernel_cache *empty = limber_kernels_new(COUNT(subjects));

    if (!empty || !limber_machine_describe(&s->ctx->machine, t)) {
        limber_kernels_free(empty);
        return false;
    }
    limber_forms_free(s->ctx->forms);
    s->ctx->forms = NULL; /* each call finds its kernel anew */
    limber_kernels_free(s->ctx->memory);
    s->ctx->memory = empty;
    return true;
}

/* Makes an operand of random values in [-1, 1], or of random 8-bit integers.  Zeros might run at
 * another clock rate, or be skipped.  NULL if memory runs out. */
static void *make_operand(limber_format f, uint32_t seed)
{
    size_t count = (size_t)SIZE * SIZE;
    char *data = malloc(count * f.size);

    for (size_t i = 0; data && i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        if (f.kind == LIMBER_KIND_INT)
            data[i] = (char)(seed >> 24);
        else if (f.size == 8)
            memcpy(data + 8 * i, &(double){ (int32_t)seed * 0x1p-31 }, 8);
        else
            memcpy(data + 4 * i, &(float){ (float)(int32_t)seed * 0x1p-31f }, 4);
    }
    return data;
}

/* Measures multiply-adds per second: the fastest of a few runs, after a first run that compiles.
 * Returns LIMBER_STATUS_DEVICE if no kernel has the tile, since only few tiles are prebuilt. */
static limber_status time_runs(struct search *s, const struct subject *what, limber_matrix a,
                               limber_matrix b, limber_output c, double *rate)
{
    const limber_contract contract = { .size = sizeof contract,
                                       .promise = LIMBER_CONTRACT_NATIVE,
                                       .scheme = what->scheme };
    double best = INFINITY;

    for (int i = -1; i < RUNS; i++) {
        double start = limber_now(), seconds;
        limber_status status =
            limber_gemm(s->ctx, &contract, SIZE, SIZE, SIZE, NULL, a, b, NULL, c, NULL);

        if (status)
            return status;
        seconds = limber_now() - start;
        if (i >= 0 && seconds < best)
            best = seconds;
    }
    *rate = (double)SIZE * SIZE * SIZE / best;
    return LIMBER_STATUS_OK;
}

/* Measures the rate of a unit's products with the tiles of the current target.  *rate is unchanged
 * if no kernel has the tile. */
static bool measure_rate(struct search *s, const struct subject *what, double *rate, struct diag *d)
{
    limber_status status = LIMBER_STATUS_OK;
    limber_format in, out;
    void *a, *b, *c;
    bool ok;

    limber_format_named(what->in, &in);
    limber_format_named(what->out, &out);
    a = make_operand(in, 1);
    b = make_operand(in, 2);
    c = calloc((size_t)SIZE * SIZE, out.size);
    ok = (a && b && c) || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to measure");
    if (ok)
        status =
            time_runs(s, what, (limber_matrix){ a, in, SIZE, 1 }, (limber_matrix){ b, in, SIZE, 1 },
                      (limber_output){ c, out, SIZE, 1 }, rate);
    if (status == LIMBER_STATUS_DEVICE)
        limber_fail(&s->unserved, status, "%s", limber_error_text());
    else if (status)
        ok = limber_fail(d, status, "%s", limber_error_text());
    free(a);
    free(b);
    free(c);
    return ok;
}

/* Sends a line of text to the caller. */
static void report_line(const struct search *s, const char *line)
{
    if (s->options->line)
        s->options->line(s->options->user, line);
}

/* Finds a rate in the record, whose lines look like "tried f64 12,120,256 6.1e10". words: beginning
 * of the line.  Returns 0 if there is no such line. */
static double find_rate(const struct search *s, const char *words)
{
    const char *at = s->tried.s ? strstr(s->tried.s, words) : NULL;
    locale_t before = limber_plain_numbers();
    double rate = at ? strtod(at + strlen(words), NULL) : 0;

    uselocale(before);
    return rate;
}

/* Sets a tile, measures its rate, and adds a line to the record. */
static bool measure_tile(struct search *s, const struct subject *what, const int tile[3],
                         const char *words, double *rate, struct diag *d)
{
    struct target t = s->best;
    struct text line = { 0 };

    memcpy(t.tile[what->unit], tile, sizeof t.tile[0]);
    if (!set_target(s, &t))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the search");
    if (!measure_rate(s, what, rate, d))
        return false;
    if (*rate == 0)
        return true;
    limber_text_add(&line, "%s%.4g", words, *rate);
    if (line.s && !line.failed) {
        limber_text_add(&s->tried, "%s\n", line.s);
        report_line(s, line.s);
    }
    limber_text_clear(&line);
    return !s->tried.failed || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the search");
}

/* Measures one tile, unless its rate is known, the caller did not ask for its unit, or time is up.
 * Keeps the tile if it is the best so far. */
static bool try_tile(struct search *s, size_t i, const int tile[3], struct diag *d)
{
    const struct subject *what = &subjects[i];
    char words[64];
    double rate;

    if (what->unit == UNIT_i8 && s->best.matrix && s->rate[i] > 0)
        return true; /* a matrix unit has only one tile */
    snprintf(words, sizeof words, "tried %s %d,%d,%d ", limber_units[what->unit].name, tile[0],
             tile[1], tile[2]);
    rate = find_rate(s, words);
    if (rate == 0 && (!s->wanted[i] || limber_now() > s->end))
        return true;
    if (rate == 0 && !measure_tile(s, what, tile, words, &rate, d))
        return false;
    if (rate > clearly * s->rate[i]) {
        s->rate[i] = rate;
        memcpy(s->best.tile[what->unit], tile, sizeof s->best.tile[0]);
    }
    return true;
}

/* Tries candidates for all units in turn, so that a short search tries some for each unit. */
static bool search_tiles(struct search *s, struct diag *d)
{
    bool ok = true;

    for (size_t r = 0; r < COUNT(limber_tile_rows); r++)
        for (size_t h = 0; h < COUNT(limber_tile_tall); h++)
            for (size_t w = 0; w < COUNT(limber_tile_wide); w++)
                for (size_t i = 0; ok && i < COUNT(subjects); i++)
                    if (limber_tile_has_registers(&s->best, limber_tile_rows[r]))
                        ok = try_tile(s, i,
                                      (int[]){ limber_tile_rows[r],
                                               limber_tile_rows[r] * limber_tile_tall[h],
                                               limber_tile_wide[w] },
                                      d);
    return ok;
}

/* Parses a comma-separated list of units; NULL means all. */
static bool read_units(struct search *s, const char *units, struct diag *d)
{
    for (size_t i = 0; i < COUNT(subjects); i++)
        s->wanted[i] = !units;
    while (units) {
        size_t n = strcspn(units, ","), i = 0;

        while (i < COUNT(subjects) &&
               (strlen(subjects[i].in) != n || strncmp(subjects[i].in, units, n)))
            i++;
        if (i == COUNT(subjects))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "tuning.units: \"%.20s\" is none of f64, "
                               "f32, i8",
                               units);
        s->wanted[i] = true;
        units = units[n] ? units + n + 1 : NULL;
    }
    return true;
}

/* Makes the context that measures, and reads the lines of an earlier search. */
static bool start_search(struct search *s, const limber_context *ctx, struct diag *d)
{
    const struct backend *const alone[] = { ctx->machine.backend, NULL };
    const limber_config config = {
        .size = sizeof config, .backend = alone[0]->name, .threads = 1, .dump_dir = ""
    };
    const struct disk_options nothing = { .why_not = "measuring", .mode = CACHE_off };
    char *record = limber_tuning_load(ctx), *tried = record ? strstr(record, "tried ") : NULL;

    if (tried)
        limber_text_add(&s->tried, "%s", tried);
    free(record);
    if (!limber_context_make(&s->ctx, &config, alone, d))
        return false;
    s->ctx->tells.verbose = 0;
    limber_disk_free(s->ctx->disk);
    s->ctx->disk = limber_disk_new(&nothing);
    if (!s->ctx->disk || !s->ctx->machine.backend->probe(&s->best, d))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory to measure");
    return true;
}

/* Stores the measured rates if all units were measured: measured rates cannot be compared with
 * nominal rates of other units. */
static void take_rates(struct search *s)
{
    for (size_t i = 0; i < COUNT(subjects); i++)
        if (s->rate[i] == 0)
            return;
    for (size_t i = 0; i < COUNT(subjects); i++)
        s->best.rate[subjects[i].unit] = s->rate[i];
    /* CPUs compute products of f16, bf16 and tf32 limbs in binary32 */
    s->best.rate[UNIT_f16] = s->best.rate[UNIT_bf16] = s->best.rate[UNIT_tf32] = s->rate[1];
}

/* Searches for better tiles within the caller's time, and stores the record. */
static bool run_tuning(limber_context *ctx, const limber_tuning *options, struct diag *d)
{
    struct search s = { .options = options };
    bool ok;

    if (!read_units(&s, options->units, d))
        return false;
    if (!ctx->machine.cpu)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "backend %s has nothing to tune",
                           ctx->machine.backend->name);
    s.end = limber_now() + (options->seconds > 0 ? options->seconds : 10);
    ok = start_search(&s, ctx, d) && search_tiles(&s, d);
    if (ok && s.unserved.status && !s.tried.s)
        ok = limber_fail(d, s.unserved.status, "%s", s.unserved.text);
    if (ok) {
        take_rates(&s);
        ok = store_record(ctx, &s, d);
    }
    limber_destroy(s.ctx);
    limber_text_clear(&s.tried);
    return ok;
}

/* Measures shapes of register tiles and cache blocks, and the rates of FP64, FP32 and INT8, and
 * keeps the best in the disk cache.  tuning: options, or NULL. */
limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning)
{
    CALL_SCOPE;
    limber_tuning full = LIMBER_TUNING_INIT;
    struct diag d = { 0 };

    if (!ctx)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    else if (!tuning ||
             limber_copy_sized_in(&full, sizeof full, tuning, LEAST_tuning, "tuning", &d)) {
        if (!(full.seconds >= 0))
            limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "tuning.seconds = %g is negative",
                        full.seconds);
        else
            run_tuning(ctx, &full, &d);
    }
    if (d.status)
        limber_fail_in(&d, "tune");
    return limber_error_set(&d);
}
