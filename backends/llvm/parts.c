/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a launch part by part of C and k: packs both sides, then computes blocks of C. */
#include "backends/llvm/part.h"
#include "backends/llvm/stage.h"
#include "ir/poison.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_BYTES = 128 << 20,
    /* bytes of B's panels that blocks of all rows read before the next group */
    GROUP_BYTES = 8 << 20,
    COLUMNS = 2, /* fewest blocks of columns in a part of C */
    CUT = 512, /* fewest elements along k that a task packs */
    EXACT_PART = 1024, /* fewest elements along k of a part for the long accumulator */
    SHORT_PART = 64, /* fewest for integers: packing works on 64 bytes along k */
    LONG_PART = 1 << 14 /* parts of k get no shorter while C can be divided instead */
};

/* Workers that a launch can keep busy. */
static int busy_workers(const struct call *c)
{
    return limber_runner_busy(c->runner);
}

/* Bytes of one limb of a panel: an odd number of cache lines, since the limbs of a panel are
 * written in turn and must not share cache sets. */
static int64_t limb_bytes(const struct kernel_config *c, int side, int64_t k)
{
    int64_t step = c->matrix ? 16 * c->group : c->group;
    int bytes = limber_sums_pairs(c) ? KERNEL_PAIRS : c->bytes;
    int64_t lines = ceil_div(round_up(k, step) * c->side[side].lines * bytes, 64);

    if (c->unit == UNIT_exact) /* each line's exponent range and norm */
        lines += 4;
    return (lines | 1) * 64;
}

/* Number of chains along k. k = 0 has one empty chain, whose sums are zero. */
static int64_t chain_count(const struct kernel_config *c, int64_t k)
{
    return k ? ceil_div(k, c->chunk) : 1;
}

/* Lines that have sums.  Whole strips are summed, and the last one may end beyond the last
 * panel. */
static int64_t sum_lines(const struct kernel_config *c, int side, int64_t panels)
{
    int64_t lines = c->side[side].lines;
    int64_t strip = lines < KERNEL_LANES ? KERNEL_LANES / lines * lines : KERNEL_LANES;

    return round_up(round_up(panels * lines, strip), KERNEL_LANES);
}

/* Bytes of the value ranges of a simulated unit's packed lines. */
static int64_t range_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->unit == UNIT_model ? KERNEL_RANGES * sum_lines(c, side, panels) * 4 : 0;
}

/* Bytes of the packed lines' Euclidean norms. */
static int64_t norm_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->norms ? sum_lines(c, side, panels) * 8 : 0;
}

int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k)
{
    int64_t limbs = c->side[side].limbs, panels = ceil_div(lines, c->side[side].lines);

    return limbs * panels * limb_bytes(c, side, k) + 128 +
           round_up(limbs * panels * ceil_div(k, c->kc), 64) +
           (c->offsets ? limbs * chain_count(c, k) * sum_lines(c, side, panels) * 4 : 0) +
           range_bytes(c, side, panels) + norm_bytes(c, side, panels);
}

/* Bytes of a worker's sums for a block of `rows` rows: of all accumulators, and of their total. */
static int64_t scratch_bytes(const struct kernel_config *c, int64_t rows)
{
    int64_t block = rows * c->nb, wide = c->unit == UNIT_f64 ? 8 : 4;

    if (c->unit == UNIT_exact)
        return KERNEL_EXACT_BLOCK * KERNEL_EXACT_BLOCK * KERNEL_EXACT_PAIR;
    /* a strip may read beyond the last column */
    return (c->reconstruct == RECONSTRUCT_sum ? 0 : kernel_tile_bytes(c, rows, wide)) +
           block * (c->small ? 1 : c->accumulators) *
               (c->reconstruct == RECONSTRUCT_sum ? wide :
                c->reconstruct == RECONSTRUCT_crt ? 1 + c->wide :
                                                    8) +
           KERNEL_LANES * 8;
}

/* Assigns a side's memory: limbs, flags, sums, ranges and norms of its panels.  Returns the first
 * free byte. */
static char *set_side(const struct kernel_config *c, struct packed *o, int side, int64_t k,
                      char *memory)
{
    int64_t limbs = c->side[side].limbs;

    o->panels = ceil_div(o->lines, c->side[side].lines);
    o->limb_bytes = limb_bytes(c, side, k);
    o->panel_bytes = limbs * o->limb_bytes;
    o->chunks = chain_count(c, k);
    o->blocks = ceil_div(k, c->kc);
    o->sum_lines = sum_lines(c, side, o->panels);
    o->data = memory;
    memory += o->panels * o->panel_bytes;
    o->nonzero = (uint8_t *)memory;
    memory += round_up(limbs * o->panels * o->blocks, 64);
    if (c->unit == UNIT_model) {
        o->range = (int32_t *)(void *)memory;
        o->range_lines = o->sum_lines;
        memory += range_bytes(c, side, o->panels);
    }
    if (c->norms) {
        o->norm = (double *)(void *)memory;
        memory += norm_bytes(c, side, o->panels);
    }
    if (c->offsets) {
        o->sums = (int32_t *)(void *)memory;
        memory += limbs * o->chunks * o->sum_lines * 4;
    }
    return limber_aligned(memory);
}

/* ---- before packing: cleared flags and sums, order of tasks ---------------------------------- */

/* Clears flags and sums. begins: norms, too, which span all parts of k. */
static void clear_side(const struct kernel_config *c, const struct packed *o, int side, bool begins)
{
    int64_t limbs = c->side[side].limbs;

    memset(o->nonzero, 0, (size_t)(limbs * o->panels * o->blocks));
    if (o->range)
        memset(o->range, 0, (size_t)range_bytes(c, side, o->panels));
    if (o->norm && begins)
        memset(o->norm, 0, (size_t)norm_bytes(c, side, o->panels));
    if (o->sums)
        memset(o->sums, 0, (size_t)(limbs * o->chunks * o->sum_lines) * 4);
}

/* Marks which blocks of k of each panel may be nonzero, where packing copies elements unchanged and
 * does not look. */
static void mark_blocks(const struct kernel_config *c, const struct packed *o, int side, int64_t k)
{
    const struct tile_subset *x = o->view.tile_subset;
    int64_t lines = c->side[side].lines;

    if (c->side[side].limb_kind != LIMB_KIND_whole || c->unit == UNIT_exact)
        return;
    for (int64_t panel = 0; panel < o->panels; panel++)
        for (int64_t b = 0; b < o->blocks; b++) {
            uint8_t *any = &o->nonzero[panel * o->blocks + b];
            int64_t to = (panel + 1) * lines < o->lines ? (panel + 1) * lines : o->lines;
            int64_t end = (b + 1) * c->kc < k ? (b + 1) * c->kc : k;

            *any = !x || !x->tile;
            for (int64_t i = panel * lines; i < to && !*any; i++)
                for (int64_t p = b * c->kc; p < end && !*any; p += KERNEL_BLOCK)
                    *any = limber_tile_subset_shows(x, limber_block_line(x->block, o->line0 + i),
                                                    p) != 0;
        }
}

/* Interleaves the tasks of both sides evenly: each worker packs its share of either side, so that
 * neither side's limbs end up in the memory of a few workers. */
static int64_t mix_tasks(const int64_t tasks[2], int64_t task)
{
    int64_t all = tasks[0] + tasks[1], of_a = task * tasks[0] / all;

    return (task + 1) * tasks[0] / all > of_a ? of_a : tasks[0] + task - of_a;
}

/* ---- tasks of a part ------------------------------------------------------------------------- */

/* Task: packs lines of A or B, transposed first where their elements along k lie in another
 * order. */
static void run_pack(void *arg, int64_t task, int worker)
{
    struct part *p = arg;
    struct kernel_call call;

    task = mix_tasks(p->call.tasks, task);
    if (p->copies && task >= p->call.tasks[0]) {
        limber_planes_task(p, task - p->call.tasks[0]);
        return;
    }
    if (!p->turned || task >= p->call.tasks[0]) {
        p->k->pack(&p->call, task);
        return;
    }
    call = limber_transposed_call(
        p, task, p->turned + worker * limber_transposed_bytes(p->call.config, &p->filters));
    p->k->pack(&call, task);
}

/* Computes a block in a buffer and copies it to C, whose rows are not dense. */
static void run_staged(struct part *p, int64_t task, char *scratch)
{
    const struct kernel_config *f = p->call.config;
    struct kernel_call call = p->call;
    struct staged s = { .c = &p->call.c, .size = f->c.size, .buffer = scratch + p->stage };
    int64_t i = task / call.blocks_j * call.mb, j = task % call.blocks_j * call.nb;

    s.i0 = call.i0 + i;
    s.j0 = call.j0 + j;
    s.rows = smaller(call.mb, call.m - i);
    s.cols = smaller(call.nb, call.n - j);
    s.row = call.nb;
    if (f->has_beta || (call.stores && call.adds))
        limber_stage_load(&s);
    call.c = (struct output_view){ .data = s.buffer - (s.i0 * s.row + s.j0) * s.size,
                                   .row = s.row,
                                   .col = 1,
                                   .inner = INT64_MAX };
    call.overflow = 0;
    p->k->block(&call, task, scratch);
    if (call.overflow)
        __atomic_fetch_add(&p->call.overflow, call.overflow, __ATOMIC_RELAXED);
    limber_stage_store(&s);
}

/* Runs the steps behind the product on a block of C. */
static void finish_block(const struct part *p, int64_t task)
{
    const struct kernel_call *c = &p->call;
    int64_t i = task / c->blocks_j * c->mb, j = task % c->blocks_j * c->nb;

    p->finish->block(p->finish, c->i0 + i, smaller(c->m - i, c->mb), c->j0 + j,
                     smaller(c->n - j, c->nb));
}

/* Reorders blocks into groups of columns, each going down all rows.  A group's panels of B stay in
 * the last-level cache: each panel of B is read from memory once, a panel of A once a group. */
static int64_t group_block(const struct kernel_call *c, int64_t task)
{
    int64_t rows = ceil_div(c->m, c->mb), group, first, of;
    int64_t bytes = ceil_div(c->nb, c->config->nr) * c->op[1].panel_bytes;

    /* many limbs make a block compute-bound; planes are gathered anew for each block */
    if (!c->stores || c->op[1].planes)
        return task;
    group = bytes < GROUP_BYTES ? GROUP_BYTES / bytes : 1;
    first = task / (rows * group) * group;
    of = task - rows * first;
    group = smaller(group, c->blocks_j - first);
    return of / group * c->blocks_j + first + of % group;
}

/* Task: computes a block of C. */
static void run_block(void *arg, int64_t task, int worker)
{
    struct part *p = arg;
    char *scratch = p->scratches + (p->keeps ? task : worker) * p->scratch;

    task = group_block(&p->call, task);
    if (p->call.k > 0 && !(p->keeps && (p->call.adds || p->call.row)))
        limber_poison(scratch, (size_t)p->scratch); /* with k = 0 the scratch was zeroed once */
    if (p->stage && !p->call.more)
        run_staged(p, task, scratch);
    else
        p->k->block(&p->call, task, scratch);
    if (p->finish && !p->call.more)
        finish_block(p, task);
}

/* Fewest elements along k that a task packs.  A task owns the flags of whole blocks of k and the
 * sums of whole chains; norms need all of k. */
static int64_t least_depth(const struct kernel_config *f, int64_t k)
{
    int64_t own = f->offsets ? f->chunk : f->kc;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || f->norms || k == 0)
        return k ? k : 1;
    while (own % 64) /* packing works on 64 bytes along k */
        own *= 2;
    return smaller(round_up(CUT, own), k);
}

/* Divides packing into tasks and returns their number. Several panels are packed at once if
 * adjacent lines are adjacent in memory. Tasks are divided along k only if there are too few panels
 * for the workers. */
static int64_t divide_packing(const struct kernel_config *f, struct kernel_call *call, int side,
                              int busy)
{
    int64_t lines = f->side[side].lines, panels = call->op[side].panels, step = 1;
    int64_t least = least_depth(f, call->k), cuts = busy > 1 ? ceil_div(call->k, least) : 1, wanted;

    while (step * lines < KERNEL_LANES)
        step++;
    if (step * lines > KERNEL_LANES && lines < KERNEL_LANES)
        step--;
    while (call->op[side].view.line == 1 && step * lines < 128 &&
           (busy == 1 || ceil_div(panels, 2 * step) * cuts >= 2 * busy))
        step *= 2;
    wanted = ceil_div(16 * busy, ceil_div(panels, step));
    call->lines[side] = step * lines;
    call->depth[side] = call->k ? call->k : 1;
    if (cuts > 1 && wanted > 1)
        call->depth[side] = round_up(ceil_div(call->k, wanted), least);
    call->cuts[side] = call->k ? ceil_div(call->k, call->depth[side]) : 1;
    call->tasks[side] = ceil_div(panels, step) * call->cuts[side];
    return call->tasks[side];
}

struct call limber_straightened(const struct call *c)
{
    struct call s = *c;

    limber_view_straighten(&s.a, s.m);
    limber_view_straighten(&s.b, s.n);
    return s;
}

/* Work of the busiest worker on an m x n part, in elements.  A block counts as some panels larger
 * than it is, for the panels of A and B that it fetches. */
static int64_t busiest_work(const struct kernel_config *f, int64_t m, int64_t n, int64_t rows,
                            int64_t columns, int busy)
{
    int64_t blocks = ceil_div(m, rows) * ceil_div(n, columns);

    return ceil_div(blocks, busy) * (rows + 2 * f->mr) * (smaller(columns, n) + f->nr);
}

/* Sets rows and columns of a block: whole panels, as even as possible, such that the busiest worker
 * ends soonest. */
static void set_block(const struct kernel_config *f, struct kernel_call *call, int64_t m, int64_t n,
                      int busy)
{
    int64_t least = f->nr < KERNEL_LANES ? KERNEL_LANES : f->nr, best;
    int64_t even = round_up(ceil_div(m, ceil_div(m, f->mb)), f->mr);

    call->mb = even;
    call->nb = f->nb;
    if (busy == 1)
        return;
    best = busiest_work(f, m, n, even, f->nb, busy);
    for (int64_t nb = f->nb; nb >= least && nb % least == 0; nb /= 2)
        for (int64_t mb = even; mb > 0; mb -= f->mr) {
            int64_t way = busiest_work(f, m, n, mb, nb, busy);

            if (way < best) {
                best = way;
                call->mb = mb;
                call->nb = nb;
            }
        }
}

bool limber_stores(const struct kernel_config *f, const struct call *c)
{
    return f->direct && !c->c.rows && !c->c.cols && c->k > 0 && !c->a.tile_subset &&
           !c->b.tile_subset && (f->unit != UNIT_i8 || c->k <= f->chunk);
}

/* True if C's rows are not dense, so that a part of C is computed in a buffer. */
static bool is_staged(const struct call *c)
{
    return (c->c.col != 1 || c->c.inner < c->n || c->c.wide) && !c->c.rows && !c->c.cols;
}

/* ---- limbs of prepared operands -------------------------------------------------------------- */

struct whole limber_whole_of(const struct kernel_config *f, const struct call *c)
{
    const bool planes = limber_has_planes(f, c);

    return (struct whole){ .planes = planes ? c : NULL,
                           .stages = is_staged(c),
                           .filters = limber_filter_order(f, c, planes) };
}

/* Packs a prepared side, unless an earlier call has. */
static void prepare_side(struct kernel *k, const struct call *c, const struct kernel_call *call,
                         int side, struct whole *w)
{
    const struct kernel_config *f = &k->config;
    struct part p = { .k = k, .call = *call, .filters = w->filters };
    struct packed *o = &p.call.op[side];
    const struct keeper *keep = c->keep[side];
    struct kept *kept;
    int variant = call->stores && f->offsets;

    o->line0 = 0;
    o->lines = side ? c->n : c->m;
    /* the variant tells sums that registers begin with from sums subtracted at the end */
    if (side == 0 && w->filters.turned) {
        variant += 2 * (int)w->filters.taps;
        p.turned = malloc((size_t)(c->runner->workers * limber_transposed_bytes(f, &w->filters)));
    }
    kept = side || !w->filters.turned || p.turned ?
               keep->alloc(keep->self, variant,
                           (size_t)limber_side_bytes(f, side, o->lines, call->k)) :
               NULL;
    if (!kept) {
        free(p.turned);
        return;
    }
    set_side(f, o, side, call->k, kept->memory);
    if (!kept->packed) {
        clear_side(f, o, side, true);
        mark_blocks(f, o, side, call->k);
        c->runner->run(c->runner->self, divide_packing(f, &p.call, side, busy_workers(c)), run_pack,
                       &p);
        keep->packed(keep->self, kept);
    }
    free(p.turned);
    w->kept[side] = kept;
    w->side[side] = *o;
}

/* Packs both prepared sides. cut: k is divided; then sums of offsets, which span all of k, cannot
 * be used. */
static void prepare_sides(struct kernel *k, const struct call *c, const struct kernel_call *call,
                          bool cut, struct whole *w)
{
    const struct kernel_config *f = &k->config;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || c->k == 0 || (cut && f->offsets))
        return;
    for (int side = 0; side < 2; side++)
        if (c->keep[side] && !call->op[side].view.tile_subset &&
            (limber_view_strided(&call->op[side].view) || (side == 0 && w->filters.turned)))
            prepare_side(k, c, call, side, w);
}

/* Tells the keepers of prepared limbs that the launch no longer uses them. */
static void release_sides(const struct call *c, const struct whole *w)
{
    for (int side = 0; side < 2; side++)
        if (w->kept[side])
            c->keep[side]->free(c->keep[side]->self, w->kept[side]);
}

/* Points a part to its lines in the prepared side; both begin at panels. */
static void point_to_prepared(const struct kernel_config *f, struct packed *o,
                              const struct whole *w, int side)
{
    const struct packed *all = &w->side[side];
    int64_t lines = f->side[side].lines, panel = o->line0 / lines;

    o->panels = ceil_div(o->lines, lines);
    o->limb_bytes = all->limb_bytes;
    o->panel_bytes = all->panel_bytes;
    o->chunks = all->chunks;
    o->blocks = all->blocks;
    o->sum_lines = all->sum_lines;
    o->data = all->data + panel * all->panel_bytes + w->p * lines * f->bytes;
    o->nonzero = all->nonzero + panel * f->side[side].limbs * all->blocks + w->p / f->kc;
    o->sums = all->sums ? all->sums + o->line0 : NULL;
    o->norm = all->norm ? all->norm + o->line0 : NULL;
}

/* ---- parts of a launch ----------------------------------------------------------------------- */

/* Most rows of a block in a part of m rows. */
static int64_t block_rows(const struct kernel_config *f, int64_t m)
{
    return smaller(f->mb, round_up(m, f->mr));
}

/* Bytes of a worker's scratch: sums of a block of `rows` rows, a panel gathered from planes, and a
 * buffer for a block of C. */
static int64_t worker_bytes(const struct kernel_config *f, const struct whole *w, int64_t rows)
{
    return round_up(scratch_bytes(f, rows), 64) +
           (w->planes ? limber_planes_room(f, w->filters.k) : 0) +
           (w->stages ? round_up(rows * f->nb * f->c.size, 64) : 0);
}

/* Bytes of the limbs of m rows and n columns; a prepared side has its own and needs none. */
static int64_t sides_bytes(const struct kernel_config *f, const struct whole *w, int64_t m,
                           int64_t n, int64_t k)
{
    return limber_side_bytes(f, 0, w->kept[0] ? 0 : m, k) +
           (w->planes ? limber_planes_bytes(f, w->planes, n) :
                        limber_side_bytes(f, 1, w->kept[1] ? 0 : n, k)) +
           256;
}

/* Bytes of a part of m rows and n columns: both sides' limbs, and all workers' scratch. */
static int64_t part_bytes(const struct kernel_config *f, const struct whole *w, int64_t m,
                          int64_t n, int64_t k, int workers)
{
    return sides_bytes(f, w, m, n, k) + workers * (worker_bytes(f, w, block_rows(f, m)) +
                                                   limber_transposed_bytes(f, &w->filters));
}

/* Sets up a side's memory for packing, or points it to the prepared limbs.  Returns the first free
 * byte.  Panels have room for `depth` elements along k, so that all parts of k have one layout. */
static char *begin_side(struct part *p, const struct whole *w, int side, int64_t depth, int busy,
                        char *memory)
{
    const struct kernel_config *f = p->call.config;
    struct packed *o = &p->call.op[side];
    const bool begins = !p->keeps || !(p->call.adds || p->call.row);
    char *end;

    p->call.tasks[side] = 0;
    if (side && w->planes)
        return limber_planes_begin(f, p, busy, memory);
    if (w->kept[side]) {
        point_to_prepared(f, o, w, side);
        return memory;
    }
    end = set_side(f, o, side, depth, memory);
    if (begins)
        limber_poison(memory, (size_t)(end - memory));
    clear_side(f, o, side, begins);
    mark_blocks(f, o, side, p->call.k);
    divide_packing(f, &p->call, side, busy);
    return end;
}

/* Computes columns [j, j + width) of a part whose rows are packed. */
static void run_columns(struct part *p, struct call *c, const struct whole *w, int64_t j,
                        int64_t width, char *memory)
{
    struct kernel_call *call = &p->call;
    int64_t tasks;

    call->n = width;
    call->j0 = j;
    call->op[1].line0 = j;
    call->op[1].lines = width;
    p->scratches = begin_side(p, w, 1, call->k, busy_workers(c), memory);
    if (call->k == 0)
        memset(p->scratches, 0, (size_t)(c->runner->workers * p->scratch));
    tasks = call->tasks[0] + call->tasks[1];
    if (call->k > 0 && tasks > 0)
        c->runner->run(c->runner->self, tasks, run_pack, p);
    call->tasks[0] = 0; /* the rows are packed now */
    call->blocks_j = ceil_div(width, call->nb);
    c->runner->run(c->runner->self, ceil_div(call->m, call->mb) * call->blocks_j, run_block, p);
    c->overflow += call->overflow;
    call->overflow = 0;
}

/* Sets up the part of C of rows [i, i + height), for at most `width` columns at a time. */
static struct part begin_rows(struct kernel *k, const struct call *c,
                              const struct kernel_call *call, const struct whole *w, int64_t i,
                              int64_t height, int64_t width)
{
    const struct kernel_config *f = &k->config;
    struct part p = { .k = k,
                      .call = *call,
                      .scratch = worker_bytes(f, w, block_rows(f, height)),
                      .filters = w->filters,
                      .finish = w->last ? c->finish : NULL };

    p.call.room = round_up(scratch_bytes(f, block_rows(f, height)), 64);
    p.stage = w->stages ? p.call.room + (w->planes ? limber_planes_room(f, w->filters.k) : 0) : 0;
    p.call.m = height;
    p.call.i0 = i;
    set_block(f, &p.call, height, smaller(width, c->n), busy_workers(c));
    p.call.op[0].line0 = i;
    p.call.op[0].lines = height;
    return p;
}

/* Computes rows [i, i + height), `width` columns at a time. */
static void run_rows(struct kernel *k, struct call *c, struct kernel_call call,
                     const struct whole *w, int64_t i, int64_t height, int64_t width, char *memory)
{
    const struct kernel_config *f = &k->config;
    struct part p = begin_rows(k, c, &call, w, i, height, width);

    memory = begin_side(&p, w, 0, call.k, busy_workers(c), memory);
    if (w->filters.turned && !w->kept[0]) {
        p.turned = memory;
        memory += c->runner->workers * limber_transposed_bytes(f, &w->filters);
    }
    for (int64_t j = 0; j < c->n; j += width)
        run_columns(&p, c, w, j, c->n - j < width ? c->n - j : width, memory);
}

/* Elements along k of a part: its packed panels stay in the last-level cache, and fit the workspace
 * for at least one block of C. All of k if C cannot hold partial sums. */
static int64_t part_depth(const struct kernel_config *f, const struct kernel_call *call,
                          const struct whole *w, int workers, int64_t limit)
{
    int64_t bytes = (call->m + call->n) * f->bytes, kc = f->kc, part;
    int64_t rows = smaller(call->m, f->mb), columns = smaller(call->n, f->nb);

    if (!call->stores || !limber_view_strided(&call->op[0].view) ||
        !limber_view_strided(&call->op[1].view))
        return call->k ? call->k : 1;
    part = kc * bytes >= PART_BYTES ? kc : PART_BYTES / (kc * bytes) * kc;
    part = smaller(part, round_up(call->k, kc));
    while (part > kc && part_bytes(f, w, rows, columns, part, workers) > limit)
        part = round_up(part / 2, kc);
    return part;
}

/* Most elements of a part along k, padding of words included. */
static int64_t largest_part_depth(const struct kernel_config *f, const struct call *c,
                                  const struct kernel_call *call, const struct whole *w)
{
    return w->filters.k > call->k ? w->filters.k :
                                    smaller(call->k, part_depth(f, call, w, c->runner->workers,
                                                                (int64_t)c->workspace_limit));
}

/* Address of the operand's elements from position p along k on. */
static const void *data_at_k(const struct view *v, int64_t p, int size)
{
    return limber_view_strided(v) ? (const char *)v->data + p * v->p * size : v->data;
}

/* True if scratch may keep, from one part of k to the next, the sums that C cannot hold. */
static bool can_keep_sums(const struct kernel_config *f, const struct kernel_call *call,
                          const struct whole *w)
{
    const struct view *a = &call->op[0].view, *b = &call->op[1].view;
    bool plain = limber_view_strided(a) && limber_view_strided(b) && !a->tile_subset &&
                 !b->tile_subset && !w->planes && !w->filters.turned && w->filters.k == call->k;

    return plain && !call->stores && f->unit != UNIT_model &&
           !(f->offsets && (w->kept[0] || w->kept[1]));
}

/* Parts of k are multiples of this.  The order of float sums depends on whole blocks of k, and
 * prepared sides are packed in them. */
static int64_t least_part_depth(const struct kernel_config *f, const struct whole *w)
{
    return f->unit == UNIT_exact                                         ? EXACT_PART :
           f->reconstruct == RECONSTRUCT_sum || w->kept[0] || w->kept[1] ? f->kc :
                                                                           SHORT_PART;
}

/* Number of blocks in an m x n part of C. */
static int64_t block_count(const struct kernel_call *call, int64_t m, int64_t n)
{
    return ceil_div(m, call->mb) * ceil_div(n, call->nb);
}

int64_t limber_extent_bytes(const struct kernel_config *f, const struct call *c,
                            const struct whole *w, const struct extent *x)
{
    struct kernel_call block;
    int64_t m = smaller(x->m, c->m), n = smaller(x->n, c->n);

    if (!x->sums)
        return part_bytes(f, w, x->m, x->n, x->k, c->runner->workers);
    set_block(f, &block, m, n, busy_workers(c));
    return sides_bytes(f, w, x->m, x->n, x->k) +
           block_count(&block, m, n) * worker_bytes(f, w, block_rows(f, m));
}

/* About half of x, rounded up to a multiple of `step`. */
static int64_t halve(int64_t x, int64_t step)
{
    return round_up(ceil_div(x, 2), step);
}

/* Shrinks the extent one step, in an order that does not depend on the limit.  First fewer columns,
 * since packed rows serve all of them, but a block for each worker; then fewer rows; then parts of
 * k for some blocks, and for one.  False if it is the smallest. */
static bool shrink_extent(const struct kernel_config *f, const struct call *c,
                          const struct kernel_call *call, const struct whole *w, struct extent *x)
{
    int64_t columns = ceil_div(busy_workers(c), ceil_div(x->m, f->mb)),
            least = least_part_depth(f, w);

    columns = columns > COLUMNS ? columns : COLUMNS;
    if (!x->sums) {
        if (x->n > columns * f->nb && !w->kept[1])
            x->n = halve(x->n, f->nb);
        else if (x->m > f->mb && !w->kept[0])
            x->m = halve(x->m, f->mb);
        else if (x->n > f->nb && !w->kept[1])
            x->n = halve(x->n, f->nb);
        else if (x->k > least && can_keep_sums(f, call, w))
            *x = (struct extent){ smaller(c->m, COLUMNS * f->mb), smaller(c->n, columns * f->nb),
                                  halve(x->k, least), true };
        else
            return false;
        return true;
    }
    if (x->k > LONG_PART && x->k > least)
        x->k = halve(x->k, least);
    else if (x->n > f->nb)
        x->n = halve(x->n, f->nb);
    else if (x->m > f->mb)
        x->m = halve(x->m, f->mb);
    else if (x->k > least)
        x->k = halve(x->k, least);
    else if (x->m > f->mr)
        x->m = halve(x->m, f->mr);
    else
        return false;
    return true;
}

struct extent limber_extent_of(const struct kernel_config *f, const struct call *c,
                               const struct kernel_call *call, const struct whole *w)
{
    const int64_t limit = (int64_t)c->workspace_limit;
    struct extent x = { .m = c->m,
                        .n = c->n,
                        .k = smaller(w->filters.k, largest_part_depth(f, c, call, w)) };

    while (limber_extent_bytes(f, c, w, &x) > limit && shrink_extent(f, c, call, w, &x))
        ;
    x.m = round_up(ceil_div(c->m, ceil_div(c->m, x.m)), f->mr);
    return x;
}

/* Computes one part of C over all parts of k.  Rows of the product table that share a float
 * accumulator run one after another. */
static void run_sums(struct kernel *k, struct call *c, const struct kernel_call *call,
                     struct whole *w, const struct extent *x, int64_t i, int64_t j, char *memory)
{
    const struct kernel_config *f = &k->config;
    const bool in_turn = f->reconstruct == RECONSTRUCT_sum && f->rows > f->accumulators;
    struct part p = begin_rows(k, c, call, w, i, smaller(c->m, x->m), x->n);
    struct kernel_call *here = &p.call;

    p.keeps = true; /* the last parts of C have at most as many blocks */
    p.finish = c->finish;
    here->m = here->op[0].lines = smaller(c->m - i, x->m);
    here->n = smaller(c->n - j, x->n);
    here->j0 = here->op[1].line0 = j;
    here->op[1].lines = here->n;
    here->blocks_j = ceil_div(here->n, here->nb);
    for (here->row = 0; here->row < (in_turn ? f->rows : 1); here->row++)
        for (w->p = 0; w->p < c->k; w->p += x->k) {
            int64_t end = w->p + x->k;

            here->k = smaller(c->k, end) - w->p;
            here->adds = w->p > 0;
            here->more = end < c->k || (in_turn && here->row + 1 < f->rows);
            here->op[0].view.data = data_at_k(&call->whole[0], w->p, f->side[0].f.size);
            here->op[1].view.data = data_at_k(&call->whole[1], w->p, f->side[1].f.size);
            p.scratches = begin_side(&p, w, 0, x->k, busy_workers(c), memory);
            p.scratches = begin_side(&p, w, 1, x->k, busy_workers(c), p.scratches);
            if (here->tasks[0] + here->tasks[1] > 0)
                c->runner->run(c->runner->self, here->tasks[0] + here->tasks[1], run_pack, &p);
            c->runner->run(c->runner->self, block_count(here, here->m, here->n), run_block, &p);
        }
    c->overflow += here->overflow;
}

bool limber_parts_run(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, struct diag *d)
{
    const struct kernel_config *f = &k->config;
    const int64_t most = (int64_t)(given->memory ? given->bytes : c->workspace_limit);
    struct whole w = limber_whole_of(f, c);
    struct launch_memory taken;
    struct extent x;
    int64_t all = w.filters.k, step;
    char *memory;
    bool ok;

    call.stores = limber_stores(f, c);
    call.view_k = c->k;
    call.whole[0] = call.op[0].view;
    call.whole[1] = call.op[1].view;
    x.k = largest_part_depth(f, c, &call, &w);
    call.k = all;
    prepare_sides(k, c, &call, x.k < all, &w);
    call.k = c->k;
    x = limber_extent_of(f, c, &call, &w);
    if ((w.kept[0] || w.kept[1]) && limber_extent_bytes(f, c, &w, &x) > most) {
        /* prepared sides need whole blocks of k: parts without them can be shorter */
        release_sides(c, &w);
        w = limber_whole_of(f, c);
        x = limber_extent_of(f, c, &call, &w);
    }
    c->workspace = (size_t)limber_extent_bytes(f, c, &w, &x);
    ok = limber_workspace_reach(c, given, c->workspace, &taken, d);
    memory = limber_aligned(taken.memory);
    for (int64_t i = 0; ok && x.sums && i < c->m; i += x.m)
        for (int64_t j = 0; j < c->n; j += x.n)
            run_sums(k, c, &call, &w, &x, i, j, memory);
    step = x.k > 0 ? x.k : 1;
    for (int64_t p = 0; ok && !x.sums && (p < all || p == 0); p += step) {
        call.k = smaller(all - p, step);
        call.adds = p > 0;
        w.p = p;
        w.last = p + step >= all;
        call.op[0].view.data = data_at_k(&call.whole[0], p, f->side[0].f.size);
        call.op[1].view.data = data_at_k(&call.whole[1], p, f->side[1].f.size);
        for (int64_t i = 0; i < c->m; i += x.m)
            run_rows(k, c, call, &w, i, smaller(c->m - i, x.m), x.n, memory);
    }
    if (ok && !given->memory)
        limber_workspace_give(c, &taken);
    release_sides(c, &w);
    c->finished = ok && c->finish;
    return ok;
}
