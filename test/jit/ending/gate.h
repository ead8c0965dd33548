/* SPDX-License-Identifier: BSD-3-Clause
 * Variables that the program shares with the library before libLLVM. */
#ifndef LIMBER_TEST_GATE_H
#define LIMBER_TEST_GATE_H

#include <stdatomic.h>

/* Defined by the program; the preloaded gate finds them by name. */
extern atomic_int gate_shut; /* compilations wait */
extern atomic_int gate_held; /* number of compilations that have begun to wait */
extern atomic_int gate_in_background; /* the waiting thread is one of the library's */
extern atomic_int gate_lost; /* the waiting thread never continues */

#endif
