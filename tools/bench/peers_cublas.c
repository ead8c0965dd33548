/* SPDX-License-Identifier: BSD-3-Clause
 * cuBLAS and cuBLASLt as peers.  They are column-major, so C = A B is computed as C^T = B^T A^T:
 * their first operand is our B. */
#include "tools/bench/bench.h"

#include <dlfcn.h>
#include <string.h>

/* Constants of cublas_api.h, library_types.h and cublasLt.h. */
enum { OP_N = 0, OP_T = 1, DEFAULT = -1, NOT_SUPPORTED = 15, EAGER = 2 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };
enum { AS_32F = 68, AS_64F = 70, AS_32I = 72, AS_TF32 = 77, AS_BF16X9 = 78, AS_FIXED = 79 };
enum { DESC_TRANSA = 3, PREFERENCE_BYTES = 1, LT_WORKSPACE = 64 << 20 };

/* Functions of cuBLAS that are called: field, symbol, parameters. */
#define BLAS(F) \
    F(create, cublasCreate_v2, (void **)) \
    F(destroy, cublasDestroy_v2, (void *)) \
    F(version, cublasGetVersion_v2, (void *, int *)) \
    F(workspace, cublasSetWorkspace_v2, (void *, void *, size_t)) \
    F(stream, cublasSetStream_v2, (void *, void *)) \
    F(sgemm, cublasSgemm_v2, \
      (void *, int, int, int, int, int, const float *, const float *, int, const float *, int, \
       const float *, float *, int)) \
    F(dgemm, cublasDgemm_v2, \
      (void *, int, int, int, int, int, const double *, const double *, int, const double *, int, \
       const double *, double *, int)) \
    F(gemm, cublasGemmEx, \
      (void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, \
       int, const void *, void *, int, int, int, int))
#define DECLARE(here, symbol, arguments) int(*here) arguments;
#define NEEDED_BLAS(here, symbol, arguments) { #symbol, &blas.here },

/* The functions of cuBLAS, and what they need. */
static struct {
    void *handle, *room;
    size_t bytes; /* size of `room`, the workspace */
    int (*strategy)(void *, int); /* NULL in releases without emulation */
    BLAS(DECLARE)
} blas;
static const struct symbol needed_blas[] = { BLAS(NEEDED_BLAS) };

/* Opens cuBLAS with the benchmark's stream.  Returns false and sets why_not if that fails. */
static bool open_cublas(struct library *l)
{
    int code, version = 0;

    if (!library_load(l) || !LIBRARY_FIND(l, needed_blas))
        return false;
    *(void **)&blas.strategy = dlsym(l->handle, "cublasSetEmulationStrategy");
    code = blas.create(&blas.handle);
    if (code) {
        blas.handle = NULL;
        dlclose(l->handle); /* closed, because Limber would use the library if it stayed loaded */
        l->handle = NULL;
        snprintf(l->why_not, sizeof l->why_not, "cublasCreate answers %d", code);
        return false;
    }
    if (blas.stream(blas.handle, device_stream()))
        return library_refuse(l, "cublasSetStream fails");
    if (blas.version(blas.handle, &version) == 0)
        snprintf(l->version, sizeof l->version, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
    return true;
}

static void close_cublas(void)
{
    if (blas.handle)
        blas.destroy(blas.handle);
    device_free(blas.room);
    memset(&blas, 0, sizeof blas);
}

struct library cublas = { .name = "cuBLAS",
                          .files =
                              "libcublas.so.13 libcublas.so.12 /usr/local/cuda/lib64/libcublas.so",
                          .gpu = true,
                          .open = open_cublas,
                          .close = close_cublas };

/* ---- calls of cuBLAS ------------------------------------------------------------------------- */

/* Sets the contender's state, and returns false, unless cuBLAS succeeded. */
static bool check_status(struct contender *c, int code)
{
    if (code == 0)
        return true;
    if (code == NOT_SUPPORTED)
        return contender_set_state(c, STATE_skipped,
                                   "cuBLAS does not offer it on this GPU "
                                   "(NOT_SUPPORTED)");
    return contender_set_state(c, STATE_failed, "cuBLAS answers %d", code);
}

/* Gives cuBLAS a workspace that holds an emulation's slices.  With less, cuBLAS computes its plain
 * product.  EAGER tells it to emulate even where it expects the plain product to be faster. */
static void grow_workspace(const struct work *w)
{
    enum { SLICES = 16 };
    size_t operands = (size_t)(w->m + w->n) * (size_t)w->k;
    size_t need = SLICES * operands + 8 * (size_t)(w->m * w->n) + ((size_t)64 << 20);

    if (blas.strategy)
        blas.strategy(blas.handle, EAGER);
    if (need <= blas.bytes || need > device_memory_free() / 2 || !device_wait())
        return;
    device_free(blas.room);
    blas.room = device_alloc(need);
    blas.bytes = blas.room ? need : 0;
    blas.workspace(blas.handle, blas.room, blas.bytes);
}

/* Runs cublasGemmEx. peer->code: type of operands, type of the result, compute type. */
bool cublas_run(struct contender *c)
{
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    static const int32_t one_i = 1, zero_i = 0;
    const struct work *w = c->work;
    const void *a = c->now->a, *b = c->now->b, *one, *zero;
    void *y = c->now->y;
    int in = c->peer->code[0], out = c->peer->code[1], compute = c->peer->code[2];
    int op = w->tb ? OP_T : OP_N, ldb = (int)(w->tb ? w->k : w->n);
    int m = (int)w->m, n = (int)w->n, k = (int)w->k;

    if (compute == AS_32F && in == R_32F)
        return check_status(
            c, blas.sgemm(blas.handle, op, OP_N, n, m, k, &one_f, b, ldb, a, k, &zero_f, y, n));
    if (compute == AS_64F)
        return check_status(
            c, blas.dgemm(blas.handle, op, OP_N, n, m, k, &one_d, b, ldb, a, k, &zero_d, y, n));
    if (c->peer->emulation)
        grow_workspace(w);
    one = out == R_64F ? (const void *)&one_d : out == R_32I ? (const void *)&one_i : &one_f;
    zero = out == R_64F ? (const void *)&zero_d : out == R_32I ? (const void *)&zero_i : &zero_f;
    return check_status(c, blas.gemm(blas.handle, op, OP_N, n, m, k, one, b, in, ldb, a, in, k,
                                     zero, y, out, n, compute, DEFAULT));
}

/* ---- FP8 and INT8 by cuBLASLt ---------------------------------------------------------------- */

/* cublasLtMatmulHeuristicResult_t */
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* Functions of cuBLASLt that are called: field, symbol, parameters. */
#define LT(F) \
    F(create, cublasLtCreate, (void **)) \
    F(destroy, cublasLtDestroy, (void *)) \
    F(desc_new, cublasLtMatmulDescCreate, (void **, int, int)) \
    F(desc_set, cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t)) \
    F(desc_end, cublasLtMatmulDescDestroy, (void *)) \
    F(layout_new, cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t)) \
    F(layout_end, cublasLtMatrixLayoutDestroy, (void *)) \
    F(preference_new, cublasLtMatmulPreferenceCreate, (void **)) \
    F(preference_set, cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t)) \
    F(preference_end, cublasLtMatmulPreferenceDestroy, (void *)) \
    F(choose, cublasLtMatmulAlgoGetHeuristic, \
      (void *, void *, void *, void *, void *, void *, void *, int, void *, int *)) \
    F(matmul, cublasLtMatmul, \
      (void *, void *, const void *, const void *, void *, const void *, void *, const void *, \
       const void *, void *, void *, void *, const void *, void *, size_t, void *))
#define NEEDED_LT(here, symbol, arguments) { #symbol, &lt.here },

/* The functions of cuBLASLt, and descriptors that are kept for one shape. */
static struct {
    void *handle, *desc, *rows, *cols, *result, *preference, *workspace;
    const struct peer *peer; /* the peer for which layouts are kept; none if m is 0 */
    int64_t m, n, k;
    struct heuristic found;
    LT(DECLARE)
} lt;
static const struct symbol needed_lt[] = { LT(NEEDED_LT) };

/* Destroys cuBLASLt's descriptors that exist. */
static void free_layouts(void)
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

/* Makes layouts for one shape.  Tensor cores need both operands contiguous along k, so B is stored
 * as n x k.  peer->code is that of cublas_run.  Returns cuBLAS's status. */
static int make_layouts(const struct work *w, const struct peer *p)
{
    uint64_t m = (uint64_t)w->m, n = (uint64_t)w->n, k = (uint64_t)w->k;
    int transpose = OP_T, found = 0, in = p->code[0], out = p->code[1], code;

    if (lt.peer == p && lt.m == w->m && lt.n == w->n && lt.k == w->k)
        return 0;
    free_layouts();
    if ((code = lt.desc_new(&lt.desc, p->code[2], out)) ||
        (code = lt.desc_set(lt.desc, DESC_TRANSA, &transpose, sizeof transpose)) ||
        (code = lt.layout_new(&lt.cols, in, k, n, w->k)) ||
        (code = lt.layout_new(&lt.rows, in, k, m, w->k)) ||
        (code = lt.layout_new(&lt.result, out, n, m, w->n)) ||
        (code = lt.choose(lt.handle, lt.desc, lt.cols, lt.rows, lt.result, lt.result, lt.preference,
                          1, &lt.found, &found)))
        return code;
    if (found < 1)
        return NOT_SUPPORTED;
    lt.peer = p;
    lt.m = w->m;
    lt.n = w->n;
    lt.k = w->k;
    return 0;
}

/* Computes a row-major product by cuBLASLt, which is column-major: as the transposed product
 * with exchanged operands. */
bool cublaslt_run(struct contender *c)
{
    static const float one_f = 1, zero_f = 0;
    static const int32_t one_i = 1, zero_i = 0;
    const struct operands *o = c->now;
    bool whole = c->peer->code[1] == R_32I;
    int code = make_layouts(c->work, c->peer);

    if (code == 0)
        code =
            lt.matmul(lt.handle, lt.desc, whole ? (const void *)&one_i : &one_f, o->b, lt.cols,
                      o->a, lt.rows, whole ? (const void *)&zero_i : &zero_f, o->y, lt.result, o->y,
                      lt.result, lt.found.algorithm, lt.workspace, LT_WORKSPACE, device_stream());
    return check_status(c, code);
}

/* Loads cuBLASLt, creates its handle and preferences, and allocates its workspace.  On failure
 * sets why_not and returns false. */
static bool open_lt(struct library *l)
{
    size_t bytes = LT_WORKSPACE;

    if (!library_load(l) || !LIBRARY_FIND(l, needed_lt))
        return false;
    if (lt.create(&lt.handle)) {
        lt.handle = NULL;
        return library_refuse(l, "cublasLtCreate fails");
    }
    if (lt.preference_new(&lt.preference) ||
        lt.preference_set(lt.preference, PREFERENCE_BYTES, &bytes, sizeof bytes))
        return library_refuse(l, "cublasLtMatmulPreference fails");
    lt.workspace = device_alloc(bytes);
    return lt.workspace ? true : library_refuse(l, "no memory for its work space");
}

static void close_lt(void)
{
    free_layouts();
    if (lt.preference)
        lt.preference_end(lt.preference);
    if (lt.handle)
        lt.destroy(lt.handle);
    device_free(lt.workspace);
    memset(&lt, 0, sizeof lt);
}

struct library cublaslt = {
    .name = "cuBLASLt",
    .files = "libcublasLt.so.13 libcublasLt.so.12 /usr/local/cuda/lib64/libcublasLt.so",
    .gpu = true,
    .open = open_lt,
    .close = close_lt
};
