/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/research.h as they were in version 0.2.  include/limber/research.h
 * documents them.  The test abi_program is compiled with these headers and runs with the newest
 * library. */
#ifndef LIMBER_RESEARCH_H
#define LIMBER_RESEARCH_H

#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

LIMBER_API limber_status limber_unit_lpgemm(const char *text, const char *layer, limber_unit *unit,
                                            int *listed);

LIMBER_API uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream,
                                       uint32_t index);

LIMBER_API double limber_retention(int acc_bits, int product_bits, int64_t n);
typedef enum limber_chunking {
    LIMBER_CHUNKING_BY_LENGTH,
    LIMBER_CHUNKING_BY_NUMBER
} limber_chunking;
LIMBER_API double limber_retention_chunked(int acc_bits, int product_bits, int64_t length,
                                           int64_t groups, limber_chunking chunking);
LIMBER_API double limber_unit_retention(const limber_unit *unit, int64_t k);

#ifdef __cplusplus
}
#endif

#endif
