/* SPDX-License-Identifier: BSD-3-Clause
 * Between the program and what stands before libLLVM. */
#ifndef LIMBER_TEST_GATE_H
#define LIMBER_TEST_GATE_H

#include <stdatomic.h>

/* The program's; the library in between finds them by name. */
extern atomic_int gate_shut; /* compilations wait */
extern atomic_int gate_held; /* so many have begun to wait */
extern atomic_int gate_in_background; /* it is a thread of the library's own that waits */
extern atomic_int gate_lost; /* the one that waits never goes on */

#endif
