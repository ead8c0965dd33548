/* SPDX-License-Identifier: BSD-3-Clause
 * Internal declarations of the CUDA backend. */
#ifndef LIMBER_CUDA_H
#define LIMBER_CUDA_H

#include "backends/cuda/driver.h"
#include "backends/cuda/kernel/args.h"
#include "ir/num/crt.h"

/* How the multiply kernel of a plan computes products: by which instructions, or by which
 * algorithm. */
enum cuda_mma_path {
    MMA_PATH_lane,     /* scalar instructions: each thread computes its own elements of C */
    MMA_PATH_warp,     /* mma.sync instructions of a warp */
    MMA_PATH_group,    /* wgmma instructions of a warpgroup (four warps) */
    MMA_PATH_portable, /* WMMA fragments of a warp */
    MMA_PATH_tensor, /* tcgen05 instructions, which one thread issues; sums are in tensor memory */
    MMA_PATH_element, /* each thread sums an element of C in a long exact accumulator */
    MMA_PATH_unit, /* threads simulate an arithmetic unit */
    MMA_PATH_scan, /* computes no products: the kernels of a scan */
    MMA_PATH_steps /* computes no products: the kernel of an epilogue's steps */
};

/* How kernels read one operand and store its limbs. */
struct cuda_side {
    /* number formats of an element in memory, and of an element of a limb */
    limber_format f, limb;
    /* limb_kind: enum limb_kind.  scaled: 0, SCALED_lines or SCALED_all.  All other fields of this
     * line are attributes of the node that makes the limbs. */
    int32_t limb_kind, limbs, scaled, top, shift, step, is_signed;
    int32_t balanced; /* 1 if slices are signed digits, made of elements rounded to nearest */
    int32_t digits; /* number of 32-bit words of a scaled integer */
};

/* Bytes of shared memory for the barriers that tell which sums in tensor memory are complete. */
enum { TENSOR_BARRIERS = 48 };
/* Largest numbers of rows and of accumulators in a product table.  34 limbs hold integers of 165
 * bits as slices of five bits. */
enum { CUDA_ROWS = 34 * 34, CUDA_ACCUMULATORS = 128 };

/* The properties of a kernel that the launching code reads.  A stored kernel begins with this
 * structure, so it has no padding. */
struct cuda_config {
    struct cuda_side side[2];
    limber_format result, scalars;
    /* enum cuda_mma_path, enum unit, and the plan's attribute `reconstruct` */
    int32_t mma_path, unit, reconstruct;
    /* 1 if the multiply kernel stores the exact total of each accumulator, and a second kernel
     * combines these totals to C */
    int32_t totals;
    int32_t direct; /* 1 if the multiply kernel stores C itself */
    /* Numbers of rows and of accumulators in the product table.  most_rows: largest number of rows
     * that share one accumulator. */
    int32_t rows, accumulators, most_rows;
    int32_t bytes; /* number of bytes that hold `packed` elements of a limb */
    int32_t packed; /* number of elements in `bytes` bytes: 1, or 2 for FP4 */
    /* Tiles of C: bm x bn of a thread block, wm x wn of a warp.  step: bytes along k of one
     * pipeline stage.  stages: number of pipeline stages in shared memory. */
    int32_t bm, bn, wm, wn, step, stages;
    /* Launch parameters of the multiply kernel: threads per block, and bytes of dynamic shared
     * memory. */
    int32_t threads, shared;
    /* number of thread blocks in a cluster, which share tiles of B; 1 if there are no clusters */
    int32_t cluster;
    /* number of steps along k after which a chain ends, and number after which exact totals are
     * moved from registers to memory; joins: 1 if all accumulators end with the chain */
    int32_t chunk_steps, flush_steps, joins;
    /* 1 if the epilogue has alpha, has beta, wraps integers, or requires results that are
     * integers */
    int32_t alpha, beta, wrap, integral;
    /* 1 if cuBLAS may compute the product, if it is present and takes the layouts */
    int32_t library;
    /* 1 if operands may contain NaN or infinities, which limbs cannot represent */
    int32_t special;
    /* bytes of a stored total: 1 for a residue, 4 for an integer (8 if it needs 64 bits), 8 for a
     * float sum */
    int32_t total_bytes;
    int32_t fast_doubles; /* 1 if the device's FP64 rate is at least half of its FP32 rate */
    /* unit `exact`: number of 64-bit words of its long accumulator, and exponent of the lowest
     * bit */
    int32_t long_words, long_base;
    struct cuda_model { /* a simulated unit (unit=model) */
        /* number of elements in the unit's block along k, and number to which a block is padded */
        int32_t block, piece;
        /* members of limber_unit; a unit without these features has 0, 1, 0, 0 */
        int32_t group, split, scale_block, lanes;
        /* start_c: sums start with C.  counts: enum counts.  f32_lanes: FP32 lanes can simulate the
         * unit exactly. */
        int32_t start_c, counts, f32_lanes;
    } model;
    struct cuda_block_scaled { /* a unit that the device's block-scaled instructions compute */
        int32_t kind; /* the instructions' kind, of enum block_scaled */
        int32_t scales; /* bytes of scales per pipeline step and line (row of A or column of B) */
    } mx;
    /* 1 if the plan computes a part of a product, which may omit tiles of the operands
     * (docs/mixed.md) */
    int32_t parted;
    int32_t inside; /* 1 if the multiply kernel splits elements into limbs itself */
    /* rsc: 1 if k of a convolution has the order row, column, channel.  window: 1 if B is read from
     * the packed image through the convolution's window, not from an im2col matrix. */
    int32_t rsc, window;
};

/* Returns the way (enum way_id, a code path) of a launch that cuBLAS does not compute. */
static inline enum way_id limber_cuda_kernel_way(const struct cuda_config *c)
{
    return c->inside || c->mma_path == MMA_PATH_element ? WAY_inside : WAY_packed;
}

/* True if this unit's format (INT8 or a small float) is multiplied by tensor cores. */
bool limber_cuda_is_tensor_unit(enum unit u);
/* True if the multiply kernel reads operands from shared memory, which a group of producer threads
 * fills (kernel/fetch.h). */
bool limber_cuda_fetches(const struct cuda_config *c);
/* True if the unit's instructions on this target read operands from shared memory directly. */
bool limber_cuda_reads_shared(enum unit u, const struct target *t);
/* True if the unit's instructions on this target leave their sums in tensor memory. */
bool limber_cuda_uses_tensor_memory(enum unit u, const struct target *t);
/* Fills *c with the constants for which the kernels of a plan are compiled (config.c).  Returns
 * false, with an error, if the plan is not supported. */
bool limber_cuda_config(const struct plan *p, const struct target *t, struct cuda_config *c,
                        struct diag *d);
/* Sets the constants of a simulated unit (unit.c). */
void limber_cuda_set_unit(const struct plan *p, struct cuda_config *c);
/* Prints the constants of a simulated unit as source, with the limits of its FP32 lanes
 * (unit.c). */
void limber_cuda_unit_source(const struct plan *p, const struct cuda_config *c, struct text *out);
/* Sets the constants of block-scaled instructions (unit.c). */
void limber_cuda_set_block_scaled(const struct plan *p, const struct target *t,
                                  struct cuda_config *c);
/* Prints the constants of block-scaled instructions as source (unit.c). */
void limber_cuda_block_scaled_source(const struct plan *p, struct text *out);
/* Implements code_ops.named (target.c). */
bool limber_cuda_named(struct target *t, const char *name);
/* Prints the complete source of a plan's kernels (source.c). */
bool limber_cuda_source(const struct plan *p, const struct cuda_config *c, struct text *out,
                        struct diag *d);
/* Prints the source of the kernels that scan operands of format c->side[0].f (source.c). */
bool limber_cuda_scan_source(const struct cuda_config *c, struct text *out, struct diag *d);
/* Constants of the Chinese remainder theorem as doubles: the product P of all moduli p_l and the
 * cofactors P/p_l, each split into columns of bits, lowest column first.  A kernel's sums of
 * residues times columns stay below 2^53, so they are exact (doubles.c). */
enum { CUDA_DOUBLES = 5 };
struct cuda_doubles {
    /* columns: number of columns in use.  begin: [column] start value of a kernel's sum
     * (doubles.c). */
    int columns;
    double cofactor[LIMBER_MODULI][CUDA_DOUBLES], begin[CUDA_DOUBLES], product[CUDA_DOUBLES];
    double inverse; /* the reciprocal 1/P */
};
/* Splits P and all P/p_l into columns of doubles.  Returns false if more than CUDA_DOUBLES columns
 * would be needed (doubles.c). */
bool limber_cuda_doubles(const struct limber_crt *crt, struct cuda_doubles *d);
/* Prints the source of an epilogue's steps (steps.c). */
bool limber_cuda_steps_source(const struct epilogue *e, struct text *out, struct diag *d);
/* Prints a format as the initialiser of a limber_format (source.c). */
void limber_cuda_format_source(struct text *t, limber_format f);
/* True if the kernels of a scan of this format include those that compute complex products by three
 * real products (planes.c). */
bool limber_cuda_has_planes(limber_format f);
/* The header files that kernels include, embedded in the library, for NVRTC. */
extern const struct cuda_header limber_cuda_headers[];
extern const int limber_cuda_header_count;

/* True if cuBLAS is open or can be opened now (cublas.c). */
bool limber_cublas_present(void);

/* Chooses tiles, and predicts the seconds that products take (tiles.c). */
extern const struct block_rules limber_cuda_blocks;
/* Bytes of shared memory per column of B, in a convolution that reads B through its window. */
enum { WINDOW_LINE = 16 };

/* Fills *t with a description of the device with this index (target.c). */
bool limber_cuda_target(struct target *t, int ordinal, struct diag *d);
/* Fills *t with a description of a device of this architecture, number of multiprocessors, clock
 * rate, and bytes of shared memory and L2 cache (target.c). */
bool limber_cuda_arch(struct target *t, int major, int minor, int multiprocessors, double hertz,
                      int64_t shared, int64_t l2, struct diag *d);

#endif
