/* SPDX-License-Identifier: BSD-3-Clause
 * cuBLAS and cuBLASLt as peers.  They count columns first, so C = A B is asked for as
 * C^T = B^T A^T: the first operand is our B. */
#include "tools/bench/gpu.h"

#include <dlfcn.h>
#include <string.h>

/* Constants of cublas_api.h, library_types.h and cublasLt.h. */
enum { OP_N = 0, OP_T = 1, DEFAULT = -1, NOT_SUPPORTED = 15, EAGER = 2 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14, R_E4M3 = 28 };
enum { AS_32F = 68, AS_64F = 70, AS_32I = 72, AS_TF32 = 77, AS_BF16X9 = 78, AS_FIXED = 79 };
enum { DESC_TRANSA = 3, PREFERENCE_BYTES = 1, LT_WORKSPACE = 64 << 20 };

static struct {
    void *handle, *room;
    size_t bytes;                       /* of room */
    int (*create)(void **);
    int (*destroy)(void *);
    int (*version)(void *, int *);
    int (*workspace)(void *, void *, size_t);
    int (*stream)(void *, void *);
    int (*strategy)(void *, int);       /* NULL: from before there was emulation */
    int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *,
                 int, const float *, float *, int);
    int (*dgemm)(void *, int, int, int, int, int, const double *, const double *, int,
                 const double *, int, const double *, double *, int);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *,
                int, int, const void *, void *, int, int, int, int);
} blas;

static struct peer_library blas_about = { .name = "cuBLAS" }, lt_about = { .name = "cuBLASLt" };

static bool refuse(struct peer_library *l, const char *why)
{
    snprintf(l->why, sizeof l->why, "%s", why);
    return false;
}

#define FIND(library, where, name) (*(void **)&(where) = dlsym(library, name))

static bool find_blas(void *l)
{
    FIND(l, blas.strategy, "cublasSetEmulationStrategy");
    return FIND(l, blas.create, "cublasCreate_v2") && FIND(l, blas.destroy, "cublasDestroy_v2") &&
           FIND(l, blas.version, "cublasGetVersion_v2") &&
           FIND(l, blas.workspace, "cublasSetWorkspace_v2") &&
           FIND(l, blas.stream, "cublasSetStream_v2") && FIND(l, blas.sgemm, "cublasSgemm_v2") &&
           FIND(l, blas.dgemm, "cublasDgemm_v2") && FIND(l, blas.gemm, "cublasGemmEx");
}

static bool start_blas(void)
{
    struct peer_library *l = &blas_about;
    void *library = gpu_library("libcublas.so.13 libcublas.so.12 "
                                "/usr/local/cuda/lib64/libcublas.so",
                                l->why, sizeof l->why);
    int code, version = 0;

    if (!library)
        return false;
    if (!find_blas(library))
        return refuse(l, "has none of the functions needed");
    code = blas.create(&blas.handle);
    if (code) {
        blas.handle = NULL;
        snprintf(l->why, sizeof l->why, "cublasCreate answers %d", code);
        return false;
    }
    if (blas.stream(blas.handle, gpu_stream()))
        return refuse(l, "cublasSetStream fails");
    if (blas.version(blas.handle, &version) == 0)
        snprintf(l->version, sizeof l->version, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
    return true;
}

const struct peer_library *blas_open(void)
{
    blas_about.usable = start_blas();
    return &blas_about;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool answer(struct contender *c, int code)
{
    if (code == 0)
        return true;
    if (code == NOT_SUPPORTED)
        return contender_stop(c, STATE_skipped,
                              "cuBLAS does not offer it on this GPU "
                              "(NOT_SUPPORTED)");
    return contender_stop(c, STATE_failed, "cuBLAS answers %d", code);
}

/* Types of operands and result, and what it computes in. */
static const struct type {
    int in, out, as;
} types[] = {
    [BY_f16] = { R_16F, R_32F, AS_32F },       [BY_bf16] = { R_16BF, R_32F, AS_32F },
    [BY_tf32] = { R_32F, R_32F, AS_TF32 },     [BY_i8] = { R_8I, R_32I, AS_32I },
    [BY_bf16x9] = { R_32F, R_32F, AS_BF16X9 }, [BY_fixed] = { R_64F, R_64F, AS_FIXED },
};

/* Emulations keep their slices in the work space and do without them where it is too small:
 * otherwise the library takes its plain product, as it does wherever it thinks that one faster. */
static void prepare_emulation(const struct gpu_work *w)
{
    enum { SLICES = 16 };
    size_t operands = (size_t)(w->m + w->n) * (size_t)w->k;
    size_t need = SLICES * operands + 8 * (size_t)(w->m * w->n) + ((size_t)64 << 20);

    if (blas.strategy)
        blas.strategy(blas.handle, EAGER);
    if (need <= blas.bytes || need > gpu_memory_free() / 2 || !gpu_wait())
        return;
    gpu_free(blas.room);
    blas.room = gpu_alloc(need);
    blas.bytes = blas.room ? need : 0;
    blas.workspace(blas.handle, blas.room, blas.bytes);
}

static int call_ex(const struct contender *c, const struct gpu_work *w, const void *a,
                   const void *b, void *y)
{
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    static const int32_t one_i = 1, zero_i = 0;
    const struct type *t = &types[c->by];
    const void *one = t->out == R_64F ? (const void *)&one_d :
                      t->out == R_32I ? (const void *)&one_i :
                                        (const void *)&one_f;
    const void *zero = t->out == R_64F ? (const void *)&zero_d :
                       t->out == R_32I ? (const void *)&zero_i :
                                         (const void *)&zero_f;
    int m = (int)w->m, n = (int)w->n, k = (int)w->k;

    if (c->emulation)
        prepare_emulation(w);
    return blas.gemm(blas.handle, w->tb ? OP_T : OP_N, OP_N, n, m, k, one, b, t->in, w->tb ? k : n,
                     a, t->in, k, zero, y, t->out, n, t->as, DEFAULT);
}

bool blas_call(struct contender *c, const struct gpu_work *w, const void *a, const void *b, void *y)
{
    int op = w->tb ? OP_T : OP_N, ldb = (int)(w->tb ? w->k : w->n);
    int m = (int)w->m, n = (int)w->n, k = (int)w->k;

    if (!blas_about.usable)
        return contender_stop(c, STATE_skipped, "no cuBLAS: %s", blas_about.why);
    if (c->by == BY_sgemm)
        return answer(c, blas.sgemm(blas.handle, op, OP_N, n, m, k, &(float){ 1 }, b, ldb, a, k,
                                    &(float){ 0 }, y, n));
    if (c->by == BY_dgemm)
        return answer(c, blas.dgemm(blas.handle, op, OP_N, n, m, k, &(double){ 1 }, b, ldb, a, k,
                                    &(double){ 0 }, y, n));
    return answer(c, call_ex(c, w, a, b, y));
}

/* ---- FP8 by cuBLASLt ------------------------------------------------------------------------- */

/* cublasLtMatmulHeuristicResult_t */
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

static struct {
    void *handle, *desc, *rows, *cols, *result, *preference, *workspace;
    int64_t m, n, k; /* what the layouts are for; 0: none */
    struct heuristic found;
    int (*create)(void **);
    int (*destroy)(void *);
    int (*desc_new)(void **, int, int);
    int (*desc_set)(void *, int, const void *, size_t);
    int (*desc_end)(void *);
    int (*layout_new)(void **, int, uint64_t, uint64_t, int64_t);
    int (*layout_end)(void *);
    int (*preference_new)(void **);
    int (*preference_set)(void *, int, const void *, size_t);
    int (*preference_end)(void *);
    int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, void *, int *);
    int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *,
                  const void *, const void *, void *, void *, void *, const void *, void *, size_t,
                  void *);
} lt;

static bool find_lt(void *l)
{
    return FIND(l, lt.create, "cublasLtCreate") && FIND(l, lt.destroy, "cublasLtDestroy") &&
           FIND(l, lt.desc_new, "cublasLtMatmulDescCreate") &&
           FIND(l, lt.desc_set, "cublasLtMatmulDescSetAttribute") &&
           FIND(l, lt.desc_end, "cublasLtMatmulDescDestroy") &&
           FIND(l, lt.layout_new, "cublasLtMatrixLayoutCreate") &&
           FIND(l, lt.layout_end, "cublasLtMatrixLayoutDestroy") &&
           FIND(l, lt.preference_new, "cublasLtMatmulPreferenceCreate") &&
           FIND(l, lt.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
           FIND(l, lt.preference_end, "cublasLtMatmulPreferenceDestroy") &&
           FIND(l, lt.choose, "cublasLtMatmulAlgoGetHeuristic") &&
           FIND(l, lt.matmul, "cublasLtMatmul");
}

static bool start_lt(void)
{
    struct peer_library *l = &lt_about;
    size_t bytes = LT_WORKSPACE;
    void *library = gpu_library("libcublasLt.so.13 libcublasLt.so.12 "
                                "/usr/local/cuda/lib64/libcublasLt.so",
                                l->why, sizeof l->why);

    if (!library)
        return false;
    if (!find_lt(library))
        return refuse(l, "has none of the functions needed");
    if (lt.create(&lt.handle)) {
        lt.handle = NULL;
        return refuse(l, "cublasLtCreate fails");
    }
    if (lt.preference_new(&lt.preference) ||
        lt.preference_set(lt.preference, PREFERENCE_BYTES, &bytes, sizeof bytes))
        return refuse(l, "cublasLtMatmulPreference fails");
    lt.workspace = gpu_alloc(bytes);
    return lt.workspace ? true : refuse(l, "no memory for its work space");
}

const struct peer_library *lt_open(void)
{
    lt_about.usable = start_lt();
    return &lt_about;
}

static void lt_forget(void)
{
    if (lt.desc)
        lt.desc_end(lt.desc);
    if (lt.rows)
        lt.layout_end(lt.rows);
    if (lt.cols)
        lt.layout_end(lt.cols);
    if (lt.result)
        lt.layout_end(lt.result);
    lt.desc = lt.rows = lt.cols = lt.result = NULL;
    lt.m = 0;
}

/* FP8 units take both operands with k running fastest, so B is stored as n x k. */
static int lt_shape(const struct gpu_work *w)
{
    uint64_t m = (uint64_t)w->m, n = (uint64_t)w->n, k = (uint64_t)w->k;
    int turn = OP_T, found = 0, code;

    if (lt.m == w->m && lt.n == w->n && lt.k == w->k)
        return 0;
    lt_forget();
    if ((code = lt.desc_new(&lt.desc, AS_32F, R_32F)) ||
        (code = lt.desc_set(lt.desc, DESC_TRANSA, &turn, sizeof turn)) ||
        (code = lt.layout_new(&lt.cols, R_E4M3, k, n, w->k)) ||
        (code = lt.layout_new(&lt.rows, R_E4M3, k, m, w->k)) ||
        (code = lt.layout_new(&lt.result, R_32F, n, m, w->n)) ||
        (code = lt.choose(lt.handle, lt.desc, lt.cols, lt.rows, lt.result, lt.result, lt.preference,
                          1, &lt.found, &found)))
        return code;
    if (found < 1)
        return NOT_SUPPORTED;
    lt.m = w->m;
    lt.n = w->n;
    lt.k = w->k;
    return 0;
}

bool lt_call(struct contender *c, const struct gpu_work *w, const void *a, const void *b, void *y)
{
    int code;

    if (!lt_about.usable)
        return contender_stop(c, STATE_skipped, "no cuBLASLt: %s", lt_about.why);
    code = lt_shape(w);
    if (code == 0)
        code = lt.matmul(lt.handle, lt.desc, &(float){ 1 }, b, lt.cols, a, lt.rows, &(float){ 0 },
                         y, lt.result, y, lt.result, lt.found.algorithm, lt.workspace, LT_WORKSPACE,
                         gpu_stream());
    return answer(c, code);
}

void blas_close(void)
{
    lt_forget();
    if (lt.preference)
        lt.preference_end(lt.preference);
    if (lt.handle)
        lt.destroy(lt.handle);
    gpu_free(lt.workspace);
    if (blas.handle)
        blas.destroy(blas.handle);
    gpu_free(blas.room);
    memset(&lt, 0, sizeof lt);
    memset(&blas, 0, sizeof blas);
}
