/* SPDX-License-Identifier: BSD-3-Clause
 * The source of all kernels but those of `accumulator`.  It is compiled in two ways, which compute
 * the same bits.
 *
 *   specialised  to bitcode, once for each kind of limbs.  At run time it is linked with a
 *                micro-kernel and a constant configuration, and optimised: code that the
 *                configuration does not need is removed.
 *   prebuilt     into the library, once for each row of prebuilt.cmake.  The fields on which
 *                registers depend (FIXED_unit and so on) are constants when the library is built.
 *                Each call passes all other fields of the configuration.
 *
 * It calls no libc functions and no other outside code, except through kernel_cold. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

/* FIXED: a field that is a constant in both ways of compiling.  CFG(call): any other field of the
 * configuration. */
#if defined(KERNEL_PREBUILT)
#define FIXED(field) FIXED_##field
#define CFG(call) (*(call)->config)
#else
extern const struct kernel_config limber_kernel_constants;
#define CONSTANT limber_kernel_constants
#define FIXED(field) CONSTANT.field
#define CFG(call) (*((void)(call), &CONSTANT))
#endif

/* The micro-kernel: computes c = a b (if `first`) or c += a b, over `groups` groups along k.  c is
 * a register tile of mr x nr elements in memory, with ldc bytes from row to row.  Integer sums
 * start from a row of nr biases; AMX and SME also accept NULL for zeros.  For each group one cache
 * line is prefetched, from `next` on, `step` bytes apart. */
void limber_micro(const char *a, const char *b, int64_t groups, char *c, int64_t ldc,
                  int64_t first, const int32_t *bias, const char *next, int64_t step);
/* Called before and after the micro-kernel if the unit is a matrix unit (AMX). */
void limber_micro_open(void);
void limber_micro_close(void);

#if !defined(KERNEL_PREBUILT)
/* The code generator calls memset and memcpy for long clears and copies, and a specialised kernel
 * must not need outside symbols. */
__attribute__((used)) void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = (char)c;
    return to;
}

__attribute__((used)) void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}
#endif

/* The kind of limbs.  It also determines how accumulators become results (RECONSTRUCT). */
#define LIMB_KIND KERNEL_LIMB_KIND
#define IS_UNIT (LIMB_KIND == LIMB_KIND_unit || LIMB_KIND == LIMB_KIND_half)
#define RECONSTRUCT \
    (LIMB_KIND == LIMB_KIND_slices   ? RECONSTRUCT_shift : \
     LIMB_KIND == LIMB_KIND_residues ? RECONSTRUCT_crt : \
                                       RECONSTRUCT_sum)
#define FLAT static inline __attribute__((always_inline))
#define SLOW static __attribute__((noinline))

FLAT int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns 2^e, if that is a normal double. */
FLAT double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double d;

    __builtin_memcpy(&d, &bits, 8);
    return d;
}

/* Returns the address of element (i, j) of this part of C. */
FLAT char *place(const struct kernel_call *c, int64_t i, int64_t j)
{
    return limber_output_at(&c->c, c->i0 + i, c->j0 + j, CFG(c).c.size);
}

#include "backends/llvm/kernel/vector.h"
#include "backends/llvm/kernel/pack.h"
#include "backends/llvm/kernel/narrow.h"
#include "backends/llvm/kernel/multiply.h"
#include "backends/llvm/kernel/store.h"
#include "backends/llvm/kernel/reconstruct.h"
#if defined(KERNEL_LIMB_KIND_unit) || defined(KERNEL_LIMB_KIND_half)
#include "backends/llvm/kernel/unit.h"
#else
/* Placeholder, which is never called: these kernels simulate no unit. */
FLAT void unit_block(const struct kernel_call *c, const struct block *b, char *scratch)
{
    (void)c, (void)b, (void)scratch;
}
#endif

/* Entry point kernel_pack: packs a range of lines and of k.  Tasks of A have the lowest numbers,
 * then those of B follow. */
void limber_pack(struct kernel_call *c, int64_t task)
{
    int side = task >= c->tasks[0];
    int64_t lines = c->lines[side], of_side = task - (side ? c->tasks[0] : 0);
    const struct planes *planes = c->op[side].planes;
    struct cut x;

    int64_t all = planes ? planes->length : c->op[side].panels * lines_of(side);

    x.from = of_side / c->cuts[side] * lines;
    x.to = min64(x.from + lines, all);
    x.p0 = of_side % c->cuts[side] * c->depth[side];
    x.end = min64(x.p0 + c->depth[side], planes ? planes->channels : c->k);
    if (CFG(c).alike)
        pack_lines(c, side, &CFG(c).side[0], &x);
    else if (side)
        pack_lines(c, 1, &CFG(c).side[1], &x);
    else
        pack_lines(c, 0, &CFG(c).side[0], &x);
}

/* Entry point kernel_block: computes block `task` of C.  Panels are multiplied first, and then C
 * is reconstructed from the sums, unless the products stored C themselves (`stores`) or later calls
 * add to the sums (`more`).  scratch: memory for the sums, for one panel of B, and for norms. */
void limber_block(struct kernel_call *c, int64_t task, char *scratch)
{
    struct block b;
    int64_t lost;

    b.i0 = task / c->blocks_j * c->mb;
    b.j0 = task % c->blocks_j * c->nb;
    b.rows = min64(c->mb, c->m - b.i0);
    b.cols = min64(c->nb, c->n - b.j0);
    b.panel_a = b.i0 / FIXED(mr);
    b.panel_b = b.j0 / FIXED(nr);
    b.panels_a = (b.rows + FIXED(mr) - 1) / FIXED(mr);
    b.panels_b = (b.cols + FIXED(nr) - 1) / FIXED(nr);
    b.room = scratch + c->room;
    b.sums = (int32_t *)(void *)(b.room + FIXED(nr) * CFG(c).kc * FIXED(bytes) + 64);
    b.norms = (double *)(void *)b.sums;
    if (IS_UNIT)
        unit_block(c, &b, scratch);
    else
        add_limb_products(c, &b, scratch);
    if (LIMB_KIND == LIMB_KIND_whole && CFG(c).norms && c->op[1].planes)
        c->op[1].planes->norms(c, b.j0, b.panels_b * FIXED(nr), b.norms);
    lost = c->stores || c->more ? 0 : reconstruct(c, &b, scratch);
    if (lost)
        __atomic_fetch_add(&c->overflow, lost, __ATOMIC_RELAXED);
}
