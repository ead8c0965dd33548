/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that are compiled for one shape: they have the interpreter's bits for every shape,
 * stride and target, access nothing outside the matrices, are cached, and report errors. */
#define _GNU_SOURCE     /* for nftw */
#include "compiler.h"
#include "contexts.h"
#include "engine_support.h"

#include "ir/ir.h"
#include "support.h"

#include <ftw.h>
#include <pthread.h>
#include <sys/mman.h>

extern const struct backend limber_backend_llvm;

static const limber_contract native = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE,
                                        .scheme = "native" };

/* Opens a context with one thread.  cache, dump: folders; "": none. */
static limber_context *open_context(const char *backend, const char *cache, const char *dump)
{
    limber_context *ctx;

    if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                              .backend = backend,
                                              .cache_dir = cache,
                                              .dump_dir = dump,
                                              .threads = 1 }) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    return ctx;
}

static limber_context *compiling_context(const char *cache, const char *dump)
{
    need_compiler();
    return open_context("llvm", cache, dump);
}

/* ---- matrices whose last element ends at a guard page ---------------------------------------- */

enum { PAGE = 4096, ROOM = 1 << 21 };

/* Memory that ends at an inaccessible page. */
struct map_guarded {
    char *map, *at;
    size_t bytes;
};

/* Allocates bytes that end at an inaccessible page. */
static struct map_guarded map_guarded(size_t bytes)
{
    struct map_guarded g = { .bytes = bytes };

    assert_true(bytes <= ROOM - PAGE);
    g.map = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + ROOM, PAGE, PROT_NONE), 0);
    g.at = g.map + ROOM - bytes;
    return g;
}

static void unmap_guarded(struct map_guarded g)
{
    munmap(g.map, ROOM + PAGE);
}

enum way { ROWS, COLUMNS, SPARSE };

/* Makes a matrix with these strides on a guarded map of its own, whose padding is filled with
 * random numbers, too. */
static limber_matrix make_matrix(struct rng *r, limber_format f, int64_t rows, int64_t cols,
                                 enum way way, int gap, struct map_guarded *g)
{
    limber_matrix x = { NULL, f,
                        way == ROWS    ? cols + gap :
                        way == COLUMNS ? 1 :
                                         2,
                        way == ROWS    ? 1 :
                        way == COLUMNS ? rows + gap :
                                         2 * rows + 1 };
    int64_t elements = (rows - 1) * x.row_stride + (cols - 1) * x.col_stride + 1;

    *g = map_guarded((size_t)elements * f.size);
    fill(r, rng_below(r, 3) ? DATA_unit : DATA_tiny, f, g->at, (size_t)elements);
    for (int64_t i = 0; i < elements; i++)
        if (rng_below(r, 16) == 0) {
            memset(g->at + i * f.size, 0, f.size);
            g->at[i * f.size + f.size - 1] = (char)(rng_below(r, 2) ? 0x80 : 0);
        }
    x.data = g->at;
    return x;
}

/* A product.  gap: padding of the lines; add: C is added to. */
struct shape {
    int64_t m, n, k;
    limber_format f;
    enum way a, b, c;
    int gap, add;
};

static void describe(const struct shape *s, char *text, size_t size)
{
    snprintf(text, size, "%s m=%d n=%d k=%d strides %d %d %d gap %d add %d",
             s->f.size == 8 ? "f64" : "f32", (int)s->m, (int)s->n, (int)s->k, s->a, s->b, s->c,
             s->gap, s->add);
}

/* Compares all memory of C, computed by the function, with the interpreter's. */
static void compare(limber_context *ctx, limber_context *interp, const struct shape *s,
                    struct rng *r)
{
    struct map_guarded ga, gb, gc, gd;
    limber_matrix a = make_matrix(r, s->f, s->m, s->k, s->a, s->gap, &ga);
    limber_matrix b = make_matrix(r, s->f, s->k, s->n, s->b, s->gap, &gb);
    limber_matrix c = make_matrix(r, s->f, s->m, s->n, s->c, s->gap, &gc), d = c;
    const double one = 1;
    const float narrow = 1;
    const void *beta = !s->add ? NULL : s->f.size == 8 ? (const void *)&one : &narrow;
    limber_kernel f;
    char text[128];

    describe(s, text, sizeof text);
    gd = map_guarded(gc.bytes);
    memcpy(gd.map, gc.map, ROOM);
    d.data = gd.at;
    if (limber_bind_shape(ctx, &native, s->m, s->n, s->k, a, b, output_of(c),
                          s->add ? LIMBER_ACCUMULATE_ADD : LIMBER_ACCUMULATE_NONE,
                          &f) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", text, limber_error_text());
    f(a.data, writable(b.data), writable(c.data));
    if (limber_gemm(interp, &native, s->m, s->n, s->k, NULL, a, b, beta, output_of(d), NULL) !=
        LIMBER_STATUS_OK)
        fail_msg("%s: %s", text, limber_error_text());
    if (memcmp(gc.map, gd.map, ROOM))
        fail_msg("%s: the bits differ", text);
    unmap_guarded(ga);
    unmap_guarded(gb);
    unmap_guarded(gc);
    unmap_guarded(gd);
}

/* Compiled functions of random shapes and layouts have the interpreter's bits. */
static void same_bits_as_the_interpreter(void **state)
{
    static const int64_t edge[] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 33, 48, 65 };
    limber_context *ctx = compiling_context("", ""), *interp = open_context("interp", "", "");
    struct rng r = { 7 };

    (void)state;
    for (int i = 0; i < 240; i++) {
        struct shape s = { .f = named(i % 2 ? "f32" : "f64"),
                           .add = i / 2 % 2,
                           .a = (enum way)(i / 4 % 3),
                           .b = (enum way)(i / 12 % 3),
                           .c = (enum way)(i / 36 % 2),
                           .gap = rng_below(&r, 4) };

        s.m = edge[rng_below(&r, COUNT(edge))];
        s.n = edge[rng_below(&r, COUNT(edge))];
        s.k = edge[rng_below(&r, COUNT(edge))];
        compare(ctx, interp, &s, &r);
    }
    limber_destroy(ctx);
    limber_destroy(interp);
}

/* Functions of the largest supported sizes have the interpreter's bits. */
static void the_largest_shapes_have_the_interpreters_bits(void **state)
{
    limber_context *ctx = compiling_context("", ""), *interp = open_context("interp", "", "");
    struct rng r = { 8 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct shape s = { i == 0 ? 256 : 129,
                           i == 1 ? 256 : 43,
                           i == 2 ? 256 : 251,
                           named(i % 2 ? "f32" : "f64"),
                           (enum way)(i % 3),
                           (enum way)(i / 2),
                           (enum way)(i / 2),
                           0,
                           i % 2 };

        compare(ctx, interp, &s, &r);
    }
    limber_destroy(ctx);
    limber_destroy(interp);
}

/* Functions for products with one row or column of C, of which only one stride matters, have the
 * interpreter's bits. */
static void functions_for_vectors_have_the_interpreters_bits(void **state)
{
    limber_context *ctx = compiling_context("", ""), *interp = open_context("interp", "", "");
    struct rng r = { 9 };

    (void)state;
    for (int i = 0; i < 24; i++) {
        struct shape s = { i % 2 ? 1 : 11,
                           i % 2 ? 13 : 1,
                           6,
                           named(i % 4 < 2 ? "f64" : "f32"),
                           (enum way)(i / 4 % 3),
                           SPARSE,
                           (enum way)(i / 12 ? SPARSE : ROWS),
                           1,
                           i % 3 == 0 };

        compare(ctx, interp, &s, &r);
    }
    limber_destroy(ctx);
    limber_destroy(interp);
}

/* Functions have the interpreter's bits if C has contiguous columns, so that the engine
 * transposes the product. */
static void c_by_columns_has_the_interpreters_bits(void **state)
{
    static const int size[][3] = { { 5, 9, 7 }, { 70, 33, 300 }, { 130, 65, 40 } };
    const double alpha = 0.3, beta = -1.7;
    struct rng r = { 11 };

    (void)state;
    for (int i = 0; i < 6; i++) {
        limber_context *ctx = open_context(i % 2 ? "interp" : "llvm", "", "");
        const limber_contract any = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_NATIVE };
        int64_t m = size[i / 2][0], n = size[i / 2][1], k = size[i / 2][2];
        struct map_guarded ga, gb, gc, gd;
        limber_matrix a = make_matrix(&r, named("f64"), m, k, ROWS, 1, &ga);
        limber_matrix b = make_matrix(&r, named("f64"), k, n, COLUMNS, 2, &gb);
        limber_matrix c = make_matrix(&r, named("f64"), m, n, ROWS, 0, &gc);
        limber_matrix d = make_matrix(&r, named("f64"), m, n, COLUMNS, 0, &gd);

        for (int64_t j = 0; j < m * n; j++)
            ((double *)d.data)[j / n + j % n * m] = ((double *)c.data)[j];
        assert_int_equal(limber_gemm(ctx, &any, m, n, k, &alpha, a, b, &beta, output_of(c), NULL),
                         LIMBER_STATUS_OK);
        assert_int_equal(limber_gemm(ctx, &any, m, n, k, &alpha, a, b, &beta, output_of(d), NULL),
                         LIMBER_STATUS_OK);
        for (int64_t j = 0; j < m * n; j++)
            assert_memory_equal((double *)d.data + j / n + j % n * m, (double *)c.data + j, 8);
        unmap_guarded(ga);
        unmap_guarded(gb);
        unmap_guarded(gc);
        unmap_guarded(gd);
        limber_destroy(ctx);
    }
}

/* ---- other targets, short chains ------------------------------------------------------------- */

/* Described CPUs, and the feature that this one must have to run their code. */
static const struct {
    const char *needs, *text;
} targets[] = {
    { "avx2", "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 l2=262144 "
              "group=2 rate.f64=2e10 rate.f32=4e10 rate.exact=1e8" },
    { "avx512", "target llvm isa=avx512 features=avx2,fma,avx512 vector=512 registers=32 l1=32768 "
                "l2=1048576 group=2 rate.f64=4e10 rate.f32=8e10 rate.exact=1e8" },
};

/* Parses a plan of a native product of this shape and format, whose sums are chains of `chunk`
 * products. */
static void parse_plan(struct plan *p, const char *format, const struct fixed *f, int chunk)
{
    struct text t = { 0 };
    struct diag d = { 0 };

    limber_text_add(&t,
                    "plan gemm promise=native kbits=8 budget=1 scheme=native {\n"
                    "  %%a = arg index=0 : %s[%d,%d]\n  %%b = arg index=1 : %s[%d,%d]\n"
                    "  %%x = whole %%a : %s[%d,%d]x1\n  %%y = whole %%b : %s[%d,%d]x1\n"
                    "  %%s = products %%x %%y unit=%s chunk=%d : %s[%d,%d]x1 {\n"
                    "    row %%x.0 %%y.0 acc=0 w=2^0 share=all\n  }\n"
                    "  %%e = combine %%s reconstruct=sum : %s[%d,%d]\n"
                    "  %%d = epilogue %%e alpha=one beta=zero wrap=0 : %s[%d,%d]\n  ret %%d\n}\n",
                    format, (int)f->m, (int)f->k, format, (int)f->k, (int)f->n, format, (int)f->m,
                    (int)f->k, format, (int)f->k, (int)f->n, format, chunk, format, (int)f->m,
                    (int)f->n, format, (int)f->m, (int)f->n, format, (int)f->m, (int)f->n);
    limber_plan_init(p);
    if (!limber_plan_parse(p, t.s, &d) || !limber_plan_verify(p, &d))
        fail_msg("%s", d.text);
    limber_text_clear(&t);
}

/* Computes an element as docs/ir.md defines it: in chains of `chunk` products. */
static double element(const struct fixed *f, const double *a, const double *b, int64_t i, int64_t j,
                      int chunk, double *c0)
{
    double total = 0, chain = 0;

    for (int64_t p = 0; p < f->k; p++) {
        chain =
            __builtin_fma(a[i * f->a.row + p * f->a.col], b[p * f->b.row + j * f->b.col], chain);
        if ((p + 1) % chunk == 0 || p + 1 == f->k) {
            total += chain;
            chain = 0;
        }
    }
    return f->add ? total + *c0 : total;
}

/* Compiles a function for a target, runs it on this CPU and compares it with plain loops.  chunk:
 * number of products in a chain. */
static void check_on_target(const struct target *t, const struct fixed *f, int chunk, struct rng *r)
{
    static double a[64 * 64], b[64 * 64], c[64 * 64], d[64 * 64];
    const struct functions *fixed = limber_backend_llvm.cpu->fixed;
    struct function *function;
    struct blob blob = { 0 };
    struct diag diag = { 0 };
    struct plan p;
    void *at;
    limber_kernel call;

    fill(r, DATA_unit, named("f64"), a, COUNT(a));
    fill(r, DATA_unit, named("f64"), b, COUNT(b));
    fill(r, DATA_unit, named("f64"), c, COUNT(c));
    memcpy(d, c, sizeof d);
    parse_plan(&p, "f64", f, chunk);
    if (!fixed->compile(&p, t, f, NULL, &blob, &diag) ||
        !fixed->load(blob.data, blob.size, &function, &at, &diag))
        fail_msg("%s", diag.text);
    memcpy(&call, &at, sizeof call);
    call(a, b, c);
    for (int64_t i = 0; i < f->m; i++)
        for (int64_t j = 0; j < f->n; j++) {
            double *x = &d[i * f->c.row + j * f->c.col];

            *x = element(f, a, b, i, j, chunk, x);
        }
    if (memcmp(c, d, sizeof c))
        fail_msg("%s m=%d n=%d k=%d chunk=%d: the bits differ", t->isa, (int)f->m, (int)f->n,
                 (int)f->k, chunk);
    fixed->unload(function);
    /* truncated functions must be refused */
    for (size_t size = 0; size < blob.size; size += 1 + size / 3) {
        memset(&diag, 0, sizeof diag);
        assert_false(fixed->load(blob.data, size, &function, &at, &diag));
        assert_null(function);
    }
    free(blob.data);
    limber_plan_clear(&p);
}

/* Compiled functions sum chains of the given length, on every instruction set that this CPU has. */
static void chains_on_every_target(void **state)
{
    static const int chunks[] = { 256, 32, 7 };
    struct target here;
    struct diag d = { 0 };
    struct rng r = { 10 };

    (void)state;
    need_compiler();
    assert_true(limber_backend_llvm.probe(&here, &d));
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct target t;

        assert_true(limber_target_parse(&t, targets[i].text, &d));
        for (int j = 0; strstr(here.features, targets[i].needs) && j < 12; j++) {
            int m = 1 + rng_below(&r, 40), n = 1 + rng_below(&r, 40), k = 20 + rng_below(&r, 40);
            struct fixed f = { m, n, k, { 64, 1 }, { 64, 1 }, { 64, 1 }, j % 2 };

            if (j % 4 > 1)
                f.b = (struct strides){ 1, 64 };
            check_on_target(&t, &f, chunks[j % 3], &r);
        }
    }
}

/* ---- functions in a context: threads, cache, dump -------------------------------------------- */

/* A row-major matrix of doubles without an address. */
static limber_matrix rows_of(int64_t cols)
{
    return (limber_matrix){ NULL, named("f64"), cols, 1 };
}

/* Requests the function that multiplies dense n x n matrices of doubles. */
static limber_status request_function(limber_context *ctx, int n, limber_kernel *f)
{
    return limber_bind_shape(ctx, &native, n, n, n, rows_of(n), rows_of(n), output_of(rows_of(n)),
                             LIMBER_ACCUMULATE_NONE, f);
}

/* Checks a function by multiplying the identity matrix by another matrix. */
static void check_identity(limber_kernel f, int n)
{
    double a[32 * 32] = { 0 }, b[32 * 32], c[32 * 32];

    for (int i = 0; i < n * n; i++)
        b[i] = i;
    for (int i = 0; i < n; i++)
        a[i * n + i] = 1;
    f(a, b, c);
    assert_memory_equal(b, c, (size_t)(n * n) * sizeof *b);
}

enum { THREADS = 8, SHAPES = 6 };

/* A thread that requests all functions. */
struct worker {
    limber_context *ctx;
    limber_kernel got[SHAPES];
};

/* Thread: requests functions of all sizes and calls each. */
static void *ask_all(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < SHAPES; i++)
        if (request_function(w->ctx, 3 + i, &w->got[i]) == LIMBER_STATUS_OK)
            check_identity(w->got[i], 3 + i);
    return NULL;
}

/* Threads that request functions of the same shapes at once all get the same functions, which are
 * compiled once. */
static void threads_get_one_function(void **state)
{
    struct worker w[THREADS] = { { NULL, { NULL } } };
    pthread_t thread[THREADS];
    limber_context *ctx = compiling_context("", "");

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        w[i].ctx = ctx;
        assert_int_equal(pthread_create(&thread[i], NULL, ask_all, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < SHAPES; j++)
            assert_true(w[i].got[j] && w[i].got[j] == w[0].got[j]);
    for (int j = 1; j < SHAPES; j++)
        assert_true(w[0].got[j] != w[0].got[j - 1]);
    limber_destroy(ctx);
}

/* Callback for each entry of the cache: changes two bytes near the end of its file. */
static int damage(void *user, const limber_cache_entry *e)
{
    char path[4200];
    FILE *f;

    snprintf(path, sizeof path, "%s/%.2s/%s.kernel", (const char *)user, e->key, e->key + 2);
    assert_non_null(strstr(e->plan, "m=5 n=5 k=5"));
    f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -100, SEEK_END);
    fputc(0x5a, f);
    fputc(0xa5, f);
    fclose(f);
    return 0;
}

/* A function comes from the disk cache without compiling; another shape, which would be compiled,
 * is refused; a damaged entry is compiled again. */
static void functions_are_cached_on_disk(void **state)
{
    limber_context *ctx;
    limber_kernel f;
    char *dir;

    (void)state;
    need_compiler();
    dir = scratch();
    ctx = open_context("llvm", dir, "");
    assert_int_equal(request_function(ctx, 5, &f), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    setenv("LIMBER_NO_COMPILE", "1", 1);
    ctx = open_context("llvm", dir, "");
    assert_int_equal(request_function(ctx, 5, &f), LIMBER_STATUS_OK);
    check_identity(f, 5);
    assert_int_equal(request_function(ctx, 6, &f), LIMBER_STATUS_DEVICE);
    assert_null(f);
    limber_destroy(ctx);
    unsetenv("LIMBER_NO_COMPILE");
    ctx = open_context("llvm", dir, "");
    assert_int_equal(limber_cache_each(ctx, LIMBER_CACHE_LIST, damage, dir), LIMBER_STATUS_OK);
    assert_int_equal(request_function(ctx, 5, &f), LIMBER_STATUS_OK);
    check_identity(f, 5);
    limber_destroy(ctx);
    discard(dir);
}

/* Callback of nftw: counts (in `compiles`) those files of a dump that each compilation writes
 * once. */
static int count_file(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    (void)st;
    if (flag == FTW_F && (!strcmp(name, "kernel.ll") || !strcmp(name, "kernel.s") ||
                          !strcmp(name, "plan.txt") || !strcmp(name, "00-stated.lir")))
        compiles++;
    return 0;
}

/* A function for one shape writes four files to the dump folder: plans, IR and assembly. */
static void functions_are_dumped(void **state)
{
    limber_context *ctx;
    limber_kernel f;
    char *dir;

    (void)state;
    need_compiler();
    dir = scratch();
    ctx = open_context("llvm", "", dir);
    assert_int_equal(request_function(ctx, 5, &f), LIMBER_STATUS_OK);
    compiles = 0;
    nftw(dir, count_file, 16, FTW_PHYS);
    assert_int_equal(compiles, 4);
    limber_destroy(ctx);
    discard(dir);
}

/* More functions are in use than the cache of kernels may hold.  The cache must not drop any of
 * them. */
static void functions_in_use_are_not_dropped(void **state)
{
    limber_context *ctx = compiling_context("", "");
    limber_kernel first, again;

    (void)state;
    assert_int_equal(request_function(ctx, 2, &first), LIMBER_STATUS_OK);
    for (int64_t ld = 3; ld < 40; ld++)
        assert_int_equal(limber_bind_shape(ctx, &native, 2, 2, 2, rows_of(ld), rows_of(2),
                                           output_of(rows_of(2)), LIMBER_ACCUMULATE_NONE, &again),
                         LIMBER_STATUS_OK);
    check_identity(first, 2);
    assert_int_equal(request_function(ctx, 2, &again), LIMBER_STATUS_OK);
    assert_true(first == again);
    limber_destroy(ctx);
}

/* ---- requests that are refused --------------------------------------------------------------- */

/* A request for a function. */
struct request {
    limber_contract contract;
    int64_t m, n, k;
    limber_matrix a, b, c;
    int add;
};

/* Checks that a request is refused with this status and text, and that the function is set to
 * NULL. */
static void check_refused(limber_context *ctx, struct request r, limber_status want,
                          const char *text)
{
    limber_kernel f = (limber_kernel)(void (*)(void))abort;
    limber_status s = limber_bind_shape(ctx, &r.contract, r.m, r.n, r.k, r.a, r.b, output_of(r.c),
                                        (limber_accumulate)r.add, &f);

    assert_refused(s, want, text);
    assert_true(f == NULL);
}

/* Each invalid or unsupported request for a function of one shape is refused with a text that names
 * the argument. */
static void errors_name_the_argument(void **state)
{
    limber_context *ctx = open_context("llvm", "", "");
    const struct request good = { native, 4, 4, 4, rows_of(4), rows_of(4), rows_of(4), 0 };
    struct request r;
    limber_kernel f;

    (void)state;
#define TRY(change, status, text) \
    r = good; \
    change; \
    check_refused(ctx, r, LIMBER_STATUS_##status, text)
    TRY(r.m = 0, BAD_ARGUMENT, "bind_shape: m = 0");
    TRY(r.n = -1, BAD_ARGUMENT, "n = -1");
    TRY(r.k = 257, NO_SCHEME, "k = 257");
    TRY(r.add = 2, BAD_ARGUMENT, "accumulate = 2");
    TRY(r.a.row_stride = -1, BAD_ARGUMENT, "a.row_stride = -1");
    TRY(r.b.format = named("f32"), NO_SCHEME, "b: format f32");
    TRY(r.c.format = named("f32"), NO_SCHEME, "a: format f64");
    TRY(r.a.format = named("f16"), NO_SCHEME, "a: functions for one shape");
    TRY(r.c.format = named("i32"), NO_SCHEME, "c: functions for one shape");
    TRY(r.c.col_stride = 2, BAD_ARGUMENT, "c: row_stride");
    TRY((r.c.row_stride = 9, r.c.col_stride = 2), NO_SCHEME,
        "neither row_stride = 9 nor col_stride = 2");
    TRY(r.contract.promise = LIMBER_CONTRACT_CORRECT, NO_SCHEME, "contract.promise");
    TRY(r.contract.scheme = "ozaki2", NO_SCHEME, "contract.scheme");
    TRY(r.contract.scheme = "none", BAD_ARGUMENT, "contract.scheme");
#undef TRY
    check_refused(NULL, good, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    assert_int_equal(limber_bind_shape(ctx, NULL, 1, 1, 1, rows_of(1), rows_of(1),
                                       output_of(rows_of(1)), LIMBER_ACCUMULATE_NONE, &f),
                     /* no contract (NULL) stands for `native` */
                     compiler_here() ? LIMBER_STATUS_OK : LIMBER_STATUS_DEVICE);
    assert_int_equal(limber_bind_shape(ctx, &native, 1, 1, 1, rows_of(1), rows_of(1),
                                       output_of(rows_of(1)), LIMBER_ACCUMULATE_NONE, NULL),
                     LIMBER_STATUS_BAD_ARGUMENT);
    limber_destroy(ctx);
    ctx = open_context("interp", "", "");
    check_refused(ctx, good, LIMBER_STATUS_DEVICE, "backend interp");
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_the_interpreter),
        cmocka_unit_test(the_largest_shapes_have_the_interpreters_bits),
        cmocka_unit_test(functions_for_vectors_have_the_interpreters_bits),
        cmocka_unit_test(c_by_columns_has_the_interpreters_bits),
        cmocka_unit_test(chains_on_every_target),
        cmocka_unit_test(threads_get_one_function),
        cmocka_unit_test(functions_are_cached_on_disk),
        cmocka_unit_test(functions_are_dumped),
        cmocka_unit_test(functions_in_use_are_not_dropped),
        cmocka_unit_test(errors_name_the_argument),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
