/* SPDX-License-Identifier: BSD-3-Clause
 * The interface between compiled kernels (C++ with device.h) and the engine that runs them (C).  A
 * kernel is a shared object; the driver passes it the table of functions below when the module is
 * loaded. */
#ifndef LIMBER_SIMT_API_H
#define LIMBER_SIMT_API_H

/* version of this interface; the driver refuses objects of other versions */
enum { SIMT_VERSION = 4 };

/* Types of operands of products, which have 32 bytes along k.  To SIMT_I8, 1 is added if A is
 * signed, and 2 if B is signed. */
enum simt_kind { SIMT_I8, SIMT_F16 = 4, SIMT_BF16, SIMT_TF32, SIMT_E4M3, SIMT_E5M2 };

/* Kinds of block-scaled products, named as in PTX instructions. */
enum simt_scaled { SIMT_MXF8F6F4 = 1, SIMT_MXF4, SIMT_MXF4NVF4 };

/* Address at which a block's shared memory begins, as inline assembly sees it. */
enum { SIMT_SHARED = 1024 };

/* An operand of inline assembly: its constraint, and the address and size of its value. */
struct simt_operand {
    const char *constraint;
    void *at;
    uint64_t size;
};

/* Indices of the running thread and its block, and the number of blocks. */
struct simt_now {
    int thread, block, blocks;
};

struct simt_api {
    const struct simt_now *now;

    /* The next functions check an access of the running thread and return the host address of
     * its bytes. */
    void *(*global_read)(const void *p, uint32_t size, uint32_t align, int constant);
    void *(*global_write)(void *p, uint32_t size, uint32_t align);
    void *(*global_atomic)(void *p, uint32_t size, uint32_t align);
    void *(*shared_read)(uint32_t at, uint32_t size, uint32_t align);
    void *(*shared_write)(uint32_t at, uint32_t size, uint32_t align);

    /* waits at the named barrier `id` of `threads` threads; id 0 and threads 0: all threads of the
     * block */
    void (*sync)(int id, int threads);
    void (*sync_warp)(void);
    int (*warp)(void);
    uint32_t (*shuffle_xor)(uint32_t v, int mask);
    void (*ptx)(const char *text, const struct simt_operand *o, int count);
};

#endif
