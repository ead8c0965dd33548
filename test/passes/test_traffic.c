/* SPDX-License-Identifier: BSD-3-Clause
 * Checks the memory traffic that is predicted for a plan from its tile, its limbs and the
 * caches.  Each expected number is derived by hand, in bytes per element. */
#include "backends/backend.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const char whole[] = "plan gemm promise=native kbits=13 budget=0x1p-30 scheme=native {\n"
                            "  %%a = arg index=0 : f64[m,k]\n"
                            "  %%b = arg index=1 : f64[k,n]\n"
                            "  %%x = whole %%a : f64[m,k]x1\n"
                            "  %%y = whole %%b : f64[k,n]x1\n"
                            "  %%s = products %%x %%y unit=f64 chunk=256%s : f64[m,n]x1 {\n"
                            "    row %%x.0 %%y.0 acc=0 w=2^0 share=all\n"
                            "  }\n"
                            "  %%c = combine %%s reconstruct=sum : f64[m,n]\n"
                            "  %%d = epilogue %%c alpha=one beta=zero wrap=0 : f64[m,n]\n"
                            "  ret %%d\n"
                            "}\n";

#define MODULI "moduli=255,253,251,247"
static const char residues[] =
    "plan gemm promise=correct kbits=13 budget=0 scheme=ozaki2 {\n"
    "  %%a = arg index=0 : f64[m,k]\n"
    "  %%b = arg index=1 : f64[k,n]\n"
    "  %%x = residues %%a axis=row bits=8 " MODULI " sign=unsigned : u8[m,k]x4\n"
    "  %%y = residues %%b axis=col bits=8 " MODULI " sign=signed : i8[k,n]x4\n"
    "  %%s = products %%x %%y unit=i8 chunk=65536%s : i64[m,n]x4 {\n"
    "    row %%x.0 %%y.0 acc=0 w=2^0 share=all\n"
    "    row %%x.1 %%y.1 acc=1 w=2^0 share=all\n"
    "    row %%x.2 %%y.2 acc=2 w=2^0 share=all\n"
    "    row %%x.3 %%y.3 acc=3 w=2^0 share=all\n"
    "  }\n"
    "  %%c = combine %%s reconstruct=crt " MODULI " : exact[m,n]\n"
    "  %%d = epilogue %%c alpha=one beta=zero wrap=0 : f64[m,n]\n"
    "  ret %%d\n"
    "}\n";

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* Predicts the traffic of a square product of this size.  form: a plan's text with a place for the
 * tile; matrix: rows of the target's matrix unit, 0 if it has none. */
static struct traffic predict_traffic(const char *form, const char *tile, int l2, int matrix,
                                      double size)
{
    char text[2000], machine[300];
    struct target t;
    struct plan p = { 0 };
    struct diag d = { 0 };
    struct traffic x;

    snprintf(text, sizeof text, form, tile);
    snprintf(machine, sizeof machine,
             "target llvm isa=any vector=512 registers=32 l1=32768 l2=%d group=4 matrix=%d "
             "rate.f64=4e10 rate.i8=4e11",
             l2, matrix);
    if (!limber_target_parse(&t, machine, &d) || !limber_plan_parse(&p, text, &d) ||
        !limber_plan_verify(&p, &d))
        fail_msg("%s", d.text);
    x = limber_traffic(&p, &t, size);
    limber_plan_clear(&p);
    return x;
}

/* The predicted memory traffic of products is that which follows from tile sizes and cache sizes,
 * computed by hand. */
static void bytes_follow_from_the_tile(void **state)
{
    static const char floats[] = " tile=12,16,1,84,256,256", bytes[] = " tile=12,32,4,120,256,1024",
                      matrix[] = " tile=32,32,4,320,256,512";
    static const struct {
        const char *form, *tile;
        int l2, matrix;
        double size, moved; /* size: m = n = k; moved: bytes per element */
    } cases[] = {
        /* the traffic is the sum of: operands; C; packing; A read by 8 blocks of columns, B by
         * 25 blocks of rows */
        { whole, floats, MIB, 0, 2048, 16 + 2 * 8 + 2 * 16 + 8 * (8 + 25) },
        { whole, " tile=12,16,1,168,512,256", 2 * MIB, 0, 2048,
          16 + 2 * 8 + 2 * 16 + 8 * (4 + 13) },
        /* this cache is too small for C, which is read and written again for each part of k but
         * the first */
        { whole, floats, 512 * KIB, 0, 2048, 16 + 2 * 8 + 2 * 16 + 8 * (8 + 25) + 7 * 2 * 8 },
        /* the limbs of both operands take 1 MiB, which fits in the cache */
        { whole, floats, MIB, 0, 256, 16 + 2 * 8 },
        /* residues of C are stored for each modulus and read once */
        { residues, bytes, MIB, 0, 1024, 16 + 2 * 8 + 2 * 8 + 4 * (4 + 9) + 4 * (2 + 1) },
        /* all data of a block fit in the cache: A is read once, and residues of C are not written
         * to memory */
        { residues, bytes, 2 * MIB, 0, 1024, 16 + 2 * 8 + 2 * 8 + 4 * (1 + 9) },
        /* The sums of a matrix unit extend over all of k. 320 rows of A of 4096 elements fit in
         * the cache; rows of 8192 elements do not, and are read again by each of the 8 columns
         * of register tiles. */
        { residues, matrix, 2 * MIB, 16, 4096, 16 + 2 * 8 + 2 * 8 + 4 * (16 + 13) + 4 * (2 + 1) },
        { residues, matrix, 2 * MIB, 16, 8192,
          16 + 2 * 8 + 2 * 8 + 4 * (32 * 8 + 26) + 4 * (2 + 1) },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct traffic x = predict_traffic(cases[i].form, cases[i].tile, cases[i].l2,
                                           cases[i].matrix, cases[i].size);
        double rate = cases[i].form == whole ? 4e10 : 4e11 / 4;

        print_message("case %zu\n", i);
        assert_true(fabs(x.bytes - cases[i].moved / cases[i].size) < 1e-12);
        assert_true(fabs(x.rate - x.bytes * rate) < 1);
    }
}

static void without_a_tile_no_bytes_are_stated(void **state)
{
    (void)state;
    assert_true(predict_traffic(whole, "", MIB, 0, 2048).bytes == 0);
    assert_true(predict_traffic(residues, "", MIB, 0, 2048).rate == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_follow_from_the_tile),
        cmocka_unit_test(without_a_tile_no_bytes_are_stated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
