/* SPDX-License-Identifier: BSD-3-Clause
 * Residues in 16-bit words (unit i16) at their limits: remainders of about half a modulus, and
 * chains near the largest length that 32 bits allow.  They run on the interpreter, on LLVM if it
 * multiplies words on this CPU, and on prebuilt kernels, and are compared with 128-bit integers. */
#include "compiler.h"
#include "plans.h"
#include "support.h"

#include "ir/num/crt.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_interp, limber_backend_llvm;

/* HALVES: the first moduli, for which remainders of (p - 1) / 2 are tested. */
enum { M = 13, N = 35, MOST_K = 1700, MODULI = 10, HALVES = 4, CHUNK = 512 };

static const int64_t moduli[MODULI] = {
    4093, 4091, 4087, 4085, 4079, 4073, 4069, 4067, 4063, 4057
};
static int64_t a[M * MOST_K], b[MOST_K * N];

/* Appends the moduli, with a word before them, to the plan's text. */
static void print_list(struct text *t, const char *before)
{
    limber_text_add(t, "%s moduli=", before);
    for (int l = 0; l < MODULI; l++)
        limber_text_add(t, "%s%lld", l ? "," : "", (long long)moduli[l]);
}

/* Makes a plan for signed integers of 48 bits without scaling.  The result is exact, as a
 * double-double. */
static void state_plan(struct plan *p)
{
    struct text t = { 0 };
    struct diag d = { 0 };

    print_list(&t, "plan gemm promise=correct kbits=11 budget=0 spent=0 scheme=ozaki2 {\n"
                   "  %a = arg index=0 : i64[m,k]\n  %b = arg index=1 : i64[k,n]\n"
                   "  %x = residues %a axis=none bits=48");
    print_list(&t, " sign=signed : i16[m,k]x10\n  %y = residues %b axis=none bits=48");
    limber_text_add(&t,
                    " sign=signed : i16[k,n]x10\n"
                    "  %%s = products %%x %%y unit=i16 chunk=%d : i64[m,n]x10 {\n",
                    CHUNK);
    for (int l = 0; l < MODULI; l++)
        limber_text_add(&t, "    row %%x.%d %%y.%d acc=%d w=2^0 share=all\n", l, l, l);
    print_list(&t, "  }\n  %e = combine %s reconstruct=crt");
    limber_text_add(&t,
                    " : exact[m,n]\n"
                    "  %%d = epilogue %%e alpha=one beta=zero wrap=0 : dd[m,n]\n  ret %%d\n}\n");
    if (!limber_plan_parse(p, t.s, &d) || !limber_plan_verify(p, &d))
        fail_msg("%s", d.text);
    limber_text_clear(&t);
}

/* Returns a number whose remainder modulo each of the first HALVES moduli p is (p - 1) / 2. */
static int64_t make_half_remainders(void)
{
    int64_t x = 1;

    for (int l = 0; l < HALVES; l++)
        x *= moduli[l];
    return (x - 1) / 2;
}

enum ends { EQUAL, OPPOSITE, MIXED, AROUND };

/* Draws an element of A (side 0) or B (side 1).  It is x, whose remainders modulo the first moduli
 * p are (p - 1) / 2, or -x: with the same sign everywhere, with opposite signs in A and B, or with
 * random signs; or x changed by up to 2. */
static int64_t draw_value(struct rng *r, enum ends ends, int side)
{
    int64_t x = make_half_remainders();

    switch (ends) {
    case EQUAL: return x;
    case OPPOSITE: return side ? -x : x;
    case MIXED: return rng_below(r, 2) ? -x : x;
    default: return (rng_below(r, 2) ? -x : x) + rng_below(r, 5) - 2;
    }
}

/* Plans the product of a and b and computes it by a backend.  c: the result, as double-doubles. */
static void multiply(const struct backend *backend, int64_t k, double *c)
{
    struct target t = { .device = 0 };
    struct diag d = { 0 };
    struct plan p = { 0 };
    struct mask ma = { 0 }, mb = { 0 };
    struct call call = { .m = M,
                         .n = N,
                         .k = k,
                         .a = { a, k, 1, NULL },
                         .b = { b, 1, N, NULL },
                         .c = { c, N, 1, N, 0 },
                         .mask_a = &ma,
                         .mask_b = &mb,
                         .runner = &plan_runner,
                         .workspace_limit = 1 << 24 };

    state_plan(&p);
    if (!backend->probe(&t, &d) ||
        !limber_passes_run(&p, &t, "tile", (struct pass_watch){ 0 }, &d) ||
        !limber_scan(&ma, &call.a, named("i64"), M, k, SCAN_full, NULL, &d) ||
        !limber_scan(&mb, &call.b, named("i64"), N, k, SCAN_full, NULL, &d) ||
        !plan_launch(backend, &p, &t, &call, &d))
        fail_msg("%s: %s", backend->name, d.text);
    limber_mask_clear(&ma);
    limber_mask_clear(&mb);
    limber_plan_clear(&p);
}

/* Compares a product with exact sums in 128-bit integers. */
static void check(const struct backend *backend, enum ends ends, int64_t k)
{
    static double c[M * N][2];

    memset(c, -1, sizeof c);
    multiply(backend, k, c[0]);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const double *got = c[i * N + j];
            __int128 sum = 0;

            for (int64_t q = 0; q < k; q++)
                sum += (__int128)a[i * k + q] * b[q * N + j];
            if (got[0] != (double)sum || got[1] != (double)(sum - (__int128)got[0]))
                fail_msg("%s, ends %d, k = %d: element %d, %d", backend->name, (int)ends, (int)k,
                         (int)i, (int)j);
        }
}

/* Tries all kinds of numbers with lengths around multiples of the number of products that
 * kernels sum in 32 bits.  The interpreter is slow and takes a third of the cases. */
static void check_lengths(const struct backend *backend)
{
    static const int64_t lengths[] = { 1, 2, 15, 17, 511, 512, 513, 1023, 1024, 1025, 1537, 1700 };
    struct rng r = { 16 };

    for (enum ends e = EQUAL; e <= AROUND; e++)
        for (size_t s = 0; s < COUNT(lengths); s++) {
            int64_t k = lengths[s];

            for (int64_t i = 0; i < M * k; i++)
                a[i] = draw_value(&r, e, 0);
            for (int64_t i = 0; i < k * N; i++)
                b[i] = draw_value(&r, e, 1);
            if (backend != &limber_backend_interp || s % 3 == 0)
                check(backend, e, k);
        }
}

static void extreme_sums_are_exact(void **state)
{
    (void)state;
    check_lengths(&limber_backend_interp);
}

/* Returns whether kernels multiply 16-bit words on this CPU, as the plans of this test do. */
static bool multiplies_words(void)
{
    struct target t;
    struct diag d = { 0 };

    if (limber_backend_llvm.probe(&t, &d) && t.group == 2)
        return true;
    return false;
}

static void extreme_sums_are_exact_prebuilt(void **state)
{
    (void)state;
    if (!multiplies_words() || !prebuilt_kernels())
        skip_because("no prebuilt kernels for words on this CPU");
    check_lengths(prebuilt_kernels());
}

/* Sums of the largest remainders are exact in specialised kernels that multiply 16-bit words. */
static void extreme_sums_are_exact_specialised(void **state)
{
    (void)state;
    if (!multiplies_words())
        skip_because("this CPU multiplies bytes");
    need_compiler();
    for (enum ends e = EQUAL; e <= AROUND; e++) {
        struct rng r = { 61 };

        for (int64_t i = 0; i < M * MOST_K; i++)
            a[i] = draw_value(&r, e, 0);
        for (int64_t i = 0; i < MOST_K * N; i++)
            b[i] = draw_value(&r, e, 1);
        check(&limber_backend_llvm, e, MOST_K);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_sums_are_exact),
        cmocka_unit_test(extreme_sums_are_exact_prebuilt),
        cmocka_unit_test(extreme_sums_are_exact_specialised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
