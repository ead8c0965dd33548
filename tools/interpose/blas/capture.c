/* SPDX-License-Identifier: BSD-3-Clause
 * Gives the operands of level 3 calls to interpose_capture, for LIMBER_CAPTURE. */
#include "product.h"
#include "tools/interpose/shared/capture.h"

static limber_format format_of(const struct request *r)
{
    return r->factors == 'b'                ? LIMBER_BF16 :
           r->factors == 'h'                ? LIMBER_F16 :
           r->type == 's' || r->type == 'c' ? LIMBER_F32 :
                                              LIMBER_F64;
}

/* Describes op(x), which is rows x cols, for a capture. */
static struct capture_operand operand_of(const struct request *r, const struct argument *x,
                                         int64_t rows, int64_t cols)
{
    const bool pairs = r->type == 'c' || r->type == 'z';
    const struct view v = limber_blas_view(r, x);

    return (struct capture_operand){ .data = v.data,
                                     .row = v.row,
                                     .col = v.col,
                                     .rows = rows,
                                     .cols = cols,
                                     .format = format_of(r),
                                     .pairs = pairs,
                                     .conj = v.conj && pairs };
}

static void capture_product(const struct request *r, const struct interpose_setting *s,
                            struct capture_operand a, struct capture_operand b, const char ops[2])
{
    interpose_capture(&(struct capture){ .routine = r->name,
                                         .words = s->on ? s->words : "",
                                         .ops = { ops[0], ops[1] },
                                         .a = a,
                                         .b = b,
                                         .caller = r->caller });
}

/* Returns the transpose of an operand, conjugated if `hermitian`. */
static struct capture_operand adjoint(struct capture_operand x, bool hermitian)
{
    struct capture_operand t = x;

    t.row = x.col;
    t.col = x.row;
    t.rows = x.cols;
    t.cols = x.rows;
    t.conj ^= hermitian && x.pairs;
    return t;
}

/* Captures the product of every matrix pair of a batch. */
static void capture_batch(const struct request *r, const struct interpose_setting *s)
{
    const int64_t size = (int64_t)format_of(r).size << (r->type == 'c' || r->type == 'z');

    for (int64_t i = 0; i < r->batch.count; i++) {
        struct argument a = r->a, b = r->b;

        a.data = r->batch.each_a ? r->batch.each_a[i] :
                                   (const char *)a.data + i * r->batch.step_a * size;
        b.data = r->batch.each_b ? r->batch.each_b[i] :
                                   (const char *)b.data + i * r->batch.step_b * size;
        capture_product(r, s, operand_of(r, &a, r->m, r->k), operand_of(r, &b, r->k, r->n),
                        (char[]){ r->a.op, r->b.op });
    }
}

/* Captures the products of a rank-k update, A A', or of a rank-2k update, A B' and B A'. */
static void capture_rank(const struct request *r, const struct interpose_setting *s)
{
    const bool hermitian = r->routine == BLAS_HERK || r->routine == BLAS_HER2K;
    const bool two = r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K;
    const struct capture_operand a = operand_of(r, &r->a, r->n, r->k);
    const struct capture_operand b = two ? operand_of(r, &r->b, r->n, r->k) : a;
    const char ops[2] = { r->a.op, r->a.op != 'N' ? 'N' : hermitian ? 'C' : 'T' };

    capture_product(r, s, a, adjoint(b, hermitian), ops);
    if (two)
        capture_product(r, s, b, adjoint(a, hermitian), ops);
}

/* Captures a product whose left or right factor is a symmetric, Hermitian or triangular matrix. */
static void capture_sided(const struct request *r, const struct interpose_setting *s,
                          enum capture_stored stores)
{
    const int64_t order = r->side == 'L' ? r->m : r->n;
    const char op = stores == CAPTURE_triangle ? r->a.op : 'N';
    struct capture_operand a = operand_of(r, &r->a, order, order),
                           b = operand_of(r, &r->b, r->m, r->n);

    a.stores = stores == CAPTURE_triangle && r->diag == 'U' ? CAPTURE_unit_triangle : stores;
    a.upper = (r->uplo == 'U') ^ (op != 'N');
    if (r->side == 'L')
        capture_product(r, s, a, b, (char[]){ op, 'N' });
    else
        capture_product(r, s, b, a, (char[]){ 'N', op });
}

/* Captures the operands of a call.  A routine without a case of its own is a product of two full
 * matrices. */
static void capture_call(const struct request *r, const struct interpose_setting *s)
{
    switch (r->routine) {
    case BLAS_GEMM_BATCH: capture_batch(r, s); break;
    case BLAS_SYRK:
    case BLAS_HERK:
    case BLAS_SYR2K:
    case BLAS_HER2K: capture_rank(r, s); break;
    case BLAS_SYMM: capture_sided(r, s, CAPTURE_symmetric); break;
    case BLAS_HEMM: capture_sided(r, s, CAPTURE_hermitian); break;
    case BLAS_TRMM: capture_sided(r, s, CAPTURE_triangle); break;
    default:
        capture_product(r, s, operand_of(r, &r->a, r->m, r->k), operand_of(r, &r->b, r->k, r->n),
                        (char[]){ r->a.op, r->b.op });
    }
}

void limber_blas_capture(const struct request *r, const struct interpose_setting *s)
{
    if (r->routine == BLAS_TRSM || limber_blas_is_lapack(r) || !r->k || !interpose_captures())
        /* only arguments of the program's calls are saved; solvers multiply intermediate
         * matrices */
        return;
    capture_call(r, s);
}
