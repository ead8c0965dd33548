/* SPDX-License-Identifier: BSD-3-Clause
 * What compiled kernels (C++, through device.h) ask of the engine that runs them (C).  A kernel is
 * a shared object; the driver hands it this table when the module is loaded. */
#ifndef LIMBER_SIMT_API_H
#define LIMBER_SIMT_API_H

enum { SIMT_VERSION = 4 };      /* of this file: objects made by another one are refused */

/* What products multiply: 32 bytes along k.  Of i8, + 1: a is signed, + 2: b is. */
enum simt_kind { SIMT_I8, SIMT_F16 = 4, SIMT_BF16, SIMT_TF32, SIMT_E4M3, SIMT_E5M2 };

/* Products of blocks with scales, by the names of their instructions. */
enum simt_scaled { SIMT_MXF8F6F4 = 1, SIMT_MXF4, SIMT_MXF4NVF4 };

/* Where a block's shared memory begins in the addresses that assembly has. */
enum { SIMT_SHARED = 1024 };

/* An operand of assembly: its constraint, and where its value is. */
struct simt_operand {
    const char *constraint;
    void *at;
    uint64_t size;
};

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
    int (*warp)(void);
    uint32_t (*shuffle_xor)(uint32_t v, int mask);
    void (*ptx)(const char *text, const struct simt_operand *o, int count);
};

#endif
