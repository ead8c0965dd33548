/* SPDX-License-Identifier: BSD-3-Clause
 * The interface between compiled kernels (C++, through device.h) and the engine that runs them (C).
 * A kernel is a shared object; the driver passes it this table when the module is loaded. */
#ifndef LIMBER_SIMT_API_H
#define LIMBER_SIMT_API_H

enum { SIMT_VERSION = 4 };      /* version of this file; objects of other versions are refused */

/* Operand types of products of 32 bytes along k. i8: + 1 if a is signed, + 2 if b is. */
enum simt_kind { SIMT_I8, SIMT_F16 = 4, SIMT_BF16, SIMT_TF32, SIMT_E4M3, SIMT_E5M2 };

/* Block-scaled products, by their instructions' names. */
enum simt_scaled { SIMT_MXF8F6F4 = 1, SIMT_MXF4, SIMT_MXF4NVF4 };

/* Address at which a block's shared memory begins in assembly. */
enum { SIMT_SHARED = 1024 };

/* An operand of inline assembly: its constraint, and its value's address. */
struct simt_operand {
    const char *constraint;
    void *at;
    uint64_t size;
};

/* The running thread. */
struct simt_now {
    int thread, block, blocks;
};

struct simt_api {
    const struct simt_now *now;

    /* The two functions below check an access and return the address of its bytes. */
    void *(*global_read)(const void *p, uint32_t size, uint32_t align, int constant);
    void *(*global_write)(void *p, uint32_t size, uint32_t align);
    void *(*global_atomic)(void *p, uint32_t size, uint32_t align);
    void *(*shared_read)(uint32_t at, uint32_t size, uint32_t align);
    void *(*shared_write)(uint32_t at, uint32_t size, uint32_t align);

    void (*sync)(int id, int threads);          /* 0, 0: the whole block */
    void (*sync_warp)(void);
    int (*warp)(void);
    uint32_t (*shuffle_xor)(uint32_t v, int mask);
    void (*ptx)(const char *text, const struct simt_operand *o, int count);
};

#endif
