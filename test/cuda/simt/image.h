/* SPDX-License-Identifier: BSD-3-Clause
 * A compiled kernel as nvrtc.c hands it out and driver.c takes it: this header, then a shared
 * object. */
#ifndef LIMBER_SIMT_IMAGE_H
#define LIMBER_SIMT_IMAGE_H

#include <stdint.h>

#define SIMT_IMAGE UINT64_C(0x3230746d6973ff7f)

struct image {
    uint64_t magic, size;
    uint32_t toolkit, unused;   /* the major version of CUDA that made it */
};

#endif
