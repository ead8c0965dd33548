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
    KERNEL_LANES = 16,      /* lines that are prepared, and columns that are combined, at once */
    KERNEL_DIGIT = 12,      /* bits of the digits that residues are taken of, of words at most 11 */
    KERNEL_DIGITS = 19,     /* of 165 bits and a sign, in digits of 9 bits */
    KERNEL_COLUMN = 39,     /* bits of a column of a Chinese remainder, */
    KERNEL_WIDE_COLUMN = 36,    /* and of one of residues in words, */
    KERNEL_WIDE_LEAST = 2048,   /* whose moduli are so large that quotients fit binary32 */
    KERNEL_COLUMNS = 10,
    KERNEL_EXACT = 12,      /* bytes of an element of `accumulator`: a double and its exponent, or */
    KERNEL_PAIRS = 8,       /* where pairs are summed a double scaled by its line's largest; */
    KERNEL_EXACT_BLOCK = 64, /* rows and columns of a block, */
    KERNEL_EXACT_PAIR = 48,  /* bytes of the pair of an element and its size, and of earlier ones */
    KERNEL_NR = 256,        /* most columns of a register tile */
    KERNEL_FETCHES = 4,     /* lines of cache that a matrix unit's tile fetches each step */
    KERNEL_RANGES = 3       /* numbers that are kept of each line of a simulated unit's operand */
};

struct side {
    limber_format f;        /* as stored */
    limber_format limb;     /* hilo: what a limb is rounded to */
    int32_t limb_kind, limbs;
    int32_t axis;
    int32_t top;            /* lines are scaled below 2^top; bits of scaled integers */
    int32_t shift, step, is_signed;
    int32_t pieces;         /* doubles that hold an element: 1 to 3; the limbs of `accumulator` */
    int32_t narrow;         /* scaled integers fit 31 bits, and an element one double */
    int32_t base, digits;   /* digits of scaled integers: bits, how many */
    int32_t copied;         /* elements are packed as they are */
    int32_t sums;           /* of packed values: the other side has offsets */
    int32_t rounds;         /* units: elements need rounding on load */
    int32_t lines;          /* of a panel */
    int32_t used[KERNEL_ACCUMULATORS];      /* limb l is needed */
    int32_t offset[KERNEL_ACCUMULATORS];    /* added when packed: the unit's operand signedness */
};

struct kernel_config {
    int32_t version, unit;
    struct side side[2];
    limber_format c, scalars;
    int32_t mr, nr, group, mb, nb;
    int32_t bytes;          /* of a packed element */
    int32_t matrix;         /* i8: A lies in tiles of so many lines by 64 bytes; 0: as B does */
    int32_t same_sign;      /* i8: both operands of the instruction are signed */
    int32_t wide;           /* residues are words of 16 bits, not bytes */
    int64_t kc, chunk;
    int32_t rows, accumulators, reconstruct;
    int32_t bare;           /* some accumulator has no row: the product of zeros */
    int32_t plain;          /* alpha is 1 and beta is 0 */
    int32_t has_alpha, has_beta, wrap;
    int32_t integral;       /* integer results that are not exact do not fit */
    int32_t small;          /* weighted totals fit 62 bits: they are kept as one */
    int32_t whole;          /* integer results of at most 106 bits before the scales go */
    int32_t words;          /* 64-bit words of an exact result */
    int32_t big_words, big_base;    /* of exact sums of products */
    int32_t uncertain_count, uncertain;          /* totals are off by less than 2^uncertain, */
    int32_t norms;          /* times the norms of both lines */
    int32_t offsets;        /* some packed limb has an offset: sums are needed */
    int32_t alike;          /* both sides are cut alike: one code serves them */
    int32_t direct;         /* the register tile is of C's format: it may be stored to C */
    limber_unit model;      /* unit model: what is simulated; its seed comes with the call */
    int32_t fused, counts;
    int32_t pairs;          /* it is AArch64's BFDOT */
    int32_t narrow;         /* binary32 lanes are exact where ranges allow */
    int32_t safe;           /* sums in binary32 to nearest are right after the second rounding */
    int32_t clamps;         /* sums may round to zero */
    int32_t frees;          /* tiles that may overflow can be narrow, too */
    int32_t terms;          /* of a fused block that 32 bits can sum */
    int32_t tracks; /* tiles without a bound are computed as if they had one, and looked at */
    double largest;         /* of the sums' formats */
    int32_t safe_outer;
    double most_product, most_sum, quantum;
    double growth;          /* log2 that rounding away from zero may add to a sum, each time */
    struct kernel_row { int16_t a, b, acc; } row[KERNEL_ROWS];
    int32_t weight[KERNEL_ACCUMULATORS];
    struct limber_crt crt;
    int32_t columns;
    float power[LIMBER_MODULI][KERNEL_DIGITS];  /* 2^(base i) mod p, symmetric */
    float fold[LIMBER_MODULI][2];   /* inverse and 2^16 inverse mod p, symmetric; bytes only */
    float inverse[LIMBER_MODULI];   /* 1/p */
    /* what a total counts, of P and in columns: its chains were multiplied by the inverse in
     * bytes, and are in words by what stands here */
    double share[LIMBER_MODULI];
    double cofactor[LIMBER_MODULI][KERNEL_COLUMNS];
    double product[KERNEL_COLUMNS];
};

/* Bytes of the sums of register tiles of so many rows in a block's scratch memory, `each` of one:
 * a matrix unit keeps one column of tiles, unless a chain is its element's total. */
static inline int64_t kernel_tile_bytes(const struct kernel_config *c, int64_t rows, int64_t each)
{
    return rows * (c->matrix && c->rows > 1 ? c->nr : c->nb) * each;
}

struct kernel_call;
struct planes;
/* planes.c: elements [p0, p0 + len) along k of a limb of the nr columns from j on, as a panel has
 * them, in whole groups; those behind the last column are any, those behind len are zero.  `room`
 * has 64 bytes more. */
typedef void kernel_gather(const struct kernel_call *c, int64_t j, int limb, int64_t p0,
                           int64_t len, char *room);
/* Sums of packed values, and norms, of `columns` columns from j on. */
typedef void kernel_window_sums(const struct kernel_call *c, int64_t j, int64_t columns, int limb,
                                int32_t *sums);
/* Channels [from, to), whole groups, of an image into its planes, of which rows [first, end), as
 * they are but for a unit's offset. */
typedef void kernel_plane_copy(const struct kernel_call *c, int64_t from, int64_t to,
                               int64_t first, int64_t end);
typedef void kernel_window_norms(const struct kernel_call *c, int64_t j, int64_t columns,
                                 double *norms);

/* One operand of a call, packed: panel by panel, limb by limb, [k/group][lines][group]. */
struct packed {
    struct view view;
    int64_t line0, lines;   /* which of the operand's lines */
    const int32_t *scale;   /* per line: limbs are of x 2^scale; NULL: 0 */
    const uint8_t *special; /* per line, or NULL */
    char *data;
    int64_t limb_bytes, panel_bytes, panels;    /* of a limb of a panel; of a panel */
    int32_t *sums;          /* [limb][chunk][line]: of packed values; only with offsets */
    double *norm;           /* of each line, Euclidean, of planes' pixels squared; only where sums
                               are uncertain */
    int64_t chunks, sum_lines;
    uint8_t *nonzero;       /* [panel][limb][k/kc] */
    int32_t *range; /* units: what is known of each line's values, one array after another */
    int64_t range_lines;
    int64_t blocks;         /* ceil(k/kc) */
    const struct planes *planes;        /* of B: NULL where `data` are panels */
};

/* What decides about results where NaN or infinities are: for each line of an operand the signs of
 * its elements and its infinities, a bit an element, and whether it has a NaN. */
struct classes {
    int64_t words;              /* of a line */
    uint64_t *positive, *negative, *infinite;
    uint8_t *nan;
};

/* Limbs of a convolution's image, made once: of each limb and channel, or group of channels, whose
 * limbs are a word, a row of `length` elements or words, [phase][row][column] with the image's
 * padding.  A phase has the pixels that one element of the
 * window sees as it moves in steps of the stride, so that what is neighbours in the result is
 * neighbours here.  (A window may run backwards: dilate < 0.)  Rows of several images lie below
 * each other.  Register tiles read panels that are gathered from these, an offset for each element
 * of the window. */
struct planes {
    int64_t length, channels;
    int group;                  /* channels of a word, the last with zeros; 1: there are none */
    int64_t rows, columns;      /* of a phase */
    int64_t first;              /* the first row that is kept */
    int64_t high;               /* rows of an image */
    int64_t pad[2];             /* before the image: rows, columns */
    int64_t phases;
    const int64_t (*phase)[2];  /* where one begins: row, column of the padded image */
    int nr;                     /* columns of a panel that is gathered */
    int64_t taps;
    const int64_t *tap;         /* of each element of the window: pixels from the first */
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
    int64_t view_k; /* of the operands: k may be a part, or have zeros of groups of channels more */
    struct packed op[2];
    struct view whole[2];   /* the operands from the beginning of k on */
    struct output_view c;
    int64_t i0, j0;         /* of this part of C */
    const void *alpha, *beta;
    double alpha_f64, beta_f64;
    int64_t mb, nb;         /* rows and columns of a block, at most the configuration's */
    int64_t blocks_j;       /* blocks of nb columns */
    /* pack: tasks of A, of B; lines and elements along k of a task; tasks that share lines */
    int64_t tasks[2], lines[2], depth[2], cuts[2];
    int32_t stores;         /* register tiles go straight to C */
    int32_t adds;           /* C, or the scratch where tiles are not stored, holds the sum of the
                               parts of k before */
    int32_t more;           /* the scratch keeps the sum for later parts: nothing is stored */
    int32_t row;            /* in parts of k: the only row, of floats that share an accumulator */
    int64_t overflow;
    int64_t *recomputed;      /* totals that left their element undecided */
    uint64_t seed;
    struct unit_counts *counts;
    const struct classes *classes;      /* of A, of B; where one of them has special lines */
    int64_t room;           /* planes: where in a worker's scratch a panel is gathered */
    int64_t *recomputed_ns; /* how long these took */
};

/* What is rare or slow anyway is not compiled into every kernel: cold.c. */
struct kernel_cold {
    /* Elements of lines first.. and of k from p0, as rows of 16 lanes: any strides, windows of
     * images; what does not exist is zero. */
    void (*rows)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 char *room);
    /* Elements of 4 or 8 bytes that are neighbours along k, len of each lane, a multiple of 16 in a
     * stretch of 64, as they are packed. */
    void (*pack)(const struct kernel_call *c, int side, const int64_t first_live_p0_len[4],
                 int lanes, char *to, int64_t stride);
    /* Bytes that are neighbours along k, at most 64 of each lane, as 16 rows of 16 words of four;
     * behind the last are zeros. */
    void (*words_of_bytes)(const struct kernel_call *c, int side,
                           const int64_t first_live_p0_len[4], char *room);
    /* Elements of any format that embeds in binary64. */
    void (*load)(limber_format f, const char *from, double *to, int n);
    /* Element (i,j) of this part of C: from NaN or infinities, from n words times 2^exp and from
     * its totals, 1 when it does not fit an integer; from a sum in binary64. */
    int64_t (*special)(const struct kernel_call *c, int64_t i, int64_t j);
    int64_t (*words)(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                     int exp);
    int64_t (*total)(const struct kernel_call *c, int64_t i, int64_t j, const char *total,
                     int64_t stride);
    void (*sum)(const struct kernel_call *c, int64_t i, int64_t j, double x);
    /* From a sum that is off by less than `off`: 0 where that does not tell. */
    int (*near)(const struct kernel_call *c, int64_t i, int64_t j, double high, double low,
                double off);
    /* From the operands: the exact sum of products. */
    int64_t (*exact)(const struct kernel_call *c, int64_t i, int64_t j);
    /* The element at p as the nearest double. */
    double (*value)(limber_format f, const char *p);
    int64_t (*nanoseconds)(void);       /* of a clock that never goes back */
};
extern const struct kernel_cold limber_kernel_cold;

/* config.c: `accumulator` first sums pairs of doubles, which decide most binary64 and binary32. */
bool limber_sums_pairs(const struct kernel_config *c);

/* transpose.c: `count` elements of 16 lines, of 4 or 8 bytes, transposed 16 by 16: row p, `stride`
 * bytes after the one before, gets element p of the first `lanes` lines; of 12 lanes only 12 lines
 * are read.  One for each instruction set. */
typedef void kernel_transpose(const char *const line[16], int size, int lanes, char *to,
                              int64_t stride, int64_t count);
kernel_transpose limber_transpose, limber_transpose_avx2, limber_transpose_avx512;
kernel_transpose *limber_transpose_here(void);  /* cold.c: this machine's */

/* planes.c, one for each instruction set. */
kernel_gather limber_planes_gather, limber_planes_gather_avx2, limber_planes_gather_avx512;
kernel_window_sums limber_planes_sums, limber_planes_sums_avx2, limber_planes_sums_avx512;
kernel_window_norms limber_planes_norms, limber_planes_norms_avx2, limber_planes_norms_avx512;
kernel_plane_copy limber_planes_copy, limber_planes_copy_avx2, limber_planes_copy_avx512;
/* cold.c: sets those of this machine. */
void limber_planes_code(struct planes *x);

/* special.c: words of 64 bits that an operand's classes take, of so many lines; then they are set
 * from `memory` and filled, sixteen lines a task. */
int64_t limber_classes_bytes(int64_t lines, int64_t k);
void limber_classes_set(struct classes *s, int64_t lines, int64_t k, char *memory);
void limber_classes_fill(const struct classes *s, const struct view *v, limber_format f,
                         int64_t lines, int64_t k, int64_t task);
/* The sum of products of lines i and j as NaN and infinities make it; 0 where there is none. */
double limber_classes_sum(const struct classes *a, int64_t i, const struct classes *b, int64_t j);

/* pairs.c: what backend.small asks for. */
typedef int64_t kernel_pairs(const struct call *c, limber_format a, limber_format b,
                             limber_format to, double allowed);
kernel_pairs limber_pairs_run, limber_pairs_run_avx2, limber_pairs_run_avx512;

/* vectors.c: products of rows and a vector in order 1, of f64 and of f32. */
typedef void kernel_sums(const struct vector_sums *s);
kernel_sums limber_vectors_sums64, limber_vectors_sums64_avx2, limber_vectors_sums64_avx512;
kernel_sums limber_vectors_sums32, limber_vectors_sums32_avx2, limber_vectors_sums32_avx512;

/* direct.c: what backend.direct asks for. */
typedef void kernel_direct(const struct fixed *f, const struct scaling *x, int size, const void *a,
                           const void *b, void *c);
kernel_direct limber_direct_run_avx2, limber_direct_run_avx512, limber_direct_run_neon;
extern const int64_t limber_direct_along[LIMBER_SMALL_K]; /* prebuilt.c: 0, 1, 2, ... */

/* A strip of C, at most three vectors wide (without AVX-512 two): chains of k products from +0,
 * stored, or added to what is there. */
struct direct_strip {
    int64_t m, k, columns;
    const void *a;              /* rows of A, a_row elements apart; or, */
    const void *const *line;    /* where this is not NULL, where each begins */
    const int64_t *at;          /* their elements, from there */
    int64_t beside;             /* not 0: rows of A lie side by side, elements so far apart */
    const void *b;              /* rows of B are dense, b_row elements apart; or, */
    const int64_t *b_at;        /* where this is not NULL, where each begins */
    void *room;                 /* NULL, or where B is copied to first */
    void *c;                    /* rows of C are dense, c_row elements apart; or, */
    void *const *c_line;        /* where this is not NULL, where column 0 of each is; */
    int64_t column;             /* the strip's first */
    int64_t a_row, b_row, c_row;        /* elements */
    const struct scaling *scaling;      /* NULL, or in the place of `add` */
    int size, add;
    int follows;                /* sums go on with what is in C */
    int fetches;                /* rows of A, which are stretches, ahead: no strip has read them */
};
typedef void kernel_strip(const struct direct_strip *s);
kernel_strip limber_direct_strip_avx2, limber_direct_strip_avx512, limber_direct_strip_neon;

/* functions.c: of backend.function_ops. */
/* narrow.c: narrow_ops. */
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
    limber_functions_look_up_bytes; /* of bytes to bytes, with CPU_vbmi */
typedef void kernel_functions_widen(limber_format f, const void *src, double *x, int64_t n);
typedef void kernel_functions_narrow(limber_format f, const double *x, void *dst, int64_t n);
kernel_functions_widen limber_functions_widen_avx2, limber_functions_widen_avx512,
    limber_functions_widen_neon;
kernel_functions_narrow limber_functions_narrow_avx2, limber_functions_narrow_avx512,
    limber_functions_narrow_neon;
/* steps.c: the same; they return whether they have served. */
typedef int kernel_steps_run(const struct epilogue_step *s, int narrow, const void *x,
                             const void *y, void *to, int64_t n);
typedef int kernel_steps_store(const float *x, limber_format f, void *to, int64_t n);
kernel_steps_run limber_steps_run_avx2, limber_steps_run_avx512, limber_steps_run_neon;
kernel_steps_store limber_steps_store_avx2, limber_steps_store_avx512, limber_steps_store_neon;

/* depthwise.c: of backend.depthwise. */
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

/* The two entry points of a kernel.  Both may run on many threads at once. */
typedef void kernel_pack(struct kernel_call *c, int64_t task);
typedef void kernel_block(struct kernel_call *c, int64_t task, char *scratch);

/* exact.c: those of the scheme `accumulator`, which are part of the library. */
kernel_pack limber_exact_pack, limber_exact_pack_avx2, limber_exact_pack_avx512;
kernel_block limber_exact_block, limber_exact_block_avx2, limber_exact_block_avx512;

#endif
