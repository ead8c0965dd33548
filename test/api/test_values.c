/* SPDX-License-Identifier: BSD-3-Clause
 * Every enumeration argument gets invalid values, and every count gets huge ones.  The call must
 * return BAD_ARGUMENT (or NO_SCHEME), name the argument, and not touch memory. */
#include "engine_support.h"

#include <limber/ops.h>
#include <limber/research.h>
#include <limber/solve.h>
#include <limits.h>
#include <math.h>

enum { ROOM = 256 };

static limber_context *ctx;
static double x[ROOM], w[ROOM], y[ROOM];

/* ---- values outside an enumeration ---------------------------------------------------------- */

/* Runs a problem, after filling in the small operands that it lacks. */
static limber_status run_with(limber_problem p)
{
    p.a = p.a.data ? p.a : (limber_matrix){ x, LIMBER_F64, p.conv ? 0 : 4, p.conv ? 0 : 1 };
    p.b = (limber_matrix){ w, LIMBER_F64, p.conv ? 0 : 4, p.conv ? 0 : 1 };
    p.c = (limber_output){ y, LIMBER_F64, p.conv ? 0 : 4, p.conv ? 0 : 1 };
    p.m = p.n = p.k = p.conv ? 0 : 4;
    return limber_run(ctx, &p, NULL);
}

/* Defines a function that runs a problem after `change`, with the value v in an argument. */
#define PROBLEM(name, change) \
    static limber_status name(int v) \
    { \
        limber_problem p = LIMBER_PROBLEM_INIT; \
        limber_contract k = LIMBER_CONTRACT_INIT; \
        limber_conv g = LIMBER_CONV_INIT; \
        limber_queue q = LIMBER_QUEUE_INIT; \
        limber_unit u = LIMBER_UNIT_INIT; \
        limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT; \
        limber_epilogue e = LIMBER_EPILOGUE_INIT; \
\
        (void)g, (void)q, (void)u, (void)in, (void)e; \
        p.contract = &k; \
        change; \
        return run_with(p); \
    }
PROBLEM(operation, p.operation = (limber_operation)v)
PROBLEM(domain, p.domain = (limber_domain)v)
PROBLEM(conjugate, (p.domain = LIMBER_DOMAIN_COMPLEX, p.conjugate = (limber_conjugate)v))
PROBLEM(complex_method,
        (p.domain = LIMBER_DOMAIN_COMPLEX, p.complex_method = (limber_complex_method)v))
PROBLEM(promise, k.promise = (limber_promise)v)
PROBLEM(split, k.split = (limber_split)v)
PROBLEM(on_miss, k.on_miss = (limber_on_miss)v)
PROBLEM(capture, (q.capture = (limber_capture)v, p.queue = &q))
PROBLEM(layout,
        (g.n = g.c = g.h = g.w = g.o = g.r = g.s = g.groups = 1,
         g.stride[0] = g.stride[1] = g.dilate[0] = g.dilate[1] = 1, g.layout = (limber_layout)v,
         p.conv = &g, p.operation = LIMBER_OPERATION_CONV_FORWARD))
PROBLEM(format, (p.a = (limber_matrix){ x, LIMBER_F64, 4, 1 }, p.a.format.kind = (uint8_t)v))
PROBLEM(input_shape,
        (in.name = "i", in.shape = (limber_input_shape)v, in.format = LIMBER_F64, in.data = w,
         e.steps = "%1 = add %x %i\n", e.inputs = &in, e.input_count = 1, p.epilogue = &e))
/* Defines a function that checks a unit with the value v in a field. */
#define UNIT(name, field, type) \
    static limber_status name(int v) \
    { \
        limber_unit u = LIMBER_UNIT_INIT; \
\
        assert_int_equal(limber_unit_parse("in=bf16 mul=f32 acc=f32 group=8", &u), \
                         LIMBER_STATUS_OK); \
        u.field = (type)v; \
        return limber_unit_check(&u); \
    }
UNIT(unit_order, order, enum limber_unit_order)
UNIT(unit_scale, scale, enum limber_unit_scale)
UNIT(unit_rule, scale_rule, enum limber_scale_rule)
UNIT(unit_mul_rounding, mul.rounding, limber_rounding)
UNIT(unit_acc_rounding, acc.rounding, limber_rounding)
UNIT(unit_overflow, acc.overflow, enum limber_step_overflow)

/* Creates a context with a partition setting that is not allowed, which must fail.  Returns the
 * status. */
static limber_status partition(int v)
{
    limber_config c = LIMBER_CONFIG_INIT;
    limber_context *none;
    limber_status s;

    c.partition = (limber_partition)v;
    s = limber_create(&none, &c);
    assert_null(none);
    return s;
}

/* Creates a context with a kernels setting that is not allowed, which must fail.  Returns the
 * status. */
static limber_status kernels(int v)
{
    limber_config c = LIMBER_CONFIG_INIT;
    limber_context *none;
    limber_status s;

    c.kernels = (limber_kernels)v;
    s = limber_create(&none, &c);
    assert_null(none);
    return s;
}

static limber_matrix square(void)
{
    return (limber_matrix){ x, LIMBER_F64, 4, 1 };
}

/* Prepares an operand with an invalid side.  Returns the status. */
static limber_status prepare_side(int v)
{
    limber_prepared *none;
    limber_status s = limber_prepare(ctx, square(), 4, 4, (limber_side)v, NULL, &none);

    assert_null(none);
    return s;
}

/* Prepares an operand with this configuration, which must fail.  Returns the status. */
static limber_status prepare_with(limber_prepare_config c)
{
    limber_prepared *none;
    limber_status s = limber_prepare(ctx, square(), 4, 4, LIMBER_SIDE_A, &c, &none);

    assert_null(none);
    return s;
}

/* Passes an invalid config.changes to limber_prepare.  Returns the status. */
static limber_status prepare_changes(int v)
{
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;

    c.changes = (limber_change_check)v;
    return prepare_with(c);
}

/* Passes an invalid config.operation to limber_prepare.  Returns the status. */
static limber_status prepare_operation(int v)
{
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;

    c.operation = v;
    return prepare_with(c);
}

/* Prepares filters for operation number v, which must fail.  Returns the status. */
static limber_status filters_operation(int v)
{
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;
    limber_conv g = LIMBER_CONV_INIT;
    limber_prepared *none;
    limber_status s;

    g.c = g.o = g.r = g.s = g.groups = 1;
    g.stride[0] = g.stride[1] = g.dilate[0] = g.dilate[1] = 1;
    c.operation = v;
    s = limber_prepare_filters(ctx, &g, w, LIMBER_F64, &c, &none);
    assert_null(none);
    return s;
}

/* Inspects a matrix with an invalid side.  Returns the status. */
static limber_status inspect_side(int v)
{
    limber_inspection in = LIMBER_INSPECTION_INIT;

    return limber_inspect(ctx, square(), 4, 4, (limber_side)v, &in);
}

/* Binds a shape with an invalid `accumulate`.  Returns the status. */
static limber_status accumulate(int v)
{
    limber_kernel f;

    return limber_bind_shape(ctx, NULL, 4, 4, 4, square(), square(), output_of(square()),
                             (limber_accumulate)v, &f);
}

static int fail_on_entry(void *user, const limber_cache_entry *e)
{
    (void)user, (void)e;
    fail_msg("an entry was visited");
    return 1;
}

/* Lists the cache's entries with an invalid depth: no entry may be visited.  Returns the status. */
static limber_status cache_depth(int v)
{
    return limber_cache_each(ctx, (limber_cache_depth)v, fail_on_entry, NULL);
}

/* Clears the cache by a choice that is not allowed: no entry may be removed.  Returns the
 * status. */
static limber_status cache_choice(int v)
{
    limber_cache_info before = LIMBER_CACHE_INFO_INIT, after = LIMBER_CACHE_INFO_INIT;
    size_t removed = 5;
    limber_status s;

    assert_int_equal(limber_cache_describe(ctx, &before), LIMBER_STATUS_OK);
    s = limber_cache_clear(ctx, (limber_cache_choice)v, &removed);
    assert_int_equal(limber_cache_describe(ctx, &after), LIMBER_STATUS_OK);
    assert_true(before.entries > 0 && after.entries == before.entries && removed == 0);
    return s;
}

/* Defines a function that calls limber_apply with the value v in a field. */
#define ELEMENTWISE(name, field, type) \
    static limber_status name(int v) \
    { \
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT; \
\
        e.from = e.to = LIMBER_F64; \
        e.src = x, e.dst = y, e.count = 4; \
        e.field = (type)v; \
        return limber_apply(ctx, &e); \
    }
ELEMENTWISE(function, function, limber_function)
ELEMENTWISE(apply_rounding, rounding, limber_rounding)
ELEMENTWISE(compute, compute, limber_compute)

/* Defines a function that calls limber_reduce with the value v in a field. */
#define REDUCE(name, field, type) \
    static limber_status name(int v) \
    { \
        limber_reduce_call r = LIMBER_REDUCE_INIT; \
\
        r.from = r.to = LIMBER_F64; \
        r.src = x, r.dst = y, r.outer = r.inner = 2, r.count = 4; \
        r.field = (type)v; \
        return limber_reduce(ctx, &r); \
    }
REDUCE(reduction, reduction, limber_reduction)
REDUCE(carry, carry, limber_carry)
REDUCE(reduce_rounding, rounding, limber_rounding)
REDUCE(correction, correction, int)

/* Converts numbers with an invalid rounding mode.  Returns the status. */
static limber_status convert_mode(int v)
{
    return limber_convert(y, LIMBER_F64, x, LIMBER_F64, 4, (limber_rounding)v);
}

/* limber_retention_chunked has no status: it must return NaN for an invalid kind of chunks. */
static limber_status chunking(int v)
{
    return isnan(limber_retention_chunked(10, 10, 64, 64, (limber_chunking)v)) ?
               LIMBER_STATUS_BAD_ARGUMENT :
               LIMBER_STATUS_OK;
}

/* Calls that pass a value of an enumeration. */
static const struct {
    limber_status (*call)(int value);
    const char *name; /* name of the argument in the error text; NULL if there is no error text */
    int last; /* largest valid value; the smallest is 0 */
    bool byte; /* the field has eight bits */
} values[] = {
    { operation, "operation", LIMBER_OPERATION_CONV_BACKWARD_FILTER },
    { domain, "domain", LIMBER_DOMAIN_COMPLEX },
    { conjugate, "conjugate", LIMBER_CONJUGATE_BOTH },
    { complex_method, "complex_method", LIMBER_COMPLEX_FOUR_PRODUCTS },
    { promise, "contract.promise", LIMBER_CONTRACT_REPRODUCIBLE },
    { split, "contract.split", LIMBER_SPLIT_INSIDE },
    { on_miss, "contract.on_miss", LIMBER_ON_MISS_COMPILE },
    { capture, "queue.capture", LIMBER_CAPTURE_READY },
    { layout, "conv.layout", LIMBER_LAYOUT_NHWC },
    { format, "a: format", LIMBER_KIND_POWER, true },
    { input_shape, "shape", LIMBER_INPUT_MATRIX },
    { unit_order, "order", 1000 },
    { unit_scale, "scale", 1000 },
    { unit_rule, "scale", 1000 },
    { unit_mul_rounding, "mul", LIMBER_ROUND_STOCHASTIC, true },
    { unit_acc_rounding, "acc", LIMBER_ROUND_STOCHASTIC, true },
    { unit_overflow, "acc", LIMBER_OVERFLOW_INFINITY, true },
    { partition, "config.partition", LIMBER_PARTITION_OFF },
    { kernels, "config.kernels", LIMBER_KERNELS_SPECIALISED },
    { prepare_side, "side", LIMBER_SIDE_B },
    { prepare_changes, "config.changes", LIMBER_CHANGES_CHECKED },
    { prepare_operation, "config.operation", LIMBER_OPERATION_CONV_BACKWARD_FILTER },
    { filters_operation, "config.operation", LIMBER_OPERATION_CONV_BACKWARD_FILTER },
    { inspect_side, "side", LIMBER_SIDE_B },
    { accumulate, "accumulate", LIMBER_ACCUMULATE_ADD },
    { cache_depth, "depth", LIMBER_CACHE_VERIFY },
    { cache_choice, "choice", LIMBER_CACHE_CLEAR_DAMAGED },
    { function, "function", LIMBER_FUNCTION_COUNT - 1 },
    { apply_rounding, "rounding", LIMBER_ROUND_ODD },
    { compute, "compute", LIMBER_COMPUTE_F32 },
    { reduction, "reduction", LIMBER_REDUCTION_COUNT - 1 },
    { carry, "carry", LIMBER_CARRY_STORAGE },
    { reduce_rounding, "rounding", LIMBER_ROUND_ODD },
    { correction, "correction", 1 },
    { convert_mode, "mode", LIMBER_ROUND_ODD },
    { chunking, NULL, LIMBER_CHUNKING_BY_NUMBER },
};

static void refill(void)
{
    for (int i = 0; i < ROOM; i++)
        y[i] = 7;
}

/* Fails the test unless the call was refused with the argument's name, and y is unchanged. */
static void assert_refused_unchanged(const char *what, limber_status s, const char *name)
{
    if ((s != LIMBER_STATUS_BAD_ARGUMENT && s != LIMBER_STATUS_NO_SCHEME) ||
        (name && !strstr(limber_error_text(), name)))
        fail_msg("%s: %s, \"%s\"", what, limber_status_name(s), limber_error_text());
    for (int i = 0; i < ROOM; i++)
        assert_true(y[i] == 7);
}

/* Values outside the range of each enumerated argument are refused. */
static void other_values(void **state)
{
    (void)state;
    refill();
    for (size_t i = 0; i < COUNT(values); i++) {
        const int wrong[] = { -1, values[i].last + 1, 77777, INT_MIN, INT_MAX };

        for (size_t j = 0; j < COUNT(wrong); j++) {
            char what[100];

            if (values[i].byte && (uint8_t)wrong[j] <= values[i].last)
                continue;
            snprintf(what, sizeof what, "%s = %d", values[i].name ? values[i].name : "chunking",
                     wrong[j]);
            assert_refused_unchanged(what, values[i].call(wrong[j]), values[i].name);
        }
    }
}

/* ---- counts and sizes beyond their range ---------------------------------------------------- */

static const uint64_t huge[] = { UINT64_MAX,         UINT64_MAX / 2,      UINT64_MAX / 4 + 1,
                                 UINT64_MAX / 8 + 1, UINT64_MAX / 16 + 1, UINT64_MAX / 8,
                                 (uint64_t)1 << 63 };

/* Numbers of elements that exceed the address space are refused. */
static void counts_of_arrays(void **state)
{
    (void)state;
    refill();
    for (size_t i = 0; i < COUNT(huge); i++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

        e.from = e.to = LIMBER_F64;
        e.src = x, e.dst = y, e.count = (size_t)huge[i];
        assert_refused_unchanged("apply", limber_apply(ctx, &e), "count");
        assert_refused_unchanged(
            "convert",
            limber_convert(y, LIMBER_F64, x, LIMBER_F64, (size_t)huge[i], LIMBER_ROUND_NEAREST),
            "count");
        assert_refused_unchanged(
            "convert to binary128",
            limber_convert(y, LIMBER_F128, x, LIMBER_F64, (size_t)huge[i], LIMBER_ROUND_NEAREST),
            "count");
        for (int at = 0; at < 3; at++) {
            limber_reduce_call r = LIMBER_REDUCE_INIT;

            r.from = r.to = LIMBER_F64;
            r.src = x, r.dst = y, r.outer = r.inner = r.count = 1;
            *(at == 0 ? &r.outer : at == 1 ? &r.count : &r.inner) = (size_t)huge[i];
            assert_refused_unchanged("reduce", limber_reduce(ctx, &r), "count");
        }
    }
}

/* Sizes of matrices that are negative or exceed the address space are refused, by every
 * function. */
static void sizes_of_matrices(void **state)
{
    (void)state;
    refill();
    for (size_t i = 0; i < COUNT(huge); i++)
        for (int at = 0; at < 3; at++) {
            int64_t size[] = { 4, 4, 4 };
            limber_matrix m = square();
            limber_inspection in = LIMBER_INSPECTION_INIT;
            limber_solve_call s = LIMBER_SOLVE_INIT;
            limber_prepared *none;
            limber_problem p;
            size_t least, best;
            limber_kernel f;
            char *text;

            size[at] = (int64_t)huge[i];
            p = gemm_problem(NULL, size[0], size[1], size[2], NULL, m, m, NULL, output_of(m));
            assert_refused_unchanged("run", limber_run(ctx, &p, NULL), "");
            assert_refused_unchanged("plan", limber_plan(ctx, &p, &text, NULL), "");
            assert_refused_unchanged("workspace", limber_workspace(ctx, &p, &least, &best), "");
            assert_refused_unchanged("bind_shape",
                                     limber_bind_shape(ctx, NULL, size[0], size[1], size[2], m, m,
                                                       output_of(m), LIMBER_ACCUMULATE_NONE, &f),
                                     "");
            if (at == 2)
                continue;
            assert_refused_unchanged(
                "prepare", limber_prepare(ctx, m, size[0], size[1], LIMBER_SIDE_A, NULL, &none),
                "");
            assert_refused_unchanged(
                "inspect", limber_inspect(ctx, m, size[0], size[1], LIMBER_SIDE_A, &in), "");
            s.n = size[0], s.columns = size[1];
            s.a = s.b = m, s.x = output_of(m);
            assert_refused_unchanged("solve", limber_solve(ctx, &s, NULL), "");
        }
}

/* Huge values of a batch's count and strides are refused and leave all arrays unchanged. */
static void batches(void **state)
{
    (void)state;
    refill();
    for (size_t i = 0; i < COUNT(huge); i++)
        for (int at = 0; at < 4; at++) {
            limber_batch t = { .size = sizeof t, .count = 2, .a = 16, .b = 16, .c = 16 };
            limber_problem p =
                gemm_problem(NULL, 4, 4, 4, NULL, square(), square(), NULL, output_of(square()));

            *(at == 0 ? &t.count : at == 1 ? &t.a : at == 2 ? &t.b : &t.c) = (int64_t)huge[i];
            p.batch = &t;
            assert_refused_unchanged("batch", limber_run(ctx, &p, NULL), "");
        }
}

/* Fields of a convolution that are negative or exceed the address space are refused. */
static void convolutions(void **state)
{
    (void)state;
    refill();
    for (size_t i = 0; i < COUNT(huge); i++)
        for (int at = 0; at < 20; at++)
            for (int op = LIMBER_OPERATION_CONV_FORWARD;
                 op <= LIMBER_OPERATION_CONV_BACKWARD_FILTER; op++) {
                limber_conv g = LIMBER_CONV_INIT;
                int64_t *const field[] = { &g.n,
                                           &g.c,
                                           &g.h,
                                           &g.w,
                                           &g.o,
                                           &g.r,
                                           &g.s,
                                           &g.groups,
                                           &g.pad[0],
                                           &g.pad[1],
                                           &g.pad[2],
                                           &g.pad[3],
                                           &g.d,
                                           &g.t,
                                           &g.depth_pad[0],
                                           &g.depth_pad[1],
                                           &g.dilate[0],
                                           &g.dilate[1],
                                           &g.depth_dilate,
                                           &g.stride[0] };
                limber_problem p =
                    conv_problem(NULL, &g, NULL, x, LIMBER_F64, w, LIMBER_F64, NULL, y, LIMBER_F64);

                p.operation = (limber_operation)op;
                g.n = g.c = g.o = g.groups = 1;
                g.h = g.w = g.d = 3;
                g.r = g.s = g.t = 2;
                g.stride[0] = g.stride[1] = g.dilate[0] = g.dilate[1] = 1;
                *field[at] = (int64_t)huge[i];
                if (field[at] == &g.stride[0] && (int64_t)huge[i] > 0)
                    continue; /* with a result of one pixel any stride is valid */
                assert_refused_unchanged("conv", limber_run(ctx, &p, NULL), "");
            }
}

/* The output may overlap the input only if both have the same address and element size. */
static void overlapping_arrays_are_refused(void **state)
{
    const limber_format formats[] = { LIMBER_F64, LIMBER_F32, LIMBER_BF16, LIMBER_F128 };
    enum { COUNT_OF = 8, MIDDLE = ROOM / 2 * (int)sizeof(double) };

    (void)state;
    refill();
    for (size_t f = 0; f < COUNT(formats); f++)
        for (size_t g = 0; g < COUNT(formats); g++)
            for (int offset = -160; offset <= 160; offset += 4) {
                int from = formats[f].size * COUNT_OF, to = formats[g].size * COUNT_OF;
                bool apart = offset >= from || -offset >= to;
                bool fine = apart || (offset == 0 && from == to);
                char *src = (char *)y + MIDDLE, *dst = src + offset;
                limber_status s =
                    limber_convert(dst, formats[g], src, formats[f], COUNT_OF, LIMBER_ROUND_ZERO);
                limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

                if (fine) {
                    assert_int_equal(s, LIMBER_STATUS_OK);
                    refill();
                } else {
                    assert_refused_unchanged("convert", s, "overlap");
                }
                e.function = LIMBER_FUNCTION_ABS;
                e.from = formats[f], e.to = formats[g];
                e.src = src, e.dst = dst, e.count = COUNT_OF;
                if (f == 3 || g == 3)
                    continue; /* limber_apply computes no functions of binary128 */
                s = limber_apply(ctx, &e);
                if (fine) {
                    assert_int_equal(s, LIMBER_STATUS_OK);
                    refill();
                } else {
                    assert_refused_unchanged("apply", s, "overlap");
                }
            }
}

/* Runs the tests in a context with a disk cache that has an entry. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_values),      cmocka_unit_test(counts_of_arrays),
        cmocka_unit_test(sizes_of_matrices), cmocka_unit_test(batches),
        cmocka_unit_test(convolutions),      cmocka_unit_test(overlapping_arrays_are_refused),
    };
    char *folder;
    limber_report r = LIMBER_REPORT_INIT;
    int failed;

    clear_environment();
    folder = scratch();
    ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .threads = 1, .cache_dir = folder });
    if (small_gemm(ctx, &r)) /* creates a cache entry */
        return 1;
    limber_destroy(ctx);
    if (limber_create(&ctx, &(limber_config){
                                .size = sizeof(limber_config), .threads = 1, .cache_dir = folder }))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    limber_destroy(ctx);
    discard(folder);
    return failed;
}
