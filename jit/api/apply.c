/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls of elementwise functions and reductions, with their argument checks. */
#include "jit/api/api.h"
#include "jit/device.h"
#include "jit/operators/operators.h"

#include <string.h>

/* Checks that both arrays lie in host memory, or both on the context's device.  *on_device: true if
 * they lie on the device. */
static bool check_memory(limber_context *ctx, const limber_elementwise *e, bool *on_device,
                         struct diag *d)
{
    bool in_device_memory = e->count && ctx && limber_device_holds(ctx, e->dst);

    *on_device = in_device_memory;
    if (e->count && ctx && in_device_memory != limber_device_holds(ctx, e->src))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s lies in a device's memory, but %s in the host's",
                           in_device_memory ? "dst" : "src", in_device_memory ? "src" : "dst");
    return in_device_memory || !e->queue ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "queue is for arrays on a device");
}

/* Computes the function on the context's device, as an epilogue with a single step. */
static bool run_on_device(limber_context *ctx, const limber_elementwise *e, struct diag *d)
{
    const int64_t count = (int64_t)e->count;
    const struct steps steps = {
        .count = 1,
        .step = { { .op = STEP_function, .function = e->function, .number = { e->p, e->q } } }
    };
    const struct epilogue all = {
        .steps = &steps,
        .compute = e->compute == LIMBER_COMPUTE_F32 ? LIMBER_F32 : LIMBER_F64,
        .rounding = e->rounding,
        .once = true,
        .planes = 1,
        .rows = 1,
        .cols = count,
        .from = { e->src, e->from, count, 1, 0 },
        .to = { e->dst, e->to, count, 1, 0 },
    };
    struct entry *entry;
    bool ok = limber_device_stepper(ctx, &all, &entry, d);

    if (ok) {
        ok = limber_device_steps(ctx, entry, &all, e->queue, d);
        limber_kernels_put(ctx->memory, entry);
    }
    return ok;
}

/* Checks the arguments and computes an elementwise operation, in host or device memory. */
limber_status limber_apply(limber_context *ctx, const limber_elementwise *elementwise)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    limber_elementwise e;
    bool on_device;

    if (!elementwise)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "e is NULL");
    else if (limber_copy_sized_in(&e, sizeof e, elementwise, LEAST_elementwise, "e", &d) &&
             limber_function_check(&e, &d) &&
             limber_check_arrays(e.dst, e.to, e.src, e.from, e.count, &d) &&
             check_memory(ctx, &e, &on_device, &d)) {
        if (on_device)
            run_on_device(ctx, &e, &d);
        else
            limber_elementwise_run(ctx, &e);
    }
    if (d.status)
        limber_fail_in(&d, "apply");
    return limber_error_set(&d);
}

/* ---- checks of reductions -------------------------------------------------------------------- */

/* Checks the enumerators and scalars of a reduction, and that they can be combined. */
static bool check_options(const limber_reduce_call *r, struct diag *d)
{
    char text[64];
    int rest = r->reduction == LIMBER_REDUCTION_VARIANCE ? r->correction : 0;

    if ((unsigned)r->reduction >= LIMBER_REDUCTION_COUNT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "reduction = %d is unknown",
                           (int)r->reduction);
    if ((unsigned)r->carry > LIMBER_CARRY_STORAGE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "carry = %d is unknown", (int)r->carry);
    if ((unsigned)r->rounding > LIMBER_ROUND_ODD)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "rounding = %d is no rounding of arrays",
                           (int)r->rounding);
    if (r->correction < 0 || r->correction > 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "correction = %d is neither 0 nor 1",
                           r->correction);
    if (!(r->epsilon >= 0) || r->epsilon > 1e300)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "epsilon = %g is negative or too large",
                           r->epsilon);
    if (r->outer && r->inner && r->reduction != LIMBER_REDUCTION_SUM &&
        r->reduction != LIMBER_REDUCTION_MAX && r->count <= (size_t)rest)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "count = %zu is too small", r->count);
    if (r->carry == LIMBER_CARRY_STORAGE && r->from.frac_bits > 24 &&
        !limber_format_equal(r->from, LIMBER_F64))
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT,
            "from: steps are not carried in %s, which has more than 24 fraction bits",
            limber_format_name(r->from, text, sizeof text));
    return true;
}

/* Checks that the format is a float whose values are values of binary64. */
static bool check_float(const char *what, limber_format f, struct diag *d)
{
    char text[64];

    return limber_format_check(what, f, d) &&
           (limber_format_embeds(f, LIMBER_F64) && f.kind == LIMBER_KIND_FLOAT ?
                true :
                limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                            "%s: %s is no float whose values are values of binary64", what,
                            limber_format_name(f, text, sizeof text)));
}

/* Checks that formats that need a NaN have one: the result's format, and the array's if each step
 * is rounded to it. nan_to_zero permits formats without NaN, in which 0 is stored. */
static bool check_nan(const limber_reduce_call *r, struct diag *d)
{
    bool from = r->carry == LIMBER_CARRY_STORAGE && r->from.flags & LIMBER_FORMAT_FINITE;
    char text[64];

    return r->nan_to_zero || (!from && !(r->to.flags & LIMBER_FORMAT_FINITE)) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s: %s has no NaN, which %s can give; nan_to_zero = 1 stores 0 for it",
                       from ? "from" : "to",
                       limber_format_name(from ? r->from : r->to, text, sizeof text),
                       from ? "its steps" : "results");
}

/* True if n bytes at a and m bytes at b do not overlap. */
static bool is_apart(const void *a, size_t n, const void *b, size_t m)
{
    return !n || !m || (const char *)a + n <= (const char *)b ||
           (const char *)b + m <= (const char *)a;
}

/* Checks sizes and addresses: no size is too large, no array is NULL, and results do not overlap
 * operands. */
static bool check_sizes_and_addresses(const limber_reduce_call *r, struct diag *d)
{
    bool all = r->reduction >= LIMBER_REDUCTION_SOFTMAX, /* every element has a result */
        norm = r->reduction > LIMBER_REDUCTION_SOFTMAX;
    size_t elements, kept, line = r->count * r->from.size, array = r->inner * r->from.size;

    if (__builtin_mul_overflow(r->outer, r->count, &elements) ||
        __builtin_mul_overflow(elements, r->inner, &elements) || elements > PTRDIFF_MAX / 16 ||
        __builtin_mul_overflow(r->outer, r->inner, &kept) || kept > PTRDIFF_MAX / 16)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "outer, count and inner = %zu, %zu, %zu are too large", r->outer,
                           r->count, r->inner);
    kept = all ? elements : kept;
    if (r->arrays && (r->src || r->outer != 1))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "arrays: %s",
                           r->src ? "src is given, too" : "outer is not 1");
    for (size_t i = 0; r->arrays && r->inner && i < r->count; i++)
        if (!r->arrays[i] || (!is_apart(r->dst, kept * r->to.size, r->arrays[i], array) &&
                              (r->arrays[i] != r->dst || all || r->to.size != r->from.size)))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "arrays[%zu] %s", i,
                               r->arrays[i] ? "and dst overlap" : "is NULL");
    if ((elements && !r->src && !r->arrays) || (kept && !r->dst))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL",
                           r->src || r->arrays ? "dst" : "src");
    if (!norm && (r->scale || r->shift))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is for norms",
                           r->scale ? "scale" : "shift");
    if (r->src && !is_apart(r->dst, kept * r->to.size, r->src, elements * r->from.size))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "dst and src overlap");
    if ((r->scale && !is_apart(r->dst, kept * r->to.size, r->scale, line)) ||
        (r->shift && !is_apart(r->dst, kept * r->to.size, r->shift, line)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "dst overlaps scale or shift");
    return true;
}

/* Checks that all arrays of a reduction lie in host memory. */
static bool check_host(limber_context *ctx, const limber_reduce_call *r, struct diag *d)
{
    const void *const all[] = { r->src, r->dst, r->scale, r->shift };
    static const char *const names[] = { "src", "dst", "scale", "shift" };

    for (size_t i = 0; ctx && r->arrays && i < r->count; i++)
        if (limber_device_holds(ctx, r->arrays[i]))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "arrays[%zu] lies in a device's memory; reductions read the host's",
                               i);
    for (size_t i = 0; ctx && i < COUNT(all); i++)
        if (all[i] && limber_device_holds(ctx, all[i]))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s lies in a device's memory; reductions read the host's",
                               names[i]);
    return true;
}

/* Checks the arguments and computes a reduction.  Arrays must lie in host memory. */
limber_status limber_reduce(limber_context *ctx, const limber_reduce_call *call)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    limber_reduce_call r;

    if (!call)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "r is NULL");
    else if (limber_copy_sized_in(&r, sizeof r, call, LEAST_reduce_call, "r", &d) &&
             check_float("from", r.from, &d) && check_float("to", r.to, &d) &&
             check_options(&r, &d) && check_nan(&r, &d) && check_sizes_and_addresses(&r, &d) &&
             check_host(ctx, &r, &d))
        limber_reduce_run(ctx, &r);
    if (d.status)
        limber_fail_in(&d, "reduce");
    return limber_error_set(&d);
}
