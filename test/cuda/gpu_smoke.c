/* SPDX-License-Identifier: BSD-3-Clause
 * Compares small products for each kind of GPU kernel with the interpreter, bit for bit.  The
 * report is meant to suffice for fixing a kernel without the device: it names the first wrong
 * stage, and maps wrong numbers by tile, warp and lane. */
#include "smoke/smoke.h"

#include <stdlib.h>
#include <string.h>

static const struct layer layers[] = {
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, DIRECTION_forward, true },
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, DIRECTION_data, true },
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, DIRECTION_filter, true },
    { 2, 24, 7, 9, 48, 3, 3, 1, 1, 3, DIRECTION_forward, true },
};

#define NATIVE LIMBER_CONTRACT_NATIVE
#define FAST LIMBER_CONTRACT_FAST
#define CORRECT LIMBER_CONTRACT_CORRECT
#define EXACT LIMBER_CONTRACT_EXACT
#define SIMULATE LIMBER_CONTRACT_SIMULATE
#define AHEAD .split = LIMBER_SPLIT_AHEAD
#define INSIDE .split = LIMBER_SPLIT_INSIDE
#define INT8 "integer", "i8", "i32", EXACT, DATA_ints
#define RESIDUES "ozaki2", "f64", "f64", CORRECT, DATA_unit
#define FP32_F "fp32-f", "f32", "f32", NATIVE, DATA_unit

enum { SPECS = 2 };

/* Kinds of checks, simplest first: if a kernel is faulty, the first kind that uses it fails. */
static const struct kind {
    const char *name, *about;
    /* runs the checks; NULL if the kind is a list of products, which are in `spec` */
    void (*run)(struct report *);
    struct spec spec[SPECS];
} kinds[] = {
    { "attributes", "what the device is; copies to its memory and back", smoke_attributes },
    { "scan", "exponents, bits and flags of lines", smoke_scans },
    { "pack", "limbs: residues, slices",
      .spec = { { RESIDUES, 8, 7, .shape = { { 33, 40, 70 } } },
                { "ozaki1-i8", "f64", "f64", CORRECT, DATA_unit, 8, 7,
                  .shape = { { 40, 33, 130 } } } } },
    { "int8-step", "one tile of INT8 products, one step along k",
      .spec = { { INT8, 11, 7, .shape = { { 128, 64, 128 } } } } },
    { "int8-steps", "one tile, more steps than stages",
      .spec = { { INT8, 11, 7, .shape = { { 128, 64, 1100 } } } } },
    { "int8-wide", "one large tile",
      .spec = { { INT8, 11, 0, .shape = { { 128, 256, 640 }, { 100, 200, 300 } } } } },
    { "int8-clusters", "rows of tiles in pairs of blocks, an odd number too",
      .spec = { { INT8, 11, 0, .shape = { { 256, 256, 640 }, { 300, 270, 150 } } } } },
    { "reconstruct", "FP64 from remainders",
      .spec = { { RESIDUES, 10, 0, .shape = { { 33, 40, 65 }, { 131, 260, 150 } } } } },
    { "fp32-f", "FP32 from FP16 limbs that are made ahead",
      .spec = { { FP32_F, 10, 0, AHEAD,
                  .shape = { { 16, 8, 16 }, { 128, 128, 64 }, { 131, 140, 300 } } } } },
    { "fp32-f-inside", "FP32 from FP16 limbs that the products make",
      .spec = { { FP32_F, 10, 0, INSIDE, .shape = { { 128, 128, 64 }, { 131, 140, 300 } } } } },
    { "fp16", "FP16 products, as they are and of residues",
      .spec = { { "tensor-f16", "f16", "f32", FAST, DATA_unit, 10, 0,
                  .shape = { { 16, 8, 16 }, { 128, 128, 64 }, { 131, 140, 300 } } },
                { "ozaki2-f16", "f64", "f64", CORRECT, DATA_unit, 8, 7,
                  .shape = { { 70, 80, 150 } } } } },
    { "bf16", "FP32 from BF16 limbs",
      .spec = { { "fp32-b", "f32", "f32", FAST, DATA_unit, 10, 0, AHEAD,
                  .shape = { { 16, 8, 16 }, { 131, 140, 200 } } } } },
    { "tf32", "FP32 from TF32 limbs",
      .spec = { { "fp32-t", "f32", "f32", FAST, DATA_unit, 10, 0, AHEAD,
                  .shape = { { 16, 8, 8 }, { 131, 140, 200 } } } } },
    { "e4m3", "FP8 products, as they are and of residues",
      .spec = { { "tensor-e4m3", "e4m3", "f32", FAST, DATA_unit, 10, 0,
                  .shape = { { 16, 8, 32 }, { 128, 128, 128 }, { 131, 140, 300 } } },
                { "ozaki2-e4m3", "f64", "f64", CORRECT, DATA_unit, 8, 7,
                  .shape = { { 70, 80, 150 } } } } },
    { "f64-mma", "FP64 by tensor cores: chains of fused multiply-adds",
      .spec = { { "native", "f64", "f64", NATIVE, DATA_unit, 10, 0,
                  .shape = { { 16, 8, 4 }, { 130, 70, 290 } } } } },
    { "f32-fma", "FP32 by fused multiply-adds",
      .spec = { { "native", "f32", "f32", NATIVE, DATA_unit, 10, 0, .scalars = true,
                  .shape = { { 37, 51, 300 }, { 130, 140, 90 } } } } },
    { "accumulator", "a long accumulator",
      .spec = { { "accumulator", "f64", "f64", CORRECT, DATA_range, 8, 0,
                  .shape = { { 20, 30, 50 } } } } },
    { "special", "NaN and infinities",
      .spec = { { "ozaki2", "f64", "f64", CORRECT, DATA_special, 8, 7,
                  .shape = { { 40, 70, 30 } } } } },
    { "conv-forward", "a convolution through its window",
      .spec = { { FP32_F, 10, 0, AHEAD, .layer = &layers[0] } } },
    { "conv-data", "the gradient of images",
      .spec = { { FP32_F, 10, 0, AHEAD, .layer = &layers[1] } } },
    { "conv-filters", "the gradient of filters",
      .spec = { { FP32_F, 10, 0, AHEAD, .layer = &layers[2] } } },
    { "batch", "three products in one launch",
      .spec = { { RESIDUES, 8, 7, .groups = 3, .shape = { { 140, 30, 50 } } },
                { FP32_F, 10, 0, AHEAD, .groups = 3, .shape = { { 140, 30, 50 } } } } },
    { "complex", "complex products by four real ones and by three", smoke_complex },
    { "groups", "a convolution's groups in one launch",
      .spec = { { FP32_F, 10, 0, AHEAD, .layer = &layers[3] } } },
    { "graph", "a product recorded and played", smoke_graph },
    { "unit", "a simulated unit",
      .spec = { { "simulate", "f32", "f32", SIMULATE, DATA_unit, 8, 0, .unit = "h100-fp16",
                  .shape = { { 70, 45, 90 } } } } },
    { "unit-scaled", "a simulated unit with scales of blocks",
      .spec = { { "simulate", "f32", "f32", SIMULATE, DATA_unit, 8, 0, .unit = "b200-mxe4m3",
                  .shape = { { 70, 45, 90 } } } } },
    { "block-scaled", "instructions for blocks with scales",
      .spec = { { "tensor-mx", "f32", "f32", SIMULATE, DATA_unit, 10, 0, .unit = "b200-mxe4m3",
                  .shape = { { 130, 70, 300 } } },
                { "tensor-mx", "f32", "f32", SIMULATE, DATA_unit, 10, 0, .unit = "b200-nvfp4",
                  .shape = { { 130, 70, 300 } } } } },
    { "steps", "steps behind a product", smoke_steps },
    { "apply", "functions of arrays", smoke_apply },
    { "dd", "double-double from remainders",
      .spec = { { "ozaki2", "dd", "dd", CORRECT, DATA_unit, 8, 7, .shape = { { 40, 35, 50 } } } } },
    { "binary128", "binary128 from remainders",
      .spec = { { "ozaki2", "f128", "f128", CORRECT, DATA_spread, 8, 7,
                  .shape = { { 20, 45, 50 } } } } },
    { "long-k", "sums beyond 31 bits, reduced on the way",
      .spec = { { "ozaki2", "f32", "f32", CORRECT, DATA_bytes, 18, 7,
                  .shape = { { 8, 9, 131200 } } } } },
    { "ragged", "edges of tiles: 1 to 130 rows and columns",
      .spec = { { INT8, 8, 0, .ragged = true, .shape = { { 130, 1, 1 } } },
                { FP32_F, 10, 0, AHEAD, .ragged = true, .shape = { { 130, 1, 1 } } } } },
    { "parts", "C in parts, in the smallest workspace",
      .spec = { { RESIDUES, 8, 7, .least = true, .shape = { { 200, 150, 60 } } } } },
};

/* Prints a kind's summary line.  Returns the exit status: 1 if a run was wrong or printing failed,
 * else 0. */
static int print_summary(const struct kind *k, const struct report *r)
{
    printf("{\"smoke\": \"%s\", \"passed\": %s, \"runs\": %d, \"wrong\": %d, \"kernels\": %d, "
           "\"compared\": %lld",
           k->name, r->wrong ? "false" : "true", r->runs, r->wrong, r->kernels,
           (long long)r->compared);
    if (r->wrong) {
        printf(", \"stage\": ");
        smoke_print_json_string(stdout, r->stage);
        printf(", \"run\": ");
        smoke_print_json_string(stdout, r->run);
    }
    if (r->lacks[0]) {
        printf(", \"lacks\": ");
        smoke_print_json_string(stdout, r->lacks);
    }
    printf("}\n");
    return fflush(stdout) || ferror(stdout) || r->wrong ? 1 : 0;
}

/* Runs all checks of a kind.  Returns the exit status; 77 if there is no device. */
static int run_checks(const struct kind *k)
{
    struct report r = { .details = stdout };
    struct diag d = { 0 };

    /* line-buffered: if a kernel hangs, earlier lines are not lost */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!smoke_open(&d)) {
        printf("{\"smoke\": \"%s\", \"passed\": false, \"missing\": ", k->name);
        smoke_print_json_string(stdout, d.text);
        printf("}\n");
        return 77;
    }
    fprintf(stderr, "%s\n", k->name);
    if (k->run)
        k->run(&r);
    for (int i = 0; !k->run && i < SPECS && k->spec[i].format; i++)
        smoke_product(&r, &k->spec[i]);
    return print_summary(k, &r);
}

static int print_help(void)
{
    printf("usage: gpu_smoke --list | gpu_smoke KIND\n"
           "Compares small products of one kind of kernel with the interpreter, bit for bit, and\n"
           "prints lines of JSON: where they differ, and at the end whether all are right.  After\n"
           "an error of the driver, CUDA_LAUNCH_BLOCKING=1 makes it name the kernel.\n"
           "Exit status: 0 right, 1 wrong, 77 no device, 2 a bad argument.\n\n"
           "  gpu_smoke int8-step    # one tile of INT8 products\n\nkinds:\n");
    for (size_t i = 0; i < COUNT(kinds); i++)
        printf("  %-14s %s\n", kinds[i].name, kinds[i].about);
    return 0;
}

/* Runs the kind of checks that the command line names, or prints the help or the list of kinds.
 * Exit status: that of the checks; 2 for a wrong command line. */
int main(int argc, char **argv)
{
    const char *asked = argc == 2 ? argv[1] : "";

    if (!strcmp(asked, "--help") || !strcmp(asked, "-h"))
        return print_help();
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!strcmp(asked, "--list"))
            puts(kinds[i].name);
        else if (!strcmp(asked, kinds[i].name))
            return run_checks(&kinds[i]);
    }
    if (!strcmp(asked, "--list"))
        return 0;
    if (argc != 2)
        fprintf(stderr, "gpu_smoke: one kind is needed; --list prints all\n");
    else
        fprintf(stderr, "gpu_smoke: there is no kind \"%s\"; --list prints all\n", asked);
    return 2;
}
