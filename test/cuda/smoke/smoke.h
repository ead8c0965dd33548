/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the files of gpu_smoke: kinds of kernels, their runs, and reports, which say which
 * stage of a product is the first that is wrong, and in which tiles, warps and lanes. */
#ifndef LIMBER_TEST_SMOKE_H
#define LIMBER_TEST_SMOKE_H

#include "backends/cuda/launch.h"
#include "ir/ir.h"
#include "support.h"

#include <stdio.h>

/* ---- device.c: memory of the first device ---------------------------------------------------- */

/* An allocation in device memory. */
struct memory {
    cu_pointer at;
    size_t bytes;
};
/* Makes the first device's context current, for the rest of the process.  Returns false if there is
 * none; d says why. */
bool smoke_open(struct diag *d);
extern const struct cuda_driver *smoke_driver;
extern cu_stream smoke_stream;
/* Allocates device memory and copies data there.  data == NULL: fills it with 0xff bytes, which are
 * NaN in floating point. */
bool smoke_upload(struct memory *m, const void *data, size_t bytes, struct diag *d);
/* Waits for the stream, so that an error of a kernel is reported here, and copies to the host. */
bool smoke_download(void *to, const struct memory *m, struct diag *d);
void smoke_free(struct memory *m);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Kernels that compute a stage; they determine which tile, warp and lane compute an element. */
enum site { SITE_none, SITE_pack, SITE_multiply, SITE_reconstruct, SITE_element };

enum { MOST_DIFFERENCES = 64 };

/* One wrong number, as bytes and as a value. */
struct difference {
    /* plane: index of the limb, modulus, accumulator, or product of a batch */
    int64_t plane, row, col;
    char got[40], want[40]; /* hexadecimal, most significant byte first */
    double got_value, want_value;
    /* if each element of an operand encodes its own position: the elements from which `got` and
     * `want` come, as text; else "" */
    char from[80], due[80];
};

/* One stage of a product: all its numbers are compared. */
struct stage {
    const char *name;
    enum site site;
    int64_t rows, cols;
    int64_t compared, wrong;
    uint8_t *bad; /* [row][col], owned: nonzero if the number is wrong in some plane */
    struct difference difference[MOST_DIFFERENCES]; /* the first wrong numbers */
};
bool smoke_stage(struct stage *s, const char *name, enum site site, int64_t rows, int64_t cols);
/* Compares one number in format f.  Any two NaN are equal. */
void smoke_compare(struct stage *s, int64_t plane, int64_t row, int64_t col, limber_format f,
                   const void *got, const void *want);

/* The result of one kind of checks.  Its summary line is printed last. */
struct report {
    FILE *details; /* where JSON lines about the first wrong run are written at once */
    int runs, wrong, kernels;
    int64_t compared; /* numbers that were compared, in all stages and runs */
    char stage[80], run[80]; /* names of the first wrong stage and run */
    char lacks[500]; /* why the device cannot run a part of the kind; "" if it can */
};
/* Counts a run.  Returns true for the first wrong run, whose details the caller then prints. */
bool smoke_count_run(struct report *r, bool right, const char *stage, const char *run);
/* Counts a run that ended with an error.  Returns true if it is the first wrong run. */
bool smoke_failed(struct report *r, const char *stage, const char *run, const char *error);
/* Prints text as a JSON string. */
void smoke_print_json_string(FILE *out, const char *text);
/* Writes JSON lines about a wrong stage: maps of tiles, warps, lanes and of the first wrong tile,
 * then elements.  c: configuration of the kernels, or NULL. */
void smoke_describe(FILE *out, const struct stage *s, const struct cuda_config *c);

/* ---- product.c, stages.c: one plan, run on both backends ------------------------------------- */

/* A convolution. */
struct layer {
    int64_t n, c, h, w, o, r, s, stride, pad, groups;
    int direction;
    bool nhwc;
};

/* The sizes of a product. */
struct shape {
    int64_t m, n, k;
};

/* A kind of kernel, and the products that test it. */
struct spec {
    const char *scheme, *format, *result;
    limber_promise promise;
    enum data data;
    int kbits, size; /* the plan supports k < 2^kbits; size: 7 plans small tiles, 0 large ones */
    limber_split split;
    bool scalars;
    const char *unit; /* text that describes the simulated unit */
    int64_t groups; /* number of products in a batch, at least 2; 0: no batch */
    bool least; /* use the smallest workspace, so that C is computed piece by piece */
    const struct layer *layer; /* a convolution, which determines the shapes; NULL: a product */
    struct shape shape[3];
    bool ragged; /* also run many shapes near the first one */
};
void smoke_product(struct report *r, const struct spec *s);

/* One run: its plan, formats, call and workspace. */
struct trial {
    const struct spec *spec;
    const struct plan *plan;
    struct kernel *kernel;
    const struct target *target;
    limber_format f, result;
    struct call call; /* has host addresses */
    struct mask *mask[2]; /* [operand][matrix] */
    const char *space; /* host copy of the workspace, after the call */
    size_t space_bytes;
    uint64_t space_at; /* address of the workspace on the device */
};
enum { STAGE_a, STAGE_b, STAGE_sums, STAGE_count };
/* Compares limbs and sums in the workspace with their expected values.  A stage that left
 * nothing in the workspace is not compared. */
bool smoke_stages(struct stage s[STAGE_count], const struct trial *t, struct diag *d);
/* Compares a scan on the device with the host's.  In the stage, rows are lines of the operand, and
 * columns are fields of enum scan_field. */
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
