/* SPDX-License-Identifier: BSD-3-Clause
 * Scans the operands of a call as far as passes need it: masks, and estimates that are derived from
 * them before there is a plan. */
#include "jit/device.h"
#include "jit/prepared.h"
#include "jit/scan/operands.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Joins a mask into that of all groups. */
static void join_mask(struct mask *all, const struct mask *m, bool first)
{
    bool scanned = m->scanned && (first || all->scanned);
    int low = limber_mask_low(m), before = first ? INT_MAX : limber_mask_low(all);

    low = low < before ? low : before;  /* INT_MIN means unknown, and prevails */
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
    all->line_emax = NULL;              /* these arrays belong to the groups' masks */
    all->line_special = NULL;
    all->tile = NULL;
    all->block = NULL;
}

/* The number of matrices of a side: 1 if all groups share one, else one per group. */
static int64_t matrix_count(const struct problem *p, bool left)
{
    bool shared = left ? !p->each_a && p->step_a == 0 : !p->each_b && p->step_b == 0;

    return shared && p->groups > 1 ? 1 : p->groups;
}

const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left,
                                  int64_t g)
{
    return &m[matrix_count(p, left) == 1 ? 0 : g];
}

/* True if each window of an image is to be scanned on its own: a scheme that the caller names may
 * need a narrower range than the whole image has. */
static bool scans_each_line(const struct problem *p)
{
    return p->contract.scheme != NULL;
}

/* One operand's matrices, scanned one after another. */
struct scanning {
    limber_context *ctx;
    const struct problem *p;
    struct mask *m;
    bool left;
    enum data_need need;
    const struct runner *r;     /* for one matrix; NULL: the calling thread */
    int64_t first;
};

/* Task: scans matrix g of a side, on the host or the device. */
static bool scan_group(void *arg, int64_t g, int worker, struct diag *d)
{
    const struct scanning *s = arg;
    const struct problem *p = s->p;
    limber_format f = s->left ? p->fa : p->fb;
    int64_t lines = s->left ? p->m : p->n;
    struct view v = s->left ? limber_group_a(p, g + s->first) : limber_group_b(p, g + s->first);
    struct mask *m = &s->m[g + s->first];
    enum scan_depth depth = s->need == NEED_probe ? SCAN_probe : SCAN_full;
    struct pixels ignored;

    (void)worker;
    if (s->need == NEED_format)
        return limber_scan_bytes(m, f, lines, p->k, d);
    if (p->kept[!s->left]) {
        limber_prepared_mask(p->kept[!s->left], limber_kept_place(p, g + s->first), m, depth);
        return true;
    }
    if (limber_device_holds(s->ctx, v.data))
        return limber_device_scans(s->ctx,
                                   &(struct device_scan){ .m = m,
                                                          .matrices = 1,
                                                          .v = &v,
                                                          .lines = lines,
                                                          .length = p->k,
                                                          .each_line = scans_each_line(p) },
                                   1, f, p->queue, d);
    if (!limber_scan(m, &v, f, lines, p->k, depth, s->r, d))
        return false;
    if (limber_is_device(&s->ctx->machine.target) && !scans_each_line(p) &&
        limber_view_pixels(&ignored, &v, lines, p->k))
        limber_mask_level(m); /* as a scan on the device does */
    return true;
}

enum { SCAN_ALONE = 1 << 16 };  /* elements: fewer do not pay for several threads */

/* True if all matrices of a side lie on the device, which scans them in one launch. */
static bool are_on_device(const limber_context *ctx, const struct problem *p, bool left,
                          enum data_need need)
{
    int64_t count = (left ? p->each_a : p->each_b) ? matrix_count(p, left) : 1;

    if (need == NEED_format || p->kept[!left])
        return false;
    for (int64_t g = 0; g < count; g++)
        if (!limber_device_holds(ctx, (left ? limber_group_a(p, g) : limber_group_b(p, g)).data))
            return false;
    return true;
}

/* The scan of one operand's matrices on the device. */
static struct device_scan remote_scan(const struct problem *p, struct mask *m, bool left)
{
    return (struct device_scan){ .m = m,
                                 .matrices = matrix_count(p, left),
                                 .each = left ? limber_groups_a(p) : limber_groups_b(p),
                                 .v = left ? &p->a : &p->b,
                                 .lines = left ? p->m : p->n,
                                 .length = p->k,
                                 .each_line = scans_each_line(p) };
}

static void join_masks(struct mask *all, const struct mask *m, int64_t count)
{
    for (int64_t g = 0; g < count; g++)
        join_mask(all, &m[g], g == 0);
}

/* Scans one operand on the device, then joins its matrices' masks. */
static bool scan_remote(limber_context *ctx, struct mask *m, struct mask *all,
                        const struct problem *p, bool left, struct diag *d)
{
    const struct device_scan s = remote_scan(p, m, left);

    if (!limber_device_scans(ctx, &s, 1, left ? p->fa : p->fb, p->queue, d))
        return false;
    join_masks(all, m, s.matrices);
    return true;
}

/* Scans both operands, of one format, with one wait for the device. */
static bool scan_both_remote(limber_context *ctx, struct scan_result *f, const struct problem *p,
                             struct diag *d)
{
    const struct device_scan s[2] = { remote_scan(p, f->a, true), remote_scan(p, f->b, false) };

    if (!limber_device_scans(ctx, s, 2, p->fa, p->queue, d))
        return false;
    join_masks(&f->all_a, f->a, s[0].matrices);
    join_masks(&f->all_b, f->b, s[1].matrices);
    return true;
}

/* Scans the first matrix, then small ones concurrently and large ones one after another. */
static bool scan_side(limber_context *ctx, struct mask *m, struct mask *all,
                      const struct problem *p, bool left, enum data_need need,
                      const struct runner *r, struct diag *d)
{
    struct scanning s = { ctx, p, m, left, need, r, 0 };
    int64_t count = matrix_count(p, left), g = 0;
    bool small = (left ? p->m : p->n) * p->k <= SCAN_ALONE;

    if (count > 0 && are_on_device(ctx, p, left, need))
        return scan_remote(ctx, m, all, p, left, d);
    if (count == 0 || !scan_group(&s, 0, 0, d))
        return count == 0;
    if (small && count > 1 && m->scanned) {
        s.first = 1;
        s.r = NULL;
        if (!limber_groups_run(r, count - 1, scan_group, &s, d))
            return false;
    }
    for (;; g++) {
        join_mask(all, &m[g], g == 0);
        if (!m[g].scanned || g + 1 == count)    /* a mask without a class ends the scan */
            return true;
        if (!small && !scan_group(&s, g + 1, 0, d))
            return false;
    }
}

bool limber_may_cut(const limber_context *ctx, const struct problem *p)
{
    const struct product_request r = limber_request(p);

    return limber_has_way(ctx, WAY_parts) && limber_may_part(&r) && limber_view_strided(&p->a) &&
           limber_view_strided(&p->b);
}

/* True if a sample says that much of the data may be narrow although all of it is not, so that a
 * mixed product may pay. */
static bool seems_mixed(const limber_context *ctx, const struct problem *p)
{
    enum { WORK = 1 << 26 }; /* multiply-adds: fewer are not worth parts of their own */
    struct sample a, b;

    if (!limber_may_cut(ctx, p) || (double)p->m * (double)p->n * (double)p->k < WORK)
        return false;
    a = limber_scan_sample(&p->a, p->fa, p->m, p->k);
    b = limber_scan_sample(&p->b, p->fb, p->n, p->k);
    return a.narrow * b.narrow > 0.1 || (1 - a.zero) * (1 - b.zero) < 0.9;
}

/* Scans both operands as far as `need` asks. */
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
    if (p->groups > 0 && limber_format_equal(p->fa, p->fb) && are_on_device(ctx, p, true, need) &&
        are_on_device(ctx, p, false, need)) {
        if (!scan_both_remote(ctx, f, p, d))
            return false;
    } else if (!scan_side(ctx, f->a, &f->all_a, p, true, need, r, d) ||
               (f->all_a.scanned && !scan_side(ctx, f->b, &f->all_b, p, false, need, r, d)))
        return false;
    if (!f->all_a.scanned || !f->all_b.scanned) /* a class of one operand only splits kernels */
        f->all_a.scanned = f->all_b.scanned = false;
    return true;
}

/* Sets the caller's slice count, or an estimate over all groups. */
static bool count_slices(limber_context *ctx, struct scan_result *f, const struct problem *p,
                         int step, struct diag *d)
{
    struct problem group;

    f->slices = p->contract.slices;
    if (step == 0 || !f->all_a.scanned)
        return true;
    group = *p;
    for (int64_t g = 0; g < p->groups; g++) {
        int slices = 1;

        group.a = limber_group_a(p, g);
        group.b = limber_group_b(p, g);
        if (!limber_estimate_slices(ctx, &group, limber_mask_of(p, f->a, true, g),
                                    limber_mask_of(p, f->b, false, g), step, &slices, d))
            return false;
        f->slices = slices > f->slices ? slices : f->slices;
    }
    return true;
}

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

/* The exponent of the lowest bit of all matrices of a side; INT_MIN: unknown. */
static int lowest_bit(const struct problem *p, const struct mask *m, bool left)
{
    int least = INT_MAX;

    if (limber_is_integer(left ? p->fa : p->fb))
        return 0;
    for (int64_t g = 0; g < matrix_count(p, left); g++) {
        int low = limber_mask_low(&m[g]);

        least = low < least ? low : least;
    }
    return least == INT_MAX ? 0 : least;
}

/* Bits of the integers of a side if all lines share one scale; INT_MAX: unknown. */
static int64_t shared_width(const struct problem *p, const struct mask *m, bool left)
{
    int64_t low = m ? lowest_bit(p, m, left) : INT_MIN, high = INT_MIN;

    for (int64_t g = 0; low != INT_MIN && g < matrix_count(p, left); g++)
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

/* Estimates from a sample of the result how many elements chains and pairs of doubles leave
 * undecided. */
static struct first_pass sample_sums(const struct problem *p, const struct scan_result *f,
                                     const struct product_request *r, const struct target *t)
{
    enum { ENOUGH = 8 }; /* pairs decide nearly all where chains decide all but 2^-8 */
    const int sig = limber_format_sig(p->fc);
    const bool chains = limber_wants_chains(r, t), pairs = limber_wants_pairs(r, t);
    const bool exact = (chains || pairs) && sums_are_exact(p, f);
    struct first_pass first = { 0 };

    if (chains)
        first.decided =
            limber_decided(exact ? 0 : limber_sample_open(p, limber_chain_share(r), sig, 1));
    if (pairs && !exact && first.decided < ENOUGH)
        first.paired = limber_paired(limber_sample_open(p, limber_pair_share(r), sig, 0));
    return first;
}

bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          struct diag *d)
{
    const struct runner runner = limber_pool_runner(ctx->pool);
    const struct target *t = &ctx->machine.target;
    const struct product_request r = limber_request(p);
    enum data_need need = limber_data_need(&r, t);

    if (need == NEED_probe && seems_mixed(ctx, p))
        need = NEED_masks;
    if ((need != NEED_nothing && !scan_both(ctx, f, p, need, &runner, d)) ||
        !count_slices(ctx, f, p, limber_estimated_step(&r), d))
        return false;
    f->first_pass = sample_sums(p, f, &r, t);
    if (limber_wants_first_pass(&r, t, &f->all_a, &f->all_b, f->first_pass.decided))
        f->first_pass.bits =
            limber_first_pass_bits(&r, t, &f->all_a, &f->all_b, limber_sample_sums(p, f->a, f->b));
    f->fractional = limber_needs_integers(&r) && f->a && f->b &&
                    (int64_t)lowest_bit(p, f->a, true) + lowest_bit(p, f->b, false) < 0;
    return true;
}
