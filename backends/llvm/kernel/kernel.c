/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's source.  Compiled to bitcode once for each KERNEL_HOW, linked with a register-tile
 * kernel and with a constant configuration at run time, then optimised: what the configuration
 * does not need is gone.  No libc, no calls out. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/prim.h"

extern const struct kernel_config limber_kernel_constants;

/* c (mr x nr, row stride ldc bytes) = or += sum over `groups` groups of a times b. */
void limber_micro(const char *a, const char *b, int64_t groups, char *c, int64_t ldc,
                  int64_t first);

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
#define HOW KERNEL_HOW
#define VIA (HOW == HOW_slices ? VIA_shift : HOW == HOW_residues ? VIA_crt : VIA_sum)
#define FLAT static inline __attribute__((always_inline))
#define SLOW static __attribute__((noinline))

FLAT int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

FLAT limber_format binary64(void)
{
    return (limber_format){ LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };
}

#include "backends/llvm/kernel/prepare.h"
#include "backends/llvm/kernel/multiply.h"
#include "backends/llvm/kernel/finish.h"

/* Packs one panel: first those of A, then those of B. */
void limber_prepare(struct kernel_call *c, int64_t task)
{
    if (HOW == HOW_exact)
        return;
    if (task < c->op[0].panels)
        prepare_panel(c, 0, task);
    else
        prepare_panel(c, 1, task - c->op[0].panels);
}

/* One block of C. */
void limber_block(struct kernel_call *c, int64_t task, char *scratch)
{
    struct block b;
    int64_t lost;

    b.i0 = task / c->blocks_j * CFG.mb;
    b.j0 = task % c->blocks_j * CFG.nb;
    b.rows = min64(CFG.mb, c->m - b.i0);
    b.cols = min64(CFG.nb, c->n - b.j0);
    b.panel_a = b.i0 / CFG.mr;
    b.panel_b = b.j0 / CFG.nr;
    b.panels_a = (b.rows + CFG.mr - 1) / CFG.mr;
    b.panels_b = (b.cols + CFG.nr - 1) / CFG.nr;
    if (HOW == HOW_exact) {
        lost = exact_block(c, &b);
    } else {
        products(c, &b, scratch);
        lost = finish(c, &b, scratch);
    }
    if (lost)
        __atomic_fetch_add(&c->overflow, lost, __ATOMIC_RELAXED);
}
