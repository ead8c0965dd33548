/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels for other machines.  Those that this CPU can run are compared with the interpreter's
 * bits; AMX is emulated if the CPU lacks it.  The assembly of all must have the target's
 * instructions, and no others that are listed. */
#include "support.h"

#include "amx_emulator.h"
#include "compiler.h"
#include "plans.h"
#include "targets.h"

#include "backends/backend.h"
#include "ir/cpu.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_llvm;

/* The products that are computed for each target. */
static const struct {
    const char *scheme, *format, *result;
    enum data data;
} works[] = {
    { "native", "f64", "f64", DATA_unit },
    { "native", "f32", "f32", DATA_unit },
    { "ozaki1-f16", "f32", "f32", DATA_unit },
    { "ozaki1-i8", "f64", "f64", DATA_bytes },
    { "ozaki1-i8", "f64", "f64", DATA_ints },
    { "ozaki2", "f64", "f64", DATA_unit },
    { "ozaki2", "f128", "f128", DATA_spread },
    { "integer", "i8", "i32", DATA_bytes },
    { "integer", "u8", "i32", DATA_unit },
    { "integer", "i32", "i64", DATA_ints },
    /* results in 8 and 16 bits are rounded: subnormal numbers, midpoints, overflow */
    { "native", "bf16", "bf16", DATA_unit },
    { "native", "f16", "f16", DATA_tiny },
    { "native", "f16", "e4m3", DATA_range },
    { "native", "f32", "e5m2", DATA_spread },
    { "native", "e4m3", "e2m1", DATA_unit },
    { "wider", "f32", "bf16", DATA_unit },
    { "wider", "f16", "f16", DATA_tiny },
    { "ozaki1-i8", "e4m3", "f16", DATA_ties },
    { "ozaki1-i8", "bf16", "bf16", DATA_unit },
    { "ozaki1-i8", "f16", "e4m3", DATA_tiny },
    { "ozaki2", "f32", "f16", DATA_spread },
    { "ozaki2", "bf16", "bf16", DATA_ties },
    { "ozaki2", "f16", "e3m2", DATA_tiny },
};

/* A product of row-major matrices, with alpha = 1 and beta = 0. */
struct work {
    int64_t m, n, k;
    limber_format f, result;
    char *a, *b;
    struct mask ma, mb;
    const limber_unit *model;   /* NULL: no unit is simulated */
    size_t workspace; /* bytes; 0: so few that C is computed piece by piece */
};

/* Makes the plan of a product.  The promise follows from the scheme; with w->model, it is that
 * of a simulated unit. */
static void make_plan(struct plan *p, const struct work *w, const char *scheme)
{
    struct type t = { .format = w->f, .rank = 2, .dim = { -'m', -'k' }, .count = 1 };
    struct data_class class;
    int a, b, c, d;

    limber_plan_init(p);
    p->name = "gemm";
    p->model = w->model;
    p->promise = w->model                   ? LIMBER_CONTRACT_SIMULATE :
                 !strcmp(scheme, "native")  ? LIMBER_CONTRACT_NATIVE :
                 !strcmp(scheme, "integer") ? LIMBER_CONTRACT_EXACT :
                                              LIMBER_CONTRACT_CORRECT;
    p->kbits = 8;
    p->budget = p->promise == LIMBER_CONTRACT_NATIVE ? 20 * limber_format_roundoff(w->f) : 0;
    p->wanted = scheme;
    if (w->model)
        p->budget = INFINITY;
    a = limber_plan_add(p, OP_arg, "a", -1, -1, t);
    limber_node_set(&p->node[a], ATTR_index, 0);
    limber_mask_class(&w->ma, w->f, 0, &class);
    limber_class_write(&class, &p->node[a]);
    t.dim[0] = -'k';
    t.dim[1] = -'n';
    b = limber_plan_add(p, OP_arg, "b", -1, -1, t);
    limber_node_set(&p->node[b], ATTR_index, 1);
    limber_mask_class(&w->mb, w->f, 0, &class);
    limber_class_write(&class, &p->node[b]);
    t.dim[0] = -'m';
    t.format = (limber_format){ .kind = LIMBER_KIND_EXACT };
    c = limber_plan_add(p, OP_gemm, "c", a, b, t);
    t.format = w->result;
    d = limber_plan_add(p, OP_epilogue, "d", c, -1, t);
    limber_node_set(&p->node[d], ATTR_alpha, 0);
    limber_node_set(&p->node[d], ATTR_beta, 0);
    limber_node_set(&p->node[d], ATTR_wrap, 0);
    if (p->promise == LIMBER_CONTRACT_EXACT)
        limber_node_set(&p->node[d], ATTR_integral, 1);
    p->ret = d;
}

/* Plans, compiles and computes a product for a target. */
static void run_plan(const struct backend *b, const struct target *t, const struct work *w,
                     const char *scheme, char *c)
{
    struct call call = { .m = w->m,
                         .n = w->n,
                         .k = w->k,
                         .a = { w->a, w->k, 1, NULL },
                         .b = { w->b, 1, w->n, NULL },
                         .c = { c, w->n, 1, w->n, 0 },
                         .mask_a = &w->ma,
                         .mask_b = &w->mb,
                         .runner = &plan_runner,
                         .workspace_limit = w->workspace ? w->workspace : 1 << 16 };
    struct diag d = { 0 };
    struct plan p;

    make_plan(&p, w, scheme);
    if (!limber_passes_run(&p, t, NULL, (struct pass_watch){ 0 }, &d) ||
        !plan_launch(b, &p, t, &call, &d))
        fail_msg("%s: %s", scheme, d.text);
    limber_plan_clear(&p);
}

/* Each scheme and format gives the interpreter's bits with compiled and with prebuilt kernels,
 * on all machines of the list whose instructions this CPU has. */
static void same_bits_everywhere(void **state_)
{
    const struct backend *const backends[] = { prebuilt_kernels(),
                                               compiler_here() ? &limber_backend_llvm : NULL };
    struct target here, interp;
    struct diag d = { 0 };
    int ran = 0;

    (void)state_;
    assert_true(limber_backend_interp.probe(&interp, &d));
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(works); i++) {
        struct rng r = { 600 + i };
        struct work w = { .m = 37,
                          .n = 71,
                          .k = 130,
                          .f = named(works[i].format),
                          .result = named(works[i].result) };
        size_t size = (size_t)(w.m * w.n) * w.result.size;
        char *want = malloc(size), *got = malloc(size);

        w.a = malloc((size_t)(w.m * w.k) * w.f.size);
        w.b = malloc((size_t)(w.k * w.n) * w.f.size);
        fill(&r, works[i].data, w.f, w.a, (size_t)(w.m * w.k));
        fill(&r, works[i].data, w.f, w.b, (size_t)(w.k * w.n));
        assert_true(limber_scan(&w.ma, &(struct view){ w.a, w.k, 1, NULL }, w.f, w.m, w.k,
                                SCAN_full, NULL, &d));
        assert_true(limber_scan(&w.mb, &(struct view){ w.b, 1, w.n, NULL }, w.f, w.n, w.k,
                                SCAN_full, NULL, &d));
        run_plan(&limber_backend_interp, &interp, &w, works[i].scheme, want);
        for (size_t t = 0; t < COUNT(targets); t++) {
            struct target target;

            if (!strstr(here.features, targets[t].needs) || (BRIEF && (i + t) % 3) ||
                (targets[t].emulated && !amx_emulate()))
                continue;
            assert_true(limber_target_parse(&target, targets[t].text, &d));
            for (size_t b = 0; b < COUNT(backends); b++) {
                if (!backends[b] || (backends[b] == &limber_backend_llvm && !is_taken(i + t, 3)))
                    continue;
                memset(got, 0xaa, size);
                limber_cpu_emulated = targets[t].emulated;
                run_plan(backends[b], &target, &w, works[i].scheme, got);
                limber_cpu_emulated = 0;
                if (memcmp(got, want, size))
                    fail_msg("%s of %s on %s, %s: other bits", works[i].scheme, works[i].format,
                             target.isa, backends[b]->name);
                ran++;
            }
        }
        limber_mask_clear(&w.ma);
        limber_mask_clear(&w.mb);
        free(w.a);
        free(w.b);
        free(want);
        free(got);
    }
    print_message("%d kernels, %ld emulated instructions\n", ran, amx_emulated());
    assert_true(ran > 0);
    if (strstr(here.features, "avx512vnni") && !strstr(here.features, "amxint8"))
        assert_true(amx_emulated() > 0);
}

/* Simulated units have the interpreter's bits on every machine of the list whose instructions
 * this CPU has, and are compiled for the others.  FP32 lanes can simulate some of the units only
 * with AVX-512, some with any instruction set. */
static void units_are_simulated_everywhere(void **state_)
{
    static const char *const units[] = {
        "in=f16 mul=f16 acc=f16",
        "in=f16 mul=f16 acc=f16 group=9 outer=f16 order=evenodd",
        "in=e5m2 mul=e5m2 acc=e5m2 split=2",
        "in=e5m2 mul=e5m2 acc=e5m2",
        "in=e4m3 mul=e4m3 acc=e4m3:sat group=16",
        "in=f16 mul=f16:rz acc=f16:ra",
        "in=bf16 mul=bf16:ru acc=bf16:rd",
        "in=f16 acc=f16",
        "in=f16 mul=f16:ro acc=(1,8,20) group=8 outer=f32:rz",
        "in=e5m2 mul=e5m2:rs acc=(1,6,9):rs seed=3",
        "a100-bf16",
        "h100-e4m3 group=64 outer=f32",
        "h100-fp16-acc16",
        "b200-mxe4m3",
        "b200-nvfp4",
        "in=(1,4,3) mul=(1,4,3) acc=(1,4,3)",
        "in=e5m2 mul=e5m2 acc=f16 block=8 tree=yes",
        "in=f32 mul=f32 acc=f32 group=16",
    };
    struct target here, interp;
    struct diag d = { 0 };
    int ran = 0, compiled = 0, fp16 = 0;
    long emulated = amx_emulated();

    (void)state_;
    need_compiler();
    assert_true(limber_backend_interp.probe(&interp, &d));
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(units); i++) {
        struct rng r = { 90 + i };
        struct work w = { .m = 9, .n = 45, .k = 70, .f = named("f32"), .result = named("f32") };
        size_t size = (size_t)(w.m * w.n) * 4;
        char *want = malloc(size), *got = malloc(size);
        limber_unit u = LIMBER_UNIT_INIT;

        assert_int_equal(limber_unit_parse(units[i], &u), LIMBER_STATUS_OK);
        u.seed = 0;
        w.model = &u;
        w.a = malloc((size_t)(w.m * w.k) * 4);
        w.b = malloc((size_t)(w.k * w.n) * 4);
        fill(&r, i % 2 ? DATA_spread : DATA_unit, w.f, w.a, (size_t)(w.m * w.k));
        fill(&r, i % 2 ? DATA_special : DATA_unit, w.f, w.b, (size_t)(w.k * w.n));
        run_plan(&limber_backend_interp, &interp, &w, NULL, want);
        for (size_t t = 0; t < COUNT(targets); t++) {
            struct target target;
            struct blob blob = { 0 };
            struct plan p;

            /* tests one unit in six; all units if the target has binary16 lanes, but not in a brief
             * run (BRIEF) */
            if (!is_taken(i + i / 4 + t, 6) && (BRIEF || targets[t].emulated != CPU_fp16))
                continue;
            assert_true(limber_target_parse(&target, targets[t].text, &d));
            if (strstr(here.features, targets[t].needs) &&
                (!targets[t].emulated || (targets[t].emulated == CPU_fp16 && amx_emulate()))) {
                memset(got, 0xaa, size);
                limber_cpu_emulated = targets[t].emulated;
                run_plan(&limber_backend_llvm, &target, &w, NULL, got);
                limber_cpu_emulated = 0;
                for (int64_t e = 0; e < w.m * w.n; e++) {
                    float x, y;

                    memcpy(&x, want + 4 * e, 4);
                    memcpy(&y, got + 4 * e, 4);
                    if (memcmp(&x, &y, 4) && (x == x || y == y))
                        fail_msg("%s on %s, data %d: %a, not %a", units[i], target.isa,
                                 (int)(i % 2), y, x);
                }
                ran++;
                fp16 += targets[t].emulated == CPU_fp16;
                continue;
            }
            make_plan(&p, &w, NULL);
            if (limber_passes_run(&p, &target, NULL, (struct pass_watch){ 0 }, &d) &&
                limber_backend_llvm.compile(&p, &target, NULL, &blob, &d))
                compiled++;
            else if (d.status != LIMBER_STATUS_DEVICE)
                fail_msg("%s on %s: %s", units[i], target.isa, d.text);
            d.status = LIMBER_STATUS_OK;
            free(blob.data);
            limber_plan_clear(&p);
        }
        free(w.a);
        free(w.b);
        free(want);
        free(got);
    }
    print_message(
        "%d kernels ran, %d were compiled for other machines, %ld emulated instructions\n", ran,
        compiled, amx_emulated() - emulated);
    assert_true(ran > 0);
    /* A hypervisor can hide AVX512-FP16 of a CPU, which then executes what would be emulated. */
    if (strstr(here.features, "avx512vnni") && !strstr(here.features, "avx512fp16"))
        assert_true(fp16 > 0);
}

/* The assembly of a kernel. */
struct assembly {
    char *text;
    size_t size;
};

/* Callback of a dump: keeps the kernel's assembly. */
static void save_assembly(void *user, const char *name, const char *data, size_t size)
{
    struct assembly *a = user;

    if (strcmp(name, "kernel.s"))
        return;
    a->text = realloc(NULL, size + 1);
    assert_non_null(a->text);
    memcpy(a->text, data, size);
    a->text[size] = 0;
    a->size = size;
}

/* Compiles a plan for uniform data, and keeps its assembly. */
static bool assemble(const struct target *t, const char *scheme, const char *format,
                     struct assembly *a, struct blob *blob, struct diag *d)
{
    const struct dump dump = { save_assembly, a };
    struct work w = { .f = named(format), .result = named(format) };
    struct mask seen = { .scanned = true,
                         .negative = true,
                         .emin = -8,
                         .emax = 0,
                         .spread = 8,
                         .width = 60,
                         .sig = 53 };
    struct plan p;
    bool ok;

    w.ma = w.mb = seen;
    make_plan(&p, &w, scheme);
    ok = limber_passes_run(&p, t, NULL, (struct pass_watch){ 0 }, d) &&
         limber_backend_llvm.compile(&p, t, &dump, blob, d);
    limber_plan_clear(&p);
    return ok;
}

/* Checks that the assembly has a word, or lacks it. */
static void expect_word(const struct target *t, const struct assembly *a, const char *word,
                        bool there)
{
    if ((strstr(a->text, word) != NULL) != there)
        fail_msg("%s: the assembly %s \"%s\"", t->isa, there ? "lacks" : "has", word);
}

/* Simulated units of binary16 use binary16 instructions if the target has such instructions. */
static void binary16_instructions_are_used(void **state_)
{
    static const char *const units[] = { "in=f16 mul=f16 acc=f16",
                                         "in=(1,5,2) mul=(1,5,2) acc=(1,5,2)" };
    struct target here, t;
    struct diag d = { 0 };

    (void)state_;
    need_compiler();
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(targets); i++)
        if (targets[i].emulated & CPU_fp16)
            assert_true(limber_target_parse(&t, targets[i].text, &d));
    for (size_t i = 0; i < COUNT(units); i++) {
        struct assembly a = { 0 };
        struct blob blob = { 0 };
        struct work w = { .f = named("f32"), .result = named("f32") };
        limber_unit u = LIMBER_UNIT_INIT;
        struct plan p;

        assert_int_equal(limber_unit_parse(units[i], &u), LIMBER_STATUS_OK);
        w.model = &u;
        make_plan(&p, &w, NULL);
        assert_true(limber_passes_run(&p, &t, NULL, (struct pass_watch){ 0 }, &d));
        assert_true(
            limber_backend_llvm.compile(&p, &t, &(struct dump){ save_assembly, &a }, &blob, &d));
        expect_word(&t, &a, "vmulph", true);
        expect_word(&t, &a, "vaddph", true);
        free(a.text);
        free(blob.data);
        limber_plan_clear(&p);
    }
}

/* Compares x y and x + y for all numbers of (1,5,2) with the interpreter's results.  Targets with
 * binary16 lanes compute them in binary16. */
static void small_floats_are_exact_in_binary16(void **state_)
{
    enum { CODES = 256, ONE = 0x3c };
    struct target here, interp, t;
    struct diag d = { 0 };
    limber_unit u = LIMBER_UNIT_INIT;

    (void)state_;
    need_compiler();
    assert_true(limber_backend_interp.probe(&interp, &d));
    if (!limber_backend_llvm.probe(&here, &d) || !strstr(here.features, "avx512vnni") ||
        !amx_emulate())
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(targets); i++)
        if (targets[i].emulated & CPU_fp16)
            assert_true(limber_target_parse(&t, targets[i].text, &d));
    assert_int_equal(limber_unit_parse("in=e5m2 mul=e5m2 acc=e5m2", &u), LIMBER_STATUS_OK);
    for (int k = 1; k <= 2; k++) {
        struct work w = {
            .m = CODES, .n = CODES, .k = k, .f = named("e5m2"), .result = named("f32"), .model = &u
        };
        size_t size = CODES * CODES * sizeof(float);
        float *want = malloc(size), *got = malloc(size);

        w.a = malloc(CODES * 2);
        w.b = malloc(CODES * 2);
        for (int code = 0; code < CODES; code++) {
            w.a[k * code] = w.b[(k - 1) * CODES + code] = (char)code;
            if (k == 2)
                w.a[2 * code + 1] = w.b[code] = ONE;
        }
        run_plan(&limber_backend_interp, &interp, &w, NULL, (char *)want);
        limber_cpu_emulated = CPU_fp16;
        run_plan(&limber_backend_llvm, &t, &w, NULL, (char *)got);
        limber_cpu_emulated = 0;
        for (int e = 0; e < CODES * CODES; e++)
            if (memcmp(&want[e], &got[e], 4) && (want[e] == want[e] || got[e] == got[e]))
                fail_msg("codes %d and %d, k = %d: %a, not %a", e / CODES, e % CODES, k, got[e],
                         want[e]);
        free(w.a);
        free(w.b);
        free(want);
        free(got);
    }
}

/* All register tiles that a search may choose give the same bits.  With 3, 5, 6 or 7 rows per
 * panel, panels do not fill a strip of 16 lanes, and with these m the last strip ends far after
 * the last row. */
static void tiles_do_not_change_bits(void **state_)
{
    static const struct {
        int mr, m;
    } tiles[] = { { 1, 45 }, { 3, 48 },  { 4, 45 },  { 5, 80 }, { 6, 30 },
                  { 7, 63 }, { 10, 45 }, { 13, 45 }, { 16, 45 } };
    static const struct {
        const char *format, *scheme;
        int k;
        size_t workspace;
    } inputs[] = { { "f64", "native", 300, 0 },
                   { "f64", "ozaki2", 300, 0 },
                   { "i64", "ozaki1-i8", 5, 1 << 24 } };
    enum { MOST = 80, N = 77, K = 300 };
    struct target here, interp;
    struct diag d = { 0 };
    struct rng r = { 4711 };
    uint64_t *a, *b;
    char *want, *got;

    (void)state_;
    need_compiler();
    a = malloc(MOST * K * 8);
    b = malloc(K * N * 8);
    want = malloc(MOST * N * 8);
    got = malloc(MOST * N * 8);
    assert_true(limber_backend_interp.probe(&interp, &d));
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(inputs) * COUNT(tiles); i++) {
        const char *scheme = inputs[i % COUNT(inputs)].scheme;
        bool native = !strcmp(scheme, "native");
        struct work w = { .m = tiles[i / COUNT(inputs)].m,
                          .n = N,
                          .k = inputs[i % COUNT(inputs)].k,
                          .f = named(inputs[i % COUNT(inputs)].format),
                          .result = named("f64"),
                          .a = (char *)a,
                          .b = (char *)b,
                          .workspace = inputs[i % COUNT(inputs)].workspace };
        int mr = tiles[i / COUNT(inputs)].mr, nr = here.vector_bits / (native ? 32 : 16);
        struct target t = here;
        size_t size = (size_t)(w.m * w.n) * 8;

        nr = nr < 16 ? 16 : nr;
        t.matrix = 0;
        memcpy(t.tile[native ? UNIT_f64 : UNIT_i8],
               (int[]){ mr, mr * (1 + mr % 5), nr * (1 + mr % 3) }, sizeof t.tile[0]);
        if (w.f.kind == LIMBER_KIND_INT) {
            for (int64_t e = 0; e < w.m * w.k; e++)
                a[e] = rng_next(&r);
            for (int64_t e = 0; e < w.k * w.n; e++)
                b[e] = rng_next(&r);
        } else {
            fill(&r, DATA_unit, w.f, w.a, (size_t)(w.m * w.k));
            fill(&r, DATA_unit, w.f, w.b, (size_t)(w.k * w.n));
        }
        assert_true(limber_scan(&w.ma, &(struct view){ w.a, w.k, 1, NULL }, w.f, w.m, w.k,
                                SCAN_full, NULL, &d));
        assert_true(limber_scan(&w.mb, &(struct view){ w.b, 1, w.n, NULL }, w.f, w.n, w.k,
                                SCAN_full, NULL, &d));
        memset(got, 0xaa, size);
        run_plan(&limber_backend_interp, &interp, &w, scheme, want);
        run_plan(&limber_backend_llvm, &t, &w, scheme, got);
        if (memcmp(got, want, size))
            fail_msg("%s with tiles of %d rows: other bits", scheme, mr);
        limber_mask_clear(&w.ma);
        limber_mask_clear(&w.mb);
    }
    free(a);
    free(b);
    free(want);
    free(got);
}

/* Register tiles that no kernel supports, in a target's description, are refused by name. */
static void illegal_tiles_are_refused(void **state_)
{
    static const int bad[][3] = { { 17, 17, 64 }, { 4, 6, 64 }, { 4, 8, 63 } };
    struct work w = { .f = named("f64"), .result = named("f64") };
    struct diag d = { 0 };
    struct target here;

    (void)state_;
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct target t = here;
        struct plan p;

        memcpy(t.tile[UNIT_f64], bad[i], sizeof bad[i]);
        make_plan(&p, &w, "native");
        assert_false(limber_passes_run(&p, &t, NULL, (struct pass_watch){ 0 }, &d));
        assert_non_null(strstr(d.text, "tile.f64"));
        limber_plan_clear(&p);
        d = (struct diag){ 0 };
    }
}

/* The assembly for each target has the instruction that its unit needs and none that the CPU lacks;
 * code for other CPUs is not loaded. */
static void assembly_has_its_instructions(void **state_)
{
    struct target here;
    struct diag d = { 0 };

    (void)state_;
    need_compiler();
    if (!limber_backend_llvm.probe(&here, &d))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct kernel *kernel = NULL;
        struct target t;

        assert_true(limber_target_parse(&t, targets[i].text, &d));
        for (int exact = 0; exact < 2; exact++) {
            struct assembly a = { 0 };
            struct blob blob = { 0 };

            if (!assemble(&t, exact ? "ozaki2" : "native", "f64", &a, &blob, &d)) {
                if (is_foreign(&t) && d.status == LIMBER_STATUS_DEVICE) {
                    print_message("%s: %s\n", t.isa, d.text);
                    d = (struct diag){ 0 };
                    break;
                }
                fail_msg("%s: %s", t.isa, d.text);
            }
            expect_word(&t, &a, exact ? targets[i].i8 : targets[i].f64, true);
            expect_word(&t, &a, targets[i].never, false);
            if (is_foreign(&t)) {
                assert_false(limber_backend_llvm.load(blob.data, blob.size, &kernel, &d));
                assert_int_equal(d.status, LIMBER_STATUS_DEVICE);
                d = (struct diag){ 0 };
                /* now the head of the entry claims, wrongly, that the code needs no CPU features */
                memset(blob.data + 4, 0, 4);
                assert_false(limber_backend_llvm.load(blob.data, blob.size, &kernel, &d));
                assert_int_equal(d.status, LIMBER_STATUS_IO);
                assert_non_null(strstr(d.text, "object file"));
                d = (struct diag){ 0 };
            }
            free(a.text);
            free(blob.data);
        }
    }
}

/* Code with instructions that this CPU lacks is not run, even if the cache has it. */
static void foreign_kernels_are_refused(void **state_)
{
    struct target here, t;
    struct diag d = { 0 };
    struct kernel *kernel = NULL;
    struct assembly a = { 0 };
    struct blob blob = { 0 };

    (void)state_;
    need_compiler();
    if (!limber_backend_llvm.probe(&here, &d) || (limber_cpu() & CPU_amx))
        skip_because("no compiler for this CPU");
    for (size_t i = 0; i < COUNT(targets); i++)
        if (targets[i].emulated & CPU_amx)
            assert_true(limber_target_parse(&t, targets[i].text, &d));
    assert_true(assemble(&t, "ozaki2", "f64", &a, &blob, &d));
    assert_false(limber_backend_llvm.load(blob.data, blob.size, &kernel, &d));
    assert_int_equal(d.status, LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(d.text, "amxint8"));
    free(a.text);
    free(blob.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_everywhere),
        cmocka_unit_test(units_are_simulated_everywhere),
        cmocka_unit_test(binary16_instructions_are_used),
        cmocka_unit_test(small_floats_are_exact_in_binary16),
        cmocka_unit_test(tiles_do_not_change_bits),
        cmocka_unit_test(illegal_tiles_are_refused),
        cmocka_unit_test(assembly_has_its_instructions),
        cmocka_unit_test(foreign_kernels_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
