/* SPDX-License-Identifier: BSD-3-Clause
 * Figure ladder: one matrix product in steps, from three loops to Limber.  All steps are one
 * template, multiply(), whose choices are constants of each instance.  CMake compiles this file
 * without the compiler's own vectorisation, so that each step changes one thing only.
 *
 *   source  OpenMLSys, "accelerator programming": tiles, fragments, access to memory, balance */
#define _GNU_SOURCE
#include "tools/bench/bench.h"
#include "tools/figures/figures.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Sizes of blocks: a block of B (DEPTH x WIDE) should fit the last-level cache, one of A (TALL x
 * DEPTH) the L2 cache.  A register tile of C has ROWS rows of VECTORS vectors, at most MOST_LANES
 * numbers.  AHEAD: by how many steps along k packed blocks are prefetched. */
enum { DEPTH = 256, TALL = 96, WIDE = 1024, ROWS = 4, VECTORS = 2, AHEAD = 8, MOST_LANES = 16 };

/* Which optimisations a step of the ladder has. */
struct choices {
    bool blocked;    /* blocks of the matrices stay in caches */
    bool packed;     /* blocks are copied, in the order in which they are read */
    bool tiled;      /* a tile of C stays in registers */
    int lanes;       /* columns of a tile */
    bool vectorised; /* a tile's row is VECTORS vectors */
    bool prefetched; /* the next lines of packed blocks are requested early */
};

/* One product of n x n doubles, row by row.  C must hold zeros. */
struct ladder_product {
    int64_t n;
    const double *a, *b;
    double *c;
};

typedef double vector2 __attribute__((vector_size(16), aligned(8)));
typedef double vector4 __attribute__((vector_size(32), aligned(8)));
typedef double vector8 __attribute__((vector_size(64), aligned(8)));

INLINE int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Adds A[rows][k] B[k][lanes] to a tile of C.  a and b are the addresses of the first elements.
 * a_row, a_k: strides of A along rows and along k.  b_k: stride of B along k. */
INLINE void tile_scalar(const struct choices o, const double *a, int64_t a_row, int64_t a_k,
                        const double *b, int64_t b_k, int64_t k, int64_t rows, int64_t lanes,
                        double *c, int64_t ldc)
{
    double sum[ROWS][MOST_LANES] = { { 0 } };

    if (rows == ROWS && lanes == o.lanes) { /* constant bounds: sums stay in registers */
        for (int64_t p = 0; p < k; p++)
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < o.lanes; j++)
                    sum[i][j] += a[i * a_row + p * a_k] * b[p * b_k + j];
    } else {
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < lanes; j++)
                    sum[i][j] += a[i * a_row + p * a_k] * b[p * b_k + j];
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < lanes; j++)
            c[i * ldc + j] += sum[i][j];
}

/* Defines tile_N, which does for a full tile what tile_scalar does, with vectors of N doubles.
 * Packed A has ROWS elements for each k, packed B the lanes of a tile. */
#define TILE(N) \
    INLINE void tile_##N(const struct choices o, const double *a, const double *b, int64_t k, \
                         double *c, int64_t ldc) \
    { \
        vector##N sum[ROWS][VECTORS] = { { { 0 } } }; \
\
        for (int64_t p = 0; p < k; p++, a += ROWS, b += VECTORS * N) { \
            if (o.prefetched) { \
                __builtin_prefetch(b + AHEAD * VECTORS * N); \
                __builtin_prefetch(a + AHEAD * ROWS); \
            } \
            for (int i = 0; i < ROWS; i++) \
                for (int v = 0; v < VECTORS; v++) \
                    sum[i][v] += a[i] * *(const vector##N *)(b + v * N); \
        } \
        for (int i = 0; i < ROWS; i++) \
            for (int v = 0; v < VECTORS; v++) \
                *(vector##N *)(c + i * ldc + v * N) += sum[i][v]; \
    }
TILE(2)
TILE(4)
TILE(8)
#undef TILE

/* ---- the template ---------------------------------------------------------------------------- */

/* Copies a block of `lines` x k elements, `group` lines side by side for each k.  A last group that
 * is short is padded with zeros. */
INLINE void pack(double *to, const double *from, int64_t line, int64_t step, int64_t lines,
                 int64_t k, int group)
{
    for (int64_t i = 0; i < lines; i += group)
        for (int64_t p = 0; p < k; p++)
            for (int g = 0; g < group; g++)
                *to++ = i + g < lines ? from[(i + g) * line + p * step] : 0;
}

/* Multiplies packed or unpacked blocks: C[rows][cols] += A[rows][k] B[k][cols]. */
INLINE void multiply_block(const struct choices o, const struct ladder_product *x, const double *a,
                           const double *b, int64_t k, int64_t rows, int64_t cols, double *c)
{
    int64_t a_row = o.packed ? 1 : x->n, a_k = o.packed ? ROWS : 1;

    if (!o.tiled && !o.packed) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                double sum = 0;

                for (int64_t p = 0; p < k; p++)
                    sum += a[i * x->n + p] * b[p * x->n + j];
                c[i * x->n + j] += sum;
            }
        return;
    }
    for (int64_t j = 0; j < cols; j += o.lanes)
        for (int64_t i = 0; i < rows; i += ROWS) {
            const double *left = o.packed ? a + i * k : a + i * x->n;
            const double *right = o.packed ? b + j * k : b + j;
            int64_t b_k = o.packed ? o.lanes : x->n;
            int64_t high = least(ROWS, rows - i), wide = least(o.lanes, cols - j);
            double *to = c + i * x->n + j;

            if (!o.tiled) /* element by element, from packed blocks */
                for (int64_t y = 0; y < high; y++)
                    for (int64_t z = 0; z < wide; z++) {
                        double sum = 0;

                        for (int64_t p = 0; p < k; p++)
                            sum += left[y * a_row + p * a_k] * right[p * b_k + z];
                        to[y * x->n + z] += sum;
                    }
            else if (o.vectorised && high == ROWS && wide == o.lanes && o.lanes == 2 * VECTORS)
                tile_2(o, left, right, k, to, x->n);
            else if (o.vectorised && high == ROWS && wide == o.lanes && o.lanes == 4 * VECTORS)
                tile_4(o, left, right, k, to, x->n);
            else if (o.vectorised && high == ROWS && wide == o.lanes && o.lanes == 8 * VECTORS)
                tile_8(o, left, right, k, to, x->n);
            else
                tile_scalar(o, left, a_row, a_k, right, b_k, k, high, wide, to, x->n);
        }
}

/* Computes rows from..to of C.  room: space for a packed block of A and one of B. */
INLINE void multiply(const struct choices o, const struct ladder_product *x, int64_t from,
                     int64_t to, double *room)
{
    int64_t n = x->n, depth = o.blocked ? DEPTH : n, tall = o.blocked ? TALL : n;
    int64_t wide = o.blocked ? WIDE : n;
    double *packed_a = room, *packed_b = room + TALL * DEPTH;

    for (int64_t j = 0; j < n; j += wide)
        for (int64_t p = 0; p < n; p += depth) {
            int64_t cols = least(wide, n - j), k = least(depth, n - p);
            const double *b = x->b + p * n + j;

            if (o.packed)
                pack(packed_b, b, 1, n, cols, k, o.lanes), b = packed_b;
            for (int64_t i = from; i < to; i += tall) {
                int64_t rows = least(tall, to - i);
                const double *a = x->a + i * n + p;

                if (o.packed)
                    pack(packed_a, a, n, 1, rows, k, ROWS), a = packed_a;
                multiply_block(o, x, a, b, k, rows, cols, x->c + i * n + j);
            }
        }
}

/* ---- the steps ------------------------------------------------------------------------------- */

typedef void step(const struct ladder_product *x, int64_t from, int64_t to, double *room);

/* Defines a step of the figure: a variant of the product, compiled from `multiply` with constant
 * choices. */
#define STEP(name, attribute, ...) \
    attribute static void name(const struct ladder_product *x, int64_t from, int64_t to, \
                               double *room) \
    { \
        multiply((struct choices){ __VA_ARGS__ }, x, from, to, room); \
    }
/* Defines the steps that use vectors of one instruction set: without and with prefetching. */
#define VECTOR_STEPS(name, attribute, n) \
    STEP(vectorised_##name, attribute, true, true, true, VECTORS *n, true, false) \
    STEP(prefetched_##name, attribute, true, true, true, VECTORS *n, true, true)

STEP(naive, , false, false, false, 4, false, false)
STEP(blocked, , true, false, false, 4, false, false)
STEP(packed, , true, true, false, 4, false, false)
STEP(tiled, , true, true, true, 4, false, false)
VECTOR_STEPS(128, , 2)
#if defined(__x86_64__)
VECTOR_STEPS(256, __attribute__((target("avx2,fma"))), 4)
VECTOR_STEPS(512, __attribute__((target("avx512f,fma"))), 8)
#endif

/* Sets the two steps (variants of the product) that use the longest vectors of this CPU.  Returns
 * the vectors' width in bits. */
static int choose_vectors(step **vectorised, step **prefetched)
{
    *vectorised = vectorised_128, *prefetched = prefetched_128;
#if defined(__x86_64__)
    if (cpu_has("avx512")) {
        *vectorised = vectorised_512, *prefetched = prefetched_512;
        return 512;
    }
    if (cpu_has("fma")) {
        *vectorised = vectorised_256, *prefetched = prefetched_256;
        return 256;
    }
#endif
    return 128;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Threads take blocks of rows, one after the other, until none is left. */
struct team {
    const struct ladder_product *x;
    step *run;
    atomic_long next;
    atomic_bool failed;
};

/* Thread: takes bands of TALL rows until none is left. */
static void *work(void *user)
{
    struct team *t = user;
    double *room = aligned_alloc(64, sizeof(double) * (TALL + WIDE + MOST_LANES) * DEPTH);

    for (int64_t i; room && (i = atomic_fetch_add(&t->next, TALL)) < t->x->n;)
        t->run(t->x, i, least(i + TALL, t->x->n), room);
    if (!room)
        t->failed = true;
    free(room);
    return NULL;
}

/* Computes C by `run`, one of the figure's variants of the product, on up to `threads` threads, the
 * caller among them.  Returns false if memory runs out. */
static bool run_step(step *run, const struct ladder_product *x, int threads)
{
    struct team t = { .x = x, .run = run };
    pthread_t id[64];
    int started = 0;

    memset(x->c, 0, sizeof(double) * (size_t)(x->n * x->n));
    if (threads == 1) { /* one call for all rows, so that B is packed once */
        double *room = aligned_alloc(64, sizeof(double) * (TALL + WIDE + MOST_LANES) * DEPTH);

        if (room)
            run(x, 0, x->n, room);
        free(room);
        return room;
    }
    while (started < threads - 1 && started < 64 && !pthread_create(&id[started], NULL, work, &t))
        started++;
    work(&t);
    for (int i = 0; i < started; i++)
        pthread_join(id[i], NULL);
    return !t.failed;
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* A call that is timed: a step of the figure (a variant of the product), or Limber's product if
 * `run` is NULL. */
struct timed_step {
    const struct figures *f;
    step *run;
    int threads;
    struct factors *x;
};

static bool run_timed(void *user)
{
    const struct timed_step *s = user;
    const struct ladder_product p = { s->x->n, s->x->a, s->x->b, s->x->c };
    const limber_contract native = { .size = sizeof native, .promise = LIMBER_CONTRACT_NATIVE };

    return s->run ? run_step(s->run, &p, s->threads) :
                    factors_multiply(s->f->ctx, &native, s->x, NULL) == LIMBER_STATUS_OK;
}

/* Measures a step of the figure (a variant of the product), and adds a row: its speed, and how many
 * times as fast it is as the previous step.  Compares C with the exact product. */
static bool measure_step(struct figures *f, const char *name, const char *what, step *run,
                         int threads, struct factors *x, double *before, struct table *data)
{
    struct timed_step timed = { f, run, threads, x };
    double best, gflops;

    figure_note(f, "ladder: %s", name);
    best = figure_time(f, run_timed, &timed);
    if (isnan(best))
        return complain("ladder: %s", run ? "out of memory" : limber_error_text()), false;
    if (!(factors_check(x).relative <= (double)x->k * 0x1p-53))
        return complain("ladder: %s gives a wrong product", name), false;
    gflops = 2e-9 * (double)(x->m * x->n * x->k) / best;
    table_add(data, "wwnnn", name, what, (double)threads, gflops,
              isnan(*before) ? NAN : gflops / *before);
    *before = gflops;
    return true;
}

/* Fills the figure: a row for each variant of the product. */
static bool fill_ladder(struct figures *f, struct table *data, struct table *brief)
{
    int64_t n = f->quick ? 200 : 1024;
    double before = NAN;
    step *vectorised, *prefetched;
    char vectors[64];
    struct factors x;
    uint64_t state = 6;
    bool ok = factors_alloc(&x, n, n, n, "f64", "f64");

    (void)brief;
    snprintf(vectors, sizeof vectors, "vectors of %d bits",
             choose_vectors(&vectorised, &prefetched));
    for (int64_t i = 0; ok && i < n * n; i++) {
        ((double *)x.a)[i] = random_unit(&state) - 0.5;
        ((double *)x.b)[i] = random_unit(&state) - 0.5;
    }
    const struct {
        const char *name, *what;
        step *run;
        int threads;
    } steps[] = {
        { "naive", "three loops", naive, 1 },
        { "blocked", "blocks stay in caches", blocked, 1 },
        { "packed", "blocks are copied in reading order", packed, 1 },
        { "register tile", "4 x 4 sums stay in registers", tiled, 1 },
        { "vectorised", vectors, vectorised, 1 },
        { "prefetched", "the next lines are requested early", prefetched, 1 },
        { "balanced", "threads take blocks of rows", prefetched, f->threads },
        { "Limber", "native for comparison", NULL, f->threads },
    };

    for (size_t i = 0; i < sizeof steps / sizeof *steps && ok; i++)
        if (strcmp(steps[i].name, "balanced") || f->threads > 1)
            ok = measure_step(f, steps[i].name, steps[i].what, steps[i].run, steps[i].threads, &x,
                              &before, data);
    factors_free(&x);
    return ok;
}

static const char ladder_script[] =
    "set boxwidth 0.6\n"
    "set ylabel 'GFLOPS (FP64)'\nset yrange [0:*]\nset offsets 0,0,graph 0.1,0\n"
    "set xtics rotate by -25\nunset key\n"
    "plot $data using 0:4:xtic(1) with boxes, $data using 0:4:(sprintf('%.1f', $4)) with labels "
    "offset 0,0.7";

const struct figure figure_ladder = { .name = "ladder",
                                      .about = "one product, from three loops to Limber, in steps",
                                      .heads = "step,what,threads,GFLOPS,times the step before",
                                      .fill = fill_ladder,
                                      .picture = { { "ladder", ladder_script, 420 } } };
