/* SPDX-License-Identifier: BSD-3-Clause
 * The LLVM backend: the way of a launch, what it has beside its parts, and what a plan says of it.
 * Launching does not touch LLVM. */
#include "backends/llvm/windows.h"
#include "ir/unit/num.h"

#include <stdlib.h>

/* Bytes of an operand's scales: one int32_t a line. */
static int64_t scales_bytes(const struct side *s, int64_t lines)
{
    return is_scaled(s) ? round_up((lines + 1) * 4, 64) : 0;
}

/* Computes each line's scale from the mask.  The scales lie at *memory, which moves behind them.
 * *out is NULL if the plan does not scale. */
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
    for (int64_t i = 0; i < lines && s->axis == AXIS_all; i++)
        (*out)[i] = most == INT32_MIN ? 0 : s->top - 1 - most;
    return true;
}

/* Reads alpha or beta in C's format; `otherwise` if the caller gave none. */
static double read_scalar(const struct kernel_config *c, const void *p, double otherwise)
{
    return p ? limber_format_value(c->scalars, p) : otherwise;
}

/* One flag a line: it holds NaN or infinities.  NULL if no line does. */
static const uint8_t *special(const struct mask *m)
{
    return m && m->special ? m->line_special : NULL;
}

/* ---- simulated units, and how a part is computed ------------------------------------------- */

/* Counts the additions of groups' sums and of parts of k to outer sums, over all elements of C. */
static int64_t outer_sums(const limber_unit *u, const struct call *c)
{
    int64_t length = limber_unit_part(u, c->k), sums = 0;

    for (int64_t p = 0; p < c->k; p += u->split > 1 ? length : c->k) {
        int64_t part = u->split > 1 && c->k - p > length ? length : c->k - p;

        sums += (u->split > 1) + limber_unit_groups(u, part);
    }
    return sums * c->m * c->n;
}

/* Runs a plan of a simulated unit, with its seed, and counts its outer sums. */
static bool run_model(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, struct diag *d)
{
    call.seed = c->seed;
    call.counts = &c->counts;
    if (k->config.counts)
        c->counts.outer_sums += outer_sums(&k->config.model, c);
    return limber_parts_run(k, c, call, given, d);
}

static bool is_empty(const struct call *c)
{
    return c->m == 0 || c->n == 0;
}

/* The way that a launch takes, and the product as that way reads it. */
struct layout {
    enum way_id way;
    int64_t bytes; /* workspace; 0 for WAY_packed */
    const char *why[WAY_count]; /* reason of each way that refuses */
    union {
        struct windows windows;
        struct unpacked unpacked;
    };
};

/* *l must not be copied: it points into itself and to the call. */
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

/* Workspace of a call: the least with which it runs, and that which holds all limbs at once. */
static void workspace(const struct kernel *k, const struct call *of, size_t *least, size_t *most)
{
    const struct kernel_config *f = &k->config;
    const struct call straight = limber_straightened(of), *c = &straight;
    const struct kernel_call call = { .m = c->m,
                                      .n = c->n,
                                      .k = c->k,
                                      .stores = limber_stores(f, c),
                                      .op = { { .view = c->a }, { .view = c->b } } };
    const struct whole w = limber_whole_of(f, c);
    struct call small = *c, large = *c;
    struct layout l;
    struct extent x;

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

/* ---- classes and special values, found beside the parts -------------------------------------- */

/* Scanning both operands for special values, a task for some lines. */
struct specials {
    struct classes of[2];
    const struct call *call;
    const struct kernel_config *config;
};

/* Task: classifies the elements of some lines of A or B (positive, negative, infinite, NaN). */
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

/* True if kernels need to know which elements NaN and infinities decide. */
static bool looks_for_specials(const struct kernel_config *f)
{
    return f->side[0].limb_kind != LIMB_KIND_half && f->unit != UNIT_model &&
           (f->side[0].limb_kind != LIMB_KIND_whole || f->unit == UNIT_exact || f->norms);
}

/* Classifies both operands' elements if the scan found NaN or infinities. */
static void find_specials(struct specials *s, const struct kernel_config *f, const struct call *c,
                          char *memory)
{
    int64_t bytes = round_up(limber_classes_bytes(c->m, c->k), 64);

    *s = (struct specials){ .call = c, .config = f };
    if (!looks_for_specials(f) || (!special(c->mask_a) && !special(c->mask_b)))
        return;
    limber_classes_set(&s->of[0], c->m, c->k, memory);
    limber_classes_set(&s->of[1], c->n, c->k, memory + bytes);
    c->runner->run(c->runner->self, ceil_div(c->m, KERNEL_LANES) + ceil_div(c->n, KERNEL_LANES),
                   run_classes, s);
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* Bytes of both operands' scales and, if there may be special values, of their classes. */
static int64_t beside_bytes(const struct kernel_config *f, const struct call *c, bool any)
{
    int64_t bytes = scales_bytes(&f->side[0], c->m) + scales_bytes(&f->side[1], c->n);

    if (any && looks_for_specials(f))
        bytes += round_up(limber_classes_bytes(c->m, c->k), 64) +
                 round_up(limber_classes_bytes(c->n, c->k), 64);
    return bytes;
}

/* Bytes of a launch that is given its memory: scales, classes, and what any part needs. */
static size_t memory_bytes(const struct kernel *k, const struct call *of)
{
    const struct kernel_config *f = &k->config;
    const struct call straight = limber_straightened(of), *c = &straight;
    const struct kernel_call call = { .m = c->m,
                                      .n = c->n,
                                      .k = c->k,
                                      .stores = limber_stores(f, c),
                                      .op = { { .view = c->a }, { .view = c->b } } };
    const struct whole w = limber_whole_of(f, c);
    int64_t beside = beside_bytes(f, c, true);
    const struct launch_memory later = { NULL };
    struct call less = *c, given = *c;
    struct layout l;
    struct extent x;

    if (is_empty(c))
        return 0;
    given.launch_memory = &later; /* finds the same way as the launch */
    find_way(k, &given, &l);
    if (l.way != WAY_packed)
        return (size_t)l.bytes;
    less.workspace_limit -= (size_t)smaller(beside, (int64_t)c->workspace_limit);
    x = limber_extent_of(f, &less, &call, &w);
    return (size_t)(beside + limber_extent_bytes(f, c, &w, &x));
}

/* Computes the launch by code of the library. */
static bool run_library(const struct kernel *k, struct call *c, struct layout *l, struct diag *d)
{
    const struct launch_memory none = { NULL };
    struct launch_memory memory;

    if (!limber_workspace_reach(c, c->launch_memory ? c->launch_memory : &none, (size_t)l->bytes,
                                &memory, d))
        return false;
    c->workspace = (size_t)l->bytes;
    if (l->way == WAY_windows) {
        limber_windows_run(&l->windows, memory.memory);
        c->finished = c->finish != NULL;
    } else {
        c->finished = limber_unpacked_run(k, &l->unpacked, memory.memory);
    }
    if (!c->launch_memory)
        limber_workspace_give(c, &memory);
    return true;
}

/* Implements backend.launch: finds special values, then computes by the first way that serves. */
static bool launch(struct kernel *k, struct call *c, struct diag *d)
{
    const struct kernel_config *f = &k->config;
    int64_t bytes =
        beside_bytes(f, c, c->launch_memory || special(c->mask_a) || special(c->mask_b));
    struct launch_memory rest = { .memory = NULL };
    int32_t *scale_a, *scale_b;
    struct specials specials;
    char *beside, *at;
    struct layout l;
    bool ok;

    limber_view_straighten(&c->a, c->m);
    limber_view_straighten(&c->b, c->n);
    c->overflow = 0;
    c->recomputed = c->recomputed_ns = 0;
    c->workspace = 0;
    c->way = WAY_packed;
    c->finished = false;
    if (is_empty(c))
        return true;
    find_way(k, c, &l);
    c->way = l.way;
    if (l.way != WAY_packed)
        return run_library(k, c, &l, d);
    /* A caller's memory may begin anywhere.  What follows has room to begin at a line of cache, and
     * does so here. */
    beside = c->launch_memory ? limber_aligned(c->launch_memory->memory) :
             bytes            ? malloc((size_t)bytes) :
                                NULL;
    if (bytes && !beside)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    /* the rest is for the parts' panels; prepared operands need none of it */
    if (c->launch_memory) {
        rest =
            (struct launch_memory){ beside + bytes, c->launch_memory->bytes - (size_t)bytes, NULL };
        c->workspace_limit = rest.bytes;
    }
    at = beside;
    ok = line_scales(&f->side[0], c->mask_a, c->m, &at, &scale_a, d) &&
         line_scales(&f->side[1], c->mask_b, c->n, &at, &scale_b, d);
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
            .recomputed = &c->recomputed,
            .recomputed_ns = &c->recomputed_ns,
            .op = { { .view = c->a, .scale = scale_a, .special = special(c->mask_a) },
                    { .view = c->b, .scale = scale_b, .special = special(c->mask_b) } },
            .classes = specials.of,
        };

        find_specials(&specials, f, c, at);
        ok = f->unit == UNIT_model ? run_model(k, c, call, &rest, d) :
                                     limber_parts_run(k, c, call, &rest, d);
    }
    if (!c->launch_memory)
        free(beside);
    return ok;
}

/* ---- what a plan says of its launches -------------------------------------------------------- */

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

static const char *rows_name(const struct product *p)
{
    return p->gathers              ? "gathered" :
           p->rows == ROWS_windows ? "windows" :
           p->rows == ROWS_taps    ? "taps" :
                                     "rows";
}

/* Prints how operands are read, for the line of a plan that names its way. */
static void describe(const struct layout *l, const struct kernel_config *f, const struct call *c,
                     struct text *out)
{
    const struct product *p = &l->unpacked.product;
    const struct whole w = limber_whole_of(f, c);

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

/* Implements backend.way: the way of this call under this plan, and why the ways before it
 * refuse. */
static enum way_id way(const struct plan *p, const struct target *t, const struct call *of,
                       struct text *out)
{
    const struct call straight = limber_straightened(of), *c = &straight;
    struct kernel *k = calloc(1, sizeof *k);
    struct layout l = { .way = WAY_none };
    struct diag ignored = { 0 };
    bool served = k && limber_kernel_config(p, t, &k->config, &ignored);

    if (served && c->conv && is_empty(c)) {
        /* an empty call is not looked at further, as in a launch: find_way divides by the number of
         * pixels */
        l.way = WAY_packed;
    } else if (served) {
        k->cpu = limber_cpu_of(t);
        find_way(k, c, &l);
        if (out)
            describe(&l, &k->config, c, out);
    }
    free(k);
    return l.way;
}

/* Implements backend.small: sums in pairs of doubles, by the code for this CPU. */
static int64_t small(const struct call *c, const struct target *t, limber_format a, limber_format b,
                     limber_format to, double allowed)
{
    const bool vector = (c->m == 1 || c->n == 1) && c->k > 0;
    unsigned cpu = limber_cpu_of(t);
    kernel_pairs *run = vector ? limber_dots_run : limber_pairs_run;

#if defined(LIMBER_EXACT_X86)
    if (cpu & CPU_avx512)
        run = vector ? limber_dots_run_avx512 : limber_pairs_run_avx512;
    else if (cpu & CPU_avx2)
        run = vector ? limber_dots_run_avx2 : limber_pairs_run_avx2;
#endif
    (void)cpu;
    return run(c, a, b, to, allowed);
}

/* Implements backend.vectors: sums of a product with a vector, by the code for this CPU. */
static void vectors(const struct vector_sums *s, const struct target *t)
{
    unsigned cpu = limber_cpu_of(t);
    kernel_sums *run = s->size == 8 ? limber_vectors_sums64 : limber_vectors_sums32;

#if defined(LIMBER_EXACT_X86)
    if (cpu & CPU_avx512)
        run = s->size == 8 ? limber_vectors_sums64_avx512 : limber_vectors_sums32_avx512;
    else if (cpu & CPU_avx2)
        run = s->size == 8 ? limber_vectors_sums64_avx2 : limber_vectors_sums32_avx2;
#endif
    (void)cpu;
    run(s);
}

static const struct launch_memory_ops launch_memory_ops = { memory_bytes, limber_workspace_take,
                                                            limber_workspace_give };

const struct backend limber_backend_llvm = {
    .name = "llvm",
    .probe = limber_llvm_probe,
    .open = limber_llvm_open,
    .compile = limber_blob_compile,
    .load = limber_blob_load,
    .launch = launch,
    .unload = limber_blob_unload,
    .way = way,
    .workspace = workspace,
    .fixed = &limber_llvm_functions,
    .small = small,
    .vectors = vectors,
    .code_key = limber_blob_key,
    .launch_memory = &launch_memory_ops,
    .prebuilt = limber_blob_prebuilt,
    .direct = limber_direct,
    .depthwise = &limber_llvm_depthwise,
    .function_ops = &limber_llvm_elementwise,
    .narrow = &limber_llvm_narrow,
    .compiler = limber_llvm_code,
    .reads_tiles = true,
};
