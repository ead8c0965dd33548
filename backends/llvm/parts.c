/* SPDX-License-Identifier: BSD-3-Clause
 * A launch goes through C and k part by part: sides are packed, then blocks of C are computed. */
#include "backends/llvm/part.h"
#include "backends/llvm/stage.h"
#include "ir/poison.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_BYTES = 128 << 20,
    GROUP_BYTES = 8 << 20, /* of B's panels that blocks of all rows read before the next */
    COLUMNS = 2, /* blocks that a part of C is wide at least */
    CUT = 512, /* elements along k that a task packs of its lines at least */
    EXACT_PART = 1024, /* elements along k that the long accumulator takes at once, at least */
    SHORT_PART = 64, /* of integers, what bytes are packed by */
    LONG_PART = 1 << 14 /* parts of k are no shorter where more of C may go in parts instead */
};

static int busy_of(const struct call *c)
{
    return limber_runner_busy(c->runner);
}

/* Bytes of a limb of a panel, apart by an odd number of cache lines: the limbs of a panel are
 * written in turn and must not fall on the same sets. */
static int64_t limb_bytes(const struct kernel_config *c, int side, int64_t k)
{
    int64_t step = c->matrix ? 16 * c->group : c->group;
    int bytes = limber_sums_pairs(c) ? KERNEL_PAIRS : c->bytes;
    int64_t lines = ceil_div(round_up(k, step) * c->side[side].lines * bytes, 64);

    if (c->unit == UNIT_exact) /* and each line's lowest and highest exponent, and its norm */
        lines += 4;
    return (lines | 1) * 64;
}

/* Chains along k; without products there is one of nothing, whose sums are zero. */
static int64_t chunks_of(const struct kernel_config *c, int64_t k)
{
    return k ? ceil_div(k, c->chunk) : 1;
}

/* Lines with sums: strips are summed whole, and the last one may end beyond the last panel. */
static int64_t sum_lines(const struct kernel_config *c, int side, int64_t panels)
{
    int64_t lines = c->side[side].lines;
    int64_t strip = lines < KERNEL_LANES ? KERNEL_LANES / lines * lines : KERNEL_LANES;

    return round_up(round_up(panels * lines, strip), KERNEL_LANES);
}

static int64_t range_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->unit == UNIT_model ? KERNEL_RANGES * sum_lines(c, side, panels) * 4 : 0;
}

static int64_t norm_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->norms ? sum_lines(c, side, panels) * 8 : 0;
}

int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k)
{
    int64_t limbs = c->side[side].limbs, panels = ceil_div(lines, c->side[side].lines);

    return limbs * panels * limb_bytes(c, side, k) + 128 +
           round_up(limbs * panels * ceil_div(k, c->kc), 64) +
           (c->offsets ? limbs * chunks_of(c, k) * sum_lines(c, side, panels) * 4 : 0) +
           range_bytes(c, side, panels) + norm_bytes(c, side, panels);
}

/* The bytes of scratch that a worker needs for a block of so many rows. */
static int64_t scratch_bytes(const struct kernel_config *c, int64_t rows)
{
    int64_t block = rows * c->nb, wide = c->unit == UNIT_f64 ? 8 : 4;

    if (c->unit == UNIT_exact)
        return KERNEL_EXACT_BLOCK * KERNEL_EXACT_BLOCK * KERNEL_EXACT_PAIR;
    /* a strip may read past the last column */
    return (c->reconstruct == RECONSTRUCT_sum ? 0 : kernel_tile_bytes(c, rows, wide)) +
           block * (c->small ? 1 : c->accumulators) *
               (c->reconstruct == RECONSTRUCT_sum ? wide :
                c->reconstruct == RECONSTRUCT_crt ? 1 + c->wide :
                                                    8) +
           KERNEL_LANES * 8;
}

static char *set_side(const struct kernel_config *c, struct packed *o, int side, int64_t k,
                      char *memory)
{
    int64_t limbs = c->side[side].limbs;

    o->panels = ceil_div(o->lines, c->side[side].lines);
    o->limb_bytes = limb_bytes(c, side, k);
    o->panel_bytes = limbs * o->limb_bytes;
    o->chunks = chunks_of(c, k);
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

/* ---- what packing adds to -------------------------------------------------------------------- */

/* begins: norms, too, which sum all parts of k. */
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

/* Blocks of k in which a panel of elements that are packed as they are shows none is zero. */
static void show(const struct kernel_config *c, const struct packed *o, int side, int64_t k)
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

/* Tasks of both sides evenly mixed: a worker's share of the tasks has its share of both, so that
 * neither side's limbs end up in the memory of a few workers. */
static int64_t mixed(const int64_t tasks[2], int64_t task)
{
    int64_t all = tasks[0] + tasks[1], of_a = task * tasks[0] / all;

    return (task + 1) * tasks[0] / all > of_a ? of_a : tasks[0] + task - of_a;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void run_pack(void *arg, int64_t task, int worker)
{
    struct part *p = arg;
    struct kernel_call call;

    task = mixed(p->call.tasks, task);
    if (p->copies && task >= p->call.tasks[0]) {
        limber_planes_task(p, task - p->call.tasks[0]);
        return;
    }
    if (!p->turned || task >= p->call.tasks[0]) {
        p->k->pack(&p->call, task);
        return;
    }
    call = limber_turned_call(
        p, task, p->turned + worker * limber_turned_bytes(p->call.config, &p->filters));
    p->k->pack(&call, task);
}

/* A block whose rows are not dense in C. */
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

static void finish_block(const struct part *p, int64_t task)
{
    const struct kernel_call *c = &p->call;
    int64_t i = task / c->blocks_j * c->mb, j = task % c->blocks_j * c->nb;

    p->finish->block(p->finish, c->i0 + i, smaller(c->m - i, c->mb), c->j0 + j,
                     smaller(c->n - j, c->nb));
}

/* Blocks go down all rows of so many columns that their panels of B stay in the last level of
 * cache: each comes from memory once, and a row's panels of A once for each group of columns. */
static int64_t in_groups(const struct kernel_call *c, int64_t task)
{
    int64_t rows = ceil_div(c->m, c->mb), group, first, of;
    int64_t bytes = ceil_div(c->nb, c->config->nr) * c->op[1].panel_bytes;

    /* a block reads few bytes for what it computes of many limbs; of an image it gathers a part */
    if (!c->stores || c->op[1].planes)
        return task;
    group = bytes < GROUP_BYTES ? GROUP_BYTES / bytes : 1;
    first = task / (rows * group) * group;
    of = task - rows * first;
    group = smaller(group, c->blocks_j - first);
    return of / group * c->blocks_j + first + of % group;
}

static void run_block(void *arg, int64_t task, int worker)
{
    struct part *p = arg;
    char *scratch = p->scratches + (p->keeps ? task : worker) * p->scratch;

    task = in_groups(&p->call, task);
    if (p->call.k > 0 && !(p->keeps && (p->call.adds || p->call.row)))
        limber_poison(scratch, (size_t)p->scratch); /* without k it is made zero, once */
    if (p->stage && !p->call.more)
        run_staged(p, task, scratch);
    else
        p->k->block(&p->call, task, scratch);
    if (p->finish && !p->call.more)
        finish_block(p, task);
}

/* Elements along k that a task packs of its lines at least.  What it notes of their limbs is of its
 * own blocks of k, and its sums are of its own chains; norms are of all of k. */
static int64_t least_depth(const struct kernel_config *f, int64_t k)
{
    int64_t own = f->offsets ? f->chunk : f->kc;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || f->norms || k == 0)
        return k ? k : 1;
    while (own % 64) /* what bytes are packed by */
        own *= 2;
    return smaller(round_up(CUT, own), k);
}

/* Tasks that pack: panels side by side are read together where that is how memory holds them, and
 * many of them.  Tasks of so many lines are cut along k where they keep the workers busy no other
 * way. */
static int64_t share(const struct kernel_config *f, struct kernel_call *call, int side, int busy)
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

/* The work of the busiest worker on an m x n part, in blocks of so many rows and columns.  A block
 * costs some panels more than its size, for the panels of both sides that it fetches. */
static int64_t longest(const struct kernel_config *f, int64_t m, int64_t n, int64_t rows,
                       int64_t columns, int busy)
{
    int64_t blocks = ceil_div(m, rows) * ceil_div(n, columns);

    return ceil_div(blocks, busy) * (rows + 2 * f->mr) * (smaller(columns, n) + f->nr);
}

/* Rows and columns of a block: as even as whole panels allow, and such that the workers end
 * together, as soon as they can. */
static void set_block(const struct kernel_config *f, struct kernel_call *call, int64_t m, int64_t n,
                      int busy)
{
    int64_t least = f->nr < KERNEL_LANES ? KERNEL_LANES : f->nr, best;
    int64_t even = round_up(ceil_div(m, ceil_div(m, f->mb)), f->mr);

    call->mb = even;
    call->nb = f->nb;
    if (busy == 1)
        return;
    best = longest(f, m, n, even, f->nb, busy);
    for (int64_t nb = f->nb; nb >= least && nb % least == 0; nb /= 2)
        for (int64_t mb = even; mb > 0; mb -= f->mr) {
            int64_t way = longest(f, m, n, mb, nb, busy);

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

/* Is C's part computed in a buffer?  Where its rows are not dense. */
static bool stages(const struct call *c)
{
    return (c->c.col != 1 || c->c.inner < c->n || c->c.wide) && !c->c.rows && !c->c.cols;
}

/* ---- limbs that are kept --------------------------------------------------------------------- */

struct whole limber_whole_of(const struct kernel_config *f, const struct call *c)
{
    const bool planes = limber_has_planes(f, c);

    return (struct whole){ .planes = planes ? c : NULL,
                           .stages = stages(c),
                           .filters = limber_filters(f, c, planes) };
}

/* Packs a side unless an earlier call has. */
static void keep_side(struct kernel *k, const struct call *c, const struct kernel_call *call,
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
    /* sums that registers begin with are others than those taken away at the end */
    if (side == 0 && w->filters.turned) {
        variant += 2 * (int)w->filters.taps;
        p.turned = malloc((size_t)(c->runner->workers * limber_turned_bytes(f, &w->filters)));
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
        show(f, o, side, call->k);
        c->runner->run(c->runner->self, share(f, &p.call, side, busy_of(c)), run_pack, &p);
        keep->packed(keep->self, kept);
    }
    free(p.turned);
    w->kept[side] = kept;
    w->side[side] = *o;
}

/* cut: k goes in parts, of which sums of offsets know nothing. */
static void keep_sides(struct kernel *k, const struct call *c, const struct kernel_call *call,
                       bool cut, struct whole *w)
{
    const struct kernel_config *f = &k->config;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || c->k == 0 || (cut && f->offsets))
        return;
    for (int side = 0; side < 2; side++)
        if (c->keep[side] && !call->op[side].view.tile_subset &&
            (limber_view_strided(&call->op[side].view) || (side == 0 && w->filters.turned)))
            keep_side(k, c, call, side, w);
}

static void give_sides(const struct call *c, const struct whole *w)
{
    for (int side = 0; side < 2; side++)
        if (w->kept[side])
            c->keep[side]->free(c->keep[side]->self, w->kept[side]);
}

/* The lines of a part; both begin where panels do. */
static void part_of(const struct kernel_config *f, struct packed *o, const struct whole *w,
                    int side)
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

/* ---- parts ----------------------------------------------------------------------------------- */

/* Rows of the blocks of a part of so many rows, at most. */
static int64_t block_rows(const struct kernel_config *f, int64_t m)
{
    return smaller(f->mb, round_up(m, f->mr));
}

/* Scratch of a worker, for blocks of so many rows. */
static int64_t worker_bytes(const struct kernel_config *f, const struct whole *w, int64_t rows)
{
    return round_up(scratch_bytes(f, rows), 64) +
           (w->planes ? limber_planes_room(f, w->filters.k) : 0) +
           (w->stages ? round_up(rows * f->nb * f->c.size, 64) : 0);
}

/* Limbs of so many rows and columns. */
static int64_t sides_bytes(const struct kernel_config *f, const struct whole *w, int64_t m,
                           int64_t n, int64_t k)
{
    return limber_side_bytes(f, 0, w->kept[0] ? 0 : m, k) +
           (w->planes ? limber_planes_bytes(f, w->planes, n) :
                        limber_side_bytes(f, 1, w->kept[1] ? 0 : n, k)) +
           256;
}

/* Memory of one part of C's rows and the widest part of its columns. */
static int64_t part_bytes(const struct kernel_config *f, const struct whole *w, int64_t m,
                          int64_t n, int64_t k, int workers)
{
    return sides_bytes(f, w, m, n, k) +
           workers * (worker_bytes(f, w, block_rows(f, m)) + limber_turned_bytes(f, &w->filters));
}

/* Makes a side's limbs ready to be packed, or has them; returns where memory is free.  Panels have
 * room for `depth` elements along k, so that what is kept for later parts stays where it is. */
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
        part_of(f, o, w, side);
        return memory;
    }
    end = set_side(f, o, side, depth, memory);
    if (begins)
        limber_poison(memory, (size_t)(end - memory));
    clear_side(f, o, side, begins);
    show(f, o, side, p->call.k);
    share(f, &p->call, side, busy);
    return end;
}

/* Columns [j, j + width) of a part whose rows are packed. */
static void run_columns(struct part *p, struct call *c, const struct whole *w, int64_t j,
                        int64_t width, char *memory)
{
    struct kernel_call *call = &p->call;
    int64_t tasks;

    call->n = width;
    call->j0 = j;
    call->op[1].line0 = j;
    call->op[1].lines = width;
    p->scratches = begin_side(p, w, 1, call->k, busy_of(c), memory);
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

/* The part of C of rows [i, i + height), for at most `width` columns at a time. */
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
    set_block(f, &p.call, height, smaller(width, c->n), busy_of(c));
    p.call.op[0].line0 = i;
    p.call.op[0].lines = height;
    return p;
}

/* Rows [i, i + height), `width` columns at a time. */
static void run_rows(struct kernel *k, struct call *c, struct kernel_call call,
                     const struct whole *w, int64_t i, int64_t height, int64_t width, char *memory)
{
    const struct kernel_config *f = &k->config;
    struct part p = begin_rows(k, c, &call, w, i, height, width);

    memory = begin_side(&p, w, 0, call.k, busy_of(c), memory);
    if (w->filters.turned && !w->kept[0]) {
        p.turned = memory;
        memory += c->runner->workers * limber_turned_bytes(f, &w->filters);
    }
    for (int64_t j = 0; j < c->n; j += width)
        run_columns(&p, c, w, j, c->n - j < width ? c->n - j : width, memory);
}

/* Elements along k whose packed panels stay in the last level of cache and fit the workspace at
 * least for one block of C, where C can hold the sum so far; else all. */
static int64_t part_of_k(const struct kernel_config *f, const struct kernel_call *call,
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

/* The most elements along k, counted as they are packed, that a part takes. */
static int64_t longest_part(const struct kernel_config *f, const struct call *c,
                            const struct kernel_call *call, const struct whole *w)
{
    return w->filters.k > call->k ? w->filters.k :
                                    smaller(call->k, part_of_k(f, call, w, c->runner->workers,
                                                               (int64_t)c->workspace_limit));
}

static const void *along(const struct view *v, int64_t p, int size)
{
    return limber_view_strided(v) ? (const char *)v->data + p * v->p * size : v->data;
}

/* Sums that C cannot hold may be kept in scratch from one part of k to the next. */
static bool may_keep(const struct kernel_config *f, const struct kernel_call *call,
                     const struct whole *w)
{
    const struct view *a = &call->op[0].view, *b = &call->op[1].view;
    bool plain = limber_view_strided(a) && limber_view_strided(b) && !a->tile_subset &&
                 !b->tile_subset && !w->planes && !w->filters.turned && w->filters.k == call->k;

    return plain && !call->stores && f->unit != UNIT_model &&
           !(f->offsets && (w->kept[0] || w->kept[1]));
}

/* Parts of k are multiples of this.  Sums of floats have an order; what is kept is packed in whole
 * blocks. */
static int64_t least_part(const struct kernel_config *f, const struct whole *w)
{
    return f->unit == UNIT_exact                                         ? EXACT_PART :
           f->reconstruct == RECONSTRUCT_sum || w->kept[0] || w->kept[1] ? f->kc :
                                                                           SHORT_PART;
}

/* Blocks of a part of C, whose rows and columns are call's. */
static int64_t blocks_of(const struct kernel_call *call, int64_t m, int64_t n)
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
    set_block(f, &block, m, n, busy_of(c));
    return sides_bytes(f, w, x->m, x->n, x->k) +
           blocks_of(&block, m, n) * worker_bytes(f, w, block_rows(f, m));
}

static int64_t halved(int64_t x, int64_t step)
{
    return round_up(ceil_div(x, 2), step);
}

/* The next smaller extent, in an order that no limit changes: few columns first, since rows once
 * packed serve all of them, but enough for a block for each worker; then fewer rows; then parts of
 * k for some blocks, and for one.  False: there is none. */
static bool shrink(const struct kernel_config *f, const struct call *c,
                   const struct kernel_call *call, const struct whole *w, struct extent *x)
{
    int64_t columns = ceil_div(busy_of(c), ceil_div(x->m, f->mb)), least = least_part(f, w);

    columns = columns > COLUMNS ? columns : COLUMNS;
    if (!x->sums) {
        if (x->n > columns * f->nb && !w->kept[1])
            x->n = halved(x->n, f->nb);
        else if (x->m > f->mb && !w->kept[0])
            x->m = halved(x->m, f->mb);
        else if (x->n > f->nb && !w->kept[1])
            x->n = halved(x->n, f->nb);
        else if (x->k > least && may_keep(f, call, w))
            *x = (struct extent){ smaller(c->m, COLUMNS * f->mb), smaller(c->n, columns * f->nb),
                                  halved(x->k, least), true };
        else
            return false;
        return true;
    }
    if (x->k > LONG_PART && x->k > least)
        x->k = halved(x->k, least);
    else if (x->n > f->nb)
        x->n = halved(x->n, f->nb);
    else if (x->m > f->mb)
        x->m = halved(x->m, f->mb);
    else if (x->k > least)
        x->k = halved(x->k, least);
    else if (x->m > f->mr)
        x->m = halved(x->m, f->mr);
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
                        .k = smaller(w->filters.k, longest_part(f, c, call, w)) };

    while (limber_extent_bytes(f, c, w, &x) > limit && shrink(f, c, call, w, &x))
        ;
    x.m = round_up(ceil_div(c->m, ceil_div(c->m, x.m)), f->mr);
    return x;
}

/* A part of C, one part of k after the other; rows that share an accumulator of floats in turn. */
static void run_sums(struct kernel *k, struct call *c, const struct kernel_call *call,
                     struct whole *w, const struct extent *x, int64_t i, int64_t j, char *memory)
{
    const struct kernel_config *f = &k->config;
    const bool in_turn = f->reconstruct == RECONSTRUCT_sum && f->rows > f->accumulators;
    struct part p = begin_rows(k, c, call, w, i, smaller(c->m, x->m), x->n);
    struct kernel_call *here = &p.call;

    p.keeps = true; /* the last parts of C have the blocks of others, or fewer */
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
            here->op[0].view.data = along(&call->whole[0], w->p, f->side[0].f.size);
            here->op[1].view.data = along(&call->whole[1], w->p, f->side[1].f.size);
            p.scratches = begin_side(&p, w, 0, x->k, busy_of(c), memory);
            p.scratches = begin_side(&p, w, 1, x->k, busy_of(c), p.scratches);
            if (here->tasks[0] + here->tasks[1] > 0)
                c->runner->run(c->runner->self, here->tasks[0] + here->tasks[1], run_pack, &p);
            c->runner->run(c->runner->self, blocks_of(here, here->m, here->n), run_block, &p);
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
    x.k = longest_part(f, c, &call, &w);
    call.k = all;
    keep_sides(k, c, &call, x.k < all, &w);
    call.k = c->k;
    x = limber_extent_of(f, c, &call, &w);
    if ((w.kept[0] || w.kept[1]) && limber_extent_bytes(f, c, &w, &x) > most) {
        give_sides(c, &w); /* they have whole blocks of k: parts that fit are shorter */
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
        call.op[0].view.data = along(&call.whole[0], p, f->side[0].f.size);
        call.op[1].view.data = along(&call.whole[1], p, f->side[1].f.size);
        for (int64_t i = 0; i < c->m; i += x.m)
            run_rows(k, c, call, &w, i, smaller(c->m - i, x.m), x.n, memory);
    }
    if (ok && !given->memory)
        limber_workspace_give(c, &taken);
    give_sides(c, &w);
    c->finished = ok && c->finish;
    return ok;
}
