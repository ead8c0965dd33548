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
/* Makes the first device's context current, once.  Where it returns false, d tells why there is
 * none. */
bool smoke_open(struct diag *d);
extern const struct cuda_driver *smoke_driver;
extern cu_stream smoke_stream;
/* Allocates device memory and copies data there; NULL data: fills it with 0xff bytes (NaN in
 * floating point). */
bool smoke_put(struct memory *m, const void *data, size_t bytes, struct diag *d);
/* Copies to the host after waiting for the stream, so that an error of a kernel is reported
 * here. */
bool smoke_get(void *to, const struct memory *m, struct diag *d);
void smoke_drop(struct memory *m);

/* ---- report.c -------------------------------------------------------------------------------- */

/* The kernel that computes an element, which determines the element's tile, warp and lane. */
enum site { SITE_none, SITE_pack, SITE_multiply, SITE_reconstruct, SITE_element };

enum { MOST_DIFFERENCES = 64 };

/* One wrong number, as bytes and as a value. */
struct difference {
    /* plane: index of a limb, modulus, accumulator or product of a batch */
    int64_t plane, row, col;
    char got[40], want[40]; /* hexadecimal, most significant byte first */
    double got_value, want_value;
    /* operand elements that got and want stand for, in runs of positions; else "" */
    char from[80], due[80];
};

/* One stage of a product, whose numbers are all compared. */
struct stage {
    const char *name;
    enum site site;
    int64_t rows, cols;
    int64_t compared, wrong;
    uint8_t *bad; /* [row][col], owned: nonzero where some plane is wrong */
    struct difference difference[MOST_DIFFERENCES]; /* the first wrong numbers */
};
bool smoke_stage(struct stage *s, const char *name, enum site site, int64_t rows, int64_t cols);
/* Compares one number in format f; any two NaN are equal. */
void smoke_compare(struct stage *s, int64_t plane, int64_t row, int64_t col, limber_format f,
                   const void *got, const void *want);

/* The result of one kind, whose summary line is the last one. */
struct report {
    FILE *details; /* JSON lines on the first wrong run, written as they are found */
    int runs, wrong, kernels;
    int64_t compared; /* numbers compared in all stages and runs */
    char stage[80], run[80]; /* names of the first wrong stage and run */
    char lacks[500]; /* the reason why the device cannot run a part of the kind */
};
/* Counts a run.  Returns true for the first wrong run, whose stage and name are printed and whose
 * details are wanted. */
bool smoke_ran(struct report *r, bool right, const char *stage, const char *run);
/* Counts a run that ended with an error.  Returns as smoke_ran. */
bool smoke_failed(struct report *r, const char *stage, const char *run, const char *error);
/* Prints text as a JSON string. */
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

/* A kernel kind and the products that test it. */
struct spec {
    const char *scheme, *format, *result;
    limber_promise promise;
    enum data data;
    int kbits, size; /* planned k < 2^kbits; size 7 plans small tiles, 0 large ones */
    limber_split split;
    bool scalars;
    const char *unit; /* of a simulated unit */
    int64_t groups; /* products of a batch, at least 2; 0: no batch */
    bool least; /* use the smallest workspace, so that C is computed in parts */
    const struct layer *layer; /* of a convolution; its shapes are derived from it */
    struct shape shape[3];
    bool ragged; /* run many shapes around the first one */
};
void smoke_product(struct report *r, const struct spec *s);

/* One run: its operands, C of both backends, and addresses. */
struct trial {
    const struct spec *spec;
    const struct plan *plan;
    struct kernel *kernel;
    const struct target *target;
    limber_format f, result;
    struct call call; /* with host addresses */
    struct mask *mask[2]; /* one per matrix */
    const char *space; /* host copy of the workspace after the call */
    size_t space_bytes;
    uint64_t space_at; /* its address on the device */
};
enum { STAGE_a, STAGE_b, STAGE_sums, STAGE_count };
/* Compares limbs and sums in the workspace with their expected values.  A stage that leaves nothing
 * there counts no comparisons. */
bool smoke_stages(struct stage s[STAGE_count], const struct trial *t, struct diag *d);
/* Compares a scan on the device with the host's: stage rows are lines, columns and planes an enum
 * scan_field. */
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
