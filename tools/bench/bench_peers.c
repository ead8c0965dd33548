/* SPDX-License-Identifier: BSD-3-Clause
 * Other libraries, found at run time and set up at their best.  Their prototypes are declared
 * here, so that building Limber needs none of them. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Debian 12 has LIBXSMM as an archive only; `gcc -shared -Wl,--whole-archive libxsmm.a` with
 * libxsmmnoblas.a makes libxsmm.so.1 of it. */
enum { OPENBLAS, BLIS, MKL, ONEDNN, XSMM, FLINT, ARB, LIBRARIES };

static struct library libraries[LIBRARIES] = {
    [OPENBLAS] = { .name = "OpenBLAS", .files = "libopenblas.so.0" },
    [BLIS] = { .name = "BLIS", .files = "libblis.so.4" },
    [MKL] = { .name = "MKL", .files = "libmkl_rt.so.3 libmkl_rt.so.2 libmkl_rt.so" },
    [ONEDNN] = { .name = "oneDNN", .files = "libdnnl.so.3 libdnnl.so.2" },
    [XSMM] = { .name = "LIBXSMM", .files = "libxsmm.so.1 libxsmm.so" },
    [FLINT] = { .name = "FLINT", .files = "libflint.so.17" },
    [ARB] = { .name = "Arb", .files = "libflint-arb.so.2" },
};

static struct peer peers[MOST_PEERS];
static int peer_count;

/* A function or a variable of a library; NULL when it has none of that name. */
#define FIND(variable, library, symbol) \
    (*(void **)&(variable) = dlsym(libraries[library].handle, symbol))

static bool load(struct library *l)
{
    char names[128], *rest = names, *name;

    snprintf(names, sizeof names, "%s", l->files);
    while (!l->handle && (name = strsep(&rest, " ")))
        l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle)
        snprintf(l->why_not, sizeof l->why_not, "not found (%s)", l->files);
    return l->handle != NULL;
}

static bool refuse(struct library *l, const char *why)
{
    snprintf(l->why_not, sizeof l->why_not, "%s", why);
    return false;
}

static void add(struct peer p)
{
    if (peer_count < MOST_PEERS)
        peers[peer_count++] = p;
}

/* ---- formats of the kinds -------------------------------------------------------------------- */

limber_format kind_a(enum kind k)
{
    static const char *const names[KINDS] = { "f64", "f32", "i8", "u8", "f128", "dd", "i64" };

    return format_of(names[k]);
}

limber_format kind_b(enum kind k)
{
    return k == KIND_U8 ? format_of("i8") : kind_a(k);
}

limber_format kind_c(enum kind k)
{
    return k == KIND_U8 || k == KIND_I8 ? format_of("i32") : kind_a(k);
}

double kind_unit(enum kind k)
{
    static const double units[KINDS] = { 0x1p-53, 0x1p-24, 0, 0, 0x1p-113, 0x1p-104, 0 };

    return units[k];
}

/* ---- BLAS: OpenBLAS, BLIS, MKL --------------------------------------------------------------- */

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

typedef void dgemm_fn(int, int, int, int, int, int, double, const double *, int, const double *,
                      int, double, double *, int);
typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *, int,
                      float, float *, int);

static dgemm_fn *dgemm[LIBRARIES];
static sgemm_fn *sgemm[LIBRARIES];

static void run_dgemm(int library, const struct call *c)
{
    dgemm[library](ROW_MAJOR, c->ta ? TRANSPOSED : AS_IS, c->tb ? TRANSPOSED : AS_IS, c->n, c->n,
                   c->n, 1, c->a, c->n, c->b, c->n, 0, c->c, c->n);
}

static void run_sgemm(int library, const struct call *c)
{
    sgemm[library](ROW_MAJOR, c->ta ? TRANSPOSED : AS_IS, c->tb ? TRANSPOSED : AS_IS, c->n, c->n,
                   c->n, 1, c->a, c->n, c->b, c->n, 0, c->c, c->n);
}

static void openblas_d(void *c)
{
    run_dgemm(OPENBLAS, c);
}
static void openblas_s(void *c)
{
    run_sgemm(OPENBLAS, c);
}
static void blis_d(void *c)
{
    run_dgemm(BLIS, c);
}
static void blis_s(void *c)
{
    run_sgemm(BLIS, c);
}
static void mkl_d(void *c)
{
    run_dgemm(MKL, c);
}
static void mkl_s(void *c)
{
    run_sgemm(MKL, c);
}

static bool find_blas(int library)
{
    if (FIND(dgemm[library], library, "cblas_dgemm") &&
        FIND(sgemm[library], library, "cblas_sgemm"))
        return true;
    return refuse(&libraries[library], "has no cblas_dgemm");
}

static bool is_wide(const char *core)
{
    return strcasestr(core, "skylakex") || strcasestr(core, "cooperlake") ||
           strcasestr(core, "sapphire");
}

/* An SSE kernel on a machine with AVX2 is no peer. */
static bool misdetected(const char *core)
{
    static const char *const old[] = { "Prescott", "Core2", "Katmai", "Generic", "Nehalem" };

    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcasestr(core, old[i]))
            return cpu_has("avx2");
    return false;
}

static void (*openblas_threads)(int);

/* Debian's OpenBLAS takes newer CPUs for old ones, and environments name kernels for older ones:
 * a peer at its best uses the vectors that the CPU has. */
static bool open_openblas(struct library *l)
{
    const char *named = limber_variable_value("OPENBLAS_CORETYPE"), *core;
    char *(*get_core)(void), *(*get_config)(void);
    bool narrow;

    if (cpu_has("avx512") && !(named && is_wide(named)))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    if (!load(l) || !find_blas(OPENBLAS))
        return false;
    FIND(get_core, OPENBLAS, "openblas_get_corename");
    FIND(get_config, OPENBLAS, "openblas_get_config");
    if (!FIND(openblas_threads, OPENBLAS, "openblas_set_num_threads"))
        return refuse(l, "cannot be told how many threads to use");
    core = get_core ? get_core() : "unknown";
    if (misdetected(core))
        return refuse(l, "took this CPU for an old one; set OPENBLAS_CORETYPE");
    narrow = cpu_has("avx512") && !is_wide(core) && !strcasestr(core, "zen");
    if (get_config) /* "OpenBLAS 0.3.21 ..." */
        sscanf(get_config(), "OpenBLAS %63s", l->version);
    snprintf(l->kernels, sizeof l->kernels, "%s%s; %s", core,
             narrow ? " (narrower than this CPU's vectors)" : "", get_config ? get_config() : "");
    add((struct peer){ .name = "OpenBLAS DGEMM", .kind = KIND_F64, .run = openblas_d });
    add((struct peer){ .name = "OpenBLAS SGEMM", .kind = KIND_F32, .run = openblas_s });
    return true;
}

static void (*blis_threads)(int64_t);

/* BLIS chooses generic C for CPUs that it does not know.  Release 0.9 takes a number (0: skx,
 * 3: haswell), later ones a name. */
static void name_blis_kernels(const char *version)
{
    bool number = !strncmp(version, "0.", 2);

    if (cpu_has("avx512"))
        setenv("BLIS_ARCH_TYPE", number ? "0" : "skx", 0);
    else if (cpu_has("fma"))
        setenv("BLIS_ARCH_TYPE", number ? "3" : "haswell", 0);
}

static bool open_blis(struct library *l)
{
    const char *(*version)(void), *(*arch_name)(int), *arch;
    int (*arch_id)(void);
    void (*init)(void);

    if (!load(l) || !find_blas(BLIS))
        return false;
    if (!FIND(version, BLIS, "bli_info_get_version_str") || !FIND(init, BLIS, "bli_init") ||
        !FIND(arch_id, BLIS, "bli_arch_query_id") || !FIND(arch_name, BLIS, "bli_arch_string") ||
        !FIND(blis_threads, BLIS, "bli_thread_set_num_threads"))
        return refuse(l, "has none of the interface that sets it up");
    snprintf(l->version, sizeof l->version, "%s", version());
    name_blis_kernels(l->version);
    init(); /* before asking for kernels: BLIS aborts when asked earlier */
    arch = arch_name(arch_id());
    if (!strcmp(arch, "generic") && cpu_has("avx2"))
        return refuse(l, "has no kernels for this CPU; set BLIS_ARCH_TYPE");
    snprintf(l->kernels, sizeof l->kernels, "%s", arch);
    add((struct peer){ .name = "BLIS DGEMM", .kind = KIND_F64, .run = blis_d });
    add((struct peer){ .name = "BLIS SGEMM", .kind = KIND_F32, .run = blis_s });
    return true;
}

static void (*mkl_threads)(int);

/* MKL ends the process when the OpenMP that it wants is absent: it is told to use GCC's, which
 * Debian always has, unless Intel's is there. */
static void name_mkl_threading(void)
{
    void *intel = dlopen("libiomp5.so", RTLD_NOW | RTLD_LOCAL);

    if (!intel)
        setenv("MKL_THREADING_LAYER", "GNU", 0);
}

static bool open_mkl(struct library *l)
{
    void (*version)(char *, int);
    char text[256] = "";

    if (!load(l) || !find_blas(MKL))
        return false;
    name_mkl_threading();
    if (!FIND(mkl_threads, MKL, "MKL_Set_Num_Threads"))
        return refuse(l, "cannot be told how many threads to use");
    if (FIND(version, MKL, "mkl_get_version_string"))
        version(text, sizeof text - 1);
    for (char *end = text + strlen(text); end > text && end[-1] == ' ';)
        *--end = 0;
    snprintf(l->kernels, sizeof l->kernels, "%s", text);
    add((struct peer){ .name = "MKL DGEMM", .kind = KIND_F64, .run = mkl_d });
    add((struct peer){ .name = "MKL SGEMM", .kind = KIND_F32, .run = mkl_s });
    return true;
}

/* ---- oneDNN ---------------------------------------------------------------------------------- */

/* Releases 2 and 3 differ in who owns a memory descriptor: in 2 it is a structure of the caller
 * (696 bytes in 2.6), in 3 an object behind a pointer.  Both are held by pointer here. */
enum {
    DNN_F32 = 3,
    DNN_S32 = 4,
    DNN_S8 = 5,
    DNN_U8 = 6,
    DNN_ANY = 1,
    DNN_CPU = 1,
    DNN_IN_ORDER = 1,
    DNN_WEIGHTS_MD = 131,
    DNN_SRC = 1,
    DNN_DST = 17,
    DNN_WEIGHTS = 33,
    DNN_ROOM = 8192
};

struct dnn_argument {
    int which;
    void *memory;
};

static struct {
    int major;
    void *engine, *stream;
    const void *(*version)(void);
    int (*isa)(void);
    const char *(*isa_name)(int);
    int (*engine_create)(void **, int, size_t);
    int (*stream_create)(void **, void *, unsigned);
    int (*stream_wait)(void *);
    int (*execute)(const void *, void *, int, const struct dnn_argument *);
    int (*memory_create)(void **, const void *, void *, void *);
    int (*memory_destroy)(void *);
    const void *(*query_md)(const void *, int, int);
    int (*primitive_create)(void **, const void *);
    int (*primitive_destroy)(void *);
    int (*desc_destroy)(void *);
    int (*reorder_create)(void **, const void *, void *, const void *, void *, const void *);
    int (*matmul_init)(void *, const void *, const void *, const void *, const void *); /* 2 */
    int (*desc_create)(void **, const void *, const void *, void *, const void *); /* 2 */
    int (*strides2)(void *, int, const int64_t *, int, const int64_t *); /* 2 */
    int (*tag2)(void *, int, const int64_t *, int, int); /* 2 */
    int (*matmul_create)(void **, void *, const void *, const void *, const void *, const void *,
                         const void *); /* 3 */
    int (*strides3)(void **, int, const int64_t *, int, const int64_t *); /* 3 */
    int (*tag3)(void **, int, const int64_t *, int, int); /* 3 */
    int (*md_destroy)(void *); /* 3 */
    int (*sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                 const float *, int64_t, float, float *, int64_t);
    int (*u8)(char, char, char, int64_t, int64_t, int64_t, float, const uint8_t *, int64_t, uint8_t,
              const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *);
    int (*s8)(char, char, char, int64_t, int64_t, int64_t, float, const int8_t *, int64_t, int8_t,
              const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *);
    void (*omp_threads)(int);
} dnn;

static void dnn_sgemm(void *state)
{
    const struct call *c = state;

    dnn.sgemm(c->ta ? 'T' : 'N', c->tb ? 'T' : 'N', c->n, c->n, c->n, 1, c->a, c->n, c->b, c->n, 0,
              c->c, c->n);
}

static void dnn_u8(void *state)
{
    const struct call *c = state;
    int32_t zero = 0;

    dnn.u8(c->ta ? 'T' : 'N', c->tb ? 'T' : 'N', 'F', c->n, c->n, c->n, 1, c->a, c->n, 0, c->b,
           c->n, 0, 0, c->c, c->n, &zero);
}

static void dnn_s8(void *state)
{
    const struct call *c = state;
    int32_t zero = 0;

    dnn.s8(c->ta ? 'T' : 'N', c->tb ? 'T' : 'N', 'F', c->n, c->n, c->n, 1, c->a, c->n, 0, c->b,
           c->n, 0, 0, c->c, c->n, &zero);
}

static void *md_strides(int n, int type, bool transposed)
{
    int64_t dims[12] = { n, n }, strides[12] = { transposed ? 1 : n, transposed ? n : 1 };
    void *md = NULL;

    if (dnn.major >= 3)
        return dnn.strides3(&md, 2, dims, type, strides) ? NULL : md;
    md = calloc(1, DNN_ROOM);
    if (md && dnn.strides2(md, 2, dims, type, strides)) {
        free(md);
        md = NULL;
    }
    return md;
}

static void *md_any(int n, int type)
{
    int64_t dims[12] = { n, n };
    void *md = NULL;

    if (dnn.major >= 3)
        return dnn.tag3(&md, 2, dims, type, DNN_ANY) ? NULL : md;
    md = calloc(1, DNN_ROOM);
    if (md && dnn.tag2(md, 2, dims, type, DNN_ANY)) {
        free(md);
        md = NULL;
    }
    return md;
}

static void md_free(void *md)
{
    if (dnn.major >= 3 && md)
        dnn.md_destroy(md);
    else
        free(md);
}

static void *describe_matmul(const void *a, const void *b, const void *c)
{
    void *pd = NULL, *op;

    if (!a || !b || !c)
        return NULL;
    if (dnn.major >= 3)
        return dnn.matmul_create(&pd, dnn.engine, a, b, NULL, c, NULL) ? NULL : pd;
    op = calloc(1, DNN_ROOM);
    if (!op || dnn.matmul_init(op, a, b, NULL, c) ||
        dnn.desc_create(&pd, op, NULL, dnn.engine, NULL))
        pd = NULL;
    free(op);
    return pd;
}

struct dnn_state {
    void *primitive, *a, *b, *c;
};

static void dnn_release(void *state)
{
    struct dnn_state *s = state;

    if (s->primitive)
        dnn.primitive_destroy(s->primitive);
    if (s->a)
        dnn.memory_destroy(s->a);
    if (s->b)
        dnn.memory_destroy(s->b);
    if (s->c)
        dnn.memory_destroy(s->c);
    free(s);
}

/* Packs B as the primitive likes it best. */
static bool pack_weights(struct dnn_state *s, const void *pd, const void *plain, const void *b)
{
    const void *packed = dnn.query_md(pd, DNN_WEIGHTS_MD, 0);
    void *from = NULL, *reorder_pd = NULL, *reorder = NULL;
    bool ok = packed && !dnn.memory_create(&s->b, packed, dnn.engine, (void *)~(uintptr_t)0) &&
              !dnn.memory_create(&from, plain, dnn.engine, (void *)(uintptr_t)b) &&
              !dnn.reorder_create(&reorder_pd, plain, dnn.engine, packed, dnn.engine, NULL) &&
              !dnn.primitive_create(&reorder, reorder_pd);

    if (ok) {
        struct dnn_argument arguments[] = { { DNN_SRC, from }, { DNN_DST, s->b } };

        ok = !dnn.execute(reorder, dnn.stream, 2, arguments) && !dnn.stream_wait(dnn.stream);
    }
    if (reorder)
        dnn.primitive_destroy(reorder);
    if (reorder_pd)
        dnn.desc_destroy(reorder_pd);
    if (from)
        dnn.memory_destroy(from);
    return ok;
}

static void *prepare_matmul(const struct call *call, int ta, int tb, int tc)
{
    struct dnn_state *s = calloc(1, sizeof *s);
    void *a = md_strides(call->n, ta, call->ta), *c = md_strides(call->n, tc, false);
    void *b = md_strides(call->n, tb, call->tb), *any = md_any(call->n, tb);
    void *pd = describe_matmul(a, any, c);
    bool ok = s && b && pd && !dnn.primitive_create(&s->primitive, pd) &&
              !dnn.memory_create(&s->a, a, dnn.engine, (void *)(uintptr_t)call->a) &&
              !dnn.memory_create(&s->c, c, dnn.engine, call->c) && pack_weights(s, pd, b, call->b);

    if (pd)
        dnn.desc_destroy(pd);
    md_free(a);
    md_free(b);
    md_free(c);
    md_free(any);
    if (!ok && s) {
        dnn_release(s);
        s = NULL;
    }
    return s;
}

static void *prepare_f32(struct call *c)
{
    return prepare_matmul(c, DNN_F32, DNN_F32, DNN_F32);
}
static void *prepare_u8(struct call *c)
{
    return prepare_matmul(c, DNN_U8, DNN_S8, DNN_S32);
}
static void *prepare_s8(struct call *c)
{
    return prepare_matmul(c, DNN_S8, DNN_S8, DNN_S32);
}

static void dnn_matmul(void *state)
{
    struct dnn_state *s = state;
    struct dnn_argument arguments[] = { { DNN_SRC, s->a },
                                        { DNN_WEIGHTS, s->b },
                                        { DNN_DST, s->c } };

    if (!dnn.execute(s->primitive, dnn.stream, 3, arguments))
        dnn.stream_wait(dnn.stream);
}

static bool find_dnn_gemm(void)
{
    return FIND(dnn.version, ONEDNN, "dnnl_version") && FIND(dnn.sgemm, ONEDNN, "dnnl_sgemm") &&
           FIND(dnn.u8, ONEDNN, "dnnl_gemm_u8s8s32") && FIND(dnn.s8, ONEDNN, "dnnl_gemm_s8s8s32");
}

static bool find_dnn_matmul(void)
{
    bool ok = FIND(dnn.engine_create, ONEDNN, "dnnl_engine_create") &&
              FIND(dnn.stream_create, ONEDNN, "dnnl_stream_create") &&
              FIND(dnn.stream_wait, ONEDNN, "dnnl_stream_wait") &&
              FIND(dnn.execute, ONEDNN, "dnnl_primitive_execute") &&
              FIND(dnn.memory_create, ONEDNN, "dnnl_memory_create") &&
              FIND(dnn.memory_destroy, ONEDNN, "dnnl_memory_destroy") &&
              FIND(dnn.query_md, ONEDNN, "dnnl_primitive_desc_query_md") &&
              FIND(dnn.primitive_create, ONEDNN, "dnnl_primitive_create") &&
              FIND(dnn.primitive_destroy, ONEDNN, "dnnl_primitive_destroy") &&
              FIND(dnn.desc_destroy, ONEDNN, "dnnl_primitive_desc_destroy") &&
              FIND(dnn.reorder_create, ONEDNN, "dnnl_reorder_primitive_desc_create");

    if (dnn.major == 2)
        ok = ok && FIND(dnn.matmul_init, ONEDNN, "dnnl_matmul_desc_init") &&
             FIND(dnn.desc_create, ONEDNN, "dnnl_primitive_desc_create") &&
             FIND(dnn.strides2, ONEDNN, "dnnl_memory_desc_init_by_strides") &&
             FIND(dnn.tag2, ONEDNN, "dnnl_memory_desc_init_by_tag");
    else
        ok = ok && dnn.major == 3 &&
             FIND(dnn.matmul_create, ONEDNN, "dnnl_matmul_primitive_desc_create") &&
             FIND(dnn.strides3, ONEDNN, "dnnl_memory_desc_create_with_strides") &&
             FIND(dnn.tag3, ONEDNN, "dnnl_memory_desc_create_with_tag") &&
             FIND(dnn.md_destroy, ONEDNN, "dnnl_memory_desc_destroy");
    return ok && !dnn.engine_create(&dnn.engine, DNN_CPU, 0) &&
           !dnn.stream_create(&dnn.stream, dnn.engine, DNN_IN_ORDER);
}

static void add_dnn_matmul(void)
{
    static const struct {
        const char *name;
        enum kind kind;
        void *(*prepare)(struct call *);
    } ways[] = {
        { "oneDNN f32, B packed before", KIND_F32, prepare_f32 },
        { "oneDNN u8s8s32, B packed before", KIND_U8, prepare_u8 },
        { "oneDNN s8s8s32, B packed before", KIND_I8, prepare_s8 },
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        add((struct peer){ .name = ways[i].name,
                           .kind = ways[i].kind,
                           .packed_before = true,
                           .prepare = ways[i].prepare,
                           .run = dnn_matmul,
                           .release = dnn_release });
}

static bool open_onednn(struct library *l)
{
    const struct {
        int major, minor, patch;
    } *v;
    bool matmul;

    if (!load(l))
        return false;
    if (!find_dnn_gemm())
        return refuse(l, "has none of the C interface's gemm functions");
    v = dnn.version();
    dnn.major = v->major;
    snprintf(l->version, sizeof l->version, "%d.%d.%d", v->major, v->minor, v->patch);
    matmul = find_dnn_matmul();
    FIND(dnn.omp_threads, ONEDNN, "omp_set_num_threads");
    if (FIND(dnn.isa, ONEDNN, "dnnl_get_effective_cpu_isa") &&
        FIND(dnn.isa_name, ONEDNN, "dnnl_cpu_isa2str"))
        snprintf(l->kernels, sizeof l->kernels, "%s%s", dnn.isa_name(dnn.isa()),
                 matmul ? "" : "; no matmul primitive");
    add((struct peer){ .name = "oneDNN SGEMM", .kind = KIND_F32, .run = dnn_sgemm });
    add((struct peer){ .name = "oneDNN u8s8s32", .kind = KIND_U8, .run = dnn_u8 });
    add((struct peer){ .name = "oneDNN s8s8s32", .kind = KIND_I8, .run = dnn_s8 });
    if (matmul)
        add_dnn_matmul();
    return true;
}

/* ---- LIBXSMM --------------------------------------------------------------------------------- */

typedef void xsmm_d_fn(const double *, const double *, double *, ...);
typedef void xsmm_s_fn(const float *, const float *, float *, ...);

static xsmm_d_fn *(*xsmm_d)(int, int, int, const int *, const int *, const int *, const double *,
                            const double *, const int *, const int *);
static xsmm_s_fn *(*xsmm_s)(int, int, int, const int *, const int *, const int *, const float *,
                            const float *, const int *, const int *);

struct xsmm_state {
    const struct call *c;
    xsmm_d_fn *d;
    xsmm_s_fn *s;
};

/* Column-major C' = B' A' is row-major C = A B. */
static void run_xsmm(void *state)
{
    const struct xsmm_state *s = state;

    if (s->d)
        s->d(s->c->b, s->c->a, s->c->c);
    else
        s->s(s->c->b, s->c->a, s->c->c);
}

static void *prepare_xsmm(struct call *c, bool single)
{
    struct xsmm_state *s = calloc(1, sizeof *s);
    double one = 1, zero = 0;
    float one_s = 1, zero_s = 0;
    int n = c->n;

    if (!s)
        return NULL;
    s->c = c;
    if (single)
        s->s = xsmm_s(n, n, n, &n, &n, &n, &one_s, &zero_s, NULL, NULL);
    else
        s->d = xsmm_d(n, n, n, &n, &n, &n, &one, &zero, NULL, NULL);
    if (!s->s && !s->d) {
        free(s);
        return NULL;
    }
    return s;
}

static void *prepare_xsmm_d(struct call *c)
{
    return prepare_xsmm(c, false);
}
static void *prepare_xsmm_s(struct call *c)
{
    return prepare_xsmm(c, true);
}

static bool open_xsmm(struct library *l)
{
    const char *(*arch)(void);
    void (*init)(void);

    if (!load(l))
        return false;
    if (!FIND(xsmm_d, XSMM, "libxsmm_dmmdispatch") || !FIND(xsmm_s, XSMM, "libxsmm_smmdispatch"))
        return refuse(l, "has no libxsmm_dmmdispatch (its version 1 has)");
    if (FIND(init, XSMM, "libxsmm_init"))
        init();
    snprintf(l->version, sizeof l->version, "1");
    if (FIND(arch, XSMM, "libxsmm_get_target_arch"))
        snprintf(l->kernels, sizeof l->kernels, "%s", arch());
    add((struct peer){ .name = "LIBXSMM",
                       .kind = KIND_F64,
                       .largest = 128,
                       .plain = true,
                       .prepare = prepare_xsmm_d,
                       .run = run_xsmm,
                       .release = free });
    add((struct peer){ .name = "LIBXSMM",
                       .kind = KIND_F32,
                       .largest = 128,
                       .plain = true,
                       .prepare = prepare_xsmm_s,
                       .run = run_xsmm,
                       .release = free });
    return true;
}

/* ---- FLINT and Arb --------------------------------------------------------------------------- */

enum { PRECISION = 113, SHIFT = 113, LIMBS = 4 };

static struct {
    void (*mat_init)(void *, long, long);
    void (*mat_clear)(void *);
    void (*mat_mul)(void *, const void *, const void *);
    long *(*entry)(const void *, long, long);
    void (*set_si)(long *, long);
    void (*set_limbs)(long *, const unsigned long *, long);
    void (*get_limbs)(unsigned long *, long, const long *);
    long (*get_si)(const long *);
    void (*init)(long *);
    void (*clear)(long *);
    void (*threads)(int);
} flint;

static struct {
    void (*mat_init)(void *, long, long);
    void (*mat_clear)(void *);
    void (*mat_mul)(void *, const void *, const void *, long);
    void *(*entry)(void *, long, long);
    void (*set)(void *, const long *, const long *);
    int (*get)(long *, const void *, long);
} arb;

/* Matrices behind room enough for the libraries' own structures (four words in both). */
struct flint_state {
    const struct call *c;
    long a[16], b[16], y[16];
    bool wide;
};

/* x 2^SHIFT in two's complement: the operands are multiples of 2^-SHIFT below 1. */
static void scaled(const void *at, unsigned long limbs[2])
{
    quad x;
    __int128 v;

    memcpy(&x, at, sizeof x);
    v = (__int128)(x * ((quad)0x1p113));
    limbs[0] = (unsigned long)v;
    limbs[1] = (unsigned long)(v >> 64);
}

/* The integer in LIMBS limbs of two's complement times 2^exponent (a power that quad holds). */
static void unscaled(const unsigned long limbs[LIMBS], quad scale, void *at)
{
    quad x = (quad)(long)limbs[LIMBS - 1];

    for (int i = LIMBS - 2; i >= 0; i--)
        x = x * ((quad)0x1p64) + (quad)limbs[i];
    x *= scale;
    memcpy(at, &x, sizeof x);
}

static void fill_fmpz(void *matrix, const void *values, int n, bool wide)
{
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            unsigned long limbs[2];
            size_t at = (size_t)(i * n + j);

            if (wide) {
                scaled((const char *)values + at * sizeof(quad), limbs);
                flint.set_limbs(flint.entry(matrix, i, j), limbs, 2);
            } else {
                flint.set_si(flint.entry(matrix, i, j), (long)((const int64_t *)values)[at]);
            }
        }
}

static void *prepare_flint(struct call *c, bool wide)
{
    struct flint_state *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->c = c;
    s->wide = wide;
    flint.mat_init(s->a, c->n, c->n);
    flint.mat_init(s->b, c->n, c->n);
    flint.mat_init(s->y, c->n, c->n);
    fill_fmpz(s->a, c->a, c->n, wide);
    fill_fmpz(s->b, c->b, c->n, wide);
    return s;
}

static void *prepare_flint_wide(struct call *c)
{
    return prepare_flint(c, true);
}
static void *prepare_flint_int(struct call *c)
{
    return prepare_flint(c, false);
}

static void run_flint(void *state)
{
    struct flint_state *s = state;

    flint.mat_mul(s->y, s->a, s->b);
}

static void fetch_flint(void *state)
{
    struct flint_state *s = state;
    long n = s->c->n;

    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            const long *x = flint.entry(s->y, i, j);
            unsigned long limbs[LIMBS];

            if (s->wide) {
                flint.get_limbs(limbs, LIMBS, x);
                unscaled(limbs, (quad)0x1p-226, (char *)s->c->c + (i * n + j) * 16);
            } else {
                ((int64_t *)s->c->c)[i * n + j] = flint.get_si(x);
            }
        }
}

static void release_flint(void *state)
{
    struct flint_state *s = state;

    flint.mat_clear(s->a);
    flint.mat_clear(s->b);
    flint.mat_clear(s->y);
    free(s);
}

static bool open_flint(struct library *l)
{
    const char *version;

    if (!load(l))
        return false;
    if (!FIND(flint.mat_init, FLINT, "fmpz_mat_init") ||
        !FIND(flint.mat_clear, FLINT, "fmpz_mat_clear") ||
        !FIND(flint.mat_mul, FLINT, "fmpz_mat_mul") ||
        !FIND(flint.entry, FLINT, "fmpz_mat_entry") || !FIND(flint.set_si, FLINT, "fmpz_set_si") ||
        !FIND(flint.get_si, FLINT, "fmpz_get_si") ||
        !FIND(flint.set_limbs, FLINT, "fmpz_set_signed_ui_array") ||
        !FIND(flint.get_limbs, FLINT, "fmpz_get_signed_ui_array") ||
        !FIND(flint.init, FLINT, "fmpz_init") || !FIND(flint.clear, FLINT, "fmpz_clear"))
        return refuse(l, "has none of the functions needed");
    FIND(flint.threads, FLINT, "flint_set_num_threads");
    version = dlsym(l->handle, "flint_version");
    snprintf(l->version, sizeof l->version, "%.32s", version ? version : "");
    snprintf(l->kernels, sizeof l->kernels, "fmpz_mat_mul");
    add((struct peer){ .name = "FLINT fmpz_mat",
                       .kind = KIND_INT,
                       .largest = 1024,
                       .plain = true,
                       .prepare = prepare_flint_int,
                       .run = run_flint,
                       .fetch = fetch_flint,
                       .release = release_flint });
    if (sizeof(quad) == 16)
        add((struct peer){ .name = "FLINT fmpz_mat, 113 bits",
                           .kind = KIND_QUAD,
                           .largest = 256,
                           .plain = true,
                           .prepare = prepare_flint_wide,
                           .run = run_flint,
                           .fetch = fetch_flint,
                           .release = release_flint });
    return true;
}

static void fill_arb(void *matrix, const void *values, int n)
{
    long x, e;

    flint.init(&x);
    flint.init(&e);
    flint.set_si(&e, -SHIFT);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            unsigned long limbs[2];

            scaled((const char *)values + (i * n + j) * 16, limbs);
            flint.set_limbs(&x, limbs, 2);
            arb.set(arb.entry(matrix, i, j), &x, &e);
        }
    flint.clear(&x);
    flint.clear(&e);
}

static void *prepare_arb(struct call *c)
{
    struct flint_state *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->c = c;
    arb.mat_init(s->a, c->n, c->n);
    arb.mat_init(s->b, c->n, c->n);
    arb.mat_init(s->y, c->n, c->n);
    fill_arb(s->a, c->a, c->n);
    fill_arb(s->b, c->b, c->n);
    return s;
}

static void run_arb(void *state)
{
    struct flint_state *s = state;

    arb.mat_mul(s->y, s->a, s->b, PRECISION);
}

/* The midpoints (an arb_t begins with its midpoint), to 2^-226. */
static void fetch_arb(void *state)
{
    struct flint_state *s = state;
    long n = s->c->n, x;

    flint.init(&x);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            unsigned long limbs[LIMBS];

            arb.get(&x, arb.entry(s->y, i, j), -226);
            flint.get_limbs(limbs, LIMBS, &x);
            unscaled(limbs, (quad)0x1p-226, (char *)s->c->c + (i * n + j) * 16);
        }
    flint.clear(&x);
}

static void release_arb(void *state)
{
    struct flint_state *s = state;

    arb.mat_clear(s->a);
    arb.mat_clear(s->b);
    arb.mat_clear(s->y);
    free(s);
}

static bool open_arb(struct library *l)
{
    const char **version;

    if (!load(l))
        return false;
    if (!libraries[FLINT].usable || sizeof(quad) != 16)
        return refuse(l, "needs FLINT beside it and a binary128");
    if (!FIND(arb.mat_init, ARB, "arb_mat_init") || !FIND(arb.mat_clear, ARB, "arb_mat_clear") ||
        !FIND(arb.mat_mul, ARB, "arb_mat_mul") || !FIND(arb.entry, ARB, "arb_mat_entry_ptr") ||
        !FIND(arb.set, ARB, "arb_set_fmpz_2exp") || !FIND(arb.get, ARB, "arf_get_fmpz_fixed_si"))
        return refuse(l, "has none of the functions needed");
    version = dlsym(l->handle, "arb_version");
    snprintf(l->version, sizeof l->version, "%.32s", version && *version ? *version : "");
    snprintf(l->kernels, sizeof l->kernels, "arb_mat_mul at %d bits", PRECISION);
    add((struct peer){ .name = "Arb arb_mat, 113 bits",
                       .kind = KIND_QUAD,
                       .largest = 256,
                       .plain = true,
                       .prepare = prepare_arb,
                       .run = run_arb,
                       .fetch = fetch_arb,
                       .release = release_arb });
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void add_own_kernels(void)
{
    if (sizeof(quad) == 16)
        add((struct peer){ .name = "the compiler's binary128, blocked",
                           .kind = KIND_QUAD,
                           .largest = 128,
                           .plain = true,
                           .run = quad_gemm });
    if (dd_kernel())
        add((struct peer){ .name = "double-double by FMA",
                           .kind = KIND_DD,
                           .largest = 512,
                           .plain = true,
                           .run = dd_gemm });
}

int peers_open(struct library **list)
{
    static bool (*const open[LIBRARIES])(struct library *) = {
        [OPENBLAS] = open_openblas, [BLIS] = open_blis,   [MKL] = open_mkl, [ONEDNN] = open_onednn,
        [XSMM] = open_xsmm,         [FLINT] = open_flint, [ARB] = open_arb,
    };

    for (int i = 0; i < LIBRARIES; i++)
        libraries[i].usable = open[i](&libraries[i]);
    add_own_kernels();
    *list = libraries;
    return LIBRARIES;
}

void peers_threads(int threads)
{
    if (libraries[OPENBLAS].usable)
        openblas_threads(threads);
    if (libraries[BLIS].usable)
        blis_threads(threads);
    if (libraries[MKL].usable)
        mkl_threads(threads);
    if (dnn.omp_threads)
        dnn.omp_threads(threads);
    if (libraries[FLINT].usable && flint.threads)
        flint.threads(threads);
}

int peers_list(const struct peer **list)
{
    *list = peers;
    return peer_count;
}
