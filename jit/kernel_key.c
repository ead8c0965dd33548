/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel key of a call, and the stated plan that it determines.  Equal keys state equal
 * plans. */
#include "jit/engine.h"

#include <string.h>

/* Puts the attributes of one operand's class into the key. */
static void key_mask(struct kernel_key *key, int side, const struct node *class)
{
    for (int i = 0; i < MASK_ATTRS; i++) {
        if (!limber_node_has(class, (enum attr)(MASK_FIRST + i)))
            continue;
        key->has[side] |= (uint64_t)1 << i;
        key->mask[side][i] = limber_num(class, (enum attr)(MASK_FIRST + i));
    }
}

/* The size of a key without its empty tail. */
size_t limber_kernel_key_size(const struct kernel_key *key)
{
    return key->simulates             ? sizeof *key :
           key->conv                  ? offsetof(struct kernel_key, model) :
           key->has[0] || key->has[1] ? offsetof(struct kernel_key, geometry) :
                                        offsetof(struct kernel_key, mask);
}

/* Writes the unit's text without the seed, which is an argument of the kernel. */
static bool key_model(struct kernel_key *key, const struct problem *p, struct diag *d)
{
    limber_unit u = *p->contract.unit;
    struct text t = { 0 };
    bool ok;

    u.seed = 0;
    limber_unit_print(&u, &t);
    ok = t.s && !t.failed && t.n < sizeof key->model;
    if (ok)
        memcpy(key->model, t.s, t.n);
    limber_text_clear(&t);
    key->simulates = 1;
    key->counts = (int32_t)p->count;
    if (u.start_c)              /* the sum starts from C; beta does not add it */
        key->beta = 0;
    return ok || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the unit's text");
}

bool limber_kernel_key_make(limber_context *ctx, struct kernel_key *key, const struct problem *p,
                            const struct scan_result *f, struct diag *d)
{
    const struct product_request r = limber_request(p);
    struct request_class class;

    limber_request_class(&class, &r, &ctx->machine.target, &f->all_a, &f->all_b, &f->first_pass,
                         f->fractional);
    memset(key, 0, sizeof *key);
    key->fa = p->fa;
    key->fb = p->fb;
    key->fc = p->fc;
    key->promise = (int32_t)p->contract.promise;
    key->bits = class.bits;
    key->slices = f->slices;
    key->split = (int32_t)p->contract.split;
    key->kbits = class.kbits;
    key->size = class.size;
    key->roundings = p->roundings;
    key->first_pass_bits = f->first_pass.bits;
    key->decided = f->first_pass.decided;
    key->paired = f->first_pass.paired;
    key->alpha = p->alpha != NULL;
    key->beta = p->beta != NULL;
    key->wrap = class.wrap;
    memcpy(key->wanted, class.wanted, sizeof key->wanted);
    key_mask(key, 0, &class.data[0]);
    key_mask(key, 1, &class.data[1]);
    if (limber_simulates(&p->contract) && !key_model(key, p, d))
        return false;
    if (!p->shape)
        return true;
    key->conv = 1;
    key->geometry = p->conv.geometry;
    return true;
}

/* A product of fixed shape has numbers as dimensions, where others have letters. */
static struct type fixed_type(struct type t, int64_t rows, int64_t cols)
{
    t.dim[0] = rows;
    t.dim[1] = cols;
    return t;
}

/* The type with these letters as dimensions, such as "nchw". */
static struct type type_of(limber_format f, const char *letters)
{
    struct type t = { .format = f, .count = 1, .rank = (int)strlen(letters) };

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = -letters[i];
    return t;
}

/* Adds an operand's node, with the attributes that the key has of its mask. */
static int add_arg(struct plan *p, const struct kernel_key *key, const char *name, int index,
                   int side, struct type t)
{
    int at = limber_plan_add(p, OP_arg, name, -1, -1, t);

    if (at < 0)
        return at;
    limber_node_set(&p->node[at], ATTR_index, index);
    for (int i = 0; side >= 0 && i < MASK_ATTRS; i++)
        if (key->has[side] >> i & 1)
            limber_node_set(&p->node[at], (enum attr)(MASK_FIRST + i), key->mask[side][i]);
    return at;
}

/* Adds the product's node and its operands. */
static int add_gemm(struct plan *p, const struct kernel_key *key, const struct fixed *fixed,
                    struct type exact)
{
    struct type ta = type_of(key->fa, "mk"), tb = type_of(key->fb, "kn");
    int a, b;

    if (fixed) {
        ta = fixed_type(ta, fixed->m, fixed->k);
        tb = fixed_type(tb, fixed->k, fixed->n);
    }
    a = add_arg(p, key, "a", 0, 0, ta);
    b = a < 0 ? -1 : add_arg(p, key, "b", 1, 1, tb);

    return b < 0 ? -1 : limber_plan_add(p, OP_gemm, "c", a, b, exact);
}

/* The letters of the dimensions of a convolution's image x, filters w or result y. */
static const char *letters_of(const struct kernel_key *key, char tensor)
{
    bool deep = key->geometry.deep;

    switch (tensor) {
    case 'x': return deep ? "nczhw" : "nchw";
    case 'w': return deep ? "odtrs" : "odrs";
    default: return deep ? "noypq" : "nopq";
    }
}

static const char *result_letters(const struct kernel_key *key)
{
    return key->conv ? letters_of(key, key->geometry.direction == DIRECTION_data   ? 'x' :
                                       key->geometry.direction == DIRECTION_filter ? 'w' :
                                                                                     'y') :
                       "mn";
}

/* Adds a convolution's node.  Its operand 0 is the image under the windows, the products' right
 * operand. */
static int add_conv(struct plan *p, const struct kernel_key *key, struct type exact)
{
    static const struct direction {
        const char *name[2], tensor[2];
    } directions[] = { [DIRECTION_forward] = { { "x", "w" }, { 'x', 'w' } },
                       [DIRECTION_data] = { { "dy", "w" }, { 'y', 'w' } },
                       [DIRECTION_filter] = { { "x", "dy" }, { 'x', 'y' } } };
    const struct direction *of = &directions[key->geometry.direction];
    int x = add_arg(p, key, of->name[0], 0, 1, type_of(key->fb, letters_of(key, of->tensor[0])));
    int w = x < 0 ? -1 :
                    add_arg(p, key, of->name[1], 1, 0,
                            type_of(key->fa, letters_of(key, of->tensor[1])));
    int y = w < 0 ? -1 : limber_plan_add(p, OP_conv, "c", x, w, exact);

    return y >= 0 && limber_conv_write(p, &p->node[y], &key->geometry) ? y : -1;
}

/* Makes the stated plan of a key. fixed: NULL, or the shape of a function. */
bool limber_plan_state(struct plan *p, const struct kernel_key *key, const struct fixed *fixed,
                       struct diag *d)
{
    const limber_format exact = { .kind = LIMBER_KIND_EXACT };
    const char *letters = result_letters(key);
    struct type result = type_of(key->fc, letters), product = type_of(exact, letters);
    int c, c0 = -1, out = -1;

    limber_plan_init(p);
    p->name = key->conv ? "conv" : "gemm";
    p->promise = (limber_promise)key->promise;
    p->bits = key->bits;
    p->slices = key->slices;
    p->split = (limber_split)key->split;
    p->kbits = key->kbits;
    p->size = key->size;
    p->roundings = key->roundings;
    p->first_pass = (struct first_pass){ key->first_pass_bits, key->decided, key->paired };
    p->budget = limber_stated_budget(p, key->fc);
    if (p->budget < 0)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "%d bits leave no room for the rounding of each of %d "
                           "parts",
                           key->bits, key->roundings + 1);
    p->wanted = *key->wanted ? limber_plan_string(p, key->wanted) : NULL;
    if (key->simulates) {
        limber_unit *u = limber_plan_alloc(p, sizeof *u);

        if (!u)
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan");
        if (!limber_unit_read(key->model, u, d))
            return false;
        p->model = u;
        p->counts = key->counts;
    }
    if (fixed) {
        result = fixed_type(result, fixed->m, fixed->n);
        product = fixed_type(product, fixed->m, fixed->n);
    }
    c = key->conv ? add_conv(p, key, product) : add_gemm(p, key, fixed, product);
    if (c >= 0 && key->beta)
        c0 = add_arg(p, key, "c0", 2, -1, result);
    if (c >= 0 && (c0 >= 0 || !key->beta))
        out = limber_plan_add(p, OP_epilogue, "d", c, c0, result);
    if (out < 0 || (*key->wanted && !p->wanted))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan");
    limber_node_set(&p->node[out], ATTR_alpha, key->alpha);
    limber_node_set(&p->node[out], ATTR_beta, key->beta);
    limber_node_set(&p->node[out], ATTR_wrap, key->wrap);
    if (limber_is_integral((limber_promise)key->promise))
        limber_node_set(&p->node[out], ATTR_integral, 1);
    p->ret = out;
    return limber_plan_verify(p, d);
}
