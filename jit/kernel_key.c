/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel key of a call, and the plan that follows from a key, as it is before the passes.
 * Equal keys have equal plans. */
#include "jit/engine.h"

#include <string.h>

/* Returns the size of a key without the fields at its end that are empty for this call. */
size_t limber_kernel_key_size(const struct kernel_key *key)
{
    return key->simulates                       ? sizeof *key :
           key->conv                            ? offsetof(struct kernel_key, model) :
           key->data[0].has || key->data[1].has ? offsetof(struct kernel_key, geometry) :
                                                  offsetof(struct kernel_key, data);
}

/* Writes the text of the simulated unit to the key, without the unit's seed, which is an argument
 * of the kernel. */
static bool copy_unit_to_key(struct kernel_key *key, const struct problem *p, struct diag *d)
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
    if (u.start_c) /* a sum of the unit starts from C, so beta does not add C */
        key->beta = 0;
    return ok || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the unit's text");
}

/* Makes the key of the kernel for a problem: formats, contract, and the class of its data as
 * found by the scan f. */
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
    key->roundings = p->part.roundings;
    key->first_pass_bits = f->first_pass.bits;
    key->decided = f->first_pass.decided;
    key->paired = f->first_pass.paired;
    key->alpha = p->alpha != NULL;
    key->beta = p->beta != NULL;
    key->wrap = class.wrap;
    memcpy(key->wanted, class.wanted, sizeof key->wanted);
    memcpy(key->data, class.data, sizeof key->data);
    if (limber_simulates(&p->contract) && !copy_unit_to_key(key, p, d))
        return false;
    if (!p->shape)
        return true;
    key->conv = 1;
    key->geometry = p->conv.geometry;
    return true;
}

/* Returns type t with the dimensions rows and cols, as plans of functions for one shape have them.
 * Types of other plans have letters as dimensions. */
static struct type fixed_type(struct type t, int64_t rows, int64_t cols)
{
    t.dim[0] = rows;
    t.dim[1] = cols;
    return t;
}

/* Returns a tensor type with symbolic dimensions, such as "nchw".  A dimension is stored as the
 * negative of its letter's code. */
static struct type type_of(limber_format f, const char *letters)
{
    struct type t = { .format = f, .count = 1, .rank = (int)strlen(letters) };

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = -letters[i];
    return t;
}

/* Adds the node of an operand, with what the key says of its elements (exponents, bits, signs)
 * as attributes. side: 0 for A, 1 for B, -1 for an operand of which nothing is said.  Returns
 * the node's index, negative if memory runs out. */
static int add_arg(struct plan *p, const struct kernel_key *key, const char *name, int index,
                   int side, struct type t)
{
    int at = limber_plan_add(p, OP_arg, name, -1, -1, t);

    if (at < 0)
        return at;
    limber_node_set(&p->node[at], ATTR_index, index);
    if (side >= 0)
        limber_class_write(&key->data[side], &p->node[at]);
    return at;
}

/* Adds the nodes of a gemm and its operands.  Returns the index of the gemm's node, negative if
 * memory runs out. */
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

/* Returns the letters of the dimensions of a convolution's image x, filters w or result y. */
static const char *letters_of(const struct kernel_key *key, char tensor)
{
    bool deep = key->geometry.deep;

    switch (tensor) {
    case 'x': return deep ? "nczhw" : "nchw";
    case 'w': return deep ? "odtrs" : "odrs";
    default: return deep ? "noypq" : "nopq";
    }
}

/* Returns the letters of the result's dimensions. */
static const char *result_letters(const struct kernel_key *key)
{
    return key->conv ? letters_of(key, key->geometry.direction == DIRECTION_data   ? 'x' :
                                       key->geometry.direction == DIRECTION_filter ? 'w' :
                                                                                     'y') :
                       "mn";
}

/* Adds the nodes of a convolution and its operands.  Operand 0 of the node is the tensor over which
 * the windows move; it is the right operand of the products.  Returns the index of the
 * convolution's node, negative if memory runs out. */
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

/* Makes the plan (as it is before the passes) of a key. fixed: the shape, for a function of one
 * shape; else NULL.  Fails if memory runs out, or if the contract leaves no error for the
 * roundings. */
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
    if (limber_requires_integers((limber_promise)key->promise))
        limber_node_set(&p->node[out], ATTR_integral, 1);
    p->ret = out;
    return limber_plan_verify(p, d);
}
