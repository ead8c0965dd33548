/* SPDX-License-Identifier: BSD-3-Clause
 * A backend makes bytes of a finished plan, and of such bytes something that runs.  The halves
 * are apart so that a kernel from disk needs no compiler: load() and launch() may not touch LLVM.
 * Every slot but `fixed` is filled; a backend that cannot serve this machine says so once, in probe(). */
#ifndef LIMBER_BACKEND_H
#define LIMBER_BACKEND_H

#include "ir/ir.h"

struct blob {               /* bytes that go to disk */
    unsigned char *data;
    size_t size;
};

/* Texts a backend may give for the dump: name is "kernel.ll", "kernel.s". */
struct dump {
    void (*file)(void *user, const char *name, const char *data, size_t size);
    void *user;
};

/* How element (line, p) of an operand is found; p runs along k.  A line is a row of A or a column
 * of B.  With patch set, the operand is an image seen through a convolution's window. */
struct view {
    const void *data;
    int64_t line, p;        /* strides in elements */
    const struct patch *patch;
};
struct patch {
    int64_t h, w;                       /* of the image */
    int64_t r, s;                       /* of the window; p = (c*r + y)*s + x */
    int64_t oh, ow;                     /* of the result; line = (image*oh + y)*ow + x */
    int64_t stride[2], pad[2], dilate[2];   /* pad: top, left */
    int64_t image, channel, row, col;   /* strides in elements */
};

/* Address of element p of a line, or NULL where a window sees padding (zero). */
static inline const char *limber_view_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct patch *w = v->patch;
    int64_t y, x, c, r, s;

    if (!w)
        return (const char *)v->data + (line * v->line + p * v->p) * size;
    c = p / (w->r * w->s);
    r = p / w->s % w->r;
    s = p % w->s;
    y = line / w->ow % w->oh * w->stride[0] + r * w->dilate[0] - w->pad[0];
    x = line % w->ow * w->stride[1] + s * w->dilate[1] - w->pad[1];
    if (y < 0 || y >= w->h || x < 0 || x >= w->w)
        return NULL;
    return (const char *)v->data + (line / (w->oh * w->ow) * w->image + c * w->channel +
                                    y * w->row + x * w->col) * size;
}

/* Element (i,j) of the result is at i*row + (j / inner)*outer + (j % inner)*col; inner >= 1. */
struct place {
    void *data;
    int64_t row, col, inner, outer;
};

static inline char *limber_place_at(const struct place *c, int64_t i, int64_t j, int size)
{
    if (j < c->inner)           /* spares matrices the divisions */
        return (char *)c->data + (i * c->row + j * c->col) * size;
    return (char *)c->data + (i * c->row + j / c->inner * c->outer + j % c->inner * c->col) * size;
}

/* Runs fn(arg, task, worker) for 0 <= task < tasks, each once, in any order and on any worker
 * with 0 <= worker < workers; returns when all are done. */
struct runner {
    int workers;
    void (*run)(void *self, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker),
                void *arg);
    void *self;
};

/* What happens inside a model: limber_statistics has the meaning.  Bare counts, in this order. */
struct unit_counts {
    int64_t mul_inexact, mul_underflow, mul_overflow;
    int64_t swamped, partly_swamped, sum_overflow;
    int64_t outer_sums, outer_swamped, outer_partly;
};

struct call {
    int64_t m, n, k;
    struct view a, b;
    struct place c;
    const void *alpha, *beta;           /* in the result's format (integers: i64); NULL: 1, 0 */
    const struct mask *mask_a, *mask_b; /* with lines, where the plan scales; else NULL */
    const struct runner *runner;
    const limber_queue *queue;          /* NULL: the backend's own; of GPUs only */
    size_t workspace_limit;             /* packed limbs held at once; chunked to fit */
    size_t workspace;                   /* out: bytes at the peak */
    int64_t overflow;                   /* out: elements that did not fit (wrap=0) */
    uint64_t seed;                      /* of the model's stochastic rounding */
    struct unit_counts counts;          /* out: where the plan counts */
};

/* A product whose shape is known when it is compiled: A is m x k, B is k x n, all at least 1.
 * Compared and hashed as bytes: no holes. */
struct strides { int64_t row, col; };   /* in elements */
struct fixed {
    int64_t m, n, k;
    struct strides a, b, c;             /* c: one of them is 1 where it matters */
    int64_t add;                        /* 0: C = A B; 1: C += A B */
};

/* Plan and shape -> bytes -> a C function, void (const void *a, const void *b, void *c), that is
 * the code itself.  As the slots of the same names below. */
struct function;
struct functions {
    bool (*compile)(const struct plan *, const struct target *, const struct fixed *,
                    const struct dump *, struct blob *, struct diag *);
    bool (*load)(const unsigned char *data, size_t size, struct function **, void **entry,
                 struct diag *);
    void (*unload)(struct function *);
};

struct kernel;
struct backend {
    const char *name;
    /* Describes this machine; false with a reason when the backend cannot run here. */
    bool (*probe)(struct target *, struct diag *);
    /* Plan -> bytes.  dump may be NULL. */
    bool (*compile)(const struct plan *, const struct target *, const struct dump *,
                    struct blob *, struct diag *);
    /* Bytes -> kernel.  Damaged bytes give false, never a crash. */
    bool (*load)(const unsigned char *data, size_t size, struct kernel **, struct diag *);
    bool (*launch)(struct kernel *, struct call *, struct diag *);
    void (*unload)(struct kernel *);
    const struct functions *fixed;      /* NULL: makes no functions */
};

/* list.c: the backends of this build, best first, NULL at the end. */
extern const struct backend *const limber_backends[];
extern const struct backend limber_backend_interp;

#endif
