/* SPDX-License-Identifier: BSD-3-Clause
 * Compares complex products of matrices in device memory with the interpreter's, bit for bit: on a
 * GPU if LIMBER_TEST_GPU is set, else on the harness that runs kernels on the CPU. */
#include "contexts.h"
#include "gpus.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- complex matrices in host and device memory --------------------------------------------- */

enum { ROWS_together, COLUMNS_together, BOTH_STRIDED, LAYOUTS };
enum { ON_a = 1, ON_b = 2, ON_c = 4, ON_all = 7 };
enum { SCALARS_none, SCALARS_real, SCALARS_alpha, SCALARS_complex, SCALARS_count };

/* A complex matrix. */
struct matrix {
    /* here: matrix in host memory; there: its copy on the device, or in host memory unless
     * on_device */
    limber_matrix here, there;
    size_t bytes;
    bool on_device;
};

static struct gpu_buffer place(const struct matrix *x)
{
    return (struct gpu_buffer){ (uintptr_t)x->there.data, x->bytes };
}

/* Copies `here` to `there`. */
static void copy_there(struct matrix *x)
{
    x->there.data = x->on_device ? (void *)(uintptr_t)gpu_upload_new(x->here.data, x->bytes).at :
                                   memcpy(malloc(x->bytes), x->here.data, x->bytes);
}

/* Makes a random complex matrix with a padded leading dimension, and its copy. */
static struct matrix make_matrix(struct rng *r, const char *format, enum data data, int64_t rows,
                                 int64_t cols, int layout, bool on_device)
{
    limber_format f = named(format);
    int64_t gap = layout == BOTH_STRIDED ? 2 : 1,
            lead = (layout == ROWS_together ? cols : rows) + gap;
    struct matrix x = { .here = { NULL, f, lead, 1 }, .on_device = on_device };
    int64_t count = 2 * gap * (lead * (layout == ROWS_together ? rows : cols) + 1);

    if (layout != ROWS_together)
        x.here = (limber_matrix){ NULL, f, gap, lead * gap };
    if (layout == COLUMNS_together)
        x.here = (limber_matrix){ NULL, f, 1, lead };
    x.bytes = (size_t)count * f.size;
    x.here.data = malloc(x.bytes);
    fill(r, data, f, writable(x.here.data), (size_t)count);
    x.there = x.here;
    copy_there(&x);
    return x;
}

/* Copies `there` to a new host buffer, which the caller frees. */
static char *copy_back(const struct matrix *x)
{
    char *p = malloc(x->bytes);

    if (x->on_device)
        gpu_download(p, place(x));
    else
        memcpy(p, x->there.data, x->bytes);
    return p;
}

static void free_matrix(struct matrix *x)
{
    if (x->on_device)
        gpu_free(place(x));
    else
        free(writable(x->there.data));
    free(writable(x->here.data));
}

/* ---- a product on both ----------------------------------------------------------------------- */

/* A complex product.  la, lb, lc: layouts of the matrices. */
struct trial {
    limber_contract contract;
    const char *fa, *fb, *fc;
    enum data data;
    int conj, scalars; /* conj: conjugates A (bit 0) and B (bit 1) */
    int la, lb, lc;
    int on;
    limber_status status; /* the status that both backends must return */
};

/* Writes alpha and beta in the format of C, for a case of enum SCALARS_*. */
static void make_scalars(limber_format c, int scalars, char alpha[32], char beta[32])
{
    static const double value[SCALARS_count][4] = {
        { 1, 0, 0, 0 },
        { 3, 0, -2, 0 },
        { 2, -1, 0, 0 },
        { -2, 3, 1, -3 },
    };
    limber_format f = c.kind == LIMBER_KIND_INT ? named("i64") : c;

    assert_int_equal(
        limber_convert(alpha, f, value[scalars], named("f64"), 2, LIMBER_ROUND_NEAREST), 0);
    assert_int_equal(
        limber_convert(beta, f, value[scalars] + 2, named("f64"), 2, LIMBER_ROUND_NEAREST), 0);
}

enum { M = 13, N = 18, K = 21 };

/* Multiplies on both backends, and compares the status and the bits of C. products: method of
 * complex multiplication, 0 for the default. */
static void compare_on_queue(const struct trial *t, const limber_queue *queue, int products,
                             uint64_t seed)
{
    struct rng r = { seed };
    struct matrix a = make_matrix(&r, t->fa, t->data, M, K, t->la, t->on & ON_a);
    struct matrix b = make_matrix(&r, t->fb, t->data, K, N, t->lb, t->on & ON_b);
    struct matrix c = make_matrix(&r, t->fc, DATA_bytes, M, N, t->lc, t->on & ON_c);
    limber_format fc = c.here.format;
    char alpha[32], beta[32], *got;
    limber_report report = LIMBER_REPORT_INIT;
    limber_status s;

    make_scalars(fc, t->scalars, alpha, beta);
#define RUN(ctx, q, where, report) \
    gemm_complex(ctx, &t->contract, q, M, N, K, alpha, a.where, t->conj & 1, b.where, \
                 t->conj >> 1, beta, output_of(c.where), report, products)
    s = RUN(cuda, queue, there, &report);
    if (s != t->status)
        fail_msg("%s, conj %d, on %d: %s", t->fa, t->conj, t->on, limber_error_text());
    if (s == LIMBER_STATUS_OK)
        assert_string_equal(report.backend, "cuda");
    assert_int_equal(RUN(reference, NULL, here, NULL), t->status);
    if (queue)
        assert_int_equal(driver.cuStreamSynchronize(queue->stream), 0);
    got = copy_back(&c);
    for (size_t e = 0; e < c.bytes / fc.size; e++)
        if (!same_number(fc, got + e * fc.size, (char *)c.here.data + e * fc.size))
            fail_msg("%s of %s %s %s, %s, conj %d, scalars %d, layouts %d%d%d, on %d: number %zu "
                     "differs",
                     report.scheme, t->fa, t->fb, t->fc, data_name(t->data), t->conj, t->scalars,
                     t->la, t->lb, t->lc, t->on, e);
    free(got);
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
}

static void compare_with_interpreter(struct trial t)
{
    static uint64_t seed = 1;

    compare_on_queue(&t, NULL, 0, seed++);
}

/* Complex products with each operand conjugated or not, in all layouts, have the interpreter's
 * bits. */
static void conjugates_and_layouts_are_free(void **state)
{
    (void)state;
    for (int conj = 0; conj < 4; conj++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            if (is_taken((size_t)(conj + layout), 2))
                compare_with_interpreter(
                    (struct trial){ plain, "f32", "f32", "f32", DATA_unit, conj, SCALARS_none,
                                    layout, (layout + conj) % LAYOUTS, conj % LAYOUTS, ON_all, 0 });
            if (is_taken((size_t)(conj + layout + 1), 2))
                compare_with_interpreter(
                    (struct trial){ correct, "f64", "f64", "f64", DATA_unit, conj, SCALARS_real,
                                    (layout + conj) % LAYOUTS, layout, conj % LAYOUTS, ON_all, 0 });
        }
}

/* Complex products of floating-point and integer formats, with all kinds of scalars, have the
 * interpreter's bits; an overflow of i16 gives status RANGE. */
static void every_format_has_the_interpreters_bits(void **state)
{
    static const char *const floats[] = { "f64", "f32", "dd", "f128", "bf16" };

    (void)state;
    for (int i = 0; i < 5; i++)
        for (int scalars = 0; scalars < SCALARS_count; scalars++)
            /* a quarter of all pairs; each value of `scalars` and of `conj` is tested */
            if (is_taken((size_t)(scalars + 2 * i + i / 2), 4))
                compare_with_interpreter((struct trial){
                    correct, floats[i], floats[i], floats[i], i == 3 ? DATA_spread : DATA_unit,
                    (scalars + i) % 4, scalars, i % LAYOUTS, (i + scalars) % LAYOUTS,
                    scalars % LAYOUTS, ON_all, 0 });
    for (int scalars = 0; scalars < SCALARS_count; scalars++) {
        for (int layout = 0; layout < LAYOUTS; layout++)
            if (is_taken((size_t)(scalars + layout), 3))
                compare_with_interpreter((struct trial){ reproducible, "f32", "f32", "f32",
                                                         DATA_unit, scalars, scalars, layout,
                                                         scalars % LAYOUTS, layout, ON_all, 0 });
        if (is_taken((size_t)scalars, 2))
            compare_with_interpreter((struct trial){ plain, "f64", "f64", "f64", DATA_range,
                                                     scalars, scalars, 0, 0, 1, ON_all, 0 });
        if (is_taken((size_t)(scalars + 1), 2))
            compare_with_interpreter((struct trial){ exact, "i16", "i16", "i64", DATA_ints, scalars,
                                                     scalars, 1, 2, 0, ON_all, 0 });
        if (is_taken((size_t)scalars, 2))
            compare_with_interpreter((struct trial){ exact, "i8", "i8", "i32", DATA_bytes, scalars,
                                                     scalars, 0, 1, 1, ON_all, 0 });
        if (is_taken((size_t)(scalars + 1), 2))
            compare_with_interpreter((struct trial){ native, "i32", "i32", "i32", DATA_range,
                                                     scalars, scalars, 2, 0, 2, ON_all, 0 });
    }
    compare_with_interpreter((struct trial){ exact, "u8", "u8", "i32", DATA_bytes, 3, SCALARS_real,
                                             0, 0, 0, ON_all, 0 });
    compare_with_interpreter((struct trial){ exact, "u8", "i16", "i16", DATA_range, 2, SCALARS_none,
                                             0, 0, 0, ON_all, LIMBER_STATUS_RANGE });
}

/* Complex products with infinities, NaN and zeros have the interpreter's bits. */
static void special_values(void **state)
{
    (void)state;
    for (int scalars = 0; scalars < SCALARS_count; scalars++) {
        if (is_taken((size_t)scalars, 2))
            compare_with_interpreter((struct trial){ correct, "f64", "f64", "f64", DATA_special,
                                                     scalars, scalars, 0, 1, 0, ON_all, 0 });
        if (is_taken((size_t)(scalars + 1), 2))
            compare_with_interpreter((struct trial){ plain, "f32", "f32", "f32", DATA_special,
                                                     scalars, scalars, 1, 0, 1, ON_all, 0 });
    }
    compare_with_interpreter((struct trial){ correct, "f64", "f64", "f64", DATA_zeros, 2,
                                             SCALARS_complex, 0, 0, 0, ON_all, 0 });
}

/* Complex products with any of the three operands on the device and the others on the host have the
 * interpreter's bits. */
static void host_and_device_mix(void **state)
{
    (void)state;
    for (int on = 0; on < ON_all; on++) {
        if (is_taken((size_t)on, 3))
            compare_with_interpreter((struct trial){
                correct, "f64", "f64", "f64", DATA_unit, on % 4,
                on % 2 ? SCALARS_complex : SCALARS_real, on % LAYOUTS, 2, 0, on, 0 });
        if (is_taken((size_t)(on + 1), 3))
            compare_with_interpreter((struct trial){
                correct, "f32", "f32", "f32", DATA_unit, on % 4,
                on % 2 ? SCALARS_none : SCALARS_complex, 2, on % LAYOUTS, 1, on, 0 });
        if (is_taken((size_t)(on + 2), 3))
            compare_with_interpreter((struct trial){ exact, "i16", "i16", "i32", DATA_bytes, on % 4,
                                                     SCALARS_complex, 0, 0, 1, on, 0 });
    }
}

/* Complex products on a stream of the caller's, without a workspace (bytes = 0), have the
 * interpreter's bits once that stream alone is synchronised. */
static void complex_products_run_on_the_callers_stream(void **state)
{
    limber_queue queue = { .size = sizeof(limber_queue), .bytes = 0 };

    (void)state;
    assert_int_equal(driver.cuStreamCreate(&queue.stream, 1), 0);
    for (int scalars = 0; scalars < SCALARS_count; scalars++) {
        if (is_taken((size_t)scalars, 2))
            compare_on_queue(&(struct trial){ correct, "f64", "f64", "f64", DATA_unit, scalars,
                                              scalars, 0, 0, 1, ON_all, 0 },
                             &queue, 0, 500);
        if (is_taken((size_t)(scalars + 1), 2))
            compare_on_queue(&(struct trial){ plain, "f64", "f64", "f64", DATA_unit, scalars,
                                              scalars, 1, 0, 0, ON_all, 0 },
                             &queue, 0, 501);
    }
    driver.cuStreamDestroy_v2(queue.stream);
}

static void compare_by_three_products(struct trial t)
{
    static uint64_t seed = 200;

    compare_on_queue(&t, NULL, 3, seed++);
}

/* Complex products by three real products have the interpreter's bits. */
static void three_products(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const char *f = i & 1 ? "f32" : "f64";
        limber_contract fast = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_FAST,
                                 .scheme = i & 2 ? "ozaki2" : "native" };

        if (!is_taken((size_t)(i + i / 2 + i / 4), 2)) /* each scheme is tested in each format */
            continue;
        compare_by_three_products((struct trial){
            fast, f, f, f, i < 6 ? DATA_unit : DATA_special, i % 4, i / 2 % SCALARS_count,
            i % LAYOUTS, i / 3 % LAYOUTS, i / 2 % LAYOUTS, i < 4 ? ON_all : ON_c | i % 4, 0 });
    }
    for (int i = 0; i < 4; i++) {
        if (is_taken((size_t)(i + i / 2), 2))
            compare_by_three_products((struct trial){ i & 1 ? exact : native, "i16", "i16", "i64",
                                                      DATA_bytes, i, i % SCALARS_count, 0,
                                                      i % LAYOUTS, i / 2, ON_all, 0 });
        if (is_taken((size_t)(i + i / 2 + 1), 2))
            compare_by_three_products((struct trial){ exact, "u8", "i8", "i32", DATA_bytes, i,
                                                      SCALARS_none, i % LAYOUTS, 0, 1, 2 * i + 1,
                                                      0 });
    }
    compare_by_three_products((struct trial){ native, "i64", "i64", "i64", DATA_range, 1,
                                              SCALARS_none, 0, 1, 0, ON_all, 0 });
    compare_by_three_products((struct trial){ exact, "i64", "i64", "i64", DATA_range, 0,
                                              SCALARS_none, 0, 0, 0, ON_all,
                                              LIMBER_STATUS_NO_SCHEME });
    compare_by_three_products((struct trial){ correct, "f64", "f64", "f64", DATA_unit, 0,
                                              SCALARS_none, 0, 0, 0, ON_all,
                                              LIMBER_STATUS_NO_SCHEME });
}

/* Complex products on simulated matrix units have the interpreter's bits. */
static void units_are_simulated(void **state)
{
    static const char *const units[] = { "h100-fp16", "in=e5m2 mul=e5m2 acc=e5m2 group=16",
                                         "b200-nvfp4",
                                         "in=bf16 acc=(1,8,10):rs seed=7 split=3 total=f32",
                                         "h100-fp64" };
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_contract k = { .size = sizeof(limber_contract),
                          .promise = LIMBER_CONTRACT_SIMULATE,
                          .unit = &unit };

    (void)state;
    for (int i = 0; i < 5; i++) {
        const char *f = i == 4 ? "f64" : i == 3 ? "bf16" : "f32", *c = i == 4 ? f : "f32";

        assert_int_equal(limber_unit_parse(units[i], &unit), LIMBER_STATUS_OK);
        if (is_taken((size_t)(i + i / 2), 2))
            compare_with_interpreter((struct trial){ k, f, f, c, i & 1 ? DATA_special : DATA_unit,
                                                     i % 4, i % 2, i % LAYOUTS, i / 2 % LAYOUTS,
                                                     i % LAYOUTS, ON_all, 0 });
        if (is_taken((size_t)(i + i / 2 + 1), 2))
            compare_with_interpreter((struct trial){ k, f, f, c, DATA_unit, 3 - i % 4, SCALARS_none,
                                                     i / 2 % LAYOUTS, 0, 1, i + 1, 0 });
    }
    assert_int_equal(limber_unit_parse("int8", &unit), LIMBER_STATUS_OK);
    for (int conj = 0; conj < 4; conj++)
        if (is_taken((size_t)(conj + conj / 2), 2))
            compare_with_interpreter((struct trial){ k, "i8", "i8", "i32", DATA_bytes, conj,
                                                     SCALARS_none, conj % LAYOUTS, 1, 0, ON_all,
                                                     0 });
}

/* ---- the least integer, and refused calls ---------------------------------------------------- */

/* Multiplies A, conjugated, by a complex matrix B whose real and imaginary parts all are the
 * format's most negative integer.  Checks status and result against the interpreter's. */
static void multiply_by_most_negative(const char *format, const char *result,
                                      limber_contract contract, limber_status status)
{
    limber_format f = named(format);
    struct rng r = { 7 };
    struct matrix a = make_matrix(&r, format, DATA_bytes, 3, 4, 0, true);
    struct matrix b = make_matrix(&r, format, DATA_bytes, 4, 5, 0, true);
    struct matrix c = make_matrix(&r, result, DATA_bytes, 3, 5, 0, true);
    char *got;

    memset(writable(b.here.data), 0, b.bytes);
    for (size_t e = 0; e < b.bytes / f.size; e++)
        ((char *)b.here.data)[(e + 1) * f.size - 1] = (char)0x80;
    gpu_free(place(&b));
    copy_there(&b);
    assert_int_equal(gemm_complex(cuda, &contract, NULL, 3, 5, 4, NULL, a.there, 1, b.there, 0,
                                  NULL, output_of(c.there), NULL, 0),
                     status);
    assert_int_equal(gemm_complex(reference, &contract, NULL, 3, 5, 4, NULL, a.here, 1, b.here, 0,
                                  NULL, output_of(c.here), NULL, 0),
                     status);
    got = copy_back(&c);
    assert_memory_equal(got, c.here.data, c.bytes);
    free(got);
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
}

/* The most negative integer has no negative in its format: the product with its conjugate must
 * be right, or refused, as by the interpreter. */
static void the_least_integer_is_conjugated(void **state)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    const limber_contract simulate = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_SIMULATE,
                                       .unit = &unit };

    (void)state;
    multiply_by_most_negative("i8", "i32", exact, LIMBER_STATUS_OK);
    multiply_by_most_negative("i16", "i64", exact, LIMBER_STATUS_OK);
    multiply_by_most_negative("i32", "i64", native, LIMBER_STATUS_OK);
    multiply_by_most_negative("i64", "i64", native, LIMBER_STATUS_OK);
    multiply_by_most_negative("i64", "i64", exact, LIMBER_STATUS_RANGE);
    assert_int_equal(limber_unit_parse("int8", &unit), LIMBER_STATUS_OK);
    multiply_by_most_negative("i8", "i32", simulate, LIMBER_STATUS_BAD_ARGUMENT);
}

/* A complex product with k = 0 is computed; statistics of a simulated complex product are
 * refused. */
static void some_calls_are_refused(void **state)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_statistics statistics = LIMBER_STATISTICS_INIT;
    const limber_contract simulate = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_SIMULATE,
                                       .unit = &unit,
                                       .statistics = &statistics };
    struct rng r = { 8 };
    struct matrix a = make_matrix(&r, "i16", DATA_bytes, 3, 4, 0, true);
    struct matrix b = make_matrix(&r, "i16", DATA_bytes, 4, 5, 0, true);
    struct matrix c = make_matrix(&r, "i32", DATA_bytes, 3, 5, 0, true);

    (void)state;
    assert_int_equal(gemm_complex(cuda, &exact, NULL, 3, 5, 0, NULL, a.there, 0, b.there, 0, NULL,
                                  output_of(c.there), NULL, 4),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_unit_parse("h100-fp16", &unit), LIMBER_STATUS_OK);
    assert_refused(gemm_complex(cuda, &simulate, NULL, 3, 5, 4, NULL, a.there, 0, b.there, 0, NULL,
                                output_of(c.there), NULL, 0),
                   LIMBER_STATUS_NO_SCHEME, "contract.statistics");
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conjugates_and_layouts_are_free),
        cmocka_unit_test(every_format_has_the_interpreters_bits),
        cmocka_unit_test(special_values),
        cmocka_unit_test(host_and_device_mix),
        cmocka_unit_test(three_products),
        cmocka_unit_test(units_are_simulated),
        cmocka_unit_test(complex_products_run_on_the_callers_stream),
        cmocka_unit_test(the_least_integer_is_conjugated),
        cmocka_unit_test(some_calls_are_refused),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
