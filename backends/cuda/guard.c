/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that a stream captures into a graph.  Such a call must not allocate memory, copy from the
 * host, or wait.  When the graph runs, kernels scan the operands, with results in the caller's
 * workspace, and one kernel checks whether the operands are within the plan's bounds and chooses
 * between two plans.  The kernels of the plan and of the fallback are both launched; those that are
 * not chosen return at once. */
#include "backends/cuda/launch.h"
#include "ir/num/prim_num.h"

enum { ALIGN = 256, THREADS = 256 };

/* Device addresses in the caller's workspace.  For [A, B]: results of scans per line and per
 * pixel, flags of lines, and the largest exponent. choice: 0 to use this plan, 1 to use the
 * fallback. rest: the remaining workspace. */
struct guard_memory {
    cu_pointer found[2], pixels[2], special[2], most[2], choice, rest;
};

static cu_pointer align_up(cu_pointer at)
{
    return (at + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns the number of lines (rows of A or columns of B) over all matrices of an operand. */
static int64_t line_count(const struct call *c, int side)
{
    return limber_cuda_matrix_count(c, side) * (side ? c->n : c->m);
}

/* Assigns the workspace that begins at `at` to the arrays of the guard, the check of a captured
 * call's data. */
static struct guard_memory divide_workspace(cu_pointer at, const struct call *c)
{
    const int64_t lines[2] = { line_count(c, 0), line_count(c, 1) };
    struct guard_memory r;

    for (int i = 0; i < 2; i++) {
        r.found[i] = at;
        r.pixels[i] = align_up(at + (cu_pointer)lines[i] * SCAN_fields * sizeof(int32_t));
        r.special[i] =
            align_up(r.pixels[i] + limber_cuda_scan_pixels(i ? &c->b : &c->a, lines[i], c->k));
        at = align_up(r.special[i] + (cu_pointer)lines[i]);
    }
    r.choice = at;
    r.most[0] = at + sizeof(int32_t);
    r.most[1] = r.most[0] + sizeof(int32_t);
    r.rest = align_up(r.most[1] + sizeof(int32_t));
    return r;
}

size_t limber_cuda_guard_bytes(const struct call *c)
{
    return (size_t)divide_workspace(0, c).rest;
}

/* Queues the scan of one operand, and the check whether its data is within the bounds of the
 * plan. */
static bool start_scan(struct call *c, int side, const struct guard_memory *memory, struct diag *d)
{
    struct device_call r = { .kernel = c->guard->scan[side], .call = c };
    int64_t lines = line_count(c, side);
    const struct scan_call call = { .v = side ? &c->b : &c->a,
                                    .matrices = limber_cuda_matrix_count(c, side),
                                    .each = side ? c->each_b : c->each_a,
                                    .lines = side ? c->n : c->m,
                                    .length = c->k };
    const struct bounds *b = &c->guard->bounds[side];
    const struct scan_memory start = { memory->found[side], memory->pixels[side],
                                       side ? 0 : memory->choice, memory->most[side] };
    struct decide_args args = {
        .found = (const int32_t *)(uintptr_t)memory->found[side],
        .lines = lines,
        .special = (uint8_t *)(uintptr_t)memory->special[side],
        .choice = (int32_t *)(uintptr_t)memory->choice,
        .most = (int32_t *)(uintptr_t)memory->most[side],
        .emin = b->emin,
        .emax = b->emax,
        .spread = b->spread,
        .width = b->width,
        .sig = b->sig,
        .is_unsigned = b->is_unsigned,
        .may_be_special = b->special,
    };
    bool ok;

    if (!limber_cuda_enter(&r, d))
        return false;
    ok = limber_cuda_scan_start(&r, &call, &start, 1, d) &&
         limber_cuda_launch_kernel(&r, KERNEL_decide, (lines + THREADS - 1) / THREADS, THREADS, 0,
                                   &args, d);
    limber_cuda_leave(&r);
    return ok;
}

/* Returns the device address of the exponents that scale an operand: one per line, or one for all.
 * Returns 0 if the operand is not scaled. */
static cu_pointer scale_exponents(const struct kernel *k, const struct call *c,
                                  const struct guard_memory *memory, int side)
{
    switch (k->config.side[side].scaled) {
    case SCALED_lines:
        return memory->found[side] + (cu_pointer)line_count(c, side) * SCAN_emax * sizeof(int32_t);
    case SCALED_all: return memory->most[side];
    default: return 0;
    }
}

/* Queues the kernels of the plan or of the fallback.  When the graph runs, they do nothing unless
 * the guard (the check of the data) has chosen plan number `mine`. */
static bool run_kernel(struct kernel *k, struct call *c, const struct guard_memory *memory,
                       int32_t mine, struct diag *d)
{
    struct device_call r = { .kernel = k,
                             .call = c,
                             .guard.choice = memory->choice,
                             .guard.mine = mine,
                             .view = { c->a, c->b },
                             .place = c->c };
    bool ok;

    if (!limber_cuda_enter(&r, d))
        return false;
    for (int i = 0; i < 2; i++) {
        r.scales.emax[i] = scale_exponents(k, c, memory, i);
        r.scales.special[i] = k->config.special ? memory->special[i] : 0;
    }
    r.memory.given_bytes -= (size_t)(memory->rest - r.memory.given);
    r.memory.given = memory->rest;
    ok = limber_cuda_run(&r, d);
    limber_cuda_leave(&r);
    return ok;
}

/* Checks that a captured call needs nothing from the host: operands lie on the device, overflow
 * need not be reported, and the workspace is large enough.  Returns false with an error if not. */
static bool check_call(const struct kernel *k, const struct call *c, struct diag *d)
{
    const void *const at[3] = { c->a.data, c->b.data, c->c.data };
    struct device_call r = { .device = limber_cuda_device(c->device, d) };
    size_t least, most, other = 0;

    if (!r.device)
        return false;
    r.driver = r.device->driver;
    for (int i = 0; i < 3; i++)
        if (!limber_cuda_on_device(&r, at[i]))
            return limber_fail(d, LIMBER_STATUS_DEVICE,
                               "%c lies in host memory: it cannot be recorded", "abc"[i]);
    if (limber_num_is_int(k->config.result) && !k->config.wrap)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "an exact integer result cannot be recorded: whether "
                           "it fits is known when it is played");
    limber_cuda_workspace(k, c, &least, &most);
    if (c->guard->fallback)
        limber_cuda_workspace(c->guard->fallback, c, &other, &most);
    least = other > least ? other : least;
    if (!c->queue->workspace || c->queue->bytes < least)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "queue.bytes = %zu: a recorded call needs a workspace "
                           "of at least %zu bytes",
                           c->queue->workspace ? c->queue->bytes : 0, least);
    return true;
}

/* Queues scans, checks, and the kernels of the plan and of the fallback. */
bool limber_cuda_guarded(struct kernel *k, struct call *c, struct diag *d)
{
    struct guard_memory memory;

    if (c->m == 0 || c->n == 0)
        return true;
    if (!check_call(k, c, d))
        return false;
    memory = divide_workspace((cu_pointer)(uintptr_t)c->queue->workspace, c);
    /* without scans, this plan is correct for any data and needs no check */
    if (!c->guard->scan[0]) {
        memory.choice = 0;
        return run_kernel(k, c, &memory, 0, d);
    }
    return start_scan(c, 0, &memory, d) && start_scan(c, 1, &memory, d) &&
           run_kernel(k, c, &memory, 0, d) && run_kernel(c->guard->fallback, c, &memory, 1, d);
}
