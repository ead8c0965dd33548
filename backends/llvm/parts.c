/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a launch of packed operands, one part (submatrix) of C and of k after another.  Packs both
 * operands' lines of the part, then computes its blocks of C. */
#include "backends/llvm/part.h"
#include "backends/llvm/stage.h"
#include "ir/poison.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* a part's panels of both operands have at most this many bytes, to fit in the last-level
     * cache */
    PART_BYTES = 128 << 20,
    /* bytes of B's panels that the blocks of all rows read before the next group of columns
     * begins */
    GROUP_BYTES = 8 << 20,
    /* number of blocks of columns that a part of C keeps while its rows can still be halved */
    COLUMNS = 2,
    CUT = 512, /* smallest number of elements along k that a task packs */
    /* smallest number of elements along k of a part for the scheme `accumulator` */
    EXACT_PART = 1024,
    /* smallest number of elements along k of a part for integers, since packing works on 64 bytes
     * along k */
    SHORT_PART = 64,
    /* parts of k do not become shorter than this while C can be divided instead */
    LONG_PART = 1 << 14
};

/* Returns the number of workers that a launch can keep busy. */
static int busy_workers(const struct call *c)
{
    return limber_runner_busy(c->runner);
}

/* Returns the bytes of one limb of a panel: an odd number of cache lines.  Packing writes the limbs
 * of a panel in turn, and they must not share cache sets. */
static int64_t limb_bytes(const struct kernel_config *c, int side, int64_t k)
{
    int64_t step = c->matrix ? 16 * c->group : c->group;
    int bytes = c->unit == UNIT_exact && limber_sums_pairs(c) ? KERNEL_PAIRS : c->bytes;
    int64_t lines = ceil_div(round_up(k, step) * c->side[side].lines * bytes, 64);

    if (c->unit == UNIT_exact) /* add the exponent range and the norm of each line */
        lines += 4;
    return (lines | 1) * 64;
}

/* Returns the number of chains of sums along k.  With k = 0 there is one empty chain, whose sums
 * are zero. */
static int64_t chain_count(const struct kernel_config *c, int64_t k)
{
    return k ? ceil_div(k, c->chunk) : 1;
}

/* Returns the number of lines for which sums must have memory.  Packing sums strips of KERNEL_LANES
 * lines, and the last strip may end past the last panel. */
static int64_t sum_lines(const struct kernel_config *c, int side, int64_t panels)
{
    int64_t lines = c->side[side].lines;
    int64_t strip = lines < KERNEL_LANES ? KERNEL_LANES / lines * lines : KERNEL_LANES;

    return round_up(round_up(panels * lines, strip), KERNEL_LANES);
}

/* Returns the bytes of the value ranges of all packed lines; 0 if the unit is not simulated. */
static int64_t range_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->unit == UNIT_model ? KERNEL_RANGES * sum_lines(c, side, panels) * 4 : 0;
}

/* Returns the bytes of the Euclidean norms of all packed lines; 0 if the plan needs none. */
static int64_t norm_bytes(const struct kernel_config *c, int side, int64_t panels)
{
    return c->norms ? sum_lines(c, side, panels) * 8 : 0;
}

/* Returns the bytes of one operand's panels.  side: 0 for A, 1 for B. */
int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k)
{
    int64_t limbs = c->side[side].limbs, panels = ceil_div(lines, c->side[side].lines);

    return limbs * panels * limb_bytes(c, side, k) + 128 +
           round_up(limbs * panels * ceil_div(k, c->kc), 64) +
           (c->offsets ? limbs * chain_count(c, k) * sum_lines(c, side, panels) * 4 : 0) +
           range_bytes(c, side, panels) + norm_bytes(c, side, panels);
}

/* Returns the bytes of a worker's sums for a block of `rows` rows: one register tile, all
 * accumulators, and their totals. */
static int64_t scratch_bytes(const struct kernel_config *c, int64_t rows)
{
    int64_t block = rows * c->nb, wide = c->unit == UNIT_f64 ? 8 : 4;

    if (c->unit == UNIT_exact)
        return KERNEL_EXACT_BLOCK * KERNEL_EXACT_BLOCK * KERNEL_EXACT_PAIR;
    /* reading the last vector of columns may go past the last column, so there is slack */
    return (c->reconstruct == RECONSTRUCT_sum ? 0 : kernel_tile_bytes(c, rows, wide)) +
           block * (c->small ? 1 : c->accumulators) *
               (c->reconstruct == RECONSTRUCT_sum ? wide :
                c->reconstruct == RECONSTRUCT_crt ? 1 + c->wide :
                                                    8) +
           KERNEL_LANES * 8;
}

/* Assigns memory for an operand's panels: limbs, nonzero flags, value ranges, norms and sums.
 * Returns the first free byte. */
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

/* ---- before packing: clearing flags and sums, order of tasks --------------------------------- */

/* Clears flags, value ranges and sums of an operand.  begins: this is the first part of k.  Then it
 * also clears norms, which are summed over all of k. */
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

/* Sets the nonzero flags of those blocks of k whose tiles belong to this part of the product.
 * Packing does not set flags of elements that it copies unchanged. */
static void mark_blocks(const struct kernel_config *c, const struct packed *o, int side, int64_t k)
{
    const struct tile_subset *x = o->view.tile_subset;
    int64_t lines = c->side[side].lines;

    if (c->side[side].limb_kind != LIMB_KIND_whole || c->unit == UNIT_exact)
        return;
    if (!x || !x->tile) {
        memset(o->nonzero, 1, (size_t)(o->panels * o->blocks));
        return;
    }
    for (int64_t panel = 0; panel < o->panels; panel++)
        for (int64_t b = 0; b < o->blocks; b++) {
            uint8_t *any = &o->nonzero[panel * o->blocks + b];
            int64_t to = (panel + 1) * lines < o->lines ? (panel + 1) * lines : o->lines;
            int64_t end = (b + 1) * c->kc < k ? (b + 1) * c->kc : k;

            *any = 0;
            for (int64_t i = panel * lines; i < to && !*any; i++)
                for (int64_t p = b * c->kc; p < end && !*any; p += KERNEL_BLOCK)
                    *any = limber_tile_subset_reads(x, limber_block_line(x->block, o->line0 + i),
                                                    p) != 0;
        }
}

/* Interleaves the packing tasks of both operands evenly: returns the number of the task that runs
 * at this position, where tasks of B follow those of A.  Each worker then packs a share of both
 * operands, so that no operand's limbs lie in memory near a few workers only. */
static int64_t interleaved_task(const int64_t tasks[2], int64_t task)
{
    int64_t all = tasks[0] + tasks[1], of_a = task * tasks[0] / all;

    return (task + 1) * tasks[0] / all > of_a ? of_a : tasks[0] + task - of_a;
}

/* ---- tasks of a part ------------------------------------------------------------------------- */

/* Task: packs some lines of A or B, or a section of the image's planes.  Elements that do not lie
 * in the order of k are transposed first. */
static void run_pack(void *arg, int64_t task, int worker)
{
    struct part *p = arg;
    struct kernel_call call;

    task = interleaved_task(p->call.tasks, task);
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

/* Computes a block in a buffer and copies it to C, whose rows are not contiguous. */
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

/* Applies the caller's epilogue to a block of C. */
static void finish_block(const struct part *p, int64_t task)
{
    const struct kernel_call *c = &p->call;
    int64_t i = task / c->blocks_j * c->mb, j = task % c->blocks_j * c->nb;

    p->finish->block(p->finish, c->i0 + i, smaller(c->m - i, c->mb), c->j0 + j,
                     smaller(c->n - j, c->nb));
}

/* Reorders blocks: returns the block to compute at this position.  Blocks form groups of columns,
 * and each group runs through all rows.  A group's panels of B fit in the last-level cache, so each
 * panel of B is read from memory once, and a panel of A once per group. */
static int64_t reordered_block(const struct kernel_call *c, int64_t task)
{
    int64_t rows = ceil_div(c->m, c->mb), group, first, of;
    int64_t bytes = ceil_div(c->nb, c->config->nr) * c->op[1].panel_bytes;

    /* keep the order: with many limbs, arithmetic is the bottleneck; planes are gathered anew for
     * each block */
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

    task = reordered_block(&p->call, task);
    if (p->call.k > 0 && !(p->keeps && (p->call.adds || p->call.row)))
        /* scratch memory that k = 0 has cleared must stay zero, so it is not poisoned */
        limber_poison(scratch, (size_t)p->scratch);
    if (p->stage && !p->call.more)
        run_staged(p, task, scratch);
    else
        p->k->block(&p->call, task, scratch);
    if (p->finish && !p->call.more)
        finish_block(p, task);
}

/* Returns the smallest number of elements along k that a task may pack.  The flags of a block of k
 * and the sums of a chain must be written by one task.  Norms need all of k. */
static int64_t smallest_task_depth(const struct kernel_config *f, int64_t k)
{
    int64_t own = f->offsets ? f->chunk : f->kc;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || f->norms || k == 0)
        return k ? k : 1;
    while (own % 64) /* packing works on 64 bytes along k */
        own *= 2;
    return smaller(round_up(CUT, own), k);
}

/* Divides the packing of an operand into tasks and returns their number.  A task packs several
 * panels if neighbouring lines are neighbours in memory.  Tasks divide k only if there are too few
 * panels for the workers. */
static int64_t divide_packing(const struct kernel_config *f, struct kernel_call *call, int side,
                              int busy)
{
    int64_t lines = f->side[side].lines, panels = call->op[side].panels, step = 1;
    int64_t least = smallest_task_depth(f, call->k), cuts = busy > 1 ? ceil_div(call->k, least) : 1,
            wanted;

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

/* Returns a copy of the call whose views have the fewest possible dimensions. */
struct call limber_straightened(const struct call *c)
{
    struct call s = *c;

    limber_view_straighten(&s.a, s.m);
    limber_view_straighten(&s.b, s.n);
    return s;
}

/* Returns the cost of an m x n part of C for the busiest worker, in elements, if blocks have `rows`
 * rows and `columns` columns.  Fetching the panels of A and B for a block counts as 2 mr more rows
 * and nr more columns. */
static int64_t busiest_work(const struct kernel_config *f, int64_t m, int64_t n, int64_t rows,
                            int64_t columns, int busy)
{
    int64_t blocks = ceil_div(m, rows) * ceil_div(n, columns);

    return ceil_div(blocks, busy) * (rows + 2 * f->mr) * (smaller(columns, n) + f->nr);
}

/* Sets the rows and columns of a block to multiples of full panels, as even as possible, such that
 * the busiest worker ends earliest. */
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
            int64_t cost = busiest_work(f, m, n, mb, nb, busy);

            if (cost < best) {
                best = cost;
                call->mb = mb;
                call->nb = nb;
            }
        }
}

/* True if register tiles may be stored to C or to a block's buffer directly, since each element is
 * one chain of sums along k. */
bool limber_can_store_tiles(const struct kernel_config *f, const struct call *c)
{
    return f->direct && !c->c.rows && !c->c.cols && c->k > 0 && !c->a.tile_subset &&
           !c->b.tile_subset && (f->unit != UNIT_i8 || c->k <= f->chunk);
}

/* True if blocks of C are computed in a buffer and then copied, since the rows of C are not
 * contiguous or c.wide is set.  False if C has address arrays (c.rows or c.cols). */
static bool is_staged(const struct call *c)
{
    return (c->c.col != 1 || c->c.inner < c->n || c->c.wide) && !c->c.rows && !c->c.cols;
}

/* ---- limbs of prepared operands -------------------------------------------------------------- */

/* Returns the initial state of a launch, with no operand prepared. */
struct launch_operands limber_init_launch_operands(const struct kernel_config *f,
                                                   const struct call *c)
{
    const bool planes = limber_has_planes(f, c);

    return (struct launch_operands){ .planes = planes ? c : NULL,
                                     .stages = is_staged(c),
                                     .filters = limber_filter_order(f, c, planes) };
}

/* Packs all lines of a prepared operand, unless an earlier call has packed them.  Leaves
 * w->kept[side] NULL if memory is short. */
static void prepare_side(struct kernel *k, const struct call *c, const struct kernel_call *call,
                         int side, struct launch_operands *w)
{
    const struct kernel_config *f = &k->config;
    struct part p = { .k = k, .call = *call, .filters = w->filters };
    struct packed *o = &p.call.op[side];
    const struct keeper *keep = c->keep[side];
    struct kept_limbs *kept;
    int variant = call->stores && f->offsets;

    o->line0 = 0;
    o->lines = side ? c->n : c->m;
    /* the variant of packed limbs: bit 0 is set if offsets are corrected by start values of
     * registers and not by subtracting sums at the end; the other bits are the taps of turned
     * filters */
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

/* Packs those operands that are prepared.  is_cut: k is divided.  Then the kept sums of packed
 * values, which correct for offsets and span all of k, cannot be used. */
static void prepare_sides(struct kernel *k, const struct call *c, const struct kernel_call *call,
                          bool is_cut, struct launch_operands *w)
{
    const struct kernel_config *f = &k->config;

    if (f->unit == UNIT_exact || f->unit == UNIT_model || c->k == 0 || (is_cut && f->offsets))
        return;
    for (int side = 0; side < 2; side++)
        if (c->keep[side] && !call->op[side].view.tile_subset &&
            (limber_view_strided(&call->op[side].view) || (side == 0 && w->filters.turned)))
            prepare_side(k, c, call, side, w);
}

/* Tells the keepers of prepared operands that the launch no longer uses their limbs. */
static void release_sides(const struct call *c, const struct launch_operands *w)
{
    for (int side = 0; side < 2; side++)
        if (w->kept[side])
            c->keep[side]->free(c->keep[side]->self, w->kept[side]);
}

/* Points a part to its lines within the panels of a prepared operand.  The part begins at the first
 * line of a panel. */
static void point_to_prepared(const struct kernel_config *f, struct packed *o,
                              const struct launch_operands *w, int side)
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

/* ---- layouts that are kept from launch to launch --------------------------------------------- */

/* Keeps *x for later launches that differ only in addresses, scalars, masks and data. */
void limber_layout_keep(const struct call *c, const struct kept_layout *x)
{
    void *none = NULL;
    struct kept_layout *new;

    if (!c->layout || c->conv || c->keep[0] || c->keep[1] || c->launch_memory || c->dry ||
        limber_layout_kept(c) || !(new = malloc(sizeof *new)))
        return;
    *new = *x;
    if (!__atomic_compare_exchange_n(c->layout, &none, new, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
        free(new);
}

/* ---- parts of a launch ----------------------------------------------------------------------- */

/* Returns the number of rows of a block in a part of m rows. */
static int64_t block_rows(const struct kernel_config *f, int64_t m)
{
    return smaller(f->mb, round_up(m, f->mr));
}

/* Returns the bytes of a worker's memory beside its sums: a panel gathered from planes, and a
 * buffer for a block of C of `rows` rows. */
static int64_t buffer_bytes(const struct kernel_config *f, const struct launch_operands *w,
                            int64_t rows)
{
    return (w->planes ? limber_gathered_panel_bytes(f, w->filters.k) : 0) +
           (w->stages ? round_up(rows * f->nb * f->c.size, 64) : 0);
}

/* Returns the bytes of a worker's scratch memory for blocks of `rows` rows. */
static int64_t worker_bytes(const struct kernel_config *f, const struct launch_operands *w,
                            int64_t rows)
{
    return round_up(scratch_bytes(f, rows), 64) + buffer_bytes(f, w, rows);
}

/* Returns the bytes of the limbs of m rows and n columns.  A prepared operand has memory of its own
 * and counts as empty. */
static int64_t sides_bytes(const struct kernel_config *f, const struct launch_operands *w,
                           int64_t m, int64_t n, int64_t k)
{
    return limber_side_bytes(f, 0, w->kept[0] ? 0 : m, k) +
           (w->planes ? limber_planes_bytes(f, w->planes, n) :
                        limber_side_bytes(f, 1, w->kept[1] ? 0 : n, k)) +
           256;
}

/* Returns the bytes of a part of m rows and n columns: both operands' limbs, and all workers'
 * scratch memory. */
static int64_t part_bytes(const struct kernel_config *f, const struct launch_operands *w, int64_t m,
                          int64_t n, int64_t k, int workers)
{
    return sides_bytes(f, w, m, n, k) + workers * (worker_bytes(f, w, block_rows(f, m)) +
                                                   limber_transposed_bytes(f, &w->filters));
}

/* Assigns memory for packing an operand, or points the part to prepared limbs.  Returns the first
 * free byte.  Panels have room for `depth` elements along k, so that all parts of k have the same
 * layout. */
static char *begin_side(struct part *p, const struct launch_operands *w, int side, int64_t depth,
                        int busy, char *memory)
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

/* Computes columns [j, j + width) of a part.  The first call also packs the part's rows of A. */
static void run_columns(struct part *p, struct call *c, const struct launch_operands *w, int64_t j,
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
    call->tasks[0] = 0; /* the rows of A are packed now, so later calls do not pack them */
    call->blocks_j = ceil_div(width, call->nb);
    c->runner->run(c->runner->self, ceil_div(call->m, call->mb) * call->blocks_j, run_block, p);
    c->out.overflow += call->overflow;
    call->overflow = 0;
}

/* Returns the state of a part of C: rows [i, i + height), at most `width` columns at a time. */
static struct part begin_rows(struct kernel *k, const struct call *c,
                              const struct kernel_call *call, const struct launch_operands *w,
                              int64_t i, int64_t height, int64_t width)
{
    const struct kernel_config *f = &k->config;
    struct part p = {
        .k = k, .call = *call, .filters = w->filters, .finish = w->last ? c->finish : NULL
    };

    p.call.room = round_up(scratch_bytes(f, block_rows(f, height)), 64);
    p.scratch = p.call.room + buffer_bytes(f, w, block_rows(f, height));
    p.stage = w->stages ?
                  p.call.room + (w->planes ? limber_gathered_panel_bytes(f, w->filters.k) : 0) :
                  0;
    p.call.m = height;
    p.call.i0 = i;
    if (!call->mb || height != c->m) /* otherwise the caller has set the blocks of this part */
        set_block(f, &p.call, height, smaller(width, c->n), busy_workers(c));
    p.call.op[0].line0 = i;
    p.call.op[0].lines = height;
    return p;
}

/* Computes rows [i, i + height) of C, `width` columns at a time. */
static void run_rows(struct kernel *k, struct call *c, struct kernel_call call,
                     const struct launch_operands *w, int64_t i, int64_t height, int64_t width,
                     char *memory)
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

/* Returns the number of elements along k of a part, such that its packed panels fit in the
 * last-level cache and, together with the sums of one block of C, in the workspace.  Returns all of
 * k if C cannot hold partial sums. */
static int64_t part_depth(const struct kernel_config *f, const struct kernel_call *call,
                          const struct launch_operands *w, int workers, int64_t limit)
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

/* Returns the largest number of elements along k of a part, with the padding of words of channels.
 * If there is such padding, or an operand is no plain matrix, k is not divided. */
static int64_t largest_part_depth(const struct kernel_config *f, const struct call *c,
                                  const struct kernel_call *call, const struct launch_operands *w)
{
    return w->filters.k > call->k ? w->filters.k :
                                    smaller(call->k, part_depth(f, call, w, c->runner->workers,
                                                                (int64_t)c->workspace_limit));
}

/* Returns the address of the operand's elements from position p along k on.  A convolution's
 * operand is always read from k = 0. */
static const void *data_at_k(const struct view *v, int64_t p, int size)
{
    return limber_view_strided(v) ? (const char *)v->data + p * v->p * size : v->data;
}

/* True if scratch memory may keep sums that C cannot hold from one part of k to the next. */
static bool can_keep_sums(const struct kernel_config *f, const struct kernel_call *call,
                          const struct launch_operands *w)
{
    const struct view *a = &call->op[0].view, *b = &call->op[1].view;
    bool plain = limber_view_strided(a) && limber_view_strided(b) && !a->tile_subset &&
                 !b->tile_subset && !w->planes && !w->filters.turned && w->filters.k == call->k;

    return plain && !call->stores && f->unit != UNIT_model &&
           !(f->offsets && (w->kept[0] || w->kept[1]));
}

/* Returns the smallest part of k, of which all parts are multiples.  The order of float sums
 * depends on full blocks of k, and prepared operands are packed in such blocks. */
static int64_t smallest_part_depth(const struct kernel_config *f, const struct launch_operands *w)
{
    return f->unit == UNIT_exact                                         ? EXACT_PART :
           f->reconstruct == RECONSTRUCT_sum || w->kept[0] || w->kept[1] ? f->kc :
                                                                           SHORT_PART;
}

/* Returns the number of blocks in an m x n part of C. */
static int64_t block_count(const struct kernel_call *call, int64_t m, int64_t n)
{
    return ceil_div(m, call->mb) * ceil_div(n, call->nb);
}

/* Returns the workspace in bytes of a launch with this division. */
int64_t limber_extent_bytes(const struct kernel_config *f, const struct call *c,
                            const struct launch_operands *w, const struct part_size *x)
{
    struct kernel_call block;
    int64_t m = smaller(x->m, c->m), n = smaller(x->n, c->n);

    if (!x->sums)
        return part_bytes(f, w, x->m, x->n, x->k, c->runner->workers);
    set_block(f, &block, m, n, busy_workers(c));
    return sides_bytes(f, w, x->m, x->n, x->k) +
           block_count(&block, m, n) * worker_bytes(f, w, block_rows(f, m));
}

/* Returns half of x, rounded up to a multiple of `step`. */
static int64_t halve(int64_t x, int64_t step)
{
    return round_up(ceil_div(x, 2), step);
}

/* Makes the parts one step smaller; returns false if they are the smallest.  The sequence of steps
 * does not depend on the workspace limit: first fewer columns, since packed rows are used for all
 * columns, down to one block per worker; then fewer rows; then shorter parts of k, first for
 * several blocks of C, at last for one. */
static bool shrink_extent(const struct kernel_config *f, const struct call *c,
                          const struct kernel_call *call, const struct launch_operands *w,
                          struct part_size *x)
{
    int64_t columns = ceil_div(busy_workers(c), ceil_div(x->m, f->mb)),
            least = smallest_part_depth(f, w);

    columns = columns > COLUMNS ? columns : COLUMNS;
    if (!x->sums) {
        if (x->n > columns * f->nb && !w->kept[1])
            x->n = halve(x->n, f->nb);
        else if (x->m > f->mb && !w->kept[0])
            x->m = halve(x->m, f->mb);
        else if (x->n > f->nb && !w->kept[1])
            x->n = halve(x->n, f->nb);
        else if (x->k > least && can_keep_sums(f, call, w))
            *x = (struct part_size){ smaller(c->m, COLUMNS * f->mb), smaller(c->n, columns * f->nb),
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

/* Returns the size of the parts of C and k: starts with one part and shrinks it step by step until
 * the workspace fits the limit. */
struct part_size limber_extent_of(const struct kernel_config *f, const struct call *c,
                                  const struct kernel_call *call, const struct launch_operands *w)
{
    const int64_t limit = (int64_t)c->workspace_limit;
    struct part_size x = { .m = c->m,
                           .n = c->n,
                           .k = smaller(w->filters.k, largest_part_depth(f, c, call, w)) };

    while (limber_extent_bytes(f, c, w, &x) > limit && shrink_extent(f, c, call, w, &x))
        ;
    x.m = round_up(ceil_div(c->m, ceil_div(c->m, x.m)), f->mr);
    return x;
}

/* Computes one part of C over all parts of k.  Rows of the product table that share a float
 * accumulator run one after another, each over all of k. */
static void run_sums(struct kernel *k, struct call *c, const struct kernel_call *call,
                     struct launch_operands *w, const struct part_size *x, int64_t i, int64_t j,
                     char *memory)
{
    const struct kernel_config *f = &k->config;
    const bool in_turn = f->reconstruct == RECONSTRUCT_sum && f->rows > f->accumulators;
    struct part p = begin_rows(k, c, call, w, i, smaller(c->m, x->m), x->n);
    struct kernel_call *here = &p.call;

    /* the buffer fits later parts, too: they have at most as many blocks as the first one */
    p.keeps = true;
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
    c->out.overflow += here->overflow;
}

/* Packs prepared operands, and divides C and k into parts that fit the workspace.  *x: the
 * division.  most: bytes of workspace. */
static void divide_launch(struct kernel *k, const struct call *c, struct kernel_call *call,
                          struct launch_operands *w, struct part_size *x, int64_t most)
{
    const struct kernel_config *f = &k->config;

    *w = limber_init_launch_operands(f, c);
    call->stores = limber_can_store_tiles(f, c);
    x->k = largest_part_depth(f, c, call, w);
    call->k = w->filters.k;
    prepare_sides(k, c, call, x->k < w->filters.k, w);
    call->k = c->k;
    *x = limber_extent_of(f, c, call, w);
    if ((w->kept[0] || w->kept[1]) && limber_extent_bytes(f, c, w, x) > most) {
        /* prepared operands need full blocks of k; parts that pack their own limbs can be
         * shorter */
        release_sides(c, w);
        *w = limber_init_launch_operands(f, c);
        *x = limber_extent_of(f, c, call, w);
    }
}

/* Keeps how a launch is divided, and the block size if all rows are one part. */
static void keep_division(const struct kernel_config *f, const struct call *c,
                          const struct kernel_call *call, const struct launch_operands *w,
                          const struct part_size *x)
{
    struct kept_layout kept = { .way = WAY_packed,
                                .stores = call->stores,
                                .operands = *w,
                                .part = *x,
                                .bytes = (int64_t)c->out.workspace };
    struct kernel_call blocks = { .m = 0 };

    if (!c->layout)
        return;
    if (x->m >= c->m && !x->sums) {
        set_block(f, &blocks, c->m, smaller(x->n, c->n), busy_workers(c));
        kept.mb = blocks.mb;
        kept.nb = blocks.nb;
    }
    limber_layout_keep(c, &kept);
}

/* Runs a launch: computes the parts of C and k, which fit the workspace, one after another.  kept:
 * how an earlier launch was divided, or NULL. */
bool limber_parts_run(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, const struct kept_layout *kept,
                      struct diag *d)
{
    const struct kernel_config *f = &k->config;
    const int64_t most = (int64_t)(given->memory ? given->bytes : c->workspace_limit);
    struct launch_operands w;
    struct launch_memory taken;
    struct part_size x;
    int64_t all, step;
    char *memory;
    bool ok;

    call.view_k = c->k;
    call.whole[0] = call.op[0].view;
    call.whole[1] = call.op[1].view;
    if (kept) {
        w = kept->operands;
        x = kept->part;
        call.stores = kept->stores;
        call.mb = kept->mb;
        call.nb = kept->nb;
        c->out.workspace = (size_t)kept->bytes;
    } else {
        divide_launch(k, c, &call, &w, &x, most);
        c->out.workspace = (size_t)limber_extent_bytes(f, c, &w, &x);
        keep_division(f, c, &call, &w, &x);
    }
    all = w.filters.k;
    ok = limber_workspace_use_given(c, given, c->out.workspace, &taken, d);
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
    c->out.finished = ok && c->finish;
    return ok;
}
