/* SPDX-License-Identifier: BSD-3-Clause
 * A fuzz target: a reader of input that comes from outside.  libFuzzer runs it for hours
 * (tools/soak.sh).  driver.c runs it for a moment with a fixed seed, as a test. */
#ifndef LIMBER_FUZZ_H
#define LIMBER_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Writes the i-th valid input, of at most FUZZ_MOST bytes, and returns its size.  0 if there is no
 * such input. */
size_t fuzz_seed(int i, uint8_t *to);

#endif
