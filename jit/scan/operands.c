/* SPDX-License-Identifier: BSD-3-Clause
 * What one look at the operands of a call finds, as far as it is needed: masks, and what follows
 * from them before there is a plan. */
#include "jit/device.h"
#include "jit/prepared.h"
#include "jit/scan/operands.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TINY = 512 };        /* no size beyond it, and no more than its square of multiply-adds */
static const limber_format binary64 = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };

/* What holds for both. */
static void join(struct mask *all, const struct mask *m, bool first)
{
    bool scanned = m->scanned && (first || all->scanned);

    if (first || all->zero) {           /* nothing but its extremes yet */
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
    all->line_emax = NULL;              /* these stay the groups' */
    all->line_special = NULL;
    all->tile = NULL;
    all->block = NULL;
}

/* Bytes fill their one limb whatever they are: a look at them could not make a plan cheaper. */
static bool are_bytes(const struct problem *p)
{
    return limber_is_integer(p->fa) && limber_is_integer(p->fb) && limber_is_integer(p->fc) &&
           p->fa.size == 1 && p->fb.size == 1;
}

/* Matrices of a side: one that all groups share, or one for each. */
static int64_t matrices(const struct problem *p, bool left)
{
    bool shared = left ? !p->each_a && p->step_a == 0 : !p->each_b && p->step_b == 0;

    return shared && p->groups > 1 ? 1 : p->groups;
}

const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left,
                                  int64_t g)
{
    return &m[matrices(p, left) == 1 ? 0 : g];
}

struct scanning {
    limber_context *ctx;
    const struct problem *p;
    struct mask *m;
    bool left;
    enum scan_depth depth;
    const struct runner *r;     /* of one matrix; NULL: its caller */
    int64_t first;
};

static bool scan_group(void *arg, int64_t g, int worker, struct diag *d)
{
    const struct scanning *s = arg;
    const struct problem *p = s->p;
    limber_format f = s->left ? p->fa : p->fb;
    int64_t lines = s->left ? p->m : p->n;
    struct view v = s->left ? limber_group_a(p, g + s->first) : limber_group_b(p, g + s->first);
    struct mask *m = &s->m[g + s->first];

    (void)worker;
    if (are_bytes(p))
        return limber_scan_bytes(m, f, lines, p->k, d);
    if (p->kept[!s->left]) {
        limber_prepared_mask(p->kept[!s->left], m, s->depth);
        return true;
    }
    return limber_device_holds(s->ctx, v.data) ?
               limber_device_scan(s->ctx, m, &v, f, lines, p->k, p->queue, d) :
               limber_scan(m, &v, f, lines, p->k, s->depth, true, s->r, d);
}

enum { SCAN_ALONE = 1 << 16 };  /* elements: fewer are no work for several threads */

/* The first matrix, then small ones side by side and large ones in turn. */
static bool scan_side(limber_context *ctx, struct mask *m, struct mask *all,
                      const struct problem *p, bool left, enum scan_depth depth,
                      const struct runner *r, struct diag *d)
{
    struct scanning s = { ctx, p, m, left, depth, r, 0 };
    int64_t count = matrices(p, left), g = 0;
    bool small = (left ? p->m : p->n) * p->k <= SCAN_ALONE;

    if (count == 0 || !scan_group(&s, 0, 0, d))
        return count == 0;
    if (small && count > 1 && m->scanned) {
        s.first = 1;
        s.r = NULL;
        if (!limber_groups_run(r, count - 1, scan_group, &s, d))
            return false;
    }
    for (;; g++) {
        join(all, &m[g], g == 0);
        if (!m[g].scanned || g + 1 == count)    /* the class is known: no class */
            return true;
        if (!small && !scan_group(&s, g + 1, 0, d))
            return false;
    }
}

/* "NARROW+WIDE" */
bool limber_names_two(const struct problem *p)
{
    return p->contract.scheme && strchr(p->contract.scheme, '+');
}

bool limber_asks(const struct problem *p, const char *scheme)
{
    return p->contract.scheme && strcmp(p->contract.scheme, scheme) == 0;
}

/* The scheme is named and looks at no class: on devices `exact` meets NaN and infinities by itself.
 */
static bool needs_no_class(const limber_context *ctx, const struct problem *p,
                           enum scan_depth depth)
{
    return (depth == SCAN_probe && limber_asks(p, "native")) ||
           (ctx->machine.backend->device_ops && limber_asks(p, "exact"));
}

/* Where the machine's own unit can serve, other schemes win only when the data is narrow, so a
 * glance has to suffice; everything else is planned by what the data is, and so is all that runs on
 * a device whose small units are faster by more than that. */
enum scan_depth limber_depth_of(const limber_context *ctx, const struct problem *p)
{
    if (ctx->machine.backend->device_ops && !limber_asks(p, "native"))
        return SCAN_full;
    return p->contract.promise == LIMBER_CONTRACT_NATIVE &&
                   (!p->contract.scheme || limber_asks(p, "native")) && !limber_is_integer(p->fc) &&
                   limber_format_embeds(p->fa, binary64) && limber_format_embeds(p->fb, binary64) &&
                   limber_format_embeds(p->fc, binary64) ?
               SCAN_probe :
               SCAN_full;
}

/* Too little work for a second thread, or for a look at the data, to pay. */
bool limber_is_tiny(const struct problem *p)
{
    return p->m <= TINY && p->n <= TINY && p->k <= TINY && (p->groups == 1 || !p->shape) &&
           p->m * p->n * p->k <= TINY * TINY;
}

/* A kernel made for narrower classes would take longer to compile than it spares. */
bool limber_is_coarse(const limber_context *ctx, const struct problem *p)
{
    enum { WORK = 1 << 26 }; /* multiply-adds of all groups */
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->groups;

    return limber_is_tiny(p) ||
           (!p->fine && work <= WORK && !ctx->machine.backend->device_ops && !p->shape);
}

enum { SAMPLED = 1 << 26 }; /* multiply-adds: fewer are not worth parts of their own */

/* Where all of the data cannot be narrow, much of it might be: a tenth of the products that need no
 * native ones. */
static bool seems_mixed(const limber_context *ctx, const struct problem *p)
{
    double work = (double)p->m * (double)p->n * (double)p->k;
    struct sample a, b;

    if (ctx->one_plan || p->groups != 1 || p->shape || !limber_view_strided(&p->a) ||
        !limber_view_strided(&p->b) || limber_asks(p, "native") || work < SAMPLED)
        return false;
    a = limber_scan_sample(&p->a, p->fa, p->m, p->k);
    b = limber_scan_sample(&p->b, p->fb, p->n, p->k);
    return a.narrow * b.narrow > 0.1 || (1 - a.zero) * (1 - b.zero) < 0.9;
}

static bool look(limber_context *ctx, struct scan_result *f, const struct problem *p,
                 const struct runner *r, struct diag *d)
{
    enum scan_depth depth = limber_depth_of(ctx, p);

    if (depth == SCAN_probe && seems_mixed(ctx, p))
        depth = SCAN_full;
    if (p->contract.promise == LIMBER_CONTRACT_SIMULATE ||
        (depth == SCAN_probe && limber_is_tiny(p)) || needs_no_class(ctx, p, depth))
        return true; /* nothing is known, nothing is to be chosen */
    f->a = calloc((size_t)p->groups, sizeof *f->a);
    f->b = calloc((size_t)p->groups, sizeof *f->b);
    if (!f->a || !f->b)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the masks of %lld groups",
                           (long long)p->groups);
    for (int i = 0; i < 2; i++)
        f->lent[i] = p->kept[i] && !are_bytes(p);
    if (!scan_side(ctx, f->a, &f->all_a, p, true, depth, r, d) ||
        (f->all_a.scanned && !scan_side(ctx, f->b, &f->all_b, p, false, depth, r, d)))
        return false;
    if (!f->all_a.scanned || !f->all_b.scanned) /* half a class would only split kernels */
        f->all_a.scanned = f->all_b.scanned = false;
    return true;
}

/* The classes of k: a kernel serves every k <= 2^kbits that no smaller class does.  Chains of
 * these lengths are where limbs change their width. */
static const int k_classes[] = { 0, 4, 8, 10, 11, 12, 13, 14, 16, 17, 20, 24, 31, 40, 62 };

int limber_k_class(int64_t k)
{
    size_t i = 0;

    while (i + 1 < COUNT(k_classes) && k > (int64_t)1 << k_classes[i])
        i++;
    return k_classes[i];
}

/* The smallest k of a class: what is promised for it holds for all of them.  (k = 0 has no
 * products and no error.) */
double limber_least_k(int kbits)
{
    double least = 1;

    for (size_t i = 1; i < COUNT(k_classes) && k_classes[i] <= kbits; i++)
        least = ldexp(1, k_classes[i - 1]) + 1;
    return least;
}

/* The caller's slice count, or under `fast` an estimate over all groups. */
static bool count_slices(limber_context *ctx, struct scan_result *f, const struct problem *p,
                         struct diag *d)
{
    struct problem group;
    int step;

    f->slices = p->contract.slices;
    if (p->contract.promise != LIMBER_CONTRACT_FAST || f->slices > 0 || !f->all_a.scanned)
        return true;
    step = limber_slice_step(p->contract.scheme, limber_k_class(p->k));
    if (step == 0)
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

/* 0: no class has as many.  A scheme that the caller names gets all there are: without them it
 * might have to refuse. */
static int first_pass_class(int bits, bool coarse, bool wide)
{
    enum { STEP = 4, MOST = 164 }; /* two of them and 2^12 products are what all moduli hold */
    static const int few[] = { 80, 112, MOST };

    if (!coarse)
        return (bits + STEP - 1) / STEP * STEP;
    for (size_t i = 0; i < COUNT(few) - !wide; i++)
        if (bits <= few[i])
            return few[i];
    return 0;
}

/* Bits of scaled integers without a first pass: all, or as many as a contract in bits asks for. */
static int full_bits(const struct problem *p, const struct mask *m)
{
    int need = p->contract.bits + 3 + m->spread;

    return p->contract.promise == LIMBER_CONTRACT_BITS && need < m->width ? need : m->width;
}

/* Whether fewer bits than that are enough for most elements of a correct result: where that spares
 * two moduli at least.  What is correct keeps a contract in bits, too. */
static void estimate_first_pass(limber_context *ctx, struct scan_result *f, const struct problem *p)
{
    enum { GAIN = 16, MOST = 165 };
    int a = full_bits(p, &f->all_a), b = full_bits(p, &f->all_b), bits;

    if ((p->contract.promise != LIMBER_CONTRACT_CORRECT &&
         p->contract.promise != LIMBER_CONTRACT_BITS) ||
        limber_is_integer(p->fc) || ctx->machine.backend->device_ops || p->shape ||
        p->groups != 1 || limber_is_tiny(p) || !f->all_a.scanned || !f->all_b.scanned ||
        a + b < 2 * limber_format_sig(p->fc) + GAIN)
        return;
    bits = limber_estimate_first_pass(p, f->a, f->b, limber_k_class(p->k));
    if (bits)
        bits = first_pass_class(bits, limber_is_coarse(ctx, p),
                                limber_format_sig(p->fc) > 64 || p->contract.scheme);
    if (bits && bits <= MOST && (a > bits ? a - bits : 0) + (b > bits ? b - bits : 0) >= GAIN)
        f->first_pass_bits = bits;
}

void limber_scan_result_clear(struct scan_result *f, int64_t groups)
{
    for (int64_t g = 0; g < groups && (f->a || f->b); g++) {
        if (f->a && !f->lent[0])
            limber_mask_clear(&f->a[g]);
        if (f->b && !f->lent[1])
            limber_mask_clear(&f->b[g]);
    }
    free(f->a);
    free(f->b);
}

/* The exponent of the lowest bit of all matrices of a side; INT_MIN: it is not known. */
static int lowest_bit(const struct problem *p, const struct mask *m, bool left)
{
    int least = INT_MAX;

    if (limber_is_integer(left ? p->fa : p->fb))
        return 0;
    for (int64_t g = 0; g < matrices(p, left); g++) {
        if (!m[g].scanned || !m[g].tile)
            return INT_MIN;
        for (int64_t i = 0; i < m[g].tile_rows * m[g].tile_cols; i++)
            if (!(m[g].tile[i].flags & TILE_zero) && m[g].tile[i].low < least)
                least = m[g].tile[i].low;
    }
    return least == INT_MAX ? 0 : least;
}

static bool is_fractional(const struct problem *p, const struct scan_result *f)
{
    return p->contract.promise == LIMBER_CONTRACT_EXACT && f->a && f->b &&
           (int64_t)lowest_bit(p, f->a, true) + lowest_bit(p, f->b, false) < 0;
}

bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          struct diag *d)
{
    struct runner runner = limber_pool_runner(ctx->pool);

    if (!look(ctx, f, p, &runner, d) || !count_slices(ctx, f, p, d))
        return false;
    estimate_first_pass(ctx, f, p);
    f->fractional = is_fractional(p, f);
    return true;
}
