/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the CUDA backend. */
#ifndef LIMBER_CUDA_H
#define LIMBER_CUDA_H

#include "backends/cuda/driver.h"
#include "backends/cuda/kernel/args.h"
#include "ir/num/crt.h"

enum cuda_mma_path {
    MMA_PATH_lane,     /* each lane by itself */
    MMA_PATH_warp,     /* a warp: mma */
    MMA_PATH_group,    /* a warpgroup: wgmma */
    MMA_PATH_portable, /* a warp: WMMA */
    MMA_PATH_tensor,   /* a thread, into tensor memory: tcgen05 */
    MMA_PATH_element,  /* a lane, whole elements in a long accumulator */
    MMA_PATH_unit,     /* lanes as a simulated unit */
    MMA_PATH_scan,     /* a scan, which multiplies nothing */
    MMA_PATH_steps     /* steps behind a product, likewise */
};

struct cuda_side {
    limber_format f, limb;      /* as stored; of a limb, carriers included */
    int32_t limb_kind, limbs, scaled, top, shift, step, is_signed;
    int32_t digits;             /* 32-bit words of a scaled integer */
};

enum { TENSOR_BARRIERS = 48 }; /* bytes of shared memory that pass sums in tensor memory on */
enum { CUDA_ROWS = 34 * 34, CUDA_ACCUMULATORS = 128 };    /* 165 bits in slices of five */

/* What the launcher must know of a kernel; goes to disk in front of its code, without holes. */
struct cuda_config {
    struct cuda_side side[2];
    limber_format result, scalars;
    int32_t mma_path, unit, reconstruct;
    int32_t totals;             /* exact totals in memory, finished by a second kernel */
    int32_t direct;             /* the multiply kernel stores C */
    int32_t rows, accumulators, most_rows;      /* of one accumulator */
    int32_t bytes;              /* of a limb's element, */
    int32_t packed;             /* or of so many */
    int32_t bm, bn, wm, wn, step, stages;       /* step: bytes along k */
    int32_t threads, shared;    /* of the multiply kernel */
    int32_t cluster;            /* blocks that may share B's tiles */
    int32_t chunk_steps, flush_steps;
    int32_t alpha, beta, wrap, integral;
    int32_t library;            /* cuBLAS multiplies where it can */
    int32_t special;            /* NaN or infinities may be in lines that are cut into limbs */
    int32_t total_bytes;        /* 1: residues, 4: integers (8 when wide), 8: sums */
    int32_t fast_doubles;       /* FP64 has half of FP32's rate and more */
    int32_t long_words, long_base;      /* unit exact */
    struct cuda_model {                 /* unit model */
        int32_t block, piece;           /* positions of a block, slots that it fills */
        int32_t group, split, scale_block, lanes;       /* 0, 1, 0, 0: none */
        int32_t start_c, counts, narrow;
    } model;
    struct cuda_block_scaled {          /* the same by instructions for blocks with scales */
        int32_t kind;           /* enum block_scaled */
        int32_t scales;         /* bytes of scales beside a step of a line */
    } mx;
    int32_t parted;             /* operands may show some of their tiles only */
    int32_t inside;             /* the multiply kernel makes the limbs */
    int32_t rsc, window;        /* a convolution in this order; B is fetched through its window */
};

/* The way of a launch that cuBLAS does not make. */
static inline enum way_id limber_cuda_kernel_way(const struct cuda_config *c)
{
    return c->inside || c->mma_path == MMA_PATH_element ? WAY_inside : WAY_packed;
}

/* Whether tensor cores have products of this unit: INT8 and small floats. */
bool limber_cuda_on_cores(enum unit u);
/* Who multiplies straight from shared memory, where a group of threads brings tiles (fetch.h). */
bool limber_cuda_fetches(const struct cuda_config *c);
/* The same of products on a unit of this target, and whether they go to tensor memory. */
bool limber_cuda_by_tiles(enum unit u, const struct target *t);
bool limber_cuda_into_columns(enum unit u, const struct target *t);
/* config.c: a plan's constants, and the rest of them as text behind the kernels' includes. */
bool limber_cuda_config(const struct plan *p, const struct target *t, struct cuda_config *c,
                        struct diag *d);
/* unit.c: the same of a simulated unit; limits of its narrow lanes; their text. */
void limber_cuda_unit(const struct plan *p, struct cuda_config *c);
void limber_cuda_unit_source(const struct plan *p, const struct cuda_config *c, struct text *out);
/* The same of instructions for blocks with scales. */
void limber_cuda_block_scaled(const struct plan *p, const struct target *t, struct cuda_config *c);
void limber_cuda_block_scaled_source(const struct plan *p, struct text *out);
/* source.c: the whole source. */
bool limber_cuda_source(const struct plan *p, const struct cuda_config *c, struct text *out,
                        struct diag *d);
/* The same of a scan of operands in side[0].f. */
bool limber_cuda_scan_source(const struct cuda_config *c, struct text *out, struct diag *d);
/* doubles.c: P and P/p_l as doubles whose sums of remainders are exact (docs/accuracy.md,
 * "Arithmetic of the kernels"): the constants of a kernel's columns, the lowest first. */
enum { CUDA_DOUBLES = 5 };
struct cuda_doubles {
    int columns;
    double cofactor[LIMBER_MODULI][CUDA_DOUBLES], begin[CUDA_DOUBLES], product[CUDA_DOUBLES];
    double inverse;             /* 1/P */
};
/* false: they would be more. */
bool limber_cuda_doubles(const struct limber_crt *crt, struct cuda_doubles *d);
/* steps.c: the same of steps on numbers. */
bool limber_cuda_steps_source(const struct epilogue *e, struct text *out, struct diag *d);
/* A format as an initialiser. */
void limber_cuda_format_source(struct text *t, limber_format f);
/* planes.c: whether a scan's source has the kernels for complex matrices by three products, too. */
bool limber_cuda_has_planes(limber_format f);
/* The kernels' headers, as NVRTC wants them. */
extern const struct cuda_header limber_cuda_headers[];
extern const int limber_cuda_header_count;

/* cublas.c */
bool limber_cublas_present(void);

/* tiles.c: how threads share a product. */
extern const struct block_rules limber_cuda_blocks;
enum { WINDOW_LINE = 16 }; /* bytes of shared memory that a convolution needs for a line of B */

/* target.c: what device `ordinal` offers, and what the named architecture would. */
bool limber_cuda_target(struct target *t, int ordinal, struct diag *d);
bool limber_cuda_arch(struct target *t, int major, int minor, int multiprocessors, double hertz,
                      int64_t shared, int64_t l2, struct diag *d);

#endif
