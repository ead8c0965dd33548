/* SPDX-License-Identifier: BSD-3-Clause
 * Structures and limits that the compiler of kernels, the kernels' source and the launching code
 * share.  In the source of one kernel the configuration is constant, so the optimiser folds it. */
#ifndef LIMBER_KERNEL_H
#define LIMBER_KERNEL_H

#include "backends/backend.h"
#include "ir/isa.h"
#include "ir/num/crt.h"

enum {
    /* must be changed together with this file's structures; blobs of another version are refused */
    KERNEL_VERSION = 19,
    /* largest number of rows of a product table */
    KERNEL_ROWS = 640,
    KERNEL_ACCUMULATORS = 64,
    /* elements along k that are packed at once; divides kc, unless one cache block has all of k */
    KERNEL_BLOCK = 16,
    /* bytes along k that are packed at once.  A task packs as many elements of a strip of lines,
     * of any format, before it begins the next strip. */
    KERNEL_BYTES = 64,
    /* number of lines that are packed at once, and of columns whose totals are combined at once */
    KERNEL_LANES = 16,
    /* bits of the digits from which 8-bit residues are computed; for 12-bit residues at most 11 */
    KERNEL_DIGIT = 12,
    /* largest number of digits of a scaled integer: 165 bits and a sign, in digits of 9 bits */
    KERNEL_DIGITS = 19,
    KERNEL_COLUMN = 39,     /* bits of a column in the reconstruction from residues (CRT) */
    KERNEL_WIDE_COLUMN = 36,    /* bits of a column in the reconstruction from 12-bit residues */
    /* smallest modulus of 12-bit residues; with larger ones quotients fit FP32 */
    KERNEL_WIDE_LEAST = 2048,
    /* largest number of columns (an integer's digits) in the reconstruction from residues */
    KERNEL_COLUMNS = 10,
    /* scheme `accumulator`: bytes of a packed element, a double and a 32-bit exponent */
    KERNEL_EXACT = 12,
    /* scheme `accumulator` with double-double sums: bytes of a packed element, a double that is
     * scaled by the largest of its line (row of A or column of B) */
    KERNEL_PAIRS = 8,
    KERNEL_EXACT_BLOCK = 64, /* `accumulator`: rows and columns of a block of C */
    /* scheme `accumulator`: bytes of scratch memory per element of C, six doubles: the
     * double-double sum of this part of k with its error bound, and those of the earlier parts */
    KERNEL_EXACT_PAIR = 48,
    KERNEL_NR = 256,        /* largest number of columns of a register tile */
    KERNEL_FETCHES = 4, /* number of cache lines that an AMX micro-kernel prefetches in each step */
    /* number of values that are kept for each line of a simulated unit's operand (its value
     * ranges) */
    KERNEL_RANGES = 3
};

/* How one operand (side 0: A, side 1: B) is packed. */
struct side {
    limber_format f;        /* format of the operand's elements */
    limber_format limb;     /* format of a limb, to which Hi/Lo limbs are rounded */
    /* limb_kind: enum limb_kind; limbs: number of limbs */
    int32_t limb_kind, limbs;
    /* which elements share a scale: AXIS_none, AXIS_row, AXIS_col or AXIS_all */
    int32_t axis;
    /* number of bits of scaled integers; for Hi/Lo limbs, log2 of the bound to which lines are
     * scaled */
    int32_t top;
    /* attributes of the node that makes the limbs, in the plan */
    int32_t shift, step, is_signed;
    int32_t balanced; /* 1 if slices are signed digits, made of elements rounded to nearest */
    /* number of doubles whose sum is an element, 1 to 3; for the scheme `accumulator` also the
     * number of limbs */
    int32_t pieces;
    int32_t fits_31_bits; /* 1 if scaled integers fit 31 bits and an element is one double */
    /* scaled integers are split into `digits` digits of `base` bits */
    int32_t base, digits;
    int32_t copied;         /* 1 if elements are packed unchanged */
    /* 1 if each line's packed values must be summed.  An offset of the other operand adds a
     * multiple of this sum to each element of C, which reconstruction subtracts. */
    int32_t sums;
    /* simulated units: 1 if elements are rounded to the unit's operand format when they are read */
    int32_t rounds;
    int32_t lines;          /* number of lines in a panel */
    int32_t used[KERNEL_ACCUMULATORS]; /* [limb]: 1 if a row of the product table needs the limb */
    /* [limb]: number that is added to each byte, so that it has the sign that the instruction
     * takes */
    int32_t offset[KERNEL_ACCUMULATORS];
};

/* The configuration of a kernel: what its code needs to know of the plan and the CPU. */
struct kernel_config {
    int32_t version, unit;
    struct side side[2];
    /* formats of C, and of alpha and beta */
    limber_format c, scalars;
    /* mr, nr: register tile; group: elements along k in a packed group; mb, nb: rows and columns of
     * a block of C */
    int32_t mr, nr, group, mb, nb;
    int32_t bytes;          /* number of bytes of a packed element */
    /* i8 on a matrix unit: number of lines in an AMX tile of A, each of 64 bytes; 0 if A is packed
     * like B */
    int32_t matrix;
    int32_t same_sign;      /* i8: 1 if both operands of the dot-product instruction are signed */
    int32_t wide;           /* 1 if residues are 16-bit words, 0 if they are bytes */
    /* numbers of elements along k: kc in a cache block, chunk in a chain of sums */
    int64_t kc, chunk;
    /* rows, accumulators: their numbers in the product table; reconstruct: RECONSTRUCT_sum, _shift
     * or _crt */
    int32_t rows, accumulators, reconstruct;
    /* 1 if some accumulator has no row in the product table, since its limbs are all zero */
    int32_t bare;
    int32_t plain;          /* 1 if alpha is 1 and beta is 0 */
    int32_t has_alpha, has_beta, wrap;
    int32_t integral;       /* 1 if results that are no integers count as overflow */
    /* 1 if all weighted totals of an element fit 62 bits, so one total holds their sum */
    int32_t small;
    int32_t whole; /* 1 if C holds integers and exact results have at most 106 bits */
    int32_t words;          /* number of 64-bit words of an exact result */
    /* the long accumulator: number of 64-bit words, and exponent of its lowest bit */
    int32_t big_words, big_base;
    /* if uncertain_count is set, the error of a total is less than 2^uncertain */
    int32_t uncertain_count, uncertain;
    /* 1 if the error of a total is at most 2^uncertain times the product of the Euclidean norms of
     * its row of A and its column of B */
    int32_t norms;
    int32_t offsets; /* 1 if some packed limb has an offset, so packed values must be summed */
    int32_t alike;          /* 1 if both operands are packed by the same function */
    int32_t direct; /* 1 if the register tile has C's format and may be stored to C directly */
    limber_unit model;      /* unit `model`: the simulated unit; each call passes the seed */
    /* fused: 1 if a block's products are added with one rounding; counts: enum counts, the events
     * that are counted */
    int32_t fused, counts;
    int32_t pairs;          /* 1 if the unit is AArch64's BFDOT */
    /* 1 if FP32 lanes give the simulated unit's bits for operands that keep the bounds
     * most_product, most_sum and quantum */
    int32_t f32_lanes;
    /* 1 if rounding a sum to FP32 first does not change its rounding to the unit's format */
    int32_t safe;
    int32_t clamps; /* 1 if rounding to the sums' formats may turn a nonzero sum into zero */
    int32_t frees; /* 1 if FP32 lanes also give the unit's bits in tiles that may overflow */
    int32_t terms;          /* largest number of terms of a fused block whose sum fits 32 bits */
    /* 1 if tiles whose bound cannot exclude overflow are computed in FP32 lanes, and then checked
     * for overflow */
    int32_t tracks;
    double largest;         /* largest finite value of the sums' formats */
    /* 1 if rounding an outer sum to FP32 first does not change its rounding to the unit's format */
    int32_t safe_outer;
    /* bounds for FP32 lanes: largest product, largest sum, and smallest positive product */
    double most_product, most_sum, quantum;
    double growth; /* log2 of the factor by which rounding away from zero can enlarge a sum */
    struct kernel_row { int16_t a, b, acc; } row[KERNEL_ROWS];
    /* [accumulator]: exponent of the accumulator's weight */
    int32_t weight[KERNEL_ACCUMULATORS];
    struct limber_crt crt;
    /* number of columns (digits of the reconstructed integers) in use, at most KERNEL_COLUMNS */
    int32_t columns;
    /* [modulus][digit]: 2^(base * digit) mod p, in [-p/2, p/2] */
    float power[LIMBER_MODULI][KERNEL_DIGITS];
    /* 8-bit residues: inverse mod p, and 2^16 * inverse mod p, both in [-p/2, p/2] */
    float fold[LIMBER_MODULI][2];
    float inverse[LIMBER_MODULI];   /* [modulus p]: 1/p */
    /* Weight of a total: `share` is the weight divided by P, the product of the moduli; `cofactor`
     * has the weight's columns (digits).  Chains of 8-bit residues have already been multiplied by
     * the inverse; for 12-bit residues the weight includes the inverse. */
    double share[LIMBER_MODULI];
    double cofactor[LIMBER_MODULI][KERNEL_COLUMNS];
    /* columns (digits) of P, the product of the moduli */
    double product[KERNEL_COLUMNS];
};

/* Returns the bytes of scratch memory for the register tiles of `rows` rows.  each: bytes per
 * element.  A matrix unit keeps only one column of tiles, unless the plan has only one product. */
static inline int64_t kernel_tile_bytes(const struct kernel_config *c, int64_t rows, int64_t each)
{
    return rows * (c->matrix && c->rows > 1 ? c->nr : c->nb) * each;
}

struct kernel_call;
struct planes;
/* Gathers a panel of nr columns from planes (planes.c): columns from j on, elements [p0, p0 + len)
 * along k, one limb, in full groups.  Columns past the last one may have any values; elements past
 * len are zero.  `room` must have 64 extra bytes. */
typedef void kernel_gather(const struct kernel_call *c, int64_t j, int limb, int64_t p0,
                           int64_t len, char *room);
/* Computes the sums of packed values of `columns` columns, from column j on, by adding the sums of
 * the pixels in their windows (planes.c). */
typedef void kernel_window_sums(const struct kernel_call *c, int64_t j, int64_t columns, int limb,
                                int32_t *sums);
/* Copies channels [from, to) of an image, in full groups, into rows [first, end) of its planes,
 * adding the unit's offset to elements. */
typedef void kernel_plane_copy(const struct kernel_call *c, int64_t from, int64_t to,
                               int64_t first, int64_t end);
/* Computes the Euclidean norms of `columns` columns, from column j on, from the squares of the
 * pixels in their windows (planes.c). */
typedef void kernel_window_norms(const struct kernel_call *c, int64_t j, int64_t columns,
                                 double *norms);

/* One operand of a call in packed form: panel by panel, limb by limb, [k/group][lines][group]. */
struct packed {
    struct view view;
    int64_t line0, lines;   /* the operand's first line in this part, and number of lines */
    /* [line]: limbs are those of the elements times 2^scale; NULL if there are no scales */
    const int32_t *scale;
    const uint8_t *special; /* [line]: 1 if the line has NaN or infinities; NULL if no line has */
    /* address of the panels or planes */
    char *data;
    /* limb_bytes: bytes of one limb of a panel; panel_bytes: bytes of a panel; panels: number of
     * panels */
    int64_t limb_bytes, panel_bytes, panels;
    int32_t *sums; /* [limb][chain][line]: sums of packed values; used only if there are offsets */
    /* [line]: Euclidean norms (for planes: [pixel], squared); used only if config.norms is set */
    double *norm;
    /* chunks: number of chains along k; sum_lines: number of lines in `sums` */
    int64_t chunks, sum_lines;
    uint8_t *nonzero;       /* [panel][limb][block of k]: 0 if all elements are zero */
    /* simulated units: value ranges of lines, KERNEL_RANGES arrays of range_lines elements */
    int32_t *range;
    int64_t range_lines;
    int64_t blocks;         /* number of blocks along k: ceil(k / kc) */
    /* layout of the planes in `data` (only B); NULL if `data` holds panels */
    const struct planes *planes;
};

/* The classes of elements, which determine results with NaN or infinities.  For each line of an
 * operand: bit sets of the elements that are positive, negative and infinite, and whether it has a
 * NaN. */
struct classes {
    int64_t words;              /* number of 64-bit words of a line's bit set */
    uint64_t *positive, *negative, *infinite;
    uint8_t *nan;
};

/* Planes: limbs of a convolution's image, each packed once.
 *
 * A plane has one limb of one channel as `length` elements, [phase][row][column], with padding.  If
 * channels are grouped, it has words of a group's channels instead.  A phase contains the pixels
 * that one element of the window reads as it moves by the stride, so pixels that are read for
 * neighbouring results are neighbours in a phase.  The rows of successive images follow one
 * another.
 *
 * Panels are gathered from planes, at one offset for each element of the window.  A flipped window
 * has dilate < 0. */
struct planes {
    int64_t length, channels;
    /* number of channels in a word, or 1 if channels are not grouped; zeros fill up the last
     * word */
    int group;
    int64_t rows, columns;      /* number of rows and columns of a phase */
    int64_t first;              /* first row of the images that is packed */
    int64_t high;               /* number of rows of an image */
    int64_t pad[2]; /* rows and columns of padding before the image's first row and column */
    int64_t phases;
    const int64_t (*phase)[2];  /* [phase]: first row and column of the phase in the padded image */
    int nr;                     /* number of columns of a gathered panel */
    /* number of elements of the window */
    int64_t taps;
    /* [element of the window]: the element's offset in a plane, in elements or words */
    const int64_t *tap;
    kernel_gather *gather;
    kernel_window_sums *sums;
    kernel_window_norms *norms;
    kernel_plane_copy *copy;
};

struct kernel_cold;
/* One part of C (and of k) of a launch, as kernels receive it. */
struct kernel_call {
    const struct kernel_config *config;
    const struct kernel_cold *cold;
    int64_t m, n, k;
    /* number of the operands' elements along k; the field `k` may be a part of it, or include the
     * zeros that fill up channel groups */
    int64_t view_k;
    struct packed op[2];
    struct view whole[2];   /* the operands with all of k, used if `k` is a part of it */
    struct output_view c;
    int64_t i0, j0;         /* row and column of C at which this part begins */
    const void *alpha, *beta;
    double alpha_f64, beta_f64;
    int64_t mb, nb;         /* rows and columns of a block, at most those of the configuration */
    int64_t blocks_j;       /* number of blocks in a row of blocks of C */
    /* for each operand: number of packing tasks, lines and elements along k of a task, and number
     * of tasks into which k is divided */
    int64_t tasks[2], lines[2], depth[2], cuts[2];
    int32_t stores;         /* 1 if register tiles are stored to C directly */
    /* 1 if there are sums of earlier parts of k, in C if `stores` is set, else in scratch memory */
    int32_t adds;
    /* 1 if later parts of k follow, so sums stay in scratch memory and C is not stored */
    int32_t more;
    /* the only row of the product table to compute, if several rows share a float accumulator and k
     * has parts */
    int32_t row;
    int64_t overflow;
    /* out: number of elements that were recomputed, since their totals left the rounding
     * uncertain */
    int64_t *recomputed;
    uint64_t seed;
    struct unit_counts *counts;
    /* classes of the elements of A and B; used if either has lines with NaN or infinities */
    const struct classes *classes;
    int64_t room;           /* planes: offset of the gathered panel in a worker's scratch memory */
    int64_t *recomputed_ns; /* out: nanoseconds spent on recomputing elements */
};

/* Functions of cold.c that kernels call.  Code that is rare, or slow in any case, is not compiled
 * into kernels. */
struct kernel_cold {
    /* Reads `len` elements along k, from p0 on, of line `first` and the following lines, of which
     * `live` exist, as rows of 16 lanes.  Supports any strides and windows of images.  Elements
     * that do not exist become zero. */
    void (*rows)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 char *room);
    /* Packs elements of 4 or 8 bytes that are contiguous along k: `len` elements of each of `lanes`
     * lines.  `len` is a multiple of 16, at most 64. */
    void (*pack)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 int lanes, char *to, int64_t stride);
    /* Reads bytes that are contiguous along k, at most 64 per line, as 16 rows of 16 words of four
     * bytes, padded with zeros. */
    void (*words_of_bytes)(const struct kernel_call *c, int side,
                           const int64_t first_live_p0_len[4], char *room);
    /* Converts n elements of a format whose numbers FP64 can hold to doubles. */
    void (*load)(limber_format f, const char *from, double *to, int n);
    /* Store element (i, j) of this part of C.  special: if NaN or infinities determine it.  words:
     * from n words times 2^exp.  total: from its totals.  sum: from an FP64 sum.  The first three
     * return 1 if the result does not fit C's integer format, else 0. */
    int64_t (*special)(const struct kernel_call *c, int64_t i, int64_t j);
    int64_t (*words)(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                     int exp);
    int64_t (*total)(const struct kernel_call *c, int64_t i, int64_t j, const char *total,
                     int64_t stride);
    void (*sum)(const struct kernel_call *c, int64_t i, int64_t j, double x);
    /* Rounds and stores high + low, whose error is below `off`.  Returns 0 if that leaves the
     * rounding uncertain. */
    int (*near)(const struct kernel_call *c, int64_t i, int64_t j, double high, double low,
                double off);
    /* Stores the exact dot product of row i and column j.  Returns 1 if it does not fit C's integer
     * format. */
    int64_t (*exact)(const struct kernel_call *c, int64_t i, int64_t j);
    /* Returns the element at p, rounded to FP64. */
    double (*value)(limber_format f, const char *p);
    int64_t (*nanoseconds)(void);       /* reads a monotonic clock */
    /* Rounds sixteen elements as the simulated unit loads operands. */
    void (*round)(const struct kernel_call *c, int side, double v[16]);
};
extern const struct kernel_cold limber_kernel_cold;

/* True if the scheme `accumulator` first computes double-double sums, with which most FP64 and FP32
 * results can be rounded (config.c). */
bool limber_sums_pairs(const struct kernel_config *c);

/* Transposes `count` elements, of 4 or 8 bytes, of 16 lines; one function per instruction set
 * (transpose.c).  Row p of `to`, `stride` bytes after the previous row, becomes element p of the
 * first `lanes` lines.  With 12 lanes, only 12 lines are read. */
typedef void kernel_transpose(const char *const line[16], int size, int lanes, char *to,
                              int64_t stride, int64_t count);
kernel_transpose limber_transpose;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_transpose, limber_transpose)
kernel_transpose *limber_transpose_here(void);  /* returns the function for this CPU (cold.c) */

/* Functions of planes.c, one per instruction set.  Their types are explained above. */
kernel_gather limber_planes_gather;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_gather, limber_planes_gather)
kernel_window_sums limber_planes_sums;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_window_sums, limber_planes_sums)
kernel_window_norms limber_planes_norms;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_window_norms, limber_planes_norms)
kernel_plane_copy limber_planes_copy;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_plane_copy, limber_planes_copy)
/* Sets the function pointers of *x for this CPU (cold.c). */
void limber_planes_code(struct planes *x);

/* Returns the bytes of memory that the classes of an operand's elements need (special.c). */
int64_t limber_classes_bytes(int64_t lines, int64_t k);
/* Divides `memory`, limber_classes_bytes bytes, into the arrays of *s. */
void limber_classes_set(struct classes *s, int64_t lines, int64_t k, char *memory);
/* Task: records for sixteen lines which elements are positive, negative, infinite or NaN. */
void limber_classes_fill(const struct classes *s, const struct view *v, limber_format f,
                         int64_t lines, int64_t k, int64_t task);
/* Returns the dot product of lines i and j if NaN or infinities determine it: NaN or an infinity.
 * Returns 0 if they do not. */
double limber_classes_sum(const struct classes *a, int64_t i, const struct classes *b, int64_t j);

/* Implements cpu_ops.small by double-double sums (pairs.c).  Returns how many elements were
 * recomputed exactly. */
typedef int64_t kernel_pairs(const struct call *c, limber_format a, limber_format b,
                             limber_format to, double allowed);
kernel_pairs limber_pairs_run;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_pairs, limber_pairs_run)
/* Implements cpu_ops.small for products with m = 1 or n = 1 and any k >= 1 (dots.c). */
kernel_pairs limber_dots_run;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_pairs, limber_dots_run)

/* Products of rows and a vector, of f64 and of f32 (vectors.c).  Sums have the order that limber.h
 * documents as "order 1". */
typedef void kernel_sums(const struct vector_sums *s);
kernel_sums limber_vectors_sums64;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_sums, limber_vectors_sums64)
kernel_sums limber_vectors_sums32;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_sums, limber_vectors_sums32)

/* Implements cpu_ops.direct, for products that are computed without packing (direct.c). */
typedef void kernel_direct(const struct fixed *f, const struct scaling *x, int size, const void *a,
                           const void *b, void *c);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_direct, limber_direct_run)
/* 0, 1, 2, ...: offsets of elements that are contiguous along k (prebuilt.c) */
extern const int64_t limber_direct_along[LIMBER_SMALL_K];

/* A strip of columns of C, at most three vectors wide (two without AVX-512).  Each element is a
 * chain of k products, which is stored or added to C. */
struct direct_strip {
    int64_t m, k, columns;
    const void *a;              /* rows of A, a_row elements apart; used if `line` is NULL */
    const void *const *line;    /* [row of A]: its address; NULL if rows have a constant distance */
    const int64_t *at;          /* offsets of a row's elements along k */
    /* if not 0, rows of A are interleaved in memory: neighbouring rows are contiguous, and the
     * elements of a row are this far apart */
    int64_t beside;
    const void *b; /* contiguous rows of B, b_row elements apart; used if b_at is NULL */
    const int64_t *b_at;        /* [row of B]: its offset; NULL if rows have a constant distance */
    void *room;                 /* scratch memory to which B is copied first, or NULL */
    void *c; /* contiguous rows of C, c_row elements apart; used if c_line is NULL */
    /* [row of C]: the address of its column 0; NULL if rows have a constant distance */
    void *const *c_line;
    int64_t column;             /* number of the strip's first column in C */
    int64_t a_row, b_row, c_row;        /* distances between rows, in elements */
    /* alpha and beta, used instead of `add`; NULL if there is no scaling */
    const struct scaling *scaling;
    int size, add;
    int follows;                /* 1 if the chains continue from the sums in C */
    int fetches; /* 1 if rows of A are contiguous along k and not cached, so they are prefetched */
};
typedef void kernel_strip(const struct direct_strip *s);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_strip, limber_direct_strip)

/* Implement int8_ops (int8.c) and cpu_ops.functions (functions.c). */
typedef int kernel_int8_from_floats(int size, const void *x, double unit, int low, int high,
                                uint8_t *to, int64_t n);
typedef void kernel_int8_to_floats(const struct widened *w);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_int8_from_floats, limber_int8_from_floats)
LIMBER_VECTORS(LIMBER_DECLARE, kernel_int8_to_floats, limber_int8_to_floats)

typedef void kernel_functions_run(int function, const struct fn_args *a, double *x, int64_t n,
                                  int single);
typedef void kernel_functions_look_up(const struct lookup *t, const void *src, void *dst,
                                      int64_t n);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_functions_run, limber_functions_run)
LIMBER_VECTORS(LIMBER_DECLARE, kernel_functions_look_up, limber_functions_look_up)
/* looks up bytes in a table of bytes, with VBMI instructions */
kernel_functions_look_up limber_functions_look_up_bytes;
typedef void kernel_functions_widen(limber_format f, const void *src, double *x, int64_t n);
typedef void kernel_functions_narrow(limber_format f, const double *x, void *dst, int64_t n);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_functions_widen, limber_functions_widen)
LIMBER_VECTORS(LIMBER_DECLARE, kernel_functions_narrow, limber_functions_narrow)
/* Implement `step` and `store` of cpu_ops.functions (steps.c).  They return 0 if the step or
 * format is not supported. */
typedef int kernel_steps_run(const struct epilogue_step *s, int is_f32, const void *x,
                             const void *y, void *to, int64_t n);
typedef int kernel_steps_store(const float *x, limber_format f, void *to, int64_t n);
LIMBER_VECTORS(LIMBER_DECLARE, kernel_steps_run, limber_steps_run)
LIMBER_VECTORS(LIMBER_DECLARE, kernel_steps_store, limber_steps_store)

/* Implement cpu_ops.depthwise (depthwise.c). */
typedef bool kernel_depthwise_cut(const struct depthwise *d, int workers,
                                  struct depthwise_plan *plan);
typedef void kernel_depthwise_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                                    int64_t task, void *room);
typedef bool kernel_depthwise_wide(const struct depthwise *d, int64_t task, float *zeros,
                                   uint8_t *unsure);
LIMBER_DEPTHWISE(LIMBER_DECLARE, kernel_depthwise_wide, limber_depthwise_wide)
LIMBER_DEPTHWISE(LIMBER_DECLARE, kernel_depthwise_cut, limber_depthwise_cut)
LIMBER_DEPTHWISE(LIMBER_DECLARE, kernel_depthwise_piece, limber_depthwise_piece)

/* The two entry points of a kernel, which many threads may call at the same time.  kernel_pack runs
 * one packing task, kernel_block computes one block of C. */
typedef void kernel_pack(struct kernel_call *c, int64_t task);
typedef void kernel_block(struct kernel_call *c, int64_t task, char *scratch);

/* Kernels of the scheme `accumulator`, which are part of the library (exact.c). */
kernel_pack limber_exact_pack;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_pack, limber_exact_pack)
kernel_block limber_exact_block;
LIMBER_FALLBACK(LIMBER_DECLARE, kernel_block, limber_exact_block)

#endif
