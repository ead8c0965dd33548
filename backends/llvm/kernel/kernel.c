/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's source.  Compiled to bitcode once for each KERNEL_HOW, linked with a register-tile
 * kernel and with a constant configuration at run time, then optimised: what the configuration
 * does not need is gone.  No libc, no calls out. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

extern const struct kernel_config limber_kernel_constants;

/* c (mr x nr, row stride ldc bytes) = or += sum over `groups` groups of a times b; integers start
 * from a row of nr biases.  Meanwhile a line of cache is fetched for each group, from next on,
 * `step` bytes apart. */
void limber_micro(const char *a, const char *b, int64_t groups, char *c, int64_t ldc,
                  int64_t first, const int32_t *bias, const char *next, int64_t step);

/* What the code generator calls for long copies and clears; the object must need nothing else. */
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

#define CFG limber_kernel_constants
/* How operands become limbs, and with it how accumulators become results. */
#define LIMB_KIND KERNEL_LIMB_KIND
#define IS_UNIT (LIMB_KIND == LIMB_KIND_unit || LIMB_KIND == LIMB_KIND_half)
#define RECONSTRUCT \
    (LIMB_KIND == LIMB_KIND_slices   ? RECONSTRUCT_shift : \
     LIMB_KIND == LIMB_KIND_residues ? RECONSTRUCT_crt : \
                                       RECONSTRUCT_sum)
#define FLAT static inline __attribute__((always_inline))
#define SLOW static __attribute__((noinline))

FLAT int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

FLAT double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double d;

    __builtin_memcpy(&d, &bits, 8);
    return d;
}

FLAT char *place(const struct kernel_call *c, int64_t i, int64_t j)
{
    return limber_output_at(&c->c, c->i0 + i, c->j0 + j, CFG.c.size);
}

#include "backends/llvm/kernel/vector.h"
#include "backends/llvm/kernel/pack.h"
#include "backends/llvm/kernel/multiply.h"
#include "backends/llvm/kernel/store.h"
#include "backends/llvm/kernel/reconstruct.h"
#if defined(KERNEL_LIMB_KIND_unit) || defined(KERNEL_LIMB_KIND_half)
#include "backends/llvm/kernel/unit.h"
#else
FLAT void unit_block(const struct kernel_call *c, const struct block *b, char *scratch)
{
    (void)c, (void)b, (void)scratch;
}
#endif

/* Packs some lines: first those of A, then those of B. */
void limber_pack(struct kernel_call *c, int64_t task)
{
    int side = task >= c->tasks[0];
    int64_t lines = c->lines[side], from, to;

    from = (task - (side ? c->tasks[0] : 0)) * lines;
    to = min64(from + lines, c->op[side].panels * lines_of(side));
    if (CFG.alike)
        pack_lines(c, side, &CFG.side[0], from, to);
    else if (side)
        pack_lines(c, 1, &CFG.side[1], from, to);
    else
        pack_lines(c, 0, &CFG.side[0], from, to);
}

/* One block of C. */
void limber_block(struct kernel_call *c, int64_t task, char *scratch)
{
    struct block b;
    int64_t lost;

    b.i0 = task / c->blocks_j * c->mb;
    b.j0 = task % c->blocks_j * CFG.nb;
    b.rows = min64(c->mb, c->m - b.i0);
    b.cols = min64(CFG.nb, c->n - b.j0);
    b.panel_a = b.i0 / CFG.mr;
    b.panel_b = b.j0 / CFG.nr;
    b.panels_a = (b.rows + CFG.mr - 1) / CFG.mr;
    b.panels_b = (b.cols + CFG.nr - 1) / CFG.nr;
    if (IS_UNIT)
        unit_block(c, &b, scratch);
    else
        products(c, &b, scratch);
    lost = c->stores ? 0 : reconstruct(c, &b, scratch);
    if (lost)
        __atomic_fetch_add(&c->overflow, lost, __ATOMIC_RELAXED);
}
