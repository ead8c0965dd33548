/* SPDX-License-Identifier: BSD-3-Clause
 * What the launcher hands to kernels: read by both, hence C that is C++ as well. */
#ifndef LIMBER_CUDA_ARGS_H
#define LIMBER_CUDA_ARGS_H

#include "ir/spread.h"

#ifndef LIMBER_DEVICE_H
struct tensor_map {
    _Alignas(128) uint64_t opaque[16];
};
#endif

/* Where position p of a simulated unit's order lies: runs of `run` positions fill run_slots each,
 * so that blocks and groups begin at whole pieces. */
struct slots {
    int64_t k, run, run_slots;
    int32_t count;                  /* in all */
    int32_t group, part;            /* of a group, of a part of k; 0: there is one */
    int64_t part_length;            /* in positions */
};

/* An operand with the index map that its view points to. */
struct operand_args {
    struct view view;               /* patch and pairs are NULL: limber_operand_view sets them */
    struct patch patch;
    struct pair_map pairs;
    int32_t patched, paired;
    int32_t images;                 /* 0, or one after the other in each matrix, */
    int64_t image;                  /* so many bytes apart */
    struct spread each;             /* of the matrices of a batch, or of a convolution's groups */
};

PRIM struct view limber_operand_view(const struct operand_args *o)
{
    struct view v = o->view;

    v.patch = o->patched ? &o->patch : NULL;
    v.pairs = o->paired ? &o->pairs : NULL;
    return v;
}

/* The matrix that image g, counted through all matrices, is of; or matrix g. */
PRIM int64_t limber_matrix_of(const struct operand_args *o, int64_t g)
{
    return o->images ? g / o->images : g;
}

/* Of matrix or image g. */
PRIM struct view limber_operand_at(const struct operand_args *o, int64_t g)
{
    struct view v = limber_operand_view(o);
    int64_t matrix = limber_matrix_of(o, g);

    v.data = (const char *)limber_spread_at(v.data, &o->each, matrix) +
             (o->images ? (g - matrix * o->images) * o->image : 0);
    return v;
}

enum { SCALED_lines = 1, SCALED_all };      /* by a power of two for each line, for all of them */

/* One operand, or a part of its lines, becomes limbs: [limb][line][element], lines `pitch` bytes
 * apart; what is padded is zero.  Lines of a batch's matrices follow each other; of images, the
 * lines are pixels. */
struct pack_args {
    struct operand_args operand;
    int64_t line0, lines;           /* of one matrix; `padded` are written */
    int64_t length, padded;
    char *limbs;
    int64_t pitch, limb;            /* bytes from line to line, from limb to limb */
    struct tile_subset tile_subset;         /* where block is not NULL */
    const int32_t *emax;            /* of the part's lines, where they are scaled, or of all */
    int32_t blocks_p;               /* blocks that share lines, side by side along k */
    const int32_t *choice;          /* NULL, or which alternative is taken: this is `mine` */
    int32_t mine;
    struct slots slots;             /* of a simulated unit */
    float *scales;                  /* [line][block]; for instructions bytes, of padded lines */
    int64_t scale_blocks;
    uint32_t *wide;                 /* of each tile: needs wide lanes */
    int32_t blocks;                 /* of one matrix or image */
    int64_t matrices;               /* that the launch takes */
};

/* Both operands, or one: the first blocks are those of A. */
struct packs_args {
    struct pack_args side[2];
    int32_t first;
};

/* Where products and finished elements go; of a batch, those of its first product. */
struct result_args {
    int64_t m, n;                   /* of this part of C, which begins at (i0, j0) */
    int64_t i0, j0;
    struct output_view c;
    struct spread each_c;           /* of a batch */
    int64_t each_a, each_b;         /* lines from one product's exponents and flags to the next's;
                                       0: one matrix serves all */
    const int32_t *emax_a, *emax_b; /* of this part, where lines are scaled, or of all */
    const uint8_t *special_a, *special_b;   /* of this part, or NULL */
    uint64_t *overflow;
    char *totals;                   /* [accumulator][product][row][column] */
    int64_t total_pitch, total_size;        /* bytes of a row, of an accumulator */
    const int32_t *choice;          /* as above */
    int32_t mine;
    int32_t dry;                    /* only count what does not fit */
    int32_t wide;                   /* integer totals have 64 bits, else 32 */
    char alpha[16], beta[16];       /* in the result's format, integers in i64 */
};

/* How the lines of B see an image whose limbs are [limb][image][row][column][channel].  Limbs of a
 * matrix are an image of one row that is seen pixel by pixel. */
struct window {
    int64_t line0;                  /* of this part; the limbs begin with the image of line 0 */
    int32_t h, w, r, s, oh, ow;     /* as struct patch */
    int32_t stride[2], pad[2], dilate[2];
    int32_t pieces;                 /* of 16 bytes, of a pixel */
    uint32_t inverse_pieces, inverse_s;     /* as `limber_divide_by` takes them */
};

/* An operand whose limbs the multiply kernel makes.  Neighbouring elements of a line lie together,
 * or (across) neighbouring lines do; with `whole` their rows begin at multiples of 16 bytes. */
struct origin {
    struct operand_args operand;
    int32_t across, whole;
};

struct multiply_args {
    struct tensor_map map_a, map_b; /* of the limbs, for Hopper */
    const char *limbs_a, *limbs_b;
    int64_t pitch, limb_a, limb_b;
    int32_t tiles_m, tiles_n, tasks;        /* tiles of one product */
    int32_t products, each_a, each_b;       /* of a batch; lines of limbs from one to the next, 0:
                                               they share them */
    int64_t next_b;                 /* the same in bytes, where B is fetched through a window */
    int32_t cluster;                /* 1 or 2 blocks that take one task, by rows of tiles */
    int32_t steps;                  /* along k of one limb */
    uint32_t inverse_steps;         /* as `limber_divide_by` takes it */
    const uint8_t *shown_a, *shown_b;       /* [row or column of tiles][part of k]: something is
                                               shown there; NULL: everywhere */
    int32_t shown, shown_shift;     /* parts of k; the power of two of steps that one has */
    struct window window;           /* where B is fetched through one; else pitch is B's, too */
    struct result_args r;
    struct origin origin[2];        /* where limbs are made inside */
    int64_t k;
    struct slots slots;             /* of a simulated unit */
    uint64_t seed;
    uint64_t *counts;
    const uint32_t *wide_a, *wide_b;
    const char *scales_a, *scales_b;        /* of blocks, for instructions: a byte each */
    int64_t scale_pitch;            /* bytes of a line's */
};

/* Elements one by one, for what no unit can do. */
struct element_args {
    struct operand_args a, b;
    struct tile_subset subset_a, subset_b;    /* where block is not NULL */
    int64_t products, k;
    uint64_t seed;
    struct result_args r;
};

/* As struct terms_job of backends/backend.h. */
struct terms_args {
    const char *c;
    int64_t row, col, m, n, width, count;
    struct spread each;
    char *to, *factors;
    char value[128];
};

/* As struct sums_job: [count][outer][inner] sums of pairs. */
struct sums_args {
    const char *from;
    int64_t outer, inner, outer_step, inner_step, count;
    struct spread each;
    char *to;
    uint64_t *most;                 /* NULL, or what the largest magnitude is joined to */
    int32_t minus;
};

/* As struct pairs_job. */
struct pairs_args {
    const char *product[3];
    int64_t count, width;
    char *to;
    int32_t plus;
};

/* As struct numbers and struct epilogue of backends/backend.h; formats are in the source. */
struct steps_numbers {
    char *data;
    int64_t row, col, plane;
};

struct steps_args {
    int64_t planes, rows, cols;
    struct steps_numbers from, to, input[8];
};

/* As struct weigh_job. */
struct weigh_args {
    struct operand_args operand;
    int32_t across;
    int64_t lines, length;
    const double *weights;
    double *to;
};

struct scan_args {
    struct operand_args operand;
    int64_t lines, length;          /* of one matrix or image */
    int32_t *found;                 /* [field][line], of `all` lines */
    int64_t all;
    int32_t *tiles;                 /* NULL, or the same of tiles of LIMBER_BLOCK lines by ELEMENTS,
                                       [field][row of tiles][tile], of so many rows */
    int64_t tile_rows;
    int32_t blocks_p;               /* that share lines */
    int32_t blocks;                 /* of one matrix or image */
    int32_t *counters;              /* NULL: the start has set what is found, and blocks join it;
                                       else one for each group of lines, all 0 before and after, */
    int32_t *parts;                 /* what each block found: as found, blocks_p times, */
    int32_t *halves;                /* and of tiles: as tiles, but of LINES lines each */
    int32_t together;               /* times LINES lines: a group */
    int32_t *choice;                /* NULL, or what the start sets to 0, */
    int32_t *most;                  /* and to INT32_MIN */
};

/* Operands of one format, as struct packs_args: the first blocks are the first one's. */
struct scans_args {
    struct scan_args side[2];
    int32_t first;
};

/* What a scan found of pixels becomes what it would have found of the lines that see them. */
struct windows_args {
    struct patch patch;
    const int32_t *pixels;          /* [field][matrix][pixel], of `count` pixels of each */
    int64_t count;
    int32_t *found;                 /* [field][matrix][line] */
    int64_t lines, matrices;
};

/* Whether all lines stay within the bounds of a plan: else choice becomes 1. */
struct decide_args {
    const int32_t *found;
    int64_t lines;
    uint8_t *special;               /* of lines, to be written */
    int32_t *choice, *most;         /* most: the largest exponent of all lines */
    int32_t emin, emax, spread, width, sig;
    int32_t is_unsigned, may_be_special;
};

#endif
