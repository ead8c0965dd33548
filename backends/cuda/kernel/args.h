/* SPDX-License-Identifier: BSD-3-Clause
 * Kernel arguments, as the code that launches kernels and the kernels themselves see them.  This
 * file is both C and C++. */
#ifndef LIMBER_CUDA_ARGS_H
#define LIMBER_CUDA_ARGS_H

#include "ir/spread.h"

#ifndef LIMBER_DEVICE_H
struct tensor_map {
    _Alignas(128) uint64_t opaque[16];
};
#endif

/* How k is padded for a simulated unit.  Its kernel reads packed rows of A and columns of B in
 * pieces: one block of the unit, or four elements if the unit has no blocks.  Each run of `run`
 * elements, in the unit's order of k, is padded to run_slots slots, a multiple of a piece.  So the
 * unit's blocks, groups and sections of k all begin at a piece. */
struct slots {
    int64_t k, run, run_slots;
    int32_t count;                  /* number of slots of a row of A or column of B */
    /* slots of a group, and of a section of k that is summed separately; 0 if there is only one */
    int32_t group, part;
    int64_t part_length;            /* number of elements of a section of k, without padding */
};

/* An operand: its view, and a copy of the index map to which the view points on the host. */
struct operand_args {
    struct view view; /* limber_operand_view sets view.patch and view.pairs, which are NULL here */
    struct patch patch;
    struct pair_map pairs;
    /* patched: 1 if `patch` is used; paired: 1 if `pairs` is used */
    int32_t patched, paired;
    /* number of images that are packed per matrix; 0 if the matrix itself is packed */
    int32_t images;
    int64_t image;                  /* distance in bytes from one image to the next */
    /* distances or addresses of the matrices of a batch, or of the groups of a convolution */
    struct spread each;
};

/* Returns the operand's view, which points to the index map in *o. */
PRIM struct view limber_operand_view(const struct operand_args *o)
{
    struct view v = o->view;

    v.patch = o->patched ? &o->patch : NULL;
    v.pairs = o->paired ? &o->pairs : NULL;
    return v;
}

/* Returns the index of the matrix to which image g belongs, where images are counted over all
 * matrices.  If the operand has no images, g is the index of the matrix. */
PRIM int64_t limber_matrix_of(const struct operand_args *o, int64_t g)
{
    return o->images ? g / o->images : g;
}

/* Returns the view of image g or, if the operand has no images, of matrix g. */
PRIM struct view limber_operand_at(const struct operand_args *o, int64_t g)
{
    struct view v = limber_operand_view(o);
    int64_t matrix = limber_matrix_of(o, g);

    v.data = (const char *)limber_spread_at(v.data, &o->each, matrix) +
             (o->images ? (g - matrix * o->images) * o->image : 0);
    return v;
}

/* Kinds of scaling: one power-of-two scale per line (row of A or column of B), or one for all lines
 * of a matrix. */
enum { SCALED_lines = 1, SCALED_all };

/* Arguments for packing an operand, or some of its lines (rows of A or columns of B), to limbs
 * [limb][line][element].  Lines are `pitch` bytes apart and padded with zeros.  The lines of a
 * batch's matrices are packed one after another.  If images are packed, lines are their pixels. */
struct pack_args {
    struct operand_args operand;
    /* In each matrix, the lines [line0, line0 + lines) of `length` elements are packed, and zeros
     * are written for lines from `lines` to `padded`. */
    int64_t line0, lines;
    int64_t length, padded;
    char *limbs;
    int64_t pitch, limb; /* bytes from one line to the next, and from one limb to the next */
    /* tiles of the operand that the product uses; if block is NULL, it uses all */
    struct tile_subset tile_subset;
    const int32_t *emax;            /* exponents of the scales: one per line, or one per matrix */
    int32_t blocks_p; /* number of thread blocks along k that pack one group of lines */
    /* points to the number of the plan that the guard, which checks the data, chose (guard.c), or
     * is NULL if the call has no guard; unless NULL, this kernel does nothing if *choice differs
     * from `mine` */
    const int32_t *choice;
    int32_t mine;
    struct slots slots;  /* for simulated units: how k is padded */
    /* Scales [line][block].  A simulated unit has floats; block-scaled instructions have one byte
     * per scale, also for padded lines. */
    float *scales;
    int64_t scale_blocks;
    uint32_t *wide; /* [tile]: 1 if a simulated unit must compute the tile in FP64 */
    int32_t blocks;                 /* number of thread blocks that pack one matrix or image */
    int64_t matrices;               /* number of matrices or images that this launch packs */
};

/* Arguments for packing one or both operands.  Thread blocks with indices below `first` pack A, all
 * others pack B. */
struct packs_args {
    struct pack_args side[2];
    int32_t first;
};

/* Where results are stored.  In a batch, the fields describe the first product. */
struct result_args {
    int64_t m, n; /* size of the block of C that is computed; its first element is (i0, j0) of C */
    int64_t i0, j0;
    struct output_view c;
    struct spread each_c;           /* distances or addresses of the results of a batch */
    /* Distance between the exponents and flags of successive products, in lines; 0 if all products
     * share one matrix. */
    int64_t each_a, each_b;
    /* exponents of the scales: one for each row of A or column of B in this block, or one for
     * all */
    const int32_t *emax_a, *emax_b;
    /* [line]: 1 if the line has NaN or infinities; NULL if no line has any */
    const uint8_t *special_a, *special_b;
    /* number of results that do not fit their integer format */
    uint64_t *overflow;
    char *totals;                   /* totals of sums: [accumulator][product][row][column] */
    /* bytes of a row of totals, and of all totals of an accumulator */
    int64_t total_pitch, total_size;
    /* points to the number of the plan that the guard, which checks the data, chose (guard.c), or
     * is NULL if the call has no guard; unless NULL, the kernel stores nothing if *choice differs
     * from `mine` */
    const int32_t *choice;
    int32_t mine;
    int32_t dry; /* 1 to store nothing and only count results that do not fit their format */
    int32_t wide; /* 1 if integer totals have 64 bits, 0 if they have 32 bits */
    char alpha[16], beta[16];       /* in the result's format; int64_t for integers */
};

/* The window of a convolution, through which the multiply kernel reads columns of B from limbs of
 * the image: [limb][image][row][column][channel].  Limbs of a matrix are treated as an image with
 * one row of pixels, and a window of one pixel. */
struct window {
    /* first column of B that is computed, counted from the first image whose limbs are in memory */
    int64_t line0;
    /* sizes of the image, the window and the result, as in struct patch */
    int32_t h, w, r, s, oh, ow;
    int32_t stride[2], pad[2], dilate[2];
    int32_t pieces;                 /* number of 16-byte pieces in a pixel */
    uint32_t inverse_pieces, inverse_s;     /* constants with which limber_divide_by divides */
};

/* An operand whose elements the multiply kernel splits into limbs.  across: neighbouring lines are
 * contiguous in memory, else neighbouring elements along k are.  whole: 16-byte copies are
 * possible, since strides and addresses are multiples of 16 bytes. */
struct origin {
    struct operand_args operand;
    int32_t across, whole;
};

/* Arguments of the multiply kernel. */
struct multiply_args {
    /* tensor maps of the limbs, for devices with TMA */
    struct tensor_map map_a, map_b;
    const char *limbs_a, *limbs_b;
    /* bytes of a row of A or column of B in a limb; bytes of a limb of A, and of a limb of B */
    int64_t pitch, limb_a, limb_b;
    /* number of rows and columns of tiles in one product; number of tasks */
    int32_t tiles_m, tiles_n, tasks;
    /* Number of products in the batch.  each_a, each_b: distance between the limbs of successive
     * products, in rows of A or columns of B; 0 if all products share one matrix. */
    int32_t products, each_a, each_b;
    int64_t next_b; /* distance each_b in bytes, used if B is read through a window */
    /* thread blocks (1 or 2) in a cluster; they compute tiles in neighbouring rows of tiles of one
     * task */
    int32_t cluster;
    int32_t steps;                  /* number of pipeline steps along k of one limb */
    uint32_t inverse_steps;         /* constant with which limber_divide_by divides by `steps` */
    /* [row or column of tiles][section of k]: 1 if the product uses elements of the operand in
     * that section; NULL if it uses all */
    const uint8_t *shown_a, *shown_b;
    /* number of these sections of k; log2 of the number of steps in a section */
    int32_t shown, shown_shift;
    /* used if B is read through a window; otherwise `pitch` applies to B, too */
    struct window window;
    struct result_args r;
    struct origin origin[2];        /* used if this kernel splits elements into limbs */
    /* number of elements along k */
    int64_t k;
    struct slots slots;  /* for simulated units: how k is padded */
    /* simulated units: seed of stochastic rounding, event counters, and flags of tiles that need
     * FP64 */
    uint64_t seed;
    uint64_t *counts;
    const uint32_t *wide_a, *wide_b;
    const char *scales_a, *scales_b; /* scales for block-scaled instructions, one byte each */
    int64_t scale_pitch;            /* bytes of scales per row of A or column of B */
};

/* Arguments of the kernels that compute elements of C exactly, one by one. */
struct element_args {
    struct operand_args a, b;
    /* tiles of the operands that the product uses; if block is NULL, it uses all */
    struct tile_subset subset_a, subset_b;
    int64_t products, k;
    uint64_t seed;
    struct result_args r;
};

/* Arguments of the kernel that copies C and the scalars for a complex product: the fields of struct
 * terms_call (backends/backend.h). */
struct terms_args {
    const char *c;
    int64_t row, col, m, n, width, count;
    struct spread each;
    char *to, *factors;
    char value[128];
};

/* Arguments of the kernel that computes sums (minus: differences) of real and imaginary part of
 * [count][outer][inner] complex numbers: the fields of struct sums_call (backends/backend.h). */
struct sums_args {
    const char *from;
    int64_t outer, inner, outer_step, inner_step, count;
    struct spread each;
    char *to;
    /* NULL, or the address of a number that becomes the largest magnitude of a real or imaginary
     * part */
    uint64_t *most;
    int32_t minus;
};

/* Arguments of the kernel that combines three real products to a complex one: the fields of struct
 * pairs_call (backends/backend.h). */
struct pairs_args {
    const char *product[3];
    int64_t count, width;
    char *to;
    int32_t plus;
};

/* An array of numbers that an epilogue's kernel reads or writes: the fields of struct numbers
 * (backends/backend.h) except the format, which is a constant of the kernel's source. */
struct steps_numbers {
    char *data;
    int64_t row, col, plane;
};

/* Arguments of the kernel for an epilogue's steps: fields of struct epilogue
 * (backends/backend.h). */
struct steps_args {
    int64_t planes, rows, cols;
    struct steps_numbers from, to, input[8];
};

/* Arguments of the kernel for weighted sums of magnitudes: the fields of struct weigh_call
 * (backends/backend.h). */
struct weigh_args {
    struct operand_args operand;
    int32_t across;
    int64_t lines, length;
    const double *weights;
    double *to;
};

/* Arguments of the scan of one operand.  A line is a row of A, a column of B, or a pixel. */
struct scan_args {
    struct operand_args operand;
    int64_t lines, length; /* number of lines of one matrix or image, and elements of a line */
    int32_t *found;                 /* output: results [field][line] */
    /* number of lines over all matrices or images */
    int64_t all;
    /* output: results of tiles of LIMBER_BLOCK lines by ELEMENTS, [field][row of tiles][tile]; NULL
     * if they are not wanted */
    int32_t *tiles;
    int64_t tile_rows;
    int32_t blocks_p; /* number of thread blocks along k that scan one group of lines */
    int32_t blocks;                 /* number of thread blocks that scan one matrix or image */
    /* If NULL, `found` has been initialised and thread blocks update it.  Otherwise there is one
     * counter per group of lines, which is 0 before and after the scan, and the last thread block
     * of a group combines the results of all. */
    int32_t *counters;
    int32_t *parts; /* results of each of the blocks_p thread blocks: [block][field][line] */
    int32_t *halves; /* results per tile of LINES lines by ELEMENTS, with the layout of `tiles` */
    int32_t together;               /* number of blocks of LINES lines in a group of lines */
    int32_t *choice; /* unless NULL, the number at this address is set to 0 before the scan */
    int32_t *most; /* unless NULL, the number here is set to INT32_MIN before the scan */
};

/* Arguments of the scan of one or two operands of the same format.  Thread blocks with indices
 * below `first` scan the first operand. */
struct scans_args {
    struct scan_args side[2];
    int32_t first;
};

/* Arguments for combining results of pixels: a line's result is that of all pixels that its window
 * covers. */
struct windows_args {
    struct patch patch;
    const int32_t *pixels;          /* input: results of pixels, [field][matrix][pixel] */
    /* number of pixels in a matrix */
    int64_t count;
    int32_t *found;                 /* output: results of lines, [field][matrix][line] */
    int64_t lines, matrices;
};

/* Arguments for the guard's check of an operand's data: *choice becomes 1 unless all lines (rows of
 * A or columns of B) are within the bounds of a plan. */
struct decide_args {
    const int32_t *found;
    int64_t lines;
    uint8_t *special;               /* output [line]: 1 if the line has NaN or infinities */
    int32_t *choice, *most;         /* outputs: the choice; the largest exponent of all lines */
    /* the plan's bounds, as in struct bounds of backends/backend.h */
    int32_t emin, emax, spread, width, sig;
    int32_t is_unsigned, may_be_special;
};

#endif
