/* SPDX-License-Identifier: BSD-3-Clause
 * Scans the operands of a call as far as the passes need it: masks, and estimates from samples that
 * are made before there is a plan. */
#include "jit/device.h"
#include "jit/prepared.h"
#include "jit/scan/operands.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Merges the mask (summary of exponents and special values) of one group into that of all groups.
 * first: *m is the first group's. */
static void merge_mask(struct mask *all, const struct mask *m, bool first)
{
    bool scanned = m->scanned && (first || all->scanned);
    int low = limber_mask_low(m), before = first ? INT_MAX : limber_mask_low(all);

    low = low < before ? low : before;  /* INT_MIN (unknown) is the least, so it prevails */
    if (first || all->zero) {           /* `all` has no extremes yet */
        bool special = !first && all->special;

        *all = *m;
        all->special = all->special || special;
    } else if (!m->zero) {
        all->zero = false;
        all->special = all->special || m->special;
        all->negative = all->negative || m->negative;
        all->emin = m->emin < all->emin ? m->emin : all->emin;
        all->emax = m->emax > all->emax ? m->emax : all->emax;
        all->spread = m->spread > all->spread ? m->spread : all->spread;
        all->width = m->width > all->width ? m->width : all->width;
        all->sig = m->sig > all->sig ? m->sig : all->sig;
    } else {
        all->special = all->special || m->special;
    }
    all->scanned = scanned;
    all->has_low = low != INT_MIN;
    all->low = low;
    all->line_emax = NULL; /* these arrays belong to the groups' masks */
    all->line_special = NULL;
    all->tile = NULL;
    all->block = NULL;
}

/* True if each window of an image must be scanned separately: a scheme that the caller names may
 * need a smaller range of exponents than the complete image has. */
static bool scans_each_line(const struct problem *p)
{
    return p->contract.scheme != NULL;
}

/* Returns the device's scan of all matrices of one operand. left: the operand is A. */
static struct device_scan device_scan_of(const struct problem *p, struct mask *m, bool left)
{
    return (struct device_scan){ .m = m,
                                 .matrices = limber_matrix_count(p, left),
                                 .each = left ? limber_groups_a(p) : limber_groups_b(p),
                                 .v = left ? &p->a : &p->b,
                                 .lines = left ? p->m : p->n,
                                 .length = p->k,
                                 .each_line = scans_each_line(p) };
}

/* Arguments of scan_group: the matrices of one operand, and how they are scanned. */
struct scanning {
    limber_context *ctx;
    const struct problem *p;
    struct mask *m;
    bool left;
    enum data_need need;
    const struct runner *r; /* threads for one matrix; if NULL, the calling thread scans */
    int64_t first;
};

/* Task: scans one matrix of an operand, on the host or the device. */
static bool scan_group(void *arg, int64_t g, int worker, struct diag *d)
{
    const struct scanning *s = arg;
    const struct problem *p = s->p;
    limber_format f = s->left ? p->fa : p->fb;
    int64_t lines = s->left ? p->m : p->n;
    struct view v = s->left ? limber_group_a(p, g + s->first) : limber_group_b(p, g + s->first);
    struct mask *m = &s->m[g + s->first];
    enum scan_depth depth = s->need == NEED_probe ? SCAN_probe : SCAN_full;
    struct device_scan one;
    struct pixels ignored;

    (void)worker;
    if (s->need == NEED_format)
        return limber_scan_bytes(m, f, lines, p->k, d);
    if (p->kept[!s->left]) {
        limber_prepared_mask(p->kept[!s->left], limber_kept_place(p, g + s->first), m, depth);
        return true;
    }
    if (limber_device_holds(s->ctx, v.data)) {
        one = device_scan_of(p, m, s->left);
        one.matrices = 1;
        one.each = (struct spread){ 0, NULL };
        one.v = &v;
        return limber_device_scans(s->ctx, &one, 1, f, p->queue, d);
    }
    if (!limber_scan(m, &v, f, lines, p->k, depth, s->r, d))
        return false;
    if (limber_is_device(&s->ctx->machine.target) && !scans_each_line(p) &&
        limber_view_pixels(&ignored, &v, lines, p->k))
        limber_mask_make_uniform(m); /* as scans on the device do */
    return true;
}

/* largest number of elements for which one thread is faster than several */
enum { SCAN_ALONE = 1 << 16 };

/* True if all matrices of an operand are on the device, which then scans them in one launch. */
static bool are_on_device(const limber_context *ctx, const struct problem *p, bool left,
                          enum data_need need)
{
    int64_t count = (left ? p->at.each_a : p->at.each_b) ? limber_matrix_count(p, left) : 1;

    if (need == NEED_format || p->kept[!left])
        return false;
    for (int64_t g = 0; g < count; g++)
        if (!limber_device_holds(ctx, (left ? limber_group_a(p, g) : limber_group_b(p, g)).data))
            return false;
    return true;
}

/* Merges the masks of `count` groups into one. */
static void join_masks(struct mask *all, const struct mask *m, int64_t count)
{
    for (int64_t g = 0; g < count; g++)
        merge_mask(all, &m[g], g == 0);
}

/* Scans an operand on the device, and merges the masks (results) of its matrices into *all. */
static bool scan_on_device(limber_context *ctx, struct mask *m, struct mask *all,
                           const struct problem *p, bool left, struct diag *d)
{
    const struct device_scan s = device_scan_of(p, m, left);

    if (!limber_device_scans(ctx, &s, 1, left ? p->fa : p->fb, p->queue, d))
        return false;
    join_masks(all, m, s.matrices);
    return true;
}

/* Scans both operands, which have the same format, in one launch, so that the call waits for the
 * device only once. */
static bool scan_both_on_device(limber_context *ctx, struct scan_result *f, const struct problem *p,
                                struct diag *d)
{
    const struct device_scan s[2] = { device_scan_of(p, f->a, true),
                                      device_scan_of(p, f->b, false) };

    if (!limber_device_scans(ctx, s, 2, p->fa, p->queue, d))
        return false;
    join_masks(&f->all_a, f->a, s[0].matrices);
    join_masks(&f->all_b, f->b, s[1].matrices);
    return true;
}

/* Scans one operand: first its first matrix, then small matrices at the same time, or large ones
 * one after another. */
static bool scan_side(limber_context *ctx, struct mask *m, struct mask *all,
                      const struct problem *p, bool left, enum data_need need,
                      const struct runner *r, struct diag *d)
{
    struct scanning s = { ctx, p, m, left, need, r, 0 };
    int64_t count = limber_matrix_count(p, left), g = 0;
    const bool has_device = ctx->machine.backend->device_ops != NULL;
    bool small = (left ? p->m : p->n) * p->k <= SCAN_ALONE;

    if (has_device && count > 0 && are_on_device(ctx, p, left, need))
        return scan_on_device(ctx, m, all, p, left, d);
    if (count == 0 || !scan_group(&s, 0, 0, d))
        return count == 0;
    if (small && count > 1 && m->scanned) {
        s.first = 1;
        s.r = NULL;
        if (!limber_groups_run(r, count - 1, scan_group, &s, d))
            return false;
    }
    for (;; g++) {
        merge_mask(all, &m[g], g == 0);
        /* if one matrix cannot be described by exponents and bits, the scan ends */
        if (!m[g].scanned || g + 1 == count)
            return true;
        if (!small && !scan_group(&s, g + 1, 0, d))
            return false;
    }
}

/* True if the product may be partitioned (limber_can_partition), and the operands' views allow it.
 */
bool limber_may_cut(const limber_context *ctx, const struct problem *p)
{
    const struct product_request r = limber_request(p);

    return limber_has_way(ctx, WAY_parts) && limber_can_partition(&r) &&
           (p->shape || (limber_view_strided(&p->a) && limber_view_strided(&p->b)));
}

/* True if a sample of both operands suggests that dividing the product into parts may pay: many
 * pairs of tiles need few bits, or some tiles are zero. */
static bool seems_mixed(const struct problem *p)
{
    const struct sample a = limber_scan_sample(&p->a, p->fa, p->m, p->k),
                        b = limber_scan_sample(&p->b, p->fb, p->n, p->k);

    return a.narrow * b.narrow > 0.1 || (1 - a.zero) * (1 - b.zero) < 0.9;
}

/* True if the first element of a matrix is a normal binary64 or binary32 number of more than
 * SCAN_narrow significant bits.  A probe (a scan that stops early) would stop at the first line. */
static bool begins_wide(const struct view *v, limber_format f)
{
    const uint64_t low64 = ((uint64_t)1 << (53 - SCAN_narrow)) - 1;
    const uint32_t low32 = ((uint32_t)1 << (24 - SCAN_narrow)) - 1;
    uint64_t wide;
    uint32_t narrow;

    if (!limber_view_strided(v) || v->tile_subset || !limber_format_is_binary(f))
        return false;
    if (f.size == 8) {
        memcpy(&wide, v->data, sizeof wide);
        return wide & low64 && (wide >> 52 & 2047) % 2047 > 0;
    }
    memcpy(&narrow, v->data, sizeof narrow);
    return narrow & low32 && (narrow >> 23 & 255) % 255 > 0;
}

/* True if a look at the first elements shows that a probe (a scan that stops early) would stop
 * in A or in B. */
static bool would_stop(const limber_context *ctx, const struct problem *p)
{
    return !ctx->machine.backend->device_ops && p->groups == 1 && p->m > 0 && p->n > 0 &&
           p->k > 0 && !p->kept[0] && !p->kept[1] &&
           (begins_wide(&p->a, p->fa) || begins_wide(&p->b, p->fb));
}

/* Scans both operands as far as `need` says. */
static bool scan_both(limber_context *ctx, struct scan_result *f, const struct problem *p,
                      enum data_need need, const struct runner *r, struct diag *d)
{
    f->a = calloc((size_t)p->groups, sizeof *f->a);
    f->b = calloc((size_t)p->groups, sizeof *f->b);
    if (!f->a || !f->b)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the masks of %lld groups",
                           (long long)p->groups);
    for (int i = 0; i < 2; i++)
        f->borrowed[i] = p->kept[i] && need != NEED_format;
    if (ctx->machine.backend->device_ops && p->groups > 0 && limber_same_format(p->fa, p->fb) &&
        are_on_device(ctx, p, true, need) && are_on_device(ctx, p, false, need)) {
        if (!scan_both_on_device(ctx, f, p, d))
            return false;
    } else if (!scan_side(ctx, f->a, &f->all_a, p, true, need, r, d) ||
               (f->all_a.scanned && !scan_side(ctx, f->b, &f->all_b, p, false, need, r, d)))
        return false;
    /* if only one operand is known, kernels would be compiled for more classes of data without a
     * gain */
    if (!f->all_a.scanned || !f->all_b.scanned)
        f->all_a.scanned = f->all_b.scanned = false;
    return true;
}

/* Scans all of both operands, and estimates nothing. */
bool limber_scan_masks(limber_context *ctx, struct scan_result *f, const struct problem *p,
                       struct diag *d)
{
    const struct runner runner = limber_pool_runner(ctx->pool);

    return scan_both(ctx, f, p, NEED_masks, &runner, d);
}

/* Estimates the number of slices over all groups. */
static bool count_slices(limber_context *ctx, struct scan_result *f, const struct problem *p,
                         struct diag *d)
{
    struct problem group = *p;

    for (int64_t g = 0; g < p->groups; g++) {
        int slices = 1;

        group.a = limber_group_a(p, g);
        group.b = limber_group_b(p, g);
        if (!limber_estimate_slices(ctx, &group, limber_mask_of(p, f->a, true, g),
                                    limber_mask_of(p, f->b, false, g), &slices, d))
            return false;
        f->slices = slices > f->slices ? slices : f->slices;
    }
    return true;
}

/* Frees the masks (results of scans) in *f, but not those that a prepared operand owns.  groups:
 * number of groups of the product. */
void limber_scan_result_clear(struct scan_result *f, int64_t groups)
{
    for (int64_t g = 0; g < groups && (f->a || f->b); g++) {
        if (f->a && !f->borrowed[0])
            limber_mask_clear(&f->a[g]);
        if (f->b && !f->borrowed[1])
            limber_mask_clear(&f->b[g]);
    }
    free(f->a);
    free(f->b);
}

/* Returns the exponent of the lowest set bit of all matrices of an operand; INT_MIN if unknown. */
static int lowest_bit(const struct problem *p, const struct mask *m, bool left)
{
    int least = INT_MAX;

    if (limber_is_integer(left ? p->fa : p->fb))
        return 0;
    for (int64_t g = 0; g < limber_matrix_count(p, left); g++) {
        int low = limber_mask_low(&m[g]);

        least = low < least ? low : least;
    }
    return least == INT_MAX ? 0 : least;
}

/* Returns the number of bits of an operand's scaled integers if all lines share one scale; INT_MAX
 * if unknown. */
static int64_t shared_width(const struct problem *p, const struct mask *m, bool left)
{
    int64_t low = m ? lowest_bit(p, m, left) : INT_MIN, high = INT_MIN;

    for (int64_t g = 0; low != INT_MIN && g < limber_matrix_count(p, left); g++)
        if (!m[g].zero && m[g].emax > high)
            high = m[g].emax;
    return low == INT_MIN ? INT_MAX : high == INT_MIN ? 0 : high - low + 1;
}

/* True if binary64 holds every sum of products exactly. */
static bool sums_are_exact(const struct problem *p, const struct scan_result *f)
{
    int64_t bits = shared_width(p, f->a, true) + shared_width(p, f->b, false);

    return bits <= 53 && ldexp((double)p->k, (int)bits) <= 0x1p53;
}

/* Returns what scans must find out for this call. */
struct scan_wants limber_scan_wants(const limber_context *ctx, const struct problem *p)
{
    /* Multiply-adds below which partitioning does not pay.  A constant, not a predicted time, since
     * the bits of native results depend on it and must not depend on the machine. */
    enum { WORK = 1 << 26 };
    const struct target *t = &ctx->machine.target;
    const struct product_request r = limber_request(p);
    const enum data_need need = limber_data_need(&r, t);

    return (struct scan_wants){ .need = need,
                                .mixes = need == NEED_probe &&
                                         (double)p->m * (double)p->n * (double)p->k >= WORK &&
                                         limber_may_cut(ctx, p),
                                .estimates = limber_estimates_slices(&r),
                                .chains = limber_wants_chains(&r, t),
                                .pairs = limber_wants_pairs(&r, t),
                                .integers = limber_needs_integers(&r) };
}

/* Samples the result.  Returns estimates of how many elements cannot be rounded with certainty
 * after sums in binary64, and after double-double sums. */
static struct first_pass sample_sums(const struct problem *p, const struct scan_result *f,
                                     const struct product_request *r,
                                     const struct scan_wants *wants)
{
    /* if sums in binary64 suffice to round all but 2^-8 of the elements, double-double sums
     * suffice for nearly all */
    enum { ENOUGH = 8 };
    const int sig = limber_format_sig(p->fc);
    const bool exact = sums_are_exact(p, f);
    struct first_pass first = { 0 };

    if (wants->chains)
        first.decided =
            limber_decided(exact ? 0 : limber_sample_open(p, limber_chain_share(r), sig, 1));
    if (wants->pairs && !exact && first.decided < ENOUGH)
        first.paired = limber_paired(limber_sample_open(p, limber_pair_share(r), sig, 0));
    return first;
}

/* Scans A and B as deeply as `need` of the call says, and estimates numbers of slices.  *f: the
 * results. */
bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          const struct scan_wants *wants, struct diag *d)
{
    const struct target *t = &ctx->machine.target;
    const struct product_request r = limber_request(p);
    enum data_need need = wants->need;
    struct runner runner;

    if (need == NEED_probe)
        need = wants->mixes && seems_mixed(p) ? NEED_masks :
               would_stop(ctx, p)             ? NEED_nothing :
                                                NEED_probe;
    f->slices = p->contract.slices;
    if (need != NEED_nothing) {
        runner = limber_pool_runner(ctx->pool);
        if (!scan_both(ctx, f, p, need, &runner, d))
            return false;
    }
    if (wants->estimates && f->all_a.scanned && !count_slices(ctx, f, p, d))
        return false;
    if (wants->chains || wants->pairs)
        f->first_pass = sample_sums(p, f, &r, wants);
    if (f->all_a.scanned && f->all_b.scanned &&
        limber_wants_first_pass(&r, t, &f->all_a, &f->all_b, f->first_pass.decided))
        f->first_pass.bits =
            limber_first_pass_bits(&r, t, &f->all_a, &f->all_b, limber_sample_sums(p, f->a, f->b));
    f->fractional = wants->integers && f->a && f->b &&
                    (int64_t)lowest_bit(p, f->a, true) + lowest_bit(p, f->b, false) < 0;
    return true;
}
