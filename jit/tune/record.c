/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the measurements of this machine (limber_tune) from the disk cache into its target. */
#include "jit/tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Computes the key of the machine's tuning record, from the build and from the target as probed
 * now, before measurements change it.  False if probing fails or memory runs out. */
bool limber_tuning_key(const limber_context *ctx, unsigned char key[KEY_BYTES])
{
    struct target probed;
    struct text text = { 0 };
    struct diag d = { 0 };
    bool ok = ctx->machine.backend->probe(&probed, &d);

    if (ok) {
        limber_target_print(&probed, &text);
        ok = !text.failed;
        if (ok)
            limber_key_make(key, ctx->build, "tuning\n", 7, text.s);
    }
    limber_text_clear(&text);
    return ok;
}

/* Returns the text of earlier tuning from the disk cache, to be freed; NULL if there is none. */
char *limber_tuning_load(const limber_context *ctx)
{
    unsigned char key[KEY_BYTES];
    struct facts facts;
    struct blob bytes;
    char *s = NULL;

    if (!limber_tuning_key(ctx, key) || !limber_disk_load(ctx->disk, key, &facts, &bytes))
        return NULL;
    s = malloc(bytes.size + 1);
    if (s) {
        memcpy(s, bytes.data, bytes.size);
        s[bytes.size] = 0;
    }
    free(bytes.data);
    return s;
}

static bool is_among(int x, const int *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* True if the registers suffice for a tile of mr rows. */
bool limber_tile_has_registers(const struct target *t, int mr)
{
    return !limber_target_is_outer(t) && 2 * mr + 3 <= t->registers;
}

/* True if there is no tile, or it is one that the search would try. */
static bool is_candidate(const struct target *t, const int tile[3])
{
    if (!tile[0])
        return true;
    return is_among(tile[0], limber_tile_rows, COUNT(limber_tile_rows)) &&
           limber_tile_has_registers(t, tile[0]) && tile[1] % tile[0] == 0 &&
           is_among(tile[1] / tile[0], limber_tile_tall, COUNT(limber_tile_tall)) &&
           is_among(tile[2], limber_tile_wide, COUNT(limber_tile_wide));
}

/* Parses the target in the record's first line.  False if that line is none. */
static bool parse_target(const char *record, struct target *t)
{
    char line[2048];
    struct diag ignored = { 0 };
    size_t n = strcspn(record, "\n");

    if (n >= sizeof line)
        return false;
    memcpy(line, record, n);
    line[n] = 0;
    return limber_target_parse(t, line, &ignored);
}

/* Copies tiles and rates, and nothing else, from the record to the target.  False if a value cannot
 * have been measured. */
static bool copy_measurements(struct target *t, const char *record)
{
    struct target r;

    if (!parse_target(record, &r))
        return false;
    for (int u = 0; u < UNIT_count; u++)
        if (!is_candidate(t, r.tile[u]) || !isfinite(r.rate[u]) ||
            (r.rate[u] > 0) != (t->rate[u] > 0))
            return false;
    memcpy(t->tile, r.tile, sizeof t->tile);
    memcpy(t->rate, r.rate, sizeof t->rate);
    return true;
}

/* Stores a target and its text in *m.  False if memory runs out. */
bool limber_machine_describe(struct machine *m, const struct target *t)
{
    struct text text = { 0 };

    limber_target_print(t, &text);
    if (text.failed) {
        limber_text_clear(&text);
        return false;
    }
    limber_text_clear(&m->text);
    m->text = text;
    m->target = *t;
    return true;
}

/* Copies measurements of this machine from the disk cache to its target. */
void limber_tuning_read(limber_context *ctx)
{
    struct target t = ctx->machine.target;
    char *record = limber_tuning_load(ctx);

    ctx->tuned =
        record && copy_measurements(&t, record) && limber_machine_describe(&ctx->machine, &t);
    free(record);
}
