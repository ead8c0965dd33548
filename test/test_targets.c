/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels for narrower machines than this one, executed here: the same plans for AVX2, AVX-512
 * without VNNI and AVX-512 VNNI, against the interpreter's bits. */
#include "support.h"

#include "backends/backend.h"
#include "jit/scan.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;

static const struct { const char *needs, *text; } targets[] = {
    { "avx2", "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 l2=262144 "
      "group=2 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=8e10 rate.exact=1e8" },
    { "avx512", "target llvm isa=avx512 features=avx2,fma,avx512 vector=512 registers=32 l1=32768 "
      "l2=1048576 group=2 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 rate.i8=1.6e11 "
      "rate.exact=1e8" },
    { "avx512vnni", "target llvm isa=avx512vnni features=avx2,fma,avx512,avx512vnni vector=512 "
      "registers=32 l1=32768 l2=1048576 group=4 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 "
      "rate.i8=4e11 rate.exact=1e8" },
};

static const struct { const char *scheme, *format; enum data data; } works[] = {
    { "native", "f64", DATA_unit }, { "native", "f32", DATA_unit },
    { "ozaki1-f16", "f32", DATA_unit }, { "ozaki1-i8", "f64", DATA_bytes },
    { "ozaki1-i8", "f64", DATA_ints }, { "ozaki2", "f64", DATA_unit },
    { "ozaki2", "f128", DATA_spread },
};

static void run_here(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* alpha = 1, beta = 0, row-major m x k times k x n. */
struct work {
    int64_t m, n, k;
    limber_format f;
    char *a, *b;
    struct mask ma, mb;
};

static void state(struct plan *p, const struct work *w, const char *scheme)
{
    struct type t = { .format = w->f, .rank = 2, .dim = { -'m', -'k' }, .count = 1 };
    int a, b, c, d;

    limber_plan_init(p);
    p->name = "gemm";
    p->promise = strcmp(scheme, "native") ? LIMBER_CORRECT : LIMBER_NATIVE;
    p->kbits = 8;
    p->budget = p->promise == LIMBER_NATIVE ? 20 * limber_format_roundoff(w->f) : 0;
    p->wanted = scheme;
    a = limber_plan_add(p, OP_arg, "a", -1, -1, t);
    limber_node_set(&p->node[a], ATTR_index, 0);
    limber_mask_class(&w->ma, w->f, &p->node[a]);
    t.dim[0] = -'k';
    t.dim[1] = -'n';
    b = limber_plan_add(p, OP_arg, "b", -1, -1, t);
    limber_node_set(&p->node[b], ATTR_index, 1);
    limber_mask_class(&w->mb, w->f, &p->node[b]);
    t.dim[0] = -'m';
    t.format = (limber_format){ .kind = LIMBER_KIND_EXACT };
    c = limber_plan_add(p, OP_gemm, "c", a, b, t);
    t.format = w->f;
    d = limber_plan_add(p, OP_epilogue, "d", c, -1, t);
    limber_node_set(&p->node[d], ATTR_alpha, 0);
    limber_node_set(&p->node[d], ATTR_beta, 0);
    limber_node_set(&p->node[d], ATTR_wrap, 0);
    p->ret = d;
}

static void run(const struct backend *b, const struct target *t, const struct work *w,
                const char *scheme, char *c)
{
    const struct runner runner = { 1, run_here, NULL };
    struct call call = { .m = w->m, .n = w->n, .k = w->k, .a = { w->a, w->k, 1, NULL },
                         .b = { w->b, 1, w->n, NULL },
                         .c = { c, w->n, 1, w->n, 0 }, .mask_a = &w->ma, .mask_b = &w->mb,
                         .runner = &runner, .workspace_limit = 1 << 16 };
    struct kernel *kernel = NULL;
    struct blob blob = { 0 };
    struct diag d = { 0 };
    struct plan p;

    state(&p, w, scheme);
    if (!limber_passes_run(&p, t, NULL, (struct pass_watch){ 0 }, &d) ||
        !b->compile(&p, t, NULL, &blob, &d) || !b->load(blob.data, blob.size, &kernel, &d) ||
        !b->launch(kernel, &call, &d))
        fail_msg("%s: %s", scheme, d.text);
    b->unload(kernel);
    free(blob.data);
    limber_plan_clear(&p);
}

static void same_bits_everywhere(void **state_)
{
    struct target here, interp;
    struct diag d = { 0 };
    int ran = 0;

    (void)state_;
    assert_true(limber_backend_interp.probe(&interp, &d));
    if (!limber_backend_llvm.probe(&here, &d))
        skip();
    for (size_t i = 0; i < COUNT(works); i++) {
        struct rng r = { 600 + i };
        struct work w = { .m = 37, .n = 71, .k = 130, .f = named(works[i].format) };
        size_t size = (size_t)(w.m * w.n) * w.f.size;
        char *want = malloc(size), *got = malloc(size);

        w.a = malloc((size_t)(w.m * w.k) * w.f.size);
        w.b = malloc((size_t)(w.k * w.n) * w.f.size);
        fill(&r, works[i].data, w.f, w.a, (size_t)(w.m * w.k));
        fill(&r, works[i].data, w.f, w.b, (size_t)(w.k * w.n));
        assert_true(limber_scan(&w.ma, &(struct view){ w.a, w.k, 1, NULL }, w.f, w.m, w.k,
                                SCAN_full, true, NULL, &d));
        assert_true(limber_scan(&w.mb, &(struct view){ w.b, 1, w.n, NULL }, w.f, w.n, w.k,
                                SCAN_full, true, NULL, &d));
        run(&limber_backend_interp, &interp, &w, works[i].scheme, want);
        for (size_t t = 0; t < COUNT(targets); t++) {
            struct target target;

            if (!strstr(here.features, targets[t].needs))
                continue;
            assert_true(limber_target_parse(&target, targets[t].text, &d));
            memset(got, 0xaa, size);
            run(&limber_backend_llvm, &target, &w, works[i].scheme, got);
            if (memcmp(got, want, size))
                fail_msg("%s of %s on %s: other bits", works[i].scheme, works[i].format,
                         target.isa);
            ran++;
        }
        limber_mask_clear(&w.ma);
        limber_mask_clear(&w.mb);
        free(w.a);
        free(w.b);
        free(want);
        free(got);
    }
    print_message("%d kernels\n", ran);
    assert_true(ran > 0);
}
#else
static void same_bits_everywhere(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits_everywhere) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
