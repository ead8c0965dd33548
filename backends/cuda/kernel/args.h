/* SPDX-License-Identifier: BSD-3-Clause
 * Kernel arguments.  Launcher and kernels read this file, so it is both C and C++. */
#ifndef LIMBER_CUDA_ARGS_H
#define LIMBER_CUDA_ARGS_H

#include "ir/spread.h"

#ifndef LIMBER_DEVICE_H
struct tensor_map {
    _Alignas(128) uint64_t opaque[16];
};
#endif

/* How lines are padded along k for a simulated unit.  Its kernel reads packed lines in pieces: a
 * block's elements with their padding, or four elements of a unit without blocks.  So each run of
 * `run` elements, in the unit's order of k, is padded to run_slots slots, a multiple of a
 * piece, and the unit's blocks, groups and parts of k begin with a piece. */
struct slots {
    int64_t k, run, run_slots;
    int32_t count;                  /* slots of a line */
    int32_t group, part;            /* slots of a group, of a part of k; 0: there is only one */
    int64_t part_length;            /* elements of a part, before padding */
};

/* An operand and the index map to which its view points. */
struct operand_args {
    struct view view; /* view.patch and view.pairs are NULL; limber_operand_view sets them */
    struct patch patch;
    struct pair_map pairs;
    int32_t patched, paired;
    int32_t images;                 /* images in each matrix, or 0 */
    int64_t image;                  /* bytes from image to image */
    /* distances or addresses of a batch's matrices, or of a convolution's groups */
    struct spread each;
};

PRIM struct view limber_operand_view(const struct operand_args *o)
{
    struct view v = o->view;

    v.patch = o->patched ? &o->patch : NULL;
    v.pairs = o->paired ? &o->pairs : NULL;
    return v;
}

/* Matrix of image g, counted over all matrices; without images matrix g. */
PRIM int64_t limber_matrix_of(const struct operand_args *o, int64_t g)
{
    return o->images ? g / o->images : g;
}

/* View of matrix or image g. */
PRIM struct view limber_operand_at(const struct operand_args *o, int64_t g)
{
    struct view v = limber_operand_view(o);
    int64_t matrix = limber_matrix_of(o, g);

    v.data = (const char *)limber_spread_at(v.data, &o->each, matrix) +
             (o->images ? (g - matrix * o->images) * o->image : 0);
    return v;
}

enum { SCALED_lines = 1, SCALED_all }; /* power-of-two scales: one for each line, or one for all */

/* Packs an operand, or some of its lines, to limbs [limb][line][element], with lines `pitch` bytes
 * apart and zero padding.  Lines of a batch's matrices follow each other.  The lines of an image
 * are its pixels. */
struct pack_args {
    struct operand_args operand;
    int64_t line0, lines;           /* lines of one matrix to pack; `padded` lines are written */
    int64_t length, padded;
    char *limbs;
    int64_t pitch, limb;            /* bytes from line to line, and from limb to limb */
    struct tile_subset tile_subset;         /* used if block is not NULL */
    const int32_t *emax;            /* exponents of the part's lines, or one of all lines */
    int32_t blocks_p;               /* blocks along k that share lines */
    const int32_t *choice; /* NULL, or the guard's choice; this kernel runs if it is `mine` */
    int32_t mine;
    struct slots slots;             /* for a simulated unit */
    float *scales; /* [line][block]; block-scaled instructions: bytes, padded lines included */
    int64_t scale_blocks;
    uint32_t *wide;                 /* for each tile: it needs FP64 lanes */
    int32_t blocks;                 /* thread blocks for one matrix or image */
    int64_t matrices;               /* matrices or images that this launch packs */
};

/* Packs one or both operands; the first `first` blocks pack A. */
struct packs_args {
    struct pack_args side[2];
    int32_t first;
};

/* Destination of products and finished elements; of a batch, of its first product. */
struct result_args {
    int64_t m, n;                   /* size of this part of C, which begins at (i0, j0) */
    int64_t i0, j0;
    struct output_view c;
    struct spread each_c;           /* distances or addresses of a batch's results */
    /* lines from one product's exponents and flags to the next's; 0: all share one matrix */
    int64_t each_a, each_b;
    const int32_t *emax_a, *emax_b; /* exponents of this part's lines, or one of all lines */
    const uint8_t *special_a, *special_b;   /* flags of this part's lines, or NULL */
    uint64_t *overflow;
    char *totals;                   /* [accumulator][product][row][column] */
    int64_t total_pitch, total_size;        /* bytes of a row; bytes of an accumulator */
    const int32_t *choice;          /* the guard, as in pack_args */
    int32_t mine;
    int32_t dry;                    /* store nothing, only count what does not fit */
    int32_t wide;                   /* integer totals have 64 bits, not 32 */
    char alpha[16], beta[16];       /* in the result's format; integers as i64 */
};

/* How lines of B see an image whose limbs are [limb][image][row][column][channel].  Limbs of a
 * matrix are treated as an image of one row, which is seen pixel by pixel. */
struct window {
    int64_t line0; /* first line of this part; the limbs begin with the image of line 0 */
    int32_t h, w, r, s, oh, ow;     /* sizes, as in struct patch */
    int32_t stride[2], pad[2], dilate[2];
    int32_t pieces;                 /* 16-byte pieces of a pixel */
    uint32_t inverse_pieces, inverse_s;     /* for limber_divide_by */
};

/* An operand that the multiply kernel splits into limbs.  Elements of a line are contiguous or, if
 * `across`, neighbouring lines are. whole: rows begin at multiples of 16 bytes. */
struct origin {
    struct operand_args operand;
    int32_t across, whole;
};

struct multiply_args {
    struct tensor_map map_a, map_b; /* tensor maps of the limbs, for Hopper */
    const char *limbs_a, *limbs_b;
    int64_t pitch, limb_a, limb_b;
    int32_t tiles_m, tiles_n, tasks;        /* tiles_m and tiles_n: of one product */
    /* products of a batch; lines from one product's limbs to the next's, 0: they share them */
    int32_t products, each_a, each_b;
    int64_t next_b;                 /* each_b in bytes, if B is fetched through a window */
    int32_t cluster; /* blocks (1 or 2) that share a task, for neighbouring rows of tiles */
    int32_t steps;                  /* along k, of one limb */
    uint32_t inverse_steps;         /* for limber_divide_by */
    /* [row or column of tiles][part of k] flags: something is shown; NULL: all is */
    const uint8_t *shown_a, *shown_b;
    int32_t shown, shown_shift;     /* parts of k; log2 of the steps in a part */
    struct window window;           /* used if B is fetched through one; else pitch is B's, too */
    struct result_args r;
    struct origin origin[2];        /* used if limbs are made in this kernel */
    int64_t k;
    struct slots slots;             /* for a simulated unit */
    uint64_t seed;
    uint64_t *counts;
    const uint32_t *wide_a, *wide_b;
    const char *scales_a, *scales_b; /* block scales of block-scaled instructions, a byte each */
    int64_t scale_pitch;            /* bytes of a line's scales */
};

/* Computes elements one by one, for what no unit can do. */
struct element_args {
    struct operand_args a, b;
    struct tile_subset subset_a, subset_b;    /* used if block is not NULL */
    int64_t products, k;
    uint64_t seed;
    struct result_args r;
};

/* The fields of struct terms_job of backends/backend.h. */
struct terms_args {
    const char *c;
    int64_t row, col, m, n, width, count;
    struct spread each;
    char *to, *factors;
    char value[128];
};

/* The fields of struct sums_job: real + imaginary part (minus: real - imaginary) of
 * [count][outer][inner] complex elements. */
struct sums_args {
    const char *from;
    int64_t outer, inner, outer_step, inner_step, count;
    struct spread each;
    char *to;
    uint64_t *most;                 /* NULL, or updated with the largest magnitude */
    int32_t minus;
};

/* The fields of struct pairs_job of backends/backend.h. */
struct pairs_args {
    const char *product[3];
    int64_t count, width;
    char *to;
    int32_t plus;
};

/* The fields of struct numbers and struct epilogue of backends/backend.h; the source has the
 * formats. */
struct steps_numbers {
    char *data;
    int64_t row, col, plane;
};

/* Arguments of the kernel for an epilogue's steps. */
struct steps_args {
    int64_t planes, rows, cols;
    struct steps_numbers from, to, input[8];
};

/* The fields of struct weigh_job. */
struct weigh_args {
    struct operand_args operand;
    int32_t across;
    int64_t lines, length;
    const double *weights;
    double *to;
};

struct scan_args {
    struct operand_args operand;
    int64_t lines, length;          /* for one matrix or image */
    int32_t *found;                 /* findings [field][line], for `all` lines */
    int64_t all;
    /* NULL, or findings of tiles of LIMBER_BLOCK lines by ELEMENTS: [field][row of tiles][tile] */
    int32_t *tiles;
    int64_t tile_rows;
    int32_t blocks_p;               /* blocks along k that share lines */
    int32_t blocks;                 /* for one matrix or image */
    /* NULL: findings were initialised, and blocks update them.  Else a counter for each group of
     * lines, 0 before and after */
    int32_t *counters;
    int32_t *parts;                 /* findings of each block: like `found`, blocks_p times */
    int32_t *halves;                /* findings of tiles of LINES lines each, like `tiles` */
    int32_t together;               /* blocks of LINES lines in a group */
    int32_t *choice;                /* NULL, or set to 0 at the start */
    int32_t *most;                  /* NULL, or set to INT32_MIN at the start */
};

/* Scans one or two operands of one format; the first `first` blocks scan the first. */
struct scans_args {
    struct scan_args side[2];
    int32_t first;
};

/* Converts findings of pixels to those of the lines that see them. */
struct windows_args {
    struct patch patch;
    const int32_t *pixels;          /* [field][matrix][pixel], `count` pixels in each */
    int64_t count;
    int32_t *found;                 /* [field][matrix][line] */
    int64_t lines, matrices;
};

/* Sets choice to 1 unless all lines are within the bounds of a plan. */
struct decide_args {
    const int32_t *found;
    int64_t lines;
    uint8_t *special;               /* output: flags of lines */
    int32_t *choice, *most;         /* most: largest exponent of all lines */
    int32_t emin, emax, spread, width, sig;
    int32_t is_unsigned, may_be_special;
};

#endif
