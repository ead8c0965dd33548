/* SPDX-License-Identifier: BSD-3-Clause
 * Variables that the test program shares with the library before libLLVM (gate.c). */
#ifndef LIMBER_TEST_GATE_H
#define LIMBER_TEST_GATE_H

#include <stdatomic.h>

/* Flags of the gate, at which compilations wait.  The program defines them; the preloaded library
 * finds them by name. */
extern atomic_int gate_shut; /* true: compilations must wait */
extern atomic_int gate_held; /* number of compilations that have begun to wait */
/* the thread that waits is a background thread of the library */
extern atomic_int gate_in_background;
extern atomic_int gate_lost; /* the thread that waits never continues */

#endif
