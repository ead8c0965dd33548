/* SPDX-License-Identifier: BSD-3-Clause
 * Mixed products: a product is partitioned, and each part is computed by the plan that its data
 * allows.  A part reads its blocks of lines (rows of A, columns of B) through a tile subset, and
 * writes the same blocks of C.  Parts that add to the same elements run one after another: the
 * first with the caller's beta, the others with beta = 1. */
#define XXH_INLINE_ALL
#include "jit/ways.h"

#include "passes/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { TILE_SHIFT = 8 }; /* tiles have 2^8 = 256 elements along k, the granularity of kernels */

/* A product that may be partitioned. */
struct mixing {
    limber_context *ctx;
    const struct problem *p;
    const struct kernel_key *key; /* key of one plan for the whole product */
    struct first_pass first_pass;
    bool plans; /* true if the parts are planned but not run */
    struct text *trace; /* where the parts' plans are written, or NULL */
    /* threads that share the predicted seconds; 1 for a device */
    double workers;
};

/* ---- prices of parts ------------------------------------------------------------------------- */

/* Returns the problem of a part with m rows and n columns. scheme: the scheme of its tiles, or
 * NULL. roundings: how often an element is rounded between parts. */
static struct problem sized_problem(const struct mixing *x, int64_t m, int64_t n,
                                    const char *scheme, int roundings)
{
    const struct product_request whole = limber_request(x->p);
    struct problem part = *x->p;

    part.m = m;
    part.n = n;
    part.contract.scheme = scheme;
    part.part.roundings = roundings;
    part.part.first_pass = x->first_pass;
    part.part.fine = !limber_is_coarse(&whole, &x->ctx->machine.target);
    if (x->ctx->machine.backend->device_ops) /* split=inside reads only complete matrices */
        part.contract.split = LIMBER_SPLIT_AHEAD;
    part.kept[0] = part.kept[1] = NULL; /* kept limbs are those of complete operands */
    return part;
}

/* The `price` callback of struct partition_input: predicts the cost of a part from what scans
 * found in its lines of A and B. */
static bool predict_part_cost(void *user, const struct mask *a, const struct mask *b,
                              const char *scheme, int roundings, struct price *out, struct diag *d)
{
    const struct mixing *x = user;
    struct problem part = sized_problem(x, a->lines, b->lines, scheme, roundings);

    return limber_predict_cost(x->ctx, &part, a, b, out, d);
}

/* ---- products for which one plan is best ----------------------------------------------------- */

/* Returns a hash of everything on which the decision to partition depends: the kernel key, the
 * size, and what scans found in all tiles.  The decision takes longer than everything else
 * before packing, and calls often repeat, so the hashes of products that one plan computes best
 * are kept.  If two hashes collide, one plan computes the product, which is correct, too. */
static uint64_t decision_hash(const struct mixing *x, const struct mask *a, const struct mask *b)
{
    const int64_t more[] = { x->p->m, x->p->n, x->p->k, x->first_pass.bits, x->first_pass.decided };
    const struct mask *m[2] = { a, b };
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, x->key, limber_kernel_key_size(x->key));
    XXH3_64bits_update(&state, more, sizeof more);
    for (int i = 0; i < 2; i++) {
        const size_t blocks = (size_t)m[i]->tile_rows, tiles = blocks * (size_t)m[i]->tile_cols;

        for (size_t j = 0; j < blocks; j++) /* field by field, because blocks have padding */
            XXH3_64bits_update(&state, &m[i]->block[j],
                               offsetof(struct block_mask, flags) + sizeof m[i]->block[j].flags);
        if (m[i]->tile)
            XXH3_64bits_update(&state, m[i]->tile, tiles * sizeof *m[i]->tile);
    }
    return XXH3_64bits_digest(&state) | 1; /* never 0, which marks an empty entry */
}

/* Returns the slot of this hash in the table of products that are not worth partitioning. */
static atomic_uint_fast64_t *hash_slot(const struct mixing *x, uint64_t hash)
{
    return &x->ctx->pricing.whole[hash >> 32 & (COUNT(x->ctx->pricing.whole) - 1)];
}

/* True if an earlier call has found that one plan is best for this product. */
static bool is_known_whole(const struct mixing *x, uint64_t hash)
{
    return atomic_load_explicit(hash_slot(x, hash), memory_order_relaxed) == hash;
}

/* Remembers that one plan is best for this product. */
static void keep_whole(const struct mixing *x, uint64_t hash)
{
    atomic_store_explicit(hash_slot(x, hash), hash, memory_order_relaxed);
}

/* True if one plan takes so little time that no partition pays, whatever the tiles hold. whole:
 * predicted cost of the one plan. */
static bool is_cheap(const struct mixing *x, const struct price *whole, const struct mask *a,
                     const struct mask *b)
{
    return limber_price(whole, (double)a->lines, (double)b->lines, (double)x->p->k, 1) <
           x->ctx->pricing.brief;
}

/* Finds the best partition.  *worth: true if the partition is predicted to be faster than one plan,
 * or the caller named several schemes.  False on failure. */
static bool decide_partition(struct mixing *x, const struct mask *a, const struct mask *b,
                             struct partition *parts, bool *worth, struct diag *d)
{
    const struct product_request r = limber_request(x->p);
    const struct partition_input in = {
        .mask = { a, b },
        .k = x->p->k,
        .shift = TILE_SHIFT,
        .grain = { x->ctx->machine.backend->device_ops ? 4 : 1,
                   x->ctx->machine.backend->device_ops ? 2 : 1 },
        .sums = limber_may_sum_parts(&r, a, b, x->p->alpha || x->p->beta),
        .scheme = x->p->contract.scheme,
        .price = predict_part_cost,
        .user = x,
    };
    const bool several = x->p->contract.scheme && limber_names_several(&x->p->contract);
    const uint64_t hash = several ? 0 : decision_hash(x, a, b);
    struct price whole;

    *worth = false;
    if (hash && is_known_whole(x, hash))
        return true;
    if (!several) {
        if (!predict_part_cost(x, a, b, in.scheme, 0, &whole, d))
            return false;
        if (is_cheap(x, &whole, a, b)) {
            keep_whole(x, hash);
            return true;
        }
    }
    if (!limber_partition_make(&in, parts, d))
        return false;
    *worth = parts->parts > 1 || parts->part[0].keep[0] || several;
    if (!*worth)
        keep_whole(x, hash);
    return true;
}

/* ---- planning the parts and running them ----------------------------------------------------- */

/* Adds a part's report to the report of the whole product. */
static void add_report(const struct mixing *x, struct report *all, const struct report *r,
                       const struct partition_part *part, const struct mask *a,
                       const struct mask *b)
{
    limber_part *to = &all->part[all->parts++];
    /* 1 if the product was transposed, so that the caller's A is the right operand */
    int left = x->p->transposed;

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
    all->recomputed += r->recomputed;
    all->recomputed_seconds += r->recomputed_seconds;
    all->workspace = r->workspace > all->workspace ? r->workspace : all->workspace;
}

/* Stores the number 1 in format f. */
static void store_one(limber_format f, char *out)
{
    const double one = 1;
    struct diag ignored = { 0 };

    limber_format_convert(out, f, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST, &ignored);
}

/* A part that is ready to be planned or run.  Its fields point to each other, so the structure must
 * not be moved. */
struct prepared_part {
    struct tile_subset show[2];
    struct mask m[2];
    struct problem p;
    struct scan_result f;
    struct report report;
    /* beta = 1 in the format of scalars for C */
    char one[16];
};

/* Frees the masks (results of scans) of a part. */
static void clear_ready(struct prepared_part *r)
{
    limber_mask_clear(&r->m[0]);
    limber_mask_clear(&r->m[1]);
}

/* Makes the problem of one part, and selects from the scan results what belongs to its lines and
 * tiles.  False if memory runs out. */
static bool prepare_part(const struct mixing *x, const struct partition *parts,
                         const struct partition_part *part, struct prepared_part *r, struct diag *d)
{
    memset(r, 0, sizeof *r);
    for (int side = 0; side < 2; side++) {
        r->show[side] = limber_partition_subset(parts, part, side);
        if (!limber_mask_subset(&r->m[side], parts->side[side].mask, &r->show[side],
                                limber_partition_blocks(parts, part, side))) {
            clear_ready(r);
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the masks of a part");
        }
    }
    r->p = sized_problem(x, r->m[0].lines, r->m[1].lines, part->scheme, part->roundings);
    store_one(limber_scalar_format(r->p.fc), r->one);
    r->p.a.tile_subset = &r->show[0];
    r->p.b.tile_subset = &r->show[1];
    r->p.c.rows = r->show[0].block;
    r->p.c.cols = r->show[1].block;
    r->p.beta = part->adds ? r->one : r->p.beta;
    r->f = (struct scan_result){ .a = &r->m[0],
                                 .b = &r->m[1],
                                 .all_a = r->m[0],
                                 .all_b = r->m[1],
                                 .slices = r->p.contract.slices,
                                 .first_pass = r->p.part.first_pass };
    return true;
}

/* Plans the parts, and adds each of them to the report unless that is NULL. */
static bool plan_parts(struct mixing *x, const struct partition *parts, struct report *report,
                       struct diag *d)
{
    bool ok = true;

    for (int i = 0; i < parts->parts && ok; i++) {
        struct prepared_part r;

        if (x->trace)
            limber_text_add(x->trace, "; part %d\n", i + 1);
        if (!prepare_part(x, parts, &parts->part[i], &r, d))
            return false;
        ok = limber_engine_plan_masked(x->ctx, &r.p, &r.m[0], &r.m[1], x->trace, &r.report, d);
        if (ok && report)
            add_report(x, report, &r.report, &parts->part[i], &r.m[0], &r.m[1]);
        clear_ready(&r);
    }
    return ok;
}

/* Runs the parts.  Gets all kernels first, so that no part fails after others have stored results.
 * If a kernel is not ready, *all is false and nothing is run. */
static bool run_parts(struct mixing *x, const struct partition *parts, struct report *report,
                      bool *all, struct diag *d)
{
    struct prepared_part *r = calloc((size_t)parts->parts, sizeof *r);
    struct step step[PARTITION_PARTS] = { { .p = NULL } };
    bool ok = r || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the parts of a product");
    int made = 0;

    *all = true;
    for (; ok && made < parts->parts; made++) {
        struct kernel_key key;
        bool one = false;

        if (!(ok = prepare_part(x, parts, &parts->part[made], &r[made], d)))
            break;
        step[made] = (struct step){ &r[made].p, &r[made].f, NULL, &r[made].report };
        ok = limber_engine_step(x->ctx, &step[made], &key, &one, d);
        *all = *all && one;
    }
    ok = ok && (!*all || limber_launch(x->ctx, step, made, x->p, d));
    for (int i = 0; i < made; i++) {
        if (ok && *all && report)
            add_report(x, report, &r[i].report, &parts->part[i], &r[i].m[0], &r[i].m[1]);
        if (step[i].e)
            limber_kernels_put(x->ctx->memory, step[i].e);
        clear_ready(&r[i]);
    }
    free(r);
    return ok;
}

/* Computes the scheme and the bound of the whole product, and the parts' shares, from the parts'
 * reports. scan: seconds of scanning and partitioning. */
static void finish_report(struct report *r, const struct problem *p, double scan)
{
    double u = limber_format_roundoff(p->fc), all = (double)p->m * (double)p->n;
    int sums = 0;

    for (int i = 0; i < r->parts; i++)
        r->part[i].share /= all;
    for (int i = 0; i < r->parts; i++) /* counts parts that add to the same elements */
        sums += r->part[i].m == r->part[0].m && r->part[i].n == r->part[0].n;
    r->bound += r->bound > 0 || sums > 1 ? (sums - 1) * u : 0;
    r->seconds_scan = scan;
    snprintf(r->scheme, sizeof r->scheme, r->parts > 1 ? "mixed" : "%s", r->part[0].scheme);
}

/* Partitions the product, and runs or plans its parts, if that pays.  *done is false if one plan
 * must compute the product.  False on failure. */
static bool run_or_plan_parts(struct mixing *x, const struct mask *a, const struct mask *b,
                              struct partition *parts, bool *done, struct report *report,
                              struct diag *d)
{
    double start = report ? limber_now() : 0, scan = report ? report->seconds_scan : 0;
    struct report sum = { .from = 0 };
    bool ok, worth, all = true;

    *done = false;
    ok = decide_partition(x, a, b, parts, &worth, d);
    if (!ok || !worth)
        return ok;
    x->workers = limber_price_workers(x->ctx);
    scan += report ? limber_now() - start : 0;
    ok = x->plans ? plan_parts(x, parts, &sum, d) :
                    run_parts(x, parts, report ? &sum : NULL, &all, d);
    *done = ok && all;
    if (*done && report) {
        finish_report(&sum, x->p, scan);
        *report = sum;
    }
    return ok;
}

/* Raises *least and *best to the sizes of workspace that the parts of the product need.  If one
 * plan computes the product, both are unchanged.  False on failure. */
static bool parts_workspace(struct attempt *at, size_t *least, size_t *best)
{
    struct mixing x = { .ctx = at->ctx, .p = at->p, .key = at->key };
    struct partition parts = { .parts = 0 };
    bool ok, worth;

    ok = decide_partition(&x, at->f.a, at->f.b, &parts, &worth, at->d);
    for (int i = 0; i < parts.parts && ok && worth; i++) {
        struct prepared_part ready;
        size_t few, many;

        ok = prepare_part(&x, &parts, &parts.part[i], &ready, at->d);
        if (!ok)
            break;
        ok = limber_engine_workspace_masked(at->ctx, &ready.p, &ready.m[0], &ready.m[1], &few,
                                            &many, at->d);
        *least = ok && few > *least ? few : *least;
        *best = ok && many > *best ? many : *best;
        clear_ready(&ready);
    }
    limber_partition_clear(&parts);
    return ok;
}

/* ---- parts as a way to compute a call -------------------------------------------------------- */

/* Returns the reason why the way `parts` (a code path) cannot compute the call, as text; NULL if it
 * may. */
static const char *why_not_parts(const limber_context *ctx, const struct problem *p)
{
    if ((p->queue && p->queue->capture) || limber_device_records(ctx, p->queue))
        return "a stream records the call";
    return p->m > 0 && p->n > 0 && limber_may_cut(ctx, p) ?
               NULL :
               "it serves single products, but no small ones, whose scheme is the library's choice";
}

/* True if scans found the exponents and bits of every line and tile; without them there is no
 * partition. */
static bool has_masks(const struct attempt *x)
{
    return x->f.all_a.scanned && x->f.all_b.scanned;
}

/* True if one plan takes so little time that no partition pays (is_cheap).  The answer is stored
 * with the kernel, which was kept for later calls of the same form (sizes, strides, formats). */
static bool is_cheap_cached(struct mixing *x, const struct attempt *at)
{
    enum { UNKNOWN, CHEAP, COSTLY };
    int known = atomic_load_explicit(&at->found->cheap, memory_order_relaxed);
    struct diag ignored = { 0 };
    struct price whole;

    if (known == UNKNOWN) {
        known = predict_part_cost(x, at->f.a, at->f.b, NULL, 0, &whole, &ignored) &&
                        is_cheap(x, &whole, at->f.a, at->f.b) ?
                    CHEAP :
                    COSTLY;
        atomic_store_explicit(&at->found->cheap, known, memory_order_relaxed);
    }
    return known == CHEAP;
}

/* Runs the parts of a product.  RAN_not if one plan must compute the product. */
static enum ran run_parts_way(struct attempt *at)
{
    struct mixing x = { .ctx = at->ctx, .p = at->p };
    struct partition parts = { .parts = 0 };
    bool done = false, ok;

    if (!limber_attempt_scan(at))
        return RAN_failed;
    x.key = at->key;
    x.first_pass = at->f.first_pass;
    if (!has_masks(at) || (at->found && is_cheap_cached(&x, at)))
        return RAN_not;
    ok = run_or_plan_parts(&x, at->f.a, at->f.b, &parts, &done, at->r, at->d);
    limber_partition_clear(&parts);
    return ok ? limber_ran(done) : RAN_failed;
}

/* Writes the partition and the plan of each part, and fills *cut.  RAN_not if one plan must compute
 * the product. */
static enum ran plan_parts_way(struct attempt *at, struct text *out, struct cut *cut)
{
    struct text trace = { 0 };
    struct cut own = { 0 };
    struct mixing x = { .ctx = at->ctx, .p = at->p, .plans = true, .trace = out ? &trace : NULL };
    struct partition parts = { .parts = 0 };
    bool done = false, ok;

    if (!limber_attempt_scan(at))
        return RAN_failed;
    if (!has_masks(at))
        return RAN_not;
    x.key = at->key;
    x.first_pass = at->f.first_pass;
    ok = run_or_plan_parts(&x, at->f.a, at->f.b, &parts, &done, at->r, at->d);
    cut = cut ? cut : &own; /* the caller wants none for a convolution */
    if (done)
        ok =
            limber_parts_cut(cut, &parts, at->p->transposed, at->r, parts.whole / x.workers, at->d);
    if (done && ok && out) {
        limber_parts_text(out, cut);
        limber_text_add(out, "%s", trace.s ? trace.s : "");
        out->failed = out->failed || trace.failed;
    }
    limber_cut_clear(&own);
    limber_text_clear(&trace);
    limber_partition_clear(&parts);
    return ok ? limber_ran(done) : RAN_failed;
}

/* Computes a workspace that suffices for one plan and for the parts.  RAN_not if the operands were
 * not scanned, so that there are no parts. */
static enum ran parts_workspace_way(struct attempt *at, bool batch, size_t *least, size_t *best)
{
    if (!limber_attempt_scan(at))
        return RAN_failed;
    if (!has_masks(at))
        return RAN_not;
    return limber_way_kernel.workspace(at, batch, least, best) == RAN_done &&
                   parts_workspace(at, least, best) ?
               RAN_done :
               RAN_failed;
}

const struct way limber_way_parts = { .id = WAY_parts,
                                      .plans = true,
                                      .refuses = why_not_parts,
                                      .run = run_parts_way,
                                      .workspace = parts_workspace_way,
                                      .plan = plan_parts_way };
