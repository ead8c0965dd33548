/* SPDX-License-Identifier: BSD-3-Clause
 * What the compiler of kernels, the kernel's source and the launcher agree on.  The configuration
 * is constant inside one kernel: the optimiser folds it. */
#ifndef LIMBER_KERNEL_H
#define LIMBER_KERNEL_H

#include "backends/backend.h"
#include "ir/num/crt.h"

enum {
    KERNEL_VERSION = 18,
    KERNEL_ROWS = 640,
    KERNEL_ACCUMULATORS = 64,
    KERNEL_BLOCK = 16,      /* elements along k that are prepared at once; divides every kc */
    KERNEL_LANES = 16,      /* lines packed, and columns combined, at once */
    /* bits of the digits from which residues are computed; 12-bit residues: at most 11 */
    KERNEL_DIGIT = 12,
    KERNEL_DIGITS = 19,     /* most digits: 165 bits and a sign, in digits of 9 bits */
    KERNEL_COLUMN = 39,     /* bits of a column in CRT reconstruction */
    KERNEL_WIDE_COLUMN = 36,    /* bits of a column for 12-bit residues */
    KERNEL_WIDE_LEAST = 2048,   /* least modulus of 12-bit residues, so that quotients fit FP32 */
    KERNEL_COLUMNS = 10,
    KERNEL_EXACT = 12,      /* `accumulator`: bytes of a packed element, double and exponent */
    KERNEL_PAIRS = 8,       /* for pairs: bytes of a double scaled by its line's largest */
    KERNEL_EXACT_BLOCK = 64, /* `accumulator`: rows and columns of a block */
    /* `accumulator`: bytes of an element's pair, its magnitude and the pair of earlier parts */
    KERNEL_EXACT_PAIR = 48,
    KERNEL_NR = 256,        /* most columns of a register tile */
    KERNEL_FETCHES = 4, /* cache lines that a matrix unit's micro-kernel prefetches in each step */
    KERNEL_RANGES = 3       /* values kept for each line of a simulated unit's operand */
};

struct side {
    limber_format f;        /* format of the elements in memory */
    limber_format limb;     /* hilo: what a limb is rounded to */
    int32_t limb_kind, limbs;
    int32_t axis;
    int32_t top;            /* lines are scaled below 2^top; bits of scaled integers */
    int32_t shift, step, is_signed;
    int32_t pieces;         /* doubles that hold an element: 1 to 3; the limbs of `accumulator` */
    int32_t narrow;         /* scaled integers fit 31 bits, and an element one double */
    int32_t base, digits;   /* bits of a digit of scaled integers; number of digits */
    int32_t copied;         /* elements are packed unchanged */
    int32_t sums;           /* sums of packed values are needed, since the other side has offsets */
    /* simulated units: elements are rounded to the unit's operand format when they are loaded */
    int32_t rounds;
    int32_t lines;          /* lines in a panel */
    int32_t used[KERNEL_ACCUMULATORS];      /* limb l is needed */
    /* added when packing, to suit the signedness of the unit's operand */
    int32_t offset[KERNEL_ACCUMULATORS];
};

struct kernel_config {
    int32_t version, unit;
    struct side side[2];
    limber_format c, scalars;
    int32_t mr, nr, group, mb, nb;
    int32_t bytes;          /* bytes of a packed element */
    int32_t matrix;         /* i8: lines in a tile of A, each of 64 bytes; 0: A is packed like B */
    int32_t same_sign;      /* i8: both operands of the instruction are signed */
    int32_t wide;           /* residues are 16-bit words, not bytes */
    int64_t kc, chunk;
    int32_t rows, accumulators, reconstruct;
    int32_t bare; /* some accumulator has no row in the product table: its limbs are all zero */
    int32_t plain;          /* alpha is 1 and beta is 0 */
    int32_t has_alpha, has_beta, wrap;
    int32_t integral;       /* integer results that are not exact count as overflow */
    int32_t small;          /* weighted totals fit 62 bits and are added up in one */
    int32_t whole;          /* exact results are integers of at most 106 bits before scaling */
    int32_t words;          /* 64-bit words of an exact result */
    int32_t big_words, big_base;    /* words and lowest exponent of the long accumulator */
    int32_t uncertain_count, uncertain;          /* totals are off by less than 2^uncertain */
    int32_t norms; /* totals are off by 2^uncertain times the Euclidean norms of both lines */
    int32_t offsets;        /* some packed limb has an offset: sums are needed */
    int32_t alike;          /* both sides are packed by one function */
    int32_t direct;         /* the register tile has C's format and may be stored to C */
    limber_unit model;      /* unit model: the simulated unit; its seed is in the call */
    int32_t fused, counts;
    int32_t pairs;          /* the unit is AArch64's BFDOT */
    int32_t narrow;         /* FP32 lanes are exact if value ranges allow */
    int32_t safe;           /* double rounding through FP32 is innocuous */
    int32_t clamps;         /* rounding to the sums' formats may turn a nonzero sum into zero */
    int32_t frees;          /* tiles that may overflow can use FP32 lanes, too */
    int32_t terms;          /* most terms of a fused block that 32 bits can sum */
    int32_t tracks; /* tiles without a bound are computed as if they had one, then checked */
    double largest;         /* largest value of the sums' formats */
    int32_t safe_outer;
    double most_product, most_sum, quantum;
    double growth;          /* log2 of the growth of a sum by each rounding away from zero */
    struct kernel_row { int16_t a, b, acc; } row[KERNEL_ROWS];
    int32_t weight[KERNEL_ACCUMULATORS];
    struct limber_crt crt;
    int32_t columns;
    float power[LIMBER_MODULI][KERNEL_DIGITS];  /* [modulus][digit]: 2^(base i) mod p, symmetric */
    /* inverse and 2^16 inverse mod p, symmetric; 8-bit residues only */
    float fold[LIMBER_MODULI][2];
    float inverse[LIMBER_MODULI];   /* 1/p */
    /* Weight of a total, as a share of P and in columns.  Chains of 8-bit residues were already
     * multiplied by the inverse; 12-bit ones are by this weight. */
    double share[LIMBER_MODULI];
    double cofactor[LIMBER_MODULI][KERNEL_COLUMNS];
    double product[KERNEL_COLUMNS];
};

/* Bytes of scratch for the register tiles of `rows` rows, `each` bytes an element.  A matrix unit
 * keeps one column of tiles, unless chains are final. */
static inline int64_t kernel_tile_bytes(const struct kernel_config *c, int64_t rows, int64_t each)
{
    return rows * (c->matrix && c->rows > 1 ? c->nr : c->nb) * each;
}

struct kernel_call;
struct planes;
/* Implemented by planes.c: gathers a panel of nr columns from j on, elements [p0, p0 + len) along k
 * of a limb, in whole groups.  Columns beyond the last have any values; elements beyond len are
 * zero.  `room` has 64 bytes more. */
typedef void kernel_gather(const struct kernel_call *c, int64_t j, int limb, int64_t p0,
                           int64_t len, char *room);
/* planes.c: computes the sums of packed values, or the norms, of `columns` columns from j on, from
 * those of pixels. */
typedef void kernel_window_sums(const struct kernel_call *c, int64_t j, int64_t columns, int limb,
                                int32_t *sums);
/* Copies channels [from, to), in whole groups, of an image into its planes, rows [first, end).
 * Only a unit's offset is added. */
typedef void kernel_plane_copy(const struct kernel_call *c, int64_t from, int64_t to,
                               int64_t first, int64_t end);
typedef void kernel_window_norms(const struct kernel_call *c, int64_t j, int64_t columns,
                                 double *norms);

/* One operand of a call, packed: panel by panel, limb by limb, [k/group][lines][group]. */
struct packed {
    struct view view;
    int64_t line0, lines;   /* range of the operand's lines */
    const int32_t *scale;   /* [line]: limbs are of x 2^scale; NULL: 0 */
    const uint8_t *special; /* [line] flags, or NULL */
    char *data;
    /* bytes of a limb of a panel; bytes of a panel; number of panels */
    int64_t limb_bytes, panel_bytes, panels;
    int32_t *sums;          /* [limb][chunk][line]: sums of packed values; only with offsets */
    double *norm; /* [line]: Euclidean norms (planes: pixels squared); only if sums are uncertain */
    int64_t chunks, sum_lines;
    uint8_t *nonzero;       /* [panel][limb][block of k] flags */
    int32_t *range; /* units: value ranges of lines, one array after another */
    int64_t range_lines;
    int64_t blocks;         /* ceil(k/kc) */
    const struct planes *planes;        /* B only: packed planes; NULL: `data` are panels */
};

/* Facts that decide results with NaN or infinities.  For each line of an operand: the signs of its
 * elements and its infinities, as bit sets, and whether it has a NaN. */
struct classes {
    int64_t words;              /* 64-bit words of a line's bit set */
    uint64_t *positive, *negative, *infinite;
    uint8_t *nan;
};

/* Limbs of a convolution's image, packed once.  Each limb of a channel (or group of channels, whose
 * limbs form a word) is a row of `length` elements or words, [phase][row][column], with padding.  A
 * phase has the pixels that one element of the window sees as it moves by the stride, so that
 * neighbours in the result are neighbours here. (A flipped window has dilate < 0.)  Images are
 * below each other.  Panels are gathered from planes, at one offset for each element of the
 * window. */
struct planes {
    int64_t length, channels;
    int group;                  /* channels in a word, the last padded with zeros; 1: no words */
    int64_t rows, columns;      /* rows and columns of a phase */
    int64_t first;              /* first row that is packed */
    int64_t high;               /* rows of an image */
    int64_t pad[2];             /* padding before the image: rows, columns */
    int64_t phases;
    const int64_t (*phase)[2];  /* first row and column of each phase in the padded image */
    int nr;                     /* columns of a gathered panel */
    int64_t taps;
    const int64_t *tap;         /* [element of the window]: offset in pixels from the first */
    kernel_gather *gather;
    kernel_window_sums *sums;
    kernel_window_norms *norms;
    kernel_plane_copy *copy;
};

struct kernel_cold;
struct kernel_call {
    const struct kernel_config *config;
    const struct kernel_cold *cold;
    int64_t m, n, k;
    /* the operands' k; `k` may be a part of it, or include padding of channel groups */
    int64_t view_k;
    struct packed op[2];
    struct view whole[2];   /* the operands, from k = 0 on */
    struct output_view c;
    int64_t i0, j0;         /* origin of this part of C */
    const void *alpha, *beta;
    double alpha_f64, beta_f64;
    int64_t mb, nb;         /* rows and columns of a block, at most the configuration's */
    int64_t blocks_j;       /* blocks of nb columns */
    /* Packing: tasks of A and B; lines and elements along k of a task; tasks that share lines. */
    int64_t tasks[2], lines[2], depth[2], cuts[2];
    int32_t stores;         /* register tiles are stored to C */
    int32_t adds; /* C, or the scratch if not `stores`, holds the sum of earlier parts of k */
    int32_t more;           /* scratch keeps the sum for later parts: nothing is stored to C */
    /* with parts of k: the only row of the table to run, if rows share a float accumulator */
    int32_t row;
    int64_t overflow;
    int64_t *recomputed;      /* number of elements whose totals did not decide the rounding */
    uint64_t seed;
    struct unit_counts *counts;
    const struct classes *classes;      /* special values of A and B, if either has special lines */
    int64_t room;           /* planes: offset of the gathered panel in a worker's scratch */
    int64_t *recomputed_ns; /* nanoseconds that recomputing them took */
};

/* Functions of cold.c: what is rare, or slow in any case, is not compiled into kernels. */
struct kernel_cold {
    /* Reads elements of lines from `first` on and of k from p0 on, as rows of 16 lanes: any
     * strides, windows of images.  Elements that do not exist are zero. */
    void (*rows)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 char *room);
    /* Packs elements of 4 or 8 bytes that are contiguous along k: len of each lane, a multiple of
     * 16, at most 64. */
    void (*pack)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 int lanes, char *to, int64_t stride);
    /* Reads bytes that are contiguous along k, at most 64 of each lane, as 16 rows of 16 words of
     * four, padded with zeros. */
    void (*words_of_bytes)(const struct kernel_call *c, int side,
                           const int64_t first_live_p0_len[4], char *room);
    /* Converts elements of any format that FP64 contains. */
    void (*load)(limber_format f, const char *from, double *to, int n);
    /* Store element (i, j) of this part of C: as NaN or infinities decide; from n words times
     * 2^exp; from its totals (these return 1 if it does not fit an integer); from an FP64 sum. */
    int64_t (*special)(const struct kernel_call *c, int64_t i, int64_t j);
    int64_t (*words)(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                     int exp);
    int64_t (*total)(const struct kernel_call *c, int64_t i, int64_t j, const char *total,
                     int64_t stride);
    void (*sum)(const struct kernel_call *c, int64_t i, int64_t j, double x);
    /* Rounds a sum with an error below `off`; 0 if that does not decide the result. */
    int (*near)(const struct kernel_call *c, int64_t i, int64_t j, double high, double low,
                double off);
    /* Stores the exact dot product of the operands. */
    int64_t (*exact)(const struct kernel_call *c, int64_t i, int64_t j);
    /* The element at p, rounded to FP64. */
    double (*value)(limber_format f, const char *p);
    int64_t (*nanoseconds)(void);       /* reads a monotonic clock */
};
extern const struct kernel_cold limber_kernel_cold;

/* config.c: `accumulator` first sums pairs of doubles, which decide most FP64 and FP32 results. */
bool limber_sums_pairs(const struct kernel_config *c);

/* transpose.c: transposes `count` elements, of 4 or 8 bytes, of 16 lines.  Row p, `stride` bytes
 * after the one before, gets element p of the first `lanes` lines; with 12 lanes only 12 lines are
 * read.  One function for each instruction set. */
typedef void kernel_transpose(const char *const line[16], int size, int lanes, char *to,
                              int64_t stride, int64_t count);
kernel_transpose limber_transpose, limber_transpose_avx2, limber_transpose_avx512;
kernel_transpose *limber_transpose_here(void);  /* cold.c: the one for this CPU */

/* planes.c: one for each instruction set. */
kernel_gather limber_planes_gather, limber_planes_gather_avx2, limber_planes_gather_avx512;
kernel_window_sums limber_planes_sums, limber_planes_sums_avx2, limber_planes_sums_avx512;
kernel_window_norms limber_planes_norms, limber_planes_norms_avx2, limber_planes_norms_avx512;
kernel_plane_copy limber_planes_copy, limber_planes_copy_avx2, limber_planes_copy_avx512;
/* cold.c: sets the functions for this CPU. */
void limber_planes_code(struct planes *x);

/* special.c: bytes of the classes of `lines` lines; sets the pointers into `memory`; fills sixteen
 * lines a task. */
int64_t limber_classes_bytes(int64_t lines, int64_t k);
void limber_classes_set(struct classes *s, int64_t lines, int64_t k, char *memory);
void limber_classes_fill(const struct classes *s, const struct view *v, limber_format f,
                         int64_t lines, int64_t k, int64_t task);
/* The dot product of lines i and j as NaN and infinities decide it; 0 if they do not. */
double limber_classes_sum(const struct classes *a, int64_t i, const struct classes *b, int64_t j);

/* pairs.c: implements backend.small, by sums in pairs of doubles.  Returns how many elements were
 * summed again, exactly. */
typedef int64_t kernel_pairs(const struct call *c, limber_format a, limber_format b,
                             limber_format to, double allowed);
kernel_pairs limber_pairs_run, limber_pairs_run_avx2, limber_pairs_run_avx512;
/* dots.c: implements backend.small for products with m = 1 or n = 1 and any k >= 1. */
kernel_pairs limber_dots_run, limber_dots_run_avx2, limber_dots_run_avx512;

/* vectors.c: products of rows and a vector in order 1, of f64 and of f32. */
typedef void kernel_sums(const struct vector_sums *s);
kernel_sums limber_vectors_sums64, limber_vectors_sums64_avx2, limber_vectors_sums64_avx512;
kernel_sums limber_vectors_sums32, limber_vectors_sums32_avx2, limber_vectors_sums32_avx512;

/* direct.c: implements backend.direct: products that are computed without packing. */
typedef void kernel_direct(const struct fixed *f, const struct scaling *x, int size, const void *a,
                           const void *b, void *c);
kernel_direct limber_direct_run_avx2, limber_direct_run_avx512, limber_direct_run_neon;
/* prebuilt.c: 0, 1, 2, ...: offsets of elements that are contiguous along k */
extern const int64_t limber_direct_along[LIMBER_SMALL_K];

/* A strip of C, at most three vectors wide (two without AVX-512): chains of k products, stored or
 * added to C. */
struct direct_strip {
    int64_t m, k, columns;
    const void *a;              /* rows of A, a_row elements apart */
    const void *const *line;    /* or, if not NULL, the address of each row */
    const int64_t *at;          /* offsets of their elements along k */
    /* not 0: the rows of A lie side by side, and the elements of a row are this far apart */
    int64_t beside;
    const void *b;              /* dense rows of B, b_row elements apart */
    const int64_t *b_at;        /* or, if not NULL, the offset of each row */
    void *room;                 /* scratch to which B is copied first, or NULL */
    void *c;                    /* dense rows of C, c_row elements apart */
    void *const *c_line;        /* or, if not NULL, the address of column 0 of each row */
    int64_t column;             /* first column of the strip */
    int64_t a_row, b_row, c_row;        /* elements */
    const struct scaling *scaling;      /* NULL, or used instead of `add` */
    int size, add;
    int follows;                /* chains continue from the sums in C */
    int fetches; /* rows of A are contiguous along k and not in cache: prefetch them */
};
typedef void kernel_strip(const struct direct_strip *s);
kernel_strip limber_direct_strip_avx2, limber_direct_strip_avx512, limber_direct_strip_neon;

/* narrow.c: implements narrow_ops; functions.c: implements backend.function_ops. */
typedef int kernel_narrow_bytes(int size, const void *x, double unit, int low, int high,
                                uint8_t *to, int64_t n);
typedef void kernel_narrow_widen(const struct widened *w);
kernel_narrow_bytes limber_narrow_bytes_avx2, limber_narrow_bytes_avx512, limber_narrow_bytes_neon;
kernel_narrow_widen limber_narrow_widen_avx2, limber_narrow_widen_avx512, limber_narrow_widen_neon;

typedef void kernel_functions_run(int function, const struct fn_args *a, double *x, int64_t n,
                                  int single);
typedef void kernel_functions_look_up(const struct lookup *t, const void *src, void *dst,
                                      int64_t n);
kernel_functions_run limber_functions_run_avx2, limber_functions_run_avx512,
    limber_functions_run_neon;
kernel_functions_look_up limber_functions_look_up_avx2, limber_functions_look_up_avx512,
    limber_functions_look_up_neon,
    limber_functions_look_up_bytes; /* bytes to bytes, with VBMI */
typedef void kernel_functions_widen(limber_format f, const void *src, double *x, int64_t n);
typedef void kernel_functions_narrow(limber_format f, const double *x, void *dst, int64_t n);
kernel_functions_widen limber_functions_widen_avx2, limber_functions_widen_avx512,
    limber_functions_widen_neon;
kernel_functions_narrow limber_functions_narrow_avx2, limber_functions_narrow_avx512,
    limber_functions_narrow_neon;
/* steps.c: implement backend.function_ops, too; 0 if the step is not served. */
typedef int kernel_steps_run(const struct epilogue_step *s, int narrow, const void *x,
                             const void *y, void *to, int64_t n);
typedef int kernel_steps_store(const float *x, limber_format f, void *to, int64_t n);
kernel_steps_run limber_steps_run_avx2, limber_steps_run_avx512, limber_steps_run_neon;
kernel_steps_store limber_steps_store_avx2, limber_steps_store_avx512, limber_steps_store_neon;

/* depthwise.c: implements backend.depthwise. */
typedef bool kernel_depthwise_cut(const struct depthwise *d, int workers,
                                  struct depthwise_plan *plan);
typedef void kernel_depthwise_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                                    int64_t task, void *room);
typedef bool kernel_depthwise_wide(const struct depthwise *d, int64_t task, float *zeros,
                                   uint8_t *unsure);
kernel_depthwise_wide limber_depthwise_wide, limber_depthwise_wide_avx2,
    limber_depthwise_wide_avx512, limber_depthwise_wide_avx512vnni, limber_depthwise_wide_neon;
kernel_depthwise_cut limber_depthwise_cut, limber_depthwise_cut_avx2,
    limber_depthwise_cut_avx512, limber_depthwise_cut_avx512vnni, limber_depthwise_cut_neon;
kernel_depthwise_piece limber_depthwise_piece, limber_depthwise_piece_avx2,
    limber_depthwise_piece_avx512, limber_depthwise_piece_avx512vnni, limber_depthwise_piece_neon;

/* The two entry points of a kernel.  Many threads may run them at once. */
typedef void kernel_pack(struct kernel_call *c, int64_t task);
typedef void kernel_block(struct kernel_call *c, int64_t task, char *scratch);

/* exact.c: kernels of the scheme `accumulator`, which are part of the library. */
kernel_pack limber_exact_pack, limber_exact_pack_avx2, limber_exact_pack_avx512;
kernel_block limber_exact_block, limber_exact_block_avx2, limber_exact_block_avx512;

#endif
