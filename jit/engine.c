/* SPDX-License-Identifier: BSD-3-Clause
 * The engine: scan the operands, describe the call, find or make its kernel, launch.
 *
 * A kernel serves every call of one description: formats, contract, class of k, classes of the
 * masks, geometry of a convolution; sizes and strides are arguments.  The plan is stated from the
 * description alone, so equal descriptions cannot mean different plans. */
#define _GNU_SOURCE     /* clock_gettime under any standard */
#include "jit/engine.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TINY = 512 };        /* no size beyond it, and no more than its square of multiply-adds */
enum { MASK_FIRST = ATTR_emin, MASK_LAST = ATTR_special, MASK_ATTRS = MASK_LAST - MASK_FIRST + 1 };

/* Compared as bytes: cleared before it is filled.  What most calls leave empty stands last, so that
 * their comparison ends before it. */
struct description {
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, kbits;
    int32_t size, split, roundings, trust;
    int32_t alpha, beta, wrap, conv;
    int32_t counts, simulates;
    char wanted[32];
    uint64_t has[2];                    /* of the operands' masks: a, b */
    int64_t mask[2][MASK_ATTRS];
    int64_t stride[2], pad[4], dilate[2], groups, layout;
    char model[512];            /* the unit's words, with seed 0 */
};

/* What the scan found: one mask a group for the launches, one over all groups for the class. */
struct finding {
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool lent[2];               /* masks of prepared operands */
    int slices;                 /* Ozaki I: asked for or estimated; 0: no wish */
    int trust;                  /* correct: bits, as in struct plan */
};

static const limber_format binary64 = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

/* ---- scan ------------------------------------------------------------------------------------ */

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
    return is_integer(p->fa) && is_integer(p->fb) && is_integer(p->fc) && p->fa.size == 1 &&
           p->fb.size == 1;
}

/* Matrices of a side: one that all groups share, or one for each. */
static int64_t matrices(const struct problem *p, bool left)
{
    bool shared = left ? !p->each_a && p->step_a == 0 : !p->each_b && p->step_b == 0;

    return shared && p->groups > 1 ? 1 : p->groups;
}

static const struct mask *mask_of(const struct problem *p, const struct mask *m, bool left,
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

static bool scan_group(void *arg, int64_t g, struct diag *d)
{
    const struct scanning *s = arg;
    const struct problem *p = s->p;
    limber_format f = s->left ? p->fa : p->fb;
    int64_t lines = s->left ? p->m : p->n;
    struct view v = s->left ? limber_group_a(p, g + s->first) : limber_group_b(p, g + s->first);
    struct mask *m = &s->m[g + s->first];

    if (are_bytes(p))
        return limber_scan_bytes(m, f, lines, p->k, d);
    if (p->kept[!s->left]) {
        limber_operand_mask(p->kept[!s->left], m, s->depth);
        return true;
    }
    return limber_remote_holds(s->ctx, v.data) ?
           limber_remote_scan(s->ctx, m, &v, f, lines, p->k, p->queue, d) :
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

    if (count == 0 || !scan_group(&s, 0, d))
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
        if (!small && !scan_group(&s, g + 1, d))
            return false;
    }
}

/* "NARROW+WIDE" */
static bool names_two(const struct problem *p)
{
    return p->contract.scheme && strchr(p->contract.scheme, '+');
}

static bool asks(const struct problem *p, const char *scheme)
{
    return p->contract.scheme && strcmp(p->contract.scheme, scheme) == 0;
}

/* The scheme is named and looks at no class: on devices `exact` meets NaN and infinities by itself. */
static bool needs_no_class(const limber_context *ctx, const struct problem *p,
                           enum scan_depth depth)
{
    return (depth == SCAN_probe && asks(p, "native")) ||
           (ctx->machine.backend->remote && asks(p, "exact"));
}

/* Where the machine's own unit can serve, other schemes win only when the data is narrow, so a
 * glance has to suffice; everything else is planned by what the data is, and so is all that runs on
 * a device whose small units are faster by more than that. */
static enum scan_depth depth_of(const limber_context *ctx, const struct problem *p)
{
    if (ctx->machine.backend->remote && !asks(p, "native"))
        return SCAN_full;
    return p->contract.promise == LIMBER_NATIVE && (!p->contract.scheme || asks(p, "native")) &&
           !is_integer(p->fc) &&
           limber_format_embeds(p->fa, binary64) && limber_format_embeds(p->fb, binary64) &&
           limber_format_embeds(p->fc, binary64) ? SCAN_probe : SCAN_full;
}

/* Too little work for a second thread, or for a look at the data, to pay. */
static bool is_tiny(const struct problem *p)
{
    return p->m <= TINY && p->n <= TINY && p->k <= TINY && (p->groups == 1 || !p->shape) &&
           p->m * p->n * p->k <= TINY * TINY;
}

enum { SAMPLED = 1 << 26 };     /* multiply-adds: fewer are not worth parts of their own */

/* Where all of the data cannot be narrow, much of it might be: a tenth of the products that need no
 * native ones. */
static bool seems_mixed(const limber_context *ctx, const struct problem *p)
{
    double work = (double)p->m * (double)p->n * (double)p->k;
    struct sample a, b;

    if (ctx->whole || p->groups != 1 || p->shape || p->a.patch || p->b.patch || asks(p, "native") || work < SAMPLED)
        return false;
    a = limber_scan_sample(&p->a, p->fa, p->m, p->k);
    b = limber_scan_sample(&p->b, p->fb, p->n, p->k);
    return a.narrow * b.narrow > 0.1 || (1 - a.zero) * (1 - b.zero) < 0.9;
}

static bool scan(limber_context *ctx, struct finding *f, const struct problem *p,
                 const struct runner *r, struct diag *d)
{
    enum scan_depth depth = depth_of(ctx, p);

    if (depth == SCAN_probe && seems_mixed(ctx, p))
        depth = SCAN_full;
    if (p->contract.promise == LIMBER_SIMULATE ||
        (depth == SCAN_probe && is_tiny(p)) || needs_no_class(ctx, p, depth))
        return true;            /* nothing is known, nothing is to be chosen */
    f->a = calloc((size_t)p->groups, sizeof *f->a);
    f->b = calloc((size_t)p->groups, sizeof *f->b);
    if (!f->a || !f->b)
        return limber_fail(d, LIMBER_NO_MEMORY, "no memory for the masks of %lld groups",
                           (long long)p->groups);
    for (int i = 0; i < 2; i++)
        f->lent[i] = p->kept[i] && !are_bytes(p);
    if (!scan_side(ctx, f->a, &f->all_a, p, true, depth, r, d) ||
        (f->all_a.scanned && !scan_side(ctx, f->b, &f->all_b, p, false, depth, r, d)))
        return false;
    if (!f->all_a.scanned || !f->all_b.scanned)     /* half a class would only split kernels */
        f->all_a.scanned = f->all_b.scanned = false;
    return true;
}

/* The classes of k: a kernel serves every k <= 2^kbits that no smaller class does.  Chains of
 * these lengths are where limbs change their width. */
static const int k_classes[] = { 0, 4, 8, 10, 11, 12, 13, 14, 16, 17, 20, 24, 31, 40, 62 };

static int k_class(int64_t k)
{
    size_t i = 0;

    while (i + 1 < COUNT(k_classes) && k > (int64_t)1 << k_classes[i])
        i++;
    return k_classes[i];
}

/* The caller's slice count, or under `fast` an estimate over all groups. */
static bool count_slices(limber_context *ctx, struct finding *f, const struct problem *p,
                         struct diag *d)
{
    struct problem group;
    int step;

    f->slices = p->contract.slices;
    if (p->contract.promise != LIMBER_FAST || f->slices > 0 || !f->all_a.scanned)
        return true;
    step = limber_slice_step(p->contract.scheme, k_class(p->k));
    if (step == 0)
        return true;
    group = *p;
    for (int64_t g = 0; g < p->groups; g++) {
        int slices = 1;

        group.a = limber_group_a(p, g);
        group.b = limber_group_b(p, g);
        if (!limber_estimate_slices(ctx, &group, mask_of(p, f->a, true, g),
                                    mask_of(p, f->b, false, g), step, &slices, d))
            return false;
        f->slices = slices > f->slices ? slices : f->slices;
    }
    return true;
}

/* Whether fewer bits than the operands have are enough for most elements of a correct result: where
 * that spares two moduli at least. */
static void estimate_trust(limber_context *ctx, struct finding *f, const struct problem *p)
{
    enum { STEP = 4, GAIN = 16 };
    int bits;

    if (p->contract.promise != LIMBER_CORRECT || is_integer(p->fc) || ctx->machine.backend->remote ||
        p->shape || p->groups != 1 || is_tiny(p) || !f->all_a.scanned || !f->all_b.scanned ||
        f->all_a.width + f->all_b.width < 2 * limber_format_sig(p->fc) + GAIN)
        return;
    bits = limber_estimate_trust(p, f->a, f->b, k_class(p->k));
    bits = (bits + STEP - 1) / STEP * STEP;
    if (bits && bits <= 165 && (f->all_a.width > bits ? f->all_a.width - bits : 0) +
                               (f->all_b.width > bits ? f->all_b.width - bits : 0) >= GAIN)
        f->trust = bits;
}

static void finding_clear(struct finding *f, int64_t groups)
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

/* ---- describe and state ---------------------------------------------------------------------- */

/* The smallest k of a class: what is promised for it holds for all of them.  (k = 0 has no
 * products and no error.) */
static double least_k(int kbits)
{
    double least = 1;

    for (size_t i = 1; i < COUNT(k_classes) && k_classes[i] <= kbits; i++)
        least = ldexp(1, k_classes[i - 1]) + 1;
    return least;
}

static void describe_mask(struct description *d, int side, const struct mask *m, limber_format f,
                          bool coarse)
{
    struct node class;

    if (!m->scanned)
        return;
    memset(&class, 0, sizeof class);
    limber_mask_class(m, f, coarse && !is_integer(f), &class);
    for (int i = 0; i < MASK_ATTRS; i++) {
        if (!limber_node_has(&class, (enum attr)(MASK_FIRST + i)))
            continue;
        d->has[side] |= (uint64_t)1 << i;
        d->mask[side][i] = class.num[MASK_FIRST + i];
    }
}

/* Bytes that say it all. */
static size_t description_size(const struct description *d)
{
    return d->simulates ? sizeof *d : d->conv ? offsetof(struct description, model) : d->has[0] || d->has[1] ? offsetof(struct description, stride) :
           offsetof(struct description, mask);
}

/* Seeds are arguments of a kernel. */
static bool describe_model(struct description *d, const struct problem *p, struct diag *diag)
{
    limber_unit u = *p->contract.unit;
    struct text t = { 0 };
    bool ok;

    u.seed = 0;
    limber_unit_print(&u, &t);
    ok = t.s && !t.failed && t.n < sizeof d->model;
    if (ok)
        memcpy(d->model, t.s, t.n);
    limber_text_clear(&t);
    d->simulates = 1;
    d->counts = p->count;
    if (u.start_c)              /* C is where the sum starts, not what is added to it */
        d->beta = 0;
    return ok || limber_fail(diag, LIMBER_NO_MEMORY, "no memory for the unit's text");
}

/* What decides between schemes on a device beside k: how often an operand is used again. */
static int size_class(const struct problem *p)
{
    static const int classes[] = { 8, 10, 11, 12, 13, 14 };
    int64_t least = p->m < p->n ? p->m : p->n;
    size_t i = 0;

    while (i + 1 < COUNT(classes) && least > (int64_t)1 << classes[i])
        i++;
    return classes[i];
}

static bool describe(limber_context *ctx, struct description *d, const struct problem *p,
                     const struct finding *f, struct diag *diag)
{
    memset(d, 0, sizeof *d);
    d->fa = p->fa;
    d->fb = p->fb;
    d->fc = p->fc;
    d->promise = p->contract.promise;
    d->bits = p->contract.promise == LIMBER_BITS ? p->contract.bits : 0;
    d->slices = f->slices;
    d->split = (int32_t)p->contract.split;
    d->kbits = k_class(p->k);
    d->size = ctx->machine.backend->remote ? size_class(p) : 0;
    d->roundings = p->roundings;
    d->trust = f->trust;
    d->alpha = p->alpha != NULL;
    d->beta = p->beta != NULL;
    d->wrap = is_integer(p->fc) && p->contract.promise == LIMBER_NATIVE;
    if (p->contract.scheme)     /* of two that are named, the second suits all data */
        strncpy(d->wanted, names_two(p) ? strchr(p->contract.scheme, '+') + 1 : p->contract.scheme,
                sizeof d->wanted - 1);
    describe_mask(d, 0, &f->all_a, p->fa, is_tiny(p));
    describe_mask(d, 1, &f->all_b, p->fb, is_tiny(p));
    if (p->contract.promise == LIMBER_SIMULATE && !describe_model(d, p, diag))
        return false;
    if (!p->shape)
        return true;
    d->conv = 1;
    memcpy(d->stride, p->shape->stride, sizeof d->stride);
    memcpy(d->pad, p->shape->pad, sizeof d->pad);
    memcpy(d->dilate, p->shape->dilate, sizeof d->dilate);
    d->groups = p->shape->groups;
    d->layout = p->shape->layout;
    return true;
}

static double budget(const struct description *d)
{
    double u = limber_format_roundoff(d->fc);

    switch ((limber_promise)d->promise) {
    case LIMBER_NATIVE:
        return fmax(least_k(d->kbits) + 2 - d->roundings, 0) * u;
    case LIMBER_BITS:
        return fmax(ldexp(1, -d->bits) - d->roundings * u, 0);
    case LIMBER_FAST:
    case LIMBER_SIMULATE:
        return INFINITY;
    default:
        return 0;
    }
}

/* A product of fixed shape has numbers where others have letters. */
static struct type sized(struct type t, int64_t rows, int64_t cols)
{
    t.dim[0] = rows;
    t.dim[1] = cols;
    return t;
}

/* "nchw" gives a type with these letters for dimensions. */
static struct type type_of(limber_format f, const char *letters)
{
    struct type t = { .format = f, .count = 1, .rank = (int)strlen(letters) };

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = -letters[i];
    return t;
}

static int add_arg(struct plan *p, const struct description *d, const char *name, int index,
                   int side, struct type t)
{
    int at = limber_plan_add(p, OP_arg, name, -1, -1, t);

    if (at < 0)
        return at;
    limber_node_set(&p->node[at], ATTR_index, index);
    for (int i = 0; side >= 0 && i < MASK_ATTRS; i++)
        if (d->has[side] >> i & 1)
            limber_node_set(&p->node[at], (enum attr)(MASK_FIRST + i), d->mask[side][i]);
    return at;
}

static int add_gemm(struct plan *p, const struct description *d, const struct fixed *fixed,
                    struct type exact)
{
    struct type ta = type_of(d->fa, "mk"), tb = type_of(d->fb, "kn");
    int a, b;

    if (fixed) {
        ta = sized(ta, fixed->m, fixed->k);
        tb = sized(tb, fixed->k, fixed->n);
    }
    a = add_arg(p, d, "a", 0, 0, ta);
    b = a < 0 ? -1 : add_arg(p, d, "b", 1, 1, tb);

    return b < 0 ? -1 : limber_plan_add(p, OP_gemm, "c", a, b, exact);
}

/* Operand 0 is the image, which is the right one of the products. */
static int add_conv(struct plan *p, const struct description *d, struct type exact)
{
    int x = add_arg(p, d, "x", 0, 1, type_of(d->fb, "nchw"));
    int w = x < 0 ? -1 : add_arg(p, d, "w", 1, 0, type_of(d->fa, "odrs"));
    int y = w < 0 ? -1 : limber_plan_add(p, OP_conv2d, "c", x, w, exact);
    struct node *n = y < 0 ? NULL : &p->node[y];

    if (!n || !limber_node_list(p, n, ATTR_stride, d->stride, COUNT(d->stride)) ||
        !limber_node_list(p, n, ATTR_pad, d->pad, COUNT(d->pad)) ||
        !limber_node_list(p, n, ATTR_dilate, d->dilate, COUNT(d->dilate)))
        return -1;
    limber_node_set(n, ATTR_groups, d->groups);
    limber_node_set(n, ATTR_layout, d->layout == LIMBER_NHWC);
    return y;
}

/* fixed may be NULL. */
static bool state(struct plan *p, const struct description *d, const struct fixed *fixed,
                  struct diag *diag)
{
    const limber_format exact = { .kind = LIMBER_KIND_EXACT };
    const char *letters = d->conv ? "nopq" : "mn";
    struct type result = type_of(d->fc, letters), product = type_of(exact, letters);
    int c, c0 = -1, out = -1;

    limber_plan_init(p);
    p->name = d->conv ? "conv2d" : "gemm";
    p->promise = (limber_promise)d->promise;
    p->bits = d->bits;
    p->slices = d->slices;
    p->split = (limber_split)d->split;
    p->kbits = d->kbits;
    p->size = d->size;
    p->roundings = d->roundings;
    p->trust = d->trust;
    p->budget = budget(d);
    p->wanted = *d->wanted ? limber_plan_string(p, d->wanted) : NULL;
    if (d->simulates) {
        limber_unit *u = limber_plan_alloc(p, sizeof *u);

        if (!u)
            return limber_fail(diag, LIMBER_NO_MEMORY, "no memory for the plan");
        if (!limber_unit_read(d->model, u, diag))
            return false;
        p->model = u;
        p->counts = d->counts;
    }
    if (fixed) {
        result = sized(result, fixed->m, fixed->n);
        product = sized(product, fixed->m, fixed->n);
    }
    c = d->conv ? add_conv(p, d, product) : add_gemm(p, d, fixed, product);
    if (c >= 0 && d->beta)
        c0 = add_arg(p, d, "c0", 2, -1, result);
    if (c >= 0 && (c0 >= 0 || !d->beta))
        out = limber_plan_add(p, OP_epilogue, "d", c, c0, result);
    if (out < 0 || (*d->wanted && !p->wanted))
        return limber_fail(diag, LIMBER_NO_MEMORY, "no memory for the plan");
    limber_node_set(&p->node[out], ATTR_alpha, d->alpha);
    limber_node_set(&p->node[out], ATTR_beta, d->beta);
    limber_node_set(&p->node[out], ATTR_wrap, d->wrap);
    p->ret = out;
    return limber_plan_verify(p, diag);
}

/* ---- make: disk, else passes and compiler ---------------------------------------------------- */

struct making {
    limber_context *ctx;
    const struct description *d;
    const struct fixed *fixed;  /* NULL: a kernel for many sizes */
    const struct machine *machine;
    const char *stated;         /* in the place of a description: the stated plan */
};

/* The strides of a fixed shape are no part of its plan. */
static bool key_of(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                   const struct fixed *f, unsigned char key[KEY_BYTES], char **stated, struct diag *d)
{
    struct text t = { 0 };
    bool ok;

    limber_plan_print(p, &t);
    if (stated && t.s)          /* for those who ask; without memory nobody is told */
        *stated = strdup(t.s);
    if (f)
        limber_text_add(&t, "; fixed a=%lld,%lld b=%lld,%lld c=%lld,%lld\n", (long long)f->a.row,
                        (long long)f->a.col, (long long)f->b.row, (long long)f->b.col,
                        (long long)f->c.row, (long long)f->c.col);
    ok = !t.failed && t.s;
    if (ok)
        limber_key_make(key, ctx->build, t.s, machine->text.s);
    limber_text_clear(&t);
    return ok || limber_fail(d, LIMBER_NO_MEMORY, "no memory for the plan's text");
}

static const char *promise_name(const limber_contract *k, char *text, size_t size)
{
    static const char *const name[] = { "native", "bits", "correct", "exact", "fast",
                                        "simulate" };

    if (k->promise == LIMBER_BITS)
        snprintf(text, size, "bits=%d", k->bits);
    else
        snprintf(text, size, "%s", name[k->promise]);
    return text;
}

static limber_format format_of_arg(const struct plan *p, int index)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == OP_arg && p->node[i].num[ATTR_index] == index)
            return p->node[i].type.format;
    return (limber_format){ 0 };
}

static void gather(struct facts *f, const struct plan *p, const struct fixed *fixed)
{
    const limber_contract k = { .promise = p->promise, .bits = p->bits };
    const struct node *products = limber_plan_find(p, OP_products);
    struct text line = { 0 };
    char a[16], b[16], c[16], promise[16], size[40];

    snprintf(size, sizeof size, "k<=2^%d", p->kbits);
    if (fixed)
        snprintf(size, sizeof size, "m=%lld n=%lld k=%lld", (long long)fixed->m,
                 (long long)fixed->n, (long long)fixed->k);
    f->rows = products ? (int32_t)products->rows : 1;
    f->pruned = p->pruned;
    f->bound = p->spent;
    f->cost = p->cost;
    snprintf(f->scheme, sizeof f->scheme, "%s", p->scheme ? p->scheme : "none");
    limber_text_add(&line, "%s a=%s b=%s c=%s contract=%s", p->name,
                    limber_format_name(format_of_arg(p, 0), a, sizeof a),
                    limber_format_name(format_of_arg(p, 1), b, sizeof b),
                    limber_format_name(p->node[p->ret].type.format, c, sizeof c),
                    promise_name(&k, promise, sizeof promise));
    if (p->model) {             /* the unit says more than the number of rows */
        limber_text_add(&line, "=");
        limber_unit_print(p->model, &line);
    } else
        limber_text_add(&line, " %s %s %d rows", size, f->scheme, (int)f->rows);
    strncpy(f->plan, line.s ? line.s : "", sizeof f->plan - 1);
    f->plan[sizeof f->plan - 1] = 0;
    limber_text_clear(&line);
}

static bool passes(struct plan *p, const struct target *t, const char *names, struct story *s,
                   struct diag *d)
{
    struct pass_watch watch = { limber_story_seen, s };
    bool ok;

    limber_story_stage(s, 0, "stated", p);
    ok = limber_passes_run(p, t, names, watch, d);
    limber_story_end(s, p);
    return ok;
}

static bool load(const struct making *m, const struct blob *bytes, struct entry *e,
                 struct diag *d)
{
    const struct backend *b = m->machine->backend;

    if (m->fixed)
        return b->fixed->load(bytes->data, bytes->size, &e->function, &e->address, d);
    return b->load(bytes->data, bytes->size, &e->kernel, d);
}

/* A dump shows the whole way, so it does not begin with an entry from disk. */
static bool from_disk(const struct making *m, struct entry *e)
{
    struct disk *disk = m->ctx->disk;
    struct diag ignored = { 0 };
    struct facts facts;
    struct blob bytes;
    bool ok;

    if (m->ctx->dump_dir || !limber_disk_load(disk, e->facts.key, &facts, &bytes))
        return false;
    ok = load(m, &bytes, e, &ignored);
    if (ok) {
        e->facts = facts;
        e->from_disk = true;
    } else {
        limber_disk_drop(disk, e->facts.key);
    }
    free(bytes.data);
    return ok;
}

static bool generate(const struct making *m, const struct plan *p, const struct dump *dump,
                     struct blob *bytes, struct diag *d)
{
    const struct backend *b = m->machine->backend;

    if (m->fixed)
        return b->fixed->compile(p, &m->machine->target, m->fixed, dump, bytes, d);
    return b->compile(p, &m->machine->target, dump, bytes, d);
}

/* Unlike plans often come to the same code, which is kept under a key of its own, too. */
static bool generate_once(const struct making *m, const struct plan *p, const struct dump *dump,
                          struct blob *bytes, struct diag *d)
{
    const struct backend *b = m->machine->backend;
    struct disk *disk = m->ctx->disk;
    struct facts code = { .plan = "code of several kernels", .scheme = "none" }, found;
    struct blob what = { 0 };
    int claim;
    bool ok;

    if (m->fixed || dump || !b->essence)
        return generate(m, p, dump, bytes, d);
    if (!b->essence(p, &m->machine->target, &what, d))
        return false;
    limber_key_of_bytes(code.key, m->ctx->build, what.data, what.size, m->machine->text.s);
    free(what.data);
    if (limber_disk_load(disk, code.key, &found, bytes))
        return true;
    claim = limber_disk_claim(disk, code.key);
    ok = claim >= 0 && limber_disk_load(disk, code.key, &found, bytes);
    if (!ok) {
        ok = generate(m, p, dump, bytes, d);
        if (ok)
            limber_disk_store(disk, &code, bytes);
    }
    limber_disk_release(claim, code.key);
    return ok;
}

static bool compile(const struct making *m, struct plan *p, struct entry *e, struct diag *d)
{
    limber_context *ctx = m->ctx;
    char *folder = ctx->dump_dir ? limber_dump_folder(ctx->dump_dir, e->facts.key) : NULL;
    struct story story = { .folder = folder };
    const struct dump dump = { limber_story_file, &story };
    struct blob bytes = { 0 };
    bool ok;

    ok = passes(p, &m->machine->target, NULL, &story, d);
    if (ok) {
        gather(&e->facts, p, m->fixed);
        ok = generate_once(m, p, folder ? &dump : NULL, &bytes, d) && load(m, &bytes, e, d);
    }
    if (ok)
        limber_disk_store(ctx->disk, &e->facts, &bytes);
    free(bytes.data);
    limber_story_clear(&story);
    free(folder);
    return ok;
}

/* One process makes what several look for. */
static bool compile_once(const struct making *m, struct plan *p, struct entry *e, struct diag *d)
{
    struct disk *disk = m->ctx->disk;
    unsigned char key[KEY_BYTES];
    int claim;
    bool ok;

    memcpy(key, e->facts.key, sizeof key);
    claim = m->ctx->dump_dir ? -1 : limber_disk_claim(disk, key);
    limber_compile_enter();
    ok = (claim >= 0 && from_disk(m, e)) || compile(m, p, e, d);
    limber_compile_leave();
    limber_disk_release(claim, key);
    return ok;
}

static bool read_stated(struct plan *p, const char *text, struct diag *d)
{
    return limber_plan_parse(p, text, d) && limber_plan_verify(p, d) &&
           (!p->scheme || limber_fail(d, LIMBER_BAD_ARGUMENT, "a scheme is chosen already: this is no "
                                      "stated plan"));
}

static bool make_on(const struct making *m, struct entry *e, struct diag *d)
{
    struct plan plan = { 0 };
    bool ok;

    e->backend = m->machine->backend;
    ok = (m->stated ? read_stated(&plan, m->stated, d) : state(&plan, m->d, m->fixed, d)) &&
         key_of(m->ctx, m->machine, &plan, m->fixed, e->facts.key, e->stated ? NULL : &e->stated, d);
    if (ok && !from_disk(m, e)) {
        if (m->ctx->no_compile)
            ok = limber_fail(d, LIMBER_DEVICE,
                             "LIMBER_NO_COMPILE is set and no cache holds this kernel");
        else
            ok = compile_once(m, &plan, e, d);
    }
    limber_plan_clear(&plan);
    return ok;
}

/* Where the compiler is missing, the other backend serves. */
static bool make(void *user, struct entry *e, struct diag *d)
{
    struct making m = *(const struct making *)user;
    double start = now();
    struct diag why = { 0 };
    bool ok = make_on(&m, e, &why);

    if (!ok && why.status == LIMBER_DEVICE && m.ctx->spare.backend && !m.fixed &&
        !m.ctx->no_compile) {
        m.machine = &m.ctx->spare;
        ok = make_on(&m, e, d);
    } else if (!ok) {
        limber_fail(d, why.status, "%s", why.text);
    }
    if (!ok) {
        free(e->stated);
        e->stated = NULL;
    }
    e->seconds = now() - start;
    return ok;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static char *element(const struct place *p, int64_t i, int64_t j, size_t size)
{
    int64_t at = i * p->row + j / p->inner * p->outer + j % p->inner * p->col;

    return (char *)p->data + at * (int64_t)size;
}

static void copy(const struct place *to, const struct place *from, int64_t m, int64_t n,
                 size_t size)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(element(to, i, j, size), element(from, i, j, size), size);
}

/* No sum of products can leave the result's format: |a b| < 2^(emax_a + emax_b + 2). */
static bool fits(const struct problem *p, const struct finding *f)
{
    const struct mask *a = &f->all_a, *b = &f->all_b;
    bool wide = p->fc.kind == LIMBER_KIND_UINT;
    int bits = 8 * p->fc.size - !wide, k = 0;

    if (p->alpha || p->beta || !a->scanned || !b->scanned || a->special || b->special)
        return false;
    if (a->zero || b->zero)
        return true;
    while (k < 63 && p->k > (int64_t)1 << k)
        k++;
    return !(wide && (a->negative || b->negative)) && a->emax + b->emax + 2 + k <= bits;
}

/* Where C is computed when it might have to stay as it was: dense, group after group. */
static bool spare(const limber_context *ctx, struct place *c, const struct problem *p, struct diag *d)
{
    size_t bytes;

    *c = (struct place){ .row = p->n, .col = 1, .inner = p->n };
    if (!__builtin_mul_overflow((size_t)p->m * (size_t)p->n, (size_t)p->groups, &bytes) &&
        !__builtin_mul_overflow(bytes, (size_t)p->fc.size, &bytes))
        c->data = limber_room_take(ctx, bytes);
    return c->data || limber_fail(d, LIMBER_NO_MEMORY, "no memory for a second copy of c");
}

/* The caller's own, of a call in host memory. */
static bool has_workspace(const limber_context *ctx, const struct problem *p)
{
    return !ctx->machine.backend->remote && p->queue && p->queue->workspace;
}

static size_t workspace(const limber_context *ctx, const struct problem *p)
{
    double bytes;

    if (has_workspace(ctx, p))
        return p->queue->bytes;
    if (ctx->workspace)
        return ctx->workspace;
    bytes = (double)p->m * (double)p->k * p->fa.size + (double)p->k * (double)p->n * p->fb.size +
            (double)p->m * (double)p->n * p->fc.size;
    if (ctx->machine.backend->remote)   /* all limbs of most products; the largest go in parts */
        return (size_t)(bytes * 1.25) + ((size_t)256 << 20);
    return (size_t)(bytes / 4) + ((size_t)64 << 20);
}

static void run_alone(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* Another thread costs some ten microseconds: predicted to take less than this on one core, a
 * product is done by its caller. */
static const double brief = 60e-6;

static double seconds(const struct problem *p, const struct facts *f)
{
    return f->cost * ((double)p->m * (double)p->n * (double)p->k / 0x1p30);
}

struct launching {
    limber_context *ctx;
    const struct problem *p;    /* with the result where it is computed */
    const struct finding *f;
    struct entry *e;
    struct runner runner;       /* of one group */
    pthread_mutex_t lock;       /* of what follows */
    bool dry;
    const struct guard *guard;
    int64_t overflow, repaired;
    size_t workspace;           /* of one group */
};

static void add_counts(struct unit_counts *sum, const struct unit_counts *c)
{
    int64_t *to = (int64_t *)sum;
    const int64_t *from = (const int64_t *)c;

    for (size_t i = 0; i < sizeof *c / sizeof *from; i++)
        to[i] += from[i];
}

static void add_call(struct launching *l, const struct call *call)
{
    pthread_mutex_lock(&l->lock);
    l->overflow += call->overflow;
    l->repaired += call->repaired;
    if (call->workspace > l->workspace)
        l->workspace = call->workspace;
    if (l->p->counts)
        add_counts(l->p->counts, &call->counts);
    pthread_mutex_unlock(&l->lock);
}

static bool launch_group(void *arg, int64_t g, struct diag *d)
{
    struct launching *l = arg;
    const struct problem *p = l->p;
    const struct finding *f = l->f;
    bool scanned = f->all_a.scanned && f->all_b.scanned;
    struct keeping of[2];
    struct call call = {
        .m = p->m, .n = p->n, .k = p->k, .a = limber_group_a(p, g), .b = limber_group_b(p, g),
        .c = limber_group_c(p, g), .alpha = p->alpha, .beta = p->beta,
        .mask_a = scanned ? mask_of(p, f->a, true, g) : NULL,
        .mask_b = scanned ? mask_of(p, f->b, false, g) : NULL,
        .runner = &l->runner, .allocator = l->ctx->allocator.take ? &l->ctx->allocator : NULL,
        .queue = p->queue, .device = l->ctx->machine.target.device,
        .workspace_limit = workspace(l->ctx, p), .dry = l->dry,
        .guard = l->guard,
        .keep = { limber_operand_keeper(p->kept[0], &l->e->facts, 0, &of[0]),
                  limber_operand_keeper(p->kept[1], &l->e->facts, 1, &of[1]) },
        .seed = p->contract.promise == LIMBER_SIMULATE ? p->contract.unit->seed : 0,
    };

    if (!l->e->backend->launch(l->e->kernel, &call, d))
        return false;
    add_call(l, &call);
    return true;
}

/* Brief products are tasks, side by side; others are done in turn, each by all threads, or by a device,
 * on which they follow each other. */
static bool launch_all(limber_context *ctx, const struct problem *p, const struct finding *f,
                       struct entry *e, bool dry, const struct guard *guard,
                       limber_report *report, struct diag *d)
{
    const struct runner alone = { 1, run_alone, NULL }, all = limber_pool_runner(ctx->pool);
    bool small = is_tiny(p) || seconds(p, &e->facts) < brief;
    bool beside = small && !e->backend->remote && !has_workspace(ctx, p) && seconds(p, &e->facts) * (double)p->groups >= brief;
    struct launching l = { .ctx = ctx, .p = p, .f = f, .e = e, .runner = small ? alone : all,
                           .dry = dry, .guard = guard };
    int64_t at_once = beside && all.workers < p->groups ? all.workers : beside ? p->groups : 1;
    char name[32];
    bool ok;

    pthread_mutex_init(&l.lock, NULL);
    limber_pool_enter(ctx->pool);
    ok = limber_groups_run(beside ? &all : &alone, p->groups, launch_group, &l, d);
    limber_pool_leave(ctx->pool);
    pthread_mutex_destroy(&l.lock);
    if (report) {
        report->workspace = l.workspace * (size_t)at_once;
        report->repaired = l.repaired;
    }
    if (ok && l.overflow > 0)
        return limber_fail(d, LIMBER_RANGE, "%lld of the result's elements do not fit %s",
                           (long long)l.overflow, limber_format_name(p->fc, name, sizeof name));
    return ok;
}

static void copy_groups(const struct problem *to, const struct problem *from)
{
    for (int64_t g = 0; g < to->groups; g++) {
        struct place t = limber_group_c(to, g), f = limber_group_c(from, g);

        copy(&t, &f, to->m, to->n, to->fc.size);
    }
}

static bool launch(limber_context *ctx, const struct problem *p, const struct finding *f,
                   struct entry *e, limber_report *report, struct diag *d)
{
    struct problem elsewhere = *p;
    bool ok;

    if (!is_integer(p->fc) || p->contract.promise == LIMBER_NATIVE || fits(p, f))
        return launch_all(ctx, p, f, e, false, NULL, report, d);
    if (e->backend->remote)     /* nothing is stored before all is known to fit */
        return launch_all(ctx, p, f, e, true, NULL, report, d) &&
               launch_all(ctx, p, f, e, false, NULL, report, d);
    elsewhere.each_c = NULL;
    elsewhere.step_c = p->m * p->n;
    if (!spare(ctx, &elsewhere.c, p, d))
        return false;
    if (p->beta)
        copy_groups(&elsewhere, p);
    ok = launch_all(ctx, &elsewhere, f, e, false, NULL, report, d);
    if (ok)
        copy_groups(p, &elsewhere);
    limber_room_give(ctx, elsewhere.c.data);
    return ok;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void report_facts(limber_report *r, const limber_context *ctx, const struct backend *b,
                         const struct problem *p, const struct facts *f)
{
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->groups / 0x1p30;

    snprintf(r->scheme, sizeof r->scheme, "%s", f->scheme);
    snprintf(r->backend, sizeof r->backend, "%s", b->name);
    limber_key_hex(f->key, (sizeof r->kernel - 1) / 2, r->kernel);
    r->rows = f->rows;
    r->pruned = f->pruned;
    r->bound = f->bound;
    r->cost = f->cost * work / limber_pool_runner(ctx->pool).workers;
}

/* One line whose beginning is a command that repeats the call. */
static void tell(const limber_context *ctx, const struct problem *p, const limber_report *r)
{
    static const char *const from[] = { "compiled", "disk", "hit", "meanwhile" };
    struct text t = { 0 };
    char a[16], b[16], c[16], promise[16];
    const limber_conv *s = p->shape;

    if (s)
        limber_text_add(&t, "limber conv n=%lld c=%lld h=%lld w=%lld o=%lld r=%lld s=%lld",
                        (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                        (long long)s->o, (long long)s->r, (long long)s->s);
    else
        limber_text_add(&t, "limber gemm m=%lld n=%lld k=%lld", (long long)p->m, (long long)p->n,
                        (long long)p->k);
    limber_text_add(&t, " a=%s b=%s c=%s contract=%s",
                    limber_format_name(p->fa, a, sizeof a), limber_format_name(p->fb, b, sizeof b),
                    limber_format_name(p->fc, c, sizeof c),
                    promise_name(&p->contract, promise, sizeof promise));
    if (!s && p->groups != 1)
        limber_text_add(&t, "  # %lld products:", (long long)p->groups);
    else
        limber_text_add(&t, "  #");
    limber_text_add(&t, " %s", r->scheme);
    if (r->parts > 1) {
        limber_text_add(&t, ":");
        limber_parts_shares(&t, r);
        limber_text_add(&t, "; %d parts", r->parts);
    }
    limber_text_add(&t, " %s:%s %d rows %s %.3g ms", r->backend,
                    strcmp(r->backend, ctx->machine.backend->name) ? ctx->spare.target.isa :
                    ctx->machine.target.isa,
                    r->rows, from[r->from],
                    1e3 * (r->seconds_scan + r->seconds_compile + r->seconds_run));
    if (r->repaired > 0)
        limber_text_add(&t, ", %lld elements repaired", (long long)r->repaired);
    if (!t.failed)
        ctx->log(ctx->log_user, t.s);
    limber_text_clear(&t);
}

/* r may be NULL: nobody wants to know. */
static bool scan_and_describe(limber_context *ctx, const struct problem *p, struct finding *f,
                              struct description *desc, limber_report *r, struct diag *d)
{
    struct runner runner = limber_pool_runner(ctx->pool);
    double start = r ? now() : 0;

    if (!scan(ctx, f, p, &runner, d) || !count_slices(ctx, f, p, d))
        return false;
    estimate_trust(ctx, f, p);
    if (!describe(ctx, desc, p, f, d))
        return false;
    if (r)
        r->seconds_scan = now() - start;
    return true;
}

/* ---- parts of a product ---------------------------------------------------------------------- */

struct priced {
    struct priced *next;
    struct price price;
    struct description d;
};

enum { MOST_PRICES = 1024 };

void limber_priced_free(struct priced *list)
{
    while (list) {
        struct priced *next = list->next;

        free(list);
        list = next;
    }
}

static bool known_price(limber_context *ctx, const struct description *d, struct price *price)
{
    size_t size = description_size(d);
    const struct priced *at;

    pthread_mutex_lock(&ctx->lock);
    for (at = ctx->priced; at && memcmp(&at->d, d, size);)
        at = at->next;
    if (at)
        *price = at->price;
    pthread_mutex_unlock(&ctx->lock);
    return at != NULL;
}

static void keep_price(limber_context *ctx, const struct description *d, const struct price *price)
{
    struct priced *new = malloc(sizeof *new);

    if (!new)                   /* it is found again when it is asked for again */
        return;
    *new = (struct priced){ .price = *price, .d = *d };
    pthread_mutex_lock(&ctx->lock);
    if (++ctx->prices % MOST_PRICES == 0) {
        limber_priced_free(ctx->priced);
        ctx->priced = NULL;
    }
    new->next = ctx->priced;
    ctx->priced = new;
    pthread_mutex_unlock(&ctx->lock);
}

static bool find_price(limber_context *ctx, const struct description *desc, struct price *price,
                       struct diag *d)
{
    struct pass_watch nobody = { NULL, NULL };
    struct plan plan = { 0 };
    struct diag why = { 0 };
    bool ok = state(&plan, desc, NULL, d);

    *price = (struct price){ .product = INFINITY };
    if (ok && limber_passes_run(&plan, &ctx->machine.target, "conv_to_gemm,choose", nobody, &why))
        *price = plan.price;
    else if (ok && why.status != LIMBER_NO_SCHEME)
        ok = limber_fail(d, why.status, "%s", why.text);
    limber_plan_clear(&plan);
    return ok;
}

bool limber_engine_price(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d)
{
    const struct finding f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices,
                               .trust = p->trust };
    struct description desc;

    if (!describe(ctx, &desc, p, &f, d))
        return false;
    if (known_price(ctx, &desc, price))
        return true;
    if (!find_price(ctx, &desc, price, d))
        return false;
    keep_price(ctx, &desc, price);
    return true;
}

static bool run_found(limber_context *ctx, const struct problem *p, const struct finding *f,
                      const struct description *desc, limber_report *r, struct diag *d);

bool limber_engine_run_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                              struct mask *b, limber_report *report, struct diag *d)
{
    const struct finding f = { .a = a, .b = b, .all_a = *a, .all_b = *b,
                               .slices = p->contract.slices, .trust = p->trust };
    struct description desc;

    return describe(ctx, &desc, p, &f, d) && run_found(ctx, p, &f, &desc, report, d);
}

/* ---- calls that are recorded ----------------------------------------------------------------- */

/* What a call was found to be: without a look at its operands, and with. */
struct warm {
    struct warm *next;
    struct description plain, full;
};

void limber_warm_free(struct warm *list)
{
    while (list) {
        struct warm *next = list->next;

        free(list);
        list = next;
    }
}

static bool entry_of(limber_context *ctx, const struct description *desc, struct entry **e,
                     struct diag *d)
{
    const struct maker maker = { make, &(struct making){ ctx, desc, NULL, &ctx->machine } };
    bool found;

    return limber_memory_get(ctx->memory, desc, description_size(desc), maker, e, &found, d);
}

static bool is_scanned(const struct description *d)
{
    return d->has[0] || d->has[1];
}

/* The same contract with any scheme that asks nothing of the data. */
static struct description any_data(const struct description *plain)
{
    struct description d = *plain;

    memset(d.wanted, 0, sizeof d.wanted);
    d.slices = 0;
    return d;
}

/* Kernels and the module of a guard.  They stay in use for the context's life, as graphs may. */
static bool take_guard(limber_context *ctx, const struct warm *w, struct guard *g, struct diag *d)
{
    const struct remote *remote = ctx->machine.backend->remote;
    struct description other = any_data(&w->plain);
    const limber_format f[2] = { w->full.fa, w->full.fb };
    int device = ctx->machine.target.device;
    struct entry *e;

    memset(g, 0, sizeof *g);
    if (!is_scanned(&w->full))
        return true;
    if (!entry_of(ctx, &other, &e, d) || !remote->ready(e->kernel, device, d))
        return false;
    g->fallback = e->kernel;
    for (int i = 0; i < 2; i++) {
        const int64_t *m = w->full.mask[i];

        if (!limber_remote_scanner(ctx, f[i], &e, d) || !remote->ready(e->kernel, device, d))
            return false;
        g->scan[i] = e->kernel;
        g->bounds[i] = (struct bounds){
            (int32_t)m[ATTR_emin - MASK_FIRST], (int32_t)m[ATTR_emax - MASK_FIRST],
            (int32_t)m[ATTR_spread - MASK_FIRST], (int32_t)m[ATTR_width - MASK_FIRST],
            (int32_t)m[ATTR_sig - MASK_FIRST], (int32_t)m[ATTR_sign - MASK_FIRST],
            (int32_t)m[ATTR_special - MASK_FIRST]
        };
    }
    return true;
}

static bool remember(limber_context *ctx, const struct problem *p, const struct description *full,
                     struct diag *d)
{
    const struct finding unscanned = { .slices = p->contract.slices };
    struct warm *w = calloc(1, sizeof *w), *same;
    struct guard ignored;

    if (!w)
        return limber_fail(d, LIMBER_NO_MEMORY, "no memory for a call to record");
    w->full = *full;
    if (!describe(ctx, &w->plain, p, &unscanned, d) || !take_guard(ctx, w, &ignored, d)) {
        free(w);
        return false;
    }
    pthread_mutex_lock(&ctx->lock);
    for (same = ctx->warm; same && memcmp(&same->plain, &w->plain, sizeof w->plain);)
        same = same->next;
    if (same) {                 /* the newest look holds */
        same->full = w->full;
        free(w);
    } else {
        w->next = ctx->warm;
        ctx->warm = w;
    }
    pthread_mutex_unlock(&ctx->lock);
    return true;
}

static bool recall(limber_context *ctx, const struct problem *p, struct warm *w, struct diag *d)
{
    const struct finding unscanned = { .slices = p->contract.slices };
    const struct warm *same;

    if (!describe(ctx, &w->plain, p, &unscanned, d))
        return false;
    pthread_mutex_lock(&ctx->lock);
    for (same = ctx->warm; same && memcmp(&same->plain, &w->plain, sizeof w->plain);)
        same = same->next;
    if (same)
        w->full = same->full;
    pthread_mutex_unlock(&ctx->lock);
    return same || limber_fail(d, LIMBER_DEVICE, "queue.stream is being captured: make this call "
                               "once before, with queue.graph set");
}

static bool run_recorded(limber_context *ctx, const struct problem *p, limber_report *r,
                         struct diag *d)
{
    const struct finding unscanned = { 0 };
    struct guard guard;
    struct entry *e;
    struct warm w;

    if (!recall(ctx, p, &w, d) || !take_guard(ctx, &w, &guard, d) ||
        !entry_of(ctx, &w.full, &e, d))
        return false;
    if (r) {
        r->from = 2;
        report_facts(r, ctx, e->backend, p, &e->facts);
    }
    return launch_all(ctx, p, &unscanned, e, false, &guard, r, d);
}

static bool run_kernel(limber_context *ctx, const struct problem *p, const struct finding *f,
                       const struct description *desc, limber_report *r, struct diag *d)
{
    const struct maker maker = { make, &(struct making){ ctx, desc, NULL, &ctx->machine } };
    struct entry *e;
    double start = 0;
    bool found, ok;

    if (!limber_memory_get(ctx->memory, desc, description_size(desc), maker, &e, &found, d))
        return false;
    if (r) {
        r->from = found ? 2 : e->from_disk;
        r->seconds_compile = found ? 0 : e->seconds;
        report_facts(r, ctx, e->backend, p, &e->facts);
        start = now();
    }
    ok = launch(ctx, p, f, e, r, d);
    if (r)
        r->seconds_run = now() - start;
    if (ok && p->queue && p->queue->graph && e->backend->remote)
        return remember(ctx, p, desc, d);       /* and its kernel stays */
    limber_memory_put(ctx->memory, e);
    return ok;
}

/* ---- kernels made in the background ---------------------------------------------------------- */

void limber_engine_make(void *context, const void *description)
{
    const struct description *desc = description;
    limber_context *ctx = context;
    struct diag ignored = { 0 };    /* the next call meets it, and tells */
    struct entry *e;

    if (entry_of(ctx, desc, &e, &ignored))
        limber_memory_put(ctx->memory, e);
}

/* The kernel is there; or it is being made, under the whole of the description. */
static bool is_there(limber_context *ctx, const struct description *desc)
{
    return limber_memory_has(ctx->memory, desc, description_size(desc)) ||
           !limber_background_ask(ctx->background, desc, sizeof *desc);
}

static bool run_meanwhile(limber_context *ctx, const struct problem *p, const struct finding *f,
                          const struct description *desc, limber_report *r, struct diag *d)
{
    const struct awaited kernel = { desc, sizeof *desc };
    struct diag why = { 0 };
    struct meanwhile w;
    double start = now();
    bool ok = true;

    if (limber_meanwhile_run(ctx, p, &kernel, &w))
        ok = run_kernel(ctx, &w.rest, f, desc, r, &why);
    if (!limber_meanwhile_finish(ctx, p, &w, ok))
        return limber_fail(d, why.status, "%s", why.text);
    if (r && w.report.rows) {
        if (!ok || w.rest.m == 0)
            *r = w.report;
        r->bound = w.report.bound > r->bound ? w.report.bound : r->bound;
        r->from = 3;
        r->seconds_run = now() - start;
    }
    return true;
}

static bool run_found(limber_context *ctx, const struct problem *p, const struct finding *f,
                      const struct description *desc, limber_report *r, struct diag *d)
{
    const double from_disk = 2e-3;      /* seconds in which an entry is read */

    if (p->contract.meanwhile == LIMBER_MEANWHILE_WAIT || is_there(ctx, desc))
        return run_kernel(ctx, p, f, desc, r, d);
    if (!limber_background_busy(ctx->background, desc, sizeof *desc, from_disk))
        return run_kernel(ctx, p, f, desc, r, d);
    if (p->contract.meanwhile == LIMBER_MEANWHILE_REFUSE)
        return limber_fail(d, LIMBER_NOT_READY, "the kernel is being made");
    return run_meanwhile(ctx, p, f, desc, r, d);
}

bool limber_engine_prepare_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                                  const struct mask *b, bool *ready, struct diag *d)
{
    const struct finding f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices,
                               .trust = p->trust };
    struct description desc;
    struct entry *e;

    if (!describe(ctx, &desc, p, &f, d))
        return false;
    *ready = p->contract.meanwhile == LIMBER_MEANWHILE_WAIT || is_there(ctx, &desc);
    if (*ready && !entry_of(ctx, &desc, &e, d))
        return false;
    if (*ready)
        limber_memory_put(ctx->memory, e);
    return true;
}

/* Products that parts may make: not a batch, nor one whose plan is the caller's wish. */
static bool may_mix(const limber_context *ctx, const struct problem *p, const struct finding *f)
{
    limber_promise promise = p->contract.promise;

    if (ctx->whole || !f->all_a.scanned || !f->all_b.scanned || p->groups != 1 || p->shape ||
        p->a.patch || p->b.patch || is_tiny(p) || is_integer(p->fc) || (p->queue && p->queue->graph))
        return false;
    if (names_two(p))
        return true;
    return promise != LIMBER_SIMULATE && promise != LIMBER_FAST && !asks(p, "native");
}

static bool run(limber_context *ctx, const struct problem *p, struct finding *f, limber_report *r,
                struct diag *d)
{
    struct description desc;
    bool done = false;

    if (limber_remote_records(ctx, p->queue))
        return run_recorded(ctx, p, r, d);
    if (!scan_and_describe(ctx, p, f, &desc, r, d))
        return false;
    if (may_mix(ctx, p, f) && !limber_mixed_run(ctx, p, f->a, f->b, f->trust, &done, r, d))
        return false;
    return done || run_found(ctx, p, f, &desc, r, d);
}

/* Kernels store along rows: where C's columns lie together, C^T = B^T A^T.  The products of native
 * are the same either way, so are the sums. */
static const struct problem *turn(const limber_context *ctx, const struct problem *p,
                                  struct problem *turned)
{
    if (p->shape || p->c.row != 1 || p->c.col == 1 || p->c.inner < p->n ||
        !limber_format_equal(p->fa, p->fb) || depth_of(ctx, p) != SCAN_probe)
        return p;
    *turned = *p;
    turned->turned = true;
    turned->m = p->n;
    turned->n = p->m;
    turned->a = p->b;
    turned->b = p->a;
    turned->step_a = p->step_b;
    turned->step_b = p->step_a;
    turned->each_a = p->each_b;
    turned->each_b = p->each_a;
    turned->kept[0] = p->kept[1];
    turned->kept[1] = p->kept[0];
    turned->c = (struct place){ p->c.data, p->c.col, p->c.row, p->m > 0 ? p->m : 1, 0 };
    return turned;
}

static bool workspace_of(limber_context *ctx, const struct problem *p, const struct description *desc,
                         size_t *least, size_t *best, struct diag *d)
{
    const struct runner runner = limber_pool_runner(ctx->pool);
    const struct call call = { .m = p->m, .n = p->n, .k = p->k, .a = p->a, .b = p->b, .c = p->c,
                               .runner = &runner };
    struct entry *e;

    if (!entry_of(ctx, desc, &e, d))
        return false;
    if (e->backend->workspace)
        e->backend->workspace(e->kernel, &call, least, best);
    limber_memory_put(ctx->memory, e);
    return true;
}

bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d)
{
    const struct finding f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices };
    struct description desc;

    return describe(ctx, &desc, p, &f, d) && workspace_of(ctx, p, &desc, least, best, d);
}

bool limber_engine_workspace(limber_context *ctx, const struct problem *p, size_t *least,
                             size_t *best, struct diag *d)
{
    struct finding f = { 0 };
    struct description desc;
    struct problem turned;
    bool ok;

    *least = *best = 0;
    if (!ctx->machine.backend->workspace || p->m == 0 || p->n == 0)
        return true;
    p = turn(ctx, p, &turned);
    ok = scan_and_describe(ctx, p, &f, &desc, NULL, d) &&
         workspace_of(ctx, p, &desc, least, best, d) &&
         (!may_mix(ctx, p, &f) || limber_mixed_workspace(ctx, p, f.a, f.b, least, best, d));
    finding_clear(&f, p->groups);
    return ok;
}

/* The caller's floating-point flags are what they were: limbs are inexact, and NaN compare, by design. */
static void drop_flags(int before)
{
    int raised = fetestexcept(FE_ALL_EXCEPT) & ~before;

    if (raised)
        feclearexcept(raised);
}

bool limber_engine_run(limber_context *ctx, const struct problem *p, limber_report *report,
                       struct diag *d)
{
    int flags = fetestexcept(FE_ALL_EXCEPT);
    bool ok = p->contract.promise == LIMBER_SIMULATE ? limber_simulate_run(ctx, p, report, d) :
              limber_engine_run_plain(ctx, p, report, d);

    drop_flags(flags);
    return ok;
}

bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, limber_report *report,
                             struct diag *d)
{
    bool wanted = report || ctx->verbose > 0, ok = true;
    limber_report r = { 0 };
    struct finding f = { 0 };
    struct problem turned;

    if (p->m > 0 && p->n > 0 && p->groups > 0) {
        ok = run(ctx, turn(ctx, p, &turned), &f, wanted ? &r : NULL, d);
        finding_clear(&f, p->groups);
        if (ok && ctx->verbose > 0)
            tell(ctx, p, &r);
    }
    if (ok && report)
        *report = r;
    return ok;
}

static bool plan_story(limber_context *ctx, const struct problem *p,
                       const struct description *desc, struct text *out, limber_report *r,
                       struct diag *d)
{
    struct story story = { .out = out };
    struct facts facts = { .rows = 0 };
    struct plan plan = { 0 };
    bool ok;

    ok = state(&plan, desc, NULL, d) && key_of(ctx, &ctx->machine, &plan, NULL, facts.key, NULL, d) &&
         passes(&plan, &ctx->machine.target, NULL, &story, d);
    if (ok) {
        gather(&facts, &plan, NULL);
        report_facts(r, ctx, ctx->machine.backend, p, &facts);
    }
    limber_story_clear(&story);
    limber_plan_clear(&plan);
    return ok;
}

bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, limber_report *report,
                               struct diag *d)
{
    const struct finding f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices,
                               .trust = p->trust };
    struct description desc;

    return describe(ctx, &desc, p, &f, d) && plan_story(ctx, p, &desc, out, report, d);
}

bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        limber_cut *cut, limber_report *report, struct diag *d)
{
    limber_report r = { 0 };
    struct finding f = { 0 };
    struct description desc;
    struct problem turned;
    bool done = false, ok;

    p = turn(ctx, p, &turned);
    ok = (p->contract.promise != LIMBER_SIMULATE || limber_simulate_check(p, d)) &&
         scan_and_describe(ctx, p, &f, &desc, &r, d);
    if (ok && p->m > 0 && p->n > 0 && may_mix(ctx, p, &f))
        ok = limber_mixed_plan(ctx, p, f.a, f.b, f.trust, &done, out, cut, &r, d);
    ok = ok && (done || plan_story(ctx, p, &desc, out, &r, d));
    finding_clear(&f, p->groups);
    if (ok && out && out->failed)
        ok = limber_fail(d, LIMBER_NO_MEMORY, "no memory for the plan's text");
    if (ok && report)
        *report = r;
    return ok;
}

bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d)
{
    struct { struct description d; struct fixed f; } what;
    const struct maker maker = { make, &(struct making){ ctx, &what.d, &what.f,
                                                        &ctx->machine } };
    const struct finding unscanned = { 0 };
    const struct problem p = { .contract = *contract, .k = fixed->k, .fa = f, .fb = f, .fc = f,
                               .beta = fixed->add ? fixed : NULL };     /* only whether */
    struct entry *e;
    bool found;

    if (!ctx->machine.backend->fixed)
        return limber_fail(d, LIMBER_DEVICE, "backend %s makes no functions for one shape",
                           ctx->machine.backend->name);
    if (!describe(ctx, &what.d, &p, &unscanned, d))
        return false;
    what.f = *fixed;
    if (!limber_memory_get(ctx->functions, &what, sizeof what, maker, &e, &found, d))
        return false;
    *address = e->address;      /* kept in use, so that it stays */
    return true;
}

static bool replay(limber_context *ctx, const char *text, const char *names, const char *target,
                   struct text *out, struct diag *d)
{
    struct story story = { .out = out };
    struct target t = ctx->machine.target;
    struct plan plan = { 0 };
    bool ok;

    if (target && !limber_target_parse(&t, target, d)) {
        limber_fail_in(d, "target");
        return false;
    }
    ok = limber_plan_parse(&plan, text, d) && limber_plan_verify(&plan, d);
    if (!ok)
        limber_fail_in(d, "plan");
    ok = ok && passes(&plan, &t, names, &story, d);
    limber_story_clear(&story);
    limber_plan_clear(&plan);
    if (ok && out->failed)
        ok = limber_fail(d, LIMBER_NO_MEMORY, "no memory for the plan's text");
    return ok;
}

limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *names,
                               const char *target, char **text)
{
    struct diag d = { 0 };
    struct text out = { 0 };

    if (!ctx || !plan || !text)
        limber_fail(&d, LIMBER_BAD_ARGUMENT, "%s is NULL", !ctx ? "ctx" : !plan ? "plan" : "text");
    else if (!replay(ctx, plan, names, target, &out, &d))
        limber_text_clear(&out);
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "plan_text");
    return limber_error_set(&d);
}

bool limber_engine_make_stated(limber_context *ctx, const char *plan, limber_report *r, struct diag *d)
{
    const struct making m = { .ctx = ctx, .machine = &ctx->machine, .stated = plan };
    struct entry e = { .kernel = NULL };

    if (!make((void *)&m, &e, d))
        return false;
    snprintf(r->scheme, sizeof r->scheme, "%s", e.facts.scheme);
    snprintf(r->backend, sizeof r->backend, "%s", e.backend->name);
    limber_key_hex(e.facts.key, (sizeof r->kernel - 1) / 2, r->kernel);
    r->rows = e.facts.rows;
    r->pruned = e.facts.pruned;
    r->bound = e.facts.bound;
    r->from = e.from_disk;
    r->seconds_compile = e.seconds;
    e.backend->unload(e.kernel);
    free(e.stated);
    return true;
}
