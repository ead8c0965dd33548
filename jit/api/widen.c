/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in e8m0 (powers of two).  Kernels pad operands with zeros, which e8m0 does not have.  So
 * for the duration of a call these operands become matrices of bf16, which holds each of their
 * numbers. */
#include "ir/num/prim_num.h"
#include "jit/api/api.h"
#include "jit/device.h"

#include <stdlib.h>

/* Converts an e8m0 code to bf16.  The code is the exponent field, except that 0 means 2^-127, which
 * is subnormal in bf16, and 255 means NaN. */
static uint16_t bf16_of(uint8_t code)
{
    return code == 0 ? 0x0040 : code == 255 ? 0x7fc0 : (uint16_t)(code << 7);
}

/* Checks that an e8m0 operand is used in a call in which it can be converted: a real GEMM in host
 * memory, neither batch nor prepared. */
static bool check_use(const limber_context *ctx, const limber_problem *p, const limber_matrix *x,
                      const char *what, struct diag *d)
{
    const char *where = p->operation != LIMBER_OPERATION_GEMM ? "convolutions" :
                        p->domain != LIMBER_DOMAIN_REAL       ? "complex products" :
                        p->batch                              ? "batches" :
                        *what == 'a'  ? p->prepared_a ? "prepared operands" : NULL :
                        p->prepared_b ? "prepared operands" :
                                        NULL;

    if (!where && (p->queue || limber_device_holds(ctx, x->data)))
        where = "a device's memory";
    return !where ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s: e8m0 is not for %s; bf16 and f32 hold its numbers", what, where);
}

/* Replaces an e8m0 operand by a copy in bf16 at *memory, which the caller frees. */
static bool widen_operand(limber_context *ctx, const limber_problem *p, limber_matrix *x,
                          const char *what, int64_t rows, int64_t cols, void **memory,
                          struct diag *d)
{
    const uint8_t *from = x->data;
    uint16_t *to;

    if (!limber_check_matrix(x, what, rows, cols, d) || !check_use(ctx, p, x, what, d) ||
        !limber_check_data(x, what, rows, cols, d))
        return false;
    if (rows > 0 && cols > 0) {
        to = *memory =
            limber_memory_alloc(&ctx->allocator, (size_t)rows * (size_t)cols * sizeof *to);
        if (!to)
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "%s: no memory for %lld x %lld of bf16",
                               what, (long long)rows, (long long)cols);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                to[i * cols + j] = bf16_of(from[i * x->row_stride + j * x->col_stride]);
    }
    *x = (limber_matrix){ *memory, LIMBER_BF16, cols > 0 ? cols : 1, 1 };
    return true;
}

/* Replaces operands in e8m0 (powers of two) by copies in bf16 at memory[0] and memory[1], which
 * limber_widen_end frees. */
bool limber_widen(limber_context *ctx, limber_problem *p, void *memory[2], struct diag *d)
{
    const limber_matrix c = limber_as_matrix(p->c);
    const bool a = p->a.format.kind == LIMBER_KIND_POWER, b = p->b.format.kind == LIMBER_KIND_POWER;

    memory[0] = memory[1] = NULL;
    if (!a && !b)
        return true;
    if (p->operation == LIMBER_OPERATION_GEMM && !p->batch) {
        const struct extent to = { &c, "c", p->m, p->n };
        const struct extent from[] = { { &p->a, "a", p->m, p->k }, { &p->b, "b", p->k, p->n } };

        if (!limber_check_sizes(p->m, p->n, p->k, d) ||
            !limber_check_matrix(&c, "c", p->m, p->n, d))
            return false;
        for (int i = 0; i < 2 && c.data; i++)
            if (!limber_check_matrix(from[i].m, from[i].what, from[i].rows, from[i].cols, d) ||
                (from[i].m->data && !limber_check_apart(to, from[i], d)))
                return false;
    }
    return (!a || widen_operand(ctx, p, &p->a, "a", p->m, p->k, &memory[0], d)) &&
           (!b || widen_operand(ctx, p, &p->b, "b", p->k, p->n, &memory[1], d));
}

/* Frees the widened copies of the operands. */
void limber_widen_end(limber_context *ctx, void *const memory[2])
{
    for (int i = 0; i < 2 && ctx; i++)
        limber_memory_free(&ctx->allocator, memory[i]);
}
