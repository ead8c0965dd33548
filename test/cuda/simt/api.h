/* SPDX-License-Identifier: BSD-3-Clause
 * What compiled kernels (C++, through device.h) ask of the engine that runs them (C).  A kernel is
 * a shared object; the driver hands it this table when the module is loaded. */
#ifndef LIMBER_SIMT_API_H
#define LIMBER_SIMT_API_H

enum { SIMT_VERSION = 3 };      /* of this file: objects made by another one are refused */

/* What products multiply: 32 bytes along k.  Of i8, + 1: a is signed, + 2: b is. */
enum simt_kind { SIMT_I8, SIMT_F16 = 4, SIMT_BF16, SIMT_TF32, SIMT_E4M3, SIMT_E5M2 };

/* The thread that runs. */
struct simt_now {
    int thread, block, blocks;
};

struct simt_api {
    const struct simt_now *now;

    /* Check an access and return where the bytes are. */
    void *(*global_read)(const void *p, uint32_t size, uint32_t align, int constant);
    void *(*global_write)(void *p, uint32_t size, uint32_t align);
    void *(*global_atomic)(void *p, uint32_t size, uint32_t align);
    void *(*shared_read)(uint32_t at, uint32_t size, uint32_t align);
    void *(*shared_write)(uint32_t at, uint32_t size, uint32_t align);

    void (*sync)(int id, int threads);          /* 0, 0: the block */
    void (*sync_warp)(void);
    void (*sync_cluster)(void);
    int (*warp)(void);
    uint32_t (*shuffle_xor)(uint32_t v, int mask);
    void (*registers)(int n);

    void (*copy)(uint32_t at, const void *p, int bytes, int size);
    void (*copy_group)(void);
    void (*copy_wait)(int n);

    void (*load_fragments)(uint32_t *r, uint32_t at);
    void (*mma)(int kind, void *d, const uint32_t *a, const uint32_t *b);
    void (*mma_f64)(double *d, double a, double b);
    void (*wmma_load)(uint32_t *r, uint32_t at, int ld);
    void (*wmma)(float *d, const uint32_t *a, const uint32_t *b);
    void (*wmma_store)(uint32_t at, const float *d, int ld);

    void (*barrier_init)(uint32_t at, int count);
    void (*barrier_init_done)(void);
    void (*barrier_arrive)(uint32_t at, uint32_t bytes);    /* that the phase awaits more */
    void (*barrier_arrive_in)(uint32_t at, int rank);
    void (*barrier_wait)(uint32_t at, uint32_t parity);
    /* blocks: a bit for each of the cluster; 0: this one */
    void (*tensor_load)(uint32_t at, const void *map, int x, int y, int z, uint32_t barrier,
                        uint32_t blocks);
    void (*tensor_prefetch)(const void *map);
    void (*fence_async)(void);

    void (*group_fence)(void);
    void (*group_commit)(void);
    void (*group_wait)(int n);
    void (*group)(int kind, int n, void *d, uint64_t a, uint64_t b, int keep);
};

#endif
