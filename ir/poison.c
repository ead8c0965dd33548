/* SPDX-License-Identifier: BSD-3-Clause */
#include "ir/poison.h"

#include <stdint.h>
#include <string.h>

bool limber_poisons;

/* The pattern: a signalling NaN in binary64 and binary32, and unusual values as bytes and
 * integers. */
static const uint64_t pattern = UINT64_C(0x7ff4a5a57fa5b6c7);

/* Fills memory with bytes that are NaN as floats, so that tests notice reads of unset memory. */
void limber_poison_fill(void *memory, size_t bytes)
{
    char *to = memory;

    for (size_t at = 0; at < bytes; at += sizeof pattern)
        memcpy(to + at, &pattern, bytes - at < sizeof pattern ? bytes - at : sizeof pattern);
}
