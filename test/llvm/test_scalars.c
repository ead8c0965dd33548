/* SPDX-License-Identifier: BSD-3-Clause
 * The vectorized computation of alpha x + beta c0 under exact schemes has the interpreter's bits on
 * every instruction set, for terms that cancel, zeros of either sign, and huge, tiny and infinite
 * values.  Also native products by strips of rows, whose operands and results have any layout. */
#include "compiler.h"
#include "support.h"
#include "targets.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 7, N = 37, K = 21, GAP = 3, ROW = N + GAP };

extern const struct backend limber_backend_llvm;

static const double scalars[][2] = { { 1, 1 },        { -1, 1 },        { 1, -1 },
                                     { 0.3, -0.7 },   { -1, 0 },        { 0x1p-20, 1 },
                                     { 0x1p-310, 1 }, { 1, 0x1p-290 },  { 1e150, -1 },
                                     { -1, 0x1p-60 }, { 1.5, INFINITY } };
/* The schemes, with the formats of the operands and of the result. */
static const struct {
    const char *scheme, *of, *to;
} works[] = { { "ozaki2", "f64", "f64" },    { "ozaki2", "f32", "f32" },
              { "ozaki1-i8", "f32", "f64" }, { "ozaki1-i8", "i8", "f32" },
              { "ozaki1-i8", "i8", "f64" },  { "ozaki2", "bf16", "f32" },
              { "ozaki1-f64", "f32", "f32" } };
static const enum data kinds[] = { DATA_unit, DATA_ties,    DATA_spread, DATA_zeros,
                                   DATA_tiny, DATA_special, DATA_nothing };

/* Opens a context with one thread.  If that fails, prints why and returns NULL. */
static limber_context *open_context(const char *backend, limber_kernels kernels)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx = NULL;

    config.backend = backend;
    config.threads = 1;
    config.kernels = kernels;
    config.cache_dir = config.dump_dir = "";
    if (limber_create(&ctx, &config))
        print_message("%s\n", limber_error_text());
    return ctx;
}

/* The operands, C before the call, and the results to compare. */
struct scene {
    char a[M * K * 8], b[K * N * 8], c0[M * ROW * 8], want[M * ROW * 8], got[M * ROW * 8];
};

/* Computes a correct product by a scheme.  scalar: alpha and beta.  c: on entry C, afterwards the
 * result.  Returns false if the call was refused. */
static bool multiply(limber_context *ctx, const char *scheme, limber_format of, limber_format to,
                     const struct scene *s, const double *scalar, char *c)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    char alpha[8], beta[8];

    contract.promise = LIMBER_CONTRACT_CORRECT;
    contract.scheme = scheme;
    store_scalar(alpha, to, scalar[0]);
    store_scalar(beta, to, scalar[1]);
    return limber_gemm(ctx, &contract, M, N, K, alpha, (limber_matrix){ s->a, of, K, 1 },
                       (limber_matrix){ s->b, of, N, 1 }, beta, (limber_output){ c, to, ROW, 1 },
                       NULL) == LIMBER_STATUS_OK;
}

/* Draws operands and C.  In the upper rows, C is minus the rounded product, so that sums cancel
 * almost completely. */
static void set_c(struct rng *r, struct scene *s, limber_context *interp, limber_format of,
                  limber_format to, enum data kind, const char *scheme)
{
    static const double one[2] = { -1, 0 };

    fill(r, kind, of, s->a, M * K);
    fill(r, rng_below(r, 2) ? kind : DATA_unit, of, s->b, K * N);
    fill(r, kind, to, s->c0, M * ROW);
    if (multiply(interp, scheme, of, to, s, one, s->want))
        for (int i = 0; i < M / 2; i++)
            memcpy(s->c0 + i * ROW * to.size, s->want + i * ROW * to.size, (size_t)N * to.size);
}

/* Opens contexts with prebuilt kernels, one for each instruction set that this CPU has.  Returns
 * their number. */
static int prebuilt_contexts(limber_context **ctx, int most, const struct target *here)
{
    struct diag d = { 0 };
    int contexts = 0;

    for (size_t t = 0; t < COUNT(targets) && contexts < most; t++)
        if (strstr(here->features, targets[t].needs) && !targets[t].emulated) {
            struct target *to =
                &(ctx[contexts++] = open_context("llvm", LIMBER_KERNELS_PREBUILT))->machine.target;

            memset(to, 0, sizeof *to);
            assert_true(limber_target_parse(to, targets[t].text, &d));
            limber_target_complete(to);
        }
    return contexts;
}

/* For each scheme and kind of data, products with alpha and beta must have the interpreter's
 * bits on all instruction sets that this CPU has. */
static void scalars_have_the_interpreters_bits(void **state)
{
    limber_context *interp = open_context("interp", LIMBER_KERNELS_AUTO), *ctx[8];
    struct scene *s = malloc(sizeof *s);
    struct target here;
    struct diag d = { 0 };
    struct rng r = { 33 };
    int contexts = 0, compared = 0;

    (void)state;
    if (!compiler_here() || !limber_backend_llvm.probe(&here, &d)) {
        limber_destroy(interp);
        free(s);
        skip_because("no compiler for this CPU");
    }
    ctx[contexts++] = open_context("llvm", LIMBER_KERNELS_SPECIALISED);
    contexts += prebuilt_contexts(ctx + contexts, 7, &here);
    for (int i = 0; i < contexts; i++)
        for (size_t w = 0; w < COUNT(works); w++)
            for (size_t k = 0; k < COUNT(kinds); k++)
                for (size_t p = (k + w) % 2; p < COUNT(scalars); p += 2) {
                    limber_format of = named(works[w].of), to = named(works[w].to);

                    /* kernels that are compiled here are tested with few combinations, prebuilt
                     * ones with all */
                    if ((SANITIZED || i == 0) && (p / 2 + k + w + (size_t)i) % 4)
                        continue;
                    set_c(&r, s, interp, of, to, kinds[k], works[w].scheme);
                    memcpy(s->want, s->c0, sizeof s->want);
                    memcpy(s->got, s->c0, sizeof s->got);
                    if (!multiply(ctx[i], works[w].scheme, of, to, s, scalars[p], s->got))
                        continue;
                    assert_true(multiply(interp, works[w].scheme, of, to, s, scalars[p], s->want));
                    compared++;
                    for (int e = 0; e < M * ROW; e++)
                        if (!same_number(to, s->got + e * to.size, s->want + e * to.size))
                            fail_msg("%s of %s on %s, data %d, alpha %g, beta %g, (%d, %d): %g, "
                                     "not %g",
                                     works[w].scheme, works[w].of, ctx[i]->machine.target.isa,
                                     (int)k, scalars[p][0], scalars[p][1], e / ROW, e % ROW,
                                     limber_format_value(to, s->got + e * to.size),
                                     limber_format_value(to, s->want + e * to.size));
                }
    print_message("%d products on %d machines\n", compared, contexts);
    assert_true(compared > (SANITIZED ? 50 : 100));
    while (contexts > 0)
        limber_destroy(ctx[--contexts]);
    limber_destroy(interp);
    free(s);
}

/* ---- native products whose operands are used in place ---------------------------------------- */

enum { LINE = 90, ALL = LINE * LINE }; /* most elements of a line and of a matrix */

/* Draws the distances between rows and between columns. */
static void choose_strides(struct rng *r, int64_t rows, int64_t cols, int64_t *row, int64_t *col)
{
    const int64_t gap = (int64_t)rng_below(r, 3);

    switch (rng_below(r, 3)) {
    case 0: *row = cols + gap, *col = 1; break;
    case 1: *row = 1, *col = rows + gap; break;
    default: *row = 2 * cols + gap, *col = 2; break;
    }
}

/* Native products of random layouts with alpha and beta must have the interpreter's bits.
 * Kernels read strips of a few columns of B. */
static void strips_have_the_interpreters_bits(void **state)
{
    static const double more[][2] = { { 1, 0 }, { 0.5, 0 }, { -1, 1 }, { 3, 0 } };
    limber_context *interp = open_context("interp", LIMBER_KERNELS_AUTO), *ctx[8];
    char *memory[5];
    struct target here;
    struct diag d = { 0 };
    struct rng r = { 34 };
    int contexts = 0, compared = 0;

    (void)state;
    if (!compiler_here() || !limber_backend_llvm.probe(&here, &d)) {
        limber_destroy(interp);
        skip_because("no compiler for this CPU");
    }
    for (int i = 0; i < 5; i++)
        memory[i] = calloc(2 * ALL, 8);
    contexts = prebuilt_contexts(ctx, 8, &here);
    for (int turn = 0; turn < (SANITIZED ? 100 : 600) && contexts; turn++) {
        const int64_t m = 1 + (int64_t)rng_below(&r, LINE),
                      n = 1 + (int64_t)rng_below(&r, LINE - 4);
        const int64_t k = 1 + (int64_t)rng_below(&r, LINE - 4);
        const limber_format f = turn % 2 ? LIMBER_F64 : LIMBER_F32;
        const double *scalar =
            turn % 3 ? scalars[rng_below(&r, COUNT(scalars))] : more[rng_below(&r, COUNT(more))];
        limber_context *by = ctx[turn % contexts];
        limber_contract contract = LIMBER_CONTRACT_INIT;
        limber_matrix a = { memory[0], f, 0, 0 }, b = { memory[1], f, 0, 0 };
        limber_output c = { memory[3], f, 0, 0 }, want = { memory[4], f, 0, 0 };
        char alpha[8], beta[8];

        contract.promise = LIMBER_CONTRACT_NATIVE;
        /* the scheme is named, since the smallest products would otherwise be computed without a
         * kernel */
        contract.scheme = "native";
        choose_strides(&r, m, k, &a.row_stride, &a.col_stride);
        choose_strides(&r, k, n, &b.row_stride, &b.col_stride);
        choose_strides(&r, m, n, &c.row_stride, &c.col_stride);
        want.row_stride = c.row_stride;
        want.col_stride = c.col_stride;
        fill(&r, kinds[rng_below(&r, COUNT(kinds))], f, memory[0], 2 * ALL);
        fill(&r, kinds[rng_below(&r, COUNT(kinds))], f, memory[1], 2 * ALL);
        fill(&r, kinds[rng_below(&r, COUNT(kinds))], f, memory[2], 2 * ALL);
        memcpy(memory[3], memory[2], (size_t)(2 * ALL * f.size));
        memcpy(memory[4], memory[2], (size_t)(2 * ALL * f.size));
        limber_convert(alpha, f, &scalar[0], LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        limber_convert(beta, f, &scalar[1], LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        assert_int_equal(limber_gemm(interp, &contract, m, n, k, alpha, a, b, beta, want, NULL), 0);
        assert_int_equal(limber_gemm(by, &contract, m, n, k, alpha, a, b, beta, c, NULL), 0);
        compared++;
        for (int64_t e = 0; e < 2 * ALL; e++)
            if (!same_number(f, memory[3] + e * f.size, memory[4] + e * f.size))
                fail_msg("%s on %s, %d x %d x %d, C (%d, %d), alpha %g, beta %g, at %d: %g, not %g",
                         f.size == 8 ? "f64" : "f32", by->machine.target.isa, (int)m, (int)n,
                         (int)k, (int)c.row_stride, (int)c.col_stride, scalar[0], scalar[1], (int)e,
                         limber_format_value(f, memory[3] + e * f.size),
                         limber_format_value(f, memory[4] + e * f.size));
    }
    print_message("%d products on %d machines\n", compared, contexts);
    for (int i = 0; i < 5; i++)
        free(memory[i]);
    while (contexts > 0)
        limber_destroy(ctx[--contexts]);
    limber_destroy(interp);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scalars_have_the_interpreters_bits),
                                        cmocka_unit_test(strips_have_the_interpreters_bits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
