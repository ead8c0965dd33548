/* SPDX-License-Identifier: BSD-3-Clause
 * Internal declarations of the CUDA backend. */
#ifndef LIMBER_CUDA_H
#define LIMBER_CUDA_H

#include "backends/cuda/driver.h"
#include "backends/cuda/kernel/args.h"
#include "ir/num/crt.h"

enum cuda_mma_path {
    MMA_PATH_lane,     /* each thread multiplies alone */
    MMA_PATH_warp,     /* a warp, with mma */
    MMA_PATH_group,    /* a warpgroup, with wgmma */
    MMA_PATH_portable, /* a warp, with WMMA */
    MMA_PATH_tensor,   /* one thread, into tensor memory, with tcgen05 */
    MMA_PATH_element,  /* each thread sums whole elements in a long accumulator */
    MMA_PATH_unit,     /* threads compute as a simulated unit */
    MMA_PATH_scan,     /* a scan, which multiplies nothing */
    MMA_PATH_steps     /* an epilogue's steps, which multiply nothing */
};

struct cuda_side {
    limber_format f, limb; /* formats of an element in memory, and of a limb with its carrier */
    int32_t limb_kind, limbs, scaled, top, shift, step, is_signed;
    int32_t digits;             /* 32-bit words of a scaled integer */
};

/* bytes of shared memory for barriers that hand over sums in tensor memory */
enum { TENSOR_BARRIERS = 48 };
/* limbs of integers of 165 bits in slices of five */
enum { CUDA_ROWS = 34 * 34, CUDA_ACCUMULATORS = 128 };

/* The properties of a kernel that the launcher reads.  This structure is stored before the code on
 * disk, so it has no padding. */
struct cuda_config {
    struct cuda_side side[2];
    limber_format result, scalars;
    int32_t mma_path, unit, reconstruct;
    int32_t totals;             /* exact totals go to memory; a second kernel combines them */
    int32_t direct;             /* the multiply kernel stores C */
    int32_t rows, accumulators, most_rows;      /* most_rows: most rows of one accumulator */
    int32_t bytes;              /* bytes of a limb's element */
    int32_t packed;             /* elements that share these bytes (FP4: 2) */
    /* tiles of blocks and warps; step: bytes along k in a stage */
    int32_t bm, bn, wm, wn, step, stages;
    /* threads of a block; bytes of shared memory; both of the multiply kernel */
    int32_t threads, shared;
    int32_t cluster;            /* blocks of a cluster, which share tiles of B */
    int32_t chunk_steps, flush_steps;
    int32_t alpha, beta, wrap, integral;
    int32_t library;            /* cuBLAS multiplies if it can */
    int32_t special;            /* lines that are split into limbs may have NaN or infinities */
    int32_t total_bytes;        /* bytes: 1: residues, 4: integers (8 if wide), 8: sums */
    int32_t fast_doubles;       /* FP64 has at least half of FP32's rate */
    int32_t long_words, long_base; /* unit exact: size and exponent of the long accumulator */
    struct cuda_model { /* for unit model */
        int32_t block, piece; /* elements of a block along k; slots that it is padded to */
        int32_t group, split, scale_block, lanes; /* 0, 1, 0, 0: none */
        int32_t start_c, counts, narrow;
    } model;
    struct cuda_block_scaled { /* unit model on block-scaled instructions */
        int32_t kind; /* enum block_scaled */
        int32_t scales; /* bytes of scales for a line in one step */
    } mx;
    int32_t parted; /* some tiles of the operands may be left out (mixed products) */
    int32_t inside; /* the multiply kernel makes the limbs */
    /* the convolution's k has the order r, s, channel; B is fetched through a window */
    int32_t rsc, window;
};

/* The way of a launch that cuBLAS does not take. */
static inline enum way_id limber_cuda_kernel_way(const struct cuda_config *c)
{
    return c->inside || c->mma_path == MMA_PATH_element ? WAY_inside : WAY_packed;
}

/* True if tensor cores multiply this unit's format: INT8 and small floats. */
bool limber_cuda_is_tensor_unit(enum unit u);
/* True if products read operands from shared memory, which a group of producer threads fills
 * (fetch.h). */
bool limber_cuda_fetches(const struct cuda_config *c);
/* True if this target's products of the unit read shared memory directly; true if they go to tensor
 * memory. */
bool limber_cuda_reads_shared(enum unit u, const struct target *t);
bool limber_cuda_uses_tensor_memory(enum unit u, const struct target *t);
/* config.c: fills *c with the constants that the kernels of a plan are compiled with. */
bool limber_cuda_config(const struct plan *p, const struct target *t, struct cuda_config *c,
                        struct diag *d);
/* unit.c: constants of a simulated unit, limits of its FP32 lanes included; prints them as
 * source. */
void limber_cuda_set_unit(const struct plan *p, struct cuda_config *c);
void limber_cuda_unit_source(const struct plan *p, const struct cuda_config *c, struct text *out);
/* unit.c: constants of block-scaled instructions; prints them as source. */
void limber_cuda_set_block_scaled(const struct plan *p, const struct target *t,
                                  struct cuda_config *c);
void limber_cuda_block_scaled_source(const struct plan *p, struct text *out);
/* source.c: prints the whole source. */
bool limber_cuda_source(const struct plan *p, const struct cuda_config *c, struct text *out,
                        struct diag *d);
/* source.c: prints the source of a scan of operands in side[0].f. */
bool limber_cuda_scan_source(const struct cuda_config *c, struct text *out, struct diag *d);
/* doubles.c: columns of P and P/p_l as doubles, the lowest first.  A kernel's sums of residues
 * times columns stay below 2^53 and are exact. */
enum { CUDA_DOUBLES = 5 };
struct cuda_doubles {
    int columns;
    double cofactor[LIMBER_MODULI][CUDA_DOUBLES], begin[CUDA_DOUBLES], product[CUDA_DOUBLES];
    double inverse; /* 1/P */
};
/* doubles.c: splits P and P/p_l into columns of doubles; false if that takes more than
 * CUDA_DOUBLES. */
bool limber_cuda_doubles(const struct limber_crt *crt, struct cuda_doubles *d);
/* steps.c: prints the source of an epilogue's steps. */
bool limber_cuda_steps_source(const struct epilogue *e, struct text *out, struct diag *d);
/* Prints a format as an initialiser. */
void limber_cuda_format_source(struct text *t, limber_format f);
/* planes.c: true if a scan's source also has the kernels for complex products by three real
 * ones. */
bool limber_cuda_has_planes(limber_format f);
/* The kernels' headers, embedded for NVRTC. */
extern const struct cuda_header limber_cuda_headers[];
extern const int limber_cuda_header_count;

/* cublas.c: true if cuBLAS is open or can be opened now */
bool limber_cublas_present(void);

/* tiles.c: tiles and prices of products. */
extern const struct block_rules limber_cuda_blocks;
/* bytes of shared memory for a line of B in a convolution with a window */
enum { WINDOW_LINE = 16 };

/* target.c: describes device `ordinal`, or a device of a given architecture. */
bool limber_cuda_target(struct target *t, int ordinal, struct diag *d);
bool limber_cuda_arch(struct target *t, int major, int minor, int multiprocessors, double hertz,
                      int64_t shared, int64_t l2, struct diag *d);

#endif
