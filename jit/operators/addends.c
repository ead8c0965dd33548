/* SPDX-License-Identifier: BSD-3-Clause
 * Moves inputs that an epilogue adds to a product into the product's exact sum, so that all of
 * alpha A B + beta C + bias + residual is rounded only once.  One input may take the place of the
 * initial C. Other inputs that are vectors become additional products: A gets another column and B
 * another row; one of them holds the vector, the other holds ones. */
#include "jit/api/api.h"
#include "jit/operators/inside.h"

#include <string.h>

/* True if alpha, in format c, is 1 or NULL. */
static bool is_one(const void *alpha, limber_format c)
{
    return !limber_scalar(alpha, c, 1);
}

/* True if the format has the value 1. */
static bool can_hold_one(limber_format f)
{
    const double one = 1;
    struct diag ignored = { 0 };
    char code[16];

    return f.kind == LIMBER_KIND_FLOAT &&
           limber_format_convert(code, f, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST, &ignored) &&
           limber_format_value(f, code) == 1;
}

/* True if the operands can be extended by columns and rows: a real GEMM of one product in host
 * memory, under the contract `correct`, with alpha = 1, whose operand formats hold the number 1. */
static bool may_widen(const limber_context *ctx, const struct epilogue_call *c)
{
    const limber_problem *p = &c->product;

    return p->contract->promise == LIMBER_CONTRACT_CORRECT &&
           p->operation == LIMBER_OPERATION_GEMM && !p->batch && !p->queue && !c->on_device &&
           !p->prepared_a && !p->prepared_b && is_one(p->alpha, c->c.format) &&
           can_hold_one(p->a.format) && can_hold_one(p->b.format) &&
           p->k < INT64_MAX - MOST_INPUTS && !limber_device_holds(ctx, p->a.data) &&
           !limber_device_holds(ctx, p->b.data);
}

/* True if input i can become a factor of the product: it has one number for each row or each column
 * of C, or one for all, and the operand's format holds all its values. */
static bool is_vector(const struct epilogue_call *c, int i)
{
    const limber_epilogue_input *in = &c->input[i];

    return in->shape == LIMBER_INPUT_ROW ?
               limber_format_embeds(in->format, c->product.a.format) :
               in->shape != LIMBER_INPUT_MATRIX &&
                   limber_format_embeds(in->format, c->product.b.format);
}

/* Moves additions at the start of the steps into the product: one input as C (c->addend),
 * vectors as further products along k (c->join). begins_free: the product's own C is unused. */
void limber_epilogue_addends(limber_context *ctx, struct epilogue_call *c, bool begins_free)
{
    const bool widens = may_widen(ctx, c);
    int i;

    c->addend = -1;
    c->joins = 0;
    while ((i = limber_steps_addend(&c->steps)) >= 0) {
        bool begins =
            begins_free && c->addend < 0 && limber_format_embeds(c->input[i].format, c->compute);
        bool vector = widens && is_vector(c, i) && c->joins < MOST_INPUTS;

        if (begins && (!vector || !c->joins))
            c->addend = i;
        else if (vector)
            c->join[c->joins++] = i;
        else if (begins_free && widens && c->addend >= 0 && is_vector(c, c->addend) &&
                 c->joins < MOST_INPUTS && limber_format_embeds(c->input[i].format, c->compute)) {
            /* A matrix can only be C, a vector can also be a product along k.  So this matrix
             * becomes C, and the vector that was C becomes a product. */
            c->join[c->joins++] = c->addend;
            c->addend = i;
        } else {
            break;
        }
        limber_steps_drop_addend(&c->steps);
    }
}

/* Converts a number from one format to another.  Returns false with an error if it does not fit. */
static bool convert_number(limber_format to, char *at, limber_format from, const char *number,
                           struct diag *d)
{
    return limber_format_convert(at, to, number, from, 1, LIMBER_ROUND_NEAREST, d);
}

/* Copies a matrix to dense rows, which begin `to_row` elements apart. */
static void copy_matrix(char *to, int64_t to_row, const limber_matrix *m, int64_t rows,
                        int64_t cols)
{
    const int64_t size = m->format.size;

    for (int64_t i = 0; i < rows; i++) {
        const char *from = (const char *)m->data + i * m->row_stride * size;

        if (m->col_stride == 1)
            memcpy(to + i * to_row * size, from, (size_t)(cols * size));
        for (int64_t j = 0; j < cols && m->col_stride != 1; j++)
            memcpy(to + (i * to_row + j) * size, from + j * m->col_stride * size, (size_t)size);
    }
}

/* Fills column k + t of the extended A and row k + t of the extended B: one with the numbers of the
 * input, the other with ones. */
static bool join_vector(const struct epilogue_call *c, int t, char *a, char *b, int64_t k,
                        int64_t wide, struct diag *d)
{
    const limber_problem *p = &c->product;
    const limber_epilogue_input *in = &c->input[c->join[t]];
    const char *data = in->data;
    const double one = 1;
    const bool row = in->shape == LIMBER_INPUT_ROW;
    bool ok = true;

    for (int64_t i = 0; ok && i < p->m; i++)
        ok = convert_number(p->a.format, a + (i * wide + k + t) * p->a.format.size,
                            row ? in->format : LIMBER_F64,
                            row ? data + i * in->format.size : (const char *)&one, d);
    for (int64_t j = 0; ok && j < p->n; j++)
        ok = convert_number(p->b.format, b + ((k + t) * p->n + j) * p->b.format.size,
                            row ? LIMBER_F64 : in->format,
                            row                              ? (const char *)&one :
                            in->shape == LIMBER_INPUT_COLUMN ? data + j * in->format.size :
                                                               data,
                            d);
    return ok;
}

/* Copies A and B with an additional product along k for each vector of c->join.  *memory: the
 * copies, to be freed. */
bool limber_epilogue_widen(limber_context *ctx, struct epilogue_call *c, char **memory,
                           struct diag *d)
{
    limber_problem *p = &c->product;
    const int64_t k = p->k, wide = k + c->joins;
    size_t a_bytes, b_bytes, bytes;
    bool ok = true;

    *memory = NULL;
    if (!c->joins || p->m == 0 || p->n == 0)
        return true;
    if (__builtin_mul_overflow((size_t)(p->m * p->a.format.size), (size_t)wide, &a_bytes) ||
        __builtin_mul_overflow((size_t)(p->n * p->b.format.size), (size_t)wide, &b_bytes) ||
        __builtin_add_overflow(a_bytes + 63, b_bytes, &bytes) ||
        !(*memory = limber_memory_alloc(&ctx->allocator, bytes)))
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "no memory for the operands with what is added to the product");
    {
        char *a = *memory, *b = *memory + (a_bytes + 63) / 64 * 64;

        if (k > 0) {
            copy_matrix(a, wide, &p->a, p->m, k);
            copy_matrix(b, p->n, &p->b, k, p->n);
        }
        for (int t = 0; ok && t < c->joins; t++)
            ok = join_vector(c, t, a, b, k, wide, d);
        p->k = wide;
        p->a = (limber_matrix){ a, p->a.format, wide, 1 };
        p->b = (limber_matrix){ b, p->b.format, p->n, 1 };
    }
    return ok;
}
