/* SPDX-License-Identifier: BSD-3-Clause
 * Mixed products: parts of one product, each by the plan that its data allows, run or told.
 *
 * A part sees its groups of blocks of lines through an excerpt, and stores to C by the same blocks.
 * Parts that are sums over other tiles of the same elements follow each other, the first with the
 * caller's beta, the others with 1. */
#include "jit/engine.h"

#include "passes/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_SHIFT = 8 };    /* of tiles along k: what kernels leave out at once */

struct mixing {
    limber_context *ctx;
    const struct problem *p;
    int trust;
    char scheme[2][32];     /* "narrow+wide" apart; else the caller's wish, or "" */
    bool plans;             /* nothing is run; */
    struct text *story;     /* plans of the parts, or NULL */
    double workers;
};

/* ---- deciding -------------------------------------------------------------------------------- */

static struct problem sized(const struct mixing *x, int64_t m, int64_t n, const char *scheme,
                            int roundings)
{
    struct problem part = *x->p;

    part.m = m;
    part.n = n;
    part.contract.scheme = scheme;
    part.roundings = roundings;
    part.trust = x->trust;
    if (x->ctx->machine.backend->remote)        /* limbs are made inside of whole matrices only */
        part.contract.split = LIMBER_SPLIT_AHEAD;
    part.kept[0] = part.kept[1] = NULL;     /* parts show excerpts */
    return part;
}

static bool price(void *user, const struct mask *a, const struct mask *b, const char *scheme,
                  int roundings, struct price *out, struct diag *d)
{
    const struct mixing *x = user;
    struct problem part = sized(x, a->lines, b->lines, scheme, roundings);

    return limber_engine_price(x->ctx, &part, a, b, out, d);
}

static void split_name(struct mixing *x)
{
    const char *all = x->p->contract.scheme, *plus = all ? strchr(all, '+') : NULL;

    if (all)
        snprintf(x->scheme[0], sizeof x->scheme[0], "%.*s", (int)(plus ? plus - all : 31), all);
    if (plus)
        snprintf(x->scheme[1], sizeof x->scheme[1], "%s", plus + 1);
}

static bool decide(struct mixing *x, const struct mask *a, const struct mask *b,
                   struct partition *parts, bool *worth, struct diag *d)
{
    const struct partition_input in = {
        .mask = { a, b }, .k = x->p->k, .shift = TILE_SHIFT,
        .grain = { x->ctx->machine.backend->remote ? 4 : 1, x->ctx->machine.backend->remote ? 2 : 1 },
        .sums = x->p->contract.promise != LIMBER_CORRECT,
        .scheme = { *x->scheme[0] ? x->scheme[0] : NULL, *x->scheme[1] ? x->scheme[1] : NULL },
        .price = price, .user = x,
    };
    struct price whole;

    *worth = false;
    if (!in.scheme[1]) {
        if (!price(x, a, b, in.scheme[0], 0, &whole, d))
            return false;
        if (limber_price(&whole, (double)a->lines, (double)b->lines, (double)in.k, 1) <
            x->ctx->brief)
            return true;
    }
    if (!limber_partition(&in, parts, d))
        return false;
    *worth = parts->parts > 1 || parts->part[0].keep[0] || in.scheme[1];
    return true;
}

/* ---- running and planning -------------------------------------------------------------------- */

static void add_report(const struct mixing *x, limber_report *all, const limber_report *r,
                       const struct partition_part *part, const struct mask *a, const struct mask *b)
{
    limber_part *to = &all->part[all->parts++];
    int left = x->p->turned;    /* the side that is the caller's A */

    memcpy(to->scheme, r->scheme, sizeof to->scheme);
    memcpy(to->kernel, r->kernel, sizeof to->kernel);
    to->rows = r->rows;
    to->bound = r->bound;
    to->m = left ? b->lines : a->lines;
    to->n = left ? a->lines : b->lines;
    for (int i = 0; i < 2; i++) {
        to->group[i] = part->group[i ^ left];
        to->kinds[i] = part->keep[i ^ left];
    }
    to->share = part->share * (double)a->lines * (double)b->lines;
    to->cost = part->seconds / x->workers;
    to->seconds = r->seconds_run;
    memcpy(all->backend, r->backend, sizeof all->backend);
    memcpy(all->kernel, r->kernel, sizeof all->kernel);
    all->rows = r->rows > all->rows ? r->rows : all->rows;
    all->pruned += r->pruned;
    all->bound = r->bound > all->bound ? r->bound : all->bound;
    all->cost += to->cost;
    all->seconds_compile += r->seconds_compile;
    all->seconds_run += r->seconds_run;
    all->from = r->from < all->from || all->parts == 1 ? r->from : all->from;
    all->repaired += r->repaired;
    all->workspace = r->workspace > all->workspace ? r->workspace : all->workspace;
}

static void one_of(limber_format f, char *out)
{
    static const double one = 1;
    limber_format binary64;
    struct diag ignored = { 0 };

    limber_format_named("f64", &binary64);
    limber_format_convert(out, f, &one, binary64, 1, LIMBER_RN, &ignored);
}

/* A part, ready to be asked for or run; it stays where it is until it is cleared. */
struct ready {
    struct excerpt show[2];
    struct mask m[2];
    struct problem p;
    char one[16];
};

static void clear(struct ready *r)
{
    limber_mask_clear(&r->m[0]);
    limber_mask_clear(&r->m[1]);
}

static bool make_ready(const struct mixing *x, const struct partition *parts,
                       const struct partition_part *part, struct ready *r, struct diag *d)
{
    memset(r, 0, sizeof *r);
    for (int side = 0; side < 2; side++) {
        r->show[side] = limber_partition_excerpt(parts, part, side);
        if (!limber_mask_excerpt(&r->m[side], parts->side[side].mask, &r->show[side],
                                 limber_partition_blocks(parts, part, side))) {
            clear(r);
            return limber_fail(d, LIMBER_NO_MEMORY, "no memory for the masks of a part");
        }
    }
    r->p = sized(x, r->m[0].lines, r->m[1].lines, part->scheme, part->roundings);
    one_of(r->p.fc, r->one);
    r->p.a.excerpt = &r->show[0];
    r->p.b.excerpt = &r->show[1];
    r->p.c.rows = r->show[0].block;
    r->p.c.cols = r->show[1].block;
    r->p.beta = part->adds ? r->one : r->p.beta;
    return true;
}

static bool take_part(struct mixing *x, const struct partition *parts,
                     const struct partition_part *part, limber_report *report, struct diag *d)
{
    limber_report r = { 0 };
    struct ready ready;
    bool ok;

    if (!make_ready(x, parts, part, &ready, d))
        return false;
    ok = x->plans ? limber_engine_plan_masked(x->ctx, &ready.p, &ready.m[0], &ready.m[1], x->story, &r, d) :
         limber_engine_run_masked(x->ctx, &ready.p, &ready.m[0], &ready.m[1], &r, d);
    if (ok && report)
        add_report(x, report, &r, part, &ready.m[0], &ready.m[1]);
    clear(&ready);
    return ok;
}

/* All kernels are there, so that no part is refused after others are stored. */
static bool prepare(struct mixing *x, const struct partition *parts, bool *all, struct diag *d)
{
    bool ok = true;

    *all = true;
    for (int i = 0; i < parts->parts && ok; i++) {
        struct ready ready;
        bool one = true;

        if (!make_ready(x, parts, &parts->part[i], &ready, d))
            return false;
        ok = limber_engine_prepare_masked(x->ctx, &ready.p, &ready.m[0], &ready.m[1], &one, d);
        *all = *all && one;
        clear(&ready);
    }
    return ok;
}

static void finish_report(limber_report *r, const struct problem *p, double scan)
{
    double u = limber_format_roundoff(p->fc), all = (double)p->m * (double)p->n;
    int sums = 0;

    for (int i = 0; i < r->parts; i++)
        r->part[i].share /= all;
    for (int i = 0; i < r->parts; i++)      /* parts of the same elements */
        sums += r->part[i].m == r->part[0].m && r->part[i].n == r->part[0].n;
    r->bound += r->bound > 0 || sums > 1 ? (sums - 1) * u : 0;
    r->seconds_scan = scan;
    snprintf(r->scheme, sizeof r->scheme, r->parts > 1 ? "mixed" : "%s", r->part[0].scheme);
}

/* Parts where they pay. */
static bool mix(struct mixing *x, const struct mask *a, const struct mask *b, struct partition *parts,
                bool *done, limber_report *report, struct diag *d)
{
    double start = report ? limber_now() : 0, scan = report ? report->seconds_scan : 0;
    bool ok, worth, all = true;

    *done = false;
    split_name(x);
    x->workers = limber_pool_runner(x->ctx->pool).workers;
    ok = decide(x, a, b, parts, &worth, d);
    if (ok && worth && !x->plans)
        ok = prepare(x, parts, &all, d);
    if (!ok || !worth || !all)
        return ok;
    if (report)
        *report = (limber_report){ .from = 0 };
    scan += report ? limber_now() - start : 0;
    for (int i = 0; i < parts->parts && ok; i++) {
        if (x->story)
            limber_text_add(x->story, "; part %d\n", i + 1);
        ok = take_part(x, parts, &parts->part[i], report, d);
    }
    if (ok && report)
        finish_report(report, x->p, scan);
    *done = ok;
    return ok;
}

bool limber_mixed_run(limber_context *ctx, const struct problem *p, const struct mask *a,
                      const struct mask *b, int trust, bool *done, limber_report *report,
                      struct diag *d)
{
    struct mixing x = { .ctx = ctx, .p = p, .trust = trust };
    struct partition parts = { .parts = 0 };
    bool ok = mix(&x, a, b, &parts, done, report, d);

    limber_partition_clear(&parts);
    return ok;
}

bool limber_mixed_plan(limber_context *ctx, const struct problem *p, const struct mask *a,
                       const struct mask *b, int trust, bool *done, struct text *out, limber_cut *cut,
                       limber_report *report, struct diag *d)
{
    struct text story = { 0 };
    struct mixing x = { .ctx = ctx, .p = p, .trust = trust, .plans = true,
                        .story = out ? &story : NULL };
    struct partition parts = { .parts = 0 };
    bool ok = mix(&x, a, b, &parts, done, report, d);

    if (*done)
        ok = limber_parts_cut(cut, &parts, p->turned, report, parts.whole / x.workers, d);
    if (*done && ok && out) {
        limber_parts_text(out, cut);
        limber_text_add(out, "%s", story.s ? story.s : "");
        out->failed = out->failed || story.failed;
    }
    limber_text_clear(&story);
    limber_partition_clear(&parts);
    return ok;
}

bool limber_mixed_workspace(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, size_t *least, size_t *best, struct diag *d)
{
    struct mixing x = { .ctx = ctx, .p = p };
    struct partition parts = { .parts = 0 };
    bool ok, worth;

    split_name(&x);
    ok = decide(&x, a, b, &parts, &worth, d);
    for (int i = 0; i < parts.parts && ok && worth; i++) {
        struct ready ready;
        size_t few, many;

        ok = make_ready(&x, &parts, &parts.part[i], &ready, d);
        if (!ok)
            break;
        ok = limber_engine_workspace_masked(ctx, &ready.p, &ready.m[0], &ready.m[1], &few, &many, d);
        *least = ok && few > *least ? few : *least;
        *best = ok && many > *best ? many : *best;
        clear(&ready);
    }
    limber_partition_clear(&parts);
    return ok;
}
