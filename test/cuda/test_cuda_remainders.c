/* SPDX-License-Identifier: BSD-3-Clause
 * Reconstruction of C by the Chinese remainder theorem, in doubles on devices that are fast at them
 * and in integers on others, has the interpreter's bits: for every rounding, and at both ends of
 * the range. */
#include "gpus.h"
#include "support.h"

#include "backends/cuda/cuda.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- products of one kind -------------------------------------------------------------------- */

enum { ROWS = 25, COLS = 27, PITCH = 28, TERMS = 5 };

/* Converts doubles to a format and multiplies them by residues, in a new context, so that kernels
 * are compiled with the planted fault.  Returns 1 if C has the interpreter's bits and nothing
 * outside C is written, 0 if not, 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int is_right(const char *format, const char *result, const double *a, const double *b,
                    int64_t k)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_format f = named(format), fc = named(result), f64 = named("f64");
    char in[2][COLS * TERMS * 8], c[2][ROWS * PITCH * 8];
    limber_contract contract = correct;
    limber_context *own;

    contract.scheme = "ozaki2";
    memset(c, 0x5a, sizeof c);
    assert_int_equal(limber_convert(in[0], f, a, f64, (size_t)(ROWS * k), LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_convert(in[1], f, b, f64, (size_t)(COLS * k), LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    if (limber_create(&own, &config))
        return 2;
    for (int i = 0; i < 2; i++)
        if (limber_gemm(i ? own : reference, &contract, ROWS, COLS, k, NULL,
                        (limber_matrix){ in[0], f, k, 1 }, (limber_matrix){ in[1], f, 1, k }, NULL,
                        (limber_output){ c[i], fc, PITCH, 1 }, NULL))
            return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    limber_destroy(own);
    return memcmp(c[0], c[1], sizeof c[0]) == 0;
}

/* ---- at the ends of the range --------------------------------------------------------------- */

/* Checks the rounding of sums of two products that have one bit more than the result's format: near
 * 1, near both ends of the format's range, and beyond them.  Returns 1 if all are right, 0 if not,
 * 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int round_at_ends(void *format)
{
    /* of FP64, and of FP32: significand bits, minus the exponent of the least subnormal, bias */
    static const int scales[2][3] = { { 53, 1074, 1023 }, { 24, 149, 127 } };
    const int *scale = scales[named(format).size == 4];
    double x[2][COLS * 2];
    struct rng r = { 77 };

    for (int side = 0; side < 2; side++)
        /* exponents of both factors: their sum is near the smallest, about 0, or near the
         * largest */
        for (int i = 0; i < COLS; i++)
            for (int p = 0; p < 2; p++) {
                int bits = (scale[0] + 1) / 2;
                double odd = 2.0 * rng_below(&r, 1 << (bits - 2)) + 1 + ldexp(1, bits - 1);
                int least = 3 * i + i % 2 - (scale[1] + scale[0]) / 2;
                int most = 2 * (i - 18) + (scale[2] - scale[0]) / 2;
                int exponent = i < 10 ? least : i < 14 ? 0 : most;

                /* the second product is far below the last bit of the result, so that only its sign
                 * matters */
                if (p == 1 && i % 2)
                    exponent -= 40;
                x[side][2 * i + p] = ldexp(rng_below(&r, 2) ? -odd : odd, exponent);
            }
    return is_right(format, format, x[0], x[1], 2);
}

/* Checks products of subnormal numbers in A and large ones in B.  Some lines hold subnormals only,
 * some also normal numbers.  Returns 1 if all are right, 0 if not, 2 if there is no context, 3 if
 * NVRTC refuses the kernels. */
static int multiply_subnormals(void *format)
{
    bool is_double = named(format).size == 8;
    int bits = is_double ? 53 : 24;
    double a[ROWS * 3], b[COLS * 3];
    struct rng r = { 9 };

    for (int i = 0; i < ROWS * 3; i++) {
        uint64_t v = rng_next(&r) >> (64 - bits), most = ((uint64_t)1 << bits) - 1;

        v = i % 3 ? v >> rng_below(&r, bits) : v | (most + 1) / 2;
        v = i / 3 % 3 ? v : v & 0xfffff;
        a[i] = ldexp(rng_below(&r, 2) ? -(double)v : (double)v, is_double ? -1074 : -149);
    }
    for (int j = 0; j < COLS * 3; j++)
        b[j] = ldexp(rng_below(&r, 1 << 20) - (1 << 19), is_double ? 1000 : 100);
    return is_right(format, format, a, b, 3);
}

/* ---- last bits that decide a rounding ------------------------------------------------------- */

/* Distance in bits from the first bit of a line to its last: `depth` in A, `more` in B. */
struct tails {
    const char *format, *result;
    int depth, more;
};

/* Checks sums that are near a tie of the rounding.  A row of A holds a number, half a unit in its
 * last place, a small tail, a term at the tail's last bit, and minus the number (in narrow formats
 * 2^(1-half)).  B selects terms and signs.  Returns 1 if all are right, 0 if not, 2 if there is no
 * context, 3 if NVRTC refuses the kernels. */
static int round_tails(void *arg)
{
    const struct tails *t = arg;
    int bits = named(t->result).size == 8 ? 53 : 24;
    int half = t->depth < bits ? t->depth : bits;
    bool is_narrow = named(t->format).size == 2;
    double a[ROWS][TERMS], b[COLS][TERMS];
    struct rng r = { 5 + (uint64_t)t->depth };

    for (int i = 0; i < ROWS; i++) {
        double last = i % 3 ? 2.0 * rng_below(&r, 1 << 20) + i % 2 : i % 2 ? (1 << 21) - 1 : 0;
        int tail = half + 1 + rng_below(&r, t->depth > half ? t->depth - half : 1);

        a[i][0] = is_narrow ? 1 + rng_below(&r, 128) / 128.0 : 1 + ldexp(last, 1 - bits);
        a[i][1] = ldexp(1, -half);
        a[i][2] = ldexp(rng_below(&r, 2) ? 1 : -1, -tail);
        a[i][3] = ldexp(rng_below(&r, 2) ? 1 : -1, -t->depth);
        a[i][4] = is_narrow ? ldexp(1, 1 - half) : -a[i][0];
        for (int p = 0; p < TERMS; p++)
            a[i][p] = ldexp(a[i][p], 3 * (i - 9));
    }
    for (int j = 0; j < COLS; j++) {
        for (int p = 0; p < TERMS; p++)
            b[j][p] = j && j >> p & 1 ? rng_below(&r, 2) ? 1 : -1 : 0;
        if (j > 0 && j < 20) /* the last term may cancel this one */
            b[j][0] = j % 2 ? 1 : -1;
        if (j % 4 == 3)
            b[j][2 + j / 4 % 2] = ldexp(1, -t->more);
    }
    return is_right(t->format, t->result, &a[0][0], &b[0][0], TERMS);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Faults planted in the reconstruction by integers (capability 7.5) and by doubles (8.0) must
 * change results near ties and at the ends of the range. */
static void results_are_rounded_at_ends(void **state)
{
    static const struct gpu_fault faults[] = {
        { 75, "ties to odd", "(rest != 0 || (kept & 1))=>(rest != 0 || !(kept & 1))" },
        { 75, "half without what follows", "(rest != 0 || (kept & 1))=>(kept & 1)" },
        { 75, "subnormals as normal", "exp < 1 - bias=>exp < -bias" },
        { 75, "an infinity too late", "exp >= bias)=>exp > bias + 1)" },
        { 75, "no signs", "kept |= (flip & 1)=>kept |= (flip & 0)" },
        { 75, "subnormals as zero", "return high == 0;=>return true;" },
        { 80, "subnormals as normal", "(field > 0 &&=>(field >= 0 &&" },
        { 80, "an infinity too late", "field < 2047)=>field < 2048)" },
        { 80, "another row's exponent",
          "exp[x] = scale - (SCALED ? scale_of<1>(r.emax_b, x < count=>"
          "exp[x] = scale - (SCALED ? scale_of<1>(r.emax_b, x < count - 1" },
        { 80, "remainders of the long way",
          "columns_crt(r, i, j + x, own);=>columns_crt(r, i, j, own);" },
    };

    (void)state;
    assert_int_equal(round_at_ends("f64"), 1);
    assert_int_equal(round_at_ends("f32"), 1);
    gpu_faults_are_found(faults, COUNT(faults), round_at_ends, "f64");
}

/* Products of subnormal numbers are right in FP64 and FP32; faults planted in the code that reads
 * such numbers must change the result. */
static void operands_may_be_subnormal(void **state)
{
    static const struct gpu_fault faults[] = {
        { 80, "subnormals as normal",
          "m |= exponent ? (uint64_t)1 << f.frac_bits : 0;\\n    m = exponent=>"
          "m |= (uint64_t)1 << f.frac_bits;\\n    m = exponent" },
        { 80, "subnormals of half the size",
          "int shift = (exponent ? exponent : 1)=>int shift = exponent" },
        { 80, "lines of subnormals as others",
          "shift >= 0 ? m << (shift & 63) : m >> (=>0 ? m << (shift & 63) : m >> (" },
    };

    (void)state;
    assert_int_equal(multiply_subnormals("f64"), 1);
    assert_int_equal(multiply_subnormals("f32"), 1);
    gpu_faults_are_found(faults, COUNT(faults), multiply_subnormals, "f64");
}

/* Only a small tail tells whether a sum is above or below a tie of the rounding.  Kernels must
 * keep the tail. */
static void tails_decide_what_lies_halfway(void **state)
{
    static struct tails tails[] = {
        { "bf16", "f32", 8, 0 },  { "bf16", "f32", 26, 0 },  { "bf16", "f32", 40, 0 },
        { "bf16", "f64", 54, 0 }, { "f32", "f32", 40, 0 },   { "f32", "f32", 110, 20 },
        { "f64", "f64", 53, 0 },  { "f64", "f64", 90, 0 },   { "f64", "f64", 107, 14 },
        { "f32", "f64", 110, 8 }, { "f64", "f64", 140, 40 }, { "f64", "f64", 150, 45 },
    };
    static const struct gpu_fault faults[] = {
        { 80, "a wrong multiple of P",
          "INVERSE_DOUBLES[0], 0x1.8p52)=>1.3 * INVERSE_DOUBLES[0], 0x1.8p52)" },
        { 80, "P added", "fma64(q, -PRODUCT_DOUBLES[d],=>fma64(q, PRODUCT_DOUBLES[d]," },
        { 80, "sums that begin at zero", "column[x][d] = BEGIN_DOUBLES[d];=>column[x][d] = 0;" },
        { 80, "another element's remainders", "0x3240u + 16 * x=>0x3240u" },
        { 80, "residues around zero", "SIDES[S].is_signed ? 0 : p / 2=>0" },
        { 80, "residues cut, not rounded", "float_bits(q) * p=>(float_bits(q) - 1) * p" },
        { 80, "integers without their signs", "(int64_t)((m ^ sign) - sign)=>(int64_t)m" },
        { 80, "what a sum loses", "rest[d] = add64(column[d], -add64(sum, -high));=>rest[d] = 0;" },
        { 80, "cut, not to odd", "double_bits(sum) | cut=>double_bits(sum)" },
        { 80, "zero with an exponent", "exp = zero ? 0 : exp;=>" },
        { 80, "more than a row has",
          "j + FOUR > r.n || r.j0 + j + FOUR >=>j + 3 > r.n || r.j0 + j + 3 >" },
    };
    static const struct gpu_fault narrow[] = {
        { 80, "rounded twice",
          "RESULT.size == 8 ? add64(high, low) : add_odd(high, low)=>add64(high, low)" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(tails); i++)
        if (round_tails(&tails[i]) != 1)
            fail_msg("%s to %s, to 2^-%d and 2^-%d: %s", tails[i].format, tails[i].result,
                     tails[i].depth, tails[i].more, limber_error_text());
    gpu_faults_are_found(faults, COUNT(faults), round_tails, &tails[8]);
    gpu_faults_are_found(narrow, COUNT(narrow), round_tails, &tails[5]);
}

/* ---- columns of doubles --------------------------------------------------------------------- */

enum { PRIME = 2147483647 };

/* Returns 2^e modulo PRIME. */
static uint64_t power_of_two(int e)
{
    uint64_t v = 1;

    while (e-- > 0)
        v = 2 * v % PRIME;
    return v;
}

/* Returns the integer with these 32-bit digits modulo PRIME. */
static uint64_t digits_modulo(const uint32_t *digit)
{
    uint64_t v = 0;

    for (int i = 0; i < LIMBER_CRT_DIGITS; i++)
        v = (v + digit[i] % PRIME * power_of_two(32 * i)) % PRIME;
    return v;
}

/* Returns the exact sum of `count` doubles, which are integers, modulo PRIME. */
static uint64_t doubles_modulo(const double *x, int count)
{
    uint64_t v = 0;

    for (int i = 0; i < count; i++) {
        int e;
        int64_t m = (int64_t)ldexp(frexp(x[i], &e), 53), r;

        for (e -= 53; e < 0; e++, m /= 2)
            assert_int_equal(m % 2, 0);
        r = m % PRIME;
        v = (v + (uint64_t)(r < 0 ? r + PRIME : r) * power_of_two(e)) % PRIME;
    }
    return v;
}

/* Checks that the kernel's sum of column i of the doubles is exact for the residues that make the
 * sum largest or smallest, and also after subtracting any multiple of P, the product of the
 * moduli. */
static void check_column(const struct limber_crt *crt, const struct cuda_doubles *d, int i,
                         bool largest)
{
    double sum = d->begin[i], exact = 0;

    for (int l = 0; l < crt->count; l++) {
        double weight = d->cofactor[l][i];
        double c = (weight > 0) == largest ? crt->modulus[l] - 1 : 0, next;

        next = fma(1 + c / 4096, weight, sum);
        /* both error terms are 0: the product c/4096 * weight and the sum are exact */
        assert_true((1 + c / 4096) * weight - weight == c / 4096 * weight);
        assert_true(fma(1 + c / 4096, weight, -(next - sum)) == 0 && next - (next - sum) == sum);
        exact += c / 4096 * weight;
        sum = next;
    }
    assert_true(sum == exact);
    for (int q = 0; q <= crt->count && i < d->columns - 1; q++) {
        double next = fma(-q, d->product[i], sum);

        assert_true(fma(-q, d->product[i], sum - next) == 0);
    }
}

/* For each number of moduli, the sums of doubles by which kernels reconstruct a number are exact,
 * and their constants agree with the integer ones modulo a prime. */
static void columns_of_doubles_are_exact(void **state)
{
    int64_t moduli[LIMBER_MODULI];
    size_t count = 0, served = 0;

    (void)state;
    for (int p = 256; p > 1 && count < COUNT(moduli); p--) {
        struct limber_crt crt;
        struct cuda_doubles d;

        moduli[count] = p;
        if (!limber_crt_init(&crt, moduli, count + 1))
            continue;
        count++;
        if (!limber_cuda_doubles(&crt, &d))
            continue;
        served = count;
        assert_int_equal(digits_modulo(crt.product), doubles_modulo(d.product, d.columns));
        for (int l = 0; l < crt.count; l++)
            assert_int_equal(digits_modulo(crt.cofactor[l]) * 4096 % PRIME,
                             doubles_modulo(d.cofactor[l], d.columns));
        for (int i = 0; i < d.columns; i++) {
            check_column(&crt, &d, i, false);
            check_column(&crt, &d, i, true);
        }
        assert_int_equal(d.columns, count < 6   ? 1 :
                                    count < 11  ? 2 :
                                    count <= 16 ? 3 :
                                    count < 22  ? 4 :
                                                  5);
    }
    assert_int_equal(count, LIMBER_MODULI);
    assert_int_equal(served, 27);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_doubles_are_exact),
        cmocka_unit_test(results_are_rounded_at_ends),
        cmocka_unit_test(operands_may_be_subnormal),
        cmocka_unit_test(tails_decide_what_lies_halfway),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
