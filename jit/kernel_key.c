/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel key of a call, and the plan that it states.  Equal keys state equal plans. */
#include "jit/engine.h"

#include <string.h>

static void describe_mask(struct kernel_key *d, int side, const struct node *class)
{
    for (int i = 0; i < MASK_ATTRS; i++) {
        if (!limber_node_has(class, (enum attr)(MASK_FIRST + i)))
            continue;
        d->has[side] |= (uint64_t)1 << i;
        d->mask[side][i] = limber_num(class, (enum attr)(MASK_FIRST + i));
    }
}

/* Bytes that say it all. */
size_t limber_kernel_key_size(const struct kernel_key *d)
{
    return d->simulates           ? sizeof *d :
           d->conv                ? offsetof(struct kernel_key, model) :
           d->has[0] || d->has[1] ? offsetof(struct kernel_key, geometry) :
                                    offsetof(struct kernel_key, mask);
}

/* Seeds are arguments of a kernel. */
static bool describe_model(struct kernel_key *d, const struct problem *p, struct diag *diag)
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
    d->counts = (int32_t)p->count;
    if (u.start_c)              /* C is where the sum starts, not what is added to it */
        d->beta = 0;
    return ok || limber_fail(diag, LIMBER_STATUS_NO_MEMORY, "no memory for the unit's text");
}

bool limber_kernel_key_make(limber_context *ctx, struct kernel_key *d, const struct problem *p,
                            const struct scan_result *f, struct diag *diag)
{
    const struct product_request r = limber_request(p);
    struct request_class class;

    limber_request_class(&class, &r, &ctx->machine.target, &f->all_a, &f->all_b, f->first_pass_bits,
                         f->fractional);
    memset(d, 0, sizeof *d);
    d->fa = p->fa;
    d->fb = p->fb;
    d->fc = p->fc;
    d->promise = (int32_t)p->contract.promise;
    d->bits = class.bits;
    d->slices = f->slices;
    d->split = (int32_t)p->contract.split;
    d->kbits = class.kbits;
    d->size = class.size;
    d->roundings = p->roundings;
    d->first_pass_bits = f->first_pass_bits;
    d->alpha = p->alpha != NULL;
    d->beta = p->beta != NULL;
    d->wrap = class.wrap;
    memcpy(d->wanted, class.wanted, sizeof d->wanted);
    describe_mask(d, 0, &class.data[0]);
    describe_mask(d, 1, &class.data[1]);
    if (limber_simulates(&p->contract) && !describe_model(d, p, diag))
        return false;
    if (!p->shape)
        return true;
    d->conv = 1;
    d->geometry = p->conv.geometry;
    return true;
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

static int add_arg(struct plan *p, const struct kernel_key *d, const char *name, int index,
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

static int add_gemm(struct plan *p, const struct kernel_key *d, const struct fixed *fixed,
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
static int add_conv(struct plan *p, const struct kernel_key *d, struct type exact)
{
    int x = add_arg(p, d, "x", 0, 1, type_of(d->fb, "nchw"));
    int w = x < 0 ? -1 : add_arg(p, d, "w", 1, 0, type_of(d->fa, "odrs"));
    int y = w < 0 ? -1 : limber_plan_add(p, OP_conv2d, "c", x, w, exact);

    return y >= 0 && limber_conv_write(p, &p->node[y], &d->geometry) ? y : -1;
}

/* fixed may be NULL. */
bool limber_plan_state(struct plan *p, const struct kernel_key *d, const struct fixed *fixed,
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
    p->first_pass_bits = d->first_pass_bits;
    p->budget = limber_stated_budget(p, d->fc);
    if (p->budget < 0)
        return limber_fail(diag, LIMBER_STATUS_NO_SCHEME,
                           "%d bits leave no room for the rounding of each of %d "
                           "parts",
                           d->bits, d->roundings + 1);
    p->wanted = *d->wanted ? limber_plan_string(p, d->wanted) : NULL;
    if (d->simulates) {
        limber_unit *u = limber_plan_alloc(p, sizeof *u);

        if (!u)
            return limber_fail(diag, LIMBER_STATUS_NO_MEMORY, "no memory for the plan");
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
        return limber_fail(diag, LIMBER_STATUS_NO_MEMORY, "no memory for the plan");
    limber_node_set(&p->node[out], ATTR_alpha, d->alpha);
    limber_node_set(&p->node[out], ATTR_beta, d->beta);
    limber_node_set(&p->node[out], ATTR_wrap, d->wrap);
    if (limber_is_integral((limber_promise)d->promise))
        limber_node_set(&p->node[out], ATTR_integral, 1);
    p->ret = out;
    return limber_plan_verify(p, diag);
}
