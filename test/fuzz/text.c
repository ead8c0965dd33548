/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzzes parsers: plans (with all passes), units, LPGEMM's configurations, targets, signatures,
 * epilogue steps.  The first byte of an input chooses the parser. */
#include "fuzz.h"

#include "../support/calls.h"
#include "ir/steps.h"
#include "jit/api/api.h"
#include "limber/research.h"

#include <stdlib.h>
#include <string.h>

static const char *const seeds[] = {
    "PC = A B", /* fuzz_seed() replaces this text by a plan that the library makes */
    "Uin=e5m2 mul=e5m2:rz acc=(1,8,7):rs group=16 outer=f32 seed=7",
    "Uin=f16 acc=f32:rz:inf block=8 frac=24 sub=4 order=quads group=32 split=2 total=f32 out=f16",
    "Uin=e4m3:sat scale=e8m0:32:even acc=f32 block=4 tree=yes",
    "Uin=e4m3 acc=(1,8,13):rz:inf block=16 frac=13 tile=64 split=5 deal=turns merge=pairs "
    "total=f32 epilogue=f32:ftz",
    "LgroupedCumulativeLength = 16\ntargetFloatType = (1,5,2)\nroundingType = "
    "\"nearest\"\nquantLayer = [conv1,FC1]\n[conv1]\ntargetFloatType = (1,4,3)\n",
    "T",
    "Sint(transa:*char transb:*char m:*i32 n:*i32 k:*i32 alpha:*f64 a:ptr lda:*i32 b:ptr ldb:*i32 "
    "beta:*f64 c:ptr ldc:*i32)",
    "Scblas_dgemm",
    "E%1 = add %x %bias\n%2 = gelu %1 ; a comment\n\n%3 = clamp %2 p=-1 q=0x1p3\n"
    "%4 = mul %3 %_1\n%5 = max %4 -1e-3\n%6 = leaky_relu %5 p=0.5",
    "Sm:i64 n:i64 k:i64 _:i32 a:ptr b:ptr c:ptr lda:i64 ldb:i64 ldc:i64",
};
enum { SEEDS = sizeof seeds / sizeof *seeds };

/* Returns a context of the interpreter, which is replaced by a new one after 500 uses. */
static limber_context *shared_context(void)
{
    static limber_context *ctx;
    static int uses;
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "interp",
                                   .threads = 1,
                                   .cache_dir = "",
                                   .dump_dir = "" };

    /* renews the context, since bound functions are freed with their context only */
    if (ctx && ++uses % 500 == 0) {
        limber_destroy(ctx);
        ctx = NULL;
    }
    if (!ctx && limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        abort();
    return ctx;
}

/* Returns the text of a plan that the library makes.  The caller frees it. */
static char *make_plan_text(int i)
{
    static const limber_contract contracts[] = {
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 40 }
    };
    double a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 6, 7, 8 }, c[4];
    limber_matrix m = { a, { 0 }, 2, 1 }, n, r;
    char *text = NULL;

    limber_format_named("f64", &m.format);
    n = r = m;
    n.data = b;
    r.data = c;
    gemm_plan(shared_context(), &contracts[i % 3], 2, 2, 2, NULL, m, n, NULL, output_of(r), &text,
              NULL);
    return text;
}

/* The first byte of a seed names its parser. */
size_t fuzz_seed(int i, uint8_t *to)
{
    if (i >= SEEDS)
        return 0;
    *to = (uint8_t)seeds[i][0];
    if (seeds[i][0] == 'P' || seeds[i][0] == 'T') {
        char *text =
            seeds[i][0] == 'P' ? make_plan_text(i) : strdup(shared_context()->machine.text.s);
        size_t n = text ? strlen(text) : 0;

        memcpy(to + 1, text ? text : "", n < FUZZ_MOST - 1 ? n : FUZZ_MOST - 1);
        free(text);
        return n + 1 < FUZZ_MOST ? n + 1 : FUZZ_MOST;
    }
    memcpy(to, seeds[i], strlen(seeds[i]));
    return strlen(seeds[i]);
}

/* Runs a plan on small matrices of the first format that it names. */
static void run_plan(const char *s)
{
    static double a[16], b[16], c[16];
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_format f = strstr(s, ": f32[") ? LIMBER_F32 : LIMBER_F64;

    for (int i = 0; i < 16; i++)
        a[i] = b[i] = i - 7;
    p.m = 2;
    p.n = 3;
    p.k = 4;
    p.a = (limber_matrix){ a, f, 4, 1 };
    p.b = (limber_matrix){ b, f, 3, 1 };
    p.c = (limber_output){ c, f, 3, 1 };
    limber_run_plan(shared_context(), s, &p, NULL);
}

/* Parses a plan; if it is valid, prints and runs it. */
static void parse_plan(const char *s)
{
    struct plan p = { 0 };
    struct text out = { 0 };
    struct diag d = { 0 };
    char *text;

    limber_plan_init(&p);
    if (limber_plan_parse(&p, s, &d) && limber_plan_verify(&p, &d)) {
        limber_plan_print(&p, &out);
        text = NULL;
        limber_plan_text(shared_context(), s, NULL, NULL, &text);
        limber_free(text);
        run_plan(s);
    }
    limber_text_clear(&out);
    limber_plan_clear(&p);
}

/* A unit's description that parses must print so that it parses again. */
static void parse_unit(const char *s)
{
    limber_unit u = LIMBER_UNIT_INIT, back = LIMBER_UNIT_INIT;
    char text[700];
    int listed;

    if (limber_unit_parse(s, &u) != LIMBER_STATUS_OK)
        limber_unit_lpgemm(s, "conv1", &u, &listed);
    else if (limber_unit_parse(limber_unit_text(&u, text, sizeof text), &back) != LIMBER_STATUS_OK)
        abort(); /* a printed description must parse */
}

/* Parses steps.  If they are valid, their printed form must parse to the same steps. */
static void parse_steps(const char *s)
{
    static const char *const names[] = { "bias", "_1" };
    struct steps first, second;
    struct text out = { 0 }, again = { 0 };
    struct diag d = { 0 };

    if (!limber_steps_parse(&first, s, names, 2, LIMBER_F32, &d))
        return;
    limber_steps_print(&out, &first, names);
    if (!limber_steps_parse(&second, out.s ? out.s : "", names, 2, LIMBER_F32, &d))
        abort();
    limber_steps_print(&again, &second, names);
    if (strcmp(out.s ? out.s : "", again.s ? again.s : ""))
        abort();
    limber_text_clear(&out);
    limber_text_clear(&again);
}

/* The first byte names the parser of the rest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    limber_format f64;
    struct target t;
    struct diag d = { 0 };
    void (*f)(void);
    limber_unit u = LIMBER_UNIT_INIT;
    int listed;
    char *s;

    if (size == 0 || !(s = malloc(size)))
        return 0;
    memcpy(s, data + 1, size - 1);
    s[size - 1] = 0;
    limber_format_named("f64", &f64);
    switch (*data) {
    case 'P': parse_plan(s); break;
    case 'U': parse_unit(s); break;
    case 'L': limber_unit_lpgemm(s, NULL, &u, &listed); break;
    case 'T': limber_target_parse(&t, s, &d); break;
    case 'E': parse_steps(s); break;
    default:
        limber_bind(shared_context(),
                    &(limber_contract){ .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE },
                    f64, f64, f64, s, &f);
    }
    free(s);
    return 0;
}
