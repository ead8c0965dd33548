/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_TEST_GPUS_H
#define LIMBER_TEST_GPUS_H

/* Of tests that a GPU was asked for (LIMBER_TEST_GPU): 77, with a word on stderr, where there is none;
 * else 0. */
int gpu_is_missing(void);

#endif
