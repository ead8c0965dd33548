/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a call on a device: makes limbs of both operands, multiplies them, and stores C.  C is
 * computed in several blocks (struct part) if the workspace cannot hold all limbs. */
#include "backends/cuda/launch.h"

#include "ir/num/prim.h"
#include "ir/unit/num.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Constants that the files in kernel/ define, too.  A thread block packs LINES rows of A or
     * columns of B by ELEMENTS elements along k.  Reconstruction computes SIDE x SIDE elements of C
     * per thread block.  Pitches of limbs are multiples of LINE_BYTES. */
    LINES = 32,
    ELEMENTS = 64,
    PACK_THREADS = 256,
    SIDE = 32,
    RECONSTRUCT_THREADS = 256,
    ELEMENT_THREADS = 128,
    SCALE_THREADS = 256,
    LINE_BYTES = 128,
    ALIGN = 256
};

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* ---- the kernels for a part of C ------------------------------------------------------------- */

/* Returns the bytes of k elements of a limb.  Two elements of FP4 share a byte. */
static int64_t k_bytes(const struct cuda_config *f, int64_t k)
{
    return ceil_div(k * f->bytes, f->packed);
}

/* Returns the number of pipeline steps for k elements. */
static int64_t step_count(const struct cuda_config *f, int64_t k)
{
    return ceil_div(k_bytes(f, k), f->step);
}

/* True if totals need 64 bits.  A total that is moved out of registers only once fits 32 bits. */
static bool is_wide(const struct cuda_config *f, int64_t k)
{
    return f->reconstruct == RECONSTRUCT_shift &&
           (f->unit == UNIT_f64 || f->most_rows * step_count(f, k) > f->flush_steps);
}

/* Returns how a simulated unit's elements along k are padded (struct slots in kernel/args.h). */
static struct slots slots_of(const struct cuda_model *m, int64_t k)
{
    const limber_unit u = { .block = m->block, .group = m->group, .split = m->split };
    struct slots s = { .k = k, .part_length = limber_unit_part(&u, k) };
    int64_t whole, rest;

    s.run = m->block > 1 ? m->block : m->group ? m->group : m->split > 1 ? s.part_length : k;
    s.run = s.run > 0 ? s.run : 1;
    s.run_slots = m->block > 1 ? m->piece : round_up(s.run, 4);
    whole = k / s.run;
    rest = m->block > 1 ? ceil_div(k % s.run, m->block) * m->piece : round_up(k % s.run, 4);
    s.count = (int32_t)(whole * s.run_slots + rest);
    if (m->group && m->group < k)
        s.group = (int32_t)(m->group / s.run * s.run_slots);
    if (m->split > 1 && s.part_length < k)
        s.part = (int32_t)(s.part_length / s.run * s.run_slots);
    return s;
}

/* Returns the number of matrices of A (side 0) or B (side 1) whose limbs a part holds. */
static int64_t held_matrices(const struct device_call *r, const struct part *p, int side)
{
    return r->matrices[side] > 1 ? p->groups : 1;
}

/* Returns the number of rows of A or columns of B in a part's limbs, per product, padded to
 * complete tiles. */
static int64_t padded_lines(const struct device_call *r, const struct part *p, int side)
{
    const struct cuda_config *f = &r->kernel->config;

    return side ? p->tiles_n * f->bn : p->tiles_m * f->bm;
}

/* Returns the bytes of an operand's block scales: 1 per scale for block-scaled instructions, else
 * 4. */
static int64_t scale_bytes(const struct device_call *r, const struct part *p, int side)
{
    int64_t line = r->kernel->config.mx.kind ? padded_lines(r, p, side) : 4 * (side ? p->n : p->m);

    return round_up(held_matrices(r, p, side) * line * p->scale_blocks, ALIGN);
}

/* Returns the bytes of an operand's block scales and of its flags, which tell which tiles a
 * simulated unit computes in FP64. */
static int64_t unit_bytes(const struct device_call *r, const struct part *p, int side)
{
    bool flags = r->kernel->config.mma_path == MMA_PATH_unit;

    return scale_bytes(r, p, side) +
           (flags ?
                round_up(held_matrices(r, p, side) * (side ? p->tiles_n : p->tiles_m) * 4, ALIGN) :
                0);
}

/* Sets a part's numbers of tiles, its pitches, and the bytes of its limbs and totals. */
static void lay_out_part(const struct device_call *r, struct part *p)
{
    const struct cuda_config *f = &r->kernel->config;
    int64_t k = r->k, size = f->total_bytes == 4 && is_wide(f, k) ? 8 : f->total_bytes;

    p->tiles_m = ceil_div(p->m, f->bm);
    p->tiles_n = ceil_div(p->n, f->bn);
    p->pitch = round_up(k > 0 ? k_bytes(f, k) : 1, LINE_BYTES);
    p->scale_blocks = p->pitch / LINE_BYTES * f->mx.scales;
    if (f->mma_path == MMA_PATH_unit) {
        p->slots = slots_of(&f->model, k);
        p->pitch = round_up((int64_t)p->slots.count * 4, f->step);
        p->scale_blocks = f->model.scale_block ? ceil_div(k, f->model.scale_block) : 0;
    }
    if (!f->inside) {
        p->limb[0] = held_matrices(r, p, 0) * p->tiles_m * f->bm * p->pitch;
        p->next_b =
            r->images ? p->images * limber_cuda_image_bytes(r) : p->tiles_n * f->bn * p->pitch;
        p->limb[1] = held_matrices(r, p, 1) * p->next_b;
    }
    p->total_pitch = f->direct ? 0 : p->tiles_n * f->bn * size;
    p->total_size = p->groups * p->m * p->total_pitch;
    p->bytes = (size_t)(round_up(f->side[0].limbs * p->limb[0], ALIGN) +
                        round_up(f->side[1].limbs * p->limb[1], ALIGN) +
                        (f->totals ? f->accumulators : 1) * p->total_size + unit_bytes(r, p, 0) +
                        unit_bytes(r, p, 1));
}

/* Sets the addresses of a part's limbs and totals in the workspace.  All parts use the layout of
 * the largest part, `most`, so that later parts can reuse limbs. */
static void place_part(const struct device_call *r, const struct part *most, struct part *p)
{
    const struct cuda_config *f = &r->kernel->config;
    cu_pointer at = r->memory.workspace;

    for (int side = 0; side < 2; side++) {
        p->scales[side] = at;
        p->wide[side] = at + (cu_pointer)scale_bytes(r, most, side);
        p->limbs[side] = at + (cu_pointer)unit_bytes(r, most, side);
        at = p->limbs[side] + (cu_pointer)round_up(f->side[side].limbs * most->limb[side], ALIGN);
    }
    p->totals = at;
}

/* Returns the number of columns of C whose limbs of B are in the workspace at once: those of
 * complete images, or all. */
static int64_t span_columns(const struct device_call *r, const struct part *p)
{
    return r->images ? p->images * r->map[1].patch.oh * r->map[1].patch.ow : r->call->n;
}

/* Halves the number of images in the workspace if their limbs take more than half of the limit.
 * Returns true if it did. */
static bool halve_images(const struct device_call *r, struct part *p, size_t limit)
{
    if (p->images < 2 || (size_t)(r->kernel->config.side[1].limbs * p->limb[1]) <= limit / 2)
        return false;
    p->images = ceil_div(p->images, 2);
    if (p->n > span_columns(r, p))
        p->n = span_columns(r, p);
    return true;
}

/* Returns the number of thread blocks of the largest grid that one product of a batch needs. */
static int64_t largest_grid(const struct device_call *r, const struct part *p)
{
    const struct cuda_config *f = &r->kernel->config;
    int64_t lines =
        p->tiles_m * f->bm > p->tiles_n * f->bn ? p->tiles_m * f->bm : p->tiles_n * f->bn;
    int64_t tasks = p->tiles_m * p->tiles_n * (f->totals ? f->accumulators : 1);
    int64_t blocks = ceil_div(lines, LINES) * ceil_div(p->pitch * f->packed, f->bytes * ELEMENTS);

    blocks = tasks > blocks ? tasks : blocks;
    return lines > blocks ? lines : blocks;
}

/* Returns the largest part that fits the limit.  First bounds the number of products, since grids
 * are counted in 32 bits.  Then, while memory is short, halves the number of products, next the
 * images if their limbs take more than half of the limit, next the columns of C (since limbs of
 * rows are used for all columns), and at last the rows. */
static struct part fit_part(const struct device_call *r, size_t limit)
{
    const struct cuda_config *f = &r->kernel->config;
    struct part p = { .m = r->call->m, .n = r->call->n, .groups = 1, .images = r->images };
    int64_t most;

    lay_out_part(r, &p);
    most = INT32_MAX / 2 / largest_grid(r, &p) + 1;
    p.groups = r->groups < most ? r->groups : most;
    for (lay_out_part(r, &p); p.bytes > limit; lay_out_part(r, &p)) {
        if (p.groups > 1) {
            p.groups = ceil_div(p.groups, 2);
            continue;
        }
        if (halve_images(r, &p, limit))
            continue;
        if (p.n > 16 * f->bn)
            p.n = round_up(p.n / 2, f->bn);
        else if (p.m > f->bm)
            p.m = round_up(p.m / 2, f->bm);
        else if (p.n > f->bn)
            p.n = round_up(p.n / 2, f->bn);
        else if (!halve_images(r, &p, 0))
            break;
    }
    return p;
}

/* Prepares packing for a simulated unit: clears the flags of tiles that need FP64, and computes
 * block scales. */
static bool pack_unit(struct device_call *r, const struct part *p, int side, struct pack_args *args,
                      struct diag *d)
{
    size_t tiles = (size_t)(held_matrices(r, p, side) * (side ? p->tiles_n : p->tiles_m));

    return limber_cuda_ok(r->driver,
                          r->driver->cuMemsetD32Async(p->wide[side], 0, tiles, r->stream),
                          "clearing", d) &&
           limber_cuda_launch_kernel(
               r, side ? KERNEL_scale_b : KERNEL_scale_a,
               ceil_div(args->matrices * args->lines * args->scale_blocks, SCALE_THREADS),
               SCALE_THREADS, 0, args, d);
}

/* Returns the index of a part's first row of A or column of B, counted over all matrices of the
 * operand. */
static int64_t first_line(const struct device_call *r, const struct part *p, int side)
{
    int64_t lines = side ? r->call->n : r->call->m;

    return (r->matrices[side] > 1 ? p->group * lines : 0) + (side ? p->j : p->i);
}

/* Returns the device address of the exponents that scale a part's operand: one per line, or one per
 * matrix. */
static const int32_t *scales_of(const struct device_call *r, const struct part *p, int side)
{
    bool lines = r->kernel->config.side[side].scaled == SCALED_lines;
    int64_t matrix = r->matrices[side] > 1 ? p->group : 0;

    return r->scales.emax[side] ? (const int32_t *)(uintptr_t)r->scales.emax[side] +
                                      (lines ? first_line(r, p, side) : matrix) :
                                  NULL;
}

/* Returns the device address of a part's flags per line (row of A or column of B): 1 if the line
 * has NaN or infinities.  Returns NULL if there are no flags. */
static const uint8_t *flags_of(const struct device_call *r, const struct part *p, int side)
{
    return r->scales.special[side] ?
               (const uint8_t *)(uintptr_t)r->scales.special[side] + first_line(r, p, side) :
               NULL;
}

/* Returns the distances or addresses of the matrices from number `group` on.  which: 0, 1 or 2 for
 * A, B or C.  If there are distances, *data is moved to matrix `group`. */
static struct spread matrices_from(const struct device_call *r, int which, int64_t group,
                                   const void **data)
{
    struct spread x = r->each[which];

    if (x.address)
        x.address += group;
    else
        *data = limber_spread_at(*data, &x, group);
    return x;
}

/* Returns the kernel arguments of an operand that the view v locates, from matrix `group` on. */
static struct operand_args operand_of(const struct device_call *r, const struct view *v, int side,
                                      int64_t group)
{
    struct operand_args o = limber_cuda_operand(v);

    o.each = matrices_from(r, side, group, &o.view.data);
    return o;
}

/* Arguments and grid of the kernel that packs one operand. */
struct packing {
    struct pack_args args;
    int64_t blocks;
};

/* Returns the number of thread blocks along k that pack one group of lines.  stretches: number of
 * runs of ELEMENTS elements along k.  Usually each block packs one such run.  If there are many,
 * each packs four, since locating the operand takes a fifth of a block's instructions. */
static int32_t blocks_across(const struct device_call *r, int64_t lines, int64_t stretches)
{
    const struct cuda_config *f = &r->kernel->config;
    bool many = ceil_div(lines, LINES) * stretches >= 32 * (int64_t)r->device->multiprocessors;

    return (int32_t)(many && f->mma_path != MMA_PATH_unit && !f->mx.kind ? ceil_div(stretches, 4) :
                                                                           stretches);
}

/* Returns the arguments and the grid for packing the images that the part holds. */
static struct packing pack_images(const struct device_call *r, const struct part *p)
{
    const struct cuda_config *f = &r->kernel->config;
    struct pack_args args = limber_cuda_pixels(r, p);

    args.operand.each = matrices_from(r, 1, p->group, &args.operand.view.data);
    args.limbs = (char *)(uintptr_t)p->limbs[1];
    args.limb = p->limb[1];
    args.emax = scales_of(r, p, 1);
    args.choice = (const int32_t *)(uintptr_t)r->guard.choice;
    args.mine = r->guard.mine;
    args.blocks_p = blocks_across(r, held_matrices(r, p, 1) * p->images * args.lines,
                                  ceil_div(args.pitch / f->bytes, ELEMENTS));
    args.blocks = (int32_t)(ceil_div(args.lines, LINES) * args.blocks_p);
    return (struct packing){ args, held_matrices(r, p, 1) * p->images * args.blocks };
}

/* Returns the kernel arguments of an operand: the view and a copy of its index map. */
struct operand_args limber_cuda_operand(const struct view *v)
{
    struct operand_args o = { .view = *v, .patched = v->patch != NULL, .paired = v->pairs != NULL };

    if (v->patch)
        o.patch = *v->patch;
    if (v->pairs)
        o.pairs = *v->pairs;
    o.view.patch = NULL;
    o.view.pairs = NULL;
    return o;
}

/* Returns the arguments and the grid for packing the operand elements that a part of C needs: rows
 * of A (side 0) or columns of B (side 1). */
static struct packing pack_side(const struct device_call *r, const struct part *p, int side)
{
    const struct cuda_config *f = &r->kernel->config;
    struct pack_args args = {
        .operand = operand_of(r, &r->ordered[side], side, p->group),
        .line0 = side ? p->j : p->i,
        .lines = side ? p->n : p->m,
        .length = r->k,
        .padded = padded_lines(r, p, side),
        .limbs = (char *)(uintptr_t)p->limbs[side],
        .pitch = p->pitch,
        .limb = p->limb[side],
        .emax = scales_of(r, p, side),
        .tile_subset = r->subsets.tile_subset[side],
        .choice = (const int32_t *)(uintptr_t)r->guard.choice,
        .mine = r->guard.mine,
        .slots = p->slots,
        .scales = (float *)(uintptr_t)p->scales[side],
        .scale_blocks = p->scale_blocks,
        .wide = (uint32_t *)(uintptr_t)p->wide[side],
        .matrices = held_matrices(r, p, side),
    };

    int64_t blocks;

    args.blocks_p = blocks_across(r, args.matrices * args.padded,
                                  ceil_div(p->pitch / f->bytes * f->packed, ELEMENTS));
    blocks = ceil_div(args.padded, LINES) * args.blocks_p;
    /* the driver refuses launches with more blocks than INT32_MAX */
    args.blocks = blocks < INT32_MAX ? (int32_t)blocks : INT32_MAX;
    return (struct packing){ args, args.matrices * blocks };
}

/* Packs the limbs of A (of_a), of B (of_b), or of both in one launch. */
static bool launch_pack(struct device_call *r, const struct part *p, bool of_a, bool of_b,
                        struct diag *d)
{
    const struct cuda_config *f = &r->kernel->config;
    struct packs_args args = { .first = 0 };
    int64_t blocks[2] = { 0, 0 };
    int size = 0;

    for (int side = 0; side < 2; side++) {
        struct packing one;

        if (!(side ? of_b : of_a))
            continue;
        one = side && r->images ? pack_images(r, p) : pack_side(r, p, side);
        if (f->mma_path == MMA_PATH_unit && !pack_unit(r, p, side, &one.args, d))
            return false;
        args.side[side] = one.args;
        blocks[side] = one.blocks;
        size = f->side[side].f.size > size ? f->side[side].f.size : size;
    }
    args.first = blocks[0] < INT32_MAX ? (int32_t)blocks[0] : INT32_MAX;
    return limber_cuda_launch_kernel(r, KERNEL_pack, blocks[0] + blocks[1], PACK_THREADS,
                                     LINES * (ELEMENTS + 1) * size, &args, d);
}

/* Returns the arguments for storing the results of one part of C. */
static struct result_args result_of(const struct device_call *r, const struct part *p)
{
    const struct cuda_config *f = &r->kernel->config;
    const struct call *c = r->call;
    const void *data = r->place.data;
    struct result_args a = {
        .choice = (const int32_t *)(uintptr_t)r->guard.choice,
        .mine = r->guard.mine,
        .dry = c->dry,
        .m = p->m,
        .n = p->n,
        .i0 = p->i,
        .j0 = p->j,
        .c = r->place,
        .each_a = r->matrices[0] > 1 ? c->m : 0,
        .each_b = r->matrices[1] > 1 ? c->n : 0,
        .emax_a = scales_of(r, p, 0),
        .emax_b = scales_of(r, p, 1),
        .special_a = flags_of(r, p, 0),
        .special_b = flags_of(r, p, 1),
        .overflow = (uint64_t *)(uintptr_t)r->overflow,
        .totals = (char *)(uintptr_t)p->totals,
        .total_pitch = p->total_pitch,
        .total_size = p->total_size,
        .wide = f->mma_path != MMA_PATH_element && is_wide(f, r->k),
    };

    a.each_c = matrices_from(r, 2, p->group, &data);
    a.c.data = (void *)(uintptr_t)data;
    if (c->alpha)
        memcpy(a.alpha, c->alpha, f->scalars.size);
    if (c->beta)
        memcpy(a.beta, c->beta, f->scalars.size);
    return a;
}

/* Makes a tensor map (for TMA) of one operand's limbs [limb][line][element].  A box is what one
 * copy fetches: one pipeline stage of a tile or, with clusters, the fraction of it that each of
 * `blocks` thread blocks fetches. */
static bool map_limbs(struct device_call *r, const struct part *p, int side, int blocks,
                      struct tensor_map *map, struct diag *d)
{
    enum { U8 = 0, U16 = 1, U32 = 2, RANK = 3, SWIZZLE_128 = 3, L2_256 = 3 };
    const struct cuda_config *f = &r->kernel->config;
    uint64_t size[RANK] = { (uint64_t)(p->pitch / f->bytes), (uint64_t)(p->limb[side] / p->pitch),
                            (uint64_t)f->side[side].limbs };
    uint64_t stride[RANK - 1] = { (uint64_t)p->pitch, (uint64_t)p->limb[side] };
    unsigned box[RANK] = { (unsigned)(f->step / f->bytes),
                           (unsigned)((side ? f->bn : f->bm) / blocks), 1 };
    unsigned every[RANK] = { 1, 1, 1 };

    if (!r->driver->cuTensorMapEncodeTiled)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "the CUDA driver is too old for tensor maps");
    return limber_cuda_ok(r->driver,
                          r->driver->cuTensorMapEncodeTiled(map,
                                                            f->bytes == 1 ? U8 :
                                                            f->bytes == 2 ? U16 :
                                                                            U32,
                                                            RANK, (void *)(uintptr_t)p->limbs[side],
                                                            size, stride, box, every, 0,
                                                            SWIZZLE_128, L2_256, 0),
                          "describing limbs to the device", d);
}

/* True if all matrices of an operand begin at multiples of 16 bytes. */
static bool is_aligned(const struct device_call *r, int side)
{
    const struct spread *listed = side ? &r->call->each_b : &r->call->each_a;

    for (int64_t g = 0; r->each[side].address && g < r->groups; g++)
        if ((uintptr_t)listed->address[g] % 16)
            return false;
    return r->each[side].address ||
           ((uintptr_t)r->view[side].data % 16 == 0 && r->each[side].step % 16 == 0);
}

/* Returns where the multiply kernel finds an operand's elements, and whether it can load 16 bytes
 * at once. */
static struct origin origin_of(const struct device_call *r, const struct part *p, int side)
{
    const struct view *v = &r->view[side];
    bool strided = limber_view_strided(v);
    struct origin o = { .operand = operand_of(r, v, side, p->group) };

    o.across = strided && v->p != 1 && v->line == 1;
    o.whole = strided && (v->p == 1 || v->line == 1) && (o.across ? v->p : v->line) % 4 == 0 &&
              is_aligned(r, side);
    return o;
}

/* Uploads flags [row of tiles of C][run of elements along k]: 1 if the part of the product uses any
 * element of this run.  lines: number of rows of A (or columns of B) in a row of tiles. */
static bool upload_shown_tiles(struct device_call *r, const struct part *p, int side, int64_t lines,
                               struct diag *d)
{
    const struct tile_subset *x = side ? r->call->b.tile_subset : r->call->a.tile_subset;
    int64_t from = side ? p->j : p->i, count = side ? p->n : p->m, rows = ceil_div(count, lines);
    uint8_t *any = calloc((size_t)(rows * x->tiles) + 1, 1);
    bool ok = any || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a part's tiles");

    for (int64_t i = 0; ok && i < count; i += LIMBER_BLOCK - (from + i) % LIMBER_BLOCK)
        for (int64_t c = 0; c < x->tiles; c++)
            any[i / lines * x->tiles + c] |=
                limber_tile_subset_reads(x, limber_block_line(x->block, from + i), c << x->shift) !=
                0;
    limber_cuda_release(r, &r->subsets.shown[side]);
    ok = ok &&
         limber_cuda_take_memory(r, &r->subsets.shown[side], (size_t)(rows * x->tiles), "tiles",
                                 d) &&
         limber_cuda_ok(r->driver,
                        r->driver->cuMemcpyHtoDAsync_v2(r->subsets.shown[side], any,
                                                        (size_t)(rows * x->tiles), r->stream),
                        "copying to the device", d);
    free(any);
    return ok;
}

/* For a part of a product that uses only some tiles of its operands: lets producer threads skip
 * those steps along k for which A or B has no element.  Only kernels with tensor maps skip. */
static bool set_skipping(struct device_call *r, const struct part *p, struct multiply_args *args,
                         struct diag *d)
{
    const struct cuda_config *f = &r->kernel->config;
    const struct tile_subset *x = r->call->a.tile_subset, *y = r->call->b.tile_subset;

    if (!f->parted || !limber_cuda_fetches(f) || f->window || f->inside || !x || !y || !x->tile ||
        !y->tile)
        return true;
    if (!upload_shown_tiles(r, p, 0, f->bm * args->cluster, d) ||
        !upload_shown_tiles(r, p, 1, f->bn, d))
        return false;
    args->shown_a = (const uint8_t *)(uintptr_t)r->subsets.shown[0];
    args->shown_b = (const uint8_t *)(uintptr_t)r->subsets.shown[1];
    args->shown = (int32_t)x->tiles;
    args->shown_shift =
        x->shift + __builtin_ctz((unsigned)f->bytes) - __builtin_ctz((unsigned)f->step);
    return true;
}

/* Launches the multiply kernel for all tiles of a part and, with exact totals, for all
 * accumulators. */
static bool launch_multiply(struct device_call *r, const struct part *p, struct diag *d)
{
    const struct cuda_config *f = &r->kernel->config;
    int cluster = limber_cuda_fetches(f) ? limber_cuda_cluster_size(r, p->tiles_m) : 1;
    int64_t rows = ceil_div(p->tiles_m, cluster);
    int64_t tasks = p->groups * rows * p->tiles_n * (f->totals ? f->accumulators : 1);
    struct multiply_args args = {
        .limbs_a = (const char *)(uintptr_t)p->limbs[0],
        .limbs_b = (const char *)(uintptr_t)p->limbs[1],
        .pitch = p->pitch,
        .limb_a = p->limb[0],
        .limb_b = p->limb[1],
        .tiles_m = (int32_t)rows,
        .tiles_n = (int32_t)p->tiles_n,
        .tasks = (int32_t)tasks,
        .products = (int32_t)p->groups,
        .each_a = held_matrices(r, p, 0) > 1 ? (int32_t)(p->tiles_m * f->bm) : 0,
        .each_b = held_matrices(r, p, 1) > 1 ? (int32_t)(p->tiles_n * f->bn) : 0,
        .next_b = held_matrices(r, p, 1) > 1 ? p->next_b : 0,
        .cluster = cluster,
        .steps = (int32_t)step_count(f, r->k),
        .r = result_of(r, p),
        .slots = p->slots,
        .seed = r->call->seed,
        .counts = (uint64_t *)(uintptr_t)r->counts,
        .wide_a = (const uint32_t *)(uintptr_t)p->wide[0],
        .wide_b = (const uint32_t *)(uintptr_t)p->wide[1],
        .scales_a = (const char *)(uintptr_t)p->scales[0],
        .scales_b = (const char *)(uintptr_t)p->scales[1],
        .scale_pitch = p->scale_blocks,
    };

    if (f->mma_path == MMA_PATH_unit)
        args.steps = (int32_t)(p->pitch / f->step);
    args.inverse_steps = limber_inverse(args.steps);
    if (f->window)
        args.window = limber_cuda_window(r, p);
    for (int side = 0; side < 2 && f->inside; side++)
        args.origin[side] = origin_of(r, p, side);
    args.k = r->k;
    if (limber_cuda_fetches(f))
        return set_skipping(r, p, &args, d) &&
               (f->inside || map_limbs(r, p, 0, 1, &args.map_a, d)) &&
               (f->inside || f->window || map_limbs(r, p, 1, cluster, &args.map_b, d)) &&
               limber_cuda_start_clusters(r, &args, d);
    return limber_cuda_launch_kernel(r, KERNEL_multiply, tasks, f->threads, f->shared, &args, d);
}

/* Returns the arguments of the kernels that compute elements of a part exactly, one by one. */
static struct element_args elements_of(const struct device_call *r, const struct part *p)
{
    return (struct element_args){
        .a = operand_of(r, &r->view[0], 0, p->group),
        .b = operand_of(r, &r->view[1], 1, p->group),
        .products = p->groups,
        .subset_a = r->subsets.tile_subset[0],
        .subset_b = r->subsets.tile_subset[1],
        .k = r->call->k,
        .seed = r->call->seed,
        .r = result_of(r, p),
    };
}

/* Launches the kernel that combines totals to elements of C, and the kernel that computes those
 * elements whose row or column has NaN or infinities. */
static bool launch_reconstruct(struct device_call *r, const struct part *p, struct diag *d)
{
    const struct cuda_config *f = &r->kernel->config;
    struct result_args args = result_of(r, p);
    struct element_args e = elements_of(r, p);
    int shared = args.c.row == 1 ? SIDE * (SIDE + 1) * f->result.size : 0;

    if (!f->direct &&
        !limber_cuda_launch_kernel(r, KERNEL_reconstruct,
                                   p->groups * ceil_div(p->m, SIDE) * ceil_div(p->n, SIDE),
                                   RECONSTRUCT_THREADS, shared, &args, d))
        return false;
    return !(args.special_a || args.special_b) ||
           limber_cuda_launch_kernel(r, KERNEL_special,
                                     ceil_div(p->groups * p->m * p->n, ELEMENT_THREADS),
                                     ELEMENT_THREADS, 0, &e, d);
}

/* ---- a call: its parts one after another ----------------------------------------------------- */

/* Sets r->workspace to `bytes` bytes: the caller's memory, or memory from the device's pool if the
 * caller gave none.  Fails if the caller's memory is too small. */
static bool take_workspace(struct device_call *r, size_t bytes, struct diag *d)
{
    if (r->memory.given && r->memory.given_bytes >= bytes) {
        r->memory.workspace = r->memory.given;
        return true;
    }
    if (r->memory.given)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "queue.bytes = %zu: the smallest part needs %zu", r->call->queue->bytes,
                           bytes + r->call->queue->bytes - r->memory.given_bytes);
    r->memory.own_workspace = true;
    return limber_cuda_take_memory(r, &r->memory.workspace, bytes, "limbs", d);
}

/* Computes the columns of C from p->j to `end`, in parts no larger than `most`.  In a convolution
 * they belong to the images in the workspace. */
static bool run_span(struct device_call *r, const struct part *most, struct part *p, int64_t end,
                     struct diag *d)
{
    const struct call *c = r->call;
    bool ahead = !r->kernel->config.inside;
    int64_t first = p->j;

    for (p->i = 0; p->i < c->m; p->i += most->m) {
        p->m = c->m - p->i < most->m ? c->m - p->i : most->m;
        for (p->j = first; p->j < end; p->j += most->n) {
            bool rows = p->j == first && (first == 0 || most->m < c->m);

            p->n = end - p->j < most->n ? end - p->j : most->n;
            lay_out_part(r, p);
            place_part(r, most, p);
            if ((ahead &&
                 !launch_pack(r, p, rows, !r->images || (p->i == 0 && p->j == first), d)) ||
                !launch_multiply(r, p, d) || !launch_reconstruct(r, p, d))
                return false;
        }
    }
    return true;
}

/* Computes the products [p->group, p->group + p->groups), in spans of columns whose images fit the
 * workspace. */
static bool run_spans(struct device_call *r, const struct part *most, struct part *p,
                      struct diag *d)
{
    const struct call *c = r->call;
    int64_t span = span_columns(r, most);

    for (int64_t j = 0; j < c->n; j += span) {
        p->j = j;
        p->image = r->images ? j / span * most->images : 0;
        p->images = r->images - p->image < most->images ? r->images - p->image : most->images;
        if (!run_span(r, most, p, c->n - j < span ? c->n : j + span, d))
            return false;
    }
    return true;
}

/* Computes the call by limbs, in parts that fit the workspace.  Returns false with an error. */
static bool run_limbs(struct device_call *r, struct diag *d)
{
    size_t limit = r->memory.given ? r->memory.given_bytes : r->call->workspace_limit;
    struct part most, p;

    limber_cuda_set_order(r);
    most = p = fit_part(r, limit);
    if (!take_workspace(r, most.bytes, d))
        return false;
    r->call->out.workspace = most.bytes;
    for (p.group = 0; p.group < r->groups; p.group += most.groups) {
        p.groups = r->groups - p.group < most.groups ? r->groups - p.group : most.groups;
        if (!run_spans(r, &most, &p, d))
            return false;
    }
    return true;
}

/* Computes each element of C exactly in a long accumulator. */
static bool run_elements(struct device_call *r, struct diag *d)
{
    struct part p = { .m = r->call->m, .n = r->call->n, .groups = r->groups };
    struct element_args e = elements_of(r, &p);
    int64_t blocks = ceil_div(p.groups * p.m * p.n, ELEMENT_THREADS);
    int64_t most = 8 * r->device->multiprocessors;

    return limber_cuda_launch_kernel(r, KERNEL_exact, blocks < most ? blocks : most,
                                     ELEMENT_THREADS, 0, &e, d);
}

/* Adds a simulated unit's additions of outer sums to the statistics.  Their number follows from the
 * sizes, so kernels need not count them. */
static void count_outer(const struct cuda_model *m, struct call *c)
{
    if (m->counts)
        c->out.counts.outer_sums =
            (c->groups > 1 ? c->groups : 1) * c->m * c->n *
            ((m->group ? ceil_div(c->k, m->group) * (m->lanes ? m->lanes : 1) : 0) +
             (m->split > 1 ? ceil_div(c->k, slots_of(m, c->k).part_length) : 0));
}

/* Returns the number of matrices of A (side 0) or B (side 1) in a call. */
int64_t limber_cuda_matrix_count(const struct call *c, int side)
{
    const struct spread *x = side ? &c->each_b : &c->each_a;

    return c->groups > 1 && (x->step || x->address) ? c->groups : 1;
}

/* Sets the call's fields for batches: groups, each, matrices. */
void limber_cuda_set_groups(struct device_call *r)
{
    const struct call *c = r->call;

    r->groups = c->groups > 1 ? c->groups : 1;
    r->each[0] = c->each_a;
    r->each[1] = c->each_b;
    r->each[2] = c->each_c;
    for (int i = 0; i < 2; i++)
        r->matrices[i] = limber_cuda_matrix_count(c, i);
}

/* True if all matrices of operand `which` (0, 1, 2 for A, B, C) lie on the device, or all lie in
 * host memory. */
static bool is_one_kind_of_memory(const struct device_call *r, int which)
{
    const void *const *at = r->each[which].address;
    bool there = at && limber_cuda_on_device(r, at[0]);

    for (int64_t g = 1; at && g < r->groups; g++)
        if (limber_cuda_on_device(r, at[g]) != there)
            return false;
    return true;
}

/* Implements device_ops.takes_groups: true if one launch can compute all products of the call.  A
 * captured call cannot upload a list of addresses, and its guard (the check of its data) does not
 * support groups of a convolution. */
bool limber_cuda_takes_groups(const struct kernel *k, const struct call *c)
{
    struct diag ignored = { 0 };
    struct call call = *c;
    struct device_call r = { .kernel = (struct kernel *)(uintptr_t)k,
                             .call = &call,
                             .device = limber_cuda_device(c->device, &ignored) };
    const struct cuda_config *f = &k->config;

    limber_cuda_set_groups(&r);
    if (!r.device || (c->conv && c->guard))
        return false;
    r.driver = r.device->driver;
    for (int i = 0; i < 3; i++)
        if ((r.each[i].address && c->guard) || !is_one_kind_of_memory(&r, i))
            return false;
    return !f->library || !(c->ways & limber_way_bit(WAY_cublas)) || limber_cublas_takes_groups(&r);
}

/* Makes the context of r->device current, and allows this thread to allocate while a stream is
 * captured. */
bool limber_cuda_enter_context(struct device_call *r, struct diag *d)
{
    r->driver = r->device->driver;
    if (!limber_cuda_ok(r->driver, r->driver->cuCtxPushCurrent_v2(r->device->context),
                        "entering the device's context", d))
        return false;
    r->capture_mode = limber_cuda_relax(r->driver);
    return true;
}

/* Sets the call's device, stream, workspace and loaded kernel.  On failure it leaves the context
 * again. */
bool limber_cuda_enter(struct device_call *r, struct diag *d)
{
    const struct call *c = r->call;

    limber_cuda_set_groups(r);
    r->device = limber_cuda_device(c->device, d);
    if (!r->device)
        return false;
    if (!limber_cuda_enter_context(r, d))
        return false;
    r->own_stream = !c->queue;
    if (c->queue) {
        r->stream = c->queue->stream;
        r->memory.given = (cu_pointer)(uintptr_t)c->queue->workspace;
        r->memory.given_bytes = r->memory.given ? c->queue->bytes : 0;
    }
    if (limber_cuda_find_kernel(r, c->device, d) &&
        (c->queue || limber_cuda_take_stream(r->device, &r->stream, d)))
        return true;
    r->own_stream = false;
    limber_cuda_leave(r);
    return false;
}

/* Ends what limber_cuda_enter or limber_cuda_enter_context began. */
void limber_cuda_leave(struct device_call *r)
{
    cu_context before;

    if (r->own_stream)
        limber_cuda_return_stream(r->device, r->stream);
    limber_cuda_restore(r->driver, r->capture_mode);
    r->driver->cuCtxPopCurrent_v2(&before);
}

/* Computes by cuBLAS if plan and call allow it, else by the plan's kernel.  Sets the call's way
 * (code path). */
bool limber_cuda_run(struct device_call *r, struct diag *d)
{
    const bool asks = r->call->ways & limber_way_bit(WAY_cublas);
    bool done = false;

    if (r->kernel->config.library && asks && !r->guard.choice && !limber_cublas_run(r, &done, d))
        return false;
    r->call->out.way = done ? WAY_cublas : limber_cuda_kernel_way(&r->kernel->config);
    if (done)
        return true;
    return r->kernel->config.mma_path == MMA_PATH_element ? run_elements(r, d) : run_limbs(r, d);
}

/* True if the queue's stream is being captured into a graph; false if there is no queue. */
bool limber_cuda_is_capturing(const limber_queue *queue, int device)
{
    struct diag ignored = { 0 };
    struct device *v = queue ? limber_cuda_device(device, &ignored) : NULL;
    cu_context before;
    int status = 0;

    if (!v || v->driver->cuCtxPushCurrent_v2(v->context))
        return false;
    if (v->driver->cuStreamIsCapturing(queue->stream, &status))
        status = 0;
    v->driver->cuCtxPopCurrent_v2(&before);
    return status != 0;
}

/* Implements device_ops.ready: loads the kernel's code onto the device. */
bool limber_cuda_ready(struct kernel *k, int device, struct diag *d)
{
    struct call call = { .device = device };
    struct device_call r = { .kernel = k, .call = &call };

    if (!limber_cuda_enter(&r, d))
        return false;
    limber_cuda_leave(&r);
    return true;
}

/* Implements code_ops.workspace.  *least: bytes for the smallest part of C; *most: bytes for all of
 * C at once.  Both include what the guard, the check of a captured call's data, needs. */
void limber_cuda_workspace(const struct kernel *k, const struct call *c, size_t *least,
                           size_t *most)
{
    size_t guard = limber_cuda_guard_bytes(c);
    struct call call = *c;
    struct device_call r = { .kernel = (struct kernel *)(uintptr_t)k,
                             .call = &call,
                             .view = { c->a, c->b } };

    *least = *most = guard;
    if (k->config.mma_path == MMA_PATH_element)
        return;
    limber_cuda_set_groups(&r);
    limber_cuda_set_order(&r);
    *least += fit_part(&r, 0).bytes;
    *most += fit_part(&r, SIZE_MAX).bytes;
}

/* Sets the first part of a call, and the packing arguments of both operands, as a launch would, but
 * launches nothing. */
bool limber_cuda_lay_out(struct layout *l, struct kernel *k, struct call *c, struct diag *d)
{
    l->run = (struct device_call){ .kernel = k,
                                   .call = c,
                                   .view = { c->a, c->b },
                                   .device = limber_cuda_device(c->device, d),
                                   .memory.workspace = (cu_pointer)(uintptr_t)c->queue->workspace };
    if (!l->run.device)
        return false;
    limber_cuda_set_groups(&l->run);
    limber_cuda_set_order(&l->run);
    l->part = fit_part(&l->run, c->queue->bytes);
    place_part(&l->run, &l->part, &l->part);
    l->pack[0] = pack_side(&l->run, &l->part, 0).args;
    l->pack[1] =
        l->run.images ? pack_images(&l->run, &l->part).args : pack_side(&l->run, &l->part, 1).args;
    return true;
}

/* Implements backend.launch: makes operands accessible, runs the kernels, and copies results back.
 * A captured call is launched with its guard, a check of its data, instead. */
bool limber_cuda_launch(struct kernel *k, struct call *c, struct diag *d)
{
    struct device_call r = { .kernel = k, .call = c };
    bool ok;

    if (k->config.rsc && !c->conv)
        return limber_fail(d, LIMBER_STATUS_INTERNAL,
                           "cuda: a convolution needs the sizes of its tensors");
    if (c->guard)
        return limber_cuda_guarded(k, c, d);
    c->out.overflow = 0;
    c->out.workspace = 0;
    if (c->m == 0 || c->n == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok = limber_cuda_upload(&r, d) && limber_cuda_run(&r, d);
    ok = limber_cuda_download(&r, ok, d);
    if (ok)
        count_outer(&k->config.model, c);
    limber_cuda_leave(&r);
    return ok;
}
