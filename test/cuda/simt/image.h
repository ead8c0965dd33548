/* SPDX-License-Identifier: BSD-3-Clause
 * Format of a compiled kernel, which nvrtc.c writes and driver.c reads: this header, then a shared
 * object. */
#ifndef LIMBER_SIMT_IMAGE_H
#define LIMBER_SIMT_IMAGE_H

#include <stdint.h>

#define SIMT_IMAGE UINT64_C(0x3230746d6973ff7f)

/* The head of an image that takes the place of a cubin. */
struct image {
    uint64_t magic, size;
    uint32_t toolkit, unused;   /* major version of CUDA that the compiler simulates */
};

#endif
