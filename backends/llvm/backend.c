/* SPDX-License-Identifier: BSD-3-Clause
 * The LLVM backend: chooses the way (code path) of a launch, prepares scales and special values
 * before the parts of C are computed, and describes launches for plans.  Launching does not use
 * LLVM. */
#include "backends/llvm/windows.h"
#include "ir/unit/num.h"

#include <stdlib.h>

/* Returns the bytes of an operand's scales: one int32_t per line (row of A or column of B). */
static int64_t scales_bytes(const struct side *s, int64_t lines)
{
    return is_scaled(s) ? round_up((lines + 1) * 4, 64) : 0;
}

/* Computes the scale of each line (row of A or column of B) from the scanned exponents.  Stores the
 * scales at *memory and advances *memory past them.  Sets *out to the scales, or to NULL if the
 * plan does not scale this operand. */
static bool line_scales(const struct side *s, const struct mask *m, int64_t lines, char **memory,
                        int32_t **out, struct diag *d)
{
    int32_t most = INT32_MIN;

    *out = NULL;
    if (!is_scaled(s))
        return true;
    if (!m || !m->line_emax)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "llvm: a scaled operand without its scan");
    *out = (int32_t *)(void *)*memory;
    *memory += scales_bytes(s, lines);
    for (int64_t i = 0; i < lines; i++) {
        (*out)[i] = m->line_emax[i] == INT32_MIN ? 0 : s->top - 1 - m->line_emax[i];
        most = m->line_emax[i] > most ? m->line_emax[i] : most;
    }
    /* all lines share one scale, that of the largest element */
    for (int64_t i = 0; i < lines && s->axis == AXIS_all; i++)
        (*out)[i] = most == INT32_MIN ? 0 : s->top - 1 - most;
    return true;
}

/* Returns alpha or beta as a double; `otherwise` if the caller gave none. */
static double read_scalar(const struct kernel_config *c, const void *p, double otherwise)
{
    return p ? limber_format_value(c->scalars, p) : otherwise;
}

/* Returns flags of the lines that contain NaN or infinities, or NULL if no line does. */
static const uint8_t *special_lines(const struct mask *m)
{
    return m && m->special ? m->line_special : NULL;
}

/* ---- simulated units, and the way of a launch ------------------------------------------------ */

/* Returns the number of additions to outer sums, over all elements of C: one for each group of k
 * and, if the unit splits k, one for each section of k. */
static int64_t count_outer_additions(const limber_unit *u, const struct call *c)
{
    int64_t from = 0, sums = 0;

    for (int64_t part = 1; from < c->k; part++) {
        const int64_t to = u->split > 1 ? limber_unit_part_begin(u, c->k, part) : c->k;

        sums += (u->split > 1) + limber_unit_groups(u, to - from);
        from = to;
    }
    return sums * c->m * c->n;
}

/* Runs the plan of a simulated unit.  Passes on the seed of stochastic rounding, and counts
 * additions to outer sums. */
static bool run_model(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, const struct kept_layout *kept,
                      struct diag *d)
{
    call.seed = c->seed;
    call.counts = &c->out.counts;
    if (k->config.counts)
        c->out.counts.outer_sums += count_outer_additions(&k->config.model, c);
    return limber_parts_run(k, c, call, given, kept, d);
}

/* True if C has no elements. */
static bool is_empty(const struct call *c)
{
    return c->m == 0 || c->n == 0;
}

/* The way (code path) of a launch, and the state of this way. */
struct layout {
    enum way_id way;
    int64_t bytes; /* bytes of workspace; 0 for WAY_packed, which determines its workspace later */
    /* [way]: reason why this way (code path) refuses the call; NULL if it accepts */
    const char *why[WAY_count];
    union {
        struct windows windows;
        struct unpacked unpacked;
    };
};

/* Finds the first way (code path) that accepts the call.  *l must not be copied: it contains
 * pointers into itself and to the call. */
static void find_way(const struct kernel *k, const struct call *c, struct layout *l)
{
    if (!(l->why[WAY_windows] = limber_windows_refuses(k, c, &l->windows))) {
        l->way = WAY_windows;
        l->bytes = l->windows.bytes;
    } else if (!(l->why[WAY_unpacked] = limber_unpacked_refuses(k, c, &l->unpacked))) {
        l->way = WAY_unpacked;
        l->bytes = l->unpacked.bytes;
    } else {
        l->way = WAY_packed;
        l->bytes = 0;
    }
}

/* Implements code_ops.workspace.  *least: smallest workspace with which a call runs.  *most:
 * workspace that holds all limbs at once. */
static void workspace(const struct kernel *k, const struct call *of, size_t *least, size_t *most)
{
    const struct kernel_config *f = &k->config;
    const struct call straight = limber_straightened(of), *c = &straight;
    const struct kernel_call call = { .m = c->m,
                                      .n = c->n,
                                      .k = c->k,
                                      .stores = limber_can_store_tiles(f, c),
                                      .op = { { .view = c->a }, { .view = c->b } } };
    const struct launch_operands w = limber_init_launch_operands(f, c);
    struct call small = *c, large = *c;
    struct layout l;
    struct part_size x;

    *least = *most = 0;
    if (is_empty(c))
        return;
    find_way(k, c, &l);
    small.workspace_limit = 0;
    x = limber_extent_of(f, &small, &call, &w);
    *least = (size_t)limber_extent_bytes(f, c, &w, &x);
    large.workspace_limit = SIZE_MAX / 4;
    x = limber_extent_of(f, &large, &call, &w);
    *most = (size_t)(l.way != WAY_packed ? l.bytes : limber_extent_bytes(f, c, &w, &x));
    *least = *least < *most ? *least : *most;
}

/* ---- scales and special values --------------------------------------------------------------- */

/* A search of both operands for special values.  Each task searches some lines. */
struct specials {
    struct classes of[2];
    const struct call *call;
    const struct kernel_config *config;
};

/* Task: records for some lines of A or B which elements are positive, negative, infinite or NaN. */
static void run_classes(void *arg, int64_t task, int worker)
{
    struct specials *s = arg;
    const struct call *c = s->call;
    int64_t tasks = ceil_div(c->m, KERNEL_LANES);
    bool right = task >= tasks;

    (void)worker;
    limber_classes_fill(&s->of[right], right ? &c->b : &c->a, s->config->side[right].f,
                        right ? c->n : c->m, c->k, right ? task - tasks : task);
}

/* True if kernels need a record of NaN and infinities, since their limbs or sums cannot hold
 * them. */
static bool needs_special_records(const struct kernel_config *f)
{
    return f->side[0].limb_kind != LIMB_KIND_half && f->unit != UNIT_model &&
           (f->side[0].limb_kind != LIMB_KIND_whole || f->unit == UNIT_exact || f->norms);
}

/* Records both operands' special values in `memory`, if the scan found NaN or infinities. */
static void find_specials(struct specials *s, const struct kernel_config *f, const struct call *c,
                          char *memory)
{
    int64_t bytes;

    *s = (struct specials){ .call = c, .config = f };
    if ((!special_lines(c->mask_a) && !special_lines(c->mask_b)) || !needs_special_records(f))
        return;
    bytes = round_up(limber_classes_bytes(c->m, c->k), 64);
    limber_classes_set(&s->of[0], c->m, c->k, memory);
    limber_classes_set(&s->of[1], c->n, c->k, memory + bytes);
    c->runner->run(c->runner->self, ceil_div(c->m, KERNEL_LANES) + ceil_div(c->n, KERNEL_LANES),
                   run_classes, s);
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* Returns the bytes that a launch needs beside its parts' workspace: both operands' scales and, if
 * `any` is set, the records of special values. */
static int64_t scales_and_records_bytes(const struct kernel_config *f, const struct call *c,
                                        bool any)
{
    int64_t bytes = scales_bytes(&f->side[0], c->m) + scales_bytes(&f->side[1], c->n);

    if (any && needs_special_records(f))
        bytes += round_up(limber_classes_bytes(c->m, c->k), 64) +
                 round_up(limber_classes_bytes(c->n, c->k), 64);
    return bytes;
}

/* Implements launch_memory_ops.bytes: scales, records of special values, and the smallest workspace
 * of a part of C. */
static size_t memory_bytes(const struct kernel *k, const struct call *of)
{
    const struct kernel_config *f = &k->config;
    const struct call straight = limber_straightened(of), *c = &straight;
    const struct kernel_call call = { .m = c->m,
                                      .n = c->n,
                                      .k = c->k,
                                      .stores = limber_can_store_tiles(f, c),
                                      .op = { { .view = c->a }, { .view = c->b } } };
    const struct launch_operands w = limber_init_launch_operands(f, c);
    int64_t beside = scales_and_records_bytes(f, c, true);
    const struct launch_memory later = { NULL };
    struct call less = *c, given = *c;
    struct layout l;
    struct part_size x;

    if (is_empty(c))
        return 0;
    given.launch_memory = &later; /* find_way tests whether a launch has launch memory */
    find_way(k, &given, &l);
    if (l.way != WAY_packed)
        return (size_t)l.bytes;
    less.workspace_limit -= (size_t)smaller(beside, (int64_t)c->workspace_limit);
    x = limber_extent_of(f, &less, &call, &w);
    return (size_t)(beside + limber_extent_bytes(f, c, &w, &x));
}

/* Computes the launch by the library's code of the way `windows` or `unpacked`, as l->way says. */
static bool run_library(const struct kernel *k, struct call *c, struct layout *l, struct diag *d)
{
    const struct launch_memory none = { NULL };
    struct launch_memory memory;

    if (!limber_workspace_use_given(c, c->launch_memory ? c->launch_memory : &none,
                                    (size_t)l->bytes, &memory, d))
        return false;
    c->out.workspace = (size_t)l->bytes;
    if (l->way == WAY_windows) {
        limber_windows_run(&l->windows, memory.memory);
        c->out.finished = c->finish != NULL;
    } else {
        c->out.finished = limber_unpacked_run(k, &l->unpacked, memory.memory);
    }
    if (!c->launch_memory)
        limber_workspace_give(c, &memory);
    return true;
}

/* Implements backend.launch: computes by the first way (code path) that accepts the call.  For the
 * way `packed`, first computes scales and records NaN and infinities. */
static bool launch(struct kernel *k, struct call *c, struct diag *d)
{
    const struct kernel_config *f = &k->config;
    const bool records = c->launch_memory || special_lines(c->mask_a) || special_lines(c->mask_b);
    const bool scales = is_scaled(&f->side[0]) || is_scaled(&f->side[1]);
    int64_t bytes = records || scales ? scales_and_records_bytes(f, c, records) : 0;
    const struct kept_layout *kept = limber_layout_kept(c);
    struct launch_memory rest = { .memory = NULL };
    int32_t *scale_a = NULL, *scale_b = NULL;
    struct specials specials;
    char *beside, *at;
    struct layout l;
    bool ok;

    if (c->a.patch)
        limber_view_straighten(&c->a, c->m);
    if (c->b.patch)
        limber_view_straighten(&c->b, c->n);
    c->out.overflow = 0;
    c->out.recomputed = c->out.recomputed_ns = 0;
    c->out.workspace = 0;
    c->out.way = WAY_packed;
    c->out.finished = false;
    if (is_empty(c))
        return true;
    if (!kept) {
        find_way(k, c, &l);
        c->out.way = l.way;
        if (l.way != WAY_packed)
            return run_library(k, c, &l, d);
    }
    /* The caller's memory may begin at any address.  The parts' workspace has slack for aligning
     * it. */
    beside = c->launch_memory ? limber_aligned(c->launch_memory->memory) :
             bytes            ? malloc((size_t)bytes) :
                                NULL;
    if (bytes && !beside)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    /* the bytes after scales and records are workspace for the parts of C */
    if (c->launch_memory) {
        rest =
            (struct launch_memory){ beside + bytes, c->launch_memory->bytes - (size_t)bytes, NULL };
        c->workspace_limit = rest.bytes;
    }
    at = beside;
    ok = !scales || (line_scales(&f->side[0], c->mask_a, c->m, &at, &scale_a, d) &&
                     line_scales(&f->side[1], c->mask_b, c->n, &at, &scale_b, d));
    if (ok) {
        struct kernel_call call = {
            .config = f,
            .cold = &limber_kernel_cold,
            .m = c->m,
            .n = c->n,
            .k = c->k,
            .c = c->c,
            .alpha = c->alpha,
            .beta = c->beta,
            .alpha_f64 = read_scalar(f, c->alpha, 1),
            .beta_f64 = read_scalar(f, c->beta, 0),
            .recomputed = &c->out.recomputed,
            .recomputed_ns = &c->out.recomputed_ns,
            .op = { { .view = c->a, .scale = scale_a, .special = special_lines(c->mask_a) },
                    { .view = c->b, .scale = scale_b, .special = special_lines(c->mask_b) } },
            .classes = specials.of,
        };

        find_specials(&specials, f, c, at);
        ok = f->unit == UNIT_model ? run_model(k, c, call, &rest, kept, d) :
                                     limber_parts_run(k, c, call, &rest, kept, d);
    }
    if (!c->launch_memory)
        free(beside);
    return ok;
}

/* ---- description of launches for plans ------------------------------------------------------- */

/* Returns the word with which plans say how B is read. */
static const char *source_name(enum source s)
{
    switch (s) {
    case SOURCE_rows: return "rows";
    case SOURCE_lines: return "lines";
    case SOURCE_filters: return "filters";
    case SOURCE_planes: return "planes";
    default: return "taps";
    }
}

/* Returns the word with which plans say how rows of A are read. */
static const char *rows_name(const struct unpacked_product *p)
{
    return p->gathers              ? "gathered" :
           p->rows == ROWS_windows ? "windows" :
           p->rows == ROWS_taps    ? "taps" :
                                     "rows";
}

/* Prints how operands are read, on the plan's line that names the way (code path), and then a line
 * for each way that refuses the call. */
static void print_description(const struct layout *l, const struct kernel_config *f,
                              const struct call *c, struct text *out)
{
    const struct unpacked_product *p = &l->unpacked.product;
    const struct launch_operands w = limber_init_launch_operands(f, c);

    if (l->way == WAY_windows)
        limber_text_add(out, " load_a=filters load_b=%s",
                        l->windows.planes ? "planes" :
                        l->windows.copies ? "frame" :
                                            "windows");
    else if (l->way == WAY_unpacked)
        limber_text_add(out, " load_a=%s load_b=%s%s", rows_name(p), source_name(p->source),
                        p->turned ? " turned" : "");
    else
        limber_text_add(out, " load_a=%s load_b=%s", w.filters.turned ? "filters" : "panels",
                        w.planes ? "planes" : "panels");
    for (int i = 0; i < WAY_packed; i++)
        if (l->why[i])
            limber_text_add(out, "\n; not %s: %s", limber_way_name((enum way_id)i), l->why[i]);
}

/* Implements backend.predict_way: returns the way (code path) that computes this call under this
 * plan, and prints why earlier ways refuse the call. */
static enum way_id predict_way(const struct plan *p, const struct target *t, const struct call *of,
                               struct text *out)
{
    const struct call straight = limber_straightened(of), *c = &straight;
    struct kernel *k = calloc(1, sizeof *k);
    struct layout l = { .way = WAY_none };
    struct diag ignored = { 0 };
    bool served = k && limber_kernel_config(p, t, &k->config, &ignored);

    if (served && c->conv && is_empty(c)) {
        /* find_way would divide by the number of pixels, which is 0 */
        l.way = WAY_packed;
    } else if (served) {
        k->cpu = limber_cpu_of(t);
        find_way(k, c, &l);
        if (out)
            print_description(&l, &k->config, c, out);
    }
    free(k);
    return l.way;
}

/* Implements cpu_ops.small: double-double sums, by the code for this CPU's instruction set. */
static int64_t small(const struct call *c, const struct target *t, limber_format a, limber_format b,
                     limber_format to, double allowed)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_pairs *run = (c->m == 1 || c->n == 1) && c->k > 0 ? LIMBER_CODE(cpu, limber_dots_run) :
                                                               LIMBER_CODE(cpu, limber_pairs_run);

    return run(c, a, b, to, allowed);
}

/* Implements cpu_ops.vectors: the sums of a matrix-vector product, by the code for this CPU's
 * instruction set. */
static void vectors(const struct vector_sums *s, const struct target *t)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_sums *run = s->size == 8 ? LIMBER_CODE(cpu, limber_vectors_sums64) :
                                      LIMBER_CODE(cpu, limber_vectors_sums32);

    run(s);
}

static const struct launch_memory_ops launch_memory_ops = { memory_bytes, limber_workspace_take,
                                                            limber_workspace_give };

static const struct code_ops code_ops = { .open = limber_llvm_open,
                                          .compiler = limber_llvm_code,
                                          .key = limber_blob_key,
                                          .workspace = workspace,
                                          .source = limber_blob_source,
                                          .source_name = "kernel.c",
                                          .named = limber_llvm_named };

static const struct cpu_ops cpu_ops = { .fixed = &limber_llvm_functions,
                                        .direct = limber_direct,
                                        .small = small,
                                        .vectors = vectors,
                                        .depthwise = &limber_llvm_depthwise,
                                        .functions = &limber_llvm_elementwise,
                                        .int8 = &limber_llvm_int8,
                                        .prebuilt = limber_blob_prebuilt,
                                        .compile_seconds = 0.1,
                                        .specialised_saves = 0.05 };

const struct backend limber_backend_llvm = {
    .name = "llvm",
    .probe = limber_llvm_probe,
    .compile = limber_blob_compile,
    .load = limber_blob_load,
    .launch = launch,
    .unload = limber_blob_unload,
    .predict_way = predict_way,
    .code = &code_ops,
    .cpu = &cpu_ops,
    .launch_memory = &launch_memory_ops,
};
