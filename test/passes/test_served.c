/* SPDX-License-Identifier: BSD-3-Clause
 * A backend must name what it refuses: operations, attributes, and values of attributes that it
 * does not support. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"
#include "backends/backend.h"
#include "backends/cuda/cuda.h"
#include "backends/served.h"

#include <stdlib.h>
#include <string.h>

#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif
extern const struct backend limber_backend_cuda;

static const char cpu[] = "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 "
                          "l2=262144 group=2 rate.f64=2e10 rate.f32=4e10 rate.i8=8e10";

/* A plan of a product with the given limbs, product table and sum. */
#define PLAN(limbs, products, combine) \
    "plan gemm promise=fast kbits=8 budget=any scheme=native {\n" \
    "  %a = arg index=0 : f32[m,k]\n" \
    "  %b = arg index=1 : f32[k,n]\n" limbs products " {\n" \
    "    row %x.0 %y.0 acc=0 w=2^0 share=all\n" \
    "  }\n" combine "  %d = epilogue %c alpha=one beta=zero wrap=0 : f32[m,n]\n" \
    "  ret %d\n" \
    "}\n"
#define WHOLE "  %x = whole %a : f16[m,k]x1\n  %y = whole %b : f16[k,n]x1\n"
#define SUMS "  %c = combine %s reconstruct=sum : f32[m,n]\n"

static const char unsplit[] = "plan gemm promise=fast kbits=8 budget=any {\n"
                              "  %a = arg index=0 : f32[m,k]\n"
                              "  %b = arg index=1 : f32[k,n]\n"
                              "  %c = gemm %a %b : exact[m,n]\n"
                              "  %d = epilogue %c alpha=one beta=zero wrap=0 : f32[m,n]\n"
                              "  ret %d\n"
                              "}\n";
static const char sums[] = PLAN(
    WHOLE, "  %s = products %x %y unit=f16 chunk=64 sums=v100 tile=32,32,4,64,64,32 : f32[m,n]x1",
    SUMS);
static const char uncertain[] =
    PLAN("  %x = residues %a axis=row bits=8 moduli=255 sign=signed : i8[m,k]x1\n"
         "  %y = residues %b axis=col bits=8 moduli=255 sign=signed : i8[k,n]x1\n",
         "  %s = products %x %y unit=i8 chunk=64 tile=32,32,4,64,64,32 : i64[m,n]x1",
         "  %c = combine %s reconstruct=crt moduli=255 uncertain=3 : exact[m,n]\n");

#define WORDS(modulus) \
    PLAN("  %x = residues %a axis=row bits=8 moduli=" modulus " sign=signed : i16[m,k]x1\n" \
         "  %y = residues %b axis=col bits=8 moduli=" modulus " sign=signed : i16[k,n]x1\n", \
         "  %s = products %x %y unit=i16 chunk=64 tile=6,16,2,60,64,64 : i64[m,n]x1", \
         "  %c = combine %s reconstruct=crt moduli=" modulus " : exact[m,n]\n")
static const char words[] = WORDS("4093"), short_words[] = WORDS("2047");

/* Checks that the backend refuses to compile the plan, with a text that contains `why`. */
static void expect_refused(const struct backend *b, const struct target *t, const char *text,
                           const char *why)
{
    struct plan p = { 0 };
    struct blob blob = { 0 };
    struct diag d = { 0 };

    limber_plan_init(&p);
    if (!limber_plan_parse(&p, text, &d) || !limber_plan_verify(&p, &d))
        fail_msg("%s", d.text);
    assert_false(b->compile(&p, t, NULL, &blob, &d));
    assert_int_equal(d.status, LIMBER_STATUS_INTERNAL);
    if (!strstr(d.text, why))
        fail_msg("\"%s\" does not say \"%s\"", d.text, why);
    limber_plan_clear(&p);
}

/* The LLVM backend refuses plans with operations, attributes or units that it lacks. */
static void a_cpu_refuses(void **state)
{
    (void)state;
#ifdef LIMBER_HAVE_LLVM
    struct target t;
    struct diag d = { 0 };

    assert_true(limber_target_parse(&t, cpu, &d));
    expect_refused(&limber_backend_llvm, &t, unsplit, "llvm: %c: operation gemm is not served");
    expect_refused(&limber_backend_llvm, &t, sums, "llvm: %s: attribute sums is not served");
    expect_refused(&limber_backend_llvm, &t, short_words,
                   "llvm: moduli of residues in words are at least 2048, not 2047");
    t.group = 4;
    expect_refused(&limber_backend_llvm, &t, words, "llvm: this target has no unit i16");
#else
    (void)cpu, (void)short_words;
    skip_because("not an x86 machine");
#endif
}

/* The CUDA backend refuses plans with operations, attributes or units that it lacks. */
static void a_gpu_refuses(void **state)
{
    struct target t = { 0 };
    struct diag d = { 0 };

    (void)state;
    assert_true(limber_cuda_arch(&t, 9, 0, 132, 1.7e9, 227 << 10, 50 << 20, &d));
    expect_refused(&limber_backend_cuda, &t, unsplit, "cuda: %c: operation gemm is not served");
    expect_refused(&limber_backend_cuda, &t, sums, "cuda: %s: this device has no sums=v100");
    expect_refused(&limber_backend_cuda, &t, words, "cuda: %s: unit=i16 is not served");
    expect_refused(&limber_backend_cuda, &t, uncertain,
                   "cuda: %c: attribute uncertain is not served");
}

/* A plan is refused by backends that support everything except one value of an attribute, and by
 * backends that lack the attribute.  The refusal must name the first value or attribute that the
 * backend lacks. */
static void the_first_unknown_thing_is_named(void **state)
{
    struct served table = { .backend = "some" };
    struct plan p = { 0 };
    struct diag d = { 0 };

    (void)state;
    limber_plan_init(&p);
    assert_true(limber_plan_parse(&p, sums, &d));
    for (int i = 0; i < OP_count; i++) {
        table.op[i].served = true;
        table.op[i].attrs = limber_ops[i].attrs;
    }
    for (int a = 0; a < ATTR_count; a++)
        table.words[a] = UINT64_MAX;
    assert_true(limber_plan_served(&p, &table, &d));
    table.words[ATTR_sums] &= ~LIMBER_WORD(SUMS_v100);
    assert_false(limber_plan_served(&p, &table, &d));
    assert_string_equal(d.text, "some: %s: sums=v100 is not served");
    d = (struct diag){ 0 };
    table.op[OP_products].attrs &= ~LIMBER_READS(sums);
    assert_false(limber_plan_served(&p, &table, &d));
    assert_string_equal(d.text, "some: %s: attribute sums is not served");
    limber_plan_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_refuses),
        cmocka_unit_test(a_gpu_refuses),
        cmocka_unit_test(the_first_unknown_thing_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
