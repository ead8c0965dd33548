/* SPDX-License-Identifier: BSD-3-Clause
 * The files of gpu_smoke share kinds of kernels, their runs, and reports that say which stage of a
 * product is the first that is wrong, and in which tiles, warps and lanes. */
#ifndef LIMBER_TEST_SMOKE_H
#define LIMBER_TEST_SMOKE_H

#include "backends/cuda/launch.h"
#include "ir/ir.h"
#include "support.h"

#include <stdio.h>

/* ---- device.c: memory of the first device ---------------------------------------------------- */

struct memory {
    cu_pointer at;
    size_t bytes;
};
/* Makes the first device's context current, once; false: d says why there is none. */
bool smoke_open(struct diag *d);
extern const struct cuda_driver *smoke_driver;
extern cu_stream smoke_stream;
/* Memory with a copy of data or, where that is NULL, with bytes of 0xff: floats that are NaN. */
bool smoke_put(struct memory *m, const void *data, size_t bytes, struct diag *d);
/* Waits for the stream first, so an error of a kernel is told here. */
bool smoke_get(void *to, const struct memory *m, struct diag *d);
void smoke_drop(struct memory *m);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Which kernel computes an element: it decides which tile, warp and lane that is. */
enum site { SITE_none, SITE_pack, SITE_multiply, SITE_reconstruct, SITE_element };

enum { MOST_DIFFERENCES = 64 };

/* Numbers as they lie in memory, and what a reader wants to know of them. */
struct difference {
    int64_t plane, row, col; /* plane: a limb, a modulus or an accumulator, a product of a batch */
    char got[40], want[40]; /* bytes, the last one in memory first */
    double got_value, want_value;
    char from[80], due[80]; /* the operand's element that each is, of runs of positions; else "" */
};

/* One stage of a product: all numbers are compared. */
struct stage {
    const char *name;
    enum site site;
    int64_t rows, cols;
    int64_t compared, wrong;
    uint8_t *bad; /* [row][col], owned: wrong in some plane */
    struct difference difference[MOST_DIFFERENCES]; /* the first ones */
};
bool smoke_stage(struct stage *s, const char *name, enum site site, int64_t rows, int64_t cols);
/* Compares one number of f; NaN are equal. */
void smoke_compare(struct stage *s, int64_t plane, int64_t row, int64_t col, limber_format f,
                   const void *got, const void *want);

/* A kind's result; details are printed behind the line that sums it up. */
struct report {
    FILE *details; /* of the first wrong run, lines of JSON */
    int runs, wrong, kernels;
    int64_t compared; /* numbers, of all stages and runs */
    char stage[80], run[80]; /* the first wrong ones */
    char lacks[500]; /* why the device cannot run a part of the kind */
};
/* Counts a run.  True where it is the first wrong one, whose details are wanted. */
bool smoke_ran(struct report *r, bool right, const char *stage, const char *run);
/* A run that ended with an error. */
void smoke_failed(struct report *r, const char *stage, const char *run, const char *error);
/* Text with quotes, as JSON has it. */
void smoke_text(FILE *out, const char *text);
/* Lines on a wrong stage: maps of tiles, warps, lanes and of the first wrong tile, then elements.
 * c: NULL, or the kernels' constants. */
void smoke_describe(FILE *out, const struct stage *s, const struct cuda_config *c);

/* ---- product.c, stages.c: one plan, run on both backends ------------------------------------- */

struct layer {
    int64_t n, c, h, w, o, r, s, stride, pad, groups;
    int direction;
    bool nhwc;
};

struct shape {
    int64_t m, n, k;
};

/* A kernel and the products that it multiplies. */
struct spec {
    const char *scheme, *format, *result;
    limber_promise promise;
    enum data data;
    int kbits, size; /* of the plan: k < 2^kbits; size 7: small tiles, 0: large ones */
    limber_split split;
    bool scalars;
    const char *unit; /* of a simulated one */
    int64_t groups; /* at least 2: a batch */
    bool least; /* the smallest workspace that serves: C in parts */
    const struct layer *layer; /* of a convolution, whose shapes follow from it */
    struct shape shape[3];
    bool ragged; /* many shapes around the first one */
};
void smoke_product(struct report *r, const struct spec *s);

/* A run: operands, C of both backends, and where things lie. */
struct trial {
    const struct spec *spec;
    const struct plan *plan;
    struct kernel *kernel;
    const struct target *target;
    limber_format f, result;
    struct call call; /* in host memory */
    struct mask *mask[2]; /* of each matrix */
    const char *space; /* the workspace, after the call */
    size_t space_bytes;
    uint64_t space_at; /* its address on the device */
};
enum { STAGE_a, STAGE_b, STAGE_sums, STAGE_count };
/* Limbs and sums in the workspace beside what they should be; stages that leave nothing there have
 * compared nothing. */
bool smoke_stages(struct stage s[STAGE_count], const struct trial *t, struct diag *d);
/* Compares a scan on the device with the host's, line by line: a row of the stage is a line, a
 * column and plane an enum scan_field. */
bool smoke_scan(struct report *r, struct stage *s, const struct view *host,
                const struct view *there, limber_format f, int64_t lines, int64_t length,
                struct diag *d);

/* ---- calls.c: calls of the library, whose kernels the engine chooses ------------------------- */

void smoke_attributes(struct report *r);
void smoke_scans(struct report *r);
void smoke_complex(struct report *r);
void smoke_graph(struct report *r);
void smoke_steps(struct report *r);
void smoke_apply(struct report *r);

#endif
