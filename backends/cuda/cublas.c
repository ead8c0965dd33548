/* SPDX-License-Identifier: BSD-3-Clause
 * Computes products by cuBLAS, if the program has loaded it or LIMBER_CUBLAS names it.  The order
 * of its sums is unknown, so the bits of the result are not promised. */
#include "backends/cuda/launch.h"
#include "backends/settings.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct cublas_handle *cublas_handle;
enum { OP_N, OP_T };

static struct {
    int (*create)(cublas_handle *);
    int (*destroy)(cublas_handle);
    int (*set_stream)(cublas_handle, cu_stream);
    /* [FP32, FP64]: functions for one product, for strided batches, and for batches with a list of
     * addresses. */
    int (*gemm[2])(cublas_handle, int, int, int, int, int, const void *, const void *, int,
                   const void *, int, const void *, void *, int);
    int (*strided[2])(cublas_handle, int, int, int, int, int, const void *, const void *, int,
                      long long, const void *, int, long long, const void *, void *, int, long long,
                      int);
    int (*listed[2])(cublas_handle, int, int, int, int, int, const void *, const void *const *, int,
                     const void *const *, int, const void *, void *const *, int, int);
    bool searched, found;
} cublas;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Opens the library that LIMBER_CUBLAS names ("1" stands for the usual names) and returns its
 * handle.  If LIMBER_CUBLAS is not set, accepts only a library that the program has already loaded.
 * Returns NULL if there is none. */
static void *find_library(void)
{
    static const char *const names[] = { "libcublas.so.13", "libcublas.so.12" };
    const char *wish = limber_setting("LIMBER_CUBLAS");
    int flags = RTLD_LAZY | RTLD_LOCAL;
    void *handle = NULL;

    if (wish && strcmp(wish, "1"))
        return dlopen(wish, flags);
    for (size_t i = 0; !handle && i < COUNT(names); i++)
        handle = dlopen(names[i], wish ? flags : flags | RTLD_NOLOAD);
    return handle;
}

/* Looks up all functions of cuBLAS that this file calls.  Returns false if one is missing. */
static bool resolve_cublas(void)
{
    void *handle = find_library();

    if (!handle)
        return false;
    *(void **)&cublas.create = dlsym(handle, "cublasCreate_v2");
    *(void **)&cublas.destroy = dlsym(handle, "cublasDestroy_v2");
    *(void **)&cublas.set_stream = dlsym(handle, "cublasSetStream_v2");
    *(void **)&cublas.gemm[0] = dlsym(handle, "cublasSgemm_v2");
    *(void **)&cublas.gemm[1] = dlsym(handle, "cublasDgemm_v2");
    *(void **)&cublas.strided[0] = dlsym(handle, "cublasSgemmStridedBatched");
    *(void **)&cublas.strided[1] = dlsym(handle, "cublasDgemmStridedBatched");
    *(void **)&cublas.listed[0] = dlsym(handle, "cublasSgemmBatched");
    *(void **)&cublas.listed[1] = dlsym(handle, "cublasDgemmBatched");
    for (int i = 0; i < 2; i++)
        if (!cublas.gemm[i] || !cublas.strided[i] || !cublas.listed[i])
            return false;
    return cublas.create && cublas.destroy && cublas.set_stream;
}

/* True if cuBLAS can be called.  Searches in each call until cuBLAS is found, since the program may
 * load it later. */
bool limber_cublas_present(void)
{
    bool found;

    pthread_mutex_lock(&lock);
    if (!cublas.found)
        cublas.found = resolve_cublas();
    found = cublas.found;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- cuBLAS handles, each used by one thread at a time --------------------------------------- */

/* Takes an idle cuBLAS handle of the device, or creates one.  Returns false with an error. */
static bool take_handle(struct device *v, cublas_handle *h, struct diag *d)
{
    int result = 0;

    *h = (cublas_handle)(uintptr_t)limber_cuda_take_idle(v, &v->handles).at;
    if (!*h)
        result = cublas.create(h);
    return result == 0 ||
           limber_fail(d, LIMBER_STATUS_DEVICE, "cuBLAS gives no handle: error %d", result);
}

/* Keeps a handle for later calls, or destroys it if enough handles are kept. */
static void return_handle(struct device *v, cublas_handle h)
{
    if (!limber_cuda_keep_idle(v, &v->handles, (struct idle_item){ .at = (uintptr_t)h }))
        cublas.destroy(h);
}

/* ---- operands as cuBLAS describes them ------------------------------------------------------- */

/* An operand in BLAS's terms, column-major.  op: OP_N or OP_T.  ld: leading dimension in
 * elements. */
struct operand {
    const void *data;
    const struct spread *each; /* distances or addresses of the matrices of a batch */
    int op, ld;
};

/* Sets an operand's leading dimension, which is at least `rows`.  Returns false if it exceeds the
 * int that cuBLAS takes. */
static bool set_leading_dimension(int64_t stride, int64_t rows, struct operand *o)
{
    int64_t ld = stride > rows ? stride : rows;

    o->ld = (int)(ld > 0 ? ld : 1);
    return ld <= INT32_MAX;
}

/* Describes the view as a lines x k matrix or, if `transposed`, as a k x lines matrix.  Returns
 * false if BLAS has no such layout. */
static bool set_operand(const struct view *v, int64_t lines, int64_t k, bool transposed,
                        struct operand *o)
{
    o->data = v->data;
    if (!limber_view_strided(v) || (v->line != 1 && v->p != 1) || v->line < 1 || v->p < 1)
        return false;
    if (v->line == 1) { /* a column of the BLAS matrix holds the elements of one position along k */
        o->op = transposed ? OP_T : OP_N;
        return set_leading_dimension(v->p, lines, o);
    }
    o->op = transposed ? OP_N : OP_T;
    return set_leading_dimension(v->line, k, o);
}

/* The arguments of a product by cuBLAS. */
struct gemm {
    int64_t m, n, k; /* sizes of the column-major product */
    struct operand a, b, c;
};

/* Sets the arguments of the product for C or, if C's rows are contiguous, for C^T = B^T A^T.
 * Returns false if cuBLAS cannot take a layout or a size. */
static bool set_gemm(const struct device_call *r, struct gemm *j)
{
    const struct call *c = r->call;
    const struct output_view *p = &r->place;
    bool by_columns = p->row == 1;
    int64_t rows = by_columns ? c->m : c->n, stride = by_columns ? p->col : p->row;

    if (r->subsets.tile_subset[0].block || r->subsets.tile_subset[1].block || p->inner < c->n ||
        (p->row != 1 && p->col != 1) || c->m > INT32_MAX || c->n > INT32_MAX || c->k > INT32_MAX ||
        stride < rows)
        return false;
    j->c.data = p->data;
    j->c.each = &r->each[2];
    j->a.each = &r->each[!by_columns];
    j->b.each = &r->each[by_columns];
    j->k = c->k;
    j->m = rows;
    j->n = by_columns ? c->n : c->m;
    return set_leading_dimension(stride, rows, &j->c) &&
           (by_columns ? set_operand(&r->view[0], c->m, c->k, false, &j->a) &&
                             set_operand(&r->view[1], c->n, c->k, true, &j->b) :
                         set_operand(&r->view[1], c->n, c->k, false, &j->a) &&
                             set_operand(&r->view[0], c->m, c->k, true, &j->b));
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Computes one product, or a batch whose matrices are strided or listed by addresses in device
 * memory.  Returns cuBLAS's status. */
static int call_gemm(cublas_handle h, const struct gemm *j, const struct device_call *r)
{
    static const float one32 = 1, zero32 = 0;
    static const double one64 = 1, zero64 = 0;
    const int size = r->kernel->config.result.size, wide = size == 8, count = (int)r->groups;
    const int m = (int)j->m, n = (int)j->n, k = (int)j->k;
    const struct spread *a = j->a.each, *b = j->b.each, *c = j->c.each;
    const void *alpha = r->call->alpha ? r->call->alpha : wide ? (const void *)&one64 : &one32;
    const void *beta = r->call->beta ? r->call->beta : wide ? (const void *)&zero64 : &zero32;
    void *to = (void *)(uintptr_t)j->c.data;

    if (count == 1)
        return cublas.gemm[wide](h, j->a.op, j->b.op, m, n, k, alpha, j->a.data, j->a.ld, j->b.data,
                                 j->b.ld, beta, to, j->c.ld);
    if (c->address)
        return cublas.listed[wide](h, j->a.op, j->b.op, m, n, k, alpha, a->address, j->a.ld,
                                   b->address, j->b.ld, beta, (void *const *)(uintptr_t)c->address,
                                   j->c.ld, count);
    return cublas.strided[wide](h, j->a.op, j->b.op, m, n, k, alpha, j->a.data, j->a.ld,
                                a->step / size, j->b.data, j->b.ld, b->step / size, beta, to,
                                j->c.ld, c->step / size, count);
}

/* True if one cuBLAS call can compute all products: A, B and C are all strided, or all are listed
 * by addresses of matrices on the device. */
bool limber_cublas_takes_groups(const struct device_call *r)
{
    int listed = 0;

    for (int i = 0; i < 3; i++)
        listed += r->each[i].address && limber_cuda_on_device(r, r->each[i].address[0]);
    return r->groups <= INT32_MAX && (listed == 0 || listed == 3);
}

/* Calls cuBLAS on the call's stream.  *done: set to true if cuBLAS computes the product.  Returns
 * false with an error if the call fails. */
bool limber_cublas_run(struct device_call *r, bool *done, struct diag *d)
{
    struct gemm job;
    cublas_handle h;
    int result;

    *done = limber_cublas_present() && r->call->k > 0 && set_gemm(r, &job);
    if (!*done)
        return true;
    if (!take_handle(r->device, &h, d))
        return false;
    result = cublas.set_stream(h, r->stream);
    if (result == 0)
        result = call_gemm(h, &job, r);
    return_handle(r->device, h);
    return result == 0 || limber_fail(d, LIMBER_STATUS_DEVICE, "cuBLAS: error %d", result);
}
