/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpus.h"
#include "plans.h"

#include "jit/scan/scan.h"
#include "passes/contract.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_cuda;

/* Returns a type with one dimension for each of `letters`, and symbolic sizes. */
static struct type type_of(limber_format f, const char *letters)
{
    struct type t = { .format = f, .rank = (int)strlen(letters), .count = 1 };

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = -letters[i];
    return t;
}

/* Adds a node for an operand, with what a scan found of it (exponents, bits, signs) as
 * attributes.  Returns the node. */
static int add_operand(struct plan *p, const char *name, int index, const struct mask *mask,
                       struct type t)
{
    int n = limber_plan_add(p, OP_arg, name, -1, -1, t);
    struct data_class class;

    limber_node_set(&p->node[n], ATTR_index, index);
    limber_mask_class(mask, t.format, 0, &class);
    limber_class_write(&class, &p->node[n]);
    return n;
}

/* Initialises a plan's head and its error budget. */
static void start_plan(struct plan *p, const char *name, const struct planned *x)
{
    limber_plan_init(p);
    p->name = name;
    p->promise = x->promise;
    p->kbits = x->kbits;
    p->wanted = x->scheme;
    p->budget = limber_stated_budget(p, x->result);
}

/* Adds the node of the epilogue: alpha x + beta C0, rounded once to the result's format, where x is
 * the node `product`.  Without scalars it only rounds. */
static void finish(struct plan *p, int product, const struct planned *x)
{
    struct type t = p->node[product].type;
    int c0 = -1, d;

    t.format = x->result;
    if (x->scalars) {
        c0 = limber_plan_add(p, OP_arg, "c0", -1, -1, t);
        limber_node_set(&p->node[c0], ATTR_index, 2);
    }
    d = limber_plan_add(p, OP_epilogue, "d", product, c0, t);
    limber_node_set(&p->node[d], ATTR_alpha, x->scalars);
    limber_node_set(&p->node[d], ATTR_beta, x->scalars);
    limber_node_set(&p->node[d], ATTR_wrap, 0);
    if (x->promise == LIMBER_CONTRACT_EXACT)
        limber_node_set(&p->node[d], ATTR_integral, 1);
    p->ret = d;
}

static const limber_format exact_product = { .kind = LIMBER_KIND_EXACT };

void build_plan(struct plan *p, const struct planned *x)
{
    int a, b;

    start_plan(p, "gemm", x);
    a = add_operand(p, "a", 0, x->a, type_of(x->f, "mk"));
    b = add_operand(p, "b", 1, x->b, type_of(x->f, "kn"));
    finish(p, limber_plan_add(p, OP_gemm, "c", a, b, type_of(exact_product, "mn")), x);
}

/* Adds the tensors x, w and y of a forward convolution; a gradient reads y in place of x or w. */
void plan_state_conv(struct plan *p, const struct conv_geometry *g, const struct planned *x)
{
    static const char *const of[][3] = { { "nchw", "odrs", "nopq" },
                                         { "nczhw", "odtrs", "noypq" } };
    static const int tensors[][3] = { [DIRECTION_forward] = { 0, 1, 2 },
                                      [DIRECTION_data] = { 2, 1, 0 },
                                      [DIRECTION_filter] = { 0, 2, 1 } };
    const char *letters[3];
    int seen, other, c;

    for (int i = 0; i < 3; i++)
        letters[i] = of[g->deep != 0][tensors[g->direction][i]];
    start_plan(p, "conv", x);
    seen = add_operand(p, "x", 0, x->b, type_of(x->f, letters[0]));
    other = add_operand(p, "w", 1, x->a, type_of(x->f, letters[1]));
    c = limber_plan_add(p, OP_conv, "c", seen, other, type_of(exact_product, letters[2]));
    assert_true(limber_conv_write(p, &p->node[c], g));
    finish(p, c, x);
}

char *print_plan(const struct plan *p)
{
    struct text out = { 0 };

    limber_plan_print(p, &out);
    assert_false(out.failed);
    return out.s;
}

/* Compiles, loads and launches a plan's kernel on the call.  On failure returns false with a
 * message in d. */
bool plan_launch(const struct backend *b, const struct plan *p, const struct target *t,
                 struct call *c, struct diag *d)
{
    struct kernel *kernel = NULL;
    struct blob blob = { 0 };
    bool ok = b->compile(p, t, NULL, &blob, d) && b->load(blob.data, blob.size, &kernel, d) &&
              b->launch(kernel, c, d);

    if (kernel)
        b->unload(kernel);
    free(blob.data);
    return ok;
}

static void run_in_caller(void *self, int64_t tasks,
                          void (*fn)(void *arg, int64_t task, int worker), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

const struct runner plan_runner = { 1, run_in_caller, NULL };

/* Describes a convolution for a hand-made plan: fills in the sizes of the result, and the index
 * maps of filters, patches and image. */
void place_conv(struct placed *p, const struct conv_geometry *g, const struct conv_sizes *s)
{
    static const enum op ops[] = { OP_filters, OP_patches, OP_image };
    struct conv_sizes *z = &p->conv.sizes;

    p->conv = (struct conv){ *g, *s };
    p->conv.geometry.order = ORDER_crs;
    if (!g->deep)
        z->d = z->t = 1;
    z->od = !g->deep ?
                1 :
                (s->d + g->pad[4] + g->pad[5] - g->dilate[2] * (s->t - 1) - 1) / g->stride[2] + 1;
    z->oh = (s->h + g->pad[0] + g->pad[1] - g->dilate[0] * (s->r - 1) - 1) / g->stride[0] + 1;
    z->ow = (s->w + g->pad[2] + g->pad[3] - g->dilate[1] * (s->s - 1) - 1) / g->stride[1] + 1;
    for (int i = 0; i < 3; i++)
        limber_conv_map(&p->map[i], ops[i], &p->conv, 0);
}

/* Returns the address of a group's first element in a tensor.  which: index of the tensor's map in
 * p. */
static char *of_group(const struct placed *p, int which, int64_t group, struct tensor t)
{
    return (char *)t.data + group * p->map[which].group * t.f.size;
}

/* Returns the product of one group of a convolution. */
struct call place_group(const struct placed *p, int64_t group, struct tensor filters,
                        struct tensor image, struct tensor result)
{
    int64_t m, n, k;

    limber_conv_product(&p->conv, &m, &n, &k);
    return (struct call){
        .m = m,
        .n = n,
        .k = k,
        .conv = &p->conv,
        .a = limber_map_view(&p->map[0], of_group(p, 0, group, filters)),
        .b = limber_map_view(&p->map[1], of_group(p, 1, group, image)),
        .c = limber_map_output(&p->map[2], of_group(p, 2, group, result)),
        .workspace_limit = 1 << 22,
    };
}

/* ---- a plan on two backends ------------------------------------------------------------------ */

/* An operand, with what a scan finds of it. */
struct operand {
    char *data;
    limber_format f;
    int64_t lines, k;
    struct mask mask;
};

/* Makes an operand of random data and scans it. */
static void make_operand(struct operand *o, limber_format f, enum data data, int64_t lines,
                         int64_t k, struct rng *r)
{
    struct diag d = { 0 };

    *o = (struct operand){ malloc((size_t)(lines * k) * f.size), f, lines, k, { 0 } };
    fill(r, data, o->f, o->data, (size_t)(lines * k));
    assert_true(limber_scan(&o->mask, &(struct view){ o->data, k, 1, NULL }, o->f, lines, k,
                            SCAN_full, NULL, &d));
}

/* Computes c = x y by the plan.  On failure returns false with a message in d. */
static bool run_plan(const struct backend *b, const struct plan *p, const struct target *t,
                     struct operand *x, struct operand *y, char *c, struct diag *d)
{
    struct call call = { .m = x->lines,
                         .n = y->lines,
                         .k = x->k,
                         .a = { x->data, x->k, 1, NULL },
                         .b = { y->data, y->k, 1, NULL },
                         .c = { c, y->lines, 1, y->lines, 0 },
                         .mask_a = &x->mask,
                         .mask_b = &y->mask,
                         .workspace_limit = 1 << 22 };

    return plan_launch(b, p, t, &call, d);
}

/* Compares a plan's result on the GPU with the interpreter's.  chunk: number of products in a chain
 * of an exact scheme, which is planned for `correct`; 0 for a scheme whose sums round. */
static void compare_plans(const char *scheme, limber_format f, limber_format result, enum data data,
                          int64_t m, int64_t n, int64_t k, int64_t chunk, limber_promise promise)
{
    struct rng r = { 70 + (uint64_t)k };
    struct operand a, b;
    struct diag d = { 0 };
    struct target t = { .device = 0 };
    char *want = malloc((size_t)(m * n) * result.size),
         *got = malloc((size_t)(m * n) * result.size);
    struct plan p;

    assert_true(limber_backend_cuda.probe(&t, &d));
    make_operand(&a, f, data, m, k, &r);
    make_operand(&b, f, data, n, k, &r);
    build_plan(&p, &(struct planned){ promise, scheme, f, result, &a.mask, &b.mask, chunk ? 14 : 10,
                                      false });
    p.split = LIMBER_SPLIT_AHEAD; /* test_cuda_split.c tests limbs that the multiply kernel makes */
    if (!limber_passes_run(&p, &t, NULL, (struct pass_watch){ 0 }, &d)) {
        if (!gpu_lacks(d.text))
            fail_msg("%s", d.text);
    } else {
        if (chunk)
            limber_node_set(limber_plan_find(&p, OP_products), ATTR_chunk, chunk);
        else
            assert_true(limber_node_has(limber_plan_find(&p, OP_products), ATTR_sums));
        if (!limber_plan_verify(&p, &d))
            fail_msg("%s: %s", scheme, d.text);
        if (!run_plan(&limber_backend_interp, &p, &t, &a, &b, want, &d) ||
            !run_plan(&limber_backend_cuda, &p, &t, &a, &b, got, &d))
            fail_msg("%s: %s", scheme, d.text);
        for (int64_t i = 0; i < m * n; i++)
            if (!same_number(result, want + i * result.size, got + i * result.size))
                fail_msg("%s, %s, k = %d: element %d is %a, not %a", scheme, data_name(data),
                         (int)k, (int)i, limber_format_value(result, got + i * result.size),
                         limber_format_value(result, want + i * result.size));
    }
    limber_plan_clear(&p);
    limber_mask_clear(&a.mask);
    limber_mask_clear(&b.mask);
    free(a.data);
    free(b.data);
    free(want);
    free(got);
}

void plan_compare(const char *scheme, limber_format f, limber_format result, enum data data,
                  int64_t m, int64_t n, int64_t k)
{
    compare_plans(scheme, f, result, data, m, n, k, 0, LIMBER_CONTRACT_FAST);
}

void plan_compare_native(const char *scheme, enum data data, int64_t m, int64_t n, int64_t k)
{
    assert_true(k > 256 && k <= 1024);
    compare_plans(scheme, LIMBER_F32, LIMBER_F32, data, m, n, k, 0, LIMBER_CONTRACT_NATIVE);
}

void plan_compare_chains(const char *scheme, limber_format f, limber_format result, enum data data,
                         int64_t m, int64_t n, int64_t k, int64_t chunk)
{
    compare_plans(scheme, f, result, data, m, n, k, chunk, LIMBER_CONTRACT_CORRECT);
}
