/* SPDX-License-Identifier: BSD-3-Clause
 * The table of peers: other libraries, found at run time and configured for speed, and algorithms
 * of this program that were written after publications. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading other libraries ----------------------------------------------------------------- */

/* Loads the first of the library's files that exists. l->files: names separated by spaces, or
 * one path. */
bool library_load(struct library *l)
{
    char names[160], *rest = names, *name;

    snprintf(names, sizeof names, "%s", l->files);
    if (strchr(l->files, '/')) /* `files` is one path, which may contain spaces */
        l->handle = dlopen(l->files, RTLD_NOW | RTLD_LOCAL);
    while (!l->handle && (name = strsep(&rest, " ")))
        l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle)
        snprintf(l->why_not, sizeof l->why_not, "not found (%s)", l->files);
    return l->handle != NULL;
}

bool library_refuse(struct library *l, const char *why)
{
    snprintf(l->why_not, sizeof l->why_not, "%s", why);
    return false;
}

/* Looks up `count` functions.  False, with the reason in l->why_not, if one is missing. */
bool library_look_up_symbols(struct library *l, const struct symbol *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *f = dlsym(l->handle, list[i].name);

        if (!f) {
            snprintf(l->why_not, sizeof l->why_not, "%s has no %s", l->files, list[i].name);
            return false;
        }
        memcpy(list[i].function, &f, sizeof f);
    }
    return true;
}

/* Address of a function or variable of the library; NULL if absent.  The OpenBLAS of Python's
 * wheels prefixes its names with scipy_. */
static void *symbol_of(const struct library *l, const char *name)
{
    char longer[64];
    void *found = dlsym(l->handle, name);

    snprintf(longer, sizeof longer, "scipy_%s", name);
    return found ? found : dlsym(l->handle, longer);
}
#define FIND(variable, symbol) (*(void **)&(variable) = symbol_of(l, symbol))

/* ---- libraries with the BLAS interface ------------------------------------------------------- */

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

typedef void dgemm_fn(int, int, int, int, int, int, double, const double *, int, const double *,
                      int, double, double *, int);
typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *, int,
                      float, float *, int);

/* Calls the peer's cblas_dgemm or cblas_sgemm on row-major operands. */
static bool call_cblas(struct contender *c)
{
    const struct operands *o = c->now;
    bool single = o->fy.size == 4;
    int ta = c->work->ta ? TRANSPOSED : AS_IS, tb = c->work->tb ? TRANSPOSED : AS_IS;
    int n = (int)c->work->n;
    dgemm_fn *dgemm;
    sgemm_fn *sgemm;

    if (single) {
        *(void **)&sgemm = c->peer->library->gemm[1];
        sgemm(ROW_MAJOR, ta, tb, n, n, n, 1, o->a, n, o->b, n, 0, o->y, n);
    } else {
        *(void **)&dgemm = c->peer->library->gemm[0];
        dgemm(ROW_MAJOR, ta, tb, n, n, n, 1, o->a, n, o->b, n, 0, o->y, n);
    }
    return true;
}

/* Opens a library that has cblas_dgemm and cblas_sgemm. */
static bool open_cblas(struct library *l)
{
    if (!library_load(l))
        return false;
    l->gemm[0] = symbol_of(l, "cblas_dgemm");
    l->gemm[1] = symbol_of(l, "cblas_sgemm");
    return (l->gemm[0] && l->gemm[1]) || library_refuse(l, "has no cblas_dgemm");
}

/* True if an OpenBLAS core name stands for a CPU with AVX-512. */
static bool has_avx512_kernels(const char *core)
{
    return strcasestr(core, "skylakex") || strcasestr(core, "cooperlake") ||
           strcasestr(core, "sapphire");
}

/* True if OpenBLAS chose an SSE kernel on a CPU with AVX2, which makes an unfair comparison. */
static bool is_misdetected(const char *core)
{
    static const char *const old[] = { "Prescott", "Core2", "Katmai", "Generic", "Nehalem" };

    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcasestr(core, old[i]))
            return cpu_has("avx2");
    return false;
}

static void (*openblas_threads)(int);

/* Opens OpenBLAS with kernels for the CPU's widest vectors.  Debian's version misdetects newer
 * CPUs, and OPENBLAS_CORETYPE may name kernels of older ones. */
static bool open_openblas(struct library *l)
{
    const char *named = limber_variable_value("OPENBLAS_CORETYPE"), *core;
    char *(*get_core)(void), *(*get_config)(void);
    bool narrow;

    if (cpu_has("avx512") && !(named && has_avx512_kernels(named)))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    if (!open_cblas(l))
        return false;
    FIND(get_core, "openblas_get_corename");
    FIND(get_config, "openblas_get_config");
    if (!FIND(openblas_threads, "openblas_set_num_threads"))
        return library_refuse(l, "cannot be told how many threads to use");
    core = get_core ? get_core() : "unknown";
    if (is_misdetected(core))
        return library_refuse(l, "took this CPU for an old one; set OPENBLAS_CORETYPE");
    narrow = cpu_has("avx512") && !has_avx512_kernels(core) && !strcasestr(core, "zen");
    if (get_config) /* the text begins "OpenBLAS 0.3.21 " */
        sscanf(get_config(), "OpenBLAS %63s", l->version);
    snprintf(l->kernels, sizeof l->kernels, "%s%s; %s", core,
             narrow ? " (narrower than this CPU's vectors)" : "", get_config ? get_config() : "");
    return true;
}

static void (*blis_threads)(int64_t);

/* Names BLIS's kernels by its environment variable, since BLIS uses generic C on x86-64 CPUs that
 * it does not know.  Releases 0.x take a number (0: skx, 3: haswell), later ones a name.  BLIS
 * recognises AMD's CPUs without AVX-512 (zen to zen3) itself. */
static void choose_blis_kernels(const char *version)
{
#if defined(__x86_64__)
    bool number = !strncmp(version, "0.", 2);

    __builtin_cpu_init();
    if (__builtin_cpu_is("amd") && !cpu_has("avx512"))
        return;
    if (cpu_has("avx512"))
        setenv("BLIS_ARCH_TYPE", number ? "0" : "skx", 0);
    else if (cpu_has("fma"))
        setenv("BLIS_ARCH_TYPE", number ? "3" : "haswell", 0);
#else
    (void)version;
#endif
}

/* Opens BLIS, finds its functions and names its kernels.  Refuses it if it would use generic C on a
 * CPU with AVX2. */
static bool open_blis(struct library *l)
{
    const char *(*version)(void), *(*arch_name)(int), *arch;
    int (*arch_id)(void);
    void (*init)(void);

    if (!open_cblas(l))
        return false;
    if (!FIND(version, "bli_info_get_version_str") || !FIND(init, "bli_init") ||
        !FIND(arch_id, "bli_arch_query_id") || !FIND(arch_name, "bli_arch_string") ||
        !FIND(blis_threads, "bli_thread_set_num_threads"))
        return library_refuse(l, "has none of the interface that sets it up");
    snprintf(l->version, sizeof l->version, "%s", version());
    choose_blis_kernels(l->version);
    init(); /* BLIS aborts if its architecture is queried before this */
    arch = arch_name(arch_id());
    if (!strcmp(arch, "generic") && cpu_has("avx2"))
        return library_refuse(l, "has no kernels for this CPU; set BLIS_ARCH_TYPE");
    snprintf(l->kernels, sizeof l->kernels, "%s", arch);
    return true;
}

/* MKL's functions that compile a GEMM for one shape. */
static struct {
    int (*create_d)(void **, int, int, int, int, int, int, double, int, int, double, int);
    int (*create_s)(void **, int, int, int, int, int, int, float, int, int, float, int);
    void *(*function_d)(const void *), *(*function_s)(const void *);
    int (*destroy)(void *);
} mkl_jit;

/* Looks up MKL's functions that generate kernels.  If one is missing, mkl_jit.create_d is NULL. */
static void find_mkl_jit(struct library *l)
{
    static const struct symbol needed[] = {
        { "mkl_cblas_jit_create_dgemm", &mkl_jit.create_d },
        { "mkl_cblas_jit_create_sgemm", &mkl_jit.create_s },
        { "mkl_jit_get_dgemm_ptr", &mkl_jit.function_d },
        { "mkl_jit_get_sgemm_ptr", &mkl_jit.function_s },
        { "mkl_jit_destroy", &mkl_jit.destroy },
    };

    if (!LIBRARY_FIND(l, needed)) {
        mkl_jit.create_d = NULL;
        /* MKL stays available without these functions, which only the comparison with functions
         * that MKL compiles for one shape needs. */
        *l->why_not = 0;
    }
}

/* Compiles a GEMM for the contender's shape.  Returns false if MKL compiles none, since its
 * function would call the ordinary GEMM, which is another peer. */
static bool prepare_mkl_jit(struct contender *c)
{
    enum { COMPILED = 0 };
    int n = (int)c->work->n, status;
    bool is_double = c->now->fy.size == 8;
    void *made = NULL, *function;

    if (!mkl_jit.create_d)
        return false;
    status = is_double ? mkl_jit.create_d(&made, ROW_MAJOR, AS_IS, AS_IS, n, n, n, 1, n, n, 0, n) :
                         mkl_jit.create_s(&made, ROW_MAJOR, AS_IS, AS_IS, n, n, n, 1, n, n, 0, n);
    if (status != COMPILED) {
        mkl_jit.destroy(made);
        return false;
    }
    function = is_double ? mkl_jit.function_d(made) : mkl_jit.function_s(made);
    memcpy(&c->function, &function, sizeof function);
    c->prepared = made;
    return true;
}

/* Returns the operands of the g-th product of a batch. */
static struct operands product_at(const struct contender *c, int64_t g)
{
    const size_t step = (size_t)(g * c->work->n * c->work->n) * c->now->fy.size;
    struct operands o = *c->now;

    o.a = (const char *)o.a + step;
    o.b = (const char *)o.b + step;
    o.y = (char *)o.y + step;
    return o;
}

static bool run_mkl_jit(struct contender *c)
{
    for (int64_t g = 0; g < c->work->batch; g++) {
        const struct operands o = product_at(c, g);

        ((void (*)(void *, const void *, const void *, void *))c->function)(c->prepared, o.a, o.b,
                                                                            o.y);
    }
    return true;
}

static void release_mkl_jit(struct contender *c)
{
    mkl_jit.destroy(c->prepared);
}

/* MKL's batched products with constant strides, for doubles and floats. */
static void (*mkl_batch_d)(int, int, int, int, int, int, double, const void *, int, int,
                           const void *, int, int, double, void *, int, int, int);
static void (*mkl_batch_s)(int, int, int, int, int, int, float, const void *, int, int,
                           const void *, int, int, float, void *, int, int, int);

static bool prepare_mkl_batch(struct contender *c)
{
    (void)c;
    return mkl_batch_d && mkl_batch_s;
}

/* Computes a batch of n x n products in one call of MKL. */
static bool run_mkl_batch(struct contender *c)
{
    const struct operands *o = c->now;
    int n = (int)c->work->n, count = (int)c->work->batch, step = n * n;

    if (o->fy.size == 8)
        mkl_batch_d(ROW_MAJOR, AS_IS, AS_IS, n, n, n, 1, o->a, n, step, o->b, n, step, 0, o->y, n,
                    step, count);
    else
        mkl_batch_s(ROW_MAJOR, AS_IS, AS_IS, n, n, n, 1, o->a, n, step, o->b, n, step, 0, o->y, n,
                    step, count);
    return true;
}

static void (*mkl_threads)(int);

/* Chooses MKL's threading layer: GCC's OpenMP, which Debian always has, unless Intel's is
 * installed. MKL ends the process if its OpenMP library is absent. */
static void choose_mkl_threading(void)
{
    void *intel = dlopen("libiomp5.so", RTLD_NOW | RTLD_LOCAL);

    if (!intel)
        setenv("MKL_THREADING_LAYER", "GNU", 0);
}

/* Callback of dl_iterate_phdr: finds the kernel library that MKL opened at its first product, and
 * stores the name of its instruction set. */
static int find_kernel_set(struct dl_phdr_info *loaded, size_t size, void *name)
{
    static const char *const sets[] = { "def", "mc3", "avx2", "avx512", "avx10" };
    const char *file = strrchr(loaded->dlpi_name, '/');
    char text[32];

    (void)size;
    for (size_t i = 0; file && i < sizeof sets / sizeof *sets; i++) {
        snprintf(text, sizeof text, "/libmkl_%s.so", sets[i]);
        if (!strncmp(file, text, strlen(text)))
            *(const char **)name = sets[i];
    }
    return 0;
}

/* Opens MKL with the best kernels for the CPU, so without MKL_ENABLE_INSTRUCTIONS, which can only
 * disable some.  On AMD's CPUs MKL always uses its library `def`, which has AVX2 kernels for Zen,
 * and compiles no functions. */
static bool open_mkl(struct library *l)
{
    void (*version)(char *, int);
    char text[256] = "";
    const char *set = "unknown";
    double one = 1, product = 0;
    dgemm_fn *dgemm;

    unsetenv("MKL_ENABLE_INSTRUCTIONS");
    if (!open_cblas(l))
        return false;
    choose_mkl_threading();
    if (!FIND(mkl_threads, "MKL_Set_Num_Threads"))
        return library_refuse(l, "cannot be told how many threads to use");
    find_mkl_jit(l);
    FIND(mkl_batch_d, "cblas_dgemm_batch_strided");
    FIND(mkl_batch_s, "cblas_sgemm_batch_strided");
    *(void **)&dgemm = l->gemm[0];
    dgemm(ROW_MAJOR, AS_IS, AS_IS, 1, 1, 1, 1, &one, 1, &one, 1, 0, &product, 1);
    dl_iterate_phdr(find_kernel_set, &set);
    if (FIND(version, "mkl_get_version_string"))
        version(text, sizeof text - 1);
    for (char *end = text + strlen(text); end > text && end[-1] == ' ';)
        *--end = 0;
    snprintf(l->kernels, sizeof l->kernels, "%s%s; %s", set,
             !strcmp(set, "def") && cpu_has("avx2") ? " (for Zen: AVX2; others: SSE)" : "", text);
    return true;
}

static void set_blis_threads(int threads)
{
    blis_threads(threads);
}

static void set_openblas_threads(int threads)
{
    openblas_threads(threads);
}

static void set_mkl_threads(int threads)
{
    mkl_threads(threads);
}

struct library openblas = { .name = "OpenBLAS",
                            .files = "libscipy_openblas.so libopenblas.so.0",
                            .open = open_openblas,
                            .threads = set_openblas_threads };
struct library blis = {
    .name = "BLIS", .files = "libblis.so.4", .open = open_blis, .threads = set_blis_threads
};
struct library mkl = { .name = "MKL",
                       .files = "libmkl_rt.so.3 libmkl_rt.so.2 libmkl_rt.so",
                       .open = open_mkl,
                       .threads = set_mkl_threads };

/* ---- LIBXSMM --------------------------------------------------------------------------------- */

typedef void xsmm_d_fn(const double *, const double *, double *, ...);
typedef void xsmm_s_fn(const float *, const float *, float *, ...);

static xsmm_d_fn *(*xsmm_d)(int, int, int, const int *, const int *, const int *, const double *,
                            const double *, const int *, const int *);
static xsmm_s_fn *(*xsmm_s)(int, int, int, const int *, const int *, const int *, const float *,
                            const float *, const int *, const int *);

/* Multiplies in column-major order: C' = B' A' is the row-major C = A B. */
static bool run_xsmm(struct contender *c)
{
    for (int64_t g = 0; g < c->work->batch; g++) {
        const struct operands o = product_at(c, g);

        if (o.fy.size == 8)
            ((xsmm_d_fn *)c->function)(o.b, o.a, o.y);
        else
            ((xsmm_s_fn *)c->function)(o.b, o.a, o.y);
    }
    return true;
}

/* Compiles a GEMM by libxsmm for the contender's shape.  Returns false if it compiles none. */
static bool prepare_xsmm(struct contender *c)
{
    double one = 1, zero = 0;
    float one_s = 1, zero_s = 0;
    int n = (int)c->work->n;

    if (c->now->fy.size == 8)
        c->function = (void (*)(void))xsmm_d(n, n, n, &n, &n, &n, &one, &zero, NULL, NULL);
    else
        c->function = (void (*)(void))xsmm_s(n, n, n, &n, &n, &n, &one_s, &zero_s, NULL, NULL);
    return c->function != NULL;
}

/* Loads libxsmm (version 1) and looks up its functions.  On failure sets why_not and returns
 * false. */
static bool open_xsmm(struct library *l)
{
    const char *(*arch)(void);
    void (*init)(void);

    if (!library_load(l))
        return false;
    if (!FIND(xsmm_d, "libxsmm_dmmdispatch") || !FIND(xsmm_s, "libxsmm_smmdispatch"))
        return library_refuse(l, "has no libxsmm_dmmdispatch (its version 1 has)");
    if (FIND(init, "libxsmm_init"))
        init();
    snprintf(l->version, sizeof l->version, "1");
    if (FIND(arch, "libxsmm_get_target_arch"))
        snprintf(l->kernels, sizeof l->kernels, "%s", arch());
    return true;
}

struct library libxsmm = { .name = "LIBXSMM",
                           .files = "libxsmm.so.1 libxsmm.so",
                           .open = open_xsmm };

/* ---- Limber's own BLAS interface ------------------------------------------------------------- */

/* Sets the number of liblimber_blas's threads by its environment variable, before its first call,
 * like a program that preloads it. */
static void set_interposed_threads(int threads)
{
    char text[16];

    snprintf(text, sizeof text, "%d", threads);
    setenv("LIMBER_THREADS", text, 1);
}

/* Opens liblimber_blas, which then computes under `native`. */
static bool open_interposed(struct library *l)
{
    setenv("LIMBER_CONTRACT", "native", 1);
    return open_cblas(l);
}

struct library limber_blas = { .name = "Limber before a BLAS",
                               .files = "liblimber_blas.so",
                               .open = open_interposed,
                               .threads = set_interposed_threads };

/* ---- the table of all peers ------------------------------------------------------------------ */

/* Constants of cuBLAS: types of matrices, and compute types (IN_...).  DNN_...: oneDNN's types of
 * elements. */
enum { R32F = 0, R64F = 1, R16F = 2, R8I = 3, R32I = 10, R16BF = 14, E4M3 = 28 };
enum { IN_32F = 68, IN_64F = 70, IN_32I = 72, IN_TF32 = 77, IN_BF16X9 = 78, IN_FIXED = 79 };
enum { DNN_ANY = 1, DNN_F32 = 3, DNN_S32 = 4, DNN_S8 = 5, DNN_U8 = 6 };

/* Without an instruction that sums four 8-bit products, oneDNN lets sums of two products saturate
 * at 16 bits, or drops a bit of signed filters.  Sums of integers may thus have an error of
 * 2^-SATURATES |A||B|. */
enum { SATURATES = 2 };
#define SUM .promise = PROMISE_sum, .factor = 1
#define EXACT .promise = PROMISE_exact
/* Tolerance, in bits, for fast algorithms without an error bound, such as Winograd's, or sums in
 * FP8 units. */
#define LOOSE(bits) .promise = PROMISE_loose, .factor = bits
/* Tensor cores truncate bits below the accumulator's last bit, so four times the usual error is
 * allowed. */
#define TENSOR .promise = PROMISE_sum, .factor = 4
#define F64 .word = "f64", .formats = "f64", SUM
#define F32 .word = "f32", .formats = "f32", SUM
#define F64_BATCH .word = "batch64", .formats = "f64", SUM
#define F32_BATCH .word = "batch32", .formats = "f32", SUM
#define I8 \
    .word = "i8", .formats = "i8 i8 i32", .code = { DNN_S8, DNN_S8, DNN_S32 }, .loss = SATURATES, \
    EXACT
#define U8 \
    .word = "u8", .formats = "u8 i8 i32", .code = { DNN_U8, DNN_S8, DNN_S32 }, .loss = SATURATES, \
    EXACT
#define CBLAS .run = call_cblas
#define DNN .library = &onednn, .run = onednn_run
#define MATMUL \
    .library = &onednn, .packed_before = true, .prepare = onednn_prepare, .run = onednn_matmul, \
    .release = onednn_release
/* Convolution in the row's formats and layout. */
#define CONVOLUTION(how) \
    .library = &onednn, .loss = SATURATES, .code = { how }, .prepare = onednn_conv_prepare, \
    .run = onednn_conv_run, .fetch = onednn_conv_fetch, .release = onednn_conv_release, SUM
#define XSMM \
    .library = &libxsmm, .largest = 128, .plain = true, .prepare = prepare_xsmm, .run = run_xsmm
#define MKL_JIT \
    .library = &mkl, .largest = 128, .plain = true, .prepare = prepare_mkl_jit, \
    .run = run_mkl_jit, .release = release_mkl_jit
#define MKL_BATCH .library = &mkl, .plain = true, .prepare = prepare_mkl_batch, .run = run_mkl_batch
#define INTEGERS \
    .plain = true, .prepare = flint_prepare, .run = flint_run, .fetch = flint_fetch, \
    .release = flint_release
#define CUBLAS .library = &cublas, .run = cublas_run
#define CUBLASLT .library = &cublaslt, .run = cublaslt_run

/* clang-format off */
static const struct peer peers[] = {
    { .name = "OpenBLAS DGEMM", .library = &openblas, F64, CBLAS },
    { .name = "OpenBLAS SGEMM", .library = &openblas, F32, CBLAS },
    { .name = "BLIS DGEMM", .library = &blis, F64, CBLAS },
    { .name = "BLIS SGEMM", .library = &blis, F32, CBLAS },
    { .name = "MKL DGEMM", .library = &mkl, F64, CBLAS },
    { .name = "MKL SGEMM", .library = &mkl, F32, CBLAS },
    { .name = "oneDNN SGEMM", F32, DNN, .code = { DNN_F32, DNN_F32, DNN_F32 } },
    { .name = "oneDNN u8s8s32", U8, DNN },
    { .name = "oneDNN s8s8s32", I8, DNN },
    { .name = "oneDNN f32, B packed before", F32, MATMUL, .code = { DNN_F32, DNN_F32, DNN_F32 } },
    { .name = "oneDNN u8s8s32, B packed before", U8, MATMUL },
    { .name = "oneDNN s8s8s32, B packed before", I8, MATMUL },
    { .word = "conv-plain", .name = "oneDNN plain", CONVOLUTION(0) },
    { .word = "conv-any", .name = "oneDNN any", CONVOLUTION(DNN_ANY) },
    { .name = "LIBXSMM", F64, XSMM },
    { .name = "LIBXSMM", F32, XSMM },
    { .name = "MKL, one shape", F64, MKL_JIT },
    { .name = "MKL, one shape", F32, MKL_JIT },
    { .name = "MKL, batch", F64_BATCH, MKL_BATCH },
    { .name = "MKL, batch", F32_BATCH, MKL_BATCH },
    { .name = "LIBXSMM", F64_BATCH, XSMM },
    { .name = "LIBXSMM", F32_BATCH, XSMM },
    { .name = "MKL, one shape", F64_BATCH, MKL_JIT },
    { .name = "MKL, one shape", F32_BATCH, MKL_JIT },
    { .word = "blas64", .name = "cblas_dgemm by Limber", .library = &limber_blas, .formats = "f64",
      SUM, CBLAS },
    { .word = "blas32", .name = "cblas_sgemm by Limber", .library = &limber_blas, .formats = "f32",
      SUM, CBLAS },
    { .word = "i64", .name = "FLINT fmpz_mat", .library = &flint, .formats = "i64", .largest = 1024,
      EXACT, INTEGERS },
    { .word = "flint", .name = "FLINT fmpz_mat, 113 bits", .library = &flint, .formats = "f128",
      .code = { 1, 0 }, SUM, INTEGERS },
    { .word = "arb", .name = "Arb arb_mat, 113 bits", .library = &arb, .formats = "f128",
      .code = { 1, 1 }, SUM, INTEGERS },
    { .word = "binary128", .name = "the compiler's binary128, blocked", .formats = "f128",
      .plain = true, SUM, .prepare = quad_prepare, .run = quad_gemm },
    { .word = "dd", .name = "double-double by FMA", .formats = "dd", .plain = true, SUM,
      .prepare = dd_prepare, .run = dd_gemm },
    { .word = "cpfloat", .name = "CPFloat", .promise = PROMISE_unit, .prepare = cpfloat_prepare,
      .run = cpfloat_gemm },

    { .word = "sgemm", .name = "cuBLAS SGEMM", CUBLAS, .code = { R32F, R32F, IN_32F }, SUM },
    { .word = "dgemm", .name = "cuBLAS DGEMM", CUBLAS, .code = { R64F, R64F, IN_64F }, SUM },
    { .word = "f16", .name = "cuBLAS FP16", CUBLAS, .code = { R16F, R32F, IN_32F }, TENSOR },
    { .word = "bf16", .name = "cuBLAS BF16", CUBLAS, .code = { R16BF, R32F, IN_32F }, TENSOR },
    { .word = "tf32", .name = "cuBLAS TF32", CUBLAS, .code = { R32F, R32F, IN_TF32 }, TENSOR },
    { .word = "int8", .name = "cuBLAS INT8", CUBLAS, .code = { R8I, R32I, IN_32I }, EXACT },
    { .word = "bf16x9", .name = "cuBLAS BF16x9", CUBLAS, .code = { R32F, R32F, IN_BF16X9 },
      .emulation = true, LOOSE(16) },
    { .word = "fixed", .name = "cuBLAS fixed point", CUBLAS, .code = { R64F, R64F, IN_FIXED },
      .emulation = true, LOOSE(32) },
    { .word = "e4m3", .name = "cuBLASLt E4M3", CUBLASLT, .code = { E4M3, R32F, IN_32F }, LOOSE(8) },
    { .word = "int8", .name = "cuBLASLt INT8", CUBLASLT, .code = { R8I, R32I, IN_32I }, EXACT },
    { .word = "nchw", .name = "cuDNN NCHW", .library = &cudnn, .run = cudnn_run, LOOSE(8) },
    { .word = "nhwc", .name = "cuDNN NHWC", .library = &cudnn, .run = cudnn_run, LOOSE(8) },
};
/* clang-format on */
enum { PEERS = sizeof peers / sizeof *peers };

static struct library *const libraries[] = { &openblas, &blis,        &mkl,   &onednn,
                                             &libxsmm,  &limber_blas, &flint, &arb,
                                             &cublas,   &cublaslt,    &cudnn };
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

/* Loads the libraries that rows use. */
void peers_open(const struct bench *b)
{
    /* This must precede the loading of all libraries.  Threads that spin while they wait take CPUs
     * from the next library: oneDNN's products lost up to nine tenths of their speed. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    for (int i = 0; i < LIBRARIES; i++)
        if (libraries[i]->gpu == b->gpu && (!b->gpu || rows_use_library(b, libraries[i])))
            libraries[i]->usable = libraries[i]->open(libraries[i]);
}

void peers_close(void)
{
    for (int i = LIBRARIES - 1; i >= 0; i--)
        if (libraries[i]->close)
            libraries[i]->close();
}

/* Sets the number of threads of all libraries that were opened. */
void peers_threads(int threads)
{
    for (int i = 0; i < LIBRARIES; i++)
        if (libraries[i]->usable && libraries[i]->threads)
            libraries[i]->threads(threads);
}

int peers_list(const struct peer **list)
{
    *list = peers;
    return PEERS;
}

int libraries_list(struct library *const **list)
{
    *list = libraries;
    return LIBRARIES;
}
